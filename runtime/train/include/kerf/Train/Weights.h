//===- Weights.h - parameters of a session and checkpoints ------*- C++ -*-===//

#ifndef KERF_TRAIN_WEIGHTS_H
#define KERF_TRAIN_WEIGHTS_H

#include "kerf/Runtime/Runtime.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

/// kerf_expand_name as a string.
std::string expandPattern(const char *pattern, int64_t iteration,
                          int64_t expert = -1);

/// The name of a tensor: the pattern with its numbers; "{e}" stays unless
/// `expert` >= 0.
std::string tensorName(const kerf_artifact *artifact, const kerf_param &param,
                       int64_t iteration, int64_t expert = -1);

/// Elements of all parameters of the model.
int64_t countParameters(const kerf_artifact *artifact);

/// Shape and type of the tensor, over all ranks.
struct GlobalTensor {
  kerf_tensor id;
  uint32_t dtype;
  std::vector<int64_t> shape;
  uint64_t bytes;
};

/// The parameters (kind KERF_TENSOR_PARAM) in the order of the table.
std::vector<GlobalTensor> listParameters(const kerf_artifact *artifact);
/// The tensor with another kind or state of the same parameter.
GlobalTensor siblingTensor(const kerf_artifact *artifact,
                           const GlobalTensor &parameter, uint32_t kind,
                           uint32_t state);

/// Sets all parameters and masters from the checkpoint at `path`; optimizer
/// state stays. Masters keep the checkpoint's precision, parameters are rounded
/// from them. Weights that are kept in codes are quantized, unless the
/// checkpoint has codes; adapters stay if it has none. `notes` tells what was
/// tolerated, `errors` what is wrong.
[[nodiscard]] bool loadWeights(kerf_session *session,
                               const kerf_artifact *artifact,
                               const std::string &path,
                               std::vector<std::string> &notes,
                               std::vector<std::string> &errors);

/// Writes all parameters to `path` (as saveCheckpoint); collective, the first
/// rank writes.
[[nodiscard]] bool saveWeights(kerf_session *session,
                               const kerf_artifact *artifact,
                               const std::string &path, uint64_t shardBytes,
                               std::vector<std::string> &written,
                               std::string &error);

/// Gives the parameters of a session to those of the same names of another one,
/// which is of one rank and lives on the first rank of the session; null on the
/// others, or where nobody wants them. Numbers are rounded to the other's
/// types. Collective. Fails where the other has a parameter that `artifact` has
/// not, or in another shape.
[[nodiscard]] bool copyWeights(kerf_session *session,
                               const kerf_artifact *artifact,
                               kerf_session *other,
                               const kerf_artifact *otherArtifact,
                               std::string &error);

/// Writes the trained parameters of a model with adapters, and what they are,
/// to a folder in the form of the peft library: `adapter_model.safetensors` and
/// `adapter_config.json`, which names `base`, the weights that they belong to
/// ("": not known). Collective, the first rank writes.
[[nodiscard]] bool
saveAdapter(kerf_session *session, const kerf_artifact *artifact,
            const std::string &folder, const std::string &base,
            std::vector<std::string> &written, std::string &error);

/// Sets the trained parameters from such a folder, as loadWeights does.
[[nodiscard]] bool loadAdapter(kerf_session *session,
                               const kerf_artifact *artifact,
                               const std::string &folder,
                               std::vector<std::string> &notes,
                               std::vector<std::string> &errors);

} // namespace kerf::runtime

#endif // KERF_TRAIN_WEIGHTS_H
