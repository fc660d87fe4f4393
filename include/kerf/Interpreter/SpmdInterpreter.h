//===- SpmdInterpreter.h - the meaning of a program on all its ranks ------===//
//
// Runs a `spmd.program` on as many virtual ranks as its mesh has, all in
// lockstep, op by op: a collective sees the values of all ranks. Arithmetic is
// that of the `Interpreter`.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_INTERPRETER_SPMDINTERPRETER_H
#define KERF_INTERPRETER_SPMDINTERPRETER_H

#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Interpreter/Interpreter.h"

namespace kerf {

class SpmdInterpreter {
public:
  /// Prepares a scheduled program (a decomposed copy is made).
  SpmdInterpreter(spmd::ProgramOp program, InterpreterOptions options);
  ~SpmdInterpreter();

  /// Runs a schedule on global inputs, one per `spmd.input`. Parameters are cut
  /// from `state` (initialized on first use) and put together again after it.
  /// Returns the outputs in order of declaration; one that the schedule does
  /// not write has no type. Fails with a diagnostic where ranks that should
  /// hold the same differ, or a buffer is read before it is written.
  mlir::FailureOr<std::vector<HostTensor>>
  run(llvm::ArrayRef<HostTensor> inputs, TrainingState &state,
      llvm::StringRef schedule);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Inputs of a program, the same as those of the model it was made from.
std::vector<HostTensor> makeInputs(spmd::ProgramOp program, int64_t seed,
                                   int64_t step, double rate);

/// As for models: fails for a program too large to run here.
mlir::LogicalResult checkInterpretable(spmd::ProgramOp program);

} // namespace kerf

#endif // KERF_INTERPRETER_SPMDINTERPRETER_H
