//===- TestOps.cpp - an op that no stage knows ----------------------------===//
//
// Everything about one op stands here: definition, factors, cost, meaning and
// gradient. It goes through every stage without an edit in any of them.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "mlir/IR/Dialect.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Compiler.h"

#include "TestDialect.h.inc"

#define GET_OP_CLASSES
#include "TestOps.h.inc"

#include "TestDialect.cpp.inc"

#define GET_OP_CLASSES
#include "TestOps.cpp.inc"

using namespace mlir;
using namespace kerf;
using kerf_test::SoftplusGateOp;

void kerf_test::TestDialect::initialize() { addOperations<SoftplusGateOp>(); }

Factors SoftplusGateOp::getFactors() { return pointwiseFactors(*this, {0}); }

OpCost SoftplusGateOp::getCost() {
  return costWithFlops(*this, 0, 22.0 * typeOf(getX()).getNumElements());
}

llvm::SmallVector<Value> SoftplusGateOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value softplus = p.log(p.add(p.exp(p.widen(getGate())), 1.0));
  Value y = p.mul(p.widen(getX()), softplus);
  return {p.cast(y, typeOf(getResult()).getElementType())};
}

LogicalResult SoftplusGateOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  if (gradients.needs(getX()))
    gradients.add(getX(), p.mul(dy, p.log(p.add(p.exp(getGate()), 1.0))));
  if (gradients.needs(getGate()))
    gradients.add(getGate(), p.mul(p.mul(dy, getX()), p.logistic(getGate())));
  return success();
}

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "KerfTestOps", LLVM_VERSION_STRING,
          [](DialectRegistry *registry) {
            registry->insert<kerf_test::TestDialect>();
          }};
}
