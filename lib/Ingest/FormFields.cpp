//===- FormFields.cpp - Fields of families that differ in form ------------===//
//
// Configs of the families whose layers DecoderForm.cpp describes.
//
//===----------------------------------------------------------------------===//

#include "FormFields.h"

using namespace kerf;

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

static constexpr Field kHunyuanFields[] = {
    KERF_FORM_FIELDS("290943", "4096", "11008", "32", "32", "2048", "silu",
                     "0.02", "false", "0"),
    KERF_HUNYUAN,
};

static constexpr Family kFormFamilies[] = {
    {"arcee", "ArceeForCausalLM", kArceeFields},
    {"cohere", "CohereForCausalLM", kCohereFields},
    {"cohere2", "Cohere2ForCausalLM", kCohere2Fields},
    {"ernie4_5", "Ernie4_5ForCausalLM", kErnie45Fields},
    {"exaone4", "Exaone4ForCausalLM", kExaone4Fields},
    {"gemma", "GemmaForCausalLM", kGemmaFields},
    {"gemma2", "Gemma2ForCausalLM", kGemma2Fields},
    {"gemma3_text", "Gemma3ForCausalLM", kGemma3TextFields},
    {"glm", "GlmForCausalLM", kGlmFields},
    {"glm4", "Glm4ForCausalLM", kGlm4Fields},
    {"gpt_neox", "GPTNeoXForCausalLM", kGptNeoxFields},
    {"granite", "GraniteForCausalLM", kGraniteFields},
    {"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", kHunyuanFields,
     kAlphaFields},
    {"nemotron", "NemotronForCausalLM", kNemotronFields},
    {"olmo2", "Olmo2ForCausalLM", kOlmo2Fields},
    {"olmo3", "Olmo3ForCausalLM", kOlmo3Fields},
    {"opt", "OPTForCausalLM", kOptFields},
    {"phi", "PhiForCausalLM", kPhiFields},
    {"phi3", "Phi3ForCausalLM", kPhi3Fields},
    {"seed_oss", "SeedOssForCausalLM", kSeedOssFields},
    {"smollm3", "SmolLM3ForCausalLM", kSmollm3Fields},
    {"stablelm", "StableLmForCausalLM", kStablelmFields},
    {"starcoder2", "Starcoder2ForCausalLM", kStarcoder2Fields},
};

llvm::ArrayRef<Family> kerf::formFamilies() { return kFormFamilies; }
