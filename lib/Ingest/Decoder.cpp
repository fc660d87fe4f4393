//===- Decoder.cpp - LlamaForCausalLM and its relatives -------------------===//
//
// Layers with rotary positions, grouped-query or latent attention
// (deepseek_v2 and v3) and an MLP, or a mixture of experts (Experts.cpp). What
// else differs is the form of a family (DecoderForm.h).
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

namespace {
class DecoderImporter : public Importer {
public:
  explicit DecoderImporter(const DecoderForm &form) : form(form) {
    c.form = &form;
  }
  void read(ConfigReader &config, const ImportOptions &options) override;
  void build(LayerBuilder &b) override;
  llvm::SmallVector<llvm::StringRef> vectorNames() override;
  llvm::SmallVector<GroupAttr> ruleGroups(MLIRContext *context) override;

private:
  bool isFamily(llvm::StringRef name) const { return form.family == name; }
  bool isDeepseek() const { return form.family.starts_with("deepseek"); }
  bool isQwen() const { return form.family.starts_with("qwen"); }
  void readLeftOut(ConfigReader &config);
  void readBiases(ConfigReader &config);
  void readPlacement(ConfigReader &config);
  void readDropouts(ConfigReader &config);
  void readFactors(ConfigReader &config);
  void readChunks(ConfigReader &config);
  void readPadding(ConfigReader &config);
  void readWindow(ConfigReader &config);
  void readHeads(ConfigReader &config);
  void readPositions(ConfigReader &config, const ImportOptions &options);
  void checkSizes(ConfigReader &config, const ImportOptions &options);
  Value embed(LayerBuilder &b, Value table);
  Value addPositions(LayerBuilder &b, Value x);
  /// What layers hand on, and what each run of layers with experts says: the
  /// sum of its auxiliary losses, or its logits.
  struct Flow {
    Value x;
    llvm::SmallVector<Value> auxSums, auxLogits;
  };
  void denseLayers(LayerBuilder &b, const LayerRun &run, Flow &flow);
  void mixtureLayers(LayerBuilder &b, const LayerRun &run, Flow &flow);
  Value headBias(LayerBuilder &b);
  /// Null when there is none.
  Value auxLoss(LayerBuilder &b, const Flow &flow);

  const DecoderForm &form;
  DecoderConfig c;
};
} // namespace

//===----------------------------------------------------------------------===//
// Config
//===----------------------------------------------------------------------===//

void DecoderImporter::read(ConfigReader &config, const ImportOptions &options) {
  c.vocab = config.integer("vocab_size", form.vocab);
  c.hidden = config.integer("hidden_size", form.hidden);
  c.inner = config.integer(form.innerField, form.inner);
  c.layers = config.integer("num_hidden_layers", form.layers, kLayerRange);
  c.eps = config.knows(form.epsField) ? config.real(form.epsField, form.eps)
                                      : form.eps;
  c.rawStd = config.real(form.stdField, form.std);
  c.std = c.rawStd == 0 ? 0.02 : c.rawStd;
  c.act = readActivation(config, form.activationField, form.activation);
  // The name that published configs have for its approximation.
  if (isFamily("gemma") && c.act == Activation::GeluExact)
    c.act = Activation::GeluTanh;
  c.isTied = config.boolean("tie_word_embeddings", form.isTied);
  readBiases(config);
  readPlacement(config);
  readDropouts(config);
  readFactors(config);
  readWindow(config);
  if (isDeepseek())
    readLatents(config, c);
  else
    readHeads(config);
  if (isDeepseek() || isFamily("glm4_moe") || isFamily("minimax_m2") ||
      isFamily("ernie4_5_moe"))
    readLeftOut(config);
  readPositions(config, options);
  readPadding(config);
  readChunks(config);
  if (isFamily("mixtral"))
    c.experts = mixtralExperts(config, c.inner);
  if (isFamily("minimax_m2"))
    c.experts = minimaxExperts(config, options, c.inner);
  if (isFamily("ernie4_5_moe"))
    c.experts = ernieExperts(config, options);
  if (isFamily("hunyuan_v1_moe"))
    c.experts = hunyuanExperts(config, c.inner);
  if (isFamily("granitemoe"))
    c.experts = graniteExperts(config, c.inner);
  if (isFamily("qwen2_moe") || isFamily("qwen3_moe") || isFamily("olmoe"))
    c.experts = qwenExperts(config, form.family, c.inner);
  if (isFamily("deepseek_v3") || isFamily("glm4_moe") || isFamily("dots1"))
    c.experts = deepseekExperts(config, options, form.family);
  if (isFamily("deepseek_v2"))
    c.experts = deepseekV2Experts(config);
  if (isFamily("gpt_oss"))
    c.experts = gptOssExperts(config, c.inner);
  if (isFamily("llama4_text"))
    c.experts = llama4Experts(config);
  if (c.experts)
    readRouting(config, options, *c.experts);
  readLayerRuns(config, form.family, options.seq, c);
  if (!config.failed())
    checkSizes(config, options);
}

