//===- Decoder.cpp - LlamaForCausalLM and its relatives -------------------===//
//
// Pre-norm layers with rotary positions, grouped-query attention and a gated
// MLP (llama, mistral) or a mixture of experts (mixtral).
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

using namespace kerf;
using namespace mlir;

namespace {
/// Defaults that differ between the library's config classes.
struct Defaults {
  llvm::StringLiteral family;
  int64_t inner;
  /// Absent: as many as attention heads.
  std::optional<int64_t> kvHeads;
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

private:
  void readHeads(ConfigReader &config);
  void readPositions(ConfigReader &config, const ImportOptions &options);
  void checkSizes(ConfigReader &config, const ImportOptions &options);
  Value embed(LayerBuilder &b, Value table);
  Value attend(LayerBuilder &b, Value x);
  Value rotate(LayerBuilder &b, Value x);
  Value mlp(LayerBuilder &b, Value x);
  /// Both build the layers; the second gives the auxiliary loss too.
  Value denseLayers(LayerBuilder &b, Value x);
  std::pair<Value, Value> mixtureLayers(LayerBuilder &b, Value x);

  const Defaults &defaults;
  DecoderConfig c;
};
} // namespace

static constexpr Defaults kDefaults[] = {
    {"llama", 11008, std::nullopt, 2048, 1e-6, 10000.0, std::nullopt},
    {"mistral", 14336, 8, 131072, 1e-6, 10000.0, 4096},
    {"mixtral", 14336, 8, 131072, 1e-5, 1000000.0, std::nullopt},
};

//===----------------------------------------------------------------------===//
// Config
//===----------------------------------------------------------------------===//

void DecoderImporter::read(ConfigReader &config, const ImportOptions &options) {
  c.vocab = config.integer("vocab_size", 32000);
  c.hidden = config.integer("hidden_size", 4096);
  c.inner = config.integer("intermediate_size", defaults.inner);
  c.layers = config.integer("num_hidden_layers", 32, kLayerRange);
  c.eps = config.real("rms_norm_eps", defaults.eps);
  c.rawStd = config.real("initializer_range", 0.02);
  c.std = c.rawStd == 0 ? 0.02 : c.rawStd;
  c.dropout = config.real("attention_dropout", 0.0, kRateRange);
  c.act = readActivation(config, "hidden_act", "silu");
  c.isTied = config.boolean("tie_word_embeddings", false);
  if (defaults.family == "llama") {
    c.hasAttentionBias = config.boolean("attention_bias", false);
    c.hasMlpBias = config.boolean("mlp_bias", false);
  } else {
    c.window = config.optionalInteger("sliding_window", defaults.window);
  }
  readHeads(config);
  readPositions(config, options);
  // A negative index counts from the end.
  c.padToken = config.optionalInteger("pad_token_id", std::nullopt,
                                      {-c.vocab, c.vocab - 1});
  if (c.padToken && *c.padToken < 0)
    *c.padToken += c.vocab;
  if (defaults.family == "mixtral")
    c.experts = readExperts(config, options);
  if (!config.failed())
    checkSizes(config, options);
}

void DecoderImporter::readHeads(ConfigReader &config) {
  c.heads = config.integer("num_attention_heads", 32);
  c.kvHeads = config.optionalInteger("num_key_value_heads", defaults.kvHeads)
                  .value_or(c.heads);
  std::optional<int64_t> headDim =
      config.optionalInteger("head_dim", std::nullopt);
  c.headDim = headDim.value_or(std::max<int64_t>(c.hidden / c.heads, 1));
  if (config.failed())
    return;
  // The library checks this for llama even where it does not use the quotient.
  if ((!headDim || defaults.family == "llama") && c.hidden % c.heads != 0)
    config.error("num_attention_heads")
        << "expected 'num_attention_heads' to divide 'hidden_size' " << c.hidden
        << ", found " << c.heads;
  else if (c.headDim % 2 != 0)
    config.error(headDim ? "head_dim" : "num_attention_heads")
        << "expected an even head size, as rotary positions turn pairs, found "
        << c.headDim;
  if (c.heads % c.kvHeads != 0)
    config.error("num_key_value_heads")
        << "expected 'num_key_value_heads' to divide 'num_attention_heads' "
        << c.heads << ", found " << c.kvHeads;
}

void DecoderImporter::readPositions(ConfigReader &config,
                                    const ImportOptions &options) {
  int64_t longest =
      config.integer("max_position_embeddings", defaults.maxPositions);
  c.rope = readRope(config, defaults.theta, longest);
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
  if (c.experts)
    return checkExperts(config, c, options);
  checkParameterSize(config, "intermediate_size", "'up_proj.weight'",
                     {c.inner, c.hidden});
  checkActivationSize(config, "intermediate_size", "the activations",
                      {b, s, c.inner});
}

