#include "kerf/Interpreter/SpmdInterpreter.h"

#include "StageRun.h"
#include "kerf/Dialect/Kerf/Decompose.h"

using namespace mlir;
using namespace kerf;

struct SpmdInterpreter::Impl {
  OwningOpRef<ModuleOp> module;
  llvm::SmallVector<spmd::ProgramOp> programs; ///< by stage
  InterpreterOptions options;
  UpdateRules rules;
};

//===----------------------------------------------------------------------===//
// Programs of a pipeline
//===----------------------------------------------------------------------===//

/// Declarations of all stages, one per name. Each stage's order is kept; where
/// that leaves a choice, a later stage's come first.
template <typename DeclarationOp>
static llvm::SmallVector<DeclarationOp>
mergeDeclared(llvm::ArrayRef<spmd::ProgramOp> programs) {
  llvm::SmallVector<DeclarationOp> merged;
  for (spmd::ProgramOp program : programs) {
    size_t at = 0;
    for (auto declared : program.getBody().getOps<DeclarationOp>()) {
      auto *known = llvm::find_if(merged, [&](DeclarationOp other) {
        return other.getSymName() == declared.getSymName();
      });
      if (known == merged.end())
        known = merged.insert(merged.begin() + at, declared);
      at = known - merged.begin() + 1;
    }
  }
  return merged;
}

llvm::SmallVector<spmd::InputOp>
kerf::getInputs(llvm::ArrayRef<spmd::ProgramOp> programs) {
  return mergeDeclared<spmd::InputOp>(programs);
}

llvm::SmallVector<spmd::OutputOp>
kerf::getOutputs(llvm::ArrayRef<spmd::ProgramOp> programs) {
  return mergeDeclared<spmd::OutputOp>(programs);
}

/// The programs are the stages of one pipeline, in order, all of them, and have
/// the schedule.
static LogicalResult checkStages(llvm::ArrayRef<spmd::ProgramOp> programs,
                                 llvm::StringRef schedule) {
  spmd::ProgramOp first = programs.front();
  for (auto [stage, constant] : llvm::enumerate(programs)) {
    spmd::ProgramOp program = constant;
    if (program.getStage() != static_cast<int64_t>(stage) ||
        program.getMesh() != first.getMesh() ||
        program.getMicroBatches() != first.getMicroBatches())
      return program.emitOpError()
             << "expected stage " << stage << " of " << first.getStageCount()
             << " over " << first.getMesh() << " with "
             << first.getMicroBatches() << " micro-batches";
    if (!program.getSchedule(schedule))
      return program.emitOpError() << "has no schedule \"" << schedule
                                   << "\"; run 'kerf-order-micro-batches'";
  }
  if (static_cast<int64_t>(programs.size()) == first.getStageCount())
    return success();
  return first.emitOpError() << "is of a pipeline of " << first.getStageCount()
                             << " stages, found " << programs.size();
}

//===----------------------------------------------------------------------===//
// Stages in turn
//===----------------------------------------------------------------------===//

using Stages = std::vector<std::unique_ptr<StageRun>>;

/// What a stage waits for.
static std::string describeWait(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto recv = dyn_cast<spmd::RecvOp>(op))
    os << "a message of stage " << recv.getFrom() << " on \""
       << recv.getChannel() << '"';
  else if (auto send = dyn_cast<spmd::SendOp>(op))
    os << "room on \"" << send.getChannel() << "\" to stage " << send.getTo();
  else
    os << "the other stages at '" << op->getName() << "'";
  return text;
}

static LogicalResult reportDeadlock(const Stages &stages,
                                    llvm::ArrayRef<spmd::ProgramOp> programs) {
  spmd::ProgramOp first = programs.front();
  auto diagnostic = first.emitOpError("never ends: no stage can go on");
  for (auto [number, stage] : llvm::enumerate(stages)) {
    spmd::ProgramOp program = programs[number];
    Operation *op = stage->getWaiting();
    if (op)
      diagnostic.attachNote(op->getLoc())
          << "stage " << number << " waits for " << describeWait(op);
    else
      diagnostic.attachNote(program.getLoc())
          << "stage " << number << " has ended";
  }
  return diagnostic;
}

