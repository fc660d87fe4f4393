//===- Messages.cpp - collectives made of messages ------------------------===//
//
// Every rank exchanges with every other one directly: n - 1 messages, and as
// few bytes as possible (an all-reduce of s bytes sends 2 s (n - 1) / n). All
// work is cut into pieces, which bounds the memory. Sums go over the members in
// order, as in the transport shm, so the bits are the same.
//
//===----------------------------------------------------------------------===//

#include "Mail.h"
#include "Reduce.h"
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
  /// Sends out(m) and receives in(m), of bytes(m) each, with every other member
  /// m; `outBytes` and `inBytes` tell how many.
  template <typename Out, typename OutBytes, typename In, typename InBytes>
  Status exchange(MailKind kind, Out out, OutBytes outBytes, In in,
                  InBytes inBytes);
  Status reduceWhole(const char *source, char *destination, uint32_t dtype,
                     uint32_t reduction, uint64_t count);
  Status reduceParts(const char *source, char *destination, uint32_t dtype,
                     uint32_t reduction, uint64_t count);
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
};
} // namespace

template <typename Out, typename OutBytes, typename In, typename InBytes>
Status MessageCommunicator::exchange(MailKind kind, Out out, OutBytes outBytes,
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
  Status finished = mail.finish();
  return status.failed() ? status : finished;
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

/// Every member adds all of the piece.
Status MessageCommunicator::reduceWhole(const char *source, char *destination,
                                        uint32_t dtype, uint32_t reduction,
                                        uint64_t count) {
  uint64_t bytes = count * kerf_dtype_bytes(dtype);
  char *slots = scratch(size() * bytes);
  auto all = [&](uint32_t) { return bytes; };
  Status status = exchange(
      MailKind::AllReduce, [&](uint32_t) { return source; }, all,
      [&](uint32_t m) { return slots + m * bytes; }, all);
  if (!status.failed())
    reduceSlots(slots, bytes, source, destination, dtype, reduction, count);
  return status;
}

/// Member m adds part m and gives it to the others.
Status MessageCommunicator::reduceParts(const char *source, char *destination,
                                        uint32_t dtype, uint32_t reduction,
                                        uint64_t count) {
  uint64_t element = kerf_dtype_bytes(dtype), n = size();
  auto start = [&](uint64_t m) { return count * m / n * element; };
  auto bytes = [&](uint64_t m) { return start(m + 1) - start(m); };
  auto mine = [&](uint32_t) { return bytes(self); };
  char *slots = scratch(n * bytes(self));
  Status status = exchange(
      MailKind::AllReduce, [&](uint32_t m) { return source + start(m); }, bytes,
      [&](uint32_t m) { return slots + m * bytes(self); }, mine);
  if (status.failed())
    return status;
  char *part = destination + start(self);
  reduceSlots(slots, bytes(self), source + start(self), part, dtype, reduction,
              bytes(self) / element);
  return exchange(
      MailKind::AllReduceSums, [&](uint32_t) { return part; }, mine,
      [&](uint32_t m) { return destination + start(m); }, bytes);
}

Status MessageCommunicator::allReduce(const void *source, void *destination,
                                      uint32_t dtype, uint32_t reduction,
                                      uint64_t count) {
  uint64_t element = kerf_dtype_bytes(dtype);
  uint64_t chunk = kPieceBytes * size() / element;
  auto *from = static_cast<const char *>(source);
  auto *to = static_cast<char *>(destination);
  for (uint64_t at = 0; at < count; at += chunk) {
    uint64_t here = std::min(chunk, count - at);
    bool whole = here * element <= kLittleBytes;
    auto reduce = whole ? &MessageCommunicator::reduceWhole
                        : &MessageCommunicator::reduceParts;
    Status status = (this->*reduce)(from + at * element, to + at * element,
                                    dtype, reduction, here);
    if (status.failed())
      return status;
  }
  return {};
}

Status MessageCommunicator::allGather(const void *source, void *destination,
                                      uint32_t dtype, uint64_t outer,
                                      uint64_t inner) {
  uint64_t row = inner * kerf_dtype_bytes(dtype), total = outer * row;
  auto *from = static_cast<const char *>(source);
  auto *to = static_cast<char *>(destination);
  auto rows = [&](uint32_t m) {
    return Rows<char>{to + m * row, row, size() * row};
  };
  // A single row is received where it belongs.
  bool isDirect = outer == 1;
  uint64_t piece = isDirect ? total : kPieceBytes;
  for (uint64_t at = 0; at < total; at += piece) {
    uint64_t here = std::min(piece, total - at);
    char *slots = isDirect ? to : scratch(size() * here);
    auto bytes = [&](uint32_t) { return here; };
    Status status = exchange(
        MailKind::AllGather, [&](uint32_t) { return from + at; }, bytes,
        [&](uint32_t m) { return slots + m * here; }, bytes);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < size(); ++m)
      if (m == self || !isDirect)
        rows(m).scatter(at, here, m == self ? from + at : slots + m * here);
  }
  return {};
}

