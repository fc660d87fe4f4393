//===- Bench.cpp - timing commands on this machine ------------------------===//
//
// What a session does with a command of a file, without the file: prepare,
// execute, and the collectives of the transport, on buffers of their own. All
// ranks start a run together, and the slowest one's time counts.
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include "Plugin.h"

using namespace kerf::runtime;

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
