//===- InspectInterpret.cpp - run models in the interpreter ---------------===//

#include "Inspect.h"

#include "kerf/Interpreter/Interpreter.h"
#include "kerf/Support/Safetensors.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir;
using namespace kerf;
using safetensors::File;

static LogicalResult fail(const llvm::Twine &message) {
  llvm::WithColor::error() << message << '\n';
  return failure();
}

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
  int64_t experts = hasExpert(name) ? type.getDimSize(0) : 1;
  llvm::ArrayRef<int64_t> shape = type.getShape();
  if (hasExpert(name))
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

static LogicalResult readWeights(ModelOp model, llvm::StringRef path,
                                 TrainingState &state) {
  auto file = openFile(path);
  if (failed(file))
    return failure();
  std::set<std::string> claimed;
  WalkResult walk = model.getBody().walk([&](ParamOp param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    bool own = repeat && param.isPerIteration();
    int64_t first = own ? repeat.getStart() : 0;
    int64_t last = own ? repeat.getEnd() : 1;
    for (int64_t i = first; i < last; ++i) {
      std::string name = expandName(param.getName(), i);
      auto type = typeOf(param.getResult());
      if (failed(readParam(*file, name, type, state, claimed)))
        return WalkResult::interrupt();
      if (param.getMaster()) {
        state.masters[name] = state.params[name];
        state.masters[name].type = withElement(type, *param.getMaster());
      }
    }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  for (const safetensors::TensorInfo &info : file->tensors())
    if (!claimed.count(info.name))
      return fail("tensor '" + info.name + "' is no parameter of the model");
  return success();
}

/// Replaces inputs that the file has a tensor for, by role.
static LogicalResult readInputs(ModelOp model, llvm::StringRef path,
                                std::vector<HostTensor> &inputs) {
  auto file = openFile(path);
  if (failed(file))
    return failure();
  for (auto [input, role] :
       llvm::zip(inputs, model.getRoles().getAsValueRange<StringAttr>())) {
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

/// What a returned value is called, from the op that makes it.
static llvm::StringRef labelOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<GlobalNormOp>(op))
    return "grad norm";
  if (isa_and_nonnull<CrossEntropyOp>(op))
    return "cross entropy";
  if (isa_and_nonnull<LoadBalanceLossOp>(op))
    return "load balance";
  return "value";
}

static LogicalResult runModel(ModelOp model, const InspectOptions &options) {
  if (failed(checkInterpretable(model)))
    return failure();
  Interpreter interpreter(model, {options.f64, options.seed});
  TrainingState state;
  if (!options.weights.empty() &&
      failed(readWeights(model, options.weights, state)))
    return failure();
  llvm::outs() << "model @" << model.getSymName() << '\n';
  for (int64_t step = 1; step <= options.steps; ++step) {
    auto inputs = makeInputs(model, options.seed, step, options.rate);
    if (!options.inputs.empty() &&
        failed(readInputs(model, options.inputs, inputs)))
      return failure();
    auto values = interpreter.run(inputs, state);
    if (failed(values))
      return failure();
    llvm::outs() << "  step " << step << "  loss "
                 << llvm::format("%.9g", values->front().data[0]);
    for (auto [value, result] :
         llvm::zip(llvm::drop_begin(*values),
                   llvm::drop_begin(model.getReturn().getValues())))
      if (value.size() == 1)
        llvm::outs() << "  " << labelOf(result)
                     << llvm::format(" %.9g", value.data[0]);
    llvm::outs() << '\n';
  }
  if (options.save.empty())
    return success();
  return saveState(state, options.f64, options.save);
}

LogicalResult kerf::inspectInterpret(ModuleOp module,
                                     const InspectOptions &options) {
  if (options.steps < 1)
    return fail("expected --steps >= 1");
  for (ModelOp model : module.getOps<ModelOp>())
    if (failed(runModel(model, options)))
      return failure();
  return success();
}
