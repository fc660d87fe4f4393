//===- PrintMachine.cpp - the described cluster to YAML -------------------===//

#include "Units.h"

#include "kerf/Machine/Machine.h"

#include "llvm/ADT/STLExtras.h"
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

static void printType(const TypeEfficiency &type, llvm::raw_ostream &os) {
  os << "{depth: " << number(type.depth)
     << ", attention_keys: " << number(type.attentionKeys);
  if (type.attention > 0)
    os << ", attention: " << number(type.attention);
  if (type.attentionBackward > 0)
    os << ", attention_backward: " << number(type.attentionBackward);
  if (!type.rows.empty()) {
    os << ", rows: {";
    llvm::interleaveComma(type.rows, os, [&](const auto &point) {
      os << point.first << ": " << number(point.second);
    });
    os << "}";
  }
  os << "}";
}

static void printEfficiency(const Efficiency &part, llvm::raw_ostream &os) {
  os << "efficiency: {matmul: " << number(part.matmul)
     << ", attention: " << number(part.attention)
     << ", attention_backward: " << number(part.attentionBackward)
     << ", memory: " << number(part.memory)
     << ", network: " << number(part.network);
  if (!part.types.empty()) {
    os << ", by_type: {";
    llvm::interleaveComma(part.types, os, [&](const auto &entry) {
      os << entry.first << ": ";
      printType(entry.second, os);
    });
    os << "}";
  }
  os << "}";
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
  os << "\n  launch: " << time(device.launchSec) << "\n";
  if (device.powerWatt > 0)
    os << "  power: " << printQuantity(device.powerWatt, Quantity::Watts)
       << "\n";
  if (device.target == BackendTarget::Cuda)
    os << "  backend: {target: cuda, arch: " << device.arch << "}\n";
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
