//===- ExplainSensitivity.cpp - when another plan would win ---------------===//
//
// Problem: the plan is the fastest under figures that nobody measured. How far
// may each of them move, alone, before another plan is faster, and which?
//
// Idea: the search keeps the fastest plan for each value of each decision, and
// on request the space is searched again with each figure at both ends of its
// range (SolveSensitivity.cpp). These plans are ranked with the figure
// moved. Others may win sooner: the range is an upper bound.
//
// Steps: a figure is moved to the end of its range. Plans that are faster there
// cross the best one somewhere on the way; where, is found by halving. The
// first crossing counts. Times are those of the timeline; a layer's times are
// scaled by what they are spent on, so latencies count as bytes, and kernels
// that wait for memory as if they did not.
//
// Cost: about a thousand timelines, at most `kMostTasks` tasks.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/ExplainDetail.h"
#include "kerf/Search/Pricing.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <deque>

using namespace kerf;
using namespace kerf::explain_detail;

/// Efficiencies are moved by up to this factor, as far as they stay below 1.
static constexpr double kFarthest = 2;
/// Another plan wins where it takes this part less.
static constexpr double kClearly = 1e-3;
/// Tasks of timelines that may be simulated.
static constexpr double kMostTasks = 3e7;
static constexpr int kHalvings = 7;
/// Plans whose crossing is looked for, of those that win at the end.
static constexpr size_t kMostCrossings = 3;

//===----------------------------------------------------------------------===//
// One plan under a figure that is moved
//===----------------------------------------------------------------------===//

static bool isShare(Assumed what) {
  return what == Assumed::HiddenLayers || what == Assumed::HiddenGradients ||
         what == Assumed::HiddenWeights || what == Assumed::Headroom;
}

/// Times of a layer as if kernels of a kind were `factor` as fast.
static void scale(TimeParts &parts, Assumed what, double factor,
                  bool isBackward) {
  double dense = parts.matmulSec - parts.groupedSec;
  switch (what) {
  case Assumed::Matmul:
    parts.matmulSec = dense / factor + parts.groupedSec;
    return;
  case Assumed::Grouped:
    parts.groupedSec /= factor;
    parts.matmulSec = dense + parts.groupedSec;
    return;
  case Assumed::AttentionForward:
  case Assumed::AttentionBackward:
    if (isBackward == (what == Assumed::AttentionBackward))
      parts.attentionSec /= factor;
    return;
  case Assumed::Memory:
    parts.rowSec /= factor;
    return;
  case Assumed::Network:
    for (auto *all : {&parts.commSec, &parts.hiddenSec})
      for (double &sec : *all)
        sec /= factor;
    return;
  default:
    return;
  }
}

static void scale(LayerPoint &point, Assumed what, double factor) {
  double matmulSec = point.backward.matmulSec;
  if (what == Assumed::Matmul)
    point.updateSec /= factor;
  scale(point.forward, what, factor, false);
  scale(point.recompute, what, factor, false);
  scale(point.backward, what, factor, true);
  if (matmulSec > 0)
    point.weightGradientSec *= point.backward.matmulSec / matmulSec;
  if (what == Assumed::Memory)
    point.deferredCopySec /= factor;
  if (what == Assumed::Network) {
    for (double *sec :
         {&point.tensorSyncSec, &point.denseSumSec, &point.expertSumSec})
      *sec /= factor;
    for (auto *all : {&point.deferredCommSec, &point.deferredHiddenSec})
      for (double &sec : *all)
        sec /= factor;
  }
}

static SearchProblem problemOf(const ExplainInput &input) {
  const StepModel &step = *input.step;
  SearchProblem problem;
  problem.profile = input.profile;
  for (const LayerRun &run : step.runs)
    problem.runs.push_back({run.kind, run.count});
  problem.hasEmbedding = step.embedding() >= 0;
  problem.hasHead = step.head() >= 0;
  problem.vocabulary = step.vocabulary;
  problem.batch = step.batch;
  problem.sequence = step.sequence;
  problem.type = step.type;
  problem.exchangesRows = step.moeBuffer > 0;
  problem.tiedShards = input.tiedShards;
  return problem;
}

