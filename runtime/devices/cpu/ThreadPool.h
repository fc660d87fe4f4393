//===- ThreadPool.h - workers that share pieces of work -------------------===//
//
// The calling thread is worker 0. A job is a number of pieces, whose borders
// depend on the job only; an atomic counter hands them out. A worker that
// sleeps while a job runs is not waited for, so that a busy machine costs time
// but never a stall. Workers spin for a moment after a job and then sleep.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CPU_THREADPOOL_H
#define KERF_DEVICES_CPU_THREADPOOL_H

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace kerf::cpu {

/// Processors that this process may run on.
int onlineProcessors();

class ThreadPool {
public:
  /// Starts `workers` - 1 threads; throws std::system_error when one cannot.
  explicit ThreadPool(int workers);
  /// Joins them.
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int workers() const { return static_cast<int>(threads.size()) + 1; }

  /// Calls `body(begin, end, worker)` for pieces that cover [0, units), each of
  /// at least `grain` units (but for the last); returns when all are done.
  /// `body` must not throw, nor call parallelFor.
  template <typename Body>
  void parallelFor(int64_t units, int64_t grain, const Body &body) {
    run(
        units, grain,
        [](const void *context, int64_t begin, int64_t end, int worker) {
          (*static_cast<const Body *>(context))(begin, end, worker);
        },
        &body);
  }

private:
  using Function = void (*)(const void *, int64_t, int64_t, int);

  void run(int64_t units, int64_t grain, Function function,
           const void *context);
  void work(int worker);
  void serve(int worker);
  void waitForJob(uint32_t seen);

  struct Job {
    Function function = nullptr;
    const void *context = nullptr;
    int64_t units = 0, piece = 0;
  } job;
  std::vector<std::thread> threads;
  int spins = 0;
  alignas(64) std::atomic<int64_t> next{0};
  /// Bit 0: a job may be entered; the rest counts the workers inside, by 2.
  alignas(64) std::atomic<uint32_t> state{0};
  /// Number of the last job; changes when one starts or the pool stops.
  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<bool> stopping{false};
};

} // namespace kerf::cpu

#endif // KERF_DEVICES_CPU_THREADPOOL_H
