//===- DecoderForm.cpp - The families of decoders -------------------------===//
//
// Figures are the defaults of the library's config classes.
//
//===----------------------------------------------------------------------===//

#include "DecoderForm.h"

using namespace kerf;

static DecoderForm sized(llvm::StringLiteral family, int64_t vocab,
                         int64_t hidden, int64_t inner, int64_t layers,
                         int64_t maxPositions, double eps) {
  DecoderForm form;
  form.family = family;
  form.vocab = vocab;
  form.hidden = hidden;
  form.inner = inner;
  form.layers = layers;
  form.maxPositions = maxPositions;
  form.eps = eps;
  return form;
}

static DecoderForm cohere() {
  DecoderForm form = sized("cohere", 256000, 8192, 22528, 40, 8192, 1e-5);
  form.heads = 64;
  form.theta = 5e5;
  form.padToken = 0;
  form.isTied = true;
  form.epsField = "layer_norm_eps";
  form.norm = NormForm::LayerWithoutBias;
  form.placement = Placement::Parallel;
  form.turnsNeighbours = true;
  return form;
}

static DecoderForm deepseekV2() {
  return sized("deepseek_v2", 102400, 4096, 11008, 32, 2048, 1e-6);
}

static DecoderForm deepseekV3() {
  DecoderForm form = sized("deepseek_v3", 129280, 7168, 18432, 61, 4096, 1e-6);
  form.heads = 128;
  return form;
}

static DecoderForm dots1() {
  DecoderForm form = sized("dots1", 152064, 4608, 10944, 62, 2048, 1e-6);
  form.kvHeads = 32;
  form.window = 4096;
  form.headNorms = HeadNorms::EachHead;
  return form;
}

static DecoderForm gemma() {
  DecoderForm form = sized("gemma", 256000, 3072, 24576, 28, 8192, 1e-6);
  form.heads = 16;
  form.kvHeads = 16;
  form.headDim = 256;
  form.padToken = 0;
  form.isTied = true;
  form.activation = "gelu_pytorch_tanh";
  form.norm = NormForm::RmsPlusOne;
  form.scalesEmbedding = true;
  return form;
}

static DecoderForm glm4() {
  DecoderForm form =
      sized("glm4", 151552, 4096, 13696, 40, 131072, 0.00000015625);
  form.kvHeads = 2;
  form.headDim = 128;
  form.padToken = 151329;
  form.rotatedPart = 0.5;
  form.placement = Placement::Around;
  form.mlp = MlpForm::GatedInOne;
  form.turnsNeighbours = true;
  form.names.up = "gate_up_proj";
  form.names.attentionNorm = "post_self_attn_layernorm";
  form.names.mlpNorm = "post_mlp_layernorm";
  return form;
}

static DecoderForm glm4Moe() {
  DecoderForm form = sized("glm4_moe", 151552, 4096, 10944, 46, 131072, 1e-5);
  form.heads = 96;
  form.kvHeads = 8;
  form.rotatedPart = 0.5;
  return form;
}

static DecoderForm gptNeox() {
  DecoderForm form = sized("gpt_neox", 50432, 6144, 24576, 44, 2048, 1e-5);
  form.heads = 64;
  form.activation = "gelu";
  form.epsField = "layer_norm_eps";
  form.rotatedPart = 0.25;
  form.rotatedPartField = "rotary_pct";
  form.thetaField = "rotary_emb_base";
  form.norm = NormForm::Layer;
  form.placement = Placement::ParallelOfTwo;
  form.qkv = QkvForm::ByHead;
  form.mlp = MlpForm::Plain;
  ModuleNames &names = form.names;
  names.model = "gpt_neox";
  names.embedding = "embed_in";
  names.lastNorm = "final_layer_norm";
  names.head = "embed_out";
  names.attention = "attention";
  names.qkv = "query_key_value";
  names.output = "dense";
  names.up = "dense_h_to_4h";
  names.down = "dense_4h_to_h";
  return form;
}

static DecoderForm granite() {
  return sized("granite", 32000, 4096, 11008, 32, 2048, 1e-6);
}

static DecoderForm graniteMoe() {
  DecoderForm form = granite();
  form.family = "granitemoe";
  return form;
}

