//===- transport-suite.cpp - one suite for all transports -----------------===//
//
//   kerf-transport-suite TRANSPORT CASE
//
// is one rank of a job, which its environment tells as it tells kerf-run's.
// Every collective is compared with what its definition says; then ranks leave,
// stop, hang and die. transports.py starts the jobs and knows how they must
// end.
//
//===----------------------------------------------------------------------===//

#include "Late.h"
#include "Numbers.h"
#include "Transport.h"
#include "nccl/SuiteDevice.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace kerf::runtime;

namespace {

/// One rank: the world, and a count of what went wrong.
struct Rank {
  uint32_t rank = 0, size = 1;
  std::string transportName;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Communicator> world;
  int faults = 0;

  void expect(const Status &status) {
    if (status.failed())
      fault(status.message.c_str());
  }
  void expect(bool isRight, const char *what) {
    if (!isRight)
      fault(what);
  }
  void fault(const char *what) {
    if (++faults < 5)
      std::fprintf(stderr, "rank %u of %u: %s\n", rank, size, what);
  }
  /// Must fail with this message.
  void expectFailure(const Status &status, const std::string &message) {
    bool isRight = status.failed() && status.message == message;
    expect(isRight,
           ("'" + status.message + "', expected '" + message + "'").c_str());
  }
  std::vector<uint32_t> all() const {
    std::vector<uint32_t> ranks;
    for (uint32_t r = 0; r < size; ++r)
      ranks.push_back(r);
    return ranks;
  }
};

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

/// Element i of what `rank` has: whole numbers, so that sums are exact.
double valueOf(uint32_t rank, uint64_t i) {
  return double((i * 7 + rank * 13) % 31) - 11;
}

void put(void *data, uint32_t dtype, uint64_t i, double x) {
  switch (dtype) {
  case KERF_F32:
    static_cast<float *>(data)[i] = x;
    break;
  case KERF_F64:
    static_cast<double *>(data)[i] = x;
    break;
  case KERF_I32:
    static_cast<int32_t *>(data)[i] = x;
    break;
  case KERF_BF16:
    static_cast<uint16_t *>(data)[i] = toBf16(x);
    break;
  case KERF_F16:
    static_cast<uint16_t *>(data)[i] = toF16(x);
    break;
  default:
    static_cast<int8_t *>(data)[i] = x;
  }
}

double get(const void *data, uint32_t dtype, uint64_t i) {
  switch (dtype) {
  case KERF_F32:
    return static_cast<const float *>(data)[i];
  case KERF_F64:
    return static_cast<const double *>(data)[i];
  case KERF_I32:
    return static_cast<const int32_t *>(data)[i];
  case KERF_BF16:
    return fromBf16(static_cast<const uint16_t *>(data)[i]);
  case KERF_F16:
    return fromF16(static_cast<const uint16_t *>(data)[i]);
  default:
    return static_cast<const int8_t *>(data)[i];
  }
}

/// A buffer with a guard behind it that must survive.
struct Buffer {
  uint32_t dtype;
  uint64_t count;
  std::vector<char> bytes;

  Buffer(uint32_t dtype, uint64_t count)
      : dtype(dtype), count(count),
        bytes(count * kerf_dtype_bytes(dtype) + 16, 0x5a) {}
  void *data() { return bytes.data(); }
  void set(uint64_t i, double x) { put(data(), dtype, i, x); }
  double at(uint64_t i) { return get(data(), dtype, i); }
  bool guardHolds() const {
    return std::all_of(bytes.end() - 16, bytes.end(),
                       [](char c) { return c == 0x5a; });
  }
};

//===----------------------------------------------------------------------===//
// Collectives of one group, compared with their definitions
//===----------------------------------------------------------------------===//

struct Conformance {
  Rank &rank;
  Communicator &group;
  std::vector<uint32_t> members;

