//===- StateReader.h - loads a checkpoint into any layout -------*- C++ -*-===//
//
// Each rank finds which pieces of the checkpoint have what it stores, reads the
// tiles (StateIndex.h) of those bytes and no others, and checks each one. No
// rank reads for another one. Files of a state in memory are in a folder of
// their own.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_STATEREADER_H
#define KERF_TRAIN_STATEREADER_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/StateIndex.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

/// What loading took on this rank.
struct LoadTimes {
  uint64_t needed = 0; ///< bytes that the rank stores
  uint64_t read = 0;   ///< of files, checksums included
  double seconds = 0;
};

class StateReader {
public:
  /// Reads manifest and index of a checkpoint's folder.
  [[nodiscard]] bool open(const std::string &folder, std::string &error);
  const Metadata &manifest() const { return entries; }
  const std::vector<IndexedFile> &files() const { return index.files; }
  /// Where the files are, if not beside the manifest.
  void setFilesFolder(const std::string &path) { filesFolder = path; }
  /// The files that have what `rank` stores. Empty where a tensor is missing,
  /// which `restore` tells.
  std::vector<bool> filesOf(const kerf_artifact *artifact, uint32_t rank) const;

  /// Sets all tensors that this rank has. Fails on tensors that are missing,
  /// not of the model, or of another shape or type, on pieces that do not make
  /// up a tensor, and on damaged bytes; messages name file and piece.
  [[nodiscard]] bool restore(kerf_session *session,
                             const kerf_artifact *artifact, LoadTimes &times,
                             std::string &error) const;

private:
  std::string folder, filesFolder;
  Metadata entries;
  StateIndex index;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_STATEREADER_H
