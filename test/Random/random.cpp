//===- random.cpp - random small models, four ways ------------------------===//
//
//   kerf-random COUNT SEED
//
// Draws COUNT small models (seeds SEED, SEED+1, ...) and checks of each:
//   - gradients against central differences of the loss (f64, within 1e-6);
//   - the training step against that of the same model with its repeats
//     unrolled before differentiation (within 1e-9);
//   - the training step against itself with its repeats split and its weight
//     gradients in repeats of their own (within 1e-11);
//   - the step printed and parsed again (the same text).
//
//===----------------------------------------------------------------------===//

#include "ModelWriter.h"

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Differentiate/Passes.h"
#include "kerf/Interpreter/Interpreter.h"
#include "kerf/Pipeline/GradientCheck.h"
#include "kerf/Pipeline/Stages.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static ModelOp modelOf(ModuleOp module) {
  return *module.getOps<ModelOp>().begin();
}

static LogicalResult runPasses(ModuleOp module, llvm::StringRef pipeline) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  if (failed(parsePassPipeline(pipeline, pm)))
    return failure();
  return pm.run(module);
}

/// Two steps of training.
static FailureOr<TrainingState> train(ModuleOp module) {
  ModelOp model = modelOf(module);
  Interpreter interpreter(model, {/*f64=*/true, /*seed=*/1});
  TrainingState state;
  for (int64_t step = 1; step <= 2; ++step)
    if (failed(interpreter.run(makeInputs(model, 1, step, 0.01), state)))
      return failure();
  return state;
}

/// Largest difference of two states' gradients and parameters, over 1 or the
/// largest value; infinite when their names differ.
static double difference(const TrainingState &a, const TrainingState &b) {
  double worst = 0;
  auto compare = [&](const TrainingState::Tensors &x,
                     const TrainingState::Tensors &y) {
    if (x.size() != y.size())
      worst = INFINITY;
    for (const auto &[name, tensor] : x) {
      auto other = y.find(name);
      if (other == y.end()) {
        worst = INFINITY;
        continue;
      }
      for (auto [p, q] : llvm::zip(tensor.data, other->second.data)) {
        double d = std::abs(p - q) / std::max(1.0, std::abs(q));
        worst = std::isnan(d) ? INFINITY : std::max(worst, d);
      }
    }
  };
  compare(a.gradients, b.gradients);
  compare(a.params, b.params);
  return worst;
}

static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  return text;
}

/// An empty string, or what is wrong with the model.
static std::string checkModel(const std::string &text, MLIRContext &context) {
  auto parse = [&](const std::string &source) {
    return parseSourceString<ModuleOp>(source, &context);
  };
  auto model = parse(text);
  if (!model || failed(runPasses(*model, "kerf-verify-ingest")))
    return "it is not valid";
  auto errors = checkGradients(modelOf(*model), 1, 3);
  if (failed(errors))
    return "its gradient cannot be built";
  for (const auto &[name, error] : *errors)
    if (!(error <= 1e-6))
      return "gradient of " + name + " differs from central differences by " +
             std::to_string(error);

  auto step = parse(text), unrolled = parse(text);
  if (failed(
          runPasses(*step, "kerf-differentiate,kerf-verify-differentiated")) ||
      failed(runPasses(*unrolled, "kerf-unroll-repeat,kerf-differentiate")))
    return "it cannot be differentiated";
  auto again = parse(print(*step));
  if (!again || print(*again) != print(*step))
    return "its step does not read back";
  auto split = parse(print(*step));
  if (failed(runPasses(*split, "kerf-split-repeat{at=1,3},"
                               "kerf-split-weight-gradient,"
                               "kerf-split-repeat{at=2},"
                               "kerf-verify-differentiated")))
    return "its repeats cannot be split";
  auto expected = train(*step), flat = train(*unrolled), parts = train(*split);
  if (failed(expected) || failed(flat) || failed(parts))
    return "its step does not run";
  if (double d = difference(*flat, *expected); !(d <= 1e-9))
    return "unrolled, it differs by " + std::to_string(d);
  if (double d = difference(*parts, *expected); !(d <= 1e-11))
    return "split, it differs by " + std::to_string(d);
  return "";
}

int main(int argc, char **argv) {
  int64_t count = argc > 1 ? std::atoll(argv[1]) : 20;
  int64_t seed = argc > 2 ? std::atoll(argv[2]) : 1;
  registerPasses();
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  int64_t wrong = 0;
  for (int64_t i = seed; i < seed + count; ++i) {
    std::string text = ModelWriter(i).write();
    std::string problem = checkModel(text, context);
    if (problem.empty())
      continue;
    ++wrong;
    llvm::errs() << "seed " << i << ": " << problem << "\n" << text;
  }
  llvm::outs() << count - wrong << " passed, " << wrong << " failed\n";
  return wrong != 0;
}
