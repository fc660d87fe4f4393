//===- Differentiate.cpp - reverse mode over a model ----------------------===//
//
// Problem: from the ops that compute the loss, build ops that compute its
// gradient with respect to every trainable parameter.
//
// Idea: walk the ops backwards and let each hand over the gradients of its
// operands (`GradientOpInterface`). A repeat is differentiated by a reverse
// repeat whose body is the gradient of its body.
//
// Steps for a repeat:
//   1. The gradients of the carried results enter the reverse repeat as its
//      carried values; those of stacked results as slices. Values from outside
//      that the body reads, and parameters shared by the iterations, are
//      carried accumulators that start at zero.
//   2. The body is differentiated as any block, reading forward values freely.
//   3. Gradients of per-iteration parameters are yielded as stacks.
//   4. A forward value read by the reverse body becomes a stacked result of the
//      forward repeat and a slice of the reverse one; what costs nothing
//      (parameters, constants, the iteration number) is recomputed instead, and
//      so is what frozen parameters alone make.
//
// Example: y = repeat 3 (h = x) { yield exp(h) } becomes
//   y, s = repeat 0 to 3 (h = x) { e = exp(h); yield e stack(e) }
//   dx   = repeat reverse 0 to 3 (d = dy) slices(e = s) { yield d * e }
//
// Cost: one visit per op; the number of ops grows by a constant factor.
//
//===----------------------------------------------------------------------===//

#include "Activity.h"
#include "Gradients.h"

#include "kerf/Dialect/Kerf/Constants.h"
#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Differentiate/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "differentiate"

using namespace mlir;
using namespace kerf;

namespace {
/// One carried gradient of a reverse repeat: of a carried value, of a value
/// from outside, or of a parameter that all iterations share.
struct Accumulator {
  Value target;     ///< carried argument or outside value; null for a parameter
  StringAttr param; ///< name of a shared parameter
  Type type;
};

/// A repeat and the reverse repeat under construction.
struct ReverseRepeat {
  RepeatOp forward, reverse;
  llvm::SmallVector<unsigned> carried; ///< active carried values, by number
  llvm::SmallVector<unsigned> stacked; ///< stacked results with a gradient
  llvm::SmallVector<Accumulator> outside;
  llvm::SmallVector<unsigned> slices; ///< active slice operands
  /// Per-iteration parameters and their number among the stacked gradients.
  llvm::SmallVector<std::pair<StringAttr, unsigned>> paramStacks;
  llvm::MapVector<StringAttr, llvm::SmallVector<ParamOp>> own, shared;
};
} // namespace

namespace {

/// What is shared by all scopes of one model.
struct Context {
  Activity activity;
  ParamGradients params;
  /// Replaced ops; erased at the end so that values keep their identity.
  llvm::SmallVector<Operation *> dead;
};

/// Gradients of the values of one block (the model's, or a repeat's body).
class Scope : public GradientBuilder {
public:
  Scope(Context &context, OpBuilder builder) : context(context), ops(builder) {}

  OpBuilder &builder() override { return ops; }
  Value of(Value result) override;
  bool has(Value result) override { return bool(lookup(result)); }
  bool needs(Value operand) override {
    return context.activity.isActive(operand);
  }
  void add(Value operand, Value gradient) override;
  void replaceForward(Operation *op, Operation *replacement) override;

  /// Differentiates the ops of `block`, last to first.
  LogicalResult run(Block &block);

  /// The gradient handed over so far, or null.
  Value lookup(Value value) const { return gradients.lookup(value); }

private:
  LogicalResult visit(Operation *op);
  LogicalResult visitRepeat(RepeatOp repeat);
  LogicalResult buildReverseBody(ReverseRepeat &r);
  Value sumReads(llvm::ArrayRef<ParamOp> params, Value sum);
  void setPhases(Operation *before, int64_t forwardOp);

  Context &context;
  OpBuilder ops;
  llvm::DenseMap<Value, Value> gradients;
  /// Gradients handed over for values that are no weights, since the last op.
  llvm::SmallVector<Value> inputGradients;
};

} // namespace

//===----------------------------------------------------------------------===//
// Gradients of values
//===----------------------------------------------------------------------===//

Value Scope::of(Value result) {
  if (Value known = lookup(result))
    return known;
  PlainBuilder p{ops, result.getLoc()};
  return p.constant(result.getType(), 0.0);
}

