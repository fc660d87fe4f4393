//===- ExpertWriter.cpp - random models with experts, and their layouts ---===//

#include "ExpertWriter.h"

#include "kerf/Search/Pins.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using namespace kerf::test;

ExpertWriter::ExpertWriter(uint64_t seed) : random(seed) {
  drawMesh();
  drawOptions();
  drawConfig();
  drawHead();
  drawRules();
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

void ExpertWriter::drawRanks() {
  experts = choose({1, 2, 2, 2, 4});
  tensor = experts == 1 ? choose({2, 2, 4}) : choose({1, 1, 2});
  foldsTensor = experts == 1 || (tensor > 1 && pick(3) == 0);
  stages = choose({1, 1, 2});
  data = choose({1, 2});
  context = choose({1, 1, 2});
  auto ranks = [&] { return stages * data * experts * tensor * context; };
  if (ranks() > 8)
    stages = data = 1;
  if (ranks() > 8)
    context = 1;
}

void ExpertWriter::drawMesh() {
  drawRanks();
  sequence = tensor > 1 && pick(3) == 0;
  micro = choose({1, 2, 2, 4});
}

int64_t ExpertWriter::sizeOf(const std::string &axis) const {
  const std::pair<const char *, int64_t> drawn[] = {
      {"dp", data},    {"ep", experts}, {"tp", tensor},
      {"cp", context}, {"pp", stages},  {"micro", micro}};
  for (auto [name, size] : drawn)
    if (axis == name)
      return size;
  llvm::errs() << "no ranks are drawn for the axis '" << axis << "'\n";
  std::exit(1);
}

void ExpertWriter::drawOptions() {
  options.batch = data * experts * micro * choose({1, 1, 2});
  if (foldsTensor && pick(2))
    options.batch *= tensor;
  options.seq = choose({2, 4, 4, 6}) * (context > 1 ? choose({1, 2}) : 1);
  // None that divides a gradient by itself: rounding would show as a full step.
  options.optimizer = pick(2) ? "adamw" : "sgd";
  options.eps = 1e-3;
  if (pick(2))
    options.capacityFactor = choose({2, 3, 4}) / 2.0;
  static const char *losses[] = {"none", "layer", "layer", "global"};
  options.auxLoss = losses[pick(micro == 1 ? 4 : 3)];
}

/// The first layer or every other one has no experts, or all have.
std::string ExpertWriter::qwenConfig(int64_t count, int64_t perToken) {
  int64_t form = pick(3);
  hasDense = form != 2;
  static const char *dense[] = {R"("mlp_only_layers": [0])",
                                R"("decoder_sparse_step": 2)",
                                R"("decoder_sparse_step": 1)"};
  return llvm::formatv(R"("model_type": "qwen3_moe", "head_dim": {0},
"intermediate_size": 8, "moe_intermediate_size": {1}, "num_experts": {2},
"norm_topk_prob": {3}, "output_router_logits": false,
"router_aux_loss_coef": 0.02, {4})",
                       choose({2, 4}), choose({4, 8}), count,
                       perToken > 1 && pick(2) ? "true" : "false", dense[form]);
}

/// Attention through latents; experts in one or two groups, beside shared ones.
std::string ExpertWriter::deepSeekConfig(int64_t count) {
  hasDense = true;
  options.auxLoss = "none"; // Biases balance them.
  int64_t groups = count % 2 == 0 && count > 2 ? choose({1, 2}) : 1;
  return llvm::formatv(R"("model_type": "deepseek_v3", "q_lora_rank": {0},
"kv_lora_rank": 4, "qk_nope_head_dim": {1}, "qk_rope_head_dim": 2,
"v_head_dim": {2}, "intermediate_size": 8, "moe_intermediate_size": {3},
"n_routed_experts": {4}, "n_shared_experts": 1, "n_group": {5},
"topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
"first_k_dense_replace": {6})",
                       pick(2) ? "4" : "null", choose({2, 4}), choose({2, 4}),
                       choose({4, 8}), count, groups, pick(2));
}

