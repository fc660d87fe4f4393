//===- TokenFile.cpp - training data as tokens ----------------------------===//

#include "kerf/Train/TokenFile.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kerf::runtime;

static constexpr int32_t magic16 = 20240520, magic32 = 20240801;
static constexpr uint64_t headerBytes = 256 * sizeof(int32_t);

bool kerf::runtime::parseDataFormat(std::string_view name, DataFormat &format) {
  for (DataFormat candidate :
       {DataFormat::Auto, DataFormat::Bytes, DataFormat::U16, DataFormat::U32,
        DataFormat::LlmC, DataFormat::Megatron})
    if (name == dataFormatName(candidate)) {
      format = candidate;
      return true;
    }
  return false;
}

std::string_view kerf::runtime::dataFormatName(DataFormat format) {
  static constexpr std::string_view names[] = {"auto", "bytes", "u16",
                                               "u32",  "llmc",  "megatron"};
  return names[static_cast<size_t>(format)];
}

static int32_t readInt32(const uint8_t *data, size_t index) {
  int32_t value;
  std::memcpy(&value, data + index * sizeof value, sizeof value);
  return value;
}

bool TokenFile::chooseFormat(DataFormat wanted, std::string &error) {
  bool hasMagic =
      file.size() >= headerBytes && (readInt32(file.data(), 0) == magic16 ||
                                     readInt32(file.data(), 0) == magic32);
  if (wanted != DataFormat::Auto) {
    kind = wanted;
    why = "as told by --data-format";
  } else if (hasMagic) {
    kind = DataFormat::LlmC;
    why = "by its magic number";
  } else if (endsWith(file.path(), ".bin")) {
    bool isWide = vocabulary > 65536;
    kind = isWide ? DataFormat::U32 : DataFormat::U16;
    why = isWide ? "by the name '.bin' and a vocabulary above 65,536"
                 : "by the name '.bin', without llm.c's header";
  } else {
    kind = DataFormat::Bytes;
    why = "as raw text";
  }
  tokens = file.data();
  uint64_t bytes = file.size();
  tokenBytes = kind == DataFormat::U16 ? 2 : kind == DataFormat::U32 ? 4 : 1;
  if (kind == DataFormat::LlmC)
    return readHeader(error);
  if (bytes % tokenBytes != 0) {
    error = quote(file.path()) + " is truncated: " + withCommas(bytes) +
            " bytes are no whole number of " + std::to_string(8 * tokenBytes) +
            "-bit tokens; --data-format sets another format";
    return false;
  }
  count = bytes / tokenBytes;
  return true;
}

bool TokenFile::readHeader(std::string &error) {
  auto fail = [&](const std::string &message) {
    error = quote(file.path()) + message;
    return false;
  };
  if (file.size() < headerBytes)
    return fail(" is truncated: llm.c's header has " +
                std::to_string(headerBytes) + " bytes, found " +
                std::to_string(file.size()));
  int32_t magic = readInt32(file.data(), 0);
  if (magic != magic16 && magic != magic32)
    return fail(" has no llm.c header: expected the magic number " +
                std::to_string(magic16) + " or " + std::to_string(magic32) +
                ", found " + std::to_string(magic));
  int32_t version = readInt32(file.data(), 1);
  int32_t expected = magic == magic16 ? 1 : 7;
  if (version != expected)
    return fail(" has version " + std::to_string(version) +
                " of llm.c's format, expected " + std::to_string(expected));
  int64_t declared = readInt32(file.data(), 2);
  tokenBytes = magic == magic16 ? 2 : 4;
  tokens = file.data() + headerBytes;
  uint64_t bytes = file.size() - headerBytes;
  if (declared < 0 || static_cast<uint64_t>(declared) * tokenBytes != bytes)
    return fail(" is truncated or damaged: its header declares " +
                withCommas(declared) + " tokens of " +
                std::to_string(tokenBytes) + " bytes, and " +
                withCommas(bytes) + " bytes follow");
  count = declared;
  return true;
}

bool TokenFile::checkBytes(DataFormat wanted, std::string &error) const {
  if (kind != DataFormat::Bytes || vocabulary == 0)
    return true;
  if (vocabulary < 256) {
    error = quote(file.path()) +
            " would be read as bytes, which needs a vocabulary of at least "
            "256; the model has " +
            withCommas(vocabulary) +
            ": give a tokenized '.bin' file, or --data-format";
    return false;
  }
  if (vocabulary > 512 && wanted == DataFormat::Auto) {
    error = quote(file.path()) +
            " is raw text and the model has a vocabulary "
            "of " +
            withCommas(vocabulary) +
            ": tokenize it first with examples/tokenize.py, or train on bytes "
            "anyway with --data-format=bytes";
    return false;
  }
  return true;
}

bool TokenFile::openMegatron(const std::string &path, DataFormat wanted,
                             std::string &error) {
  std::string prefix = megatronPrefix(path);
  std::string beside = prefix + ".idx";
  if (!fileExists(beside) || !file.open(prefix + ".bin", error)) {
    // Which of the two is missing; the other one's name was never typed.
    if (!fileExists(beside))
      error = "cannot open " + quote(beside) + ": no such file";
    error += "; a Megatron-LM dataset is " + quote(prefix + ".bin") + " and " +
             quote(beside);
    return false;
  }
  if (!readMegatronIndex(beside, file.path(), file.size(), index, error))
    return false;
  kind = DataFormat::Megatron;
  why = wanted == kind ? "as told by --data-format" : "by its index";
  tokens = file.data();
  tokenBytes = index.tokenBytes;
  isSigned = index.isSigned;
  count = index.tokens;
  if (count > 0)
    return true;
  error = quote(file.path()) + " is empty";
  return false;
}

