#include "kerf/Dialect/Exec/Exec.h"

#include "kerf/Artifact/Format.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

#define GET_OP_CLASSES
#include "kerf/Dialect/Exec/ExecProgramOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult ProgramOp::verifyRegions() {
  int64_t arena = getArena(), bound = getLowerBound();
  // program_c1
  if (bound < 0 || arena < bound || arena % KERF_ARENA_ALIGN != 0 ||
      bound % KERF_ARENA_ALIGN != 0)
    return emitOpError() << "expected arena >= lower_bound >= 0, multiples of "
                         << KERF_ARENA_ALIGN << ", found " << arena << " and "
                         << bound;
  if (getClasses().size() != KERF_CLASS_COUNT) // program_c2
    return emitOpError() << "expected " << int(KERF_CLASS_COUNT)
                         << " classes, found " << getClasses().size();
  WalkResult found = walk([&](CommandOp command) {
    return failed(command.verifyInside(arena)) ? WalkResult::interrupt()
                                               : WalkResult::advance();
  });
  return failure(found.wasInterrupted());
}

/// First and last byte of an operand over the iterations [start, end).
static std::pair<int64_t, int64_t> rangeOf(ArenaAttr arena, int64_t start,
                                           int64_t end) {
  int64_t first = arena.getOffset() + start * arena.getIter();
  int64_t last = arena.getOffset() + (end - 1) * arena.getIter();
  return {std::min(first, last), std::max(first, last) + arena.getBytes()};
}

LogicalResult CommandOp::verifyInside(int64_t arenaBytes) {
  auto loop = (*this)->getParentOfType<LoopOp>();
  int64_t start = loop ? loop.getStart() : 0;
  int64_t end = loop ? loop.getEnd() : 1;
  for (Attribute operand : getOperandRefs()) {
    auto arena = dyn_cast<ArenaAttr>(operand);
    if (!arena)
      continue;
    auto [first, last] = rangeOf(arena, start, end);
    if (first < 0 || last > arenaBytes || arena.getBytes() < 0) // program_c3
      return emitOpError() << "operand [" << first << ", " << last
                           << ") lies outside the arena of " << arenaBytes
                           << " bytes";
  }
  return success();
}

LogicalResult CommandOp::verify() {
  if ((getOpcode() == Opcode::Launch) != getKernel().has_value()) // command_c1
    return emitOpError("expected a kernel exactly for 'launch'");
  if (getOpcode() == Opcode::Loop) // command_c2
    return emitOpError("expected 'exec.loop' for a loop");
  for (Attribute operand : getOperandRefs())
    if (!isa<ArenaAttr, ScalarAttr, AbsentAttr>(operand)) // command_c3
      return emitOpError()
             << "expected operands '#exec.arena', '#exec.scalar' or "
                "'#exec.absent', found "
             << operand;
  return success();
}

LogicalResult FuncOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<CommandOp, LoopOp>(op)) // func_c1
      return op.emitOpError("does not belong into a function, expected "
                            "'exec.command' or 'exec.loop'");
  return success();
}

LogicalResult LoopOp::verify() {
  if (getStart() < 0 || getStart() >= getEnd()) // loop_c1
    return emitOpError() << "expected 0 <= start < end, found " << getStart()
                         << " and " << getEnd();
  return success();
}

LogicalResult LoopOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<CommandOp>(op)) // loop_c2
      return op.emitOpError("does not belong into a loop, expected "
                            "'exec.command'");
  return success();
}

LogicalResult ScheduleOp::verify() {
  if (getName() != "train" && getName() != "evaluate") // schedule_c1
    return emitOpError() << "expected 'train' or 'evaluate', found '"
                         << getName() << "'";
  return success();
}

/// True when a call shortly before names the same function: it was checked.
static bool isKnown(CallOp call) {
  constexpr int farthest = 64;
  Operation *before = call->getPrevNode();
  for (int i = 0; before && i < farthest; ++i, before = before->getPrevNode())
    if (auto other = dyn_cast<CallOp>(before);
        other && other.getCalleeAttr() == call.getCalleeAttr())
      return true;
  return false;
}

LogicalResult CallOp::verify() {
  if (isKnown(*this))
    return success();
  auto program = (*this)->getParentOfType<ProgramOp>();
  if (!isa_and_nonnull<FuncOp>( // call_c1
          SymbolTable::lookupSymbolIn(program, getCalleeAttr())))
    return emitOpError() << "calls unknown function '" << getCallee() << "'";
  return success();
}

/// Checks the sharding of a tensor: `input_c1`, `param_c1`.
static LogicalResult verifySharded(Operation *op, ArrayAttr sharded,
                                   Type global, Type local) {
  auto whole = dyn_cast<RankedTensorType>(global);
  auto part = dyn_cast<RankedTensorType>(local);
  if (!whole || !part || whole.getRank() != part.getRank())
    return op->emitOpError() << "expected tensors of one rank, found " << global
                             << " and " << local;
  auto isAxes = [](Attribute dim) {
    auto axes = dyn_cast<ArrayAttr>(dim);
    return axes && llvm::all_of(axes, llvm::IsaPred<StringAttr>);
  };
  if (static_cast<int64_t>(sharded.size()) != whole.getRank() ||
      !llvm::all_of(sharded, isAxes))
    return op->emitOpError() << "expected one list of axes per dimension of "
                             << global << ", found " << sharded;
  return success();
}

