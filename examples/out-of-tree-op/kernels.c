// The kernels of both ops, for f32. A unit is an element. Compiled to LLVM IR when
// the plug-in is built; Kerf makes vectors of it for the CPU that a model is
// compiled for.
#include <math.h>
#include <stdint.h>

void squareplus(void *const *arguments, int64_t begin, int64_t end) {
  const float *x = arguments[0];
  float *y = arguments[1];
  for (int64_t i = begin; i < end; ++i)
    y[i] = (x[i] + sqrtf(x[i] * x[i] + 4)) / 2;
}

void squareplus_backward(void *const *arguments, int64_t begin, int64_t end) {
  const float *x = arguments[0], *dy = arguments[1];
  float *dx = arguments[2];
  for (int64_t i = begin; i < end; ++i)
    dx[i] = (1 + x[i] / sqrtf(x[i] * x[i] + 4)) / 2 * dy[i];
}
