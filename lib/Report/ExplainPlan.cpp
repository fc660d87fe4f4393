//===- ExplainPlan.cpp - a plan in the field's words ----------------------===//

#include "kerf/Cost/Kernels.h"
#include "kerf/Report/ExplainDetail.h"

#include "kerf/Report/Report.h"
#include "kerf/Search/Pins.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <map>
#include <set>

using namespace kerf;
using namespace kerf::explain_detail;

//===----------------------------------------------------------------------===//
// The mesh
//===----------------------------------------------------------------------===//

Group explain_detail::groupOf(const OuterChoice &outer, MeshAxis axis) {
  return {outer.sizeOf(axis), outer.strideOf(axis)};
}

Group explain_detail::groupOf(const OuterChoice &outer, InnerAxis axis) {
  return keyOf(outer, /*kind=*/0).groups[static_cast<size_t>(axis)];
}

Group explain_detail::dataGroup(const OuterChoice &outer) {
  Group data = groupOf(outer, MeshAxis::Data);
  Group context = groupOf(outer, MeshAxis::Context);
  if (outer.cp == 1)
    return data;
  if (outer.dp == 1)
    return context;
  return {outer.dp * outer.cp, std::min(data.stride, context.stride)};
}

const char *explain_detail::axisName(MeshAxis axis) {
  constexpr const char *names[] = {"tensor", "context", "data", "pipeline"};
  return names[static_cast<size_t>(axis)];
}

const char *explain_detail::axisName(InnerAxis axis) {
  constexpr const char *names[] = {"tensor", "context", "expert"};
  return names[static_cast<size_t>(axis)];
}

/// What travels along an axis.
static std::string cargoOf(const OuterChoice &outer, MeshAxis axis) {
  switch (axis) {
  case MeshAxis::Tensor:
    return "activations inside layers";
  case MeshAxis::Context:
    return "keys and values; gradients";
  case MeshAxis::Data:
    return outer.zero >= 3 ? "weights and gradients, every micro-batch"
                           : "gradients";
  case MeshAxis::Pipeline:
    return "activations between stages";
  }
  return "";
}

/// The layout of the first layer of a kind; null where none is known.
static const LayerLayout *layoutIn(const ExplainInput &input,
                                   const PlanPoint &plan, int kind) {
  for (const PlacedStage &stage : plan.stages)
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers)
        if (layers.kind == kind && input.layoutOf)
          return input.layoutOf(kind, layers.point);
  return nullptr;
}

/// What travels between ranks of experts: routed tokens, where the layouts
/// shard experts; "" where each rank has all of them.
static std::string expertCargo(const ExplainInput &input,
                               const PlanPoint &plan) {
  bool isSharded = false, isExchanged = false, isKnown = false;
  for (auto [k, kind] : llvm::enumerate(input.step->kinds)) {
    const LayerLayout *layout = layoutIn(input, plan, static_cast<int>(k));
    if (!layout)
      continue;
    isKnown = true;
    const AxisLayout &experts =
        layout->axes[static_cast<size_t>(InnerAxis::Expert)];
    for (auto [op, option] : llvm::zip(kind.ops, experts.ops)) {
      isExchanged |=
          option.variant >= 0 && op.variants[option.variant].exchanges;
      isSharded |= option.factor >= 0 &&
                   op.factors[option.factor].index == IndexClass::Expert;
    }
  }
  if (isKnown && !isSharded && !isExchanged)
    return "";
  return isExchanged ? "rows to their experts and back; a part of data"
                     : "tokens to all experts, and sums back; a part of data";
}

static std::vector<AxisRow> axesOf(const ExplainInput &input,
                                   const PlanPoint &plan) {
  const OuterChoice &outer = plan.outer;
  std::vector<AxisRow> rows;
  auto add = [&](const char *name, Group group, std::string carries) {
    if (group.size > 1)
      rows.push_back({name, group, outermostTier(*input.machine, group).str(),
                      std::move(carries)});
  };
  for (MeshAxis axis : outer.order) {
    std::string cargo = axis == MeshAxis::Data ? expertCargo(input, plan) : "";
    if (!cargo.empty())
      add("expert", groupOf(outer, InnerAxis::Expert), std::move(cargo));
    add(axisName(axis), groupOf(outer, axis), cargoOf(outer, axis));
  }
  return rows;
}

