//===- BadInputTest.cpp - descriptions that are wrong ---------------------===//

#include "kerf/Machine/Machine.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <random>

using namespace kerf;

namespace {

const char *const kGood = R"(name: m
device:
  name: d
  memory: 80 GB
  memory_bandwidth: 2 TB/s
  peak: {bf16: 100 TFLOP/s}
tiers:
  - {name: t, size: 8, bandwidth: 100 GB/s, latency: 2 us}
  - {name: u, size: 4, bandwidth: 10 GB/s, latency: 5 us}
)";

/// All problems as lines "4:11: error: message", notes indented below.
std::string problemsOf(const std::string &text) {
  std::vector<MachineDiagnostic> diagnostics;
  std::optional<Machine> machine = readMachine(text, diagnostics);
  std::string lines;
  bool hasError = false;
  for (const MachineDiagnostic &diagnostic : diagnostics) {
    hasError |= diagnostic.isError;
    lines += std::to_string(diagnostic.line) + ":" +
             std::to_string(diagnostic.column) +
             (diagnostic.isError ? ": error: " : ": warning: ") +
             diagnostic.message + "\n";
    for (const std::string &note : diagnostic.notes)
      lines += "  " + note + "\n";
  }
  EXPECT_EQ(machine.has_value(), !hasError) << text;
  return lines;
}

