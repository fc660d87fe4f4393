#include "kerf/Kernels/Overlap.h"

#include <gtest/gtest.h>

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <string>

using namespace kerf::kernels::overlap;

namespace {

/// Ops in few words: each makes the tensor of its name.
struct Block {
  std::vector<Op> ops;
  std::vector<std::string> names;
  std::map<std::string, int> tensors, buffers;

  int numberOf(std::map<std::string, int> &map, const std::string &name) {
    return map.try_emplace(name, map.size()).first->second;
  }
  Op &op(Role role, const std::string &name,
         std::vector<std::string> reads = {}) {
    Op op = {role};
    for (const std::string &read : reads)
      op.reads.push_back(numberOf(tensors, read));
    if (role != Role::Store)
      op.writes.push_back(numberOf(tensors, name));
    names.push_back(name);
    ops.push_back(std::move(op));
    return ops.back();
  }
  Op &compute(const std::string &name, std::vector<std::string> reads = {}) {
    return op(Role::Computes, name, std::move(reads));
  }
  Op &collective(const std::string &name, std::vector<std::string> reads = {}) {
    return op(Role::Collective, name, std::move(reads));
  }
  /// A store of `read`, named by the buffer.
  Op &store(const std::string &buffer, const std::string &read) {
    Op &own = op(Role::Store, buffer, {read});
    own.stores = numberOf(buffers, buffer);
    own.buffers = {own.stores};
    return own;
  }
  Op &load(const std::string &name, const std::string &buffer) {
    Op &own = op(Role::Free, name);
    own.loads = numberOf(buffers, buffer);
    own.buffers = {own.loads};
    return own;
  }
  /// The order, with collectives that have a wait as "start x ... wait x".
  std::string run() const {
    std::vector<Place> places = overlapCollectives(ops);
    auto isStarted = [&](int op) {
      return llvm::any_of(places, [op](const Place &place) {
        return place.waits && place.op == op;
      });
    };
    std::string text;
    for (auto [op, waits] : places)
      text += (text.empty() ? "" : "; ") +
              std::string(waits           ? "wait "
                          : isStarted(op) ? "start "
                                          : "") +
              names[op];
    return text;
  }
};

TEST(Overlap, AGatherStartsBehindTheOneBefore) {
  Block b;
  b.op(Role::Parameter, "p");
  b.collective("w", {"p"});
  b.compute("x", {"w"});
  b.op(Role::Parameter, "q");
  b.collective("v", {"q"});
  b.compute("y", {"v", "x"});
  EXPECT_EQ(b.run(), "p; w; q; start v; x; wait v; y");
}

TEST(Overlap, ASumIsWaitedForWhereItIsRead) {
  Block b;
  b.compute("g");
  b.collective("s", {"g"});
  b.compute("x");
  b.compute("y", {"s"});
  EXPECT_EQ(b.run(), "g; start s; x; wait s; y");
}

TEST(Overlap, WithNothingToComputeThereIsNoWait) {
  Block b;
  b.compute("g");
  b.collective("s", {"g"});
  b.op(Role::Rename, "r", {"s"});
  b.compute("y", {"r"});
  EXPECT_EQ(b.run(), "g; s; r; y");
}

TEST(Overlap, StoresComeBehindTheWait) {
  Block b;
  b.compute("g");
  b.collective("s", {"g"});
  b.store("sum", "s");
  b.compute("x");
  EXPECT_EQ(b.run(), "g; start s; x; wait s; sum");
}

TEST(Overlap, WhatReadsTheBufferComesBehindTheStore) {
  Block b;
  b.compute("g");
  b.collective("s", {"g"});
  b.store("sum", "s");
  b.compute("x");
  b.load("l", "sum");
  b.compute("y", {"l"});
  EXPECT_EQ(b.run(), "g; start s; x; wait s; sum; l; y");
}

TEST(Overlap, WhatIsMadeInABufferComesBehindItsReaders) {
  Block b;
  b.compute("g");
  b.load("l", "sum");
  b.compute("y", {"l"});
  b.collective("s", {"g"});
  b.op(Role::Rename, "r", {"s"});
  b.store("sum", "r");
  EXPECT_EQ(b.run(), "g; l; y; s; r; sum");
}

TEST(Overlap, ASumMovesUpToItsMatmul) {
  Block b;
  b.compute("g");
  b.compute("x");
  b.collective("s", {"g"});
  b.store("sum", "s");
  EXPECT_EQ(b.run(), "g; start s; x; wait s; sum");
}

TEST(Overlap, AGatherMakesRoomForTheSumBeforeIt) {
  Block b;
  b.load("kept", "slot");
  b.compute("g");
  b.collective("s", {"g"});
  b.collective("x", {"kept"});
  b.compute("w", {"x"});
  b.store("sum", "s");
  EXPECT_EQ(b.run(), "kept; start x; g; wait x; start s; w; wait s; sum");
}

TEST(Overlap, ASumOfSumsComesLate) {
  Block b;
  b.compute("g");
  b.collective("part", {"g"}).scatters = true;
  b.collective("all", {"part"});
  b.store("sum", "all");
  b.compute("x");
  EXPECT_EQ(b.run(), "g; start part; x; wait part; all; sum");
}

TEST(Overlap, NothingPassesWhatOthersTakePartIn) {
  Block b;
  b.op(Role::Fixed, "recv");
  b.compute("g", {"recv"});
  b.op(Role::Parameter, "p");
  b.compute("x");
  b.collective("w", {"p"});
  b.compute("y", {"w"});
  b.op(Role::Fixed, "send", {"y"});
  b.compute("z");
  EXPECT_EQ(b.run(), "recv; p; start w; g; x; wait w; y; send; z");
}

TEST(Overlap, ParametersThatChangeAreReadWhereTheyWere) {
  Block b;
  b.compute("x");
  b.op(Role::Parameter, "p");
  b.collective("w", {"p"});
  b.compute("y");
  b.compute("update").changesParameters = true;
  b.compute("z", {"w"});
  EXPECT_EQ(b.run(), "x; p; start w; y; wait w; update; z");
}

TEST(Overlap, WithoutAnOperandACollectiveStartsAtOnce) {
  Block b;
  b.compute("x");
  b.collective("w");
  b.compute("y", {"w", "x"});
  EXPECT_EQ(b.run(), "start w; x; wait w; y");
}

TEST(Overlap, PartsOfAParameterMoveWithTheirGather) {
  Block b;
  b.compute("x");
  b.op(Role::Parameter, "p");
  b.op(Role::Part, "q", {"p"});
  b.collective("w", {"q"});
  b.compute("y", {"w", "x"});
  EXPECT_EQ(b.run(), "p; q; start w; x; wait w; y");
}

TEST(Overlap, ABufferFromOutsideIsSentBeforeItChanges) {
  Block b;
  b.collective("s", {"outside"}).loads = b.numberOf(b.buffers, "sum");
  b.compute("x");
  b.store("sum", "x");
  b.compute("y", {"s"});
  EXPECT_EQ(b.run(), "start s; x; wait s; sum; y");
}

TEST(Overlap, AParameterFromOutsideIsSentBeforeItChanges) {
  Block b;
  b.collective("s", {"outside"}).readsParameter = true;
  b.compute("x");
  b.compute("update").changesParameters = true;
  b.compute("y", {"s"});
  EXPECT_EQ(b.run(), "start s; x; wait s; update; y");
}

TEST(Overlap, OneThatWasStartedKeepsItsWait) {
  Block b;
  b.compute("g");
  b.collective("s", {"g"}).isStarted = true;
  b.compute("x");
  b.op(Role::Wait, "done", {"s", "g"});
  b.compute("y", {"done"});
  b.collective("t", {"y"});
  b.compute("z");
  EXPECT_EQ(b.run(), "g; s; x; done; y; start t; z; wait t");
}

} // namespace
