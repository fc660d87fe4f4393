#include "RankRules.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kerf;

InFlightDiagnostic kerf::stateError(Operation *op, unsigned operand,
                                    const RankState &state, unsigned axis,
                                    const RankAxes &axes) {
  return op->emitOpError() << "over '" << axes.nameOf(axis) << "' operand #"
                           << operand << " is " << describeOver(state, axis)
                           << ", expected ";
}

InFlightDiagnostic OpRule::error(unsigned axis, unsigned index) {
  return stateError(op, index, operand(index), axis, axes);
}

OpRule::OpRule(FactorOpInterface op, RankStates &states, const RankAxes &axes)
    : op(op), states(states), axes(axes), facts(op.getFactors()) {
  for (Value value : op->getOperands())
    operands.push_back(&states.find(value)->second);
  isPlace.assign(operands.size(), false);
  known.resize(facts.factors.size());
  loose.assign(axes.count(), false);
  for (Value result : op->getResults())
    results.push_back(RankState::same(result.getType(), axes));
}

//===----------------------------------------------------------------------===//
// Dimensions
//===----------------------------------------------------------------------===//

/// An operand that has a factor and is not uniform along it; or -1.
int OpRule::carrierOf(unsigned factor) const {
  for (auto [i, dims] : llvm::enumerate(facts.operands))
    for (auto [d, dim] : llvm::enumerate(dims))
      if (llvm::is_contained(dim, factor) && !operand(i).dims[d].uniform)
        return i;
  return -1;
}

/// An axis in which two dimensions differ.
static unsigned differingAxis(const DimState &a, const DimState &b,
                              llvm::ArrayRef<bool> loose) {
  auto left = a.axes(), right = b.axes();
  for (unsigned axis = 0; axis < loose.size(); ++axis)
    if (!loose[axis] &&
        llvm::is_contained(left, axis) != llvm::is_contained(right, axis))
      return axis;
  for (unsigned axis : left)
    if (!loose[axis])
      return axis;
  return left.empty() ? 0 : left.front();
}

/// What a dimension tells of a factor.
LogicalResult OpRule::meet(unsigned factor, const DimState &dim, unsigned index,
                           unsigned at) {
  std::optional<DimState> &seen = known[factor];
  if (!seen) {
    seen = dim;
    return success();
  }
  unsigned carrier = carrierOf(factor);
  if (isShardedAlike(*seen, dim, loose)) {
    if (seen->opaque || seen->axes().size() < dim.axes().size())
      seen = dim;
    return success();
  }
  bool samePlaces = facts.operands[index] == facts.operands[carrier];
  if (samePlaces && isShardedAlike(operand(index), operand(carrier), loose))
    return success();
  unsigned axis = differingAxis(*seen, dim, loose);
  return op->emitOpError() << "over '" << axes.nameOf(axis) << "' dimension "
                           << at << " of operand #" << index << " is split "
                           << printDim(dim, axes) << ", expected "
                           << printDim(*seen, axes) << " as of operand #"
                           << carrier;
}

/// Takes the digits of a factor that is known from the front.
static bool takeKnown(IndexDigits &rest, const IndexDigits &digits) {
  IndexDigits left = rest;
  for (const IndexDigit &digit : digits) {
    if (left.empty())
      return false;
    IndexDigit &front = left.front();
    if (front == digit) {
      left.erase(left.begin());
      continue;
    }
    if (!digit.isLocal() || !front.isLocal() || front.size % digit.size != 0)
      return false;
    front.size /= digit.size;
  }
  rest = left;
  return true;
}

