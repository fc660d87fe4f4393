//===- BuildCommands.cpp - ops in order, as commands ----------------------===//

#include "CommandBuilder.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

PlannedOperand CommandBuilder::at(const Storage &storage, RankedTensorType type,
                                  int64_t access) {
  PlannedOperand operand;
  operand.buffer = storage.buffer;
  operand.access = access;
  operand.element = type.getElementType();
  operand.offset = storage.offset;
  operand.iter = storage.iter;
  operand.micro = storage.micro;
  operand.bytes = spanBytes(type, storage.strides);
  return operand;
}

PlannedOperand CommandBuilder::operand(Value value, int64_t access) {
  auto found = map.values.find(value);
  if (found == map.values.end())
    return scalar(value);
  return at(found->second, typeOf(value), access);
}

PlannedOperand CommandBuilder::absent() {
  PlannedOperand operand;
  operand.other = exec::AbsentAttr::get(program.getContext());
  return operand;
}

/// The number of an iteration, or the offset of a shard.
PlannedOperand CommandBuilder::scalar(Value value) {
  if (map.values.count(value))
    return at(map.values[value], typeOf(value), KERF_READ);
  MLIRContext *context = program.getContext();
  PlannedOperand operand;
  if (isa<BlockArgument>(value)) {
    operand.other = exec::ScalarAttr::get(context, 0, 1, 0, {}, 0);
    return operand;
  }
  auto offset = value.getDefiningOp<spmd::OffsetOp>();
  kerf::MeshAttr mesh = source.getMesh();
  llvm::SmallVector<int64_t> axes(mesh.getNames().size(), 0);
  int64_t micro = 0;
  for (auto [axis, stride] :
       llvm::zip(offset.getAxes().getAsValueRange<StringAttr>(),
                 offset.getStrides())) {
    int64_t at = mesh.find(axis);
    (at < 0 ? micro : axes[at]) += stride;
  }
  operand.other =
      exec::ScalarAttr::get(context, offset.getStart().value_or(0), 0, micro,
                            axes, offset.getModulo().value_or(0));
  return operand;
}

PlannedOperand CommandBuilder::optional(Value value) {
  return value ? operand(value, KERF_READ) : absent();
}

PlannedOperand CommandBuilder::workspace(int64_t bytes, llvm::StringRef name) {
  if (bytes == 0)
    return absent();
  PlannedOperand operand;
  operand.buffer =
      map.add({name.str(), KERF_CLASS_WORKSPACE, BufferScope::Function, bytes});
  operand.access = KERF_WRITE;
  operand.element = Float32Type::get(program.getContext());
  operand.bytes = bytes;
  return operand;
}

/// "forward 12"; empty for an op without a phase. Not a place in a file: the
/// artifact is the same from whichever stage's file compilation resumes.
static std::string originOf(Operation *op) {
  PhaseAttr phase = getPhase(op);
  if (!phase)
    return "";
  std::string text = stringifyPhaseKind(phase.getKind()).str();
  return phase.getOp() < 0 ? text : text + " " + std::to_string(phase.getOp());
}

PlannedCommand &CommandBuilder::add(exec::Opcode opcode, Operation *op,
                                    llvm::StringRef name,
                                    llvm::ArrayRef<int64_t> values) {
  func->commands.push_back({opcode,
                            {},
                            name.str(),
                            originOf(op),
                            op->getLoc(),
                            llvm::SmallVector<int64_t>(values),
                            {},
                            0,
                            loop});
  return func->commands.back();
}

void CommandBuilder::copy(Operation *op, PlannedOperand from, PlannedOperand to,
                          int64_t when) {
  from.access = KERF_READ;
  to.access = KERF_WRITE;
  PlannedCommand &command = add(exec::Opcode::Copy, op, "copy", {to.bytes});
  command.operands = {from, to};
  command.when = when;
}

//===----------------------------------------------------------------------===//
// Repeats
//===----------------------------------------------------------------------===//

/// True for a carried argument or a view of it, whose place the move of another
/// carried value may overwrite.
static bool isInCarry(RepeatOp repeat, Value value) {
  return llvm::is_contained(repeat.getCarryArgs(), withoutRenames(value));
}