Status MessageCommunicator::reduceScatter(const void *source, void *destination,
                                          uint32_t dtype, uint32_t reduction,
                                          uint64_t outer, uint64_t inner) {
  uint64_t element = kerf_dtype_bytes(dtype);
  uint64_t row = inner * element, total = outer * row, n = size();
  auto *from = static_cast<const char *>(source);
  auto *to = static_cast<char *>(destination);
  for (uint64_t at = 0; at < total; at += kPieceBytes) {
    uint64_t here = std::min(kPieceBytes, total - at);
    char *slots = scratch(2 * n * here), *packed = slots + n * here;
    for (uint32_t m = 0; m < n; ++m)
      Rows<const char>{from + m * row, row, n * row}.gather(at, here,
                                                            packed + m * here);
    auto bytes = [&](uint32_t) { return here; };
    Status status = exchange(
        MailKind::ReduceScatter, [&](uint32_t m) { return packed + m * here; },
        bytes, [&](uint32_t m) { return slots + m * here; }, bytes);
    if (status.failed())
      return status;
    reduceSlots(slots, here, packed + self * here, to + at, dtype, reduction,
                here / element);
  }
  return {};
}

Status MessageCommunicator::allToAll(const void *source, void *destination,
                                     uint32_t dtype, bool back, uint64_t outer,
                                     uint64_t middle, uint64_t inner) {
  // Where n stands outside the middle, rows are long.
  uint64_t shortRow = inner * kerf_dtype_bytes(dtype), n = size();
  uint64_t longRow = middle * shortRow, total = outer * longRow;
  uint64_t sourceRow = back ? shortRow : longRow;
  uint64_t row = back ? longRow : shortRow;
  auto *from = static_cast<const char *>(source);
  auto *to = static_cast<char *>(destination);
  for (uint64_t at = 0; at < total; at += kPieceBytes) {
    uint64_t here = std::min(kPieceBytes, total - at);
    char *slots = scratch(2 * n * here), *packed = slots + n * here;
    for (uint32_t m = 0; m < n; ++m)
      Rows<const char>{from + m * sourceRow, sourceRow, n * sourceRow}.gather(
          at, here, packed + m * here);
    auto bytes = [&](uint32_t) { return here; };
    Status status = exchange(
        MailKind::AllToAll, [&](uint32_t m) { return packed + m * here; },
        bytes, [&](uint32_t m) { return slots + m * here; }, bytes);
    if (status.failed())
      return status;
    for (uint32_t m = 0; m < n; ++m)
      Rows<char>{to + m * row, row, n * row}.scatter(
          at, here, (m == self ? packed : slots) + m * here);
  }
  return {};
}

Status MessageCommunicator::rotate(const void *source, void *destination,
                                   uint32_t dtype, uint64_t count) {
  uint64_t bytes = count * kerf_dtype_bytes(dtype);
  if (bytes == 0)
    return {};
  if (size() == 1) {
    std::memmove(destination, source, bytes);
    return {};
  }
  mail.watch.setGroup(members);
  Status status = mail.receive(members[(self + 1) % size()], MailKind::Rotate,
                               destination, bytes);
  if (!status.failed())
    status = mail.send(members[(self + size() - 1) % size()], MailKind::Rotate,
                       source, bytes);
  Status finished = mail.finish();
  return status.failed() ? status : finished;
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
  return exchange(MailKind::Barrier, nowhere, nothing, nowhere, nothing);
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
  void abort(const char *message) override {
    mail->abort("rank " + std::to_string(mail->rank) + ": " + message);
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
