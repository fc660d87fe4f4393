//===- LayerRuns.cpp - Which layers of a model are alike ------------------===//
//
// Layers differ in three things: whether attention has a window, whether it
// rotates, and whether experts follow it. Neighbours that are alike become one
// repeat.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

using namespace kerf;
using namespace mlir;

/// Runs of a model are repeats of its IR, each with all ops of a layer.
static constexpr size_t kMaxRuns = 1000;

int64_t DecoderConfig::expertLayers() const {
  int64_t count = 0;
  for (const LayerRun &run : runs)
    count += run.hasExperts ? run.end - run.start : 0;
  return count;
}

/// Layers with a window as far as no list says: those from `max_window_layers`
/// on, or in a pattern all but every so many-th.
static std::vector<bool> windowsByRule(ConfigReader &config,
                                       const DecoderConfig &c) {
  std::vector<bool> windows(c.layers);
  if (c.form->pattern) {
    constexpr llvm::StringLiteral field = "sliding_window_pattern";
    int64_t period = config.knows(field)
                         ? config.integer(field, *c.form->pattern)
                         : *c.form->pattern;
    for (int64_t i = 0; i < c.layers; ++i)
      windows[i] = c.window && (i + 1) % period != 0;
    return windows;
  }
  bool isDots = c.form->family == "dots1";
  int64_t full = config.integer("max_window_layers", isDots ? 62 : 28, {0});
  // Of qwen2_moe every other one before them.
  bool isEarly = c.form->family == "qwen2_moe";
  for (int64_t i = 0; i < c.layers; ++i)
    windows[i] = c.window && (isEarly ? i < full && i % 2 == 0 : i >= full);
  return windows;
}

/// As `layer_types` says, or else a rule.
static std::vector<bool> readWindows(ConfigReader &config,
                                     const DecoderConfig &c) {
  constexpr llvm::StringLiteral field = "layer_types";
  std::vector<bool> windows = windowsByRule(config, c);
  if (!config.findNonNull(field))
    return windows;
  llvm::ArrayRef<json::Value> types = config.list(field);
  if (!config.failed() && static_cast<int64_t>(types.size()) != c.layers)
    config.error(field) << "field '" << field << "': expected the types of "
                        << c.layers << " layers, found " << types.size();
  if (config.failed())
    return windows;
  for (int64_t i = 0; i < c.layers; ++i) {
    windows[i] = types[i].string == "sliding_attention";
    if (!windows[i] && types[i].string != "full_attention")
      config.errorAt(types[i], field,
                     "'full_attention' or 'sliding_attention'");
    else if (windows[i] && !c.window)
      config.errorAt(types[i], field,
                     "'full_attention', as the config has no window")
              .attachNote()
          << (config.knows("use_sliding_window")
                  ? "a window needs 'use_sliding_window' and 'sliding_window'"
                  : "a window needs 'sliding_window'");
  }
  return windows;
}

/// Layers of qwen2_moe and qwen3_moe with experts: every
/// `decoder_sparse_step`-th but those of `mlp_only_layers`.
static std::vector<bool> readExpertLayers(ConfigReader &config,
                                          const DecoderConfig &c) {
  constexpr llvm::StringLiteral field = "mlp_only_layers";
  int64_t step = config.integer("decoder_sparse_step", 1);
  std::vector<bool> experts(c.layers);
  for (int64_t i = 0; i < c.layers; ++i)
    experts[i] = (i + 1) % step == 0;
  for (const json::Value &entry : config.list(field)) {
    if (entry.kind != json::Kind::Number || !entry.isInteger ||
        entry.integer < 0)
      config.errorAt(entry, field, "an integer of at least 0");
    else if (entry.integer < c.layers)
      experts[entry.integer] = false;
  }
  if (!config.failed() && !llvm::is_contained(experts, true))
    config.error(field) << "expected a layer with experts: 'mlp_only_layers' "
                           "and 'decoder_sparse_step' "
                        << step << " leave none";
  return experts;
}

/// Layers of ernie4_5_moe with experts: every `moe_layer_interval`-th from
/// `moe_layer_start_index` to `moe_layer_end_index` (-1: the last).
static std::vector<bool> readErnieLayers(ConfigReader &config,
                                         const DecoderConfig &c) {
  constexpr llvm::StringLiteral start = "moe_layer_start_index";
  constexpr llvm::StringLiteral end = "moe_layer_end_index";
  int64_t interval = config.integer("moe_layer_interval", 1);
  int64_t first = config.integer(start, 1, {0});
  int64_t last = config.optionalInteger(end, -1, {-1}).value_or(-1);
  if (last < 0)
    last = c.layers - 1;
  std::vector<bool> experts(c.layers);
  for (int64_t i = first; i <= std::min(last, c.layers - 1); ++i)
    experts[i] = (i + 1) % interval == 0;
  if (!config.failed() && !llvm::is_contained(experts, true))
    config.error(start) << "expected a layer with experts: '" << start << "' "
                        << first << ", '" << end << "' " << last
                        << " and 'moe_layer_interval' " << interval
                        << " leave none of " << c.layers;
  return experts;
}

/// Where layers without a window see all tokens, cohere2 and exaone4 rotate
/// only in those with one.
static std::vector<bool> rotatedBy(llvm::StringRef family,
                                   const std::vector<bool> &local,
                                   const DecoderConfig &c) {
  bool isByType = family == "cohere2" || (family == "exaone4" && c.window);
  return isByType ? local : std::vector<bool>(c.layers, true);
}

