//===- Shapes.cpp - other shapes of the same elements, and parts of them --===//

#include "Converter.h"
#include "Parts.h"

using namespace kerf;
using namespace mlir;

static bool isDim(Value value, int64_t dim) {
  return dim >= 0 && dim < typeOf(value).getRank();
}

/// True where an attribute has a number for each dimension of a value.
static bool isFull(const Source &s, llvm::StringRef name, Value value) {
  return static_cast<int64_t>(sizesOf(s.op, name).size()) ==
         typeOf(value).getRank();
}

static Converted broadcast(const Source &s) {
  if (!isFull(s, "broadcast_dimensions", s.operand(0)))
    return s.refuse("a broadcast without its dimensions");
  return one(s.b.broadcast(s.operand(0), sizesOf(s.op, "broadcast_dimensions"),
                           s.shape()));
}

static Converted reshape(const Source &s) {
  return one(s.b.reshape(s.operand(0), s.shape()));
}

static Converted transpose(const Source &s) {
  if (!isFull(s, "permutation", s.operand(0)))
    return s.refuse("a transpose without its permutation");
  return one(s.b.transpose(s.operand(0), sizesOf(s.op, "permutation")));
}

static Converted slice(const Source &s) {
  for (const char *name : {"start_indices", "limit_indices", "strides"})
    if (!isFull(s, name, s.operand(0)))
      return s.refuse("a slice without its bounds");
  Sizes starts = sizesOf(s.op, "start_indices");
  Sizes limits = sizesOf(s.op, "limit_indices");
  Sizes strides = sizesOf(s.op, "strides"), sizes;
  for (auto [start, limit] : llvm::zip_equal(starts, limits))
    sizes.push_back(limit - start);
  Value y = s.b.slice(s.operand(0), starts, sizes);
  for (auto [dim, stride] : llvm::enumerate(strides))
    y = strided(s.b, y, dim, stride);
  return one(y);
}

static Converted concatenate(const Source &s) {
  auto dim = integerOf(s.op, "dimension");
  if (!dim || s.operands.empty() || !isDim(s.operand(0), *dim))
    return s.refuse("a concatenation without a dimension");
  return one(s.b.concat(*dim, s.operands));
}

static Converted pad(const Source &s) {
  for (const char *name : {"edge_padding_low", "edge_padding_high"})
    if (!isFull(s, name, s.operand(0)))
      return s.refuse("padding without its sizes");
  Sizes low = sizesOf(s.op, "edge_padding_low");
  Sizes high = sizesOf(s.op, "edge_padding_high");
  Sizes between = sizesOf(s.op, "interior_padding");
  auto value = FoldingBuilder::splatOf(s.operand(1));
  if (!value)
    return s.refuse("padding with what is no known number");
  Sizes none(low.size(), 0), less(low), more(high);
  for (size_t d = 0; d < low.size(); ++d) {
    less[d] = std::max<int64_t>(0, -low[d]);
    more[d] = std::max<int64_t>(0, -high[d]);
    low[d] = std::max<int64_t>(0, low[d]);
    high[d] = std::max<int64_t>(0, high[d]);
  }
  if (between.empty())
    between = none;
  if (between.size() != low.size() ||
      llvm::any_of(between, [](int64_t n) { return n < 0; }))
    return s.refuse("padding without its sizes");
  // What a negative padding takes away.
  Value x = padded(s.b, s.operand(0), none, none, between, *value);
  Sizes sizes(shapeOf(x));
  for (size_t d = 0; d < sizes.size(); ++d)
    sizes[d] -= less[d] + more[d];
  if (llvm::any_of(sizes, [](int64_t n) { return n < 1; }))
    return s.refuse("padding that leaves nothing");
  return one(padded(s.b, s.b.slice(x, less, sizes), low, high, none, *value));
}

static Converted reverse(const Source &s) {
  Value x = s.operand(0);
  for (int64_t dim : sizesOf(s.op, "dimensions")) {
    if (!isDim(x, dim))
      return s.refuse("a dimension that is none");
    int64_t size = shapeOf(x)[dim];
    if (size > 64)
      return s.refuse("reversing more than 64 elements");
    std::vector<Value> parts;
    for (int64_t i = size; i-- > 0;) {
      Sizes offsets(shapeOf(x).size(), 0), sizes(shapeOf(x));
      offsets[dim] = i;
      sizes[dim] = 1;
      parts.push_back(s.b.slice(x, offsets, sizes));
    }
    x = s.b.concat(dim, parts);
  }
  return one(x);
}

namespace {
/// Where a slice begins along a dimension: a known number, or else a value.
struct Start {
  int64_t known = 0;
  Value value;
};
} // namespace

