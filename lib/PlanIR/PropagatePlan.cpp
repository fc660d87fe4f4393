//===- PropagatePlan.cpp - complete a plan that names a few ops -----------===//
//
// Problem: a plan written by hand assigns a handful of ops; the others should
// follow, with little communication.
//
// Idea: in program order, what an op's operands look like suggests how to split
// it: each axis where one operand has it, or nowhere. So does the value that
// the result is going to be combined with, where a sum arrives to be scattered,
// or where a result has one reader, who needs nothing but that part. The
// candidate with the fewest bytes wins: conversions of operands, unless made
// already, and all-reduces of the sums it leaves. Of equal ones, the one that
// splits most. Parameters and constants have no layout of their own: they rest
// as their readers ask.
//
// A greedy choice cannot see that gathering a weight that is stored in parts
// moves the cost to the next op, so such candidates are taken only if there is
// no other.
//
// Cost: per op (operands + 2) to the power of the number of axes.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Float8.h"
#include "kerf/PlanIR/Passes.h"
#include "kerf/Sharding/Layout.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_PROPAGATEPLANPASS
#include "kerf/PlanIR/Passes.h.inc"
} // namespace kerf

namespace {
/// A place for one axis in an op: a factor that it splits, a sum over it that
/// passes through, or neither.
struct Place {
  int factor = -1;
  bool pending = false;
  bool operator==(const Place &other) const {
    return factor == other.factor && pending == other.pending;
  }
};

/// How good a candidate is, the first field first.
struct Score {
  int gatheredParams = 0;
  double bytes = 0;
  double work = 0; ///< iteration space of a part
  bool operator<(const Score &other) const {
    return std::tie(gatheredParams, bytes, work) <
           std::tie(other.gatheredParams, other.bytes, other.work);
  }
};

/// Of a loop, the last one not among them; of what is read outside, 0 to 1.
struct Iterations {
  int64_t start = 0, end = 1;
};

/// How a parameter is stored that a loop reads in some iterations.
struct Rest {
  Iterations range;
  Layout layout;
};

/// What is known of an op while it is decided.
struct Choice {
  Operation *op;
  const Factors &facts;
  llvm::SmallVector<Layout> arriving;
  std::vector<llvm::SmallVector<Layout, 2>> made; ///< of each operand
  const PlannedModel &plan;
  AxisList order; ///< axes to place
  Assignment candidate;
  std::optional<Assignment> best;
  Score bestScore;
};

class Propagation : public Completion {
public:
  explicit Propagation(PlanAttr plan) : axes(plan) {}

  /// Lets ops that have an assignment say first how parameters rest.
  LogicalResult noteGiven(ModelOp model);
  LogicalResult assign(Operation *op, const Factors &facts,
                       llvm::ArrayRef<Layout> arriving,
                       const PlannedModel &plan) override;
  void note(Operation *op, const OpLayouts &layouts,
            const PlannedModel &plan) override;
  void retract(Block &body) override;
  /// Assigns parameters, constants, updates and norms from what is known.
  void finish(ModelOp model);

private:
  void set(Operation *op, const Factors &facts, const Assignment &assignment) {
    setAssignment(op, facts, assignment, axes);
    given.insert(op);
  }
  void setFromResult(Operation *op, const Layout &layout);
  void setFromOperands(Operation *op, llvm::ArrayRef<Layout> layouts);
  void noteAsked(ParamOp param, const Layout &need);
  void noteSource(Value operand, const Layout &need);
  void search(Choice &choice, unsigned next);
  std::optional<Score> scoreOf(Choice &choice);
  double bytesToRest(const Choice &choice, Value result, const Layout &layout);
  bool leavesMicroSum(Choice &choice);

  PlanAxes axes;
  llvm::DenseSet<Operation *> given;
  llvm::DenseSet<Operation *> later; ///< updates and norms
  llvm::DenseMap<Value, llvm::SmallVector<Layout, 2>> made;
  llvm::DenseMap<Value, Layout> sources;
  llvm::StringMap<llvm::SmallVector<Rest, 1>> params;

  const Rest *findRest(llvm::StringRef name, Iterations range) const;
  Rest *findRest(llvm::StringRef name, Iterations range) {
    return const_cast<Rest *>(std::as_const(*this).findRest(name, range));
  }
  std::optional<Layout> restOf(llvm::StringRef name, Iterations range) const;
};
} // namespace

