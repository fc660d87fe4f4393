//===- Trainer.cpp - the loop over steps ----------------------------------===//

#include "kerf/Train/Trainer.h"

#include "kerf/Train/Faults.h"
#include "kerf/Train/Feeder.h"
#include "kerf/Train/Files.h"
#include "kerf/Train/Launcher.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/ModelFolder.h"
#include "kerf/Train/RunPage.h"
#include "kerf/Train/Signals.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/Trace.h"
#include "kerf/Train/Tuning.h"
#include "kerf/Train/Weights.h"
#include "kerf/Train/job/Evaluation.h"
#include "kerf/Train/job/RankTimes.h"
#include "kerf/Train/job/Saves.h"
#include "kerf/Train/sample/Sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

using namespace kerf::runtime;

namespace {
/// One rank's run. Functions return false after `fail`, which keeps the first
/// message and exit status.
class Trainer {
public:
  Trainer(const RunOptions &options, const RunSetup &setup)
      : options(options), setup(setup), ports(setup.ports),
        meta(*kerf_artifact_meta(setup.artifact)), state(setup.start),
        feeder(setup.data.training, state.seed, ports.rows, ports.sequence) {}
  ~Trainer() {
    saves.reset();
    kerf_session_destroy(session);
  }
  Trainer(const Trainer &) = delete;

  int run(std::string &message);

private:
  bool openSession();
  bool openLog();
  bool tryTargets();
  bool setWeights();
  bool restore();
  bool failCopy(const std::string &message);
  using Loader = decltype(loadWeights);
  bool loadFrom(const std::string &path, Loader *load);
  bool describeStart();
  bool loop();
  /// Has the step a line in the log?
  bool isTold(int64_t number) const {
    return number % options.logEvery == 0 || number == options.steps;
  }
  bool step();
  void tell(FaultKind kind);
  bool waitFor(bool (Trainer::*save)());
  bool findRows();
  const Batch *nextBatch();
  bool runStep(StepRecord &record);
  bool runSession();
  void noteLossScale(StepRecord &record);
  bool checkLoss(const StepRecord &record);
  void describeStep(StepRecord &record, double seconds) const;
  bool gatherWaits(StepRecord &record);
  bool isTraced() const;
  bool openTrace();
  void keepTrace();
  bool finishTrace();
  void rescueTrace();
  bool evaluate();
  bool agreeToStop();
  bool save();
  bool keep();
  bool completeSave();
  bool pollSave();
  bool failSave(const std::string &text, const std::string &message);
  bool finishRun();
  bool saveAll();
  bool exportWeights(const std::string &path);
  bool takeSamplerWeights();
  bool sample();
  void tellWritten(const std::vector<std::string> &written);
  bool writePictures();
  bool write(const std::string &path, const std::function<std::string()> &text);
  std::string renderPage();

  bool setInputs(const Batch &batch);
  bool output(uint32_t index, double &value);
  bool fail(int code, const std::string &message);
  bool failLocally(const std::string &message);
  bool check(kerf_status code, const std::string &where = "");

  const RunOptions &options;
  const RunSetup &setup;
  const ModelPorts &ports;
  const kerf_meta &meta;
  RunState state;
  Feeder feeder;
  kerf_session *session = nullptr;
  std::optional<Log> log;
  RunPage page;
  std::optional<TracePart> trace;
  std::optional<Saves> saves;     ///< where states are saved
  std::optional<Sampler> sampler; ///< on the first rank, where asked for
  TuningFile tuned;
  StepTimes times;
  RankTimes ranks;
  double savingSec = 0; ///< since the launcher was told something
  int stop = 0;
  kerf_error failure{};
  FaultKind fault = FaultKind::None; ///< why the run failed
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
    if (fault == FaultKind::None)
      fault = code < 128 ? FaultKind::Refused : FaultKind::Failed;
  }
  return false;
}

/// An error that other ranks cannot see: they are told. A run that was asked to
/// end has the status of that, whatever could not be kept.
bool Trainer::failLocally(const std::string &message) {
  if (session && meta.world_size > 1)
    kerf_session_abort(session, message.c_str());
  return fail(stop ? 128 + stop : 1, message);
}

