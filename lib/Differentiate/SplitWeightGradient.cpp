//===- SplitWeightGradient.cpp - two repeats of one reverse repeat --------===//
//
// Problem: of a reverse repeat, let the weight gradients run at another time.
//
// Steps: the matmuls of weight gradients and what goes with them (Deferred.h)
// move to a second repeat; so do carried accumulators that only they read. What
// they read of the first repeat becomes a stack from the first to the second;
// slices, views of these and the iteration number are read by both.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Chunks.h"
#include "kerf/Dialect/Kerf/Deferred.h"
#include "kerf/Dialect/Kerf/Stacks.h"
#include "kerf/Differentiate/Passes.h"
#include "kerf/Support/Schedules.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_SPLITWEIGHTGRADIENTPASS
#include "kerf/Differentiate/Passes.h.inc"
} // namespace kerf

namespace {
/// Which half each piece of a reverse repeat belongs to.
struct Division {
  RepeatOp repeat;
  Deferred deferred;
  llvm::SmallVector<unsigned> stayStacked, moveStacked; ///< stacked, by number
  llvm::SetVector<Value> handed; ///< values the second half reads of the first
  llvm::DenseSet<Operation *> remade; ///< that both halves make
  bool isMoved(Operation *op) const { return deferred.ops.contains(op); }
};
} // namespace

static void divideStacked(Division &division) {
  YieldOp yield = division.repeat.getYield();
  for (auto [k, value] : llvm::enumerate(yield.getStacked())) {
    Operation *maker = value.getDefiningOp();
    bool moves = maker && division.isMoved(maker);
    (moves ? division.moveStacked : division.stayStacked).push_back(k);
  }
}

/// Views of slices, and what has no operands, both halves make.
static void remake(Division &division, Value value) {
  Operation *maker = value.getDefiningOp();
  if (maker && maker->getBlock() == &division.repeat.getBody().front() &&
      division.remade.insert(maker).second)
    for (Value operand : maker->getOperands())
      remake(division, operand);
}

/// Finds what the second half reads of the first and cannot recompute.
static void collectHanded(Division &division) {
  RepeatOp repeat = division.repeat;
  Block &body = repeat.getBody().front();
  for (Operation *op : division.deferred.ops)
    for (Value operand : op->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      bool isOutside = operand.getParentBlock() != &body;
      if (isOutside || operand == repeat.getIndex() ||
          llvm::is_contained(repeat.getSliceArgs(), operand) ||
          (maker && division.isMoved(maker)))
        continue;
      if ((maker && maker->getNumOperands() == 0) ||
          shownSlice(repeat, operand)) {
        remake(division, operand);
        continue;
      }
      auto arg = dyn_cast<BlockArgument>(operand);
      bool isCarried = arg && llvm::is_contained(division.deferred.moveCarried,
                                                 arg.getArgNumber() - 1);
      if (!isCarried)
        division.handed.insert(operand);
    }
}

/// A repeat like `from` with the chosen carried values and slices; its body has
/// arguments, mapped from those of `from`, and no ops yet.
static RepeatOp beginHalf(OpBuilder &builder, RepeatOp from,
                          llvm::ArrayRef<unsigned> carried,
                          llvm::ArrayRef<Value> extraSlices,
                          IRMapping &mapping) {
  llvm::SmallVector<Value> inits, slices(from.getSlices());
  llvm::SmallVector<Type> types;
  for (unsigned k : carried) {
    inits.push_back(from.getInits()[k]);
    types.push_back(inits.back().getType());
  }
  llvm::append_range(slices, extraSlices);
  auto half = RepeatOp::create(builder, from.getLoc(), types, inits, slices,
                               from.getStart(), from.getEnd(),
                               from.getReverse(), from.getPairAttr());
  if (Attribute chunk = from->getAttr(kChunkAttrName))
    half->setAttr(kChunkAttrName, chunk);
  Block &body = half.getBody().emplaceBlock();
  auto addArgument = [&](Value old) {
    mapping.map(old, body.addArgument(old.getType(), old.getLoc()));
  };
  addArgument(from.getIndex());
  for (unsigned k : carried)
    addArgument(from.getCarryArgs()[k]);
  for (Value arg : from.getSliceArgs())
    addArgument(arg);
  return half;
}

/// Ends the body with a yield and replaces the repeat by one with the results
/// that follow from it.
static RepeatOp endHalf(RepeatOp half, llvm::ArrayRef<Value> carried,
                        llvm::ArrayRef<Value> stacked, PhaseAttr phase,
                        PhaseAttr yieldPhase) {
  OpBuilder builder(half.getContext());
  builder.setInsertionPointToEnd(&half.getBody().front());
  auto yield = YieldOp::create(builder, half.getLoc(), carried, stacked);
  yield->setAttr(kPhaseAttrName, yieldPhase);
  builder.setInsertionPoint(half);
  auto done =
      RepeatOp::create(builder, half.getLoc(), half.inferResultTypes(),
                       half.getInits(), half.getSlices(), half.getStart(),
                       half.getEnd(), half.getReverse(), half.getPairAttr());
  done.getBody().takeBody(half.getBody());
  done->setDiscardableAttrs(half->getDiscardableAttrDictionary());
  done->setAttr(kPhaseAttrName, phase);
  half.erase();
  return done;
}