static DecoderForm hunyuan(llvm::StringLiteral family) {
  DecoderForm form = sized(family, 290943, 4096, 11008, 32, 2048, 1e-5);
  form.padToken = 0;
  form.headNorms = HeadNorms::EachTurnedHead;
  form.names.queryNorm = "query_layernorm";
  form.names.keyNorm = "key_layernorm";
  return form;
}

static DecoderForm llama() {
  return sized("llama", 32000, 4096, 11008, 32, 2048, 1e-6);
}

static DecoderForm llama4Text() {
  DecoderForm form =
      sized("llama4_text", 202048, 5120, 16384, 48, 131072, 1e-5);
  form.heads = 40;
  form.kvHeads = 8;
  form.headDim = 128;
  form.theta = 5e5;
  form.innerField = "intermediate_size_mlp";
  form.turnsNeighbours = true;
  form.names.mlp = "feed_forward";
  return form;
}

static DecoderForm minimaxM2() {
  DecoderForm form = sized("minimax_m2", 200064, 3072, 1536, 62, 196608, 1e-6);
  form.heads = 48;
  form.kvHeads = 8;
  form.headDim = 128;
  form.theta = 5e6;
  form.rotatedPart = 1.0;
  form.headNorms = HeadNorms::AllHeads;
  return form;
}

static DecoderForm mistral() {
  DecoderForm form = sized("mistral", 32000, 4096, 14336, 32, 131072, 1e-6);
  form.kvHeads = 8;
  form.window = 4096;
  return form;
}

static DecoderForm mixtral() {
  DecoderForm form = sized("mixtral", 32000, 4096, 14336, 32, 131072, 1e-5);
  form.kvHeads = 8;
  form.theta = 1e6;
  return form;
}

static DecoderForm nemotron() {
  DecoderForm form = sized("nemotron", 256000, 6144, 24576, 32, 4096, 1e-5);
  form.heads = 48;
  form.std = 0.0134;
  form.activation = "relu2";
  form.epsField = "norm_eps";
  form.rotatedPart = 0.5;
  form.norm = NormForm::LayerPlusOne;
  form.mlp = MlpForm::Plain;
  return form;
}

static DecoderForm olmo2() {
  DecoderForm form = sized("olmo2", 50304, 4096, 11008, 32, 2048, 1e-5);
  form.padToken = 1;
  form.placement = Placement::After;
  form.headNorms = HeadNorms::AllHeads;
  form.names.attentionNorm = "post_attention_layernorm";
  form.names.mlpNorm = "post_feedforward_layernorm";
  return form;
}

static DecoderForm olmoe() {
  DecoderForm form = sized("olmoe", 50304, 2048, 2048, 16, 4096, 1e-5);
  form.heads = 16;
  form.padToken = 1;
  form.headNorms = HeadNorms::AllHeads;
  return form;
}

static DecoderForm phi3() {
  DecoderForm form = sized("phi3", 32064, 3072, 8192, 32, 4096, 1e-5);
  form.padToken = 32000;
  form.rotatedPart = 1.0;
  form.qkv = QkvForm::OneAfterTheOther;
  form.mlp = MlpForm::GatedInOne;
  form.names.up = "gate_up_proj";
  return form;
}

static DecoderForm qwen2() {
  DecoderForm form = sized("qwen2", 151936, 4096, 22016, 32, 32768, 1e-6);
  form.kvHeads = 32;
  form.window = 4096;
  return form;
}

static DecoderForm qwen2Moe() {
  DecoderForm form = sized("qwen2_moe", 151936, 2048, 5632, 24, 32768, 1e-6);
  form.heads = 16;
  form.kvHeads = 16;
  form.window = 4096;
  return form;
}

static DecoderForm qwen3() {
  DecoderForm form = sized("qwen3", 151936, 4096, 22016, 32, 32768, 1e-6);
  form.kvHeads = 32;
  form.headDim = 128;
  form.window = 4096;
  form.headNorms = HeadNorms::EachHead;
  return form;
}

