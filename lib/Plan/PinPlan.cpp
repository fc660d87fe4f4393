//===- PinPlan.cpp - a plan that is given, as pins ------------------------===//
//
// A plan that somebody wrote is costed by the search that finds plans: all that
// the plan says is fixed, so one point is left, or few.
//
//===----------------------------------------------------------------------===//

#include "LayerPlaces.h"
#include "kerf/Dialect/Kerf/Constants.h"
#include "kerf/Plan/SolvePlan.h"
#include "kerf/Search/Pins.h"
#include "kerf/Sharding/Layout.h"

#include <map>
#include <set>

using namespace mlir;
using namespace kerf;

/// Ops that layers of a run recompute, by their numbers in the kind, where the
/// plan says so of the layers.
static std::optional<std::vector<int64_t>> listOf(LayersAttr layers,
                                                  const LayerRun &run) {
  DenseI64ArrayAttr list = layers.getRecompute();
  if (!list)
    return std::nullopt;
  std::vector<int64_t> numbers = list.asArrayRef().vec();
  for (int64_t &number : numbers)
    number -= run.shift;
  return numbers;
}

/// Lists of ops that a plan recomputes: first that of all layers, then those
/// of single runs. Empty where it lists none: all, or nothing, is recomputed.
static std::vector<std::vector<int64_t>> listsOf(PlanAttr plan,
                                                 const StepModel &step) {
  std::vector<std::vector<int64_t>> lists = {plan.getRecompute()};
  auto runs = plan.getStages() ? runsOf(plan, step) : std::nullopt;
  size_t next = 0;
  if (runs)
    for (Attribute entry : plan.getStages())
      for (LayersAttr layers : PlanAttr::getRuns(entry))
        if (auto own = listOf(layers, *(*runs)[next++]);
            own && !llvm::is_contained(lists, *own))
          lists.push_back(std::move(*own));
  bool hasOps = lists.size() > 1 || !lists.front().empty();
  if (plan.getRecomputeAll() || !hasOps)
    return {};
  return lists;
}

namespace {
/// Phase, number and order of an op in its kind.
using OpKey = std::tuple<LayerPhase, int64_t, int64_t>;

/// What the plan's attribute says, as numbers.
class PlanPins {
public:
  PlanPins(PlanAttr plan, Pins &pins, std::vector<std::string> &errors)
      : plan(plan), pins(pins), errors(errors) {}

  void run(const StepModel &step);

private:
  void fix(llvm::StringRef key, std::vector<int64_t> &allowed, int64_t value);
  void fixMesh();
  void fixSchedule(const StepModel &step);
  void fixStages(const StepModel &step);
  void fixLayers(const StepModel &step);

  PlanAttr plan;
  Pins &pins;
  std::vector<std::string> &errors;
};
} // namespace

void PlanPins::fix(llvm::StringRef key, std::vector<int64_t> &allowed,
                   int64_t value) {
  if (!allows(pins, key, allowed, value))
    errors.push_back(("the plan has " + key + "=" + llvm::Twine(value) +
                      ", which the pins do not allow; leave the pin out, or " +
                      "plan anew without the plan")
                         .str());
  allowed = {value};
}

/// Degrees and their order. The axis `ep` stands right after `dp`.
void PlanPins::fixMesh() {
  std::map<std::string, int64_t> ranks = {
      {"tp", 1}, {"cp", 1}, {"ep", 1}, {"dp", 1}, {"pp", 1}};
  pins.order.clear();
  auto place = [&](MeshAxis axis) {
    if (!llvm::is_contained(pins.order, axis))
      pins.order.push_back(axis);
  };
  MeshAttr mesh = plan.getMesh();
  for (size_t i = mesh.getNames().size(); i-- > 0;) {
    std::string name = mesh.getNames()[i].str();
    auto known = ranks.find(name);
    if (known == ranks.end()) {
      errors.push_back("the plan has the axis '" + name +
                       "', expected tp, cp, ep, dp or pp");
      continue;
    }
    known->second = mesh.getSizes()[i];
    place(name == "tp"   ? MeshAxis::Tensor
          : name == "cp" ? MeshAxis::Context
          : name == "pp" ? MeshAxis::Pipeline
                         : MeshAxis::Data);
  }
  for (MeshAxis axis : {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Data,
                        MeshAxis::Pipeline})
    place(axis);
  fix("tp", pins.tp, ranks["tp"]);
  fix("cp", pins.cp, ranks["cp"]);
  fix("ep", pins.ep, ranks["ep"]);
  fix("dp", pins.dp, ranks["dp"] * ranks["ep"]);
  fix("pp", pins.pp, ranks["pp"]);
}

