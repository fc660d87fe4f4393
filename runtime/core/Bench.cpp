//===- Bench.cpp - timing commands on this machine ------------------------===//
//
// What a session does with a command of a file, without the file: prepare,
// execute, and the collectives of the transport, on buffers of their own. All
// ranks start a run together, and the slowest one's time counts.
//
// A device with a clock of its own times what it runs; the host's clock would
// add what it takes to enqueue. Steps are recorded there as in training,
// several in a row where one is short, and a recording that runs before the one
// that is timed hides the start of the latter.
//
//===----------------------------------------------------------------------===//

#include "Bounce.h"
#include "Plugin.h"
#include "Status.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <vector>

using namespace kerf::runtime;

struct kerf_bench {
  ~kerf_bench() {
    group.reset();
    world.reset();
    transport.reset();
    if (device)
      api->destroy(device);
  }
  Status create(const kerf_session_options &options, uint32_t ranks);
  Status connect(const kerf_session_options &options, uint32_t ranks);
  Status split();
  Status agreeMax(double &value);
  /// Waits for what was enqueued.
  Status synchronize();
  bool hasHostMemory() const { return api->flags & KERF_DEVICE_HOST_MEMORY; }

  uint32_t rank = 0, ranks = 1;
  const kerf_device_api *api = nullptr;
  kerf_device *device = nullptr;
  std::unique_ptr<Transport> transport;
  /// All ranks: `world` exchanges memory of the host, `group` of the device.
  std::unique_ptr<Communicator> world, group;
  std::optional<BounceBuffers> bounceBuffers;
};

static double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

//===----------------------------------------------------------------------===//
// Device and ranks
//===----------------------------------------------------------------------===//

Status kerf_bench::connect(const kerf_session_options &options,
                           uint32_t ranks) {
  if (ranks == 1) {
    transport = makeSoloTransport();
    return split();
  }
  if (!options.session_name)
    return failure(KERF_INVALID, "%u ranks without a name of their job", ranks);
  Rendezvous rendezvous;
  rendezvous.name = options.session_name;
  rendezvous.rank = rank;
  rendezvous.size = ranks;
  rendezvous.workers = hasHostMemory() ? api->workers(device) : 1;
  rendezvous.api = api;
  rendezvous.device = device;
  if (options.connect_timeout_sec > 0)
    rendezvous.timeoutSec = options.connect_timeout_sec;
  Status status =
      connectTransport(chooseTransport(options.transport, api->name),
                       options.plugin_path, rendezvous, transport);
  return status.failed() ? status : split();
}

Status kerf_bench::split() {
  std::vector<uint32_t> members(ranks);
  for (uint32_t r = 0; r < ranks; ++r)
    members[r] = r;
  Status status = transport->host().split(members, world);
  if (!status.failed())
    status = transport->split(members, group);
  if (status.failed())
    return status;
  if (!hasHostMemory() && !transport->onDevice()) {
    bounceBuffers.emplace(*api, device);
    group = bounce(std::move(group), *bounceBuffers);
  }
  return transport->meet();
}

Status kerf_bench::synchronize() {
  if (hasHostMemory())
    return {};
  Status status = transport->drain();
  char error[512] = "";
  if (!status.failed() && api->synchronize(device, error, sizeof error))
    status = failure(KERF_FAILED, "%s", error);
  return status;
}

Status kerf_bench::create(const kerf_session_options &options, uint32_t ranks) {
  std::string name = options.device ? options.device : "cpu";
  if (options.rank < 0 || uint32_t(options.rank) >= ranks)
    return failure(KERF_INVALID, "rank %d of %u", options.rank, ranks);
  rank = options.rank;
  this->ranks = ranks;
  Status status = openDevice(name, options.plugin_path, api);
  if (status.failed())
    return status;
  kerf_device_options deviceOptions = {};
  deviceOptions.workers = options.workers;
  deviceOptions.local_rank = rank;
  char error[512] = "";
  if (auto result = api->create(&deviceOptions, &device, error, sizeof error))
    return failure(statusOf(result), "device '%s': %s", name.c_str(), error);
  return connect(options, ranks);
}