/// Layers of llama4 with experts: those of `moe_layers`, or every
/// `interleave_moe_layer_step`-th.
static std::vector<bool> readMoeLayers(ConfigReader &config,
                                       const DecoderConfig &c) {
  constexpr llvm::StringLiteral field = "moe_layers";
  int64_t step = config.integer("interleave_moe_layer_step", 1);
  std::vector<bool> experts(c.layers);
  if (!config.findNonNull(field)) {
    for (int64_t i = 0; i < c.layers; ++i)
      experts[i] = (i + 1) % step == 0;
    return experts;
  }
  for (const json::Value &entry : config.list(field)) {
    if (entry.kind != json::Kind::Number || !entry.isInteger ||
        entry.integer < 0 || entry.integer >= c.layers)
      config.errorAt(entry, field, "a layer's number");
    else
      experts[entry.integer] = true;
  }
  return experts;
}

/// Layers of llama4 within whose chunks tokens attend: as `layer_types` says,
/// or those that rotate.
static std::vector<bool> readChunked(ConfigReader &config,
                                     const DecoderConfig &c,
                                     const std::vector<bool> &rotated) {
  constexpr llvm::StringLiteral field = "layer_types";
  std::vector<bool> chunked(c.layers, false);
  llvm::ArrayRef<json::Value> types = config.list(field);
  if (types.empty())
    return c.chunk ? rotated : chunked;
  if (static_cast<int64_t>(types.size()) != c.layers)
    config.error(field) << "field '" << field << "': expected the types of "
                        << c.layers << " layers, found " << types.size();
  for (int64_t i = 0; i < c.layers && !config.failed(); ++i) {
    chunked[i] = types[i].string == "chunked_attention";
    if (!chunked[i] && types[i].string != "full_attention")
      config.errorAt(types[i], field,
                     "'full_attention' or 'chunked_attention'");
    else if (chunked[i] && !c.chunk)
      config.errorAt(types[i], field,
                     "'full_attention', as 'attention_chunk_size' is null");
  }
  return chunked;
}

/// Layers of smollm3 and llama4 that rotate queries and keys: as
/// `no_rope_layers` says, or all but every `no_rope_layer_interval`-th.
static std::vector<bool> readRotated(ConfigReader &config,
                                     const DecoderConfig &c) {
  constexpr llvm::StringLiteral field = "no_rope_layers";
  int64_t interval = config.integer("no_rope_layer_interval", 4);
  std::vector<bool> rotated(c.layers);
  for (int64_t i = 0; i < c.layers; ++i)
    rotated[i] = (i + 1) % interval != 0;
  llvm::ArrayRef<json::Value> stated = config.list(field);
  if (stated.empty())
    return rotated;
  if (!config.failed() && static_cast<int64_t>(stated.size()) != c.layers)
    config.error(field) << "field '" << field << "': expected 0 or 1 for "
                        << c.layers << " layers, found " << stated.size();
  if (config.failed())
    return rotated;
  for (int64_t i = 0; i < c.layers; ++i) {
    const json::Value &entry = stated[i];
    if (entry.kind != json::Kind::Number || !entry.isInteger ||
        entry.integer < 0 || entry.integer > 1)
      config.errorAt(entry, field, "0 or 1");
    else
      rotated[i] = entry.integer == 1;
  }
  return rotated;
}

void kerf::readLayerRuns(ConfigReader &config, llvm::StringRef family,
                         int64_t seq, DecoderConfig &c) {
  std::vector<bool> windows(c.layers, c.window.has_value());
  std::vector<bool> experts(c.layers, c.experts.has_value());
  if (family == "qwen2" || family == "qwen3" || family == "smollm3" ||
      family == "qwen2_moe" || family == "dots1" || c.form->pattern)
    windows = readWindows(config, c);
  std::vector<bool> local = windows;
  bool isLlama4 = family == "llama4_text";
  std::vector<bool> rotated = family == "smollm3" || isLlama4
                                  ? readRotated(config, c)
                                  : rotatedBy(family, local, c);
  std::vector<bool> chunked(c.layers, false);
  if (isLlama4) {
    chunked = readChunked(config, c, rotated);
    experts = readMoeLayers(config, c);
  }
  if (family == "qwen2_moe" || family == "qwen3_moe")
    experts = readExpertLayers(config, c);
  if (family == "ernie4_5_moe")
    experts = readErnieLayers(config, c);
  if (config.knows("first_k_dense_replace")) {
    int64_t absent = family == "deepseek_v3" ? 3 : family == "glm4_moe";
    int64_t dense = config.integer("first_k_dense_replace", absent, {0});
    std::fill_n(experts.begin(), std::min(dense, c.layers), false);
  }
  // A window that reaches over the whole sequence hides nothing.
  if (c.window && *c.window >= seq)
    windows.assign(c.layers, false);
  if (c.chunk && *c.chunk >= seq)
    chunked.assign(c.layers, false);
  for (int64_t i = 0; i < c.layers; ++i) {
    // Whether a layer is local matters where that changes its rotation.
    bool isLocal = local[i] && c.windowRope;
    LayerRun run = {i,          i + 1,   windows[i], experts[i],
                    rotated[i], isLocal, chunked[i]};
    if (i > 0 && c.runs.back().isAlike(run))
      ++c.runs.back().end;
    else
      c.runs.push_back(run);
  }
  if (!config.failed() && c.runs.size() > kMaxRuns)
    config.error("num_hidden_layers")
        << "expected layers that change their kind at most " << kMaxRuns
        << " times, found " << c.runs.size();
}
