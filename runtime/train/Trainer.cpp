//===- Trainer.cpp - the loop over steps ----------------------------------===//

#include "kerf/Train/Trainer.h"

#include "kerf/Train/Launcher.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/Permutation.h"
#include "kerf/Train/Plot.h"
#include "kerf/Train/Signals.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/Weights.h"

#include <algorithm>
#include <cmath>

using namespace kerf::runtime;

namespace {
/// One rank's run. Functions return false after `fail`, which keeps the first
/// message and exit status.
class Trainer {
public:
  Trainer(const RunOptions &options, const RunSetup &setup)
      : options(options), setup(setup), ports(setup.ports),
        meta(*kerf_artifact_meta(setup.artifact)), state(setup.start),
        batch(ports.rows, ports.sequence) {}
  ~Trainer() { kerf_session_destroy(session); }
  Trainer(const Trainer &) = delete;

  int run(std::string &message);

private:
  bool openSession();
  bool openLog();
  bool setWeights();
  bool describeStart();
  bool loop();
  bool step();
  bool runStep(StepRecord &record);
  bool evaluate();
  bool agreeToStop();
  bool save();
  bool finishRun();
  bool writePlot();
  void printProfile();

  bool setInputs();
  bool output(uint32_t index, double &value);
  bool fail(int code, const std::string &message);
  bool failLocally(const std::string &message);
  bool check(kerf_status code);

  const RunOptions &options;
  const RunSetup &setup;
  const ModelPorts &ports;
  const kerf_meta &meta;
  RunState state;
  Batch batch;
  kerf_session *session = nullptr;
  std::optional<Log> log;
  LossPlot plot;
  int64_t savedStep = -1;
  int stop = 0;
  kerf_error failure{};
  int status = 0;
  std::string error;
};
} // namespace

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

bool Trainer::fail(int code, const std::string &message) {
  if (status == 0) {
    status = code;
    error = message;
  }
  return false;
}

/// An error that other ranks cannot see: they are told.
bool Trainer::failLocally(const std::string &message) {
  if (session && meta.world_size > 1)
    kerf_session_abort(session, message.c_str());
  return fail(1, message);
}

bool Trainer::check(kerf_status code) {
  return code == KERF_OK || fail(kerf_exit_code(code), failure.message);
}

//===----------------------------------------------------------------------===//
// Start
//===----------------------------------------------------------------------===//

bool Trainer::openSession() {
  kerf_session_options wanted;
  kerf_session_options_init(&wanted);
  wanted.workers = static_cast<int32_t>(
      options.threads > 0 ? std::min<int64_t>(options.threads, INT32_MAX)
      : meta.world_size > 1
          ? std::min<int64_t>(defaultThreads(meta.world_size), meta.max_workers)
          : 0);
  if (!options.device.empty())
    wanted.device = options.device.c_str();
  if (!options.pluginPath.empty())
    wanted.plugin_path = options.pluginPath.c_str();
  wanted.check_nans = options.checkNans;
  wanted.profile = options.isProfiled;
  return check(
      kerf_session_create(setup.artifact, &wanted, &session, &failure));
}

bool Trainer::openLog() {
  log.emplace(/*isSilent=*/kerf_session_rank(session) != 0);
  std::string message;
  return options.logJson.empty() ||
         log->openJson(options.logJson, setup.saved.has_value(), message) ||
         failLocally(message);
}

bool Trainer::describeStart() {
  for (const std::string &line : describeSetup(options, setup))
    log->line(line);
  log->line(std::string("  device      ") + kerf_session_describe(session) +
            (meta.world_size > 1 ? " per rank" : ""));
  return true;
}

