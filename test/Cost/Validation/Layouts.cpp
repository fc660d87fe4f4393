//===- Layouts.cpp - the layout that a row ran with -----------------------===//

#include "Layouts.h"

#include "RuntimeCosts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace kerf;
using namespace kerf::validate;

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

static bool endsWithAny(llvm::StringRef name,
                        std::initializer_list<llvm::StringRef> ends) {
  return llvm::any_of(ends,
                      [&](llvm::StringRef end) { return name.ends_with(end); });
}

/// Name of the factor by which a matmul is cut, "" if the rule says nothing.
static llvm::StringRef cutOfMatmul(const LayerOp &op) {
  if (endsWithAny(op.weight,
                  {"o_proj.weight", "down_proj.weight", "c_proj.weight"}))
    return "k";
  if (op.name == "embedding")
    return op.weight.find("wpe") == std::string::npos ? "v" : "";
  return op.name == "linear" ? "n" : "";
}

/// Ops on the residual stream, forward and backward.
static bool isResidual(const LayerOp &op) {
  static const llvm::StringSet<> names = {"layer_norm", "rms_norm",
                                          "layer_norm_backward",
                                          "rms_norm_backward", "dropout"};
  return names.contains(op.name) ||
         (op.name == "add" && op.phase == LayerPhase::Forward);
}

OptionFilter kerf::validate::megatronFilter(bool sequenceParallel) {
  return [sequenceParallel](const LayerOp &op, InnerAxis axis,
                            const OpOption &option) {
    if (axis != InnerAxis::Tensor)
      return true;
    bool cutsSequence = option.factor >= 0 &&
                        op.factors[option.factor].index == IndexClass::Sequence;
    llvm::StringRef wanted =
        op.phase == LayerPhase::Forward ? cutOfMatmul(op) : "";
    if (!wanted.empty())
      return option.factor >= 0 &&
             op.factors[option.factor].factor.name == wanted;
    if (op.work.matmulFlops > 0)
      return option.factor >= 0 && !cutsSequence;
    if (isResidual(op))
      return sequenceParallel ? cutsSequence
                              : option.factor < 0 && option.passes < 0;
    return sequenceParallel || !cutsSequence;
  };
}

/// Published runtimes exchange rows between ranks that hold parts of the
/// experts; none gathers tokens, and none holds all experts on a rank of `ep`.
static bool bringsRows(const LayerOp &op, const OpOption &option) {
  auto exchanges = [](const FactorVariant &variant) {
    return variant.exchanges;
  };
  if (!llvm::any_of(op.variants, exchanges))
    return true;
  return option.variant >= 0 && exchanges(op.variants[option.variant]);
}

/// `others`, and of experts that lie on several ranks only exchanged rows.
static OptionFilter withExchange(OptionFilter others) {
  return [=](const LayerOp &op, InnerAxis axis, const OpOption &option) {
    return (axis != InnerAxis::Expert || bringsRows(op, option)) &&
           (!others || others(op, axis, option));
  };
}

PinnedTables::PinnedTables(LayerContext context, const Row &row,
                           std::shared_ptr<PinnedLayouts> layouts,
                           std::shared_ptr<const StepFacts> facts)
    : context(std::move(context)), row(row), layouts(std::move(layouts)),
      facts(std::move(facts)) {}

const LayerLayout *PinnedTables::layoutOf(const LayerQuery &query) {
  // Layouts do not depend on how many sequences a micro-batch has, nor on how
  // far ranks are apart.
  TableKey shape = query.key;
  shape.microBatch = 1;
  for (Group &group : shape.groups)
    group.stride = 1;
  auto known = layouts->layouts.find(shape);
  if (known != layouts->layouts.end())
    return &known->second;
  LayerSolution solution = solveLayer(context, query);
  if (!solution.possible())
    return nullptr;
  return &layouts->layouts.emplace(shape, solution.layout).first->second;
}

LayerTable PinnedTables::make(const TableKey &key) {
  bool isParallel = row.sequenceParallel.value_or(false);
  LayerQuery query;
  query.key = key;
  query.microBatches = microBatchesOf(row);
  // With sequence parallelism inputs of matmuls are kept cut and gathered
  // again, whatever the network; without it they are kept whole.
  query.keptPrice = isParallel ? 1e-10 : 0;
  query.statePrice = 1e-10;
  query.restFree = false;
  if (key.groups[0].size > 1)
    query.filter = megatronFilter(isParallel);
  if (row.ep.value_or(1) > 1)
    query.filter = withExchange(std::move(query.filter));
  query.input = {isParallel ? splitAt(1) : kReplicated, splitAt(1), splitAt(0)};
  query.outputGradient = query.input;
  const LayerLayout *layout = layoutOf(query);
  if (!layout)
    return {};
  LayerPoint point = costOf(context, query, *layout, *facts).point;
  addRuntimeCosts({context, row, key, *layout}, point);
  point.layout = point.point = 0;
  return {{point}, 1};
}

