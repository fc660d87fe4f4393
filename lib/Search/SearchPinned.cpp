//===- SearchPinned.cpp - one plan, all of it given -----------------------===//
//
// A plan whose decisions are all pinned is not searched but costed; what cannot
// be is told, all of it at once.
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"

#include "kerf/Search/Pins.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <limits>

using namespace kerf;
using namespace kerf::search_detail;

namespace {
/// Reads one plan out of pins.
struct PinnedReader {
  const SearchProblem &problem;
  std::vector<std::string> &errors;
  OuterChoice outer;

  void read();

private:
  int64_t one(const char *key, const std::vector<int64_t> &list,
              int64_t otherwise);
  void readData();
  void readSchedule();
  void readState();
};
} // namespace

/// The only value of a list, or `otherwise`.
int64_t PinnedReader::one(const char *key, const std::vector<int64_t> &list,
                          int64_t otherwise) {
  if (list.size() > 1)
    errors.push_back(llvm::formatv("'{0}' is not fixed: found {1} values", key,
                                   list.size()));
  return list.empty() ? otherwise : list.front();
}

/// Data ranks and micro-batches: dp x mb x m is the batch.
void PinnedReader::readData() {
  const Pins &pins = problem.pins;
  int64_t devices = problem.machine->describedDevices();
  int64_t inner = outer.tp * outer.cp * outer.pp;
  if (inner > devices)
    errors.push_back(llvm::formatv(
        "tp x cp x pp = {0} ranks, expected at most {1}", inner, devices));
  int64_t data = std::max<int64_t>(1, devices / inner);
  if (!pins.devices.empty())
    data = std::max<int64_t>(1, one("devices", pins.devices, devices) / inner);
  if (!pins.microBatches.empty() && !pins.microBatch.empty())
    data = std::max<int64_t>(
        1, problem.batch / (pins.microBatches[0] * pins.microBatch[0]));
  outer.dp = one("dp", pins.dp, data);
  outer.microBatch = one("mb", pins.microBatch, 1);
  int64_t own = outer.dp * outer.microBatch;
  if (pins.microBatch.empty() && !pins.microBatches.empty() && outer.dp > 0)
    outer.microBatch =
        std::max<int64_t>(1, problem.batch / (outer.dp * pins.microBatches[0]));
  own = std::max<int64_t>(1, outer.dp * outer.microBatch);
  outer.microBatches = one("m", pins.microBatches, problem.batch / own);
  if (own * outer.microBatches != problem.batch)
    errors.push_back(llvm::formatv(
        "dp {0} x mb {1} x m {2} = {3} sequences, expected the batch, {4}",
        outer.dp, outer.microBatch, outer.microBatches,
        own * outer.microBatches, problem.batch));
  if (outer.ranks() > devices && inner <= devices)
    errors.push_back(llvm::formatv("{0} ranks, expected at most {1} devices",
                                   outer.ranks(), devices));
  outer.ep = one("ep", pins.ep, 1);
  if (outer.dp % outer.ep != 0)
    errors.push_back(
        llvm::formatv("ep={0} does not divide dp={1}", outer.ep, outer.dp));
}

void PinnedReader::readSchedule() {
  const Pins &pins = problem.pins;
  outer.chunks = one("v", pins.chunks, 1);
  outer.schedule =
      outer.chunks > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
  if (pins.schedules.size() > 1)
    errors.push_back("'schedule' is not fixed: found several");
  if (!pins.schedules.empty())
    outer.schedule = pins.schedules.front();
  if (!pins.defer.empty())
    outer.defer = deferOf(one("defer", pins.defer, 0), outer.pp);
  int64_t layers = layersOf(problem);
  if (outer.pp * outer.chunks > layers)
    errors.push_back(llvm::formatv("pp {0} x v {1} = {2} chunks of layers, "
                                   "expected at most {3}, one per layer",
                                   outer.pp, outer.chunks,
                                   outer.pp * outer.chunks, layers));
  StepWork work;
  work.schedule = outer.schedule;
  work.microBatches = outer.microBatches;
  work.chunks = outer.chunks;
  work.defer = outer.defer;
  work.stages.resize(outer.pp);
  for (StageWork &stage : work.stages)
    stage.chunks.resize(outer.chunks);
  if (std::string wrong = work.check(); !wrong.empty())
    errors.push_back(wrong);
}

