//===- ProgramBoundsTest.cpp - bounds of layers against programs ----------===//

#include "kerf/Footprint/ProgramBounds.h"
#include "LayerTesting.h"
#include "SearchTesting.h"
#include "kerf/Footprint/ProgramMemory.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <random>

using namespace kerf;
using namespace kerf::layer_testing;
using kerf::search_testing::addUp;

namespace {

/// A weight of as many rows as there are words, which two kinds have.
int tiedWeight(Builder &builder, int64_t words, int64_t d) {
  int table = builder.weight(words, d);
  builder.kind.params.back().name = "table";
  builder.kind.params.back().shared = true;
  return table;
}

/// Rows of a table by number, and the gradient of the table.
LayerKind embeddingKind(int64_t words, int64_t d) {
  Builder builder;
  LayerKind &kind = builder.kind;
  int ids = builder.value({kBatch, kTokens}, true, true);
  int table = tiedWeight(builder, words, d), rows = builder.activation(d);
  LayerOp op;
  op.factors = {{{"b", kBatch, FactorKind::Parallel}, IndexClass::Batch},
                {{"s", kTokens, FactorKind::Parallel}, IndexClass::Sequence},
                {{"v", words, FactorKind::Whole}, IndexClass::Other},
                {{"n", d, FactorKind::Parallel}, IndexClass::Other}};
  op.operandFactors = {{{0}, {1}}, {{2}, {3}}};
  op.resultFactors = {{{0}, {1}, {3}}};
  builder.add(op, LayerPhase::Forward, {ids, table}, rows);
  int gradient = builder.activation(d, false);
  op.factors[0].factor.kind = op.factors[1].factor.kind = FactorKind::Sum;
  op.operandFactors = {{{0}, {1}, {3}}, {{0}, {1}}};
  op.resultFactors = {{{2}, {3}}};
  builder.add(op, LayerPhase::WeightGradient, {gradient, ids},
              builder.gradientOf(table));
  kind.output = rows;
  kind.outputGradient = gradient;
  return kind;
}

/// Scores of all words, by the same table.
LayerKind headKind(int64_t words, int64_t d) {
  Builder builder;
  LayerKind &kind = builder.kind;
  TensorFactors in = {{B}, {S}, {K}}, out = {{B}, {S}, {N}}, w = {{N}, {K}};
  int x = builder.activation(d), table = tiedWeight(builder, words, d);
  int scores = builder.activation(words);
  builder.add(builder.matmul(words, d, K, {in, w}, out), LayerPhase::Forward,
              {x, table}, scores);
  int gradient = builder.activation(words, false);
  builder.add(builder.rows(words, 1), LayerPhase::InputGradient, {scores},
              gradient);
  int dx = builder.activation(d, false);
  builder.add(builder.matmul(words, d, N, {out, w}, in),
              LayerPhase::InputGradient, {gradient, table}, dx);
  builder.add(builder.matmul(words, d, B, {out, in}, w),
              LayerPhase::WeightGradient, {gradient, x},
              builder.gradientOf(table));
  kind.input = x;
  kind.inputGradient = dx;
  return kind;
}

/// An outer choice of 16 devices for the layers above, or none of them.
std::optional<OuterChoice> randomChoice(std::mt19937 &random) {
  auto pick = [&](int most) { return int64_t(1) << random() % most; };
  OuterChoice outer;
  outer.tp = pick(3);
  outer.cp = pick(2);
  outer.pp = pick(3);
  outer.dp = pick(3);
  outer.ep = std::min(outer.dp, pick(2));
  outer.order = {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Data,
                 MeshAxis::Pipeline};
  outer.microBatches = kBatch / outer.dp;
  if (random() % 4 == 0)
    outer.microBatch =
        outer.microBatches / std::min(pick(2), outer.microBatches);
  outer.microBatches /= outer.microBatch;
  constexpr ScheduleKind kinds[] = {ScheduleKind::OneFOneB, ScheduleKind::GPipe,
                                    ScheduleKind::ZeroBubble,
                                    ScheduleKind::Interleaved};
  outer.schedule = kinds[random() % 4];
  if (outer.schedule == ScheduleKind::Interleaved)
    outer.chunks = 2;
  outer.zero = random() % 4;
  outer.shardGroup = outer.zero > 0 ? outer.dp * outer.cp / outer.ep : 1;
  bool isEven = outer.chunks == 1 || outer.microBatches % outer.pp == 0;
  if (outer.ranks() > 16 || !isEven ||
      (outer.zero > 0 && outer.shardGroup == 1))
    return std::nullopt;
  return outer;
}

/// Points of the first layout of each kind; empty where one has none.
std::vector<KindPoints> firstLayouts(SolvedTables &tables,
                                     const OuterChoice &outer, int kinds) {
  std::vector<KindPoints> all(kinds);
  for (int kind = 0; kind < kinds; ++kind) {
    KindPoints &own = all[kind];
    own.kind = kind;
    own.key = tables.alike(keyOf(outer, kind));
    for (const LayerPoint &point : tables.get(own.key).points)
      if (point.layout == 0) {
        own.points.push_back(&point);
        own.layouts.push_back(&tables.layoutOf(own.key, point));
      }
    if (own.points.empty())
      return {};
  }
  return all;
}

/// Two to four layers for each chunk, at random points; kinds are a layer, and
/// perhaps an embedding and a head.
std::vector<PlacedStage> randomStages(std::mt19937 &random,
                                      const OuterChoice &outer,
                                      llvm::ArrayRef<KindPoints> kinds) {
  auto place = [&](int kind, int64_t count) -> PlacedLayers {
    const auto &points = kinds[kind].points;
    return {kind, count, *points[random() % points.size()]};
  };
  std::vector<PlacedStage> stages(outer.pp);
  for (PlacedStage &stage : stages)
    for (int64_t c = 0; c < outer.chunks; ++c) {
      PlacedChunk &chunk = stage.chunks.emplace_back();
      for (int64_t run = 0; run < 2; ++run)
        chunk.layers.push_back(place(0, 1 + int64_t(random() % 2)));
    }
  if (kinds.size() > 1) {
    std::vector<PlacedLayers> &first = stages.front().chunks.front().layers;
    first.insert(first.begin(), place(1, 1));
    stages.back().chunks.back().layers.push_back(place(2, 1));
  }
  return stages;
}

/// How many stages were compared with their programs, and how it went.
struct BoundCounts {
  int stages = 0, near = 0, late = 0;
};

/// Compares the programs of a random plan with the bounds of its layers.
void compareBounds(std::mt19937 &random, LayerContext context,
                   SolvedTables &tables, bool sumsEarly, BoundCounts &counts) {
  std::optional<OuterChoice> outer = randomChoice(random);
  if (!outer)
    return;
  bool hasEnds = context.step->kinds.size() > 1;
  std::vector<KindPoints> all =
      firstLayouts(tables, *outer, int(context.step->kinds.size()));
  if (all.empty())
    return;
  std::vector<std::vector<LayerBytes>> least =
      ProgramBounds(context, 4).of(*outer, all);
  PlanPoint plan;
  plan.outer = *outer;
  plan.stages = randomStages(random, *outer, all);
  ProgramMemory programs(context, 4, sumsEarly);
  std::vector<StageMemory> simulated =
      programs.of(plan, [&](int kind, const LayerPoint &point) {
        return &tables.layoutOf(all[kind].key, point);
      });
  ASSERT_EQ(simulated.size(), plan.stages.size());
  auto bytesOf = [&](const PlacedLayers &layers) {
    const auto &points = all[layers.kind].points;
    auto own = llvm::find_if(points, [&](const LayerPoint *point) {
      return point->point == layers.point.point;
    });
    return least[layers.kind][own - points.begin()];
  };
  for (auto [index, memory] : llvm::enumerate(simulated)) {
    double sum = addUp(*outer, int64_t(index), plan.stages[index],
                       hasEnds ? 1 : -1, hasEnds ? 2 : -1, bytesOf);
    ++counts.stages;
    counts.near += memory.total() < 1.1 * sum;
    EXPECT_GE(memory.total(), sum) << outer->print() << " stage " << index;
  }
  KeptCurve kept = tables.lowerBoundKept(all[0].key);
  bool putsOff = outer->schedule == ScheduleKind::ZeroBubble && outer->pp > 1 &&
                 outer->microBatches > 1;
  double deferred = putsOff ? tables.lowerBoundDeferredBytes(all[0].key) : 0;
  counts.late += deferred > 0;
  for (auto [point, bytes] : llvm::zip_equal(all[0].points, least[0])) {
    EXPECT_GE(seconds(point->recompute, {}) * (1 + 1e-9),
              at(kept, bytes.kept + bytes.late));
    EXPECT_GE(bytes.handed, deferred);
  }
}

// No program is smaller than what its layers need at least, under any schedule
// and way to cut state, whatever its layers recompute; most are not much
// larger. What heads are bounded by before there are tables is less still. So
// too between an embedding and a head with one weight, and on GPUs, whose
// matmuls end in gelu.
TEST(ProgramBounds, NeverAbovePrograms) {
  for (int64_t experts : {1, 4})
    for (bool hasEnds : {false, true})
      for (bool isGpu : {false, true}) {
        StepModel step;
        step.batch = kBatch;
        step.sequence = kTokens;
        step.type = "bf16";
        step.kinds = {Builder(256, 512, experts).kind};
        step.runs = {{0, 16, 0}};
        if (hasEnds) {
          step.kinds.push_back(embeddingKind(1024, 256));
          step.kinds.push_back(headKind(1024, 256));
          step.runs = {{1, 1, -1}, {0, 16, 0}, {2, 1, -1}};
        }
        Machine machine = twoTiers(1e11);
        if (isGpu) {
          machine.device.arch = "sm_90";
          machine.device.target = BackendTarget::Cuda;
        }
        LayerContext context{&step, &machine, Profile()};
        SolvedTables tables(context);
        std::mt19937 random(5);
        BoundCounts counts;
        for (int tries = 0; tries < 200; ++tries)
          compareBounds(random, context, tables, tries % 2, counts);
        EXPECT_GT(counts.stages, 100);
        EXPECT_GT(counts.near, counts.stages / 2);
        EXPECT_GT(counts.late, 2);
      }
}

/// Two stages of two chunks, each with one layer.
OuterChoice interleaved() {
  OuterChoice outer;
  outer.pp = outer.dp = outer.shardGroup = outer.chunks = 2;
  outer.microBatches = 4;
  outer.microBatch = kBatch / 8;
  outer.schedule = ScheduleKind::Interleaved;
  outer.zero = 1;
  outer.order = {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Data,
                 MeshAxis::Pipeline};
  return outer;
}

// Pieces of the last chunk's gradients come when all whole ones live, and stay
// while the first chunk passes back: they lie beside all that ever lies there.
// That is where it recomputes what the last chunk keeps.
TEST(ProgramMemory, PiecesLieBesideOtherChunks) {
  StepModel step;
  step.batch = kBatch;
  step.sequence = kTokens;
  step.type = "bf16";
  step.kinds = {Builder(512, 1024, 1).kind};
  step.runs = {{0, 4, 0}};
  Machine machine = twoTiers(1e11);
  LayerContext context{&step, &machine, Profile()};
  SolvedTables tables(context);
  OuterChoice outer = interleaved();
  KindPoints layers = firstLayouts(tables, outer, 1).front();
  PlanPoint plan;
  plan.outer = outer;
  PlacedStage stage;
  for (const LayerPoint *point : {layers.points.back(), layers.points.front()})
    stage.chunks.emplace_back().layers.push_back({0, 1, *point});
  plan.stages.assign(outer.pp, stage);
  auto gradients = [&](bool sumsEarly) {
    auto layoutOf = [&](int, const LayerPoint &point) {
      return &tables.layoutOf(layers.key, point);
    };
    StageMemory memory =
        ProgramMemory(context, 4, sumsEarly).of(plan, layoutOf).front();
    return memory.gradients + memory.transit;
  };
  ASSERT_GT(layers.points.size(), 1u);
  // Of one of two chunks, for two ranks.
  EXPECT_EQ(gradients(true), 1.25 * gradients(false));
}

} // namespace
