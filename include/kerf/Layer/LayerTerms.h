//===- LayerTerms.h - the terms that a layer's cost is made of ------------===//
//
// Shared by the solver, which puts them in tables, and by the judge, which adds
// them up. All are for one micro-batch and one rank.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LAYER_LAYERTERMS_H
#define KERF_LAYER_LAYERTERMS_H

#include "kerf/FactorGraph/FactorGraphCache.h"
#include "kerf/Layer/LayerProblem.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
#include <optional>

namespace kerf {

/// What cannot be done costs in tables, s.
constexpr double kImpossibleSec = 1e12;

/// Which kind of engine an op keeps busy.
enum class WorkKind { Matmul, Attention, Row };

struct OpTime {
  WorkKind kind = WorkKind::Row;
  double seconds = 0;
  /// Of these, what a larger workspace of the library would spare.
  double workspaceSec = 0;
};

/// A collective of the ranks of an axis, of so many bytes (as in
/// kerf/Cost/Collectives.h).
struct Exchange {
  CollectiveKind kind = CollectiveKind::AllReduce;
  double bytes = 0;
  double copied = 0; ///< bytes that are put in order before it or behind it
  int64_t times = 1; ///< one after the other
  /// Once in a pass: what is recomputed in the backward pass finds it there.
  bool oncePerPass = false;
};

/// What an axis asks of a value that a reader needs otherwise.
struct AxisMove {
  int axis;
  AxisState from, to;
};

/// An exchange over an axis and, where bits of them are set, over others.
struct JointExchange {
  int axis;
  unsigned others;
  Exchange exchange;
  double sec;
};

/// A tensor that may travel, whole over the axis that it travels on. Parts of a
/// dimension that has others outside of it lie in many pieces: a collective of
/// them is one of copies (`CommandTimes::packSec` of ProgramTime).
struct Moving {
  Moving(double bytes, uint32_t inside = 0) : bytes(bytes), inside(inside) {}
  double bytes;
  uint32_t inside; ///< bit d: dimensions before d have several elements
  /// The dimension that tensor ranks shard, of what moves over context ranks;
  /// -1: none, or other ranks. Context ranks shard a dimension first: what is
  /// to be sharded, or is, within their parts is first gathered over tensor
  /// ranks.
  int shardedWithin = -1;
  bool isInside(AxisState state) const {
    return splitOuter(state) > 1 || (inside >> splitDim(state) & 1);
  }
};

/// Which ops share a kernel: a row op with the only reader of what it makes;
/// row ops with one space, as the stage `fuse` joins them; besides, sums of
/// rows with matmuls; besides, gelu with matmuls.
enum class KernelStyle { Chains, Joined, RowSums, Gelu };
KernelStyle kernelStyleOf(const Profile &profile, const Device &device);

/// What the kernels of a kind of layer read from memory and write to it,
/// whatever the layout: a value that a kernel makes and reads itself does not
/// move, and of several readers in a kernel the first one pays.
struct KernelTraffic {
  struct Op {
    llvm::SmallVector<bool, 8> reads, writes; ///< operands, results that move
    /// Bytes that a matmul moves for ops that it ends in, in parts of those of
    /// its first result.
    double epilogue = 0;
    bool inMatmul = false; ///< a matmul ends in it
    bool launch = false;   ///< the first op of a kernel or call
  };
  std::vector<Op> ops;
  /// Values that are in memory for somebody. An op that is recomputed reads and
  /// writes these, since its neighbours may not be recomputed.
  std::vector<bool> inMemory;
};
KernelTraffic kernelTrafficOf(const LayerKind &kind, KernelStyle style);

/// True for a part of a tensor whose elements do not lie together in it.
bool isStrided(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> part);
/// True when attention alone reads a value, perhaps as heads: it does so in
/// place.
bool isForAttention(const LayerKind &kind, int value);
/// Element-wise and row ops without matmuls, whose outputs a kernel that reads
/// them can make on the way.
bool isRowOp(const LayerOp &op);
/// True when kernels are all that reads a value, perhaps reshaped or sliced:
/// each slices it by itself.
bool isForKernels(const LayerKind &kind, int value);
/// True for a part that is made where it is joined with others: a kernel
/// without sums makes it, and nobody else reads it.
bool isMadeInJoin(const LayerKind &kind, int value);
/// The parts of what is joined of several along a dimension, views of them left
/// out; none for other ops.
std::vector<int> partsOf(const LayerKind &kind, const LayerOp &op);
/// The matmul whose result an op multiplies by a scalar that is then the
/// matmul's scale, where nobody else reads the result; else null.
const LayerOp *scaledMatmul(const LayerKind &kind, const LayerOp &op);

/// Whether an op that ranks work on together, each with a part of what both
/// factors have, gathers it. Attention does where all keys take no more than
/// the queries, as `buildVariant` does; else keys go round a ring.
bool takesAllKeys(const LayerKind &kind, const LayerOp &op, int64_t ranks);

/// An update by matmuls with Gram matrices (`LayerParam::gramSteps`), on one
/// rank.
struct GramUpdate {
  int64_t steps = 0;
  double batch = 1;           ///< matrices
  double side = 0, other = 0; ///< of G, and the dimension that G sums over
  int axis = -1;              ///< whose ranks sum G; -1: none
  double elementBytes = 4;
  bool isShort() const { return other < side; }
  /// Of G, one of each matrix.
  double gramBytes() const { return batch * side * side * elementBytes; }
  /// Of what lives at once between the matmuls.
  double workBytes() const;
};

/// Facts about a layer that do not depend on the layout: readers, fusion, the
/// patterns in which dimensions may be sharded.
class LayerFacts {
public:
  explicit LayerFacts(const LayerKind &kind);