void Scope::add(Value operand, Value gradient) {
  if (!needs(operand))
    return;
  PlainBuilder p{ops, gradient.getLoc()};
  // An op may mix element types: its gradient comes in the result's.
  gradient = p.cast(gradient, typeOf(operand).getElementType());
  assert(operand.getType() == gradient.getType() &&
         "a gradient has its value's shape");
  Value &known = gradients[operand];
  known = known ? p.add(known, gradient) : gradient;
  if (!context.activity.isWeight(operand))
    inputGradients.push_back(known);
}

void Scope::replaceForward(Operation *op, Operation *replacement) {
  if (PhaseAttr phase = getPhase(op))
    replacement->setAttr(kPhaseAttrName, phase);
  for (auto [from, to] :
       llvm::zip(op->getResults(), replacement->getResults())) {
    context.activity.copy(from, to);
    if (Value gradient = lookup(from))
      gradients[to] = gradient;
    from.replaceAllUsesWith(to);
  }
  context.dead.push_back(op);
}

/// Tags the ops made for one forward op: those that an input's gradient depends
/// on belong to the input gradient, the others to the weight gradient.
void Scope::setPhases(Operation *before, int64_t forwardOp) {
  llvm::SmallPtrSet<Operation *, 16> made;
  Block *block = ops.getInsertionBlock();
  Operation *first = before ? before->getNextNode() : &block->front();
  for (Operation *op = first; op && op != &*ops.getInsertionPoint();
       op = op->getNextNode())
    made.insert(op);
  llvm::SmallVector<Value> worklist(inputGradients);
  inputGradients.clear();
  llvm::SmallPtrSet<Operation *, 16> inputOps;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || !made.contains(op) || !inputOps.insert(op).second)
      continue;
    llvm::append_range(worklist, op->getOperands());
  }
  for (Operation *op : made) {
    PhaseKind kind = inputOps.contains(op) || isa<RepeatOp>(op)
                         ? PhaseKind::InputGradient
                         : PhaseKind::WeightGradient;
    setPhase(op, kind, forwardOp);
  }
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult Scope::run(Block &block) {
  llvm::SmallVector<Operation *> order;
  for (Operation &op : block.without_terminator())
    order.push_back(&op);
  for (Operation *op : llvm::reverse(order))
    if (failed(visit(op)))
      return failure();
  return success();
}

/// The op that the insertion point follows, or null at a block's begin.
static Operation *lastOp(OpBuilder &builder) {
  Block *block = builder.getInsertionBlock();
  auto point = builder.getInsertionPoint();
  return point == block->begin() ? nullptr : &*std::prev(point);
}

LogicalResult Scope::visit(Operation *op) {
  bool reached = llvm::any_of(op->getResults(), [&](Value result) {
    return needs(result) && lookup(result);
  });
  if (!reached || isa<ParamOp>(op))
    return success();
  PhaseAttr phase = getPhase(op);
  int64_t forwardOp = phase ? phase.getOp() : -1;
  Operation *before = lastOp(ops);
  inputGradients.clear();
  if (auto repeat = dyn_cast<RepeatOp>(op)) {
    if (failed(visitRepeat(repeat)))
      return failure();
  } else if (auto gradient = dyn_cast<GradientOpInterface>(op)) {
    if (failed(gradient.buildGradient(*this)))
      return failure();
  } else {
    auto diagnostic = op->emitOpError(
        "has no gradient, but a trainable parameter reaches the loss "
        "through it");
    diagnostic.attachNote() << "mark the parameters before it 'frozen', or use "
                               "an op with a gradient";
    return diagnostic;
  }
  setPhases(before, forwardOp);
  return success();
}

//===----------------------------------------------------------------------===//
// Repeats
//===----------------------------------------------------------------------===//

/// Trainable parameters of the body, per iteration and shared.
static void collectParams(ReverseRepeat &r) {
  for (ParamOp param : r.forward.getBody().getOps<ParamOp>()) {
    if (param.getFrozen())
      continue;
    auto &list = param.isPerIteration() ? r.own : r.shared;
    list[param.getNameAttr()].push_back(param);
  }
}

