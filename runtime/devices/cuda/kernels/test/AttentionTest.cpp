//===- AttentionTest.cpp - attention against plain loops ------------------===//

#include "KernelsTest.h"

#include "../../../common/AttentionShape.h"

#include "AttentionCase.h"

#include <algorithm>
#include <cmath>

using namespace cudatest;

namespace {
/// Device memory of a case.
struct Memory {
  Buffer q, k, v, y, lse, dy, dq, dk, dvs, workspace;
  std::vector<Buffer> scalars, segments;
};
} // namespace

/// As a dtype holds it; numbers too small for f16's exponents become zero.
static double holdable(double value, uint32_t dtype) {
  return dtype == KERF_F16 && std::fabs(value) < 0x1p-13
             ? 0
             : rounded(value, dtype);
}

static Buffer bufferOf(const Gpu &gpu, const AttentionCase &c,
                       const HeadArray &t, bool filled) {
  Buffer buffer(gpu, c.dtype, t.extent());
  if (!filled)
    return buffer;
  std::vector<double> values(t.extent());
  HeadArray &array = const_cast<HeadArray &>(t);
  for (int64_t b = 0; b < t.b; ++b)
    for (int64_t row = 0; row < t.rows; ++row)
      for (int64_t head = 0; head < t.heads; ++head)
        for (int64_t e = 0; e < t.channels; ++e)
          values[t.offset(b, row, head) + e] =
              holdable(array.at(b, row, head, e), c.dtype);
  buffer.put(values);
  return buffer;
}

static Buffer scalarOf(const Gpu &gpu, int64_t value, bool absent) {
  if (absent)
    return {};
  Buffer buffer(gpu, KERF_I32, 1);
  buffer.put({static_cast<double>(value)});
  return buffer;
}

static Buffer listOf(const Gpu &gpu, uint32_t dtype,
                     const std::vector<double> &values) {
  Buffer buffer(gpu, dtype, static_cast<int64_t>(values.size()));
  buffer.put(values);
  return buffer;
}

static Memory allocate(const Gpu &gpu, const AttentionCase &c) {
  Memory m;
  m.q = bufferOf(gpu, c, c.q, true);
  m.k = bufferOf(gpu, c, c.k, true);
  m.v = bufferOf(gpu, c, c.v, true);
  m.dy = bufferOf(gpu, c, c.dy, true);
  bool drops = c.dropout > 0;
  m.scalars = {scalarOf(gpu, c.seed, !drops), scalarOf(gpu, c.step, !drops),
               scalarOf(gpu, c.layer, c.layer < 0)};
  for (int64_t offset : c.offsets)
    m.scalars.push_back(scalarOf(gpu, offset, offset == 0));
  if (c.segments)
    m.segments = {listOf(gpu, KERF_I32, c.segmentsQ),
                  listOf(gpu, KERF_I32, c.segmentsK)};
  return m;
}

/// Compares a result with what is expected, relative to the largest of it.
static void compare(const AttentionCase &c, const HeadArray &expected,
                    const Buffer &buffer, const char *what) {
  double tolerance = c.dtype == KERF_BF16  ? 2e-2
                     : c.dtype == KERF_F16 ? 2e-3
                                           : 2e-5;
  double largest = c.dtype == KERF_F32 ? 0.5 : 1;
  for (double value : expected.values)
    largest = std::max(largest, std::fabs(value));
  std::vector<double> found = buffer.get();
  HeadArray &array = const_cast<HeadArray &>(expected);
  for (int64_t b = 0; b < expected.b; ++b)
    for (int64_t row = 0; row < expected.rows; ++row)
      for (int64_t head = 0; head < expected.heads; ++head)
        for (int64_t e = 0; e < expected.channels; ++e) {
          double f = found[expected.offset(b, row, head) + e];
          double x = array.at(b, row, head, e);
          if (std::fabs(f - x) <= tolerance * largest)
            continue;
          return failed("%s: %s[%lld,%lld,%lld,%lld] is %.9g, expected %.9g "
                        "within %g",
                        c.describe().c_str(), what, (long long)b,
                        (long long)row, (long long)head, (long long)e, f, x,
                        tolerance * largest);
        }
}

/// Only what belongs to the tensor may have been written: gaps are still NaN.
static void expectGaps(const AttentionCase &c, const HeadArray &t,
                       const Buffer &buffer, const char *what) {
  std::vector<bool> inside(t.extent());
  for (int64_t b = 0; b < t.b; ++b)
    for (int64_t row = 0; row < t.rows; ++row)
      for (int64_t head = 0; head < t.heads; ++head)
        for (int64_t e = 0; e < t.channels; ++e)
          inside[t.offset(b, row, head) + e] = true;
  std::vector<double> found = buffer.get();
  for (int64_t i = 0; i < t.extent(); ++i)
    if (!inside[i] && !std::isnan(found[i]))
      return failed("%s: a gap of %s was written", c.describe().c_str(), what);
}

