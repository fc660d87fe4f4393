//===- DescribeOps.cpp - ops of a step in words ---------------------------===//

#include "PlanHead.h"

#include "kerf/Interfaces/Place.h"

using namespace mlir;
using namespace kerf;

/// The first parameter that an op reads; null where there is none.
static ParamOp weightOf(Operation *op) {
  if (auto param = dyn_cast<ParamOp>(op))
    return param;
  for (Value operand : op->getOperands())
    if (ParamOp param = findWeight(operand))
      return param;
  return {};
}

/// "linear h.{}.mlp.c_fc.weight"
static std::string nameWith(Operation *op) {
  std::string name = op->getName().stripDialect().str();
  if (auto update = dyn_cast<UpdateOp>(op))
    return name + " " + update.getName().str();
  if (ParamOp weight = weightOf(op))
    name += " " + weight.getName().str();
  return name;
}

llvm::DenseMap<Operation *, std::string> kerf::describeOps(ModelOp model) {
  llvm::DenseMap<Operation *, std::string> words;
  llvm::DenseMap<int64_t, std::string> forward;
  model.getBody().walk([&](FactorOpInterface op) {
    PhaseAttr phase = getPhase(op);
    if (!phase)
      return;
    std::string name = nameWith(op);
    if (phase.getKind() == PhaseKind::Forward)
      forward.try_emplace(phase.getOp(), name);
    else if (auto of = forward.find(phase.getOp());
             of != forward.end() && of->second != name)
      name += ", of " + of->second;
    if (std::string place = placeOf(op->getLoc()); !place.empty())
      name += ", " + place;
    words[op] = std::move(name);
  });
  return words;
}
