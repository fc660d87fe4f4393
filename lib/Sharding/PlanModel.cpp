//===- PlanModel.cpp - layouts of all values of a planned model -----------===//
//
// Problem: from the assignments of ops, the layout of every value, and whether
// each reader can get its operands in the layout it needs.
//
// Idea: one walk in program order. An op's results lie as its assignment says;
// a carried value of a repeat lies as its initial value, or as the body makes
// it where that is as small; a stack as what is
// stacked. A carried value that begins as zero may be a pending sum: what sums
// the body yields, a first visit finds out, and a second uses it.
//
// Cost: two visits per op of a repeat, one of others.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Constants.h"
#include "kerf/Sharding/Layout.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace kerf;

PlanAttr kerf::getPlan(ModelOp model) {
  if (auto plan = model->getAttrOfType<PlanAttr>(kPlanAttrName))
    return plan;
  MLIRContext *context = model.getContext();
  return PlanAttr::get(context, MeshAttr::get(context, {}, {}), 1, "1f1b",
                       false, {});
}

bool kerf::isSource(Operation *op) {
  return op->getNumOperands() == 0 && op->getNumRegions() == 0 &&
         op->getNumResults() > 0;
}

static bool isUpdate(Operation *op) {
  PhaseAttr phase = getPhase(op);
  return phase && phase.getKind() == PhaseKind::Update;
}

Layout PlannedModel::arriving(Value value, Operation *reader) const {
  Layout layout = values.lookup(value);
  if (isUpdate(reader)) {
    llvm::erase(layout.sums, axes.micro());
    if (isa<BlockArgument>(value))
      return layout.without(axes.micro());
  }
  if (prologue.contains(reader) && isa<BlockArgument>(value))
    return layout.without(axes.micro());
  return layout;
}

namespace {
class Planner {
public:
  Planner(ModelOp model, Completion *completion)
      : model(model), completion(completion), plan(getPlan(model)) {}

  FailureOr<PlannedModel> run() {
    if (failed(planInputs()) || failed(visitBlock(model.getBody().front())) ||
        (!completion && failed(checkParams())))
      return failure();
    return std::move(plan);
  }

private:
  LogicalResult planInputs();
  LogicalResult planInput(BlockArgument input);
  LogicalResult visitBlock(Block &block);
  LogicalResult visitOp(Operation *op);
  LogicalResult visitRepeat(RepeatOp repeat);
  LogicalResult visitBody(RepeatOp repeat, llvm::ArrayRef<Layout> carried);
  LogicalResult finishRepeat(RepeatOp repeat, llvm::ArrayRef<Layout> carried);
  LogicalResult visitReturn(ReturnOp op);
  LogicalResult checkParams();
  LogicalResult checkUpdate(UpdateOp update, ParamOp param);
  bool isPrologue(Operation *op, const Assignment &assignment);
  LogicalResult checkConversion(Operation *op, unsigned operand,
                                const Layout &need);

  ModelOp model;
  Completion *completion;
  PlannedModel plan;
};
} // namespace

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// The longest sharding that an assigned reader asks for, dimension by
/// dimension.
LogicalResult Planner::planInput(BlockArgument input) {
  Layout layout = Layout::whole(typeOf(input).getRank());
  for (OpOperand &use : input.getUses()) {
    auto op = dyn_cast<FactorOpInterface>(use.getOwner());
    if (!op || !op->hasAttr(kAssignAttrName))
      continue;
    Factors facts = op.getFactors();
    auto assignment = getAssignment(op, facts, plan.axes);
    if (failed(assignment))
      return failure();
    assignment->pending.clear();
    llvm::SmallVector<Layout> none(op->getNumOperands());
    std::string error;
    auto layouts = layoutsOf(facts, *assignment, none, plan.axes, error);
    if (failed(layouts))
      return op->emitOpError() << "cannot be split as assigned: " << error;
    const Layout &need = layouts->operands[use.getOperandNumber()];
    for (auto [own, other] : llvm::zip_equal(layout.dims, need.dims))
      if (other.size() > own.size())
        own = other;
  }
  // Ranks that share the rows of a micro-batch (experts') all have them: they
  // are few bytes, and so a micro-batch is a range of what a rank has.
  for (AxisList &list : layout.dims)
    if (auto *micro = llvm::find(list, plan.axes.micro()); micro != list.end())
      list.erase(micro + 1, list.end());
  for (AxisList &list :
       llvm::drop_begin(layout.dims, layout.dims.empty() ? 0 : 1))
    if (llvm::is_contained(list, plan.axes.micro()))
      return mlir::emitError(input.getLoc())
             << "input is split as " << printLayout(layout, plan.axes)
             << ", expected 'micro' on dimension 0 only";
  plan.values[input] = layout;
  return success();
}