static void compareLse(const AttentionCase &c, const Buffer &buffer) {
  std::vector<double> found = buffer.get();
  for (size_t i = 0; i < c.lse.size(); ++i)
    if (!(std::fabs(found[i] - c.lse[i]) <=
          1e-5 * std::max(1.0, std::fabs(c.lse[i]))))
      return failed("%s: lse[%zu] is %.9g, expected %.9g", c.describe().c_str(),
                    i, found[i], c.lse[i]);
}

/// Runs a command twice, with fresh results each time; the same bits, where it
/// `repeats`.
static void runTwice(const Gpu &gpu, const Command &command,
                     const std::string &what, bool repeats,
                     const std::vector<Buffer *> &results) {
  Step step(gpu, command, "attention");
  if (!step.message.empty())
    return failed("%s: %s", what.c_str(), step.message.c_str());
  step.run();
  gpu.wait();
  std::vector<std::vector<double>> first;
  for (Buffer *result : results)
    first.push_back(result->get());
  step.run();
  gpu.wait();
  for (size_t i = 0; repeats && i < results.size(); ++i) {
    std::vector<double> again = results[i]->get();
    for (size_t n = 0; n < again.size(); ++n)
      if (again[n] != first[i][n] && !std::isnan(first[i][n]))
        return failed("%s: two runs differ", what.c_str());
  }
}

static Command commandOf(const Gpu &gpu, AttentionCase &c, Memory &m,
                         bool backward, int64_t small = 0) {
  Command command;
  command.opcode = backward ? KERF_OP_ATTENTION_BACKWARD : KERF_OP_ATTENTION;
  command.attrs = c.attributes();
  command.operands = {m.q, m.k, m.v, m.y, m.lse};
  if (backward)
    for (const Buffer &buffer : {m.dy, m.dq, m.dk, m.dvs})
      command.operands.push_back(buffer);
  for (const Buffer &scalar : m.scalars)
    command.operands.push_back(scalar);
  int64_t bytes = kerf_cuda_workspace(command.opcode, command.attrs.data());
  if (backward && small > 0)
    bytes = small;
  command.operands.push_back(bytes ? Buffer(gpu, KERF_F32, bytes / 4)
                                   : Buffer());
  for (const Buffer &segments : m.segments)
    command.operands.push_back(segments);
  if (c.knowsRank) {
    command.fixed.assign(command.operands.size(), KERF_NOT_FIXED);
    std::copy(c.offsets, c.offsets + 4,
              command.fixed.begin() + kerf::device::attentionScalars(backward) +
                  3);
  }
  return command;
}

void cudatest::runAttention(const Gpu &gpu, std::mt19937 &random,
                            AttentionCase &c, bool wide, int64_t small) {
  c.draw(random, wide);
  c.compute();
  Memory m = allocate(gpu, c);
  m.y = bufferOf(gpu, c, c.y, false);
  m.lse = Buffer(gpu, KERF_F32, c.b * c.h * c.sq);
  runTwice(gpu, commandOf(gpu, c, m, false), c.describe(), true,
           {&m.y, &m.lse});
  compare(c, c.y, m.y, "y");
  expectGaps(c, c.y, m.y, "y");
  compareLse(c, m.lse);
  // The exact results as inputs of the gradients.
  m.y = bufferOf(gpu, c, c.y, true);
  std::vector<double> lse;
  for (double value : c.lse)
    lse.push_back(rounded(value, KERF_F32));
  m.lse = listOf(gpu, KERF_F32, lse);
  m.dq = bufferOf(gpu, c, c.dq, false);
  m.dk = bufferOf(gpu, c, c.dk, false);
  m.dvs = bufferOf(gpu, c, c.dvs, false);
  runTwice(gpu, commandOf(gpu, c, m, true, small), c.describe(), c.repeats,
           {&m.dq, &m.dk, &m.dvs});
  compare(c, c.dq, m.dq, "dq");
  compare(c, c.dk, m.dk, "dk");
  compare(c, c.dvs, m.dvs, "dv");
  expectGaps(c, c.dq, m.dq, "dq");
  expectGaps(c, c.dk, m.dk, "dk");
  expectGaps(c, c.dvs, m.dvs, "dv");
}

AttentionResults cudatest::attentionResults(const Gpu &gpu, AttentionCase &c) {
  Memory m = allocate(gpu, c);
  m.y = bufferOf(gpu, c, c.y, false);
  m.lse = Buffer(gpu, KERF_F32, c.b * c.h * c.sq);
  m.dq = bufferOf(gpu, c, c.dq, false);
  m.dk = bufferOf(gpu, c, c.dk, false);
  m.dvs = bufferOf(gpu, c, c.dvs, false);
  for (bool backward : {false, true}) {
    Command command = commandOf(gpu, c, m, backward);
    Step step(gpu, command, "attention");
    if (!step.message.empty())
      failed("%s: %s", c.describe().c_str(), step.message.c_str());
    else
      step.run();
    gpu.wait();
  }
  return {{m.y.get(), m.lse.get(), m.dq.get(), m.dk.get(), m.dvs.get()}};
}

