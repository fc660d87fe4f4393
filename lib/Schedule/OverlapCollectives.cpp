//===- OverlapCollectives.cpp - collectives beside computation ------------===//
//
// Problem: a rank that waits for a collective computes nothing.
//
// Idea: between the place where the operand is known and the place where the
// result is read stand ops that need neither. A collective starts at the first
// place and is waited for at the second. One is under way at a time: more would
// keep more buffers alive, and ranks that compute the same things begin them at
// the same times anyhow.
//
// Collectives come in the order in which their operands are made: the sum of a
// gradient follows the product that makes it.
//
// Gathers of parameters (ZeRO 3) have no op that makes their operand: they
// start as soon as the collective before is done, while the layer still
// computes with the weight before. Sums of gradients are read by nothing but a
// buffer or the next layer: they are waited for when the next collective
// starts.
//
// A gather of what was kept, which the product after a sum needs, would end
// that sum as soon as it starts. It comes before what makes the operand of the
// sum, and each has a product beside it:
//
//     g = product; sum g; x = gather; w = product x
//
// becomes
//
//     start x; g = product; wait x; start g; w = product x; wait g
//
// A sum over ranks of what others have summed (state that is cut over a part of
// the data ranks) would end the first sum as soon as it starts. It is the
// smaller one, so it comes as late as can be, and the first one has the
// computing before it.
//
// Example, weights w and v of a layer:
//
//     w = gather; x = f(w); v = gather; y = g(v)
//
// becomes
//
//     w = gather; start v; x = f(w); wait v; y = g(v)
//
//===----------------------------------------------------------------------===//

#include "kerf/Schedule/Passes.h"

#include "mlir/IR/Builders.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "schedule"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVESPASS
#include "kerf/Schedule/Passes.h.inc"
} // namespace kerf

/// True for another address of what the operand is.
static bool isAddress(Operation *op) {
  return isView(op, ViewKind::Rename, ViewKind::Part);
}

/// Ops that become no command: addresses and numbers.
static bool isFree(Operation *op) {
  return isa<kerf::ParamOp, spmd::ReadOp, spmd::OffsetOp, spmd::WaitOp>(op) ||
         isView(op, ViewKind::Rename, ViewKind::Part, ViewKind::Join);
}

/// True for collectives of one stage; among its ranks they may change places.
static bool canMove(Operation *op) {
  return spmd::isExchange(op) &&
         !llvm::is_contained(op->getAttrOfType<ArrayAttr>("axes"),
                             StringAttr::get(op->getContext(), kPipelineAxis));
}

/// Ops that other stages take part in, and repeats, which may hold such.
static bool isFixed(Operation *op) {
  return (spmd::isExchange(op) && !canMove(op)) ||
         isa<spmd::SendOp, spmd::RecvOp, spmd::GatherParamOp, RepeatOp>(op) ||
         op->hasTrait<OpTrait::IsTerminator>();
}

static bool isBorder(Operation *op) {
  return isFixed(op) || spmd::isExchange(op);
}

/// Stores and views, which can as well come later.
static bool canWait(Operation *op) {
  return isa<spmd::WriteOp, spmd::AccumulateOp>(op) || isAddress(op);
}

/// The buffer that an op stores to, or null.
static FlatSymbolRefAttr targetOf(Operation *op) {
  return isa<spmd::WriteOp, spmd::AccumulateOp>(op)
             ? op->getAttrOfType<FlatSymbolRefAttr>("target")
             : FlatSymbolRefAttr();
}

/// True where the op stores to a symbol that `later` reads or writes.
static bool storesFor(Operation *op, Operation *later) {
  FlatSymbolRefAttr target = targetOf(op);
  return target && llvm::any_of(later->getAttrs(), [&](NamedAttribute named) {
           return named.getValue() == target;
         });
}

/// True where the op changes what `maker` stands for, a read of memory.
static bool overwrites(Operation *op, Operation *maker) {
  if (isa_and_nonnull<kerf::ParamOp>(maker))
    return isa<UpdateOp>(op);
  auto read = dyn_cast_or_null<spmd::ReadOp>(maker);
  return read && targetOf(op) == read.getSourceAttr();
}

