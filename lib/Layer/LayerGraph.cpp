//===- LayerGraph.cpp - one axis of a layer as a factor graph -------------===//
//
// Variables and tables (search-notes of the design have the list): the option
// of every op; per value with several readers in a pass the state they share;
// per forward value that the backward pass reads the state in which it is kept,
// or that it is recomputed; where weights, gradients and optimizer state rest;
// the states at the layer's borders. Tables are over one op (its time), a
// value's maker and its reader (the conversion), or three (with a shared state
// between).
//
// Example: y = x w with x sharded in tokens over 4 ranks, w in outputs. Option
// n of the matmul needs x replicated: the pair table of (state of x, option)
// holds an all-gather there, 0 for option `tokens`, whose result then is
// sharded in tokens.
//
//===----------------------------------------------------------------------===//

#include "LayerGraph.h"

#include "BesideTraffic.h"

using namespace kerf;

namespace {

class GraphBuilder {
public:
  GraphBuilder(const LayerTerms &terms, int axis, const LayerLayout &layout,
               double traffic)
      : terms(terms), kind(terms.kind), facts(terms.facts), query(terms.query),
        layout(layout), ranks(terms.ranks[axis]), traffic(traffic) {
    out.axis = axis;
  }

  LayerGraph build() {
    addOps();
    if (!out.possible)
      return std::move(out);
    collectStates();
    addBoundaries();
    addParams();
    addKept();
    addShared();
    for (size_t v = 0; v < kind.values.size(); ++v)
      if (out.kept[v].variable >= 0)
        addKeeping(v);
    addReaders();
    addEnds();
    if (query.recompute)
      addRecomputation();
    out.subjects.resize(out.graph.tables.size());
    return std::move(out);
  }

private:
  const LayerTerms &terms;
  const LayerKind &kind;
  const LayerFacts &facts;
  const LayerQuery &query;
  const LayerLayout &layout;
  int64_t ranks;
  double traffic; ///< part of the bytes that travel
  LayerGraph out;
  std::vector<std::vector<AxisState>> states; ///< of values, not pending

  int axis() const { return out.axis; }
  int64_t comm(double seconds) const {
    return toPicoseconds(seconds * query.commWeight);
  }
  double convert(AxisState from, AxisState to, const Moving &what) const {
    return terms.convertSec(axis(), from, to, what);
  }
  /// What it takes to bring a value of a pass into another state. Programs hide
  /// sums, and gathers of what the forward pass made, beside matmuls of the
  /// backward pass (BesideTraffic.cpp): a bound counts the latter.
  int64_t brought(bool backward, int value, AxisState from, AxisState to,
                  const Moving &what) const {
    bool isHidden =
        query.ideal && backward && mayHide(terms, axis(), value, from);
    double sec = convert(from, to, what);
    return comm(isHidden && sec < kImpossibleSec ? 0 : sec);
  }
  Moving movingOf(int value) const {
    Moving what = terms.movingOf(value, layout, axis());
    what.bytes *= traffic;
    return what;
  }
  /// Adds a table of traffic of a value or a parameter.
  template <typename Fn>
  void addTraffic(TableSubject subject, std::vector<int> variables, Fn cost) {
    out.subjects.resize(out.graph.tables.size());
    out.graph.addTable(std::move(variables), cost);
    out.subjects.push_back(subject);
  }

  static void note(std::vector<AxisState> &states, AxisState state) {
    if (state >= 0 && !llvm::is_contained(states, state))
      states.push_back(state);
  }
  StateVariable variableOf(std::vector<AxisState> states) {
    StateVariable variable;
    llvm::sort(states);
    variable.variable = out.graph.addVariable(states.size());
    variable.states = std::move(states);
    return variable;
  }

