//===- PlaceTest.cpp - Placement of buffers in one arena ------------------===//

#include "TrainingProblems.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

using namespace kerf;
using namespace kerf::test;
using llvm::FailureOr;
using llvm::StringRef;
using Buffer = PlaceProblem::Buffer;

namespace {

PlaceProblem problemOf(StringRef text) {
  std::string error;
  FailureOr<PlaceProblem> problem = parsePlaceProblem(text, error);
  EXPECT_TRUE(succeeded(problem)) << error;
  return succeeded(problem) ? *problem : PlaceProblem();
}

std::string errorOf(StringRef text) {
  std::string error;
  EXPECT_TRUE(failed(parsePlaceProblem(text, error))) << text.str();
  return error;
}

std::string textOf(const PlaceProblem &problem) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os, problem);
  return text;
}

/// Places, and expects all that holds for every placement.
Placement placeChecked(const PlaceProblem &problem) {
  std::string error;
  EXPECT_TRUE(succeeded(problem.check(error))) << error;
  Placement placement = place(problem);
  EXPECT_TRUE(succeeded(placement.verify(problem, error))) << error;
  EXPECT_GE(placement.sizeBytes, lowerBound(problem));
  EXPECT_EQ(placement, place(problem)) << "not the same twice";
  return placement;
}

double ratio(const PlaceProblem &problem, const Placement &placement) {
  return double(placement.sizeBytes) / double(lowerBound(problem));
}

/// A problem with lives of up to three intervals, and now and then a buffer
/// without bytes, one that lives always, or one that is fixed at 0.
PlaceProblem randomProblem(unsigned numBuffers, std::mt19937_64 &random) {
  auto draw = [&](int64_t limit) { return int64_t(random() % limit); };
  PlaceProblem problem;
  problem.alignment = int64_t(1) << draw(7);
  for (unsigned i = 0; i < numBuffers; ++i) {
    Buffer buffer = {"b" + std::to_string(i),
                     draw(10) == 0 ? 0 : draw(900),
                     {},
                     i == 0 && draw(8) == 0 ? 0 : -1};
    int64_t at = 0, numLives = 1 + draw(3);
    for (int64_t life = 0; life < numLives; ++life) {
      int64_t first = at + draw(8), last = first + draw(6);
      buffer.lives.push_back({first, last});
      at = last + 1;
    }
    if (draw(12) == 0)
      buffer.lives = {{0, 1000}};
    problem.buffers.push_back(buffer);
  }
  return problem;
}

/// Finds the lowest arena by branch and bound over all orders, each buffer at
/// its lowest place. One order is that of the offsets in a lowest arena; in
/// it no buffer comes to lie higher than there. For up to 8 buffers.
class ExhaustiveSolver {
public:
  explicit ExhaustiveSolver(const PlaceProblem &problem) : problem(problem) {}

  int64_t solve() {
    best = INT64_MAX;
    int64_t size = 0;
    offsets.assign(problem.buffers.size(), -1);
    for (auto [offset, buffer] : llvm::zip(offsets, problem.buffers))
      if (buffer.fixedOffset != -1) {
        offset = buffer.fixedOffset;
        size = std::max(size, offset + placedBytes(problem, buffer.sizeBytes));
      }
    placeRest(size);
    return best;
  }

private:
  void placeRest(int64_t size) {
    if (size >= best)
      return;
    bool complete = true;
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (offsets[i] != -1)
        continue;
      complete = false;
      offsets[i] = lowestPlace(problem.buffers[i]);
      placeRest(std::max(size, offsets[i] + bytes(i)));
      offsets[i] = -1;
    }
    if (complete)
      best = size;
  }

  int64_t lowestPlace(const Buffer &buffer) {
    int64_t size = placedBytes(problem, buffer.sizeBytes);
    for (int64_t offset = 0;;) {
      int64_t next = offset;
      for (size_t j = 0; j < offsets.size(); ++j)
        if (offsets[j] != -1 && offset < offsets[j] + bytes(j) &&
            offsets[j] < offset + size &&
            aliveTogether(buffer, problem.buffers[j]))
          next = std::max(next, offsets[j] + bytes(j));
      if (next == offset)
        return offset;
      offset = next;
    }
  }

  int64_t bytes(size_t i) {
    return placedBytes(problem, problem.buffers[i].sizeBytes);
  }

  const PlaceProblem &problem;
  std::vector<int64_t> offsets;
  int64_t best = INT64_MAX;
};

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

