//===- AttentionDelta.cu - what the gradients of attention subtract -------===//
//
// delta = sum over channels of dy y, for each row of each head. Eight lanes
// have a row, so that rows of 64 numbers of 16 bits are read at once.
//
//===----------------------------------------------------------------------===//

#include "AttentionHead.h"
#include "Number.h"

using namespace kerf::cuda;

namespace {

constexpr int lanes = 8;
constexpr int rowsOfBlock = plainThreads / lanes;
static_assert(rowsOfBlock == deltaRows);

/// 16 bytes of numbers.
template <class T> struct __attribute__((aligned(16))) Wide {
  T at[16 / sizeof(T)];
};

template <class T>
KERF_DEVICE float sumWide(const T *y, const T *dy, int width) {
  constexpr int count = 16 / sizeof(T);
  float sum = 0;
  for (int i = threadIndex() % lanes * count; i < width; i += lanes * count) {
    Wide<T> left = *reinterpret_cast<const Wide<T> *>(y + i);
    Wide<T> right = *reinterpret_cast<const Wide<T> *>(dy + i);
#pragma unroll
    for (int j = 0; j < count; ++j)
      sum += toFloat(left.at[j]) * toFloat(right.at[j]);
  }
  return sum;
}

template <class T>
KERF_DEVICE float sumNarrow(const T *y, const T *dy, int width) {
  float sum = 0;
  for (int i = threadIndex() % lanes; i < width; i += lanes)
    sum += toFloat(y[i]) * toFloat(dy[i]);
  return sum;
}

template <class T> KERF_DEVICE void delta(const AttentionArguments &a) {
  int64_t rows = (int64_t)a.b * a.h * a.sq;
  int64_t row = (int64_t)blockX() * rowsOfBlock + threadIndex() / lanes;
  bool exists = row < rows; // all lanes take part in the sum
  int64_t at = exists ? row : 0;
  int query = at % a.sq, head = at / a.sq % a.h, b = at / a.sq / a.h;
  const T *y = rowOf<T>(a.y, b, query, head);
  const T *dy = rowOf<T>(a.dy, b, query, head);
  float sum = a.wide ? sumWide(y, dy, a.dvWidth) : sumNarrow(y, dy, a.dvWidth);
  for (int bits = lanes / 2; bits > 0; bits /= 2)
    sum += exchange(sum, bits);
  if (exists && threadIndex() % lanes == 0)
    a.delta[row] = sum;
}

} // namespace

#define KERF_NAMED(NUMBER) attention_delta_##NUMBER
#define KERF_NAME(NUMBER) KERF_NAMED(NUMBER)

KERF_KERNEL(plainThreads, 1)
void KERF_NAME(KERF_NUMBER)(const AttentionArguments a) {
  delta<Number::KERF_NUMBER>(a);
}
