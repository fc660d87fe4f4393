//===- Safetensors.h - checkpoint files -------------------------*- C++ -*-===//
//
// The format (https://github.com/huggingface/safetensors): 8 bytes
// little-endian header length N, N bytes of JSON header, then the data. The
// header maps names to {"dtype": "F32", "shape": [2, 3], "data_offsets":
// [0, 24]} with offsets from its end, and "__metadata__" to strings. This is
// the runtime's reader and writer; kerf/Support/Safetensors.h is the
// compiler's.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_SAFETENSORS_H
#define KERF_TRAIN_SAFETENSORS_H

#include "kerf/Train/Files.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

struct TensorEntry {
  std::string name;
  std::string dtype; /// as in the file: "F32", "BF16", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0; /// bytes, from the start of the data

  /// The product of `shape`, 1 for a scalar.
  int64_t elements() const;
};

/// The kerf_dtype of a dtype in a file that holds parameters or state (F32,
/// BF16, F16, F64, I32, BOOL); KERF_NONE for others.
uint32_t kerfDtype(std::string_view name);
/// The inverse; null for what is none.
const char *safetensorsDtype(uint32_t dtype);

/// A mapped file. Its header was checked: known dtypes, unique names, shapes
/// that agree with byte ranges, ranges that cover the data without hole or
/// overlap.
class SafetensorsFile {
public:
  /// Errors name the file, and the tensor where there is one.
  [[nodiscard]] bool open(const std::string &path, std::string &error);

  /// In the order of the data.
  const std::vector<TensorEntry> &tensors() const { return entries; }
  /// The tensor, or null.
  const TensorEntry *find(std::string_view name) const;
  const std::map<std::string, std::string> &metadata() const { return meta; }
  const uint8_t *data(const TensorEntry &entry) const {
    return file.data() + dataStart + entry.begin;
  }
  uint64_t dataBytes() const { return file.size() - dataStart; }
  const uint8_t *dataBegin() const { return file.data() + dataStart; }
  const std::string &path() const { return file.path(); }

private:
  [[nodiscard]] bool parse(std::string &error);

  MappedFile file;
  uint64_t dataStart = 0;
  std::vector<TensorEntry> entries;
  std::map<std::string, size_t, std::less<>> byName;
  std::map<std::string, std::string> meta;
};

/// Writes a file tensor by tensor, in the declared order, without holding it
/// in memory.
class SafetensorsWriter {
public:
  /// Declares a tensor; before `open`.
  void declare(std::string name, uint32_t dtype, std::vector<int64_t> shape);
  /// The same with the name of a type in the file, and its bytes.
  void declare(std::string name, const std::string &dtype, int64_t elementBytes,
               std::vector<int64_t> shape);
  void setMetadata(const std::string &key, const std::string &value) {
    meta[key] = value;
  }
  /// Bytes of all declared data.
  uint64_t dataBytes() const;
  /// Bytes in front of the data; after `open`.
  uint64_t dataStart() const { return 8 + header.size(); }
  /// Writes the header to a temporary file beside `path`. The data starts at a
  /// multiple of 8, of large files at one of a page.
  [[nodiscard]] bool open(const std::string &path, std::string &error);
  /// Appends data: of the next tensor, or a piece of it.
  [[nodiscard]] bool append(const void *data, uint64_t size,
                            std::string &error);
  /// As OutputFile. All declared data must have been appended.
  [[nodiscard]] bool finish(std::string &error) { return file.finish(error); }
  [[nodiscard]] bool publish(std::string &error) { return file.publish(error); }

private:
  OutputFile file;
  std::vector<TensorEntry> entries;
  std::map<std::string, std::string> meta;
  std::string header;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_SAFETENSORS_H
