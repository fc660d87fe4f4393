//===- ChooseSaved.cpp - the fewest bytes to save -------------------------===//
//
// Problem: choose forward values to save so that the reverse body can compute
// all it needs from them by permitted ops, in the fewest bytes.
//
// Idea: a minimum cut. The sink's side holds what the reverse body has: values,
// and ops that it computes again. An op there needs its operands there. A value
// there whose op is not is saved: the edge from op to value is cut.
//
//   source -> op          work       of computing the op again
//   source -> argument    its bytes  a carried value can only be saved
//   op -> its result      its bytes
//   operand -> op         never cut
//   needed value -> sink  never cut
//
// What frozen parameters alone make (a weight, of its codes) is the same in
// every step and as large as a weight: it is never saved.
//
// Example: q, k, v [2 x 8 x 32] are slices of u [2 x 8 x 96], u = linear(x),
// and the reverse body needs q, k, v. Saving u costs as many bytes as saving
// the three, and it is one stack instead of three: u is saved. If only q is
// needed, u costs three times as much as q: q is saved.
//
//===----------------------------------------------------------------------===//

#include "ChooseSaved.h"

#include "kerf/Dialect/Kerf/Constants.h"
#include "kerf/Recompute/MinCut.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::recompute;

bool recompute::isFreeView(Operation *op) {
  return isView(op, ViewKind::Rename, ViewKind::Part, ViewKind::Turn,
                ViewKind::Repeat);
}

std::optional<int64_t> recompute::viewWork(Operation *op) {
  return isFreeView(op) ? std::optional<int64_t>(0) : std::nullopt;
}

/// Bounds a number so that sums of it fit a `Price`.
static int64_t bounded(double number) {
  return static_cast<int64_t>(std::min(number, 0x1p50));
}

std::optional<int64_t> recompute::cheapWork(Operation *op) {
  if (isFreeView(op))
    return 0;
  auto facts = dyn_cast<CostOpInterface>(op);
  if (!facts)
    return std::nullopt;
  OpCost cost = facts.getCost();
  if (cost.matmuls() > 0)
    return std::nullopt;
  return bounded(cost.vectorFlops);
}

/// Bytes of one iteration's value.
static int64_t sizeBytes(Value value) {
  double bytes = (typeOf(value).getElementTypeBitWidth() + 7) / 8;
  for (int64_t size : typeOf(value).getShape())
    bytes *= static_cast<double>(size);
  return bounded(bytes);
}

namespace {
/// The network of one pair, and the nodes of its values and ops.
class SavingNetwork {
public:
  SavingNetwork(SavedValues &pair, Work work, bool keepCopies) : pair(pair) {
    network.source = network.addNode();
    network.sink = network.addNode();
    for (Value arg : pair.forward().getCarryArgs())
      addSaving(network.source, arg, savingPrice(arg));
    Block &body = pair.forward().getBody().front();
    for (Operation &op : body.without_terminator())
      if (op.getNumResults() > 0 && !pair.isFree(op.getResult(0)))
        addOp(op, canCopy(&op) ? work(&op) : std::nullopt,
              (keepCopies && pair.wasCopied(&op) && !isFreeView(&op)) ||
                  isMadeOfFrozen(op.getResult(0)) ||
                  isMadeOfConstants(op.getResult(0)));
    for (Value value : pair.needed())
      if (!pair.isFree(value))
        network.addEdge(nodes.lookup(value), network.sink, kUncuttable);
  }

  /// Values of the cheapest cut.
  llvm::DenseSet<Value> cut() {
    std::vector<bool> available = findMinCut(network);
    llvm::DenseSet<Value> saved;
    for (auto [value, node] : nodes)
      if (available[node] && !available[makers.lookup(value)])
        saved.insert(value);
    return saved;
  }

private:
  Price savingPrice(Value value) {
    return pair.isKept(value) ? Price{} : Price{sizeBytes(value), 0, 1};
  }

  void addSaving(unsigned maker, Value value, Price price) {
    unsigned node = nodes[value] = network.addNode();
    makers[value] = maker;
    network.addEdge(maker, node, price);
  }

  void addOp(Operation &op, std::optional<int64_t> work, bool mustCopy) {
    unsigned node = network.addNode();
    if (!mustCopy)
      network.addEdge(network.source, node,
                      work ? Price{0, *work, 0} : kUncuttable);
    for (Value operand : op.getOperands())
      if (!pair.isFree(operand))
        network.addEdge(nodes.lookup(operand), node, kUncuttable);
    for (Value result : op.getResults())
      addSaving(node, result, mustCopy ? kUncuttable : savingPrice(result));
  }

  SavedValues &pair;
  Network network;
  llvm::DenseMap<Value, unsigned> nodes, makers;
};
} // namespace

llvm::DenseSet<Value> recompute::chooseSaved(SavedValues &pair, Work work,
                                             bool keepCopies) {
  return SavingNetwork(pair, work, keepCopies).cut();
}
