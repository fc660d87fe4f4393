//===- ExplainCollectives.cpp - what ranks of a plan send each other ------===//
//
// Problem: a step is priced from the collectives of its layers, those of data
// ranks, and messages between stages. Which are these, how many, and how large?
//
// Idea: they are asked of the functions that price them (`sumCosts`,
// `visitLayerExchanges`, `visitStepExchanges`), and added up by kind and by the
// axes of the mesh that their groups are. So seconds are those of the price,
// and calls and bytes can be compared with what compiled programs send.
//
// Example: 40 layers on two stages, tp 2, dp 4, 8 micro-batches, ZeRO 1. With 4
// gathers over tp in a layer, a rank makes 20 x 8 x 4 = 640 of them; its
// gradients are one reduce-scatter over dp.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/ExplainDetail.h"
#include "kerf/Search/Pricing.h"

#include "kerf/Report/Report.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace kerf;
using namespace kerf::search_detail;

namespace {
/// An axis of the mesh of programs.
struct NamedAxis {
  std::string name;
  Group group;
};

/// Adds up the collectives of one plan.
class Account {
public:
  Account(const ExplainInput &input, const SearchProblem &problem,
          const PlanPoint &plan)
      : input(input), plan(plan), outer(plan.outer),
        memo(*problem.machine, problem.profile),
        pricing(problem, plan.outer, memo), axes(axesOf(plan.outer)) {}

  std::vector<PricedCollective> rows();

private:
  static std::vector<NamedAxis> axesOf(const OuterChoice &outer);
  std::string namesOf(llvm::ArrayRef<Group> groups) const;
  void add(llvm::StringRef kind, const std::string &over, double calls,
           double bytes, double sec);
  void add(const DataExchange &exchange, double times);
  void addLayers(const PlacedLayers &layers, LayerPrice &once);
  void addEnds();
  void addTiedMoves();

  const ExplainInput &input;
  const PlanPoint &plan;
  const OuterChoice &outer;
  GroupMemo memo;
  Pricing pricing;
  std::vector<NamedAxis> axes; ///< the slowest first
  std::map<std::pair<std::string, std::string>, PricedCollective> sums;
};
} // namespace

