//===- Shm.cpp - collectives through shared memory ------------------------===//
//
// All work is split into chunks that fit into half a mailbox. A large
// all-reduce is a reduce-scatter and an all-gather of each chunk: of n ranks
// each sums one part. With two ranks, and for little data, every rank sums all
// by itself: that is one exchange instead of two. Sums go over the members in
// order in both ways, so the bits are the same.
//
//===----------------------------------------------------------------------===//

#include "Reduce.h"
#include "Rounds.h"
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
  kAllReduceSums,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kRotate,
  kSend,
  kBarrier
};

const char *const kKindNames[] = {"all_reduce",     "all_reduce", "all_gather",
                                  "reduce_scatter", "all_to_all", "rotate",
                                  "send",           "barrier"};

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
  Status start(const Exchange &exchange) override {
    rounds = roundsOf(exchange);
    return rounds.start();
  }
  Status finish() override { return rounds.finish(); }
  Status send(uint32_t member, const void *data, uint64_t bytes) override;
  Status receive(uint32_t member, void *data, uint64_t bytes) override;
  Status barrier() override;

private:
  /// Messages of all members, this rank's among them, by member.
  using Messages = std::array<const char *, kMaxRanks>;
  /// Lets `fill` write the half that is next, and announces it.
  template <typename Fill>
  Status give(const std::vector<uint32_t> &readers, const Tag &tag, Fill fill);
  /// The same with bytes of the source as they lie.
  Status giveSource(const std::vector<uint32_t> &readers, Kind kind,
                    const Exchange &exchange, uint64_t at, uint64_t bytes) {
    return give(readers, tag(kind, bytes), [&](char *box) {
      std::memcpy(box, sourceOf(exchange) + at, bytes);
    });
  }
  /// Waits for the messages of all others; `own` stands for this rank's.
  Status takeAll(const char *own, const Tag &tag, Messages &messages);
  void releaseAll();

  Rounds roundsOf(const Exchange &exchange);
  Rounds reduceWhole(const Exchange &exchange);
  Rounds reduceParts(const Exchange &exchange);
  Status takeParts(const Exchange &exchange, uint64_t at, uint64_t count);
  Status giveSums(const Exchange &exchange, uint64_t at, uint64_t count);
  Status takeSums(const Exchange &exchange, uint64_t at, uint64_t count);
  Rounds gather(const Exchange &exchange);
  Rounds reduceScatter(const Exchange &exchange);
  Rounds allToAll(const Exchange &exchange);
  Rounds rotate(const Exchange &exchange);
  Tag tag(Kind kind, uint64_t bytes) const { return {kind, size(), bytes}; }

  Post &post;
  std::vector<uint32_t> members, others; ///< ranks
  uint32_t self;                         ///< number of this member
  Rounds rounds;                         ///< of the exchange under way
  std::vector<char> scratch;             ///< what a piece gives to this rank
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
  bool abort(const char *message) override {
    std::string text = "rank " + std::to_string(post.rank()) + ": " + message;
    return post.memory().abort(text.c_str());
  }
  Status waitFor(const std::function<bool()> &isDone) override {
    return post.memory().poll(isDone);
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

template <typename Fill>
Status ShmCommunicator::give(const std::vector<uint32_t> &readers,
                             const Tag &tag, Fill fill) {
  post.memory().watch.setGroup(members);
  char *box;
  Status status = post.begin(box);
  if (status.failed())
    return status;
  fill(box);
  post.announce(readers, tag);
  return {};
}

Status ShmCommunicator::takeAll(const char *own, const Tag &tag,
                                Messages &messages) {
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

/// Bytes of a chunk that is split into `parts` pieces of whole elements.
static uint64_t pieceBytes(uint64_t parts) {
  return kChunkBytes / parts / 64 * 64;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Every member sums all: pieces of one exchange.
Rounds ShmCommunicator::reduceWhole(const Exchange &exchange) {
  uint64_t element = kerf_dtype_bytes(exchange.dtype);
  auto give = [=, this](uint64_t at, uint64_t bytes) {
    return giveSource(others, kAllReduce, exchange, at, bytes);
  };
  auto take = [=, this](uint64_t at, uint64_t bytes) {
    Messages messages;
    Status status =
        takeAll(sourceOf(exchange) + at, tag(kAllReduce, bytes), messages);
    if (status.failed())
      return status;
    reduceBuffers(exchange.dtype, exchange.reduction,
                  reinterpret_cast<const void *const *>(messages.data()),
                  size(), destinationOf(exchange) + at, bytes / element);
    releaseAll();
    return status;
  };
  Rounds made =
      roundsOfPieces(exchange.inner * element, kChunkBytes, give, take);
  made.isAhead = true;
  return made;
}

/// First elements of the parts of `count` elements, by member.
static uint64_t partStart(uint64_t count, uint64_t member, uint64_t size) {
  return count * member / size;
}

/// Sums the own part of a piece; `at` in bytes.
Status ShmCommunicator::takeParts(const Exchange &exchange, uint64_t at,
                                  uint64_t bytes) {
  uint64_t element = kerf_dtype_bytes(exchange.dtype), n = size();
  uint64_t first = partStart(bytes / element, self, n);
  uint64_t mine = partStart(bytes / element, self + 1, n) - first;
  Messages messages;
  Status status =
      takeAll(sourceOf(exchange) + at, tag(kAllReduce, bytes), messages);
  if (status.failed())
    return status;
  for (uint64_t m = 0; m < n; ++m)
    messages[m] += first * element;
  reduceBuffers(exchange.dtype, exchange.reduction,
                reinterpret_cast<const void *const *>(messages.data()), n,
                destinationOf(exchange) + at + first * element, mine);
  releaseAll();
  return status;
}

Status ShmCommunicator::giveSums(const Exchange &exchange, uint64_t at,
                                 uint64_t bytes) {
  uint64_t element = kerf_dtype_bytes(exchange.dtype), n = size();
  uint64_t first = partStart(bytes / element, self, n) * element;
  uint64_t end = partStart(bytes / element, self + 1, n) * element;
  return give(others, tag(kAllReduceSums, bytes), [&](char *box) {
    std::memcpy(box, destinationOf(exchange) + at + first, end - first);
  });
}

Status ShmCommunicator::takeSums(const Exchange &exchange, uint64_t at,
                                 uint64_t bytes) {
  uint64_t element = kerf_dtype_bytes(exchange.dtype), n = size();
  Messages messages;
  Status status = takeAll(nullptr, tag(kAllReduceSums, bytes), messages);
  if (status.failed())
    return status;
  for (uint64_t m = 0; m < n; ++m) {
    uint64_t first = partStart(bytes / element, m, n) * element;
    uint64_t end = partStart(bytes / element, m + 1, n) * element;
    if (m != self)
      std::memcpy(destinationOf(exchange) + at + first, messages[m],
                  end - first);
  }
  releaseAll();
  return status;
}

/// Member m sums part m of a piece and gives it to the others: two rounds each.
Rounds ShmCommunicator::reduceParts(const Exchange &exchange) {
  uint64_t total = exchange.inner * kerf_dtype_bytes(exchange.dtype);
  auto pieceOf = [=](uint64_t round) { return round / 2 * kChunkBytes; };
  auto bytesOf = [=](uint64_t round) {
    return std::min(kChunkBytes, total - pieceOf(round));
  };
  auto give = [=, this](uint64_t round) {
    uint64_t at = pieceOf(round), bytes = bytesOf(round);
    if (round % 2)
      return giveSums(exchange, at, bytes);
    return giveSource(others, kAllReduce, exchange, at, bytes);
  };
  auto take = [=, this](uint64_t round) {
    uint64_t at = pieceOf(round), bytes = bytesOf(round);
    return round % 2 ? takeSums(exchange, at, bytes)
                     : takeParts(exchange, at, bytes);
  };
  return {2 * ((total + kChunkBytes - 1) / kChunkBytes), give, take};
}

Rounds ShmCommunicator::gather(const Exchange &exchange) {
  uint64_t row = exchange.inner * kerf_dtype_bytes(exchange.dtype);
  auto give = [=, this](uint64_t at, uint64_t bytes) {
    return giveSource(others, kAllGather, exchange, at, bytes);
  };
  auto take = [=, this](uint64_t at, uint64_t bytes) {
    Messages messages;
    Status status =
        takeAll(sourceOf(exchange) + at, tag(kAllGather, bytes), messages);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < size(); ++m)
      Rows<char>{destinationOf(exchange) + m * row, row, size() * row}.scatter(
          at, bytes, messages[m]);
    releaseAll();
    return status;
  };
  Rounds made = roundsOfPieces(exchange.outer * row, kChunkBytes, give, take);
  made.isAhead = true;
  return made;
}

Rounds ShmCommunicator::reduceScatter(const Exchange &exchange) {
  uint64_t element = kerf_dtype_bytes(exchange.dtype);
  uint64_t row = exchange.inner * element;
  // What this rank gives to itself is read from the source again.
  auto rowsFor = [=, this](uint32_t m) {
    return Rows<const char>{sourceOf(exchange) + m * row, row, size() * row};
  };
  auto give = [=, this](uint64_t at, uint64_t bytes) {
    return this->give(others, tag(kReduceScatter, bytes), [&](char *box) {
      for (uint32_t m = 0; m < size(); ++m)
        if (m != self)
          rowsFor(m).gather(at, bytes, box + m * bytes);
    });
  };
  auto take = [=, this](uint64_t at, uint64_t bytes) {
    scratch.resize(bytes);
    rowsFor(self).gather(at, bytes, scratch.data());
    Messages messages;
    Status status =
        takeAll(scratch.data(), tag(kReduceScatter, bytes), messages);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < size(); ++m)
      messages[m] += m == self ? 0 : self * bytes;
    reduceBuffers(exchange.dtype, exchange.reduction,
                  reinterpret_cast<const void *const *>(messages.data()),
                  size(), destinationOf(exchange) + at, bytes / element);
    releaseAll();
    return status;
  };
  Rounds made =
      roundsOfPieces(exchange.outer * row, pieceBytes(size()), give, take);
  made.isAhead = true;
  return made;
}

Rounds ShmCommunicator::allToAll(const Exchange &exchange) {
  // Where n stands outside the middle, rows are long.
  uint64_t shortRow = exchange.inner * kerf_dtype_bytes(exchange.dtype);
  uint64_t longRow = exchange.middle * shortRow;
  uint64_t sourceRow = exchange.back ? shortRow : longRow;
  uint64_t row = exchange.back ? longRow : shortRow;
  auto rowsFor = [=, this](uint32_t m) {
    return Rows<const char>{sourceOf(exchange) + m * sourceRow, sourceRow,
                            size() * sourceRow};
  };
  auto give = [=, this](uint64_t at, uint64_t bytes) {
    return this->give(others, tag(kAllToAll, bytes), [&](char *box) {
      for (uint32_t m = 0; m < size(); ++m)
        if (m != self)
          rowsFor(m).gather(at, bytes, box + m * bytes);
    });
  };
  auto take = [=, this](uint64_t at, uint64_t bytes) {
    scratch.resize(bytes);
    rowsFor(self).gather(at, bytes, scratch.data());
    Messages messages;
    Status status = takeAll(scratch.data(), tag(kAllToAll, bytes), messages);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < size(); ++m)
      Rows<char>{destinationOf(exchange) + m * row, row, size() * row}.scatter(
          at, bytes, messages[m] + (m == self ? 0 : self * bytes));
    releaseAll();
    return status;
  };
  Rounds made =
      roundsOfPieces(exchange.outer * longRow, pieceBytes(size()), give, take);
  made.isAhead = true;
  return made;
}