/// What a published config has and the model here has not.
void DecoderImporter::readLeftOut(ConfigReader &config) {
  constexpr llvm::StringLiteral modules = "num_nextn_predict_layers";
  constexpr llvm::StringLiteral stored = "quantization_config";
  if (config.integer(modules, 0, {0}) > 0)
    config.warning(modules)
        << "modules that predict further tokens ('" << modules
        << "') are left out: the model is trained on the next token alone";
  const json::Value *quantization = config.findNonNull(stored);
  if (!quantization || (quantization->kind == json::Kind::Object &&
                        quantization->object.empty()))
    return;
  const json::Value *method = quantization->kind == json::Kind::Object
                                  ? quantization->find("quant_method")
                                  : nullptr;
  if (!method || method->kind != json::Kind::String ||
      method->string != "fp8") {
    config.error(stored) << "unsupported field '" << stored
                         << "': expected null, {} or 'quant_method' \"fp8\"";
    return;
  }
  config.warning(stored)
      << "weights of the published checkpoint are in fp8 ('" << stored
      << "'), those of training are not: to start from it, convert it to bf16 "
         "first";
}

void DecoderImporter::readBiases(ConfigReader &config) {
  auto isAny = [&](std::initializer_list<llvm::StringRef> families) {
    return llvm::is_contained(families, form.family);
  };
  if (isAny({"llama", "granite", "nemotron", "smollm3", "arcee", "seed_oss"}))
    c.hasMlpBias = config.boolean("mlp_bias", false);
  if (isAny({"llama",         "deepseek_v3", "qwen3",
             "qwen3_moe",     "granite",     "nemotron",
             "smollm3",       "olmo2",       "olmo3",
             "gemma",         "gemma3_text", "gemma2",
             "cohere",        "cohere2",     "arcee",
             "deepseek_v2",   "llama4_text", "dots1",
             "olmoe",         "granitemoe",  "hunyuan_v1_dense",
             "hunyuan_v1_moe"}))
    c.hasInputBias = c.hasOutputBias = config.boolean("attention_bias", false);
  if (isAny({"glm", "glm4", "seed_oss"}))
    c.hasInputBias = config.boolean("attention_bias", true);
  if (isFamily("glm4_moe"))
    c.hasInputBias = config.boolean("attention_bias", false);
  if (isFamily("qwen2_moe"))
    c.hasInputBias = config.boolean("qkv_bias", true);
  if (isFamily("seed_oss"))
    c.hasOutputBias = config.boolean("attention_out_bias", false);
  c.hasHeadBias = form.hasHeadBias;
  if (isAny({"ernie4_5", "ernie4_5_moe"}))
    c.hasInputBias = c.hasOutputBias = c.hasMlpBias =
        config.boolean("use_bias", false);
  if (isFamily("ernie4_5_moe"))
    c.hasHeadBias = c.hasMlpBias;
  if (isFamily("qwen2"))
    c.hasInputBias = true;
  if (isFamily("phi"))
    c.hasInputBias = c.hasOutputBias = c.hasMlpBias = true;
  if (isFamily("opt"))
    c.hasInputBias = c.hasOutputBias = c.hasMlpBias =
        config.boolean("enable_bias", true);
  if (isFamily("gpt_oss"))
    c.hasInputBias = c.hasOutputBias = config.boolean("attention_bias", true);
  if (isFamily("stablelm"))
    c.hasInputBias = config.boolean("use_qkv_bias", false);
  if (isFamily("starcoder2"))
    c.hasInputBias = c.hasOutputBias = c.hasMlpBias =
        config.boolean("use_bias", true);
  if (isFamily("gpt_neox")) {
    c.hasInputBias = c.hasOutputBias = config.boolean("attention_bias", true);
    c.hasMlpBias = true;
  }
}

