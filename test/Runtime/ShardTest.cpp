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
  for (auto &list : layout.axes)
    std::fill(std::begin(list), std::end(list), 0xff);
  std::copy(cut.begin(), cut.end(), layout.axes[1]);
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

namespace {
/// Global elements of [begin, end), in the order in which they are stored, by
/// the boxes that they make up.
std::vector<int64_t> boxedElements(const artifact::View &view,
                                   const kerf_layout &layout, uint32_t rank,
                                   int64_t begin, int64_t end) {
  std::vector<int64_t> elements(end - begin, -1);
  for (const kerf_box &box : Shard(view, layout, rank).boxes(begin, end)) {
    std::vector<int64_t> at(box.begin, box.begin + layout.rank);
    for (bool more = true; more;) {
      int64_t global = 0, local = box.first;
      for (uint32_t d = 0; d < layout.rank; ++d) {
        global = global * layout.global[d] + at[d];
        local += (at[d] - box.begin[d]) * box.stride[d];
      }
      EXPECT_EQ(elements.at(local - begin), -1);
      elements.at(local - begin) = global;
      more = false;
      for (uint32_t d = layout.rank; !more && d-- > 0;) {
        more = ++at[d] < box.end[d];
        if (!more)
          at[d] = box.begin[d];
      }
    }
  }
  return elements;
}
} // namespace

// Boxes have the elements of runs: of all ranges, blocks, orders and pieces.
TEST(ShardTest, BoxesEqualRuns) {
  Mesh mesh;
  auto check = [&](const kerf_layout &layout) {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      int64_t size = Shard(mesh.view, layout, rank).filled();
      for (int64_t begin = 0; begin < size; ++begin)
        for (int64_t end = begin + 1; end <= size; ++end) {
          std::vector<int64_t> runs(end - begin, -1);
          Shard(mesh.view, layout, rank)
              .runs(begin, end, [&](int64_t global, int64_t local, int64_t n) {
                for (int64_t i = 0; i < n; ++i)
                  runs[local - begin + i] = global + i;
              });
          EXPECT_EQ(boxedElements(mesh.view, layout, rank, begin, end), runs);
        }
    }
  };
  check(layoutOf({}, 12));
  check(layoutOf({0}, 6));
  check(layoutOf({0, 1}, 3));
  // Three blocks, each cut over an axis; flattened and cut over another one.
  kerf_layout blocks = {};
  blocks.rank = 3;
  int64_t global[] = {3, 12, 2}, local[] = {3, 6, 2}, parts[] = {1, 3, 1};
  for (uint32_t d = 0; d < 3; ++d) {
    blocks.global[d] = global[d];
    blocks.local[d] = local[d];
    blocks.blocks[d] = parts[d];
  }
  for (auto &list : blocks.axes)
    std::fill(std::begin(list), std::end(list), 0xff);
  blocks.axes[1][0] = 1;
  check(blocks);
  blocks.pieces = 1;
  check(blocks);
  std::swap(blocks.global[0], blocks.global[1]);
  std::swap(blocks.local[0], blocks.local[1]);
  std::swap(blocks.blocks[0], blocks.blocks[1]);
  std::swap(blocks.axes[0][0], blocks.axes[1][0]);
  check(blocks);
}

// A whole shard is one box, however it is cut; a piece is a few.
TEST(ShardTest, FewBoxes) {
  Mesh mesh;
  kerf_layout layout = layoutOf({}, 12);
  layout.zigzag = 0;
  EXPECT_EQ(Shard(mesh.view, layout, 0).boxes(0, 24).size(), 1U);
  layout.pieces = 3;
  EXPECT_EQ(Shard(mesh.view, layout, 1).boxes(0, 6).size(), 1U);
  layout.pieces = 1;
  EXPECT_EQ(Shard(mesh.view, layout, 2).boxes(0, 12).size(), 1U);
}