static DecoderForm qwen3Moe() {
  DecoderForm form = sized("qwen3_moe", 151936, 2048, 6144, 24, 32768, 1e-6);
  form.kvHeads = 4;
  form.window = 4096;
  form.headNorms = HeadNorms::EachHead;
  return form;
}

static DecoderForm smollm3() {
  DecoderForm form = sized("smollm3", 128256, 2048, 11008, 36, 32768, 1e-6);
  form.heads = 16;
  form.kvHeads = 4;
  form.theta = 2e6;
  form.padToken = 128004;
  form.isTied = true;
  return form;
}

static DecoderForm stablelm() {
  DecoderForm form = sized("stablelm", 50304, 2560, 6912, 32, 4096, 1e-5);
  form.kvHeads = 32;
  form.epsField = "layer_norm_eps";
  form.rotatedPart = 0.25;
  form.norm = NormForm::Layer;
  return form;
}

static DecoderForm starcoder2() {
  DecoderForm form = sized("starcoder2", 49152, 3072, 12288, 30, 4096, 1e-5);
  form.heads = 24;
  form.kvHeads = 2;
  form.std = 0.018042;
  form.isTied = true;
  form.activation = "gelu_pytorch_tanh";
  form.epsField = "norm_epsilon";
  form.norm = NormForm::Layer;
  form.mlp = MlpForm::Plain;
  form.names.up = "c_fc";
  form.names.down = "c_proj";
  return form;
}

static DecoderForm arcee() {
  DecoderForm form = sized("arcee", 32000, 2560, 18432, 32, 4096, 1e-5);
  form.activation = "relu2";
  form.mlp = MlpForm::Plain;
  return form;
}

static DecoderForm cohere2() {
  DecoderForm form = cohere();
  form.family = "cohere2";
  form.theta = 1e4;
  form.window = 4096;
  form.pattern = 4;
  return form;
}

static DecoderForm ernie45() {
  DecoderForm form = sized("ernie4_5", 103424, 1024, 3072, 18, 131072, 1e-5);
  form.heads = 16;
  form.kvHeads = 2;
  form.headDim = 128;
  form.theta = 5e5;
  form.padToken = 0;
  form.isTied = true;
  form.turnsNeighbours = true;
  return form;
}

static DecoderForm ernie45Moe() {
  DecoderForm form =
      sized("ernie4_5_moe", 103424, 2560, 12288, 28, 131072, 1e-5);
  form.heads = 20;
  form.kvHeads = 4;
  form.theta = 5e5;
  form.padToken = 0;
  form.isTied = true;
  form.turnsNeighbours = true;
  return form;
}

static DecoderForm exaone4() {
  DecoderForm form = sized("exaone4", 102400, 4096, 16384, 32, 2048, 1e-5);
  form.kvHeads = 32;
  form.window = 4096;
  form.pattern = 4;
  form.placement = Placement::After;
  form.headNorms = HeadNorms::EachHead;
  form.names.attentionNorm = "post_attention_layernorm";
  form.names.mlpNorm = "post_feedforward_layernorm";
  return form;
}

static DecoderForm gemma3Text() {
  DecoderForm form = gemma();
  form.family = "gemma3_text";
  form.vocab = 262208;
  form.hidden = 2304;
  form.inner = 9216;
  form.layers = 26;
  form.heads = 8;
  form.kvHeads = 4;
  form.maxPositions = 131072;
  form.theta = 1e6;
  form.windowTheta = 1e4;
  form.window = 4096;
  form.pattern = 6;
  form.activationField = "hidden_activation";
  form.placement = Placement::Around;
  form.headNorms = HeadNorms::EachHead;
  form.names.attentionNorm = "post_attention_layernorm";
  form.names.secondNorm = "pre_feedforward_layernorm";
  form.names.mlpNorm = "post_feedforward_layernorm";
  return form;
}

static DecoderForm gemma2() {
  DecoderForm form = gemma();
  form.family = "gemma2";
  form.hidden = 2304;
  form.inner = 9216;
  form.layers = 26;
  form.heads = 8;
  form.kvHeads = 4;
  form.window = 4096;
  form.pattern = 2;
  form.activationField = "hidden_activation";
  form.placement = Placement::Around;
  form.names.attentionNorm = "post_attention_layernorm";
  form.names.secondNorm = "pre_feedforward_layernorm";
  form.names.mlpNorm = "post_feedforward_layernorm";
  return form;
}

