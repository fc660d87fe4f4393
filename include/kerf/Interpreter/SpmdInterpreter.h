//===- SpmdInterpreter.h - the meaning of programs on all their ranks -----===//
//
// Runs the `spmd.program`s of a pipeline, one per stage, on as many virtual
// ranks as their mesh has. The ranks of a stage go in lockstep, op by op: a
// collective sees the values of all of them. Stages take turns: each runs until
// it has to wait for a message, for room in a channel, or for the others at a
// collective over the axis `pp`; so every run is the same. When no stage can go
// on, the run fails and names what each waits for. Arithmetic is that of the
// `Interpreter`.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_INTERPRETER_SPMDINTERPRETER_H
#define KERF_INTERPRETER_SPMDINTERPRETER_H

#include "kerf/Dialect/Spmd/Pipelines.h"
#include "kerf/Interpreter/Interpreter.h"

namespace kerf {

/// The inputs of a pipeline; those of one name in several stages are one. Each
/// stage's order is kept; where that leaves a choice, a later stage's come
/// first.
llvm::SmallVector<spmd::InputOp>
getInputs(llvm::ArrayRef<spmd::ProgramOp> programs);
/// The outputs of a pipeline, likewise: so the loss, which the last stage
/// declares first, is first.
llvm::SmallVector<spmd::OutputOp>
getOutputs(llvm::ArrayRef<spmd::ProgramOp> programs);

class SpmdInterpreter {
public:
  /// Prepares scheduled programs, one per stage, in order (decomposed copies
  /// are made).
  SpmdInterpreter(llvm::ArrayRef<spmd::ProgramOp> programs,
                  InterpreterOptions options);
  ~SpmdInterpreter();

  /// Runs a schedule on global inputs, one per `getInputs`. Shards of
  /// parameters are taken from `state` (initialized on first use), in pieces
  /// where they are stored so, and put together again after it; so are the
  /// gradients. Returns the values of `getOutputs`; one that the schedule does
  /// not write has no type.
  /// Fails with a diagnostic
  /// - where ranks or stages that should hold the same differ: a parameter, an
  ///   output;
  /// - where a buffer is read before it is written, or its slot holds another
  ///   micro-batch;
  /// - where a message has another type than its receiver expects, a collective
  ///   meets another one, or a message is never received;
  /// - when all stages wait.
  /// `state` is then as before but for initial values.
  mlir::FailureOr<std::vector<HostTensor>>
  run(llvm::ArrayRef<HostTensor> inputs, TrainingState &state,
      llvm::StringRef schedule);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Inputs of a pipeline, one per `getInputs`, the same as those of the model it
/// was made from.
std::vector<HostTensor> makeInputs(llvm::ArrayRef<spmd::ProgramOp> programs,
                                   int64_t seed, int64_t step, double rate);

/// As for models: fails for a pipeline too large to run here. It may be
/// 2^`more` times as large.
mlir::LogicalResult checkInterpretable(llvm::ArrayRef<spmd::ProgramOp> programs,
                                       int more = 0);

} // namespace kerf

#endif // KERF_INTERPRETER_SPMDINTERPRETER_H
