//===- Search.cpp - the outer search --------------------------------------===//
//
// Problem: choose degrees, micro-batches, order of axes, schedule, ZeRO, stages
// and points of layers for the least time of a step. Layers are known through
// tables that cost milliseconds each; there may be 10^8 choices.
//
// Idea: branch and bound in three levels. Shapes (degrees and micro-batches)
// and nodes (and the order of axes) have a bound and a guess that need no table
// of their own. A node that comes up gets a second bound, which knows memory
// and ways to shard state (SearchNodeBounds.cpp), and goes back into the queue.
// When it comes up again its tables are solved and its candidate plans
// (schedule, ZeRO, layouts of layers) get a bound by their fastest points. A
// candidate plan that comes up is solved for its stages and points.
//   1. Explore: what is guessed to be fast comes first, until all that is left
//      is guessed to be clearly slower than the best.
//   2. Prove: what has the lowest bound comes first, until no bound is below
//      the best, or the tables that may be solved are used up.
//   3. Where they are: what is open near the best plan (SearchPolish.cpp).
// Guesses are of a closed form, bounds of the timeline
// (SearchCandidateBound.cpp). All candidate plans whose bound is below the best
// are solved and simulated, but where they are guessed to be slower and another
// candidate plan's bound is lower anyway. Of those that are left open all
// splits are simulated where these are few.
//
// Cost: tens of nanoseconds per shape, tens of microseconds per node whose
// first bound is below the best, a microsecond per candidate plan, up to a
// millisecond per candidate plan whose memory binds; the tables.
//
//===----------------------------------------------------------------------===//

#include "SearchRun.h"

#include "kerf/Support/Screen.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/DebugLog.h"

#include <algorithm>
#include <limits>

#define DEBUG_TYPE "search"

using namespace kerf;
using namespace kerf::search_detail;

/// What is guessed to be slower than the best by this part is not explored.
constexpr double kExploredSlack = 0.05;
/// The part of the tables that exploring may solve; the rest is for the proof.
constexpr double kExploredTables = 0.5;
/// Candidate plans that cannot be the best in closed form, solved for the
/// timeline's sake.
constexpr int64_t kCandidatesBeyond = 1000;
/// Candidate plans that are guessed to be no better, solved for the proof's
/// sake.
constexpr int64_t kCandidatesProven = 10000;
/// Candidate plans that a quick search looks at where it has found a plan.
constexpr double kQuickCandidates = 2000;

static int64_t ordersCount(const SearchProblem &problem, const Shape &shape) {
  if (!problem.pins.order.empty())
    return 1;
  int64_t orders = 1, axes = 0;
  for (int64_t size : {shape.tp, shape.cp, shape.dp, shape.pp})
    if (size > 1)
      orders *= ++axes;
  return orders;
}

/// Ways to shard state under all orders of a shape; they depend on few numbers.
double Searcher::countStateShardings(const Shape &shape) {
  OuterChoice outer = shape.outer();
  int64_t ways = 0;
  for (std::vector<MeshAxis> &order : ordersOf(problem, shape)) {
    outer.order = std::move(order);
    auto key = std::make_tuple(outer.dp, outer.cp, outer.ep,
                               outer.strideOf(MeshAxis::Data),
                               outer.strideOf(MeshAxis::Context));
    auto [it, isNew] = stateShardings.try_emplace(key, 0);
    if (isNew)
      it->second =
          static_cast<int64_t>(stateShardingsOf(problem, outer).size());
    ways += it->second;
  }
  return static_cast<double>(ways);
}

void Searcher::push(OpenPart part) {
  part.number = pushed++;
  queue.push_back(part);
  std::push_heap(queue.begin(), queue.end(), later);
}

OpenPart Searcher::pop() {
  std::pop_heap(queue.begin(), queue.end(), later);
  OpenPart part = queue.back();
  queue.pop_back();
  return part;
}

void Searcher::listShapes() {
  shapes = shapesOf(problem);
  for (auto [index, shape] : llvm::enumerate(shapes)) {
    int64_t orders = ordersCount(problem, shape);
    certificate.nodes += orders;
    for (auto [schedule, chunks, defer] : schedulesOf(problem, shape))
      certificate.splits = std::max(
          certificate.splits, bordersOf(shape.pp * chunks, layersOf(problem)));
    OuterChoice outer = shape.outer();
    outer.order = ordersOf(problem, shape).front();
    certificate.space +=
        static_cast<double>(schedulesOf(problem, shape).size()) *
        countStateShardings(shape);
    if (!bounds.mayFit(shape)) {
      certificate.prunedByMemory += orders;
      alternatives.noteMisfit(shape, bounds.bytesOf(shape));
      continue;
    }
    LowerBound least = bounds.boundOf(shape);
    double bound = least.sec;
    double guess = std::max(bound, bounds.estimateOf(shape, outer.order));
    alternatives.noteBound(shape, least);
    OpenPart part = {bound, guess, Level::Shape, 0,
                     static_cast<int32_t>(index)};
    alternatives.noteGuess(shape, part);
    push(part);
    openNodes += orders;
  }
}

