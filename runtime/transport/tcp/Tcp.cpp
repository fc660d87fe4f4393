//===- Tcp.cpp ------------------------------------------------------------===//

#include "Tcp.h"

#include "Socket.h"
#include "Watch.h"
#include "Wires.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace kerf::runtime;
using namespace kerf::runtime::tcp;

struct kerf_transfer {
  bool isReceive, isDone;
  kerf_lane lane;
  uint32_t peer, tag;
  void *data;
  uint64_t bytes;
  kerf_message message;
};

/// Aligned as notes of ranks are.
struct alignas(64) Line {
  char bytes[64];
};

struct kerf_wire {
  uint32_t rank = 0, size = 1;
  /// Of rank 0 to all others, by rank; of the others to rank 0 alone.
  std::vector<std::unique_ptr<Socket>> sockets;
  std::list<kerf_transfer *> receives; ///< that wait, in order
  std::list<Incoming> arrived;         ///< and nobody waits for yet
  std::vector<Line> notes; ///< shared memory of all ranks, one after the other
  uint64_t noteBytes = 0;  ///< of a rank
  std::vector<char> told;  ///< this rank's, as it was told last
  std::vector<bool> isNew; ///< by rank: not told yet
  bool hasNews = false;
  double nextNote = 0, noteSec = 0; ///< when the next ones may be told
  uint32_t lost = UINT32_MAX;       ///< a rank that is gone
  uint32_t unheard = 0; ///< control messages that came and were not tested

  bool isCenter() const { return rank == 0; }
  char *noteOf(uint32_t of) {
    uint64_t lines = (noteBytes + sizeof(Line) - 1) / sizeof(Line);
    return notes.data()[of * lines].bytes;
  }
  Socket *to(uint32_t peer) { return sockets[isCenter() ? peer : 0].get(); }
};

namespace {
/// What a rank says first, and rank 0 answers.
struct Hello {
  char magic[8];
  uint32_t rank, size;
  uint64_t name; ///< hash of the session's
};
enum class Answer : uint32_t { Welcome, WrongSize, Taken };
constexpr char kMagic[8] = {'k', 'e', 'r', 'f', 't', 'c', 'p', '1'};

/// How long ranks wait for each other, and for which job: what `connect` of a
/// wire does not take.
struct Patience {
  double seconds = 60;
  uint64_t name = 0;
};
thread_local Patience patience;
} // namespace

static kerf_wire_status fail(char *error, size_t bytes, kerf_wire_status status,
                             const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static kerf_wire_status fail(char *error, size_t bytes, kerf_wire_status status,
                             const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error, bytes, format, arguments);
  va_end(arguments);
  return status;
}

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

static bool fits(const kerf_transfer &transfer, const Head &head) {
  return transfer.lane == kerf_lane(head.kind) &&
         (transfer.lane == KERF_LANE_CONTROL || transfer.peer == head.from) &&
         (transfer.lane != KERF_LANE_TAG || transfer.tag == head.tag);
}

static void deliver(kerf_transfer &transfer, const Incoming &frame) {
  bool isLarge = frame.head.bytes > transfer.bytes;
  if (!isLarge && frame.head.bytes != 0)
    std::memcpy(transfer.data, frame.data.data(), frame.head.bytes);
  transfer.message = {frame.head.from, frame.head.tag,
                      isLarge ? UINT64_MAX : frame.head.bytes};
  transfer.isDone = true;
}

static void post(kerf_wire &wire, uint32_t to, Head head,
                 std::vector<char> data) {
  head.bytes = data.size();
  if (Socket *socket = wire.to(to); socket && socket->canSend()) {
    socket->held += data.size();
    socket->out.push_back({head, nullptr, std::move(data), nullptr});
  }
}

/// Passes what waits to be sent, and replaces an older note.
static void postNote(kerf_wire &wire, uint32_t to, uint32_t of) {
  Socket *socket = wire.to(to);
  if (!socket || !socket->canSend())
    return;
  const char *first = wire.noteOf(of);
  std::vector<char> note(first, first + wire.noteBytes);
  auto &out = socket->out;
  // The first frame may be sent in part.
  for (size_t n = 1; n < out.size(); ++n)
    if (out[n].head.kind == kNote && out[n].head.from == of) {
      out[n].copy = std::move(note);
      return;
    }
  Head head = {kNote, of, to, 0, note.size()};
  socket->held += note.size();
  out.insert(out.begin() + std::min<size_t>(out.size(), 1),
             {head, nullptr, std::move(note), nullptr});
}

