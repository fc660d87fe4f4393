//===- TokenFile.h - training data as tokens --------------------*- C++ -*-===//
//
// Formats:
//   bytes     raw text, one token per byte
//   u16       16-bit tokens without header (nanoGPT's .bin)
//   u32       32-bit tokens without header
//   llmc      llm.c's .bin: 256 int32 of header (magic, version, tokens,
//             zeros), then 16-bit tokens (magic 20240520, version 1) or 32-bit
//             ones (magic 20240801, version 7)
//   megatron  Megatron-LM's .bin and .idx (kerf/Train/MegatronIndex.h), named
//             by either of them or by what the two names share
// All little-endian. Files are mapped, never copied.
//
// A mask beside the tokens (x.mask of x.bin; else the name and ".mask") has a
// byte for each: 1 where the loss counts that token as a target, 0 where it
// does not, as in a prompt.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_TOKENFILE_H
#define KERF_TRAIN_TOKENFILE_H

#include "kerf/Train/MegatronIndex.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

enum class DataFormat { Auto, Bytes, U16, U32, LlmC, Megatron };

/// "bytes", "u16", ... to the format; false for other names.
[[nodiscard]] bool parseDataFormat(std::string_view name, DataFormat &format);
std::string_view dataFormatName(DataFormat format);

class TokenFile {
public:
  /// Opens `path` for a model with ids below `vocabulary` (0: unknown).
  /// `Auto` chooses megatron where the name means a dataset with an index
  /// (namesMegatron), llmc by its magic number, u16 for other names in ".bin"
  /// (u32 when the vocabulary needs more bits), else bytes. Fails, saying what
  /// was expected, on missing, empty, truncated and damaged files, and on bytes
  /// for a vocabulary below 256 or, with `Auto`, above 512.
  [[nodiscard]] bool open(const std::string &path, DataFormat format,
                          int64_t vocabulary, std::string &error);

  const std::string &path() const { return file.path(); }
  DataFormat format() const { return kind; }
  /// How the format was chosen: "by --data-format", "by the magic number", ...
  const std::string &reason() const { return why; }
  /// Number of tokens.
  int64_t size() const { return count; }
  /// Bytes of a token.
  int width() const { return tokenBytes; }
  /// Number of documents where an index tells it, else -1.
  int64_t documents() const {
    return kind == DataFormat::Megatron ? index.documents : -1;
  }
  /// Where the next document begins behind token `position`, of a file whose
  /// index tells documents; size() behind the last.
  int64_t nextDocument(int64_t position) const {
    return index.nextDocument(position);
  }
  /// Token `index` in [0, size()); below 0 only where a file is damaged.
  int64_t at(int64_t index) const;
  /// Name of the mask; empty without one.
  const std::string &maskPath() const { return mask.path(); }
  /// Whether the loss counts token `index` as a target.
  bool isTarget(int64_t index) const {
    return maskPath().empty() || mask.data()[index] != 0;
  }

  /// Checks tokens [begin, end) against the vocabulary; on failure `error`
  /// names the position and the id. `counts`, if given, is grown as needed and
  /// counts the ids.
  [[nodiscard]] bool scan(int64_t begin, int64_t end,
                          std::vector<int64_t> *counts,
                          std::string &error) const;
  /// A hash of the size and of the first and last 64 KiB: tells data sets
  /// apart. With `byIndex` of the index as well.
  uint64_t fingerprint(bool byIndex = false) const;

private:
  [[nodiscard]] bool openMegatron(const std::string &path, DataFormat wanted,
                                  std::string &error);
  [[nodiscard]] bool openMask(const std::string &name, std::string &error);
  [[nodiscard]] bool openTokens(const std::string &path, DataFormat format,
                                std::string &error);
  [[nodiscard]] bool chooseFormat(DataFormat wanted, std::string &error);
  [[nodiscard]] bool readHeader(std::string &error);
  [[nodiscard]] bool checkBytes(DataFormat wanted, std::string &error) const;
  std::string idError(int64_t position, int64_t id) const;

  MappedFile file, mask;
  MegatronIndex index;
  DataFormat kind = DataFormat::Auto;
  std::string why;
  const uint8_t *tokens = nullptr;
  int64_t count = 0, vocabulary = 0;
  int tokenBytes = 1;
  bool isSigned = false;
};

/// Entropy in nats of a distribution: shares that add up to 1.
double unigramEntropy(const std::vector<double> &shares);

} // namespace kerf::runtime

#endif // KERF_TRAIN_TOKENFILE_H
