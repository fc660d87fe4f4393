//===- MetricsTest.cpp - figures worked out by hand -----------------------===//

#include "../Metrics.h"

#include <gtest/gtest.h>

using namespace kerf::validate;

// Errors +10 %, -20 %, 0 %, +50 %: sorted sizes 0, 0.1, 0.2, 0.5, so the median
// is 0.15 and the 90 % quantile lies 0.7 of the way from 0.2 to 0.5.
TEST(MetricsTest, errorsOfFourPairs) {
  std::vector<Pair> pairs = {{1.1, 1}, {1.6, 2}, {3, 3}, {6, 4}};
  ErrorFigures figures = errorFigures(pairs);
  EXPECT_EQ(figures.count, 4);
  EXPECT_NEAR(figures.mean, 0.2, 1e-12);
  EXPECT_NEAR(figures.median, 0.15, 1e-12);
  EXPECT_NEAR(figures.p90, 0.41, 1e-12);
  EXPECT_NEAR(figures.max, 0.5, 1e-12);
  EXPECT_NEAR(figures.bias, 0.1, 1e-12);
}

// Without pairs nothing is divided by nothing.
TEST(MetricsTest, noPairs) {
  EXPECT_EQ(errorFigures({}).mean, 0);
  EXPECT_FALSE(rankCorrelation({{1, 1}, {2, 2}}).has_value());
}

// Ranks 1 2 3 4 5 against 2 1 4 3 5: squared differences add up to 4, so
// Spearman's formula gives 1 - 6 * 4 / (5 * 24) = 0.8.
TEST(MetricsTest, rankCorrelationByFormula) {
  std::vector<Pair> pairs = {{1, 20}, {2, 10}, {30, 400}, {44, 300}, {50, 999}};
  EXPECT_NEAR(*rankCorrelation(pairs), 0.8, 1e-12);
}

// Ties share the mean rank: predictions 1 1 2 have ranks 0.5 0.5 2; against 0 1
// 2 that is (0.5 + 0 + 1) / sqrt(1.5 * 2) = sqrt(3) / 2.
TEST(MetricsTest, rankCorrelationWithTies) {
  std::vector<Pair> pairs = {{1, 10}, {1, 20}, {2, 30}};
  EXPECT_NEAR(*rankCorrelation(pairs), 0.8660254037844386, 1e-12);
  EXPECT_FALSE(rankCorrelation({{1, 1}, {1, 2}, {1, 3}}).has_value());
}

// In group a the model takes the run of 12 s where 10 s was best (20 %), in b
// the best one; c has nothing to choose from.
TEST(MetricsTest, regret) {
  std::vector<Contestant> runs = {{"a", "tp1", {9, 12}},
                                  {"a", "tp2", {9.5, 10}},
                                  {"b", "tp1", {1, 3}},
                                  {"b", "tp2", {2, 4}},
                                  {"c", "tp1", {5, 5}}};
  RegretFigures figures = regretFigures(runs);
  EXPECT_EQ(figures.groups, 2);
  EXPECT_NEAR(figures.mean, 0.1, 1e-12);
  EXPECT_NEAR(figures.max, 0.2, 1e-12);
}

// Two layouts that the model cannot tell apart count as the slower one.
TEST(MetricsTest, regretOfTies) {
  std::vector<Contestant> runs = {{"a", "tp1", {7, 10}}, {"a", "tp2", {7, 13}}};
  EXPECT_NEAR(regretFigures(runs).max, 0.3, 1e-12);
}

// A layout run twice is one choice, of the mean time: 11 s against 10 s.
TEST(MetricsTest, regretOfRepeatedRuns) {
  std::vector<Contestant> runs = {
      {"a", "tp1", {7, 10}}, {"a", "tp1", {7, 12}}, {"a", "tp2", {8, 10}}};
  EXPECT_NEAR(regretFigures(runs).mean, 0.1, 1e-12);
  runs.pop_back();
  EXPECT_EQ(regretFigures(runs).groups, 0);
}

// Group a (3 runs) is ordered rightly, b (3 runs) in reverse: 0 on the whole.
TEST(MetricsTest, rankCorrelationInsideGroups) {
  std::vector<Contestant> runs;
  for (int i = 1; i <= 3; ++i) {
    std::string layout = std::to_string(i);
    runs.push_back({"a", layout, {1.0 * i, 1.0 * i}});
    runs.push_back({"b", layout, {1.0 * i, 4.0 - i}});
  }
  EXPECT_NEAR(*groupedRankCorrelation(runs, 3), 0, 1e-12);
  EXPECT_FALSE(groupedRankCorrelation(runs, 4).has_value());
}

// Three failures of which two are foreseen, four runs of which one is refused.
TEST(MetricsTest, recallAndFalseAlarms) {
  FitFigures figures;
  for (bool isPredicted : {true, true, false})
    figures.add(true, isPredicted);
  for (bool isPredicted : {true, false, false, false})
    figures.add(false, isPredicted);
  EXPECT_NEAR(figures.recall(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(figures.alarmRate(), 0.25, 1e-12);
}
