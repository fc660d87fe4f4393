//===- Race.cpp - accesses that nothing orders ----------------------------===//

#include "Race.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace kerf::sim;

// Who touched a byte: a thread's number + 1, lanes of one warp, or more.
static constexpr uint32_t warpFlag = 1u << 30, everybody = ~0u;

RaceCheck *kerf::sim::raceCheck() {
  static RaceCheck check;
  const char *text = getenv("KERF_SIM_RACES");
  return text && strcmp(text, "0") != 0 ? &check : nullptr;
}

void RaceCheck::start(uint32_t sharedBytes) {
  cells.assign(sharedBytes / wordBytes + 1, Cell());
  splits.clear();
  readers.clear();
  lines.clear();
}

static uint32_t warpOf(uint32_t who) {
  return who & warpFlag ? who & ~warpFlag : (who - 1) / lanes;
}

/// Is what `who`, not everybody, did then over for `thread` of `warp`?
static bool isOrdered(uint32_t who, uint32_t arrivals, uint32_t epoch,
                      const Warp &warp, uint32_t thread) {
  if (!who || who == thread + 1)
    return true;
  uint32_t other = warpOf(who);
  return arrivals < warp.known[other] ||
         (other == warp.index && epoch < warp.epoch);
}

/// Are all reads over for `thread` of `warp`?
inline bool RaceCheck::isRead(const Cell &cell, const Warp &warp,
                              uint32_t thread) const {
  if (cell.reader != everybody)
    return isOrdered(cell.reader, cell.readArrivals, cell.readEpoch, warp,
                     thread);
  const Arrivals &last = readers[cell.readers - 1];
  for (size_t other = 0; other < warp.block->warps.size(); ++other)
    if (last[other] > warp.known[other])
      return false;
  return true;
}

/// `isOrdered`: behind all reads before.
inline void RaceCheck::read(const Access &access, Cell &cell, bool isOrdered) {
  const Warp &warp = access.warp;
  uint32_t arrivals = warp.known[warp.index], inWarp = warpFlag | warp.index;
  bool isKnown = cell.reader && cell.reader != everybody;
  if (isOrdered) {
    cell.reader = warp.index * lanes + access.lane + 1;
  } else if (isKnown && warpOf(cell.reader) == warp.index) {
    cell.reader = inWarp;
  } else {
    if (!cell.readers) {
      readers.emplace_back();
      cell.readers = static_cast<uint32_t>(readers.size());
    }
    Arrivals &last = readers[cell.readers - 1];
    if (isKnown) {
      last.fill(0);
      last[warpOf(cell.reader)] = cell.readArrivals + 1;
    }
    last[warp.index] = arrivals + 1;
    cell.reader = everybody;
  }
  cell.readArrivals = arrivals;
  cell.readEpoch = warp.epoch - access.isPast;
}

/// One byte or word, in shared memory or at an address.
inline void RaceCheck::withinBlock(const Access &access, Cell &cell,
                                   bool isShared, uint64_t at) {
  const Warp &warp = access.warp;
  uint32_t thread = warp.index * lanes + access.lane;
  auto place = [&] {
    return isShared ? "shared byte " + std::to_string(at) : describeAddress(at);
  };
  bool afterWrite =
      isOrdered(cell.writer, cell.writeArrivals, cell.writeEpoch, warp, thread);
  bool afterRead = isRead(cell, warp, thread);
  if (!afterWrite && !(access.isWrite && access.isSame))
    trap(warp, access.lane, LaunchFailed,
         "race: " + place() + (access.isWrite ? " is written" : " is read") +
             ", thread " + std::to_string(cell.writer - 1) +
             " wrote it and no barrier lies between");
  if (access.isWrite && !access.isSame && !afterRead)
    trap(warp, access.lane, LaunchFailed,
         "race: " + place() +
             " is written, another thread read it and no barrier lies between");
  if (!access.isWrite)
    return read(access, cell, afterRead);
  cell.writer = thread + 1;
  cell.writeArrivals = warp.known[warp.index];
  cell.writeEpoch = warp.epoch;
}

/// Cells of the bytes of a word, which begin as that of the word.
std::array<RaceCheck::Cell, RaceCheck::wordBytes> &
RaceCheck::bytesOf(Cell &word) {
  if (!word.split) {
    std::array<Cell, wordBytes> bytes;
    bytes.fill(word);
    for (Cell &one : bytes) // readers of its own
      if (word.readers) {
        readers.push_back(Arrivals(readers[word.readers - 1]));
        one.readers = static_cast<uint32_t>(readers.size());
      }
    splits.push_back(bytes);
    word.split = static_cast<uint32_t>(splits.size());
  }
  return splits[word.split - 1];
}

/// All bytes of an access that begins at `at` in the word `words[0]`.
void RaceCheck::touch(const Access &access, Cell *words, bool isShared,
                      uint64_t at) {
  for (uint64_t end = at + access.bytes; at < end; ++words) {
    uint64_t count = std::min(end, at / wordBytes * wordBytes + wordBytes) - at;
    if (count == wordBytes && !words->split) {
      withinBlock(access, *words, isShared, at);
    } else {
      auto &bytes = bytesOf(*words);
      for (uint64_t n = 0; n < count; ++n)
        withinBlock(access, bytes[at % wordBytes + n], isShared, at + n);
    }
    at += count;
  }
}

void RaceCheck::shared(const Access &access, uint64_t offset) {
  touch(access, &cells[offset / wordBytes], /*isShared=*/true, offset);
}

void RaceCheck::matmul(const Warp &warp, uint64_t offset) {
  shared({warp, 0, pieceBytes, false, false, /*isPast=*/true}, offset);
}

void RaceCheck::global(const Access &access, Range &range, uint64_t address) {
  if (!range.writers)
    range.writers.reset(new uint64_t[range.end - range.begin]());
  uint64_t self = launch << 32 | (access.warp.block->number + 1);
  for (uint64_t at = address; at < address + access.bytes; ++at) {
    uint64_t &writer = range.writers[at - range.begin];
    bool isOther = writer >> 32 == launch && writer != self;
    if (isOther && !(access.isWrite && access.isSame))
      trap(access.warp, access.lane, LaunchFailed,
           std::string("race: block ") +
               std::to_string((writer & 0xFFFFFFFF) - 1) + " wrote " +
               describeAddress(at) +
               (access.isWrite ? ", which is written with another value"
                               : ", which is read"));
    if (access.isWrite)
      writer = self;
  }
  // Accesses are aligned: one line has all bytes.
  Line &line = lines[address / lineBytes];
  touch(access, &line[address % lineBytes / wordBytes], /*isShared=*/false,
        address);
}
