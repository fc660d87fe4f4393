//===- GoodputTest.cpp - what the time of a job went into -----------------===//

#include "RunTesting.h"

#include "kerf/Train/Json.h"
#include "kerf/Train/job/Goodput.h"

#include <vector>

using namespace kerf::runtime;

static FaultRecord told(FaultKind kind, int64_t step, double at,
                        double saving = 0, int32_t rank = 0) {
  return {kind, rank, step, at, saving};
}
static FaultRecord begins(int64_t step, double at, double saving = 0) {
  return told(FaultKind::None, step, at, saving);
}
static FaultRecord ends(int64_t step, double at) {
  return told(FaultKind::Done, step, at);
}

static AttemptTimes
attempt(double start, const std::vector<FaultRecord> &records, double end) {
  AttemptClock clock(start);
  for (const FaultRecord &record : records)
    clock.note(record);
  return clock.until(end);
}

static double sumOf(const AttemptTimes &times) {
  double sum = times.startingSec + times.savingSec + times.otherSec +
               times.unfinishedSec;
  for (double sec : times.stepSec)
    sum += sec;
  return sum;
}

// 2 s until the first step; steps of 1 s; between them 3 s, one of a save; the
// third step is not finished.
TEST(Goodput, AnAttemptIsDividedWithoutRest) {
  AttemptTimes times = attempt(10,
                               {begins(1, 12), ends(1, 13), begins(2, 16, 1),
                                ends(2, 17), begins(3, 17)},
                               17.5);
  EXPECT_EQ(times.startingSec, 2);
  EXPECT_EQ(times.savingSec, 1);
  EXPECT_EQ(times.otherSec, 2);
  EXPECT_EQ(times.unfinishedSec, 0.5);
  EXPECT_EQ(times.firstStep, 1);
  EXPECT_EQ(times.stepSec, (std::vector<double>{1, 1}));
  EXPECT_EQ(sumOf(times), 7.5);
}

// What comes after the last step is no step.
TEST(Goodput, TheEndOfAJobIsNoStep) {
  AttemptTimes times = attempt(
      0, {begins(1, 1), ends(1, 2), told(FaultKind::Finished, 1, 5, 2)}, 6);
  EXPECT_EQ(times.savingSec, 2);
  EXPECT_EQ(times.otherSec, 2);
  EXPECT_EQ(times.unfinishedSec, 0);
  EXPECT_EQ(sumOf(times), 6);
}

// An attempt that ends before its first step was starting all the time; faults
// and what other ranks tell change nothing.
TEST(Goodput, OthersAndFaultsTellNoTime) {
  AttemptTimes times = attempt(
      0, {told(FaultKind::Failed, 0, 1), told(FaultKind::None, 1, 2, 0, 3)}, 4);
  EXPECT_EQ(times.startingSec, 4);
  EXPECT_EQ(times.firstStep, 0);
}

// A full pipe drops records: the time of steps that nobody told of is in the
// next one, and nothing is lost.
TEST(Goodput, DroppedRecordsLoseNoTime) {
  AttemptTimes times =
      attempt(0, {begins(5, 1), begins(7, 4), ends(9, 6), ends(9, 6)}, 6);
  EXPECT_EQ(times.firstStep, 5);
  EXPECT_EQ(times.stepSec, (std::vector<double>{0, 3, 0, 0, 2}));
  EXPECT_EQ(sumOf(times), 6);
}

// Steps 1 to 4 are made; the second attempt goes on from step 2: 3 and 4 were
// made for nothing.
TEST(Goodput, StepsThatAreMadeAgainAreLost) {
  Goodput goodput;
  AttemptTimes first;
  first.startingSec = 1;
  first.unfinishedSec = 0.25;
  first.firstStep = 1;
  first.stepSec = {1, 1, 2, 2};
  AttemptTimes second;
  second.startingSec = 3;
  second.savingSec = 0.5;
  second.otherSec = 0.125;
  second.firstStep = 3;
  second.stepSec = {1, 1, 1};
  goodput.add(first);
  goodput.wait(5);
  goodput.add(second);
  TimeSpent spent = goodput.sum();
  EXPECT_EQ(spent.productive, 5);
  EXPECT_EQ(spent.lost, 4.25);
  EXPECT_EQ(spent.starting, 4);
  EXPECT_EQ(spent.saving, 0.5);
  EXPECT_EQ(spent.waiting, 5);
  EXPECT_EQ(spent.other, 0.125);
  EXPECT_EQ(spent.starts, 2);
  EXPECT_EQ(spent.total(), 18.875);
  EXPECT_EQ(spent.goodput(), 5 / 18.875);
}

// From before the first step of the first attempt, and after one that made
// none.
TEST(Goodput, AJobBeginsAnew) {
  Goodput goodput;
  AttemptTimes none, resumed, anew;
  none.startingSec = 1;
  resumed.firstStep = 5;
  resumed.stepSec = {1, 1};
  anew.firstStep = 1;
  anew.stepSec = {4};
  for (const AttemptTimes &times : {none, resumed, anew})
    goodput.add(times);
  EXPECT_EQ(goodput.sum().productive, 4);
  EXPECT_EQ(goodput.sum().lost, 2);
  EXPECT_EQ(goodput.sum().starting, 1);
}

TEST(Goodput, ReadsAsJson) {
  TimeSpent spent;
  spent.productive = 90;
  spent.lost = 10;
  JsonValue root;
  std::string error;
  ASSERT_TRUE(parseJson(formatSpentJson(spent), root, error)) << error;
  EXPECT_NE(formatSpent(spent).find("90.00 %  steps that count"),
            std::string::npos)
      << formatSpent(spent);
}
