//===- DriverTest.cpp - the stand-in for libcuda --------------------------===//
//
// Compiled against the simulator's declarations and, where it is installed,
// against NVIDIA's cuda.h: both must mean the same functions.
//
//===----------------------------------------------------------------------===//

#ifdef KERF_SIM_REAL_HEADER
#include <cuda.h>
#else
#include "driver/Api.h"
#endif
#include "Check.h"
#include "Kernels.h"

#include <algorithm>

#include <sys/wait.h>
#include <unistd.h>

using namespace kerf::sim::test;

// What cuda.h calls errors.
enum : int {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  notInitialized = 3,
  noBinary = 209,
  invalidPtx = 218,
  invalidHandle = 400,
  notFound = 500,
  notReady = 600,
  illegalAddress = 700,
  captureUnsupported = 900,
  captureInvalidated = 901,
  captureUnmatched = 903,
  captureUnjoined = 904,
  captureIsolation = 905,
};

#define OK(call) same(int(call), 0, #call)
#define FAILS(status, call) same(int(call), int(status), #call)

/// out[g] = in[g] + 1, words.
static const std::string addOne =
    kernel("mad.wide.u32 %d1, %g, 4, %in; ld.global.b32 %r1, [%d1];"
           "add.u32 %r1, %r1, 1; st.global.b32 [%o], %r1;",
           ".global .align 4 .u32 variable = 5;");

namespace {
/// A context with 64 words of device memory twice, and the kernel.
struct Device {
  CUcontext context = nullptr;
  CUdeviceptr a = 0, b = 0;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream one = nullptr, two = nullptr;

  Device() {
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&a, 256));
    OK(cuMemAlloc(&b, 256));
    OK(cuModuleLoadData(&module, addOne.c_str()));
    OK(cuModuleGetFunction(&function, module, "k"));
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD32(a, 1, 64));
    OK(cuMemsetD32(b, 1, 64));
    OK(cuCtxSynchronize());
  }
  ~Device() {
    cuStreamDestroy(one);
    cuStreamDestroy(two);
    cuModuleUnload(module);
    cuMemFree(a);
    cuMemFree(b);
    OK(cuDevicePrimaryCtxRelease(0));
  }
  /// to = from + 1
  int launch(CUdeviceptr from, CUdeviceptr to, CUstream stream) {
    void *arguments[] = {&from, &to};
    return cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, arguments,
                          nullptr);
  }
  /// The first word, which all 64 must equal.
  uint32_t word(CUdeviceptr at) {
    uint32_t words[64];
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(words, at, sizeof words));
    for (uint32_t each : words)
      same(each, words[0], "all words are equal");
    return words[0];
  }
};
} // namespace

static void testStart() {
  int count = 0, value = 0, version = 0;
  FAILS(notInitialized, cuDeviceGetCount(&count));
  OK(cuInit(0));
  OK(cuDeviceGetCount(&count));
  same(count, 1, "one device");
  OK(cuDriverGetVersion(&version));
  same(version, 13000, "driver version");
  char name[64];
  OK(cuDeviceGetName(name, sizeof name, 0));
  same(std::string(name) == "Kerf simulator (no GPU)", true, "device name");
  CUdevice device = -1;
  FAILS(101, cuDeviceGet(&device, 1));
  OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                          0));
  same(value, 9, "compute capability");
  CUdeviceptr memory = 0;
  FAILS(201, cuMemAlloc(&memory, 16)); // no context
  const char *text = nullptr;
  OK(cuGetErrorName(CUresult(700), &text));
  same(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS", true, "error name");
}

