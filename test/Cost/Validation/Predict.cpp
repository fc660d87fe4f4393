//===- Predict.cpp - rows as planning problems ----------------------------===//

#include "Predict.h"

#include "kerf/Cost/Kernels.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace kerf;
using namespace kerf::validate;

//===----------------------------------------------------------------------===//
// What a row is
//===----------------------------------------------------------------------===//

std::string kerf::validate::sourceName(const Row &row) {
  return llvm::StringRef(row.source).split(" (").first.trim().str();
}

std::string kerf::validate::runtimeOf(const Row &row) {
  struct Known {
    llvm::StringLiteral word, runtime;
  };
  static constexpr Known known[] = {
      {"nemo", "nemo"},
      {"torchtitan", "torchtitan"},
      {"foundry", "fsdp"},
      {"nanotron", "nanotron"},
      {"aleph", "aleph-alpha"},
      {"hagemann", "aleph-alpha"},
      {"vtrain", "megatron-deepspeed"},
      {"bloom", "megatron-deepspeed"},
      {"deepspeed", "megatron-deepspeed"},
      {"megatron", "megatron"},
      {"korthikanti", "megatron"},
  };
  llvm::StringRef source = row.source;
  for (const Known &entry : known)
    if (source.contains_insensitive(entry.word))
      return entry.runtime.str();
  if (row.zero.value_or(0) == 3)
    return "fsdp";
  return row.flash.value_or(true) ? "nemo" : "megatron";
}

std::string kerf::validate::anomalyOf(const Row &row) {
  llvm::StringRef notes = row.notes, source = row.source;
  int64_t node = row.devicesPerNode.value_or(8);
  if (row.phase != "pretrain" && row.phase != "analytic" && !row.phase.empty())
    return "phase '" + row.phase + "'";
  if (row.status != "ok" && row.status != "oom")
    return "status '" + row.status + "'";
  if (source.contains("nanotron") && row.tp.value_or(1) > node)
    return "tensor axis across EFA nodes";
  if (source.contains("nanotron") && row.pp.value_or(1) > 1 &&
      row.devices.value_or(1) > node)
    return "pipeline across EFA nodes (slow mode)";
  if (notes.contains("fp8 rowwise"))
    return "fp8 with row-wise scales";
  if (notes.starts_with("eager;"))
    return "eager beside compiled rows";
  return "";
}

/// What a tensor axis adds to launches from the host: in a layer two
/// collectives forward and two backward. PyTorch's process group records an
/// event before and one after each and lets streams wait for both, so a call is
/// like four launches of 13 us (`Profiles.cpp`). nanotron's floor has its calls
/// in it.
static void setLayerFloor(const Row &row, Profile &profile) {
  constexpr double callSec = 4 * 13e-6;
  bool isCut = row.tp.value_or(1) > 1;
  if (profile.name == "nanotron") {
    if (isCut)
      return;
    profile.leastForwardSec /= 2;
    profile.leastBackwardSec /= 2;
  } else if (isCut) {
    profile.leastForwardSec += 2 * callSec;
    profile.leastBackwardSec += 2 * callSec;
  }
}

