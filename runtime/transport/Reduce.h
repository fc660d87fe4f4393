//===- Reduce.h - sums and maxima of several buffers ----------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_REDUCE_H
#define KERF_RUNTIME_TRANSPORT_REDUCE_H

#include <cstdint>

namespace kerf::runtime {

/// destination[i] = sources[0][i] (+ or max) sources[1][i] ... for i < count,
/// in this order. The destination may be one of the sources. dtype: floating
/// or i32 (which wraps). bf16 and f16 are summed in f32 and rounded once; a
/// maximum with NaN is NaN.
void reduceBuffers(uint32_t dtype, uint32_t reduction,
                   const void *const *sources, uint32_t sourceCount,
                   void *destination, uint64_t count);

} // namespace kerf::runtime

#endif // KERF_RUNTIME_TRANSPORT_REDUCE_H
