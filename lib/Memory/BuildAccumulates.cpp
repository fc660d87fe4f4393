//===- BuildAccumulates.cpp - sums over micro-batches, as commands --------===//

#include "CommandBuilder.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;

/// Adds the rows of a kernel to the table `target`: in each call where another
/// sum is there before, else the first one sets it.
void CommandBuilder::buildTable(spmd::AccumulateOp accumulate,
                                const Storage &target) {
  spmd::FusedOp rows = map.tables[accumulate];
  bool isAlone = accumulate.getValue() == rows->getResult(0);
  auto type = typeOf(accumulate.getValue());
  auto kind = rows->getAttrOfType<StringAttr>("spmd.kind");
  auto addKernel = [&](bool adds, uint32_t flags) {
    llvm::SmallVector<Type> types(rows->getOperandTypes());
    if (adds)
      types.push_back(type);
    exec::KernelOp kernel = makeKernel(rows.getLoc(), types, {type});
    Value sum = cloneBody(rows, kernel).front();
    Block &body = kernel.getBody().front();
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    int64_t last = static_cast<int64_t>(types.size()) - 1;
    if (adds)
      sum =
          PlainBuilder{builder, rows.getLoc()}.add(body.getArgument(last), sum);
    exec::YieldOp::create(builder, rows.getLoc(), sum);
    llvm::SmallVector<PlannedOperand> operands;
    for (Value value : rows->getOperands())
      operands.push_back(operand(value, KERF_READ));
    if (adds) {
      kernel.setInplaceAttr(
          builder.getArrayAttr({builder.getI64ArrayAttr({0, last})}));
      operands.push_back(at(target, type, KERF_READ));
    }
    operands.push_back(at(target, type, KERF_WRITE));
    launch(kernel, operands, rows, kind ? kind.getValue() : "fused", flags);
  };
  if (isAlone && !continues)
    addKernel(/*adds=*/false, KERF_IF_FIRST);
  addKernel(/*adds=*/true, isAlone && !continues ? KERF_UNLESS_FIRST : 0);
}

/// The first call of a step sets the sum, later ones add to it.
LogicalResult CommandBuilder::buildAccumulate(spmd::AccumulateOp accumulate) {
  if (map.inPlace.contains(accumulate))
    return success();
  Value value = accumulate.getValue();
  auto type = typeOf(value);
  Storage target{map.symbols[accumulate.getTarget()], 0, 0,
                 denseStrides(type.getShape())};
  if (!map.tables.contains(accumulate)) {
    addUp(accumulate, value, target);
    return success();
  }
  if (Value beside = map.besideTables.lookup(accumulate))
    addUp(accumulate, beside, target);
  buildTable(accumulate, target);
  return success();
}

/// Sets `target` to a value in the first call, and adds it in later ones.
void CommandBuilder::addUp(spmd::AccumulateOp accumulate, Value value,
                           const Storage &target) {
  auto type = typeOf(value);
  if (!continues)
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
         accumulate, "accumulate", continues ? 0 : KERF_UNLESS_FIRST);
}