/// Is the result stored to a buffer that the block reads? It may then be made
/// in that buffer, and must not be before.
static bool replacesRead(Value result, Block &block) {
  return llvm::any_of(result.getUsers(), [&](Operation *user) {
    if (isView(user, ViewKind::Rename) || isa<spmd::WaitOp>(user))
      return replacesRead(user->getResult(0), block);
    FlatSymbolRefAttr target = targetOf(user);
    return target && llvm::any_of(block.getOps<spmd::ReadOp>(), [&](auto read) {
             return read.getSourceAttr() == target;
           });
  });
}

namespace {
/// The collectives of one block.
class Overlap {
public:
  explicit Overlap(Block &block) : block(block) {
    writesParams = llvm::any_of(block, [](Operation &op) {
      return isa<UpdateOp, spmd::GatherParamOp>(op);
    });
  }
  void run();

private:
  using Chain = llvm::SmallVector<Operation *, 4>;
  Chain chainOf(Operation *collective);
  Operation *makerOf(const Chain &chain);
  void startEarly(Operation *collective);
  Operation *readLate(Operation *collective,
                      llvm::SmallVectorImpl<Operation *> &moved,
                      bool &computes);
  Operation *waitLate(Operation *collective);
  void makeRoom(Operation *sum, Operation *gather);
  bool followsScatter(Operation *collective);
  void sink(Operation *collective);
  llvm::SmallVector<Operation *> borders();

  Block &block;
  bool writesParams;
  /// The last op that the next collective comes after, or null.
  Operation *border = nullptr;
};
} // namespace

/// The collective, and the views and the parameter that it reads.
Overlap::Chain Overlap::chainOf(Operation *collective) {
  Chain chain = {collective};
  Operation *maker = collective->getOperand(0).getDefiningOp();
  while (maker && maker->getBlock() == &block &&
         (isAddress(maker) || (isa<kerf::ParamOp>(maker) && !writesParams))) {
    chain.push_back(maker);
    maker = maker->getNumOperands() ? maker->getOperand(0).getDefiningOp()
                                    : nullptr;
  }
  return chain;
}

/// The last op of the block that the chain needs, or null.
Operation *Overlap::makerOf(const Chain &chain) {
  Operation *last = nullptr;
  for (Operation *op : chain)
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (def && def->getBlock() == &block && !llvm::is_contained(chain, def) &&
          (!last || last->isBeforeInBlock(def)))
        last = def;
    }
  return last;
}

/// Moves the collective with its chain up to what makes its operand, or to the
/// border.
void Overlap::startEarly(Operation *collective) {
  if (replacesRead(collective->getResult(0), block))
    return;
  Chain chain = chainOf(collective);
  Operation *after = makerOf(chain);
  if (!after || (border && after->isBeforeInBlock(border)))
    after = border;
  for (Operation *op : chain) {
    if (!after)
      op->moveBefore(&block, block.begin());
    else if (after->isBeforeInBlock(op))
      op->moveAfter(after);
  }
}

/// Where the result of a collective is read first, or the next border. Sets the
/// stores and views before it, which can come later, and whether something
/// computes up to there.
Operation *Overlap::readLate(Operation *collective,
                             llvm::SmallVectorImpl<Operation *> &moved,
                             bool &computes) {
  llvm::SmallPtrSet<Value, 4> late = {collective->getResult(0)};
  computes = false;
  Operation *first = collective->getOperand(0).getDefiningOp();
  while (isAddress(first))
    first = first->getOperand(0).getDefiningOp();
  Operation *stop = collective->getNextNode();
  for (; !isBorder(stop); stop = stop->getNextNode()) {
    bool reads = llvm::any_of(stop->getOperands(), [&](Value operand) {
      return late.contains(operand);
    });
    bool isTouched =
        llvm::any_of(moved, [&](Operation *op) { return storesFor(op, stop); });
    if (isTouched || overwrites(stop, first) || (reads && !canWait(stop)))
      break;
    if (!reads) {
      computes |= !isFree(stop);
      continue;
    }
    moved.push_back(stop);
    late.insert(stop->result_begin(), stop->result_end());
  }
  return stop;
}

