//===- SearchTest.cpp - the outer search and its judges -------------------===//

#include "SearchTesting.h"

#include "kerf/Search/Pins.h"

#include "gtest/gtest.h"

#include <cmath>
#include <functional>
#include <memory>

using namespace kerf;
using namespace kerf::search_testing;

namespace {

/// A small instance: 2..8 devices, 2..4 layers, memory that may bind.
/// `isUnlike`: with another layer or two, of another kind, in front of these or
/// behind.
std::unique_ptr<Instance> randomInstance(unsigned seed, bool isUnlike = false) {
  std::mt19937 random(seed);
  auto pick = [&](std::vector<int64_t> values) {
    return values[random() % values.size()];
  };
  auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  auto instance = std::make_unique<Instance>();
  instance->machine = twoTiers(pick({2, 3, 4}), pick({1, 2}), real(2e9, 2e10));
  instance->machine.device.reservedBytes = 1e8;
  std::vector<SyntheticKind> kinds;
  for (int k = 0; k < 3; ++k) {
    SyntheticKind kind;
    bool layer = k == 1;
    kind.forwardSec = real(0.5e-3, 4e-3) * (layer ? 1 : 0.3);
    kind.messageBytes = real(1e5, 3e7);
    kind.savedBytes = real(1e8, 2e9) * (layer ? 1 : 0.2);
    kind.boundaryBytes = real(1e6, 5e7);
    kind.workBytes = real(1e6, 3e8);
    kind.denseElements = real(1e6, 3e8);
    kind.expertElements = layer && pick({0, 1}) ? real(1e7, 3e8) : 0;
    kind.sharedElements = k == 2 ? 0.5 * kind.denseElements : 0;
    if (!layer)
      kind.points = {{1, 0}, {0, 1}};
    if (layer && pick({0, 1})) {
      kind.secondLayout = 1.1;
      kind.replicated = seed % 3 ? 1 : 1.7;
    }
    kinds.push_back(kind);
  }
  SearchProblem &problem = instance->problem;
  problem.runs = {{0, 1}, {1, pick({2, 3, 4})}, {2, 1}};
  problem.batch = pick({2, 4, 6, 8});
  problem.sequence = 64;
  problem.maxTensor = pick({1, 2, 4});
  problem.maxContext = pick({1, 2});
  problem.maxExpert = pick({1, 2});
  problem.profile.bucketBytes = double(pick({0, 25000000}));
  problem.pins.schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe,
                            ScheduleKind::ZeroBubble};
  problem.prove = true;
  if (isUnlike) {
    SyntheticKind &other = kinds.emplace_back(kinds[1]);
    other.forwardSec *= real(0.2, 0.9);
    other.savedBytes *= real(0.1, 2);
    other.expertElements = 0;
    problem.runs.insert(problem.runs.begin() + pick({1, 2}),
                        {3, pick({1, 1, 2})});
  }
  instance->connect(std::move(kinds));
  return instance;
}

// The certificate is right: on small problems the proven best is, on the
// timeline, the best of everything, and the count of the space is that of the
// enumeration.
TEST(Search, EqualsEnumeration) {
  int feasible = 0, pipelines = 0, bound = 0;
  for (unsigned seed = 0; seed < 220; ++seed) {
    auto instance = randomInstance(seed);
    ASSERT_TRUE(instance->problem.check().empty());
    SearchResult found = search(instance->problem);
    SearchResult all = searchExhaustively(instance->problem);
    EXPECT_EQ(found.certificate.space, all.certificate.space);
    EXPECT_EQ(found.certificate.nodes, all.certificate.nodes);
    ASSERT_EQ(found.best.has_value(), all.best.has_value()) << seed;
    if (!found.best)
      continue;
    ++feasible;
    EXPECT_TRUE(found.certificate.complete) << seed;
    EXPECT_NEAR(found.certificate.gap(), 0, 1e-9) << seed;
    EXPECT_NEAR(found.certificate.bestSec, all.certificate.bestSec,
                1e-9 * all.certificate.bestSec)
        << seed << " " << found.best->outer.print() << " against "
        << all.best->outer.print();
    EXPECT_TRUE(fits(instance->problem, *found.best));
    EXPECT_EQ(found.certificate.bestSec, found.best->stepSec) << seed;
    pipelines += found.best->outer.pp > 1;
    bound += found.certificate.evaluated < all.certificate.evaluated / 4;
  }
  EXPECT_GT(feasible, 150);
  EXPECT_GT(pipelines, 5);
  EXPECT_GT(bound, 150);
}

