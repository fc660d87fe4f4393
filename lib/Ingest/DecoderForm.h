//===- DecoderForm.h - What the layers of a family are ----------*- C++ -*-===//

#ifndef KERF_LIB_INGEST_DECODERFORM_H
#define KERF_LIB_INGEST_DECODERFORM_H

#include "LayerBuilder.h"

namespace kerf {

/// Where a layer normalizes, with n a norm, A attention and M the MLP.
enum class Placement {
  Before,        ///< y = x + A(n(x)), y + M(n(y))
  After,         ///< y = x + n(A(x)), y + n(M(y))
  Around,        ///< y = x + n(A(n(x))), y + n(M(n(y)))
  Parallel,      ///< x + A(n(x)) + M(n(x)), one norm
  ParallelOfTwo, ///< x + A(n(x)) + M(n'(x))
};

/// How queries, keys and values are stored.
enum class QkvForm {
  Separate,
  OneAfterTheOther, ///< rows of one matrix: all queries, all keys, all values
  ByHead,           ///< rows of one matrix: of each head q, k, v
};

enum class MlpForm {
  Gated,
  GatedInOne, ///< gate and up are rows of one matrix
  Plain,      ///< up, activation, down
};

/// Norms of queries and keys.
enum class HeadNorms {
  None,
  EachHead,       ///< by itself
  EachTurnedHead, ///< the same, once it is rotated
  AllHeads,       ///< together, before they are split
};

/// Names of modules in checkpoints; those of a layer stand behind its number.
struct ModuleNames {
  llvm::StringLiteral model = "model", embedding = "embed_tokens",
                      lastNorm = "norm", head = "lm_head",
                      attention = "self_attn", qkv = "qkv_proj",
                      output = "o_proj", firstNorm = "input_layernorm",
                      secondNorm = "post_attention_layernorm";
  /// Of what attention and the MLP give; where `Placement` has them.
  llvm::StringLiteral attentionNorm = "", mlpNorm = "";
  /// In which the MLP's are; "": the layer itself.
  llvm::StringLiteral mlp = "mlp";
  llvm::StringLiteral up = "up_proj", down = "down_proj";
  /// Of queries and keys; where `HeadNorms` has them.
  llvm::StringLiteral queryNorm = "q_norm", keyNorm = "k_norm";
};

/// What a family's layers are, besides their sizes, and the defaults of its
/// config class that differ between families.
struct DecoderForm {
  llvm::StringLiteral family = "";
  int64_t vocab = 32000, hidden = 4096, inner = 11008, layers = 32, heads = 32;
  /// Absent: as many as attention heads.
  std::optional<int64_t> kvHeads = std::nullopt;
  /// Absent: hidden size divided by attention heads.
  std::optional<int64_t> headDim = std::nullopt;
  int64_t maxPositions = 2048;
  double eps = 1e-6, theta = 1e4, std = 0.02, attentionDropout = 0;
  std::optional<int64_t> window = std::nullopt, padToken = std::nullopt;
  bool isTied = false;
  llvm::StringLiteral activation = "silu", activationField = "hidden_act",
                      epsField = "rms_norm_eps",
                      innerField = "intermediate_size",
                      stdField = "initializer_range";
  /// Layers in a pattern: all but every so many-th have a window.
  std::optional<int64_t> pattern = std::nullopt;
  /// Base of the rotation in layers with a window, where it differs.
  std::optional<double> windowTheta = std::nullopt;
  /// The part of each head that is rotated, where a config may say so.
  std::optional<double> rotatedPart = std::nullopt;
  llvm::StringLiteral rotatedPartField = "partial_rotary_factor",
                      thetaField = "rope_theta";

  NormForm norm = NormForm::Rms;
  Placement placement = Placement::Before;
  QkvForm qkv = QkvForm::Separate;
  MlpForm mlp = MlpForm::Gated;
  HeadNorms headNorms = HeadNorms::None;
  /// Neighbouring channels turn together, not those of the halves.
  bool turnsNeighbours = false;
  /// The embedding is multiplied by the root of the hidden size.
  bool scalesEmbedding = false;
  /// Positions are learned, not rotations; the first has this row of the table.
  std::optional<int64_t> firstPosition = std::nullopt;
  bool hasHeadBias = false;
  /// Each head may attend to nothing, by a score of its own.
  bool hasSinks = false;
  /// `rope_parameters` of configs without them, as JSON.
  llvm::StringLiteral ropeDefault = "";
  ModuleNames names = {};
};

/// That of a family, which is one of this kind.
const DecoderForm &formOf(llvm::StringRef family);

} // namespace kerf

#endif // KERF_LIB_INGEST_DECODERFORM_H
