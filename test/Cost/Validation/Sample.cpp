//===- Sample.cpp - farthest-point sampling -------------------------------===//

#include "Sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace kerf::validate;

std::vector<double> kerf::validate::featuresOf(const Row &row) {
  auto log = [](double value) { return std::log2(std::max(value, 1.0)); };
  return {log(parametersOf(row)),
          log(row.devices.value_or(1)),
          log(row.tp.value_or(1)),
          log(row.pp.value_or(1)),
          log(row.microBatch.value_or(1)),
          log(microBatchesOf(row)),
          log(row.sequence.value_or(1)),
          row.recompute == "none"   ? 0.0
          : row.recompute == "full" ? 1.0
                                    : 0.5,
          row.flash.value_or(false) ? 1.0 : 0.0,
          isFloat8(row) ? 1.0 : 0.0};
}

/// Scales each feature to [0, 1]; constant ones become 0.
static void scale(std::vector<std::vector<double>> &points) {
  for (size_t f = 0; f < points.front().size(); ++f) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const std::vector<double> &point : points) {
      low = std::min(low, point[f]);
      high = std::max(high, point[f]);
    }
    for (std::vector<double> &point : points)
      point[f] = high > low ? (point[f] - low) / (high - low) : 0;
  }
}

static double squaredDistance(const std::vector<double> &a,
                              const std::vector<double> &b) {
  double sum = 0;
  for (size_t f = 0; f < a.size(); ++f)
    sum += (a[f] - b[f]) * (a[f] - b[f]);
  return sum;
}

static std::vector<double>
middleOf(const std::vector<std::vector<double>> &points) {
  std::vector<double> middle(points.front().size(), 0);
  for (const std::vector<double> &point : points)
    for (size_t f = 0; f < middle.size(); ++f)
      middle[f] += point[f] / points.size();
  return middle;
}

std::vector<size_t>
kerf::validate::farthestPoints(const std::vector<std::vector<double>> &given,
                               size_t count) {
  std::vector<size_t> taken;
  if (given.empty())
    return taken;
  std::vector<std::vector<double>> points = given;
  scale(points);
  std::vector<double> distance;
  std::vector<double> middle = middleOf(points);
  for (const std::vector<double> &point : points)
    distance.push_back(squaredDistance(point, middle));
  while (taken.size() < count) {
    size_t next =
        std::max_element(distance.begin(), distance.end()) - distance.begin();
    if (!taken.empty() && distance[next] <= 0)
      break;
    bool isFirst = taken.empty();
    taken.push_back(next);
    for (size_t i = 0; i < points.size(); ++i) {
      double toNext = squaredDistance(points[i], points[next]);
      distance[i] = isFirst ? toNext : std::min(distance[i], toNext);
    }
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}
