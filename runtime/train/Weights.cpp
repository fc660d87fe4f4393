//===- Weights.cpp - parameters of a session and checkpoints --------------===//

#include "kerf/Train/Weights.h"

#include "kerf/Train/Checkpoint.h"
#include "kerf/Train/Numbers.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cstring>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Names and shapes
//===----------------------------------------------------------------------===//

std::string kerf::runtime::tensorName(const kerf_artifact *artifact,
                                      const kerf_param &param,
                                      int64_t iteration, int64_t expert) {
  const char *pattern = kerf_artifact_string(artifact, param.name);
  size_t length = kerf_expand_name(pattern, iteration, expert, nullptr, 0);
  std::string name(length, '\0');
  kerf_expand_name(pattern, iteration, expert, name.data(), length + 1);
  return name;
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

int64_t kerf::runtime::countParameters(const kerf_artifact *artifact) {
  int64_t sum = 0;
  for (const GlobalTensor &tensor : listParameters(artifact))
    sum += elements(tensor);
  return sum;
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

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// Rounds the values to the tensor's type and gives it to the session.
static bool writeFloats(kerf_session *session, const GlobalTensor &tensor,
                        const std::vector<float> &values, std::string &error) {
  std::vector<char> bytes(tensor.bytes);
  kerf_error failure;
  if (!fromFloats(tensor.dtype, values.data(), elements(tensor),
                  bytes.data())) {
    error = "parameters of type " + std::string(dtypeName(tensor.dtype)) +
            " cannot be read from a checkpoint";
    return false;
  }
  if (kerf_session_write_global(session, &tensor.id, bytes.data(), bytes.size(),
                                &failure) == KERF_OK)
    return true;
  error = failure.message;
  return false;
}

bool kerf::runtime::loadWeights(kerf_session *session,
                                const kerf_artifact *artifact,
                                const std::string &path,
                                std::vector<std::string> &notes,
                                std::vector<std::string> &errors) {
  Checkpoint checkpoint;
  CheckpointMatch match;
  std::string error;
  if (!checkpoint.open(path, error)) {
    errors.push_back(error);
    return false;
  }
  std::vector<GlobalTensor> parameters = listParameters(artifact);
  std::vector<ModelTensor> model;
  for (const GlobalTensor &tensor : parameters)
    for (ModelTensor &part : checkpointTensors(artifact, tensor))
      model.push_back(std::move(part));
  bool isMatched = matchCheckpoint(checkpoint, model, match, errors);
  notes = match.notes;
  if (!isMatched)
    return false;

  auto place = match.places.begin();
  std::vector<float> values;
  for (const GlobalTensor &tensor : parameters) {
    values.resize(elements(tensor));
    size_t parts = checkpointTensors(artifact, tensor).size();
    size_t each = values.size() / std::max<size_t>(parts, 1);
    for (size_t e = 0; e < parts; ++e)
      if (!readTensor(checkpoint, **place++, values.data() + e * each, error))
        errors.push_back(error);
    if (!errors.empty())
      continue;
    bool isWritten = writeFloats(session, tensor, values, error);
    if (isWritten && paramOf(artifact, tensor).master_dtype != KERF_NONE)
      isWritten = writeFloats(
          session, siblingTensor(artifact, tensor, KERF_TENSOR_MASTER, 0),
          values, error);
    if (!isWritten)
      errors.push_back(error);
  }
  return errors.empty();
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

/// The part of the first rank.
static bool writeWeights(kerf_session *session, const kerf_artifact *artifact,
                         const std::vector<GlobalTensor> &parameters,
                         const std::string &path, uint64_t shardBytes,
                         std::vector<std::string> &written,
                         std::string &error) {
  std::vector<SavedTensor> saved;
  std::vector<char> stack;
  for (const GlobalTensor &tensor : parameters) {
    std::vector<ModelTensor> parts = checkpointTensors(artifact, tensor);
    for (size_t e = 0; e < parts.size(); ++e) {
      size_t bytes = tensor.bytes / parts.size();
      auto read = [&stack, &tensor, session, e, bytes](void *data,
                                                       std::string &error) {
        if (e == 0 && !readGlobal(session, tensor, &stack, error))
          return false;
        std::memcpy(data, stack.data() + e * bytes, bytes);
        return true;
      };
      saved.push_back({parts[e].name, tensor.dtype, parts[e].shape, read});
    }
  }
  return saveCheckpoint(path, saved, shardBytes, written, error);
}

bool kerf::runtime::saveWeights(kerf_session *session,
                                const kerf_artifact *artifact,
                                const std::string &path, uint64_t shardBytes,
                                std::vector<std::string> &written,
                                std::string &error) {
  std::vector<GlobalTensor> parameters = listParameters(artifact);
  if (kerf_session_rank(session) == 0)
    return writeWeights(session, artifact, parameters, path, shardBytes,
                        written, error);
  for (const GlobalTensor &tensor : parameters)
    if (!readGlobal(session, tensor, nullptr, error))
      return false;
  return true;
}
