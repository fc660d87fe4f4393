//===- Check.h - what the simulator's tests expect ------------------------===//

#ifndef KERF_SIMULATOR_TEST_CHECK_H
#define KERF_SIMULATOR_TEST_CHECK_H

#include <cstdio>
#include <string>

namespace kerf::sim::test {

inline int checks = 0, failures = 0;

/// Counts a check; a failing one is told with `what`.
inline bool check(bool holds, const std::string &what) {
  ++checks;
  if (!holds) {
    ++failures;
    fprintf(stderr, "FAILED: %s\n", what.c_str());
  }
  return holds;
}

template <class A, class B>
bool same(const A &found, const B &expected, const std::string &what) {
  bool holds = found == expected;
  if (!holds)
    fprintf(stderr, "found %s, expected %s\n", std::to_string(found).c_str(),
            std::to_string(expected).c_str());
  return check(holds, what);
}

inline bool contains(const std::string &text, const std::string &part,
                     const std::string &what) {
  bool holds = text.find(part) != std::string::npos;
  if (!holds)
    fprintf(stderr, "found: %s\nexpected: %s\n", text.c_str(), part.c_str());
  return check(holds, what);
}

/// For main: the exit status after a line with the number of checks.
inline int finish(const char *name) {
  printf("%s: %d checks, %d failed\n", name, checks, failures);
  return failures || !checks;
}

} // namespace kerf::sim::test

#endif // KERF_SIMULATOR_TEST_CHECK_H
