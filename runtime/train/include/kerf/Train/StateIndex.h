//===- StateIndex.h - the index and manifest of a checkpoint ----*- C++ -*-===//
//
// manifest.json is an object of strings: what the run was at, size and checksum
// of the index, and a checksum of all that. index.json is
//
//   {"tile_bytes": 4096, "tile_width": 512,
//    "files": [{"name": "rank-00000.safetensors", "bytes": 8392, "data": 200,
//               "sums": 8184}],
//    "tensors": {"param:wte.weight": {"dtype": "F32", "shape": [32, 64],
//      "pieces": [{"begin": [0, 0], "end": [32, 64], "file": 0, "offset": 0,
//                  "bytes": 8192, "sums": 0, "checksum":
//                  "0123456789abcdef"}]}}}
//
// `data` is where a file's data starts; offsets count from there, also that of
// the file's checksums. A piece's tiles (Tiling) have the checksums from number
// `sums` on, and `checksum` is of these.
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

/// A piece as rows of its last dimension, in tiles of some bytes of some rows,
/// each of which has a checksum: parts of rows and parts of columns are read,
/// and checked, without the rest. Tiles of a band of rows come one after the
/// other. A piece [64 x 1024] of f32 has 8 rows of 512 bytes in a tile.
struct Tiling {
  static constexpr uint64_t tileBytes = 4096, tileWidth = 512;

  uint64_t rows = 1, rowBytes = 0;
  uint64_t width = 0, height = 1; ///< of a tile: bytes, rows

  Tiling(const std::vector<int64_t> &shape, uint64_t elementBytes);
  uint64_t columns() const { return (rowBytes + width - 1) / width; }
  uint64_t bands() const { return (rows + height - 1) / height; }
  uint64_t tiles() const { return bands() * columns(); }
  uint64_t bytes() const { return rows * rowBytes; }
  /// The checksum of tile `column` of `count` rows, which lie `stride` bytes
  /// apart; `data` is where the tile begins.
  uint64_t sum(const char *data, uint64_t count, uint64_t stride,
               uint64_t column) const;
};

struct IndexedPiece {
  std::vector<int64_t> begin, end;
  uint32_t file = 0;
  uint64_t offset = 0, bytes = 0, sums = 0, checksum = 0;

  Tiling tiling(uint64_t elementBytes) const;
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
