//===- Inspect.h - commands of kerf-inspect -------------------------------===//

#ifndef KERF_LIB_PIPELINE_INSPECT_H
#define KERF_LIB_PIPELINE_INSPECT_H

#include "kerf/Artifact/Artifact.h"
#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/ProgramTime/ProgramTime.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace kerf {

struct InspectOptions {
  bool f64 = false;
  bool json = false;
  int64_t steps = 1;
  int64_t seed = 0;
  double rate = 0.01;
  std::string weights, inputs, save;
  std::string cluster, trace;
  double tolerance = 1e-6;
  int64_t samples = 8;
};

/// Prints parameter counts and model flops per token of each model.
mlir::LogicalResult inspectParams(mlir::ModuleOp module,
                                  const InspectOptions &options);

/// Runs each model for some steps and prints its values.
mlir::LogicalResult inspectInterpret(mlir::ModuleOp module,
                                     const InspectOptions &options);

/// Differentiates each model and compares sampled elements of every
/// parameter's gradient with central differences in f64.
mlir::LogicalResult inspectGradients(mlir::ModuleOp module,
                                     const InspectOptions &options);

/// Trains the one model of a module and the programs of its ranks on the same
/// random data in f64, and prints whether they agree. Fails where they do not.
mlir::LogicalResult inspectVerify(mlir::ModuleOp module,
                                  const InspectOptions &options);

/// Prints one view of a compiled file: program, memory, kernels, params, plan.
/// Returns the exit status, or nothing when `command` is none of these or, with
/// "params", when the file is a model.
std::optional<int> inspectArtifact(llvm::StringRef command,
                                   llvm::StringRef path);

/// Prints how long a step of a compiled file runs on the cluster of the
/// options, and writes its timeline. Returns the exit status.
int inspectTime(llvm::StringRef path, const InspectOptions &options);

/// Prints what a cluster's description says beside what `kerf-run --calibrate`
/// measured. Returns the exit status: 1 where something is worse.
int inspectClusters(llvm::StringRef described, llvm::StringRef measured);

/// Prints what differs between two plans, as files or in compiled files.
/// Returns the exit status.
int inspectPlans(llvm::StringRef pathA, llvm::StringRef pathB);

/// How long a step of a compiled file runs on the cluster of the options; else
/// prints an error.
std::optional<ProgramTime> timeFile(llvm::StringRef path,
                                    const InspectOptions &options,
                                    bool keepEvents, ArtifactData &data,
                                    Machine &machine);

/// Prints how the trace of a run differs from a predicted timeline, by kind of
/// work; from what a compiled file (with the options' cluster) is foretold, by
/// op, too. Returns the exit status.
int inspectTraces(llvm::StringRef measured, llvm::StringRef predicted,
                  const InspectOptions &options);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_INSPECT_H
