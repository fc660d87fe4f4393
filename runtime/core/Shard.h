//===- Shard.h - where the parts of a tensor lie --------------------------===//

#ifndef KERF_RUNTIME_CORE_SHARD_H
#define KERF_RUNTIME_CORE_SHARD_H

#include "kerf/Artifact/Check.h"
#include "kerf/Runtime/Runtime.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace kerf::runtime {

/// What a rank stores of a tensor, as runs of elements that lie together in the
/// global tensor, too. A dimension in blocks counts as two, of which the second
/// one is sharded; one in zigzag order is split into stretches that lie
/// together.
/// Pieces are ranges of the elements, with padding behind the last.
class Shard {
public:
  Shard(const artifact::View &view, const kerf_layout &layout, uint32_t rank)
      : rank(layout.rank) {
    uint32_t coordinates[KERF_MAX_AXES];
    artifact::coordinatesOf(view, rank, coordinates);
    for (uint32_t d = 0; d < layout.rank; ++d) {
      firstDim[d] = dimCount;
      int64_t blocks = layout.blocks[d], part = layout.local[d] / blocks;
      if (blocks != 1)
        dims[dimCount++] = {blocks, blocks, 0};
      int64_t start = artifact::partOf(view, layout, d, coordinates) * part;
      if (d == 1 && layout.zigzag != 0)
        addOrdered(layout.zigzag, layout.global[d], part, start);
      else
        dims[dimCount++] = {part, layout.global[d] / blocks, start};
    }
    firstDim[layout.rank] = dimCount;
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
  /// Stored elements that lie together in the last dimension.
  int64_t row() const { return dimCount > 0 ? dims[dimCount - 1].local : 1; }

  /// The stored elements [begin, end), without padding, as boxes of the global
  /// tensor: disjoint, few (a row begun, whole rows, a row that ends, in each
  /// dimension and each block that is sharded).
  std::vector<kerf_box> boxes(int64_t begin, int64_t end) const {
    std::vector<kerf_box> result;
    end = std::min(end, own);
    int64_t low[2 * KERF_MAX_RANK] = {}, high[2 * KERF_MAX_RANK];
    for (uint32_t d = 0; d < dimCount; ++d)
      high[d] = dims[d].local;
    if (begin < end)
      addRange(0, first + begin, first + end, low, high, result);
    return result;
  }

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

  /// Local elements from one index of a dimension to the next.
  int64_t strideOf(uint32_t d) const {
    int64_t stride = 1;
    while (++d < dimCount)
      stride *= dims[d].local;
    return stride;
  }

  /// Elements [begin, end) of the local dimensions from `d` on, those before it
  /// being fixed.
  void addRange(uint32_t d, int64_t begin, int64_t end, int64_t *low,
                int64_t *high, std::vector<kerf_box> &result) const {
    if (d == dimCount)
      return addBoxes(low, high, result);
    int64_t stride = strideOf(d), at = begin / stride, last = end / stride;
    auto addWithin = [&](int64_t index, int64_t from, int64_t to) {
      if (from == to)
        return;
      low[d] = index;
      high[d] = index + 1;
      addRange(d + 1, from, to, low, high, result);
    };
    if (at == last) {
      addWithin(at, begin - at * stride, end - at * stride);
    } else {
      if (begin != at * stride) {
        addWithin(at, begin - at * stride, stride);
        ++at;
      }
      if (at < last) {
        low[d] = at;
        high[d] = last;
        addBoxes(low, high, result);
      }
      addWithin(last, 0, end - last * stride);
    }
    low[d] = 0;
    high[d] = dims[d].local;
  }

  /// Indices of a dimension that lie together, and where they are stored.
  struct Interval {
    int64_t begin, end, local;
  };

  /// Those of dimension `d` of the global tensor within a local box.
  std::vector<Interval> intervalsOf(uint32_t d, const int64_t *low,
                                    const int64_t *high) const {
    uint32_t at = firstDim[d + 1];
    std::vector<Interval> result = {{0, 1, 0}};
    for (int64_t inner = 1, stored = 1; at-- > firstDim[d];) {
      const Dim &dim = dims[at];
      int64_t stride = strideOf(at);
      bool isWhole = inner == stored && result.size() == 1 &&
                     result[0].begin == 0 && result[0].end == inner;
      bool areTogether = isWhole && dim.zigzag == 0;
      std::vector<Interval> outer;
      if (areTogether)
        outer = {{(dim.start + low[at]) * inner, (dim.start + high[at]) * inner,
                  low[at] * stride}};
      for (int64_t i = low[at]; !areTogether && i < high[at]; ++i)
        for (const Interval &own : result)
          outer.push_back({dim.globalOf(i) * inner + own.begin,
                           dim.globalOf(i) * inner + own.end,
                           i * stride + own.local});
      result = std::move(outer);
      inner *= dim.global;
      stored *= dim.local;
    }
    return result;
  }

  /// A box of local indices as boxes of global ones.
  void addBoxes(const int64_t *low, const int64_t *high,
                std::vector<kerf_box> &result) const {
    std::vector<kerf_box> boxes(1);
    boxes[0] = {};
    boxes[0].first = -first;
    for (uint32_t d = 0; d < rank; ++d) {
      std::vector<kerf_box> more;
      for (const kerf_box &box : boxes)
        for (const Interval &interval : intervalsOf(d, low, high)) {
          kerf_box &own = more.emplace_back(box);
          own.begin[d] = interval.begin;
          own.end[d] = interval.end;
          own.first += interval.local;
          own.stride[d] = strideOf(firstDim[d + 1] - 1);
        }
      boxes = std::move(more);
    }
    result.insert(result.end(), boxes.begin(), boxes.end());
  }

  /// Rows as stretches that neither the order nor the sharding divides.
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
  uint32_t firstDim[KERF_MAX_RANK + 1] = {}; ///< by dimension of the tensor
  uint32_t rank, dimCount = 0, outerDims = 0;
  int64_t run = 1;
  int64_t stored = 0, first = 0, own = 0;
};

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_SHARD_H
