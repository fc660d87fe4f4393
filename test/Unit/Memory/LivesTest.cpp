//===- LivesTest.cpp - When buffers hold something ------------------------===//
//
// Lives are found on a time line that leaves out calls; who is alive together,
// and how many bytes, must be as on the whole one, which is walked here command
// by command. The schedules are those of pipelines, and random ones.
//
//===----------------------------------------------------------------------===//

#include "kerf/Memory/Lives.h"

#include "gtest/gtest.h"

#include <functional>
#include <map>
#include <random>
#include <set>

using namespace kerf;
using Call = LifeProblem::Call;

namespace {

/// Functions 2c (forward) and 2c + 1 (backward) of each chunk c; with `weights`
/// 2 * chunks + c is the deferred half of the backward.
struct Pipeline {
  int64_t stages, stage, micros, chunks = 1;
  bool weights = false;
};

/// One chunk: as many forwards ahead as stages follow, then one backward each.
/// Weight gradients, if deferred, follow one micro-batch later, the rest at the
/// end.
std::vector<Call> order1F1B(const Pipeline &p) {
  std::vector<Call> calls;
  int64_t ahead = std::min(p.stages - p.stage - 1, p.micros);
  auto backward = [&](int64_t m) {
    calls.push_back({1, m, 0});
    if (p.weights && m > 0)
      calls.push_back({2, m - 1, 0});
  };
  for (int64_t m = 0; m < ahead; ++m)
    calls.push_back({0, m, 0});
  for (int64_t m = 0; m + ahead < p.micros; ++m) {
    calls.push_back({0, m + ahead, 0});
    backward(m);
  }
  for (int64_t m = p.micros - ahead; m < p.micros; ++m)
    backward(m);
  if (p.weights)
    calls.push_back({2, p.micros - 1, 0});
  return calls;
}

/// Several chunks, in rounds of as many micro-batches as stages (which divide
/// them): a round goes through the chunks, backwards through them from the
/// last.
std::vector<Call> orderInterleaved(const Pipeline &p) {
  std::vector<Call> calls;
  int64_t all = p.micros * p.chunks, round = p.stages * p.chunks;
  auto add = [&](int64_t k, bool forward) {
    int64_t chunk = k % round / p.stages;
    int64_t micro = k / round * p.stages + k % p.stages;
    calls.push_back(
        {unsigned(forward ? 2 * chunk : 2 * (p.chunks - 1 - chunk) + 1), micro,
         0});
  };
  int64_t ahead =
      std::min(all, 2 * (p.stages - p.stage - 1) + (p.chunks - 1) * p.stages);
  for (int64_t k = 0; k < ahead; ++k)
    add(k, true);
  for (int64_t k = ahead; k < all; ++k) {
    add(k, true);
    add(k - ahead, false);
  }
  for (int64_t k = all - ahead; k < all; ++k)
    add(k, false);
  return calls;
}

/// Functions with random uses of buffers: some of their own, some of the
/// chunk's micro-batch, some of the step.
LifeProblem makeProblem(const Pipeline &p, std::mt19937 &random,
                        std::vector<Call> calls) {
  LifeProblem problem;
  problem.calls = std::move(calls);
  auto upTo = [&](int64_t n) { return int64_t(random() % (n + 1)); };
  unsigned kinds = p.weights ? 3 : 2;
  problem.funcs.resize(p.chunks * kinds);
  for (LifeProblem::Func &func : problem.funcs)
    func.commands = 1 + upTo(6);
  auto use = [&](unsigned func, unsigned buffer) {
    int64_t last = problem.funcs[func].commands - 1, a = upTo(last),
            b = upTo(last);
    problem.funcs[func].uses.push_back(
        {buffer, std::min(a, b), std::max(a, b)});
  };
  auto add = [&](LifeScope scope) {
    problem.buffers.push_back(scope);
    return unsigned(problem.buffers.size() - 1);
  };
  for (unsigned f = 0; f < problem.funcs.size(); ++f)
    for (int i = 0; i < 2; ++i)
      use(f, add(LifeScope::Call));
  for (int64_t chunk = 0; chunk < p.chunks; ++chunk)
    for (int i = 0; i < 3; ++i) {
      unsigned buffer = add(LifeScope::MicroBatch);
      use(2 * chunk, buffer);
      use(2 * chunk + 1, buffer);
      if (p.weights && i > 0)
        use(2 * p.chunks + chunk, buffer);
    }
  for (int i = 0; i < 2; ++i) {
    unsigned buffer = add(LifeScope::Step);
    for (unsigned f = 0; f < problem.funcs.size(); ++f)
      if (upTo(1))
        use(f, buffer);
  }
  return problem;
}

/// What is alive at each command of the whole schedule: buffers with their
/// micro-batches (-1: not of one).
std::vector<std::set<std::pair<unsigned, int64_t>>>
walk(const LifeProblem &problem) {
  std::map<std::tuple<unsigned, int64_t, int64_t>, LifeInterval> spans;
  int64_t now = 0;
  for (size_t i = 0; i < problem.calls.size(); ++i) {
    const Call &call = problem.calls[i];
    for (const LifeProblem::Use &use : problem.funcs[call.func].uses) {
      LifeScope scope = problem.buffers[use.buffer];
      int64_t micro = scope == LifeScope::MicroBatch ? call.micro : -1;
      int64_t span = scope == LifeScope::Call ? int64_t(i) : -1;
      auto [at, isNew] = spans.insert(
          {{use.buffer, micro, span}, {now + use.first, now + use.last}});
      at->second.second = now + use.last;
    }
    now += problem.funcs[call.func].commands;
  }
  std::vector<std::set<std::pair<unsigned, int64_t>>> alive(now);
  for (auto &[key, life] : spans)
    for (int64_t t = life.first; t <= life.second; ++t)
      alive[t].insert({std::get<0>(key), std::get<1>(key)});
  return alive;
}

bool contains(llvm::ArrayRef<LifeInterval> lives, int64_t time) {
  return llvm::any_of(lives, [&](LifeInterval life) {
    return life.first <= time && time <= life.second;
  });
}

/// The sets of buffers that are alive at one time, on the whole time line.
std::set<std::set<unsigned>> setsOf(const LifeProblem &problem) {
  std::set<std::set<unsigned>> sets;
  for (auto &alive : walk(problem)) {
    std::set<unsigned> buffers;
    for (auto [buffer, micro] : alive)
      buffers.insert(buffer);
    sets.insert(buffers);
  }
  return sets;
}

/// The same from lives.
std::set<std::set<unsigned>>
setsOf(llvm::ArrayRef<llvm::SmallVector<LifeInterval>> lives, int64_t end) {
  std::set<std::set<unsigned>> sets;
  for (int64_t t = 0; t <= end; ++t) {
    std::set<unsigned> buffers;
    for (unsigned b = 0; b < lives.size(); ++b)
      if (contains(lives[b], t))
        buffers.insert(b);
    sets.insert(buffers);
  }
  return sets;
}

/// First time after all lives.
int64_t endOf(llvm::ArrayRef<llvm::SmallVector<LifeInterval>> lives) {
  int64_t end = 0;
  for (auto &all : lives)
    if (!all.empty())
      end = std::max(end, all.back().second);
  return end;
}

void expectSame(const LifeProblem &problem) {
  auto lives = findLives(problem);
  for (auto &all : lives)
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_LE(all[i].first, all[i].second);
      if (i > 0) {
        EXPECT_GT(all[i].first, all[i - 1].second + 1);
      }
    }
  std::set<std::set<unsigned>> expected = setsOf(problem);
  std::set<std::set<unsigned>> found = setsOf(lives, endOf(lives));
  // Nothing alive constrains nothing.
  expected.erase(std::set<unsigned>());
  found.erase(std::set<unsigned>());
  EXPECT_EQ(expected, found);
}

