//===- Run.h - the program kerf-run -----------------------------*- C++ -*-===//

#ifndef KERF_TRAIN_RUN_H
#define KERF_TRAIN_RUN_H

namespace kerf::runtime {

/// kerf-run: trains the artifact that the arguments name. Where it is compiled
/// for several ranks and none was started by somebody else, starts them all.
/// Returns the exit status: 0 done; 1 input or configuration are wrong; 128 and
/// more for faults of the machine and for signals. Throws nothing.
int runMain(int argc, char **argv);

} // namespace kerf::runtime

#endif // KERF_TRAIN_RUN_H
