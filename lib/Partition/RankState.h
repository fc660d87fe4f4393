//===- RankState.h - what a rank has of a value ---------------------------===//
//
// The states that `checkRankStates` follows. They are worked out from the
// programs alone, and share nothing with the layouts of a plan (Layout.h): so
// one finds what the other forgot.
//
// Of a value, over each axis of the mesh and `micro`, one of
//
//   Same     all ranks hold the same, or, where a dimension has the axis as a
//            digit, parts of one value
//   Sum      the value is the sum over the ranks of what they hold
//   Max      the maximum
//   Norm     the root of a sum of squares, of which each rank has its own part
//   Ring     parts, to which only some ranks of a ring have contributed
//   Own      ranks differ, and mean to (the place of a rank, rows of experts)
//   Unknown  not followed: data decides
//
// The global index of a dimension is a number of mixed radix, whose digits are
// local or coordinates of the rank, major to minor: 64 rows that dp = 2, then
// micro = 4 split are [dp][micro][8]; the thirds of a fused weight that tp = 2
// shards are [3][tp][32]. A gather makes the digit of an axis a local one, a
// slice the reverse, a reshape deals them out anew.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_PARTITION_RANKSTATE_H
#define KERF_LIB_PARTITION_RANKSTATE_H

#include "kerf/Dialect/Spmd/Spmd.h"

namespace kerf {

/// Axes of a program by number, those of one rank aside; the last is `micro`,
/// if there are several micro-batches.
class RankAxes {
public:
  explicit RankAxes(spmd::ProgramOp program);
  unsigned count() const { return names.size(); }
  llvm::StringRef nameOf(unsigned axis) const { return names[axis]; }
  int64_t sizeOf(unsigned axis) const { return sizes[axis]; }
  /// Those of a list (`StringAttr`s) that have a number.
  llvm::SmallVector<unsigned, 4> numbersOf(mlir::ArrayAttr list) const;
  std::optional<unsigned> micro() const { return microAxis; }
  /// Over `pp` ranks have programs of their own: what depends on parameters is
  /// `Own`, until it is combined.
  bool isPipeline(unsigned axis) const;
  /// True where several sequences choose experts together.
  bool hasGroups() const { return groups; }

private:
  llvm::SmallVector<std::string> names;
  llvm::SmallVector<int64_t> sizes;
  std::optional<unsigned> microAxis;
  bool groups = false;
};

/// A digit of a global index: local, or the coordinate of `axis`, plus `shift`
/// where the part was passed around a ring.
struct IndexDigit {
  int64_t size;
  int axis = -1;
  int64_t shift = 0;
  bool isLocal() const { return axis < 0; }
  bool operator==(const IndexDigit &other) const {
    return size == other.size && axis == other.axis && shift == other.shift;
  }
};
using IndexDigits = llvm::SmallVector<IndexDigit, 3>;

/// Joins local digits that follow each other, drops those of size 1.
IndexDigits normalized(const IndexDigits &digits);

/// How one dimension is sharded.
struct DimState {
  IndexDigits digits;
  bool uniform = false; ///< all along it is equal: any sharding will do
  bool opaque = false;  ///< the axes are known, their places are not

  static DimState local(int64_t size);
  static DimState anyOf(int64_t size);
  bool isShardedBy(unsigned axis) const;
  int64_t localSize() const;
  /// The axes, ascending.
  llvm::SmallVector<unsigned, 2> axes() const;
  /// Without an axis.
  DimState without(unsigned axis) const;
  /// Makes the places of the axes unknown, for so many local elements.
  void forget(int64_t size);
};

enum class Over : uint8_t { Same, Sum, Max, Norm, Ring, Own, Unknown };

/// What ranks hold of a value.
struct RankState {
  llvm::SmallVector<DimState, 4> dims;
  llvm::SmallVector<Over, 6> over;
  /// Of `Ring`: the contributions, by their distance around the ring. Of a sum
  /// over `micro`: not 0 where the micro-batches before are in it.
  llvm::SmallVector<uint64_t, 6> parts;
  bool zero = false; ///< all elements: a sum over any axes
  /// The value is a piece of this parameter, or its flat shard.
  spmd::ParamOp flat;

  /// The same on all ranks; `uniform` along all dimensions if asked for.
  static RankState same(mlir::Type type, const RankAxes &axes,
                        bool uniform = false);
  static RankState unknown(mlir::Type type, const RankAxes &axes);
  /// The dimension that an axis shards, or -1.
  int shardedDim(unsigned axis) const;
  bool isShardedBy(unsigned axis) const { return shardedDim(axis) >= 0; }
  /// Not followed over this axis.
  bool isLoose(unsigned axis) const {
    return over[axis] == Over::Own || over[axis] == Over::Unknown;
  }
  bool isUniform() const;
};

/// True when two dimensions are sharded alike, axes in `loose` aside. What is
/// uniform is sharded as the other.
bool isShardedAlike(const DimState &a, const DimState &b,
                    llvm::ArrayRef<bool> loose);
/// The same of whole tensors: a dimension of size 1 may stand elsewhere.
bool isShardedAlike(const RankState &a, const RankState &b,
                    llvm::ArrayRef<bool> loose);

/// The same value with axes at other dimensions: those that differ by
/// dimensions of one local element alone.
std::vector<RankState> otherPlaces(const RankState &state);

/// The axes as digits become local ones; fails where their parts would come
/// together in another order.
mlir::LogicalResult gatherDim(DimState &dim, llvm::ArrayRef<unsigned> axes,
                              const RankAxes &all);
/// The parts of the local elements over these axes.
void sliceDim(DimState &dim, llvm::ArrayRef<unsigned> axes,
              const RankAxes &all);
/// Deals the digits of dimensions, taken together, out to others of so many
/// local elements each.
llvm::SmallVector<DimState, 4> regroup(llvm::ArrayRef<DimState> from,
                                       llvm::ArrayRef<int64_t> sizes,
                                       bool axesFirst);

/// How a parameter is sharded, as it is declared.
llvm::SmallVector<DimState, 4> declaredDims(spmd::ParamOp param,
                                            const RankAxes &axes);

/// "the same on all ranks", "split along dimension 1", ...
std::string describeOver(const RankState &state, unsigned axis);
/// `[dp][8], [2][tp][4]`.
std::string printDim(const DimState &dim, const RankAxes &axes);

} // namespace kerf

#endif // KERF_LIB_PARTITION_RANKSTATE_H
