//===- TestDevice.cpp - a device library for tests ------------------------===//
//
// The simplest device that there can be: f32 matmuls by three loops, copies,
// and kernels that are functions of this file. It refuses what it does not know
// and bounds everything, as a real one must.
//
//===----------------------------------------------------------------------===//

#include "kerf/Runtime/Device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct kerf_device {
  int32_t workers;
};

struct kerf_image {};

struct kerf_step {
  uint16_t opcode;
  std::vector<int64_t> attrs;
  kerf_kernel_fn function;
  int64_t units;
};

namespace {
using Arguments = void *const *;

template <typename Body>
void forUnits(Arguments arguments, int64_t begin, int64_t end, Body body) {
  auto *x = static_cast<const float *>(arguments[0]);
  auto *y = static_cast<float *>(arguments[1]);
  for (int64_t i = begin; i < end; ++i)
    y[i] = body(x[i], y[i]);
}

void twice(Arguments arguments, int64_t begin, int64_t end) {
  forUnits(arguments, begin, end, [](float x, float) { return 2 * x; });
}
void add(Arguments arguments, int64_t begin, int64_t end) {
  forUnits(arguments, begin, end, [](float x, float y) { return y + x; });
}
void root(Arguments arguments, int64_t begin, int64_t end) {
  forUnits(arguments, begin, end,
           [](float x, float) { return __builtin_sqrtf(x); });
}
/// y[i] = the scalar.
void number(Arguments arguments, int64_t begin, int64_t end) {
  auto *scalar = static_cast<const int32_t *>(arguments[0]);
  auto *y = static_cast<float *>(arguments[1]);
  for (int64_t i = begin; i < end; ++i)
    y[i] = static_cast<float>(*scalar);
}

kerf_device_status fail(const char *message, char *error, size_t bytes) {
  if (bytes)
    std::snprintf(error, bytes, "%s", message);
  return KERF_DEVICE_INVALID;
}

kerf_device_status create(const kerf_device_options *options,
                          kerf_device **device, char *, size_t) {
  *device = new kerf_device{std::max(options->workers, 1)};
  return KERF_DEVICE_OK;
}
void destroy(kerf_device *device) { delete device; }
const char *describe(const kerf_device *) { return "test device"; }
int32_t workers(const kerf_device *device) { return device->workers; }

int32_t checkFeatures(const char *features, char *missing, size_t bytes) {
  bool lacks = std::strstr(features, "sixth-sense");
  std::snprintf(missing, bytes, "%s", lacks ? "sixth-sense" : "");
  return lacks;
}

kerf_device_status alloc(kerf_device *, uint64_t bytes, void **memory,
                         char *error, size_t errorBytes) {
  *memory = bytes > (UINT64_C(1) << 30)
                ? nullptr
                : std::aligned_alloc(KERF_ARENA_ALIGN, bytes);
  if (!*memory)
    return fail("out of memory", error, errorBytes);
  std::memset(*memory, 0, bytes);
  return KERF_DEVICE_OK;
}
void release(kerf_device *, void *memory, uint64_t) { std::free(memory); }
void copyIn(kerf_device *, void *to, const void *from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
}
void copyOut(kerf_device *, void *to, const void *from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
}

kerf_device_status loadImage(kerf_device *, const void *, uint64_t,
                             const char *, uint64_t, kerf_image **image, char *,
                             size_t) {
  *image = new kerf_image;
  return KERF_DEVICE_OK;
}
kerf_function *findKernel(kerf_image *, const char *symbol) {
  std::string name = symbol;
  kerf_kernel_fn found = name == "twice"    ? twice
                         : name == "add"    ? add
                         : name == "root"   ? root
                         : name == "number" ? number
                                            : nullptr;
  return reinterpret_cast<kerf_function *>(found);
}
void unloadImage(kerf_image *image) { delete image; }

/// Are elements [0, last] of the operand inside it?
bool fits(const kerf_operand &operand, std::initializer_list<int64_t> sizes,
          std::initializer_list<int64_t> strides) {
  int64_t last = 0;
  const int64_t *stride = strides.begin();
  for (int64_t size : sizes) {
    constexpr int64_t limit = 1 << 20;
    if (size < 1 || size > limit || *stride < 0 || *stride > limit)
      return false;
    last += (size - 1) * *stride++;
  }
  return operand.dtype == KERF_F32 && last < operand.bytes / 4;
}

bool checkMatmul(const kerf_step_info &info) {
  const int64_t *a = info.attrs;
  bool plain = a[0] == KERF_F32 && a[1] == KERF_F32 && a[2] == KERF_F32 &&
               a[16] == KERF_EPILOGUE_NONE && info.command->operand_count == 4;
  for (int n = 0; n < 3; ++n)
    plain &= info.operands[n].kind == KERF_ARENA;
  return plain &&
         fits(info.operands[0], {a[3], a[4], a[6]}, {a[7], a[8], a[9]}) &&
         fits(info.operands[1], {a[3], a[6], a[5]}, {a[10], a[11], a[12]}) &&
         fits(info.operands[2], {a[3], a[4], a[5]}, {a[13], a[14], 1});
}

bool checkLaunch(const kerf_step_info &info) {
  if (info.command->operand_count != 2 || info.units < 0 ||
      info.operands[1].kind != KERF_ARENA)
    return false;
  bool takesScalar = reinterpret_cast<kerf_kernel_fn>(info.function) == number;
  for (int n = 0; n < 2; ++n) {
    const kerf_operand &operand = info.operands[n];
    if (n == 0 && takesScalar) {
      if (operand.kind != KERF_SCALAR)
        return false;
    } else if (operand.kind != KERF_ARENA || operand.dtype != KERF_F32 ||
               info.units > operand.bytes / 4) {
      return false;
    }
  }
  return true;
}

kerf_device_status prepare(kerf_device *, const kerf_step_info *info,
                           kerf_step **step, char *error, size_t errorBytes) {
  uint16_t opcode = info->command->opcode;
  bool known = opcode == KERF_OP_COPY || opcode == KERF_OP_ZERO ||
               (opcode == KERF_OP_MATMUL && checkMatmul(*info)) ||
               (opcode == KERF_OP_LAUNCH && checkLaunch(*info));
  if (!known)
    return fail("the test device refuses this", error, errorBytes);
  *step = new kerf_step{opcode,
                        {info->attrs, info->attrs + info->command->attr_count},
                        reinterpret_cast<kerf_kernel_fn>(info->function),
                        info->units};
  return KERF_DEVICE_OK;
}

void matmul(const std::vector<int64_t> &at, Arguments pointers) {
  auto *a = static_cast<const float *>(pointers[0]);
  auto *b = static_cast<const float *>(pointers[1]);
  auto *c = static_cast<float *>(pointers[2]);
  for (int64_t g = 0; g < at[3]; ++g)
    for (int64_t i = 0; i < at[4]; ++i)
      for (int64_t j = 0; j < at[5]; ++j) {
        float &to = c[g * at[13] + i * at[14] + j];
        float sum = at[15] ? to : 0;
        for (int64_t k = 0; k < at[6]; ++k)
          sum += a[g * at[7] + i * at[8] + k * at[9]] *
                 b[g * at[10] + k * at[11] + j * at[12]];
        to = sum;
      }
}

kerf_device_status execute(kerf_step *step, Arguments pointers, char *,
                           size_t) {
  switch (step->opcode) {
  case KERF_OP_MATMUL:
    matmul(step->attrs, pointers);
    break;
  case KERF_OP_COPY:
    std::memmove(pointers[1], pointers[0], step->attrs[0]);
    break;
  case KERF_OP_ZERO:
    std::memset(pointers[0], 0, step->attrs[0]);
    break;
  default:
    step->function(pointers, 0, step->units);
  }
  return KERF_DEVICE_OK;
}
void destroyStep(kerf_step *step) { delete step; }

const kerf_device_api kApi = {
    .abi_version = KERF_DEVICE_ABI,
    .struct_bytes = sizeof(kerf_device_api),
    .name = "test",
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
};
} // namespace

extern "C" __attribute__((visibility("default"))) const kerf_device_api *
kerf_device_entry() {
#ifdef KERF_TEST_WRONG_ABI
  static kerf_device_api other = kApi;
  other.abi_version = KERF_DEVICE_ABI + 1;
  return &other;
#else
  return &kApi;
#endif
}
