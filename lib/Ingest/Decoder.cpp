//===- Decoder.cpp - LlamaForCausalLM and its relatives -------------------===//
//
// Pre-norm layers with rotary positions, grouped-query or latent attention
// (deepseek_v3) and a gated MLP (llama, mistral, qwen2, qwen3) or a mixture of
// experts (mixtral, qwen3_moe, deepseek_v3).
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

namespace {
/// Defaults that differ between the library's config classes.
struct Defaults {
  llvm::StringLiteral family;
  int64_t vocab, hidden, inner, layers;
  /// Absent: as many as attention heads.
  std::optional<int64_t> kvHeads;
  /// Absent: hidden size divided by attention heads.
  std::optional<int64_t> headDim;
  int64_t maxPositions;
  double eps;
  double theta;
  std::optional<int64_t> window;
};

class DecoderImporter : public Importer {
public:
  explicit DecoderImporter(const Defaults &defaults) : defaults(defaults) {}
  void read(ConfigReader &config, const ImportOptions &options) override;
  void build(LayerBuilder &b) override;
  llvm::SmallVector<llvm::StringRef> vectorNames() override;
  llvm::SmallVector<GroupAttr> ruleGroups(MLIRContext *context) override;

private:
  bool isFamily(llvm::StringRef name) const { return defaults.family == name; }
  bool isQwen() const { return defaults.family.starts_with("qwen"); }
  void readLeftOut(ConfigReader &config);
  void readBiases(ConfigReader &config);
  void readWindow(ConfigReader &config);
  void readHeads(ConfigReader &config);
  void readPositions(ConfigReader &config, const ImportOptions &options);
  void checkSizes(ConfigReader &config, const ImportOptions &options);
  Value embed(LayerBuilder &b, Value table);
  Value attend(LayerBuilder &b, Value x, bool hasWindow);
  Heads project(LayerBuilder &b, Value norm);
  Value mlp(LayerBuilder &b, Value x);
  /// What layers hand on, and what each run of layers with experts says: the
  /// sum of its auxiliary losses, or its logits.
  struct Flow {
    Value x;
    llvm::SmallVector<Value> auxSums, auxLogits;
  };
  void denseLayers(LayerBuilder &b, const LayerRun &run, Flow &flow);
  void mixtureLayers(LayerBuilder &b, const LayerRun &run, Flow &flow);
  /// Null when there is none.
  Value auxLoss(LayerBuilder &b, const Flow &flow);

  const Defaults &defaults;
  DecoderConfig c;
};
} // namespace

static constexpr std::nullopt_t kNone = std::nullopt;
static constexpr Defaults kDefaults[] = {
    {"deepseek_v3", 129280, 7168, 18432, 61, kNone, kNone, 4096, 1e-6, 1e4,
     kNone},
    {"llama", 32000, 4096, 11008, 32, kNone, kNone, 2048, 1e-6, 1e4, kNone},
    {"mistral", 32000, 4096, 14336, 32, 8, kNone, 131072, 1e-6, 1e4, 4096},
    {"mixtral", 32000, 4096, 14336, 32, 8, kNone, 131072, 1e-5, 1e6, kNone},
    {"qwen2", 151936, 4096, 22016, 32, 32, kNone, 32768, 1e-6, 1e4, 4096},
    {"qwen3", 151936, 4096, 22016, 32, 32, 128, 32768, 1e-6, 1e4, 4096},
    {"qwen3_moe", 151936, 2048, 6144, 24, 4, kNone, 32768, 1e-6, 1e4, 4096},
};

//===----------------------------------------------------------------------===//
// Config
//===----------------------------------------------------------------------===//

