//===- Convolutions.cpp - sums over the places of a window ----------------===//
//
// A convolution is the sum over its taps of a part of the padded input times
// the tap's weights: element by element where each channel has a weight of its
// own, else a matmul.
//
//===----------------------------------------------------------------------===//

#include "Converter.h"
#include "Parts.h"

using namespace kerf;
using namespace mlir;

/// Places of a window, at most: each is ops of its own.
static constexpr int64_t kMostTaps = 256;

namespace {
/// A convolution with the input as [batch, places..., features] and the weights
/// as [places..., inputs, outputs].
struct Convolution {
  Value x, weights;
  Sizes strides, dilations, low, high, reversed;
  int64_t groups = 1;
  Sizes places; ///< sizes of the result

  int64_t taps() const {
    int64_t count = 1;
    for (int64_t size : shapeOf(weights).drop_back(2))
      count *= size;
    return count;
  }
};
} // namespace

/// `perm` such that a transpose has dimensions in the order of `labels`; empty
/// where one is missing.
static Sizes orderOf(llvm::ArrayRef<std::string> given,
                     llvm::ArrayRef<std::string> labels) {
  Sizes perm;
  for (const std::string &label : labels) {
    auto it = llvm::find(given, label);
    if (it == given.end())
      return {};
    perm.push_back(it - given.begin());
  }
  return perm;
}

/// `first`, places 0, 1, ..., then `last`.
static std::vector<std::string> labelsOf(int64_t places,
                                         std::vector<std::string> first,
                                         std::vector<std::string> last) {
  for (int64_t d = 0; d < places; ++d)
    first.push_back(std::to_string(d));
  llvm::append_range(first, last);
  return first;
}

/// Numbers of an attribute, one a place; ones (zeros) where there are none.
static Sizes perPlace(Operation *op, llvm::StringRef name, int64_t places,
                      int64_t missing) {
  Sizes sizes = sizesOf(op, name);
  if (sizes.empty())
    sizes.assign(places, missing);
  return sizes;
}

/// The weights [inputs, outputs] of a tap: rows of one matrix, as places of a
/// window are no stack of layers.
static Value weightsOf(FoldingBuilder &b, const Convolution &c,
                       llvm::ArrayRef<int64_t> tap) {
  llvm::ArrayRef<int64_t> shape = shapeOf(c.weights);
  int64_t inputs = shape[tap.size()], outputs = shape.back(), place = 0;
  for (auto [d, at] : llvm::enumerate(tap))
    place = place * shape[d] + (c.reversed[d] ? shape[d] - 1 - at : at);
  Value rows = b.reshape(c.weights, {c.taps() * inputs, outputs});
  return b.slice(rows, {place * inputs, 0}, {inputs, outputs});
}

/// One tap: `part` [batch, places..., features] times its weights.
static Value termOf(FoldingBuilder &b, const Convolution &c, Value part,
                    Value weights) {
  int64_t inputs = shapeOf(weights)[0], outputs = shapeOf(weights)[1];
  Sizes shape(shapeOf(part));
  int64_t rank = shape.size();
  if (c.groups == 1)
    return LinearOp::create(b.plain.builder, b.plain.loc, part, weights,
                            /*bias=*/Value(), /*transposed=*/true);
  if (inputs == 1 && outputs == c.groups)
    return b.mul(part, b.broadcast(weights, {rank - 2, rank - 1}, shape));
  // Groups as a batch: [batch, places..., g, i] times [i, g, o].
  std::string rows;
  for (int64_t d = 0; d + 1 < rank; ++d)
    rows += static_cast<char>('a' + d);
  shape.back() = c.groups;
  shape.push_back(inputs);
  Value left = b.reshape(part, shape);
  Value right = b.reshape(weights, {inputs, c.groups, outputs / c.groups});
  Value y = b.plain.einsum(rows + "xy,yxz->" + rows + "xz", left, right);
  shape.pop_back();
  shape.back() = outputs;
  return b.reshape(y, shape);
}