  /// Reduced element i of all members' sources.
  double reduced(uint32_t reduction, uint64_t i) const {
    double result = valueOf(members[0], i);
    for (size_t m = 1; m < members.size(); ++m) {
      double x = valueOf(members[m], i);
      result = reduction == KERF_MAX ? std::max(result, x) : result + x;
    }
    return result;
  }
  Buffer source(uint32_t dtype, uint64_t count) {
    Buffer buffer(dtype, count);
    for (uint64_t i = 0; i < count; ++i)
      buffer.set(i, valueOf(rank.rank, i));
    return buffer;
  }
  template <typename Expected>
  void compare(Buffer &buffer, const char *what, Expected expected) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < buffer.count; ++i)
      wrong += buffer.at(i) != expected(i);
    rank.expect(wrong == 0 && buffer.guardHolds(), what);
  }

  void allReduce(uint32_t dtype, uint32_t reduction, uint64_t count,
                 bool inPlace) {
    Buffer from = source(dtype, count), other(dtype, count);
    Buffer &to = inPlace ? from : other;
    rank.expect(
        group.allReduce(from.data(), to.data(), dtype, reduction, count));
    compare(to, "all_reduce",
            [&](uint64_t i) { return reduced(reduction, i); });
  }
  void allGather(uint32_t dtype, uint64_t outer, uint64_t inner) {
    uint64_t n = members.size();
    Buffer from = source(dtype, outer * inner), to(dtype, outer * n * inner);
    rank.expect(group.allGather(from.data(), to.data(), dtype, outer, inner));
    compare(to, "all_gather", [&](uint64_t i) {
      uint64_t o = i / (n * inner), m = i / inner % n;
      return valueOf(members[m], o * inner + i % inner);
    });
  }
  void reduceScatter(uint32_t dtype, uint32_t reduction, uint64_t outer,
                     uint64_t inner) {
    uint64_t n = members.size();
    Buffer from = source(dtype, outer * n * inner), to(dtype, outer * inner);
    rank.expect(group.run({KERF_OP_REDUCE_SCATTER, from.data(), to.data(),
                           dtype, reduction, false, outer, 1, inner}));
    compare(to, "reduce_scatter", [&](uint64_t i) {
      uint64_t o = i / inner;
      return reduced(reduction, (o * n + group.rank()) * inner + i % inner);
    });
  }
  void allToAll(uint32_t dtype, uint64_t outer, uint64_t middle, uint64_t inner,
                bool back) {
    uint64_t n = members.size(), count = outer * n * middle * inner;
    Buffer from = source(dtype, count), to(dtype, count);
    rank.expect(group.run({KERF_OP_ALL_TO_ALL, from.data(), to.data(), dtype,
                           KERF_SUM, back, outer, middle, inner}));
    compare(to, "all_to_all", [&](uint64_t i) {
      // From (o, m, s, c) or, back, (o, s, m, c), where m is a member.
      uint64_t c = i % inner, o = i / (inner * n * middle);
      uint64_t a = i / (inner * (back ? middle : n)) % (back ? n : middle);
      uint64_t b = i / inner % (back ? middle : n);
      uint64_t self = group.rank();
      return back ? valueOf(members[a],
                            ((o * middle + b) * n + self) * inner + c)
                  : valueOf(members[b],
                            ((o * n + self) * middle + a) * inner + c);
    });
  }
  void rotate(uint32_t dtype, uint64_t count) {
    uint32_t next = (group.rank() + 1) % members.size();
    Buffer from = source(dtype, count), to(dtype, count);
    rank.expect(group.run({KERF_OP_ROTATE, from.data(), to.data(), dtype,
                           KERF_SUM, false, 1, 1, count}));
    compare(to, "rotate",
            [&](uint64_t i) { return valueOf(members[next], i); });
  }
  void pass(uint64_t count) {
    uint32_t n = members.size(), self = group.rank();
    Buffer from = source(KERF_F32, count), to(KERF_F32, count);
    uint32_t next = (self + 1) % n, before = (self + n - 1) % n;
    // Sends may need their receiver: even members send first.
    for (bool sends : {self % 2 == 0, self % 2 != 0})
      rank.expect(sends ? group.send(next, from.data(), count * 4)
                        : group.receive(before, to.data(), count * 4));
    compare(to, "send and receive",
            [&](uint64_t i) { return valueOf(members[before], i); });
  }
  void small();
  void large();
};

