//===- BucketGradients.cpp - sums of gradients beside computation ---------===//
//
// Problem: gradients that `update` sums over data ranks are all sent when
// nothing is left to compute.
//
// Idea: a sum over ranks of a sum over micro-batches can be made as soon as the
// last micro-batch has added its part. So the sum is written behind the op that
// makes the gradient, in the function that the last micro-batch calls; the
// stage `fuse` then starts it early and waits for it late. The stack of all
// layers of a small gradient is one message, as it was in `update`: its bucket.
// Source: Li et al. 2020, PyTorch Distributed, arXiv 2006.15704, section 3.2.3.
//
// Steps: find the sums; give the last calls functions of their own, where there
// are several micro-batches; write each sum there; let `update` read it.
//
// Example, of the last of several micro-batches:
//
//     backward: g = matmul; accumulate g into @b
//     update:   s = all_reduce (read @b)
//
// becomes
//
//     backward: g = matmul; accumulate g into @b
//               s = all_reduce (read @b); write s to @b
//     update:   s = read @b
//
// Cost: one visit per op.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Spmd/Pipelines.h"
#include "kerf/Schedule/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_BUCKETGRADIENTSPASS
#include "kerf/Schedule/Passes.h.inc"
} // namespace kerf

/// Of names of functions for last micro-batches; traces know it.
static constexpr llvm::StringLiteral kLastSuffix = "_last";

namespace {
/// A sum over ranks that `update` makes of a buffer.
struct RankSum {
  spmd::ReadOp read;
  /// From the read to the last collective: each reads the one before alone.
  llvm::SmallVector<Operation *, 4> chain;
  Operation *store = nullptr; ///< the one `spmd.write` or `spmd.accumulate`
  RankedTensorType type() const { return typeOf(chain.back()->getResult(0)); }
};

/// Moves the sums of one program.
class Mover {
public:
  Mover(spmd::ProgramOp program, int64_t messageBytes)
      : program(program), messageBytes(messageBytes) {}
  void run();

private:
  bool isMovable(const RankSum &sum);
  Operation *storeOf(spmd::ReadOp read);
  spmd::CallOp lastCall(spmd::FuncOp func, int64_t &count);
  IRMapping copyForLastCall(spmd::FuncOp func);
  RepeatOp repeatOf(const RankSum &sum, Value stack);
  spmd::BufferOp targetOf(RankSum &sum, bool adds);
  Value sumAt(RankSum &sum, Operation *store, bool adds);
  void move(RankSum &sum, Operation *store, bool adds);

  spmd::ProgramOp program;
  int64_t messageBytes;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sums of the update
//===----------------------------------------------------------------------===//

/// A sum over ranks of one stage, which may be made of parts.
static bool isRankSum(Operation *op) {
  bool sums = false;
  if (auto reduce = dyn_cast<spmd::AllReduceOp>(op))
    sums = reduce.getKind() == ReduceKind::Sum;
  if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op))
    sums = scatter.getKind() == ReduceKind::Sum;
  return sums &&
         !llvm::is_contained(op->getAttrOfType<ArrayAttr>("axes"),
                             StringAttr::get(op->getContext(), kPipelineAxis));
}

/// What `update` does to the contents of a buffer, up to the last sum.
static RankSum findSum(spmd::ReadOp read) {
  RankSum sum{read, {}};
  size_t end = 0;
  for (Value value = read.getResult(); value.hasOneUse();) {
    Operation *user = *value.getUsers().begin();
    bool isSum = isRankSum(user);
    if (user->getBlock() != read->getBlock() ||
        (!isSum && !isView(user, ViewKind::Rename, ViewKind::Pad)))
      break;
    sum.chain.push_back(user);
    end = isSum ? sum.chain.size() : end;
    value = user->getResult(0);
  }
  sum.chain.resize(end);
  return sum;
}

/// The one op that stores to the buffer of a read that is its only one; else
/// null.
Operation *Mover::storeOf(spmd::ReadOp read) {
  auto buffer = dyn_cast_or_null<spmd::BufferOp>(
      SymbolTable::lookupSymbolIn(program, read.getSource()));
  if (!buffer || buffer.getKind() != spmd::BufferKind::Step)
    return nullptr;
  auto uses = SymbolTable::getSymbolUses(buffer, &program.getBody());
  if (!uses || std::distance(uses->begin(), uses->end()) != 2)
    return nullptr;
  for (const SymbolTable::SymbolUse &use : *uses)
    if (isa<spmd::WriteOp, spmd::AccumulateOp>(use.getUser()))
      return use.getUser();
  return nullptr;
}

