//===- ApplyPlan.cpp - write a found plan on its step ---------------------===//
//
// Problem: a plan says for each kind of layer which factor of which op an axis
// splits, by numbers; the IR has one `kerf.assign` per op.
//
// Idea: phase, number and order name an op in both. Its inner axes come from
// the layout, the batch is split by the data ranks and the micro-batches. What
// the IR cannot say (parts that are no contiguous ranges, sums that do not
// arrive here) is left out: the propagation that follows gives these ops what
// their operands suggest, which is right, if not always as fast.
//
// Example, tp 2 and dp 4 with 2 micro-batches: the layout splits factor n of
// "linear 33" over the tensor axis; the op gets
// #kerf.assign<b = [dp, micro], n = [tp]>.
//
// Cost: one visit per op.
//
//===----------------------------------------------------------------------===//

#include "LayerPlaces.h"
#include "kerf/Dialect/Kerf/SplitBias.h"
#include "kerf/Plan/SolvePlan.h"
#include "kerf/Sharding/Layout.h"

#include "llvm/Support/DebugLog.h"

#include <set>

#define DEBUG_TYPE "plan"

using namespace mlir;
using namespace kerf;

namespace {
/// Goes through the layers of a step in order.
class RunOfLayers {
public:
  explicit RunOfLayers(const StepModel &step) : step(step) {}
  /// The run of the next `count` layers, which are of one.
  const LayerRun &take(int64_t count) {
    while (used == step.runs[at].count) {
      ++at;
      used = 0;
    }
    used += count;
    assert(used <= step.runs[at].count && "placed layers are of one run");
    return step.runs[at];
  }

private:
  const StepModel &step;
  size_t at = 0;
  int64_t used = 0; // of that run
};

/// One axis of a mesh.
struct NamedAxis {
  std::string name;
  int64_t size;
};

class PlanWriter {
public:
  PlanWriter(ModelOp model, const StepModel &step, const PlanPoint &plan,
             LayoutOfPoint layoutOf)
      : model(model), step(step), plan(plan), layoutOf(layoutOf) {}

  LogicalResult run();

private:
  void choosePoints();
  MeshAttr makeMesh();
  ArrayAttr makeStages();
  PlanAttr makePlan();
  std::vector<int64_t> recomputedBy(int kind, const LayerPoint &point) {
    return recomputedOps(step, kind, layoutOf(kind, point));
  }
  bool ringsTensorRanks();
  LogicalResult findOps();
  void assign(Operation *op, LayerPlace place);
  Operation *splitBiasIfAsked(Operation *op, LayerPlace place);
  Assignment additionOf(LayerPlace place, const Factors &facts);
  void set(Operation *op, const Factors &facts, const Assignment &assignment);
  void split(const LayerFactor &factor, llvm::StringRef axis,
             const Factors &facts, Assignment &assignment);
  void addOption(const LayerOp &layer, InnerAxis axis, const OpOption &option,
                 const Factors &facts, Assignment &assignment);
  Assignment assignmentOf(LayerPlace place, const Factors &facts);
  bool isOpen(Value value) const;
  bool arrives(Operation *op, llvm::ArrayRef<Layout> arriving,
               const OpLayouts &layouts, std::string &error) const;

  ModelOp model;
  const StepModel &step;
  const PlanPoint &plan;
  LayoutOfPoint layoutOf;
  std::map<int, LayerPoint> points;
  bool pointsDiffer = false;
  llvm::MapVector<Operation *, LayerPlace> places;
  std::optional<PlanAxes> axes;
  llvm::DenseMap<Value, Layout> made;
  llvm::DenseSet<Value> open; ///< `isOpen`
  bool ringsTensor = false;   ///< `ringsTensorRanks`
};
} // namespace

//===----------------------------------------------------------------------===//
// The plan of the whole model
//===----------------------------------------------------------------------===//

/// True for one point: layouts and points are numbered within a table.
static bool isSame(const LayerPoint &a, const LayerPoint &b) {
  return a.layout == b.layout && a.point == b.point;
}

void PlanWriter::choosePoints() {
  points = pointsOf(plan);
  for (const PlacedStage &stage : plan.stages)
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers)
        pointsDiffer |= !isSame(layers.point, points[layers.kind]);
}