TEST(LivesTest, PipelinesOverlapAsOnTheWholeTimeLine) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Pipeline p;
    p.stages = 1 + random() % 5;
    p.stage = random() % p.stages;
    p.micros = 1 + random() % 20;
    p.weights = round % 2;
    expectSame(makeProblem(p, random, order1F1B(p)));
    p.chunks = 1 + random() % 3;
    p.micros = p.stages * (1 + random() % 4);
    p.weights = false;
    expectSame(makeProblem(p, random, orderInterleaved(p)));
  }
}

TEST(LivesTest, AnyOrderOverlapsAsOnTheWholeTimeLine) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    Pipeline p{1, 0, int64_t(1 + random() % 6), int64_t(1 + random() % 2)};
    std::vector<Call> calls;
    for (int64_t i = 0, n = 1 + random() % 40; i < n; ++i)
      calls.push_back({unsigned(random() % (2 * p.chunks)),
                       int64_t(random() % p.micros), 0});
    expectSame(makeProblem(p, random, calls));
  }
}

/// Two schedules share no value: their micro-batches are others.
TEST(LivesTest, SchedulesAreApart) {
  LifeProblem problem;
  problem.buffers = {LifeScope::MicroBatch, LifeScope::Step};
  problem.funcs = {{2, {{0, 0, 1}, {1, 1, 1}}}};
  problem.calls = {{0, 0, 0}, {0, 0, 1}};
  // The second call is as the first: it takes no time.
  auto lives = findLives(problem);
  EXPECT_EQ(lives[0], (llvm::SmallVector<LifeInterval>{{0, 1}}));
  EXPECT_EQ(lives[1], (llvm::SmallVector<LifeInterval>{{1, 1}}));
}

