//===- MinCut.cpp - the cheapest cut of a network -------------------------===//
//
// Problem: split the nodes in two, source on one side and sink on the other, so
// that the edges from the source's side to the sink's side cost least.
//
// Idea: the cheapest cut costs what can flow from source to sink at most, and
// at that flow the nodes that can still reach the sink are its side. Prices are
// triples compared in order; the theorem needs no more than their addition and
// order.
//
// Steps: find a shortest path with room, fill it, repeat (Edmonds and Karp,
// 1972)
//
// Example: source -5-> a -3-> sink and source -1-> b -9-> sink: the flow is 4,
// the cut {a -> sink, source -> b}, the sink's side {b, sink}.
//
//===----------------------------------------------------------------------===//

#include "kerf/Recompute/MinCut.h"

#include <algorithm>
#include <queue>

using namespace kerf;

static Price plus(Price a, const Price &b) {
  for (size_t i = 0; i < a.size(); ++i)
    a[i] += b[i];
  return a;
}

static Price minus(Price a, const Price &b) {
  for (size_t i = 0; i < a.size(); ++i)
    a[i] -= b[i];
  return a;
}

namespace {
/// Room that is left; arc `n ^ 1` is arc `n` backwards.
class Residual {
public:
  explicit Residual(const Network &network) : leaving(network.nodes) {
    for (const Network::Edge &edge : network.edges) {
      addArc(edge.from, edge.to, edge.price);
      addArc(edge.to, edge.from, Price{});
    }
  }

  /// Fills a shortest path with room; false when there is none.
  bool augment(unsigned source, unsigned sink);

  /// Nodes from which the sink can be reached.
  std::vector<bool> reaching(unsigned sink) const;

private:
  struct Arc {
    unsigned from, to;
    Price room;
  };

  void addArc(unsigned from, unsigned to, Price room) {
    leaving[from].push_back(arcs.size());
    arcs.push_back({from, to, room});
  }
  bool hasRoom(size_t arc) const { return arcs[arc].room > Price{}; }

  std::vector<Arc> arcs;
  std::vector<std::vector<size_t>> leaving; ///< arcs by their node
};
} // namespace

bool Residual::augment(unsigned source, unsigned sink) {
  constexpr size_t none = -1;
  std::vector<size_t> arrival(leaving.size(), none);
  std::queue<unsigned> queue;
  queue.push(source);
  while (!queue.empty() && arrival[sink] == none) {
    unsigned node = queue.front();
    queue.pop();
    for (size_t arc : leaving[node]) {
      unsigned to = arcs[arc].to;
      if (to == source || arrival[to] != none || !hasRoom(arc))
        continue;
      arrival[to] = arc;
      queue.push(to);
    }
  }
  if (arrival[sink] == none)
    return false;
  Price room = kUncuttable;
  for (unsigned at = sink; at != source; at = arcs[arrival[at]].from)
    room = std::min(room, arcs[arrival[at]].room);
  for (unsigned at = sink; at != source; at = arcs[arrival[at]].from) {
    Arc &arc = arcs[arrival[at]], &back = arcs[arrival[at] ^ 1];
    arc.room = minus(arc.room, room);
    back.room = plus(back.room, room);
  }
  return true;
}

std::vector<bool> Residual::reaching(unsigned sink) const {
  std::vector<bool> found(leaving.size(), false);
  std::queue<unsigned> queue;
  queue.push(sink);
  found[sink] = true;
  while (!queue.empty()) {
    unsigned node = queue.front();
    queue.pop();
    for (size_t arc : leaving[node]) {
      unsigned from = arcs[arc].to;
      if (found[from] || !hasRoom(arc ^ 1))
        continue;
      found[from] = true;
      queue.push(from);
    }
  }
  return found;
}

std::vector<bool> kerf::findMinCut(const Network &network) {
  Residual residual(network);
  while (residual.augment(network.source, network.sink)) {
  }
  return residual.reaching(network.sink);
}
