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

/// Replaces `repeat` by two repeats; `low` and `high` are its iterations before
/// and from the split.
static void splitRepeat(RepeatOp repeat, const Part &low, const Part &high) {
  OpBuilder builder(repeat);
  bool reverse = repeat.getReverse();
  RepeatOp first =
      clonePart(builder, repeat, repeat.getInits(), reverse ? high : low);
  RepeatOp second =
      clonePart(builder, repeat, first.getCarryResults(), reverse ? low : high);
  RepeatOp lower = reverse ? second : first, upper = reverse ? first : second;
  llvm::SmallVector<Value> results(second.getCarryResults());
  for (auto [a, b] :
       llvm::zip(lower.getStackResults(), upper.getStackResults())) {
    PlainBuilder p{builder, repeat.getLoc()};
    results.push_back(p.concat(0, {a, b}));
    copyPhase(repeat, results.back().getDefiningOp());
  }
  repeat.replaceAllUsesWith(results);
  repeat.erase();
}

/// An update of concatenated stacks becomes one update per stack.
static void splitUpdate(UpdateOp update) {
  auto concat = update.getGradient().getDefiningOp<ConcatOp>();
  if (!concat || concat.getDim() != 0 || !update.getStart())
    return;
  OpBuilder builder(update);
  int64_t start = *update.getStart();
  for (Value stack : concat.getInputs()) {
    auto part = cast<UpdateOp>(builder.clone(*update));
    int64_t end = start + typeOf(stack).getDimSize(0);
    part.getGradientMutable().assign(stack);
    part.setStart(start);
    part.setEnd(end);
    start = end;
    splitUpdate(part); // A stack may be a concatenation itself.
  }
  update.erase();
}

/// The norm of a concatenation is the norm of its parts.
static void splitNorm(GlobalNormOp norm) {
  llvm::SmallVector<Value> gradients(norm.getGradients());
  for (size_t i = 0; i < gradients.size();) {
    auto concat = gradients[i].getDefiningOp<ConcatOp>();
    if (!concat) {
      ++i;
      continue;
    }
    gradients.erase(gradients.begin() + i);
    gradients.insert(gradients.begin() + i, concat.getInputs().begin(),
                     concat.getInputs().end());
  }
  norm.getGradientsMutable().assign(gradients);
}

static int64_t nextPair(ModelOp model) {
  int64_t next = 0;
  for (RepeatOp repeat : model.getBody().getOps<RepeatOp>())
    next = std::max<int64_t>(next, repeat.getPair().value_or(-1) + 1);
  return next;
}

static void splitModel(ModelOp model, int64_t at) {
  // The upper halves of a pair get one new number.
  llvm::DenseMap<int64_t, int64_t> upperPairs;
  int64_t fresh = nextPair(model);
  auto repeats = llvm::to_vector(model.getBody().getOps<RepeatOp>());
  for (RepeatOp repeat : repeats) {
    int64_t start = repeat.getStart(), end = repeat.getEnd();
    if (at <= start || at >= end)
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
  for (UpdateOp update : llvm::to_vector(model.getBody().getOps<UpdateOp>()))
    splitUpdate(update);
  for (GlobalNormOp norm : model.getBody().getOps<GlobalNormOp>())
    splitNorm(norm);
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(model.getBody().front())))
    if (isa<ConcatOp, SliceOp>(op) && op.use_empty())
      op.erase();
}

namespace {
struct SplitRepeatPass
    : public kerf::impl::SplitRepeatPassBase<SplitRepeatPass> {
  using SplitRepeatPassBase::SplitRepeatPassBase;

  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      for (int64_t iteration : at)
        splitModel(model, iteration);
  }
};
} // namespace
