//===- StateIndex.cpp - the index and manifest of a checkpoint ------------===//

#include "kerf/Train/StateIndex.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Checksum.h"
#include "kerf/Train/Json.h"
#include "kerf/Train/Safetensors.h"

#include <algorithm>

using namespace kerf::runtime;

static constexpr const char *checksumKey = "checksum";

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

Tiling::Tiling(const std::vector<int64_t> &shape, uint64_t elementBytes)
    : rowBytes(elementBytes) {
  for (int64_t size : shape)
    rows *= static_cast<uint64_t>(size);
  if (!shape.empty()) {
    rows /= static_cast<uint64_t>(shape.back());
    rowBytes *= static_cast<uint64_t>(shape.back());
  }
  // Few rows have wider tiles.
  uint64_t wide = std::max(tileWidth, tileBytes / std::min(rows, tileBytes));
  width = std::min(rowBytes, wide);
  height = std::max<uint64_t>(1, tileBytes / width);
}

uint64_t Tiling::sum(const char *data, uint64_t count, uint64_t stride,
                     uint64_t column) const {
  uint64_t bytes = std::min(width, rowBytes - column * width);
  // Whole rows lie together; who sums parts of them does it row by row, also
  // where these lie together.
  if (bytes == rowBytes)
    return checksumOf(data, count * bytes);
  Checksum sum;
  for (uint64_t row = 0; row < count; ++row)
    sum.add(data + row * stride, bytes);
  return sum.value();
}

Tiling IndexedPiece::tiling(uint64_t elementBytes) const {
  std::vector<int64_t> shape;
  for (size_t d = 0; d < begin.size(); ++d)
    shape.push_back(end[d] - begin[d]);
  return {shape, elementBytes};
}

//===----------------------------------------------------------------------===//
// Index: writing
//===----------------------------------------------------------------------===//

static std::string renderSizes(const std::vector<int64_t> &sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i)
    text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

static std::string hex(uint64_t value) {
  return format("%016llx", static_cast<unsigned long long>(value));
}

static std::string renderPiece(const IndexedPiece &piece) {
  return "{\"begin\": " + renderSizes(piece.begin) +
         ", \"end\": " + renderSizes(piece.end) +
         ", \"file\": " + std::to_string(piece.file) +
         ", \"offset\": " + std::to_string(piece.offset) +
         ", \"bytes\": " + std::to_string(piece.bytes) +
         ", \"sums\": " + std::to_string(piece.sums) + ", \"checksum\": \"" +
         hex(piece.checksum) + "\"}";
}

std::string kerf::runtime::renderIndex(const StateIndex &index) {
  std::string text = "{\"tile_bytes\": " + std::to_string(Tiling::tileBytes) +
                     ", \"tile_width\": " + std::to_string(Tiling::tileWidth) +
                     ",\n\"files\": [";
  const char *comma = "";
  for (const IndexedFile &file : index.files) {
    text += std::string(comma) + "\n  {\"name\": " + jsonQuote(file.name) +
            ", \"bytes\": " + std::to_string(file.bytes) +
            ", \"data\": " + std::to_string(file.data) +
            ", \"sums\": " + std::to_string(file.sums) + "}";
    comma = ",";
  }
  text += "],\n\"tensors\": {";
  comma = "";
  for (const auto &[name, tensor] : index.tensors) {
    text += std::string(comma) + "\n  " + jsonQuote(name) +
            ": {\"dtype\": " + jsonQuote(tensor.dtype) +
            ", \"shape\": " + renderSizes(tensor.shape) + ", \"pieces\": [";
    comma = "";
    for (const IndexedPiece &piece : tensor.pieces) {
      text += std::string(comma) + "\n    " + renderPiece(piece);
      comma = ",";
    }
    text += "]}";
    comma = ",";
  }
  return text + "}}\n";
}

//===----------------------------------------------------------------------===//
// Index: reading
//===----------------------------------------------------------------------===//

namespace {
/// Reads members of objects; keeps the first thing that is wrong.
class Reader {
public:
  explicit Reader(std::string &error) : error(error) {}

