#include "kerf/Interfaces/KernelInterface.h"

using namespace mlir;
using namespace kerf;

#include "kerf/Interfaces/KernelOpInterface.cpp.inc"

std::optional<KernelCode> kerf::getOwnKernel(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel ? kernel.getKernel() : std::nullopt;
}

Operation *kerf::getOwnKernelOp(Block &block) {
  Operation &first = block.front();
  Operation *last = first.getNextNode();
  bool isWhole = last && last->hasTrait<OpTrait::IsTerminator>() &&
                 llvm::equal(first.getOperands(), block.getArguments()) &&
                 llvm::equal(last->getOperands(), first.getResults());
  return isWhole && getOwnKernel(&first) ? &first : nullptr;
}