/// `kGood` with the first `from` replaced.
std::string change(const std::string &from, const std::string &to) {
  std::string text = kGood;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

struct Case {
  const char *from, *to, *expected;
};

void check(llvm::ArrayRef<Case> cases) {
  EXPECT_EQ(problemsOf(kGood), "");
  for (const Case &each : cases)
    EXPECT_EQ(problemsOf(change(each.from, each.to)), each.expected)
        << each.from << " -> " << each.to;
}

// Figures by number type and by ranks: what curves demand, and who may have
// them.
TEST(BadMachine, MeasuredFigures) {
  const char *peak = "peak: {bf16: 100 TFLOP/s}";
  auto rows = [&](const std::string &points) {
    return problemsOf(
        change(peak, std::string(peak) +
                         "\n  efficiency: {by_type: {bf16: {rows: "
                         "{" +
                         points + "}}}}"));
  };
  EXPECT_EQ(rows("8: 0.5, 16: 0.9, 32: 1"), "");
  EXPECT_EQ(rows("8: 0.5, 8: 1"),
            "7:48: error: field '8' is given twice\n  first at 7:40\n"
            "7:48: error: field 'rows': expected more rows than 8\n");
  EXPECT_EQ(rows("16: 0.5, 8: 1"),
            "7:49: error: field 'rows': expected more rows than 16\n");
  EXPECT_EQ(rows("8: 0.2, 16: 0.5"),
            "7:48: error: field 'rows': a matmul of 16 rows would take less "
            "time than one of 8\n");
  EXPECT_EQ(rows("8: 0.5, 16: 0.4"),
            "7:48: error: field 'rows': expected the largest part at the most "
            "rows\n");
  EXPECT_EQ(rows("few: 0.5"),
            "7:40: error: field 'rows': found 'few', expected a whole number "
            "from 1 to 1000000000\n");
  EXPECT_EQ(rows("8: 2"), "7:43: error: field '8': found '2', expected a "
                          "number above 0, at most 1\n"
                          "  a part of 1: write '0.02' for 2 %\n");
  const char *second = "  - {name: u, size: 4, bandwidth: 10 GB/s, latency: 5 "
                       "us}\n";
  auto ranks = [&](const std::string &items, bool shared = true) {
    std::string text = change(second, second + ("by_ranks: [" + items + "]\n"));
    return problemsOf(
        shared ? text.insert(text.find("  peak"), "  shared: true\n") : text);
  };
  EXPECT_EQ(ranks("{ranks: 1}, {ranks: 3}"), "");
  EXPECT_EQ(ranks("{ranks: 2}", false),
            "10:1: error: field 'by_ranks' is of a device with 'shared: "
            "true'\n");
  EXPECT_EQ(ranks("{ranks: 4}, {ranks: 4}"),
            "11:32: error: field 'ranks': expected more than 4 of the figures "
            "before\n");
  EXPECT_EQ(ranks("{peak: {}}, 3"),
            "11:12: error: missing field 'ranks' in 'by_ranks[0]', expected a "
            "whole number\n"
            "11:19: error: 'peak' is empty, expected at least one number type, "
            "such as 'bf16: 989 TFLOP/s'\n"
            "11:24: error: 'by_ranks[1]': found '3', expected a map\n");
  EXPECT_EQ(ranks("{ranks: 2, size: 3}"),
            "11:23: error: unknown field 'size' in 'by_ranks[0]'\n"
            "  fields of 'by_ranks[0]': ranks, memory_bandwidth, peak, "
            "efficiency, bandwidth, latency\n");
}

// Each wrong number is told at its place, with what is expected.
TEST(BadMachine, Numbers) {
  check({
      {"80 GB", "80",
       "4:11: error: field 'memory': found '80', expected a size with its "
       "unit, such as '80 GB'\n"},
      {"80 GB", "0.5e3",
       "4:11: error: field 'memory': found '0.5e3', expected a size with its "
       "unit, such as '0.5e3 GB'\n"},
      {"80 GB", "lots",
       "4:11: error: field 'memory': found 'lots', expected a size with its "
       "unit, such as '80 GB'\n"},
      {"80 GB", "nan GB",
       "4:11: error: field 'memory': found 'nan GB', expected a size with its "
       "unit, such as '80 GB'\n"},
      {"80 GB", ".inf GB",
       "4:11: error: field 'memory': found '.inf GB', expected a size with its "
       "unit, such as '80 GB'\n"},
      {"80 GB", "1,000 GB",
       "4:11: error: field 'memory': found '1,000 GB', expected a size, such "
       "as '80 GB'\n"
       "  units of a size, nearest first: GB, B, kB, MB, TB, KiB, MiB, GiB, "
       "TiB\n"},
      {"80 GB", "80 Gb",
       "4:11: error: field 'memory': found '80 Gb', expected a size, such as "
       "'80 GB'\n"
       "  units of a size, nearest first: GB, B, kB, MB, TB, GiB, KiB, MiB, "
       "TiB\n"},
      {"80 GB", "80 gigabytes",
       "4:11: error: field 'memory': found '80 gigabytes', expected a size, "
       "such as '80 GB'\n"
       "  units of a size, nearest first: KiB, MiB, GiB, TiB, B, kB, MB, GB, "
       "TB\n"},
      {"80 GB", "80 GB/s",
       "4:11: error: field 'memory': found '80 GB/s', expected a size, such as "
       "'80 GB'\n"
       "  units of a size, nearest first: GB, B, kB, MB, TB, GiB, KiB, MiB, "
       "TiB\n"},
      {"80 GB", "0 GB",
       "4:11: error: field 'memory': found '0 GB', expected a size above 0 B, "
       "at most 1000000 TB\n"},
      {"80 GB", "-80 GB",
       "4:11: error: field 'memory': found '-80 GB', expected a size above 0 "
       "B, at most 1000000 TB\n"},
      {"80 GB", "1e30 GB",
       "4:11: error: field 'memory': found '1e30 GB', expected a size above 0 "
       "B, at most 1000000 TB\n"},
      {"80 GB", "1e999999999999999999999 GB",
       "4:11: error: field 'memory': found '1e999999999999999999999 GB', "
       "expected a size above 0 B, at most 1000000 TB\n"},
      {"80 GB", "1e-999999999999999999999 GB",
       "4:11: error: field 'memory': found '1e-999999999999999999999 GB', "
       "expected a size above 0 B, at most 1000000 TB\n"},
      {"100 TFLOP/s", "100 TFLOPS",
       "6:16: error: field 'bf16': found '100 TFLOPS', expected a rate, such "
       "as '100 TFLOP/s'\n"
       "  units of a rate, nearest first: TFLOP/s, FLOP/s, GFLOP/s, PFLOP/s\n"},
      {"100 GB/s", "100 Gbps",
       "8:35: error: field 'bandwidth': found '100 Gbps', expected a rate, "
       "such as '100 Gb/s'\n"
       "  units of a rate, nearest first: Gb/s, GB/s, b/s, kb/s, Mb/s, Tb/s, "
       "B/s, kB/s, MB/s, TB/s\n"},
      {"100 GB/s", "0 GB/s",
       "8:35: error: field 'bandwidth': found '0 GB/s', expected a rate above "
       "0 B/s, at most 1000000 TB/s\n"},
      {"100 GB/s", "100",
       "8:35: error: field 'bandwidth': found '100', expected a rate with its "
       "unit, such as '100 GB/s'\n"},
      {"latency: 2 us", "latency: 2 us, oversubscription: 2 x",
       "8:78: error: field 'oversubscription': found '2 x', expected a number "
       "without unit, such as '2'\n"},
      {"2 us", "2",
       "8:54: error: field 'latency': found '2', expected a time with its "
       "unit, such as '2 us'\n"},
      {"2 us", "2 h",
       "8:54: error: field 'latency': found '2 h', expected a time above 0 s, "
       "at most 1 s\n"},
      {"size: 8", "size: 0",
       "8:21: error: field 'size': found '0', expected a whole number from 1 "
       "to 1000000000\n"},
      {"size: 8", "size: -8",
       "8:21: error: field 'size': found '-8', expected a whole number from 1 "
       "to 1000000000\n"},
      {"size: 8", "size: 8.0",
       "8:21: error: field 'size': found '8.0', expected a whole number from 1 "
       "to 1000000000\n"},
      {"size: 8", "size: 99999999999999999999",
       "8:21: error: field 'size': found '99999999999999999999', expected a "
       "whole number from 1 to 1000000000\n"},
      {"size: 8", "size: [8]",
       "8:21: error: field 'size': found a list, expected a whole number from "
       "1 to 1000000000\n"},
      {"latency: 2 us", "latency: 2 us, oversubscription: 0.5",
       "8:78: error: field 'oversubscription': found '0.5', expected a number "
       "from 1 to 1000\n"},
      {"latency: 2 us", "latency: 2 us, oversubscription: two",
       "8:78: error: field 'oversubscription': found 'two', expected a number, "
       "such as '2'\n"},
      {"memory: 80 GB", "memory: 80 GB\n  reserved: 80 GB",
       "5:13: error: field 'reserved': 80 GB leave nothing of the memory of 80 "
       "GB\n"},
      {"memory: 80 GB", "memory: 80 GB\n  reserved: {libraries: 79 GB}",
       "5:13: error: missing field 'context' in 'reserved', expected a size "
       "with its unit, such as '3 GB'\n"},
      {"memory: 80 GB", "memory: 80 GB\n  efficiency: {matmul: 1.1, memory: 0}",
       "5:24: error: field 'matmul': found '1.1', expected a number above 0, "
       "at most 1\n"
       "5:37: error: field 'memory': found '0', expected a number above 0, at "
       "most 1\n"},
      {"memory: 80 GB", "memory: 80 GB\n  efficiency: {attention_backward: 3}",
       "5:36: error: field 'attention_backward': found '3', expected a number "
       "above 0, at most 2\n"},
      {"memory: 80 GB", "memory: 80 GB\n  launch: -1 us",
       "5:11: error: field 'launch': found '-1 us', expected a time from 0 s "
       "to 1 s\n"},
      {"memory: 80 GB", "memory: 80 GB\n  power: 700",
       "5:10: error: field 'power': found '700', expected a power with its "
       "unit, such as '700 W'\n"},
  });
}

// Figures with a source, what is hidden and what is left free.
TEST(BadMachine, Assumptions) {
  const char *from = "memory: 80 GB";
  check({
      {from, "memory: 80 GB\n  headroom: 3",
       "5:13: error: field 'headroom': found '3', expected a number from 0 to "
       "0.5\n"
       "  a part of 1: write '0.03' for 3 %\n"},
      {from, "memory: 80 GB\n  headroom: {source: me}",
       "5:13: error: missing field 'value' in 'headroom', expected a number, "
       "such as '0.03'\n"},
      {from, "memory: 80 GB\n  headroom: {value: 0.1, sorce: me}",
       "5:26: error: unknown field 'sorce' in 'headroom', did you mean "
       "'source'?\n"
       "  fields of 'headroom': value, source\n"},
      {from, "memory: 80 GB\n  headroom: {value: 0.1, source: \"\"}",
       "5:34: error: field 'source': found '', expected a text of 1 to 200 "
       "printable characters, such as 'our own run of May'\n"},
      {from, "memory: 80 GB\n  hidden: {layers: 1.5, gradients: x}",
       "5:20: error: field 'layers': found '1.5', expected a number from 0 to "
       "1\n"
       "5:36: error: field 'gradients': found 'x', expected a number, such as "
       "'0.5'\n"},
      {from, "memory: 80 GB\n  hidden: {tensor: 0.5}",
       "5:12: error: unknown field 'tensor' in 'hidden'\n"
       "  fields of 'hidden': layers, gradients, weights\n"},
      {from,
       "memory: 80 GB\n  efficiency: {grouped_matmul: {value: 60}, matmul: "
       "{rows: {8: 1, 16: 0.5}}}",
       "5:40: error: field 'value': found '60', expected a number above 0, at "
       "most 1\n"
       "  a part of 1: write '0.60' for 60 %\n"
       "5:67: error: field 'rows': expected the largest part at the most "
       "rows\n"},
  });
}

// Fields that are unknown, missing, repeated or of the wrong kind.
TEST(BadMachine, Fields) {
  check({
      {"memory: 80", "memry: 80",
       "3:3: error: missing field 'memory' in 'device', expected a size with "
       "its unit, such as '80 GB'\n"
       "4:3: error: unknown field 'memry' in 'device', did you mean 'memory'?\n"
       "  fields of 'device': name, memory, reserved, memory_bandwidth, peak, "
       "backend, efficiency, hidden, headroom, launch, power, shared\n"},
      {"name: m\n", "",
       "1:1: error: missing field 'name' in the description, expected a "
       "name\n"},
      {"  name: d\n", "",
       "3:3: error: missing field 'name' in 'device', expected a name\n"},
      {"latency: 2 us", "latncy: 2 us",
       "8:5: error: missing field 'latency' in 'tiers[0]', expected a time "
       "with its unit, such as '5 us'\n"
       "8:45: error: unknown field 'latncy' in 'tiers[0]', did you mean "
       "'latency'?\n"
       "  fields of 'tiers[0]': name, size, bandwidth, latency, "
       "oversubscription, kind, dims\n"},
      {"  memory: 80 GB\n", "  memory: 80 GB\n  memory: 90 GB\n",
       "5:3: error: field 'memory' is given twice\n"
       "  first at 4:3\n"},
      {"{bf16: 100 TFLOP/s}", "{}",
       "6:9: error: 'peak' is empty, expected at least one number type, such "
       "as 'bf16: 989 TFLOP/s'\n"},
      {"{bf16: 100 TFLOP/s}", "{int8: 100 TFLOP/s}",
       "6:10: error: unknown field 'int8' in 'peak'\n"
       "  fields of 'peak': bf16, f16, tf32, f32, fp8, f64\n"},
      {"{bf16: 100 TFLOP/s}", "100 TFLOP/s",
       "6:9: error: field 'peak': found '100 TFLOP/s', expected a map\n"},
      {"80 GB", "",
       "4:3: error: field 'memory': found nothing, expected a size with its "
       "unit, such as '80 GB'\n"},
      {"80 GB", "[80 GB]",
       "4:11: error: field 'memory': found a list, expected a size with its "
       "unit, such as '80 GB'\n"},
      {"80 GB", "{}",
       "4:11: error: field 'memory': found a map, expected a size with its "
       "unit, such as '80 GB'\n"},
      {"name: d", "name: my device",
       "3:9: error: field 'name': found 'my device', expected a name of 1 to "
       "64 letters, digits, '.', '_', '-' and '+'\n"},
      {"name: d", "name: ''",
       "3:9: error: field 'name': found '', expected a name of 1 to 64 "
       "letters, digits, '.', '_', '-' and '+'\n"},
      {"name: u", "name: t", "9:12: error: two tiers have the name 't'\n"},
      {"  - {name: u, size: 4", "  - u\n  - {name: u, size: 4",
       "9:5: error: 'tiers[1]': found 'u', expected a map\n"},
      {"- {name: t, size: 8, bandwidth: 100 GB/s, latency: 2 us}", "- ~x",
       "8:5: error: 'tiers[0]': found '~x', expected a map\n"},
      {"name: m", "name: m\nhost: [1]",
       "2:7: error: field 'host': found a list, expected a map\n"},
      {"name: m", "name: m\nhost: {memory: 1 TB}",
       "2:7: error: missing field 'bandwidth' in 'host', expected a rate with "
       "its unit, such as '450 GB/s'\n"},
      {"name: m", "name: m\nprice: {device_hour: 1}",
       "2:8: error: missing field 'currency' in 'price', expected a name\n"},
      {"name: m", "name: m\nprice: {device_hour: -1, currency: U D, pue: 0.9}",
       "2:22: error: field 'device_hour': found '-1', expected a number from 0 "
       "to 1000000\n"
       "2:36: error: field 'currency': found 'U D', expected a name of 1 to 64 "
       "letters, digits, '.', '_', '-' and '+'\n"
       "2:46: error: field 'pue': found '0.9', expected a number from 1 to "
       "10\n"},
      {"name: m", "name: m\nreliability: {device_mtbf: 0 h}",
       "2:14: error: missing field 'checkpoint_bandwidth' in 'reliability', "
       "expected a rate with its unit, such as '450 GB/s'\n"
       "2:14: error: missing field 'restart' in 'reliability', expected a time "
       "with its unit, such as '180 s'\n"
       "2:28: error: field 'device_mtbf': found '0 h', expected a time above 0 "
       "s, at most 1000000000 h\n"},
      {"name: m", "name: m\nzone: x",
       "2:1: error: unknown field 'zone' in the description\n"
       "  fields of the description: name, device, tiers, by_ranks, host, "
       "reliability, storage, price\n"},
  });
}

// Backends, tori, and what tiers are together.
TEST(BadMachine, Choices) {
  check({
      {"name: d", "name: d\n  backend: cuda",
       "4:12: error: field 'backend': found 'cuda', expected a map, or none\n"},
      {"name: d", "name: d\n  backend: {arch: sm_90}",
       "4:12: error: missing field 'target' in 'backend', expected one of "
       "cuda, cpu\n"},
      {"name: d", "name: d\n  backend: {target: cuda}",
       "4:12: error: missing field 'arch' in 'backend', expected an "
       "architecture, such as 'sm_90'\n"},
      {"name: d", "name: d\n  backend: {target: cudo, arch: sm_90}",
       "4:21: error: field 'target': found 'cudo', expected one of cuda, cpu, "
       "did you mean 'cuda'?\n"},
      {"name: d", "name: d\n  backend: {target: cuda, arch: hopper}",
       "4:33: error: field 'arch': found 'hopper', expected an architecture, "
       "such as 'sm_90'\n"},
      {"name: d", "name: d\n  backend: {target: cpu, arch: sm_90}",
       "4:32: error: field 'arch': target 'cpu' has none, it is that of the "
       "computer that compiles\n"},
      {"name: d",
       "name: d\n  backend: {target: cuda, arch: sm_90, processors: 0}",
       "4:52: error: field 'processors': found '0', expected a whole number "
       "from 1 to 1000000000\n"},
      {"name: d", "name: d\n  backend: {target: cpu, processors: 8}",
       "4:26: error: unknown field 'processors' in 'backend'\n"
       "  fields of 'backend': target, arch\n"},
      {"name: d", "name: d\n  shared: yes",
       "4:11: error: field 'shared': found 'yes', expected one of false, "
       "true\n"},
      {"size: 8,", "size: 8, kind: torus,",
       "8:5: error: missing field 'dims' in 'tiers[0]', expected a list\n"},
      {"size: 8,", "size: 8, kind: ring,",
       "8:30: error: field 'kind': found 'ring', expected one of switch, "
       "torus\n"},
      {"size: 8,", "size: 8, dims: [2, 4],",
       "8:24: error: field 'dims' is of a tier with 'kind: torus'\n"},
      {"size: 8,", "size: 8, kind: torus, dims: [2, 5],",
       "8:43: error: field 'dims': their product is 10, expected 'size', which "
       "is 8\n"},
      {"size: 8,", "size: 8, kind: torus, dims: [2, x],",
       "8:47: error: field 'dims': found 'x', expected a whole number from 1 "
       "to 1000000000\n"},
      {"size: 8,", "size: 8, kind: torus, dims: [],",
       "8:43: error: field 'dims': found 0 dimensions, expected 1 to 6\n"},
      {"size: 8,", "size: 8, kind: torus, dims: 8,",
       "8:43: error: field 'dims': found '8', expected a list\n"},
      {"size: 8,", "size: 800000000,",
       "8:3: error: the tiers describe 3200000000 devices, expected at most "
       "1000000000\n"},
  });
}

// Well-known figures that count twice are warned about, and so is what nothing
// uses; the machine is read.
TEST(BadMachine, Warnings) {
  check({
      {"bf16: 100 TFLOP/s", "bf16: 1979 TFLOP/s",
       "6:16: warning: '1979 TFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 989 TFLOP/s\n"},
      {"bf16: 100 TFLOP/s",
       "bf16: 989 TFLOP/s, tf32: 989 TFLOP/s, fp8: 3958 TFLOP/s",
       "6:35: warning: '989 TFLOP/s' is the tf32 peak with structured "
       "sparsity, training computes dense: 494 TFLOP/s\n"
       "6:53: warning: '3958 TFLOP/s' is the fp8 peak with structured "
       "sparsity, training computes dense: 1.979 PFLOP/s\n"},
      {"bf16: 100 TFLOP/s", "bf16: 624 TFLOP/s",
       "6:16: warning: '624 TFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 312 TFLOP/s\n"},
      {"bf16: 100 TFLOP/s", "bf16: 4.5 PFLOP/s",
       "6:16: warning: '4.5 PFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 2.25 PFLOP/s\n"},
      {"bf16: 100 TFLOP/s", "bf16: 312 TFLOP/s", ""},
      {"name: d", "name: l40s", ""},
      {"bf16: 100 TFLOP/s", "bf16: 733 TFLOP/s",
       "6:16: warning: '733 TFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 362.05 TFLOP/s\n"},
      {"bf16: 100 TFLOP/s", "bf16: 242 TFLOP/s",
       "6:16: warning: '242 TFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 121 TFLOP/s\n"},
      {"bf16: 100 TFLOP/s", "bf16: 250 TFLOP/s",
       "6:16: warning: '250 TFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 125 TFLOP/s\n"},
      {"bf16: 100 TFLOP/s", "bf16: 1007.6 TFLOP/s, fp8: 2015 TFLOP/s",
       "6:16: warning: '1007.6 TFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 503.8 TFLOP/s\n"
       "6:37: warning: '2015 TFLOP/s' is the fp8 peak with structured "
       "sparsity, training computes dense: 1.0076 PFLOP/s\n"},
      {"bf16: 100 TFLOP/s", "bf16: 2614 TFLOP/s",
       "6:16: warning: '2614 TFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 1.307 PFLOP/s\n"},
      // One peak with sparsity for all types, of 4 times the dense one.
      {"bf16: 100 TFLOP/s", "bf16: 2563 TFLOP/s",
       "6:16: warning: '2563 TFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 667 TFLOP/s\n"},
      {"name: d\n  memory: 80 GB", "name: trainium2\n  memory: 80 GB", ""},
      {"100 TFLOP/s}\ntiers:\n  - {name: t, size: 8, bandwidth: 100",
       "312 TFLOP/s}\ntiers:\n  - {name: t, size: 8, bandwidth: 600",
       "8:35: warning: '600 GB/s' is the sum of both directions, a bandwidth "
       "here is per device and direction: 300 GB/s\n"},
      {"100 TFLOP/s}\ntiers:\n  - {name: t, size: 8, bandwidth: 100",
       "989 TFLOP/s}\ntiers:\n  - {name: t, size: 8, bandwidth: 900",
       "8:35: warning: '900 GB/s' is the sum of both directions, a bandwidth "
       "here is per device and direction: 450 GB/s\n"},
      {"100 TFLOP/s}\ntiers:\n  - {name: t, size: 8, bandwidth: 100",
       "2250 TFLOP/s}\ntiers:\n  - {name: t, size: 8, bandwidth: 1800",
       "8:35: warning: '1800 GB/s' is the sum of both directions, a bandwidth "
       "here is per device and direction: 900 GB/s\n"},
      // 900 GB/s is right for a B200.
      {"100 TFLOP/s}\ntiers:\n  - {name: t, size: 8, bandwidth: 100",
       "2250 TFLOP/s}\ntiers:\n  - {name: t, size: 8, bandwidth: 900", ""},
      {"name: m", "name: m\nhost: {memory: 1 TB, bandwidth: 25 GB/s}", ""},
      // Beside an error the warning still comes.
      {"bf16: 100 TFLOP/s", "bf16: 1979 TFLOP/s, x: 1",
       "6:16: warning: '1979 TFLOP/s' is the bf16 peak with structured "
       "sparsity, training computes dense: 989 TFLOP/s\n"
       "6:30: error: unknown field 'x' in 'peak'\n"
       "  fields of 'peak': bf16, f16, tf32, f32, fp8, f64\n"},
  });
}

// What is no description at all.
TEST(BadMachine, Texts) {
  std::pair<std::string, const char *> cases[] = {
      {"", "1:1: error: found nothing, expected a map with the fields 'name' "
           "and 'device'\n"},
      {"# nothing\n", "1:1: error: found nothing, expected a map with the "
                      "fields 'name' and 'device'\n"},
      {"[1, 2]\n", "1:1: error: found a list, expected a map with the fields "
                   "'name' and 'device'\n"},
      {"hello\n", "1:1: error: found 'hello', expected a map with the fields "
                  "'name' and 'device'\n"},
      {"a: {b: c\n", "1:9: error: not YAML: unexpected token. Expected Key, "
                     "Flow Entry, or Flow Mapping End.\n"},
      {"a: 'b\n", "1:6: error: not YAML: expected quote at end of scalar\n"},
      {"a: &x 1\n", "1:4: error: anchors are not part of a description\n"},
      {"a: *x\n", "1:4: error: aliases are not part of a description\n"},
      {"a: !!int 1\n", "1:4: error: tags are not part of a description\n"},
      {"a: |\n  text\n",
       "1:1: error: blocks of text are not part of a description\n"},
      {"? [a]\n: b\n", "1:4: error: expected the name of a field\n"},
      {"a: b\n---\nc: d\n",
       "3:1: error: expected one document, found a second one\n"},
      {std::string("a: b\nc\0", 7), "2:2: error: NUL byte, expected text\n"},
      {std::string(1000001, ' '),
       "1:1: error: description of 1000001 bytes is larger than 1 MB\n"},
  };
  for (const auto &[text, expected] : cases)
    EXPECT_EQ(problemsOf(text), expected) << text.substr(0, 40);
}

std::string repeat(const std::string &text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i)
    result += text;
  return result;
}