MeshAttr PlanWriter::makeMesh() {
  const OuterChoice &outer = plan.outer;
  llvm::SmallVector<NamedAxis> list;
  for (MeshAxis axis : llvm::reverse(outer.order))
    switch (axis) {
    case MeshAxis::Tensor:
      list.push_back({"tp", outer.tp});
      break;
    case MeshAxis::Context:
      list.push_back({"cp", outer.cp});
      break;
    case MeshAxis::Data:
      list.push_back({"dp", outer.dp / outer.ep});
      list.push_back({"ep", outer.ep});
      break;
    case MeshAxis::Pipeline:
      list.push_back({kPipelineAxis.str(), outer.pp});
      break;
    }
  llvm::SmallVector<StringAttr> names;
  llvm::SmallVector<int64_t> sizes;
  for (const NamedAxis &axis : list)
    if (axis.size > 1) {
      names.push_back(StringAttr::get(model.getContext(), axis.name));
      sizes.push_back(axis.size);
    }
  return MeshAttr::get(model.getContext(), names, sizes);
}

/// The numbers, each higher by `shift`.
static std::vector<int64_t> shifted(std::vector<int64_t> numbers,
                                    int64_t shift) {
  for (int64_t &number : numbers)
    number += shift;
  return numbers;
}

/// Entry c * stages + s holds chunk c of stage s.
ArrayAttr PlanWriter::makeStages() {
  MLIRContext *context = model.getContext();
  llvm::SmallVector<Attribute> entries;
  RunOfLayers position(step);
  for (int64_t chunk = 0; chunk < plan.outer.chunks; ++chunk)
    for (const PlacedStage &stage : plan.stages) {
      llvm::SmallVector<Attribute> runs;
      for (const PlacedLayers &layers : stage.chunks[chunk].layers) {
        const LayerRun &run = position.take(layers.count);
        DenseI64ArrayAttr recompute;
        if (!isSame(layers.point, points[layers.kind]))
          recompute = DenseI64ArrayAttr::get(
              context,
              shifted(recomputedBy(layers.kind, layers.point), run.shift));
        runs.push_back(LayersAttr::get(context, step.kinds[layers.kind].name,
                                       layers.count, recompute));
      }
      entries.push_back(ArrayAttr::get(context, runs));
    }
  return ArrayAttr::get(context, entries);
}

PlanAttr PlanWriter::makePlan() {
  const OuterChoice &outer = plan.outer;
  std::set<int64_t> recompute;
  for (const LayerRun &run : step.runs)
    if (auto point = points.find(run.kind); point != points.end())
      for (int64_t number : recomputedBy(run.kind, point->second))
        recompute.insert(number + run.shift);
  bool hasStages = outer.pp > 1 || pointsDiffer;
  return PlanAttr::get(
      model.getContext(), makeMesh(), outer.microBatches,
      nameOf(outer.schedule), /*recomputeAll=*/false,
      llvm::SmallVector<int64_t>(recompute.begin(), recompute.end()),
      outer.chunks, outer.defer, outer.zero,
      outer.zero > 0 ? outer.shardGroup : 0,
      hasStages ? makeStages() : ArrayAttr(),
      outer.ep > 1 && step.moeBuffer < kRoomForAll ? step.moeBuffer : 0.0,
      step.plainOrder);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Pairs the ops that are written with those of the kinds.
LogicalResult PlanWriter::findOps() {
  places = decidedOps(model, step);
  for (auto [op, place] : placesOf(model, step))
    if (op->getName().stripDialect() !=
        step.kinds[place.kind].ops[place.op].name)
      return op->emitOpError("is not the op that the plan was found for");
  return success();
}

static int factorNamed(const Factors &facts, llvm::StringRef name) {
  for (auto [f, factor] : llvm::enumerate(facts.factors))
    if (factor.name == name)
      return f;
  return -1;
}

/// The option of an op on an axis; null where the axis has one rank.
static const OpOption *optionOn(const LayerLayout *layout, int axis,
                                int index) {
  if (!layout || layout->axes[axis].ops.empty())
    return nullptr;
  return &layout->axes[axis].ops[index];
}

/// A matmul whose sum is split adds its bias afterwards.
Operation *PlanWriter::splitBiasIfAsked(Operation *op, LayerPlace place) {
  const LayerOp &layer = step.kinds[place.kind].ops[place.op];
  const LayerLayout *layout = layoutOf(place.kind, points[place.kind]);
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    const OpOption *option = optionOn(layout, axis, place.op);
    if (option && option->variant >= 0 &&
        layer.variants[option->variant].leavesSum)
      return splitBias(op);
  }
  return op;
}

