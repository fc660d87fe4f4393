//===- Session.cpp - making a session -------------------------------------===//

#include "Session.h"

#include "Plugin.h"

#include <cstdlib>
#include <cstring>

#include <sched.h>

using namespace kerf::artifact;
using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Environment
//===----------------------------------------------------------------------===//

/// A number of the environment; `value` stays as it is without the variable.
static Status readVariable(const char *name, int64_t &value) {
  const char *text = std::getenv(name);
  if (!text || !*text)
    return {};
  char *end;
  long number = std::strtol(text, &end, 10);
  if (*end || number < 0 || number > INT32_MAX)
    return failure(KERF_INVALID, "%s is '%s', expected a number", name, text);
  value = number;
  return {};
}

/// The name that the ranks of this job share; empty when there is none.
static std::string sessionNameOf(const char *given) {
  if (given)
    return given;
  if (const char *name = std::getenv("KERF_SESSION"); name && *name)
    return name;
  const char *port = std::getenv("MASTER_PORT");
  return port && *port ? std::string("port-") + port : "";
}

/// Threads for one of `ranks` on this machine.
static int32_t workersOf(uint32_t ranks) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0)
    return 0;
  return std::max<int32_t>(1, CPU_COUNT(&cores) / ranks);
}

//===----------------------------------------------------------------------===//
// Steps of making a session
//===----------------------------------------------------------------------===//

Status kerf_session::chooseRank(const kerf_session_options &options) {
  int64_t worldSize = view.meta->world_size, number = -1;
  bool isAlone = worldSize == 1 && options.rank == 0;
  Status status;
  if (!isAlone)
    status = readVariable("WORLD_SIZE", worldSize);
  if (status.failed())
    return status;
  if (worldSize != view.meta->world_size)
    return failure(KERF_INVALID, "the file is for %u ranks, WORLD_SIZE is %lld",
                   view.meta->world_size, (long long)worldSize);
  if (options.rank >= 0)
    number = options.rank;
  else
    status = readVariable("RANK", number);
  if (status.failed())
    return status;
  if (number < 0 && worldSize > 1)
    return failure(KERF_INVALID,
                   "the file is for %u ranks and RANK is not set: start it "
                   "with kerf-run",
                   view.meta->world_size);
  rank = number < 0 ? 0 : number;
  if (rank >= worldSize)
    return failure(KERF_INVALID, "rank %u of a file for %u", rank,
                   view.meta->world_size);
  coordinatesOf(view, rank, coordinates);
  program = programOf(view, rank);
  view = programView(artifact.view, program);
  return {};
}

/// What to do where the machine lacks features that a file needs.
static const char *adviceFor(const std::string &target) {
  return target == "cuda"
             ? "compile with the --gpu of this machine's least capable GPU, "
               "or hide that one with CUDA_VISIBLE_DEVICES"
             : "compile with --cpu=native here, or with an older --cpu";
}

Status kerf_session::openMachine(const kerf_session_options &options) {
  if (device)
    return {}; // a dry one was given
  std::string target = view.string(view.meta->target);
  std::string name = options.device ? options.device : target;
  if (name != target)
    return failure(KERF_INVALID, "the file is for '%s', not for '%s'",
                   target.c_str(), name.c_str());
  Status status = openDevice(name, options.plugin_path, api);
  if (status.failed())
    return status;
  status = createDevice(options);
  return status.failed() ? status : checkFeatures();
}

Status kerf_session::checkFeatures() const {
  const kerf_meta &meta = *view.meta;
  char missing[256];
  if (!api->check_features(view.string(meta.features), missing, sizeof missing))
    return {};
  return failure(KERF_UNSUPPORTED,
                 "the file is for the processor '%s'; this machine lacks: %s; "
                 "%s",
                 view.string(meta.cpu), missing,
                 adviceFor(view.string(meta.target)));
}