/// "over all 8 data ranks", "over 8 of 64 data ranks, in 8 copies".
static std::string shardWords(const OuterChoice &outer) {
  int64_t all = outer.dp * outer.cp;
  std::string ranks = outer.cp > 1 ? " data and context ranks" : " data ranks";
  int64_t shard = std::clamp<int64_t>(outer.shardGroup, 1, all);
  if (shard == all)
    return "over all " + std::to_string(all) + ranks;
  return "over " + std::to_string(shard) + " of " + std::to_string(all) +
         ranks + ", in " + std::to_string(all / shard) + " copies";
}

/// Where state is stored, with the level of ZeRO (Rajbhandari et al. 2020).
static std::string stateWords(const OuterChoice &outer) {
  constexpr const char *what[] = {
      "", "ZeRO-1: optimizer state", "ZeRO-2: gradients and optimizer state",
      "ZeRO-3: weights, gradients and optimizer state"};
  if (outer.dp * outer.cp == 1)
    return "weights, gradients and optimizer state in one copy";
  if (outer.zero == 0)
    return "weights, gradients and optimizer state whole on each of the " +
           std::to_string(outer.dp * outer.cp) + " data ranks (ZeRO-0)";
  return std::string(what[outer.zero]) + " sharded " + shardWords(outer);
}

std::string kerf::shortLayout(const OuterChoice &outer) {
  std::string text;
  auto add = [&](const char *name, int64_t size) {
    if (size > 1)
      text += (text.empty() ? "" : " ") + std::string(name) + " " +
              std::to_string(size);
  };
  add("tp", outer.tp);
  add("cp", outer.cp);
  add("ep", outer.ep);
  add("dp", outer.dp);
  add("pp", outer.pp);
  text = text.empty() ? "1 rank" : text;
  text += " | " + std::to_string(outer.microBatches) + " x " +
          std::to_string(outer.microBatch);
  if (outer.pp > 1)
    text += " | " + nameOf(outer.schedule).str() +
            (outer.chunks > 1 ? " v " + std::to_string(outer.chunks) : "") +
            (outer.defer >= 0 ? " defer " + std::to_string(outer.defer) : "");
  if (outer.zero > 0) {
    text += " | zero " + std::to_string(outer.zero);
    if (outer.shardGroup > 1 && outer.shardGroup < outer.dp * outer.cp)
      text += "/" + std::to_string(outer.shardGroup);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Ranks whose coordinate on the pipeline is `stage`.
static StageRanks ranksOf(const OuterChoice &outer, int64_t stage) {
  Group pipeline = groupOf(outer, MeshAxis::Pipeline);
  int64_t size = pipeline.stride, period = size * pipeline.size;
  return {stage * size, size, period, outer.ranks() / period};
}

using NameCount = std::pair<std::string, int64_t>;

/// "embedding, 16 x layer"
static std::string joinRuns(llvm::ArrayRef<NameCount> runs) {
  return llvm::join(llvm::map_range(runs,
                                    [](const NameCount &run) {
                                      std::string times =
                                          run.second > 1
                                              ? std::to_string(run.second) +
                                                    " x "
                                              : "";
                                      return times + run.first;
                                    }),
                    ", ");
}

/// Counts of equal names that follow each other; two that take turns are told
/// once: "embedding, 10 x [5 x layer 1, layer 2], 2 x layer 1, head".
static std::string countNames(llvm::ArrayRef<NameCount> names) {
  std::vector<NameCount> runs;
  for (const auto &[name, count] : names) {
    if (!runs.empty() && runs.back().first == name)
      runs.back().second += count;
    else
      runs.push_back({name, count});
  }
  std::vector<NameCount> told;
  for (size_t i = 0; i < runs.size();) {
    size_t turns = 1;
    while (i + 2 * turns + 1 < runs.size() && runs[i + 2 * turns] == runs[i] &&
           runs[i + 2 * turns + 1] == runs[i + 1])
      ++turns;
    llvm::ArrayRef<NameCount> pair =
        llvm::ArrayRef(runs).slice(i).take_front(2);
    if (turns > 1)
      told.push_back({"[" + joinRuns(pair) + "]", int64_t(turns)});
    else
      told.push_back(runs[i]);
    i += turns > 1 ? 2 * turns : 1;
  }
  return joinRuns(told);
}

/// Chunks of a stage, equal ones that follow each other together: "embedding,
/// layer | 9 x [layer]".
static std::string joinChunks(llvm::ArrayRef<std::string> chunks) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < chunks.size();) {
    size_t end = i + 1;
    while (end < chunks.size() && chunks[end] == chunks[i])
      ++end;
    texts.push_back(end - i > 1
                        ? std::to_string(end - i) + " x [" + chunks[i] + "]"
                        : chunks[i]);
    i = end;
  }
  return llvm::join(texts, " | ");
}

