//===- Overlap.cpp - collectives beside computation -----------------------===//
//
// Problem: a rank that waits for a collective computes nothing.
// Idea: see Overlap.h.
// Steps: collectives whose operands are made move up to what makes them; those
// that would end the one before at once change places with it; sums of sums
// move down; then, one after the other, each starts behind the wait of the one
// before and is waited for before its first reader.
//
//===----------------------------------------------------------------------===//

#include "kerf/Kernels/Overlap.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"

#include <algorithm>
#include <cassert>

using namespace kerf::kernels::overlap;

namespace {
bool isAddress(const Op &op) {
  return op.role == Role::Rename || op.role == Role::Part;
}
bool isFree(const Op &op) {
  return isAddress(op) || op.role == Role::Free || op.role == Role::Wait ||
         op.role == Role::Parameter;
}
bool isBorder(const Op &op) {
  return op.role == Role::Fixed || op.role == Role::Collective;
}
/// Stores and addresses, which can as well come later.
bool canWait(const Op &op) { return op.role == Role::Store || isAddress(op); }
/// A collective that is to be started.
bool isOpen(const Op &op) {
  return op.role == Role::Collective && !op.isStarted;
}
/// True where the op stores to a buffer that `later` reads or writes.
bool storesFor(const Op &op, const Op &later) {
  return op.stores >= 0 && llvm::is_contained(later.buffers, op.stores);
}
/// True where the op changes what `maker` stands for, a read of memory.
bool overwrites(const Op &op, const Op &maker) {
  return maker.role == Role::Parameter || maker.readsParameter
             ? op.changesParameters
             : maker.loads >= 0 && op.stores == maker.loads;
}

class Overlap {
public:
  explicit Overlap(const std::vector<Op> &given) : ops(given) {
    writesParameters =
        llvm::any_of(ops, [](const Op &op) { return op.changesParameters; });
    for (auto [i, op] : llvm::enumerate(ops)) {
      order.push_back(static_cast<int>(i));
      for (int tensor : op.writes)
        makers[tensor] = static_cast<int>(i);
      for (int tensor : llvm::concat<const int>(op.reads, op.writes))
        tensors = std::max(tensors, tensor + 1);
    }
    at = order;
  }

  std::vector<Place> run();

private:
  /// The given ops, then waits.
  std::vector<Op> ops;
  std::vector<int> waitsFor;       ///< of each wait
  std::vector<int> order;          ///< ops as they run
  std::vector<int> at;             ///< place of each op in that
  llvm::DenseMap<int, int> makers; ///< of tensors
  int tensors = 0;                 ///< their count
  bool writesParameters;
  /// The last op that the next collective comes after; -1: none.
  int border = -1;

  using Chain = llvm::SmallVector<int, 4>;
  /// What is read at the result of a collective, and up to where nothing is.
  struct Reach {
    int stop = -1;                   ///< the first op that cannot come before
    llvm::SmallVector<int, 4> moved; ///< stores and views that can come later
    bool computes = false;           ///< something is computed up to there
  };

  void number(size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      at[order[i]] = static_cast<int>(i);
  }
  /// Moves an op to a place; those between move by one.
  void moveTo(int op, int place) {
    int from = at[op];
    auto begin = order.begin();
    if (place <= from)
      std::rotate(begin + place, begin + from, begin + from + 1);
    else
      std::rotate(begin + from, begin + from + 1, begin + place + 1);
    number(std::min(from, place), std::max(from, place) + 1);
  }
  void moveAfter(int op, int other) {
    moveTo(op, at[op] < at[other] ? at[other] : at[other] + 1);
  }

