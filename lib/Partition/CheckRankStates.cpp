//===- CheckRankStates.cpp - are collectives where values need them? ------===//
//
// Problem: what is sum, part or copy over an axis is known while a program is
// written, and forgotten with it. A collective too few, too many or over other
// ranks leaves valid IR that trains something else.
//
// Idea: work it out again, from the declarations on, by rules that know what
// ops compute and nothing of plans. Where a value arrives in a state in which
// its reader would compute something else, say so.
//
// Steps: functions in the order in which buffers and messages hand values over;
// in each, op by op. The body of a repeat is followed once, or twice where what
// it carries begins as zero.
//
// Cost: linear in the ops; some numbers per value and axis.
//
// Example: over tp = 2 `linear` of x [4] and w [3][tp][4], whose k is sharded,
// is an error at x; of x [tp][4] and w [3][tp][4], too; of x and w [tp][4] it
// is a sum that is still to be made, and a gelu of that is an error.
//
//===----------------------------------------------------------------------===//

#include "CheckRankStates.h"
#include "RankOrder.h"

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {
/// Follows the values of one function.
class FunctionFlow {
public:
  FunctionFlow(spmd::FuncOp func, RankKnowledge &knowledge)
      : func(func), program(func->getParentOfType<spmd::ProgramOp>()),
        axes(program), knowledge(knowledge) {}
  LogicalResult run() { return runBlock(func.getBody().front()); }

private:
  LogicalResult runBlock(Block &block);
  LogicalResult runOp(Operation *op);
  LogicalResult runRepeat(RepeatOp repeat);
  void enterRepeat(RepeatOp repeat, llvm::ArrayRef<RankState> carried);
  bool isAddedBefore(llvm::StringRef name);
  void read(spmd::ReadOp op);
  void readParam(ParamOp op);
  void receive(spmd::RecvOp op);
  LogicalResult store(Operation *op, Value value, llvm::StringRef target,
                      bool adds);
  LogicalResult checkMicro(Operation *op, RankState &state, bool adds);
  LogicalResult checkOthers(Operation *op, const RankState &before,
                            const RankState &state, llvm::StringRef target);
  LogicalResult checkUpdate(UpdateOp update);
  LogicalResult checkGathered(UpdateOp update, spmd::ParamOp param);
  LogicalResult checkSame(Operation *op, unsigned operand,
                          bool ofMicro = false);
  InFlightDiagnostic error(Operation *op, unsigned i, unsigned axis) {
    return stateError(op, i, states[op->getOperand(i)], axis, axes);
  }

  spmd::FuncOp func;
  spmd::ProgramOp program;
  RankAxes axes;
  RankKnowledge &knowledge;
  RankStates states;
};
} // namespace

//===----------------------------------------------------------------------===//
// Where values come from
//===----------------------------------------------------------------------===//

static DimState shardedBy(ArrayAttr list, int64_t size, const RankAxes &axes,
                          bool wholeStep) {
  IndexDigits digits;
  for (unsigned axis : axes.numbersOf(list))
    if (!wholeStep || axis != axes.micro())
      digits.push_back({axes.sizeOf(axis), int(axis)});
  digits.push_back({size});
  DimState dim;
  dim.digits = normalized(digits);
  return dim;
}

/// True of what the function that this one continues adds to: the sum of the
/// micro-batches so far.
bool FunctionFlow::isAddedBefore(llvm::StringRef name) {
  if (!func.getContinues() || !axes.micro())
    return false;
  auto first = cast<spmd::FuncOp>(
      SymbolTable::lookupSymbolIn(program, *func.getContinues()));
  return llvm::any_of(
      first.getBody().getOps<spmd::AccumulateOp>(),
      [&](spmd::AccumulateOp add) { return add.getTarget() == name; });
}

void FunctionFlow::read(spmd::ReadOp op) {
  Operation *source = SymbolTable::lookupSymbolIn(program, op.getSourceAttr());
  auto type = typeOf(op.getResult());
  RankState state = RankState::same(type, axes);
  if (auto input = dyn_cast<spmd::InputOp>(source)) {
    bool wholeStep = type != input.getLocalType();
    for (auto [d, list] : llvm::enumerate(input.getSharded()))
      state.dims[d] =
          shardedBy(cast<ArrayAttr>(list), type.getDimSize(d), axes, wholeStep);
  } else {
    auto known = knowledge.buffers.find({program, op.getSource()});
    state = known == knowledge.buffers.end() ? RankState::unknown(type, axes)
                                             : known->second;
    if (isAddedBefore(op.getSource())) {
      state.over[*axes.micro()] = Over::Sum;
      state.parts[*axes.micro()] = 1;
    }
  }
  states[op.getResult()] = state;
}

