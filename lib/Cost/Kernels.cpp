//===- Kernels.cpp - how long a kernel runs -------------------------------===//

#include "kerf/Cost/Kernels.h"

#include "kerf/Support/Gpus.h"

#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <cmath>

using namespace kerf;

static double statedPeak(const Device &device, llvm::StringRef type) {
  auto it = device.peak.find(type.str());
  return it == device.peak.end() ? 0 : it->second;
}

/// The type that a device without `type` computes in; "" when there is none.
static llvm::StringRef substituteOf(llvm::StringRef type, bool haveF16) {
  return llvm::StringSwitch<llvm::StringRef>(type)
      .Case("fp8", "bf16")
      .Case("bf16", haveF16 ? "f16" : "f32")
      .Cases({"f16", "tf32"}, "f32")
      .Default("");
}

/// The type that matmuls of `type` are computed in. The CPU backend has
/// instructions for bf16 that f16 cannot use.
static llvm::StringRef runsAs(const Device &device, llvm::StringRef type) {
  if (type == "f16" && !device.peak.count("f16") && device.peak.count("bf16") &&
      device.target != BackendTarget::Cpu)
    return "bf16";
  for (llvm::StringRef t = type; !t.empty();
       t = substituteOf(t, device.peak.count("f16")))
    if (statedPeak(device, t) > 0)
      return t;
  return type;
}

