#include "StageRun.h"

#include "Collectives.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

StageRun::StageRun(spmd::ScheduleOp schedule, const InterpreterOptions &options,
                   UpdateRules &rules, Links &links)
    : state(schedule->getParentOfType<spmd::ProgramOp>(), options, rules),
      symbols(schedule->getParentOfType<spmd::ProgramOp>()),
      program(schedule->getParentOfType<spmd::ProgramOp>()), options(options),
      links(links),
      calls(llvm::to_vector(schedule.getBody().getOps<spmd::CallOp>())) {}

//===----------------------------------------------------------------------===//
// Calls and repeats
//===----------------------------------------------------------------------===//

FailureOr<int64_t> StageRun::advance() {
  int64_t count = 0;
  while (!hasEnded()) {
    if (frames.empty()) {
      startCall();
      continue;
    }
    Frame &frame = frames.back();
    if (frame.next == frame.block->end()) {
      endBlock();
      continue;
    }
    Operation &op = *frame.next;
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      ++frame.next;
      startRepeat(repeat);
      continue;
    }
    FailureOr<bool> ran = runOp(op, frame.iteration);
    if (failed(ran))
      return failure();
    if (!*ran)
      break;
    ++frame.next;
    ++count;
  }
  return count;
}

Operation *StageRun::getWaiting() const {
  return frames.empty() ? nullptr : &*frames.back().next;
}

void StageRun::startCall() {
  spmd::CallOp call = calls[nextCall++];
  auto func = symbols.lookup<spmd::FuncOp>(call.getCallee());
  micro = call.getMicro().value_or(0);
  isFirst = called.insert(func.getCounted()).second;
  env.clear();
  Block &body = func.getBody().front();
  frames.push_back({&body, body.begin()});
}

void StageRun::startRepeat(RepeatOp repeat) {
  Block &body = repeat.getBody().front();
  Frame frame{&body, body.begin()};
  frame.repeat = repeat;
  for (Value init : repeat.getInits())
    frame.carried.push_back(env[init]);
  frame.stacked.assign(repeat.getStackResults().size(),
                       llvm::SmallVector<Ranks>(repeat.getCount()));
  frames.push_back(std::move(frame));
  startIteration(frames.back());
}

/// Place in stacks of the iteration after `done` others.
static int64_t placeOfIteration(RepeatOp repeat, int64_t done) {
  return repeat.getReverse() ? repeat.getCount() - 1 - done : done;
}

void StageRun::startIteration(Frame &frame) {
  RepeatOp repeat = frame.repeat;
  int64_t at = placeOfIteration(repeat, frame.done);
  frame.iteration = repeat.getStart() + at;
  frame.next = frame.block->begin();
  HostTensor index(typeOf(repeat.getIndex()));
  index.data[0] = frame.iteration;
  env[repeat.getIndex()] = each([&](int64_t) { return index; });
  for (auto [arg, value] : llvm::zip(repeat.getCarryArgs(), frame.carried))
    env[arg] = value;
  for (auto [arg, stack] :
       llvm::zip(repeat.getSliceArgs(), repeat.getSlices())) {
    Ranks whole = env[stack];
    env[arg] = each([&](int64_t rank) { return sliceOf(*whole[rank], at); });
  }
}

void StageRun::endBlock() {
  Frame &frame = frames.back();
  if (!frame.repeat) {
    frames.pop_back();
    return;
  }
  endIteration(frame);
  if (frame.done < int64_t(frame.repeat.getCount()))
    return startIteration(frame);
  endRepeat(frame);
  frames.pop_back();
}

void StageRun::endIteration(Frame &frame) {
  YieldOp yield = frame.repeat.getYield();
  int64_t at = placeOfIteration(frame.repeat, frame.done);
  for (auto [value, yielded] : llvm::zip(frame.carried, yield.getCarried()))
    value = env[yielded];
  for (auto [stack, yielded] : llvm::zip(frame.stacked, yield.getStacked()))
    stack[at] = env[yielded];
  ++frame.done;
}

void StageRun::endRepeat(Frame &frame) {
  RepeatOp repeat = frame.repeat;
  for (auto [result, value] :
       llvm::zip(repeat.getCarryResults(), frame.carried))
    env[result] = value;
  for (auto [result, slices] :
       llvm::zip(repeat.getStackResults(), frame.stacked))
    env[result] = each([&, &slices = slices, &result = result](int64_t rank) {
      HostTensor stack(typeOf(result));
      auto to = stack.data.begin();
      for (const Ranks &slice : slices)
        to = llvm::copy(slice[rank]->data, to);
      return stack;
    });
}

