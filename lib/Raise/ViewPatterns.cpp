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

/// Dimensions of size 1 are added behind a transpose, not before it.
struct TransposeOfReshape : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto reshape = op.getX().getDefiningOp<ReshapeOp>();
    auto from = reshape ? dimsOfUnitReshape(reshape) : std::nullopt;
    int64_t rank = reshape ? typeOf(reshape.getX()).getRank() : 0;
    if (!from || rank >= typeOf(op.getX()).getRank())
      return failure();
    llvm::SmallVector<int64_t> perm;
    for (int64_t dim : op.getPerm())
      if ((*from)[dim] >= 0)
        perm.push_back((*from)[dim]);
    if (static_cast<int64_t>(perm.size()) != rank)
      return failure();
    Value narrow =
        PlainBuilder{rewriter, op.getLoc()}.transpose(reshape.getX(), perm);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), narrow);
    return success();
  }
};

/// A transpose of what is repeated along new dimensions is that, in another
/// order of them.
struct TransposeOfBroadcast : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto broadcast = op.getX().getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return failure();
    llvm::SmallVector<int64_t> dims;
    for (int64_t d : broadcast.getDims())
      dims.push_back(llvm::find(op.getPerm(), d) - op.getPerm().begin());
    if (!llvm::is_sorted(dims))
      return failure();
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), broadcast.getX(),
                                             dims);
    return success();
  }
};

/// Two transposes around an op of elements that nobody else reads cancel.
struct TransposeAround : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  static bool cancels(Value value, llvm::ArrayRef<int64_t> perm) {
    auto inner = value.getDefiningOp<TransposeOp>();
    if (!inner)
      return false;
    for (auto [to, from] : llvm::enumerate(perm))
      if (inner.getPerm()[from] != static_cast<int64_t>(to))
        return false;
    return true;
  }

  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    Operation *inner = op.getX().getDefiningOp();
    if (!inner || !inner->hasTrait<OpTrait::SameOperandsAndResultType>() ||
        isa<SoftmaxOp>(inner) || inner->getNumResults() != 1 ||
        !inner->hasOneUse() ||
        llvm::none_of(inner->getOperands(), [&](Value operand) {
          return cancels(operand, op.getPerm());
        }))
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    llvm::SmallVector<Value> operands;
    for (Value operand : inner->getOperands())
      operands.push_back(cancels(operand, op.getPerm())
                             ? operand.getDefiningOp<TransposeOp>().getX()
                             : p.transpose(operand, op.getPerm()));
    Operation *copy =
        rewriter.create(inner->getLoc(), inner->getName().getIdentifier(),
                        operands, op.getType(), inner->getAttrs());
    rewriter.replaceOp(op, copy->getResults());
    return success();
  }
};

/// An op of elements of transposes is the transpose of one of elements.
struct ElementsOfTransposes : RewritePattern {
  ElementsOfTransposes(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!op->hasTrait<OpTrait::SameOperandsAndResultType>() ||
        isa<SoftmaxOp>(op) || op->getNumResults() != 1)
      return failure();
    TransposeOp first;
    for (Value operand : op->getOperands()) {
      auto transpose = operand.getDefiningOp<TransposeOp>();
      if (!transpose && splatOf(operand))
        continue;
      if (!transpose || (first && first.getPerm() != transpose.getPerm()))
        return failure();
      first = transpose;
    }
    if (!first)
      return failure();
    rewrite(op, first, rewriter);
    return success();
  }

  static void rewrite(Operation *op, TransposeOp first,
                      PatternRewriter &rewriter) {
    Type type = first.getX().getType();
    PlainBuilder p{rewriter, op->getLoc()};
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto transpose = operand.getDefiningOp<TransposeOp>();
      operands.push_back(transpose ? transpose.getX()
                                   : p.constant(type, *splatOf(operand)));
    }
    Operation *copy =
        rewriter.create(op->getLoc(), op->getName().getIdentifier(), operands,
                        type, op->getAttrs());
    rewriter.replaceOpWithNewOp<TransposeOp>(op, copy->getResult(0),
                                             first.getPerm());
  }
};

