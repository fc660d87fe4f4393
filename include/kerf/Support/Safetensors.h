//===- Safetensors.h - Read and write safetensors files ---------*- C++ -*-===//
//
// The format (https://github.com/huggingface/safetensors): 8 bytes
// little-endian header length N, N bytes of JSON header, then the data. The
// header maps each tensor's name to
//
//   {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
//
// with offsets from the end of the header, and "__metadata__" to an object of
// strings. Data is little-endian, row-major, without holes.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_SAFETENSORS_H
#define KERF_SUPPORT_SAFETENSORS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kerf::safetensors {

enum class DType { F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL };

/// The name in the file format, e.g. "BF16".
llvm::StringRef getDTypeName(DType dtype);
/// The inverse of `getDTypeName`; nothing for an unknown name.
std::optional<DType> parseDTypeName(llvm::StringRef name);
/// Bytes of one element; BOOL takes one byte.
int64_t getDTypeSizeBytes(DType dtype);
/// The bytes of a tensor, or nothing when a dimension is negative or the
/// product does not fit in 64 bits. A scalar has the shape {}.
std::optional<int64_t> computeSizeBytes(llvm::ArrayRef<int64_t> shape,
                                        DType dtype);

/// The largest header, as in the reference implementation.
inline constexpr uint64_t maxHeaderBytes = 100'000'000;
/// The name in the header that is no tensor.
inline constexpr llvm::StringRef metadataKey = "__metadata__";

/// One tensor of a file. `begin` and `end` are byte offsets into the data.
struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  llvm::SmallVector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;

  /// The product of `shape`; 1 for a scalar.
  int64_t getNumElements() const;
};

using Metadata = std::map<std::string, std::string>;

/// An opened file; owns (maps) its bytes. Everything in the header was checked:
/// known dtypes, unique names, shapes that agree with their byte ranges, ranges
/// that cover the data one after the other without hole or overlap.
class File {
public:
  /// Opens the regular file `path`. On failure `error` holds one line without
  /// the path.
  [[nodiscard]] static llvm::FailureOr<File> open(llvm::StringRef path,
                                                  std::string &error);
  /// The same for bytes in memory.
  [[nodiscard]] static llvm::FailureOr<File>
  parse(std::unique_ptr<llvm::MemoryBuffer> buffer, std::string &error);

  /// The tensors in the order of their data, equal places by name.
  const std::vector<TensorInfo> &tensors() const { return infos; }
  /// The tensor `name`, or null. Valid as long as this file.
  const TensorInfo *find(llvm::StringRef name) const;
  const Metadata &metadata() const { return metadataMap; }

  /// The bytes of `info`, which must be one of `tensors()`.
  llvm::StringRef getData(const TensorInfo &info) const;

  /// The elements of `info` (one of `tensors()`), row-major; 8 bytes each.
  /// BOOL gives 0 and 1. Fails with `error` on a BOOL byte other than 0 or 1
  /// and on an I64 that no double represents exactly.
  [[nodiscard]] llvm::FailureOr<std::vector<double>>
  readAsDouble(const TensorInfo &info, std::string &error) const;

private:
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  /// The bytes of `buffer` after the header.
  llvm::StringRef data;
  std::vector<TensorInfo> infos;
  llvm::StringMap<size_t> indexByName;
  Metadata metadataMap;
};

/// A tensor to write. `values` is row-major, one double per element.
struct NamedTensor {
  std::string name;
  DType dtype = DType::F32;
  llvm::SmallVector<int64_t> shape;
  std::vector<double> values;
};

/// Writes `tensors` to `path`, atomically (see Output.h). The bytes depend only
/// on the arguments, not on the order of `tensors`. Values are rounded to the
/// nearest value of a float dtype, ties to even. Fails with `error` (one line
/// without the path) and leaves `path` alone on: a repeated, reserved
/// ("__metadata__") or non-UTF-8 name, a number of values that is not the
/// product of the shape, a finite value that overflows its float dtype, a value
/// that an integer dtype or BOOL cannot hold exactly, and an I/O error.
[[nodiscard]] llvm::LogicalResult write(llvm::StringRef path,
                                        llvm::ArrayRef<NamedTensor> tensors,
                                        const Metadata &metadata,
                                        std::string &error);

} // namespace kerf::safetensors

#endif // KERF_SUPPORT_SAFETENSORS_H