void FunctionFlow::readParam(ParamOp op) {
  auto repeat = op->getParentOfType<RepeatOp>();
  spmd::ParamOp param =
      program.getParam(op.getName(), repeat ? repeat.getStart() : 0);
  RankState state = RankState::same(op.getResult().getType(), axes);
  for (unsigned axis = 0; axis < axes.count(); ++axis)
    if (axes.isPipeline(axis))
      state.over[axis] = Over::Own;
  if (!param.getWeightAxes()) {
    state.dims = declaredDims(param, axes);
    states[op.getResult()] = state;
    return;
  }
  IndexDigits digits;
  auto add = [&](ArrayAttr list) {
    for (unsigned axis : axes.numbersOf(list))
      digits.push_back({axes.sizeOf(axis), int(axis)});
  };
  for (Attribute list : param.getSharded())
    add(cast<ArrayAttr>(list));
  add(*param.getWeightAxes());
  state.dims[0].digits = digits;
  state.dims[0].forget(typeOf(op.getResult()).getDimSize(0));
  state.flat = param;
  states[op.getResult()] = state;
}

void FunctionFlow::receive(spmd::RecvOp op) {
  auto match = knowledge.messages.find(op);
  auto type = op.getResult().getType();
  RankState state = RankState::unknown(type, axes);
  if (match != knowledge.messages.end())
    if (auto sent = knowledge.sent.find(match->second);
        sent != knowledge.sent.end() &&
        match->second.getValue().getType() == type)
      state = sent->second;
  states[op.getResult()] = state;
}

//===----------------------------------------------------------------------===//
// Where values go
//===----------------------------------------------------------------------===//

/// The same on all ranks over these axes; stages included.
LogicalResult FunctionFlow::checkSame(Operation *op, unsigned i, bool ofMicro) {
  const RankState &state = states[op->getOperand(i)];
  for (unsigned axis = 0; axis < axes.count(); ++axis) {
    bool isOwn = axes.isPipeline(axis) && state.isLoose(axis);
    if (state.zero || (state.isLoose(axis) && !isOwn) ||
        (ofMicro && axis == axes.micro()))
      continue;
    if (state.over[axis] != Over::Same || state.isShardedBy(axis))
      return error(op, i, axis) << "the same on all ranks";
  }
  return success();
}

/// What is kept of micro-batches for the step: all of them, added up.
LogicalResult FunctionFlow::checkMicro(Operation *op, RankState &state,
                                       bool adds) {
  std::optional<unsigned> micro = axes.micro();
  if (!micro || state.isLoose(*micro) || state.zero)
    return success();
  bool isSum = state.over[*micro] == Over::Sum;
  if (adds && !isSum)
    return error(op, 0, *micro) << "a sum that is still to be made";
  bool isWhole = isSum && state.parts[*micro] != 0; // those before are in it
  state.parts[*micro] = 0;
  if (!adds && !isWhole &&
      (state.over[*micro] != Over::Same || state.isShardedBy(*micro)))
    return error(op, 0, *micro) << "the same in all of them, or to be added";
  state.over[*micro] = Over::Same;
  return success();
}

/// All writers of a buffer leave one state.
LogicalResult FunctionFlow::store(Operation *op, Value value,
                                  llvm::StringRef target, bool adds) {
  RankState state = states[value];
  for (unsigned axis = 0; axis < axes.count(); ++axis)
    if (state.over[axis] == Over::Ring || state.over[axis] == Over::Norm)
      return error(op, 0, axis) << "the whole";
  Operation *symbol = SymbolTable::lookupSymbolIn(program, target);
  auto buffer = dyn_cast<spmd::BufferOp>(symbol);
  bool isSlot = buffer && buffer.getKind() == spmd::BufferKind::Slot;
  bool ends = !adds && isAddedBefore(target);
  if (!isSlot && failed(checkMicro(op, state, adds)))
    return failure();
  if (!buffer)
    return checkSame(op, 0, /*ofMicro=*/true);
  auto [known, isNew] = knowledge.buffers.try_emplace({program, target}, state);
  RankState &before = known->second;
  if (isNew || state.zero)
    return success();
  if (before.zero || before.isUniform() || ends) {
    before = state;
    return success();
  }
  return checkOthers(op, before, state, target);
}

