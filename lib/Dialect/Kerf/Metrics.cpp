#include "kerf/Dialect/Kerf/Metrics.h"

#include "llvm/ADT/SmallVector.h"

using namespace kerf;

std::string LayerMetric::print() const {
  return (kind + " " + layers + " ").str() + std::to_string(start) + " to " +
         std::to_string(end);
}

std::optional<LayerMetric> kerf::parseLayerMetric(llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef, 5> words;
  name.split(words, ' ');
  LayerMetric metric;
  if (words.size() != 5 ||
      (words[0] != kExpertLoad && words[0] != kExpertRows) ||
      words[1].empty() || words[3] != "to" ||
      words[2].getAsInteger(10, metric.start) ||
      words[4].getAsInteger(10, metric.end) || metric.start < 0 ||
      metric.end <= metric.start)
    return std::nullopt;
  metric.kind = words[0];
  metric.layers = words[1];
  return metric;
}
