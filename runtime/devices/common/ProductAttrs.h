//===- ProductAttrs.h - attributes and operands of products by place ------===//
//
// As Format.h lists them at KERF_OP_MATMUL and KERF_OP_GROUPED_MATMUL.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_COMMON_PRODUCTATTRS_H
#define KERF_DEVICES_COMMON_PRODUCTATTRS_H

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
enum Operand : uint32_t { A, B, C, Workspace, Bias, Aux };
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
