//===- State.cpp ----------------------------------------------------------===//

#include "State.h"

#include "Watch.h"

#include <algorithm>
#include <utility>

#include <sched.h>

using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

/// Streams that can be told about: exchanges, and that many channels.
static constexpr uint32_t kWords = 1024;

State::State(Parts parts)
    : rank(parts.rank), size(parts.size), nccl(std::move(parts.nccl)),
      gpu(std::move(parts.gpu)), host(std::move(parts.host)), api(parts.api),
      device(parts.device), meeting(std::move(parts.meeting)),
      nameCommand(std::move(parts.nameCommand)),
      dropRecordings(std::move(parts.dropRecordings)) {
  // Without words messages about hangs say less.
  if (gpu->makeWords(kWords, words).failed())
    return;
  seen.resize(kWords);
  for (uint32_t n = kWords; n > 0; --n)
    freeWords.push_back({words + n - 1});
}

State::~State() {
  // Parts are gone before.
  if (worldLive.comm)
    (void)nccl->destroy(worldLive.comm);
  if (words)
    gpu->freeWords(words);
  for (const Block &block : scratches)
    api->free(device, block.memory, block.bytes);
}

Status State::order(uint32_t before, uint32_t after) {
  char error[512] = "";
  if (api->order(device, before, after, error, sizeof error))
    return failure(KERF_FAILED, "%s", error);
  return {};
}

Status State::alloc(uint64_t bytes, void *&memory) {
  char error[512] = "";
  kerf_device_status result = api->alloc(device, std::max<uint64_t>(bytes, 1),
                                         &memory, error, sizeof error);
  if (result == KERF_DEVICE_OK)
    return {};
  return failure(result == KERF_DEVICE_NO_MEMORY ? KERF_NO_MEMORY : KERF_FAILED,
                 "no memory of %llu bytes for messages: %s",
                 (unsigned long long)bytes, error);
}

Status State::reserveScratch(uint64_t bytes) {
  if (!scratches.empty() && bytes <= scratches.back().bytes)
    return {};
  if (!scratches.empty() && !scratches.back().isUsed) {
    api->free(device, scratches.back().memory, scratches.back().bytes);
    scratches.pop_back();
  }
  Block block = {nullptr, std::max<uint64_t>(bytes, 1)};
  Status status = alloc(block.bytes, block.memory);
  if (!status.failed())
    scratches.push_back(block);
  return status;
}

Status State::scratch(uint64_t bytes, char *&memory) {
  if (Status status = reserveScratch(bytes); status.failed())
    return status;
  scratches.back().isUsed = true;
  memory = static_cast<char *>(scratches.back().memory);
  return {};
}

