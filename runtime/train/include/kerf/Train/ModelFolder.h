//===- ModelFolder.h - what makes weights a model that libraries load -----===//

#ifndef KERF_TRAIN_MODELFOLDER_H
#define KERF_TRAIN_MODELFOLDER_H

#include "kerf/Runtime/Runtime.h"

#include <string>
#include <vector>

namespace kerf::runtime {

/// Whether weights saved at `path` are a folder, not one .safetensors file.
bool isModelFolder(const std::string &path);

/// Whether weights can be saved at `path`: makes their folder, as saving does,
/// and leaves what is there as it is.
[[nodiscard]] bool tryWeights(const std::string &path, std::string &error);

/// Writes beside the weights in `folder` what the transformers library's
/// `from_pretrained` reads: the config.json that the model was imported from
/// (none for a model written by hand, or one with adapters), and files of the
/// tokenizer and of generation that the folder `source` has. Appends their
/// paths to `written`.
[[nodiscard]] bool completeModelFolder(const kerf_artifact *artifact,
                                       const std::string &folder,
                                       const std::string &source,
                                       std::vector<std::string> &written,
                                       std::string &error);

} // namespace kerf::runtime

#endif // KERF_TRAIN_MODELFOLDER_H
