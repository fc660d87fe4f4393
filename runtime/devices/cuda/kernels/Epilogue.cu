//===- Epilogue.cu - what follows a matmul --------------------------------===//
//
// For matmuls that cuBLASLt offers only without an epilogue. With u =
// sqrt(2/pi) (x + 0.044715 x^3) and s = 1 / (1 + exp(-2u)), the tanh form of
// gelu is x s, and its slope s + 2 x s (1 - s) u'.
//
//===----------------------------------------------------------------------===//

#include "AnyNumber.h"
#include "EpilogueArguments.h"

using namespace kerf::cuda;

namespace {

constexpr float inner = 0.7978845608028654f, cubic = 0.044715f;

KERF_DEVICE float gate(float x) {
  float u = inner * (x + cubic * x * x * x);
  return 1 / (1 + exp2Of(-2 * log2e * u));
}

KERF_DEVICE float gelu(float x) { return x * gate(x); }

KERF_DEVICE float geluSlope(float x) {
  float s = gate(x);
  return s + 2 * x * s * (1 - s) * inner * (1 + 3 * cubic * x * x);
}

KERF_DEVICE float finish(const EpilogueArguments &a, float sum, int64_t row,
                         int64_t column) {
  if (a.bias)
    sum += load(a.bias, a.biasDtype, column);
  if (a.kind == GeluGradient)
    return sum * geluSlope(load(a.aux, a.dtype, row * a.n + column));
  if (a.kind == Gelu) {
    if (a.aux)
      store(a.aux, a.dtype, row * a.n + column, sum);
    return gelu(sum);
  }
  return sum;
}

using Chunk = uint32_t __attribute__((ext_vector_type(4)));

/// Adds the elements of 16 bytes.
template <class T> KERF_DEVICE void addChunk(float *sums, Chunk chunk) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t word = chunk[i];
    if constexpr (sizeof(T) == 4) {
      sums[i] += __builtin_bit_cast(float, word);
    } else {
      sums[2 * i] += toFloat(__builtin_bit_cast(T, (uint16_t)word));
      sums[2 * i + 1] += toFloat(__builtin_bit_cast(T, (uint16_t)(word >> 16)));
    }
  }
}

/// Adds rows from `row` on, every rowSumParts-th before `end`.
template <class T>
KERF_DEVICE void addRows(float *sums, const RowSumArguments &a, int64_t column,
                         int64_t row, int64_t end) {
  const T *from = static_cast<const T *>(a.from) + column;
#pragma unroll 4
  for (; row < end; row += rowSumParts)
    addChunk<T>(sums, *(const Chunk *)(from + row * a.row));
}

} // namespace

KERF_KERNEL(epilogueThreads, 1)
void epilogue_elements(const EpilogueArguments a) {
  int64_t count = a.batch * a.m * a.n;
  int64_t step = (int64_t)a.blocks * epilogueThreads;
  for (int64_t i = (int64_t)blockX() * epilogueThreads + threadIndex();
       i < count; i += step) {
    int64_t column = i % a.n, row = i / a.n % a.m, batch = i / a.n / a.m;
    int64_t at = batch * a.batchStride + row * a.row + column;
    store(a.c, a.dtype, at, finish(a, load(a.c, a.dtype, at), row, column));
  }
}

/// Of f64 there is a bias alone.
KERF_KERNEL(epilogueThreads, 1)
void epilogue_bias_wide(const EpilogueArguments a) {
  int64_t count = a.batch * a.m * a.n;
  int64_t step = (int64_t)a.blocks * epilogueThreads;
  for (int64_t i = (int64_t)blockX() * epilogueThreads + threadIndex();
       i < count; i += step) {
    int64_t column = i % a.n, row = i / a.n % a.m, batch = i / a.n / a.m;
    static_cast<double *>(a.c)[batch * a.batchStride + row * a.row + column] +=
        static_cast<const double *>(a.bias)[column];
  }
}

/// Always the same order of additions: rows p, p + 8, ... in part p, then the
/// parts.
KERF_KERNEL(epilogueThreads, 1)
void epilogue_row_sums(const RowSumArguments a) {
  __shared__ float sums[rowSumParts][rowSumColumns];
  int lane = threadIndex() % rowSumColumns,
      part = threadIndex() / rowSumColumns;
  int64_t column = (int64_t)blockX() * rowSumColumns + lane;
  float sum = 0;
  if (column < a.columns)
    for (int64_t row = part; row < a.rows; row += rowSumParts)
      sum += load(a.from, a.fromDtype, row * a.row + column * a.column);
  sums[part][lane] = sum;
  barrier();
  if (part != 0 || column >= a.columns)
    return;
  for (int other = 1; other < rowSumParts; ++other)
    sum += sums[other][lane];
  store(a.to, a.toDtype, column, sum);
}

/// The sums of a part of the rows, f32 [parts, columns], where columns have
/// stride 1 and rows are whole 16 bytes: a thread reads so many. Rows p, p + 8,
/// ... of the part first, then those sums.
KERF_KERNEL(epilogueThreads, 1)
void epilogue_row_parts(const RowSumArguments a) {
  __shared__ float sums[rowSumParts][rowSumColumns * rowSumWidth(2)];
  int lane = threadIndex() % rowSumColumns,
      warp = threadIndex() / rowSumColumns;
  int width = rowSumWidth(a.fromDtype == KERF_F32 ? 4 : 2);
  int64_t whole = rowSumColumns * width;
  int64_t blocks = (a.columns + whole - 1) / whole;
  int64_t part = blockX() / blocks, first = blockX() % blocks * whole;
  int64_t rows = (a.rows + a.parts - 1) / a.parts, row = part * rows;
  int64_t end = row + rows < a.rows ? row + rows : a.rows;
  int64_t column = first + lane * width;
  float own[rowSumWidth(2)] = {};
  if (column < a.columns) {
    if (a.fromDtype == KERF_F32)
      addRows<float>(own, a, column, row + warp, end);
    else if (a.fromDtype == KERF_F16)
      addRows<F16>(own, a, column, row + warp, end);
    else
      addRows<Bf16>(own, a, column, row + warp, end);
  }
#pragma unroll
  for (int i = 0; i < rowSumWidth(2); ++i)
    if (i < width)
      sums[warp][lane * width + i] = own[i];
  barrier();
  int at = threadIndex();
  if (at >= whole || first + at >= a.columns)
    return;
  float sum = sums[0][at];
  for (int other = 1; other < rowSumParts; ++other)
    sum += sums[other][at];
  static_cast<float *>(a.to)[part * a.columns + first + at] = sum;
}