  /// Readers of each value in the forward and in the backward pass: ops.
  std::vector<std::vector<int>> forwardReaders, backwardReaders;
  std::array<KernelTraffic, 4> traffic; ///< by `KernelStyle`
  /// Whether a value is never written to memory, by any runtime: made and read
  /// once, by row ops.
  bool fusedAway(int value) const {
    return !traffic[static_cast<size_t>(KernelStyle::Chains)].inMemory[value];
  }
  /// Blocks in which each dimension of each value may be sharded (`splitAt`).
  std::vector<std::vector<std::vector<int64_t>>> patterns;
  /// Values that may be kept from forward to backward, and those of them that
  /// the backward pass reads.
  std::vector<bool> forwardValues, readBack;
  /// By op: forward views that the backward pass shows again, since programs
  /// keep what they show; so it brings their operands into the state that they
  /// need once more. Several views of a value share that: the last pays (of a
  /// fused projection the values, which all queries read).
  std::vector<bool> shownAgain, convertsAgain;
  /// By op: views that programs make a copy of: parts of rows that others than
  /// attention read, and rows put together of such parts.
  std::vector<bool> copied;
  /// By op: of a copy, what is read of what is written: parts that are made
  /// there are not.
  std::vector<double> copiedReads;
  /// By op: it neither makes anything for the matmuls of routed tokens of its
  /// pass nor reads anything of them (the expert that all tokens have), so
  /// collectives of these run beside it.
  std::vector<bool> beside;
  /// By op: it brings rows, or in the backward pass gradients of rows, home
  /// from experts before others compute what is `beside`: ranks exchange them
  /// meanwhile.
  std::vector<bool> bringsHome;
  /// By op: gradients of the weights that rows are combined by, which programs
  /// compute behind a sum that brings gradients home, and forward matmuls whose
  /// results the backward pass needs for these alone.
  std::vector<bool> besideHome;
  /// By parameter: the value that an op makes its gradient; -1: none does.
  std::vector<int> gradients;

