//===- Setup.h - everything decided before the first step -------*- C++ -*-===//

#ifndef KERF_TRAIN_SETUP_H
#define KERF_TRAIN_SETUP_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Batch.h"
#include "kerf/Train/Experts.h"
#include "kerf/Train/Options.h"
#include "kerf/Train/Sources.h"
#include "kerf/Train/State.h"
#include "kerf/Train/sample/SampleText.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Index in the artifact's tables, or KERF_NONE.
struct ModelPorts {
  uint32_t tokens = KERF_NONE, targets = KERF_NONE;
  uint32_t segments = KERF_NONE, positions = KERF_NONE;
  uint32_t loss = KERF_NONE, gradNorm = KERF_NONE;
  std::vector<ExpertPort> experts;
  int64_t rows = 0, sequence = 0; ///< of a step, over all ranks
  bool scalesLoss = false;        ///< the step takes a factor on the loss

  bool separatesDocuments() const {
    return segments != KERF_NONE || positions != KERF_NONE;
  }
};

/// Finds the inputs that a run fills and the outputs that it logs. Fails on an
/// artifact that is no language model.
[[nodiscard]] bool findPorts(const kerf_artifact *artifact, ModelPorts &ports,
                             std::string &error);

/// Hands a session the inputs of a batch that the model takes. Ends with the
/// first status that is no KERF_OK.
[[nodiscard]] kerf_status setInputs(kerf_session *session,
                                    const ModelPorts &ports, const Batch &batch,
                                    kerf_error &failure);

/// The decided run.
struct RunSetup {
  const kerf_artifact *artifact = nullptr;
  ModelPorts ports;
  Sources data;
  int64_t documentEnd = -1;
  int64_t evalEvery = 0;   ///< 0: never
  int64_t evalSamples = 0; ///< of each evaluation
  /// As scanSources.
  double unigramEntropy = 0;
  /// Where the run begins; seed and schedule of all of it.
  RunState start;
  std::optional<SavedState> saved;
  int64_t traceFirst = 0, traceLast = 0; ///< steps that are traced; 0: none
  std::vector<SamplePrompt> prompts; ///< that the trained model goes on from
  /// Things that the user should know, one line each.
  std::vector<std::string> notes;
};

/// Opens and checks data and saved state, and decides what the options leave
/// open. Touches no device.
[[nodiscard]] bool prepareRun(const RunOptions &options,
                              const kerf_artifact *artifact, RunSetup &setup,
                              std::string &error);

/// What was decided, as lines for the start of the log.
std::vector<std::string> describeSetup(const RunOptions &options,
                                       const RunSetup &setup);

/// The same for programs, on one line: when it began, what was typed, and what
/// was decided.
std::string describeSetupJson(const RunOptions &options, const RunSetup &setup);

/// What of the device is in use besides the arena, now and before anything was
/// loaded (the driver's context, other processes), and, where the compiler knew
/// the machine, what it planned for. Nothing of a device without memory of its
/// own.
std::string describeReserve(const kerf_artifact *artifact,
                            const kerf_memory &memory);

/// What of the device an arena leaves; empty of a device without memory of its
/// own.
std::string describeMemory(const kerf_artifact *artifact,
                           const kerf_memory &memory);

/// What kinds of commands took most, of a session that measures them.
std::vector<std::string> describeProfile(kerf_session *session);

} // namespace kerf::runtime

#endif // KERF_TRAIN_SETUP_H
