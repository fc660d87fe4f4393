//===- State.cpp - everything that a run needs to go on -------------------===//

#include "kerf/Train/State.h"

#include "kerf/Train/Numbers.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/Weights.h"

#include <cmath>
#include <cstring>
#include <map>

using namespace kerf::runtime;

static constexpr const char *fileName = "state.safetensors";
/// Version 1 had a checksum of the tensors' bytes alone.
static constexpr const char *versionText = "2", *oldVersionText = "1";
static constexpr const char *checksumKey = "checksum";

namespace {
/// A checksum over 64-bit words that is fed piece by piece. Eight independent
/// lanes, as one chain of multiplications would be slower than the disk.
class Checksum {
public:
  /// Pieces have any size; each is padded with zeros to whole words.
  void add(const void *data, uint64_t bytes) {
    const char *p = static_cast<const char *>(data);
    uint64_t i = 0;
    for (; i + 64 <= bytes; i += 64)
      for (size_t lane = 0; lane < 8; ++lane)
        mix(lane, p + i + 8 * lane, 8);
    for (; i < bytes; i += 8)
      mix(i / 8 % 8, p + i, std::min<uint64_t>(8, bytes - i));
    total += bytes;
  }
  void add(const std::string &text) {
    uint64_t length = text.size();
    add(&length, sizeof length);
    add(text.data(), length);
  }
  std::string text() const {
    uint64_t sum = kerf_mix(total);
    for (uint64_t lane : lanes)
      sum = kerf_mix(sum ^ lane);
    return format("%016llx", static_cast<unsigned long long>(sum));
  }

private:
  void mix(size_t lane, const char *p, size_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, p, bytes);
    uint64_t x = (lanes[lane] ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    lanes[lane] = x ^ x >> 32;
  }

  uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  uint64_t total = 0;
};

/// A tensor of the state and its name in the file.
struct StateTensor {
  std::string name;
  GlobalTensor tensor;
};
} // namespace

