//===- StateReader.h - loads a checkpoint into any layout -------*- C++ -*-===//
//
// Each rank finds which pieces of the checkpoint have what it stores, reads the
// tiles (StateIndex.h) of those bytes and no others, and checks each one. No
// rank reads for another one.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_STATEREADER_H
#define KERF_TRAIN_STATEREADER_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/StateIndex.h"

#include <cstdint>
#include <string>

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

  /// Sets all tensors that this rank has. Fails on tensors that are missing,
  /// not of the model, or of another shape or type, on pieces that do not make
  /// up a tensor, and on damaged bytes; messages name file and piece.
  [[nodiscard]] bool restore(kerf_session *session,
                             const kerf_artifact *artifact, LoadTimes &times,
                             std::string &error) const;

private:
  std::string folder;
  Metadata entries;
  StateIndex index;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_STATEREADER_H
