//===- Number.h - the types of tensors' elements --------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_NUMBER_H
#define KERF_DEVICES_CUDA_KERNELS_NUMBER_H

#include "Cuda.h"

namespace kerf::cuda {

using Bf16 = __bf16;
using F16 = _Float16;

/// Names of types, for names of kernels.
namespace Number {
using f32 = float;
using bf16 = Bf16;
using f16 = F16;
} // namespace Number

KERF_DEVICE float toFloat(float x) { return x; }
KERF_DEVICE float toFloat(F16 x) { return (float)x; }
KERF_DEVICE float toFloat(Bf16 x) {
  uint32_t bits = (uint32_t)__builtin_bit_cast(uint16_t, x) << 16;
  return __builtin_bit_cast(float, bits);
}

/// Two numbers of 16 bits, the first in the lower half.
template <class T> KERF_DEVICE uint32_t packed(float low, float high);
template <> KERF_DEVICE uint32_t packed<Bf16>(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
template <> KERF_DEVICE uint32_t packed<F16>(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_NUMBER_H
