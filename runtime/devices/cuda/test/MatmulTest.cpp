//===- MatmulTest.cpp - matmuls against plain loops -----------------------===//
//
// Factors are small multiples of 1/8, so that their products' sums are exact in
// f32 and the result is known to the bit.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include <cmath>

using namespace cudatest;

namespace {
/// A matrix in a buffer: element (i, j) of batch n.
struct Matrix {
  int64_t batchStride, row, column;
  int64_t extent; ///< elements from the first to behind the last

  int64_t at(int64_t n, int64_t i, int64_t j) const {
    return n * batchStride + i * row + j * column;
  }
};

struct Case {
  uint32_t dtype, result;
  int64_t batch, m, n, k;
  Matrix a, b, c;
  bool accumulate, bias;
};
} // namespace

static int64_t pick(std::mt19937 &random, std::initializer_list<int64_t> of) {
  return of.begin()[random() % of.size()];
}

/// A random way to lay out `batch` matrices [rows, columns]; with `byRows` the
/// columns have stride 1.
static Matrix layout(std::mt19937 &random, int64_t batch, int64_t rows,
                     int64_t columns, bool byRows) {
  Matrix matrix;
  int64_t pad = pick(random, {0, 0, 8, 3});
  bool transposed = !byRows && random() % 2;
  matrix.row = transposed ? 1 : columns + pad;
  matrix.column = transposed ? rows + pad : 1;
  int64_t inner = transposed ? columns * matrix.column : rows * matrix.row;
  matrix.batchStride = inner;
  if (batch > 1 && random() % 3 == 0) { // batches beside each other in a row
    int64_t wide = transposed ? matrix.column : matrix.row;
    matrix.batchStride = wide;
    (transposed ? matrix.column : matrix.row) = wide * batch;
  } else if (!byRows && random() % 8 == 0) {
    matrix.batchStride = 0; // one matrix for all
  }
  matrix.extent = matrix.at(batch - 1, rows - 1, columns - 1) + 1;
  if (rows == 1 && random() % 2) // strides that nobody steps along
    matrix.row = 5;
  return matrix;
}

static Case draw(std::mt19937 &random) {
  Case c;
  c.dtype = static_cast<uint32_t>(
      pick(random, {KERF_F32, KERF_BF16, KERF_F16, KERF_F64}));
  bool is16 = c.dtype == KERF_BF16 || c.dtype == KERF_F16;
  c.result = is16 && random() % 2 ? uint32_t(KERF_F32) : c.dtype;
  c.batch = pick(random, {1, 1, 2, 5});
  c.m = pick(random, {1, 2, 7, 16, 33});
  c.n = pick(random, {1, 3, 8, 32});
  c.k = pick(random, {1, 4, 19, 64});
  c.a = layout(random, c.batch, c.m, c.k, false);
  c.b = layout(random, c.batch, c.k, c.n, false);
  c.c = layout(random, c.batch, c.m, c.n, true);
  c.accumulate = random() % 2;
  c.bias = random() % 3 == 0;
  return c;
}

static Command commandOf(const Case &c, const Buffer &a, const Buffer &b,
                         const Buffer &result, const Buffer &workspace,
                         const Buffer &bias) {
  Command command = {KERF_OP_MATMUL,
                     {c.dtype, c.dtype, c.result, c.batch, c.m, c.n, c.k,
                      c.a.batchStride, c.a.row, c.a.column, c.b.batchStride,
                      c.b.row, c.b.column, c.c.batchStride, c.c.row,
                      c.accumulate, c.bias, c.result},
                     {a, b, result, workspace}};
  if (c.bias)
    command.operands.push_back(bias);
  return command;
}

/// The matmul by plain loops, in what c holds already.
static void multiply(const Case &c, const std::vector<double> &a,
                     const std::vector<double> &b,
                     const std::vector<double> &bias,
                     std::vector<double> &result) {
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        double &to = result[c.c.at(n, i, j)];
        double sum = c.accumulate ? to : 0;
        if (c.bias)
          sum += bias[j];
        for (int64_t l = 0; l < c.k; ++l)
          sum += a[c.a.at(n, i, l)] * b[c.b.at(n, l, j)];
        to = rounded(sum, c.result);
      }
}

