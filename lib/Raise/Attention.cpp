//===- Attention.cpp - softmax attention ----------------------------------===//
//
// A product of the softmax of scores with values, the scores a product of
// queries and keys with a factor and a mask of positions.
//
//===----------------------------------------------------------------------===//

#include "Masks.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

namespace {

/// A product with a letter per dimension.
struct Product {
  Value lhs, rhs;
  std::string left, right, out;
};

/// Queries, keys and values of the op, and what else it needs.
struct Parts {
  Value q, k, v; ///< [B,S,H,D]
  double scale = 1;
  MaskForm mask;
  DropoutOp dropout;
};

} // namespace

static std::optional<Product> productOf(Value value) {
  if (auto einsum = value.getDefiningOp<EinsumOp>()) {
    auto [terms, out] = einsum.getEquation().split("->");
    auto [left, right] = terms.split(',');
    return Product{einsum.getLhs(), einsum.getRhs(), left.str(), right.str(),
                   out.str()};
  }
  auto matmul = value.getDefiningOp<MatmulOp>();
  if (!matmul || matmul.getBias())
    return std::nullopt;
  std::string batch =
      std::string("abcdef").substr(0, typeOf(value).getRank() - 2);
  return Product{matmul.getLhs(), matmul.getRhs(), batch + "mk", batch + "kn",
                 batch + "mn"};
}

/// Takes factors off `value`, into `scale`.
static Value withoutScale(Value value, double &scale) {
  while (auto scaled = scaledOf(value)) {
    scale *= scaled->factor;
    value = scaled->x;
  }
  return value;
}

/// Takes factors off that stand before transposes, too.
static Value withoutInnerScale(OpBuilder &builder, Location loc, Value value,
                               double &scale) {
  value = withoutScale(value, scale);
  auto transpose = value.getDefiningOp<TransposeOp>();
  if (!transpose)
    return value;
  Value inner = withoutScale(transpose.getX(), scale);
  if (inner == transpose.getX())
    return value;
  return PlainBuilder{builder, loc}.transpose(inner, transpose.getPerm());
}

/// Numbers that a softmax of `scale` times the scores makes 0.
static bool hides(std::optional<double> number, double scale) {
  return number && *number * scale <= -1e4;
}

/// Joins the mask of `c ? x : -inf` or `c ? -inf : x` to `form` and gives x;
/// null where `select` is no such.
static Value shownBy(SelectOp select, double scale, MaskForm &form) {
  bool isHidden = hides(splatOf(select.getOnTrue()), scale);
  if (!isHidden && !hides(splatOf(select.getOnFalse()), scale))
    return {};
  auto mask = maskOf(select.getCondition(), isHidden);
  if (!mask || !join(form, *mask))
    return {};
  return isHidden ? select.getOnFalse() : select.getOnTrue();
}

/// Takes a mask off the scores: `c ? x : -inf`, or `x + (c ? 0 : -inf)`.
static std::optional<Value> withoutMask(Value scores, double scale,
                                        MaskForm &form) {
  if (auto select = scores.getDefiningOp<SelectOp>()) {
    Value shown = shownBy(select, scale, form);
    return shown ? std::optional(shown) : std::nullopt;
  }
  auto add = scores.getDefiningOp<AddOp>();
  if (!add)
    return std::nullopt;
  int64_t rank = typeOf(scores).getRank();
  for (auto [x, summand] : bothOrders(add)) {
    Seen seen = lookThrough(summand);
    auto select = seen.op<SelectOp>();
    if (!select || typeOf(seen.value).getRank() < 2)
      continue;
    // Rows and columns must be those of the scores.
    llvm::ArrayRef<int64_t> dims = seen.dims;
    bool isPlane = dims.back() == rank - 1 && dims[dims.size() - 2] == rank - 2;
    MaskForm more = form;
    Value shown = isPlane ? shownBy(select, scale, more) : Value();
    if (shown && splatOf(shown) == 0.0) {
      form = more;
      return x;
    }
  }
  return std::nullopt;
}

