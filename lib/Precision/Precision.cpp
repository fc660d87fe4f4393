//===- Precision.cpp - number types of a training step --------------------===//
//
// Problem: give a step written in f32 the types of a mixed-precision policy.
//
// Idea: parameters change type, and every op follows in order: operands that
// must agree are cast, then the op infers its result types again. An op thus
// decides for itself what stays f32 (`attention`'s log-sum-exp, `route`'s
// weights, losses); results of weight-gradient ops stay f32 by policy.
//
// Cost: one visit per op.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Precision/Passes.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "precision"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_PRECISIONPASS
#define GEN_PASS_DEF_VERIFYPRECISIONPASS
#include "kerf/Precision/Passes.h.inc"
} // namespace kerf

namespace {
/// Brings one model to a 16-bit compute type.
class Narrowing {
public:
  Narrowing(ModelOp model, FloatType narrow)
      : model(model), narrow(narrow),
        wide(Float32Type::get(model.getContext())) {}

  LogicalResult run() { return visitBlock(model.getBody().front()); }

private:
  LogicalResult visitBlock(Block &block);
  LogicalResult visit(Operation *op);
  LogicalResult visitRepeat(RepeatOp repeat);
  void visitParam(ParamOp param);
  void visitNorm(GlobalNormOp norm);
  void castOperand(OpOperand &operand, Type element);
  bool goesUp(Operation *op);
  void unifyOperands(Operation *op);
  LogicalResult inferResults(Operation *op);

  bool isNarrow(Value value) {
    return typeOf(value).getElementType() == narrow;
  }
  bool isWide(Value value) {
    return typeOf(value).getElementType() == wide &&
           typeOf(value).getRank() > 0;
  }

  ModelOp model;
  FloatType narrow, wide;
  /// f32 results that an op with narrow operands defines to be f32.
  llvm::DenseSet<Value> kept;
  /// Names of the parameters that changed type.
  llvm::DenseSet<StringAttr> narrowed;
};
} // namespace

static bool isWeightGradient(Operation *op) {
  PhaseAttr phase = getPhase(op);
  return phase && phase.getKind() == PhaseKind::WeightGradient;
}

void Narrowing::castOperand(OpOperand &operand, Type element) {
  if (typeOf(operand.get()).getElementType() == element)
    return;
  Operation *op = operand.getOwner();
  OpBuilder builder(op);
  PlainBuilder p{builder, op->getLoc()};
  operand.set(p.cast(operand.get(), element));
  if (PhaseAttr phase = getPhase(op))
    operand.get().getDefiningOp()->setAttr(kPhaseAttrName, phase);
}

/// True for ops whose operands have one type.
static bool operandsAgree(Operation *op) {
  return op->hasTrait<OpTrait::SameOperandsAndResultType>() ||
         isa<ScalarOpInterface>(op);
}

/// Whether mixed operands go up to f32: in weight gradients, whose results are
/// f32, and where one is an f32 scalar, which stays what it is.
bool Narrowing::goesUp(Operation *op) {
  bool hasScalar = llvm::any_of(op->getOperands(), [&](Value v) {
    return typeOf(v).getRank() == 0 && typeOf(v).getElementType() == wide;
  });
  if (operandsAgree(op) && hasScalar)
    return true;
  if (!isWeightGradient(op))
    return false;
  // A matmul of narrow operands has a wide result; these have no such form.
  return isa<InferTypeOpInterface, ScatterAddOp>(op) ||
         isView(op, ViewKind::Repeat, ViewKind::Rename) ||
         llvm::any_of(op->getOperands(), [&](Value v) { return isWide(v); });
}

/// Casts float operands that must agree: up in weight gradients, else down.
void Narrowing::unifyOperands(Operation *op) {
  bool mixes =
      llvm::any_of(op->getOperands(), [&](Value v) { return isNarrow(v); });
  if (!mixes)
    return;
  bool hasExplicitType = !isa<InferTypeOpInterface>(op);
  bool up = goesUp(op), mustAgree = operandsAgree(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (up && isNarrow(operand.get()))
      castOperand(operand, wide);
    else if (!up && isWide(operand.get()) && isa<EinsumOp>(op))
      castOperand(operand, narrow); // matmuls have no mixed form
    else if (!up && isWide(operand.get()) && !hasExplicitType &&
             (mustAgree || !kept.contains(operand.get())))
      castOperand(operand, narrow);
  }
}

