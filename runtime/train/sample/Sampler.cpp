//===- Sampler.cpp - the trained model goes on from texts -----------------===//

#include "kerf/Train/sample/Sampler.h"

#include "kerf/Train/Signals.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/Weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include <unistd.h>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Prompts
//===----------------------------------------------------------------------===//

/// Whether tokens are bytes: those of the data, else of a vocabulary that bytes
/// have without being told.
static bool readsBytes(const RunSetup &setup) {
  constexpr int64_t least = 256, most = 512; // as TokenFile::open
  int64_t vocabulary = kerf_artifact_meta(setup.artifact)->vocabulary;
  return setup.data.files.empty()
             ? vocabulary >= least && vocabulary <= most
             : setup.data.files.front().format() == DataFormat::Bytes;
}

/// Null where the artifact has none, with an error.
static kerf_artifact *openSampler(const kerf_artifact *artifact,
                                  const std::string &path, std::string &error) {
  uint64_t bytes = 0;
  const void *data = kerf_artifact_sampler(artifact, &bytes);
  if (bytes == 0) {
    error = "'--sample' needs a model that was compiled with a sampler: kerfc "
            "MODEL.mlir --sampler -o MODEL.kerf";
    return nullptr;
  }
  kerf_artifact *sampler = nullptr;
  kerf_error failure;
  std::string name = "the sampler of " + path;
  if (kerf_artifact_open_bytes(data, bytes, name.c_str(), &sampler, &failure))
    error = failure.message;
  return sampler;
}

/// Weights and activations fit into the machine's memory. It is the host's, of
/// which nothing is known but its size.
static bool checkMemory(const kerf_artifact *sampler, std::string &error) {
  uint32_t count = 0;
  uint64_t needed = kerf_artifact_programs(sampler, &count)->arena_bytes;
  uint64_t there = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (needed > there)
    error = "'--sample' puts all weights into the memory of one machine, in "
            "f32: it needs " +
            formatBytes(needed) + ", there are " + formatBytes(there);
  return needed <= there;
}

bool kerf::runtime::prepareSamples(const RunOptions &options, RunSetup &setup,
                                   std::string &error) {
  if (options.sample.empty())
    return true;
  kerf_artifact *sampler = openSampler(setup.artifact, options.artifact, error);
  bool isFine = sampler && checkMemory(sampler, error);
  kerf_artifact_close(sampler);
  int64_t known = kerf_artifact_meta(setup.artifact)->vocabulary;
  int64_t vocabulary = known > 0 ? known : INT32_MAX;
  for (size_t i = 0; i < options.sample.size() && isFine; ++i)
    isFine = parsePrompt(options.sample[i], readsBytes(setup), vocabulary,
                         setup.prompts.emplace_back(), error);
  return isFine;
}

//===----------------------------------------------------------------------===//
// The session
//===----------------------------------------------------------------------===//

Sampler::~Sampler() {
  kerf_session_destroy(session);
  kerf_artifact_close(artifact);
}

/// Keeps the message of a call that failed.
static bool check(kerf_status status, const kerf_error &failure,
                  std::string &error) {
  if (status != KERF_OK)
    error = failure.message;
  return status == KERF_OK;
}

bool Sampler::open(std::string &error) {
  kerf_error failure;
  char line[256];
  artifact = openSampler(setup.artifact, options.artifact, error);
  return artifact && findPorts(artifact, ports, error) &&
         check(kerf_probe_device(nullptr, artifact, options.pluginPath.c_str(),
                                 nullptr, line, sizeof line, &failure),
               failure, error);
}

/// Ranks are done when it computes: all threads are its own.
bool Sampler::start(std::string &error) {
  kerf_session_options wanted;
  kerf_session_options_init(&wanted);
  wanted.rank = 0;
  wanted.workers = static_cast<int32_t>(std::min<int64_t>(
      options.threads, kerf_artifact_meta(artifact)->max_workers));
  if (!options.pluginPath.empty())
    wanted.plugin_path = options.pluginPath.c_str();
  kerf_error failure;
  return check(kerf_session_create(artifact, &wanted, &session, &failure),
               failure, error);
}