LogicalResult Planner::planInputs() {
  llvm::SmallVector<BlockArgument> open;
  Layout known;
  for (BlockArgument input : model.getBody().getArguments()) {
    if (failed(planInput(input)))
      return failure();
    const Layout &layout = plan.values[input];
    bool isSharded = llvm::any_of(
        layout.dims, [](const AxisList &list) { return !list.empty(); });
    if (isSharded && known.dims.empty())
      known = layout;
  }
  if (!completion || known.dims.empty())
    return success();
  // The batch of the other inputs is that of the one whose reader is assigned.
  llvm::ArrayRef<int64_t> shape;
  for (BlockArgument input : model.getBody().getArguments())
    if (shape.empty() && plan.values[input] == known)
      shape = typeOf(input).getShape();
  for (BlockArgument input : model.getBody().getArguments()) {
    Layout &layout = plan.values[input];
    auto other = typeOf(input).getShape();
    if (other == shape && layout == Layout::whole(shape.size()))
      layout = known;
    else if (!other.empty() && layout.dims[0].empty() && other[0] == shape[0])
      layout.dims[0] = known.dims[0];
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// A rule by which an op takes an operand as it arrives, where that is split by
/// micro-batches and the op is not; else "".
static std::string ruleByMicro(Operation *op, unsigned operand,
                               const Layout &from, const Layout &need,
                               const PlanAxes &axes) {
  auto factorOp = dyn_cast<FactorOpInterface>(op);
  auto hasMicro = [&](const AxisList &list) {
    return llvm::is_contained(list, axes.micro());
  };
  if (!factorOp || llvm::none_of(from.dims, hasMicro) ||
      llvm::any_of(need.dims, hasMicro))
    return "";
  Factors facts = factorOp.getFactors();
  std::string text;
  for (auto [dim, list] : llvm::zip(facts.operands[operand], from.dims)) {
    if (list.empty() || dim.empty())
      continue;
    std::vector<std::string> names;
    for (unsigned axis : list)
      names.push_back("\"" + axes.nameOf(axis).str() + "\"");
    text += (text.empty() ? "\"" : ", \"") + facts.factors[dim.front()].name +
            "\": [" + llvm::join(names, ", ") + "]";
  }
  return text.empty() ? ""
                      : "{\"op\": \"" + op->getName().stripDialect().str() +
                            "\", \"factors\": {" + text + "}}";
}

LogicalResult Planner::checkConversion(Operation *op, unsigned operand,
                                       const Layout &need) {
  Layout from = plan.arriving(op->getOperand(operand), op);
  std::string error;
  // Rows of experts that are all one number are made where they are needed.
  if (need.ragged >= 0 && isOneNumber(op->getOperand(operand)))
    return success();
  if (succeeded(planConversion(from, need, plan.axes, error)))
    return success();
  auto diagnostic = op->emitOpError()
                    << "cannot get operand " << operand << ": " << error;
  diagnostic.attachNote() << "it arrives as " << printLayout(from, plan.axes)
                          << " and is needed as "
                          << printLayout(need, plan.axes);
  if (std::string rule = ruleByMicro(op, operand, from, need, plan.axes);
      !rule.empty())
    diagnostic.attachNote() << "a rule that splits it, too: " << rule;
  return diagnostic;
}

/// Depends on inputs alone, and not on which micro-batch runs.
bool Planner::isPrologue(Operation *op, const Assignment &assignment) {
  PhaseAttr phase = getPhase(op);
  // What constants make, each function makes for itself: nothing is kept.
  if ((phase && phase.getKind() != PhaseKind::Forward) ||
      isMadeOfConstants(op->getResult(0)) || isSource(op) ||
      op->getParentOp() != model)
    return false;
  auto usesMicro = [&](const AxisList &list) {
    return llvm::is_contained(list, plan.axes.micro());
  };
  if (llvm::any_of(assignment.factors, usesMicro) ||
      usesMicro(assignment.pending))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    return !maker || plan.prologue.contains(maker) ||
           isMadeOfConstants(operand);
  });
}

bool kerf::isOneNumber(Value value) {
  SplatElementsAttr splat;
  return matchPattern(value, m_Constant(&splat));
}

static bool isZero(Operation *op) {
  return isConstant(op) && matchPattern(op->getResult(0), m_AnyZeroFloat());
}

