//===- FarDevice.cpp - another device behind memory of its own ------------===//
//
// Wraps the device library KERF_TEST_INNER as a device whose memory the host
// cannot address and whose steps are enqueued, as those of a GPU are:
//
// - its addresses are those of the inner device plus a number that makes them
//   none: whoever touches one on the host crashes, and an address of the host
//   that is given to a step is refused;
// - a step runs when somebody waits for it, not before: who reads too early
//   reads what was there;
// - what is recorded is kept and run with each launch; what may not happen
//   while it is recorded fails, as does a graph that outlives its steps;
// - a copy beside the steps reads its memory when somebody waits for it, or
//   the first step runs that waits for it.
//
// KERF_FAR_FAIL=N lets the N-th step that runs (from 1) fail.
// KERF_FAR_FAIL_COPY=1 lets copies to the host fail; the next wait tells.
// KERF_FAR_NO_HOST_MEMORY=1 has no memory for copies beside the steps.
//
//===----------------------------------------------------------------------===//

#include "FarDevice.h"

#include "kerf/Runtime/Device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

namespace {
/// Bits 62 and 47 differ: no processor has a page there.
constexpr uint64_t kFar = UINT64_C(1) << 62;

FarCounts counts;

/// A copy beside the steps.
struct Beside {
  void *to;
  const void *from;
  uint64_t bytes;
};

/// A step that waits, with the inner device's addresses; without a step, a wait
/// for the copies.
struct Item {
  kerf_step *step;
  std::vector<void *> pointers;
  int32_t part; ///< that KERF_OP_TAKE takes
};

kerf_device_status say(char *error, size_t bytes, const std::string &message,
                       kerf_device_status status = KERF_DEVICE_FAILED) {
  if (bytes)
    std::snprintf(error, bytes, "%s", message.c_str());
  return status;
}

const kerf_device_api &inner() {
  static const kerf_device_api *api = [] {
    void *library = dlopen(KERF_TEST_INNER, RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, KERF_DEVICE_ENTRY) : nullptr;
    if (!entry) {
      std::fprintf(stderr, "far device: %s\n", dlerror());
      std::abort();
    }
    return reinterpret_cast<kerf_device_entry_fn>(entry)();
  }();
  return *api;
}
} // namespace

struct kerf_device {
  kerf_device *near = nullptr;
  std::string description, failure;
  std::vector<Item> queue;
  std::vector<Item> *recording = nullptr;
  std::map<uint64_t, uint64_t> memory; ///< bytes by the inner address
  std::map<int32_t, int32_t *> scalars;
  std::set<kerf_graph *> graphs;
  std::mutex mutex; ///< of the copies
  std::vector<Beside> copies;
  std::set<void *> hostMemory;
  uint64_t ran = 0;

  kerf_device_status refuseRecording(const char *what, char *error,
                                     size_t errorBytes) const {
    return recording ? say(error, errorBytes,
                           std::string(what) + " while a graph is recorded")
                     : KERF_DEVICE_OK;
  }
  /// The inner address of one of this device, null of any other.
  void *nearOf(const void *address) const {
    uint64_t at = reinterpret_cast<uint64_t>(address) - kFar;
    auto next = memory.upper_bound(at);
    if (next == memory.begin())
      return nullptr;
    auto [start, bytes] = *std::prev(next);
    return at < start + bytes ? reinterpret_cast<void *>(at) : nullptr;
  }
  void run();
  void copyAll();
};

struct kerf_graph {
  kerf_device *device;
  std::vector<Item> items;
};

struct kerf_step {
  kerf_device *device;
  kerf_step *near; ///< null of KERF_OP_TAKE
  std::vector<bool> isAbsent;
  int64_t outer = 0, parts = 0, bytes = 0; ///< of KERF_OP_TAKE
};

