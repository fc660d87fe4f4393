#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Differentiate/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_UNROLLREPEATPASS
#include "kerf/Differentiate/Passes.h.inc"
} // namespace kerf

/// Element `at` of a stacked tensor.
static Value elementOf(PlainBuilder &p, Value stack, int64_t at) {
  llvm::SmallVector<int64_t> offsets(typeOf(stack).getRank(), 0);
  llvm::SmallVector<int64_t> sizes(typeOf(stack).getShape());
  offsets[0] = at;
  sizes[0] = 1;
  return p.reshape(p.slice(stack, offsets, sizes),
                   typeOf(stack).getShape().drop_front());
}

/// `x` as a stack of one.
static Value stackOfOne(PlainBuilder &p, Value x) {
  llvm::SmallVector<int64_t> shape = {1};
  llvm::append_range(shape, typeOf(x).getShape());
  return p.reshape(x, shape);
}

static void unroll(RepeatOp repeat) {
  OpBuilder builder(repeat);
  PlainBuilder p{builder, repeat.getLoc()};
  int64_t count = repeat.getCount(), start = repeat.getStart();
  YieldOp yield = repeat.getYield();
  llvm::SmallVector<Value> carried(repeat.getInits());
  llvm::SmallVector<llvm::SmallVector<Value>> stacks(
      yield.getStacked().size(), llvm::SmallVector<Value>(count));
  for (int64_t n = 0; n < count; ++n) {
    int64_t at = repeat.getReverse() ? count - 1 - n : n;
    IRMapping mapping;
    mapping.map(repeat.getIndex(),
                p.constant(repeat.getIndex().getType(), start + at));
    for (auto [arg, value] : llvm::zip(repeat.getCarryArgs(), carried))
      mapping.map(arg, value);
    for (auto [arg, stack] :
         llvm::zip(repeat.getSliceArgs(), repeat.getSlices()))
      mapping.map(arg, elementOf(p, stack, at));
    for (Operation &op : repeat.getBody().front().without_terminator()) {
      auto param = dyn_cast<ParamOp>(builder.clone(op, mapping));
      if (param)
        param.setName(expandName(param.getName(), start + at));
    }
    for (auto [value, next] : llvm::zip(carried, yield.getCarried()))
      value = mapping.lookupOrDefault(next);
    for (auto [stack, value] : llvm::zip(stacks, yield.getStacked()))
      stack[at] = stackOfOne(p, mapping.lookupOrDefault(value));
  }
  llvm::SmallVector<Value> results = carried;
  for (llvm::ArrayRef<Value> stack : stacks)
    results.push_back(p.concat(0, stack));
  repeat.replaceAllUsesWith(results);
  repeat.erase();
}

/// Fails where so many copies of the body would be made that memory ends.
static LogicalResult checkSize(RepeatOp repeat) {
  constexpr int64_t limit = 1 << 18;
  int64_t ops = repeat.getBody().front().getOperations().size();
  int64_t values = repeat.getSlices().size() + repeat.getNumResults();
  if (static_cast<int64_t>(repeat.getCount()) <= limit / (ops + values))
    return success();
  return repeat.emitOpError()
         << "of " << repeat.getCount() << " iterations of " << ops + values
         << " ops would unroll to more than " << limit << " ops";
}

/// Updates of stacks would lose the parameters they name.
static LogicalResult checkInput(ModelOp model) {
  for (UpdateOp update : model.getBody().getOps<UpdateOp>())
    return update.emitOpError("is part of a training step: unroll repeats "
                              "before differentiation");
  return success();
}

namespace {
struct UnrollRepeatPass
    : public kerf::impl::UnrollRepeatPassBase<UnrollRepeatPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      if (failed(checkInput(model)))
        return signalPassFailure();
      for (RepeatOp repeat :
           llvm::to_vector(model.getBody().getOps<RepeatOp>())) {
        if (failed(checkSize(repeat)))
          return signalPassFailure();
        unroll(repeat);
      }
    }
  }
};
} // namespace
