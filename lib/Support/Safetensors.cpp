//===- Safetensors.cpp - Read and write safetensors files -----------------===//

#include "kerf/Support/Safetensors.h"

#include "kerf/Support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"

#include <cassert>
#include <cmath>
#include <limits>
#include <tuple>

using namespace kerf;
using namespace kerf::safetensors;
namespace endian = llvm::support::endian;
using llvm::failure;
using llvm::FailureOr;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Data types
//===----------------------------------------------------------------------===//

namespace {
struct DTypeEntry {
  DType dtype;
  StringRef name;
  int64_t sizeBytes;
};
} // namespace

static constexpr DTypeEntry dtypeTable[] = {
    {DType::F64, "F64", 8},   {DType::F32, "F32", 4}, {DType::F16, "F16", 2},
    {DType::BF16, "BF16", 2}, {DType::I64, "I64", 8}, {DType::I32, "I32", 4},
    {DType::I16, "I16", 2},   {DType::I8, "I8", 1},   {DType::U8, "U8", 1},
    {DType::BOOL, "BOOL", 1},
};

static const DTypeEntry &getEntry(DType dtype) {
  const DTypeEntry &entry = dtypeTable[static_cast<size_t>(dtype)];
  assert(entry.dtype == dtype && "table is in the order of the enum");
  return entry;
}

StringRef safetensors::getDTypeName(DType dtype) {
  return getEntry(dtype).name;
}

int64_t safetensors::getDTypeSizeBytes(DType dtype) {
  return getEntry(dtype).sizeBytes;
}

std::optional<DType> safetensors::parseDTypeName(StringRef name) {
  for (const DTypeEntry &entry : dtypeTable)
    if (entry.name == name)
      return entry.dtype;
  return std::nullopt;
}

std::optional<int64_t>
safetensors::computeSizeBytes(llvm::ArrayRef<int64_t> shape, DType dtype) {
  if (llvm::any_of(shape, [](int64_t size) { return size < 0; }))
    return std::nullopt;
  // A zero makes the tensor empty however large the other dimensions are.
  if (llvm::is_contained(shape, 0))
    return 0;
  int64_t result = getDTypeSizeBytes(dtype);
  for (int64_t size : shape)
    if (llvm::MulOverflow(result, size, result))
      return std::nullopt;
  return result;
}

int64_t TensorInfo::getNumElements() const {
  return *computeSizeBytes(shape, dtype) / getDTypeSizeBytes(dtype);
}

static LogicalResult fail(std::string &error, const Twine &message) {
  error = message.str();
  return failure();
}

//===----------------------------------------------------------------------===//
// Header
//===----------------------------------------------------------------------===//

static LogicalResult failAt(std::string &error, json::Position position,
                            const Twine &message) {
  return fail(error, "header " + Twine(position.line) + ":" +
                         Twine(position.column) + ": " + message);
}

/// The field `key` of the entry of tensor `name`, of kind `kind`.
static FailureOr<const json::Value *> getField(const json::Value &entry,
                                               StringRef key, json::Kind kind,
                                               StringRef name,
                                               std::string &error) {
  const json::Value *value = entry.find(key);
  if (!value) {
    (void)failAt(error, entry.position,
                 "tensor " + json::quote(name) + " has no '" + key + "'");
    return failure();
  }
  if (value->kind != kind) {
    (void)failAt(error, value->position,
                 "expected '" + key + "' of tensor " + json::quote(name) +
                     " to be " + json::describeKind(kind) + ", found " +
                     json::describeKind(value->kind));
    return failure();
  }
  return value;
}

static std::string describe(const json::Value &value) {
  return value.kind == json::Kind::Number
             ? json::print(value)
             : json::describeKind(value.kind).str();
}

static LogicalResult readSizes(const json::Value &array, StringRef what,
                               llvm::SmallVectorImpl<int64_t> &sizes,
                               std::string &error) {
  for (const json::Value &element : array.array) {
    if (!element.isInteger || element.integer < 0)
      return failAt(error, element.position,
                    "expected a non-negative 64-bit integer in '" + what +
                        "', found " + describe(element));
    sizes.push_back(element.integer);
  }
  return success();
}

static LogicalResult readOffsets(const json::Value &offsets, TensorInfo &info,
                                 std::string &error) {
  llvm::SmallVector<int64_t> bounds;
  if (failed(readSizes(offsets, "data_offsets", bounds, error)))
    return failure();
  if (bounds.size() != 2)
    return failAt(error, offsets.position,
                  "expected two 'data_offsets' of tensor " +
                      json::quote(info.name) + ", found " +
                      Twine(bounds.size()));
  if (bounds[0] > bounds[1])
    return failAt(error, offsets.position,
                  "tensor " + json::quote(info.name) + " ends at " +
                      Twine(bounds[1]) + ", before its begin at " +
                      Twine(bounds[0]));
  info.begin = bounds[0];
  info.end = bounds[1];
  return success();
}