LogicalResult CommandBuilder::buildRepeat(RepeatOp repeat) {
  const std::vector<Carry> &carries = map.carries[repeat];
  auto typeOfCarry = [&](unsigned i) { return typeOf(repeat.getInits()[i]); };
  for (auto [i, carry] : llvm::enumerate(carries))
    if (carry.copyInit)
      copy(repeat, operand(repeat.getInits()[i], KERF_READ),
           at(carry.init, typeOfCarry(i), KERF_WRITE));
  loop = func->loops.size();
  func->loops.push_back({static_cast<int64_t>(repeat.getStart()),
                         static_cast<int64_t>(repeat.getEnd()),
                         repeat.getReverse()});
  if (failed(buildBlock(repeat.getBody().front())))
    return failure();
  for (const StackCopy &stacked : map.stackCopies[repeat])
    copy(repeat, operand(stacked.value, KERF_READ),
         at(stacked.to, typeOf(stacked.value), KERF_WRITE));
  // Through temporaries: a place may be both read and written.
  llvm::SmallVector<std::pair<PlannedOperand, PlannedOperand>> moves;
  for (auto [i, carry] : llvm::enumerate(carries)) {
    Value value = repeat.getYield().getCarried()[i];
    PlannedOperand to = at(carry.next, typeOfCarry(i), KERF_WRITE);
    bool stays = value == repeat.getCarryArgs()[i] &&
                 carry.next.offset == carry.now.offset;
    if (!carry.copyNext || stays)
      continue;
    PlannedOperand from = operand(value, KERF_READ);
    if (isInCarry(repeat, value)) {
      PlannedOperand between = workspace(to.bytes, "carry");
      copy(repeat, from, between);
      from = between;
    }
    moves.push_back({from, to});
  }
  for (auto &[from, to] : moves)
    copy(repeat, from, to);
  loop = -1;
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Sets the rows after a weight, for which its buffer has room, to zero. In
/// each call: nobody else knows of them, and they are few.
void CommandBuilder::zeroPadding(Operation *pad) {
  PlannedOperand rows = operand(pad->getResult(0), KERF_WRITE);
  int64_t narrow = denseBytes(pad->getOperand(0).getType());
  rows.offset += narrow;
  rows.bytes -= narrow;
  add(exec::Opcode::Zero, pad, "zero", {rows.bytes}).operands = {rows};
}

LogicalResult CommandBuilder::buildCall(Operation *op, LibraryCall call) {
  switch (call) {
  case LibraryCall::Matmul:
    return buildMatmul(op);
  case LibraryCall::Attention:
  case LibraryCall::AttentionGradient:
    return buildAttention(op);
  case LibraryCall::GroupedMatmul:
  case LibraryCall::GroupedGradient:
    return buildGroupedMatmul(op);
  }
  llvm_unreachable("covered switch");
}

LogicalResult CommandBuilder::buildOp(Operation &op) {
  if (isa<kerf::ParamOp, spmd::ReadOp, spmd::OffsetOp, spmd::ReturnOp,
          kerf::YieldOp>(op) ||
      isView(&op, ViewKind::Rename, ViewKind::Part, ViewKind::Join))
    return success();
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return buildRepeat(repeat);
  if (auto fused = dyn_cast<spmd::FusedOp>(op))
    return buildFused(fused);
  if (auto update = dyn_cast<UpdateOp>(op))
    return buildUpdate(update);
  if (auto accumulate = dyn_cast<spmd::AccumulateOp>(op))
    return buildAccumulate(accumulate);
  if (auto write = dyn_cast<spmd::WriteOp>(op)) {
    if (map.inPlace.contains(write))
      return success();
    auto type = typeOf(write.getValue());
    Storage target{map.symbols[write.getTarget()], 0, 0,
                   denseStrides(type.getShape())};
    copy(write, operand(write.getValue(), KERF_READ),
         at(target, type, KERF_WRITE));
    return success();
  }
  if (auto stop = dyn_cast<spmd::StopIfOp>(op)) {
    add(exec::Opcode::StopIf, stop, stop.getText()).operands = {
        operand(stop.getX(), KERF_READ)};
    return success();
  }
  if (map.inPlace.contains(&op)) // a sum that a matmul takes
    return success();
  if (isView(&op, ViewKind::Pad)) {
    zeroPadding(&op);
    return success();
  }
  if (std::optional<LibraryCall> call = libraryCallOf(&op))
    return buildCall(&op, *call);
  if (spmd::isExchange(&op) || isa<spmd::WaitOp, spmd::SliceOwnOp, spmd::SendOp,
                                   spmd::RecvOp, spmd::GatherParamOp>(op))
    return buildCommunication(&op);
  if (auto matmul = dyn_cast<spmd::FusedMatmulOp>(op))
    return buildFusedMatmul(matmul);
  return op.emitOpError("has no command, expected a kernel, a library op or "
                        "communication");
}

LogicalResult CommandBuilder::buildBlock(Block &block) {
  for (Operation &op : block)
    if (failed(buildOp(op)))
      return failure();
  return success();
}

LogicalResult CommandBuilder::buildFunc(spmd::FuncOp op) {
  pieces.clear();
  if (failed(buildBlock(op.getBody().front())))
    return failure();
  return checkGathered();
}

FailureOr<PlannedProgram> kerf::planCommands(spmd::ProgramOp source,
                                             exec::ProgramOp program,
                                             StorageMap &map,
                                             const MemoryOptions &options) {
  CommandBuilder builder{source, program, map, options};
  PlannedProgram planned;
  for (auto func : source.getBody().getOps<spmd::FuncOp>()) {
    planned.funcs.push_back({func.getSymName().str(), {}, {}});
    builder.func = &planned.funcs.back();
    builder.continues = func.getContinues().has_value();
    if (failed(builder.buildFunc(func)))
      return failure();
  }
  planned.channels = std::move(builder.channels);
  return planned;
}
