//===- ViewPatterns.cpp - transposes, slices and reshapes that cancel -----===//

#include "Views.h"

using namespace kerf;
using namespace mlir;

namespace {

/// Two transposes are one; one that permutes nothing is none.
struct MergeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    llvm::ArrayRef<int64_t> perm = op.getPerm();
    if (llvm::equal(perm, dimRange(0, perm.size()))) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    auto inner = op.getX().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    llvm::SmallVector<int64_t> both;
    for (int64_t d : perm)
      both.push_back(inner.getPerm()[d]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, inner.getX(), both);
    return success();
  }
};

/// A transpose that moves dimensions of size 1 alone is a reshape.
struct TransposeOfUnits : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    llvm::ArrayRef<int64_t> shape = typeOf(op.getX()).getShape();
    int64_t last = -1;
    for (int64_t d : op.getPerm()) {
      if (shape[d] == 1)
        continue;
      if (d < last)
        return failure();
      last = d;
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getX());
    return success();
  }
};

struct MergeReshapes : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getX().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    auto inner = op.getX().getDefiningOp<ReshapeOp>();
    if (!inner)
      return failure();
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), inner.getX());
    return success();
  }
};

/// A slice of one part of a concatenation is a slice of that part.
struct SliceOfConcat : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto concat = op.getX().getDefiningOp<ConcatOp>();
    if (!concat)
      return failure();
    int64_t dim = concat.getDim(), start = op.getOffsets()[dim];
    int64_t size = op.getSizes()[dim];
    for (Value input : concat.getInputs()) {
      int64_t length = typeOf(input).getDimSize(dim);
      if (start >= length) {
        start -= length;
        continue;
      }
      if (start + size > length)
        return failure();
      llvm::SmallVector<int64_t> offsets(op.getOffsets());
      offsets[dim] = start;
      if (typeOf(input) == op.getType())
        rewriter.replaceOp(op, input);
      else
        rewriter.replaceOpWithNewOp<SliceOp>(op, input, offsets, op.getSizes());
      return success();
    }
    return failure();
  }
};

/// The value whose leading dimensions `value` has as fewer, its rows unchanged;
/// null else.
static Value unflattened(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return {};
  RankedTensorType from = typeOf(reshape.getX()), to = typeOf(value);
  bool isFlat = from.getRank() > to.getRank() && to.getRank() > 1 &&
                from.getShape().back() == to.getShape().back();
  return isFlat ? reshape.getX() : Value();
}

/// Products of rows that were flattened keep batch and sequence apart.
struct UnflattenLinear : OpRewritePattern<LinearOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LinearOp op,
                                PatternRewriter &rewriter) const override {
    Value x = unflattened(op.getX());
    if (!x)
      return failure();
    Value y = LinearOp::create(rewriter, op.getLoc(), x, op.getWeight(),
                               op.getBias(), op.getTransposed());
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), y);
    return success();
  }
};

/// So do ops of elements and of rows.
struct UnflattenRows : RewritePattern {
  UnflattenRows(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!op->hasTrait<OpTrait::SameOperandsAndResultType>() ||
        op->getNumResults() != 1 || op->getNumOperands() == 0)
      return failure();
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      Value wide = unflattened(operand);
      if (!wide ||
          (!operands.empty() && wide.getType() != operands.front().getType()))
        return failure();
      operands.push_back(wide);
    }
    Type wide = operands.front().getType(), flat = op->getResult(0).getType();
    Operation *copy =
        rewriter.create(op->getLoc(), op->getName().getIdentifier(), operands,
                        wide, op->getAttrs());
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, flat, copy->getResult(0));
    return success();
  }
};

/// x 1, x + 0.
template <typename Op> struct DropNeutral : OpRewritePattern<Op> {
  double neutral;
  DropNeutral(MLIRContext *context, double neutral)
      : OpRewritePattern<Op>(context), neutral(neutral) {}
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    for (auto [x, other] : bothOrders(op))
      if (splatOf(other) == neutral) {
        rewriter.replaceOp(op, x);
        return success();
      }
    return failure();
  }
};

} // namespace

void kerf::addViewPatterns(RewritePatternSet &patterns) {
  patterns.add<MergeTransposes, TransposeOfUnits, MergeReshapes, SliceOfConcat,
               UnflattenLinear, UnflattenRows>(patterns.getContext());
  patterns.add<DropNeutral<MulOp>>(patterns.getContext(), 1.0);
  patterns.add<DropNeutral<AddOp>>(patterns.getContext(), 0.0);
}