llvm::SmallVector<llvm::StringRef> DecoderImporter::vectorNames() {
  if (c.hasAttentionBias || c.hasMlpBias)
    return {"*.bias", "*norm.weight"};
  return {"*norm.weight"};
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

Value DecoderImporter::rotate(LayerBuilder &b, Value x) {
  OpBuilder &builder = b.getBuilder();
  return RopeOp::create(builder, b.getLoc(), x, b.input("positions"),
                        /*offset=*/Value(),
                        builder.getF64FloatAttr(c.rope.theta), c.rope.scaling,
                        /*inverse=*/UnitAttr());
}

Value DecoderImporter::attend(LayerBuilder &b, Value x) {
  constexpr llvm::StringLiteral module = "model.layers.self_attn";
  b.enter("model.layers.input_layernorm", "rms_norm_eps");
  Value norm = b.rmsNorm(x, "model.layers.{i}.input_layernorm", c.eps);
  b.enter(module, "num_attention_heads");
  auto project = [&](llvm::StringRef name, int64_t heads) {
    Value y = b.linear(norm, "model.layers.{i}.self_attn." + name,
                       {heads * c.headDim, c.std, c.hasAttentionBias});
    return b.splitHeads(y, heads);
  };
  Value q = project("q_proj", c.heads);
  Value k = project("k_proj", c.kvHeads);
  Value v = project("v_proj", c.kvHeads);
  q = rotate(b, q);
  k = rotate(b, k);
  AttentionForm form;
  form.window = c.window;
  form.dropout = c.dropout;
  Value y = b.joinHeads(b.attention(q, k, v, module, form));
  y = b.linear(y, "model.layers.{i}.self_attn.o_proj",
               {c.hidden, c.std, c.hasAttentionBias});
  return b.plain().add(x, y);
}

Value DecoderImporter::mlp(LayerBuilder &b, Value x) {
  b.enter("model.layers.post_attention_layernorm", "rms_norm_eps");
  Value norm = b.rmsNorm(x, "model.layers.{i}.post_attention_layernorm", c.eps);
  b.enter("model.layers.mlp", "intermediate_size");
  LinearForm wide = {c.inner, c.std, c.hasMlpBias};
  Value gate = b.linear(norm, "model.layers.{i}.mlp.gate_proj", wide);
  Value up = b.linear(norm, "model.layers.{i}.mlp.up_proj", wide);
  Value y = b.linear(b.gated(c.act, gate, up), "model.layers.{i}.mlp.down_proj",
                     {c.hidden, c.std, c.hasMlpBias});
  return b.plain().add(x, y);
}

Value DecoderImporter::denseLayers(LayerBuilder &b, Value x) {
  auto body = [&](ValueRange carried) -> llvm::SmallVector<Value> {
    return {mlp(b, attend(b, carried[0]))};
  };
  return b.repeat(c.layers, x, {}, body).getResult(0);
}

std::pair<Value, Value> DecoderImporter::mixtureLayers(LayerBuilder &b,
                                                       Value x) {
  const Experts &experts = *c.experts;
  PlainBuilder p = b.plain();
  llvm::SmallVector<Value, 2> inits = {x};
  llvm::SmallVector<Type, 1> stacked;
  if (experts.aux == AuxLoss::Layer)
    inits.push_back(p.constant(RankedTensorType::get({}, b.f32()), 0.0));
  if (experts.aux == AuxLoss::Global) {
    llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
    stacked.push_back(
        RankedTensorType::get({shape[0], shape[1], experts.count}, b.f32()));
  }
  auto body = [&](ValueRange carried) -> llvm::SmallVector<Value> {
    Value h = attend(b, carried[0]);
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
  RepeatOp layers = b.repeat(c.layers, inits, stacked, body);
  Value aux;
  b.enter("model.aux_loss", "router_aux_loss_coef");
  if (experts.aux == AuxLoss::Layer)
    aux = b.plain().mul(layers.getResult(1),
                        1.0 / (c.layers * typeOf(x).getDimSize(0)));
  if (experts.aux == AuxLoss::Global)
    aux = buildGlobalAuxLoss(b, layers.getResult(1), experts);
  return {layers.getResult(0), aux};
}

void DecoderImporter::build(LayerBuilder &b) {
  b.enter("model.embed_tokens", "vocab_size");
  Value table =
      b.weight("model.embed_tokens.weight", {c.vocab, c.hidden}, c.std);
  Value x = embed(b, table);
  b.enter("model.layers", "num_hidden_layers");
  Value aux;
  if (c.experts)
    std::tie(x, aux) = mixtureLayers(b, x);
  else
    x = denseLayers(b, x);
  b.enter("model.norm", "rms_norm_eps");
  x = b.rmsNorm(x, "model.norm", c.eps);
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
