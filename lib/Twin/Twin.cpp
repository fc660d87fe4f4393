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

#include "mlir/IR/Matchers.h"
#include "mlir/IR/Verifier.h"
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
  std::optional<BlockSplit> blocks = blocksOf(facts, *assignment, axes);
  if (!blocks)
    return success();
  assignment->blocks = blocks->outer;
  for (unsigned f : blocks->before)
    assignment->blocks *= sizes.small(op, f);
  setAssignment(op, facts, *assignment, axes);
  return success();
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

/// Attributes that repeat a size. Types are still the large ones.
void SizeWriter::writeAttributes(Operation *op) {
  if (auto update = dyn_cast<UpdateOp>(op))
    writeUpdate(update);
  else if (auto repeat = dyn_cast<RepeatOp>(op))
    repeat.setEnd(repeat.getStart() + sizes.small(repeat));
  else if (auto sized = dyn_cast<ResizeOpInterface>(op))
    sized.resize(sizes);
}

/// Tables of slots have as many rows per expert as grouped matmuls ask for.
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
    if (DenseElementsAttr value;
        matchPattern(op, m_Constant(&value)) && value.isSplat())
      cast<LocalizeOpInterface>(op).localize(builder, {});
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