void DecoderImporter::readPlacement(ConfigReader &config) {
  constexpr llvm::StringLiteral field = "use_parallel_residual";
  c.placement = form.placement;
  if (isFamily("gpt_neox") && !config.boolean(field, true))
    c.placement = Placement::Before;
  if (isFamily("stablelm") && config.boolean(field, false))
    c.placement = Placement::Parallel;
}

void DecoderImporter::readDropouts(ConfigReader &config) {
  auto rate = [&](llvm::StringRef field, double absent = 0) {
    return config.real(field, absent, kRateRange);
  };
  c.dropout = rate("attention_dropout", form.attentionDropout);
  if (isFamily("seed_oss"))
    c.attentionOutputDropout = c.mlpDropout = rate("residual_dropout", 0.1);
  if (isFamily("phi3") || isFamily("phi"))
    c.attentionOutputDropout = c.mlpDropout = rate("resid_pdrop");
  if (isFamily("phi"))
    c.embeddingDropout = rate("embd_pdrop");
  if (isFamily("opt"))
    c.attentionOutputDropout = c.mlpDropout = rate("dropout", 0.1);
  if (isFamily("starcoder2")) {
    c.attentionOutputDropout = c.mlpDropout = rate("residual_dropout");
    c.embeddingDropout = rate("embedding_dropout");
  }
  if (isFamily("gpt_neox"))
    c.embeddingDropout = c.attentionOutputDropout = c.mlpDropout =
        rate("hidden_dropout");
  if (isFamily("stablelm"))
    c.mlpDropout = rate("hidden_dropout");
}

void DecoderImporter::readFactors(ConfigReader &config) {
  constexpr RealRange above{0.0, RealRange().end, true};
  if (form.scalesEmbedding)
    c.embeddingScale = std::sqrt(c.hidden);
  auto cap = [&](llvm::StringRef field, double absent) {
    return config.find(field) && !config.findNonNull(field)
               ? std::nullopt
               : std::optional<double>(config.real(field, absent, above));
  };
  if (isFamily("gemma2")) {
    c.scoreCap = cap("attn_logit_softcapping", 50);
    c.logitCap = cap("final_logit_softcapping", 30);
  }
  if (isFamily("gemma2") || isFamily("gemma3_text"))
    c.scoreScale = 1 / std::sqrt(config.integer("query_pre_attn_scalar", 256));
  if (isFamily("cohere") || isFamily("cohere2"))
    c.logitScale = config.real("logit_scale", 0.0625, above);
  if (!form.family.starts_with("granite"))
    return;
  c.embeddingScale = config.real("embedding_multiplier", 1.0, above);
  c.residualScale = config.real("residual_multiplier", 1.0, above);
  c.logitScale = 1 / config.real("logits_scaling", 1.0, above);
  c.scoreScale = config.real("attention_multiplier", 1.0, above);
}

/// What attention of llama4 has.
void DecoderImporter::readChunks(ConfigReader &config) {
  if (!isFamily("llama4_text"))
    return;
  c.chunk = config.optionalInteger("attention_chunk_size", 8192);
  c.normalizesTurned = config.boolean("use_qk_norm", true);
  if (config.boolean("attn_temperature_tuning", true))
    c.temperature = {double(config.integer("floor_scale", 8192)),
                     config.real("attn_scale", 0.1)};
}

