//===- Place.cpp - Best-fit in several orders, then local search ----------===//
//
// Problem. Buffers are rectangles: as wide as their life, as high as their
// size. They may move up and down only. Make the pile low. With lives of
// several intervals a rectangle falls into pieces that stay at one height.
//
// Idea. A packer takes buffers one by one and gives each the lowest (or the
// tightest) gap among those that are already placed and alive at some time
// with it. For some order the lowest gaps give an optimal placement: that of
// the offsets in one. So the search is over orders, and a placement is always
// valid, whatever the order.
//
// Steps.
//  1. Fixed buffers are obstacles. Without any, buffers that live always go to
//     the bottom.
//  2. Pack in a few orders: by area, by size, by length of life, by the live
//     bytes around the buffer, by start. Keep the best.
//  3. Repeat: move the buffers that stick out above the bound towards the front
//     of the order, and now and then swap two at random; pack; keep the new
//     order unless it is worse. (Squeaky wheel optimization: Joslin, Clements,
//     JAIR 1999. Steps counted, so the result depends on nothing but the
//     problem.)
//  4. Do that `numClimbs` times from the best order of step 2: one climb may
//     end where nothing leads lower.
//
// Cost. One pack is n^2 / 2 looks at a bit at most; the search ends at the
// bound, or after `maxLooks` looks or `maxPacks` packs.
//
// Example. align 1, a: 2 bytes at 0-1, b: 1 byte at 1-2, c: 2 bytes at 2-3. By
// start: a at 0, b at 2, c at 0 (a is dead by then): 3 bytes, which is the
// bound at time 1. In the order b, a, c: b at 0, a and c at 1: 3 bytes too.
//
//===----------------------------------------------------------------------===//

#include "kerf/Memory/Place.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <random>

using namespace kerf;
using Buffer = PlaceProblem::Buffer;

namespace {

constexpr int64_t maxLooks = 200'000'000;
constexpr int64_t maxPacks = 10'000;
constexpr int64_t numClimbs = 4;

/// Buffers by index, in the order in which they are packed.
using Order = std::vector<unsigned>;

/// How high a pile is: first its size, then the bytes above the bound, summed
/// over buffers: it tells whether a pile of the same size is closer to a lower
/// one.
using Height = std::pair<int64_t, int64_t>;

enum class Fit { Lowest, Tightest };

/// The problem with compressed times and pairs of buffers alive together.
struct Conflicts {
  explicit Conflicts(const PlaceProblem &problem);

  /// Row i, bit j: i and j are alive together and both have bytes.
  std::vector<llvm::BitVector> rows;
  std::vector<int64_t> sizes;
  /// Sum over the lives, in compressed times (numbers of different starts).
  std::vector<int64_t> lengths;
  std::vector<int64_t> starts;
  /// The largest number of live bytes while the buffer is alive.
  std::vector<int64_t> crowds;
  int64_t numTimes = 0;
};

/// Packs buffers of one problem. Counts the looks.
class Packer {
public:
  Packer(const PlaceProblem &problem, const Conflicts &conflicts,
         int64_t bound);

  /// Buffers that are left to pack.
  Order movable;
  std::vector<int64_t> offsets;
  int64_t looks = 0;
  int64_t bound;

  /// Gives all of `order` an offset, in this order.
  Height pack(const Order &order, Fit fit);
  int64_t end(unsigned index) const {
    return offsets[index] + conflicts.sizes[index];
  }

private:
  int64_t findGap(unsigned index, Fit fit);
  void put(unsigned index, int64_t offset);

  const Conflicts &conflicts;
  /// What `pack` starts from: fixed buffers and those that live always.
  Order settled;
  /// Placed buffers by offset.
  Order placed;
};

} // namespace

//===----------------------------------------------------------------------===//
// Conflicts
//===----------------------------------------------------------------------===//

