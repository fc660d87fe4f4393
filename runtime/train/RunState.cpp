//===- RunState.cpp - where a run is, as text -----------------------------===//

#include "kerf/Train/RunState.h"

#include "kerf/Train/Text.h"

#include <cmath>

using namespace kerf::runtime;

Metadata kerf::runtime::describeRun(const RunState &state) {
  auto real = [](double value) { return format("%.17g", value); };
  const Schedule &schedule = state.schedule;
  Metadata meta = {
      {"step", std::to_string(state.step)},
      {"consumed_samples", std::to_string(state.consumedSamples)},
      {"seed", std::to_string(state.seed)},
      {"data", std::to_string(static_cast<int64_t>(state.dataFingerprint))},
      {"program", std::to_string(static_cast<int64_t>(state.programHash))},
      {"decay", std::string(decayName(schedule.decay))},
      {"lr", real(schedule.peak)},
      {"min_lr", real(schedule.minimum)},
      {"warmup", std::to_string(schedule.warmupSteps)},
      {"decay_steps", std::to_string(schedule.decaySteps)},
      {"wsd_decay", real(schedule.wsdPart)},
  };
  if (!state.lossScale)
    return meta;
  meta["loss_scale"] = real(state.lossScale->factor);
  meta["loss_scale_interval"] = std::to_string(state.lossScale->interval);
  meta["good_steps"] = std::to_string(state.lossScale->goodSteps);
  meta["skipped_steps"] = std::to_string(state.lossScale->skippedSteps);
  return meta;
}

/// Whether a run of `step` steps can have this loss scale.
static bool isPossible(const LossScale &scale, int64_t step) {
  auto factor = static_cast<float>(scale.factor); // as the model takes it
  return factor > 0 && std::isfinite(factor) && scale.interval >= 0 &&
         scale.goodSteps >= 0 && scale.skippedSteps >= 0 &&
         scale.skippedSteps <= step;
}

/// Whether a run can have come so far: each step takes a sample at least, and
/// fewer than 2^31. Sums with sizes of batches stay far from the largest
/// number.
static bool isPossible(int64_t step, int64_t samples) {
  constexpr int64_t mostSteps = INT64_C(1) << 50,
                    mostSamples = INT64_C(1) << 60, mostOfStep = INT32_MAX;
  return step >= 0 && step <= mostSteps && samples >= step &&
         samples <= mostSamples && samples / mostOfStep <= step &&
         (step > 0 || samples == 0);
}

static bool isPossible(const Schedule &schedule) {
  return std::isfinite(schedule.peak) && schedule.minimum >= 0 &&
         schedule.minimum <= schedule.peak && schedule.warmupSteps >= 0 &&
         schedule.decaySteps >= 0 && schedule.wsdPart >= 0 &&
         schedule.wsdPart <= 1;
}

bool kerf::runtime::readRun(const Metadata &meta, RunState &state) {
  bool isComplete = true;
  auto text = [&](const char *key) {
    auto it = meta.find(key);
    isComplete &= it != meta.end();
    return it == meta.end() ? std::string() : it->second;
  };
  auto integer = [&](const char *key) {
    int64_t value = 0;
    isComplete &= parseInteger(text(key), value);
    return value;
  };
  auto real = [&](const char *key, double &value) {
    isComplete &= parseReal(text(key), value);
  };
  Schedule &schedule = state.schedule;
  state.step = integer("step");
  state.consumedSamples = integer("consumed_samples");
  state.seed = integer("seed");
  state.dataFingerprint = static_cast<uint64_t>(integer("data"));
  state.programHash = static_cast<uint64_t>(integer("program"));
  isComplete &= parseDecay(text("decay"), schedule.decay);
  real("lr", schedule.peak);
  real("min_lr", schedule.minimum);
  schedule.warmupSteps = integer("warmup");
  schedule.decaySteps = integer("decay_steps");
  real("wsd_decay", schedule.wsdPart);
  if (meta.count("loss_scale")) {
    LossScale &scale = state.lossScale.emplace();
    real("loss_scale", scale.factor);
    scale.interval = integer("loss_scale_interval");
    scale.goodSteps = integer("good_steps");
    scale.skippedSteps = integer("skipped_steps");
    isComplete &= isPossible(scale, state.step);
  }
  return isComplete && isPossible(schedule) &&
         isPossible(state.step, state.consumedSamples);
}