//===----------------------------------------------------------------------===//
// Inputs, buffers and outputs
//===----------------------------------------------------------------------===//

LogicalResult StageRun::setInput(spmd::InputOp input,
                                 const HostTensor &global) {
  if (global.type != input.getGlobal())
    return input.emitOpError() << "is given a value of " << global.type;
  HostTensor rounded = putInOrder(global, input.getZigzagAttr());
  roundTensor(rounded, options.f64);
  Rest rest{dropMicro(input.getSharded()), {}, {}};
  inputs[input.getSymName().str()] = each(
      [&](int64_t rank) { return takeShard(rounded, rest, placeOf(rank)); });
  return success();
}

std::pair<std::string, int64_t> StageRun::slotOf(llvm::StringRef name) const {
  auto buffer = symbols.lookup<spmd::BufferOp>(name);
  if (!buffer || buffer.getKind() != spmd::BufferKind::Slot)
    return {name.str(), 0};
  auto own = buffer->getAttrOfType<IntegerAttr>("slots");
  return {name.str(), micro % (own ? own.getInt() : program.getSlots())};
}

LogicalResult StageRun::runRead(spmd::ReadOp read) {
  Operation *source = symbols.lookup(read.getSource());
  if (auto input = dyn_cast<spmd::InputOp>(source)) {
    const Ranks &whole = inputs[input.getSymName().str()];
    bool isPart = input.isSplitByMicro() &&
                  read.getResult().getType() == input.getLocalType() &&
                  program.getMicroBatches() > 1;
    env[read.getResult()] = each([&](int64_t rank) {
      return isPart
                 ? takePart(*whole[rank], 0, micro, program.getMicroBatches())
                 : *whole[rank];
    });
    return success();
  }
  auto known = buffers.find(slotOf(read.getSource()));
  if (known == buffers.end())
    return read.emitOpError()
           << "of @" << read.getSource() << " before it is written";
  bool isSlot =
      cast<spmd::BufferOp>(source).getKind() == spmd::BufferKind::Slot;
  if (isSlot && known->second.micro != micro)
    return read.emitOpError()
           << "of @" << read.getSource() << " for micro-batch " << micro
           << " finds that of micro-batch " << known->second.micro;
  env[read.getResult()] = known->second.value;
  return success();
}

void StageRun::runStore(Operation &op) {
  bool adds = isa<spmd::AccumulateOp>(op) && !isFirst;
  Stored &to =
      buffers[slotOf(op.getAttrOfType<FlatSymbolRefAttr>("target").getValue())];
  Ranks from = env[op.getOperand(0)];
  to.micro = micro;
  if (!adds) {
    to.value = std::move(from);
    return;
  }
  to.value = each([&](int64_t rank) {
    HostTensor sum = *to.value[rank];
    for (auto [a, b] : llvm::zip_equal(sum.data, from[rank]->data))
      a += b;
    roundTensor(sum, options.f64);
    return sum;
  });
}

FailureOr<HostTensor> StageRun::getOutput(spmd::OutputOp output) const {
  auto known = buffers.find({output.getSymName().str(), 0});
  if (known == buffers.end())
    return HostTensor();
  auto shards =
      llvm::map_to_vector(known->second.value,
                          [](const TensorRef &tensor) { return tensor.get(); });
  MLIRContext *context = output.getContext();
  RankedTensorType type = output.getLocalType();
  llvm::SmallVector<Attribute> whole(type.getRank(),
                                     ArrayAttr::get(context, {}));
  Rest rest{ArrayAttr::get(context, whole), {}, {}};
  std::string error;
  auto value = joinShards(shards, rest, type.getShape(), program, error);
  if (failed(value))
    return output.emitOpError() << error;
  return value;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

FailureOr<bool> StageRun::runOp(Operation &op, int64_t iteration) {
  if (auto send = dyn_cast<spmd::SendOp>(op))
    return links.send(send, env[send.getValue()]);
  if (auto recv = dyn_cast<spmd::RecvOp>(op))
    return runReceive(recv);
  if (getExchangeAxes(op))
    return runCollective(op);
  if (failed(runLocal(op, iteration)))
    return failure();
  return true;
}

FailureOr<bool> StageRun::runReceive(spmd::RecvOp recv) {
  auto received = links.receive(recv);
  if (failed(received))
    return failure();
  if (!*received)
    return false;
  env[recv.getResult()] = std::move(**received);
  return true;
}

FailureOr<bool> StageRun::runCollective(Operation &op) {
  Ranks operands = env[op.getOperand(0)];
  bool acrossStages = llvm::is_contained(
      getExchangeAxes(op), StringAttr::get(op.getContext(), kPipelineAxis));
  if (acrossStages && program.getStageCount() > 1) {
    auto all = links.meet(op, operands);
    if (failed(all))
      return failure();
    if (!*all)
      return false;
    operands = std::move(**all);
  }
  env[op.getResult(0)] = each([&](int64_t rank) {
    return evaluateCollective(op, operands, placeOf(rank), options.f64);
  });
  return true;
}

LogicalResult StageRun::runPlain(EvaluateOpInterface op) {
  llvm::SmallVector<Ranks> results(op->getNumResults(),
                                   Ranks(program.getMesh().getRankCount()));
  for (int64_t rank : program.getRanks()) {
    auto operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) {
      return static_cast<const HostTensor *>(env[operand][rank].get());
    });
    auto values = evaluatePlain(op, operands, options.f64);
    for (auto [to, value] : llvm::zip_equal(results, values))
      to[rank] = std::make_shared<const HostTensor>(std::move(value));
  }
  for (auto [value, result] : llvm::zip_equal(op->getResults(), results))
    env[value] = std::move(result);
  return success();
}

