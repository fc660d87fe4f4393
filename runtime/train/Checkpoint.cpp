//===- Checkpoint.cpp - open weights and match their names ----------------===//

#include "kerf/Train/Checkpoint.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Json.h"
#include "kerf/Train/Numbers.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

using namespace kerf::runtime;

static constexpr const char *singleName = "model.safetensors";
static constexpr const char *indexName = "model.safetensors.index.json";

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

const Checkpoint::Place *Checkpoint::find(std::string_view name) const {
  auto it = places.find(name);
  return it == places.end() ? nullptr : &it->second;
}

bool Checkpoint::add(const std::string &path, std::string &error) {
  SafetensorsFile file;
  if (!file.open(path, error))
    return false;
  files.push_back(std::move(file));
  size_t number = files.size() - 1;
  for (const TensorEntry &entry : files.back().tensors()) {
    auto [it, isNew] = places.insert({entry.name, {number, &entry}});
    if (!isNew) {
      error = "tensor " + quote(entry.name) +
              " is in two files: " + quote(files[it->second.file].path()) +
              " and " + quote(path);
      return false;
    }
  }
  return true;
}

bool Checkpoint::openIndex(const std::string &folder, const std::string &index,
                           std::string &error) {
  MappedFile text;
  JsonValue root;
  if (!text.open(index, error))
    return false;
  std::string reason;
  if (!parseJson({reinterpret_cast<const char *>(text.data()), text.size()},
                 root, reason)) {
    error = quote(index) + ": " + reason;
    return false;
  }
  const JsonValue *map = root.find("weight_map");
  if (!map || map->kind != JsonValue::Object) {
    error = quote(index) + ": expected an object 'weight_map'";
    return false;
  }
  std::set<std::string> names;
  for (const auto &[tensor, file] : map->object) {
    if (file.kind != JsonValue::String || file.string.empty() ||
        file.string.find('/') != std::string::npos) {
      error = quote(index) +
              ": expected the name of a file in this folder "
              "for tensor " +
              quote(tensor);
      return false;
    }
    names.insert(file.string);
  }
  // A map does not move its keys: files must not move either.
  files.reserve(names.size());
  for (const std::string &name : names)
    if (!add(joinPath(folder, name), error))
      return false;
  for (const auto &[tensor, file] : map->object) {
    const Place *place = find(tensor);
    if (!place || files[place->file].path() != joinPath(folder, file.string)) {
      error = quote(index) + ": tensor " + quote(tensor) + " is not in " +
              quote(file.string) + ", which the index names";
      return false;
    }
  }
  return true;
}

