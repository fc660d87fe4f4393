//===- ExplainTrust.cpp - what an explanation rests on --------------------===//

#include "kerf/Report/ExplainDetail.h"

#include "kerf/Cost/Kernels.h"
#include "kerf/Report/Report.h"
#include "kerf/Support/Gpus.h"

#include "llvm/ADT/StringExtras.h"

#include <optional>

using namespace kerf;
using namespace kerf::explain_detail;

/// Steps that speak for a plan: on such a device, in its number type, and on
/// GPUs on one rank, as they were measured. None: it is a projection.
static std::optional<MeasuredSteps> measuredAs(const StepModel &step,
                                               const Machine &machine,
                                               const Profile &profile,
                                               const OuterChoice &outer) {
  bool isCpu = machine.device.target == BackendTarget::Cpu;
  for (const MeasuredSteps &row : measuredStepsOn(machine, profile))
    if (isCpu || (row.type == step.type && outer.ranks() == 1))
      return row;
  return std::nullopt;
}

static bool hasGrouped(const StepModel &step) {
  for (const LayerKind &kind : step.kinds)
    for (const LayerOp &op : kind.ops)
      if (op.isGrouped())
        return true;
  return false;
}

/// Whether steps on such a device are among those that the model is judged by.
static bool isJudgedOn(const Device &device) {
  std::string name = llvm::StringRef(device.name).lower();
  return llvm::any_of(
      llvm::ArrayRef({"v100", "a100", "h100", "h200", "h800", "tpu-v4"}),
      [&](llvm::StringRef chip) {
        return llvm::StringRef(name).contains(chip);
      });
}

/// Of dense models in 16 bits on known GPUs: what fits of such models to
/// published runs reach on rows that they were not fitted to.
static ErrorBand bandOfRuntime(const Profile &profile,
                               const OuterChoice &outer) {
  constexpr const char *compared = "2026-11-24";
  llvm::StringRef name = profile.name;
  if (outer.ranks() >= 256 && outer.dp * outer.cp > outer.tp * outer.pp)
    return {0.12, 0.12, "256 ranks and more, mostly data-parallel", compared,
            true};
  if (name.starts_with("megatron") || name.starts_with("nemo"))
    return {0.05, 0.05, "runtimes like Megatron", compared, true};
  return {0.07, 0.07, "other runtimes", compared, true};
}

static ErrorBand bandOf(const MeasuredSteps &row) {
  std::string source = row.what.str() + " in " + row.type.str() + " on " +
                       row.where.str() + "; " + row.remark.str();
  return {row.less, row.more, source, row.when.str(), false};
}

// The figures of experts and of fp8 are those of docs/planner-figures.md.
ErrorBand kerf::errorBandOf(const StepModel &step, const Machine &machine,
                            const Profile &profile, const OuterChoice &outer) {
  if (auto measured = measuredAs(step, machine, profile, outer))
    return bandOf(*measured);
  ErrorBand widest = bandOfRuntime(profile, outer);
  auto consider = [&](bool applies, ErrorBand other) {
    if (applies && other.more > widest.more)
      widest = std::move(other);
  };
  consider(step.type == "fp8",
           {0.1, 0.1,
            "fp8: dense published steps are met within 4 %, Kerf's casts "
            "beside the matmuls are assumed",
            "2026-11-27"});
  consider(step.type == "f32" && machine.device.target != BackendTarget::Cpu,
           {0.2, 0.2, "assumed: none of the published steps was in f32", ""});
  consider(!isJudgedOn(machine.device),
           {0.2, 0.2,
            "assumed: none of the published steps was on such a device", ""});
  consider(hasGrouped(step),
           {0.1, 0.56,
            "experts: of 9 published steps one took 8 % less than foretold, 7 "
            "took 37 to 56 % more, one with small experts 3.3 times as long",
            "2026-11-27"});
  return widest;
}

static void addMeasured(TrustPart &part, const ExplainInput &input,
                        const OuterChoice &outer) {
  const Machine &machine = *input.machine;
  part.measured = measuredStepsOn(machine, input.profile);
  part.isMeasured =
      measuredAs(*input.step, machine, input.profile, outer).has_value();
  part.band = errorBandOf(*input.step, machine, input.profile, outer);
}

