//===- LayerModel.h - a differentiated step as the planner sees it --------===//
//
// Plain data, read off the IR once (`readStep` in ReadStep.h): the distinct
// layers of a step, each a small graph of ops with factors and work, and the
// order in which they follow each other. Shapes are global, as in the IR.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_STEP_LAYERMODEL_H
#define KERF_STEP_LAYERMODEL_H

#include "kerf/Interfaces/Facts.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf {

/// What an index of a tensor means to the whole model, found by following the
/// dimensions of its inputs: tokens are batch x sequence.
enum class IndexClass { Other, Batch, Sequence, Expert };

enum class LayerPhase { Forward, InputGradient, WeightGradient };

struct LayerValue {
  std::string name; ///< for people: "attention.0", "q_proj.weight"
  llvm::SmallVector<int64_t, 4> shape;
  llvm::SmallVector<IndexClass, 4> classes; ///< of each dimension
  double elementBytes = 0;
  int producer = -1;   ///< op; -1: a boundary value, a parameter or an input
  int param = -1;      ///< the value is this parameter, as it is read
  int gradientOf = -1; ///< the value is the gradient of this parameter
  bool forward = true;
  double elements() const;
  double bytes() const { return elements() * elementBytes; }
  bool operator==(const LayerValue &) const = default;
};

struct LayerFactor {
  Factor factor;
  IndexClass index = IndexClass::Other;
  /// Parts are multiples of so many: blocks of a parameter's optimizer state.
  int64_t granule = 1;
  bool operator==(const LayerFactor &) const = default;
};

struct LayerOp {
  std::string name;   ///< "linear"
  std::string weight; ///< name pattern of the parameter it reads first, or ""
  std::string place;  ///< for people: "model.mlir:17", or ""
  LayerPhase phase = LayerPhase::Forward;
  int number = -1;  ///< of its phase in the IR: the forward op's number
  int order = 0;    ///< among the ops of that phase and number in the IR
  int forward = -1; ///< index of its forward op in this kind; itself if forward
  std::vector<LayerFactor> factors;
  std::vector<int> operands; ///< values
  std::vector<int> results;
  std::vector<TensorFactors> operandFactors;
  std::vector<TensorFactors> resultFactors;
  llvm::SmallVector<unsigned, 2> linearOperands;
  bool jointly = false;
  llvm::SmallVector<FactorVariant, 1> variants;
  /// Moves rows as data decides (dispatch, combine, grouped matmuls).
  llvm::SmallVector<FactorMap, 1> maps;
  std::string type; ///< number type of its matmuls: "bf16"
  OpCost work;      ///< of the whole op
  /// Of a table that our programs write and read besides.
  double tableBytes = 0;
  /// Of tables that programs of GPUs make once per step (`kerf-hoist-tables`).
  double stepTableBytes = 0;
  double headSize = 0;      ///< attention
  double scores = 0;        ///< attention: batch x heads x queries x keys
  bool causal = false;      ///< attention in which later queries see more keys
  bool dropsScores = false; ///< attention that drops some at random
  bool capsScores = false;  ///< attention with a soft cap of its scores
  bool isPacked = false;    ///< attention within documents
  int64_t window = 0;       ///< of attention; 0: none
  bool view = false;        ///< moves nothing
  /// Reads where elements are in the whole tensor: parts of blocks do not say.
  bool readsPositions = false;
  /// A weight gradient that zero-bubble schedules make later (`findDeferred`).
  bool isDeferred = false;
  /// Our programs run it in loops that no other op can share: halves of rows
  /// change places (rope), or one number comes of a whole tensor (unit).
  bool ownLoops = false;
  bool alone = false; ///< brings its own kernel, which joins no other
  bool tanh = false;  ///< a gelu, or its gradient, that matmuls can end in
  /// Matmuls of routed tokens.
  bool isGrouped() const { return work.matmulFlops > 0 && !maps.empty(); }
  bool operator==(const LayerOp &) const = default;
};

