//===- Options.cpp - the command line of kerf-run -------------------------===//

#include "kerf/Train/Options.h"

#include "kerf/Support/Quantities.h"
#include "kerf/Train/Launcher.h"
#include "kerf/Train/ModelFolder.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <sstream>

using namespace kerf;
using namespace kerf::runtime;

namespace {
/// Takes the value of an option; fails with what was expected.
using Setter = bool (*)(RunOptions &options, const std::string &value,
                        std::string &expected);

struct OptionRow {
  const char *name;
  const char *value; ///< null: a flag
  const char *help;
  Setter set;
};
} // namespace

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Into a string.
template <auto Member>
static bool text(RunOptions &options, const std::string &value,
                 std::string &expected) {
  options.*Member = value;
  expected = "a value";
  return !value.empty();
}

template <auto Member>
static bool flag(RunOptions &options, const std::string &, std::string &) {
  return options.*Member = true;
}

/// Into an integer of at least `Least`: "200", "10k".
template <auto Member, int64_t Least>
static bool integer(RunOptions &options, const std::string &value,
                    std::string &expected) {
  expected = "an integer of at least " + std::to_string(Least);
  std::optional<int64_t> number = readWhole(value);
  if (!number || *number < Least)
    return false;
  options.*Member = *number;
  return true;
}

/// Into a number >= 0.
template <auto Member>
static bool real(RunOptions &options, const std::string &value,
                 std::string &expected) {
  expected = "a number that is not negative";
  double number = 0;
  if (!parseReal(value, number) || number < 0)
    return false;
  options.*Member = number;
  return true;
}

/// Into seconds.
template <auto Member>
static bool duration(RunOptions &options, const std::string &value,
                     std::string &expected) {
  expected = "a time such as 30s, 5m or 0; a number alone is in seconds";
  std::optional<double> seconds = readQuantity(value, kTimeoutUnits, 1);
  if (!seconds || *seconds < 0)
    return false;
  options.*Member = *seconds;
  return true;
}

/// Into megabytes (10^6), of which a number alone is.
static bool readMegabytes(std::string_view text, double &value) {
  constexpr double megabyte = 1e6;
  std::optional<double> bytes = readQuantity(text, kByteUnits, megabyte);
  if (bytes)
    value = *bytes / megabyte;
  return bytes && *bytes >= 0;
}

template <auto Member>
static bool size(RunOptions &options, const std::string &value,
                 std::string &expected) {
  expected = "a size such as 512MiB or 5GB; a number alone is in MB";
  return readMegabytes(value, options.*Member);
}

/// Into megabytes per second.
template <auto Member>
static bool bandwidth(RunOptions &options, const std::string &value,
                      std::string &expected) {
  expected = "a rate such as 500MB/s or 2GB/s; a number alone is in MB/s";
  std::string_view text = value;
  if (endsWith(text, "/s"))
    text.remove_suffix(2);
  return readMegabytes(text, options.*Member);
}

/// Into a number strictly between 0 and 1.
template <auto Member>
static bool part(RunOptions &options, const std::string &value,
                 std::string &expected) {
  expected = "a number between 0 and 1";
  double number = 0;
  if (!parseReal(value, number) || number <= 0 || number >= 1)
    return false;
  options.*Member = number;
  return true;
}

/// One more source.
template <auto Member>
static bool source(RunOptions &options, const std::string &value,
                   std::string &expected) {
  expected = "FILE, or WEIGHT:FILE with a weight from 0.000001 to 1,000,000";
  return parseSource(value, (options.*Member).emplace_back());
}

/// One more text to go on from.
static bool setSample(RunOptions &options, const std::string &value,
                      std::string &expected) {
  expected = "a text, or tokens:1,2,3";
  options.sample.push_back(value);
  return !value.empty();
}

static bool setSampleTokens(RunOptions &options, const std::string &value,
                            std::string &expected) {
  constexpr int64_t most = 1'000'000;
  expected = "an integer from 1 to 1,000,000";
  return parseInteger(value, options.sampleTokens) &&
         options.sampleTokens >= 1 && options.sampleTokens <= most;
}

