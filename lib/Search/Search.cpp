//===- Search.cpp - the outer search --------------------------------------===//
//
// Problem: choose degrees, micro-batches, order of axes, schedule, ZeRO, stages
// and points of layers for the least time of a step. Layers are known through
// tables that cost milliseconds each; there may be 10^8 choices.
//
// Idea: branch and bound in three levels. Shapes (degrees and micro-batches)
// and heads (and the order of axes) have a bound and a guess that need no table
// of their own. A head that comes up gets a second bound, which knows memory
// and ways to cut state (SearchHeadBounds.cpp), and goes back into the queue.
// When it comes up again its tables are solved and its leaves (schedule, ZeRO,
// layouts of layers) get a bound by their fastest points. A leaf that comes up
// is solved for its stages and points.
//   1. Explore: what is guessed to be fast comes first, until all that is left
//      is guessed to be clearly slower than the best.
//   2. Prove: what has the lowest bound comes first, until no bound is below
//      the best, or the tables that may be solved are used up.
//   3. Where they are: what is open near the best plan (SearchPolish.cpp).
// Guesses are of a closed form, bounds of the timeline (SearchLeafBound.cpp).
// All leaves whose bound is below the best are solved and simulated, but where
// they are guessed to be slower and another leaf's bound is lower anyway. Of
// those that are left open all splits are simulated where these are few.
//
// Cost: tens of nanoseconds per shape, tens of microseconds per head whose
// first bound is below the best, a microsecond per leaf, up to a millisecond
// per leaf whose memory binds; the tables.
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
/// Leaves that cannot be the best in closed form, solved for the timeline's
/// sake.
constexpr int64_t kLeavesBeyond = 1000;
/// Leaves that are guessed to be no better, solved for the proof's sake.
constexpr int64_t kLeavesProven = 10000;
/// Leaves that a quick search looks at where it has found a plan.
constexpr double kQuickLeaves = 2000;
/// Guesses of heads are off by this part, mostly.
constexpr double kGuessSlack = 0.08;

static int64_t ordersCount(const SearchProblem &problem, const Shape &shape) {
  if (!problem.pins.order.empty())
    return 1;
  int64_t orders = 1, axes = 0;
  for (int64_t size : {shape.tp, shape.cp, shape.dp, shape.pp})
    if (size > 1)
      orders *= ++axes;
  return orders;
}

/// Ways to cut state under all orders of a shape; they depend on few numbers.
double Searcher::countStateCuts(const Shape &shape) {
  OuterChoice outer = shape.outer();
  int64_t cuts = 0;
  for (std::vector<MeshAxis> &order : ordersOf(problem, shape)) {
    outer.order = std::move(order);
    auto key = std::make_tuple(outer.dp, outer.cp, outer.ep,
                               outer.strideOf(MeshAxis::Data),
                               outer.strideOf(MeshAxis::Context));
    auto [it, isNew] = stateCuts.try_emplace(key, 0);
    if (isNew)
      it->second = static_cast<int64_t>(stateCutsOf(problem, outer).size());
    cuts += it->second;
  }
  return static_cast<double>(cuts);
}

void Searcher::push(Node node) {
  node.number = pushed++;
  queue.push_back(node);
  std::push_heap(queue.begin(), queue.end(), later);
}

Node Searcher::pop() {
  std::pop_heap(queue.begin(), queue.end(), later);
  Node node = queue.back();
  queue.pop_back();
  return node;
}

void Searcher::listShapes() {
  shapes = shapesOf(problem);
  for (auto [index, shape] : llvm::enumerate(shapes)) {
    int64_t orders = ordersCount(problem, shape);
    certificate.heads += orders;
    for (auto [schedule, chunks, defer] : schedulesOf(problem, shape))
      certificate.splits = std::max(
          certificate.splits, bordersOf(shape.pp * chunks, layersOf(problem)));
    OuterChoice outer = shape.outer();
    outer.order = ordersOf(problem, shape).front();
    certificate.space +=
        static_cast<double>(schedulesOf(problem, shape).size()) *
        countStateCuts(shape);
    if (!bounds.mayFit(shape)) {
      certificate.cutByMemory += orders;
      alternatives.noteMisfit(shape, bounds.bytesOf(shape));
      continue;
    }
    LowerBound least = bounds.boundOf(shape);
    double bound = least.sec;
    double guess = std::max(bound, bounds.estimateOf(shape, outer.order));
    alternatives.noteBound(shape, least);
    push({bound, guess, Level::Shape, 0, static_cast<int32_t>(index)});
    openHeads += orders;
  }
}

