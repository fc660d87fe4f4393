#include "kerf/Kernels/Epilogues.h"

#include <gtest/gtest.h>

#include <string>

using namespace kerf::kernels::epilogues;

namespace {

/// Graphs in few words: tensors by number, ops in their order.
struct Builder {
  Graph graph;

  int tensor(int64_t columns, bool leaves = false, int type = 16) {
    graph.tensors.push_back({type, columns, leaves});
    return static_cast<int>(graph.tensors.size()) - 1;
  }
  Op &op(Role role, llvm::SmallVector<int, 4> reads, int made) {
    Op op = {role};
    op.isKernel = role != Role::Matmul && role != Role::View;
    op.reads = std::move(reads);
    op.writes = {made};
    if (role == Role::Matmul) {
      op.columns = graph.tensors[made].columns;
      op.hasOneType = true;
    }
    graph.ops.push_back(std::move(op));
    return graph.ops.back();
  }
  /// Members of what was found, in words: "0+1" of a gelu behind a matmul.
  std::string found(Ends ends = {true, true}) const {
    std::string text;
    for (const Epilogue &one : findEpilogues(graph, ends)) {
      text += text.empty() ? "" : ", ";
      for (int member : one.members)
        text += (member == one.members[0] ? "" : "+") + std::to_string(member);
      text += "@" + std::to_string(one.at) + " makes";
      for (int tensor : one.results)
        text += " " + std::to_string(tensor);
    }
    return text;
  }
};

TEST(Epilogues, AMatmulEndsInGelu) {
  Builder b;
  int x = b.tensor(64), w = b.tensor(64), h = b.tensor(128),
      g = b.tensor(128, true);
  b.op(Role::Matmul, {x, w}, h);
  b.op(Role::Gelu, {h}, g);
  EXPECT_EQ(b.found(), "0+1@0 makes 3");
  EXPECT_EQ(b.found({false, true}), "") << "not on every GPU";
}

TEST(Epilogues, WhatTheBackwardPassReadsIsASecondResult) {
  Builder b;
  int x = b.tensor(64), w = b.tensor(64), h = b.tensor(128, true),
      g = b.tensor(128, true);
  b.op(Role::Matmul, {x, w}, h);
  b.op(Role::Gelu, {h}, g);
  EXPECT_EQ(b.found(), "0+1@0 makes 3 2");
  b.graph.ops[0].columns = 12;
  EXPECT_EQ(b.found(), "") << "a second matrix has rows of whole blocks";
}

TEST(Epilogues, AGeluThatAKernelReadsStaysInIt) {
  Builder b;
  int x = b.tensor(64), w = b.tensor(64), h = b.tensor(128), g = b.tensor(128),
      y = b.tensor(128, true);
  b.op(Role::Matmul, {x, w}, h);
  b.op(Role::Gelu, {h}, g);
  b.op(Role::Other, {g}, y);
  EXPECT_EQ(b.found(), "");
}

TEST(Epilogues, OneTypeAloneHasAGelu) {
  Builder b;
  int x = b.tensor(64), w = b.tensor(64), h = b.tensor(128),
      g = b.tensor(128, true);
  b.op(Role::Matmul, {x, w}, h).hasOneType = false;
  b.op(Role::Gelu, {h}, g);
  EXPECT_EQ(b.found(), "");
}

/// p = dy w2; dh = gelu_backward h, p; dw = dh x; db = sum dh, perhaps cast.
struct Backward : Builder {
  int dy = tensor(64), w2 = tensor(64), h = tensor(128), x = tensor(64),
      p = tensor(128), dh = tensor(128), dw = tensor(64, true),
      db = tensor(128, true), wide = tensor(128, false, 32);

