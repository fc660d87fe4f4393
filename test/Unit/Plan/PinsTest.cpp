//===- PinsTest.cpp - what a person fixes, as text ------------------------===//

#include "SearchTesting.h"

#include "kerf/Search/Pins.h"

#include "llvm/ADT/StringExtras.h"

#include "gtest/gtest.h"

using namespace kerf;
using namespace kerf::search_testing;

namespace {

std::vector<std::string> errorsOf(llvm::StringRef text) {
  std::vector<std::string> errors;
  parsePins(text, errors);
  return errors;
}

// Every key, a list, a range and a forbidden value.
TEST(Pins, Parse) {
  std::vector<std::string> errors;
  Pins pins = parsePins("tp=8, pp=2..4,cp=1|2,zero!=3,recompute=full,v=2,mb=1,"
                        "m=32,schedule=1f1b|zb-h1,order=tp.dp.pp,layers=3.4.5,"
                        "shard=8,devices=64,ep=4,dp=16,cp_order=plain",
                        errors);
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(pins.tp, std::vector<int64_t>({8}));
  EXPECT_EQ(pins.pp, std::vector<int64_t>({2, 3, 4}));
  EXPECT_EQ(pins.cp, std::vector<int64_t>({1, 2}));
  EXPECT_FALSE(allows(pins, "zero", pins.zero, 3));
  EXPECT_TRUE(allows(pins, "zero", pins.zero, 2));
  EXPECT_EQ(pins.recompute, "full");
  EXPECT_EQ(pins.cpOrder, "plain");
  EXPECT_EQ(pins.schedules.size(), 2u);
  EXPECT_EQ(pins.order,
            std::vector<MeshAxis>({MeshAxis::Tensor, MeshAxis::Data,
                                   MeshAxis::Pipeline, MeshAxis::Context}));
  EXPECT_EQ(pins.stageLayers, std::vector<int64_t>({3, 4, 5}));
  std::vector<std::string> again;
  EXPECT_EQ(printPins(parsePins(printPins(pins), again)), printPins(pins));
  EXPECT_TRUE(again.empty());
}

// Every violation is listed, with what is legal and the nearest fix.
TEST(Pins, ErrorsAreListedTogether) {
  std::vector<std::string> errors =
      errorsOf("tpp=8,zero=7,schedule=1f2b,recompute=ful,pp=4..2,tp=x,"
               "order=tp.tp,schedule!=1f1b,pp");
  ASSERT_EQ(errors.size(), 9u);
  EXPECT_NE(errors[0].find("unknown pin 'tpp'"), std::string::npos);
  EXPECT_NE(errors[0].find("the nearest is 'tp'"), std::string::npos);
  EXPECT_EQ(errors[1],
            "pin 'zero': found 7, expected 0 to 3; the nearest is 3");
  EXPECT_NE(errors[2].find("the nearest is '1f1b'"), std::string::npos);
  EXPECT_EQ(errors[3],
            "pin 'recompute': found 'ful', expected one of none, selective, "
            "full; the nearest is 'full'");
  EXPECT_EQ(errors[4],
            "pin 'pp': range '4..2' is empty; the nearest is '2..4'");
  EXPECT_EQ(errors[5], "pin 'tp': expected a number, found 'x'");
  EXPECT_EQ(errors[6], "pin 'order': 'tp' stands twice");
  EXPECT_EQ(errors[7], "pin 'schedule': only numbers can be forbidden by '!='");
  EXPECT_EQ(errors[8], "pin 'pp': expected 'key=value' such as 'tp=8'");
}

// A key has one value, a choice, or values that are forbidden.
TEST(Pins, NoKeyTwice) {
  std::vector<std::string> errors =
      errorsOf("tp=2,tp=1,recompute=full,recompute=none,pp=2,pp=2,dp!=2,dp!=4");
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0], "pin 'tp' is given twice: 'tp=2' and 'tp=1'; a choice "
                       "is written 'tp=A|B'");
  EXPECT_EQ(errors[1], "pin 'recompute' is given twice: 'recompute=full' and "
                       "'recompute=none'");
}

