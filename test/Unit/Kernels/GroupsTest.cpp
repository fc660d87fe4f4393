#include "kerf/Kernels/Groups.h"

#include <gtest/gtest.h>

using namespace kerf::kernels;

namespace {

/// Graphs in few words: tensors by number, nodes in their order.
struct Builder {
  Graph graph;

  int tensor(Shape shape, bool leaves = false) {
    graph.tensors.push_back({std::move(shape), leaves});
    return static_cast<int>(graph.tensors.size()) - 1;
  }
  /// A kernel, or with an empty space something else.
  int node(std::vector<int> reads, std::vector<int> writes, Shape space = {}) {
    Node node;
    for (int tensor : reads) {
      node.reads.push_back({tensor});
      for (auto [i, other] : llvm::enumerate(graph.nodes))
        if (llvm::is_contained(other.writes, tensor))
          node.before.push_back(static_cast<int>(i));
    }
    node.writes.assign(writes.begin(), writes.end());
    node.isKernel = node.isPointwise = !space.empty();
    node.space = std::move(space);
    graph.nodes.push_back(std::move(node));
    return static_cast<int>(graph.nodes.size()) - 1;
  }
  std::vector<int> groups(bool turned = false) const {
    Grouping grouping(graph);
    grouping.find(turned);
    return grouping.groups();
  }
};

const Shape kRows = {8, 16};

TEST(KernelGroups, ProducersJoinTheirReaders) {
  Builder b;
  int x = b.tensor(kRows), y = b.tensor(kRows), z = b.tensor(kRows, true);
  b.node({x}, {y}, kRows);
  b.node({y}, {z}, kRows);
  EXPECT_EQ(b.groups(), (std::vector<int>{0, 0}));
}

TEST(KernelGroups, ReadersOfOneTensorJoin) {
  Builder b;
  int x = b.tensor(kRows), y = b.tensor(kRows, true), z = b.tensor({8}, true);
  b.node({x}, {y}, kRows);
  b.node({x}, {z}, kRows);
  EXPECT_EQ(b.groups(), (std::vector<int>{0, 0}));
}

TEST(KernelGroups, OtherLoopsStayApart) {
  Builder b;
  int x = b.tensor(kRows), y = b.tensor({16, 8}), z = b.tensor({16, 8}, true);
  b.node({x}, {y}, kRows);
  b.node({y}, {z}, {16, 8});
  EXPECT_EQ(b.groups(), (std::vector<int>{0, 1}));
}

// A sum over rows is complete only when all rows are done.
TEST(KernelGroups, WhatIsNoRowEndsAKernel) {
  Builder b;
  int x = b.tensor(kRows), sum = b.tensor({16}), y = b.tensor(kRows, true);
  b.node({x}, {sum}, kRows);
  b.node({x, sum}, {y}, kRows);
  EXPECT_EQ(b.groups(), (std::vector<int>{0, 1}));
}

// A matmul between two kernels: as one they would come before and behind it.
TEST(KernelGroups, NothingStandsBetween) {
  Builder b;
  int x = b.tensor(kRows), y = b.tensor(kRows), z = b.tensor(kRows),
      out = b.tensor(kRows, true);
  b.node({x}, {y}, kRows);
  b.node({y}, {z});
  b.node({y, z}, {out}, kRows);
  EXPECT_EQ(b.groups(), (std::vector<int>{0, 1, 2}));
}

TEST(KernelGroups, OrderHoldsWithoutATensor) {
  Builder b;
  int x = b.tensor(kRows), y = b.tensor(kRows), z = b.tensor(kRows, true);
  b.node({x}, {y}, kRows);
  int message = b.node({}, {});
  b.graph.nodes[message].before.push_back(0);
  b.node({y}, {z}, kRows);
  b.graph.nodes[2].before.push_back(message);
  EXPECT_EQ(b.groups(), (std::vector<int>{0, 1, 2}));
}

TEST(KernelGroups, OperandsHaveABound) {
  for (int inputs : {30, 60}) {
    Builder b;
    int y = b.tensor(kRows), z = b.tensor(kRows, true);
    std::vector<int> first, second = {y};
    for (int i = 0; i < inputs; ++i)
      (i % 2 ? first : second).push_back(b.tensor(kRows));
    b.node(first, {y}, kRows);
    b.node(second, {z}, kRows);
    bool joins = b.groups() == std::vector<int>{0, 0};
    EXPECT_EQ(joins, inputs < static_cast<int>(kMostOperands)) << inputs;
  }
}

// A copy of a tensor in 8 bits and a transposed one read a square of it once.
TEST(KernelGroups, TurnedCopiesJoinOnRequest) {
  Builder b;
  int x = b.tensor(kRows), y = b.tensor(kRows, true),
      t = b.tensor({16, 8}, true);
  b.node({x}, {y}, kRows);
  int turned = b.node({x}, {t}, {16, 8});
  b.graph.nodes[turned].reads[0].isTurned = true;
  EXPECT_EQ(b.groups(/*turned=*/false), (std::vector<int>{0, 1}));
  EXPECT_EQ(b.groups(/*turned=*/true), (std::vector<int>{0, 0}));
}

TEST(KernelGroups, SortedRespectsWhoReadsWhom) {
  Builder b;
  int x = b.tensor(kRows), y = b.tensor({4}), z = b.tensor({4}),
      out = b.tensor(kRows, true), other = b.tensor(kRows, true);
  b.node({x}, {other}, kRows);
  b.node({}, {y});
  b.node({y}, {z});
  b.node({x, z}, {out}, kRows);
  Grouping grouping(b.graph);
  grouping.find(false);
  EXPECT_EQ(grouping.groups(), (std::vector<int>{0, 1, 2, 0}));
  EXPECT_EQ(grouping.sorted(), (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(grouping.membersOf(0), (llvm::ArrayRef<int>{0, 3}));
}

} // namespace
