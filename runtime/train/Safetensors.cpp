//===- Safetensors.cpp - checkpoint files ---------------------------------===//

#include "kerf/Train/Safetensors.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Json.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cstring>
#include <tuple>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

namespace {
struct DtypeRow {
  const char *name;
  int64_t bytes;
  uint32_t kerf;
};
} // namespace

static constexpr DtypeRow dtypes[] = {
    {"F32", 4, KERF_F32},     {"BF16", 2, KERF_BF16},
    {"F16", 2, KERF_F16},     {"F64", 8, KERF_F64},
    {"I32", 4, KERF_I32},     {"BOOL", 1, KERF_I1},
    {"I8", 1, KERF_I8},       {"I16", 2, KERF_NONE},
    {"I64", 8, KERF_NONE},    {"U8", 1, KERF_NONE},
    {"U16", 2, KERF_NONE},    {"U32", 4, KERF_NONE},
    {"U64", 8, KERF_NONE},    {"F8_E4M3", 1, KERF_NONE},
    {"F8_E5M2", 1, KERF_NONE}};

static const DtypeRow *findDtype(std::string_view name) {
  for (const DtypeRow &row : dtypes)
    if (name == row.name)
      return &row;
  return nullptr;
}

uint32_t kerf::runtime::kerfDtype(std::string_view name) {
  const DtypeRow *row = findDtype(name);
  return row ? row->kerf : KERF_NONE;
}

const char *kerf::runtime::safetensorsDtype(uint32_t dtype) {
  for (const DtypeRow &row : dtypes)
    if (row.kerf == dtype && dtype != KERF_NONE)
      return row.name;
  return nullptr;
}

int64_t TensorEntry::elements() const {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}

/// Bytes of a tensor; false if they do not fit 63 bits.
static bool computeBytes(const std::vector<int64_t> &shape,
                         int64_t elementBytes, int64_t &bytes) {
  bytes = elementBytes;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    bytes = 0;
    return true;
  }
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static bool readSizes(const JsonValue *value, std::vector<int64_t> &sizes) {
  if (!value || value->kind != JsonValue::Array)
    return false;
  for (const JsonValue &element : value->array) {
    if (!element.isInteger || element.integer < 0)
      return false;
    sizes.push_back(element.integer);
  }
  return true;
}

