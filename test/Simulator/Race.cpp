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
  lines.clear();
}

/// Is what `who` did at these epochs over for `thread` of `warp`?
static bool isOrdered(uint32_t who, uint32_t epoch, uint32_t warpEpoch,
                      const Warp &warp, uint32_t thread) {
  if (!who || who == thread + 1 || epoch < warp.block->epoch)
    return true;
  if (who == everybody)
    return false;
  uint32_t other = who & warpFlag ? who & ~warpFlag : (who - 1) / lanes;
  return other == warp.index && warpEpoch < warp.epoch;
}

/// One byte or word, in shared memory or at an address.
inline void RaceCheck::withinBlock(const Access &access, Cell &cell,
                                   bool isShared, uint64_t at) {
  const Warp &warp = access.warp;
  uint32_t thread = warp.index * lanes + access.lane;
  auto place = [&] {
    return isShared ? "shared byte " + std::to_string(at) : describeAddress(at);
  };
  bool afterWrite = isOrdered(cell.writer, cell.writeEpoch, cell.writeWarpEpoch,
                              warp, thread);
  bool afterRead =
      isOrdered(cell.reader, cell.readEpoch, cell.readWarpEpoch, warp, thread);
  if (!afterWrite && !(access.isWrite && access.isSame))
    trap(warp, access.lane, LaunchFailed,
         "race: " + place() + (access.isWrite ? " is written" : " is read") +
             ", thread " + std::to_string(cell.writer - 1) +
             " wrote it and no barrier lies between");
  if (access.isWrite && !access.isSame && !afterRead)
    trap(warp, access.lane, LaunchFailed,
         "race: " + place() +
             " is written, another thread read it and no barrier lies between");
  if (access.isWrite) {
    cell.writer = thread + 1;
    cell.writeEpoch = warp.block->epoch;
    cell.writeWarpEpoch = warp.epoch;
    return;
  }
  uint32_t inWarp = warpFlag | warp.index;
  bool sameWarp =
      cell.reader == inWarp || (cell.reader && !(cell.reader & warpFlag) &&
                                (cell.reader - 1) / lanes == warp.index);
  cell.reader = afterRead ? thread + 1 : sameWarp ? inWarp : everybody;
  cell.readEpoch = warp.block->epoch;
  cell.readWarpEpoch = warp.epoch - access.isPast;
}

/// Cells of the bytes of a word, which begin as that of the word.
std::array<RaceCheck::Cell, RaceCheck::wordBytes> &
RaceCheck::bytesOf(Cell &word) {
  if (!word.split) {
    std::array<Cell, wordBytes> bytes;
    bytes.fill(word);
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

void RaceCheck::product(const Warp &warp, uint64_t offset) {
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
