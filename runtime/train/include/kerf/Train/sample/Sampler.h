//===- Sampler.h - the trained model goes on from texts ---------*- C++ -*-===//
//
// What chooses the next token is a compiled file of its own within the model's
// (kerf/Sampler/Sampler.h). It runs on the CPU of the first rank, one token
// after the other.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_SAMPLER_H
#define KERF_TRAIN_SAMPLER_H

#include "kerf/Train/Setup.h"
#include "kerf/Train/sample/SampleText.h"

#include <memory>

namespace kerf::runtime {

/// Reads the prompts of the options into the setup. Fails where the artifact
/// has no sampler, or a prompt is none of the model.
[[nodiscard]] bool prepareSamples(const RunOptions &options, RunSetup &setup,
                                  std::string &error);

/// The samples of one run.
class Sampler {
public:
  Sampler(const RunOptions &options, const RunSetup &setup)
      : options(options), setup(setup) {}
  ~Sampler();
  Sampler(const Sampler &) = delete;

  /// Opens the sampler and its inputs, and asks whether this machine can run
  /// it.
  [[nodiscard]] bool open(std::string &error);
  /// The weights of the model; collective. Others than the first rank call it
  /// on a null sampler.
  [[nodiscard]] static bool takeWeights(Sampler *sampler, kerf_session *session,
                                        const kerf_artifact *artifact,
                                        std::string &error);
  /// Prints what the model makes of each prompt, until a signal asks to stop.
  [[nodiscard]] bool run(std::string &error);

private:
  bool start(std::string &error);
  bool continueFrom(size_t number, std::string &error);
  bool next(const std::vector<int32_t> &tokens, uint32_t random, int32_t &token,
            std::string &error);
  bool ask(const Batch &batch, int32_t &token, std::string &error);

  const RunOptions &options;
  const RunSetup &setup;
  kerf_artifact *artifact = nullptr;
  kerf_session *session = nullptr;
  ModelPorts ports;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_SAMPLER_H