/// Which keys are seen, which weights are dropped, and what part of a whole
/// this is.
static void drawOptions(std::mt19937 &random, AttentionCase &c) {
  c.causal = pick(random, 0, 2) > 0;
  c.window = c.causal && pick(random, 0, 1) ? pick(random, 1, c.sk + 2) : 0;
  c.segments = pick(random, 0, 3) == 0;
  c.dropout = pick(random, 0, 2) ? 0 : 0.25;
  c.softcap = pick(random, 0, 3) ? 0 : pick(random, 1, 8) / 2.0;
  bool shard = pick(random, 0, 2) == 0;
  const int64_t local[] = {c.b, c.h, c.sq, c.sk};
  for (int i = 0; i < 4; ++i) {
    c.offsets[i] = shard ? pick(random, 0, 40) : 0;
    c.global[i] = local[i] + c.offsets[i];
  }
  c.zigzag = pick(random, 0, 2) ? 0 : pick(random, 1, 4);
  if (c.zigzag) {
    int64_t least = std::max(c.global[2], c.global[3]);
    int64_t chunk = (least + 2 * c.zigzag - 1) / (2 * c.zigzag);
    c.global[2] = c.global[3] = 2 * c.zigzag * (chunk + pick(random, 0, 3));
  }
  c.seed = pick(random, 0, 1000);
  c.step = pick(random, 0, 1000);
  c.layer = pick(random, -1, 5);
}

static AttentionCase drawCase(std::mt19937 &random, int64_t largest) {
  AttentionCase c;
  c.b = pick(random, 1, 2);
  c.g = pick(random, 1, 2);
  c.h = c.g * pick(random, 1, 3);
  c.sq = pick(random, 1, largest);
  c.sk = pick(random, 0, 1) ? c.sq : pick(random, 1, largest);
  drawOptions(random, c);
  return c;
}

/// Any channels and strides: the kernels without tensor cores.
static void testPlain(const Gpu &gpu, std::mt19937 &random, int64_t largest) {
  AttentionCase c = drawCase(random, largest);
  c.dtype = static_cast<uint32_t>(pick(random, KERF_F32, KERF_F16));
  c.d = pick(random, 1, 70) | 1;
  c.dv = pick(random, 0, 1) ? pick(random, 1, 70) : c.d;
  c.scale = (pick(random, 0, 9) ? 1 : -2) / std::sqrt(double(c.d));
  runAttention(gpu, random, c, /*wide=*/false);
}

/// 16-bit numbers in whole 16 bytes: those on tensor cores.
static void testMma(const Gpu &gpu, std::mt19937 &random, int64_t largest,
                    int64_t d, int64_t dv) {
  AttentionCase c = drawCase(random, largest);
  c.dtype = pick(random, 0, 1) ? KERF_BF16 : KERF_F16;
  c.d = d;
  c.dv = dv;
  c.scale = 1 / std::sqrt(double(c.d));
  runAttention(gpu, random, c, /*wide=*/true);
}

/// Several tiles of everything, without and with a mask.
static void testLong(const Gpu &gpu, std::mt19937 &random, uint32_t dtype,
                     int64_t d, bool causal) {
  AttentionCase c;
  c.dtype = dtype;
  c.b = 1;
  c.g = 1;
  c.h = 2;
  c.sq = c.sk = 300;
  c.d = c.dv = d;
  c.causal = causal;
  c.scale = 1 / std::sqrt(double(d));
  const int64_t global[] = {c.b, c.h, c.sq, c.sk};
  std::copy(global, global + 4, c.global);
  runAttention(gpu, random, c, /*wide=*/true);
}

void cudatest::testAttention(const Gpu &gpu, std::mt19937 &random,
                             int64_t cases) {
  for (int64_t i = 0; i < cases; ++i) {
    testPlain(gpu, random, i % 4 ? 40 : 150);
    testMma(gpu, random, i % 4 ? 70 : 200, 8 * pick(random, 1, 8),
            8 * pick(random, 1, 8));
  }
  testMma(gpu, random, 100, 128, 128);
  testMma(gpu, random, 100, 80, 128);
  testMma(gpu, random, 100, 192, 128); // of latent attention
  testMma(gpu, random, 100, 256, 256);
  testLong(gpu, random, KERF_BF16, 64, true);
  testLong(gpu, random, KERF_F32, 64, true);
  testLong(gpu, random, KERF_BF16, 128, false);
}
