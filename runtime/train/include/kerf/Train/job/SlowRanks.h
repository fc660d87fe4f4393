//===- SlowRanks.h - ranks that all others wait for -------------*- C++ -*-===//
//
// Problem: in each step some rank is the slowest; which one is slow for hours?
//
// Idea: ranks of one stage do the same work. Of the last steps a rank is slow
// that was the slowest of its stage in most, by a part that is no noise. A rank
// that is alone in its stage is compared with itself at the beginning, beside
// the others: all may become slower with longer documents, one alone does not.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_JOB_SLOWRANKS_H
#define KERF_TRAIN_JOB_SLOWRANKS_H

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace kerf::runtime {

/// What is told of a rank.
struct SlowRank {
  uint32_t rank = 0;
  bool isSlow = true; ///< else it was, and is no more
  /// Of the last `of` comparisons it was the slowest of `peers` ranks in
  /// `slowest`; 1 peer: compared with its own beginning.
  int64_t slowest = 0, of = 0, peers = 0;
  double excess = 0; ///< part by which it takes longer, in the median
};

class SlowRanks {
public:
  /// Comparisons after which a rank is named, and behind which they count.
  static constexpr int64_t kWindow = 50;

  /// `stages`: that of each rank.
  explicit SlowRanks(std::vector<uint32_t> stages);

  /// Seconds in which each rank did not wait for others; returns the ranks that
  /// became slow, or are slow no more.
  std::vector<SlowRank> note(const std::vector<double> &busySec);

private:
  /// One comparison, by rank.
  struct Look {
    std::vector<double> busySec;
    std::vector<double> excess; ///< over the median of its peers
    std::vector<bool> isSlowest;
  };

  Look look(const std::vector<double> &busySec) const;
  SlowRank compare(uint32_t rank) const;
  SlowRank compareWithPeers(uint32_t rank) const;
  SlowRank compareWithBeginning(uint32_t rank) const;
  bool isNamed(const SlowRank &found) const;
  bool isOver(const SlowRank &found) const;

  std::vector<uint32_t> stages;
  std::vector<std::vector<uint32_t>> ranksOf; ///< by stage
  std::deque<Look> last;                      ///< a window of them
  std::vector<double> beginning; ///< medians of the first window; by rank
  std::vector<double> growth;    ///< of the last window, over these; by rank
  std::vector<bool> isSlow;
};

/// " slow: rank 3 of host b was the slowest of the 4 ranks of its stage in 47
/// of 50 steps, by 12 % in the median".
std::string formatSlowRank(const SlowRank &found, const std::string &machine);
/// The same as a JSON object; `step` is the one after which it was found.
std::string formatSlowRankJson(const SlowRank &found,
                               const std::string &machine, int64_t step);

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_SLOWRANKS_H