void Searcher::expandShape(int32_t index) {
  const Shape &shape = shapes[index];
  for (std::vector<MeshAxis> &order : ordersOf(problem, shape)) {
    double bound = bounds.secondsOf(shape, order);
    double guess = std::max(bound, bounds.estimateOf(shape, order));
    Head &head = heads.emplace_back();
    head.outer = shape.outer();
    head.outer.order = std::move(order);
    for (int kind : kindsOf(problem))
      asked.insert(problem.tables->alike(keyOf(head.outer, kind)));
    push(
        {bound, guess, Level::Head, 0, static_cast<int32_t>(heads.size() - 1)});
  }
}

/// The tables of a head. False when they would exceed the budget.
bool Searcher::solveTables(Head &head) {
  auto costOf = [&](int kind) {
    return problem.sizes.empty() ? 1 : problem.sizes[kind].tableCost;
  };
  double missing = 0;
  for (int kind : kindsOf(problem))
    if (!solved.count(problem.tables->alike(keyOf(head.outer, kind))))
      missing += costOf(kind);
  if (missing > 0 && tablesCost + missing > tableBudget)
    return false;
  head.tables.assign(*llvm::max_element(kindsOf(problem)) + 1, nullptr);
  head.legal = true;
  for (int kind : kindsOf(problem)) {
    TableKey key = problem.tables->alike(keyOf(head.outer, kind));
    head.tables[kind] = &problem.tables->get(key);
    if (solved.insert(key).second)
      tablesCost += costOf(kind);
    if (head.tables[kind]->points.empty()) {
      head.legal = false;
      return true;
    }
  }
  return true;
}

void Searcher::expandHead(const Node &node) {
  int32_t index = node.index;
  Head &head = heads[index];
  head.bound = node.bound;
  if (!solveTables(head)) {
    deferred.push_back(node);
    return;
  }
  --openHeads;
  if (!head.legal) {
    ++certificate.illegal;
    return;
  }
  head.layouts = layoutsOf(problem, head.tables, certificate.allLayouts);
  Shape shape;
  shape.pp = head.outer.pp;
  shape.microBatches = head.outer.microBatches;
  head.schedules = schedulesOf(problem, shape);
  head.cuts = stateCutsOf(problem, head.outer);
  for (size_t cut = 0; cut < head.cuts.size(); ++cut) {
    OuterChoice outer = head.outer;
    std::tie(outer.zero, outer.shardGroup) = head.cuts[cut];
    Pricing pricing(problem, outer, memo);
    PriceList prices = pricesOf(pricing, head.tables);
    for (size_t schedule = 0; schedule < head.schedules.size(); ++schedule) {
      std::tie(outer.schedule, outer.chunks, outer.defer) =
          head.schedules[schedule];
      for (size_t layouts = 0; layouts < head.layouts.size(); ++layouts)
        if (Node leaf = boundedLeaf(pricing, prices,
                                    {0, 0, Level::Leaf, 0, index,
                                     static_cast<int16_t>(cut),
                                     static_cast<int16_t>(schedule),
                                     static_cast<int32_t>(layouts)});
            leaf.bound < HUGE_VAL)
          push(leaf);
    }
  }
}

/// A leaf with its bound and guess; never, where pins allow no point of it.
Node Searcher::boundedLeaf(const Pricing &pricing, const PriceList &prices,
                           Node node) {
  const Head &head = heads[node.index];
  LeafTimes times;
  StageProblem stages =
      stageProblemOf(pricing, head.layouts[node.layouts], head.tables, prices,
                     /*forBound=*/true, times);
  if (stages.kinds.empty()) {
    node.bound = HUGE_VAL;
    return node;
  }
  node.bound = std::max(head.bound, boundOfSplit(stages));
  node.guess = std::max(node.bound, times.stepSec(leastObjective(stages)));
  return node;
}

OuterChoice Searcher::outerOf(const Node &node) const {
  const Head &head = heads[node.index];
  OuterChoice outer = head.outer;
  std::tie(outer.zero, outer.shardGroup) = head.cuts[node.cut];
  std::tie(outer.schedule, outer.chunks, outer.defer) =
      head.schedules[node.schedule];
  return outer;
}

/// The stages' problem of a leaf.
StageProblem Searcher::problemOf(const Node &node, LeafTimes &times) {
  const Head &head = heads[node.index];
  OuterChoice outer = outerOf(node);
  Pricing pricing(problem, outer, memo);
  return stageProblemOf(pricing, head.layouts[node.layouts], head.tables,
                        pricesOf(pricing, head.tables), /*forBound=*/false,
                        times);
}

