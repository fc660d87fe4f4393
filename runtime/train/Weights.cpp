//===- Weights.cpp - parameters of a session and checkpoints --------------===//

#include "kerf/Train/Weights.h"

#include "kerf/Artifact/Nf4.h"
#include "kerf/Train/AdapterConfig.h"
#include "kerf/Train/Checkpoint.h"
#include "kerf/Train/Files.h"
#include "kerf/Train/Numbers.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Names and shapes
//===----------------------------------------------------------------------===//

std::string kerf::runtime::expandPattern(const char *pattern, int64_t iteration,
                                         int64_t expert) {
  size_t length = kerf_expand_name(pattern, iteration, expert, nullptr, 0);
  std::string name(length, '\0');
  kerf_expand_name(pattern, iteration, expert, name.data(), length + 1);
  return name;
}

std::string kerf::runtime::tensorName(const kerf_artifact *artifact,
                                      const kerf_param &param,
                                      int64_t iteration, int64_t expert) {
  return expandPattern(kerf_artifact_string(artifact, param.name), iteration,
                       expert);
}

static GlobalTensor describe(const kerf_artifact *artifact,
                             const kerf_tensor &id) {
  kerf_layout layout{};
  // Ids come from the checked tables, so this finds its layout.
  (void)kerf_tensor_layout(artifact, &id, &layout, nullptr);
  return {id, layout.dtype,
          std::vector<int64_t>(layout.global, layout.global + layout.rank),
          kerf_global_bytes(&layout)};
}

std::vector<GlobalTensor>
kerf::runtime::listParameters(const kerf_artifact *artifact) {
  uint32_t count = 0;
  const kerf_param *params = kerf_artifact_params(artifact, &count);
  std::vector<GlobalTensor> result;
  for (uint32_t p = 0; p < count; ++p)
    for (int64_t i = params[p].start; i < params[p].end; ++i)
      result.push_back(describe(artifact, {KERF_TENSOR_PARAM, p, 0, i}));
  return result;
}

GlobalTensor kerf::runtime::siblingTensor(const kerf_artifact *artifact,
                                          const GlobalTensor &parameter,
                                          uint32_t kind, uint32_t state) {
  return describe(artifact,
                  {kind, parameter.id.param, state, parameter.id.iteration});
}

static int64_t elements(const GlobalTensor &tensor) {
  return static_cast<int64_t>(tensor.bytes) / kerf_dtype_bytes(tensor.dtype);
}

static const kerf_param &paramOf(const kerf_artifact *artifact,
                                 const GlobalTensor &tensor) {
  uint32_t count = 0;
  return kerf_artifact_params(artifact, &count)[tensor.id.param];
}

/// The tensors of a checkpoint that make up a parameter: itself, or one per
/// expert of its stack.
static std::vector<ModelTensor> checkpointTensors(const kerf_artifact *artifact,
                                                  const GlobalTensor &tensor) {
  const kerf_param &param = paramOf(artifact, tensor);
  if (!(param.flags & KERF_PARAM_STACKED))
    return {{tensorName(artifact, param, tensor.id.iteration), tensor.shape}};
  std::vector<ModelTensor> result;
  std::vector<int64_t> shape(tensor.shape.begin() + 1, tensor.shape.end());
  for (int64_t e = 0; e < tensor.shape[0]; ++e)
    result.push_back(
        {tensorName(artifact, param, tensor.id.iteration, e), shape});
  return result;
}

/// Names of codes' scales, as kerf-import gives them.
static constexpr const char *scalesSuffix = ".absmax";

static bool holdsCodes(const kerf_artifact *artifact,
                       const GlobalTensor &tensor) {
  return paramOf(artifact, tensor).init == KERF_INIT_NF4;
}

/// The scales of a parameter of codes, by pattern and iteration.
static std::optional<GlobalTensor>
findScales(const kerf_artifact *artifact, const GlobalTensor &codes,
           const std::vector<GlobalTensor> &parameters) {
  auto pattern = [artifact](const GlobalTensor &tensor) -> std::string {
    return kerf_artifact_string(artifact, paramOf(artifact, tensor).name);
  };
  std::string name = pattern(codes) + scalesSuffix;
  for (const GlobalTensor &tensor : parameters)
    if (tensor.id.iteration == codes.id.iteration && pattern(tensor) == name)
      return tensor;
  return std::nullopt;
}