TEST(Place, NothingNeedsNothing) {
  EXPECT_EQ(placeChecked(PlaceProblem()).sizeBytes, 0);
}

TEST(Place, TheExampleOfTheSource) {
  Placement placement = placeChecked(problemOf("align 1\n"
                                               "\"a\" 2 0-1\n"
                                               "\"b\" 1 1-2\n"
                                               "\"c\" 2 2-3\n"));
  EXPECT_EQ(placement.sizeBytes, 3);
}

TEST(Place, LivesAreClosedIntervals) {
  // Both are alive at 5.
  EXPECT_EQ(placeChecked(problemOf("\"a\" 64 0-5\n\"b\" 64 5-9\n")).sizeBytes,
            128);
  EXPECT_EQ(placeChecked(problemOf("\"a\" 64 0-5\n\"b\" 64 6-9\n")).sizeBytes,
            64);
}

TEST(Place, UsesTheHoleBetweenTwoLives) {
  Placement placement =
      placeChecked(problemOf("\"a\" 128 0-3 8-9\n\"b\" 128 4-7\n"));
  EXPECT_EQ(placement.sizeBytes, 128);
}

TEST(Place, RoundsSizesUp) {
  PlaceProblem problem = problemOf("\"a\" 1 0-1\n\"b\" 65 0-1\n");
  EXPECT_EQ(lowerBound(problem), 192);
  EXPECT_EQ(placeChecked(problem).sizeBytes, 192);
}

TEST(Place, BuffersThatLiveAlwaysAreAtTheBottomInOrder) {
  Placement placement = placeChecked(problemOf("\"t\" 4096 3-4\n"
                                               "\"p\" 64 0-9\n"
                                               "\"u\" 640 1-2 5-6\n"
                                               "\"q\" 256 0-9\n"
                                               "\"r\" 64 0-9\n"));
  EXPECT_EQ(placement.offsets[1], 0);
  EXPECT_EQ(placement.offsets[3], 64);
  EXPECT_EQ(placement.offsets[4], 320);
}

TEST(Place, KeepsFixedOffsets) {
  PlaceProblem problem = problemOf("\"a\" 64 0-9\n"
                                   "\"b\" 64 2-3 at 0\n"
                                   "\"c\" 64 4-5 at 192\n");
  Placement placement = placeChecked(problem);
  EXPECT_EQ(placement.offsets, (std::vector<int64_t>{64, 0, 192}));
  EXPECT_EQ(lowerBound(problem), 256);
}

TEST(Place, WhatLivesAlwaysMakesRoomForFixedBuffers) {
  // 'p' just above 'f' would push 'a' and 'b' up.
  Placement placement = placeChecked(problemOf("\"f\" 192 3-3 at 0\n"
                                               "\"a\" 640 6-7\n"
                                               "\"p\" 832 0-9\n"
                                               "\"b\" 128 7-9\n"));
  EXPECT_EQ(placement.sizeBytes, 1600);
}

TEST(Place, IsBestOnSmallProblems) {
  std::mt19937_64 random(7);
  int aboveBound = 0;
  for (int round = 0; round < 300; ++round) {
    PlaceProblem problem = randomProblem(1 + random() % 8, random);
    int64_t best = ExhaustiveSolver(problem).solve();
    EXPECT_EQ(placeChecked(problem).sizeBytes, best) << textOf(problem);
    aboveBound += best > lowerBound(problem);
  }
  std::printf("%d of 300 small problems have no placement at the bound\n",
              aboveBound);
}

TEST(Place, IsCloseToTheBoundOnRandomProblems) {
  std::mt19937_64 random(11);
  for (unsigned numBuffers : {20, 50, 100, 300}) {
    double worst = 0, sum = 0;
    for (int round = 0; round < 3; ++round) {
      PlaceProblem problem = randomProblem(numBuffers, random);
      double found = ratio(problem, placeChecked(problem));
      worst = std::max(worst, found);
      sum += found;
    }
    std::printf("%3u random buffers: %.4f of the bound, worst %.4f\n",
                numBuffers, sum / 3, worst);
    EXPECT_LE(worst, 1.25);
  }
}

