//===- AsyncProxy.h - shared memory as wgmma sees it ----------------------===//
//
// wgmma reads shared memory through the async proxy, everybody else through the
// generic one. A thread that has written makes that visible by
// fence.proxy.async, and then by a barrier with the warp that multiplies. While
// a matmul reads a byte nobody may write it, whatever barriers there are.
// Kept only for kernels that use wgmma.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_ASYNCPROXY_H
#define KERF_SIMULATOR_ASYNCPROXY_H

#include <cstdint>
#include <vector>

namespace kerf::sim {

struct Warp;

/// Bytes that wgmma reads together; they are aligned to their number.
inline constexpr uint32_t pieceBytes = 16;

class AsyncProxy {
public:
  AsyncProxy(uint32_t sharedBytes, uint32_t threads);
  /// Forgets a block before the next one.
  void start();

  /// A lane writes `bytes` at `offset`. Throws Trap where a matmul reads them.
  void write(const Warp &warp, int lane, uint64_t offset, uint32_t bytes);
  /// A cp.async of a lane is issued, and has arrived. As for write.
  void beginCopy(const Warp &warp, int lane, uint64_t offset);
  void endCopy(const Warp &warp, int lane, uint64_t offset, uint32_t bytes);
  /// fence.proxy.async of the lanes that execute.
  void fence(const Warp &warp);

  /// A matmul of the instruction at `line` begins to read a piece. Throws
  /// Trap where what was written there is not visible to it.
  void beginRead(const Warp &warp, uint64_t offset, int32_t line);
  void endRead(uint64_t offset);

private:
  struct Piece {
    uint16_t reads = 0;  ///< matmuls of warps that read it
    uint16_t copies = 0; ///< cp.async that have not arrived
    int32_t line = 0;    ///< of the matmul that reads it
  };
  struct Fence {
    uint32_t arrivals, warpEpoch; ///< of its warp
  };
  void requireUnread(const Warp &warp, int lane, uint64_t offset) const;
  void requireVisible(const Warp &warp, uint64_t offset) const;

  std::vector<Piece> pieces;
  /// By byte: 0, or 1 + who wrote it and how many fences that thread had had.
  std::vector<uint32_t> writers;
  std::vector<std::vector<Fence>> fences; ///< by thread
};

} // namespace kerf::sim

#endif // KERF_SIMULATOR_ASYNCPROXY_H