//===----------------------------------------------------------------------===//
// What is known
//===----------------------------------------------------------------------===//

static Iterations iterationsOf(ParamOp param) {
  auto repeat = param->getParentOfType<RepeatOp>();
  if (!repeat || !param.isPerIteration())
    return {};
  return {int64_t(repeat.getStart()), int64_t(repeat.getEnd())};
}

static Iterations iterationsOf(UpdateOp update) {
  if (!update.getStart())
    return {};
  return {int64_t(*update.getStart()), int64_t(*update.getEnd())};
}

const Rest *Propagation::findRest(llvm::StringRef name,
                                  Iterations range) const {
  auto known = params.find(name);
  if (known == params.end())
    return nullptr;
  const Rest *rest = llvm::find_if(known->second, [&](const Rest &other) {
    return range.start < other.range.end && other.range.start < range.end;
  });
  return rest == known->second.end() ? nullptr : rest;
}

/// Layers of other loops tell how those that nobody has read yet may rest.
std::optional<Layout> Propagation::restOf(llvm::StringRef name,
                                          Iterations range) const {
  if (const Rest *rest = findRest(name, range))
    return rest->layout;
  auto known = params.find(name);
  if (known == params.end())
    return std::nullopt;
  return known->second.front().layout;
}

/// What of a layout another one has, too.
static Layout commonOf(Layout layout, const Layout &other) {
  for (auto [d, dim] : llvm::enumerate(layout.dims)) {
    const AxisList &own = other.dims[d];
    auto differs =
        std::mismatch(dim.begin(), dim.end(), own.begin(), own.end());
    bool isAlike = layout.blocksOf(d) == other.blocksOf(d) &&
                   layout.isRagged(d) == other.isRagged(d);
    dim.erase(isAlike ? differs.first : dim.begin(), dim.end());
    if (dim.empty())
      layout.forgetParts(d);
  }
  return layout;
}

/// Whether the model reads a parameter in two places, as a tied table.
static bool isTied(ParamOp param) {
  return llvm::count_if(param->getUsers(), [](Operation *reader) {
           PhaseAttr phase = getPhase(reader);
           return !phase || phase.getKind() == PhaseKind::Forward;
         }) > 1;
}

void Propagation::noteAsked(ParamOp param, const Layout &need) {
  if (isTied(param)) {
    noteSource(param, need);
    return;
  }
  Iterations range = iterationsOf(param);
  Layout own = need.reduced().without(axes.micro());
  if (Rest *rest = findRest(param.getName(), range))
    rest->layout = commonOf(rest->layout, own);
  else
    params[param.getName()].push_back({range, own});
}

/// The first reader of a parameter or constant decides where it is stored; of a
/// parameter of layers, the first reader of these layers.
void Propagation::noteSource(Value operand, const Layout &need) {
  Operation *maker = operand.getDefiningOp();
  if (!maker || !isSource(maker))
    return;
  if (auto param = dyn_cast<ParamOp>(maker)) {
    Iterations range = iterationsOf(param);
    if (!findRest(param.getName(), range))
      params[param.getName()].push_back(
          {range, need.reduced().without(axes.micro())});
  } else {
    sources.try_emplace(operand, need.reduced());
  }
}

/// What a matmul reads, and how it should lie; of a copy in 8-bit floats, what
/// it is a copy of: a weight is stored as the matmul of its copy needs it.
static std::pair<Value, Layout> beforeQuantization(Value operand,
                                                   const Layout &need) {
  llvm::SmallVector<int64_t> perm;
  Value original = unquantized(operand, &perm);
  Layout layout = need;
  for (auto [to, from] : llvm::enumerate(perm)) {
    layout.dims[from] = need.dims[to];
    layout.setBlocks(from, need.blocksOf(to));
  }
  return {original, layout};
}

