//===- Simple.cpp - kernels, copies and zeros -----------------------------===//

#include "Image.h"
#include "Step.h"

#include <climits>

using namespace kerf::cuda;

namespace {
struct Launch : kerf_step {
  using kerf_step::kerf_step;
  CUfunction function = nullptr;
  Grid grid;
  uint32_t count = 0; ///< of arguments: addresses

  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override;
};

struct Copy : kerf_step {
  using kerf_step::kerf_step;
  int64_t bytes = 0;

  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override {
    if (bytes == 0 || pointers[0] == pointers[1])
      return KERF_DEVICE_OK;
    return enqueued(*this,
                    device.driver.copyOnDevice(address(pointers[1]),
                                               address(pointers[0]), bytes,
                                               device.streams[0]),
                    error, errorBytes);
  }
};

struct Zero : kerf_step {
  using kerf_step::kerf_step;
  int64_t bytes = 0;

  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override {
    if (bytes == 0)
      return KERF_DEVICE_OK;
    return enqueued(*this,
                    device.driver.setBytes(address(pointers[0]), 0, bytes,
                                           device.streams[0]),
                    error, errorBytes);
  }
};

struct Take : kerf_step {
  using kerf_step::kerf_step;
  int64_t outer = 0, parts = 0, inner = 0; ///< inner: bytes

  CUresult copyRows(CUdeviceptr from, CUdeviceptr to) const;
  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override;
};
} // namespace

// Macros of cuda.h that say what the next pointer of `extra` is.
static void *const launchEnd = nullptr;
static void *const launchBufferPointer = reinterpret_cast<void *>(1);
static void *const launchBufferSize = reinterpret_cast<void *>(2);

/// The arguments go as one buffer with a size: a list of addresses the driver
/// would read as far as the kernel has parameters, whatever the file says.
kerf_device_status Launch::execute(void *const *pointers, char *error,
                                   size_t errorBytes) {
  if (grid.x == 0)
    return KERF_DEVICE_OK;
  size_t bytes = count * sizeof(void *);
  void *extra[] = {launchBufferPointer, const_cast<void **>(pointers),
                   launchBufferSize, &bytes, launchEnd};
  CUresult result = device.driver.launchKernel(
      function, grid.x, grid.y, grid.z, grid.threads, 1, 1, grid.sharedBytes,
      device.streams[0], nullptr, extra);
  return enqueued(*this, result, error, errorBytes);
}

/// Copies rows of `inner` bytes that lie `parts` rows apart.
CUresult Take::copyRows(CUdeviceptr from, CUdeviceptr to) const {
  Driver &driver = device.driver;
  CUstream stream = device.streams[0];
  if (outer == 1)
    return driver.copyOnDevice(to, from, inner, stream);
  if (parts * inner <= device.maxPitch) {
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.srcPitch = parts * inner;
    copy.dstDevice = to;
    copy.dstPitch = copy.WidthInBytes = inner;
    copy.Height = outer;
    return driver.copy2D(&copy, stream);
  }
  CUresult result = CUDA_SUCCESS;
  for (int64_t row = 0; row < outer && result == CUDA_SUCCESS; ++row)
    result = driver.copyOnDevice(to + row * inner, from + row * parts * inner,
                                 inner, stream);
  return result;
}

kerf_device_status Take::execute(void *const *pointers, char *error,
                                 size_t errorBytes) {
  int32_t part = *static_cast<const int32_t *>(pointers[2]);
  if (part < 0 || part >= parts) {
    say(error, errorBytes, "command '%s': found part %d, expected 0 to %lld",
        name.c_str(), part, (long long)parts - 1);
    return KERF_DEVICE_INVALID;
  }
  return enqueued(
      *this,
      copyRows(address(pointers[0]) + part * inner, address(pointers[1])),
      error, errorBytes);
}