/// The token whose embedding gets no gradient.
void DecoderImporter::readPadding(ConfigReader &config) {
  constexpr llvm::StringLiteral field = "pad_token_id";
  if (isFamily("gpt_neox"))
    return;
  // A negative index counts from the end.
  c.padToken =
      config.optionalInteger(field, form.padToken, {-c.vocab, c.vocab - 1});
  if (!config.failed() && c.padToken && *c.padToken >= c.vocab)
    config.valueError(field) << "expected '" << field << "' below 'vocab_size' "
                             << c.vocab << ", found " << *c.padToken;
  if (c.padToken && *c.padToken < 0)
    *c.padToken += c.vocab;
}

void DecoderImporter::readWindow(ConfigReader &config) {
  auto isAny = [&](std::initializer_list<llvm::StringRef> families) {
    return llvm::is_contained(families, form.family);
  };
  // Layers of these have it whatever the config says of the others.
  if (isAny({"gemma3_text", "olmo3"}))
    c.window = config.integer("sliding_window", *form.window);
  if (!isQwen() && !isAny({"mistral", "mixtral", "phi3", "starcoder2",
                           "cohere2", "exaone4", "gemma2", "gpt_oss", "dots1"}))
    return;
  c.window = config.optionalInteger("sliding_window", form.window);
  if (isQwen() && !config.boolean("use_sliding_window", false))
    c.window = std::nullopt;
}

void DecoderImporter::readHeads(ConfigReader &config) {
  c.headNorms = form.headNorms;
  if (isFamily("glm4_moe") && config.boolean("use_qk_norm", false))
    c.headNorms = HeadNorms::EachHead;
  c.heads = config.integer("num_attention_heads", form.heads);
  c.kvHeads = config.optionalInteger("num_key_value_heads", form.kvHeads)
                  .value_or(c.heads);
  // Where the library divides by it, null is no number.
  std::optional<int64_t> headDim =
      isQwen() && config.find("head_dim")
          ? config.integer("head_dim", 1)
          : config.optionalInteger("head_dim", form.headDim);
  c.headDim = headDim.value_or(std::max<int64_t>(c.hidden / c.heads, 1));
  if (config.failed())
    return;
  // The library checks this for llama even where it does not use the quotient.
  if ((!headDim || isFamily("llama")) && c.hidden % c.heads != 0)
    config.valueError("num_attention_heads")
        << "expected 'num_attention_heads' to divide 'hidden_size' " << c.hidden
        << ", found " << c.heads;
  else if (!form.rotatedPart && c.headDim % 2 != 0)
    config.valueError(headDim ? "head_dim" : "num_attention_heads")
        << "expected an even head size, as rotary positions turn pairs, found "
        << c.headDim;
  if (c.heads % c.kvHeads != 0)
    config.valueError("num_key_value_heads")
        << "expected 'num_key_value_heads' to divide 'num_attention_heads' "
        << c.heads << ", found " << c.kvHeads;
}

void DecoderImporter::readPositions(ConfigReader &config,
                                    const ImportOptions &options) {
  int64_t longest =
      config.integer("max_position_embeddings", form.maxPositions);
  if (form.firstPosition) {
    if (options.seq > longest)
      config.error("max_position_embeddings")
          << "sequences of " << options.seq << " tokens are longer than the "
          << longest << " learned positions ('max_position_embeddings')";
    c.positions = longest + *form.firstPosition;
    return;
  }
  if (form.windowTheta) {
    Ropes ropes = readRopes(config, form, {longest, options.seq}, c.headDim);
    c.rope = ropes.full;
    c.windowRope = ropes.window;
  } else {
    c.rope = readRope(config, form, {longest, options.seq},
                      c.latents ? c.latents->rotated : c.headDim);
  }
  if (options.seq > longest)
    config.warning("max_position_embeddings")
        << "sequences of " << options.seq << " tokens are longer than the "
        << longest << " the model is made for ('max_position_embeddings')";
}

