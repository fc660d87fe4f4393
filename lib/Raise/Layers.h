//===- Layers.h - where the layers of a model stand -----------------------===//

#ifndef KERF_LIB_RAISE_LAYERS_H
#define KERF_LIB_RAISE_LAYERS_H

#include "LayerNames.h"

namespace kerf {

/// Layers in the body of a loop at most.
constexpr int64_t kLongestPeriod = 16;

/// True for ops that are recomputed wherever they are read.
bool isLeaf(mlir::Operation *op);

/// The ops of a model that are no leaves, in order.
struct Program {
  std::vector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, int64_t> placeOf;

  explicit Program(mlir::Block &block);
  /// The place of the op that makes a value; -1 for leaves and arguments.
  int64_t place(mlir::Value value) const;
};

/// Ops [start, end) of a program: one layer.
struct Range {
  int64_t start = 0, end = 0;
  int64_t size() const { return end - start; }
};

/// Where the layers of a stack begin, those of the last numbers that follow
/// each other: others may be loops already. Empty where layers are mixed.
struct Layers {
  std::vector<Range> ranges;
  int64_t firstNumber = 0;
};

Layers findLayers(const Program &program, const Stack &stack);

/// Moves ops that stand behind all layers and read one of them, as the sums of
/// a loss over routers do, to the end of that layer. Nothing is changed where
/// the last layer has no such ops as those before it.
void gatherTails(mlir::Block &block, const Stack &stack);

} // namespace kerf

#endif // KERF_LIB_RAISE_LAYERS_H
