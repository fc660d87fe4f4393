//===- Partition.cpp - from a planned step to the programs of its ranks ---===//
//
// Problem: write what one rank does, from a step on global tensors whose ops
// have factors assigned to axes.
//
// Idea: an op on a shard is the same op on local types. `planModel` says in
// which layout each op makes its results and needs its operands; between the
// two stand collectives, made at the first reader and shared. `Placement` says
// which stage and function runs an op; a value that is read in another function
// goes through a buffer, in another stage through a message. State that is
// sharded over data ranks lies in flat pieces (`StatePieces`).
//
// Steps, for each stage: declare inputs and parameters; write the ops in
// program order, each into its function; write outputs; the same for the
// evaluation of the loss.
//
// Cost: one visit per op and stage.
//
//===----------------------------------------------------------------------===//

#include "ProgramWriter.h"
#include "SplitShardAxis.h"

#include "kerf/Dialect/Kerf/Chunks.h"
#include "kerf/Dialect/Kerf/Evaluation.h"
#include "kerf/Partition/Passes.h"

#include "llvm/Support/DebugLog.h"

#include <map>

#define DEBUG_TYPE "partition"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_PARTITIONPASS
#include "kerf/Partition/Passes.h.inc"

} // namespace kerf

/// Collectives of each program by kind.
static void logCollectives(ModuleOp module) {
  for (auto program : module.getOps<spmd::ProgramOp>()) {
    std::map<std::string, int64_t> counts;
    program.walk([&](Operation *op) {
      if (spmd::isExchange(op))
        ++counts[op->getName().stripDialect().str()];
    });
    std::string text;
    for (const auto &[name, count] : counts)
      text += ", " + std::to_string(count) + " " + name;
    LDBG() << program.getSymName() << text;
  }
}

/// Replaces a model by the programs of its stages.
static LogicalResult partition(ModelOp model, PlannedModel plan) {
  IRMapping toCopy, origins;
  OwningOpRef<ModelOp> copy = makeEvaluation(model, toCopy);
  FailureOr<PlannedModel> copyPlan = planModel(*copy);
  if (failed(copyPlan)) {
    mlir::emitRemark(model.getLoc())
        << "this is about the evaluation of the loss, without dropout";
    return failure();
  }
  for (auto [from, to] : toCopy.getValueMap())
    origins.map(to, from);
  PlacedModel training(model, std::move(plan), /*evaluating=*/false);
  PlacedModel evaluation(*copy, std::move(*copyPlan), /*evaluating=*/true);
  StatePieces pieces(model, training.plan);
  for (int64_t stage = 0; stage < training.placement.stages(); ++stage)
    ProgramWriter(training, evaluation, origins, pieces, stage).run();
  LLVM_DEBUG(logCollectives(model->getParentOfType<ModuleOp>()));
  model.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// What cannot be written yet
//===----------------------------------------------------------------------===//

/// A pipeline needs repeats that belong to one chunk each.
static LogicalResult checkStages(ModelOp model, PlanAttr plan) {
  if (getChunkCount(plan) == 1)
    return success();
  for (RepeatOp repeat : model.getBody().getOps<RepeatOp>())
    if (!repeat->hasAttr(kChunkAttrName)) {
      auto diagnostic = repeat.emitOpError()
                        << "belongs to no stage of the plan, which has "
                        << getChunkCount(plan) << " chunks";
      diagnostic.attachNote() << "run 'kerf-split-stages' before";
      return diagnostic;
    }
  return success();
}

/// Refuses, by name, ways of working that no program can be written for.
static LogicalResult checkWays(ModelOp model, const PlannedModel &plan) {
  bool fine = true;
  model.getBody().walk([&](FactorOpInterface op) {
    auto known = plan.assignments.find(op);
    if (known == plan.assignments.end())
      return;
    auto refuse = [&](const llvm::Twine &what) {
      fine = false;
      op.emitOpError() << "is planned " << what
                       << ", which no program can be written for yet";
    };
    const Assignment &assignment = known->second;
    Factors facts = op.getFactors();
    bool communicates = isa<VariantOpInterface>(op.getOperation());
    for (unsigned variant : assignment.variants)
      if (!communicates)
        refuse("by its variant '" + facts.variants[variant].name + "'");
    if (assignment.routed && !communicates)
      refuse("with rows that go where data says");
  });
  return success(fine);
}

namespace {
struct PartitionPass : public kerf::impl::PartitionPassBase<PartitionPass> {
  void runOnOperation() override {
    for (ModelOp model : llvm::to_vector(getOperation().getOps<ModelOp>())) {
      if (failed(checkShardAxes(model)))
        return signalPassFailure();
      auto plan = planModel(model);
      if (failed(plan) || failed(checkStages(model, getPlan(model))) ||
          failed(checkWays(model, *plan)) ||
          failed(partition(model, std::move(*plan))))
        return signalPassFailure();
    }
  }
};
} // namespace
