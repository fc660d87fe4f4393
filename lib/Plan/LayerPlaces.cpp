#include "LayerPlaces.h"
#include "kerf/Sharding/Layout.h"

#include <set>

using namespace mlir;
using namespace kerf;

std::map<int, LayerPoint> kerf::pointsOf(const PlanPoint &plan) {
  std::map<int, LayerPoint> points;
  for (const PlacedStage &stage : plan.stages)
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers) {
        auto [known, isNew] = points.try_emplace(layers.kind, layers.point);
        if (layers.point.savedBytes < known->second.savedBytes)
          known->second = layers.point;
      }
  return points;
}

std::optional<std::vector<const LayerRun *>>
kerf::runsOf(PlanAttr plan, const StepModel &step) {
  std::vector<const LayerRun *> runs;
  size_t at = 0;
  int64_t used = 0; // of that run
  for (Attribute entry : plan.getStages())
    for (LayersAttr layers : PlanAttr::getRuns(entry)) {
      if (at < step.runs.size() && used == step.runs[at].count) {
        ++at;
        used = 0;
      }
      if (at == step.runs.size() ||
          layers.getKind() != step.kinds[step.runs[at].kind].name ||
          used + layers.getCount() > step.runs[at].count)
        return std::nullopt;
      runs.push_back(&step.runs[at]);
      used += layers.getCount();
    }
  return runs;
}

int64_t kerf::blocksOf(const OpOption &option) {
  int64_t blocks = 1;
  auto count = [&](AxisState state) {
    if (isSplit(state) && !isRagged(state))
      blocks = std::max(blocks, splitOuter(state));
  };
  llvm::for_each(option.operands, count);
  llvm::for_each(option.results, count);
  return blocks;
}

std::vector<int64_t> kerf::recomputedOps(const StepModel &step, int kind,
                                         const LayerLayout *layout) {
  bool repeats = llvm::any_of(step.runs, [&](const LayerRun &run) {
    return run.kind == kind && run.repeat >= 0;
  });
  if (!layout || !repeats)
    return {};
  std::set<int64_t> numbers;
  for (const AxisLayout &axis : layout->axes)
    for (auto [value, state] : llvm::enumerate(axis.kept)) {
      int producer = step.kinds[kind].values[value].producer;
      if (state == kRecomputed && producer >= 0)
        numbers.insert(step.kinds[kind].ops[producer].number);
    }
  return {numbers.begin(), numbers.end()};
}

bool kerf::isRouted(const LayerOp &op, const OpOption &option) {
  return option.factor >= 0 && option.variant < 0 &&
         op.factors[option.factor].factor.kind == FactorKind::Whole;
}

llvm::SmallVector<unsigned, 2> kerf::shardedBy(const LayerOp &layer,
                                               const OpOption &option) {
  unsigned first = option.factor;
  llvm::SmallVector<unsigned, 2> factors = {first};
  auto add = [&](unsigned f) {
    if (!llvm::is_contained(factors, f))
      factors.push_back(f);
  };
  if (option.variant >= 0 && (layer.variants[option.variant].together ||
                              layer.variants[option.variant].exchanges))
    llvm::for_each(layer.variants[option.variant].factors, add);
  if (!isRouted(layer, option))
    return factors;
  for (const FactorMap &map : layer.maps)
    for (const auto *list : {&map.from, &map.to})
      for (unsigned f : *list)
        if (layer.factors[f].index == IndexClass::Expert &&
            layer.factors[f].factor.kind == FactorKind::Whole)
          add(f);
  return factors;
}

static LayerPhase phaseOf(PhaseAttr phase) {
  if (phase && phase.getKind() == PhaseKind::InputGradient)
    return LayerPhase::InputGradient;
  if (phase && phase.getKind() == PhaseKind::WeightGradient)
    return LayerPhase::WeightGradient;
  return LayerPhase::Forward;
}