// A schedule that is pinned alone is found where it fits, and its bound holds:
// lists of schedules that lack one would say that nothing fits.
TEST(Search, FindsEachScheduleAlone) {
  for (ScheduleKind kind : allSchedules()) {
    int feasible = 0, missed = 0;
    for (unsigned seed = 0; seed < 120; ++seed) {
      auto instance = randomInstance(seed);
      SearchProblem &problem = instance->problem;
      problem.pins.schedules = {kind};
      problem.pins.pp = {2};
      if (!problem.check().empty())
        continue;
      SearchResult all = searchExhaustively(problem);
      if (!all.best)
        continue;
      ++feasible;
      SearchResult found = search(problem);
      missed += !found.best;
      EXPECT_LE(found.certificate.boundSec,
                all.certificate.bestSec * (1 + 1e-9))
          << nameOf(kind).str() << " " << seed;
    }
    EXPECT_GT(feasible, 20) << nameOf(kind).str();
    EXPECT_LE(missed, kind == ScheduleKind::Interleaved ? 2 : 0)
        << nameOf(kind).str();
  }
}

// Interleaved stages are not solved exactly; the printed bound holds.
TEST(Search, BoundHoldsWhenInterleaved) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    auto instance = randomInstance(seed);
    instance->problem.pins.schedules = {ScheduleKind::Interleaved,
                                        ScheduleKind::OneFOneB};
    SearchResult found = search(instance->problem);
    SearchResult all = searchExhaustively(instance->problem);
    if (!found.best)
      continue;
    ASSERT_TRUE(all.best);
    EXPECT_LE(found.certificate.boundSec, all.certificate.bestSec * (1 + 1e-9))
        << seed;
    EXPECT_GE(found.certificate.bestSec, all.certificate.bestSec * (1 - 1e-9))
        << seed;
    EXPECT_LE(found.certificate.bestSec, all.certificate.bestSec * 1.03)
        << seed;
  }
}

// Nor is anything claimed of chunks whose layers were not dealt in a way that
// fits: little memory, and interleaved stages alone.
TEST(Search, BoundHoldsForUndealtChunks) {
  int missed = 0, feasible = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    auto instance = randomInstance(seed);
    SearchProblem &problem = instance->problem;
    instance->machine.device.memoryBytes *= 0.4;
    problem.runs[1].second = 4;
    problem.pins.schedules = {ScheduleKind::Interleaved};
    problem.pins.pp = {2};
    if (!problem.check().empty())
      continue;
    SearchResult all = searchExhaustively(problem);
    if (!all.best)
      continue;
    ++feasible;
    SearchResult found = search(problem);
    EXPECT_LE(found.certificate.boundSec, all.certificate.bestSec * (1 + 1e-9))
        << seed;
    missed += !found.best ||
              found.certificate.bestSec > all.certificate.bestSec * (1 + 1e-9);
  }
  EXPECT_GT(feasible, 20);
  EXPECT_GT(missed, 0);
}