/// See `TrustPart::notCompiled`.
static std::string describeBackend(const Device &device, llvm::StringRef type) {
  const GpuFacts *gpu = findGpu(device.arch);
  bool isGpu = device.target == BackendTarget::Cuda && gpu && gpu->ptx;
  if (isGpu && type == "fp8" && !hasFloat8(device.arch))
    return "none are made: GPUs of " + device.arch +
           " have no matmuls of 8-bit floats, which sm_89 and newer have";
  if (isGpu || device.target == BackendTarget::Cpu)
    return "";
  std::string arch = device.arch.empty() ? "" : " (" + device.arch + ")";
  return "none are made for '" + device.name + "'" + arch +
         "; --emit=plan writes this plan, --emit=verify tries it on virtual "
         "ranks, and --plan compiles it for CPUs (--target=cpu) or other GPUs "
         "(--gpu=" +
         listCompiledGpus() + ")";
}

//===----------------------------------------------------------------------===//
// Assumptions
//===----------------------------------------------------------------------===//

static std::string sourceOf(const std::map<std::string, std::string> &sources,
                            const std::string &field) {
  auto it = sources.find(field);
  return it == sources.end() ? "cluster file" : it->second;
}

namespace {
/// Collects the rows of one explanation.
struct Collector {
  const ExplainInput &input;
  const Device &device;
  std::vector<Assumption> rows;

  void addEfficiency();
  void addHidden();

private:
  void add(Assumed what, std::string name, double value, std::string source) {
    rows.push_back({what, std::move(name), value, std::move(source)});
  }
  /// A part of the device's peak; a runtime's own factor is named.
  void addPart(Assumed what, const char *name, const char *field, double value,
               double factor) {
    std::string source = sourceOf(device.efficiency.sources, field);
    if (factor != 1)
      source += "; runtime '" + input.profile.name + "' reaches " +
                report::percent(factor, 0) + " of it";
    add(what, name, value * factor, source);
  }
};
} // namespace

void Collector::addEfficiency() {
  const Efficiency &efficiency = device.efficiency;
  const Profile &profile = input.profile;
  addPart(Assumed::Matmul, "matmuls, of peak", "matmul", efficiency.matmul,
          profile.matmul);
  if (hasGrouped(*input.step) && efficiency.groupedMatmul > 0)
    addPart(Assumed::Grouped, "grouped matmuls, of peak", "grouped_matmul",
            efficiency.groupedMatmul, profile.matmul);
  else if (hasGrouped(*input.step))
    add(Assumed::Grouped, "grouped matmuls, of peak",
        efficiency.matmul * profile.matmul, "assumed: as matmuls");
  AttentionRates rates = attentionRatesOf(device, profile, input.step->type);
  const char *name = profile.flash ? "attention forward, of peak"
                                   : "attention forward, scores in memory";
  addPart(Assumed::AttentionForward, name, "attention", rates.forward,
          profile.attention);
  addPart(Assumed::AttentionBackward, "attention backward, of peak",
          "attention_backward", rates.forward * rates.backwardRatio,
          profile.attention);
  addPart(Assumed::Memory, "memory, of bandwidth", "memory", efficiency.memory,
          1);
  addPart(Assumed::Network, "links, of bandwidth", "network",
          efficiency.network, 1);
}

void Collector::addHidden() {
  const Profile &profile = input.profile;
  const HiddenTraffic &hidden = device.hidden;
  auto share = [&](Assumed what, const char *name, const char *field,
                   bool isStated, double value) {
    bool isCpu = device.target == BackendTarget::Cpu;
    std::string source = isStated ? sourceOf(hidden.sources, field)
                         : isCpu ? "ranks send with the cores that compute"
                                 : "assumed for runtime '" + profile.name + "'";
    add(what, name, value, source);
  };
  share(Assumed::HiddenLayers, "hidden, inside layers", "layers",
        hidden.layers.has_value(), profile.tensorOverlap);
  share(Assumed::HiddenGradients, "hidden, of gradients", "gradients",
        hidden.gradients.has_value(), profile.gradientOverlap);
  share(Assumed::HiddenWeights, "hidden, of weights", "weights",
        hidden.weights.has_value(), profile.weightOverlap);
}