Status kerf_session::createDevice(const kerf_session_options &options) {
  const kerf_meta &meta = *view.meta;
  kerf_device_options deviceOptions = {};
  deviceOptions.workers = options.workers;
  deviceOptions.max_workers = meta.max_workers;
  deviceOptions.tuning = options.tuning;
  if (options.tuning && !api->tune)
    return failure(KERF_INVALID,
                   "the device '%s' has no algorithms to choose from: run "
                   "without --tuning",
                   view.string(meta.target));
  if (options.workers < 0)
    return failure(KERF_INVALID, "%d workers", options.workers);
  if (options.workers == 0 && meta.world_size > 1)
    deviceOptions.workers =
        std::min<int32_t>(workersOf(meta.world_size), meta.max_workers);
  int64_t localRank = rank;
  Status status = readVariable("LOCAL_RANK", localRank);
  if (status.failed())
    return status;
  deviceOptions.local_rank = static_cast<uint32_t>(localRank);
  char error[512] = "";
  if (auto result = api->create(&deviceOptions, &device, error, sizeof error))
    return failure(statusOf(result), "device '%s': %s",
                   view.string(meta.target), error);
  uint64_t total;
  if (!api->memory_info ||
      api->memory_info(device, &freeAtStart, &total, nullptr, 0))
    freeAtStart = 0;
  hostThreads = hasHostMemory() ? api->workers(device)
                                : std::max(workersOf(meta.world_size), 1);
  return {};
}

Status kerf_session::connect(const kerf_session_options &options) {
  const kerf_meta &meta = *view.meta;
  if (transport) {
    // A dry one was given.
  } else if (meta.world_size == 1) {
    transport = makeSoloTransport();
  } else {
    Rendezvous rendezvous;
    std::string transportName = chooseTransport(options.transport, api->name);
    rendezvous.name = sessionNameOf(options.session_name);
    if (rendezvous.name.empty() && transportName == "shm")
      return failure(KERF_INVALID, "the ranks cannot find each other: neither "
                                   "KERF_SESSION nor MASTER_PORT is set");
    rendezvous.rank = rank;
    rendezvous.size = meta.world_size;
    rendezvous.programHash = view.header->checksum;
    rendezvous.workers = hasHostMemory() ? api->workers(device) : 1;
    rendezvous.api = api;
    rendezvous.device = device;
    if (options.connect_timeout_sec > 0)
      rendezvous.timeoutSec = options.connect_timeout_sec;
    if (options.stall_timeout_sec != 0)
      rendezvous.stallSec = std::max(options.stall_timeout_sec, 0.0);
    rendezvous.nameCommand = [this](uint32_t index) {
      const kerf_command &command = view.commands[index];
      return std::string("'") + view.string(command.name) + "' (" +
             opcodeName(command.opcode) + ")";
    };
    rendezvous.dropRecordings = [this] { dropParts(); };
    Status status = connectTransport(transportName, options.plugin_path,
                                     rendezvous, transport);
    if (status.failed())
      return status;
  }
  if (!hasHostMemory() && !transport->onDevice())
    bounceBuffers.emplace(*api, device);
  Status status = openGroups();
  if (!status.failed())
    status = openChannels();
  return status.failed() ? status : transport->meet();
}

Status kerf_session::openGroups() {
  std::vector<uint32_t> members(view.meta->world_size);
  for (uint32_t r = 0; r < members.size(); ++r)
    members[r] = r;
  Status status = transport->host().split(members, world);
  for (uint32_t g = 0; g < view.groups.count && !status.failed(); ++g) {
    members.resize(view.groups[g].size);
    for (uint32_t n = 0; n < members.size(); ++n)
      members[n] = groupMember(view, view.groups[g], rank, n);
    auto &group = groups.emplace_back();
    status = transport->split(members, group);
    if (bounceBuffers && !status.failed())
      group = bounce(std::move(group), *bounceBuffers);
  }
  return status;
}

