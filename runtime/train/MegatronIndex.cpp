//===- MegatronIndex.cpp - the index of a Megatron-LM dataset -------------===//

#include "kerf/Train/MegatronIndex.h"

#include "kerf/Train/Text.h"

#include <cstring>

using namespace kerf::runtime;

static constexpr char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
/// fairseq's, which Megatron-LM's `lazy` and `cached` datasets have.
static constexpr char olderMagic[8] = {'T', 'N', 'T', 'I', 'D', 'X', 0, 0};
static constexpr uint64_t headerBytes = 34;

template <typename T>
static T readNumber(const MappedFile &file, uint64_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

std::string kerf::runtime::megatronPrefix(std::string_view path) {
  if (endsWith(path, ".bin") || endsWith(path, ".idx"))
    path.remove_suffix(4);
  return std::string(path);
}

bool kerf::runtime::namesMegatron(const std::string &path) {
  bool hasIndex = fileExists(megatronPrefix(path) + ".idx");
  return endsWith(path, ".idx") ||
         (hasIndex && (endsWith(path, ".bin") || !fileExists(path)));
}

namespace {
/// The bytes of an index and what is being said about them.
class IndexReader {
public:
  IndexReader(const MappedFile &file, std::string data, uint64_t dataBytes,
              MegatronIndex &index, std::string &error)
      : file(file), data(std::move(data)), dataBytes(dataBytes), index(index),
        error(error) {}

  bool readHeader();
  bool checkSequences();
  bool checkDocuments();

private:
  template <typename T> T read(uint64_t offset) const {
    return readNumber<T>(file, offset);
  }
  bool fail(const std::string &message) {
    error = quote(file.path()) + message;
    return false;
  }
  bool checkMagic();
  bool readType(unsigned code);
  bool checkSize();

  const MappedFile &file;
  const std::string data;
  const uint64_t dataBytes;
  MegatronIndex &index;
  std::string &error;
  uint64_t sequences = 0, entries = 0;
};
} // namespace

bool IndexReader::checkMagic() {
  uint64_t size = file.size();
  if (size >= sizeof olderMagic &&
      std::memcmp(file.data(), olderMagic, sizeof olderMagic) == 0)
    return fail(" is the index of a dataset of the 'lazy' or 'cached' kind: "
                "write it again with --dataset-impl=mmap");
  if (size < sizeof magic || std::memcmp(file.data(), magic, sizeof magic) != 0)
    return fail(" is no index of a Megatron-LM dataset: expected it to begin "
                "with 'MMIDIDX'; --data-format=u16 and others read " +
                quote(data) + " without it");
  return size >= headerBytes ||
         fail(" is truncated: the header of a Megatron-LM index has " +
              std::to_string(headerBytes) + " bytes, found " +
              std::to_string(size));
}

bool IndexReader::readType(unsigned code) {
  switch (code) {
  case 1:
  case 2:
    index.tokenBytes = 1;
    break;
  case 3:
  case 8:
    index.tokenBytes = 2;
    break;
  case 4:
    index.tokenBytes = 4;
    break;
  case 5:
    index.tokenBytes = 8;
    break;
  case 6:
  case 7:
    return fail(" declares tokens that are floating-point numbers (type " +
                std::to_string(code) + "), expected integers");
  default:
    return fail(" is damaged: it declares tokens of type " +
                std::to_string(code) + ", expected 1 to 8");
  }
  index.isSigned = code >= 2 && code <= 5;
  return true;
}

bool IndexReader::checkSize() {
  uint64_t rest = file.size() - headerBytes;
  // Sizes of the tables cannot overflow once the counts are below these.
  bool isPossible = sequences <= rest / 12 && entries <= rest / 8;
  uint64_t tables = isPossible ? 12 * sequences + 8 * entries : 0;
  if (isPossible && tables == rest)
    return true;
  if (isPossible && sequences > 0 && tables + sequences == rest)
    return fail(" is the index of a multimodal dataset: its sequences have "
                "modes, expected tokens only");
  return fail(" is truncated or damaged: its header declares " +
              std::to_string(sequences) + " sequences and " +
              std::to_string(entries) + " document entries, and " +
              withCommas(static_cast<int64_t>(rest)) + " bytes follow" +
              (isPossible
                   ? ", expected " + withCommas(static_cast<int64_t>(tables))
                   : ""));
}

bool IndexReader::readHeader() {
  if (!checkMagic())
    return false;
  auto version = read<uint64_t>(9);
  if (version != 1)
    return fail(" has version " + std::to_string(version) +
                " of Megatron-LM's index format, expected 1");
  sequences = read<uint64_t>(18);
  entries = read<uint64_t>(26);
  return readType(read<uint8_t>(17)) && checkSize();
}

/// Do the sequences cover the data from its begin to its end, in their order?
bool IndexReader::checkSequences() {
  uint64_t lengths = headerBytes, pointers = lengths + 4 * sequences;
  uint64_t next = 0;
  for (uint64_t i = 0; i < sequences; ++i) {
    auto length = read<int32_t>(lengths + 4 * i);
    auto pointer = read<int64_t>(pointers + 8 * i);
    if (length < 0)
      return fail(" is damaged: sequence " + std::to_string(i) + " has " +
                  std::to_string(length) + " tokens");
    if (pointer < 0 || static_cast<uint64_t>(pointer) != next)
      return fail(" is damaged: sequence " + std::to_string(i) +
                  " begins at byte " + std::to_string(pointer) + " of " +
                  quote(data) + ", expected " + std::to_string(next));
    // At most 2^31 * 8 bytes more each time, and refused beyond the data.
    next += static_cast<uint64_t>(length) * index.tokenBytes;
    if (next > dataBytes)
      break;
  }
  index.tokens = static_cast<int64_t>(next / index.tokenBytes);
  if (next == dataBytes)
    return true;
  error = quote(data) + " is truncated or damaged: its index " +
          quote(file.path()) + " needs " +
          (next > dataBytes ? "at least " : "") +
          withCommas(static_cast<int64_t>(next)) + " bytes, found " +
          withCommas(static_cast<int64_t>(dataBytes));
  return false;
}

bool IndexReader::checkDocuments() {
  uint64_t table = headerBytes + 12 * sequences;
  int64_t last = 0;
  for (uint64_t i = 0; i < entries; ++i) {
    auto first = read<int64_t>(table + 8 * i);
    if (first < last || (i == 0 && first != 0) ||
        static_cast<uint64_t>(first) > sequences)
      return fail(
          " is damaged: document " + std::to_string(i) +
          " begins with sequence " + std::to_string(first) + ", expected " +
          (i == 0 ? "0"
                  : std::to_string(last) + " to " + std::to_string(sequences)));
    last = first;
  }
  if (entries == 0)
    return fail(" is damaged: it has no document entries, expected at least 1");
  if (static_cast<uint64_t>(last) != sequences)
    return fail(" is damaged: its documents end at sequence " +
                std::to_string(last) + ", expected " +
                std::to_string(sequences));
  index.sequences = static_cast<int64_t>(sequences);
  index.documents = static_cast<int64_t>(entries - 1);
  return true;
}

bool kerf::runtime::readMegatronIndex(const std::string &path,
                                      const std::string &data,
                                      uint64_t dataBytes, MegatronIndex &index,
                                      std::string &error) {
  if (!index.file.open(path, error))
    return false;
  IndexReader reader(index.file, data, dataBytes, index, error);
  return reader.readHeader() && reader.checkSequences() &&
         reader.checkDocuments();
}

//===----------------------------------------------------------------------===//
// Borders
//===----------------------------------------------------------------------===//

int64_t MegatronIndex::firstToken(int64_t number) const {
  auto count = static_cast<uint64_t>(sequences);
  auto sequence = readNumber<int64_t>(
      file, headerBytes + 12 * count + 8 * static_cast<uint64_t>(number));
  if (sequence == sequences)
    return tokens;
  return readNumber<int64_t>(file, headerBytes + 4 * count +
                                       8 * static_cast<uint64_t>(sequence)) /
         tokenBytes;
}

int64_t MegatronIndex::nextDocument(int64_t token) const {
  int64_t low = 0, high = documents; // documents below `low` begin before
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (firstToken(middle) > token)
      high = middle;
    else
      low = middle + 1;
  }
  return firstToken(low);
}
