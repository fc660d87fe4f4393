//===- Defaults.cpp - what is known of devices by their name --------------===//

#include "Defaults.h"

#include "Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::cluster;
using llvm::StringRef;

namespace {

/// Devices with the same chip and links. 0: not known.
struct DeviceFamily {
  StringRef name; ///< part of a device's name, lower case
  /// Dense TFLOP/s of the matrix units; 16 bits: bf16 and f16.
  double bits16 = 0, tf32 = 0, fp8 = 0;
  bool hasSparsity = true;      ///< a higher peak with some weights zero
  double linkGBPerSec = 0;      ///< of the scale-up links, per direction
  double bestMatmul = 0;        ///< best bf16 matmul measured, TFLOP/s
  double attention = 0;         ///< forward / peak, where measured
  double attentionBackward = 0; ///< rate / rate of the forward
  StringRef attentionSource;
  double grouped = 0; ///< rate of grouped matmuls / rate of matmuls
  /// TFLOP/s with sparsity, the same for all types; 0: twice the dense peak (2
  /// of 4 weights zero).
  double sparse = 0;
};

} // namespace

/// 0.37 to 0.48 of an A100's peak, depending on the sequence (figure 5).
static constexpr StringRef kFlash2 = "FlashAttention-2: arXiv 2307.08691";
/// Causal, heads of 128, sequences of 4 to 16 Ki: forward 0.60 to 0.66,
/// backward 0.46 to 0.56 of the peak; cuDNN 9 is as fast.
static constexpr StringRef kFlash3 =
    "FlashAttention-3, cuDNN 9: arXiv 2407.08608";

/// Peaks and links: datasheets of the makers (NVIDIA V100, A100, H100, H200,
/// HGX B200, GB200 NVL72, L4, L40S, A10, RTX 6000 Ada and the whitepapers of
/// Ada and RTX Blackwell PRO; AMD Instinct MI300X and MI325X; AWS Trainium2).
/// Best matmuls: "maximum achievable matmul FLOPS" of Bekman, Machine
/// Learning Engineering (github.com/stas00/ml-engineering). Grouped matmuls on
/// H100: good runtimes are published at 0.55 to 0.65 of the peak, 0.75 of the
/// best matmul is 0.60. Names that contain others come first.
static const DeviceFamily kFamilies[] = {
    {"gb200", 2500, 1250, 5000, true, 900, 1822, 0, 0, "", 0},
    {"b200", 2250, 1125, 4500, true, 900, 1745, 0, 0, "", 0},
    {"h100", 989, 494, 1979, true, 450, 794.5, 0.62, 0.55 / 0.62, kFlash3,
     0.75},
    {"h800", 989, 494, 1979, true, 200, 794.5, 0.62, 0.55 / 0.62, kFlash3,
     0.75},
    {"gh200", 989, 494, 1979, true, 450, 828.6, 0.62, 0.55 / 0.62, kFlash3,
     0.75},
    {"h200", 989, 494, 1979, true, 450, 794.5, 0.62, 0.55 / 0.62, kFlash3,
     0.75},
    {"a100", 312, 156, 0, true, 300, 271.2, 0.45, 0, kFlash2, 0},
    {"v100", 125, 0, 0, false, 150, 0, 0, 0, "", 0},
    {"4090", 165.2, 82.6, 330.3, true, 0, 0, 0, 0, "", 0},
    {"l40s", 362.05, 183, 733, true, 0, 0, 0, 0, "", 0},
    {"rtx6000-ada", 364.2, 182.1, 728.5, true, 0, 0, 0, 0, "", 0},
    {"rtx-pro-6000", 503.8, 251.9, 1007.6, true, 0, 0, 0, 0, "", 0},
    {"l4-", 121, 60, 242.5, true, 0, 0, 0, 0, "", 0},
    {"a10-", 125, 62.5, 0, true, 0, 0, 0, 0, "", 0},
    {"trainium2", 667, 667, 1299, true, 512, 0, 0, 0, "", 0, 2563},
    {"mi300x", 1307, 653.7, 2614.9, true, 448, 668.4, 0, 0, "", 0},
    {"mi325x", 1307, 653.7, 2614.9, true, 448, 784.9, 0, 0, "", 0},
};

/// Two datasheets round the same figure differently; that of the L40S prints
/// 362.05 and, with sparsity, 733.
static bool isAbout(double value, double reference) {
  return reference > 0 && std::fabs(value - reference) <= 0.015 * reference;
}

/// The peak that a datasheet gives with sparsity beside a dense one, TFLOP/s;
/// 0: it gives none.
static double sparsePeak(const DeviceFamily &family, double dense) {
  if (!family.hasSparsity || dense == 0)
    return 0;
  return family.sparse > 0 ? family.sparse : 2 * dense;
}

static double bits16PeakOf(const Device &device) {
  double peak = 0;
  for (const char *type : {"bf16", "f16"})
    if (auto entry = device.peak.find(type); entry != device.peak.end())
      peak = std::max(peak, entry->second);
  return peak;
}