// Where programs are measured, what is found fits by that measure, also where
// the sums over layers say that much more would.
TEST(Search, MeasuredProgramsFit) {
  int squeezed = 0, found = 0;
  for (unsigned seed = 0; seed < 80; ++seed) {
    auto instance = randomInstance(seed);
    SearchProblem sums = instance->problem;
    SearchResult plain = search(sums);
    if (!plain.best)
      continue;
    // Programs keep twice as much as the sums say.
    SearchProblem measured = sums;
    measured.measure = [&](const PlanPoint &plan) {
      PlanPoint whole = evaluatePlan(sums, plan.outer, plan.stages);
      std::vector<StageMemory> stages;
      for (PlacedStage &stage : whole.stages) {
        stage.memory.activations *= 2;
        stages.push_back(stage.memory);
      }
      return stages;
    };
    PlanPoint again =
        evaluatePlan(measured, plain.best->outer, plain.best->stages);
    squeezed += !fits(measured, again);
    SearchResult result = search(measured);
    if (!result.best)
      continue;
    ++found;
    EXPECT_TRUE(fits(measured, *result.best)) << seed;
    EXPECT_GE(result.best->stepSec, plain.best->stepSec * 0.9) << seed;
  }
  EXPECT_GT(squeezed, 10);
  EXPECT_GT(found, 60);
}

/// Twice what layers keep, and as much as all state for the programs' own use:
/// rooms that programs leave are far from what sums say.
std::vector<StageMemory> measureLarge(const SearchProblem &sums,
                                      const PlanPoint &plan) {
  std::vector<StageMemory> stages;
  for (PlacedStage &stage :
       evaluatePlan(sums, plan.outer, plan.stages).stages) {
    StageMemory &memory = stage.memory;
    memory.temporaries += memory.activations + memory.optimizer;
    memory.activations *= 2;
    stages.push_back(memory);
  }
  return stages;
}

/// The least that programs need of the plans that sums find in ever less
/// memory.
double leastMeasured(Instance &instance) {
  double least = HUGE_VAL, memory = instance.machine.device.memoryBytes;
  for (double part = 1; part > 0.02; part *= 0.93) {
    instance.machine.device.memoryBytes = memory * part;
    SearchResult plain = search(instance.problem);
    if (!plain.best)
      break;
    double largest = 0;
    for (const StageMemory &stage : measureLarge(instance.problem, *plain.best))
      largest = std::max(largest, stage.total());
    least = std::min(least, largest);
  }
  instance.machine.device.memoryBytes = memory;
  return least;
}

// Where programs of a known plan fit, not by much, some plan is found: less
// room for sums is taken back where it was too little.
TEST(Search, FindsWhatHardlyFits) {
  int tried = 0, found = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    auto instance = randomInstance(seed);
    double least = leastMeasured(*instance);
    if (least == HUGE_VAL)
      continue;
    instance->machine.device.memoryBytes *=
        1.001 * least / capacityBytes(instance->problem);
    SearchProblem measured = instance->problem;
    measured.measure = [&](const PlanPoint &plan) {
      return measureLarge(instance->problem, plan);
    };
    SearchResult result = search(measured);
    ++tried;
    found += result.best.has_value();
    if (result.best)
      EXPECT_TRUE(fits(measured, *result.best)) << seed;
  }
  EXPECT_GT(tried, 20);
  EXPECT_EQ(found, tried);
}

/// What programs need of a layer in the test below: of parameters as the sums
/// have it, of what is kept more, and something that the sums do not know.
LayerBytes programBytes(const SearchProblem &sums, const OuterChoice &outer,
                        int kind, const LayerPoint &point) {
  PlacedStage alone;
  alone.chunks.assign(outer.chunks, {{{kind, 1, point}}});
  PlanPoint plan = evaluatePlan(
      sums, outer, std::vector<PlacedStage>(outer.pp, std::move(alone)));
  const StageMemory &memory = plan.stages.front().memory;
  bool putsOff = outer.schedule == ScheduleKind::ZeroBubble;
  LayerBytes bytes;
  bytes.rest = memory.weights + memory.masters + memory.optimizer;
  if (outer.microBatches > 1)
    bytes.rest += memory.gradients;
  bytes.rest /= double(outer.chunks);
  bytes.kept = (putsOff ? 0.5 : 1.2) * point.savedBytes;
  if (putsOff) {
    bytes.late = 0.7 * point.savedBytes;
    bytes.handed = 0.4 * point.savedBytes;
  }
  bytes.once = 0.5 * point.boundaryBytes;
  bytes.work = 3 * point.workBytes;
  return bytes;
}

