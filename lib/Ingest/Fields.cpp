#include "Fields.h"

#include "kerf/Ingest/Import.h"
#include "kerf/Support/Nearest.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;

static constexpr FieldUse Used = FieldUse::Used;
static constexpr FieldUse Inert = FieldUse::Inert;
static constexpr FieldUse Fixed = FieldUse::Fixed;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kGeneration =
    "a setting of text generation";
static constexpr llvm::StringLiteral kTask = "a setting of other task heads";
static constexpr llvm::StringLiteral kOutputs = "selects outputs, not the loss";
static constexpr llvm::StringLiteral kRecord = "a record, not read";
static constexpr llvm::StringLiteral kPrecision =
    "type of the stored weights; the type of training is a compiler option";

static constexpr Field kCommonFields[] = {
    {"model_type", Used, "the family; required"},
    {"architectures", Used, "must name the family's causal language model"},

    {"_attn_implementation", Inert, "one of several equal implementations"},
    {"_attn_implementation_autoset", Inert, kRecord},
    {"_commit_hash", Inert, kRecord},
    {"_name_or_path", Inert, kRecord},
    {"attn_implementation", Inert, "one of several equal implementations"},
    {"auto_map", Inert, "code for classes that the library does not have"},
    {"bos_token_id", Inert, kGeneration},
    {"chunk_size_feed_forward", Inert, "not read by this family"},
    {"classifier_dropout", Inert, kTask},
    {"cls_token_id", Inert, kGeneration},
    {"decoder_start_token_id", Inert, kGeneration},
    {"dtype", Inert, kPrecision},
    {"eos_token_id", Inert, kGeneration},
    {"experts_implementation", Inert, "one of several equal implementations"},
    {"finetuning_task", Inert, kTask},
    {"gradient_checkpointing", Inert, "trades time for memory only"},
    {"id2label", Inert, kTask},
    {"is_decoder", Inert, "not read by this family"},
    {"label2id", Inert, kTask},
    {"name_or_path", Inert, kRecord},
    {"num_labels", Inert, kTask},
    {"output_attentions", Inert, kOutputs},
    {"output_hidden_states", Inert, kOutputs},
    {"output_past", Inert, kGeneration},
    {"prefix", Inert, kGeneration},
    {"problem_type", Inert, kTask},
    {"return_dict", Inert, kOutputs},
    {"sep_token_id", Inert, kGeneration},
    {"task_specific_params", Inert, kGeneration},
    {"tie_last_hidden_states", Inert, kOutputs},
    {"tokenizer_class", Inert, kRecord},
    {"torch_dtype", Inert, kPrecision},
    {"torchscript", Inert, "changes how the model is exported only"},
    {"transformers_version", Inert, kRecord},
    {"use_bfloat16", Inert, "not read by this family"},
    {"use_cache", Inert, kGeneration},
    {"use_return_dict", Inert, kOutputs},

    {"bad_words_ids", Inert, kGeneration},
    {"begin_suppress_tokens", Inert, kGeneration},
    {"diversity_penalty", Inert, kGeneration},
    {"do_sample", Inert, kGeneration},
    {"early_stopping", Inert, kGeneration},
    {"encoder_no_repeat_ngram_size", Inert, kGeneration},
    {"encoder_repetition_penalty", Inert, kGeneration},
    {"epsilon_cutoff", Inert, kGeneration},
    {"eta_cutoff", Inert, kGeneration},
    {"exponential_decay_length_penalty", Inert, kGeneration},
    {"forced_bos_token_id", Inert, kGeneration},
    {"forced_eos_token_id", Inert, kGeneration},
    {"length_penalty", Inert, kGeneration},
    {"max_length", Inert, kGeneration},
    {"min_length", Inert, kGeneration},
    {"no_repeat_ngram_size", Inert, kGeneration},
    {"num_beam_groups", Inert, kGeneration},
    {"num_beams", Inert, kGeneration},
    {"num_return_sequences", Inert, kGeneration},
    {"output_scores", Inert, kGeneration},
    {"remove_invalid_values", Inert, kGeneration},
    {"repetition_penalty", Inert, kGeneration},
    {"return_dict_in_generate", Inert, kGeneration},
    {"suppress_tokens", Inert, kGeneration},
    {"temperature", Inert, kGeneration},
    {"top_k", Inert, kGeneration},
    {"top_p", Inert, kGeneration},
    {"typical_p", Inert, kGeneration},

    {"add_cross_attention", Fixed, "adds attention to an encoder",
     "false null"},
    {"is_causal", Fixed, "lets tokens attend to later ones", "true"},
    {"is_encoder_decoder", Fixed, "makes a model with an encoder",
     "false null"},
    {"per_layer_config", Fixed, "makes layers unlike each other", "null {}"},
    {"pruned_heads", Fixed, "removes attention heads", "null {}"},
    {"quantization_config", Fixed, "computes with quantized weights",
     "null {}"},
    {"tie_encoder_decoder", Fixed, "makes a model with an encoder",
     "false null"},
};