/// Works off one node, unless it cannot matter.
void Searcher::work(const Node &node) {
  if (node.bound >= best && node.level != Level::Leaf)
    return;
  switch (node.level) {
  case Level::Shape:
    expandShape(node.index);
    break;
  case Level::Head:
    expandHead(node);
    break;
  case Level::Leaf:
    solveNode(node);
    break;
  }
}

/// Bounds a head with its memory, once. True when the node's bound has risen.
bool Searcher::raise(Node &node) {
  if (node.level != Level::Head || heads[node.index].bounded)
    return false;
  heads[node.index].bounded = true;
  ++boundedHeads;
  double enough = best * (1 + kExploredSlack);
  double bound = headBounds.secondsOf(heads[node.index].outer, enough);
  if (bound <= node.bound)
    return false;
  node.bound = bound;
  node.guess = std::max(node.guess, bound);
  return true;
}

/// Puts a node whose bound has risen where it belongs; drops it when nothing of
/// it fits or it cannot matter.
void Searcher::putBack(const Node &node) {
  if (node.bound == HUGE_VAL) {
    --openHeads;
    ++certificate.cutByMemory;
  } else if (node.bound < best * (1 + kExploredSlack)) {
    push(node);
  }
}

bool Searcher::givesUp() const {
  if (winner)
    return problem.isQuick && certificate.evaluated > kQuickLeaves;
  return boundedHeads > problem.hopeless;
}

void Searcher::explore() {
  while (!queue.empty() && !givesUp() &&
         queue.front().guess <= best * (1 + kPlayedSlack)) {
    Node node = pop();
    if (raise(node)) {
      putBack(node);
      continue;
    }
    // Leaves may still win on the timeline; what needs tables is too far off.
    bool isLeaf = node.level == Level::Leaf;
    if (isLeaf ? node.guess >= best && ++leavesBeyond > kLeavesBeyond
               : node.guess > best * (1 + kExploredSlack))
      deferred.push_back(node);
    else
      work(node);
  }
}

/// Whether a node is guessed to hold no better plan, and looking at it would
/// not raise what is proven: others are not known to be slower.
bool Searcher::isIdle(const Node &node) const {
  double slack = node.level == Level::Leaf ? 0 : kGuessSlack;
  return !problem.prove && node.guess >= best * (1 + slack) &&
         node.bound >= looseBound;
}

/// Goes through what is left by bound.
void Searcher::prove() {
  llvm::append_range(queue, deferred);
  deferred.clear();
  later.byBound = true;
  std::make_heap(queue.begin(), queue.end(), later);
  while (!queue.empty() && !givesUp() && queue.front().bound < best) {
    Node node = pop();
    if (raise(node)) {
      putBack(node);
      continue;
    }
    if (isIdle(node))
      continue;
    // What is proven stays as it is.
    if (!problem.prove && node.level == Level::Leaf && node.guess >= best &&
        ++leavesProven > kLeavesProven) {
      looseBound = std::min(looseBound, node.bound);
      continue;
    }
    work(node);
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
  for (const Node &open : queue)
    if (open.bound < best && open.level != Level::Leaf)
      certificate.leftOut += open.level == Level::Head
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
  Node first = won;
  const Head &head = heads[first.index];
  OuterChoice outer = outerOf(first);
  Pricing pricing(problem, outer, memo);
  PriceList prices = pricesOf(pricing, head.tables);
  for (size_t layouts = 0; layouts < head.layouts.size(); ++layouts) {
    Node other = first;
    other.layouts = static_cast<int32_t>(layouts);
    double bound = boundedLeaf(pricing, prices, other).bound;
    if (other.layouts != first.layouts &&
        std::abs(bound - best) <= kEqual * best)
      solveNode(other);
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
  closeLeaves();
  certificate.tablesBounded = 0;
  for (const TableKey &key : asked)
    certificate.tablesBounded += !solved.count(key);
  certificate.cutByBound = openHeads - certificate.leftOut;
  double bound = std::min({best, openBound, looseBound});
  for (const OpenLeaf &leaf : openLeaves)
    bound = std::min(bound, leaf.least);
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

double kerf::headBoundSec(const SearchProblem &problem,
                          const OuterChoice &head) {
  SearchProblem sized = withSizes(problem);
  GroupMemo memo(*sized.machine, sized.profile);
  ShapeBounds layers(sized, memo);
  return HeadBounds(sized, memo, layers).secondsOf(head, HUGE_VAL);
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