/// Measures programs that are `more` times what their layers add up to.
void measurePrograms(SearchProblem &problem, const SearchProblem &sums,
                     double more) {
  auto measure =
      [&sums](bool withWork, const OuterChoice &outer,
              const std::vector<std::vector<const LayerPoint *>> &points) {
        std::vector<std::vector<LayerBytes>> all(points.size());
        for (auto [kind, own] : llvm::enumerate(points))
          for (const LayerPoint *point : own) {
            LayerBytes bytes = programBytes(sums, outer, int(kind), *point);
            all[kind].push_back(bytes);
            if (!withWork)
              all[kind].back().work = 0;
          }
        return all;
      };
  problem.measureLayers = std::bind_front(measure, true);
  problem.measureLasting = std::bind_front(measure, false);
  problem.measure = [&sums, more](const PlanPoint &plan) {
    std::vector<StageMemory> stages(plan.stages.size());
    for (auto [index, stage] : llvm::enumerate(plan.stages))
      stages[index].temporaries =
          more * addUp(plan.outer, int64_t(index), stage, 0, 2,
                       [&](const PlacedLayers &layers) {
                         return programBytes(sums, plan.outer, layers.kind,
                                             layers.point);
                       });
    return stages;
  };
}

// With little memory, and programs that need more than sums over layers say:
// what is found fits by programs, and the bound is never above the best of all
// splits that do. Where programs are what their layers add up to, that is found
// but for chunks.
TEST(Search, BoundHoldsForPrograms) {
  int found = 0, best = 0, chunked = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    auto instance = randomInstance(seed);
    instance->machine.device.memoryBytes *= seed % 4 < 2 ? 0.7 : 0.45;
    SearchProblem &sums = instance->problem;
    if (seed % 2) {
      sums.runs[1].second = 4;
      sums.pins.schedules = {ScheduleKind::Interleaved};
      sums.pins.pp = {2};
    } else if (seed % 4 == 0) {
      sums.pins.pp = {2, 3};
    }
    if (!sums.check().empty())
      continue;
    SearchProblem problem = sums;
    double more = seed % 8 < 4 ? 1 : 1.1;
    measurePrograms(problem, sums, more);
    SearchResult all = searchExhaustively(problem);
    SearchResult result = search(problem);
    if (!all.best) {
      EXPECT_FALSE(result.best) << seed;
      continue;
    }
    EXPECT_LE(result.certificate.boundSec, all.certificate.bestSec * (1 + 1e-9))
        << seed << " " << all.best->outer.print();
    if (!result.best)
      continue;
    ++found;
    chunked += result.best->outer.chunks > 1;
    EXPECT_TRUE(fits(problem, *result.best)) << seed;
    // Which chunk makes what again is one of the enumeration's many ties.
    if (result.best->outer.chunks == 1)
      EXPECT_GE(result.certificate.bestSec,
                all.certificate.bestSec * (1 - 1e-9))
          << seed;
    best += result.certificate.bestSec <= all.certificate.bestSec * (1 + 1e-9);
  }
  EXPECT_GT(found, 30);
  EXPECT_GT(best, 25);
  EXPECT_GT(chunked, 0);
}

