//===- SumInPlace.cpp - gradients that matmuls add up ---------------------===//

#include "kerf/Dialect/Spmd/SumInPlace.h"

using namespace mlir;
using namespace kerf;

Value spmd::stackOf(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto repeat = argument
                    ? dyn_cast<RepeatOp>(argument.getOwner()->getParentOp())
                    : RepeatOp();
  if (!repeat || !llvm::is_contained(repeat.getSliceArgs(), argument))
    return {};
  return repeat
      .getSlices()[argument.getArgNumber() - 1 - repeat.getInits().size()];
}

Operation *spmd::summingMatmul(Value value) {
  Operation *def = value.getDefiningOp();
  if (auto matmul = dyn_cast_or_null<spmd::FusedMatmulOp>(def)) {
    // A gelu is of the whole, and the other results are no sums.
    spmd::MatmulParts parts = matmul.getParts();
    bool isPlain = !parts.gelu && !parts.geluBackward;
    return isPlain && value == matmul->getResult(0) ? def : nullptr;
  }
  return isa_and_nonnull<LinearOp, MatmulOp, EinsumOp, GroupedWeightGradientOp>(
             def)
             ? def
             : nullptr;
}

/// True for a layer of a buffer of the step, which nothing else reads.
static bool isPartOfBuffer(Value value) {
  Value stack = spmd::stackOf(value);
  auto read = stack ? stack.getDefiningOp<spmd::ReadOp>() : spmd::ReadOp();
  if (!read || !stack.hasOneUse())
    return false;
  auto buffer = dyn_cast_or_null<spmd::BufferOp>(
      SymbolTable::lookupNearestSymbolFrom(read, read.getSourceAttr()));
  return buffer && buffer.getKind() == spmd::BufferKind::Step;
}

static bool isPadded(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<PadOp>(user) ||
           (isa<ReshapeOp>(user) && isPadded(user->getResult(0)));
  });
}

Operation *spmd::matmulSummedInPlace(Operation *op) {
  auto add = dyn_cast<AddOp>(op);
  if (!add || !typeOf(add.getResult()).getElementType().isF32())
    return nullptr;
  Value part = add.getLhs(), gradient = add.getRhs();
  Operation *matmul = summingMatmul(gradient);
  bool isSum = matmul && matmul->getBlock() == add->getBlock() &&
               part.hasOneUse() && gradient.hasOneUse() &&
               isPartOfBuffer(part) && !isPadded(add.getResult());
  return isSum ? matmul : nullptr;
}
