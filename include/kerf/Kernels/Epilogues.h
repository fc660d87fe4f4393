//===- Epilogues.h - matmuls that compute what follows them ---------------===//
//
// The one description of what matmuls of GPUs end in. The stage `fuse` gives it
// the ops of a block, the planner those of a layer; both do what it says.
//
// Matmuls of cuBLASLt can end in a gelu or in its gradient (on GPUs that Gpus.h
// tells), and add up the rows of an operand, which they read anyway. Nothing is
// taken that would only move work out of a kernel that stays: a gelu that a
// kernel reads, a sum of rows that a kernel makes or reads as well.
//
//   h = matmul x, w1; g = gelu h (both kept for the backward pass)
//     becomes  g, h = {matmul, gelu}
//   p = matmul dy, w2; dh = gelu_backward h, p; db = sum (cast dh);
//   dw = matmul dh, x
//     becomes  dh = {matmul, gelu_backward}; dw, db = {matmul, cast, sum}
//
//===----------------------------------------------------------------------===//

#ifndef KERF_KERNELS_EPILOGUES_H
#define KERF_KERNELS_EPILOGUES_H

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace kerf::kernels::epilogues {

struct Tensor {
  int type = 0;        ///< a number per type of elements
  int64_t columns = 0; ///< size of the last dimension; 0: a scalar
  bool leaves = false; ///< somebody who is no op of the graph reads it, too
  /// A kernel that is no op of the graph makes or reads it.
  bool inKernel = false;
};

/// What an op is to the matmuls around it.
enum class Role {
  Other,
  Matmul, ///< of a library: no batch, a dense result, no 8-bit floats
  Gelu,   ///< by tanh; reads what it is of
  /// By tanh; reads what the gelu was of, then the gradient of its result.
  GeluBackward,
  RowSum, ///< over all dimensions but the last
  Cast,
  View,
};

struct Op {
  Role role = Role::Other;
  bool isKernel = false;                     ///< computes in a kernel of ours
  llvm::SmallVector<int, 4> reads = {};      ///< tensors, as operands come
  llvm::SmallVector<int, 4> writes = {};     ///< tensors, as results come
  int64_t columns = 0;                       ///< of the matrix that is made
  bool hasOneType = false;                   ///< operands, bias, and result
  llvm::SmallVector<int, 2> sumsRowsOf = {}; ///< tensors whose rows it adds up
};

/// Ops in the order in which they run.
struct Graph {
  std::vector<Op> ops;
  std::vector<Tensor> tensors;
};

/// A matmul with what it computes besides.
struct Epilogue {
  int matmul;
  llvm::SmallVector<int, 4> members; ///< ops in the order of their edges
  llvm::SmallVector<int, 2> results; ///< tensors that it makes
  int at; ///< the member in whose place all are computed
};

/// Which ends matmuls of a target have.
struct Ends {
  bool gelu = false; ///< and its gradient
  bool sums = false; ///< of rows
};

/// What becomes one, in the order in which it is to be done; an op is a member
/// of one at most. Takes as many steps as ops have operands.
std::vector<Epilogue> findEpilogues(const Graph &graph, Ends ends);

} // namespace kerf::kernels::epilogues

#endif // KERF_KERNELS_EPILOGUES_H