/// A parameter is stored as all that read it and are given ask for, with the
/// axes that they agree on: so the search prices it (lib/Layer/LayerGraph.cpp).
/// A tied one, of which the search prices each place apart, is stored as the
/// first reader asks. Readers of copies follow; what a parameter itself is
/// given stands before all.
LogicalResult Propagation::noteGiven(ModelOp model) {
  llvm::SmallVector<std::pair<Value, Layout>> others;
  llvm::SmallVector<std::pair<ParamOp, Layout>> own;
  WalkResult walk = model.getBody().walk([&](FactorOpInterface op) {
    if (!op->hasAttr(kAssignAttrName))
      return WalkResult::advance();
    Factors facts = op.getFactors();
    auto assignment = getAssignment(op, facts, axes);
    if (failed(assignment))
      return WalkResult::interrupt();
    assignment->pending.clear();
    llvm::SmallVector<Layout> none(op->getNumOperands());
    std::string error;
    auto layouts = layoutsOf(facts, *assignment, none, axes, error);
    if (failed(layouts))
      return WalkResult::advance(); // The op is refused when it is visited.
    if (auto param = dyn_cast<ParamOp>(op.getOperation()))
      own.emplace_back(param, layouts->results[0]);
    for (auto [operand, need] :
         llvm::zip_equal(op->getOperands(), layouts->operands)) {
      auto [original, layout] = beforeQuantization(operand, need);
      auto param = dyn_cast_if_present<ParamOp>(original.getDefiningOp());
      if (param && original == operand)
        noteAsked(param, layout);
      else
        others.emplace_back(original, layout);
    }
    return WalkResult::advance();
  });
  for (const auto &[value, layout] : others)
    noteSource(value, layout);
  for (auto &[param, layout] : own)
    params[param.getName()].insert(params[param.getName()].begin(),
                                   {iterationsOf(param), layout});
  return failure(walk.wasInterrupted());
}

void Propagation::note(Operation *op, const OpLayouts &layouts,
                       const PlannedModel &plan) {
  if (later.contains(op))
    return;
  for (auto [operand, need] :
       llvm::zip_equal(op->getOperands(), layouts.operands)) {
    noteSource(operand, need);
    if (!llvm::is_contained(made[operand], need))
      made[operand].push_back(need);
  }
}

