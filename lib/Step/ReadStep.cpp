//===- ReadStep.cpp - from the IR of a step to the planner's data ---------===//
//
// A step is a row of segments: what comes before the first repeat (embedding),
// each repeat with its reverse, what is between, and what comes after the last
// (head). A backward op belongs to the segment of its forward op, which its
// phase names. A slice of a reverse repeat is the forward value that was
// stacked, so that one graph holds both passes of a layer.
//
//===----------------------------------------------------------------------===//

#include "kerf/Step/ReadStep.h"

#include "kerf/Dialect/Kerf/Constants.h"
#include "kerf/Dialect/Kerf/Deferred.h"
#include "kerf/Dialect/Kerf/MatmulEnd.h"
#include "kerf/Dialect/Kerf/Title.h"
#include "kerf/Interfaces/KernelInterface.h"
#include "kerf/Interfaces/Place.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

#include <numeric>

using namespace mlir;
using namespace kerf;

namespace {

using Classes = llvm::SmallVector<IndexClass, 4>;

double elementBytesOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? (tensor.getElementTypeBitWidth() + 7) / 8 : 0;
}

/// The name that machine descriptions have for a number type: "bf16", "fp8".
std::string numberType(Type element) {
  std::string name = "fp8";
  if (!isFloat8(element)) {
    name.clear();
    llvm::raw_string_ostream(name) << element;
  }
  return name;
}

/// A sum of pads and of such sums: one buffer, each part written in place.
bool isDisjointSum(Operation *op) {
  return isa<AddOp>(op) && llvm::all_of(op->getOperands(), [](Value operand) {
           Operation *maker = operand.getDefiningOp();
           return maker &&
                  (isView(maker, ViewKind::Pad) || isDisjointSum(maker));
         });
}

/// Ops of one segment, forward and backward.
struct Segment {
  std::string name;
  RepeatOp forward, reverse; ///< null outside repeats
  llvm::SmallVector<Operation *> ops;
};

//===----------------------------------------------------------------------===//
// What indices mean
//===----------------------------------------------------------------------===//

/// Follows the meaning of dimensions from the model's inputs, in program order.
class ClassOf {
public:
  explicit ClassOf(ModelOp model) {
    for (llvm::StringRef role : {"tokens", "targets", "segments", "positions"})
      if (BlockArgument input = model.getInput(role))
        set(input, {IndexClass::Batch, IndexClass::Sequence});
    walk(model.getBody().front());
  }

