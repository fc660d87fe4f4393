//===- Device.cpp - the cuda device's entry -------------------------------===//

#include "Copies.h"
#include "Events.h"
#include "Facts.h"
#include "Features.h"
#include "Image.h"
#include "Memory.h"
#include "Step.h"
#include "Streams.h"

#include <new>

using namespace kerf::cuda;

static kerf_device_status create(const kerf_device_options *options,
                                 kerf_device **device, char *error,
                                 size_t errorBytes) {
  *device = nullptr;
  auto made = std::unique_ptr<kerf_device>(new (std::nothrow) kerf_device);
  kerf_device_status status = KERF_DEVICE_NO_MEMORY;
  say(error, errorBytes, "out of memory");
  try {
    if (made)
      status = openGpu(*made, *options, error, errorBytes);
  } catch (const std::bad_alloc &) {
    say(error, errorBytes, "out of memory");
  }
  if (!status)
    *device = made.release();
  else if (made)
    closeGpu(*made);
  return status;
}

static void destroy(kerf_device *device) {
  if (!device)
    return;
  closeGpu(*device);
  delete device;
}

static const char *describe(const kerf_device *device) {
  return device->description.c_str();
}

static int32_t workers(const kerf_device *device) { return device->workers; }

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
  case KERF_OP_TAKE:
    return prepareTake;
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
    say(error, errorBytes, "the cuda device has no opcode %u",
        info->command->opcode);
    return KERF_DEVICE_UNSUPPORTED;
  }
  try {
    device->makeCurrent();
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
  step->device.makeCurrent();
  return step->execute(pointers, error, errorBytes);
}

static void destroyStep(kerf_step *step) {
  if (step)
    step->device.makeCurrent();
  delete step;
}

static const kerf_device_api api = {
    .abi_version = KERF_DEVICE_ABI,
    .struct_bytes = sizeof(kerf_device_api),
    .name = "cuda",
    .flags = KERF_DEVICE_GRAPHS,
    .reserved = 0,
    .create = create,
    .destroy = destroy,
    .describe = describe,
    .workers = workers,
    .check_features = checkFeatures,
    .alloc = allocate,
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
    .reserve_times = reserveTimes,
    .start_times = startTimes,
    .note_time = noteTime,
    .read_time = readTime,
    .alloc_host = allocHost,
    .free_host = freeHost,
    .copy_beside = copyBeside,
    .join_copies = joinCopies,
    .await_copies = awaitCopies,
    .facts = facts,
    .builtin_kernel = builtinKernel,
    .tune = tune,
    .examine = examine,
};

extern "C" [[gnu::visibility("default")]] const kerf_device_api *
kerf_device_entry(void) {
  return &api;
}
