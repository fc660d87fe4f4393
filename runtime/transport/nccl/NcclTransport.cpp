//===- NcclTransport.cpp --------------------------------------------------===//

#include "NcclChannel.h"

#include <algorithm>
#include <utility>

using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

namespace {
/// The part of one member of a tensor: rows, each `pitch` bytes behind the one
/// before; parts are `width` bytes apart.
struct Rows {
  uint64_t width, pitch, count;
  uint64_t bytes() const { return width * count; }
  bool isOne() const { return count == 1; }
};

class NcclCommunicator : public Communicator {
public:
  NcclCommunicator(State &state, Live *live, Word word, uint32_t place,
                   uint32_t count)
      : state(state), live(live), word(word), place(place), count(count) {}
  ~NcclCommunicator() override;

  uint32_t rank() const override { return place; }
  uint32_t size() const override { return count; }
  /// A group of one copies, as steps do.
  uint32_t stream() const override { return live ? kExchangeStream : 0; }
  Status reserve(const Exchange &exchange) override;
  Status start(const Exchange &exchange) override;
  Status finish() override;
  Status send(uint32_t member, const void *data, uint64_t bytes) override;
  Status receive(uint32_t member, void *data, uint64_t bytes) override;
  Status barrier() override;

private:
  uint64_t scratchBytes(const Exchange &exchange) const;
  Status copyOwn(const Exchange &exchange);
  Status enqueue(const Exchange &exchange);
  Status gather(const Exchange &exchange);
  Status reduceScatter(const Exchange &exchange);
  Status allToAll(const Exchange &exchange);
  Status rotate(const Exchange &exchange);
  Status pack(const char *from, const Rows &rows, char *packed);
  Status unpack(const char *packed, const Rows &rows, char *to);
  Stream exchanges() const { return state.stream(kExchangeStream); }

  State &state;
  Live *live; ///< null of a group of one
  Word word;
  const uint32_t place, count;
  bool isStarted = false;
  void *barrierWord = nullptr;
};

/// Elements of an exchange as addresses.
struct Ends {
  const char *source;
  char *destination;
  uint64_t element; ///< bytes
  DataType type;

  explicit Ends(const Exchange &exchange)
      : source(static_cast<const char *>(exchange.source)),
        destination(static_cast<char *>(exchange.destination)),
        element(kerf_dtype_bytes(exchange.dtype)),
        type(typeOf(exchange.dtype)) {}
};

/// How the parts of members lie in an all_to_all's source and destination.
struct MemberRows {
  Rows given, taken;

  MemberRows(const Exchange &exchange, uint64_t members) {
    uint64_t inner = exchange.inner * kerf_dtype_bytes(exchange.dtype);
    // Where members stand outside the middle, rows are long.
    Rows apart{exchange.middle * inner, members * exchange.middle * inner,
               exchange.outer};
    Rows among{inner, members * inner, exchange.outer * exchange.middle};
    given = exchange.back ? among : apart;
    taken = exchange.back ? apart : among;
  }
  /// Of all members, for what must be put into order.
  uint64_t scratchBytes(uint64_t members) const {
    return (!given.isOne() + !taken.isOne()) * members * given.bytes();
  }
};
} // namespace

static Reduction reductionOf(const Exchange &exchange) {
  return exchange.reduction == KERF_MAX ? kMax : kSum;
}

NcclCommunicator::~NcclCommunicator() {
  if (barrierWord)
    state.api->free(state.device, barrierWord, sizeof(int32_t));
  if (live)
    state.release(live);
  if (word.address)
    state.giveWord(word);
}

Status NcclCommunicator::copyOwn(const Exchange &exchange) {
  uint64_t elements = exchange.outer * exchange.middle * exchange.inner;
  if (exchange.source == exchange.destination || elements == 0)
    return {};
  return state.gpu->copy(exchange.destination, exchange.source,
                         elements * kerf_dtype_bytes(exchange.dtype),
                         state.stream(0));
}

/// Puts the parts of all members one after the other.
Status NcclCommunicator::pack(const char *from, const Rows &rows,
                              char *packed) {
  Status status;
  for (uint64_t m = 0; m < count && !status.failed(); ++m)
    status = state.gpu->copyRows({packed + m * rows.bytes(), rows.width},
                                 {from + m * rows.width, rows.pitch},
                                 rows.width, rows.count, exchanges());
  return status;
}

/// The other way.
Status NcclCommunicator::unpack(const char *packed, const Rows &rows,
                                char *to) {
  Status status;
  for (uint64_t m = 0; m < count && !status.failed(); ++m)
    status = state.gpu->copyRows({to + m * rows.width, rows.pitch},
                                 {packed + m * rows.bytes(), rows.width},
                                 rows.width, rows.count, exchanges());
  return status;
}

