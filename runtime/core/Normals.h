//===- Normals.h - standard normal numbers, quickly -----------------------===//

#ifndef KERF_RUNTIME_CORE_NORMALS_H
#define KERF_RUNTIME_CORE_NORMALS_H

#include <cstdint>

namespace kerf::runtime {

/// How far a number of nearNormals is from what normalAt of
/// kerf/Dialect/Kerf/Random.h computes with the C library, at most: a part of
/// it, and so much besides, since the library's cosine of a rounded angle is
/// that far off where it is almost 0.
constexpr double kNormalRelative = 0x1p-40, kNormalAbsolute = 3e-14;

/// Numbers `first` to `first + count` of a stream, standard normal, to the
/// bounds above: several at a time by the processor's widest vectors, a tenth
/// of the time of the C library's functions. Bits depend on nothing else.
void nearNormals(uint64_t stream, uint64_t first, int64_t count,
                 double *values);

/// The number of the radius of `radiusBits` and the angle of `angleBits`, both
/// uniform in [0, 2^24).
double nearNormalOf(uint32_t radiusBits, uint32_t angleBits);

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_NORMALS_H
