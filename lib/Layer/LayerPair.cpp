//===- LayerPair.cpp - two axes of a layer as one factor graph ------------===//
//
// Problem: one axis after the other finds a layout that no single axis can
// improve. How far is it from the best?
//
// Idea: every variable becomes a pair of states, one per axis. A table of an
// axis stays as it is, but its bytes shrink where the other axis shards the
// value that travels, so it also knows the maker of that value. Time of ops and
// price of bytes depend on both states of one variable only.
//
// Example: y = x w on axes of 2 and 2. The matmul's states are pairs of
// options, (rows, outputs) among them; its unary table has the time of a
// quarter. The gather of x over the second axis moves half the bytes for pairs
// whose first part shards x in rows.
//
// Cost: tables of matmuls of states: small layers only, or what bounds leave.
//
//===----------------------------------------------------------------------===//

#include "LayerGraph.h"

using namespace kerf;

PairGraph::PairGraph(const LayerTerms &terms, int first, int second)
    : terms(terms), axes({first, second}) {
  for (int side = 0; side < 2; ++side) {
    double part = 1 / double(terms.ranks[axes[1 - side]]);
    sides[side] = buildLayerGraph(terms, axes[side], {});
    shardedSides[side] = buildLayerGraph(terms, axes[side], {}, part);
    possible &= sides[side].possible;
    numbers[side].assign(sides[side].graph.domains.size(), -1);
  }
  if (!possible)
    return;
  addVariables();
  if (!possible)
    return;
  addOps();
  addMemory();
  for (int side = 0; side < 2; ++side)
    addTraffic(side);
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

void PairGraph::addPair(int first, int second, std::vector<Pair> allowed) {
  if (first < 0 && second < 0)
    return;
  int number = graph.addVariable(static_cast<int>(allowed.size()));
  possible &= !allowed.empty();
  variables.push_back({first, second});
  states.push_back(std::move(allowed));
  if (first >= 0)
    numbers[0][first] = number;
  if (second >= 0)
    numbers[1][second] = number;
}

static bool sameOption(const OpOption &a, const OpOption &b) {
  return a.factor == b.factor && a.outer == b.outer && a.passes == b.passes &&
         a.variant == b.variant;
}

/// Per op the pairs of options that divide what the other one leaves.
std::vector<std::vector<PairGraph::Pair>> PairGraph::allowedOptions() const {
  std::vector<std::vector<Pair>> all(terms.kind.ops.size());
  // Options of a side that stay under the other side's option number `k`.
  auto stay = [&](int side, size_t k) {
    LayerLayout layout;
    for (const auto &own : sides[1 - side].options)
      layout.axes[axes[1 - side]].ops.push_back(own[k % own.size()]);
    return terms.options(axes[side], layout);
  };
  auto isIn = [](const std::vector<OpOption> &list, const OpOption &option) {
    return llvm::any_of(
        list, [&](const OpOption &other) { return sameOption(option, other); });
  };
  size_t most = 0;
  for (const LayerGraph &side : sides)
    for (const auto &own : side.options)
      most = std::max(most, own.size());
  std::array<std::vector<std::vector<std::vector<OpOption>>>, 2> staying;
  for (int side = 0; side < 2; ++side)
    for (size_t k = 0; k < most; ++k)
      staying[side].push_back(stay(side, k));
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t a = 0; a < sides[0].options[i].size(); ++a)
      for (size_t b = 0; b < sides[1].options[i].size(); ++b)
        if (isIn(staying[0][b][i], sides[0].options[i][a]) &&
            isIn(staying[1][a][i], sides[1].options[i][b]))
          all[i].push_back({a, b});
  return all;
}

void PairGraph::addVariables() {
  auto both = [&](int first, int second) {
    std::vector<Pair> all;
    int count = first < 0 ? 1 : sides[0].graph.domains[first];
    int other = second < 0 ? 1 : sides[1].graph.domains[second];
    for (int a = 0; a < count; ++a)
      for (int b = 0; b < other; ++b)
        all.push_back({a, b});
    addPair(first, second, std::move(all));
  };
  auto allowed = allowedOptions();
  for (size_t i = 0; i < allowed.size(); ++i)
    addPair(sides[0].opVariables[i], sides[1].opVariables[i],
            std::move(allowed[i]));
  both(sides[0].input.variable, sides[1].input.variable);
  both(sides[0].outputGradient.variable, sides[1].outputGradient.variable);
  for (auto list : {&LayerGraph::sharedForward, &LayerGraph::sharedBackward,
                    &LayerGraph::kept, &LayerGraph::weights})
    for (auto [first, second] : llvm::zip(sides[0].*list, sides[1].*list))
      both(first.variable, second.variable);
}

