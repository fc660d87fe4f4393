#include "StepSizes.h"

#include "kerf/Dialect/Kerf/Chunks.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;

StepSizes::Word &StepSizes::dimsOf(Value value) {
  auto [entry, isNew] = dims.try_emplace(value);
  if (auto type = dyn_cast<RankedTensorType>(value.getType()); isNew && type)
    for (int64_t size : type.getShape())
      entry->second.push_back(sizes.add(size));
  return entry->second;
}

void StepSizes::unify(Value a, Value b) {
  Word left = dimsOf(a), right = dimsOf(b);
  for (auto [x, y] : llvm::zip_equal(left, right))
    sizes.unify(x, y);
}

void StepSizes::unifySlice(Value stack, Value slice, unsigned layers) {
  Word whole = dimsOf(stack), part = dimsOf(slice);
  sizes.unify(whole.front(), layers);
  for (auto [x, y] : llvm::zip_equal(llvm::drop_begin(whole), part))
    sizes.unify(x, y);
}

//===----------------------------------------------------------------------===//
// Repeats and parameters
//===----------------------------------------------------------------------===//

void StepSizes::readRepeat(RepeatOp repeat) {
  unsigned layers = sizes.add(repeat.getCount());
  layersOf[repeat] = layers;
  if (auto pair = repeat.getPair()) {
    auto [entry, isNew] = layersOfPair.try_emplace(int64_t(*pair), layers);
    if (!isNew)
      sizes.unify(entry->second, layers);
  }
  YieldOp yield = repeat.getYield();
  for (auto [init, argument, next, result] :
       llvm::zip_equal(repeat.getInits(), repeat.getCarryArgs(),
                       yield.getCarried(), repeat.getCarryResults())) {
    unify(init, argument);
    unify(argument, next);
    unify(next, result);
  }
  for (auto [stack, argument] :
       llvm::zip_equal(repeat.getSlices(), repeat.getSliceArgs()))
    unifySlice(stack, argument, layers);
  for (auto [value, stack] :
       llvm::zip_equal(yield.getStacked(), repeat.getStackResults()))
    unifySlice(stack, value, layers);
}

