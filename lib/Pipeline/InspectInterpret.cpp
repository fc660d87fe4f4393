//===- InspectInterpret.cpp - run models in the interpreter ---------------===//

#include "Fail.h"
#include "Inspect.h"

#include "kerf/Dialect/Kerf/Title.h"
#include "kerf/Interpreter/SpmdInterpreter.h"
#include "kerf/Support/Safetensors.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <set>

using namespace mlir;
using namespace kerf;
using safetensors::File;

static FailureOr<File> openFile(llvm::StringRef path) {
  std::string error;
  FailureOr<File> file = File::open(path, error);
  if (failed(file))
    return fail("cannot read '" + path + "': " + error);
  return file;
}

/// Values of one tensor of a file, which must have this shape.
static FailureOr<std::vector<double>>
readTensor(const File &file, llvm::StringRef name,
           llvm::ArrayRef<int64_t> shape) {
  const safetensors::TensorInfo *info = file.find(name);
  if (!info)
    return fail("tensor '" + name + "' is missing");
  if (llvm::ArrayRef<int64_t>(info->shape) != shape)
    return fail("tensor '" + name + "' has another shape than in the model");
  std::string error;
  auto values = file.readAsDouble(*info, error);
  if (failed(values))
    return fail("tensor '" + name + "': " + error);
  return *values;
}

/// Fills `state` with the parameter of one name from a file in which experts
/// are tensors of their own.
static LogicalResult readParam(const File &file, llvm::StringRef name,
                               RankedTensorType type, TrainingState &state,
                               std::set<std::string> &claimed) {
  HostTensor tensor(type);
  int64_t experts = isStacked(name) ? type.getDimSize(0) : 1;
  llvm::ArrayRef<int64_t> shape = type.getShape();
  if (isStacked(name))
    shape = shape.drop_front();
  auto to = tensor.data.begin();
  for (int64_t e = 0; e < experts; ++e) {
    std::string own = expandName(name, 0, e);
    claimed.insert(own);
    auto values = readTensor(file, own, shape);
    if (failed(values))
      return failure();
    to = std::copy(values->begin(), values->end(), to);
  }
  state.params[name.str()] = std::move(tensor);
  return success();
}

namespace {
/// A parameter and the iterations that read it.
struct ParamRange {
  llvm::StringRef name;
  RankedTensorType type;
  std::optional<Type> master;
  int64_t first, last;
};
} // namespace

static std::vector<ParamRange> paramsOf(ModelOp model) {
  std::vector<ParamRange> params;
  model.getBody().walk([&](ParamOp param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    bool own = repeat && param.isPerIteration();
    params.push_back({param.getName(), typeOf(param.getResult()),
                      param.getMaster(), own ? repeat.getStart() : 0,
                      own ? repeat.getEnd() : 1});
  });
  return params;
}

static std::vector<ParamRange>
paramsOf(llvm::ArrayRef<spmd::ProgramOp> programs) {
  std::vector<ParamRange> params;
  for (spmd::ProgramOp program : programs)
    for (auto param : program.getBody().getOps<spmd::ParamOp>())
      params.push_back(
          {param.getName(), cast<RankedTensorType>(param.getGlobal()),
           param.getMaster(), int64_t(param.getStart().value_or(0)),
           int64_t(param.getEnd().value_or(1))});
  return params;
}

static LogicalResult readWeights(llvm::ArrayRef<ParamRange> params,
                                 llvm::StringRef path, TrainingState &state) {
  auto file = openFile(path);
  if (failed(file))
    return failure();
  std::set<std::string> claimed;
  for (const ParamRange &param : params)
    for (int64_t i = param.first; i < param.last; ++i) {
      std::string name = expandName(param.name, i);
      if (failed(readParam(*file, name, param.type, state, claimed)))
        return failure();
      if (param.master) {
        state.masters[name] = state.params[name];
        state.masters[name].type = withElement(param.type, *param.master);
      }
    }
  for (const safetensors::TensorInfo &info : file->tensors())
    if (!claimed.count(info.name))
      return fail("tensor '" + info.name + "' is no parameter of the model");
  return success();
}

/// Replaces inputs that the file has a tensor for, by role.
static LogicalResult readInputs(llvm::ArrayRef<llvm::StringRef> roles,
                                llvm::StringRef path,
                                std::vector<HostTensor> &inputs) {
  auto file = openFile(path);
  if (failed(file))
    return failure();
  for (auto [input, role] : llvm::zip_equal(inputs, roles)) {
    if (role.empty() || !file->find(role))
      continue;
    auto values = readTensor(*file, role, input.shape());
    if (failed(values))
      return failure();
    input.data = std::move(*values);
  }
  return success();
}

