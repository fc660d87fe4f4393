//===- Setup.cpp - everything decided before the first step ---------------===//

#include "kerf/Train/Setup.h"

#include "kerf/Train/Json.h"
#include "kerf/Train/Launcher.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/Weights.h"
#include "kerf/Train/sample/Sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

using namespace kerf::runtime;

static bool fail(std::string &error, std::string message) {
  error = std::move(message);
  return false;
}

//===----------------------------------------------------------------------===//
// Inputs and outputs
//===----------------------------------------------------------------------===//

/// The port that an input of `role` fills; null for scalars and others.
static uint32_t *portOf(ModelPorts &ports, uint32_t role) {
  switch (role) {
  case KERF_ROLE_TOKENS:
    return &ports.tokens;
  case KERF_ROLE_TARGETS:
    return &ports.targets;
  case KERF_ROLE_SEGMENTS:
    return &ports.segments;
  case KERF_ROLE_POSITIONS:
    return &ports.positions;
  default:
    return nullptr;
  }
}

/// Checks one input and enters it into the ports.
static bool addInput(const kerf_artifact *artifact, uint32_t index,
                     ModelPorts &ports, std::string &error) {
  uint32_t count = 0;
  const kerf_input &input = kerf_artifact_inputs(artifact, &count)[index];
  const kerf_layout &layout = input.layout;
  std::string name = quote(kerf_artifact_string(artifact, input.name));
  if (input.role == KERF_ROLE_NONE)
    return fail(error, "input " + name +
                           " has no role: kerf-run fills tokens, targets, "
                           "segments, positions, seed, step, learning_rate and "
                           "loss_scale");
  ports.scalesLoss |= input.role == KERF_ROLE_LOSS_SCALE;
  uint32_t *port = portOf(ports, input.role);
  if (!port)
    return true;
  if (*port != KERF_NONE)
    return fail(error, "input " + name + " has the role of another input");
  std::vector<int64_t> shape(layout.global, layout.global + layout.rank);
  if (layout.dtype != KERF_I32 || layout.rank != 2 || shape[0] < 1 ||
      shape[1] < 1)
    return fail(error, "input " + name + " has the shape " +
                           formatShape(shape) +
                           ", expected [batch x sequence] of i32");
  if (ports.rows != 0 && (ports.rows != shape[0] || ports.sequence != shape[1]))
    return fail(error, "input " + name + " has the shape " +
                           formatShape(shape) + ", other inputs have " +
                           formatShape({ports.rows, ports.sequence}));
  *port = index;
  ports.rows = shape[0];
  ports.sequence = shape[1];
  return true;
}

bool kerf::runtime::findPorts(const kerf_artifact *artifact, ModelPorts &ports,
                              std::string &error) {
  uint32_t inputs = 0, outputs = 0;
  (void)kerf_artifact_inputs(artifact, &inputs);
  for (uint32_t i = 0; i < inputs; ++i)
    if (!addInput(artifact, i, ports, error))
      return false;
  if (ports.tokens == KERF_NONE || ports.targets == KERF_NONE)
    return fail(error, std::string("the model has no input of role '") +
                           (ports.tokens == KERF_NONE ? "tokens" : "targets") +
                           "': kerf-run trains language models");
  const kerf_output *table = kerf_artifact_outputs(artifact, &outputs);
  for (uint32_t i = 0; i < outputs; ++i) {
    std::string name = kerf_artifact_string(artifact, table[i].name);
    if (name == "loss")
      ports.loss = i;
    else if (name == "grad_norm")
      ports.gradNorm = i;
  }
  ports.experts = findExperts(artifact);
  if (ports.loss == KERF_NONE)
    return fail(error, "the model has no output 'loss'");
  return true;
}

