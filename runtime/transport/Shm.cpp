//===- Shm.cpp - collectives through shared memory ------------------------===//
//
// All work is cut into chunks that fit into half a mailbox. A large all-reduce
// is a reduce-scatter and an all-gather of each chunk: of n ranks each sums one
// part. With two ranks, and for little data, every rank sums all by itself:
// that is one exchange instead of two. Sums go over the members in order in
// both ways, so the bits are the same.
//
//===----------------------------------------------------------------------===//

#include "Reduce.h"
#include "Rows.h"
#include "ShmChannel.h"
#include "ShmSegment.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <sys/mman.h>

using namespace kerf::runtime;
using namespace kerf::runtime::shm;

namespace {
enum Kind : uint32_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kRotate,
  kSend,
  kBarrier
};

const char *const kKindNames[] = {"all_reduce", "all_gather", "reduce_scatter",
                                  "all_to_all", "rotate",     "send",
                                  "barrier"};

/// Posting and taking of messages, for all groups of a rank.
class Post {
public:
  explicit Post(std::unique_ptr<Segment> segment)
      : segment(std::move(segment)) {}

  uint32_t rank() const { return segment->rank; }
  Segment &memory() { return *segment; }

  /// The half to fill next, once its last readers are done.
  Status begin(char *&data);
  /// Announces the filled half to `readers` (without this rank).
  void announce(const std::vector<uint32_t> &readers, const Tag &tag);
  /// Waits for the next message of `writer`; valid until `done`.
  Status take(uint32_t writer, const Tag &tag, const char *&data);
  void done(uint32_t writer);

private:
  struct Reader {
    uint32_t rank;
    uint64_t message;
  };
  std::unique_ptr<Segment> segment;
  std::array<uint64_t, kMaxRanks> sent = {}, received = {};
  std::array<std::vector<Reader>, 2> readers;
  uint32_t next = 0; ///< half
};

class ShmCommunicator : public Communicator {
public:
  ShmCommunicator(Post &post, std::vector<uint32_t> all);

  uint32_t rank() const override { return self; }
  uint32_t size() const override { return members.size(); }
  Status allReduce(const void *source, void *destination, uint32_t dtype,
                   uint32_t reduction, uint64_t count) override;
  Status allGather(const void *source, void *destination, uint32_t dtype,
                   uint64_t outer, uint64_t inner) override;
  Status reduceScatter(const void *source, void *destination, uint32_t dtype,
                       uint32_t reduction, uint64_t outer,
                       uint64_t inner) override;
  Status allToAll(const void *source, void *destination, uint32_t dtype,
                  bool back, uint64_t outer, uint64_t middle,
                  uint64_t inner) override;
  Status rotate(const void *source, void *destination, uint32_t dtype,
                uint64_t count) override;
  Status send(uint32_t member, const void *data, uint64_t bytes) override;
  Status receive(uint32_t member, void *data, uint64_t bytes) override;
  Status barrier() override;

private:
  /// Messages of all members, this rank's among them, by member.
  using Messages = std::array<const char *, kMaxRanks>;
  /// Announces the filled half, then waits for those of all others.
  Status exchange(const char *own, const Tag &tag, Messages &messages);
  /// Post::begin of this group.
  Status begin(char *&data) {
    post.memory().watch.setGroup(members);
    return post.begin(data);
  }
  void releaseAll();
  Status reduceWhole(const char *source, char *destination, uint32_t dtype,
                     uint32_t reduction, uint64_t count);
  Status reduceParts(const char *source, char *destination, uint32_t dtype,
                     uint32_t reduction, uint64_t count);
  Tag tag(Kind kind, uint64_t bytes) const { return {kind, size(), bytes}; }

  Post &post;
  std::vector<uint32_t> members, others; ///< ranks
  uint32_t self;                         ///< number of this member
};

class ShmTransport : public Transport {
public:
  explicit ShmTransport(std::unique_ptr<Segment> segment)
      : post(std::move(segment)) {}