Status NcclCommunicator::gather(const Exchange &exchange) {
  Ends ends(exchange);
  uint64_t width = exchange.inner * ends.element;
  Rows rows{width, count * width, exchange.outer};
  char *packed = ends.destination;
  Status status;
  if (!rows.isOne())
    status = state.scratch(scratchBytes(exchange), packed);
  if (!status.failed())
    status = state.together(*live, "ncclAllGather", 1, [&](uint64_t) {
      return state.nccl->allGather(ends.source, packed,
                                   exchange.outer * exchange.inner, ends.type,
                                   live->comm, exchanges());
    });
  return status.failed() || rows.isOne()
             ? status
             : unpack(packed, rows, ends.destination);
}

Status NcclCommunicator::reduceScatter(const Exchange &exchange) {
  Ends ends(exchange);
  uint64_t width = exchange.inner * ends.element;
  Rows rows{width, count * width, exchange.outer};
  const char *packed = ends.source;
  if (!rows.isOne()) {
    char *memory;
    Status status = state.scratch(scratchBytes(exchange), memory);
    if (!status.failed())
      status = pack(ends.source, rows, memory);
    if (status.failed())
      return status;
    packed = memory;
  }
  return state.together(*live, "ncclReduceScatter", 1, [&](uint64_t) {
    return state.nccl->reduceScatter(
        packed, ends.destination, exchange.outer * exchange.inner, ends.type,
        reductionOf(exchange), live->comm, exchanges());
  });
}

/// Members begin with themselves and go round, so that no two send to the same
/// one at the same time.
Status NcclCommunicator::allToAll(const Exchange &exchange) {
  Ends ends(exchange);
  uint64_t n = count;
  const MemberRows rows(exchange, n);
  const Rows &given = rows.given, &taken = rows.taken;
  const char *out = ends.source;
  char *in = ends.destination, *memory = nullptr;
  uint64_t needed = scratchBytes(exchange);
  Status status = needed ? state.scratch(needed, memory) : Status();
  if (!status.failed() && !given.isOne()) {
    status = pack(ends.source, given, memory);
    out = memory;
    memory += n * given.bytes();
  }
  if (status.failed())
    return status;
  if (!taken.isOne())
    in = memory;
  uint64_t elements = given.bytes() / ends.element;
  auto call = [&](uint64_t number) {
    bool isReceive = number % 2;
    uint64_t peer =
        (isReceive ? place + n - number / 2 : place + number / 2) % n;
    uint64_t at = peer * given.bytes();
    return isReceive ? state.nccl->receive(in + at, elements, ends.type,
                                           int(peer), live->comm, exchanges())
                     : state.nccl->send(out + at, elements, ends.type,
                                        int(peer), live->comm, exchanges());
  };
  status = state.together(*live, "ncclSend and ncclRecv", 2 * n, call);
  return status.failed() || taken.isOne() ? status
                                          : unpack(in, taken, ends.destination);
}

Status NcclCommunicator::rotate(const Exchange &exchange) {
  Ends ends(exchange);
  int before = int((place + count - 1) % count),
      next = int((place + 1) % count);
  auto call = [&](uint64_t number) {
    return number == 0
               ? state.nccl->send(ends.source, exchange.inner, ends.type,
                                  before, live->comm, exchanges())
               : state.nccl->receive(ends.destination, exchange.inner,
                                     ends.type, next, live->comm, exchanges());
  };
  return state.together(*live, "ncclSend and ncclRecv", 2, call);
}

Status NcclCommunicator::enqueue(const Exchange &exchange) {
  Ends ends(exchange);
  switch (exchange.opcode) {
  case KERF_OP_ALL_REDUCE:
    return state.together(*live, "ncclAllReduce", 1, [&](uint64_t) {
      return state.nccl->allReduce(
          exchange.source, exchange.destination, exchange.inner, ends.type,
          reductionOf(exchange), live->comm, exchanges());
    });
  case KERF_OP_ALL_GATHER:
    return gather(exchange);
  case KERF_OP_REDUCE_SCATTER:
    return reduceScatter(exchange);
  case KERF_OP_ALL_TO_ALL:
    return allToAll(exchange);
  case KERF_OP_ROTATE:
    return rotate(exchange);
  }
  return failure(KERF_INVALID, "command %u is no collective", exchange.opcode);
}

uint64_t NcclCommunicator::scratchBytes(const Exchange &exchange) const {
  switch (exchange.opcode) {
  case KERF_OP_ALL_GATHER:
  case KERF_OP_REDUCE_SCATTER:
    return exchange.outer == 1 ? 0
                               : count * exchange.outer * exchange.inner *
                                     kerf_dtype_bytes(exchange.dtype);
  case KERF_OP_ALL_TO_ALL:
    return MemberRows(exchange, count).scratchBytes(count);
  default:
    return 0;
  }
}

Status NcclCommunicator::reserve(const Exchange &exchange) {
  uint64_t bytes = live ? scratchBytes(exchange) : 0;
  return bytes ? state.reserveScratch(bytes) : Status();
}

Status NcclCommunicator::start(const Exchange &exchange) {
  if (!live)
    return copyOwn(exchange);
  if (exchange.outer * exchange.middle * exchange.inner == 0)
    return {};
  isStarted = true;
  Status status = state.order(0, kExchangeStream);
  if (status.failed())
    return status;
  return state.mark(word, exchanges(), [&] { return enqueue(exchange); });
}