kerf_status kerf::runtime::setInputs(kerf_session *session,
                                     const ModelPorts &ports,
                                     const Batch &batch, kerf_error &failure) {
  struct Port {
    uint32_t index;
    const std::vector<int32_t> &values;
  };
  for (const Port &port :
       {Port{ports.tokens, batch.tokens}, Port{ports.targets, batch.targets},
        Port{ports.segments, batch.segments},
        Port{ports.positions, batch.positions}}) {
    if (port.index == KERF_NONE)
      continue;
    kerf_status status = kerf_session_set_input_global(
        session, port.index, port.values.data(),
        port.values.size() * sizeof(int32_t), &failure);
    if (status != KERF_OK)
      return status;
  }
  return KERF_OK;
}

/// A scaled loss is mended by the norm of its gradients.
static bool checkScale(const ModelPorts &ports, std::string &error) {
  return !ports.scalesLoss || ports.gradNorm != KERF_NONE ||
         fail(error, "the model scales its loss and has no output 'grad_norm', "
                     "which tells whether gradients overflow");
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

/// Decides how often and on how many samples the run is evaluated.
static bool chooseEvaluation(const RunOptions &options, RunSetup &setup,
                             std::string &error) {
  if (!setup.data.heldout)
    return true;
  uint32_t count = 0;
  const kerf_program *program = kerf_artifact_programs(setup.artifact, &count);
  if (program->call_count <= program->train_calls)
    return fail(error, "the artifact has no evaluation program: compile the "
                       "model again, or leave the held-out options away");
  const Mixture &heldout = *setup.data.heldout;
  int64_t rows = setup.ports.rows;
  int64_t batches = std::min(options.evalBatches.value_or(8),
                             (heldout.samples() + rows - 1) / rows);
  setup.evalEvery = options.evalEvery.value_or(50);
  setup.evalSamples =
      countWithoutRepeat(heldout, setup.start.seed, batches * rows);
  return true;
}

static bool openData(const RunOptions &options, RunSetup &setup,
                     std::string &error) {
  if (options.data.empty() && !options.sample.empty() && options.steps == 0) {
    setup.documentEnd = setup.ports.separatesDocuments()
                            ? options.documentEnd.value_or(-1)
                            : -1;
    return true;
  }
  if (options.data.empty())
    return fail(error, "expected training data: --data=FILE");
  SourceOptions wanted;
  wanted.training = options.data;
  wanted.heldout = options.heldoutData;
  wanted.format = options.dataFormat;
  wanted.vocabulary = kerf_artifact_meta(setup.artifact)->vocabulary;
  wanted.sequence = setup.ports.sequence;
  if (options.wantsEvaluation())
    wanted.heldoutPart = options.heldout.value_or(0.05);
  if (setup.ports.separatesDocuments()) {
    wanted.documentEnd = options.documentEnd;
  } else {
    wanted.documentEnd = -1;
    if (options.documentEnd && *options.documentEnd >= 0)
      setup.notes.push_back("the model has no segments or positions: "
                            "--document-end separates nothing");
  }
  return openSources(wanted, setup.data, setup.documentEnd, error) &&
         scanSources(setup.data, setup.unigramEntropy, error);
}

//===----------------------------------------------------------------------===//
// Seed and schedule
//===----------------------------------------------------------------------===//

/// Options win over the saved state, the saved state over the defaults. A
/// constant rate has no end of decay: none is saved, none is gone on with.
static bool chooseSchedule(const RunOptions &options, RunSetup &setup,
                           std::string &error) {
  Schedule &schedule = setup.start.schedule;
  bool hasEnd = setup.saved && schedule.decay != Decay::Constant;
  if (!setup.saved)
    schedule.peak = 3e-4;
  schedule.decay = options.decay.value_or(schedule.decay);
  if (error = findIdleScheduleOption(options, schedule.decay); !error.empty())
    return false;
  schedule.peak = options.learningRate.value_or(schedule.peak);
  if (!hasEnd) {
    schedule.minimum = schedule.peak / 10;
    schedule.decaySteps = std::max<int64_t>(1, options.steps);
  }
  schedule.minimum = options.minLearningRate.value_or(schedule.minimum);
  schedule.decaySteps = options.decaySteps.value_or(schedule.decaySteps);
  if (!setup.saved)
    schedule.warmupSteps =
        std::min(options.steps / 20, schedule.decaySteps - 1);
  schedule.warmupSteps = options.warmupSteps.value_or(schedule.warmupSteps);
  schedule.wsdPart = options.wsdPart.value_or(schedule.wsdPart);
  if (schedule.decay == Decay::Constant) {
    schedule.minimum = schedule.peak;
    schedule.decaySteps = Schedule().decaySteps;
  }
  if (schedule.minimum > schedule.peak)
    return fail(error, format("'--min-lr' %g is above '--lr' %g",
                              schedule.minimum, schedule.peak));
  return true;
}

/// As chooseSchedule.
static bool chooseLossScale(const RunOptions &options, RunSetup &setup,
                            std::string &error) {
  std::optional<LossScale> &scale = setup.start.lossScale;
  if (!setup.ports.scalesLoss) {
    scale.reset();
    if (!options.lossScale && !options.initialLossScale &&
        !options.lossScaleInterval)
      return true;
    return fail(error, "the model takes no loss scale: compile it with 'kerfc "
                       "--precision=f16', or leave the option away");
  }
  if (!scale)
    scale.emplace();
  if (options.lossScale.value_or(0) > 0) {
    scale->factor = *options.lossScale;
    scale->interval = 0;
    return true;
  }
  bool makesDynamic = options.lossScale || options.initialLossScale;
  if (makesDynamic && !scale->isDynamic())
    scale->interval = LossScale().interval;
  scale->interval = options.lossScaleInterval.value_or(scale->interval);
  if (!isRestart())
    scale->factor = options.initialLossScale.value_or(scale->factor);
  return true;
}

static bool openState(const RunOptions &options, RunSetup &setup,
                      std::string &error) {
  setup.start.seed = options.seed.value_or(0);
  if (!options.resume.empty()) {
    if (!setup.saved.emplace().open(options.resume, error))
      return false;
    setup.start = setup.saved->state();
    if (options.seed && *options.seed != setup.start.seed)
      return fail(error, "'--seed' " + std::to_string(*options.seed) +
                             " is not that of the saved state, " +
                             std::to_string(setup.start.seed));
    bool isSameData = setup.data.files.empty() ||
                      setup.start.dataFingerprint == setup.data.fingerprint();
    if (!isSameData && isRestart())
      return fail(error, "the data is not what the job began with: it is not "
                         "started again by itself");
    if (!isSameData)
      setup.notes.push_back("the saved run had other data: it does not go on "
                            "where it was");
    if (setup.start.programHash !=
        kerf_artifact_meta(setup.artifact)->input_hash)
      setup.notes.push_back("the saved run had another program: losses may "
                            "differ from it in rounding");
  }
  if (!setup.data.files.empty())
    setup.start.dataFingerprint = setup.data.fingerprint();
  setup.start.programHash = kerf_artifact_meta(setup.artifact)->input_hash;
  return chooseSchedule(options, setup, error) &&
         chooseLossScale(options, setup, error);
}

/// Decides which steps are traced.
static bool chooseTrace(const RunOptions &options, RunSetup &setup,
                        std::string &error) {
  if (options.trace.empty())
    return true;
  int64_t next = setup.start.step + 1;
  if (options.traceFirst > 0) {
    setup.traceFirst = std::max(options.traceFirst, next);
    setup.traceLast = std::min(options.traceLast, options.steps);
  } else {
    // The first step touches memory for the first time.
    setup.traceFirst = std::min(next + 1, options.steps);
    setup.traceLast = std::min(setup.traceFirst + 2, options.steps);
  }
  bool hasStep =
      setup.traceFirst >= next && setup.traceFirst <= setup.traceLast;
  if (!hasStep && isRestart()) {
    setup.traceFirst = setup.traceLast = 0;
    setup.notes.push_back("the steps of '--trace' were made before the job was "
                          "started again");
  } else if (!hasStep)
    error = "'--trace' has no step to trace: this run makes " +
            (next > options.steps ? "none"
                                  : "steps " + std::to_string(next) + ".." +
                                        std::to_string(options.steps));
  return error.empty();
}

/// Files that are written when the run is over have a place.
static bool checkOutputs(const RunOptions &options, std::string &error) {
  for (const std::string &path : {options.trace, options.plot, options.html}) {
    if (path.empty())
      continue;
    if (isFolder(path))
      error = "cannot write " + quote(path) + ": it is a folder";
    else if (!isFolder(parentFolder(path)))
      error = "cannot write " + quote(path) + ": there is no folder " +
              quote(parentFolder(path));
    else if (path == options.trace && isSpecialFile(path))
      error = "cannot write " + quote(path) +
              ": '--trace' needs a file that it can make parts beside";
    if (!error.empty())
      return false;
  }
  return true;
}

static bool checkAdapter(const RunOptions &options,
                         const kerf_artifact *artifact, std::string &error) {
  bool isAsked = !options.initAdapter.empty() || !options.saveAdapter.empty();
  uint32_t config = kerf_artifact_meta(artifact)->adapter;
  if (!isAsked || *kerf_artifact_string(artifact, config))
    return true;
  error = std::string("'--") + (options.initAdapter.empty() ? "save" : "init") +
          "-adapter' needs a model with adapters: import it with "
          "'kerf-import --lora-rank=N'";
  return false;
}

/// Notes options that say nothing of this model: scripts serve several.
static void noteIdleOptions(const RunOptions &options, RunSetup &setup) {
  bool isAlone = kerf_artifact_meta(setup.artifact)->world_size == 1;
  bool trainsNothing = options.data.empty();
  const char *one = "the model is for one rank; leave it out";
  const char *nothing = "nothing is trained; give --data=FILE";
  const struct {
    const char *name;
    bool isIdle;
    const char *why;
  } rows[] = {
      {"transport", isAlone, one},
      {"hang-timeout", isAlone, one},
      {"max-restarts", isRankProcess() && !isOwnLaunch(),
       "another program started the ranks; start kerf-run alone, or with "
       "--transport=mpi"},
      {"lr", trainsNothing, nothing},
      {"lr-schedule", trainsNothing, nothing},
      {"warmup", trainsNothing, nothing},
      {"data-format", trainsNothing, nothing},
      {"heldout", trainsNothing, nothing},
      {"heldout-data", trainsNothing, nothing},
      {"eval-every", trainsNothing, nothing}};
  for (const auto &row : rows)
    if (row.isIdle && std::find(options.given.begin(), options.given.end(),
                                row.name) != options.given.end())
      setup.notes.push_back(std::string("'--") + row.name +
                            "' has no effect: " + row.why);
}

bool kerf::runtime::prepareRun(const RunOptions &options,
                               const kerf_artifact *artifact, RunSetup &setup,
                               std::string &error) {
  setup.artifact = artifact;
  noteIdleOptions(options, setup);
  return checkAdapter(options, artifact, error) &&
         findPorts(artifact, setup.ports, error) &&
         checkScale(setup.ports, error) && openData(options, setup, error) &&
         prepareSamples(options, setup, error) &&
         openState(options, setup, error) &&
         chooseEvaluation(options, setup, error) &&
         checkOutputs(options, error) && chooseTrace(options, setup, error);
}

//===----------------------------------------------------------------------===//
// Description
//===----------------------------------------------------------------------===//

static std::string describeTokens(const TokenFile &file, bool byIndex) {
  bool hasWidth = file.format() == DataFormat::LlmC ||
                  file.format() == DataFormat::Megatron;
  std::string text = quote(file.path()) + ", " + withCommas(file.size()) +
                     " tokens (" + std::string(dataFormatName(file.format()));
  if (hasWidth)
    text += ", " + std::to_string(8 * file.width()) + " bits";
  if (file.documents() >= 0)
    text += ", " + withCommas(file.documents()) + " documents" +
            (byIndex ? " kept apart" : "");
  if (!file.maskPath().empty())
    text += ", targets by " + quote(file.maskPath());
  return text + ", " + file.reason() + ")";
}

/// "70% of 'a.bin', ..." where there are several.
static std::string describeSource(const std::vector<TokenFile> &files,
                                  const Mixture &mixture, size_t i) {
  return (files.size() > 1 ? format("%.4g%% of ", 100 * mixture.share(i))
                           : "") +
         describeTokens(files[i], mixture.ranges[i].isByIndex());
}

/// How documents are kept apart.
static std::string describeDocuments(const RunSetup &setup) {
  const std::vector<SampleRange> &ranges = setup.data.training.ranges;
  auto indexed =
      std::count_if(ranges.begin(), ranges.end(),
                    [](const SampleRange &range) { return range.isByIndex(); });
  std::string text =
      setup.documentEnd < 0
          ? "not separated"
          : "end with token " + std::to_string(setup.documentEnd);
  if (indexed == 0)
    return text;
  bool isAll = indexed == static_cast<int64_t>(ranges.size());
  return "end where the index of the data says" +
         (isAll ? ""
                : "; those of files without one " +
                      (setup.documentEnd < 0 ? "are " + text : text));
}

/// Of `sequences` more sequences that a run shows.
static std::string describeEpochs(int64_t sequences, double share,
                                  const SampleRange &range) {
  return format("%.3g epochs", static_cast<double>(sequences) * share /
                                   static_cast<double>(range.samples()));
}

static std::string describeSchedule(const Schedule &schedule) {
  std::string text = std::string(decayName(schedule.decay)) +
                     format(", learning rate %g", schedule.peak);
  if (schedule.decay != Decay::Constant)
    text += format(" to %g at step ", schedule.minimum) +
            withCommas(schedule.decaySteps);
  return text + ", " + withCommas(schedule.warmupSteps) +
         (schedule.warmupSteps == 1 ? " step" : " steps") + " of warm-up";
}

static std::string describeStart(const RunOptions &options,
                                 const RunSetup &setup) {
  std::string seed = "seed " + std::to_string(setup.start.seed);
  if (setup.saved)
    return "from step " + withCommas(setup.start.step) + " saved in " +
           quote(setup.saved->path()) + ", " + seed;
  std::string adapter =
      options.initAdapter.empty()
          ? ""
          : "adapters of " + quote(options.initAdapter) + ", ";
  if (!options.initFrom.empty())
    return "weights of " + quote(options.initFrom) + ", " + adapter + seed;
  return "initial weights, " + adapter + seed;
}

static std::string describeHeldout(const RunSetup &setup) {
  const std::vector<TokenFile> &files = setup.data.heldoutFiles;
  const Mixture &heldout = *setup.data.heldout;
  std::string source;
  for (size_t i = 0; i < files.size(); ++i)
    source += (i ? "; " : "") + describeSource(files, heldout, i);
  int64_t tokens = 0;
  for (const SampleRange &range : heldout.ranges)
    tokens += range.tokens();
  if (files.empty())
    source =
        "the last " + withCommas(tokens) + " tokens" +
        (heldout.ranges.size() > 1 ? " in all, of each file its part" : "");
  std::string samples = withCommas(setup.evalSamples);
  if (heldout.ranges.size() == 1 && setup.evalSamples < heldout.samples())
    samples += " of " + withCommas(heldout.samples());
  return source + "; loss over " + samples + " samples every " +
         withCommas(setup.evalEvery) + " steps";
}

/// The largest arena, and those of all stages.
static std::string describeArena(const kerf_artifact *artifact) {
  uint32_t count = 0;
  const kerf_program *programs = kerf_artifact_programs(artifact, &count);
  const kerf_program *largest =
      std::max_element(programs, programs + count,
                       [](const kerf_program &a, const kerf_program &b) {
                         return a.arena_bytes < b.arena_bytes;
                       });
  std::string text = formatBytes(largest->arena_bytes) + " per rank";
  if (count > 1)
    text += " of stage " + std::to_string(largest - programs) + ", the largest";
  text += " (lower bound " + formatBytes(largest->lower_bound_bytes) + ")";
  for (uint32_t p = 0; count > 1 && p < count; ++p)
    text += (p ? ", " : "; stages: ") + formatBytes(programs[p].arena_bytes);
  return text;
}

/// Bytes that the planner expected a rank to need besides its arena; 0:
/// unknown.
static uint64_t plannedReserve(const kerf_artifact *artifact) {
  uint64_t bytes = 0;
  const char *text = kerf_artifact_plan(artifact, &bytes);
  JsonValue plan;
  std::string error;
  if (bytes == 0 || !parseJson({text, bytes}, plan, error))
    return 0;
  const JsonValue *reserve = plan.find("reserve_bytes");
  return reserve && reserve->isInteger && reserve->integer > 0
             ? static_cast<uint64_t>(reserve->integer)
             : 0;
}

std::string kerf::runtime::describeReserve(const kerf_artifact *artifact,
                                           const kerf_memory &memory) {
  if (!memory.device_total)
    return "";
  uint64_t used = memory.device_total - memory.device_free;
  std::string text = "besides the arena " +
                     formatBytes(used - std::min(used, memory.arena)) +
                     " are in use";
  if (memory.device_free_at_start)
    text += " (" +
            formatBytes(memory.device_total - memory.device_free_at_start) +
            " before anything was loaded)";
  if (uint64_t planned = plannedReserve(artifact))
    text += ", " + formatBytes(planned) + " were planned";
  return text;
}

std::string kerf::runtime::describeMemory(const kerf_artifact *artifact,
                                          const kerf_memory &memory) {
  if (!memory.device_total)
    return "";
  return "with this arena " + formatBytes(memory.device_free) +
         " of the device's " + formatBytes(memory.device_total) +
         " are free; " + describeReserve(artifact, memory) +
         (memory.bounce_buffers
              ? "; exchanges through " + formatBytes(memory.bounce_buffers) +
                    " of the host"
              : "");
}

std::vector<std::string> kerf::runtime::describeProfile(kerf_session *session) {
  kerf_profile_entry entry;
  double total = 0;
  for (uint32_t i = 0; kerf_session_profile(session, i, &entry); ++i)
    total += entry.seconds;
  std::vector<std::string> lines = {" time by command:"};
  for (uint32_t i = 0; kerf_session_profile(session, i, &entry); ++i)
    lines.push_back(format("  %6.2f %%  %10.1f ms  %8llu calls  ",
                           100 * entry.seconds / std::max(total, 1e-12),
                           1e3 * entry.seconds,
                           static_cast<unsigned long long>(entry.calls)) +
                    entry.name);
  return lines;
}

/// What is trained on, how long and how fast, as names and texts.
static void describeTraining(
    const RunOptions &options, const RunSetup &setup,
    const std::function<void(const char *, const std::string &)> &add) {
  const kerf_meta *meta = kerf_artifact_meta(setup.artifact);
  const Mixture &mixture = setup.data.training;
  bool isMixed = mixture.ranges.size() > 1;
  int64_t rows = setup.ports.rows;
  int64_t steps = std::max<int64_t>(0, options.steps - setup.start.step);
  for (size_t i = 0; i < mixture.ranges.size(); ++i)
    add("data",
        describeSource(setup.data.files, mixture, i) +
            (isMixed ? "; " + describeEpochs(steps * rows, mixture.share(i),
                                             mixture.ranges[i])
                     : ""));
  add("samples",
      withCommas(mixture.samples()) + " of " +
          withCommas(setup.ports.sequence) + " tokens; " + withCommas(rows) +
          " per step in " + std::to_string(meta->micro_batches) +
          (meta->micro_batches == 1 ? " micro-batch; " : " micro-batches; ") +
          withCommas(steps) + " steps" +
          (isMixed ? ""
                   : " are " + describeEpochs(steps * rows, 1,
                                              mixture.ranges.front())));
  if (setup.ports.separatesDocuments())
    add("documents", describeDocuments(setup));
  add("entropy", format("%.4f nats per token (unigram): the loss to beat",
                        setup.unigramEntropy));
  if (setup.data.heldout)
    add("held-out", describeHeldout(setup));
  add("schedule", describeSchedule(setup.start.schedule));
}

std::vector<std::string> kerf::runtime::describeSetup(const RunOptions &options,
                                                      const RunSetup &setup) {
  const kerf_meta *meta = kerf_artifact_meta(setup.artifact);
  auto string = [&](uint32_t offset) {
    return std::string(kerf_artifact_string(setup.artifact, offset));
  };
  std::vector<std::string> lines;
  auto add = [&](const char *name, const std::string &text) {
    lines.push_back(format("  %-12s", name) + text);
  };
  add("model",
      string(meta->model) + ", " + withCommas(countParameters(setup.artifact)) +
          " parameters, for " + string(meta->target) + " " + string(meta->cpu) +
          " on " + std::to_string(meta->world_size) +
          (meta->world_size == 1 ? " rank" : " ranks"));
  add("arena", describeArena(setup.artifact));
  if (!setup.data.files.empty())
    describeTraining(options, setup, add);
  if (setup.start.lossScale)
    add("loss scale", setup.start.lossScale->describe());
  add("start", describeStart(options, setup));
  for (const std::string &note : setup.notes)
    add("note", note);
  return lines;
}

/// "[a, b]" of what `print` makes of each.
template <typename Range, typename Print>
static std::string jsonList(const Range &range, Print print) {
  std::string text;
  for (size_t i = 0; i < range.size(); ++i)
    text += (i ? ", " : "") + print(i);
  return "[" + text + "]";
}

std::string kerf::runtime::describeSetupJson(const RunOptions &options,
                                             const RunSetup &setup) {
  const kerf_meta *meta = kerf_artifact_meta(setup.artifact);
  auto number = [](int64_t value) { return std::to_string(value); };
  auto string = [&](uint32_t offset) {
    return jsonQuote(kerf_artifact_string(setup.artifact, offset));
  };
  std::string data = jsonList(setup.data.files, [&](size_t i) {
    const TokenFile &file = setup.data.files[i];
    return "{\"path\": " + jsonQuote(file.path()) +
           ", \"tokens\": " + number(file.size()) +
           format(", \"share\": %.9g}", setup.data.training.share(i));
  });
  std::string arguments = jsonList(options.arguments, [&](size_t i) {
    return jsonQuote(options.arguments[i]);
  });
  return "{\"run\": {\"began\": " + jsonQuote(utcNow()) +
         ", \"version\": " + jsonQuote(KERF_VERSION) +
         ", \"arguments\": " + arguments +
         ", \"model\": " + string(meta->model) + ", \"program\": " +
         jsonQuote(format("%016llx",
                          static_cast<unsigned long long>(meta->input_hash))) +
         ", \"target\": " + string(meta->target) +
         ", \"ranks\": " + number(meta->world_size) +
         ", \"samples_per_step\": " + number(setup.ports.rows) +
         ", \"tokens_per_sample\": " + number(setup.ports.sequence) +
         ", \"seed\": " + number(setup.start.seed) +
         ", \"from_step\": " + number(setup.start.step) +
         ", \"steps\": " + number(options.steps) + ", \"data\": " + data + "}}";
}
