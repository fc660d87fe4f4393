#include "kerf/Fuse/Passes.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

namespace kerf {
#define GEN_PASS_DEF_MERGEPADSPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// The pads whose sum `value` is; fails when another op takes part. Sums with
/// several readers stay whole.
static LogicalResult collectPads(Value value, bool isRoot,
                                 llvm::SmallVectorImpl<Operation *> &pads) {
  if (!isRoot && !value.hasOneUse())
    return failure();
  if (isView(value, ViewKind::Pad)) {
    pads.push_back(value.getDefiningOp());
    return success();
  }
  auto add = value.getDefiningOp<AddOp>();
  if (!add)
    return failure();
  return success(succeeded(collectPads(add->getOperand(0), false, pads)) &&
                 succeeded(collectPads(add->getOperand(1), false, pads)));
}

/// The one dimension that a pad widens, or -1.
static int64_t paddedDim(Operation *pad) {
  auto from = typeOf(pad->getOperand(0)).getShape();
  auto to = typeOf(pad->getResult(0)).getShape();
  int64_t found = -1;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == to[d])
      continue;
    if (found >= 0)
      return -1;
    found = static_cast<int64_t>(d);
  }
  return found;
}

/// Replaces a sum of pads that tile their dimension.
static void mergeSum(AddOp sum) {
  llvm::SmallVector<Operation *> pads;
  if (failed(collectPads(sum.getResult(), true, pads)))
    return;
  int64_t dim = paddedDim(pads[0]);
  if (dim < 0 ||
      llvm::any_of(pads, [&](Operation *pad) { return paddedDim(pad) != dim; }))
    return;
  auto begins = [dim](Operation *pad) { return viewOf(pad)->offsets[dim]; };
  llvm::sort(pads,
             [&](Operation *a, Operation *b) { return begins(a) < begins(b); });
  int64_t next = 0;
  llvm::SmallVector<Value> parts;
  for (Operation *pad : pads) {
    if (begins(pad) != next)
      return;
    parts.push_back(pad->getOperand(0));
    next += typeOf(parts.back()).getDimSize(dim);
  }
  if (next != typeOf(sum.getResult()).getDimSize(dim))
    return;
  OpBuilder builder(sum);
  auto concat = ConcatOp::create(builder, sum.getLoc(), sum.getType(), dim,
                                 ValueRange(parts));
  if (PhaseAttr phase = getPhase(sum))
    concat->setAttr(kPhaseAttrName, phase);
  sum.getResult().replaceAllUsesWith(concat.getResult());
}

namespace {
struct MergePads : kerf::impl::MergePadsPassBase<MergePads> {
  void runOnOperation() override {
    llvm::SmallVector<AddOp> sums;
    getOperation().walk([&](AddOp op) { sums.push_back(op); });
    // Later sums first: they hold the longest chains.
    for (AddOp sum : llvm::reverse(sums))
      mergeSum(sum);
    // Readers stand after what they read.
    llvm::SmallVector<Operation *> left;
    getOperation().walk([&](Operation *op) {
      if (isa<AddOp>(op) || isView(op, ViewKind::Pad))
        left.push_back(op);
    });
    for (Operation *op : llvm::reverse(left))
      if (op->use_empty())
        op->erase();
  }
};
} // namespace
