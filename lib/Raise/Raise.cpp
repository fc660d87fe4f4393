//===- Raise.cpp - layers of a Transformer in plain ops -------------------===//

#include "Views.h"

#include "kerf/Raise/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <map>

using namespace kerf;
using namespace mlir;

namespace kerf {
#define GEN_PASS_DEF_RAISEPASS
#include "kerf/Raise/Passes.h.inc"
} // namespace kerf

using Counts = std::map<llvm::StringRef, int64_t>;

static Counts countOps(ModelOp model) {
  Counts counts;
  model.walk([&](Operation *op) { ++counts[op->getName().stripDialect()]; });
  return counts;
}

/// "4 attention, 9 rms_norm": what there is more of than before.
static std::string gainsOf(const Counts &before, const Counts &after) {
  std::string text;
  for (auto [name, count] : after) {
    auto it = before.find(name);
    int64_t more = count - (it == before.end() ? 0 : it->second);
    static const llvm::StringLiteral layers[] = {
        "attention", "gelu",    "layer_norm",   "rms_norm",
        "rope",      "silu",    "squared_relu", "swiglu",
        "route",     "softmax", "cross_entropy"};
    if (more > 0 && llvm::is_contained(layers, name))
      text +=
          (text.empty() ? "" : ", ") + std::to_string(more) + " " + name.str();
  }
  return text;
}

/// What was left plain, and why.
static void explain(ModelOp model) {
  explainAttention(model);
  bool hasLoss = false;
  model.walk([&](CrossEntropyOp) { hasLoss = true; });
  if (!hasLoss)
    model.emitRemark() << "the loss is left plain: it is no sum or mean over "
                          "rows of a cross entropy";
}

namespace {
struct RaisePass : kerf::impl::RaisePassBase<RaisePass> {
  using RaisePassBase::RaisePassBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    addViewPatterns(patterns);
    addRowPatterns(patterns);
    addChannelPatterns(patterns);
    addBatchPatterns(patterns);
    addNormPatterns(patterns);
    addActivationPatterns(patterns);
    addRopePatterns(patterns);
    addAttentionPatterns(patterns);
    addRoutePatterns(patterns);
    addLossPatterns(patterns);
    FrozenRewritePatternSet frozen(std::move(patterns));
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      Counts before = countOps(model);
      // Equal tables become one value before they are compared, and after.
      for (int round = 0; round < 2; ++round) {
        IRRewriter rewriter(&getContext());
        DominanceInfo dominance(model);
        eliminateCommonSubExpressions(rewriter, dominance, model);
        if (failed(applyPatternsGreedily(model, frozen)))
          return signalPassFailure();
        eraseRopeNotes(model);
      }
      std::string gains = gainsOf(before, countOps(model));
      if (!gains.empty())
        model.emitRemark() << "raised plain ops to " << gains;
      if (explains)
        explain(model);
    }
  }
};
} // namespace
