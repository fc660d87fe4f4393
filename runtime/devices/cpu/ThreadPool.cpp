//===- ThreadPool.cpp - workers that share pieces of work -----------------===//

#include "ThreadPool.h"

#include <algorithm>
#include <immintrin.h>
#include <sched.h>

using namespace kerf::cpu;

int kerf::cpu::onlineProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(CPU_COUNT(&set), 1);
  return std::max<int>(std::thread::hardware_concurrency(), 1);
}

ThreadPool::ThreadPool(int workers) {
  // About 50 microseconds: longer than the gaps between commands.
  spins = workers <= onlineProcessors() ? 2000 : 0;
  threads.reserve(workers - 1);
  try {
    for (int worker = 1; worker < workers; ++worker)
      threads.emplace_back([this, worker] { serve(worker); });
  } catch (...) {
    stopping = true;
    ++epoch;
    epoch.notify_all();
    for (std::thread &thread : threads)
      thread.join();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stopping = true;
  ++epoch;
  epoch.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void ThreadPool::work(int worker) {
  for (;;) {
    int64_t begin = next.fetch_add(job.piece, std::memory_order_relaxed);
    if (begin >= job.units)
      return;
    job.function(job.context, begin, std::min(begin + job.piece, job.units),
                 worker);
  }
}

void ThreadPool::run(int64_t units, int64_t grain, Function function,
                     const void *context) {
  if (units <= 0)
    return;
  // At most 256 pieces: the counter must not become the bottleneck.
  int64_t piece = std::max({grain, (units + 255) / 256, int64_t(1)});
  job = {function, context, units, piece};
  next.store(0, std::memory_order_relaxed);
  bool shared = !threads.empty() && units > piece;
  if (shared) {
    state.store(1, std::memory_order_release);
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
  }
  work(0);
  if (!shared)
    return;
  state.fetch_and(~1u, std::memory_order_acq_rel);
  for (int spin = 0; state.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < spins)
      _mm_pause();
    else
      std::this_thread::yield();
  }
}

void ThreadPool::waitForJob(uint32_t seen) {
  for (int spin = 0; spin < spins; ++spin) {
    if (epoch.load(std::memory_order_acquire) != seen)
      return;
    _mm_pause();
  }
  epoch.wait(seen, std::memory_order_acquire);
}

void ThreadPool::serve(int worker) {
  uint32_t seen = 0;
  while (true) {
    waitForJob(seen);
    seen = epoch.load(std::memory_order_acquire);
    if (stopping)
      return;
    uint32_t now = state.load(std::memory_order_acquire);
    while ((now & 1) && !state.compare_exchange_weak(
                            now, now + 2, std::memory_order_acq_rel)) {
    }
    if (!(now & 1))
      continue; // the others were done first
    work(worker);
    state.fetch_sub(2, std::memory_order_release);
  }
}
