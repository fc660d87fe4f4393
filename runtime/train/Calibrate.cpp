//===- Calibrate.cpp - from measured figures to a description -------------===//

#include "kerf/Train/Calibrate.h"

#include "kerf/Train/Text.h"

#include <algorithm>
#include <cmath>
#include <sstream>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Network
//===----------------------------------------------------------------------===//

namespace {
/// A measured collective beside the cost model's formula for it:
/// latencies x latency + bytes / bandwidth.
struct Observation {
  double latencies, bytes, seconds;
};
} // namespace

/// The formulas of lib/Cost/Collectives.cpp on one switch that `ranks` ranks
/// share: each has 1/ranks of the bandwidth, which turns (n-1)/n into n-1. The
/// steps are those of recursive halving where n is a power of two, else a
/// ring's.
static Observation observe(const std::string &kind, double ranks, double bytes,
                           double seconds) {
  double halvings = std::log2(ranks);
  double steps = halvings == std::floor(halvings) ? halvings : ranks - 1;
  if (kind == "send")
    return {1, ranks * bytes, seconds};
  if (kind == "all_to_all")
    return {ranks - 1, (ranks - 1) * bytes, seconds};
  if (kind == "all_reduce")
    return {2 * steps, 2 * (ranks - 1) * bytes, seconds};
  return {steps, (ranks - 1) * bytes, seconds};
}

static bool isCollective(const std::string &kind) {
  return kind == "send" || kind == "all_to_all" || kind == "all_reduce" ||
         kind == "all_gather" || kind == "reduce_scatter";
}

static std::vector<Observation> observations(const Figures &figures,
                                             int64_t leastRanks) {
  std::vector<Observation> result;
  for (const auto &[name, seconds] : figures) {
    std::istringstream words(name);
    std::string kind;
    double ranks, bytes;
    if (words >> kind >> ranks >> bytes && isCollective(kind) &&
        ranks >= leastRanks && seconds > 0)
      result.push_back(observe(kind, ranks, bytes, seconds));
  }
  return result;
}

static double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

/// Latency and seconds per byte that minimize the sum of
/// (predicted - measured)^2 / (measured x weight's prediction).
static FittedTier solve(const std::vector<Observation> &all,
                        const std::vector<double> &predictions) {
  double uu = 0, uv = 0, vv = 0, ut = 0, vt = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    double weight = 1 / (all[i].seconds * predictions[i]);
    double u = all[i].latencies, v = all[i].bytes;
    uu += weight * u * u, uv += weight * u * v, vv += weight * v * v;
    ut += weight * u * all[i].seconds, vt += weight * v * all[i].seconds;
  }
  double determinant = uu * vv - uv * uv;
  if (all.size() < 2 || determinant <= 0)
    return {};
  double latency = (ut * vv - vt * uv) / determinant;
  double secPerByte = (vt * uu - ut * uv) / determinant;
  // Without a latency the bandwidth alone is fitted.
  if (latency < 0)
    latency = 0, secPerByte = vt / vv;
  return secPerByte > 0 ? FittedTier{1 / secPerByte, latency, 0} : FittedTier();
}

FittedTier kerf::runtime::fitTier(const Figures &figures, int64_t leastRanks) {
  std::vector<Observation> all = observations(figures, leastRanks);
  std::vector<double> predictions, errors(all.size());
  for (const Observation &one : all)
    predictions.push_back(one.seconds);
  FittedTier tier;
  // With its own predictions in the weights, twice too slow counts as much as
  // twice too fast. Few rounds suffice.
  for (int round = 0; round < 20; ++round) {
    tier = solve(all, predictions);
    if (tier.bytesPerSec <= 0)
      return {};
    for (size_t i = 0; i < all.size(); ++i) {
      predictions[i] =
          all[i].latencies * tier.latencySec + all[i].bytes / tier.bytesPerSec;
      errors[i] = std::fabs(predictions[i] / all[i].seconds - 1);
    }
  }
  tier.error = medianOf(errors);
  return tier;
}

//===----------------------------------------------------------------------===//
// Figures
//===----------------------------------------------------------------------===//

static double find(const Figures &figures, const std::string &name) {
  auto it = figures.find(name);
  return it == figures.end() ? 0 : it->second;
}

/// A description has one rate for one rank on all cores and for several ranks
/// on a part of them: the geometric mean of both.
static double meanRate(const MachineFacts &facts, const Figures &figures,
                       const std::string &name) {
  double alone = find(figures, name + " 1");
  double together = find(figures, name + " " + std::to_string(facts.ranks));
  if (together <= 0)
    return alone;
  return facts.ranks > facts.cores ? together : std::sqrt(alone * together);
}

static std::string rateText(double rate, const char *unit) {
  return format("%.4g G%s", rate / 1e9, unit);
}

static std::string secondsText(double seconds) {
  return seconds < 1e-3 ? format("%.3g us", seconds * 1e6)
                        : format("%.3g ms", seconds * 1e3);
}

/// A figure's value with the unit of its kind.
static std::string valueText(const std::string &name, double value) {
  std::string kind = name.substr(0, name.find(' '));
  if (kind == "launch" || isCollective(kind))
    return secondsText(value);
  if (kind == "spread")
    return format("%.2f", value);
  bool isMemory = kind == "sum" || kind == "copy" || kind == "memory";
  return rateText(value, isMemory ? "B/s" : "FLOP/s");
}

/// Numbers of a name have to be ordered as numbers.
static bool comesBefore(const std::string &a, const std::string &b) {
  std::istringstream x(a), y(b);
  for (std::string s, t; x >> s && y >> t;) {
    double m, n;
    if (parseReal(s, m) && parseReal(t, n) && m != n)
      return m < n;
    if (s != t)
      return s < t;
  }
  return a.size() < b.size();
}