static llvm::SmallVector<Value> pick(OperandRange values,
                                     llvm::ArrayRef<unsigned> numbers,
                                     IRMapping &mapping) {
  return llvm::map_to_vector(
      numbers, [&](unsigned k) { return mapping.lookupOrDefault(values[k]); });
}

/// The first half: everything but the moved ops, handing values on.
static RepeatOp buildFirst(Division &division, OpBuilder &builder) {
  RepeatOp repeat = division.repeat;
  YieldOp yield = repeat.getYield();
  IRMapping mapping;
  RepeatOp half =
      beginHalf(builder, repeat, division.deferred.stayCarried, {}, mapping);
  OpBuilder inner(repeat.getContext());
  inner.setInsertionPointToEnd(&half.getBody().front());
  for (Operation &op : repeat.getBody().front().without_terminator())
    if (!division.isMoved(&op))
      inner.clone(op, mapping);
  auto stacked = pick(yield.getStacked(), division.stayStacked, mapping);
  for (Value value : division.handed)
    stacked.push_back(mapping.lookup(value));
  return endHalf(
      half, pick(yield.getCarried(), division.deferred.stayCarried, mapping),
      stacked, getPhase(repeat), getPhase(yield));
}

/// The second half: the moved ops, over the stacks of the first.
static RepeatOp buildSecond(Division &division, RepeatOp first,
                            OpBuilder &builder) {
  RepeatOp repeat = division.repeat;
  YieldOp yield = repeat.getYield();
  IRMapping mapping;
  llvm::SmallVector<Value> stacks(
      first.getStackResults().take_back(division.handed.size()));
  RepeatOp half = beginHalf(builder, repeat, division.deferred.moveCarried,
                            stacks, mapping);
  Block &body = half.getBody().front();
  for (Value value : division.handed)
    mapping.map(value, body.addArgument(value.getType(), value.getLoc()));
  OpBuilder inner(repeat.getContext());
  inner.setInsertionPointToEnd(&body);
  for (Operation &op : repeat.getBody().front().without_terminator())
    if (division.isMoved(&op) || division.remade.contains(&op))
      inner.clone(op, mapping);
  auto phase = PhaseAttr::get(repeat.getContext(), PhaseKind::WeightGradient,
                              getPhase(repeat).getOp());
  return endHalf(
      half, pick(yield.getCarried(), division.deferred.moveCarried, mapping),
      pick(yield.getStacked(), division.moveStacked, mapping), phase,
      getPhase(yield));
}

static void splitReverse(RepeatOp repeat) {
  Division division{repeat, findDeferred(repeat), {}, {}, {}, {}};
  if (division.deferred.ops.empty())
    return;
  divideStacked(division);
  collectHanded(division);
  OpBuilder builder(repeat);
  RepeatOp first = buildFirst(division, builder);
  RepeatOp second = buildSecond(division, first, builder);
  auto replace = [](Value from, Value to) { from.replaceAllUsesWith(to); };
  for (auto [n, k] : llvm::enumerate(division.deferred.stayCarried))
    replace(repeat.getCarryResults()[k], first.getCarryResults()[n]);
  for (auto [n, k] : llvm::enumerate(division.deferred.moveCarried))
    replace(repeat.getCarryResults()[k], second.getCarryResults()[n]);
  for (auto [n, k] : llvm::enumerate(division.stayStacked))
    replace(repeat.getStackResults()[k], first.getStackResults()[n]);
  for (auto [n, k] : llvm::enumerate(division.moveStacked))
    replace(repeat.getStackResults()[k], second.getStackResults()[n]);
  repeat.erase();
  dropUnreadSlices(first);
  dropUnreadSlices(second);
}

namespace {
struct SplitWeightGradientPass
    : public kerf::impl::SplitWeightGradientPassBase<SplitWeightGradientPass> {
  using SplitWeightGradientPassBase::SplitWeightGradientPassBase;

  bool isChosen(ModelOp model) {
    auto plan = model->getAttrOfType<PlanAttr>(kPlanAttrName);
    const ScheduleFacts *facts =
        plan ? findSchedule(plan.getSchedule()) : nullptr;
    return !planned || (facts && facts->splitsWeightGradient);
  }

  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      for (RepeatOp repeat :
           llvm::to_vector(model.getBody().getOps<RepeatOp>()))
        if (PhaseAttr phase = getPhase(repeat); phase && isChosen(model))
          if (phase.getKind() == PhaseKind::InputGradient)
            splitReverse(repeat);
  }
};
} // namespace