bool Sampler::takeWeights(Sampler *sampler, kerf_session *session,
                          const kerf_artifact *artifact, std::string &error) {
  return (!sampler || sampler->start(error)) &&
         copyWeights(session, artifact, sampler ? sampler->session : nullptr,
                     sampler ? sampler->artifact : nullptr, error);
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

/// Documents are told apart as in training (SampleRange::fill).
static void placeTokens(const std::vector<int32_t> &tokens, size_t first,
                        int64_t documentEnd, Batch &batch, int64_t row) {
  int32_t segment = 0, position = 0;
  for (int64_t i = 0; i < batch.sequence; ++i) {
    int64_t at = row * batch.sequence + i;
    bool isText = first + i < tokens.size();
    batch.tokens[at] = isText ? tokens[first + i] : 0;
    batch.targets[at] = ignoredTarget;
    batch.segments[at] = segment;
    batch.positions[at] = position;
    bool isLast = isText && documentEnd >= 0 && batch.tokens[at] == documentEnd;
    segment += isLast;
    position = isLast ? 0 : position + 1;
  }
}

bool Sampler::ask(const Batch &batch, int32_t &token, std::string &error) {
  kerf_error failure;
  double value = 0;
  if (!check(setInputs(session, ports, batch, failure), failure, error) ||
      !check(kerf_session_run_evaluation(session, &failure), failure, error) ||
      !check(kerf_session_get_output(session, ports.loss, &value, &failure),
             failure, error))
    return false;
  if (!std::isfinite(value))
    error =
        "the model's logits are no numbers: nothing can be chosen from them";
  token = static_cast<int32_t>(std::isfinite(value) ? value : 0);
  return std::isfinite(value);
}

/// The token behind the last ones. All rows have the same tokens; the first is
/// asked.
bool Sampler::next(const std::vector<int32_t> &tokens, uint32_t random,
                   int32_t &token, std::string &error) {
  Batch batch(ports.rows, ports.sequence);
  size_t length = std::min<size_t>(tokens.size(), ports.sequence);
  for (int64_t row = 0; row < ports.rows; ++row)
    placeTokens(tokens, tokens.size() - length, setup.documentEnd, batch, row);
  batch.targets[length - 1] = static_cast<int32_t>(random);
  return ask(batch, token, error);
}

//===----------------------------------------------------------------------===//
// Samples
//===----------------------------------------------------------------------===//

/// Below it all but the largest logits have no part.
static constexpr double coldest = 1e-30;

static std::string describe(const RunOptions &options, const RunSetup &setup,
                            const SamplePrompt &prompt) {
  std::string how =
      options.sampleTemperature < coldest
          ? "the likeliest each time"
          : format("temperature %g, seed %lld", options.sampleTemperature,
                   static_cast<long long>(setup.start.seed));
  return " sample: " + withCommas(options.sampleTokens) + " tokens behind " +
         withCommas(static_cast<int64_t>(prompt.tokens.size())) + ", " + how;
}

static void print(const std::string &text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

bool Sampler::continueFrom(size_t number, std::string &error) {
  const SamplePrompt &prompt = setup.prompts[number];
  bool isGreedy = options.sampleTemperature < coldest;
  uint64_t stream =
      kerf_random_stream(setup.start.seed, static_cast<int64_t>(number), 0,
                         kerf_hash_name("sample"));
  std::vector<int32_t> tokens = prompt.tokens;
  SampleText text(prompt.isText);
  print(describe(options, setup, prompt) + "\n");
  for (int32_t token : tokens)
    print(text.add(token));
  int64_t end = options.documentEnd.value_or(setup.documentEnd);
  bool goesOn = true;
  for (int64_t i = 0; i < options.sampleTokens && goesOn && !stopSignal();
       ++i) {
    int32_t token = 0;
    uint32_t random = isGreedy ? 0 : kerf_random_bits(stream, i) >> 1;
    if (!next(tokens, random, token, error)) {
      print(text.finish());
      return false;
    }
    goesOn = token != end;
    tokens.push_back(token);
    print(text.add(token));
  }
  print(text.finish());
  return true;
}

bool Sampler::run(std::string &error) {
  kerf_error failure;
  double temperature = std::max(options.sampleTemperature, coldest);
  if (!check(kerf_session_set_scalar(session, KERF_ROLE_LEARNING_RATE,
                                     temperature, &failure),
             failure, error))
    return false;
  for (size_t i = 0; i < setup.prompts.size() && !stopSignal(); ++i)
    if (!continueFrom(i, error))
      return false;
  if (std::any_of(setup.prompts.begin(), setup.prompts.end(),
                  [](const SamplePrompt &prompt) { return !prompt.isText; }))
    print(
        " these are token numbers; examples/tokenize.py --decode prints their "
        "text\n");
  return true;
}
