//===- Messages.cpp - collectives made of messages ------------------------===//
//
// Every rank exchanges with every other one directly: n - 1 messages, and as
// few bytes as possible (an all-reduce of s bytes sends 2 s (n - 1) / n). All
// work is split into pieces, which bounds the memory. Sums go over the members
// in order, as in the transport shm, so the bits are the same.
//
//===----------------------------------------------------------------------===//

#include "Mail.h"
#include "Reduce.h"
#include "Rounds.h"
#include "Rows.h"
#include "Wires.h"

#include <algorithm>
#include <array>
#include <map>

using namespace kerf::runtime;

/// Of data that one rank sends another one at a time.
static constexpr uint64_t kPieceBytes = 256 << 10;
/// Up to this size every member adds all: one exchange instead of two.
static constexpr uint64_t kLittleBytes = 4096;

namespace {
class MessageCommunicator : public Communicator {
public:
  MessageCommunicator(Mail &mail, std::vector<uint32_t> all)
      : mail(mail), members(std::move(all)),
        self(std::find(members.begin(), members.end(), mail.rank) -
             members.begin()) {}

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
  /// Starts to send out(m) and to receive in(m), of bytes(m) each, with every
  /// other member m; `outBytes` and `inBytes` tell how many. `mail.finish`
  /// waits.
  template <typename Out, typename OutBytes, typename In, typename InBytes>
  Status give(MailKind kind, Out out, OutBytes outBytes, In in,
              InBytes inBytes);
  Rounds roundsOf(const Exchange &exchange);
  Rounds reduceWhole(const Exchange &exchange);
  Rounds reduceParts(const Exchange &exchange);
  Rounds gather(const Exchange &exchange);
  Rounds reduceScatter(const Exchange &exchange);
  Rounds allToAll(const Exchange &exchange);
  Rounds rotate(const Exchange &exchange);
  /// Adds what lies at `slots`, by member, with the own part at `own`.
  void reduceSlots(char *slots, uint64_t slotBytes, const char *own,
                   char *destination, uint32_t dtype, uint32_t reduction,
                   uint64_t count);
  char *scratch(uint64_t bytes) {
    if (mail.scratch.size() < bytes)
      mail.scratch.resize(bytes);
    return mail.scratch.data();
  }
  Status noMember(uint32_t member) const {
    return failure(KERF_INVALID, "no other member %u in a group of %u", member,
                   size());
  }

  Mail &mail;
  const std::vector<uint32_t> members; ///< ranks
  const uint32_t self;                 ///< number of this member
  Rounds rounds;                       ///< of the exchange under way
};
} // namespace