llvm::MapVector<Operation *, LayerPlace> kerf::placesOf(ModelOp model,
                                                        const StepModel &step) {
  std::map<std::tuple<LayerPhase, int64_t, int64_t>, LayerPlace> known;
  for (const LayerRun &run : step.runs)
    for (auto [i, op] : llvm::enumerate(step.kinds[run.kind].ops)) {
      int64_t number = op.number + (op.number >= 0 ? run.shift : 0);
      known[{op.phase, number, op.order}] = {run.kind, int(i)};
    }
  std::map<std::pair<LayerPhase, int64_t>, int64_t> orders;
  llvm::MapVector<Operation *, LayerPlace> places;
  model.getBody().walk([&](Operation *op) {
    if (!isa<FactorOpInterface>(op) || !isa<CostOpInterface>(op) ||
        isa<ParamOp>(op))
      return;
    PhaseAttr phase = getPhase(op);
    if (phase && phase.getKind() == PhaseKind::Update)
      return;
    int64_t number = phase ? phase.getOp() : -1;
    int64_t order = orders[{phaseOf(phase), number}]++;
    auto found = known.find({phaseOf(phase), number, order});
    if (found != known.end())
      places[op] = found->second;
  });
  return places;
}

//===----------------------------------------------------------------------===//
// What a found plan decides
//===----------------------------------------------------------------------===//

/// True for what pure ops make of parameters and constants alone.
static bool isMadeOfParams(Value value) {
  llvm::SmallVector<Value> open{value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !isPure(op) || op->getNumRegions() != 0)
      return false;
    if (seen.insert(op).second)
      llvm::append_range(open, op->getOperands());
  }
  return true;
}

/// True for a weight on its way to a matmul of 8-bit floats, and its unit.
static bool isWeightCopy(Value value) {
  if (!isMadeOfParams(value))
    return false;
  bool isUnit = value.getDefiningOp<UnitOp>();
  auto makesFloat8 = [](Operation *op) {
    return op->getNumResults() == 1 && isFloat8(op->getResult(0).getType());
  };
  bool isCopy = llvm::any_of(value.getUsers(), [&](Operation *user) {
    return makesFloat8(user) ||
           (isa<MulOp>(user) && llvm::any_of(user->getUsers(), makesFloat8));
  });
  return isUnit || isCopy || isFloat8(value.getType());
}

/// True for ops that depend on inputs alone, among which are `known`.
static bool readsInputsOnly(Operation *op,
                            const llvm::DenseSet<Operation *> &known) {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    return maker ? known.contains(maker)
                 : isa<ModelOp>(operand.getParentBlock()->getParentOp());
  });
}

static bool sumsRows(const LayerOp &layer) {
  return llvm::any_of(layer.factors, [](const LayerFactor &factor) {
    return factor.factor.kind == FactorKind::Sum;
  });
}

/// True for what a layer gets from others, or from the forward pass.
static bool isOfLoop(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isa<RepeatOp>(argument.getOwner()->getParentOp()) &&
         typeOf(value).getRank() > 0;
}

llvm::MapVector<Operation *, LayerPlace>
kerf::decidedOps(ModelOp model, const StepModel &step) {
  llvm::MapVector<Operation *, LayerPlace> decided;
  llvm::DenseSet<Operation *> ofInputs;
  for (auto [op, place] : placesOf(model, step)) {
    const LayerOp &layer = step.kinds[place.kind].ops[place.op];
    if (isSource(op))
      continue;
    if (readsInputsOnly(op, ofInputs)) {
      ofInputs.insert(op);
      continue;
    }
    bool hasBatch = llvm::any_of(layer.factors, [](const LayerFactor &factor) {
      return factor.index == IndexClass::Batch;
    });
    bool makesWeight =
        op->getNumResults() == 1 &&
        (isMadeOfFrozen(op->getResult(0)) || isWeightCopy(op->getResult(0)));
    // A number made of weights alone (a penalty) has no batch: the op that adds
    // it to the loss is left to the propagation.
    bool readsPenalty = llvm::any_of(op->getOperands(), [](Value operand) {
      Operation *maker = operand.getDefiningOp();
      return maker && !isSource(maker) && typeOf(operand).getRank() == 0 &&
             isMadeOfParams(operand);
    });
    // Of activations whose batch is part of another dimension, summed, or of
    // one sequence: that is a factor of no op. What reads gradients of weights
    // follows them.
    bool isAlone = step.batch == 1;
    bool isMerged = !readsPenalty &&
                    (layer.phase != LayerPhase::WeightGradient ||
                     (isAlone && sumsRows(layer))) &&
                    llvm::any_of(op->getOperands(), [&](Value operand) {
                      Operation *maker = operand.getDefiningOp();
                      return isa_and_nonnull<RepeatOp>(maker) ||
                             decided.count(maker) ||
                             (isAlone && isOfLoop(operand));
                    });
    if (hasBatch || makesWeight || isMerged)
      decided[op] = place;
  }
  return decided;
}