/// One unit of the last place of numbers as large as the sum's parts: a library
/// may round 16-bit results once more.
static double toleranceOf(const Case &c, double value) {
  if (c.result == KERF_BF16)
    return std::abs(value) / 128;
  return c.result == KERF_F16 ? std::abs(value) / 1024 : 0;
}

static void runCase(const Gpu &gpu, std::mt19937 &random, const Case &c,
                    int shifted = -1) {
  Buffer a(gpu, c.dtype, c.a.extent), b(gpu, c.dtype, c.b.extent);
  Buffer result(gpu, c.result, c.c.extent), bias(gpu, c.result, c.n);
  Buffer workspace(gpu, KERF_F32, 1 << 18);
  std::vector<double> aValues = a.fill(random), bValues = b.fill(random);
  std::vector<double> biasValues = bias.fill(random);
  std::vector<double> expected = result.fill(random);
  Command command = commandOf(c, a, b, result, workspace, bias);
  command.shifted = shifted;
  Step step(gpu, command);
  step.run();
  gpu.wait();
  multiply(c, aValues, bValues, biasValues, expected);
  std::vector<double> found = result.get();
  for (int64_t i = 0; i < result.count; ++i)
    if (!(std::abs(found[i] - expected[i]) <= toleranceOf(c, expected[i])))
      return failed("matmul dtype %u to %u, %lldx%lldx%lldx%lld, accumulate "
                    "%d, bias %d: found %g at %lld, expected %g",
                    c.dtype, c.result, (long long)c.batch, (long long)c.m,
                    (long long)c.n, (long long)c.k, c.accumulate, c.bias,
                    found[i], (long long)i, expected[i]);
}

/// A bias whose address changes from run to run, in a recorded graph.
static void testRecorded(const Gpu &gpu, std::mt19937 &random) {
  Case c = {KERF_F32,       KERF_F32,       1,    8,   8, 8, {64, 8, 1, 64},
            {64, 8, 1, 64}, {64, 8, 1, 64}, true, true};
  Buffer a(gpu, KERF_F32, 64), b(gpu, KERF_F32, 64), result(gpu, KERF_F32, 64);
  Buffer bias(gpu, KERF_F32, 8), workspace;
  std::vector<double> aValues = a.fill(random), bValues = b.fill(random);
  std::vector<double> biasValues = bias.fill(random);
  std::vector<double> expected = result.fill(random);
  Step step(gpu, commandOf(c, a, b, result, workspace, bias));
  char error[1024] = "";
  kerf_graph *graph = nullptr;
  if (api().begin_graph(gpu, error, sizeof error))
    return failed("%s", error);
  step.run();
  if (api().end_graph(gpu, &graph, error, sizeof error))
    return failed("%s", error);
  for (int run = 0; run < 3; ++run) {
    if (api().launch_graph(gpu, graph, error, sizeof error))
      failed("%s", error);
    multiply(c, aValues, bValues, biasValues, expected);
    if (result.get() != expected)
      failed("run %d of a recorded matmul differs", run);
  }
  api().destroy_graph(graph);
}

void cudatest::testMatmul(std::mt19937 &random) {
  Gpu gpu;
  for (int i = 0; i < 300; ++i)
    runCase(gpu, random, draw(random));
  // A sum that is long enough for parts, in a workspace where an arena has it.
  for (int shifted : {-1, 3})
    runCase(gpu, random,
            {KERF_F32,
             KERF_F32,
             1,
             8,
             8,
             1024,
             {8 * 1024, 1024, 1, 8 * 1024},
             {8 * 1024, 8, 1, 8 * 1024},
             {64, 8, 1, 64},
             false,
             false},
            shifted);
  testRecorded(gpu, random);
}