void Propagation::retract(Block &body) {
  for (Operation &op : body)
    if (given.erase(&op))
      op.removeAttr(kAssignAttrName);
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// The factor of a dimension that a sharding would split first, or -1.
static int majorFactor(const Factors &facts, const DimFactors &dim) {
  for (unsigned f : dim)
    if (facts.factors[f].size > 1)
      return f;
  return -1;
}

/// The dimension of `value` that later readers would like `axis` to shard: one
/// that another of their operands has sharded, in this op or a few ops on. -1
/// if there is none. With `alone` there must be one reader, which thus needs
/// nothing else.
static int64_t wantedDim(Value value, unsigned axis, const PlannedModel &plan,
                         int depth, bool alone) {
  if (alone && !value.hasOneUse())
    return -1;
  for (OpOperand &use : value.getUses()) {
    auto reader = dyn_cast<FactorOpInterface>(use.getOwner());
    if (!reader)
      continue;
    Factors facts = reader.getFactors();
    auto dimOf = [&](int factor) -> int64_t {
      for (auto [d, dim] :
           llvm::enumerate(facts.operands[use.getOperandNumber()]))
        if (factor >= 0 && majorFactor(facts, dim) == factor)
          return d;
      return -1;
    };
    for (auto [i, other] : llvm::enumerate(reader->getOperands())) {
      auto known = plan.values.find(other);
      if (i == use.getOperandNumber() || known == plan.values.end())
        continue;
      for (auto [d, list] : llvm::enumerate(known->second.dims))
        if (llvm::is_contained(list, axis))
          if (int64_t dim = dimOf(majorFactor(facts, facts.operands[i][d]));
              dim >= 0)
            return dim;
    }
    if (depth == 0 || reader->getNumResults() != 1)
      continue;
    int64_t later =
        wantedDim(reader->getResult(0), axis, plan, depth - 1, alone);
    if (later < 0)
      continue;
    if (int64_t dim = dimOf(majorFactor(facts, facts.results[0][later]));
        dim >= 0)
      return dim;
  }
  return -1;
}

/// Ops to look past for what a sum is going to be combined with.
static constexpr int kLookAhead = 3;

/// Bytes of the reduction that a result's sums will take: half of them where a
/// reader will want it in parts.
static double bytesLater(const Choice &choice, Value result,
                         const Layout &layout, const PlanAxes &axes) {
  std::string error;
  auto steps = planConversion(layout, layout.reduced(), axes, error);
  double bytes =
      failed(steps) ? 0 : bytesOf(*steps, layout, result.getType(), axes);
  bool inParts = llvm::all_of(layout.sums, [&](unsigned axis) {
    return wantedDim(result, axis, choice.plan, kLookAhead, false) >= 0;
  });
  return inParts ? bytes / 2 : bytes;
}

std::optional<Score> Propagation::scoreOf(Choice &choice) {
  std::string error;
  auto layouts =
      layoutsOf(choice.facts, choice.candidate, choice.arriving, axes, error);
  if (failed(layouts))
    return std::nullopt;
  Score score;
  double times = axes.sizeOf(axes.micro()); // that the op runs in a step
  for (auto [operand, from, need, known] :
       llvm::zip_equal(choice.op->getOperands(), choice.arriving,
                       layouts->operands, choice.made)) {
    if (need.ragged >= 0 && isOneNumber(operand))
      continue;
    auto steps = planConversion(from, need, axes, error);
    if (failed(steps))
      return std::nullopt;
    bool isMade = llvm::is_contained(known, need);
    double bytes = bytesOf(*steps, from, operand.getType(), axes);
    if (isMade || bytes == 0)
      continue;
    score.bytes += times * bytes;
    score.gatheredParams += isa_and_nonnull<ParamOp>(operand.getDefiningOp());
  }
  for (auto [result, layout] :
       llvm::zip_equal(choice.op->getResults(), layouts->results)) {
    bool waits = llvm::is_contained(layout.sums, axes.micro());
    Layout now = layout;
    llvm::erase(now.sums, axes.micro());
    score.bytes += (waits ? 1 : times) * bytesLater(choice, result, now, axes) +
                   bytesToRest(choice, result, layout);
  }
  score.work = 1;
  for (auto [factor, list] :
       llvm::zip_equal(choice.facts.factors, choice.candidate.factors))
    score.work *= static_cast<double>(factor.size) / axes.sizeOf(list);
  return score;
}

/// Where the operands suggest to place an axis; last, nowhere or as a sum.
static llvm::SmallVector<Place> placesOf(const Choice &choice, unsigned axis) {
  llvm::SmallVector<Place> places;
  auto add = [&](Place place) {
    if (!llvm::is_contained(places, place))
      places.push_back(place);
  };
  bool pending = false;
  auto addSharded = [&](unsigned operand, const Layout &layout) {
    for (auto [d, list] : llvm::enumerate(layout.dims)) {
      int f = majorFactor(choice.facts, choice.facts.operands[operand][d]);
      if (llvm::is_contained(list, axis) && f >= 0)
        add({f, false});
    }
  };
  for (auto [i, layout] : llvm::enumerate(choice.arriving)) {
    addSharded(i, layout);
    pending |= llvm::is_contained(layout.sums, axis);
  }
  for (auto [i, made] : llvm::enumerate(choice.made))
    for (const Layout &layout : made)
      addSharded(i, layout);
  bool waits = pending && axis == choice.plan.axes.micro();
  for (auto [result, dims] :
       llvm::zip_equal(choice.op->getResults(), choice.facts.results)) {
    if (waits)
      break;
    int64_t dim = wantedDim(result, axis, choice.plan, kLookAhead, !pending);
    if (int f = dim < 0 ? -1 : majorFactor(choice.facts, dims[dim]); f >= 0)
      add({f, false});
  }
  // Of equal ones the first is taken: gradients of weights in 8 bits are best
  // summed after they were scaled, for the update, where their state may be
  // sharded.
  PhaseAttr phase = getPhase(choice.op);
  if (pending && isa<MulOp>(choice.op) && phase &&
      phase.getKind() == PhaseKind::WeightGradient)
    add({-1, true});
  add({});
  if (pending)
    add({-1, true});
  return places;
}

void Propagation::search(Choice &choice, unsigned next) {
  if (next == choice.order.size()) {
    auto score = scoreOf(choice);
    if (score && (!choice.best || *score < choice.bestScore)) {
      choice.best = choice.candidate;
      choice.bestScore = *score;
    }
    return;
  }
  unsigned axis = choice.order[next];
  for (Place place : placesOf(choice, axis)) {
    Assignment before = choice.candidate;
    if (place.pending)
      choice.candidate.pending.push_back(axis);
    if (place.factor >= 0)
      choice.candidate.factors[place.factor].push_back(axis);
    search(choice, next + 1);
    choice.candidate = before;
  }
}

/// Adds the axes that shard what later readers combine a value with, in the
/// order in which they do.
static void addLater(Value value, const PlannedModel &plan, int depth,
                     llvm::SmallSetVector<unsigned, 4> &order) {
  for (Operation *reader : value.getUsers()) {
    for (Value other : reader->getOperands()) {
      auto known = plan.values.find(other);
      if (other == value || known == plan.values.end())
        continue;
      for (const AxisList &list : known->second.dims)
        order.insert(list.begin(), list.end());
    }
    if (depth > 0 && reader->getNumResults() == 1)
      addLater(reader->getResult(0), plan, depth - 1, order);
  }
}

/// Axes that the operands have, in the order in which they shard, then those
/// that the reader wants, in its order.
static AxisList orderOf(const Choice &choice) {
  llvm::SmallSetVector<unsigned, 4> order;
  auto insert = [&](const Layout &layout) {
    for (const AxisList &list : layout.dims)
      order.insert(list.begin(), list.end());
  };
  llvm::for_each(choice.arriving, insert);
  for (const auto &made : choice.made)
    llvm::for_each(made, insert);
  for (const Layout &layout : choice.arriving)
    order.insert(layout.sums.begin(), layout.sums.end());
  llvm::SmallSetVector<unsigned, 4> later;
  for (Value result : choice.op->getResults())
    addLater(result, choice.plan, kLookAhead, later);
  for (unsigned axis : later)
    for (Value result : choice.op->getResults())
      if (wantedDim(result, axis, choice.plan, kLookAhead, true) >= 0)
        order.insert(axis);
  return AxisList(order.begin(), order.end());
}

/// True when an op depends on inputs alone.
static bool readsInputsOnly(Operation *op, const PlannedModel &plan) {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    return maker ? plan.prologue.contains(maker)
                 : isa<ModelOp>(operand.getParentBlock()->getParentOp());
  });
}

