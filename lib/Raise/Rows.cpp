//===- Rows.cpp - batch and sequence as one dimension ---------------------===//
//
// Libraries flatten batch and sequence before experts, losses and matmuls.
// What was flattened keeps both dimensions apart here, and is flattened behind
// each op: layouts shard them in different ways.
//
//===----------------------------------------------------------------------===//

#include "Views.h"

using namespace kerf;
using namespace mlir;

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

/// Dimensions [B, S] that a value [B S, ...] has as one; empty for none.
static llvm::SmallVector<int64_t> leadOf(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  llvm::ArrayRef<int64_t> shape = typeOf(value).getShape();
  if (!reshape || shape.empty())
    return {};
  llvm::SmallVector<int64_t> lead;
  int64_t rows = 1;
  for (int64_t size : typeOf(reshape.getX()).getShape()) {
    if (rows == shape.front() || size == 1)
      break;
    rows *= size;
    lead.push_back(size);
  }
  return rows == shape.front() && lead.size() > 1
             ? lead
             : llvm::SmallVector<int64_t>();
}

namespace {

/// Values with the leading dimensions apart.
struct Widener {
  llvm::SmallVector<int64_t> lead;

  bool isFlat(Value value) const {
    return typeOf(value).getRank() > 0 && typeOf(value).getDimSize(0) == rows();
  }

  /// Whether `value`, which is flat, can be written so.
  bool can(Value value) const {
    if (!isFlat(value))
      return false;
    if (splatOf(value) || leadOf(value) == lead)
      return true;
    if (auto broadcast = value.getDefiningOp<BroadcastOp>())
      return !readsRows(broadcast) || can(broadcast.getX());
    auto reshape = value.getDefiningOp<ReshapeOp>();
    return reshape && can(reshape.getX());
  }

  Value widen(PlainBuilder &p, Value value) const {
    RankedTensorType type = wideType(value.getType());
    if (auto number = splatOf(value))
      return p.constant(type, *number);
    if (leadOf(value) == lead)
      return p.reshape(value.getDefiningOp<ReshapeOp>().getX(),
                       type.getShape());
    auto broadcast = value.getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return p.reshape(widen(p, value.getDefiningOp<ReshapeOp>().getX()),
                       type.getShape());
    Value x = broadcast.getX();
    return p.broadcast(readsRows(broadcast) ? widen(p, x) : x,
                       wideDims(broadcast.getDims()), type.getShape());
  }

  RankedTensorType wideType(Type type) const {
    llvm::SmallVector<int64_t> shape(lead);
    llvm::append_range(shape,
                       cast<RankedTensorType>(type).getShape().drop_front());
    return withShape(type, shape);
  }

  /// The numbers of dimensions, of the first all of `lead`.
  llvm::SmallVector<int64_t> wideDims(llvm::ArrayRef<int64_t> dims) const {
    int64_t more = lead.size() - 1;
    llvm::SmallVector<int64_t> wide;
    for (int64_t d : dims) {
      if (d == 0)
        llvm::append_range(wide, dimRange(0, more));
      wide.push_back(d + more);
    }
    return wide;
  }

private:
  int64_t rows() const {
    int64_t count = 1;
    for (int64_t size : lead)
      count *= size;
    return count;
  }
  static bool readsRows(BroadcastOp op) {
    return llvm::is_contained(op.getDims(), 0);
  }
};

/// Matmuls of rows that were flattened keep batch and sequence apart.
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
    bool isOfRows =
        isa<SoftmaxOp>(op) && typeOf(op->getOperand(0)).getRank() > 1;
    if ((!isa<ScalarOpInterface>(op) && !isOfRows) || op->getNumResults() != 1)
      return failure();
    Widener widener;
    for (Value operand : op->getOperands())
      if (widener.lead.empty())
        widener.lead = leadOf(operand);
    if (widener.lead.empty() ||
        !llvm::all_of(op->getOperands(),
                      [&](Value operand) { return widener.can(operand); }))
      return failure();
    PlainBuilder p{rewriter, op->getLoc()};
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(widener.widen(p, operand));
    Type type = op->getResult(0).getType();
    Operation *wide =
        rewriter.create(op->getLoc(), op->getName().getIdentifier(), operands,
                        TypeRange(widener.wideType(type)), op->getAttrs());
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, type, wide->getResult(0));
    return success();
  }
};

/// So do sums within rows.
struct UnflattenReduce : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    Widener widener = {leadOf(op.getX())};
    if (widener.lead.empty() || llvm::is_contained(op.getDims(), 0))
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    Value sum = p.reduce(op.getKind(), widener.widen(p, op.getX()),
                         widener.wideDims(op.getDims()));
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), sum);
    return success();
  }
};

} // namespace

void kerf::addRowPatterns(RewritePatternSet &patterns) {
  patterns.add<UnflattenLinear, UnflattenRows, UnflattenReduce>(
      patterns.getContext());
}
