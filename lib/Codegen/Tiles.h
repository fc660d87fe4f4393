//===- Tiles.h - results that read operands across their rows -------------===//
//
// An element of a transposed matrix lies a row from the next one: read one by
// one, each takes a sector of memory for itself. A thread of a GPU therefore
// has a square tile of the result, and reads the operand's part of it row by
// row. A copy that is not transposed is written by who has the tile of the
// transposed one.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_CODEGEN_TILES_H
#define KERF_CODEGEN_TILES_H

#include "mlir/IR/Value.h"

#include <optional>
#include <vector>

namespace kerf::codegen {

/// A result of [outer, down, middle, along] elements, where operands have their
/// rows along `down`. Tiles are `side` x `side` elements of `down` and `along`.
struct Tiling {
  int64_t outer = 1, down = 1, middle = 1, along = 1;
  int64_t side = 1;
  /// Tiles of a block, one for each thread.
  int64_t threadsDown = 1, threadsAlong = 1;
  /// For each result: it lies as the operands do, [outer, middle, along, down].
  std::vector<bool> isStraight = {};

  int64_t tilesDown() const { return down / side; }
  int64_t tilesAlong() const { return along / side; }
  int64_t blocksDown() const {
    return (tilesDown() + threadsDown - 1) / threadsDown;
  }
  int64_t blocksAlong() const {
    return (tilesAlong() + threadsAlong - 1) / threadsAlong;
  }
  int64_t blocks() const {
    return outer * blocksDown() * middle * blocksAlong();
  }
  /// Whether all threads of all blocks have a tile.
  bool isFull() const {
    return tilesDown() % threadsDown == 0 && tilesAlong() % threadsAlong == 0;
  }
};

/// Tiles of results that plain ops compute from operands, some of them read
/// across their rows; none if there are no such, or sizes are odd. Results of
/// the operands' shape may be among them. `lanes`: elements of a thread's
/// access.
std::optional<Tiling> tilingOf(llvm::ArrayRef<mlir::Value> results,
                               int64_t lanes);
/// Deals tiles out to the threads of a block, a multiple of 32.
void dealOut(Tiling &tiling, int64_t threads);

} // namespace kerf::codegen

#endif // KERF_CODEGEN_TILES_H
