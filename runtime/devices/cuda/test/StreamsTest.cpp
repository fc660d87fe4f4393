//===- StreamsTest.cpp - order between streams, and graphs ----------------===//

#include "Support.h"

#include <thread>

#include <dlfcn.h>

using namespace cudatest;

/// Message of a call, "" on success.
template <typename Function, typename... Arguments>
static std::string messageOf(Function function, Arguments... arguments) {
  char error[1024] = "";
  return function(arguments..., error, sizeof error) ? error : "";
}

static void expectOk(const std::string &message) {
  if (!message.empty())
    failed("failed: %s", message.c_str());
}

/// Device memory of one i32 that starts as `value`.
static Buffer number(const Gpu &gpu, double value, int64_t count = 64) {
  Buffer buffer(gpu, KERF_I32, count);
  buffer.put(std::vector<double>(count, value));
  return buffer;
}

static void testOrder(const Gpu &gpu) {
  for (uint32_t n = 0; n < KERF_DEVICE_STREAMS; ++n) {
    if (!api().stream(gpu, n))
      failed("there is no stream %u", n);
    for (uint32_t m = 0; m < n; ++m)
      if (api().stream(gpu, n) == api().stream(gpu, m))
        failed("streams %u and %u are one", n, m);
  }
  if (api().stream(gpu, KERF_DEVICE_STREAMS))
    failed("there is a stream %u", KERF_DEVICE_STREAMS);
  for (uint32_t before = 0; before < KERF_DEVICE_STREAMS; ++before)
    for (uint32_t after = 0; after < KERF_DEVICE_STREAMS; ++after)
      expectOk(messageOf(api().order, (kerf_device *)gpu, before, after));
  expectText(messageOf(api().order, (kerf_device *)gpu, 0u, 4u),
             "found streams 0 and 4, expected 0 to 3");
  gpu.wait();
}

/// y = 2 * (x + y) in three steps, of which the order matters.
static void runSteps(const Gpu &gpu, const Image &image, const Buffer &x,
                     const Buffer &y, const Buffer &z) {
  kerf_function *add = image.find("long_add");
  Step(gpu, {KERF_OP_LAUNCH, {}, {x, y}, -1, 0, add, 1, 64}, "add").run();
  Step(gpu, {KERF_OP_COPY, {256}, {y, z}}, "copy").run();
  expectOk(messageOf(api().order, (kerf_device *)gpu, 0u, 2u));
  expectOk(messageOf(api().order, (kerf_device *)gpu, 2u, 0u));
  Step(gpu, {KERF_OP_LAUNCH, {}, {z, y}, -1, 0, add, 1, 64}, "add").run();
}

static void expectNumber(const Buffer &buffer, double expected) {
  for (double found : buffer.get())
    if (found != expected)
      return failed("found %g, expected %g", found, expected);
}

/// What is recorded runs when it is launched, and then as often as that.
static void testReplay(const Gpu &gpu, const Image &image) {
  Buffer x = number(gpu, 1), y = number(gpu, 0), z = number(gpu, 0);
  runSteps(gpu, image, x, y, z);
  expectNumber(y, 2);
  expectOk(messageOf(api().begin_graph, (kerf_device *)gpu));
  runSteps(gpu, image, x, y, z);
  kerf_graph *graph = nullptr;
  expectOk(messageOf(api().end_graph, (kerf_device *)gpu, &graph));
  if (!graph)
    return failed("nothing was recorded");
  expectNumber(y, 2);
  for (double expected : {6, 14, 30}) {
    expectOk(messageOf(api().launch_graph, (kerf_device *)gpu, graph));
    gpu.wait();
    expectNumber(y, expected);
  }
  x.put(std::vector<double>(x.count, 2)); // inputs lie in device memory
  expectOk(messageOf(api().launch_graph, (kerf_device *)gpu, graph));
  expectNumber(y, 64);
  api().destroy_graph(graph);
  api().destroy_graph(nullptr);
}

static void testRecordingErrors(const Gpu &gpu, const Image &image) {
  kerf_device *device = gpu;
  Buffer x = number(gpu, 1), y = number(gpu, 0), z = number(gpu, 0);
  const void *address;
  char error[256] = "";
  api().scalar(gpu, 11, &address, error, sizeof error);
  expectText(messageOf(api().end_graph, device, (kerf_graph **)nullptr),
             "no graph is being recorded");
  expectOk(messageOf(api().begin_graph, device));
  expectText(messageOf(api().begin_graph, device),
             "a graph is being recorded already");
  expectText(gpu.waitMessage(), "cannot wait while a graph is recorded");
  expectOk(messageOf(api().scalar, device, 11, &address));
  expectText(messageOf(api().scalar, device, 12, &address),
             "the scalar 12 was not asked for before the recording");
  runSteps(gpu, image, x, y, z);
  expectOk(messageOf(api().end_graph, device, (kerf_graph **)nullptr));
  expectNumber(y, 0); // dropped
  runSteps(gpu, image, x, y, z);
  expectNumber(y, 2);
  gpu.wait();
}

