//===- Epilogues.h - what products of GPUs end in -------------------------===//
//
// Products of cuBLASLt can end in a gelu or in its gradient (on GPUs that
// Gpus.h tells), and add up the rows of a factor. Fuse makes programs so, and
// whoever estimates their memory and time must know when.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_EPILOGUES_H
#define KERF_SUPPORT_EPILOGUES_H

#include <cstdint>

namespace kerf {

/// True where a product with `columns` can read or write a second matrix in its
/// epilogue: rows of whole blocks of 8 elements.
inline bool fitsSecondMatrix(int64_t columns) { return columns % 8 == 0; }

} // namespace kerf

#endif // KERF_SUPPORT_EPILOGUES_H