struct LayerParam {
  std::string name; ///< pattern: "model.layers.{i}.mlp.up_proj.weight"
  llvm::SmallVector<int64_t, 4> shape;
  double elements = 0;
  double weights = 1;       ///< of the model that an element stands for
  double weightBytes = 0;   ///< per element, as it is used
  double masterBytes = 0;   ///< per element; 0 without a master
  double gradientBytes = 0; ///< per element, accumulated
  double stateBytes = 0;    ///< per element, of the optimizer
  bool inPieces = true;     ///< state may rest in flat pieces (ZeRO)
  int64_t granule = 1;      ///< pieces are multiples of so many elements
  int64_t gramSteps = 0;    ///< of its update, as the optimizer's rule has them
  bool trainable = true;
  bool expert = false; ///< has an expert index
  /// Read by another kind too (tied embeddings).
  bool shared = false;
  bool operator==(const LayerParam &) const = default;
};

/// One kind of layer, or what comes before the first (`embedding`) or after the
/// last (`head`) repeat.
struct LayerKind {
  std::string name;
  std::vector<LayerValue> values;
  std::vector<LayerOp> ops; ///< forward in order, then backward in order
  std::vector<LayerParam> params;
  int input = -1;          ///< value: what the previous layer hands over
  int output = -1;         ///< value
  int outputGradient = -1; ///< value: from the next layer
  int inputGradient = -1;  ///< value
  // Carried values after the first (running sums of a loss) are small: they
  // count as values from outside, which cost nothing.
  /// Forward flops of matmuls and attention, whole batch.
  double forwardFlops() const;
  bool operator==(const LayerKind &) const = default;
};

/// `count` layers of a kind that follow each other. Equal runs, which others
/// part, have one kind.
struct LayerRun {
  int kind = 0;
  int64_t count = 1;
  int repeat = -1; ///< index of the forward repeat in the step; -1: outside
  /// Numbers of its ops are so far above those that the kind has: of equal runs
  /// the first is read.
  int64_t shift = 0;
};

/// Even shares that are more than all rows.
constexpr double kRoomForAll = 1 << 20;

struct StepModel {
  std::string name;
  int64_t batch = 0;    ///< sequences of one step
  int64_t sequence = 0; ///< tokens of a sequence
  int64_t vocabulary = 0;
  std::string type; ///< number type of matmuls
  std::vector<LayerKind> kinds;
  std::vector<LayerRun> runs;
  /// Room for rows that ranks of experts exchange, in even shares; 0: such rows
  /// are not exchanged; kRoomForAll: all have room.
  double moeBuffer = 0;
  /// Ranks that share a sequence have parts of it by position, not in the order
  /// in which causal work is equal (`#kerf.zigzag`).
  bool plainOrder = false;
  /// Tokens are dropped by their order, which is so not to be changed.
  bool keepsOrder = false;
  /// It means the same in micro-batches.
  bool accumulates = true;
  /// Updates are made element by element: state can rest in flat pieces.
  bool updatesPieces = true;
  /// A layer reads parameters of a layer of another loop: one stage has both.
  bool sharesLayers = false;
  double parameters() const; ///< elements, tied ones once
  /// Of these, what a token is multiplied by: of experts those that it chooses.
  double activeParameters() const;
  int64_t layers() const; ///< without embedding and head
  /// Kinds of what stands in front of the first repeat and behind the last; -1:
  /// there is none.
  int embedding() const { return runs.empty() ? -1 : aside(runs.front()); }
  int head() const { return runs.empty() ? -1 : aside(runs.back()); }
  double tokens() const { return double(batch) * sequence; }
  /// Flops of matmuls and attention (visible pairs) of one step, nothing
  /// recomputed: what MFU counts (PaLM, Chowdhery et al. 2022, appendix B).
  double stepFlops() const;

private:
  int aside(const LayerRun &run) const {
    return runs.size() > 1 && run.repeat < 0 ? run.kind : -1;
  }
};

/// Gives runs of repeats whose layers are equal one kind, the first one's, and
/// one name. Runs with other `rules`, one text per run, keep kinds of their own
/// under that name: a plan that is given tells them apart.
void joinEqualRuns(StepModel &step, llvm::ArrayRef<std::string> rules);

/// One line per op, value and parameter.
std::string printStep(const StepModel &step);

} // namespace kerf

#endif // KERF_STEP_LAYERMODEL_H
