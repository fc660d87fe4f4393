//===- Artifact.h - an opened and checked file ----------------------------===//

#ifndef KERF_RUNTIME_CORE_ARTIFACT_H
#define KERF_RUNTIME_CORE_ARTIFACT_H

#include "Status.h"

#include "kerf/Artifact/Check.h"

#include <string>
#include <vector>

/// Behind the C handle. The bytes are a copy: a file that changes while it is
/// used cannot hurt.
struct kerf_artifact {
  std::string name; ///< for messages
  std::vector<uint64_t> bytes;
  kerf::artifact::View view;
};

#endif // KERF_RUNTIME_CORE_ARTIFACT_H
