//===- Stacks.h - parameters of all layers in one ---------------*- C++ -*-===//

#ifndef KERF_LIB_STABLEHLO_STACKS_H
#define KERF_LIB_STABLEHLO_STACKS_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Makes parameters of the slices of those [L, ...] that are read slice by
/// slice alone: of `blocks.attn.qkv`, L parameters `blocks.3.attn.qkv`. The
/// number stands behind what the names of all stacks of L slices have in
/// common.
void splitStacks(ModelOp model);

} // namespace kerf

#endif // KERF_LIB_STABLEHLO_STACKS_H
