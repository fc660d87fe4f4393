//===- FormFields.h - Fields that many families have ------------*- C++ -*-===//
//
// Entries of the lists in FormFields.cpp and MixtureFields.cpp. They are macros
// because a list of fields is a constant.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_INGEST_FORMFIELDS_H
#define KERF_LIB_INGEST_FORMFIELDS_H

#include "Fields.h"

namespace kerf {

inline constexpr FieldUse Used = FieldUse::Used;
inline constexpr FieldUse Inert = FieldUse::Inert;
inline constexpr FieldUse Fixed = FieldUse::Fixed;

inline constexpr llvm::StringLiteral kMlpBias =
    "biases in the MLP (default false)";
inline constexpr llvm::StringLiteral kAdded =
    "dropout of what layers add (default 0)";
inline constexpr llvm::StringLiteral kSeesAll =
    "tokens that a token sees, with itself (default null: all)";
inline constexpr llvm::StringLiteral kInputBias =
    "biases of queries, keys and values (default true)";
inline constexpr llvm::StringLiteral kTypes =
    "per layer full_attention or sliding_attention (default null)";
inline constexpr llvm::StringLiteral kSoftcap =
    "bounds logits by a hyperbolic tangent";

/// Of `rope_scaling` in Hunyuan's configs.
inline constexpr Field kAlphaFields[] = {
    {"alpha", Used,
     "dynamic: stretches the base for all lengths, instead of factor"}};

} // namespace kerf

/// What the families below share; each has the fields of its own besides.
#define KERF_FORM_FIELDS(VOCAB, HIDDEN, INNER, LAYERS, HEADS, POSITIONS, ACT,  \
                         STD, TIED, PAD)                                       \
  {"attention_dropout", Used, "(default 0)"},                                  \
      {"hidden_act", Used, "of the MLP (default \"" ACT "\")"},                \
      {"hidden_size", Used, "(default " HIDDEN ")"},                           \
      {"initializer_range", Used,                                              \
       "standard deviation of initial weights (default " STD ")"},             \
      {"intermediate_size", Used, "of the MLP (default " INNER ")"},           \
      {"max_position_embeddings", Used,                                        \
       "longest sequence without a warning (default " POSITIONS ")"},          \
      {"num_attention_heads", Used, "(default " HEADS ")"},                    \
      {"num_hidden_layers", Used, "(default " LAYERS ")"},                     \
      {"rope_parameters", Used, "frequencies of the rotation"},                \
      {"rope_scaling", Used, "older spelling of rope_parameters"},             \
      {"tie_word_embeddings", Used,                                            \
       "use the embedding as the head (default " TIED ")"},                    \
      {"vocab_size", Used, "(default " VOCAB ")"},                             \
      {"pad_token_id", Used,                                                   \
       "its embedding gets no gradient (default " PAD ")"},                    \
      {"pretraining_tp", Inert, "not read by this family"}

#define KERF_ALIKE                                                             \
  {"layer_types", Fixed, kUnlike, "null"},                                     \
      {"original_max_position_embeddings", Fixed,                              \
       "overrides the field of this name in rope_parameters", "null"}

#define KERF_NO_PART                                                           \
  {"partial_rotary_factor", Fixed, "rotates a part of each head", "null 1.0"}

#define KERF_KV(DEFAULT)                                                       \
  {"num_key_value_heads", Used,                                                \
   "(default " DEFAULT "; null: num_attention_heads)"}

#define KERF_THETA(DEFAULT)                                                    \
  {"rope_theta", Used, "base of the rotation (default " DEFAULT ")"}

#define KERF_EPS(NAME, DEFAULT) {NAME, Used, "(default " DEFAULT ")"}

#define KERF_PART(DEFAULT)                                                     \
  {"partial_rotary_factor", Used,                                              \
   "part of each head that turns (default " DEFAULT ")"}

/// Layers in a pattern: all but every N-th have a window.
#define KERF_PATTERN(WINDOW, PERIOD)                                           \
  {"layer_types", Used, kTypes},                                               \
      {"original_max_position_embeddings", Fixed,                              \
       "overrides the field of this name in rope_parameters", "null"},         \
      {"sliding_window", Used,                                                 \
       "tokens that a token sees in layers with a window, with itself "        \
       "(default " WINDOW ")"},                                                \
      {"sliding_window_pattern", Used,                                         \
       "every so many layers see all tokens (default " PERIOD                  \
       "), unless layer_types says"}

/// Layers with a window and layers without take turns.
#define KERF_TURNS(WINDOW)                                                     \
  {"layer_types", Used, kTypes},                                               \
      {"original_max_position_embeddings", Fixed,                              \
       "overrides the field of this name in rope_parameters", "null"},         \
      {"sliding_window", Used,                                                 \
       "tokens that a token sees in layers with a window, with itself "        \
       "(default " WINDOW ")"}

#define KERF_GRANITE                                                           \
  KERF_KV("null"), KERF_THETA("10000"), KERF_ALIKE,                            \
      KERF_EPS("rms_norm_eps", "1e-6"), KERF_NO_PART,                          \
      {"attention_bias", Used, kBias},                                         \
      {"attention_multiplier", Used, "factor on scores (default 1)"},          \
      {"embedding_multiplier", Used, "factor on embeddings (default 1)"},      \
      {"logits_scaling", Used, "logits are divided by it (default 1)"},        \
      {"residual_multiplier", Used, "factor on what layers add (default 1)"}

/// Of Hunyuan's models, whose published configs have fields of other models.
#define KERF_HUNYUAN                                                           \
  KERF_KV("null"), KERF_THETA("10000"), KERF_ALIKE,                            \
      KERF_EPS("rms_norm_eps", "1e-5"), KERF_NO_PART,                          \
      {"attention_bias", Used, kBias}, {"head_dim", Used, kQuotient},          \
      {"add_classification_head", Inert, "not read by this family"},           \
      {"attention_head_dim", Inert, "head_dim counts"},                        \
      {"cla_share_factor", Inert, "not read by this family"},                  \
      {"class_num", Inert, "not read by this family"},                         \
      {"dense_list", Inert, "not read by this family"},                        \
      {"eod_token_id", Inert, "a token"}, {"im_end_id", Inert, "a token"},     \
      {"im_newline_id", Inert, "a token"}, {"im_start_id", Inert, "a token"},  \
      {"mask_init_id", Inert, "a token"},                                      \
      {"mlp_bias", Fixed, kNoBias, "false null"},                              \
      {"norm_type", Fixed, "is another norm", "\"rms\" null"},                 \
      {"org_vocab_size", Inert, "a record, not read"},                         \
      {"pad_id", Inert, "pad_token_id counts"},                                \
      {"pool_type", Inert, "not read by this family"},                         \
      {"position_embedding_xdrope", Fixed, "is not read by this family",       \
       "false null"},                                                          \
      {"sep_token_id", Inert, "a token"},                                      \
      {"skip_cls_token", Inert, "not read by this family"},                    \
      {"text_end_id", Inert, "a token"}, {"text_start_id", Inert, "a token"},  \
      {"use_cla", Fixed, "lets layers share keys and values", "false null"},   \
      {"use_qk_norm", Fixed, "leaves out the norms of queries and keys",       \
       "true null"},                                                           \
      {"use_rotary_pos_emb", Fixed, "leaves out the rotation", "true null"}

#endif // KERF_LIB_INGEST_FORMFIELDS_H
