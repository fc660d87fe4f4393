//===- Experts.cpp - Mixtures of experts ----------------------------------===//
//
// Each token goes to its k most probable experts, weighed by their
// probabilities; mixtral always divides these by their sum, qwen2_moe,
// qwen3_moe and olmoe if the config says so. deepseek_v3, glm4_moe, dots1 and
// minimax_m2 choose by sigmoids and biases, ernie4_5_moe by probabilities and
// biases. All tokens of these but minimax_m2, of deepseek_v2, hunyuan_v1_moe
// and qwen2_moe also have a shared expert. Groups are single sequences.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Fields.h"

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

/// How biases move so that experts get the mean load of their choices.
static Experts::Balance balanceOf(const ImportOptions &options,
                                  const Experts &experts) {
  double choices =
      static_cast<double>(options.batch) * options.seq * experts.perToken;
  return {options.routerBiasRate, choices / experts.count};
}

Experts kerf::minimaxExperts(ConfigReader &config, const ImportOptions &options,
                             int64_t inner) {
  Experts experts{"block_sparse_moe", "w1", "w3", "w2", "num_local_experts",
                  "intermediate_size"};
  experts.count = config.integer("num_local_experts", 256);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  experts.inner = inner;
  experts.isRenormalized = experts.isSigmoid = true;
  experts.bias = "e_score_correction_bias";
  if (!config.failed())
    experts.balance = balanceOf(options, experts);
  return experts;
}

Experts kerf::ernieExperts(ConfigReader &config, const ImportOptions &options) {
  Experts experts{"mlp",       "gate_proj",       "up_proj",
                  "down_proj", "moe_num_experts", "moe_intermediate_size"};
  experts.chosenField = "moe_k";
  experts.count = config.integer(experts.countField, 64);
  experts.perToken = config.integer(experts.chosenField, 6);
  experts.inner = config.integer(experts.innerField, 1536);
  experts.sharedInner =
      config.integer("moe_num_shared_experts", 2, {0}) * experts.inner;
  experts.isRenormalized = experts.hasExactLogits = true;
  experts.bias = "moe_statics.e_score_correction_bias";
  experts.isBiasRow = true;
  if (!config.failed())
    experts.balance = balanceOf(options, experts);
  return experts;
}

/// The number of `field`, or of its entries of layers, which must be alike.
static int64_t alikeInLayers(ConfigReader &config, llvm::StringRef field,
                             int64_t absent) {
  const json::Value *value = config.findNonNull(field);
  if (!value || value->kind != json::Kind::Array)
    return config.integer(field, absent);
  llvm::ArrayRef<json::Value> entries = config.list(field);
  int64_t found = entries.empty() ? 0 : entries.front().integer;
  for (const json::Value &entry : entries)
    if (!entry.isInteger || entry.integer < 1 || entry.integer != found) {
      config.errorAt(entry, field, "the same positive number for all layers");
      break;
    }
  if (entries.empty())
    config.error(field) << "expected a number or those of all layers in '"
                        << field << "'";
  return std::max<int64_t>(found, 1);
}

Experts kerf::hunyuanExperts(ConfigReader &config, int64_t inner) {
  Experts experts{"mlp",       "gate_proj",   "up_proj",
                  "down_proj", "num_experts", "intermediate_size"};
  experts.chosenField = "moe_topk";
  experts.count = config.integer(experts.countField, 1);
  experts.perToken = alikeInLayers(config, experts.chosenField, 1);
  experts.inner = experts.sharedInner = inner;
  experts.isRenormalized = experts.hasExactLogits = true;
  experts.router = "gate.wg";
  experts.shared = "shared_mlp";
  experts.hasAux = false;
  return experts;
}

Experts kerf::graniteExperts(ConfigReader &config, int64_t inner) {
  Experts experts{"block_sparse_moe", "input_linear",      "",
                  "output_linear",    "num_local_experts", "intermediate_size"};
  experts.count = config.integer("num_local_experts", 8);
  experts.perToken = config.integer("num_experts_per_tok", 2);
  experts.inner = inner;
  experts.isRenormalized = true;
  experts.stack = Experts::Stack::ByOutput;
  experts.router = "router.layer";
  return experts;
}

