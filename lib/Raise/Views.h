//===- Views.h - what values look like through broadcasts and views -------===//
//
// Graphs that come from elsewhere are full of dimensions of size 1, transposes
// and broadcasts. Patterns ask here what is behind them.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_RAISE_VIEWS_H
#define KERF_LIB_RAISE_VIEWS_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "mlir/IR/PatternMatch.h"

#include <optional>

namespace kerf {

/// A value as seen from the dimensions of another: `dims[i]` is the dimension
/// of the viewer that dimension i of `value` follows, -1 where the value has
/// size 1 and the viewer none.
struct Seen {
  mlir::Value value;
  llvm::SmallVector<int64_t> dims;

  /// An operand of the op that makes the value, which is pointwise.
  Seen operand(unsigned index) const;
  /// The op that makes the value, if it is an `Op`.
  template <typename Op> Op op() const { return value.getDefiningOp<Op>(); }
};

/// What is behind broadcasts, transposes, and reshapes that add or remove
/// dimensions of size 1.
Seen lookThrough(mlir::Value value);
Seen lookThrough(Seen seen);

/// For each dimension of a reshape that adds and removes dimensions of size 1
/// alone, the one of its operand, -1 for one that was added. None for others.
std::optional<llvm::SmallVector<int64_t>> dimsOfUnitReshape(ReshapeOp op);

/// The number that all elements are, where the text says so.
std::optional<double> splatOf(mlir::Value value);

/// x and factor of `x factor`, or of `x / (1 / factor)`, with a number.
struct Scaled {
  mlir::Value x;
  double factor = 1;
};
std::optional<Scaled> scaledOf(mlir::Value value);

/// x where `value`, of the shape of x or without its last dimension, has for
/// each row the sum of x's row; null else.
mlir::Value rowSumOf(mlir::Value value);
mlir::Value rowSumOf(Seen seen);

/// True where `value`, [..., N], is the same for all elements of a row.
bool isRowValue(mlir::Value value);
/// x of `x - m` with m of a row; else `value`.
mlir::Value withoutRowValue(mlir::Value value);

/// `value` as a vector along dimension `dim` of the viewer, [size]; null where
/// it varies along others, too. May make a reshape.
mlir::Value vectorAlong(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value value, int64_t dim);

/// An element of a value.
struct Element {
  mlir::Value value;
  llvm::SmallVector<int64_t> index;
};

/// The number of an element in a tensor of this shape, rows after each other,
/// and back.
int64_t linearOf(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> shape);
llvm::SmallVector<int64_t> indexOf(int64_t linear,
                                   llvm::ArrayRef<int64_t> shape);

/// The element that `element` is a view of: behind broadcasts, reshapes,
/// transposes, slices and concatenations.
Element sourceOf(Element element);

/// What the element is, if constants and iotas alone say it.
std::optional<double> numberAt(Element element);

/// The two operands of a pointwise op of two operands, in both orders.
template <typename Op>
llvm::SmallVector<std::pair<mlir::Value, mlir::Value>, 2> bothOrders(Op op) {
  return {{op.getLhs(), op.getRhs()}, {op.getRhs(), op.getLhs()}};
}

/// Replaces an op by the same op on `operands` of another shape, whose result
/// is brought into the shape of the op's by a reshape.
void replaceReshaped(mlir::PatternRewriter &rewriter, mlir::Operation *op,
                     llvm::ArrayRef<mlir::Value> operands);

// Patterns, a file each.
void addViewPatterns(mlir::RewritePatternSet &patterns);
void addChannelPatterns(mlir::RewritePatternSet &patterns);
void addRowPatterns(mlir::RewritePatternSet &patterns);
void addBatchPatterns(mlir::RewritePatternSet &patterns);
void addNormPatterns(mlir::RewritePatternSet &patterns);
void addActivationPatterns(mlir::RewritePatternSet &patterns);
void addRopePatterns(mlir::RewritePatternSet &patterns);
/// Removes what patterns of rotary embeddings noted at tables.
void eraseRopeNotes(mlir::Operation *root);
void addAttentionPatterns(mlir::RewritePatternSet &patterns);
/// Tells by remarks which matmuls with a softmax are no attention, and why.
void explainAttention(mlir::Operation *root);
void addRoutePatterns(mlir::RewritePatternSet &patterns);
void addLossPatterns(mlir::RewritePatternSet &patterns);

} // namespace kerf

#endif // KERF_LIB_RAISE_VIEWS_H
