//===- Socket.cpp ---------------------------------------------------------===//

#include "Socket.h"

#include "Watch.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace kerf::runtime;
using namespace kerf::runtime::tcp;

Socket::~Socket() { close(file); }

/// Moves bytes [at - before, bytes) of a part of a frame that begins at byte
/// `before` of it. True when the part is done.
bool Socket::move(char *data, uint64_t bytes, uint64_t &at, uint64_t before,
                  bool isWrite) {
  while (at < before + bytes) {
    char *from = data + (at - before);
    uint64_t left = before + bytes - at;
    ssize_t moved = isWrite ? send(file, from, left, MSG_NOSIGNAL)
                            : recv(file, from, left, 0);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return false;
    if (moved <= 0) {
      (isWrite ? isBroken : isClosed) = true;
      return false;
    }
    at += uint64_t(moved);
  }
  return true;
}

bool Socket::writeSome() {
  Outgoing &frame = out.front();
  const char *data = frame.data ? frame.data : frame.copy.data();
  return move(reinterpret_cast<char *>(&frame.head), sizeof(Head), sent, 0,
              true) &&
         move(const_cast<char *>(data), frame.head.bytes, sent, sizeof(Head),
              true);
}

bool Socket::readSome() {
  if (isClosed || !move(reinterpret_cast<char *>(&current.head), sizeof(Head),
                        received, 0, false))
    return false;
  if (current.head.bytes > kMostBytes) {
    isClosed = true;
    return false;
  }
  current.data.resize(current.head.bytes);
  return move(current.data.data(), current.head.bytes, received, sizeof(Head),
              false);
}

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

void kerf::runtime::tcp::makeNonBlocking(int file) {
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
  int isOn = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &isOn, sizeof isOn);
  setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &isOn, sizeof isOn);
}

bool kerf::runtime::tcp::transferAll(int file, void *data, uint64_t bytes,
                                     double deadline, bool isWrite) {
  auto *at = static_cast<char *>(data);
  while (bytes != 0) {
    double left = deadline - secondsNow();
    pollfd entry = {file, short(isWrite ? POLLOUT : POLLIN), 0};
    if (left <= 0)
      return false;
    int ready = poll(&entry, 1, int(std::min(left, 1.0) * 1000) + 1);
    if (ready < 0 && errno != EINTR)
      return false;
    if (ready <= 0)
      continue;
    ssize_t moved = isWrite ? send(file, at, bytes, MSG_NOSIGNAL)
                            : recv(file, at, bytes, 0);
    if (moved < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (moved <= 0)
      return false;
    at += moved;
    bytes -= uint64_t(moved);
  }
  return true;
}

namespace {
/// What getaddrinfo found.
struct Addresses {
  addrinfo *first = nullptr;
  ~Addresses() {
    if (first)
      freeaddrinfo(first);
  }
};
} // namespace

static bool find(const char *host, const std::string &port, int flags,
                 Addresses &found, std::string &error) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  int code = getaddrinfo(host, port.c_str(), &hints, &found.first);
  if (code != 0)
    error = std::string("cannot find '") + (host ? host : "") + "' port '" +
            port + "': " + gai_strerror(code);
  return code == 0;
}

/// While nobody listens, the system may pick the port that is asked for as the
/// port of the one who asks, on the same machine: it is then connected to
/// itself, and rank 0 cannot listen.
static bool isOwnEnd(int file) {
  sockaddr_storage own = {}, other = {};
  socklen_t ownBytes = sizeof own, otherBytes = sizeof other;
  return getsockname(file, reinterpret_cast<sockaddr *>(&own), &ownBytes) ==
             0 &&
         getpeername(file, reinterpret_cast<sockaddr *>(&other), &otherBytes) ==
             0 &&
         ownBytes == otherBytes && std::memcmp(&own, &other, ownBytes) == 0;
}

/// Waits at most until `deadline` for this address to answer: where packets are
/// dropped, a connect that blocks takes minutes. 0, or what went wrong.
static int connectOnce(int file, const addrinfo &to, double deadline) {
  int flags = fcntl(file, F_GETFL);
  fcntl(file, F_SETFL, flags | O_NONBLOCK);
  if (connect(file, to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS && errno != EINTR)
      return errno;
    pollfd entry = {file, POLLOUT, 0};
    int ready = 0;
    while (ready <= 0) {
      double left = deadline - secondsNow();
      if (left <= 0)
        return ETIMEDOUT;
      ready = poll(&entry, 1, int(std::min(left, 1.0) * 1000) + 1);
      if (ready < 0 && errno != EINTR)
        return errno;
    }
    int problem = 0;
    socklen_t bytes = sizeof problem;
    if (getsockopt(file, SOL_SOCKET, SO_ERROR, &problem, &bytes) != 0)
      return errno;
    if (problem != 0)
      return problem;
  }
  fcntl(file, F_SETFL, flags);
  return isOwnEnd(file) ? ECONNREFUSED : 0;
}

int kerf::runtime::tcp::connectTo(const std::string &host,
                                  const std::string &port, double deadline,
                                  std::string &error) {
  while (true) {
    Addresses found;
    bool isKnown = find(host.c_str(), port, 0, found, error);
    for (addrinfo *at = found.first; at; at = at->ai_next) {
      int file = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0);
      int problem = file < 0 ? errno : connectOnce(file, *at, deadline);
      if (problem == 0)
        return file;
      error = "cannot reach rank 0 at " + host + ":" + port + ": " +
              std::strerror(problem);
      if (file >= 0)
        close(file);
    }
    if (!isKnown || secondsNow() > deadline)
      return -1;
    usleep(20'000);
  }
}

/// A machine's name may stand for 127.0.1.1 on itself, and for another address
/// elsewhere: numbers count, and the name that means nothing else.
static bool isLoopback(const std::string &host) {
  return host.rfind("127.", 0) == 0 || host == "::1" || host == "localhost";
}

int kerf::runtime::tcp::listenOn(const std::string &host,
                                 const std::string &port, std::string &error) {
  Addresses found;
  const char *own = isLoopback(host) ? host.c_str() : nullptr;
  if (!find(own, port, AI_PASSIVE, found, error))
    return -1;
  // The order is the system's: take IPv6, which takes IPv4 as well, if it can.
  for (int family : {AF_INET6, AF_INET})
    for (addrinfo *at = found.first; at; at = at->ai_next) {
      if (at->ai_family != family)
        continue;
      int file = socket(family, at->ai_socktype | SOCK_CLOEXEC, 0);
      int isOn = 1, isOff = 0;
      if (file >= 0)
        setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &isOn, sizeof isOn);
      if (file >= 0 && family == AF_INET6)
        setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &isOff, sizeof isOff);
      if (file >= 0 && bind(file, at->ai_addr, at->ai_addrlen) == 0 &&
          listen(file, SOMAXCONN) == 0)
        return file;
      error = "cannot listen on port " + port + ": " + std::strerror(errno);
      if (file >= 0)
        close(file);
    }
  return -1;
}
