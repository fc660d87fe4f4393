//===- ShmChannel.cpp -----------------------------------------------------===//

#include "ShmChannel.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

using namespace kerf::runtime;
using namespace kerf::runtime::shm;

namespace {
/// At the start of a channel's memory; messages follow.
struct Ring {
  alignas(64) std::atomic<uint64_t> posted;   ///< number of messages
  alignas(64) std::atomic<uint64_t> consumed; ///< number of messages
  alignas(64) std::atomic<uint32_t> closed;   ///< as ChannelRecord::closed
};

struct alignas(64) Message {
  uint64_t bytes;
  alignas(64) char data[];
};

enum End : uint32_t { kSender = 1, kReceiver = 2 };

class LockedTable {
public:
  explicit LockedTable(Segment &segment) : segment(segment) {
    segment.lockChannels();
  }
  ~LockedTable() { segment.unlockChannels(); }

private:
  Segment &segment;
};

class ShmChannel : public Channel {
public:
  ShmChannel(Segment &segment, const ChannelSpec &spec, ChannelRecord &record,
             char *memory)
      : segment(segment), spec(spec), record(record), memory(memory),
        extent(record.extent),
        end(segment.rank == spec.from ? kSender : kReceiver),
        peer(end == kSender ? spec.to : spec.from),
        ends{std::min(spec.from, spec.to), std::max(spec.from, spec.to)} {}
  ~ShmChannel() override;

  Status send(const void *data, uint64_t bytes) override;
  Status receive(void *data, uint64_t bytes) override;

private:
  Ring &ring() { return *reinterpret_cast<Ring *>(memory); }
  Message &message(uint64_t number);
  bool peerClosed() { return ring().closed.load() & ~end; }
  Status wrongEnd() const;
  Status closedByPeer() const;

  Segment &segment;
  const ChannelSpec spec;
  ChannelRecord &record;
  char *const memory;
  const uint64_t extent;
  const End end;
  const uint32_t peer;
  const std::vector<uint32_t> ends; ///< both ranks
  uint64_t passed = 0;              ///< messages through this end
};
} // namespace

/// Distance of messages.
static uint64_t messageBytes(const ChannelSpec &spec) {
  return sizeof(Message) + (spec.bytes + 63) / 64 * 64;
}