/// No token takes all experts, and none divides its one weight by itself: then
/// hardly anything would depend on the layout.
void ExpertWriter::drawConfig() {
  static constexpr decltype(family) families[] = {Mixtral, Qwen, DeepSeek};
  family = families[pick(3)];
  int64_t perToken = family == Qwen ? choose({1, 2, 2}) : 2;
  int64_t cuts = experts * (foldsTensor ? tensor : 1);
  int64_t count = cuts * choose({1, 1, 2, 3}), heads = choose({2, 4, 4});
  while (count <= perToken)
    count += cuts;
  int64_t groups = family == DeepSeek ? heads : heads / choose({1, 2});
  std::string common = llvm::formatv(
      R"("vocab_size": 16, "hidden_size": {0}, "num_hidden_layers": {1},
"num_attention_heads": {2}, "num_key_value_heads": {3}, "hidden_act": "silu",
"rms_norm_eps": 1e-5, "max_position_embeddings": 8, "rope_theta": 10000.0,
"initializer_range": 0.2, "attention_dropout": 0.{4},
"num_experts_per_tok": {5}, "tie_word_embeddings": {6}, )",
      heads * choose({2, 4}), 2 * choose({1, 2}), heads, groups, pick(2),
      perToken, pick(3) ? "false" : "true");
  std::string own = llvm::formatv(
      R"("model_type": "mixtral", "sliding_window": null,
"intermediate_size": {0}, "num_local_experts": {1},
"output_router_logits": false, "router_aux_loss_coef": 0.02)",
      choose({4, 8}), count);
  if (family == Qwen)
    own = qwenConfig(count, perToken);
  if (family == DeepSeek)
    own = deepSeekConfig(count);
  config = "{" + common + own + "}";
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

std::string ExpertWriter::cut(const std::string &factor,
                              std::initializer_list<std::string> axes) const {
  std::string list;
  for (const std::string &axis : axes)
    if (sizeOf(axis) > 1)
      list += (list.empty() ? "\"" : ", \"") + axis + "\"";
  return list.empty() ? "" : "\"" + factor + "\": [" + list + "]";
}

static std::string join(std::initializer_list<std::string> factors) {
  std::string text;
  for (const std::string &factor : factors)
    if (!factor.empty())
      text += (text.empty() ? "" : ", ") + factor;
  return text;
}

void ExpertWriter::drawHead() {
  std::string mesh;
  std::vector<std::string> axes;
  for (llvm::StringRef axis : axisNames())
    axes.push_back(axis.str());
  std::shuffle(axes.begin(), axes.end(), random);
  for (const std::string &axis : axes)
    if (sizeOf(axis) > 1)
      mesh += llvm::formatv("{0}\"{1}\": {2}", mesh.empty() ? "" : ", ", axis,
                            sizeOf(axis));
  head = llvm::formatv(R"("mesh": {{{0}}, "micro_batches": {1})", mesh, micro);
  static const char *schedules[] = {R"("gpipe")", R"("1f1b")", R"("zb-h1")",
                                    R"("zb-h1", "defer": 0)",
                                    R"("interleaved", "chunks": 2)"};
  if (stages > 1)
    head += std::string(", \"schedule\": ") +
            schedules[pick(micro % stages == 0 ? 5 : 4)];
  if (int64_t zero = data * experts > 1 ? pick(4) : 0)
    head += llvm::formatv(", \"zero\": {0}", zero);
  if (pick(3) == 0)
    head += R"(, "recompute": "full")";
  if (context > 1 && pick(3) == 0)
    head += R"(, "cp_order": "plain")";
}

void ExpertWriter::addRule(const std::string &op, const std::string &weight,
                           const std::string &factors,
                           const std::string &rest) {
  rules += (rules.empty() ? "{\"op\": \"" : ",\n {\"op\": \"") + op + "\"";
  if (!weight.empty())
    rules += ", \"weight\": \"*." + weight + ".weight\"";
  rules += ", \"factors\": {" + factors + "}" + rest + "}";
}

