//===- MatmulAttrs.h - attributes and operands of matmuls by place --------===//
//
// The names of Format.h, short.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_COMMON_MATMULATTRS_H
#define KERF_DEVICES_COMMON_MATMULATTRS_H

#include "Checks.h"

#include "kerf/Artifact/Format.h"

#include <cstdint>

namespace kerf::device::matmul {
enum Attr : uint32_t {
  ADtype = KERF_MATMUL_A_DTYPE,
  BDtype = KERF_MATMUL_B_DTYPE,
  CDtype = KERF_MATMUL_C_DTYPE,
  Batch = KERF_MATMUL_BATCH,
  M = KERF_MATMUL_M,
  N = KERF_MATMUL_N,
  K = KERF_MATMUL_K,
  ABatch = KERF_MATMUL_A_BATCH,
  ARow = KERF_MATMUL_A_ROW,
  ACol = KERF_MATMUL_A_COL,
  BBatch = KERF_MATMUL_B_BATCH,
  BRow = KERF_MATMUL_B_ROW,
  BCol = KERF_MATMUL_B_COL,
  CBatch = KERF_MATMUL_C_BATCH,
  CRow = KERF_MATMUL_C_ROW,
  Accumulate = KERF_MATMUL_ACCUMULATE,
  Epilogue = KERF_MATMUL_EPILOGUE,
  BiasDtype = KERF_MATMUL_BIAS_DTYPE,
  AttrCount = KERF_MATMUL_ATTR_COUNT
};
enum Operand : uint32_t {
  A = KERF_MATMUL_A,
  B = KERF_MATMUL_B,
  C = KERF_MATMUL_C,
  Workspace = KERF_MATMUL_WORKSPACE,
  Bias = KERF_MATMUL_BIAS,
  Aux = KERF_MATMUL_AUX,
  ScaleA = KERF_MATMUL_SCALE_A,
  ScaleB = KERF_MATMUL_SCALE_B,
};

/// A scale is one f32 of the arena: one of another type may lie unaligned, and
/// scalars are whole numbers.
inline bool isScale(Checks &r, uint32_t index) {
  if (!r.hasBytes(index, "scale", 4))
    return false;
  const kerf_operand &scale = r.info.operands[index];
  if (scale.kind != KERF_ARENA)
    return r.fail("operand %u (scale) is a scalar, expected memory", index);
  return scale.dtype == KERF_F32 ||
         r.fail("operand %u (scale) has dtype %u, expected f32", index,
                unsigned(scale.dtype));
}

/// Where the epilogue has them, each scale is absent or one f32, and there is
/// one matrix.
inline bool hasScales(Checks &r) {
  if (r.attr(Epilogue) != KERF_EPILOGUE_SCALE)
    return true;
  if (r.attr(Batch) != 1)
    return r.fail("found batch %lld with epilogue %lld, expected 1",
                  (long long)r.attr(Batch), (long long)r.attr(Epilogue));
  for (uint32_t scale : {ScaleA, ScaleB})
    if (!r.absent(scale) && !isScale(r, scale))
      return false;
  return true;
}

/// The rows of c do not overlap, and a, b and c lie in their operands.
inline bool hasMatrices(Checks &r) {
  if (r.attr(M) > 1 && r.attr(CRow) < r.attr(N))
    return r.fail("found stride %lld of the rows of c, expected at least %lld",
                  (long long)r.attr(CRow), (long long)r.attr(N));
  return r.hasExtent(A, "a", kerf_dtype_bytes(r.attr(ADtype)),
                     {r.attr(Batch), r.attr(M), r.attr(K)},
                     {r.attr(ABatch), r.attr(ARow), r.attr(ACol)}) &&
         r.hasExtent(B, "b", kerf_dtype_bytes(r.attr(BDtype)),
                     {r.attr(Batch), r.attr(K), r.attr(N)},
                     {r.attr(BBatch), r.attr(BRow), r.attr(BCol)}) &&
         r.hasExtent(C, "c", kerf_dtype_bytes(r.attr(CDtype)),
                     {r.attr(Batch), r.attr(M), r.attr(N)},
                     {r.attr(CBatch), r.attr(CRow), 1});
}
} // namespace kerf::device::matmul

namespace kerf::device::grouped {
enum Attr : uint32_t {
  Kind = KERF_GROUPED_KIND,
  XDtype = KERF_GROUPED_X_DTYPE,
  WDtype = KERF_GROUPED_W_DTYPE,
  YDtype = KERF_GROUPED_Y_DTYPE,
  Groups = KERF_GROUPED_GROUPS,
  Rows = KERF_GROUPED_ROWS,
  Experts = KERF_GROUPED_EXPERTS,
  N = KERF_GROUPED_N,
  K = KERF_GROUPED_K,
  Transposed = KERF_GROUPED_TRANSPOSED,
  Capacity = KERF_GROUPED_CAPACITY,
  Accumulate = KERF_GROUPED_ACCUMULATE,
  AttrCount = KERF_GROUPED_ATTR_COUNT
};
enum Operand : uint32_t {
  X = KERF_GROUPED_X,
  W = KERF_GROUPED_W,
  Sizes = KERF_GROUPED_SIZES,
  Y = KERF_GROUPED_Y,
  Workspace = KERF_GROUPED_WORKSPACE,
};
} // namespace kerf::device::grouped

#endif // KERF_DEVICES_COMMON_MATMULATTRS_H