const LayerTable &PinnedTables::get(const TableKey &key) {
  auto [place, isNew] = tables.try_emplace(key);
  if (isNew)
    place->second = make(key);
  return place->second;
}

double PinnedTables::lowerBoundSec(const TableKey &key) {
  const LayerTable &table = get(key);
  if (table.points.empty())
    return 0;
  const LayerPoint &point = table.points.front();
  return point.forward.computeSec() + point.backward.computeSec();
}

double PinnedTables::lowerBoundSavedBytes(const TableKey &key) {
  const LayerTable &table = get(key);
  return table.points.empty() ? 0 : table.points.front().savedBytes;
}

//===----------------------------------------------------------------------===//
// Outside layers
//===----------------------------------------------------------------------===//

/// `count` things over `parts`, the first ones taking what is left over.
static std::vector<int64_t> evenly(int64_t count, int64_t parts) {
  std::vector<int64_t> shares(parts, count / parts);
  for (int64_t i = 0; i < count % parts; ++i)
    ++shares[i];
  return shares;
}

/// Embedding and head count as a layer each.
static std::vector<int64_t> evenlyWithEnds(int64_t layers, int64_t stages) {
  std::vector<int64_t> shares = evenly(layers + 2, stages);
  --shares.front();
  --shares.back();
  return shares;
}

/// Stages end where their share of the parameters' matmuls is full, the head's
/// included (nanotron, `PipelineEngine` and `get_block_compute_costs`).
static std::vector<int64_t> byCost(const Row &row) {
  double h = *row.hidden;
  double layer = 4 * h * h + 3 * h * *row.ffn, head = h * *row.vocab;
  double share = (*row.layers * layer + head) / *row.pp;
  std::vector<int64_t> counts(*row.pp, 0);
  double sum = 0;
  size_t stage = 0;
  for (int64_t i = 0; i < *row.layers; ++i) {
    ++counts[stage];
    sum += layer;
    if (sum >= share * (stage + 1) && stage + 1 < counts.size())
      ++stage;
  }
  return counts;
}

std::vector<int64_t> kerf::validate::stageLayersOf(const Row &row) {
  int64_t stages = row.pp.value_or(1), layers = row.layers.value_or(0);
  if (stages <= 1 || layers <= 0)
    return {};
  llvm::StringRef notes = row.notes;
  llvm::StringRef source = row.source;
  if (notes.contains("embedding counted as a layer") ||
      source.contains("torchtitan"))
    return evenlyWithEnds(layers, stages);
  if (source.contains("nanotron"))
    return byCost(row);
  return evenly(layers, stages);
}

static bool isStated(const Row &row, std::string &why) {
  if (!row.devices || !row.tp || !row.pp)
    why = "devices or degrees not stated";
  else if (!row.microBatch || !row.globalBatch || *row.microBatch < 1)
    why = "batch or micro-batch not stated";
  else if (row.recompute.empty())
    why = "recomputation not stated";
  return why.empty();
}

static bool isConsistent(const Row &row, int64_t cp, std::string &why) {
  if (*row.tp * *row.pp * cp * row.dp.value_or(0) != *row.devices)
    why = "degrees do not multiply to the devices";
  else if (microBatchesOf(row) < 1)
    why = "the batch does not divide into micro-batches";
  else if (row.heads.value_or(0) % *row.tp != 0)
    why = "the tensor axis does not divide the heads";
  return why.empty();
}

/// With a pipeline torchtitan's FSDP keeps weights gathered and gradients whole
/// until the last micro-batch, which is ZeRO-1 (parallelize_llama.py,
/// `reshard_after_forward`).
static int64_t zeroOf(const Row &row) {
  bool isHeld = llvm::StringRef(row.source).contains("torchtitan") &&
                row.pp.value_or(1) > 1;
  return isHeld ? 1 : row.zero.value_or(0);
}

std::optional<Pins> kerf::validate::pinsOf(const Row &row, std::string &why) {
  int64_t cp = row.cp.value_or(1);
  if (!isStated(row, why) || !isConsistent(row, cp, why))
    return std::nullopt;
  Pins pins;
  pins.tp = {*row.tp};
  pins.cp = {cp};
  pins.ep = {row.ep.value_or(1)};
  pins.pp = {*row.pp};
  pins.dp = {*row.dp};
  pins.devices = {*row.devices};
  pins.microBatch = {*row.microBatch};
  pins.microBatches = {microBatchesOf(row)};
  int64_t chunks = row.chunks.value_or(1);
  bool isInterleaved = row.schedule == "interleaved" && chunks > 1;
  pins.chunks = {isInterleaved ? chunks : 1};
  pins.schedules = {isInterleaved ? ScheduleKind::Interleaved
                                  : ScheduleKind::OneFOneB};
  int64_t zero = zeroOf(row);
  pins.zero = {zero};
  pins.shardGroup = {zero > 0 ? *row.dp * cp : 1};
  pins.order = {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Data,
                MeshAxis::Pipeline};
  if (!isInterleaved)
    pins.stageLayers = stageLayersOf(row);
  return pins;
}