void DecoderImporter::read(ConfigReader &config, const ImportOptions &options) {
  c.vocab = config.integer("vocab_size", defaults.vocab);
  c.hidden = config.integer("hidden_size", defaults.hidden);
  c.inner = config.integer("intermediate_size", defaults.inner);
  c.layers = config.integer("num_hidden_layers", defaults.layers, kLayerRange);
  c.eps = config.real("rms_norm_eps", defaults.eps);
  c.rawStd = config.real("initializer_range", 0.02);
  c.std = c.rawStd == 0 ? 0.02 : c.rawStd;
  c.dropout = config.real("attention_dropout", 0.0, kRateRange);
  c.act = readActivation(config, "hidden_act", "silu");
  c.isTied = config.boolean("tie_word_embeddings", false);
  c.hasHeadNorms = isFamily("qwen3") || isFamily("qwen3_moe");
  readBiases(config);
  readWindow(config);
  if (isFamily("deepseek_v3")) {
    readLatents(config, c);
    readLeftOut(config);
  } else {
    readHeads(config);
  }
  readPositions(config, options);
  // A negative index counts from the end.
  c.padToken = config.optionalInteger("pad_token_id", std::nullopt,
                                      {-c.vocab, c.vocab - 1});
  if (c.padToken && *c.padToken < 0)
    *c.padToken += c.vocab;
  if (isFamily("mixtral"))
    c.experts = mixtralExperts(config, c.inner);
  if (isFamily("qwen3_moe"))
    c.experts = qwenExperts(config);
  if (isFamily("deepseek_v3"))
    c.experts = deepseekExperts(config, options);
  if (c.experts)
    readRouting(config, options, *c.experts);
  readLayerRuns(config, defaults.family, options.seq, c);
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
  if (isFamily("llama"))
    c.hasMlpBias = config.boolean("mlp_bias", false);
  if (isFamily("llama") || isFamily("deepseek_v3") || c.hasHeadNorms)
    c.hasInputBias = c.hasOutputBias = config.boolean("attention_bias", false);
  if (isFamily("qwen2"))
    c.hasInputBias = true;
}

void DecoderImporter::readWindow(ConfigReader &config) {
  if (isFamily("llama") || isFamily("deepseek_v3"))
    return;
  c.window = config.optionalInteger("sliding_window", defaults.window);
  if (isQwen() && !config.boolean("use_sliding_window", false))
    c.window = std::nullopt;
}

void DecoderImporter::readHeads(ConfigReader &config) {
  c.heads = config.integer("num_attention_heads", 32);
  c.kvHeads = config.optionalInteger("num_key_value_heads", defaults.kvHeads)
                  .value_or(c.heads);
  // Where the library divides by it, null is no number.
  std::optional<int64_t> headDim =
      isQwen() && config.find("head_dim")
          ? config.integer("head_dim", 1)
          : config.optionalInteger("head_dim", defaults.headDim);
  c.headDim = headDim.value_or(std::max<int64_t>(c.hidden / c.heads, 1));
  if (config.failed())
    return;
  // The library checks this for llama even where it does not use the quotient.
  if ((!headDim || isFamily("llama")) && c.hidden % c.heads != 0)
    config.valueError("num_attention_heads")
        << "expected 'num_attention_heads' to divide 'hidden_size' " << c.hidden
        << ", found " << c.heads;
  else if (c.headDim % 2 != 0)
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
      config.integer("max_position_embeddings", defaults.maxPositions);
  c.rope = readRope(config, defaults.theta, longest,
                    c.latents ? c.latents->rotated : c.headDim);
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
  checkParameterSize(config, "intermediate_size", "'up_proj.weight'",
                     {c.inner, c.hidden});
  checkActivationSize(config, "intermediate_size", "the activations",
                      {b, s, c.inner});
}

