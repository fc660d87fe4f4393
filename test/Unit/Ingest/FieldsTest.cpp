//===- FieldsTest.cpp - What the importer refuses, and where --------------===//

#include "ImportTesting.h"

#include "gtest/gtest.h"

using namespace kerf;
using namespace kerf::testing;

namespace {

/// The messages of a config that must be refused.
std::string errorsOf(llvm::StringRef json,
                     const ImportOptions &options = smallOptions()) {
  Imported run(json, options);
  EXPECT_EQ(run.ir, "") << json.str();
  return run.messages;
}

/// The messages of a gpt2 config whose second line is `field`.
std::string gpt2Errors(llvm::StringRef field) {
  return errorsOf(configOf("gpt2", (",\n" + field).str()));
}

std::string llamaErrors(llvm::StringRef field) {
  return errorsOf(decoderOf("llama", (",\n" + field).str()));
}

TEST(Fields, notAConfig) {
  EXPECT_EQ(errorsOf("{"), "1:2: error: expected a key in double quotes, found "
                           "end of input\n");
  EXPECT_EQ(errorsOf("[]"), "1:1: error: expected a config, which is a JSON "
                            "object, found an array\n");
  EXPECT_EQ(errorsOf("\n  3"), "2:3: error: expected a config, which is a JSON "
                               "object, found a number\n");
}

TEST(Fields, family) {
  const std::string known = "note: expected one of " + listFamilies() + "\n";
  EXPECT_EQ(errorsOf("{}"),
            "1:1: error: missing field 'model_type'\n1:1: " + known);
  EXPECT_EQ(errorsOf("{\"model_type\":\n \"bert\"}"),
            "2:2: error: unsupported value 'bert' of field 'model_type'\n"
            "2:2: " +
                known);
  EXPECT_EQ(errorsOf("{\"model_type\": 7}"),
            "1:16: error: unsupported value 7 of field 'model_type'\n1:16: " +
                known);
}

TEST(Fields, unknownFieldsAreNamed) {
  EXPECT_EQ(gpt2Errors("\"n_heads\": 3"),
            "2:1: error: unknown field 'n_heads' of a gpt2 config\n"
            "2:1: note: did you mean 'n_head'?\n");
  EXPECT_EQ(gpt2Errors("\"hidden_sizes\": 3"),
            "2:1: error: unknown field 'hidden_sizes' of a gpt2 config\n"
            "2:1: note: did you mean 'hidden_size'?\n");
  EXPECT_EQ(gpt2Errors("\"quux\": 3"),
            "2:1: error: unknown field 'quux' of a gpt2 config\n"
            "2:1: note: remove it if it does not change the computation\n");
}

TEST(Fields, valuesThatChangeTheComputation) {
  EXPECT_EQ(gpt2Errors("\"add_cross_attention\": true"),
            "2:24: error: unsupported field 'add_cross_attention': expected "
            "false or null, found true\n"
            "2:24: note: the field adds attention to an encoder\n");
  EXPECT_EQ(llamaErrors("\"quantization_config\": {\"bits\": 4}"),
            "2:24: error: unsupported field 'quantization_config': expected "
            "null or {}, found an object\n"
            "2:24: note: the field computes with quantized weights\n");
  EXPECT_EQ(llamaErrors("\"is_causal\": null"),
            "2:14: error: unsupported field 'is_causal': expected true, found "
            "null\n"
            "2:14: note: the field lets tokens attend to later ones\n");
  EXPECT_EQ(errorsOf(decoderOf("mixtral", ",\n\"router_jitter_noise\": 0.1")),
            "2:24: error: unsupported field 'router_jitter_noise': expected "
            "0.0 or null, found 0.1\n"
            "2:24: note: the field multiplies the router's input by noise\n");
  Imported harmless(decoderOf("mixtral", ", \"router_jitter_noise\": 0, "
                                         "\"quantization_config\": {}, "
                                         "\"partial_rotary_factor\": 1"));
  EXPECT_EQ(harmless.messages, "");
  EXPECT_NE(harmless.ir, "");
}

TEST(Fields, typesAndRanges) {
  EXPECT_EQ(gpt2Errors("\"n_layer\": 0"),
            "2:12: error: field 'n_layer': expected an integer from 1 to "
            "1000000, found 0\n");
  EXPECT_EQ(gpt2Errors("\"n_layer\": 1000001"),
            "2:12: error: field 'n_layer': expected an integer from 1 to "
            "1000000, found 1000001\n");
  EXPECT_EQ(gpt2Errors("\"vocab_size\": 32.0"),
            "2:15: error: field 'vocab_size': expected an integer from 1 to "
            "2147483647, found 32.0\n");
  EXPECT_EQ(gpt2Errors("\"vocab_size\": \"many\""),
            "2:15: error: field 'vocab_size': expected an integer from 1 to "
            "2147483647, found 'many'\n");
  EXPECT_EQ(gpt2Errors("\"n_embd\": null"),
            "2:11: error: field 'n_embd': expected an integer from 1 to "
            "2147483647, found null\n");
  EXPECT_EQ(gpt2Errors("\"resid_pdrop\": 1"),
            "2:16: error: field 'resid_pdrop': expected a number >= 0.0 and < "
            "1.0, found 1\n");
  EXPECT_EQ(gpt2Errors("\"layer_norm_epsilon\": -1e-5"),
            "2:23: error: field 'layer_norm_epsilon': expected a number >= "
            "0.0, found -1e-05\n");
  EXPECT_EQ(gpt2Errors("\"scale_attn_weights\": 1"),
            "2:23: error: field 'scale_attn_weights': expected true or false, "
            "found 1\n");
  EXPECT_EQ(gpt2Errors("\"activation_function\": [\"gelu\"]"),
            "2:24: error: field 'activation_function': expected a string, "
            "found an array\n");
  EXPECT_EQ(llamaErrors("\"rope_theta\": 0"),
            "2:15: error: field 'rope_theta': expected a number > 0.0, found "
            "0\n");
  EXPECT_EQ(llamaErrors("\"pad_token_id\": 32"),
            "2:17: error: field 'pad_token_id': expected an integer from -32 "
            "to 31, found 32\n");
}

TEST(Fields, allProblemsOfOneRun) {
  EXPECT_EQ(gpt2Errors("\"n_layer\": -1, \"foo\": 1,\n\"n_head\": []"),
            "2:16: error: unknown field 'foo' of a gpt2 config\n"
            "2:16: note: remove it if it does not change the computation\n"
            "2:12: error: field 'n_layer': expected an integer from 1 to "
            "1000000, found -1\n"
            "3:11: error: field 'n_head': expected an integer from 1 to "
            "2147483647, found an array\n");
}

TEST(Fields, activations) {
  const std::string known = "note: expected one of gelu, gelu_new, "
                            "gelu_python, gelu_python_tanh, gelu_pytorch_tanh, "
                            "relu, relu2, silu, squared_relu, swish\n";
  EXPECT_EQ(gpt2Errors("\"activation_function\": \"mish\""),
            "2:24: error: unsupported activation 'mish' in field "
            "'activation_function'\n2:24: " +
                known);
}

TEST(Fields, heads) {
  EXPECT_EQ(gpt2Errors("\"n_head\": 5"),
            "2:11: error: expected 'n_head' to divide 'n_embd' 768, found 5\n");
  EXPECT_EQ(errorsOf(configOf("mistral", ",\n\"num_attention_heads\": 12")),
            "2:24: error: expected 'num_attention_heads' to divide "
            "'hidden_size' 4096, found 12\n"
            "1:1: error: expected 'num_key_value_heads' to divide "
            "'num_attention_heads' 12, found 8\n"
            "1:1: note: field 'num_key_value_heads' is not given, its default "
            "counts\n");
  EXPECT_EQ(llamaErrors("\"head_dim\": 5"),
            "2:13: error: expected an even head size, as rotary positions turn "
            "pairs, found 5\n");
  EXPECT_EQ(errorsOf(configOf("llama", ",\n\"num_key_value_heads\": 5")),
            "2:24: error: expected 'num_key_value_heads' to divide "
            "'num_attention_heads' 32, found 5\n");
}

TEST(Fields, contradictions) {
  EXPECT_EQ(gpt2Errors("\"n_embd\": 64,\n\"hidden_size\": 32"),
            "3:16: error: field 'hidden_size' contradicts field 'n_embd'\n"
            "2:11: note: given here\n");
  EXPECT_EQ(llamaErrors("\"rope_scaling\": {\"type\": \"linear\", "
                        "\"factor\": 2},\n\"rope_parameters\": "
                        "{\"rope_type\": \"default\"}"),
            "3:20: error: field 'rope_parameters' contradicts field "
            "'rope_scaling'\n"
            "2:17: note: given here\n");
}

TEST(Fields, architectures) {
  EXPECT_EQ(gpt2Errors("\"architectures\": [\"GPT2DoubleHeadsModel\"]"),
            "2:18: error: unsupported value of field 'architectures': expected "
            "[\"GPT2LMHeadModel\"], found 'GPT2DoubleHeadsModel'\n");
  EXPECT_EQ(gpt2Errors("\"architectures\": \"GPT2LMHeadModel\""),
            "2:18: error: unsupported value of field 'architectures': expected "
            "[\"GPT2LMHeadModel\"]\n");
}

TEST(Fields, ropeTypes) {
  EXPECT_EQ(llamaErrors("\"rope_parameters\": {\"rope_type\": \"su\"}"),
            "2:34: error: unsupported rope type 'su'\n"
            "2:34: note: expected one of default, dynamic, linear, llama3, "
            "longrope, yarn\n");
  EXPECT_EQ(llamaErrors("\"rope_parameters\": {\"rope_type\": \"dynamic\"}"),
            "2:20: error: missing field 'factor' of rope type 'dynamic'\n");
  EXPECT_EQ(llamaErrors("\"rope_parameters\": {\"rope_type\": \"longrope\", "
                        "\"short_factor\": [1, 2]}"),
            "2:20: error: missing field 'long_factor' of rope type "
            "'longrope'\n");
  EXPECT_EQ(llamaErrors("\"rope_scaling\": \"linear\""),
            "2:17: error: field 'rope_scaling': expected an object or null, "
            "found 'linear'\n");
  EXPECT_EQ(llamaErrors("\"rope_scaling\": {\"type\": \"linear\",\n"
                        "\"rope_type\": \"llama3\", \"factor\": 2, "
                        "\"low_freq_factor\": 1, \"high_freq_factor\": 4}"),
            "2:26: error: rope type 'linear' in 'type' contradicts 'llama3' in "
            "'rope_type'\n");
}

TEST(Fields, ropeParameters) {
  EXPECT_EQ(llamaErrors("\"rope_scaling\": {\"type\": \"linear\"}"),
            "2:17: error: missing field 'factor' of rope type 'linear'\n");
  EXPECT_EQ(llamaErrors("\"rope_scaling\": {\"type\": \"linear\", "
                        "\"factor\": 0.5}"),
            "2:46: error: field 'rope_scaling.factor': expected a number >= "
            "1.0, found 0.5\n");
  EXPECT_EQ(llamaErrors("\"rope_scaling\": {\"type\": \"linear\", "
                        "\"factr\": 2}"),
            "2:36: error: unknown field 'rope_scaling.factr' of a config\n"
            "2:36: note: did you mean 'rope_scaling.factor'?\n"
            "2:17: error: missing field 'factor' of rope type 'linear'\n");
  EXPECT_EQ(llamaErrors("\"rope_scaling\": {\"rope_type\": \"llama3\", "
                        "\"factor\": 8, \"low_freq_factor\": 4,\n"
                        "\"high_freq_factor\": 4}"),
            "3:21: error: expected 'high_freq_factor' above 'low_freq_factor' "
            "4.0, found 4.0\n");
  EXPECT_EQ(llamaErrors("\"rope_parameters\": {\n"
                        "\"partial_rotary_factor\": 0.5}"),
            "3:26: error: unsupported field "
            "'rope_parameters.partial_rotary_factor': expected null or 1.0, "
            "found 0.5\n"
            "3:26: note: the field rotates a part of each head\n");
}

TEST(Fields, yarn) {
  EXPECT_EQ(llamaErrors("\"rope_scaling\": {\"type\": \"yarn\"}"),
            "2:17: error: missing field 'factor' of rope type 'yarn'\n");
  EXPECT_EQ(
      llamaErrors("\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 0.5,\n"
                  "\"attention_factor\": 0, \"truncate\": 1}"),
      "2:44: error: field 'rope_scaling.factor': expected a number >= "
      "1.0, found 0.5\n"
      "3:21: error: field 'rope_scaling.attention_factor': expected a "
      "number > 0.0, found 0\n"
      "3:36: error: field 'rope_scaling.truncate': expected true or "
      "false, found 1\n");
  // The pair of 0.01 turns is 4 ln(64 / 0.0628) / (2 ln 4) = 9.99, that of one
  // turn 3.35; a head of 4 channels ends at 3.
  EXPECT_EQ(llamaErrors("\"rope_theta\": 4, \"rope_scaling\": {\"type\": "
                        "\"yarn\", \"factor\": 2,\n\"beta_fast\": 0.01, "
                        "\"original_max_position_embeddings\": 64}"),
            "3:14: error: rope type 'yarn' stretches no frequency: factor 2.0, "
            "from pair 9.0 to 3.0\n");
  // Without a factor it is the ratio of the lengths.
  EXPECT_EQ(llamaErrors("\"max_position_embeddings\": 32, \"rope_scaling\": "
                        "{\"type\": \"yarn\", \"factor\": null,\n"
                        "\"original_max_position_embeddings\": 64}"),
            "2:75: error: rope type 'yarn' stretches no frequency: factor 0.5, "
            "from pair 0.0 to 1.0\n");
}

TEST(Fields, layerTypes) {
  auto errors = [](llvm::StringRef types) {
    return errorsOf(decoderOf("qwen3", (",\n\"layer_types\": " + types).str()));
  };
  EXPECT_EQ(errors("[\"full_attention\"]"),
            "2:16: error: field 'layer_types': expected the types of 3 layers, "
            "found 1\n");
  EXPECT_EQ(
      errors("\"full_attention\""),
      "2:16: error: field 'layer_types': expected an array or null, found "
      "'full_attention'\n");
  EXPECT_EQ(errors("[\"full_attention\", \"chunked_attention\", 3]"),
            "2:35: error: field 'layer_types': expected 'full_attention' or "
            "'sliding_attention', found 'chunked_attention'\n"
            "2:56: error: field 'layer_types': expected 'full_attention' or "
            "'sliding_attention', found 3\n");
  EXPECT_EQ(errors("[\"full_attention\", \"sliding_attention\",\n"
                   "\"full_attention\"]"),
            "2:35: error: field 'layer_types': expected 'full_attention', as "
            "the config has no window, found 'sliding_attention'\n"
            "2:35: note: a window needs 'use_sliding_window' and "
            "'sliding_window'\n");
  EXPECT_EQ(
      llamaErrors("\"layer_types\": []"),
      "2:16: error: unsupported field 'layer_types': expected null, found "
      "an array\n"
      "2:16: note: the field is not read by this family, though it seems "
      "to make layers unlike each other\n");
}

TEST(Fields, qwen) {
  EXPECT_EQ(errorsOf(decoderOf("qwen2", ",\n\"head_dim\": null")),
            "2:13: error: field 'head_dim': expected an integer from 1 to "
            "2147483647, found null\n");
  EXPECT_EQ(errorsOf(decoderOf("qwen2", ",\n\"attention_bias\": false")),
            "2:19: error: unsupported field 'attention_bias': expected null, "
            "found false\n"
            "2:19: note: the field is not read by this family: queries, keys "
            "and values have biases\n");
}

TEST(Fields, layersWithExperts) {
  auto errors = [](llvm::StringRef more) {
    return errorsOf(decoderOf("qwen3_moe", (",\n" + more).str()));
  };
  EXPECT_EQ(errors("\"mlp_only_layers\": [0, 7, -1, 1.5]"),
            "2:27: error: field 'mlp_only_layers': expected an integer of at "
            "least 0, found -1\n"
            "2:31: error: field 'mlp_only_layers': expected an integer of at "
            "least 0, found 1.5\n");
  EXPECT_EQ(errors("\"mlp_only_layers\": [2],\n\"decoder_sparse_step\": 3"),
            "2:20: error: expected a layer with experts: 'mlp_only_layers' and "
            "'decoder_sparse_step' 3 leave none\n");
  EXPECT_EQ(errorsOf(configOf("qwen3_moe", ", \"decoder_sparse_step\": 2,\n"
                                           "\"num_hidden_layers\": 5000")),
            "2:22: error: expected layers that change their kind at most 1000 "
            "times, found 5000\n");
  EXPECT_EQ(errors("\"num_experts_per_tok\": 129"),
            "2:24: error: expected 'num_experts_per_tok' of at most "
            "'num_experts' 128, found 129\n");
}

TEST(Fields, groupsOfExperts) {
  auto errors = [](llvm::StringRef more) {
    return errorsOf(configOf("deepseek_v3", (",\n" + more).str()));
  };
  EXPECT_EQ(errors("\"n_routed_experts\": 255"),
            "1:1: error: expected 'n_group' to divide 'n_routed_experts' 255 "
            "into groups of at least 2, found 8\n");
  EXPECT_EQ(errors("\"n_group\": 256"),
            "2:12: error: expected 'n_group' to divide 'n_routed_experts' 256 "
            "into groups of at least 2, found 256\n");
  EXPECT_EQ(errors("\"topk_group\": 9"),
            "2:15: error: expected 'topk_group' from 1 (for "
            "'num_experts_per_tok' 8) to 'n_group' 8, found 9\n");
  EXPECT_EQ(errors("\"n_group\": 64,\n\"topk_group\": 1"),
            "3:15: error: expected 'topk_group' from 2 (for "
            "'num_experts_per_tok' 8) to 'n_group' 64, found 1\n");
  EXPECT_EQ(errors("\"scoring_func\": \"softmax\""),
            "2:17: error: unsupported field 'scoring_func': expected "
            "\"sigmoid\", found 'softmax'\n"
            "2:17: note: the field is not read by this family, whose scores "
            "are sigmoids\n");
}

TEST(Fields, latents) {
  auto errors = [](llvm::StringRef more) {
    return errorsOf(configOf("deepseek_v3", (",\n" + more).str()));
  };
  EXPECT_EQ(errors("\"qk_rope_head_dim\": 63"),
            "2:21: error: expected an even 'qk_rope_head_dim', as rotary "
            "positions turn pairs, found 63\n");
  EXPECT_EQ(errors("\"num_key_value_heads\": 64"),
            "2:24: error: expected 'num_key_value_heads' to be "
            "'num_attention_heads', 128, found 64\n");
  EXPECT_EQ(errors("\"head_dim\": 192"),
            "2:13: error: expected 'head_dim' to be 'qk_rope_head_dim', 64, "
            "found 192\n");
  EXPECT_EQ(errors("\"qk_head_dim\": 128"),
            "2:16: error: expected 'qk_head_dim' to be 'qk_nope_head_dim' + "
            "'qk_rope_head_dim', 192, found 128\n");
  EXPECT_EQ(errors("\"quantization_config\": {\"quant_method\": \"awq\"}"),
            "2:24: error: unsupported field 'quantization_config': expected "
            "null, {} or 'quant_method' \"fp8\"\n");
}

TEST(Fields, leftOut) {
  Imported run(configOf("deepseek_v3",
                        ",\n\"num_nextn_predict_layers\": 1,\n"
                        "\"quantization_config\": {\"quant_method\": "
                        "\"fp8\"}"));
  EXPECT_EQ(run.messages,
            "2:29: warning: modules that predict further tokens "
            "('num_nextn_predict_layers') are left out: the model is trained "
            "on the next token alone\n"
            "3:24: warning: weights of the published checkpoint are in fp8 "
            "('quantization_config'), those of training are not: to start from "
            "it, convert it to bf16 first\n");
  EXPECT_NE(run.ir, "");
  Imported quiet(configOf("deepseek_v3", ", \"quantization_config\": {}"));
  EXPECT_EQ(quiet.messages, "");
}

TEST(Fields, lengths) {
  EXPECT_EQ(gpt2Errors("\"n_positions\": 4"),
            "2:16: error: sequences of 8 tokens are longer than the 4 learned "
            "positions ('n_positions')\n");
  Imported run(decoderOf("llama", ",\n\"max_position_embeddings\": 4"));
  EXPECT_EQ(run.messages,
            "2:28: warning: sequences of 8 tokens are longer than the 4 the "
            "model is made for ('max_position_embeddings')\n");
  EXPECT_NE(run.ir, "");
}

TEST(Fields, absurdSizes) {
  EXPECT_EQ(gpt2Errors("\"vocab_size\": 2000000000"),
            "2:15: error: the embedding of 2000000000x768 would have more than "
            "1099511627776 elements\n");
  EXPECT_EQ(llamaErrors("\"head_dim\": 1073741824"),
            "1:67: error: 'q_proj.weight' of 4294967296x16 would have a "
            "dimension of more than 2147483647\n");
  EXPECT_EQ(errorsOf(configOf("llama", ",\n\"hidden_size\": 2147483584")),
            "1:1: error: the embedding of 32000x2147483584 would have more "
            "than 1099511627776 elements\n");
  auto deepseekErrors = [](llvm::StringRef more) {
    return errorsOf(configOf("deepseek_v3", (",\n" + more).str()));
  };
  EXPECT_EQ(deepseekErrors("\"q_lora_rank\": 2147483647"),
            "2:16: error: 'q_a_proj.weight' of 2147483647x7168 would have more "
            "than 1099511627776 elements\n");
  EXPECT_EQ(deepseekErrors("\"q_lora_rank\": 100000000"),
            "2:16: error: 'q_b_proj.weight' of 24576x100000000 would have more "
            "than 1099511627776 elements\n");
  EXPECT_EQ(deepseekErrors("\"kv_lora_rank\": 2147483647"),
            "2:17: error: 'kv_a_proj_with_mqa.weight' of 2147483711x7168 would "
            "have a dimension of more than 2147483647\n");
  EXPECT_EQ(deepseekErrors("\"kv_lora_rank\": 100000000"),
            "2:17: error: 'kv_b_proj.weight' of 32768x100000000 would have "
            "more than 1099511627776 elements\n");
  EXPECT_EQ(deepseekErrors("\"v_head_dim\": 2147483647"),
            "2:15: error: 'o_proj.weight' of 7168x274877906816 would have a "
            "dimension of more than 2147483647\n");
  EXPECT_EQ(deepseekErrors("\"n_shared_experts\": 2147483647"),
            "2:21: error: 'shared_experts.up_proj.weight' of "
            "4398046509056x7168 would have a dimension of more than "
            "2147483647\n");
  ImportOptions huge = smallOptions();
  huge.batch = huge.seq = 2000000000;
  Imported run(configOf("mistral", ",\n\"hidden_size\": 64"), huge);
  EXPECT_NE(run.messages.find("error: the activations of "
                              "2000000000x2000000000x64 would have more than "
                              "17592186044416 elements\n"),
            std::string::npos)
      << run.messages;
}

TEST(Fields, experts) {
  EXPECT_EQ(errorsOf(decoderOf("mixtral", ",\n\"num_experts_per_tok\": 9")),
            "2:24: error: expected 'num_experts_per_tok' of at most "
            "'num_local_experts' 8, found 9\n");
}

TEST(Options, ranges) {
  ImportOptions options;
  options.seq = -3;
  options.optimizer = "adagrad";
  options.auxLoss = "some";
  options.beta1 = 1;
  options.zLoss = std::numeric_limits<double>::quiet_NaN();
  options.weightDecay = -0.5;
  options.clipNorm = std::numeric_limits<double>::infinity();
  options.capacityFactor = 0;
  EXPECT_EQ(
      errorsOf(configOf("gpt2", ""), options),
      "error: expected 'batch' from 1 to 2147483647, found 0\n"
      "error: expected 'seq' from 1 to 2147483647, found -3\n"
      "error: expected 'optimizer' to be one of adafactor, adamw, adamw_8bit, "
      "lion, muon, sgd, "
      "found 'adagrad'\n"
      "error: expected 'weight-decay' of at least 0 and finite, found -0.5\n"
      "error: expected 'beta1' of at least 0 and below 1.0, found 1.0\n"
      "error: expected 'clip-norm' of at least 0 and finite, found inf\n"
      "error: expected 'aux-loss' to be one of config, none, layer, global, "
      "found 'some'\n"
      "error: expected 'z-loss' of at least 0 and finite, found nan\n"
      "error: expected a finite 'capacity-factor' above 0, found 0.0\n");
  ImportOptions balance = smallOptions();
  balance.routerBiasRate = -1;
  EXPECT_EQ(errorsOf(configOf("deepseek_v3", ""), balance),
            "error: expected 'router-bias-rate' of at least 0 and finite, "
            "found -1.0\n");
  balance.routerBiasRate = 0;
  balance.auxLoss = "layer";
  EXPECT_EQ(errorsOf(configOf("deepseek_v3", ""), balance),
            "1:16: error: the experts of this family are balanced by biases, "
            "expected 'aux-loss' to be config or none, found 'layer'\n");
  balance.routerBiasRate = 0.001;
  balance.auxLoss = "global";
  EXPECT_EQ(errorsOf(configOf("llama4_text", ""), balance),
            "1:16: error: the library has no auxiliary loss of this family, "
            "expected 'aux-loss' to be config or none, found 'global'\n");
}

// The forms of families: what a config may say of norms, rotation and layers.
TEST(Fields, forms) {
  auto errors = [](llvm::StringRef type, const std::string &more) {
    return errorsOf("{\"model_type\": \"" + type.str() +
                    "\", \"num_hidden_layers\": 2, \"vocab_size\": 200000,\n" +
                    more + "}");
  };
  EXPECT_EQ(errors("gpt_neox", "\"rotary_pct\": 0.02"),
            "2:15: error: expected 'rotary_pct' to rotate an even number of "
            "channels, as rotary positions turn pairs, found 1 of 96\n");
  EXPECT_EQ(errors("phi3", "\"pad_token_id\": 200000"),
            "2:17: error: field 'pad_token_id': expected an integer from "
            "-200000 to 199999, found 200000\n");
  EXPECT_EQ(errors("smollm3", "\"no_rope_layers\": [1]"),
            "2:19: error: field 'no_rope_layers': expected 0 or 1 for 2 "
            "layers, found 1\n");
  EXPECT_EQ(errors("smollm3", "\"no_rope_layers\": [1, 2]"),
            "2:23: error: field 'no_rope_layers': expected 0 or 1, found 2\n");
  EXPECT_EQ(errors("gemma3_text", "\"attn_logit_softcapping\": 50.0"),
            "2:27: error: unsupported field 'attn_logit_softcapping': expected "
            "null, found 50.0\n2:27: note: the field bounds logits by a "
            "hyperbolic tangent\n");
  EXPECT_EQ(errors("cohere2", "\"sliding_window\": null, \"layer_types\": "
                              "[\"sliding_attention\", \"full_attention\"]"),
            "2:41: error: field 'layer_types': expected 'full_attention', as "
            "the config has no window, found 'sliding_attention'\n"
            "2:41: note: a window needs 'sliding_window'\n");
  EXPECT_EQ(errors("gemma3_text", "\"rope_parameters\": {\"rope_theta\": 5}"),
            "2:21: error: unknown field 'rope_parameters.rope_theta' of a "
            "config\n2:21: note: remove it if it does not change the "
            "computation\n");
  EXPECT_EQ(
      errors("llama", "\"rope_parameters\": {\"partial_rotary_factor\": "
                      "0.5}")
          .substr(0, 66),
      "2:46: error: unsupported field 'rope_parameters.partial_rotary_fac");
}

TEST(ListFields, everyFamily) {
  llvm::SmallVector<llvm::StringRef> families;
  std::string list = listFamilies();
  llvm::StringRef(list).split(families, ", ");
  for (llvm::StringRef family : families) {
    std::string text;
    llvm::raw_string_ostream os(text);
    EXPECT_TRUE(printFields(family, os));
    EXPECT_NE(text.find("  vocab_size  "), std::string::npos) << text;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  EXPECT_FALSE(printFields("bert", os));
  EXPECT_EQ(text, "");
  EXPECT_EQ(
      listFamilies(),
      "arcee, cohere, cohere2, deepseek_v2, deepseek_v3, dots1, "
      "ernie4_5, ernie4_5_moe, exaone4, gemma, gemma2, gemma3_text, glm, glm4, "
      "glm4_moe, gpt2, gpt_neox, gpt_oss, granite, granitemoe, "
      "hunyuan_v1_dense, hunyuan_v1_moe, llama, "
      "llama4_text, minimax_m2, mistral, mixtral, nemotron, olmo2, "
      "olmo3, olmoe, opt, phi, phi3, "
      "qwen2, qwen2_moe, qwen3, qwen3_moe, seed_oss, smollm3, stablelm, "
      "starcoder2");
}

} // namespace
