//===- Resize.cpp - ops of steps that are written with other sizes --------===//
//
// What ops ask of sizes beyond their factors, and the attributes that repeat
// sizes: a step is checked with small ones (`kerf/Twin/Twin.h`).
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kerf;

/// The factor of an op by its name; none where it has no such factor.
static std::optional<SizeName> factorOf(const Factors &facts,
                                        llvm::StringRef name) {
  for (auto [f, factor] : llvm::enumerate(facts.factors))
    if (factor.name == name)
      return SizeName::factor(f);
  return std::nullopt;
}

/// The new size of a factor that the op has.
template <typename Op>
static int64_t sizeOf(Op op, const NewSizes &sizes, llvm::StringRef name) {
  std::optional<SizeName> factor = factorOf(op.getFactors(), name);
  return factor ? sizes.of(op, *factor) : 1;
}

//===----------------------------------------------------------------------===//
// Numbers and tables
//===----------------------------------------------------------------------===//

/// Numbers that differ mean what stands in the text.
void ConstantOp::demandSizes(SizeDemands &demands) {
  if (cast<DenseElementsAttr>(getValue()).isSplat())
    return;
  for (unsigned d = 0, rank = typeOf(getResult()).getRank(); d < rank; ++d)
    demands.keep({getResult(), d});
}

/// A block is what it is, and its 64 numbers are many: of blocks, few.
void DequantizeOp::demandSizes(SizeDemands &demands) {
  for (auto [f, factor] : llvm::enumerate(getFactors().factors))
    if (factor.kind == FactorKind::Whole)
      demands.keep(SizeName::factor(f));
  demands.setUsual(2);
}

