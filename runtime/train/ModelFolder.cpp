//===- ModelFolder.cpp - what makes weights a model that libraries load ---===//

#include "kerf/Train/ModelFolder.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/Text.h"

using namespace kerf::runtime;

/// Of the tokenizer and of generation, under the names that the transformers
/// library gives them.
static constexpr const char *copiedNames[] = {
    "generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
    "tokenizer.model",         "added_tokens.json", "vocab.json",
    "special_tokens_map.json", "merges.txt",        "chat_template.jinja",
    "chat_template.json"};

bool kerf::runtime::isModelFolder(const std::string &path) {
  return !endsWith(path, ".safetensors");
}

static bool writeConfig(const kerf_artifact *artifact,
                        const std::string &folder,
                        std::vector<std::string> &written, std::string &error) {
  const kerf_meta &meta = *kerf_artifact_meta(artifact);
  std::string config = kerf_artifact_string(artifact, meta.config);
  // Adapters are parameters of their own, which the config does not tell of.
  if (config.empty() || *kerf_artifact_string(artifact, meta.adapter))
    return true;
  std::string path = joinPath(folder, "config.json");
  if (!writeFile(path, config + "\n", error))
    return false;
  written.push_back(path);
  return true;
}

static bool copyFile(const std::string &from, const std::string &to,
                     std::string &error) {
  MappedFile file;
  return file.open(from, error) &&
         writeFile(to,
                   std::string_view(reinterpret_cast<const char *>(file.data()),
                                    file.size()),
                   error);
}

bool kerf::runtime::completeModelFolder(const kerf_artifact *artifact,
                                        const std::string &folder,
                                        const std::string &source,
                                        std::vector<std::string> &written,
                                        std::string &error) {
  if (!writeConfig(artifact, folder, written, error))
    return false;
  if (!isFolder(source))
    return true;
  for (const char *name : copiedNames) {
    std::string from = joinPath(source, name), to = joinPath(folder, name);
    if (!fileExists(from) || from == to)
      continue;
    if (!copyFile(from, to, error))
      return false;
    written.push_back(to);
  }
  return true;
}
