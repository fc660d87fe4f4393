/*===- Nf4.h - weights in 4-bit codes -------------------------------------===*\
|*
|* NormalFloat of Dettmers et al. 2023 ("QLoRA", section 3 and appendix E): a
|* block of 64 numbers has one scale, its largest magnitude, and a number is the
|* code of the nearest of 16 multiples of it. The compiler states what codes
|* mean (kerf.dequantize), the runtime makes them of weights. Plain C.
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_ARTIFACT_NF4_H
#define KERF_ARTIFACT_NF4_H

#include <math.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  KERF_NF4_BLOCK = 64,                /* numbers of one scale */
  KERF_NF4_BYTES = KERF_NF4_BLOCK / 2 /* of the codes of a block */
};

/* The number of a code: quantiles of the normal distribution, scaled to [-1,
 * 1], zero among them; f32. */
static const float kerf_nf4_table[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

/* The code of the nearest number, of two as near the lower. */
static inline uint32_t kerf_nf4_code(float x) {
  uint32_t code = 0;
  for (uint32_t bit = 8; bit > 0; bit /= 2) {
    uint32_t next = code + bit;
    if (x > 0.5f * (kerf_nf4_table[next - 1] + kerf_nf4_table[next]))
      code = next;
  }
  return code;
}

/* Codes and scale of a block. Zeros have scale 0. */
static inline void kerf_nf4_quantize(const float *numbers, int8_t *codes,
                                     float *scale) {
  float most = 0;
  for (int i = 0; i < KERF_NF4_BLOCK; ++i)
    most = fmaxf(most, fabsf(numbers[i]));
  float inverse = most > 0 ? 1.0f / most : 0.0f;
  for (int i = 0; i < KERF_NF4_BYTES; ++i)
    codes[i] = (int8_t)((int32_t)(16 * kerf_nf4_code(numbers[i] * inverse) +
                                  kerf_nf4_code(numbers[KERF_NF4_BYTES + i] *
                                                inverse)) -
                        128);
  *scale = most;
}

#ifdef __cplusplus
}
#endif

#endif /* KERF_ARTIFACT_NF4_H */