// One run tells all problems, in the order of the text.
TEST(BadMachine, AllAtOnce) {
  EXPECT_EQ(
      problemsOf(R"(name: m
device:
  memory: 80
  memory_bandwidth: 0 TB/s
  colour: red
tiers:
  - {name: t, size: none}
)"),
      "3:3: error: missing field 'name' in 'device', expected a name\n"
      "3:3: error: missing field 'peak' in 'device', expected a map\n"
      "3:11: error: field 'memory': found '80', expected a size with its "
      "unit, such as '80 GB'\n"
      "4:21: error: field 'memory_bandwidth': found '0 TB/s', expected a "
      "rate above 0 B/s, at most 1000000 TB/s\n"
      "5:3: error: unknown field 'colour' in 'device'\n"
      "  fields of 'device': name, memory, reserved, memory_bandwidth, "
      "peak, backend, efficiency, hidden, headroom, launch, power, shared\n"
      "7:5: error: missing field 'bandwidth' in 'tiers[0]', expected a "
      "rate with its unit, such as '450 GB/s'\n"
      "7:5: error: missing field 'latency' in 'tiers[0]', expected a "
      "time with its unit, such as '5 us'\n"
      "7:21: error: field 'size': found 'none', expected a whole number "
      "from 1 to 1000000000\n");
}

