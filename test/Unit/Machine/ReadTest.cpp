//===- ReadTest.cpp - descriptions that are right -------------------------===//

#include "kerf/Machine/Machine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace kerf;
using llvm::StringRef;

namespace {

/// Reads `text`; any problem, also a warning (but that of `host`), fails the
/// test.
Machine read(const std::string &text) {
  std::vector<MachineDiagnostic> diagnostics;
  std::optional<Machine> machine = readMachine(text, diagnostics);
  for (const MachineDiagnostic &diagnostic : diagnostics)
    if (!StringRef(diagnostic.message).starts_with("field 'host' is read"))
      ADD_FAILURE() << diagnostic.line << ":" << diagnostic.column << ": "
                    << diagnostic.message << "\n"
                    << text;
  return machine.value_or(Machine());
}

/// A description with `memory` for its device and `field` as a line more.
std::string device(StringRef memory, StringRef field = "") {
  return "name: m\ndevice:\n  name: d\n  memory: " + memory.str() +
         "\n  memory_bandwidth: 1 TB/s\n  peak: {f32: 1 TFLOP/s}\n" +
         (field.empty() ? "" : "  " + field.str() + "\n");
}

std::vector<std::string> shippedFiles() {
  std::error_code error;
  std::vector<std::string> files;
  std::string folder = KERF_SOURCE_DIR "/examples/clusters";
  for (llvm::sys::fs::directory_iterator entry(folder, error), end;
       entry != end && !error; entry.increment(error))
    files.push_back(entry->path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string contents(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(buffer) << path;
  return buffer ? (*buffer)->getBuffer().str() : "";
}

Machine shipped(const std::string &name) {
  return read(contents(KERF_SOURCE_DIR "/examples/clusters/" + name + ".yaml"));
}

/// `text` with the peak of a number type doubled, or set to `sparse` in the
/// same unit where that is not 0; "" where it states none.
std::string withSparsePeak(const std::string &text, StringRef type,
                           double sparse) {
  size_t peaks = text.find("  peak: {"), end = text.find('}', peaks);
  size_t at = text.find(type.str() + ": ", peaks);
  if (at == std::string::npos || at > end)
    return "";
  at += type.size() + 2;
  size_t unit = text.find(' ', at);
  double dense = std::stod(text.substr(at, unit - at));
  return text.substr(0, at) + std::to_string(sparse > 0 ? sparse : 2 * dense) +
         text.substr(unit);
}

// The peak with sparsity, which datasheets print first, draws a warning for
// every chip that has one, in each of its number types.
TEST(ReadMachine, SparsePeaksAreToldOfAllShippedChips) {
  int64_t chips = 0;
  for (const std::string &path : shippedFiles()) {
    StringRef name = llvm::sys::path::stem(path);
    std::string text = contents(path);
    bool hasSparsity = !name.starts_with("tpu") && name != "this-machine" &&
                       name != "dgx2-v100";
    chips += hasSparsity;
    for (StringRef type : {"bf16", "f16", "tf32", "fp8"}) {
      std::string sparse =
          withSparsePeak(text, type, name == "trn2" ? 2563 : 0);
      if (sparse.empty())
        continue;
      std::vector<MachineDiagnostic> found;
      (void)readMachine(sparse, found);
      bool isTold = llvm::any_of(found, [&](const MachineDiagnostic &each) {
        return StringRef(each.message)
            .contains(type.str() + " peak with structured sparsity");
      });
      EXPECT_EQ(isTold, hasSparsity) << name.str() << " " << type.str();
    }
  }
  EXPECT_EQ(chips, 17);
}

// Each unit means what standards say: decimal and binary bytes, bits, times.
TEST(ReadMachine, Units) {
  std::pair<const char *, double> sizes[] = {{"7 B", 7},
                                             {"80 GB", 80e9},
                                             {"80GB", 80e9},
                                             {"1.5 TB", 1.5e12},
                                             {"2 MB", 2e6},
                                             {"3 kB", 3000},
                                             {"80 GiB", 80.0 * (1 << 30)},
                                             {"1 KiB", 1024},
                                             {"4 MiB", 4194304},
                                             {"0.5 TiB", 549755813888.},
                                             {"8e1 GB", 80e9},
                                             {"+.08e3 GB", 80e9},
                                             {"'80 GB'", 80e9},
                                             {"\"80 GB\"", 80e9}};
  for (auto [text, bytes] : sizes)
    EXPECT_EQ(read(device(text)).device.memoryBytes, bytes) << text;

  std::pair<const char *, double> times[] = {
      {"1 s", 1},     {"250 ms", 0.25},    {"4 us", 4e-6},
      {"7 ns", 7e-9}, {"0.001 min", 0.06}, {"0.0001 h", 0.36}};
  for (auto [text, sec] : times)
    EXPECT_DOUBLE_EQ(
        read(device("1 GB", std::string("launch: ") + text)).device.launchSec,
        sec)
        << text;

  std::pair<const char *, double> rates[] = {
      {"400 Gb/s", 50e9},  {"8 b/s", 1},          {"1.6 Tb/s", 200e9},
      {"10 Mb/s", 1.25e6}, {"8 kb/s", 1000},      {"3 MB/s", 3e6},
      {"5 kB/s", 5000},    {"3.35 TB/s", 3.35e12}};
  for (auto [text, rate] : rates)
    EXPECT_EQ(
        read(device("1 GB") + "host: {memory: 1 GB, bandwidth: " + text + "}\n")
            .host->bytesPerSec,
        rate)
        << text;

  EXPECT_EQ(read(device("1 GB", "power: 1.2 kW")).device.powerWatt, 1200);
  EXPECT_EQ(read(device("1 GB") +
                 "price: {device_hour: 0, currency: EUR, carbon: 380 g/kWh}\n")
                .price->carbonKgPerKwh,
            0.38);
}

// A number is the double next to what is written, not a product of two rounded
// ones: 4.1 * 1e12 is 1100000000000.0002.
TEST(ReadMachine, NumbersAreTheNearestDoubles) {
  ASSERT_NE(4.1 * 1e12, 4.1e12);
  EXPECT_EQ(read(device("4.1 TB")).device.memoryBytes, 4.1e12);
}

// Every field of the format arrives, in block form, with comments and quotes.
TEST(ReadMachine, EveryField) {
  Machine machine = read(R"(---
name: "dgx"   # a comment
device:
  name: 'chip-1'
  memory: 80 GB
  reserved: 3 GB
  memory_bandwidth: 3 TB/s
  peak:
    bf16: 900 TFLOP/s
    f64: 1 GFLOP/s
  efficiency:
    matmul: 0.5
    attention: 1
    attention_backward: 1.5
    memory: 0.25
    network: 0.125
    by_type:
      f32: {attention: 0.75, attention_backward: 1.25, attention_keys: 90,
            depth: 6, rows: {32: 0.5, 128: 0.4, 512: 1}}
  launch: 4 us
  power: 700 W
  backend:
    target: cuda
    arch: sm_90a
    processors: 114
  shared: true
tiers:
- name: inner
  size: 4
  bandwidth: 100 GB/s
  latency: 1 us
- name: outer
  size: 12
  kind: torus
  dims:
  - 4
  - 3
  bandwidth: 10 GB/s
  latency: 2 us
  oversubscription: 2.5
by_ranks:
- {ranks: 2, peak: {bf16: 800 TFLOP/s}, efficiency: {matmul: 0.375}}
- {ranks: 4, memory_bandwidth: 2 TB/s, bandwidth: 50 GB/s, latency: 3 us}
host: {memory: 2 TB, bandwidth: 55 GB/s}
reliability: {device_mtbf: 50000 h, restart: 3 min, checkpoint_bandwidth: 2 GB/s}
storage: {unit_bandwidth: 10 GB/s, bandwidth: 200 GB/s}
price: {device_hour: 2.5, currency: USD, carbon: 0.4 kg/kWh, pue: 1.25}
)");
  Machine expected;
  expected.device.headroom = 0.03;
  expected.device.headroomSource = "assumed";
  expected.name = "dgx";
  Device &device = expected.device;
  device.name = "chip-1";
  device.memoryBytes = 80e9;
  device.reservedBytes = 3e9;
  device.memoryBytesPerSec = 3e12;
  device.peak = {{"bf16", 900e12}, {"f64", 1e9}};
  device.efficiency = {0.5, 1, 1.5, 0.25, 0.125};
  device.efficiency.types["f32"] = {
      0.75, 1.25, 90, {{32, 0.5}, {128, 0.4}, {512, 1}}, 6};
  device.launchSec = 4e-6;
  device.powerWatt = 700;
  device.target = BackendTarget::Cuda;
  device.arch = "sm_90a";
  device.processors = 114;
  device.shared = true;
  expected.tiers = {
      {"inner", TierKind::Switch, 4, {}, 100e9, 1e-6, 1},
      {"outer", TierKind::Torus, 12, {4, 3}, 10e9, 2e-6, 2.5},
  };
  // What an entry leaves out is as with fewer ranks, in the end the device's.
  SharedFigures figures = {1, 3e12, device.peak, device.efficiency, 0, 0};
  expected.sharedBy = {figures};
  figures.ranks = 2;
  figures.peak["bf16"] = 800e12;
  figures.efficiency.matmul = 0.375;
  expected.sharedBy.push_back(figures);
  figures.ranks = 4;
  figures.memoryBytesPerSec = 2e12;
  figures.bytesPerSec = 50e9;
  figures.latencySec = 3e-6;
  expected.sharedBy.push_back(figures);
  expected.host = {2e12, 55e9};
  expected.reliability = {50000 * 3600., 180, 2e9};
  expected.storage = {10e9, 200e9};
  expected.price = {2.5, "USD", 0.4, 1.25};
  EXPECT_EQ(machine, expected);
  EXPECT_EQ(read(printMachine(machine)), machine);
}

// Figures may have a source; those that say nothing of it have none.
TEST(ReadMachine, Assumptions) {
  Machine machine =
      read(device("24 GB", R"(headroom: {value: 0, source: it's us}
  hidden: {layers: {value: 0.25, source: "a: b"}, weights: 1}
  efficiency:
    matmul: {source: ours, depth: 32, rows: {64: 0.5, 256: 1}}
    grouped_matmul: 0.5
    memory: {value: 0.9, source: "run of May"}
    by_type: {f32: {depth: 1, source: ours}})"));
  const Device &own = machine.device;
  EXPECT_EQ(own.headroom, 0);
  EXPECT_EQ(own.headroomSource, "it's us");
  EXPECT_EQ(own.hidden.layers, 0.25);
  EXPECT_EQ(own.hidden.gradients, std::nullopt);
  EXPECT_EQ(own.hidden.weights, 1);
  std::map<std::string, std::string> sources = {{"layers", "a: b"}};
  EXPECT_EQ(own.hidden.sources, sources);
  const Efficiency &part = own.efficiency;
  EXPECT_EQ(part.matmul, 0.8);
  EXPECT_EQ(part.depth, 32);
  EXPECT_EQ(part.rows.size(), 2u);
  EXPECT_EQ(part.groupedMatmul, 0.5);
  EXPECT_EQ(part.memory, 0.9);
  EXPECT_EQ(part.sources.at("matmul"), "ours");
  EXPECT_EQ(part.sources.at("memory"), "run of May");
  EXPECT_EQ(part.sources.at("by_type.f32"), "ours");
  EXPECT_EQ(part.sources.count("grouped_matmul"), 0u);
  EXPECT_EQ(part.sources.at("attention"), "assumed: half of 'matmul'");
  EXPECT_EQ(read(printMachine(machine)), machine);
}

// One device needs no tiers, and nothing that is optional.
TEST(ReadMachine, OneDevice) {
  Machine machine = read(device("24 GB"));
  EXPECT_TRUE(machine.tiers.empty());
  EXPECT_EQ(machine.describedDevices(), 1);
  EXPECT_EQ(machine.withDevices(4).describedDevices(), 1);
  EXPECT_EQ(machine.device.target, BackendTarget::None);
  EXPECT_EQ(read(device("24 GB", "backend: none")), machine);
  EXPECT_EQ(read(device("24 GB", "backend: {target: cpu}")).device.target,
            BackendTarget::Cpu);
  EXPECT_FALSE(machine.host || machine.reliability || machine.price);
}

// What a description leaves out of `efficiency` comes from the device's family,
// by name or else by peak, and is a legal part.
TEST(ReadMachine, EfficiencyByFamily) {
  auto efficiency = [](const char *name, const char *peak,
                       const char *field = "") {
    std::string text = device("1 GB", field);
    text.replace(text.find("name: d"), 7, std::string("name: ") + name);
    text.replace(text.find("f32: 1 TFLOP/s"), 14, peak);
    return read(text).device.efficiency;
  };
  EXPECT_DOUBLE_EQ(efficiency("H100-x", "bf16: 900 TFLOP/s").matmul,
                   794.5 / 989);
  EXPECT_DOUBLE_EQ(efficiency("my-gpu", "bf16: 989.4 TFLOP/s").matmul,
                   794.5 / 989);
  EXPECT_DOUBLE_EQ(efficiency("gb200", "bf16: 2.5 PFLOP/s").matmul,
                   1822. / 2500);
  EXPECT_DOUBLE_EQ(efficiency("b200", "bf16: 2.25 PFLOP/s").matmul,
                   1745. / 2250);
  EXPECT_DOUBLE_EQ(efficiency("unknown", "bf16: 555 TFLOP/s").matmul, 0.8);
  // A CPU is no H100 whatever it is called.
  EXPECT_DOUBLE_EQ(
      efficiency("h100", "f32: 1 TFLOP/s", "backend: {target: cpu}").matmul,
      0.8);
  // What is known of an H100's grouped matmuls follows its own.
  EXPECT_EQ(efficiency("unknown", "bf16: 555 TFLOP/s").groupedMatmul, 0);
  EXPECT_DOUBLE_EQ(efficiency("h100", "bf16: 989 TFLOP/s").groupedMatmul,
                   0.75 * 794.5 / 989);
  EXPECT_DOUBLE_EQ(efficiency("h100", "bf16: 989 TFLOP/s").attention, 0.62);
  Efficiency partly =
      efficiency("a100", "bf16: 312 TFLOP/s", "efficiency: {network: 0.5}");
  EXPECT_DOUBLE_EQ(partly.network, 0.5);
  EXPECT_DOUBLE_EQ(partly.matmul, 271.2 / 312);
  EXPECT_DOUBLE_EQ(partly.attention, 0.45);
}

// Every shipped description is read without a word, says what its name says,
// and comes back equal from its print.
TEST(Shipped, ReadAndPrintedAgain) {
  std::vector<std::string> files = shippedFiles();
  EXPECT_EQ(files.size(), 21u);
  for (const std::string &file : files) {
    Machine machine = read(contents(file));
    EXPECT_FALSE(machine.host) << file; // It would be warned of.
    EXPECT_EQ(machine.name, llvm::sys::path::stem(file).str());
    EXPECT_EQ(read(printMachine(machine)), machine) << file;
    EXPECT_GT(machine.device.peak.count("bf16") +
                  machine.device.peak.count("f16"),
              0u)
        << file;
    EXPECT_TRUE(machine.price) << file;
  }
}

// Shipped descriptions have any number of devices, rounded up to whole units.
TEST(Shipped, AnyNumberOfDevices) {
  for (const std::string &file : shippedFiles()) {
    Machine machine = read(contents(file));
    for (int64_t count : {1, 2, 3, 8, 72, 1024, 16384, 25000}) {
      Machine part = machine.withDevices(count);
      EXPECT_GE(part.describedDevices(), count) << file;
      EXPECT_EQ(read(printMachine(part)), part) << file;
    }
    EXPECT_EQ(machine.withDevices(1).describedDevices(), 1) << file;
  }
}

// Figures that the field knows by heart.
TEST(Shipped, KnownFigures) {
  Machine h100 = shipped("hgx-h100");
  EXPECT_EQ(h100.device.peak.at("bf16"), 989e12);
  EXPECT_EQ(h100.device.memoryBytes, 80e9);
  EXPECT_EQ(h100.device.arch, "sm_90");
  EXPECT_EQ(h100.tiers[0].bytesPerSec, 450e9);
  EXPECT_EQ(h100.tiers[1].bytesPerSec, 50e9);
  EXPECT_EQ(shipped("dgx-a100-80g").tiers[1].bytesPerSec, 25e9);
  EXPECT_EQ(shipped("dgx2-v100").device.peak.count("bf16"), 0u);
  EXPECT_EQ(shipped("gb200-nvl72").tiers[0].size, 72);
  EXPECT_EQ(shipped("tpu-v4").tiers[0].dims,
            (llvm::SmallVector<int64_t, 3>{16, 16, 16}));
  EXPECT_TRUE(shipped("this-machine").device.shared);
}

// Printed numbers are exact: seeded random doubles of all magnitudes come back
// to the last bit.
TEST(PrintMachine, RandomNumbersAreExact) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(0, 17.9), fraction(0, 1);
  auto draw = [&](double most) {
    double value = std::pow(10, exponent(random) - 18) * most;
    // Whole binary sizes and hours are printed in other units.
    double unit = random() % 2 ? 3600 : 1073741824;
    bool isWhole = random() % 3 == 0 && value > 2 * unit;
    return isWhole ? std::floor(value / unit) * unit : value;
  };
  Machine machine = read(device("1 GB"));
  for (int i = 0; i < 500; ++i) {
    Device &device = machine.device;
    device.memoryBytes = draw(1e18);
    device.reservedBytes = device.memoryBytes / 2;
    device.memoryBytesPerSec = draw(1e18);
    device.peak = {{"f32", draw(1e21)}, {"fp8", draw(1e21)}};
    device.efficiency.matmul = 1 - fraction(random);
    device.efficiency.types["f32"] = {
        1 - fraction(random), 0, draw(1e6), {{7, 1 - fraction(random)}}, 0};
    device.launchSec = draw(1);
    device.powerWatt = draw(1e6);
    machine.tiers = {{"t",
                      TierKind::Switch,
                      3,
                      {},
                      draw(1e18),
                      draw(1),
                      1 + 999 * fraction(random)}};
    machine.reliability = {draw(3.6e12), draw(1e6), draw(1e18)};
    machine.storage = {draw(1e18), draw(1e18)};
    machine.price = {draw(1e6), "USD", draw(100), 1 + fraction(random)};
    ASSERT_EQ(read(printMachine(machine)), machine) << printMachine(machine);
  }
}

// A reserve may be stated by its parts; of GPUs there is one where none is.
TEST(ReadMachine, PartsOfTheReserve) {
  Machine machine =
      read(device("80 GB", "reserved: {context: 0.5 GB, libraries: 250 MB, "
                           "connection: 100 MB}"));
  const Device &stated = machine.device;
  EXPECT_EQ(stated.contextBytes, 0.5e9);
  EXPECT_EQ(stated.libraryBytes, 0.25e9);
  EXPECT_EQ(stated.connectionBytes, 0.1e9);
  EXPECT_EQ(stated.reservedBytes, 0.75e9);
  EXPECT_EQ(read(printMachine(machine)), machine) << printMachine(machine);

  EXPECT_EQ(read(device("80 GB")).device.reservedBytes, 0);
  const char *gpu = "backend: {target: cuda, arch: sm_90}";
  machine = read(device("80 GB", gpu));
  EXPECT_GT(machine.device.connectionBytes, 0);
  EXPECT_EQ(machine.device.reservedBytes,
            machine.device.contextBytes + machine.device.libraryBytes);
  EXPECT_EQ(read(printMachine(machine)), machine) << printMachine(machine);
  machine = read(device("80 GB", std::string("reserved: 0 B\n  ") + gpu));
  EXPECT_EQ(machine.device.reservedBytes, 0);
  EXPECT_EQ(machine.device.connectionBytes, 0);
}

// A person reads the print: round figures stay round.
TEST(PrintMachine, PicksReadableUnits) {
  Machine machine = read(device("80 GiB", "launch: 250 ns"));
  machine.reliability = {50000 * 3600., 180, 2.5e9};
  std::string text = printMachine(machine);
  for (const char *part :
       {"memory: 80 GiB", "reserved: 0 B", "memory_bandwidth: 1 TB/s",
        "f32: 1 TFLOP/s", "launch: 250 ns", "device_mtbf: 50000 h",
        "restart: 180 s", "checkpoint_bandwidth: 2.5 GB/s"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

} // namespace
