//===- Calls.cpp ----------------------------------------------------------===//

#include "Calls.h"

#include "kerf/Artifact/Format.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <utility>

using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

const char *kerf::runtime::nccl::functionName(CallKind kind) {
  switch (kind) {
  case CallKind::AllReduce:
    return "ncclAllReduce";
  case CallKind::AllGather:
    return "ncclAllGather";
  case CallKind::ReduceScatter:
    return "ncclReduceScatter";
  case CallKind::Send:
    return "ncclSend";
  case CallKind::Receive:
    return "ncclRecv";
  default:
    return "";
  }
}

static bool isMessage(CallKind kind) {
  return kind == CallKind::Send || kind == CallKind::Receive;
}
static bool isNccl(CallKind kind) { return *functionName(kind); }

uint32_t Job::add(std::vector<Call> list) {
  for (uint32_t n = 0; n < lists.size(); ++n)
    if (lists[n] == list)
      return n;
  lists.push_back(std::move(list));
  return uint32_t(lists.size() - 1);
}

/// "sum ": of a reduction.
static const char *reductionName(const Call &call) {
  if (call.kind != CallKind::AllReduce && call.kind != CallKind::ReduceScatter)
    return "";
  return call.reduction == kMax ? " max" : " sum";
}

static uint32_t peerOf(const Job &job, uint32_t rank, const Call &call) {
  const Membership &own = job.ranks[rank].comms[call.comm];
  return uint32_t((own.place + call.distance) % job.members[own.comm].size());
}

/// "ncclSend f32 x 64".
static std::string describe(const Call &call) {
  return std::string(functionName(call.kind)) + reductionName(call) + " " +
         typeName(DataType(call.type)) + " x " + std::to_string(call.count);
}

std::string kerf::runtime::nccl::lineOf(const Job &job, uint32_t rank,
                                        uint32_t number, const Call &call) {
  const Membership &own = job.ranks[rank].comms[call.comm];
  std::string line =
      "rank " + std::to_string(rank) + " call " + std::to_string(number) + " " +
      job.nameCommand(rank, call.command) + " " + functionName(call.kind) +
      reductionName(call) + " comm " + std::to_string(own.comm) + " size " +
      std::to_string(job.members[own.comm].size()) + " " +
      typeName(DataType(call.type)) + " count " + std::to_string(call.count) +
      " stream " + std::to_string(call.stream);
  if (isMessage(call.kind))
    line += " peer " +
            std::to_string(job.members[own.comm][peerOf(job, rank, call)]);
  return line;
}

//===----------------------------------------------------------------------===//
// Lists by stream
//===----------------------------------------------------------------------===//

namespace {
/// Calls [begin, end) of a list, which begin together.
struct Item {
  uint32_t begin, end;
};

/// A list split into streams.
struct Streams {
  std::vector<std::vector<Item>> items; ///< by stream, in order
  std::vector<uint32_t> drains;         ///< calls that are a Drain
  /// By event: on which stream it was recorded, and behind how many items.
  std::unordered_map<uint64_t, std::pair<uint32_t, uint32_t>> events;
};
} // namespace

