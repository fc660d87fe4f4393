//===- Batches.cpp - batch and heads that are one dimension ---------------===//
//
// Models that multiply batches of matrices (torch.bmm) merge batch and heads
// before, and divide them after. Here what merges them moves behind what reads
// it, until both cancel: attention is recognized by batch and heads.
//
//===----------------------------------------------------------------------===//

#include "Views.h"

using namespace kerf;
using namespace mlir;

/// [A,B,M,N] of a value [A B,M,N] that a reshape made of it; null else.
static Value apart(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return {};
  llvm::ArrayRef<int64_t> from = typeOf(reshape.getX()).getShape();
  llvm::ArrayRef<int64_t> to = typeOf(value).getShape();
  bool merges = from.size() == 4 && to.size() == 3 &&
                from.drop_front(2) == to.drop_front(1);
  return merges ? reshape.getX() : Value();
}

/// Whether views and casts of one number alone say a value [A B,M,N] with the
/// shape [A,B,M,N] of `wide`.
static bool standsApart(Value value, RankedTensorType wide) {
  if (Value x = apart(value))
    return x.getType() == wide;
  if (splatOf(value))
    return true;
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && !broadcast.getDims().empty() &&
         broadcast.getDims()[0] == 0 &&
         typeOf(broadcast.getX()).getDimSize(0) == typeOf(value).getDimSize(0);
}

/// Such a value.
static Value makeApart(PlainBuilder &p, Value value, RankedTensorType wide) {
  if (Value x = apart(value))
    return x;
  if (auto number = splatOf(value)) {
    auto cast = value.getDefiningOp<CastOp>();
    if (!cast)
      return p.constant(wide, *number);
    Type from = typeOf(cast.getX()).getElementType();
    return p.cast(makeApart(p, cast.getX(), withElement(wide, from)),
                  wide.getElementType());
  }
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  llvm::SmallVector<int64_t> shape{wide.getDimSize(0), wide.getDimSize(1)};
  llvm::append_range(shape, typeOf(broadcast.getX()).getShape().drop_front());
  llvm::SmallVector<int64_t> dims{0};
  for (int64_t d : broadcast.getDims())
    dims.push_back(d + 1);
  return p.broadcast(p.reshape(broadcast.getX(), shape), dims, wide.getShape());
}

namespace {

struct MatmulApart : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    Value a = apart(op.getLhs()), b = apart(op.getRhs());
    if (!a || !b ||
        typeOf(a).getShape().take_front(2) !=
            typeOf(b).getShape().take_front(2))
      return failure();
    Value y = MatmulOp::create(rewriter, op.getLoc(), a, b, op.getBias());
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), y);
    return success();
  }
};

struct TransposeApart : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    Value x = apart(op.getX());
    if (!x || op.getPerm()[0] != 0)
      return failure();
    llvm::SmallVector<int64_t> perm{0};
    for (int64_t d : op.getPerm())
      perm.push_back(d + 1);
    Value y = PlainBuilder{rewriter, op.getLoc()}.transpose(x, perm);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), y);
    return success();
  }
};

/// An op of elements or rows one of whose operands was merged.
struct RowsApart : RewritePattern {
  RowsApart(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!op->hasTrait<OpTrait::SameOperandsAndResultType>() ||
        op->getNumResults() != 1)
      return failure();
    auto merged = llvm::find_if(op->getOperands(), apart);
    if (merged == op->operand_end())
      return failure();
    RankedTensorType wide = typeOf(apart(*merged));
    if (!llvm::all_of(op->getOperands(),
                      [&](Value x) { return standsApart(x, wide); }))
      return failure();
    PlainBuilder p{rewriter, op->getLoc()};
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(makeApart(p, operand, wide));
    replaceReshaped(rewriter, op, operands);
    return success();
  }
};

} // namespace

void kerf::addBatchPatterns(RewritePatternSet &patterns) {
  patterns.add<MatmulApart, TransposeApart, RowsApart>(patterns.getContext());
}