/// A channel joins ranks of two stages with the same other coordinates.
Status kerf_session::openChannels() {
  Status status;
  for (uint32_t c = 0; c < view.channels.count && !status.failed(); ++c) {
    const kerf_channel &channel = view.channels[c];
    ChannelSpec spec;
    spec.from = rankOfProgram(view, rank, channel.from);
    spec.to = rankOfProgram(view, rank, channel.to);
    spec.key = kerf_hash_name(view.string(channel.name));
    spec.holds = channel.holds;
    spec.bytes = channel.bytes;
    auto &end = channels.emplace_back();
    status = transport->open(spec, end);
    if (bounceBuffers && !status.failed())
      end = bounce(std::move(end), *bounceBuffers);
  }
  return status;
}

/// Lets groups take the memory of their exchanges, so that no step needs more.
Status kerf_session::reserveExchanges() {
  Status status;
  for (const kerf_func &func : view.funcs)
    for (uint32_t n = 0; n < func.command_count && !status.failed(); ++n) {
      const kerf_command &command = view.commands[func.first_command + n];
      const int64_t *attrs = view.attrs.data + command.first_attr;
      if (isCollective(command.opcode))
        status = groups[attrs[KERF_COLLECTIVE_GROUP]]->reserve(
            exchangeOf(command.opcode, attrs, nullptr, nullptr));
    }
  return status;
}

/// Makes room for the largest exchange, so that no step needs more memory.
Status kerf_session::reserveBounceBuffers() {
  uint64_t given = 0, got = 0;
  for (const kerf_func &func : view.funcs)
    for (uint32_t n = 0; n < func.command_count; ++n) {
      const kerf_command &command = view.commands[func.first_command + n];
      const int64_t *attrs = view.attrs.data + command.first_attr;
      if (command.opcode == KERF_OP_SEND)
        given = std::max<uint64_t>(given, attrs[KERF_SEND_BYTES]);
      if (command.opcode == KERF_OP_RECEIVE)
        got = std::max<uint64_t>(got, attrs[KERF_SEND_BYTES]);
      if (!isCollective(command.opcode))
        continue;
      uint32_t members = view.groups[attrs[KERF_COLLECTIVE_GROUP]].size;
      Exchange exchange = exchangeOf(command.opcode, attrs, nullptr, nullptr);
      given = std::max(given, sourceBytes(exchange, members));
      got = std::max(got, destinationBytes(exchange, members));
    }
  return bounceBuffers->reserve(given, got);
}

Status kerf_session::prepare(uint32_t index) {
  const kerf_command &command = view.commands[index];
  // Loops, collectives and what comes with them are the runtime's.
  bool isTaken = command.opcode == KERF_OP_TAKE && !hasHostMemory();
  if (command.opcode >= KERF_OP_LOOP && !isTaken)
    return {};
  kerf_step_info info = {};
  info.command = &command;
  info.operands = view.operands.data + command.first_operand;
  info.attrs = view.attrs.data + command.first_attr;
  std::vector<int64_t> fixed = fixedScalars(command);
  info.fixed = fixed.data();
  info.name = view.string(command.name);
  if (command.opcode == KERF_OP_LAUNCH) {
    const kerf_kernel &kernel = view.kernels[info.attrs[KERF_LAUNCH_KERNEL]];
    info.function = api->find_kernel(image, view.string(kernel.symbol));
    if (!info.function)
      return failure(KERF_INVALID, "the image has no kernel '%s'",
                     view.string(kernel.symbol));
    info.units = kernel.units;
    info.grain = kernel.grain;
    info.threads = kernel.threads;
    info.argument_count = kernel.argument_count;
  }
  char error[512] = "";
  if (auto result =
          api->prepare(device, &info, &steps[index], error, sizeof error))
    return failure(statusOf(result), "command %u, '%s' (%s): %s", index,
                   info.name, opcodeName(command.opcode), error);
  return {};
}

Status kerf_session::loadKernels() {
  if (view.kernels.count == 0)
    return {};
  char error[1024] = "";
  if (auto result = api->load_image(
          device, view.image.data(), view.image.size(), view.ptx.data(),
          view.ptx.size(), &image, error, sizeof error))
    return failure(statusOf(result), "cannot load the kernels: %s", error);
  return {};
}

