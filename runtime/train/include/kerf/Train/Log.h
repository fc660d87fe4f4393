//===- Log.h - what a run tells while it trains -----------------*- C++ -*-===//
//
// A step is one line with the field names of Megatron-LM's log, which existing
// scripts read, and one JSON object. A progress bar is drawn on a terminal
// only.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_LOG_H
#define KERF_TRAIN_LOG_H

#include "kerf/Train/EventFile.h"
#include "kerf/Train/Experts.h"
#include "kerf/Train/job/SlowLinks.h"
#include "kerf/Train/job/SlowRanks.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Least and most over the ranks, in seconds.
struct WaitRange {
  double least = 0, most = 0;
};

/// Where the ranks waited in one step.
struct WaitRecord {
  WaitRange data;          ///< batch and inputs are made
  WaitRange communication; ///< in collectives and messages of the step
  WaitRange barrier;       ///< at meetings of all ranks since the last step
  /// The rank that the others waited for: it waited least itself.
  int64_t slowestRank = 0;
};

/// The same from (data, communication, barrier) of each rank.
WaitRecord summarizeWaits(const std::vector<std::array<double, 3>> &ranks);

/// What is known about one step.
struct StepRecord {
  int64_t step = 0, steps = 0;
  int64_t consumedSamples = 0;
  double elapsedMs = 0;
  double tokensPerSecond = 0; ///< per device
  double tflops = 0;          ///< of matmuls, per device, in 10^12/s
  /// Part of the peak that the model's own work reaches; only if the peak is
  /// known.
  std::optional<double> mfu;
  double learningRate = 0;
  double loss = 0;
  std::optional<double> gradNorm;
  std::optional<double> lossScale; ///< that of this step
  int64_t skippedSteps = 0;        ///< with a loss scale: this one included
  bool isSkipped = false;
  std::optional<ExpertRecord> experts; ///< of a mixture of experts
  double peakMemoryMb = 0;             ///< of the process, in 2^20 bytes
  std::optional<WaitRecord> waits;     ///< where it was asked for
  int64_t ranks = 1;
};

/// The lines of a step, at most 118 columns each, without the last line break.
/// The first has the loss; those after it begin with five spaces.
std::string formatStep(const StepRecord &record);
/// The same as a JSON object; numbers that are not finite are null.
std::string formatStepJson(const StepRecord &record);

struct HeldoutRecord {
  int64_t step = 0, steps = 0;
  int64_t samples = 0;
  double loss = 0;
};
std::string formatHeldout(const HeldoutRecord &record);
std::string formatHeldoutJson(const HeldoutRecord &record);

/// A state that was loaded.
struct LoadRecord {
  std::string path;
  uint64_t needed = 0; ///< bytes that the ranks store, together
  uint64_t read = 0;   ///< bytes of files that they read for it
  double most = 0;     ///< read / needed, of the rank that read the most
  double seconds = 0;  ///< of the slowest rank
};
/// The same from (needed, read, seconds) of each rank, without the path.
LoadRecord summarizeLoads(const std::vector<std::array<double, 3>> &ranks);
std::string formatLoad(const LoadRecord &record);
std::string formatLoadJson(const LoadRecord &record);

/// A line for a run that a signal ended.
std::string describeStop(int signal, int64_t step, int64_t steps);

/// A state that was saved.
struct SaveRecord {
  int64_t step = 0; ///< that was saved
  int64_t now = 0;  ///< steps that are done when it is whole
  std::string path;
  uint64_t bytes = 0;
  /// Seconds of the slowest rank: until the copy was made, of the writing, and
  /// those that training stood still.
  double copySec = 0, writeSec = 0, stallSec = 0;
};
std::string formatSave(const SaveRecord &record);
std::string formatSaveJson(const SaveRecord &record);
std::string formatCopyJson(const SaveRecord &record);
std::vector<Scalar> saveScalars(const SaveRecord &record);

/// The same for TensorBoard, with the tags of Hugging Face's Trainer where it
/// has them.
std::vector<Scalar> stepScalars(const StepRecord &record);
std::vector<Scalar> heldoutScalars(const HeldoutRecord &record);

/// A bar of `width` cells with step, loss and remaining time.
std::string formatProgress(int64_t step, int64_t steps, double loss,
                           double secondsLeft, int width);

/// Writes the lines of a run. Silent on other ranks than the first.
class Log {
public:
  explicit Log(bool isSilent = false);
  ~Log();
  Log(const Log &) = delete;

  /// Sends the JSON lines to `path`; with `isResumed` behind what is there.
  /// When the disk is full there are no further ones, and a line says so.
  [[nodiscard]] bool openJson(const std::string &path, bool isResumed,
                              std::string &error);
  /// Sends events for TensorBoard to a new file in `folder`; the first step
  /// of the run is `firstStep`, 0 if it is told about before any. When the disk
  /// is full there are no further events, and a line says so.
  [[nodiscard]] bool openEvents(const std::string &folder, int64_t firstStep,
                                std::string &error);
  /// One line to standard output.
  void line(const std::string &text);
  void step(const StepRecord &record, bool hasLine);
  void heldout(const HeldoutRecord &record);
  /// What run this is, in lines and as one of JSON (`describeSetup`).
  void begin(const std::vector<std::string> &lines, const std::string &text);
  void load(const LoadRecord &record);
  void save(const SaveRecord &record);
  /// A copy in memory: in the JSON alone.
  void copy(const SaveRecord &record);
  void slow(const SlowRank &found, const std::string &machine, int64_t step);
  /// `names`: of the machines.
  void slowLink(const SlowLink &found, const std::vector<std::string> &names,
                int64_t step);
  /// Removes the progress bar.
  void finish();

private:
  void json(const std::string &text);
  void event(int64_t step, const std::vector<Scalar> &scalars);
  void clearBar();

  bool isSilent, hasBar = false, isBarShown = false;
  double barStart = 0;
  int64_t barFirstStep = 0;
  std::FILE *jsonFile = nullptr;
  std::string jsonPath;
  std::optional<EventFile> events;
};

/// Seconds of a clock that never goes back.
double now();
/// Largest resident size of this process in 2^20 bytes.
double peakMemoryMb();

} // namespace kerf::runtime

#endif // KERF_TRAIN_LOG_H