/// True when readers want the value in f32, perhaps in another shape, or are
/// the gradient's, which take what the forward pass has.
static bool staysWide(Value value) {
  bool isWanted = false;
  for (OpOperand &use : value.getUses()) {
    auto op = dyn_cast<PrecisionOpInterface>(use.getOwner());
    bool keeps = op && op.keepsWide(use);
    if (isView(use.getOwner(), ViewKind::Rename))
      keeps = staysWide(use.getOwner()->getResult(0));
    isWanted |= keeps;
    PhaseAttr phase = getPhase(use.getOwner());
    if (!keeps && phase && phase.getKind() == PhaseKind::Forward &&
        !isa<YieldOp>(use.getOwner()))
      return false;
  }
  return isWanted;
}

LogicalResult Narrowing::inferResults(Operation *op) {
  bool hasNarrow =
      llvm::any_of(op->getOperands(), [&](Value v) { return isNarrow(v); });
  if (auto infer = dyn_cast<InferTypeOpInterface>(op)) {
    llvm::SmallVector<Type> types;
    if (failed(infer.inferReturnTypes(
            op->getContext(), op->getLoc(), op->getOperands(),
            op->getRawDictionaryAttrs(), op->getPropertiesStorage(),
            op->getRegions(), types)))
      return op->emitOpError() << "has no types for " << narrow << " operands";
    for (auto [result, type] : llvm::zip(op->getResults(), types)) {
      result.setType(type);
      if (hasNarrow && isWide(result) && !isWeightGradient(op))
        kept.insert(result);
    }
    return success();
  }
  // What frozen parameters make is a weight, in the type of weights.
  bool isWeight = op->getNumResults() == 1 && isMadeOfFrozen(op->getResult(0));
  if ((!hasNarrow && !isWeight) || isWeightGradient(op) || isConversion(op))
    return success();
  for (Value result : op->getResults())
    if (isWide(result) && !staysWide(result))
      result.setType(withElement(result.getType(), narrow));
  return success();
}

void Narrowing::visitParam(ParamOp param) {
  if (!isWide(param.getResult()))
    return;
  if (staysWide(param.getResult())) {
    kept.insert(param.getResult());
    return;
  }
  narrowed.insert(param.getNameAttr());
  param.getResult().setType(withElement(param.getResult().getType(), narrow));
  if (!param.getFrozen())
    param.setMasterAttr(TypeAttr::get(wide));
}

/// Norm and updates read one and the same f32 gradient.
void Narrowing::visitNorm(GlobalNormOp norm) {
  for (OpOperand &operand : norm.getGradientsMutable()) {
    Value gradient = operand.get();
    if (!isNarrow(gradient))
      continue;
    castOperand(operand, wide);
    gradient.replaceUsesWithIf(operand.get(), [](OpOperand &use) {
      return isa<UpdateOp>(use.getOwner());
    });
  }
}

LogicalResult Narrowing::visitRepeat(RepeatOp repeat) {
  auto keep = [&](Value from, Value to) {
    if (kept.contains(from))
      kept.insert(to);
  };
  for (auto [arg, init] : llvm::zip(repeat.getCarryArgs(), repeat.getInits()))
    arg.setType(init.getType());
  for (auto [arg, stack] :
       llvm::zip(repeat.getSliceArgs(), repeat.getSlices())) {
    arg.setType(withElement(arg.getType(), typeOf(stack).getElementType()));
    keep(stack, arg);
  }
  if (failed(visitBlock(repeat.getBody().front())))
    return failure();
  YieldOp yield = repeat.getYield();
  for (auto [operand, init] :
       llvm::zip(yield.getCarriedMutable(), repeat.getInits()))
    castOperand(operand, typeOf(init).getElementType());
  for (auto [value, stack] :
       llvm::zip(yield.getStacked(), repeat.getStackResults()))
    keep(value, stack);
  for (auto [result, type] :
       llvm::zip(repeat.getResults(), repeat.inferResultTypes()))
    result.setType(type);
  return success();
}

