#include "Distances.h"

using namespace kerf;
using namespace mlir;

/// bf16 has whole numbers up to this one.
static constexpr int64_t kExact = 256;

/// `|x|`, written max(x, -x): x.
static std::optional<Seen> absoluteOf(const Seen &seen) {
  auto max = seen.op<MaxOp>();
  if (!max)
    return std::nullopt;
  for (auto [x, other] : bothOrders(max)) {
    auto neg = other.template getDefiningOp<NegOp>();
    auto sub = other.template getDefiningOp<SubOp>(); // of whole numbers: 0 - x
    if ((neg && neg.getX() == x) ||
        (sub && sub.getRhs() == x && splatOf(sub.getLhs()) == 0.0))
      return Seen{x, seen.dims};
  }
  return std::nullopt;
}

/// Whether a value is of the dimensions besides rows and columns alone.
static bool isOfHeads(const Seen &seen, const ScoreDims &dims) {
  llvm::ArrayRef<int64_t> shape = typeOf(seen.value).getShape();
  return llvm::all_of(llvm::zip_equal(seen.dims, shape), [&](auto entry) {
    auto [dim, size] = entry;
    return size == 1 || (dim >= 0 && dim != dims.row && dim != dims.column);
  });
}

/// A number of positions: its columns, or those of the distance |row - column|.
static std::optional<DistanceBias> positionsOf(const Seen &seen,
                                               const ScoreDims &dims) {
  DistanceBias bias;
  if (auto affine = affineOf(seen, dims)) {
    bias.factor = static_cast<double>(affine->columns);
    return bias;
  }
  auto inner = absoluteOf(seen);
  auto affine = inner ? affineOf(*inner, dims) : std::nullopt;
  if (!affine || affine->rows + affine->columns != 0 || affine->constant != 0)
    return std::nullopt;
  bias.factor = -std::abs(static_cast<double>(affine->columns));
  bias.isCausal = true;
  return bias;
}

std::optional<DistanceBias> kerf::distanceBiasOf(const Seen &value,
                                                 const ScoreDims &dims) {
  Seen seen = lookThrough(value);
  if (auto positions = positionsOf(seen, dims))
    return positions;
  if (seen.op<CastOp>())
    return distanceBiasOf(seen.operand(0), dims);
  double sign = seen.op<NegOp>() ? -1 : 1;
  auto scaled = scaledOf(seen.value);
  if (sign < 0 || scaled) {
    auto inner = distanceBiasOf(
        scaled ? Seen{scaled->x, seen.dims} : seen.operand(0), dims);
    if (inner)
      inner->factor *= scaled ? scaled->factor : sign;
    return inner;
  }
  auto mul = seen.op<MulOp>();
  if (!mul)
    return std::nullopt;
  for (auto [slope, positions] : bothOrders(mul)) {
    Seen ofHeads = lookThrough({slope, seen.dims});
    auto bias = isOfHeads(ofHeads, dims)
                    ? distanceBiasOf({positions, seen.dims}, dims)
                    : std::nullopt;
    if (!bias || bias->slope)
      continue;
    bias->slope = ofHeads;
    return bias;
  }
  return std::nullopt;
}

bool kerf::mayBeDistance(const Seen &bias, int64_t column) {
  for (int64_t row = 0; row < column; ++row)
    if (distanceBiasOf(bias, {/*batch=*/-2, row, column}))
      return true;
  return false;
}

/// A number [n] as channels of all others of `shape` [B,S,H,*].
static Value channels(PlainBuilder &p, llvm::ArrayRef<Value> columns,
                      int64_t dim, llvm::ArrayRef<int64_t> shape) {
  int64_t size = shape[dim], count = columns.size();
  llvm::SmallVector<Value> parts;
  for (Value column : columns)
    parts.push_back(p.reshape(column, {size, 1}));
  Value all = p.concat(1, parts);
  return p.broadcast(all, {dim, 3}, {shape[0], shape[1], shape[2], count});
}

void kerf::addDistanceChannels(PlainBuilder &p, Value &q, Value &k, Value slope,
                               double factor) {
  llvm::ArrayRef<int64_t> rows = typeOf(q).getShape();
  llvm::ArrayRef<int64_t> keys = typeOf(k).getShape();
  Type element = typeOf(q).getElementType();
  auto vector = [&](int64_t size, double number) {
    return p.constant(RankedTensorType::get({size}, element), number);
  };
  Value slopes = slope ? p.mul(slope, factor) : vector(rows[2], factor);
  Value at = p.iota({keys[1]}, 0);
  llvm::SmallVector<Value> ofQueries, ofKeys;
  if (keys[1] > kExact) { // position = kExact high + low
    Value high = p.div(at, p.constant(at.getType(), kExact));
    at = p.sub(at, p.mul(high, static_cast<double>(kExact)));
    ofQueries.push_back(p.mul(slopes, static_cast<double>(kExact)));
    ofKeys.push_back(p.cast(high, element));
  }
  ofQueries.push_back(slopes);
  ofKeys.push_back(p.cast(at, element));
  // Kernels of GPUs take channels by eights.
  while (rows[3] % 8 == 0 && ofKeys.size() % 8 != 0) {
    ofQueries.push_back(vector(rows[2], 0));
    ofKeys.push_back(vector(keys[1], 0));
  }
  q = p.concat(3, {q, channels(p, ofQueries, 2, rows)});
  k = p.concat(3, {k, channels(p, ofKeys, 1, keys)});
}
