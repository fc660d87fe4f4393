//===- CheckInterpretable.cpp - is a model small enough to run here? ------===//
//
// Every value of a step stays in memory, as f64. What a step needs follows from
// the decomposed model: each result once, each parameter once per iteration and
// again where it is updated. Its time is counted in visits of an element.
//
//===----------------------------------------------------------------------===//

#include "kerf/Interpreter/SpmdInterpreter.h"

#include "kerf/Dialect/Kerf/Decompose.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

namespace {
/// What one step takes.
struct Need {
  double elements = 0; ///< held at once
  double visits = 0;   ///< of elements, about 10 ns each
};
} // namespace

/// Without overflow.
static double countElements(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  double elements = 1;
  for (int64_t size : tensor ? tensor.getShape() : llvm::ArrayRef<int64_t>())
    elements *= size;
  return elements;
}

static double countElements(TypeRange types) {
  double elements = 0;
  for (Type type : types)
    elements += countElements(type);
  return elements;
}

static void addNeed(Need &need, Operation *op) {
  constexpr double perOp = 100;   // visits that take as long as starting an op
  constexpr double perVisit = 8;  // multiplications as long as a visit
  constexpr double perUpdate = 6; // copies of parameter, gradient and state
  auto repeat = op->getParentOfType<RepeatOp>();
  double times = repeat ? repeat.getCount() : 1;
  double results = countElements(op->getResultTypes());
  double operands = countElements(op->getOperandTypes());
  need.elements += results;
  need.visits += times * (perOp + results + operands);
  if (isa<ParamOp>(op))
    need.elements += 2 * times * results;
  if (isa<UpdateOp>(op))
    need.elements += perUpdate * operands;
  if (auto einsum = dyn_cast<EinsumOp>(op)) {
    double multiplications = einsum.getCost().matmulFlops / 2;
    need.visits += times * multiplications / perVisit;
    need.elements += 2 * multiplications / std::max(results, 1.0);
  }
}

static LogicalResult checkTensor(Location loc, Type type) {
  if (countElements(type) <= std::exp2(28))
    return success();
  auto diagnostic = mlir::emitError(loc)
                    << "the interpreter holds tensors of up to 2^28 elements, "
                       "found "
                    << type;
  diagnostic.attachNote() << "import the model with a smaller batch and "
                             "sequence, or a tiny config";
  return diagnostic;
}

static LogicalResult checkTensors(Operation *root) {
  WalkResult walk = root->walk([](Operation *op) {
    for (Type type : op->getResultTypes())
      if (failed(checkTensor(op->getLoc(), type)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

static LogicalResult checkNeed(Operation *root, llvm::StringRef what,
                               double need, int exponent) {
  if (need <= std::exp2(exponent))
    return success();
  auto diagnostic = root->emitOpError()
                    << "takes " << need << ' ' << what
                    << " in a step, the interpreter is for up to 2^"
                    << exponent;
  diagnostic.attachNote() << "import the model with fewer layers, a smaller "
                             "batch and sequence, or a tiny config";
  return diagnostic;
}

LogicalResult kerf::checkInterpretable(ModelOp model) {
  for (BlockArgument input : model.getBody().getArguments())
    if (failed(checkTensor(input.getLoc(), input.getType())))
      return failure();
  if (failed(checkTensors(model)))
    return failure();
  OwningOpRef<ModelOp> plain(model.clone());
  decomposeAll(*plain);
  Need need;
  need.elements = countElements(model.getBody().getArgumentTypes());
  plain->getBody().walk([&](Operation *op) { addNeed(need, op); });
  if (failed(checkNeed(model, "elements", need.elements, 27)))
    return failure();
  return checkNeed(model, "visits of elements", need.visits, 30);
}

LogicalResult kerf::checkInterpretable(llvm::ArrayRef<spmd::ProgramOp> programs,
                                       int more) {
  Need total;
  for (spmd::ProgramOp program : programs) {
    if (failed(checkTensors(program)))
      return failure();
    OwningOpRef<spmd::ProgramOp> plain(program.clone());
    decomposeAll(*plain);
    Need need;
    plain->getBody().walk([&](Operation *op) { addNeed(need, op); });
    double ranks = program.getRanks().size();
    total.elements += ranks * need.elements;
    total.visits += ranks * program.getMicroBatches() * need.visits;
  }
  if (failed(
          checkNeed(programs.front(), "elements", total.elements, 27 + more)))
    return failure();
  return checkNeed(programs.front(), "visits of elements", total.visits,
                   30 + more);
}