static void lose(kerf_wire &wire, uint32_t rank) {
  if (wire.lost != UINT32_MAX)
    return;
  wire.lost = rank;
  for (uint32_t r = 1; wire.isCenter() && r < wire.size; ++r)
    if (r != rank)
      post(wire, r, {kLost, rank, r, 0, 0}, {});
}

static void take(kerf_wire &wire, Socket &socket, Incoming frame) {
  const Head &head = frame.head;
  // Ranks are used as indices above: what names none is dropped.
  if (head.from >= wire.size)
    return;
  if (head.kind == kNote) {
    if (frame.data.size() != wire.noteBytes)
      return;
    std::memcpy(wire.noteOf(head.from), frame.data.data(), wire.noteBytes);
    if (wire.isCenter())
      wire.isNew[head.from] = wire.hasNews = true;
  } else if (head.kind == kBye) {
    socket.hasSaidBye = true;
  } else if (head.kind == kLost) {
    lose(wire, head.from);
  } else if (head.to != wire.rank) {
    if (wire.isCenter() && head.to < wire.size) {
      socket.target = wire.to(head.to);
      post(wire, head.to, head, std::move(frame.data));
    }
  } else {
    wire.unheard += head.kind == KERF_LANE_CONTROL;
    auto waiting =
        std::find_if(wire.receives.begin(), wire.receives.end(),
                     [&](kerf_transfer *t) { return fits(*t, head); });
    if (waiting == wire.receives.end()) {
      wire.arrived.push_back(std::move(frame));
      return;
    }
    deliver(**waiting, frame);
    wire.receives.erase(waiting);
  }
}

/// Tells the others what changed in this rank's shared memory, and rank 0 what
/// changed in that of all: at once, unless that was often lately.
static void tellNotes(kerf_wire &wire) {
  char *own = wire.noteOf(wire.rank);
  if (std::memcmp(own, wire.told.data(), wire.noteBytes) != 0)
    wire.isNew[wire.rank] = wire.hasNews = true;
  double now = secondsNow();
  if (!wire.hasNews || now < wire.nextNote)
    return;
  constexpr double burst = 32;
  wire.nextNote =
      std::max(wire.nextNote, now - burst * wire.noteSec) + wire.noteSec;
  std::memcpy(wire.told.data(), own, wire.noteBytes);
  for (uint32_t of = 0; of < wire.size; ++of) {
    if (!wire.isNew[of])
      continue;
    wire.isNew[of] = false;
    if (!wire.isCenter())
      postNote(wire, 0, of);
    for (uint32_t to = 1; wire.isCenter() && to < wire.size; ++to)
      if (of != to)
        postNote(wire, to, of);
  }
  wire.hasNews = false;
}

static void pump(kerf_wire &wire) {
  tellNotes(wire);
  for (uint32_t peer = 0; peer < wire.sockets.size(); ++peer) {
    Socket *socket = wire.sockets[peer].get();
    if (!socket)
      continue;
    socket->read(
        [&](Incoming frame) { take(wire, *socket, std::move(frame)); });
    socket->write([](kerf_transfer *transfer) { transfer->isDone = true; });
    if (socket->isClosed && !socket->hasSaidBye)
      lose(wire, peer);
  }
}

//===----------------------------------------------------------------------===//
// Start and end
//===----------------------------------------------------------------------===//

static const char *describe() { return "TCP through rank 0"; }

/// Where the ranks meet; empty with what is wrong in `problem`.
static std::string portOf(std::string &problem) {
  const char *name = "KERF_PORT", *text = std::getenv(name);
  bool isTaken = false;
  if (!text || !*text) {
    name = "MASTER_PORT";
    text = std::getenv(name);
    const char *store = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
    isTaken = store && std::strcmp(store, "True") == 0;
  }
  if (!text || !*text) {
    problem = "the ranks cannot find each other: MASTER_PORT is not set";
    return "";
  }
  char *end;
  long port = std::strtol(text, &end, 10);
  long last = UINT16_MAX - isTaken;
  if (*end || port < 1 || port > last) {
    problem = std::string(name) + " is '" + text +
              "', expected a port from 1 to " + std::to_string(last);
    return "";
  }
  return std::to_string(port + isTaken);
}

