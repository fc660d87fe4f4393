//===- LayerTogether.cpp - a value that moves over several axes at once ---===//
//
// Problem: tables price one axis, the others as they are when the value is
// made. Where a reader asks several axes for other parts, programs do one
// exchange after the other, each of what the one before has left, or one over
// both axes.
//
// Idea: the steps in the order of `planConversion`: sums outwards in, scattered
// where their axis is the next to shard a dimension, then what moves from one
// dimension to another, then gathers, those of one dimension together where
// its parts lie in the order of the mesh, else the innermost axis first.
//
// Example: rows sharded over experts' ranks inside tensor ranks, needed whole:
// the experts' ranks gather half of them, tensor ranks then all; over context
// ranks and tensor ranks all are gathered at once.
//
//===----------------------------------------------------------------------===//

#include "kerf/Layer/LayerTerms.h"

using namespace kerf;

namespace {
class Together {
public:
  Together(const LayerTerms &terms, const LayerLayout &layout, int value,
           llvm::ArrayRef<AxisMove> given)
      : terms(terms), layout(layout), value(value),
        moves(given.begin(), given.end()) {
    // The outermost axis of the mesh first.
    llvm::sort(moves, [&](const AxisMove &a, const AxisMove &b) {
      return strideOf(a.axis) > strideOf(b.axis);
    });
  }

  llvm::SmallVector<JointExchange, 3> run() {
    reduce();
    take([](const AxisMove &move) {
      return isSplit(move.from) && isSplit(move.to);
    });
    gather();
    return std::move(steps);
  }

private:
  int64_t strideOf(int axis) const {
    return terms.query.key.groups[axis].stride;
  }
  /// The order of the axes that shard a dimension, the outer ones first: of
  /// several index classes in it the outer one's, then by axis
  /// (`PlanWriter::split`).
  static std::pair<int64_t, int> depthOf(AxisState state, int axis) {
    return {splitOuter(state), axis == kInnerContext  ? 0
                               : axis == kInnerTensor ? 1
                                                      : 2};
  }

  /// The bytes of an axis' turn: others have moved already or not yet.
  Moving movingOf(int axis) const {
    Moving what = terms.movingOf(value, layout, axis);
    for (const AxisMove &other : done)
      if (other.axis != axis)
        what.bytes *= terms.heldShare(other.to, other.axis) /
                      terms.heldShare(other.from, other.axis);
    return what;
  }

  void step(llvm::ArrayRef<AxisMove> own) {
    const AxisMove &first = own.front();
    Moving what = movingOf(first.axis);
    for (const AxisMove &other : own.drop_front())
      if (isSplit(other.from))
        what.bytes /= terms.heldShare(other.from, other.axis);
    if (auto exchange =
            terms.convertBy(first.axis, first.from, first.to, what)) {
      JointExchange joint{first.axis, 0, *exchange, 0};
      for (const AxisMove &other : own.drop_front())
        joint.others |= 1U << other.axis;
      joint.sec = terms.secOf(first.axis, joint.others, *exchange);
      steps.push_back(joint);
    }
    done.append(own.begin(), own.end());
  }

  /// Takes the moves of a kind one by one.
  template <typename Is> void take(Is is) {
    for (auto *it = moves.begin(); it != moves.end();)
      if (is(*it)) {
        step({*it});
        it = moves.erase(it);
      } else
        ++it;
  }

  /// True if no axis that has still to move shards the dimension further out.
  bool isNext(const AxisMove &move) const {
    return llvm::none_of(moves, [&](const AxisMove &other) {
      return other.axis != move.axis && isSplit(other.to) &&
             splitDim(other.to) == splitDim(move.to) &&
             depthOf(other.to, other.axis) < depthOf(move.to, move.axis);
    });
  }

  void reduce() {
    auto isSum = [](const AxisMove &move) { return move.from == kPending; };
    for (auto *it = moves.begin(); it != moves.end();)
      if (isSum(*it) && isSplit(it->to) && isNext(*it)) {
        step({*it});
        moves.erase(it);
        it = moves.begin(); // Another axis may come next now.
      } else
        ++it;
    llvm::SmallVector<AxisMove, 3> all;
    llvm::copy_if(moves, std::back_inserter(all), isSum);
    llvm::erase_if(moves, isSum);
    for (AxisMove &move : all)
      move.to = kReplicated; // what is sharded is sharded last, of the whole
    if (!all.empty())
      step(all);
  }

  void gather() {
    while (!moves.empty()) {
      int dim = splitDim(llvm::min_element(moves, [](auto &a, auto &b) {
                           return splitDim(a.from) < splitDim(b.from);
                         })->from);
      llvm::SmallVector<AxisMove, 3> own;
      auto isHere = [&](const AxisMove &move) {
        return splitDim(move.from) == dim;
      };
      llvm::copy_if(moves, std::back_inserter(own), isHere);
      llvm::erase_if(moves, isHere);
      // `moves` are in the order of the mesh: are the shards?
      bool inOrder = llvm::is_sorted(own, [](auto &a, auto &b) {
        return depthOf(a.from, a.axis) < depthOf(b.from, b.axis);
      });
      if (inOrder) {
        step(own);
        continue;
      }
      llvm::sort(own, [](auto &a, auto &b) {
        return depthOf(a.from, a.axis) > depthOf(b.from, b.axis);
      });
      for (const AxisMove &move : own)
        step({move});
    }
  }

  const LayerTerms &terms;
  const LayerLayout &layout;
  int value;
  llvm::SmallVector<AxisMove, 3> moves; ///< still to be made
  llvm::SmallVector<AxisMove, 3> done;
  llvm::SmallVector<JointExchange, 3> steps;
};
} // namespace

llvm::SmallVector<JointExchange, 3>
kerf::moveTogether(const LayerTerms &terms, const LayerLayout &layout,
                   int value, llvm::ArrayRef<AxisMove> moves) {
  return Together(terms, layout, value, moves).run();
}
