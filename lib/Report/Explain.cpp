//===- Explain.cpp - what a plan means, in numbers and words --------------===//

#include "kerf/Report/ExplainDetail.h"

#include "kerf/Report/Report.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;
using namespace kerf::explain_detail;

static MemoryPart describeMemory(const ExplainInput &input,
                                 const PlanPoint &plan) {
  MemoryPart part;
  part.capacity = input.machine->perRank().device.memoryBytes;
  part.buffers = describeBuffers(input, plan);
  part.reserve = reserveOf(*input.machine, input.profile, plan.outer,
                           plan.exchangesRows());
  for (const PlacedStage &stage : plan.stages)
    part.stages.push_back(stage.memory);
  for (size_t i = 1; i < part.stages.size(); ++i)
    if (part.headroom(i) < part.headroom(part.tightest))
      part.tightest = static_cast<int>(i);
  return part;
}

/// Buffers that one would split to make a plan fit: others are not why it does
/// not.
static std::vector<BufferRow> largeBuffers(const ExplainInput &input,
                                           const PlanPoint &plan) {
  constexpr double share = 0.02; // of a device's memory
  std::vector<BufferRow> rows = describeBuffers(input, plan);
  double least = share * input.machine->perRank().device.memoryBytes;
  llvm::erase_if(rows, [&](const BufferRow &row) { return row.bytes < least; });
  return rows;
}

int64_t explain_detail::devicesOf(const ExplainInput &input) {
  return input.devices > 0 ? input.devices : input.machine->describedDevices();
}

Explanation kerf::explain(const ExplainInput &input) {
  Explanation result;
  result.infeasible = input.result->infeasible;
  result.plan.model = input.step->name;
  result.plan.cluster = input.machine->name;
  result.plan.device = input.machine->device.name;
  result.plan.devices = devicesOf(input);
  result.feasible = input.result->best.has_value();
  if (!result.feasible) {
    if (result.infeasible.least)
      result.leastBuffers = largeBuffers(input, *result.infeasible.least);
    return result;
  }
  const PlanPoint &plan = *input.result->best;
  result.plan = describePlan(input, plan);
  result.memory = describeMemory(input, plan);
  result.time = accountTime(*input.step, *input.machine, input.profile, plan);
  result.time.collectives = priceCollectives(input, plan);
  result.alternatives = describeAlternatives(input, result.time);
  result.run = planRun(*input.step, *input.machine, result.plan.devices,
                       result.time.stepSec, input.tokens);
  result.run.band =
      errorBandOf(*input.step, *input.machine, input.profile, plan.outer);
  result.roomy = describeRoomy(input, plan);
  result.trust = describeTrust(input, plan);
  if (input.withSensitivity)
    result.sensitivity = describeSensitivity(input, plan);
  return result;
}

Refusal kerf::refusalOf(const Explanation &explanation) {
  const PlanPart &plan = explanation.plan;
  const Infeasible &why = explanation.infeasible;
  Refusal refusal;
  refusal.message =
      "no plan of '" + plan.model + "' fits " +
      report::plural(static_cast<double>(plan.devices), "device") + " of '" +
      plan.cluster + "'";
  if (!why.reasons.empty())
    refusal.message += ": " + why.reasons.front();
  for (size_t i = 1; i < why.reasons.size(); ++i)
    refusal.notes.push_back(why.reasons[i]);
  if (!explanation.leastBuffers.empty())
    refusal.notes.push_back("largest buffer: " +
                            report::bufferWords(explanation.leastBuffers[0]));
  for (auto [i, relief] : llvm::enumerate(why.reliefs))
    refusal.notes.push_back((i ? "or: " : "cheapest relief: ") + relief);
  return refusal;
}