int64_t kerf::runtime::countParameters(const kerf_artifact *artifact) {
  std::vector<GlobalTensor> parameters = listParameters(artifact);
  int64_t sum = 0;
  for (const GlobalTensor &tensor : parameters) {
    sum += elements(tensor);
    if (!holdsCodes(artifact, tensor))
      continue;
    // Two numbers in a byte; their scales are none.
    sum += elements(tensor);
    if (std::optional<GlobalTensor> scales =
            findScales(artifact, tensor, parameters))
      sum -= elements(*scales);
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// What is loaded
//===----------------------------------------------------------------------===//

namespace {
/// A parameter that is loaded, and the tensors it is read from.
struct LoadedParameter {
  GlobalTensor tensor;
  std::vector<ModelTensor> parts;
  /// Where the scales go of weights that are made codes as they are read.
  std::optional<GlobalTensor> scales;
};
} // namespace

static bool hasAdapter(const kerf_artifact *artifact) {
  return *kerf_artifact_string(artifact,
                               kerf_artifact_meta(artifact)->adapter) != 0;
}

/// Whether the checkpoint has a part of a parameter that is trained.
static bool hasTrained(const kerf_artifact *artifact,
                       const Checkpoint &checkpoint,
                       const std::vector<GlobalTensor> &parameters) {
  for (const GlobalTensor &tensor : parameters)
    if (!(paramOf(artifact, tensor).flags & KERF_PARAM_FROZEN))
      for (const ModelTensor &part : checkpointTensors(artifact, tensor))
        if (checkpoint.find(part.name))
          return true;
  return false;
}

/// Whether codes can be made of numbers: they are whole blocks along the last
/// dimension, which is none of a stack's, and each block has a scale.
static bool isQuantizable(const LoadedParameter &loaded) {
  if (!loaded.scales || loaded.parts.front().shape.empty() ||
      loaded.tensor.shape.back() % KERF_NF4_BYTES != 0)
    return false;
  std::vector<int64_t> shape = loaded.tensor.shape;
  shape.back() /= KERF_NF4_BYTES;
  return loaded.scales->shape == shape;
}

/// Codes come from weights in numbers, whose scales follow, unless the
/// checkpoint has codes.
static bool chooseCodes(const kerf_artifact *artifact,
                        const Checkpoint &checkpoint,
                        const std::vector<GlobalTensor> &parameters,
                        LoadedParameter &loaded) {
  const std::string &name = loaded.parts.front().name;
  const Checkpoint::Place *place = checkpoint.find(name);
  bool isStored = place && kerfDtype(place->entry->dtype) == KERF_I8;
  if (!isStored) {
    loaded.scales = findScales(artifact, loaded.tensor, parameters);
    if (!isQuantizable(loaded))
      return false;
  }
  for (ModelTensor &part : loaded.parts) {
    part.isCodes = isStored;
    if (!isStored)
      part.shape.back() *= 2;
  }
  return true;
}

/// Of a checkpoint without adapters those of the model keep their initial
/// values.
static std::vector<LoadedParameter>
chooseLoaded(const kerf_artifact *artifact, const Checkpoint &checkpoint,
             std::vector<std::string> &notes,
             std::vector<std::string> &errors) {
  std::vector<GlobalTensor> parameters = listParameters(artifact);
  std::vector<LoadedParameter> result;
  std::set<std::pair<uint32_t, int64_t>> made; // scales
  bool lacksAdapters =
      hasAdapter(artifact) && !hasTrained(artifact, checkpoint, parameters);
  if (lacksAdapters)
    notes.push_back("the weights have no adapters: those of the model start "
                    "anew, or come from --init-adapter");
  for (const GlobalTensor &tensor : parameters) {
    LoadedParameter loaded{tensor, checkpointTensors(artifact, tensor), {}};
    bool isTrained = !(paramOf(artifact, tensor).flags & KERF_PARAM_FROZEN);
    if (loaded.parts.empty() || (isTrained && lacksAdapters))
      continue;
    if (holdsCodes(artifact, tensor) &&
        !chooseCodes(artifact, checkpoint, parameters, loaded))
      errors.push_back("parameter " + quote(loaded.parts.front().name) +
                       " has no blocks of " + std::to_string(KERF_NF4_BLOCK) +
                       " codes with a scale each: the compiled model is wrong");
    if (loaded.scales)
      made.insert({loaded.scales->id.param, loaded.scales->id.iteration});
    result.push_back(std::move(loaded));
  }
  result.erase(std::remove_if(result.begin(), result.end(),
                              [&](const LoadedParameter &loaded) {
                                return made.count({loaded.tensor.id.param,
                                                   loaded.tensor.id.iteration});
                              }),
               result.end());
  return result;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

static bool writeBytes(kerf_session *session, const GlobalTensor &tensor,
                       const void *bytes, std::string &error) {
  kerf_error failure;
  if (kerf_session_write_global(session, &tensor.id, bytes, tensor.bytes,
                                &failure) == KERF_OK)
    return true;
  error = failure.message;
  return false;
}

/// Rounds the values to the tensor's type and gives it to the session.
static bool writeFloats(kerf_session *session, const GlobalTensor &tensor,
                        const std::vector<float> &values, std::string &error) {
  std::vector<char> bytes(tensor.bytes);
  if (fromFloats(tensor.dtype, values.data(), elements(tensor), bytes.data()))
    return writeBytes(session, tensor, bytes.data(), error);
  error = "parameters of type " + std::string(dtypeName(tensor.dtype)) +
          " cannot be read from a checkpoint";
  return false;
}

/// Makes codes and scales of the values.
static bool writeQuantized(kerf_session *session, const LoadedParameter &loaded,
                           const std::vector<float> &values,
                           std::string &error) {
  int64_t blocks = static_cast<int64_t>(values.size()) / KERF_NF4_BLOCK;
  std::vector<int8_t> codes(blocks * KERF_NF4_BYTES);
  std::vector<float> scales(blocks);
  for (int64_t b = 0; b < blocks; ++b)
    kerf_nf4_quantize(values.data() + b * KERF_NF4_BLOCK,
                      codes.data() + b * KERF_NF4_BYTES, &scales[b]);
  return writeBytes(session, loaded.tensor, codes.data(), error) &&
         writeFloats(session, *loaded.scales, scales, error);
}

static bool writeCodes(kerf_session *session, const Checkpoint &checkpoint,
                       const LoadedParameter &loaded,
                       const Checkpoint::Place *const *places,
                       std::string &error) {
  std::vector<char> bytes;
  for (size_t e = 0; e < loaded.parts.size(); ++e) {
    const uint8_t *data = checkpoint.data(*places[e]);
    bytes.insert(bytes.end(), data, data + places[e]->entry->elements());
  }
  return writeBytes(session, loaded.tensor, bytes.data(), error);
}

/// Reads the parts of a parameter and gives it to the session.
static bool load(kerf_session *session, const kerf_artifact *artifact,
                 const Checkpoint &checkpoint, const LoadedParameter &loaded,
                 const Checkpoint::Place *const *places, std::string &error) {
  if (loaded.parts.front().isCodes)
    return writeCodes(session, checkpoint, loaded, places, error);
  size_t count = loaded.parts.size(), each = 1;
  for (int64_t size : loaded.parts.front().shape)
    each *= size;
  std::vector<float> values(count * each);
  for (size_t e = 0; e < count; ++e)
    if (!readTensor(checkpoint, *places[e], values.data() + e * each, error))
      return false;
  if (loaded.scales)
    return writeQuantized(session, loaded, values, error);
  bool hasMaster = paramOf(artifact, loaded.tensor).master_dtype != KERF_NONE;
  return writeFloats(session, loaded.tensor, values, error) &&
         (!hasMaster || writeFloats(session,
                                    siblingTensor(artifact, loaded.tensor,
                                                  KERF_TENSOR_MASTER, 0),
                                    values, error));
}

/// Loads all of `parameters`, which are all that the checkpoint has.
static bool loadAll(kerf_session *session, const kerf_artifact *artifact,
                    const Checkpoint &checkpoint,
                    const std::vector<LoadedParameter> &parameters,
                    std::vector<std::string> &notes,
                    std::vector<std::string> &errors) {
  CheckpointMatch match;
  std::string error;
  std::vector<ModelTensor> model;
  for (const LoadedParameter &loaded : parameters)
    model.insert(model.end(), loaded.parts.begin(), loaded.parts.end());
  bool isMatched = matchCheckpoint(checkpoint, model, match, errors);
  notes.insert(notes.end(), match.notes.begin(), match.notes.end());
  if (!isMatched)
    return false;
  const Checkpoint::Place *const *places = match.places.data();
  for (const LoadedParameter &loaded : parameters) {
    if (!load(session, artifact, checkpoint, loaded, places, error))
      errors.push_back(error);
    places += loaded.parts.size();
  }
  return errors.empty();
}

bool kerf::runtime::loadWeights(kerf_session *session,
                                const kerf_artifact *artifact,
                                const std::string &path,
                                std::vector<std::string> &notes,
                                std::vector<std::string> &errors) {
  Checkpoint checkpoint;
  std::string error;
  if (!checkpoint.open(path, error)) {
    errors.push_back(error);
    return false;
  }
  std::vector<LoadedParameter> parameters =
      chooseLoaded(artifact, checkpoint, notes, errors);
  return errors.empty() &&
         loadAll(session, artifact, checkpoint, parameters, notes, errors);
}

//===----------------------------------------------------------------------===//
// Saving
//===----------------------------------------------------------------------===//

/// Reads a tensor of all ranks into `bytes` on the first rank.
static bool readGlobal(kerf_session *session, const GlobalTensor &tensor,
                       std::vector<char> *bytes, std::string &error) {
  if (bytes)
    bytes->resize(tensor.bytes);
  kerf_error failure;
  if (kerf_session_read_global(session, &tensor.id,
                               bytes ? bytes->data() : nullptr, tensor.bytes,
                               &failure) == KERF_OK)
    return true;
  error = failure.message;
  return false;
}

/// The tensors of the parameters, under their names behind `prefix`; they are
/// read from all ranks as they are written, in this order.
static std::vector<SavedTensor>
savedTensors(kerf_session *session, const kerf_artifact *artifact,
             const std::vector<GlobalTensor> &parameters,
             const std::string &prefix) {
  std::vector<SavedTensor> saved;
  auto stack = std::make_shared<std::vector<char>>();
  for (const GlobalTensor &tensor : parameters) {
    std::vector<ModelTensor> parts = checkpointTensors(artifact, tensor);
    for (size_t e = 0; e < parts.size(); ++e) {
      size_t bytes = tensor.bytes / parts.size();
      auto read = [stack, tensor, session, e, bytes](void *data,
                                                     std::string &error) {
        if (e == 0 && !readGlobal(session, tensor, stack.get(), error))
          return false;
        std::memcpy(data, stack->data() + e * bytes, bytes);
        return true;
      };
      saved.push_back(
          {prefix + parts[e].name, tensor.dtype, parts[e].shape, read});
    }
  }
  return saved;
}

/// What the other ranks do while the first one saves.
static bool handOver(kerf_session *session,
                     const std::vector<GlobalTensor> &parameters,
                     std::string &error) {
  for (const GlobalTensor &tensor : parameters)
    if (!readGlobal(session, tensor, nullptr, error))
      return false;
  return true;
}

bool kerf::runtime::saveWeights(kerf_session *session,
                                const kerf_artifact *artifact,
                                const std::string &path, uint64_t shardBytes,
                                std::vector<std::string> &written,
                                std::string &error) {
  std::vector<GlobalTensor> parameters = listParameters(artifact);
  if (kerf_session_rank(session) != 0)
    return handOver(session, parameters, error);
  return saveCheckpoint(path, savedTensors(session, artifact, parameters, ""),
                        shardBytes, written, error);
}

//===----------------------------------------------------------------------===//
// Copying
//===----------------------------------------------------------------------===//

/// The parameters by name; of a stack "{e}" stays in it.
static std::map<std::string, GlobalTensor>
byName(const kerf_artifact *artifact) {
  std::map<std::string, GlobalTensor> result;
  for (const GlobalTensor &tensor : listParameters(artifact))
    result.emplace(
        tensorName(artifact, paramOf(artifact, tensor), tensor.id.iteration),
        tensor);
  return result;
}

/// Writes what `from` holds to a tensor of a session, in its type.
static bool writeAs(kerf_session *session, const GlobalTensor &to,
                    const GlobalTensor &from, const std::vector<char> &bytes,
                    std::string &error) {
  if (to.shape != from.shape)
    return error = "has the shape " + formatShape(from.shape) + ", expected " +
                   formatShape(to.shape),
           false;
  if (to.dtype == from.dtype)
    return writeBytes(session, to, bytes.data(), error);
  std::vector<float> values(elements(from));
  if (toFloats(from.dtype, bytes.data(), elements(from), values.data()))
    return writeFloats(session, to, values, error);
  error = "is of type " + std::string(dtypeName(from.dtype)) + ", expected " +
          std::string(dtypeName(to.dtype));
  return false;
}

bool kerf::runtime::copyWeights(kerf_session *session,
                                const kerf_artifact *artifact,
                                kerf_session *other,
                                const kerf_artifact *otherArtifact,
                                std::string &error) {
  std::map<std::string, GlobalTensor> wanted;
  if (other)
    wanted = byName(otherArtifact);
  std::vector<char> bytes;
  for (const auto &[name, tensor] : byName(artifact)) {
    auto to = wanted.find(name);
    bool isWanted = to != wanted.end();
    if (!readGlobal(session, tensor, isWanted ? &bytes : nullptr, error))
      return false;
    if (!isWanted)
      continue;
    if (!writeAs(other, to->second, tensor, bytes, error)) {
      error = "parameter " + quote(name) + " " + error;
      return false;
    }
    wanted.erase(to);
  }
  if (!wanted.empty())
    error = "the model has no parameter " + quote(wanted.begin()->first);
  return wanted.empty();
}

//===----------------------------------------------------------------------===//
// Adapters
//===----------------------------------------------------------------------===//

/// Files and names of the peft library: its model wraps that of the checkpoint.
static constexpr const char *adapterName = "adapter_model.safetensors";
static constexpr const char *adapterConfigName = "adapter_config.json";
static constexpr const char *adapterPrefix = "base_model.model.";

static std::vector<GlobalTensor> listAdapters(const kerf_artifact *artifact) {
  std::vector<GlobalTensor> result;
  for (const GlobalTensor &tensor : listParameters(artifact))
    if (!(paramOf(artifact, tensor).flags & KERF_PARAM_FROZEN))
      result.push_back(tensor);
  return result;
}

bool kerf::runtime::saveAdapter(kerf_session *session,
                                const kerf_artifact *artifact,
                                const std::string &folder,
                                const std::string &base,
                                std::vector<std::string> &written,
                                std::string &error) {
  std::vector<GlobalTensor> parameters = listAdapters(artifact);
  if (kerf_session_rank(session) != 0)
    return handOver(session, parameters, error);
  std::string config =
      kerf_artifact_string(artifact, kerf_artifact_meta(artifact)->adapter);
  constexpr std::string_view noBase = "\"base_model_name_or_path\":null";
  if (size_t at = config.find(noBase); at != std::string::npos && !base.empty())
    config.replace(at + noBase.size() - 4, 4, jsonQuote(base));
  std::string path = joinPath(folder, adapterConfigName);
  if (!saveCheckpoint(
          joinPath(folder, adapterName),
          savedTensors(session, artifact, parameters, adapterPrefix),
          UINT64_MAX, written, error) ||
      !writeFile(path, config + "\n", error))
    return false;
  written.push_back(path);
  return true;
}

bool kerf::runtime::loadAdapter(kerf_session *session,
                                const kerf_artifact *artifact,
                                const std::string &folder,
                                std::vector<std::string> &notes,
                                std::vector<std::string> &errors) {
  Checkpoint checkpoint;
  std::string error;
  if (!checkpoint.open(joinPath(folder, adapterName), error)) {
    errors.push_back(error);
    return false;
  }
  const char *config =
      kerf_artifact_string(artifact, kerf_artifact_meta(artifact)->adapter);
  if (!matchAdapterConfig(joinPath(folder, adapterConfigName), config, errors))
    return false;
  std::vector<LoadedParameter> parameters;
  for (const GlobalTensor &tensor : listAdapters(artifact)) {
    parameters.push_back({tensor, checkpointTensors(artifact, tensor), {}});
    for (ModelTensor &part : parameters.back().parts)
      part.name = adapterPrefix + part.name;
  }
  return loadAll(session, artifact, checkpoint, parameters, notes, errors);
}
