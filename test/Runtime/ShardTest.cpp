// The parts of inputs whose rows are in zigzag order, against the order written
// down by hand.

#include "Shard.h"

#include "gtest/gtest.h"

#include <vector>

using namespace kerf;
using runtime::Shard;

namespace {
/// A mesh of cp = 2 and tp = 2.
struct Mesh {
  kerf_axis axes[2] = {{0, 2}, {0, 2}};
  artifact::View view;
  Mesh() { view.axes = {axes, 2}; }
};

/// `[2,12]` with rows of two ranks with two chunks of three each; `cut` names
/// the axes that cut dimension 1.
kerf_layout layoutOf(std::vector<uint8_t> cut, int64_t local) {
  kerf_layout layout = {};
  layout.rank = 2;
  layout.global[0] = layout.local[0] = 2;
  layout.global[1] = 12;
  layout.local[1] = local;
  layout.blocks[0] = layout.blocks[1] = 1;
  for (auto &list : layout.cuts)
    std::fill(std::begin(list), std::end(list), 0xff);
  std::copy(cut.begin(), cut.end(), layout.cuts[1]);
  layout.zigzag = 2;
  return layout;
}

/// Global elements in the order in which the rank stores [begin, end) of them.
std::vector<int64_t> elementsOf(const kerf_layout &layout, uint32_t rank,
                                int64_t begin, int64_t end) {
  Mesh mesh;
  std::vector<int64_t> elements(end - begin, -1);
  Shard(mesh.view, layout, rank)
      .runs(begin, end, [&](int64_t global, int64_t local, int64_t count) {
        for (int64_t i = 0; i < count; ++i)
          elements[local - begin + i] = global + i;
      });
  return elements;
}

using List = std::vector<int64_t>;
} // namespace

// Each rank has an early and a late chunk of every sequence.
TEST(ShardTest, ZigzagParts) {
  kerf_layout layout = layoutOf({0}, 6);
  EXPECT_EQ(elementsOf(layout, 0, 0, 12),
            (List{0, 1, 2, 9, 10, 11, 12, 13, 14, 21, 22, 23}));
  EXPECT_EQ(elementsOf(layout, 2, 0, 12),
            (List{3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20}));
  EXPECT_EQ(elementsOf(layout, 2, 4, 9), (List{7, 8, 15, 16, 17}));
}

// An axis after it cuts what a rank has: here the chunks of a rank apart.
TEST(ShardTest, ZigzagPartsOfParts) {
  kerf_layout layout = layoutOf({0, 1}, 3);
  EXPECT_EQ(elementsOf(layout, 0, 0, 6), (List{0, 1, 2, 12, 13, 14}));
  EXPECT_EQ(elementsOf(layout, 1, 0, 6), (List{9, 10, 11, 21, 22, 23}));
  EXPECT_EQ(elementsOf(layout, 3, 0, 6), (List{6, 7, 8, 18, 19, 20}));
}

// Ranks that have all rows have them in order, too.
TEST(ShardTest, ZigzagWhole) {
  kerf_layout layout = layoutOf({}, 12);
  EXPECT_EQ(elementsOf(layout, 3, 0, 12),
            (List{0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 8}));
}

// Parts that end within a chunk.
TEST(ShardTest, ZigzagThirds) {
  Mesh mesh;
  kerf_layout layout = layoutOf({0}, 4);
  mesh.axes[0].size = 3;
  std::vector<int64_t> rows;
  Shard(mesh.view, layout, 2)
      .runs(0, 4, [&](int64_t global, int64_t, int64_t n) {
        for (int64_t i = 0; i < n; ++i)
          rows.push_back(global + i);
      });
  EXPECT_EQ(rows, (List{10, 11, 3, 4}));
}
