//===- Decoder.h - The llama line of models ---------------------*- C++ -*-===//
//
// The families share everything but what their form says, the window of
// attention, whether it goes through latents, and what follows it.
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
  /// Config fields of `count`, `inner` and `perToken`.
  llvm::StringLiteral countField, innerField;
  llvm::StringLiteral chosenField = "num_experts_per_tok";
  int64_t count = 0;
  int64_t perToken = 0;
  int64_t inner = 0;
  /// Probabilities of the chosen experts are divided by their sum.
  bool isRenormalized = false;
  /// Experts are chosen from the best of some groups.
  struct Groups {
    int64_t count, best;
  };
  std::optional<Groups> groups = std::nullopt;
  /// Experts are chosen with a bias, which balances their load.
  struct Balance {
    /// See `ImportOptions::routerBiasRate`, and the mean load.
    double rate, load;
  };
  std::optional<Balance> balance = std::nullopt;
  /// Factor on weights.
  double scale = 1;
  /// The router's logits are sums in f32 in every precision.
  bool hasExactLogits = false;
  /// gpt_oss: weights of gate and up are one, channel by channel, stored
  /// [experts, inputs, outputs]; all have biases, the router too.
  struct Clamped {
    double alpha,
        limit; ///< up + 1 times gate sigmoid(alpha gate), both clamped
  };
  std::optional<Clamped> clamped = std::nullopt;
  /// Weights of gate, then up, are one: a stack [experts, inputs, outputs]
  /// (llama4), or [experts, outputs, inputs] (granitemoe).
  enum class Stack { None, ByInput, ByOutput } stack = Stack::None;
  /// llama4: what experts read is weighed, not what they give.
  bool weighsInputs = false;
  /// Probabilities are sigmoids.
  bool isSigmoid = false;
  /// Names in the module: of the router, and of its biases.
  llvm::StringLiteral router = "gate", bias = "gate.e_score_correction_bias";
  /// The biases are stored [1, experts].
  bool isBiasRow = false;
  /// The library has an auxiliary loss.
  bool hasAux = true;
  /// Inner size of the experts of all tokens; 0: there are none.
  int64_t sharedInner = 0;
  llvm::StringLiteral shared = "shared_experts";
  /// What they give is multiplied by a sigmoid of each token.
  bool isSharedGated = false;
  /// Rows of an expert per sequence, where choices are dropped.
  std::optional<int64_t> capacity = std::nullopt;
  AuxLoss aux = AuxLoss::None;
  double auxCoefficient = 0.0;
};

/// Layers [start, end), which are alike.
struct LayerRun {
  int64_t start, end;
  bool hasWindow, hasExperts;
  /// Queries and keys are rotated by their positions.
  bool isRotated = true;
  /// The rotation is that of layers with a window.
  bool isLocal = false;
  /// Tokens attend within chunks.
  bool isChunked = false;
  bool isAlike(const LayerRun &o) const {
    return hasWindow == o.hasWindow && hasExperts == o.hasExperts &&
           isRotated == o.isRotated && isLocal == o.isLocal &&
           isChunked == o.isChunked;
  }
};

/// Multi-head latent attention (DeepSeek-V2 report, 2.1): keys and values are
/// made of a small latent, and a rotated part of the key is one for all heads.
struct Latents {
  /// Absent: queries are a plain projection.
  std::optional<int64_t> queryRank;
  int64_t rank;
  /// Channels of a head's key without and with rotation, and of its value.
  int64_t plain, rotated, value;
  bool isInterleaved;
  /// Of the norms of latents: the library's default, not the config's.
  static constexpr double eps = 1e-6;
};

