//===- ReportJson.cpp - an explanation as JSON ----------------------------===//

#include "kerf/Report/ExplainDetail.h"

#include "kerf/Report/Report.h"

using namespace kerf;
using namespace kerf::report;
using json::Value;

json::Value report::numberOf(double number) {
  if (!std::isfinite(number))
    return {};
  double whole = std::round(number);
  if (whole == number && std::fabs(number) < 9e15)
    return json::Value::fromInteger(static_cast<int64_t>(number));
  return json::Value::fromNumber(number);
}

json::Value report::stringsOf(llvm::ArrayRef<std::string> strings) {
  json::Value list = json::Value::makeArray();
  for (const std::string &string : strings)
    list.array.push_back(json::Value::fromString(string));
  return list;
}

static Value textOf(llvm::StringRef text) { return Value::fromString(text); }

static Value groupOf(const Group &group) {
  Value value = Value::makeObject();
  value.set("size", Value::fromInteger(group.size));
  value.set("stride", Value::fromInteger(group.stride));
  return value;
}

/// An object of numbers.
static Value
numbersOf(llvm::ArrayRef<std::pair<const char *, double>> numbers) {
  Value value = Value::makeObject();
  for (const auto &[name, number] : numbers)
    value.set(name, numberOf(number));
  return value;
}

static Value outerOf(const OuterChoice &outer) {
  auto number = [](int64_t count) { return static_cast<double>(count); };
  Value value = numbersOf({{"tp", number(outer.tp)},
                           {"cp", number(outer.cp)},
                           {"ep", number(outer.ep)},
                           {"dp", number(outer.dp)},
                           {"pp", number(outer.pp)},
                           {"micro_batch", number(outer.microBatch)},
                           {"micro_batches", number(outer.microBatches)},
                           {"chunks", number(outer.chunks)},
                           {"zero", number(outer.zero)},
                           {"shard_group", number(outer.shardGroup)}});
  value.set("schedule", textOf(nameOf(outer.schedule)));
  if (splitsWeightGradient(outer.schedule))
    value.set("defer", numberOf(number(outer.mostDeferred())));
  Value order = Value::makeArray();
  for (MeshAxis axis : outer.order)
    order.array.push_back(textOf(explain_detail::axisName(axis)));
  value.set("order_innermost_first", std::move(order));
  return value;
}

static Value stagesOf(const PlanPart &plan) {
  Value stages = Value::makeArray();
  for (const StageRow &row : plan.stages) {
    Value value = Value::makeObject();
    value.set("ranks", textOf(rankWords(row.ranks)));
    value.set("layers", textOf(row.layers));
    value.set("recompute", textOf(row.recompute));
    stages.array.push_back(std::move(value));
  }
  return stages;
}

static Value precisionOf(const KindRow &row) {
  Value list = Value::makeArray();
  for (const PrecisionWords &words : row.precision) {
    Value line = Value::makeObject();
    line.set("type", textOf(words.type));
    line.set("ops", stringsOf(words.ops));
    line.set("why", textOf(words.why));
    list.array.push_back(std::move(line));
  }
  return list;
}

static Value kindsOf(const PlanPart &plan) {
  Value kinds = Value::makeArray();
  for (const KindRow &row : plan.kinds) {
    Value value = Value::makeObject();
    value.set("name", textOf(row.name));
    value.set("count", Value::fromInteger(row.count));
    Value layout = Value::makeArray();
    for (const LayoutWords &words : row.layout) {
      Value line = Value::makeObject();
      line.set("axis", textOf(words.axis));
      line.set("words", textOf(words.words));
      line.set("ops", stringsOf(words.ops));
      layout.array.push_back(std::move(line));
    }
    value.set("layout", std::move(layout));
    if (!row.precision.empty())
      value.set("precision", precisionOf(row));
    kinds.array.push_back(std::move(value));
  }
  return kinds;
}

