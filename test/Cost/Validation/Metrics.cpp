//===- Metrics.cpp - errors, ranks, regret --------------------------------===//

#include "Metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

using namespace kerf::validate;

double kerf::validate::quantile(std::vector<double> values, double q) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  double place = q * (values.size() - 1);
  auto below = static_cast<size_t>(place);
  size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - below) * (values[above] - values[below]);
}

ErrorFigures kerf::validate::errorFigures(const std::vector<Pair> &pairs) {
  ErrorFigures figures;
  std::vector<double> sizes;
  for (const Pair &pair : pairs) {
    sizes.push_back(std::abs(pair.error()));
    figures.mean += sizes.back();
    figures.bias += pair.error();
    figures.max = std::max(figures.max, sizes.back());
  }
  figures.count = pairs.size();
  if (pairs.empty())
    return figures;
  figures.mean /= pairs.size();
  figures.bias /= pairs.size();
  figures.median = quantile(sizes, 0.5);
  figures.p90 = quantile(sizes, 0.9);
  return figures;
}

/// Ranks from 0; equal values share the mean of their ranks.
static std::vector<double> ranksOf(const std::vector<double> &values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]])
      ++end;
    for (size_t i = begin; i < end; ++i)
      ranks[order[i]] = (begin + end - 1) / 2.0;
    begin = end;
  }
  return ranks;
}

std::optional<double>
kerf::validate::rankCorrelation(const std::vector<Pair> &pairs) {
  if (pairs.size() < 3)
    return std::nullopt;
  std::vector<double> predicted, measured;
  for (const Pair &pair : pairs) {
    predicted.push_back(pair.predicted);
    measured.push_back(pair.measured);
  }
  std::vector<double> x = ranksOf(predicted), y = ranksOf(measured);
  double middle = (pairs.size() - 1) / 2.0, xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  if (xx == 0 || yy == 0)
    return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

/// Runs of each group, one per layout.
static std::map<std::string, std::vector<Pair>>
groupsOf(const std::vector<Contestant> &contestants) {
  std::map<std::pair<std::string, std::string>, std::vector<Pair>> layouts;
  for (const Contestant &contestant : contestants)
    layouts[{contestant.group, contestant.layout}].push_back(contestant.times);
  std::map<std::string, std::vector<Pair>> groups;
  for (const auto &[name, runs] : layouts) {
    Pair mean;
    for (const Pair &run : runs) {
      mean.predicted += run.predicted / runs.size();
      mean.measured += run.measured / runs.size();
    }
    groups[name.first].push_back(mean);
  }
  return groups;
}

RegretFigures
kerf::validate::regretFigures(const std::vector<Contestant> &contestants) {
  RegretFigures figures;
  for (const auto &[name, runs] : groupsOf(contestants)) {
    if (runs.size() < 2)
      continue;
    Pair chosen = runs.front();
    double best = runs.front().measured;
    for (const Pair &run : runs) {
      best = std::min(best, run.measured);
      if (run.predicted < chosen.predicted ||
          (run.predicted == chosen.predicted && run.measured > chosen.measured))
        chosen = run;
    }
    double regret = chosen.measured / best - 1;
    ++figures.groups;
    figures.mean += regret;
    figures.max = std::max(figures.max, regret);
  }
  if (figures.groups)
    figures.mean /= figures.groups;
  return figures;
}

std::optional<double> kerf::validate::groupedRankCorrelation(
    const std::vector<Contestant> &contestants, int least) {
  double sum = 0, weight = 0;
  for (const auto &[name, runs] : groupsOf(contestants)) {
    if (static_cast<int>(runs.size()) < least)
      continue;
    if (std::optional<double> rank = rankCorrelation(runs)) {
      sum += *rank * runs.size();
      weight += runs.size();
    }
  }
  if (weight == 0)
    return std::nullopt;
  return sum / weight;
}

void FitFigures::add(bool didFail, bool isPredicted) {
  (didFail ? failed : ran) += 1;
  if (isPredicted)
    (didFail ? foreseen : falseAlarms) += 1;
}

FitFigures &FitFigures::operator+=(const FitFigures &other) {
  failed += other.failed;
  foreseen += other.foreseen;
  ran += other.ran;
  falseAlarms += other.falseAlarms;
  return *this;
}
