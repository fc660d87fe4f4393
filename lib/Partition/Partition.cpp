//===- Partition.cpp - from a planned step to the program of its ranks ----===//
//
// Problem: write what one rank does, from a step on global tensors whose ops
// have factors assigned to axes.
//
// Idea: an op on a shard is the same op on local types. `planModel` says in
// which layout each op makes its results and needs its operands; between the
// two stand collectives, made at the first reader and shared. Ops fall into
// functions by phase; a value that is read in another function goes through a
// buffer.
//
// Steps: declare inputs and parameters; write the ops in program order, each
// into its function; write outputs; the same for the evaluation of the loss.
//
// Cost: one visit per op.
//
//===----------------------------------------------------------------------===//

#include "Writer.h"
#include "kerf/Dialect/Kerf/Evaluation.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_PARTITIONPASS
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

namespace {
/// The functions of a program, in order.
enum class Part { Prologue, Forward, Backward, Update, Evaluate };

llvm::StringRef nameOf(Part part) {
  switch (part) {
  case Part::Prologue:
    return "prologue";
  case Part::Forward:
    return "forward";
  case Part::Backward:
    return "backward";
  case Part::Update:
    return "update";
  case Part::Evaluate:
    return "evaluate";
  }
  llvm_unreachable("covered switch");
}

/// Writes the program of one model.
class ProgramWriter {
public:
  ProgramWriter(ModelOp model, PlannedModel planned)
      : model(model), trained(std::move(planned)), plan(&trained) {}

  LogicalResult run();

private:
  void declareInputs();
  void declareParams();
  LogicalResult writeEvaluation();
  void findSplit();
  Part partOf(Operation *op);
  Part partOf(Value value);
  void writeOps(ModelOp from);
  void writeOp(Operation *op, FunctionWriter &function, OpBuilder &builder);
  void writeRepeat(RepeatOp repeat, FunctionWriter &function,
                   OpBuilder &builder);
  void writeNorm(Operation *op, FunctionWriter &function, OpBuilder &builder);
  void writeOutputs(ReturnOp end);
  Operation *cloneLocal(Operation *op, llvm::ArrayRef<Value> operands,
                        FunctionWriter &function, OpBuilder &builder);
  Value use(Value value, const Layout &need, Part part, OpBuilder &builder,
            Operation *reader);
  void bring(Value value, Part part);
  void readInput(BlockArgument input, Part part);
  void passOn(Value value, Part from, Part to);
  spmd::BufferOp store(Value value, const Layout &layout, Part from,
                       bool isStep, bool sum);
  spmd::OutputOp outputFor(ReturnOp end, unsigned index, bool sum);
  FunctionWriter &functionOf(Part part);

