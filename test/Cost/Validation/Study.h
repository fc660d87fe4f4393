//===- Study.h - predictions of all rows under three settings -------------===//
//
//   untuned         the runtime's profile as shipped
//   other machines  offsets calibrated on runs of other devices: of the same
//                   runtime, or of all runtimes where it has none
//   tuned           offsets calibrated on at most 20 runs of the same runtime
//                   and machine (at most half of them); the rest is judged
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_COST_VALIDATION_STUDY_H
#define KERF_TEST_COST_VALIDATION_STUDY_H

#include "Metrics.h"
#include "Predict.h"

#include <array>

namespace kerf::validate {

enum Setting { Untuned, OtherMachines, Tuned };
constexpr int kSettings = 3;
extern const std::array<const char *, kSettings> kSettingNames;

/// A job with what the model says of it.
struct JudgedJob {
  Job job;
  Prediction untuned;
  /// Seconds per setting; absent where the row was calibrated on, or there was
  /// nothing to calibrate on.
  std::array<std::optional<double>, kSettings> stepSec;
  bool isUsed() const { return job.leftOut.empty(); }
};

/// What a calibration found for the runs of a runtime on a machine.
struct Calibration {
  std::string runtime, machine;
  Setting setting = Tuned;
  size_t runs = 0;             ///< calibrated on
  std::vector<double> offsets; ///< of `fittedParameters()`, the first ones
  Profile profile;             ///< the result
};

/// Predicts all jobs. Those that cannot be predicted get a reason in `leftOut`.
std::vector<JudgedJob> judge(std::vector<Job> jobs,
                             std::vector<Calibration> &calibrations);

/// Figures of one source under one setting.
struct TimeFigures {
  ErrorFigures errors;
  std::optional<double> rank;       ///< over all rows of the source
  std::optional<double> rankInside; ///< mean inside contests of 4 runs and more
  RegretFigures regret;
};

struct SourceFigures {
  std::string source;
  int64_t rows = 0, used = 0;
  std::map<std::string, int64_t> leftOut; ///< reason: rows
  std::array<TimeFigures, kSettings> times;
  ErrorFigures memory;
  FitFigures fits;
};

/// Figures per source, by name; the last are those of all rows ("all").
std::vector<SourceFigures> figuresOf(const std::vector<JudgedJob> &jobs);

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_STUDY_H
