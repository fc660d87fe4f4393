//===- Explain.cpp - what a plan means, in numbers and words --------------===//

#include "ExplainDetail.h"

#include "kerf/Plan/Report.h"
#include "kerf/Support/Gpus.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;
using namespace kerf::explain_detail;

static MemoryPart describeMemory(const ExplainInput &input,
                                 const PlanPoint &plan) {
  MemoryPart part;
  part.capacity = input.machine->perRank().device.memoryBytes;
  part.reserve = reserveOf(*input.machine, input.profile, plan.outer,
                           plan.exchangesRows());
  for (const PlacedStage &stage : plan.stages)
    part.stages.push_back(stage.memory);
  for (size_t i = 1; i < part.stages.size(); ++i)
    if (part.headroom(i) < part.headroom(part.tightest))
      part.tightest = static_cast<int>(i);
  return part;
}

/// Kerf's steps were measured on CPUs (docs/prediction-figures.md), and on no
/// GPU (docs/hardware.md).
static bool wasMeasured(const Device &device) {
  return device.target == BackendTarget::Cpu;
}

/// Expected error of step times: what fits of such models to published runs
/// reach on rows that they were not fitted to.
static void addErrorBand(TrustPart &part, const Profile &profile,
                         const OuterChoice &outer) {
  llvm::StringRef name = profile.name;
  if (outer.ranks() >= 256 && outer.dp * outer.cp > outer.tp * outer.pp) {
    part.errorBand = 0.12;
    part.errorSource = "256 ranks and more, mostly data-parallel";
  } else if (name.starts_with("megatron") || name.starts_with("nemo")) {
    part.errorBand = 0.05;
    part.errorSource = "runtimes like Megatron";
  } else {
    part.errorBand = 0.07;
    part.errorSource = "other runtimes";
  }
}

/// See `TrustPart::notCompiled`.
static std::string describeBackend(const Device &device) {
  const GpuFacts *gpu = findGpu(device.arch);
  bool isCompiled = device.target == BackendTarget::Cpu ||
                    (device.target == BackendTarget::Cuda && gpu && gpu->ptx);
  if (isCompiled)
    return "";
  std::string arch = device.arch.empty() ? "" : " (" + device.arch + ")";
  return "none are made for '" + device.name + "'" + arch +
         "; --emit=plan writes this plan, --emit=verify tries it on virtual "
         "ranks, and --plan compiles it for CPUs (--target=cpu) or other GPUs "
         "(--gpu=" +
         listCompiledGpus() + ")";
}

TrustPart explain_detail::describeTrust(const ExplainInput &input,
                                        const PlanPoint &plan) {
  const Efficiency &efficiency = input.machine->device.efficiency;
  const Profile &profile = input.profile;
  auto part = [](double share) { return report::percent(share, 0); };
  TrustPart trust;
  trust.assumptions = {
      "runtime '" + profile.name + "': products at " +
          part(efficiency.matmul * profile.matmul) + " of peak, attention at " +
          part(efficiency.attention * profile.attention) +
          (profile.flash ? " (fused)" : " (scores in memory)") +
          ", memory at " + part(efficiency.memory) + ", links at " +
          part(efficiency.network),
      "hidden beside compute: " + part(profile.tensorOverlap) +
          " of traffic inside layers, up to " + part(profile.dataOverlap) +
          " of gradients and weights",
      "experts evenly loaded; every sequence full"};
  if (plan.work.stages.size() > 1 && profile.bubble != 1)
    trust.assumptions.push_back("idle time in the pipeline is " +
                                part(profile.bubble) + " of the schedule's");
  if (plan.outer.cp > 1)
    trust.assumptions.push_back(
        input.step->plainOrder ||
                input.step->sequence % (2 * plan.outer.cp) != 0
            ? "the last context rank has most of the causal attention (tokens "
              "in "
              "plain order)"
            : "causal attention costs every context rank the same (tokens in "
              "zigzag order)");
  trust.notModelled = {"stragglers and jitter", "other jobs on the network",
                       "thermal throttling", "input pipeline",
                       "fragmentation of memory"};
  trust.isMeasured = wasMeasured(input.machine->device);
  trust.notCompiled = describeBackend(input.machine->device);
  addErrorBand(trust, profile, plan.outer);
  trust.certificate = input.result->certificate;
  trust.excluded = input.excluded;
  return trust;
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
  if (!result.feasible)
    return result;
  const PlanPoint &plan = *input.result->best;
  result.plan = describePlan(input, plan);
  result.memory = describeMemory(input, plan);
  result.time = accountTime(*input.step, *input.machine, input.profile, plan);
  result.time.collectives = priceCollectives(input, plan);
  result.alternatives = describeAlternatives(input, result.time);
  result.run = planRun(*input.step, *input.machine, result.plan.devices,
                       result.time.stepSec, input.tokens);
  result.trust = describeTrust(input, plan);
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
  for (auto [i, relief] : llvm::enumerate(why.reliefs))
    refusal.notes.push_back((i ? "or: " : "cheapest relief: ") + relief);
  return refusal;
}