/// Bytes that bring a sum of a tied parameter's gradients to where the
/// parameter is stored, once per step; 0 for what no update reads.
double Propagation::bytesToRest(const Choice &choice, Value result,
                                const Layout &layout) {
  double bytes = 0;
  for (Operation *user : result.getUsers()) {
    auto update = dyn_cast<UpdateOp>(user);
    auto rest = update && choice.facts.jointly && !update.getStart()
                    ? restOf(update.getName(), iterationsOf(update))
                    : std::nullopt;
    std::string error;
    if (!rest)
      continue;
    auto steps = planConversion(layout.reduced(), *rest, axes, error);
    if (succeeded(steps))
      bytes += bytesOf(*steps, layout.reduced(), result.getType(), axes);
  }
  return bytes;
}

bool Propagation::leavesMicroSum(Choice &choice) {
  std::string error;
  auto layouts =
      layoutsOf(choice.facts, *choice.best, choice.arriving, axes, error);
  return llvm::any_of(layouts->results, [&](const Layout &layout) {
    return llvm::is_contained(layout.sums, axes.micro());
  });
}

LogicalResult Propagation::assign(Operation *op, const Factors &facts,
                                  llvm::ArrayRef<Layout> arriving,
                                  const PlannedModel &plan) {
  Choice choice{op, facts,        llvm::SmallVector<Layout>(arriving),
                {}, plan,         {},
                {}, std::nullopt, {}};
  for (Value operand : op->getOperands())
    choice.made.push_back(made.lookup(operand));
  choice.candidate.factors.resize(facts.factors.size());
  if (isa<UpdateOp>(op) || sumsSquares(facts)) {
    later.insert(op);
    set(op, facts, choice.candidate);
    return success();
  }
  for (auto [layout, operand] :
       llvm::zip_equal(choice.arriving, op->getOperands()))
    if (auto param = operand.getDefiningOp<ParamOp>(); param && layout.any)
      if (auto rest = restOf(param.getName(), iterationsOf(param)))
        layout = *rest;
  choice.order = orderOf(choice);
  search(choice, 0);
  // A sum over the whole batch of inputs is made once per step.
  if (choice.best && leavesMicroSum(choice) && readsInputsOnly(op, plan)) {
    for (Layout &layout : choice.arriving)
      layout = layout.without(axes.micro());
    choice.made.assign(choice.arriving.size(), {});
    choice.order = orderOf(choice);
    choice.best.reset();
    search(choice, 0);
  }
  if (!choice.best) {
    auto diagnostic = op->emitOpError("cannot follow its operands");
    for (auto [i, layout] : llvm::enumerate(choice.arriving))
      diagnostic.attachNote()
          << "operand " << i << " arrives as " << printLayout(layout, axes);
    if (llvm::is_contained(choice.order, axes.micro()))
      diagnostic.attachNote() << "what it combines may belong to different "
                                 "micro-batches; plan with one micro-batch";
    return diagnostic;
  }
  set(op, facts, *choice.best);
  return success();
}