static Value sumOfTaps(FoldingBuilder &b, const Convolution &c) {
  Sizes low = {0}, high = {0};
  llvm::append_range(low, c.low);
  llvm::append_range(high, c.high);
  low.push_back(0);
  high.push_back(0);
  Value whole = b.pad(c.x, low, high), y;
  for (const Sizes &tap : placesOf(shapeOf(c.weights).drop_back(2))) {
    Value part = readAt(b, whole, 1, tap, c.dilations, c.strides, c.places);
    Value term = termOf(b, c, part, weightsOf(b, c, tap));
    y = y ? b.add(y, term) : term;
  }
  return y;
}

/// Whether sizes fit each other: parts of taps lie inside, groups are whole.
static bool fits(const Convolution &c) {
  size_t places = c.places.size();
  for (const Sizes *list :
       {&c.strides, &c.dilations, &c.low, &c.high, &c.reversed})
    if (list->size() != places)
      return false;
  llvm::ArrayRef<int64_t> x = shapeOf(c.x), weights = shapeOf(c.weights);
  for (size_t d = 0; d < places; ++d) {
    if (c.strides[d] < 1 || c.dilations[d] < 1 || c.low[d] < 0 || c.high[d] < 0)
      return false;
    int64_t reach = (c.places[d] - 1) * c.strides[d] +
                    (weights[d] - 1) * c.dilations[d] + 1;
    if (reach > x[d + 1] + c.low[d] + c.high[d])
      return false;
  }
  return c.groups >= 1 && weights[places] * c.groups == x.back() &&
         weights[places + 1] % c.groups == 0;
}

static Converted convolution(const Source &s) {
  auto labels = dimLabelsIn(s.op, "dimension_numbers");
  int64_t places = typeOf(s.operand(0)).getRank() - 2;
  bool hasAll = llvm::all_of(labels, [&](const auto &list) {
    return static_cast<int64_t>(list.size()) == places + 2;
  });
  if (labels.size() != 3 || places < 0 || !hasAll ||
      typeOf(s.operand(1)).getRank() != places + 2 ||
      static_cast<int64_t>(s.shape().size()) != places + 2)
    return s.refuse("a convolution without its dimensions");
  Sizes rows = orderOf(labels[0], labelsOf(places, {"b"}, {"f"}));
  Sizes weights = orderOf(labels[1], labelsOf(places, {}, {"i", "o"}));
  Sizes back = orderOf(labelsOf(places, {"b"}, {"f"}), labels[2]);
  if (rows.empty() || weights.empty() || back.empty())
    return s.refuse("a convolution without its dimensions");
  auto isOne = [](int64_t n) { return n == 1; };
  if (!llvm::all_of(sizesOf(s.op, "lhs_dilation"), isOne) ||
      integerOf(s.op, "batch_group_count").value_or(1) != 1)
    return s.refuse("a convolution that is transposed or groups its batch");
  Convolution c;
  c.x = s.b.transpose(s.operand(0), rows);
  c.weights = s.b.transpose(s.operand(1), weights);
  c.strides = perPlace(s.op, "window_strides", places, 1);
  c.dilations = perPlace(s.op, "rhs_dilation", places, 1);
  c.groups = integerOf(s.op, "feature_group_count").value_or(1);
  Sizes padding = perPlace(s.op, "padding", 2 * places, 0);
  c.reversed.assign(places, 0);
  auto reversal = s.op->getAttrOfType<DenseBoolArrayAttr>("window_reversal");
  if (reversal)
    c.reversed = Sizes(reversal.asArrayRef());
  padding.resize(2 * places);
  for (int64_t d = 0; d < places; ++d) {
    c.low.push_back(padding[2 * d]);
    c.high.push_back(padding[2 * d + 1]);
    c.places.push_back(s.shape()[llvm::find(back, d + 1) - back.begin()]);
  }
  if (!fits(c))
    return s.refuse("a convolution whose sizes do not fit, or with negative "
                    "padding");
  if (c.taps() > kMostTaps)
    return s.refuse("a convolution with a window of more than 256 places");
  return one(s.b.transpose(sumOfTaps(s.b, c), back));
}

void kerf::addConvolutions(Conversions &table) {
  table["stablehlo.convolution"] = convolution;
}
