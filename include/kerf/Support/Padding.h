//===- Padding.h - how wide padded rows are -------------------------------===//
//
// GPUs read and write 16 bytes at a time, and matmuls on tensor cores ask for
// rows that are multiples of that. 50,257 columns of bf16 are none; PyTorch's
// users give such a model 50,304 words by hand. Fuse pads programs by this
// rule, and whoever estimates their memory must know it.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_PADDING_H
#define KERF_SUPPORT_PADDING_H

#include <cstdint>

namespace kerf {

/// Name of the attribute of a matmul that was widened: how many of its
/// elements in how many mean something (`[50257, 50304]`), for counts of flops.
inline constexpr char kPaddedAttrName[] = "spmd.padded";

/// Bytes of the widest access of a GPU, and of a line of its caches.
inline constexpr int64_t kAccessBytes = 16, kLineBytes = 128;

/// `count` rounded up so that as many elements are a multiple of `bytes`.
inline int64_t roundUpTo(int64_t bytes, int64_t count, int64_t elementBytes) {
  int64_t unit = bytes / elementBytes;
  return (count + unit - 1) / unit * unit;
}

/// Columns that a row of `columns` elements of 1, 2, 4 or 8 bytes is given in
/// programs for GPUs: as many, where they are a multiple of 16 bytes or less
/// than a line; else the next multiple of a line (128 bytes), or of 16 bytes
/// where whole lines would be more than a 64th of the row.
///
/// 50,257 of bf16: 50,304. 101 of bf16: 104. 50,264 stay.
inline int64_t paddedColumns(int64_t columns, int64_t elementBytes) {
  int64_t least = roundUpTo(kAccessBytes, columns, elementBytes);
  if (least == columns || columns * elementBytes < kLineBytes)
    return columns;
  int64_t lines = roundUpTo(kLineBytes, columns, elementBytes);
  return (lines - columns) * 64 <= columns ? lines : least;
}

} // namespace kerf

#endif // KERF_SUPPORT_PADDING_H
