//===- Tails.cpp - what is summed over layers behind them -----------------===//
//
// A loss over the routers of all layers, or another sum of one number a layer,
// is written behind the layers and reads each of them, so that no loop could
// give its values. Written at the end of each layer, it is a sum that layers
// hand on.
//
//===----------------------------------------------------------------------===//

#include "Layers.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace kerf;
using namespace mlir;

static bool isSameKind(Operation *a, Operation *b) {
  return a->getName() == b->getName() &&
         a->getResultTypes() == b->getResultTypes() &&
         a->getNumOperands() == b->getNumOperands();
}

namespace {

class Tails {
public:
  Tails(Block &block, const Stack &stack)
      : block(block), program(block), layers(findLayers(program, stack)),
        last(static_cast<int64_t>(layers.ranges.size()) - 1) {}

  void gather() {
    if (last < 1)
      return;
    find();
    if (llvm::all_of(tails, [](const auto &tail) { return tail.empty(); }) ||
        !findLast())
      return;
    beginSum();
    move();
  }

private:
  using Ops = std::vector<Operation *>;

  int64_t layerAt(int64_t place) const {
    for (auto [layer, range] : llvm::enumerate(layers.ranges))
      if (place < range.end)
        return place < range.start ? -1 : static_cast<int64_t>(layer);
    return last;
  }

  /// The layer that a value is made in or moves to, `last` for what follows
  /// them all; -1 before them and for leaves.
  int64_t layerOf(Value value) const {
    int64_t place = program.place(value);
    if (place < 0)
      return -1;
    auto it = moved.find(value.getDefiningOp());
    return it == moved.end() ? layerAt(place) : it->second;
  }

  /// What stands behind all layers and reads one before the last.
  void find() {
    tails.resize(last + 1);
    int64_t size = program.ops.size();
    for (int64_t place = layers.ranges.back().end; place < size; ++place) {
      Operation *op = program.ops[place];
      int64_t layer = -1;
      for (Value operand : op->getOperands())
        layer = std::max(layer, layerOf(operand));
      if (layer >= 0 && layer < last && isPure(op))
        put(op, layer);
    }
  }

  void put(Operation *op, int64_t layer) {
    moved[op] = layer;
    tails[layer].push_back(op);
  }

  /// Finds what reads the last layer as the tail of a layer that is alike reads
  /// that one.
  bool findLast() {
    for (int64_t period = 1; period <= std::min(kLongestPeriod, last);
         ++period) {
      int64_t like = last - period;
      if (!isLikeLast(like))
        continue;
      Ops found;
      later.clear();
      if (llvm::all_of(tails[like], [&](Operation *op) {
            found.push_back(laterOf(op, like));
            if (found.back())
              later[op] = found.back();
            return found.back() != nullptr;
          })) {
        for (Operation *op : found)
          put(op, last);
        lastSize = layers.ranges[like].size();
        return true;
      }
    }
    return false;
  }

  bool isLikeLast(int64_t like) const {
    int64_t a = layers.ranges[like].start, b = layers.ranges[last].start;
    int64_t count = layers.ranges[like].size();
    if (b + count > static_cast<int64_t>(program.ops.size()))
      return false;
    for (int64_t i = 0; i < count; ++i)
      if (!isSameKind(program.ops[a + i], program.ops[b + i]))
        return false;
    return true;
  }

  /// The value of the last layer that is this one of layer `like`; null where
  /// it is of another layer, or a leaf.
  Value lastOf(Value value, int64_t like) const {
    if (layerOf(value) != like)
      return {};
    Operation *op = value.getDefiningOp();
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (auto it = later.find(op); it != later.end())
      return it->second->getResult(number);
    int64_t place = program.place(value) - layers.ranges[like].start +
                    layers.ranges[last].start;
    return program.ops[place]->getResult(number);
  }

