#include "kerf/Kernels/Sketch.h"

#include <gtest/gtest.h>

using namespace kerf::program_sketch;

namespace {

/// A body of a few tensors of 64 bytes, and nodes by what they read and write.
struct Builder {
  Body body;

  explicit Builder(int tensors) {
    for (int i = 0; i < tensors; ++i)
      body.tensors.push_back({64, {16}});
  }
  Node &node(llvm::SmallVector<int, 6> reads,
             llvm::SmallVector<int, 6> writes) {
    Node &node = body.nodes.emplace_back();
    node.reads = std::move(reads);
    node.writes = std::move(writes);
    return node;
  }
  void collective(int from, int to) { node({from}, {to}).isCollective = true; }
  /// "0>1 1>2": what each node reads and writes.
  std::string order() const {
    std::string text;
    for (const Node &node : body.nodes) {
      text += text.empty() ? "" : " ";
      for (int tensor : node.reads)
        text += std::to_string(tensor);
      text += ">";
      for (int tensor : node.writes)
        text += std::to_string(tensor);
    }
    return text;
  }
};

TEST(Sketch, ACollectiveKeepsItsOperandUntilItsWait) {
  Builder b(4);
  b.node({}, {0});
  b.collective(0, 1);
  b.node({}, {2});
  b.node({1, 2}, {3});
  b.body.tensors[0].bytes = 640;
  EXPECT_EQ(livesOf(b.body).peak.total(), 640 + 64);
  overlapCollectives(b.body);
  EXPECT_EQ(b.order(), ">0 0>1 >2 01> 12>3");
  EXPECT_EQ(livesOf(b.body).peak.total(), 640 + 2 * 64);
}

TEST(Sketch, CollectivesMakePartsOfOneTensor) {
  Builder b(6);
  b.node({}, {0});
  b.collective(0, 2);
  b.node({}, {1});
  b.collective(1, 2);
  b.node({}, {4});
  b.node({2}, {3});
  overlapCollectives(b.body);
  EXPECT_EQ(b.order(), ">0 0>2 >1 02> 1>2 >4 12> 2>3");
}

TEST(Sketch, ASumOfSumsComesLate) {
  Builder b(5);
  b.node({}, {0});
  b.collective(0, 1);
  b.body.nodes.back().scatters = true;
  b.collective(1, 2);
  b.node({2}, {});
  b.node({}, {3});
  overlapCollectives(b.body);
  EXPECT_EQ(b.order(), ">0 0>1 >3 01> 1>2 2>");
}

} // namespace