static Value planOf(const PlanPart &plan) {
  Value value = Value::makeObject();
  value.set("model", textOf(plan.model));
  value.set("cluster", textOf(plan.cluster));
  value.set("device", textOf(plan.device));
  value.set("type", textOf(plan.type));
  if (!plan.ratedAs.empty())
    value.set("rated_as", textOf(plan.ratedAs));
  value.set("batch", Value::fromInteger(plan.batch));
  value.set("sequence", Value::fromInteger(plan.sequence));
  value.set("parameters", numberOf(plan.parameters));
  value.set("devices", Value::fromInteger(plan.devices));
  value.set("spares", Value::fromInteger(plan.spares));
  if (plan.perUnit > 0)
    value.set("per_unit", Value::fromInteger(plan.perUnit));
  if (plan.filledSec > 0)
    value.set("filled_step_sec", numberOf(plan.filledSec));
  value.set("choice", outerOf(plan.outer));
  value.set("state", textOf(plan.state));
  value.set("holds_all_experts", Value::fromBool(plan.holdsAllExperts));
  Value axes = Value::makeArray();
  for (const AxisRow &row : plan.axes) {
    Value axis = groupOf(row.group);
    axis.set("name", textOf(row.name));
    axis.set("tier", textOf(row.tier));
    axis.set("carries", textOf(row.carries));
    axes.array.push_back(std::move(axis));
  }
  value.set("axes", std::move(axes));
  value.set("stages", stagesOf(plan));
  value.set("kinds", kindsOf(plan));
  return value;
}

static Value buffersOf(llvm::ArrayRef<BufferRow> rows) {
  Value list = Value::makeArray();
  for (const BufferRow &row : rows) {
    Value value =
        numbersOf({{"bytes", row.bytes}, {"element_bytes", row.elementBytes}});
    value.set("layer", textOf(row.layer));
    Value stages = Value::makeArray();
    for (int64_t stage : row.stages)
      stages.array.push_back(Value::fromInteger(stage));
    value.set("stages", std::move(stages));
    value.set("op", textOf(row.op));
    Value shape = Value::makeArray();
    for (int64_t size : row.shape)
      shape.array.push_back(Value::fromInteger(size));
    value.set("shape", std::move(shape));
    value.set("place", textOf(row.place));
    value.set("not_split_by", stringsOf(row.wholeOver));
    value.set("pins", stringsOf(row.pins));
    list.array.push_back(std::move(value));
  }
  return list;
}

static Value memoryOf(const MemoryPart &memory) {
  Value value = Value::makeObject();
  value.set("capacity_bytes", numberOf(memory.capacity));
  value.set("tightest_stage", Value::fromInteger(memory.tightest));
  Value stages = Value::makeArray();
  for (size_t i = 0; i < memory.stages.size(); ++i) {
    const StageMemory &stage = memory.stages[i];
    stages.array.push_back(numbersOf({{"weights", stage.weights},
                                      {"masters", stage.masters},
                                      {"gradients", stage.gradients},
                                      {"optimizer", stage.optimizer},
                                      {"activations", stage.activations},
                                      {"temporaries", stage.temporaries},
                                      {"gradients_in_transit", stage.transit},
                                      {"communication", stage.communication},
                                      {"reserved", stage.reserved},
                                      {"total", stage.total()},
                                      {"headroom", memory.headroom(i)}}));
  }
  value.set("stages_bytes", std::move(stages));
  value.set("largest_buffers", buffersOf(memory.buffers));
  const Reserve &reserve = memory.reserve;
  value.set("reserve_bytes",
            numbersOf({{"fixed", reserve.fixed},
                       {"context", reserve.context},
                       {"libraries", reserve.libraries},
                       {"connections", double(reserve.connections)},
                       {"connection", reserve.connection}}));
  return value;
}

static Value roofOf(const Roof &roof) {
  Value value = Value::makeObject();
  value.set("name", textOf(roof.name));
  value.set("step_sec_without", numberOf(roof.stepSec));
  return value;
}

Value report::jsonOf(llvm::ArrayRef<PricedCollective> rows) {
  Value list = Value::makeArray();
  for (const PricedCollective &row : rows) {
    Value value = numbersOf(
        {{"calls", row.calls}, {"bytes", row.bytes}, {"sec", row.sec}});
    value.set("kind", textOf(row.kind));
    value.set("axes", textOf(row.axes));
    list.array.push_back(std::move(value));
  }
  return list;
}

