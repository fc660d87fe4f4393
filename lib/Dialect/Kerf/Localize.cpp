//===- Localize.cpp - ops on shards of their tensors ----------------------===//
//
// Ops that read global indices get offset operands, and attributes that repeat
// a size are made local. Everything else follows from local types.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;

using Shards = llvm::ArrayRef<FactorShard>;

/// True when one of the factors is split.
static bool isSharded(const TensorFactors &dims, Shards shards) {
  return llvm::any_of(dims, [&](const DimFactors &dim) {
    return llvm::any_of(dim,
                        [&](unsigned f) { return bool(shards[f].offset); });
  });
}

/// First global index along a dimension: its factors' offsets, major to minor.
/// Null when none is split.
static Value offsetOf(PlainBuilder &p, const DimFactors &dim, Shards shards) {
  Value offset;
  int64_t minor = 1; // elements of the factors after the present one
  for (unsigned f : llvm::reverse(dim)) {
    if (Value own = shards[f].offset) {
      if (minor != 1)
        own = p.mul(own, static_cast<double>(minor));
      offset = offset ? p.add(own, offset) : own;
    }
    minor *= shards[f].globalSize;
  }
  return offset;
}

static int64_t globalSizeOf(const DimFactors &dim, Shards shards) {
  int64_t size = 1;
  for (unsigned f : dim)
    size *= shards[f].globalSize;
  return size;
}

/// Adds to an optional scalar operand.
static void addOffset(PlainBuilder &p, MutableOperandRange operand,
                      const DimFactors &dim, Shards shards) {
  Value offset = offsetOf(p, dim, shards);
  if (!offset)
    return;
  if (!operand.empty())
    offset = p.add(operand[0].get(), offset);
  operand.assign(offset);
}

/// Sets one offset per dimension and the global sizes.
template <typename Op>
static void localizeIndices(PlainBuilder &p, Op op, const TensorFactors &dims,
                            Shards shards) {
  if (!isSharded(dims, shards))
    return;
  llvm::SmallVector<Value> offsets;
  llvm::SmallVector<int64_t> global;
  auto scalar = RankedTensorType::get({}, p.builder.getI32Type());
  for (auto [d, dim] : llvm::enumerate(dims)) {
    Value offset = offsetOf(p, dim, shards);
    if (!offset)
      offset = p.constant(scalar, 0);
    if (!op.getOffsets().empty())
      offset = p.add(op.getOffsets()[d], offset);
    offsets.push_back(offset);
    global.push_back(globalSizeOf(dim, shards));
  }
  op.getOffsetsMutable().assign(offsets);
  if (!op.getGlobal()) // A shard of a shard keeps the whole.
    op.setGlobal(global);
}

/// One operand's place, if it is there.
static llvm::SmallVector<OffsetPlace> placeOf(Value offset, bool isResult,
                                              unsigned tensor, unsigned dim) {
  llvm::SmallVector<OffsetPlace> places;
  if (offset)
    places.push_back({offset, isResult, tensor, dim});
  return places;
}

/// One offset per dimension of the result, or none.
static llvm::SmallVector<OffsetPlace> placesOf(OperandRange offsets) {
  llvm::SmallVector<OffsetPlace> places;
  for (auto [d, offset] : llvm::enumerate(offsets))
    places.push_back({offset, true, 0, static_cast<unsigned>(d)});
  return places;
}

llvm::SmallVector<OffsetPlace> IotaOp::getOffsetPlaces() {
  return placeOf(getOffset(), true, 0, getDim());
}

llvm::SmallVector<OffsetPlace> RandomUniformOp::getOffsetPlaces() {
  return placesOf(getOffsets());
}

llvm::SmallVector<OffsetPlace> DropoutOp::getOffsetPlaces() {
  return placesOf(getOffsets());
}

llvm::SmallVector<OffsetPlace> EmbeddingOp::getOffsetPlaces() {
  return placeOf(getOffset(), false, 1, 0);
}

llvm::SmallVector<OffsetPlace> EmbeddingGradientOp::getOffsetPlaces() {
  return placeOf(getOffset(), true, 0, 0);
}

llvm::SmallVector<OffsetPlace> RopeOp::getOffsetPlaces() {
  return placeOf(getOffset(), false, 0, 1);
}

/// Offsets of the scores `[B,H,Sq,Sk]`, as dimensions of q and k.
static llvm::SmallVector<OffsetPlace> scorePlaces(OperandRange offsets) {
  constexpr std::pair<unsigned, unsigned> scores[] = {
      {0, 0}, {0, 2}, {0, 1}, {1, 1}};
  llvm::SmallVector<OffsetPlace> places;
  for (auto [offset, at] : llvm::zip(offsets, scores))
    places.push_back({offset, false, at.first, at.second});
  return places;
}

llvm::SmallVector<OffsetPlace> AttentionOp::getOffsetPlaces() {
  return scorePlaces(getOffsets());
}

