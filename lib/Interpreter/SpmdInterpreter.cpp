#include "kerf/Interpreter/SpmdInterpreter.h"

#include "Shards.h"
#include "Updates.h"
#include "kerf/Dialect/Kerf/Decompose.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

namespace {
using TensorRef = std::shared_ptr<const HostTensor>;
/// One tensor per rank.
using Ranks = llvm::SmallVector<TensorRef>;
using Environment = llvm::DenseMap<Value, Ranks>;
/// Shards by expanded parameter name, one per rank.
using Shards = std::map<std::string, llvm::SmallVector<HostTensor>>;
} // namespace

struct SpmdInterpreter::Impl {
  OwningOpRef<ModuleOp> module;
  spmd::ProgramOp program;
  InterpreterOptions options;
  int64_t ranks = 1;
  UpdateRules rules;

  // Of the present step.
  Shards params, masters, optimizer, gradients;
  std::map<std::string, Ranks> inputs; ///< all micro-batches of each rank
  std::map<std::pair<std::string, int64_t>, Ranks> buffers; ///< by slot
  // Of the present call.
  int64_t micro = 0;
  bool isFirst = true;

  LogicalResult runSchedule(spmd::ScheduleOp schedule);
  LogicalResult runBlock(Block &block, Environment &env, int64_t iteration);
  LogicalResult runOp(Operation &op, Environment &env, int64_t iteration);
  LogicalResult runRepeat(RepeatOp repeat, Environment &env);
  LogicalResult runFused(spmd::FusedOp fused, Environment &env);
  LogicalResult runPlain(EvaluateOpInterface op, Environment &env);
  bool runCollective(Operation &op, Environment &env);
  LogicalResult runRead(spmd::ReadOp read, Environment &env);
  void runStore(Operation &op, Environment &env);
  LogicalResult readParam(ParamOp param, int64_t iteration, Environment &env);
  void runUpdate(UpdateOp update, Environment &env);
  void updateOne(UpdateOp update, const std::string &name, int64_t rank,
                 HostTensor gradient, Environment &env);

  void cutState(TrainingState &state);
  void initialize(spmd::ParamOp param, const std::string &name,
                  TrainingState &state);
  LogicalResult joinState(TrainingState &state);
  FailureOr<std::vector<HostTensor>> joinOutputs();

  Place placeOf(int64_t rank) { return {program, rank, micro}; }
  int64_t slotOf(Operation *target) {
    auto buffer = dyn_cast<spmd::BufferOp>(target);
    bool isSlot = buffer && buffer.getKind() == spmd::BufferKind::Slot;
    return isSlot ? micro % program.getSlots() : 0;
  }
  TensorRef keep(HostTensor tensor) {
    return std::make_shared<const HostTensor>(std::move(tensor));
  }
  /// One value per rank from a function of the rank.
  Ranks each(llvm::function_ref<HostTensor(int64_t)> body) {
    Ranks values;
    for (int64_t rank = 0; rank < ranks; ++rank)
      values.push_back(keep(body(rank)));
    return values;
  }
};

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

static std::pair<int64_t, int64_t> rangeOf(spmd::ParamOp param) {
  if (!param.getStart())
    return {0, 1};
  return {*param.getStart(), *param.getEnd()};
}

void SpmdInterpreter::Impl::initialize(spmd::ParamOp param,
                                       const std::string &name,
                                       TrainingState &state) {
  auto type = cast<RankedTensorType>(param.getGlobal());
  std::optional<Type> master = param.getMaster();
  HostTensor full =
      initialValue(param.getInit(), master ? withElement(type, *master) : type,
                   name, options.seed, options.f64);
  if (master)
    state.masters[name] = full;
  full.type = type;
  roundTensor(full, options.f64);
  state.params[name] = std::move(full);
}

