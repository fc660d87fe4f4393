//===- StatePieces.cpp - state that is sharded over data ranks ------------===//
//
// Pieces are flat: 1,024 data ranks do not divide 512 rows. Each shard of n
// elements over r ranks is padded to r pieces of ceil(n / r), or of the next
// multiple of the block for which the optimizer keeps one number.
//
//===----------------------------------------------------------------------===//

#include "StatePieces.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;

/// The innermost axes, tensor ranks aside, of those over which a gradient is
/// still a sum, `group` ranks in all (0: all of them).
static AxisList chooseAxes(llvm::ArrayRef<unsigned> sums, const PlanAxes &plan,
                           int64_t group) {
  AxisList axes;
  for (unsigned axis : llvm::reverse(sums)) {
    if (plan.nameOf(axis) == kTensorAxis || plan.sizeOf(axis) == 1)
      continue;
    if (group > 0 && plan.sizeOf(axes) * plan.sizeOf(axis) > group)
      break;
    axes.insert(axes.begin(), axis);
  }
  return axes;
}

/// The axes over which the gradient of a frozen parameter would be a sum: all
/// its copies.
static AxisList copiesOf(const Layout &rests, const PlanAxes &plan) {
  AxisList axes;
  for (unsigned axis = 0; axis < plan.count(); ++axis)
    if (axis != plan.micro() && plan.nameOf(axis) != kPipelineAxis &&
        !rests.isShardedBy(axis))
      axes.push_back(axis);
  return axes;
}

StatePieces::StatePieces(ModelOp model, const PlannedModel &plan)
    : zero(getPlan(model).getZero()) {
  if (zero == 0)
    return;
  int64_t group = getPlan(model).getShardGroup();
  // All updates of a name agree, or its state stays whole.
  for (UpdateOp update : model.getBody().getOps<UpdateOp>()) {
    AxisList axes;
    // The padding of pieces has no gradient and must stay zero: of a statistic
    // nothing says that.
    auto rule = cast<OptimizerRuleInterface>(update.getRule());
    if (!rule.mixesElements() && rule.usesLossGradient())
      axes = chooseAxes(plan.arriving(update.getGradient(), update).sums,
                        plan.axes, group);
    Param param = {axes, plan.axes.sizeOf(axes), granuleOf(update.getStates())};
    auto [known, isNew] = params.try_emplace(update.getName(), param);
    if (!isNew && known->second.axes != axes)
      known->second.axes.clear();
  }
  // A frozen parameter has no state to shard, but itself.
  model.getBody().walk([&](ParamOp param) {
    auto rests = plan.values.find(param.getResult());
    if (zero < 3 || !param.getFrozen() || rests == plan.values.end())
      return;
    AxisList axes =
        chooseAxes(copiesOf(rests->second, plan.axes), plan.axes, group);
    params.try_emplace(param.getName(),
                       Param{axes, plan.axes.sizeOf(axes), /*granule=*/1});
  });
  for (UpdateOp update : model.getBody().getOps<UpdateOp>())
    if (!axesOf(update.getName()).empty())
      gradients[update.getGradient()] = {
          update.getName(), plan.ops.find(update)->second.operands[0]};
}

const AxisList &StatePieces::axesOf(llvm::StringRef param) const {
  auto known = params.find(param);
  return known == params.end() ? none : known->second.axes;
}

const AxisList &StatePieces::axesOf(Value gradient) const {
  auto known = gradients.find(gradient);
  return known == gradients.end() ? none : axesOf(known->second.param);
}

const Layout &StatePieces::restOf(Value gradient) const {
  return gradients.find(gradient)->second.rests;
}

int64_t StatePieces::sizeOf(llvm::StringRef name, int64_t elements) const {
  const Param &param = params.find(name)->second;
  return pieceSize(elements, param.ranks, param.granule);
}

int64_t StatePieces::sizeOf(Value gradient, int64_t elements) const {
  return sizeOf(gradients.find(gradient)->second.param, elements);
}

Value kerf::scatterPieces(OpBuilder &builder, FunctionWriter &function,
                          Value shard, const StatePieces &pieces,
                          Value gradient, bool isStack, const PlanAxes &plan,
                          Operation *reader) {
  Operation *before = opBefore(builder);
  Location loc = reader->getLoc();
  PlainBuilder p{builder, loc};
  auto type = typeOf(shard);
  int64_t layers = isStack ? type.getDimSize(0) : 1;
  int64_t elements = type.getNumElements() / layers;
  const AxisList &axes = pieces.axesOf(gradient);
  int64_t padding = pieces.sizeOf(gradient, elements) * plan.sizeOf(axes);
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