bool Checkpoint::open(const std::string &path, std::string &error) {
  files.clear();
  places.clear();
  if (endsWith(path, ".index.json"))
    return openIndex(parentFolder(path), path, error);
  if (!isFolder(path))
    return add(path, error);
  std::string single = joinPath(path, singleName);
  if (fileExists(single))
    return add(single, error);
  std::string index = joinPath(path, indexName);
  if (fileExists(index))
    return openIndex(path, index, error);
  error = "folder " + quote(path) + " has neither '" + singleName + "' nor '" +
          indexName + "'";
  return false;
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

/// The first component ("transformer.") that most tensors have; empty if fewer
/// than two share one.
static std::string commonPrefix(const std::vector<ModelTensor> &model) {
  std::map<std::string, size_t> counts;
  for (const ModelTensor &tensor : model)
    if (size_t dot = tensor.name.find('.'); dot != std::string::npos)
      ++counts[tensor.name.substr(0, dot + 1)];
  std::string best;
  size_t most = 1;
  for (const auto &[prefix, count] : counts)
    if (count > most) {
      most = count;
      best = prefix;
    }
  return best;
}

/// The tensor under its name or, if `prefix` is given, without it.
static const Checkpoint::Place *lookUp(const Checkpoint &checkpoint,
                                       const std::string &name,
                                       const std::string &prefix) {
  if (const Checkpoint::Place *place = checkpoint.find(name))
    return place;
  if (prefix.empty() || name.compare(0, prefix.size(), prefix) != 0)
    return nullptr;
  return checkpoint.find(std::string_view(name).substr(prefix.size()));
}

static bool matchesAll(const Checkpoint &checkpoint,
                       const std::vector<ModelTensor> &model,
                       const std::string &prefix) {
  return std::all_of(model.begin(), model.end(), [&](const ModelTensor &t) {
    return lookUp(checkpoint, t.name, prefix) != nullptr;
  });
}

/// Whether the name is that of a constant that other libraries store beside the
/// parameters.
static bool isConstantBuffer(std::string_view name) {
  static constexpr std::string_view suffixes[] = {
      "attn.bias", "attn.masked_bias", "attention.bias",
      "attention.masked_bias", "rotary_emb.inv_freq"};
  for (std::string_view suffix : suffixes)
    if (endsWith(name, suffix) &&
        (name.size() == suffix.size() ||
         name[name.size() - suffix.size() - 1] == '.'))
      return true;
  return false;
}

static bool isEmbedding(const std::string &name) {
  return endsWith(name, "wte.weight") ||
         endsWith(name, "embed_tokens.weight") ||
         endsWith(name, "word_embeddings.weight");
}

/// Whether `name` is the output projection of a model that ties it, and equals
/// one of the claimed embeddings.
static const TensorEntry *findTied(const Checkpoint &checkpoint,
                                   const Checkpoint::Place &place,
                                   const CheckpointMatch &match) {
  const TensorEntry &head = *place.entry;
  if (head.name != "lm_head.weight" && head.name != "output.weight")
    return nullptr;
  for (const Checkpoint::Place *claimed : match.places) {
    if (!claimed)
      continue;
    const TensorEntry &entry = *claimed->entry;
    if (isEmbedding(entry.name) && entry.dtype == head.dtype &&
        entry.shape == head.shape &&
        std::memcmp(checkpoint.data(*claimed), checkpoint.data(place),
                    head.end - head.begin) == 0)
      return &entry;
  }
  return nullptr;
}

/// Whether the checkpoint has what a head may be compared with.
static bool hasEmbedding(const CheckpointMatch &match) {
  return std::any_of(match.places.begin(), match.places.end(),
                     [](const Checkpoint::Place *claimed) {
                       return claimed && isEmbedding(claimed->entry->name);
                     });
}

/// Checks shape and type of a claimed tensor.
static void checkTensor(const ModelTensor &tensor, const TensorEntry &entry,
                        std::vector<std::string> &errors) {
  if (entry.shape != tensor.shape)
    errors.push_back("tensor " + quote(entry.name) + " has the shape " +
                     formatShape(entry.shape) + ", the model expects " +
                     formatShape(tensor.shape));
  uint32_t dtype = kerfDtype(entry.dtype);
  if (tensor.isCodes) {
    if (dtype != KERF_I8)
      errors.push_back("tensor " + quote(entry.name) + " has the dtype " +
                       quote(entry.dtype) +
                       ", expected 'I8': others of its parameter are codes");
    return;
  }
  if (dtype != KERF_F32 && dtype != KERF_BF16 && dtype != KERF_F16)
    errors.push_back("tensor " + quote(entry.name) + " has the dtype " +
                     quote(entry.dtype) + ", expected 'F32', 'BF16' or 'F16'");
}

/// Judges the tensors of the checkpoint that nothing claimed.
static void checkUnclaimed(const Checkpoint &checkpoint,
                           const std::set<const Checkpoint::Place *> &claimed,
                           CheckpointMatch &match,
                           std::vector<std::string> &errors) {
  size_t buffers = 0;
  std::string first;
  for (const auto &[name, place] : checkpoint.tensors()) {
    if (claimed.count(&place))
      continue;
    if (const TensorEntry *tied = findTied(checkpoint, place, match)) {
      match.notes.push_back("tensor " + quote(name) + " equals " +
                            quote(tied->name) + ", which the model ties to it");
    } else if (isConstantBuffer(name)) {
      if (buffers++ == 0)
        first = name;
    } else if (name == "lm_head.weight" && hasEmbedding(match)) {
      errors.push_back("tensor " + quote(name) +
                       " differs from the embedding, and the model ties the "
                       "two: import it with 'tie_word_embeddings' false");
    } else {
      errors.push_back("unexpected tensor " + quote(name) + " of shape " +
                       formatShape(place.entry->shape) +
                       ": the model has no parameter of this name");
    }
  }
  if (buffers > 0)
    match.notes.push_back("ignored " + std::to_string(buffers) +
                          " constant buffers, such as " + quote(first));
}

bool kerf::runtime::matchCheckpoint(const Checkpoint &checkpoint,
                                    const std::vector<ModelTensor> &model,
                                    CheckpointMatch &match,
                                    std::vector<std::string> &errors) {
  match = CheckpointMatch();
  std::string prefix = commonPrefix(model);
  if (prefix.empty() || matchesAll(checkpoint, model, "") ||
      !matchesAll(checkpoint, model, prefix))
    prefix.clear();
  else
    match.notes.push_back("the names lack the prefix " + quote(prefix) +
                          ", which is added");
  std::set<const Checkpoint::Place *> claimed;
  for (const ModelTensor &tensor : model) {
    const Checkpoint::Place *place = lookUp(checkpoint, tensor.name, prefix);
    match.places.push_back(place);
    if (!place) {
      errors.push_back("tensor " + quote(tensor.name) + " of shape " +
                       formatShape(tensor.shape) + " is missing");
      continue;
    }
    if (!claimed.insert(place).second)
      errors.push_back("tensor " + quote(place->entry->name) +
                       " is claimed by two parameters");
    checkTensor(tensor, *place->entry, errors);
  }
  checkUnclaimed(checkpoint, claimed, match, errors);
  return errors.empty();
}

bool kerf::runtime::readTensor(const Checkpoint &checkpoint,
                               const Checkpoint::Place &place, float *values,
                               std::string &error) {
  const TensorEntry &entry = *place.entry;
  int64_t count = entry.elements();
  if (!toFloats(kerfDtype(entry.dtype), checkpoint.data(place), count,
                values)) {
    error = "tensor " + quote(entry.name) + " has the dtype " +
            quote(entry.dtype) + ", which is no number type of parameters";
    return false;
  }
  int64_t bad = findNonFinite(values, count);
  if (bad < 0)
    return true;
  error = "tensor " + quote(entry.name) + " is not finite: element " +
          std::to_string(bad) + " is " + format("%g", values[bad]);
  return false;
}

//===----------------------------------------------------------------------===//
// Saving
//===----------------------------------------------------------------------===//

static uint64_t bytesOf(const SavedTensor &tensor) {
  uint64_t bytes = kerf_dtype_bytes(tensor.dtype);
  for (int64_t size : tensor.shape)
    bytes *= size;
  return bytes;
}

/// Writes and completes one file; it is published by the caller.
static bool writeShard(const std::string &path, const SavedTensor *begin,
                       const SavedTensor *end, SafetensorsWriter &writer,
                       std::string &error) {
  writer.setMetadata("format", "pt");
  for (const SavedTensor *t = begin; t != end; ++t)
    writer.declare(t->name, t->dtype, t->shape);
  if (!writer.open(path, error))
    return false;
  std::vector<char> bytes;
  for (const SavedTensor *t = begin; t != end; ++t) {
    bytes.resize(bytesOf(*t));
    if (!t->read(bytes.data(), error) ||
        !checkFinite(t->name, t->dtype, bytes, error) ||
        !writer.append(bytes.data(), bytes.size(), error))
      return false;
  }
  return writer.finish(error);
}

/// Ends of the runs of tensors of at most `shardBytes` (one tensor at least).
static std::vector<size_t> shardEnds(const std::vector<SavedTensor> &tensors,
                                     uint64_t shardBytes) {
  std::vector<size_t> ends;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    uint64_t own = bytesOf(tensors[i]);
    if (bytes > 0 && bytes + own > shardBytes) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += own;
  }
  ends.push_back(tensors.size());
  return ends;
}

