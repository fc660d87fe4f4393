//===- Twin.cpp - a small step with the decisions of a large one ----------===//
//
// Steps: shrink the plan; collect the sizes of the step and what its ops and
// assignments ask of them; choose small ones; write them on a copy of the step.
//
// Example: a layer of 48, tokens [64,4096], hidden 2048, 32 heads of 128, on
// <pp = 4, ep = 4, tp = 4>, 8 micro-batches: tokens [8,8], hidden 4, 4 heads of
// 4, 4 layers on <pp = 3, ep = 2, tp = 2>, 4 micro-batches.
//
//===----------------------------------------------------------------------===//

#include "kerf/Twin/Twin.h"

#include "StepSizes.h"

#include "kerf/Dialect/Kerf/Chunks.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace kerf;

namespace {
/// Writes the small sizes on a step.
struct SizeWriter {
  const StepSizes &sizes;
  PlanAxes axes; ///< of the large plan

  void writeType(Value value);
  LogicalResult writeAssignment(Operation *op);
  void writeSlice(SliceOp op);
  void writePad(PadOp op);
  void writeRoute(RouteOp op);
  void writeSlots(AssignSlotsOp op);
  void writeUpdate(UpdateOp op);
  void writeAttributes(Operation *op);
};
} // namespace

void SizeWriter::writeType(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return;
  llvm::SmallVector<int64_t> shape;
  for (int64_t d = 0; d < type.getRank(); ++d)
    shape.push_back(sizes.small(value, d));
  value.setType(withShape(type, shape));
}

/// Axes have the same names; blocks are counted by sizes.
LogicalResult SizeWriter::writeAssignment(Operation *op) {
  auto interface = dyn_cast<FactorOpInterface>(op);
  if (!interface || !op->hasAttr(kAssignAttrName))
    return success();
  Factors facts = interface.getFactors();
  FailureOr<Assignment> assignment = getAssignment(op, facts, axes);
  if (failed(assignment))
    return failure();
  std::optional<BlockCut> blocks = blocksOf(facts, *assignment, axes);
  if (!blocks)
    return success();
  assignment->blocks = blocks->outer;
  for (unsigned f : blocks->before)
    assignment->blocks *= sizes.small(op, f);
  setAssignment(op, facts, *assignment, axes);
  return success();
}

/// An offset in blocks of `from` elements, in blocks of `to`.
static int64_t inBlocks(int64_t offset, int64_t from, int64_t to) {
  return offset / from * to;
}

void SizeWriter::writeSlice(SliceOp op) {
  llvm::ArrayRef<int64_t> whole = typeOf(op.getX()).getShape();
  llvm::SmallVector<int64_t> offsets(op.getOffsets()), parts(op.getSizes());
  for (size_t d = 0; d < offsets.size(); ++d) {
    int64_t from = parts[d];
    bool isBlock = from > 0 && whole[d] % from == 0 && offsets[d] % from == 0;
    parts[d] = sizes.small(op.getResult(), d);
    offsets[d] = isBlock ? inBlocks(offsets[d], from, parts[d])
                         : sizes.smallOffset(op.getX(), d, offsets[d]);
  }
  op.setOffsets(offsets);
  op.setSizes(parts);
}

void SizeWriter::writePad(PadOp op) {
  llvm::ArrayRef<int64_t> part = typeOf(op.getX()).getShape();
  llvm::ArrayRef<int64_t> whole = typeOf(op.getResult()).getShape();
  llvm::SmallVector<int64_t> low(op.getLow()), high(op.getHigh());
  for (size_t d = 0; d < low.size(); ++d) {
    if (part[d] == whole[d])
      continue;
    bool isBlock = whole[d] % part[d] == 0 && low[d] % part[d] == 0;
    int64_t to = sizes.small(op.getX(), d);
    low[d] = isBlock ? inBlocks(low[d], part[d], to)
                     : sizes.smallOffset(op.getX(), d, low[d]);
    high[d] = sizes.small(op.getResult(), d) - to - low[d];
  }
  op.setLow(low);
  op.setHigh(high);
}

/// Two groups of experts stand for more.
void SizeWriter::writeRoute(RouteOp op) {
  op.setK(sizes.small(op.getWeights(), 2));
  if (!op.getGroups() || *op.getGroups() < 2)
    return;
  bool someAreLeft = op.getBest().value_or(0) < *op.getGroups();
  op.setGroups(2);
  op.setBest(someAreLeft ? 1 : 2);
}

void SizeWriter::writeSlots(AssignSlotsOp op) {
  Factors facts = op.getFactors();
  for (auto [f, factor] : llvm::enumerate(facts.factors)) {
    if (factor.name == "n")
      op.setGroup(sizes.small(op, f));
    if (factor.name == "e")
      op.setCount(sizes.small(op, f));
  }
}

/// State in blocks stays so: blocks of two.
static Attribute smallRule(UpdateOp op) {
  auto rule = dyn_cast<AdamW8bitAttr>(op.getRule());
  if (!rule)
    return op.getRule();
  bool hasBlocks = llvm::any_of(
      op.getStates(), [](const StateTensor &state) { return state.block > 1; });
  constexpr int64_t all = 1, none = int64_t(1) << 40;
  return AdamW8bitAttr::get(op.getContext(), rule.getBeta1(), rule.getBeta2(),
                            rule.getEps(), rule.getWeightDecay(), 2,
                            hasBlocks ? all : none);
}

void SizeWriter::writeUpdate(UpdateOp op) {
  op.setRuleAttr(smallRule(op));
  if (op.getStart())
    op.setEnd(*op.getStart() + sizes.small(op.getGradient(), 0));
}