/// Column and row parallel matmuls of attention and of layers without experts.
void ExpertWriter::addMatmuls() {
  std::string batch = join({cut("b", {"dp", "micro", "ep"}), cut("s", {"cp"})});
  if (pick(4)) {
    for (const char *name : {"q_proj", "k_proj", "v_proj"})
      if (family != DeepSeek)
        addRule("linear", name, join({batch, cut("n", {"tp"})}));
    if (family == DeepSeek) // The queries' name depends on their latents.
      addRule("linear", "kv_b_proj", join({batch, cut("n", {"tp"})}));
    addRule("linear", "o_proj", join({batch, cut("k", {"tp"})}));
  }
  if (!hasDense || pick(3) == 0)
    return;
  for (const char *name : {"gate_proj", "up_proj"})
    addRule("linear", name, join({batch, cut("n", {"tp"})}));
  addRule("linear", "down_proj", join({batch, cut("k", {"tp"})}));
}

/// Keys go round the ring of ranks that share sequences.
void ExpertWriter::addAttention() {
  bool heads = family != DeepSeek && pick(2);
  for (const char *op : {"attention", "attention_backward"})
    addRule(op, "",
            join({cut("b", {"dp", "micro", "ep"}), cut("q", {"cp"}),
                  cut("k", {"cp"}), heads ? cut("g", {"tp"}) : ""}),
            ", \"variant\": [\"ring\"]");
}

static const char *mixtralName(llvm::StringRef name) {
  return name == "gate_proj" ? "w1" : name == "up_proj" ? "w3" : "w2";
}

/// Experts by the axes that are theirs. Without a capacity each rank has the
/// rows of its own; with one it may, or rows are cut by groups elsewhere.
void ExpertWriter::addExperts() {
  bool exchanges = pick(2), isCapped = options.capacityFactor.has_value();
  int64_t ranks = experts * (foldsTensor ? tensor : 1);
  auto own = [&](const char *factor) {
    return foldsTensor ? cut(factor, {"ep", "tp"}) : cut(factor, {"ep"});
  };
  std::string outer = cut("g", {"dp", "micro"});
  std::string batch = foldsTensor ? cut("g", {"dp", "micro", "ep", "tp"})
                                  : cut("g", {"dp", "micro", "ep"});
  std::string routed = ", \"routed\": true", how = routed;
  std::string tables = join({outer, own("r")});
  std::string matmuls = join({outer, isCapped ? "" : own("r"), own("e")});
  if (exchanges && isCapped) {
    how = "";
    tables = batch;
  } else if (exchanges) {
    how = routed = ", \"variant\": [\"all_to_all\"]";
    tables = join({batch, own("r")});
    if (pick(2))
      room = 1 + 0.25 * pick(4 * ranks - 3);
  }
  std::string inside = isCapped ? "" : routed;
  if (tensor > 1 && !foldsTensor && pick(2))
    for (const char *name : {"gate_proj", "up_proj", "down_proj"}) {
      const char *factor = llvm::StringRef(name) == "down_proj" ? "k" : "n";
      addRule("grouped_matmul", family == Mixtral ? mixtralName(name) : name,
              join({matmuls, cut(factor, {"tp"})}), inside);
    }
  // A rank of `cp` has tokens of its own, or all of a group.
  for (const char *op : {"dispatch", "combine", "combine_weight_gradient"})
    addRule(op, "", join({tables, pick(2) ? cut("s", {"cp"}) : ""}), how);
  for (const char *op : {"grouped_matmul", "grouped_weight_gradient"})
    addRule(op, "", matmuls, inside);
}

void ExpertWriter::drawRules() {
  std::string batch = cut("b", {"dp", "micro", "ep"});
  addRule("embedding", "embed_tokens",
          join({batch, sequence ? cut("s", {"cp", "tp"}) : cut("s", {"cp"})}));
  if (tensor > 1)
    addMatmuls();
  if (context > 1)
    addAttention();
  addExperts();
}

std::string ExpertWriter::getPlan(double room) const {
  std::string rows;
  if (room)
    rows = llvm::formatv(", \"moe_buffer\": {0}", room);
  return "{" + head + rows + ",\n\"assign\": [" + rules + "]}";
}
