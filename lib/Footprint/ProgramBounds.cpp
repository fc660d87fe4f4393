//===- ProgramBounds.cpp - what programs need at least, by layer ----------===//
//
// Problem: a stage's program is simulated as a whole, so a bound of it would
// need every split and every choice of points.
//
// Idea: whatever else lies on a stage, there is a time in its last backward
// pass at which everything that is kept for its micro-batches still lives,
// together with all sums of gradients and what one layer's pass needs. Of these
// each layer has its part, and the parts add up; `LayerBytes` says how. What
// lives at that time for other reasons (sums over ranks under way, stacks of
// more than one layer's gradients) is left out. What is handed on between
// layers lies as the layouts of embedding and head say: of several the least
// counts.
//
// Judge: `ProgramBounds.NeverAbovePrograms`.
//
//===----------------------------------------------------------------------===//

#include "kerf/Footprint/ProgramBounds.h"

#include "ProgramSketch.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::program_sketch;

/// `ProgramMemory` adds as much of what comes and goes for placement.
static constexpr double kPlacement = 1.01;

/// Of a point whose bound is not known yet.
static constexpr LayerBytes kUnset = {HUGE_VAL, HUGE_VAL, HUGE_VAL,
                                      HUGE_VAL, HUGE_VAL, HUGE_VAL};

namespace {
/// What the bytes of a kind's points depend on.
struct BoundKey {
  TableKey key, first, last; ///< of the layer, the embedding and the head
  int64_t dp = 1, shardGroup = 1;
  int zero = 0;
  bool isAlone = false, isSummed = false, putsOff = false, withWork = true;
  bool endsByChunk = false;
  auto operator<=>(const BoundKey &) const = default;
};
/// Layout and point; layouts of embedding, head and the layer beside.
using PointKey = std::array<int, 5>;
using PointBytes = std::map<PointKey, LayerBytes>;
} // namespace

struct ProgramBounds::State {
  LayerContext context;
  int64_t workers = 1;
  std::vector<LayerFacts> facts; ///< by kind
  int embedding = -1, head = -1; ///< kinds
  std::map<BoundKey, PointBytes> known;
  /// All but `rest`, which does not ask who else has the parameters as long as
  /// their gradients stay whole.
  std::map<BoundKey, PointBytes> passes;

  bool isEnd(int kind) const { return kind == embedding || kind == head; }
  std::unique_ptr<SketchedLayer> sketch(const OuterChoice &outer, int kind,
                                        const LayerLayout &layout) const {
    return std::make_unique<SketchedLayer>(context, outer, kind, facts[kind],
                                           layout, workers);
  }
};

//===----------------------------------------------------------------------===//
// One layer
//===----------------------------------------------------------------------===//

namespace {
/// Which of its stage's functions a layer is in.
enum class Part { Embedding, Layer, Head };

/// A layer as `StageSketch` (ProgramStage.cpp) simulates it.
class LayerBound {
public:
  LayerBound(const SketchedLayer &layer, const OuterChoice &outer, Part part)
      : layer(layer), outer(outer), part(part), isEnd(part != Part::Layer),
        isSummed(outer.microBatches > 1),
        putsOff(splitsWeightGradient(outer.schedule)) {}

  double rest() const {
    double bytes = isEnd ? layer.inputBytes() : 0;
    for (const SketchedLayer::Param &param : layer.params)
      if (!param.isTied)
        bytes +=
            restOf(param) + (livesLong() ? kPlacement * gradientOf(param) : 0);
    return bytes;
  }

  /// What its passes need; `rest` is not worked out.
  LayerBytes passes(bool withWork) const {
    LayerBytes bytes;
    bytes.work = withWork ? kPlacement * workBytes() : 0;
    if (part == Part::Head)
      return bytes;
    bytes.kept = kPlacement * layer.keptBytes(Kept::Early);
    double &late = putsOff ? bytes.late : bytes.kept;
    late += kPlacement * layer.keptBytes(Kept::Late);
    // A single stage lets go of what its passes keep before deferred passes
    // have anything.
    if (part == Part::Layer && putsOff && isSummed && outer.pp > 1)
      bytes.handed = kPlacement * layer.keptBytes(Kept::Handed);
    if (part == Part::Layer && layer.keepsInput()) {
      bytes.once = kPlacement * layer.boundaryBytes();
      (layer.inputKept() == Kept::Late ? late : bytes.kept) += bytes.once;
    }
    return bytes;
  }

private:
  const SketchedLayer &layer;
  const OuterChoice &outer;
  Part part;
  bool isEnd, isSummed, putsOff;

  /// Whether gradients live while all is kept. Those of one chunk after the
  /// other do in the last chunk alone, which has the head.
  bool livesLong() const { return !outer.endsByChunk() || part == Part::Head; }

