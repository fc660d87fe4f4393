//===- TransportTest.cpp - conformance of transports ----------------------===//
//
// Ranks are processes. Every collective is compared with what its definition
// says, at sizes around a chunk, in groups, and under stress; then ranks die.
//
//===----------------------------------------------------------------------===//

#include "Transport.h"
#include "Forked.h"
#include "Numbers.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <ctime>

using namespace kerf::runtime;
using namespace kerf::test;

namespace {

Rendezvous rendezvousOf(const std::string &name, uint32_t rank, uint32_t size) {
  Rendezvous rendezvous;
  rendezvous.name = name;
  rendezvous.rank = rank;
  rendezvous.size = size;
  rendezvous.timeoutSec = 10;
  return rendezvous;
}

/// One rank in a test: the world, and a count of what went wrong.
struct Rank {
  uint32_t rank, size;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Communicator> world;
  int faults = 0;

  Rank(const std::string &name, uint32_t rank, uint32_t size)
      : rank(rank), size(size) {
    if (size == 1)
      transport = makeSoloTransport();
    else
      expect(connectShm(rendezvousOf(name, rank, size), transport));
    std::vector<uint32_t> all;
    for (uint32_t r = 0; r < size; ++r)
      all.push_back(r);
    if (transport)
      expect(transport->split(all, world));
  }
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
};

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

/// Reduced element i of all members' sources.
double reduced(const std::vector<uint32_t> &members, uint32_t reduction,
               uint64_t i) {
  double result = valueOf(members[0], i);
  for (size_t m = 1; m < members.size(); ++m) {
    double x = valueOf(members[m], i);
    result = reduction == KERF_MAX ? std::max(result, x) : result + x;
  }
  return result;
}

/// Collectives of one group, compared with their definitions.
struct Conformance {
  Rank &rank;
  Communicator &group;
  std::vector<uint32_t> members;

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
            [&](uint64_t i) { return reduced(members, reduction, i); });
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
    rank.expect(group.reduceScatter(from.data(), to.data(), dtype, reduction,
                                    outer, inner));
    compare(to, "reduce_scatter", [&](uint64_t i) {
      uint64_t o = i / inner;
      return reduced(members, reduction,
                     (o * n + group.rank()) * inner + i % inner);
    });
  }
  void allToAll(uint32_t dtype, uint64_t outer, uint64_t middle, uint64_t inner,
                bool back) {
    uint64_t n = members.size(), count = outer * n * middle * inner;
    Buffer from = source(dtype, count), to(dtype, count);
    rank.expect(group.allToAll(from.data(), to.data(), dtype, back, outer,
                               middle, inner));
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
  void pass(uint64_t count) {
    uint32_t n = members.size(), self = group.rank();
    if (n == 1)
      return;
    Buffer from = source(KERF_F32, count), to(KERF_F32, count);
    uint32_t next = (self + 1) % n, before = (self + n - 1) % n;
    // Sends larger than the mailbox need a receiver: even members send first.
    for (bool sends : {self % 2 == 0, self % 2 != 0})
      rank.expect(sends ? group.send(next, from.data(), count * 4)
                        : group.receive(before, to.data(), count * 4));
    compare(to, "send and receive",
            [&](uint64_t i) { return valueOf(members[before], i); });
  }
  void all();
};

void Conformance::all() {
  for (uint32_t dtype : {KERF_F32, KERF_BF16, KERF_F64, KERF_I32, KERF_F16})
    for (uint32_t reduction : {KERF_SUM, KERF_MAX})
      for (uint64_t count : {0, 1, 3, 1000, 1025, 5000}) {
        allReduce(dtype, reduction, count, count % 2);
        reduceScatter(dtype, reduction, 3, count);
      }
  // Around a chunk of 256 KiB.
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
    if (members.size() % 2 == 0)
      pass(count);
  }
  for (uint64_t outer : {0, 1, 9})
    for (uint64_t inner : {0, 1, 17}) {
      allGather(KERF_I32, outer, inner);
      allToAll(KERF_F32, outer, 2, inner, false);
      allToAll(KERF_I32, outer, 3, inner, true);
    }
  rank.expect(group.barrier());
}

class Ranks : public testing::TestWithParam<uint32_t> {};

TEST_P(Ranks, DoWhatIsDefined) {
  uint32_t size = GetParam();
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    Rank rank(name, r, size);
    if (!rank.world)
      return 1;
    std::vector<uint32_t> all;
    for (uint32_t m = 0; m < size; ++m)
      all.push_back(m);
    Conformance{rank, *rank.world, all}.all();
    return rank.faults != 0;
  };
  EXPECT_EQ(runRanks(size, body, 60), std::vector<int>(size, 0));
  EXPECT_FALSE(hasSegment(name));
}