/// Reads one entry of the header; errors begin after the tensor's name.
static bool readEntry(const JsonValue &value, TensorEntry &entry,
                      std::string &error) {
  const JsonValue *dtype = value.find("dtype");
  if (!dtype || dtype->kind != JsonValue::String) {
    error = "has no string 'dtype'";
    return false;
  }
  const DtypeRow *row = findDtype(dtype->string);
  if (!row) {
    error = "has the unknown dtype " + quote(dtype->string);
    return false;
  }
  entry.dtype = row->name;
  std::vector<int64_t> offsets;
  if (!readSizes(value.find("shape"), entry.shape)) {
    error = "has no 'shape' of non-negative integers";
    return false;
  }
  if (!readSizes(value.find("data_offsets"), offsets) || offsets.size() != 2 ||
      offsets[0] > offsets[1]) {
    error = "has no 'data_offsets' with begin and end";
    return false;
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  int64_t bytes = 0;
  if (!computeBytes(entry.shape, row->bytes, bytes)) {
    error = "of shape " + formatShape(entry.shape) + " overflows 64 bits";
    return false;
  }
  if (static_cast<uint64_t>(bytes) != entry.end - entry.begin) {
    error = "needs " + std::to_string(bytes) +
            " bytes by shape and dtype, 'data_offsets' gives " +
            std::to_string(entry.end - entry.begin);
    return false;
  }
  return true;
}

/// The sorted entries must cover [0, dataBytes) without hole or overlap.
static bool checkCoverage(const std::vector<TensorEntry> &entries,
                          uint64_t dataBytes, std::string &error) {
  uint64_t end = 0;
  for (const TensorEntry &entry : entries) {
    if (entry.end > dataBytes) {
      error = "truncated: tensor " + quote(entry.name) + " ends at byte " +
              std::to_string(entry.end) + ", the data has " +
              std::to_string(dataBytes);
      return false;
    }
    if (entry.begin != end) {
      error =
          "tensor " + quote(entry.name) + " begins at byte " +
          std::to_string(entry.begin) + ", expected " + std::to_string(end) +
          (entry.begin < end ? " (tensors overlap)" : " (hole in the data)");
      return false;
    }
    end = entry.end;
  }
  if (end == dataBytes)
    return true;
  error = std::to_string(dataBytes - end) +
          " bytes after the last tensor, expected none";
  return false;
}

bool SafetensorsFile::open(const std::string &path, std::string &error) {
  *this = SafetensorsFile();
  if (!file.open(path, error))
    return false;
  std::string reason;
  if (parse(reason))
    return true;
  error = quote(path) + " is no safetensors file: " + reason;
  return false;
}

bool SafetensorsFile::parse(std::string &error) {
  uint64_t length = 0;
  if (file.size() < 8) {
    error = "truncated: expected 8 bytes of header length, found " +
            std::to_string(file.size()) + " bytes";
    return false;
  }
  std::memcpy(&length, file.data(), 8);
  if (length > file.size() - 8) {
    error = "truncated: a header of " + std::to_string(length) +
            " bytes goes beyond the file";
    return false;
  }
  dataStart = 8 + length;
  JsonValue root;
  std::string_view text(reinterpret_cast<const char *>(file.data()) + 8,
                        length);
  if (!parseJson(text, root, error)) {
    error = "header " + error;
    return false;
  }
  if (root.kind != JsonValue::Object) {
    error = "expected the header to be an object";
    return false;
  }
  for (auto &[name, value] : root.object) {
    if (name == "__metadata__") {
      for (auto &[key, text] : value.object)
        meta[key] = text.string;
      continue;
    }
    TensorEntry entry;
    entry.name = name;
    std::string reason;
    if (!readEntry(value, entry, reason)) {
      error = "tensor " + quote(name) + " " + reason;
      return false;
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const TensorEntry &a, const TensorEntry &b) {
              return std::tie(a.begin, a.end, a.name) <
                     std::tie(b.begin, b.end, b.name);
            });
  for (size_t i = 0; i < entries.size(); ++i)
    byName[entries[i].name] = i;
  return checkCoverage(entries, dataBytes(), error);
}

const TensorEntry *SafetensorsFile::find(std::string_view name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &entries[it->second];
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

void SafetensorsWriter::declare(std::string name, uint32_t dtype,
                                std::vector<int64_t> shape) {
  const char *dtypeName = safetensorsDtype(dtype);
  declare(std::move(name), dtypeName ? dtypeName : "?", kerf_dtype_bytes(dtype),
          std::move(shape));
}

void SafetensorsWriter::declare(std::string name, const std::string &dtype,
                                int64_t elementBytes,
                                std::vector<int64_t> shape) {
  TensorEntry entry;
  entry.name = std::move(name);
  entry.shape = std::move(shape);
  entry.dtype = dtype;
  entry.begin = dataBytes();
  entry.end = entry.begin + entry.elements() * elementBytes;
  entries.push_back(std::move(entry));
}

uint64_t SafetensorsWriter::dataBytes() const {
  return entries.empty() ? 0 : entries.back().end;
}

bool SafetensorsWriter::open(const std::string &path, std::string &error) {
  header = "{\"__metadata__\":{";
  bool first = true;
  for (const auto &[key, value] : meta) {
    header += (first ? "" : ",") + jsonQuote(key) + ":" + jsonQuote(value);
    first = false;
  }
  header += "}";
  for (const TensorEntry &entry : entries) {
    header += "," + jsonQuote(entry.name) + ":{\"dtype\":\"" + entry.dtype +
              "\",\"shape\":[";
    for (size_t i = 0; i < entry.shape.size(); ++i)
      header += (i ? "," : "") + std::to_string(entry.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(entry.begin) + "," +
              std::to_string(entry.end) + "]}";
  }
  header += "}";
  uint64_t unit = dataBytes() < (1 << 20) ? 8 : 4096;
  header.resize((8 + header.size() + unit - 1) / unit * unit - 8, ' ');
  uint64_t length = header.size();
  return file.open(path, error) && file.write(&length, 8, error) &&
         file.write(header.data(), header.size(), error);
}

bool SafetensorsWriter::append(const void *data, uint64_t size,
                               std::string &error) {
  return file.write(data, size, error);
}
