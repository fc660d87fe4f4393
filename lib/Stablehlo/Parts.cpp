#include "Parts.h"

#include "Attributes.h"

using namespace kerf;
using namespace mlir;

bool kerf::areDims(Value value, llvm::ArrayRef<int64_t> dims) {
  return llvm::all_of(dims, [&](int64_t dim) {
    return dim >= 0 && dim < typeOf(value).getRank();
  });
}

Value kerf::strided(FoldingBuilder &b, Value x, int64_t dim, int64_t stride) {
  if (stride == 1)
    return x;
  Sizes shape(shapeOf(x));
  int64_t count = (shape[dim] + stride - 1) / stride;
  Sizes low(shape.size(), 0), high(shape.size(), 0);
  high[dim] = count * stride - shape[dim];
  x = b.pad(x, low, high);
  Sizes split(shape);
  split[dim] = count;
  split.insert(split.begin() + dim + 1, stride);
  Value y = b.reshape(x, split);
  Sizes offsets(split.size(), 0), sizes(split);
  sizes[dim + 1] = 1;
  shape[dim] = count;
  return b.reshape(b.slice(y, offsets, sizes), shape);
}

std::vector<Sizes> kerf::placesOf(llvm::ArrayRef<int64_t> window) {
  std::vector<Sizes> places = {Sizes()};
  for (int64_t size : window) {
    std::vector<Sizes> longer;
    for (const Sizes &place : places)
      for (int64_t at = 0; at < size; ++at) {
        longer.push_back(place);
        longer.back().push_back(at);
      }
    places = std::move(longer);
  }
  return places;
}

Value kerf::readAt(FoldingBuilder &b, Value x, int64_t first,
                   llvm::ArrayRef<int64_t> place,
                   llvm::ArrayRef<int64_t> dilations,
                   llvm::ArrayRef<int64_t> strides,
                   llvm::ArrayRef<int64_t> counts) {
  Sizes offsets(shapeOf(x).size(), 0), sizes(shapeOf(x));
  for (auto [d, at] : llvm::enumerate(place)) {
    offsets[first + d] = at * dilations[d];
    sizes[first + d] = (counts[d] - 1) * strides[d] + 1;
  }
  Value part = b.slice(x, offsets, sizes);
  for (auto [d, stride] : llvm::enumerate(strides))
    part = strided(b, part, first + d, stride);
  return part;
}

/// Zeros between neighbors along a dimension.
static Value spread(FoldingBuilder &b, Value x, int64_t dim, int64_t between) {
  if (between == 0)
    return x;
  Sizes shape(shapeOf(x)), split(shape);
  split.insert(split.begin() + dim + 1, 1);
  Sizes low(split.size(), 0), high(split.size(), 0);
  high[dim + 1] = between;
  Value wide = b.pad(b.reshape(x, split), low, high);
  shape[dim] *= between + 1;
  Value flat = b.reshape(wide, shape);
  shape[dim] -= between; // behind the last
  return b.slice(flat, Sizes(shape.size(), 0), shape);
}

Value kerf::padded(FoldingBuilder &b, Value x, llvm::ArrayRef<int64_t> low,
                   llvm::ArrayRef<int64_t> high,
                   llvm::ArrayRef<int64_t> between, double value) {
  auto zeros = [&](Value part) {
    for (auto [dim, count] : llvm::enumerate(between))
      part = spread(b, part, dim, count);
    return b.pad(part, low, high);
  };
  if (value == 0)
    return zeros(x);
  Type element = typeOf(x).getElementType();
  Value ones = zeros(b.plain.constant(b.type(shapeOf(x), b.f32()), 1));
  if (shapeOf(ones) == shapeOf(x))
    return x;
  Value zero = b.splat(shapeOf(ones), b.f32(), 0);
  Value isInside = b.compare(CompareKind::NE, ones, zero);
  Value around = zeros(x);
  return b.select(isInside, around, b.splat(shapeOf(ones), element, value));
}

/// What is before the part, the part, what is behind it: along the first
/// dimension in which it is smaller, and inside of that along the next.
Value kerf::replacePart(FoldingBuilder &b, Value whole, Value part,
                        llvm::ArrayRef<int64_t> starts) {
  Sizes shape(shapeOf(whole)), sizes(shapeOf(part));
  size_t dim = 0;
  while (dim < shape.size() && sizes[dim] == shape[dim])
    ++dim;
  if (dim == shape.size())
    return part;
  int64_t start = starts[dim], end = start + sizes[dim];
  auto along = [&](int64_t from, int64_t to) {
    Sizes offsets(shape.size(), 0), narrow(shape);
    offsets[dim] = from;
    narrow[dim] = to - from;
    return b.slice(whole, offsets, narrow);
  };
  std::vector<Value> parts;
  if (start > 0)
    parts.push_back(along(0, start));
  parts.push_back(replacePart(b, along(start, end), part, starts));
  if (end < shape[dim])
    parts.push_back(along(end, shape[dim]));
  return b.concat(dim, parts);
}

Value kerf::componentOf(FoldingBuilder &b, Value indices, int64_t vectorDim,
                        int64_t n, int64_t count) {
  Sizes shape(shapeOf(indices));
  if (vectorDim == static_cast<int64_t>(shape.size()))
    return indices;
  Sizes offsets(shape.size(), 0), sizes(shape);
  offsets[vectorDim] = n;
  sizes[vectorDim] = 1;
  shape.erase(shape.begin() + vectorDim);
  // A concatenation of components is not sliced: its part is taken.
  auto concat = indices.getDefiningOp<ConcatOp>();
  if (concat && concat.getDim() == vectorDim &&
      static_cast<int64_t>(concat.getInputs().size()) == count)
    return b.reshape(concat.getInputs()[n], shape);
  return b.reshape(b.slice(indices, offsets, sizes), shape);
}

bool kerf::countsAlong(Value index, int64_t dim) {
  Operation *op = index.getDefiningOp();
  if (auto reshape = dyn_cast_or_null<ReshapeOp>(op)) {
    // Dimensions of size 1 alone come and go.
    Sizes from, to;
    for (int64_t size : shapeOf(reshape.getX()))
      if (size != 1)
        from.push_back(size);
    int64_t place = 0, at = -1;
    for (auto [d, size] : llvm::enumerate(shapeOf(index))) {
      if (static_cast<int64_t>(d) == dim)
        at = place;
      place += size != 1;
      if (size != 1)
        to.push_back(size);
    }
    if (from != to || shapeOf(index)[dim] == 1)
      return false;
    int64_t seen = 0;
    for (auto [d, size] : llvm::enumerate(shapeOf(reshape.getX())))
      if (size != 1 && seen++ == at)
        return countsAlong(reshape.getX(), d);
    return false;
  }
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
    for (auto [d, to] : llvm::enumerate(broadcast.getDims()))
      if (to == dim)
        return countsAlong(broadcast.getX(), d);
    return false;
  }
  auto iota = dyn_cast_or_null<IotaOp>(op);
  return iota && static_cast<int64_t>(iota.getDim()) == dim;
}
