//===- OverlapCollectives.cpp - collectives beside computation ------------===//
//
// When collectives start and are waited for is decided on plain data
// (kerf/Kernels/Overlap.h), as the planner decides it, too.
// Steps, per block: write its ops as plain data; bring them into the order that
// is found, with a `spmd.wait` for each collective that runs beside others.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Stacks.h"
#include "kerf/Kernels/Overlap.h"
#include "kerf/Schedule/Passes.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "schedule"

using namespace mlir;
using namespace kerf;
namespace overlap = kerf::kernels::overlap;

namespace kerf {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVESPASS
#include "kerf/Schedule/Passes.h.inc"
} // namespace kerf

/// True for collectives of one stage; among its ranks they may change places.
static bool canMove(Operation *op) {
  return spmd::isExchange(op) &&
         !llvm::is_contained(op->getAttrOfType<ArrayAttr>("axes"),
                             StringAttr::get(op->getContext(), kPipelineAxis));
}

/// Ops that other stages take part in, and loops, which may hold such: what
/// starts outside of a loop is waited for outside.
static bool isFixed(Operation *op) {
  auto update = dyn_cast<UpdateOp>(op);
  return (update && goesByLayer(update)) ||
         (spmd::isExchange(op) && !canMove(op)) ||
         isa<spmd::SendOp, spmd::RecvOp, spmd::GatherParamOp, RepeatOp>(op) ||
         op->hasTrait<OpTrait::IsTerminator>();
}

/// The buffer that an op stores to, or null.
static FlatSymbolRefAttr targetOf(Operation *op) {
  return isa<spmd::WriteOp, spmd::AccumulateOp>(op)
             ? op->getAttrOfType<FlatSymbolRefAttr>("target")
             : FlatSymbolRefAttr();
}

static overlap::Role roleOf(Operation *op) {
  using overlap::Role;
  if (isFixed(op))
    return Role::Fixed;
  if (spmd::isExchange(op))
    return Role::Collective;
  if (isView(op, ViewKind::Rename))
    return Role::Rename;
  if (isView(op, ViewKind::Part))
    return Role::Part;
  if (isa<kerf::ParamOp>(op))
    return Role::Parameter;
  if (isa<spmd::WaitOp>(op))
    return Role::Wait;
  if (isa<spmd::ReadOp, spmd::OffsetOp>(op) || isView(op, ViewKind::Join))
    return Role::Free; // addresses and numbers, which become no command
  return targetOf(op) ? Role::Store : Role::Computes;
}

namespace {
/// The ops of one block.
class BlockOrder {
public:
  explicit BlockOrder(Block &block) : block(block) {}

  void run() {
    if (llvm::none_of(block, [](Operation &op) { return canMove(&op); }))
      return;
    for (Operation &op : block.without_terminator()) {
      ops.push_back(&op);
      plain.push_back(write(&op));
    }
    Operation *end = block.getTerminator();
    for (auto [op, waits] : overlap::overlapCollectives(plain))
      waits ? wait(ops[op], end) : ops[op]->moveBefore(end);
    for (auto [op, own] : llvm::zip(ops, plain))
      if (own.role == overlap::Role::Collective)
        LDBG() << op->getName() << " at " << op->getLoc()
               << (spmd::isStarted(op) ? " runs beside others"
                                       : " is waited for");
  }

private:
  Block &block;
  std::vector<Operation *> ops;
  std::vector<overlap::Op> plain;
  llvm::DenseMap<Value, int> tensors;
  llvm::DenseMap<Attribute, int> buffers;

  template <typename Map, typename Key> static int numberOf(Map &map, Key key) {
    return map.try_emplace(key, map.size()).first->second;
  }

  overlap::Op write(Operation *op) {
    overlap::Op own = {roleOf(op)};
    for (Value operand : op->getOperands())
      own.reads.push_back(numberOf(tensors, operand));
    for (Value result : op->getResults())
      own.writes.push_back(numberOf(tensors, result));
    own.isStarted = spmd::isExchange(op) && spmd::isStarted(op);
    own.scatters = isa<spmd::ReduceScatterOp>(op);
    own.changesParameters = isa<UpdateOp, spmd::GatherParamOp>(op);
    for (NamedAttribute named : op->getAttrs())
      if (isa<FlatSymbolRefAttr>(named.getValue()))
        own.buffers.push_back(numberOf(buffers, named.getValue()));
    if (FlatSymbolRefAttr target = targetOf(op))
      own.stores = numberOf(buffers, Attribute(target));
    Operation *source = spmd::isExchange(op) ? outsideOf(op) : op;
    if (auto read = dyn_cast_or_null<spmd::ReadOp>(source))
      own.loads = numberOf(buffers, Attribute(read.getSourceAttr()));
    own.readsParameter = source != op && isa_and_nonnull<kerf::ParamOp>(source);
    return own;
  }

  /// What makes the operand of a collective outside the block, behind
  /// addresses; null: it is made inside.
  Operation *outsideOf(Operation *collective) const {
    Operation *source = collective->getOperand(0).getDefiningOp();
    while (isView(source, ViewKind::Rename, ViewKind::Part))
      source = source->getOperand(0).getDefiningOp();
    return source && source->getBlock() != &block ? source : nullptr;
  }

  static void wait(Operation *collective, Operation *at) {
    Value result = collective->getResult(0);
    OpBuilder builder(at);
    auto wait =
        spmd::WaitOp::create(builder, collective->getLoc(), result.getType(),
                             result, collective->getOperand(0));
    result.replaceAllUsesExcept(wait.getResult(), wait);
  }
};
} // namespace

namespace {
struct OverlapCollectivesPass
    : public kerf::impl::OverlapCollectivesPassBase<OverlapCollectivesPass> {
  void runOnOperation() override {
    getOperation().walk([](spmd::FuncOp func) {
      func.walk([](Block *block) {
        if (!isa<spmd::FusedOp, spmd::FusedMatmulOp>(block->getParentOp()))
          BlockOrder(*block).run();
      });
    });
  }
};
} // namespace
