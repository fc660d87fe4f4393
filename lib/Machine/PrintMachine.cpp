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

static void printDevice(const Device &device, llvm::raw_ostream &os) {
  os << "device:\n  name: " << device.name
     << "\n  memory: " << size(device.memoryBytes)
     << "\n  reserved: " << size(device.reservedBytes)
     << "\n  memory_bandwidth: " << rate(device.memoryBytesPerSec)
     << "\n  peak: {";
  llvm::interleaveComma(device.peak, os, [&](const auto &entry) {
    os << entry.first << ": "
       << printQuantity(entry.second, Quantity::FlopPerSec);
  });
  const Efficiency &part = device.efficiency;
  os << "}\n  efficiency: {matmul: " << number(part.matmul)
     << ", attention: " << number(part.attention)
     << ", attention_backward: " << number(part.attentionBackward)
     << ", memory: " << number(part.memory)
     << ", network: " << number(part.network)
     << "}\n  launch: " << time(device.launchSec) << "\n";
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
  printRest(machine, os);
  return text;
}
