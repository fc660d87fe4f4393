//===- SearchRun.h - the state of one search ------------------------------===//

#ifndef KERF_LIB_SEARCH_SEARCHRUN_H
#define KERF_LIB_SEARCH_SEARCHRUN_H

#include "SearchDetail.h"
#include "SearchHeadBounds.h"

#include <cmath>
#include <deque>
#include <map>
#include <set>

namespace kerf::search_detail {

/// Leaves are simulated on the timeline when their closed form is at most this
/// part above the best.
constexpr double kPlayedSlack = 0.08;

enum class Level : int8_t { Shape, Head, Leaf };

/// An open part of the space; `index` is that of a shape or a head.
struct Node {
  double bound = 0; ///< no plan in it is faster
  double guess = 0; ///< what its best plan will probably take
  Level level = Level::Shape;
  int64_t number = 0; ///< order of creation: equal bounds are worked off in it
  int32_t index = 0;
  int16_t cut = 0, schedule = 0; ///< of a leaf, in its head's lists
  int32_t layouts = 0;
};

/// A shape with an order of its axes.
struct Head {
  OuterChoice outer;
  bool legal = false;
  bool bounded = false; ///< with its memory
  double bound = 0;     ///< when its tables were solved
  TableList tables;     ///< when solved
  std::vector<LayoutChoice> layouts;
  std::vector<Schedule> schedules;
  std::vector<StateCut> cuts;
};

/// A leaf that was solved, and what no split of it can go below.
struct OpenLeaf {
  double least = 0;
  Node node;
};

struct Evaluated {
  Node node;
  StageSplit split;
};

struct Searcher;

/// The best leaf per value of each decision, and what is known of the others.
class Alternatives {
public:
  void noteMisfit(const Shape &shape, double bytes);
  void noteBound(const Shape &shape, const LowerBound &bound);
  /// `value`: seconds of the timeline (never, if not simulated), closed form.
  void noteLeaf(const OuterChoice &outer, std::pair<double, double> value,
                size_t leaf);
  /// Whether `noteLeaf` would keep it.
  bool improves(const OuterChoice &outer,
                std::pair<double, double> value) const;
  std::vector<Alternative> list(Searcher &searcher, const PlanPoint &best);

private:
  struct Track {
    LowerBound bound;        ///< least of a shape
    double bytes = HUGE_VAL; ///< least of a shape that does not fit
    std::pair<double, double> value = {HUGE_VAL, HUGE_VAL};
    size_t leaf = 0;
    bool evaluated() const { return value.second < HUGE_VAL; }
  };
  /// By decision ("tp"), then value.
  std::map<std::pair<int, int64_t>, Track> tracks;
};

struct Searcher {
  explicit Searcher(const SearchProblem &problem)
      : problem(problem), memo(*problem.machine, problem.profile),
        bounds(problem, memo), headBounds(problem, memo, bounds),
        best(problem.enoughSec) {}

  void run();
  void certify();
  PlanPoint planOf(const Evaluated &leaf);
  OuterChoice outerOf(const Node &node) const;

  const SearchProblem &problem;
  Certificate certificate;
  Alternatives alternatives;
  std::vector<Evaluated> evaluated; ///< leaves that fit
  std::optional<PlanPoint> winner;  ///< the best one on the timeline
  Node won;                         ///< its leaf

private:
  GroupMemo memo;
  ShapeBounds bounds;
  HeadBounds headBounds;
  std::vector<Shape> shapes;
  std::deque<Head> heads;
  /// Nodes in the order in which they are worked off: by guess, to find good
  /// plans soon; by bound, to prove that there are no better ones.
  struct Later {
    bool byBound = false;
    bool operator()(const Node &a, const Node &b) const {
      // Among equals what is deeper comes first: it may settle the rest.
      auto rank = [&](const Node &node) {
        return std::make_tuple(byBound ? node.bound : node.guess,
                               -static_cast<int>(node.level), node.number);
      };
      return rank(a) > rank(b);
    }
  };
  std::vector<Node> queue; ///< a heap by `later`
  Later later;
  std::vector<Node> deferred; ///< what exploring left out
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>, int64_t>
      stateCuts;
  std::set<TableKey> asked, solved;
  int64_t pushed = 0, openHeads = 0, boundedHeads = 0, leavesBeyond = 0,
          leavesProven = 0;
  double tableBudget = 0, tablesCost = 0; ///< (`KindSize::tableCost`)
  double tasks = 0;                       ///< simulated
  double closed = 0;                      ///< so many for all splits of leaves
  /// What need not be looked at takes as long: the best plan on the timeline.
  double best;
  double openBound = HUGE_VAL;      ///< of what was not looked at
  std::vector<OpenLeaf> openLeaves; ///< as far as they were solved
  /// Of those with too many splits to play all; of leaves that are not solved.
  double looseBound = HUGE_VAL;

  void push(Node node);
  Node pop();
  void work(const Node &node);
  /// Whether a search that found nothing that fits has looked long enough.
  bool givesUp() const;
  void explore();
  void prove();
  void polish();
  std::vector<Node> takeNear();
  Shape shapeOf(const Node &node) const;
  void countLeftOut();
  void settleTies();
  bool isIdle(const Node &node) const;
  void listShapes();
  double countStateCuts(const Shape &shape);
  void expandShape(int32_t index);
  bool solveTables(Head &head);
  bool raise(Node &node);
  void putBack(const Node &node);
  void expandHead(const Node &node);
  StageProblem problemOf(const Node &node, LeafTimes &times);
  bool toPrograms(const Node &node, StageProblem &stages,
                  const SearchProblem::MeasureLayers &measure);
  bool isHopeless(const Node &node, StageProblem stages);
  void solveNode(const Node &node);
  double leastOf(const Node &node, const StageProblem &stages, bool byPrograms,
                 const LeafTimes &times, const StageSplit &split);
  StageSplit fitted(const Node &node, StageProblem &stages, StageSplit split,
                    bool &isNew);
  StageSplit squeezed(const Node &node, StageProblem &stages,
                      llvm::ArrayRef<double> whole);
  std::vector<double> excessOf(const Node &node, const StageProblem &stages,
                               const StageSplit &split);
  double playLeaf(const Node &node, const StageProblem &stages,
                  const StageSplit &split, double value, double least);
  bool mayWin(double sec) const;
  bool fitsMemory(const Node &node, const StageProblem &stages,
                  const StageSplit &split);
  StageSplit withBestOnce(const Node &node, const StageProblem &stages,
                          StageSplit split, double &sec);
  Node boundedLeaf(const Pricing &pricing, const PriceList &prices, Node node);
  void keepLeaf(const Node &node, StageProblem &stages, const LeafTimes &times,
                StageSplit split, double least);
  void takeSplit(const Node &node, const StageProblem &stages,
                 const StageSplit &split);
  void closeLeaves();
  bool closeLeaf(OpenLeaf &leaf);
  bool fillPrograms(const Node &node, StageProblem stages,
                    llvm::ArrayRef<int64_t> ends, StageSplit &split);
  bool hasFewSplits(const OuterChoice &outer) const;
};

/// Ways to cut `layers` layers into `count` chunks.
double bordersOf(int64_t count, int64_t layers);

/// Whether `a` comes before `b`: time, peak memory, fewer axes, name.
bool better(const PlanPoint &a, const PlanPoint &b);

} // namespace kerf::search_detail

#endif // KERF_LIB_SEARCH_SEARCHRUN_H