static void scale(std::vector<PlacedStage> &stages, Assumed what,
                  double factor) {
  for (PlacedStage &stage : stages)
    for (PlacedChunk &chunk : stage.chunks)
      for (PlacedLayers &layers : chunk.layers)
        scale(layers.point, what, factor);
}

double explain_detail::movedSec(const ExplainInput &input,
                                const PlanPoint &plan, const Assumption &figure,
                                double value) {
  Machine machine = *input.machine;
  SearchProblem problem = problemOf(input);
  problem.machine = &machine;
  std::vector<PlacedStage> stages = plan.stages;
  double factor = value / figure.value;
  if (figure.what == Assumed::HiddenLayers)
    problem.profile.tensorOverlap = value;
  else if (figure.what == Assumed::HiddenGradients)
    problem.profile.gradientOverlap = value;
  else if (figure.what == Assumed::HiddenWeights)
    problem.profile.weightOverlap = value;
  else
    scale(stages, figure.what, factor);
  if (figure.what == Assumed::Memory)
    machine.device.efficiency.memory *= factor;
  if (figure.what == Assumed::Network)
    machine.device.efficiency.network *= factor;
  return search_detail::stepSecOf(problem, plan.outer, std::move(stages));
}

/// A challenger under the figures as they are.
static PlanPoint atFigures(const ExplainInput &input,
                           const Challenger &challenger) {
  PlanPoint plan = challenger.plan;
  if (!isShare(challenger.figure.what))
    scale(plan.stages, challenger.figure.what,
          challenger.figure.value / challenger.value);
  plan.stepSec =
      movedSec(input, plan, challenger.figure, challenger.figure.value);
  return plan;
}

std::pair<double, double> explain_detail::rangeOf(const Assumption &figure) {
  if (isShare(figure.what))
    return {0, 1};
  double most = std::min(1.0, figure.value * kFarthest);
  return {figure.value / kFarthest, std::max(figure.value, most)};
}

namespace {
/// The plans of one explanation, ranked under figures that are moved.
class Ranking {
public:
  Ranking(const ExplainInput &input, const PlanPoint &best);

  SensitivityRow rowOf(const Assumption &figure) const;
  int64_t plans() const { return static_cast<int64_t>(all.size()); }

private:
  const ExplainInput &input;
  std::vector<const PlanPoint *> all; ///< the best one first
  double tasks = 0;                   ///< of their timelines

  struct Crossing {
    double value = 0;
    const PlanPoint *plan = nullptr;
  };
  std::deque<PlanPoint> found; ///< challengers with the figures as they are
  double secOf(const PlanPoint &plan, const Assumption &figure,
               double value) const {
    return movedSec(input, plan, figure, value);
  }
  void add(const PlanPoint &plan);
  /// Below 0 where another plan wins.
  double lead(const PlanPoint &other, const Assumption &figure,
              double value) const;
  Crossing crossing(const Assumption &figure, double end) const;
  double halve(const PlanPoint &other, const Assumption &figure,
               double end) const;
  SensitivityRow headroomRow(const Assumption &figure) const;
};
} // namespace

static double tasksOf(const PlanPoint &plan) {
  return 3.0 * static_cast<double>(plan.outer.pp * plan.outer.microBatches *
                                   plan.outer.chunks);
}

void Ranking::add(const PlanPoint &plan) {
  constexpr double kRanksEach = 25; // two ends of ten figures, and crossings
  bool isKnown = llvm::any_of(all, [&](const PlanPoint *known) {
    return known->outer.print() == plan.outer.print();
  });
  if (isKnown || (tasks + tasksOf(plan)) * kRanksEach > kMostTasks)
    return;
  tasks += tasksOf(plan);
  all.push_back(&plan);
}

Ranking::Ranking(const ExplainInput &input, const PlanPoint &best)
    : input(input), all{&best}, tasks(tasksOf(best)) {
  for (const Challenger &challenger : input.challengers)
    add(found.emplace_back(atFigures(input, challenger)));
  for (const Alternative &other : input.result->alternatives)
    if (other.plan)
      add(*other.plan);
}