void PlanPins::fixSchedule(const StepModel &step) {
  fix("m", pins.microBatches, plan.getMicroBatches());
  fix("v", pins.chunks, plan.getChunks());
  if (splitsWeightGradient(*scheduleNamed(plan.getSchedule())))
    fix("defer", pins.defer,
        plan.getDefer() == kDeferAll ? plan.getStageCount() - 1
                                     : plan.getDefer());
  fix("zero", pins.zero, plan.getZero());
  if (plan.getShardGroup() != 0)
    fix("shard", pins.shardGroup, plan.getShardGroup());
  ScheduleKind schedule = *scheduleNamed(plan.getSchedule());
  if (!pins.schedules.empty() && !llvm::is_contained(pins.schedules, schedule))
    errors.push_back("the plan has schedule=" + plan.getSchedule().str() +
                     ", which the pins do not allow; leave the pin out, or "
                     "plan anew without the plan");
  pins.schedules = {schedule};
  // Lists of single ops bound the points of the tables.
  if (listsOf(plan, step).empty())
    pins.recompute = plan.getRecomputeAll() ? "full" : "none";
}

void PlanPins::fixStages(const StepModel &step) {
  if (!plan.getStages() || plan.getChunks() != 1 || plan.getStageCount() == 1)
    return;
  pins.stageLayers.clear();
  for (Attribute entry : plan.getStages()) {
    int64_t count = 0;
    for (LayersAttr run : PlanAttr::getRuns(entry))
      for (const LayerRun &own : step.runs)
        if (own.kind != step.embedding() && own.kind != step.head() &&
            step.kinds[own.kind].name == run.getKind()) {
          count += run.getCount();
          break;
        }
    pins.stageLayers.push_back(count);
  }
}

/// Which layers lie on each chunk, and what they recompute.
void PlanPins::fixLayers(const StepModel &step) {
  if (!plan.getStages())
    return;
  pins.chunkLayers.clear();
  auto runs = runsOf(plan, step);
  if (!runs)
    return; // of another model
  std::vector<std::vector<int64_t>> lists = listsOf(plan, step);
  auto numberOf = [&](LayersAttr layers, const LayerRun &run) -> int {
    if (lists.empty())
      return -1;
    auto own = listOf(layers, run);
    return own ? llvm::find(lists, *own) - lists.begin() : 0;
  };
  size_t next = 0;
  for (Attribute entry : plan.getStages()) {
    std::vector<GivenLayers> &given = pins.chunkLayers.emplace_back();
    for (LayersAttr layers : PlanAttr::getRuns(entry)) {
      const LayerRun &run = *(*runs)[next++];
      given.push_back({run.kind, layers.getCount(), numberOf(layers, run)});
    }
  }
}