/// Recomputation points of a stage's layers: "6 x (norms, swiglu), 4 x
/// nothing".
static std::string recomputeWords(llvm::ArrayRef<NameCount> points) {
  std::vector<NameCount> sums;
  for (const auto &[name, count] : points) {
    auto known = llvm::find_if(
        sums, [&](const NameCount &sum) { return sum.first == name; });
    if (known == sums.end())
      sums.push_back({name, count});
    else
      known->second += count;
  }
  if (sums.empty())
    return "nothing";
  if (sums.size() == 1)
    return sums.front().first;
  std::string text;
  for (const auto &[name, count] : sums) {
    bool list = name.find(',') != std::string::npos;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " +
            (list ? "(" + name + ")" : name);
  }
  return text;
}

/// True for embedding and head: what no repeat holds.
static bool isOutside(const StepModel &step, int kind) {
  return llvm::none_of(step.runs, [&](const LayerRun &run) {
    return run.kind == kind && run.repeat >= 0;
  });
}

static StageRow describeStage(const StepModel &step, const OuterChoice &outer,
                              const PlacedStage &stage, int64_t number) {
  std::vector<NameCount> points;
  std::vector<std::string> chunks;
  for (const PlacedChunk &chunk : stage.chunks) {
    std::vector<NameCount> names;
    for (const PlacedLayers &run : chunk.layers) {
      names.push_back({step.kinds[run.kind].name, run.count});
      if (!isOutside(step, run.kind) || run.point.recompute.computeSec() > 0)
        points.push_back({run.point.recomputed, run.count});
    }
    chunks.push_back(countNames(names));
  }
  return {ranksOf(outer, number), joinChunks(chunks), recomputeWords(points)};
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// True if a tensor has the factor in one of its dimensions.
static std::string variantWords(const FactorVariant &variant) {
  if (variant.name == "ring")
    return "context-parallel, keys and values in a ring";
  if (variant.name == "split_vocabulary")
    return "vocabulary-parallel";
  if (variant.exchanges)
    return "expert-parallel, rows exchanged";
  std::string words = variant.name;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

/// Words for a split of a matmul with a weight, or of any other op, along what
/// is neither tokens nor experts.
static std::string featureWords(const LayerOp &op, const OpOption &option,
                                bool shardsWords) {
  const Factor &factor = op.factors[option.factor].factor;
  bool attention = op.scores > 0;
  bool heads = factor.name == "h" || (attention && factor.name != "e");
  bool weighted =
      !op.weight.empty() && (op.work.matmulFlops > 0 || op.name == "embedding");
  if (shardsWords)
    return "vocabulary-parallel";
  if (heads)
    return "by heads";
  if (!weighted)
    return "by features";
  bool inResult = llvm::any_of(op.resultFactors, [&](const auto &result) {
    return hasFactor(result, option.factor);
  });
  return inResult ? "column-parallel" : "row-parallel";
}

std::string kerf::wordsFor(const LayerOp &op, const OpOption &option,
                           bool shardsWords) {
  if (option.variant >= 0)
    return variantWords(op.variants[option.variant]);
  if (option.factor < 0)
    return option.passes >= 0 ? "on partial sums" : "replicated";
  switch (op.factors[option.factor].index) {
  case IndexClass::Batch:
    return "by batch";
  case IndexClass::Sequence:
    return op.scores > 0 ? "context-parallel, keys and values gathered"
                         : "sequence-parallel";
  case IndexClass::Expert:
    return "expert-parallel";
  case IndexClass::Other:
    return featureWords(op, option, shardsWords);
  }
  return "";
}

/// "model.layers.{i}.mlp.up_proj.weight" -> its last `parts` components before
/// "weight", numbers of layers and experts aside.
static std::string tailOf(llvm::StringRef pattern, size_t parts) {
  pattern.consume_back(".weight");
  llvm::SmallVector<llvm::StringRef> names;
  pattern.split(names, '.');
  llvm::erase_if(names, [](auto name) { return name.starts_with("{"); });
  if (names.size() > parts)
    names.erase(names.begin(), names.end() - static_cast<ptrdiff_t>(parts));
  return llvm::join(names, ".");
}

/// Longer where they would be the same.
std::map<std::string, std::string>
explain_detail::shortNames(const LayerKind &kind) {
  std::map<std::string, int> uses;
  std::map<std::string, std::string> names;
  for (const LayerOp &op : kind.ops)
    if (names.try_emplace(op.weight, tailOf(op.weight, 1)).second)
      ++uses[tailOf(op.weight, 1)];
  for (auto &[pattern, name] : names)
    if (uses[name] > 1)
      name = tailOf(pattern, 2);
  return names;
}

/// True if a backward op of `forward` is split although it is not.
static bool splitsBackward(const LayerKind &kind, const AxisLayout &layout,
                           size_t forward) {
  if (layout.ops[forward].factor >= 0)
    return false;
  for (auto [op, option] : llvm::zip(kind.ops, layout.ops))
    if (op.phase != LayerPhase::Forward &&
        op.forward == static_cast<int>(forward) && option.factor >= 0)
      return true;
  return false;
}

namespace {
/// A row on its way to words: its ops, and the weights whose matmuls make what
/// they read ("": no matmul does).
struct OpsOfRow {
  std::vector<std::string> names, origins;
};
} // namespace

/// The weight whose matmul makes the first operand of an op, views and scales
/// aside; "" where it is something else.
static std::string originOf(const LayerKind &kind, const LayerOp &op,
                            const std::set<int> &scaling,
                            const std::map<std::string, std::string> &names) {
  const LayerOp *user = &op;
  while (!user->operands.empty()) {
    int maker = kind.values[user->operands[0]].producer;
    if (maker < 0)
      break;
    user = &kind.ops[maker];
    if (user->view || scaling.count(maker))
      continue;
    auto name = names.find(user->weight);
    return user->weight.empty() || name == names.end() ? "" : name->second;
  }
  return "";
}

/// Names that stand in several rows say which ops are meant: "rope of q_proj";
/// or, where that is not known, how many: "rope (1 of 2)".
static std::vector<std::vector<std::string>>
tellApart(llvm::ArrayRef<OpsOfRow> rows) {
  std::map<std::string, int64_t> all;
  for (const OpsOfRow &row : rows)
    for (const std::string &name : row.names)
      ++all[name];
  std::vector<std::vector<std::string>> result;
  for (const OpsOfRow &row : rows) {
    std::vector<std::string> &texts = result.emplace_back();
    for (auto [name, origin] : llvm::zip(row.names, row.origins)) {
      auto own = llvm::count(row.names, name);
      std::string text = name;
      if (own < all[name])
        text += origin.empty() ? " (" + std::to_string(own) + " of " +
                                     std::to_string(all[name]) + ")"
                               : " of " + origin;
      if (!llvm::is_contained(texts, text))
        texts.push_back(text);
    }
  }
  return result;
}

using OpFactor = std::pair<int, unsigned>; // op of a kind, factor of the op

/// Appends the factors of the ops that make the operands of `op`, in dimensions
/// that its `factor` makes up alone.
static void addMakers(const LayerKind &kind, OpFactor user,
                      std::vector<OpFactor> &factors) {
  const LayerOp &op = kind.ops[user.first];
  for (auto [value, tensor] : llvm::zip(op.operands, op.operandFactors)) {
    int maker = kind.values[value].producer;
    if (maker < 0)
      continue;
    const LayerOp &made = kind.ops[maker];
    size_t result = llvm::find(made.results, value) - made.results.begin();
    for (auto [dim, own] : llvm::enumerate(tensor))
      if (own == DimFactors{user.second} &&
          made.resultFactors[result][dim].size() == 1)
        factors.push_back({maker, made.resultFactors[result][dim][0]});
  }
}

/// The factors that are words of the vocabulary: rows of an embedding's table,
/// and what the loss may split as such, back to the matmul that makes it.
static std::set<OpFactor> wordFactors(const LayerKind &kind) {
  std::vector<OpFactor> open;
  for (auto [i, op] : llvm::enumerate(kind.ops)) {
    for (const FactorVariant &variant : op.variants)
      if (variant.name == "split_vocabulary")
        open.push_back({i, variant.factors[0]});
    for (unsigned f = 0; op.name == "embedding" && f < op.factors.size(); ++f)
      if (!hasFactor(op.resultFactors[0], f))
        open.push_back({i, f});
  }
  std::set<OpFactor> words;
  while (!open.empty()) {
    OpFactor next = open.back();
    open.pop_back();
    if (words.insert(next).second)
      addMakers(kind, next, open);
  }
  return words;
}

/// Forward ops by what splits them, in order of their first op.
static std::vector<LayoutWords>
wordsOfAxis(const LayerKind &kind, const AxisLayout &layout, InnerAxis axis) {
  std::map<std::string, std::string> names = shortNames(kind);
  std::set<OpFactor> vocabulary = wordFactors(kind);
  std::set<int> scaling = scalingOps(kind);
  std::vector<LayoutWords> rows;
  std::vector<OpsOfRow> ops;
  for (auto [i, op] : llvm::enumerate(kind.ops)) {
    if (op.phase != LayerPhase::Forward || op.view ||
        scaling.count(static_cast<int>(i)))
      continue;
    const OpOption &option = layout.ops[i];
    bool shardsWords =
        option.factor >= 0 && vocabulary.count({i, unsigned(option.factor)});
    std::string words = wordsFor(op, option, shardsWords);
    if (splitsBackward(kind, layout, i))
      words += ", split in the backward pass";
    auto row = llvm::find_if(
        rows, [&](const LayoutWords &known) { return known.words == words; });
    if (row == rows.end()) {
      row = rows.insert(row, {explain_detail::axisName(axis), words, {}});
      ops.emplace_back();
    }
    OpsOfRow &own = ops[row - rows.begin()];
    own.names.push_back(op.weight.empty() ? op.name : names[op.weight]);
    own.origins.push_back(op.weight.empty() ? originOf(kind, op, scaling, names)
                                            : "");
  }
  for (auto [row, texts] : llvm::zip(rows, tellApart(ops)))
    row.ops = std::move(texts);
  return rows;
}

static KindRow describeKind(const ExplainInput &input, const PlanPoint &plan,
                            int kind, int64_t count) {
  const LayerKind &layer = input.step->kinds[kind];
  KindRow row{layer.name,
              count,
              {},
              precisionOf(*input.step, kind, isOutside(*input.step, kind))};
  const LayerLayout *layout = layoutIn(input, plan, kind);
  if (!layout)
    return row;
  for (InnerAxis axis :
       {InnerAxis::Tensor, InnerAxis::Context, InnerAxis::Expert}) {
    const AxisLayout &own = layout->axes[static_cast<size_t>(axis)];
    if (groupOf(plan.outer, axis).size > 1 &&
        own.ops.size() == layer.ops.size())
      llvm::append_range(row.layout, wordsOfAxis(layer, own, axis));
  }
  return row;
}

/// The type whose peak counts for `type`, unless that is what programs compute
/// in, or slower: f32 for 16 bits, bf16 for f16.
static std::string ratedAsOther(const Device &device, llvm::StringRef type) {
  llvm::StringRef rated = ratedAs(device, type);
  bool isFine = rated == type || (rated == "f32" && type != "f64") ||
                (type == "f16" && rated == "bf16");
  return isFine ? "" : rated.str();
}

PlanPart explain_detail::describePlan(const ExplainInput &input,
                                      const PlanPoint &plan) {
  const StepModel &step = *input.step;
  const Machine &machine = *input.machine;
  PlanPart part;
  part.model = step.name;
  part.cluster = machine.name;
  part.device = machine.device.name;
  part.type = step.type;
  part.ratedAs = ratedAsOther(machine.device, step.type);
  part.batch = step.batch;
  part.sequence = step.sequence;
  part.parameters = step.parameters();
  part.devices = devicesOf(input);
  part.spares = part.devices - plan.outer.ranks();
  part.sharesMachine = machine.device.target == BackendTarget::Cpu;
  part.perUnit = input.perUnit;
  part.filledSec = input.filledSec;
  if (input.perUnit > 0)
    part.unit = machine.tiers.front().name;
  part.outer = plan.outer;
  part.axes = axesOf(input, plan);
  for (auto [i, stage] : llvm::enumerate(plan.stages))
    part.stages.push_back(
        describeStage(step, plan.outer, stage, static_cast<int64_t>(i)));
  std::vector<int64_t> counts(step.kinds.size());
  for (const LayerRun &run : step.runs)
    counts[run.kind] += run.count;
  for (size_t kind = 0; kind < counts.size(); ++kind)
    part.kinds.push_back(
        describeKind(input, plan, static_cast<int>(kind), counts[kind]));
  part.state = stateWords(plan.outer);
  bool sharesExperts = plan.outer.ep > 1 && !expertCargo(input, plan).empty();
  part.holdsAllExperts = plan.outer.ep > 1 && !sharesExperts;
  if (input.asked)
    part.idlePins = idlePins(*input.asked, plan.outer, sharesExperts);
  return part;
}