Experts kerf::qwenExperts(ConfigReader &config, llvm::StringRef family,
                          int64_t inner) {
  bool isOlmo = family == "olmoe", isSecond = family == "qwen2_moe";
  Experts experts{"mlp",
                  "gate_proj",
                  "up_proj",
                  "down_proj",
                  "num_experts",
                  isOlmo ? llvm::StringLiteral("intermediate_size")
                         : llvm::StringLiteral("moe_intermediate_size")};
  experts.count = config.integer("num_experts", isOlmo     ? 64
                                                : isSecond ? 60
                                                           : 128);
  experts.perToken = config.integer("num_experts_per_tok", isSecond ? 4 : 8);
  experts.inner =
      isOlmo ? inner
             : config.integer("moe_intermediate_size", isSecond ? 1408 : 768);
  experts.isRenormalized = config.boolean("norm_topk_prob", false);
  if (isOlmo)
    experts.auxCoefficient = 0.01;
  if (isSecond) {
    experts.sharedInner =
        config.integer("shared_expert_intermediate_size", 5632);
    experts.shared = "shared_expert";
    experts.isSharedGated = true;
  }
  return experts;
}

/// Groups are equal, and the best ones have enough experts.
static void checkGroups(ConfigReader &config, const Experts &experts) {
  if (config.failed())
    return;
  auto [groups, best] = *experts.groups;
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
}

/// A number that the config class of a family has no default for.
static int64_t required(ConfigReader &config, llvm::StringRef field,
                        llvm::StringRef what) {
  if (!config.findNonNull(field))
    config.error(field) << "missing field '" << field << "': expected " << what;
  return config.integer(field, 1);
}

namespace {
/// Defaults of families that choose experts by sigmoids and biases.
struct BalancedDefaults {
  int64_t count, inner, groups, best;
  double scale;
  bool isRenormalized;
};
} // namespace

static BalancedDefaults balancedDefaults(llvm::StringRef family) {
  if (family == "glm4_moe")
    return {128, 1408, 1, 1, 1.0, true};
  if (family == "dots1")
    return {1, 1408, 1, 1, 1.0, false};
  return {256, 2048, 8, 4, 2.5, true};
}

Experts kerf::deepseekExperts(ConfigReader &config,
                              const ImportOptions &options,
                              llvm::StringRef family) {
  Experts experts{"mlp",       "gate_proj",        "up_proj",
                  "down_proj", "n_routed_experts", "moe_intermediate_size"};
  BalancedDefaults absent = balancedDefaults(family);
  bool isDots = family == "dots1";
  auto number = [&](llvm::StringRef field, int64_t value, const char *what) {
    return isDots ? required(config, field, what)
                  : config.integer(field, value);
  };
  experts.count = number("n_routed_experts", absent.count, "their number");
  experts.perToken =
      number("num_experts_per_tok", 8, "the experts that a token chooses");
  experts.inner = config.integer("moe_intermediate_size", absent.inner);
  experts.isRenormalized =
      config.boolean("norm_topk_prob", absent.isRenormalized);
  experts.sharedInner =
      number("n_shared_experts", 1, "the experts of all tokens") *
      experts.inner;
  experts.hasAux = false;
  experts.groups = {config.integer("n_group", absent.groups),
                    config.integer("topk_group", absent.best)};
  double scale = config.real("routed_scaling_factor", absent.scale,
                             {0.0, RealRange().end, true});
  checkGroups(config, experts);
  if (config.failed())
    return experts;
  experts.scale = scale;
  experts.hasExactLogits = true;
  experts.isSigmoid = true;
  experts.balance = balanceOf(options, experts);
  return experts;
}

Experts kerf::deepseekV2Experts(ConfigReader &config) {
  Experts experts{"mlp",       "gate_proj",        "up_proj",
                  "down_proj", "n_routed_experts", "moe_intermediate_size"};
  experts.count = config.integer("n_routed_experts", 64);
  experts.perToken = required(config, "num_experts_per_tok",
                              "the experts that a token chooses");
  experts.inner = config.integer("moe_intermediate_size", 1407);
  experts.sharedInner = config.integer("n_shared_experts", 2) * experts.inner;
  experts.hasAux = false;
  experts.scale =
      config.real("routed_scaling_factor", 1.0, {0.0, RealRange().end, true});
  experts.hasExactLogits = true;
  constexpr llvm::StringLiteral field = "topk_method";
  std::string method = config.string(field, "greedy");
  if (method == "group_limited_greedy") {
    experts.groups = {config.integer("n_group", 1),
                      config.integer("topk_group", 1)};
    checkGroups(config, experts);
  } else if (method != "greedy") {
    config.error(field) << "unsupported value '" << method << "' of field '"
                        << field
                        << "': expected greedy or group_limited_greedy";
  }
  return experts;
}

