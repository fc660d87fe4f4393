//===- Smooth.cpp - an op of one's own, with its own kernel ---------------===//
//
// All that Kerf needs to know: factors (how it may be cut), cost, meaning,
// gradient, and kernels. The planner, partitioning, recomputation, fusion and
// the runtime ask for these; none of them is edited.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Interfaces/KernelInterface.h"

#include "mlir/IR/Dialect.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Compiler.h"

#include "SmoothDialect.h.inc"

#define GET_OP_CLASSES
#include "Smooth.h.inc"

#include "SmoothDialect.cpp.inc"

#define GET_OP_CLASSES
#include "Smooth.cpp.inc"

using namespace mlir;
using namespace kerf;
using smooth::SquareplusBackwardOp;
using smooth::SquareplusOp;

void smooth::SmoothDialect::initialize() {
  addOperations<SquareplusOp, SquareplusBackwardOp>();
}

//===----------------------------------------------------------------------===//
// Factors: elements do not mix; the gradient is linear in dy. Cost: flops.
//===----------------------------------------------------------------------===//

Factors SquareplusOp::getFactors() {
  return pointwiseFactors(*this, Positions::Ignored, {});
}
Factors SquareplusBackwardOp::getFactors() {
  return pointwiseFactors(*this, Positions::Ignored, {1});
}

/// Flops of an element; a root counts as 10.
OpCost SquareplusOp::getCost() {
  return costWithFlops(*this, 0, 14.0 * typeOf(getResult()).getNumElements());
}
OpCost SquareplusBackwardOp::getCost() {
  return costWithFlops(*this, 0, 16.0 * typeOf(getDx()).getNumElements());
}

//===----------------------------------------------------------------------===//
// Meaning and gradient
//===----------------------------------------------------------------------===//

/// sqrt(x^2 + 4)
static Value rootOf(PlainBuilder &p, Value x) {
  return p.sqrt(p.add(p.mul(x, x), 4.0));
}

llvm::SmallVector<Value> SquareplusOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value x = p.widen(getX());
  Value y = p.mul(p.add(x, rootOf(p, x)), 0.5);
  return {p.cast(y, typeOf(getResult()).getElementType())};
}

llvm::SmallVector<Value> SquareplusBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value x = p.widen(getX());
  Value slope = p.mul(p.add(p.div(x, rootOf(p, x)), 1.0), 0.5);
  Value dx = p.mul(slope, p.widen(getDy()));
  return {p.cast(dx, typeOf(getDx()).getElementType())};
}

LogicalResult SquareplusOp::buildGradient(GradientBuilder &gradients) {
  if (gradients.needs(getX()))
    gradients.add(getX(), SquareplusBackwardOp::create(
                              gradients.builder(), getLoc(), getX(),
                              gradients.of(getResult())));
  return success();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// kernels.c as LLVM IR.
static constexpr char kKernels[] =
#include "kernels.ll.inc"
    ;

/// A function of kernels.c, whose units are elements. Other element types get
/// the kernel that Kerf generates from the decomposition.
static std::optional<KernelCode> kernelOf(llvm::StringRef function,
                                          Value result) {
  RankedTensorType type = typeOf(result);
  if (!type.getElementType().isF32())
    return std::nullopt;
  KernelCode kernel{kKernels, function.str()};
  kernel.units = type.getNumElements();
  kernel.grain = 16384; // about 10 us
  return kernel;
}

std::optional<KernelCode> SquareplusOp::getKernel() {
  return kernelOf("squareplus", getResult());
}
std::optional<KernelCode> SquareplusBackwardOp::getKernel() {
  return kernelOf("squareplus_backward", getDx());
}

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Smooth", LLVM_VERSION_STRING,
          [](DialectRegistry *registry) {
            registry->insert<smooth::SmoothDialect>();
          }};
}
