//===- SharedMatrix.h - what a descriptor of wgmma names ------------------===//
//
// The 64 bits of a descriptor ("Matrix Descriptor Format" of the PTX manual):
//
//   0-13   start address / 16            49-51  base offset
//   16-29  leading byte offset / 16      62-63  swizzling: 0 none, 1 rows of
//   32-45  stride byte offset / 16              128, 2 of 64, 3 of 32 bytes
//
// and the layouts ("Canonical Layouts" there, which CUTLASS's make_gmma_desc
// repeats). Matrices are made of pieces of 16 bytes, 8 numbers of 16 bits that
// follow each other along the major dimension. A line is one step along the
// other dimension, so that K-major matrices have a line for each row of A or
// column of B and two pieces in it, and MN-major ones have 16 lines, one for
// each k, of M / 8 or N / 8 pieces. Piece p of line l begins at
//
//   start + l % 8 * row + l / 8 * between + p % q * 16 + p / q * beyond
//
// where with swizzling row = 32, 64 or 128, q = row / 16, between = stride and
// beyond = leading (never reached K-major), and without it row = 16, q = 1, and
// between and beyond are stride and leading K-major, leading and stride
// MN-major. Swizzling then flips bits 4.. of the address by as many bits from
// bit 7 on: Swizzle<1..3, 4, 3> of CuTe.
//
// Example: K-major, rows of 128 bytes, start 0, stride 1024. Numbers 8..15 of
// row 3 are piece 1 of line 3: 3 * 128 + 16 = 400, flipped by 3 << 4: 416.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_SHAREDMATRIX_H
#define KERF_SIMULATOR_SHAREDMATRIX_H

#include <cstdint>
#include <string>

namespace kerf::sim {

struct SharedMatrix {
  uint64_t start = 0, between = 0, beyond = 0;
  uint32_t perRow = 1; ///< pieces: 1, 2, 4 or 8
  uint32_t base = 0;   ///< number, in 128 bytes, of the pattern's first row

  SharedMatrix(uint64_t descriptor, bool isMnMajor);

  /// Shared address of the 16 bytes of a piece.
  uint64_t piece(uint32_t line, uint32_t part) const {
    uint64_t at = start + line % 8 * perRow * 16 + line / 8 * between +
                  part % perRow * 16 + part / perRow * beyond;
    return at ^ (((at >> 7) - base) & (perRow - 1)) << 4;
  }
};

/// What is wrong with a descriptor of a matrix with `parts` pieces in a line,
/// or "".
std::string descriptorProblem(uint64_t descriptor, uint32_t parts);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_SHAREDMATRIX_H