// Programs of what would be best do not fit, whatever its points. The bound
// stays below the best of all that fits, and what is proven is that.
TEST(Search, MisfitsKeepTheirBounds) {
  int slower = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    auto instance = randomInstance(seed);
    SearchResult plain = search(instance->problem);
    if (!plain.best)
      continue;
    SearchProblem measured = instance->problem;
    measured.measure = [&](const PlanPoint &plan) {
      std::vector<StageMemory> stages;
      for (const PlacedStage &stage :
           evaluatePlan(instance->problem, plan.outer, plan.stages).stages) {
        stages.push_back(stage.memory);
        // Nor with other weight gradients deferred.
        OuterChoice outer = plan.outer;
        outer.defer = plain.best->outer.defer;
        if (outer.print() == plain.best->outer.print())
          stages.back().activations += 2 * capacityBytes(instance->problem);
      }
      return stages;
    };
    SearchResult result = search(measured);
    // By closed form: the timeline may choose what is not the best of that.
    if (result.certificate.bestSec <= plain.certificate.bestSec * 1.001)
      continue;
    ++slower;
    double least = searchExhaustively(measured).certificate.bestSec;
    EXPECT_LE(result.certificate.boundSec, least * (1 + 1e-9)) << seed;
    if (result.certificate.complete && result.best->outer.chunks == 1)
      EXPECT_NEAR(result.certificate.bestSec, least, least * 1e-9) << seed;
  }
  EXPECT_GT(slower, 15);
}

// With few tables much is left out. What lies near the plan that was found is
// looked at then, so that it is the best of all more often.
TEST(Search, LooksNearTheBestPlan) {
  int limited = 0, best = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    auto instance = randomInstance(seed);
    SearchResult all = search(instance->problem);
    instance->problem.prove = false;
    instance->problem.budget = 10;
    SearchResult few = search(instance->problem);
    if (!all.best || !few.best || few.certificate.leftOut == 0)
      continue;
    ++limited;
    EXPECT_GE(few.certificate.bestSec, all.certificate.bestSec * (1 - 1e-9))
        << seed;
    best += few.certificate.bestSec <= all.certificate.bestSec * (1 + 1e-9);
  }
  EXPECT_GT(limited, 100);
  EXPECT_GT(best, limited * 2 / 5); // a quarter without
}

// Where no program with a layer on one tensor rank fits, shapes with one are
// pruned before their tables are solved: the rest is searched as if they were
// forbidden.
TEST(Search, LeastProgramsCutShapes) {
  int found = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    auto instance = randomInstance(seed);
    SearchProblem forbidden = instance->problem;
    forbidden.pins.forbidden.push_back({"tp", 1});
    SearchResult expected = search(forbidden);
    SearchProblem large = instance->problem;
    large.measureLeast = [&](const TableKey &key) {
      return key.groups[0].size == 1 ? 2 * capacityBytes(large) : 0;
    };
    SearchResult result = search(large);
    ASSERT_EQ(result.best.has_value(), expected.best.has_value()) << seed;
    if (!result.best)
      continue;
    ++found;
    EXPECT_GT(result.best->outer.tp, 1) << seed;
    EXPECT_EQ(result.best->stepSec, expected.best->stepSec) << seed;
    EXPECT_GT(result.certificate.prunedByMemory, 0) << seed;
  }
  EXPECT_GT(found, 20);
}

// With few tables the result may be worse, and the bound says so: it is never
// above the true optimum.
TEST(Search, SmallBudgetsAreHonest) {
  int incomplete = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    auto instance = randomInstance(seed);
    SearchResult all = searchExhaustively(instance->problem);
    if (!all.best)
      continue;
    instance->problem.prove = false;
    instance->problem.budget = 6;
    SearchResult few = search(instance->problem);
    if (!few.best)
      continue;
    EXPECT_LE(few.certificate.boundSec, all.certificate.bestSec * (1 + 1e-9));
    EXPECT_GE(few.certificate.bestSec, all.certificate.bestSec * (1 - 1e-9));
    incomplete += !few.certificate.complete;
    EXPECT_EQ(few.certificate.complete, few.certificate.gap() < 1e-9) << seed;
  }
  EXPECT_GT(incomplete, 5);
}

/// Pins a node: everything but schedule, ZeRO, stages and points.
void pinNode(Pins &pins, const OuterChoice &node) {
  pins.tp = {node.tp};
  pins.cp = {node.cp};
  pins.ep = {node.ep};
  pins.pp = {node.pp};
  pins.dp = {node.dp};
  pins.microBatch = {node.microBatch};
  pins.order = node.order;
}