std::vector<Assumption>
explain_detail::assumptionsOf(const ExplainInput &input) {
  const Device &device = input.machine->device;
  Collector collector{input, device, {}};
  collector.addEfficiency();
  collector.addHidden();
  collector.rows.push_back(
      {Assumed::Headroom, "memory kept free", device.headroom,
       device.headroomSource.empty() ? "cluster file" : device.headroomSource});
  return std::move(collector.rows);
}

/// How matmuls lose by their shape.
static std::string shapeWords(const Device &device, llvm::StringRef type) {
  const Efficiency &efficiency = device.efficiency;
  auto own = efficiency.types.find(type.str());
  bool isTyped = own != efficiency.types.end();
  bool hasRows =
      (isTyped && !own->second.rows.empty()) || !efficiency.rows.empty();
  double processors = multiprocessors(device);
  std::vector<std::string> words;
  if (processors > 0)
    words.push_back("whole tiles and waves on " + report::fixed(processors, 0) +
                    " multiprocessors");
  if (hasRows)
    words.push_back("a curve by rows (" +
                    sourceOf(efficiency.sources,
                             isTyped ? "by_type." + type.str() : "matmul") +
                    ")");
  double depth = isTyped ? own->second.depth : efficiency.depth.value_or(0);
  if (processors > 0 && !isTyped)
    depth = efficiency.depth.value_or(64);
  if (depth > 0)
    words.push_back("a start like " + report::fixed(depth, 0) +
                    " more steps of depth");
  return words.empty() ? "matmuls of all shapes reach the same rate"
                       : "matmuls lose by shape: " + llvm::join(words, ", ");
}

/// Which attention Kerf's own kernels compute on GPUs; "": none.
static std::string ownAttentionOf(const ExplainInput &input, int64_t contexts) {
  bool drops = false, isPacked = false;
  for (const LayerKind &kind : input.step->kinds)
    for (const LayerOp &op : kind.ops) {
      drops |= op.dropsScores;
      isPacked |= op.isPacked;
    }
  if (input.machine->device.target != BackendTarget::Cuda ||
      input.profile.ownAttention == 1)
    return "";
  return drops                       ? "attention with dropout"
         : input.step->type == "f32" ? "attention in f32"
         : !isPacked                 ? ""
         : contexts > 1 ? "attention within documents on context ranks"
                        : "gradients of attention within documents";
}

TrustPart explain_detail::describeTrust(const ExplainInput &input,
                                        const PlanPoint &plan) {
  const Profile &profile = input.profile;
  TrustPart trust;
  trust.figures = assumptionsOf(input);
  trust.assumptions = {"runtime '" + profile.name + "'; " +
                           shapeWords(input.machine->device, input.step->type),
                       "experts evenly loaded; every sequence full"};
  if (plan.work.stages.size() > 1 && profile.bubble != 1)
    trust.assumptions.push_back("idle time in the pipeline is " +
                                report::percent(profile.bubble, 0) +
                                " of the schedule's");
  if (plan.outer.cp > 1)
    trust.assumptions.push_back(
        input.step->plainOrder ||
                input.step->sequence % (2 * plan.outer.cp) != 0
            ? "the last context rank has most of the causal attention (tokens "
              "in "
              "plain order)"
            : "causal attention costs every context rank the same (tokens in "
              "zigzag order)");
  if (std::string own = ownAttentionOf(input, plan.outer.cp); !own.empty())
    trust.assumptions.push_back(
        own + ": by Kerf's own kernels, at " +
        report::percent(profile.ownAttention, 0) + " of the library's rate, " +
        report::percent(profile.ownAttentionBackward, 0) + " backward");
  trust.notModelled = {"stragglers and jitter", "other jobs on the network",
                       "thermal throttling", "input pipeline",
                       "fragmentation of memory"};
  trust.notCompiled = describeBackend(input.machine->device, input.step->type);
  addMeasured(trust, input, plan.outer);
  trust.certificate = input.result->certificate;
  trust.excluded = input.excluded;
  return trust;
}