  Status split(const std::vector<uint32_t> &members,
               std::unique_ptr<Communicator> &group) override {
    for (uint32_t member : members)
      if (member >= post.memory().size)
        return failure(KERF_INVALID, "no rank %u in a job of %u", member,
                       post.memory().size);
    if (std::count(members.begin(), members.end(), post.rank()) != 1)
      return failure(KERF_INVALID, "rank %u is not in the group", post.rank());
    group = std::make_unique<ShmCommunicator>(post, members);
    return {};
  }
  Status open(const ChannelSpec &spec,
              std::unique_ptr<Channel> &channel) override {
    return openChannel(post.memory(), spec, channel);
  }
  void enter(uint32_t command) override { post.memory().watch.enter(command); }
  void abort(const char *message) override {
    std::string text = "rank " + std::to_string(post.rank()) + ": " + message;
    post.memory().abort(text.c_str());
  }

private:
  Post post;
};
} // namespace

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Status Post::begin(char *&data) {
  for (const Reader &reader : readers[next]) {
    auto &consumed = segment->link(rank(), reader.rank).consumed;
    Status status = segment->wait(
        reader.rank, [&] { return consumed.load() >= reader.message; });
    if (status.failed())
      return status;
  }
  readers[next].clear();
  data = segment->half(rank(), next).data;
  return {};
}

void Post::announce(const std::vector<uint32_t> &to, const Tag &tag) {
  segment->half(rank(), next).tag = tag;
  for (uint32_t reader : to) {
    uint64_t message = ++sent[reader];
    readers[next].push_back({reader, message});
    segment->link(rank(), reader).posted[message % 2].store(message * 2 + next);
    segment->ring(reader);
  }
  next ^= 1;
}

Status Post::take(uint32_t writer, const Tag &tag, const char *&data) {
  uint64_t message = ++received[writer];
  auto &posted = segment->link(writer, rank()).posted[message % 2];
  Status status =
      segment->wait(writer, [&] { return posted.load() / 2 == message; });
  if (status.failed())
    return status;
  const Half &half = segment->half(writer, posted.load() % 2);
  if (!(half.tag == tag)) {
    status =
        failure(KERF_FAILED,
                "ranks disagree: rank %u is in %s of %llu bytes, rank %u "
                "in %s of %llu",
                rank(), kKindNames[tag.kind], (unsigned long long)tag.bytes,
                writer, kKindNames[std::min<uint32_t>(half.tag.kind, kBarrier)],
                (unsigned long long)half.tag.bytes);
    segment->abort(status.message.c_str());
    return status;
  }
  data = half.data;
  return {};
}

void Post::done(uint32_t writer) {
  segment->link(writer, rank()).consumed.store(received[writer]);
  segment->ring(writer);
}

ShmCommunicator::ShmCommunicator(Post &post, std::vector<uint32_t> all)
    : post(post), members(std::move(all)), self(0) {
  for (uint32_t m = 0; m < members.size(); ++m)
    if (members[m] == post.rank())
      self = m;
    else
      others.push_back(members[m]);
}

Status ShmCommunicator::exchange(const char *own, const Tag &tag,
                                 Messages &messages) {
  post.announce(others, tag);
  messages[self] = own;
  for (uint32_t m = 0; m < size(); ++m) {
    if (m == self)
      continue;
    Status status = post.take(members[m], tag, messages[m]);
    if (status.failed())
      return status;
  }
  return {};
}

void ShmCommunicator::releaseAll() {
  for (uint32_t other : others)
    post.done(other);
}

