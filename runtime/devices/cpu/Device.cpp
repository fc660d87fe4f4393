//===- Device.cpp - the cpu device's entry --------------------------------===//

#include "Image.h"
#include "Isa.h"
#include "Step.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <system_error>

using namespace kerf::cpu;

/// Workers for the options, or 0 after writing a message.
static int chooseWorkers(const kerf_device_options &options, char *error,
                         size_t errorBytes) {
  constexpr int most = 1024;
  int workers = options.workers;
  int limit = options.max_workers > 0 ? options.max_workers : most;
  if (workers == 0)
    workers = std::min(onlineProcessors(), limit);
  if (workers >= 1 && workers <= std::min(limit, most))
    return workers;
  say(error, errorBytes,
      "found %d workers, expected 1 to %d; compile with more workers or ask "
      "for fewer",
      workers, std::min(limit, most));
  return 0;
}

/// The loops that KERF_CPU_ISA names, the best without it; null after writing
/// a message.
static const Kernels *chooseKernels(char *error, size_t errorBytes) {
  const char *name = std::getenv("KERF_CPU_ISA");
  if (!name || !*name)
    return &kernels();
  const Kernels *found = findKernels(name);
  if (!found)
    say(error, errorBytes,
        "KERF_CPU_ISA: found '%s', expected 'generic', 'avx2', 'avx512', "
        "'avx512bf16' or 'amx' and a machine that has it",
        name);
  return found;
}

static kerf_device_status create(const kerf_device_options *options,
                                 kerf_device **device, char *error,
                                 size_t errorBytes) {
  *device = nullptr;
  int workers = chooseWorkers(*options, error, errorBytes);
  const Kernels *loops = chooseKernels(error, errorBytes);
  if (!workers || !loops)
    return KERF_DEVICE_INVALID;
  try {
    auto made = std::make_unique<kerf_device>(workers, *loops);
    made->description = "cpu: " + processorName() + ", " + loops->name + ", " +
                        std::to_string(workers) +
                        (workers == 1 ? " worker" : " workers");
    *device = made.release();
    return KERF_DEVICE_OK;
  } catch (const std::system_error &failure) {
    say(error, errorBytes, "cannot start %d workers: %s", workers,
        failure.what());
    return KERF_DEVICE_FAILED;
  } catch (const std::bad_alloc &) {
    say(error, errorBytes, "out of memory");
    return KERF_DEVICE_NO_MEMORY;
  }
}

static void destroy(kerf_device *device) { delete device; }

static const char *describe(const kerf_device *device) {
  return device->description.c_str();
}

static int32_t workers(const kerf_device *device) {
  return device->pool.workers();
}

static kerf_device_status alloc(kerf_device *, uint64_t bytes, void **memory,
                                char *error, size_t errorBytes) {
  constexpr uint64_t most = UINT64_C(1) << 46; // all that mmap could give
  *memory = bytes && bytes <= most
                ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                : MAP_FAILED;
  if (*memory == MAP_FAILED) {
    *memory = nullptr;
    say(error, errorBytes, "cannot allocate %.3f GiB for the model",
        static_cast<double>(bytes) / (1 << 30));
    return KERF_DEVICE_NO_MEMORY;
  }
  madvise(*memory, bytes, MADV_HUGEPAGE); // only advice: may be refused
  return KERF_DEVICE_OK;
}

static void release(kerf_device *, void *memory, uint64_t bytes) {
  if (memory)
    munmap(memory, bytes);
}

static void copyIn(kerf_device *, void *memory, const void *host,
                   uint64_t bytes) {
  std::memcpy(memory, host, bytes);
}

static void copyOut(kerf_device *, void *host, const void *memory,
                    uint64_t bytes) {
  std::memcpy(host, memory, bytes);
}

/// Null when the opcode is not this device's.
static StepPointer (*findPrepare(uint16_t opcode))(Request &) {
  switch (opcode) {
  case KERF_OP_LAUNCH:
    return prepareLaunch;
  case KERF_OP_MATMUL:
    return prepareMatmul;
  case KERF_OP_ATTENTION:
    return prepareAttention;
  case KERF_OP_ATTENTION_BACKWARD:
    return prepareAttentionBackward;
  case KERF_OP_GROUPED_MATMUL:
    return prepareGroupedMatmul;
  case KERF_OP_COPY:
    return prepareCopy;
  case KERF_OP_ZERO:
    return prepareZero;
  default:
    return nullptr;
  }
}

static kerf_device_status prepare(kerf_device *device,
                                  const kerf_step_info *info, kerf_step **step,
                                  char *error, size_t errorBytes) {
  *step = nullptr;
  auto *prepareStep = findPrepare(info->command->opcode);
  if (!prepareStep) {
    say(error, errorBytes, "the cpu device has no opcode %u",
        info->command->opcode);
    return KERF_DEVICE_UNSUPPORTED;
  }
  try {
    Request request(*device, *info, error, errorBytes);
    *step = prepareStep(request).release();
    return *step ? KERF_DEVICE_OK : KERF_DEVICE_INVALID;
  } catch (const std::bad_alloc &) {
    say(error, errorBytes, "out of memory");
    return KERF_DEVICE_NO_MEMORY;
  }
}

static kerf_device_status execute(kerf_step *step, void *const *pointers,
                                  char *error, size_t errorBytes) {
  return step->execute(pointers, error, errorBytes);
}

static void destroyStep(kerf_step *step) { delete step; }

static const kerf_device_api api = {
    .abi_version = KERF_DEVICE_ABI,
    .struct_bytes = sizeof(kerf_device_api),
    .name = "cpu",
    .flags = KERF_DEVICE_HOST_MEMORY,
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
    .scalar = nullptr,
    .synchronize = nullptr,
    .stream = nullptr,
    .order = nullptr,
    .begin_graph = nullptr,
    .end_graph = nullptr,
    .launch_graph = nullptr,
    .destroy_graph = nullptr,
    .memory_info = nullptr,
    .reserve_times = nullptr,
    .start_times = nullptr,
    .note_time = nullptr,
    .read_time = nullptr,
    .alloc_host = nullptr,
    .free_host = nullptr,
    .copy_beside = nullptr,
    .join_copies = nullptr,
    .await_copies = nullptr,
    .facts = nullptr,
    .builtin_kernel = nullptr,
    .tune = nullptr,
    .examine = nullptr,
};

extern "C" [[gnu::visibility("default")]] const kerf_device_api *
kerf_device_entry(void) {
  return &api;
}