  Classes get(Value value) const {
    Classes classes = known.lookup(value);
    if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
      classes.resize(tensor.getRank(), IndexClass::Other);
    return classes;
  }
  /// Meaning of an op's factors, from its operands and, where they tell
  /// nothing, from what its results are read for.
  llvm::SmallVector<IndexClass, 6> factorsOf(Operation *op,
                                             const Factors &facts) const {
    llvm::SmallVector<IndexClass, 6> classes(facts.factors.size(),
                                             IndexClass::Other);
    for (auto [result, dims] : llvm::zip(op->getResults(), facts.results))
      for (auto [dim, meaning] : llvm::zip(dims, get(result)))
        note(facts, dim, meaning, classes);
    for (auto [operand, dims] : llvm::zip(op->getOperands(), facts.operands))
      for (auto [dim, meaning] : llvm::zip(dims, get(operand)))
        if (!isMadeOfConstants(operand))
          note(facts, dim, meaning, classes);
    for (const FactorMap &map : facts.maps)
      for (const auto &list : {map.from, map.to})
        for (unsigned f : list)
          if (classes[f] == IndexClass::Other && facts.factors[f].size > 1 &&
              facts.factors[f].kind == FactorKind::Whole)
            classes[f] = IndexClass::Expert;
    return classes;
  }

private:
  llvm::DenseMap<Value, Classes> known;
  /// Gives what constants make, and what it is made of, the meaning that a
  /// reader has for it; none where two differ.
  void adopt(Value value, Classes classes) {
    Operation *op = value.getDefiningOp();
    auto before = known.find(value);
    if (before != known.end())
      for (auto [own, other] : llvm::zip(classes, before->second))
        own = own == other ? own : IndexClass::Other;
    set(value, classes);
    Factors facts = cast<FactorOpInterface>(op).getFactors();
    auto own = factorsOf(op, facts);
    for (auto [operand, dims] : llvm::zip(op->getOperands(), facts.operands))
      adopt(operand, meaningsOf(facts, dims, own));
  }
  void set(Value value, Classes classes) {
    if (auto tensor = dyn_cast<RankedTensorType>(value.getType())) {
      classes.resize(tensor.getRank(), IndexClass::Other);
      known[value] = std::move(classes);
    }
  }
  /// A dimension means what its first factor of more than one element means.
  static void note(const Factors &facts, const DimFactors &dim,
                   IndexClass meaning,
                   llvm::SmallVectorImpl<IndexClass> &classes) {
    for (unsigned f : dim)
      if (facts.factors[f].size > 1) {
        if (meaning != IndexClass::Other)
          classes[f] = meaning;
        return;
      }
  }
  static Classes meaningsOf(const Factors &facts, const TensorFactors &dims,
                            llvm::ArrayRef<IndexClass> classes) {
    Classes own;
    for (const DimFactors &dim : dims) {
      const auto *first = llvm::find_if(
          dim, [&](unsigned f) { return facts.factors[f].size > 1; });
      own.push_back(first == dim.end() ? IndexClass::Other : classes[*first]);
    }
    return own;
  }
  void walk(Block &block) {
    for (Operation &op : block) {
      if (auto repeat = dyn_cast<RepeatOp>(op)) {
        enter(repeat);
        continue;
      }
      auto facts = dyn_cast<FactorOpInterface>(op);
      if (!facts)
        continue;
      Factors factors = facts.getFactors();
      // What constants make means what its readers say.
      if (op.getNumResults() > 0 && isMadeOfConstants(op.getResult(0)))
        continue;
      auto classes = factorsOf(&op, factors);
      for (auto [operand, dims] : llvm::zip(op.getOperands(), factors.operands))
        if (isMadeOfConstants(operand))
          adopt(operand, meaningsOf(factors, dims, classes));
        else if (isView(operand, ViewKind::Repeat))
          set(operand, meaningsOf(factors, dims, classes));
      for (auto [result, dims] : llvm::zip(op.getResults(), factors.results))
        set(result, meaningsOf(factors, dims, classes));
    }
  }
  void enter(RepeatOp repeat) {
    for (auto [arg, init] : llvm::zip(repeat.getCarryArgs(), repeat.getInits()))
      set(arg, get(init));
    for (auto [arg, stack] :
         llvm::zip(repeat.getSliceArgs(), repeat.getSlices())) {
      Classes classes = get(stack);
      set(arg, Classes(llvm::drop_begin(classes)));
    }
    walk(repeat.getBody().front());
    YieldOp yield = repeat.getYield();
    for (auto [result, value] :
         llvm::zip(repeat.getCarryResults(), yield.getCarried()))
      set(result, get(value));
    for (auto [result, value] :
         llvm::zip(repeat.getStackResults(), yield.getStacked())) {
      Classes classes = {IndexClass::Other};
      classes.append(get(value));
      set(result, classes);
    }
  }
};

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// The forward op that an op belongs to; -1: none.
int64_t numberOf(Operation *op) {
  PhaseAttr phase = getPhase(op);
  return phase ? phase.getOp() : -1;
}

bool isUpdate(Operation *op) {
  PhaseAttr phase = getPhase(op);
  return phase && phase.getKind() == PhaseKind::Update;
}

