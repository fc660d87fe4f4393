//===- Training.h - compiled training and the interpreter, side by side ---===//

#ifndef KERF_TEST_E2E_TRAINING_H
#define KERF_TEST_E2E_TRAINING_H

#include "kerf/Interpreter/Interpreter.h"
#include "kerf/Runtime/Runtime.h"

#include <map>
#include <string>
#include <vector>

namespace kerf::test {

struct TrainingOptions {
  int64_t steps = 3;
  int threads = 2;
  double rate = 1e-3;  ///< learning rate
  int64_t ignored = 0; ///< percentage of targets that are ignored
  bool f64 = false;    ///< the interpreter rounds nothing
  bool ends = false; ///< also tensors before the first and after the last step
};

/// Tensors by expanded name; instead of a parameter that has one, its master.
struct TrainingTensors {
  std::map<std::string, std::vector<double>> states, params;
};

/// What a run gives: the model's outputs of every step, and tensors after the
/// first one.
struct TrainingResult : TrainingTensors {
  std::vector<std::vector<double>> outputs;
  /// Of every step, what each layer's experts counted, by "expert_load LAYER".
  std::vector<std::map<std::string, std::vector<double>>> experts;
  TrainingTensors initial, last; ///< with `ends`, of compiled files
};

/// The largest errors: of an output relative to itself (at least 1), of a
/// tensor relative to its largest element, at least a thousandth of the largest
/// element of all tensors of its kind: some gradients are nothing but rounding.
struct TrainingErrors {
  double loss = 0;    ///< of the first output
  double metrics = 0; ///< of the other outputs
  double experts = 0; ///< of the counts of experts
  double states = 0, params = 0;
  std::string worst; ///< tensor with the largest error
  /// "loss 1.0e-07, metrics ...".
  std::string describe() const;
};

/// Trains in the interpreter. Ends the program where that fails.
TrainingResult interpret(ModelOp model, const TrainingOptions &options);

/// Trains a compiled file, with a process for each rank: this one never touches
/// the device, since no driver of a GPU survives the next fork. Ends the
/// program with a message and status 1 where the runtime or one of the ranks
/// fails.
TrainingResult execute(const std::string &artifact, ModelOp model,
                       const TrainingOptions &options);

/// States of parameters whose names end in `skipped`, if given, are not
/// compared.
TrainingErrors compare(const TrainingResult &found,
                       const TrainingResult &expected,
                       const std::string &skipped = "");

} // namespace kerf::test

#endif // KERF_TEST_E2E_TRAINING_H
