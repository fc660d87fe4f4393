//===- Placement.h - which stage and function runs an op ------------------===//

#ifndef KERF_LIB_PARTITION_PLACEMENT_H
#define KERF_LIB_PARTITION_PLACEMENT_H

#include "kerf/Sharding/Layout.h"

#include "llvm/ADT/BitVector.h"

#include <map>
#include <vector>

namespace kerf {

/// The functions of a program by their order in a step.
enum class PartKind {
  Prologue,
  Forward,
  Backward,
  Weights, ///< weight gradients of repeats, where they are deferred
  Update,
  Finish, ///< outputs of training that one stage made
  Evaluate,
  FinishEvaluation
};

/// One function: of a chunk of the pipeline, or (chunk 0) of the whole step.
struct Part {
  PartKind kind;
  int64_t chunk = 0;
  bool operator==(const Part &other) const = default;
  /// Order in a step: forward chunks ascend, backward chunks descend.
  bool operator<(const Part &other) const;
};

/// "forward"; "forward_1" for the second chunk of a stage.
std::string nameOf(Part part, int64_t stages);

/// A value that is made in a stage and read in another.
struct Crossing {
  mlir::Value value;
  int64_t from, to;    ///< stages
  Part madeIn, readIn; ///< readIn: the first of the reading stage
  /// Channels tell apart what is sent and read in different orders: "forward",
  /// "backward", "update", "forward+2", ...
  std::string channel() const;
};

bool isGradient(mlir::Operation *op);
bool isUpdate(mlir::Operation *op);

/// Where the ops of a model's body run. Ops are of four sorts: sources are
/// written wherever they are read; free ones, which depend on inputs alone or
/// on parameters alone, too, once per stage; ops of the update run on the
/// stages that hold what they update; all others in one chunk.
class Placement {
public:
  /// `evaluating`: of a model without backward pass.
  Placement(ModelOp model, const PlannedModel &plan, bool evaluating);

  int64_t stages() const { return stageCount; }
  int64_t stageOf(int64_t chunk) const { return chunk % stageCount; }
  /// Stages that run an op of the model's body.
  const llvm::BitVector &stagesOf(mlir::Operation *op) const;
  bool runsOn(mlir::Operation *op, int64_t stage) const {
    return stagesOf(op).test(stage);
  }
  /// The lowest stage of those that run an op: who counts what they all have.
  int64_t ownerOf(mlir::Operation *op) const {
    return stagesOf(op).find_first();
  }
  Part partOf(mlir::Operation *op, int64_t stage) const;
  /// In the order in which the values are made.
  const std::vector<Crossing> &crossings() const { return between; }
  /// True for a value that the update of another stage reads.
  bool crossesForUpdate(mlir::Value value) const;

private:
  enum class Sort { Source, Free, Update, Fixed };
  Sort sortOf(mlir::Operation *op) const { return sorts.lookup(op); }
  void findSplit();
  void sortOps();
  void placeFixed();
  bool addsForUpdate(mlir::Operation *op) const;
  bool isDeferred(mlir::Operation *op) const;
  void placeOthers(bool withUpdates);
  void placeOther(mlir::Operation *op, bool withUpdates);
  void findHolders();
  void findCrossings();
  /// Ops of the model's body that read a value, some of them several times.
  llvm::SmallVector<mlir::Operation *> readersOf(mlir::Value value) const;

  ModelOp model;
  const PlannedModel &plan;
  bool evaluating;
  int64_t stageCount, chunkCount;
  mlir::Operation *split = nullptr; ///< last op of the forward functions
  llvm::DenseMap<mlir::Operation *, Sort> sorts;
  llvm::DenseMap<mlir::Operation *, int64_t> chunks; ///< of fixed ops
  llvm::DenseSet<mlir::Operation *> deferred; ///< fixed ops of weight gradients
  llvm::DenseMap<mlir::Operation *, llvm::BitVector> runs;
  std::map<std::pair<mlir::Operation *, int64_t>, Part> parts; ///< of free ops
  /// Stages that read a parameter, by the iterations of the repeat around it.
  struct Holder {
    int64_t start, end, stage;
  };
  llvm::StringMap<std::vector<Holder>> holders;
  std::vector<Crossing> between;
};

} // namespace kerf

#endif // KERF_LIB_PARTITION_PLACEMENT_H
