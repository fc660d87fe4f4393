//===- SolveLayer.cpp - the best layout of a layer ------------------------===//
//
// One axis: exact elimination. Several: each in turn with the others fixed,
// until nothing improves (coordinate descent); the axes with the least freedom
// first. Two axes at once (LayerPair.cpp) judge that.
//
//===----------------------------------------------------------------------===//

#include "LayerGraph.h"

#include "kerf/FactorGraph/GraphBounds.h"

using namespace kerf;

static constexpr int kRounds = 3;

/// Solves one axis and puts it into the layout; false where nothing is
/// possible.
static bool solveAxis(const LayerTerms &terms, int axis,
                      LayerSolution &solution) {
  LayerGraph graph = buildLayerGraph(terms, axis, solution.layout);
  if (!graph.possible)
    return false;
  Elimination best =
      terms.query.recompute
          ? eliminateOrSolve(graph.graph, {}, terms.query.budget)
          : terms.facts.eliminateOnce(axis, graph.graph, terms.query.budget);
  if (best.states.empty() || best.cost >= kInfiniteCost)
    return false;
  solution.layout.axes[axis] = graph.decode(best.states);
  solution.picoseconds = best.cost;
  solution.width = std::max(solution.width, best.width);
  solution.largestTable = std::max(solution.largestTable, best.largestTable);
  solution.work += best.work;
  solution.variables = graph.graph.domains.size();
  solution.states = 0;
  for (int domain : graph.graph.domains)
    solution.states += domain;
  return true;
}

/// The axes with the least freedom first.
static llvm::SmallVector<int, kInnerAxes> axesOf(const LayerTerms &terms) {
  llvm::SmallVector<int, kInnerAxes> order;
  for (InnerAxis axis : {InnerAxis::Expert, InnerAxis::Context})
    if (terms.has(static_cast<int>(axis)))
      order.push_back(static_cast<int>(axis));
  order.push_back(kInnerTensor);
  return order;
}

/// Solves every axis once more; false where nothing is possible.
static bool addRound(const LayerTerms &terms, LayerRounds &known) {
  LayerSolution next =
      known.found.empty() ? LayerSolution() : known.found.back();
  known.isStuck = known.isStuck || llvm::any_of(axesOf(terms), [&](int axis) {
                    return !solveAxis(terms, axis, next);
                  });
  if (!known.isStuck)
    known.found.push_back(std::move(next));
  return !known.isStuck;
}

LayerSolution kerf::solveWith(const LayerTerms &terms, LayerRounds &known) {
  LayerSolution best;
  size_t rounds = axesOf(terms).size() == 1 ? 1 : kRounds;
  for (size_t round = 0; round < rounds; ++round) {
    if (round == known.found.size() && !addRound(terms, known))
      break;
    LayerSolution current = known.found[round];
    current.cost = sumCosts(terms, current.layout);
    if (best.possible() && current.cost.objective >= best.cost.objective)
      break;
    best = std::move(current);
  }
  return best;
}

LayerSolution kerf::solveWith(const LayerTerms &terms) {
  LayerRounds none;
  return solveWith(terms, none);
}

/// Both axes at once; `bound` is what no layout can beat.
static LayerSolution solveAtOnce(const LayerTerms &terms, int first, int second,
                                 int64_t &bound) {
  LayerSolution found;
  PairGraph pair(terms, first, second);
  if (!pair.possible)
    return found;
  Certified best = solve(pair.graph, terms.query.budget);
  bound = best.bound;
  if (best.states.empty() || best.cost >= kInfiniteCost)
    return found;
  found.layout = pair.decode(best.states);
  // What is kept is read off the tensor axis, with ranks or without.
  if (!terms.has(kInnerTensor) && !solveAxis(terms, kInnerTensor, found))
    return {};
  found.cost = sumCosts(terms, found.layout);
  found.picoseconds = best.cost;
  return found;
}

PairSolution kerf::solvePair(const LayerContext &context,
                             const LayerQuery &query, InnerAxis first,
                             InnerAxis second) {
  const LayerKind &kind = context.step->kinds[query.key.kind];
  LayerFacts facts(kind);
  LayerTerms terms(context, query, kind, facts);
  PairSolution found;
  found.solution = solveAtOnce(terms, static_cast<int>(first),
                               static_cast<int>(second), found.bound);
  return found;
}

