//===- FactorGraphCache.h - equal graphs are eliminated once --------------===//

#ifndef KERF_FACTORGRAPH_FACTORGRAPHCACHE_H
#define KERF_FACTORGRAPH_FACTORGRAPHCACHE_H

#include "kerf/FactorGraph/FactorGraph.h"

#include <list>
#include <unordered_map>

namespace kerf {

/// Remembers eliminations, those used last, with their graphs: an answer is
/// given again only if graph and order are the same, entry by entry. Holds at
/// most `maxBytes` of graphs.
class EliminationCache {
public:
  explicit EliminationCache(int64_t maxBytes) : maxBytes(maxBytes) {}
  EliminationCache(EliminationCache &&) = default; // iterators stay valid
  /// What kerf::eliminate returns, bit by bit.
  Elimination eliminate(const FactorGraph &graph, const std::vector<int> &order,
                        int64_t budget = int64_t(1) << 32);

  int64_t hits() const { return found; }
  int64_t bytes() const { return held; }

private:
  struct Entry {
    uint64_t hash;
    FactorGraph graph;
    std::vector<int> order;
    int64_t budget, bytes;
    Elimination result;
  };
  using Entries = std::list<Entry>; ///< those used last first

  int64_t maxBytes, held = 0, found = 0;
  Entries entries;
  std::unordered_multimap<uint64_t, Entries::iterator> byHash;

  void keep(Entry entry);
  void dropLast();
};

} // namespace kerf

#endif // KERF_FACTORGRAPH_FACTORGRAPHCACHE_H