void Searcher::expandShape(int32_t index) {
  expandedShapes.insert(index);
  const Shape &shape = shapes[index];
  for (std::vector<MeshAxis> &order : ordersOf(problem, shape)) {
    double bound = bounds.secondsOf(shape, order);
    double guess = std::max(bound, bounds.estimateOf(shape, order));
    SearchNode &node = nodes.emplace_back();
    node.outer = shape.outer();
    node.outer.order = std::move(order);
    for (int kind : kindsOf(problem))
      asked.insert(problem.tables->alike(keyOf(node.outer, kind)));
    OpenPart part = {bound, guess, Level::Node, 0,
                     static_cast<int32_t>(nodes.size() - 1)};
    alternatives.noteGuess(shape, part);
    push(part);
  }
}

/// The tables of a node. False when they would exceed the budget.
bool Searcher::solveTables(SearchNode &node) {
  auto costOf = [&](int kind) {
    return problem.sizes.empty() ? 1 : problem.sizes[kind].tableCost;
  };
  double missing = 0;
  for (int kind : kindsOf(problem))
    if (!solved.count(problem.tables->alike(keyOf(node.outer, kind))))
      missing += costOf(kind);
  if (missing > 0 && tablesCost + missing > tableBudget)
    return false;
  node.tables.assign(*llvm::max_element(kindsOf(problem)) + 1, nullptr);
  node.legal = true;
  for (int kind : kindsOf(problem)) {
    TableKey key = problem.tables->alike(keyOf(node.outer, kind));
    node.tables[kind] = &problem.tables->get(key);
    if (solved.insert(key).second)
      tablesCost += costOf(kind);
    if (node.tables[kind]->points.empty()) {
      node.legal = false;
      return true;
    }
  }
  return true;
}

void Searcher::expandNode(const OpenPart &part) {
  int32_t index = part.index;
  SearchNode &node = nodes[index];
  node.bound = part.bound;
  if (!solveTables(node)) {
    deferred.push_back(part);
    return;
  }
  --openNodes;
  if (!node.legal) {
    ++certificate.illegal;
    return;
  }
  node.layouts = layoutsOf(problem, node.tables, certificate.allLayouts);
  Shape shape;
  shape.pp = node.outer.pp;
  shape.microBatches = node.outer.microBatches;
  node.schedules = schedulesOf(problem, shape);
  node.shardings = stateShardingsOf(problem, node.outer);
  for (size_t sharding = 0; sharding < node.shardings.size(); ++sharding) {
    OuterChoice outer = node.outer;
    std::tie(outer.zero, outer.shardGroup) = node.shardings[sharding];
    Pricing pricing(problem, outer, memo);
    PriceList prices = pricesOf(pricing, node.tables);
    for (size_t schedule = 0; schedule < node.schedules.size(); ++schedule) {
      std::tie(outer.schedule, outer.chunks, outer.defer) =
          node.schedules[schedule];
      for (size_t layouts = 0; layouts < node.layouts.size(); ++layouts)
        if (OpenPart candidate = boundedCandidate(
                pricing, prices,
                {0, 0, Level::Candidate, 0, index,
                 static_cast<int16_t>(sharding), static_cast<int16_t>(schedule),
                 static_cast<int32_t>(layouts)});
            candidate.bound < HUGE_VAL) {
          alternatives.noteGuess(outer, candidate);
          push(candidate);
        }
    }
  }
}

/// A candidate plan with its bound and guess; never, where pins allow no point
/// of it.
OpenPart Searcher::boundedCandidate(const Pricing &pricing,
                                    const PriceList &prices, OpenPart part) {
  const SearchNode &node = nodes[part.index];
  CandidateTimes times;
  StageProblem stages =
      stageProblemOf(pricing, node.layouts[part.layouts], node.tables, prices,
                     /*forBound=*/true, times);
  if (stages.kinds.empty()) {
    part.bound = HUGE_VAL;
    return part;
  }
  part.bound = std::max(node.bound, boundOfSplit(stages));
  part.guess = std::max(part.bound, times.stepSec(leastObjective(stages)));
  return part;
}

OuterChoice Searcher::outerOf(const OpenPart &part) const {
  const SearchNode &node = nodes[part.index];
  OuterChoice outer = node.outer;
  std::tie(outer.zero, outer.shardGroup) = node.shardings[part.sharding];
  std::tie(outer.schedule, outer.chunks, outer.defer) =
      node.schedules[part.schedule];
  return outer;
}

