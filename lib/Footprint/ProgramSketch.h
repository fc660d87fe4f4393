//===- ProgramSketch.h - programs of a plan, as far as memory goes --------===//
//
// Problem: how large is the arena of a stage's program, before there is one?
// Idea: what later stages do to a layer is known: conversions become
// collectives into tensors of their own, kernels are joined, each value lives
// from its maker to its last reader, library calls need a workspace. So the
// passes over a layer are written down as nodes that read and write tensors,
// and simulated on one time line with what lives longer: stacks of kept values,
// gradients. The most that lives at one time is the arena.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_FOOTPRINT_PROGRAMSKETCH_H
#define KERF_LIB_FOOTPRINT_PROGRAMSKETCH_H

#include "kerf/Kernels/Sketch.h"
#include "kerf/Layer/LayerTerms.h"
#include "kerf/Search/Search.h"

#include <array>
#include <map>

namespace kerf::program_sketch {

using States = llvm::SmallVector<AxisState, kInnerAxes>; ///< by axis

/// Bytes over time.
class TimeLine {
public:
  /// Something that lives from the next node on; until `end`.
  int begin(double bytes, Held held);
  void end(int piece);
  void simulate(const Lives &lives);
  /// Ends the tensors that outlasted their bodies so.
  void endLasting(Lasts lasts);
  /// A node of its own.
  void tick() { note(live); }
  /// The classes at the time at which most lives.
  StageMemory peak() const;

private:
  std::vector<std::pair<double, Held>> pieces;
  Levels live, most;
  std::array<Levels, 3> lasting; ///< of `live`; by `Lasts`

  void note(const Levels &levels) {
    if (levels.total() > most.total())
      most = levels;
  }
};

//===----------------------------------------------------------------------===//
// Workspaces
//===----------------------------------------------------------------------===//

/// The shape of a value on one rank, by what it is on each axis.
Sizes shapeIn(const LayerTerms &terms, int value,
              llvm::ArrayRef<AxisState> states);

/// What an op does on each axis; null where there are no ranks.
using OpOptions = std::array<const OpOption *, kInnerAxes>;

/// Bytes that an op needs beside its tensors, while it runs on `workers`
/// threads.
double workspaceOf(const LayerTerms &terms, int op, const OpOptions &options,
                   int64_t workers);

/// Options of a layer's matmuls on an axis, by op; of other ops none.
using AxisOptions = std::vector<std::vector<OpOption>>;
/// These by kind, axis, ranks and parts of the batch.
using WorkspaceMemo = std::map<std::array<int64_t, 4>, AxisOptions>;

/// Bytes of the workspace that a layer needs under its best-case layout.
double leastWorkspace(const LayerTerms &terms, int64_t workers,
                      WorkspaceMemo &memo);

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// What becomes of the gradients of a micro-batch.
struct GradientRule {
  bool isSummed = false;  ///< over micro-batches
  bool isSharded = false; ///< at the end of the layer (ZeRO 2 and 3)
  /// Over data ranks, with ZeRO 0 and 1: in the layer, if it is a message.
  bool sumsEarly = false;
  auto operator<=>(const GradientRule &) const = default;
};

/// What slots hold of a micro-batch: from the forward to the backward pass;
/// with deferred weight gradients from forward to these, and from backward to
/// these.
enum class Kept { Early, Late, Handed };
constexpr std::array<Kept, 3> kAllKept = {Kept::Early, Kept::Late,
                                          Kept::Handed};
template <typename T> struct ByKept {
  std::array<T, 3> all = {};
  T &operator[](Kept kept) { return all[static_cast<size_t>(kept)]; }
  const T &operator[](Kept kept) const {
    return all[static_cast<size_t>(kept)];
  }
};

/// A kind of layer as it is sharded, and where its values lie.
class SketchedLayer {
public:
  SketchedLayer(const LayerContext &context, const OuterChoice &outer, int kind,
                const LayerFacts &facts, const LayerLayout &layout,
                int64_t workers);

  /// Parts of a pass that are in one function.
  struct Passes {
    bool forward = false, inputGradients = false, weightGradients = false;
    bool keeps = true; ///< kept values lie in slots
    bool isLoop = true;
    GradientRule gradients;
    auto operator<=>(const Passes &) const = default;
  };
  /// What lives in a pass; worked out once.
  const Lives &lives(const Passes &passes) const;