static LogicalResult saveState(const TrainingState &state, bool f64,
                               llvm::StringRef path) {
  std::vector<safetensors::NamedTensor> tensors;
  auto dtype = f64 ? safetensors::DType::F64 : safetensors::DType::F32;
  auto append = [&](llvm::StringRef prefix,
                    const TrainingState::Tensors &from) {
    for (const auto &[name, tensor] : from)
      tensors.push_back({(prefix + name).str(), dtype,
                         llvm::SmallVector<int64_t>(tensor.shape()),
                         tensor.data});
  };
  append("param.", state.params);
  append("grad.", state.gradients);
  append("state.", state.optimizer);
  std::string error;
  if (failed(safetensors::write(path, tensors, {}, error)))
    return fail("cannot write '" + path + "': " + error);
  return success();
}

namespace {
/// A model or a program, as far as running it goes.
struct Runnable {
  llvm::StringRef name;
  std::vector<ParamRange> params;
  llvm::SmallVector<llvm::StringRef> roles, labels; ///< of inputs, results
  std::function<std::vector<HostTensor>(int64_t step)> makeInputs;
  std::function<FailureOr<std::vector<HostTensor>>(llvm::ArrayRef<HostTensor>,
                                                   TrainingState &)>
      run;
};
} // namespace

static LogicalResult runSteps(const Runnable &model,
                              const InspectOptions &options) {
  TrainingState state;
  if (!options.weights.empty() &&
      failed(readWeights(model.params, options.weights, state)))
    return failure();
  llvm::outs() << "model " << model.name << '\n';
  for (int64_t step = 1; step <= options.steps; ++step) {
    auto inputs = model.makeInputs(step);
    if (!options.inputs.empty() &&
        failed(readInputs(model.roles, options.inputs, inputs)))
      return failure();
    auto values = model.run(inputs, state);
    if (failed(values))
      return failure();
    llvm::outs() << "  step " << step << "  loss "
                 << llvm::format("%.9g", values->front().data[0]);
    for (auto [value, label] : llvm::zip_equal(llvm::drop_begin(*values),
                                               llvm::drop_begin(model.labels)))
      if (value.type && value.size() == 1)
        llvm::outs() << "  " << label << llvm::format(" %.9g", value.data[0]);
    llvm::outs() << '\n';
  }
  if (options.save.empty())
    return success();
  return saveState(state, options.f64, options.save);
}

static LogicalResult runModel(ModelOp model, const InspectOptions &options) {
  if (failed(checkInterpretable(model)))
    return failure();
  Interpreter interpreter(model, {options.f64, options.seed});
  Runnable runnable;
  runnable.name = titleOf(model);
  runnable.params = paramsOf(model);
  llvm::append_range(runnable.roles,
                     model.getRoles().getAsValueRange<StringAttr>());
  for (Value value : model.getReturn().getValues())
    runnable.labels.push_back(getResultLabel(value));
  runnable.makeInputs = [&](int64_t step) {
    return makeInputs(model, options.seed, step, options.rate);
  };
  runnable.run = [&](llvm::ArrayRef<HostTensor> inputs, TrainingState &state) {
    return interpreter.run(inputs, state);
  };
  return runSteps(runnable, options);
}

static LogicalResult runPrograms(llvm::ArrayRef<spmd::ProgramOp> programs,
                                 const InspectOptions &options) {
  if (failed(checkInterpretable(programs)))
    return failure();
  SpmdInterpreter interpreter(programs, {options.f64, options.seed});
  Runnable runnable;
  spmd::ProgramOp first = programs.front();
  auto title = first->getAttrOfType<StringAttr>(kTitleAttrName);
  runnable.name = title ? title.getValue() : first.getSymName();
  runnable.params = paramsOf(programs);
  for (spmd::InputOp input : getInputs(programs))
    runnable.roles.push_back(input.getRole());
  for (spmd::OutputOp output : getOutputs(programs))
    runnable.labels.push_back(output.getLabel().value_or("value"));
  runnable.makeInputs = [&](int64_t step) {
    return makeInputs(programs, options.seed, step, options.rate);
  };
  runnable.run = [&](llvm::ArrayRef<HostTensor> inputs, TrainingState &state) {
    return interpreter.run(inputs, state, "train");
  };
  return runSteps(runnable, options);
}

LogicalResult kerf::inspectInterpret(ModuleOp module,
                                     const InspectOptions &options) {
  if (options.steps < 1)
    return fail("expected --steps >= 1");
  for (ModelOp model : module.getOps<ModelOp>())
    if (failed(runModel(model, options)))
      return failure();
  for (const auto &programs : getPipelines(module))
    if (failed(runPrograms(programs, options)))
      return failure();
  return success();
}
