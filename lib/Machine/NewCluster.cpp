//===- NewCluster.cpp - a description of a cluster from a few figures -----===//
//
// The device's part, its links, failures and price are taken from the shipped
// description that has it, comments and all: each figure has its source there.
// Only the network is new.
//
//===----------------------------------------------------------------------===//

#include "kerf/Machine/NewCluster.h"

#include "Units.h"

#include "kerf/Machine/Machine.h"
#include "kerf/Machine/Shipped.h"
#include "kerf/Support/Counts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace kerf;
using llvm::StringRef;

namespace {
/// A shipped description in parts of its text.
struct Template {
  Machine machine;
  std::string device; ///< "device:" and what follows, with comments
  std::string link;   ///< the innermost tier with its comment
  std::string rest;   ///< behind the tiers
};
} // namespace

/// Splits a description at its keys. Files of examples/clusters have a tier on
/// a line, and comments stand before what they are of.
static Template partsOf(StringRef text, Machine machine) {
  Template parts;
  parts.machine = std::move(machine);
  enum { Head, InDevice, InTiers, Behind } at = Head;
  bool hasLink = false;
  for (StringRef line : llvm::split(text.rtrim(), '\n')) {
    bool isKey = !line.empty() && !line.starts_with(" ");
    if (line.starts_with("device:"))
      at = InDevice;
    else if (line.starts_with("tiers:"))
      at = InTiers;
    else if (at == InTiers && isKey)
      at = Behind;
    if (at == InDevice)
      parts.device += line.str() + "\n";
    else if (at == InTiers && !hasLink && !line.starts_with("tiers:"))
      parts.link += line.str() + "\n";
    else if (at == Behind)
      parts.rest += line.str() + "\n";
    hasLink |= at == InTiers && line.ltrim().starts_with("- ");
  }
  return parts;
}

/// One description of each device: the one that says most of it.
static std::vector<Template> templates() {
  std::vector<Template> all;
  for (const ShippedCluster &shipped : shippedClusters()) {
    std::vector<MachineDiagnostic> ignored; // tests read them all
    std::optional<Machine> machine = readMachine(shipped.text, ignored);
    if (!machine || machine->device.target == BackendTarget::Cpu)
      continue;
    Template own = partsOf(shipped.text, std::move(*machine));
    auto known = llvm::find_if(all, [&](const Template &one) {
      return one.machine.device.name == own.machine.device.name;
    });
    if (known == all.end())
      all.push_back(std::move(own));
    else if (known->device.size() < own.device.size())
      *known = std::move(own);
  }
  return all;
}

std::vector<std::string> kerf::knownDevices() {
  std::vector<std::string> names;
  for (const Template &one : templates())
    names.push_back(one.machine.device.name);
  llvm::sort(names);
  return names;
}

static std::string lettersOf(StringRef name) {
  std::string letters;
  for (char c : name)
    if (llvm::isAlnum(c))
      letters += llvm::toLower(c);
  return letters;
}

/// Whether a name's first parts are those of a device: "h100" and "h100-sxm"
/// are of "h100-sxm-80g", "l40" is another chip than "l40s-48g".
static bool beginsParts(StringRef device, StringRef wanted) {
  std::string parts;
  while (!device.empty()) {
    auto [part, rest] = device.split('-');
    parts += lettersOf(part);
    if (parts == wanted)
      return true;
    device = rest;
  }
  return false;
}

/// The one description whose device has this name, or one that begins so.
static std::optional<Template> findTemplate(StringRef name,
                                            std::string &error) {
  std::vector<Template> exact, found;
  std::string wanted = lettersOf(name);
  std::vector<Template> known = templates();
  for (Template &one : known) {
    StringRef all = one.machine.device.name;
    if (lettersOf(all) == wanted || lettersOf(all.split('-').first) == wanted)
      exact.push_back(std::move(one));
    else if (beginsParts(all, wanted))
      found.push_back(std::move(one));
  }
  if (!exact.empty())
    found = std::move(exact);
  if (found.size() == 1)
    return std::move(found.front());
  std::vector<std::string> names;
  for (const Template &one : found)
    names.push_back(one.machine.device.name);
  if (found.empty())
    names = knownDevices();
  error = (found.empty() ? "no device is called '"
                         : "several devices begin with '") +
          name.str() + "': " + llvm::join(names, ", ");
  if (found.empty())
    error +=
        "; for another one write a description (docs/rationale/Machine.md) "
        "or measure it with kerf-run --calibrate";
  return std::nullopt;
}