Profile kerf::validate::profileOf(const Row &row, const Profile &base) {
  Profile profile = base;
  llvm::StringRef notes = row.notes;
  if (row.flash)
    profile.flash = *row.flash;
  if (notes.contains("fp16 gradient accumulation"))
    profile.gradientBytes = 2;
  // Attention in eager PyTorch, kernel by kernel: scale, mask, softmax in f32
  // with casts before and after; backward their gradients.
  if (notes.contains("kernel=torch")) {
    profile.scoreBytesForward = 32;
    profile.scoreBytesBackward = 40;
  }
  // Version 1 reaches about half of version 2's rate on an A100 (Dao 2023,
  // arXiv 2307.08691, figure 4).
  if (notes.contains("flash_attentionv1"))
    profile.attention *= 0.5;
  // Logits that are gathered over the tensor axis, and their gradient: the
  // whole ones in bf16, and the pieces that a gather concatenates.
  if (profile.logitsWhole && row.tp.value_or(1) > 1)
    profile.logitBytes += 8;
  setLayerFloor(row, profile);
  return profile;
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

/// fp8 is used for matmuls inside layers; attention and the head stay in bf16
/// (NVIDIA Transformer Engine; torchtitan's float8 linear layers).
static std::shared_ptr<const StepModel>
withFloat8(const std::shared_ptr<const StepModel> &step) {
  auto copy = std::make_shared<StepModel>(*step);
  for (const LayerRun &run : copy->runs)
    if (run.repeat >= 0)
      for (LayerOp &op : copy->kinds[run.kind].ops)
        if (op.work.matmulFlops > 0)
          op.type = "fp8";
  return copy;
}

/// Rows of experts that lie on several ranks are exchanged, with room for even
/// shares: routers of benchmarks are balanced by force.
static std::shared_ptr<const StepModel>
withExchange(const std::shared_ptr<const StepModel> &step) {
  auto copy = std::make_shared<StepModel>(*step);
  copy->moeBuffer = 1;
  return copy;
}

void JobReader::prepare(Job &job) {
  const Row &row = *job.row;
  job.leftOut = anomalyOf(row);
  if (!job.leftOut.empty())
    return;
  std::optional<Pins> pins = pinsOf(row, job.leftOut);
  if (!pins)
    return;
  job.pins = *pins;
  std::optional<Machine> cluster = machines.machineOf(row, job.leftOut);
  if (!cluster)
    return;
  job.cluster = *cluster;
  job.measuredSec = measuredStepSec(row, peakOf(cluster->device, "bf16"));
  if (row.isOutOfMemory())
    job.measuredSec.reset();
  else if (!job.measuredSec && !row.memoryGb) {
    job.leftOut = "nothing measured";
    return;
  }
  job.step = models.read(row, job.leftOut);
  if (!job.step)
    return;
  job.leftOut.clear();
  if (row.ep.value_or(1) > 1)
    job.step = withExchange(job.step);
  if (isFloat8(row)) {
    job.step = withFloat8(job.step);
    // The best fp8 matmul of an H100 reaches 0.71 of its peak where bf16
    // reaches 0.80 (Bekman, Machine Learning Engineering, maximum achievable
    // matmul).
    auto fp8 = job.cluster.device.peak.find("fp8");
    if (fp8 != job.cluster.device.peak.end())
      fp8->second *= 0.88;
  }
  job.facts = stepFactsOf(*job.step);
  std::string why;
  std::string key =
      configOf(row, why) + (row.sequenceParallel.value_or(false) ? " sp" : "");
  auto &shared = layouts[key];
  if (!shared)
    shared = std::make_shared<PinnedLayouts>();
  job.layouts = shared;
}

Job JobReader::read(const Row &row) {
  Job job;
  job.row = &row;
  job.source = sourceName(row);
  job.machine = machineName(row);
  job.runtime = runtimeOf(row);
  prepare(job);
  return job;
}

//===----------------------------------------------------------------------===//
// Predictions
//===----------------------------------------------------------------------===//

static SearchProblem problemOf(const Job &job, const Profile &profile,
                               LayerTables &tables) {
  SearchProblem problem;
  problem.machine = &job.cluster;
  problem.profile = profile;
  problem.tables = &tables;
  for (const LayerRun &run : job.step->runs)
    problem.runs.push_back({run.kind, run.count});
  problem.hasEmbedding = job.step->runs.front().repeat < 0;
  problem.hasHead = job.step->runs.back().repeat < 0;
  problem.vocabulary = job.step->vocabulary;
  problem.batch = job.step->batch;
  problem.sequence = job.step->sequence;
  problem.flopsPerStep = job.step->stepFlops();
  problem.type = job.step->type;
  problem.maxTensor = problem.maxContext = problem.maxExpert = int64_t(1) << 20;
  problem.pins = job.pins;
  problem.exchangesRows = job.step->moeBuffer > 0;
  return problem;
}

/// Bytes per weight of a second buffer of gradients, which a profile does not
/// have: DeepSpeed's BF16 optimizer keeps gradients in bf16 and f32 and a copy
/// to reduce, nanotron adds bf16 gradients to f32 ones.
static double secondGradientBytes(const Row &row) {
  llvm::StringRef notes = row.notes;
  if (notes.contains("BF16 optimizer"))
    return 4;
  bool adds = llvm::StringRef(row.source).contains("nanotron") &&
              notes.contains("fp32 gradient accumulation");
  return adds ? 2 : 0;
}

/// Weights are bf16: as many bytes of a second buffer.
static double totalBytes(const Row &row, const StageMemory &memory) {
  return memory.total() + memory.weights / 2 * secondGradientBytes(row);
}

/// What the source's figure holds: the paper's formula has weights, gradients,
/// optimizer and activations of the first stage; nvidia-smi has everything;
/// allocators do not see the context and the libraries.
static double statedBytes(const Row &row, const PlanPoint &plan) {
  if (row.phase == "analytic") {
    const StageMemory &first = plan.stages.front().memory;
    return first.weights + first.masters + first.gradients + first.optimizer +
           first.activations;
  }
  bool isWhole = llvm::StringRef(row.notes).contains("nvidia-smi");
  double most = 0;
  for (const PlacedStage &stage : plan.stages)
    most = std::max(most, totalBytes(row, stage.memory) -
                              (isWhole ? 0 : stage.memory.reserved));
  return most;
}

Prediction kerf::validate::predict(const Job &job, const Profile &base) {
  Profile profile = profileOf(*job.row, base);
  PinnedTables tables({job.step.get(), &job.cluster, profile}, *job.row,
                      job.layouts, job.facts);
  SearchProblem problem = problemOf(job, profile, tables);
  std::vector<std::string> errors;
  std::optional<PlanPoint> plan = evaluatePinned(problem, errors);
  Prediction prediction;
  if (!plan) {
    prediction.error = errors.empty() ? "no plan" : errors.front();
    return prediction;
  }
  prediction.stepSec = plan->stepSec;
  for (const PlacedStage &stage : plan->stages)
    prediction.totalBytes =
        std::max(prediction.totalBytes, totalBytes(*job.row, stage.memory));
  prediction.statedBytes = statedBytes(*job.row, *plan);
  return prediction;
}