  /// Weights, masters and state.
  double restOf(const SketchedLayer::Param &param) const {
    const LayerParam &facts = *param.param;
    double weight = outer.zero >= 3   ? param.piece
                    : outer.zero >= 1 ? param.piece * param.ranks
                                      : param.elements;
    double state = outer.zero >= 1 ? param.piece : param.elements;
    double bytes = weight * facts.weightBytes;
    return facts.trainable
               ? bytes + state * (facts.masterBytes + facts.stateBytes)
               : bytes;
  }

  bool isSharded(const SketchedLayer::Param &param) const {
    return outer.zero >= 2 && param.ranks > 1 && !param.isAcross;
  }

  /// The sum over micro-batches. Gradients of a single one come while what was
  /// kept goes: they are left out.
  double gradientOf(const SketchedLayer::Param &param) const {
    if (!param.param->trainable || !isSummed)
      return 0;
    double elements = isSharded(param) ? param.piece : param.gradient;
    return elements * param.param->gradientBytes;
  }

  /// Of a loop: the part of one layer in the stacks that are made before they
  /// are added to the sums.
  double stackBytes() const {
    double bytes = 0;
    for (const SketchedLayer::Param &param : layer.params)
      if (!param.isTied && (!param.isMatmul || isSharded(param)))
        bytes += gradientOf(param);
    return bytes;
  }