llvm::SmallVector<llvm::StringRef> DecoderImporter::vectorNames() {
  if (c.hasInputBias || c.hasMlpBias)
    return {"*.bias", "*norm.weight"};
  return {"*norm.weight"};
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

Value DecoderImporter::embed(LayerBuilder &b, Value table) {
  OpBuilder &builder = b.getBuilder();
  IntegerAttr padding;
  if (c.padToken)
    padding = builder.getI64IntegerAttr(*c.padToken);
  return EmbeddingOp::create(builder, b.getLoc(), b.input("tokens"), table,
                             /*offset=*/Value(), padding);
}

Value kerf::buildRotation(LayerBuilder &b, Value x, const DecoderConfig &c) {
  OpBuilder &builder = b.getBuilder();
  bool isInterleaved = c.latents && c.latents->isInterleaved;
  return RopeOp::create(builder, b.getLoc(), x, b.input("positions"),
                        /*offset=*/Value(),
                        builder.getF64FloatAttr(c.rope.theta), c.rope.scaling,
                        /*inverse=*/UnitAttr(), /*zigzag=*/ZigzagAttr(),
                        isInterleaved ? builder.getUnitAttr() : UnitAttr());
}

Heads DecoderImporter::project(LayerBuilder &b, Value norm) {
  auto project = [&](llvm::StringRef name, int64_t heads) {
    Value y = b.linear(norm, "model.layers.{i}.self_attn." + name,
                       {heads * c.headDim, c.std, c.hasInputBias});
    return b.splitHeads(y, heads);
  };
  auto normalize = [&](Value heads, llvm::StringRef name) {
    return b.rmsNorm(heads, "model.layers.{i}.self_attn." + name, c.eps);
  };
  Value q = project("q_proj", c.heads);
  Value k = project("k_proj", c.kvHeads);
  Value v = project("v_proj", c.kvHeads);
  if (c.hasHeadNorms) {
    q = normalize(q, "q_norm");
    k = normalize(k, "k_norm");
  }
  return {buildRotation(b, q, c), buildRotation(b, k, c), v};
}

Value DecoderImporter::attend(LayerBuilder &b, Value x, bool hasWindow) {
  constexpr llvm::StringLiteral module = "model.layers.self_attn";
  b.enter("model.layers.input_layernorm", "rms_norm_eps");
  Value norm = b.rmsNorm(x, "model.layers.{i}.input_layernorm", c.eps);
  b.enter(module, "num_attention_heads");
  auto [q, k, v] = c.latents ? buildLatentHeads(b, norm, c) : project(b, norm);
  AttentionForm form;
  if (hasWindow)
    form.window = c.window;
  if (c.latents && c.rope.scoreScale != 1)
    form.scale = c.rope.scoreScale / std::sqrt(c.headDim);
  form.dropout = c.dropout;
  Value y = b.joinHeads(b.attention(q, k, v, module, form));
  y = b.linear(y, "model.layers.{i}.self_attn.o_proj",
               {c.hidden, c.std, c.hasOutputBias});
  return b.plain().add(x, y);
}

Value DecoderImporter::mlp(LayerBuilder &b, Value x) {
  b.enter("model.layers.post_attention_layernorm", "rms_norm_eps");
  Value norm = b.rmsNorm(x, "model.layers.{i}.post_attention_layernorm", c.eps);
  b.enter("model.layers.mlp", "intermediate_size");
  Value y = b.gatedMlp(norm, "model.layers.{i}.mlp", c.act,
                       {c.inner, c.std, c.hasMlpBias});
  return b.plain().add(x, y);
}

void DecoderImporter::denseLayers(LayerBuilder &b, const LayerRun &run,
                                  Flow &flow) {
  auto body = [&](ValueRange carried) -> llvm::SmallVector<Value> {
    return {mlp(b, attend(b, carried[0], run.hasWindow))};
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
    Value h = attend(b, carried[0], run.hasWindow);
    b.enter("model.layers.post_attention_layernorm", "rms_norm_eps");
    Value norm =
        b.rmsNorm(h, "model.layers.{i}.post_attention_layernorm", c.eps);
    MixtureResult mixture = buildMixture(b, norm, c);
    llvm::SmallVector<Value> next = {b.plain().add(h, mixture.output)};
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

void DecoderImporter::build(LayerBuilder &b) {
  b.enter("model.embed_tokens", "vocab_size");
  Value table =
      b.weight("model.embed_tokens.weight", {c.vocab, c.hidden}, c.std);
  Flow flow;
  flow.x = embed(b, table);
  for (const LayerRun &run : c.runs) {
    b.enter("model.layers", "num_hidden_layers");
    if (run.hasExperts)
      mixtureLayers(b, run, flow);
    else
      denseLayers(b, run, flow);
  }
  Value aux = auxLoss(b, flow);
  b.enter("model.norm", "rms_norm_eps");
  Value x = b.rmsNorm(flow.x, "model.norm", c.eps);
  b.enter("lm_head", "vocab_size");
  Value logits = c.isTied ? Value(LinearOp::create(b.getBuilder(), b.getLoc(),
                                                   x, table, /*bias=*/Value(),
                                                   /*transposed=*/UnitAttr()))
                          : b.linear(x, "lm_head", {c.vocab, c.std});
  b.finish(logits, aux, c.experts ? c.experts->auxCoefficient : 0.0);
}

std::unique_ptr<Importer> kerf::makeDecoderImporter(llvm::StringRef family) {
  for (const Defaults &defaults : kDefaults)
    if (defaults.family == family)
      return std::make_unique<DecoderImporter>(defaults);
  llvm_unreachable("no defaults for this family");
}