LogicalResult Narrowing::visit(Operation *op) {
  if (auto param = dyn_cast<ParamOp>(op))
    return visitParam(param), success();
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return visitRepeat(repeat);
  if (auto update = dyn_cast<UpdateOp>(op)) {
    if (!narrowed.contains(update.getNameAttr()))
      return success();
    castOperand(update.getGradientMutable(), wide);
    update.setParamTypeAttr(TypeAttr::get(narrow));
    return success();
  }
  if (auto norm = dyn_cast<GlobalNormOp>(op))
    return visitNorm(norm), success();
  if (isa<YieldOp, ReturnOp>(op))
    return success();
  unifyOperands(op);
  if (failed(inferResults(op)))
    return failure();
  bool narrowsScalar = llvm::any_of(op->getResults(), [&](Value v) {
    return isNarrow(v) && typeOf(v).getRank() == 0;
  });
  if (!narrowsScalar)
    return success();
  // A sum that is a loss stays f32, as what is summed.
  for (OpOperand &operand : op->getOpOperands())
    if (isNarrow(operand.get()))
      castOperand(operand, wide);
  return inferResults(op);
}

LogicalResult Narrowing::visitBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (failed(visit(&op)))
      return failure();
  return success();
}

/// Below 6e-8 a number of f16 is zero, which gradients often are.
static LogicalResult checkScaled(ModelOp model, FloatType narrow) {
  if (!narrow.isF16() || model.getInput("loss_scale"))
    return success();
  auto diagnostic = model.emitOpError("of f16 needs a scaled loss");
  diagnostic.attachNote() << "differentiate it with 'scale-loss'";
  return diagnostic;
}

/// Casts, and values of the narrow type.
static void logCasts(ModelOp model, FloatType narrow) {
  int64_t casts = 0, narrowed = 0;
  model.walk([&](Operation *op) {
    casts += isConversion(op);
    for (Type type : op->getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        narrowed += tensor.getElementType() == narrow;
  });
  LDBG() << narrowed << " values in " << narrow << ", " << casts << " casts";
}

namespace {
struct PrecisionPass : public kerf::impl::PrecisionPassBase<PrecisionPass> {
  using PrecisionPassBase::PrecisionPassBase;

  void runOnOperation() override {
    if (policy != "f32" && policy != "bf16" && policy != "f16") {
      mlir::emitError(getOperation().getLoc())
          << "unknown precision '" << policy << "', expected f32, bf16 or f16";
      return signalPassFailure();
    }
    if (policy == "f32")
      return;
    FloatType narrow = BFloat16Type::get(&getContext());
    if (policy == "f16")
      narrow = Float16Type::get(&getContext());
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      if (failed(checkScaled(model, narrow)) ||
          failed(Narrowing(model, narrow).run()))
        return signalPassFailure();
      LLVM_DEBUG(logCasts(model, narrow));
    }
  }
};

struct VerifyPrecisionPass
    : public kerf::impl::VerifyPrecisionPassBase<VerifyPrecisionPass> {
  void runOnOperation() override;
};
} // namespace

/// Every 16-bit trainable parameter has a master.
static LogicalResult checkMasters(ModelOp model) {
  WalkResult walk = model.getBody().walk([](ParamOp param) {
    Type element = typeOf(param.getResult()).getElementType();
    if (param.getFrozen() || element.getIntOrFloatBitWidth() > 16 ||
        param.getMaster())
      return WalkResult::advance();
    param.emitOpError() << "\"" << param.getName() << "\" of " << element
                        << " is trainable but has no master";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// Gradients reach updates in the type that is updated: the master's.
static LogicalResult checkUpdateTypes(ModelOp model) {
  llvm::StringMap<ParamOp> params;
  model.getBody().walk(
      [&](ParamOp param) { params.try_emplace(param.getName(), param); });
  for (UpdateOp update : model.getBody().getOps<UpdateOp>()) {
    ParamOp param = params.lookup(update.getName());
    Type updated =
        param.getMaster().value_or(typeOf(param.getResult()).getElementType());
    Type found = typeOf(update.getGradient()).getElementType();
    if (found != updated)
      return update.emitOpError()
             << "expected a gradient of " << updated << ", found " << found;
  }
  for (GlobalNormOp norm : model.getBody().getOps<GlobalNormOp>())
    for (Value gradient : norm.getGradients())
      if (typeOf(gradient).getElementTypeBitWidth() < 32)
        return norm.emitOpError()
               << "expected gradients of at least 32 bits, found "
               << gradient.getType();
  return success();
}

void VerifyPrecisionPass::runOnOperation() {
  for (ModelOp model : getOperation().getOps<ModelOp>())
    if (failed(checkMasters(model)) || failed(checkUpdateTypes(model)))
      return signalPassFailure();
}