static constexpr llvm::StringLiteral kSummary =
    "a setting of the double-heads model";

static constexpr Field kGpt2Fields[] = {
    {"activation_function", Used, "of the MLP (default \"gelu_new\")"},
    {"attn_pdrop", Used, "dropout of attention (default 0.1)"},
    {"embd_pdrop", Used, "dropout of embeddings (default 0.1)"},
    {"initializer_range", Used,
     "standard deviation of initial weights (default 0.02)"},
    {"layer_norm_epsilon", Used, "(default 1e-5)"},
    {"n_embd", Used, "hidden size (default 768)", "", "hidden_size"},
    {"n_head", Used, "attention heads (default 12)", "", "num_attention_heads"},
    {"n_inner", Used, "size of the MLP (default null: 4 n_embd)"},
    {"n_layer", Used, "layers (default 12)", "", "num_hidden_layers"},
    {"n_positions", Used, "learned positions (default 1024)", "",
     "max_position_embeddings"},
    {"resid_pdrop", Used, "dropout of what layers add (default 0.1)"},
    {"scale_attn_by_inverse_layer_idx", Used,
     "divide scores by layer + 1 (default false)"},
    {"scale_attn_weights", Used,
     "divide scores by the root of the head size (default true)"},
    {"tie_word_embeddings", Used,
     "use the embedding as the head (default true)"},
    {"vocab_size", Used, "(default 50257)"},

    {"n_ctx", Inert, "replaced by n_positions"},
    {"n_special", Inert, "not read by this family"},
    {"pad_token_id", Inert, "not read by this family"},
    {"predict_special_tokens", Inert, "not read by this family"},
    {"reorder_and_upcast_attn", Inert, "the same sums, in f32"},
    {"summary_activation", Inert, kSummary},
    {"summary_first_dropout", Inert, kSummary},
    {"summary_last_dropout", Inert, kSummary},
    {"summary_proj_to_labels", Inert, kSummary},
    {"summary_type", Inert, kSummary},
    {"summary_use_proj", Inert, kSummary},
    {"layer_types", Fixed, kUnlike, "null"},
};

