//===- TraceTest.cpp - clocks of the ranks --------------------------------===//

#include "Forked.h"
#include "Session.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace kerf::runtime;
using namespace kerf::test;

static double clockAhead() { return clockSeconds() + 100; }

/// What three ranks find, of which the last has a clock that is 100 s ahead.
/// `machines` are those that the ranks say they are on.
static void expectOffset(const uint64_t (&machines)[3], bool isMeasured) {
  std::string name = jobName();
  auto body = [&](uint32_t rank) -> int {
    Rendezvous rendezvous;
    rendezvous.name = name;
    rendezvous.rank = rank;
    rendezvous.size = 3;
    rendezvous.timeoutSec = 10;
    std::unique_ptr<Transport> transport;
    if (connectShm(rendezvous, transport).failed())
      return 1;
    std::unique_ptr<Communicator> world;
    if (transport->split({0, 1, 2}, world).failed())
      return 2;
    double offset = -1, error = -1;
    if (compareClocks(*world, machines[rank],
                      rank == 2 ? clockAhead : clockSeconds, offset, error)
            .failed())
      return 3;
    double expected = rank == 2 && isMeasured ? -100 : 0;
    if (rank == 0 || !isMeasured)
      return offset == expected && error == 0 ? 0 : 4;
    return error > 0 && std::abs(offset - expected) <= error ? 0 : 5;
  };
  EXPECT_EQ(runRanks(3, body), std::vector<int>(3, 0));
}

// The difference is found, and is no more wrong than said.
TEST(Clocks, AreComparedBetweenMachines) {
  expectOffset({5, 6, 7}, true);
  expectOffset({0, 0, 0}, true); // A machine that has no number.
}

TEST(Clocks, AreOneOnAMachine) {
  EXPECT_NE(machineNumber(), 0u);
  EXPECT_EQ(machineNumber(), machineNumber());
  expectOffset({5, 5, 5}, false);
}