  void addOps() {
    out.options = terms.options(axis(), layout);
    for (size_t i = 0; i < kind.ops.size(); ++i) {
      const auto &options = out.options[i];
      out.possible &= !options.empty();
      out.opVariables.push_back(out.graph.addVariable(options.size()));
      if (options.empty())
        continue;
      out.graph.addTable({out.opVariables[i]}, [&](const std::vector<int> &s) {
        const OpOption &option = options[s[0]];
        double own = terms.variantSec(i, option, axis(), layout);
        return addCost(
            toPicoseconds(terms.timeOf(i, layout, axis(), &option).seconds),
            comm(own));
      });
    }
  }

  /// The states in which each value is made or wanted.
  void collectStates() {
    states.assign(kind.values.size(), {kReplicated});
    for (size_t i = 0; i < kind.ops.size(); ++i)
      for (const OpOption &option : out.options[i]) {
        for (auto [value, state] :
             llvm::zip(kind.ops[i].operands, option.operands))
          note(states[value], state);
        for (auto [value, state] :
             llvm::zip(kind.ops[i].results, option.results))
          note(states[value], state);
      }
  }

  std::vector<AxisState> boundaryStates(int in, int made, AxisState wanted) {
    if (wanted >= 0)
      return {wanted};
    std::vector<AxisState> all = {kReplicated};
    for (int value : {in, made})
      if (value >= 0)
        for (AxisState state : states[value])
          note(all, state);
    return all;
  }

  void addBoundaries() {
    if (kind.input >= 0 || kind.output >= 0)
      out.input = variableOf(
          boundaryStates(kind.input, kind.output, query.input[axis()]));
    if (kind.outputGradient >= 0 || kind.inputGradient >= 0)
      out.outputGradient =
          variableOf(boundaryStates(kind.outputGradient, kind.inputGradient,
                                    query.outputGradient[axis()]));
  }

  //===--------------------------------------------------------------------===//
  // Parameters
  //===--------------------------------------------------------------------===//

  bool restFree() const { return query.restFree && axis() == kInnerTensor; }

  void addParams() {
    size_t count = kind.params.size();
    out.weights.resize(count);
    out.gradients.resize(count);
    out.optimizers.resize(count);
    for (size_t p = 0; p < count; ++p) {
      std::vector<AxisState> rests = {kReplicated};
      for (size_t v = 0; v < kind.values.size(); ++v)
        if (kind.values[v].param == int(p) ||
            kind.values[v].gradientOf == int(p))
          for (AxisState state : states[v])
            note(rests, state);
      out.weights[p] = variableOf(rests);
      if (restFree() && kind.params[p].trainable) {
        out.optimizers[p] = variableOf(rests);
        rests.push_back(kPending);
        out.gradients[p] = variableOf(rests);
      }
      addResting(p);
      for (size_t v = 0; v < kind.values.size(); ++v)
        if (kind.values[v].gradientOf == int(p))
          addGradient(p, v);
    }
  }

  /// Prices of resting bytes, the update and what it moves, once per step.
  void addResting(int p) {
    const LayerParam &param = kind.params[p];
    double elements =
        terms.paramElements(p, layout, axis(), &AxisLayout::Rest::weight);
    double price = std::max(query.statePrice, leastPrice(query));
    double state = param.masterBytes + param.stateBytes;
    const StateVariable &weight = out.weights[p];
    bool apart = out.optimizers[p].variable >= 0;
    double bytes = param.weightBytes;
    if (!apart && param.trainable)
      bytes += param.gradientBytes + state;
    addPrice(weight, price * bytes * elements);
    if (param.trainable && param.gramSteps > 0)
      addGramUpdate(p, weight);
    if (!apart)
      return;
    addPrice(out.gradients[p], price * param.gradientBytes * elements);
    const Device &device = terms.device;
    double update = terms.context.profile.updateBytes * elements /
                    (device.memoryBytesPerSec * device.efficiency.memory);
    addPrice(out.optimizers[p], price * state * elements + update / steps());
    addMove(out.gradients[p], out.optimizers[p],
            param.gradientBytes * elements);
    addMove(out.optimizers[p], weight, param.weightBytes * elements);
  }
  double steps() const { return double(query.microBatches); }

