//===- AsyncProxy.cpp - shared memory as wgmma sees it --------------------===//

#include "AsyncProxy.h"
#include "Machine.h"

#include <algorithm>

using namespace kerf::sim;

// A writer: fences below, its thread above.
static constexpr uint32_t fenceBits = 21, mostFences = (1u << fenceBits) - 2;

AsyncProxy::AsyncProxy(uint32_t sharedBytes, uint32_t threads)
    : pieces(sharedBytes / pieceBytes + 1), writers(sharedBytes),
      fences(threads) {}

void AsyncProxy::start() {
  std::fill(pieces.begin(), pieces.end(), Piece());
  std::fill(writers.begin(), writers.end(), 0);
  for (std::vector<Fence> &one : fences)
    one.clear();
}

void AsyncProxy::requireUnread(const Warp &warp, int lane,
                               uint64_t offset) const {
  const Piece &piece = pieces[offset / pieceBytes];
  if (piece.reads)
    trap(warp, lane, LaunchFailed,
         "shared byte " + std::to_string(offset) +
             " is overwritten while the wgmma of line " +
             std::to_string(piece.line) +
             " may read it: wgmma.wait_group comes first");
}

void AsyncProxy::write(const Warp &warp, int lane, uint64_t offset,
                       uint32_t bytes) {
  // Accesses are aligned: one piece has all bytes.
  requireUnread(warp, lane, offset);
  uint32_t thread = warp.index * lanes + lane;
  uint32_t count = std::min<size_t>(fences[thread].size(), mostFences);
  std::fill_n(writers.begin() + offset, bytes,
              1 + (thread << fenceBits | count));
}

void AsyncProxy::beginCopy(const Warp &warp, int lane, uint64_t offset) {
  requireUnread(warp, lane, offset);
  ++pieces[offset / pieceBytes].copies;
}

void AsyncProxy::endCopy(const Warp &warp, int lane, uint64_t offset,
                         uint32_t bytes) {
  write(warp, lane, offset, bytes);
  --pieces[offset / pieceBytes].copies;
}

void AsyncProxy::fence(const Warp &warp) {
  for (int lane = 0; lane < lanes; ++lane)
    if (warp.mask >> lane & 1)
      fences[warp.index * lanes + lane].push_back(
          {warp.known[warp.index], warp.epoch});
}

void AsyncProxy::requireVisible(const Warp &warp, uint64_t offset) const {
  uint32_t known = 0;
  for (uint64_t at = offset; at < offset + pieceBytes; ++at) {
    if (writers[at] == known)
      continue;
    known = writers[at];
    uint32_t thread = (known - 1) >> fenceBits;
    uint32_t count = (known - 1) & ((1u << fenceBits) - 1);
    auto fail = [&](const std::string &text) {
      trap(warp, 0, LaunchFailed,
           "reads shared byte " + std::to_string(at) + ", which thread " +
               std::to_string(thread) + " wrote, but " + text);
    };
    if (count >= fences[thread].size())
      fail("fence.proxy.async is missing: that thread executes one after "
           "writing");
    const Fence &fence = fences[thread][count];
    uint32_t other = thread / lanes;
    bool isOwn = other == warp.index && fence.warpEpoch < warp.epoch;
    if (!isOwn && fence.arrivals >= warp.known[other])
      fail("no barrier lies between its fence.proxy.async and the matmul");
  }
}

void AsyncProxy::beginRead(const Warp &warp, uint64_t offset, int32_t line) {
  Piece &piece = pieces[offset / pieceBytes];
  if (piece.copies)
    trap(warp, 0, LaunchFailed,
         "reads shared byte " + std::to_string(offset) +
             ", which a cp.async writes that was not waited for");
  requireVisible(warp, offset);
  ++piece.reads;
  piece.line = line;
}

void AsyncProxy::endRead(uint64_t offset) {
  --pieces[offset / pieceBytes].reads;
}
