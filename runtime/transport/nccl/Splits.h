//===- Splits.h - who makes which communicators when ----------------------===//
//
// ncclCommSplit is called by all ranks at the same time, and makes several
// communicators that share no rank. Each rank says which groups it is in, in an
// order of its own; from what all ranks say follows one list of splits for all
// of them.
//
// Idea: take the groups by their place in the lists of their members, and put
// each into the first split in which none of its members is taken. Groups of
// one axis of a mesh, which all ranks name at the same place, become one split;
// the channels of a pipeline of any depth become two.
//
// Example: {0,1}, {1,2}, {2,3}. Splits: ({0,1}, {2,3}), ({1,2}).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_NCCL_SPLITS_H
#define KERF_RUNTIME_TRANSPORT_NCCL_SPLITS_H

#include "Nccl.h"

#include <vector>

namespace kerf::runtime::nccl {

/// A group as one of its members names it. All say the same but for `place`.
struct Named {
  uint32_t first = 0; ///< its first member, a rank
  uint32_t size = 0;  ///< of it, >= 2
  uint32_t place = 0; ///< of the rank that names it
  uint32_t reserved = 0;
  uint64_t key = 0; ///< tells groups with the same members apart
};

/// The groups of a rank that need a communicator of their own.
using NamedList = std::vector<Named>;

/// The key of a group of these ranks: other ranks or another order, another
/// key. `use` tells apart what has the same members.
uint64_t keyOf(const std::vector<uint32_t> &members, uint64_t use);

/// What a rank does in one split.
struct Split {
  int color = kNoColor; ///< the first member of its group
  int key = 0;          ///< its place
  uint32_t named = 0;   ///< which of its groups; none without a color
};

/// Of each rank, what it does in the splits, in order: as many for all ranks.
using SplitPlan = std::vector<std::vector<Split>>;

/// Plans splits from what each rank named. Fails when a group is not named by
/// as many ranks as it has members, once by each.
Status planSplits(const std::vector<NamedList> &named, SplitPlan &plan);

} // namespace kerf::runtime::nccl

#endif // KERF_RUNTIME_TRANSPORT_NCCL_SPLITS_H
