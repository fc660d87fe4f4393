//===- DecoderLayers.cpp - Attention and MLP of a decoder -----------------===//
//
// What differs between families is data (DecoderForm.h): where norms are, how
// weights are stored, which channels turn.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

std::string DecoderConfig::layerName(llvm::StringRef module) const {
  return (form->names.model + ".layers.{i}." + module).str();
}

std::string DecoderConfig::moduleName(llvm::StringRef module) const {
  return (form->names.model + ".layers." + module).str();
}

//===----------------------------------------------------------------------===//
// Norms and residuals
//===----------------------------------------------------------------------===//

Value kerf::buildNorm(LayerBuilder &b, Value x, llvm::StringRef module,
                      const DecoderConfig &c) {
  b.enter(c.moduleName(module), c.form->epsField);
  return b.norm(c.form->norm, x, c.layerName(module), c.eps);
}

Value kerf::addScaled(LayerBuilder &b, Value x, Value y,
                      const DecoderConfig &c) {
  if (c.residualScale != 1)
    y = b.plain().mul(y, c.residualScale);
  return b.plain().add(x, y);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

Value kerf::buildRotation(LayerBuilder &b, Value x, const DecoderConfig &c,
                          const Rope &rope) {
  OpBuilder &builder = b.getBuilder();
  int64_t size = typeOf(x).getShape().back(), turned = rope.rotated;
  Value part = turned < size ? b.channels(x, 0, turned) : x;
  bool isInterleaved =
      c.form->turnsNeighbours || (c.latents && c.latents->isInterleaved);
  part = RopeOp::create(builder, b.getLoc(), part, b.input("positions"),
                        /*offset=*/Value(), builder.getF64FloatAttr(rope.theta),
                        rope.scaling,
                        /*inverse=*/UnitAttr(), /*zigzag=*/ZigzagAttr(),
                        isInterleaved ? builder.getUnitAttr() : UnitAttr());
  if (turned == size)
    return part;
  return b.plain().concat(3, {part, b.channels(x, turned, size - turned)});
}

/// Each by a matrix of its own.
static Heads projectEach(LayerBuilder &b, Value x, const DecoderConfig &c,
                         const std::string &module) {
  auto project = [&](llvm::StringRef name, int64_t heads,
                     llvm::StringRef norm) {
    Value y =
        b.linear(x, module + name, {heads * c.headDim, c.std, c.hasInputBias});
    if (c.headNorms == HeadNorms::AllHeads && !norm.empty())
      y = b.rmsNorm(y, module + norm, c.eps);
    return b.splitHeads(y, heads);
  };
  const ModuleNames &names = c.form->names;
  Value q = project("q_proj", c.heads, names.queryNorm);
  Value k = project("k_proj", c.kvHeads, names.keyNorm);
  return {q, k, project("v_proj", c.kvHeads, "")};
}

/// All by one matrix.
static Heads projectAll(LayerBuilder &b, Value x, const DecoderConfig &c,
                        const std::string &module) {
  int64_t queries = c.heads * c.headDim, keys = c.kvHeads * c.headDim;
  Value all = b.linear(x, module + c.form->names.qkv,
                       {queries + 2 * keys, c.std, c.hasInputBias});
  if (c.form->qkv == QkvForm::ByHead) {
    all = b.splitHeads(all, c.heads);
    Value q = b.channels(all, 0, c.headDim);
    Value k = b.channels(all, c.headDim, c.headDim);
    return {q, k, b.channels(all, 2 * c.headDim, c.headDim)};
  }
  Value q = b.splitHeads(b.channels(all, 0, queries), c.heads);
  Value k = b.splitHeads(b.channels(all, queries, keys), c.kvHeads);
  Value v = b.channels(all, queries + keys, keys);
  return {q, k, b.splitHeads(v, c.kvHeads)};
}

/// Heads of root mean square 1.
static Value withoutLength(LayerBuilder &b, Value x, const DecoderConfig &c) {
  OpBuilder &builder = b.getBuilder();
  auto type = RankedTensorType::get({c.headDim}, b.f32());
  return RmsNormOp::create(builder, b.getLoc(), x, b.plain().constant(type, 1),
                           builder.getF64FloatAttr(c.eps));
}

/// Queries times 1 + scale log(1 + (position + 1) div floor).
static Value warmed(LayerBuilder &b, Value q,
                    const DecoderConfig::Temperature &temperature) {
  llvm::ArrayRef<int64_t> shape = typeOf(q).getShape();
  if (static_cast<double>(shape[1]) < temperature.floor)
    return q;
  PlainBuilder p = b.plain();
  Value at = p.add(p.iota({shape[1]}, 0), 1.0);
  Value steps = p.div(at, p.constant(at.getType(), temperature.floor));
  Value longer = p.log(p.add(p.cast(steps, b.f32()), 1.0));
  Value factor = p.add(p.mul(longer, temperature.scale), 1.0);
  return p.mul(q, p.broadcast(factor, {1}, shape));
}

Heads kerf::buildHeads(LayerBuilder &b, Value x, const DecoderConfig &c,
                       const LayerRun &run) {
  std::string module = c.layerName(c.form->names.attention) + ".";
  Heads heads = c.form->qkv == QkvForm::Separate ? projectEach(b, x, c, module)
                                                 : projectAll(b, x, c, module);
  auto normalizeEach = [&] {
    const ModuleNames &names = c.form->names;
    NormForm norm = c.form->norm;
    heads.q = b.norm(norm, heads.q, module + names.queryNorm, c.eps);
    heads.k = b.norm(norm, heads.k, module + names.keyNorm, c.eps);
  };
  if (c.headNorms == HeadNorms::EachHead)
    normalizeEach();
  const Rope &rope = run.isLocal && c.windowRope ? *c.windowRope : c.rope;
  if (run.isRotated && !c.form->firstPosition) {
    heads.q = buildRotation(b, heads.q, c, rope);
    heads.k = buildRotation(b, heads.k, c, rope);
    if (c.normalizesTurned) {
      heads.q = withoutLength(b, heads.q, c);
      heads.k = withoutLength(b, heads.k, c);
    }
  }
  if (c.headNorms == HeadNorms::EachTurnedHead)
    normalizeEach();
  if (!run.isRotated && c.temperature)
    heads.q = warmed(b, heads.q, *c.temperature);
  return heads;
}

Value kerf::buildAttention(LayerBuilder &b, Value x, const DecoderConfig &c,
                           const LayerRun &run) {
  const ModuleNames &names = c.form->names;
  std::string module = c.moduleName(names.attention);
  b.enter(module, "num_attention_heads");
  auto [q, k, v] =
      c.latents ? buildLatentHeads(b, x, c) : buildHeads(b, x, c, run);
  AttentionForm form;
  if (run.hasWindow)
    form.window = c.window;
  form.scale = c.scoreScale;
  form.softcap = c.scoreCap;
  if (run.isChunked)
    form.chunk = c.chunk;
  if (c.form->hasSinks)
    form.sinks =
        b.weight(c.layerName(names.attention) + ".sinks", {c.heads}, c.rawStd);
  if (c.latents && c.rope.scoreScale != 1)
    form.scale = c.rope.scoreScale / std::sqrt(c.headDim);
  form.dropout = c.dropout;
  Value y = b.joinHeads(b.attention(q, k, v, module, form));
  y = b.linear(y, c.layerName(names.attention) + "." + names.output,
               {c.hidden, c.std, c.hasOutputBias});
  return b.dropout(y, module + ".output_dropout", c.attentionOutputDropout);
}

//===----------------------------------------------------------------------===//
// MLP
//===----------------------------------------------------------------------===//

Value kerf::buildMlp(LayerBuilder &b, Value x, const DecoderConfig &c) {
  const DecoderForm &form = *c.form;
  llvm::StringRef mlp = form.names.mlp;
  std::string module = c.layerName(mlp) + (mlp.empty() ? "" : ".");
  std::string up = module + form.names.up.str();
  std::string down = module + form.names.down.str();
  std::string name = c.moduleName(mlp.empty() ? llvm::StringRef("mlp") : mlp);
  b.enter(name, form.innerField);
  LinearForm wide = {c.inner, c.std, c.hasMlpBias};
  LinearForm narrow = {c.hidden, c.std, c.hasMlpBias};
  Value y;
  switch (form.mlp) {
  case MlpForm::Gated:
    y = b.gatedMlp(x, c.layerName(mlp), c.act, wide);
    break;
  case MlpForm::GatedInOne: {
    Value both = b.linear(x, up, {2 * c.inner, c.std, c.hasMlpBias});
    y = b.gated(c.act, b.channels(both, 0, c.inner),
                b.channels(both, c.inner, c.inner));
    y = b.linear(y, down, narrow);
    break;
  }
  case MlpForm::Plain:
    y = b.activation(c.act, b.linear(x, up, wide));
    y = b.linear(y, down, narrow);
    break;
  }
  return b.dropout(y, name + ".dropout", c.mlpDropout);
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// x + module(x), with the norms that stand before and behind the module.
static Value addModule(LayerBuilder &b, Value x, const DecoderConfig &c,
                       llvm::StringRef before, llvm::StringRef behind,
                       llvm::function_ref<Value(Value)> module) {
  Value y = x;
  if (c.placement != Placement::After)
    y = buildNorm(b, y, before, c);
  y = module(y);
  if (c.placement == Placement::After || c.placement == Placement::Around)
    y = buildNorm(b, y, behind, c);
  return addScaled(b, x, y, c);
}

Value kerf::addAttention(LayerBuilder &b, Value x, const DecoderConfig &c,
                         const LayerRun &run) {
  const ModuleNames &names = c.form->names;
  return addModule(b, x, c, names.firstNorm, names.attentionNorm,
                   [&](Value y) { return buildAttention(b, y, c, run); });
}

Value kerf::buildLayer(LayerBuilder &b, Value x, const DecoderConfig &c,
                       const LayerRun &run) {
  const ModuleNames &names = c.form->names;
  bool isParallel = c.placement == Placement::Parallel ||
                    c.placement == Placement::ParallelOfTwo;
  if (!isParallel)
    return addModule(b, addAttention(b, x, c, run), c, names.secondNorm,
                     names.mlpNorm, [&](Value y) { return buildMlp(b, y, c); });
  Value first = buildNorm(b, x, names.firstNorm, c);
  Value second = c.placement == Placement::Parallel
                     ? first
                     : buildNorm(b, x, names.secondNorm, c);
  Value sum = addScaled(b, x, buildAttention(b, first, c, run), c);
  return addScaled(b, sum, buildMlp(b, second, c), c);
}
