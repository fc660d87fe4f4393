#include "kerf/PlanIR/Passes.h"
#include "kerf/Sharding/Layout.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "kerf/PlanIR/Passes.h.inc"
} // namespace kerf

/// True if some factor of some op is split by the micro-batches.
static bool splitsByMicro(ModelOp model) {
  WalkResult result = model.walk([](Operation *op) {
    auto assign = op->getAttrOfType<AssignAttr>(kAssignAttrName);
    if (!assign)
      return WalkResult::advance();
    for (NamedAttribute factor : assign.getFactors())
      for (auto axis :
           cast<ArrayAttr>(factor.getValue()).getAsValueRange<StringAttr>())
        if (axis == kMicroAxis)
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return result.wasInterrupted();
}

namespace {
/// Values of which each micro-batch has its own, though neither a split nor a
/// sum says so: what is measured in one (`Factors::maxOfMicroBatch`) and what
/// follows from it. Each is known with the op that measures.
class MicroBatchValues {
public:
  explicit MicroBatchValues(const PlannedModel &plan) : plan(plan) {}
  /// Fails where one leaves its micro-batch.
  LogicalResult check(Block &block);

private:
  Operation *sourceOf(Operation *op) const;
  LogicalResult checkIterations(RepeatOp repeat);
  void pass(ValueRange from, ValueRange to);
  bool isPlainValue(Value value) const;

  const PlannedModel &plan;
  llvm::DenseMap<Value, Operation *> sources;
};
} // namespace

/// True when neither a split nor a sum over micro-batches tells them apart.
bool MicroBatchValues::isPlainValue(Value value) const {
  Layout layout = plan.values.lookup(value);
  return !layout.isShardedBy(plan.axes.micro()) &&
         !llvm::is_contained(layout.sums, plan.axes.micro());
}

/// The op that measures what the results of `op` follow from; null: none.
Operation *MicroBatchValues::sourceOf(Operation *op) const {
  auto iface = dyn_cast<FactorOpInterface>(op);
  auto assignment = plan.assignments.find(op);
  if (iface && assignment != plan.assignments.end() &&
      iface.getFactors().maxOfMicroBatch)
    for (const AxisList &axes : assignment->second.factors)
      if (llvm::is_contained(axes, plan.axes.micro()))
        return op;
  for (Value operand : op->getOperands())
    if (Operation *source = sources.lookup(operand))
      return source;
  return nullptr;
}

void MicroBatchValues::pass(ValueRange from, ValueRange to) {
  for (auto [value, next] : llvm::zip(from, to))
    if (Operation *source = sources.lookup(value))
      sources[next] = source;
}

/// Checks the body until what one iteration carries into the next is known.
LogicalResult MicroBatchValues::checkIterations(RepeatOp repeat) {
  for (int64_t i = 0; i < repeat.getCount(); ++i) {
    if (failed(check(repeat.getBody().front())))
      return failure();
    size_t known = sources.size();
    pass(repeat.getYield()->getOperands(), repeat.getCarryArgs());
    if (sources.size() == known)
      break;
  }
  return success();
}

LogicalResult MicroBatchValues::check(Block &block) {
  for (Operation &op : block) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      Block &body = repeat.getBody().front();
      pass(repeat->getOperands(), body.getArguments().drop_front());
      if (failed(checkIterations(repeat)))
        return failure();
      pass(repeat.getYield()->getOperands(), repeat.getResults());
      continue;
    }
    Operation *source = sourceOf(&op);
    PhaseAttr phase = getPhase(&op);
    bool isOnce = isa<UpdateOp, ReturnOp>(op) ||
                  (phase && phase.getKind() == PhaseKind::Update);
    if (source && isOnce) {
      auto diagnostic = op.emitOpError()
                        << "runs once per step, and reads what each "
                           "micro-batch has its own of";
      diagnostic.attachNote(source->getLoc())
          << "it is measured in a micro-batch here; use it there, on what is "
             "split by 'micro' or summed over it, or plan one micro-batch";
      return diagnostic;
    }
    for (Value result : op.getResults())
      if (source && isPlainValue(result))
        sources[result] = source;
  }
  return success();
}

namespace {
struct VerifyPlanPass : public kerf::impl::VerifyPlanPassBase<VerifyPlanPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      if (!model->hasAttr(kPlanAttrName)) {
        model.emitOpError("has no 'plan'; run 'kerf-propagate-plan'");
        return signalPassFailure();
      }
      auto plan = planModel(model);
      if (failed(plan))
        return signalPassFailure();
      bool hasMicro = getPlan(model).getMicroBatches() > 1;
      if (hasMicro &&
          failed(MicroBatchValues(*plan).check(model.getBody().front())))
        return signalPassFailure();
      if (hasMicro && !splitsByMicro(model)) {
        (model.emitOpError()
         << "is planned in " << getPlan(model).getMicroBatches()
         << " micro-batches, and no op is split by 'micro'")
                .attachNote()
            << "split the batch where the tokens enter, as with {\"op\": "
               "\"embedding\", \"factors\": {\"b\": [\"micro\"]}}";
        return signalPassFailure();
      }
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
