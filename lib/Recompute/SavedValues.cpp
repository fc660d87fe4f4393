//===- SavedValues.cpp - where reverse bodies take forward values from ----===//
//
// Problem: given which forward values are saved, let the reverse bodies compute
// the others again.
//
// Idea: as differentiation does it: the reverse bodies first read forward
// values directly; then each such read is led to a slice of a stack or to a
// copy of the forward op, made just before its first reader.
//
// Example, of which only %h is to be saved:
//   repeat 0 to 3 (%h = ...)  { %e = exp %h; %s = sin %e; yield %s stack(%e) }
//   repeat reverse 0 to 3 ... slices(%a = e's) { ... cos %a ... }
// becomes
//   repeat 0 to 3 (%h = ...)  { %e = exp %h; %s = sin %e; yield %s stack(%h) }
//   repeat reverse 0 to 3 ... slices(%a = h's) { %e = exp %a; ... cos %e ... }
//
//===----------------------------------------------------------------------===//

#include "SavedValues.h"

#include "kerf/Dialect/Kerf/Stacks.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::recompute;

llvm::SmallVector<RepeatPair> recompute::collectPairs(ModelOp model) {
  llvm::SmallVector<RepeatPair> pairs;
  for (RepeatOp repeat : model.getBody().getOps<RepeatOp>()) {
    PhaseAttr phase = getPhase(repeat);
    if (!phase || !repeat.getPair())
      continue;
    if (phase.getKind() == PhaseKind::Forward)
      pairs.push_back({repeat, {}});
    else
      for (RepeatPair &pair : pairs)
        if (pair.forward.getPair() == repeat.getPair() &&
            pair.forward.getStart() == repeat.getStart() &&
            pair.forward.getEnd() == repeat.getEnd())
          pair.reverses.push_back(repeat);
  }
  llvm::erase_if(pairs,
                 [](const RepeatPair &pair) { return pair.reverses.empty(); });
  return pairs;
}

