//===- Calibrate.h - measures this machine for the planner ------*- C++ -*-===//
//
// `kerf-run --calibrate` times matmuls, attention, memory, launches and
// collectives through the device and the transport that run models, and writes
// a description that `kerfc --cluster` reads (docs/rationale/Machine.md).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_CALIBRATE_H
#define KERF_TRAIN_CALIBRATE_H

#include "kerf/Train/Options.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Figures by name; what a rank process tells its parent. SI units. Names:
///   matmul f32|bf16 M N K          flop/s of one rank on all its cores
///   rows f32|bf16 R M               flop/s of R ranks together, each with its
///                                   part of the cores, on matmuls of layers
///                                   with M rows
///   depth f32|bf16 R K              the same on gradients of a weight from K
///                                   rows
///   attention f32|bf16 R L          the same on attention over L keys, heads
///                                   of 64, causal half
///   attention_backward f32|bf16 R L the same, 2.5 times the flops
///   sum BYTES                       bytes/s of z = x + y, 3 x BYTES in all
///   copy BYTES                      bytes/s, 2 x BYTES in all
///   memory R                        bytes/s of `sum` in R ranks together
///   launch                          seconds of a kernel that does nothing
///   launch enqueued                 the same where the host enqueues each; on
///                                   GPUs, whose `launch` is within a recording
///   spread R                        median / fastest time of a run, where R
///                                   ranks were timed: half of all have more
///   KIND R BYTES                    seconds of a collective of R ranks; BYTES
///                                   of the whole tensor as in
///                                   kerf/Cost/Collectives.h. Kinds:
///                                   all_reduce all_gather reduce_scatter
///                                   all_to_all send
using Figures = std::map<std::string, double>;

/// What sizes are timed.
struct MeasuredSizes {
  /// Of `rows`, ascending; matmuls of w x 3w and 3w x w with these widths w.
  std::vector<int64_t> rows, widths;
  /// Of `depth` and `attention`: a short one and a long one.
  std::array<int64_t, 2> depths, lengths;
  int64_t depthWidth; ///< of the weight whose gradients `depth` times
  /// Of attention: sequences x keys, heads, channels of a head.
  int64_t tokens, heads, headSize;
  std::vector<std::array<int64_t, 3>> matmuls; ///< m n k
  std::vector<int64_t> vectors;      ///< bytes; no cache holds the last
  int64_t leastMessage, mostMessage; ///< bytes of collectives, by four
};
/// `isTiny`: for tests, on what only imitates a machine.
const MeasuredSizes &measuredSizes(bool isGpu, bool isTiny);

/// How to measure.
struct MeasureOptions {
  std::string device, pluginPath, transport; ///< as in RunOptions
  double budgetSec = 0.1;                    ///< for each time
  bool isTiny = false;                       ///< sizes for tests
};

/// What a description says that is not timed.
struct MachineFacts {
  std::string date;   ///< "2026-01-31"
  std::string device; ///< in one line
  int64_t cores = 1;
  int64_t ranks = 1; ///< most ranks that were measured together
  double memoryBytes = 0;
  /// Of devices with memory of their own, else empty or 0.
  std::string name, arch; ///< "NVIDIA H100 80GB HBM3", "sm_90"
  int64_t devices = 0;    ///< that ranks may take
  double usedBytes = 0;  ///< of the memory, by whatever, after the measurements
  std::string transport; ///< of collectives, for people
  bool isTiny = false;

  bool isGpu() const { return devices > 0; }
};

/// Sets what the device tells of itself; times nothing. Returns the exit
/// status.
int describeDevice(const MeasureOptions &options, MachineFacts &facts,
                   std::string &error);

/// Times what one rank alone can time, with `workers` threads (0: all cores).
/// Sets what the device tells of itself. Returns the exit status.
int measureDevice(const MeasureOptions &options, int64_t workers,
                  Figures &figures, MachineFacts &facts, std::string &error);
/// One of `ranks` ranks: times collectives and, where ranks share one
/// computer's cores and each has one, matmuls, attention and memory of all
/// ranks at once. Meets the others under the name `session`.
int measureRank(const MeasureOptions &options, int64_t rank, int64_t ranks,
                const std::string &session, Figures &figures,
                std::string &error);

/// A tier in the sense of kerf/Cost/Collectives.h: of one computer, shared by
/// all ranks.
struct FittedTier {
  double bytesPerSec = 0, latencySec = 0;
  double error = 0; ///< median of |predicted - measured| / measured
};
/// Latency and bandwidth with which the cost model's formulas come nearest to
/// the collectives of `ranks` ranks in `figures`: least squares of relative
/// errors. Where long messages took less time than short ones, as on a busy
/// machine, the bandwidth is the most that any collective reached. Zeros where
/// fewer than two were measured. Of the ranks that share it, each has
/// bandwidth / ranks.
FittedTier fitTier(const Figures &figures, int64_t ranks);

/// The machine as YAML, with what was measured as comments: the device with one
/// rank, and by numbers of ranks what those that were measured reach together.
/// Ranks that share cores are taken to reach together what one rank per core
/// does. GPUs share nothing: each has what is stated.
std::string describeMachine(const MachineFacts &facts, const Figures &figures);
/// The figures for people.
std::string printFigures(const Figures &figures);

/// `kerf-run --calibrate`, as the program or as one of the ranks that it
/// started. Returns the exit status; `error` is empty when it was told already.
int calibrate(const RunOptions &options, std::string &error);

} // namespace kerf::runtime

#endif // KERF_TRAIN_CALIBRATE_H