/// Bytes of a chunk that is cut into `parts` pieces of whole elements.
static uint64_t pieceBytes(uint64_t parts) {
  return kChunkBytes / parts / 64 * 64;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Every member sums the chunk.
Status ShmCommunicator::reduceWhole(const char *source, char *destination,
                                    uint32_t dtype, uint32_t reduction,
                                    uint64_t count) {
  uint64_t bytes = count * kerf_dtype_bytes(dtype);
  char *box;
  Status status = begin(box);
  if (status.failed())
    return status;
  std::memcpy(box, source, bytes);
  Messages messages;
  status = exchange(source, tag(kAllReduce, bytes), messages);
  if (status.failed())
    return status;
  reduceBuffers(dtype, reduction,
                reinterpret_cast<const void *const *>(messages.data()), size(),
                destination, count);
  releaseAll();
  return {};
}

/// Member m sums part m of the chunk and gives it to the others.
Status ShmCommunicator::reduceParts(const char *source, char *destination,
                                    uint32_t dtype, uint32_t reduction,
                                    uint64_t count) {
  uint64_t size = this->size(), element = kerf_dtype_bytes(dtype);
  auto start = [&](uint64_t m) { return count * m / size; };
  char *box;
  Status status = begin(box);
  if (status.failed())
    return status;
  std::memcpy(box, source, count * element);
  Messages messages;
  status = exchange(source, tag(kAllReduce, count * element), messages);
  if (status.failed())
    return status;
  uint64_t first = start(self), mine = start(self + 1) - first;
  for (uint64_t m = 0; m < size; ++m)
    messages[m] += first * element;
  reduceBuffers(dtype, reduction,
                reinterpret_cast<const void *const *>(messages.data()), size,
                destination + first * element, mine);
  releaseAll();
  status = begin(box);
  if (status.failed())
    return status;
  std::memcpy(box, destination + first * element, mine * element);
  status = exchange(box, tag(kAllReduce, count * element + 1), messages);
  if (status.failed())
    return status;
  for (uint64_t m = 0; m < size; ++m)
    if (m != self)
      std::memcpy(destination + start(m) * element, messages[m],
                  (start(m + 1) - start(m)) * element);
  releaseAll();
  return {};
}

Status ShmCommunicator::allReduce(const void *source, void *destination,
                                  uint32_t dtype, uint32_t reduction,
                                  uint64_t count) {
  uint64_t element = kerf_dtype_bytes(dtype);
  uint64_t chunk = kChunkBytes / element;
  auto *from = static_cast<const char *>(source);
  auto *to = static_cast<char *>(destination);
  for (uint64_t at = 0; at < count; at += chunk) {
    uint64_t here = std::min(chunk, count - at);
    constexpr uint64_t littleBytes = 4096;
    bool whole = size() <= 2 || here * element <= littleBytes;
    auto reduce =
        whole ? &ShmCommunicator::reduceWhole : &ShmCommunicator::reduceParts;
    Status status = (this->*reduce)(from + at * element, to + at * element,
                                    dtype, reduction, here);
    if (status.failed())
      return status;
  }
  return {};
}

Status ShmCommunicator::allGather(const void *source, void *destination,
                                  uint32_t dtype, uint64_t outer,
                                  uint64_t inner) {
  uint64_t row = inner * kerf_dtype_bytes(dtype), total = outer * row;
  auto *from = static_cast<const char *>(source);
  auto *to = static_cast<char *>(destination);
  for (uint64_t at = 0; at < total; at += kChunkBytes) {
    uint64_t here = std::min(kChunkBytes, total - at);
    char *box;
    Status status = begin(box);
    if (status.failed())
      return status;
    std::memcpy(box, from + at, here);
    Messages messages;
    status = exchange(from + at, tag(kAllGather, here), messages);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < size(); ++m)
      Rows<char>{to + m * row, row, size() * row}.scatter(at, here,
                                                          messages[m]);
    releaseAll();
  }
  return {};
}

Status ShmCommunicator::reduceScatter(const void *source, void *destination,
                                      uint32_t dtype, uint32_t reduction,
                                      uint64_t outer, uint64_t inner) {
  uint64_t element = kerf_dtype_bytes(dtype);
  uint64_t row = inner * element, total = outer * row;
  uint64_t piece = pieceBytes(size());
  auto *from = static_cast<const char *>(source);
  auto *to = static_cast<char *>(destination);
  for (uint64_t at = 0; at < total; at += piece) {
    uint64_t here = std::min(piece, total - at);
    char *box;
    Status status = begin(box);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < size(); ++m)
      Rows<const char>{from + m * row, row, size() * row}.gather(
          at, here, box + m * here);
    Messages messages;
    status = exchange(box, tag(kReduceScatter, here), messages);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < size(); ++m)
      messages[m] += self * here;
    reduceBuffers(dtype, reduction,
                  reinterpret_cast<const void *const *>(messages.data()),
                  size(), to + at, here / element);
    releaseAll();
  }
  return {};
}