INSTANTIATE_TEST_SUITE_P(Transport, Ranks, testing::Values(1, 2, 3, 4, 5));

// A rank goes from one group into another while the first one's members still
// read what it posted there.
TEST(Transport, WorksInOverlappingGroups) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    Rank rank(name, r, 4);
    if (!rank.world)
      return 1;
    std::unique_ptr<Communicator> rows, columns, alone;
    std::vector<uint32_t> row = {r / 2 * 2, r / 2 * 2 + 1},
                          column = {r % 2, r % 2 + 2};
    rank.expect(rank.transport->split(row, rows));
    rank.expect(rank.transport->split(column, columns));
    rank.expect(rank.transport->split({r}, alone));
    for (int round = 0; round < 200 && !rank.faults; ++round) {
      Conformance{rank, *rows, row}.allReduce(KERF_F32, KERF_SUM, 1234, false);
      Conformance{rank, *columns, column}.allGather(KERF_F32, 3, 77);
      Conformance{rank, *alone, {r}}.allReduce(KERF_F32, KERF_SUM, 5, true);
      if (round % 10 == 0)
        Conformance{rank, *rank.world, {0, 1, 2, 3}}.reduceScatter(
            KERF_F32, KERF_SUM, 2, 999);
    }
    Conformance{rank, *rows, row}.all();
    return rank.faults != 0;
  };
  EXPECT_EQ(runRanks(4, body, 60), std::vector<int>(4, 0));
}

/// Bits of a sum of numbers that rounding makes depend on the order.
uint64_t bitsOfSum(uint32_t ranks, uint64_t count) {
  std::string name = jobName();
  int results[2];
  if (pipe(results) != 0)
    return 0;
  auto body = [&](uint32_t r) -> int {
    Rank rank(name, r, ranks);
    std::vector<float> data(count);
    for (uint64_t i = 0; i < count; ++i)
      data[i] = std::sin(double(i * ranks + r)) * std::exp2(double(i % 40));
    rank.expect(rank.world->allReduce(data.data(), data.data(), KERF_F32,
                                      KERF_SUM, count));
    uint64_t hash =
        kerf_checksum(KERF_CHECKSUM_INIT, data.data(), data.size() * 4);
    int32_t differs = 0;
    std::vector<uint64_t> all(ranks);
    rank.expect(rank.world->allGather(&hash, all.data(), KERF_F64, 1, 1));
    for (uint64_t other : all)
      differs |= other != hash;
    if (r == 0 && write(results[1], &hash, sizeof hash) != sizeof hash)
      return 1;
    return rank.faults + differs;
  };
  uint64_t hash = 0;
  EXPECT_EQ(runRanks(ranks, body), std::vector<int>(ranks, 0));
  EXPECT_EQ(read(results[0], &hash, sizeof hash), ssize_t(sizeof hash));
  close(results[0]);
  close(results[1]);
  return hash;
}

TEST(Transport, SumsToTheSameBits) {
  for (uint32_t ranks : {2, 3, 5})
    for (uint64_t count : {100, 100000})
      EXPECT_EQ(bitsOfSum(ranks, count), bitsOfSum(ranks, count));
}

TEST(Transport, KeepsNanInMaxima) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    Rank rank(name, r, 2);
    float x[2] = {r == 0 ? NAN : 1, r == 1 ? NAN : 1};
    rank.expect(rank.world->allReduce(x, x, KERF_F32, KERF_MAX, 2));
    return rank.faults || !std::isnan(x[0]) || !std::isnan(x[1]);
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 0));
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

/// Does a barrier fail with this message, and not because a minute passed?
bool barrierFails(Rank &rank, const char *message) {
  double start = now();
  Status status = rank.world->barrier();
  bool isRight = status.code == KERF_PEER_LOST && status.message == message &&
                 now() - start < 20;
  rank.expect(isRight, status.message.c_str());
  return isRight;
}

TEST(Transport, NoticesThatARankWasKilled) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    Rank rank(name, r, 3);
    rank.expect(rank.world->barrier());
    if (r == 1)
      raise(SIGKILL);
    return !barrierFails(rank, "rank 1 died");
  };
  EXPECT_EQ(runRanks(3, body), (std::vector<int>{0, 128 + SIGKILL, 0}));
  EXPECT_FALSE(hasSegment(name));
}

