#include "CommandBuilder.h"

#include "kerf/Dialect/Exec/SplitKernel.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf;

exec::KernelOp CommandBuilder::makeKernel(Location loc, TypeRange arguments,
                                          TypeRange results) {
  OpBuilder builder(program.getContext());
  builder.setInsertionPointToEnd(&program.getBody().front());
  std::string name = "k" + std::to_string(kernels.size());
  return exec::KernelOp::create(
      builder, loc, name,
      FunctionType::get(program.getContext(), arguments, results));
}

FlatSymbolRefAttr CommandBuilder::intern(exec::KernelOp kernel) {
  uint64_t hash = kernelHash(kernel);
  auto [at, isNew] = kernels.try_emplace(hash);
  if (!isNew) {
    kernel.erase();
    return at->second;
  }
  std::string name = "k" + std::to_string(kernels.size() - 1);
  kernel.setSymName(name);
  at->second = FlatSymbolRefAttr::get(program.getContext(), name);
  return at->second;
}

void CommandBuilder::launch(exec::KernelOp kernel,
                            llvm::ArrayRef<PlannedOperand> operands,
                            Operation *op, llvm::StringRef name, int64_t when) {
  SplitKernel split = splitKernel(kernel);
  llvm::SmallVector<PlannedOperand> values(operands);
  for (RankedTensorType type : split.temporaries) {
    unsigned buffer = map.add({name.str(), KERF_CLASS_TEMPORARY,
                               BufferScope::Function, denseBytes(type)});
    values.push_back(
        at({buffer, 0, 0, denseStrides(type.getShape())}, type, KERF_READ));
  }
  for (KernelLaunch &part : split.launches) {
    size_t inputs = part.kernel.getArgumentTypes().size();
    llvm::SmallVector<PlannedOperand> arguments;
    for (auto [i, value] : llvm::enumerate(part.values)) {
      arguments.push_back(values[value]);
      if (arguments.back().buffer >= 0)
        arguments.back().access = i < inputs ? KERF_READ : KERF_WRITE;
    }
    PlannedCommand &command = add(exec::Opcode::Launch, op, name);
    command.kernel = intern(part.kernel);
    command.operands = arguments;
    command.when = when;
  }
}

LogicalResult CommandBuilder::buildFused(spmd::FusedOp fused) {
  Block &body = fused.getBody().front();
  exec::KernelOp kernel = makeKernel(fused.getLoc(), fused->getOperandTypes(),
                                     fused->getResultTypes());
  Block &inner = kernel.getBody().front();
  IRMapping mapping;
  for (auto [from, to] : llvm::zip(body.getArguments(), inner.getArguments()))
    mapping.map(from, to);
  OpBuilder builder = OpBuilder::atBlockEnd(&inner);
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  llvm::SmallVector<Value> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(mapping.lookupOrDefault(value));
  exec::YieldOp::create(builder, fused.getLoc(), results);
  llvm::SmallVector<PlannedOperand> operands;
  for (Value value : fused->getOperands())
    operands.push_back(operand(value, KERF_READ));
  for (Value value : fused->getResults())
    operands.push_back(operand(value, KERF_WRITE));
  auto kind = fused->getAttrOfType<StringAttr>("spmd.kind");
  launch(kernel, operands, fused, kind ? kind.getValue() : "fused");
  return success();
}

/// `tensor<type>` scalar.
static RankedTensorType scalarOf(Type element) {
  return RankedTensorType::get({}, element);
}

LogicalResult CommandBuilder::buildUpdate(UpdateOp update) {
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  const StorageMap::Param &param = map.params.find(update.getName())->second;
  auto type = typeOf(update.getGradient());
  auto low = withElement(type, param.op.getLocalType().getElementType());
  bool hasMaster = param.master.has_value();
  size_t states = param.states.size();
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
    results.push_back(low);
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
    values.push_back(p.cast(values[0], low.getElementType()));
  exec::YieldOp::create(builder, update.getLoc(), values);
  llvm::SmallVector<Attribute> pairs;
  for (size_t i = 0; i <= states; ++i)
    pairs.push_back(builder.getI64ArrayAttr(
        {int64_t(i), int64_t(i == 0 ? 0 : firstState + i - 1)}));
  kernel.setInplaceAttr(builder.getArrayAttr(pairs));

  int64_t start =
      update.getStart().value_or(0) - param.op.getStart().value_or(0);
  auto stateAt = [&](unsigned buffer, Type of, int64_t stride) {
    auto tensor = cast<RankedTensorType>(of);
    return at({buffer, start * stride, 0, denseStrides(tensor.getShape())},
              tensor, KERF_READ);
  };
  PlannedOperand weight = hasMaster
                              ? stateAt(*param.master, type, param.masterStride)
                              : stateAt(param.buffer, type, param.stride);
  llvm::SmallVector<PlannedOperand> operands = {
      weight, operand(update.getGradient(), KERF_READ),
      operand(update.getRate(), KERF_READ),
      operand(update.getStep(), KERF_READ)};
  if (update.getScale())
    operands.push_back(operand(update.getScale(), KERF_READ));
  llvm::SmallVector<PlannedOperand> after = {weight};
  for (unsigned state : param.states) {
    operands.push_back(stateAt(state, type, param.stateStride));
    after.push_back(operands.back());
  }
  if (hasMaster)
    after.push_back(stateAt(param.buffer, low, param.stride));
  operands.append(after);
  launch(kernel, operands, update, "update");
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