/// A parameter of one name is one, wherever it is read or updated.
void StepSizes::readParam(Operation *op, llvm::StringRef name, Value value,
                          bool isStack) {
  llvm::ArrayRef<unsigned> own = dimsOf(value);
  Word shape(own.drop_front(isStack));
  auto [entry, isNew] = params.try_emplace(name, shape);
  if (!isNew && entry->second.size() == shape.size())
    for (auto [x, y] : llvm::zip_equal(entry->second, shape))
      sizes.unify(x, y);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// A window that is a block of equal ones shrinks with them, and their number
/// stays; others shrink in proportion to the whole.
void StepSizes::readWindow(Operation *op, const Factors &facts,
                           llvm::ArrayRef<unsigned> factors,
                           llvm::ArrayRef<int64_t> offsets) {
  Value from = op->getOperand(0), to = op->getResult(0);
  for (auto [d, parts] :
       llvm::enumerate(llvm::zip_equal(facts.operands[0], facts.results[0]))) {
    auto &[whole, part] = parts;
    if (whole == part)
      continue;
    if (whole.size() + part.size() == 3) { // one is of blocks
      sizes.keep(factors[(whole.size() == 2 ? whole : part).front()]);
      continue;
    }
    sizes.link({dimsOf(from)[d], dimsOf(to)[d]}, offsets[d]);
  }
}

void StepSizes::readJoin(Operation *op, unsigned d) {
  Word linked = {dimsOf(op->getResult(0))[d]};
  for (Value input : op->getOperands())
    linked.push_back(dimsOf(input)[d]);
  sizes.link(linked, {});
}

namespace {
/// What one op asks, as words of letters.
class OpDemands : public SizeDemands {
public:
  using WordOf = llvm::function_ref<unsigned(SizeName)>;
  OpDemands(Sizes &sizes, WordOf wordOf) : sizes(sizes), wordOf(wordOf) {}

  void keep(SizeName size) override { sizes.keep(wordOf(size)); }
  void atLeast(SizeName size, int64_t value) override {
    sizes.atLeast(wordOf(size), value);
  }
  void atMost(SizeName size, int64_t value) override {
    sizes.atMost(wordOf(size), value);
  }
  void divide(SizeName size, int64_t parts) override {
    sizes.divide(wordOf(size), parts);
  }
  void unify(SizeName size, SizeName other) override {
    sizes.unify(wordOf(size), wordOf(other));
  }
  void cover(SizeName size, SizeName other) override {
    sizes.cover(wordOf(size), wordOf(other));
  }
  void product(SizeName size, llvm::ArrayRef<SizeName> factors) override {
    Sizes::Word word;
    for (SizeName factor : factors)
      word.push_back(wordOf(factor));
    sizes.product(wordOf(size), word);
  }
  void setUsual(int64_t value) override { sizes.setUsual(value); }

private:
  Sizes &sizes;
  WordOf wordOf;
};
} // namespace

/// What the meaning of an op asks of its sizes.
void StepSizes::demand(Operation *op, const Factors &facts,
                       llvm::ArrayRef<unsigned> factors) {
  if (std::optional<View> view = viewOf(op)) {
    if (view->kind == ViewKind::Part || view->kind == ViewKind::Pad)
      readWindow(op, facts, factors, view->offsets);
    else if (view->kind == ViewKind::Join)
      readJoin(op, view->dims[0]);
  }
  auto wordOf = [&](SizeName size) {
    return size.value ? dimsOf(size.value)[size.index] : factors[size.index];
  };
  OpDemands demands(sizes, wordOf);
  if (auto sized = dyn_cast<ResizeOpInterface>(op))
    sized.demandSizes(demands);
}

std::optional<BlockSplit> kerf::blocksOf(const Factors &facts,
                                         const Assignment &assignment,
                                         const PlanAxes &axes) {
  std::optional<unsigned> axis = axes.find(kTensorAxis);
  auto isSharded = [&](const AxisList &list) {
    return axis && llvm::is_contained(list, *axis);
  };
  auto *split = llvm::find_if(assignment.factors, isSharded);
  if (assignment.blocks == 1 || split == assignment.factors.end())
    return std::nullopt;
  BlockSplit blocks = {unsigned(split - assignment.factors.begin()), 1, {}};
  int64_t most = 1;
  auto look = [&](const TensorFactors &dims) {
    for (const DimFactors &dim : dims) {
      auto *at = llvm::find(dim, blocks.factor);
      int64_t before = 1;
      for (unsigned f : llvm::ArrayRef(dim.begin(), at))
        before *= facts.factors[f].size;
      if (at == dim.end() || before <= most)
        continue;
      most = before;
      blocks.before.assign(dim.begin(), at);
    }
  };
  llvm::for_each(facts.operands, look);
  llvm::for_each(facts.results, look);
  blocks.outer = assignment.blocks / most;
  return blocks;
}

/// A factor that is split divides into the small plan's parts.
LogicalResult StepSizes::readAssignment(Operation *op, const Factors &facts,
                                        llvm::ArrayRef<unsigned> factors) {
  FailureOr<Assignment> assignment = getAssignment(op, facts, *axes);
  if (failed(assignment))
    return failure();
  std::optional<BlockSplit> blocks = blocksOf(facts, *assignment, *axes);
  for (auto [f, list] : llvm::enumerate(assignment->factors))
    if (!list.empty()) {
      int64_t outer = blocks && blocks->factor == f ? blocks->outer : 1;
      sizes.divide(factors[f], outer * smallAxes->sizeOf(list));
    }
  return success();
}

LogicalResult StepSizes::readOp(Operation *op) {
  if (auto repeat = dyn_cast<RepeatOp>(op))
    readRepeat(repeat);
  if (auto param = dyn_cast<ParamOp>(op))
    readParam(op, param.getName(), param.getResult(), /*isStack=*/false);
  if (auto update = dyn_cast<UpdateOp>(op))
    readParam(op, update.getName(), update.getGradient(),
              update.getStart().has_value());
  auto interface = dyn_cast<FactorOpInterface>(op);
  if (!interface)
    return success();
  Factors facts = interface.getFactors();
  Word factors;
  for (const Factor &factor : facts.factors)
    factors.push_back(sizes.add(factor.size));
  auto read = [&](auto values, llvm::ArrayRef<TensorFactors> all) {
    for (auto [value, tensor] : llvm::zip(values, all)) {
      Word own = dimsOf(value);
      for (auto [size, dim] : llvm::zip(own, tensor)) {
        Word word;
        for (unsigned f : dim)
          word.push_back(factors[f]);
        sizes.unify(llvm::ArrayRef(size), word);
      }
    }
  };
  read(op->getOperands(), facts.operands);
  read(op->getResults(), facts.results);
  demand(op, facts, factors);
  factorsOf[op] = factors;
  return readAssignment(op, facts, factors);
}

LogicalResult StepSizes::choose(ModelOp model, const SmallPlan &plan) {
  axes.emplace(getPlan(model));
  smallAxes.emplace(plan.plan);
  WalkResult walked = model.getBody().walk<WalkOrder::PreOrder>(
      [&](Operation *op) { return WalkResult(readOp(op)); });
  if (walked.wasInterrupted())
    return failure();
  for (auto [repeat, layers] :
       llvm::zip_equal(forwardRepeats(model), plan.layers))
    sizes.force(layersOf.lookup(repeat), layers);
  sizes.choose();
  return success();
}

int64_t StepSizes::small(Value value, unsigned dim) const {
  auto found = dims.find(value);
  return found == dims.end() ? typeOf(value).getDimSize(dim)
                             : sizes.small(found->second[dim]);
}

int64_t StepSizes::small(Operation *op, unsigned factor) const {
  return sizes.small(factorsOf.find(op)->second[factor]);
}

int64_t StepSizes::smallOffset(Value value, unsigned dim,
                               int64_t offset) const {
  return sizes.small(dims.find(value)->second[dim], offset);
}

int64_t StepSizes::small(RepeatOp repeat) const {
  return sizes.small(layersOf.lookup(repeat));
}