/// Every dtype at little sizes, the empty one among them.
void Conformance::small() {
  for (uint32_t dtype : {KERF_F32, KERF_BF16, KERF_F64, KERF_I32, KERF_F16})
    for (uint32_t reduction : {KERF_SUM, KERF_MAX})
      for (uint64_t count : {0, 1, 3, 1000, 1025, 5000}) {
        allReduce(dtype, reduction, count, count % 2);
        reduceScatter(dtype, reduction, 3, count);
      }
  for (uint32_t dtype = 0; dtype < KERF_DTYPE_COUNT; ++dtype) {
    rotate(dtype, 0);
    rotate(dtype, 1001);
    for (uint64_t outer : {0, 1, 9})
      for (uint64_t inner : {0, 1, 17}) {
        allGather(dtype, outer, inner);
        allToAll(dtype, outer, 2, inner, false);
        allToAll(dtype, outer, 3, inner, true);
      }
  }
  rank.expect(group.barrier());
}

/// Around the pieces of 256 KiB that transports work in.
void Conformance::large() {
  for (uint64_t count : {65535, 65536, 65537, 200000}) {
    allReduce(KERF_F32, KERF_SUM, count, false);
    allReduce(KERF_BF16, KERF_SUM, count, true);
    allGather(KERF_F32, 1, count);
    allGather(KERF_I1, 7, count / 7);
    reduceScatter(KERF_F32, KERF_SUM, 1, count);
    reduceScatter(KERF_F64, KERF_MAX, count / 5, 5);
    allToAll(KERF_F32, 1, 1, count / 4, false);
    allToAll(KERF_F32, 5, count / 50, 2, true);
    allToAll(KERF_BF16, count / 60, 3, 5, false);
    rotate(KERF_F32, count);
    if (members.size() % 2 == 0)
      pass(count);
  }
}

void collectives(Rank &rank) {
  Conformance all{rank, *rank.world, rank.all()};
  all.small();
  all.large();
}

/// With little data: for many ranks on few cores.
void crowd(Rank &rank) {
  Conformance all{rank, *rank.world, rank.all()};
  for (int round = 0; round < 20 && !rank.faults; ++round) {
    all.allReduce(KERF_F32, KERF_SUM, 5000, false);
    all.allGather(KERF_F32, 3, 77);
    all.rotate(KERF_BF16, 400);
    rank.expect(rank.world->barrier());
  }
}

double secondsNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

/// Whoever starts does not wait for the others: they start when a file tells
/// them that rank 0 did. Clocks would tell as well, but not on a busy machine.
void startsAlone(Rank &rank) {
  const char *session = std::getenv("KERF_SESSION");
  std::string path =
      std::string("/tmp/kerf-") + (session ? session : "suite") + "-started";
  constexpr double patienceSec = 60;
  if (rank.rank == 0)
    unlink(path.c_str()); // of a run that was killed
  rank.expect(rank.world->barrier());
  double begin = secondsNow();
  auto isThere = [&] { return access(path.c_str(), F_OK) == 0; };
  while (rank.rank != 0 && !isThere() && secondsNow() - begin < patienceSec)
    usleep(1000);
  rank.expect(rank.rank == 0 || isThere(), "a start waits for the others");
  float x = 1, y = 0;
  rank.expect(rank.world->start(
      {KERF_OP_ALL_REDUCE, &x, &y, KERF_F32, KERF_SUM, false, 1, 1, 1}));
  if (rank.rank == 0) {
    int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    rank.expect(file >= 0, "cannot tell the others");
    close(file);
  }
  rank.expect(rank.world->finish());
  rank.expect(rank.world->barrier());
  if (rank.rank == 0)
    unlink(path.c_str());
}