/// Runs each stage as far as it goes, in turn, until all have ended.
static LogicalResult runStages(const Stages &stages,
                               llvm::ArrayRef<spmd::ProgramOp> programs) {
  auto ended = [](const auto &stage) { return stage->hasEnded(); };
  while (!llvm::all_of(stages, ended)) {
    int64_t count = 0;
    for (const auto &stage : stages) {
      FailureOr<int64_t> ran = stage->advance();
      if (failed(ran))
        return failure();
      count += *ran;
    }
    if (count == 0 && !llvm::all_of(stages, ended))
      return reportDeadlock(stages, programs);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// The value of an output, on which all stages that write it must agree.
static FailureOr<HostTensor>
joinOutput(llvm::StringRef name, const Stages &stages,
           llvm::ArrayRef<spmd::ProgramOp> programs) {
  HostTensor value;
  for (auto [number, stage] : llvm::enumerate(stages)) {
    auto declared = dyn_cast_or_null<spmd::OutputOp>(
        SymbolTable::lookupSymbolIn(programs[number], name));
    if (!declared)
      continue;
    auto own = stage->getOutput(declared);
    if (failed(own))
      return failure();
    if (!own->type)
      continue;
    if (value.type &&
        (value.type != own->type || findDifference(value, *own) >= 0))
      return declared.emitOpError()
             << "of stage " << number << " differs from that of a stage before";
    value = std::move(*own);
  }
  return value;
}

/// After a step; the gradients are those of this step alone.
static LogicalResult joinState(const Stages &stages, TrainingState &state) {
  TrainingState after;
  for (const auto &stage : stages)
    if (failed(stage->state.join(after)))
      return failure();
  auto move = [](TrainingState::Tensors &to, TrainingState::Tensors &from) {
    for (auto &[name, value] : from)
      to[name] = std::move(value);
  };
  move(state.params, after.params);
  move(state.masters, after.masters);
  move(state.optimizer, after.optimizer);
  state.gradients = std::move(after.gradients);
  return success();
}

SpmdInterpreter::SpmdInterpreter(llvm::ArrayRef<spmd::ProgramOp> programs,
                                 InterpreterOptions options)
    : impl(std::make_unique<Impl>()) {
  impl->options = options;
  spmd::ProgramOp first = programs.front();
  impl->module = ModuleOp::create(first.getLoc());
  for (spmd::ProgramOp program : programs) {
    impl->programs.push_back(program.clone());
    impl->module->push_back(impl->programs.back());
  }
  decomposeAll(*impl->module);
}

SpmdInterpreter::~SpmdInterpreter() = default;

FailureOr<std::vector<HostTensor>>
SpmdInterpreter::run(llvm::ArrayRef<HostTensor> inputs, TrainingState &state,
                     llvm::StringRef schedule) {
  llvm::ArrayRef<spmd::ProgramOp> programs = impl->programs;
  if (failed(checkStages(programs, schedule)))
    return failure();
  int64_t holds = impl->options.channelHolds;
  auto planned = spmd::ProgramOp(programs.front())
                     ->getAttrOfType<IntegerAttr>(kCapacityAttrName);
  Links links(programs, holds == 0 && planned ? planned.getInt() : holds);
  Stages stages;
  auto declared = getInputs(programs);
  for (spmd::ProgramOp program : programs) {
    stages.push_back(std::make_unique<StageRun>(
        program.getSchedule(schedule), impl->options, impl->rules, links));
    if (failed(stages.back()->state.shard(state)))
      return failure();
    for (auto [input, value] : llvm::zip_equal(declared, inputs))
      if (auto own = dyn_cast_or_null<spmd::InputOp>(
              SymbolTable::lookupSymbolIn(program, input.getSymName())))
        if (failed(stages.back()->setInput(own, value)))
          return failure();
  }
  if (failed(runStages(stages, programs)) || failed(links.checkDone()))
    return failure();
  std::vector<HostTensor> outputs;
  for (spmd::OutputOp output : getOutputs(programs)) {
    auto value = joinOutput(output.getSymName(), stages, programs);
    if (failed(value))
      return failure();
    outputs.push_back(std::move(*value));
  }
  if (failed(joinState(stages, state)))
    return failure();
  return outputs;
}

std::vector<HostTensor>
kerf::makeInputs(llvm::ArrayRef<spmd::ProgramOp> programs, int64_t seed,
                 int64_t step, double rate) {
  std::vector<HostTensor> inputs;
  for (spmd::InputOp input : getInputs(programs)) {
    // A stage may have a part of the model's inputs; their names tell which.
    llvm::StringRef name = input.getSymName();
    int64_t number = inputs.size();
    if (name.consume_front("input"))
      (void)name.consumeInteger(10, number);
    inputs.push_back(
        makeInput(cast<RankedTensorType>(input.getGlobal()), input.getRole(),
                  number, input.getVocabulary().value_or(0), seed, step, rate));
  }
  return inputs;
}