TEST(Place, IsWithin5PercentOfTheBoundOnTrainingSteps) {
  for (const StepShape &shape : stepShapes()) {
    PlaceProblem problem = trainingProblem(shape);
    Placement placement = placeChecked(problem);
    double found = ratio(problem, placement);
    std::printf("%-44s %4zu buffers %8.1f MiB, %.4f of the bound\n",
                shape.name.c_str(), problem.buffers.size(),
                double(placement.sizeBytes) / (1 << 20), found);
    EXPECT_LE(found, 1.05) << shape.name;
  }
}

TEST(Place, LargeProblem) {
  PlaceProblem problem = largeProblem(5000);
  ASSERT_GE(problem.buffers.size(), 5000u);
  Placement placement = place(problem);
  std::string error;
  EXPECT_TRUE(succeeded(placement.verify(problem, error))) << error;
  EXPECT_LE(ratio(problem, placement), 1.05);
}

TEST(Place, SavedProblems) {
  int count = 0;
  std::error_code code;
  std::string folder = KERF_SOURCE_DIR "/test/Memory/problems";
  for (llvm::sys::fs::directory_iterator it(folder, code), end;
       it != end && !code; it.increment(code)) {
    auto file = llvm::MemoryBuffer::getFile(it->path());
    ASSERT_TRUE(bool(file)) << it->path();
    PlaceProblem problem = problemOf((*file)->getBuffer());
    EXPECT_EQ(textOf(problem), (*file)->getBuffer().str()) << it->path();
    double found = ratio(problem, placeChecked(problem));
    std::printf("%s: %.4f of the bound\n", it->path().c_str(), found);
    EXPECT_LE(found, 1.05) << it->path();
    ++count;
  }
  EXPECT_GE(count, 4) << folder;
}

//===----------------------------------------------------------------------===//
// verify
//===----------------------------------------------------------------------===//

/// The message of `verify`, empty when it finds nothing.
std::string verified(const PlaceProblem &problem, const Placement &placement) {
  std::string error;
  return succeeded(placement.verify(problem, error)) ? "" : error;
}

TEST(PlaceVerify, FindsWhatIsWrong) {
  PlaceProblem problem = problemOf("\"a\" 100 0-5\n"
                                   "\"b\" 64 5-9\n"
                                   "\"c\" 64 6-9 at 64\n");
  Placement good = {{0, 128, 64}, 192};
  EXPECT_EQ(verified(problem, good), "");
  EXPECT_EQ(verified(problem, {{0, 128}, 192}),
            "found 2 offsets for 3 buffers");
  EXPECT_EQ(verified(problem, {{0, 64, 64}, 192}),
            "buffers 'a' at 0 and 'b' at 64 overlap while both are alive");
  EXPECT_EQ(verified(problem, {{0, 128, 128}, 192}),
            "offset 128 of buffer 'c' is not its fixed offset 64");
  EXPECT_EQ(verified(problem, {{8, 128, 64}, 192}),
            "offset 8 of buffer 'a' is not a multiple of 64 from 0 on");
  EXPECT_EQ(verified(problem, {{-64, 128, 64}, 192}),
            "offset -64 of buffer 'a' is not a multiple of 64 from 0 on");
  EXPECT_EQ(verified(problem, {{0, 128, 64}, 128}),
            "offset 128 of buffer 'b' leaves less than its 64 bytes in an "
            "arena of 128 bytes");
  EXPECT_EQ(verified(problem, {{0, 128, 64}, 200}),
            "size 200 of the arena is not a multiple of 64");
}

TEST(PlaceVerify, SeesAMovedBuffer) {
  // Moving a buffer by one step is noticed, unless the step is into free space.
  std::mt19937_64 random(3);
  int seen = 0;
  for (int round = 0; round < 50; ++round) {
    PlaceProblem problem = randomProblem(30, random);
    Placement placement = place(problem);
    size_t index = random() % 30;
    placement.offsets[index] -= problem.alignment;
    seen += !verified(problem, placement).empty();
  }
  EXPECT_GE(seen, 30);
}

