#include "SplitRepeat.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Differentiate/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_SPLITREPEATPASS
#include "kerf/Differentiate/Passes.h.inc"
} // namespace kerf

namespace {
/// Iterations [start, end) of a repeat that is being split.
struct Part {
  int64_t start, end;
  std::optional<int64_t> pair;
};
} // namespace

static void copyPhase(Operation *from, Operation *to) {
  if (to && getPhase(from) && !getPhase(to))
    to->setAttr(kPhaseAttrName, getPhase(from));
}

/// Iterations of a stacked value that belong to `part`; the operand of a
/// concatenation itself where it is exactly that.
static Value takePart(OpBuilder &builder, RepeatOp repeat, Value stack,
                      const Part &part) {
  llvm::SmallVector<int64_t> offsets(typeOf(stack).getRank(), 0);
  llvm::SmallVector<int64_t> sizes(typeOf(stack).getShape());
  offsets[0] = part.start - repeat.getStart();
  sizes[0] = part.end - part.start;
  Value taken =
      builder.createOrFold<SliceOp>(repeat.getLoc(), stack, offsets, sizes);
  copyPhase(repeat, taken.getDefiningOp());
  return taken;
}

/// A repeat over `part` with a copy of the body.
static RepeatOp clonePart(OpBuilder &builder, RepeatOp repeat, ValueRange inits,
                          const Part &part) {
  llvm::SmallVector<Value> slices;
  for (Value stack : repeat.getSlices())
    slices.push_back(takePart(builder, repeat, stack, part));
  llvm::SmallVector<Type> types(repeat.getCarryResults().getTypes());
  for (Value stack : repeat.getStackResults()) {
    llvm::SmallVector<int64_t> shape(typeOf(stack).getShape());
    shape[0] = part.end - part.start;
    types.push_back(withShape(stack.getType(), shape));
  }
  auto pair = part.pair ? builder.getI64IntegerAttr(*part.pair) : IntegerAttr();
  auto half = RepeatOp::create(builder, repeat.getLoc(), types, inits, slices,
                               part.start, part.end, repeat.getReverse(), pair);
  IRMapping mapping;
  repeat.getBody().cloneInto(&half.getBody(), mapping);
  copyPhase(repeat, half);
  return half;
}

/// True when carried value `k` only sums: its argument enters a chain of adds
/// that ends in the next value, and nothing else reads them.
static bool isAccumulator(RepeatOp repeat, unsigned k) {
  Value arg = repeat.getCarryArgs()[k];
  Value sum = repeat.getYield().getCarried()[k];
  while (sum.hasOneUse()) {
    auto add = sum.getDefiningOp<AddOp>();
    if (!add)
      return false;
    if (add.getLhs() == arg || add.getRhs() == arg)
      return arg.hasOneUse();
    sum = add.getLhs(); // Sums grow on the right.
  }
  return false;
}

/// What the second half starts from: the first half's carried results, but zero
/// for accumulators, so that the halves do not wait for each other's sums.
static llvm::SmallVector<Value> initsOfSecond(OpBuilder &builder,
                                              RepeatOp repeat, RepeatOp first) {
  PlainBuilder p{builder, repeat.getLoc()};
  llvm::SmallVector<Value> inits(first.getCarryResults());
  for (auto [k, init] : llvm::enumerate(inits)) {
    if (!isAccumulator(repeat, k))
      continue;
    init = p.constant(init.getType(), 0.0);
    copyPhase(repeat, init.getDefiningOp());
  }
  return inits;
}

/// Replaces `repeat` by two repeats; `low` and `high` are its iterations before
/// and from the split.
static void splitRepeat(RepeatOp repeat, const Part &low, const Part &high) {
  OpBuilder builder(repeat);
  PlainBuilder p{builder, repeat.getLoc()};
  bool reverse = repeat.getReverse();
  RepeatOp first =
      clonePart(builder, repeat, repeat.getInits(), reverse ? high : low);
  RepeatOp second =
      clonePart(builder, repeat, initsOfSecond(builder, repeat, first),
                reverse ? low : high);
  RepeatOp lower = reverse ? second : first, upper = reverse ? first : second;
  llvm::SmallVector<Value> results(second.getCarryResults());
  for (auto [k, result] : llvm::enumerate(results)) {
    if (!isAccumulator(repeat, k))
      continue;
    result = p.add(first.getCarryResults()[k], result);
    copyPhase(repeat, result.getDefiningOp());
  }
  for (auto [a, b] :
       llvm::zip(lower.getStackResults(), upper.getStackResults())) {
    results.push_back(p.concat(0, {a, b}));
    copyPhase(repeat, results.back().getDefiningOp());
  }
  repeat.replaceAllUsesWith(results);
  repeat.erase();
}

