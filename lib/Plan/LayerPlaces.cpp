#include "LayerPlaces.h"

#include <map>
#include <set>

using namespace mlir;
using namespace kerf;

llvm::StringRef kerf::axisName(InnerAxis axis) {
  switch (axis) {
  case InnerAxis::Tensor:
    return "tp";
  case InnerAxis::Context:
    return "cp";
  case InnerAxis::Expert:
    return "ep";
  }
  llvm_unreachable("covered switch");
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
  for (auto [k, kind] : llvm::enumerate(step.kinds))
    for (auto [i, op] : llvm::enumerate(kind.ops))
      known[{op.phase, op.number, op.order}] = {int(k), int(i)};
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