LogicalResult FunctionFlow::checkOthers(Operation *op, const RankState &before,
                                        const RankState &state,
                                        llvm::StringRef target) {
  llvm::SmallVector<bool> loose;
  for (unsigned axis = 0; axis < axes.count(); ++axis) {
    bool isLoose = before.isLoose(axis) || state.isLoose(axis);
    if (!isLoose && (before.over[axis] != state.over[axis] ||
                     before.isShardedBy(axis) != state.isShardedBy(axis)))
      return error(op, 0, axis) << describeOver(before, axis) << ", as what \""
                                << target << "\" holds";
    loose.push_back(isLoose);
  }
  if (isShardedAlike(before, state, loose))
    return success();
  for (auto [d, own, other] : llvm::enumerate(state.dims, before.dims))
    if (!isShardedAlike(own, other, loose))
      return op->emitOpError()
             << "of dimension " << d << " split " << printDim(own, axes)
             << ", expected " << printDim(other, axes) << ", as what \""
             << target << "\" holds";
  return success();
}

/// Pieces that are updated must get to the weights.
LogicalResult FunctionFlow::checkGathered(UpdateOp update,
                                          spmd::ParamOp param) {
  if (!param.getStateAxes() || param.getWeightAxes() ||
      axes.numbersOf(*param.getStateAxes()).empty())
    return success();
  for (Operation *op = update->getNextNode(); op; op = op->getNextNode())
    if (auto gather = dyn_cast<spmd::GatherParamOp>(op))
      if (gather.getName() == update.getName() &&
          gather.getStart() == update.getStart())
        return success();
  return update.emitOpError() << "of \"" << update.getName()
                              << "\" changes pieces, expected a "
                                 "'spmd.gather_param' that puts them together";
}

