//===- Evaluation.cpp -----------------------------------------------------===//

#include "kerf/Train/job/Evaluation.h"

using namespace kerf::runtime;

namespace {
/// The held-out samples, batch by batch.
class Samples {
public:
  Samples(const RunSetup &setup, int64_t seed)
      : heldout(*setup.data.heldout), all(setup.evalSamples),
        places(heldout.weights, seed) {}

  int64_t taken() const { return next; }
  /// The next batch, rows that are left over ignored; false: see `message`.
  bool fill(Batch &batch, int64_t rows, std::string &message) {
    for (int64_t row = 0; row < rows; ++row) {
      if (next >= all) {
        SampleRange::fillIgnored(batch, row);
        continue;
      }
      SourcePlace place = places.at(next++);
      if (!heldout.ranges[place.source].fill(place.index, batch, row, message))
        return false;
    }
    return true;
  }

private:
  const Mixture &heldout;
  int64_t all, next = 0;
  Interleave places;
};
} // namespace

kerf_status kerf::runtime::evaluateHeldout(kerf_session *session,
                                           const RunSetup &setup, int64_t seed,
                                           HeldoutRecord &record,
                                           std::string &message,
                                           kerf_error &failure) {
  const ModelPorts &ports = setup.ports;
  Samples samples(setup, seed);
  Batch batch(ports.rows, ports.sequence);
  double sum = 0, targets = 0;
  while (samples.taken() < setup.evalSamples) {
    if (!samples.fill(batch, ports.rows, message))
      return KERF_OK;
    double loss = 0;
    kerf_status code = setInputs(session, ports, batch, failure);
    if (code == KERF_OK)
      code = kerf_session_run_evaluation(session, &failure);
    if (code == KERF_OK)
      code = kerf_session_get_output(session, ports.loss, &loss, &failure);
    if (code != KERF_OK)
      return code;
    auto weight = static_cast<double>(batch.validTargets());
    sum += weight > 0 ? loss * weight : 0;
    targets += weight;
  }
  record.samples = samples.taken();
  record.loss = targets > 0 ? sum / targets : 0;
  return KERF_OK;
}