void SpmdInterpreter::Impl::cutState(TrainingState &state) {
  auto cut = [&](const TrainingState::Tensors &from, const std::string &name,
                 spmd::ParamOp param, Shards &to) {
    auto known = from.find(name);
    if (known == from.end())
      return;
    for (int64_t rank = 0; rank < ranks; ++rank)
      to[name].push_back(
          takeShard(known->second, param.getCut(), placeOf(rank)));
  };
  for (spmd::ParamOp param : program.getBody().getOps<spmd::ParamOp>()) {
    auto [start, end] = rangeOf(param);
    for (int64_t i = start; i < end; ++i) {
      std::string name = expandName(param.getName(), i);
      if (!state.params.count(name))
        initialize(param, name, state);
      cut(state.params, name, param, params);
      cut(state.masters, name, param, masters);
      auto rule = dyn_cast_or_null<OptimizerRuleInterface>(param.getRuleAttr());
      for (llvm::StringRef s :
           rule ? rule.getStateNames() : llvm::SmallVector<llvm::StringRef>())
        cut(state.optimizer, name + "." + s.str(), param, optimizer);
    }
  }
}

LogicalResult SpmdInterpreter::Impl::joinState(TrainingState &state) {
  auto join = [&](Shards &from, const std::string &name, spmd::ParamOp param,
                  TrainingState::Tensors &to) -> LogicalResult {
    auto known = from.find(name);
    if (known == from.end())
      return success();
    auto shards = llvm::map_to_vector(
        known->second, [](HostTensor &t) -> const HostTensor * { return &t; });
    std::string error;
    auto shape = cast<RankedTensorType>(param.getGlobal()).getShape();
    auto whole = joinShards(shards, param.getCut(), shape, program, error);
    if (failed(whole))
      return param.emitOpError() << "\"" << name << "\": " << error;
    to[name] = std::move(*whole);
    return success();
  };
  for (spmd::ParamOp param : program.getBody().getOps<spmd::ParamOp>()) {
    auto [start, end] = rangeOf(param);
    for (int64_t i = start; i < end; ++i) {
      std::string name = expandName(param.getName(), i);
      if (failed(join(params, name, param, state.params)) ||
          failed(join(masters, name, param, state.masters)) ||
          failed(join(gradients, name, param, state.gradients)))
        return failure();
      auto rule = dyn_cast_or_null<OptimizerRuleInterface>(param.getRuleAttr());
      for (llvm::StringRef s :
           rule ? rule.getStateNames() : llvm::SmallVector<llvm::StringRef>())
        if (failed(
                join(optimizer, name + "." + s.str(), param, state.optimizer)))
          return failure();
    }
  }
  return success();
}

LogicalResult SpmdInterpreter::Impl::readParam(ParamOp param, int64_t iteration,
                                               Environment &env) {
  auto known = params.find(expandName(param.getName(), iteration));
  if (known == params.end())
    return param.emitOpError()
           << "of \"" << param.getName() << "\", which is not declared for "
           << "iteration " << iteration;
  env[param.getResult()] =
      each([&](int64_t rank) { return known->second[rank]; });
  return success();
}

void SpmdInterpreter::Impl::updateOne(UpdateOp update, const std::string &name,
                                      int64_t rank, HostTensor gradient,
                                      Environment &env) {
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  gradients[name].resize(ranks);
  gradients[name][rank] = gradient;
  bool hasMaster = masters.count(name);
  llvm::SmallVector<HostTensor> state;
  for (llvm::StringRef s : rule.getStateNames()) {
    auto &shards = optimizer[name + "." + s.str()];
    shards.resize(ranks);
    state.push_back(shards[rank]);
  }
  UpdateRules::Scalars scalars;
  if (update.getScale())
    scalars.scale = env[update.getScale()][rank]->data[0];
  scalars.rate = env[update.getRate()][rank]->data[0];
  scalars.step = env[update.getStep()][rank]->data[0];
  HostTensor &param = params[name][rank];
  auto results = rules.apply(update, hasMaster ? masters[name][rank] : param,
                             std::move(gradient), state, scalars, options.f64);
  if (hasMaster)
    masters[name][rank] = results[0];
  RankedTensorType type = param.type;
  param = results[0];
  param.type = type;
  roundTensor(param, options.f64);
  for (auto [s, value] :
       llvm::zip(rule.getStateNames(), llvm::drop_begin(results)))
    optimizer[name + "." + s.str()][rank] = value;
}

void SpmdInterpreter::Impl::runUpdate(UpdateOp update, Environment &env) {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const HostTensor &gradient = *env[update.getGradient()][rank];
    if (!update.getStart()) {
      updateOne(update, update.getName().str(), rank, gradient, env);
      continue;
    }
    for (int64_t i = *update.getStart(); i < *update.getEnd(); ++i)
      updateOne(update, expandName(update.getName(), i), rank,
                sliceOf(gradient, i - *update.getStart()), env);
  }
}