double Ranking::lead(const PlanPoint &other, const Assumption &figure,
                     double value) const {
  return secOf(other, figure, value) -
         (1 - kClearly) * secOf(*all.front(), figure, value);
}

/// Where the lead of the best plan is gone, on the way to `end`.
double Ranking::halve(const PlanPoint &other, const Assumption &figure,
                      double end) const {
  double inside = figure.value;
  for (int i = 0; i < kHalvings; ++i) {
    double middle = (inside + end) / 2;
    (lead(other, figure, middle) < 0 ? end : inside) = middle;
  }
  return end;
}

/// The first plan that wins on the way to `end`, and where; none: null, `end`.
Ranking::Crossing Ranking::crossing(const Assumption &figure,
                                    double end) const {
  double own = secOf(*all.front(), figure, end);
  double ownNow = all.front()->stepSec;
  // By where straight lines through both ends would cross.
  std::vector<std::pair<double, const PlanPoint *>> winners;
  for (const PlanPoint *other : llvm::drop_begin(all)) {
    double after = secOf(*other, figure, end) - (1 - kClearly) * own;
    double before = other->stepSec - (1 - kClearly) * ownNow;
    if (after < 0)
      winners.push_back({before / (before - after), other});
  }
  llvm::sort(winners,
             [](const auto &a, const auto &b) { return a.first < b.first; });
  Crossing first{end, nullptr};
  for (const auto &[part, other] : llvm::ArrayRef(winners).take_front(
           std::min(winners.size(), kMostCrossings))) {
    double value = halve(*other, figure, end);
    bool isSooner =
        std::abs(value - figure.value) < std::abs(first.value - figure.value);
    if (!first.plan || isSooner)
      first = {value, other};
  }
  return first;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static double peakOf(const PlanPoint &plan) {
  double peak = 0;
  for (const PlacedStage &stage : plan.stages)
    peak = std::max(peak, stage.memory.total());
  return peak;
}

/// A plan that needs more memory was not kept, so less headroom is not looked
/// at. With more the plan stays until it does not fit.
SensitivityRow Ranking::headroomRow(const Assumption &figure) const {
  double capacity = input.machine->perRank().device.memoryBytes;
  SensitivityRow row{figure.name, figure.value, figure.value, 0, "", "", true};
  row.to = std::max(figure.value, 1 - peakOf(*all.front()) / capacity);
  const PlanPoint *next = nullptr;
  auto take = [&](const PlanPoint &plan) {
    bool isSmaller = peakOf(plan) < peakOf(*all.front()) * (1 - 1e-9);
    if (isSmaller && (!next || plan.stepSec < next->stepSec))
      next = &plan;
  };
  for (const PlanPoint *other : llvm::drop_begin(all))
    take(*other);
  if (input.result->roomy)
    take(*input.result->roomy);
  if (next)
    row.above = next->outer.print() == all.front()->outer.print()
                    ? "the same degrees, layers that keep less"
                    : shortLayout(next->outer);
  return row;
}

SensitivityRow Ranking::rowOf(const Assumption &figure) const {
  if (figure.what == Assumed::Headroom)
    return headroomRow(figure);
  auto [least, most] = rangeOf(figure);
  SensitivityRow row{figure.name, figure.value, least, most, "", "", false};
  if (least < figure.value) {
    Crossing below = crossing(figure, least);
    row.from = below.value;
    row.below = below.plan ? shortLayout(below.plan->outer) : "";
  }
  if (most > figure.value) {
    Crossing above = crossing(figure, most);
    row.to = above.value;
    row.above = above.plan ? shortLayout(above.plan->outer) : "";
  }
  return row;
}

SensitivityPart explain_detail::describeSensitivity(const ExplainInput &input,
                                                    const PlanPoint &plan) {
  Ranking ranking(input, plan);
  SensitivityPart part;
  part.plans = ranking.plans();
  part.isSearched = input.searchesSensitivity;
  for (const Assumption &figure : assumptionsOf(input))
    part.rows.push_back(ranking.rowOf(figure));
  return part;
}
