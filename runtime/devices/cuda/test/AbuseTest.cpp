//===- AbuseTest.cpp - what a driver may not survive ----------------------===//
//
// Machine code that is none, text that no assembler takes, arguments that a
// kernel does not have, accesses outside of memory. A driver should answer each
// with an error. One that ends the process instead takes no other test along:
// this group is the last one.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include <cstring>

using namespace cudatest;

/// An ELF header of a cubin, with nothing behind it.
static std::string emptyCubin() {
  std::string bytes(64, '\0');
  std::memcpy(bytes.data(),
              "\x7f"
              "ELF\x02\x01\x01",
              7);
  bytes[16] = 2;
  bytes[18] = '\xbe';
  return bytes;
}

/// What is no machine code for this GPU is passed over: the text is taken.
static void testFakeCubins(const Gpu &gpu) {
  for (const std::string &cubin : {emptyCubin(), std::string("no cubin")}) {
    Image image(gpu, cubin, kernelText);
    expectText(image.message, "");
    Buffer x(gpu, KERF_I32, 64);
    x.put(std::vector<double>(64, 3));
    Step(gpu,
         {KERF_OP_LAUNCH, {}, {x, x}, -1, 0, image.find("long_add"), 1, 64})
        .run();
    if (x.get() != std::vector<double>(64, 6))
      failed("the kernel of the text did not run");
  }
}

static void testImages(const Gpu &gpu) {
  expectText(Image(gpu, "no cubin", "").message, "there is no PTX: compile");
  std::string broken = kernelText;
  broken.replace(broken.find("add.s32"), 7, "frobnicate");
  std::string message = Image(gpu, "", broken).message;
  expectText(message, "the driver refuses them on this GPU (sm_");
  expectText(message, "frobnicate"); // the assembler's log
  expectText(message, "; update the driver");
  // Of a cubin that fails, too, and of what is for a later GPU.
  size_t target = broken.find(".target sm_");
  broken.replace(target, broken.find_first_of("\n,", target) - target,
                 ".target sm_999");
  message = Image(gpu, "no cubin", broken).message;
  expectText(message, "(their machine code: ");
  expectText(message, "; compile with --gpu=sm_80");
  std::string text = kernelText;
  text.resize(text.size() / 2);
  expectText(Image(gpu, "", text).message, "the driver refuses them");
}

/// The kernel has two arguments.
static void testArgumentCounts(const Gpu &gpu) {
  Image image(gpu, "", kernelText);
  Buffer x(gpu, KERF_I32, 64);
  for (size_t count : {1, 3}) {
    Command other = {KERF_OP_LAUNCH,         {}, {}, -1, 0,
                     image.find("long_add"), 1,  64};
    other.operands.assign(count, x);
    expectText(Step(gpu, other).message, "the file gives " +
                                             std::to_string(count) +
                                             " arguments, its kernel has " +
                                             (count == 1 ? "more" : "fewer"));
  }
}

void cudatest::testAbuse() {
  Gpu gpu;
  testImages(gpu);
  testFakeCubins(gpu);
  testArgumentCounts(gpu);
  gpu.wait();
}

/// An access outside of memory is told by the next wait, with its step where
/// each step is waited for. The device is of no more use then.
static void testIllegalAddress(bool sync) {
  Variable variable("KERF_CUDA_SYNC", sync ? "1" : "0");
  Gpu gpu;
  Image image(gpu, "", kernelText);
  kerf_function *add = image.find("long_add");
  Buffer x(gpu, KERF_I32, 64);
  x.put(std::vector<double>(64, 1));
  Command command = {KERF_OP_LAUNCH, {}, {x, x}, -1, 0, add, 1, 64};
  Step sound(gpu, command, "sound");
  command.units = INT64_C(1) << 30; // far behind the buffer
  Step wild(gpu, command, "wild");
  expectText(sound.runMessage(), "");
  std::string message = wild.runMessage();
  if (!sync)
    message += gpu.waitMessage();
  expectText(message, "ILLEGAL_ADDRESS");
  expectText(message, sync ? "in 'wild'"
                           : "in one of 2 steps, of which the last is 'wild' "
                             "(KERF_NO_GRAPH=1 KERF_CUDA_SYNC=1 finds the "
                             "step)");
}

void cudatest::testFatal(const std::string &which) {
  testIllegalAddress(which == "sync");
}