/// The stages' problem of a candidate plan.
StageProblem Searcher::problemOf(const OpenPart &part, CandidateTimes &times) {
  const SearchNode &node = nodes[part.index];
  OuterChoice outer = outerOf(part);
  Pricing pricing(problem, outer, memo);
  return stageProblemOf(pricing, node.layouts[part.layouts], node.tables,
                        pricesOf(pricing, node.tables), /*forBound=*/false,
                        times);
}

/// Works off one part, unless it cannot matter.
void Searcher::work(const OpenPart &part) {
  if (part.bound >= best && part.level != Level::Candidate)
    return;
  switch (part.level) {
  case Level::Shape:
    expandShape(part.index);
    break;
  case Level::Node:
    expandNode(part);
    break;
  case Level::Candidate:
    solvePart(part);
    break;
  }
}

/// Bounds a node with its memory, once. True when the part's bound has risen.
bool Searcher::raise(OpenPart &part) {
  if (part.level != Level::Node || nodes[part.index].bounded)
    return false;
  nodes[part.index].bounded = true;
  ++boundedNodes;
  double enough = best * (1 + kExploredSlack);
  double bound = nodeBounds.secondsOf(nodes[part.index].outer, enough);
  nodes[part.index].least = bound;
  if (bound <= part.bound)
    return false;
  part.bound = bound;
  part.guess = std::max(part.guess, bound);
  return true;
}

/// Puts a part whose bound has risen where it belongs; drops it when nothing of
/// it fits or it cannot matter.
void Searcher::putBack(const OpenPart &part) {
  if (part.bound == HUGE_VAL) {
    --openNodes;
    ++certificate.prunedByMemory;
  } else if (part.bound < best * (1 + kExploredSlack)) {
    push(part);
  }
}

bool Searcher::givesUp() const {
  if (winner)
    return problem.isQuick && certificate.evaluated > kQuickCandidates;
  return boundedNodes > problem.hopeless;
}

void Searcher::explore() {
  while (!queue.empty() && !givesUp() &&
         queue.front().guess <= best * (1 + kPlayedSlack)) {
    OpenPart part = pop();
    if (raise(part)) {
      putBack(part);
      continue;
    }
    // Candidate plans may still win on the timeline; what needs tables is too
    // far off.
    bool isCandidate = part.level == Level::Candidate;
    if (isCandidate
            ? part.guess >= best && ++candidatesBeyond > kCandidatesBeyond
            : part.guess > best * (1 + kExploredSlack))
      deferred.push_back(part);
    else
      work(part);
  }
}

/// Whether a part is guessed to hold no better plan, and looking at it would
/// not raise what is proven: others are not known to be slower.
bool Searcher::isIdle(const OpenPart &part) const {
  double slack = part.level == Level::Candidate ? 0 : kGuessSlack;
  return !problem.prove && part.guess >= best * (1 + slack) &&
         part.bound >= looseBound;
}

/// Goes through what is left by bound.
void Searcher::prove() {
  llvm::append_range(queue, deferred);
  deferred.clear();
  later.byBound = true;
  std::make_heap(queue.begin(), queue.end(), later);
  while (!queue.empty() && !givesUp() && queue.front().bound < best) {
    OpenPart part = pop();
    if (raise(part)) {
      putBack(part);
      continue;
    }
    if (isIdle(part))
      continue;
    // What is proven stays as it is.
    if (!problem.prove && part.level == Level::Candidate &&
        part.guess >= best && ++candidatesProven > kCandidatesProven) {
      looseBound = std::min(looseBound, part.bound);
      continue;
    }
    work(part);
    if (deferred.empty())
      continue;
    // The budget is used up: what is left is not known.
    openBound = deferred.front().bound;
    break;
  }
}

/// Counts what could not be looked at.
void Searcher::countLeftOut() {
  if (openBound >= best)
    return;
  certificate.leftOut = 1;
  for (const OpenPart &open : queue)
    if (open.bound < best && open.level != Level::Candidate)
      certificate.leftOut += open.level == Level::Node
                                 ? 1
                                 : ordersCount(problem, shapes[open.index]);
}

void Searcher::run() {
  double whole = problem.prove ? HUGE_VAL : problem.budget;
  listShapes();
  tableBudget = kExploredTables * whole;
  explore();
  LDBG() << "explored: best " << report::seconds(best) << ", "
         << problem.tables->solved() << " tables, " << evaluated.size()
         << " plans that fit";
  if (problem.isQuick)
    return;
  tableBudget = whole;
  prove();
  polish();
  countLeftOut();
  settleTies();
  LDBG() << "proved: best " << report::seconds(best) << ", what is open takes "
         << report::seconds(std::min({best, openBound, looseBound}))
         << " at least, " << problem.tables->solved() << " tables";
}