LogicalResult Planner::visitOp(Operation *op) {
  auto iface = dyn_cast<FactorOpInterface>(op);
  if (!iface)
    return op->emitOpError("states no factors and cannot be distributed");
  Factors facts = iface.getFactors();
  if (completion && isSource(op) && !op->hasAttr(kAssignAttrName)) {
    for (Value result : op->getResults()) {
      Layout layout = Layout::whole(typeOf(result).getRank());
      layout.any = true;
      layout.zero = isZero(op);
      plan.values[result] = layout;
    }
    return success();
  }
  auto arriving = [&] {
    return llvm::map_to_vector(op->getOperands(), [&](Value operand) {
      return plan.arriving(operand, op);
    });
  };
  if (completion && !op->hasAttr(kAssignAttrName) &&
      failed(completion->assign(op, facts, arriving(), plan)))
    return failure();
  auto assignment = getAssignment(op, facts, plan.axes);
  if (failed(assignment))
    return failure();
  if (isPrologue(op, *assignment))
    plan.prologue.insert(op);
  std::string error;
  auto arrived = arriving();
  // Sums of the prologue are made in it, once.
  if (!plan.prologue.contains(op))
    for (auto [layout, operand] : llvm::zip_equal(arrived, op->getOperands()))
      if (plan.prologue.contains(operand.getDefiningOp()))
        layout = layout.reduced();
  auto layouts = layoutsOf(facts, *assignment, arrived, plan.axes, error);
  if (failed(layouts)) {
    auto diagnostic = op->emitOpError()
                      << "cannot be split as assigned: " << error;
    std::string known;
    llvm::raw_string_ostream os(known);
    printFactors(os, facts);
    diagnostic.attachNote() << "its factors are " << known;
    return diagnostic;
  }
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (failed(checkConversion(op, i, layouts->operands[i])))
      return failure();
  for (auto [result, layout] :
       llvm::zip_equal(op->getResults(), layouts->results)) {
    layout.zero = isZero(op);
    plan.values[result] = layout;
  }
  plan.assignments[op] = *assignment;
  plan.ops[op] = *layouts;
  if (completion)
    completion->note(op, *layouts, plan);
  return success();
}