/// Whether in some op tensor ranks pass parts round as a ring.
bool PlanWriter::ringsTensorRanks() {
  return llvm::any_of(points, [&](const auto &entry) {
    const auto &[kind, point] = entry;
    const LayerLayout *layout = layoutOf(kind, point);
    const std::vector<LayerOp> &ops = step.kinds[kind].ops;
    for (int op = 0, e = static_cast<int>(ops.size()); op < e; ++op)
      if (const auto *option = optionOn(layout, kInnerTensor, op);
          option && isRing(ops[op], *option))
        return true;
    return false;
  });
}

/// Lets an axis split a factor. Where several axes do they are in the order of
/// the mesh, then the micro-batches, then the experts' ranks, which exchange
/// the rows of one micro-batch: so all ops agree. Tensor ranks come behind
/// those of the context wherever these are in the mesh: what they gather, or
/// shard, is then in one piece, and needs no other ranks. A ring of tensor
/// ranks goes in the order of the mesh, and all else with it.
void PlanWriter::split(const LayerFactor &factor, llvm::StringRef axis,
                       const Factors &facts, Assignment &assignment) {
  int f = factorNamed(facts, factor.factor.name);
  std::optional<unsigned> number = axes->find(axis);
  if (f < 0 || !number || axes->sizeOf(*number) == 1)
    return;
  AxisList &list = assignment.factors[f];
  auto *at = llvm::lower_bound(list, *number);
  if (axis == axisName(InnerAxis::Expert))
    at = list.end();
  else if (axis == axisName(InnerAxis::Context) && !ringsTensor)
    at =
        std::min(at, llvm::find(list, axes->find(axisName(InnerAxis::Tensor))));
  list.insert(at, *number);
}

/// What an option says of its axis.
void PlanWriter::addOption(const LayerOp &layer, InnerAxis axis,
                           const OpOption &option, const Factors &facts,
                           Assignment &assignment) {
  std::optional<unsigned> number = axes->find(axisName(axis));
  if (!number)
    return;
  if (llvm::is_contained(option.operands, kPending))
    assignment.pending.push_back(*number);
  if (option.factor < 0)
    return;
  for (unsigned factor : shardedBy(layer, option))
    split(layer.factors[factor], axisName(axis), facts, assignment);
  assignment.blocks = std::max(assignment.blocks, blocksOf(option));
  assignment.routed |= isRouted(layer, option);
  if (option.variant >= 0 && !layer.variants[option.variant].leavesSum)
    assignment.variants.push_back(option.variant);
}

/// What the layout and the plan say of an op, as far as `facts` know it.
Assignment PlanWriter::assignmentOf(LayerPlace place, const Factors &facts) {
  const LayerOp &layer = step.kinds[place.kind].ops[place.op];
  const LayerLayout *layout = layoutOf(place.kind, points[place.kind]);
  Assignment assignment;
  assignment.factors.resize(facts.factors.size());
  for (const LayerFactor &factor : layer.factors)
    if (factor.index == IndexClass::Batch) {
      split(factor, "dp", facts, assignment);
      split(factor, kMicroAxis, facts, assignment);
      break;
    }
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (const OpOption *option = optionOn(layout, axis, place.op))
      addOption(layer, InnerAxis(axis), *option, facts, assignment);
  llvm::sort(assignment.pending);
  llvm::sort(assignment.variants);
  assignment.variants.erase(llvm::unique(assignment.variants),
                            assignment.variants.end());
  return assignment;
}

void PlanWriter::assign(Operation *op, LayerPlace place) {
  Operation *matmul = splitBiasIfAsked(op, place);
  Factors facts = cast<FactorOpInterface>(matmul).getFactors();
  set(matmul, facts, assignmentOf(place, facts));
  if (matmul == op)
    return;
  // The bias is spread and added apart.
  Operation *addition = *matmul->getResult(0).user_begin();
  for (Operation *part : {addition->getOperand(1).getDefiningOp(), addition}) {
    Factors own = cast<FactorOpInterface>(part).getFactors();
    set(part, own, additionOf(place, own));
  }
}