std::string kerf::runtime::printFigures(const Figures &figures) {
  std::vector<std::string> names;
  for (const auto &entry : figures)
    names.push_back(entry.first);
  std::sort(names.begin(), names.end(), comesBefore);
  std::string text;
  for (const std::string &name : names)
    text += format("  %-28s %s\n", name.c_str(),
                   valueText(name, figures.at(name)).c_str());
  return text;
}

//===----------------------------------------------------------------------===//
// Description
//===----------------------------------------------------------------------===//

namespace {
/// A description as it grows.
class Writer {
public:
  Writer(const MachineFacts &facts, const Figures &figures)
      : facts(facts), figures(figures) {}
  std::string write();

private:
  void comment(const char *indent, const std::string &words) {
    text += std::string(indent) + "# " + words + "\n";
  }
  /// "name: value" of these figures, where they were measured.
  std::string list(const std::vector<std::string> &names) const;
  void peak(const char *type, double rate);
  void device();
  void tier();

  const MachineFacts &facts;
  const Figures &figures;
  std::string text;
};
} // namespace

std::string Writer::list(const std::vector<std::string> &names) const {
  std::string result;
  for (const std::string &name : names)
    if (double value = find(figures, name); value > 0)
      result +=
          (result.empty() ? "" : ", ") + name + ": " + valueText(name, value);
  return result;
}

void Writer::peak(const char *type, double rate) {
  std::string name = type;
  std::vector<std::string> layers;
  for (int64_t ranks = 1; ranks <= facts.ranks; ++ranks)
    layers.push_back("layer " + name + " " + std::to_string(ranks));
  comment("    ", list(layers));
  comment("    ", list({"product " + name + " 64 64 64",
                        "product " + name + " 256 256 256",
                        "product " + name + " 1024 1024 1024",
                        "product " + name + " 2048 3072 768"}));
  text += format("    %s: %s\n", type, rateText(rate, "FLOP/s").c_str());
}

void Writer::device() {
  double f32 = meanRate(facts, figures, "layer f32");
  double bf16 = meanRate(facts, figures, "layer bf16");
  // The cost model's rate for heads of 64 is 0.5^0.35 of that for 128.
  double attention =
      find(figures, "attention f32") / (f32 * std::pow(0.5, 0.35));
  double backward =
      find(figures, "attention_backward f32") / find(figures, "attention f32");
  text += "device:\n";
  text += format("  name: cpu-%lld-cores\n", (long long)facts.cores);
  text += format("  memory: %.4g GB\n", facts.memoryBytes / 1e9);
  text += "  reserved: 1 GB  # assumption: operating system and code\n";
  comment("  ", "Of x + y in vectors of 64 MiB.");
  comment("  ", list({"memory 1", "memory " + std::to_string(facts.ranks),
                      "copy 67108864", "sum 4194304", "sum 262144"}));
  text += "  memory_bandwidth: " +
          rateText(meanRate(facts, figures, "memory"), "B/s") + "\n";
  comment("  ", "What all products of layers reach together, so the best is "
                "above it.");
  text += "  peak:\n";
  peak("f32", f32);
  if (bf16 > 0)
    peak("bf16", bf16);
  comment("  ", list({"attention f32", "attention_backward f32",
                      "attention bf16", "attention_backward bf16"}));
  text += format("  efficiency: {matmul: 1, attention: %.3g, "
                 "attention_backward: %.3g, memory: 1, network: 1}\n",
                 std::min(attention, 1.0), std::clamp(backward, 0.01, 2.0));
  comment("  ", "A kernel that does nothing, on all cores.");
  text += "  launch: " + secondsText(find(figures, "launch")) + "\n";
  text += "  backend: {target: cpu}\n  shared: true\n";
}

void Writer::tier() {
  bool takesTurns = facts.ranks > facts.cores;
  FittedTier fitted = fitTier(figures, takesTurns ? facts.ranks : 2);
  if (fitted.bytesPerSec <= 0)
    return;
  std::string ranks = " " + std::to_string(facts.ranks) + " ";
  text += "tiers:\n";
  comment("  ",
          format("Fitted to collectives of %s%lld ranks, 1 KiB to 64 MiB; "
                 "half of them are within %.0f %%.",
                 takesTurns || facts.ranks == 2 ? "" : "2 to ",
                 (long long)facts.ranks, fitted.error * 100));
  for (const char *bytes : {"1024", "1048576", "67108864"})
    comment("  ", list({"all_reduce" + ranks + bytes,
                        "all_gather" + ranks + bytes, "send" + ranks + bytes}));
  text += format("  - {name: memory, size: %lld, bandwidth: %s, latency: %s}\n",
                 (long long)facts.ranks,
                 rateText(fitted.bytesPerSec, "B/s").c_str(),
                 secondsText(fitted.latencySec).c_str());
}

std::string Writer::write() {
  comment("", "Measured by kerf-run --calibrate on " + facts.date + ":");
  comment("", facts.device);
  bool takesTurns = facts.ranks > facts.cores;
  comment("", format("For %s%lld ranks, which share what is stated here%s.",
                     takesTurns ? "" : "1 to ", (long long)facts.ranks,
                     takesTurns ? " and take turns on the cores" : ""));
  if (!takesTurns && facts.ranks > 1)
    comment("", "Rates: the mean of one rank on all cores and of all ranks "
                "together.");
  text += "name: this-machine\n";
  device();
  tier();
  return text;
}

std::string kerf::runtime::describeMachine(const MachineFacts &facts,
                                           const Figures &figures) {
  return Writer(facts, figures).write();
}
