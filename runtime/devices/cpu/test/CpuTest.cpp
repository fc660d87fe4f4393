//===- CpuTest.cpp - the cpu device against plain loops -------------------===//
//
// kerf-cpu-test [seed]: every operation on random shapes, strides, masks and
// dtypes, on every instruction set that the machine has, with 1, 2, 3 and 5
// workers, which must agree to the bit.
//
//===----------------------------------------------------------------------===//

#include "../Isa.h"
#include "Support.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace cputest;

static void testCopyAndZero(std::mt19937 &random) {
  for (int64_t count : {1, 3, 1000, 400000}) {
    Command copy = {KERF_OP_COPY, {count * 4}, {}};
    copy.operands = {Buffer(KERF_F32, count), Buffer(KERF_F32, count)};
    copy.operands[0].fill(random);
    runEverywhere(copy, "copy", [&](const char *) {
      if (copy.operands[0].content() != copy.operands[1].content())
        failed("copy of %lld numbers differs", (long long)count);
    });
    Command zero = {KERF_OP_ZERO, {count * 4}, {Buffer(KERF_F32, count)}};
    runEverywhere(zero, "zero", [&](const char *) {
      for (int64_t i = 0; i < count; ++i)
        if (zero.operands[0].at(i) != 0)
          return failed("number %lld is not zero", (long long)i);
    });
  }
}

/// Every unit must be computed exactly once.
static void countUnits(void *const *arguments, int64_t begin, int64_t end) {
  for (int64_t unit = begin; unit < end; ++unit)
    ++static_cast<int32_t *>(arguments[0])[unit];
}

static void testLaunch() {
  for (int workers : {1, 2, 3, 5})
    for (int64_t units : {0, 1, 7, 1000, 100000}) {
      std::vector<int32_t> counts(units + 1);
      kerf_device_options options = {};
      options.workers = workers;
      kerf_device *device;
      char error[256];
      api().create(&options, &device, error, sizeof error);
      kerf_command command = {};
      command.opcode = KERF_OP_LAUNCH;
      command.operand_count = 1;
      kerf_operand operand = {};
      kerf_step_info info = {};
      info.command = &command;
      info.operands = &operand;
      info.function = reinterpret_cast<kerf_function *>(countUnits);
      info.units = units;
      info.grain = 3;
      info.argument_count = 1;
      kerf_step *step;
      if (api().prepare(device, &info, &step, error, sizeof error))
        return failed("launch: %s", error);
      void *pointers[] = {counts.data()};
      for (int run = 0; run < 20; ++run)
        api().execute(step, pointers, error, sizeof error);
      for (int64_t i = 0; i <= units; ++i)
        if (counts[i] != (i < units ? 20 : 0))
          failed("unit %lld of %lld ran %d times, expected 20", (long long)i,
                 (long long)units, counts[i]);
      api().destroy_step(step);
      api().destroy(device);
    }
}

/// Signatures of Cooper Lake, Sapphire Rapids, Emerald Rapids, Zen 4 and 5.
static void testFastBf16() {
  using kerf::cpu::isBf16Fast;
  for (uint32_t signature : {0x806f8u, 0xc06f2u})
    if (isBf16Fast("GenuineIntel", signature))
      failed("bf16 is called fast on Intel's %x", signature);
  if (!isBf16Fast("GenuineIntel", 0x5065b))
    failed("bf16 is called slow on Cooper Lake");
  for (uint32_t signature : {0xa10f11u, 0xb00f21u})
    if (!isBf16Fast("AuthenticAMD", signature))
      failed("bf16 is called slow on AMD's %x", signature);
}

int main(int argc, char **argv) {
  unsigned seed = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  std::mt19937 random(seed);
  testFastBf16();
  testLaunch();
  testCopyAndZero(random);
  testMatmul(random);
  testGroupedMatmul(random);
  testAttention(random);
  testBadInput();
  std::printf("seed %u: %d failures\n", seed, failures());
  return failures() ? 1 : 0;
}