static std::string makeIndex(const std::vector<SavedTensor> &tensors,
                             const std::vector<size_t> &ends,
                             const std::vector<std::string> &names) {
  uint64_t total = 0;
  std::string map;
  for (size_t i = 0, shard = 0; i < tensors.size(); ++i) {
    shard += i == ends[shard];
    total += bytesOf(tensors[i]);
    map += (i ? ",\n    " : "    ") + jsonQuote(tensors[i].name) + ": " +
           jsonQuote(names[shard]);
  }
  return "{\n  \"metadata\": {\"total_size\": " + std::to_string(total) +
         "},\n  \"weight_map\": {\n" + map + "\n  }\n}\n";
}

static std::string shardName(size_t shard, size_t shards) {
  return format("model-%05zu-of-%05zu.safetensors", shard, shards);
}

/// Removes "model-00001-of-00003.safetensors" and others of earlier saves: who
/// reads all files of a folder would mix two models.
static void removeOtherShards(const std::string &folder,
                              const std::vector<std::string> &kept) {
  for (const std::string &name : listFolder(folder)) {
    size_t shard = 0, shards = 0;
    bool isShard =
        std::sscanf(name.c_str(), "model-%zu-of-%zu", &shard, &shards) == 2 &&
        name == shardName(shard, shards);
    if (isShard && std::find(kept.begin(), kept.end(), name) == kept.end())
      removeFile(joinPath(folder, name));
  }
}

bool kerf::runtime::saveCheckpoint(const std::string &path,
                                   const std::vector<SavedTensor> &tensors,
                                   uint64_t shardBytes,
                                   std::vector<std::string> &written,
                                   std::string &error) {
  bool isFile = endsWith(path, ".safetensors");
  if (!makeFolder(isFile ? parentFolder(path) : path, error))
    return false;
  std::vector<size_t> ends = {tensors.size()};
  if (!isFile)
    ends = shardEnds(tensors, shardBytes);
  std::vector<std::string> names = {singleName};
  if (ends.size() > 1)
    names.clear();
  for (size_t i = 0; ends.size() > 1 && i < ends.size(); ++i)
    names.push_back(shardName(i + 1, ends.size()));

  std::vector<SafetensorsWriter> writers(ends.size());
  for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++]) {
    written.push_back(isFile ? path : joinPath(path, names[i]));
    if (!writeShard(written.back(), tensors.data() + begin,
                    tensors.data() + ends[i], writers[i], error))
      return false;
  }
  for (SafetensorsWriter &writer : writers)
    if (!writer.publish(error))
      return false;
  if (isFile)
    return true;
  // The other form, if it is there, would be read instead of the new files.
  std::string index = joinPath(path, indexName);
  if (ends.size() == 1) {
    removeFile(index);
    removeOtherShards(path, names);
    return true;
  }
  written.push_back(index);
  if (!writeFile(index, makeIndex(tensors, ends, names), error))
    return false;
  removeFile(joinPath(path, singleName));
  removeOtherShards(path, names);
  return true;
}
