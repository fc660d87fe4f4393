//===- Metrics.h - how far predictions are from measurements --------------===//

#ifndef KERF_TEST_COST_VALIDATION_METRICS_H
#define KERF_TEST_COST_VALIDATION_METRICS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::validate {

/// A prediction beside its measurement, in the same unit, both above 0.
struct Pair {
  double predicted = 0, measured = 0;
  double error() const { return predicted / measured - 1; }
};

/// Errors in parts of one.
struct ErrorFigures {
  int64_t count = 0;
  double mean = 0, median = 0, p90 = 0, max = 0; ///< of |error|
  double bias = 0;                               ///< mean of error
};
/// All 0 without pairs. Quantiles interpolate between the two nearest ranks
/// (Hyndman and Fan 1996, type 7).
ErrorFigures errorFigures(const std::vector<Pair> &pairs);

/// Quantile `q` of `values`, 0 for none.
double quantile(std::vector<double> values, double q);

/// Spearman's rank correlation, ties at their mean rank. None with fewer than
/// three pairs, or where one side is constant.
std::optional<double> rankCorrelation(const std::vector<Pair> &pairs);

/// A run in a contest: runs of one `group` do the same work on the same
/// cluster, so that a planner would choose among them.
struct Contestant {
  std::string group;
  std::string layout; ///< what would be chosen; repeated runs share it
  Pair times;
};
/// Regret of a group: measured time of the layout that the model calls fastest
/// over the fastest measured, minus one. Repeated runs of a layout count as
/// their mean. (Ties of predictions: the slowest.)
struct RegretFigures {
  int64_t groups = 0; ///< those with at least two layouts
  double mean = 0, max = 0;
};
RegretFigures regretFigures(const std::vector<Contestant> &contestants);

/// Mean over the groups of at least `least` runs of the rank correlation inside
/// the group, weighed by runs: does the model order layouts of one job?
std::optional<double>
groupedRankCorrelation(const std::vector<Contestant> &contestants, int least);

/// Whether runs fit: a run that failed for memory should be foreseen.
struct FitFigures {
  int64_t failed = 0, foreseen = 0; ///< runs out of memory; of them predicted
  int64_t ran = 0, falseAlarms = 0; ///< runs that fit; of them predicted not to
  double recall() const { return failed ? double(foreseen) / failed : 1; }
  double alarmRate() const { return ran ? double(falseAlarms) / ran : 0; }
  void add(bool didFail, bool isPredicted);
  FitFigures &operator+=(const FitFigures &other);
};

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_METRICS_H
