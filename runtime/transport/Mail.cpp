//===- Mail.cpp -----------------------------------------------------------===//

#include "Mail.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include <sched.h>

using namespace kerf::runtime;

static const char *const kindNames[] = {
    "all_reduce", "all_reduce", "all_gather", "reduce_scatter",
    "all_to_all", "rotate",     "send",       "barrier"};

static const char *kindName(uint32_t tag) {
  return tag < std::size(kindNames) ? kindNames[tag] : "something else";
}

/// First byte of a control message; text follows.
static constexpr char kAborts = 'a', kLeaves = 'l';

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

Status Mail::start(std::vector<Transfer> &list, kerf_lane lane, bool isReceive,
                   uint32_t peer, uint32_t tag, void *data, uint64_t bytes) {
  uint64_t at = 0;
  do {
    uint64_t here = std::min(api.max_bytes, bytes - at);
    char *part = static_cast<char *>(data) + at;
    Transfer transfer = {nullptr, lane, isReceive, peer, tag, here, nullptr};
    char error[512] = "";
    kerf_wire_status code =
        isReceive ? api.receive(wire, lane, peer, tag, part, here,
                                &transfer.handle, error, sizeof error)
                  : api.send(wire, lane, peer, tag, part, here,
                             &transfer.handle, error, sizeof error);
    if (code)
      return failure(KERF_FAILED, "%s", error);
    list.push_back(std::move(transfer));
    at += here;
  } while (at < bytes);
  return {};
}

Status Mail::send(uint32_t to, MailKind kind, const void *data,
                  uint64_t bytes) {
  return start(pending, KERF_LANE_ORDER, false, to, uint32_t(kind),
               const_cast<void *>(data), bytes);
}

Status Mail::receive(uint32_t from, MailKind kind, void *data, uint64_t bytes) {
  return start(pending, KERF_LANE_ORDER, true, from, uint32_t(kind), data,
               bytes);
}

Status Mail::receiveTagged(uint32_t from, uint32_t tag, void *data,
                           uint64_t bytes) {
  return start(pending, KERF_LANE_TAG, true, from, tag, data, bytes);
}

Status Mail::startCopy(kerf_lane lane, uint32_t to, uint32_t tag,
                       const void *data, uint64_t bytes) {
  auto *first = static_cast<const char *>(data);
  auto copy = std::make_shared<std::vector<char>>(first, first + bytes);
  size_t before = background.size();
  Status status = start(background, lane, false, to, tag, copy->data(), bytes);
  for (size_t t = before; t < background.size(); ++t)
    background[t].copy = copy;
  return status;
}

Status Mail::sendCopy(uint32_t to, uint32_t tag, const void *data,
                      uint64_t bytes) {
  return startCopy(KERF_LANE_TAG, to, tag, data, bytes);
}

Status Mail::expect(uint32_t from, uint32_t tag) {
  return start(background, KERF_LANE_TAG, true, from, tag, nullptr, 0);
}

/// What a wire said besides KERF_WIRE_OK.
Status Mail::wireFailure(kerf_wire_status code, const char *error) {
  if (code != KERF_WIRE_LOST)
    return failure(KERF_FAILED, "%s", error);
  if (!aborted.failed())
    aborted = failure(KERF_PEER_LOST, "%s", error);
  return aborted;
}

Status Mail::disagree(const Transfer &transfer, const kerf_message &message) {
  bool isOrder = transfer.lane == KERF_LANE_ORDER;
  std::string other =
      message.bytes == UINT64_MAX ? "more" : std::to_string(message.bytes);
  Status status = failure(
      KERF_FAILED,
      "ranks disagree: rank %u is in %s of %llu bytes, rank %u in %s of %s",
      rank, isOrder ? kindName(transfer.tag) : "receive",
      (unsigned long long)transfer.bytes, message.from,
      isOrder ? kindName(message.tag) : "send", other.c_str());
  abort(status.message);
  return status;
}

