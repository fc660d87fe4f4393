#include "Classify.h"

#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Fuse/Passes.h"
#include "kerf/Interfaces/KernelInterface.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace kerf {
#define GEN_PASS_DEF_OUTLINEKERNELSPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Operands that the kernel reads from memory: each once, without sources.
static llvm::SmallVector<Value> readsOf(Operation *op) {
  llvm::SmallVector<Value> reads;
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (!(def && isKernelSource(def)) && !llvm::is_contained(reads, operand))
      reads.push_back(operand);
  }
  return reads;
}

/// An empty kernel before `op`, with its results, that reads `reads`.
static spmd::FusedOp makeKernel(Operation *op, ValueRange reads) {
  OpBuilder builder(op);
  auto fused =
      spmd::FusedOp::create(builder, op->getLoc(), op->getResultTypes(), reads);
  if (PhaseAttr phase = getPhase(op))
    fused->setAttr(kPhaseAttrName, phase);
  fused->setAttr(kKindAttrName,
                 builder.getStringAttr(op->getName().stripDialect()));
  Block &body = fused.getBody().emplaceBlock();
  for (Value read : reads)
    body.addArgument(read.getType(), read.getLoc());
  return fused;
}

/// Replaces `op` by the kernel whose body it was copied to.
static void finish(Operation *op, Operation *inner, spmd::FusedOp fused) {
  OpBuilder builder = OpBuilder::atBlockEnd(&fused.getBody().front());
  spmd::YieldOp::create(builder, op->getLoc(), inner->getResults());
  if (!getOwnKernel(inner))
    decomposeAll(fused);
  // The kernel's phase says it; inside, equal ops shall be equal.
  fused->walk([&](Operation *plain) {
    if (plain != fused)
      plain->removeAttr(kPhaseAttrName);
  });
  op->replaceAllUsesWith(fused.getResults());
  op->erase();
}

/// Replaces an op with a kernel of its own by that: it alone, and every operand
/// in memory.
static void outlineOwn(Operation *op) {
  spmd::FusedOp fused = makeKernel(op, op->getOperands());
  Block &body = fused.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  Operation *inner = builder.clone(*op);
  inner->setOperands(ValueRange(body.getArguments()));
  finish(op, inner, fused);
}

/// Replaces `op` by a kernel that holds its decomposition.
static void outline(Operation *op) {
  if (getOwnKernel(op))
    return outlineOwn(op);
  llvm::SmallVector<Value> reads = readsOf(op);
  spmd::FusedOp fused = makeKernel(op, reads);
  Block &body = fused.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  IRMapping mapping;
  mapping.map(reads, body.getArguments());
  for (Value operand : op->getOperands())
    if (!mapping.contains(operand))
      mapping.map(operand,
                  builder.clone(*operand.getDefiningOp())->getResult(0));
  finish(op, builder.clone(*op, mapping), fused);
}

namespace {
struct OutlineKernels : kerf::impl::OutlineKernelsPassBase<OutlineKernels> {
  void runOnOperation() override {
    llvm::SmallVector<Operation *> ops, sources;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<spmd::FusedOp, spmd::ProductOp>(op))
        return WalkResult::skip();
      if (isKernelSource(op))
        sources.push_back(op);
      else if (isKernelOp(op))
        ops.push_back(op);
      return WalkResult::advance();
    });
    for (Operation *op : ops)
      outline(op);
    // Sources that are left are read by other ops: they become kernels.
    for (Operation *op : sources) {
      if (op->use_empty())
        op->erase();
      else
        outline(op);
    }
    // Folds constants in the kernels and drops what nobody reads.
    llvm::SmallVector<Operation *> kernels;
    getOperation().walk([&](spmd::FusedOp op) { kernels.push_back(op); });
    for (Operation *kernel : kernels)
      (void)applyPatternsGreedily(kernel->getRegion(0),
                                  RewritePatternSet(&getContext()));
  }
};
} // namespace
