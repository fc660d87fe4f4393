//===- MixtureFields.cpp - Fields of families with experts ----------------===//
//
// Configs of mixtures of experts whose layers DecoderForm.cpp describes.
//
//===----------------------------------------------------------------------===//

#include "FormFields.h"

using namespace kerf;

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

static constexpr Field kErnie45MoeFields[] = {
    KERF_FORM_FIELDS("103424", "2560", "12288", "28", "20", "131072", "silu",
                     "0.02", "true", "0"),
    KERF_KV("4"),
    KERF_THETA("500000"),
    KERF_ALIKE,
    KERF_EPS("rms_norm_eps", "1e-5"),
    KERF_NO_PART,
    {"head_dim", Used, kQuotient},
    {"moe_intermediate_size", Used, "of an expert (default 1536)"},
    {"moe_k", Used, "experts that a token chooses (default 6)", "",
     "num_experts_per_tok"},
    {"moe_layer_end_index", Used,
     "last layer with experts (default -1: of all)"},
    {"moe_layer_interval", Used,
     "every so many layers have experts (default 1)"},
    {"moe_layer_start_index", Used, "first layer with experts (default 1)"},
    {"moe_num_experts", Used, "(default 64)", "", "num_experts"},
    {"moe_num_shared_experts", Used, "experts of all tokens (default 2)"},
    {"num_nextn_predict_layers", Used,
     "modules that predict further tokens: left out, with a warning"},
    {"output_router_logits", Used, "adds the auxiliary loss (default false)"},
    {"quantization_config", Used,
     "fp8 weights of a published checkpoint: not those of training, with a "
     "warning"},
    {"router_aux_loss_coef", Used, "(default 0.001)"},
    {"use_bias", Used,
     "biases in attention, MLP and output layer (default false)"},
    {"moe_capacity", Inert, "not read by this family"},
    {"moe_use_aux_free", Inert, "not read by this family"},
    {"moe_gate", Fixed, "is not read by this family, whose router is this one",
     "\"topk\" null"},
    {"moe_norm_min", Fixed,
     "bounds the sum that chosen probabilities are divided by", "1e-12"},
};

static constexpr Field kHunyuanMoeFields[] = {
    KERF_FORM_FIELDS("290943", "4096", "11008, of an expert", "32", "32",
                     "2048", "silu", "0.02", "false", "0"),
    KERF_HUNYUAN,
    {"moe_topk", Used,
     "experts that a token chooses, one number or that of each layer "
     "(default 1)",
     "", "num_experts_per_tok"},
    {"num_experts", Used, "(default 1)", "", "num_local_experts"},
    {"group_limited_greedy", Fixed, "is not read by this family", "false null"},
    {"kv_lora_rank", Inert, "not read by this family"},
    {"moe_drop_tokens", Inert, "not read by this family"},
    {"moe_intermediate_size", Inert, "intermediate_size counts"},
    {"moe_layer_num_skipped", Fixed, "is not read by this family", "0 null"},
    {"moe_random_routing_dropped_token", Inert, "not read by this family"},
    {"n_group", Inert, "not read by this family"},
    {"norm_topk_prob", Fixed,
     "is not read by this family, which divides by the sum", "true null"},
    {"num_media_embeds", Inert, "not read by this family"},
    {"num_shared_expert", Inert, "all tokens have one"},
    {"output_router_logits", Inert, kNoAuxLoss},
    {"q_lora_rank", Inert, "not read by this family"},
    {"qk_nope_head_dim", Inert, "not read by this family"},
    {"qk_rope_head_dim", Inert, "not read by this family"},
    {"routed_scaling_factor", Fixed, "is not read by this family",
     "1 1.0 null"},
    {"topk_group", Inert, "not read by this family"},
    {"use_mixed_mlp_moe", Fixed, "leaves out the MLP of all tokens",
     "true null"},
    {"use_mla", Fixed, "is not read by this family", "false null"},
    {"v_head_dim", Inert, "not read by this family"},
};

static constexpr Family kMixtureFamilies[] = {
    {"deepseek_v2", "DeepseekV2ForCausalLM", kDeepseekV2Fields},
    {"dots1", "Dots1ForCausalLM", kDots1Fields},
    {"ernie4_5_moe", "Ernie4_5_MoeForCausalLM", kErnie45MoeFields},
    {"glm4_moe", "Glm4MoeForCausalLM", kGlm4MoeFields},
    {"gpt_oss", "GptOssForCausalLM", kGptOssFields},
    {"granitemoe", "GraniteMoeForCausalLM", kGraniteMoeFields},
    {"hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", kHunyuanMoeFields,
     kAlphaFields},
    {"llama4_text", "Llama4ForCausalLM", kLlama4TextFields},
    {"minimax_m2", "MiniMaxM2ForCausalLM", kMinimaxM2Fields},
    {"olmoe", "OlmoeForCausalLM", kOlmoeFields},
    {"qwen2_moe", "Qwen2MoeForCausalLM", kQwen2MoeFields},
};

llvm::ArrayRef<Family> kerf::mixtureFamilies() { return kMixtureFamilies; }
