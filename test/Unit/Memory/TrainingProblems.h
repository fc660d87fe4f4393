//===- TrainingProblems.h - Placement problems like training steps --------===//
//
// Buffers and lives of a training step of a Transformer, as a compiler would
// get them: parameters and optimizer state always alive, saved values from
// forward to backward, temporaries inside layers, gradients from backward to
// the update.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_UNIT_MEMORY_TRAININGPROBLEMS_H
#define KERF_TEST_UNIT_MEMORY_TRAININGPROBLEMS_H

#include "kerf/Memory/Place.h"

namespace kerf::test {

/// Shape of a model and of its step; sizes in elements.
struct StepShape {
  std::string name;
  int64_t layers, hidden, ffn, vocab, batch, seq;
  int64_t kvHidden = 0;  ///< width of keys; 0: that of queries
  int64_t gradBytes = 4; ///< bytes per element of gradients
  int64_t dataBytes = 4; ///< bytes per element of activations and parameters
  /// Layers as a counted loop (values of all layers in one stacked buffer), or
  /// one after the other.
  bool counted = true;
  /// Saves a layer's input only; backward computes its other values again, in
  /// the buffers of the forward, which are thus alive twice.
  bool recompute = false;
  bool masters = false; ///< f32 copies of parameters
};

/// The shapes that tests and saved problems are about.
std::vector<StepShape> stepShapes();

/// The placement problem of one training step.
PlaceProblem trainingProblem(const StepShape &shape);

/// Gradients and activations of very many layers, one after the other, with
/// scratch buffers that are alive once per layer: about `numBuffers` buffers.
PlaceProblem largeProblem(int64_t numBuffers);

} // namespace kerf::test

#endif // KERF_TEST_UNIT_MEMORY_TRAININGPROBLEMS_H
