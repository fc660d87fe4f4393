//===- FormFields.cpp - Fields of families that differ in form ------------===//
//
// Configs of the families whose layers DecoderForm.cpp describes.
//
//===----------------------------------------------------------------------===//

#include "Fields.h"

using namespace kerf;

static constexpr FieldUse Used = FieldUse::Used;
static constexpr FieldUse Inert = FieldUse::Inert;
static constexpr FieldUse Fixed = FieldUse::Fixed;

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

static constexpr llvm::StringLiteral kMlpBias =
    "biases in the MLP (default false)";
static constexpr llvm::StringLiteral kAdded =
    "dropout of what layers add (default 0)";
static constexpr llvm::StringLiteral kSeesAll =
    "tokens that a token sees, with itself (default null: all)";

static constexpr Field kCohereFields[] = {
    KERF_FORM_FIELDS("256000", "8192", "22528", "40", "64", "8192", "silu",
                     "0.02", "true", "0"),
    KERF_KV("null"),
    KERF_THETA("500000"),
    KERF_ALIKE,
    KERF_EPS("layer_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"logit_scale", Used, "factor on logits (default 0.0625)"},
    {"use_qk_norm", Fixed, "normalizes queries and keys by head", "false null"},
};

static constexpr Field kGemmaFields[] = {
    KERF_FORM_FIELDS("256000", "3072", "24576", "28", "16", "8192",
                     "gelu_pytorch_tanh", "0.02", "true", "0"),
    KERF_KV("16"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-6"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"head_dim", Used, "(default 256)"},
    {"hidden_activation", Fixed,
     "is an older spelling of hidden_act, which this family reads",
     "null \"gelu_pytorch_tanh\""},
    {"use_bidirectional_attention", Fixed, "lets tokens attend to later ones",
     "null false"},
};

static constexpr Field kGlm4Fields[] = {
    KERF_FORM_FIELDS("151552", "4096", "13696", "40", "32", "131072", "silu",
                     "0.02", "false", "151329"),
    KERF_KV("2"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1.5625e-7"),
    KERF_PART("0.5"),
    {"attention_bias", Used,
     "biases of queries, keys and values (default true)"},
    {"head_dim", Used, "(default 128)"},
};

static constexpr Field kGptNeoxFields[] = {
    KERF_FORM_FIELDS("50432", "6144", "24576", "44", "64", "2048", "gelu",
                     "0.02", "false", "not read"),
    KERF_ALIKE,
    KERF_EPS("layer_norm_eps", "1e-5"),
    {"attention_bias", Used, "biases in attention (default true)"},
    {"hidden_dropout", Used, kAdded},
    {"rotary_emb_base", Used, "base of the rotation (default 10000)"},
    {"rotary_pct", Used, "part of each head that turns (default 0.25)"},
    {"use_parallel_residual", Used,
     "attention and MLP read the same (default true)"},
};

#define KERF_GRANITE                                                           \
  KERF_KV("null"), KERF_THETA("10000"), KERF_ALIKE,                            \
      KERF_EPS("rms_norm_eps", "1e-6"), KERF_NO_PART,                          \
      {"attention_bias", Used, kBias},                                         \
      {"attention_multiplier", Used, "factor on scores (default 1)"},          \
      {"embedding_multiplier", Used, "factor on embeddings (default 1)"},      \
      {"logits_scaling", Used, "logits are divided by it (default 1)"},        \
      {"residual_multiplier", Used, "factor on what layers add (default 1)"}

static constexpr Field kGraniteFields[] = {
    KERF_FORM_FIELDS("32000", "4096", "11008", "32", "32", "2048", "silu",
                     "0.02", "false", "null"),
    KERF_GRANITE,
    {"mlp_bias", Used, kMlpBias},
};

static constexpr Field kNemotronFields[] = {
    KERF_FORM_FIELDS("256000", "6144", "24576", "32", "48", "4096", "relu2",
                     "0.0134", "false", "null"),
    KERF_KV("null"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("norm_eps", "1e-5"),
    KERF_PART("0.5"),
    {"attention_bias", Used, kBias},
    {"head_dim", Used, kQuotient},
    {"mlp_bias", Used, kMlpBias},
};

static constexpr Field kOlmo2Fields[] = {
    KERF_FORM_FIELDS("50304", "4096", "11008", "32", "32", "2048", "silu",
                     "0.02", "false", "1"),
    KERF_KV("null"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
};

static constexpr Field kPhi3Fields[] = {
    KERF_FORM_FIELDS("32064", "3072", "8192", "32", "32", "4096", "silu",
                     "0.02", "false", "32000"),
    KERF_KV("null"),
    KERF_THETA("10000"),
    {"layer_types", Fixed, kUnlike, "null"},
    {"original_max_position_embeddings", Used,
     "longrope: the length that the short factors are for (default null: that "
     "of rope_parameters)"},
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_PART("1"),
    {"embd_pdrop", Inert, "not read by this family"},
    {"resid_pdrop", Used, kAdded},
    {"sliding_window", Used, kSeesAll},
    {"attention_bias", Fixed, kNoBias, "false null"},
};

static constexpr Field kSmollm3Fields[] = {
    KERF_FORM_FIELDS("128256", "2048", "11008", "36", "16", "32768", "silu",
                     "0.02", "true", "128004"),
    KERF_KV("4"),
    KERF_THETA("2000000"),
    {"layer_types", Used, "per layer full_attention (default null)"},
    {"original_max_position_embeddings", Fixed,
     "overrides the field of this name in rope_parameters", "null"},
    KERF_EPS("rms_norm_eps", "1e-6"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"mlp_bias", Used, kMlpBias},
    {"no_rope_layer_interval", Used,
     "every so many layers have no rotation (default 4), unless "
     "no_rope_layers says"},
    {"no_rope_layers", Used, "per layer 1: rotation, 0: none (default null)"},
    {"max_window_layers", Inert, "not read by this family"},
    {"sliding_window", Inert, "without use_sliding_window it does not count"},
    {"use_sliding_window", Fixed, "limits attention in layers without rotation",
     "false"},
};

static constexpr Field kStablelmFields[] = {
    KERF_FORM_FIELDS("50304", "2560", "6912", "32", "32", "4096", "silu",
                     "0.02", "false", "null"),
    KERF_KV("32"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("layer_norm_eps", "1e-5"),
    KERF_PART("0.25"),
    {"hidden_dropout", Used, "dropout of what the MLP adds (default 0)"},
    {"use_parallel_residual", Used,
     "attention and MLP read the same (default false)"},
    {"use_qkv_bias", Used,
     "biases of queries, keys and values (default false)"},
    {"qk_layernorm", Fixed, "normalizes queries and keys by head", "false"},
};

static constexpr Field kStarcoder2Fields[] = {
    KERF_FORM_FIELDS("49152", "3072", "12288", "30", "24", "4096",
                     "gelu_pytorch_tanh", "0.018042", "true", "null"),
    KERF_KV("2"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("norm_epsilon", "1e-5"),
    KERF_NO_PART,
    {"embedding_dropout", Used, "(default 0)"},
    {"residual_dropout", Used, kAdded},
    {"sliding_window", Used, kSeesAll},
    {"use_bias", Used, "biases in attention and MLP (default true)"},
    {"activation_function", Inert, "not read by this family"},
    {"attention_softmax_in_fp32", Inert, "not read by this family"},
    {"scale_attention_softmax_in_fp32", Inert, "not read by this family"},
    {"scale_attn_weights", Inert, "not read by this family"},
    {"mlp_type", Fixed, "is not read by this family", "\"default\" null"},
    {"norm_type", Fixed, "is not read by this family", "\"layer_norm\" null"},
};

static constexpr llvm::StringLiteral kInputBias =
    "biases of queries, keys and values (default true)";
static constexpr llvm::StringLiteral kTypes =
    "per layer full_attention or sliding_attention (default null)";

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

static constexpr Field kArceeFields[] = {
    KERF_FORM_FIELDS("32000", "2560", "18432", "32", "32", "4096", "relu2",
                     "0.02", "false", "null"),
    KERF_KV("null"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"head_dim", Used, kQuotient},
    {"mlp_bias", Used, kMlpBias},
};

static constexpr Field kCohere2Fields[] = {
    KERF_FORM_FIELDS("256000", "8192", "22528", "40", "64", "8192", "silu",
                     "0.02", "true", "0"),
    KERF_KV("null"),
    KERF_THETA("10000"),
    KERF_PATTERN("4096", "4"),
    KERF_EPS("layer_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"logit_scale", Used, "factor on logits (default 0.0625)"},
    {"head_dim", Inert, "not read by this family"},
    {"cache_implementation", Inert, "a setting of text generation"},
    {"order_of_interleaved_layers", Inert, "not read by this family"},
    {"position_embedding_type", Inert, "not read by this family"},
    {"rotary_pct", Fixed, "is not read by this family", "null 1.0"},
    {"use_embedding_sharing", Inert, "not read by this family"},
    {"use_gated_activation", Inert, "not read by this family"},
    {"use_parallel_block", Inert, "not read by this family"},
    {"use_parallel_embedding", Inert, "not read by this family"},
    {"use_qk_norm", Fixed, "normalizes queries and keys by head", "false null"},
};

static constexpr Field kDeepseekV2Fields[] = {
    KERF_FORM_FIELDS("102400", "4096", "11008", "32", "32", "2048", "silu",
                     "0.02", "false", "null"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-6"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"first_k_dense_replace", Used,
     "layers without experts, before the others (default 0)"},
    {"head_dim", Used, "must be qk_rope_head_dim"},
    {"kv_lora_rank", Used, "latent of keys and values (default 512)"},
    {"moe_intermediate_size", Used, "of an expert (default 1407)"},
    {"n_routed_experts", Used, "(default 64)", "", "num_experts"},
    {"n_shared_experts", Used, "experts of all tokens (default 2)"},
    {"n_group", Used, "groups of experts, of topk_method group_limited_greedy"},
    {"num_experts_per_tok", Used, "must be there"},
    {"num_key_value_heads", Used, "must be num_attention_heads"},
    {"q_lora_rank", Used,
     "latent of queries (default 1536; null: a plain projection)"},
    {"qk_head_dim", Used, "must be qk_nope_head_dim + qk_rope_head_dim"},
    {"qk_nope_head_dim", Used, "channels without rotation (default 128)"},
    {"qk_rope_head_dim", Used, "channels with rotation (default 64)"},
    {"routed_scaling_factor", Used, "of the chosen weights (default 1)"},
    {"topk_group", Used, "groups that a token chooses from"},
    {"topk_method", Used,
     "greedy: of all experts, or group_limited_greedy (default greedy)"},
    {"v_head_dim", Used, "channels of values (default 128)"},
    {"aux_loss_alpha", Inert, kNoAuxLoss},
    {"ep_size", Inert, kParallelism},
    {"norm_topk_prob", Inert, "not read by this family"},
    {"output_router_logits", Inert, kNoAuxLoss},
    {"scoring_func", Fixed,
     "is not read by this family, which takes the softmax", "\"softmax\""},
    {"seq_aux", Inert, kNoAuxLoss},
    {"mlp_bias", Fixed, "gives the MLP biases", "false null"},
    {"moe_layer_freq", Fixed, kUnlike, "1"},
};

static constexpr Field kErnie45Fields[] = {
    KERF_FORM_FIELDS("103424", "1024", "3072", "18", "16", "131072", "silu",
                     "0.02", "true", "0"),
    KERF_KV("2"),
    KERF_THETA("500000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"head_dim", Used, "(default 128)"},
    {"use_bias", Used, "biases in attention and MLP (default false)"},
};

static constexpr Field kExaone4Fields[] = {
    KERF_FORM_FIELDS("102400", "4096", "16384", "32", "32", "2048", "silu",
                     "0.02", "false", "null"),
    KERF_KV("32"),
    KERF_THETA("10000"),
    KERF_PATTERN("4096; null: none", "4"),
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"head_dim", Used, kQuotient},
    {"cache_implementation", Inert, "a setting of text generation"},
};

static constexpr llvm::StringLiteral kSoftcap =
    "bounds logits by a hyperbolic tangent";

static constexpr Field kGemma3TextFields[] = {
    KERF_FORM_FIELDS("262208", "2304", "9216", "26", "8", "131072",
                     "gelu_pytorch_tanh", "0.02", "true", "0"),
    KERF_KV("4"),
    KERF_THETA("1000000"),
    KERF_PATTERN("4096", "6"),
    KERF_EPS("rms_norm_eps", "1e-6"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"head_dim", Used, "(default 256)"},
    {"hidden_activation", Used, "of the MLP (default \"gelu_pytorch_tanh\")"},
    {"query_pre_attn_scalar", Used,
     "scores are divided by its root (default 256)"},
    {"rope_local_base_freq", Used,
     "base of the rotation in layers with a window (default 10000)"},
    {"cache_implementation", Inert, "a setting of text generation"},
    {"_sliding_window_pattern", Inert, "a record, not read"},
    {"attn_logit_softcapping", Fixed, kSoftcap, "null"},
    {"final_logit_softcapping", Fixed, kSoftcap, "null"},
    {"use_bidirectional_attention", Fixed, "lets tokens attend to later ones",
     "null false"},
};

static constexpr Field kGemma2Fields[] = {
    KERF_FORM_FIELDS("256000", "2304", "9216", "26", "8", "8192",
                     "gelu_pytorch_tanh", "0.02", "true", "0"),
    KERF_KV("4"),
    KERF_THETA("10000"),
    KERF_TURNS("4096; null: none"),
    KERF_EPS("rms_norm_eps", "1e-6"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"attn_logit_softcapping", Used,
     "soft cap of scores (default 50; null: none)"},
    {"final_logit_softcapping", Used,
     "soft cap of logits (default 30; null: none)"},
    {"head_dim", Used, "(default 256)"},
    {"hidden_activation", Used, "of the MLP (default \"gelu_pytorch_tanh\")"},
    {"query_pre_attn_scalar", Used,
     "scores are divided by its root (default 256)"},
    {"cache_implementation", Inert, "a setting of text generation"},
    {"sliding_window_size", Inert, "not read by this family"},
    {"use_bidirectional_attention", Fixed, "lets tokens attend to later ones",
     "null false"},
};

static constexpr Field kGptOssFields[] = {
    KERF_FORM_FIELDS("201088", "2880", "2880", "36", "64", "131072", "silu",
                     "0.02", "false", "null"),
    KERF_KV("8"),
    KERF_THETA("150000"),
    KERF_TURNS("128; null: none"),
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"attention_bias", Used, "biases in attention (default true)"},
    {"head_dim", Used, "(default 64)"},
    {"num_experts_per_tok", Used, "(default 4)"},
    {"num_local_experts", Used, "(default 128)", "", "num_experts"},
    {"output_router_logits", Used, "adds the auxiliary loss (default false)"},
    {"router_aux_loss_coef", Used, "(default 0.001)"},
    {"swiglu_alpha", Used, "of the experts' gate (default 1.702)"},
    {"swiglu_limit", Used, "of what experts gate (default 7)"},
    {"experts_per_token", Inert, "a record, not read"},
    {"initial_context_length", Inert, "a record, not read"},
    {"quantization_config", Inert,
     "how a published checkpoint stores experts: convert it to bf16 first"},
};

static constexpr Field kLlama4TextFields[] = {
    KERF_FORM_FIELDS("202048", "5120", "8192, of experts", "48", "40", "131072",
                     "silu", "0.02", "false", "null"),
    KERF_KV("8"),
    KERF_THETA("500000"),
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"attention_chunk_size", Used,
     "tokens that attend to each other in layers that rotate (default 8192; "
     "null: all)"},
    {"attn_scale", Used, "of attn_temperature_tuning (default 0.1)"},
    {"attn_temperature_tuning", Used,
     "queries of layers without rotation grow with their position (default "
     "true)"},
    {"floor_scale", Used, "positions of a step of it (default 8192)"},
    {"head_dim", Used, "(default 128)"},
    {"interleave_moe_layer_step", Used,
     "every so many layers have experts (default 1), unless moe_layers says"},
    {"intermediate_size_mlp", Used,
     "of layers without experts (default 16384)"},
    {"layer_types", Used,
     "per layer full_attention or chunked_attention (default null)"},
    {"moe_layers", Used, "numbers of the layers with experts (default null)"},
    {"no_rope_layer_interval", Used,
     "every so many layers have no rotation (default 4), unless "
     "no_rope_layers says"},
    {"no_rope_layers", Used, "per layer 1: rotation, 0: none (default null)"},
    {"num_experts_per_tok", Used, "(default 1)"},
    {"num_local_experts", Used, "(default 16)"},
    {"use_qk_norm", Used,
     "normalize queries and keys that turn (default true)"},
    {"for_llm_compressor", Inert, "a setting of quantization"},
    {"original_max_position_embeddings", Fixed,
     "overrides the field of this name in rope_parameters", "null"},
    {"output_router_logits", Inert, kNoAuxLoss},
    {"router_aux_loss_coef", Inert, kNoAuxLoss},
    {"router_jitter_noise", Inert, "not read by this family"},
};

static constexpr Field kOptFields[] = {
    {"activation_function", Used, "of the MLP (default \"relu\")"},
    {"attention_dropout", Used, "(default 0)"},
    {"dropout", Used, "of what layers add (default 0.1)"},
    {"enable_bias", Used, "biases in attention and MLP (default true)"},
    {"ffn_dim", Used, "of the MLP (default 3072)"},
    {"hidden_size", Used, "(default 768)"},
    {"init_std", Used, "standard deviation of initial weights (default 0.02)"},
    {"max_position_embeddings", Used, "learned positions (default 2048)"},
    {"num_attention_heads", Used, "(default 12)"},
    {"num_hidden_layers", Used, "(default 12)"},
    {"pad_token_id", Used, "its embedding gets no gradient (default 1)"},
    {"tie_word_embeddings", Used,
     "use the embedding as the head (default true)"},
    {"vocab_size", Used, "(default 50272)"},
    {"word_embed_proj_dim", Used, "must be hidden_size"},
    {"activation_dropout", Inert, "not read by this family"},
    {"prefix", Inert, "a setting of text generation"},
    {"_remove_final_layer_norm", Fixed, "leaves out the last norm", "false"},
    {"do_layer_norm_before", Fixed, "norms stand behind the sums", "true"},
    {"layer_norm_elementwise_affine", Fixed, "norms have no weights", "true"},
    {"layerdrop", Fixed, "leaves out whole layers at random", "0 0.0"},
};

static constexpr Field kPhiFields[] = {
    KERF_FORM_FIELDS("51200", "2048", "8192", "24", "32", "2048", "gelu_new",
                     "0.02", "false", "null"),
    KERF_KV("null"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("layer_norm_eps", "1e-5"),
    KERF_PART("0.5"),
    {"embd_pdrop", Used, "dropout of embeddings (default 0)"},
    {"resid_pdrop", Used, kAdded},
    {"qk_layernorm", Fixed, "normalizes queries and keys by head", "false"},
};

static constexpr Field kGlmFields[] = {
    KERF_FORM_FIELDS("151552", "4096", "13696", "40", "32", "131072", "silu",
                     "0.02", "false", "151329"),
    KERF_KV("2"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1.5625e-7"),
    KERF_PART("0.5"),
    {"attention_bias", Used, kInputBias},
    {"head_dim", Used, "(default 128)"},
};

static constexpr Field kOlmo3Fields[] = {
    KERF_FORM_FIELDS("50304", "4096", "11008", "32", "32", "2048", "silu",
                     "0.02", "false", "1"),
    KERF_KV("null"),
    KERF_THETA("500000"),
    KERF_PATTERN("4096", "4"),
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
};

static constexpr Field kSeedOssFields[] = {
    KERF_FORM_FIELDS("155136", "4096", "27648", "64", "80", "524288", "silu",
                     "0.02", "false", "1"),
    KERF_KV("8"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-6"),
    KERF_NO_PART,
    {"attention_bias", Used, kInputBias},
    {"attention_out_bias", Used,
     "biases of attention's output (default false)"},
    {"head_dim", Used, "(default 128)"},
    {"mlp_bias", Used, kMlpBias},
    {"residual_dropout", Used, "dropout of what layers add (default 0.1)"},
};

/// Experts that are chosen by sigmoids and biases.
#define KERF_BALANCED(COUNT, CHOSEN, SHARED, DENSE, NORM)                      \
  {"first_k_dense_replace", Used,                                              \
   "layers without experts, before the others (default " DENSE ")"},           \
      {"moe_intermediate_size", Used, "of an expert (default 1408)"},          \
      {"n_group", Used, "groups of experts (default 1)"},                      \
      {"n_routed_experts", Used, "(" COUNT ")", "", "num_local_experts"},      \
      {"n_shared_experts", Used, "experts of all tokens (" SHARED ")"},        \
      {"norm_topk_prob", Used,                                                 \
       "divide the chosen scores by their sum (default " NORM ")"},            \
      {"num_experts_per_tok", Used, "(" CHOSEN ")"},                           \
      {"routed_scaling_factor", Used, "of the chosen scores (default 1)"},     \
      {"topk_group", Used, "groups that a token chooses from (default 1)"},    \
      {"moe_layer_freq", Inert, "not read by this family"},                    \
      {"output_router_logits", Inert, kNoAuxLoss},                             \
      {"scoring_func", Fixed,                                                  \
       "is not read by this family, whose scores are sigmoids",                \
       "\"sigmoid\" \"noaux_tc\""}

static constexpr Field kGlm4MoeFields[] = {
    KERF_FORM_FIELDS("151552", "4096", "10944", "46", "96", "131072", "silu",
                     "0.02", "false", "null"),
    KERF_KV("8"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_PART("0.5"),
    KERF_BALANCED("default 128", "default 8", "default 1", "1", "true"),
    {"attention_bias", Used, kInputBias},
    {"head_dim", Used, kQuotient},
    {"num_nextn_predict_layers", Used,
     "modules that predict further tokens: left out, with a warning", "",
     "num_mtp_layers"},
    {"quantization_config", Used,
     "fp8 weights of a published checkpoint: not those of training, with a "
     "warning"},
    {"use_qk_norm", Used, "normalize queries and keys by head (default false)"},
};

static constexpr Field kDots1Fields[] = {
    KERF_FORM_FIELDS("152064", "4608", "10944", "62", "32", "2048", "silu",
                     "0.02", "false", "null"),
    KERF_KV("32"),
    KERF_THETA("10000"),
    {"original_max_position_embeddings", Fixed,
     "overrides the field of this name in rope_parameters", "null"},
    KERF_EPS("rms_norm_eps", "1e-6"),
    KERF_NO_PART,
    KERF_BALANCED("must be given", "must be given", "must be given", "0",
                  "false"),
    {"attention_bias", Used, kBias},
    {"head_dim", Used, kQuotient},
    {"layer_types", Used,
     "per layer full_attention or sliding_attention (default null)"},
    {"max_window_layers", Used,
     "first layer with a window (default 62), unless layer_types says"},
    {"sliding_window", Used,
     "tokens that a token sees, with itself (default 4096; null: all)"},
    {"use_sliding_window", Inert, "not read by this family"},
};

static constexpr Field kOlmoeFields[] = {
    KERF_FORM_FIELDS("50304", "2048", "2048, of an expert", "16", "16", "4096",
                     "silu", "0.02", "false", "1"),
    KERF_KV("null"),
    KERF_THETA("10000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"attention_bias", Used, kBias},
    {"norm_topk_prob", Used,
     "divide the chosen probabilities by their sum (default false)"},
    {"num_experts", Used, "(default 64)", "", "num_local_experts"},
    {"num_experts_per_tok", Used, "(default 8)"},
    {"output_router_logits", Used, "adds the auxiliary loss (default false)"},
    {"router_aux_loss_coef", Used, "(default 0.01)"},
    {"clip_qkv", Fixed, "clamps queries, keys and values", "null"},
};

static constexpr Field kQwen2MoeFields[] = {
    KERF_FORM_FIELDS("151936", "2048", "5632", "24", "16", "32768", "silu",
                     "0.02", "false", "null"),
    KERF_KV("16"),
    KERF_THETA("10000"),
    {"original_max_position_embeddings", Fixed,
     "overrides the field of this name in rope_parameters", "null"},
    KERF_EPS("rms_norm_eps", "1e-6"),
    KERF_NO_PART,
    {"decoder_sparse_step", Used,
     "every so many layers have experts (default 1: all)"},
    {"head_dim", Used, "(default hidden_size / heads)"},
    {"layer_types", Used,
     "per layer full_attention or sliding_attention (default null)"},
    {"max_window_layers", Used,
     "every other layer before this one has a window (default 28), unless "
     "layer_types says"},
    {"mlp_only_layers", Used, "layers without experts (default null: none)"},
    {"moe_intermediate_size", Used, "of an expert (default 1408)"},
    {"norm_topk_prob", Used,
     "divide the chosen probabilities by their sum (default false)"},
    {"num_experts", Used, "(default 60)"},
    {"num_experts_per_tok", Used, "(default 4)"},
    {"output_router_logits", Used, "adds the auxiliary loss (default false)"},
    {"qkv_bias", Used, "biases of queries, keys and values (default true)"},
    {"router_aux_loss_coef", Used, "(default 0.001)"},
    {"shared_expert_intermediate_size", Used,
     "of the expert of all tokens (default 5632)"},
    {"sliding_window", Used,
     "tokens that a token sees, with itself (default 4096; null: all)"},
    {"use_sliding_window", Used,
     "whether sliding_window counts (default false)"},
    {"use_mrope", Fixed,
     "is not read by this family, though it seems to rotate by several "
     "positions",
     "false null"},
};

static constexpr Field kMinimaxM2Fields[] = {
    KERF_FORM_FIELDS("200064", "3072", "1536, of an expert", "62", "48",
                     "196608", "silu", "0.02", "false", "null"),
    KERF_KV("8"),
    KERF_THETA("5000000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-6"),
    KERF_PART("1"),
    {"head_dim", Used, "(default 128)"},
    {"num_experts_per_tok", Used, "(default 8)"},
    {"num_local_experts", Used, "(default 256)", "", "num_experts"},
    {"num_nextn_predict_layers", Used,
     "modules that predict further tokens: left out, with a warning", "",
     "num_mtp_modules"},
    {"output_router_logits", Used, "adds the auxiliary loss (default false)"},
    {"quantization_config", Used,
     "fp8 weights of a published checkpoint: not those of training, with a "
     "warning"},
    {"rotary_dim", Used,
     "channels of each head that turn: older than partial_rotary_factor"},
    {"router_aux_loss_coef", Used, "(default 0.001)"},
    {"attn_type_list", Inert, "not read by this family"},
    {"layernorm_full_attention_beta", Inert, "not read by this family"},
    {"layernorm_linear_attention_beta", Inert, "not read by this family"},
    {"layernorm_mlp_beta", Inert, "not read by this family"},
    {"mlp_intermediate_size", Inert, "not read by this family"},
    {"mtp_transformer_layers", Inert, "of modules that are left out"},
    {"shared_moe_mode", Inert, "not read by this family"},
    {"use_mtp", Inert, "of modules that are left out"},
    {"qk_norm_type", Fixed, "normalizes heads apart", "\"per_layer\""},
    {"router_jitter_noise", Fixed, "multiplies the router's input by noise",
     "0 0.0 null"},
    {"scoring_func", Fixed,
     "is not read by this family, whose scores are "
     "sigmoids",
     "\"sigmoid\""},
    {"shared_intermediate_size", Fixed, "adds an expert of all tokens", "0"},
    {"sliding_window", Fixed, "is not read by this family", "null"},
    {"use_qk_norm", Fixed, "leaves out the norms of queries and keys", "true"},
    {"use_routing_bias", Fixed, "leaves out the router's biases", "true"},
};

static constexpr Field kGraniteMoeFields[] = {
    KERF_FORM_FIELDS("32000", "4096", "11008, of an expert", "32", "32", "2048",
                     "silu", "0.02", "false", "null"),
    KERF_GRANITE,
    {"num_experts_per_tok", Used, "(default 2)"},
    {"num_local_experts", Used, "(default 8)"},
    {"output_router_logits", Used, "adds the auxiliary loss (default false)"},
    {"router_aux_loss_coef", Used, "(default 0.001)"},
};

#undef KERF_BALANCED
#undef KERF_GRANITE
#undef KERF_PATTERN
#undef KERF_TURNS
#undef KERF_FORM_FIELDS
#undef KERF_ALIKE
#undef KERF_NO_PART
#undef KERF_KV
#undef KERF_THETA
#undef KERF_EPS
#undef KERF_PART

static constexpr Family kFormFamilies[] = {
    {"arcee", "ArceeForCausalLM", kArceeFields},
    {"cohere", "CohereForCausalLM", kCohereFields},
    {"cohere2", "Cohere2ForCausalLM", kCohere2Fields},
    {"deepseek_v2", "DeepseekV2ForCausalLM", kDeepseekV2Fields},
    {"dots1", "Dots1ForCausalLM", kDots1Fields},
    {"ernie4_5", "Ernie4_5ForCausalLM", kErnie45Fields},
    {"exaone4", "Exaone4ForCausalLM", kExaone4Fields},
    {"gemma", "GemmaForCausalLM", kGemmaFields},
    {"gemma2", "Gemma2ForCausalLM", kGemma2Fields},
    {"gemma3_text", "Gemma3ForCausalLM", kGemma3TextFields},
    {"glm", "GlmForCausalLM", kGlmFields},
    {"glm4", "Glm4ForCausalLM", kGlm4Fields},
    {"glm4_moe", "Glm4MoeForCausalLM", kGlm4MoeFields},
    {"gpt_neox", "GPTNeoXForCausalLM", kGptNeoxFields},
    {"gpt_oss", "GptOssForCausalLM", kGptOssFields},
    {"granite", "GraniteForCausalLM", kGraniteFields},
    {"granitemoe", "GraniteMoeForCausalLM", kGraniteMoeFields},
    {"llama4_text", "Llama4ForCausalLM", kLlama4TextFields},
    {"minimax_m2", "MiniMaxM2ForCausalLM", kMinimaxM2Fields},
    {"nemotron", "NemotronForCausalLM", kNemotronFields},
    {"olmo2", "Olmo2ForCausalLM", kOlmo2Fields},
    {"olmo3", "Olmo3ForCausalLM", kOlmo3Fields},
    {"olmoe", "OlmoeForCausalLM", kOlmoeFields},
    {"opt", "OPTForCausalLM", kOptFields},
    {"phi", "PhiForCausalLM", kPhiFields},
    {"phi3", "Phi3ForCausalLM", kPhi3Fields},
    {"qwen2_moe", "Qwen2MoeForCausalLM", kQwen2MoeFields},
    {"seed_oss", "SeedOssForCausalLM", kSeedOssFields},
    {"smollm3", "SmolLM3ForCausalLM", kSmollm3Fields},
    {"stablelm", "StableLmForCausalLM", kStablelmFields},
    {"starcoder2", "Starcoder2ForCausalLM", kStarcoder2Fields},
};

llvm::ArrayRef<Family> kerf::formFamilies() { return kFormFamilies; }
