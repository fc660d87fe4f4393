#include "kerf/Interpreter/CompareTraining.h"

#include "kerf/Dialect/Kerf/Metrics.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Training
//===----------------------------------------------------------------------===//

void kerf::ignoreTargets(llvm::StringRef role, int64_t step,
                         HostTensor &input) {
  if (role != "targets")
    return;
  for (int64_t i = 0; i < input.size(); ++i)
    if (i % 7 == 3 || (step % 2 == 0 && i < input.size() / 5))
      input.data[i] = -100;
}

/// Expanded names, each once, in the order in which the model reads them.
static std::vector<std::string> paramsOf(ModelOp model) {
  std::vector<std::string> names;
  model.getBody().walk([&](ParamOp param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    bool own = repeat && param.isPerIteration();
    for (int64_t i = own ? repeat.getStart() : 0,
                 end = own ? repeat.getEnd() : 1;
         i < end; ++i)
      if (std::string name = expandName(param.getName(), i);
          !llvm::is_contained(names, name))
        names.push_back(name);
  });
  return names;
}

static constexpr llvm::StringLiteral kNorm = "grad_norm";

/// The names that outputs of a model's programs have.
static std::vector<std::string> outputsOf(ModelOp model) {
  std::vector<std::string> names;
  ReturnOp end = model.getReturn();
  for (unsigned i = 0; i < end.getValues().size(); ++i)
    names.push_back(end.getOutputName(i));
  return names;
}

/// "expert_load LAYER" for each layer of a count; other names as they are.
static std::vector<std::string> partsOf(llvm::StringRef name) {
  std::optional<LayerMetric> metric = parseLayerMetric(name);
  if (!metric)
    return {name.str()};
  std::vector<std::string> names;
  for (int64_t i = metric->start; i < metric->end; ++i)
    names.push_back((metric->kind + " " + expandName(metric->layers, i)).str());
  return names;
}

/// A count of layers that stages have parts of; one rank need not make it.
static bool isCount(llvm::StringRef name) {
  return name.starts_with(kExpertLoad) || name.starts_with(kExpertRows);
}

/// Enters an output, each layer of a count by itself.
static void noteOutput(TrainingState::Tensors &outputs, llvm::StringRef name,
                       const HostTensor &value) {
  std::vector<std::string> parts = partsOf(name);
  if (!isCount(name)) {
    outputs.try_emplace(parts.front(), value);
    return;
  }
  auto each = int64_t(value.data.size() / parts.size());
  for (auto [i, part] : llvm::enumerate(parts)) {
    HostTensor layer = value;
    layer.type = RankedTensorType::get(each, value.type.getElementType());
    auto begin = value.data.begin() + i * each;
    layer.data.assign(begin, begin + each);
    outputs.try_emplace(part, layer);
  }
}

/// Keeps what a step returned; an output that is not written has no type.
static void note(TrainingRun &training, llvm::ArrayRef<std::string> names,
                 llvm::ArrayRef<HostTensor> values,
                 const TrainingState &state) {
  auto &outputs = training.outputs.emplace_back();
  for (auto [name, value] : llvm::zip_equal(names, values))
    if (value.type)
      noteOutput(outputs, name, value);
  training.gradients.push_back(state.gradients);
  training.params.push_back(state.params);
}

/// Trains; before the last step parameters move by `moves` of their size.
static TrainingRun train(ModelOp model, const TrainingData &data,
                         double moves) {
  TrainingRun training;
  training.names = paramsOf(model);
  std::vector<std::string> names = outputsOf(model);
  for (const std::string &name : names)
    llvm::append_range(training.outputNames, partsOf(name));
  model.getBody().walk([&](UpdateOp update) {
    training.stepsBySign |= isa<LionAttr>(update.getRule());
  });
  Interpreter interpreter(model, {/*f64=*/true, data.seed});
  TrainingState state;
  for (int64_t number = 1; number <= data.steps; ++number) {
    auto inputs = makeInputs(model, data.seed, number, data.rate);
    for (auto [role, input] :
         llvm::zip(model.getRoles().getAsValueRange<StringAttr>(), inputs))
      ignoreTargets(role, number, input);
    if (number == data.steps && moves != 0)
      for (auto &[name, tensor] : state.params)
        for (auto [i, x] : llvm::enumerate(tensor.data))
          x *= 1 + (i % 3 - 1.0) * moves;
    auto values = interpreter.run(inputs, state);
    if (failed(values))
      return training;
    note(training, names, *values, state);
  }
  training.ran = true;
  return training;
}

TrainingRun kerf::trainStep(ModelOp step, const TrainingData &data) {
  return train(step, data, 0);
}

