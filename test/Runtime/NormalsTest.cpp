//===- NormalsTest.cpp - quick normals against the C library's ------------===//

#include "Normals.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Dialect/Kerf/Random.h"

#include "gtest/gtest.h"

#include <cmath>
#include <vector>

using namespace kerf::runtime;

namespace {

/// As kerf::normalAt, of given bits.
double normalOf(uint32_t radius, uint32_t angle) {
  double u = 1.0 - radius * 0x1.0p-24, v = angle * 0x1.0p-24;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

/// How far `found` is off, as a part of what is promised.
double partOfBound(double found, double expected) {
  return std::abs(found - expected) /
         (std::abs(found) * kNormalRelative + kNormalAbsolute);
}

} // namespace

// Where sine and cosine take turns, the cosine is almost 0, or the logarithm is
// 0 or largest.
TEST(Normals, EdgesAreWithinTheBound) {
  constexpr int64_t end = 1 << 24;
  for (int64_t radius : {int64_t(0), int64_t(1), end / 2, end - 2, end - 1})
    for (int64_t eighth = 0; eighth <= 8; ++eighth)
      for (int64_t near = -50; near <= 50; ++near) {
        int64_t angle = eighth * (end / 8) + near;
        if (angle < 0 || angle >= end)
          continue;
        ASSERT_LT(
            partOfBound(nearNormalOf(radius, angle), normalOf(radius, angle)),
            1)
            << radius << ' ' << angle;
      }
}

// Whatever vectors this machine has, and a count that they do not divide.
TEST(Normals, StreamsAreWithinTheBound) {
  std::vector<double> found(10007);
  nearNormals(7, 123456789, found.size(), found.data());
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_LT(partOfBound(found[i], kerf::normalAt(7, 123456789 + i)), 1) << i;
    sum += found[i] * found[i];
  }
  EXPECT_NEAR(sum / found.size(), 1, 0.05);
}