Status NcclCommunicator::finish() {
  if (!std::exchange(isStarted, false))
    return {};
  return state.order(kExchangeStream, 0);
}

static Status noMember(uint32_t member, uint32_t size) {
  return failure(KERF_INVALID, "no member %u to talk with in a group of %u",
                 member, size);
}

Status NcclCommunicator::send(uint32_t member, const void *data,
                              uint64_t bytes) {
  if (member >= count || member == place)
    return noMember(member, count);
  return state.together(*live, "ncclSend", bytes != 0, [&](uint64_t) {
    return state.nccl->send(data, bytes, kUint8, int(member), live->comm,
                            state.stream(0));
  });
}

Status NcclCommunicator::receive(uint32_t member, void *data, uint64_t bytes) {
  if (member >= count || member == place)
    return noMember(member, count);
  return state.together(*live, "ncclRecv", bytes != 0, [&](uint64_t) {
    return state.nccl->receive(data, bytes, kUint8, int(member), live->comm,
                               state.stream(0));
  });
}

Status NcclCommunicator::barrier() {
  Status status;
  if (live && !barrierWord)
    status = state.alloc(sizeof(int32_t), barrierWord);
  if (live && !status.failed())
    status = allReduce(barrierWord, barrierWord, KERF_I32, KERF_MAX, 1);
  return status.failed() ? status : state.drain(state.stream(0));
}

//===----------------------------------------------------------------------===//
// Transport
//===----------------------------------------------------------------------===//

namespace {
class NcclTransport : public Transport {
public:
  explicit NcclTransport(Parts parts) : state(std::move(parts)) {}

  Status split(const std::vector<uint32_t> &members,
               std::unique_ptr<Communicator> &group) override;
  Status open(const ChannelSpec &spec,
              std::unique_ptr<Channel> &channel) override;
  void enter(uint32_t command) override {
    state.command = command;
    state.host->enter(command);
  }
  bool abort(const char *message) override {
    bool isFirst = state.host->abort(message);
    state.abortAll();
    return isFirst;
  }
  bool onDevice() const override { return true; }
  bool recordable() const override { return true; }
  Transport &host() override { return *state.host; }
  Status meet() override;
  Status drain() override { return state.drain(state.stream(0)); }
  Status join() override;
  Status waitFor(const std::function<bool()> &isDone) override {
    return state.host->waitFor(isDone);
  }

private:
  State state;
  std::list<NcclChannel *> channels;
};
} // namespace

Status NcclTransport::split(const std::vector<uint32_t> &members,
                            std::unique_ptr<Communicator> &group) {
  auto own = std::find(members.begin(), members.end(), state.rank);
  if (own == members.end())
    return failure(KERF_INVALID, "rank %u is not in the group", state.rank);
  for (uint32_t member : members)
    if (member >= state.size)
      return failure(KERF_INVALID, "no rank %u in a job of %u", member,
                     state.size);
  auto size = uint32_t(members.size());
  auto place = uint32_t(own - members.begin());
  Live *live = nullptr;
  if (size > 1)
    live = state.name({members[0], size, place, 0, keyOf(members, 0)});
  group = std::make_unique<NcclCommunicator>(state, live, state.takeWord(),
                                             place, size);
  return {};
}

Status NcclTransport::open(const ChannelSpec &spec,
                           std::unique_ptr<Channel> &channel) {
  bool isEnd = (spec.from == state.rank) != (spec.to == state.rank);
  if (!isEnd || spec.from >= state.size || spec.to >= state.size)
    return failure(KERF_INVALID,
                   "rank %u of %u opens a channel from rank %u to %u",
                   state.rank, state.size, spec.from, spec.to);
  if (spec.holds == 0)
    return failure(KERF_INVALID, "a channel that holds no message");
  auto made = std::make_unique<NcclChannel>(state, channels, spec);
  Status status = made->prepare();
  channel = std::move(made);
  return status;
}

Status NcclTransport::meet() {
  Status status = state.meet();
  std::vector<NcclChannel *> made;
  for (NcclChannel *channel : channels)
    if (channel->isNew())
      made.push_back(channel);
  // In the order of splits, which all ranks have: nobody waits in a circle.
  std::sort(made.begin(), made.end(), [](NcclChannel *a, NcclChannel *b) {
    return a->split() < b->split();
  });
  for (NcclChannel *channel : made)
    if (!status.failed())
      status = channel->greet();
  for (NcclChannel *channel : made)
    if (!status.failed())
      status = channel->awaitGreeting();
  return status;
}

Status NcclTransport::join() {
  Status status;
  for (NcclChannel *channel : channels)
    if (!status.failed())
      status = channel->join();
  return status;
}

std::unique_ptr<Transport> kerf::runtime::nccl::makeNcclTransport(Parts parts) {
  return std::make_unique<NcclTransport>(std::move(parts));
}
