//===- OrderContext.cpp - equal work for ranks that share a sequence ------===//
//
// Problem: of n ranks that hold contiguous parts of a sequence the last one has
// nearly all of the causal work, (2n - 1) / n of the mean, and the others wait.
//
// Idea: all rows of the sequence are put in another order (`#kerf.zigzag`), in
// which every contiguous part is an early and a late chunk (Dubey et al. 2024,
// arXiv 2407.21783, section 3.3.2). Inputs come in that order, and ops that
// read positions, not only data, are told. Everything else must not care: the
// loss and all gradients are then what they were, up to the order of sums.
//
// Proof that nothing cares: which dimensions of which values have the rows is
// found from the inputs, through the factors of the ops, until nothing changes.
// A factor along which parts are computed alone or summed does not know the
// order of its elements. Where another factor has the rows, or they reach a
// parameter or a result, the order stays as it is, and a remark says why.
//
// Cost: each op is looked at once per dimension that becomes known.
//
// Example: tokens [4,16], wpe [64,32], %p = iota : [16], %e = embedding %p, wpe
// and %x = add (embedding tokens, wte), (broadcast %e): tokens give the rows of
// %x, the sum those of %e, and that those of %p: so iota has to make positions.
//
//===----------------------------------------------------------------------===//

#include "kerf/Partition/Passes.h"

#include "kerf/Sharding/Layout.h"

#include "llvm/ADT/SetVector.h"

#include <numeric>

namespace kerf {
#define GEN_PASS_DEF_ORDERCONTEXTPASS
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// A dimension (or factor) of `outer` times all rows times `inner` elements.
struct Span {
  int64_t outer = 1, inner = 1;
  bool operator==(const Span &) const = default;
  bool isRows() const { return outer == 1 && inner == 1; }
};
using Spans = llvm::SmallVector<std::optional<Span>, 4>;

/// Why the order cannot be changed.
struct Obstacle {
  Operation *op;
  std::string what;
};

class RowOrder : public RowOrders {
public:
  RowOrder(ModelOp model, ZigzagAttr zigzag) : model(model), zigzag(zigzag) {}

  /// Finds where the rows are, with which `attention` has to do; an obstacle,
  /// if there is one.
  std::optional<Obstacle> find(Operation *attention);
  /// Tells the order to the model and its ops.
  void apply();

private:
  using Known = llvm::DenseMap<Value, Spans>;

  std::optional<Span> spanOf(Value value, unsigned dim) const;
  void mark(Value value, unsigned dim, Span span);
  void link(Value from, Value to, int shift = 0);
  void visitRepeat(RepeatOp repeat);
  void visit(Operation *op);
  Spans factorSpans(Operation *op, const Factors &facts);
  void readFactors(Operation *op, const Factors &facts, Value value,
                   const TensorFactors &dims, Spans &factors);
  void markValue(const Factors &facts, const Spans &factors, Value value,
                 const TensorFactors &dims);
  void check(Operation *op);
  void checkFactors(Operation *op, FactorOpInterface facts);
  void fail(Operation *op, const llvm::Twine &what);
  bool has(Value value, int64_t dim) override {
    return spanOf(value, dim).has_value();
  }
  Attribute along(llvm::ArrayRef<int64_t> dims) override {
    return zigzag.along(dims);
  }

  ModelOp model;
  ZigzagAttr zigzag;
  Known known;
  llvm::SetVector<Operation *> queue;
  std::optional<Obstacle> obstacle;
};
} // namespace

void RowOrder::fail(Operation *op, const llvm::Twine &what) {
  if (!obstacle)
    obstacle = {op, what.str()};
}

//===----------------------------------------------------------------------===//
// Where the rows are
//===----------------------------------------------------------------------===//

std::optional<Span> RowOrder::spanOf(Value value, unsigned dim) const {
  auto found = known.find(value);
  return found == known.end() ? std::nullopt : found->second[dim];
}

void RowOrder::mark(Value value, unsigned dim, Span span) {
  Spans &spans = known[value];
  spans.resize(typeOf(value).getRank());
  if (spans[dim] == span)
    return;
  Operation *op = value.getDefiningOp();
  Operation *place = op ? op : value.getParentBlock()->getParentOp();
  if (spans[dim])
    return fail(place, "mixes positions with each other");
  spans[dim] = span;
  queue.insert(place);
  for (Operation *user : value.getUsers())
    queue.insert(user);
}

/// Both values have the same rows; dimension d of `from` is d + shift of `to`.
void RowOrder::link(Value from, Value to, int shift) {
  int64_t rank = typeOf(from).getRank();
  for (int64_t d = 0; d < rank; ++d) {
    if (auto span = spanOf(from, d))
      mark(to, d + shift, *span);
    if (auto span = spanOf(to, d + shift))
      mark(from, d, *span);
  }
}

