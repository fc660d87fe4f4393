//===- OneDnn.h - the same matmuls by oneDNN ------------------------------===//

#ifndef KERF_DEVICES_CPU_BENCH_ONEDNN_H
#define KERF_DEVICES_CPU_BENCH_ONEDNN_H

#include <chrono>
#include <cstdint>
#include <ctime>

/// Seconds: processor time of one thread, else wall time.
inline double benchClock(int threads) {
  if (threads == 1)
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Best seconds of c[m,n] = a[m,k] b[k,n] with oneDNN's own threads, weights as
/// they are or packed by it in each call, whichever is faster; 0 without it.
double timeOneDnn(bool bf16, bool roundedC, int64_t m, int64_t n, int64_t k,
                  bool transposedA, bool transposedB, int threads, int runs);

#endif // KERF_DEVICES_CPU_BENCH_ONEDNN_H