static void testMemory() {
  Device device;
  CUdeviceptr big = 0;
  size_t unused = 0, all = 0, after = 0;
  OK(cuMemGetInfo(&unused, &all));
  FAILS(outOfMemory, cuMemAlloc(&big, all + 1));
  OK(cuMemAlloc(&big, 1 << 20));
  OK(cuMemGetInfo(&after, &all));
  same(unused - after, size_t(1 << 20), "memory in use");
  same(big % 256, 0u, "alignment");
  uint8_t byte = 0;
  OK(cuMemcpyDtoH(&byte, big + 77, 1));
  same(int(byte), 0xFF, "fresh memory is poisoned");
  FAILS(invalidValue, cuMemcpyDtoH(&byte, big + (1 << 20), 1));
  FAILS(invalidValue, cuMemFree(big + 1));
  OK(cuMemFree(big));
  FAILS(invalidValue, cuMemFree(big));
  // Rows 1 and 2, columns 4 to 7 of 16 bytes each, to rows of 8 bytes.
  uint8_t from[64], to[32] = {};
  for (int at = 0; at < 64; ++at)
    from[at] = at;
  OK(cuMemcpyHtoD(device.a, from, 64));
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = device.a;
  copy.srcPitch = 16;
  copy.srcXInBytes = 4;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = device.b;
  copy.dstPitch = 8;
  copy.WidthInBytes = 4;
  copy.Height = 2;
  OK(cuMemcpy2DAsync(&copy, device.one));
  OK(cuStreamSynchronize(device.one));
  OK(cuMemcpyDtoH(to, device.b, 16));
  same(int(to[0]), 20, "first row");
  same(int(to[11]), 39, "second row");
  OK(cuMemsetD8Async(device.b, 7, 3, device.one));
  OK(cuMemcpyDtoDAsync(device.a, device.b, 4, device.one));
  OK(cuMemcpyDtoHAsync(to, device.a, 4, device.one));
  same(int(to[2]), 7, "fill and copy");
  same(int(to[3]), 23, "behind the fill");
}

static void testModules() {
  Device device;
  CUfunction function = nullptr;
  FAILS(notFound, cuModuleGetFunction(&function, device.module, "other"));
  CUdeviceptr variable = 0;
  size_t bytes = 0;
  OK(cuModuleGetGlobal(&variable, &bytes, device.module, "variable"));
  uint32_t word = 0;
  OK(cuMemcpyDtoH(&word, variable, bytes));
  same(word, 5u, "a global variable");
  CUmodule other = nullptr;
  FAILS(noBinary, cuModuleLoadData(&other, "\x7f"
                                           "ELF and so on"));
  char log[200] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  FAILS(invalidPtx, cuModuleLoadDataEx(&other, kernel("frob;").c_str(), 2,
                                       options, values));
  contains(log, "'frob' is not simulated", "the log of the compiler");
  std::string later = addOne;
  later.replace(later.find("sm_90"), 5, "sm_99");
  FAILS(invalidPtx, cuModuleLoadData(&other, later.c_str()));
  // Code of one architecture runs there, and neither before nor after.
  std::string exact = addOne;
  exact.replace(exact.find("sm_90"), 5, "sm_90a");
  OK(cuModuleLoadData(&other, exact.c_str()));
  OK(cuModuleUnload(other));
  for (const char *capability : {"80", "89", "100"}) {
    kerf::sim::test::Setting setting("KERF_SIM_SM", capability);
    FAILS(invalidPtx, cuModuleLoadData(&other, exact.c_str()));
  }
  {
    kerf::sim::test::Setting old("KERF_SIM_DRIVER", "11040");
    FAILS(222, cuModuleLoadData(&other, addOne.c_str()));
  }
  int value = 0;
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                        device.function));
  same(value, 1024, "threads of a block");
  void *arguments[] = {&device.a, &device.b};
  FAILS(invalidValue, cuLaunchKernel(device.function, 1, 1, 1, 2048, 1, 1, 0,
                                     nullptr, arguments, nullptr));
  FAILS(invalidValue, cuLaunchKernel(device.function, 1, 1, 1, 32, 1, 1, 60000,
                                     nullptr, arguments, nullptr));
  OK(cuFuncSetAttribute(
      device.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000));
  OK(cuLaunchKernel(device.function, 1, 1, 1, 32, 1, 1, 60000, nullptr,
                    arguments, nullptr));
  CUdeviceptr packed[] = {device.a, device.b};
  size_t size = sizeof packed;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed,
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(device.function, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr,
                    extra));
  same(device.word(device.b), 2u, "packed arguments");
}