LogicalResult StageRun::runBody(Operation *fused) {
  Block &body = fused->getRegion(0).front();
  for (auto [arg, input] :
       llvm::zip_equal(body.getArguments(), fused->getOperands())) {
    Ranks value = env[input];
    env[arg] = std::move(value);
  }
  for (Operation &op : body.without_terminator())
    if (failed(runLocal(op, 0)))
      return failure();
  for (auto [result, yielded] :
       llvm::zip_equal(fused->getResults(), body.back().getOperands())) {
    Ranks value = env[yielded];
    env[result] = std::move(value);
  }
  return success();
}

LogicalResult StageRun::runUpdate(UpdateOp update) {
  UpdateOperands operands{env[update.getGradient()],
                          {},
                          env[update.getRate()],
                          env[update.getStep()],
                          {}};
  if (update.getScale())
    operands.scale = env[update.getScale()];
  if (update.getCondition())
    operands.condition = env[update.getCondition()];
  return state.update(update, operands);
}

/// Fails where any rank's number is above zero.
LogicalResult StageRun::runStopIf(spmd::StopIfOp stop) {
  double most = 0;
  for (int64_t rank : program.getRanks())
    most = std::max(most, env[stop.getX()][rank]->data[0]);
  if (most <= 0)
    return success();
  mlir::emitError(stop.getLoc())
      << stop.getText() << ' '
      << llvm::formatv("{0:f2}", std::ceil(most * 100) / 100).str();
  return failure();
}

LogicalResult StageRun::runLocal(Operation &op, int64_t iteration) {
  if (auto param = dyn_cast<ParamOp>(op)) {
    auto value = state.read(param, iteration);
    if (succeeded(value))
      env[param.getResult()] = std::move(*value);
    return value;
  }
  if (isa<spmd::FusedOp, spmd::FusedMatmulOp>(op))
    return runBody(&op);
  if (auto read = dyn_cast<spmd::ReadOp>(op))
    return runRead(read);
  if (isa<spmd::WriteOp, spmd::AccumulateOp>(op)) {
    runStore(op);
    return success();
  }
  if (auto update = dyn_cast<UpdateOp>(op))
    return runUpdate(update);
  if (auto gather = dyn_cast<spmd::GatherParamOp>(op))
    return state.gather(gather);
  if (auto slice = dyn_cast<spmd::SliceOwnOp>(op)) {
    Ranks whole = env[slice.getX()];
    env[slice.getResult()] = each([&](int64_t rank) {
      return evaluateCollective(op, whole, placeOf(rank), options.f64);
    });
    return success();
  }
  if (auto wait = dyn_cast<spmd::WaitOp>(op)) {
    Ranks done = env[wait.getStarted()];
    env[wait.getResult()] = std::move(done);
    return success();
  }
  if (auto stop = dyn_cast<spmd::StopIfOp>(op))
    return runStopIf(stop);
  if (auto offset = dyn_cast<spmd::OffsetOp>(op)) {
    env[offset.getResult()] = each(
        [&](int64_t rank) { return evaluateOffset(offset, placeOf(rank)); });
    return success();
  }
  if (isa<YieldOp, spmd::ReturnOp>(op))
    return success();
  if (auto plain = dyn_cast<EvaluateOpInterface>(op))
    return runPlain(plain);
  return op.emitOpError("has no meaning: it neither decomposes nor evaluates");
}
