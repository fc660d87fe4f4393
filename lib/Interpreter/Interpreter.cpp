#include "kerf/Interpreter/Interpreter.h"

#include "Updates.h"

#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Dialect/Kerf/Random.h"

#include "llvm/ADT/DenseMap.h"

#include <cmath>
#include <cstdio>

using namespace mlir;
using namespace kerf;

namespace {
using TensorRef = std::shared_ptr<const HostTensor>;
using Environment = llvm::DenseMap<Value, TensorRef>;
} // namespace

struct Interpreter::Impl {
  OwningOpRef<ModuleOp> module;
  ModelOp model;
  InterpreterOptions options;
  UpdateRules rules;

  LogicalResult runBlock(Block &block, Environment &env, int64_t iteration,
                         TrainingState &state);
  LogicalResult runOp(Operation &op, Environment &env, int64_t iteration,
                      TrainingState &state);
  LogicalResult runRepeat(RepeatOp repeat, Environment &env,
                          TrainingState &state);
  LogicalResult runCheck(CheckCloseOp check, Environment &env);
  LogicalResult readParam(ParamOp param, int64_t iteration, Environment &env,
                          TrainingState &state);
  LogicalResult applyUpdate(UpdateOp update, Environment &env,
                            TrainingState &before, TrainingState &after);
  LogicalResult updateOne(UpdateOp update, llvm::StringRef name,
                          HostTensor gradient, Environment &env,
                          TrainingState &before, TrainingState &after);
  void evaluate(EvaluateOpInterface op, Environment &env);

  void round(HostTensor &tensor) { roundTensor(tensor, options.f64); }
  TensorRef keep(HostTensor tensor) {
    return std::make_shared<const HostTensor>(std::move(tensor));
  }
};

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static double initialElement(InitAttr init, uint64_t stream, int64_t index) {
  switch (init.getKind()) {
  case InitKind::Zeros:
    return 0;
  case InitKind::Ones:
    return 1;
  case InitKind::Constant:
    return init.getValue();
  case InitKind::Normal:
    return init.getValue() * normalAt(stream, index);
  case InitKind::Uniform:
    return init.getValue() * (2 * uniformAt(stream, index) - 1);
  case InitKind::Nf4:
    return std::floor(256 * uniformAt(stream, index)) - 128;
  }
  llvm_unreachable("covered switch");
}

HostTensor kerf::initialValue(InitAttr init, RankedTensorType type,
                              llvm::StringRef name, int64_t seed, bool f64) {
  HostTensor tensor(type);
  // Each checkpoint tensor has a stream of its own, also inside a stack.
  int64_t experts = isStacked(name) ? type.getDimSize(0) : 1;
  int64_t size = tensor.size() / std::max<int64_t>(experts, 1);
  for (int64_t e = 0; e < experts; ++e) {
    uint64_t stream = randomStream(seed, 0, -1, expandName(name, 0, e));
    for (int64_t i = 0; i < size; ++i)
      tensor.data[e * size + i] = roundToType(initialElement(init, stream, i),
                                              type.getElementType(), f64);
  }
  return tensor;
}

/// Fills `state` with the first value of a parameter.
static void initialize(ParamOp param, const std::string &name,
                       const InterpreterOptions &options,
                       TrainingState &state) {
  auto type = typeOf(param.getResult());
  std::optional<Type> master = param.getMaster();
  auto fullType = master ? withElement(type, *master) : type;
  HostTensor full =
      initialValue(param.getInit(), fullType, name, options.seed, options.f64);
  if (master)
    state.masters[name] = full;
  full.type = type;
  roundToType(full.data, type.getElementType(), options.f64);
  state.params[name] = std::move(full);
}