/// A gradient is sharded as the state that it changes.
LogicalResult FunctionFlow::checkUpdate(UpdateOp update) {
  spmd::ParamOp param =
      program.getParam(update.getName(), update.getStart().value_or(0));
  const RankState &gradient = states[update.getGradient()];
  for (const DimState &dim : gradient.dims)
    for (const IndexDigit &digit : dim.digits)
      if (digit.shift != 0)
        return error(update, 0, digit.axis) << "this rank's, not another's";
  auto declared = declaredDims(param, axes);
  llvm::SmallVector<unsigned, 4> pieces;
  if (param.getStateAxes())
    pieces = axes.numbersOf(*param.getStateAxes());
  llvm::SmallVector<bool> loose(axes.count(), false);
  for (unsigned axis = 0; axis < axes.count(); ++axis) {
    loose[axis] = gradient.isLoose(axis) || gradient.zero;
    if (loose[axis])
      continue;
    bool isSharded = llvm::is_contained(pieces, axis) ||
                     llvm::any_of(declared, [&](const DimState &dim) {
                       return dim.isShardedBy(axis);
                     });
    if (gradient.over[axis] != Over::Same)
      return error(update, 0, axis) << "it made";
    if (gradient.isShardedBy(axis) != isSharded && !gradient.isUniform())
      return error(update, 0, axis)
             << (isSharded ? "a part" : "the same on all ranks") << ", as \""
             << update.getName() << "\" is declared";
  }
  llvm::ArrayRef<DimState> dims = gradient.dims;
  if (update.getStart())
    dims = dims.drop_front();
  RankState own = gradient, expected = gradient;
  own.dims.assign(dims.begin(), dims.end());
  expected.dims = declared;
  if (pieces.empty() && !isShardedAlike(own, expected, loose))
    for (auto [d, found, other] : llvm::enumerate(dims, declared))
      if (!isShardedAlike(found, other, loose))
        return update.emitOpError()
               << "of \"" << update.getName() << "\" gets dimension " << d
               << " split " << printDim(found, axes) << ", expected "
               << printDim(other, axes) << " as it is declared";
  for (unsigned i = 1; i < update->getNumOperands(); ++i)
    if (failed(checkSame(update, i)))
      return failure();
  return checkGathered(update, param);
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

void FunctionFlow::enterRepeat(RepeatOp repeat,
                               llvm::ArrayRef<RankState> carried) {
  states[repeat.getIndex()] =
      RankState::same(repeat.getIndex().getType(), axes);
  for (auto [arg, state] : llvm::zip_equal(repeat.getCarryArgs(), carried))
    states[arg] = state;
  for (auto [arg, stack] :
       llvm::zip_equal(repeat.getSliceArgs(), repeat.getSlices())) {
    RankState slice = states[stack];
    slice.dims.erase(slice.dims.begin());
    states[arg] = slice;
  }
}

/// True where a value begins equal along a dimension that is sharded later.
static bool becomesSharded(const RankState &first, const RankState &later) {
  return llvm::any_of(llvm::zip(first.dims, later.dims), [](auto pair) {
    return std::get<0>(pair).uniform && !std::get<1>(pair).uniform;
  });
}

/// What is carried leaves an iteration as it came; what begins as zero comes as
/// it leaves.
LogicalResult FunctionFlow::runRepeat(RepeatOp repeat) {
  std::vector<RankState> carried;
  for (Value init : repeat.getInits())
    carried.push_back(states[init]);
  YieldOp yield = repeat.getYield();
  bool again = true;
  for (int pass = 0; again && pass < 2; ++pass) {
    again = false;
    enterRepeat(repeat, carried);
    if (failed(runBlock(repeat.getBody().front())))
      return failure();
    for (auto [i, value] : llvm::enumerate(yield.getCarried())) {
      const RankState &left = states[value];
      bool isAny = carried[i].zero || carried[i].isUniform();
      if (pass == 0 && (isAny || becomesSharded(carried[i], left)) &&
          !left.isUniform()) {
        if (isAny)
          carried[i] = left;
        carried[i].dims = left.dims;
        again = true;
        continue;
      }
      for (unsigned axis = 0; axis < axes.count(); ++axis) {
        bool loose = carried[i].isLoose(axis) || left.isLoose(axis);
        if (loose || left.zero || left.isUniform() ||
            (carried[i].over[axis] == left.over[axis] &&
             carried[i].isShardedBy(axis) == left.isShardedBy(axis)))
          continue;
        return error(yield, i, axis)
               << describeOver(carried[i], axis) << ", as it came";
      }
    }
  }
  for (auto [i, result] : llvm::enumerate(repeat.getResults())) {
    RankState state = states[yield->getOperand(i)];
    if (i >= carried.size())
      state.dims.insert(state.dims.begin(), DimState::local(repeat.getCount()));
    states[result] = state;
  }
  return success();
}

LogicalResult FunctionFlow::runOp(Operation *op) {
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return runRepeat(repeat);
  if (auto param = dyn_cast<ParamOp>(op))
    return readParam(param), success();
  if (auto read = dyn_cast<spmd::ReadOp>(op))
    return this->read(read), success();
  if (auto recv = dyn_cast<spmd::RecvOp>(op))
    return receive(recv), success();
  if (auto write = dyn_cast<spmd::WriteOp>(op))
    return store(op, write.getValue(), write.getTarget(), /*adds=*/false);
  if (auto add = dyn_cast<spmd::AccumulateOp>(op))
    return store(op, add.getValue(), add.getTarget(), /*adds=*/true);
  if (auto send = dyn_cast<spmd::SendOp>(op))
    return knowledge.sent[op] = states[send.getValue()], success();
  if (auto update = dyn_cast<UpdateOp>(op))
    return checkUpdate(update);
  if (isa<spmd::StopIfOp>(op))
    return checkSame(op, 0);
  if (isCollective(op))
    return transferCollective(op, states, axes);
  if (auto wait = dyn_cast<spmd::WaitOp>(op)) {
    RankState state = states[wait.getStarted()]; // the map grows below
    states[wait.getResult()] = std::move(state);
    return success();
  }
  if (auto offset = dyn_cast<spmd::OffsetOp>(op)) {
    RankState state = RankState::same(offset.getResult().getType(), axes);
    for (unsigned axis : axes.numbersOf(offset.getAxes()))
      state.over[axis] = Over::Own;
    states[offset.getResult()] = state;
    return success();
  }
  if (auto factors = dyn_cast<FactorOpInterface>(op))
    return transferOp(factors, states, axes);
  for (Value result : op->getResults())
    states[result] = RankState::unknown(result.getType(), axes);
  return success();
}

LogicalResult FunctionFlow::runBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(runOp(&op)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// The whole module
//===----------------------------------------------------------------------===//

LogicalResult kerf::checkRankStates(ModuleOp module) {
  RankKnowledge knowledge;
  knowledge.messages = matchMessages(module);
  RankOrder order(module, knowledge);
  while (spmd::FuncOp func = order.next())
    if (failed(FunctionFlow(func, knowledge).run()))
      return failure();
  return success();
}