/// Creates the reverse repeat with empty body: arguments are the iteration, the
/// carried gradients, the accumulators and the stacked gradients.
static void createReverse(ReverseRepeat &r, Scope &outer) {
  OpBuilder &builder = outer.builder();
  Location loc = r.forward.getLoc();
  PlainBuilder p{builder, loc};
  llvm::SmallVector<Value> inits, slices;
  for (unsigned k : r.carried)
    inits.push_back(outer.of(r.forward.getCarryResults()[k]));
  for (const Accumulator &accumulator : r.outside)
    inits.push_back(p.constant(accumulator.type, 0.0));
  for (unsigned k : r.stacked)
    slices.push_back(outer.of(r.forward.getStackResults()[k]));
  r.reverse =
      RepeatOp::create(builder, loc, TypeRange(ValueRange(inits)), inits,
                       slices, r.forward.getStart(), r.forward.getEnd(),
                       !r.forward.getReverse(), r.forward.getPairAttr());
  Block &body = r.reverse.getBody().emplaceBlock();
  body.addArgument(r.forward.getIndex().getType(), loc);
  for (Value init : inits)
    body.addArgument(init.getType(), loc);
  for (Value slice : slices)
    body.addArgument(
        withShape(slice.getType(), typeOf(slice).getShape().drop_front()), loc);
}

/// Redirects the reverse body's reads of forward values.
class SavedValues {
public:
  explicit SavedValues(ReverseRepeat &r) : r(r) {}

  /// A new slice argument of the reverse body: of a stack that the forward
  /// repeat reads itself, or else of a forward value that is to be stacked.
  struct NewSlice {
    Value stack, value;
  };

  llvm::SmallVector<NewSlice> capture() {
    r.reverse.getBody().walk([&](Operation *op) {
      for (OpOperand &operand : op->getOpOperands())
        if (operand.get().getParentBlock() == &r.forward.getBody().front())
          operand.set(mirror(operand.get(), op));
    });
    return slices;
  }

private:
  /// The value of the reverse body that stands for a forward value, made for
  /// `reader`.
  Value mirror(Value value, Operation *reader) {
    if (Value known = mirrors.lookup(value))
      return known;
    Operation *op = value.getDefiningOp();
    bool isSource = op && op->getNumOperands() == 0;
    Value made =
        value == r.forward.getIndex() ? r.reverse.getIndex()
        : op && op->getNumResults() == 1 &&
                (isSource || isMadeOfFrozen(value) || isMadeOfConstants(value))
            ? makeAgain(op, reader)
            : slice(value);
    return mirrors[value] = made;
  }

  /// A copy of a forward op: at the start if it reads nothing, else where it is
  /// needed, so that a large result does not live longer.
  Value makeAgain(Operation *op, Operation *reader) {
    OpBuilder builder(reader);
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, mirror(operand, reader));
    if (op->getNumOperands() == 0)
      builder.setInsertionPointToStart(&r.reverse.getBody().front());
    Operation *again = builder.clone(*op, operands);
    if (PhaseAttr phase = getPhase(op))
      setPhase(again, PhaseKind::InputGradient, phase.getOp());
    if (op->getNumOperands() > 0)
      setRecomputed(again);
    return again->getResult(0);
  }

  /// A slice argument of the reverse body for a forward value.
  Value slice(Value value) {
    Value known = r.reverse.getBody().front().addArgument(value.getType(),
                                                          value.getLoc());
    auto arg = dyn_cast<BlockArgument>(value);
    unsigned firstSlice = 1 + r.forward.getInits().size();
    if (arg && arg.getArgNumber() >= firstSlice)
      slices.push_back(
          {r.forward.getSlices()[arg.getArgNumber() - firstSlice], Value()});
    else
      slices.push_back({Value(), value});
    return known;
  }

  ReverseRepeat &r;
  llvm::DenseMap<Value, Value> mirrors;
  llvm::SmallVector<NewSlice> slices;
};

/// Lets the forward repeat stack `values` too, as far as it does not yet;
/// returns their stacks.
static llvm::SmallVector<Value> stackForward(ReverseRepeat &r, Scope &outer,
                                             llvm::ArrayRef<Value> values) {
  RepeatOp old = r.forward;
  YieldOp yield = old.getYield();
  llvm::SmallVector<unsigned> numbers; // of the values among the stacked ones
  for (Value value : values) {
    OperandRange stacked = yield.getStacked();
    numbers.push_back(llvm::find(stacked, value) - stacked.begin());
    if (numbers.back() == stacked.size())
      yield.getStackedMutable().append(value);
  }
  if (yield.getStacked().size() != old.getStackResults().size()) {
    OpBuilder builder(old);
    r.forward =
        RepeatOp::create(builder, old.getLoc(), old.inferResultTypes(),
                         old.getInits(), old.getSlices(), old.getStart(),
                         old.getEnd(), old.getReverse(), old.getPairAttr());
    r.forward.getBody().takeBody(old.getBody());
    outer.replaceForward(old, r.forward);
  }
  return llvm::map_to_vector(numbers, [&](unsigned n) -> Value {
    return r.forward.getStackResults()[n];
  });
}

