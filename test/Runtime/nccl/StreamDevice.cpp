//===- StreamDevice.cpp - the CPU behind streams, for tests ---------------===//
//
// Wraps the device library KERF_TEST_INNER as one that enqueues its steps on
// streams of the stand-in for libcuda (StandIn.cpp), as a GPU does: a step runs
// when its stream comes to it, on another thread, beside exchanges that are
// under way on other streams. Who forgets to order two of them gets other
// numbers.
//
//===----------------------------------------------------------------------===//

#include "kerf/Runtime/Device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

namespace {
/// The functions of the stand-in.
struct Cuda {
  int (*streamCreate)(void **, unsigned);
  int (*streamQuery)(void *);
  int (*waitEvent)(void *, void *, unsigned);
  int (*eventCreate)(void **, unsigned);
  int (*eventRecord)(void *, void *);
  int (*launchHost)(void *, void (*)(void *), void *);
};

/// One step on its way.
struct Item {
  kerf_step *step;
  std::vector<void *> pointers;
  int32_t part; ///< that KERF_OP_TAKE takes
};
} // namespace

struct kerf_device {
  kerf_device *inner = nullptr;
  void *streams[KERF_DEVICE_STREAMS] = {};
  void *event = nullptr;
  std::map<int32_t, int32_t> scalars;
  std::vector<double> times;
  std::string failure; ///< of a step that ran
  bool hasStepped = false;
};

struct kerf_step {
  kerf_device *device;
  kerf_step *inner;
  bool isTake;
  uint32_t operands;
  int64_t attrs[3]; ///< of KERF_OP_TAKE
};

static const kerf_device_api &inner() {
  static const kerf_device_api *api = [] {
    void *library = dlopen(KERF_TEST_INNER, RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, KERF_DEVICE_ENTRY) : nullptr;
    if (!entry) {
      std::fprintf(stderr, "stream device: %s\n", dlerror());
      std::abort();
    }
    return reinterpret_cast<kerf_device_entry_fn>(entry)();
  }();
  return *api;
}

static const Cuda &cuda() {
  static const Cuda made = [] {
    const char *folder = std::getenv("KERF_CUDA_PATH");
    std::string path = std::string(folder ? folder : ".") + "/libcuda.so.1";
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      std::fprintf(stderr, "stream device: %s\n", dlerror());
      std::abort();
    }
    Cuda found = {};
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          dlsym(library, name));
    };
    find(found.streamCreate, "cuStreamCreate");
    find(found.streamQuery, "cuStreamQuery");
    find(found.waitEvent, "cuStreamWaitEvent");
    find(found.eventCreate, "cuEventCreate");
    find(found.eventRecord, "cuEventRecord");
    find(found.launchHost, "cuLaunchHostFunc");
    return found;
  }();
  return made;
}

static kerf_device_status create(const kerf_device_options *options,
                                 kerf_device **device, char *error,
                                 size_t bytes) {
  auto *made = new kerf_device;
  kerf_device_status status =
      inner().create(options, &made->inner, error, bytes);
  for (void *&stream : made->streams)
    cuda().streamCreate(&stream, 0);
  cuda().eventCreate(&made->event, 0);
  *device = made;
  return status;
}

static void wait(kerf_device *device) {
  for (void *stream : device->streams)
    while (cuda().streamQuery(stream) != 0)
      usleep(20);
}

static kerf_device_status synchronize(kerf_device *device, char *error,
                                      size_t bytes) {
  wait(device);
  if (device->failure.empty())
    return KERF_DEVICE_OK;
  std::snprintf(error, bytes, "%s", device->failure.c_str());
  return KERF_DEVICE_FAILED;
}