/// A sum over dimensions of a transpose.
struct ReduceOfTranspose : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op.getX().getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    llvm::ArrayRef<int64_t> perm = transpose.getPerm();
    llvm::SmallVector<int64_t> dims, kept, order;
    for (int64_t d : op.getDims())
      dims.push_back(perm[d]);
    llvm::sort(dims);
    for (int64_t d : dimRange(0, perm.size()))
      if (!llvm::is_contained(dims, d))
        kept.push_back(d);
    for (auto [to, from] : llvm::enumerate(perm))
      if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(to)))
        order.push_back(llvm::find(kept, from) - kept.begin());
    PlainBuilder p{rewriter, op.getLoc()};
    Value sum = p.reduce(op.getKind(), transpose.getX(), dims);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, sum, order);
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

/// Whether positions and constants alone say what a value is.
static bool isPositional(Value value, int depth = 12) {
  Operation *op = value.getDefiningOp();
  if (auto iota = dyn_cast_or_null<IotaOp>(op))
    return !iota.getOffset() && !iota.getZigzag();
  bool isKnown = isa_and_nonnull<ConstantOp, BroadcastOp, ReshapeOp, SliceOp,
                                 ScalarOpInterface>(op);
  return isKnown && depth > 0 && llvm::all_of(op->getOperands(), [&](Value x) {
           return isPositional(x, depth - 1);
         });
}

/// A part of what positions alone say is that of fewer positions.
struct SliceOfPositions : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    if (!isPositional(op.getX()))
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    Value part = sliced(p, op.getX(), op.getOffsets(),
                        typeOf(op.getResult()).getShape());
    if (!part)
      return failure();
    rewriter.replaceOp(op, part);
    return success();
  }

  /// A slice, where it is not the whole.
  static Value partOf(PlainBuilder &p, Value x, llvm::ArrayRef<int64_t> offsets,
                      llvm::ArrayRef<int64_t> sizes) {
    return typeOf(x).getShape() == sizes ? x : p.slice(x, offsets, sizes);
  }

  /// That part of `x`; null where it stays a slice.
  static Value sliced(PlainBuilder &p, Value x, llvm::ArrayRef<int64_t> offsets,
                      llvm::ArrayRef<int64_t> sizes) {
    Operation *op = x.getDefiningOp();
    if (auto iota = dyn_cast<IotaOp>(op)) {
      Value y = p.iota(sizes, iota.getDim());
      double first = offsets[iota.getDim()];
      return first == 0 ? y : p.add(y, p.constant(y.getType(), first));
    }
    if (auto number = isa<ConstantOp>(op) ? splatOf(x) : std::nullopt)
      return p.constant(withShape(x.getType(), sizes), *number);
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      llvm::SmallVector<int64_t> from, count;
      for (int64_t d : broadcast.getDims()) {
        from.push_back(offsets[d]);
        count.push_back(sizes[d]);
      }
      return p.broadcast(partOf(p, broadcast.getX(), from, count),
                         broadcast.getDims(), sizes);
    }
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      return slicedReshape(p, reshape, offsets, sizes);
    if (!isa<ScalarOpInterface>(op))
      return {};
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(partOf(p, operand, offsets, sizes));
    Operation *copy = p.builder.create(
        p.loc, op->getName().getIdentifier(), operands,
        TypeRange(withShape(x.getType(), sizes)), op->getAttrs());
    return copy->getResult(0);
  }

  static Value slicedReshape(PlainBuilder &p, ReshapeOp reshape,
                             llvm::ArrayRef<int64_t> offsets,
                             llvm::ArrayRef<int64_t> sizes) {
    auto operandOf = dimsOfUnitReshape(reshape);
    if (!operandOf)
      return {};
    llvm::SmallVector<int64_t> from(typeOf(reshape.getX()).getRank(), 0),
        count(from.size(), 1);
    for (auto [to, dim] : llvm::enumerate(*operandOf))
      if (dim >= 0) {
        from[dim] = offsets[to];
        count[dim] = sizes[to];
      }
    return p.reshape(partOf(p, reshape.getX(), from, count), sizes);
  }
};

