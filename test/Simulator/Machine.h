//===- Machine.h - decoded programs and the warps that run them -----------===//
//
// A warp is 32 lanes in lockstep over registers kept lane by lane, so that the
// host vectorizes over lanes. Lanes that branch apart keep their own place; the
// ones at the lowest place run first, which brings them together again.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_MACHINE_H
#define KERF_SIMULATOR_MACHINE_H

#include "AsyncProxy.h"
#include "Ptx.h"
#include "Warpgroup.h"

#include <array>
#include <memory>

namespace kerf::sim {

inline constexpr int lanes = 32, mostWarps = 32;
/// By warp: how many of its arrivals at barriers of the block are known.
using Arrivals = std::array<uint32_t, mostWarps>;

struct Warp;
struct Inst;
/// Runs an instruction for the lanes of `warp.mask`.
using Handler = void (*)(Warp &warp, const Inst &inst);

enum class Action : uint8_t {
  Plain,      ///< the handler does all
  Collective, ///< the handler runs once all lanes it names are there
  Branch,     ///< to `target`
  BranchTable,
  Call,
  Return, ///< of a function, or exit of a kernel
  Exit,
  BlockBarrier, ///< arrives, and waits where `mode` is not 0
  WarpBarrier,
};

struct Inst {
  Handler handler = nullptr;
  Action action = Action::Plain;
  Space space = Space::Generic;
  uint8_t bytes = 0; ///< of a memory access, all elements together
  uint8_t count = 1; ///< elements of a vector access
  uint8_t mode = 0;  ///< what the handler makes of it: rounding, kind
  bool flush = false, saturate = false; ///< .ftz, .sat
  bool wideAddress = true;              ///< base is a 64-bit register
  bool guardNegated = false;
  int32_t guard = -1;
  /// Places of registers (bytes), predicates (index); UINT32_MAX: none.
  uint32_t to = UINT32_MAX, a = UINT32_MAX, b = UINT32_MAX, c = UINT32_MAX;
  uint32_t d = UINT32_MAX;
  uint32_t list = 0;   ///< first element in Program::places
  uint32_t target = 0; ///< of a branch; tables: first in Program::places
  int64_t offset = 0;  ///< of an address; members of a mask; barrier threads
  int32_t line = 0;
  /// The allocation that this instruction found last, and when.
  mutable Range *range = nullptr;
  mutable uint64_t generation = 0;
};

/// A constant in all lanes.
struct Constant {
  uint32_t slot;
  bool isDouble;
  uint64_t bits;
};

/// Special registers that programs read; each has a slot of 32-bit lanes.
enum class SpecialRegister : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  Laneid,
  Warpid,
  LanemaskEq,
  LanemaskLt,
  LanemaskLe,
  LanemaskGt,
  LanemaskGe,
  Smid,
  Zero,
  Count
};

/// A kernel or function, decoded.
struct Entry {
  std::string name;
  bool isKernel = false;
  bool hasMatrices = false; ///< it or a function that it may call uses wgmma
  uint32_t begin = 0;       ///< index of its first instruction
  uint32_t paramBytes = 0;
  std::vector<Variable> params;
  uint32_t sharedBytes = 0; ///< static
  uint32_t localBytes = 0;
  uint32_t maxThreads[3], requiredThreads[3];
  uint32_t maxRegisters; ///< of a thread; 0 where the text does not say
  /// Of the kernel and the functions that it may call.
  uint32_t registerBytes = 0, predicates = 0;
  std::vector<Constant> constants;
  std::vector<std::pair<uint32_t, SpecialRegister>> specials; ///< slot
};

/// A register that an instruction reads or writes.
struct Touch {
  uint32_t place;
  bool isWrite;
};

/// Predicates that are the same in every kernel.
inline constexpr uint32_t falsePredicate = 0, truePredicate = 1;

struct Program {
  std::vector<Inst> code;
  std::vector<uint32_t> places;
  std::vector<Entry> entries; ///< kernels
  std::map<std::string, std::pair<uint64_t, uint64_t>>
      globals;                    ///< address, bytes
  std::vector<std::string> lines; ///< of the source
  std::string version;            ///< of PTX: 8.0
  std::string target;             ///< sm_90
  bool hasMatrices = false;       ///< some function uses wgmma
  /// With wgmma: its registers that other instructions touch, and where those
  /// of each instruction begin.
  std::vector<Touch> touches;
  std::vector<uint32_t> touchBegins;

  ~Program();
  const Entry *find(std::string_view name) const;
};

/// Loads a module: parses, allocates its variables, decodes.
/// Throws Trap{InvalidPtx, UnsupportedPtxVersion...}.
std::unique_ptr<Program> loadPtx(std::string_view text);

