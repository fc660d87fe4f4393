//===- SafetensorsWriter.cpp - Write safetensors files --------------------===//

#include "kerf/Support/Json.h"
#include "kerf/Support/Output.h"
#include "kerf/Support/Safetensors.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace kerf;
using namespace kerf::safetensors;
namespace endian = llvm::support::endian;
using llvm::failure;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;
using llvm::Twine;

static LogicalResult fail(std::string &error, const Twine &message) {
  error = message.str();
  return failure();
}

/// The bits of `value` rounded to the format `semantics`.
static uint64_t roundToFloat(double value,
                             const llvm::fltSemantics &semantics) {
  llvm::APFloat result(value);
  bool losesInfo = false;
  result.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return result.bitcastToAPInt().getZExtValue();
}

/// `value` must have passed `canHold`.
static void encodeElement(char *bytes, double value, DType dtype) {
  switch (dtype) {
  case DType::F64:
    return endian::write64le(bytes, llvm::bit_cast<uint64_t>(value));
  case DType::F32:
    return endian::write32le(
        bytes, llvm::bit_cast<uint32_t>(static_cast<float>(value)));
  case DType::F16:
    return endian::write16le(bytes,
                             roundToFloat(value, llvm::APFloat::IEEEhalf()));
  case DType::BF16:
    return endian::write16le(bytes,
                             roundToFloat(value, llvm::APFloat::BFloat()));
  case DType::I64:
    return endian::write64le(bytes, static_cast<int64_t>(value));
  case DType::I32:
    return endian::write32le(bytes, static_cast<int32_t>(value));
  case DType::I16:
    return endian::write16le(bytes, static_cast<int16_t>(value));
  case DType::I8:
    *bytes = static_cast<char>(static_cast<int8_t>(value));
    return;
  case DType::U8:
  case DType::BOOL:
    *bytes = static_cast<char>(static_cast<uint8_t>(value));
    return;
  }
}

static bool isIntegerIn(double value, double lowest, double bound) {
  return std::trunc(value) == value && value >= lowest && value < bound;
}

/// True when encoding `value` loses no more than float rounding does.
static bool canHold(DType dtype, double value) {
  switch (dtype) {
  case DType::I64:
    return isIntegerIn(value, -0x1p63, 0x1p63);
  case DType::I32:
    return isIntegerIn(value, -0x1p31, 0x1p31);
  case DType::I16:
    return isIntegerIn(value, -0x1p15, 0x1p15);
  case DType::I8:
    return isIntegerIn(value, -128, 128);
  case DType::U8:
    return isIntegerIn(value, 0, 256);
  case DType::BOOL:
    return value == 0.0 || value == 1.0;
  case DType::F32:
    return !std::isfinite(value) || std::isfinite(static_cast<float>(value));
  case DType::F16:
    return !std::isfinite(value) ||
           (roundToFloat(value, llvm::APFloat::IEEEhalf()) & 0x7fff) != 0x7c00;
  case DType::BF16:
    return !std::isfinite(value) ||
           (roundToFloat(value, llvm::APFloat::BFloat()) & 0x7fff) != 0x7f80;
  case DType::F64:
    return true;
  }
  return false;
}

static LogicalResult checkTensor(const NamedTensor &tensor,
                                 std::string &error) {
  std::string prefix = "tensor " + json::quote(tensor.name) + ": ";
  if (tensor.name == metadataKey)
    return fail(error, prefix + "name is reserved");
  if (!llvm::json::isUTF8(tensor.name))
    return fail(error, "name of a tensor is not valid UTF-8");
  std::optional<int64_t> sizeBytes =
      computeSizeBytes(tensor.shape, tensor.dtype);
  if (!sizeBytes)
    return fail(error, prefix + "shape is negative or overflows 64 bits");
  size_t numElements = *sizeBytes / getDTypeSizeBytes(tensor.dtype);
  if (tensor.values.size() != numElements)
    return fail(error, prefix + "expected " + Twine(numElements) +
                           " values for its shape, found " +
                           Twine(tensor.values.size()));
  for (const auto &[i, value] : llvm::enumerate(tensor.values))
    if (!canHold(tensor.dtype, value))
      return fail(error, prefix + "element " + Twine(i) + " is " +
                             (std::isfinite(value)
                                  ? json::print(json::Value::fromNumber(value))
                                  : "not finite") +
                             ", which " + getDTypeName(tensor.dtype) +
                             " cannot hold");
  return success();
}

