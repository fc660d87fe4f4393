//===- ProductAttrs.h - attributes and operands of products by place ------===//
//
// As Format.h lists them at KERF_OP_MATMUL and KERF_OP_GROUPED_MATMUL.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_COMMON_PRODUCTATTRS_H
#define KERF_DEVICES_COMMON_PRODUCTATTRS_H

#include "Checks.h"

#include "kerf/Artifact/Format.h"

#include <cstdint>

namespace kerf::device::matmul {
enum Attr : uint32_t {
  ADtype,
  BDtype,
  CDtype,
  Batch,
  M,
  N,
  K,
  ABatch,
  ARow,
  ACol,
  BBatch,
  BRow,
  BCol,
  CBatch,
  CRow,
  Accumulate,
  Epilogue,
  BiasDtype,
  AttrCount
};
enum Operand : uint32_t { A, B, C, Workspace, Bias, Aux, ScaleA, ScaleB };

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
  Kind,
  XDtype,
  WDtype,
  YDtype,
  Groups,
  Rows,
  Experts,
  N,
  K,
  Transposed,
  Capacity,
  Accumulate,
  AttrCount
};
enum Operand : uint32_t { X, W, Sizes, Y, Workspace };
} // namespace kerf::device::grouped

#endif // KERF_DEVICES_COMMON_PRODUCTATTRS_H
