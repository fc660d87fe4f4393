#include "Classify.h"

#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Fuse/Passes.h"
#include "kerf/Interfaces/KernelInterface.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/SetVector.h"

namespace kerf {
#define GEN_PASS_DEF_OUTLINEKERNELSPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Ops that every reader recomputes, as they stood before the first became a
/// kernel.
using Sources = llvm::SetVector<Operation *>;

/// Adds the operands that the kernel of `op` reads from memory: each once, and
/// what sources read instead of sources.
static void collectReads(Operation *op, const Sources &sources,
                         llvm::SmallVectorImpl<Value> &reads) {
  for (Value operand : op->getOperands()) {
    if (sources.contains(operand.getDefiningOp()))
      collectReads(operand.getDefiningOp(), sources, reads);
    else if (!llvm::is_contained(reads, operand))
      reads.push_back(operand);
  }
}

/// Copies the sources among the operands of `op`, and those of theirs.
static void copySources(Operation *op, OpBuilder &builder, IRMapping &mapping) {
  for (Value operand : op->getOperands()) {
    if (mapping.contains(operand))
      continue;
    copySources(operand.getDefiningOp(), builder, mapping);
    builder.clone(*operand.getDefiningOp(), mapping);
  }
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
static void finish(Operation *op, Operation *inner, spmd::FusedOp fused,
                   bool isOwn) {
  OpBuilder builder = OpBuilder::atBlockEnd(&fused.getBody().front());
  spmd::YieldOp::create(builder, op->getLoc(), inner->getResults());
  if (!isOwn)
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
  finish(op, inner, fused, /*isOwn=*/true);
}

/// Replaces `op` by a kernel that holds its decomposition, or with `ownKernels`
/// by the one that it brings. An op without a decomposition keeps its own.
static void outline(Operation *op, const Sources &sources, bool ownKernels) {
  if (getOwnKernel(op) && (ownKernels || !isa<DecomposeOpInterface>(op)))
    return outlineOwn(op);
  llvm::SmallVector<Value> reads;
  collectReads(op, sources, reads);
  spmd::FusedOp fused = makeKernel(op, reads);
  Block &body = fused.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  IRMapping mapping;
  mapping.map(reads, body.getArguments());
  copySources(op, builder, mapping);
  finish(op, builder.clone(*op, mapping), fused, /*isOwn=*/false);
}

namespace {
struct OutlineKernels : kerf::impl::OutlineKernelsPassBase<OutlineKernels> {
  using OutlineKernelsPassBase::OutlineKernelsPassBase;

  void runOnOperation() override {
    llvm::SmallVector<Operation *> ops;
    Sources sources;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<spmd::FusedOp, spmd::FusedMatmulOp>(op))
        return WalkResult::skip();
      if (isKernelSource(op))
        sources.insert(op);
      else if (isKernelOp(op))
        ops.push_back(op);
      return WalkResult::advance();
    });
    for (Operation *op : ops)
      outline(op, sources, ownKernels);
    // Sources that are left are read by other ops: they become kernels. The
    // last come first, since sources read sources.
    while (!sources.empty()) {
      Operation *op = sources.pop_back_val();
      if (op->use_empty())
        op->erase();
      else
        outline(op, sources, ownKernels);
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