  /// The elimination order of a graph of this kind, found once: graphs of one
  /// `sort` with equal domains differ in costs only.
  const std::vector<int> &orderOf(int sort, const FactorGraph &graph) const;
  /// Eliminates in that order; answers that were given before are remembered.
  Elimination eliminateOnce(int sort, const FactorGraph &graph,
                            int64_t budget) const;

private:
  static constexpr int64_t kCacheBytes = int64_t(64) << 20;
  mutable EliminationCache solved{kCacheBytes};
  mutable std::map<std::pair<int, std::vector<int>>, std::vector<int>> orders;

  void findPatterns(const LayerKind &kind);
  void findShownAgain(const LayerKind &kind);
  void findBeside(const LayerKind &kind);
  void findHome(const LayerKind &kind);
};

/// One layer, one table key: everything a term asks for.
class LayerTerms {
public:
  LayerTerms(const LayerContext &context, const LayerQuery &query,
             const LayerKind &kind, const LayerFacts &facts);

  const LayerContext &context;
  const LayerQuery &query;
  const LayerKind &kind;
  const LayerFacts &facts;
  const KernelTraffic &traffic;
  /// The runtime is that of our programs: what these do alone is priced.
  const bool isOurs;
  std::array<int64_t, kInnerAxes> ranks;
  std::array<GroupCosts, kInnerAxes> costs;

  bool has(int axis) const { return ranks[axis] > 1; }
  /// Options of each op on an axis, given what others split; those that a
  /// filter or the axis forbids are left out.
  const std::vector<std::vector<OpOption>> &
  options(int axis, const LayerLayout &layout) const;
  /// Into how many shards all axes but `axis` (-1: all) split each factor.
  llvm::SmallVector<int64_t, 8> shardsOf(int op, const LayerLayout &layout,
                                         int axis) const;
  /// Seconds of an op with `option` on `axis` and the layout's on the others
  /// (`axis` -1: the layout's on all); `again`: when it is recomputed.
  OpTime timeOf(int op, const LayerLayout &layout, int axis = -1,
                const OpOption *option = nullptr, bool again = false) const;
  /// Seconds that a matmul of a gradient takes longer where it adds to the sum
  /// of micro-batches, which it reads.
  double addingSec(int op, const LayerLayout &layout) const;
  /// Seconds of a matmul's flops in the shape that `shards` of its factors
  /// leave, whatever it reads.
  double matmulSecOf(int op, llvm::ArrayRef<int64_t> shards) const;
  /// As KERF_OP_ATTENTION has them on one of so many ranks that share its
  /// sequence, without strides.
  std::vector<int64_t> attentionAttrs(const LayerOp &op,
                                      llvm::ArrayRef<int64_t> shards,
                                      int64_t contexts) const;
  /// Do Kerf's own kernels compute an attention on GPUs? `byKind`: whatever its
  /// gradient needs of the library's workspace, as bounds ask.
  bool isOwnAttention(const LayerOp &op, llvm::ArrayRef<int64_t> shards,
                      bool byKind) const;
  /// Bytes that copies of an attention's keys and values move where these lie
  /// in the zigzag order and its library wants them by position.
  double orderBytes(const LayerOp &op, llvm::ArrayRef<int64_t> shards) const;
  /// Own communication of an option (ring, split vocabulary), seconds.
  double variantSec(int op, const OpOption &option, int axis,
                    const LayerLayout &layout) const;
  /// Bytes of a value (of the micro-batch), sharded over the axes besides
  /// `axis`; as it travels, in the state in which it is made.
  double bytesOf(int value, const LayerLayout &layout, int axis) const;
  /// The room that it takes, as it is made or as it is kept.
  double heldBytesOf(int value, const LayerLayout &layout, int axis,
                     bool kept) const;
  /// What a rank has room for of a value in a state.
  double heldShare(AxisState state, int axis) const;
  /// The state in which a value comes on an axis.
  AxisState madeState(int value, const AxisLayout &axis) const;
  /// The dimension that tensor ranks shard of a value, for all that read it;
  /// else -1: where one reads all of it, it is gathered anyway.
  int shardedDim(int value, const LayerLayout &layout) const;
  /// That value as it travels.
  Moving movingOf(int value, const LayerLayout &layout, int axis) const;
  /// Seconds to bring a value into another state.
  double convertSec(int axis, AxisState from, AxisState to,
                    const Moving &what) const;
  /// The collective that does it; none where nothing travels.
  std::optional<Exchange> convertBy(int axis, AxisState from, AxisState to,
                                    const Moving &what) const;
  /// What tensor ranks gather so that context ranks can:
  /// `Moving::shardedWithin`.
  std::optional<Exchange> gatherWithin(AxisState from, AxisState to,
                                       const Moving &what) const;
  /// Own collectives of an option.
  llvm::SmallVector<Exchange, 4> variantBy(int op, const OpOption &option,
                                           int axis, const LayerLayout &layout,
                                           unsigned partners = 0) const;
  /// Bit a: ranks of inner axis a work on an op together with those of `axis`,
  /// in one ring or with one gather of what they share.
  unsigned partnersOf(int op, const OpOption &option, int axis,
                      const LayerLayout &layout) const;
  /// True where the ranks of another axis, before `axis`, stand for all of
  /// them.
  static bool isCounted(int axis, unsigned partners) {
    return partners & ((1U << axis) - 1);
  }
  /// Ranks of an axis and its partners.
  int64_t ranksWith(int axis, unsigned partners) const;
  /// With its copies.
  double secOf(int axis, const Exchange &exchange) const;
  /// The same of the ranks of several axes; bit a of `others`: of axis a, too.
  double secOf(int axis, unsigned others, const Exchange &exchange) const;
  /// Elements of a parameter on one rank, sharded over all axes but `axis`.
  double paramElements(int param, const LayerLayout &layout, int axis,
                       AxisState AxisLayout::Rest::*state) const;
  /// The update of a parameter that is trained; on `axis` (-1: none) it is
  /// stored as `own` says.
  GramUpdate gramUpdate(int param, const LayerLayout &layout, int axis = -1,
                        AxisState own = kReplicated) const;
  /// Seconds of the matmuls, and of the sums over ranks.
  double matmulSecOf(const GramUpdate &update) const;
  double sumSec(const GramUpdate &update) const;
  /// What batch dimensions are divided by before any inner axis.
  int64_t batchShards() const { return batch; }
  bool isExternal(int value) const;

