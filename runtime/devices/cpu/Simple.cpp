//===- Simple.cpp - kernels, copies and zeros -----------------------------===//

#include "Step.h"

#include <cstring>

using namespace kerf::cpu;

namespace {
constexpr int64_t copyGrain = 256 << 10; ///< bytes worth a worker

struct Launch : kerf_step {
  using kerf_step::kerf_step;
  kerf_kernel_fn function;
  int64_t units, grain;

  kerf_device_status execute(void *const *pointers, char *, size_t) override {
    device.pool.parallelFor(units, grain, [&](int64_t begin, int64_t end, int) {
      function(pointers, begin, end);
    });
    return KERF_DEVICE_OK;
  }
};

struct Copy : kerf_step {
  using kerf_step::kerf_step;
  int64_t bytes;

  kerf_device_status execute(void *const *pointers, char *, size_t) override {
    const char *from = static_cast<const char *>(pointers[0]);
    char *to = static_cast<char *>(pointers[1]);
    if (from == to)
      return KERF_DEVICE_OK;
    if (from < to + bytes && to < from + bytes) {
      std::memmove(to, from, bytes);
      return KERF_DEVICE_OK;
    }
    device.pool.parallelFor(
        bytes, copyGrain, [&](int64_t begin, int64_t end, int) {
          std::memcpy(to + begin, from + begin, end - begin);
        });
    return KERF_DEVICE_OK;
  }
};

struct Zero : kerf_step {
  using kerf_step::kerf_step;
  int64_t bytes;

  kerf_device_status execute(void *const *pointers, char *, size_t) override {
    char *to = static_cast<char *>(pointers[0]);
    device.pool.parallelFor(bytes, copyGrain,
                            [&](int64_t begin, int64_t end, int) {
                              std::memset(to + begin, 0, end - begin);
                            });
    return KERF_DEVICE_OK;
  }
};
} // namespace

StepPointer kerf::cpu::prepareLaunch(Request &request) {
  const kerf_step_info &info = request.info;
  if (!info.function) {
    request.fail("its kernel is missing");
    return nullptr;
  }
  if (info.command->operand_count != info.argument_count) {
    request.fail("found %u operands, expected %u", info.command->operand_count,
                 info.argument_count);
    return nullptr;
  }
  if (info.units < 0 || info.grain < 1) {
    request.fail("found %lld units with grain %lld, expected none below 0 and "
                 "1",
                 (long long)info.units, (long long)info.grain);
    return nullptr;
  }
  auto step = std::make_unique<Launch>(request.device);
  step->function = reinterpret_cast<kerf_kernel_fn>(info.function);
  step->units = info.units;
  step->grain = info.grain;
  return step;
}

StepPointer kerf::cpu::prepareCopy(Request &request) {
  if (!request.hasCounts(1, {2}) ||
      !request.inRange(0, "bytes", 0, INT64_MAX / 2) ||
      !request.hasBytes(0, "source", request.attr(KERF_COPY_BYTES)) ||
      !request.hasBytes(1, "destination", request.attr(KERF_COPY_BYTES)))
    return nullptr;
  auto step = std::make_unique<Copy>(request.device);
  step->bytes = request.attr(KERF_COPY_BYTES);
  return step;
}

StepPointer kerf::cpu::prepareZero(Request &request) {
  if (!request.hasCounts(1, {1}) ||
      !request.inRange(0, "bytes", 0, INT64_MAX / 2) ||
      !request.hasBytes(0, "destination", request.attr(KERF_COPY_BYTES)))
    return nullptr;
  auto step = std::make_unique<Zero>(request.device);
  step->bytes = request.attr(KERF_COPY_BYTES);
  return step;
}