template <typename Out, typename OutBytes, typename In, typename InBytes>
Status MessageCommunicator::give(MailKind kind, Out out, OutBytes outBytes,
                                 In in, InBytes inBytes) {
  mail.watch.setGroup(members);
  Status status;
  for (uint32_t m = 0; m < size() && !status.failed(); ++m)
    if (m != self)
      status = mail.receive(members[m], kind, in(m), inBytes(m));
  // Not all to the same one first.
  for (uint32_t d = 1; d < size() && !status.failed(); ++d) {
    uint32_t m = (self + d) % size();
    status = mail.send(members[m], kind, out(m), outBytes(m));
  }
  if (status.failed())
    (void)mail.finish();
  return status;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

void MessageCommunicator::reduceSlots(char *slots, uint64_t slotBytes,
                                      const char *own, char *destination,
                                      uint32_t dtype, uint32_t reduction,
                                      uint64_t count) {
  std::vector<const void *> sources(size());
  for (uint32_t m = 0; m < size(); ++m)
    sources[m] = m == self ? own : slots + m * slotBytes;
  reduceBuffers(dtype, reduction, sources.data(), size(), destination, count);
}

/// Every member adds all of a piece.
Rounds MessageCommunicator::reduceWhole(const Exchange &exchange) {
  uint64_t element = kerf_dtype_bytes(exchange.dtype);
  auto give = [=, this](uint64_t at, uint64_t bytes) {
    char *slots = scratch(size() * bytes);
    auto all = [=](uint32_t) { return bytes; };
    return this->give(
        MailKind::AllReduce, [&](uint32_t) { return sourceOf(exchange) + at; },
        all, [=](uint32_t m) { return slots + m * bytes; }, all);
  };
  auto take = [=, this](uint64_t at, uint64_t bytes) {
    Status status = mail.finish();
    if (!status.failed())
      reduceSlots(mail.scratch.data(), bytes, sourceOf(exchange) + at,
                  destinationOf(exchange) + at, exchange.dtype,
                  exchange.reduction, bytes / element);
    return status;
  };
  return roundsOfPieces(exchange.inner * element, kLittleBytes, give, take);
}

namespace {
/// Parts of a piece, one for each member.
struct Parts {
  uint64_t at, elements; ///< first byte and elements of the piece
  uint64_t element, size;
  uint64_t start(uint64_t m) const { return elements * m / size * element; }
  uint64_t bytes(uint64_t m) const { return start(m + 1) - start(m); }
};
} // namespace

/// Member m adds part m of a piece and gives it to the others: two rounds each.
Rounds MessageCommunicator::reduceParts(const Exchange &exchange) {
  uint64_t element = kerf_dtype_bytes(exchange.dtype), n = size();
  uint64_t most = kPieceBytes * n / element;
  auto partsOf = [=](uint64_t round) {
    uint64_t first = round / 2 * most;
    return Parts{first * element, std::min(most, exchange.inner - first),
                 element, n};
  };
  auto give = [=, this](uint64_t round) {
    Parts parts = partsOf(round);
    uint64_t mine = parts.bytes(self);
    const char *from = sourceOf(exchange) + parts.at;
    char *to = destinationOf(exchange) + parts.at;
    auto all = [=](uint32_t) { return mine; };
    auto each = [=](uint32_t m) { return parts.bytes(m); };
    if (round % 2)
      return this->give(
          MailKind::AllReduceSums,
          [=, this](uint32_t) { return to + parts.start(self); }, all,
          [=](uint32_t m) { return to + parts.start(m); }, each);
    char *slots = scratch(n * mine);
    return this->give(
        MailKind::AllReduce, [=](uint32_t m) { return from + parts.start(m); },
        each, [=](uint32_t m) { return slots + m * mine; }, all);
  };
  auto take = [=, this](uint64_t round) {
    Status status = mail.finish();
    if (status.failed() || round % 2)
      return status;
    Parts parts = partsOf(round);
    uint64_t own = parts.at + parts.start(self);
    reduceSlots(mail.scratch.data(), parts.bytes(self),
                sourceOf(exchange) + own, destinationOf(exchange) + own,
                exchange.dtype, exchange.reduction,
                parts.bytes(self) / element);
    return status;
  };
  return {2 * ((exchange.inner + most - 1) / most), give, take};
}

Rounds MessageCommunicator::gather(const Exchange &exchange) {
  uint64_t row = exchange.inner * kerf_dtype_bytes(exchange.dtype);
  uint64_t total = exchange.outer * row;
  // A single row is received where it belongs.
  bool isDirect = exchange.outer == 1;
  auto give = [=, this](uint64_t at, uint64_t bytes) {
    char *slots = isDirect ? destinationOf(exchange) : scratch(size() * bytes);
    auto all = [=](uint32_t) { return bytes; };
    return this->give(
        MailKind::AllGather, [&](uint32_t) { return sourceOf(exchange) + at; },
        all, [=](uint32_t m) { return slots + m * bytes; }, all);
  };
  auto take = [=, this](uint64_t at, uint64_t bytes) {
    Status status = mail.finish();
    const char *slots = mail.scratch.data();
    for (uint32_t m = 0; m < size() && !status.failed(); ++m)
      if (m == self || !isDirect)
        Rows<char>{destinationOf(exchange) + m * row, row, size() * row}
            .scatter(at, bytes,
                     m == self ? sourceOf(exchange) + at : slots + m * bytes);
    return status;
  };
  return roundsOfPieces(
      total, isDirect ? std::max<uint64_t>(total, 1) : kPieceBytes, give, take);
}

Rounds MessageCommunicator::reduceScatter(const Exchange &exchange) {
  uint64_t element = kerf_dtype_bytes(exchange.dtype), n = size();
  uint64_t row = exchange.inner * element;
  auto give = [=, this](uint64_t at, uint64_t bytes) {
    char *slots = scratch(2 * n * bytes), *packed = slots + n * bytes;
    for (uint32_t m = 0; m < n; ++m)
      Rows<const char>{sourceOf(exchange) + m * row, row, n * row}.gather(
          at, bytes, packed + m * bytes);
    auto all = [=](uint32_t) { return bytes; };
    return this->give(
        MailKind::ReduceScatter, [=](uint32_t m) { return packed + m * bytes; },
        all, [=](uint32_t m) { return slots + m * bytes; }, all);
  };
  auto take = [=, this](uint64_t at, uint64_t bytes) {
    Status status = mail.finish();
    char *slots = mail.scratch.data();
    if (!status.failed())
      reduceSlots(slots, bytes, slots + (n + self) * bytes,
                  destinationOf(exchange) + at, exchange.dtype,
                  exchange.reduction, bytes / element);
    return status;
  };
  return roundsOfPieces(exchange.outer * row, kPieceBytes, give, take);
}

Rounds MessageCommunicator::allToAll(const Exchange &exchange) {
  // Where n stands outside the middle, rows are long.
  uint64_t n = size(), middle = exchange.middle;
  uint64_t shortRow = exchange.inner * kerf_dtype_bytes(exchange.dtype);
  uint64_t longRow = middle * shortRow;
  uint64_t sourceRow = exchange.back ? shortRow : longRow;
  uint64_t row = exchange.back ? longRow : shortRow;
  auto give = [=, this](uint64_t at, uint64_t bytes) {
    char *slots = scratch(2 * n * bytes), *packed = slots + n * bytes;
    for (uint32_t m = 0; m < n; ++m)
      Rows<const char>{sourceOf(exchange) + m * sourceRow, sourceRow,
                       n * sourceRow}
          .gather(at, bytes, packed + m * bytes);
    auto all = [=](uint32_t) { return bytes; };
    return this->give(
        MailKind::AllToAll, [=](uint32_t m) { return packed + m * bytes; }, all,
        [=](uint32_t m) { return slots + m * bytes; }, all);
  };
  auto take = [=, this](uint64_t at, uint64_t bytes) {
    Status status = mail.finish();
    char *slots = mail.scratch.data();
    for (uint32_t m = 0; m < n && !status.failed(); ++m)
      Rows<char>{destinationOf(exchange) + m * row, row, n * row}.scatter(
          at, bytes, slots + (m == self ? n + m : m) * bytes);
    return status;
  };
  return roundsOfPieces(exchange.outer * longRow, kPieceBytes, give, take);
}

/// All at once: nothing is kept.
Rounds MessageCommunicator::rotate(const Exchange &exchange) {
  uint64_t bytes = exchange.inner * kerf_dtype_bytes(exchange.dtype);
  uint32_t next = members[(self + 1) % size()];
  uint32_t previous = members[(self + size() - 1) % size()];
  auto give = [=, this](uint64_t) {
    if (size() == 1) {
      std::memmove(exchange.destination, exchange.source, bytes);
      return Status();
    }
    mail.watch.setGroup(members);
    Status status =
        mail.receive(next, MailKind::Rotate, exchange.destination, bytes);
    if (!status.failed())
      status = mail.send(previous, MailKind::Rotate, exchange.source, bytes);
    if (status.failed())
      (void)mail.finish();
    return status;
  };
  return {bytes != 0, give, [this](uint64_t) { return mail.finish(); }};
}

Rounds MessageCommunicator::roundsOf(const Exchange &exchange) {
  switch (exchange.opcode) {
  case KERF_OP_ALL_REDUCE:
    return exchange.inner * kerf_dtype_bytes(exchange.dtype) <= kLittleBytes
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

Status MessageCommunicator::send(uint32_t member, const void *data,
                                 uint64_t bytes) {
  if (member >= size() || member == self)
    return noMember(member);
  mail.watch.setGroup(members);
  Status status = mail.send(members[member], MailKind::Send, data, bytes);
  Status finished = mail.finish();
  return status.failed() ? status : finished;
}

Status MessageCommunicator::receive(uint32_t member, void *data,
                                    uint64_t bytes) {
  if (member >= size() || member == self)
    return noMember(member);
  mail.watch.setGroup(members);
  Status status = mail.receive(members[member], MailKind::Send, data, bytes);
  Status finished = mail.finish();
  return status.failed() ? status : finished;
}

Status MessageCommunicator::barrier() {
  auto nothing = [](uint32_t) { return uint64_t(0); };
  char none;
  auto nowhere = [&](uint32_t) { return &none; };
  Status status = give(MailKind::Barrier, nowhere, nothing, nowhere, nothing);
  return status.failed() ? status : mail.finish();
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

namespace {
/// Messages go with one tag; the receiver confirms each with the next tag, so
/// that the sender knows how many are kept.
class MessageChannel : public Channel {
public:
  MessageChannel(Mail &mail, const ChannelSpec &spec, uint32_t tag)
      : mail(mail), spec(spec), tag(tag),
        ends{std::min(spec.from, spec.to), std::max(spec.from, spec.to)} {}
  ~MessageChannel() override {
    // The other end will confirm what it has not read yet.
    for (; confirmed < sent; ++confirmed)
      (void)mail.expect(spec.to, tag + 1);
  }

  Status send(const void *data, uint64_t bytes) override;
  Status receive(void *data, uint64_t bytes) override;

private:
  Status wrongEnd() const {
    return failure(KERF_INVALID,
                   "rank %u is the %s of the channel from %u to %u", mail.rank,
                   mail.rank == spec.from ? "sender" : "receiver", spec.from,
                   spec.to);
  }

  Mail &mail;
  const ChannelSpec spec;
  const uint32_t tag;
  const std::vector<uint32_t> ends; ///< both ranks
  uint64_t sent = 0, confirmed = 0;
};

class MessageTransport : public Transport {
public:
  explicit MessageTransport(std::unique_ptr<Mail> mail)
      : mail(std::move(mail)) {}

  Status split(const std::vector<uint32_t> &members,
               std::unique_ptr<Communicator> &group) override;
  Status open(const ChannelSpec &spec,
              std::unique_ptr<Channel> &channel) override;
  void enter(uint32_t command) override {
    mail->watch.enter(command);
    mail->poll();
  }
  bool abort(const char *message) override {
    return mail->abort("rank " + std::to_string(mail->rank) + ": " + message);
  }
  Status waitFor(const std::function<bool()> &isDone) override {
    return mail->waitFor(isDone);
  }

private:
  std::unique_ptr<Mail> mail;
  /// Keys by ends and tag.
  std::map<std::array<uint32_t, 3>, uint64_t> keys;
};
} // namespace

Status MessageChannel::send(const void *data, uint64_t bytes) {
  if (mail.rank != spec.from)
    return wrongEnd();
  if (bytes > spec.bytes)
    return failure(KERF_INVALID,
                   "a message of %llu bytes in a channel for %llu",
                   (unsigned long long)bytes, (unsigned long long)spec.bytes);
  mail.watch.setGroup(ends);
  for (; sent - confirmed >= spec.holds; ++confirmed) {
    Status status = mail.receiveTagged(spec.to, tag + 1, nullptr, 0);
    Status finished = mail.finish();
    if (status.failed() || finished.failed())
      return status.failed() ? status : finished;
  }
  ++sent;
  return mail.sendCopy(spec.to, tag, data, bytes);
}

Status MessageChannel::receive(void *data, uint64_t bytes) {
  if (mail.rank != spec.to)
    return wrongEnd();
  mail.watch.setGroup(ends);
  Status status = mail.receiveTagged(spec.from, tag, data, bytes);
  Status finished = mail.finish();
  if (status.failed() || finished.failed())
    return status.failed() ? status : finished;
  return mail.sendCopy(spec.from, tag + 1, nullptr, 0);
}

Status MessageTransport::split(const std::vector<uint32_t> &members,
                               std::unique_ptr<Communicator> &group) {
  for (uint32_t member : members)
    if (member >= mail->size)
      return failure(KERF_INVALID, "no rank %u in a job of %u", member,
                     mail->size);
  if (std::count(members.begin(), members.end(), mail->rank) != 1)
    return failure(KERF_INVALID, "rank %u is not in the group", mail->rank);
  group = std::make_unique<MessageCommunicator>(*mail, members);
  return {};
}

Status MessageTransport::open(const ChannelSpec &spec,
                              std::unique_ptr<Channel> &channel) {
  bool isEnd = (spec.from == mail->rank) != (spec.to == mail->rank);
  if (!isEnd || spec.from >= mail->size || spec.to >= mail->size)
    return failure(KERF_INVALID,
                   "rank %u of %u opens a channel from rank %u to %u",
                   mail->rank, mail->size, spec.from, spec.to);
  if (spec.holds == 0)
    return failure(KERF_INVALID, "a channel that holds no message");
  // A pair of tags per key, which both ends find alone.
  uint32_t tag = kerf_mix(spec.key) % (mail->maxTag() / 2) * 2;
  auto [known, isNew] = keys.insert({{spec.from, spec.to, tag}, spec.key});
  if (!isNew && known->second != spec.key)
    return failure(
        KERF_FAILED,
        "two channels from rank %u to %u have the same tag: name one "
        "of them otherwise",
        spec.from, spec.to);
  channel = std::make_unique<MessageChannel>(*mail, spec, tag);
  return {};
}

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

/// Do all ranks run the program of rank 0?
static Status comparePrograms(Mail &mail, uint64_t hash) {
  std::vector<uint32_t> all(mail.size);
  for (uint32_t r = 0; r < mail.size; ++r)
    all[r] = r;
  std::vector<uint64_t> hashes(mail.size);
  Status status = MessageCommunicator(mail, all).allGather(&hash, hashes.data(),
                                                           KERF_F64, 1, 1);
  for (uint32_t r = 1; r < mail.size && !status.failed(); ++r) {
    if (hashes[r] == hashes[0])
      continue;
    status =
        failure(r == mail.rank ? KERF_INVALID : KERF_PEER_LOST,
                "rank %u runs another program than rank 0: start all ranks "
                "with the same file",
                r);
    if (r != mail.rank)
      mail.follow(status);
  }
  return status;
}

Status kerf::runtime::connectWire(const kerf_wire_api &api,
                                  const Rendezvous &rendezvous,
                                  std::unique_ptr<Transport> &transport) {
  if (rendezvous.rank >= rendezvous.size)
    return failure(KERF_INVALID, "rank %u of %u", rendezvous.rank,
                   rendezvous.size);
  std::unique_ptr<Mail> mail;
  Status status = Mail::connect(api, rendezvous, mail);
  if (!status.failed())
    status = comparePrograms(*mail, rendezvous.programHash);
  if (!status.failed())
    transport = std::make_unique<MessageTransport>(std::move(mail));
  return status;
}