  Device device; ///< what a rank has of it
  /// Flops per second of large matmuls of an op's kind and number type.
  double bestRate(const LayerOp &op) const;
  /// Whether an op that is recomputed finds its operand in the state that it
  /// needs: an op of the backward pass reads it so, too, or shows it again.
  bool sharesAgain(int op, size_t operand, const AxisLayout &axis) const;

private:
  int64_t batch = 1;
  bool packs = false; ///< what travels must lie in one piece
  /// Of the ranks of several axes, by their bits; where they are one group.
  std::array<std::optional<GroupCosts>, 1 << kInnerAxes> jointCosts;
  /// The last answers of `options`; they stay right while no other axis has
  /// ranks.
  mutable std::array<std::vector<std::vector<OpOption>>, kInnerAxes> made;

  /// True for a view that takes the time of a copy.
  bool copies(int index) const;
  double roomBytes(int index, const LayerLayout &layout, int axis,
                   const OpOption *option) const;
  /// Bytes that an op reads and writes on one rank.
  double movedBytes(int op, const LayerLayout &layout, int axis,
                    const OpOption *option, bool again, double scale) const;
  double tensorBytes(int op, bool isResult, int index,
                     const LayerLayout &layout, int axis,
                     const OpOption *option, bool room = false) const;

  double exchangedBytes(int op, const OpOption &option, int axis,
                        const LayerLayout &layout) const;
  template <typename ShareOf>
  double partOf(int value, const LayerLayout &layout, int except,
                ShareOf shareOf) const;

