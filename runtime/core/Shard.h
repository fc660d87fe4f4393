//===- Shard.h - where the parts of a tensor lie --------------------------===//

#ifndef KERF_RUNTIME_CORE_SHARD_H
#define KERF_RUNTIME_CORE_SHARD_H

#include "kerf/Artifact/Check.h"

#include <algorithm>
#include <numeric>

namespace kerf::runtime {

/// What a rank stores of a tensor, as runs of elements that lie together in the
/// global tensor, too. A dimension in blocks counts as two, of which the second
/// one is cut; one in zigzag order is cut in stretches that lie together.
/// Pieces are ranges of the elements, with padding behind the last.
class Shard {
public:
  Shard(const artifact::View &view, const kerf_layout &layout, uint32_t rank) {
    uint32_t coordinates[KERF_MAX_AXES];
    artifact::coordinatesOf(view, rank, coordinates);
    for (uint32_t d = 0; d < layout.rank; ++d) {
      int64_t blocks = layout.blocks[d], part = layout.local[d] / blocks;
      if (blocks != 1)
        dims[dimCount++] = {blocks, blocks, 0};
      int64_t start = artifact::partOf(view, layout, d, coordinates) * part;
      if (d == 1 && layout.zigzag != 0)
        addOrdered(layout.zigzag, layout.global[d], part, start);
      else
        dims[dimCount++] = {part, layout.global[d] / blocks, start};
    }
    outerDims = dimCount;
    bool whole = true;
    while (outerDims > 0 && whole && dims[outerDims - 1].zigzag == 0) {
      const Dim &dim = dims[--outerDims];
      run *= dim.local;
      whole = dim.local == dim.global;
    }
    int64_t elements = 1;
    for (uint32_t d = 0; d < dimCount; ++d)
      elements *= dims[d].local;
    stored = artifact::pieceElements(view, layout, elements);
    int64_t place = 0;
    for (uint32_t a = 0; a < view.axes.count; ++a)
      if (layout.pieces >> a & 1)
        place = place * view.axes[a].size + coordinates[a];
    first = place * stored;
    own = std::clamp<int64_t>(elements - first, 0, stored);
  }

  /// Elements that the rank stores.
  int64_t size() const { return stored; }
  /// Those of them that are of the tensor; the others behind them are padding.
  int64_t filled() const { return own; }

  /// Calls body(global, local, count) for the runs that make up the stored
  /// elements [begin, end), without padding.
  template <typename Body>
  void runs(int64_t begin, int64_t end, Body body) const {
    end = std::min(end, own);
    while (begin < end) {
      int64_t number = (first + begin) / run, at = (first + begin) % run;
      int64_t count = std::min(run - at, end - begin);
      body(globalOf(number) + at, begin, count);
      begin += count;
    }
  }

private:
  /// With an order, of the chunks of as many entries each.
  struct Dim {
    int64_t local, global, start, zigzag = 0, chunk = 1;

    int64_t globalOf(int64_t index) const {
      return zigzag ? kerf_zigzag(zigzag, chunk, start + index) : start + index;
    }
  };

  /// Rows as stretches that neither the order nor the cut divides.
  void addOrdered(int64_t zigzag, int64_t global, int64_t part, int64_t start) {
    int64_t chunk = global / (2 * zigzag), stretch = std::gcd(chunk, part);
    dims[dimCount++] = {part / stretch, global / stretch, start / stretch,
                        zigzag, chunk / stretch};
    dims[dimCount++] = {stretch, stretch, 0};
  }

  /// Global index of the first element of a run.
  int64_t globalOf(int64_t number) const {
    int64_t index[2 * KERF_MAX_RANK] = {};
    for (uint32_t d = outerDims; d-- > 0; number /= dims[d].local)
      index[d] = number % dims[d].local;
    int64_t global = 0;
    for (uint32_t d = 0; d < dimCount; ++d)
      global = global * dims[d].global + dims[d].globalOf(index[d]);
    return global;
  }

  Dim dims[2 * KERF_MAX_RANK];
  uint32_t dimCount = 0, outerDims = 0;
  int64_t run = 1;
  int64_t stored = 0, first = 0, own = 0;
};

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_SHARD_H