LogicalResult Interpreter::Impl::readParam(ParamOp param, int64_t iteration,
                                           Environment &env,
                                           TrainingState &state) {
  std::string name = expandName(param.getName(), iteration);
  if (!state.params.count(name))
    initialize(param, name, options, state);
  const HostTensor &value = state.params[name];
  auto type = typeOf(param.getResult());
  // Patterns differ, yet "h.{i}.w" and "h.0.w" may name one parameter.
  if (value.shape() != type.getShape())
    return param.emitOpError() << "reads \"" << name << "\" as " << type
                               << ", which is " << value.type << " elsewhere";
  env[param.getResult()] = keep(value);
  return success();
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

LogicalResult
Interpreter::Impl::updateOne(UpdateOp update, llvm::StringRef name,
                             HostTensor gradient, Environment &env,
                             TrainingState &before, TrainingState &after) {
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  RankedTensorType type = gradient.type;
  auto known = before.params.find(name.str());
  if (known == before.params.end() || known->second.shape() != type.getShape())
    return update.emitOpError()
           << "of \"" << name << "\", which the model does not read as "
           << type;
  after.gradients[name.str()] = gradient;
  if (update.getCondition() && env[update.getCondition()]->data[0] == 0)
    return success();
  bool hasMaster = before.masters.count(name.str());
  UpdateRules::Operands operands;
  operands.param = (hasMaster ? before.masters : before.params)[name.str()];
  operands.gradient = std::move(gradient);
  auto states = rule.getStates(type);
  for (const StateTensor &facts : states)
    operands.state.push_back(stateOr(
        before.optimizer[(name + "." + facts.name).str()], facts, type));
  if (update.getScale())
    operands.scale = env[update.getScale()]->data[0];
  operands.rate = env[update.getRate()]->data[0];
  operands.step = env[update.getStep()]->data[0];
  auto results = rules
                     .apply(
                         update, type.getShape(), {operands}, [](auto, auto) {},
                         options.f64)
                     .front();
  if (hasMaster)
    after.masters[name.str()] = results[0];
  HostTensor updated = results[0];
  updated.type = before.params[name.str()].type;
  round(updated);
  after.params[name.str()] = std::move(updated);
  for (auto [facts, value] : llvm::zip(states, llvm::drop_begin(results)))
    after.optimizer[(name + "." + facts.name).str()] = value;
  return success();
}

LogicalResult Interpreter::Impl::applyUpdate(UpdateOp update, Environment &env,
                                             TrainingState &before,
                                             TrainingState &after) {
  const HostTensor &gradient = *env[update.getGradient()];
  if (!update.getStart())
    return updateOne(update, update.getName(), gradient, env, before, after);
  for (int64_t i = *update.getStart(); i < *update.getEnd(); ++i)
    if (failed(updateOne(update, expandName(update.getName(), i),
                         sliceOf(gradient, i - *update.getStart()), env, before,
                         after)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void Interpreter::Impl::evaluate(EvaluateOpInterface op, Environment &env) {
  llvm::SmallVector<const HostTensor *> operands;
  for (Value operand : op->getOperands())
    operands.push_back(env[operand].get());
  auto results = evaluatePlain(op, operands, options.f64);
  for (auto [value, tensor] : llvm::zip(op->getResults(), results))
    env[value] = keep(std::move(tensor));
}

/// Nine digits tell two f32 apart.
static std::string digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

LogicalResult Interpreter::Impl::runCheck(CheckCloseOp check,
                                          Environment &env) {
  const HostTensor &actual = *env[check.getActual()];
  const HostTensor &expected = *env[check.getExpected()];
  double scale = 1;
  for (double x : expected.data)
    if (std::isfinite(x))
      scale = std::max(scale, std::abs(x));
  double bound = check.getTolerance().convertToDouble() * scale;
  for (int64_t i = 0; i < actual.size(); ++i) {
    double a = actual.data[i], e = expected.data[i];
    bool same =
        a == e || (std::isnan(a) && std::isnan(e)) || std::abs(a - e) <= bound;
    if (!same)
      return check.emitOpError()
             << "failed at element " << i << ": found " << digits(a)
             << ", expected " << digits(e) << " within " << digits(bound);
  }
  return success();
}

LogicalResult Interpreter::Impl::runRepeat(RepeatOp repeat, Environment &env,
                                           TrainingState &state) {
  int64_t count = repeat.getCount(), start = repeat.getStart();
  llvm::SmallVector<TensorRef> carried;
  for (Value init : repeat.getInits())
    carried.push_back(env[init]);
  llvm::SmallVector<HostTensor> stacks;
  for (Value result : repeat.getStackResults())
    stacks.emplace_back(typeOf(result));
  YieldOp yield = repeat.getYield();
  for (int64_t n = 0; n < count; ++n) {
    int64_t at = repeat.getReverse() ? count - 1 - n : n;
    HostTensor index(typeOf(repeat.getIndex()));
    index.data[0] = start + at;
    env[repeat.getIndex()] = keep(index);
    for (auto [arg, value] : llvm::zip(repeat.getCarryArgs(), carried))
      env[arg] = value;
    for (auto [arg, stack] :
         llvm::zip(repeat.getSliceArgs(), repeat.getSlices()))
      env[arg] = keep(sliceOf(*env[stack], at));
    if (failed(runBlock(repeat.getBody().front(), env, start + at, state)))
      return failure();
    for (auto [value, yielded] : llvm::zip(carried, yield.getCarried()))
      value = env[yielded];
    for (auto [stack, yielded] : llvm::zip(stacks, yield.getStacked()))
      llvm::copy(env[yielded]->data,
                 stack.data.begin() + at * env[yielded]->size());
  }
  for (auto [result, value] : llvm::zip(repeat.getCarryResults(), carried))
    env[result] = value;
  for (auto [result, stack] : llvm::zip(repeat.getStackResults(), stacks))
    env[result] = keep(std::move(stack));
  return success();
}

LogicalResult Interpreter::Impl::runOp(Operation &op, Environment &env,
                                       int64_t iteration,
                                       TrainingState &state) {
  if (auto param = dyn_cast<ParamOp>(op))
    return readParam(param, iteration, env, state);
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return runRepeat(repeat, env, state);
  if (auto check = dyn_cast<CheckCloseOp>(op))
    return runCheck(check, env);
  if (isa<UpdateOp, YieldOp, ReturnOp>(op))
    return success();
  auto plain = dyn_cast<EvaluateOpInterface>(op);
  if (!plain)
    return op.emitOpError(
        "has no meaning: it neither decomposes nor evaluates");
  evaluate(plain, env);
  return success();
}

LogicalResult Interpreter::Impl::runBlock(Block &block, Environment &env,
                                          int64_t iteration,
                                          TrainingState &state) {
  for (Operation &op : block)
    if (failed(runOp(op, env, iteration, state)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Interpreter::Interpreter(ModelOp model, InterpreterOptions options)
    : impl(std::make_unique<Impl>()) {
  impl->options = options;
  impl->module = ModuleOp::create(model.getLoc());
  Operation *copy = model->clone();
  impl->module->push_back(copy);
  impl->model = cast<ModelOp>(copy);
  decomposeAll(copy);
}

Interpreter::~Interpreter() = default;

FailureOr<std::vector<HostTensor>>
Interpreter::run(llvm::ArrayRef<HostTensor> inputs, TrainingState &state) {
  Environment env;
  Block &body = impl->model.getBody().front();
  assert(inputs.size() == body.getNumArguments() && "one value per input");
  for (auto [arg, input] : llvm::zip(body.getArguments(), inputs)) {
    HostTensor value = input;
    impl->round(value);
    env[arg] = impl->keep(std::move(value));
  }
  if (failed(impl->runBlock(body, env, 0, state)))
    return failure();
  // All reads are done: updates see the state before the step.
  TrainingState after;
  for (UpdateOp update : body.getOps<UpdateOp>())
    if (failed(impl->applyUpdate(update, env, state, after)))
      return failure();
  auto move = [](TrainingState::Tensors &to, TrainingState::Tensors &from) {
    for (auto &[name, value] : from)
      to[name] = std::move(value);
  };
  move(state.params, after.params);
  move(state.masters, after.masters);
  move(state.optimizer, after.optimizer);
  state.gradients = std::move(after.gradients);
  std::vector<HostTensor> results;
  for (Value value : impl->model.getReturn().getValues())
    results.push_back(*env[value]);
  return results;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

HostTensor kerf::makeInput(RankedTensorType type, llvm::StringRef role,
                           int64_t number, int64_t vocabulary, int64_t seed,
                           int64_t step, double rate) {
  HostTensor tensor(type);
  if (!role.empty()) // tokens and targets come first, wherever they are
                     // declared
    number = role == "targets" ? 1 : 0;
  uint64_t stream = randomStream(seed, step, number, role);
  int64_t length = tensor.type.getRank() ? tensor.shape().back() : 1;
  if (vocabulary == 0)
    vocabulary = 16;
  bool isFloat = isa<FloatType>(tensor.type.getElementType());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t column = length ? i % length : 0;
    int64_t document = length / 2; // two documents per sequence
    if (role == "step")
      tensor.data[i] = step;
    else if (role == "learning_rate")
      tensor.data[i] = rate;
    else if (role == "loss_scale")
      tensor.data[i] = 1024;
    else if (role == "seed")
      tensor.data[i] = seed;
    else if (role == "segments")
      tensor.data[i] = column >= document;
    else if (role == "positions")
      tensor.data[i] = column >= document ? column - document : column;
    else if (isFloat)
      tensor.data[i] = normalAt(stream, i);
    else
      tensor.data[i] = std::floor(uniformAt(stream, i) * vocabulary);
  }
  return tensor;
}

std::vector<HostTensor> kerf::makeInputs(ModelOp model, int64_t seed,
                                         int64_t step, double rate) {
  std::vector<HostTensor> inputs;
  for (auto [input, role] :
       llvm::zip(model.getBody().getArguments(),
                 model.getRoles().getAsValueRange<StringAttr>()))
    inputs.push_back(makeInput(typeOf(input), role, input.getArgNumber(),
                               getVocabulary(input), seed, step, rate));
  return inputs;
}