/// The segments in order; empty ones are left out.
llvm::SmallVector<Segment> segmentsOf(ModelOp model) {
  llvm::SmallVector<RepeatOp> repeats;
  llvm::DenseMap<int64_t, RepeatOp> reverses;
  for (auto repeat : model.getBody().front().getOps<RepeatOp>()) {
    if (!repeat.getReverse())
      repeats.push_back(repeat);
    else if (repeat.getPair())
      reverses[*repeat.getPair()] = repeat;
  }
  size_t count = repeats.size();
  llvm::SmallVector<Segment> outside(count + 1), all;
  auto segmentOf = [&](int64_t number) {
    size_t index = 0;
    while (index < count && numberOf(repeats[index]) < number)
      ++index;
    return index;
  };
  for (Operation &op : model.getBody().front()) {
    if (isa<RepeatOp, ReturnOp>(op) || isUpdate(&op))
      continue;
    int64_t number = numberOf(&op);
    if (number < 0 && !op.use_empty())
      number = std::max<int64_t>(numberOf(*op.user_begin()), 0);
    outside[segmentOf(number)].ops.push_back(&op);
  }
  for (size_t i = 0; i <= count; ++i) {
    Segment &segment = outside[i];
    segment.name = count == 0   ? "model"
                   : i == 0     ? "embedding"
                   : i == count ? "head"
                                : "between " + std::to_string(i);
    if (llvm::any_of(segment.ops,
                     [](Operation *op) { return !isa<ParamOp>(op); }))
      all.push_back(segment);
    if (i == count)
      break;
    Segment body;
    body.forward = repeats[i];
    if (repeats[i].getPair())
      body.reverse = reverses.lookup(*repeats[i].getPair());
    for (RepeatOp repeat : {body.forward, body.reverse})
      if (repeat)
        for (Operation &op : repeat.getBody().front().without_terminator())
          body.ops.push_back(&op);
    all.push_back(body);
  }
  return all;
}

//===----------------------------------------------------------------------===//
// One kind of layer
//===----------------------------------------------------------------------===//

/// What updates say of parameters, by name.
struct UpdateFacts {
  double gradientBytes = 4, stateBytes = 0;
  bool inPieces = true;
  int64_t granule = 1;
  int64_t gramSteps = 0;
};

UpdateFacts factsOf(UpdateOp update) {
  auto type = typeOf(update.getGradient());
  auto states = update.getStates();
  auto elements = double(std::max<int64_t>(type.getNumElements(), 1));
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  return {elementBytesOf(type), double(bytesOf(states, type)) / elements,
          !rule.mixesElements() && rule.usesLossGradient(), granuleOf(states),
          rule.getGramSteps()};
}

/// Reads one segment.
class KindReader {
public:
  KindReader(const Segment &segment, const ClassOf &classes,
             const llvm::StringMap<UpdateFacts> &updates,
             const llvm::DenseMap<Value, std::string> &gradients)
      : segment(segment), classes(classes), updates(updates),
        gradients(gradients) {}

  LayerKind read() {
    kind.name = segment.name;
    aliasSlices();
    if (segment.reverse)
      deferred = findDeferred(segment.reverse).ops;
    for (LayerPhase phase : {LayerPhase::Forward, LayerPhase::InputGradient})
      for (Operation *op : segment.ops)
        if ((phaseOf(op) == LayerPhase::Forward) ==
                (phase == LayerPhase::Forward) &&
            !isa<ParamOp>(op))
          addOp(op);
    linkForward();
    setBoundaries();
    setGranules();
    return std::move(kind);
  }

private:
  Segment segment;
  const ClassOf &classes;
  const llvm::StringMap<UpdateFacts> &updates;
  const llvm::DenseMap<Value, std::string> &gradients;
  LayerKind kind;
  llvm::DenseMap<Value, Value> alias; ///< slice argument -> forward value
  llvm::DenseMap<Value, int> ids;
  llvm::DenseMap<int64_t, int> forwardOps;
  llvm::SetVector<Operation *> deferred;
  std::map<std::tuple<int, int64_t>, int> orders;

  static LayerPhase phaseOf(Operation *op) {
    PhaseAttr phase = getPhase(op);
    if (phase && phase.getKind() == PhaseKind::InputGradient)
      return LayerPhase::InputGradient;
    if (phase && phase.getKind() == PhaseKind::WeightGradient)
      return LayerPhase::WeightGradient;
    return LayerPhase::Forward;
  }

  void aliasSlices() {
    if (!segment.forward || !segment.reverse)
      return;
    auto stacked = segment.forward.getYield().getStacked();
    for (auto [arg, slice] :
         llvm::zip(segment.reverse.getSliceArgs(), segment.reverse.getSlices()))
      if (auto result = dyn_cast<OpResult>(slice);
          result && result.getOwner() == segment.forward)
        alias[arg] = stacked[result.getResultNumber() -
                             segment.forward.getInits().size()];
  }

