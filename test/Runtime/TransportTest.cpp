//===- TransportTest.cpp - meeting in shared memory -----------------------===//
//
// What is special about the transport shm: how ranks, which are processes,
// meet, and that nothing is left of them. What all transports do is tested by
// transport-suite.cpp.
//
//===----------------------------------------------------------------------===//

#include "Transport.h"
#include "Forked.h"
#include "Plugin.h"
#include "ShmChannel.h"
#include "ShmSegment.h"

#include "gtest/gtest.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

// The others have gone when rank 2 comes; it does not wait for them.
TEST(Transport, TellsLateRanksWhyTheJobIsOver) {
  expectJoin(3,
             "rank 1 runs another program than rank 0: start all ranks with "
             "the same file",
             [](Rendezvous &r) {
               r.programHash = r.rank == 1;
               usleep(r.rank == 2 ? 300'000 : 0);
             });
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
  auto body = [&](uint32_t) -> int {
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
    std::unique_ptr<Transport> transport;
    return connectShm(rendezvousOf(name, r, 2), transport).failed();
  };
  EXPECT_EQ(runRanks(2, joins), std::vector<int>(2, 0));
  EXPECT_FALSE(hasSegment(name));
}

// Its name can be guessed: whoever else made it is not joined, and not removed.
TEST(Transport, RefusesMemoryThatIsNotOurs) {
  std::string name = jobName(), path = shm::pathOf(name);
  int file = shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(fchmod(file, 0666), 0);
  for (uint32_t rank : {0, 1}) {
    Rendezvous rendezvous = rendezvousOf(name, rank, 2);
    rendezvous.timeoutSec = 0.1;
    std::unique_ptr<Transport> transport;
    std::string message = connectShm(rendezvous, transport).message;
    EXPECT_NE(message.find("of user " + std::to_string(geteuid()) +
                           ", mode 666, expected one of user " +
                           std::to_string(geteuid()) + " alone"),
              std::string::npos)
        << message;
  }
  EXPECT_TRUE(hasSegment(name));
  close(file);
  shm_unlink(path.c_str());
}

// Jobs that were killed, launcher and all, before their ranks had met.
TEST(Transport, RemovesWhatNobodyComesBackFor) {
  std::string old = jobName(), young = jobName(), used = jobName();
  auto make = [](const std::string &name, int64_t seconds) {
    int file =
        shm_open(shm::pathOf(name).c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    timespec at = {time(nullptr) - seconds, 0}, times[2] = {at, at};
    futimens(file, times);
    return file;
  };
  close(make(old, 100));
  close(make(young, 1));
  int file = make(used, 100);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  ASSERT_EQ(fcntl(file, F_SETLK, &lock), 0); // as a rank that lives
  std::string name = jobName();
  auto joins = [&](uint32_t r) {
    std::unique_ptr<Transport> transport;
    return connectShm(rendezvousOf(name, r, 2), transport).failed();
  };
  EXPECT_EQ(runRanks(2, joins), std::vector<int>(2, 0));
  EXPECT_FALSE(hasSegment(old));
  EXPECT_TRUE(hasSegment(young));
  EXPECT_TRUE(hasSegment(used));
  close(file);
  shm_unlink(shm::pathOf(young).c_str());
  shm_unlink(shm::pathOf(used).c_str());
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

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

// Memory of a channel appears when an end opens it and goes when both closed.
TEST(ShmChannels, GiveTheirMemoryBack) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    std::unique_ptr<shm::Segment> segment;
    std::unique_ptr<Channel> go, done, large;
    if (shm::Segment::join(rendezvousOf(name, r, 2), segment).failed() ||
        openChannel(*segment, {0, 1, 6, 1, 1}, go).failed() ||
        openChannel(*segment, {1, 0, 6, 1, 1}, done).failed())
      return 1;
    ChannelSpec spec = {0, 1, 5, 4, 1 << 20};
    uint64_t before = 0;
    char byte = 0;
    for (int round = 0; round < 3; ++round) {
      if ((r == 0 ? go->send(&byte, 1) : go->receive(&byte, 1)).failed() ||
          (r == 1 ? done->send(&byte, 1) : done->receive(&byte, 1)).failed())
        return 2;
      // Now rank 1 waits for the next message.
      if (r == 0) {
        before = segment->memoryBytes();
        if (openChannel(*segment, spec, large).failed())
          return 3;
        uint64_t grown = segment->memoryBytes() - before;
        if (grown < 4 * spec.bytes || grown > 5 * spec.bytes)
          return 4;
      }
      if ((r == 0 ? go->send(&byte, 1) : go->receive(&byte, 1)).failed() ||
          (r == 1 && openChannel(*segment, spec, large).failed()))
        return 5;
      if (r == 1)
        large.reset();
      if ((r == 1 ? done->send(&byte, 1) : done->receive(&byte, 1)).failed())
        return 6;
      large.reset();
      if (r == 0 && segment->memoryBytes() != before)
        return 7;
    }
    return 0;
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 0));
}