Status kerf_session::load() {
  Status status = allocateArena(*api, device, view.program->arena_bytes, arena);
  if (!status.failed())
    status = loadKernels();
  if (status.failed())
    return status;
  steps.resize(view.commands.count);
  uint32_t mostOperands = 0;
  for (const kerf_func &func : view.funcs)
    for (uint32_t n = 0; n < func.command_count; ++n) {
      uint32_t command = func.first_command + n;
      status = prepare(command);
      if (status.failed())
        return status;
      mostOperands =
          std::max(mostOperands, view.commands[command].operand_count);
    }
  pointers.resize(mostOperands);
  scalars.resize(mostOperands);
  if (profile) {
    timings.resize(view.commands.count);
    status = reserveTimes(mostMarks(view));
  }
  if (!status.failed())
    status = reserveExchanges();
  return bounceBuffers && !status.failed() ? reserveBounceBuffers() : status;
}

Status kerf_session::create(const kerf_session_options &options) {
  checkNans = options.check_nans;
  profile = options.profile;
  const char *variable = std::getenv("KERF_NO_GRAPH");
  noGraphs = options.no_graphs || (variable && *variable == '1');
  Status status = chooseRank(options);
  if (!status.failed())
    status = openMachine(options);
  if (!status.failed())
    status = connect(options);
  if (!status.failed())
    status = load();
  if (status.failed() && transport)
    transport->abort(status.message.c_str());
  return status;
}

kerf_session::~kerf_session() {
  dropParts();
  channels.clear();
  groups.clear();
  world.reset();
  transport.reset();
  if (!device)
    return;
  if (pinnedMemory)
    api->free_host(device, pinnedMemory);
  for (kerf_step *step : steps)
    api->destroy_step(step);
  api->unload_image(image);
  if (arena)
    api->free(device, arena, view.program->arena_bytes);
  api->destroy(device);
}

//===----------------------------------------------------------------------===//
// C border
//===----------------------------------------------------------------------===//

void kerf_session_options_init(kerf_session_options *options) {
  *options = {};
  options->rank = -1;
}

kerf_status kerf_session_create(const kerf_artifact *artifact,
                                const kerf_session_options *options,
                                kerf_session **session, kerf_error *error) {
  *session = nullptr;
  auto made = std::make_unique<kerf_session>(*artifact);
  Status status = made->create(*options);
  if (status.failed()) {
    status.message = artifact->name + ": " + status.message;
    return status.report(error);
  }
  *session = made.release();
  return status.report(error);
}

void kerf_session_destroy(kerf_session *session) { delete session; }

uint32_t kerf_session_rank(const kerf_session *session) {
  return session->rank;
}

int32_t kerf_session_workers(const kerf_session *session) {
  return session->api->workers(session->device);
}

const char *kerf_session_describe(const kerf_session *session) {
  return session->api->describe(session->device);
}

void kerf_session_abort(kerf_session *session, const char *message) {
  session->transport->abort(message);
}

void kerf_session_cleanup(const char *sessionName) {
  std::string name = sessionNameOf(sessionName);
  if (!name.empty())
    cleanupShm(name);
}

void kerf_session_memory(const kerf_session *session, kerf_memory *memory) {
  *memory = {};
  memory->arena = session->view.program->arena_bytes;
  if (session->bounceBuffers)
    memory->bounce_buffers = session->bounceBuffers->bytes();
  memory->device_free_at_start = session->freeAtStart;
  // Figures for people: without them the rest is still true.
  if (session->api->memory_info &&
      session->api->memory_info(session->device, &memory->device_free,
                                &memory->device_total, nullptr, 0))
    memory->device_free = memory->device_total = 0;
}

uint32_t kerf_session_progress(const kerf_session *session) {
  return session->progress.load(std::memory_order_relaxed);
}