  int paramOf(ParamOp op) {
    for (auto [i, param] : llvm::enumerate(kind.params))
      if (param.name == op.getName())
        return i;
    LayerParam param;
    param.name = op.getName().str();
    auto type = typeOf(op.getResult());
    param.shape.assign(type.getShape().begin(), type.getShape().end());
    param.elements = type.getNumElements();
    param.weights = countWeights(op);
    param.weightBytes = elementBytesOf(type);
    if (op.getMaster())
      param.masterBytes = (op.getMaster()->getIntOrFloatBitWidth() + 7) / 8;
    auto found = updates.find(param.name);
    param.trainable = found != updates.end();
    if (param.trainable) {
      param.gradientBytes = found->second.gradientBytes;
      param.stateBytes = found->second.stateBytes;
      param.inPieces = found->second.inPieces;
      param.granule = found->second.granule;
      param.gramSteps = found->second.gramSteps;
    }
    kind.params.push_back(param);
    return kind.params.size() - 1;
  }

  /// The value's number; a new one for values from outside.
  int idOf(Value value, bool forward) {
    if (Value original = alias.lookup(value))
      value = original;
    auto param = value.getDefiningOp<ParamOp>();
    auto [it, isNew] = ids.try_emplace(value, kind.values.size());
    if (!isNew)
      return it->second;
    LayerValue layer;
    auto type = cast<RankedTensorType>(value.getType());
    layer.shape.assign(type.getShape().begin(), type.getShape().end());
    layer.classes = classes.get(value);
    layer.elementBytes = elementBytesOf(type);
    layer.forward = forward;
    if (param) {
      layer.param = paramOf(param);
      layer.name = param.getName().str();
    }
    kind.values.push_back(layer);
    return it->second;
  }

