//===- Gpt2.cpp - GPT2LMHeadModel -----------------------------------------===//
//
// Pre-norm layers with learned positions, fused query-key-value projection and
// weights stored [inputs, outputs].
//
//===----------------------------------------------------------------------===//

#include "Families.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

namespace {
class Gpt2Importer : public Importer {
public:
  void read(ConfigReader &config, const ImportOptions &options) override;
  void build(LayerBuilder &b) override;
  llvm::SmallVector<llvm::StringRef> vectorNames() override {
    return {"*.bias", "*.ln_?.weight"};
  }

private:
  void check(ConfigReader &config, const ImportOptions &options);
  Value embed(LayerBuilder &b, Value table);
  Value attend(LayerBuilder &b, Value x);
  Value mlp(LayerBuilder &b, Value x);
  Value scaleByLayer(LayerBuilder &b, Value q);

  int64_t vocab, positions, hidden, inner, layers, heads;
  double residualDropout, embeddingDropout, attentionDropout;
  double eps, std;
  Activation act;
  bool scalesScores, scalesByLayer, isTied;
};
} // namespace

void Gpt2Importer::read(ConfigReader &config, const ImportOptions &options) {
  vocab = config.integer("vocab_size", 50257);
  positions = config.integer("n_positions", 1024);
  hidden = config.integer("n_embd", 768);
  layers = config.integer("n_layer", 12, kLayerRange);
  heads = config.integer("n_head", 12);
  inner = config.optionalInteger("n_inner", std::nullopt).value_or(4 * hidden);
  residualDropout = config.real("resid_pdrop", 0.1, kRateRange);
  embeddingDropout = config.real("embd_pdrop", 0.1, kRateRange);
  attentionDropout = config.real("attn_pdrop", 0.1, kRateRange);
  eps = config.real("layer_norm_epsilon", 1e-5);
  std = config.real("initializer_range", 0.02);
  act = readActivation(config, "activation_function", "gelu_new");
  scalesScores = config.boolean("scale_attn_weights", true);
  scalesByLayer = config.boolean("scale_attn_by_inverse_layer_idx", false);
  isTied = config.boolean("tie_word_embeddings", true);
  if (!config.failed())
    check(config, options);
}

void Gpt2Importer::check(ConfigReader &config, const ImportOptions &options) {
  if (hidden % heads != 0)
    config.valueError("n_head") << "expected 'n_head' to divide 'n_embd' "
                                << hidden << ", found " << heads;
  if (options.seq > positions)
    config.error("n_positions")
        << "sequences of " << options.seq << " tokens are longer than the "
        << positions << " learned positions ('n_positions')";
  int64_t b = options.batch, s = options.seq;
  checkParameterSize(config, "vocab_size", "the embedding", {vocab, hidden});
  checkParameterSize(config, "n_embd", "'c_attn.weight'", {hidden, 3 * hidden});
  checkParameterSize(config, "n_inner", "'c_fc.weight'", {hidden, inner});
  checkActivationSize(config, "n_embd", "the activations", {b, s, 3 * hidden});
  checkActivationSize(config, "n_inner", "the activations", {b, s, inner});
  checkActivationSize(config, "vocab_size", "the logits", {b, s, vocab});
}

Value Gpt2Importer::embed(LayerBuilder &b, Value table) {
  OpBuilder &builder = b.getBuilder();
  Value x = EmbeddingOp::create(builder, b.getLoc(), b.input("tokens"), table,
                                /*offset=*/Value(), /*padding=*/IntegerAttr());
  llvm::SmallVector<int64_t> shape(typeOf(x).getShape());
  b.enter("transformer.wpe", "n_positions");
  PlainBuilder p = b.plain();
  Value ids = b.input("positions");
  bool isPacked = static_cast<bool>(ids);
  if (!isPacked)
    ids = p.iota({shape[1]}, 0);
  Value wpe = b.weight("transformer.wpe.weight", {positions, hidden},
                       std == 0 ? 0.02 : std);
  Value y = EmbeddingOp::create(builder, b.getLoc(), ids, wpe,
                                /*offset=*/Value(), /*padding=*/IntegerAttr());
  x = p.add(x, isPacked ? y : p.columns(y, shape));
  b.enter("transformer.drop", "embd_pdrop");
  return b.dropout(x, "transformer.drop", embeddingDropout);
}