llvm::SmallVector<OffsetPlace> AttentionBackwardOp::getOffsetPlaces() {
  return scorePlaces(getOffsets());
}

void ConstantOp::localize(OpBuilder &, Shards) {
  auto splat = cast<SplatElementsAttr>(getValue());
  setValueAttr(DenseElementsAttr::get(typeOf(getResult()),
                                      splat.getSplatValue<Attribute>()));
}

void IotaOp::localize(OpBuilder &builder, Shards shards) {
  PlainBuilder p{builder, getLoc()};
  Factors facts = getFactors();
  addOffset(p, getOffsetMutable(), facts.results[0][getDim()], shards);
}

void RandomUniformOp::localize(OpBuilder &builder, Shards shards) {
  PlainBuilder p{builder, getLoc()};
  localizeIndices(p, *this, getFactors().results[0], shards);
}

void DropoutOp::localize(OpBuilder &builder, Shards shards) {
  PlainBuilder p{builder, getLoc()};
  localizeIndices(p, *this, getFactors().results[0], shards);
}

/// A dimension of which the whole is taken stays so; the others are not split.
/// A window of `from` elements becomes one of `to`: blocks before it shrink
/// with it.
static int64_t scaleOffset(int64_t offset, int64_t from, int64_t to) {
  return from == to ? offset : offset / from * to;
}

void SliceOp::localize(OpBuilder &, Shards) {
  llvm::ArrayRef<int64_t> local = typeOf(getResult()).getShape();
  llvm::SmallVector<int64_t> offsets(getOffsets());
  for (size_t d = 0; d < offsets.size(); ++d)
    offsets[d] = scaleOffset(offsets[d], getSizes()[d], local[d]);
  setOffsets(offsets);
  setSizes(local);
}

void PadOp::localize(OpBuilder &, Shards) {
  llvm::ArrayRef<int64_t> from = typeOf(getX()).getShape();
  llvm::ArrayRef<int64_t> to = typeOf(getResult()).getShape();
  llvm::SmallVector<int64_t> low(getLow()), high(getHigh());
  for (size_t d = 0; d < low.size(); ++d) {
    if (low[d] + high[d] == 0 || low[d] + high[d] + from[d] == to[d])
      continue;
    // Split within blocks: `to` is some blocks of `from`, padding was in whole
    // ones.
    int64_t block = (low[d] + high[d]) / (to[d] / from[d] - 1);
    low[d] = scaleOffset(low[d], block, from[d]);
    high[d] = scaleOffset(high[d], block, from[d]);
  }
  setLow(low);
  setHigh(high);
}

void EmbeddingOp::localize(OpBuilder &builder, Shards shards) {
  PlainBuilder p{builder, getLoc()};
  addOffset(p, getOffsetMutable(), getFactors().operands[1][0], shards);
}

void EmbeddingGradientOp::localize(OpBuilder &builder, Shards shards) {
  PlainBuilder p{builder, getLoc()};
  addOffset(p, getOffsetMutable(), getFactors().results[0][0], shards);
}

void RopeOp::localize(OpBuilder &builder, Shards shards) {
  PlainBuilder p{builder, getLoc()};
  if (!getPositions()) // Positions are sharded with x.
    addOffset(p, getOffsetMutable(), getFactors().operands[0][1], shards);
}

void CrossEntropyOp::localize(OpBuilder &builder, Shards shards) {
  PlainBuilder p{builder, getLoc()};
  addOffset(p, getOffsetMutable(), getFactors().operands[0].back(), shards);
}

void CrossEntropyBackwardOp::localize(OpBuilder &builder, Shards shards) {
  PlainBuilder p{builder, getLoc()};
  addOffset(p, getOffsetMutable(), getFactors().operands[0].back(), shards);
}

/// The global indices of the scores `[B,H,Sq,Sk]` that are read: a causal mask
/// reads those of queries and keys, dropout all. An op that is told no offsets
/// is the same on all ranks, and may be a library's.
template <typename Op>
static void localizeAttention(OpBuilder &builder, Op op, Shards shards) {
  PlainBuilder p{builder, op.getLoc()};
  Factors facts = op.getFactors();
  const TensorFactors &q = facts.operands[0], &k = facts.operands[1];
  bool drops = op.getDropout() && op.getDropout()->convertToDouble() > 0;
  bool readsPositions = op.getCausal() || drops;
  if ((readsPositions && isSharded({q[1], k[1]}, shards)) ||
      (drops && isSharded({q[0], q[2]}, shards)))
    localizeIndices(p, op, {q[0], q[2], q[1], k[1]}, shards);
}

void AttentionOp::localize(OpBuilder &builder, Shards shards) {
  localizeAttention(builder, *this, shards);
}

void AttentionBackwardOp::localize(OpBuilder &builder, Shards shards) {
  localizeAttention(builder, *this, shards);
}
