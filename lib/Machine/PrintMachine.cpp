//===- PrintMachine.cpp - the described cluster to YAML -------------------===//

#include "Units.h"

#include "kerf/Machine/Machine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using namespace kerf::cluster;

static std::string size(double bytes) {
  return printQuantity(bytes, Quantity::Bytes);
}
static std::string rate(double bytesPerSec) {
  return printQuantity(bytesPerSec, Quantity::BytesPerSec);
}
static std::string time(double sec) {
  return printQuantity(sec, Quantity::Seconds);
}
static std::string number(double value) {
  return printQuantity(value, Quantity::Number);
}

static void printPeak(const std::map<std::string, double> &peak,
                      llvm::raw_ostream &os) {
  os << "peak: {";
  llvm::interleaveComma(peak, os, [&](const auto &entry) {
    os << entry.first << ": "
       << printQuantity(entry.second, Quantity::FlopPerSec);
  });
  os << "}";
}

static void printRows(llvm::ArrayRef<std::pair<int64_t, double>> rows,
                      llvm::raw_ostream &os) {
  os << ", rows: {";
  llvm::interleaveComma(rows, os, [&](const auto &point) {
    os << point.first << ": " << number(point.second);
  });
  os << "}";
}

/// In single quotes, which YAML reads as they stand but for themselves.
static std::string quoted(llvm::StringRef source) {
  llvm::SmallVector<llvm::StringRef> parts;
  source.split(parts, '\'');
  return "'" + llvm::join(parts, "''") + "'";
}

/// A number, with its source as a map.
static std::string figure(double value, const std::string &source) {
  if (source.empty())
    return number(value);
  return "{value: " + number(value) + ", source: " + quoted(source) + "}";
}

static std::string sourceOf(const std::map<std::string, std::string> &sources,
                            const std::string &field) {
  auto it = sources.find(field);
  return it == sources.end() ? "" : it->second;
}

static void printMatmul(const Efficiency &part, llvm::raw_ostream &os) {
  std::string source = sourceOf(part.sources, "matmul");
  os << "matmul: ";
  if (!part.depth && part.rows.empty()) {
    os << figure(part.matmul, source);
    return;
  }
  os << "{value: " << number(part.matmul);
  if (!source.empty())
    os << ", source: " << quoted(source);
  if (part.depth)
    os << ", depth: " << number(*part.depth);
  if (!part.rows.empty())
    printRows(part.rows, os);
  os << "}";
}

static void printType(const TypeEfficiency &type, const std::string &source,
                      llvm::raw_ostream &os) {
  os << "{depth: " << number(type.depth)
     << ", attention_keys: " << number(type.attentionKeys);
  if (type.attention > 0)
    os << ", attention: " << number(type.attention);
  if (type.attentionBackward > 0)
    os << ", attention_backward: " << number(type.attentionBackward);
  if (!source.empty())
    os << ", source: " << quoted(source);
  if (!type.rows.empty())
    printRows(type.rows, os);
  os << "}";
}

static void printEfficiency(const Efficiency &part, llvm::raw_ostream &os) {
  os << "efficiency: {";
  printMatmul(part, os);
  auto print = [&](const char *field, double value) {
    os << ", " << field << ": " << figure(value, sourceOf(part.sources, field));
  };
  if (part.groupedMatmul > 0)
    print("grouped_matmul", part.groupedMatmul);
  print("attention", part.attention);
  print("attention_backward", part.attentionBackward);
  if (part.attentionKeys > 0)
    print("attention_keys", part.attentionKeys);
  print("memory", part.memory);
  print("network", part.network);
  if (!part.types.empty()) {
    os << ", by_type: {";
    llvm::interleaveComma(part.types, os, [&](const auto &entry) {
      os << entry.first << ": ";
      printType(entry.second, sourceOf(part.sources, "by_type." + entry.first),
                os);
    });
    os << "}";
  }
  os << "}";
}

static void printHidden(const HiddenTraffic &hidden, llvm::raw_ostream &os) {
  llvm::SmallVector<std::string, 3> shares;
  auto add = [&](const char *field, std::optional<double> share) {
    if (share)
      shares.push_back(std::string(field) + ": " +
                       figure(*share, sourceOf(hidden.sources, field)));
  };
  add("layers", hidden.layers);
  add("gradients", hidden.gradients);
  add("weights", hidden.weights);
  if (!shares.empty())
    os << "  hidden: {" << llvm::join(shares, ", ") << "}\n";
}

