//===- Socket.h - frames over a connection --------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_TCP_SOCKET_H
#define KERF_RUNTIME_TRANSPORT_TCP_SOCKET_H

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

struct kerf_transfer;

namespace kerf::runtime::tcp {

/// What a message has at most, and notes fit in. A frame that says that it is
/// longer is none: no memory is taken for it.
constexpr uint64_t kMostBytes = uint64_t(1) << 20;

/// What a frame is; up to KERF_LANE_COUNT it is a message of that lane.
enum FrameKind : uint32_t {
  kNote = 16, ///< the shared memory of rank `from`
  kLost,      ///< rank `from` is gone without a word
  kBye,       ///< rank `from` ends its connection
};

/// Frames for others that rank 0 holds until a rank takes them: beyond this,
/// who sends to it is not read on.
constexpr uint64_t kMostHeld = uint64_t(64) << 20;

struct Head {
  uint32_t kind, from, to, tag;
  uint64_t bytes;
};

/// A frame that is to be sent: its data are the caller's until `transfer` is
/// done, or its own.
struct Outgoing {
  Head head;
  const char *data = nullptr;
  std::vector<char> copy;
  kerf_transfer *transfer = nullptr; ///< told when all is sent; may be null
};

struct Incoming {
  Head head;
  std::vector<char> data;
};

/// A connection that never blocks.
class Socket {
public:
  explicit Socket(int file) : file(file) {}
  ~Socket();
  Socket(const Socket &) = delete;

  const int file;
  std::deque<Outgoing> out;
  bool isClosed = false; ///< nothing comes any more
  /// Nothing can be sent any more; what the other side said before it went
  /// may still come.
  bool isBroken = false;
  bool hasSaidBye = false;
  uint64_t held = 0; ///< bytes in `out` that are frames' own
  /// Where the last frame that was handed on goes.
  const Socket *target = nullptr;

  /// What this side sends has no room.
  bool isPaused() const {
    return target && target->canSend() && target->held > kMostHeld;
  }
  bool canSend() const { return !isClosed && !isBroken; }
  /// Sends what the system takes. Calls done(transfer) for each that is sent.
  template <typename Done> void write(Done done) {
    while (canSend() && !out.empty() && writeSome()) {
      if (kerf_transfer *transfer = out.front().transfer)
        done(transfer);
      held -= out.front().copy.size();
      out.pop_front();
      sent = 0;
    }
  }
  /// Takes what is there, up to some frames, and calls take(frame) for each
  /// whole one.
  template <typename Take> void read(Take take) {
    constexpr int most = 16;
    for (int n = 0; n < most && !isPaused() && readSome(); ++n) {
      take(std::move(current));
      current = {};
      received = 0;
    }
  }

private:
  bool writeSome();
  bool readSome();
  bool move(char *data, uint64_t bytes, uint64_t &at, uint64_t before,
            bool isWrite);

  uint64_t sent = 0, received = 0; ///< of the first frame out, and of `current`
  Incoming current;
};

/// Waits at most until `deadline` (secondsNow) for a connection to host:port,
/// which may not listen yet. -1 after setting `error`.
int connectTo(const std::string &host, const std::string &port, double deadline,
              std::string &error);
/// Listens on `host` where that is an address of this machine alone (127.x,
/// ::1, localhost), else on all addresses. -1 after setting `error`.
int listenOn(const std::string &host, const std::string &port,
             std::string &error);
/// Sends or receives all of it, or fails at the deadline.
bool transferAll(int file, void *data, uint64_t bytes, double deadline,
                 bool isWrite);
void makeNonBlocking(int file);

} // namespace kerf::runtime::tcp

#endif // KERF_RUNTIME_TRANSPORT_TCP_SOCKET_H
