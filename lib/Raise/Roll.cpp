//===- Roll.cpp - loops of layers that repeat -----------------------------===//
//
// Names propose, ops prove. Parameters whose names differ in one number are a
// stack. In the order of the program the ops of layer i stand between the
// first that reads a parameter of layer i and the first of layer i + 1; a
// period of one or more layers repeats where the ops of one period are those
// of the next, read the same operands, and hand the same values on.
//
//===----------------------------------------------------------------------===//

#include "Layers.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Raise/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace kerf;
using namespace mlir;

namespace kerf {
#define GEN_PASS_DEF_ROLLPASS
#include "kerf/Raise/Passes.h.inc"
} // namespace kerf

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

using Operations = llvm::DenseSet<Operation *>;

/// Moves what follows from positions alone to the top, and gives these ops:
/// they belong to no layer.
static Operations hoistPositions(Block &block) {
  Operation *last = nullptr;
  Operations known;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (isLeaf(&op) || !isPure(&op))
      continue;
    bool isKnown = op.getNumOperands() > 0 &&
                   llvm::all_of(op.getOperands(), [&](Value operand) {
                     Operation *def = operand.getDefiningOp();
                     return def && !isa<ParamOp>(def) &&
                            (isLeaf(def) || known.contains(def));
                   });
    if (isKnown)
      known.insert(&op);
  }
  // Leaves first, then what is made of them, in their order.
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isLeaf(&op) && !known.contains(&op))
      continue;
    if (last)
      op.moveAfter(last);
    else
      op.moveBefore(&block, block.begin());
    last = &op;
  }
  return known;
}

namespace {

//===----------------------------------------------------------------------===//
// Alike
//===----------------------------------------------------------------------===//

static bool isSameRule(GroupAttr a, GroupAttr b) {
  return a.getWeightDecay() == b.getWeightDecay() &&
         a.getRateScale() == b.getRateScale() && a.getRule() == b.getRule();
}

/// A parameter of a loop stays in the group of its layers, though its name is
/// another.
static void keepGroup(ModelOp model, llvm::StringRef layer,
                      llvm::StringRef loop) {
  auto before = groupOf(model, layer), after = groupOf(model, loop);
  if (failed(before) || !*before ||
      (succeeded(after) && *after && isSameRule(*before, *after)))
    return;
  llvm::SmallVector<Attribute> groups = {
      GroupAttr::get(model.getContext(), loop, before->getWeightDecay(),
                     before->getRateScale(), before->getRule())};
  llvm::append_range(groups, model->getAttrOfType<ArrayAttr>("groups"));
  model->setAttr("groups", ArrayAttr::get(model.getContext(), groups));
}

/// Compares the ops of one period with those of the next.
class Comparison {
public:
  Comparison(const Program &program, const Stack &stack, int64_t period)
      : program(program), stack(stack), period(period) {}

  /// True where ops from `b` on are those from `a` on, `count` of them, one
  /// period later. Values that are handed on are recorded in `handed`.
  bool isAlike(int64_t a, int64_t b, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      if (!isAlike(program.ops[a + i], program.ops[b + i], a, b))
        return false;
    isFirst = false;
    return true;
  }

  /// What operands from before period a are one period later, by what they
  /// are in the first: (place in the period, result) of its maker.
  using Maker = std::pair<int64_t, unsigned>;
  std::map<std::pair<int64_t, unsigned>, Maker> handed;

private:
  bool isAlike(Operation *x, Operation *y, int64_t a, int64_t b) {
    if (x->getName() != y->getName() ||
        x->getResultTypes() != y->getResultTypes() ||
        x->getNumOperands() != y->getNumOperands() || isa<RepeatOp>(x) ||
        !areAlike(x->getAttrDictionary(), y->getAttrDictionary()))
      return false;
    for (auto [n, pair] :
         llvm::enumerate(llvm::zip(x->getOperands(), y->getOperands()))) {
      auto [u, v] = pair;
      if (!isAlike(u, v, a, b, program.placeOf.lookup(x) - a, n))
        return false;
    }
    return true;
  }

  /// Parameters of a loop are updated by one rule.
  static bool haveOneRule(Operation *x, Operation *y) {
    auto a = dyn_cast<ParamOp>(x), b = dyn_cast<ParamOp>(y);
    if (!a || !b)
      return true;
    auto first = groupOf(x->getParentOfType<ModelOp>(), a.getName());
    auto second = groupOf(x->getParentOfType<ModelOp>(), b.getName());
    if (failed(first) || failed(second) || !*first || !*second)
      return succeeded(first) && succeeded(second) && *first == *second;
    return isSameRule(*first, *second);
  }