  void joinGroups(double typicalBytes);
  bool allowed(int axis, const LayerOp &op, const OpOption &option) const;
  bool passesMaximum(const LayerOp &op, const OpOption &option) const;
  bool passesUnfinished(const LayerOp &op, const OpOption &option) const;
  bool clashes(int axis, int op, const OpOption &option,
               const LayerLayout &layout) const;
};

/// The state on an axis in which a forward value is kept: as the layout says,
/// or as it is made.
AxisState keptState(const LayerTerms &terms, const LayerLayout &layout,
                    int value, int axis);
/// Bytes of a forward value as it is, or would be, kept on one rank.
double keptBytes(const LayerTerms &terms, const LayerLayout &layout, int value);

/// True for a maximum over all sequences, of which each data rank has some.
bool isMaximumOfBatch(const LayerOp &op);

/// Seconds of copies, per micro-batch, of the gradient of `bytes` that a layer
/// is handed, where deferred weight gradients read it; else 0.
double deferredCopySec(const LayerTerms &terms, double bytes);
/// Bytes by which the sum of a parameter's gradients over micro-batches is
/// larger than in the state in which the weight is stored: it lies as ops make
/// it, so a sum over ranks is whole on each of them. `weight` and `gradient`:
/// what the rank holds on `axis` (-1: as the layout says on all axes).
double gradientExcess(const LayerTerms &terms, int param,
                      const LayerLayout &layout, int axis = -1,
                      double weight = 1, double gradient = 1);
/// Seconds per byte of that.
double excessPrice(const LayerQuery &query);
/// Adds the update of a parameter by matmuls to what a layer does once per
/// step; returns the seconds of the matmuls, per micro-batch.
double addGramUpdate(const LayerTerms &terms, const LayerLayout &layout,
                     int param, LayerPoint &point,
                     std::vector<LayerCollective> *account);

/// The cost of a layout (`costOf` with everything at hand); with `account`, its
/// collectives, too.
LayerCost sumCosts(const LayerTerms &terms, const LayerLayout &layout,
                   std::vector<LayerCollective> *account = nullptr);

/// The exchanges that bring a value to a reader which asks two axes or more for
/// other parts: programs make one after the other, of what the one before has
/// left.
llvm::SmallVector<JointExchange, 3>
moveTogether(const LayerTerms &terms, const LayerLayout &layout, int value,
             llvm::ArrayRef<AxisMove> moves);

/// `solveLayer` and `recomputationPoints` with everything at hand.
/// What the rounds of coordinate descent found: layouts alone, since ranks that
/// cost the same on each axis, not together, share them.
struct LayerRounds {
  std::vector<LayerSolution> found; ///< without costs
  bool isStuck = false;             ///< the next round finds nothing
};
LayerSolution solveWith(const LayerTerms &terms);
/// The same; takes rounds that are known and adds those that are not.
LayerSolution solveWith(const LayerTerms &terms, LayerRounds &known);
/// The exact optimum of one axis, the others without ranks.
LayerSolution solveIdeal(const LayerTerms &terms, int axis);
std::vector<std::pair<LayerLayout, LayerCost>>
recomputationPointsWith(const LayerTerms &terms, const LayerLayout &layout);
/// The point of a layout that makes the forward ops of these numbers again.
std::pair<LayerLayout, LayerCost>
recomputationPointOf(const LayerTerms &terms, const LayerLayout &layout,
                     llvm::ArrayRef<int64_t> numbers);

/// The one group that ranks of several axes are together, if they are one: bit
/// a of `axes`: axis a, which has ranks.
std::optional<Group> jointGroup(const TableKey &key, unsigned axes);

/// Times costs in the solver's unit.
int64_t toPicoseconds(double seconds);

/// A rank's part of a split; of ragged rows on average.
inline double splitShare(AxisState state, int64_t ranks) {
  return isSplit(state) ? 1.0 / double(ranks) : 1.0;
}

/// Values in memory of a layer with a layout, the `count` largest.
std::vector<LayerBuffer> largestBuffers(const LayerTerms &terms,
                                        const LayerLayout &layout,
                                        size_t count);

} // namespace kerf

#endif // KERF_LAYER_LAYERTERMS_H