/// The maximum over all ranks.
Status kerf_bench::agreeMax(double &value) {
  return world->allReduce(&value, &value, KERF_F64, KERF_MAX, 1);
}

//===----------------------------------------------------------------------===//
// Built-in kernels
//===----------------------------------------------------------------------===//

static void doNothing(void *const *, int64_t, int64_t) {}

/// Arguments: x, y and their sum, f32.
static void addVectors(void *const *arguments, int64_t begin, int64_t end) {
  auto *x = static_cast<const float *>(arguments[0]);
  auto *y = static_cast<const float *>(arguments[1]);
  auto *__restrict sum = static_cast<float *>(arguments[2]);
  for (int64_t i = begin; i < end; ++i)
    sum[i] = x[i] + y[i];
}

//===----------------------------------------------------------------------===//
// One command
//===----------------------------------------------------------------------===//

namespace {
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
} // namespace

/// Small numbers, as in weights: denormal or huge ones could take other times.
void Prepared::fill(void *memory, uint64_t bytes) {
  uint64_t size = given.dtype == KERF_BF16 ? 2 : 4;
  std::vector<char> block(std::min<uint64_t>(bytes, 127 * 512 * size));
  for (uint64_t i = 0; i < block.size() / size; ++i) {
    float value = (float(i * 7919 % 127) - 63) / 64;
    // The upper half of a float is a bf16; lower halves come second.
    std::memcpy(&block[i * size],
                reinterpret_cast<const char *>(&value) + (4 - size), size);
  }
  for (uint64_t at = 0; at < bytes; at += block.size())
    bench.api->copy_in(bench.device, static_cast<char *>(memory) + at,
                       block.data(), std::min(block.size(), bytes - at));
}

Status Prepared::allocate() {
  operands.resize(given.operand_count);
  pointers.resize(given.operand_count);
  for (uint32_t n = 0; n < given.operand_count; ++n) {
    uint64_t bytes = given.operand_bytes[n];
    operands[n].kind = bytes ? KERF_ARENA : KERF_ABSENT;
    operands[n].bytes = bytes;
    char error[512] = "";
    if (!bytes)
      continue;
    if (auto result = bench.api->alloc(bench.device, bytes, &pointers[n], error,
                                       sizeof error))
      return failure(statusOf(result), "cannot get %llu bytes: %s",
                     (unsigned long long)bytes, error);
    fill(pointers[n], bytes);
  }
  return {};
}

/// Turns a failed call of the device into a status.
template <typename Call> Status Prepared::ask(Call call) const {
  char error[512] = "";
  if (auto result = call(error, sizeof error))
    return failure(statusOf(result), "command %u: %s", given.opcode, error);
  return {};
}

/// Of the built-in kernels three operands mean the sum of two vectors.
Status Prepared::builtin(kerf_step_info &info) {
  bool isSum = given.operand_count == 3;
  info.units = given.attrs[0];
  info.grain = given.attrs[1];
  info.argument_count = given.operand_count;
  if (bench.hasHostMemory()) {
    kerf_kernel_fn function = isSum ? addVectors : doNothing;
    info.function = reinterpret_cast<kerf_function *>(function);
    return {};
  }
  if (!bench.api->builtin_kernel)
    return failure(KERF_UNSUPPORTED, "the device has no kernels to measure by");
  if (isSum && info.units % KERF_BUILTIN_ELEMENTS != 0)
    return failure(KERF_INVALID, "found %lld elements, expected whole %d",
                   (long long)info.units, KERF_BUILTIN_ELEMENTS);
  if (isSum)
    info.units /= KERF_BUILTIN_ELEMENTS;
  info.threads = KERF_BUILTIN_THREADS;
  return ask([&](char *error, size_t bytes) {
    return bench.api->builtin_kernel(
        bench.device, isSum ? KERF_BUILTIN_SUM : KERF_BUILTIN_NOTHING,
        &info.function, error, bytes);
  });
}