  /// Attributes are equal, but that names have the number of their layer.
  bool areAlike(DictionaryAttr x, DictionaryAttr y) const {
    if (x == y)
      return true;
    if (x.size() != y.size())
      return false;
    for (auto [u, v] : llvm::zip(x, y)) {
      if (u.getName() != v.getName())
        return false;
      if (u.getValue() == v.getValue())
        continue;
      auto a = dyn_cast<StringAttr>(u.getValue());
      auto b = dyn_cast<StringAttr>(v.getValue());
      if (!a || !b || !stack.isLater(a.getValue(), b.getValue(), period))
        return false;
    }
    return true;
  }

  bool isAlike(Value u, Value v, int64_t a, int64_t b, int64_t place,
               unsigned operand) {
    if (u.getType() != v.getType())
      return false;
    Operation *x = u.getDefiningOp(), *y = v.getDefiningOp();
    bool isLeafPair = x && y && isLeaf(x) && isLeaf(y);
    if (isLeafPair)
      return x == y ||
             (x->getName() == y->getName() &&
              areAlike(x->getAttrDictionary(), y->getAttrDictionary()) &&
              haveOneRule(x, y));
    int64_t from = program.place(u), to = program.place(v);
    if (from >= a || to >= b) // made within
      return from - a == to - b && cast<OpResult>(u).getResultNumber() ==
                                       cast<OpResult>(v).getResultNumber();
    if (to < a) // from before both
      return u == v && !handed.contains({place, operand});
    // Made by the first period: handed on, there and between all others.
    Maker maker = {to - a, cast<OpResult>(v).getResultNumber()};
    if (isFirst)
      handed[{place, operand}] = maker;
    auto it = handed.find({place, operand});
    return it != handed.end() && it->second == maker;
  }

  const Program &program;
  const Stack &stack;
  int64_t period;
  bool isFirst = true; ///< no two periods were compared before
};

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// Layers [first, first + period count) whose ops repeat.
struct Run {
  int64_t first = 0, period = 1, count = 1;
  int64_t layers() const { return period * count; }
};

} // namespace

/// Ops of a period that begins at layer `first`.
static Range periodAt(const Layers &layers, int64_t first, int64_t period) {
  return {layers.ranges[first].start, layers.ranges[first + period - 1].end};
}

/// How many periods from `first` on are alike. The last layer of the stack ends
/// where its neighbour's length says.
static int64_t countAlike(const Program &program, const Stack &stack,
                          const Layers &layers, int64_t first, int64_t period) {
  int64_t total = layers.ranges.size(), count = 1;
  if (first + 2 * period > total)
    return 1;
  Range one = periodAt(layers, first, period);
  Comparison comparison(program, stack, period);
  for (; first + (count + 1) * period <= total; ++count) {
    Range a = periodAt(layers, first + (count - 1) * period, period);
    Range b = periodAt(layers, first + count * period, period);
    bool isLast = first + (count + 1) * period == total;
    if (isLast)
      b.end = b.start + one.size();
    if (b.size() != one.size() ||
        b.end > static_cast<int64_t>(program.ops.size()) ||
        !comparison.isAlike(a.start, b.start, one.size()))
      break;
  }
  return count;
}