/// All exchanges in halves, with something between them.
void halves(Rank &rank) {
  uint32_t n = rank.size;
  for (uint64_t count : {0, 3, 4096, 300'000})
    for (uint32_t opcode :
         {KERF_OP_ALL_REDUCE, KERF_OP_ALL_GATHER, KERF_OP_REDUCE_SCATTER,
          KERF_OP_ALL_TO_ALL, KERF_OP_ROTATE}) {
      bool takesAll =
          opcode == KERF_OP_REDUCE_SCATTER || opcode == KERF_OP_ALL_TO_ALL;
      std::vector<float> from(takesAll ? n * count : count);
      for (uint64_t i = 0; i < from.size(); ++i)
        from[i] = valueOf(rank.rank, i);
      std::vector<float> whole(n * count, -1), halved(n * count, -1);
      Exchange exchange{opcode, from.data(), whole.data()};
      exchange.inner = count;
      rank.expect(rank.world->run(exchange));
      exchange.destination = halved.data();
      rank.expect(rank.world->start(exchange));
      rank.transport->enter(opcode);
      rank.expect(rank.world->finish());
      rank.expect(whole == halved, "halves make another result");
      rank.expect(count == 0 || whole[0] != -1, "no result");
    }
  startsAlone(rank);
}

// A rank goes from one group into another while the first one's members still
// read what it posted there.
void groups(Rank &rank) {
  uint32_t r = rank.rank;
  std::unique_ptr<Communicator> rows, columns, alone;
  std::vector<uint32_t> row = {r / 2 * 2, r / 2 * 2 + 1},
                        column = {r % 2, r % 2 + 2};
  rank.expect(rank.transport->split(row, rows));
  rank.expect(rank.transport->split(column, columns));
  rank.expect(rank.transport->split({r}, alone));
  rank.expect(rank.transport->meet());
  for (int round = 0; round < 100 && !rank.faults; ++round) {
    Conformance{rank, *rows, row}.allReduce(KERF_F32, KERF_SUM, 1234, false);
    Conformance{rank, *columns, column}.allGather(KERF_F32, 3, 77);
    Conformance{rank, *columns, column}.rotate(KERF_F32, 123);
    Conformance{rank, *alone, {r}}.allReduce(KERF_F32, KERF_SUM, 5, true);
    if (round % 10 == 0)
      Conformance{rank, *rank.world, rank.all()}.reduceScatter(
          KERF_F32, KERF_SUM, 2, 999);
  }
  Conformance{rank, *rows, row}.small();
  Conformance{rank, *columns, column}.large();
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

/// Hash of sums whose rounding depends on the order, the same on all ranks.
uint64_t bitsOfSum(Rank &rank, uint64_t count) {
  std::vector<float> data(count);
  for (uint64_t i = 0; i < count; ++i)
    data[i] =
        std::sin(double(i * rank.size + rank.rank)) * std::exp2(double(i % 40));
  std::vector<float> sums(count);
  rank.expect(rank.world->allReduce(data.data(), sums.data(), KERF_F32,
                                    KERF_SUM, count));
  // A reduce-scatter is a part of the all-reduce, to the bit.
  uint64_t n = rank.size, part = count / n;
  std::vector<float> own(part);
  rank.expect(rank.world->run({KERF_OP_REDUCE_SCATTER, data.data(), own.data(),
                               KERF_F32, KERF_SUM, false, 1, 1, part}));
  rank.expect(
      std::memcmp(own.data(), sums.data() + rank.rank * part, part * 4) == 0,
      "reduce_scatter has other bits than all_reduce");
  uint64_t hash = kerf_checksum(KERF_CHECKSUM_INIT, sums.data(), count * 4);
  std::vector<uint64_t> all(n);
  rank.expect(rank.world->allGather(&hash, all.data(), KERF_F64, 1, 1));
  rank.expect(std::count(all.begin(), all.end(), hash) == int64_t(n),
              "ranks have different bits");
  return hash;
}

void bits(Rank &rank) {
  // Divisible by all numbers of ranks that are used.
  for (uint64_t count : {120, 120000}) {
    uint64_t hash = bitsOfSum(rank, count);
    if (rank.rank == 0)
      std::printf("%016llx\n", (unsigned long long)hash);
  }
  float x[2] = {rank.rank == 0 ? NAN : 1, rank.rank == 1 ? NAN : 1};
  rank.expect(rank.world->allReduce(x, x, KERF_F32, KERF_MAX, 2));
  rank.expect(std::isnan(x[0]) && std::isnan(x[1]), "a maximum lost a NaN");
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

struct Ends {
  std::unique_ptr<Channel> out, in;
};

/// To the next rank and from the one before.
Ends openRing(Rank &rank, uint64_t key, uint32_t holds, uint64_t bytes) {
  uint32_t next = (rank.rank + 1) % rank.size;
  uint32_t before = (rank.rank + rank.size - 1) % rank.size;
  Ends ends;
  // Every other one opens the receiving end first.
  for (bool isOut : {rank.rank % 2 == 0, rank.rank % 2 != 0})
    rank.expect(isOut ? rank.transport->open(
                            {rank.rank, next, key, holds, bytes}, ends.out)
                      : rank.transport->open(
                            {before, rank.rank, key, holds, bytes}, ends.in));
  return ends;
}

std::vector<uint32_t> messageOf(uint32_t from, uint64_t number,
                                uint64_t words) {
  std::vector<uint32_t> message(words);
  for (uint64_t i = 0; i < words; ++i)
    message[i] = uint32_t(i * 2654435761u) ^ (from << 24) ^ number;
  return message;
}

/// A ring that may be used.
Ends meetInRing(Rank &rank, uint64_t key, uint32_t holds, uint64_t bytes) {
  Ends ends = openRing(rank, key, holds, bytes);
  rank.expect(rank.transport->meet());
  return ends;
}

/// Messages of all sizes come in order; with `expects` perhaps before they are
/// received, or sent.
void order(Rank &rank, uint64_t key, uint32_t holds,
           const std::vector<uint64_t> &words, bool expects = false) {
  uint64_t most = *std::max_element(words.begin(), words.end());
  Ends ends = meetInRing(rank, key, holds, most * 4);
  if (rank.faults)
    return;
  uint32_t before = (rank.rank + rank.size - 1) % rank.size;
  for (uint64_t at = 0; at < words.size(); at += holds) {
    uint64_t end = std::min<uint64_t>(words.size(), at + holds);
    for (uint64_t n = at; n < end; ++n)
      rank.expect(ends.out->send(messageOf(rank.rank, n, words[n]).data(),
                                 words[n] * 4));
    // Collectives do not meet what lies in channels.
    if (at == 0)
      rank.expect(rank.world->barrier());
    for (uint64_t n = at; n < end; ++n) {
      std::vector<uint32_t> got(words[n]);
      rank.expect(ends.in->receive(got.data(), words[n] * 4));
      rank.expect(got == messageOf(before, n, words[n]), "another message");
      if (expects && n + 1 < words.size())
        rank.expect(ends.in->expect(words[n + 1] * 4));
    }
  }
}

/// The sender of a full channel goes on when a message was taken.
void fill(Rank &rank) {
  std::unique_ptr<Channel> data, flag;
  rank.expect(rank.transport->open({0, 1, 7, 2, 8}, data));
  rank.expect(rank.transport->open({0, 1, 8, 1, 8}, flag));
  rank.expect(rank.transport->meet());
  double time = 0, times[2];
  uint64_t word = 1;
  if (rank.faults)
    return;
  if (rank.rank == 0) {
    rank.expect(data->send(&word, 8));
    rank.expect(data->send(&word, 8));
    rank.expect(flag->send(&word, 8));
    rank.expect(data->send(&word, 8));
  } else {
    // The first two did not wait for anybody.
    rank.expect(flag->receive(&word, 8));
    usleep(100'000);
  }
  time = secondsNow();
  for (int n = 0; n < 3 && rank.rank == 1; ++n)
    rank.expect(data->receive(&word, 8));
  rank.expect(rank.world->allGather(&time, times, KERF_F64, 1, 1));
  rank.expect(times[0] >= times[1], "the third message did not wait");
}

/// Channels of two ranks do not mix, and are used again after they were closed.
void keys(Rank &rank) {
  for (uint32_t round = 0; round < 3; ++round) {
    // In another order on every other rank: the key counts.
    uint64_t key = 100 + rank.rank % 2;
    Ends a = openRing(rank, key, 1, 4), b = openRing(rank, 201 - key, 1, 4);
    rank.expect(rank.transport->meet());
    if (rank.rank % 2 != 0)
      std::swap(a, b);
    if (rank.faults)
      return;
    uint32_t before = (rank.rank + rank.size - 1) % rank.size;
    uint32_t x = rank.rank * 10 + round, y = x + 1000;
    rank.expect(a.out->send(&x, 4));
    rank.expect(b.out->send(&y, 4));
    rank.expect(b.in->receive(&y, 4));
    rank.expect(a.in->receive(&x, 4));
    rank.expect(x == before * 10 + round && y == x + 1000, "channels mixed");
    rank.expect(a.out->send(&x, 5).message ==
                    "a message of 5 bytes in a channel for 4",
                "a message was too large");
    rank.expect(a.in->send(&x, 4).failed(), "the receiver sent");
    rank.expect(a.out->receive(&x, 4).failed(), "the sender received");
    // Transports that expect nothing take it.
    rank.expect(!rank.transport->onDevice() || a.out->expect(4).failed(),
                "the sender expected");
  }
  std::unique_ptr<Channel> none;
  rank.expect(
      rank.transport->open({0, rank.size, 1, 1, 1}, none).failed() &&
          rank.transport->open({rank.rank, rank.rank, 1, 1, 1}, none).failed(),
      "a channel to nobody");
}

void channels(Rank &rank) {
  order(rank, 1, 1, {1, 0, 3, 1000, 0, 2});
  order(rank, 2, 3, {0, 16, 17, 1, 1 << 16, (1 << 16) + 1, 5, 1 << 18});
  order(rank, 3, 1, {16 << 20}); // 64 MiB
  order(rank, 4, 2, {5, 1 << 18, 0, 3, 1 << 16, 1, 1, 0, 7}, true);
  keys(rank);
  if (rank.size == 2)
    fill(rank);
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// Fails with this message, and not because a minute passed.
void expectLost(Rank &rank, const std::string &message) {
  Status status = rank.world->barrier();
  rank.expectFailure(status, message);
  rank.expect(status.code == KERF_PEER_LOST, "another status");
  // And from then on.
  rank.expectFailure(rank.world->barrier(), message);
}

/// All ranks are there. Of one that does not go on as the others do, those that
/// come out of the barrier late may hear in it.
void meetBefore(Rank &rank, const std::string &message) {
  Status status = rank.world->barrier();
  if (status.failed())
    rank.expectFailure(status, message);
}

void aborts(Rank &rank) {
  const std::string message = "rank 2: the disk is full";
  meetBefore(rank, message);
  bool isSet = kerf::test::setRecordings(2); // until the transport drops them
  rank.expect(isSet || rank.transportName != "nccl",
              "the stand-in takes no recordings");
  if (rank.rank == 2)
    rank.transport->abort("the disk is full");
  else
    expectLost(rank, message);
}

/// A run that fails between the halves of a collective takes its memory along;
/// what the others send comes afterwards, and must not go there.
void endsHalfway(Rank &rank) {
  constexpr uint64_t count = 1000;
  meetBefore(rank, "rank 0: the run failed");
  if (rank.rank != 0)
    usleep(200'000);
  size_t bytes = (rank.size + 1) * count * sizeof(float);
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  float *data = static_cast<float *>(memory);
  Exchange exchange{KERF_OP_ALL_GATHER, data, data + count};
  exchange.inner = count;
  Status status = rank.world->start(exchange);
  if (rank.rank == 0)
    rank.transport->abort("the run failed");
  else if (!status.failed())
    status = rank.world->finish();
  if (status.failed())
    rank.expectFailure(status, "rank 0: the run failed");
  munmap(memory, bytes);
}

void leaves(Rank &rank) {
  meetBefore(rank, "rank 0 left the job");
  if (rank.rank != 0)
    expectLost(rank, "rank 0 left the job");
}

void dies(Rank &rank) {
  meetBefore(rank, "rank 1 died");
  if (rank.rank == 1)
    raise(SIGKILL);
  expectLost(rank, "rank 1 died");
}

void diesInChannel(Rank &rank) {
  Ends ends = meetInRing(rank, 1, 1, 1 << 20);
  meetBefore(rank, "rank 1 died");
  if (rank.rank == 1)
    raise(SIGKILL);
  std::vector<char> data(1 << 20);
  Status status;
  for (int n = 0; n < 4 && !status.failed(); ++n) {
    status = ends.out->send(data.data(), data.size());
    if (!status.failed())
      status = ends.in->receive(data.data(), data.size());
  }
  rank.expectFailure(status, "rank 1 died");
}

void disagree(Rank &rank) {
  std::vector<float> data(20);
  Status status = rank.world->allReduce(data.data(), data.data(), KERF_F32,
                                        KERF_SUM, rank.rank == 0 ? 10 : 20);
  rank.expect(status.message.find("ranks disagree: rank") != std::string::npos,
              "ranks agreed");
}

void disagreeInKind(Rank &rank) {
  std::vector<float> data(20), other(40);
  Status status =
      rank.rank == 0
          ? rank.world->allReduce(data.data(), data.data(), KERF_F32, KERF_SUM,
                                  20)
          : rank.world->allGather(data.data(), other.data(), KERF_F32, 1, 20);
  bool isRight =
      status.message.find("ranks disagree: rank") != std::string::npos &&
      status.message.find("all_gather of 80") != std::string::npos;
  rank.expect(isRight, status.message.c_str());
}

void disagreeInChannel(Rank &rank) {
  Ends ends = meetInRing(rank, 1, 1, 100);
  uint32_t data[25] = {};
  Status status = ends.out->send(data, 100);
  if (!status.failed())
    status = ends.in->receive(data, rank.rank == 0 ? 96 : 100);
  if (!status.failed())
    status = rank.world->barrier();
  rank.expect(status.message.find("ranks disagree: rank") != std::string::npos,
              status.message.c_str());
}

/// Rank 1 never comes out of command 5; exactly one of the others says so.
void hangs(Rank &rank) {
  rank.transport->enter(rank.rank == 1 ? 5 : 7);
  rank.expect(rank.world->barrier());
  if (rank.rank == 1)
    while (true)
      pause();
  Status status = rank.world->barrier();
  std::string message = kerf::test::lateMessage(rank.size);
  status.message = kerf::test::withoutProcess(status.message);
  if (status.code == KERF_STALLED) {
    // Of a device more may be known.
    status.message.resize(std::min(status.message.size(), message.size()));
    rank.expectFailure(status, message);
    std::printf("told\n");
  } else {
    rank.expect(status.code == KERF_PEER_LOST &&
                    status.message.substr(0, 5) == "rank " &&
                    status.message.substr(6) == ": " + message,
                status.message.c_str());
  }
  // Now, and not when the one that hangs would leave.
  std::fflush(stdout);
  _exit(rank.faults ? 1 : 3);
}

/// A job that moves is left alone, however long a rank waits.
void slow(Rank &rank) {
  rank.transport->enter(1);
  rank.expect(rank.world->barrier());
  if (rank.rank == 1)
    for (uint32_t n = 0; n < 15; ++n) {
      usleep(200'000); // the limit is two seconds
      rank.transport->enter(n);
    }
  rank.expect(rank.world->barrier());
}

struct Case {
  const char *name;
  void (*run)(Rank &rank);
};

constexpr Case cases[] = {
    {"collectives", collectives},
    {"crowd", crowd},
    {"groups", groups},
    {"halves", halves},
    {"bits", bits},
    {"channels", channels},
    {"aborts", aborts},
    {"ends-halfway", endsHalfway},
    {"leaves", leaves},
    {"dies", dies},
    {"dies-in-channel", diesInChannel},
    {"disagree", disagree},
    {"disagree-in-kind", disagreeInKind},
    {"disagree-in-channel", disagreeInChannel},
    {"hangs", hangs},
    {"slow", slow},
};

uint32_t variable(std::initializer_list<const char *> names, uint32_t none) {
  for (const char *name : names)
    if (const char *text = std::getenv(name))
      return std::atoi(text);
  return none;
}

/// What the ranks talk by; NCCL needs a device.
Status connect(const std::string &transport, Rendezvous rendezvous,
               std::unique_ptr<Transport> &made) {
  if (transport != "nccl")
    return connectTransport(transport, nullptr, rendezvous, made);
  rendezvous.api = kerf::test::suiteDevice(&rendezvous.device);
  rendezvous.dropRecordings = [] { (void)kerf::test::setRecordings(0); };
  Status status = connectTransport(transport, nullptr, rendezvous, made);
  if (!status.failed())
    made = kerf::test::waitFor(std::move(made));
  return status;
}

/// "connect": how joining ends when the ranks' programs are different.
int joinOthers(const std::string &transport, Rendezvous rendezvous) {
  rendezvous.programHash = rendezvous.rank == 2;
  std::unique_ptr<Transport> made;
  Status status = connect(transport, rendezvous, made);
  std::fprintf(stderr, "%s\n", status.message.c_str());
  return kerf_exit_code(status.code);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  alarm(240); // what hangs; machines of tests are busy
  Rendezvous rendezvous;
  const char *session = std::getenv("KERF_SESSION");
  rendezvous.name = session ? session : "";
  rendezvous.rank = variable({"RANK", "OMPI_COMM_WORLD_RANK"}, 0);
  rendezvous.size = variable({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"}, 1);
  rendezvous.timeoutSec = 20;
  // Little only where hanging is the matter, and not too little: machines of
  // tests are busy, and a rank may get no processor for a second.
  std::string name = argv[2];
  rendezvous.stallSec = name == "hangs" || name == "slow" ? 2 : 20;
  if (name == "other-programs")
    return joinOthers(argv[1], rendezvous);
  Rank rank;
  rank.rank = rendezvous.rank;
  rank.size = rendezvous.size;
  rank.transportName = argv[1];
  if (rank.size == 1)
    rank.transport = makeSoloTransport();
  else
    rank.expect(connect(argv[1], rendezvous, rank.transport));
  if (rank.transport)
    rank.expect(rank.transport->split(rank.all(), rank.world));
  if (rank.world)
    rank.expect(rank.transport->meet());
  if (!rank.world)
    return 1;
  for (const Case &test : cases)
    if (std::strcmp(test.name, argv[2]) == 0) {
      test.run(rank);
      rank.world.reset();
      rank.transport.reset();
      return rank.faults != 0;
    }
  std::fprintf(stderr, "no case '%s'\n", argv[2]);
  return 2;
}