#define KERF_DECODER_FIELDS(VOCAB, HIDDEN, INNER, LAYERS, KV, POSITIONS, EPS,  \
                            THETA)                                             \
  {"attention_dropout", Used, "(default 0)"},                                  \
      {"hidden_act", Used, "of the MLP's gate (default \"silu\")"},            \
      {"hidden_size", Used, "(default " HIDDEN ")"},                           \
      {"initializer_range", Used,                                              \
       "standard deviation of initial weights (default 0.02)"},                \
      {"intermediate_size", Used, "of the MLP (default " INNER ")"},           \
      {"max_position_embeddings", Used,                                        \
       "longest sequence without a warning (default " POSITIONS ")"},          \
      {"num_attention_heads", Used, "(default 32)"},                           \
      {"num_hidden_layers", Used, "(default " LAYERS ")"},                     \
      {"num_key_value_heads", Used,                                            \
       "(default " KV "; null: num_attention_heads)"},                         \
      {"pad_token_id", Used, "its embedding gets no gradient (default null)"}, \
      {"rms_norm_eps", Used, "(default " EPS ")"},                             \
      {"rope_parameters", Used, "frequencies of the rotation"},                \
      {"rope_scaling", Used, "older spelling of rope_parameters"},             \
      {"rope_theta", Used, "base of the rotation (default " THETA ")"},        \
      {"tie_word_embeddings", Used,                                            \
       "use the embedding as the head (default false)"},                       \
      {"vocab_size", Used, "(default " VOCAB ")"},                             \
      {"pretraining_tp", Inert,                                                \
       "split matmuls of earlier versions into equal sums"},                   \
      {"original_max_position_embeddings", Fixed,                              \
       "overrides the field of this name in rope_parameters", "null"},         \
      {"partial_rotary_factor", Fixed, "rotates a part of each head",          \
       "null 1.0"}

static constexpr Field kLlamaFields[] = {
    KERF_DECODER_FIELDS("32000", "4096", "11008", "32", "null", "2048", "1e-6",
                        "10000"),
    {"attention_bias", Used, kBias},
    {"head_dim", Used, kQuotient},
    {"mlp_bias", Used, "biases in the MLP (default false)"},
    {"layer_types", Fixed, kUnlike, "null"},
    {"sliding_window", Fixed,
     "not read by this family, though it seems to "
     "limit attention",
     "null"},
};

static constexpr llvm::StringLiteral kWindow =
    "tokens that a token sees, with itself (default 4096; null: all)";

static constexpr Field kMistralFields[] = {
    KERF_DECODER_FIELDS("32000", "4096", "14336", "32", "8", "131072", "1e-6",
                        "10000"),
    {"head_dim", Used, kQuotient},
    {"sliding_window", Used, kWindow},
    {"attention_bias", Fixed, kNoBias, "false null"},
    {"layer_types", Fixed, kUnlike, "null"},
    {"mlp_bias", Fixed, kNoBias, "false null"},
};

static constexpr llvm::StringLiteral kAuxLoss =
    "add the auxiliary loss (default false), unless --aux-loss says";
static constexpr llvm::StringLiteral kAuxFactor =
    "factor on the auxiliary loss (default 0.001)";

static constexpr Field kMixtralFields[] = {
    KERF_DECODER_FIELDS("32000", "4096", "14336", "32", "8", "131072", "1e-5",
                        "1000000"),
    {"head_dim", Used, kQuotient},
    {"num_experts_per_tok", Used, "(default 2)"},
    {"num_local_experts", Used, "(default 8)", "", "num_experts"},
    {"output_router_logits", Used, kAuxLoss},
    {"router_aux_loss_coef", Used, kAuxFactor},
    {"sliding_window", Used,
     "tokens that a token sees, with itself (default null: all)"},
    {"attention_bias", Fixed, kNoBias, "false null"},
    {"layer_types", Fixed, kUnlike, "null"},
    {"mlp_bias", Fixed, kNoBias, "false null"},
    {"router_jitter_noise", Fixed, "multiplies the router's input by noise",
     "0.0 null"},
};

static constexpr llvm::StringLiteral kSwitch =
    "whether sliding_window counts (default false)";
static constexpr llvm::StringLiteral kFirstWindow =
    "first layer with a window (default 28), unless layer_types says";
static constexpr llvm::StringLiteral kLayerTypes =
    "per layer full_attention or sliding_attention (default null)";
static constexpr llvm::StringLiteral kMrope =
    "is not read by this family, though it seems to rotate by several "
    "positions";

static constexpr Field kQwen2Fields[] = {
    KERF_DECODER_FIELDS("151936", "4096", "22016", "32", "32", "32768", "1e-6",
                        "10000"),
    {"head_dim", Used, "(default hidden_size / heads)"},
    {"layer_types", Used, kLayerTypes},
    {"max_window_layers", Used, kFirstWindow},
    {"sliding_window", Used, kWindow},
    {"use_sliding_window", Used, kSwitch},
    {"attention_bias", Fixed,
     "is not read by this family: queries, keys and values have biases",
     "null"},
    {"mlp_bias", Fixed, kNoBias, "false null"},
    {"use_mrope", Fixed, kMrope, "false null"},
};