void RowOrder::visitRepeat(RepeatOp repeat) {
  YieldOp yield = repeat.getYield();
  for (auto [init, argument, next, result] :
       llvm::zip_equal(repeat.getInits(), repeat.getCarryArgs(),
                       yield.getCarried(), repeat.getCarryResults())) {
    link(init, argument);
    link(argument, next);
    link(next, result);
  }
  for (auto [slices, argument] :
       llvm::zip_equal(repeat.getSlices(), repeat.getSliceArgs()))
    link(argument, slices, 1);
  for (auto [one, stack] :
       llvm::zip_equal(yield.getStacked(), repeat.getStackResults()))
    link(one, stack, 1);
}

/// The factor of a dimension that has the rows of its span, and its own span.
static std::optional<std::pair<unsigned, Span>>
factorOf(const Factors &facts, const DimFactors &dim, Span span, int64_t rows) {
  int64_t minor = 1;
  for (unsigned f : llvm::reverse(dim)) {
    int64_t size = facts.factors[f].size, inner = span.inner / minor;
    if (span.inner % minor == 0 && inner > 0 && size % (rows * inner) == 0)
      return {{f, {size / (rows * inner), inner}}};
    minor *= size;
  }
  return std::nullopt;
}

void RowOrder::readFactors(Operation *op, const Factors &facts, Value value,
                           const TensorFactors &dims, Spans &factors) {
  for (auto [d, dim] : llvm::enumerate(dims)) {
    std::optional<Span> span = spanOf(value, d);
    if (!span)
      continue;
    auto found = factorOf(facts, dim, *span, zigzag.getRows());
    if (!found)
      return fail(op, "splits the sequence in another way");
    auto &[f, own] = *found;
    if (factors[f] && factors[f] != own)
      return fail(op, "mixes positions with each other");
    factors[f] = own;
  }
}

Spans RowOrder::factorSpans(Operation *op, const Factors &facts) {
  Spans factors(facts.factors.size());
  for (auto [value, dims] : llvm::zip_equal(op->getOperands(), facts.operands))
    readFactors(op, facts, value, dims, factors);
  for (auto [value, dims] : llvm::zip_equal(op->getResults(), facts.results))
    readFactors(op, facts, value, dims, factors);
  return factors;
}

void RowOrder::markValue(const Factors &facts, const Spans &factors,
                         Value value, const TensorFactors &dims) {
  for (auto [d, dim] : llvm::enumerate(dims)) {
    int64_t minor = 1;
    for (unsigned f : llvm::reverse(dim)) {
      if (factors[f]) {
        int64_t all = typeOf(value).getDimSize(d);
        int64_t inner = factors[f]->inner * minor;
        mark(value, d, {all / (inner * zigzag.getRows()), inner});
      }
      minor *= facts.factors[f].size;
    }
  }
}

void RowOrder::visit(Operation *op) {
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return visitRepeat(repeat);
  if (isa<YieldOp>(op))
    return visitRepeat(cast<RepeatOp>(op->getParentOp()));
  auto withFactors = dyn_cast<FactorOpInterface>(op);
  if (!withFactors)
    return;
  Factors facts = withFactors.getFactors();
  Spans factors = factorSpans(op, facts);
  for (auto [value, dims] : llvm::zip_equal(op->getOperands(), facts.operands))
    markValue(facts, factors, value, dims);
  for (auto [value, dims] : llvm::zip_equal(op->getResults(), facts.results))
    markValue(facts, factors, value, dims);
}

//===----------------------------------------------------------------------===//
// Who cares
//===----------------------------------------------------------------------===//

void RowOrder::checkFactors(Operation *op, FactorOpInterface withFactors) {
  Factors facts = withFactors.getFactors();
  Spans factors = factorSpans(op, facts);
  if (isa<AttentionOpInterface>(op) &&
      factors[facts.operands[0][1][0]] != factors[facts.operands[1][1][0]])
    fail(op, "has queries and keys of different sequences");
  auto ordered = dyn_cast<RowOrderOpInterface>(op);
  auto assign = dyn_cast<AssignSlotsOp>(op);
  for (auto [f, span] : llvm::enumerate(factors)) {
    if (!span)
      continue;
    bool told = ordered && ordered.followsOrder(f);
    if (told && !span->isRows())
      fail(op, "reads positions of several sequences as one");
    // Without a capacity every choice has a row, whatever the order: rows of a
    // table are numbered in another way.
    if (told || (assign && !assign.getCapacity()))
      continue;
    if (assign)
      fail(op, "drops tokens by their order");
    else if (facts.factors[f].kind == FactorKind::Whole)
      fail(op, "works on whole sequences");
    else if (facts.readsPositions(f))
      fail(op, "reads positions");
  }
}

void RowOrder::check(Operation *op) {
  auto hasRows = [&](Value value) { return known.contains(value); };
  if (isa<ParamOp>(op) && hasRows(op->getResult(0)))
    fail(op, "has an entry per position");
  if (isa<ReturnOp, UpdateOp>(op) && llvm::any_of(op->getOperands(), hasRows))
    fail(op, "has an entry per position");
  if (auto withFactors = dyn_cast<FactorOpInterface>(op))
    checkFactors(op, withFactors);
}

