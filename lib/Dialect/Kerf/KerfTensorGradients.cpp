#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;

LogicalResult BroadcastOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  llvm::SmallVector<int64_t> dims;
  for (int64_t d = 0, rank = typeOf(getResult()).getRank(); d < rank; ++d)
    if (!llvm::is_contained(getDims(), d))
      dims.push_back(d);
  gradients.add(getX(), p.sum(gradients.of(getResult()), dims));
  return success();
}

LogicalResult ReshapeOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  gradients.add(
      getX(), p.reshape(gradients.of(getResult()), typeOf(getX()).getShape()));
  return success();
}

LogicalResult TransposeOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  llvm::SmallVector<int64_t> inverse(getPerm().size());
  for (auto [to, from] : llvm::enumerate(getPerm()))
    inverse[from] = to;
  gradients.add(getX(), p.transpose(gradients.of(getResult()), inverse));
  return success();
}

LogicalResult SliceOp::buildGradient(GradientBuilder &gradients) {
  llvm::SmallVector<int64_t> high;
  for (auto [size, offset, taken] :
       llvm::zip(typeOf(getX()).getShape(), getOffsets(), getSizes()))
    high.push_back(size - offset - taken);
  gradients.add(getX(),
                PadOp::create(gradients.builder(), getLoc(),
                              gradients.of(getResult()), getOffsets(), high));
  return success();
}

LogicalResult PadOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  gradients.add(getX(), p.slice(gradients.of(getResult()), getLow(),
                                typeOf(getX()).getShape()));
  return success();
}

LogicalResult ConcatOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  llvm::SmallVector<int64_t> offsets(typeOf(getResult()).getRank(), 0);
  for (Value input : getInputs()) {
    llvm::ArrayRef<int64_t> shape = typeOf(input).getShape();
    if (gradients.needs(input))
      gradients.add(input, p.slice(dy, offsets, shape));
    offsets[getDim()] += shape[getDim()];
  }
  return success();
}

LogicalResult ReduceOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  llvm::ArrayRef<int64_t> shape = typeOf(getX()).getShape();
  llvm::SmallVector<int64_t> kept;
  for (int64_t d = 0, rank = shape.size(); d < rank; ++d)
    if (!llvm::is_contained(getDims(), d))
      kept.push_back(d);
  Value dy = p.broadcast(gradients.of(getResult()), kept, shape);
  if (getKind() == ReduceKind::Max) {
    Value isMax = p.indicator(p.compare(CompareKind::EQ, getX(),
                                        p.broadcast(getResult(), kept, shape)),
                              typeOf(getX()).getElementType());
    Value count = p.broadcast(p.sum(isMax, getDims()), kept, shape);
    dy = p.div(p.mul(dy, isMax), count);
  }
  gradients.add(getX(), dy);
  return success();
}

LogicalResult CumsumOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  // dx[i] = sum of dy[j], j > i: all but those up to i.
  Value dy = gradients.of(getResult());
  llvm::ArrayRef<int64_t> shape = typeOf(dy).getShape();
  llvm::SmallVector<int64_t> kept;
  for (int64_t d = 0, rank = shape.size(); d < rank; ++d)
    if (d != getDim())
      kept.push_back(d);
  Value all = p.broadcast(p.sum(dy, {getDim()}), kept, shape);
  Value before = CumsumOp::create(p.builder, p.loc, dy, getDim());
  gradients.add(getX(), p.sub(p.sub(all, before), dy));
  return success();
}

LogicalResult TopKOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  // dx[..., e] = sum_k dvalues[..., k] [indices[..., k] = e]
  llvm::SmallVector<int64_t> shape(typeOf(getIndices()).getShape());
  shape.push_back(typeOf(getX()).getShape().back());
  Value dy = p.rows(gradients.of(getValues()), shape);
  int64_t last = shape.size() - 1;
  Value chosen = p.compare(CompareKind::EQ, p.rows(getIndices(), shape),
                           p.iota(shape, last));
  gradients.add(getX(), p.sum(p.select(chosen, dy, 0.0), {last - 1}));
  return success();
}

LogicalResult GatherOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  gradients.add(getTable(), p.scatterAdd(gradients.of(getResult()), getIndex(),
                                         typeOf(getTable()).getDimSize(0)));
  return success();
}

LogicalResult ScatterAddOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  gradients.add(getX(), p.gather(gradients.of(getResult()), getIndex()));
  return success();
}