static Value timeOf(const TimePart &time) {
  Value value = numbersOf({{"step_sec", time.stepSec},
                           {"closed_form_sec", time.closedFormSec},
                           {"mfu", time.mfu},
                           {"hfu", time.hfu},
                           {"of_ideal", time.ofIdeal},
                           {"computing", time.computeSec() / time.stepSec},
                           {"bytes_per_flop", time.bytesPerFlop},
                           {"model_flops", time.modelFlops},
                           {"recomputed_flops", time.recomputedFlops},
                           {"peak_flops_per_sec", time.peak}});
  value.set("compute_sec", numbersOf({{"matmul", time.matmulSec},
                                      {"attention", time.attentionSec},
                                      {"memory_bound", time.rowSec},
                                      {"launch", time.launchSec},
                                      {"recompute", time.recomputeSec},
                                      {"optimizer", time.optimizerSec}}));
  value.set("coordination_sec", numbersOf({{"bubble", time.bubbleSec},
                                           {"imbalance", time.imbalanceSec},
                                           {"fixed", time.constantSec}}));
  Value traffic = Value::makeArray();
  for (const TrafficRow &row : time.traffic) {
    Value line = numbersOf({{"total_sec", row.totalSec},
                            {"hidden_sec", row.totalSec - row.exposedSec},
                            {"exposed_sec", row.exposedSec}});
    line.set("axis", textOf(row.axis));
    line.set("tier", textOf(row.tier));
    traffic.array.push_back(std::move(line));
  }
  value.set("communication", std::move(traffic));
  value.set("collectives", report::jsonOf(time.collectives));
  Value roofs = Value::makeArray();
  for (const Roof &roof : time.roofs)
    roofs.array.push_back(roofOf(roof));
  value.set("roofs", std::move(roofs));
  value.set("next_roof", roofOf(time.next));
  return value;
}

static Value alternativesOf(llvm::ArrayRef<AlternativeRow> rows) {
  Value list = Value::makeArray();
  for (const AlternativeRow &row : rows) {
    Value value = Value::makeObject();
    value.set("what", textOf(row.what));
    value.set("why", textOf(row.why));
    if (row.stepSec > 0) {
      value.set("step_sec", numberOf(row.stepSec));
      value.set("layout", textOf(row.layout));
    }
    if (row.boundSec > 0)
      value.set("lower_bound_sec", numberOf(row.boundSec));
    list.array.push_back(std::move(value));
  }
  return list;
}

Value report::jsonOf(const RunPart &run) {
  Value value = numbersOf({{"tokens", run.tokens},
                           {"steps", run.steps},
                           {"tokens_per_sec", run.tokensPerSec},
                           {"tokens_per_parameter", run.tokensPerParameter},
                           {"sec", run.seconds},
                           {"device_hours", run.deviceHours},
                           {"joules", run.joules},
                           {"flops_per_joule", run.flopsPerJoule},
                           {"goodput", run.goodput}});
  if (!run.currency.empty()) {
    value.set("currency", textOf(run.currency));
    value.set("price", numberOf(run.price));
    value.set("device_hour_price", numberOf(run.devicePrice));
    value.set("price_source", textOf(run.isPriceGiven ? "--price" : "cluster"));
    value.set("carbon_kg", numberOf(run.carbonKg));
  }
  if (run.failuresPerDay > 0) {
    Value failures = numbersOf({{"per_day", run.failuresPerDay},
                                {"checkpoint_bytes", run.checkpointBytes},
                                {"checkpoint_sec", run.checkpointSec},
                                {"stall_sec", run.checkpointStallSec},
                                {"interval_sec", run.checkpointIntervalSec}});
    failures.set("checkpoint_bound", textOf(run.checkpointBound));
    if (run.copyGoodput > 0)
      failures.set("copies", numbersOf({{"interval_sec", run.copyIntervalSec},
                                        {"stall_sec", run.copyStallSec},
                                        {"goodput", run.copyGoodput}}));
    value.set("failures", std::move(failures));
  }
  return value;
}