// What a pin asks for may say nothing of the plan that is found.
TEST(Pins, Idle) {
  std::vector<std::string> errors;
  Pins pins = parsePins("ep=2,moe=gather,cp_order=plain,schedule=1f1b,defer=1,"
                        "zero=3,shard=2,tp=2,v=1,order=tp.cp.dp.pp,layers=4",
                        errors);
  OuterChoice chosen;
  chosen.tp = chosen.ep = 2;
  chosen.zero = 3;
  EXPECT_EQ(llvm::join(idlePins(pins, chosen, false), "; "),
            "ep=2 (no experts are split over them); v=1 (pp is 1); defer=1 "
            "(the schedule is not zb-h1); zero=3 (there are no data ranks to "
            "split state over); schedule=1f1b (pp is 1); order=tp.cp.dp.pp (no "
            "two axes have more than one rank); moe=gather (no experts are "
            "split over ranks); cp_order=plain (cp is 1); layers=4 (pp is 1)");
  chosen.dp = chosen.cp = chosen.pp = 2;
  chosen.schedule = ScheduleKind::ZeroBubble;
  EXPECT_TRUE(idlePins(pins, chosen, true).empty());
  chosen.zero = 0;
  EXPECT_EQ(idlePins(pins, chosen, true),
            std::vector<std::string>{"shard=2 (zero is 0)"});
}

TEST(Pins, LongRangesAreRefused) {
  std::vector<std::string> errors = errorsOf("tp=1..100000");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0], "pin 'tp': range '1..100000' has more than 4096 values");
}

/// 12 layers on 8 devices, 16 sequences.
struct CheckedProblem {
  Machine machine = twoTiers(4, 2, 1e12);
  SyntheticTables tables{
      std::vector<SyntheticKind>(3, SyntheticKind{1e-3, 1e6}), machine};
  SearchProblem problem;
  CheckedProblem() {
    problem.machine = &machine;
    problem.tables = &tables;
    problem.runs = {{0, 1}, {1, 12}, {2, 1}};
    problem.batch = 16;
    problem.sequence = 128;
    problem.maxTensor = 8;
  }
  std::vector<std::string> check(llvm::StringRef text) {
    std::vector<std::string> errors;
    problem.pins = parsePins(text, errors);
    EXPECT_TRUE(errors.empty());
    return problem.check();
  }
};

// Each pin that cannot be, even alone, is named with the nearest legal value.
TEST(Pins, CheckNamesLegalValues) {
  CheckedProblem checked;
  EXPECT_TRUE(checked.check("").empty());
  EXPECT_TRUE(checked.check("tp=2,pp=4,mb=2").empty());
  std::vector<std::string> errors = checked.check("pp=13,mb=3,dp=32");
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0], "pp=13 is not possible: expected one of 1, 2, 3, 4, 5, "
                       "6, 7, 8; the nearest is 8");
  EXPECT_EQ(errors[1], "dp=32 is not possible: expected one of 1, 2, 4, 8; the "
                       "nearest is 8");
  EXPECT_EQ(errors[2], "mb=3 is not possible: expected one of 1, 2, 4, 8, 16; "
                       "the nearest is 2");
}

// Without the group state would stay whole, and nobody would be told.
TEST(Pins, CheckNamesShardGroups) {
  CheckedProblem checked;
  EXPECT_TRUE(checked.check("shard=2").empty());
  std::vector<std::string> errors = checked.check("dp=4,shard=3");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].find("shard=3 is not possible: expected one of 2, 4"), 0u)
      << errors[0];
  EXPECT_EQ(checked.check("dp=4,shard=3,zero=1").size(), 1u);
  // State that stays whole, and no data ranks: a warning says that the pin
  // changes nothing.
  EXPECT_TRUE(checked.check("dp=4,shard=3,zero=0").empty());
  EXPECT_TRUE(checked.check("dp=1,cp=1,shard=3").empty());
}

// Pins that are legal alone and clash together.
TEST(Pins, CheckTellsClashes) {
  CheckedProblem checked;
  std::vector<std::string> errors = checked.check("tp=4,pp=4");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("at most 8 devices"), std::string::npos);
  errors = checked.check("pp=4,m=2,schedule=interleaved");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("no schedule is left"), std::string::npos);
  errors = checked.check("layers=4.4.5");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0], "layers: the stages have 13 layers, expected 12");
}

// Reliefs relax one decision each, but not what the target fixes.
TEST(Pins, Relaxations) {
  std::vector<std::string> errors;
  Pins pins = parsePins("tp=2,pp=4,recompute=none,tp!=8", errors);
  std::vector<std::string> without;
  for (const Pins &relaxed : relaxationsOf(pins))
    without.push_back(differenceOf(pins, relaxed));
  EXPECT_EQ(without, std::vector<std::string>(
                         {"tp=2", "pp=4", "tp!=8", "recompute=none"}));
  pins.targetKeys = {"pp"};
  EXPECT_EQ(relaxationsOf(pins).size(), 3u);
}

} // namespace