void PinnedReader::readState() {
  const Pins &pins = problem.pins;
  outer.zero = static_cast<int>(one("zero", pins.zero, 0));
  if (outer.zero == 0)
    return;
  outer.shardGroup = one("shard", pins.shardGroup, outer.dp * outer.cp);
  if (!canShard(outer, outer.shardGroup))
    errors.push_back(
        llvm::formatv("shard={0} is no group of the {1} data ranks",
                      outer.shardGroup, outer.dp * outer.cp));
}

void PinnedReader::read() {
  const Pins &pins = problem.pins;
  outer.tp = one("tp", pins.tp, 1);
  outer.cp = one("cp", pins.cp, 1);
  outer.pp = one("pp", pins.pp,
                 std::max<int64_t>(1, int64_t(pins.stageLayers.size())));
  outer.order = {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Data,
                 MeshAxis::Pipeline};
  if (!pins.order.empty())
    outer.order = pins.order;
  readData();
  readSchedule();
  readState();
  if (pins.stageLayers.empty())
    return;
  int64_t sum = 0;
  for (int64_t layers : pins.stageLayers)
    sum += layers;
  if (sum != layersOf(problem) || int64_t(pins.stageLayers.size()) != outer.pp)
    errors.push_back(llvm::formatv(
        "'layers' has {0} layers on {1} stages, expected {2} on {3}", sum,
        pins.stageLayers.size(), layersOf(problem), outer.pp));
}

std::vector<int64_t> search_detail::evenLayers(const SearchProblem &problem,
                                               const OuterChoice &outer) {
  if (!problem.pins.stageLayers.empty())
    return problem.pins.stageLayers;
  int64_t layers = layersOf(problem);
  std::vector<int64_t> counts(outer.pp, layers / outer.pp);
  for (int64_t stage = 0; stage < layers % outer.pp; ++stage)
    ++counts[stage];
  return counts;
}

/// Every kind at the point that keeps the least, memory without a limit: what
/// comes closest to fitting.
static void relaxMemory(StageProblem &stages) {
  for (StageKind &kind : stages.kinds)
    if (!kind.points.empty())
      kind.points = {*llvm::min_element(
          kind.points, [](const StagePoint &a, const StagePoint &b) {
            return a.savedBytes < b.savedBytes;
          })};
  for (double &budget : stages.budget)
    budget = std::numeric_limits<double>::infinity();
}

/// Bytes of the most loaded stage.
static double mostBytes(const PlanPoint &plan) {
  double most = 0;
  for (const PlacedStage &stage : plan.stages)
    most = std::max(most, stage.memory.total());
  return most;
}

std::optional<PlanPoint>
search_detail::placeBest(const SearchProblem &problem, const OuterChoice &outer,
                         const TableList &tables,
                         llvm::ArrayRef<int64_t> counts, bool mustFit) {
  GroupMemo memo(*problem.machine, problem.profile);
  Pricing pricing(problem, outer, memo);
  PriceList prices = pricesOf(pricing, tables);
  std::optional<PlanPoint> best;
  bool all = true;
  for (const LayoutChoice &layouts : layoutsOf(problem, tables, all)) {
    CandidateTimes times;
    StageProblem stages = stageProblemOf(pricing, layouts, tables, prices,
                                         /*forBound=*/false, times);
    if (stages.kinds.empty())
      continue;
    if (!mustFit)
      relaxMemory(stages);
    StageSplit split = fillStages(stages, counts);
    if (!split.fits())
      continue;
    PlanPoint plan =
        evaluatePlan(problem, outer, placedOf(stages, split, tables));
    bool isBetter = !best || (mustFit ? plan.stepSec < best->stepSec
                                      : mostBytes(plan) < mostBytes(*best));
    if (isBetter)
      best = std::move(plan);
  }
  return best;
}

std::optional<PlanPoint>
kerf::evaluatePinned(const SearchProblem &problem,
                     std::vector<std::string> &errors) {
  size_t before = errors.size();
  PinnedReader reader{problem, errors, {}};
  reader.read();
  if (errors.size() > before)
    return std::nullopt;
  TableList tables = tablesOf(problem, reader.outer);
  for (int kind : kindsOf(problem))
    if (tables[kind]->points.empty())
      errors.push_back(llvm::formatv("layers of kind {0} have no layout for "
                                     "tp {1} cp {2} ep {3} mb {4}: sizes do "
                                     "not divide",
                                     kind, reader.outer.tp, reader.outer.cp,
                                     reader.outer.ep, reader.outer.microBatch));
  if (errors.size() > before)
    return std::nullopt;
  std::vector<int64_t> counts = evenLayers(problem, reader.outer);
  if (auto plan = placeBest(problem, reader.outer, tables, counts, true))
    return plan;
  return placeBest(problem, reader.outer, tables, counts, false);
}
