//===- Evaluation.h - the loss of held-out data -----------------*- C++ -*-===//

#ifndef KERF_TRAIN_JOB_EVALUATION_H
#define KERF_TRAIN_JOB_EVALUATION_H

#include "kerf/Train/Log.h"
#include "kerf/Train/Setup.h"

#include <string>

namespace kerf::runtime {

/// Mean loss of the first held-out samples of `setup`, always the same ones for
/// a seed; fills `samples` and `loss` of the record. All ranks call it. What
/// this rank cannot read is a message; what the session reports, a status.
kerf_status evaluateHeldout(kerf_session *session, const RunSetup &setup,
                            int64_t seed, HeldoutRecord &record,
                            std::string &message, kerf_error &failure);

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_EVALUATION_H