  /// Matmuls in the update, and their sums over ranks.
  void addGramUpdate(int p, const StateVariable &weight) {
    out.graph.addTable({weight.variable}, [&](const std::vector<int> &s) {
      GramUpdate update =
          terms.gramUpdate(p, layout, axis(), weight.states[s[0]]);
      return toPicoseconds(terms.matmulSecOf(update) / steps()) +
             comm(terms.sumSec(update) / steps());
    });
  }

  void addPrice(const StateVariable &variable, double seconds) {
    out.graph.addTable({variable.variable}, [&](const std::vector<int> &s) {
      return toPicoseconds(seconds * share(variable.states[s[0]]));
    });
  }
  double share(AxisState state) const { return splitShare(state, ranks); }

  /// A conversion once per step.
  void addMove(const StateVariable &from, const StateVariable &to,
               double bytes) {
    out.graph.addTable(
        {from.variable, to.variable}, [&](const std::vector<int> &s) {
          return comm(convert(from.states[s[0]], to.states[s[1]], bytes) /
                      steps());
        });
  }

  void addGradient(int p, int value) {
    const LayerParam &param = kind.params[p];
    if (kind.values[value].producer < 0)
      return;
    bool apart = out.gradients[p].variable >= 0;
    const StateVariable &rest = apart ? out.gradients[p] : out.weights[p];
    auto [op, result] = makerOf(value);
    if (!apart && !query.restFree)
      addExcess(p, value);
    // Outside the tensor axis replicas of state are the outer search's
    // business.
    if (!apart && axis() != kInnerTensor)
      return;
    double bytes =
        traffic * param.gradientBytes *
        terms.paramElements(p, layout, axis(), &AxisLayout::Rest::weight);
    double times = apart ? 1 : steps();
    addTraffic({-1, p}, {out.opVariables[op], rest.variable},
               [&, op = op, result = result](const std::vector<int> &s) {
                 return comm(convert(out.options[op][s[0]].results[result],
                                     rest.states[s[1]], bytes) /
                             times);
               });
  }

  /// The price of a gradient that lies in larger parts than its weight.
  void addExcess(int p, int value) {
    const StateVariable &weight = out.weights[p];
    bool matters = axis() == kInnerTensor || weight.states.size() > 1;
    if (!kind.params[p].trainable || !matters)
      return;
    double price = excessPrice(query);
    auto [op, result] = makerOf(value);
    out.graph.addTable(
        {out.opVariables[op], weight.variable},
        [&, op = op, result = result](const std::vector<int> &s) {
          AxisState made = out.options[op][s[0]].results[result];
          return toPicoseconds(price *
                               gradientExcess(terms, p, layout, axis(),
                                              share(weight.states[s[1]]),
                                              terms.heldShare(made, axis())));
        });
  }

  std::pair<int, int> makerOf(int value) const {
    int op = kind.values[value].producer;
    const auto &results = kind.ops[op].results;
    return {op, static_cast<int>(llvm::find(results, value) - results.begin())};
  }

  //===--------------------------------------------------------------------===//
  // Values
  //===--------------------------------------------------------------------===//

  /// Where a value comes from: a variable and the state that it means.
  struct Source {
    int variable = -1;
    std::vector<AxisState> states; ///< by state of the variable
  };

  Source madeSource(int value) const {
    if (value == kind.input)
      return {out.input.variable, out.input.states};
    if (value == kind.outputGradient)
      return {out.outputGradient.variable, out.outputGradient.states};
    int param = kind.values[value].param;
    if (param >= 0)
      return {out.weights[param].variable, out.weights[param].states};
    if (kind.values[value].producer < 0)
      return {};
    auto [op, result] = makerOf(value);
    Source source{out.opVariables[op], {}};
    for (const OpOption &option : out.options[op])
      source.states.push_back(option.results[result]);
    return source;
  }