// No node is pruned by mistake: what is known of a node without its tables is
// never above the best of everything that can be made of it, under all
// schedules, and infinite only where nothing fits. It is not far below either.
// So, too, of programs that need more than the sums.
TEST(Search, NodeBoundsHold) {
  int nodes = 0, misfits = 0, known = 0, close = 0;
  for (unsigned seed = 0; seed < 160; ++seed) {
    auto instance = randomInstance(seed, /*isUnlike=*/seed >= 120);
    const SearchProblem sums = instance->problem;
    SearchProblem &problem = instance->problem;
    if (seed % 4 == 3)
      measurePrograms(problem, sums, 1);
    if (seed % 2)
      problem.pins.schedules.push_back(ScheduleKind::Interleaved);
    if (seed % 5 == 0)
      problem.profile.bubble = 0.8;
    std::mt19937 random(seed);
    Pins free = problem.pins;
    for (int tries = 0; tries < 12; ++tries) {
      auto pick = [&](int64_t most) {
        return int64_t(1) << random() % (most > 2 ? 3 : most);
      };
      OuterChoice node;
      node.tp = pick(problem.maxTensor);
      node.cp = pick(problem.maxContext);
      node.pp = 1 + random() % 3;
      node.dp = pick(4);
      node.ep = node.dp % 2 == 0 ? pick(problem.maxExpert) : 1;
      node.microBatch = 1 + random() % 2;
      if (problem.batch % (node.dp * node.microBatch) != 0)
        continue;
      node.microBatches = problem.batch / (node.dp * node.microBatch);
      node.order = {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Data,
                    MeshAxis::Pipeline};
      std::shuffle(node.order.begin(), node.order.end(), random);
      problem.pins = free;
      pinNode(problem.pins, node);
      if (!problem.check().empty())
        continue;
      SearchResult all = searchExhaustively(problem);
      if (all.certificate.nodes != 1)
        continue;
      double bound = nodeBoundSec(problem, node);
      ++nodes;
      misfits += bound == HUGE_VAL;
      if (!all.best)
        continue;
      ++known;
      double best = all.certificate.bestSec;
      ASSERT_LE(bound, best * (1 + 1e-9))
          << seed << " " << node.print() << " best " << all.best->outer.print();
      close += bound > 0.8 * best;
    }
  }
  EXPECT_GT(nodes, 300);
  EXPECT_GT(misfits, 10);
  EXPECT_GT(known, 200);
  EXPECT_GT(close, 80);
}

// Two runs give the same plan, the same counts, the same alternatives.
TEST(Search, IsDeterministic) {
  auto text = [](unsigned seed) {
    auto instance = randomInstance(seed);
    SearchResult result = search(instance->problem);
    std::string all = result.best ? result.best->outer.print() : "none";
    all += " " + std::to_string(result.certificate.evaluated) + " " +
           std::to_string(result.certificate.prunedByBound);
    for (const Alternative &alternative : result.alternatives)
      all += "\n" + alternative.what + ": " + alternative.why;
    return all;
  };
  for (unsigned seed : {1u, 2u, 3u})
    EXPECT_EQ(text(seed), text(seed));
}

// Nothing fits: the clash in bytes, and what would help, with its price.
TEST(Search, TellsWhyNothingFits) {
  auto instance = handInstance();
  instance->machine.device.memoryBytes = 0.9e9;
  std::vector<std::string> errors;
  instance->problem.pins = parsePins("recompute=none,tp=1,pp=1", errors);
  SearchResult result = search(instance->problem);
  EXPECT_FALSE(result.best.has_value());
  ASSERT_GE(result.infeasible.reasons.size(), 2u);
  EXPECT_NE(result.infeasible.reasons[0].find("GiB"), std::string::npos);
  EXPECT_NE(result.infeasible.reasons[0].find("'device' has 858.3 MiB"),
            std::string::npos);
  EXPECT_EQ(result.infeasible.reasons[1].rfind("largest part is", 0), 0u);
  // Less state per device: without the pin on tp or pp it fits.
  instance->machine.device.memoryBytes = 3e9;
  result = search(instance->problem);
  EXPECT_FALSE(result.best.has_value());
  bool relieved = false;
  for (const std::string &relief : result.infeasible.reliefs)
    relieved |= relief.find("without the pin tp=1") != std::string::npos;
  EXPECT_TRUE(relieved);
}