static bool setDataFormat(RunOptions &options, const std::string &value,
                          std::string &expected) {
  expected = "'auto', 'bytes', 'u16', 'u32', 'llmc' or 'megatron'";
  return parseDataFormat(value, options.dataFormat);
}

static bool setDocumentEnd(RunOptions &options, const std::string &value,
                           std::string &expected) {
  expected = "a token id or 'none'";
  int64_t id = -1;
  if (value != "none" && (!parseInteger(value, id) || id < 0))
    return false;
  options.documentEnd = id;
  return true;
}

static bool setTransport(RunOptions &options, const std::string &value,
                         std::string &expected) {
  expected = "'shm', 'tcp', 'mpi' or 'nccl'";
  options.transport = value;
  return value == "shm" || value == "tcp" || value == "mpi" || value == "nccl";
}

/// Into a loss scale: f32 holds it, and a dynamic one starts above where
/// LossScale::isTooSmall ends the run.
template <auto Member>
static bool factor(RunOptions &options, const std::string &value,
                   std::string &expected) {
  expected = "a number from 2^-13 to 1e30";
  double number = 0;
  if (!parseReal(value, number) || number < 0x1p-13 || number > 1e30)
    return false;
  options.*Member = number;
  return true;
}

static bool setLossScale(RunOptions &options, const std::string &value,
                         std::string &expected) {
  if (value == "dynamic") {
    options.lossScale = 0;
    return true;
  }
  bool isSet = factor<&RunOptions::lossScale>(options, value, expected);
  expected = "'dynamic' or " + expected;
  return isSet;
}

static bool setDecay(RunOptions &options, const std::string &value,
                     std::string &expected) {
  expected = "'cosine', 'linear', 'constant' or 'wsd'";
  Decay decay;
  if (!parseDecay(value, decay))
    return false;
  options.decay = decay;
  return true;
}