/// Deals a dimension out to its factors, major to minor. A factor of one
/// element on the rank has the axes that another operand shows.
LogicalResult OpRule::splitDim(unsigned index, unsigned d, DimState from) {
  const DimFactors &dim = facts.operands[index][d];
  IndexDigits rest = from.digits;
  for (auto [i, f] : llvm::enumerate(dim)) {
    bool isLast = i + 1 == dim.size();
    if (known[f] && !isLast && takeKnown(rest, known[f]->digits))
      continue;
    llvm::SmallVector<int64_t, 3> sizes = {facts.factors[f].size};
    int64_t others = 1;
    for (unsigned after : llvm::ArrayRef(dim).drop_front(i + 1))
      others *= facts.factors[after].size;
    if (!isLast)
      sizes.push_back(others);
    DimState whole = from;
    whole.digits = rest;
    auto parts = regroup(whole, sizes, /*axesFirst=*/true);
    if (failed(meet(f, parts.front(), index, d)))
      return failure();
    rest = parts.back().digits;
  }
  return success();
}

LogicalResult OpRule::readOperands() {
  for (unsigned axis = 0; axis < axes.count(); ++axis)
    for (auto [state, place] : llvm::zip(operands, isPlace))
      loose[axis] = loose[axis] || (!place && state->isLoose(axis));
  for (bool composite : {false, true})
    for (auto [i, dims] : llvm::enumerate(facts.operands))
      for (auto [d, dim] : llvm::enumerate(dims)) {
        const DimState &from = operand(i).dims[d];
        if ((dim.size() > 1) != composite || from.uniform || dim.empty())
          continue;
        if (failed(composite ? splitDim(i, d, from) : meet(dim[0], from, i, d)))
          return failure();
      }
  return success();
}

