#include "GroupBuilder.h"

using namespace mlir;
using namespace kerf;

AxisList GroupBuilder::axesOf(unsigned factor) const {
  AxisList list;
  for (unsigned axis : assignment.factors[factor])
    if (axis != axes.micro() && axes.sizeOf(axis) > 1)
      list.push_back(axis);
  return list;
}

Value GroupBuilder::step(Value x, ConversionStep::Kind kind, AxisList list,
                         int64_t dim, int64_t concat, ReduceKind reduce) {
  if (list.empty())
    return x;
  return function.buildStep(ops, loc, x, {kind, list, dim, concat, reduce});
}

int64_t GroupBuilder::ranksOf(unsigned factor) {
  return axes.sizeOf(axesOf(factor));
}

Value GroupBuilder::placeOf(unsigned factor) {
  return function.offset(axesOf(factor), 1);
}

Value GroupBuilder::reduce(Value x, unsigned factor, ReduceKind kind) {
  AxisList list = axesOf(factor);
  llvm::sort(list); // Any order gives the same, and groups want the mesh's.
  return step(x, ConversionStep::AllReduce, list, 0, 0, kind);
}

Value GroupBuilder::sum(Value x, unsigned factor) {
  return reduce(x, factor, ReduceKind::Sum);
}

Value GroupBuilder::max(Value x, unsigned factor) {
  return reduce(x, factor, ReduceKind::Max);
}

// Groups count their ranks in the order of the mesh. Parts in another order go
// axis by axis: the fastest is gathered first, and sliced last.

Value GroupBuilder::gather(Value x, int64_t dim, unsigned factor) {
  AxisList list = axesOf(factor);
  if (llvm::is_sorted(list))
    return step(x, ConversionStep::AllGather, list, dim);
  for (unsigned axis : llvm::reverse(list))
    x = step(x, ConversionStep::AllGather, {axis}, dim);
  return x;
}

Value GroupBuilder::scatterSum(Value x, int64_t dim, unsigned factor) {
  AxisList list = axesOf(factor);
  if (llvm::is_sorted(list))
    return step(x, ConversionStep::ReduceScatter, list, dim);
  for (unsigned axis : list)
    x = step(x, ConversionStep::ReduceScatter, {axis}, dim);
  return x;
}

Value GroupBuilder::take(Value x, int64_t dim, unsigned factor) {
  return step(x, ConversionStep::SliceOwn, axesOf(factor), dim);
}

Value GroupBuilder::exchange(Value x, int64_t split, int64_t concat,
                             unsigned factor) {
  AxisList list = axesOf(factor);
  assert(llvm::is_sorted(list) && "exchanges go in the order of the mesh");
  return step(x, ConversionStep::AllToAll, list, split, concat);
}

/// The most of the step so far.
void GroupBuilder::needMoeBuffer(Value x) {
  auto type = typeOf(x);
  Value known = spmd::ReadOp::create(ops, loc, type, kMoeNeed);
  Value most = MaxOp::create(ops, loc, known, x);
  spmd::WriteOp::create(ops, loc, most, kMoeNeed);
}

Value GroupBuilder::rotate(Value x, unsigned factor) {
  AxisList list = axesOf(factor);
  assert(llvm::is_sorted(list) && "rings go in the order of the mesh");
  if (list.empty())
    return x;
  return spmd::RotateOp::create(ops, loc, x.getType(), x,
                                axesAttr(ops.getContext(), axes, list));
}