Status ShmCommunicator::allToAll(const void *source, void *destination,
                                 uint32_t dtype, bool back, uint64_t outer,
                                 uint64_t middle, uint64_t inner) {
  // Where n stands outside the middle, rows are long.
  uint64_t shortRow = inner * kerf_dtype_bytes(dtype);
  uint64_t longRow = middle * shortRow, total = outer * longRow;
  uint64_t sourceRow = back ? shortRow : longRow;
  uint64_t row = back ? longRow : shortRow;
  uint64_t piece = pieceBytes(size());
  auto *from = static_cast<const char *>(source);
  auto *to = static_cast<char *>(destination);
  for (uint64_t at = 0; at < total; at += piece) {
    uint64_t here = std::min(piece, total - at);
    char *box;
    Status status = begin(box);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < size(); ++m)
      Rows<const char>{from + m * sourceRow, sourceRow, size() * sourceRow}
          .gather(at, here, box + m * here);
    Messages messages;
    status = exchange(box, tag(kAllToAll, here), messages);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < size(); ++m)
      Rows<char>{to + m * row, row, size() * row}.scatter(
          at, here, messages[m] + self * here);
    releaseAll();
  }
  return {};
}

Status ShmCommunicator::rotate(const void *source, void *destination,
                               uint32_t dtype, uint64_t count) {
  uint64_t total = count * kerf_dtype_bytes(dtype);
  uint32_t next = members[(self + 1) % size()];
  uint32_t previous = members[(self + size() - 1) % size()];
  auto *from = static_cast<const char *>(source);
  auto *to = static_cast<char *>(destination);
  if (size() == 1 && total != 0)
    std::memmove(to, from, total);
  for (uint64_t at = 0; at < total && size() > 1; at += kChunkBytes) {
    uint64_t here = std::min(kChunkBytes, total - at);
    char *box;
    Status status = begin(box);
    if (status.failed())
      return status;
    std::memcpy(box, from + at, here);
    post.announce({previous}, tag(kRotate, here));
    const char *message;
    status = post.take(next, tag(kRotate, here), message);
    if (status.failed())
      return status;
    std::memcpy(to + at, message, here);
    post.done(next);
  }
  return {};
}

Status ShmCommunicator::send(uint32_t member, const void *data,
                             uint64_t bytes) {
  if (member >= size() || member == self)
    return failure(KERF_INVALID, "no other member %u in a group of %u", member,
                   size());
  auto *from = static_cast<const char *>(data);
  for (uint64_t at = 0; at < bytes; at += kChunkBytes) {
    uint64_t here = std::min(kChunkBytes, bytes - at);
    char *box;
    Status status = begin(box);
    if (status.failed())
      return status;
    std::memcpy(box, from + at, here);
    post.announce({members[member]}, tag(kSend, here));
  }
  return {};
}

Status ShmCommunicator::receive(uint32_t member, void *data, uint64_t bytes) {
  if (member >= size() || member == self)
    return failure(KERF_INVALID, "no other member %u in a group of %u", member,
                   size());
  post.memory().watch.setGroup(members);
  auto *to = static_cast<char *>(data);
  for (uint64_t at = 0; at < bytes; at += kChunkBytes) {
    uint64_t here = std::min(kChunkBytes, bytes - at);
    const char *message;
    Status status = post.take(members[member], tag(kSend, here), message);
    if (status.failed())
      return status;
    std::memcpy(to + at, message, here);
    post.done(members[member]);
  }
  return {};
}

Status ShmCommunicator::barrier() {
  char *box;
  Status status = begin(box);
  if (status.failed())
    return status;
  Messages messages;
  status = exchange(box, tag(kBarrier, 0), messages);
  if (!status.failed())
    releaseAll();
  return status;
}

Status kerf::runtime::connectShm(const Rendezvous &rendezvous,
                                 std::unique_ptr<Transport> &transport) {
  std::unique_ptr<Segment> segment;
  Status status = Segment::join(rendezvous, segment);
  if (status.failed())
    return status;
  transport = std::make_unique<ShmTransport>(std::move(segment));
  return {};
}

void kerf::runtime::cleanupShm(const std::string &name) {
  shm_unlink(pathOf(name).c_str());
}
