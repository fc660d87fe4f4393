//===- StandIn.cpp - NCCL and streams of the host, for tests --------------===//
//
// Stands in for libnccl.so.2 and libcuda.so.1 where there is no GPU: streams
// and events work on memory of the host, and communicators are processes that
// share memory. Everything is asynchronous, as there: a call puts a task on a
// stream, and a thread goes round and takes each stream as far as it goes. So
// the transport runs as on GPUs, its waits, copies and orders included.
//
// Each pair of members has a pipe of bytes. An all-reduce sends all data to all
// members, who add them in order of their number.
//
//===----------------------------------------------------------------------===//

#include "Reduce.h"
#include "Streams.h"

#include "kerf/Artifact/Format.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

namespace {
enum Result : int {
  kSuccess = 0,
  kSystemError = 2,
  kInvalidUsage = 5,
  kInProgress = 7
};

constexpr uint64_t kPipeBytes = 64 << 10;
constexpr int kMostRanks = 16;

/// From one member to another. Counts are of all bytes so far.
struct Pipe {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  char data[kPipeBytes];
};

struct Shared {
  std::atomic<uint32_t> members;
  Pipe pipes[];
};

/// Bytes on their way to a member or from it.
struct Transfer {
  int peer;
  char *data;
  uint64_t bytes;
  uint64_t done = 0; ///< with its head, which has the bytes
  uint64_t head = 0;
};
} // namespace

struct ncclComm {
  std::string name;
  int rank, size, splits = 0;
  Shared *shared = nullptr;
  Result error = kSuccess;
  uint64_t begun = 0, ended = 0; ///< operations, one after the other

  Pipe &pipe(int from, int to) { return shared->pipes[from * size + to]; }
  uint64_t bytes() const {
    return sizeof(Shared) + uint64_t(size) * size * sizeof(Pipe);
  }
  Result attach();
  Result state();
  bool moveOut(Transfer &transfer);
  bool moveIn(Transfer &transfer);
};

namespace {
/// What one call or a group of calls does on one communicator.
struct Operation {
  ncclComm *comm;
  CUstream_st *stream;
  std::vector<Transfer> out, in;
  /// Memory of its own, and what is left to do when all is there.
  std::vector<std::unique_ptr<char[]>> memory;
  std::vector<std::function<void()>> last;
  uint64_t number = 0;

  char *take(uint64_t bytes) {
    return memory.emplace_back(new char[std::max<uint64_t>(bytes, 1)]).get();
  }
  bool go();
};

/// Calls between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::vector<std::shared_ptr<Operation>> operations;
};
thread_local Group group;
} // namespace

Result ncclComm::attach() {
  if (size > kMostRanks)
    return kInvalidUsage;
  int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, off_t(bytes())) != 0)
    return kSystemError;
  void *memory =
      mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED)
    return kSystemError;
  shared = static_cast<Shared *>(memory);
  // Who comes last takes the name away.
  if (int(++shared->members) == size)
    shm_unlink(name.c_str());
  return kInProgress;
}

Result ncclComm::state() {
  if (error != kSuccess || !shared)
    return error != kSuccess ? error : kInProgress;
  return int(shared->members.load()) >= size ? kSuccess : kInProgress;
}

/// Calls copy(place in the pipe, number of the byte, bytes) for pieces that are
/// in one piece on both sides: the head and the data of a transfer.
template <typename Copy>
static void pieces(uint64_t at, Transfer &transfer, uint64_t bytes, Copy copy) {
  constexpr uint64_t head = sizeof transfer.head;
  while (bytes != 0) {
    uint64_t end = transfer.done < head ? head : head + transfer.bytes;
    uint64_t here =
        std::min({bytes, kPipeBytes - at % kPipeBytes, end - transfer.done});
    if (here == 0)
      return;
    char *mine = transfer.done < head
                     ? reinterpret_cast<char *>(&transfer.head) + transfer.done
                     : transfer.data + transfer.done - head;
    copy(at % kPipeBytes, mine, here);
    transfer.done += here;
    at += here;
    bytes -= here;
  }
}

bool ncclComm::moveOut(Transfer &transfer) {
  Pipe &to = pipe(rank, transfer.peer);
  uint64_t before = transfer.done, written = to.written.load();
  transfer.head = transfer.bytes;
  pieces(written, transfer, kPipeBytes - (written - to.read.load()),
         [&](uint64_t at, char *mine, uint64_t bytes) {
           std::memcpy(to.data + at, mine, bytes);
         });
  written += transfer.done - before;
  to.written.store(written);
  // Ends no sooner than a large message would: when the other side has it.
  return transfer.done == transfer.bytes + sizeof transfer.head &&
         to.read.load() == written;
}

