//===- ModelFlops.h - the matmuls that a training step asks for -----------===//

#ifndef KERF_DIALECT_KERF_MODELFLOPS_H
#define KERF_DIALECT_KERF_MODELFLOPS_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Name of the attribute, an f64, of the first program of a step: the flops of
/// the model that it was made of.
inline constexpr llvm::StringLiteral kModelFlopsAttrName = "model_flops";

/// Flops of a step's matmuls over the whole batch, as MFU counts them: forward
/// and gradients; of attention the visible pairs, four matmuls in the gradient
/// for two in the forward pass. What is recomputed, by the plan or inside a
/// kernel, is not among them. A model that is not differentiated has its
/// forward pass only.
double countModelFlops(ModelOp model);

} // namespace kerf

#endif // KERF_DIALECT_KERF_MODELFLOPS_H
