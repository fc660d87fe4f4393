//===- Options.h - the command line of kerf-run -----------------*- C++ -*-===//

#ifndef KERF_TRAIN_OPTIONS_H
#define KERF_TRAIN_OPTIONS_H

#include "kerf/Train/Schedule.h"
#include "kerf/Train/Sources.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// What the user asked for. Empty optionals are chosen by the run and printed.
struct RunOptions {
  std::vector<std::string> arguments; ///< as they were typed
  std::vector<std::string> given;     ///< names of options among them
  std::string artifact;
  bool isHelp = false, isVersion = false, isDoctor = false;
  bool isCalibration = false;

  std::vector<SourceOption> data;
  DataFormat dataFormat = DataFormat::Auto;
  /// Token that ends a document; -1: none. By default as SourceOptions says.
  std::optional<int64_t> documentEnd;
  std::optional<double> heldout;
  std::vector<SourceOption> heldoutData;
  std::optional<int64_t> evalEvery, evalBatches;

  int64_t steps = 100;
  std::optional<int64_t> seed;
  std::optional<double> learningRate, minLearningRate, wsdPart;
  std::optional<Decay> decay;
  std::optional<int64_t> warmupSteps, decaySteps;
  std::optional<double> lossScale; ///< fixed; 0: dynamic
  std::optional<double> initialLossScale;
  std::optional<int64_t> lossScaleInterval;

  std::string initFrom, saveWeights, saveState, resume;
  std::string initAdapter, saveAdapter;
  int64_t saveEvery = 0, exportEvery = 0;
  int64_t keep = 2, keepEvery = 0;       ///< checkpoints; 0: none more
  int64_t peerCopies = 0, copyEvery = 0; ///< in memory; 0: none, by itself
  int64_t maxRestarts = 0;               ///< within an hour
  double saveMegabytes = 0;              ///< per second and rank; 0: no limit
  double shardMegabytes = 5000;

  std::string device, pluginPath;
  std::string transport; ///< empty: mpi under mpirun, else shm
  double hangSec = 60;   ///< 0: never
  int64_t threads = 0;
  bool checkNans = false, isProfiled = false;
  double peakTflops = 0;
  std::string logJson, tensorboard, plot, html;
  std::vector<std::string> sample; ///< texts that the model goes on from
  int64_t sampleTokens = 200;
  double sampleTemperature = 0.8;        ///< 0: the likeliest token
  std::string trace;                     ///< empty: none
  int64_t traceFirst = 0, traceLast = 0; ///< steps; 0: chosen by the run
  int64_t logEvery = 1;

  std::string tune;     ///< file to write tuned algorithms to; empty: none
  std::string tuning;   ///< file of them to take; empty: none
  std::string output;   ///< of a calibration; empty: only printed
  std::string hostfile; ///< machines that mpirun starts ranks on
  std::string cluster;  ///< of --doctor: a description to compare with
  bool isDry = false;
  int64_t dryRank = -1;     ///< of a dry run; -1: all
  int64_t ranks = 0;        ///< of a calibration; 0: one per core, at least 2
  int64_t measureMs = 100;  ///< of a calibration or tuning, for each figure
  int64_t tuneSeconds = 20; ///< after which no matmul's tuning begins
  bool isTiny = false;      ///< a calibration for tests

  bool wantsEvaluation() const {
    return heldout || !heldoutData.empty() || evalEvery;
  }
};

/// Reads the arguments behind the program's name: "--name=value", "--name
/// value", one artifact. Fails on unknown options (with the nearest known one),
/// missing or meaningless values, and combinations that contradict each other.
[[nodiscard]] bool parseOptions(const std::vector<std::string> &arguments,
                                RunOptions &options, std::string &error);

/// An option of the learning rate's schedule that this kind of schedule does
/// not ask for: an error; "" if none was given.
std::string findIdleScheduleOption(const RunOptions &options, Decay decay);

/// The text of --help.
std::string helpText();

} // namespace kerf::runtime

#endif // KERF_TRAIN_OPTIONS_H