static LogicalResult readTensorInfo(const json::Member &member,
                                    TensorInfo &info, std::string &error) {
  const json::Value &entry = member.value;
  info.name = member.key;
  if (entry.kind != json::Kind::Object)
    return failAt(error, entry.position,
                  "expected tensor " + json::quote(info.name) +
                      " to be an object, found " +
                      json::describeKind(entry.kind));
  for (const json::Member &field : entry.object)
    if (field.key != "dtype" && field.key != "shape" &&
        field.key != "data_offsets")
      return failAt(error, field.keyPosition,
                    "unknown field " + json::quote(field.key) + " of tensor " +
                        json::quote(info.name));

  auto get = [&](StringRef key, json::Kind kind) {
    return getField(entry, key, kind, info.name, error);
  };
  FailureOr<const json::Value *> dtypeName = get("dtype", json::Kind::String);
  if (failed(dtypeName))
    return failure();
  FailureOr<const json::Value *> shape = get("shape", json::Kind::Array);
  if (failed(shape))
    return failure();
  FailureOr<const json::Value *> offsets =
      get("data_offsets", json::Kind::Array);
  if (failed(offsets))
    return failure();

  std::optional<DType> dtype = parseDTypeName((*dtypeName)->string);
  if (!dtype)
    return failAt(error, (*dtypeName)->position,
                  "unknown dtype " + json::quote((*dtypeName)->string) +
                      " of tensor " + json::quote(info.name));
  info.dtype = *dtype;
  if (failed(readSizes(**shape, "shape", info.shape, error)) ||
      failed(readOffsets(**offsets, info, error)))
    return failure();
  std::optional<int64_t> sizeBytes = computeSizeBytes(info.shape, info.dtype);
  if (!sizeBytes)
    return failAt(error, (*shape)->position,
                  "size of tensor " + json::quote(info.name) +
                      " overflows 64 bits");
  if (static_cast<uint64_t>(*sizeBytes) != info.end - info.begin)
    return failAt(error, entry.position,
                  "tensor " + json::quote(info.name) + " needs " +
                      Twine(*sizeBytes) +
                      " bytes by shape and dtype, 'data_offsets' gives " +
                      Twine(info.end - info.begin));
  return success();
}

static LogicalResult readMetadata(const json::Value &object, Metadata &metadata,
                                  std::string &error) {
  if (object.kind != json::Kind::Object)
    return failAt(error, object.position,
                  "expected '" + metadataKey + "' to be an object, found " +
                      json::describeKind(object.kind));
  for (const json::Member &member : object.object) {
    if (member.value.kind != json::Kind::String)
      return failAt(error, member.value.position,
                    "expected metadata " + json::quote(member.key) +
                        " to be a string, found " +
                        json::describeKind(member.value.kind));
    metadata[member.key] = member.value.string;
  }
  return success();
}

/// `infos` sorted by place must cover `[0, dataBytes)` without hole or overlap.
static LogicalResult checkCoverage(llvm::ArrayRef<TensorInfo> infos,
                                   uint64_t dataBytes, std::string &error) {
  uint64_t end = 0;
  for (const TensorInfo &info : infos) {
    if (info.end > dataBytes)
      return fail(error, "tensor " + json::quote(info.name) + " ends at byte " +
                             Twine(info.end) + ", the data has " +
                             Twine(dataBytes));
    if (info.begin != end)
      return fail(error, "tensor " + json::quote(info.name) +
                             " begins at byte " + Twine(info.begin) +
                             ", expected " + Twine(end) +
                             (info.begin < end ? " (tensors overlap)"
                                               : " (hole in the data)"));
    end = info.end;
  }
  if (end != dataBytes)
    return fail(error, Twine(dataBytes - end) +
                           " bytes after the last tensor, expected none");
  return success();
}

/// The JSON text of the header.
static FailureOr<StringRef> readHeaderText(StringRef bytes,
                                           std::string &error) {
  if (bytes.size() < 8) {
    (void)fail(error, "expected 8 bytes of header length, found " +
                          Twine(bytes.size()) + " bytes");
    return failure();
  }
  uint64_t length = endian::read64le(bytes.data());
  if (length > maxHeaderBytes) {
    (void)fail(error, "header of " + Twine(length) +
                          " bytes is larger than the limit of " +
                          Twine(maxHeaderBytes));
    return failure();
  }
  if (length > bytes.size() - 8) {
    (void)fail(error, "header of " + Twine(length) +
                          " bytes goes beyond the file, which has " +
                          Twine(bytes.size() - 8) + " bytes left");
    return failure();
  }
  return bytes.substr(8, length);
}

//===----------------------------------------------------------------------===//
// File
//===----------------------------------------------------------------------===//