struct Extent {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// What a launch did, for people who make kernels faster.
struct Statistics {
  uint64_t warpInstructions = 0, threadInstructions = 0;
  uint64_t globalLoadBytes = 0, globalStoreBytes = 0;
  /// Pieces of 32 bytes that warps' accesses touched.
  uint64_t globalLoadSectors = 0, globalStoreSectors = 0;
  /// Turns that shared memory needed, and accesses (one turn is ideal).
  uint64_t sharedAccesses = 0, sharedTurns = 0;
  uint64_t barriers = 0;
};

struct Block;

/// A piece that cp.async will write to shared memory.
struct PendingCopy {
  uint8_t lane, bytes;
  uint32_t group, offset;
  uint8_t data[16];
};

struct Warp {
  uint32_t mask = 0; ///< lanes that execute the instruction
  uint32_t live = 0; ///< lanes that have not ended
  uint32_t atBarrier = 0, waiting = 0;
  uint32_t index = 0;
  uint32_t epoch = 1; ///< counts its barriers, of the warp and of the block
  /// Of each warp that barriers of the block order before this one. What a warp
  /// did before that many arrivals is over.
  Arrivals known;
  Block *block = nullptr;
  const Program *program = nullptr;
  std::vector<uint64_t> registerStore;
  uint8_t *registers = nullptr;
  std::vector<uint32_t> predicateStore;
  uint32_t *predicates = nullptr;
  uint32_t place[lanes];
  uint8_t barrier[lanes]; ///< its number, of lanes at one
  std::vector<uint32_t> returns[lanes];
  std::vector<PendingCopy> copies;
  uint32_t copyGroup[lanes]; ///< groups that each lane has committed
  std::unique_ptr<WarpMatrices> matrices; ///< null without wgmma

  /// Runs until every lane has ended or waits. True if it got on.
  bool run();
  /// Lanes of `inst`'s guard.
  uint32_t guardMask(const Inst &inst) const;

private:
  bool select();
  void step();
  bool control(const Inst &inst);
  bool branch(const Inst &inst, uint32_t taken);
  bool branchTable(const Inst &inst);
  bool finish(const Inst &inst);
  bool collect(const Inst &inst);
  uint32_t collectReady(const Inst &inst, uint32_t want);
  int barrierNumber(const Inst &inst) const;
  bool arrive(const Inst &inst);
  void put(uint32_t which, uint32_t where);

  // The lanes that run, their place, and the next place of other lanes.
  uint32_t active = 0, at = 0, next = 0;
};

struct RaceCheck;

/// A barrier of the block while some have arrived.
struct BlockBarrier {
  uint32_t arrived = 0, wanted = 0; ///< threads
  uint32_t passing = 0;             ///< warps that arrived and went on
  Arrivals known{};                 ///< to those who arrived

  bool isComplete() const { return arrived && arrived == wanted; }
};

/// A block while it runs.
struct Block {
  const Program *program = nullptr;
  const Entry *entry = nullptr;
  Extent grid, threads, index;
  uint64_t number = 0; ///< of the launch
  uint32_t threadCount = 0;
  std::vector<uint8_t> params;
  std::vector<uint8_t> shared, sharedWritten;
  std::vector<uint8_t> local; ///< thread by thread
  std::vector<std::unique_ptr<Warp>> warps;
  BlockBarrier barriers[16];
  const Inst *current = nullptr;
  uint64_t instructionLimit = 0;
  RaceCheck *races = nullptr;
  std::unique_ptr<AsyncProxy> proxy; ///< null without wgmma
  std::vector<WarpgroupLog> warpgroups;
  Statistics statistics;
  bool countAccesses = false;

  /// Runs one block. Throws Trap.
  void run();
  /// Lanes of `warp` arrive at a barrier, for `current`. When it is complete
  /// the next who arrive, or the end of a round of all warps, let all go on.
  void arrive(Warp &warp, uint32_t lanes, int number);

private:
  void start();
  void release(int number);
  bool releaseAll();
  void requireComplete();
  [[noreturn]] void deadlock();
};

/// Runs `entry` over the grid, one block after the other. Throws Trap; its text
/// names kernel, block, thread and line.
Statistics launch(const Program &program, const Entry &entry, Extent grid,
                  Extent threads, uint32_t dynamicShared,
                  std::vector<uint8_t> params, bool countAccesses = false);

/// Throws Trap{InvalidValue, LaunchOutOfResources} where no device could run
/// it.
void checkLaunch(const Entry &entry, Extent grid, Extent threads,
                 uint64_t sharedBytes);

/// Throws a Trap for `lane` of `warp`.
[[noreturn]] void trap(const Warp &warp, int lane, Status status,
                       const std::string &text);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_MACHINE_H
