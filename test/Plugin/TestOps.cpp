//===- TestOps.cpp - ops that no stage knows ------------------------------===//
//
// Everything about an op stands here: definition, factors, cost, meaning and
// gradient, or a kernel. It goes through every stage without an edit in any of
// them.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Interfaces/KernelInterface.h"

#include "mlir/IR/Dialect.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Compiler.h"

#include <cmath>

#include "TestDialect.h.inc"

#define GET_OP_CLASSES
#include "TestOps.h.inc"

#include "TestDialect.cpp.inc"

#define GET_OP_CLASSES
#include "TestOps.cpp.inc"

using namespace mlir;
using namespace kerf;
using kerf_test::CodeOp;
using kerf_test::ReverseRowsOp;
using kerf_test::SoftplusGateOp;
using kerf_test::SoftsignOp;
using kerf_test::SplitHeadsOp;

void kerf_test::TestDialect::initialize() {
  addOperations<CodeOp, ReverseRowsOp, SoftplusGateOp, SoftsignOp,
                SplitHeadsOp>();
}

//===----------------------------------------------------------------------===//
// softplus_gate
//===----------------------------------------------------------------------===//

Factors SoftplusGateOp::getFactors() {
  return pointwiseFactors(*this, Positions::Ignored, {0});
}

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

//===----------------------------------------------------------------------===//
// softsign
//===----------------------------------------------------------------------===//

Factors SoftsignOp::getFactors() {
  return pointwiseFactors(*this, Positions::Ignored);
}

void SoftsignOp::evaluate(llvm::ArrayRef<const HostTensor *> operands,
                          llvm::MutableArrayRef<HostTensor> results) {
  for (int64_t i = 0; i < operands[0]->size(); ++i) {
    double x = operands[0]->data[i];
    results[0].data[i] = x / (1 + std::abs(x));
  }
}

Value SoftsignOp::buildElement(ScalarBuilder &s,
                               llvm::ArrayRef<Value> elements) {
  Value x = elements[0];
  Value magnitude = s.max(x, s.neg(x));
  return s.div(x, s.add(s.number(x, 1), magnitude));
}

LogicalResult SoftsignOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value x = getX(), dy = gradients.of(getResult());
  Value below = p.add(p.max(x, p.neg(x)), 1.0);
  gradients.add(x, p.div(dy, p.mul(below, below)));
  return success();
}

//===----------------------------------------------------------------------===//
// split_heads
//===----------------------------------------------------------------------===//

View SplitHeadsOp::getView() { return {ViewKind::Rename}; }

Factors SplitHeadsOp::getFactors() {
  Factors facts(Positions::Ignored);
  llvm::ArrayRef<int64_t> to = typeOf(getResult()).getShape();
  unsigned b = facts.add("b", to[0]), s = facts.add("s", to[1]);
  unsigned h = facts.add("h", to[2]), d = facts.add("d", to[3]);
  facts.operands = {{{b}, {s}, {h, d}}};
  facts.results = {{{b}, {s}, {h}, {d}}};
  facts.linearOperands = {0};
  return facts;
}

void SplitHeadsOp::evaluate(llvm::ArrayRef<const HostTensor *> operands,
                            llvm::MutableArrayRef<HostTensor> results) {
  results[0].data = operands[0]->data;
}

LogicalResult SplitHeadsOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  gradients.add(
      getX(), p.reshape(gradients.of(getResult()), typeOf(getX()).getShape()));
  return success();
}

//===----------------------------------------------------------------------===//
// Ops with kernels of their own
//===----------------------------------------------------------------------===//

void ReverseRowsOp::evaluate(llvm::ArrayRef<const HostTensor *> operands,
                             llvm::MutableArrayRef<HostTensor> results) {
  int64_t columns = typeOf(getX()).getShape().back();
  for (int64_t i = 0; i < operands[0]->size(); ++i)
    results[0].data[i] =
        operands[0]->data[i / columns * columns + columns - 1 - i % columns];
}

/// A unit is a row.
static constexpr char kReverseRows[] = R"(
@columns = external constant i64

define void @kernel(ptr %arguments, i64 %begin, i64 %end) {
start:
  %columns = load i64, ptr @columns
  %x = load ptr, ptr %arguments
  %second = getelementptr ptr, ptr %arguments, i64 1
  %y = load ptr, ptr %second
  %from = mul i64 %begin, %columns
  %to = mul i64 %end, %columns
  %last = sub i64 %columns, 1
  br label %test
test:
  %i = phi i64 [%from, %start], [%next, %body]
  %more = icmp slt i64 %i, %to
  br i1 %more, label %body, label %done
body:
  %column = urem i64 %i, %columns
  %row = sub i64 %i, %column
  %other = sub i64 %last, %column
  %source = add i64 %row, %other
  %px = getelementptr float, ptr %x, i64 %source
  %py = getelementptr float, ptr %y, i64 %i
  %v = load float, ptr %px
  store float %v, ptr %py
  %next = add i64 %i, 1
  br label %test
done:
  ret void
}
)";

std::optional<KernelCode> ReverseRowsOp::getKernel() {
  auto type = typeOf(getResult());
  int64_t columns = type.getShape().back();
  KernelCode kernel{kReverseRows};
  kernel.units = type.getNumElements() / columns;
  kernel.sizes = {{"columns", columns}};
  return kernel;
}

std::optional<KernelCode> CodeOp::getKernel() {
  KernelCode kernel{getCode().str(), "kernel", static_cast<int64_t>(getUnits()),
                    static_cast<int64_t>(getGrain())};
  if (getSize())
    kernel.sizes = {{getSize()->str(), 7}};
  return kernel;
}

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "KerfTestOps", LLVM_VERSION_STRING,
          [](DialectRegistry *registry) {
            registry->insert<kerf_test::TestDialect>();
          }};
}
