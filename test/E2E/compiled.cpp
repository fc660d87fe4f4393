//===- compiled.cpp - compiled training against the interpreter -----------===//
//
// kerf-compiled STEP.mlir MODEL.kerf [--steps N] [--tolerance X[:Y]]
//               [--threads N] [--ignored PERCENT] [--skip-states NAME]
//
// STEP.mlir is the training step (kerfc --stop-after=differentiate) that
// MODEL.kerf was compiled from. Both train from the same initial values on the
// same inputs; ranks of the artifact are processes of this program. Compared
// are the loss and the other outputs (the gradient norm among them) of every
// step, and after the first step the optimizer state of every parameter, which
// is a function of its clipped gradient; not of parameters whose names end in
// NAME. Tolerances are relative: X of the
// loss, Y (default 10 X) of everything else.
//
//===----------------------------------------------------------------------===//

#include "Training.h"

#include "kerf/Pipeline/Stages.h"

#include "llvm/Support/InitLLVM.h"

#include <cstdio>
#include <cstdlib>

using namespace kerf;
using namespace kerf::test;

namespace {
struct Options {
  std::string model, artifact;
  double tolerance = 1e-5; ///< of the loss
  double others = 1e-4;    ///< of metrics and states
  std::string skipped;     ///< end of names of parameters without a bound
  TrainingOptions training;
};
} // namespace

[[noreturn]] static void stop(const std::string &message) {
  std::fprintf(stderr, "kerf-compiled: %s\n", message.c_str());
  std::exit(1);
}

/// `X` or `X:Y`.
static void parseTolerance(const char *text, Options &options) {
  char *rest = nullptr;
  options.tolerance = std::strtod(text, &rest);
  options.others =
      *rest == ':' ? std::strtod(rest + 1, nullptr) : 10 * options.tolerance;
}

static Options parse(int argc, char **argv) {
  Options options;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--steps" && i + 1 < argc)
      options.training.steps = std::atoll(argv[++i]);
    else if (arg == "--tolerance" && i + 1 < argc)
      parseTolerance(argv[++i], options);
    else if (arg == "--threads" && i + 1 < argc)
      options.training.threads = std::atoi(argv[++i]);
    else if (arg == "--skip-states" && i + 1 < argc)
      options.skipped = argv[++i];
    else if (arg == "--ignored" && i + 1 < argc)
      options.training.ignored = std::atoll(argv[++i]);
    else
      files.push_back(arg);
  }
  if (files.size() != 2)
    stop("expected STEP.mlir MODEL.kerf");
  options.model = files[0];
  options.artifact = files[1];
  return options;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Options options = parse(argc, argv);
  InputModule input(options.model, {});
  if (!input.get())
    return 1;
  auto models = input.get().getOps<ModelOp>();
  if (models.empty())
    stop("expected a kerf.model");
  ModelOp model = *models.begin();
  TrainingResult found = execute(options.artifact, model, options.training);
  TrainingResult expected = interpret(model, options.training);
  TrainingErrors errors = compare(found, expected, options.skipped);
  std::puts(errors.describe().c_str());
  return errors.loss <= options.tolerance && errors.metrics <= options.others &&
                 errors.experts <= options.others &&
                 errors.states <= options.others
             ? 0
             : 1;
}
