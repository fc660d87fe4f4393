//===- OneDnn.cpp - the same matmuls by oneDNN ----------------------------===//

#include "OneDnn.h"

#ifndef KERF_HAVE_DNNL
double timeOneDnn(bool, bool, int64_t, int64_t, int64_t, bool, bool, int, int) {
  return 0;
}
#else

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <dnnl.hpp>

using namespace dnnl;
using Tag = memory::format_tag;
using Type = memory::data_type;

static void setThreads(int threads) {
  using Function = void (*)(int);
  if (void *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads"))
    reinterpret_cast<Function>(set)(threads);
}

/// Numbers near 1, in f32 and in bf16.
static void fill(memory &x) {
  auto *halves = static_cast<uint16_t *>(x.get_data_handle());
  for (size_t i = 0; i < x.get_desc().get_size() / 2; ++i)
    halves[i] = static_cast<uint16_t>(0x3f00 + i * 7919 % 127);
}

static double timePacked(bool packed, const memory::desc &a,
                         const memory::desc &b, const memory::desc &c,
                         int threads, int runs) {
  engine cpu(engine::kind::cpu, 0);
  stream queue(cpu);
  memory::desc any(b.dims(), b.data_type(), Tag::any);
  matmul::primitive_desc description(matmul::desc(a, packed ? any : b, c), cpu);
  matmul primitive(description);
  memory x(a, cpu), w(b, cpu), y(c, cpu),
      inner(description.weights_desc(), cpu);
  fill(x); // zeros would let the processor run faster
  fill(w);
  reorder pack(w, inner);
  double best = 1e30;
  for (int run = 0; run < runs; ++run) {
    double start = benchClock(threads);
    if (packed)
      pack.execute(queue, w, inner);
    primitive.execute(queue, {{DNNL_ARG_SRC, x},
                              {DNNL_ARG_WEIGHTS, packed ? inner : w},
                              {DNNL_ARG_DST, y}});
    queue.wait();
    best = std::min(best, benchClock(threads) - start);
  }
  return best;
}

double timeOneDnn(bool bf16, bool roundedC, int64_t m, int64_t n, int64_t k,
                  bool transposedA, bool transposedB, int threads, int runs) {
  setThreads(threads);
  Type type = bf16 ? Type::bf16 : Type::f32;
  memory::desc a({m, k}, type, transposedA ? Tag::ba : Tag::ab);
  memory::desc b({k, n}, type, transposedB ? Tag::ba : Tag::ab);
  memory::desc c({m, n}, roundedC ? Type::bf16 : Type::f32, Tag::ab);
  try {
    return std::min(timePacked(false, a, b, c, threads, runs),
                    timePacked(true, a, b, c, threads, runs));
  } catch (const dnnl::error &) { // no bf16 below AVX-512
    return 0;
  }
}
#endif
