//===- Predict.h - rows as planning problems ------------------------------===//

#ifndef KERF_TEST_COST_VALIDATION_PREDICT_H
#define KERF_TEST_COST_VALIDATION_PREDICT_H

#include "Layouts.h"
#include "Machines.h"
#include "Models.h"
#include "Rows.h"

#include <memory>

namespace kerf::validate {

/// A row made ready: model, machine and pins do not depend on the profile.
struct Job {
  const Row *row = nullptr;
  std::string source;  ///< short name of who measured
  std::string machine; ///< `machineName`
  std::string runtime; ///< name of a profile
  std::string leftOut; ///< why it cannot be predicted; "" if it can
  std::shared_ptr<const StepModel> step;
  std::shared_ptr<const StepFacts> facts; ///< of `step`
  Machine cluster;
  Pins pins;
  std::shared_ptr<PinnedLayouts> layouts;
  std::optional<double> measuredSec; ///< of rows that ran
};

/// Makes jobs of rows; shares models and layouts among them.
class JobReader {
public:
  explicit JobReader(std::string clusterFolder) : machines(clusterFolder) {}
  Job read(const Row &row);

private:
  MachineReader machines;
  ModelReader models;
  std::map<std::string, std::shared_ptr<PinnedLayouts>> layouts;

  void prepare(Job &job);
};

/// The profile that a row of a runtime runs under: `base`, and what the row
/// says itself (fused attention, kernels of norms).
Profile profileOf(const Row &row, const Profile &base);

struct Prediction {
  double stepSec = 0;
  /// Bytes of the fullest stage, the device's reserve included; what a row that
  /// states memory would show (`statedBytes`) may leave that out.
  double totalBytes = 0, statedBytes = 0;
  std::string error; ///< why there is no prediction
};

/// Predicts through the planner: layer tables, pins, `evaluatePinned`.
Prediction predict(const Job &job, const Profile &base);

/// What is known to be another thing than the columns say, and is left out of
/// time and rank figures: "" or the reason.
std::string anomalyOf(const Row &row);

/// Who measured: the source column without what stands in parentheses.
std::string sourceName(const Row &row);

/// The profile for a source: by the runtime that it names, else by how state is
/// sharded.
std::string runtimeOf(const Row &row);

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_PREDICT_H