static void testStreams() {
  Device device;
  CUevent event = nullptr, start = nullptr;
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
  OK(cuEventRecord(start, device.one));
  OK(device.launch(device.a, device.b, device.one));
  OK(cuEventRecord(event, device.one));
  OK(cuStreamWaitEvent(device.two, event, 0));
  OK(device.launch(device.b, device.a, device.two));
  same(device.word(device.a), 3u, "in order");
  float time = -1;
  OK(cuEventElapsedTime(&time, start, event));
  check(time >= 0, "time passes");
  OK(cuEventDestroy(event));
  FAILS(invalidHandle, cuEventRecord(event, device.one));
  OK(cuEventDestroy(start));
}

/// Late work shows what lacks an event: a + 1 to b in one, b + 1 to a in two.
static void testLate() {
  for (bool waits : {false, true}) {
    Device device;
    kerf::sim::test::Setting late("KERF_SIM_STREAMS", "late");
    CUevent event = nullptr;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemsetD32Async(device.a, 10, 64, device.one));
    OK(device.launch(device.a, device.b, device.one));
    OK(cuEventRecord(event, device.one));
    FAILS(notReady, cuEventQuery(event));
    FAILS(notReady, cuStreamQuery(device.one));
    if (waits)
      OK(cuStreamWaitEvent(device.two, event, 0));
    OK(device.launch(device.b, device.a, device.two));
    // Without the event, stream two takes b before stream one has made it.
    same(device.word(device.b), 11u, "late b");
    same(device.word(device.a), waits ? 12u : 10u, "late a");
    OK(cuEventSynchronize(event));
    OK(cuStreamQuery(device.one));
    OK(cuEventDestroy(event));
  }
}

static void testFaults() {
  for (bool late : {false, true}) {
    Device device;
    if (late)
      setenv("KERF_SIM_STREAMS", "late", 1);
    OK(device.launch(device.a, device.b, device.one)); // valid
    device.launch(device.a, device.b + 256 * 4, device.one);
    FAILS(illegalAddress, cuCtxSynchronize());
    CUdeviceptr memory = 0;
    FAILS(illegalAddress, cuMemAlloc(&memory, 16)); // and stays so
    unsetenv("KERF_SIM_STREAMS");
  }
  Device device; // a new context works again
  OK(device.launch(device.a, device.b, device.one));
  same(device.word(device.b), 2u, "after a fault");
}