Status Prepared::prepareStep() {
  kerf_command command = {};
  command.opcode = given.opcode;
  command.operand_count = given.operand_count;
  command.attr_count = given.attr_count;
  kerf_step_info info = {};
  info.command = &command;
  info.operands = operands.data();
  info.attrs = given.attrs;
  info.name = "measured";
  Status status;
  if (given.opcode == KERF_OP_LAUNCH)
    status = builtin(info);
  if (status.failed())
    return status;
  return ask([&](char *error, size_t bytes) {
    return bench.api->prepare(bench.device, &info, &step, error, bytes);
  });
}

Status Prepared::openMail() {
  if (bench.rank > 1)
    return bench.transport->meet();
  ChannelSpec spec;
  spec.from = 0;
  spec.to = 1;
  spec.bytes = given.attrs[1];
  Status status = bench.transport->open(spec, bench.rank == 0 ? out : in);
  if (status.failed())
    return status;
  std::swap(spec.from, spec.to);
  status = bench.transport->open(spec, bench.rank == 0 ? in : out);
  if (status.failed())
    return status;
  if (bench.bounceBuffers)
    for (auto *end : {&out, &in})
      *end = bounce(std::move(*end), *bench.bounceBuffers);
  return bench.transport->meet();
}

Status Prepared::prepare() {
  Status status = allocate();
  if (status.failed())
    return status;
  if (bench.api->note_time)
    status = ask([&](char *error, size_t bytes) {
      auto result = bench.api->reserve_times(bench.device, 2, error, bytes);
      return result ? result
                    : bench.api->start_times(bench.device, error, bytes);
    });
  if (status.failed())
    return status;
  if (given.opcode < KERF_OP_LOOP)
    return prepareStep();
  if (bench.world->size() < 2)
    return failure(KERF_INVALID, "communication needs several ranks");
  return given.opcode == KERF_OP_SEND ? openMail() : Status();
}

Status Prepared::thereAndBack() {
  if (bench.rank > 1)
    return {};
  uint64_t bytes = given.attrs[1];
  Status status = bench.rank == 0 ? out->send(pointers[0], bytes)
                                  : in->receive(pointers[0], bytes);
  if (status.failed())
    return status;
  return bench.rank == 0 ? in->receive(pointers[0], bytes)
                         : out->send(pointers[0], bytes);
}

Status Prepared::collective() {
  if (given.opcode == KERF_OP_SEND)
    return thereAndBack();
  if (given.opcode < KERF_OP_ALL_REDUCE || given.opcode > KERF_OP_ALL_TO_ALL)
    return failure(KERF_INVALID, "command %u cannot be measured", given.opcode);
  return bench.group->run(
      exchangeOf(given.opcode, given.attrs, pointers[0], pointers[1]));
}

Status Prepared::enqueueOnce() {
  return step ? ask([&](char *error, size_t bytes) {
    return bench.api->execute(step, pointers.data(), error, bytes);
  })
              : collective();
}

Status Prepared::enqueue() {
  if (graph)
    return ask([&](char *error, size_t bytes) {
      return bench.api->launch_graph(bench.device, graph, error, bytes);
    });
  Status status;
  for (uint32_t n = 0; n < inRow && !status.failed(); ++n)
    status = enqueueOnce();
  return status;
}

Status Prepared::record(double seconds) {
  const double goal = 300e-6;
  const double most = 200;
  bool records = bench.api->flags & KERF_DEVICE_GRAPHS && isTimedByDevice();
  if (!records || !step || given.is_enqueued)
    return {};
  inRow = std::max(given.repeat,
                   uint32_t(std::min(goal / std::max(seconds, 1e-9), most)));
  Status status = ask([&](char *error, size_t bytes) {
    return bench.api->begin_graph(bench.device, error, bytes);
  });
  if (status.failed())
    return status;
  status = enqueue();
  Status ended = ask([&](char *error, size_t bytes) {
    return bench.api->end_graph(
        bench.device, status.failed() ? nullptr : &graph, error, bytes);
  });
  return status.failed() ? status : ended;
}

