//===- Late.h - what is said of a rank that hangs -------------------------===//

#ifndef KERF_TEST_RUNTIME_LATE_H
#define KERF_TEST_RUNTIME_LATE_H

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <unistd.h>

namespace kerf::test {

/// The message of ranks that waited 2 s for rank 1, but for its process.
inline std::string lateMessage(uint32_t ranks) {
  return "waited 2 s in a group of ranks 0-" + std::to_string(ranks - 1) +
         "; late: rank 1 in command 5";
}

/// A message without the process of the late rank and its machine: this one,
/// and a process that lives and is not this one. Unchanged where it is not.
inline std::string withoutProcess(std::string message) {
  char host[40] = "";
  gethostname(host, sizeof host - 1);
  std::string begin = " (process ", end = std::string(" on '") + host + "')";
  size_t first = message.find(begin), last = message.find(end);
  if (first == std::string::npos || last == std::string::npos)
    return message;
  int process = std::atoi(message.c_str() + first + begin.size());
  bool isOther = process > 1 && process != getpid() && kill(process, 0) == 0;
  return isOther ? message.erase(first, last + end.size() - first) : message;
}

} // namespace kerf::test

#endif // KERF_TEST_RUNTIME_LATE_H