// Seven levels of network are a mistake.
TEST(BadMachine, TooManyTiers) {
  std::string text = kGood;
  for (int i = 0; i < 5; ++i)
    text += "  - {name: v" + std::to_string(i) +
            ", size: 1, bandwidth: 1 GB/s, latency: 1 us}\n";
  EXPECT_EQ(problemsOf(text),
            "14:5: error: found 7 tiers, expected at most 6\n");
}

// Nesting as deep as the text allows does not reach the stack's end, in
// brackets, in one line of dashes, or by indentation.
TEST(BadMachine, DeepNesting) {
  std::string steps;
  for (int i = 0; i < 600; ++i)
    steps += std::string(i, ' ') + "a:\n";
  for (const std::string &text :
       {repeat("[", 400000), "a: " + repeat("{b: ", 200000),
        repeat("- ", 400000), steps, repeat("? ", 400000)})
    EXPECT_NE(problemsOf(text).find("error: "), std::string::npos);
  EXPECT_EQ(problemsOf("a: " + repeat("[", 300)),
            "1:260: error: nested deeper than 256\n");
  EXPECT_EQ(problemsOf(repeat("- ", 300) + "x"),
            "1:513: error: nested deeper than 256\n");
}

// A text full of problems is answered with 64 of them.
TEST(BadMachine, ManyProblemsAreCut) {
  std::string text = kGood;
  for (int i = 0; i < 20000; ++i)
    text += "field" + std::to_string(i) + ": 1\n";
  std::vector<MachineDiagnostic> diagnostics;
  EXPECT_FALSE(readMachine(text, diagnostics));
  ASSERT_EQ(diagnostics.size(), 64u);
  EXPECT_EQ(diagnostics.front().line, 10);
  EXPECT_EQ(diagnostics.back().line, 73);
  EXPECT_EQ(diagnostics.back().notes.back(), "and 19936 more problems");
}