void PlanPins::run(const StepModel &step) {
  fixMesh();
  fixSchedule(step);
  fixStages(step);
  fixLayers(step);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static bool hasAxis(ArrayAttr axes, llvm::StringRef axis) {
  return axes && llvm::is_contained(axes.getAsValueRange<StringAttr>(), axis);
}

static bool exchanges(const LayerOp &op, const OpOption &option) {
  return option.variant >= 0 && op.variants[option.variant].exchanges;
}

/// True when the ranks of an axis are assigned to exchange rows.
static bool exchanges(const LayerOp &op, llvm::StringRef axis,
                      AssignAttr assign) {
  return llvm::any_of(op.variants, [&](const FactorVariant &variant) {
    auto isNamed = [&](StringAttr name) {
      return name.getValue() == variant.name;
    };
    return variant.exchanges && llvm::any_of(assign.getVariants(), isNamed) &&
           hasAxis(assign.getFactors().getAs<ArrayAttr>(
                       op.factors[variant.factors.back()].factor.name),
                   axis);
  });
}

/// True when the option does on the axis what the op is assigned. Blocks are
/// those of the tensor axis: no other splits what is made of blocks.
static bool follows(const LayerOp &op, llvm::StringRef axis,
                    const OpOption &option, AssignAttr assign) {
  bool pending = llvm::any_of(assign.getPending(), [&](StringAttr name) {
    return name.getValue() == axis;
  });
  if (exchanges(op, option) != exchanges(op, axis, assign))
    return false;
  llvm::SmallVector<unsigned, 2> split;
  if (option.factor >= 0)
    split = shardedBy(op, option);
  for (auto [f, factor] : llvm::enumerate(op.factors))
    if (llvm::is_contained(split, f) !=
        hasAxis(assign.getFactors().getAs<ArrayAttr>(factor.factor.name), axis))
      return false;
  if (option.factor < 0)
    return pending == (option.passes >= 0);
  return (axis != axisName(InnerAxis::Tensor) ||
          blocksOf(option) == assign.getBlocks()) &&
         (!isRouted(op, option) || assign.getRouted());
}

/// True by op of a kind for those that depend on inputs alone. What is sharded
/// of them is the propagation's choice, in a found plan too (`applyPlan`).
static std::vector<bool> readingInputsOnly(const LayerKind &kind) {
  std::vector<bool> only(kind.ops.size());
  for (auto [i, op] : llvm::enumerate(kind.ops))
    only[i] = llvm::all_of(op.operands, [&](int v) {
      const LayerValue &value = kind.values[v];
      if (value.producer >= 0)
        return bool(only[value.producer]);
      return value.param < 0 && v != kind.input && v != kind.outputGradient;
    });
  return only;
}

/// True when the ranks and micro-batches that split the batch for a layer
/// split this factor. What expert ranks do is an option of the layer.
static bool splitsBatch(PlanAttr plan, ArrayAttr axes) {
  llvm::SmallVector<llvm::StringRef> all;
  for (auto [name, size] :
       llvm::zip(plan.getMesh().getNames(), plan.getMesh().getSizes()))
    if (size > 1 && name == "dp")
      all.push_back(name);
  if (plan.getMicroBatches() > 1)
    all.push_back(kMicroAxis);
  return all.empty() || llvm::any_of(all, [&](llvm::StringRef axis) {
           return hasAxis(axes, axis);
         });
}

/// Makes the batch of an op's results an index like any other.
static void forgetBatch(LayerKind &kind, LayerOp &op) {
  for (auto [value, dims] : llvm::zip(op.results, op.resultFactors))
    for (auto [meaning, dim] : llvm::zip(kind.values[value].classes, dims))
      if (llvm::any_of(dim, [&](unsigned f) {
            return op.factors[f].index == IndexClass::Batch;
          }))
        meaning = IndexClass::Other;
  for (LayerFactor &factor : op.factors)
    if (factor.index == IndexClass::Batch)
      factor.index = IndexClass::Other;
}

void kerf::keepWhole(ModelOp model, StepModel &step) {
  std::vector<std::vector<bool>> free;
  for (const LayerKind &kind : step.kinds)
    free.push_back(readingInputsOnly(kind));
  for (const auto &[op, place] : placesOf(model, step)) {
    LayerKind &kind = step.kinds[place.kind];
    LayerOp &layer = kind.ops[place.op];
    auto assign = op->getAttrOfType<AssignAttr>(kAssignAttrName);
    bool readsInputs =
        free[place.kind][place.op] && !isMadeOfConstants(op->getResult(0));
    if (!assign || layer.operands.empty() || readsInputs)
      continue;
    bool isWhole = llvm::any_of(layer.factors, [&](const LayerFactor &factor) {
      return factor.index == IndexClass::Batch &&
             !splitsBatch(getPlan(model), assign.getFactors().getAs<ArrayAttr>(
                                              factor.factor.name));
    });
    if (isWhole)
      forgetBatch(kind, layer);
  }
}

OptionFilter kerf::pinPlan(ModelOp model, const StepModel &step, Pins &pins,
                           std::vector<std::string> &errors) {
  PlanPins(getPlan(model), pins, errors).run(step);
  auto assigned = std::make_shared<std::map<OpKey, AssignAttr>>();
  for (const auto &[op, place] : decidedOps(model, step))
    if (auto assign = op->getAttrOfType<AssignAttr>(kAssignAttrName)) {
      const LayerOp &layer = step.kinds[place.kind].ops[place.op];
      (*assigned)[{layer.phase, layer.number, layer.order}] = assign;
    }
  return [assigned](const LayerOp &op, InnerAxis axis, const OpOption &option) {
    auto found = assigned->find({op.phase, op.number, op.order});
    return found == assigned->end() ||
           follows(op, axisName(axis), option, found->second);
  };
}

//===----------------------------------------------------------------------===//
// Recomputation
//===----------------------------------------------------------------------===//

namespace {
/// Tables with the recomputation points that a plan names.
class GivenTables : public LayerTables {
public:
  GivenTables(PlanAttr plan, const StepModel &step, SolvedTables &base)
      : step(step), base(base) {
    for (const LayerRun &run : step.runs)
      if (run.repeat >= 0 && allowed[run.kind].empty())
        for (const std::vector<int64_t> &list : listsOf(plan, step))
          allowed[run.kind].push_back(ownOps(run.kind, list));
  }

  const LayerTable &get(const TableKey &key) override {
    auto [known, isNew] = tables.try_emplace(key);
    if (isNew)
      known->second = chosen(key, base.get(key));
    return known->second;
  }
  double lowerBoundSec(const TableKey &key) override {
    return base.lowerBoundSec(key);
  }
  double lowerBoundSavedBytes(const TableKey &key) override {
    return base.lowerBoundSavedBytes(key);
  }
  int64_t solved() const override { return base.solved(); }

private:
  const StepModel &step;
  SolvedTables &base;
  /// By kind, then list (`listsOf`).
  std::map<int, std::vector<std::vector<int64_t>>> allowed;
  std::map<TableKey, LayerTable> tables;

  /// The numbers that are those of the kind's forward ops, ascending.
  std::vector<int64_t> ownOps(int kind, llvm::ArrayRef<int64_t> numbers) {
    std::set<int64_t> own;
    for (const LayerOp &op : step.kinds[kind].ops)
      if (op.phase == LayerPhase::Forward &&
          llvm::is_contained(numbers, op.number))
        own.insert(op.number);
    return {own.begin(), own.end()};
  }

  LayerTable chosen(const TableKey &key, const LayerTable &table) {
    auto lists = allowed.find(key.kind);
    if (lists == allowed.end())
      return table;
    LayerTable given;
    given.layouts = table.layouts;
    for (int list = 0, e = lists->second.size(); list < e; ++list)
      addPoints(key, table, list, given);
    llvm::sort(given.points, [](const LayerPoint &a, const LayerPoint &b) {
      return std::make_tuple(secondsOf(a), a.layout, a.point) <
             std::make_tuple(secondsOf(b), b.layout, b.point);
    });
    return given;
  }

  /// The points of the table that make just the ops of a list again; of a
  /// layout that has none, one is made.
  void addPoints(const TableKey &key, const LayerTable &table, int list,
                 LayerTable &given) {
    const std::vector<int64_t> &numbers = allowed[key.kind][list];
    std::set<int> seen;
    auto add = [&](LayerPoint point) {
      point.list = list;
      given.points.push_back(std::move(point));
    };
    for (const LayerPoint &point : table.points)
      if (recomputedOps(step, key.kind, &base.layoutOf(key, point)) ==
          numbers) {
        seen.insert(point.layout);
        add(point);
      }
    for (const LayerPoint &point : table.points)
      if (seen.insert(point.layout).second)
        add(base.recomputing(key, point, numbers));
  }

  static double secondsOf(const LayerPoint &point) {
    double seconds = 0;
    for (const TimeParts *parts :
         {&point.forward, &point.backward, &point.recompute})
      seconds += parts->computeSec() + parts->allCommSec();
    return seconds;
  }
};
} // namespace

std::unique_ptr<LayerTables> kerf::pinRecomputation(PlanAttr plan,
                                                    const StepModel &step,
                                                    SolvedTables &tables) {
  if (listsOf(plan, step).empty())
    return nullptr;
  return std::make_unique<GivenTables>(plan, step, tables);
}