static void *farOf(const void *near) {
  return reinterpret_cast<void *>(reinterpret_cast<uint64_t>(near) + kFar);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static void take(const kerf_step &step, const Item &item) {
  auto *from = static_cast<const char *>(item.pointers[0]);
  auto *to = static_cast<char *>(item.pointers[1]);
  for (int64_t o = 0; o < step.outer; ++o)
    std::memmove(to + o * step.bytes,
                 from + (o * step.parts + item.part) * step.bytes, step.bytes);
}

void kerf_device::copyAll() {
  std::lock_guard lock(mutex);
  for (const Beside &copy : copies)
    std::memcpy(copy.to, copy.from, copy.bytes);
  copies.clear();
}

/// Runs what waits. The first failure stays.
void kerf_device::run() {
  const char *fails = std::getenv("KERF_FAR_FAIL");
  for (const Item &item : queue) {
    if (!failure.empty())
      break;
    char error[256] = "";
    if (!item.step)
      copyAll();
    else if (fails && ++ran == std::strtoull(fails, nullptr, 10))
      failure = "step " + std::to_string(ran) + " was told to fail";
    else if (!item.step->near)
      take(*item.step, item);
    else if (inner().execute(item.step->near, item.pointers.data(), error,
                             sizeof error))
      failure = error;
  }
  queue.clear();
}

static kerf_device_status execute(kerf_step *step, void *const *pointers,
                                  char *error, size_t errorBytes) {
  kerf_device &device = *step->device;
  ++counts.executed;
  Item item = {step, {}, 0};
  for (size_t n = 0; n < step->isAbsent.size(); ++n) {
    if (!step->near && n == 2) { // the host's
      item.part = *static_cast<const int32_t *>(pointers[n]);
      continue;
    }
    void *near = device.nearOf(pointers[n]);
    if (!near && !step->isAbsent[n])
      return say(error, errorBytes,
                 "operand " + std::to_string(n) +
                     " is no address of this device");
    item.pointers.push_back(near);
  }
  (device.recording ? *device.recording : device.queue).push_back(item);
  return KERF_DEVICE_OK;
}

static kerf_device_status synchronize(kerf_device *device, char *error,
                                      size_t errorBytes) {
  ++counts.waited;
  if (device->refuseRecording("a wait", error, errorBytes))
    return KERF_DEVICE_FAILED;
  device->run();
  return device->failure.empty() ? KERF_DEVICE_OK
                                 : say(error, errorBytes, device->failure);
}

//===----------------------------------------------------------------------===//
// Device and memory
//===----------------------------------------------------------------------===//

static kerf_device_status create(const kerf_device_options *options,
                                 kerf_device **device, char *error,
                                 size_t errorBytes) {
  auto *made = new kerf_device;
  auto status = inner().create(options, &made->near, error, errorBytes);
  if (status) {
    delete made;
    return status;
  }
  made->description = std::string("far ") + inner().describe(made->near);
  if (options->local_rank)
    made->description += ", number " + std::to_string(options->local_rank);
  *device = made;
  return KERF_DEVICE_OK;
}

static void destroy(kerf_device *device) {
  if (!device)
    return;
  if (!device->graphs.empty()) {
    std::fprintf(stderr, "far device: a graph outlives it\n");
    std::abort();
  }
  if (!device->hostMemory.empty()) {
    std::fprintf(stderr, "far device: memory of the host outlives it\n");
    std::abort();
  }
  for (auto [value, address] : device->scalars)
    delete address;
  inner().destroy(device->near);
  delete device;
}

static const char *describe(const kerf_device *device) {
  return device->description.c_str();
}
static int32_t workers(const kerf_device *device) {
  return inner().workers(device->near);
}
static int32_t checkFeatures(const char *features, char *missing,
                             size_t bytes) {
  return inner().check_features(features, missing, bytes);
}

static kerf_device_status alloc(kerf_device *device, uint64_t bytes,
                                void **memory, char *error, size_t errorBytes) {
  auto status = inner().alloc(device->near, bytes, memory, error, errorBytes);
  if (status)
    return status;
  device->memory[reinterpret_cast<uint64_t>(*memory)] = bytes;
  *memory = farOf(*memory);
  return KERF_DEVICE_OK;
}

static void release(kerf_device *device, void *memory, uint64_t bytes) {
  if (!memory)
    return;
  void *near = device->nearOf(memory);
  device->memory.erase(reinterpret_cast<uint64_t>(near));
  inner().free(device->near, near, bytes);
}

/// The inner address for a copy, after all steps; null when it may not be.
static void *readyFor(kerf_device *device, const void *memory) {
  char error[256];
  void *near = device->nearOf(memory);
  if (!near)
    device->failure = "a copy of what is no memory of this device";
  if (device->refuseRecording("a copy", error, sizeof error))
    device->failure = error;
  device->run();
  return device->failure.empty() ? near : nullptr;
}
static void copyIn(kerf_device *device, void *memory, const void *host,
                   uint64_t bytes) {
  if (void *near = readyFor(device, memory))
    std::memcpy(near, host, bytes);
}
static void copyOut(kerf_device *device, void *host, const void *memory,
                    uint64_t bytes) {
  void *near = readyFor(device, memory);
  if (std::getenv("KERF_FAR_FAIL_COPY"))
    device->failure = "a copy was told to fail";
  else if (near)
    std::memcpy(host, near, bytes);
}

static kerf_device_status scalar(kerf_device *device, int32_t value,
                                 const void **address, char *error,
                                 size_t errorBytes) {
  auto [at, isNew] = device->scalars.try_emplace(value, nullptr);
  if (isNew) {
    if (device->refuseRecording("a new scalar", error, errorBytes))
      return KERF_DEVICE_FAILED;
    at->second = new int32_t(value);
    device->memory[reinterpret_cast<uint64_t>(at->second)] = sizeof value;
  }
  *address = farOf(at->second);
  return KERF_DEVICE_OK;
}

static kerf_device_status memoryInfo(kerf_device *device, uint64_t *freeBytes,
                                     uint64_t *totalBytes, char *, size_t) {
  *totalBytes = *freeBytes = UINT64_C(1) << 30;
  for (auto [address, bytes] : device->memory)
    *freeBytes -= bytes;
  return KERF_DEVICE_OK;
}

//===----------------------------------------------------------------------===//
// Copies beside the steps
//===----------------------------------------------------------------------===//

static kerf_device_status allocHost(kerf_device *device, uint64_t bytes,
                                    void **memory, char *error,
                                    size_t errorBytes) {
  if (std::getenv("KERF_FAR_NO_HOST_MEMORY"))
    return say(error, errorBytes, "memory cannot be pinned",
               KERF_DEVICE_NO_MEMORY);
  *memory = std::malloc(bytes);
  device->hostMemory.insert(*memory);
  return KERF_DEVICE_OK;
}

static void freeHost(kerf_device *device, void *memory) {
  device->hostMemory.erase(memory);
  std::free(memory);
}

static kerf_device_status copyBeside(kerf_device *device, void *host,
                                     const void *memory, uint64_t bytes,
                                     char *error, size_t errorBytes) {
  void *near = readyFor(device, memory);
  if (!near)
    return say(error, errorBytes, device->failure);
  std::lock_guard lock(device->mutex);
  device->copies.push_back({host, near, bytes});
  return KERF_DEVICE_OK;
}

static kerf_device_status joinCopies(kerf_device *device, char *error,
                                     size_t errorBytes) {
  if (device->refuseRecording("a wait for copies", error, errorBytes))
    return KERF_DEVICE_FAILED;
  device->queue.push_back({nullptr, {}, 0});
  return KERF_DEVICE_OK;
}

static kerf_device_status awaitCopies(kerf_device *device, char *, size_t) {
  device->copyAll();
  return KERF_DEVICE_OK;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static kerf_device_status loadImage(kerf_device *device, const void *bytes,
                                    uint64_t size, const char *ptx,
                                    uint64_t ptxBytes, kerf_image **image,
                                    char *error, size_t errorBytes) {
  return inner().load_image(device->near, bytes, size, ptx, ptxBytes, image,
                            error, errorBytes);
}
static kerf_function *findKernel(kerf_image *image, const char *symbol) {
  return inner().find_kernel(image, symbol);
}
static void unloadImage(kerf_image *image) { inner().unload_image(image); }

/// outer parts bytes; source destination part.
static kerf_device_status prepareTake(const kerf_step_info &info,
                                      kerf_step &step, char *error,
                                      size_t errorBytes) {
  if (info.command->attr_count != 3 || info.command->operand_count != 3)
    return say(error, errorBytes, "found other counts than 3 and 3",
               KERF_DEVICE_INVALID);
  step.outer = info.attrs[0];
  step.parts = info.attrs[1];
  step.bytes = info.attrs[2];
  int64_t taken = step.outer * step.bytes;
  bool fits = info.operands[0].kind == KERF_ARENA &&
              info.operands[1].kind == KERF_ARENA &&
              info.operands[2].kind == KERF_SCALAR &&
              info.operands[0].bytes >= taken * step.parts &&
              info.operands[1].bytes >= taken;
  return fits ? KERF_DEVICE_OK
              : say(error, errorBytes, "operands are too small",
                    KERF_DEVICE_INVALID);
}

static kerf_device_status prepare(kerf_device *device,
                                  const kerf_step_info *info, kerf_step **step,
                                  char *error, size_t errorBytes) {
  auto *made = new kerf_step{device, nullptr, {}};
  for (uint32_t n = 0; n < info->command->operand_count; ++n)
    made->isAbsent.push_back(info->operands[n].kind == KERF_ABSENT);
  kerf_device_status status =
      info->command->opcode == KERF_OP_TAKE
          ? prepareTake(*info, *made, error, errorBytes)
          : inner().prepare(device->near, info, &made->near, error, errorBytes);
  if (status) {
    delete made;
    return status;
  }
  *step = made;
  return KERF_DEVICE_OK;
}

static void destroyStep(kerf_step *step) {
  if (!step)
    return;
  for (kerf_graph *graph : step->device->graphs)
    for (const Item &item : graph->items)
      if (item.step == step) {
        std::fprintf(stderr, "far device: a graph outlives its steps\n");
        std::abort();
      }
  if (step->near)
    inner().destroy_step(step->near);
  delete step;
}

//===----------------------------------------------------------------------===//
// Streams and graphs
//===----------------------------------------------------------------------===//

static void *stream(kerf_device *, uint32_t) { return nullptr; }
static kerf_device_status order(kerf_device *, uint32_t, uint32_t, char *,
                                size_t) {
  return KERF_DEVICE_OK; // There is one queue.
}

static kerf_device_status beginGraph(kerf_device *device, char *error,
                                     size_t errorBytes) {
  if (device->refuseRecording("a graph", error, errorBytes))
    return KERF_DEVICE_FAILED;
  device->recording = new std::vector<Item>;
  return KERF_DEVICE_OK;
}

static kerf_device_status endGraph(kerf_device *device, kerf_graph **graph,
                                   char *error, size_t errorBytes) {
  if (!device->recording)
    return say(error, errorBytes, "nothing is recorded");
  if (graph) {
    ++counts.recorded;
    ++counts.kept;
    *graph = new kerf_graph{device, *device->recording};
    device->graphs.insert(*graph);
  }
  delete std::exchange(device->recording, nullptr);
  return KERF_DEVICE_OK;
}

static kerf_device_status launchGraph(kerf_device *device, kerf_graph *graph,
                                      char *error, size_t errorBytes) {
  if (device->refuseRecording("a launch", error, errorBytes))
    return KERF_DEVICE_FAILED;
  ++counts.launched;
  device->queue.insert(device->queue.end(), graph->items.begin(),
                       graph->items.end());
  return KERF_DEVICE_OK;
}

static void destroyGraph(kerf_graph *graph) {
  if (!graph)
    return;
  --counts.kept;
  graph->device->graphs.erase(graph);
  delete graph;
}

static const kerf_device_api kApi = {
    .abi_version = KERF_DEVICE_ABI,
    .struct_bytes = sizeof(kerf_device_api),
    .name = "far",
    .flags = KERF_DEVICE_GRAPHS,
    .reserved = 0,
    .create = create,
    .destroy = destroy,
    .describe = describe,
    .workers = workers,
    .check_features = checkFeatures,
    .alloc = alloc,
    .free = release,
    .copy_in = copyIn,
    .copy_out = copyOut,
    .load_image = loadImage,
    .find_kernel = findKernel,
    .unload_image = unloadImage,
    .prepare = prepare,
    .execute = execute,
    .destroy_step = destroyStep,
    .scalar = scalar,
    .synchronize = synchronize,
    .stream = stream,
    .order = order,
    .begin_graph = beginGraph,
    .end_graph = endGraph,
    .launch_graph = launchGraph,
    .destroy_graph = destroyGraph,
    .memory_info = memoryInfo,
    .reserve_times = nullptr,
    .start_times = nullptr,
    .note_time = nullptr,
    .read_time = nullptr,
    .alloc_host = allocHost,
    .free_host = freeHost,
    .copy_beside = copyBeside,
    .join_copies = joinCopies,
    .await_copies = awaitCopies,
};

extern "C" __attribute__((visibility("default"))) const FarCounts *
kerf_far_counts() {
  return &counts;
}

extern "C" __attribute__((visibility("default"))) const kerf_device_api *
kerf_device_entry() {
  return &kApi;
}
