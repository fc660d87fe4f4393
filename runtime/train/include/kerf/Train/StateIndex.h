//===- StateIndex.h - the index and manifest of a checkpoint ----*- C++ -*-===//
//
// manifest.json is an object of strings: what the run was at, size and checksum
// of the index, and a checksum of all that. index.json is
//
//   {"block": 4096,
//    "files": [{"name": "rank-00000.safetensors", "bytes": 8392, "data": 200,
//               "sums": 8184}],
//    "tensors": {"param:wte.weight": {"dtype": "F32", "shape": [32, 64],
//      "pieces": [{"begin": [0, 0], "end": [32, 64], "file": 0, "offset": 0,
//                  "bytes": 8192, "sums": 0, "checksum":
//                  "0123456789abcdef"}]}}}
//
// `data` is where a file's data starts; offsets count from there, also that of
// the file's checksums. A piece's blocks have the checksums from number `sums`
// on, and `checksum` is of these.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_STATEINDEX_H
#define KERF_TRAIN_STATEINDEX_H

#include "kerf/Train/RunState.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

struct IndexedPiece {
  std::vector<int64_t> begin, end;
  uint32_t file = 0;
  uint64_t offset = 0, bytes = 0, sums = 0, checksum = 0;

  uint64_t blocks() const;
};

struct IndexedTensor {
  std::string dtype; ///< as in safetensors
  std::vector<int64_t> shape;
  std::vector<IndexedPiece> pieces;
};

struct IndexedFile {
  std::string name;
  uint64_t bytes = 0, data = 0, sums = 0;
};

struct StateIndex {
  std::vector<IndexedFile> files;
  std::map<std::string, IndexedTensor> tensors;
};

std::string renderIndex(const StateIndex &index);
/// Checks all of it: types, names without folders, boxes within their tensors,
/// bytes within their files.
[[nodiscard]] bool parseIndex(std::string_view text, StateIndex &index,
                              std::string &error);

/// With the checksum of the entries.
std::string renderManifest(const Metadata &entries);
[[nodiscard]] bool parseManifest(std::string_view text, Metadata &entries,
                                 std::string &error);

} // namespace kerf::runtime

#endif // KERF_TRAIN_STATEINDEX_H