static std::vector<StateTensor> listState(const kerf_artifact *artifact) {
  uint32_t paramCount = 0, stateCount = 0;
  const kerf_param *params = kerf_artifact_params(artifact, &paramCount);
  const kerf_state *states = kerf_artifact_states(artifact, &stateCount);
  std::vector<StateTensor> result;
  for (const GlobalTensor &tensor : listParameters(artifact)) {
    const kerf_param &param = params[tensor.id.param];
    std::string name = tensorName(artifact, param, tensor.id.iteration);
    result.push_back({"param:" + name, tensor});
    if (param.master_dtype != KERF_NONE)
      result.push_back(
          {"master:" + name,
           siblingTensor(artifact, tensor, KERF_TENSOR_MASTER, 0)});
    for (uint32_t s = 0; s < param.state_count; ++s) {
      const char *own =
          kerf_artifact_string(artifact, states[param.first_state + s].name);
      result.push_back({std::string("state:") + own + ":" + name,
                        siblingTensor(artifact, tensor, KERF_TENSOR_STATE, s)});
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Saving
//===----------------------------------------------------------------------===//

using Metadata = std::map<std::string, std::string>;

static Metadata describeRun(const RunState &state) {
  auto real = [](double value) { return format("%.17g", value); };
  const Schedule &schedule = state.schedule;
  Metadata meta = {
      {"kerf_state", versionText},
      {checksumKey, std::string(16, '0')},
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

/// What the file says beside the bytes of tensors, but for the checksum.
static void addMetadata(const Metadata &meta, Checksum &checksum) {
  for (const auto &[key, value] : meta)
    if (key != checksumKey) {
      checksum.add(key);
      checksum.add(value);
    }
}

static void addTensor(const std::string &name, const std::string &dtype,
                      const std::vector<int64_t> &shape, Checksum &checksum) {
  checksum.add(name);
  checksum.add(dtype);
  checksum.add(shape.data(), shape.size() * sizeof(int64_t));
}

bool kerf::runtime::saveState(kerf_session *session,
                              const kerf_artifact *artifact,
                              const std::string &folder, const RunState &state,
                              std::string &error) {
  bool isWriter = kerf_session_rank(session) == 0;
  std::vector<StateTensor> tensors = listState(artifact);
  SafetensorsWriter writer;
  Checksum checksum;
  if (isWriter) {
    Metadata meta = describeRun(state);
    addMetadata(meta, checksum);
    for (const auto &[key, value] : meta)
      writer.setMetadata(key, value);
    for (const StateTensor &t : tensors)
      writer.declare(t.name, t.tensor.dtype, t.tensor.shape);
    if (!makeFolder(folder, error) ||
        !writer.open(joinPath(folder, fileName), error))
      return false;
  }
  std::vector<char> bytes;
  for (const StateTensor &t : tensors) {
    bytes.resize(isWriter ? t.tensor.bytes : 0);
    kerf_error failure;
    if (kerf_session_read_global(session, &t.tensor.id,
                                 isWriter ? bytes.data() : nullptr,
                                 t.tensor.bytes, &failure) != KERF_OK) {
      error = failure.message;
      return false;
    }
    if (!isWriter)
      continue;
    if (!checkFinite(t.name, t.tensor.dtype, bytes, error))
      return false;
    const char *dtype = safetensorsDtype(t.tensor.dtype);
    addTensor(t.name, dtype ? dtype : "?", t.tensor.shape, checksum);
    checksum.add(bytes.data(), bytes.size());
    if (!writer.append(bytes.data(), bytes.size(), error))
      return false;
  }
  return !isWriter ||
         (writer.patchMetadata(checksumKey, checksum.text(), error) &&
          writer.finish(error) && writer.publish(error));
}

bool kerf::runtime::tryState(const std::string &folder, std::string &error) {
  return tryFile(joinPath(folder, fileName), error);
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

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

/// Reads the metadata of a run; false if an entry is missing, malformed or out
/// of range.
static bool readRun(const SafetensorsFile &file, RunState &state) {
  const auto &meta = file.metadata();
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

bool SavedState::open(const std::string &folder, std::string &error) {
  std::string path = joinPath(folder, fileName);
  if (!fileExists(path)) {
    error = "no saved state in " + quote(folder) + ": expected '" + fileName +
            "' there; '--save-state=DIR' writes it";
    return false;
  }
  if (!file.open(path, error))
    return false;
  auto version = file.metadata().find("kerf_state");
  bool isOld =
      version != file.metadata().end() && version->second == oldVersionText;
  if (!isOld &&
      (version == file.metadata().end() || version->second != versionText)) {
    error = quote(path) + " is no saved state of version " + versionText;
    return false;
  }
  Checksum checksum;
  if (!isOld)
    addMetadata(file.metadata(), checksum);
  for (const TensorEntry &entry : file.tensors()) {
    if (!isOld)
      addTensor(entry.name, entry.dtype, entry.shape, checksum);
    checksum.add(file.data(entry), entry.end - entry.begin);
  }
  auto stored = file.metadata().find(checksumKey);
  if (stored == file.metadata().end() || stored->second != checksum.text()) {
    error = quote(path) + " is damaged: its checksum does not agree";
    return false;
  }
  if (!readRun(file, run)) {
    error = quote(path) + " is damaged: its metadata is incomplete or wrong";
    return false;
  }
  return true;
}

bool SavedState::restore(kerf_session *session, const kerf_artifact *artifact,
                         std::string &error) const {
  std::vector<StateTensor> tensors = listState(artifact);
  for (const StateTensor &t : tensors) {
    const TensorEntry *entry = file.find(t.name);
    if (!entry || entry->shape != t.tensor.shape ||
        kerfDtype(entry->dtype) != t.tensor.dtype) {
      error =
          "the saved state " + quote(file.path()) + " is of another model: ";
      error += entry ? "tensor " + quote(t.name) + " is " +
                           formatShape(entry->shape) + " " + entry->dtype
                     : "tensor " + quote(t.name) + " is missing";
      error += ", expected " + formatShape(t.tensor.shape) + " " +
               std::string(dtypeName(t.tensor.dtype));
      return false;
    }
    kerf_error failure;
    if (kerf_session_write_global(session, &t.tensor.id, file.data(*entry),
                                  t.tensor.bytes, &failure) != KERF_OK) {
      error = failure.message;
      return false;
    }
  }
  if (file.tensors().size() == tensors.size())
    return true;
  error = "the saved state " + quote(file.path()) +
          " is of another model: " + std::to_string(file.tensors().size()) +
          " tensors, expected " + std::to_string(tensors.size());
  return false;
}
