#include "kerf/Recompute/MinCut.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace kerf;

static Price add(Price a, const Price &b) {
  for (size_t i = 0; i < a.size(); ++i)
    a[i] += b[i];
  return a;
}

/// What the edges into the sink's side cost; none when one must not be cut.
static bool priceOf(const Network &network, const std::vector<bool> &sinkSide,
                    Price &price) {
  price = {};
  for (const Network::Edge &edge : network.edges) {
    if (sinkSide[edge.from] || !sinkSide[edge.to])
      continue;
    if (edge.price == kUncuttable)
      return false;
    price = add(price, edge.price);
  }
  return true;
}

/// The cheapest cut with the fewest nodes on the sink's side, by trying all.
static std::vector<bool> tryAll(const Network &network) {
  std::vector<bool> best;
  Price bestPrice{};
  long bestSize = 0;
  for (unsigned bits = 0; bits < (1u << network.nodes); ++bits) {
    std::vector<bool> side(network.nodes);
    for (unsigned n = 0; n < network.nodes; ++n)
      side[n] = bits >> n & 1;
    Price price;
    if (side[network.source] || !side[network.sink] ||
        !priceOf(network, side, price))
      continue;
    long size = std::count(side.begin(), side.end(), true);
    if (best.empty() || price < bestPrice ||
        (price == bestPrice && size < bestSize)) {
      best = side;
      bestPrice = price;
      bestSize = size;
    }
  }
  return best;
}

// The example of the file.
TEST(MinCutTest, Example) {
  Network network;
  for (int n = 0; n < 4; ++n)
    network.addNode();
  network.source = 0;
  network.sink = 3;
  network.addEdge(0, 1, {5, 0, 0});
  network.addEdge(1, 3, {3, 0, 0});
  network.addEdge(0, 2, {1, 0, 0});
  network.addEdge(2, 3, {9, 0, 0});
  EXPECT_EQ(findMinCut(network), (std::vector<bool>{false, false, true, true}));
}

// A later entry of a price decides only where the former are equal.
TEST(MinCutTest, LaterEntriesDecideTies) {
  Network network;
  for (int n = 0; n < 3; ++n)
    network.addNode();
  network.source = 0;
  network.sink = 2;
  network.addEdge(0, 1, {4, 0, 1});
  network.addEdge(1, 2, {2, 0, 1});
  network.addEdge(1, 2, {2, 0, 1});
  EXPECT_EQ(findMinCut(network), (std::vector<bool>{false, true, true}));
  network.edges.front().price = {5, 0, 0};
  EXPECT_EQ(findMinCut(network), (std::vector<bool>{false, false, true}));
}

// Random networks, against all cuts of them.
TEST(MinCutTest, AgreesWithTryingAllCuts) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    Network network;
    unsigned nodes = 2 + random() % 7;
    for (unsigned n = 0; n < nodes; ++n)
      network.addNode();
    network.sink = 1;
    unsigned edges = random() % (3 * nodes);
    for (unsigned n = 0; n < edges; ++n) {
      unsigned from = random() % nodes, to = random() % nodes;
      Price price;
      for (int64_t &entry : price)
        entry = random() % 3;
      bool mayForbid = from != network.source || to != network.sink;
      if (mayForbid && random() % 8 == 0)
        price = kUncuttable;
      network.addEdge(from, to, price);
    }
    std::vector<bool> expected = tryAll(network);
    if (!expected.empty())
      EXPECT_EQ(findMinCut(network), expected) << "round " << round;
  }
}