Status Prepared::timeByDevice(double &seconds) {
  auto note = [&](uint32_t index) {
    return ask([&](char *error, size_t bytes) {
      return bench.api->note_time(bench.device, 0, index, error, bytes);
    });
  };
  double times[2] = {};
  Status status = graph ? enqueue() : Status();
  if (!status.failed())
    status = note(0);
  if (!status.failed())
    status = enqueue();
  if (!status.failed())
    status = note(1);
  if (!status.failed())
    status = bench.synchronize();
  for (uint32_t n = 0; n < 2 && !status.failed(); ++n)
    status = ask([&](char *error, size_t bytes) {
      return bench.api->read_time(bench.device, n, &times[n], error, bytes);
    });
  seconds = (times[1] - times[0]) / inRow;
  return status;
}

Status Prepared::time(double &seconds) {
  if (isTimedByDevice())
    return timeByDevice(seconds);
  double start = now();
  Status status = enqueue();
  if (!status.failed())
    status = bench.synchronize();
  seconds = (now() - start) / inRow;
  return status;
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// Seconds of one run of `command`, of the slowest rank.
static Status timeOnce(kerf_bench &bench, Prepared &command, double &seconds) {
  Status status = bench.world->barrier();
  if (!status.failed())
    status = command.time(seconds);
  return status.failed() ? status : bench.agreeMax(seconds);
}

static Status measure(kerf_bench &bench, const kerf_bench_command &given,
                      double budgetSec, double *seconds, uint32_t capacity,
                      uint32_t &count) {
  const uint32_t fewest = 3;
  if (given.repeat < 1 || capacity < fewest)
    return failure(KERF_INVALID, "expected one run and %u times at least",
                   fewest);
  Prepared command(bench, given);
  Status status = command.prepare();
  double warmUp = 0, all = 0;
  if (!status.failed())
    status = timeOnce(bench, command, warmUp);
  if (!status.failed())
    status = command.record(warmUp);
  // All ranks know the same times and stop together.
  for (count = 0; !status.failed() && count < capacity &&
                  (count < fewest || all < budgetSec);
       all += seconds[count++] * command.runs())
    status = timeOnce(bench, command, seconds[count]);
  return status;
}

//===----------------------------------------------------------------------===//
// C border
//===----------------------------------------------------------------------===//

kerf_status kerf_bench_create(const kerf_session_options *options,
                              uint32_t ranks, kerf_bench **bench,
                              kerf_error *error) {
  *bench = nullptr;
  auto made = std::make_unique<kerf_bench>();
  Status status = made->create(*options, ranks);
  if (!status.failed())
    *bench = made.release();
  return status.report(error);
}

void kerf_bench_destroy(kerf_bench *bench) { delete bench; }

int32_t kerf_bench_workers(const kerf_bench *bench) {
  return bench->api->workers(bench->device);
}

const char *kerf_bench_describe(const kerf_bench *bench) {
  return bench->api->describe(bench->device);
}

bool kerf_bench_facts(const kerf_bench *bench, kerf_device_facts *facts) {
  if (bench->api->facts)
    bench->api->facts(bench->device, facts);
  return bench->api->facts != nullptr;
}

void kerf_bench_memory(const kerf_bench *bench, kerf_memory *memory) {
  *memory = {};
  // Figures for people, as in kerf_session_memory.
  if (bench->api->memory_info &&
      bench->api->memory_info(bench->device, &memory->device_free,
                              &memory->device_total, nullptr, 0))
    *memory = {};
}

kerf_status kerf_bench_measure(kerf_bench *bench,
                               const kerf_bench_command *command,
                               double budgetSec, double *seconds,
                               uint32_t capacity, uint32_t *count,
                               kerf_error *error) {
  Status status =
      measure(*bench, *command, budgetSec, seconds, capacity, *count);
  if (status.failed() && status.code != KERF_PEER_LOST)
    bench->transport->abort(status.message.c_str());
  return status.report(error);
}
