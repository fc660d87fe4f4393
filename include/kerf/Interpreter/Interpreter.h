//===- Interpreter.h - the meaning of a model -----------------------------===//
//
// Runs a `kerf.model` on host tensors. High-level ops are decomposed; each
// plain op is computed in f64 and its result rounded to its element type: f32
// results are the correctly rounded ones, bf16 is f32 arithmetic rounded at
// each result. With `f64` nothing is rounded.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_INTERPRETER_INTERPRETER_H
#define KERF_INTERPRETER_INTERPRETER_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
#include <string>

namespace kerf {

/// Tensors that live from step to step, by expanded parameter name (`{i}`
/// replaced, `{e}` stacked).
struct TrainingState {
  using Tensors = std::map<std::string, HostTensor>;
  Tensors params;    ///< as the model reads them
  Tensors masters;   ///< of parameters whose master has another type
  Tensors optimizer; ///< `<parameter>.<state>`
  Tensors gradients; ///< of the last step, before clipping
};

struct InterpreterOptions {
  bool f64 = false; ///< compute everything in f64, whatever the types say
  int64_t seed = 0; ///< of the initial values of parameters
  /// Messages that a channel between two stages keeps before its sender waits;
  /// 0: as many as the programs say, else any number.
  int64_t channelHolds = 0;
};

/// Initial value of a parameter: a function of (seed, name, index).
HostTensor initialValue(InitAttr init, mlir::RankedTensorType type,
                        llvm::StringRef name, int64_t seed, bool f64);

class Interpreter {
public:
  /// Prepares a model (a decomposed copy is made).
  Interpreter(ModelOp model, InterpreterOptions options);
  ~Interpreter();

  /// Runs one step: evaluates the model on `inputs` (one per model input, of
  /// its type), reading parameters from `state` (initialized on first use),
  /// then applies the updates to `state`. Returns the model's values, the loss
  /// first. Fails with a diagnostic where a check in the IR fails.
  mlir::FailureOr<std::vector<HostTensor>>
  run(llvm::ArrayRef<HostTensor> inputs, TrainingState &state);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Fails, with a diagnostic, for a model too large to run here: it needs more
/// than 2^27 elements (1 GiB) at once or more than 2^30 visits of an element
/// (some 10 s) in a step.
mlir::LogicalResult checkInterpretable(ModelOp model);

/// Inputs for every role, seeded: tokens and targets below the vocabulary that
/// the model uses them with, step `step`, learning rate `rate`, a few
/// documents; plain inputs normal.
std::vector<HostTensor> makeInputs(ModelOp model, int64_t seed, int64_t step,
                                   double rate);

/// One of these inputs: of one without a role, `number` is its place among the
/// inputs of the model; integers are below `vocabulary` (16 if that is 0).
HostTensor makeInput(mlir::RankedTensorType type, llvm::StringRef role,
                     int64_t number, int64_t vocabulary, int64_t seed,
                     int64_t step, double rate);

} // namespace kerf

#endif // KERF_INTERPRETER_INTERPRETER_H