llvm::StringRef kerf::ratedAs(const Device &device, llvm::StringRef type) {
  llvm::StringRef own = runsAs(device, type);
  if (statedPeak(device, own) > 0)
    return own;
  if (type == "f64" && device.peak.count("f32"))
    return "f32";
  auto lowest = std::min_element(
      device.peak.begin(), device.peak.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  return lowest == device.peak.end() ? "" : llvm::StringRef(lowest->first);
}

double kerf::peakOf(const Device &device, llvm::StringRef type) {
  llvm::StringRef rated = ratedAs(device, type);
  double peak = statedPeak(device, rated);
  return type == "f64" && rated == "f32" ? peak / 2 : peak;
}

double kerf::multiprocessors(const Device &device) {
  if (device.target != BackendTarget::Cuda || device.processors > 0)
    return static_cast<double>(device.processors);
  const GpuFacts *gpu = findGpu(device.arch);
  return gpu ? gpu->processors : 0;
}

namespace {
struct Tile {
  double m, n;
};
} // namespace

/// Tiles that matmul libraries choose from (NVIDIA, "Matrix Multiplication
/// Background User's Guide", section on tile quantization).
static const Tile tiles[] = {{256, 128}, {128, 256}, {128, 128},
                             {128, 64},  {64, 128},  {64, 64}};

/// A tile loads (m + n) numbers per m n multiplications. One of 128 x 128 keeps
/// the units busy; smaller ones are bound by that traffic, so their rate is the
/// harmonic mean of the sides over 128.
static double tileRate(Tile tile) {
  return std::min(1.0, 2 / (1 / tile.m + 1 / tile.n) / 128);
}

/// Elements of the result over elements that whole waves of whole tiles have
/// room for. A wave is one tile on each multiprocessor.
static double waveEfficiency(const MatmulShape &shape, Tile tile,
                             double units) {
  double count =
      shape.batch * std::ceil(shape.m / tile.m) * std::ceil(shape.n / tile.n);
  double room = std::ceil(count / units) * units * tile.m * tile.n;
  return shape.batch * shape.m * shape.n / room;
}

/// Filling the pipeline of loads and writing the result cost a tile about as
/// much as two steps of 32 along k. The best rate of a device was measured at
/// long k, so 8192 counts as 1.
static double depthEfficiency(double k, double start) {
  const double longest = 8192;
  return std::min(1.0, k / (k + start) * (longest + start) / longest);
}

double kerf::shapeEfficiency(const Device &device, const MatmulShape &shape) {
  double units = multiprocessors(device);
  if (units == 0)
    return 1;
  double best = 0;
  for (Tile tile : tiles)
    best = std::max(best, tileRate(tile) * waveEfficiency(shape, tile, units));
  return best * depthEfficiency(shape.k, device.efficiency.depth.value_or(64));
}

/// What was measured of matmuls of a type, or null.
static const TypeEfficiency *measuredOf(const Device &device,
                                        llvm::StringRef type) {
  auto it = device.efficiency.types.find(runsAs(device, type).str());
  return it == device.efficiency.types.end() ? nullptr : &it->second;
}

/// Between two measured points the logarithm of the part is linear in that of
/// the rows; before the first and after the last one nothing changes.
static double
rowsEfficiency(llvm::ArrayRef<std::pair<int64_t, double>> measured,
               double rows) {
  const std::pair<int64_t, double> *before = nullptr;
  for (const auto &point : measured) {
    if (rows <= double(point.first) && !before)
      return point.second;
    if (rows <= double(point.first)) {
      double along = std::log(rows / double(before->first)) /
                     std::log(double(point.first) / double(before->first));
      return before->second * std::pow(point.second / before->second, along);
    }
    before = &point;
  }
  return before ? before->second : 1;
}

/// The law of `depthEfficiency` with the start that was measured. On GPUs the
/// start of all types is a part of `shapeEfficiency`.
static double measuredEfficiency(const Device &device, llvm::StringRef type,
                                 const MatmulShape &shape) {
  const Efficiency &all = device.efficiency;
  const TypeEfficiency *measured = measuredOf(device, type);
  bool hasRows = measured && !measured->rows.empty();
  double part = rowsEfficiency(hasRows ? measured->rows : all.rows, shape.m);
  if (measured)
    return part * depthEfficiency(shape.k, measured->depth);
  bool isDone = !all.depth || multiprocessors(device) > 0;
  return isDone ? part : part * depthEfficiency(shape.k, *all.depth);
}

static double memorySec(const Device &device, double bytes) {
  return bytes / (device.memoryBytesPerSec * device.efficiency.memory);
}

/// Best flop/s of matmuls.
static double matmulRate(const Device &device, const Profile &profile,
                         llvm::StringRef type, bool isGrouped = false) {
  const Efficiency &efficiency = device.efficiency;
  double part = isGrouped && efficiency.groupedMatmul > 0
                    ? efficiency.groupedMatmul
                    : efficiency.matmul;
  return peakOf(device, type) * part * profile.matmul;
}

double kerf::matmulSec(const Device &device, const Profile &profile,
                       const MatmulShape &shape, llvm::StringRef type,
                       double elementBytes) {
  if (shape.flops() <= 0)
    return 0;
  double bytes = shape.batch * elementBytes *
                 (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n);
  double rate = matmulRate(device, profile, type, shape.isGrouped) *
                shapeEfficiency(device, shape) *
                measuredEfficiency(device, type, shape);
  return std::max(shape.flops() / rate, memorySec(device, bytes));
}

/// Attention with a buffer of scores: all of them, masked ones too, 2 matmuls
/// of head size forward and 4 backward.
static double unfusedSec(const Device &device, const Profile &profile,
                         double headSize, double scores, llvm::StringRef type,
                         bool backward) {
  double flops = scores * headSize * (backward ? 8 : 4);
  double bytes = scores * (backward ? profile.scoreBytesBackward
                                    : profile.scoreBytesForward);
  return flops / matmulRate(device, profile, type) + memorySec(device, bytes);
}

AttentionRates kerf::attentionRatesOf(const Device &device,
                                      const Profile &profile,
                                      llvm::StringRef type) {
  const Efficiency &stated = device.efficiency;
  AttentionRates rates = {stated.attention, stated.attentionBackward,
                          stated.attentionKeys};
  if (device.target == BackendTarget::Cuda)
    rates.backwardRatio *= profile.attentionBackward;
  if (const TypeEfficiency *measured = measuredOf(device, type)) {
    if (measured->attention > 0)
      rates.forward = measured->attention;
    if (measured->attentionBackward > 0)
      rates.backwardRatio = measured->attentionBackward;
    rates.keysStart = measured->attentionKeys;
  }
  return rates;
}

/// Flop/s of fused attention with heads of 128 or more.
static double attentionRate(const Device &device, const Profile &profile,
                            const AttentionWork &work) {
  AttentionRates rates = attentionRatesOf(device, profile, work.type);
  double rate = peakOf(device, work.type) * rates.forward * profile.attention *
                (work.backward ? rates.backwardRatio : 1);
  // Of f32 what was measured is that of own kernels.
  const TypeEfficiency *measured = measuredOf(device, work.type);
  bool isMeasured = measured && measured->attention > 0 && work.type == "f32";
  if (work.isOwn && !isMeasured)
    rate *= work.backward ? profile.ownAttentionBackward : profile.ownAttention;
  return work.keys > 0 ? rate * work.keys / (work.keys + rates.keysStart)
                       : rate;
}

double kerf::attentionSec(const Device &device, const Profile &profile,
                          const AttentionWork &work) {
  double moving = memorySec(device, work.bytes);
  if (!profile.flash)
    return std::max(unfusedSec(device, profile, work.headSize, work.scores,
                               work.type, work.backward),
                    moving);
  double rate = attentionRate(device, profile, work);
  // The exponent is fitted to published steps of models with heads of 64 to
  // 128.
  if (work.headSize < 128)
    rate *= std::pow(work.headSize / 128, 0.35);
  return std::max(work.flops > 0 ? work.flops / rate : 0, moving);
}

double kerf::rowSec(const Device &device, const Profile &profile, double bytes,
                    double vectorFlops) {
  double arithmeticSec =
      vectorFlops > 0 ? vectorFlops / peakOf(device, "f32") : 0;
  return std::max(memorySec(device, bytes * profile.memory), arithmeticSec);
}