static Value certificateOf(const Certificate &c) {
  auto number = [](int64_t count) { return static_cast<double>(count); };
  Value value = numbersOf({{"space", c.space},
                           {"splits", c.splits},
                           {"nodes", number(c.nodes)},
                           {"pruned_by_memory", number(c.prunedByMemory)},
                           {"pruned_by_bound", number(c.prunedByBound)},
                           {"illegal", number(c.illegal)},
                           {"left_out", number(c.leftOut)},
                           {"evaluated", number(c.evaluated)},
                           {"tables_solved", number(c.tablesSolved)},
                           {"tables_bounded", number(c.tablesBounded)},
                           {"best_sec", c.bestSec},
                           {"bound_sec", c.boundSec},
                           {"gap", c.gap()}});
  value.set("complete", Value::fromBool(c.complete));
  value.set("by_mean_bytes", Value::fromBool(c.isMixed));
  value.set("model", textOf(c.model));
  return value;
}

static Value trustOf(const TrustPart &trust) {
  Value value = Value::makeObject();
  value.set("measured", Value::fromBool(trust.isMeasured));
  value.set("error_band", numberOf(trust.band.more));
  value.set("error_band_less", numberOf(trust.band.less));
  value.set("error_source", textOf(trust.band.source));
  if (!trust.band.when.empty())
    value.set("error_date", textOf(trust.band.when));
  Value measured = Value::makeArray();
  for (const MeasuredSteps &row : trust.measured) {
    Value line = numbersOf({{"less", row.less}, {"more", row.more}});
    line.set("where", textOf(row.where));
    line.set("type", textOf(row.type));
    line.set("what", textOf(row.what));
    line.set("date", textOf(row.when));
    line.set("remark", textOf(row.remark));
    measured.array.push_back(std::move(line));
  }
  value.set("measured_steps", std::move(measured));
  Value figures = Value::makeArray();
  for (const Assumption &figure : trust.figures) {
    Value line = Value::makeObject();
    line.set("name", textOf(figure.name));
    line.set("value", numberOf(figure.value));
    line.set("source", textOf(figure.source));
    figures.array.push_back(std::move(line));
  }
  value.set("figures", std::move(figures));
  value.set("assumptions", stringsOf(trust.assumptions));
  value.set("not_modelled", stringsOf(trust.notModelled));
  value.set("certificate", certificateOf(trust.certificate));
  Value excluded = Value::makeArray();
  for (const auto &[feature, reason] : trust.excluded) {
    Value line = Value::makeObject();
    line.set("feature", textOf(feature));
    line.set("reason", textOf(reason));
    excluded.array.push_back(std::move(line));
  }
  value.set("not_searched", std::move(excluded));
  value.set("not_compiled", textOf(trust.notCompiled));
  return value;
}

std::string kerf::printJson(const Explanation &explanation) {
  Value value = Value::makeObject();
  value.set("version", Value::fromInteger(2));
  value.set("feasible", Value::fromBool(explanation.feasible));
  if (!explanation.feasible) {
    value.set("error", textOf(refusalOf(explanation).message));
    value.set("reasons", stringsOf(explanation.infeasible.reasons));
    value.set("reliefs", stringsOf(explanation.infeasible.reliefs));
    value.set("largest_buffers", buffersOf(explanation.leastBuffers));
    return json::print(value) + "\n";
  }
  value.set("plan", planOf(explanation.plan));
  value.set("memory", memoryOf(explanation.memory));
  value.set("time", timeOf(explanation.time));
  value.set("alternatives", alternativesOf(explanation.alternatives));
  if (explanation.roomy.headroom > 0)
    value.set("with_headroom", jsonOf(explanation.roomy));
  value.set("run", jsonOf(explanation.run));
  value.set("trust", trustOf(explanation.trust));
  if (!explanation.sensitivity.rows.empty())
    value.set("sensitivity", jsonOf(explanation.sensitivity));
  return json::print(value) + "\n";
}
