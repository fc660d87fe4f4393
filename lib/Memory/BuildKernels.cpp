#include "CommandBuilder.h"

#include "kerf/Dialect/Exec/SplitKernel.h"

#include "mlir/IR/IRMapping.h"

#include <numeric>

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

/// Bytes that all addresses of an operand are a multiple of, at most those of a
/// GPU's widest access. Layers, rows and views lie densely in buffers.
static int64_t alignmentOf(const PlannedOperand &operand) {
  int64_t bytes = kWidestAccess;
  for (int64_t stride : {operand.offset, operand.iter, operand.micro})
    bytes = std::gcd(bytes, stride);
  return bytes;
}

/// Tells the code of a kernel for GPUs where its operands may lie.
static void setAlignment(exec::KernelOp kernel,
                         llvm::ArrayRef<PlannedOperand> operands) {
  llvm::SmallVector<int64_t> all(llvm::map_range(operands, alignmentOf));
  if (llvm::any_of(all, [](int64_t x) { return x < kWidestAccess; }))
    kernel->setAttr(kAlignedAttrName,
                    Builder(kernel.getContext()).getDenseI64ArrayAttr(all));
}

void CommandBuilder::launch(exec::KernelOp kernel,
                            llvm::ArrayRef<PlannedOperand> operands,
                            Operation *op, llvm::StringRef name, int64_t when) {
  SplitKernel split =
      splitKernel(kernel, {/*forGpu=*/options.target == KERF_TARGET_CUDA});
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
    if (options.target == KERF_TARGET_CUDA)
      setAlignment(part.kernel, arguments);
    PlannedCommand &command = add(exec::Opcode::Launch, op, name);
    command.kernel = intern(part.kernel);
    command.operands = arguments;
    command.when = when;
  }
}

llvm::SmallVector<Value> CommandBuilder::cloneBody(spmd::FusedOp fused,
                                                   exec::KernelOp kernel) {
  Block &from = fused.getBody().front(), &to = kernel.getBody().front();
  IRMapping mapping;
  for (auto [old, own] : llvm::zip(from.getArguments(), to.getArguments()))
    mapping.map(old, own);
  OpBuilder builder = OpBuilder::atBlockEnd(&to);
  for (Operation &op : from.without_terminator())
    builder.clone(op, mapping);
  return llvm::map_to_vector(
      from.getTerminator()->getOperands(),
      [&](Value value) { return mapping.lookupOrDefault(value); });
}

LogicalResult CommandBuilder::buildFused(spmd::FusedOp fused) {
  if (map.absorbed.contains(fused))
    return success();
  exec::KernelOp kernel = makeKernel(fused.getLoc(), fused->getOperandTypes(),
                                     fused->getResultTypes());
  llvm::SmallVector<Value> results = cloneBody(fused, kernel);
  OpBuilder builder = OpBuilder::atBlockEnd(&kernel.getBody().front());
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