  bool fail(const std::string &what) {
    if (error.empty())
      error = what;
    return false;
  }
  bool isFine() const { return error.empty(); }

  uint64_t number(const JsonValue &value, const char *key) {
    const JsonValue *member = value.find(key);
    if (member && member->isInteger && member->integer >= 0)
      return static_cast<uint64_t>(member->integer);
    fail(std::string("expected a number '") + key + "'");
    return 0;
  }
  std::string string(const JsonValue &value, const char *key) {
    const JsonValue *member = value.find(key);
    if (member && member->kind == JsonValue::String)
      return member->string;
    fail(std::string("expected a string '") + key + "'");
    return "";
  }
  const JsonValue &list(const JsonValue &value, const char *key) {
    static const JsonValue none;
    const JsonValue *member = value.find(key);
    if (member && member->kind == JsonValue::Array)
      return *member;
    fail(std::string("expected a list '") + key + "'");
    return none;
  }
  std::vector<int64_t> sizes(const JsonValue &value, const char *key) {
    std::vector<int64_t> result;
    for (const JsonValue &size : list(value, key).array)
      if (size.isInteger && size.integer >= 0)
        result.push_back(size.integer);
      else
        fail(std::string("expected sizes in '") + key + "'");
    if (result.size() > KERF_MAX_RANK)
      fail(std::string("too many dimensions in '") + key + "'");
    return result;
  }
  uint64_t checksum(const JsonValue &value) {
    std::string text = string(value, checksumKey);
    uint64_t sum = 0;
    if (text.size() != 16 ||
        text.find_first_not_of("0123456789abcdef") != std::string::npos)
      fail("expected a checksum of 16 hexadecimal digits");
    else
      sum = std::stoull(text, nullptr, 16);
    return sum;
  }

  std::string &error;
};
} // namespace

/// Whether `count` things of `size` bytes from `first` on end at `most` at
/// last.
static bool fits(uint64_t first, uint64_t count, uint64_t size, uint64_t most) {
  uint64_t bytes = 0, end = 0;
  return !__builtin_mul_overflow(count, size, &bytes) &&
         !__builtin_add_overflow(first, bytes, &end) && end <= most;
}

static IndexedFile readFile(const JsonValue &value, Reader &reader) {
  IndexedFile file;
  file.name = reader.string(value, "name");
  file.bytes = reader.number(value, "bytes");
  file.data = reader.number(value, "data");
  file.sums = reader.number(value, "sums");
  if (file.name.empty() || file.name.find('/') != std::string::npos ||
      file.name[0] == '.')
    reader.fail(quote(file.name) + " is no name of a file in this folder");
  if (!fits(file.data, file.sums, 1, file.bytes))
    reader.fail(quote(file.name) + " has data outside of its bytes");
  return file;
}

/// Bytes of a box; 0 where it does not lie in its tensor.
static uint64_t bytesOfBox(const IndexedTensor &tensor,
                           const IndexedPiece &piece) {
  uint64_t bytes = kerf_dtype_bytes(kerfDtype(tensor.dtype));
  if (piece.begin.size() != tensor.shape.size() ||
      piece.end.size() != tensor.shape.size())
    return 0;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (piece.begin[d] >= piece.end[d] || piece.end[d] > tensor.shape[d] ||
        __builtin_mul_overflow(
            bytes, static_cast<uint64_t>(piece.end[d] - piece.begin[d]),
            &bytes))
      return 0;
  }
  return bytes;
}

