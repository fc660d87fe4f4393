//===- Experts.cpp - Mixtures of experts ----------------------------------===//
//
// Each token goes to its k most probable experts, weighed by their
// probabilities; mixtral always divides these by their sum, qwen3_moe if the
// config says so. deepseek_v3 chooses by sigmoids and biases, and all tokens
// also have a shared expert. Groups are single sequences.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Config
//===----------------------------------------------------------------------===//

static AuxLoss readAuxLoss(ConfigReader &config, llvm::StringRef option,
                           double coefficient) {
  bool isInConfig = config.boolean("output_router_logits", false);
  if (coefficient == 0 || option == "none")
    return AuxLoss::None;
  if (option == "layer")
    return AuxLoss::Layer;
  return option == "global" || isInConfig ? AuxLoss::Global : AuxLoss::None;
}

Experts kerf::mixtralExperts(ConfigReader &config, int64_t inner) {
  Experts experts{"block_sparse_moe", "w1", "w3", "w2", "num_local_experts",
                  "intermediate_size"};
  experts.count = config.integer("num_local_experts", 8);
  experts.perToken = config.integer("num_experts_per_tok", 2);
  experts.inner = inner;
  experts.isRenormalized = true;
  return experts;
}

Experts kerf::qwenExperts(ConfigReader &config) {
  Experts experts{"mlp",       "gate_proj",   "up_proj",
                  "down_proj", "num_experts", "moe_intermediate_size"};
  experts.count = config.integer("num_experts", 128);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  experts.inner = config.integer("moe_intermediate_size", 768);
  experts.isRenormalized = config.boolean("norm_topk_prob", false);
  return experts;
}

Experts kerf::deepseekExperts(ConfigReader &config,
                              const ImportOptions &options) {
  Experts experts{"mlp",       "gate_proj",        "up_proj",
                  "down_proj", "n_routed_experts", "moe_intermediate_size"};
  experts.count = config.integer("n_routed_experts", 256);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  experts.inner = config.integer("moe_intermediate_size", 2048);
  experts.isRenormalized = config.boolean("norm_topk_prob", true);
  experts.sharedInner = config.integer("n_shared_experts", 1) * experts.inner;
  int64_t groups = config.integer("n_group", 8);
  int64_t best = config.integer("topk_group", 4);
  double scale =
      config.real("routed_scaling_factor", 2.5, {0.0, RealRange().end, true});
  if (config.failed())
    return experts;
  int64_t size = experts.count / groups;
  if (experts.count % groups != 0 || size < 2)
    config.error("n_group")
        << "expected 'n_group' to divide "
           "'n_routed_experts' "
        << experts.count << " into groups of at least 2, found " << groups;
  else if (best > groups || experts.perToken > best * size)
    config.error("topk_group")
        << "expected 'topk_group' from "
        << llvm::divideCeil(experts.perToken, size)
        << " (for 'num_experts_per_tok' " << experts.perToken
        << ") to 'n_group' " << groups << ", found " << best;
  if (options.auxLoss == "layer" || options.auxLoss == "global")
    config.error("model_type")
        << "the experts of this family are balanced by biases, expected "
           "'aux-loss' to be config or none, found '"
        << options.auxLoss << "'";
  double choices =
      static_cast<double>(options.batch) * options.seq * experts.perToken;
  experts.balance = {groups, best, scale, options.routerBiasRate,
                     choices / experts.count};
  return experts;
}

void kerf::readRouting(ConfigReader &config, const ImportOptions &options,
                       Experts &experts) {
  if (!experts.balance) {
    experts.auxCoefficient = config.real("router_aux_loss_coef", 0.001);
    experts.aux = readAuxLoss(config, options.auxLoss, experts.auxCoefficient);
  }
  if (config.failed())
    return;
  if (experts.perToken > experts.count)
    config.error("num_experts_per_tok")
        << "expected 'num_experts_per_tok' of at most '" << experts.countField
        << "' " << experts.count << ", found " << experts.perToken;
  if (options.capacityFactor) {
    double rows = std::ceil(*options.capacityFactor * options.seq *
                            experts.perToken / experts.count);
    // A token chooses an expert at most once.
    experts.capacity = std::clamp<double>(rows, 1, options.seq);
  }
}

/// Rows of a sequence's table.
static int64_t tableRows(const Experts &experts, int64_t seq) {
  return experts.capacity ? experts.count * *experts.capacity
                          : seq * experts.perToken;
}