void DecoderImporter::checkSizes(ConfigReader &config,
                                 const ImportOptions &options) {
  int64_t b = options.batch, s = options.seq;
  checkParameterSize(config, "vocab_size", "the embedding",
                     {c.vocab, c.hidden});
  checkParameterSize(config, "num_attention_heads", "'q_proj.weight'",
                     {c.heads * c.headDim, c.hidden});
  checkActivationSize(config, "hidden_size", "the activations",
                      {b, s, c.hidden});
  checkActivationSize(config, "num_attention_heads", "the queries",
                      {b, s, c.heads * c.headDim});
  checkActivationSize(config, "vocab_size", "the logits", {b, s, c.vocab});
  if (c.latents)
    checkLatents(config, c, options);
  if (c.experts)
    checkExperts(config, c, options);
  if (c.expertLayers() == c.layers)
    return;
  checkParameterSize(config, form.innerField, "'up_proj.weight'",
                     {c.inner, c.hidden});
  checkActivationSize(config, form.innerField, "the activations",
                      {b, s, c.inner});
}

llvm::SmallVector<llvm::StringRef> DecoderImporter::vectorNames() {
  bool hasNormBias =
      form.norm == NormForm::Layer || form.norm == NormForm::LayerPlusOne;
  llvm::SmallVector<llvm::StringRef> names = {"*norm.weight"};
  if (c.hasInputBias || c.hasMlpBias || hasNormBias ||
      (c.experts && c.experts->clamped))
    names.insert(names.begin(), "*.bias");
  if (form.hasSinks)
    names.push_back("*.sinks");
  return names;
}