/// Dimensions of the results, from what is known of their factors. What is not
/// known is uniform where all elements of a factor are treated alike.
void OpRule::writeDims() {
  for (auto [result, dims] : llvm::zip_equal(results, facts.results))
    for (auto [d, dim] : llvm::enumerate(dims)) {
      DimState joined;
      bool any = true;
      for (unsigned f : dim) {
        const Factor &factor = facts.factors[f];
        any &= !known[f] && factor.kind != FactorKind::Whole &&
               !facts.readsPositions(f);
        DimState part = known[f].value_or(DimState::local(factor.size));
        joined.digits.append(part.digits);
        joined.opaque |= part.opaque;
      }
      joined.digits = normalized(joined.digits);
      joined.uniform = any;
      result.dims[d] = joined;
    }
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

/// What may pass a maximum on.
static bool keepsMaxima(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getKind() == ReduceKind::Max;
  return isa<MaxOp>(op) || isConversion(op) ||
         isView(op, ViewKind::Rename, ViewKind::Turn, ViewKind::Repeat,
                ViewKind::Part, ViewKind::Join);
}

/// What the operands' sums, maxima and norms make of the results.
FailureOr<Over> OpRule::passPending(unsigned axis) {
  llvm::SmallVector<unsigned> sums;
  Over passed = Over::Same;
  for (auto [i, state] : llvm::enumerate(operands)) {
    Over over = state->over[axis];
    if (over == Over::Max) {
      if (!keepsMaxima(op))
        return error(axis, i) << "it made";
      passed = Over::Max;
    }
    if (over == Over::Norm) {
      if (!isa<MulOp>(op) || op->getOperand(0) != op->getOperand(1))
        return error(axis, i) << "that of the whole";
      return Over::Sum;
    }
    if (over == Over::Sum)
      sums.push_back(i);
  }
  if (sums.empty())
    return passed;
  for (unsigned i : sums)
    if (!llvm::is_contained(facts.linearOperands, i))
      return error(axis, i) << "it made, since the op is not linear in it";
  for (auto [i, state] : llvm::enumerate(operands)) {
    if (isPlace[i] || llvm::is_contained(sums, i))
      continue;
    bool isAddend =
        facts.jointly && llvm::is_contained(facts.linearOperands, i);
    if (isAddend && !state->zero)
      return error(axis, i)
             << "a sum that is still to be made, as operand #" << sums[0];
    if (state->isShardedBy(axis) && !state->zero)
      return error(axis, i) << "the same on all ranks, as operand #" << sums[0]
                            << " is a sum that is still to be made";
  }
  if (!facts.jointly && sums.size() > 1)
    return error(axis, sums[1]) << "it made, as operand #" << sums[0]
                                << " is a sum that is still to be made";
  return Over::Sum;
}

void OpRule::setPassed(unsigned axis, unsigned result, Over passed) {
  results[result].over[axis] = passed;
  for (const RankState *state : operands)
    if (passed == Over::Sum && state->over[axis] == Over::Sum)
      results[result].parts[axis] |= state->parts[axis];
}

/// Adds contributions to a part of a ring; all of them make it whole.
void OpRule::addRing(unsigned axis, unsigned result, uint64_t mask) {
  RankState &state = results[result];
  int64_t size = axes.sizeOf(axis);
  constexpr int64_t most = 64;
  if (size > most) {
    state.over[axis] = Over::Unknown;
    return;
  }
  uint64_t all = size == most ? ~uint64_t(0) : (uint64_t(1) << size) - 1;
  state.parts[axis] |= mask;
  state.over[axis] = state.parts[axis] == all ? Over::Same : Over::Ring;
}

static const IndexDigit *digitOf(const DimState &dim, unsigned axis) {
  auto *digit = llvm::find_if(
      dim.digits, [&](const IndexDigit &d) { return d.axis == int(axis); });
  return digit == dim.digits.end() ? nullptr : digit;
}

static bool isMapped(const Factors &facts, unsigned factor) {
  return llvm::any_of(facts.maps, [&](const FactorMap &map) {
    return llvm::is_contained(map.from, factor) ||
           llvm::is_contained(map.to, factor);
  });
}

/// Factors that an axis splits and that a result lacks.
LogicalResult OpRule::reduceOver(unsigned axis, unsigned result, Over passed) {
  RankState &state = results[result];
  setPassed(axis, result, passed);
  bool isInteger =
      isa<IntegerType>(typeOf(op->getResult(result)).getElementType());
  for (auto [f, factor] : llvm::enumerate(facts.factors)) {
    bool isRow = factor.kind == FactorKind::Whole && isMapped(facts, f);
    if (!isSharded(f, axis) || isRow)
      continue;
    bool inResult = hasFactor(facts.results[result], f);
    bool byVariant = llvm::any_of(facts.variants, [&](const auto &variant) {
      return llvm::is_contained(variant.factors, f);
    });
    int own = state.shardedDim(axis);
    bool isRing = !inResult && own >= 0 && factor.kind != FactorKind::Parallel;
    if (isRing) {
      int64_t n = axes.sizeOf(axis);
      const IndexDigit *from = digitOf(*known[f], axis);
      const IndexDigit *to = digitOf(state.dims[own], axis);
      int64_t distance = ((from->shift - to->shift) % n + n) % n;
      addRing(axis, result, uint64_t(1) << (distance & 63));
      continue;
    }
    if (factor.kind == FactorKind::Whole && !(inResult && byVariant)) {
      if (!isInteger)
        return error(axis, carrierOf(f)) << "it whole";
      state.over[axis] = Over::Own; // each rank counts its own rows
      continue;
    }
    bool isEach = factor.kind == FactorKind::Max && facts.maxOfMicroBatch &&
                  axis == axes.micro();
    if (inResult || isEach || factor.kind == FactorKind::Parallel)
      continue;
    if (passed == Over::Sum)
      return error(axis, carrierOf(f))
             << "the same on all ranks, beside a sum that is still to be made";
    state.over[axis] = isInteger                        ? Over::Own
                       : factor.kind == FactorKind::Max ? Over::Max
                                                        : Over::Sum;
  }
  return success();
}

LogicalResult OpRule::followAxis(unsigned axis) {
  bool isUnknown = false;
  uint64_t parts = 0;
  for (auto [i, state] : llvm::enumerate(operands)) {
    if (isPlace[i])
      continue;
    isUnknown |= state->over[axis] == Over::Unknown;
    if (state->over[axis] != Over::Ring)
      continue;
    parts |= state->parts[axis];
    for (const Factor &factor : facts.factors)
      if (factor.kind != FactorKind::Parallel)
        return error(axis, i) << "all parts of the ring";
  }
  if (loose[axis]) {
    for (RankState &result : results)
      result.over[axis] = isUnknown ? Over::Unknown : Over::Own;
    return success();
  }
  FailureOr<Over> passed = passPending(axis);
  if (failed(passed))
    return failure();
  for (unsigned r = 0; r < results.size(); ++r) {
    if (failed(reduceOver(axis, r, *passed)))
      return failure();
    if (parts)
      addRing(axis, r, parts);
  }
  return success();
}

/// True when elements of a dimension that is equal all along are added up: how
/// many there are in all is not known.
static bool addsUniform(const Factors &facts, unsigned factor) {
  return facts.factors[factor].kind == FactorKind::Sum &&
         llvm::none_of(facts.results, [&](const TensorFactors &dims) {
           return hasFactor(dims, factor);
         });
}

LogicalResult OpRule::run() {
  findPlaces();
  if (isShapeOp())
    return runShapeOp();
  if (isa<GlobalNormOp>(op))
    return normOfParts();
  if (failed(readOperands()))
    return failure();
  if (failed(checkPlaces()))
    return failure();
  writeDims();
  for (unsigned axis = 0; axis < axes.count(); ++axis) {
    FailureOr<bool> done = followRows(axis);
    if (failed(done) || (!*done && failed(followAxis(axis))))
      return failure();
  }
  bool isLoose = false;
  for (unsigned f = 0; f < known.size(); ++f)
    isLoose |= !known[f] && addsUniform(facts, f);
  auto isZero = [&](unsigned i) { return operand(i).zero; };
  bool zero = !facts.linearOperands.empty() &&
              (facts.jointly ? llvm::all_of(facts.linearOperands, isZero)
                             : llvm::any_of(facts.linearOperands, isZero));
  if (isConstant(op))
    zero = matchPattern(op->getResult(0), m_AnyZeroFloat()) ||
           matchPattern(op->getResult(0), m_Zero());
  for (RankState &result : results) {
    result.zero = zero;
    if (isLoose && !zero)
      for (Over &over : result.over)
        over = over == Over::Same ? Over::Own : over;
    if (isConversion(op))
      result.flat = operand(0).flat;
  }
  return success();
}

void OpRule::store() {
  for (auto [value, state] : llvm::zip_equal(op->getResults(), results))
    states[value] = std::move(state);
}

//===----------------------------------------------------------------------===//
// Dimensions of one element
//===----------------------------------------------------------------------===//

/// Runs a rule. Where a rank has one element of a dimension, shapes do not show
/// which of its neighbours an axis shards: all ways are tried.
LogicalResult kerf::tryPlaces(Operation *op, RankStates &states,
                              llvm::function_ref<LogicalResult()> run) {
  {
    ScopedDiagnosticHandler quiet(op->getContext(),
                                  [](Diagnostic &) { return success(); });
    if (succeeded(run()))
      return success();
    for (Value value : op->getOperands()) {
      RankState own = states.find(value)->second;
      for (RankState &other : otherPlaces(own)) {
        states[value] = std::move(other);
        LogicalResult fits = run();
        states[value] = own;
        if (succeeded(fits))
          return success();
      }
    }
  }
  return run();
}

LogicalResult kerf::transferOp(FactorOpInterface op, RankStates &states,
                               const RankAxes &axes) {
  return tryPlaces(op, states, [&] {
    OpRule rule(op, states, axes);
    if (failed(rule.run()))
      return failure();
    rule.store();
    return success();
  });
}
