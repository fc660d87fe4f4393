#include "Classify.h"

#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Fuse/Passes.h"

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

/// Replaces `op` by a kernel that holds its decomposition.
static void outline(Operation *op) {
  OpBuilder builder(op);
  llvm::SmallVector<Value> reads = readsOf(op);
  auto fused =
      spmd::FusedOp::create(builder, op->getLoc(), op->getResultTypes(), reads);
  if (PhaseAttr phase = getPhase(op))
    fused->setAttr(kPhaseAttrName, phase);
  fused->setAttr(kKindAttrName,
                 builder.getStringAttr(op->getName().stripDialect()));
  Block &body = fused.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value read : reads)
    mapping.map(read, body.addArgument(read.getType(), read.getLoc()));
  builder.setInsertionPointToStart(&body);
  for (Value operand : op->getOperands())
    if (!mapping.contains(operand))
      mapping.map(operand,
                  builder.clone(*operand.getDefiningOp())->getResult(0));
  Operation *inner = builder.clone(*op, mapping);
  spmd::YieldOp::create(builder, op->getLoc(), inner->getResults());
  decomposeAll(fused);
  // The kernel's phase says it; inside, equal ops shall be equal.
  fused->walk([&](Operation *plain) {
    if (plain != fused)
      plain->removeAttr(kPhaseAttrName);
  });
  op->replaceAllUsesWith(fused.getResults());
  op->erase();
}

namespace {
struct OutlineKernels : kerf::impl::OutlineKernelsPassBase<OutlineKernels> {
  void runOnOperation() override {
    llvm::SmallVector<Operation *> ops, sources;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<spmd::FusedOp>(op))
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