/// There is one connection per rank at rank 0.
static void raiseLimit(uint32_t size) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  constexpr rlim_t others = 256;
  limit.rlim_cur =
      std::min(std::max<rlim_t>(limit.rlim_cur, size + others), limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

namespace {
/// A connection that has not said yet who it is.
struct Guest {
  int file;
  double deadline;
  Hello hello = {};
  size_t received = 0;
};
} // namespace

/// Takes what a guest has said; false when there is nothing more to hear of it.
static bool hear(Guest &guest) {
  char *at = reinterpret_cast<char *>(&guest.hello) + guest.received;
  ssize_t got =
      recv(guest.file, at, sizeof(Hello) - guest.received, MSG_DONTWAIT);
  if (got < 0)
    return errno == EAGAIN || errno == EINTR;
  guest.received += size_t(got);
  return got > 0;
}

/// Answers who said all; what is no rank of this job is turned away.
static void welcome(kerf_wire &wire, const Guest &guest) {
  const Hello &hello = guest.hello;
  if (std::memcmp(hello.magic, kMagic, sizeof kMagic) != 0 ||
      hello.name != patience.name) {
    close(guest.file);
    return;
  }
  Answer answer = Answer::Welcome;
  if (hello.size != wire.size || hello.rank == 0 || hello.rank >= wire.size)
    answer = Answer::WrongSize;
  else if (wire.sockets[hello.rank])
    answer = Answer::Taken;
  uint32_t reply[2] = {uint32_t(answer), wire.size};
  bool isTold =
      transferAll(guest.file, reply, sizeof reply, guest.deadline, true);
  if (!isTold || answer != Answer::Welcome) {
    close(guest.file);
    return;
  }
  wire.sockets[hello.rank] = std::make_unique<Socket>(guest.file);
}

/// Hears all guests together: one that says nothing delays no other, and is
/// sent away when its time is over, or others need the place.
static void hearGuests(kerf_wire &wire, std::list<Guest> &guests) {
  size_t most = 2 * size_t(wire.size) + 64;
  while (guests.size() > most) {
    close(guests.front().file);
    guests.pop_front();
  }
  for (auto guest = guests.begin(); guest != guests.end();) {
    bool goesOn = hear(*guest) && secondsNow() < guest->deadline;
    if (guest->received == sizeof(Hello))
      welcome(wire, *guest);
    else if (!goesOn)
      close(guest->file);
    else {
      ++guest;
      continue;
    }
    guest = guests.erase(guest);
  }
}

static uint32_t missingRank(const kerf_wire &wire) {
  for (uint32_t r = 1; r < wire.size; ++r)
    if (!wire.sockets[r])
      return r;
  return wire.size;
}

static kerf_wire_status gatherRanks(kerf_wire &wire, const std::string &port,
                                    char *error, size_t bytes) {
  std::string problem;
  raiseLimit(wire.size);
  // A rank that asks for this port before anybody listens may have it as its
  // own for a moment (`isOwnEnd`).
  constexpr double patienceSec = 2;
  double start = secondsNow();
  const char *address = std::getenv("MASTER_ADDR");
  std::string host = address ? address : "";
  int listener = listenOn(host, port, problem);
  while (listener < 0 && secondsNow() < start + patienceSec) {
    usleep(50'000);
    listener = listenOn(host, port, problem);
  }
  if (listener < 0)
    return fail(error, bytes, KERF_WIRE_FAILED,
                "%s; KERF_PORT=N takes another one, on all ranks",
                problem.c_str());
  double deadline = secondsNow() + patience.seconds;
  constexpr double guestSec = 5;
  std::list<Guest> guests;
  while (missingRank(wire) < wire.size && secondsNow() < deadline) {
    pollfd entry = {listener, POLLIN, 0};
    if (poll(&entry, 1, guests.empty() ? 50 : 2) > 0) {
      int file = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (file >= 0)
        guests.push_back({file, std::min(deadline, secondsNow() + guestSec)});
    }
    hearGuests(wire, guests);
  }
  close(listener);
  for (const Guest &guest : guests)
    close(guest.file);
  if (uint32_t missing = missingRank(wire); missing < wire.size)
    return fail(error, bytes, KERF_WIRE_FAILED,
                "rank %u did not come within %g s", missing, patience.seconds);
  // All are there: they may begin.
  for (uint32_t r = 1; r < wire.size; ++r) {
    char go = 1;
    transferAll(wire.sockets[r]->file, &go, 1, deadline + 5, true);
  }
  return KERF_WIRE_OK;
}

static kerf_wire_status joinCenter(kerf_wire &wire, const std::string &port,
                                   char *error, size_t bytes) {
  const char *host = std::getenv("MASTER_ADDR");
  std::string problem;
  double deadline = secondsNow() + patience.seconds;
  int file =
      connectTo(host && *host ? host : "127.0.0.1", port, deadline, problem);
  if (file < 0)
    return fail(error, bytes, KERF_WIRE_FAILED, "%s", problem.c_str());
  wire.sockets[0] = std::make_unique<Socket>(file);
  Hello hello = {{}, wire.rank, wire.size, patience.name};
  std::memcpy(hello.magic, kMagic, sizeof kMagic);
  uint32_t reply[2] = {};
  if (!transferAll(file, &hello, sizeof hello, deadline, true) ||
      !transferAll(file, reply, sizeof reply, deadline, false))
    return fail(error, bytes, KERF_WIRE_FAILED,
                "rank 0 does not know this job: do all ranks have the same "
                "KERF_SESSION, MASTER_ADDR and MASTER_PORT?");
  if (Answer(reply[0]) == Answer::WrongSize)
    return fail(error, bytes, KERF_WIRE_INVALID,
                "rank %u of %u joins a job of %u", wire.rank, wire.size,
                reply[1]);
  if (Answer(reply[0]) == Answer::Taken)
    return fail(error, bytes, KERF_WIRE_INVALID, "there are two ranks %u",
                wire.rank);
  char go = 0;
  if (!transferAll(file, &go, 1, deadline + 5, false))
    return fail(error, bytes, KERF_WIRE_FAILED,
                "rank 0 gave up: not all ranks came within %g s",
                patience.seconds);
  return KERF_WIRE_OK;
}

static kerf_wire_status connectWire(uint32_t rank, uint32_t size,
                                    uint64_t sharedBytes, kerf_wire **made,
                                    char *error, size_t bytes) {
  std::string problem, port = portOf(problem);
  if (port.empty())
    return fail(error, bytes, KERF_WIRE_INVALID, "%s", problem.c_str());
  auto wire = std::make_unique<kerf_wire>();
  wire->rank = rank;
  wire->size = size;
  wire->sockets.resize(rank == 0 ? size : 1);
  wire->noteBytes = sharedBytes;
  wire->told.resize(sharedBytes);
  wire->isNew.resize(size);
  wire->notes.resize(size * ((sharedBytes + sizeof(Line) - 1) / sizeof(Line)));
  // Rank 0 may send size^2 notes at a time: at most some megabytes per second.
  constexpr double notesPerSec = 200'000;
  wire->noteSec = double(size) * size / notesPerSec;
  kerf_wire_status status = rank == 0 ? gatherRanks(*wire, port, error, bytes)
                                      : joinCenter(*wire, port, error, bytes);
  if (status)
    return status;
  for (auto &socket : wire->sockets)
    if (socket)
      makeNonBlocking(socket->file);
  *made = wire.release();
  return KERF_WIRE_OK;
}

/// Says goodbye and waits a little until all is sent; rank 0 for what others
/// still send to each other.
static void disconnect(kerf_wire *wire, bool, bool) {
  constexpr double patienceSec = 2;
  double deadline = secondsNow() + patienceSec;
  for (uint32_t r = 0; r < wire->sockets.size(); ++r)
    if (wire->sockets[r])
      post(*wire, r, {kBye, wire->rank, r, 0, 0}, {});
  wire->nextNote = deadline + patienceSec; // no more of them
  auto isOpen = [&](const std::unique_ptr<Socket> &socket) {
    return socket && !socket->isClosed &&
           ((socket->canSend() && !socket->out.empty()) ||
            (wire->isCenter() && !socket->hasSaidBye));
  };
  while (secondsNow() < deadline &&
         std::any_of(wire->sockets.begin(), wire->sockets.end(), isOpen)) {
    pump(*wire);
    usleep(200);
  }
  delete wire;
}

/// The notes of a rank: on others a copy, some time old.
static void *sharedOf(kerf_wire *wire, uint32_t rank) {
  return wire->noteOf(rank);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

static kerf_wire_status sendTo(kerf_wire *wire, kerf_lane lane, uint32_t to,
                               uint32_t tag, const void *data, uint64_t bytes,
                               kerf_transfer **transfer, char *, size_t) {
  *transfer =
      new kerf_transfer{false, false, lane, to, tag, nullptr, bytes, {}};
  Socket *socket = wire->to(to);
  if (!socket || !socket->canSend()) {
    (*transfer)->isDone = true; // `test` tells who is lost
    return KERF_WIRE_OK;
  }
  Head head = {lane, wire->rank, to, tag, bytes};
  socket->out.push_back({head, static_cast<const char *>(data), {}, *transfer});
  return KERF_WIRE_OK;
}

static kerf_wire_status receiveFrom(kerf_wire *wire, kerf_lane lane,
                                    uint32_t from, uint32_t tag, void *data,
                                    uint64_t bytes, kerf_transfer **transfer,
                                    char *, size_t) {
  auto *made = new kerf_transfer{true, false, lane, from, tag, data, bytes, {}};
  *transfer = made;
  auto there = std::find_if(
      wire->arrived.begin(), wire->arrived.end(),
      [&](const Incoming &frame) { return fits(*made, frame.head); });
  if (there == wire->arrived.end()) {
    wire->receives.push_back(made);
    return KERF_WIRE_OK;
  }
  deliver(*made, *there);
  wire->arrived.erase(there);
  return KERF_WIRE_OK;
}

static void cancel(kerf_wire *wire, kerf_transfer *transfer) {
  wire->receives.remove(transfer);
  for (auto &socket : wire->sockets) {
    if (!socket)
      continue;
    for (Outgoing &frame : socket->out) {
      if (frame.transfer != transfer)
        continue;
      // Part of it may be under way: the rest is sent from a copy.
      frame.copy.assign(frame.data, frame.data + frame.head.bytes);
      socket->held += frame.copy.size();
      frame.data = nullptr;
      frame.transfer = nullptr;
    }
  }
  wire->unheard -= transfer->isDone && transfer->isReceive &&
                   transfer->lane == KERF_LANE_CONTROL;
  delete transfer;
}

static kerf_wire_status test(kerf_wire *wire, kerf_transfer *transfer,
                             bool *done, kerf_message *message, char *error,
                             size_t bytes) {
  if (!transfer->isDone)
    pump(*wire);
  *done = transfer->isDone;
  if (*done) {
    *message = transfer->message;
    wire->unheard -= transfer->isReceive && transfer->lane == KERF_LANE_CONTROL;
    delete transfer;
    return KERF_WIRE_OK;
  }
  // What it said before counts more.
  if (wire->lost == UINT32_MAX || wire->unheard != 0)
    return KERF_WIRE_OK;
  uint32_t lost = wire->lost;
  cancel(wire, transfer);
  return fail(error, bytes, KERF_WIRE_LOST, "rank %u died", lost);
}

Status kerf::runtime::tcp::connectTcp(const Rendezvous &rendezvous,
                                      std::unique_ptr<Transport> &transport) {
  static const kerf_wire_api api = {KERF_WIRE_ABI,  sizeof(kerf_wire_api),
                                    "tcp",          kMostBytes,
                                    (1u << 27) - 1, describe,
                                    ::connectWire,  disconnect,
                                    sharedOf,       sendTo,
                                    receiveFrom,    test,
                                    cancel};
  patience = {rendezvous.timeoutSec, kerf_hash_name(rendezvous.name.c_str())};
  return kerf::runtime::connectWire(api, rendezvous, transport);
}
