//===- EmitTiles.cpp - results that read operands across their rows -------===//

#include "PartEmitter.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

// All reads come before all writes: they are under way together.
bool PartEmitter::emitTileIn(const Part &part, const Corner &corner,
                             int64_t lanes) {
  const Tiling &tiling = part.tiling;
  int64_t row = tiling.middle * tiling.along;
  bool isDone = true;
  e.withLanes(lanes, lanes, [&] {
    llvm::SmallVector<std::tuple<unsigned, Index, Element>> elements;
    for (int64_t i = 0; i < tiling.side; ++i)
      for (int64_t j = 0; j < tiling.side; j += lanes)
        for (auto [result, isStraight] :
             llvm::zip(part.results, tiling.isStraight)) {
          Index position = isStraight
                               ? corner.straight + Index(i * tiling.down + j)
                               : corner.turned + Index(i * row + j);
          position.lane = lanes > 1;
          auto element = e.pullAt(values[result], position);
          isDone &= element.has_value();
          if (!isDone)
            return;
          elements.push_back({result, position, *element});
        }
    for (auto &[result, position, element] : elements)
      e.store(result, position, element);
  });
  return isDone;
}

bool PartEmitter::emitTile(const Part &part, const Corner &corner) {
  bool isDone = false;
  e.tileSide = part.tiling.side;
  for (int64_t lanes = e.tileSide; lanes >= 1 && !isDone; lanes /= 2)
    isDone = e.tryEmit([&] { return emitTileIn(part, corner, lanes); });
  e.tileSide = 1;
  return isDone;
}

bool PartEmitter::emitTiles(const Part &part, const Index &unit) {
  const Tiling &tiling = part.tiling;
  auto block =
      *e.space.delinearize(unit, {tiling.outer, tiling.blocksDown(),
                                  tiling.middle, tiling.blocksAlong()});
  auto thread = *e.space.divide(e.thread, tiling.threadsDown);
  Index down = block[1] * tiling.threadsDown + thread.remainder;
  Index along = block[3] * tiling.threadsAlong + thread.quotient;
  auto emit = [&](const Index &down, const Index &along) {
    Index i = down * tiling.side, j = along * tiling.side;
    Corner corner;
    corner.turned = e.space.linearize(
        {block[0], i, block[2], j},
        {tiling.outer, tiling.down, tiling.middle, tiling.along});
    corner.straight = e.space.linearize(
        {block[0], block[2], j, i},
        {tiling.outer, tiling.middle, tiling.along, tiling.down});
    return emitTile(part, corner);
  };
  if (tiling.isFull())
    return emit(down, along);
  Value i = e.materialize(down), j = e.materialize(along);
  auto isBelow = [&](Value x, int64_t size) -> Value {
    return arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::slt, x,
                                 word(size));
  };
  Value exists =
      arith::AndIOp::create(e.builder, a.loc, isBelow(i, tiling.tilesDown()),
                            isBelow(j, tiling.tilesAlong()));
  bool isDone = false;
  e.guarded(exists, [&] {
    e.team() = Team();
    isDone = emit(e.opaque(i, {0, tiling.tilesDown() - 1}),
                  e.opaque(j, {0, tiling.tilesAlong() - 1}));
  });
  return isDone;
}
