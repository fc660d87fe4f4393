//===- DeferredCopies.cpp - gradients that wait for deferred matmuls ------===//
//
// The loop over layers carries the gradient that each hands to the one before.
// Where a deferred weight gradient reads it, a layer copies it to where it
// waits, and the next one to where it is carried: a loop that goes backwards
// has no place for the last one behind its stack.
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/Kernels.h"
#include "kerf/Layer/LayerTerms.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;

/// Whether an op reads a value or a view of it.
static bool reads(const LayerKind &kind, const LayerOp &op, int wanted) {
  return llvm::any_of(op.operands, [&](int value) {
    int producer = kind.values[value].producer;
    return value == wanted || (producer >= 0 && kind.ops[producer].view &&
                               reads(kind, kind.ops[producer], wanted));
  });
}

double kerf::deferredCopySec(const LayerTerms &terms, double bytes) {
  const LayerKind &kind = terms.kind;
  bool isCarried = kind.outputGradient >= 0 && kind.inputGradient >= 0;
  bool waits = isCarried && llvm::any_of(kind.ops, [&](const LayerOp &op) {
                 return op.isDeferred && !op.view &&
                        reads(kind, op, kind.outputGradient);
               });
  return waits ? 2 * rowSec(terms.device, terms.context.profile, 2 * bytes, 0)
               : 0;
}
