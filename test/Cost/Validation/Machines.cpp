//===- Machines.cpp - the cluster that a row ran on -----------------------===//

#include "Machines.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace kerf;
using namespace kerf::validate;

namespace {
/// How a device is found by name, and how it differs from a shipped
/// description. 0: as described there.
struct DeviceFigures {
  llvm::StringLiteral words; ///< all are words of the row's device
  llvm::StringLiteral cluster;
  double memoryGb = 0, memoryGBps = 0; ///< 1e9 bytes
  double bf16 = 0, fp8 = 0;            ///< TFLOP/s, dense
  double intraGBps = 0, interGBps = 0; ///< per device and direction
  int64_t nodeSize = 0;
};
} // namespace

/// Vendors' data sheets, as collected by stas00/ml-engineering
/// (compute/accelerator) unless said otherwise; the first line that matches
/// counts.
static constexpr DeviceFigures kDevices[] = {
    {"gb200", "gb200-nvl72"},
    {"gb300", "gb200-nvl72", 288, 8000, 2500, 5000, 900, 100},
    {"b300", "hgx-b200", 288, 8000, 2250, 4500, 900, 100},
    {"b200", "hgx-b200"},
    {"gh200", "hgx-h100", 96, 4000, 989, 1979, 450, 50, 1},
    {"h200", "hgx-h200"},
    // 500 W parts with HBM2e: pytorch/torchtitan says that their peak lies
    // between SXM (989) and NVL (835) and is not known; the middle is taken.
    {"h100 96", "hgx-h100", 96, 2400, 912, 1825, 450, 50},
    {"h100 pcie", "hgx-h100", 80, 2000, 756, 1513, 300, 25},
    {"h100 nvl", "hgx-h100", 94, 3900, 835, 1671, 300, 50},
    {"h100", "hgx-h100"},
    {"h800", "hgx-h100", 80, 3350, 989, 1979, 200, 50},
    {"h20", "hgx-h100", 96, 4000, 148, 296, 450, 50},
    {"a100 40", "dgx-a100-40g"},
    {"a100", "dgx-a100-80g"},
    {"a800", "dgx-a100-80g", 80, 2039, 312, 0, 200, 25},
    {"v100 dgx 2", "dgx2-v100"},
    {"v100", "dgx2-v100", 32, 900, 125, 0, 150, 12.5, 8},
    {"mi300x", "mi300x"},
    {"mi325x", "mi300x", 256, 6000, 1300, 2610, 448, 50},
    {"mi355x", "mi300x", 288, 8000, 2500, 5000, 512, 50},
    // One of the two dies of a card is a device.
    {"mi250x", "mi300x", 64, 1638, 191.5, 0, 50, 12.5},
    {"v5p", "tpu-v4", 95, 2760, 459, 0, 600, 600},
    {"v5e", "tpu-v4", 16, 820, 197, 0, 200, 200},
    {"v6e", "tpu-v4", 32, 1640, 918, 0, 448, 448},
    {"trillium", "tpu-v4", 32, 1640, 918, 0, 448, 448},
    {"tpu v4", "tpu-v4"},
    {"4090", "rtx4090-workstation"},
};

/// Memory is sold in GB and built in GiB: PyTorch reports "79.15 GiB total
/// capacity" on an A100 of 80 GB, 39.59 on one of 40 GB.
static constexpr double kBytesPerStatedByte = 79.15 / 80 * 1.073741824;

/// Words of letters and digits, lower case.
static std::vector<std::string> wordsOf(llvm::StringRef text) {
  std::vector<std::string> words;
  bool isInside = false;
  for (char c : text) {
    if (!llvm::isAlnum(c)) {
      isInside = false;
      continue;
    }
    if (!isInside)
      words.emplace_back();
    isInside = true;
    words.back() += llvm::toLower(c);
  }
  return words;
}

/// "a100 40" is found in "NVIDIA A100-SXM4-40GB".
static const DeviceFigures *findDevice(llvm::StringRef name) {
  std::vector<std::string> words = wordsOf(name);
  for (const DeviceFigures &figures : kDevices) {
    llvm::SmallVector<llvm::StringRef> wanted;
    figures.words.split(wanted, ' ');
    if (llvm::all_of(wanted, [&](llvm::StringRef word) {
          return llvm::is_contained(words, word) ||
                 llvm::is_contained(words, (word + "gb").str());
        }))
      return &figures;
  }
  return nullptr;
}

