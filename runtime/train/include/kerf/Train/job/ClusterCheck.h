//===- ClusterCheck.h - a machine beside its description --------*- C++ -*-===//

#ifndef KERF_TRAIN_JOB_CLUSTERCHECK_H
#define KERF_TRAIN_JOB_CLUSTERCHECK_H

#include "kerf/Train/Options.h"

#include <string>

namespace kerf::runtime {

/// `kerf-run --doctor --cluster=FILE`: measures devices and links as
/// `--calibrate` does and has kerf-inspect print them beside what the
/// description says. What was measured is left in `--output`, else in
/// `measured.yaml`. Returns the exit status, 1 where something is worse than
/// described; `error` is empty when it was told already.
int checkCluster(RunOptions options, std::string &error);

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_CLUSTERCHECK_H