Rounds ShmCommunicator::rotate(const Exchange &exchange) {
  uint64_t total = exchange.inner * kerf_dtype_bytes(exchange.dtype);
  uint32_t next = members[(self + 1) % size()];
  uint32_t previous = members[(self + size() - 1) % size()];
  auto give = [=, this](uint64_t at, uint64_t bytes) {
    if (size() == 1)
      return Status();
    return giveSource({previous}, kRotate, exchange, at, bytes);
  };
  auto take = [=, this](uint64_t at, uint64_t bytes) {
    const char *message = sourceOf(exchange) + at;
    Status status;
    if (size() > 1)
      status = post.take(next, tag(kRotate, bytes), message);
    if (status.failed())
      return status;
    std::memmove(destinationOf(exchange) + at, message, bytes);
    if (size() > 1)
      post.done(next);
    return status;
  };
  Rounds made = roundsOfPieces(total, kChunkBytes, give, take);
  made.isAhead = true;
  return made;
}

Rounds ShmCommunicator::roundsOf(const Exchange &exchange) {
  constexpr uint64_t littleBytes = 4096;
  switch (exchange.opcode) {
  case KERF_OP_ALL_REDUCE:
    return size() <= 2 || exchange.inner * kerf_dtype_bytes(exchange.dtype) <=
                              littleBytes
               ? reduceWhole(exchange)
               : reduceParts(exchange);
  case KERF_OP_ALL_GATHER:
    return gather(exchange);
  case KERF_OP_REDUCE_SCATTER:
    return reduceScatter(exchange);
  case KERF_OP_ALL_TO_ALL:
    return allToAll(exchange);
  default:
    return rotate(exchange);
  }
}

Status ShmCommunicator::send(uint32_t member, const void *data,
                             uint64_t bytes) {
  if (member >= size() || member == self)
    return failure(KERF_INVALID, "no other member %u in a group of %u", member,
                   size());
  auto *from = static_cast<const char *>(data);
  for (uint64_t at = 0; at < bytes; at += kChunkBytes) {
    uint64_t here = std::min(kChunkBytes, bytes - at);
    Status status = give({members[member]}, tag(kSend, here),
                         [&](char *box) { std::memcpy(box, from + at, here); });
    if (status.failed())
      return status;
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
  Status status = give(others, tag(kBarrier, 0), [](char *) {});
  Messages messages;
  if (!status.failed())
    status = takeAll(nullptr, tag(kBarrier, 0), messages);
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
