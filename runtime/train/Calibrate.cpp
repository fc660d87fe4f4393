//===- Calibrate.cpp - from measured figures to a description -------------===//

#include "kerf/Train/Calibrate.h"

#include "kerf/Train/Text.h"

#include <algorithm>
#include <cmath>
#include <limits>
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
                                             int64_t ofRanks) {
  std::vector<Observation> result;
  for (const auto &[name, seconds] : figures) {
    std::istringstream words(name);
    std::string kind;
    double ranks, bytes;
    if (words >> kind >> ranks >> bytes && isCollective(kind) &&
        ranks == ofRanks && seconds > 0)
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

/// Of the collective that moved most bytes a second.
static double leastSecPerByte(const std::vector<Observation> &all) {
  double least = std::numeric_limits<double>::infinity();
  for (const Observation &one : all)
    least = std::min(least, one.seconds / one.bytes);
  return least;
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
  // Disturbed measurements: the longest took less time than short ones. They
  // moved so many bytes a second, and the latency alone is fitted.
  if (secPerByte <= 0) {
    secPerByte = leastSecPerByte(all);
    latency = (ut - secPerByte * uv) / uu;
  }
  // Without a latency, which a description must have, the bandwidth alone is
  // fitted.
  if (latency < 1e-9)
    latency = 1e-9, secPerByte = vt / vv;
  return {1 / secPerByte, latency, 0};
}

FittedTier kerf::runtime::fitTier(const Figures &figures, int64_t ranks) {
  std::vector<Observation> all = observations(figures, ranks);
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
// Laws
//===----------------------------------------------------------------------===//

namespace {
/// What is said of matmuls and attention of one number type.
struct TypeLaws {
  double peak = 0, attention = 0, attentionBackward = 0, attentionKeys = 0,
         depth = 0;
  std::vector<double> parts; ///< of `measuredRows`
};
} // namespace

static std::string nameOf(const char *kind, const std::string &type,
                          int64_t ranks, int64_t size) {
  return format("%s %s %lld %lld", kind, type.c_str(), (long long)ranks,
                (long long)size);
}

/// `start` of the law rate = best x size / (size + start), from the rates of a
/// short and a long size.
static double startOf(double shortSize, double shortRate, double longSize,
                      double longRate) {
  if (shortRate <= 0 || longRate <= shortRate)
    return 0;
  double ratio = longRate / shortRate;
  double slope = 1 / shortSize - ratio / longSize;
  return slope > 0 ? (ratio - 1) / slope : 0;
}

/// Parts of the largest rate. What the format demands of them, a disturbed
/// measurement may lack: the most rows have the largest part, and no matmul
/// takes longer than one of more rows.
static std::vector<double> partsOf(const std::vector<int64_t> &rows,
                                   const std::vector<double> &rates) {
  double best = *std::max_element(rates.begin(), rates.end());
  std::vector<double> parts;
  for (double rate : rates)
    parts.push_back(rate / best);
  parts.back() = 1;
  for (size_t i = parts.size() - 1; i > 0; --i)
    parts[i - 1] = std::max(parts[i - 1], parts[i] * rows[i - 1] / rows[i]);
  return parts;
}

/// `KIND TYPE RANKS SIZE` for a short and a long size.
static double startOf(const Figures &figures, const char *kind,
                      const std::string &type, int64_t ranks,
                      const std::array<int64_t, 2> &sizes) {
  return startOf(sizes[0], find(figures, nameOf(kind, type, ranks, sizes[0])),
                 sizes[1], find(figures, nameOf(kind, type, ranks, sizes[1])));
}

static TypeLaws lawsOf(const Figures &figures, const MeasuredSizes &sizes,
                       const std::string &type, int64_t ranks) {
  TypeLaws laws;
  laws.depth = startOf(figures, "depth", type, ranks, sizes.depths);
  // Half of the matmuls of `rows` are sums over a width w, half over 3w.
  double logarithms = 0;
  for (int64_t width : sizes.widths)
    logarithms +=
        std::log(1 + laws.depth * (1.0 / width + 1.0 / (3 * width)) / 2);
  double lost = std::exp(logarithms / sizes.widths.size());
  std::vector<double> rates;
  for (int64_t rows : sizes.rows)
    rates.push_back(find(figures, nameOf("rows", type, ranks, rows)) * lost);
  laws.peak = *std::max_element(rates.begin(), rates.end());
  if (laws.peak <= 0)
    return {};
  laws.parts = partsOf(sizes.rows, rates);
  int64_t length = sizes.lengths[1];
  double forward = find(figures, nameOf("attention", type, ranks, length));
  double backward =
      find(figures, nameOf("attention_backward", type, ranks, length));
  laws.attentionKeys =
      startOf(figures, "attention", type, ranks, sizes.lengths);
  // The cost model's rate for heads of h is (h / 128)^0.35 of that for 128.
  laws.attention =
      std::min(1.0, forward * (1 + laws.attentionKeys / length) /
                        (laws.peak * std::pow(sizes.headSize / 128.0, 0.35)));
  laws.attentionBackward = std::clamp(backward / forward, 0.01, 2.0);
  return laws;
}

static const char *const types[] = {"f32", "bf16"};

static std::string peakText(const Figures &figures, const MeasuredSizes &sizes,
                            int64_t ranks) {
  std::string text;
  for (const char *type : types)
    text += format(
        "%s%s: %s", text.empty() ? "{" : ", ", type,
        rateText(lawsOf(figures, sizes, type, ranks).peak, "FLOP/s").c_str());
  return text + "}";
}

/// `by_type` of an efficiency.
static std::string lawsText(const Figures &figures, const MeasuredSizes &sizes,
                            const std::string &type, int64_t ranks) {
  TypeLaws laws = lawsOf(figures, sizes, type, ranks);
  std::string rows;
  for (size_t i = 0; i < laws.parts.size(); ++i)
    rows += format("%s%lld: %.4g", i ? ", " : "", (long long)sizes.rows[i],
                   laws.parts[i]);
  return format("%s: {attention: %.3g, attention_backward: %.3g, "
                "attention_keys: %.3g, depth: %.3g, rows: {%s}}",
                type.c_str(), laws.attention, laws.attentionBackward,
                laws.attentionKeys, laws.depth, rows.c_str());
}

//===----------------------------------------------------------------------===//
// Description
//===----------------------------------------------------------------------===//

namespace {
/// A description as it grows.
class Writer {
public:
  Writer(const MachineFacts &facts, const Figures &figures)
      : facts(facts), figures(figures),
        sizes(measuredSizes(facts.isGpu(), facts.isTiny)) {}
  std::string write();

private:
  void comment(const char *indent, const std::string &words) {
    if (words.empty())
      return; // of figures that were not measured
    text += std::string(indent) + "# " + words + "\n";
  }
  /// "name: value" of these figures, where they were measured.
  std::string list(const std::vector<std::string> &names) const;
  void rates(const char *indent, int64_t ranks);
  void network(const char *indent, int64_t ranks, const FittedTier &fitted);
  void alone();
  void device();
  void gpu();
  void tier();
  void links();
  void sharedBy(int64_t ranks);

  const MachineFacts &facts;
  const Figures &figures;
  const MeasuredSizes &sizes;
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

/// Bandwidth, peaks and parts of `ranks` ranks together.
void Writer::rates(const char *indent, int64_t ranks) {
  std::string start = indent;
  comment(indent, list({"memory " + std::to_string(ranks)}));
  text += start + "memory_bandwidth: " +
          rateText(find(figures, "memory " + std::to_string(ranks)), "B/s") +
          "\n";
  for (const char *type : types)
    comment(indent, list({nameOf("rows", type, ranks, sizes.rows.front()),
                          nameOf("rows", type, ranks, sizes.rows.back()),
                          nameOf("depth", type, ranks, sizes.depths[0]),
                          nameOf("depth", type, ranks, sizes.depths[1])}));
  text += start + "peak: " + peakText(figures, sizes, ranks) + "\n";
  for (const char *type : types)
    comment(
        indent,
        list({nameOf("attention", type, ranks, sizes.lengths[0]),
              nameOf("attention", type, ranks, sizes.lengths[1]),
              nameOf("attention_backward", type, ranks, sizes.lengths[0]),
              nameOf("attention_backward", type, ranks, sizes.lengths[1])}));
  // Of what the description has no type for: a GPU's models compute in bf16.
  TypeLaws laws = lawsOf(figures, sizes, facts.isGpu() ? "bf16" : "f32", ranks);
  text += start + "efficiency:\n";
  text += start + format("  {matmul: 1, attention: %.3g, attention_backward: "
                         "%.3g, memory: 1, network: 1,\n",
                         laws.attention, laws.attentionBackward);
  text +=
      start + "   by_type: {" + lawsText(figures, sizes, "f32", ranks) + ",\n";
  text += start + "             " + lawsText(figures, sizes, "bf16", ranks) +
          "}}\n";
}

void Writer::device() {
  text += "device:\n";
  text += format("  name: cpu-%lld-cores\n", (long long)facts.cores);
  text += format("  memory: %.4g GB\n", facts.memoryBytes / 1e9);
  text += "  reserved: 1 GB  # assumption: operating system and code\n";
  alone();
  comment("  ", "A kernel that does nothing, on all cores.");
  text += "  launch: " + secondsText(find(figures, "launch")) + "\n";
  text += "  backend: {target: cpu}\n  shared: true\n";
}

/// What one rank reaches.
void Writer::alone() {
  auto of = [](const char *kind, int64_t bytes) {
    return std::string(kind) + " " + std::to_string(bytes);
  };
  auto matmul = [&](const char *type, const std::array<int64_t, 3> &mnk) {
    return format("matmul %s %lld %lld %lld", type, (long long)mnk[0],
                  (long long)mnk[1], (long long)mnk[2]);
  };
  const std::vector<int64_t> &vectors = sizes.vectors;
  comment("  ", "Of one rank. Memory: x + y in vectors of " +
                    formatBytes(vectors.back()) + "; others:");
  comment("  ", list({of("copy", vectors.back()),
                      of("sum", vectors[vectors.size() - 2]),
                      of("sum", vectors.front())}));
  std::vector<std::string> matmuls;
  for (const char *type : types)
    for (size_t n : {size_t(0), std::min<size_t>(4, sizes.matmuls.size() - 1)})
      matmuls.push_back(matmul(type, sizes.matmuls[n]));
  comment("  ", list(matmuls));
  rates("  ", 1);
}

/// "nvidia-h100-80gb-hbm3"
static std::string plainName(const std::string &name) {
  std::string plain;
  for (char c : name) {
    bool isWord = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (c >= 'A' && c <= 'Z')
      plain += static_cast<char>(c - 'A' + 'a');
    else if (isWord)
      plain += c;
    else if (!plain.empty() && plain.back() != '-')
      plain += '-';
  }
  while (!plain.empty() && plain.back() == '-')
    plain.pop_back();
  return plain.empty() ? "gpu" : plain;
}

void Writer::gpu() {
  text += "device:\n  name: " + plainName(facts.name) + "\n";
  text += format("  memory: %.4g GB\n", facts.memoryBytes / 1e9);
  comment("  ", "In use after the measurements, by whatever: context, kernels, "
                "libraries.");
  text += format("  reserved: %.4g GB\n", facts.usedBytes / 1e9);
  alone();
  comment("  ", "A kernel that does nothing, within a recording; where the "
                "host enqueues each:");
  comment("  ", list({"launch enqueued"}));
  text += "  launch: " + secondsText(find(figures, "launch")) + "\n";
  text += "  backend: {target: cuda, arch: " + facts.arch + "}\n";
}

/// GPUs do not share a switch's bandwidth: each has its part, all of the time.
void Writer::links() {
  FittedTier fitted = fitTier(figures, facts.ranks);
  if (fitted.bytesPerSec <= 0)
    return;
  text += "tiers:\n";
  comment("  ", "By the transport " + facts.transport + ".");
  network("  ", facts.ranks, fitted);
  for (int64_t ranks = 2; ranks < facts.ranks; ++ranks)
    if (FittedTier fewer = fitTier(figures, ranks); fewer.bytesPerSec > 0)
      comment("  ", format("%lld ranks: %s each, %s", (long long)ranks,
                           rateText(fewer.bytesPerSec / ranks, "B/s").c_str(),
                           secondsText(fewer.latencySec).c_str()));
  text += format(
      "  - {name: node, size: %lld, bandwidth: %s, latency: %s}\n",
      (long long)facts.ranks,
      rateText(fitted.bytesPerSec / static_cast<double>(facts.ranks), "B/s")
          .c_str(),
      secondsText(fitted.latencySec).c_str());
}

/// What the bandwidth and latency that follow were fitted to.
void Writer::network(const char *indent, int64_t ranks,
                     const FittedTier &fitted) {
  comment(indent,
          format("Fitted to collectives of %lld ranks, %s to %s; half of them "
                 "are within %.0f %%.",
                 (long long)ranks, formatBytes(sizes.leastMessage).c_str(),
                 formatBytes(sizes.mostMessage).c_str(), fitted.error * 100));
  std::string middle = " " + std::to_string(ranks) + " ";
  for (int64_t size :
       {sizes.leastMessage, int64_t(1) << 20, sizes.mostMessage}) {
    std::string bytes = std::to_string(size);
    comment(indent,
            list({"all_reduce" + middle + bytes, "all_gather" + middle + bytes,
                  "send" + middle + bytes}));
  }
}

void Writer::tier() {
  FittedTier fitted = fitTier(figures, facts.ranks);
  if (fitted.bytesPerSec <= 0)
    return;
  text += "tiers:\n";
  network("  ", facts.ranks, fitted);
  text += format("  - {name: memory, size: %lld, bandwidth: %s, latency: %s}\n",
                 (long long)facts.ranks,
                 rateText(fitted.bytesPerSec, "B/s").c_str(),
                 secondsText(fitted.latencySec).c_str());
}

void Writer::sharedBy(int64_t ranks) {
  FittedTier fitted = fitTier(figures, ranks);
  if (fitted.bytesPerSec <= 0)
    return;
  text += format("  - ranks: %lld\n", (long long)ranks);
  if (find(figures, "memory " + std::to_string(ranks)) > 0)
    rates("    ", ranks);
  else
    comment("    ", "They take turns on the cores: what is not stated is as "
                    "before.");
  network("    ", ranks, fitted);
  text += "    bandwidth: " + rateText(fitted.bytesPerSec, "B/s") + "\n";
  text += "    latency: " + secondsText(fitted.latencySec) + "\n";
}

std::string Writer::write() {
  comment("", "Measured by kerf-run --calibrate on " + facts.date + ":");
  comment("", facts.device);
  if (facts.isTiny)
    comment("", "Sizes for a test (--measure-tiny): no figure here means "
                "anything. Do not plan by it.");
  if (facts.isGpu()) {
    text += "name: this-machine\n";
    gpu();
    links();
    return text;
  }
  comment("", format("For 1 to %lld ranks, which share what is stated here.",
                     (long long)facts.ranks));
  text += "name: this-machine\n";
  device();
  tier();
  size_t start = text.size();
  for (int64_t ranks = 2; ranks <= facts.ranks; ++ranks)
    sharedBy(ranks);
  if (text.size() > start)
    text.insert(start, "by_ranks:\n");
  return text;
}

std::string kerf::runtime::describeMachine(const MachineFacts &facts,
                                           const Figures &figures) {
  return Writer(facts, figures).write();
}