// Values of decisions that lost are told with what they cost or why not.
TEST(Search, TellsAlternatives) {
  int withPlan = 0, without = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto instance = randomInstance(seed);
    SearchResult result = search(instance->problem);
    double before = 0;
    for (const Alternative &alternative : result.alternatives) {
      EXPECT_FALSE(alternative.why.empty());
      EXPECT_NE(alternative.what.find('='), std::string::npos);
      without += !alternative.plan;
      if (!alternative.plan)
        continue;
      ++withPlan;
      EXPECT_TRUE(fits(instance->problem, *alternative.plan));
      EXPECT_GE(alternative.plan->stepSec, result.best->stepSec * (1 - 1e-9));
      EXPECT_GE(alternative.plan->stepSec, before);
      before = alternative.plan->stepSec;
    }
  }
  EXPECT_GT(withPlan, 20);
  EXPECT_GT(without, 5);
}

/// With `what` ("tp=4") pinned besides.
static SearchProblem pinned(const SearchProblem &problem,
                            const std::string &what) {
  std::vector<std::string> errors;
  Pins one = parsePins(what, errors);
  EXPECT_TRUE(errors.empty());
  SearchProblem other = problem;
  for (auto list : {&Pins::tp, &Pins::cp, &Pins::ep, &Pins::pp,
                    &Pins::microBatch, &Pins::zero, &Pins::chunks})
    if (!(one.*list).empty())
      other.pins.*list = one.*list;
  if (!one.schedules.empty())
    other.pins.schedules = one.schedules;
  return other;
}

// The plan that stands for a value is mostly the fastest that has it.
TEST(Search, AlternativesAreFast) {
  int all = 0, slower = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    auto instance = randomInstance(seed);
    SearchResult result = search(instance->problem);
    for (const Alternative &alternative : result.alternatives) {
      if (!alternative.plan)
        continue;
      SearchResult best =
          searchExhaustively(pinned(instance->problem, alternative.what));
      ASSERT_TRUE(best.best);
      // The pin may leave a single data rank, over which ZeRO shards nothing.
      if (best.best->outer.zero > 0 && best.best->outer.shardGroup == 1)
        continue;
      double part = alternative.plan->stepSec / best.best->stepSec;
      EXPECT_GE(part, 1 - 1e-9);
      ++all;
      slower += part > 1.005;
    }
  }
  EXPECT_GT(all, 100);
  // Without `improveAlternatives` three in ten are.
  EXPECT_LT(slower, all / 10) << "of " << all;
}

// Of everything with a value that was not tried nothing is faster than the
// bound that is told; and what is called no faster, or slower, is that.
TEST(Search, ProvesAlternatives) {
  int proven = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    auto instance = randomInstance(seed);
    SearchResult result = search(instance->problem);
    for (const Alternative &alternative : result.alternatives) {
      if (alternative.boundSec <= 0)
        continue;
      bool isOpen = alternative.why.rfind("open: ", 0) == 0;
      proven += !isOpen;
      EXPECT_EQ(isOpen,
                alternative.boundSec < result.best->stepSec * (1 - 1e-9));
      SearchResult all =
          searchExhaustively(pinned(instance->problem, alternative.what));
      if (all.best)
        EXPECT_GE(all.best->stepSec, alternative.boundSec * (1 - 1e-9))
            << "seed " << seed << ": " << alternative.what;
    }
  }
  EXPECT_GT(proven, 20);
}

} // namespace