/// Enqueues work on a stream as a transport does, by the driver that the device
/// has opened.
static void write(const Gpu &gpu, uint32_t stream, const Buffer &buffer,
                  unsigned value) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto set = reinterpret_cast<int (*)(void *, unsigned, size_t, void *)>(
      driver ? dlsym(driver, "cuMemsetD32Async") : nullptr);
  if (!set ||
      set(buffer.data(), value, buffer.count, api().stream(gpu, stream)))
    failed("cannot write on stream %u", stream);
}

/// Streams that wait for each other make one order, recorded or not.
static void testExchange(const Gpu &gpu, const Image &image) {
  kerf_device *device = gpu;
  Buffer x = number(gpu, 1), y = number(gpu, 0), z = number(gpu, 0);
  auto exchange = [&] {
    runSteps(gpu, image, x, y, z); // y = 2 * (x + y)
    expectOk(messageOf(api().order, device, 0u, 3u));
    write(gpu, 3, x, 5);
    expectOk(messageOf(api().order, device, 3u, 0u));
    runSteps(gpu, image, x, y, z);
  };
  exchange();
  expectNumber(y, 14);
  kerf_graph *graph = nullptr;
  expectOk(messageOf(api().begin_graph, device));
  exchange();
  expectOk(messageOf(api().end_graph, device, &graph));
  expectOk(messageOf(api().launch_graph, device, graph));
  expectNumber(y, 86);
  api().destroy_graph(graph);
}

/// A stream that is not ordered back before the end spoils the recording, and
/// the device records again afterwards.
static void testUnjoined(const Gpu &gpu, const Image &image) {
  kerf_device *device = gpu;
  kerf_graph *graph = nullptr;
  Buffer x = number(gpu, 1);
  expectOk(messageOf(api().begin_graph, device));
  expectOk(messageOf(api().order, device, 0u, 1u));
  write(gpu, 1, x, 2);
  expectText(messageOf(api().end_graph, device, &graph),
             "cannot end the recording of a graph: ");
  if (graph)
    failed("a graph came of a failed recording");
  testReplay(gpu, image);
}

/// A copy beside the steps reads what was there before them: the step that
/// overwrites it waits.
static void testCopiesBeside(const Gpu &gpu) {
  kerf_device *device = gpu;
  void *memory = nullptr;
  constexpr int64_t count = 1 << 20;
  expectOk(messageOf(api().join_copies, device)); // of none
  expectOk(messageOf(api().await_copies, device));
  expectOk(messageOf(api().alloc_host, device, uint64_t(count * 4), &memory));
  if (!memory)
    return;
  auto *host = static_cast<int32_t *>(memory);
  Buffer x = number(gpu, 5, count), y = number(gpu, 6, count);
  for (int round = 0; round < 2; ++round) {
    x.put(std::vector<double>(count, 1));
    Buffer z = number(gpu, 5 + round, count);
    Step(gpu, {KERF_OP_COPY, {count * 4}, {z, x}}).run();
    const void *from = x.data();
    expectOk(messageOf(api().copy_beside, device, memory, from,
                       uint64_t(count * 4)));
    Step(gpu, {KERF_OP_ZERO, {count * 4}, {y}}).run();
    expectOk(messageOf(api().join_copies, device));
    Step(gpu, {KERF_OP_ZERO, {count * 4}, {x}}).run();
    if (round == 0) // all streams but that of the copies
      gpu.wait();
    // Another thread waits, without a context of its own.
    std::string message = "not run";
    std::thread([&] {
      message = messageOf(api().await_copies, device);
    }).join();
    expectOk(message);
    gpu.wait();
    for (int64_t i = 0; i < count; ++i)
      if (host[i] != 5 + round)
        return failed("found %d at %lld, expected %d", host[i], (long long)i,
                      5 + round);
    expectNumber(x, 0);
  }
  expectOk(messageOf(api().begin_graph, device));
  expectText(messageOf(api().copy_beside, device, memory,
                       (const void *)x.data(), uint64_t(4)),
             "cannot copy while a graph is recorded");
  expectText(messageOf(api().join_copies, device),
             "cannot join copies while a graph is recorded");
  expectOk(messageOf(api().end_graph, device, (kerf_graph **)nullptr));
  api().free_host(device, memory);
}

/// Two devices of one process: ranks that share a GPU in tests.
static void testTwoDevices() {
  Gpu one(0), two(1);
  Buffer x = number(one, 3), y = number(two, 4);
  Step(one, {KERF_OP_ZERO, {256}, {x}}).run();
  two.wait();
  expectNumber(x, 0);
  expectNumber(y, 4);
}

void cudatest::testStreams() {
  Gpu gpu;
  Image image(gpu, "", kernelText);
  testOrder(gpu);
  testReplay(gpu, image);
  testExchange(gpu, image);
  testRecordingErrors(gpu, image);
  testUnjoined(gpu, image);
  testCopiesBeside(gpu);
  testTwoDevices();
}