/// A window that hides something still does.
template <typename Op> static void writeWindow(Op op, const StepSizes &sizes) {
  auto window = op.getWindow();
  int64_t keys = typeOf(op.getK()).getDimSize(1);
  if (window && int64_t(*window) < keys)
    op.setWindow(std::max<int64_t>(2, sizes.small(op.getK(), 1) / 2));
}

/// The number of a factor in the small step.
static int64_t smallFactor(const StepSizes &sizes, Operation *op,
                           llvm::StringRef name) {
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  for (auto [f, factor] : llvm::enumerate(facts.factors))
    if (factor.name == name)
      return sizes.small(op, f);
  return 1;
}

/// Attributes that repeat a size. Types are still the large ones.
/// The first frequencies, one for each pair of the small head.
static void writeRope(RopeOp op, const StepSizes &sizes) {
  auto table = dyn_cast_or_null<RopeTableAttr>(op.getScalingAttr());
  if (!table)
    return;
  int64_t pairs = sizes.small(op.getX(), 3) / 2;
  llvm::ArrayRef<double> all = table.getFrequencies().asArrayRef();
  op.setScalingAttr(RopeTableAttr::get(
      op.getContext(),
      DenseF64ArrayAttr::get(op.getContext(), all.take_front(pairs)),
      table.getMagnitude()));
}

void SizeWriter::writeAttributes(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](SliceOp own) { writeSlice(own); })
      .Case([&](PadOp own) { writePad(own); })
      .Case([&](RouteOp own) { writeRoute(own); })
      .Case([&](AssignSlotsOp own) { writeSlots(own); })
      .Case([&](UpdateOp own) { writeUpdate(own); })
      .Case(
          [&](RepeatOp own) { own.setEnd(own.getStart() + sizes.small(own)); })
      .Case([&](TopKOp own) {
        own.setK(sizes.small(own->getResult(0),
                             typeOf(own->getResult(0)).getRank() - 1));
      })
      .Case([&](RopeOp own) { writeRope(own, sizes); })
      .Case<AttentionOp, AttentionBackwardOp>(
          [&](auto own) { writeWindow(own, sizes); })
      .Case<LoadBalanceLossOp, LoadBalanceLossBackwardOp>(
          [&](auto own) { own.setGroup(smallFactor(sizes, op, "n")); })
      .Case<GroupedMatmulOp, GroupedWeightGradientOp>([&](auto own) {
        if (own.getCapacity())
          own.setCapacity(smallFactor(sizes, op, "c"));
      });
}

/// Tables of slots have as many rows per expert as grouped products ask for.
static void writeCapacities(ModelOp model) {
  std::optional<int64_t> capacity;
  model.getBody().walk(
      [&](GroupedMatmulOp op) { capacity = op.getCapacity(); });
  model.getBody().walk([&](AssignSlotsOp op) {
    if (op.getCapacity() && capacity)
      op.setCapacity(*capacity);
  });
}

static LogicalResult writeSizes(ModelOp model, const StepSizes &sizes) {
  SizeWriter writer{sizes, PlanAxes(getPlan(model))};
  llvm::SmallVector<Operation *> ops;
  model.getBody().walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    if (failed(writer.writeAssignment(op)))
      return failure();
  llvm::for_each(ops, [&](Operation *op) { writer.writeAttributes(op); });
  auto writeArguments = [&](Block &block) {
    for (BlockArgument argument : block.getArguments())
      writer.writeType(argument);
  };
  writeArguments(model.getBody().front());
  for (Operation *op : ops) {
    for (Value result : op->getResults())
      writer.writeType(result);
    if (auto repeat = dyn_cast<RepeatOp>(op))
      writeArguments(repeat.getBody().front());
  }
  OpBuilder builder(model.getContext());
  for (Operation *op : ops)
    if (auto constant = dyn_cast<ConstantOp>(op);
        constant && constant.getValue().isSplat())
      constant.localize(builder, {});
  writeCapacities(model);
  return success();
}

static std::string describe(ModelOp model, const SmallPlan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (BlockArgument tokens = model.getInput("tokens"))
    os << llvm::interleaved(typeOf(tokens).getShape(), " x ") << " tokens, ";
  if (!plan.layers.empty())
    os << llvm::interleaved(plan.layers, " + ") << " layers, ";
  os << plan.plan.getMesh().getRankCount() << " ranks (";
  llvm::interleaveComma(
      llvm::zip(plan.plan.getMesh().getNames(), plan.plan.getMesh().getSizes()),
      os, [&](auto axis) {
        os << std::get<0>(axis).getValue() << ' ' << std::get<1>(axis);
      });
  int64_t micro = plan.plan.getMicroBatches();
  os << "), " << micro << (micro == 1 ? " micro-batch" : " micro-batches");
  return text;
}

FailureOr<Twin> kerf::makeTwin(ModelOp planned) {
  Twin twin;
  OpBuilder builder(planned.getContext());
  twin.module = ModuleOp::create(planned.getLoc());
  auto model = cast<ModelOp>(planned->clone());
  twin.module->push_back(model);
  llvm::SmallVector<int64_t> layers;
  for (RepeatOp repeat : forwardRepeats(model))
    layers.push_back(repeat.getCount());
  SmallPlan plan = shrinkPlan(getPlan(model), layers);
  StepSizes sizes;
  if (!plan.plan || failed(sizes.choose(model, plan)) ||
      failed(writeSizes(model, sizes)))
    return failure();
  model->setAttr(kPlanAttrName, plan.plan);
  if (failed(mlir::verify(*twin.module)))
    return failure();
  twin.description = describe(model, plan);
  twin.differs = plan.differs;
  return std::move(twin);
}
