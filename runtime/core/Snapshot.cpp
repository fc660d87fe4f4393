//===- Snapshot.cpp - a copy of the state beside a step -------------------===//
//
// A training step writes the state late, in its update; until then it can be
// copied beside it. The step waits before a command that writes what is not
// copied yet. A host copies in the threads that finish the snapshot, the step's
// own where it waits; a device on a stream of its own, to memory of the host
// that it reaches by itself. Without such memory the copy is made at once.
//
//===----------------------------------------------------------------------===//

#include "Snapshot.h"

#include "Session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include <sched.h>
#include <sys/mman.h>

using namespace kerf::artifact;
using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// When a step writes what
//===----------------------------------------------------------------------===//

/// Iterations [start, end) that a command runs in.
struct WriteOrder::Iterations {
  int64_t start = 0, end = 1;
};

/// Adds all that a command may write, whatever the call and the iteration.
void WriteOrder::add(const View &view, const kerf_command &command,
                     const Iterations &iterations, uint32_t place) {
  for (uint32_t n = 0; n < command.operand_count; ++n) {
    const kerf_operand &operand = view.operands[command.first_operand + n];
    if (operand.kind != KERF_ARENA || !(operand.access & KERF_WRITE))
      continue;
    int64_t slots = (int64_t(operand.copies) - 1) * operand.slot_stride;
    auto [low, high] =
        std::minmax({iterations.start * operand.iter_stride,
                     (iterations.end - 1) * operand.iter_stride});
    written.push_back(
        {operand.offset + low + std::min<int64_t>(slots, 0),
         operand.offset + high + std::max<int64_t>(slots, 0) + operand.bytes,
         place});
  }
}

WriteOrder::WriteOrder(const View &view)
    : first(view.commands.count, KERF_NONE) {
  uint32_t next = 0;
  for (uint32_t c = 0; c < view.program->train_calls; ++c) {
    const kerf_func &func = view.funcs[view.calls[c].func];
    if (func.command_count == 0 || first[func.first_command] != KERF_NONE)
      continue;
    uint32_t bodyEnd = 0;
    Iterations loop;
    for (uint32_t n = 0; n < func.command_count; ++n) {
      uint32_t own = func.first_command + n;
      const kerf_command &command = view.commands[own];
      if (command.opcode == KERF_OP_LOOP) {
        const int64_t *attrs = view.attrs.data + command.first_attr;
        loop = {attrs[KERF_LOOP_START], attrs[KERF_LOOP_END]};
        bodyEnd = own + 1 + attrs[KERF_LOOP_BODY];
      }
      add(view, command, own < bodyEnd ? loop : Iterations(), next);
      first[own] = next++;
    }
  }
}

uint32_t WriteOrder::firstWrite(int64_t offset, uint64_t bytes) const {
  for (const Written &w : written)
    if (w.begin < offset + static_cast<int64_t>(bytes) && offset < w.end)
      return w.place;
  return KERF_NONE;
}

//===----------------------------------------------------------------------===//
// Copying on a host
//===----------------------------------------------------------------------===//

Snapshot::Snapshot(const WriteOrder &order, std::vector<Part> given)
    : parts(std::move(given)) {
  // A step may wait for one that a thread of low priority copies.
  constexpr uint64_t chunkBytes = 1 << 20;
  for (Part &part : parts)
    part.due = order.firstWrite(part.offset, part.bytes);
  std::sort(parts.begin(), parts.end(), [](const Part &a, const Part &b) {
    return std::tie(a.due, a.to) < std::tie(b.due, b.to);
  });
  for (const Part &part : parts)
    for (uint64_t at = 0; at < part.bytes; at += chunkBytes)
      chunks.push_back({part.offset + static_cast<int64_t>(at),
                        std::min(chunkBytes, part.bytes - at), part.to + at,
                        part.due});
  isCopied = std::make_unique<std::atomic<bool>[]>(chunks.size());
  dueNext = chunks.empty() ? KERF_NONE : chunks.front().due;
}

/// How many chunks are due up to `place`: they lie in front.
size_t Snapshot::dueChunks(uint32_t place) const {
  return std::upper_bound(chunks.begin(), chunks.end(), place,
                          [](uint32_t value, const Part &chunk) {
                            return value < chunk.due;
                          }) -
         chunks.begin();
}

void Snapshot::passed(uint32_t place) {
  size_t there = dueChunks(place);
  dueNext = there < chunks.size() ? chunks[there].due : KERF_NONE;
}