/// The last call of a function in the training step; `count`: of all its calls.
spmd::CallOp Mover::lastCall(spmd::FuncOp func, int64_t &count) {
  spmd::CallOp last;
  count = 0;
  for (auto call :
       program.getSchedule("train").getBody().getOps<spmd::CallOp>())
    if (call.getCallee() == func.getSymName() && call.getMicro()) {
      last = call;
      ++count;
    }
  return last;
}

/// True where the buffer has the gradient of a step when the last micro-batch
/// has stored its part.
bool Mover::isMovable(const RankSum &sum) {
  auto func = dyn_cast_or_null<spmd::FuncOp>(
      sum.store ? sum.store->getParentOp() : nullptr);
  int64_t count = 0;
  if (sum.chain.empty() || !func || !lastCall(func, count))
    return false;
  return count == program.getMicroBatches() &&
         (count == 1 || isa<spmd::AccumulateOp>(sum.store));
}

//===----------------------------------------------------------------------===//
// Sums of a function
//===----------------------------------------------------------------------===//

/// The phase of the op that makes a value; null where it has none.
static Attribute phaseOf(Value value) {
  Operation *maker = value.getDefiningOp();
  return maker ? maker->getAttr(kPhaseAttrName) : Attribute();
}

/// Makes a sum of another value, in a phase; `isLayer`: of one layer of the
/// stack that it is of.
static Value sumAgain(OpBuilder &builder, const RankSum &sum, Value value,
                      Attribute phase, bool isLayer) {
  for (Operation *op : sum.chain) {
    auto type = typeOf(op->getResult(0));
    type = withShape(type, type.getShape().drop_front(isLayer));
    Operation *made = nullptr;
    if (isView(op, ViewKind::Rename)) {
      made = ReshapeOp::create(builder, op->getLoc(), type, value);
    } else if (auto pad = dyn_cast<PadOp>(op)) {
      made = PadOp::create(builder, op->getLoc(), type, value,
                           pad.getLow().drop_front(isLayer),
                           pad.getHigh().drop_front(isLayer));
    } else if (auto reduce = dyn_cast<spmd::AllReduceOp>(op)) {
      made =
          spmd::AllReduceOp::create(builder, op->getLoc(), type,
                                    reduce.getKind(), value, reduce.getAxes());
    } else {
      auto scatter = cast<spmd::ReduceScatterOp>(op);
      made = spmd::ReduceScatterOp::create(
          builder, op->getLoc(), type, scatter.getKind(), value,
          scatter.getDim() - isLayer, scatter.getAxes());
    }
    if (phase)
      made->setAttr(kPhaseAttrName, phase);
    value = made->getResult(0);
  }
  return value;
}

/// True where the sum of a stack is the stack of the sums of its layers.
static bool isByLayer(const RankSum &sum, int64_t layers) {
  return llvm::all_of(sum.chain, [&](Operation *op) {
    auto type = typeOf(op->getResult(0));
    if (isView(op, ViewKind::Pad))
      return type.getDimSize(0) == typeOf(op->getOperand(0)).getDimSize(0);
    if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op))
      return scatter.getDim() > 0;
    return type.getRank() > 0 && type.getDimSize(0) == layers;
  });
}

/// The repeat that makes a stack whose layers are summed one by one, in its
/// body; null where all is summed at once.
RepeatOp Mover::repeatOf(const RankSum &sum, Value stack) {
  auto repeat = stack.getDefiningOp<RepeatOp>();
  if (!repeat || !stack.hasOneUse() ||
      cast<OpResult>(stack).getResultNumber() < repeat.getInits().size())
    return {};
  auto type = typeOf(stack);
  int64_t bytes = type.getNumElements() / repeat.getCount() *
                  type.getElementTypeBitWidth() / 8;
  return bytes >= messageBytes && isByLayer(sum, repeat.getCount())
             ? repeat
             : RepeatOp();
}

/// The same stack with each layer summed, and before that added to the same
/// layer of `parts`, if given.
static Value sumLayers(RepeatOp repeat, const RankSum &sum, Value stack,
                       Value parts) {
  unsigned index = cast<OpResult>(stack).getResultNumber();
  YieldOp yield = repeat.getYield();
  Value layer = yield->getOperand(index);
  Attribute phase = phaseOf(layer);
  OpBuilder builder(yield);
  if (layer.getParentBlock() == yield->getBlock())
    builder.setInsertionPointAfterValue(layer);
  if (parts) {
    repeat.getSlicesMutable().append(parts);
    Value part = repeat.getBody().addArgument(layer.getType(), layer.getLoc());
    layer = PlainBuilder{builder, layer.getLoc()}.add(part, layer);
    if (phase)
      layer.getDefiningOp()->setAttr(kPhaseAttrName, phase);
  }
  yield->setOperand(index,
                    sumAgain(builder, sum, layer, phase, /*isLayer=*/true));
  for (auto [result, type] :
       llvm::zip_equal(repeat.getResults(), repeat.inferResultTypes()))
    result.setType(cast<RankedTensorType>(type));
  return stack;
}