TEST(Transport, NoticesThatARankLeft) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    Rank rank(name, r, 2);
    rank.expect(rank.world->barrier());
    return r == 0 ? rank.faults : !barrierFails(rank, "rank 0 left the job");
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 0));
}

TEST(Transport, TellsOthersWhyItStops) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    Rank rank(name, r, 3);
    if (r == 2) {
      rank.transport->abort("the disk is full");
      return rank.faults;
    }
    return !barrierFails(rank, "rank 2: the disk is full");
  };
  EXPECT_EQ(runRanks(3, body), std::vector<int>(3, 0));
}

TEST(Transport, NoticesThatRanksDisagree) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    Rank rank(name, r, 2);
    std::vector<float> data(20);
    Status status = rank.world->allReduce(data.data(), data.data(), KERF_F32,
                                          KERF_SUM, r == 0 ? 10 : 20);
    bool isRight =
        status.message.find("ranks disagree: rank") != std::string::npos;
    return !isRight;
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 0));
}

/// How joining ends for each rank of a job that differ by `change`.
template <typename Change>
void expectJoin(uint32_t size, const char *message, Change change) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    Rendezvous rendezvous = rendezvousOf(name, r, size);
    change(rendezvous);
    std::unique_ptr<Transport> transport;
    Status status = connectShm(rendezvous, transport);
    if (status.message == message)
      return 0;
    std::fprintf(stderr, "rank %u: '%s'\n", r, status.message.c_str());
    return 1;
  };
  EXPECT_EQ(runRanks(size, body), std::vector<int>(size, 0));
  EXPECT_FALSE(hasSegment(name));
}

TEST(Transport, RefusesAnotherProgram) {
  expectJoin(2,
             "rank 1 runs another program than rank 0: start all ranks with "
             "the same file",
             [](Rendezvous &r) { r.programHash = r.rank; });
}

TEST(Transport, DoesNotWaitForEver) {
  std::string name = jobName();
  Rendezvous rendezvous = rendezvousOf(name, 0, 2);
  rendezvous.timeoutSec = 0.1;
  std::unique_ptr<Transport> transport;
  EXPECT_EQ(connectShm(rendezvous, transport).message,
            "rank 1 did not come within 0.1 s");
  rendezvous.rank = 1;
  EXPECT_EQ(connectShm(rendezvous, transport).message,
            "rank 0 of the job '" + name + "' did not come within 0.1 s");
  EXPECT_FALSE(hasSegment(name));
}

TEST(Transport, RefusesRanksThatDoNotExist) {
  std::unique_ptr<Transport> transport;
  EXPECT_EQ(connectShm(rendezvousOf("x", 3, 2), transport).message,
            "rank 3 of 2, expected one of at most 64 on a machine");
  EXPECT_EQ(connectShm(rendezvousOf("x", 0, 65), transport).message,
            "rank 0 of 65, expected one of at most 64 on a machine");
}

TEST(Transport, RefusesANameInUse) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    Rendezvous rendezvous = rendezvousOf(name, 0, 2);
    std::unique_ptr<Transport> transport;
    // Whoever comes second finds the segment of the first one.
    rendezvous.timeoutSec = 1;
    Status status = connectShm(rendezvous, transport);
    return status.message.find("is running (process") != std::string::npos;
  };
  std::vector<int> results = runRanks(2, body);
  EXPECT_EQ(results[0] + results[1], 1);
  EXPECT_FALSE(hasSegment(name));
}

TEST(Transport, TakesOverWhatAKilledJobLeft) {
  std::string name = jobName();
  auto dies = [&](uint32_t) {
    std::unique_ptr<Transport> transport;
    alarm(1); // while it waits for rank 1
    return connectShm(rendezvousOf(name, 0, 2), transport).failed();
  };
  EXPECT_EQ(runRanks(1, dies), std::vector<int>{128 + SIGALRM});
  EXPECT_TRUE(hasSegment(name));
  auto joins = [&](uint32_t r) {
    Rank rank(name, r, 2);
    return rank.faults;
  };
  EXPECT_EQ(runRanks(2, joins), std::vector<int>(2, 0));
  EXPECT_FALSE(hasSegment(name));
}

TEST(Transport, CleansUpForALauncher) {
  std::string name = jobName();
  auto dies = [&](uint32_t) {
    std::unique_ptr<Transport> transport;
    alarm(1);
    return connectShm(rendezvousOf(name, 0, 2), transport).failed();
  };
  runRanks(1, dies);
  EXPECT_TRUE(hasSegment(name));
  cleanupShm(name);
  EXPECT_FALSE(hasSegment(name));
}

} // namespace
