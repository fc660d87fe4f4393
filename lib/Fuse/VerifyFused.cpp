#include "Classify.h"

#include "kerf/Fuse/Passes.h"
#include "kerf/Interfaces/KernelInterface.h"

namespace kerf {
#define GEN_PASS_DEF_VERIFYFUSEDPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
struct VerifyFused : kerf::impl::VerifyFusedPassBase<VerifyFused> {
  void runOnOperation() override {
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto fused = dyn_cast<spmd::FusedOp>(op)) {
        checkKernel(fused);
        return WalkResult::skip();
      }
      if (isa<spmd::FusedMatmulOp>(op))
        return WalkResult::skip();
      if (!isKernelOp(op))
        return WalkResult::advance();
      op->emitOpError("is left after fuse, expected a kernel, a library op "
                      "or a view")
              .attachNote()
          << "run 'kerf-outline-kernels' first";
      signalPassFailure();
      return WalkResult::advance();
    });
  }

  void checkKernel(spmd::FusedOp fused) {
    if (getOwnKernelOp(fused.getBody().front()))
      return;
    for (Operation &op : fused.getBody().front().without_terminator()) {
      if (isa<EvaluateOpInterface>(op))
        continue;
      op.emitOpError("inside a kernel is not a plain op");
      signalPassFailure();
    }
  }
};
} // namespace