Experts kerf::gptOssExperts(ConfigReader &config, int64_t inner) {
  Experts experts{"mlp",       "gate_up_proj",      "",
                  "down_proj", "num_local_experts", "intermediate_size"};
  constexpr RealRange above{0.0, RealRange().end, true};
  experts.count = config.integer("num_local_experts", 128);
  experts.perToken = config.integer("num_experts_per_tok", 4);
  experts.inner = inner;
  experts.isRenormalized = true;
  experts.clamped = {config.real("swiglu_alpha", 1.702, above),
                     config.real("swiglu_limit", 7.0, above)};
  experts.router = "router";
  return experts;
}

Experts kerf::llama4Experts(ConfigReader &config) {
  Experts experts{"feed_forward", "gate_up_proj",      "",
                  "down_proj",    "num_local_experts", "intermediate_size"};
  experts.count = config.integer("num_local_experts", 16);
  experts.perToken = config.integer("num_experts_per_tok", 1);
  experts.inner = experts.sharedInner =
      config.integer("intermediate_size", 8192);
  experts.shared = "shared_expert";
  experts.isSigmoid = experts.weighsInputs = true;
  experts.stack = Experts::Stack::ByInput;
  experts.router = "router";
  experts.hasAux = false;
  return experts;
}

/// Refuses the option of an auxiliary loss where the family has none.
static void checkNoAuxLoss(ConfigReader &config, llvm::StringRef auxLoss,
                           bool isBalancedByBiases) {
  if (auxLoss != "layer" && auxLoss != "global")
    return;
  config.error("model_type")
      << (isBalancedByBiases
              ? "the experts of this family are balanced by biases"
              : kNoAuxLoss)
      << ", expected 'aux-loss' to be config or none, found '" << auxLoss
      << "'";
}

