//===- MegatronIndex.h - the index of a Megatron-LM dataset -----*- C++ -*-===//
//
// A dataset of Megatron-LM's preprocess_data.py (IndexedDataset, the former
// `mmap` kind) is PREFIX.bin, tokens and nothing else, and PREFIX.idx:
//
//   9 bytes   "MMIDIDX\0\0"
//   u64       version, 1
//   u8        type of a token: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16
//             (6 and 7: floats)
//   u64       S, sequences
//   u64       D, entries of the last table: documents + 1
//   i32[S]    tokens of each sequence
//   i64[S]    where it begins in PREFIX.bin, in bytes
//   i64[D]    the first sequence of each document, and S
//
// Little-endian, not aligned. A multimodal dataset has i8[S] behind that. What
// writes these files puts sequences one after the other, so that PREFIX.bin can
// be read as one row of tokens; that they do is checked.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_MEGATRONINDEX_H
#define KERF_TRAIN_MEGATRONINDEX_H

#include "kerf/Train/Files.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace kerf::runtime {

/// `path` without ".bin" or ".idx".
std::string megatronPrefix(std::string_view path);

/// Whether `path` means a dataset of Megatron-LM: its name ends in ".idx", or
/// in ".bin" with the ".idx" beside it, or it is no file and PREFIX.idx is one.
bool namesMegatron(const std::string &path);

/// An index that was read; it stays mapped.
struct MegatronIndex {
  MappedFile file;
  int tokenBytes = 0; ///< 1, 2, 4 or 8
  bool isSigned = false;
  int64_t tokens = 0, sequences = 0, documents = 0;

  /// The first token of document `number` in [0, documents]; `tokens` behind
  /// the last one.
  int64_t firstToken(int64_t number) const;
  /// The first token of the next document that begins behind `token`, or
  /// `tokens`.
  int64_t nextDocument(int64_t token) const;
};

/// Reads the index at `path` and checks every number in it; the tokens are in
/// the file `data` of `dataBytes` bytes. Fails, naming a file and what is wrong
/// there, unless both are whole and belong together.
[[nodiscard]] bool readMegatronIndex(const std::string &path,
                                     const std::string &data,
                                     uint64_t dataBytes, MegatronIndex &index,
                                     std::string &error);

} // namespace kerf::runtime

#endif // KERF_TRAIN_MEGATRONINDEX_H
