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

bool kerf::runtime::tryWeights(const std::string &path, std::string &error) {
  bool isFolder = isModelFolder(path);
  return makeFolder(isFolder ? path : parentFolder(path), error) &&
         tryFile(isFolder ? joinPath(path, "weights") : path, error);
}

/// The type of the weights that are written, as the transformers library names
/// it: the widest of all parameters.
static const char *writtenType(const kerf_artifact *artifact) {
  uint32_t count = 0;
  const kerf_param *params = kerf_artifact_params(artifact, &count);
  const char *name = "bfloat16";
  for (uint32_t p = 0; p < count; ++p) {
    if (params[p].layout.dtype == KERF_F32)
      return "float32";
    if (params[p].layout.dtype == KERF_F16)
      name = "float16";
  }
  return name;
}

/// Gives the string at `key` another value: a base of another type would have
/// the library round what was trained.
static void setString(std::string &json, const std::string &key,
                      const std::string &value) {
  size_t at = json.find("\"" + key + "\"");
  size_t open = at == std::string::npos
                    ? at
                    : json.find_first_not_of(" :", at + key.size() + 2);
  if (open == std::string::npos || json[open] != '"')
    return;
  size_t close = json.find('"', open + 1);
  if (close != std::string::npos)
    json.replace(open + 1, close - open - 1, value);
}

/// Members on lines of their own, as people and `diff` read them.
static std::string indented(const std::string &json) {
  std::string text;
  size_t depth = 0;
  bool isString = false, isOpened = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (isString || c == '"') {
      isOpened = false;
      text += c;
      if (c == '\\' && isString && i + 1 < json.size())
        text += json[++i];
      else if (c == '"')
        isString = !isString;
      continue;
    }
    if (c == ' ' || c == '\n')
      continue;
    bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
    bool isEmpty = closes && isOpened;
    isOpened = opens;
    if (closes)
      --depth;
    if (isEmpty)
      text.resize(text.find_last_not_of(" \n") + 1);
    else if (closes)
      text += "\n" + std::string(2 * depth, ' ');
    text += c;
    if (c == ':')
      text += ' ';
    depth += opens;
    if (opens || c == ',')
      text += "\n" + std::string(2 * depth, ' ');
  }
  return text;
}

static bool writeConfig(const kerf_artifact *artifact,
                        const std::string &folder,
                        std::vector<std::string> &written, std::string &error) {
  const kerf_meta &meta = *kerf_artifact_meta(artifact);
  std::string config = kerf_artifact_string(artifact, meta.config);
  // Adapters are parameters of their own, which the config does not tell of.
  if (config.empty() || *kerf_artifact_string(artifact, meta.adapter))
    return true;
  for (const char *key : {"dtype", "torch_dtype"})
    setString(config, key, writtenType(artifact));
  std::string path = joinPath(folder, "config.json");
  if (!writeFile(path, indented(config) + "\n", error))
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