/// The starts of a dynamic slice of `sizes` elements, operands from `first`
/// on, brought inside as StableHLO does.
static std::vector<Start> startsOf(const Source &s, size_t first,
                                   llvm::ArrayRef<int64_t> sizes) {
  std::vector<Start> starts;
  llvm::ArrayRef<int64_t> shape = shapeOf(s.operand(0));
  for (auto [dim, size] : llvm::enumerate(sizes)) {
    int64_t most = shape[dim] - size;
    Value given = s.operand(first + dim);
    auto number = FoldingBuilder::splatOf(given);
    auto known = static_cast<int64_t>(number.value_or(0));
    if (number || most == 0) {
      starts.push_back({std::clamp<int64_t>(known, 0, most), {}});
      continue;
    }
    Value low = s.b.max(given, s.b.splat({}, s.b.i32(), 0));
    starts.push_back({0, s.b.min(low, s.b.splat({}, s.b.i32(), most))});
  }
  return starts;
}

/// `x` with the elements of `dim` that `index` [n] names.
static Value taken(FoldingBuilder &b, Value x, int64_t dim, Value index) {
  Sizes perm = dimRange(0, shapeOf(x).size());
  std::rotate(perm.begin(), perm.begin() + dim, perm.begin() + dim + 1);
  Value rows = b.plain.gather(b.transpose(x, perm), index);
  Sizes back = dimRange(0, perm.size());
  std::rotate(back.begin(), back.begin() + 1, back.begin() + dim + 1);
  return b.transpose(rows, back);
}

static Converted dynamicSlice(const Source &s) {
  FoldingBuilder &b = s.b;
  Value x = s.operand(0);
  Sizes sizes = sizesOf(s.op, "slice_sizes");
  if (!isFull(s, "slice_sizes", x) || s.operands.size() != sizes.size() + 1)
    return s.refuse("a slice without its sizes");
  std::vector<Start> starts = startsOf(s, 1, sizes);
  Sizes offsets, kept(shapeOf(x));
  for (auto [dim, start] : llvm::enumerate(starts)) {
    offsets.push_back(start.known);
    kept[dim] = start.value ? kept[dim] : sizes[dim];
  }
  x = b.slice(x, offsets, kept);
  for (auto [dim, start] : llvm::enumerate(starts))
    if (start.value)
      x = taken(b, x, dim,
                b.add(b.broadcast(start.value, {}, {sizes[dim]}),
                      b.iota({sizes[dim]}, 0)));
  return one(x);
}

static Converted dynamicUpdateSlice(const Source &s) {
  FoldingBuilder &b = s.b;
  Value whole = s.operand(0), part = s.operand(1);
  Sizes sizes(shapeOf(part)), shape(shapeOf(whole));
  if (s.operands.size() != shape.size() + 2 || sizes.size() != shape.size())
    return s.refuse("an update without its starts");
  std::vector<Start> starts = startsOf(s, 2, sizes);
  // Along dimensions whose start is a value, the part becomes as long as the
  // whole, each element where it belongs; where it has none, the whole stays.
  Sizes offsets, wide = sizes;
  std::vector<std::pair<int64_t, Value>> inside; // by dimension: truth values
  for (auto [dim, start] : llvm::enumerate(starts)) {
    offsets.push_back(start.known);
    if (!start.value)
      continue;
    int64_t size = wide[dim] = shape[dim];
    Value at = b.sub(b.iota({size}, 0), b.broadcast(start.value, {}, {size}));
    Value zero = b.splat({size}, b.i32(), 0);
    Value last = b.splat({size}, b.i32(), sizes[dim] - 1);
    Value index = b.min(b.max(at, zero), last);
    part = taken(b, part, dim, index);
    inside.push_back({dim, b.compare(CompareKind::EQ, at, index)});
  }
  for (auto [dim, condition] : inside)
    part = b.select(b.broadcast(condition, {dim}, wide), part,
                    b.slice(whole, offsets, wide));
  return one(replacePart(b, whole, part, offsets));
}

void kerf::addShapes(Conversions &table) {
  table["stablehlo.broadcast_in_dim"] = broadcast;
  table["stablehlo.reshape"] = reshape;
  table["stablehlo.transpose"] = transpose;
  table["stablehlo.slice"] = slice;
  table["stablehlo.concatenate"] = concatenate;
  table["stablehlo.pad"] = pad;
  table["stablehlo.reverse"] = reverse;
  table["stablehlo.dynamic_slice"] = dynamicSlice;
  table["stablehlo.dynamic_update_slice"] = dynamicUpdateSlice;
}