/// Has the kernel as many parameters as the file gives arguments? No launch
/// tells: with too few the kernel reads what lies behind them (seen with driver
/// 580).
static bool checkParameters(Request &r) {
  auto has = [&](size_t index) {
    size_t offset = 0, bytes = 0;
    return r.device.driver.functionGetParamInfo(
               r.info.function->handle, index, &offset, &bytes) == CUDA_SUCCESS;
  };
  uint32_t count = r.info.argument_count;
  if (!r.device.driver.functionGetParamInfo ||
      (!has(count) && (count == 0 || has(count - 1))))
    return true;
  return r.fail("the file gives %u arguments, its kernel has %s: compile the "
                "model again",
                count, has(count) ? "more" : "fewer");
}

/// Does the kernel's launch make sense?
static bool checkLaunch(Request &r) {
  const kerf_step_info &info = r.info;
  if (!info.function)
    return r.fail("its kernel is missing");
  if (info.command->operand_count != info.argument_count)
    return r.fail("found %u operands, expected %u", info.command->operand_count,
                  info.argument_count);
  if (info.units < 0 || info.units > INT_MAX)
    return r.fail("found %lld units, expected 0 to %d", (long long)info.units,
                  INT_MAX);
  int64_t most = info.function->maxThreads;
  if (info.threads < 1 || info.threads > most)
    return r.fail("found %u threads a block, expected 1 to %lld of this kernel "
                  "on this GPU",
                  info.threads, (long long)most);
  return checkParameters(r);
}

StepPointer kerf::cuda::prepareLaunch(Request &r) {
  if (!checkLaunch(r))
    return nullptr;
  auto step = std::make_unique<Launch>(r.device, r.info.name);
  step->function = r.info.function->handle;
  step->grid.x = static_cast<unsigned>(r.info.units);
  step->grid.threads = r.info.threads;
  step->count = r.info.argument_count;
  return step;
}

StepPointer kerf::cuda::prepareCopy(Request &r) {
  if (!r.hasCounts(1, {2}) || !r.inRange(0, "bytes", 0, INT64_MAX / 2) ||
      !r.hasBytes(0, "source", r.attr(KERF_COPY_BYTES)) ||
      !r.hasBytes(1, "destination", r.attr(KERF_COPY_BYTES)))
    return nullptr;
  auto step = std::make_unique<Copy>(r.device, r.info.name);
  step->bytes = r.attr(KERF_COPY_BYTES);
  return step;
}

StepPointer kerf::cuda::prepareZero(Request &r) {
  if (!r.hasCounts(1, {1}) || !r.inRange(0, "bytes", 0, INT64_MAX / 2) ||
      !r.hasBytes(0, "destination", r.attr(KERF_COPY_BYTES)))
    return nullptr;
  auto step = std::make_unique<Zero>(r.device, r.info.name);
  step->bytes = r.attr(KERF_COPY_BYTES);
  return step;
}

StepPointer kerf::cuda::prepareTake(Request &r) {
  if (!r.hasCounts(3, {3}) || !r.isSize(0, "outer") || !r.isSize(1, "parts") ||
      !r.isSize(2, "bytes of a part"))
    return nullptr;
  int64_t outer = r.attr(KERF_TAKE_OUTER), parts = r.attr(KERF_TAKE_PARTS),
          inner = r.attr(KERF_TAKE_BYTES);
  if (!r.hasExtent(KERF_TAKE_SOURCE, "source", 1, {outer, parts, inner},
                   {parts * inner, inner, 1}) ||
      !r.hasExtent(KERF_TAKE_DESTINATION, "destination", 1, {outer, inner},
                   {inner, 1}))
    return nullptr;
  if (r.absent(KERF_TAKE_PART) ||
      r.info.operands[KERF_TAKE_PART].kind != KERF_SCALAR) {
    r.fail("operand 2 (part) is no scalar");
    return nullptr;
  }
  auto step = std::make_unique<Take>(r.device, r.info.name);
  step->outer = outer;
  step->parts = parts;
  step->inner = inner;
  return step;
}
