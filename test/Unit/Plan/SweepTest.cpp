//===- SweepTest.cpp - how many devices, and which ------------------------===//

#include "ExplainTesting.h"

#include "kerf/Report/Sweep.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/StringExtras.h"

#include "gtest/gtest.h"

#include <map>

using namespace kerf;
using namespace kerf::test;

namespace {

std::string countsOf(llvm::StringRef text) {
  std::string error, result;
  auto counts = parseDeviceCounts(text, error);
  if (!counts)
    return "error: " + error;
  EXPECT_EQ(error, "");
  for (int64_t count : *counts)
    result += (result.empty() ? "" : " ") + std::to_string(count);
  return result;
}

// Ranges, lists and steps.
TEST(Sweep, ReadsDeviceCounts) {
  EXPECT_EQ(countsOf("8..1024"), "8 16 32 64 128 256 512 1024");
  EXPECT_EQ(countsOf("devices=8..100"), "8 16 32 64");
  EXPECT_EQ(countsOf("1..8"), "1 2 3 4 5 6 7 8");
  EXPECT_EQ(countsOf("1..8x2"), "1 2 4 8");
  EXPECT_EQ(countsOf("3..100x3"), "3 9 27 81");
  EXPECT_EQ(countsOf("8..40+8"), "8 16 24 32 40");
  EXPECT_EQ(countsOf("1,2,3"), "1 2 3");
  EXPECT_EQ(countsOf("64, 3,8..16x2,8"), "3 8 16 64");
  EXPECT_EQ(countsOf("7"), "7");
  EXPECT_EQ(countsOf("5..5"), "5");
}

// What is no range is refused with what was found.
TEST(Sweep, RefusesBadCounts) {
  std::string number =
      "error: expected a number of devices from 1 to 16777216, found ";
  EXPECT_EQ(countsOf(""), number + "''");
  EXPECT_EQ(countsOf("devices="), number + "''");
  EXPECT_EQ(countsOf("0"), number + "'0'");
  EXPECT_EQ(countsOf("-8"), number + "'-8'");
  EXPECT_EQ(countsOf("8.."), number + "'' in '8..'");
  EXPECT_EQ(countsOf("8...16"), number + "'.16' in '8...16'");
  EXPECT_EQ(countsOf("8,,16"), number + "''");
  EXPECT_EQ(countsOf("99999999999999999999"),
            number + "'99999999999999999999'");
  EXPECT_EQ(countsOf("eight"), number + "'eight'");
  EXPECT_EQ(countsOf("8..64x"), number + "'' in '8..64x'");
  EXPECT_EQ(countsOf("8..64x1"),
            "error: expected a factor of at least 2, found 1 in '8..64x1'");
  EXPECT_EQ(countsOf("64..8"),
            "error: expected an ascending range, found '64..8'");
  EXPECT_EQ(countsOf("1..16777216+1"),
            "error: expected at most 1024 numbers of devices, found more in "
            "'1..16777216+1'");
}

/// A plan of one rank per device whose step takes as long as is asked for.
SearchResult planOf(int64_t devices, double stepSec) {
  SearchResult result;
  if (stepSec <= 0) {
    result.infeasible.reasons = {"stage 0 needs 99.0 GiB"};
    return result;
  }
  PlanPoint plan;
  plan.outer.dp = plan.outer.shardGroup = devices;
  plan.outer.order = {MeshAxis::Data, MeshAxis::Tensor, MeshAxis::Context,
                      MeshAxis::Pipeline};
  plan.stages.resize(1);
  plan.stages[0].chunks.resize(1);
  plan.work.stages.resize(1);
  plan.work.stages[0].chunks.resize(1);
  plan.work.stages[0].chunks[0].forwardSec = stepSec;
  plan.stepSec = stepSec;
  result.best = plan;
  return result;
}

/// Machine "two-boxes" needs 8 devices, stops scaling at 32 and slows at 64; of
/// the faster "better-box" 4 are enough.
Sweep exampleSweep() {
  static const StepModel step = makeStep();
  SweepInput input;
  input.step = &step;
  input.machines = {makeMachine(), makeMachine()};
  input.machines[1].name = "better-box";
  input.devices = {4, 8, 16, 32, 64};
  return sweep(input, [](const Machine &machine, int64_t devices) {
    static const std::map<int64_t, double> seconds = {
        {4, 0}, {8, 1}, {16, 0.55}, {32, 0.4}, {64, 0.45}};

    if (machine.name == "better-box")
      return planOf(devices, 2.0 / static_cast<double>(devices));
    return planOf(devices, seconds.at(devices));
  });
}

// The fewest that fit, the front and slowdowns are marked.
TEST(Sweep, MarksPoints) {
  Sweep result = exampleSweep();
  std::string text;
  for (const SweepPoint &point : result.points)
    text += point.machine + " " + std::to_string(point.devices) +
            (point.fits ? "" : " none") + (point.fewest ? " fewest" : "") +
            (point.pareto ? " front" : "") +
            (point.noFasterThan ? " after " + std::to_string(point.noFasterThan)
                                : "") +
            "\n";
  EXPECT_EQ(text, "two-boxes 4 none\n"
                  "two-boxes 8 fewest\n"
                  "two-boxes 16\n"
                  "two-boxes 32\n"
                  "two-boxes 64 after 32\n"
                  "better-box 4 fewest\n"
                  "better-box 8\n"
                  "better-box 16\n"
                  "better-box 32\n"
                  "better-box 64 front\n");
  EXPECT_EQ(result.points[0].reason, "stage 0 needs 99.0 GiB");
  EXPECT_EQ(result.points[1].layout, "dp 8 | 1 x 1");
}

// Without the better machine the front has every size that is faster than all
// smaller ones.
TEST(Sweep, FrontOfOneMachine) {
  static const StepModel step = makeStep();
  SweepInput input;
  input.step = &step;
  input.machines = {makeMachine()};
  input.devices = {8, 16, 32};
  Sweep result = sweep(input, [](const Machine &, int64_t devices) {
    return planOf(devices, devices == 8 ? 1.0 : 0.6);
  });
  EXPECT_TRUE(result.points[0].pareto);
  EXPECT_TRUE(result.points[1].pareto);
  EXPECT_FALSE(result.points[2].pareto);
  EXPECT_EQ(result.points[2].noFasterThan, 16);
}

// Numbers of devices that fill the last unit in part are exact: 6 devices in
// boxes of 4.
TEST(Sweep, PartlyFilledUnits) {
  static const StepModel step = makeStep();
  SweepInput input;
  input.step = &step;
  input.machines = {makeMachine()};
  input.devices = {6};
  Sweep told = sweep(input, [](const Machine &machine, int64_t devices) {
    EXPECT_EQ(machine.describedDevices(), 8);
    return planOf(devices - 1, 1);
  });
  EXPECT_EQ(told.points[0].devices, 6);
  EXPECT_EQ(told.points[0].spares, 1);
  EXPECT_NEAR(told.points[0].run.deviceHours,
              6 * told.points[0].run.seconds / 3600, 1e-6);
}

// The table is at most 110 columns wide, and says why something does not fit.
TEST(Sweep, Table) {
  std::string text = printText(exampleSweep());

  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n');
  for (llvm::StringRef line : lines)
    EXPECT_LE(line.size(), 110u) << line.str();
  EXPECT_NE(text.find("      4  none: stage 0 needs 99.0 GiB\n"),
            std::string::npos);
  EXPECT_NE(text.find("no faster than 32"), std::string::npos);
}

// JSON has every point with its numbers.
TEST(Sweep, Json) {
  std::string text = printJson(exampleSweep());
  auto value = json::parse(text, [&](json::Position, const llvm::Twine &what) {
    FAIL() << what.str();
  });
  ASSERT_TRUE(succeeded(value));
  const auto &points = value->find("points")->array;
  ASSERT_EQ(points.size(), 10u);
  EXPECT_FALSE(points[0].find("fits")->boolean);
  EXPECT_EQ(points[0].find("reason")->string, "stage 0 needs 99.0 GiB");
  EXPECT_EQ(points[4].find("devices")->integer, 64);
  EXPECT_DOUBLE_EQ(points[4].find("step_sec")->number, 0.45);
  EXPECT_EQ(points[4].find("no_faster_than")->integer, 32);
  EXPECT_TRUE(points[9].find("pareto")->boolean);
}

// The picture has a circle per point and panel, a cross where nothing fits, and
// only finite coordinates.
TEST(Sweep, Chart) {
  std::string svg = svgOf(exampleSweep());
  llvm::StringRef text = svg;
  EXPECT_TRUE(text.starts_with("<svg "));
  EXPECT_TRUE(text.ends_with("</svg>\n"));
  EXPECT_EQ(text.count("<circle "), 2u * 9);
  EXPECT_EQ(text.count("</title></circle>"), 2u * 9);
  EXPECT_EQ(text.count("nan"), 0u);
  EXPECT_EQ(text.count("inf"), 0u);
  Sweep none = exampleSweep();
  none.points.resize(1);
  svg = svgOf(none);
  EXPECT_EQ(llvm::StringRef(svg).count("<circle "), 0u);
  EXPECT_EQ(llvm::StringRef(svg).count("nan"), 0u);
}

} // namespace
