//===- Trainer.h - the loop over steps --------------------------*- C++ -*-===//

#ifndef KERF_TRAIN_TRAINER_H
#define KERF_TRAIN_TRAINER_H

#include "kerf/Train/Setup.h"

#include <string>

namespace kerf::runtime {

/// Runs the steps of `setup` on this rank and saves what was asked for. Returns
/// the exit status: 0; 128 + N when signal N ended it after a step; or another
/// with a message in `error`.
int train(const RunOptions &options, const RunSetup &setup, std::string &error);

} // namespace kerf::runtime

#endif // KERF_TRAIN_TRAINER_H
