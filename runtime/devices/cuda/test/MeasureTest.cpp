//===- MeasureTest.cpp - times, built-in kernels, tuned algorithms --------===//

#include "Support.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

using namespace cudatest;

static double hostSeconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static bool isSimulator() {
  Gpu gpu;
  return std::string(api().describe(gpu)).find("simulator") !=
         std::string::npos;
}

/// A call that must succeed; reports its message.
template <typename Call> static void mustWork(const char *what, Call call) {
  char error[512] = "";
  if (call(error, sizeof error))
    failed("%s: %s", what, error);
}
/// A call that must fail; what it says.
template <typename Call> static std::string refusalOf(Call call) {
  char error[512] = "";
  return call(error, sizeof error) ? error : "";
}

static void expectNone(const std::string &message) {
  if (!message.empty())
    failed("refused: %s", message.c_str());
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

static double readTime(const Gpu &gpu, uint32_t index) {
  double seconds = 0;
  mustWork("read_time", [&](char *error, size_t bytes) {
    return api().read_time(gpu, index, &seconds, error, bytes);
  });
  return seconds;
}

/// Times are those at which streams get there, in order, on the host's clock.
static void testTimes() {
  Gpu gpu;
  auto note = [&](uint32_t stream, uint32_t index) {
    return refusalOf([&](char *error, size_t bytes) {
      return api().note_time(gpu, stream, index, error, bytes);
    });
  };
  expectText(note(0, 0), "time 0 of 0 on stream 0 cannot be taken");
  expectText(refusalOf([&](char *error, size_t bytes) {
               return api().start_times(gpu, error, bytes);
             }),
             "no room for times was asked for");
  mustWork("reserve_times", [&](char *error, size_t bytes) {
    return api().reserve_times(gpu, 3, error, bytes);
  });
  mustWork("start_times", [&](char *error, size_t bytes) {
    return api().start_times(gpu, error, bytes);
  });
  double before = hostSeconds();
  Buffer buffer(gpu, KERF_F32, 1 << 16);
  Step zero(gpu, {KERF_OP_ZERO, {buffer.bytes()}, {buffer}});
  expectNone(note(0, 0));
  zero.run();
  expectNone(note(0, 1));
  expectNone(note(1, 2));
  expectText(note(0, 3), "time 3 of 3");
  expectText(note(KERF_DEVICE_STREAMS, 0), "cannot be taken");
  gpu.wait();
  double after = hostSeconds();
  const double slack = 1e-3; // of the comparison of two clocks
  double first = readTime(gpu, 0), second = readTime(gpu, 1);
  if (!(before - slack <= first && first <= second && second <= after + slack))
    failed("times %.6f and %.6f, expected both in order in %.6f to %.6f", first,
           second, before, after);
  (void)readTime(gpu, 2);
  mustWork("begin_graph", [&](char *error, size_t bytes) {
    return api().begin_graph(gpu, error, bytes);
  });
  expectText(note(0, 0), "while a graph is recorded");
  api().end_graph(gpu, nullptr, nullptr, 0);
}

/// The driver tells differences as floats of milliseconds. After an hour those
/// are a quarter of one apart; times of neighbours must be finer. Only the
/// simulator's clock can be made to run so fast.
static void testLongRun() {
  if (!isSimulator())
    return;
  Gpu gpu;
  constexpr uint32_t count = 5000;
  constexpr double tick = 0.7003117; // seconds from one event to the next
  setenv("KERF_SIM_TICK", "0.7003117", 1);
  mustWork("reserve_times", [&](char *error, size_t bytes) {
    return api().reserve_times(gpu, count, error, bytes);
  });
  mustWork("start_times", [&](char *error, size_t bytes) {
    return api().start_times(gpu, error, bytes);
  });
  double started = hostSeconds();
  for (uint32_t n = 0; n < count; ++n)
    mustWork("note_time", [&](char *error, size_t bytes) {
      return api().note_time(gpu, 0, n, error, bytes);
    });
  gpu.wait();
  unsetenv("KERF_SIM_TICK");
  double last = readTime(gpu, 0);
  if (std::abs(last - started - tick) > 1)
    failed("the first event at %.3f s, expected %.3f", last, started + tick);
  double first = last, worst = 0;
  for (uint32_t n = 1; n < count; ++n) {
    double now = readTime(gpu, n);
    worst = std::max(worst, std::abs(now - last - tick));
    last = now;
  }
  if (worst > 1e-6)
    failed("two events are %g s off", worst);
  if (std::abs(last - first - (count - 1) * tick) > 1e-3)
    failed("%u events took %.6f s", count, last - first);
}

//===----------------------------------------------------------------------===//
// Built-in kernels
//===----------------------------------------------------------------------===//

static kerf_function *builtin(const Gpu &gpu, uint32_t which) {
  kerf_function *function = nullptr;
  mustWork("builtin_kernel", [&](char *error, size_t bytes) {
    return api().builtin_kernel(gpu, which, &function, error, bytes);
  });
  return function;
}

static void testBuiltins(std::mt19937 &random) {
  Gpu gpu;
  const int64_t units = 3, count = units * KERF_BUILTIN_ELEMENTS;
  Buffer x(gpu, KERF_F32, count), y(gpu, KERF_F32, count),
      sum(gpu, KERF_F32, count);
  std::vector<double> left = x.fill(random), right = y.fill(random);
  Command add = {KERF_OP_LAUNCH, {units, 1}, {x, y, sum}};
  add.function = builtin(gpu, KERF_BUILTIN_SUM);
  add.units = units;
  add.threads = KERF_BUILTIN_THREADS;
  Step(gpu, add).run();
  Command nothing = {KERF_OP_LAUNCH, {1, 1}, {x}};
  nothing.function = builtin(gpu, KERF_BUILTIN_NOTHING);
  nothing.units = 1;
  nothing.threads = KERF_BUILTIN_THREADS;
  Step(gpu, nothing).run();
  gpu.wait();
  std::vector<double> found = sum.get();
  for (int64_t n = 0; n < count; ++n)
    if (found[n] != left[n] + right[n])
      return failed("sum %lld is %g, expected %g", (long long)n, found[n],
                    left[n] + right[n]);
  if (x.get() != left)
    failed("the kernel that does nothing wrote");
  kerf_function *none = nullptr;
  expectText(refusalOf([&](char *error, size_t bytes) {
               return api().builtin_kernel(gpu, 7, &none, error, bytes);
             }),
             "no built-in kernel 7");
}

//===----------------------------------------------------------------------===//
// Tuning
//===----------------------------------------------------------------------===//

namespace {
/// A device with options of its own.
struct Tuned {
  explicit Tuned(const kerf_device_options &options) {
    char error[512] = "";
    if (api().create(&options, &device, error, sizeof error))
      message = error;
  }
  ~Tuned() { api().destroy(device); }
  kerf_device *device = nullptr;
  std::string message;
};

/// A matmul m x n x k of f32, by rows, prepared and tuned.
struct Matmul {
  explicit Matmul(kerf_device *device, int64_t m = 8, int64_t n = 12,
                  int64_t k = 16)
      : attrs({KERF_F32, KERF_F32, KERF_F32, 1, m, n, k, 0, k, 1, 0, n, 1, 0, n,
               0, 0, 0}),
        sizes({uint64_t(4 * m * k), uint64_t(4 * k * n), uint64_t(4 * m * n), 0,
               0}),
        device(device) {
    kerf_command command = {};
    command.opcode = KERF_OP_MATMUL;
    command.operand_count = sizes.size();
    command.attr_count = attrs.size();
    kerf_operand operands[5] = {};
    for (size_t n = 0; n < sizes.size(); ++n) {
      operands[n].kind = sizes[n] ? KERF_ARENA : KERF_ABSENT;
      operands[n].bytes = sizes[n];
      pointers.push_back(nullptr);
      if (sizes[n])
        mustWork("alloc", [&](char *error, size_t bytes) {
          return api().alloc(device, sizes[n], &pointers[n], error, bytes);
        });
    }
    kerf_step_info info = {};
    info.command = &command;
    info.operands = operands;
    info.attrs = attrs.data();
    info.name = "matmul";
    char error[512] = "";
    if (api().prepare(device, &info, &step, error, sizeof error))
      message = error;
  }
  ~Matmul() {
    api().destroy_step(step);
    for (size_t n = 0; n < sizes.size(); ++n)
      if (pointers[n])
        api().free(device, pointers[n], sizes[n]);
  }

  std::vector<int64_t> attrs;
  std::vector<uint64_t> sizes;
  std::vector<void *> pointers;
  kerf_device *device;
  kerf_step *step = nullptr;
  std::string message;
};
} // namespace

/// Tunes a matmul; what it is and which algorithm is fastest.
static kerf_tuned tuneOne() {
  kerf_device_options options = {};
  options.tunes = 1;
  Tuned gpu(options);
  Matmul matmul(gpu.device);
  kerf_tuned named = {}, tuned = {};
  mustWork("tune", [&](char *error, size_t bytes) {
    return api().tune(matmul.step, nullptr, 0, &named, error, bytes);
  });
  mustWork("tune", [&](char *error, size_t bytes) {
    return api().tune(matmul.step, matmul.pointers.data(), 1e-3, &tuned, error,
                      bytes);
  });
  if (std::strcmp(named.matmul, tuned.matmul) != 0 || named.choices != 0)
    failed("'%s' and '%s' for the same matmul", named.matmul, tuned.matmul);
  expectText(tuned.matmul, "f32 1x8x12x16; attributes 0 0 0 1 8 12 16 ");
  // `index` counts those that did not run, too, `choices` does not; the library
  // is asked for so many.
  constexpr int most = 32;
  // A first that does not run has no time.
  bool isSlower =
      tuned.first_seconds != 0 && tuned.first_seconds < tuned.seconds;
  if (tuned.choices < 1 || tuned.index < 0 || tuned.index >= most ||
      !(tuned.seconds > 0) || isSlower)
    failed("number %d of %d in %g s, the first in %g s", tuned.index,
           tuned.choices, tuned.seconds, tuned.first_seconds);
  return tuned;
}

/// Of matmuls that take long few algorithms are timed. Only the simulator's
/// clock can make them so, and say how many there are.
static void testLongMatmuls() {
  if (!isSimulator())
    return;
  Variable algorithms("KERF_SIM_ALGORITHMS", "20");
  if (kerf_tuned tuned = tuneOne(); tuned.choices != 20)
    failed("%d algorithms of a short matmul, expected 20", tuned.choices);
  Variable tick("KERF_SIM_TICK", "0.006");
  if (kerf_tuned tuned = tuneOne(); tuned.choices != 8)
    failed("%d algorithms of a long matmul, expected 8", tuned.choices);
}

/// Operands that are larger than the piece that is copied from the host are
/// filled to the end, with finite numbers other than 0.
static void testFill() {
  kerf_device_options options = {};
  options.tunes = 1;
  Tuned gpu(options);
  Matmul matmul(gpu.device, 300, 200, 100);
  kerf_tuned tuned = {};
  mustWork("tune", [&](char *error, size_t bytes) {
    return api().tune(matmul.step, matmul.pointers.data(), 1e-3, &tuned, error,
                      bytes);
  });
  for (size_t n : {0, 1}) {
    std::vector<float> found(matmul.sizes[n] / sizeof(float));
    api().copy_out(gpu.device, found.data(), matmul.pointers[n],
                   matmul.sizes[n]);
    for (float value : found)
      if (!std::isfinite(value) || value == 0)
        return failed("an operand has %g", value);
  }
}

/// What preparing the matmul says where `entry` was tuned on `tunedOn`.
static std::string withTuning(const kerf_tuned &entry, const char *tunedOn) {
  kerf_tuning tuning = {tunedOn, &entry, 1};
  kerf_device_options options = {};
  options.tuning = &tuning;
  Tuned gpu(options);
  return gpu.device ? Matmul(gpu.device).message : gpu.message;
}

static void testTuning() {
  kerf_device_facts facts = {};
  {
    Gpu gpu;
    api().facts(gpu, &facts);
  }
  expectText(facts.arch, "sm_");
  kerf_tuned entry = tuneOne();
  expectNone(withTuning(entry, facts.tuned_on));
  expectText(withTuning(entry, "another"),
             std::string("tuned on 'another', this is '") + facts.tuned_on);
  // Found by its words where the bytes are other ones, and by neither.
  std::memset(entry.data, 0xff, sizeof entry.data);
  expectNone(withTuning(entry, facts.tuned_on));
  std::strcpy(entry.choice, "algorithm 99");
  expectText(withTuning(entry, facts.tuned_on),
             "the tuned algorithm (algorithm 99) is not among the");
  // Of other matmuls nothing is changed.
  std::strcpy(entry.matmul, "f32 1x1x1x1");
  expectNone(withTuning(entry, facts.tuned_on));
}

void cudatest::testMeasuring(std::mt19937 &random) {
  testTimes();
  testLongRun();
  testBuiltins(random);
  testTuning();
  testLongMatmuls();
  testFill();
}
