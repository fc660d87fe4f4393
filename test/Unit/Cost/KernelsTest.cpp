#include "kerf/Cost/Kernels.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace kerf;

static Device h100() {
  Device device;
  device.name = "h100";
  device.memoryBytesPerSec = 3e12;
  device.peak = {{"bf16", 1000e12}, {"tf32", 500e12}, {"f32", 60e12}};
  device.efficiency.matmul = 0.8;
  device.efficiency.attention = 0.5;
  device.efficiency.attentionBackward = 0.8;
  device.efficiency.memory = 0.75;
  device.target = BackendTarget::Cuda;
  device.arch = "sm_90";
  return device;
}

static Device cpu() {
  Device device = h100();
  device.target = BackendTarget::Cpu;
  device.arch = "";
  return device;
}

// On a device without tiles a product runs at the best rate, whatever its
// shape.
TEST(KernelsTest, ProductsAtTheBestRate) {
  double flops = 2.0 * 4096 * 1000 * 5000;
  EXPECT_DOUBLE_EQ(matmulSec(cpu(), {}, {1, 4096, 1000, 5000}, "bf16", 2),
                   flops / (1000e12 * 0.8));
  Profile slower;
  slower.matmul = 0.5;
  EXPECT_DOUBLE_EQ(matmulSec(cpu(), slower, {1, 4096, 1000, 5000}, "bf16", 2),
                   flops / (1000e12 * 0.4));
  EXPECT_EQ(matmulSec(cpu(), {}, {1, 0, 1000, 5000}, "bf16", 2), 0);
}

// A product with a vector reads its matrix once: memory decides.
TEST(KernelsTest, ProductsBoundByMemory) {
  double bytes = 2.0 * (4096.0 * 4096 + 2 * 4096);
  EXPECT_DOUBLE_EQ(matmulSec(h100(), {}, {1, 1, 4096, 4096}, "bf16", 2),
                   bytes / (3e12 * 0.75));
}

// 132 tiles of 128 x 128 fill an H100 once; a row more needs a second wave of
// them, or smaller tiles at a lower rate.
TEST(KernelsTest, WavesOfTiles) {
  double k = 8192;
  EXPECT_DOUBLE_EQ(shapeEfficiency(h100(), {1, 128 * 12, 128 * 11, k}), 1);
  double more = shapeEfficiency(h100(), {1, 128 * 12 + 1, 128 * 11, k});
  EXPECT_LT(more, 0.7);
  EXPECT_GT(more, 0.45);
  // One tile of 128 x 128 leaves 131 multiprocessors idle; four of 64 x 64 run
  // at half of the rate on four: 2 of 132.
  EXPECT_DOUBLE_EQ(shapeEfficiency(h100(), {1, 128, 128, k}), 2.0 / 132);
  // A batch fills the others.
  EXPECT_DOUBLE_EQ(shapeEfficiency(h100(), {132, 128, 128, k}), 1);
}

// Shapes of large models cost next to nothing; a short k much.
TEST(KernelsTest, LargeShapes) {
  for (double h : {4096, 8192, 12288, 16384}) {
    EXPECT_GT(shapeEfficiency(h100(), {1, 8192, h, h}), 0.94) << h;
    EXPECT_LE(shapeEfficiency(h100(), {1, 8192, h, h}), 1) << h;
  }
  EXPECT_NEAR(shapeEfficiency(h100(), {132, 1024, 1024, 64}), 0.5, 0.05);
}

// More of anything never takes less time, and nothing beats the peak or memory.
TEST(KernelsTest, ProductsAreMonotone) {
  std::mt19937 random(7);
  auto size = [&](double most) {
    return std::floor(std::exp(std::log(most) * (random() / 4294967296.0)));
  };
  for (int round = 0; round < 5000; ++round) {
    MatmulShape shape{size(64), size(20000), size(20000), size(20000)};
    double sec = matmulSec(h100(), {}, shape, "bf16", 2);
    EXPECT_GE(sec, shape.flops() / 1000e12);
    EXPECT_GE(sec, 2 * shape.batch * shape.m * shape.n / 3e12);
    for (double MatmulShape::*side : {&MatmulShape::batch, &MatmulShape::m,
                                      &MatmulShape::n, &MatmulShape::k}) {
      MatmulShape larger = shape;
      larger.*side += size(1000);
      EXPECT_GE(matmulSec(h100(), {}, larger, "bf16", 2), sec * (1 - 1e-12));
    }
  }
}

// A device without a type computes in the next one that holds it.
TEST(KernelsTest, PeaksByType) {
  Device device = h100();
  EXPECT_EQ(peakOf(device, "bf16"), 1000e12);
  EXPECT_EQ(peakOf(device, "f16"), 1000e12);
  EXPECT_EQ(peakOf(device, "fp8"), 1000e12);
  EXPECT_EQ(peakOf(device, "f32"), 60e12); // not tf32
  EXPECT_EQ(peakOf(device, "f64"), 30e12);
  device.peak = {{"f16", 125e12}, {"f32", 15e12}};
  EXPECT_EQ(peakOf(device, "bf16"), 125e12);
  EXPECT_EQ(peakOf(device, "tf32"), 15e12);
  device.peak = {{"f32", 15e12}};
  EXPECT_EQ(peakOf(device, "fp8"), 15e12);
  EXPECT_EQ(peakOf(device, "f16"), 15e12);
}

// Fused attention: a rate of its own, slower backward and with small heads.
TEST(KernelsTest, FusedAttention) {
  double flops = 1e12, rate = 1000e12 * 0.5;
  auto sec = [&](double headSize, bool backward) {
    return attentionSec(h100(), {}, flops, 1e6, headSize, 1e9, "bf16",
                        backward);
  };
  EXPECT_DOUBLE_EQ(sec(128, false), flops / rate);
  EXPECT_DOUBLE_EQ(sec(256, false), flops / rate);
  EXPECT_DOUBLE_EQ(sec(128, true), flops / (rate * 0.8));
  EXPECT_NEAR(sec(64, false), flops / (rate * 0.7846), 1e-6);
  // One query against a long cache: bytes decide.
  EXPECT_DOUBLE_EQ(attentionSec(h100(), {}, 1e6, 1e9, 128, 1e4, "bf16", false),
                   1e9 / (3e12 * 0.75));
}

// Unfused attention makes masked scores too and moves bytes for each.
TEST(KernelsTest, UnfusedAttention) {
  Profile profile;
  profile.flash = false;
  profile.scoreBytesForward = 13;
  profile.scoreBytesBackward = 19;
  double scores = 1e9, products = 1000e12 * 0.8, memory = 3e12 * 0.75;
  EXPECT_DOUBLE_EQ(
      attentionSec(h100(), profile, 2.56e11, 1e6, 128, scores, "bf16", false),
      4 * 128 * scores / products + 13 * scores / memory);
  EXPECT_DOUBLE_EQ(
      attentionSec(h100(), profile, 6.4e11, 1e6, 128, scores, "bf16", true),
      8 * 128 * scores / products + 19 * scores / memory);
}

// Rows are bound by bytes, or by arithmetic where there is much of it.
TEST(KernelsTest, Rows) {
  Profile framework;
  framework.memory = 2;
  EXPECT_DOUBLE_EQ(rowSec(h100(), {}, 1e9, 1e9), 1e9 / (3e12 * 0.75));
  EXPECT_DOUBLE_EQ(rowSec(h100(), framework, 1e9, 1e9), 2e9 / (3e12 * 0.75));
  EXPECT_DOUBLE_EQ(rowSec(h100(), {}, 1e6, 6e12), 0.1);
}
