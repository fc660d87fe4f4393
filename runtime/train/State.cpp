//===- State.cpp - everything that a run needs to go on -------------------===//

#include "kerf/Train/State.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/StateFolder.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/job/MemoryFolder.h"

using namespace kerf::runtime;

bool SavedState::openCheckpoint(const std::string &folder, std::string &error) {
  found = folder;
  StateReader &reader = source.emplace<StateReader>();
  if (!reader.open(folder, error))
    return false;
  const Metadata &manifest = reader.manifest();
  auto version = manifest.find("kerf_checkpoint");
  if (version == manifest.end() || version->second != checkpointVersion) {
    error = quote(folder) + " is no checkpoint of version " + checkpointVersion;
    return false;
  }
  if (isCopyFolder(folder))
    reader.setFilesFolder(filesOfCopy(idOfCopy(folder), folder));
  if (readRun(manifest, run))
    return true;
  error = quote(joinPath(folder, manifestName)) +
          " is damaged: it is incomplete or has values that no run has";
  return false;
}

void SavedState::tellEarlier(std::string &error) const {
  std::string earlier;
  for (const SavedStep &step : listSteps(parentFolder(found))) {
    if (isSameFile(step.path, found))
      break;
    if (step.isReadable())
      earlier = step.path;
  }
  if (!earlier.empty())
    error += "; the one before it is " + quote(earlier);
}

bool SavedState::open(const std::string &folder, std::string &error) {
  if (fileExists(joinPath(folder, manifestName)))
    return openCheckpoint(folder, error);
  if (std::optional<SavedStep> newest = newestState(folder)) {
    if (openCheckpoint(newest->path, error))
      return true;
    tellEarlier(error);
    return false;
  }
  if (!fileExists(joinPath(folder, stateFileName))) {
    error = "no saved state in " + quote(folder) + ": expected 'step-N/" +
            manifestName + "' there; '--save-state=DIR' writes it";
    return false;
  }
  found = folder;
  StateFile &file = source.emplace<StateFile>();
  if (!file.open(folder, error))
    return false;
  run = file.state();
  return true;
}

bool SavedState::restore(kerf_session *session, const kerf_artifact *artifact,
                         LoadTimes &times, std::string &error) const {
  if (const auto *reader = std::get_if<StateReader>(&source)) {
    bool isDone = reader->restore(session, artifact, times, error);
    bool isDamaged = error.find(" is damaged: ") != std::string::npos ||
                     error.find("cannot open ") == 0;
    if (!isDone && isDamaged)
      tellEarlier(error);
    return isDone;
  }
  double start = now();
  const StateFile &file = std::get<StateFile>(source);
  bool isDone = file.restore(session, artifact, error);
  times = {file.bytes(), file.bytes(), now() - start};
  return isDone;
}
