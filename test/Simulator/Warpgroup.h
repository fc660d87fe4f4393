//===- Warpgroup.h - matmuls of warpgroups that are under way -------------===//
//
// `wgmma` multiplies matrices of shared memory while its warps go on. What the
// PTX manual forbids meanwhile, and what it wants before, is kept here:
//
// - registers of a matmul are touched by nothing until its group has been
//   waited for, and what others touched is fenced (wgmma.fence) before;
// - the four warps of a warpgroup execute the same wgmma instructions.
//
// A warp reads its operands when it waits, which is as late as a device may.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_WARPGROUP_H
#define KERF_SIMULATOR_WARPGROUP_H

#include <cstdint>
#include <deque>
#include <vector>

namespace kerf::sim {

struct Block;
struct Inst;
struct Warp;

inline constexpr uint32_t warpsOfGroup = 4;

/// The last use of a 32-bit register, as far as wgmma cares.
struct MatrixRegister {
  enum Use : uint8_t { Fenced, Read, Written, Accumulator, Operand };
  Use use = Fenced;
  uint8_t index = 0;    ///< in the accumulator or in A
  uint16_t columns = 0; ///< N of the accumulator's matmul
  uint16_t pending = 0; ///< matmuls that use it and were not waited for
  int32_t line = 0;     ///< of that use
};

/// A matmul that was issued. `a` and `b` are descriptors.
struct PendingMatmul {
  const Inst *inst;
  uint64_t a, b;
  bool accumulates; ///< D = A B + D
  uint32_t group;   ///< groups that were committed before it
};

/// Of one warp.
struct WarpMatrices {
  std::vector<MatrixRegister> registers; ///< by place in the file, in words
  std::deque<PendingMatmul> pending;
  uint32_t groups = 0; ///< committed
  bool isFenced = false;
  uint64_t executed = 0; ///< wgmma instructions

  void start();
};

/// What the first warp that came by has executed, for those that follow.
struct WarpgroupLog {
  struct Event {
    const Inst *inst;
    uint64_t a, b;
    bool accumulates;
  };
  std::deque<Event> events;
  uint64_t first = 0; ///< number of events[0]
};

/// Called before an instruction other than wgmma, at place `at`, accesses its
/// registers. Throws Trap where one belongs to a matmul under way.
void touchRegisters(Warp &warp, uint32_t at);

/// Called when the last lane of a warp ends. Throws Trap where matmuls were
/// not waited for.
void endWarp(Warp &warp);

/// Called when a block ends. Throws Trap where warps of a warpgroup have
/// executed different numbers of wgmma instructions.
void endWarpgroups(Block &block);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_WARPGROUP_H