LogicalResult Planner::visitReturn(ReturnOp op) {
  OpLayouts layouts;
  for (auto [i, value] : llvm::enumerate(op.getValues())) {
    Layout need = Layout::whole(typeOf(value).getRank());
    // Outputs add up over micro-batches.
    if (llvm::is_contained(plan.values[value].sums, plan.axes.micro()))
      need.sums = {plan.axes.micro()};
    layouts.operands.push_back(need);
    if (failed(checkConversion(op, i, need)))
      return failure();
  }
  plan.ops[op] = layouts;
  return success();
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// The gradient comes as the parameter rests.
LogicalResult Planner::checkUpdate(UpdateOp update, ParamOp param) {
  Layout rests = plan.values[param.getResult()];
  if (update.getStart())
    rests = stackLayout(rests);
  const Layout &gradient = plan.ops[update].operands[0];
  if (rests == gradient)
    return success();
  auto diagnostic = update.emitOpError()
                    << "splits the gradient of \"" << update.getName()
                    << "\" as " << printLayout(gradient, plan.axes)
                    << ", expected " << printLayout(rests, plan.axes);
  diagnostic.attachNote(param.getLoc()) << "as the parameter is stored";
  return diagnostic;
}

/// True where a loop reads what the other reads or updates, too: the parameter
/// of some of its layers.
static bool readsSame(ParamOp param, int64_t start, int64_t end) {
  auto repeat = param->getParentOfType<RepeatOp>();
  if (!repeat || !param.isPerIteration())
    return true;
  return start < int64_t(repeat.getEnd()) && int64_t(repeat.getStart()) < end;
}
static bool readsSame(ParamOp param, ParamOp other) {
  auto repeat = other->getParentOfType<RepeatOp>();
  return !repeat || !other.isPerIteration() ||
         readsSame(param, repeat.getStart(), repeat.getEnd());
}

/// All reads and the update of a parameter agree on where it is stored; layers
/// of other loops may have theirs elsewhere.
LogicalResult Planner::checkParams() {
  llvm::StringMap<llvm::SmallVector<ParamOp, 1>> params;
  WalkResult walk = model.getBody().walk([&](ParamOp param) {
    llvm::SmallVector<ParamOp, 1> &all = params[param.getName()];
    auto *known = llvm::find_if(
        all, [&](ParamOp other) { return readsSame(param, other); });
    const Layout &own = plan.values[param.getResult()];
    if (own.isShardedBy(plan.axes.micro())) {
      param.emitOpError() << "\"" << param.getName()
                          << "\" is split by micro-batches; parameters are not";
      return WalkResult::interrupt();
    }
    if (known == all.end()) {
      all.push_back(param);
      return WalkResult::advance();
    }
    const Layout &other = plan.values[known->getResult()];
    if (own == other)
      return WalkResult::advance();
    auto diagnostic = param.emitOpError()
                      << "\"" << param.getName() << "\" is stored as "
                      << printLayout(own, plan.axes) << " here and as "
                      << printLayout(other, plan.axes) << " elsewhere";
    diagnostic.attachNote(known->getLoc()) << "other read is here";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  for (UpdateOp update : model.getBody().getOps<UpdateOp>())
    for (ParamOp param : params.lookup(update.getName()))
      if (readsSame(param, update.getStart().value_or(0),
                    update.getEnd().value_or(1)) &&
          failed(checkUpdate(update, param)))
        return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Repeats
//===----------------------------------------------------------------------===//

LogicalResult Planner::visitBody(RepeatOp repeat,
                                 llvm::ArrayRef<Layout> carried) {
  plan.values[repeat.getIndex()] = Layout::whole(0);
  for (auto [arg, layout] : llvm::zip_equal(repeat.getCarryArgs(), carried))
    plan.values[arg] = layout;
  for (auto [arg, stack] :
       llvm::zip_equal(repeat.getSliceArgs(), repeat.getSlices())) {
    Layout layout = plan.values[stack];
    layout.any = false;
    layout.zero = false;
    plan.values[arg] = sliceLayout(layout);
  }
  return visitBlock(repeat.getBody().front());
}

/// True when a carried value is to lie as the body makes it, which is no sum.
/// What it begins with is then converted once, not what every iteration makes.
static bool staysAsMade(const Layout &carried, const Layout &made) {
  return !(made == carried) && !made.isPending() && !made.any && !made.zero &&
         made.ragged < 0 && carried.ragged < 0;
}

LogicalResult Planner::visitRepeat(RepeatOp repeat) {
  llvm::SmallVector<Layout> carried;
  for (Value init : repeat.getInits())
    carried.push_back(plan.values[init].reduced());
  if (failed(visitBody(repeat, carried)))
    return failure();
  bool again = false;
  for (auto [layout, yielded] :
       llvm::zip_equal(carried, repeat.getYield().getCarried())) {
    const Layout &found = plan.values[yielded];
    if (layout.any || layout.zero) {
      // Zeros can be sharded in any way: as the body makes the value.
      if (layout.any || found.ragged < 0) {
        layout.dims = found.dims;
        layout.blocks = found.blocks;
      }
      if (layout.zero)
        layout.sums = found.sums;
      layout.any = layout.zero = false;
      again = true;
    } else if (staysAsMade(layout, found)) {
      layout = found;
      again = true;
    }
  }
  if (again) {
    if (completion)
      completion->retract(repeat.getBody().front());
    if (failed(visitBody(repeat, carried)))
      return failure();
  }
  return finishRepeat(repeat, carried);
}

LogicalResult Planner::finishRepeat(RepeatOp repeat,
                                    llvm::ArrayRef<Layout> carried) {
  OpLayouts layouts, yielded;
  YieldOp yield = repeat.getYield();
  for (const Layout &layout : carried) {
    layouts.operands.push_back(layout);
    layouts.results.push_back(layout);
    yielded.operands.push_back(layout);
  }
  for (Value stack : repeat.getSlices()) {
    Layout layout = plan.values[stack];
    layout.any = layout.zero = false;
    layout.dims[0].clear();
    layouts.operands.push_back(layout);
  }
  for (Value value : yield.getStacked()) {
    Layout layout = plan.values[value];
    layout.any = layout.zero = false;
    yielded.operands.push_back(layout);
    layouts.results.push_back(stackLayout(layout));
  }
  for (unsigned i = 0; i < repeat->getNumOperands(); ++i)
    if (failed(checkConversion(repeat, i, layouts.operands[i])))
      return failure();
  for (unsigned i = 0; i < yield->getNumOperands(); ++i)
    if (failed(checkConversion(yield, i, yielded.operands[i])))
      return failure();
  for (auto [result, layout] :
       llvm::zip_equal(repeat.getResults(), layouts.results))
    plan.values[result] = layout;
  plan.ops[repeat] = layouts;
  plan.ops[yield] = yielded;
  return success();
}

LogicalResult Planner::visitBlock(Block &block) {
  for (Operation &op : block) {
    LogicalResult done = success();
    if (auto repeat = dyn_cast<RepeatOp>(op))
      done = visitRepeat(repeat);
    else if (auto end = dyn_cast<ReturnOp>(op))
      done = visitReturn(end);
    else if (!isa<YieldOp>(op))
      done = visitOp(&op);
    if (failed(done))
      return failure();
  }
  return success();
}

FailureOr<PlannedModel> kerf::planModel(ModelOp model, Completion *completion) {
  return Planner(model, completion).run();
}