const Machine *MachineReader::read(llvm::StringRef name, std::string &why) {
  auto place = known.find(name.str());
  if (place != known.end())
    return &place->second;
  std::string path = folder + "/" + name.str() + ".yaml";
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    why = "cannot read '" + path + "': " + buffer.getError().message();
    return nullptr;
  }
  std::vector<MachineDiagnostic> diagnostics;
  std::optional<Machine> machine =
      readMachine((*buffer)->getBuffer(), diagnostics);
  if (!machine) {
    for (const MachineDiagnostic &diagnostic : diagnostics)
      if (diagnostic.isError)
        why = path + ":" + std::to_string(diagnostic.line) + ": " +
              diagnostic.message;
    return nullptr;
  }
  return &known.emplace(name.str(), std::move(*machine)).first->second;
}

static void setDevice(Device &device, const DeviceFigures &figures) {
  if (figures.memoryGb > 0)
    device.memoryBytes = figures.memoryGb * 1e9;
  if (figures.memoryGBps > 0)
    device.memoryBytesPerSec = figures.memoryGBps * 1e9;
  if (figures.bf16 > 0)
    device.peak = {{"bf16", figures.bf16 * 1e12}};
  if (figures.fp8 > 0)
    device.peak["fp8"] = figures.fp8 * 1e12;
  // Row kernels compute in f32 outside the matrix units: a fifteenth of the
  // bf16 peak on A100 and H100, and seldom what binds.
  if (figures.bf16 > 0)
    device.peak["f32"] = figures.bf16 / 15 * 1e12;
}

/// Attention of runs that were published before FlashAttention-3 and cuDNN 9:
/// FlashAttention-2 reaches at most 0.35 of an H100's peak (Shah et al. 2024,
/// arXiv 2407.08608), cuDNN's earlier kernels about 0.41 in training.
static void setAttention(Device &device, const DeviceFigures &figures,
                         const Row &row) {
  bool isHopper =
      figures.cluster == "hgx-h100" || figures.cluster == "hgx-h200";
  if (!isHopper || llvm::StringRef(row.source).contains("Megatron-Bridge"))
    return;
  device.efficiency.attention = 0.41;
  device.efficiency.attentionBackward = 0.85;
}

/// Bandwidths in GB/s, 0 for as described.
static void setNetwork(Machine &machine, int64_t nodeSize, double intra,
                       double inter) {
  if (machine.tiers.empty())
    return;
  if (nodeSize > 0)
    machine.tiers.front().size = nodeSize;
  if (intra > 0)
    machine.tiers.front().bytesPerSec = intra * 1e9;
  if (inter > 0)
    for (Tier &tier : llvm::drop_begin(machine.tiers))
      tier.bytesPerSec = inter * 1e9;
}

std::optional<Machine> MachineReader::machineOf(const Row &row,
                                                std::string &why) {
  const DeviceFigures *figures = findDevice(row.device);
  if (!figures) {
    why = "unknown device '" + row.device + "'";
    return std::nullopt;
  }
  // Hugging Face's cluster is AWS p5: elastic fabric adapters instead of
  // InfiniBand, with other latencies.
  bool isAws = figures->cluster == "hgx-h100" &&
               llvm::StringRef(row.source).contains("nanotron");
  const Machine *described =
      read(isAws ? "aws-p5-h100" : figures->cluster, why);
  if (!described)
    return std::nullopt;
  Machine machine = *described;
  setDevice(machine.device, *figures);
  setAttention(machine.device, *figures, row);
  machine.device.memoryBytes *= kBytesPerStatedByte;
  setNetwork(machine, figures->nodeSize, figures->intraGBps,
             figures->interGBps);
  setNetwork(machine, row.devicesPerNode.value_or(0), row.intraNode.value_or(0),
             row.interNode.value_or(0));
  return machine.withDevices(row.devices.value_or(1));
}

std::string kerf::validate::machineName(const Row &row) {
  std::string name = row.device;
  if (row.devicesPerNode)
    name += " x" + std::to_string(*row.devicesPerNode);
  if (row.interNode)
    name += llvm::formatv(" {0} GB/s", *row.interNode).str();
  return name;
}

std::string kerf::validate::deviceName(const Row &row) {
  const DeviceFigures *figures = findDevice(row.device);
  return figures ? figures->words.str() : "";
}
