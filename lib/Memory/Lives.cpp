//===- Lives.cpp - when buffers hold something ----------------------------===//
//
// Problem: a schedule has a call for every micro-batch and function; the lives
// of all buffers over all calls would be long lists, of which placement needs
// only who is alive together with whom.
// Idea: a call is described by its function and by the commands at which each
// buffer is alive during it. A call with the description of an earlier one adds
// nothing: whatever overlaps in it overlapped there. Whether the schedule is
// 1F1B, interleaved or zero-bubble does not matter.
// Steps: lives on the whole time line; split at the calls; drop calls whose
// pieces were seen; join the rest on the shorter time line. Cost: calls times
// buffers that outlive a call.
//
//   F0 F1 B0 F2 B1 F3 B2 F4 B3 B4: in F1 and all later F the buffer of F0, B0
//   is alive all along, for the micro-batch before; in B0 to B3 for the one
//   after. F0 F1 B0 B4 take time.
//
//===----------------------------------------------------------------------===//

#include "kerf/Memory/Lives.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <set>

using namespace kerf;

using Intervals = llvm::SmallVector<LifeInterval>;

/// Joins intervals that touch.
static Intervals normalize(Intervals lives) {
  llvm::sort(lives);
  Intervals joined;
  for (LifeInterval life : lives) {
    if (!joined.empty() && life.first <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, life.second);
    else
      joined.push_back(life);
  }
  return joined;
}

namespace {
/// A buffer that is alive in commands [first, last] of a call.
using Piece = LifeProblem::Use;

/// The calls of a problem on one time line.
struct TimeLine {
  const LifeProblem &problem;
  std::vector<int64_t> starts; ///< of each call, and the end
  /// First and last use of each buffer that outlives calls, per schedule and
  /// micro-batch (-1: all of them).
  using Key = std::pair<unsigned, int64_t>;
  std::vector<std::map<Key, LifeInterval>> spans;

  explicit TimeLine(const LifeProblem &problem);
  Intervals livesOf(unsigned buffer) const;
  /// Pieces of the buffers that outlive calls, per call, by buffer.
  std::vector<std::vector<Piece>> split() const;
};
} // namespace

static int64_t lengthOf(const LifeProblem::Func &func) {
  return std::max<int64_t>(1, func.commands);
}

TimeLine::TimeLine(const LifeProblem &problem)
    : problem(problem), spans(problem.buffers.size()) {
  int64_t now = 0;
  for (const LifeProblem::Call &call : problem.calls) {
    const LifeProblem::Func &func = problem.funcs[call.func];
    for (const LifeProblem::Use &use : func.uses) {
      LifeScope scope = problem.buffers[use.buffer];
      if (scope == LifeScope::Call)
        continue;
      Key key = {call.schedule, scope == LifeScope::Step ? -1 : call.micro};
      LifeInterval life = {now + use.first, now + use.last};
      auto [at, isNew] = spans[use.buffer].insert({key, life});
      if (!isNew) // Calls come in order of time.
        at->second.second = life.second;
    }
    starts.push_back(now);
    now += lengthOf(func);
  }
  starts.push_back(now);
}

Intervals TimeLine::livesOf(unsigned buffer) const {
  Intervals lives;
  for (auto &[key, life] : spans[buffer])
    lives.push_back(life);
  return normalize(lives);
}

std::vector<std::vector<Piece>> TimeLine::split() const {
  std::vector<std::vector<Piece>> pieces(problem.calls.size());
  for (unsigned buffer = 0; buffer < problem.buffers.size(); ++buffer)
    for (auto [first, last] : livesOf(buffer)) {
      size_t call = llvm::upper_bound(starts, first) - starts.begin() - 1;
      for (; call < pieces.size() && starts[call] <= last; ++call) {
        int64_t start = starts[call], end = starts[call + 1] - 1;
        pieces[call].push_back({buffer, std::max(first, start) - start,
                                std::min(last, end) - start});
      }
    }
  return pieces;
}

/// What tells calls apart: the function and what is alive when.
static std::vector<int64_t> describe(unsigned func,
                                     llvm::ArrayRef<Piece> pieces) {
  std::vector<int64_t> text = {func};
  for (const Piece &piece : pieces)
    text.insert(text.end(), {piece.buffer, piece.first, piece.last});
  return text;
}

std::vector<Intervals> kerf::findLives(const LifeProblem &problem) {
  std::vector<std::vector<Piece>> pieces = TimeLine(problem).split();
  std::vector<Intervals> lives(problem.buffers.size());
  std::set<std::vector<int64_t>> seen;
  int64_t now = 0;
  for (auto [i, call] : llvm::enumerate(problem.calls)) {
    if (!seen.insert(describe(call.func, pieces[i])).second)
      continue;
    const LifeProblem::Func &func = problem.funcs[call.func];
    auto live = [&](const Piece &piece) {
      lives[piece.buffer].push_back({now + piece.first, now + piece.last});
    };
    llvm::for_each(pieces[i], live);
    for (const LifeProblem::Use &use : func.uses)
      if (problem.buffers[use.buffer] == LifeScope::Call)
        live(use);
    now += lengthOf(func);
  }
  for (Intervals &all : lives)
    all = normalize(std::move(all));
  return lives;
}

std::optional<Crowd> kerf::findCrowd(const LifeProblem &problem,
                                     llvm::ArrayRef<int64_t> copies) {
  TimeLine line(problem);
  for (unsigned buffer = 0; buffer < problem.buffers.size(); ++buffer) {
    if (problem.buffers[buffer] != LifeScope::MicroBatch)
      continue;
    // Life and micro-batch, by copy.
    std::map<int64_t, std::vector<std::pair<LifeInterval, int64_t>>> users;
    for (auto &[key, life] : line.spans[buffer])
      users[key.second % copies[buffer]].push_back({life, key.second});
    for (auto &[copy, lives] : users) {
      llvm::sort(lives);
      for (size_t i = 1; i < lives.size(); ++i)
        if (lives[i].first.first <= lives[i - 1].first.second)
          return Crowd{buffer, lives[i - 1].second, lives[i].second};
    }
  }
  return std::nullopt;
}
