//===- InspectGradients.cpp - gradients against central differences -------===//
//===----------------------------------------------------------------------===//

#include "Inspect.h"

#include "kerf/Dialect/Kerf/Random.h"
#include "kerf/Dialect/Kerf/Title.h"
#include "kerf/Differentiate/Passes.h"
#include "kerf/Interpreter/Interpreter.h"
#include "kerf/Pipeline/GradientCheck.h"
#include "kerf/Support/Screen.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cmath>

using namespace mlir;
using namespace kerf;

namespace {
/// A model and its training step, on the same inputs.
struct GradientCheck {
  Interpreter &loss;
  std::vector<HostTensor> inputs;
  TrainingState state; ///< parameters at the point of the check

  FailureOr<double> lossAt(const std::string &name, int64_t element,
                           double value) {
    double &entry = state.params[name].data[element];
    double before = entry;
    entry = value;
    TrainingState copy;
    copy.params = state.params;
    auto values = loss.run(inputs, copy);
    entry = before;
    if (failed(values))
      return failure();
    return values->front().data[0];
  }

  /// |numeric - analytic| of one element, with the best of three steps: a small
  /// step suffers from rounding, a large one from higher derivatives, a wrong
  /// gradient from neither. NaN where a loss is.
  FailureOr<double> errorAt(const std::string &name, int64_t element,
                            double gradient) {
    double x = state.params[name].data[element], best = INFINITY;
    for (double h : {1e-5, 1e-6, 1e-4}) {
      auto up = lossAt(name, element, x + h);
      auto down = lossAt(name, element, x - h);
      if (failed(up) || failed(down))
        return failure();
      double error = std::abs((*up - *down) / (2 * h) - gradient);
      if (std::isnan(error))
        return error;
      best = std::min(best, error);
      if (best <= 1e-9)
        break;
    }
    return best;
  }

  /// Largest |numeric - analytic| over `samples` elements of a parameter.
  FailureOr<double> errorOf(const std::string &name, const HostTensor &gradient,
                            int64_t samples) {
    double worst = 0;
    int64_t count = std::min(samples, gradient.size());
    for (int64_t n = 0; n < count; ++n) {
      int64_t element = count == gradient.size()
                            ? n
                            : mixBits(hashName(name) + n) % gradient.size();
      auto found = errorAt(name, element, gradient.data[element]);
      if (failed(found))
        return failure();
      double error = *found;
      worst = std::isnan(error) ? error : std::max(worst, error);
    }
    return worst;
  }
};
} // namespace

static double largest(const HostTensor &tensor) {
  double max = 0;
  for (double x : tensor.data)
    max = std::max(max, std::abs(x));
  return max;
}

FailureOr<std::map<std::string, double>>
kerf::checkGradients(ModelOp model, int64_t seed, int64_t samples,
                     const GradientWatch &watch) {
  if (failed(checkInterpretable(model)))
    return failure();
  OwningOpRef<ModuleOp> module = ModuleOp::create(model.getLoc());
  auto step = cast<ModelOp>(model->clone());
  module->push_back(step);
  step->setAttr("optimizer", SGDAttr::get(model.getContext(), 0, false, 0));
  step->removeAttr("clip_norm");
  if (failed(differentiate(step)) || failed(checkInterpretable(step)))
    return failure();

  InterpreterOptions f64{true, seed};
  Interpreter loss(model, f64), training(step, f64);
  GradientCheck check{loss, makeInputs(model, seed, 1, 0), {}};
  TrainingState state;
  if (failed(loss.run(check.inputs, state)))
    return failure();
  check.state.params = state.params;
  if (failed(training.run(makeInputs(step, seed, 1, 0), state)))
    return failure();
  if (watch.begin)
    watch.begin(static_cast<int64_t>(state.gradients.size()));
  std::map<std::string, double> errors;
  for (const auto &[name, gradient] : state.gradients) {
    auto error = check.errorOf(name, gradient, samples);
    if (failed(error))
      return failure();
    errors[name] = *error / std::max(largest(gradient), 1e-3);
    if (watch.parameter)
      watch.parameter(name, errors[name]);
  }
  return errors;
}

static LogicalResult checkModel(ModelOp model, const InspectOptions &options) {
  bool passed = true;
  GradientWatch watch;
  using Clock = std::chrono::steady_clock;
  Clock::time_point before;
  int64_t left = 0, done = 0;
  watch.begin = [&](int64_t parameters) { left = parameters; };
  // By the second parameter, since the first losses touch memory first: how
  // long the others will take.
  auto tellRest = [&] {
    constexpr double longSec = 30;
    std::chrono::duration<double> last = Clock::now() - before;
    before = Clock::now();
    if (double sec = double(left) * last.count(); done == 2 && sec > longSec)
      llvm::WithColor::note(llvm::errs())
          << left << " parameters more, about " << report::seconds(sec)
          << "; --samples=1 tries one element of each\n";
  };
  watch.parameter = [&](const std::string &name, double error) {
    bool close = error <= options.tolerance; // false for NaN
    passed &= close;
    llvm::outs() << "  " << (close ? "ok    " : "WRONG ")
                 << llvm::format("%8.1e  ", error) << name << '\n';
    llvm::outs().flush();
    --left;
    ++done;
    tellRest();
  };
  llvm::outs() << "model " << titleOf(model) << '\n';
  llvm::outs().flush();
  auto errors = checkGradients(model, options.seed, options.samples, watch);
  if (failed(errors))
    return failure();
  if (passed && !errors->empty())
    return success();
  return model.emitOpError("has gradients that differ from central "
                           "differences");
}

LogicalResult kerf::inspectGradients(ModuleOp module,
                                     const InspectOptions &options) {
  for (ModelOp model : module.getOps<ModelOp>())
    if (failed(checkModel(model, options)))
      return failure();
  return success();
}
