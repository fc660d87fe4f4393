//===- SplitStages.cpp - repeats that belong to one chunk each ------------===//
//
// Problem: a plan gives layers to the chunks of a pipeline, and lets layers
// differ in what they compute again; a repeat has one body for all its layers.
//
// Steps: the layers of all repeats in a row, divided where the plan's runs end;
// split each repeat there, its reverse with it; say on each part which chunk it
// belongs to and what it computes again.
//
// Example: stages = [[embedding x 1, layer x 3], [layer x 1, head x 1]] of a
// repeat over 4 layers: layers 0 to 3 become chunk 0, layer 3 chunk 1.
//
//===----------------------------------------------------------------------===//

#include "SplitRepeat.h"

#include "kerf/Dialect/Kerf/Chunks.h"
#include "kerf/Differentiate/Passes.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_SPLITSTAGESPASS
#include "kerf/Differentiate/Passes.h.inc"
} // namespace kerf

namespace {
/// Layers that follow each other, in the same chunk and alike.
struct Run {
  int64_t count;
  int64_t chunk;
  DenseI64ArrayAttr recompute;
};
} // namespace

/// Layers of repeats, unlike embedding and head, are called "layer".
static bool isLayer(LayersAttr layers) {
  return layers.getKind().starts_with("layer");
}

/// As the plan says, or evenly where it says nothing: earlier chunks get the
/// layers that are left over.
static llvm::SmallVector<Run> runsOf(PlanAttr plan, int64_t layers) {
  llvm::SmallVector<Run> runs;
  int64_t chunks = getChunkCount(plan);
  if (ArrayAttr stages = plan.getStages()) {
    for (auto [chunk, entry] : llvm::enumerate(stages))
      for (LayersAttr run : PlanAttr::getRuns(entry))
        if (isLayer(run))
          runs.push_back({run.getCount(), int64_t(chunk), run.getRecompute()});
    return runs;
  }
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    runs.push_back({layers / chunks + (chunk < layers % chunks), chunk, {}});
  return runs;
}

/// Says on a repeat and its reverse what they belong to.
static void mark(ModelOp model, RepeatOp forward, const Run &run) {
  OpBuilder builder(model.getContext());
  for (RepeatOp repeat : model.getBody().getOps<RepeatOp>())
    if (repeat == forward ||
        (forward.getPair() && repeat.getPair() == forward.getPair()))
      repeat->setAttr(kChunkAttrName, builder.getI64IntegerAttr(run.chunk));
  if (run.recompute)
    forward->setAttr(kRecomputeAttrName, run.recompute);
}

static LogicalResult splitModel(ModelOp model) {
  auto plan = model->getAttrOfType<PlanAttr>(kPlanAttrName);
  if (!plan || (getChunkCount(plan) == 1 && !plan.getStages()))
    return success();
  int64_t layers = 0, given = 0;
  for (RepeatOp repeat : forwardRepeats(model))
    layers += repeat.getCount();
  llvm::SmallVector<Run> runs = runsOf(plan, layers);
  for (const Run &run : runs)
    given += run.count;
  if (given != layers) {
    auto diagnostic = model.emitOpError()
                      << "has " << layers << " layers in its repeats, the "
                      << "stages of its plan have " << given;
    diagnostic.attachNote() << "each layer belongs to one stage";
    return diagnostic;
  }
  if (!plan.getStages() && layers < getChunkCount(plan)) {
    auto diagnostic = model.emitOpError()
                      << "has " << layers << " layers in its repeats for "
                      << getChunkCount(plan) << " chunks of its plan";
    diagnostic.attachNote() << "plan again with fewer stages or chunks";
    return diagnostic;
  }
  // Split at the first border in a repeat, then go on with its upper half.
  for (size_t next = 0, r = 0; next < runs.size(); ++r) {
    if (runs[next].count == 0) {
      ++next;
      --r;
      continue;
    }
    RepeatOp repeat = forwardRepeats(model)[r];
    Run &run = runs[next];
    if (run.count < repeat.getCount()) {
      int64_t at = repeat.getReverse() ? repeat.getEnd() - run.count
                                       : repeat.getStart() + run.count;
      splitRepeats(model, at, repeat.getPair().value_or(-1));
      repeat = forwardRepeats(model)[r];
    }
    mark(model, repeat, run);
    run.count -= repeat.getCount();
    next += run.count == 0;
  }
  return success();
}

namespace {
struct SplitStagesPass
    : public kerf::impl::SplitStagesPassBase<SplitStagesPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(splitModel(model)))
        return signalPassFailure();
  }
};
} // namespace