LayerSolution kerf::solveIdeal(const LayerTerms &terms, int axis) {
  LayerSolution solution;
  if (!solveAxis(terms, axis, solution))
    return {};
  return solution;
}

LayerSolution kerf::solveLayer(const LayerContext &context,
                               const LayerQuery &query) {
  const LayerKind &kind = context.step->kinds[query.key.kind];
  LayerFacts facts(kind);
  LayerTerms terms(context, query, kind, facts);
  return solveWith(terms);
}

std::string kerf::printLayerGraph(const LayerContext &context,
                                  const LayerQuery &query, InnerAxis axis,
                                  const LayerLayout &layout) {
  const LayerKind &kind = context.step->kinds[query.key.kind];
  LayerFacts facts(kind);
  LayerTerms terms(context, query, kind, facts);
  return buildLayerGraph(terms, static_cast<int>(axis), layout).graph.print();
}

LayerCost kerf::costOf(const LayerContext &context, const LayerQuery &query,
                       const LayerLayout &layout) {
  const LayerKind &kind = context.step->kinds[query.key.kind];
  LayerFacts facts(kind);
  LayerTerms terms(context, query, kind, facts);
  return sumCosts(terms, layout);
}

std::shared_ptr<const StepFacts> kerf::stepFactsOf(const StepModel &step) {
  return std::make_shared<StepFacts>(step.kinds.begin(), step.kinds.end());
}

LayerCost kerf::costOf(const LayerContext &context, const LayerQuery &query,
                       const LayerLayout &layout, const StepFacts &facts) {
  int kind = query.key.kind;
  LayerTerms terms(context, query, context.step->kinds[kind], facts[kind]);
  return sumCosts(terms, layout);
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static std::string nameOfState(AxisState state) {
  if (state == kReplicated)
    return "whole";
  if (state == kPending)
    return "sum";
  if (state == kNotKept)
    return "dropped";
  if (state == kRecomputed)
    return "again";
  std::string text = "dim" + std::to_string(splitDim(state));
  if (isExchanged(state))
    return text + " exchanged";
  if (isRagged(state))
    return text + " ragged";
  return splitOuter(state) == 1
             ? text
             : text + "/" + std::to_string(splitOuter(state));
}

static std::string nameOfOption(const LayerOp &op, const OpOption &option) {
  if (option.variant >= 0)
    return op.variants[option.variant].name;
  if (option.passes >= 0)
    return "passes";
  if (option.factor < 0)
    return "none";
  std::string name = op.factors[option.factor].factor.name;
  return option.outer == 1 || option.outer >= kRaggedOuter
             ? name
             : name + "/" + std::to_string(option.outer);
}

std::string kerf::printLayout(const LayerKind &kind,
                              const LayerLayout &layout) {
  static constexpr const char *kNames[] = {"tp", "cp", "ep"};
  std::string text;
  for (size_t i = 0; i < kind.ops.size(); ++i) {
    const LayerOp &op = kind.ops[i];
    text += op.name + " " + std::to_string(op.number);
    if (!op.weight.empty())
      text += " (" + op.weight + ")";
    text += op.phase == LayerPhase::Forward ? ":" : " backward:";
    for (int axis = 0; axis < kInnerAxes; ++axis) {
      const AxisLayout &own = layout.axes[axis];
      if (own.ops.empty())
        continue;
      text +=
          std::string(" ") + kNames[axis] + "=" + nameOfOption(op, own.ops[i]);
      for (int value : op.results)
        if (kind.values[value].forward && own.kept[value] != kNotKept)
          text += " kept " + nameOfState(own.kept[value]);
    }
    text += "\n";
  }
  for (size_t p = 0; p < kind.params.size(); ++p) {
    text += "param " + kind.params[p].name + ":";
    for (int axis = 0; axis < kInnerAxes; ++axis)
      if (!layout.axes[axis].params.empty()) {
        const AxisLayout::Rest &rest = layout.axes[axis].params[p];
        text += std::string(" ") + kNames[axis] + "=" +
                nameOfState(rest.weight) + "/" + nameOfState(rest.gradient) +
                "/" + nameOfState(rest.optimizer);
      }
    text += "\n";
  }
  return text;
}