// A channel's memory has no name: nobody has to clear up after a kill.
TEST(ShmChannels, LeaveNothingWhenAllAreKilled) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<Channel> channel;
    if (connectShm(rendezvousOf(name, r, 2), transport).failed() ||
        transport->open({0, 1, 5, 1, 1 << 20}, channel).failed())
      return 1;
    return raise(SIGKILL);
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 128 + SIGKILL));
  EXPECT_FALSE(hasSegment(name));
}

// Both ends say what a channel is; a rank waits for nobody who closed.
TEST(ShmChannels, NoticeTheOtherEnd) {
  std::string name = jobName();
  auto body = [&](uint32_t r) -> int {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<Communicator> world;
    std::unique_ptr<Channel> one, other;
    if (connectShm(rendezvousOf(name, r, 2), transport).failed() ||
        transport->split({0, 1}, world).failed() ||
        transport->open({0, 1, 5, 1, 8}, one).failed())
      return 1;
    uint64_t word = r;
    if (r == 0 && (one->send(&word, 8).failed() ||
                   transport->open({0, 1, 6, 1, 8}, other).failed()))
      return 2;
    if (r == 0)
      one.reset();
    if (world->barrier().failed())
      return 3;
    if (r == 0)
      return world->barrier().failed();
    // The message that was sent is there, then no more.
    if (one->receive(&word, 8).failed() || word != 0)
      return 4;
    if (one->receive(&word, 8).message !=
        "rank 0 closed the channel from 0 to 1")
      return 5;
    if (transport->open({0, 1, 6, 2, 8}, other).message !=
        "ranks disagree: the channel from rank 0 to 1 holds 1 messages of 8 "
        "bytes for one, 2 of 8 for the other")
      return 6;
    return world->barrier().failed();
  };
  EXPECT_EQ(runRanks(2, body), std::vector<int>(2, 0));
}

//===----------------------------------------------------------------------===//
// Libraries
//===----------------------------------------------------------------------===//

std::string connectFailure(const std::string &name) {
  std::unique_ptr<Transport> transport;
  return connectTransport(name, KERF_TEST_PLUGINS,
                          rendezvousOf(jobName(), 0, 2), transport)
      .message;
}

TEST(TransportLibraries, AreNamedWhenTheyAreNotThere) {
  std::string message = connectFailure("none");
  EXPECT_EQ(message.find("transport 'none': no wire library "
                         "'libkerf_wire_none.so' in " KERF_TEST_PLUGINS),
            0u)
      << message;
  EXPECT_EQ(connectFailure("../x"),
            "transport '../x': '../x' is no name of a wire");
}

TEST(TransportLibraries, MustHaveTheSameInterface) {
  EXPECT_EQ(connectFailure("wrongabi"),
            "transport 'wrongabi': '" KERF_TEST_PLUGINS
            "/libkerf_wire_wrongabi.so' has interface 99, this runtime needs "
            "1: install matching versions");
}

} // namespace