/// A slice of a transpose is the transpose of a slice.
struct SliceOfTranspose : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op.getX().getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    llvm::ArrayRef<int64_t> perm = transpose.getPerm();
    llvm::SmallVector<int64_t> offsets(perm.size()), sizes(perm.size());
    for (auto [to, from] : llvm::enumerate(perm)) {
      offsets[from] = op.getOffsets()[to];
      sizes[from] = op.getSizes()[to];
    }
    Value part = PlainBuilder{rewriter, op.getLoc()}.slice(transpose.getX(),
                                                           offsets, sizes);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, part, perm);
    return success();
  }
};

/// A concatenation of transposes is the transpose of one. What is repeated
/// along new dimensions is repeated along others then.
struct ConcatOfTransposes : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    llvm::ArrayRef<int64_t> perm;
    for (Value input : op.getInputs()) {
      auto transpose = input.getDefiningOp<TransposeOp>();
      if (transpose && !perm.empty() && transpose.getPerm() != perm)
        return failure();
      if (transpose)
        perm = transpose.getPerm();
    }
    if (perm.empty() || llvm::any_of(op.getInputs(), [&](Value input) {
          return !input.getDefiningOp<TransposeOp>() &&
                 broadcastDims(input, perm).empty();
        }))
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    llvm::SmallVector<Value> inputs;
    for (Value input : op.getInputs())
      inputs.push_back(beforePerm(p, input, perm));
    rewriter.replaceOpWithNewOp<TransposeOp>(
        op, p.concat(perm[op.getDim()], inputs), perm);
    return success();
  }

  /// The dimensions along which a broadcast is repeated before `perm`; empty
  /// for another op, and where they are in another order.
  static llvm::SmallVector<int64_t>
  broadcastDims(Value value, llvm::ArrayRef<int64_t> perm) {
    llvm::SmallVector<int64_t> dims;
    if (auto broadcast = value.getDefiningOp<BroadcastOp>())
      for (int64_t d : broadcast.getDims())
        dims.push_back(perm[d]);
    return llvm::is_sorted(dims) ? dims : llvm::SmallVector<int64_t>();
  }

  static Value beforePerm(PlainBuilder &p, Value value,
                          llvm::ArrayRef<int64_t> perm) {
    if (auto transpose = value.getDefiningOp<TransposeOp>())
      return transpose.getX();
    llvm::SmallVector<int64_t> shape(perm.size());
    for (auto [to, from] : llvm::enumerate(perm))
      shape[from] = typeOf(value).getDimSize(to);
    return p.broadcast(value.getDefiningOp<BroadcastOp>().getX(),
                       broadcastDims(value, perm), shape);
  }
};

/// A matmul with a matrix that was transposed is one with the matrix.
struct LinearOfTransposed : OpRewritePattern<LinearOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LinearOp op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op.getWeight().getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    rewriter.replaceOpWithNewOp<LinearOp>(op, op.getX(), transpose.getX(),
                                          op.getBias(), !op.getTransposed());
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
  patterns
      .add<MergeTransposes, TransposeOfUnits, TransposeOfReshape,
           TransposeOfBroadcast, TransposeAround, ElementsOfTransposes,
           ReduceOfTranspose, MergeReshapes, SliceOfConcat, SliceOfPositions,
           SliceOfTranspose, ConcatOfTransposes, LinearOfTransposed>(
          patterns.getContext());
  patterns.add<DropNeutral<MulOp>>(patterns.getContext(), 1.0);
  patterns.add<DropNeutral<AddOp>>(patterns.getContext(), 0.0);
}