/// `value` with dimensions in the order of `to`; its own have the letters
/// `from`.
static Value ordered(PlainBuilder &p, Value value, llvm::StringRef from,
                     llvm::StringRef to) {
  llvm::SmallVector<int64_t> perm;
  for (char letter : to)
    perm.push_back(from.find(letter));
  return llvm::equal(perm, dimRange(0, perm.size())) ? value
                                                     : p.transpose(value, perm);
}

static bool has(llvm::StringRef letters, char letter) {
  return letters.contains(letter);
}

namespace {

struct RaiseAttention : RewritePattern {
  RaiseAttention(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<EinsumOp, MatmulOp>(op))
      return failure();
    auto outer = productOf(op->getResult(0));
    for (bool isSwapped : {false, true}) {
      if (!outer)
        return failure();
      if (isSwapped) {
        std::swap(outer->lhs, outer->rhs);
        std::swap(outer->left, outer->right);
      }
      if (succeeded(raise(op, *outer, rewriter)))
        return success();
    }
    return failure();
  }

  /// `outer` has weights on its left and values on its right.
  static LogicalResult raise(Operation *op, const Product &outer,
                             PatternRewriter &rewriter) {
    Parts parts;
    Value weights = outer.lhs;
    if (auto dropout = weights.getDefiningOp<DropoutOp>()) {
      parts.dropout = dropout;
      weights = dropout.getX();
    }
    auto softmax = weights.getDefiningOp<SoftmaxOp>();
    if (!softmax || typeOf(weights).getRank() != 4)
      return failure();
    // Letters: batch b and head h, query q, key k.
    std::string letters = outer.left;
    char key = letters.back(), query = letters[2];
    if (has(outer.out, key) || !has(outer.right, key) ||
        has(outer.right, query) || !has(outer.out, query) ||
        outer.out.size() != 4)
      return failure();
    std::string batch = letters.substr(0, 2);
    for (char letter : batch)
      if (!has(outer.right, letter) || !has(outer.out, letter))
        return failure();
    Value scores = softmax->getOperand(0);
    while (auto inner = withoutMask(scores, parts.scale, parts.mask))
      scores = withoutScale(*inner, parts.scale);
    scores = withoutScale(scores, parts.scale);
    auto inner = productOf(scores);
    if (!inner)
      return failure();
    return build(op, outer, *inner, batch, query, key, parts, rewriter);
  }

  static LogicalResult build(Operation *op, const Product &outer, Product inner,
                             std::string batch, char query, char key,
                             Parts &parts, PatternRewriter &rewriter) {
    // The inner product's letters of [b, h, q, k], by place.
    if (inner.out.size() != 4)
      return failure();
    std::string lead = inner.out.substr(0, 2);
    char innerQuery = inner.out[2], innerKey = inner.out[3];
    if (has(inner.right, innerQuery)) {
      std::swap(inner.lhs, inner.rhs);
      std::swap(inner.left, inner.right);
    }
    auto isOperand = [&](llvm::StringRef term, char own, char other) {
      return term.size() == 4 && has(term, own) && !has(term, other) &&
             has(term, lead[0]) && has(term, lead[1]);
    };
    if (!isOperand(inner.left, innerQuery, innerKey) ||
        !isOperand(inner.right, innerKey, innerQuery) ||
        outer.right.size() != 4)
      return failure();
    auto own = [](llvm::StringRef term, std::string known) {
      for (char letter : term)
        if (known.find(letter) == std::string::npos)
          return letter;
      return '\0';
    };
    char channel = own(inner.left, lead + innerQuery);
    char width = own(outer.right, batch + key);
    if (!channel || !width || !has(inner.right, channel) ||
        !has(outer.out, width))
      return failure();
    // A window without a causal mask is another op.
    if (parts.mask.window && !parts.mask.isCausal)
      return failure();
    Location loc = op->getLoc();
    PlainBuilder p{rewriter, loc};
    auto order = [](llvm::StringRef batch, char position, char channel) {
      return std::string{batch[0], position, batch[1], channel};
    };
    Value q = withoutInnerScale(rewriter, loc, inner.lhs, parts.scale);
    Value k = withoutInnerScale(rewriter, loc, inner.rhs, parts.scale);
    parts.q = ordered(p, q, inner.left, order(lead, innerQuery, channel));
    parts.k = ordered(p, k, inner.right, order(lead, innerKey, channel));
    parts.v = ordered(p, outer.rhs, outer.right, order(batch, key, width));
    Value y = attend(rewriter, loc, parts);
    rewriter.replaceOp(op,
                       ordered(p, y, order(batch, query, width), outer.out));
    return success();
  }