/// The buffer that the sum is left in: that of the parts, unless it has them at
/// the same time and they are larger.
spmd::BufferOp Mover::targetOf(RankSum &sum, bool adds) {
  auto buffer = cast<spmd::BufferOp>(
      SymbolTable::lookupSymbolIn(program, sum.read.getSource()));
  if (!adds)
    buffer.setType(sum.type());
  if (buffer.getType() == sum.type())
    return buffer;
  OpBuilder builder(buffer->getContext());
  builder.setInsertionPointAfter(buffer);
  return spmd::BufferOp::create(builder, buffer.getLoc(),
                                (buffer.getSymName() + ".sum").str(),
                                spmd::BufferKind::Step, sum.type());
}

/// The sum, made where the last part is stored. What stores that part goes,
/// unless the sum reads the buffer.
Value Mover::sumAt(RankSum &sum, Operation *store, bool adds) {
  Value value = store->getOperand(0);
  Attribute phase = phaseOf(value);
  OpBuilder builder(store);
  auto parts = [&] {
    return spmd::ReadOp::create(builder, store->getLoc(), value.getType(),
                                sum.read.getSource());
  };
  if (RepeatOp repeat = repeatOf(sum, value)) {
    builder.setInsertionPoint(repeat);
    value = sumLayers(repeat, sum, value, adds ? parts() : Value());
  } else if (adds) {
    // Added in the buffer, perhaps by the op that makes it.
    builder.setInsertionPointAfter(store);
    return sumAgain(builder, sum, parts(), phase, /*isLayer=*/false);
  } else {
    value = sumAgain(builder, sum, value, phase, /*isLayer=*/false);
  }
  store->erase();
  return value;
}

/// Writes the sum in the function that stores its last part, and lets `update`
/// read it.
void Mover::move(RankSum &sum, Operation *store, bool adds) {
  Block *block = store->getBlock();
  Value value = sumAt(sum, store, adds);
  spmd::BufferOp target = targetOf(sum, adds);
  // As late as can be: it ends sums that read the buffer.
  OpBuilder builder(block->getTerminator());
  spmd::WriteOp::create(builder, value.getLoc(), value, target.getSymName());
  builder.setInsertionPoint(sum.read);
  Value read = spmd::ReadOp::create(builder, sum.read.getLoc(), sum.type(),
                                    target.getSymName());
  sum.chain.back()->getResult(0).replaceAllUsesWith(read);
  for (Operation *op : llvm::reverse(sum.chain))
    op->erase();
  sum.read->erase();
}

/// Lets the last call of a function call a copy of it; maps ops to the copy's.
IRMapping Mover::copyForLastCall(spmd::FuncOp func) {
  IRMapping toCopy;
  int64_t count = 0;
  std::string name = (func.getSymName() + kLastSuffix).str();
  spmd::CallOp call = lastCall(func, count);
  OpBuilder builder(func->getContext());
  builder.setInsertionPointAfter(func);
  auto copy = cast<spmd::FuncOp>(builder.clone(*func, toCopy));
  copy.setSymName(name);
  copy.setContinues(func.getSymName());
  call.setCallee(name);
  return toCopy;
}

void Mover::run() {
  auto update = dyn_cast_or_null<spmd::FuncOp>(
      SymbolTable::lookupSymbolIn(program, "update"));
  if (!update || !program.getSchedule("train"))
    return;
  llvm::MapVector<Operation *, llvm::SmallVector<RankSum, 0>> sums;
  for (auto read : update.getBody().getOps<spmd::ReadOp>()) {
    RankSum sum = findSum(read);
    sum.store = storeOf(read);
    if (isMovable(sum))
      sums[sum.store->getParentOp()].push_back(sum);
  }
  bool adds = program.getMicroBatches() > 1;
  for (auto &[func, list] : sums) {
    IRMapping toCopy;
    if (adds)
      toCopy = copyForLastCall(cast<spmd::FuncOp>(func));
    for (RankSum &sum : list)
      move(sum, adds ? toCopy.lookup(sum.store) : sum.store, adds);
  }
}

namespace {
struct BucketGradientsPass
    : public kerf::impl::BucketGradientsPassBase<BucketGradientsPass> {
  using BucketGradientsPassBase::BucketGradientsPassBase;

  void runOnOperation() override {
    for (spmd::ProgramOp program : getOperation().getOps<spmd::ProgramOp>())
      Mover(program, messageBytes).run();
  }
};
} // namespace
