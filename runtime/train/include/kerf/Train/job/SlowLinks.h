//===- SlowLinks.h - links between machines that became slow ----*- C++ -*-===//
//
// Problem: a cable or a switch is worse than it was, and all ranks wait.
//
// Idea: now and then each machine exchanges a message with one other, a
// different one each time (a round-robin tournament), and the times are
// compared: with those of the other pairs in the same round, or of fewer than
// six machines with their own at the beginning. Where most of the last
// measurements of a machine are slow its links are, whatever the other end;
// where those of one pair alone are, the link is.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_JOB_SLOWLINKS_H
#define KERF_TRAIN_JOB_SLOWLINKS_H

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kerf::runtime {

/// Two machines, the smaller number first.
using MachinePair = std::pair<uint32_t, uint32_t>;

/// What is told of a link, or of all links of one machine.
struct SlowLink {
  MachinePair ends{};       ///< both the same: all links of this machine
  bool isSlow = true;       ///< else it was, and is no more
  int64_t slow = 0, of = 0; ///< measurements, of the last ones
  double factor = 1;        ///< by which it takes longer, in the median
};

class SlowLinks {
public:
  /// Measurements of a machine and of a pair after which they are named.
  static constexpr size_t kOfMachine = 5, kOfPair = 3;
  /// A measurement is slow that takes so many times as long.
  static constexpr double kSlow = 1.5;

  explicit SlowLinks(uint32_t machines) : machines(machines) {}

  /// Who measures with whom in round 0, 1, ..: each pair once in so many rounds
  /// as there are machines (one fewer of an even number).
  std::vector<MachinePair> pairs(uint64_t round) const;
  /// Seconds of each pair of a round; returns what became slow, or is no more.
  std::vector<SlowLink> note(uint64_t round,
                             const std::vector<double> &seconds);

private:
  using Window = std::deque<double>; ///< factors, the last one at the back
  void judge(const Window &window, size_t size, MachinePair ends,
             std::vector<SlowLink> &told);

  uint32_t machines;
  std::map<MachinePair, Window> ofPair;
  std::map<uint32_t, Window> ofMachine;
  std::vector<double> beginning; ///< of few machines
  std::map<MachinePair, bool> isSlow;
};

/// " slow: the links of b took 2.1 times as long as others in 5 of 5
/// measurements"; `names`: of the machines.
std::string formatSlowLink(const SlowLink &found,
                           const std::vector<std::string> &names);
/// The same as a JSON object; `step` is the one after which it was found.
std::string formatSlowLinkJson(const SlowLink &found,
                               const std::vector<std::string> &names,
                               int64_t step);

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_SLOWLINKS_H
