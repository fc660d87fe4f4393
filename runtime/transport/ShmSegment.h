//===- ShmSegment.h - the memory that ranks of one machine share ----------===//
//
// A segment holds a control block, a doorbell per rank, a link per ordered pair
// of ranks, a table of channels, and a mailbox per rank: two halves that the
// rank fills by turns. To post, a rank waits until its readers are done with
// what was in the half, fills it, and announces it in the link to each reader.
// A reader copies or sums from the mailbox in place and marks the channel
// consumed. Who waits spins for a moment, then sleeps on its doorbell (a
// futex), which everybody rings who changes something that it may wait for.
//
// Behind all this the file grows by the memory of channels (ShmChannel.h). It
// has no name any more by then: whoever dies, nothing is left.
//
// A rank holds a lock on its byte of the segment's file for as long as it
// lives: the kernel takes it away when the process dies, reaped or not.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_SHMSEGMENT_H
#define KERF_RUNTIME_TRANSPORT_SHMSEGMENT_H

#include "Transport.h"
#include "Watch.h"

#include <atomic>

namespace kerf::runtime::shm {

constexpr uint32_t kMaxRanks = 64;
/// Of data in one half of a mailbox; of two ranks all halves fit into a second
/// level cache.
constexpr uint64_t kChunkBytes = 256 << 10;

enum RankState : uint32_t { kAbsent, kJoined, kLeft };

struct Control {
  std::atomic<uint64_t> ready; ///< kReady once the rest is valid
  uint64_t programHash;
  uint32_t size;
  uint64_t end; ///< of the file, with the table's lock
  std::atomic<uint32_t> states[kMaxRanks]; ///< RankState
  std::atomic<uint32_t> abortState;        ///< 0 no, 1 being written, 2 yes
  char abortMessage[1024];
  RankNote notes[kMaxRanks];
};
constexpr uint64_t kReady = UINT64_C(0x6b65726673686d31);

struct alignas(64) Doorbell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleeping;
};

/// From one writer to one reader. At most two messages are on their way: one
/// per half. Message number c (from 1) is announced in posted[c % 2] as
/// c * 2 + half.
struct Link {
  alignas(64) std::atomic<uint64_t> posted[2];
  alignas(64) std::atomic<uint64_t> consumed; ///< number of messages
};

/// What both sides must agree on.
struct Tag {
  uint32_t kind;
  uint32_t members;
  uint64_t bytes;
  bool operator==(const Tag &) const = default;
};

struct alignas(64) Half {
  Tag tag;
  alignas(64) char data[kChunkBytes];
};

constexpr uint32_t kMaxChannels = 1024;

/// A channel, or memory that the next one may have. All of it is read and
/// written with the table's lock.
struct ChannelRecord {
  uint64_t number; ///< channels are counted as they are made; 0: none
  uint64_t key, bytes;
  uint64_t offset, extent; ///< its memory in the file
  uint32_t from, to, holds;
  uint32_t opened, closed; ///< bit 0: by the sender, bit 1: by the receiver
};

/// Shared memory of a job without channels.
uint64_t segmentBytes(uint32_t ranks);

/// The mapped segment as one rank sees it.
class Segment {
public:
  ~Segment();

  /// Creates it (rank 0) or finds it, and waits until all ranks are there.
  static Status join(const Rendezvous &rendezvous,
                     std::unique_ptr<Segment> &segment);

  const uint32_t rank, size;
  Watch watch;

  Control &control() { return *reinterpret_cast<Control *>(memory); }
  Doorbell &doorbell(uint32_t of);
  Link &link(uint32_t writer, uint32_t reader);
  Half &half(uint32_t writer, uint32_t number);

  /// The table of kMaxChannels records, for who has its lock. The kernel takes
  /// the lock from a rank that dies.
  ChannelRecord *channels();
  void lockChannels();
  void unlockChannels();
  /// Memory for a channel: zero, of whole pages, in place of [*offset, *offset
  /// + bytes) where that is not 0, else at the end of the file. With the lock.
  Status reserve(uint64_t bytes, uint64_t &offset);
  /// Gives memory back to the system; the offset stays ours. With the lock.
  void release(uint64_t offset, uint64_t bytes);
  Status map(uint64_t offset, uint64_t bytes, char *&mapped);
  /// Memory that all of the job holds now.
  uint64_t memoryBytes() const;

  /// Tells `to` that something changed.
  void ring(uint32_t to);
  /// Records a message for all ranks and wakes them. False if there is one
  /// already.
  bool abort(const char *message);
  /// Fails when the job was aborted or a rank died; with `peer` also when that
  /// one left.
  Status checkPeers(uint32_t peer);

  /// Returns when `ready()`, which depends on what `peer` does. Fails as
  /// `checkPeers`, at most about 0.1 s late, and when the job stands still.
  template <typename Predicate> Status wait(uint32_t peer, Predicate ready) {
    for (uint32_t spin = 0; spin < spins; ++spin) {
      if (ready())
        return {};
      pause();
    }
    return waitAsleep(peer, &ready, [](void *predicate) {
      return (*static_cast<Predicate *>(predicate))();
    });
  }

  /// The same for what no other rank rings for: looks again and again.
  Status poll(const std::function<bool()> &ready);

private:
  Segment(const Rendezvous &rendezvous);
  Status create(const Rendezvous &rendezvous);
  Status find(const Rendezvous &rendezvous);
  Status open(const Rendezvous &rendezvous, bool &found);
  Status enter(const Rendezvous &rendezvous);
  Status awaitAll(const Rendezvous &rendezvous);
  uint32_t missingRank();
  void tellLateRanks();
  Status waitAsleep(uint32_t peer, void *predicate, bool (*ready)(void *));
  Status checkStall();
  bool isMessageThere();
  bool isAlive(uint32_t of);
  void close();
  uint64_t bytes() const { return segmentBytes(size); }
  static void pause();

  std::string path;
  int file = -1;
  char *memory = nullptr;
  bool linked = false; ///< the name exists and is ours to remove
  bool joined = false;
  uint32_t spins;
};

/// The name in the file system of shared memory.
std::string pathOf(const std::string &name);

} // namespace kerf::runtime::shm

#endif // KERF_RUNTIME_TRANSPORT_SHMSEGMENT_H
