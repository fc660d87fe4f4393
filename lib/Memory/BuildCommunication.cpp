//===- BuildCommunication.cpp - what ranks tell each other, as commands ---===//

#include "CommandBuilder.h"

using namespace mlir;
using namespace kerf;

static int64_t productOf(llvm::ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

LogicalResult CommandBuilder::buildCommunication(Operation *op) {
  if (auto gather = dyn_cast<spmd::GatherParamOp>(op))
    return buildGatherParam(gather);
  // Bytes are moved as they lie: a part of something larger is not sent.
  for (Value value : llvm::concat<Value>(op->getOperands(), op->getResults()))
    if (!map.values.lookup(value).isDense(typeOf(value).getShape()))
      return op->emitOpError("reads or writes a view whose elements are not "
                             "adjacent");
  int64_t stage = source.getStage();
  if (auto slice = dyn_cast<spmd::SliceOwnOp>(op))
    return buildTake(slice);
  if (auto wait = dyn_cast<spmd::WaitOp>(op))
    return buildWait(wait);
  if (auto send = dyn_cast<spmd::SendOp>(op))
    return buildMessage(
        op, send.getValue(),
        {send.getChannel().str(), stage, int64_t(send.getTo())});
  if (auto recv = dyn_cast<spmd::RecvOp>(op))
    return buildMessage(
        op, recv.getResult(),
        {recv.getChannel().str(), int64_t(recv.getFrom()), stage});
  return buildCollective(op);
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

FailureOr<int64_t> CommandBuilder::maskOf(Operation *op, ArrayAttr axes) {
  int64_t mask = 0, last = -1;
  for (llvm::StringRef axis : axes.getAsValueRange<StringAttr>()) {
    int64_t at = source.getMesh().find(axis);
    if (at <= last)
      return op->emitOpError("expected axes in the order of the mesh")
                 .attachNote()
             << "the mesh is " << source.getMesh();
    mask |= int64_t(1) << at;
    last = at;
  }
  return mask;
}

PlannedOperand CommandBuilder::placeIn(ArrayAttr names) {
  kerf::MeshAttr mesh = source.getMesh();
  llvm::SmallVector<int64_t> axes(mesh.getNames().size(), 0);
  int64_t stride = 1, micro = 0;
  for (Attribute attribute : llvm::reverse(names)) {
    llvm::StringRef axis = cast<StringAttr>(attribute).getValue();
    int64_t at = mesh.find(axis);
    (at < 0 ? micro : axes[at]) = stride;
    stride *= source.getAxisSize(axis);
  }
  PlannedOperand place;
  place.other =
      exec::ScalarAttr::get(program.getContext(), 0, 0, micro, axes, 0);
  return place;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

static int64_t reductionOf(ReduceKind kind) {
  return kind == ReduceKind::Max ? KERF_MAX : KERF_SUM;
}

LogicalResult CommandBuilder::buildCollective(Operation *op) {
  size_t index = func->commands.size();
  if (failed(buildExchange(op)))
    return failure();
  if (spmd::isStarted(op)) {
    func->commands[index].when |= KERF_STARTS;
    started[op] = index;
  }
  return success();
}

/// The operands are those of the collective: both stay where they are till
/// then.
LogicalResult CommandBuilder::buildWait(spmd::WaitOp wait) {
  size_t index = started.lookup(wait.getStarted().getDefiningOp());
  int64_t back = func->commands.size() - index;
  PlannedCommand &command =
      add(exec::Opcode::Wait, wait, func->commands[index].name, {back});
  command.origin = func->commands[index].origin;
  command.operands = func->commands[index].operands;
  return success();
}

LogicalResult CommandBuilder::buildExchange(Operation *op) {
  Value x = op->getOperand(0), y = op->getResult(0);
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  FailureOr<int64_t> mask = maskOf(op, axes);
  if (failed(mask))
    return failure();
  if (auto exchange = dyn_cast<spmd::AllToAllOp>(op))
    return buildAllToAll(exchange, *mask);
  auto shape = typeOf(x).getShape();
  llvm::SmallVector<int64_t> values = {*mask, dtypeOf(x.getType())};
  exec::Opcode opcode = exec::Opcode::Rotate;
  if (auto reduce = dyn_cast<spmd::AllReduceOp>(op)) {
    opcode = exec::Opcode::AllReduce;
    values.append({reductionOf(reduce.getKind()), productOf(shape)});
  } else if (auto gather = dyn_cast<spmd::AllGatherOp>(op)) {
    int64_t dim = gather.getDim();
    opcode = exec::Opcode::AllGather;
    values.append(
        {productOf(shape.take_front(dim)), productOf(shape.drop_front(dim))});
  } else if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op)) {
    int64_t dim = scatter.getDim();
    opcode = exec::Opcode::ReduceScatter;
    values.append(
        {reductionOf(scatter.getKind()), productOf(shape.take_front(dim)),
         productOf(shape.drop_front(dim)) / source.getAxesSize(axes)});
  } else {
    values.push_back(productOf(shape));
  }
  add(opcode, op, op->getName().stripDialect(), values).operands = {
      operand(x, KERF_READ), operand(y, KERF_WRITE)};
  return success();
}

/// The part of a dimension that belongs to this rank.
LogicalResult CommandBuilder::buildTake(spmd::SliceOwnOp slice) {
  auto shape = typeOf(slice.getX()).getShape();
  int64_t dim = slice.getDim(), parts = source.getAxesSize(slice.getAxes());
  int64_t inner = productOf(shape.drop_front(dim)) / parts *
                  elementBytes(slice.getX().getType());
  add(exec::Opcode::Take, slice, "take",
      {productOf(shape.take_front(dim)), parts, inner})
      .operands = {operand(slice.getX(), KERF_READ),
                   operand(slice.getResult(), KERF_WRITE),
                   placeIn(slice.getAxes())};
  return success();
}

/// Splits one dimension among the ranks and joins another, which lies after it
/// or (back) before it.
LogicalResult CommandBuilder::buildAllToAll(spmd::AllToAllOp op, int64_t mask) {
  auto shape = typeOf(op.getX()).getShape();
  int64_t split = op.getSplit(), concat = op.getConcat();
  bool back = concat < split;
  int64_t first = std::min(split, concat), second = std::max(split, concat);
  int64_t outer = productOf(shape.take_front(first));
  int64_t middle = productOf(shape.slice(first, second - first));
  int64_t inner = productOf(shape.drop_front(second));
  (back ? inner : middle) /= source.getAxesSize(op.getAxes());
  add(exec::Opcode::AllToAll, op, "all_to_all",
      {mask, dtypeOf(op.getX().getType()), back, outer, middle, inner})
      .operands = {operand(op.getX(), KERF_READ),
                   operand(op.getResult(), KERF_WRITE)};
  return success();
}

//===----------------------------------------------------------------------===//
// Between stages
//===----------------------------------------------------------------------===//

LogicalResult CommandBuilder::buildMessage(Operation *op, Value value,
                                           PlannedChannel channel) {
  int64_t bytes = denseBytes(value.getType());
  auto at = llvm::find_if(channels, [&](const PlannedChannel &other) {
    return other.isSame(channel.name, channel.from, channel.to);
  });
  if (at == channels.end())
    at = channels.insert(at, std::move(channel));
  at->bytes = std::max(at->bytes, bytes);
  bool sends = isa<spmd::SendOp>(op);
  add(sends ? exec::Opcode::Send : exec::Opcode::Receive, op,
      sends ? "send" : "receive", {at - channels.begin(), bytes})
      .operands = {operand(value, sends ? KERF_READ : KERF_WRITE)};
  return success();
}

//===----------------------------------------------------------------------===//
// State in pieces
//===----------------------------------------------------------------------===//

LogicalResult CommandBuilder::buildGatherParam(spmd::GatherParamOp gather) {
  int64_t start = gather.getStart().value_or(0);
  int64_t end = gather.getEnd().value_or(1);
  const StorageMap::Param &param =
      map.getParam(source, gather.getName(), start);
  auto found = pieces.find({param.op, start});
  if (found == pieces.end() || found->second.end != end)
    return gather.emitOpError()
           << "of \"" << gather.getName() << "\" [" << start << " to " << end
           << "] follows no 'kerf.update' of these in its function";
  found->second.isGathered = true;
  ArrayAttr axes = *param.op.getStateAxes();
  FailureOr<int64_t> mask = maskOf(gather, axes);
  if (failed(mask))
    return failure();
  int64_t count = end - start, piece = param.op.getPieceSize();
  auto part = withShape(param.op.getLocalType(), {count, piece});
  auto whole = withShape(part, {count, piece * source.getAxesSize(axes)});
  Storage from{found->second.buffer, 0, 0, denseStrides(part.getShape())};
  Storage to{param.buffer, param.offsetOf(start, param.stride), 0,
             denseStrides(whole.getShape())};
  add(exec::Opcode::AllGather, gather, "gather_param",
      {*mask, dtypeOf(part), count, piece})
      .operands = {at(from, part, KERF_READ), at(to, whole, KERF_WRITE)};
  return success();
}

/// Pieces that were updated must reach the other ranks.
LogicalResult CommandBuilder::checkGathered() {
  for (auto &[key, made] : pieces)
    if (!made.isGathered)
      return made.update.emitOpError()
             << "updates a piece of \"" << made.update.getName()
             << "\", which no 'spmd.gather_param' of its function puts "
                "together";
  return success();
}