/// q / (layer + 1): scores are linear in q.
Value Gpt2Importer::scaleByLayer(LayerBuilder &b, Value q) {
  PlainBuilder p = b.plain();
  Value number = p.add(p.cast(b.layerIndex(), b.f32()), 1.0);
  Value factor = p.div(1.0, number);
  return p.mul(q, p.broadcast(factor, {}, typeOf(q).getShape()));
}

Value Gpt2Importer::attend(LayerBuilder &b, Value x) {
  constexpr llvm::StringLiteral module = "transformer.h.attn";
  b.enter("transformer.h.ln_1", "layer_norm_epsilon");
  Value norm = b.layerNorm(x, "transformer.h.{i}.ln_1", eps);
  b.enter(module, "n_head");
  Value fused =
      b.linear(norm, "transformer.h.{i}.attn.c_attn",
               {3 * hidden, std, /*hasBias=*/true, /*isTransposed=*/true});
  llvm::SmallVector<int64_t> box(typeOf(x).getShape());
  auto part = [&](int64_t index) {
    Value slice = b.plain().slice(fused, {0, 0, index * hidden}, box);
    return b.splitHeads(slice, heads);
  };
  Value q = part(0), k = part(1), v = part(2);
  if (scalesByLayer)
    q = scaleByLayer(b, q);
  AttentionForm form;
  form.dropout = attentionDropout;
  if (!scalesScores)
    form.scale = 1.0;
  Value y = b.joinHeads(b.attention(q, k, v, module, form));
  y = b.linear(y, "transformer.h.{i}.attn.c_proj",
               {hidden, std / std::sqrt(2.0 * layers), true, true});
  y = b.dropout(y, "transformer.h.attn.resid_dropout", residualDropout);
  return b.plain().add(x, y);
}

Value Gpt2Importer::mlp(LayerBuilder &b, Value x) {
  b.enter("transformer.h.ln_2", "layer_norm_epsilon");
  Value norm = b.layerNorm(x, "transformer.h.{i}.ln_2", eps);
  b.enter("transformer.h.mlp", "n_inner");
  Value y = b.linear(norm, "transformer.h.{i}.mlp.c_fc",
                     {inner, std, /*hasBias=*/true, /*isTransposed=*/true});
  y = b.activation(act, y);
  y = b.linear(y, "transformer.h.{i}.mlp.c_proj",
               {hidden, std / std::sqrt(2.0 * layers), true, true});
  y = b.dropout(y, "transformer.h.mlp.dropout", residualDropout);
  return b.plain().add(x, y);
}

void Gpt2Importer::build(LayerBuilder &b) {
  // The library falls back to 0.02 for embeddings and heads, not for Conv1D.
  double tableStd = std == 0 ? 0.02 : std;
  b.enter("transformer.wte", "vocab_size");
  Value wte = b.weight("transformer.wte.weight", {vocab, hidden}, tableStd);
  Value x = embed(b, wte);
  b.enter("transformer.h", "n_layer");
  auto body = [&](ValueRange carried) -> llvm::SmallVector<Value> {
    return {mlp(b, attend(b, carried[0]))};
  };
  x = b.repeat(0, layers, x, {}, body).getResult(0);
  b.enter("transformer.ln_f", "layer_norm_epsilon");
  x = b.layerNorm(x, "transformer.ln_f", eps);
  b.enter("lm_head", "vocab_size");
  Value logits =
      isTied ? Value(LinearOp::create(b.getBuilder(), b.getLoc(), x, wte,
                                      /*bias=*/Value(), UnitAttr()))
             : b.linear(x, "lm_head", {vocab, tableStd});
  b.finish(logits, /*aux=*/Value(), /*coefficient=*/0.0);
}

std::unique_ptr<Importer> kerf::makeGpt2Importer() {
  return std::make_unique<Gpt2Importer>();
}
