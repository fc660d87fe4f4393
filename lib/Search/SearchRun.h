//===- SearchRun.h - the state of one search ------------------------------===//

#ifndef KERF_LIB_SEARCH_SEARCHRUN_H
#define KERF_LIB_SEARCH_SEARCHRUN_H

#include "SearchDetail.h"
#include "SearchNodeBounds.h"

#include <cmath>
#include <deque>
#include <map>
#include <set>

namespace kerf::search_detail {

/// Candidate plans are simulated on the timeline when their closed form is at
/// most this part above the best.
constexpr double kPlayedSlack = 0.08;
/// Guesses of nodes are off by this part, mostly.
constexpr double kGuessSlack = 0.08;

enum class Level : int8_t { Shape, Node, Candidate };

/// An open part of the space; `index` is that of a shape or a node.
struct OpenPart {
  double bound = 0; ///< no plan in it is faster
  double guess = 0; ///< what its best plan will probably take
  Level level = Level::Shape;
  int64_t number = 0; ///< order of creation: equal bounds are worked off in it
  int32_t index = 0;
  int16_t sharding = 0, schedule = 0; ///< of a candidate, in its node's lists
  int32_t layouts = 0;
};

/// A shape with an order of its axes.
struct SearchNode {
  OuterChoice outer;
  bool legal = false;
  bool bounded = false; ///< with its memory
  double least = 0;     ///< that bound
  double bound = 0;     ///< when its tables were solved
  TableList tables;     ///< when solved
  std::vector<LayoutChoice> layouts;
  std::vector<Schedule> schedules;
  std::vector<StateSharding> shardings;
};

/// A candidate plan that was solved, and what no split of it can go below.
struct OpenCandidate {
  double least = 0;
  OpenPart part;
};

struct Evaluated {
  OpenPart part;
  StageSplit split;
};

struct Searcher;

/// The best candidate plan per value of each decision, and what is known of the
/// others.
class Alternatives {
public:
  void noteMisfit(const Shape &shape, double bytes);
  void noteBound(const Shape &shape, const LowerBound &bound);
  /// `value`: seconds of the timeline (never, if not simulated), closed form.
  void noteCandidate(const OuterChoice &outer, std::pair<double, double> value,
                     size_t candidate);
  /// Whether `noteCandidate` would keep it.
  bool improves(const OuterChoice &outer,
                std::pair<double, double> value) const;
  /// The few that are guessed to be the fastest: shapes, nodes, candidate
  /// plans.
  void noteGuess(const Shape &shape, const OpenPart &part);
  void noteGuess(const OuterChoice &outer, const OpenPart &candidate);
  /// What may be faster than the plan that stands for a value.
  struct Promise {
    OpenPart part;
    double listedSec; ///< of that plan
  };
  /// Of values that `best` does not have and that a plan stands for; those that
  /// are guessed to be the fastest first.
  std::vector<Promise> promises(const PlanPoint &best, Level level) const;
  /// Plans that stand for a value and were not simulated: what is clearly
  /// slower than the best comes behind all others until then.
  void simulate(Searcher &searcher);
  std::vector<Alternative> list(Searcher &searcher, const PlanPoint &best);

private:
  struct Track {
    LowerBound bound;        ///< least of a shape
    double bytes = HUGE_VAL; ///< least of a shape that does not fit
    std::pair<double, double> value = {HUGE_VAL, HUGE_VAL};
    size_t candidate = 0;
    std::vector<OpenPart> shapes, nodes; ///< by guess, as candidates
    std::map<ScheduleKind, std::vector<OpenPart>> candidates;
    std::vector<OpenPart> guessed(Level level) const;
    bool evaluated() const { return value.second < HUGE_VAL; }
    /// Something was told of it besides guesses.
    bool isKnown() const {
      return evaluated() || bound.sec < HUGE_VAL || bytes < HUGE_VAL;
    }
    /// On the timeline, behind `simulate`.
    double seconds() const { return value.first; }
  };
  /// By decision ("tp"), then value.
  std::map<std::pair<int, int64_t>, Track> tracks;
};

struct Searcher {
  explicit Searcher(const SearchProblem &problem)
      : problem(problem), memo(*problem.machine, problem.profile),
        bounds(problem, memo), nodeBounds(problem, memo, bounds),
        best(problem.enoughSec) {}

  void run();
  void improveAlternatives();
  void certify();
  PlanPoint planOf(const Evaluated &candidate);
  OuterChoice outerOf(const OpenPart &part) const;