bool recompute::canCopy(Operation *op) {
  return isPure(op) && op->getNumRegions() == 0 &&
         !op->hasTrait<OpTrait::IsTerminator>();
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

SavedValues::SavedValues(RepeatPair opened) : pair(std::move(opened)) {
  for (RepeatOp reverse : pair.reverses)
    open(reverse);
  for (auto [value, stack] : llvm::zip(pair.forward.getYield().getStacked(),
                                       pair.forward.getStackResults()))
    if (!stack.use_empty())
      kept.insert(value);
}

void SavedValues::open(RepeatOp reverse) {
  takeSlices(reverse);
  takeCopies(reverse);
  for (Operation &op : reverse.getBody().front())
    for (Value operand : op.getOperands())
      if (operand.getParentBlock() == &pair.forward.getBody().front())
        read.insert(operand);
}

/// Leads readers of slices to the forward values, and drops the slices.
void SavedValues::takeSlices(RepeatOp reverse) {
  Block &body = reverse.getBody().front();
  unsigned firstSlice = 1 + reverse.getInits().size();
  unsigned firstStack = pair.forward.getInits().size();
  for (unsigned k = reverse.getSlices().size(); k-- > 0;) {
    auto stack = dyn_cast<OpResult>(reverse.getSlices()[k]);
    if (!stack || stack.getOwner() != pair.forward ||
        stack.getResultNumber() < firstStack)
      continue;
    Value value = pair.forward.getYield()
                      .getStacked()[stack.getResultNumber() - firstStack];
    BlockArgument arg = body.getArgument(firstSlice + k);
    arg.replaceAllUsesWith(value);
    body.eraseArgument(firstSlice + k);
    reverse.getSlicesMutable().erase(k);
  }
}

/// The forward op that `copy` was made of; null where several come into
/// question.
static Operation *findOriginal(RepeatOp forward, Operation *copy) {
  Operation *original = nullptr;
  for (Operation &op : forward.getBody().front()) {
    PhaseAttr phase = getPhase(&op);
    if (op.getName() != copy->getName() || !phase ||
        phase.getOp() != getPhase(copy).getOp() ||
        op.getResultTypes() != copy->getResultTypes())
      continue;
    if (original)
      return nullptr;
    original = &op;
  }
  return original;
}

/// Leads readers of earlier copies to the forward values, and erases these.
void SavedValues::takeCopies(RepeatOp reverse) {
  llvm::SmallVector<Operation *> copies;
  for (Operation &op : reverse.getBody().front())
    if (isRecomputed(&op) && getPhase(&op))
      copies.push_back(&op);
  for (Operation *copy : llvm::reverse(copies))
    if (Operation *original = findOriginal(pair.forward, copy)) {
      copied.insert(original);
      copy->replaceAllUsesWith(original);
      copy->erase();
    }
}

bool SavedValues::isFree(Value value) {
  if (value.getParentBlock() != &pair.forward.getBody().front() ||
      value == pair.forward.getIndex())
    return true;
  if (Operation *op = value.getDefiningOp())
    return op->getNumOperands() == 0 && canCopy(op);
  return llvm::is_contained(pair.forward.getSliceArgs(), value);
}

//===----------------------------------------------------------------------===//
// Closing
//===----------------------------------------------------------------------===//

namespace {
/// A slice argument that a reverse body got: of the stack of a forward value,
/// or of a stack that the forward body reads itself.
struct NewSlice {
  Value value, stack;
};

/// Leads the reads of forward values in one reverse body to slices and copies.
class ReverseBody {
public:
  ReverseBody(RepeatOp forward, RepeatOp reverse,
              const llvm::DenseSet<Value> &saved)
      : forward(forward), reverse(reverse), saved(saved) {
    for (Operation &op : reverse.getBody().front())
      if (op.getNumOperands() == 0 && canCopy(&op))
        sources.push_back(&op);
  }

  /// Closes the body; returns its new slice arguments in order. The repeat's
  /// operands for them are still to be added.
  llvm::SmallVector<NewSlice> close();

private:
  Value mirror(Value value, Operation *reader);
  Value addSlice(NewSlice slice);
  Value sliceOf(Value value, Value stack);
  Value copy(OpResult result, Operation *reader);
  Operation *findSource(Operation *op);
  void setKinds();

  RepeatOp forward, reverse;
  const llvm::DenseSet<Value> &saved;
  llvm::SmallVector<Operation *> sources; ///< without operands
  llvm::SmallVector<NewSlice> slices;
  IRMapping mirrors;
};
} // namespace

llvm::SmallVector<NewSlice> ReverseBody::close() {
  Block *from = &forward.getBody().front();
  for (Operation &op : reverse.getBody().front())
    for (OpOperand &operand : op.getOpOperands())
      if (operand.get().getParentBlock() == from)
        operand.set(mirror(operand.get(), &op));
  setKinds();
  return std::move(slices);
}

Value ReverseBody::addSlice(NewSlice slice) {
  slices.push_back(slice);
  return reverse.getBody().addArgument(slice.value.getType(),
                                       slice.value.getLoc());
}

/// The slice of a stack that the forward body slices as `value`.
Value ReverseBody::sliceOf(Value value, Value stack) {
  OperandRange known = reverse.getSlices();
  auto found = llvm::find(known, stack);
  if (found != known.end())
    return reverse.getSliceArgs()[found - known.begin()];
  return addSlice({value, stack});
}

/// The value of the reverse body that stands for a forward value, made before
/// `reader`.
Value ReverseBody::mirror(Value value, Operation *reader) {
  if (value.getParentBlock() != &forward.getBody().front())
    return value;
  if (value == forward.getIndex())
    return reverse.getIndex();
  if (Value known = mirrors.lookupOrNull(value))
    return known;
  auto arg = dyn_cast<BlockArgument>(value);
  unsigned firstSlice = 1 + forward.getInits().size();
  Value found;
  if (arg && arg.getArgNumber() >= firstSlice)
    found =
        sliceOf(value, forward.getSlices()[arg.getArgNumber() - firstSlice]);
  else if (arg || saved.contains(value) || !canCopy(value.getDefiningOp()))
    found = addSlice({value, Value()});
  else
    found = copy(cast<OpResult>(value), reader);
  mirrors.map(value, found);
  return found;
}

/// An op of the reverse body that reads or makes the same without operands.
Operation *ReverseBody::findSource(Operation *op) {
  auto same = [&](Operation *other) {
    return OperationEquivalence::isEquivalentTo(
               op, other,
               OperationEquivalence::IgnoreLocations |
                   OperationEquivalence::IgnoreDiscardableAttrs) &&
           op->getAttr(kAssignAttrName) == other->getAttr(kAssignAttrName);
  };
  auto found = llvm::find_if(sources, same);
  return found == sources.end() ? nullptr : *found;
}

/// The result's copy, with copies of all that its op needs.
Value ReverseBody::copy(OpResult result, Operation *reader) {
  Operation *op = result.getOwner();
  Block &body = reverse.getBody().front();
  OpBuilder builder(reader);
  Operation *made = nullptr;
  if (op->getNumOperands() == 0) {
    // Such ops stand first, as differentiation puts them.
    made = findSource(op);
    if (made && !made->isBeforeInBlock(reader))
      made->moveBefore(&body, body.begin());
    builder.setInsertionPointToStart(&body);
  }
  if (!made) {
    // A copy reads forward values only through their mirrors.
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, mirror(operand, reader));
    made = builder.clone(*op, operands);
    if (PhaseAttr phase = getPhase(op))
      setPhase(made, PhaseKind::InputGradient, phase.getOp());
    if (op->getNumOperands() == 0)
      sources.push_back(made);
    else
      setRecomputed(made);
  }
  for (auto [from, to] : llvm::zip(op->getResults(), made->getResults()))
    if (!saved.contains(from))
      mirrors.map(from, to);
  return made->getResult(result.getResultNumber());
}