  /// The op behind the layers that reads of the last one what `op` reads of
  /// layer `like`; null for none. Loops compare them again.
  Operation *laterOf(Operation *op, int64_t like) const {
    for (Value operand : op->getOperands()) {
      Value value = lastOf(operand, like);
      if (!value)
        continue;
      for (Operation *user : value.getUsers())
        if (isSameKind(op, user) && isLater(op, user, like))
          return user;
      return nullptr;
    }
    return nullptr;
  }

  bool isLater(Operation *op, Operation *candidate, int64_t like) const {
    if (program.placeOf.lookup(candidate) < layers.ranges.back().end ||
        op->getAttrDictionary() != candidate->getAttrDictionary())
      return false;
    for (auto [a, b] : llvm::zip(op->getOperands(), candidate->getOperands())) {
      Value value = lastOf(a, like);
      if (value ? value != b : a != b && !isFromBefore(a, b, like))
        return false;
    }
    return true;
  }

  /// Sums that earlier layers hand on, or constants alike.
  bool isFromBefore(Value a, Value b, int64_t like) const {
    Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
    if (x && y && isLeaf(x) && isLeaf(y))
      return isSameKind(x, y) &&
             x->getAttrDictionary() == y->getAttrDictionary();
    return layerOf(a) < like && layerOf(b) >= 0 && layerOf(b) < last;
  }

  /// A sum of the first two layers becomes one of 0 and the first, and of that
  /// and the second.
  void beginSum() {
    if (last < 2) // one sum, which is the last layer's
      return;
    for (size_t i = 0; i < tails[1].size(); ++i) {
      auto add = dyn_cast<AddOp>(tails[1][i]);
      if (!add)
        continue;
      for (unsigned n : {0, 1}) {
        Value first = add->getOperand(n), second = add->getOperand(1 - n);
        if (i > tails[0].size() || layerOf(first) != 0 ||
            !isCounterpart(first, second))
          continue;
        OpBuilder builder(program.ops[layers.ranges[1].start]);
        PlainBuilder p{builder, add.getLoc()};
        Value zero = p.constant(first.getType(), 0);
        Value sum = n == 0 ? p.add(zero, first) : p.add(first, zero);
        zero.getDefiningOp()->moveBefore(&block, block.begin());
        tails[0].insert(tails[0].begin() + i, sum.getDefiningOp());
        add->setOperand(n, sum);
        break;
      }
    }
  }

  /// True where `second` is in layer 1 what `first` is in layer 0.
  bool isCounterpart(Value first, Value second) const {
    Operation *x = first.getDefiningOp(), *y = second.getDefiningOp();
    if (first == second)
      return true;
    if (!x || !y || !isSameKind(x, y) ||
        cast<OpResult>(first).getResultNumber() !=
            cast<OpResult>(second).getResultNumber())
      return false;
    if (isLeaf(x) || (moved.contains(x) && moved.contains(y)))
      return x->getAttrDictionary() == y->getAttrDictionary() &&
             llvm::all_of(
                 llvm::zip(x->getOperands(), y->getOperands()), [&](auto pair) {
                   return isCounterpart(std::get<0>(pair), std::get<1>(pair));
                 });
    return layerOf(first) == 0 && layerOf(second) == 1 &&
           program.place(first) - layers.ranges[0].start ==
               program.place(second) - layers.ranges[1].start;
  }

  void move() {
    for (int64_t layer = 0; layer <= last; ++layer) {
      int64_t end = layer < last ? layers.ranges[layer + 1].start
                                 : layers.ranges[last].start + lastSize;
      Operation *before = program.ops[end - 1];
      for (Operation *op : tails[layer]) {
        op->moveAfter(before);
        before = op;
      }
    }
  }

  Block &block;
  Program program;
  Layers layers;
  int64_t last;
  int64_t lastSize = 0;   ///< ops of the last layer itself
  std::vector<Ops> tails; ///< by layer
  llvm::DenseMap<Operation *, int64_t> moved;
  llvm::DenseMap<Operation *, Operation *> later;
};

} // namespace

void kerf::gatherTails(Block &block, const Stack &stack) {
  Tails(block, stack).gather();
}