  double workBytes() const {
    SketchedLayer::Passes passes;
    passes.forward = part == Part::Head;
    passes.keeps = part != Part::Head;
    passes.inputGradients = true;
    passes.weightGradients = !putsOff || isEnd;
    passes.isLoop = !isEnd;
    passes.gradients = {isSummed, outer.zero >= 2 && (!isEnd || isSummed)};
    double bytes = layer.lives(passes).peak.total();
    if (isEnd)
      return bytes;
    bytes += layer.gradientBoundaryBytes();
    return putsOff ? bytes : bytes + stackBytes();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// All layers
//===----------------------------------------------------------------------===//

namespace {
/// One point of each layout.
llvm::SmallVector<size_t, 4> layoutsOf(const KindPoints *points) {
  llvm::SmallVector<size_t, 4> first;
  for (size_t i = 0; points && i < points->points.size(); ++i)
    if (llvm::none_of(first, [&](size_t other) {
          return points->points[other]->layout == points->points[i]->layout;
        }))
      first.push_back(i);
  return first;
}

using Sketch = std::unique_ptr<SketchedLayer>;
} // namespace

/// Bounds of one outer choice.
class ProgramBounds::Asker {
public:
  Asker(State &state, const OuterChoice &outer,
        llvm::ArrayRef<KindPoints> kinds, bool withWork)
      : state(state), outer(outer), kinds(kinds), withWork(withWork) {
    for (const KindPoints &kind : kinds) {
      if (kind.kind == state.embedding)
        first = &kind;
      if (kind.kind == state.head)
        last = &kind;
      bounds.resize(std::max<size_t>(bounds.size(), kind.kind + 1));
      bounds[kind.kind].assign(kind.points.size(), kUnset);
    }
  }

  std::vector<std::vector<LayerBytes>> run() {
    llvm::SmallVector<size_t, 4> firsts = layoutsOf(first);
    llvm::SmallVector<size_t, 4> lasts = layoutsOf(last);
    if (!first)
      firsts = {0};
    if (!last)
      lasts = {0};
    for (size_t a : firsts)
      for (size_t b : lasts)
        askBetween(a, b);
    return std::move(bounds);
  }

private:
  State &state;
  const OuterChoice &outer;
  llvm::ArrayRef<KindPoints> kinds;
  bool withWork;
  const KindPoints *first = nullptr, *last = nullptr;
  std::vector<std::vector<LayerBytes>> bounds;
  Sketch embedding, head; ///< that layers lie between; made when needed
  size_t firstPoint = 0, lastPoint = 0;
  /// What is known of a kind, and of its passes.
  struct Known {
    PointBytes *all = nullptr, *passes = nullptr;
  };
  std::map<int, Known> known; ///< by kind

  PointKey pointKeyOf(const KindPoints &kind, size_t point, int beside) const {
    const LayerPoint &own = *kind.points[point];
    return {own.layout, own.point,
            first ? first->points[firstPoint]->layout : -1,
            last ? last->points[lastPoint]->layout : -1, beside};
  }
  const Known &knownOf(const KindPoints &kind) {
    auto [at, isNew] = known.try_emplace(kind.kind);
    if (isNew) {
      BoundKey own = keyOf(kind);
      at->second.all = &state.known[own];
      if (outer.zero < 2) {
        own.zero = 0;
        own.dp = own.shardGroup = 1;
      }
      at->second.passes = &state.passes[own];
    }
    return at->second;
  }

  BoundKey keyOf(const KindPoints &kind) const {
    BoundKey key;
    key.key = kind.key;
    if (first)
      key.first = first->key;
    if (last)
      key.last = last->key;
    key.dp = outer.dp;
    key.shardGroup = outer.shardGroup;
    key.zero = outer.zero;
    key.isAlone = outer.pp == 1;
    key.isSummed = outer.microBatches > 1;
    key.putsOff = splitsWeightGradient(outer.schedule);
    key.withWork = withWork;
    key.endsByChunk = outer.endsByChunk();
    return key;
  }

  Sketch sketch(const KindPoints &kind, size_t point) const {
    return state.sketch(outer, kind.kind, *kind.layouts[point]);
  }
  void makeEnds() {
    if (first && !embedding)
      embedding = sketch(*first, firstPoint);
    if (last && !head)
      head = sketch(*last, lastPoint);
  }

  /// With the embedding and the head in these layouts.
  void askBetween(size_t a, size_t b) {
    firstPoint = a;
    lastPoint = b;
    embedding.reset();
    head.reset();
    for (const KindPoints &kind : kinds)
      for (size_t point = 0; point < kind.points.size(); ++point)
        if (!state.isEnd(kind.kind))
          note(kind, point, boundOf(kind, point));
    askEnd(first, a, /*isHead=*/false);
    askEnd(last, b, /*isHead=*/true);
  }

  /// The least of everything.
  void note(const KindPoints &kind, size_t point, const LayerBytes &bytes) {
    LayerBytes &least = bounds[kind.kind][point];
    least.rest = std::min(least.rest, bytes.rest);
    least.kept = std::min(least.kept, bytes.kept);
    least.late = std::min(least.late, bytes.late);
    least.handed = std::min(least.handed, bytes.handed);
    least.once = std::min(least.once, bytes.once);
    least.work = std::min(least.work, bytes.work);
  }

  LayerBytes boundOf(const KindPoints &kind, size_t point) {
    const Known &own = knownOf(kind);
    auto [at, isNew] = own.all->try_emplace(pointKeyOf(kind, point, -1));
    if (!isNew)
      return at->second;
    Sketch layer = sketch(kind, point);
    LayerBound bound(*layer, outer, Part::Layer);
    auto [passes, isOther] = own.passes->try_emplace(at->first);
    if (isOther) {
      makeEnds();
      layer->setBoundary(embedding.get(), head.get());
      passes->second = bound.passes(withWork);
    }
    at->second = passes->second;
    at->second.rest = bound.rest();
    return at->second;
  }

  /// Points of an end, beside every layout of the layers there.
  void askEnd(const KindPoints *end, size_t chosen, bool isHead) {
    if (!end)
      return;
    const std::vector<LayerRun> &runs = state.context.step->runs;
    int kind = runs[isHead ? runs.size() - 2 : 1].kind;
    const KindPoints *beside = llvm::find_if(
        kinds, [&](const KindPoints &other) { return other.kind == kind; });
    for (auto [point, own] : llvm::enumerate(end->points)) {
      if (own->layout != end->points[chosen]->layout)
        continue;
      if (state.isEnd(kind) || beside == kinds.end()) {
        note(*end, point, endOf(*end, point, isHead, nullptr, 0));
        continue;
      }
      for (size_t other : layoutsOf(beside))
        note(*end, point, endOf(*end, point, isHead, beside, other));
    }
  }

  LayerBytes endOf(const KindPoints &end, size_t point, bool isHead,
                   const KindPoints *beside, size_t besidePoint) {
    int layout = beside ? beside->points[besidePoint]->layout : -1;
    auto [at, isNew] =
        knownOf(end).all->try_emplace(pointKeyOf(end, point, layout));
    if (!isNew)
      return at->second;
    makeEnds();
    Sketch own = sketch(end, point);
    if (beside) {
      Sketch layer = sketch(*beside, besidePoint);
      layer->setBoundary(embedding.get(), head.get());
      own->setBoundary(*layer);
    } else {
      own->setBoundary(embedding.get(), head.get());
    }
    // `tie` changes both.
    Sketch other = isHead && first   ? sketch(*first, firstPoint)
                   : !isHead && last ? sketch(*last, lastPoint)
                                     : nullptr;
    if (other && isHead)
      own->tie(*other);
    else if (other)
      other->tie(*own);
    LayerBound bound(*own, outer, isHead ? Part::Head : Part::Embedding);
    at->second = bound.passes(withWork);
    at->second.rest = bound.rest();
    return at->second;
  }
};

ProgramBounds::ProgramBounds(LayerContext context, int64_t workers)
    : state(std::make_unique<State>()) {
  state->context = context;
  state->workers = workers;
  for (const LayerKind &kind : context.step->kinds)
    state->facts.emplace_back(kind);
  state->embedding = context.step->embedding();
  state->head = context.step->head();
}

ProgramBounds::~ProgramBounds() = default;

std::vector<std::vector<LayerBytes>>
ProgramBounds::of(const OuterChoice &outer, llvm::ArrayRef<KindPoints> kinds,
                  bool withWork) {
  return Asker(*state, outer, kinds, withWork).run();
}