static std::string reserved(const Device &device) {
  if (device.contextBytes + device.libraryBytes + device.connectionBytes == 0)
    return size(device.reservedBytes);
  return "{context: " + size(device.contextBytes) +
         ", libraries: " + size(device.libraryBytes) +
         ", connection: " + size(device.connectionBytes) + "}";
}

static void printDevice(const Device &device, llvm::raw_ostream &os) {
  os << "device:\n  name: " << device.name
     << "\n  memory: " << size(device.memoryBytes)
     << "\n  reserved: " << reserved(device)
     << "\n  memory_bandwidth: " << rate(device.memoryBytesPerSec) << "\n  ";
  printPeak(device.peak, os);
  os << "\n  ";
  printEfficiency(device.efficiency, os);
  os << "\n";
  printHidden(device.hidden, os);
  os << "  headroom: " << figure(device.headroom, device.headroomSource)
     << "\n  launch: " << time(device.launchSec) << "\n";
  if (device.powerWatt > 0)
    os << "  power: " << printQuantity(device.powerWatt, Quantity::Watts)
       << "\n";
  if (device.target == BackendTarget::Cuda)
    os << "  backend: {target: cuda, arch: " << device.arch
       << (device.processors > 0
               ? ", processors: " + std::to_string(device.processors)
               : "")
       << "}\n";
  else
    os << "  backend: "
       << (device.target == BackendTarget::Cpu ? "{target: cpu}" : "none")
       << "\n";
  if (device.shared)
    os << "  shared: true\n";
}

static void printTier(const Tier &tier, llvm::raw_ostream &os) {
  os << "  - {name: " << tier.name << ", size: " << tier.size;
  if (tier.kind == TierKind::Torus) {
    os << ", kind: torus, dims: [";
    llvm::interleaveComma(tier.dims, os);
    os << "]";
  }
  os << ", bandwidth: " << rate(tier.bytesPerSec)
     << ", latency: " << time(tier.latencySec);
  if (tier.oversubscription != 1)
    os << ", oversubscription: " << number(tier.oversubscription);
  os << "}\n";
}

static void printShared(const SharedFigures &figures, llvm::raw_ostream &os) {
  os << "  - {ranks: " << figures.ranks
     << ", memory_bandwidth: " << rate(figures.memoryBytesPerSec) << ", ";
  printPeak(figures.peak, os);
  os << ", ";
  printEfficiency(figures.efficiency, os);
  if (figures.bytesPerSec > 0)
    os << ", bandwidth: " << rate(figures.bytesPerSec);
  if (figures.latencySec > 0)
    os << ", latency: " << time(figures.latencySec);
  os << "}\n";
}

static void printRest(const Machine &machine, llvm::raw_ostream &os) {
  if (const auto &host = machine.host)
    os << "host: {memory: " << size(host->memoryBytes)
       << ", bandwidth: " << rate(host->bytesPerSec) << "}\n";
  if (const auto &reliability = machine.reliability)
    os << "reliability: {device_mtbf: " << time(reliability->deviceMtbfSec)
       << ", restart: " << time(reliability->restartSec)
       << ", checkpoint_bandwidth: " << rate(reliability->checkpointBytesPerSec)
       << "}\n";
  if (const auto &storage = machine.storage)
    os << "storage: {unit_bandwidth: " << rate(storage->unitBytesPerSec)
       << ", bandwidth: " << rate(storage->bytesPerSec) << "}\n";
  if (const auto &price = machine.price)
    os << "price: {device_hour: " << number(price->deviceHour)
       << ", currency: " << price->currency << ", carbon: "
       << printQuantity(price->carbonKgPerKwh, Quantity::KgPerKwh)
       << ", pue: " << number(price->pue) << "}\n";
}

std::string kerf::printMachine(const Machine &machine) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "name: " << machine.name << "\n";
  printDevice(machine.device, os);
  if (!machine.tiers.empty()) {
    os << "tiers:\n";
    for (const Tier &tier : machine.tiers)
      printTier(tier, os);
  }
  if (!machine.sharedBy.empty()) {
    os << "by_ranks:\n";
    for (const SharedFigures &figures : machine.sharedBy)
      printShared(figures, os);
  }
  printRest(machine, os);
  return text;
}