static IndexedPiece readPiece(const JsonValue &value, const StateIndex &index,
                              const IndexedTensor &tensor, Reader &reader) {
  IndexedPiece piece;
  piece.begin = reader.sizes(value, "begin");
  piece.end = reader.sizes(value, "end");
  uint64_t file = reader.number(value, "file");
  piece.offset = reader.number(value, "offset");
  piece.bytes = reader.number(value, "bytes");
  piece.sums = reader.number(value, "sums");
  piece.checksum = reader.checksum(value);
  if (!reader.isFine())
    return piece;
  if (file >= index.files.size()) {
    reader.fail("no file " + std::to_string(file));
    return piece;
  }
  piece.file = static_cast<uint32_t>(file);
  const IndexedFile &own = index.files[piece.file];
  if (piece.bytes == 0 || piece.bytes != bytesOfBox(tensor, piece))
    reader.fail("a piece is no box of its tensor");
  if (!reader.isFine())
    return piece;
  uint64_t firstSum = 0, sumsEnd = own.bytes - own.data;
  uint64_t tiles =
      piece.tiling(kerf_dtype_bytes(kerfDtype(tensor.dtype))).tiles();
  if (!fits(piece.offset, piece.bytes, 1, own.sums) ||
      __builtin_mul_overflow(piece.sums, UINT64_C(8), &firstSum) ||
      __builtin_add_overflow(firstSum, own.sums, &firstSum) ||
      !fits(firstSum, tiles, 8, sumsEnd))
    reader.fail("a piece lies outside of " + quote(own.name));
  return piece;
}

static void readTensor(const std::string &name, const JsonValue &value,
                       StateIndex &index, Reader &reader) {
  IndexedTensor tensor;
  tensor.dtype = reader.string(value, "dtype");
  tensor.shape = reader.sizes(value, "shape");
  if (reader.isFine() && kerfDtype(tensor.dtype) == KERF_NONE)
    reader.fail("unknown dtype " + quote(tensor.dtype));
  for (const JsonValue &piece : reader.list(value, "pieces").array) {
    if (!reader.isFine())
      break;
    tensor.pieces.push_back(readPiece(piece, index, tensor, reader));
  }
  if (!reader.isFine())
    reader.error = "tensor " + quote(name) + ": " + reader.error;
  index.tensors.emplace(name, std::move(tensor));
}

bool kerf::runtime::parseIndex(std::string_view text, StateIndex &index,
                               std::string &error) {
  JsonValue root;
  if (!parseJson(text, root, error))
    return false;
  index = {};
  error.clear();
  Reader reader(error);
  if (reader.number(root, "tile_bytes") != Tiling::tileBytes ||
      reader.number(root, "tile_width") != Tiling::tileWidth)
    return reader.fail("tiles of another size than " +
                       std::to_string(Tiling::tileBytes) + " and " +
                       std::to_string(Tiling::tileWidth));
  for (const JsonValue &file : reader.list(root, "files").array)
    index.files.push_back(readFile(file, reader));
  const JsonValue *tensors = root.find("tensors");
  if (!tensors || tensors->kind != JsonValue::Object)
    return reader.fail("expected an object 'tensors'");
  for (const auto &[name, value] : tensors->object) {
    if (!reader.isFine())
      break;
    readTensor(name, value, index, reader);
  }
  return reader.isFine();
}

//===----------------------------------------------------------------------===//
// Manifest
//===----------------------------------------------------------------------===//

static std::string checksumOfEntries(const Metadata &entries) {
  Checksum sum;
  for (const auto &[key, value] : entries)
    if (key != checksumKey) {
      sum.add(key);
      sum.add(value);
    }
  return sum.text();
}

std::string kerf::runtime::renderManifest(const Metadata &entries) {
  Metadata all = entries;
  all[checksumKey] = checksumOfEntries(entries);
  std::string text;
  for (const auto &[key, value] : all)
    text += (text.empty() ? "{\n  " : ",\n  ") + jsonQuote(key) + ": " +
            jsonQuote(value);
  return text + "\n}\n";
}

bool kerf::runtime::parseManifest(std::string_view text, Metadata &entries,
                                  std::string &error) {
  JsonValue root;
  if (!parseJson(text, root, error))
    return false;
  entries.clear();
  for (const auto &[key, value] : root.object)
    if (value.kind == JsonValue::String)
      entries[key] = value.string;
  bool isWhole = root.kind == JsonValue::Object &&
                 entries.size() == root.object.size() &&
                 entries[checksumKey] == checksumOfEntries(entries);
  if (!isWhole)
    error = "its checksum does not agree";
  return isWhole;
}
