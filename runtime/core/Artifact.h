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

  /// Where a record lies: those of one parameter that two stages have, and of
  /// one input.
  struct Holder {
    uint32_t program;
    uint32_t record; ///< of the file's table
  };
  /// Parameters and inputs as all ranks number them: over all programs, each
  /// once. A parameter's record is that of its first holder, which has its
  /// master and state, if any does.
  std::vector<kerf_param> params;
  std::vector<std::vector<Holder>> paramHolders;
  std::vector<kerf_input> inputs;
  std::vector<std::vector<Holder>> inputHolders;

  /// Fills the above from the checked view.
  void number();
  /// The record in `program` of parameter or input `number`; null if the ranks
  /// of that program have none.
  const kerf_param *paramOf(uint32_t program, uint32_t number) const;
  const kerf_input *inputOf(uint32_t program, uint32_t number) const;
};

#endif // KERF_RUNTIME_CORE_ARTIFACT_H
