//===- MinCut.h - the cheapest cut of a network ---------------------------===//

#ifndef KERF_RECOMPUTE_MINCUT_H
#define KERF_RECOMPUTE_MINCUT_H

#include <array>
#include <cstdint>
#include <vector>

namespace kerf {

/// A price in order of importance: the first entry decides, the next ones where
/// the former are equal. Entries are >= 0 and sum up to less than 2^62.
using Price = std::array<int64_t, 3>;

/// An edge that no cut contains.
inline constexpr Price kUncuttable = {int64_t(1) << 62, 0, 0};

/// A directed network; nodes are numbered from 0.
struct Network {
  struct Edge {
    unsigned from, to;
    Price price;
  };
  unsigned nodes = 0, source = 0, sink = 0;
  std::vector<Edge> edges;

  /// Adds a node and returns its number.
  unsigned addNode() { return nodes++; }
  void addEdge(unsigned from, unsigned to, Price price) {
    edges.push_back({from, to, price});
  }
};

/// For each node, whether it is on the sink's side of a cut between source and
/// sink whose edges cost least together. Of several such cuts the one with the
/// fewest nodes on the sink's side. Some cut must do without `kUncuttable`
/// edges. Cost: O(nodes edges^2), in practice one search per stacked value.
std::vector<bool> findMinCut(const Network &network);

} // namespace kerf

#endif // KERF_RECOMPUTE_MINCUT_H
