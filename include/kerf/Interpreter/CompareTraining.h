//===- CompareTraining.h - is a layout the model it was made from? --------===//
//
// Trains a step on global tensors and the programs of its ranks on the same
// random data, in f64, and compares all that a step returns (the loss first),
// each gradient and each parameter, after every step. Sums in another order
// differ by rounding, a mistake by far more.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_INTERPRETER_COMPARETRAINING_H
#define KERF_INTERPRETER_COMPARETRAINING_H

#include "kerf/Interpreter/Interpreter.h"
#include "kerf/Interpreter/SpmdInterpreter.h"

#include <string>
#include <vector>

namespace kerf {

/// What a model is trained on.
struct TrainingData {
  int64_t steps = 2;
  int64_t seed = 0; ///< of parameters and inputs
  double rate = 0.01;
};

/// What some steps of training give.
struct TrainingRun {
  bool ran = false;         ///< false after a diagnostic
  bool stepsBySign = false; ///< of a model: some update rule is Lion
  // Of a model, in its order: expanded names of parameters; of what it returns,
  // as outputs of programs are named: `loss`, `grad_norm`, `metric<its place>`.
  std::vector<std::string> names, outputNames;
  // One of each step.
  std::vector<TrainingState::Tensors> outputs, gradients, params;
};

/// Of an input that is targets: ignores a part that is unlike in every row, and
/// in every other step the first fifth, so that a micro-batch has none that
/// count.
void ignoreTargets(llvm::StringRef role, int64_t step, HostTensor &input);

/// Trains a model on global tensors, in f64, whatever its types say. Inputs are
/// those of `makeInputs` and `ignoreTargets`.
TrainingRun trainStep(ModelOp step, const TrainingData &data);

/// Trains the scheduled programs of a pipeline on virtual ranks, likewise and
/// on the same inputs.
TrainingRun trainPrograms(llvm::ArrayRef<spmd::ProgramOp> programs,
                          const TrainingData &data);

/// A value that is not the same in two runs.
struct TrainingDifference {
  enum Kind { Output, Gradient, Parameter };
  std::string what; ///< `the loss`, `the gradient of "w"`
  double error = 0; ///< infinite where a value is missing or no number
  int64_t step = 0; ///< from 1
  Kind kind = Output;
  std::string name; ///< of the output or, expanded, of the parameter
};

struct TrainingComparison {
  /// The largest error, of what; 0 where everything is equal to the bit.
  TrainingDifference largest;
  /// Those above the tolerance: by step, and in the order of the model.
  std::vector<TrainingDifference> wrong;
};

/// Errors up to this are rounding: f64 sums of some 1e4 terms in another order
/// stay below 1e-12, and a factor for what the model makes of them.
inline constexpr double kTrainingTolerance = 1e-9;

/// Compares all steps of `actual` with those of `expected`, a run of a model
/// that did not fail. The error of a tensor is max|a - b| / max|b|, where
/// max|b| is at least 1 for what a step returns, and for a gradient or
/// parameter at least 1e-5 of the largest element of all of them: what cancels
/// out, as the gradient of the bias of keys does, is noise beside the others.
/// Lion steps by the sign of such noise, so these elements of parameters are
/// not compared, nor are the steps after one that went the other way.
TrainingComparison compareTraining(const TrainingRun &actual,
                                   const TrainingRun &expected,
                                   double tolerance = kTrainingTolerance);

/// What rounding does to a step: the largest error of the last step after the
/// parameters moved by 2^-50 of their size before it.
double noiseOf(ModelOp step, const TrainingData &data);

/// True when such an error is what rounding does to an ill-conditioned step: at
/// most 1e-3 and 1e4 times its noise (which needs two more runs of the step).
bool isNoise(double error, ModelOp step, const TrainingData &data);

} // namespace kerf

#endif // KERF_INTERPRETER_COMPARETRAINING_H
