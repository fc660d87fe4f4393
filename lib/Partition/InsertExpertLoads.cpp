//===- InsertExpertLoads.cpp - counts of the experts, for the log ---------===//
//
// Of each `kerf.assign_slots` of the forward pass the model returns how often
// each expert was chosen. Without a capacity these are the sizes, which the
// step has anyway, so that a sum of a few numbers is all that is added. With
// one the sizes are what got a row, and the choices are counted as well.
//
// It runs when repeats are split over stages and the plan is made: of an
// unsplit repeat, stages would have to send each other their layers' counts,
// and no plan should depend on what the log tells.
//
// Example: in the layers 2, 3 of a repeat over 4 experts, `%sizes` [G,4] become
// `%load = reduce sum (cast %sizes) dims [0]` [4], stacked to [2,4], under the
// name "expert_load model.layers.{i}.mlp 2 to 4".
//
//===----------------------------------------------------------------------===//

#include "kerf/Partition/Passes.h"

#include "kerf/Dialect/Kerf/Metrics.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Kerf/Stacks.h"

#include "llvm/ADT/StringSet.h"

namespace kerf {
#define GEN_PASS_DEF_INSERTEXPERTLOADSPASS
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// A value that the model is going to return.
struct Count {
  Value value;
  std::string name;
};

class Insertion {
public:
  explicit Insertion(ModelOp model) : model(model) {}
  void run();

private:
  void addCounts(AssignSlotsOp slots);
  void add(llvm::StringRef kind, Value value, llvm::StringRef layers);
  void stackCounts();
  void returnCounts();
  std::string layersOf(AssignSlotsOp slots);

  ModelOp model;
  llvm::SmallVector<Count> counts;
  llvm::StringSet<> taken; ///< names of layers
};
} // namespace

/// The parameter that a weight is made of, by casts and other views of it.
static ParamOp paramOf(Value weight) {
  while (Operation *op = weight.getDefiningOp()) {
    if (auto param = dyn_cast<ParamOp>(op))
      return param;
    if (op->getNumOperands() == 0)
      break;
    weight = op->getOperand(0);
  }
  return {};
}

/// "model.layers.{i}.mlp" of "model.layers.{i}.mlp.experts.{e}.up_proj.weight".
static llvm::StringRef layerIn(llvm::StringRef param) {
  auto [layer, rest] = param.split(".{e}");
  if (rest.empty())
    layer = param.rsplit('.').first.rsplit('.').first;
  layer.consume_back(".experts");
  return layer;
}

/// The name of a layer of experts: what the names of its weights begin with.
std::string Insertion::layersOf(AssignSlotsOp slots) {
  std::string name = "experts";
  for (Operation *reader : slots.getSizes().getUsers())
    if (isCall(reader, LibraryCall::GroupedMatmul))
      if (ParamOp param = paramOf(reader->getOperand(1))) {
        name = layerIn(param.getName()).str();
        break;
      }
  std::replace(name.begin(), name.end(), ' ', '_');
  auto range = slots->getParentOfType<RepeatOp>();
  auto keyOf = [&](const std::string &text) {
    return text + (range ? " " + std::to_string(range.getStart()) : "");
  };
  std::string own = name;
  for (int64_t n = 2; !taken.insert(keyOf(own)).second; ++n)
    own = name + "." + std::to_string(n);
  return own;
}

void Insertion::add(llvm::StringRef kind, Value value, llvm::StringRef layers) {
  LayerMetric metric{kind, layers};
  if (auto repeat = value.getDefiningOp()->getParentOfType<RepeatOp>()) {
    metric.start = repeat.getStart();
    metric.end = repeat.getEnd();
  }
  counts.push_back({value, metric.print()});
}

void Insertion::addCounts(AssignSlotsOp slots) {
  OpBuilder builder(slots->getContext());
  builder.setInsertionPointAfter(slots);
  PlainBuilder p{builder, slots.getLoc()};
  Operation *before = slots;
  std::string layers = layersOf(slots);
  Value rows = p.sum(p.cast(slots.getSizes(), builder.getF32Type()), {0});
  if (slots.getCapacity()) {
    Value load = ExpertLoadOp::create(builder, p.loc, rows.getType(),
                                      slots.getExperts());
    add(kExpertLoad, load, layers);
    add(kExpertRows, rows, layers);
  } else {
    add(kExpertLoad, rows, layers);
  }
  Operation *end = &*builder.getInsertionPoint();
  for (Operation *op = before->getNextNode(); op != end; op = op->getNextNode())
    op->setAttr(kPhaseAttrName, getPhase(slots));
}

/// Counts of layers of a repeat become stacks of it.
void Insertion::stackCounts() {
  for (RepeatOp repeat : llvm::to_vector(model.getBody().getOps<RepeatOp>())) {
    llvm::SmallVector<Count *> own;
    llvm::SmallVector<Value> values;
    for (Count &count : counts)
      if (count.value.getParentRegion() == &repeat.getBody()) {
        own.push_back(&count);
        values.push_back(count.value);
      }
    if (own.empty())
      continue;
    ValueRange stacks = addStacks(repeat, values).getStackResults();
    for (auto [count, stack] : llvm::zip(own, stacks.take_back(own.size())))
      count->value = stack;
  }
}

void Insertion::returnCounts() {
  ReturnOp end = model.getReturn();
  Builder builder(model.getContext());
  llvm::SmallVector<Attribute> names;
  if (ArrayAttr known = end.getNamesAttr())
    names.assign(known.begin(), known.end());
  names.resize(end.getValues().size(), builder.getStringAttr(""));
  for (const Count &count : counts) {
    end.getValuesMutable().append(count.value);
    names.push_back(builder.getStringAttr(count.name));
  }
  end.setNamesAttr(builder.getArrayAttr(names));
}

void Insertion::run() {
  llvm::SmallVector<AssignSlotsOp> found;
  model.getBody().walk([&](AssignSlotsOp slots) {
    PhaseAttr phase = getPhase(slots);
    if (phase && phase.getKind() == PhaseKind::Forward &&
        !slots->hasAttr(kRecomputedAttrName))
      found.push_back(slots);
  });
  if (found.empty())
    return;
  for (AssignSlotsOp slots : found)
    addCounts(slots);
  stackCounts();
  returnCounts();
}

namespace {
struct InsertExpertLoadsPass
    : kerf::impl::InsertExpertLoadsPassBase<InsertExpertLoadsPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      Insertion(model).run();
  }
};
} // namespace