  Source sourceOf(int value, bool backward) const {
    if (backward && out.kept[value].variable >= 0)
      return {out.kept[value].variable, out.kept[value].states};
    return madeSource(value);
  }

  /// The state in which values are kept, with the price of their bytes.
  void addKept() {
    out.kept.resize(kind.values.size());
    for (size_t v = 0; v < kind.values.size(); ++v) {
      bool wanted = facts.readBack[v];
      if (!facts.forwardValues[v] || (!wanted && !query.recompute))
        continue;
      StateVariable &kept = out.kept[v];
      kept.states = states[v];
      llvm::sort(kept.states);
      kept.again.assign(kept.states.size(), false);
      if (query.recompute && kind.values[v].producer >= 0) {
        Source made = madeSource(v);
        for (AxisState state : made.states)
          if (!mayBe(kept, state, /*again=*/true)) {
            kept.states.push_back(state);
            kept.again.push_back(true);
          }
      }
      if (!wanted) {
        kept.states.push_back(kNotKept);
        kept.again.push_back(false);
      }
      kept.variable = out.graph.addVariable(kept.states.size());
    }
  }
  /// True where a value may be kept in a state or, with `again`, recomputed in
  /// it.
  static bool mayBe(const StateVariable &kept, AxisState state, bool again) {
    for (auto [other, isAgain] : llvm::zip(kept.states, kept.again))
      if (isAgain == again && other == state)
        return true;
    return false;
  }

  void addKeeping(int value) {
    const StateVariable &kept = out.kept[value];
    Source made = madeSource(value);
    Moving what = movingOf(value);
    const StateVariable &shared = out.sharedForward[value];
    std::vector<int> variables = {made.variable, kept.variable};
    if (shared.variable >= 0)
      variables.push_back(shared.variable);
    addTraffic({value}, variables, [&](const std::vector<int> &s) {
      AxisState from = made.states[s[0]], to = kept.states[s[1]];
      if (to == kNotKept)
        return int64_t(0);
      if (kept.again[s[1]])
        return from == to ? int64_t(0) : kInfiniteCost;
      // Programs keep a value as it is made, sums that are still to be made
      // apart.
      if (terms.isOurs && from != to && from >= kReplicated &&
          mayBe(kept, from, /*again=*/false))
        return kInfiniteCost;
      double seconds = convert(from, to, what);
      if (s.size() > 2 && shared.states[s[2]] != kNotKept)
        seconds = std::min(seconds, convert(shared.states[s[2]], to, what));
      return comm(seconds);
    });
    double price = std::max(query.keptPrice, leastPrice(query));
    double whole = terms.heldBytesOf(value, layout, axis(), /*kept=*/true);
    out.graph.addTable({kept.variable}, [&](const std::vector<int> &s) {
      bool isKept = kept.states[s[0]] != kNotKept && !kept.again[s[0]];
      return isKept ? toPicoseconds(price * whole *
                                    terms.heldShare(kept.states[s[0]], axis()))
                    : int64_t(0);
    });
  }

  void addShared() {
    out.sharedForward.resize(kind.values.size());
    out.sharedBackward.resize(kind.values.size());
    for (size_t v = 0; v < kind.values.size(); ++v)
      for (bool backward : {false, true}) {
        const auto &readers =
            backward ? facts.backwardReaders[v] : facts.forwardReaders[v];
        if (readers.size() < 2 || kind.values[v].param >= 0 ||
            terms.isExternal(v))
          continue;
        Source source = sourceOf(v, backward);
        if (states[v].size() < 2 &&
            !llvm::is_contained(source.states, kPending))
          continue; // nothing is converted
        std::vector<AxisState> all = states[v];
        all.push_back(kNotKept); // none is shared
        StateVariable &shared =
            backward ? out.sharedBackward[v] : out.sharedForward[v];
        shared = variableOf(all);
        Moving what = movingOf(v);
        addTraffic({int(v)}, {source.variable, shared.variable},
                   [&](const std::vector<int> &s) {
                     AxisState from = source.states[s[0]],
                               to = shared.states[s[1]];
                     return to == kNotKept || from == kNotKept
                                ? int64_t(0)
                                : brought(backward, v, from, to, what);
                   });
      }
  }

