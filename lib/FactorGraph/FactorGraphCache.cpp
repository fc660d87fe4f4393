//===- FactorGraphCache.cpp - equal graphs are eliminated once ------------===//

#include "kerf/FactorGraph/FactorGraphCache.h"

#include "kerf/FactorGraph/GraphBounds.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/xxhash.h"

using namespace kerf;

/// Graphs with less work are eliminated faster than they are worth keeping.
static constexpr int64_t kLeastWork = 1 << 14;

template <typename T> static uint64_t hashOf(const std::vector<T> &numbers) {
  return llvm::xxh3_64bits(
      llvm::ArrayRef(reinterpret_cast<const uint8_t *>(numbers.data()),
                     numbers.size() * sizeof(T)));
}

static uint64_t hashOf(const FactorGraph &graph) {
  std::vector<uint64_t> parts = {hashOf(graph.domains)};
  for (const CostTable &table : graph.tables) {
    parts.push_back(hashOf(table.variables));
    parts.push_back(hashOf(table.costs));
  }
  return hashOf(parts);
}

static int64_t heldBytes(const FactorGraph &graph,
                         const std::vector<int> &order) {
  int64_t bytes = (graph.domains.size() + order.size()) * sizeof(int);
  for (const CostTable &table : graph.tables)
    bytes += sizeof(CostTable) + table.variables.size() * sizeof(int) +
             table.costs.size() * sizeof(int64_t);
  return bytes;
}

void EliminationCache::dropLast() {
  auto last = std::prev(entries.end());
  auto [begin, end] = byHash.equal_range(last->hash);
  for (auto it = begin; it != end; ++it)
    if (it->second == last) {
      byHash.erase(it);
      break;
    }
  held -= last->bytes;
  entries.erase(last);
}

void EliminationCache::keep(Entry entry) {
  if (entry.bytes > maxBytes)
    return;
  held += entry.bytes;
  entries.push_front(std::move(entry));
  byHash.emplace(entries.front().hash, entries.begin());
  while (held > maxBytes)
    dropLast();
}

Elimination EliminationCache::eliminate(const FactorGraph &graph,
                                        const std::vector<int> &order,
                                        int64_t budget) {
  uint64_t hash = hashOf(graph);
  auto [begin, end] = byHash.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Entry &entry = *it->second;
    if (entry.budget != budget || entry.order != order || entry.graph != graph)
      continue;
    ++found;
    entries.splice(entries.begin(), entries, it->second);
    return entry.result;
  }
  Elimination result = eliminateOrSolve(graph, order, budget);
  if (result.work >= kLeastWork && !result.gaveUp)
    keep({hash, graph, order, budget, heldBytes(graph, order), result});
  return result;
}