void kerf::checkExperts(ConfigReader &config, const DecoderConfig &c,
                        const ImportOptions &options) {
  const Experts &experts = *c.experts;
  int64_t b = options.batch, inner = experts.inner;
  std::string weight = ("'experts." + experts.gate + ".weight'").str();
  checkParameterSize(config, experts.innerField, weight,
                     {experts.count, inner, c.hidden});
  checkActivationSize(config, experts.countField, "the router's logits",
                      {c.layers, b, options.seq, experts.count});
  checkActivationSize(
      config, experts.innerField, "the activations",
      {b, tableRows(experts, options.seq), std::max(inner, c.hidden)});
  if (experts.sharedInner == 0)
    return;
  checkParameterSize(config, "n_shared_experts",
                     "'shared_experts.up_proj.weight'",
                     {experts.sharedInner, c.hidden});
  checkActivationSize(config, "n_shared_experts", "the activations",
                      {b, options.seq, experts.sharedInner});
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// What the router thinks of each expert. Those of sigmoids are sums in f32 in
/// every precision, as in the library: a product whose type is written.
static Value buildLogits(LayerBuilder &b, Value x, const llvm::Twine &module,
                         const DecoderConfig &c) {
  const Experts &experts = *c.experts;
  if (!experts.balance)
    return b.linear(x, module, {experts.count, c.rawStd});
  Value w = b.weight(module + ".weight", {experts.count, c.hidden}, c.rawStd);
  return b.plain().einsum("bsk,nk->bsn", x, w);
}

/// Which experts a token goes to, and their weights.
static RouteOp buildRoute(LayerBuilder &b, Value logits, const Experts &experts,
                          llvm::StringRef moe) {
  OpBuilder &builder = b.getBuilder();
  UnitAttr sigmoid;
  IntegerAttr groups, best;
  FloatAttr scale;
  Value bias;
  if (const std::optional<Experts::Balance> &balance = experts.balance) {
    sigmoid = builder.getUnitAttr();
    groups = builder.getI64IntegerAttr(balance->groups);
    best = builder.getI64IntegerAttr(balance->bestGroups);
    scale = builder.getF64FloatAttr(balance->scale);
    bias = b.zeros(moe + "gate.e_score_correction_bias", experts.count);
    if (balance->rate == 0)
      bias.getDefiningOp<ParamOp>().setFrozen(true);
  }
  return RouteOp::create(builder, b.getLoc(), logits, bias,
                         builder.getI64IntegerAttr(experts.perToken),
                         experts.isRenormalized ? builder.getUnitAttr()
                                                : UnitAttr(),
                         sigmoid, groups, best, scale);
}

MixtureResult kerf::buildMixture(LayerBuilder &b, Value x,
                                 const DecoderConfig &c) {
  const Experts &experts = *c.experts;
  OpBuilder &builder = b.getBuilder();
  b.enter("model.layers." + experts.module, experts.countField);
  Location loc = b.getLoc();
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  IntegerAttr one = builder.getI64IntegerAttr(1), capacity;
  if (experts.capacity)
    capacity = builder.getI64IntegerAttr(*experts.capacity);

  const std::string moe = ("model.layers.{i}." + experts.module + ".").str();
  Value logits = buildLogits(b, x, moe + "gate", c);
  RouteOp route = buildRoute(b, logits, experts, moe);
  auto assign = AssignSlotsOp::create(builder, loc, route.getExperts(),
                                      builder.getI64IntegerAttr(experts.count),
                                      /*group=*/one, capacity);
  int64_t rows = tableRows(experts, shape[1]);
  Value sizes = capacity ? Value() : assign.getSizes();
  Value table = DispatchOp::create(
      builder, loc, withShape(x.getType(), {shape[0], rows, c.hidden}), x,
      assign.getSlots(), /*weights=*/Value(), sizes);
  auto apply = [&](Value in, llvm::StringRef name, int64_t out) -> Value {
    Value w = b.projection(moe + "experts.{e}." + name,
                           {experts.count, out, typeOf(in).getShape().back()},
                           c.rawStd);
    return GroupedMatmulOp::create(builder, loc, in, w, assign.getSizes(),
                                   capacity, /*transposed=*/UnitAttr());
  };
  Value gate = apply(table, experts.gate, experts.inner);
  Value up = apply(table, experts.up, experts.inner);
  Value down = apply(b.gated(c.act, gate, up), experts.down, c.hidden);
  Value output = CombineOp::create(builder, loc, down, assign.getSlots(),
                                   route.getWeights(), sizes);
  if (experts.sharedInner != 0)
    output = b.plain().add(output, b.gatedMlp(x, moe + "shared_experts", c.act,
                                              {experts.sharedInner, c.std}));
  return {output, logits, route.getExperts()};
}

//===----------------------------------------------------------------------===//
// Auxiliary loss
//===----------------------------------------------------------------------===//

Value kerf::buildGlobalAuxLoss(LayerBuilder &b, ValueRange stacks,
                               const Experts &experts) {
  OpBuilder &builder = b.getBuilder();
  Value logits = stacks.size() == 1 ? stacks[0] : b.plain().concat(0, stacks);
  llvm::ArrayRef<int64_t> shape = typeOf(logits).getShape();
  int64_t group = shape[0] * shape[1];
  Value all = b.plain().reshape(logits, {group, shape[2], shape[3]});
  auto route = RouteOp::create(
      builder, b.getLoc(), all, /*bias=*/Value(),
      builder.getI64IntegerAttr(experts.perToken), builder.getUnitAttr(),
      /*sigmoid=*/UnitAttr(), /*groups=*/IntegerAttr(), /*best=*/IntegerAttr(),
      /*scale=*/FloatAttr());
  return LoadBalanceLossOp::create(builder, b.getLoc(), all, route.getExperts(),
                                   builder.getI64IntegerAttr(group));
}

Value kerf::buildLayerAuxLoss(LayerBuilder &b, const MixtureResult &mixture) {
  OpBuilder &builder = b.getBuilder();
  return LoadBalanceLossOp::create(builder, b.getLoc(), mixture.logits,
                                   mixture.experts,
                                   builder.getI64IntegerAttr(1));
}