TrainingRun kerf::trainPrograms(llvm::ArrayRef<spmd::ProgramOp> programs,
                                const TrainingData &data) {
  TrainingRun training;
  SpmdInterpreter interpreter(programs, {/*f64=*/true, data.seed});
  TrainingState state;
  std::vector<std::string> outputs;
  for (spmd::OutputOp output : getOutputs(programs))
    outputs.push_back(output.getSymName().str());
  auto declared = getInputs(programs);
  for (int64_t number = 1; number <= data.steps; ++number) {
    auto inputs = makeInputs(programs, data.seed, number, data.rate);
    for (auto [input, value] : llvm::zip(declared, inputs))
      ignoreTargets(input.getRole(), number, value);
    auto values = interpreter.run(inputs, state, "train");
    if (failed(values))
      return training;
    note(training, outputs, *values, state);
  }
  training.ran = true;
  return training;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

static double largestIn(const TrainingState::Tensors &tensors) {
  double most = 0;
  for (const auto &[name, tensor] : tensors)
    for (double x : tensor.data)
      most = std::max(most, std::abs(x));
  return most;
}

/// max|a - b| / max(max|b|, least); infinite for other shapes.
static double errorOf(const HostTensor &a, const HostTensor &b, double least) {
  if (a.shape() != b.shape())
    return INFINITY;
  double difference = 0, scale = least;
  for (auto [x, y] : llvm::zip_equal(a.data, b.data)) {
    double error = std::abs(x - y);
    difference = std::max(difference, std::isnan(error) ? INFINITY : error);
    scale = std::max(scale, std::abs(y));
  }
  return difference / scale;
}

namespace {
using Describe = llvm::function_ref<std::string(llvm::StringRef name)>;

/// Collects differences.
struct Comparer {
  double tolerance;
  int64_t step = 0;
  TrainingComparison result = {};

  TrainingDifference::Kind kind = TrainingDifference::Output;

  void see(std::string what, double error, llvm::StringRef name) {
    if (std::isnan(error))
      error = INFINITY;
    if (error > result.largest.error)
      result.largest = {what, error, step, kind, name.str()};
    if (error > tolerance)
      result.wrong.push_back({std::move(what), error, step, kind, name.str()});
  }

  /// Tensors of these names.
  void seeTensors(const TrainingState::Tensors &actual,
                  const TrainingState::Tensors &expected,
                  llvm::ArrayRef<std::string> names, double least,
                  Describe describe) {
    for (const std::string &name : names) {
      auto b = expected.find(name), a = actual.find(name);
      if (b == expected.end())
        continue;
      see(describe(name),
          a == actual.end() ? INFINITY : errorOf(a->second, b->second, least),
          name);
    }
  }

  void seeMore(const TrainingState::Tensors &actual,
               const TrainingState::Tensors &expected, Describe describe) {
    for (const auto &[name, tensor] : actual)
      if (!expected.count(name) && !isCount(name))
        see(describe(name), INFINITY, name);
  }

  void seeParams(llvm::StringRef kind, const TrainingState::Tensors &actual,
                 const TrainingState::Tensors &expected,
                 llvm::ArrayRef<std::string> names) {
    auto describe = [&](llvm::StringRef name) {
      return ("the " + kind + " of \"" + name + "\"").str();
    };
    seeTensors(actual, expected, names, 1e-5 * largestIn(expected) + 1e-9,
               describe);
    seeMore(actual, expected, describe);
  }
};
} // namespace

static std::string describeOutput(llvm::StringRef name) {
  if (name == "loss")
    return "the loss";
  if (name == kNorm)
    return "the norm of the gradient";
  return ("the output \"" + name + "\"").str();
}

/// Makes elements of parameters equal whose gradient is rounding beside the
/// largest of all. True if any was not.
static bool settleSigns(TrainingState::Tensors &actual,
                        const TrainingState::Tensors &expected,
                        const TrainingState::Tensors &gradients) {
  double least = 1e-12 * largestIn(gradients);
  bool differs = false;
  for (const auto &[name, gradient] : gradients) {
    auto a = actual.find(name);
    auto b = expected.find(name);
    if (a == actual.end() || b == expected.end() ||
        a->second.shape() != b->second.shape())
      continue;
    for (auto [g, x, y] :
         llvm::zip(gradient.data, a->second.data, b->second.data))
      if (std::abs(g) <= least && x != y) {
        differs |= std::abs(x - y) > kTrainingTolerance;
        x = y;
      }
  }
  return differs;
}

TrainingComparison kerf::compareTraining(const TrainingRun &actual,
                                         const TrainingRun &expected,
                                         double tolerance) {
  Comparer comparer{tolerance};
  // The norm comes of the gradients: where one is wrong, that one is to blame.
  std::vector<std::string> early = expected.outputNames, norm = {kNorm.str()};
  llvm::erase(early, kNorm);
  for (size_t i = 0; i < actual.outputs.size(); ++i) {
    comparer.step = i + 1;
    comparer.kind = TrainingDifference::Output;
    comparer.seeTensors(actual.outputs[i], expected.outputs[i], early, 1,
                        describeOutput);
    comparer.seeMore(actual.outputs[i], expected.outputs[i], describeOutput);
    comparer.kind = TrainingDifference::Gradient;
    comparer.seeParams("gradient", actual.gradients[i], expected.gradients[i],
                       expected.names);
    comparer.kind = TrainingDifference::Output;
    comparer.seeTensors(actual.outputs[i], expected.outputs[i], norm, 1,
                        describeOutput);
    comparer.kind = TrainingDifference::Parameter;
    TrainingState::Tensors params = actual.params[i];
    bool parted =
        expected.stepsBySign &&
        settleSigns(params, expected.params[i], expected.gradients[i]);
    comparer.seeParams("parameter", params, expected.params[i], expected.names);
    if (parted)
      break;
  }
  ++comparer.step;
  if (!actual.ran)
    comparer.see("the end of the run", INFINITY, "");
  return std::move(comparer.result);
}

double kerf::noiseOf(ModelOp step, const TrainingData &data) {
  TrainingRun moved = train(step, data, 0x1p-50);
  return compareTraining(moved, trainStep(step, data)).largest.error;
}

bool kerf::isNoise(double error, ModelOp step, const TrainingData &data) {
  return error <= 1e-3 && error <= 1e4 * noiseOf(step, data);
}