/// The run from `first` on that covers most layers; a short period wins.
static Run findRun(const Program &program, const Stack &stack,
                   const Layers &layers, int64_t first) {
  Run best = {first, 1, 1};
  for (int64_t period = 1; period <= kLongestPeriod; ++period) {
    int64_t count = countAlike(program, stack, layers, first, period);
    if (count > 1 && period * count > (best.count > 1 ? best.layers() : 1))
      best = {first, period, count};
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {

/// Makes the loop of a run.
class Loop {
public:
  Loop(const Program &program, const Operations &positions, const Stack &stack,
       const Layers &layers, const Run &run)
      : program(program), positions(positions), stack(stack), run(run),
        one(periodAt(layers, run.first, run.period)),
        number(layers.firstNumber + run.first) {}

  /// False, and nothing is changed, where values leave the layers that a loop
  /// does not give.
  bool build() {
    comparison.emplace(program, stack, run.period);
    if (run.count > 1 &&
        !comparison->isAlike(one.start, one.start + one.size(), one.size()))
      return false;
    findCarried();
    if (run.count == 1)
      giveResults();
    else if (comparison->handed.empty())
      return false;
    if (carried.empty() || !hasResults())
      return false;
    OpBuilder builder(program.ops[one.start]);
    int64_t start = number / run.period, end = start + run.count;
    offset = number % run.period;
    llvm::SmallVector<Value> inits;
    for (const Carried &value : carried)
      inits.push_back(value.init);
    auto repeat = RepeatOp::create(
        builder, program.ops[one.start]->getLoc(), ValueRange(inits).getTypes(),
        inits, /*slices=*/ValueRange(), builder.getI64IntegerAttr(start),
        builder.getI64IntegerAttr(end), /*reverse=*/UnitAttr(),
        /*pair=*/IntegerAttr());
    fill(repeat);
    replace(repeat);
    return true;
  }

private:
  struct Carried {
    Value init;
    std::optional<Comparison::Maker> maker; ///< none: it stays what it is
    bool operator==(const Carried &other) const {
      return init == other.init && maker == other.maker;
    }
  };

  Operation *opAt(int64_t period, int64_t place) const {
    return program.ops[one.start + period * one.size() + place];
  }
  Range lastPeriod() const {
    int64_t start = one.start + (run.count - 1) * one.size();
    return {start, start + one.size()};
  }

  /// What the first period reads from before, and later ones from their
  /// neighbour or from before, too.
  void findCarried() {
    for (int64_t place = 0; place < one.size(); ++place)
      for (auto [n, operand] : llvm::enumerate(opAt(0, place)->getOperands())) {
        auto use = std::pair(place, static_cast<unsigned>(n));
        auto maker = comparison->handed.find(use);
        bool isHanded = maker != comparison->handed.end();
        if (!isHanded && !isCaptured(operand))
          continue;
        Carried value = {operand, std::nullopt};
        if (isHanded)
          value.maker = maker->second;
        slots[use] = llvm::find(carried, value) - carried.begin();
        if (slots[use] == carried.size())
          carried.push_back(value);
      }
  }

  /// What is made before the loop and read in all of its layers. It is carried:
  /// stages of a pipeline hand it on.
  bool isCaptured(Value operand) const {
    Operation *op = operand.getDefiningOp();
    return op && !isLeaf(op) && !positions.contains(op) &&
           program.place(operand) < one.start;
  }

  /// A layer alone hands on what is read after it, in place of what it reads
  /// of the same type.
  void giveResults() {
    for (int64_t place = one.start; place < one.end; ++place)
      for (OpResult result : program.ops[place]->getResults()) {
        if (llvm::none_of(result.getUsers(),
                          [&](Operation *user) { return isOutside(user); }))
          continue;
        auto slot = llvm::find_if(carried, [&](const Carried &value) {
          return !value.maker && value.init.getType() == result.getType();
        });
        if (slot != carried.end())
          slot->maker = {place - one.start, result.getResultNumber()};
      }
  }

  /// What is read after the loop: carried values of its last period alone.
  bool hasResults() const {
    for (int64_t place = one.start; place < lastPeriod().end; ++place)
      for (OpResult result : program.ops[place]->getResults())
        for (OpOperand &use : result.getUses())
          if (isOutside(use.getOwner()) && !slotOf(place, result))
            return false;
    return true;
  }

  bool isOutside(Operation *user) const {
    auto it = program.placeOf.find(user);
    return it == program.placeOf.end() || it->second >= lastPeriod().end;
  }

  std::optional<unsigned> slotOf(int64_t place, OpResult result) const {
    Comparison::Maker maker = {place - lastPeriod().start,
                               result.getResultNumber()};
    for (auto [slot, value] : llvm::enumerate(carried))
      if (value.maker == maker)
        return slot;
    return std::nullopt;
  }

  void fill(RepeatOp repeat) {
    MLIRContext *context = repeat.getContext();
    Block &body = repeat.getBody().emplaceBlock();
    Location loc = repeat.getLoc();
    Value index = body.addArgument(
        RankedTensorType::get({}, IntegerType::get(context, 32)), loc);
    for (const Carried &value : carried)
      body.addArgument(value.init.getType(), loc);
    IRMapping map;
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    for (int64_t place = one.start; place < one.end; ++place) {
      Operation *op = program.ops[place];
      for (Value operand : op->getOperands())
        bringIn(operand, builder, map);
      Operation *copy = builder.clone(*op, map);
      for (unsigned n = 0; n < op->getNumOperands(); ++n)
        if (auto slot = slots.find({place - one.start, n}); slot != slots.end())
          copy->setOperand(n, repeat.getCarryArgs()[slot->second]);
      rename(copy);
      draw(copy, index);
    }
    llvm::SmallVector<Value> yields;
    for (auto [value, argument] : llvm::zip(carried, repeat.getCarryArgs()))
      yields.push_back(
          value.maker
              ? map.lookup(
                    opAt(0, value.maker->first)->getResult(value.maker->second))
              : argument);
    YieldOp::create(builder, loc, yields, ValueRange());
  }

  /// Constants, parameters and what follows from positions are made in the
  /// loop, where it is sharded as its readers are.
  void bringIn(Value value, OpBuilder &builder, IRMapping &map) const {
    Operation *op = value.getDefiningOp();
    if (!op || map.contains(value) || !(isLeaf(op) || positions.contains(op)))
      return;
    for (Value operand : op->getOperands())
      bringIn(operand, builder, map);
    rename(builder.clone(*op, map));
  }

  /// Names with the number of a layer get the loop's.
  void rename(Operation *op) const {
    for (NamedAttribute attribute : op->getAttrs())
      if (auto text = dyn_cast<StringAttr>(attribute.getValue()))
        if (attribute.getName() == "name") {
          std::string name = nameOf(op, text);
          if (isa<ParamOp>(op))
            keepGroup(op->getParentOfType<ModelOp>(), text, name);
          op->setAttr("name", StringAttr::get(op->getContext(), name));
        }
  }

  std::string nameOf(Operation *op, StringAttr name) const {
    auto found = stack.numberOf(name.getValue());
    if (!found)
      return name.str();
    if (isa<ParamOp>(op))
      return stack.templateOf(name.getValue(), run.period,
                              *found - number + offset);
    return stack.withoutNumber(name.getValue(), *found - number, run.period);
  }

  /// Draws of a loop's iterations differ by its number.
  void draw(Operation *copy, Value index) const {
    if (auto drop = dyn_cast<DropoutOp>(copy); drop && !drop.getLayer())
      drop.getLayerMutable().assign(index);
    auto attention = dyn_cast<AttentionOp>(copy);
    if (attention && attention.getDropout() && !attention.getLayer())
      attention.getLayerMutable().assign(index);
  }

  void replace(RepeatOp repeat) {
    for (int64_t place = lastPeriod().start; place < lastPeriod().end; ++place)
      for (OpResult result : program.ops[place]->getResults())
        if (auto slot = slotOf(place, result))
          result.replaceUsesWithIf(
              repeat.getResult(*slot),
              [&](OpOperand &use) { return isOutside(use.getOwner()); });
    for (int64_t place = lastPeriod().end; place-- > one.start;) {
      program.ops[place]->dropAllUses();
      program.ops[place]->erase();
    }
  }

  const Program &program;
  const Operations &positions;
  const Stack &stack;
  Run run;
  Range one;
  int64_t number = 0; ///< of the first layer
  int64_t offset = 0; ///< of the first layer in its period
  std::optional<Comparison> comparison;
  std::vector<Carried> carried;
  std::map<std::pair<int64_t, unsigned>, size_t> slots; ///< of operands
};

} // namespace

/// Makes loops of one iteration of the layers before a run: to the planner they
/// are layers, too, that any stage of a pipeline may have.
static void rollAlone(const Program &program, const Operations &positions,
                      const Stack &stack, const Layers &layers, int64_t end) {
  for (int64_t layer = 0; layer < end; ++layer)
    Loop(program, positions, stack, layers, Run{layer, 1, 1}).build();
}

/// Rolls the next run of a stack; false when there is none.
static bool rollOne(Block &block, const Operations &positions,
                    const Stack &stack, std::string &told) {
  Program program(block);
  Layers layers = findLayers(program, stack);
  for (int64_t first = 0; first < static_cast<int64_t>(layers.ranges.size());
       ++first) {
    Run run = findRun(program, stack, layers, first);
    if (run.count < 2)
      continue;
    if (!Loop(program, positions, stack, layers, run).build())
      continue;
    rollAlone(program, positions, stack, layers, first);
    int64_t number = layers.firstNumber + first;
    told += (told.empty() ? "" : ", ") + stack.prefix() +
            std::to_string(number) + " to " +
            std::to_string(number + run.layers() - 1);
    if (run.period > 1)
      told += " in steps of " + std::to_string(run.period);
    return true;
  }
  return false;
}

static void eraseUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isPure(&op) && op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>())
      op.erase();
}

namespace {
struct RollPass : kerf::impl::RollPassBase<RollPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      Block &block = model.getBody().front();
      Operations positions = hoistPositions(block);
      std::string told;
      for (const Stack &stack : findStacks(model)) {
        gatherTails(block, stack);
        while (rollOne(block, positions, stack, told))
          ;
      }
      eraseUnread(block);
      for (RepeatOp repeat : block.getOps<RepeatOp>())
        eraseUnread(repeat.getBody().front());
      if (!told.empty())
        model.emitRemark() << "rolled layers " << told;
    }
  }
};
} // namespace