/// True for `{name = "m", type = f32, at = 0, by = 64}`, with `block = 16` or
/// `without = 1` where the state is not shaped like a parameter of that rank.
static bool isState(Attribute attribute, int64_t rank) {
  auto state = dyn_cast<DictionaryAttr>(attribute);
  if (!state)
    return false;
  auto isIn = [&](llvm::StringRef name, int64_t low, int64_t high) {
    auto number = state.getAs<IntegerAttr>(name);
    return number ? number.getInt() >= low && number.getInt() <= high
                  : !state.contains(name);
  };
  return state.getAs<StringAttr>("name") && state.getAs<TypeAttr>("type") &&
         state.getAs<IntegerAttr>("at") && state.getAs<IntegerAttr>("by") &&
         isIn("block", 2, kLargestBlock) && isIn("without", 1, rank);
}

static LogicalResult verifyBlocks(exec::ParamOp param) {
  if (!param.getBlocks())
    return success();
  auto shape = cast<RankedTensorType>(param.getLocalType()).getShape();
  llvm::ArrayRef<int64_t> blocks = *param.getBlocks();
  bool fits = blocks.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d)
    fits = blocks[d] >= 1 && shape[d] % blocks[d] == 0;
  if (fits)
    return success();
  return param.emitOpError() // param_c3
         << "expected 'blocks' with one number per dimension, which divides "
            "the local size, found ["
         << blocks << "]";
}

static LogicalResult verifyGranule(exec::ParamOp param) {
  int64_t granule = param.getGranule().value_or(1);
  if (granule >= 1 && granule <= kLargestBlock)
    return success();
  return param.emitOpError() // param_c2
         << "expected a granule from 1 to " << kLargestBlock << ", found "
         << granule;
}

/// Axes over which state is split into pieces: names, none of which shards a
/// dimension.
static LogicalResult verifyPieces(exec::ParamOp param) {
  if (param.getWeightAxes() && param.getWeightAxes() != param.getStateAxes())
    return param.emitOpError("expected 'weights' over the axes of 'state'");
  if (!param.getStateAxes())
    return success();
  for (Attribute axis : param.getStateAxesAttr()) { // param_c4
    bool isSharded = llvm::any_of(
        param.getSharded().getAsRange<ArrayAttr>(),
        [&](ArrayAttr axes) { return llvm::is_contained(axes, axis); });
    if (!isa<StringAttr>(axis) || isSharded)
      return param.emitOpError()
             << "expected 'state' over names of axes that split no dimension, "
                "found "
             << axis;
  }
  return success();
}

LogicalResult exec::ParamOp::verify() { // param_c1
  if (failed(verifySharded(*this, getSharded(), getGlobalType(),
                           getLocalType())) ||
      failed(verifyGranule(*this)) || failed(verifyBlocks(*this)) ||
      failed(verifyPieces(*this)))
    return failure();
  int64_t rank = cast<RankedTensorType>(getGlobalType()).getRank();
  auto fits = [&](Attribute state) { return isState(state, rank); };
  if (!getStates() || llvm::all_of(*getStates(), fits)) // param_c2
    return success();
  return emitOpError() << "expected states {name, type, at, by}, with a block "
                          "of 2 or more or without a dimension, found "
                       << *getStates();
}

LogicalResult InputOp::verify() { // input_c1
  return verifySharded(*this, getSharded(), getGlobalType(), getLocalType());
}

LogicalResult ChannelOp::verify() {
  if (getHolds() < 1 || getFrom() == getTo()) // channel_c1
    return emitOpError() << "expected two stages and at least one message, "
                            "found "
                         << getFrom() << ", " << getTo() << " and "
                         << getHolds();
  return success();
}

LogicalResult BufferOp::verify() {
  llvm::ArrayRef<int64_t> live = getLive();
  bool isSound = live.size() % 2 == 0;
  for (size_t i = 0; isSound && i < live.size(); i += 2)
    isSound = live[i] >= 0 && live[i] <= live[i + 1] &&
              (i == 0 || live[i] > live[i - 1]);
  if (!isSound) // buffer_c1
    return emitOpError() << "expected pairs first <= last, in order, found ["
                         << live << "]";
  int64_t copies = getCopies().value_or(1);
  if (getScope().has_value() != getCopies().has_value() || copies < 1 ||
      static_cast<int64_t>(getBytes()) % copies != 0) // buffer_c2
    return emitOpError() << "expected copies beside a scope, which divide its "
                         << getBytes() << " bytes";
  return success();
}