static void destroy(kerf_device *device) {
  if (!device)
    return;
  wait(device);
  inner().destroy(device->inner);
  delete device;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static kerf_device_status prepare(kerf_device *device,
                                  const kerf_step_info *info, kerf_step **step,
                                  char *error, size_t bytes) {
  auto *made = new kerf_step{device,
                             nullptr,
                             info->command->opcode == KERF_OP_TAKE,
                             info->command->operand_count,
                             {}};
  *step = made;
  if (!made->isTake)
    return inner().prepare(device->inner, info, &made->inner, error, bytes);
  std::memcpy(made->attrs, info->attrs, sizeof made->attrs);
  return KERF_DEVICE_OK;
}

/// One part of [outer, parts, inner].
static void take(const Item &item) {
  auto [outer, parts, bytes] = item.step->attrs;
  const char *from = static_cast<const char *>(item.pointers[0]);
  for (int64_t o = 0; o < outer; ++o)
    std::memmove(static_cast<char *>(item.pointers[1]) + o * bytes,
                 from + (o * parts + item.part) * bytes, bytes);
}

static void run(void *data) {
  auto *item = static_cast<Item *>(data);
  char error[512] = "";
  if (item->step->isTake)
    take(*item);
  else if (inner().execute(item->step->inner, item->pointers.data(), error,
                           sizeof error))
    item->step->device->failure = error;
  delete item;
}

static kerf_device_status execute(kerf_step *step, void *const *pointers,
                                  char *, size_t) {
  step->device->hasStepped = true;
  auto *item = new Item{step, {}, 0};
  item->pointers.assign(pointers, pointers + step->operands);
  if (step->isTake)
    item->part = *static_cast<const int32_t *>(pointers[2]);
  cuda().launchHost(step->device->streams[0], run, item);
  return KERF_DEVICE_OK;
}

static kerf_device_status scalar(kerf_device *device, int32_t value,
                                 const void **address, char *, size_t) {
  *address = &device->scalars.try_emplace(value, value).first->second;
  return KERF_DEVICE_OK;
}

static kerf_device_status order(kerf_device *device, uint32_t before,
                                uint32_t after, char *, size_t) {
  cuda().eventRecord(device->event, device->streams[before]);
  cuda().waitEvent(device->streams[after], device->event, 0);
  return KERF_DEVICE_OK;
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

static void takeTime(void *place) {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  *static_cast<double *>(place) = time.tv_sec + 1e-9 * time.tv_nsec;
}

static kerf_device_status reserveTimes(kerf_device *device, uint32_t count,
                                       char *, size_t) {
  wait(device); // times are still to come
  device->times.assign(count, 0);
  return KERF_DEVICE_OK;
}

static kerf_device_status noteTime(kerf_device *device, uint32_t stream,
                                   uint32_t index, char *, size_t) {
  cuda().launchHost(device->streams[stream], takeTime,
                    &device->times.at(index));
  return KERF_DEVICE_OK;
}

static kerf_device_status readTime(kerf_device *device, uint32_t index,
                                   double *seconds, char *, size_t) {
  *seconds = device->times.at(index);
  return KERF_DEVICE_OK;
}

extern "C" __attribute__((visibility("default"))) const kerf_device_api *
kerf_device_entry() {
  static kerf_device_api api = {KERF_DEVICE_ABI, sizeof(kerf_device_api),
                                "cpu"};
  api.create = create;
  api.destroy = destroy;
  api.describe = [](const kerf_device *device) {
    return inner().describe(device->inner);
  };
  api.workers = [](const kerf_device *device) {
    return inner().workers(device->inner);
  };
  api.check_features = inner().check_features;
  api.alloc = [](kerf_device *device, uint64_t bytes, void **memory,
                 char *error, size_t errorBytes) {
    // A device that records a step could not give any.
    if (device->hasStepped) {
      std::snprintf(error, errorBytes, "memory is taken within a step");
      return KERF_DEVICE_INVALID;
    }
    return inner().alloc(device->inner, bytes, memory, error, errorBytes);
  };
  api.free = [](kerf_device *device, void *memory, uint64_t bytes) {
    inner().free(device->inner, memory, bytes);
  };
  api.copy_in = [](kerf_device *device, void *memory, const void *host,
                   uint64_t bytes) {
    wait(device);
    std::memcpy(memory, host, bytes);
  };
  api.copy_out = [](kerf_device *device, void *host, const void *memory,
                    uint64_t bytes) {
    wait(device);
    std::memcpy(host, memory, bytes);
  };
  api.load_image = [](kerf_device *device, const void *bytes, uint64_t size,
                      const char *ptx, uint64_t ptxBytes, kerf_image **image,
                      char *error, size_t errorBytes) {
    return inner().load_image(device->inner, bytes, size, ptx, ptxBytes, image,
                              error, errorBytes);
  };
  api.find_kernel = inner().find_kernel;
  api.unload_image = inner().unload_image;
  api.prepare = prepare;
  api.execute = execute;
  api.destroy_step = [](kerf_step *step) {
    if (step)
      inner().destroy_step(step->inner);
    delete step;
  };
  api.scalar = scalar;
  api.synchronize = synchronize;
  api.stream = [](kerf_device *device, uint32_t number) {
    return device->streams[number];
  };
  api.order = order;
  api.reserve_times = reserveTimes;
  api.start_times = synchronize; // one clock for all
  api.note_time = noteTime;
  api.read_time = readTime;
  return &api;
}
