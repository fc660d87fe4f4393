//===- Checkpoint.h - weights with Hugging Face names -----------*- C++ -*-===//
//
// A checkpoint is one safetensors file, or a folder with `model.safetensors`,
// or with `model.safetensors.index.json` and its shards. Every tensor of the
// model is claimed by exactly one tensor of the checkpoint, and the other way
// round, but for what is documented at `matchCheckpoint`.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_CHECKPOINT_H
#define KERF_TRAIN_CHECKPOINT_H

#include "kerf/Train/Safetensors.h"

#include <functional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// One or more open files with unique tensor names.
class Checkpoint {
public:
  struct Place {
    size_t file;
    const TensorEntry *entry;
  };

  /// Opens a file or folder. Fails on missing files, a tensor that is in two
  /// of them, and an index that does not agree with them.
  [[nodiscard]] bool open(const std::string &path, std::string &error);

  const std::map<std::string, Place, std::less<>> &tensors() const {
    return places;
  }
  const Place *find(std::string_view name) const;
  const uint8_t *data(const Place &place) const {
    return files[place.file].data(*place.entry);
  }
  size_t fileCount() const { return files.size(); }

private:
  [[nodiscard]] bool openIndex(const std::string &folder,
                               const std::string &index, std::string &error);
  [[nodiscard]] bool add(const std::string &path, std::string &error);

  std::vector<SafetensorsFile> files;
  std::map<std::string, Place, std::less<>> places;
};

/// A tensor of the model, under its Hugging Face name.
struct ModelTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool isCodes = false; /// pairs of 4-bit codes (I8), no numbers
};

/// Which tensor of the checkpoint each tensor of the model is, and what to tell
/// the user.
struct CheckpointMatch {
  std::vector<const Checkpoint::Place *> places; /// as the model's tensors
  std::vector<std::string> notes;
};

/// Matches by name. Tolerated, with a note: names that lack the model's common
/// first component ("transformer.") when that makes all match; `lm_head.weight`
/// that equals the embedding bit for bit, where the model ties the two;
/// constant buffers (causal masks, rotary frequencies). On failure `errors`
/// names every missing, unexpected, misshaped or wrongly typed tensor.
[[nodiscard]] bool matchCheckpoint(const Checkpoint &checkpoint,
                                   const std::vector<ModelTensor> &model,
                                   CheckpointMatch &match,
                                   std::vector<std::string> &errors);

/// Reads a matched tensor as floats (`values` has room for all elements).
/// Fails, naming the tensor and the element, on NaN and infinity.
[[nodiscard]] bool readTensor(const Checkpoint &checkpoint,
                              const Checkpoint::Place &place, float *values,
                              std::string &error);

/// A tensor to save; `read` fills its bytes.
struct SavedTensor {
  std::string name;
  uint32_t dtype = 0; /// kerf_dtype
  std::vector<int64_t> shape;
  std::function<bool(void *bytes, std::string &error)> read;
};

/// Writes `tensors` to `path`: a file if it ends in ".safetensors", else a
/// folder, with shards of at most `shardBytes` and an index where one does not
/// do. All files appear after all are complete; on failure what was there
/// stays. `written` lists the files.
[[nodiscard]] bool saveCheckpoint(const std::string &path,
                                  const std::vector<SavedTensor> &tensors,
                                  uint64_t shardBytes,
                                  std::vector<std::string> &written,
                                  std::string &error);

} // namespace kerf::runtime

#endif // KERF_TRAIN_CHECKPOINT_H