/// `x.mask` of `x.bin`.
static std::string maskNameOf(const std::string &path) {
  constexpr std::string_view end = ".bin";
  std::string stem =
      endsWith(path, end) ? path.substr(0, path.size() - end.size()) : path;
  return stem + ".mask";
}

bool TokenFile::openMask(const std::string &name, std::string &error) {
  if (!fileExists(name))
    return true;
  if (!mask.open(name, error))
    return false;
  if (mask.size() != static_cast<uint64_t>(count)) {
    error = quote(name) + " has " + withCommas(mask.size()) +
            " bytes, expected one for each of the " + withCommas(count) +
            " tokens of " + quote(path()) +
            "; remove it to train on all of them";
    return false;
  }
  // Ends at the first target: whole files of zeros alone are read. No token
  // comes before the first one.
  const uint8_t *end = mask.data() + mask.size();
  if (std::all_of(mask.data() + 1, end, [](uint8_t byte) { return !byte; })) {
    error = quote(name) + " makes no token of " + quote(path()) +
            " a target (a byte of 1); remove it to train on all of them";
    return false;
  }
  return true;
}

bool TokenFile::open(const std::string &path, DataFormat format,
                     int64_t vocabularySize, std::string &error) {
  *this = TokenFile();
  vocabulary = vocabularySize;
  return openTokens(path, format, error) &&
         openMask(maskNameOf(file.path()), error);
}

bool TokenFile::openTokens(const std::string &path, DataFormat format,
                           std::string &error) {
  if (format == DataFormat::Megatron ||
      (format == DataFormat::Auto && namesMegatron(path)))
    return openMegatron(path, format, error);
  if (!file.open(path, error))
    return false;
  if (file.size() == 0) {
    error = quote(path) + " is empty";
    return false;
  }
  return chooseFormat(format, error) && checkBytes(format, error);
}

template <typename T>
static int64_t readToken(const uint8_t *tokens, int64_t index) {
  T value;
  std::memcpy(&value, tokens + index * sizeof value, sizeof value);
  return static_cast<int64_t>(value);
}

int64_t TokenFile::at(int64_t index) const {
  switch (tokenBytes) {
  case 1:
    return isSigned ? readToken<int8_t>(tokens, index)
                    : readToken<uint8_t>(tokens, index);
  case 2:
    return isSigned ? readToken<int16_t>(tokens, index)
                    : readToken<uint16_t>(tokens, index);
  case 4:
    return isSigned ? readToken<int32_t>(tokens, index)
                    : readToken<uint32_t>(tokens, index);
  default:
    return readToken<int64_t>(tokens, index);
  }
}

std::string TokenFile::idError(int64_t position, int64_t id) const {
  return quote(file.path()) + ": token " + withCommas(position) +
         " has the id " + withCommas(id) +
         (vocabulary > 0
              ? ", the model's vocabulary ends at " + withCommas(vocabulary - 1)
              : ", expected 0 to " + withCommas(INT32_MAX)) +
         " (read as " + std::string(dataFormatName(kind)) +
         ": check the tokenizer and --data-format)";
}

bool TokenFile::scan(int64_t begin, int64_t end, std::vector<int64_t> *counts,
                     std::string &error) const {
  // The model's ids have 32 bits.
  int64_t limit = vocabulary > 0 ? vocabulary : INT64_C(1) << 31;
  for (int64_t i = begin; i < end; ++i) {
    int64_t id = at(i);
    if (id < 0 || id >= limit) {
      error = idError(i, id);
      return false;
    }
    if (!maskPath().empty() && mask.data()[i] > 1) {
      error = quote(maskPath()) + ": byte " + withCommas(i) + " is " +
              std::to_string(mask.data()[i]) +
              ", expected 1 for a target and 0 for none";
      return false;
    }
    if (!counts)
      continue;
    // Without a vocabulary ids may be anything: those beyond share a place.
    size_t place = std::min<int64_t>(id, 1 << 24);
    if (place >= counts->size())
      counts->resize(place + 1);
    ++(*counts)[place];
  }
  return true;
}

/// Of the size and of the first and last 64 KiB.
static uint64_t hashOf(const MappedFile &file, uint64_t hash) {
  uint64_t bytes = file.size(), part = std::min<uint64_t>(bytes, 65536);
  hash = kerf_checksum(hash ^ bytes, file.data(), part);
  return kerf_checksum(hash, file.data() + bytes - part, part);
}

uint64_t TokenFile::fingerprint(bool byIndex) const {
  uint64_t hash = hashOf(file, KERF_CHECKSUM_INIT);
  if (byIndex)
    hash = hashOf(index.file, hash);
  if (maskPath().empty())
    return hash;
  return kerf_checksum(hash, mask.data(),
                       std::min<uint64_t>(mask.size(), 65536));
}

double kerf::runtime::unigramEntropy(const std::vector<double> &shares) {
  double sum = 0;
  for (double share : shares)
    if (share > 0)
      sum -= share * std::log(share);
  return sum;
}