/// Inputs that the reader of batches puts in order.
static bool isOrdered(llvm::StringRef role) {
  return llvm::is_contained({"tokens", "targets", "segments", "positions"},
                            role);
}

std::optional<Obstacle> RowOrder::find(Operation *attention) {
  auto roles = model.getRoles().getAsValueRange<StringAttr>();
  for (auto [input, role] : llvm::zip(model.getBody().getArguments(), roles)) {
    auto type = typeOf(input);
    if (!isOrdered(role))
      continue;
    if (type.getRank() < 2 || type.getDimSize(1) != zigzag.getRows())
      fail(model, "has sequences of several lengths");
    else
      mark(input, 1, {});
  }
  while (!queue.empty() && !obstacle)
    visit(queue.pop_back_val());
  for (auto [input, role] : llvm::zip(model.getBody().getArguments(), roles))
    if (known.contains(input) && !isOrdered(role))
      fail(model, "has an input with an entry per position");
  if (!spanOf(attention->getOperand(0), 1))
    fail(attention, "does not depend on the tokens");
  model.getBody().walk([&](Operation *op) { check(op); });
  return obstacle;
}

//===----------------------------------------------------------------------===//
// Telling
//===----------------------------------------------------------------------===//

void RowOrder::apply() {
  model->setAttr(kZigzagAttrName, zigzag.along({1}));
  model.getBody().walk([&](RowOrderOpInterface op) { op.tellOrder(*this); });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
/// How the attention of a model is sharded along its sequence.
struct Sharding {
  Operation *attention = nullptr; ///< one of those sharded; null: none
  int64_t ranks = 1, rows = 0;
};
} // namespace

/// Ranks that share the queries of an attention.
static FailureOr<int64_t> ranksOf(Operation *op, const PlanAxes &axes) {
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  auto assignment = getAssignment(op, facts, axes);
  if (failed(assignment))
    return failure();
  return axes.sizeOf(assignment->factors[facts.operands[0][1][0]]);
}

/// Adds an attention. Where shardings differ, an order for all ranks of any
/// serves each: a part of fewer ranks is several of its parts.
static LogicalResult addSharding(Operation *op, int64_t rows,
                                 const PlanAxes &axes, Sharding &sharding,
                                 std::optional<Obstacle> &obstacle) {
  FailureOr<int64_t> ranks = ranksOf(op, axes);
  if (failed(ranks) || *ranks < 2)
    return ranks;
  if (sharding.attention && sharding.rows != rows)
    obstacle = {op, "has sequences of another length than other attention"};
  sharding = {op, std::lcm(sharding.ranks, *ranks), rows};
  return success();
}

/// The sharding of causal attentions; fails where a plan is wrong.
static FailureOr<Sharding> findSharding(ModelOp model,
                                        std::optional<Obstacle> &obstacle) {
  PlanAxes axes(getPlan(model));
  Sharding sharding;
  auto result =
      model.getBody().walk([&](AttentionOpInterface op) -> WalkResult {
        int64_t rows = typeOf(op->getOperand(0)).getDimSize(1);
        return op.getAttentionFacts().causal
                   ? addSharding(op, rows, axes, sharding, obstacle)
                   : success();
      });
  if (result.wasInterrupted())
    return failure();
  if (sharding.attention && sharding.rows % (2 * sharding.ranks) != 0)
    obstacle = {sharding.attention,
                ("has " + llvm::Twine(sharding.rows) + " positions, which " +
                 llvm::Twine(2 * sharding.ranks) + " does not divide")
                    .str()};
  return sharding;
}

static LogicalResult orderModel(ModelOp model) {
  if (getPlan(model).getPlainOrder() || model->hasAttr(kZigzagAttrName))
    return success();
  std::optional<Obstacle> obstacle;
  FailureOr<Sharding> sharding = findSharding(model, obstacle);
  if (failed(sharding) || !sharding->attention)
    return sharding;
  if (!obstacle) {
    int64_t chunk = sharding->rows / (2 * sharding->ranks);
    RowOrder order(model, ZigzagAttr::get(model.getContext(), sharding->ranks,
                                          chunk, {1}));
    obstacle = order.find(sharding->attention);
    if (!obstacle)
      order.apply();
  }
  if (obstacle) {
    auto remark = sharding->attention->emitRemark()
                  << "ranks that share a sequence have unequal causal work";
    remark.attachNote(obstacle->op->getLoc())
        << "the order of positions stays: '" << obstacle->op->getName() << "' "
        << obstacle->what;
  }
  return success();
}

namespace {
struct OrderContextPass
    : public kerf::impl::OrderContextPassBase<OrderContextPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(orderModel(model)))
        return signalPassFailure();
  }
};
} // namespace