bool ncclComm::moveIn(Transfer &transfer) {
  Pipe &from = pipe(transfer.peer, rank);
  uint64_t before = transfer.done, read = from.read.load();
  pieces(read, transfer, from.written.load() - read,
         [&](uint64_t at, char *mine, uint64_t bytes) {
           std::memcpy(mine, from.data + at, bytes);
         });
  from.read.store(read + transfer.done - before);
  if (transfer.done >= sizeof transfer.head && transfer.head != transfer.bytes)
    error = kInvalidUsage; // the other side sends other bytes
  return transfer.done == transfer.bytes + sizeof transfer.head;
}

/// Moves the first transfer of each peer that is not done. True when all are.
template <typename Move>
static bool moveAll(std::vector<Transfer> &transfers, Move move) {
  std::vector<bool> isBusy(kMostRanks);
  std::erase_if(transfers, [&](Transfer &transfer) {
    if (isBusy[transfer.peer])
      return false;
    bool isDone = move(transfer);
    isBusy[transfer.peer] = !isDone;
    return isDone;
  });
  return transfers.empty();
}

bool Operation::go() {
  if (comm->state() != kSuccess || comm->ended != number)
    return false;
  bool isOut = moveAll(out, [&](Transfer &t) { return comm->moveOut(t); });
  bool isIn = moveAll(in, [&](Transfer &t) { return comm->moveIn(t); });
  if (!isOut || !isIn)
    return false;
  for (const auto &action : last)
    action();
  ++comm->ended;
  return true;
}

/// The operation that the next call belongs to.
static Operation &operationOf(ncclComm *comm, CUstream_st *stream) {
  for (auto &operation : group.operations)
    if (operation->comm == comm && operation->stream == stream)
      return *operation;
  auto made = std::make_shared<Operation>(Operation{comm, stream});
  return *group.operations.emplace_back(std::move(made));
}

static Result launch() {
  Result result = kSuccess;
  for (auto &operation : std::exchange(group.operations, {})) {
    if (Result state = operation->comm->state();
        state != kSuccess && state != kInProgress)
      result = state;
    operation->number = operation->comm->begun++;
    put(
        operation->stream, [operation] { return operation->go(); },
        operation->comm);
  }
  return result;
}

/// Runs `fill`, which adds transfers to the operation of a call.
template <typename Fill>
static Result call(ncclComm *comm, CUstream_st *stream, Fill fill) {
  ++group.depth;
  fill(operationOf(comm, stream));
  return --group.depth == 0 ? launch() : kSuccess;
}

/// Communicators that were made, and those that were told to stop.
static std::atomic<int> made, ended;

EXPORT Result ncclGetVersion(int *version) {
  *version = 22809;
  return kSuccess;
}
EXPORT const char *ncclGetErrorString(Result) { return "stand-in error"; }
EXPORT const char *ncclGetLastError(ncclComm *) { return ""; }

EXPORT Result ncclGetUniqueId(char *id) {
  static int number = 0;
  std::snprintf(id, 128, "/kerf-standin-%d-%d", int(getpid()), number++);
  return kSuccess;
}

struct UniqueId {
  char bytes[128];
};

EXPORT Result ncclCommInitRankConfig(ncclComm **comm, int size, UniqueId id,
                                     int rank, void *) {
  *comm = new ncclComm{id.bytes, rank, size};
  ++made;
  return (*comm)->attach();
}

/// Who is in a part with whom, all say through pipes of the whole.
EXPORT Result ncclCommSplit(ncclComm *comm, int color, int key, ncclComm **part,
                            void *) {
  int splits = ++comm->splits;
  auto own = std::make_shared<std::vector<int>>(std::vector<int>{color, key});
  auto all = std::make_shared<std::vector<int>>(2 * comm->size);
  *part = nullptr;
  if (color >= 0)
    *part = new ncclComm{comm->name + "." + std::to_string(splits) + "." +
                             std::to_string(color),
                         key, 0};
  made += *part != nullptr;
  ncclComm *child = *part;
  static CUstream_st *stream = nullptr;
  if (!stream)
    cuStreamCreate(&stream, 0);
  // Until then nothing of it is there.
  return call(comm, stream, [&](Operation &operation) {
    for (int peer = 0; peer < comm->size; ++peer) {
      uint64_t bytes = 2 * sizeof(int);
      operation.out.push_back(
          {peer, reinterpret_cast<char *>(own->data()), bytes});
      operation.in.push_back(
          {peer, reinterpret_cast<char *>(all->data() + 2 * peer), bytes});
    }
    operation.last.push_back([=] {
      (void)own;
      if (!child)
        return;
      for (size_t n = 0; n < all->size(); n += 2)
        child->size += (*all)[n] == color;
      Result result = child->attach();
      child->error = result == kInProgress ? kSuccess : result;
    });
  });
}