//===----------------------------------------------------------------------===//
// Sources, updates and norms
//===----------------------------------------------------------------------===//

static void splitFactors(const Factors &facts, const TensorFactors &dims,
                         const Layout &layout, Assignment &assignment) {
  for (auto [dim, list] : llvm::zip_equal(dims, layout.dims))
    if (!dim.empty() && !list.empty())
      assignment.factors[dim[0]] = list;
}

/// Blocks of the dimension that is made of some; 1 if none is.
static int64_t blocksOf(const Layout &layout) {
  return layout.blocks.empty() ? 1 : *llvm::max_element(layout.blocks);
}

void Propagation::setFromResult(Operation *op, const Layout &layout) {
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  Assignment assignment;
  assignment.factors.resize(facts.factors.size());
  bool whole = llvm::any_of(facts.factors, [](const Factor &factor) {
    return factor.kind == FactorKind::Whole;
  });
  if (!whole)
    splitFactors(facts, facts.results[0], layout, assignment);
  assignment.blocks = blocksOf(layout);
  setAssignment(op, facts, assignment, axes);
}

void Propagation::setFromOperands(Operation *op,
                                  llvm::ArrayRef<Layout> layouts) {
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  Assignment assignment;
  assignment.factors.resize(facts.factors.size());
  for (auto [i, layout] : llvm::enumerate(layouts))
    splitFactors(facts, facts.operands[i], layout, assignment);
  if (layouts.size() == 1) // Norms sum squares of any parts.
    assignment.blocks = blocksOf(layouts[0]);
  setAssignment(op, facts, assignment, axes);
}

void Propagation::finish(ModelOp model) {
  llvm::DenseMap<Value, Layout> gradients;
  model.getBody().walk([&](Operation *op) {
    if (!isSource(op) || op->hasAttr(kAssignAttrName))
      return;
    Layout layout = Layout::whole(typeOf(op->getResult(0)).getRank());
    if (auto param = dyn_cast<ParamOp>(op)) {
      if (auto rest = restOf(param.getName(), iterationsOf(param)))
        layout = *rest;
    } else if (auto known = sources.find(op->getResult(0));
               known != sources.end()) {
      layout = known->second;
    }
    setFromResult(op, layout);
  });
  for (UpdateOp update : model.getBody().getOps<UpdateOp>()) {
    Layout layout = Layout::whole(typeOf(update.getGradient()).getRank());
    if (auto rest = restOf(update.getName(), iterationsOf(update)))
      layout = update.getStart() ? stackLayout(*rest) : *rest;
    gradients[update.getGradient()] = layout;
    if (later.contains(update))
      setFromOperands(update, layout);
  }
  for (Operation *op : later)
    if (!isa<UpdateOp>(op))
      setFromOperands(op, llvm::map_to_vector(op->getOperands(), [&](Value v) {
                        auto known = gradients.find(v);
                        return known == gradients.end()
                                   ? Layout::whole(typeOf(v).getRank())
                                   : known->second;
                      }));
}

LogicalResult kerf::propagatePlan(ModelOp model) {
  PlanAttr plan = getPlan(model);
  model->setAttr(kPlanAttrName, plan);
  Propagation propagation(plan);
  if (failed(propagation.noteGiven(model)) ||
      failed(planModel(model, &propagation)))
    return failure();
  propagation.finish(model);
  return planModel(model);
}

namespace {
struct PropagatePlanPass
    : public kerf::impl::PropagatePlanPassBase<PropagatePlanPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(propagatePlan(model)))
        return signalPassFailure();
  }
};
} // namespace