//===----------------------------------------------------------------------===//
// Inputs, buffers, outputs
//===----------------------------------------------------------------------===//

LogicalResult SpmdInterpreter::Impl::runRead(spmd::ReadOp read,
                                             Environment &env) {
  Operation *source = SymbolTable::lookupSymbolIn(program, read.getSource());
  if (auto input = dyn_cast<spmd::InputOp>(source)) {
    const Ranks &whole = inputs[input.getSymName().str()];
    bool isPart = input.isCutByMicro() &&
                  read.getResult().getType() == input.getLocalType() &&
                  program.getMicroBatches() > 1;
    env[read.getResult()] = each([&](int64_t rank) {
      return isPart
                 ? takePart(*whole[rank], 0, micro, program.getMicroBatches())
                 : *whole[rank];
    });
    return success();
  }
  auto known = buffers.find({read.getSource().str(), slotOf(source)});
  if (known == buffers.end())
    return read.emitOpError()
           << "of @" << read.getSource() << " before it is written";
  env[read.getResult()] = known->second;
  return success();
}

void SpmdInterpreter::Impl::runStore(Operation &op, Environment &env) {
  bool adds = isa<spmd::AccumulateOp>(op) && !isFirst;
  auto name = op.getAttrOfType<FlatSymbolRefAttr>("target").getValue();
  Operation *target = SymbolTable::lookupSymbolIn(program, name);
  Ranks &to = buffers[{name.str(), slotOf(target)}];
  const Ranks &from = env[op.getOperand(0)];
  if (!adds) {
    to = from;
    return;
  }
  Ranks before = to;
  to = each([&](int64_t rank) {
    HostTensor sum = *before[rank];
    for (auto [a, b] : llvm::zip_equal(sum.data, from[rank]->data))
      a += b;
    roundTensor(sum, options.f64);
    return sum;
  });
}

FailureOr<std::vector<HostTensor>> SpmdInterpreter::Impl::joinOutputs() {
  std::vector<HostTensor> outputs;
  for (auto output : program.getBody().getOps<spmd::OutputOp>()) {
    auto known = buffers.find({output.getSymName().str(), 0});
    if (known == buffers.end()) {
      outputs.emplace_back();
      continue;
    }
    auto shards = llvm::map_to_vector(
        known->second, [](const TensorRef &t) { return t.get(); });
    llvm::SmallVector<Attribute> whole(output.getLocalType().getRank(),
                                       ArrayAttr::get(output.getContext(), {}));
    std::string error;
    auto value = joinShards(shards, ArrayAttr::get(output.getContext(), whole),
                            output.getLocalType().getShape(), program, error);
    if (failed(value))
      return output.emitOpError() << error;
    outputs.push_back(std::move(*value));
  }
  return outputs;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Combines the values of a group in order, rounding after each addition.
static HostTensor combine(llvm::ArrayRef<const HostTensor *> values,
                          ReduceKind kind, bool f64) {
  HostTensor total = *values[0];
  for (const HostTensor *value : values.drop_front()) {
    for (auto [a, b] : llvm::zip_equal(total.data, value->data))
      a = kind == ReduceKind::Sum ? a + b : std::max(a, b);
    roundTensor(total, f64);
  }
  return total;
}

bool SpmdInterpreter::Impl::runCollective(Operation &op, Environment &env) {
  auto members = [&](int64_t rank, ArrayAttr axes) {
    return llvm::map_to_vector(groupOf(program, rank, axes),
                               [&](int64_t other) {
                                 return static_cast<const HostTensor *>(
                                     env[op.getOperand(0)][other].get());
                               });
  };
  auto own = [&](const HostTensor &whole, int64_t rank, int64_t dim,
                 ArrayAttr axes) {
    return takePart(whole, dim, placeOf(rank).index(axes),
                    program.getAxesSize(axes));
  };
  auto run = [&](llvm::function_ref<HostTensor(int64_t)> body) {
    Ranks values = each(body);
    env[op.getResult(0)] = values;
    return true;
  };
  if (auto all = dyn_cast<spmd::AllReduceOp>(op))
    return run([&](int64_t rank) {
      return combine(members(rank, all.getAxes()), all.getKind(), options.f64);
    });
  if (auto gather = dyn_cast<spmd::AllGatherOp>(op))
    return run([&](int64_t rank) {
      return joinParts(members(rank, gather.getAxes()), gather.getDim());
    });
  if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op))
    return run([&](int64_t rank) {
      return own(combine(members(rank, scatter.getAxes()), scatter.getKind(),
                         options.f64),
                 rank, scatter.getDim(), scatter.getAxes());
    });
  if (auto exchange = dyn_cast<spmd::AllToAllOp>(op))
    return run([&](int64_t rank) {
      return own(
          joinParts(members(rank, exchange.getAxes()), exchange.getConcat()),
          rank, exchange.getSplit(), exchange.getAxes());
    });
  if (auto slice = dyn_cast<spmd::SliceOwnOp>(op))
    return run([&](int64_t rank) {
      return own(*env[slice.getX()][rank], rank, slice.getDim(),
                 slice.getAxes());
    });
  if (auto offset = dyn_cast<spmd::OffsetOp>(op))
    return run([&](int64_t rank) {
      HostTensor value(typeOf(offset.getResult()));
      for (auto [axis, stride] : llvm::zip(
               offset.getAxes().getAsRange<StringAttr>(), offset.getStrides()))
        value.data[0] += placeOf(rank).coordinate(axis) * stride;
      return value;
    });
  return false;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult SpmdInterpreter::Impl::runPlain(EvaluateOpInterface op,
                                              Environment &env) {
  llvm::SmallVector<Ranks> results(op->getNumResults());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    auto operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) {
      return static_cast<const HostTensor *>(env[operand][rank].get());
    });
    auto values = evaluatePlain(op, operands, options.f64);
    for (auto [to, value] : llvm::zip_equal(results, values))
      to.push_back(keep(std::move(value)));
  }
  for (auto [value, result] : llvm::zip_equal(op->getResults(), results))
    env[value] = result;
  return success();
}

