//===- Channels.cpp - channels of queries and keys in another order -------===//
//
// A matmul of queries and keys does not see an order of channels that both
// have. DeepSeek turns pairs of neighbours and hands on halves: both lie in the
// order of the other, and need not.
//
//===----------------------------------------------------------------------===//

#include "Views.h"

using namespace kerf;
using namespace mlir;

namespace {
/// Channels from `first` on that lie as columns of a matrix of rows, not as its
/// rows.
struct Turned {
  int64_t first = 0, rows = 0, columns = 0;
  bool operator==(const Turned &other) const = default;
};
using Order = llvm::SmallVector<Turned>;
} // namespace

/// The transpose of two dimensions that `value` has as one, its last; null
/// else.
static TransposeOp turningOf(Value value) {
  auto flat = value.getDefiningOp<ReshapeOp>();
  auto transpose = flat ? flat.getX().getDefiningOp<TransposeOp>() : nullptr;
  if (!transpose || transpose.getPerm().size() < 2)
    return {};
  llvm::ArrayRef<int64_t> perm = transpose.getPerm();
  int64_t rank = perm.size();
  llvm::ArrayRef<int64_t> shape = typeOf(transpose.getResult()).getShape();
  bool isSwap =
      llvm::equal(perm.drop_back(2), dimRange(0, rank - 2)) &&
      perm[rank - 1] == rank - 2 &&
      typeOf(value).getShape().back() == shape[rank - 1] * shape[rank - 2];
  return isSwap ? transpose : TransposeOp();
}

/// The operand of a view that leaves channels last as they are; null else.
static Value behindView(Value value) {
  int64_t last = typeOf(value).getRank() - 1;
  if (auto op = value.getDefiningOp<TransposeOp>())
    return op.getPerm().back() == last ? op.getX() : Value();
  if (auto op = value.getDefiningOp<BroadcastOp>())
    return !op.getDims().empty() && op.getDims().back() == last ? op.getX()
                                                                : Value();
  auto op = value.getDefiningOp<ReshapeOp>();
  return op && typeOf(op.getX()).getRank() > 0 &&
                 typeOf(op.getX()).getShape().back() ==
                     typeOf(value).getShape().back()
             ? op.getX()
             : Value();
}

static ConcatOp joinOf(Value value) {
  auto concat = value.getDefiningOp<ConcatOp>();
  return concat && concat.getDim() == typeOf(value).getRank() - 1 ? concat
                                                                  : ConcatOp();
}

/// In which order channels of `value` are, whose first has number `first`.
static void addOrder(Value value, int64_t first, Order &order) {
  if (auto transpose = turningOf(value)) {
    llvm::ArrayRef<int64_t> shape =
        typeOf(transpose.getX()).getShape().take_back(2);
    order.push_back({first, shape[0], shape[1]});
  } else if (Value inner = behindView(value)) {
    addOrder(inner, first, order);
  } else if (auto concat = joinOf(value)) {
    for (Value input : concat.getInputs()) {
      addOrder(input, first, order);
      first += typeOf(input).getShape().back();
    }
  }
}

static Order orderOf(Value value) {
  Order order;
  addOrder(value, 0, order);
  return order;
}

/// `value` with channels as they were made.
static Value unturned(PlainBuilder &p, Value value) {
  if (orderOf(value).empty())
    return value;
  llvm::ArrayRef<int64_t> shape = typeOf(value).getShape();
  if (auto transpose = turningOf(value))
    return p.reshape(transpose.getX(), shape);
  if (auto concat = joinOf(value)) {
    llvm::SmallVector<Value> inputs;
    for (Value input : concat.getInputs())
      inputs.push_back(unturned(p, input));
    return p.concat(concat.getDim(), inputs);
  }
  Value inner = unturned(p, behindView(value));
  if (auto transpose = value.getDefiningOp<TransposeOp>())
    return p.transpose(inner, transpose.getPerm());
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    return p.broadcast(inner, broadcast.getDims(), shape);
  return p.reshape(inner, shape);
}

namespace {
struct UnturnChannels : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Order order = orderOf(op.getQ());
    if (order.empty() || order != orderOf(op.getK()))
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    Value q = unturned(p, op.getQ()), k = unturned(p, op.getK());
    rewriter.modifyOpInPlace(op, [&] {
      op.getQMutable().assign(q);
      op.getKMutable().assign(k);
    });
    return success();
  }
};
} // namespace

void kerf::addChannelPatterns(RewritePatternSet &patterns) {
  patterns.add<UnturnChannels>(patterns.getContext());
}