//===----------------------------------------------------------------------===//
// check and text
//===----------------------------------------------------------------------===//

TEST(PlaceText, RoundTrips) {
  StringRef text = "align 32\n"
                   "\"h.{i}.attn q\" 4096 3-5 9-12\n"
                   "\"tokens\" 512 0-20 at 32\n"
                   "\"\\22\\\\\\0A\" 0 1-1\n";
  PlaceProblem problem = problemOf(text);
  EXPECT_EQ(textOf(problem), text.str());
  EXPECT_EQ(problem.alignment, 32);
  ASSERT_EQ(problem.buffers.size(), 3u);
  EXPECT_EQ(problem.buffers[0].lives[1], LifeInterval(9, 12));
  EXPECT_EQ(problem.buffers[1].fixedOffset, 32);
  EXPECT_EQ(problem.buffers[2].name, "\"\\\n");

  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    PlaceProblem drawn = randomProblem(20, random);
    EXPECT_EQ(problemOf(textOf(drawn)), drawn);
  }
}

TEST(PlaceText, SkipsCommentsAndEmptyLines) {
  PlaceProblem problem = problemOf("# a comment\n\n  \"a\"  64   0-1\r\n");
  EXPECT_EQ(textOf(problem), "align 64\n\"a\" 64 0-1\n");
}

TEST(PlaceText, RefusesWhatIsNotAProblem) {
  EXPECT_EQ(errorOf("a 1 0-1"),
            "line 1: expected a buffer's name in double quotes");
  EXPECT_EQ(errorOf("align 64\n\"a 1 0-1"),
            "line 2: name has no closing double quote");
  EXPECT_EQ(errorOf("\"\\4\" 1 0-1"),
            "line 1: expected two hex digits after '\\' in a name");
  EXPECT_EQ(errorOf("\"a\""), "line 1: expected a size after the name");
  EXPECT_EQ(errorOf("\"a\" x 0-1"), "line 1: expected a number, found 'x'");
  EXPECT_EQ(errorOf("align x"), "line 1: expected a number, found 'x'");
  EXPECT_EQ(errorOf("\"a\" 1 0:1"),
            "line 1: expected a life like '3-5', found '0:1'");
  EXPECT_EQ(errorOf("\"a\" 1 0-1 at x"),
            "line 1: expected a number, found 'x'");
}

TEST(PlaceCheck, RefusesWhatCannotBePlaced) {
  EXPECT_EQ(errorOf("align 48"),
            "alignment 48 is not a power of two up to 2^60");
  EXPECT_EQ(errorOf("\"a\" -1 0-1"), "size -1 of buffer 'a' is below 0");
  EXPECT_EQ(errorOf("\"a\" 1"), "buffer 'a' is never alive");
  EXPECT_EQ(errorOf("\"a\" 1 3-2"),
            "life 3-2 of buffer 'a' is not an interval of times from 0 on");
  EXPECT_EQ(errorOf("\"a\" 1 0-2 2-3"),
            "life 2-3 of buffer 'a' does not start after the one before it, "
            "which ends at 2");
  EXPECT_EQ(errorOf("\"a\" 1 0-1 at 5"),
            "offset 5 of buffer 'a' is not a multiple of 64");
  EXPECT_EQ(errorOf("\"a\" 1 0-1 at -64"),
            "offset -64 of buffer 'a' is not in 0 to 2^60");
  EXPECT_EQ(errorOf("\"a\" 65 0-1 at 0\n\"b\" 1 1-2 at 64"),
            "buffers 'a' and 'b' are alive together and their fixed offsets "
            "make them overlap");
  EXPECT_EQ(errorOf("\"a\" 1000000000000000000 0-1\n"
                    "\"b\" 1000000000000000000 0-1"),
            "sizes up to buffer 'b' sum up to more than 2^60 bytes");
  EXPECT_EQ(errorOf("\"a\" 9223372036854775807 0-1"),
            "sizes up to buffer 'a' sum up to more than 2^60 bytes");
  problemOf("\"a\" 64 0-1 at 0\n\"b\" 1 2-3 at 0");
}

} // namespace