LogicalResult SpmdInterpreter::Impl::runFused(spmd::FusedOp fused,
                                              Environment &env) {
  for (auto [arg, input] :
       llvm::zip_equal(fused.getBody().getArguments(), fused.getInputs())) {
    Ranks value = env[input];
    env[arg] = value;
  }
  Block &body = fused.getBody().front();
  for (Operation &op : body.without_terminator())
    if (failed(runOp(op, env, 0)))
      return failure();
  for (auto [result, yielded] :
       llvm::zip_equal(fused.getResults(), body.back().getOperands())) {
    Ranks value = env[yielded];
    env[result] = value;
  }
  return success();
}

LogicalResult SpmdInterpreter::Impl::runRepeat(RepeatOp repeat,
                                               Environment &env) {
  int64_t count = repeat.getCount(), start = repeat.getStart();
  llvm::SmallVector<Ranks> carried;
  for (Value init : repeat.getInits())
    carried.push_back(env[init]);
  // Slices of the stacks, one per iteration.
  size_t numStacks = repeat.getStackResults().size();
  std::vector<llvm::SmallVector<Ranks>> stacked(
      numStacks, llvm::SmallVector<Ranks>(count));
  YieldOp yield = repeat.getYield();
  for (int64_t n = 0; n < count; ++n) {
    int64_t at = repeat.getReverse() ? count - 1 - n : n;
    HostTensor index(typeOf(repeat.getIndex()));
    index.data[0] = start + at;
    env[repeat.getIndex()] = each([&](int64_t) { return index; });
    for (auto [arg, value] : llvm::zip(repeat.getCarryArgs(), carried))
      env[arg] = value;
    for (auto [arg, stack] :
         llvm::zip(repeat.getSliceArgs(), repeat.getSlices())) {
      Ranks slices =
          each([&](int64_t rank) { return sliceOf(*env[stack][rank], at); });
      env[arg] = slices;
    }
    if (failed(runBlock(repeat.getBody().front(), env, start + at)))
      return failure();
    for (auto [value, yielded] : llvm::zip(carried, yield.getCarried()))
      value = env[yielded];
    for (auto [stack, yielded] : llvm::zip(stacked, yield.getStacked()))
      stack[at] = env[yielded];
  }
  for (auto [result, value] : llvm::zip(repeat.getCarryResults(), carried))
    env[result] = value;
  for (auto [result, slices] : llvm::zip(repeat.getStackResults(), stacked))
    env[result] = each([&, &slices = slices, &result = result](int64_t rank) {
      HostTensor stack(typeOf(result));
      auto to = stack.data.begin();
      for (const Ranks &slice : slices)
        to = llvm::copy(slice[rank]->data, to);
      return stack;
    });
  return success();
}

