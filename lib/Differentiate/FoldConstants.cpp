#include "kerf/Differentiate/Passes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_FOLDCONSTANTSPASS
#include "kerf/Differentiate/Passes.h.inc"
} // namespace kerf

/// The number that all elements of a constant are; none for other values.
static std::optional<double> numberOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant || !cast<DenseElementsAttr>(constant.getValue()).isSplat())
    return std::nullopt;
  auto one = cast<SplatElementsAttr>(constant.getValue())
                 .resizeSplat(withShape(value.getType(), {}));
  OpBuilder builder(value.getContext());
  OwningOpRef<ConstantOp> scalar =
      ConstantOp::create(builder, value.getLoc(), one);
  HostTensor tensor(typeOf(scalar->getResult()));
  scalar->evaluate({}, tensor);
  return tensor.data[0];
}

/// True for a plain op of one element at a time.
static bool isElementwise(Operation *op) {
  return isa<EvaluateOpInterface>(op) &&
         (op->hasTrait<OpTrait::SameOperandsAndResultType>() ||
          isa<CompareOp, SelectOp, CastOp>(op));
}

/// The number that an op makes of its operands'; none where it makes several,
/// or, unless `rounds`, of f64 one that its type does not hold.
static std::optional<double> fold(Operation *op, bool rounds) {
  bool isMove = isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp>(op);
  if (op->getNumOperands() == 0 || !(isMove || isElementwise(op)))
    return std::nullopt;
  llvm::SmallVector<HostTensor> operands;
  for (Value operand : op->getOperands()) {
    std::optional<double> number = numberOf(operand);
    if (!number)
      return std::nullopt;
    operands.emplace_back(withShape(operand.getType(), {})).data = {*number};
  }
  if (isMove)
    return operands[0].data[0];
  HostTensor result(withShape(op->getResult(0).getType(), {}));
  llvm::SmallVector<const HostTensor *> pointers;
  for (const HostTensor &operand : operands)
    pointers.push_back(&operand);
  cast<EvaluateOpInterface>(op).evaluate(pointers, result);
  double exact = result.data[0];
  double value = roundToType(exact, result.type.getElementType(), false);
  bool isExact = !rounds && operands[0].type.getElementType().isF64();
  return isExact && value != exact ? std::nullopt : std::optional(value);
}

static void foldIn(ModelOp model, bool rounds) {
  llvm::SmallVector<Operation *> folded;
  llvm::SetVector<Operation *> read;
  model.getBody().walk([&](Operation *op) {
    std::optional<double> number = fold(op, rounds);
    if (!number)
      return;
    OpBuilder builder(op);
    auto constant = ConstantOp::create(builder, op->getLoc(),
                                       op->getResult(0).getType(), *number);
    if (PhaseAttr phase = getPhase(op))
      constant->setAttr(kPhaseAttrName, phase);
    op->getResult(0).replaceAllUsesWith(constant);
    for (Value operand : op->getOperands())
      read.insert(operand.getDefiningOp());
    folded.push_back(op);
  });
  for (Operation *op : llvm::reverse(folded))
    op->erase();
  for (Operation *op : read)
    if (op->use_empty())
      op->erase();
}

namespace {
struct FoldConstantsPass
    : public kerf::impl::FoldConstantsPassBase<FoldConstantsPass> {
  using FoldConstantsPassBase::FoldConstantsPassBase;
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      foldIn(model, rounds);
  }
};
} // namespace
