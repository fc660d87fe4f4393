//===- SplitWeightGradient.cpp - two repeats of one reverse repeat --------===//
//
// Problem: of a reverse repeat, let the weight gradients run at another time.
//
// Steps: the ops of the weight-gradient phase that no other op reads move to a
// second repeat; so do carried accumulators that only they read. What they read
// of the first repeat becomes a stack from the first to the second; slices and
// the iteration number are read by both.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Chunks.h"
#include "kerf/Differentiate/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

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
  llvm::SetVector<Operation *> moved;
  llvm::SmallVector<unsigned> stayCarried, moveCarried; ///< carried, by number
  llvm::SmallVector<unsigned> stayStacked, moveStacked; ///< stacked, by number
  llvm::SetVector<Value> handed; ///< values the second half reads of the first
};
} // namespace

static bool isWeightOp(Operation &op) {
  PhaseAttr phase = getPhase(&op);
  return phase && phase.getKind() == PhaseKind::WeightGradient &&
         !op.hasTrait<OpTrait::IsTerminator>();
}

/// True when only moved ops and the yield's operand `number` read `value`.
static bool onlyForMoved(Value value, const Division &division,
                         unsigned yieldOperand) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    return division.moved.contains(use.getOwner()) ||
           (isa<YieldOp>(use.getOwner()) &&
            use.getOperandNumber() == yieldOperand);
  });
}

/// Ops that can move: weight-gradient ops read by moved ops and the yield only.
static void chooseOps(Division &division) {
  Block &body = division.repeat.getBody().front();
  for (Operation &op : llvm::reverse(body)) {
    bool free =
        isWeightOp(op) && llvm::all_of(op.getUsers(), [&](Operation *u) {
          return division.moved.contains(u) || isa<YieldOp>(u);
        });
    if (free)
      division.moved.insert(&op);
  }
}

/// Divides carried and stacked values. A carried value moves when its argument
/// serves moved ops only; an op that feeds a staying one must stay.
static void chooseValues(Division &division) {
  RepeatOp repeat = division.repeat;
  YieldOp yield = repeat.getYield();
  auto isMoved = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return op && division.moved.contains(op);
  };
  bool changed = true;
  while (changed) {
    changed = false;
    division.stayCarried.clear();
    division.moveCarried.clear();
    for (auto [k, arg] : llvm::enumerate(repeat.getCarryArgs())) {
      Value next = yield.getCarried()[k];
      bool moves = isMoved(next) && onlyForMoved(arg, division, k);
      (moves ? division.moveCarried : division.stayCarried).push_back(k);
      if (!moves && isMoved(next))
        changed |= division.moved.remove(next.getDefiningOp());
    }
    // What a staying op reads stays.
    for (Operation &op : repeat.getBody().front().without_terminator())
      if (!division.moved.contains(&op))
        for (Value operand : op.getOperands())
          if (isMoved(operand))
            changed |= division.moved.remove(operand.getDefiningOp());
  }
  for (auto [k, value] : llvm::enumerate(yield.getStacked()))
    (isMoved(value) ? division.moveStacked : division.stayStacked).push_back(k);
}

/// Values of the first half that the second reads and cannot make again.
static void collectHanded(Division &division) {
  RepeatOp repeat = division.repeat;
  Block &body = repeat.getBody().front();
  for (Operation *op : division.moved)
    for (Value operand : op->getOperands()) {
      if (operand.getParentBlock() != &body || operand == repeat.getIndex() ||
          llvm::is_contained(repeat.getSliceArgs(), operand))
        continue;
      Operation *maker = operand.getDefiningOp();
      bool remade = maker && (division.moved.contains(maker) ||
                              maker->getNumOperands() == 0);
      auto arg = dyn_cast<BlockArgument>(operand);
      bool movedCarry = arg && llvm::is_contained(division.moveCarried,
                                                  arg.getArgNumber() - 1);
      if (!remade && !movedCarry)
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
  RepeatOp half = beginHalf(builder, repeat, division.stayCarried, {}, mapping);
  OpBuilder inner(repeat.getContext());
  inner.setInsertionPointToEnd(&half.getBody().front());
  for (Operation &op : repeat.getBody().front().without_terminator())
    if (!division.moved.contains(&op))
      inner.clone(op, mapping);
  auto stacked = pick(yield.getStacked(), division.stayStacked, mapping);
  for (Value value : division.handed)
    stacked.push_back(mapping.lookup(value));
  return endHalf(half, pick(yield.getCarried(), division.stayCarried, mapping),
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
  RepeatOp half =
      beginHalf(builder, repeat, division.moveCarried, stacks, mapping);
  Block &body = half.getBody().front();
  for (Value value : division.handed)
    mapping.map(value, body.addArgument(value.getType(), value.getLoc()));
  OpBuilder inner(repeat.getContext());
  inner.setInsertionPointToEnd(&body);
  for (Operation &op : repeat.getBody().front().without_terminator()) {
    bool isSource = op.getNumOperands() == 0 &&
                    llvm::any_of(op.getUsers(), [&](Operation *user) {
                      return division.moved.contains(user);
                    });
    if (division.moved.contains(&op) || isSource)
      inner.clone(op, mapping);
  }
  auto phase = PhaseAttr::get(repeat.getContext(), PhaseKind::WeightGradient,
                              getPhase(repeat).getOp());
  return endHalf(half, pick(yield.getCarried(), division.moveCarried, mapping),
                 pick(yield.getStacked(), division.moveStacked, mapping), phase,
                 getPhase(yield));
}

/// Drops slices whose argument nobody reads.
static void dropUnusedSlices(RepeatOp repeat) {
  Block &body = repeat.getBody().front();
  unsigned first = 1 + repeat.getInits().size();
  for (unsigned k = repeat.getSlices().size(); k-- > 0;)
    if (body.getArgument(first + k).use_empty()) {
      body.eraseArgument(first + k);
      repeat.getSlicesMutable().erase(k);
    }
}

static void splitReverse(RepeatOp repeat) {
  Division division{repeat, {}, {}, {}, {}, {}, {}};
  chooseOps(division);
  chooseValues(division);
  if (division.moved.empty())
    return;
  collectHanded(division);
  OpBuilder builder(repeat);
  RepeatOp first = buildFirst(division, builder);
  RepeatOp second = buildSecond(division, first, builder);
  auto replace = [](Value from, Value to) { from.replaceAllUsesWith(to); };
  for (auto [n, k] : llvm::enumerate(division.stayCarried))
    replace(repeat.getCarryResults()[k], first.getCarryResults()[n]);
  for (auto [n, k] : llvm::enumerate(division.moveCarried))
    replace(repeat.getCarryResults()[k], second.getCarryResults()[n]);
  for (auto [n, k] : llvm::enumerate(division.stayStacked))
    replace(repeat.getStackResults()[k], first.getStackResults()[n]);
  for (auto [n, k] : llvm::enumerate(division.moveStacked))
    replace(repeat.getStackResults()[k], second.getStackResults()[n]);
  repeat.erase();
  dropUnusedSlices(first);
  dropUnusedSlices(second);
}

namespace {
struct SplitWeightGradientPass
    : public kerf::impl::SplitWeightGradientPassBase<SplitWeightGradientPass> {
  using SplitWeightGradientPassBase::SplitWeightGradientPassBase;

  bool isChosen(ModelOp model) {
    auto plan = model->getAttrOfType<PlanAttr>(kPlanAttrName);
    return !planned || (plan && plan.getSchedule() == "zb-h1");
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
