// Frames that rank 0 hands on: who does not take them holds up who sends them,
// and not rank 0's memory.

#include "tcp/Socket.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

using namespace kerf::runtime::tcp;

namespace {
/// Two connected ends that do not block.
struct Pair {
  int ends[2];
  Pair() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    makeNonBlocking(ends[0]);
    makeNonBlocking(ends[1]);
  }
};
} // namespace

TEST(SocketTest, HoldsUpWhoSendsTooMuch) {
  constexpr uint64_t frames = 200, bytes = uint64_t(1) << 20;
  Pair left, right;
  Socket sender(left.ends[0]), from(left.ends[1]), to(right.ends[0]),
      taker(right.ends[1]);
  for (uint64_t n = 0; n < frames; ++n)
    sender.out.push_back({Head{0, 1, 2, uint32_t(n), bytes}, nullptr,
                          std::vector<char>(bytes, char(n)), nullptr});
  uint64_t most = 0, taken = 0;
  auto handOn = [&] {
    sender.write([](kerf_transfer *) {});
    from.read([&](Incoming frame) {
      from.target = &to;
      to.held += frame.data.size();
      to.out.push_back({frame.head, nullptr, std::move(frame.data), nullptr});
    });
    to.write([](kerf_transfer *) {});
    most = std::max(most, to.held);
  };
  for (int n = 0; n < 20'000; ++n)
    handOn();
  EXPECT_GT(most, kMostHeld / 2);
  EXPECT_LE(most, kMostHeld + bytes);
  // Nothing is lost when it is taken at last.
  for (int n = 0; n < 200'000 && taken < frames; ++n) {
    handOn();
    taker.read([&](Incoming frame) {
      EXPECT_EQ(frame.head.tag, taken);
      EXPECT_EQ(frame.data.back(), char(taken));
      ++taken;
    });
  }
  EXPECT_EQ(taken, frames);
  EXPECT_EQ(to.held, 0U);
}