void kerf::readRouting(ConfigReader &config, const ImportOptions &options,
                       Experts &experts) {
  if (experts.hasAux) {
    double absent = experts.auxCoefficient > 0 ? experts.auxCoefficient : 0.001;
    experts.auxCoefficient = config.real("router_aux_loss_coef", absent);
    experts.aux = readAuxLoss(config, options.auxLoss, experts.auxCoefficient);
  } else if (!config.failed()) {
    checkNoAuxLoss(config, options.auxLoss, experts.balance.has_value());
  }
  if (config.failed())
    return;
  if (experts.perToken > experts.count)
    config.error(experts.chosenField)
        << "expected '" << experts.chosenField << "' of at most '"
        << experts.countField << "' " << experts.count << ", found "
        << experts.perToken;
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
  llvm::StringRef field = experts.innerField;
  for (llvm::StringRef own : {"n_shared_experts", "moe_num_shared_experts",
                              "shared_expert_intermediate_size"})
    if (config.knows(own))
      field = own;
  checkParameterSize(config, field, "'shared_experts.up_proj.weight'",
                     {experts.sharedInner, c.hidden});
  checkActivationSize(config, field, "the activations",
                      {b, options.seq, experts.sharedInner});
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// What the router thinks of each expert. Those of sigmoids are sums in f32 in
/// every precision, as in the library: a matmul whose type is written.
static Value buildLogits(LayerBuilder &b, Value x, const llvm::Twine &module,
                         const DecoderConfig &c) {
  const Experts &experts = *c.experts;
  if (experts.clamped)
    return LinearOp::create(
        b.getBuilder(), b.getLoc(), x,
        b.weight(module + ".weight", {experts.count, c.hidden}, c.rawStd),
        b.weight(module + ".bias", {experts.count}, c.rawStd),
        /*transposed=*/UnitAttr());
  if (!experts.hasExactLogits)
    return b.linear(x, module, {experts.count, c.rawStd});
  Value w = b.weight(module + ".weight", {experts.count, c.hidden}, c.rawStd);
  return b.plain().einsum("bsk,nk->bsn", x, w);
}

/// Which experts a token goes to, and their weights.
static RouteOp buildRoute(LayerBuilder &b, Value logits, const Experts &experts,
                          llvm::StringRef moe) {
  OpBuilder &builder = b.getBuilder();
  UnitAttr sigmoid = experts.isSigmoid ? builder.getUnitAttr() : UnitAttr();
  UnitAttr byLargest;
  IntegerAttr groups, best;
  FloatAttr scale;
  if (experts.scale != 1 || experts.balance)
    scale = builder.getF64FloatAttr(experts.scale);
  Value bias;
  if (experts.groups) {
    groups = builder.getI64IntegerAttr(experts.groups->count);
    best = builder.getI64IntegerAttr(experts.groups->best);
    if (!experts.balance)
      byLargest = builder.getUnitAttr();
  }
  if (const std::optional<Experts::Balance> &balance = experts.balance) {
    llvm::SmallVector<int64_t> shape(experts.isBiasRow ? 2 : 1, 1);
    shape.back() = experts.count;
    bias = b.zeros(moe + experts.bias, shape);
    if (balance->rate == 0)
      bias.getDefiningOp<ParamOp>().setFrozen(true);
    if (experts.isBiasRow)
      bias = b.plain().reshape(bias, {experts.count});
  }
  return RouteOp::create(builder, b.getLoc(), logits, bias,
                         builder.getI64IntegerAttr(experts.perToken),
                         experts.isRenormalized ? builder.getUnitAttr()
                                                : UnitAttr(),
                         sigmoid, groups, best, byLargest, scale);
}

namespace {
/// Where rows of experts are, and how their names begin.
struct ExpertRows {
  llvm::StringRef moe;
  int64_t count; ///< rows of a sequence
  Value slots, sizes;
  Value inputWeights;   ///< of what experts read; null: none
  IntegerAttr capacity; ///< null: none
};
} // namespace

/// Rows of x `[B,S,*]`, each with its expert.
static Value dispatch(LayerBuilder &b, Value x, const ExpertRows &at) {
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  return DispatchOp::create(
      b.getBuilder(), b.getLoc(),
      withShape(x.getType(), {shape[0], at.count, shape[2]}), x, at.slots,
      at.inputWeights, at.capacity ? Value() : at.sizes);
}

/// What the experts make of their rows: gated MLPs.
static Value buildExperts(LayerBuilder &b, Value table, const ExpertRows &at,
                          const DecoderConfig &c) {
  const Experts &experts = *c.experts;
  auto apply = [&](Value in, llvm::StringRef name, int64_t out) -> Value {
    Value w = b.projection(at.moe + "experts.{e}." + name,
                           {experts.count, out, typeOf(in).getShape().back()},
                           c.rawStd);
    return GroupedMatmulOp::create(b.getBuilder(), b.getLoc(), in, w, at.sizes,
                                   at.capacity, /*transposed=*/UnitAttr());
  };
  Value gate = apply(table, experts.gate, experts.inner);
  Value up = apply(table, experts.up, experts.inner);
  return apply(b.gated(c.act, gate, up), experts.down, c.hidden);
}

/// `(up + 1) gate sigmoid(alpha gate)` of `[.., 2 I]`, gate and up by turns.
static Value clampedGate(PlainBuilder p, Value both,
                         const Experts::Clamped &clamped) {
  llvm::SmallVector<int64_t> pairs(typeOf(both).getShape());
  pairs.back() /= 2;
  llvm::SmallVector<int64_t> shape = pairs, offsets(pairs.size() + 1, 0);
  pairs.push_back(2);
  both = p.reshape(both, pairs);
  pairs.back() = 1;
  Value gate = p.reshape(p.slice(both, offsets, pairs), shape);
  offsets.back() = 1;
  Value up = p.reshape(p.slice(both, offsets, pairs), shape);
  // Bounds come first: there is no slope at them.
  Value least = p.constant(up.getType(), -clamped.limit);
  Value most = p.constant(up.getType(), clamped.limit);
  gate = p.min(most, gate);
  up = p.min(most, p.max(least, up));
  Value part = p.mul(gate, p.logistic(p.mul(gate, clamped.alpha)));
  return p.mul(p.add(up, 1.0), part);
}

/// A grouped matmul with weights [experts, inputs, outputs], or without
/// `byInput` [experts, outputs, inputs].
static Value matmul(LayerBuilder &b, Value rows, Value weight,
                    const ExpertRows &at, bool byInput = true) {
  return GroupedMatmulOp::create(
      b.getBuilder(), b.getLoc(), rows, weight, at.sizes, at.capacity,
      byInput ? b.getBuilder().getUnitAttr() : UnitAttr());
}

/// The same of experts whose weights are in two stacks.
static Value buildStackedExperts(LayerBuilder &b, Value table,
                                 const ExpertRows &at, const DecoderConfig &c) {
  const Experts &experts = *c.experts;
  bool byInput = experts.stack == Experts::Stack::ByInput;
  auto apply = [&](Value in, llvm::StringRef name, int64_t out) {
    int64_t inputs = typeOf(in).getShape().back();
    llvm::SmallVector<int64_t> shape = {experts.count, inputs, out};
    if (!byInput)
      std::swap(shape[1], shape[2]);
    std::string full = byInput ? (at.moe + "experts." + name).str()
                               : (at.moe + name + ".weight").str();
    return matmul(b, in, b.weight(full, shape, c.rawStd), at, byInput);
  };
  int64_t inner = experts.inner;
  Value both = apply(table, experts.gate, 2 * inner);
  Value hidden = b.gated(c.act, b.channels(both, 0, inner),
                         b.channels(both, inner, inner));
  return apply(hidden, experts.down, c.hidden);
}

/// The same of experts with biases; that of `down` is added behind. The first
/// bias is the weight of a channel of ones.
static Value buildClampedExperts(LayerBuilder &b, Value x, Value table,
                                 const ExpertRows &at, const DecoderConfig &c) {
  const Experts &experts = *c.experts;
  PlainBuilder p = b.plain();
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  std::string up = (at.moe + "experts." + experts.gate).str();
  std::string down = (at.moe + "experts." + experts.down).str();
  int64_t wide = 2 * experts.inner;
  Value one = p.constant(withShape(x.getType(), {shape[0], shape[1], 1}), 1.0);
  Value ones = dispatch(b, one, at);
  Value bias = b.weight(up + "_bias", {experts.count, wide}, 0);
  Value both =
      p.add(matmul(b, table,
                   b.weight(up, {experts.count, c.hidden, wide}, c.rawStd), at),
            matmul(b, ones, p.reshape(bias, {experts.count, 1, wide}), at));
  Value hidden = clampedGate(p, both, *experts.clamped);
  Value w = b.weight(down, {experts.count, experts.inner, c.hidden}, c.rawStd);
  return matmul(b, hidden, w, at);
}

/// What the biases of `down` give: those of the chosen experts, weighed.
static Value buildDownBias(LayerBuilder &b, RouteOp route, const ExpertRows &at,
                           const DecoderConfig &c) {
  const Experts &experts = *c.experts;
  PlainBuilder p = b.plain();
  Value bias = b.weight((at.moe + "experts." + experts.down + "_bias").str(),
                        {experts.count, c.hidden}, 0);
  Value weights = route.getWeights();
  if (at.capacity) // choices without a row give nothing
    weights = p.select(p.compare(CompareKind::GE, at.slots, 0.0), weights, 0.0);
  llvm::SmallVector<int64_t> shape(typeOf(weights).getShape());
  shape.push_back(experts.count);
  Value number = p.iota(shape, 3);
  Value isChosen =
      p.compare(CompareKind::EQ,
                p.broadcast(route.getExperts(), {0, 1, 2}, shape), number);
  Value spread = p.broadcast(weights, {0, 1, 2}, shape);
  Value byExpert = p.sum(p.select(isChosen, spread, 0.0), {2});
  return p.einsum("bse,eh->bsh", byExpert, bias);
}

/// What the experts of all tokens give.
static Value buildShared(LayerBuilder &b, Value x, const std::string &moe,
                         const DecoderConfig &c) {
  const Experts &experts = *c.experts;
  std::string module = moe + experts.shared.str();
  Value y =
      b.gatedMlp(x, module, c.act, {experts.sharedInner, c.std, c.hasMlpBias});
  if (!experts.isSharedGated)
    return y;
  PlainBuilder p = b.plain();
  llvm::ArrayRef<int64_t> shape = typeOf(y).getShape();
  Value gate = p.logistic(b.linear(x, module + "_gate", {1, c.std}));
  gate = p.reshape(gate, {shape[0], shape[1]});
  return p.mul(y, p.broadcast(gate, {0, 1}, shape));
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
  Value logits = buildLogits(b, x, moe + experts.router, c);
  RouteOp route = buildRoute(b, logits, experts, moe);
  auto assign = AssignSlotsOp::create(builder, loc, route.getExperts(),
                                      builder.getI64IntegerAttr(experts.count),
                                      /*group=*/one, capacity);
  ExpertRows at = {moe,
                   tableRows(experts, shape[1]),
                   assign.getSlots(),
                   assign.getSizes(),
                   experts.weighsInputs ? route.getWeights() : Value(),
                   capacity};
  Value table = dispatch(b, x, at);
  bool isStacked = experts.stack != Experts::Stack::None;
  Value down = experts.clamped ? buildClampedExperts(b, x, table, at, c)
               : isStacked     ? buildStackedExperts(b, table, at, c)
                               : buildExperts(b, table, at, c);
  Value output = CombineOp::create(
      builder, loc, down, at.slots,
      experts.weighsInputs ? Value() : Value(route.getWeights()),
      capacity ? Value() : at.sizes);
  if (experts.clamped)
    output = b.plain().add(output, buildDownBias(b, route, at, c));
  if (experts.sharedInner != 0)
    output = b.plain().add(output, buildShared(b, x, moe, c));
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
      /*by_largest=*/UnitAttr(),
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
