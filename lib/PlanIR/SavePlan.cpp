#include "PlanHead.h"
#include "kerf/Cost/Timeline.h"
#include "kerf/PlanIR/Passes.h"
#include "kerf/PlanIR/PlanFile.h"
#include "kerf/Sharding/Layout.h"
#include "kerf/Support/Json.h"
#include "kerf/Support/Output.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_SAVEPLANPASS
#include "kerf/PlanIR/Passes.h.inc"
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

static json::Value numbersOf(llvm::ArrayRef<int64_t> numbers) {
  json::Value list = json::Value::makeArray();
  for (int64_t number : numbers)
    list.array.push_back(json::Value::fromInteger(number));
  return list;
}

/// One run per member: `{"count": 8, "kind": "layer", "recompute": [3, 7]}`.
static json::Value stagesOf(ArrayAttr stages) {
  json::Value list = json::Value::makeArray();
  for (Attribute entry : stages) {
    json::Value runs = json::Value::makeArray();
    for (LayersAttr run : PlanAttr::getRuns(entry)) {
      json::Value layers = json::Value::makeObject();
      layers.set("kind", json::Value::fromString(run.getKind()));
      layers.set("count", json::Value::fromInteger(run.getCount()));
      if (run.getRecompute())
        layers.set("recompute", numbersOf(run.getRecompute().asArrayRef()));
      runs.array.push_back(std::move(layers));
    }
    list.array.push_back(std::move(runs));
  }
  return list;
}

static json::Value modelOf(ModelOp model) {
  ModelStamp stamp = stampOf(model);
  json::Value value = json::Value::makeObject();
  value.set("name", json::Value::fromString(stamp.name));
  if (stamp.symbol != stamp.name)
    value.set("symbol", json::Value::fromString(stamp.symbol));
  value.set("shapes", json::Value::fromString(stamp.shapes));
  return value;
}

/// All but the rules; fields that say nothing are left out.
static json::Value headOf(ModelOp model, PlanAttr plan) {
  json::Value head = json::Value::makeObject();
  auto setInteger = [&](llvm::StringRef key, int64_t value, int64_t usual) {
    if (value != usual)
      head.set(key, json::Value::fromInteger(value));
  };
  json::Value mesh = json::Value::makeObject();
  for (auto [name, size] :
       llvm::zip(plan.getMesh().getNames(), plan.getMesh().getSizes()))
    mesh.set(name.getValue(), json::Value::fromInteger(size));
  head.set("mesh", std::move(mesh));
  head.set("order", namesOf(plan.getMesh().getNames()));
  head.set("micro_batches", json::Value::fromInteger(plan.getMicroBatches()));
  head.set("schedule", json::Value::fromString(plan.getSchedule()));
  head.set("recompute", plan.getRecompute().empty()
                            ? json::Value::fromString(
                                  plan.getRecomputeAll() ? "full" : "none")
                            : numbersOf(plan.getRecompute()));
  setInteger("chunks", plan.getChunks(), 1);
  setInteger("defer", plan.getDefer(), kDeferAll);
  setInteger("zero", plan.getZero(), 0);
  setInteger("shard_group", plan.getShardGroup(), 0);
  if (plan.getMoeBuffer() != 0)
    head.set("moe_buffer", json::Value::fromNumber(plan.getMoeBuffer()));
  if (plan.getPlainOrder())
    head.set("cp_order", json::Value::fromString("plain"));
  if (plan.getStages())
    head.set("stages", stagesOf(plan.getStages()));
  head.set("model", modelOf(model));
  head.set("version", json::Value::fromInteger(1));
  return head;
}

static json::Value checkedOf(const CheckedPlan &checked) {
  json::Value value = json::Value::makeObject();
  json::Value differs = json::Value::makeArray();
  for (const std::string &what : checked.differs)
    differs.array.push_back(json::Value::fromString(what));
  value.set("twin", json::Value::fromString(checked.twin));
  value.set("largest_error", json::Value::fromNumber(checked.largestError));
  value.set("differs", std::move(differs));
  return value;
}

/// One rule per op; `described`: with what it is.
static std::vector<json::Value> rulesOf(ModelOp model, bool described) {
  std::vector<json::Value> rules;
  llvm::DenseMap<Operation *, std::string> words;
  if (described)
    words = describeOps(model);
  llvm::DenseMap<Operation *, std::string> names = namesOfOps(model);
  model.getBody().walk([&](FactorOpInterface op) {
    auto assign = op->getAttrOfType<AssignAttr>(kAssignAttrName);
    auto name = names.find(op);
    if (!assign || name == names.end())
      return;
    json::Value rule = json::Value::makeObject();
    rule.set("op", json::Value::fromString(name->second));
    rule.set("factors", factorsOf(assign));
    if (!assign.getPending().empty())
      rule.set("pending", namesOf(assign.getPending()));
    if (!assign.getVariants().empty())
      rule.set("variant", namesOf(assign.getVariants()));
    if (assign.getBlocks() != 1)
      rule.set("blocks", json::Value::fromInteger(assign.getBlocks()));
    if (assign.getRouted())
      rule.set("routed", json::Value::fromBool(true));
    if (auto at = words.find(op); at != words.end())
      rule.set("at", json::Value::fromString(at->second));
    rules.push_back(std::move(rule));
  });
  return rules;
}

std::string kerf::savePlan(ModelOp model, double reserveBytes,
                           const CheckedPlan *checked,
                           const json::Value *priced, bool described) {
  json::PrintOptions line;
  line.indent = 0;
  json::Value head = headOf(model, getPlan(model));
  if (reserveBytes > 0)
    head.set("reserve_bytes",
             json::Value::fromInteger(std::llround(std::ceil(reserveBytes))));
  if (checked)
    head.set("checked", checkedOf(*checked));
  if (priced)
    head.set("priced", *priced);
  llvm::sort(head.object, [](const json::Member &a, const json::Member &b) {
    return a.key < b.key;
  });
  // "assign" is the first key; rules and fields take a line each, so that a
  // difference of two plans is one of lines.
  std::string text = "{\n\"assign\": [";
  bool first = true;
  for (const json::Value &rule : rulesOf(model, described)) {
    text += (first ? "\n" : ",\n") + json::print(rule, line);
    first = false;
  }
  text += "\n]";
  for (const json::Member &field : head.object)
    text += ",\n\"" + field.key + "\": " + json::print(field.value, line);
  return text + "\n}\n";
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