bool Trainer::check(kerf_status code, const std::string &where) {
  // A rank that lost another one adds nothing to what that one and the launcher
  // say.
  bool isSilent = code == KERF_PEER_LOST && std::getenv("KERF_LAUNCHED");
  if (status == 0 && (code == KERF_PEER_LOST || code == KERF_STALLED))
    fault = code == KERF_STALLED ? FaultKind::Stalled : FaultKind::PeerLost;
  std::string message = isSilent ? "" : where + failure.message;
  if (code == KERF_NOT_FINITE && state.lossScale)
    message += "; without --check-nans a dynamic loss scale skips such a step";
  return code == KERF_OK || fail(kerf_exit_code(code), message);
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
  if (!options.transport.empty())
    wanted.transport = options.transport.c_str();
  wanted.stall_timeout_sec = options.hangSec > 0 ? options.hangSec : -1;
  wanted.check_nans = options.checkNans;
  wanted.profile = options.isProfiled;
  kerf_tuning tuning;
  if (!options.tuning.empty()) {
    std::string message;
    if (!tuned.read(options.tuning, message))
      return failLocally(message);
    tuning = tuned.view();
    wanted.tuning = &tuning;
  }
  if (!check(kerf_session_create(setup.artifact, &wanted, &session, &failure)))
    return false;
  catchSignals();
  return true;
}

bool Trainer::openLog() {
  log.emplace(/*isSilent=*/kerf_session_rank(session) != 0);
  std::string message;
  bool isResumed = setup.saved.has_value();
  bool isOpen = (options.logJson.empty() ||
                 log->openJson(options.logJson, isResumed, message)) &&
                (options.tensorboard.empty() ||
                 log->openEvents(options.tensorboard,
                                 isResumed ? state.step + 1 : 0, message));
  return isOpen || failLocally(message);
}

bool Trainer::describeStart() {
  log->begin(describeSetup(options, setup), describeSetupJson(options, setup));
  log->line(std::string("  device      ") + kerf_session_describe(session) +
            (meta.world_size > 1 ? " per rank" : ""));
  kerf_memory memory;
  kerf_session_memory(session, &memory);
  if (memory.device_total)
    log->line("  memory      " + describeMemory(setup.artifact, memory));
  return true;
}

/// A run that cannot keep what it makes ends before its first step.
bool Trainer::tryTargets() {
  std::string message;
  if (!options.saveState.empty()) {
    if (!saves.emplace(options, setup, session, *log).open(message))
      return failSave("the state cannot be saved: ", message);
  }
  bool isFirst = kerf_session_rank(session) == 0;
  bool goesOn = setup.saved && setup.saved->isIn(options.saveState);
  std::string why = isFirst && !goesOn ? refuseStates(options.saveState) : "";
  if (!why.empty())
    return failLocally(why);
  if (saves && !saves->openCopies(message))
    return failSave("no copies can be kept: ", message);
  if (!isFirst)
    return true;
  for (const std::string &path : {options.saveWeights, options.saveAdapter})
    if (!path.empty() && !tryWeights(path, message))
      return failLocally("the weights cannot be saved: " + message);
  return options.sample.empty() ||
         sampler.emplace(options, setup).open(message) ||
         failLocally("nothing can be sampled: " + message);
}

bool Trainer::setWeights() {
  if (setup.saved)
    return restore();
  if (!check(kerf_session_initialize(session, state.seed, &failure)))
    return false;
  return loadFrom(options.initFrom, loadWeights) &&
         loadFrom(options.initAdapter, loadAdapter);
}

/// Sets what was saved, and says what was read for it.
bool Trainer::restore() {
  std::string message;
  LoadTimes own;
  const StateReader *copy = setup.saved->copy();
  if (copy && !fetchCopy(session, setup.artifact, *copy, setup.saved->path(),
                         failure, message))
    return failCopy(message);
  if (!setup.saved->restore(session, setup.artifact, own, message))
    return failLocally(message);
  std::array<double, 3> numbers = {static_cast<double>(own.needed),
                                   static_cast<double>(own.read), own.seconds};
  std::vector<std::array<double, 3>> all(meta.world_size, numbers);
  if (meta.world_size > 1 &&
      !check(kerf_session_gather(session, numbers.data(), numbers.size(),
                                 all.data()->data(), &failure)))
    return false;
  LoadRecord record = summarizeLoads(all);
  record.path = setup.saved->path();
  log->load(record);
  return true;
}