Status Mail::test(Transfer &transfer, bool &isDone) {
  kerf_message message = {};
  char error[512] = "";
  if (kerf_wire_status code = api.test(wire, transfer.handle, &isDone, &message,
                                       error, sizeof error)) {
    isDone = true;
    return wireFailure(code, error);
  }
  if (!isDone || !transfer.isReceive)
    return {};
  bool isRight = message.bytes == transfer.bytes && message.tag == transfer.tag;
  return isRight ? Status() : disagree(transfer, message);
}

/// Takes what is done off the list.
Status Mail::testAll(std::vector<Transfer> &list) {
  Status failed;
  std::erase_if(list, [&](Transfer &transfer) {
    bool isDone = false;
    Status status = test(transfer, isDone);
    if (status.failed() && !failed.failed())
      failed = status;
    return isDone;
  });
  return failed;
}

void Mail::giveUp(std::vector<Transfer> &list) {
  for (Transfer &transfer : list)
    api.cancel(wire, transfer.handle);
  list.clear();
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void Mail::hear(const kerf_message &message) {
  uint64_t length = std::min<uint64_t>(message.bytes, kControlBytes);
  if (length == 0)
    return;
  if (controlText[0] == kLeaves)
    leftAt[message.from] = secondsNow();
  else if (!aborted.failed() && !hasAborted)
    aborted = failure(KERF_PEER_LOST, "%.*s", int(length - 1), controlText + 1);
}

/// Takes all control messages that are there.
Status Mail::listen() {
  while (true) {
    char error[512] = "";
    if (!control && api.receive(wire, KERF_LANE_CONTROL, 0, 0, controlText,
                                kControlBytes, &control, error, sizeof error))
      return failure(KERF_FAILED, "%s", error);
    bool isDone = false;
    kerf_message message = {};
    kerf_wire_status code =
        api.test(wire, control, &isDone, &message, error, sizeof error);
    if (code || isDone)
      control = nullptr;
    if (code)
      return wireFailure(code, error);
    if (!isDone)
      return {};
    hear(message);
  }
}

void Mail::tell(char what, const std::string &text) {
  std::string message = what + text.substr(0, kControlBytes - 1);
  // Who cannot be told will find out.
  for (uint32_t r = 0; r < size; ++r)
    if (r != rank)
      (void)startCopy(KERF_LANE_CONTROL, r, 0, message.data(), message.size());
}

bool Mail::abort(const std::string &message) {
  if (hasAborted || aborted.failed())
    return false;
  hasAborted = true;
  tell(kAborts, message);
  poll();
  return true;
}

void Mail::poll() {
  // What fails here fails again where somebody waits.
  (void)testAll(background);
  (void)listen();
}

/// Who leaves has done its part: what it sent before may still come.
Status Mail::checkPeers(double now) {
  constexpr double graceSec = 0.2;
  if (aborted.failed())
    return aborted;
  for (const Transfer &transfer : pending)
    if (double at = leftAt[transfer.peer]; at > 0 && now - at > graceSec) {
      Status status =
          failure(KERF_PEER_LOST, "rank %u left the job", transfer.peer);
      abort(status.message);
      return status;
    }
  return {};
}

/// Many notice at the same time: the first of the waiting ranks tells.
Status Mail::checkStall(double now) {
  if (!watch.isStalled()) {
    stalledAt = 0;
    return {};
  }
  if (stalledAt == 0)
    stalledAt = now;
  if (now - stalledAt < std::min(0.1 * rank, 2.0))
    return {};
  std::string message = watch.describe();
  abort("rank " + std::to_string(rank) + ": " + message);
  return failure(KERF_STALLED, "%s", message.c_str());
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

/// Gives the core to who needs it; sleeps when it takes longer.
void Mail::idle(uint32_t round) {
  constexpr uint32_t yields = 1000;
  timespec time = {0, 50'000};
  if (round < yields)
    sched_yield();
  else
    nanosleep(&time, nullptr);
}

/// Waits until `look`, which tells it and may fail, says that it is done.
Status Mail::waitWhile(const std::function<Status(bool &)> &look) {
  bool isDone = false;
  Status status = look(isDone);
  if (isDone || status.failed())
    return status;
  watch.beginWait();
  constexpr double checkSec = 0.05;
  double checkedAt = 0;
  for (uint32_t round = 0; !status.failed(); ++round) {
    idle(round);
    status = look(isDone);
    if (status.failed() || isDone)
      break;
    (void)testAll(background);
    status = listen();
    double now = secondsNow();
    if (!status.failed())
      status = checkPeers(now);
    if (!status.failed() && now - checkedAt > checkSec) {
      checkedAt = now;
      status = checkStall(now);
    }
  }
  watch.endWait();
  // Where notes are messages, the others learn that this rank is at work.
  poll();
  return status;
}

Status Mail::finish() {
  Status status = waitWhile([this](bool &isDone) {
    size_t before = pending.size();
    Status tested = testAll(pending);
    isDone = pending.empty();
    if (pending.size() != before)
      watch.move(); // part of a large message
    return tested;
  });
  giveUp(pending);
  return status;
}

Status Mail::waitFor(const std::function<bool()> &isDone) {
  return waitWhile([&](bool &is) {
    is = isDone();
    return Status();
  });
}

//===----------------------------------------------------------------------===//
// Start and end
//===----------------------------------------------------------------------===//

Mail::Mail(const kerf_wire_api &api, const Rendezvous &rendezvous)
    : rank(rendezvous.rank), size(rendezvous.size), watch(rendezvous), api(api),
      ownNote(1), leftAt(rendezvous.size) {}

Status Mail::connect(const kerf_wire_api &api, const Rendezvous &rendezvous,
                     std::unique_ptr<Mail> &mail) {
  std::unique_ptr<Mail> made(new Mail(api, rendezvous));
  char error[512] = "";
  kerf_wire_status code =
      api.connect(rendezvous.rank, rendezvous.size, sizeof(RankNote),
                  &made->wire, error, sizeof error);
  if (code)
    return failure(code == KERF_WIRE_INVALID ? KERF_INVALID : KERF_FAILED,
                   "transport '%s': %s", api.name, error);
  for (uint32_t r = 0; r < made->size; ++r)
    made->watch.setNote(r, static_cast<RankNote *>(api.shared(made->wire, r)));
  if (!api.shared(made->wire, made->rank))
    made->watch.setNote(made->rank, made->ownNote.data());
  mail = std::move(made);
  return {};
}

bool Mail::haveAllLeft() const {
  for (uint32_t r = 0; r < size; ++r)
    if (r != rank && leftAt[r] == 0)
      return false;
  return true;
}

Mail::~Mail() {
  if (!wire)
    return;
  // Of a collective that a run which failed had begun.
  giveUp(pending);
  bool isFailed = hasAborted || aborted.failed();
  tell(kLeaves, "");
  // After a failure a rank may be unable to answer; and what nobody received
  // yet, nobody will.
  constexpr double patienceSec = 2, graceSec = 0.2;
  double start = secondsNow(), emptyAt = 0;
  watch.enter(UINT32_MAX);
  watch.leave();
  watch.beginWait();
  for (uint32_t round = 0;; ++round) {
    poll();
    isFailed |= aborted.failed();
    double now = secondsNow();
    if (haveAllLeft() && emptyAt == 0)
      emptyAt = now;
    if ((emptyAt > 0 && (background.empty() || now - emptyAt > graceSec)) ||
        (isFailed && now - start > patienceSec) || watch.isStalled())
      break;
    idle(round);
  }
  watch.endWait();
  giveUp(background);
  if (control)
    api.cancel(wire, control);
  api.disconnect(wire, haveAllLeft(), aborted.failed());
}