  void addOp(Operation *op) {
    auto facts = dyn_cast<FactorOpInterface>(op);
    auto cost = dyn_cast<CostOpInterface>(op);
    if (!facts || !cost)
      return;
    Factors factors = facts.getFactors();
    LayerOp layer;
    layer.name = op->getName().stripDialect().str();
    layer.place = placeOf(op->getLoc());
    layer.phase = phaseOf(op);
    layer.number = numberOf(op);
    layer.order = orders[{static_cast<int>(layer.phase), layer.number}]++;
    auto meanings = classes.factorsOf(op, factors);
    for (auto [factor, meaning] : llvm::zip(factors.factors, meanings))
      layer.factors.push_back({factor, meaning});
    layer.operandFactors.assign(factors.operands.begin(),
                                factors.operands.end());
    layer.resultFactors.assign(factors.results.begin(), factors.results.end());
    layer.linearOperands = factors.linearOperands;
    layer.jointly = factors.jointly;
    layer.readsPositions = factors.readsPositions();
    layer.variants = factors.variants;
    layer.maps = factors.maps;
    layer.work = cost.getCost();
    layer.view = isView(op, ViewKind::Rename, ViewKind::Part, ViewKind::Pad) ||
                 isDisjointSum(op);
    layer.isDeferred = deferred.contains(op);
    layer.alone = getOwnKernel(op).has_value();
    auto meaning = dyn_cast<DecomposeOpInterface>(op);
    layer.ownLoops = meaning && meaning.hasOwnLoops();
    layer.tableBytes = layer.work.tableBytes;
    layer.stepTableBytes = layer.work.stepTableBytes;
    bool forward = layer.phase == LayerPhase::Forward;
    for (Value operand : op->getOperands())
      layer.operands.push_back(idOf(operand, forward));
    readKind(op, layer);
    int index = kind.ops.size();
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      int id = idOf(result, forward);
      kind.values[id].producer = index;
      kind.values[id].name =
          layer.name + "." + std::to_string(layer.number) +
          (op->getNumResults() > 1 ? "." + std::to_string(i) : "");
      noteGradient(result, id);
      layer.results.push_back(id);
    }
    if (forward)
      forwardOps[layer.number] = index;
    kind.ops.push_back(std::move(layer));
  }

  /// Shards of a parameter's last dimension leave the blocks of its optimizer
  /// state whole.
  void setGranules() {
    for (LayerOp &op : kind.ops) {
      auto note = [&](int number, const TensorFactors &dims) {
        const LayerValue &value = kind.values[number];
        int param = std::max(value.param, value.gradientOf);
        if (param < 0 || dims.empty())
          return;
        int64_t granule = kind.params[param].granule;
        for (unsigned f : llvm::reverse(dims.back())) {
          LayerFactor &factor = op.factors[f];
          factor.granule = std::lcm(factor.granule, granule);
          granule /= std::gcd(granule, factor.factor.size);
        }
      };
      for (auto [value, dims] : llvm::zip(op.operands, op.operandFactors))
        note(value, dims);
      for (auto [value, dims] : llvm::zip(op.results, op.resultFactors))
        note(value, dims);
    }
  }

  /// What the cost functions ask besides flops and bytes.
  void readKind(Operation *op, LayerOp &layer) {
    // What makes a weight is not the layer that is called by it.
    bool isMaking = op->getNumResults() > 0 && isMadeOfFrozen(op->getResult(0));
    for (Value operand : op->getOperands()) {
      if (ParamOp param = layer.weight.empty() && !isMaking
                              ? findWeight(operand)
                              : ParamOp())
        layer.weight = param.getName().str();
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      if (type && layer.type.empty() && isa<FloatType>(type.getElementType()))
        layer.type = numberType(type.getElementType());
    }
    MatmulEnd end = matmulEndOf(op);
    layer.tanh = end == MatmulEnd::Gelu || end == MatmulEnd::GeluBackward;
    if (layer.work.attentionFlops == 0)
      return;
    auto q = typeOf(op->getOperand(0)).getShape();
    layer.headSize = q.back();
    layer.scores =
        double(q[0]) * q[1] * q[2] * typeOf(op->getOperand(1)).getDimSize(1);
    auto attention = dyn_cast<AttentionOpInterface>(op);
    if (!attention)
      return;
    AttentionFacts scores = attention.getAttentionFacts();
    layer.causal = scores.causal;
    layer.dropsScores = scores.drops;
    layer.capsScores = scores.capsScores;
    layer.isPacked = scores.isPacked;
    layer.window = scores.window;
  }

  void noteGradient(Value result, int id) {
    auto found = gradients.find(result);
    if (found == gradients.end())
      return;
    for (auto [i, param] : llvm::enumerate(kind.params))
      if (param.name == found->second)
        kind.values[id].gradientOf = i;
  }

  void linkForward() {
    for (auto [i, op] : llvm::enumerate(kind.ops)) {
      auto found = forwardOps.find(op.number);
      if (op.phase == LayerPhase::Forward)
        op.forward = i;
      else if (found != forwardOps.end())
        op.forward = found->second;
    }
  }

  int known(Value value) {
    if (Value original = alias.lookup(value))
      value = original;
    auto found = ids.find(value);
    return found == ids.end() ? -1 : found->second;
  }

  void setBoundaries() {
    if (segment.forward) {
      setRepeatBoundaries();
      return;
    }
    llvm::DenseSet<Operation *> own(segment.ops.begin(), segment.ops.end());
    for (Operation *op : segment.ops)
      setOuterBoundaries(op, own);
  }

  void setRepeatBoundaries() {
    RepeatOp forward = segment.forward, reverse = segment.reverse;
    auto args = forward.getCarryArgs();
    auto outs = forward.getYield().getCarried();
    if (!args.empty()) {
      kind.input = known(args[0]);
      kind.output = known(outs[0]);
    }
    if (!reverse || reverse.getInits().empty())
      return;
    kind.outputGradient = known(reverse.getCarryArgs()[0]);
    kind.inputGradient = known(reverse.getYield().getCarried()[0]);
  }

  /// Values that come from repeats or go into them: what these carry first (a
  /// sum of losses may be carried beside it).
  void setOuterBoundaries(Operation *op,
                          const llvm::DenseSet<Operation *> &own) {
    for (Value operand : op->getOperands()) {
      auto repeat = operand.getDefiningOp<RepeatOp>();
      if (!repeat || operand != repeat.getResult(0) ||
          repeat.getInits().empty())
        continue;
      int &slot = repeat.getReverse() ? kind.outputGradient : kind.input;
      if (slot < 0)
        slot = known(operand);
    }
    for (Value result : op->getResults())
      for (OpOperand &use : result.getUses()) {
        auto repeat = dyn_cast<RepeatOp>(use.getOwner());
        if (!repeat || use.getOperandNumber() != 0)
          continue;
        int &slot = repeat.getReverse() ? kind.inputGradient : kind.output;
        if (slot < 0)
          slot = known(result);
      }
  }
};

