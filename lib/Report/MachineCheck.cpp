//===- MachineCheck.cpp - a description beside what was measured ----------===//

#include "kerf/Report/MachineCheck.h"

#include "kerf/Cost/Collectives.h"
#include "kerf/Cost/Kernels.h"
#include "kerf/Support/Screen.h"

using namespace kerf;

double MachineFigure::part() const {
  double least = unit.empty() ? described : measured;
  double most = unit.empty() ? measured : described;
  return most > 0 ? least / most : 1;
}

static constexpr double kMiB = 1 << 20;

namespace {
/// Adds figures of two machines, each as one rank sees it.
struct Figures {
  const Machine &described, &measured;
  const Profile profile;
  std::vector<MachineFigure> all;

  template <typename Fn>
  void add(const std::string &name, const std::string &unit, Fn of) {
    MachineFigure figure = {name, unit, of(described), of(measured)};
    if (figure.described > 0 && figure.measured > 0)
      all.push_back(std::move(figure));
  }
  void addType(const std::string &type);
  void addNetwork(int64_t ranks);
};
} // namespace

/// Matmuls of 4096 x 4096 x 4096, and attention.
void Figures::addType(const std::string &type) {
  constexpr int64_t kSize = 4096;
  MatmulShape shape;
  shape.m = shape.n = shape.k = kSize;
  double bytes = type == "fp8" ? 1 : type == "bf16" || type == "f16" ? 2 : 4;
  add("matmuls " + type, "FLOP/s", [&](const Machine &machine) {
    return shape.flops() /
           matmulSec(machine.device, profile, shape, type, bytes);
  });
  if (type != "bf16" && type != "f32")
    return;
  auto attention = [&](const Machine &machine, bool isBackward) {
    AttentionRates rates = attentionRatesOf(machine.device, profile, type);
    return peakOf(machine.device, type) * rates.forward *
           (isBackward ? rates.backwardRatio : 1);
  };
  for (bool isBackward : {false, true})
    add(std::string("attention") + (isBackward ? " backward " : " ") + type,
        "FLOP/s",
        [&](const Machine &machine) { return attention(machine, isBackward); });
}

void Figures::addNetwork(int64_t ranks) {
  if (ranks < 2 || described.tiers.empty() || measured.tiers.empty())
    return;
  using Collective =
      double (*)(const Machine &, const Profile &, Group, double);
  auto collective = [&](const std::string &name, Collective sec) {
    for (double mib : {1.0, 64.0})
      add(name + " " + report::short3(mib) + " MiB", "",
          [&](const Machine &machine) {
            return sec(machine, profile, {ranks, 1}, mib * kMiB);
          });
  };
  collective("all_reduce", allReduceSec);
  collective("all_gather", allGatherSec);
  collective("all_to_all", allToAllSec);
  add("message 16 MiB", "", [&](const Machine &machine) {
    return messageCost(machine, profile, 0)(16 * kMiB);
  });
}

static int64_t ranksOf(const Machine &measured) {
  return measured.tiers.empty() ? 1 : measured.tiers.front().size;
}

std::vector<MachineFigure> kerf::figuresOf(const Machine &described,
                                           const Machine &measured) {
  int64_t ranks = ranksOf(measured);
  Machine a = described.withDevices(ranks).perRank();
  Machine b = measured.withDevices(ranks).perRank();
  Figures figures = {a, b, Profile(), {}};
  figures.add("memory", "B", [](const Machine &machine) {
    return machine.device.memoryBytes;
  });
  figures.add("memory bandwidth", "B/s", [](const Machine &machine) {
    return machine.device.memoryBytesPerSec * machine.device.efficiency.memory;
  });
  for (const auto &[type, peak] : b.device.peak)
    if (a.device.peak.count(type))
      figures.addType(type);
  figures.addNetwork(ranks);
  return std::move(figures.all);
}

std::string kerf::describeCluster(const Machine &machine) {
  std::string text = machine.name + ": " +
                     report::grouped(double(machine.describedDevices())) +
                     " x " + machine.device.name;
  for (const Tier &tier : machine.tiers)
    text += (&tier == &machine.tiers.front() ? "; " : ", ") + tier.name + " " +
            std::to_string(tier.size);
  return text + "\n";
}

std::string kerf::printFigures(const Machine &described,
                               const Machine &measured, const std::string &file,
                               int &worse) {
  std::vector<MachineFigure> figures = figuresOf(described, measured);
  report::Table table;
  table.align = "lrrrl";
  table.rows.push_back({"", "described", "measured", "", ""});
  worse = 0;
  for (const MachineFigure &figure : figures) {
    auto shown = [&](double number) {
      return figure.unit.empty() ? report::seconds(number)
                                 : report::scaled(number, figure.unit);
    };
    bool isWorse = figure.part() < 1 - kMachineSlack;
    worse += isWorse;
    table.rows.push_back({figure.name, shown(figure.described),
                          shown(figure.measured),
                          report::percent(figure.part(), 0),
                          isWorse ? "worse than described" : ""});
  }
  std::string text = described.name + " as plans count on it, beside " +
                     report::plural(double(ranksOf(measured)), "rank") +
                     " as measured\n\n" + table.print() + "\n";
  if (!worse)
    return text + "  nothing is worse than described by more than 10 %\n";
  return text +
         report::paragraph(
             std::to_string(worse) + " of " + std::to_string(figures.size()) +
                 " figures are worse than described by more than 10 %: steps "
                 "take longer than plans say. Look for other work on this "
                 "machine and slow links; else plan with kerfc --cluster=" +
                 file,
             2, 2);
}