/// True when rows (dimension 0) of the result follow from the same rows of the
/// operands.
static bool worksByRow(Operation *op) {
  auto factors = dyn_cast<FactorOpInterface>(op);
  if (!factors || op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      isa<LocalizeOpInterface>(op) || typeOf(op->getResult(0)).getRank() == 0)
    return false;
  Factors facts = factors.getFactors();
  const DimFactors &row = facts.results[0][0];
  return llvm::all_of(row,
                      [&](unsigned f) {
                        return facts.factors[f].kind == FactorKind::Parallel;
                      }) &&
         llvm::all_of(facts.operands, [&](const TensorFactors &dims) {
           return !dims.empty() && dims[0] == row;
         });
}

/// Rows [begin, begin + size) of a value without a slice: an operand of a
/// concatenation, or an op by row on such parts. Null when there is none.
static Value exactRows(OpBuilder &builder, Value value, int64_t begin,
                       int64_t size) {
  if (begin == 0 && typeOf(value).getDimSize(0) == size)
    return value;
  Operation *op = value.getDefiningOp();
  if (auto concat = dyn_cast_or_null<ConcatOp>(op)) {
    for (Value input : concat.getInputs()) {
      int64_t rows = typeOf(input).getDimSize(0);
      if (begin >= 0 && begin + size <= rows && concat.getDim() == 0)
        return exactRows(builder, input, begin, size);
      begin -= rows;
    }
    return {};
  }
  if (!op || !worksByRow(op))
    return {};
  llvm::SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(exactRows(builder, operand, begin, size));
    if (!operands.back())
      return {};
  }
  Operation *part = builder.clone(*op);
  part->setOperands(operands);
  llvm::SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[0] = size;
  part->getResult(0).setType(withShape(value.getType(), shape));
  return part->getResult(0);
}

/// One update of a stack becomes two, where the stack consists of the halves'
/// stacks; the norm reads the same two parts.
static void splitUpdate(UpdateOp update, int64_t at,
                        llvm::ArrayRef<GlobalNormOp> norms) {
  if (!update.getStart() || at <= *update.getStart() || at >= *update.getEnd())
    return;
  Value gradient = update.getGradient();
  int64_t start = *update.getStart(), end = *update.getEnd();
  OpBuilder builder(update);
  if (!norms.empty()) // The norm reads the parts before the update does.
    builder.setInsertionPoint(GlobalNormOp(norms.front()));
  Value low = exactRows(builder, gradient, 0, at - start);
  Value high = exactRows(builder, gradient, at - start, end - at);
  if (!low || !high)
    return;
  builder.setInsertionPoint(update);
  for (auto [part, first, last] :
       {std::tuple(low, start, at), std::tuple(high, at, end)}) {
    auto half = cast<UpdateOp>(builder.clone(*update));
    half.getGradientMutable().assign(part);
    half.setStart(first);
    half.setEnd(last);
  }
  update.erase();
  for (GlobalNormOp norm : norms) {
    llvm::SmallVector<Value> gradients;
    for (Value read : norm.getGradients()) {
      gradients.push_back(read == gradient ? low : read);
      if (read == gradient)
        gradients.push_back(high);
    }
    norm.getGradientsMutable().assign(gradients);
    // Its factors are numbered by the gradients; propagation assigns it again.
    norm->removeAttr(kAssignAttrName);
  }
}

static int64_t nextPair(ModelOp model) {
  int64_t next = 0;
  for (RepeatOp repeat : model.getBody().getOps<RepeatOp>())
    next = std::max<int64_t>(next, repeat.getPair().value_or(-1) + 1);
  return next;
}

/// Erases what the split left without readers.
static void eraseUnread(ModelOp model) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(model.getBody().front())))
    if (op.use_empty() && isPure(&op) &&
        !op.hasTrait<OpTrait::IsTerminator>() && !isa<RepeatOp>(op))
      op.erase();
}

void kerf::splitRepeats(ModelOp model, int64_t at, int64_t onlyPair) {
  // The upper halves of a pair get one new number.
  llvm::DenseMap<int64_t, int64_t> upperPairs;
  int64_t fresh = nextPair(model);
  auto repeats = llvm::to_vector(model.getBody().getOps<RepeatOp>());
  for (RepeatOp repeat : repeats) {
    int64_t start = repeat.getStart(), end = repeat.getEnd();
    bool chosen = onlyPair < 0 || repeat.getPair() == onlyPair;
    if (at <= start || at >= end || !chosen)
      continue;
    std::optional<int64_t> pair, upper;
    if (repeat.getPair()) {
      pair = *repeat.getPair();
      auto [entry, isNew] = upperPairs.try_emplace(*pair, fresh);
      fresh += isNew;
      upper = entry->second;
    }
    splitRepeat(repeat, {start, at, pair}, {at, end, upper});
  }
  auto norms = llvm::to_vector(model.getBody().getOps<GlobalNormOp>());
  for (UpdateOp update : llvm::to_vector(model.getBody().getOps<UpdateOp>()))
    splitUpdate(update, at, norms);
  eraseUnread(model);
}

namespace {
struct SplitRepeatPass
    : public kerf::impl::SplitRepeatPassBase<SplitRepeatPass> {
  using SplitRepeatPassBase::SplitRepeatPassBase;

  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      for (int64_t iteration : at)
        splitRepeats(model, iteration, pair);
  }
};
} // namespace