  explicit Backward(bool cast) {
    op(Role::Matmul, {dy, w2}, p);
    op(Role::GeluBackward, {h, p}, dh);
    if (cast)
      op(Role::Cast, {dh}, wide);
    op(Role::RowSum, {cast ? wide : dh}, db);
    op(Role::Matmul, {dh, x}, dw).sumsRowsOf = {dh};
  }
};

TEST(Epilogues, AGradientOfGeluTakesTheSumOfItsRows) {
  EXPECT_EQ(Backward(false).found(), "0+1+2@1 makes 5 7");
}

TEST(Epilogues, ASumBehindACastGoesWithTheGradientOfTheWeight) {
  EXPECT_EQ(Backward(true).found(), "0+1@1 makes 5, 4+2+3@4 makes 6 7");
}

TEST(Epilogues, ColumnsOfSeveralDimensionsAreNotSummed) {
  Backward b(false);
  b.graph.ops[0].columns = 4 * 128; // heads of 128
  EXPECT_EQ(b.found(), "") << "the sum would be left to read what is made";
}

TEST(Epilogues, ASumJoinsTheFirstMatmulThatReadsTheRows) {
  Builder b;
  int rows = b.tensor(64), x = b.tensor(32), dw = b.tensor(32, true),
      again = b.tensor(32, true), db = b.tensor(64, true);
  b.op(Role::Matmul, {rows, x}, dw).sumsRowsOf = {rows};
  b.op(Role::Matmul, {x, rows}, again).sumsRowsOf = {rows};
  b.op(Role::RowSum, {rows}, db);
  EXPECT_EQ(b.found(), "0+2@0 makes 2 4");
  EXPECT_EQ(b.found({true, false}), "");
}

TEST(Epilogues, ASumOfAnotherTypeIsNotMade) {
  Builder b;
  int rows = b.tensor(64), x = b.tensor(32), dw = b.tensor(32, true),
      db = b.tensor(64, true, 32);
  b.op(Role::Matmul, {rows, x}, dw).sumsRowsOf = {rows};
  b.op(Role::RowSum, {rows}, db);
  EXPECT_EQ(b.found(), "");
}

TEST(Epilogues, RowsThatAKernelMakesAreSummedThere) {
  Builder b;
  int y = b.tensor(64), made = b.tensor(64), rows = b.tensor(64),
      x = b.tensor(32), dw = b.tensor(32, true), db = b.tensor(64, true);
  b.op(Role::Other, {y}, made);
  b.op(Role::View, {made}, rows);
  b.op(Role::RowSum, {rows}, db);
  b.op(Role::Matmul, {rows, x}, dw).sumsRowsOf = {rows};
  EXPECT_EQ(b.found(), "");
  b.graph.ops[0].isKernel = false;
  EXPECT_EQ(b.found(), "3+2@3 makes 4 5");
}

TEST(Epilogues, OnePartByAKernelIsEnough) {
  Builder b;
  int y = b.tensor(64), ours = b.tensor(32), other = b.tensor(32),
      rows = b.tensor(64), x = b.tensor(32), dw = b.tensor(32, true),
      db = b.tensor(64, true);
  b.op(Role::Matmul, {y, x}, other);
  b.op(Role::Other, {y}, ours);
  b.op(Role::View, {other, ours}, rows);
  b.op(Role::RowSum, {rows}, db);
  b.op(Role::Matmul, {rows, x}, dw).sumsRowsOf = {rows};
  EXPECT_EQ(b.found(), "");
  b.graph.ops[1].isKernel = false;
  EXPECT_EQ(b.found(), "4+3@4 makes 5 6");
}

TEST(Epilogues, PartsOfOneTensorHaveSeveralWriters) {
  Builder b;
  int y = b.tensor(64), rows = b.tensor(64), x = b.tensor(32),
      dw = b.tensor(32, true), db = b.tensor(64, true), g = b.tensor(64, true);
  b.op(Role::Matmul, {y, x}, rows);
  b.op(Role::Other, {y}, rows);
  b.op(Role::RowSum, {rows}, db);
  b.op(Role::Matmul, {rows, x}, dw).sumsRowsOf = {rows};
  b.op(Role::Gelu, {rows}, g);
  EXPECT_EQ(b.found(), "") << "neither a sum nor a gelu";
}

TEST(Epilogues, WhatAKernelElsewhereHasIsSummedThere) {
  Builder b;
  int rows = b.tensor(64), x = b.tensor(32), dw = b.tensor(32, true),
      db = b.tensor(64, true);
  b.op(Role::RowSum, {rows}, db);
  b.op(Role::Matmul, {rows, x}, dw).sumsRowsOf = {rows};
  EXPECT_EQ(b.found(), "1+0@1 makes 2 3");
  b.graph.tensors[rows].inKernel = true;
  EXPECT_EQ(b.found(), "");
}

TEST(Epilogues, AGradientThatOthersReadIsNoEpilogue) {
  Backward b(false);
  b.op(Role::Other, {b.p}, b.tensor(128, true));
  EXPECT_EQ(b.found(), "");
}

TEST(Epilogues, AMatmulWithABiasHasNoGradientOfGelu) {
  Backward b(false);
  b.graph.ops[0].reads.push_back(b.tensor(128));
  EXPECT_EQ(b.found(), "");
}

TEST(Epilogues, ASumThatIsReadBeforeItsMatmulStays) {
  Builder b;
  int rows = b.tensor(64), x = b.tensor(32), dw = b.tensor(32, true),
      db = b.tensor(64), y = b.tensor(64, true);
  b.op(Role::RowSum, {rows}, db);
  b.op(Role::Other, {db}, y);
  b.op(Role::Matmul, {rows, x}, dw).sumsRowsOf = {rows};
  EXPECT_EQ(b.found(), "");
}

TEST(Epilogues, AMatmulHasOneEnd) {
  Builder b;
  int x = b.tensor(64), w = b.tensor(64), h = b.tensor(128),
      g = b.tensor(128, true), db = b.tensor(64, true);
  b.op(Role::Matmul, {x, w}, h).sumsRowsOf = {x};
  b.op(Role::Gelu, {h}, g);
  b.op(Role::RowSum, {x}, db);
  EXPECT_EQ(b.found(), "0+1@0 makes 3");
}

} // namespace
