//===- BenchCommand.cpp - running one command of a benchmark --------------===//
//
// A device with a clock of its own times what it runs; the host's clock would
// add what it takes to enqueue. Steps are recorded there as in training,
// several in a row where one is short, and a recording that runs before the one
// that is timed hides the start of the latter.
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include "Plugin.h"

#include <algorithm>
#include <cstring>
#include <ctime>

using namespace kerf::runtime;

static double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
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
  info.units = given.attrs[KERF_BENCH_UNITS];
  info.grain = given.attrs[KERF_BENCH_GRAIN];
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
  spec.bytes = given.attrs[KERF_SEND_BYTES];
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
  uint64_t bytes = given.attrs[KERF_SEND_BYTES];
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
