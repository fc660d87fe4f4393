//===- same.cpp - a layout trains as one rank does ------------------------===//
//
// kerf-same STEP.mlir ONE.kerf MANY.kerf [--steps N] [--once]
//           [--skip-states NAME]
//
// ONE and MANY are compiled from the training step STEP.mlir. Both train from
// the same initial values on the same inputs, with one thread per rank; ranks
// are processes of this program. MANY is trained twice, which has to give the
// same bits. Prints a line of JSON:
//
//   ranks, arena    ranks of MANY, and bytes of the largest arena of a stage
//   loss            largest error of the loss of any step, relative
//   metrics         largest error of the other outputs
//   states          of the optimizer state after the first step, which is a
//                   function of the clipped gradient; not of parameters whose
//                   names end in NAME
//   updates         of what all steps together add to a parameter, where its
//                   gradient counts
//   noise           largest change of an element whose gradient does not count,
//                   as a part of the most that it may move
//   same, seconds   whether the second run gave the same bits; time of a run
//
// Errors of tensors are those of `compare`. The gradient of an element counts
// where its first one is at least 1e-5 of the tensor's largest: below, Adam
// turns rounding into full steps, of at most the learning rate each. Of a
// parameter that Adam does not update all elements count.
//
//===----------------------------------------------------------------------===//

#include "Training.h"

#include "kerf/Pipeline/Stages.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InitLLVM.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace kerf;
using namespace kerf::test;

namespace {
struct Options {
  std::vector<std::string> files;
  TrainingOptions training;
  bool twice = true;
  std::string skipped; ///< end of names of parameters, of --skip-states
};

/// How far updates differ.
struct UpdateErrors {
  double counting = 0, noise = 0;
  std::string worst;
};
} // namespace

[[noreturn]] static void stop(const std::string &message) {
  std::fprintf(stderr, "kerf-same: %s\n", message.c_str());
  std::exit(1);
}

static Options parse(int argc, char **argv) {
  Options options;
  options.training = {/*steps=*/10,   /*threads=*/1, /*rate=*/1e-3,
                      /*ignored=*/60, /*f64=*/false, /*ends=*/true};
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--steps" && i + 1 < argc)
      options.training.steps = std::atoll(argv[++i]);
    else if (arg == "--skip-states" && i + 1 < argc)
      options.skipped = argv[++i];
    else if (arg == "--once")
      options.twice = false;
    else
      options.files.push_back(arg);
  }
  if (options.files.size() != 3)
    stop("expected STEP.mlir ONE.kerf MANY.kerf");
  return options;
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

/// A tensor's largest magnitude.
static double largestOf(const std::vector<double> &values) {
  double largest = 0;
  for (double value : values)
    largest = std::max(largest, std::abs(value));
  return largest;
}

/// Adds one parameter to `errors`. `first` is the first moment after one step.
static void compareUpdate(const std::string &name,
                          const std::vector<double> &first,
                          const std::vector<double> &initial,
                          const std::vector<double> &found,
                          const std::vector<double> &expected, double most,
                          UpdateErrors &errors) {
  double threshold = 1e-5 * largestOf(first), largest = 0, worst = 0;
  for (auto [i, value] : llvm::enumerate(expected)) {
    double error = std::abs(found[i] - value);
    if (std::isnan(error))
      error = HUGE_VAL;
    largest = std::max(largest, std::abs(value - initial[i]));
    if (std::abs(first[i]) >= threshold)
      worst = std::max(worst, error);
    else
      errors.noise = std::max(errors.noise, error / most);
  }
  worst /= std::max(largest, 1e-30);
  if (worst <= errors.counting)
    return;
  errors.counting = worst;
  errors.worst = name;
}

static UpdateErrors compareUpdates(const TrainingResult &found,
                                   const TrainingResult &expected,
                                   const TrainingOptions &options) {
  UpdateErrors errors;
  for (auto &[name, values] : expected.last.params) {
    auto at = found.last.params.find(name);
    auto first = expected.states.find(name + ".m");
    if (at == found.last.params.end() || at->second.size() != values.size())
      stop("no parameter '" + name + "'");
    // Without a first moment, as a router's bias: all of it counts.
    std::vector<double> ones(values.size(), 1.0);
    compareUpdate(name, first == expected.states.end() ? ones : first->second,
                  expected.initial.params.at(name), at->second, values,
                  2 * options.rate * options.steps, errors);
  }
  return errors;
}

static double lossError(const TrainingResult &found,
                        const TrainingResult &expected) {
  double worst = 0;
  for (auto [a, b] : llvm::zip_equal(found.outputs, expected.outputs)) {
    double error = std::abs(a[0] - b[0]) / std::abs(b[0]);
    worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
  }
  return worst;
}

static bool sameBits(const TrainingResult &a, const TrainingResult &b) {
  auto tensors = [](const TrainingTensors &t) {
    return std::tie(t.params, t.states);
  };
  return a.outputs == b.outputs && a.experts == b.experts &&
         tensors(a) == tensors(b) && tensors(a.last) == tensors(b.last);
}

//===----------------------------------------------------------------------===//
// One layout
//===----------------------------------------------------------------------===//

/// Ranks, and bytes of the largest arena of a stage.
static std::pair<uint32_t, uint64_t> sizesOf(const std::string &path) {
  kerf_error error;
  kerf_artifact *artifact = nullptr;
  if (kerf_artifact_open(path.c_str(), &artifact, &error))
    stop(error.message);
  uint32_t count = 0, ranks = kerf_artifact_meta(artifact)->world_size;
  const kerf_program *programs = kerf_artifact_programs(artifact, &count);
  uint64_t arena = 0;
  for (uint32_t i = 0; i < count; ++i)
    arena = std::max(arena, programs[i].arena_bytes);
  kerf_artifact_close(artifact);
  return {ranks, arena};
}

static void report(ModelOp model, const Options &options) {
  const TrainingOptions &training = options.training;
  auto [ranks, arena] = sizesOf(options.files[2]);
  auto start = std::chrono::steady_clock::now();
  TrainingResult found = execute(options.files[2], model, training);
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  bool same = !options.twice ||
              sameBits(found, execute(options.files[2], model, training));
  TrainingResult expected = execute(options.files[1], model, training);
  TrainingErrors errors = compare(found, expected, options.skipped);
  UpdateErrors updates = compareUpdates(found, expected, training);
  std::printf("{\"ranks\": %u, \"arena\": %llu, \"loss\": %.3g, "
              "\"metrics\": %.3g, \"experts\": %.3g, \"states\": %.3g, "
              "\"state\": \"%s\", "
              "\"updates\": %.3g, \"update\": \"%s\", \"noise\": %.3g, "
              "\"same\": %s, \"seconds\": %.3f}\n",
              ranks, (unsigned long long)arena, lossError(found, expected),
              errors.metrics, errors.experts, errors.states,
              errors.worst.c_str(), updates.counting, updates.worst.c_str(),
              updates.noise, same ? "true" : "false", seconds.count());
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Options options = parse(argc, argv);
  InputModule input(options.files[0], {});
  if (!input.get())
    return 1;
  auto models = input.get().getOps<ModelOp>();
  if (models.empty())
    stop("expected a kerf.model");
  report(*models.begin(), options);
  return 0;
}