uint64_t shm::channelBytes(const ChannelSpec &spec) {
  uint64_t page = sysconf(_SC_PAGESIZE);
  uint64_t bytes = sizeof(Ring) + spec.holds * messageBytes(spec);
  return (bytes + page - 1) / page * page;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Message &ShmChannel::message(uint64_t number) {
  return *reinterpret_cast<Message *>(memory + sizeof(Ring) +
                                      number % spec.holds * messageBytes(spec));
}

Status ShmChannel::wrongEnd() const {
  return failure(KERF_INVALID, "rank %u is the %s of the channel from %u to %u",
                 segment.rank, end == kSender ? "sender" : "receiver",
                 spec.from, spec.to);
}

Status ShmChannel::closedByPeer() const {
  return failure(KERF_PEER_LOST, "rank %u closed the channel from %u to %u",
                 peer, spec.from, spec.to);
}

Status ShmChannel::send(const void *data, uint64_t bytes) {
  if (end != kSender)
    return wrongEnd();
  if (bytes > spec.bytes)
    return failure(KERF_INVALID,
                   "a message of %llu bytes in a channel for %llu",
                   (unsigned long long)bytes, (unsigned long long)spec.bytes);
  segment.watch.setGroup(ends);
  auto hasRoom = [&] { return ring().consumed.load() + spec.holds > passed; };
  Status status = segment.wait(peer, [&] { return hasRoom() || peerClosed(); });
  if (status.failed())
    return status;
  if (peerClosed())
    return closedByPeer();
  Message &slot = message(passed);
  slot.bytes = bytes;
  if (bytes != 0)
    std::memcpy(slot.data, data, bytes);
  ring().posted.store(++passed);
  segment.ring(peer);
  return {};
}

Status ShmChannel::receive(void *data, uint64_t bytes) {
  if (end != kReceiver)
    return wrongEnd();
  segment.watch.setGroup(ends);
  auto hasMessage = [&] { return ring().posted.load() > passed; };
  Status status =
      segment.wait(peer, [&] { return hasMessage() || peerClosed(); });
  if (status.failed())
    return status;
  // The sender may have closed behind its last message.
  if (!hasMessage())
    return closedByPeer();
  const Message &slot = message(passed);
  if (slot.bytes != bytes) {
    status = failure(KERF_FAILED,
                     "ranks disagree: rank %u sent a message of %llu bytes, "
                     "rank %u expects %llu",
                     peer, (unsigned long long)slot.bytes, segment.rank,
                     (unsigned long long)bytes);
    segment.abort(status.message.c_str());
    return status;
  }
  if (bytes != 0)
    std::memcpy(data, slot.data, bytes);
  ring().consumed.store(++passed);
  segment.ring(peer);
  return {};
}

//===----------------------------------------------------------------------===//
// Opening and closing
//===----------------------------------------------------------------------===//

/// The record that the other end made, or none.
static ChannelRecord *findRecord(Segment &segment, const ChannelSpec &spec,
                                 End end) {
  ChannelRecord *found = nullptr;
  for (uint32_t c = 0; c < kMaxChannels; ++c) {
    ChannelRecord &record = segment.channels()[c];
    bool fits = record.number != 0 && record.from == spec.from &&
                record.to == spec.to && record.key == spec.key &&
                !(record.opened & end);
    if (fits && (!found || record.number < found->number))
      found = &record;
  }
  return found;
}

/// A new record with memory: that of a channel which is gone, if it fits.
static Status makeRecord(Segment &segment, const ChannelSpec &spec,
                         ChannelRecord *&made) {
  uint64_t extent = channelBytes(spec), last = 0;
  ChannelRecord *fresh = nullptr, *used = nullptr;
  for (uint32_t c = 0; c < kMaxChannels; ++c) {
    ChannelRecord &record = segment.channels()[c];
    last = std::max(last, record.number);
    if (record.number != 0)
      continue;
    if (!used && record.extent == extent)
      used = &record;
    if (!fresh && record.extent == 0)
      fresh = &record;
  }
  made = used ? used : fresh;
  if (!made)
    return failure(KERF_INVALID, "more than %u channels", kMaxChannels);
  uint64_t offset = made->offset;
  Status status = segment.reserve(extent, offset);
  if (status.failed())
    return status;
  *made = {last + 1,  spec.key, spec.bytes, offset, extent,
           spec.from, spec.to,  spec.holds, 0,      0};
  return {};
}

Status shm::openChannel(Segment &segment, const ChannelSpec &spec,
                        std::unique_ptr<Channel> &channel) {
  bool isEnd = (spec.from == segment.rank) != (spec.to == segment.rank);
  if (!isEnd || spec.from >= segment.size || spec.to >= segment.size)
    return failure(KERF_INVALID,
                   "rank %u of %u opens a channel from rank %u to %u",
                   segment.rank, segment.size, spec.from, spec.to);
  if (spec.holds == 0)
    return failure(KERF_INVALID, "a channel that holds no message");
  End end = segment.rank == spec.from ? kSender : kReceiver;
  LockedTable lock(segment);
  ChannelRecord *record = findRecord(segment, spec, end);
  Status status;
  if (!record)
    status = makeRecord(segment, spec, record);
  else if (record->holds != spec.holds || record->bytes != spec.bytes)
    status = failure(KERF_FAILED,
                     "ranks disagree: the channel from rank %u to %u holds %u "
                     "messages of %llu bytes for one, %u of %llu for the other",
                     spec.from, spec.to, record->holds,
                     (unsigned long long)record->bytes, spec.holds,
                     (unsigned long long)spec.bytes);
  char *memory = nullptr;
  if (!status.failed())
    status = segment.map(record->offset, record->extent, memory);
  if (status.failed())
    return status;
  record->opened |= end;
  channel = std::make_unique<ShmChannel>(segment, spec, *record, memory);
  return {};
}

ShmChannel::~ShmChannel() {
  LockedTable lock(segment);
  ring().closed.fetch_or(end);
  record.closed |= end;
  segment.ring(peer);
  munmap(memory, extent);
  if (record.closed != (kSender | kReceiver))
    return;
  segment.release(record.offset, extent);
  record.number = 0;
}