/// As the stages plan and partition name them: state that is sharded over a
/// part of an axis splits it.
std::vector<NamedAxis> Account::axesOf(const OuterChoice &outer) {
  std::vector<NamedAxis> axes;
  int64_t stride = 1, shards = outer.zero > 0 ? outer.shardGroup : 1;
  auto push = [&](llvm::StringRef name, int64_t size) {
    if (size > 1)
      axes.push_back({name.str(), {size, stride}});
    stride *= size;
  };
  auto pushData = [&](llvm::StringRef name, int64_t size) {
    if (shards > 1 && shards % size != 0) {
      push((name + ".shard").str(), shards);
      push(name, size / shards);
      shards = 1;
      return;
    }
    push(name, size);
    shards = std::max<int64_t>(1, shards / size);
  };
  for (MeshAxis axis : outer.order)
    switch (axis) {
    case MeshAxis::Tensor:
      push("tp", outer.tp);
      break;
    case MeshAxis::Context:
      pushData("cp", outer.cp);
      break;
    case MeshAxis::Data:
      pushData("ep", outer.ep);
      pushData("dp", outer.dp / outer.ep);
      break;
    case MeshAxis::Pipeline:
      push("pp", outer.pp);
      break;
    }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

/// The axes whose ranks are in groups.
std::string Account::namesOf(llvm::ArrayRef<Group> groups) const {
  llvm::SmallVector<llvm::StringRef, 4> names;
  for (const NamedAxis &axis : axes)
    for (Group group : groups)
      if (group.size > 1 && axis.group.stride >= group.stride &&
          axis.group.stride < group.stride * group.size)
        names.push_back(axis.name);
  return llvm::join(names, " ");
}

void Account::add(llvm::StringRef kind, const std::string &over, double calls,
                  double bytes, double sec) {
  if (over.empty() || bytes <= 0)
    return;
  double part = 1 / double(plan.stages.size());
  PricedCollective &sum = sums[{kind.str(), over}];
  sum.kind = kind.str();
  sum.axes = over;
  sum.calls += part * calls;
  sum.bytes += part * bytes;
  sum.sec += part * sec;
}

void Account::add(const DataExchange &exchange, double times) {
  add(nameOf(exchange.kind), namesOf(*exchange.groups), times * exchange.calls,
      times * exchange.bytes, times * exchange.sec(memo));
}

void Account::addLayers(const PlacedLayers &layers, LayerPrice &once) {
  auto count = double(layers.count);
  double times = count * double(outer.microBatches);
  TableKey key = keyOf(outer, layers.kind);
  for (const LayerCollective &own :
       input.collectivesOf(layers.kind, layers.point)) {
    if (own.whenDeferred && !splitsWeightGradient(outer.schedule))
      continue;
    double calls = own.perStep ? count : times;
    llvm::SmallVector<Group, kInnerAxes> groups;
    for (size_t axis = 0; axis < kInnerAxes; ++axis)
      if (axis == static_cast<size_t>(own.axis) || own.others >> axis & 1)
        groups.push_back(key.groups[axis]);
    double part = 1;
    if (own.pieceSec > 0 && input.profile.fused)
      part /= double(pricing.shards(own.ofExperts, layers.point));
    double each = calls * double(own.times);
    add(nameOf(own.kind), namesOf(groups), each, each * own.bytes * part,
        calls * (own.sec - own.pieceSec * (1 - part)));
  }
  LayerPrice price = priceOf(pricing, layers.kind, layers.point);
  visitLayerExchanges(pricing, price, [&](const DataExchange &exchange) {
    add(exchange, times);
  });
  addOnce(once, price, count);
}

/// Messages between stages, and the gradients that both ends have.
void Account::addEnds() {
  if (outer.pp == 1)
    return;
  double m = double(outer.microBatches);
  double calls = double(outer.pp * plan.work.chunks - 1) * m;
  MessageBytes messages = messageBytes(pricing.problem, plan);
  auto addMessages = [&](const char *channel, double bytes) {
    std::vector<double> secs = sendSecs(pricing.problem, outer, bytes);
    add("message", channel, calls, calls * bytes,
        m * journeySec(secs, plan.work.chunks));
  };
  addMessages("forward", messages.forward);
  addMessages("backward", messages.backward);
  for (const PlacedLayers &layers : plan.stages.back().chunks.back().layers)
    if (double bytes = tiedBytes(pricing, layers.point); bytes > 0)
      add("message", "update", 2, 2 * bytes,
          2 * tiedSec(pricing.problem, outer, bytes));
}

/// What moves a tied table between the layouts of embedding and head.
void Account::addTiedMoves() {
  for (const TiedMove &move : tiedMoves(pricing, plan)) {
    double calls = move.calls * (move.isGradient && outer.pp > 1 ? 2 : 1);
    add(nameOf(move.kind), namesOf(move.group), calls, calls * move.bytes,
        calls / move.calls * move.sec(memo));
  }
}

std::vector<PricedCollective> Account::rows() {
  for (const PlacedStage &stage : plan.stages) {
    LayerPrice once;
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers)
        addLayers(layers, once);
    visitStepExchanges(pricing, once,
                       [&](const DataExchange &exchange) { add(exchange, 1); });
  }
  addEnds();
  addTiedMoves();
  std::vector<PricedCollective> rows;
  for (auto &[key, row] : sums)
    rows.push_back(std::move(row));
  return rows;
}

std::vector<PricedCollective> kerf::priceCollectives(const ExplainInput &input,
                                                     const PlanPoint &plan) {
  if (!input.collectivesOf)
    return {};
  SearchProblem problem;
  problem.machine = input.machine;
  problem.profile = input.profile;
  for (const LayerRun &run : input.step->runs)
    problem.runs.push_back({run.kind, run.count});
  problem.hasEmbedding = input.step->embedding() >= 0;
  problem.hasHead = input.step->head() >= 0;
  problem.tiedShards = input.tiedShards;
  return Account(input, problem, plan).rows();
}
