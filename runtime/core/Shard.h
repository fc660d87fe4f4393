//===- Shard.h - where the parts of a tensor lie --------------------------===//

#ifndef KERF_RUNTIME_CORE_SHARD_H
#define KERF_RUNTIME_CORE_SHARD_H

#include "kerf/Artifact/Check.h"

#include <algorithm>

namespace kerf::runtime {

/// A shard as runs of elements that lie together in the global tensor, too.
class Shard {
public:
  Shard(const artifact::View &view, const kerf_layout &layout, uint32_t rank)
      : layout(layout) {
    artifact::shardStart(view, layout, rank, start);
    uint32_t d = layout.rank;
    while (d > 0 && layout.local[d - 1] == layout.global[d - 1])
      run *= layout.local[--d];
    if (d > 0)
      run *= layout.local[--d];
    outerDims = d;
    for (uint32_t o = 0; o < layout.rank; ++o)
      elements *= layout.local[o];
  }

  int64_t size() const { return elements; }

  /// Calls body(global, local, count) for the runs that make up the local
  /// elements [begin, end).
  template <typename Body>
  void runs(int64_t begin, int64_t end, Body body) const {
    while (begin < end) {
      int64_t at = begin % run;
      int64_t count = std::min(run - at, end - begin);
      body(globalOf(begin / run) + at, begin, count);
      begin += count;
    }
  }

private:
  /// Global index of the first element of a run.
  int64_t globalOf(int64_t number) const {
    int64_t index[KERF_MAX_RANK] = {};
    for (uint32_t d = outerDims; d-- > 0; number /= layout.local[d])
      index[d] = number % layout.local[d];
    int64_t global = 0;
    for (uint32_t d = 0; d < layout.rank; ++d)
      global = global * layout.global[d] + start[d] + index[d];
    return global;
  }

  const kerf_layout &layout;
  int64_t start[KERF_MAX_RANK];
  int64_t run = 1, elements = 1;
  uint32_t outerDims;
};

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_SHARD_H