bool Snapshot::copy(const char *arena, uint32_t place) {
  size_t end = dueChunks(place);
  // A chunk that is taken is copied, also beyond the end.
  while (next.load(std::memory_order_relaxed) < end && !isDropped) {
    size_t own = next.fetch_add(1);
    if (own >= chunks.size())
      break;
    const Part &chunk = chunks[own];
    std::memcpy(chunk.to, arena + chunk.offset, chunk.bytes);
    isCopied[own].store(true, std::memory_order_release);
  }
  for (size_t n = 0; n < end; ++n)
    while (!isCopied[n].load(std::memory_order_acquire)) {
      if (isDropped)
        return false;
      sched_yield();
    }
  return !isDropped;
}

//===----------------------------------------------------------------------===//
// In a session
//===----------------------------------------------------------------------===//

static bool canCopyBeside(const kerf_device_api &api) {
  return api.alloc_host && api.free_host && api.copy_beside &&
         api.join_copies && api.await_copies;
}

Status kerf_session::takeSnapshotMemory(uint64_t bytes, bool beside,
                                        void **memory) {
  char error[512] = "";
  if (beside && canCopyBeside(*api) &&
      api->alloc_host(device, bytes, memory, error, sizeof error) ==
          KERF_DEVICE_OK) {
    pinnedMemory = *memory;
    return {};
  }
  constexpr uint64_t hugePage = 2 << 20;
  bytes = (bytes + hugePage - 1) / hugePage * hugePage;
  snapshotMemory.reset(std::aligned_alloc(hugePage, bytes));
  *memory = snapshotMemory.get();
  if (*memory)
    madvise(*memory, bytes, MADV_HUGEPAGE); // only advice: may be refused
  return *memory ? Status()
                 : failure(KERF_NO_MEMORY,
                           "no memory for a copy of %llu bytes of the state",
                           (unsigned long long)bytes);
}

Status kerf_session::beginSnapshot(std::vector<Snapshot::Part> parts) {
  if (!writeOrder)
    writeOrder = std::make_unique<WriteOrder>(view);
  snapshot = std::make_unique<Snapshot>(*writeOrder, std::move(parts));
  isBesideSnapshot = true;
  if (hasHostMemory())
    return {};
  snapshot->isOnDevice = pinnedMemory != nullptr;
  char error[512] = "";
  for (const Snapshot::Part &part : snapshot->all()) {
    const char *from = arena + part.offset;
    if (!pinnedMemory)
      api->copy_out(device, part.to, from, part.bytes);
    else if (api->copy_beside(device, part.to, from, part.bytes, error,
                              sizeof error))
      return failure(KERF_FAILED, "%s", error);
  }
  if (pinnedMemory)
    return {};
  snapshot->passedAll();
  return waitForDevice();
}

/// Before a command runs: what it writes must be copied.
Status kerf_session::awaitSnapshot(uint32_t index) {
  if (!snapshot || !snapshot->isDue(writeOrder->placeOf(index)))
    return {};
  double start = clockSeconds();
  uint32_t place = writeOrder->placeOf(index);
  char error[512] = "";
  if (!snapshot->isOnDevice) {
    snapshot->copy(arena, place);
    snapshot->passed(place);
  } else if (api->join_copies(device, error, sizeof error)) {
    return failure(KERF_FAILED, "%s", error);
  } else {
    snapshot->passedAll(); // the device waits
  }
  snapshot->waitedSec += clockSeconds() - start;
  return {};
}

Status kerf_session::finishSnapshot() {
  if (!snapshot)
    return {};
  char error[512] = "";
  if (snapshot->isOnDevice)
    return api->await_copies(device, error, sizeof error)
               ? failure(KERF_FAILED, "%s", error)
               : Status();
  if (hasHostMemory() && !snapshot->copy(arena, KERF_NONE))
    return failure(KERF_FAILED, "the copy of the state was given up");
  return {};
}

//===----------------------------------------------------------------------===//
// C border
//===----------------------------------------------------------------------===//

kerf_status kerf_session_snapshot_memory(kerf_session *session, uint64_t bytes,
                                         bool beside, void **memory,
                                         kerf_error *error) {
  return session->takeSnapshotMemory(bytes, beside, memory).report(error);
}

kerf_status kerf_session_finish_snapshot(kerf_session *session,
                                         kerf_error *error) {
  return session->finishSnapshot().report(error);
}

void kerf_session_drop_snapshot(kerf_session *session) {
  if (session->snapshot)
    session->snapshot->drop();
}

double kerf_session_snapshot_wait(const kerf_session *session) {
  return session->snapshot ? session->snapshot->waitedSec : 0;
}
