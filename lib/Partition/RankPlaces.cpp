//===- RankPlaces.cpp - ops that are told where their part begins ---------===//
//
// An offset must be that of the part: over the axes that shard the dimension,
// and, where it is one `spmd.offset`, with the strides of its digits.
//
//===----------------------------------------------------------------------===//

#include "RankRules.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kerf;

/// Offsets are scalars among the operands. Nothing else of an op that reads
/// global indices differs by rank.
void OpRule::findPlaces() {
  auto local = dyn_cast<LocalizeOpInterface>(op.getOperation());
  if (!local)
    return;
  places = local.getOffsetPlaces();
  for (const OffsetPlace &place : places)
    for (auto [i, value] : llvm::enumerate(op->getOperands()))
      isPlace[i] = isPlace[i] || value == place.offset;
}

/// By axis, how far an offset moves along it; nothing where it is no sum of
/// multiples of `spmd.offset`.
using Strides = llvm::SmallVector<int64_t, 6>;

static std::optional<int64_t> constantOf(Value value) {
  DenseElementsAttr attr;
  if (!matchPattern(value, m_Constant(&attr)) || !attr.isSplat())
    return std::nullopt;
  return attr.getSplatValue<llvm::APInt>().getSExtValue();
}

static std::optional<Strides> stepsOf(Value value, const RankAxes &axes) {
  Strides strides(axes.count(), 0);
  if (auto offset = value.getDefiningOp<spmd::OffsetOp>()) {
    if (offset.getModulo())
      return std::nullopt;
    for (auto [name, stride] : llvm::zip(offset.getAxes(), offset.getStrides()))
      for (unsigned axis :
           axes.numbersOf(ArrayAttr::get(value.getContext(), name)))
        strides[axis] = stride;
    return strides;
  }
  if (constantOf(value))
    return strides;
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<AddOp, MulOp>(op))
    return std::nullopt;
  auto left = stepsOf(op->getOperand(0), axes);
  auto right = stepsOf(op->getOperand(1), axes);
  auto factor = constantOf(op->getOperand(1));
  bool isProduct = isa<MulOp>(op);
  if (!left || !right || (isProduct && !factor))
    return std::nullopt;
  for (unsigned axis = 0; axis < axes.count(); ++axis)
    strides[axis] =
        isProduct ? (*left)[axis] * *factor : (*left)[axis] + (*right)[axis];
  return strides;
}

/// The digits that an offset tells, of parts of so many elements.
static DimState digitsOf(const Strides &strides, int64_t size,
                         const RankAxes &axes) {
  llvm::SmallVector<std::pair<int64_t, unsigned>> order;
  for (auto [axis, stride] : llvm::enumerate(strides))
    if (stride != 0)
      order.push_back({stride, axis});
  llvm::sort(order);
  DimState dim = DimState::local(size);
  for (auto [stride, axis] : order) {
    dim.opaque |= stride != size;
    dim.digits.insert(dim.digits.begin(), {axes.sizeOf(axis), int(axis)});
    size = stride * axes.sizeOf(axis);
  }
  return dim;
}

/// The axes over which an offset differs.
static DimState axesOf(const RankState &offset, int64_t size,
                       const RankAxes &axes) {
  DimState dim = DimState::local(size);
  for (unsigned axis = 0; axis < axes.count(); ++axis)
    if (offset.over[axis] != Over::Same)
      dim.digits.push_back({axes.sizeOf(axis), int(axis)});
  dim.opaque = !dim.axes().empty();
  return dim;
}

LogicalResult OpRule::checkPlaces() {
  for (const OffsetPlace &place : places) {
    const TensorFactors &dims = place.isResult ? facts.results[place.tensor]
                                               : facts.operands[place.tensor];
    const DimFactors &dim = dims[place.dim];
    const RankState &offset = states.find(place.offset)->second;
    int64_t size = 1;
    bool isKnown = !llvm::is_contained(offset.over, Over::Unknown);
    DimState part;
    for (unsigned f : dim) {
      size *= facts.factors[f].size;
      isKnown &= known[f].has_value();
      if (!known[f])
        continue;
      part.digits.append(known[f]->digits);
      part.opaque |= known[f]->opaque;
    }
    part.digits = normalized(part.digits);
    std::optional<Strides> strides = stepsOf(place.offset, axes);
    DimState told =
        strides ? digitsOf(*strides, size, axes) : axesOf(offset, size, axes);
    if (dim.size() == 1 && !known[dim[0]])
      known[dim[0]] = told;
    if (!isKnown)
      continue;
    bool fits = isShardedAlike(told, part, loose);
    // Strides that no sharding has.
    fits &= !strides || !told.opaque || part.opaque;
    if (!fits)
      return op->emitOpError()
             << "is told the place of a dimension that is split "
             << printDim(told, axes) << ", found " << printDim(part, axes);
  }
  return success();
}