/// Of the winner's outer choice other layouts may take as long and less memory;
/// of what is bound to be no faster nothing was looked at.
void Searcher::settleTies() {
  constexpr double kEqual = 1e-9;
  if (!winner)
    return;
  OpenPart first = won;
  const SearchNode &node = nodes[first.index];
  OuterChoice outer = outerOf(first);
  Pricing pricing(problem, outer, memo);
  PriceList prices = pricesOf(pricing, node.tables);
  for (size_t layouts = 0; layouts < node.layouts.size(); ++layouts) {
    OpenPart other = first;
    other.layouts = static_cast<int32_t>(layouts);
    double bound = boundedCandidate(pricing, prices, other).bound;
    if (other.layouts != first.layouts &&
        std::abs(bound - best) <= kEqual * best)
      solvePart(other);
  }
}

bool search_detail::better(const PlanPoint &a, const PlanPoint &b) {
  if (std::abs(a.stepSec - b.stepSec) > 1e-9 * b.stepSec)
    return a.stepSec < b.stepSec;
  auto rank = [](const PlanPoint &plan) {
    double peak = 0;
    int axes = 0;
    for (const PlacedStage &stage : plan.stages)
      peak = std::max(peak, stage.memory.total());
    const OuterChoice &outer = plan.outer;
    for (int64_t size : {outer.tp, outer.cp, outer.ep, outer.dp, outer.pp})
      axes += size > 1;
    return std::make_tuple(peak, axes, outer.print());
  };
  return rank(a) < rank(b);
}
void Searcher::certify() {
  certificate.tablesSolved = problem.tables->solved();
  closeCandidates();
  certificate.tablesBounded = 0;
  for (const TableKey &key : asked)
    certificate.tablesBounded += !solved.count(key);
  certificate.prunedByBound = openNodes - certificate.leftOut;
  double bound = std::min({best, openBound, looseBound});
  for (const OpenCandidate &candidate : openCandidates)
    bound = std::min(bound, candidate.least);
  certificate.bestSec = winner ? winner->stepSec : 0;
  certificate.boundSec = bound < HUGE_VAL ? bound : 0;
  certificate.isMixed = llvm::any_of(
      problem.sizes, [](const KindSize &size) { return size.isMixed; });
  certificate.complete = certificate.allLayouts && !certificate.isMixed &&
                         bound >= best * (1 - 1e-9);
  certificate.model =
      "the timeline; layers at the points of their tables, each stage at its "
      "fastest ones that fit; equal layers dealt evenly to the chunks of a "
      "stage; what was not simulated is bounded by chains of tasks that wait "
      "for each other";
}

SearchProblem search_detail::withSizes(const SearchProblem &problem) {
  SearchProblem sized = problem;
  if (!problem.sizes.empty())
    return sized;
  OuterChoice alone;
  TableList tables = tablesOf(problem, alone);
  sized.sizes.resize(tables.size());
  for (int kind : kindsOf(problem)) {
    KindSize &size = sized.sizes[kind];
    if (tables[kind]->points.empty())
      continue;
    // On one rank all points hold all parameters.
    const LayerPoint &point = tables[kind]->points.front();
    size = {point.denseElements - point.sharedElements,
            point.expertElements,
            point.weightBytes,
            point.masterBytes,
            point.gradientBytes,
            point.stateBytes,
            point.trainedShare,
            point.trainedWeightBytes,
            double(point.denseTrained),
            double(point.expertTrained)};
  }
  return sized;
}

double kerf::nodeBoundSec(const SearchProblem &problem,
                          const OuterChoice &node) {
  SearchProblem sized = withSizes(problem);
  GroupMemo memo(*sized.machine, sized.profile);
  ShapeBounds layers(sized, memo);
  return NodeBounds(sized, memo, layers).secondsOf(node, HUGE_VAL);
}

std::optional<PlanPoint>
search_detail::searchQuietly(const SearchProblem &problem) {
  SearchProblem sized = withSizes(problem);
  Searcher searcher(sized);
  searcher.run();
  return std::move(searcher.winner);
}

SearchResult kerf::search(const SearchProblem &problem) {
  SearchProblem sized = withSizes(problem);
  Searcher searcher(sized);
  searcher.run();
  searcher.improveAlternatives();
  SearchResult result;
  searcher.certify();
  result.best = std::move(searcher.winner);
  result.certificate = searcher.certificate;
  if (result.best)
    result.alternatives = searcher.alternatives.list(searcher, *result.best);
  if (result.best && problem.roomyHeadroom > 0)
    result.roomy = withHeadroom(sized, result, problem.roomyHeadroom);
  if (!result.best && problem.enoughSec == HUGE_VAL)
    result.infeasible = explainMisfit(sized);
  return result;
}
