//===- CheckCausal.cpp - tokens behind a position do not matter -----------===//
//
// Problem: a text is shorter than the sequence that a sampler takes; what fills
// the rest must not change what follows the text.
//
// Idea: the factors of ops say which dimensions run along the sequence, from
// the tokens on. An op that makes each position of its result of that position
// alone has the factor in operand and result, as one that parts could compute.
// All others mix positions; of those causal attention, sums of what lies
// before, and the rows of experts look at nothing behind.
//
// Cost: a repeat is visited until its carried values say nothing new, which is
// twice.
//
//===----------------------------------------------------------------------===//

#include "kerf/Sampler/Sampler.h"

using namespace mlir;
using namespace kerf;

namespace {
/// Marks dimensions along the sequence, and finds who mixes them.
class SequenceFlow {
public:
  LogicalResult visit(Block &block, Operation *end);
  void mark(Value value, unsigned dim) {
    isChanged |= marked[value].insert(dim).second;
  }

private:
  LogicalResult visitOp(Operation *op);
  LogicalResult visitRepeat(RepeatOp repeat);
  void copy(Value from, Value to) {
    for (unsigned dim : llvm::to_vector(marked[from]))
      mark(to, dim);
  }

  llvm::DenseMap<Value, llvm::SmallDenseSet<unsigned>> marked;
  bool isChanged = false;
};
} // namespace

/// Is a slice of a dimension its beginning?
static bool isPrefix(Operation *op, unsigned dim) {
  std::optional<View> view = viewOf(op);
  return view && view->kind == ViewKind::Part && view->offsets[dim] == 0;
}

static LogicalResult refuse(Operation *op) {
  auto diagnostic = op->emitError()
                    << "no sampler can be made of this model: what stands "
                       "behind a position changes what this makes of it";
  if (isa<SoftmaxOp>(op))
    diagnostic.attachNote()
        << "attention is known to look back where it is 'kerf.attention "
           "causal'; kerf-import --debug says why that of a graph is not";
  return diagnostic;
}

/// Marks what an op makes of marked dimensions.
LogicalResult SequenceFlow::visitOp(Operation *op) {
  auto interface = dyn_cast<FactorOpInterface>(op);
  if (!interface)
    return op->emitError() << "no sampler can be made of this model: nothing "
                              "says whether this reads tokens behind a "
                              "position";
  Factors facts = interface.getFactors();
  llvm::SmallDenseSet<unsigned> along;
  for (auto [operand, tensor] : llvm::zip(op->getOperands(), facts.operands))
    for (unsigned dim : llvm::to_vector(marked[operand])) {
      if (isPrefix(op, dim))
        mark(op->getResult(0), dim);
      else
        along.insert_range(tensor[dim]);
    }
  for (unsigned factor : along) {
    bool isKept = true;
    for (auto [result, tensor] : llvm::zip(op->getResults(), facts.results)) {
      bool isIn = false;
      for (auto [dim, factors] : llvm::enumerate(tensor))
        if (llvm::is_contained(factors, factor)) {
          mark(result, dim);
          isIn = true;
        }
      isKept &= isIn && facts.factors[factor].kind != FactorKind::Whole;
    }
    // Where experts have room for so many, second choices come behind all first
    // ones: `kerfc` says so.
    if (!isKept && facts.factors[factor].size > 1 && !facts.looksBack)
      return refuse(op);
  }
  return success();
}

LogicalResult SequenceFlow::visitRepeat(RepeatOp repeat) {
  Block &body = repeat.getBody().front();
  auto arguments = body.getArguments().drop_front();
  unsigned carried = repeat.getInits().size();
  for (auto [init, argument] : llvm::zip_first(repeat.getInits(), arguments))
    copy(init, argument);
  for (auto [stack, argument] :
       llvm::zip(repeat.getSlices(), arguments.drop_front(carried)))
    for (unsigned dim : llvm::to_vector(marked[stack]))
      if (dim > 0)
        mark(argument, dim - 1);
  bool before = isChanged;
  do {
    isChanged = false;
    if (failed(visit(body, body.getTerminator())))
      return failure();
    for (auto [value, argument] : llvm::zip_first(
             repeat.getYield().getOperands().take_front(carried), arguments))
      copy(value, argument);
  } while (isChanged);
  isChanged = before;
  for (auto [value, result] :
       llvm::zip_first(repeat.getYield().getOperands().take_front(carried),
                       repeat.getCarryResults()))
    copy(value, result);
  for (auto [value, result] :
       llvm::zip(repeat.getYield().getStacked(), repeat.getStackResults()))
    for (unsigned dim : llvm::to_vector(marked[value]))
      mark(result, dim + 1);
  return success();
}

LogicalResult SequenceFlow::visit(Block &block, Operation *end) {
  for (Operation &op : block) {
    if (&op == end)
      break;
    auto repeat = dyn_cast<RepeatOp>(op);
    if (failed(repeat ? visitRepeat(repeat) : visitOp(&op)))
      return failure();
  }
  return success();
}

LogicalResult kerf::checkCausal(ModelOp model, Value value) {
  SequenceFlow flow;
  for (llvm::StringRef role : {"tokens", "segments", "positions"})
    if (BlockArgument input = model.getInput(role))
      flow.mark(input, 1);
  Operation *maker = value.getDefiningOp();
  return flow.visit(model.getBody().front(),
                    maker ? maker->getNextNode() : nullptr);
}