  /// Bytes of one layer in slots; of its input apart.
  double keptBytes(Kept kept) const;
  bool keepsInput() const;
  /// How long the input is kept.
  Kept inputKept() const;
  /// Bytes of parameters that rest as another layer has them and are brought
  /// into the layout of this one once per step.
  double movedBytes() const;
  /// Bytes of what is handed on.
  double boundaryBytes() const;
  double gradientBoundaryBytes() const;
  /// Bytes of the step's inputs that it reads, of all micro-batches.
  double inputBytes() const;
  /// Bytes of the tables that it reads and that the step has once.
  double stepTableBytes() const;

  struct Param {
    const LayerParam *param = nullptr;
    double elements = 0;     ///< on this rank
    double gradient = 0;     ///< elements of the gradient as it is made
    double copies = 1;       ///< of gradients that are summed over data ranks
    double ranks = 1;        ///< over which state is sharded
    double piece = 0;        ///< elements of a part of it
    double updateBytes = 0;  ///< that live between the matmuls of its update
    bool isMatmul = false;   ///< a matmul makes its gradient
    bool isDeferred = false; ///< its gradient may be made later
    /// Tensor ranks each make a part of all of it: the sum is scattered among
    /// them.
    bool isScattered = false;
    bool isTied = false;   ///< another layer of the stage has it
    bool isAcross = false; ///< another stage has it, too
    bool isMoved = false;  ///< it is stored sharded as another layer has it
    /// Of a moved one: its gradients are added up as they are made, and parts
    /// are exchanged once, in the update.
    bool isSummedApart = false;

    /// Its gradient is added to the sum that another layer has.
    bool sharesSum() const { return isTied && !isSummedApart; }

    /// True where a backward pass can sum the gradient over ranks.
    bool isSummable() const {
      return (copies > 1 || isScattered) && param->trainable && !isTied &&
             !isAcross;
    }
    /// True if the sum over ranks takes less than what is summed.
    bool shrinks(int zero) const { return zero == 1 || isScattered; }
    /// Elements of the sum over tensor ranks.
    double shard() const { return isScattered ? elements : gradient; }
    /// True for gradients of a layer that `kerf-bucket-gradients` sums alone.
    bool isMessage() const {
      return gradient * param->gradientBytes >= double(1 << 20);
    }
  };
  std::vector<Param> params;
  /// Tied parameters rest as their first reader has them.
  void tie(SketchedLayer &first);
  /// Of a layer: what passes on lies as it makes it, or, where that is a sum or
  /// takes more room, as the embedding does; its gradient so, too, or as the
  /// head makes it.
  void setBoundary(const SketchedLayer *embedding, const SketchedLayer *head);
  /// Of what comes before or after: as a layer beside it.
  void setBoundary(const SketchedLayer &layer);
  const LayerKind &kind;
  const OuterChoice outer;

private:
  friend class BodyBuilder;
  LayerQuery query;
  LayerTerms terms;
  const LayerLayout layout;
  int64_t workers;
  mutable std::map<Passes, Lives> known;
  States input, outputGradient; ///< of what is handed on
  std::vector<int> roots;       ///< values that lie in one place; by value
  struct Place {
    double bytes = 0;
    bool isKept = false, isDeferred = false;
    bool isLate = false; ///< a deferred weight gradient reads it
  };
  std::vector<Place> places; ///< by root
  std::vector<bool> isCopy;  ///< by op: a view that programs make a copy of

  bool isMovedOnce(const Param &param) const {
    return param.isMoved && outer.zero < 3 && outer.microBatches > 1;
  }
  /// True for ops that make no tensor of their own.
  bool isView(const LayerOp &op) const {
    return op.view && !isCopy[&op - kind.ops.data()];
  }
  bool isKept(int value) const;
  bool showsKept(int value) const;
  bool isKeptAsView(int value) const;
  bool isKeptBySlices(int value) const;
  void findCopies();
  void findRoots();
  void findDeferred();
  void readLate(int value);
  bool isMadeByMatmul(const LayerOp &op) const;
  void findParams();
  double summedOver(int value) const;
  double copiesOf(const LayerParam &param) const;
  double piecesOver(double copies, bool shardedByExperts) const;
  AxisState stateOf(int value, int axis) const;
  double bytesIn(int value, llvm::ArrayRef<AxisState> states) const;
  States madeStates(int value) const;
  States neededStates(const LayerOp &op, size_t operand) const;
  OpOptions optionsOf(int op) const;
};

} // namespace kerf::program_sketch

#endif // KERF_LIB_FOOTPRINT_PROGRAMSKETCH_H