Word State::takeWord() {
  if (freeWords.empty())
    return {};
  Word word = freeWords.back();
  freeWords.pop_back();
  return word;
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

Live *State::name(const Named &name) {
  Live &live = lives.emplace_back();
  live.name = name;
  unmet.push_back(&live);
  return &live;
}

void State::release(Live *live) {
  if (live->comm)
    (void)nccl->destroy(live->comm);
  std::erase(unmet, live);
  lives.remove_if([&](const Live &other) { return &other == live; });
}

Status State::makeWorld() {
  UniqueId id = {};
  if (rank == 0)
    if (Result result = nccl->getUniqueId(id); result != kSuccess)
      return explain(result, worldLive, "ncclGetUniqueId");
  if (Status status = meeting->share(id); status.failed())
    return status;
  return check(nccl->initRank(worldLive.comm, size, id, rank, Config()),
               worldLive, "ncclCommInitRankConfig");
}

Status State::makeParts(const std::vector<Split> &splits) {
  for (const Split &split : splits) {
    Live none, &live = split.color == kNoColor ? none : *unmet[split.named];
    Status status = check(nccl->split(worldLive.comm, split.color, split.key,
                                      live.comm, Config()),
                          worldLive, "ncclCommSplit");
    live.split = splitCount++;
    // The part is ready some time after the whole.
    if (!status.failed() && live.comm)
      status = check(kInProgress, live, "ncclCommSplit");
    if (status.failed())
      return status;
  }
  unmet.clear();
  return {};
}

Status State::meet() {
  Status status = worldLive.comm ? Status() : makeWorld();
  if (status.failed())
    return status;
  NamedList own;
  for (const Live *live : unmet)
    own.push_back(live->name);
  std::vector<Split> splits;
  status = meeting->plan(own, splits);
  return status.failed() ? status : makeParts(splits);
}

/// A graph with calls of NCCL keeps their communicator, and ncclCommAbort waits
/// for ever until the graph is gone (commDestroySync in NCCL's init.cc). It
/// also frees memory, for which the driver waits for the whole GPU, where
/// another communicator's kernel may wait for a lost rank: in a group all of
/// them are told to stop before the first one is freed.
void State::abortAll() {
  if (std::exchange(isAborted, true))
    return;
  if (!broken.failed())
    broken = failure(KERF_FAILED, "this rank stopped the job");
  if (dropRecordings)
    dropRecordings();
  auto end = [this](Live &live) {
    if (Comm comm = std::exchange(live.comm, nullptr))
      (void)nccl->abort(comm);
  };
  (void)nccl->groupStart();
  for (Live &live : lives)
    end(live);
  end(worldLive);
  (void)nccl->groupEnd();
  letStreamsEnd();
}

/// Memory that the streams still use is freed next. Waits for the GPU alone,
/// which no other rank holds up any more.
void State::letStreamsEnd() {
  constexpr double patienceSec = 2;
  double deadline = secondsNow() + patienceSec;
  std::vector<Stream> streams = channelStreams;
  streams.push_back(stream(kExchangeStream));
  streams.push_back(stream(0));
  for (Stream which : streams) {
    bool isDone = false;
    while (!gpu->look(which, isDone).failed() && !isDone &&
           secondsNow() < deadline)
      sched_yield();
  }
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// Where a rank is lost, the host's transport knows better which one and why,
/// soon.
Status State::explain(Result result, const Live &live, const char *function) {
  constexpr double patienceSec = 2;
  if (result == kRemoteError || result == kSystemError) {
    double start = secondsNow();
    Status status =
        host->waitFor([&] { return secondsNow() - start > patienceSec; });
    if (status.failed())
      return status;
  }
  return failure(KERF_FAILED, "%s: %s", function,
                 nccl->text(result, live.comm).c_str());
}

Status State::fail(Status status) {
  if (!broken.failed())
    broken = std::move(status);
  abortAll();
  return broken;
}

Status State::check(Result result, Live &live, const char *function) {
  if (result == kInProgress) {
    Status status = host->waitFor([&] {
      Result asked = nccl->getAsyncError(live.comm, result);
      if (asked != kSuccess)
        result = asked;
      return result != kInProgress;
    });
    if (status.failed())
      return fail(std::move(status));
  }
  return result == kSuccess ? Status() : fail(explain(result, live, function));
}

/// Did NCCL notice that something is wrong?
Status State::asyncError() {
  auto look = [this](const Live &live) {
    Result result = kSuccess;
    if (live.comm)
      (void)nccl->getAsyncError(live.comm, result);
    return result == kSuccess || result == kInProgress
               ? Status()
               : explain(result, live, "NCCL");
  };
  Status status = look(worldLive);
  for (const Live &live : lives)
    if (!status.failed())
      status = look(live);
  return status;
}

/// "; under way: 'fc' (all_gather)", of the commands that the device is in.
std::string State::underWay() const {
  std::string text;
  for (uint32_t n = 0; words && n < kWords; ++n) {
    uint32_t value = *static_cast<volatile uint32_t *>(words + n);
    if (value == 0)
      continue;
    text += text.empty() ? "; under way on the device: " : ", ";
    text += nameCommand ? nameCommand(value - 1)
                        : "command " + std::to_string(value - 1);
  }
  return text;
}

/// Tells the others where the device is, so that a long step is no hang.
void State::noteProgress() {
  for (uint32_t n = 0; n < seen.size(); ++n) {
    uint32_t value = *static_cast<volatile uint32_t *>(words + n);
    if (value == std::exchange(seen[n], value))
      continue;
    host->enter(value == 0 ? command : value - 1);
  }
}

Status State::drain(Stream stream) {
  if (broken.failed())
    return broken;
  Status found;
  double askedAt = secondsNow();
  Status status = host->waitFor([&] {
    bool isDone = false;
    found = gpu->look(stream, isDone);
    if (isDone || found.failed())
      return true;
    constexpr double askSec = 0.01;
    if (secondsNow() - askedAt < askSec)
      return false;
    askedAt = secondsNow();
    noteProgress();
    found = asyncError();
    return found.failed();
  });
  // A rank that hangs: what the device is in tells more than the host's place.
  if (status.code == KERF_FAILED)
    status.message += underWay();
  if (status.failed() || found.failed())
    return fail(status.failed() ? status : found);
  return {};
}