//===----------------------------------------------------------------------===//
// Gradients and updates
//===----------------------------------------------------------------------===//

/// Marks what a gradient is made of: the stacked value, or the addends of tied
/// parameters.
void markGradient(Value gradient, const std::string &name,
                  llvm::DenseMap<Value, std::string> &gradients) {
  auto result = dyn_cast<OpResult>(gradient);
  if (!result)
    return;
  if (auto repeat = dyn_cast<RepeatOp>(result.getOwner())) {
    int64_t stack =
        int64_t(result.getResultNumber()) - repeat.getInits().size();
    if (stack >= 0)
      gradients[repeat.getYield().getStacked()[stack]] = name;
    return;
  }
  gradients[gradient] = name;
  if (auto add = dyn_cast<AddOp>(result.getOwner()))
    for (Value addend : add->getOperands())
      markGradient(addend, name, gradients);
}

/// What a plan says of a segment's ops, where the model has one.
std::string rulesOf(ModelOp model, const Segment &segment) {
  auto plan = model->getAttrOfType<PlanAttr>(kPlanAttrName);
  std::string text;
  llvm::raw_string_ostream os(text);
  for (Operation *op : segment.ops) {
    if (Attribute assign = op->getAttr(kAssignAttrName))
      os << assign;
    if (plan && llvm::is_contained(plan.getRecompute(), numberOf(op)))
      os << " recomputed";
    os << ";";
  }
  return text;
}

} // namespace

FailureOr<StepModel> kerf::readStep(ModelOp model) {
  StepModel step;
  step.name = titleOf(model).str();
  if (BlockArgument tokens = model.getInput("tokens")) {
    auto type = cast<RankedTensorType>(tokens.getType());
    step.batch = type.getRank() > 0 ? type.getDimSize(0) : 1;
    step.sequence = type.getRank() > 1 ? type.getDimSize(1) : 1;
    step.vocabulary = getVocabulary(tokens);
  }
  if (step.batch <= 0)
    return model.emitError("a plan needs an input 'tokens' with a batch as its "
                           "first dimension"),
           failure();
  llvm::StringMap<UpdateFacts> updates;
  llvm::DenseMap<Value, std::string> gradients;
  model.walk([&](UpdateOp update) {
    updates[update.getName()] = factsOf(update);
    markGradient(update.getGradient(), update.getName().str(), gradients);
  });
  if (updates.empty())
    return model.emitError("a plan needs a training step: the model has no "
                           "updates (run the stages up to 'precision' first)"),
           failure();

  ClassOf classes(model);
  llvm::StringSet<> seen;
  std::vector<std::string> rules; // by run
  for (Segment &segment : segmentsOf(model)) {
    step.kinds.push_back(
        KindReader(segment, classes, updates, gradients).read());
    LayerKind &kind = step.kinds.back();
    LayerRun run;
    run.kind = step.kinds.size() - 1;
    if (segment.forward)
      run.count = segment.forward.getCount();
    run.repeat = segment.forward ? 0 : -1;
    step.runs.push_back(run);
    rules.push_back(rulesOf(model, segment));
    // Layers of another kind have parameters of the same pattern.
    int64_t first = segment.forward ? segment.forward.getStart() : 0;
    for (LayerParam &param : kind.params) {
      param.shared = !seen.insert(expandName(param.name, first)).second;
      for (const LayerOp &op : kind.ops)
        for (auto [operand, dims] : llvm::zip(op.operands, op.operandFactors))
          if (kind.values[operand].param >= 0 &&
              kind.params[kind.values[operand].param].name == param.name)
            for (const DimFactors &dim : dims)
              for (unsigned f : dim)
                param.expert |= op.factors[f].index == IndexClass::Expert;
    }
    for (const LayerOp &op : kind.ops)
      if (op.work.matmuls() > 0 && step.type.empty())
        step.type = op.type;
  }
  int repeat = 0;
  for (LayerRun &run : step.runs)
    if (run.repeat >= 0)
      run.repeat = repeat++;
  joinEqualRuns(step, rules);
  return step;
}
