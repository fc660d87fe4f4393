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
    operand.other = exec::ScalarAttr::get(context, 0, 1, 0, {});
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
  operand.other = exec::ScalarAttr::get(context, 0, 0, micro, axes);
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
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return llvm::is_contained(repeat.getCarryArgs(), value);
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
// Communication
//===----------------------------------------------------------------------===//

static int64_t productOf(llvm::ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

LogicalResult CommandBuilder::buildCollective(Operation *op) {
  if (auto slice = dyn_cast<spmd::SliceOwnOp>(op))
    return buildTake(slice);
  Value x = op->getOperand(0), y = op->getResult(0);
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  int64_t mask = 0, ranks = source.getAxesSize(axes), last = -1;
  for (llvm::StringRef axis : axes.getAsValueRange<StringAttr>()) {
    int64_t at = source.getMesh().find(axis);
    if (at <= last)
      return op->emitOpError("expected axes in the order of the mesh")
                 .attachNote()
             << "the mesh is " << source.getMesh();
    mask |= int64_t(1) << at;
    last = at;
  }
  llvm::SmallVector<PlannedOperand> operands = {operand(x, KERF_READ),
                                                operand(y, KERF_WRITE)};
  auto reduction = [](ReduceKind kind) {
    return int64_t(kind == ReduceKind::Max ? KERF_MAX : KERF_SUM);
  };
  auto shape = typeOf(x).getShape();
  int64_t dtype = dtypeOf(x.getType());
  llvm::SmallVector<int64_t> values = {mask, dtype};
  exec::Opcode opcode = exec::Opcode::AllReduce;
  if (auto reduce = dyn_cast<spmd::AllReduceOp>(op)) {
    values.append({reduction(reduce.getKind()), productOf(shape)});
  } else if (auto gather = dyn_cast<spmd::AllGatherOp>(op)) {
    int64_t dim = gather.getDim();
    opcode = exec::Opcode::AllGather;
    values.append(
        {productOf(shape.take_front(dim)), productOf(shape.drop_front(dim))});
  } else if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op)) {
    int64_t dim = scatter.getDim();
    opcode = exec::Opcode::ReduceScatter;
    values.append({reduction(scatter.getKind()),
                   productOf(shape.take_front(dim)),
                   productOf(shape.drop_front(dim)) / ranks});
  } else {
    return buildAllToAll(cast<spmd::AllToAllOp>(op), mask, ranks);
  }
  add(opcode, op, op->getName().stripDialect(), values).operands = operands;
  return success();
}

/// The part of a dimension that belongs to this rank.
LogicalResult CommandBuilder::buildTake(spmd::SliceOwnOp slice) {
  auto shape = typeOf(slice.getX()).getShape();
  int64_t dim = slice.getDim(), parts = source.getAxesSize(slice.getAxes());
  kerf::MeshAttr mesh = source.getMesh();
  llvm::SmallVector<int64_t> axes(mesh.getNames().size(), 0);
  int64_t stride = 1, micro = 0;
  for (Attribute attribute : llvm::reverse(slice.getAxes())) {
    llvm::StringRef axis = cast<StringAttr>(attribute).getValue();
    int64_t at = mesh.find(axis);
    (at < 0 ? micro : axes[at]) = stride;
    stride *= source.getAxisSize(axis);
  }
  PlannedOperand part;
  part.other = exec::ScalarAttr::get(program.getContext(), 0, 0, micro, axes);
  int64_t inner = productOf(shape.drop_front(dim)) / parts *
                  elementBytes(slice.getX().getType());
  add(exec::Opcode::Take, slice, "take",
      {productOf(shape.take_front(dim)), parts, inner})
      .operands = {operand(slice.getX(), KERF_READ),
                   operand(slice.getResult(), KERF_WRITE), part};
  return success();
}

/// Splits one dimension among the ranks and joins another, which lies after it
/// or (back) before it.
LogicalResult CommandBuilder::buildAllToAll(spmd::AllToAllOp op, int64_t mask,
                                            int64_t ranks) {
  auto shape = typeOf(op.getX()).getShape();
  int64_t split = op.getSplit(), concat = op.getConcat();
  bool back = concat < split;
  int64_t first = std::min(split, concat), second = std::max(split, concat);
  int64_t outer = productOf(shape.take_front(first));
  int64_t middle = productOf(shape.slice(first, second - first));
  int64_t inner = productOf(shape.drop_front(second));
  (back ? inner : middle) /= ranks;
  add(exec::Opcode::AllToAll, op, "all_to_all",
      {mask, dtypeOf(op.getX().getType()), back, outer, middle, inner})
      .operands = {operand(op.getX(), KERF_READ),
                   operand(op.getResult(), KERF_WRITE)};
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult CommandBuilder::buildOp(Operation &op) {
  if (isa<kerf::ParamOp, ReshapeOp, SliceOp, ConcatOp, spmd::ReadOp,
          spmd::OffsetOp, spmd::ReturnOp, kerf::YieldOp>(op))
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
  if (isa<AttentionOp, AttentionBackwardOp>(op))
    return buildAttention(&op);
  if (isa<GroupedMatmulOp, GroupedWeightGradientOp>(op))
    return buildGroupedMatmul(&op);
  if (isa<spmd::AllReduceOp, spmd::AllGatherOp, spmd::ReduceScatterOp,
          spmd::AllToAllOp, spmd::SliceOwnOp>(op))
    return buildCollective(&op);
  if (isa<LinearOp, MatmulOp, EinsumOp>(op))
    return buildMatmul(&op);
  return op.emitOpError("has no command, expected a kernel, a library op or a "
                        "collective");
}

LogicalResult CommandBuilder::buildBlock(Block &block) {
  for (Operation &op : block)
    if (failed(buildOp(op)))
      return failure();
  return success();
}

LogicalResult CommandBuilder::buildFunc(spmd::FuncOp op) {
  return buildBlock(op.getBody().front());
}

FailureOr<std::vector<PlannedFunc>>
kerf::planCommands(spmd::ProgramOp source, exec::ProgramOp program,
                   StorageMap &map, const MemoryOptions &options) {
  CommandBuilder builder{source,
                         program,
                         map,
                         options,
                         nullptr,
                         -1,
                         llvm::DenseMap<uint64_t, FlatSymbolRefAttr>()};
  std::vector<PlannedFunc> funcs;
  for (auto func : source.getBody().getOps<spmd::FuncOp>()) {
    funcs.push_back({func.getSymName().str(), {}, {}});
    builder.func = &funcs.back();
    if (failed(builder.buildFunc(func)))
      return failure();
  }
  return funcs;
}