  ModelOp model;
  PlannedModel trained;
  PlannedModel *plan; ///< of the model being written
  spmd::ProgramOp program;
  Operation *split = nullptr; ///< last op of the forward function
  bool evaluating = false;
  IRMapping origins; ///< from the evaluation's values to the model's
  llvm::SmallVector<spmd::InputOp> inputs;
  std::map<Part, FunctionWriter> functions;
  llvm::DenseMap<Value, llvm::SmallVector<std::pair<Part, spmd::BufferOp>, 1>>
      buffers;
  int64_t saved = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

static ArrayAttr cutAttr(MLIRContext *context, const PlanAxes &axes,
                         const Layout &layout) {
  llvm::SmallVector<Attribute> dims;
  for (const AxisList &list : layout.dims)
    dims.push_back(axesAttr(context, axes, list));
  return ArrayAttr::get(context, dims);
}

void ProgramWriter::declareInputs() {
  OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
  for (auto [input, role] :
       llvm::zip(model.getBody().getArguments(),
                 model.getRoles().getAsValueRange<StringAttr>())) {
    const Layout &layout = trained.values[input];
    std::string name = role.empty()
                           ? "input" + std::to_string(input.getArgNumber())
                           : role.str();
    int64_t vocabulary = getVocabulary(input);
    inputs.push_back(spmd::InputOp::create(
        builder, input.getLoc(), builder.getStringAttr(name),
        builder.getStringAttr(role), TypeAttr::get(input.getType()),
        cutAttr(builder.getContext(), trained.axes, layout),
        vocabulary ? builder.getI64IntegerAttr(vocabulary) : IntegerAttr(),
        TypeAttr::get(localType(input.getType(), layout, trained.axes))));
  }
}

/// Iterations for which a parameter is read.
static std::pair<int64_t, int64_t> rangeOf(llvm::ArrayRef<ParamOp> reads) {
  int64_t start = INT64_MAX, end = 0;
  for (ParamOp read : reads) {
    auto repeat = read->getParentOfType<RepeatOp>();
    start = std::min(start, repeat.getStart());
    end = std::max(end, repeat.getEnd());
  }
  return {start, end};
}

void ProgramWriter::declareParams() {
  llvm::MapVector<StringAttr, llvm::SmallVector<ParamOp>> reads;
  model.getBody().walk(
      [&](ParamOp param) { reads[param.getNameAttr()].push_back(param); });
  llvm::StringMap<Attribute> rules;
  for (UpdateOp update : model.getBody().getOps<UpdateOp>())
    rules[update.getName()] = update.getRule();
  OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
  for (auto &[name, ops] : reads) {
    ParamOp first = ops.front();
    const Layout &layout = trained.values[first.getResult()];
    IntegerAttr start, end;
    if (first.isPerIteration()) {
      auto [low, high] = rangeOf(ops);
      start = builder.getI64IntegerAttr(low);
      end = builder.getI64IntegerAttr(high);
    }
    Type type = first.getResult().getType();
    spmd::ParamOp::create(builder, first.getLoc(), name, start, end,
                          TypeAttr::get(type),
                          cutAttr(builder.getContext(), trained.axes, layout),
                          first.getInitAttr(), first.getFrozenAttr(),
                          first.getMasterAttr(), rules.lookup(name.getValue()),
                          TypeAttr::get(localType(type, layout, trained.axes)));
  }
}

FunctionWriter &ProgramWriter::functionOf(Part part) {
  if (auto known = functions.find(part); known != functions.end())
    return known->second;
  OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
  auto func = spmd::FuncOp::create(builder, model.getLoc(), nameOf(part));
  builder.setInsertionPointToEnd(&func.getBody().emplaceBlock());
  spmd::ReturnOp::create(builder, model.getLoc());
  return functions.try_emplace(part, func, trained.axes).first->second;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

static bool isGradient(Operation *op) {
  PhaseAttr phase = getPhase(op);
  return phase && (phase.getKind() == PhaseKind::InputGradient ||
                   phase.getKind() == PhaseKind::WeightGradient);
}

static bool isUpdate(Operation *op) {
  PhaseAttr phase = getPhase(op);
  return isa<UpdateOp>(op) || (phase && phase.getKind() == PhaseKind::Update);
}

/// The forward function ends with the last forward repeat that the backward
/// pass reads from; without one, before the first gradient.
void ProgramWriter::findSplit() {
  Operation *beforeGradients = nullptr;
  bool gradients = false;
  for (Operation &op : model.getBody().front()) {
    gradients |= isGradient(&op);
    if (!gradients && !isUpdate(&op))
      beforeGradients = &op;
    auto isRead = [&] {
      return llvm::any_of(op.getUsers(), [&](Operation *user) {
        return isGradient(user) || isa<YieldOp>(user);
      });
    };
    if (isa<RepeatOp>(op) && !isGradient(&op) && isRead())
      split = &op;
  }
  if (!split)
    split = beforeGradients;
}

Part ProgramWriter::partOf(Operation *op) {
  if (plan->prologue.contains(op))
    return Part::Prologue;
  if (evaluating)
    return Part::Evaluate;
  if (isUpdate(op))
    return Part::Update;
  if (!isGradient(op) && split && (op == split || op->isBeforeInBlock(split)))
    return Part::Forward;
  return Part::Backward;
}

Part ProgramWriter::partOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && !isSource(op))
    return partOf(op);
  return evaluating ? Part::Evaluate : Part::Update;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void ProgramWriter::readInput(BlockArgument input, Part part) {
  FunctionWriter &function = functionOf(part);
  // As declared: the evaluation may need less of an input than the step.
  Layout layout =
      trained.values[model.getBody().getArgument(input.getArgNumber())];
  if (part == Part::Prologue || part == Part::Update)
    layout = layout.without(plan->axes.micro());
  OpBuilder builder = function.atHead();
  auto read = spmd::ReadOp::create(
      builder, input.getLoc(), localType(input.getType(), layout, plan->axes),
      inputs[input.getArgNumber()].getSymName());
  function.endHead(read);
  function.define(input, read.getResult(), layout);
}

/// What a buffer is called: after the parameter whose gradient it holds.
static std::string bufferName(Value value, llvm::StringRef kind,
                              int64_t number) {
  for (Operation *user : value.getUsers())
    if (auto update = dyn_cast<UpdateOp>(user))
      return (kind + "." + update.getName()).str();
  return (kind + llvm::Twine(number)).str();
}

/// Writes a value to a new buffer where it is made.
spmd::BufferOp ProgramWriter::store(Value value, const Layout &layout,
                                    Part from, bool isStep, bool sum) {
  FunctionWriter &source = functionOf(from);
  OpBuilder after(program.getContext());
  after.setInsertionPointAfterValue(source.get(value).value);
  Value local = source.get(value).value;
  // Sums of the prologue are made once; those of gradients wait for the update.
  if (from == Part::Prologue)
    local = source.convert(after, value, layout, value.getDefiningOp());
  after.setInsertionPointAfterValue(local);
  while (isa<spmd::WriteOp, spmd::AccumulateOp>(*after.getInsertionPoint()))
    after.setInsertionPoint(after.getInsertionPoint()->getNextNode());
  llvm::StringRef kind = !isStep                  ? "saved"
                         : from == Part::Prologue ? "step"
                                                  : "gradient";
  std::string name = bufferName(value, kind, saved);
  if (SymbolTable::lookupSymbolIn(program, name))
    name += "." + std::to_string(saved);
  ++saved;
  OpBuilder builder(program.getContext());
  builder.setInsertionPoint(functions.begin()->second.getFunc());
  auto buffer = spmd::BufferOp::create(builder, value.getLoc(), name,
                                       isStep ? spmd::BufferKind::Step
                                              : spmd::BufferKind::Slot,
                                       local.getType());
  if (sum)
    spmd::AccumulateOp::create(after, value.getLoc(), local, name);
  else
    spmd::WriteOp::create(after, value.getLoc(), local, name);
  return buffer;
}

/// Hands a value over in a buffer, read at the head of the function that needs
/// it.
void ProgramWriter::passOn(Value value, Part from, Part to) {
  Value origin = evaluating ? origins.lookup(value) : value;
  unsigned micro = plan->axes.micro();
  Layout layout = plan->values[value];
  bool sum = to == Part::Update && llvm::is_contained(layout.sums, micro);
  if (from == Part::Prologue)
    layout = layout.reduced();
  if (to == Part::Update)
    llvm::erase(layout.sums, micro);
  bool isStep = from == Part::Prologue || to == Part::Update;
  Part kind = isStep ? Part::Update : Part::Backward;
  auto &known = buffers[origin];
  auto *found =
      llvm::find_if(known, [&](auto &entry) { return entry.first == kind; });
  if (found == known.end()) {
    known.push_back({kind, store(origin, layout, from, isStep, sum)});
    found = &known.back();
  }
  FunctionWriter &reader = functionOf(to);
  OpBuilder builder = reader.atHead();
  auto read =
      spmd::ReadOp::create(builder, value.getLoc(), found->second.getType(),
                           found->second.getSymName());
  reader.endHead(read);
  reader.define(value, read.getResult(), layout);
}

/// Makes a value known in a function that does not make it.
void ProgramWriter::bring(Value value, Part part) {
  if (auto input = dyn_cast<BlockArgument>(value))
    return readInput(input, part);
  Operation *maker = value.getDefiningOp();
  if (!isSource(maker))
    return passOn(value, partOf(maker), part);
  FunctionWriter &function = functionOf(part);
  OpBuilder builder = function.atHead();
  function.endHead(cloneLocal(maker, {}, function, builder));
}

Value ProgramWriter::use(Value value, const Layout &need, Part part,
                         OpBuilder &builder, Operation *reader) {
  FunctionWriter &function = functionOf(part);
  if (!function.has(value))
    bring(value, part);
  return function.convert(builder, value, need, reader);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// A copy on local types; defines the op's results.
Operation *ProgramWriter::cloneLocal(Operation *op,
                                     llvm::ArrayRef<Value> operands,
                                     FunctionWriter &function,
                                     OpBuilder &builder) {
  const PlanAxes &axes = plan->axes;
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  copy->removeAttr(kAssignAttrName);
  for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults())) {
    const Layout &layout = plan->values[from];
    to.setType(localType(from.getType(), layout, axes));
    function.define(from, to, layout);
  }
  auto localize = dyn_cast<LocalizeOpInterface>(copy);
  bool isCut = llvm::any_of(plan->assignments[op].factors,
                            [](const AxisList &list) { return !list.empty(); });
  if (!localize || !isCut)
    return copy;
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  llvm::SmallVector<FactorShard> shards;
  for (auto [factor, list] :
       llvm::zip_equal(facts.factors, plan->assignments[op].factors)) {
    int64_t local = factor.size / axes.sizeOf(list);
    shards.push_back({factor.size, local, function.offset(list, local)});
  }
  OpBuilder before(copy);
  localize.localize(before, shards);
  return copy;
}

void ProgramWriter::writeRepeat(RepeatOp repeat, FunctionWriter &function,
                                OpBuilder &builder) {
  Part part = partOf(repeat.getOperation());
  const OpLayouts &layouts = plan->ops[repeat];
  llvm::SmallVector<Value> operands;
  for (auto [value, need] :
       llvm::zip_equal(repeat->getOperands(), layouts.operands))
    operands.push_back(use(value, need, part, builder, repeat));
  llvm::SmallVector<Type> types;
  for (auto [result, layout] :
       llvm::zip_equal(repeat.getResults(), layouts.results))
    types.push_back(localType(result.getType(), layout, plan->axes));
  size_t carried = repeat.getInits().size();
  auto made =
      RepeatOp::create(builder, repeat.getLoc(), types,
                       llvm::ArrayRef<Value>(operands).take_front(carried),
                       llvm::ArrayRef<Value>(operands).drop_front(carried),
                       repeat.getStartAttr(), repeat.getEndAttr(),
                       repeat.getReverseAttr(), repeat.getPairAttr());
  made->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
  for (auto [global, local, layout] :
       llvm::zip_equal(repeat.getResults(), made.getResults(), layouts.results))
    function.define(global, local, layout);
  Block &body = made.getBody().emplaceBlock();
  for (BlockArgument arg : repeat.getBody().getArguments()) {
    const Layout &layout = plan->values[arg];
    function.define(
        arg,
        body.addArgument(localType(arg.getType(), layout, plan->axes),
                         arg.getLoc()),
        layout);
  }
  function.repeat = made;
  function.original = repeat;
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  for (Operation &op : repeat.getBody().front().without_terminator())
    writeOp(&op, function, inside);
  YieldOp yield = repeat.getYield();
  llvm::SmallVector<Value> yielded;
  for (auto [value, need] :
       llvm::zip_equal(yield->getOperands(), plan->ops[yield].operands))
    yielded.push_back(use(value, need, part, inside, yield));
  auto end = YieldOp::create(
      inside, yield.getLoc(),
      llvm::ArrayRef<Value>(yielded).take_front(yield.getCarried().size()),
      llvm::ArrayRef<Value>(yielded).drop_front(yield.getCarried().size()));
  end->setDiscardableAttrs(yield->getDiscardableAttrDictionary());
  function.repeat = function.original = {};
}

/// The root of a sum of squares over parts: norms of what is cut alike,
/// squared, summed over the axes that cut it. Every element counts once.
void ProgramWriter::writeNorm(Operation *op, FunctionWriter &function,
                              OpBuilder &builder) {
  std::map<AxisList, llvm::SmallVector<Value>> groups;
  for (auto [value, need] :
       llvm::zip_equal(op->getOperands(), plan->ops[op].operands)) {
    AxisList cutting;
    for (const AxisList &list : need.dims)
      cutting.append(list.begin(), list.end());
    llvm::sort(cutting);
    groups[cutting].push_back(use(value, need, partOf(op), builder, op));
  }
  PlainBuilder p{builder, op->getLoc()};
  Operation *before = &*std::prev(builder.getInsertionPoint());
  Value total;
  for (auto &[list, values] : groups) {
    Value norm = GlobalNormOp::create(builder, op->getLoc(),
                                      op->getResult(0).getType(), values);
    Value square = p.mul(norm, norm);
    if (!list.empty())
      square = spmd::AllReduceOp::create(
          builder, op->getLoc(), square.getType(), ReduceKind::Sum, square,
          axesAttr(builder.getContext(), plan->axes, list));
    total = total ? p.add(total, square) : square;
  }
  Value root = p.sqrt(total);
  for (Operation *made = before->getNextNode(); made;
       made = made->getNextNode()) {
    if (PhaseAttr phase = getPhase(op); phase && !getPhase(made))
      made->setAttr(kPhaseAttrName, phase);
    if (made == root.getDefiningOp())
      break;
  }
  function.define(op->getResult(0), root, Layout::whole(0));
}

void ProgramWriter::writeOp(Operation *op, FunctionWriter &function,
                            OpBuilder &builder) {
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return writeRepeat(repeat, function, builder);
  const OpLayouts &layouts = plan->ops[op];
  auto isCut = [](const Layout &layout) {
    return llvm::any_of(layout.dims,
                        [](const AxisList &list) { return !list.empty(); });
  };
  if (auto iface = dyn_cast<FactorOpInterface>(op);
      iface && llvm::any_of(layouts.operands, isCut) &&
      sumsSquares(iface.getFactors()))
    return writeNorm(op, function, builder);
  Operation *top = op;
  while (top->getParentOp() && !isa<ModelOp>(top->getParentOp()))
    top = top->getParentOp();
  llvm::SmallVector<Value> operands;
  for (auto [value, need] :
       llvm::zip_equal(op->getOperands(), layouts.operands))
    operands.push_back(use(value, need, partOf(top), builder, op));
  cloneLocal(op, operands, function, builder);
}

void ProgramWriter::writeOps(ModelOp from) {
  for (Operation &op : from.getBody().front().without_terminator()) {
    if (isSource(&op))
      continue;
    Part part = partOf(&op);
    if (evaluating && part == Part::Prologue)
      continue; // It is there already.
    FunctionWriter &function = functionOf(part);
    OpBuilder builder = function.atEnd();
    writeOp(&op, function, builder);
  }
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

spmd::OutputOp ProgramWriter::outputFor(ReturnOp end, unsigned index,
                                        bool sum) {
  Value value = end.getValues()[index];
  llvm::StringRef label = getResultLabel(value);
  std::string name = "metric" + std::to_string(index);
  if (index == 0)
    name = "loss";
  else if (label == "grad norm")
    name = "grad_norm";
  if (Operation *known = SymbolTable::lookupSymbolIn(program, name))
    return cast<spmd::OutputOp>(known);
  OpBuilder builder(program.getContext());
  builder.setInsertionPoint(functions.begin()->second.getFunc());
  StringAttr shown =
      index && label != "value" ? builder.getStringAttr(label) : StringAttr();
  return spmd::OutputOp::create(builder, value.getLoc(), name,
                                sum ? spmd::OutputKind::Sum
                                    : spmd::OutputKind::Last,
                                shown, value.getType());
}

void ProgramWriter::writeOutputs(ReturnOp end) {
  const OpLayouts &layouts = plan->ops[end];
  for (auto [index, value] : llvm::enumerate(end.getValues())) {
    Part part = partOf(value);
    if (evaluating)
      part = Part::Evaluate;
    OpBuilder builder = functionOf(part).atEnd();
    bool sum = !layouts.operands[index].sums.empty();
    Value local = use(value, layouts.operands[index], part, builder, end);
    // Close to the value: it need not live to the end of the function.
    builder.setInsertionPointAfterValue(local);
    spmd::OutputOp output = outputFor(end, index, sum);
    if (sum)
      spmd::AccumulateOp::create(builder, value.getLoc(), local,
                                 output.getSymName());
    else
      spmd::WriteOp::create(builder, value.getLoc(), local,
                            output.getSymName());
  }
}

LogicalResult ProgramWriter::writeEvaluation() {
  IRMapping toCopy;
  OwningOpRef<ModelOp> copy = makeEvaluation(model, toCopy);
  auto planned = planModel(*copy);
  if (failed(planned)) {
    mlir::emitRemark(model.getLoc())
        << "this is about the evaluation of the loss, without dropout";
    return failure();
  }
  for (auto [from, to] : toCopy.getValueMap())
    origins.map(to, from);
  // What the prologue made is there under its original name.
  plan = &*planned;
  evaluating = true;
  writeOps(*copy);
  writeOutputs(copy->getReturn());
  plan = &trained;
  evaluating = false;
  return success();
}

/// Erases what was made for an op that then did not need it: offsets.
static void dropDead(Block &block) {
  for (Operation *op = &block.back(), *before; op; op = before) {
    before = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
  }
}

LogicalResult ProgramWriter::run() {
  OpBuilder builder(model);
  PlanAttr attr = getPlan(model);
  program = spmd::ProgramOp::create(builder, model.getLoc(), model.getSymName(),
                                    attr.getMesh(), attr.getMicroBatches(), 1);
  program.getBody().emplaceBlock();
  program->setAttr(kPlanAttrName, attr);
  declareInputs();
  declareParams();
  findSplit();
  for (Part part :
       {Part::Prologue, Part::Forward, Part::Backward, Part::Update})
    functionOf(part);
  writeOps(model);
  writeOutputs(model.getReturn());
  if (failed(writeEvaluation()))
    return failure();
  for (auto &[part, function] : functions) {
    Block &body = function.getFunc().getBody().front();
    dropDead(body);
    if (body.getOperations().size() == 1)
      function.getFunc().erase();
  }
  model.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// What cannot be written yet
//===----------------------------------------------------------------------===//

/// Refuses, each by name, what of a plan no program can be written for.
static LogicalResult checkPlan(ModelOp model, PlanAttr plan) {
  bool fine = true;
  auto refuse = [&](const llvm::Twine &what, llvm::StringRef instead) {
    fine = false;
    model.emitOpError("is planned with " + what +
                      ", which no program can be written for yet")
            .attachNote()
        << "plan again with " << instead;
  };
  int64_t stages = plan.getStageCount();
  if (stages > 1)
    refuse(llvm::Twine(stages) + " pipeline stages", "pp=1");
  if (plan.getChunks() > 1)
    refuse(llvm::Twine(plan.getChunks()) + " chunks per stage", "chunks=1");
  if (plan.getZero() > 0)
    refuse("zero = " + llvm::Twine(plan.getZero()), "zero=0");
  return success(fine);
}

/// The same for the ways in which ops work.
static LogicalResult checkWays(ModelOp model, const PlannedModel &plan) {
  bool fine = true;
  model.getBody().walk([&](FactorOpInterface op) {
    auto known = plan.assignments.find(op);
    if (known == plan.assignments.end())
      return;
    auto refuse = [&](const llvm::Twine &what) {
      fine = false;
      op.emitOpError() << "is planned " << what
                       << ", which no program can be written for yet";
    };
    const Assignment &assignment = known->second;
    Factors facts = op.getFactors();
    for (unsigned variant : assignment.variants)
      refuse("by its variant '" + facts.variants[variant].name + "'");
    if (assignment.blocks > 1)
      refuse("in parts of " + llvm::Twine(assignment.blocks) + " blocks");
    if (assignment.routed)
      refuse("with rows that go where data says");
  });
  return success(fine);
}

/// Micro-batches are slices of a rank's inputs.
static LogicalResult checkInputs(ModelOp model, const PlannedModel &plan) {
  unsigned micro = plan.axes.micro();
  for (BlockArgument input : model.getBody().getArguments())
    for (const AxisList &list : plan.values.lookup(input).dims)
      if (llvm::is_contained(list, micro) && list.back() != micro)
        return mlir::emitError(input.getLoc())
               << "input is cut as "
               << printLayout(plan.values.lookup(input), plan.axes)
               << ", which no program can be written for yet";
  return success();
}

namespace {
struct PartitionPass : public kerf::impl::PartitionPassBase<PartitionPass> {
  void runOnOperation() override {
    for (ModelOp model : llvm::to_vector(getOperation().getOps<ModelOp>())) {
      auto plan = planModel(model);
      if (failed(plan) || failed(checkPlan(model, getPlan(model))) ||
          failed(checkWays(model, *plan)) ||
          failed(checkInputs(model, *plan)) ||
          failed(ProgramWriter(model, std::move(*plan)).run()))
        return signalPassFailure();
    }
  }
};
} // namespace
