//===- Sketch.h - kernels of a layer as plain data ------------------------===//
//
// What later stages make of a layer's ops, without IR: nodes that read and
// write tensors, joined to kernels, with matmuls' epilogues, collectives that
// start early, and what lives when.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_KERNELS_SKETCH_H
#define KERF_KERNELS_SKETCH_H

#include "kerf/Machine/Machine.h"
#include "kerf/Step/LayerModel.h"

#include "llvm/ADT/SmallVector.h"

#include <array>
#include <vector>

namespace kerf::program_sketch {

using Sizes = llvm::SmallVector<int64_t, 4>;

/// Classes of `StageMemory` that come and go.
enum class Held { Gradients, Activations, Temporaries, Communication };

/// How long a tensor lives when nothing reads it any more.
enum class Lasts { Body, Call, Step };

struct Tensor {
  double bytes = 0; ///< 0: it lies in something that is counted by itself
  Sizes shape;      ///< of this rank
  Held held = Held::Temporaries;
  Lasts lasts = Lasts::Body; ///< else until `TimeLine::endLasting`
};

/// A kernel, a library call or a collective.
struct Node {
  llvm::SmallVector<int, 6> reads, writes; ///< tensors
  bool isKernel = false, isCollective = false;
  bool scatters = false; ///< a collective that sums, and leaves parts
  /// A kernel that looks up rows of experts and sums them: it joins others as
  /// what it makes, and sums that are made for it alone.
  bool gathers = false;
  double workspace = 0;        ///< bytes, while it runs
  const LayerOp *op = nullptr; ///< that it was made for; null: another command
  /// Factors of the dimensions of the first `reads` and `writes`.
  llvm::SmallVector<const TensorFactors *, 6> readFactors, writeFactors;
};

/// What a function does for one layer.
struct Body {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  /// The value that the layer is given and the one that it hands on, where both
  /// have one place: -1: no such.
  int carried = -1, next = -1;
  double exchanged = 0; ///< bytes of the largest room for rows on their way
};

/// Makes a node that of an op whose operands it reads and whose results it
/// writes, in their order.
inline void setOp(Node &node, const LayerOp &op) {
  node.op = &op;
  for (const TensorFactors &factors : op.operandFactors)
    node.readFactors.push_back(&factors);
  for (const TensorFactors &factors : op.resultFactors)
    node.writeFactors.push_back(&factors);
}

/// True for an op whose kernel may be joined though it looks up rows: programs
/// of GPUs combine rows of experts so (`kerf-fuse-groups`).
inline bool looksUpRows(const LayerOp &op, BackendTarget target) {
  return target == BackendTarget::Cuda && op.name == "combine";
}

/// Lets matmuls end in gelu (where `gelu` says so), its gradient and sums of
/// rows, as the stage `fuse` does for GPUs (Epilogues.h).
void fuseEpilogues(Body &body, const LayerKind &kind, bool gelu);

/// Joins kernels and orders the nodes, as the stage `fuse` does (Groups.h);
/// where `turned` says so, also copies of a tensor with transposed ones, as
/// programs of GPUs do.
void joinKernels(Body &body, bool turned);
/// The kernel of each node: the number of its first node.
std::vector<int> kernelGroups(const Body &body, bool turned);

/// Starts collectives early and waits for them late, as `fuse` does at its end
/// (Overlap.h): what they read lives until then.
void overlapCollectives(Body &body);

/// Bytes by class.
struct Levels {
  std::array<double, 4> bytes = {}; ///< by `Held`
  double &operator[](Held held) { return bytes[static_cast<size_t>(held)]; }
  Levels &operator+=(const Levels &other);
  Levels &operator-=(const Levels &other);
  double total() const;
};

/// What simulating the nodes of a body, one after the other, does to the
/// memory.
struct Lives {
  Levels peak;                ///< when most lives
  std::array<Levels, 3> left; ///< what outlasts the body; by `Lasts`
  double exchanged = 0;       ///< see `Body`
};
/// What a body hands on lives to the end of it.
Lives livesOf(const Body &body);

/// Bytes as buffers have them: whole cache lines.
double roundedBytes(double bytes);

} // namespace kerf::program_sketch

#endif // KERF_KERNELS_SKETCH_H