FailureOr<File> File::open(StringRef path, std::string &error) {
  llvm::sys::fs::file_status status;
  std::error_code code = llvm::sys::fs::status(path, status);
  if (code || !llvm::sys::fs::is_regular_file(status)) {
    (void)fail(error, code ? "cannot open: " + code.message()
                           : "expected a regular file");
    return failure();
  }
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                  /*RequiresNullTerminator=*/false);
  if (!buffer) {
    (void)fail(error, "cannot open: " + buffer.getError().message());
    return failure();
  }
  return parse(std::move(*buffer), error);
}

FailureOr<File> File::parse(std::unique_ptr<llvm::MemoryBuffer> buffer,
                            std::string &error) {
  StringRef bytes = buffer->getBuffer();
  FailureOr<StringRef> header = readHeaderText(bytes, error);
  if (failed(header))
    return failure();
  FailureOr<json::Value> root =
      json::parse(*header, [&](json::Position position, const Twine &message) {
        (void)failAt(error, position, message);
      });
  if (failed(root))
    return failure();
  if (root->kind != json::Kind::Object) {
    (void)failAt(error, root->position,
                 "expected the header to be an object, found " +
                     json::describeKind(root->kind));
    return failure();
  }

  File file;
  file.data = bytes.substr(8 + header->size());
  for (const json::Member &member : root->object) {
    LogicalResult result =
        member.key == metadataKey
            ? readMetadata(member.value, file.metadataMap, error)
            : readTensorInfo(member, file.infos.emplace_back(), error);
    if (failed(result))
      return failure();
  }
  llvm::sort(file.infos, [](const TensorInfo &a, const TensorInfo &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  if (failed(checkCoverage(file.infos, file.data.size(), error)))
    return failure();
  for (const auto &[index, info] : llvm::enumerate(file.infos))
    file.indexByName[info.name] = index;
  file.buffer = std::move(buffer);
  return file;
}

const TensorInfo *File::find(StringRef name) const {
  auto it = indexByName.find(name);
  return it == indexByName.end() ? nullptr : &infos[it->second];
}

StringRef File::getData(const TensorInfo &info) const {
  assert(info.begin <= info.end && info.end <= data.size() &&
         "not a tensor of this file");
  return data.slice(info.begin, info.end);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static double decodeHalf(uint16_t bits) {
  int exponent = (bits >> 10) & 0x1f;
  int mantissa = bits & 0x3ff;
  double magnitude;
  if (exponent == 0x1f)
    magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN()
                         : std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(mantissa, -24);
  else
    magnitude = std::ldexp(mantissa + 0x400, exponent - 25);
  return std::copysign(magnitude, bits & 0x8000 ? -1.0 : 1.0);
}

static double decodeElement(const char *bytes, DType dtype) {
  switch (dtype) {
  case DType::F64:
    return llvm::bit_cast<double>(endian::read64le(bytes));
  case DType::F32:
    return llvm::bit_cast<float>(endian::read32le(bytes));
  case DType::F16:
    return decodeHalf(endian::read16le(bytes));
  case DType::BF16:
    return llvm::bit_cast<float>(uint32_t(endian::read16le(bytes)) << 16);
  case DType::I64:
    return static_cast<double>(static_cast<int64_t>(endian::read64le(bytes)));
  case DType::I32:
    return static_cast<int32_t>(endian::read32le(bytes));
  case DType::I16:
    return static_cast<int16_t>(endian::read16le(bytes));
  case DType::I8:
    return static_cast<int8_t>(*bytes);
  case DType::U8:
  case DType::BOOL:
    return static_cast<uint8_t>(*bytes);
  }
  return 0.0;
}

FailureOr<std::vector<double>> File::readAsDouble(const TensorInfo &info,
                                                  std::string &error) const {
  StringRef bytes = getData(info);
  int64_t sizeBytes = getDTypeSizeBytes(info.dtype);
  std::vector<double> values(bytes.size() / sizeBytes);
  for (const auto &[i, value] : llvm::enumerate(values)) {
    const char *element = bytes.data() + i * sizeBytes;
    value = decodeElement(element, info.dtype);
    if (info.dtype == DType::BOOL && value > 1.0) {
      (void)fail(error, "tensor " + json::quote(info.name) + ": element " +
                            Twine(i) + " is byte " + Twine(int(value)) +
                            ", expected 0 or 1 for BOOL");
      return failure();
    }
    if (info.dtype != DType::I64)
      continue;
    int64_t integer = endian::read64le(element);
    if (value == 0x1p63 || static_cast<int64_t>(value) != integer) {
      (void)fail(error, "tensor " + json::quote(info.name) + ": element " +
                            Twine(i) + " is " + Twine(integer) +
                            ", which a 64-bit float cannot hold exactly");
      return failure();
    }
  }
  return values;
}