/// The family of a device, or null. A name that says none leaves the peak: few
/// chips share one, dense or sparse.
static const DeviceFamily *familyOf(const Device &device) {
  if (device.target == BackendTarget::Cpu)
    return nullptr;
  std::string name = StringRef(device.name).lower();
  for (const DeviceFamily &family : kFamilies)
    if (StringRef(name).contains(family.name))
      return &family;
  double peak = bits16PeakOf(device) / 1e12;
  for (const DeviceFamily &family : kFamilies)
    if (isAbout(peak, family.bits16) ||
        isAbout(peak, sparsePeak(family, family.bits16)))
      return &family;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Reserve
//===----------------------------------------------------------------------===//

/// All assumptions, above what is reported. A CUDA context with code that is
/// loaded when it is needed: 256 MiB on an RTX 3090 (issue 9413 of InvokeAI),
/// about 400 MB (issue 109888 of PyTorch); larger GPUs need more. Of NCCL a
/// channel holds 10 MiB to receive from a neighbour and 2 MiB to send to one,
/// of which there are up to 32 (issue 1685 of NCCL).
void kerf::cluster::setDefaultReserve(Device &device) {
  if (device.target != BackendTarget::Cuda)
    return;
  constexpr double channels = 32, channelBytes = 12 << 20;
  device.contextBytes = 0.6e9;
  device.libraryBytes = 0.2e9;
  device.reservedBytes = device.contextBytes + device.libraryBytes;
  device.connectionBytes = channels * channelBytes;
}

//===----------------------------------------------------------------------===//
// Efficiency
//===----------------------------------------------------------------------===//

/// The backward has five matmuls for two and reaches 0.85 of the forward's
/// rate: fitted to published steps of runtimes with flash attention; within the
/// range of Dao 2023 (arXiv 2307.08691), figures 5 and 6.
static constexpr double kBackwardRatio = 0.85;
static constexpr const char *kFitted = "fitted to published steps";

static void setDefaultAttention(Efficiency &result,
                                const DeviceFamily *family) {
  bool isKnown = family && family->attention > 0;
  bool isBackwardKnown = family && family->attentionBackward > 0;
  // A100 and H100 reach in attention half of what they reach in matmuls.
  result.attention = isKnown ? family->attention : result.matmul / 2;
  result.sources["attention"] =
      isKnown ? family->attentionSource.str() : "assumed: half of 'matmul'";
  result.attentionBackward =
      isBackwardKnown ? family->attentionBackward : kBackwardRatio;
  result.sources["attention_backward"] =
      isBackwardKnown ? family->attentionSource.str() : kFitted;
}

Efficiency kerf::cluster::defaultEfficiency(const Device &device) {
  const DeviceFamily *family = familyOf(device);
  Efficiency result;
  bool isMeasured = family && family->bestMatmul > 0;
  // Where nobody measured: between B200 (0.78), H100 (0.80) and A100 (0.87).
  result.matmul = isMeasured ? family->bestMatmul / family->bits16 : 0.8;
  result.sources["matmul"] =
      isMeasured ? "best of Bekman, Machine Learning Engineering" : "assumed";
  setDefaultAttention(result, family);
  // Norms, residuals and activations stream at 0.75 of the memory's datasheet
  // rate, on A100 and H100.
  result.memory = 0.75;
  // Large NCCL collectives reach 0.75 to 0.80 of NVLink and 0.75 to 0.85 of
  // network cards (the same fits).
  result.network = 0.8;
  result.sources["memory"] = result.sources["network"] = kFitted;
  return result;
}

void kerf::cluster::setDefaultMatmuls(Device &device) {
  Efficiency &efficiency = device.efficiency;
  if (efficiency.groupedMatmul > 0)
    return;
  const DeviceFamily *family = familyOf(device);
  if (!family || family->grouped == 0)
    return;
  efficiency.groupedMatmul = efficiency.matmul * family->grouped;
  efficiency.sources["grouped_matmul"] =
      "assumed: good runtimes are published at 0.55 to 0.65";
}

//===----------------------------------------------------------------------===//
// Datasheets
//===----------------------------------------------------------------------===//

static double densePeak(const DeviceFamily &family, StringRef type) {
  if (type == "bf16" || type == "f16")
    return family.bits16;
  if (type == "tf32")
    return family.tf32;
  return type == "fp8" ? family.fp8 : 0;
}

static void warnAboutPeaks(const Device &device, const DeviceFamily &family,
                           const YamlValue &root, Problems &problems) {
  const YamlValue *node = root.get("device");
  node = node ? node->get("peak") : nullptr;
  for (const auto &[type, flopPerSec] : device.peak) {
    double dense = densePeak(family, type);
    const YamlValue *place = node ? node->get(type) : nullptr;
    if (place && isAbout(flopPerSec / 1e12, sparsePeak(family, dense)))
      problems.warning(
          place->place,
          "'" + place->text + "' is the " + type +
              " peak with structured sparsity, training computes dense: " +
              printQuantity(dense * 1e12, Quantity::FlopPerSec));
  }
}

static void warnAboutLink(const Machine &machine, const DeviceFamily &family,
                          const YamlValue &root, Problems &problems) {
  const YamlValue *tiers = root.get("tiers");
  if (!tiers || tiers->items.empty() || machine.tiers.empty())
    return;
  const YamlValue *place = tiers->items.front().get("bandwidth");
  double link = family.linkGBPerSec * 1e9;
  double stated = machine.tiers.front().bytesPerSec;
  if (place && isAbout(stated, 2 * link))
    problems.warning(place->place,
                     "'" + place->text +
                         "' is the sum of both directions, a bandwidth here is "
                         "per device and direction: " +
                         printQuantity(link, Quantity::BytesPerSec));
}

void kerf::cluster::warnAboutDatasheets(const Machine &machine,
                                        const YamlValue &root,
                                        Problems &problems) {
  const DeviceFamily *family = familyOf(machine.device);
  if (!family)
    return;
  warnAboutPeaks(machine.device, *family, root, problems);
  warnAboutLink(machine, *family, root, problems);
}
