#include "kerf/Dialect/Spmd/Pipelines.h"

using namespace mlir;
using namespace kerf;

llvm::SmallVector<StagePrograms> kerf::getPipelines(ModuleOp module) {
  llvm::SmallVector<StagePrograms> pipelines;
  for (spmd::ProgramOp program : module.getOps<spmd::ProgramOp>()) {
    if (pipelines.empty() || program.getStage() == 0)
      pipelines.emplace_back();
    pipelines.back().push_back(program);
  }
  return pipelines;
}
