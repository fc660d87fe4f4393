//===- Experts.cpp - how evenly experts are loaded ------------------------===//

#include "kerf/Train/Experts.h"

#include "kerf/Train/Json.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/Weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace kerf::runtime;

/// The output of this name for the same layers as output `load`.
static uint32_t findPartner(const kerf_artifact *artifact, uint32_t load,
                            const char *name) {
  uint32_t count = 0;
  const kerf_output *table = kerf_artifact_outputs(artifact, &count);
  auto text = [&](uint32_t offset) {
    return std::string_view(kerf_artifact_string(artifact, offset));
  };
  const kerf_output &own = table[load];
  for (uint32_t i = 0; i < count; ++i)
    if (text(table[i].name) == name &&
        text(table[i].layers) == text(own.layers) &&
        table[i].start == own.start && table[i].end == own.end &&
        table[i].elements == own.elements)
      return i;
  return KERF_NONE;
}

std::vector<ExpertPort>
kerf::runtime::findExperts(const kerf_artifact *artifact) {
  std::vector<ExpertPort> ports;
  uint32_t count = 0;
  const kerf_output *table = kerf_artifact_outputs(artifact, &count);
  for (uint32_t i = 0; i < count; ++i)
    if (std::strcmp(kerf_artifact_string(artifact, table[i].name),
                    "expert_load") == 0)
      ports.push_back({i, findPartner(artifact, i, "expert_rows")});
  return ports;
}

static double sumOf(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

ExpertLoad kerf::runtime::measureLoad(std::string layer,
                                      const std::vector<double> &choices,
                                      const std::vector<double> &rows) {
  ExpertLoad load;
  load.layer = std::move(layer);
  double total = load.choices = sumOf(choices);
  if (!rows.empty())
    load.dropped = total > 0 ? (total - sumOf(rows)) / total : 0;
  if (total <= 0)
    return load;
  double mean = total / static_cast<double>(choices.size());
  auto [least, most] = std::minmax_element(choices.begin(), choices.end());
  load.least = *least / mean;
  load.most = *most / mean;
  return load;
}

/// The extremes of all layers, and the part that is dropped in all of them.
static ExpertLoad joinLoads(const std::vector<ExpertLoad> &layers) {
  ExpertLoad all;
  all.least = layers.front().least;
  double dropped = 0;
  bool drops = false;
  for (const ExpertLoad &own : layers) {
    all.most = std::max(all.most, own.most);
    all.least = std::min(all.least, own.least);
    all.choices += own.choices;
    dropped += own.dropped.value_or(0) * own.choices;
    drops |= own.dropped.has_value();
  }
  if (drops)
    all.dropped = all.choices > 0 ? dropped / all.choices : 0;
  return all;
}

/// Adds the layers of one port.
static kerf_status readPort(kerf_session *session,
                            const kerf_artifact *artifact,
                            const ExpertPort &port,
                            std::vector<ExpertLoad> &layers,
                            kerf_error *error) {
  uint32_t count = 0;
  const kerf_output &output =
      kerf_artifact_outputs(artifact, &count)[port.load];
  std::vector<double> load(static_cast<size_t>(output.elements)), rows;
  kerf_status status = kerf_session_get_output_values(
      session, port.load, load.data(), load.size(), error);
  if (status == KERF_OK && port.rows != KERF_NONE) {
    rows.resize(load.size());
    status = kerf_session_get_output_values(session, port.rows, rows.data(),
                                            rows.size(), error);
  }
  if (status != KERF_OK)
    return status;
  int64_t experts = output.elements / (output.end - output.start);
  auto layerOf = [&](const std::vector<double> &all, int64_t i) {
    auto begin = all.begin() + (i - output.start) * experts;
    return all.empty() ? all : std::vector<double>(begin, begin + experts);
  };
  const char *pattern = kerf_artifact_string(artifact, output.layers);
  for (int64_t i = output.start; i < output.end; ++i)
    layers.push_back(measureLoad(expandPattern(pattern, i), layerOf(load, i),
                                 layerOf(rows, i)));
  return status;
}

kerf_status kerf::runtime::readExperts(kerf_session *session,
                                       const kerf_artifact *artifact,
                                       const std::vector<ExpertPort> &ports,
                                       std::optional<ExpertRecord> &record,
                                       kerf_error *error) {
  if (ports.empty())
    return KERF_OK;
  record.emplace();
  for (const ExpertPort &port : ports)
    if (kerf_status status =
            readPort(session, artifact, port, record->layers, error);
        status != KERF_OK)
      return status;
  record->all = joinLoads(record->layers);
  return KERF_OK;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

std::vector<std::string>
kerf::runtime::expertFields(const ExpertRecord &record) {
  const ExpertLoad &all = record.all;
  std::vector<std::string> fields = {
      format("expert load (max/mean): %.2f", all.most)};
  if (all.dropped)
    fields.push_back(format("dropped rows: %.2f%%", 100 * *all.dropped));
  return fields;
}

/// `"max": ..., "min": ..., "dropped": ...`.
static std::string figuresJson(const ExpertLoad &load) {
  std::string text =
      format("\"max\": %.9g, \"min\": %.9g", load.most, load.least);
  if (load.dropped)
    text += format(", \"dropped\": %.9g", *load.dropped);
  return text;
}

std::string kerf::runtime::formatExpertsJson(const ExpertRecord &record) {
  std::string layers;
  for (const ExpertLoad &load : record.layers)
    layers += (layers.empty() ? "{\"layer\": " : ", {\"layer\": ") +
              jsonQuote(load.layer) + ", " + figuresJson(load) + "}";
  return "\"expert_load\": {" + figuresJson(record.all) + ", \"layers\": [" +
         layers + "]}";
}