std::optional<double> kerf::readNic(StringRef text) {
  text = text.trim();
  int64_t ports = 1;
  auto [count, port] = text.split('x');
  if (!port.empty() && !count.trim().getAsInteger(10, ports)) {
    if (ports < 1)
      return std::nullopt;
    text = port.trim();
  }
  std::string figure = text.str();
  for (StringRef ending : {"GbE", "GE", "Gbps", "G"})
    if (text.ends_with(ending)) {
      figure = text.drop_back(ending.size()).trim().str() + " Gb/s";
      break;
    }
  cluster::ReadQuantity read =
      cluster::readQuantity(figure, cluster::Quantity::BytesPerSec);
  if (read.error != cluster::QuantityError::None || !(read.value > 0))
    return std::nullopt;
  return static_cast<double>(ports) * read.value;
}

/// The line of the innermost tier with the number of devices of a computer.
static std::string linkWith(const Template &parts, int64_t perNode) {
  std::string text;
  for (StringRef line : llvm::split(StringRef(parts.link).rtrim(), '\n')) {
    auto [before, after] = line.split(", size: ");
    if (!line.ltrim().starts_with("- ") || after.empty()) {
      text += line.str() + "\n";
      continue;
    }
    text += before.str() + ", size: " + std::to_string(perNode) +
            after.drop_while(llvm::isDigit).str() + "\n";
  }
  return text;
}

/// What the innermost tier of the template cannot say; "": it can.
static std::string whyNoLink(const Template &parts, int64_t perNode) {
  if (parts.machine.tiers.empty())
    return "";
  const Tier &tier = parts.machine.tiers.front();
  if (tier.kind == TierKind::Torus && perNode != tier.size)
    return "'" + parts.machine.device.name + "' lies in a torus of " +
           std::to_string(tier.size) +
           ": take --per-node=" + std::to_string(tier.size) +
           ", or write its shape by hand";
  return "";
}

/// The tier between computers.
static std::string networkOf(const ClusterFigures &figures,
                             double bytesPerSec) {
  // Above this the usual cards do RDMA.
  constexpr double kRdma = 100e9 / 8;
  bool isRdma = bytesPerSec >= kRdma * 0.99;
  std::string text =
      "  # --nic=" + figures.nic + ": of a computer, shared by its " +
      countOf(double(figures.perNode), "device") +
      ", per direction.\n"
      "  # Latency: assumption, " +
      (isRdma ? "RDMA (InfiniBand or RoCE); of TCP it would be about 50 us.\n"
              : "TCP; of RDMA it would be about 5 us.\n");
  return text + "  - {name: network, size: " + std::to_string(figures.nodes) +
         ", bandwidth: " +
         cluster::printQuantity(bytesPerSec / double(figures.perNode),
                                cluster::Quantity::BytesPerSec) +
         ", latency: " + (isRdma ? "5 us" : "50 us") + "}\n";
}

static std::string headOf(const ClusterFigures &figures, StringRef name) {
  return "# Written by kerfc --new-cluster" + figures.arguments +
         ".\n"
         "# Every figure may be changed: docs/rationale/Machine.md has the "
         "fields. What is said to be\n"
         "# an assumption is worth a measurement: kerf-run --calibrate.\n"
         "name: " +
         name.str() + "\n";
}

std::optional<std::string> kerf::newCluster(const ClusterFigures &figures,
                                            std::string &error) {
  std::optional<Template> parts = findTemplate(figures.device, error);
  if (!parts)
    return std::nullopt;
  constexpr int64_t kMost = 1'000'000;
  if (figures.perNode < 1 || figures.nodes < 1 || figures.perNode > kMost ||
      figures.nodes > kMost) {
    error = "expected 1 to 1,000,000 as --per-node and --nodes, found " +
            std::to_string(figures.perNode) + " and " +
            std::to_string(figures.nodes);
    return std::nullopt;
  }
  std::optional<double> nic = readNic(figures.nic);
  if (figures.nodes > 1 && !nic) {
    error = "expected what the network ports of a computer carry as --nic, "
            "such as 25GbE, 8x400Gb/s or 50 GB/s, found '" +
            figures.nic + "'";
    return std::nullopt;
  }
  if (error = whyNoLink(*parts, figures.perNode); !error.empty())
    return std::nullopt;
  std::string name = figures.name;
  if (name.empty())
    name = parts->machine.device.name + "-" + std::to_string(figures.nodes) +
           "x" + std::to_string(figures.perNode);
  std::string text = headOf(figures, name) + parts->device + "tiers:\n" +
                     linkWith(*parts, figures.perNode);
  if (figures.nodes > 1)
    text += networkOf(figures, *nic);
  return text + parts->rest;
}
