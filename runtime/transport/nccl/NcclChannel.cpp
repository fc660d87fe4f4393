//===- NcclChannel.cpp ----------------------------------------------------===//

#include "NcclChannel.h"

#include <algorithm>
#include <utility>

using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

Status NcclChannel::makeCopy(Copy &copy) {
  Status status = state.alloc(spec.bytes, copy.memory);
  for (Event *event : {&copy.isMade, &copy.isSent})
    if (!status.failed())
      status = state.gpu->makeEvent(*event);
  return status;
}

Status NcclChannel::prepare() {
  uint32_t place = isSender() ? 0 : 1;
  live = state.name({spec.from, 2, place, 0,
                     keyOf({spec.from, spec.to}, kerf_mix(spec.key) | 1)});
  word = state.takeWord();
  copies.resize(isSender() ? spec.holds : 1);
  Status status = state.alloc(1, greeting);
  if (!status.failed())
    status = state.gpu->makeStream(stream);
  if (!status.failed() && isSender())
    status = state.gpu->makeEvent(isJoined);
  if (stream)
    state.addStream(stream);
  for (Copy &copy : copies)
    if (!status.failed())
      status = makeCopy(copy);
  return status;
}

NcclChannel::~NcclChannel() {
  all.remove(this);
  // What nobody received is given up with the communicator.
  if (stream && sent != 0)
    (void)state.drain(stream);
  if (live)
    state.release(live);
  for (Copy &copy : copies) {
    if (copy.memory)
      state.api->free(state.device, copy.memory,
                      std::max<uint64_t>(spec.bytes, 1));
    for (Event event : {copy.isMade, copy.isSent})
      if (event)
        state.gpu->freeEvent(event);
  }
  if (greeting)
    state.api->free(state.device, greeting, 1);
  if (isJoined)
    state.gpu->freeEvent(isJoined);
  if (stream) {
    state.dropStream(stream);
    state.gpu->freeStream(stream);
  }
  if (word.address)
    state.giveWord(word);
}

Status NcclChannel::fits(bool asSender, uint64_t bytes) const {
  if (asSender != isSender())
    return failure(KERF_INVALID,
                   "rank %u is the %s of the channel from %u to %u", state.rank,
                   isSender() ? "sender" : "receiver", spec.from, spec.to);
  if (bytes > spec.bytes)
    return failure(KERF_INVALID,
                   "a message of %llu bytes in a channel for %llu",
                   (unsigned long long)bytes, (unsigned long long)spec.bytes);
  return {};
}

Status NcclChannel::send(const void *data, uint64_t bytes) {
  if (Status status = fits(true, bytes); status.failed() || bytes == 0)
    return status;
  Copy &copy = copies[sent++ % copies.size()];
  isPending = true;
  Gpu &gpu = *state.gpu;
  Stream steps = state.stream(0);
  Status status = copy.isUsed ? gpu.wait(steps, copy.isSent) : Status();
  if (!status.failed())
    status = gpu.copy(copy.memory, data, bytes, steps);
  if (!status.failed())
    status = gpu.record(copy.isMade, steps);
  if (!status.failed())
    status = gpu.wait(stream, copy.isMade);
  if (!status.failed())
    status = state.mark(word, stream, [&] {
      return state.together(*live, "ncclSend", 1, [&](uint64_t) {
        return state.nccl->send(copy.memory, bytes, kUint8, 1, live->comm,
                                stream);
      });
    });
  if (!status.failed())
    status = gpu.record(copy.isSent, stream);
  copy.isUsed = true;
  return status;
}

Status NcclChannel::receive(void *data, uint64_t bytes) {
  if (Status status = fits(false, bytes); status.failed() || bytes == 0)
    return status;
  Stream steps = state.stream(0);
  return state.mark(word, steps, [&] {
    if (expected != 0)
      return take(data, bytes);
    return state.together(*live, "ncclRecv", 1, [&](uint64_t) {
      return state.nccl->receive(data, bytes, kUint8, 0, live->comm, steps);
    });
  });
}

/// Hands on the message that was expected.
Status NcclChannel::take(void *data, uint64_t bytes) {
  uint64_t coming = std::exchange(expected, 0);
  if (coming != bytes)
    return failure(KERF_INVALID,
                   "a message of %llu bytes, where %llu were expected",
                   (unsigned long long)bytes, (unsigned long long)coming);
  Stream steps = state.stream(0);
  Status status = state.gpu->wait(steps, copies[0].isSent);
  if (!status.failed())
    status = state.gpu->copy(data, copies[0].memory, bytes, steps);
  return status;
}

Status NcclChannel::expect(uint64_t bytes) {
  if (Status status = fits(false, bytes); status.failed() || bytes == 0)
    return status;
  Copy &copy = copies[0];
  Status status = state.gpu->record(copy.isMade, state.stream(0));
  if (!status.failed())
    status = state.gpu->wait(stream, copy.isMade);
  if (!status.failed())
    status = state.together(*live, "ncclRecv", 1, [&](uint64_t) {
      return state.nccl->receive(copy.memory, bytes, kUint8, 0, live->comm,
                                 stream);
    });
  if (!status.failed())
    status = state.gpu->record(copy.isSent, stream);
  expected = bytes;
  return status;
}

Status NcclChannel::greet() {
  hasGreeted = true;
  return state.together(
      *live, isSender() ? "ncclSend" : "ncclRecv", 1, [&](uint64_t) {
        return isSender() ? state.nccl->send(greeting, 1, kUint8, 1, live->comm,
                                             stream)
                          : state.nccl->receive(greeting, 1, kUint8, 0,
                                                live->comm, state.stream(0));
      });
}

Status NcclChannel::awaitGreeting() {
  return state.drain(isSender() ? stream : state.stream(0));
}

Status NcclChannel::join() {
  // A stream that was joined before is outside of a recording that has begun
  // since: it must not be waited for in there.
  if (!std::exchange(isPending, false))
    return {};
  Status status = state.gpu->record(isJoined, stream);
  if (!status.failed())
    status = state.gpu->wait(state.stream(0), isJoined);
  for (Copy &copy : copies)
    copy.isUsed = false;
  return status;
}