static constexpr Field kQwen3Fields[] = {
    KERF_DECODER_FIELDS("151936", "4096", "22016", "32", "32", "32768", "1e-6",
                        "10000"),
    {"attention_bias", Used, kBias},
    {"head_dim", Used, "(default 128)"},
    {"layer_types", Used, kLayerTypes},
    {"max_window_layers", Used, kFirstWindow},
    {"sliding_window", Used, kWindow},
    {"use_sliding_window", Used, kSwitch},
    {"mlp_bias", Fixed, kNoBias, "false null"},
    {"use_mrope", Fixed, kMrope, "false null"},
};

static constexpr Field kQwen3MoeFields[] = {
    KERF_DECODER_FIELDS("151936", "2048", "6144", "24", "4", "32768", "1e-6",
                        "10000"),
    {"attention_bias", Used, kBias},
    {"decoder_sparse_step", Used,
     "every so many layers have experts (default 1: all)"},
    {"head_dim", Used, "(default hidden_size / heads)"},
    {"mlp_only_layers", Used, "layers without experts (default null: none)"},
    {"moe_intermediate_size", Used, "of an expert (default 768)"},
    {"norm_topk_prob", Used,
     "divide the chosen probabilities by their sum (default false)"},
    {"num_experts", Used, "(default 128)", "", "num_local_experts"},
    {"num_experts_per_tok", Used, "(default 8)"},
    {"output_router_logits", Used, kAuxLoss},
    {"router_aux_loss_coef", Used, kAuxFactor},
    {"sliding_window", Used, kWindow},
    {"use_sliding_window", Used, kSwitch},
    {"max_window_layers", Inert, "not read by this family"},
    {"layer_types", Fixed, kUnlike, "null"},
    {"mlp_bias", Fixed, kNoBias, "false null"},
    {"use_mrope", Fixed, kMrope, "false null"},
};

#undef KERF_DECODER_FIELDS

