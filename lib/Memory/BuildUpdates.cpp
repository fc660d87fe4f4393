//===- BuildUpdates.cpp - optimizer steps and sums, as commands -----------===//

#include "CommandBuilder.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;

/// `tensor<type>` scalar.
static RankedTensorType scalarOf(Type element) {
  return RankedTensorType::get({}, element);
}

/// The kernel of an update: weight (or master), gradient, rate, step, [scale],
/// states to weight, states, [rounded weight], in place but for the last.
exec::KernelOp CommandBuilder::makeUpdate(UpdateOp update,
                                          RankedTensorType weight,
                                          bool hasMaster) {
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  auto type = typeOf(update.getGradient());
  size_t states = rule.getStateNames().size();
  MLIRContext *context = update.getContext();
  auto f32 = Float32Type::get(context);
  llvm::SmallVector<Type> inputs = {type, type, scalarOf(f32),
                                    scalarOf(IntegerType::get(context, 32))};
  if (update.getScale())
    inputs.push_back(scalarOf(f32));
  size_t firstState = inputs.size();
  inputs.append(states, type);
  llvm::SmallVector<Type> results(1 + states, type);
  if (hasMaster)
    results.push_back(weight);
  exec::KernelOp kernel = makeKernel(update.getLoc(), inputs, results);
  Block &body = kernel.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  PlainBuilder p{builder, update.getLoc()};
  Type element = type.getElementType();
  Value rate = p.mul(p.cast(body.getArgument(2), element),
                     update.getRateScale().convertToDouble());
  Value gradient = body.getArgument(1);
  if (update.getScale())
    gradient = p.mul(gradient, p.broadcast(p.cast(body.getArgument(4), element),
                                           {}, type.getShape()));
  llvm::SmallVector<Value> values =
      rule.buildUpdate(builder, update.getLoc(), body.getArgument(0), gradient,
                       body.getArguments().slice(firstState, states), rate,
                       p.cast(body.getArgument(3), element));
  if (hasMaster)
    values.push_back(p.cast(values[0], weight.getElementType()));
  exec::YieldOp::create(builder, update.getLoc(), values);
  llvm::SmallVector<Attribute> pairs;
  for (size_t i = 0; i <= states; ++i)
    pairs.push_back(builder.getI64ArrayAttr(
        {int64_t(i), int64_t(i == 0 ? 0 : firstState + i - 1)}));
  kernel.setInplaceAttr(builder.getArrayAttr(pairs));
  return kernel;
}

/// Where the update writes the weight: its storage; or, of a rank that makes a
/// piece of it, a temporary that `spmd.gather_param` reads, filled with the own
/// piece unless a master is updated.
PlannedOperand CommandBuilder::weightOf(UpdateOp update,
                                        const StorageMap::Param &param) {
  int64_t start = update.getStart().value_or(0);
  auto type = withElement(typeOf(update.getGradient()),
                          param.op.getLocalType().getElementType());
  Storage storage{param.buffer, param.offsetOf(start, param.stride), 0,
                  denseStrides(type.getShape())};
  if (!param.updatesPiece())
    return at(storage, type, KERF_READ);
  unsigned buffer =
      map.add({update.getName().str() + ".piece", KERF_CLASS_TEMPORARY,
               BufferScope::Function, denseBytes(type)});
  int64_t end = update.getEnd().value_or(1);
  pieces[{param.op, start}] = {buffer, end, update};
  PlannedOperand piece = at({buffer, 0, 0, storage.strides}, type, KERF_READ);
  if (param.master)
    return piece;
  ArrayAttr axes = *param.op.getStateAxes();
  int64_t ranks = source.getAxesSize(axes), count = end - start;
  auto whole = withShape(type, {count, ranks * param.op.getPieceSize()});
  storage.strides = denseStrides(whole.getShape());
  PlannedOperand written = piece;
  written.access = KERF_WRITE;
  add(exec::Opcode::Take, update, "take",
      {count, ranks, denseBytes(type) / count})
      .operands = {at(storage, whole, KERF_READ), written, placeIn(axes)};
  return piece;
}

LogicalResult CommandBuilder::buildUpdate(UpdateOp update) {
  int64_t start = update.getStart().value_or(0);
  const StorageMap::Param &param =
      map.getParam(source, update.getName(), start);
  auto type = typeOf(update.getGradient());
  auto stateAt = [&](unsigned buffer, int64_t stride) {
    return at({buffer, param.offsetOf(start, stride), 0,
               denseStrides(type.getShape())},
              type, KERF_READ);
  };
  PlannedOperand weight = weightOf(update, param);
  PlannedOperand updated =
      param.master ? stateAt(*param.master, param.masterStride) : weight;
  llvm::SmallVector<PlannedOperand> operands = {
      updated, operand(update.getGradient(), KERF_READ),
      operand(update.getRate(), KERF_READ),
      operand(update.getStep(), KERF_READ)};
  if (update.getScale())
    operands.push_back(operand(update.getScale(), KERF_READ));
  llvm::SmallVector<PlannedOperand> after = {updated};
  for (unsigned state : param.states) {
    operands.push_back(stateAt(state, param.stateStride));
    after.push_back(operands.back());
  }
  if (param.master)
    after.push_back(weight);
  operands.append(after);
  auto low = withElement(type, param.op.getLocalType().getElementType());
  launch(makeUpdate(update, low, param.master.has_value()), operands, update,
         "update");
  return success();
}

/// The first call of a step sets the sum, later ones add to it.
LogicalResult CommandBuilder::buildAccumulate(spmd::AccumulateOp accumulate) {
  if (map.inPlace.contains(accumulate))
    return success();
  Value value = accumulate.getValue();
  auto type = typeOf(value);
  Storage target{map.symbols[accumulate.getTarget()], 0, 0,
                 denseStrides(type.getShape())};
  copy(accumulate, operand(value, KERF_READ), at(target, type, KERF_WRITE),
       KERF_IF_FIRST);
  exec::KernelOp kernel = makeKernel(accumulate.getLoc(), {type, type}, {type});
  Block &body = kernel.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  PlainBuilder p{builder, accumulate.getLoc()};
  exec::YieldOp::create(builder, accumulate.getLoc(),
                        p.add(body.getArgument(0), body.getArgument(1)));
  kernel.setInplaceAttr(
      builder.getArrayAttr({builder.getI64ArrayAttr({0, 0})}));
  launch(kernel,
         {at(target, type, KERF_READ), operand(value, KERF_READ),
          at(target, type, KERF_WRITE)},
         accumulate, "accumulate", KERF_UNLESS_FIRST);
  return success();
}