Conflicts::Conflicts(const PlaceProblem &problem) {
  // Between two starts nothing new becomes alive: starts are all times needed.
  std::vector<int64_t> times;
  for (const Buffer &buffer : problem.buffers)
    for (auto [first, last] : buffer.lives)
      times.push_back(first);
  llvm::sort(times);
  times.erase(llvm::unique(times), times.end());
  numTimes = times.size();

  struct Life {
    int64_t first, last;
    unsigned buffer;
  };
  std::vector<Life> lives;
  unsigned numBuffers = problem.buffers.size();
  lengths.resize(numBuffers);
  for (auto [index, buffer] : llvm::enumerate(problem.buffers)) {
    sizes.push_back(placedBytes(problem, buffer.sizeBytes));
    for (auto [first, last] : buffer.lives) {
      int64_t from = llvm::lower_bound(times, first) - times.begin();
      int64_t to = llvm::upper_bound(times, last) - times.begin() - 1;
      lives.push_back({from, to, unsigned(index)});
      lengths[index] += to - from + 1;
    }
    starts.push_back(buffer.lives.front().first);
  }
  llvm::sort(lives, [](const Life &a, const Life &b) {
    return std::tie(a.first, a.buffer) < std::tie(b.first, b.buffer);
  });

  // Sweep over the starts; `ends[t]` are the buffers whose life ends at t.
  rows.assign(numBuffers, llvm::BitVector(numBuffers));
  std::vector<std::vector<unsigned>> ends(numTimes);
  std::vector<int64_t> liveBytes(numTimes);
  llvm::BitVector live(numBuffers);
  int64_t bytes = 0, time = 0;
  for (const Life &life : lives) {
    for (; time < life.first; ++time)
      for (unsigned ended : ends[time]) {
        live.reset(ended);
        bytes -= sizes[ended];
      }
    ends[life.last].push_back(life.buffer);
    if (sizes[life.buffer] > 0) {
      rows[life.buffer] |= live;
      live.set(life.buffer);
    }
    bytes += sizes[life.buffer];
    liveBytes[life.first] = bytes;
  }
  for (unsigned i = 0; i < numBuffers; ++i)
    for (unsigned j : rows[i].set_bits())
      rows[j].set(i);

  crowds.resize(numBuffers);
  for (const Life &life : lives)
    for (int64_t at = life.first; at <= life.last; ++at)
      crowds[life.buffer] = std::max(crowds[life.buffer], liveBytes[at]);
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

Packer::Packer(const PlaceProblem &problem, const Conflicts &conflicts,
               int64_t bound)
    : bound(bound), conflicts(conflicts) {
  offsets.assign(problem.buffers.size(), 0);
  // Around a fixed buffer, the bottom may be the wrong place for others.
  bool anyFixed = llvm::any_of(problem.buffers, [](const Buffer &buffer) {
    return buffer.fixedOffset != -1;
  });
  Order always;
  for (auto [index, buffer] : llvm::enumerate(problem.buffers)) {
    if (buffer.fixedOffset != -1)
      offsets[index] = buffer.fixedOffset;
    if (conflicts.sizes[index] == 0)
      continue;
    if (buffer.fixedOffset != -1)
      put(index, buffer.fixedOffset);
    else if (!anyFixed && conflicts.lengths[index] == conflicts.numTimes)
      always.push_back(index);
    else
      movable.push_back(index);
  }
  for (unsigned index : always)
    put(index, findGap(index, Fit::Lowest));
  settled = placed;
}

int64_t Packer::findGap(unsigned index, Fit fit) {
  const llvm::BitVector &row = conflicts.rows[index];
  int64_t size = conflicts.sizes[index];
  int64_t top = 0, best = -1, bestGap = INT64_MAX;
  for (unsigned other : placed) {
    ++looks;
    if (!row.test(other))
      continue;
    int64_t gap = offsets[other] - top;
    if (gap >= size && gap < bestGap) {
      best = top;
      bestGap = gap;
      if (fit == Fit::Lowest || gap == size)
        break;
    }
    top = std::max(top, end(other));
  }
  return best == -1 ? top : best;
}

void Packer::put(unsigned index, int64_t offset) {
  offsets[index] = offset;
  auto above = llvm::upper_bound(
      placed, offset, [&](int64_t at, unsigned i) { return at < offsets[i]; });
  placed.insert(above, index);
}

Height Packer::pack(const Order &order, Fit fit) {
  placed = settled;
  Height height = {bound, 0};
  for (unsigned index : settled)
    height.first = std::max(height.first, end(index));
  for (unsigned index : order) {
    put(index, findGap(index, fit));
    height.first = std::max(height.first, end(index));
    height.second += std::max<int64_t>(0, end(index) - bound);
  }
  return height;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

/// Orders to start from; ties are in the order of the problem.
static std::vector<Order> initialOrders(const Order &movable,
                                        const Conflicts &conflicts) {
  auto largestFirst = [&](auto key) {
    Order order = movable;
    llvm::sort(order, [&](unsigned a, unsigned b) {
      auto keyA = key(a), keyB = key(b);
      return keyA != keyB ? keyA > keyB : a < b;
    });
    return order;
  };
  using Key = std::pair<int64_t, int64_t>;
  const Conflicts &c = conflicts;
  return {
      largestFirst(
          [&](unsigned i) { return double(c.sizes[i]) * c.lengths[i]; }),
      largestFirst([&](unsigned i) { return Key(c.sizes[i], c.lengths[i]); }),
      largestFirst([&](unsigned i) { return Key(c.lengths[i], c.sizes[i]); }),
      largestFirst([&](unsigned i) { return Key(c.crowds[i], c.sizes[i]); }),
      largestFirst([&](unsigned i) { return Key(c.crowds[i], c.lengths[i]); }),
      largestFirst([&](unsigned i) { return Key(-c.starts[i], c.sizes[i]); }),
  };
}

namespace {

/// The best order so far, and what it led to.
struct State {
  Order order;
  Fit fit;
  Height height;
  std::vector<int64_t> offsets;
};

} // namespace

/// A number from 0 to `limit - 1`. Not the library's distribution, whose
/// results are not the same everywhere.
static size_t draw(std::mt19937_64 &random, size_t limit) {
  return random() % limit;
}

/// A new order: buffers above the bound move towards the front, each by a
/// random share of its way; sometimes two random buffers change places.
static Order disturb(const State &state, const Packer &packer,
                     std::mt19937_64 &random) {
  Order order = state.order;
  for (size_t at = 1; at < order.size(); ++at) {
    unsigned index = order[at];
    int64_t end =
        state.offsets[index] + packer.end(index) - packer.offsets[index];
    if (end <= packer.bound || draw(random, 2) == 0)
      continue;
    size_t to = draw(random, at);
    std::rotate(order.begin() + to, order.begin() + at, order.begin() + at + 1);
  }
  if (draw(random, 2) == 0)
    std::swap(order[draw(random, order.size())],
              order[draw(random, order.size())]);
  return order;
}

static State search(Packer &packer, const Conflicts &conflicts) {
  State lowest = {{}, Fit::Lowest, {INT64_MAX, 0}, {}};
  auto tryOrder = [&](State &best, Order order, Fit fit) {
    Height height = packer.pack(order, fit);
    if (height <= best.height)
      best = {std::move(order), fit, height, packer.offsets};
  };
  for (Order &order : initialOrders(packer.movable, conflicts))
    for (Fit fit : {Fit::Lowest, Fit::Tightest})
      if (lowest.height.first > packer.bound)
        tryOrder(lowest, order, fit);

  const State start = lowest;
  for (int64_t climb = 1; climb <= numClimbs; ++climb) {
    std::mt19937_64 random(climb);
    State best = start;
    for (int64_t pack = 0;
         lowest.height.first > packer.bound && pack < maxPacks / numClimbs &&
         packer.looks < maxLooks / numClimbs * climb;
         ++pack) {
      tryOrder(best, disturb(best, packer, random),
               draw(random, 4) == 0 ? Fit::Tightest : Fit::Lowest);
      if (best.height < lowest.height)
        lowest = best;
    }
  }
  return lowest;
}

Placement kerf::place(const PlaceProblem &problem) {
  [[maybe_unused]] std::string error;
  assert(succeeded(problem.check(error)) && "problem must pass check()");
  Conflicts conflicts(problem);
  Packer packer(problem, conflicts, lowerBound(problem));
  Placement result;
  result.offsets = search(packer, conflicts).offsets;
  for (auto [offset, size] : llvm::zip_equal(result.offsets, conflicts.sizes))
    result.sizeBytes = std::max(result.sizeBytes, offset + size);
  return result;
}
