//===- WarpgroupTest.cpp - matmuls of warpgroups --------------------------===//

#include "Check.h"
#include "Warpgroups.h"

using namespace kerf::sim;
using namespace kerf::sim::test;

namespace {
std::string describe(const MatmulCase &one) {
  auto matrix = [](const Layout &layout) {
    return std::to_string(layout.row) + (layout.isMnMajor ? " mn " : " k ") +
           std::to_string(layout.start) + "/" + std::to_string(layout.leading) +
           "/" + std::to_string(layout.stride);
  };
  return "wgmma n" + std::to_string(one.columns) +
         (one.isHalf ? " f16" : " bf16") + ", A " +
         (one.inRegisters ? "in registers" : matrix(one.a)) + ", B " +
         matrix(one.b);
}

/// All numbers of all threads.
void gives(const MatmulCase &one) {
  int count = one.columns / 2;
  Result result =
      run(kernelOf(one, fenceLine + matmulOf(one) + commitLine + waitLine),
          imageOf(one), 128 * count, {}, {128, 1, 1});
  if (!check(result.status == Success, describe(one) + ": " + result.text))
    return;
  int wrong = 0;
  for (int thread = 0; thread < 128; ++thread)
    for (int index = 0; index < count; ++index) {
      int lane = thread % 32;
      int row = thread / 32 * 16 + lane / 4 + index / 2 % 2 * 8;
      int column = index / 4 * 8 + lane % 4 * 2 + index % 2;
      float sum = 0, found;
      for (int k = 0; k < depth; ++k)
        sum += valueOfA(row, k) * valueOfB(k, column);
      sum = sum * one.signA * one.signB + one.accumulates;
      memcpy(&found, &result.out[thread * count + index], sizeof found);
      wrong += found != sum;
    }
  same(wrong, 0, describe(one) + ": wrong numbers");
}

void testLayouts() {
  Layout a{128, false, 0, 16, 1024}, b{128, false, 8192, 16, 1024};
  gives({a, b, 8});
  gives({a, b, 256});
  gives({a, b, 72, true});
  // The third step of 16 along rows of 64 numbers; groups of 8 rows apart.
  Layout third{128, false, 64, 16, 1280},
      later{128, false, 20480 + 96, 0, 2048};
  gives({third, later, 64});
  for (int row : {16, 32, 64}) {
    uint32_t group = row * 8;
    Layout ka{row, false, 0, 128 * 80, group},
        kb{row, false, 20480, 128, group};
    if (row == 16)
      kb = {row, false, 20480, 128, 256};
    gives({ka, kb, 24, row == 32});
  }
}

void testMnMajor() {
  for (int row : {16, 32, 64, 128}) {
    // Without swizzling the two offsets change their meaning.
    uint32_t atom = row * 8;
    Layout a{row, true, 0, atom * 5, atom * 2 * 9};
    Layout b{row, true, 36864, atom, atom * 2};
    if (row == 16)
      a = {row, true, 0, 128 * 9, 128}, b = {row, true, 36864, 256, 128};
    else
      a = {row, true, 0, atom, atom * (128 / row)};
    gives({a, {128, false, 24576, 16, 1024}, 16, row == 64});
    gives({{128, false, 0, 16, 1024}, b, row / 2, row == 16});
    b.start = 20480;
    b.leading = row == 16 ? 256 * 9 : atom;
    b.stride = row == 16 ? 128 : atom * 5;
    gives({a, b, 72});
  }
  Layout wide{128, true, 16384, 2048, 1024};
  gives({{64, true, 0, 512, 2048}, wide, 256});
}

void testOperands() {
  Layout a, b{128, false, 8192, 16, 1024};
  gives({a, b, 16, false, false});
  gives({a, b, 16, false, true, false, -1, 1});
  gives({a, b, 16, true, true, false, 1, -1});
  gives({a, b, 16, false, true, false, -1, -1});
  gives({a, b, 40, false, true, true});
  gives({a, {64, true, 8192, 512, 1024}, 40, true, true, true, -1, 1});
  // Patterns that do not begin where the table of the manual has them.
  gives({{128, false, 384, 16, 1024, 384},
         {64, false, 16512, 16, 512, 16512},
         8});
  gives(
      {{32, false, 128, 16, 256, 128}, {128, true, 17024, 0, 1024, 17024}, 24});
}
} // namespace

void testWarpgroups() {
  testLayouts();
  testMnMajor();
  testOperands();
}