static constexpr Field kDeepseekV3Fields[] = {
    {"attention_bias", Used, kBias},
    {"attention_dropout", Used, "(default 0)"},
    {"first_k_dense_replace", Used,
     "layers without experts, before the others (default 3)"},
    {"head_dim", Used, "must be qk_rope_head_dim"},
    {"hidden_act", Used, "of the MLP's gate (default \"silu\")"},
    {"hidden_size", Used, "(default 7168)"},
    {"initializer_range", Used,
     "standard deviation of initial weights (default 0.02)"},
    {"intermediate_size", Used, "of the MLP (default 18432)"},
    {"kv_lora_rank", Used, "latent of keys and values (default 512)"},
    {"max_position_embeddings", Used,
     "longest sequence without a warning (default 4096)"},
    {"moe_intermediate_size", Used, "of an expert (default 2048)"},
    {"n_group", Used, "groups of experts (default 8)"},
    {"n_routed_experts", Used, "(default 256)", "", "num_local_experts"},
    {"n_shared_experts", Used, "experts of all tokens (default 1)"},
    {"norm_topk_prob", Used,
     "divide the chosen scores by their sum (default true)"},
    {"num_attention_heads", Used, "(default 128)"},
    {"num_experts_per_tok", Used, "(default 8)"},
    {"num_hidden_layers", Used, "(default 61)"},
    {"num_key_value_heads", Used, "must be num_attention_heads"},
    {"num_nextn_predict_layers", Used,
     "modules that predict further tokens: left out, with a warning", "",
     "num_mtp_layers"},
    {"pad_token_id", Used, "its embedding gets no gradient (default null)"},
    {"q_lora_rank", Used,
     "latent of queries (default 1536; null: a plain projection)"},
    {"qk_head_dim", Used, "must be qk_nope_head_dim + qk_rope_head_dim"},
    {"qk_nope_head_dim", Used, "channels without rotation (default 128)"},
    {"qk_rope_head_dim", Used, "channels with rotation (default 64)"},
    {"quantization_config", Used,
     "fp8 weights of a published checkpoint: not those of training, with a "
     "warning"},
    {"rms_norm_eps", Used, "(default 1e-6)"},
    {"rope_interleave", Used, "rotate neighbouring channels (default true)"},
    {"rope_parameters", Used, "frequencies of the rotation"},
    {"rope_scaling", Used, "older spelling of rope_parameters"},
    {"rope_theta", Used, "base of the rotation (default 10000)"},
    {"routed_scaling_factor", Used, "of the chosen scores (default 2.5)"},
    {"tie_word_embeddings", Used,
     "use the embedding as the head (default false)"},
    {"topk_group", Used, "groups that a token chooses from (default 4)"},
    {"v_head_dim", Used, "channels of values (default 128)"},
    {"vocab_size", Used, "(default 129280)"},

    {"aux_loss_alpha", Inert, kNoAuxLoss},
    {"ep_size", Inert, kParallelism},
    {"output_router_logits", Inert, kNoAuxLoss},
    {"pretraining_tp", Inert, "not read by this family"},
    {"seq_aux", Inert, kNoAuxLoss},

    {"layer_types", Fixed, kUnlike, "null"},
    {"mlp_bias", Fixed, kNoBias, "false null"},
    {"moe_layer_freq", Fixed, kUnlike, "1"},
    {"original_max_position_embeddings", Fixed,
     "overrides the field of this name in rope_parameters", "null"},
    {"partial_rotary_factor", Fixed, "rotates a part of each head", "null 1.0"},
    {"scoring_func", Fixed,
     "is not read by this family, whose scores are sigmoids", "\"sigmoid\""},
    {"sliding_window", Fixed,
     "not read by this family, though it seems to limit attention", "null"},
    {"topk_method", Fixed,
     "is not read by this family, which chooses by groups and biases",
     "\"noaux_tc\""},
};

static constexpr Field kRopeFields[] = {
    {"rope_type", Used, "default, dynamic, linear, llama3, longrope or yarn"},
    {"type", Used, "older spelling of rope_type"},
    {"rope_theta", Used, "base of the rotation"},
    {"attention_factor", Used,
     "yarn, longrope: of cosines and sines (default by the others)"},
    {"beta_fast", Used, "yarn (default 32)"},
    {"beta_slow", Used, "yarn (default 1)"},
    {"factor", Used, "dynamic, linear, llama3, yarn; longrope may have it"},
    {"high_freq_factor", Used, "llama3"},
    {"low_freq_factor", Used, "llama3"},
    {"original_max_position_embeddings", Used,
     "llama3, longrope, yarn (default max_position_embeddings)"},
    {"mscale", Used, "yarn, with mscale_all_dim (default null)"},
    {"mscale_all_dim", Used,
     "yarn, with mscale; deepseek: also of scores (default null)"},
    {"truncate", Used, "yarn: round the band of pairs outwards (default true)"},
    {"long_factor", Used, "longrope: of each pair, for longer sequences"},
    {"short_factor", Used,
     "longrope: of each pair, for sequences of the original length"},
    {"partial_rotary_factor", Fixed, "rotates a part of each head", "null 1.0"},
    {"mrope_section", Fixed, "rotates by several positions", "null"},
};

static constexpr Family kFamilies[] = {
    {"deepseek_v3", "DeepseekV3ForCausalLM", kDeepseekV3Fields},
    {"gpt2", "GPT2LMHeadModel", kGpt2Fields},
    {"llama", "LlamaForCausalLM", kLlamaFields},
    {"mistral", "MistralForCausalLM", kMistralFields},
    {"mixtral", "MixtralForCausalLM", kMixtralFields},
    {"qwen2", "Qwen2ForCausalLM", kQwen2Fields},
    {"qwen3", "Qwen3ForCausalLM", kQwen3Fields},
    {"qwen3_moe", "Qwen3MoeForCausalLM", kQwen3MoeFields},
};

