//===- WidenMatmuls.cpp - matmuls of 8-bit floats on any device -----------===//
//
// bf16 has every number of f8E4M3FN and f8E5M2, so matmuls of widened operands
// are those of the narrow ones. What a device or its library cannot multiply in
// 8 bits is thus multiplied in 16, and nothing else changes: a layout whose
// parts are too small for tensor cores means the same as any other.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/MatmulForm.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Precision/Passes.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_WIDENMATMULSPASS
#include "kerf/Precision/Passes.h.inc"
} // namespace kerf

/// True when cuBLASLt multiplies these in 8 bits: rows, columns and the sum are
/// multiples of 16, the numbers that are summed over lie side by side, there is
/// no batch, and one of the operands has the longer fraction.
static bool hasMatmul(EinsumOp einsum) {
  constexpr int64_t multiple = 16;
  std::optional<MatmulForm> form = getMatmulForm(einsum);
  auto isE5M2 = [](Value value) {
    return isa<Float8E5M2Type>(getElementTypeOrSelf(value.getType()));
  };
  return form && form->batch == 1 && form->m % multiple == 0 &&
         form->n % multiple == 0 && form->k % multiple == 0 &&
         form->a.column == 1 && form->b.row == 1 &&
         !(isE5M2(einsum.getLhs()) && isE5M2(einsum.getRhs())) &&
         !getElementTypeOrSelf(einsum.getResult().getType()).isF16();
}

static void widen(EinsumOp einsum) {
  OpBuilder builder(einsum);
  PlainBuilder p{builder, einsum.getLoc()};
  for (OpOperand &operand : einsum->getOpOperands()) {
    operand.set(p.cast(operand.get(), builder.getBF16Type()));
    if (PhaseAttr phase = getPhase(einsum))
      operand.get().getDefiningOp()->setAttr(kPhaseAttrName, phase);
  }
}

namespace {
struct WidenMatmulsPass
    : public kerf::impl::WidenMatmulsPassBase<WidenMatmulsPass> {
  using WidenMatmulsPassBase::WidenMatmulsPassBase;

  void runOnOperation() override {
    getOperation().walk([&](EinsumOp einsum) {
      if (isFloat8(einsum.getLhs().getType()) && (all || !hasMatmul(einsum)))
        widen(einsum);
    });
  }
};
} // namespace
