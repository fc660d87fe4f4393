//===- Streams.h - streams of the host, for tests -------------------------===//
//
// Everything is asynchronous, as on a GPU: a call puts a task on a stream, and
// a thread goes round and takes each stream as far as it goes.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_RUNTIME_NCCL_STREAMS_H
#define KERF_TEST_RUNTIME_NCCL_STREAMS_H

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include <unistd.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

/// Something on a stream: called until it says that it is done.
struct Task {
  std::function<bool()> go;
  void *owner = nullptr; ///< a communicator, whose end takes the task away
};

struct CUstream_st {
  std::deque<Task> tasks;
};
struct CUevent_st {
  uint64_t recorded = 0, reached = 0; ///< numbers of records
};

/// All streams of the process, and the thread that moves them on.
class Machine {
public:
  std::recursive_mutex mutex;
  std::list<CUstream_st> streams;

  static Machine &get() {
    // Lives as long as the process: its thread does.
    static Machine *machine = new Machine;
    return *machine;
  }
  /// One round. True when something was done.
  bool go() {
    std::lock_guard lock(mutex);
    bool moved = false;
    for (CUstream_st &stream : streams)
      while (!stream.tasks.empty() && stream.tasks.front().go()) {
        stream.tasks.pop_front();
        moved = true;
      }
    return moved;
  }
  void forget(void *owner) {
    std::lock_guard lock(mutex);
    for (CUstream_st &stream : streams)
      std::erase_if(stream.tasks,
                    [&](const Task &task) { return task.owner == owner; });
  }

private:
  Machine() {
    std::thread([this] {
      while (true)
        if (!go())
          usleep(50);
    }).detach();
  }
};

/// Puts a task on a stream; 0, the result of calls that succeed.
int put(CUstream_st *stream, std::function<bool()> go, void *owner = nullptr);

EXPORT int cuStreamCreate(CUstream_st **stream, unsigned flags);

#endif // KERF_TEST_RUNTIME_NCCL_STREAMS_H