bool Trainer::setWeights() {
  std::string message;
  if (setup.saved)
    return setup.saved->restore(session, setup.artifact, message) ||
           failLocally(message);
  if (!check(kerf_session_initialize(session, state.seed, &failure)))
    return false;
  if (options.initFrom.empty())
    return true;
  std::vector<std::string> notes, errors;
  bool isLoaded =
      loadWeights(session, setup.artifact, options.initFrom, notes, errors);
  for (const std::string &note : notes)
    log->line("  note        " + note);
  if (isLoaded)
    return true;
  constexpr size_t shown = 8;
  message = "cannot start from " + quote(options.initFrom) + ":";
  for (size_t i = 0; i < std::min(errors.size(), shown); ++i)
    message += (errors.size() == 1 ? " " : "\n  ") + errors[i];
  if (errors.size() > shown)
    message += "\n  and " + std::to_string(errors.size() - shown) + " more";
  return failLocally(message);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

bool Trainer::setInputs() {
  struct Port {
    uint32_t index;
    const std::vector<int32_t> &values;
  };
  for (const Port &port :
       {Port{ports.tokens, batch.tokens}, Port{ports.targets, batch.targets},
        Port{ports.segments, batch.segments},
        Port{ports.positions, batch.positions}})
    if (port.index != KERF_NONE &&
        !check(kerf_session_set_input_global(
            session, port.index, port.values.data(),
            port.values.size() * sizeof(int32_t), &failure)))
      return false;
  return true;
}

bool Trainer::output(uint32_t index, double &value) {
  return check(kerf_session_get_output(session, index, &value, &failure));
}

/// Runs step `state.step` and fills the record.
bool Trainer::runStep(StepRecord &record) {
  double start = now();
  std::string message;
  int64_t first = state.consumedSamples;
  for (int64_t row = 0; row < ports.rows; ++row) {
    int64_t sample =
        shuffledSample(setup.samples->samples(), state.seed, first + row);
    if (!setup.samples->fill(sample, batch, row, message))
      return failLocally(message);
  }
  state.consumedSamples += ports.rows;
  record.learningRate = state.schedule.at(state.step);
  auto scalar = [&](kerf_role role, double value) {
    return check(kerf_session_set_scalar(session, role, value, &failure));
  };
  if (!setInputs() ||
      !scalar(KERF_ROLE_SEED, static_cast<double>(state.seed)) ||
      !scalar(KERF_ROLE_STEP, static_cast<double>(state.step)) ||
      !scalar(KERF_ROLE_LEARNING_RATE, record.learningRate))
    return false;
  if (kerf_status code = kerf_session_run_step(session, &failure))
    return fail(kerf_exit_code(code),
                "step " + std::to_string(state.step) + ": " + failure.message);
  if (!output(ports.loss, record.loss))
    return false;
  double norm = 0;
  if (ports.gradNorm != KERF_NONE) {
    if (!output(ports.gradNorm, norm))
      return false;
    record.gradNorm = norm;
  }
  double seconds = std::max(now() - start, 1e-9), devices = meta.world_size;
  record.step = state.step;
  record.steps = options.steps;
  record.consumedSamples = state.consumedSamples;
  record.elapsedMs = seconds * 1e3;
  record.tokensPerSecond =
      static_cast<double>(ports.rows * ports.sequence) / seconds / devices;
  record.tflops = meta.matmul_flops / seconds / devices * 1e-12;
  if (options.peakTflops > 0)
    record.mfu =
        meta.model_flops / seconds / devices * 1e-12 / options.peakTflops;
  record.peakMemoryMb = peakMemoryMb();
  return true;
}

bool Trainer::step() {
  ++state.step;
  StepRecord record;
  if (!runStep(record))
    return false;
  log->step(record,
            state.step % options.logEvery == 0 || state.step == options.steps);
  plot.train.push_back({static_cast<double>(state.step), record.loss});
  if (!std::isfinite(record.loss)) {
    std::string next = options.checkNans
                           ? ""
                           : "; --check-nans names the op that went bad first";
    return fail(1, "the loss of step " + std::to_string(state.step) + " is " +
                       format("%g", record.loss) + next);
  }
  return true;
}

/// Loss over the first held-out samples, always the same ones.
bool Trainer::evaluate() {
  const SampleRange &heldout = *setup.heldout;
  double sum = 0, targets = 0;
  int64_t next = 0;
  std::string message;
  for (int64_t b = 0; b < setup.evalBatches; ++b) {
    for (int64_t row = 0; row < ports.rows; ++row)
      if (next >= heldout.samples())
        SampleRange::fillIgnored(batch, row);
      else if (!heldout.fill(next++, batch, row, message))
        return failLocally(message);
    double loss = 0;
    if (!setInputs() ||
        !check(kerf_session_run_evaluation(session, &failure)) ||
        !output(ports.loss, loss))
      return false;
    auto weight = static_cast<double>(batch.validTargets());
    sum += weight > 0 ? loss * weight : 0;
    targets += weight;
  }
  HeldoutRecord record{state.step, options.steps, next,
                       targets > 0 ? sum / targets : 0};
  log->heldout(record);
  plot.heldout.push_back({static_cast<double>(state.step), record.loss});
  return true;
}

/// All ranks stop after the same step.
bool Trainer::agreeToStop() {
  int32_t signal = stopSignal();
  if (meta.world_size > 1 &&
      !check(kerf_session_agree_max(session, &signal, &failure)))
    return false;
  stop = signal;
  return true;
}

bool Trainer::save() {
  if (options.saveState.empty() || savedStep == state.step)
    return true;
  std::string message;
  if (!saveState(session, setup.artifact, options.saveState, state, message))
    return failLocally("the state was not saved: " + message);
  savedStep = state.step;
  log->line(" saved the state of step " + std::to_string(state.step) + " in " +
            quote(options.saveState));
  // No rank may leave while the first one still writes.
  return check(kerf_session_barrier(session, &failure));
}

bool Trainer::loop() {
  int64_t last = options.steps;
  if (state.step >= last)
    log->line(" nothing to train: " + std::to_string(state.step) +
              " steps are done, --steps is " + std::to_string(last));
  if (setup.heldout && state.step == 0 && !evaluate())
    return false;
  while (state.step < last && !stop) {
    if (!step())
      return false;
    bool isLast = state.step == last;
    if (setup.heldout && (isLast || state.step % setup.evalEvery == 0) &&
        !evaluate())
      return false;
    bool isDue = options.saveEvery > 0 && state.step % options.saveEvery == 0;
    if (!agreeToStop() || ((isDue || isLast || stop) && !save()))
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// End
//===----------------------------------------------------------------------===//

bool Trainer::writePlot() {
  if (options.plot.empty() || kerf_session_rank(session) != 0)
    return true;
  plot.title = std::string(kerf_artifact_string(setup.artifact, meta.model)) +
               ": " + withCommas(state.step) + " steps of " +
               withCommas(ports.rows * ports.sequence) + " tokens";
  plot.unigramEntropy = setup.unigramEntropy;
  std::string message;
  if (!writeFile(options.plot, renderLossPlot(plot), message))
    return failLocally(message);
  log->line(" wrote " + quote(options.plot));
  return true;
}

void Trainer::printProfile() {
  kerf_profile_entry entry;
  double total = 0;
  for (uint32_t i = 0; kerf_session_profile(session, i, &entry); ++i)
    total += entry.seconds;
  log->line(" time by command:");
  for (uint32_t i = 0; kerf_session_profile(session, i, &entry); ++i)
    log->line(format("  %6.2f %%  %10.1f ms  %8llu calls  ",
                     100 * entry.seconds / std::max(total, 1e-12),
                     1e3 * entry.seconds,
                     static_cast<unsigned long long>(entry.calls)) +
              entry.name);
}

bool Trainer::finishRun() {
  if (options.isProfiled)
    printProfile();
  if (!writePlot())
    return false;
  if (!options.saveWeights.empty() && !stop) {
    std::vector<std::string> written;
    std::string message;
    auto shardBytes =
        static_cast<uint64_t>(std::min(options.shardMegabytes * 1e6, 1e18));
    if (!saveWeights(session, setup.artifact, options.saveWeights, shardBytes,
                     written, message))
      return failLocally("the weights were not saved: " + message);
    for (const std::string &path : written)
      log->line(" wrote " + quote(path));
  }
  return check(kerf_session_barrier(session, &failure));
}

int Trainer::run(std::string &message) {
  bool isDone = openSession() && openLog() && describeStart() && setWeights() &&
                loop() && finishRun();
  // A failed run still shows how it went; its own error comes first.
  if (!isDone && log && plot.train.size() > 1)
    (void)writePlot();
  if (log)
    log->finish();
  message = error;
  if (isDone && stop)
    return 128 + stop;
  return status;
}

int kerf::runtime::train(const RunOptions &options, const RunSetup &setup,
                         std::string &error) {
  return Trainer(options, setup).run(error);
}
