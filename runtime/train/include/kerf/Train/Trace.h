//===- Trace.h - what all ranks did, for Perfetto ---------------*- C++ -*-===//
//
// Chrome's "Trace Event Format". Each rank appends its events to a part beside
// the trace, one event per line, after every step; the parts are merged by
// rename. A part is a trace of its own: viewers accept one that ends early.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_TRACE_H
#define KERF_TRAIN_TRACE_H

#include "kerf/Runtime/Runtime.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

/// The stage of a rank: its coordinate on the pipeline's axis.
uint32_t stageOf(const kerf_artifact *artifact, uint32_t rank);

/// Times of a step outside of the session, in seconds of `now()`.
struct StepTimes {
  int64_t step = 0;
  double dataStart = 0;            ///< batch and inputs are made
  double runStart = 0, runEnd = 0; ///< the session runs
};

/// The part of one rank.
class TracePart {
public:
  TracePart() = default;
  TracePart(const TracePart &) = delete;
  ~TracePart();

  /// Collective: agrees on the clock and makes the part of this rank. Fails on
  /// any rank alone; refuses to replace a file that is no part.
  [[nodiscard]] bool open(const std::string &path,
                          const kerf_artifact *artifact, kerf_session *session,
                          std::string &error);
  /// Appends what the session recorded in its last run. What cannot be written
  /// is told by `finish`: a full disk ends no training.
  void append(const StepTimes &times);
  /// Called by all ranks after step `last`: ends the recording. The first rank
  /// merges the parts and puts what there is to say into `lines`.
  [[nodiscard]] kerf_status finish(const std::string &path, int64_t first,
                                   int64_t last,
                                   std::vector<std::string> &lines,
                                   kerf_error &failure);

private:
  void addEvent(const kerf_trace_event &event, int64_t step);
  void addSpan(const char *name, const char *kind, double start, double end,
               int64_t step);
  double microseconds(double seconds) const;

  const kerf_artifact *artifact = nullptr;
  kerf_session *session = nullptr;
  uint32_t rank = 0;
  double epoch = 0; ///< of this rank's clock
  std::string name, text;
  int descriptor = -1;
  int problem = 0; ///< errno of what could not be appended
};

/// Where the part of a rank lies while a job is under way.
std::string tracePartName(const std::string &path, uint32_t rank);

/// Removes parts that a job that was killed has left; files that are none stay.
void removeTraceParts(const std::string &path, uint32_t ranks);

/// Merges the parts of `ranks` ranks into `path` and removes them. Without a
/// part of some rank the trace says so; without any event `path` stays as it is
/// and `found` is 0. On failure the parts stay.
[[nodiscard]] bool mergeTrace(const std::string &path,
                              const kerf_artifact *artifact, bool isComplete,
                              uint32_t &found, std::string &error);

/// Set for ranks whose launcher merges the parts of a job that failed.
inline constexpr const char *traceLauncher = "KERF_TRACE_LAUNCHER";

/// Merges what a failed run left and says in one line what is kept; "" if
/// nothing is.
std::string rescuedTrace(const std::string &path,
                         const kerf_artifact *artifact);

/// Kind, chunk and "has a micro-batch" of a function, in the words of the
/// predicted timeline: "backward_1" and "backward_1_last" are "backward" of
/// chunk 1, "weights" is "weight gradient".
struct CallKind {
  std::string kind;
  int64_t chunk = 0;
  bool hasMicroBatch = false;
};
CallKind kindOfFunction(const std::string &function);

} // namespace kerf::runtime

#endif // KERF_TRAIN_TRACE_H
