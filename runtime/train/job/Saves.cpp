//===- Saves.cpp - the states that a run keeps ----------------------------===//

#include "kerf/Train/job/Saves.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/StateFolder.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/job/MemoryFolder.h"

#include <algorithm>

using namespace kerf::runtime;

/// Steps from one copy to the next, by default so many in one save.
static int64_t copyEvery(const RunOptions &options) {
  constexpr int64_t inOneSave = 10;
  return options.copyEvery > 0
             ? options.copyEvery
             : std::max<int64_t>(options.saveEvery / inOneSave, 1);
}

static SaveOptions writerOptions(const RunOptions &options) {
  // The memory of snapshots is taken at the start where there will be several.
  int64_t every = options.saveEvery > 0    ? options.saveEvery
                  : options.peerCopies > 0 ? copyEvery(options)
                                           : 0;
  return {options.saveState, options.keep, options.keepEvery,
          options.saveMegabytes * 1e6, every};
}

Saves::Saves(const RunOptions &options, const RunSetup &setup,
             kerf_session *session, Log &log)
    : options(options), setup(setup), session(session), log(log),
      writer(session, setup.artifact, writerOptions(options)) {}

kerf_status Saves::failed() const {
  kerf_status code = writer.failed();
  return code == KERF_OK && copies ? copies->failed() : code;
}

bool Saves::open(std::string &error) { return writer.open(error); }

bool Saves::openCopies(std::string &error) {
  const bool goesOn = setup.saved && setup.saved->copy();
  if (options.peerCopies == 0 && !goesOn) {
    if (kerf_session_rank(session) == 0)
      forgetCopies(options.saveState);
    return true;
  }
  auto ranks = kerf_artifact_meta(setup.artifact)->world_size;
  copies.emplace(session, static_cast<uint32_t>(ranks), options.saveState,
                 copyEvery(options));
  if (!copies->open(options.peerCopies > 0 ? writer.bytes() : 0,
                    goesOn ? setup.saved->path() : "", error))
    return false;
  if (options.peerCopies == 0)
    return true;
  if (copies->hasPeers())
    log.line("  copies      " + copies->describe());
  else
    log.line("  note        all ranks are on one machine: '--peer-copies' "
             "keeps no copy");
  return true;
}

bool Saves::save(const RunState &state, std::string &error) {
  if (lastSaved == state.step)
    return true;
  if (isBusy()) {
    if (!isCopy)
      log.line(" the state of step " + std::to_string(lastSaved) +
               " is still being written: waiting");
    if (!complete(state, error))
      return false;
  }
  isCopy = false;
  if (!writer.begin(state, error))
    return false;
  lastSaved = state.step;
  return true;
}

bool Saves::keep(const RunState &state, std::string &error) {
  int64_t every = copyEvery(options);
  bool keeps = options.peerCopies > 0 && copies->hasPeers();
  if (!keeps || isBusy() || state.step % every != 0)
    return true;
  isCopy = true;
  std::string place = copies->place(state.step, error);
  return !place.empty() && writer.begin(state, error, place, every);
}

/// What a rank has written is known to all: a save is whole, a copy is sent.
bool Saves::finish(bool hasWaited, const RunState &state, std::string &error) {
  SaveRecord record;
  if (!writer.finish(hasWaited, record, error))
    return false;
  record.now = state.step;
  if (!isCopy) {
    log.save(record);
    return true;
  }
  sending = record;
  copies->start(record.step, writer.fileBytes());
  return send(hasWaited, state, error);
}

bool Saves::send(bool all, const RunState &state, std::string &error) {
  double start = now();
  bool isDone = false;
  if (!copies->send(all, isDone, error))
    return false;
  std::string manifest;
  if (isDone && kerf_session_rank(session) == 0)
    manifest = writer.manifestWith({{memoryKey, copies->id()}});
  bool isKnown = !isDone || copies->complete(manifest, writer.index(), error);
  sending.stallSec += now() - start;
  sending.now = state.step;
  if (isDone && isKnown)
    tellCopy(sending);
  return isKnown;
}

/// The first one has a line, all are in the JSON log.
void Saves::tellCopy(const SaveRecord &record) {
  if (!isCopyTold)
    log.line(format(" kept the state of step %lld in memory",
                    static_cast<long long>(record.step)) +
             format(", which was whole after step %lld: training waited %.3g "
                    "ms; later ones are told in --log-json",
                    static_cast<long long>(record.now), 1e3 * record.stallSec));
  isCopyTold = true;
  log.copy(record);
}

bool Saves::poll(const RunState &state, std::string &error) {
  if (copies && copies->isBusy())
    return send(/*all=*/false, state, error);
  bool isWritten = false;
  if (!writer.isBusy())
    return true;
  if (!writer.poll(isWritten, error))
    return false;
  return !isWritten || finish(/*hasWaited=*/false, state, error);
}

bool Saves::complete(const RunState &state, std::string &error) {
  if (writer.isBusy() && !finish(/*hasWaited=*/true, state, error))
    return false;
  return !copies || !copies->isBusy() || send(/*all=*/true, state, error);
}

void Saves::end() {
  if (copies)
    copies->forget();
}
