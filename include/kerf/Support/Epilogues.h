//===- Epilogues.h - what products of GPUs end in -------------------------===//
//
// Products of cuBLASLt can end in a gelu or in its gradient, and add up the
// rows of a factor. Fuse makes programs so, and whoever estimates their memory
// and time must know when.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_EPILOGUES_H
#define KERF_SUPPORT_EPILOGUES_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace kerf {

/// True for GPUs ("sm_90") whose products end in gelu: from Hopper on. llm.c
/// found it slower than a kernel on Ampere and Ada.
inline bool hasGeluProducts(llvm::StringRef gpu) {
  int version = 0;
  return gpu.consume_front("sm_") && !gpu.consumeInteger(10, version) &&
         version >= 90;
}

/// True where a product with `columns` can read or write a second matrix in its
/// epilogue: rows of whole blocks of 8 elements.
inline bool fitsSecondMatrix(int64_t columns) { return columns % 8 == 0; }

} // namespace kerf

#endif // KERF_SUPPORT_EPILOGUES_H