// What was in the list of diagnostics before stays as it is.
TEST(BadMachine, DiagnosticsAreAppended) {
  std::vector<MachineDiagnostic> diagnostics = {{false, 99, 1, "earlier", {}}};
  EXPECT_FALSE(readMachine("", diagnostics));
  ASSERT_EQ(diagnostics.size(), 2u);
  EXPECT_EQ(diagnostics[0].message, "earlier");
}

// Seeded mutants of a description end in a machine or in an error, never
// otherwise.
TEST(BadMachine, Mutants) {
  std::mt19937 random(3);
  const std::string alphabet = "{}[],:-#&*!|>'\"%@`? \n\t~ab01.e\xff\xc3";
  int read = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = kGood;
    for (int edits = random() % 3 + 1; edits > 0; --edits) {
      size_t at = random() % text.size();
      char c = alphabet[random() % alphabet.size()];
      if (random() % 3 == 0)
        text.erase(at, random() % 12);
      else if (random() % 2 == 0)
        text[at] = c;
      else
        text.insert(at, 1, c);
    }
    std::vector<MachineDiagnostic> diagnostics;
    std::optional<Machine> machine = readMachine(text, diagnostics);
    bool hasError = llvm::any_of(
        diagnostics, [](const MachineDiagnostic &d) { return d.isError; });
    EXPECT_EQ(machine.has_value(), !hasError) << text;
    for (const MachineDiagnostic &diagnostic : diagnostics)
      EXPECT_TRUE(diagnostic.line >= 1 && diagnostic.column >= 1) << text;
    read += machine.has_value();
  }
  EXPECT_GT(read, 20);
  EXPECT_LT(read, 3000);
}

} // namespace