/// Copies that only weight gradients read are part of these.
void ReverseBody::setKinds() {
  for (Operation &op : llvm::reverse(reverse.getBody().front())) {
    if (!isRecomputed(&op) || op.use_empty())
      continue;
    bool forWeights = llvm::all_of(op.getUsers(), [](Operation *user) {
      PhaseAttr phase = getPhase(user);
      return phase && phase.getKind() == PhaseKind::WeightGradient;
    });
    if (PhaseAttr phase = getPhase(&op))
      setPhase(&op,
               forWeights ? PhaseKind::WeightGradient
                          : PhaseKind::InputGradient,
               phase.getOp());
  }
}

void SavedValues::close(const llvm::DenseSet<Value> &saved) {
  llvm::SmallVector<llvm::SmallVector<NewSlice>> slices;
  for (RepeatOp reverse : pair.reverses)
    slices.push_back(ReverseBody(pair.forward, reverse, saved).close());
  llvm::SetVector<Value> stacked;
  for (auto [value, stack] : llvm::zip(pair.forward.getYield().getStacked(),
                                       pair.forward.getStackResults()))
    if (!stack.use_empty())
      stacked.insert(value);
  for (const auto &list : slices)
    for (const NewSlice &slice : list)
      if (!slice.stack)
        stacked.insert(slice.value);
  pair.forward = setStacks(pair.forward, stacked.getArrayRef());
  for (auto [reverse, list] : llvm::zip(pair.reverses, slices))
    for (const NewSlice &slice : list) {
      size_t number = llvm::find(stacked, slice.value) - stacked.begin();
      reverse.getSlicesMutable().append(
          slice.stack ? slice.stack
                      : Value(pair.forward.getStackResults()[number]));
    }
}