  void addReaders() {
    for (size_t i = 0; i < kind.ops.size(); ++i)
      for (size_t k = 0; k < kind.ops[i].operands.size(); ++k)
        addReader(i, k);
  }

  void addReader(int op, int operand) {
    int value = kind.ops[op].operands[operand];
    bool backward = kind.ops[op].phase != LayerPhase::Forward;
    const auto &options = out.options[op];
    Source source = sourceOf(value, backward);
    if (source.variable < 0) { // an input of the model: whole, never pending
      out.graph.addTable({out.opVariables[op]}, [&](const std::vector<int> &s) {
        return options[s[0]].operands[operand] == kPending ? kInfiniteCost : 0;
      });
      return;
    }
    const StateVariable &shared =
        backward ? out.sharedBackward[value] : out.sharedForward[value];
    Moving what = movingOf(value);
    if (terms.isOurs && facts.convertsAgain[op])
      addAgain(op, operand, source);
    bool whole = kind.values[value].param >= 0 && !restFree();
    auto direct = [&](AxisState from, AxisState to) {
      if (from == kNotKept || (whole && isSplit(from) && from != to))
        return kInfiniteCost;
      return brought(backward, value, from, to, what);
    };
    if (shared.variable < 0) {
      addTraffic({value}, {source.variable, out.opVariables[op]},
                 [&](const std::vector<int> &s) {
                   return direct(source.states[s[0]],
                                 options[s[1]].operands[operand]);
                 });
      return;
    }
    addTraffic({value}, {source.variable, shared.variable, out.opVariables[op]},
               [&](const std::vector<int> &s) {
                 AxisState between = shared.states[s[1]];
                 AxisState to = options[s[2]].operands[operand];
                 int64_t cost = direct(source.states[s[0]], to);
                 return between == kNotKept
                            ? cost
                            : std::min(cost, direct(between, to));
               });
  }

  /// The backward pass converts what a view shows once more.
  void addAgain(int op, int operand, const Source &source) {
    int value = kind.ops[op].operands[operand];
    Moving what = movingOf(value);
    addTraffic({value}, {source.variable, out.opVariables[op]},
               [&](const std::vector<int> &s) {
                 return brought(/*backward=*/true, value, source.states[s[0]],
                                out.options[op][s[1]].operands[operand], what);
               });
  }

  /// What the layer hands on lies as what it was handed. Where it chooses that
  /// itself it is what it makes.
  void addEnds() {
    auto end = [&](int value, const StateVariable &boundary, bool isChosen,
                   bool backward) {
      if (value < 0 || boundary.variable < 0 || kind.values[value].producer < 0)
        return;
      Source made = madeSource(value);
      Moving what = movingOf(value);
      addTraffic({value}, {made.variable, boundary.variable},
                 [&](const std::vector<int> &s) {
                   AxisState from = made.states[s[0]];
                   AxisState to = boundary.states[s[1]];
                   bool isElse = isChosen && from != to && isHandedOn(from);
                   return isElse ? comm(kImpossibleSec)
                                 : brought(backward, value, from, to, what);
                 });
    };
    end(kind.output, out.input, kind.input >= 0 && query.input[axis()] < 0,
        /*backward=*/false);
    end(kind.inputGradient, out.outputGradient,
        kind.outputGradient >= 0 && query.outputGradient[axis()] < 0,
        /*backward=*/true);
  }

  //===--------------------------------------------------------------------===//
  // Recomputation
  //===--------------------------------------------------------------------===//

  /// Making a value again costs its op again, and the op's operands must be
  /// there.
  void addRecomputation() {
    for (size_t i = 0; i < kind.ops.size(); ++i)
      if (kind.ops[i].phase == LayerPhase::Forward)
        addMadeAgain(i);
  }

