#include "kerf/Cost/Kernels.h"
#include "kerf/Cost/Profiles.h"

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

static Device measured() {
  Device device = cpu();
  TypeEfficiency &f32 = device.efficiency.types["f32"];
  f32.rows = {{32, 0.5}, {128, 0.4}, {512, 1}};
  f32.depth = 60;
  f32.attention = 0.25;
  f32.attentionKeys = 100;
  return device;
}

// On a device without tiles a matmul runs at the best rate, whatever its
// shape.
TEST(KernelsTest, MatmulsAtTheBestRate) {
  double flops = 2.0 * 4096 * 1000 * 5000;
  EXPECT_DOUBLE_EQ(matmulSec(cpu(), {}, {1, 4096, 1000, 5000}, "bf16", 2),
                   flops / (1000e12 * 0.8));
  Profile slower;
  slower.matmul = 0.5;
  EXPECT_DOUBLE_EQ(matmulSec(cpu(), slower, {1, 4096, 1000, 5000}, "bf16", 2),
                   flops / (1000e12 * 0.4));
  EXPECT_EQ(matmulSec(cpu(), {}, {1, 0, 1000, 5000}, "bf16", 2), 0);
}

// A matmul with a vector reads its matrix once: memory decides.
TEST(KernelsTest, MatmulsBoundByMemory) {
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
TEST(KernelsTest, MatmulsAreMonotone) {
  std::mt19937 random(7);
  auto size = [&](double most) {
    return std::floor(std::exp(std::log(most) * (random() / 4294967296.0)));
  };
  for (int round = 0; round < 10000; ++round) {
    bool tiles = round % 2 == 0;
    Device device = tiles ? h100() : measured();
    const char *type = tiles ? "bf16" : "f32";
    MatmulShape shape{size(64), size(20000), size(20000), size(20000)};
    double sec = matmulSec(device, {}, shape, type, 2);
    EXPECT_GE(sec, shape.flops() / peakOf(device, type));
    EXPECT_GE(sec, 2 * shape.batch * shape.m * shape.n / 3e12);
    for (double MatmulShape::*side : {&MatmulShape::batch, &MatmulShape::m,
                                      &MatmulShape::n, &MatmulShape::k}) {
      MatmulShape larger = shape;
      larger.*side += size(1000);
      EXPECT_GE(matmulSec(device, {}, larger, type, 2), sec * (1 - 1e-12));
    }
  }
}

// Measured matmuls: parts of the best rate by rows, and sums that take as long
// as if they were longer; of one type only.
TEST(KernelsTest, MeasuredMatmuls) {
  auto part = [](double m, double k, const char *type = "f32") {
    MatmulShape shape{1, m, 4096, k};
    return matmulSec(cpu(), {}, shape, type, 0) /
           matmulSec(measured(), {}, shape, type, 0);
  };
  const double deep = 1 << 20; // beyond the measured depths
  EXPECT_DOUBLE_EQ(part(32, deep), 0.5);
  EXPECT_DOUBLE_EQ(part(8, deep), 0.5);
  EXPECT_DOUBLE_EQ(part(64, deep), std::sqrt(0.5 * 0.4));
  EXPECT_DOUBLE_EQ(part(128, deep), 0.4);
  EXPECT_DOUBLE_EQ(part(256, deep), std::sqrt(0.4));
  EXPECT_DOUBLE_EQ(part(512, deep), 1);
  EXPECT_DOUBLE_EQ(part(5000, deep), 1);
  // Next to the longest sums that count, 60 half the rate of sums of 60.
  EXPECT_NEAR(part(512, 60), 0.5 * 8252 / 8192, 1e-12);
  EXPECT_DOUBLE_EQ(part(32, 60, "bf16"), 1);
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

// A CPU multiplies bf16 fast and f16 as f32, with the efficiency of f32.
TEST(KernelsTest, HalfOnCpu) {
  Device device = h100();
  device.target = BackendTarget::Cpu;
  device.peak = {{"bf16", 4e12}, {"f32", 1e12}};
  device.efficiency.types["f32"].rows = {{1, 0.5}};
  device.efficiency.types["bf16"].rows = {{1, 0.25}};
  EXPECT_EQ(peakOf(device, "f16"), 1e12);
  MatmulShape shape{1, 512, 512, 8192};
  EXPECT_DOUBLE_EQ(matmulSec(device, {}, shape, "f16", 2),
                   matmulSec(device, {}, shape, "f32", 2));
  EXPECT_LT(matmulSec(device, {}, shape, "bf16", 2),
            matmulSec(device, {}, shape, "f16", 2));
}

// Fused attention: a rate of its own, slower backward and with small heads.
TEST(KernelsTest, FusedAttention) {
  double flops = 1e12, rate = 1000e12 * 0.5;
  auto sec = [&](double headSize, bool backward) {
    return attentionSec(h100(), {},
                        {flops, 1e6, headSize, 1e9, "bf16", backward});
  };
  EXPECT_DOUBLE_EQ(sec(128, false), flops / rate);
  EXPECT_DOUBLE_EQ(sec(256, false), flops / rate);
  // Of sums in a fixed order, on a GPU; others' are not.
  double ordered = Profile().attentionBackward;
  EXPECT_LT(ordered, 1);
  EXPECT_DOUBLE_EQ(sec(128, true), flops / (rate * 0.8 * ordered));
  EXPECT_DOUBLE_EQ(profileNamed("nemo")->attentionBackward, 1);
  EXPECT_NEAR(sec(64, false), flops / (rate * 0.7846), 1e-6);
  // One query against a long cache: bytes decide.
  EXPECT_DOUBLE_EQ(attentionSec(h100(), {}, {1e6, 1e9, 128, 1e4, "bf16"}),
                   1e9 / (3e12 * 0.75));
}

// Where it was measured a type has a rate of its own, and few keys cost more.
TEST(KernelsTest, MeasuredAttention) {
  auto rate = [](const char *type, bool backward, double keys) {
    return 1e12 / attentionSec(measured(), {},
                               {1e12, 1e6, 128, 1e9, type, backward, keys});
  };
  EXPECT_DOUBLE_EQ(rate("f32", false, 0), 60e12 * 0.25);
  EXPECT_DOUBLE_EQ(rate("f32", false, 100), 60e12 * 0.25 / 2);
  EXPECT_DOUBLE_EQ(rate("f32", true, 300), 60e12 * 0.25 * 0.8 * 0.75);
  EXPECT_DOUBLE_EQ(rate("bf16", false, 100), 1000e12 * 0.5);
}

// What the library does not take has the rates of own kernels; other runtimes'
// profiles know no such kernels.
TEST(KernelsTest, OwnAttention) {
  AttentionWork work = {1e12, 1e6, 128, 1e9, "bf16"}, own = work;
  own.isOwn = true;
  double sec = attentionSec(h100(), {}, work);
  EXPECT_DOUBLE_EQ(attentionSec(h100(), {}, own), sec / Profile().ownAttention);
  work.backward = own.backward = true;
  EXPECT_DOUBLE_EQ(attentionSec(h100(), {}, own),
                   attentionSec(h100(), {}, work) /
                       Profile().ownAttentionBackward);
  own.type = work.type = "f32"; // was measured by own kernels
  EXPECT_DOUBLE_EQ(attentionSec(measured(), {}, own),
                   attentionSec(measured(), {}, work));
  EXPECT_DOUBLE_EQ(attentionSec(h100(), *profileNamed("nemo"), own),
                   attentionSec(h100(), *profileNamed("nemo"), work));
}

// Unfused attention makes masked scores too and moves bytes for each.
TEST(KernelsTest, UnfusedAttention) {
  Profile profile;
  profile.flash = false;
  profile.scoreBytesForward = 13;
  profile.scoreBytesBackward = 19;
  double scores = 1e9, matmuls = 1000e12 * 0.8, memory = 3e12 * 0.75;
  EXPECT_DOUBLE_EQ(
      attentionSec(h100(), profile, {2.56e11, 1e6, 128, scores, "bf16"}),
      4 * 128 * scores / matmuls + 13 * scores / memory);
  EXPECT_DOUBLE_EQ(
      attentionSec(h100(), profile, {6.4e11, 1e6, 128, scores, "bf16", true}),
      8 * 128 * scores / matmuls + 19 * scores / memory);
}

// Rows are bound by bytes, or by arithmetic where there is much of it.
TEST(KernelsTest, Rows) {
  Profile framework;
  framework.memory = 2;
  EXPECT_DOUBLE_EQ(rowSec(h100(), {}, 1e9, 1e9), 1e9 / (3e12 * 0.75));
  EXPECT_DOUBLE_EQ(rowSec(h100(), framework, 1e9, 1e9), 2e9 / (3e12 * 0.75));
  EXPECT_DOUBLE_EQ(rowSec(h100(), {}, 1e6, 6e12), 0.1);
}