/// The time line has the same length for 16 and 400 micro-batches.
TEST(LivesTest, LivesDoNotGrowWithMicroBatches) {
  for (bool weights : {false, true}) {
    Pipeline few{4, 0, 16, 1, weights}, many{4, 0, 400, 1, weights};
    std::mt19937 random(3), same(3);
    EXPECT_EQ(findLives(makeProblem(few, random, order1F1B(few))),
              findLives(makeProblem(many, same, order1F1B(many))));
  }
}

/// 1F1B needs min(m, stages - stage) copies, not one less.
TEST(LivesTest, OneForwardOneBackwardKeepsAsManyAsStagesFollow) {
  for (int64_t micros : {1, 2, 3, 4, 5, 9})
    for (int64_t stage = 0; stage < 4; ++stage) {
      Pipeline p{4, stage, micros};
      LifeProblem problem;
      problem.buffers = {LifeScope::MicroBatch};
      problem.funcs = {{1, {{0, 0, 0}}}, {1, {{0, 0, 0}}}};
      problem.calls = order1F1B(p);
      int64_t copies = std::min(micros, 4 - stage);
      EXPECT_FALSE(findCrowd(problem, {copies})) << micros << " " << stage;
      if (copies > 1)
        EXPECT_TRUE(findCrowd(problem, {copies - 1})) << micros << " " << stage;
    }
}

/// Whether two micro-batches meet in a copy, command by command.
bool isCrowded(const LifeProblem &problem, unsigned buffer, int64_t copies) {
  for (auto &alive : walk(problem)) {
    std::set<int64_t> taken;
    for (auto [b, micro] : alive)
      if (b == buffer && !taken.insert(micro % copies).second)
        return true;
  }
  return false;
}

/// Chunks need numbers of their own: the fewest that are enough for each are
/// found as by walking the schedule.
TEST(LivesTest, CrowdsAreFoundPerBuffer) {
  std::mt19937 random(4);
  int crowds = 0;
  for (int round = 0; round < 60; ++round) {
    Pipeline p;
    p.stages = 2 + random() % 3;
    p.stage = random() % p.stages;
    p.chunks = 2;
    p.micros = p.stages * 3;
    LifeProblem problem = makeProblem(p, random, orderInterleaved(p));
    for (unsigned b = 0; b < problem.buffers.size(); ++b) {
      if (problem.buffers[b] != LifeScope::MicroBatch)
        continue;
      std::vector<int64_t> copies(problem.buffers.size(), p.micros);
      copies[b] = 1 + random() % p.micros;
      std::optional<Crowd> crowd = findCrowd(problem, copies);
      EXPECT_EQ(crowd.has_value(), isCrowded(problem, b, copies[b]));
      if (!crowd)
        continue;
      ++crowds;
      EXPECT_EQ(crowd->buffer, b);
      EXPECT_EQ(crowd->first % copies[b], crowd->second % copies[b]);
      EXPECT_NE(crowd->first, crowd->second);
    }
  }
  EXPECT_GT(crowds, 20);
}

} // namespace