  void addMadeAgain(int op) {
    const LayerOp &facts = kind.ops[op];
    const StateVariable &first = out.kept[facts.results[0]];
    if (first.variable < 0)
      return;
    out.graph.addTable(
        {out.opVariables[op], first.variable}, [&](const std::vector<int> &s) {
          const OpOption &option = out.options[op][s[0]];
          if (!isMadeAgain(first, s[1]))
            return int64_t(0);
          double own = terms.variantSec(op, option, axis(), layout);
          return addCost(
              toPicoseconds(
                  terms.timeOf(op, layout, axis(), &option, /*again=*/true)
                      .seconds),
              comm(own));
        });
    for (size_t r = 1; r < facts.results.size(); ++r)
      addTogether(first, out.kept[facts.results[r]]);
    for (size_t k = 0; k < facts.operands.size(); ++k)
      if (const StateVariable &operand = out.kept[facts.operands[k]];
          operand.variable >= 0)
        addAvailable(op, k, first, operand);
  }

  static bool isMadeAgain(const StateVariable &kept, int state) {
    return !kept.again.empty() && kept.again[state];
  }

  /// A later result is recomputed only with the first.
  void addTogether(const StateVariable &first, const StateVariable &other) {
    if (other.variable < 0)
      return;
    out.graph.addTable(
        {first.variable, other.variable}, [&](const std::vector<int> &s) {
          return isMadeAgain(other, s[1]) && !isMadeAgain(first, s[0])
                     ? kInfiniteCost
                     : int64_t(0);
        });
  }

  void addAvailable(int op, int k, const StateVariable &result,
                    const StateVariable &operand) {
    Moving what = movingOf(kind.ops[op].operands[k]);
    out.graph.addTable({result.variable, operand.variable, out.opVariables[op]},
                       [&](const std::vector<int> &s) {
                         if (!isMadeAgain(result, s[0]))
                           return int64_t(0);
                         AxisState from = operand.states[s[1]];
                         if (from == kNotKept)
                           return kInfiniteCost;
                         if (terms.isOurs && facts.shownAgain[op])
                           return int64_t(0);
                         return brought(
                             /*backward=*/true, kind.ops[op].operands[k], from,
                             out.options[op][s[2]].operands[k], what);
                       });
  }
};

} // namespace

LayerGraph kerf::buildLayerGraph(const LayerTerms &terms, int axis,
                                 const LayerLayout &layout, double share) {
  return GraphBuilder(terms, axis, layout, share).build();
}

static AxisState stateOf(const StateVariable &variable,
                         llvm::ArrayRef<int> states, AxisState otherwise) {
  return variable.variable < 0 ? otherwise
                               : variable.states[states[variable.variable]];
}

AxisLayout LayerGraph::decode(llvm::ArrayRef<int> chosen) const {
  AxisLayout layout;
  for (size_t i = 0; i < opVariables.size(); ++i)
    layout.ops.push_back(options[i][chosen[opVariables[i]]]);
  for (size_t v = 0; v < kept.size(); ++v) {
    AxisState state = stateOf(kept[v], chosen, kNotKept);
    if (kept[v].variable >= 0 && kept[v].again[chosen[kept[v].variable]])
      state = kRecomputed;
    layout.kept.push_back(state);
    layout.sharedForward.push_back(stateOf(sharedForward[v], chosen, kNotKept));
    layout.sharedBackward.push_back(
        stateOf(sharedBackward[v], chosen, kNotKept));
  }
  for (size_t p = 0; p < weights.size(); ++p) {
    AxisLayout::Rest rest;
    rest.weight = stateOf(weights[p], chosen, kReplicated);
    rest.gradient = stateOf(gradients[p], chosen, rest.weight);
    rest.optimizer = stateOf(optimizers[p], chosen, rest.weight);
    layout.params.push_back(rest);
  }
  layout.input = stateOf(input, chosen, kReplicated);
  layout.outputGradient = stateOf(outputGradient, chosen, kReplicated);
  return layout;
}
