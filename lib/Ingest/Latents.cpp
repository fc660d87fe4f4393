//===- Latents.cpp - Multi-head latent attention --------------------------===//
//
// deepseek_v2 and deepseek_v3 (DeepSeek-V2 report, 2.1): queries, and keys with
// values, go through latents of few channels. Channels of queries and keys are
// in two parts; only the second is rotated, and its key is one for all heads.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

using namespace kerf;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Config
//===----------------------------------------------------------------------===//

/// A field that the library computes from others; it may be stated.
static void expectValue(ConfigReader &config, llvm::StringRef field,
                        int64_t value, llvm::StringRef what) {
  std::optional<int64_t> stated = config.optionalInteger(field, value);
  if (!config.failed() && stated.value_or(value) != value)
    config.error(field) << "expected '" << field << "' to be " << what << ", "
                        << value << ", found " << *stated;
}

void kerf::readLatents(ConfigReader &config, DecoderConfig &c) {
  Latents latents;
  latents.queryRank = config.optionalInteger("q_lora_rank", 1536);
  latents.rank = config.integer("kv_lora_rank", 512);
  latents.plain = config.integer("qk_nope_head_dim", 128);
  latents.rotated = config.integer("qk_rope_head_dim", 64);
  latents.value = config.integer("v_head_dim", 128);
  latents.isInterleaved = !config.knows("rope_interleave") ||
                          config.boolean("rope_interleave", true);
  c.latents = latents;
  c.heads = c.kvHeads = config.integer("num_attention_heads", c.form->heads);
  c.headDim = latents.plain + latents.rotated;
  if (config.failed())
    return;
  if (latents.rotated % 2 != 0)
    config.error("qk_rope_head_dim")
        << "expected an even 'qk_rope_head_dim', as rotary positions turn "
           "pairs, found "
        << latents.rotated;
  expectValue(config, "num_key_value_heads", c.heads, "'num_attention_heads'");
  expectValue(config, "head_dim", latents.rotated, "'qk_rope_head_dim'");
  expectValue(config, "qk_head_dim", c.headDim,
              "'qk_nope_head_dim' + 'qk_rope_head_dim'");
}

void kerf::checkLatents(ConfigReader &config, const DecoderConfig &c,
                        const ImportOptions &options) {
  const Latents &latents = *c.latents;
  int64_t b = options.batch, s = options.seq;
  int64_t both = latents.rank + latents.rotated;
  int64_t pairs = c.heads * (latents.plain + latents.value);
  if (latents.queryRank) {
    checkParameterSize(config, "q_lora_rank", "'q_a_proj.weight'",
                       {*latents.queryRank, c.hidden});
    checkParameterSize(config, "q_lora_rank", "'q_b_proj.weight'",
                       {c.heads * c.headDim, *latents.queryRank});
    checkActivationSize(config, "q_lora_rank", "the latents of queries",
                        {b, s, *latents.queryRank});
  }
  checkParameterSize(config, "kv_lora_rank", "'kv_a_proj_with_mqa.weight'",
                     {both, c.hidden});
  checkActivationSize(config, "kv_lora_rank", "the latents of keys and values",
                      {b, s, both});
  checkParameterSize(config, "v_head_dim", "'o_proj.weight'",
                     {c.hidden, c.heads * latents.value});
  checkActivationSize(config, "v_head_dim", "the keys and values",
                      {b, s, pairs});
  checkParameterSize(config, "kv_lora_rank", "'kv_b_proj.weight'",
                     {pairs, latents.rank});
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

static Value buildQueries(LayerBuilder &b, Value x, const DecoderConfig &c) {
  const std::string module = "model.layers.{i}.self_attn.";
  const Latents &latents = *c.latents;
  LinearForm wide = {c.heads * c.headDim, c.std};
  Value q;
  if (latents.queryRank) {
    Value latent = b.linear(x, module + "q_a_proj",
                            {*latents.queryRank, c.std, c.hasInputBias});
    latent = b.rmsNorm(latent, module + "q_a_layernorm", Latents::eps);
    q = b.linear(latent, module + "q_b_proj", wide);
  } else {
    q = b.linear(x, module + "q_proj", wide);
  }
  q = b.splitHeads(q, c.heads);
  Value plain = b.channels(q, 0, latents.plain);
  Value rotated = b.channels(q, latents.plain, latents.rotated);
  return b.plain().concat(3, {plain, buildRotation(b, rotated, c, c.rope)});
}

Heads kerf::buildLatentHeads(LayerBuilder &b, Value x, const DecoderConfig &c) {
  const std::string module = "model.layers.{i}.self_attn.";
  const Latents &latents = *c.latents;
  PlainBuilder p = b.plain();
  Value q = buildQueries(b, x, c);
  Value both =
      b.linear(x, module + "kv_a_proj_with_mqa",
               {latents.rank + latents.rotated, c.std, c.hasInputBias});
  Value latent = b.rmsNorm(b.channels(both, 0, latents.rank),
                           module + "kv_a_layernorm", Latents::eps);
  Value kv =
      b.splitHeads(b.linear(latent, module + "kv_b_proj",
                            {c.heads * (latents.plain + latents.value), c.std}),
                   c.heads);
  Value one = b.splitHeads(b.channels(both, latents.rank, latents.rotated), 1);
  one = buildRotation(b, one, c, c.rope);
  llvm::SmallVector<int64_t> shape(typeOf(one).getShape());
  Value flat = p.reshape(one, {shape[0], shape[1], shape[3]});
  shape[2] = c.heads;
  Value rotated = p.broadcast(flat, {0, 1, 3}, shape);
  Value k = p.concat(3, {b.channels(kv, 0, latents.plain), rotated});
  return {q, k, b.channels(kv, latents.plain, latents.value)};
}