/// A table has rows for all positions.
void EmbeddingOp::demandSizes(SizeDemands &demands) {
  if (typeOf(getIds()).getRank() > 0)
    demands.cover({getTable(), 0}, SizeName::last(getIds()));
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// An offset of a window: in whole windows where it is one of equal ones.
static int64_t newOffset(const NewSizes &sizes, Operation *op, Value part,
                         unsigned d, int64_t offset) {
  Value x = op->getOperand(0), whole = part == x ? op->getResult(0) : x;
  int64_t from = typeOf(part).getDimSize(d);
  bool isBlock =
      from > 0 && typeOf(whole).getDimSize(d) % from == 0 && offset % from == 0;
  return isBlock ? offset / from * sizes.of(op, {part, d})
                 : sizes.offset(x, d, offset);
}

void SliceOp::resize(const NewSizes &sizes) {
  llvm::SmallVector<int64_t> offsets(getOffsets()), parts(getSizes());
  for (unsigned d = 0; d < offsets.size(); ++d) {
    offsets[d] = newOffset(sizes, getOperation(), getResult(), d, offsets[d]);
    parts[d] = sizes.of(getOperation(), {getResult(), d});
  }
  setOffsets(offsets);
  setSizes(parts);
}

void PadOp::resize(const NewSizes &sizes) {
  llvm::ArrayRef<int64_t> part = typeOf(getX()).getShape();
  llvm::ArrayRef<int64_t> whole = typeOf(getResult()).getShape();
  llvm::SmallVector<int64_t> low(getLow()), high(getHigh());
  for (unsigned d = 0; d < low.size(); ++d) {
    if (part[d] == whole[d])
      continue;
    low[d] = newOffset(sizes, getOperation(), getX(), d, low[d]);
    high[d] = sizes.of(getOperation(), {getResult(), d}) -
              sizes.of(getOperation(), {getX(), d}) - low[d];
  }
  setLow(low);
  setHigh(high);
}

void TopKOp::resize(const NewSizes &sizes) {
  setK(sizes.of(getOperation(), SizeName::last(getValues())));
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

/// The first frequencies, one for each pair of the new head.
void RopeOp::resize(const NewSizes &sizes) {
  auto table = dyn_cast_or_null<RopeTableAttr>(getScalingAttr());
  if (!table)
    return;
  int64_t pairs = sizes.of(getOperation(), {getX(), 3}) / 2;
  llvm::ArrayRef<double> all = table.getFrequencies().asArrayRef();
  setScalingAttr(RopeTableAttr::get(
      getContext(), DenseF64ArrayAttr::get(getContext(), all.take_front(pairs)),
      table.getMagnitude()));
}

/// A window that hides something still does.
template <typename Op> static void resizeWindow(Op op, const NewSizes &sizes) {
  auto window = op.getWindow();
  if (window && *window < typeOf(op.getK()).getDimSize(1))
    op.setWindow(std::max<int64_t>(2, sizes.of(op, {op.getK(), 1}) / 2));
}

void AttentionOp::resize(const NewSizes &sizes) { resizeWindow(*this, sizes); }

void AttentionBackwardOp::resize(const NewSizes &sizes) {
  resizeWindow(*this, sizes);
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

/// At most two experts of at least four; with groups, two groups of two.
void RouteOp::demandSizes(SizeDemands &demands) {
  SizeName experts = SizeName::last(getLogits());
  demands.atMost(SizeName::last(getWeights()), 2);
  demands.atLeast(experts, 4);
  if (getGroups())
    demands.divide(experts, 4);
}

/// Two groups of experts stand for more.
void RouteOp::resize(const NewSizes &sizes) {
  setK(sizes.of(getOperation(), {getWeights(), 2}));
  if (!getGroups() || *getGroups() < 2)
    return;
  bool someAreLeft = getBest().value_or(0) < *getGroups();
  setGroups(2);
  setBest(someAreLeft ? 1 : 2);
}

/// Numbers of experts are below the number of what they were chosen from.
static void demandChosen(SizeDemands &demands, Value experts, SizeName count) {
  Operation *maker = experts.getDefiningOp();
  if (isa_and_nonnull<RouteOp, TopKOp>(maker))
    demands.unify(SizeName::last(maker->getOperand(0)), count);
}

void ExpertLoadOp::demandSizes(SizeDemands &demands) {
  demandChosen(demands, getExperts(), {getResult(), 0});
}

void AssignSlotsOp::demandSizes(SizeDemands &demands) {
  demandChosen(demands, getExperts(), *factorOf(getFactors(), "e"));
}

void AssignSlotsOp::resize(const NewSizes &sizes) {
  setGroup(sizeOf(*this, sizes, "n"));
  setCount(sizeOf(*this, sizes, "e"));
}

/// Without a capacity a table of routed tokens has a row per choice.
static void demandTable(SizeDemands &demands, const Factors &facts) {
  auto n = factorOf(facts, "n"), s = factorOf(facts, "s"),
       k = factorOf(facts, "k"), r = factorOf(facts, "r");
  if (!n || !s || !k || !r)
    return;
  auto size = [&](SizeName name) { return facts.factors[name.index].size; };
  if (size(*r) == size(*n) * size(*s) * size(*k))
    demands.product(*r, {*s, *n, *k});
}

void DispatchOp::demandSizes(SizeDemands &demands) {
  demandTable(demands, getFactors());
}

void CombineOp::demandSizes(SizeDemands &demands) {
  demandTable(demands, getFactors());
}

void CombineWeightGradientOp::demandSizes(SizeDemands &demands) {
  demandTable(demands, getFactors());
}

void LoadBalanceLossOp::resize(const NewSizes &sizes) {
  setGroup(sizeOf(*this, sizes, "n"));
}

void LoadBalanceLossBackwardOp::resize(const NewSizes &sizes) {
  setGroup(sizeOf(*this, sizes, "n"));
}

void GroupedMatmulOp::resize(const NewSizes &sizes) {
  if (getCapacity())
    setCapacity(sizeOf(*this, sizes, "c"));
}

void GroupedWeightGradientOp::resize(const NewSizes &sizes) {
  if (getCapacity())
    setCapacity(sizeOf(*this, sizes, "c"));
}
