//===- Decoder.h - The llama line of models ---------------------*- C++ -*-===//
//
// Llama, Mistral and Mixtral share everything but the window of attention and
// what follows it.
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
  int64_t count = 0;
  int64_t perToken = 0;
  /// Rows of an expert per sequence, where choices are dropped.
  std::optional<int64_t> capacity;
  AuxLoss aux = AuxLoss::None;
  double auxCoefficient = 0.0;
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
  std::optional<int64_t> window, padToken;
  bool hasAttentionBias = false, hasMlpBias = false, isTied = false;
  /// Mixtral only.
  std::optional<Experts> experts;
};

Experts readExperts(ConfigReader &config, const ImportOptions &options);
void checkExperts(ConfigReader &config, const DecoderConfig &c,
                  const ImportOptions &options);

/// What a mixture of experts makes of x: its output `[B,S,D]` and the router's
/// logits and choice.
struct MixtureResult {
  mlir::Value output, logits, experts;
};
MixtureResult buildMixture(LayerBuilder &b, mlir::Value x,
                           const DecoderConfig &c);

/// The library's load-balance loss of all layers' logits `[L,B,S,E]` together.
mlir::Value buildGlobalAuxLoss(LayerBuilder &b, mlir::Value logits,
                               const Experts &experts);
/// The load-balance loss of one layer, averaged over sequences.
mlir::Value buildLayerAuxLoss(LayerBuilder &b, const MixtureResult &mixture);

} // namespace kerf

#endif // KERF_LIB_INGEST_DECODER_H