//===----------------------------------------------------------------------===//
// Look-up
//===----------------------------------------------------------------------===//

llvm::ArrayRef<Family> kerf::getFamilies() {
  static const std::vector<Family> families = [] {
    std::vector<Family> all(std::begin(kFamilies), std::end(kFamilies));
    llvm::append_range(all, formFamilies());
    llvm::append_range(all, mixtureFamilies());
    llvm::sort(all, [](const Family &a, const Family &b) {
      return llvm::StringRef(a.name) < llvm::StringRef(b.name);
    });
    return all;
  }();
  return families;
}

const Family *kerf::findFamily(llvm::StringRef name) {
  for (const Family &family : getFamilies())
    if (family.name == name)
      return &family;
  return nullptr;
}

std::string kerf::listFamilies() {
  return llvm::join(
      llvm::map_range(getFamilies(),
                      [](const Family &f) { return f.name.str(); }),
      ", ");
}

llvm::SmallVector<Field> kerf::allFields(const Family &family) {
  llvm::SmallVector<Field> fields(family.fields);
  for (const Field &field : kCommonFields)
    if (!findField(family.fields, field.name))
      fields.push_back(field);
  return fields;
}

/// Whether the configs of a family may rotate a part of each head.
static bool mayTurnPart(llvm::ArrayRef<Field> fields) {
  const Field *part = findField(fields, "partial_rotary_factor");
  return (part && part->use == Used) || findField(fields, "rotary_pct");
}

llvm::SmallVector<Field> kerf::ropeFields(const Family &family) {
  llvm::SmallVector<Field> fields(std::begin(kRopeFields),
                                  std::end(kRopeFields));
  for (Field &field : fields)
    if (field.name == "partial_rotary_factor" && mayTurnPart(family.fields))
      field = {"partial_rotary_factor", Used, "part of each head that turns"};
  llvm::append_range(fields, family.rope);
  return fields;
}

const Field *kerf::findField(llvm::ArrayRef<Field> fields,
                             llvm::StringRef name) {
  for (const Field &field : fields)
    if (field.name == name || (!field.alias.empty() && field.alias == name))
      return &field;
  return nullptr;
}

llvm::StringRef kerf::nearestName(llvm::ArrayRef<Field> fields,
                                  llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef> known;
  for (const Field &field : fields) {
    known.push_back(field.name);
    known.push_back(field.alias);
  }
  return nearestWord(known, name);
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static void printField(const Field &field, llvm::raw_ostream &os) {
  std::string name = field.name.str();
  if (!field.alias.empty())
    name += " or " + field.alias.str();
  os << "  " << llvm::left_justify(name, 34) << ' ';
  if (field.use == Fixed) {
    llvm::SmallVector<llvm::StringRef> values;
    field.accepted.split(values, ' ');
    os << "must be " << llvm::join(values, " or ") << ": ";
  }
  os << field.text << '\n';
}

bool kerf::printFields(llvm::StringRef familyName, llvm::raw_ostream &os) {
  const Family *family = findFamily(familyName);
  if (!family)
    return false;
  os << "fields of " << family->name << " configs (" << family->modelClass
     << ")\n";
  llvm::SmallVector<Field> fields = allFields(*family);
  llvm::sort(fields, [](const Field &a, const Field &b) {
    return llvm::StringRef(a.name) < llvm::StringRef(b.name);
  });
  auto printAll = [&](llvm::ArrayRef<Field> list, FieldUse use,
                      llvm::StringRef title) {
    os << '\n' << title << ":\n";
    for (const Field &field : list)
      if (field.use == use)
        printField(field, os);
  };
  printAll(fields, Used, "used");
  if (findField(fields, "rope_parameters"))
    printAll(ropeFields(*family), Used,
             "used, in rope_parameters or rope_scaling");
  printAll(fields, Fixed, "other values are refused");
  printAll(fields, Inert, "no effect on training");
  return true;
}