static Status splitByStream(const std::vector<Call> &list, Streams &streams) {
  for (uint32_t n = 0; n < list.size();) {
    const Call &call = list[n];
    uint32_t end = n + 1;
    while (isNccl(call.kind) && end < list.size() && isNccl(list[end].kind) &&
           list[end].group == call.group)
      ++end;
    for (uint32_t m = n; m < end; ++m)
      if (list[m].comm != call.comm || list[m].stream != call.stream)
        return failure(KERF_FAILED,
                       "call %u: a group of calls works on two "
                       "communicators or streams",
                       m);
    if (call.kind == CallKind::Drain) {
      streams.drains.push_back(n);
    } else {
      if (streams.items.size() <= call.stream)
        streams.items.resize(call.stream + 1);
      streams.items[call.stream].push_back({n, end});
    }
    if (call.kind == CallKind::Record)
      streams.events[call.count] = {
          call.stream, uint32_t(streams.items[call.stream].size())};
    n = end;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Running the lists
//===----------------------------------------------------------------------===//

namespace {
/// One stream of one rank.
struct Head {
  uint32_t item = 0;     ///< the first that is not done
  uint32_t open = 0;     ///< its calls that have no partner yet
  bool hasBegun = false; ///< it waits for its partners
};

struct RankState {
  std::vector<Head> heads;
  uint32_t drain = 0; ///< the first that the host has not passed
  bool isQueued = false;
};

/// A call that has begun and waits.
struct Waiting {
  uint32_t rank, stream;
  Call call;
};

/// One collective of a communicator: who has begun it.
struct Meet {
  std::vector<Waiting> ranks;
};

struct CommState {
  std::vector<uint64_t> begun; ///< collectives, by place
  uint64_t done = 0;           ///< collectives that all have begun
  std::deque<Meet> meets;      ///< number `done` and later
  /// Calls that wait for the other side, by sender * size + receiver.
  std::unordered_map<uint64_t, std::deque<Waiting>> sends, receives;
};

class Run {
public:
  Run(const Job &job, Counts &counts) : job(job), counts(counts) {}
  Status run();

private:
  const Call &callOf(uint32_t rank, uint32_t number) const {
    return job.lists[job.ranks[rank].list][number];
  }
  void wake(uint32_t rank);
  Status advance(uint32_t rank);
  Status advanceStream(uint32_t rank, uint32_t stream, bool &moved);
  bool passDrain(uint32_t rank);
  Status begin(uint32_t rank, uint32_t stream, const Item &item);
  Status beginCollective(const Waiting &own);
  Status beginMessage(const Waiting &own);
  void done(const Waiting &waiting);
  std::string where(const Waiting &waiting) const;
  Status disagree(const Waiting &a, const Waiting &b) const;
  Status describeHang() const;
  std::string describeWait(uint32_t rank, uint32_t stream) const;

  const Job &job;
  Counts &counts;
  std::vector<Streams> streams; ///< by list
  std::vector<RankState> ranks;
  std::vector<CommState> comms;
  std::deque<uint32_t> queue; ///< ranks that may go on
};
} // namespace

void Run::wake(uint32_t rank) {
  if (std::exchange(ranks[rank].isQueued, true))
    return;
  queue.push_back(rank);
}

/// "rank 3 in 'fc' (all_gather): ncclAllGather f32 x 64".
std::string Run::where(const Waiting &waiting) const {
  return "rank " + std::to_string(waiting.rank) + " in " +
         job.nameCommand(waiting.rank, waiting.call.command) + ": " +
         describe(waiting.call);
}

Status Run::disagree(const Waiting &a, const Waiting &b) const {
  if (b.rank < a.rank)
    return disagree(b, a);
  uint32_t comm = job.ranks[a.rank].comms[a.call.comm].comm;
  return failure(KERF_INVALID, "ranks disagree on communicator %u: %s, but %s",
                 comm, where(a).c_str(), where(b).c_str());
}

/// A call found its partner.
void Run::done(const Waiting &waiting) {
  Head &head = ranks[waiting.rank].heads[waiting.stream];
  if (--head.open == 0)
    wake(waiting.rank);
}

Status Run::beginCollective(const Waiting &own) {
  const Membership &member = job.ranks[own.rank].comms[own.call.comm];
  CommState &comm = comms[member.comm];
  comm.begun.resize(job.members[member.comm].size());
  uint64_t number = comm.begun[member.place]++;
  if (comm.meets.size() <= number - comm.done)
    comm.meets.resize(number - comm.done + 1);
  Meet &meet = comm.meets[number - comm.done];
  meet.ranks.push_back(own);
  const Call &a = meet.ranks.front().call, &b = own.call;
  if (a.kind != b.kind || a.type != b.type || a.count != b.count ||
      a.reduction != b.reduction)
    return disagree(meet.ranks.front(), own);
  // All have begun the earlier ones, too.
  while (!comm.meets.empty() &&
         comm.meets.front().ranks.size() == comm.begun.size()) {
    for (const Waiting &waiting : comm.meets.front().ranks)
      done(waiting);
    comm.meets.pop_front();
    ++comm.done;
    ++counts.collectives;
  }
  return {};
}

Status Run::beginMessage(const Waiting &own) {
  const Membership &member = job.ranks[own.rank].comms[own.call.comm];
  CommState &comm = comms[member.comm];
  uint64_t size = job.members[member.comm].size();
  uint64_t peer = peerOf(job, own.rank, own.call);
  bool isSend = own.call.kind == CallKind::Send;
  uint64_t pair =
      isSend ? member.place * size + peer : peer * size + member.place;
  auto &others = isSend ? comm.receives[pair] : comm.sends[pair];
  if (others.empty()) {
    (isSend ? comm.sends[pair] : comm.receives[pair]).push_back(own);
    return {};
  }
  Waiting other = others.front();
  others.pop_front();
  if (other.call.count != own.call.count || other.call.type != own.call.type)
    return disagree(other, own);
  done(other);
  done(own);
  ++counts.messages;
  return {};
}

Status Run::begin(uint32_t rank, uint32_t stream, const Item &item) {
  Head &head = ranks[rank].heads[stream];
  head.hasBegun = true;
  head.open = item.end - item.begin;
  for (uint32_t n = item.begin; n < item.end; ++n) {
    Waiting own{rank, stream, callOf(rank, n)};
    ++counts.calls;
    Status status =
        isMessage(own.call.kind) ? beginMessage(own) : beginCollective(own);
    if (status.failed())
      return status;
  }
  return {};
}

/// Does the host go on behind the Drain that it is at?
bool Run::passDrain(uint32_t rank) {
  const Streams &list = streams[job.ranks[rank].list];
  RankState &state = ranks[rank];
  if (state.drain == list.drains.size())
    return false;
  uint32_t at = list.drains[state.drain];
  uint32_t stream = callOf(rank, at).stream;
  if (stream < list.items.size()) {
    const auto &items = list.items[stream];
    uint32_t item = state.heads[stream].item;
    if (item < items.size() && items[item].begin < at)
      return false;
  }
  ++state.drain;
  return true;
}

/// Takes a stream as far as it goes.
Status Run::advanceStream(uint32_t rank, uint32_t stream, bool &moved) {
  const Streams &list = streams[job.ranks[rank].list];
  RankState &state = ranks[rank];
  Head &head = state.heads[stream];
  const auto &items = list.items[stream];
  uint32_t enqueued =
      state.drain < list.drains.size() ? list.drains[state.drain] : UINT32_MAX;
  for (; head.item < items.size(); moved = true) {
    const Item &item = items[head.item];
    const Call &call = callOf(rank, item.begin);
    if (item.begin > enqueued)
      return {};
    if (call.kind == CallKind::Wait) {
      auto event = list.events.find(call.count);
      if (event != list.events.end() &&
          state.heads[event->second.first].item < event->second.second)
        return {};
    } else if (isNccl(call.kind)) {
      if (!head.hasBegun)
        if (Status status = begin(rank, stream, item); status.failed())
          return status;
      if (head.open != 0)
        return {};
    }
    head.hasBegun = false;
    ++head.item;
  }
  return {};
}

Status Run::advance(uint32_t rank) {
  bool moved = true;
  while (moved) {
    moved = passDrain(rank);
    for (uint32_t stream = 0; stream < ranks[rank].heads.size(); ++stream)
      if (Status status = advanceStream(rank, stream, moved); status.failed())
        return status;
  }
  return {};
}

/// What the first call of a stream waits for; "" when it does not.
std::string Run::describeWait(uint32_t rank, uint32_t stream) const {
  const Head &head = ranks[rank].heads[stream];
  const auto &items = streams[job.ranks[rank].list].items[stream];
  if (head.item == items.size() || !head.hasBegun)
    return "";
  Waiting own{rank, stream, callOf(rank, items[head.item].begin)};
  std::string text = where(own);
  const Membership &member = job.ranks[rank].comms[own.call.comm];
  if (isMessage(own.call.kind))
    return text +
           (own.call.kind == CallKind::Send ? " to rank " : " from rank ") +
           std::to_string(
               job.members[member.comm][peerOf(job, rank, own.call)]);
  const CommState &comm = comms[member.comm];
  for (uint32_t place = 0; place < comm.begun.size(); ++place)
    if (comm.begun[place] < comm.begun[member.place])
      return text + ", rank " +
             std::to_string(job.members[member.comm][place]) + " does not come";
  return text;
}

Status Run::describeHang() const {
  std::string text;
  uint32_t waiting = 0;
  bool isDone = true;
  constexpr uint32_t shown = 4;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank)
    for (uint32_t stream = 0; stream < ranks[rank].heads.size(); ++stream) {
      isDone &= ranks[rank].heads[stream].item ==
                streams[job.ranks[rank].list].items[stream].size();
      std::string wait = describeWait(rank, stream);
      if (wait.empty() || ++waiting > shown)
        continue;
      text += (waiting == 1 ? "" : "; ") + wait;
    }
  if (waiting > shown)
    text += "; and " + std::to_string(waiting - shown) + " more";
  return isDone ? Status()
                : failure(KERF_INVALID, "the job hangs: %s", text.c_str());
}

Status Run::run() {
  streams.resize(job.lists.size());
  for (size_t n = 0; n < job.lists.size(); ++n)
    if (Status status = splitByStream(job.lists[n], streams[n]);
        status.failed())
      return status;
  comms.resize(job.members.size());
  ranks.resize(job.ranks.size());
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].heads.resize(streams[job.ranks[rank].list].items.size());
    wake(rank);
  }
  while (!queue.empty()) {
    uint32_t rank = queue.front();
    queue.pop_front();
    ranks[rank].isQueued = false;
    if (Status status = advance(rank); status.failed())
      return status;
  }
  return describeHang();
}

Status kerf::runtime::nccl::checkCalls(const Job &job, Counts &counts) {
  return Run(job, counts).run();
}