EXPORT Result ncclCommGetAsyncError(ncclComm *comm, Result *error) {
  std::lock_guard lock(Machine::get().mutex);
  *error = comm->state();
  return kSuccess;
}

/// Recordings of the device that have calls of NCCL in them.
static std::atomic<int> recordings;

EXPORT void kerfStandInRecord(int count) { recordings = count; }

/// Does not return where the library would wait for ever.
static void wouldWait(const char *why) {
  std::fprintf(stderr, "stand-in: NCCL would not end: %s\n", why);
  _exit(9);
}

static Result end(ncclComm *comm) {
  if (recordings != 0)
    wouldWait("there are recordings with its kernels");
  ++ended;
  Machine::get().forget(comm);
  std::lock_guard lock(Machine::get().mutex);
  if (comm->shared)
    munmap(comm->shared, comm->bytes());
  comm->shared = nullptr;
  return kSuccess; // the handle stays: a task may look at it
}
EXPORT Result ncclCommDestroy(ncclComm *comm) { return end(comm); }
EXPORT Result ncclCommAbort(ncclComm *comm) {
  if (group.depth == 0 && made - ended > 1)
    wouldWait("kernels of other communicators were not told to stop");
  return end(comm);
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

static uint32_t dtypeOf(int type) {
  switch (type) {
  case 2:
    return KERF_I32;
  case 6:
    return KERF_F16;
  case 7:
    return KERF_F32;
  case 8:
    return KERF_F64;
  case 9:
    return KERF_BF16;
  default:
    return KERF_I8;
  }
}

EXPORT Result ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}
EXPORT Result ncclGroupEnd() {
  return --group.depth == 0 ? launch() : kSuccess;
}

EXPORT Result ncclSend(const void *data, size_t count, int type, int peer,
                       ncclComm *comm, CUstream_st *stream) {
  return call(comm, stream, [&](Operation &operation) {
    operation.out.push_back({peer,
                             static_cast<char *>(const_cast<void *>(data)),
                             count * kerf_dtype_bytes(dtypeOf(type))});
  });
}

EXPORT Result ncclRecv(void *data, size_t count, int type, int peer,
                       ncclComm *comm, CUstream_st *stream) {
  return call(comm, stream, [&](Operation &operation) {
    operation.in.push_back({peer, static_cast<char *>(data),
                            count * kerf_dtype_bytes(dtypeOf(type))});
  });
}

EXPORT Result ncclAllGather(const void *source, void *destination, size_t count,
                            int type, ncclComm *comm, CUstream_st *stream) {
  uint64_t bytes = count * kerf_dtype_bytes(dtypeOf(type));
  return call(comm, stream, [&](Operation &operation) {
    for (int peer = 0; peer < comm->size; ++peer) {
      operation.out.push_back(
          {peer, static_cast<char *>(const_cast<void *>(source)), bytes});
      operation.in.push_back(
          {peer, static_cast<char *>(destination) + peer * bytes, bytes});
    }
  });
}

/// Part `of(peer)` of the source goes to each peer; what comes is added in
/// order of the members.
static Result reduce(const char *source, uint64_t step, void *destination,
                     size_t count, int type, int reduction, ncclComm *comm,
                     CUstream_st *stream) {
  uint32_t dtype = dtypeOf(type);
  uint64_t bytes = count * kerf_dtype_bytes(dtype);
  return call(comm, stream, [&](Operation &operation) {
    char *slots = operation.take(bytes * comm->size);
    for (int peer = 0; peer < comm->size; ++peer) {
      operation.out.push_back(
          {peer, const_cast<char *>(source) + peer * step, bytes});
      operation.in.push_back({peer, slots + peer * bytes, bytes});
    }
    int size = comm->size;
    operation.last.push_back([=] {
      std::vector<const void *> sources;
      for (int peer = 0; peer < size; ++peer)
        sources.push_back(slots + peer * bytes);
      kerf::runtime::reduceBuffers(dtype, reduction == 2 ? KERF_MAX : KERF_SUM,
                                   sources.data(), uint32_t(sources.size()),
                                   destination, count);
    });
  });
}

EXPORT Result ncclAllReduce(const void *source, void *destination, size_t count,
                            int type, int reduction, ncclComm *comm,
                            CUstream_st *stream) {
  return reduce(static_cast<const char *>(source), 0, destination, count, type,
                reduction, comm, stream);
}

EXPORT Result ncclReduceScatter(const void *source, void *destination,
                                size_t count, int type, int reduction,
                                ncclComm *comm, CUstream_st *stream) {
  return reduce(static_cast<const char *>(source),
                count * kerf_dtype_bytes(dtypeOf(type)), destination, count,
                type, reduction, comm, stream);
}