/// "A..B" or "A".
static bool setTraceSteps(RunOptions &options, const std::string &value,
                          std::string &expected) {
  expected = "steps as 2..4, or one step";
  size_t dots = value.find("..");
  std::string last = dots == std::string::npos ? value : value.substr(dots + 2);
  return parseInteger(value.substr(0, dots), options.traceFirst) &&
         parseInteger(last, options.traceLast) && options.traceFirst >= 1 &&
         options.traceFirst <= options.traceLast;
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

using R = RunOptions;

// A row without setter is a heading.
static constexpr OptionRow rows[] = {
    {"Data", nullptr, nullptr, nullptr},
    {"data", "FILE",
     "raw text (bytes), a .bin of tokens, or a Megatron-LM dataset (its .bin, "
     ".idx, or their common name). Several are mixed: by weight as in "
     "--data=0.7:a.bin --data=0.3:b.bin, else by size",
     source<&R::data>},
    {"data-format", "NAME",
     "bytes | u16 | u32 | llmc | megatron (default: by name and contents)",
     setDataFormat},
    {"document-end", "ID",
     "token that ends a document, or none; used where the model takes segments "
     "or positions (default: as an index says, 0 for bytes, else none)",
     setDocumentEnd},
    {"heldout", "PART",
     "last part of the data that is kept for evaluation (default: 0.05 if "
     "anything is evaluated)",
     part<&R::heldout>},
    {"heldout-data", "FILE",
     "evaluate on this file instead; several are mixed as those of --data",
     source<&R::heldoutData>},
    {"eval-every", "N",
     "held-out loss every N steps and at the end (default: 50 if held-out data "
     "is named)",
     integer<&R::evalEvery, 1>},
    {"eval-batches", "N", "batches of an evaluation (default: up to 8)",
     integer<&R::evalBatches, 1>},

    {"Training", nullptr, nullptr, nullptr},
    {"steps", "N",
     "steps of the whole run, resumed ones too: 200, 10k (default: 100)",
     integer<&R::steps, 0>},
    {"seed", "N", "of weights, data order and dropout (default: 0)",
     integer<&R::seed, 0>},
    {"lr", "X", "highest learning rate (default: 3e-4)",
     real<&R::learningRate>},
    {"min-lr", "X", "learning rate after the decay (default: a tenth of --lr)",
     real<&R::minLearningRate>},
    {"lr-schedule", "NAME",
     "cosine | linear | constant | wsd (default: cosine)", setDecay},
    {"warmup", "N", "steps of linear warm-up (default: a twentieth of --steps)",
     integer<&R::warmupSteps, 0>},
    {"decay-steps", "N", "step at which the decay ends (default: --steps)",
     integer<&R::decaySteps, 1>},
    {"wsd-decay", "PART",
     "part of the steps in which wsd decays (default: 0.2)", part<&R::wsdPart>},
    {"loss-scale", "X",
     "factor on the loss of a model in f16: a number, or dynamic, which is "
     "halved where gradients overflow (default: dynamic)",
     setLossScale},
    {"initial-loss-scale", "X",
     "factor that a dynamic loss scale starts with (default: 65536)",
     factor<&R::initialLossScale>},
    {"loss-scale-interval", "N",
     "good steps in a row after which a dynamic loss scale is doubled "
     "(default: "
     "2000)",
     integer<&R::lossScaleInterval, 1>},

    {"Weights and state", nullptr, nullptr, nullptr},
    {"init-from", "PATH",
     "initial weights: a safetensors file, or a folder with a checkpoint",
     text<&R::initFrom>},
    {"save-weights", "PATH",
     "write the weights at the end, also after a signal: a .safetensors file, "
     "or a folder that the transformers library's from_pretrained reads",
     text<&R::saveWeights>},
    {"export-every", "N",
     "also write the weights of every N steps, to PATH/step-N of "
     "--save-weights=PATH",
     integer<&R::exportEvery, 1>},
    {"init-adapter", "FOLDER",
     "initial adapters of a model that has them: as the peft library saves "
     "them",
     text<&R::initAdapter>},
    {"save-adapter", "FOLDER",
     "write the adapters at the end, also after a signal, for the peft library",
     text<&R::saveAdapter>},
    {"shard-size", "SIZE",
     "largest file of saved weights, such as 512MiB (default: 5GB; a number "
     "alone is in MB)",
     size<&R::shardMegabytes>},
    {"save-state", "DIR",
     "save everything that --resume needs, at the end and on SIGINT, SIGTERM "
     "or SIGHUP",
     text<&R::saveState>},
    {"save-every", "N",
     "save the state also every N steps, beside training; to DIR/step-N",
     integer<&R::saveEvery, 1>},
    {"keep", "N", "newest saved states that stay (default: 2)",
     integer<&R::keep, 1>},
    {"keep-every", "N", "saved states of every N-th step stay, too",
     integer<&R::keepEvery, 1>},
    {"save-bandwidth", "RATE",
     "most that a rank writes while it trains, such as 500MB/s (a number alone "
     "is in MB/s)",
     bandwidth<&R::saveMegabytes>},
    {"peer-copies", "1",
     "keep a newer state in the memory of another machine for each rank: a job "
     "that lost one goes on from there",
     integer<&R::peerCopies, 1>},
    {"copy-every", "N",
     "steps between these (default: a tenth of --save-every)",
     integer<&R::copyEvery, 1>},
    {"resume", "DIR",
     "go on, bit for bit, from the newest saved state in DIR, or from "
     "DIR/step-N; in any layout, on any number of ranks",
     text<&R::resume>},

    {"Sampling", nullptr, nullptr, nullptr},
    {"sample", "TEXT",
     "let the trained model go on from this text, or from token numbers as in "
     "tokens:1,2,3, and print what it makes; of a model compiled with kerfc "
     "--sampler. May be given several times; without --data nothing is trained",
     setSample},
    {"sample-tokens", "N", "tokens that follow each text (default: 200)",
     setSampleTokens},
    {"sample-temperature", "X",
     "above 1 the model dares more, below less; 0 takes the likeliest token "
     "each time (default: 0.8)",
     real<&R::sampleTemperature>},

    {"Execution", nullptr, nullptr, nullptr},
    {"threads", "N", "threads per rank (default: all cores, shared by ranks)",
     integer<&R::threads, 1>},
    {"device", "NAME", "device library (default: the artifact's target)",
     text<&R::device>},
    {"transport", "NAME",
     "how ranks talk: shm | tcp | mpi | nccl (default: nccl on GPUs, else mpi "
     "under mpirun, else shm; KERF_TRANSPORT sets another)",
     setTransport},
    {"hostfile", "FILE",
     "machines on which mpirun starts the ranks, a line 'NAME slots=RANKS' "
     "each; with --max-restarts a job that lost some goes on with what kerfc "
     "--survive compiled for those that answer, and with all when they are "
     "back",
     text<&R::hostfile>},
    {"hang-timeout", "TIME",
     "stop when nothing moves in the whole job for so long within a step, and "
     "name the rank that hangs: 90s, 5m; 0: never (default: 60s; a number "
     "alone is in seconds)",
     duration<&R::hangSec>},
    {"max-restarts", "N",
     "start the job again after a fault of the machine, from the newest state "
     "of --save-state, N times within an hour at most (default: 0)",
     integer<&R::maxRestarts, 0>},
    {"plugin-path", "DIRS",
     "folders of device and transport libraries, by colon",
     text<&R::pluginPath>},
    {"check-nans", nullptr,
     "look at every result and name the first op that goes bad (slow)",
     flag<&R::checkNans>},
    {"profile", nullptr,
     "print the time of every kind of command at the end; a GPU takes the "
     "times "
     "itself",
     flag<&R::isProfiled>},
    {"tuning", "FILE",
     "take the algorithms of matmuls that --tune wrote for this GPU",
     text<&R::tuning>},

    {"Output", nullptr, nullptr, nullptr},
    {"log-every", "N", "print every N-th step (default: 1)",
     integer<&R::logEvery, 1>},
    {"log-json", "FILE", "every step as a line of JSON", text<&R::logJson>},
    {"tensorboard", "DIR",
     "loss, gradient norm, learning rate and speed of every step, and held-out "
     "loss, for TensorBoard",
     text<&R::tensorboard>},
    {"plot", "FILE", "draw the loss as SVG at the end", text<&R::plot>},
    {"html", "FILE",
     "write a page for a browser at the end: loss, speed beside what was "
     "planned, where ranks waited",
     text<&R::html>},
    {"trace", "FILE",
     "write what every rank did when as JSON, for Perfetto and kerf-inspect "
     "compare",
     text<&R::trace>},
    {"trace-steps", "A..B",
     "steps of --trace (default: three, from the second of the run)",
     setTraceSteps},
    {"peak-tflops", "X", "peak of a device in 10^12 FLOP/s, for MFU",
     real<&R::peakTflops>},
    {"doctor", nullptr,
     "tell what this machine offers, and whether MODEL.kerf can run on it",
     flag<&R::isDoctor>},
    {"cluster", "FILE",
     "with --doctor: measure devices and links, a minute, and print them "
     "beside what the cluster's description says; what was measured is left "
     "in --output (default: measured.yaml)",
     text<&R::cluster>},
    {"calibrate", nullptr,
     "measure this machine for the planner, without a model (15 s for 2 ranks, "
     "a minute for 4)",
     flag<&R::isCalibration>},
    {"tune", "FILE",
     "time all algorithms that the GPU's library has for the model's matmuls, "
     "write the fastest ones to FILE for --tuning, and end",
     text<&R::tune>},
    {"dry-nccl", nullptr,
     "print what every rank asks of NCCL in a step, and check that it fits "
     "together; needs no GPU",
     flag<&R::isDry>},
    {"dry-rank", "N", "print this rank alone (default: all)",
     integer<&R::dryRank, 0>},
    {"output", "FILE",
     "also -o: write what --calibrate measured as a description for kerfc "
     "--cluster",
     text<&R::output>},
    {"ranks", "N",
     "most ranks that --calibrate measures together (default: one per core, at "
     "least 2)",
     integer<&R::ranks, 1>},
    {"measure-ms", "N",
     "time for each figure of --calibrate, each matmul of --tune (default: "
     "100)",
     integer<&R::measureMs, 1>},
    {"tune-seconds", "N",
     "time after which --tune begins no other matmul (default: 20)",
     integer<&R::tuneSeconds, 0>},
    {"measure-tiny", nullptr,
     "let --calibrate measure tiny sizes, to try it where no GPU is: the "
     "figures mean nothing",
     flag<&R::isTiny>},
    {"help", nullptr, "print this text", flag<&R::isHelp>},
    {"version", nullptr, "print the version", flag<&R::isVersion>},
};

static const OptionRow *findRow(const std::string &name) {
  for (const OptionRow &row : rows)
    if (row.set && name == row.name)
      return &row;
  return nullptr;
}

static bool unknownOption(const std::string &name, std::string &error) {
  std::vector<std::string> names;
  for (const OptionRow &row : rows)
    if (row.set)
      names.push_back(row.name);
  std::string near = nearest(name, names);
  error = "unknown option '--" + name + "'" +
          (near.empty() ? "; --help lists all"
                        : "; did you mean '--" + near + "'?");
  return false;
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

/// Whether all sources of an option have a weight or none has.
static bool checkWeights(const char *name,
                         const std::vector<SourceOption> &sources,
                         std::string &error) {
  auto hasWeight = [](const SourceOption &source) { return source.weight > 0; };
  auto other = std::find_if_not(sources.begin(), sources.end(), hasWeight);
  if (sources.size() > maxSources)
    error = std::string("'--") + name + "' names " +
            withCommas(static_cast<int64_t>(sources.size())) +
            " files, expected at most " +
            withCommas(static_cast<int64_t>(maxSources));
  else if (other != sources.end() &&
           std::any_of(sources.begin(), sources.end(), hasWeight))
    error = std::string("'--") + name +
            "' gives a weight to some files and "
            "none to " +
            quote(other->path) +
            ": give one to all, or to none to mix them by size";
  return error.empty();
}

static bool isAmong(const std::vector<SourceOption> &sources,
                    const std::string &path) {
  return std::any_of(
      sources.begin(), sources.end(),
      [&](const SourceOption &source) { return source.path == path; });
}

/// Options that say nothing without another one. "|": one of several.
static constexpr const char *needs[][2] = {
    {"cluster", "doctor"},
    {"output", "calibrate|cluster=FILE"},
    {"ranks", "calibrate|cluster=FILE"},
    {"measure-tiny", "calibrate|cluster=FILE"},
    {"measure-ms", "calibrate|cluster=FILE|tune=FILE"},
    {"tune-seconds", "tune=FILE"},
    {"dry-rank", "dry-nccl"},
    {"export-every", "save-weights=FOLDER"},
    {"shard-size", "save-weights=PATH"},
    {"save-every", "save-state=DIR"},
    {"keep", "save-state=DIR"},
    {"keep-every", "save-state=DIR"},
    {"save-bandwidth", "save-state=DIR"},
    {"max-restarts", "save-state=DIR"},
    {"peer-copies", "save-state=DIR"},
    {"peer-copies", "save-every=N|copy-every=N"},
    {"copy-every", "peer-copies=1"},
    {"trace-steps", "trace=FILE"},
    {"eval-batches", "eval-every=N|heldout=PART|heldout-data=FILE"},
    {"sample-tokens", "sample=TEXT"},
    {"sample-temperature", "sample=TEXT"},
};

/// The first option that needs another one which is not given: an error.
static std::string findNeed(const std::vector<std::string> &given) {
  auto isGiven = [&](const std::string &name) {
    return std::find(given.begin(), given.end(), name) != given.end();
  };
  for (auto [name, others] : needs) {
    if (!isGiven(name))
      continue;
    std::string list;
    bool isMet = false;
    std::stringstream stream(others);
    for (std::string other; std::getline(stream, other, '|');) {
      isMet |= isGiven(other.substr(0, other.find('=')));
      list += (list.empty() ? "'--" : " or '--") + other + "'";
    }
    if (!isMet)
      return std::string("'--") + name + "' needs " + list;
  }
  return "";
}

/// Options that make kerf-run end before any training, why, and all that they
/// ask for.
static constexpr struct {
  const char *mode, *why, *options;
} modes[] = {
    {"calibrate", "which measures the machine alone",
     "output ranks measure-ms measure-tiny device transport plugin-path"},
    {"tune", "which times matmuls and ends",
     "tuning tune-seconds measure-ms measure-tiny device plugin-path"},
    {"dry-nccl", "which runs nothing", "dry-rank"},
};

static bool isAmong(const char *list, const std::string &name) {
  std::stringstream stream(list);
  for (std::string word; stream >> word;)
    if (word == name)
      return true;
  return false;
}

/// The first option that says nothing in the mode that is given: an error.
static std::string findBesideMode(const std::vector<std::string> &given) {
  for (const auto &[mode, why, options] : modes) {
    if (std::find(given.begin(), given.end(), mode) == given.end())
      continue;
    for (const std::string &name : given)
      if (name != mode && !isAmong(options, name))
        return "'--" + name + "' has no effect with '--" + mode + "', " + why +
               ": leave it out";
  }
  return "";
}

std::string kerf::runtime::findIdleScheduleOption(const RunOptions &options,
                                                  Decay decay) {
  bool decays = decay != Decay::Constant;
  const struct {
    bool isGiven, isUsed;
    const char *name, *schedules;
  } rows[] = {
      {options.wsdPart.has_value(), decay == Decay::Wsd, "wsd-decay", "wsd"},
      {options.decaySteps.has_value(), decays, "decay-steps",
       "cosine, linear or wsd"},
      {options.minLearningRate.has_value(), decays, "min-lr",
       "cosine, linear or wsd"}};
  for (const auto &row : rows)
    if (row.isGiven && !row.isUsed)
      return std::string("'--") + row.name +
             "' has no effect with the schedule '" +
             std::string(decayName(decay)) +
             "': leave it out, or give --lr-schedule=" + row.schedules;
  return "";
}

/// Refuses what contradicts itself.
static bool checkOptions(const RunOptions &options, std::string &error) {
  if (options.isCalibration && !options.artifact.empty())
    error = "'--calibrate' measures the machine and takes no model, found " +
            quote(options.artifact);
  else if (!(error = findNeed(options.given)).empty() ||
           !(error = findBesideMode(options.given)).empty())
    return false;
  else if (options.isCalibration)
    return true;
  else if (!options.tune.empty() && !options.tuning.empty())
    error = "'--tune' writes what '--tuning' reads: tune first, then run";
  else if (options.artifact.empty())
    error = "expected a compiled model: kerf-run MODEL.kerf --data FILE";
  else if (!options.initFrom.empty() && !options.resume.empty() && !isRestart())
    error = "'--init-from' and '--resume' both give the weights: use one";
  else if (!options.initAdapter.empty() && !options.resume.empty() &&
           !isRestart())
    error = "'--init-adapter' and '--resume' both give the adapters: use one";
  else if (options.peerCopies > 1)
    error = "'--peer-copies' keeps one copy, found " +
            std::to_string(options.peerCopies);
  else if (!options.hostfile.empty() && options.transport == "shm")
    error = "'--hostfile' starts ranks on several machines, which "
            "'--transport=shm' does not connect: leave it out";
  else if (options.heldout && !options.heldoutData.empty())
    error = "'--heldout' and '--heldout-data' both choose the held-out data: "
            "use one";
  else if (options.exportEvery > 0 && !isModelFolder(options.saveWeights))
    error = "'--export-every' needs '--save-weights=FOLDER'";
  else if (!options.trace.empty() &&
           (options.trace == options.logJson || options.trace == options.plot ||
            options.trace == options.html ||
            isAmong(options.data, options.trace)))
    error = "'--trace' names a file that another option uses: " +
            quote(options.trace);
  else if (options.resume.empty()) // Else the saved schedule may count.
    error =
        findIdleScheduleOption(options, options.decay.value_or(Decay::Cosine));
  if (!error.empty())
    return false;
  if (options.lossScale.value_or(0) > 0 &&
      (options.initialLossScale || options.lossScaleInterval))
    error = std::string("'--") +
            (options.initialLossScale ? "initial-loss-scale"
                                      : "loss-scale-interval") +
            "' needs '--loss-scale=dynamic'";
  return error.empty() && checkWeights("data", options.data, error) &&
         checkWeights("heldout-data", options.heldoutData, error);
}

bool kerf::runtime::parseOptions(const std::vector<std::string> &arguments,
                                 RunOptions &options, std::string &error) {
  error.clear();
  options.arguments = arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (argument.size() < 2 || argument[0] != '-') {
      if (!options.artifact.empty()) {
        error = "expected one compiled model, found " +
                quote(options.artifact) + " and " + quote(argument);
        return false;
      }
      options.artifact = argument;
      continue;
    }
    size_t equals = argument.find('=');
    size_t start = argument[1] == '-' ? 2 : 1;
    std::string name = argument.substr(
        start, equals == std::string::npos ? equals : equals - start);
    const OptionRow *row = findRow(name == "h"   ? "help"
                                   : name == "o" ? "output"
                                                 : name);
    if (!row)
      return unknownOption(name, error);
    options.given.push_back(row->name);
    bool hasValue = equals != std::string::npos;
    if (!row->value && hasValue) {
      error = "option '--" + name + "' takes no value";
      return false;
    }
    if (row->value && !hasValue && i + 1 == arguments.size()) {
      error =
          "option '--" + name + "' needs a value: --" + name + "=" + row->value;
      return false;
    }
    std::string value = hasValue     ? argument.substr(equals + 1)
                        : row->value ? arguments[++i]
                                     : "";
    std::string expected;
    if (!row->set(options, value, expected)) {
      error = "option '--" + name + "': expected " + expected + ", found " +
              quote(value);
      return false;
    }
  }
  bool isSteps = std::find(options.given.begin(), options.given.end(),
                           "steps") != options.given.end();
  if (!options.sample.empty() && options.data.empty() && !isSteps)
    options.steps = 0;
  return options.isHelp || options.isVersion || options.isDoctor ||
         checkOptions(options, error);
}

//===----------------------------------------------------------------------===//
// Help
//===----------------------------------------------------------------------===//

/// `help` in lines of a width, behind a column that is filled already.
static std::string wrap(const char *help, size_t column, size_t width) {
  std::string result, line;
  std::string words = std::string(help) + " ";
  for (size_t at = 0; at < words.size();) {
    size_t space = words.find(' ', at);
    std::string word = words.substr(at, space - at);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      result += line + "\n" + std::string(column, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = space + 1;
  }
  return result + line + "\n";
}

std::string kerf::runtime::helpText() {
  constexpr size_t column = 24;
  std::string text =
      "kerf-run: trains a compiled model\n\n"
      "  kerf-run MODEL.kerf --data corpus.txt --steps 200\n"
      "  kerf-run MODEL.kerf --data tokens.bin --save-state state\n"
      "  kerf-run MODEL.kerf --data tokens.bin --resume state "
      "--save-state state\n\n"
      "Where the model is compiled for several ranks and the environment has "
      "no\n"
      "RANK, kerf-run starts all of them on this machine. On several "
      "machines:\n"
      "\n"
      "  mpirun -n RANKS kerf-run MODEL.kerf --data tokens.bin\n";
  for (const OptionRow &row : rows) {
    if (!row.set) {
      text += std::string("\n") + row.name + ":\n";
      continue;
    }
    std::string head = std::string("  --") + row.name;
    if (row.value)
      head += std::string("=") + row.value;
    head.resize(std::max(head.size() + 1, column), ' ');
    if (head.size() > column)
      head += "\n" + std::string(column, ' ');
    text += head + wrap(row.help, column, 80 - column);
  }
  return text +
         "\nExit status:\n"
         "  0       done\n"
         "  1       the input or the configuration is wrong, or the loss is "
         "no\n"
         "          number: the same run would fail again\n"
         "  >= 128  a fault of the machine, worth a retry; 128 + N: ended by\n"
         "          signal N (after SIGINT, SIGTERM and SIGHUP what\n"
         "          --save-state, --save-weights and --save-adapter ask for "
         "is\n"
         "          saved)\n";
}
