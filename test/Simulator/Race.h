//===- Race.h - accesses that nothing orders ------------------------------===//
//
// On with KERF_SIM_RACES=1. Two threads of a block race where both touch a byte
// of shared or global memory, one writes, and no barrier lies between; the
// lanes of a warp may also use a barrier of the warp. Equal values written are
// no race. A barrier of the block orders what those who arrive did, or knew to
// be over, before what those who wait do then (vector clocks of warps; Flanagan
// and Freund 2009, "FastTrack").
// Blocks of a launch race where one writes another value to a byte that another
// wrote, or reads it (KERF_SIM_ORDER=reverse shows the other half of those).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_RACE_H
#define KERF_SIMULATOR_RACE_H

#include "Machine.h"

#include <array>
#include <unordered_map>

namespace kerf::sim {

/// What a lane does to memory.
struct Access {
  const Warp &warp;
  int lane;
  uint32_t bytes;
  bool isWrite;
  bool isSame;         ///< writes what is there
  bool isPast = false; ///< a read that the whole warp knows to be over
};

struct RaceCheck {
  /// Forgets a block before the next one.
  void start(uint32_t sharedBytes);
  /// Throws Trap{LaunchFailed} at a race.
  void shared(const Access &access, uint64_t offset);
  /// wgmma of `warp` has read the 16 bytes at `offset`, and the warp knows it.
  void matmul(const Warp &warp, uint64_t offset);
  /// Atomic accesses are none of these.
  void global(const Access &access, Range &range, uint64_t address);

  uint64_t launch = 0; ///< counts launches

private:
  struct Cell {
    uint32_t writer = 0, writeArrivals = 0, writeEpoch = 0;
    uint32_t reader = 0, readArrivals = 0, readEpoch = 0;
    uint32_t readers = 0; ///< of many warps: 1 + where they are
    uint32_t split = 0;   ///< of a word: 1 + where its bytes' cells are
  };
  /// Mostly whole words are accessed: a word has one cell until one of its
  /// bytes is touched alone.
  static constexpr uint64_t wordBytes = 4;
  /// Bytes of global memory that one access is within.
  static constexpr uint64_t lineBytes = 16;
  using Line = std::array<Cell, lineBytes / wordBytes>;
  std::array<Cell, wordBytes> &bytesOf(Cell &word);
  bool isRead(const Cell &cell, const Warp &warp, uint32_t thread) const;
  void read(const Access &access, Cell &cell, bool isOrdered);
  void withinBlock(const Access &access, Cell &cell, bool isShared,
                   uint64_t at);
  void touch(const Access &access, Cell *words, bool isShared, uint64_t at);

  std::vector<Cell> cells;                         ///< of shared memory's words
  std::vector<std::array<Cell, wordBytes>> splits; ///< by Cell::split - 1
  /// By Cell::readers - 1: 1 + arrivals of each warp before it read last.
  std::vector<Arrivals> readers;
  std::unordered_map<uint64_t, Line> lines; ///< that this block touched
};

/// The check of this process, or null where it is off.
RaceCheck *raceCheck();

} // namespace kerf::sim

#endif // KERF_SIMULATOR_RACE_H