LogicalResult SpmdInterpreter::Impl::runOp(Operation &op, Environment &env,
                                           int64_t iteration) {
  if (auto param = dyn_cast<ParamOp>(op))
    return readParam(param, iteration, env);
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return runRepeat(repeat, env);
  if (auto fused = dyn_cast<spmd::FusedOp>(op))
    return runFused(fused, env);
  if (auto read = dyn_cast<spmd::ReadOp>(op))
    return runRead(read, env);
  if (isa<spmd::WriteOp, spmd::AccumulateOp>(op)) {
    runStore(op, env);
    return success();
  }
  if (auto update = dyn_cast<UpdateOp>(op)) {
    runUpdate(update, env);
    return success();
  }
  if (isa<YieldOp, spmd::ReturnOp>(op) || runCollective(op, env))
    return success();
  if (auto plain = dyn_cast<EvaluateOpInterface>(op))
    return runPlain(plain, env);
  return op.emitOpError("has no meaning: it neither decomposes nor evaluates");
}

LogicalResult SpmdInterpreter::Impl::runBlock(Block &block, Environment &env,
                                              int64_t iteration) {
  for (Operation &op : block)
    if (failed(runOp(op, env, iteration)))
      return failure();
  return success();
}

LogicalResult SpmdInterpreter::Impl::runSchedule(spmd::ScheduleOp schedule) {
  llvm::StringSet<> called;
  for (auto call : schedule.getBody().getOps<spmd::CallOp>()) {
    auto func = cast<spmd::FuncOp>(
        SymbolTable::lookupSymbolIn(program, call.getCallee()));
    micro = call.getMicro().value_or(0);
    isFirst = called.insert(call.getCallee()).second;
    Environment env;
    if (failed(runBlock(func.getBody().front(), env, 0)))
      return failure();
  }
  micro = 0;
  return success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

SpmdInterpreter::SpmdInterpreter(spmd::ProgramOp program,
                                 InterpreterOptions options)
    : impl(std::make_unique<Impl>()) {
  impl->options = options;
  impl->module = ModuleOp::create(program.getLoc());
  Operation *copy = program->clone();
  impl->module->push_back(copy);
  impl->program = cast<spmd::ProgramOp>(copy);
  impl->ranks = program.getMesh().getRankCount();
  decomposeAll(copy);
}

SpmdInterpreter::~SpmdInterpreter() = default;

FailureOr<std::vector<HostTensor>>
SpmdInterpreter::run(llvm::ArrayRef<HostTensor> inputs, TrainingState &state,
                     llvm::StringRef schedule) {
  Impl &i = *impl;
  spmd::ScheduleOp calls = i.program.getSchedule(schedule);
  if (!calls)
    return i.program.emitOpError() << "has no schedule \"" << schedule
                                   << "\"; run 'kerf-order-micro-batches'";
  for (Shards *shards : {&i.params, &i.masters, &i.optimizer, &i.gradients})
    shards->clear();
  i.inputs.clear();
  i.buffers.clear();
  i.cutState(state);
  for (auto [input, value] :
       llvm::zip_equal(i.program.getBody().getOps<spmd::InputOp>(), inputs)) {
    HostTensor rounded = value;
    roundTensor(rounded, i.options.f64);
    ArrayAttr cut = dropMicro(input.getCut());
    i.inputs[input.getSymName().str()] = i.each(
        [&](int64_t rank) { return takeShard(rounded, cut, i.placeOf(rank)); });
  }
  if (failed(i.runSchedule(calls)))
    return failure();
  auto outputs = i.joinOutputs();
  if (failed(outputs) || failed(i.joinState(state)))
    return failure();
  return outputs;
}

std::vector<HostTensor> kerf::makeInputs(spmd::ProgramOp program, int64_t seed,
                                         int64_t step, double rate) {
  std::vector<HostTensor> inputs;
  for (auto input : program.getBody().getOps<spmd::InputOp>())
    inputs.push_back(makeInput(
        cast<RankedTensorType>(input.getGlobal()), input.getRole(),
        inputs.size(), input.getVocabulary().value_or(0), seed, step, rate));
  return inputs;
}