llvm::SmallVector<GroupAttr> DecoderImporter::ruleGroups(MLIRContext *context) {
  if (!c.experts || !c.experts->balance || c.experts->balance->rate == 0)
    return {};
  auto rule = BalanceAttr::get(context, c.experts->balance->rate,
                               c.experts->balance->load);
  return {GroupAttr::get(context, "*.e_score_correction_bias",
                         /*weight_decay=*/0.0, /*rate_scale=*/1.0, rule)};
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// x + a row of the learned table for each position.
Value DecoderImporter::addPositions(LayerBuilder &b, Value x) {
  OpBuilder &builder = b.getBuilder();
  std::string module = form.names.model.str() + ".embed_positions";
  b.enter(module, "max_position_embeddings");
  PlainBuilder p = b.plain();
  llvm::SmallVector<int64_t> shape(typeOf(x).getShape());
  Value ids = b.input("positions");
  bool isPacked = static_cast<bool>(ids);
  if (!isPacked)
    ids = p.iota({shape[1]}, 0);
  ids = p.add(ids, static_cast<double>(*form.firstPosition));
  Value table = b.weight(module + ".weight", {c.positions, c.hidden}, c.std);
  Value y = EmbeddingOp::create(builder, b.getLoc(), ids, table,
                                /*offset=*/Value(), /*padding=*/IntegerAttr());
  return p.add(x, isPacked ? y : p.columns(y, shape));
}

Value DecoderImporter::embed(LayerBuilder &b, Value table) {
  OpBuilder &builder = b.getBuilder();
  IntegerAttr padding;
  if (c.padToken)
    padding = builder.getI64IntegerAttr(*c.padToken);
  Value x = EmbeddingOp::create(builder, b.getLoc(), b.input("tokens"), table,
                                /*offset=*/Value(), padding);
  if (c.embeddingScale != 1)
    x = b.plain().mul(x, c.embeddingScale);
  if (form.firstPosition)
    x = addPositions(b, x);
  return b.dropout(x, form.names.model.str() + ".embedding_dropout",
                   c.embeddingDropout);
}

void DecoderImporter::denseLayers(LayerBuilder &b, const LayerRun &run,
                                  Flow &flow) {
  auto body = [&](ValueRange carried) -> llvm::SmallVector<Value> {
    return {buildLayer(b, carried[0], c, run)};
  };
  flow.x = b.repeat(run.start, run.end, flow.x, {}, body).getResult(0);
}

void DecoderImporter::mixtureLayers(LayerBuilder &b, const LayerRun &run,
                                    Flow &flow) {
  const Experts &experts = *c.experts;
  llvm::SmallVector<Value, 2> inits = {flow.x};
  llvm::SmallVector<Type, 1> stacked;
  if (experts.aux == AuxLoss::Layer)
    inits.push_back(
        b.plain().constant(RankedTensorType::get({}, b.f32()), 0.0));
  if (experts.aux == AuxLoss::Global) {
    llvm::ArrayRef<int64_t> shape = typeOf(flow.x).getShape();
    stacked.push_back(
        RankedTensorType::get({shape[0], shape[1], experts.count}, b.f32()));
  }
  auto body = [&](ValueRange carried) -> llvm::SmallVector<Value> {
    Value h = addAttention(b, carried[0], c, run);
    Value norm = buildNorm(b, h, form.names.secondNorm, c);
    MixtureResult mixture = buildMixture(b, norm, c);
    llvm::SmallVector<Value> next = {addScaled(b, h, mixture.output, c)};
    if (experts.aux == AuxLoss::Layer)
      next.push_back(b.plain().add(carried[1], buildLayerAuxLoss(b, mixture)));
    if (experts.aux == AuxLoss::Global)
      next.push_back(mixture.logits);
    return next;
  };
  RepeatOp layers = b.repeat(run.start, run.end, inits, stacked, body);
  flow.x = layers.getResult(0);
  if (experts.aux == AuxLoss::Layer)
    flow.auxSums.push_back(layers.getResult(1));
  if (experts.aux == AuxLoss::Global)
    flow.auxLogits.push_back(layers.getResult(1));
}

Value DecoderImporter::auxLoss(LayerBuilder &b, const Flow &flow) {
  b.enter("model.aux_loss", "router_aux_loss_coef");
  if (!flow.auxSums.empty()) {
    Value sum = flow.auxSums.front();
    for (Value other : llvm::drop_begin(flow.auxSums))
      sum = b.plain().add(sum, other);
    return b.plain().mul(
        sum, 1.0 / (c.expertLayers() * typeOf(flow.x).getDimSize(0)));
  }
  if (!flow.auxLogits.empty())
    return buildGlobalAuxLoss(b, flow.auxLogits, *c.experts);
  return Value();
}

/// Of an output layer whose weight is the embedding; null: none.
Value DecoderImporter::headBias(LayerBuilder &b) {
  return c.hasHeadBias ? b.zeros(form.names.head.str() + ".bias", c.vocab)
                       : Value();
}

void DecoderImporter::build(LayerBuilder &b) {
  const ModuleNames &names = form.names;
  std::string model = names.model.str() + ".";
  b.enter(model + names.embedding, "vocab_size");
  Value table =
      b.weight(model + names.embedding + ".weight", {c.vocab, c.hidden}, c.std);
  Flow flow;
  flow.x = embed(b, table);
  for (const LayerRun &run : c.runs) {
    b.enter(model + "layers", "num_hidden_layers");
    if (run.hasExperts)
      mixtureLayers(b, run, flow);
    else
      denseLayers(b, run, flow);
  }
  Value aux = auxLoss(b, flow);
  b.enter(model + names.lastNorm, form.epsField);
  Value x = b.norm(form.norm, flow.x, model + names.lastNorm, c.eps);
  b.enter(names.head, "vocab_size");
  Value logits =
      c.isTied ? Value(LinearOp::create(b.getBuilder(), b.getLoc(), x, table,
                                        headBias(b), /*transposed=*/UnitAttr()))
               : b.linear(x, names.head, {c.vocab, c.std, c.hasHeadBias});
  if (c.logitScale != 1)
    logits = b.plain().mul(logits, c.logitScale);
  if (c.logitCap)
    logits = b.plain().mul(
        b.plain().tanh(b.plain().mul(logits, 1 / *c.logitCap)), *c.logitCap);
  b.finish(logits, aux, c.experts ? c.experts->auxCoefficient : 0.0);
}

std::unique_ptr<Importer> kerf::makeDecoderImporter(llvm::StringRef family) {
  return std::make_unique<DecoderImporter>(formOf(family));
}
