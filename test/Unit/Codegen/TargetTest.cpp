//===- TargetTest.cpp - what CPUs are expected to do ----------------------===//

#include "kerf/Codegen/Codegen.h"

#include <gtest/gtest.h>

using namespace kerf;

namespace {
CpuTarget makeTarget(std::string name, bool hasDot, bool hasTiles) {
  CpuTarget target;
  target.name = std::move(name);
  target.features = {"avx2"};
  if (hasDot)
    target.features.push_back("avx512bf16");
  target.hasTiles = hasTiles;
  return target;
}

/// A virtual machine may hide the tiles of its processor; `vdpbf16ps` is slow
/// there.
TEST(Target, IntelWithoutTilesIsSlowInBf16) {
  EXPECT_EQ(makeTarget("emeraldrapids", true, false).whyNotFaster("bf16"),
            "'emeraldrapids' without AMX multiplies bf16 at half the rate of "
            "f32 at best");
  EXPECT_EQ(makeTarget("emeraldrapids", true, true).whyNotFaster("bf16"), "");
}

TEST(Target, OthersAreFastInBf16WhereTheyHaveIt) {
  EXPECT_EQ(makeTarget("znver4", true, false).whyNotFaster("bf16"), "");
  EXPECT_EQ(makeTarget("cooperlake", true, false).whyNotFaster("fp8"), "");
  EXPECT_EQ(makeTarget("znver3", false, false).whyNotFaster("bf16"),
            "'znver3' has neither AMX nor AVX-512 bf16");
}

TEST(Target, F32IsNeverSlowerThanItself) {
  EXPECT_EQ(makeTarget("znver3", false, false).whyNotFaster("f32"), "");
}
} // namespace