  static Value attend(PatternRewriter &rewriter, Location loc,
                      const Parts &parts) {
    DropoutOp drop = parts.dropout;
    llvm::SmallVector<Value> segments;
    if (parts.mask.segments)
      segments.assign(2, parts.mask.segments);
    IntegerAttr window;
    if (parts.mask.window)
      window = rewriter.getI64IntegerAttr(*parts.mask.window);
    return AttentionOp::create(
               rewriter, loc, parts.q, parts.k, parts.v, segments,
               /*offsets=*/ValueRange(), drop ? drop.getSeed() : Value(),
               drop ? drop.getStep() : Value(),
               drop ? drop.getLayer() : Value(),
               parts.mask.isCausal ? rewriter.getUnitAttr() : UnitAttr(),
               window, rewriter.getF64FloatAttr(parts.scale),
               drop ? drop.getRateAttr() : FloatAttr(),
               drop ? drop.getNameAttr() : StringAttr(),
               /*global=*/DenseI64ArrayAttr(), /*lse=*/UnitAttr(),
               /*zigzag=*/ZigzagAttr())
        .getResult();
  }
};

/// What repeats heads of keys or values.
struct Repeated {
  Value x; ///< [B,S,G,D], or [B,G,S,D] where `isTurned`
  bool isTurned = false;
  int64_t heads() const { return typeOf(x).getDimSize(isTurned ? 1 : 2); }
};

/// Of keys or values [B,S,H,D] whose heads repeat others, each H/G times in a
/// row; none else.
static std::optional<Repeated> repeatedOf(Value value) {
  auto transpose = value.getDefiningOp<TransposeOp>();
  bool isTurned =
      transpose && transpose.getPerm() == llvm::ArrayRef<int64_t>{0, 2, 1, 3};
  if (transpose && !isTurned)
    return std::nullopt;
  Value wide = isTurned ? transpose.getX() : value;
  auto merge = wide.getDefiningOp<ReshapeOp>();
  auto broadcast = merge ? merge.getX().getDefiningOp<BroadcastOp>() : nullptr;
  if (!broadcast)
    return std::nullopt;
  llvm::ArrayRef<int64_t> from = typeOf(broadcast.getX()).getShape();
  llvm::ArrayRef<int64_t> to = typeOf(broadcast.getResult()).getShape();
  int64_t heads = isTurned ? 1 : 2;
  llvm::SmallVector<int64_t> dims, merged(from);
  for (int64_t d = 0; d < 5; ++d)
    if (d != heads + 1)
      dims.push_back(d);
  if (to.size() != 5 || from.size() != 4 ||
      broadcast.getDims() != llvm::ArrayRef(dims))
    return std::nullopt;
  merged[heads] *= to[heads + 1];
  if (typeOf(wide).getShape() != llvm::ArrayRef(merged))
    return std::nullopt;
  return Repeated{broadcast.getX(), isTurned};
}

/// Repeated heads of keys and values are what groups of queries read.
struct GroupHeads : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    auto k = repeatedOf(op.getK()), v = repeatedOf(op.getV());
    if (!k || !v || k->heads() != v->heads())
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    auto built = [&](const Repeated &of) {
      return of.isTurned ? p.transpose(of.x, {0, 2, 1, 3}) : of.x;
    };
    Value keys = built(*k), values = built(*v);
    rewriter.modifyOpInPlace(op, [&] {
      op.getKMutable().assign(keys);
      op.getVMutable().assign(values);
    });
    return success();
  }
};

} // namespace

void kerf::addAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseAttention, GroupHeads>(patterns.getContext());
}
