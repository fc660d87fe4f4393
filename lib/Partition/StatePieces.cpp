//===- StatePieces.cpp - state that is cut over data ranks ----------------===//
//
// Pieces are flat: 1,024 data ranks do not divide 512 rows. Each shard of n
// elements over r ranks is padded to r pieces of ceil(n / r).
//
//===----------------------------------------------------------------------===//

#include "StatePieces.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;

/// The innermost axes, tensor ranks aside, over which a gradient is still a
/// sum, `group` ranks in all (0: all of them).
static AxisList chooseAxes(const Layout &arriving, const PlanAxes &plan,
                           int64_t group) {
  AxisList axes;
  for (unsigned axis : llvm::reverse(arriving.sums)) {
    if (plan.nameOf(axis) == "tp" || plan.sizeOf(axis) == 1)
      continue;
    if (group > 0 && plan.sizeOf(axes) * plan.sizeOf(axis) > group)
      break;
    axes.insert(axes.begin(), axis);
  }
  return axes;
}

StatePieces::StatePieces(ModelOp model, const PlannedModel &plan)
    : zero(getPlan(model).getZero()) {
  if (zero == 0)
    return;
  int64_t group = getPlan(model).getShardGroup();
  // All updates of a name agree, or its state stays whole.
  for (UpdateOp update : model.getBody().getOps<UpdateOp>()) {
    AxisList axes = chooseAxes(plan.arriving(update.getGradient(), update),
                               plan.axes, group);
    auto [known, isNew] = params.try_emplace(update.getName(), axes);
    if (!isNew && known->second != axes)
      known->second.clear();
  }
  for (UpdateOp update : model.getBody().getOps<UpdateOp>())
    if (const AxisList &axes = axesOf(update.getName()); !axes.empty())
      gradients[update.getGradient()] = {
          axes, plan.ops.find(update)->second.operands[0]};
}

const AxisList &StatePieces::axesOf(llvm::StringRef param) const {
  auto known = params.find(param);
  return known == params.end() ? none : known->second;
}

const AxisList &StatePieces::axesOf(Value gradient) const {
  auto known = gradients.find(gradient);
  return known == gradients.end() ? none : known->second.axes;
}

const Layout &StatePieces::restOf(Value gradient) const {
  return gradients.find(gradient)->second.rests;
}

int64_t kerf::pieceSize(int64_t elements, const AxisList &axes,
                        const PlanAxes &plan) {
  int64_t ranks = plan.sizeOf(axes);
  return (elements + ranks - 1) / ranks;
}

Value kerf::scatterPieces(OpBuilder &builder, FunctionWriter &function,
                          Value shard, const AxisList &axes, bool isStack,
                          const PlanAxes &plan, Operation *reader) {
  Operation *before = opBefore(builder);
  Location loc = reader->getLoc();
  PlainBuilder p{builder, loc};
  auto type = typeOf(shard);
  int64_t layers = isStack ? type.getDimSize(0) : 1;
  int64_t elements = type.getNumElements() / layers;
  int64_t padding = pieceSize(elements, axes, plan) * plan.sizeOf(axes);
  llvm::SmallVector<int64_t> flat, low, high;
  if (isStack)
    flat.push_back(layers);
  flat.push_back(elements);
  Value value = p.reshape(shard, flat);
  if (padding != elements) {
    low.resize(flat.size(), 0);
    high.resize(flat.size(), 0);
    high.back() = padding - elements;
    flat.back() = padding;
    value =
        PadOp::create(builder, loc, withShape(type, flat), value, low, high);
  }
  value = function.buildStep(builder, loc, value,
                             {ConversionStep::ReduceScatter, axes,
                              int64_t(flat.size()) - 1, 0, ReduceKind::Sum});
  setPhases(before, builder, reader);
  return value;
}

Value kerf::gatherPieces(OpBuilder &builder, FunctionWriter &function,
                         Value piece, RankedTensorType shard,
                         const AxisList &axes, Operation *reader) {
  Operation *before = opBefore(builder);
  Location loc = reader->getLoc();
  PlainBuilder p{builder, loc};
  Value value = function.buildStep(builder, loc, piece,
                                   {ConversionStep::AllGather, axes});
  int64_t elements = shard.getNumElements();
  if (typeOf(value).getNumElements() != elements)
    value = SliceOp::create(builder, loc, withShape(shard, {elements}), value,
                            llvm::ArrayRef<int64_t>{0},
                            llvm::ArrayRef<int64_t>{elements});
  if (typeOf(value) != shard)
    value = p.reshape(value, shard.getShape());
  setPhases(before, builder, reader);
  return value;
}
