//===- StepTest.cpp - memory, kernels, copies and zeros -------------------===//

#include "Support.h"

#include <cmath>
#include <cstring>
#include <numeric>

using namespace cudatest;

// Block u of 64 threads adds numbers [64u, 64u+64) of the first argument to
// those of the second.
const char *const cudatest::kernelText = R"(
.version 7.8
.target sm_80
.address_size 64

.visible .entry long_add(.param .u64 long_add_x, .param .u64 long_add_y)
.maxntid 64, 1, 1
{
  .reg .b32 %r<7>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [long_add_x];
  ld.param.u64 %rd2, [long_add_y];
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.s32 %r3, %r1, 64, %r2;
  mul.wide.u32 %rd5, %r3, 4;
  add.s64 %rd6, %rd3, %rd5;
  add.s64 %rd7, %rd4, %rd5;
  ld.global.u32 %r4, [%rd6];
  ld.global.u32 %r5, [%rd7];
  add.s32 %r6, %r4, %r5;
  st.global.u32 [%rd7], %r6;
  ret;
}
)";

static std::vector<double> counting(int64_t count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

static void expectValues(const Buffer &buffer,
                         const std::vector<double> &expected,
                         const char *what) {
  std::vector<double> found = buffer.get();
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(found[i] == expected[i]))
      return failed("%s: found %g at %zu, expected %g", what, found[i], i,
                    expected[i]);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static bool isFilled(const Gpu &gpu, int64_t bytes, char byte) {
  void *memory;
  char error[256] = "";
  if (api().alloc(gpu, bytes, &memory, error, sizeof error)) {
    failed("%s", error);
    return false;
  }
  std::vector<char> host(bytes, 7);
  api().copy_out(gpu, host.data(), memory, bytes);
  api().free(gpu, memory, bytes);
  return host == std::vector<char>(bytes, byte);
}

static void testAlloc() {
  {
    Gpu gpu;
    if (!isFilled(gpu, 1000, 0) || !isFilled(gpu, 3 << 20, 0))
      failed("fresh memory is not zero");
  }
  Variable poison("KERF_POISON", "1");
  Gpu gpu;
  if (!isFilled(gpu, 1000, '\xff'))
    failed("fresh memory is not poisoned");
}

/// Below and above the sizes that are staged, and not multiples of a half.
static void testCopies(const Gpu &gpu) {
  for (int64_t count : {1, 16384, 16385, 2097152, 4194304, 5000003}) {
    Buffer buffer(gpu, KERF_I32, count);
    std::vector<double> values = counting(count);
    buffer.put(values);
    expectValues(buffer, values, "copies");
  }
  gpu.wait();
}

static void testMemoryInfo(const Gpu &gpu) {
  uint64_t before = 0, after = 0, total = 0;
  char error[256] = "";
  constexpr int64_t bytes = 64 << 20;
  if (api().memory_info(gpu, &before, &total, error, sizeof error))
    return failed("%s", error);
  {
    Buffer buffer(gpu, KERF_I32, bytes / 4);
    api().memory_info(gpu, &after, &total, error, sizeof error);
  }
  if (!before || before > total || after + bytes > before)
    failed("found %llu, then %llu of %llu bytes free",
           (unsigned long long)before, (unsigned long long)after,
           (unsigned long long)total);
}

static void testScalars(const Gpu &gpu) {
  std::vector<const void *> addresses;
  char error[256] = "";
  for (int32_t value = -700; value < 700; ++value) {
    const void *address, *again;
    if (api().scalar(gpu, value, &address, error, sizeof error) ||
        api().scalar(gpu, value, &again, error, sizeof error))
      return failed("%s", error);
    if (address != again)
      return failed("the scalar %d has two addresses", value);
    addresses.push_back(address);
  }
  for (int32_t value = -700; value < 700; ++value) {
    int32_t found = 12345;
    api().copy_out(gpu, &found, addresses[value + 700], 4);
    if (found != value)
      return failed("found scalar %d, expected %d", found, value);
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static void testCopyAndZero(const Gpu &gpu) {
  for (int64_t count : {1, 3, 1000, 400000}) {
    Buffer x(gpu, KERF_I32, count), y(gpu, KERF_I32, count);
    std::vector<double> values = counting(count);
    x.put(values);
    Step copy(gpu, {KERF_OP_COPY, {count * 4}, {x, y}});
    copy.run();
    expectValues(y, values, "copy");
    Step(gpu, {KERF_OP_ZERO, {count * 4}, {y}}).run();
    expectValues(y, std::vector<double>(count, 0), "zero");
    Step(gpu, {KERF_OP_COPY, {count * 4}, {x, x}}).run();
    expectValues(x, values, "copy to itself");
  }
  Buffer x(gpu, KERF_I32, 1);
  x.put({5});
  Step(gpu, {KERF_OP_ZERO, {0}, {x}}).run();
  expectValues(x, {5}, "nothing to zero");
}

static void testTake(const Gpu &gpu) {
  struct {
    int64_t outer, parts, inner;
  } shapes[] = {{1, 4, 16}, {3, 5, 7}, {4, 1, 3}, {100, 2, 1}};
  for (auto [outer, parts, inner] : shapes)
    for (int32_t part = 0; part < parts; ++part) {
      Buffer x(gpu, KERF_I32, outer * parts * inner);
      Buffer y(gpu, KERF_I32, outer * inner), scalar(gpu, KERF_I32, 1);
      x.put(counting(x.count));
      Command take = {
          KERF_OP_TAKE, {outer, parts, inner * 4}, {x, y, scalar}, 2, part};
      Step(gpu, take).run();
      std::vector<double> expected(y.count);
      for (int64_t i = 0; i < y.count; ++i)
        expected[i] =
            static_cast<double>((i / inner * parts + part) * inner + i % inner);
      expectValues(y, expected, "take");
    }
}

static void testLaunch(const Gpu &gpu, const Image &image) {
  kerf_function *add = image.find("long_add");
  if (!add || image.find("long_add") != add)
    return failed("the kernel is not found: %s", image.message.c_str());
  if (image.find("long_ad") || image.find(""))
    failed("a kernel was found that does not exist");
  for (int64_t units : {0, 1, 7, 1000}) {
    int64_t count = (units + 1) * 64;
    Buffer x(gpu, KERF_I32, count), y(gpu, KERF_I32, count);
    std::vector<double> expected = counting(count);
    x.put(expected);
    y.put(expected);
    Step step(gpu, {KERF_OP_LAUNCH, {}, {x, y}, -1, 0, add, units, 64});
    for (int run = 0; run < 3; ++run)
      step.run();
    for (int64_t i = 0; i < units * 64; ++i)
      expected[i] *= 4;
    expectValues(y, expected, "launch");
  }
  gpu.wait();
}

static void testImages(const Gpu &gpu) {
  Image none(gpu, "", "");
  expectText(none.message, "");
  if (none.find("long_add"))
    failed("a kernel was found in an empty image");
  testLaunch(gpu, Image(gpu, "", kernelText));
}

void cudatest::testSteps() {
  testAlloc();
  Gpu gpu;
  testCopies(gpu);
  testMemoryInfo(gpu);
  testScalars(gpu);
  testCopyAndZero(gpu);
  testTake(gpu);
  testImages(gpu);
}