/// The state of a side's part of a variable.
int PairGraph::stateOf(int side, int number, int state) const {
  const Pair &pair = states[number][state];
  return side == 0 ? pair.first : pair.second;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

void PairGraph::addOps() {
  LayerLayout layout;
  for (int axis : axes)
    layout.axes[axis].ops.resize(terms.kind.ops.size());
  for (size_t i = 0; i < terms.kind.ops.size(); ++i)
    graph.addTable({int(i)}, [&](const std::vector<int> &s) {
      for (int side = 0; side < 2; ++side)
        layout.axes[axes[side]].ops[i] =
            sides[side].options[i][stateOf(side, i, s[0])];
      double own = 0;
      for (int axis : axes)
        own += terms.variantSec(i, layout.axes[axis].ops[i], axis, layout);
      return addCost(toPicoseconds(terms.timeOf(i, layout).seconds),
                     toPicoseconds(terms.query.commWeight * own));
    });
}

/// Prices of kept values and of state.
void PairGraph::addMemory() {
  auto add = [&](const std::array<const StateVariable *, 2> &parts,
                 double seconds) {
    int number = numbers[0][parts[0]->variable];
    graph.addTable({number}, [&](const std::vector<int> &s) {
      double share = 1;
      for (int side = 0; side < 2; ++side)
        share *= terms.heldShare(
            parts[side]->states[stateOf(side, number, s[0])], axes[side]);
      return toPicoseconds(seconds * share);
    });
  };
  const LayerQuery &query = terms.query;
  for (size_t v = 0; v < terms.kind.values.size(); ++v)
    if (sides[0].kept[v].variable >= 0)
      add({&sides[0].kept[v], &sides[1].kept[v]},
          std::max(query.keptPrice, kLeastPrice) * terms.bytesOf(v, {}, -1));
  for (size_t p = 0; p < terms.kind.params.size(); ++p) {
    const LayerParam &param = terms.kind.params[p];
    double bytes = param.weightBytes;
    if (param.trainable)
      bytes += param.gradientBytes + param.masterBytes + param.stateBytes;
    add({&sides[0].weights[p], &sides[1].weights[p]},
        std::max(query.statePrice, kLeastPrice) * bytes * param.elements);
    if (param.trainable && terms.facts.gradients[p] >= 0)
      addExcess(p);
  }
}

/// The price of a gradient that lies in larger parts than its weight.
void PairGraph::addExcess(int p) {
  int value = terms.facts.gradients[p];
  int op = terms.kind.values[value].producer;
  const auto &results = terms.kind.ops[op].results;
  auto result = llvm::find(results, value) - results.begin();
  int maker = numbers[0][sides[0].opVariables[op]];
  int weight = numbers[0][sides[0].weights[p].variable];
  double price = excessPrice(terms.query);
  graph.addTable({maker, weight}, [&](const std::vector<int> &s) {
    double made = 1, rests = 1;
    for (int side = 0; side < 2; ++side) {
      const LayerGraph &own = sides[side];
      int option = stateOf(side, maker, s[0]);
      int state = stateOf(side, weight, s[1]);
      made *=
          terms.heldShare(own.options[op][option].results[result], axes[side]);
      rests *=
          splitShare(own.weights[p].states[state], terms.ranks[axes[side]]);
    }
    return toPicoseconds(price * gradientExcess(terms, p, {}, -1, rests, made));
  });
}

/// The variable of a side that says in which state a value is made, with its
/// states; -1: always whole.
static std::pair<int, std::vector<AxisState>>
makerOf(const LayerGraph &side, const LayerKind &kind, TableSubject subject) {
  int value = subject.value;
  int param = value < 0 ? subject.param : kind.values[value].param;
  if (param >= 0)
    return {side.weights[param].variable, side.weights[param].states};
  if (value == kind.input)
    return {side.input.variable, side.input.states};
  if (value == kind.outputGradient)
    return {side.outputGradient.variable, side.outputGradient.states};
  int op = kind.values[value].producer;
  if (op < 0)
    return {-1, {}};
  auto at =
      llvm::find(kind.ops[op].results, value) - kind.ops[op].results.begin();
  std::vector<AxisState> states;
  for (const OpOption &option : side.options[op])
    states.push_back(option.results[at]);
  return {side.opVariables[op], std::move(states)};
}

void PairGraph::addTraffic(int side) {
  const LayerGraph &own = sides[side];
  const LayerGraph &other = sides[1 - side];
  for (size_t t = 0; t < own.graph.tables.size(); ++t) {
    TableSubject subject = own.subjects[t];
    if (subject.value < 0 && subject.param < 0)
      continue;
    const CostTable &whole = own.graph.tables[t];
    const CostTable &part = shardedSides[side].graph.tables[t];
    auto [maker, made] = makerOf(other, terms.kind, subject);
    std::vector<int> list;
    for (int variable : whole.variables)
      list.push_back(numbers[side][variable]);
    int makerNumber = maker < 0 ? -1 : numbers[1 - side][maker];
    size_t at = llvm::find(list, makerNumber) - list.begin();
    if (maker >= 0 && at == list.size())
      list.push_back(makerNumber);
    std::vector<int> chosen(own.graph.domains.size(), 0);
    graph.addTable(list, [&](const std::vector<int> &s) {
      for (auto [i, variable] : llvm::enumerate(whole.variables))
        chosen[variable] = stateOf(side, list[i], s[i]);
      AxisState state = maker >= 0 ? made[stateOf(1 - side, makerNumber, s[at])]
                                   : kReplicated;
      // Rooms of routed rows travel whole.
      bool isRoom = terms.isOurs && isRagged(state);
      bool isSharded = isSplit(state) && !isRoom;
      return (isSharded ? part : whole).at(own.graph.domains, chosen);
    });
  }
}

LayerLayout PairGraph::decode(llvm::ArrayRef<int> chosen) const {
  LayerLayout layout;
  for (int side = 0; side < 2; ++side) {
    std::vector<int> own(sides[side].graph.domains.size(), 0);
    for (size_t v = 0; v < own.size(); ++v)
      own[v] = stateOf(side, numbers[side][v], chosen[numbers[side][v]]);
    layout.axes[axes[side]] = sides[side].decode(own);
  }
  return layout;
}
