#include "kerf/Dialect/Kerf/Layout.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Plan/PlanFile.h"
#include "kerf/Support/Json.h"
#include "kerf/Support/Output.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_SAVEPLANPASS
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf

static json::Value namesOf(llvm::ArrayRef<StringAttr> axes) {
  json::Value names = json::Value::makeArray();
  for (StringAttr axis : axes)
    names.array.push_back(json::Value::fromString(axis.getValue()));
  return names;
}

static json::Value factorsOf(AssignAttr assign) {
  json::Value factors = json::Value::makeObject();
  for (NamedAttribute entry : assign.getFactors()) {
    auto axes = llvm::map_to_vector(
        cast<ArrayAttr>(entry.getValue()),
        [](Attribute axis) { return cast<StringAttr>(axis); });
    factors.set(entry.getName().getValue(), namesOf(axes));
  }
  return factors;
}

static json::Value headOf(PlanAttr plan) {
  json::Value head = json::Value::makeObject();
  json::Value mesh = json::Value::makeObject();
  for (auto [name, size] :
       llvm::zip(plan.getMesh().getNames(), plan.getMesh().getSizes()))
    mesh.set(name.getValue(), json::Value::fromInteger(size));
  json::Value recompute =
      json::Value::fromString(plan.getRecomputeAll() ? "full" : "none");
  if (!plan.getRecompute().empty())
    recompute = json::Value::makeArray();
  for (int64_t op : plan.getRecompute())
    recompute.array.push_back(json::Value::fromInteger(op));
  head.set("mesh", std::move(mesh));
  head.set("micro_batches", json::Value::fromInteger(plan.getMicroBatches()));
  head.set("schedule", json::Value::fromString(plan.getSchedule()));
  head.set("recompute", std::move(recompute));
  return head;
}

std::string kerf::savePlan(ModelOp model) {
  json::PrintOptions line;
  line.indent = 0;
  line.sortKeys = false;
  std::string text = json::print(headOf(getPlan(model)), line);
  text.back() = ','; // The rules follow, a line each.
  text += "\n\"assign\": [";
  llvm::DenseMap<Attribute, int64_t> count;
  bool first = true;
  model.getBody().walk([&](FactorOpInterface op) {
    PhaseAttr phase = getPhase(op);
    int64_t place = count[phase]++;
    auto assign = op->getAttrOfType<AssignAttr>(kAssignAttrName);
    if (!assign || !phase)
      return;
    json::Value rule = json::Value::makeObject();
    rule.set("op", json::Value::fromString(
                       (stringifyPhaseKind(phase.getKind()) + " " +
                        llvm::Twine(phase.getOp()) + " " + llvm::Twine(place))
                           .str()));
    rule.set("factors", factorsOf(assign));
    if (!assign.getPending().empty())
      rule.set("pending", namesOf(assign.getPending()));
    text += (first ? "\n" : ",\n") + json::print(rule, line);
    first = false;
  });
  return text + "\n]}\n";
}

namespace {
struct SavePlanPass : public kerf::impl::SavePlanPassBase<SavePlanPass> {
  using SavePlanPassBase::SavePlanPassBase;

  void runOnOperation() override {
    auto models = getOperation().getOps<ModelOp>();
    if (!llvm::hasSingleElement(models)) {
      mlir::emitError(getOperation().getLoc())
          << "expected one 'kerf.model' to save the plan of";
      return signalPassFailure();
    }
    std::string error, text = savePlan(*models.begin());
    if (failed(writeFileAtomically(
            file, [&](llvm::raw_ostream &os) { os << text; }, error))) {
      mlir::emitError(getOperation().getLoc())
          << "cannot write plan '" << file << "': " << error;
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