static LogicalResult checkArguments(llvm::ArrayRef<NamedTensor> tensors,
                                    const Metadata &metadata,
                                    std::string &error) {
  llvm::StringSet<> names;
  for (const NamedTensor &tensor : tensors) {
    if (failed(checkTensor(tensor, error)))
      return failure();
    if (!names.insert(tensor.name).second)
      return fail(error, "two tensors are named " + json::quote(tensor.name));
  }
  for (const auto &[key, value] : metadata)
    if (!llvm::json::isUTF8(key) || !llvm::json::isUTF8(value))
      return fail(error, "metadata is not valid UTF-8");
  return success();
}

/// Widest elements first keeps each tensor aligned to its element size.
static llvm::SmallVector<const NamedTensor *>
orderForFile(llvm::ArrayRef<NamedTensor> tensors) {
  llvm::SmallVector<const NamedTensor *> order;
  for (const NamedTensor &tensor : tensors)
    order.push_back(&tensor);
  llvm::sort(order, [](const NamedTensor *a, const NamedTensor *b) {
    int64_t sizeA = getDTypeSizeBytes(a->dtype);
    int64_t sizeB = getDTypeSizeBytes(b->dtype);
    return sizeA != sizeB ? sizeA > sizeB : a->name < b->name;
  });
  return order;
}

static std::string printHeader(llvm::ArrayRef<const NamedTensor *> order,
                               const Metadata &metadata) {
  json::Value root = json::Value::makeObject();
  // Members are added without `set`, whose search makes this quadratic.
  auto add = [](json::Value &object, StringRef key, json::Value value) {
    object.object.push_back({key.str(), std::move(value), json::Position()});
  };
  if (!metadata.empty()) {
    json::Value object = json::Value::makeObject();
    for (const auto &[key, value] : metadata)
      add(object, key, json::Value::fromString(value));
    add(root, metadataKey, std::move(object));
  }
  int64_t begin = 0;
  for (const NamedTensor *tensor : order) {
    int64_t end = begin + *computeSizeBytes(tensor->shape, tensor->dtype);
    json::Value shape = json::Value::makeArray();
    for (int64_t size : tensor->shape)
      shape.array.push_back(json::Value::fromInteger(size));
    json::Value offsets = json::Value::makeArray();
    offsets.array = {json::Value::fromInteger(begin),
                     json::Value::fromInteger(end)};
    json::Value entry = json::Value::makeObject();
    add(entry, "dtype", json::Value::fromString(getDTypeName(tensor->dtype)));
    add(entry, "shape", std::move(shape));
    add(entry, "data_offsets", std::move(offsets));
    add(root, tensor->name, std::move(entry));
    begin = end;
  }
  std::string text = json::print(root, {/*indent=*/0, /*sortKeys=*/false});
  text.resize(llvm::alignTo(text.size(), 8), ' ');
  return text;
}

static void writeValues(llvm::raw_ostream &os, const NamedTensor &tensor) {
  constexpr size_t chunkElements = 8192;
  int64_t sizeBytes = getDTypeSizeBytes(tensor.dtype);
  std::vector<char> bytes(chunkElements * sizeBytes);
  llvm::ArrayRef<double> rest = tensor.values;
  while (!rest.empty()) {
    llvm::ArrayRef<double> chunk = rest.take_front(chunkElements);
    for (const auto &[i, value] : llvm::enumerate(chunk))
      encodeElement(bytes.data() + i * sizeBytes, value, tensor.dtype);
    os.write(bytes.data(), chunk.size() * sizeBytes);
    rest = rest.drop_front(chunk.size());
  }
}

LogicalResult safetensors::write(StringRef path,
                                 llvm::ArrayRef<NamedTensor> tensors,
                                 const Metadata &metadata, std::string &error) {
  if (failed(checkArguments(tensors, metadata, error)))
    return failure();
  llvm::SmallVector<const NamedTensor *> order = orderForFile(tensors);
  std::string header = printHeader(order, metadata);
  if (header.size() > maxHeaderBytes)
    return fail(error, "header of " + Twine(header.size()) +
                           " bytes is larger than the limit of " +
                           Twine(maxHeaderBytes));
  return writeFileAtomically(
      path,
      [&](llvm::raw_ostream &os) {
        char length[8];
        endian::write64le(length, header.size());
        os.write(length, sizeof(length));
        os << header;
        for (const NamedTensor *tensor : order)
          writeValues(os, *tensor);
      },
      error);
}