  int makerOf(int tensor) const {
    auto maker = makers.find(tensor);
    return maker == makers.end() ? -1 : maker->second;
  }
  Chain chainOf(int collective) const;
  int lastNeeded(const Chain &chain) const;
  int sourceOf(int collective) const;
  bool replacesRead(int tensor) const;
  void startEarly(int collective);
  Reach readLate(int collective) const;
  int waitFor(int collective) const;
  int addWait(int collective, int place);
  /// Of an op, or the end.
  int placeOf(int op) const {
    return op < 0 ? static_cast<int>(order.size()) : at[op];
  }
  int waitLate(int collective);
  void makeRoom(int sum, int gather);
  bool followsScatter(int collective) const;
  void sink(int collective);
  std::vector<int> borders() const;
};

/// The collective, and the views and the parameter that it reads.
Overlap::Chain Overlap::chainOf(int collective) const {
  Chain chain = {collective};
  for (int op = collective; !ops[op].reads.empty();) {
    op = makerOf(ops[op].reads[0]);
    bool moves =
        op >= 0 && (isAddress(ops[op]) ||
                    (ops[op].role == Role::Parameter && !writesParameters));
    if (!moves)
      break;
    chain.push_back(op);
  }
  return chain;
}

/// The last op that a chain needs; -1: all is there from the start.
int Overlap::lastNeeded(const Chain &chain) const {
  int last = -1;
  for (int op : chain)
    for (int tensor : ops[op].reads) {
      int maker = makerOf(tensor);
      if (maker >= 0 && !llvm::is_contained(chain, maker) &&
          (last < 0 || at[last] < at[maker]))
        last = maker;
    }
  return last;
}

/// Is the result stored to a buffer that others read? It may then be made in
/// that buffer, and must not be before.
bool Overlap::replacesRead(int tensor) const {
  return llvm::any_of(ops, [&](const Op &user) {
    if (!llvm::is_contained(user.reads, tensor))
      return false;
    if (user.role == Role::Rename || user.role == Role::Wait)
      return replacesRead(user.writes[0]);
    return user.stores >= 0 && llvm::any_of(ops, [&](const Op &op) {
             return op.loads == user.stores;
           });
  });
}

/// Moves the collective with its chain up to what makes its operand, or to the
/// border.
void Overlap::startEarly(int collective) {
  if (replacesRead(ops[collective].writes[0]))
    return;
  Chain chain = chainOf(collective);
  int after = lastNeeded(chain);
  if (after < 0 || (border >= 0 && at[after] < at[border]))
    after = border;
  for (int op : chain) {
    if (after < 0)
      moveTo(op, 0);
    else if (at[after] < at[op])
      moveAfter(op, after);
  }
}

/// What makes the operand of a collective, behind addresses; -1: nothing does.
int Overlap::sourceOf(int collective) const {
  if (ops[collective].reads.empty())
    return -1;
  int source = makerOf(ops[collective].reads[0]);
  while (source >= 0 && isAddress(ops[source]))
    source = makerOf(ops[source].reads[0]);
  return source;
}

Overlap::Reach Overlap::readLate(int collective) const {
  llvm::SmallSet<int, 4> late;
  late.insert(ops[collective].writes[0]);
  int source = sourceOf(collective);
  const Op &from = ops[source >= 0 ? source : collective];
  Reach reach;
  for (size_t i = at[collective] + 1; i < order.size(); ++i) {
    const Op &op = ops[order[i]];
    bool reads = llvm::any_of(
        op.reads, [&](int tensor) { return late.contains(tensor); });
    bool isTouched = llvm::any_of(
        reach.moved, [&](int moved) { return storesFor(ops[moved], op); });
    if (isBorder(op) || isTouched || overwrites(op, from) ||
        (reads && !canWait(op))) {
      reach.stop = order[i];
      break;
    }
    if (!reads) {
      reach.computes |= !isFree(op);
      continue;
    }
    reach.moved.push_back(order[i]);
    late.insert(op.writes.begin(), op.writes.end());
  }
  return reach;
}

/// The wait for a collective that was started.
int Overlap::waitFor(int collective) const {
  int result = ops[collective].writes[0];
  auto wait = llvm::find_if(ops, [result](const Op &op) {
    return op.role == Role::Wait && op.reads[0] == result;
  });
  assert(wait != ops.end() && "a collective that was started has a wait");
  return static_cast<int>(wait - ops.begin());
}

/// A wait at `place`, of whose result others read from now on.
int Overlap::addWait(int collective, int place) {
  int result = ops[collective].writes[0], waited = tensors++;
  for (Op &op : ops)
    llvm::replace(op.reads, result, waited);
  Op wait = {Role::Wait, {result}, {waited}};
  wait.reads.append(ops[collective].reads);
  int index = static_cast<int>(ops.size());
  ops.push_back(std::move(wait));
  waitsFor.push_back(collective);
  makers[waited] = index;
  ops[collective].isStarted = true;
  at.push_back(static_cast<int>(order.size()));
  order.push_back(index);
  moveTo(index, place);
  return index;
}

/// Puts a wait where the result is read first, or before the next border.
/// Returns the op that the next collective comes after.
int Overlap::waitLate(int collective) {
  Reach reach = readLate(collective);
  if (!reach.computes)
    return collective;
  int wait = addWait(collective, placeOf(reach.stop));
  for (int op : reach.moved)
    moveTo(op, placeOf(reach.stop) - 1);
  return wait;
}

/// Moves a collective whose operand was there from the start, and which comes
/// at once after a sum, before what makes the operand of the sum.
void Overlap::makeRoom(int sum, int gather) {
  int maker = lastNeeded(chainOf(sum));
  Chain chain = chainOf(gather);
  if (maker < 0 || isBorder(ops[maker]) || isFree(ops[maker]) ||
      lastNeeded(chain) >= 0)
    return;
  for (int i = at[sum] + 1; order[i] != gather; ++i)
    if (!isFree(ops[order[i]]))
      return;
  for (int op : llvm::reverse(chain))
    if (at[maker] < at[op])
      moveTo(op, at[maker]);
}

/// True for a collective of the parts that another one of the block leaves,
/// which moves more and could run beside something.
bool Overlap::followsScatter(int collective) const {
  int maker = lastNeeded(chainOf(collective));
  return maker >= 0 && ops[maker].scatters && isOpen(ops[maker]);
}

/// Moves a collective and what stores its result down to where that is read.
void Overlap::sink(int collective) {
  Reach reach = readLate(collective);
  if (!reach.computes)
    return;
  moveTo(collective, placeOf(reach.stop) - 1);
  for (int op : reach.moved)
    moveTo(op, placeOf(reach.stop) - 1);
}

std::vector<int> Overlap::borders() const {
  std::vector<int> found;
  for (int op : order)
    if (isBorder(ops[op]))
      found.push_back(op);
  return found;
}

std::vector<Place> Overlap::run() {
  // In the order in which operands are made. What is there from the start keeps
  // its place for now: nobody needs it yet.
  for (int op : borders()) {
    if (ops[op].role == Role::Fixed)
      border = op;
    else if (isOpen(ops[op]) && lastNeeded(chainOf(op)) >= 0)
      startEarly(op);
  }
  std::vector<int> all = borders();
  for (auto [sum, next] : llvm::zip(all, llvm::drop_begin(all)))
    if (isOpen(ops[sum]) && isOpen(ops[next]))
      makeRoom(sum, next);
  llvm::SmallSet<int, 4> sunk;
  for (int op : borders())
    if (isOpen(ops[op]) && followsScatter(op)) {
      sink(op);
      sunk.insert(op);
    }
  border = -1;
  for (int op : borders()) {
    if (ops[op].role == Role::Fixed) {
      border = op;
    } else if (ops[op].isStarted) {
      border = waitFor(op);
    } else {
      if (!sunk.contains(op))
        startEarly(op);
      border = waitLate(op);
    }
  }
  std::vector<Place> places;
  int given = static_cast<int>(ops.size() - waitsFor.size());
  for (int op : order)
    places.push_back(op < given ? Place{op}
                                : Place{waitsFor[op - given], true});
  return places;
}
} // namespace

std::vector<Place>
kerf::kernels::overlap::overlapCollectives(const std::vector<Op> &ops) {
  return Overlap(ops).run();
}