/// The state in which a value is read first on an axis.
static AxisState wantedState(const LayerKind &kind, const AxisLayout &axis,
                             int value) {
  if (AxisState shared = axis.sharedForward[value]; shared >= 0)
    return shared;
  for (auto [op, option] : llvm::zip(kind.ops, axis.ops))
    for (auto [operand, state] : llvm::zip(op.operands, option.operands))
      if (operand == value)
        return state;
  return kReplicated;
}

/// The addition of a bias after a sum, and the spreading of the bias: done
/// where the sum is read.
Assignment PlanWriter::additionOf(LayerPlace place, const Factors &facts) {
  const LayerKind &kind = step.kinds[place.kind];
  const LayerLayout *layout = layoutOf(place.kind, points[place.kind]);
  int value = kind.ops[place.op].results[0];
  Assignment assignment;
  assignment.factors.resize(facts.factors.size());
  auto shardDim = [&](size_t dim, llvm::StringRef axis) {
    unsigned factor = facts.results[0][dim].front();
    split({facts.factors[factor]}, axis, facts, assignment);
  };
  for (auto [dim, meaning] : llvm::enumerate(kind.values[value].classes))
    if (meaning == IndexClass::Batch) {
      shardDim(dim, "dp");
      shardDim(dim, kMicroAxis);
    }
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    if (!optionOn(layout, axis, place.op))
      continue;
    AxisState state = wantedState(kind, layout->axes[axis], value);
    if (isSplit(state) && splitOuter(state) == 1)
      shardDim(splitDim(state), axisName(InnerAxis(axis)));
  }
  return assignment;
}

/// True for a value that an op makes which is left to its operands because of
/// micro-batches, as it is or through loops.
bool PlanWriter::isOpen(Value value) const {
  if (open.contains(value))
    return true;
  auto result = dyn_cast<OpResult>(value);
  auto loop = value.getDefiningOp<RepeatOp>();
  if (!loop)
    return false;
  OperandRange carried = loop.getYield().getCarried();
  unsigned number = result.getResultNumber();
  return number < carried.size() && open.contains(carried[number]);
}

/// Whether an op gets all that comes of micro-batches as it needs it. A layout
/// does not know them: what is linear in their sum (a loss that is scaled, or
/// added to another) passes it on, and the operands say so.
bool PlanWriter::arrives(Operation *op, llvm::ArrayRef<Layout> arriving,
                         const OpLayouts &layouts, std::string &error) const {
  if (llvm::any_of(op->getOperands(), [&](Value v) { return isOpen(v); })) {
    error = "an operand is left to its operands, too";
    return false;
  }
  return llvm::all_of(
      llvm::zip_equal(arriving, layouts.operands), [&](auto both) {
        const auto &[from, need] = both;
        bool isOfMicro = llvm::is_contained(from.sums, axes->micro());
        return !isOfMicro ||
               succeeded(planConversion(from, need, *axes, error));
      });
}

/// Assigns an op, where the IR can carry it out.
void PlanWriter::set(Operation *op, const Factors &facts,
                     const Assignment &assignment) {
  auto arriving = llvm::map_to_vector(op->getOperands(), [&](Value operand) {
    auto known = made.find(operand);
    return known != made.end() ? known->second
                               : Layout::whole(typeOf(operand).getRank());
  });
  std::string error;
  auto layouts = layoutsOf(facts, assignment, arriving, *axes, error);
  if (failed(layouts) || !arrives(op, arriving, *layouts, error)) {
    LDBG() << op->getName() << " is left to its operands: " << error;
    if (succeeded(layouts))
      open.insert_range(op->getResults());
    return;
  }
  setAssignment(op, facts, assignment, *axes);
  for (auto [result, lies] :
       llvm::zip_equal(op->getResults(), layouts->results))
    made[result] = lies;
}

LogicalResult PlanWriter::run() {
  choosePoints();
  PlanAttr attr = makePlan();
  if (failed(findOps()))
    return failure();
  model->setAttr(kPlanAttrName, attr);
  axes.emplace(attr);
  ringsTensor = ringsTensorRanks();
  for (auto [op, place] : places.takeVector())
    assign(op, place);
  return success();
}

LogicalResult kerf::applyPlan(ModelOp model, const StepModel &step,
                              const PlanPoint &plan, LayoutOfPoint layoutOf) {
  return PlanWriter(model, step, plan, layoutOf).run();
}
