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

/// The starts of a dynamic slice of `sizes` elements, operands from `first`
/// on: known numbers, brought inside as StableHLO does. None where one is not
/// known.
static std::optional<Sizes> startsOf(const Source &s, size_t first,
                                     llvm::ArrayRef<int64_t> sizes) {
  Sizes starts;
  llvm::ArrayRef<int64_t> shape = shapeOf(s.operand(0));
  for (auto [dim, size] : llvm::enumerate(sizes)) {
    int64_t most = shape[dim] - size;
    auto start = FoldingBuilder::splatOf(s.operand(first + dim));
    if (!start && most != 0)
      return std::nullopt;
    starts.push_back(
        std::clamp<int64_t>(start ? static_cast<int64_t>(*start) : 0, 0, most));
  }
  return starts;
}

static Converted dynamicSlice(const Source &s) {
  Sizes sizes = sizesOf(s.op, "slice_sizes");
  if (!isFull(s, "slice_sizes", s.operand(0)) ||
      s.operands.size() != sizes.size() + 1)
    return s.refuse("a slice without its sizes");
  auto starts = startsOf(s, 1, sizes);
  if (!starts)
    return s.refuse("a slice whose start is no known number");
  return one(s.b.slice(s.operand(0), *starts, sizes));
}

static Converted dynamicUpdateSlice(const Source &s) {
  Value whole = s.operand(0), part = s.operand(1);
  Sizes sizes(shapeOf(part)), shape(shapeOf(whole));
  if (s.operands.size() != shape.size() + 2 || sizes.size() != shape.size())
    return s.refuse("an update without its starts");
  auto starts = startsOf(s, 2, sizes);
  if (!starts)
    return s.refuse("an update of a part whose start is no known number");
  return one(replacePart(s.b, whole, part, *starts));
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
