//===- Loss.cpp - the loss over rows --------------------------------------===//

#include "Views.h"

using namespace kerf;
using namespace mlir;

namespace {

/// Rows and targets that were flattened keep their dimensions: batch and
/// sequence are what is cut.
struct UnflattenLoss : OpRewritePattern<CrossEntropyOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CrossEntropyOp op,
                                PatternRewriter &rewriter) const override {
    auto logits = op.getLogits().getDefiningOp<ReshapeOp>();
    if (!logits)
      return failure();
    RankedTensorType rows = typeOf(logits.getX());
    llvm::ArrayRef<int64_t> lead = rows.getShape().drop_back();
    if (rows.getShape().back() != typeOf(op.getLogits()).getShape().back() ||
        lead == typeOf(op.getTargets()).getShape())
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    Value targets = p.reshape(op.getTargets(), lead);
    rewriter.modifyOpInPlace(op, [&] {
      op.getLogitsMutable().assign(logits.getX());
      op.getTargetsMutable().assign(targets);
    });
    return success();
  }
};

/// How targets are laid out changes no number of them.
struct CountUnflattened : OpRewritePattern<CountValidOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CountValidOp op,
                                PatternRewriter &rewriter) const override {
    auto targets = op.getTargets().getDefiningOp<ReshapeOp>();
    if (!targets)
      return failure();
    rewriter.modifyOpInPlace(
        op, [&] { op.getTargetsMutable().assign(targets.getX()); });
    return success();
  }
};

} // namespace

void kerf::addLossPatterns(RewritePatternSet &patterns) {
  patterns.add<UnflattenLoss, CountUnflattened>(patterns.getContext());
}
