//===- Bench.h - timing commands on this machine --------------------------===//

#ifndef KERF_RUNTIME_CORE_BENCH_H
#define KERF_RUNTIME_CORE_BENCH_H

#include "Bounce.h"
#include "Status.h"

#include "kerf/Runtime/Runtime.h"

#include <memory>
#include <optional>
#include <vector>

/// A rank that times commands: a device and, of several ranks, a transport.
struct kerf_bench {
  ~kerf_bench() {
    group.reset();
    world.reset();
    transport.reset();
    if (device)
      api->destroy(device);
  }
  kerf::runtime::Status create(const kerf_session_options &options,
                               uint32_t ranks);
  kerf::runtime::Status connect(const kerf_session_options &options,
                                uint32_t ranks);
  kerf::runtime::Status split();
  kerf::runtime::Status agreeMax(double &value);
  /// Waits for what was enqueued.
  kerf::runtime::Status synchronize();
  bool hasHostMemory() const { return api->flags & KERF_DEVICE_HOST_MEMORY; }

  uint32_t rank = 0, ranks = 1;
  const kerf_device_api *api = nullptr;
  kerf_device *device = nullptr;
  std::unique_ptr<kerf::runtime::Transport> transport;
  /// All ranks: `world` exchanges memory of the host, `group` of the device.
  std::unique_ptr<kerf::runtime::Communicator> world, group;
  std::optional<kerf::runtime::BounceBuffers> bounceBuffers;
};

namespace kerf::runtime {

/// A command that is ready to run, with its buffers.
class Prepared {
public:
  Prepared(kerf_bench &bench, const kerf_bench_command &command)
      : bench(bench), given(command), inRow(command.repeat) {}
  ~Prepared() {
    if (graph)
      bench.api->destroy_graph(graph);
    bench.api->destroy_step(step);
    for (size_t n = 0; n < pointers.size(); ++n)
      if (pointers[n])
        bench.api->free(bench.device, pointers[n], given.operand_bytes[n]);
  }
  Status prepare();
  /// Makes a recording of the step long enough to be timed well, if the device
  /// records; `seconds`: of one run, about.
  Status record(double seconds);
  /// Seconds of one run, of several in a row.
  Status time(double &seconds);
  uint32_t runs() const { return inRow; }

private:
  bool isTimedByDevice() const {
    return bench.api->note_time && (step || bench.transport->onDevice());
  }
  Status enqueue();
  Status enqueueOnce();
  Status timeByDevice(double &seconds);
  Status builtin(kerf_step_info &info);
  template <typename Call> Status ask(Call call) const;
  Status allocate();
  void fill(void *memory, uint64_t bytes);
  Status prepareStep();
  Status openMail();
  Status collective();
  Status thereAndBack();

  kerf_bench &bench;
  const kerf_bench_command &given;
  kerf_step *step = nullptr;
  kerf_graph *graph = nullptr;
  uint32_t inRow; ///< runs of what `enqueue` enqueues
  std::vector<kerf_operand> operands;
  std::vector<void *> pointers;
  std::unique_ptr<Channel> out, in;
};

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_BENCH_H