struct DecoderConfig {
  const DecoderForm *form = nullptr;
  Placement placement;
  int64_t vocab, hidden, inner, layers, heads, kvHeads, headDim;
  /// Rows of the table of learned positions.
  int64_t positions = 0;
  double eps;
  /// Standard deviation of initial weights: the field's, and with the library's
  /// replacement for 0, which its expert weights do not have.
  double rawStd, std;
  double dropout;
  Activation act;
  Rope rope;
  /// Of layers with a window, where it differs.
  std::optional<Rope> windowRope;
  std::optional<Latents> latents;
  /// Tokens of a chunk, of the layers that have them.
  std::optional<int64_t> chunk;
  /// llama4: in layers without rotation, queries get longer by their positions.
  struct Temperature {
    double floor, scale;
  };
  std::optional<Temperature> temperature;
  /// llama4: queries and keys that turn are normalized then, without a gain.
  bool normalizesTurned = false;
  /// `window` is of the layers that have one.
  std::optional<int64_t> window, padToken;
  /// Biases of queries, keys and values; of attention's output; of the MLP.
  bool hasInputBias = false, hasOutputBias = false, hasMlpBias = false;
  /// Of the output layer.
  bool hasHeadBias = false;
  bool isTied = false;
  /// Of embeddings, of what attention and the MLP add.
  double embeddingDropout = 0, attentionOutputDropout = 0, mlpDropout = 0;
  /// Factors: on embeddings, on what layers add, on logits; on scores, instead
  /// of the root of the head's size.
  double embeddingScale = 1, residualScale = 1, logitScale = 1;
  std::optional<double> scoreScale = std::nullopt;
  /// Soft caps of scores and of logits.
  std::optional<double> scoreCap = std::nullopt, logitCap = std::nullopt;
  HeadNorms headNorms = HeadNorms::None;
  std::optional<Experts> experts;
  /// All layers in order.
  std::vector<LayerRun> runs;

  int64_t expertLayers() const;
  /// "model.layers.{i}.<module>", and of all layers "model.layers.<module>".
  std::string layerName(llvm::StringRef module) const;
  std::string moduleName(llvm::StringRef module) const;
};

/// Reads heads with latents.
void readLatents(ConfigReader &config, DecoderConfig &c);
void checkLatents(ConfigReader &config, const DecoderConfig &c,
                  const ImportOptions &options);
/// Queries, keys and values `[B,S,H,*]` of x.
struct Heads {
  mlir::Value q, k, v;
};
Heads buildLatentHeads(LayerBuilder &b, mlir::Value x, const DecoderConfig &c);
/// Queries, keys and values without latents.
Heads buildHeads(LayerBuilder &b, mlir::Value x, const DecoderConfig &c,
                 const LayerRun &run);
/// What attention and the MLP give of what they read.
mlir::Value buildAttention(LayerBuilder &b, mlir::Value x,
                           const DecoderConfig &c, const LayerRun &run);
mlir::Value buildMlp(LayerBuilder &b, mlir::Value x, const DecoderConfig &c);
/// A norm of a layer.
mlir::Value buildNorm(LayerBuilder &b, mlir::Value x, llvm::StringRef module,
                      const DecoderConfig &c);
/// x + y times the family's factor on what layers add.
mlir::Value addScaled(LayerBuilder &b, mlir::Value x, mlir::Value y,
                      const DecoderConfig &c);
/// x + attention, as the family places its norms.
mlir::Value addAttention(LayerBuilder &b, mlir::Value x, const DecoderConfig &c,
                         const LayerRun &run);
/// A layer without experts.
mlir::Value buildLayer(LayerBuilder &b, mlir::Value x, const DecoderConfig &c,
                       const LayerRun &run);
/// Rotates heads, or the first channels of them, by their positions.
mlir::Value buildRotation(LayerBuilder &b, mlir::Value x,
                          const DecoderConfig &c, const Rope &rope);

/// Reads which layers have a window and which have experts, after the number of
/// layers, the window and the experts.
void readLayerRuns(ConfigReader &config, llvm::StringRef family, int64_t seq,
                   DecoderConfig &c);

Experts mixtralExperts(ConfigReader &config, int64_t inner);
Experts minimaxExperts(ConfigReader &config, const ImportOptions &options,
                       int64_t inner);
Experts ernieExperts(ConfigReader &config, const ImportOptions &options);
Experts hunyuanExperts(ConfigReader &config, int64_t inner);
Experts graniteExperts(ConfigReader &config, int64_t inner);
/// qwen2_moe, qwen3_moe, and olmoe, whose experts have the MLP's inner size.
Experts qwenExperts(ConfigReader &config, llvm::StringRef family,
                    int64_t inner);
/// deepseek_v3, and what routes as it does: glm4_moe and dots1.
Experts deepseekExperts(ConfigReader &config, const ImportOptions &options,
                        llvm::StringRef family);
Experts deepseekV2Experts(ConfigReader &config);
Experts gptOssExperts(ConfigReader &config, int64_t inner);
Experts llama4Experts(ConfigReader &config);
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