/// Puts a wait where the result is read first, or before the next border.
/// Returns the op that the next collective comes after.
Operation *Overlap::waitLate(Operation *collective) {
  Value result = collective->getResult(0);
  llvm::SmallVector<Operation *> moved;
  bool computes = false;
  Operation *stop = readLate(collective, moved, computes);
  if (!computes)
    return collective;
  OpBuilder builder(stop);
  auto wait =
      spmd::WaitOp::create(builder, collective->getLoc(), result.getType(),
                           result, collective->getOperand(0));
  result.replaceAllUsesExcept(wait.getResult(), wait);
  for (Operation *op : moved)
    op->moveBefore(stop);
  return wait;
}

/// Moves a collective whose operand was there from the start, and which comes
/// at once after a sum, before what makes the operand of the sum.
void Overlap::makeRoom(Operation *sum, Operation *gather) {
  Operation *maker = makerOf(chainOf(sum));
  if (!maker || isBorder(maker) || isFree(maker) || makerOf(chainOf(gather)))
    return;
  for (Operation *op = sum->getNextNode(); op != gather; op = op->getNextNode())
    if (!isFree(op))
      return;
  for (Operation *op : llvm::reverse(chainOf(gather)))
    if (maker->isBeforeInBlock(op))
      op->moveBefore(maker);
}

/// True for a collective of the parts that another one of the block leaves,
/// which moves more and could run beside something.
bool Overlap::followsScatter(Operation *collective) {
  Operation *maker = makerOf(chainOf(collective));
  return isa_and_nonnull<spmd::ReduceScatterOp>(maker) && canMove(maker) &&
         !spmd::isStarted(maker);
}

/// Moves a collective and what stores its result down to where that is read.
void Overlap::sink(Operation *collective) {
  llvm::SmallVector<Operation *> moved;
  bool computes = false;
  Operation *stop = readLate(collective, moved, computes);
  if (!computes)
    return;
  collective->moveBefore(stop);
  for (Operation *op : moved)
    op->moveBefore(stop);
}

llvm::SmallVector<Operation *> Overlap::borders() {
  llvm::SmallVector<Operation *> found;
  for (Operation &op : block)
    if (isBorder(&op))
      found.push_back(&op);
  return found;
}

void Overlap::run() {
  // In the order in which operands are made. What is there from the start keeps
  // its place for now: nobody needs it yet.
  for (Operation *op : borders()) {
    if (isFixed(op))
      border = op;
    else if (!spmd::isStarted(op) && makerOf(chainOf(op)))
      startEarly(op);
  }
  llvm::SmallVector<Operation *> all = borders();
  for (auto [sum, next] : llvm::zip(all, llvm::drop_begin(all)))
    if (!isFixed(sum) && !isFixed(next) && !spmd::isStarted(sum) &&
        !spmd::isStarted(next))
      makeRoom(sum, next);
  llvm::SmallPtrSet<Operation *, 4> sunk;
  for (Operation *op : borders())
    if (!isFixed(op) && !spmd::isStarted(op) && followsScatter(op)) {
      sink(op);
      sunk.insert(op);
    }
  border = nullptr;
  for (Operation *op : borders()) {
    if (isFixed(op)) {
      border = op;
      continue;
    }
    if (spmd::isStarted(op)) {
      border = *op->getUsers().begin();
      continue;
    }
    if (!sunk.contains(op))
      startEarly(op);
    border = waitLate(op);
    LDBG() << op->getName() << " at " << op->getLoc()
           << (spmd::isStarted(op) ? " runs beside others" : " is waited for");
  }
}

namespace {
struct OverlapCollectivesPass
    : public kerf::impl::OverlapCollectivesPassBase<OverlapCollectivesPass> {
  void runOnOperation() override {
    getOperation().walk([](spmd::FuncOp func) {
      func.walk([](Block *block) {
        if (!isa<spmd::FusedOp, spmd::ProductOp>(block->getParentOp()))
          Overlap(*block).run();
      });
    });
  }
};
} // namespace