static void testGraphs() {
  Device device;
  CUevent fork = nullptr, join = nullptr;
  OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  OK(device.launch(device.a, device.b, device.one)); // loads the kernel
  OK(cuStreamBeginCapture(device.one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(device.launch(device.a, device.b, device.one));
  OK(cuEventRecord(fork, device.one));
  OK(cuStreamWaitEvent(device.two, fork, 0));
  OK(device.launch(device.b, device.a, device.two));
  OK(cuEventRecord(join, device.two));
  OK(cuStreamWaitEvent(device.one, join, 0));
  OK(cuMemsetD32Async(device.b, 100, 64, device.one));
  OK(cuStreamEndCapture(device.one, &graph));
  size_t nodes = 0;
  OK(cuGraphGetNodes(graph, nullptr, &nodes));
  same(nodes, size_t(3), "nodes");
  same(device.word(device.a), 1u, "a capture runs nothing");
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  OK(cuGraphLaunch(exec, device.one));
  same(device.word(device.a), 3u, "first replay");
  same(device.word(device.b), 100u, "the fill comes last");
  setenv("KERF_SIM_STREAMS", "late", 1);
  OK(cuGraphLaunch(exec, device.one));
  same(device.word(device.a), 5u, "second replay, late");
  unsetenv("KERF_SIM_STREAMS");
  OK(cuGraphExecDestroy(exec));
  OK(cuEventDestroy(fork));
  OK(cuEventDestroy(join));
}

static void testCaptureErrors() {
  Device device;
  CUgraph graph = nullptr;
  CUevent event = nullptr, outside = nullptr;
  CUdeviceptr memory = 0;
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
  auto begin = [&] {
    OK(cuStreamBeginCapture(device.one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  };
  auto end = [&](int status) {
    FAILS(status, cuStreamEndCapture(device.one, &graph));
    same(graph == nullptr, true, "no graph");
  };
  begin();
  FAILS(captureUnsupported, device.launch(device.a, device.b, device.one));
  end(captureInvalidated);
  OK(device.launch(device.a, device.b, device.one)); // loads the kernel
  begin();
  FAILS(captureUnsupported, cuStreamSynchronize(device.one));
  end(captureInvalidated);
  begin();
  FAILS(captureUnsupported, cuMemAlloc(&memory, 16));
  FAILS(captureInvalidated, device.launch(device.a, device.b, device.one));
  end(captureInvalidated);
  begin();
  FAILS(captureUnsupported, cuCtxSynchronize());
  end(captureInvalidated);
  begin();
  FAILS(906, cuMemsetD32Async(device.a, 1, 4, nullptr));
  end(captureInvalidated);
  OK(cuEventRecord(outside, device.two));
  begin();
  FAILS(captureIsolation, cuStreamWaitEvent(device.one, outside, 0));
  end(captureInvalidated);
  begin(); // stream two is never joined
  OK(cuEventRecord(event, device.one));
  OK(cuStreamWaitEvent(device.two, event, 0));
  OK(device.launch(device.a, device.b, device.two));
  FAILS(captureUnmatched, cuStreamEndCapture(device.two, &graph));
  end(captureInvalidated);
  begin();
  OK(cuEventRecord(event, device.one));
  OK(cuStreamWaitEvent(device.two, event, 0));
  OK(device.launch(device.a, device.b, device.two));
  end(captureUnjoined);
  OK(cuMemsetD32Async(device.a, 6, 64, device.two));
  OK(device.launch(device.a, device.b, device.two)); // runs again by itself
  same(device.word(device.b), 7u, "after captures");
  OK(cuEventDestroy(event));
  OK(cuEventDestroy(outside));
}

/// While one thread captures it asks and waits for nothing, also not for what
/// is outside of the capture.
static void testWaitsInCaptures() {
  Device device;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUmodule module = nullptr;
  void *host = nullptr;
  // With work that is not done: "not ready" would be an answer.
  kerf::sim::test::Setting late("KERF_SIM_STREAMS", "late");
  OK(cuMemsetD32Async(device.a, 1, 64, device.two));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuEventRecord(event, device.two));
  auto inCapture = [&](auto call, const char *name) {
    OK(cuStreamBeginCapture(device.one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    same(int(call()), int(captureUnsupported), name);
    FAILS(captureInvalidated, cuStreamEndCapture(device.one, &graph));
  };
  inCapture([&] { return cuStreamQuery(device.two); }, "query of a stream");
  inCapture([&] { return cuStreamSynchronize(device.two); }, "synchronize");
  inCapture([&] { return cuEventSynchronize(event); }, "wait for an event");
  inCapture([&] { return cuEventQuery(event); }, "query of an event");
  inCapture([&] { return cuMemAllocHost(&host, 16); }, "pinned memory");
  inCapture([&] { return cuModuleLoadData(&module, addOne.c_str()); },
            "loading");
  OK(cuEventDestroy(event));
}

/// A driver does not survive a fork; a child of one that started it fails.
static void testFork() {
  Device device;
  pid_t child = fork();
  if (child == 0) {
    CUdeviceptr memory = 0;
    _exit(cuInit(0) == CUresult(notInitialized) &&
                  cuMemAlloc(&memory, 16) == CUresult(notInitialized)
              ? 0
              : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  same(status, 0, "the child's calls");
}

static void testLookUp() {
  void *function = nullptr;
  OK(cuGetProcAddress("cuMemAlloc", &function, 12000, 0, nullptr));
  same(function == reinterpret_cast<void *>(&cuMemAlloc), true,
       "the newest version");
  FAILS(notFound, cuGetProcAddress("cuNothing", &function, 12000, 0, nullptr));
}

int main() {
  testStart();
  testMemory();
  testModules();
  testStreams();
  testLate();
  testFaults();
  testGraphs();
  testCaptureErrors();
  testWaitsInCaptures();
  testFork();
  testLookUp();
  return finish("driver");
}
