//===- StateFile.cpp - states that earlier versions saved -----------------===//

#include "kerf/Train/StateFile.h"

#include "kerf/Train/Checksum.h"
#include "kerf/Train/Files.h"
#include "kerf/Train/Pieces.h"
#include "kerf/Train/Text.h"

using namespace kerf::runtime;

/// Version 1 had a checksum of the tensors' bytes alone.
static constexpr const char *versionText = "2", *oldVersionText = "1";
static constexpr const char *checksumKey = "checksum";

/// What the file says beside the bytes of tensors, but for the checksum.
static void addMetadata(const Metadata &meta, Checksum &checksum) {
  for (const auto &[key, value] : meta)
    if (key != checksumKey) {
      checksum.add(key);
      checksum.add(value);
    }
}

static void addTensor(const std::string &name, const std::string &dtype,
                      const std::vector<int64_t> &shape, Checksum &checksum) {
  checksum.add(name);
  checksum.add(dtype);
  checksum.add(shape.data(), shape.size() * sizeof(int64_t));
}

bool StateFile::open(const std::string &folder, std::string &error) {
  std::string path = joinPath(folder, stateFileName);
  if (!file.open(path, error))
    return false;
  auto version = file.metadata().find("kerf_state");
  bool isOld =
      version != file.metadata().end() && version->second == oldVersionText;
  if (!isOld &&
      (version == file.metadata().end() || version->second != versionText)) {
    error = quote(path) + " is no saved state of version " + versionText;
    return false;
  }
  Checksum checksum;
  if (!isOld)
    addMetadata(file.metadata(), checksum);
  for (const TensorEntry &entry : file.tensors()) {
    if (!isOld)
      addTensor(entry.name, entry.dtype, entry.shape, checksum);
    checksum.add(file.data(entry), entry.end - entry.begin);
  }
  auto stored = file.metadata().find(checksumKey);
  if (stored == file.metadata().end() || stored->second != checksum.text()) {
    error = quote(path) + " is damaged: its checksum does not agree";
    return false;
  }
  if (!readRun(file.metadata(), run)) {
    error = quote(path) + " is damaged: its metadata is incomplete or wrong";
    return false;
  }
  return true;
}

bool StateFile::restore(kerf_session *session, const kerf_artifact *artifact,
                        std::string &error) const {
  std::vector<StateTensor> tensors = listState(artifact);
  auto find = [this](const std::string &name) -> SavedShape {
    const TensorEntry *entry = file.find(name);
    if (!entry)
      return {};
    return {&entry->shape, entry->dtype};
  };
  if (!isOfModel(file.path(), file.tensors().size(), tensors, find, error))
    return false;
  for (const StateTensor &t : tensors) {
    kerf_error failure;
    if (kerf_session_write_global(session, &t.tensor.id,
                                  file.data(*file.find(t.name)), t.tensor.bytes,
                                  &failure) != KERF_OK) {
      error = failure.message;
      return false;
    }
  }
  return true;
}