static DecoderForm gptOss() {
  DecoderForm form = sized("gpt_oss", 201088, 2880, 2880, 36, 131072, 1e-5);
  form.heads = 64;
  form.kvHeads = 8;
  form.headDim = 64;
  form.theta = 1.5e5;
  form.window = 128;
  form.pattern = 2;
  form.hasSinks = true;
  form.ropeDefault = R"({"rope_type": "yarn", "factor": 32.0,
    "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
    "original_max_position_embeddings": 4096})";
  return form;
}

static DecoderForm opt() {
  DecoderForm form = sized("opt", 50272, 768, 3072, 12, 2048, 1e-5);
  form.heads = 12;
  form.padToken = 1;
  form.isTied = true;
  form.activation = "relu";
  form.activationField = "activation_function";
  form.epsField = "layer_norm_eps";
  form.innerField = "ffn_dim";
  form.stdField = "init_std";
  form.norm = NormForm::Layer;
  form.mlp = MlpForm::Plain;
  form.firstPosition = 2;
  ModuleNames &names = form.names;
  names.model = "model.decoder";
  names.lastNorm = "final_layer_norm";
  names.output = "out_proj";
  names.firstNorm = "self_attn_layer_norm";
  names.secondNorm = "final_layer_norm";
  names.mlp = "";
  names.up = "fc1";
  names.down = "fc2";
  return form;
}

static DecoderForm phi() {
  DecoderForm form = sized("phi", 51200, 2048, 8192, 24, 2048, 1e-5);
  form.activation = "gelu_new";
  form.epsField = "layer_norm_eps";
  form.rotatedPart = 0.5;
  form.norm = NormForm::Layer;
  form.placement = Placement::Parallel;
  form.mlp = MlpForm::Plain;
  form.hasHeadBias = true;
  form.names.lastNorm = "final_layernorm";
  form.names.output = "dense";
  form.names.up = "fc1";
  form.names.down = "fc2";
  return form;
}

static DecoderForm glm() {
  DecoderForm form = glm4();
  form.family = "glm";
  form.placement = Placement::Before;
  return form;
}

static DecoderForm olmo3() {
  DecoderForm form = olmo2();
  form.family = "olmo3";
  form.theta = 5e5;
  form.windowTheta = 5e5;
  form.window = 4096;
  form.pattern = 4;
  return form;
}

static DecoderForm seedOss() {
  DecoderForm form = sized("seed_oss", 155136, 4096, 27648, 64, 524288, 1e-6);
  form.heads = 80;
  form.kvHeads = 8;
  form.headDim = 128;
  form.padToken = 1;
  form.attentionDropout = 0.1;
  return form;
}

const DecoderForm &kerf::formOf(llvm::StringRef family) {
  static const DecoderForm forms[] = {arcee(),
                                      cohere(),
                                      cohere2(),
                                      deepseekV2(),
                                      deepseekV3(),
                                      dots1(),
                                      ernie45(),
                                      ernie45Moe(),
                                      exaone4(),
                                      gemma(),
                                      gemma2(),
                                      gemma3Text(),
                                      glm(),
                                      glm4(),
                                      glm4Moe(),
                                      gptNeox(),
                                      gptOss(),
                                      granite(),
                                      graniteMoe(),
                                      hunyuan("hunyuan_v1_dense"),
                                      hunyuan("hunyuan_v1_moe"),
                                      llama(),
                                      llama4Text(),
                                      minimaxM2(),
                                      mistral(),
                                      mixtral(),
                                      nemotron(),
                                      olmo2(),
                                      olmo3(),
                                      olmoe(),
                                      opt(),
                                      phi(),
                                      phi3(),
                                      qwen2(),
                                      qwen2Moe(),
                                      qwen3(),
                                      qwen3Moe(),
                                      seedOss(),
                                      smollm3(),
                                      stablelm(),
                                      starcoder2()};
  for (const DecoderForm &form : forms)
    if (form.family == family)
      return form;
  llvm_unreachable("no form of this family");
}
