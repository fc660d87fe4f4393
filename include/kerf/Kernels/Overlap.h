//===- Overlap.h - collectives beside computation, as plain data ----------===//
//
// The one description of when collectives start and are waited for. The stage
// `fuse` gives it the ops of a block, the planner those of a layer; both do
// what it says.
//
// A collective starts where its operand is known and is waited for where its
// result is read: between these places stand ops that need neither. One is
// under way at a time: more would keep more buffers alive, and ranks that
// compute the same things begin them at the same times anyhow.
//
// Collectives come in the order in which their operands are made: the sum of a
// gradient follows the matmul that makes it.
//
// Gathers of parameters (ZeRO 3) have no op that makes their operand: they
// start as soon as the collective before is done, while the layer still
// computes with the weight before. Sums of gradients are read by nothing but a
// buffer or the next layer: they are waited for when the next collective
// starts.
//
//     w = gather; x = f(w); v = gather; y = g(v)
//       becomes  w = gather; start v; x = f(w); wait v; y = g(v)
//
// A gather of what was kept, which the matmul after a sum needs, would end that
// sum as soon as it starts. It comes before what makes the operand of the sum,
// and each has a matmul beside it:
//
//     g = matmul; sum g; x = gather; w = matmul x
//       becomes  start x; g = matmul; wait x; start g; w = matmul x; wait g
//
// A sum over ranks of what others have summed (state that is sharded over a
// part of the data ranks) would end the first sum as soon as it starts. It is
// the smaller one, so it comes as late as can be, and the first one has the
// computing before it.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_KERNELS_OVERLAP_H
#define KERF_KERNELS_OVERLAP_H

#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace kerf::kernels::overlap {

/// What an op is to the collectives around it.
enum class Role {
  Computes,
  Free,       ///< becomes no command: a number, a buffer as a value
  Rename,     ///< another address of what its operand is
  Part,       ///< an address within its operand
  Parameter,  ///< the address of a parameter
  Wait,       ///< for a collective, whose result it reads first
  Store,      ///< to a buffer
  Collective, ///< among ranks of one stage, which may change its place
  Fixed,      ///< others take part in it, or it is a loop: nothing passes it
};

struct Op {
  Role role = Role::Computes;
  llvm::SmallVector<int, 4> reads = {};  ///< tensors, as operands come
  llvm::SmallVector<int, 2> writes = {}; ///< tensors, as results come
  bool isStarted = false; ///< a collective that has its wait already
  bool scatters = false;  ///< a collective that sums, and leaves parts
  bool changesParameters = false;
  int stores = -1; ///< buffer that a store goes to
  /// Buffer that the op gives as a value; of a collective whose operand comes
  /// from outside the block: that buffer.
  int loads = -1;
  bool readsParameter = false;            ///< the same, of a parameter
  llvm::SmallVector<int, 2> buffers = {}; ///< all that it names
};

/// A place in the new order: an op, or the wait for one.
struct Place {
  int op;
  bool waits = false;
};

/// The order in which ops of a block run best, with waits for those that are
/// started. Of one that was started before, the wait is an op. Takes (ops x
/// collectives) steps.
std::vector<Place> overlapCollectives(const std::vector<Op> &ops);

} // namespace kerf::kernels::overlap

#endif // KERF_KERNELS_OVERLAP_H
