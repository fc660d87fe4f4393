//===- Stages.h - which layers lie on which stage, and what is kept -------===//
//
// Problem: a sequence of layers, p stages; each layer may be run at one of a
// few points (slower ones keep fewer bytes). Find the split and the points that
// minimise
//
//     slowestWeight x max T_i + sumWeight x sum T_i
//
// where T_i is the time of stage i, such that every stage fits its memory. With
// m micro-batches, 1F1B has weights m - 1 and 1 (Narayanan et al. 2021, arXiv
// 2104.04473, section 2.2).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SEARCH_STAGES_H
#define KERF_SEARCH_STAGES_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace kerf {

/// One way to run a layer.
struct StagePoint {
  double sec = 0;         ///< forward and backward of a micro-batch
  double savedBytes = 0;  ///< per micro-batch in flight
  double stateBytes = 0;  ///< weights, gradients, optimizer
  double workBytes = 0;   ///< most that lives at once inside
  double bufferBytes = 0; ///< communication buffers that the layer needs
  int id = 0;             ///< of the caller
  /// Per micro-batch whose weight gradient waits, from its forward pass and
  /// from its backward pass on.
  double lateBytes = 0, handedBytes = 0;
};

/// Points of a kind of layer, any order; at least one.
struct StageKind {
  std::vector<StagePoint> points;
};

/// `count` layers of a kind.
struct StageItem {
  int kind = 0;
  int64_t count = 0;
  double inFlight = 1;         ///< micro-batches whose saved bytes are held
  double late = 0, handed = 0; ///< whose late bytes, whose handed ones are
  /// Bytes of a layer but for those of its work.
  double bytesAt(const StagePoint &point) const {
    return inFlight * point.savedBytes + late * point.lateBytes +
           handed * point.handedBytes + point.stateBytes;
  }
};

/// Layers of one stage at their points.
struct Filled {
  double sec = std::numeric_limits<double>::infinity();
  /// No choice of points is faster than this.
  double boundSec = std::numeric_limits<double>::infinity();
  struct Part {
    int kind = 0, point = 0;
    int64_t count = 0;
  };
  std::vector<Part> parts;
  bool fits() const { return sec < std::numeric_limits<double>::infinity(); }
};

constexpr int64_t kExactFills = 512;

/// How points are looked for.
struct FillRules {
  int64_t exactFills = kExactFills; ///< combinations that are all tried
  /// Says no to points that bytes allow. Where more than `exactFills` would
  /// have to be asked for, nothing is found and `boundSec` is 0. Empty: none
  /// are refused.
  std::function<bool(const Filled &)> accepts;
};

/// The fastest points of some layers under `budget`:
///   sum `bytesAt` + max work + max buffer <= budget.
/// Exact when all layers fit at their fastest points or when there are at most
/// `exactFills` combinations; otherwise greedy along the convex hulls, which
/// is at most one step of one layer from the best.
Filled fillStage(llvm::ArrayRef<StageKind> kinds,
                 llvm::ArrayRef<StageItem> items, double budget,
                 const FillRules &rules = {});

struct StageProblem {
  std::vector<StageKind> kinds;
  /// The same points with other bytes, on stages that hold one micro-batch; not
  /// with chunks. Empty: as `kinds`.
  std::vector<StageKind> kindsOfOne;
  std::vector<StageItem> layers; ///< runs, in order
  int first = -1, last = -1;     ///< kinds on the first and last stage besides
  int64_t stages = 1;
  int64_t chunks = 1; ///< per stage, dealt out in turn when > 1
  /// Micro-batches that stage i holds; with chunks, see `held`.
  std::vector<double> inFlight;
  /// Micro-batches whose weight gradients wait on stage i (`StageItem`); empty
  /// where none do.
  std::vector<double> late, handed;
  /// `count` layers of a kind on stage i, which has one chunk.
  StageItem itemOn(int64_t stage, int kind, int64_t count) const {
    StageItem item = {kind, count, inFlight[stage]};
    if (!late.empty()) {
      item.late = late[stage];
      item.handed = handed[stage];
    }
    return item;
  }
  /// With chunks: per stage the vectors of micro-batches held of each chunk
  /// that no other vector covers.
  std::vector<std::vector<std::vector<double>>> held;
  std::vector<double> budget;       ///< bytes of each stage
  int64_t exactFills = kExactFills; ///< see `FillRules`
  /// Of stages with one chunk; see `FillRules`.
  std::function<bool(int64_t stage, const Filled &)> accepts;
  double slowestWeight = 0, sumWeight = 1;
  /// What no split can go below whose slowest stage takes just `slowestSec`, or
  /// with `orSlower` that or more, and all of whose stages take `sumSec` or
  /// more; it grows with `sumSec`, and with `orSlower` with both. Bounds are
  /// made of it. Empty: the objective.
  std::function<double(double slowestSec, double sumSec, bool orSlower)> least;
  /// The most that each stage may take in a step of `stepSec`, whose stages all
  /// take `sumSec` or more: steps are of `least`. Empty: not known.
  std::function<void(double stepSec, double sumSec,
                     llvm::MutableArrayRef<double> most)>
      most;
  /// A split for which `least` is larger is of no use and need not be found.
  double worth = std::numeric_limits<double>::infinity();
};

/// Layers and points of one chunk.
struct SplitChunk {
  int64_t begin = 0, end = 0;      ///< layers, first and last kinds aside
  std::vector<Filled::Part> parts; ///< in the order of the layers' runs
};

struct StageSplit {
  std::vector<std::vector<SplitChunk>> stages; ///< empty: nothing fits
  double slowestSec = 0, sumSec = 0;
  double objective = std::numeric_limits<double>::infinity();
  /// Of no split `least` is smaller, but where it is the problem's `worth` or
  /// more; infinite where none fits. With chunks memory is left out
  /// (`boundOfChunks`).
  double boundObjective = std::numeric_limits<double>::infinity();
  bool fits() const { return !stages.empty(); }
};

/// The best split: exact but for the greedy fills, by a dynamic programme over
/// (stage, layers used) per bottleneck time. With chunks the layers of a stage
/// are dealt evenly to its chunks, and those that are held longest keep the
/// least; where layers are unlike, an even split's borders are shifted while
/// that helps. So with chunks a better split may exist, also where none is
/// found.
StageSplit splitStages(const StageProblem &problem);

/// The points for a given split: `counts` layers of each stage (their sum is
/// the number of layers), dealt evenly to the chunks of a stage.
StageSplit fillStages(const StageProblem &problem,
                      llvm::ArrayRef<int64_t> counts);

/// What `least` is at least over all splits, without regard to memory: max T_i
/// >= the least bottleneck of any distribution of layers to stages.
double boundOfSplit(const StageProblem &problem);

/// The same of the objective.
double leastObjective(const StageProblem &problem);

/// The split into chunks with these borders: chunk k, which is chunk k / p of
/// stage k mod p, ends after layer `ends[k]`. At its best points as far as
/// `fillStage` finds them; `isExact` where it surely does.
StageSplit fillBorders(const StageProblem &problem,
                       llvm::ArrayRef<int64_t> ends, bool &isExact);

/// What `least` is at least, or `worth` where that is no smaller, over all
/// splits into chunks, whichever layers a chunk has (one at least), memory
/// included; infinite where none fits or is of use. Of unlike layers only those
/// of the longest run need room.
double boundOfChunks(const StageProblem &problem);

} // namespace kerf

#endif // KERF_SEARCH_STAGES_H