  const SearchProblem &problem;
  Certificate certificate;
  Alternatives alternatives;
  std::vector<Evaluated> evaluated; ///< candidate plans that fit
  std::optional<PlanPoint> winner;  ///< the best one on the timeline
  OpenPart won;                     ///< its candidate plan

private:
  GroupMemo memo;
  ShapeBounds bounds;
  NodeBounds nodeBounds;
  std::vector<Shape> shapes;
  std::set<int32_t> expandedShapes;
  std::deque<SearchNode> nodes;
  /// Open parts in the order in which they are worked off: by guess, to find
  /// good plans soon; by bound, to prove that there are no better ones.
  struct Later {
    bool byBound = false;
    bool operator()(const OpenPart &a, const OpenPart &b) const {
      // Among equals what is deeper comes first: it may settle the rest.
      auto rank = [&](const OpenPart &part) {
        return std::make_tuple(byBound ? part.bound : part.guess,
                               -static_cast<int>(part.level), part.number);
      };
      return rank(a) > rank(b);
    }
  };
  std::vector<OpenPart> queue; ///< a heap by `later`
  Later later;
  std::vector<OpenPart> deferred; ///< what exploring left out
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>, int64_t>
      stateShardings;
  std::set<TableKey> asked, solved;
  int64_t pushed = 0, openNodes = 0, boundedNodes = 0, candidatesBeyond = 0,
          candidatesProven = 0;
  double tableBudget = 0, tablesCost = 0; ///< (`KindSize::tableCost`)
  double tasks = 0;                       ///< simulated
  double closed = 0; ///< so many for all splits of candidate plans
  /// What need not be looked at takes as long: the best plan on the timeline.
  double best;
  /// What a candidate plan has to be faster than, where alternatives are looked
  /// for; else 0.
  double listedSec = 0;
  /// Candidate plans that were solved for alternatives.
  std::set<std::tuple<int32_t, int16_t, int16_t, int32_t>> lookedAt;
  double openBound = HUGE_VAL;               ///< of what was not looked at
  std::vector<OpenCandidate> openCandidates; ///< as far as they were solved
  /// Of those with too many splits to simulate all; of candidate plans that are
  /// not solved.
  double looseBound = HUGE_VAL;

  void push(OpenPart part);
  OpenPart pop();
  void work(const OpenPart &part);
  /// Whether a search that found nothing that fits has looked long enough.
  bool givesUp() const;
  void explore();
  void prove();
  void polish();
  std::vector<OpenPart> takeNear();
  Shape shapeOf(const OpenPart &part) const;
  void countLeftOut();
  void settleTies();
  bool isIdle(const OpenPart &part) const;
  void listShapes();
  double countStateShardings(const Shape &shape);
  void expandShape(int32_t index);
  bool solveTables(SearchNode &node);
  bool raise(OpenPart &part);
  void putBack(const OpenPart &part);
  void expandNode(const OpenPart &part);
  StageProblem problemOf(const OpenPart &part, CandidateTimes &times);
  bool toPrograms(const OpenPart &part, StageProblem &stages,
                  const SearchProblem::MeasureLayers &measure);
  bool isHopeless(const OpenPart &part, StageProblem stages);
  void solvePart(const OpenPart &part);
  double leastOf(const OpenPart &part, const StageProblem &stages,
                 bool byPrograms, const CandidateTimes &times,
                 const StageSplit &split);
  StageSplit fitted(const OpenPart &part, StageProblem &stages,
                    StageSplit split, bool &isNew);
  StageSplit squeezed(const OpenPart &part, StageProblem &stages,
                      llvm::ArrayRef<double> whole);
  std::vector<double> excessOf(const OpenPart &part, const StageProblem &stages,
                               const StageSplit &split);
  double simulateCandidate(const OpenPart &part, const StageProblem &stages,
                           const StageSplit &split, double value, double least);
  bool mayWin(double sec) const;
  bool fitsMemory(const OpenPart &part, const StageProblem &stages,
                  const StageSplit &split);
  StageSplit withBestOnce(const OpenPart &part, const StageProblem &stages,
                          StageSplit split, double &sec);
  OpenPart boundedCandidate(const Pricing &pricing, const PriceList &prices,
                            OpenPart part);
  void keepCandidate(const OpenPart &part, StageProblem &stages,
                     const CandidateTimes &times, StageSplit split,
                     double least);
  void takeSplit(const OpenPart &part, const StageProblem &stages,
                 const StageSplit &split);
  void lookAt(const Alternatives::Promise &promise);
  void closeCandidates();
  bool closeCandidate(OpenCandidate &candidate);
  bool fillPrograms(const OpenPart &part, StageProblem stages,
                    llvm::ArrayRef<int64_t> ends, StageSplit &split);
  bool hasFewSplits(const OuterChoice &outer) const;
};

/// Ways to split `layers` layers into `count` chunks.
double bordersOf(int64_t count, int64_t layers);

/// Whether `a` comes before `b`: time, peak memory, fewer axes, name.
bool better(const PlanPoint &a, const PlanPoint &b);

} // namespace kerf::search_detail

#endif // KERF_LIB_SEARCH_SEARCHRUN_H
