//===- Decoder.h - The llama line of models ---------------------*- C++ -*-===//
//
// The families share everything but the window of attention, norms and biases
// in it, and what follows it.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_INGEST_DECODER_H
#define KERF_LIB_INGEST_DECODER_H

#include "Families.h"
#include "Rope.h"

namespace kerf {

/// How the load of experts is balanced; see `ImportOptions::auxLoss`.
enum class AuxLoss { None, Layer, Global };

struct Experts {
  /// Names in checkpoints: of the module, and of an expert's weights in it.
  llvm::StringLiteral module, gate, up, down;
  /// Config fields of `count` and `inner`.
  llvm::StringLiteral countField, innerField;
  int64_t count = 0;
  int64_t perToken = 0;
  int64_t inner = 0;
  /// Probabilities of the chosen experts are divided by their sum.
  bool isRenormalized = false;
  /// Rows of an expert per sequence, where choices are dropped.
  std::optional<int64_t> capacity = std::nullopt;
  AuxLoss aux = AuxLoss::None;
  double auxCoefficient = 0.0;
};

/// Layers [start, end), which are alike.
struct LayerRun {
  int64_t start, end;
  bool hasWindow, hasExperts;
};

struct DecoderConfig {
  int64_t vocab, hidden, inner, layers, heads, kvHeads, headDim;
  double eps;
  /// Standard deviation of initial weights: the field's, and with the library's
  /// replacement for 0, which its expert weights do not have.
  double rawStd, std;
  double dropout;
  Activation act;
  Rope rope;
  /// `window` is of the layers that have one.
  std::optional<int64_t> window, padToken;
  /// Biases of queries, keys and values; of attention's output; of the MLP.
  bool hasInputBias = false, hasOutputBias = false, hasMlpBias = false;
  /// Queries and keys are normalized, each head by itself.
  bool hasHeadNorms = false;
  bool isTied = false;
  std::optional<Experts> experts;
  /// All layers in order.
  std::vector<LayerRun> runs;

  int64_t expertLayers() const;
};

/// Reads which layers have a window and which have experts, after the number of
/// layers, the window and the experts.
void readLayerRuns(ConfigReader &config, llvm::StringRef family, int64_t seq,
                   DecoderConfig &c);

Experts mixtralExperts(ConfigReader &config, int64_t inner);
Experts qwenExperts(ConfigReader &config);
/// What all families with experts have: auxiliary loss and capacity.
void readRouting(ConfigReader &config, const ImportOptions &options,
                 Experts &experts);
void checkExperts(ConfigReader &config, const DecoderConfig &c,
                  const ImportOptions &options);

/// What a mixture of experts makes of x: its output `[B,S,D]` and the router's
/// logits and choice.
struct MixtureResult {
  mlir::Value output, logits, experts;
};
MixtureResult buildMixture(LayerBuilder &b, mlir::Value x,
                           const DecoderConfig &c);

/// The library's load-balance loss of all layers together; `logits` are
/// `[L,B,S,E]` of one run of layers after the other.
mlir::Value buildGlobalAuxLoss(LayerBuilder &b, mlir::ValueRange logits,
                               const Experts &experts);
/// The load-balance loss of one layer, averaged over sequences.
mlir::Value buildLayerAuxLoss(LayerBuilder &b, const MixtureResult &mixture);

} // namespace kerf

#endif // KERF_LIB_INGEST_DECODER_H
