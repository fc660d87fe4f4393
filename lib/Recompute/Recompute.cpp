#include "ChooseSaved.h"

#include "kerf/Dialect/Kerf/Chunks.h"
#include "kerf/Dialect/Kerf/Constants.h"
#include "kerf/Recompute/Passes.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "recompute"

using namespace mlir;
using namespace kerf;
using namespace kerf::recompute;

namespace kerf {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "kerf/Recompute/Passes.h.inc"

} // namespace kerf

namespace {
/// What is to be computed again.
struct Choice {
  enum Kind { None, Full, Selective, Listed } kind = None;
  llvm::SmallVector<int64_t> ops; ///< numbers of forward ops, of `Listed`
};
} // namespace

/// The choice that the pass option states.
static FailureOr<Choice> parseChoice(ModelOp model,
                                     llvm::ArrayRef<std::string> values) {
  Choice choice;
  for (llvm::StringRef value : values) {
    auto kind = llvm::StringSwitch<std::optional<Choice::Kind>>(value)
                    .Case("none", Choice::None)
                    .Case("full", Choice::Full)
                    .Case("selective", Choice::Selective)
                    .Default(std::nullopt);
    if (kind && values.size() > 1)
      return model.emitOpError()
             << "cannot recompute '" << value
             << "' and more, expected one word or numbers of forward ops";
    int64_t number = 0;
    if (!kind && value.getAsInteger(10, number))
      return model.emitOpError()
             << "cannot recompute '" << value
             << "', expected none, full, selective or numbers of forward ops";
    choice.kind = kind.value_or(Choice::Listed);
    if (!kind)
      choice.ops.push_back(number);
  }
  return choice;
}

/// The choice that the model's plan states; none without a plan.
static Choice choiceOfPlan(ModelOp model) {
  auto plan = model->getAttrOfType<PlanAttr>(kPlanAttrName);
  Choice choice;
  if (!plan)
    return choice;
  llvm::append_range(choice.ops, plan.getRecompute());
  if (plan.getRecomputeAll())
    choice.kind = Choice::Full;
  else if (!choice.ops.empty())
    choice.kind = Choice::Listed;
  return choice;
}

/// The choice of one pair: its own, where the plan lets layers differ.
static Choice choiceOf(RepeatPair &pair, const Choice &usual) {
  auto own = pair.forward->getAttrOfType<DenseI64ArrayAttr>(kRecomputeAttrName);
  if (!own)
    return usual;
  Choice choice;
  llvm::append_range(choice.ops, own.asArrayRef());
  choice.kind = choice.ops.empty() ? Choice::None : Choice::Listed;
  return choice;
}

/// Every number names a forward op, and has an effect only in a pair's body.
static LogicalResult checkNumbers(ModelOp model, const Choice &choice,
                                  llvm::ArrayRef<RepeatPair> pairs) {
  llvm::DenseMap<int64_t, Operation *> forward;
  model.getBody().walk([&](Operation *op) {
    PhaseAttr phase = getPhase(op);
    if (phase && phase.getKind() == PhaseKind::Forward)
      forward.try_emplace(phase.getOp(), op);
  });
  for (int64_t number : choice.ops) {
    Operation *op = forward.lookup(number);
    if (!op) {
      auto diagnostic = model.emitOpError()
                        << "has no forward op " << number << " to recompute";
      diagnostic.attachNote()
          << "the number of an op is that in its 'kerf.phase<forward ...>'";
      return diagnostic;
    }
    bool inPair = llvm::any_of(pairs, [&](RepeatPair pair) {
      return op->getParentOp() == pair.forward;
    });
    if (!inPair)
      op->emitRemark() << "forward op " << number
                       << " is outside of repeats with a backward pass: "
                          "naming it has no effect";
  }
  return success();
}

static LogicalResult checkModel(ModelOp model, const Choice &choice,
                                llvm::ArrayRef<RepeatPair> pairs) {
  if (!getPhase(model.getReturn())) {
    auto diagnostic = model.emitOpError("has no backward pass to recompute in");
    diagnostic.attachNote() << "run 'kerf-differentiate' before";
    return diagnostic;
  }
  for (RepeatPair pair : pairs)
    if (pair.reverses.size() > 1) {
      auto diagnostic = pair.reverses[1].emitOpError(
          "is split from its input gradients: both would compute again");
      diagnostic.attachNote() << "run 'kerf-split-weight-gradient' after "
                                 "'kerf-recompute'";
      return diagnostic;
    }
  return checkNumbers(model, choice, pairs);
}

/// True where the op that makes a value is among those that are listed.
static bool isListed(Value value, const Choice &choice) {
  Operation *op = value.getDefiningOp();
  PhaseAttr phase = op ? getPhase(op) : PhaseAttr();
  return phase && llvm::is_contained(choice.ops, phase.getOp());
}

/// Saves what listed ops and views read, so that they alone are recomputed.
static void saveOperands(SavedValues &pair, const Choice &choice,
                         llvm::DenseSet<Value> &saved) {
  llvm::SetVector<Value> wanted(pair.needed().begin(), pair.needed().end());
  for (size_t i = 0; i < wanted.size(); ++i) {
    Value value = wanted[i];
    Operation *op = value.getDefiningOp();
    if (!op || pair.isFree(value) || saved.contains(value) || !canCopy(op) ||
        isMadeOfFrozen(value) || isMadeOfConstants(value))
      continue;
    if (isListed(value, choice) || isFreeView(op))
      wanted.insert(op->operand_begin(), op->operand_end());
    else
      saved.insert(value);
  }
}

/// What is saved where views and the listed ops alone are recomputed.
static llvm::DenseSet<Value> exceptListed(SavedValues &pair,
                                          const Choice &choice) {
  llvm::DenseSet<Value> saved;
  for (Value value : chooseSaved(pair, viewWork))
    if (!isListed(value, choice))
      saved.insert(value);
  saveOperands(pair, choice, saved);
  return saved;
}

static void recomputePair(RepeatPair &pair, const Choice &choice) {
  SavedValues values(pair);
  llvm::DenseSet<Value> saved;
  if (choice.kind == Choice::Selective)
    saved = chooseSaved(values, cheapWork);
  if (choice.kind == Choice::Listed)
    saved = exceptListed(values, choice);
  for (Value value : values.forward().getYield().getStacked())
    if (values.isKept(value))
      saved.insert(value);
  LDBG() << saved.size() << " values saved for the backward pass, the others "
         << "are recomputed";
  values.close(saved);
}

namespace {
struct RecomputePass : public kerf::impl::RecomputePassBase<RecomputePass> {
  using RecomputePassBase::RecomputePassBase;

  LogicalResult runOnModel(ModelOp model) {
    auto choice = values.empty() ? FailureOr<Choice>(choiceOfPlan(model))
                                 : parseChoice(model, values);
    if (failed(choice))
      return failure();
    auto pairs = collectPairs(model);
    auto choices = llvm::map_to_vector(pairs, [&](RepeatPair &pair) {
      return values.empty() ? choiceOf(pair, *choice) : *choice;
    });
    auto isAsked = [](const Choice &own) { return own.kind != Choice::None; };
    if (!isAsked(*choice) && llvm::none_of(choices, isAsked))
      return success();
    if (failed(checkModel(model, *choice, pairs)))
      return failure();
    for (auto [pair, own] : llvm::zip_equal(pairs, choices))
      if (isAsked(own))
        recomputePair(pair, own);
    dropUnread(model);
    return success();
  }

  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(runOnModel(model)))
        return signalPassFailure();
  }
};
} // namespace
