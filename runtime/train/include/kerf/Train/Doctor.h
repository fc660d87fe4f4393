//===- Doctor.h - what this machine offers ----------------------*- C++ -*-===//

#ifndef KERF_TRAIN_DOCTOR_H
#define KERF_TRAIN_DOCTOR_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Options.h"

#include <string>

namespace kerf::runtime {

/// Describes processor, memory, devices and transports and, with an artifact
/// (it may be null), whether its job can run here. The last line is a verdict.
/// Returns the exit status: 1 when something is missing that is needed.
int examineMachine(const RunOptions &options, const kerf_artifact *artifact,
                   std::string &text);

} // namespace kerf::runtime

#endif // KERF_TRAIN_DOCTOR_H