/// What the gradient of `repeat` needs, before anything is built.
static ReverseRepeat analyze(RepeatOp repeat, Scope &outer) {
  ReverseRepeat r;
  r.forward = repeat;
  collectParams(r);
  for (auto [k, arg] : llvm::enumerate(repeat.getCarryArgs()))
    if (outer.needs(arg))
      r.carried.push_back(k);
  for (auto [k, result] : llvm::enumerate(repeat.getStackResults()))
    if (outer.needs(result) && outer.lookup(result))
      r.stacked.push_back(k);
  for (auto [k, stack] : llvm::enumerate(repeat.getSlices()))
    if (outer.needs(stack))
      r.slices.push_back(k);
  llvm::SetVector<Value> outside;
  getUsedValuesDefinedAbove(repeat.getBody(), outside);
  for (Value value : outside)
    if (outer.needs(value))
      r.outside.push_back({value, StringAttr(), value.getType()});
  for (auto &[name, params] : r.shared)
    r.outside.push_back({Value(), name, params.front().getResult().getType()});
  return r;
}

/// `sum` plus the gradients of several reads of one parameter.
Value Scope::sumReads(llvm::ArrayRef<ParamOp> params, Value sum) {
  for (ParamOp param : params)
    if (Value gradient = lookup(param.getResult()))
      sum =
          sum ? PlainBuilder{ops, param.getLoc()}.add(sum, gradient) : gradient;
  return sum;
}

/// Builds the body of the reverse repeat, yield included; fills
/// `r.paramStacks`.
LogicalResult Scope::buildReverseBody(ReverseRepeat &r) {
  Block &body = r.reverse.getBody().front();
  OpBuilder builder(body.getParentOp()->getContext());
  builder.setInsertionPointToEnd(&body);
  Scope inner(context, builder);
  YieldOp yield = r.forward.getYield();
  unsigned next = 1;
  for (unsigned k : r.carried)
    inner.add(yield.getCarried()[k], body.getArgument(next++));
  llvm::SmallVector<Value> accumulators;
  for (const Accumulator &accumulator : r.outside) {
    accumulators.push_back(body.getArgument(next++));
    if (accumulator.target)
      inner.add(accumulator.target, accumulators.back());
  }
  for (unsigned k : r.stacked)
    inner.add(yield.getStacked()[k], body.getArgument(next++));
  // A value yielded twice has the sum of two gradients.
  inner.setPhases(nullptr, getPhase(yield).getOp());
  if (failed(inner.run(r.forward.getBody().front())))
    return failure();

  Operation *before = lastOp(inner.ops);
  inner.inputGradients.clear();
  llvm::SmallVector<Value> carried, stacked;
  for (unsigned k : r.carried)
    carried.push_back(inner.of(r.forward.getCarryArgs()[k]));
  for (auto [accumulator, arg] : llvm::zip(r.outside, accumulators))
    carried.push_back(accumulator.target
                          ? inner.of(accumulator.target)
                          : inner.sumReads(r.shared[accumulator.param], arg));
  for (auto &[name, params] : r.own)
    if (Value gradient = inner.sumReads(params, Value())) {
      r.paramStacks.emplace_back(name, stacked.size());
      stacked.push_back(gradient);
    }
  for (unsigned k : r.slices)
    stacked.push_back(inner.of(r.forward.getSliceArgs()[k]));
  auto end = YieldOp::create(inner.ops, r.forward.getLoc(), carried, stacked);
  inner.setPhases(before, -1);
  setPhase(end, PhaseKind::InputGradient, getPhase(yield).getOp());
  return success();
}

/// Hands the forward values that the reverse body reads across, as stacks, and
/// gives the reverse repeat its results.
static void connect(ReverseRepeat &r, Scope &outer) {
  auto slices = SavedValues(r).capture();
  llvm::SmallVector<Value> toStack;
  for (auto [stack, value] : slices)
    if (!stack)
      toStack.push_back(value);
  llvm::SmallVector<Value> stacks = stackForward(r, outer, toStack);
  auto nextStack = stacks.begin();
  for (auto [stack, value] : slices)
    r.reverse.getSlicesMutable().append(stack ? stack : *nextStack++);
  RepeatOp old = r.reverse;
  OpBuilder builder(old);
  r.reverse =
      RepeatOp::create(builder, old.getLoc(), old.inferResultTypes(),
                       old.getInits(), old.getSlices(), old.getStart(),
                       old.getEnd(), old.getReverse(), old.getPairAttr());
  r.reverse.getBody().takeBody(old.getBody());
  old.erase();
}