/// A state that was in the memory of lost machines is no reason not to start
/// again, from the one before it.
bool Trainer::failCopy(const std::string &message) {
  if (failure.status != KERF_OK)
    return check(failure.status);
  if (!message.empty())
    kerf_session_abort(session, message.c_str());
  return fail(kerf_exit_code(KERF_PEER_LOST), message);
}

/// Sets weights from a file or folder, if one is named.
bool Trainer::loadFrom(const std::string &path, Loader *load) {
  if (path.empty())
    return true;
  std::vector<std::string> notes, errors;
  bool isLoaded = load(session, setup.artifact, path, notes, errors);
  for (const std::string &note : notes)
    log->line("  note        " + note);
  // What several ranks find is told by the first of them.
  const int32_t place =
      isLoaded ? 0 : meta.world_size - kerf_session_rank(session);
  int32_t teller = place;
  if (meta.world_size > 1 &&
      !check(kerf_session_agree_max(session, &teller, &failure)))
    return false;
  if (teller == 0)
    return true;
  return teller != place ? fail(1, "")
                         : failLocally("cannot start from " + quote(path) +
                                       ":" + listErrors(errors));
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

bool Trainer::setInputs(const Batch &batch) {
  return check(kerf::runtime::setInputs(session, ports, batch, failure));
}

bool Trainer::output(uint32_t index, double &value) {
  return check(kerf_session_get_output(session, index, &value, &failure));
}

/// Which rows of a batch this rank has a part of.
bool Trainer::findRows() {
  std::vector<uint8_t> marks(static_cast<size_t>(ports.rows), 0);
  for (uint32_t port :
       {ports.tokens, ports.targets, ports.segments, ports.positions})
    if (port != KERF_NONE &&
        !check(kerf_session_input_rows(session, port, marks.data(),
                                       marks.size(), &failure)))
      return false;
  feeder.keepRows(std::move(marks));
  return true;
}

/// The batch of the step; the next one is made while it runs.
const Batch *Trainer::nextBatch() {
  std::string message;
  const Batch *batch =
      feeder.next(state.consumedSamples, state.step == options.steps, message);
  if (!batch)
    failLocally(message);
  state.consumedSamples += ports.rows;
  return batch;
}

bool Trainer::isTraced() const {
  return trace && state.step >= setup.traceFirst;
}

/// Runs the session; what is traced of a step that fails is kept, too.
bool Trainer::runSession() {
  if (isTraced() && state.step == setup.traceFirst &&
      !check(kerf_session_trace(session, true, &failure)))
    return false;
  times.step = state.step;
  times.runStart = now();
  kerf_status result = kerf_session_run_step(session, &failure);
  times.runEnd = now();
  if (check(result, "step " + std::to_string(state.step) + ": "))
    return true;
  keepTrace();
  return false;
}

void Trainer::keepTrace() {
  if (isTraced())
    trace->append(times);
}

void Trainer::describeStep(StepRecord &record, double seconds) const {
  double devices = meta.world_size;
  record.step = state.step;
  record.steps = options.steps;
  record.ranks = meta.world_size;
  record.consumedSamples = state.consumedSamples;
  record.elapsedMs = seconds * 1e3;
  record.tokensPerSecond =
      static_cast<double>(ports.rows * ports.sequence) / seconds / devices;
  record.tflops = meta.matmul_flops / seconds / devices * 1e-12;
  if (options.peakTflops > 0 && meta.model_flops > 0)
    record.mfu =
        meta.model_flops / seconds / devices * 1e-12 / options.peakTflops;
  record.peakMemoryMb = peakMemoryMb();
}

/// All ranks have the same norm, and so the same factor.
void Trainer::noteLossScale(StepRecord &record) {
  if (!state.lossScale)
    return;
  record.lossScale = state.lossScale->factor;
  record.isSkipped = !state.lossScale->note(*record.gradNorm, record.loss);
  record.skippedSteps = state.lossScale->skippedSteps;
}

/// Runs step `state.step` and fills the record.
bool Trainer::runStep(StepRecord &record) {
  times.dataStart = now();
  record.learningRate = state.schedule.at(state.step);
  auto scalar = [&](kerf_role role, double value) {
    return check(kerf_session_set_scalar(session, role, value, &failure));
  };
  const Batch *batch = nextBatch();
  if (!batch || !setInputs(*batch) ||
      !scalar(KERF_ROLE_SEED, static_cast<double>(state.seed)) ||
      !scalar(KERF_ROLE_STEP, static_cast<double>(state.updates())) ||
      !scalar(KERF_ROLE_LEARNING_RATE, record.learningRate))
    return false;
  if (state.lossScale && !scalar(KERF_ROLE_LOSS_SCALE, state.lossScale->factor))
    return false;
  ranks.begin(session);
  if (!runSession() || !output(ports.loss, record.loss))
    return false;
  double norm = 0;
  if (ports.gradNorm != KERF_NONE) {
    if (!output(ports.gradNorm, norm))
      return false;
    record.gradNorm = norm;
  }
  if (kerf_session_rank(session) == 0 &&
      !check(readExperts(session, setup.artifact, ports.experts, record.experts,
                         &failure)))
    return false;
  noteLossScale(record);
  describeStep(record, std::max(now() - times.dataStart, 1e-9));
  // Not a part of the step that is told.
  keepTrace();
  return gatherWaits(record);
}

/// Collects where the ranks waited, of steps that are told, and now and then of
/// others; ranks and links that are slow are named.
bool Trainer::gatherWaits(StepRecord &record) {
  constexpr int64_t often = 10;
  ranks.end(session, times);
  bool isTold = this->isTold(state.step) || !options.logJson.empty() ||
                !options.html.empty();
  if (!isTold && state.step % often != 0)
    return true;
  std::vector<std::array<double, 3>> all;
  if (!check(ranks.compare(session, setup.artifact, state.step, all, *log,
                           failure)))
    return false;
  record.waits = summarizeWaits(all);
  if (!options.html.empty())
    page.note(record, all);
  return true;
}

/// What a launcher that starts jobs again has to know.
void Trainer::tell(FaultKind kind) {
  auto rank = session ? static_cast<int32_t>(kerf_session_rank(session)) : 0;
  tellLauncher({kind, rank, state.step, now(), savingSec});
  savingSec = 0;
}

/// True as `save` says; its time is told.
bool Trainer::waitFor(bool (Trainer::*save)()) {
  double start = now();
  bool isDone = (this->*save)();
  savingSec += now() - start;
  return isDone;
}

bool Trainer::step() {
  ++state.step;
  if (kerf_session_rank(session) == 0)
    tell(FaultKind::None);
  StepRecord record;
  if (!runStep(record))
    return false;
  log->step(record, isTold(state.step));
  page.plot.train.push_back({static_cast<double>(state.step), record.loss});
  if (!checkLoss(record))
    return false;
  if (kerf_session_rank(session) == 0)
    tell(FaultKind::Done);
  return true;
}

/// A step that a dynamic loss scale skipped may have any loss: of some batch an
/// activation overflows, too. Not of every batch.
bool Trainer::checkLoss(const StepRecord &record) {
  if (record.isSkipped && state.lossScale->isTooSmall())
    return fail(1, "step " + std::to_string(state.step) +
                       format(" overflows with a loss scale of %g: it is not "
                              "the scale; compile with --precision=bf16",
                              *record.lossScale));
  bool maySkip = record.isSkipped &&
                 !state.lossScale->isLost(options.steps - setup.start.step);
  if (std::isfinite(record.loss) || maySkip)
    return true;
  std::string next = options.checkNans
                         ? ""
                         : "; --check-nans names the op that went bad first";
  fault = FaultKind::NotFinite;
  // All ranks have this loss: one says so.
  return fail(1, kerf_session_rank(session) != 0
                     ? ""
                     : "the loss of step " + std::to_string(state.step) +
                           " is " + format("%g", record.loss) + next);
}

bool Trainer::evaluate() {
  HeldoutRecord record{state.step, options.steps, 0, 0};
  std::string message;
  kerf_status code =
      evaluateHeldout(session, setup, state.seed, record, message, failure);
  if (!message.empty())
    return failLocally(message);
  if (!check(code))
    return false;
  log->heldout(record);
  page.plot.heldout.push_back({static_cast<double>(state.step), record.loss});
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

static constexpr const char *notSaved = "the state was not saved: ";

/// Ranks that cannot write have agreed on which of them tells; the others have
/// no message.
bool Trainer::failSave(const std::string &text, const std::string &message) {
  if (kerf_status code = saves->failed()) {
    std::snprintf(failure.message, sizeof failure.message, "%s",
                  message.c_str());
    return check(code, text);
  }
  return message.empty() ? fail(stop ? 128 + stop : 1, "")
                         : failLocally(text + message);
}

/// Begins to save the state; what is being written is waited for.
bool Trainer::save() {
  std::string message;
  return !saves || saves->save(state, message) || failSave(notSaved, message);
}

/// Begins to keep it in memory, where that is due.
bool Trainer::keep() {
  std::string message;
  return !saves || saves->keep(state, message) || failSave(notSaved, message);
}

bool Trainer::completeSave() {
  std::string message;
  return !saves || saves->complete(state, message) ||
         failSave(notSaved, message);
}

/// Completes what all ranks have written.
bool Trainer::pollSave() {
  std::string message;
  return !saves || saves->poll(state, message) || failSave(notSaved, message);
}

bool Trainer::loop() {
  int64_t last = options.steps;
  if (state.step >= last && !setup.data.files.empty())
    log->line(" nothing to train: " + std::to_string(state.step) +
              " steps are done, --steps is " + std::to_string(last));
  if (setup.data.heldout && state.step == 0 && !evaluate())
    return false;
  while (state.step < last && !stop) {
    if (!step()) {
      // All ranks have this loss; what they copied before is good.
      if (fault == FaultKind::NotFinite && completeSave())
        (void)kerf_session_barrier(session, &failure);
      return false;
    }
    if (trace && state.step == setup.traceLast && !finishTrace())
      return false;
    bool isLast = state.step == last;
    if (setup.data.heldout && (isLast || state.step % setup.evalEvery == 0) &&
        !evaluate())
      return false;
    bool isDue = options.saveEvery > 0 && state.step % options.saveEvery == 0;
    bool isExported =
        options.exportEvery > 0 && state.step % options.exportEvery == 0;
    if (!agreeToStop() || !waitFor(&Trainer::pollSave) ||
        !waitFor(isDue || isLast || stop ? &Trainer::save : &Trainer::keep) ||
        (isExported &&
         !exportWeights(joinPath(options.saveWeights,
                                 "step-" + std::to_string(state.step)))))
      return false;
  }
  // Also where there was nothing to train: a state comes into another folder,
  // in this layout.
  bool isThere = setup.saved && !setup.saved->copy() &&
                 setup.saved->isIn(options.saveState);
  if (saves && saves->savedStep() < 0 && !isThere && !waitFor(&Trainer::save))
    return false;
  if (saves && saves->isBusy() && !waitFor(&Trainer::completeSave))
    return false;
  return !trace || finishTrace();
}

//===----------------------------------------------------------------------===//
// Trace
//===----------------------------------------------------------------------===//

bool Trainer::openTrace() {
  std::string message;
  return setup.traceFirst == 0 ||
         trace.emplace().open(options.trace, setup.artifact, session,
                              message) ||
         failLocally(message);
}

bool Trainer::finishTrace() {
  std::vector<std::string> lines;
  int64_t traced = std::min(state.step, setup.traceLast);
  kerf_status status =
      trace->finish(options.trace, setup.traceFirst, traced, lines, failure);
  trace.reset();
  for (const std::string &text : lines)
    log->line(text);
  return check(status);
}

/// What is left of the trace of a run that failed: a launcher that sees all
/// ranks end merges the parts, otherwise this rank says where its own is.
void Trainer::rescueTrace() {
  if (!trace || std::getenv(traceLauncher))
    return;
  trace.reset();
  std::string note =
      meta.world_size == 1
          ? rescuedTrace(options.trace, setup.artifact)
          : "the trace of this rank until then is " +
                quote(tracePartName(options.trace, kerf_session_rank(session)));
  if (!note.empty())
    error += (error.empty() ? "" : "\n  note: ") + note;
}

//===----------------------------------------------------------------------===//
// End
//===----------------------------------------------------------------------===//

bool Trainer::writePictures() {
  if (kerf_session_rank(session) != 0)
    return true;
  page.plot.title =
      std::string(kerf_artifact_string(setup.artifact, meta.model)) + ": " +
      withCommas(state.step) + " steps of " +
      withCommas(ports.rows * ports.sequence) + " tokens";
  page.plot.unigramEntropy = setup.unigramEntropy;
  return write(options.plot, [&] { return renderLossPlot(page.plot); }) &&
         write(options.html, [&] { return renderPage(); });
}

/// Writes a text where a path is given, and says so.
bool Trainer::write(const std::string &path,
                    const std::function<std::string()> &text) {
  std::string message;
  if (path.empty())
    return true;
  if (!writeFile(behindLinks(path), text(), message))
    return failLocally(message);
  log->line(" wrote " + quote(path));
  return true;
}

std::string Trainer::renderPage() {
  page.tokens = static_cast<double>(ports.rows * ports.sequence);
  page.ranks = meta.world_size;
  page.isStopped = state.step < options.steps;
  uint64_t size = 0;
  const char *plan = kerf_artifact_plan(setup.artifact, &size);
  page.foretold = readForetold({plan, size});
  kerf_memory memory;
  kerf_session_memory(session, &memory);
  page.arenaBytes = memory.arena;
  if (options.isProfiled)
    page.noteCommands(session);
  return renderRunPage(page);
}

bool Trainer::finishRun() {
  if (options.isProfiled)
    for (const std::string &text : describeProfile(session))
      log->line(text);
  if (stop)
    log->line(describeStop(stop, state.step, options.steps));
  if (std::string text = ranks.summary(); !text.empty())
    log->line(text);
  if (saves) {
    saves->end();
    saves->settle();
  }
  // With all that libraries load when they are used first.
  kerf_memory memory;
  kerf_session_memory(session, &memory);
  if (memory.device_total)
    log->line(" at the end " + describeReserve(setup.artifact, memory));
  return saveAll() && writePictures() && takeSamplerWeights() &&
         check(kerf_session_barrier(session, &failure));
}

void Trainer::tellWritten(const std::vector<std::string> &written) {
  for (const std::string &path : written)
    log->line(" wrote " + quote(path));
}

/// Writes the weights; a folder becomes one that libraries load.
bool Trainer::exportWeights(const std::string &path) {
  std::vector<std::string> written;
  std::string message;
  auto shardBytes =
      static_cast<uint64_t>(std::min(options.shardMegabytes * 1e6, 1e18));
  bool isFirst = kerf_session_rank(session) == 0;
  if (!saveWeights(session, setup.artifact, path, shardBytes, written,
                   message) ||
      (isFirst && isModelFolder(path) &&
       !completeModelFolder(setup.artifact, path, options.initFrom, written,
                            message)))
    return failLocally("the weights were not saved: " + message);
  tellWritten(written);
  return true;
}

/// What is kept at the end; adapters and weights of a run that was stopped,
/// too.
bool Trainer::saveAll() {
  if (!options.saveWeights.empty() && !exportWeights(options.saveWeights))
    return false;
  std::vector<std::string> written;
  std::string message;
  if (!options.saveAdapter.empty() &&
      !saveAdapter(session, setup.artifact, options.saveAdapter,
                   options.initFrom, written, message))
    return failLocally("the adapters were not saved: " + message);
  tellWritten(written);
  return true;
}

/// A run that was asked to end makes no samples.
bool Trainer::takeSamplerWeights() {
  std::string message;
  return options.sample.empty() || stop ||
         Sampler::takeWeights(sampler ? &*sampler : nullptr, session,
                              setup.artifact, message) ||
         failLocally("nothing can be sampled: " + message);
}

/// After all else, on the first rank alone: its part of the job is over.
bool Trainer::sample() {
  if (!sampler || stop)
    return true;
  saves.reset();
  kerf_session_destroy(session);
  session = nullptr;
  std::string message;
  bool isDone = sampler->run(message);
  stop = stopSignal();
  return isDone || fail(1, message);
}

int Trainer::run(std::string &message) {
  bool isDone = openSession() && findRows() && openLog() && describeStart() &&
                tryTargets() && setWeights() && openTrace() && loop() &&
                finishRun();
  // A failed run still shows how it went; its own error comes first.
  if (!isDone && log && page.plot.train.size() > 1)
    (void)writePictures();
  if (isDone && kerf_session_rank(session) == 0)
    tell(FaultKind::Finished);
  if (!isDone) {
    tell(fault);
    rescueTrace();
  }
  if (log)
    log->finish();
  isDone = isDone && sample();
  message = error;
  if (isDone && stop)
    return 128 + stop;
  return status;
}

int kerf::runtime::train(const RunOptions &options, const RunSetup &setup,
                         std::string &error) {
  return Trainer(options, setup).run(error);
}
