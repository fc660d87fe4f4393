//===- Beside.cu - what attention by cuDNN needs beside it ----------------===//
//
// cuDNN attends rows that lie by position, one after the other. Keys and values
// that were gathered in the zigzag order of ranks are copied into that order;
// their gradients, of one or two chunks of queries, are added on the way back.
// Gradients of one key head by some of its query heads at a time are added up.
//
//===----------------------------------------------------------------------===//

#include "BesideArguments.h"
#include "Number.h"

#pragma clang force_cuda_host_device begin
#include "kerf/Artifact/Format.h"
#pragma clang force_cuda_host_device end

using namespace kerf::cuda;

namespace {

typedef uint32_t Word __attribute__((ext_vector_type(4)));

/// Where a thread's word lies.
struct Place {
  int b, row, head, word;
  bool exists;
};

KERF_DEVICE int64_t threadOfAll() {
  return (int64_t)blockX() * besideThreads + threadIndex();
}

KERF_DEVICE Place placeOf(const WordTensor &t, int rows) {
  int64_t i = threadOfAll(), all = (int64_t)t.b * rows * t.heads * t.words;
  Place place;
  place.exists = i < all;
  place.word = i % t.words;
  i /= t.words;
  place.head = i % t.heads;
  i /= t.heads;
  place.row = i % rows;
  place.b = i / rows;
  return place;
}

KERF_DEVICE Word *wordOf(const WordTensor &t, const Place &at, int row) {
  return (Word *)t.data + at.b * t.batch + row * t.row + at.head * t.head +
         at.word;
}

/// Of [b, rows, heads, words], dense.
KERF_DEVICE int64_t dense(const WordTensor &t, const Place &at, int row,
                          int rows) {
  return (((int64_t)at.b * rows + row) * t.heads + at.head) * t.words + at.word;
}

template <class T> KERF_DEVICE float high(uint32_t pair) {
  return toFloat(__builtin_bit_cast(T, (uint16_t)(pair >> 16)));
}
template <class T> KERF_DEVICE float low(uint32_t pair) {
  return toFloat(__builtin_bit_cast(T, (uint16_t)pair));
}

template <class T> KERF_DEVICE Word sum(Word a, Word b) {
  Word result;
#pragma unroll
  for (int n = 0; n < 4; ++n)
    result[n] =
        packed<T>(low<T>(a[n]) + low<T>(b[n]), high<T>(a[n]) + high<T>(b[n]));
  return result;
}

/// The row of a position in the order of ranks.
KERF_DEVICE int rowOf(const OrderArguments &a, int position) {
  int chunk = position / a.chunk, in = position % a.chunk;
  bool isSecond = chunk >= a.ranks;
  int place = isSecond ? 2 * (int)a.ranks - 1 - chunk : chunk;
  return (2 * place + isSecond) * (int)a.chunk + in;
}

template <class T> KERF_DEVICE void addBack(const OrderArguments &a) {
  Place at = placeOf(a.tensor, a.tensor.rows);
  if (!at.exists)
    return;
  int position = kerf_zigzag(a.ranks, a.chunk, at.row);
  Word all = {0, 0, 0, 0};
#pragma unroll
  for (int n = 0; n < 2; ++n)
    if (a.sorted[n] && position < a.rows[n]) {
      Word own =
          ((const Word *)a.sorted[n])[dense(a.tensor, at, position, a.rows[n])];
      all = n == 0 ? own : sum<T>(all, own);
    }
  *wordOf(a.tensor, at, at.row) = all;
}

typedef float Four __attribute__((ext_vector_type(4)));

template <class T> KERF_DEVICE void addPart(const SumArguments &a) {
  int64_t i = threadOfAll();
  if (i >= (int64_t)a.rows * a.words)
    return;
  Word own = ((const Word *)a.part)[i];
  Four *sum = (Four *)a.sum + 2 * i;
  Four first = {low<T>(own[0]), high<T>(own[0]), low<T>(own[1]),
                high<T>(own[1])};
  Four second = {low<T>(own[2]), high<T>(own[2]), low<T>(own[3]),
                 high<T>(own[3])};
  if (!a.isFirst) {
    first += sum[0];
    second += sum[1];
  }
  if (!a.isLast) {
    sum[0] = first;
    sum[1] = second;
    return;
  }
  Word all = {packed<T>(first[0], first[1]), packed<T>(first[2], first[3]),
              packed<T>(second[0], second[1]), packed<T>(second[2], second[3])};
  ((Word *)a.target)[i / a.words * a.row + i % a.words] = all;
}

} // namespace

/// Copies the first positions into `sorted[0]`.
KERF_KERNEL(besideThreads, 1)
void beside_sort(const OrderArguments a) {
  Place at = placeOf(a.tensor, a.rows[0]);
  if (at.exists)
    ((Word *)a.sorted[0])[threadOfAll()] =
        *wordOf(a.tensor, at, rowOf(a, at.row));
}

/// Each row becomes the sum of what the sorted ones have of its position.
KERF_KERNEL(besideThreads, 1)
void beside_add_bf16(const OrderArguments a) { addBack<Bf16>(a); }
KERF_KERNEL(besideThreads, 1)
void beside_add_f16(const OrderArguments a) { addBack<F16>(a); }

/// Adds up the gradient of one key head.
KERF_KERNEL(besideThreads, 1)
void beside_sum_bf16(const SumArguments a) { addPart<Bf16>(a); }
KERF_KERNEL(besideThreads, 1)
void beside_sum_f16(const SumArguments a) { addPart<F16>(a); }

KERF_KERNEL(besideThreads, 1)
void beside_blank(const BlankArguments a) {
  Place at = placeOf(a.tensor, a.tensor.rows);
  if (at.exists)
    *wordOf(a.tensor, at, a.first + at.row) = Word{0, 0, 0, 0};
}

/// As own kernels of attention tell of queries that see no key.
KERF_KERNEL(besideThreads, 1)
void beside_unseen(const UnseenArguments a) {
  int64_t i = threadOfAll();
  if (i < a.heads * a.count)
    a.lse[i / a.count * a.rows + a.first + i % a.count] = -1e30f;
}