LogicalResult Scope::visitRepeat(RepeatOp repeat) {
  ReverseRepeat r = analyze(repeat, *this);
  createReverse(r, *this);
  if (failed(buildReverseBody(r)))
    return failure();
  connect(r, *this);
  unsigned result = 0;
  for (unsigned k : r.carried)
    add(r.forward.getInits()[k], r.reverse.getResult(result++));
  for (const Accumulator &accumulator : r.outside) {
    Value gradient = r.reverse.getResult(result++);
    if (accumulator.target)
      add(accumulator.target, gradient);
    else
      context.params.add(ops, {accumulator.param, {}, {}, gradient});
  }
  for (auto &[name, at] : r.paramStacks)
    context.params.add(ops, {name, repeat.getStart(), repeat.getEnd(),
                             r.reverse.getStackResults()[at]});
  for (auto [n, k] : llvm::enumerate(r.slices))
    add(r.forward.getSlices()[k],
        r.reverse.getStackResults()[r.paramStacks.size() + n]);
  return success();
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// Numbers the forward ops and pairs the repeats.
static void numberForwardOps(ModelOp model) {
  int64_t next = 0;
  Builder builder(model.getContext());
  model.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto repeat = dyn_cast<RepeatOp>(op))
      repeat.setPairAttr(builder.getI64IntegerAttr(next));
    setPhase(op, PhaseKind::Forward, next++);
  });
}

/// Erases gradient ops whose results nobody reads.
static void eraseDead(ModelOp model) {
  // Last to first: the readers of an op are gone before it is looked at.
  model.getBody().walk<WalkOrder::PreOrder, ReverseIterator>([](Operation *op) {
    PhaseAttr phase = getPhase(op);
    if (!phase || phase.getKind() == PhaseKind::Forward || !op->use_empty() ||
        !isPure(op) || op->hasTrait<OpTrait::IsTerminator>())
      return WalkResult::advance();
    op->erase();
    return WalkResult::skip();
  });
}

static LogicalResult checkInput(ModelOp model) {
  if (!isa_and_nonnull<OptimizerRuleInterface>(model->getAttr("optimizer"))) {
    auto diagnostic = model.emitOpError("has no optimizer");
    diagnostic.attachNote()
        << "write attributes {optimizer = #kerf.adamw<>} after its inputs";
    return diagnostic;
  }
  WalkResult walk = model.getBody().walk([&](Operation *op) {
    if (!isa<UpdateOp>(op) && !getPhase(op))
      return WalkResult::advance();
    op->emitOpError("is part of a training step: the model is differentiated "
                    "already");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// The gradient of the loss by itself: 1, or the factor on the loss.
static Value makeSeed(OpBuilder &builder, Value loss, Value lossScale) {
  PlainBuilder p{builder, loss.getLoc()};
  Value seed = lossScale ? p.cast(lossScale, typeOf(loss).getElementType())
                         : p.constant(loss.getType(), 1.0);
  if (Operation *maker = seed.getDefiningOp())
    setPhase(maker, PhaseKind::InputGradient, -1);
  return seed;
}

/// What was taken as a constant is what it was.
static void removeStops(ModelOp model) {
  model.getBody().walk([](GradientOpInterface op) {
    if (!op.stopsGradient())
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

LogicalResult kerf::differentiate(ModelOp model, bool scaleLoss) {
  if (failed(checkInput(model)) || failed(checkNames(model)))
    return failure();
  numberForwardOps(model);
  Context context{Activity(model), {}, {}};
  OpBuilder builder(model.getReturn());
  Scope scope(context, builder);
  Value loss = model.getReturn().getValues().front();
  Value lossScale;
  if (scaleLoss)
    lossScale = model.getOrAddInput(
        "loss_scale", RankedTensorType::get({}, builder.getF32Type()));
  scope.add(loss, makeSeed(builder, loss, lossScale));
  if (failed(scope.run(model.getBody().front())))
    return failure();
  for (ParamOp param : model.getBody().getOps<ParamOp>())
    if (Value gradient = scope.lookup(param.getResult()))
      context.params.add(builder, {param.getNameAttr(), {}, {}, gradient});
  for (Operation *op : context.dead)
    op->erase();
  if (failed(appendUpdates(model, context.params, lossScale)))
    return failure();
  removeStops(model);
  eraseDead(model);
  LDBG() << model.getSymName() << ": " << context.params.get().size()
         << " parameters have a gradient and an update";
  return success();
}
