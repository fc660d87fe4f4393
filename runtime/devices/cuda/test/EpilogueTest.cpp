//===- EpilogueTest.cpp - what matmuls do behind the matmul ---------------===//
//
// Every epilogue and type against plain loops in f64: by cuBLASLt, by it and
// the plug-in's kernels, by these alone. On a GPU, whose library answers for
// itself, all three are the first.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include <algorithm>
#include <cmath>

using namespace cudatest;

namespace {
struct Case {
  int64_t epilogue;
  uint32_t dtype, result;
  int64_t m, n, k;
  bool transposesA = false, transposesB = false, accumulate = false;

  bool reads() const {
    return epilogue == KERF_EPILOGUE_BIAS ||
           epilogue == KERF_EPILOGUE_GELU_BIAS ||
           epilogue == KERF_EPILOGUE_GELU_AUX_BIAS;
  }
  bool writes() const { return epilogue >= KERF_EPILOGUE_DGELU_BGRAD; }
  bool isGelu() const {
    return epilogue >= KERF_EPILOGUE_GELU &&
           epilogue <= KERF_EPILOGUE_GELU_AUX_BIAS;
  }
  bool isGradient() const {
    return epilogue == KERF_EPILOGUE_DGELU ||
           epilogue == KERF_EPILOGUE_DGELU_BGRAD;
  }
  bool hasAux() const {
    return isGradient() || epilogue == KERF_EPILOGUE_GELU_AUX ||
           epilogue == KERF_EPILOGUE_GELU_AUX_BIAS;
  }
  int64_t columns() const { return epilogue == KERF_EPILOGUE_BGRAD_A ? m : n; }
  int64_t atA(int64_t i, int64_t l) const {
    return transposesA ? l * m + i : i * k + l;
  }
  int64_t atB(int64_t l, int64_t j) const {
    return transposesB ? j * k + l : l * n + j;
  }
};

/// What a case reads, and what it shall write.
struct Values {
  std::vector<double> a, b, c, bias, aux;
};
} // namespace

static double geluOf(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// The slope of gelu by what it is: the formula has a second author here.
static double slopeOf(double x) {
  const double step = 1e-5;
  return (geluOf(x + step) - geluOf(x - step)) / (2 * step);
}

/// Multiples of 1/8 in [-1, 1]: sums stay where gelu bends.
static std::vector<double> draw(std::mt19937 &random, int64_t count) {
  std::vector<double> values(count);
  for (double &value : values)
    value = (static_cast<int>(random() % 17) - 8) / 8.0;
  return values;
}

/// The sum of rows of what `at` reads.
template <typename F>
static void sumRows(std::vector<double> &to, int64_t rows, F at) {
  for (size_t column = 0; column < to.size(); ++column) {
    to[column] = 0;
    for (int64_t row = 0; row < rows; ++row)
      to[column] += at(row, static_cast<int64_t>(column));
  }
}

/// Turns the values before a command into those behind it.
static void compute(const Case &c, Values &v) {
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = c.accumulate ? v.c[i * c.n + j] : 0;
      for (int64_t l = 0; l < c.k; ++l)
        sum += v.a[c.atA(i, l)] * v.b[c.atB(l, j)];
      sum += c.reads() ? v.bias[j] : 0;
      double &aux = v.aux[i * c.n + j];
      if (c.hasAux() && c.isGelu())
        aux = sum;
      v.c[i * c.n + j] = c.isGelu()       ? geluOf(sum)
                         : c.isGradient() ? sum * slopeOf(aux)
                                          : sum;
    }
  if (c.epilogue == KERF_EPILOGUE_DGELU_BGRAD)
    sumRows(v.bias, c.m,
            [&](int64_t i, int64_t j) { return v.c[i * c.n + j]; });
  if (c.epilogue == KERF_EPILOGUE_BGRAD_A)
    sumRows(v.bias, c.k,
            [&](int64_t l, int64_t i) { return v.a[c.atA(i, l)]; });
  if (c.epilogue == KERF_EPILOGUE_BGRAD_B)
    sumRows(v.bias, c.k,
            [&](int64_t l, int64_t j) { return v.b[c.atB(l, j)]; });
}

static void compare(const Case &c, const char *offered, const char *what,
                    const Buffer &buffer, const std::vector<double> &expected) {
  std::vector<double> found = buffer.get();
  double most = 0, error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    most = std::max(most, std::abs(expected[i]));
    double off = std::abs(found[i] - expected[i]);
    error = off <= error ? error : off; // takes NaN, too
  }
  // 16-bit results may be rounded between the matmul and what follows.
  double bound = c.result == KERF_BF16  ? 1.0 / 64
                 : c.result == KERF_F16 ? 1.0 / 512
                                        : 4e-6;
  if (!(error <= bound * most))
    failed("epilogue %lld of %ux%u, %lldx%lldx%lld, cuBLASLt with '%s': %s is "
           "off by %g of %g",
           (long long)c.epilogue, c.dtype, c.result, (long long)c.m,
           (long long)c.n, (long long)c.k, offered, what, error, most);
}

/// With a workspace of so many numbers; returns how many of them were written.
static int64_t runCase(const Gpu &gpu, std::mt19937 &random, const Case &c,
                       const char *offered, int64_t workspaceCount = 0) {
  Variable variable("KERF_SIM_EPILOGUES", offered);
  Buffer workspace;
  if (workspaceCount)
    workspace = Buffer(gpu, KERF_F32, workspaceCount);
  Buffer a(gpu, c.dtype, c.m * c.k), b(gpu, c.dtype, c.k * c.n);
  Buffer result(gpu, c.result, c.m * c.n), aux(gpu, c.result, c.m * c.n);
  Buffer bias(gpu, c.result, c.columns());
  Values v = {draw(random, a.count), draw(random, b.count),
              draw(random, result.count), draw(random, bias.count),
              draw(random, aux.count)};
  a.put(v.a);
  b.put(v.b);
  result.put(v.c);
  aux.put(v.aux);
  bias.put(v.bias);
  bool hasBias = c.reads() || c.writes();
  Command command = {KERF_OP_MATMUL,
                     {c.dtype, c.dtype, c.result, 1, c.m, c.n, c.k, 0,
                      c.transposesA ? 1 : c.k, c.transposesA ? c.m : 1, 0,
                      c.transposesB ? 1 : c.n, c.transposesB ? c.k : 1, 0, c.n,
                      c.accumulate, c.epilogue, c.result},
                     {a, b, result, workspace, hasBias ? bias : Buffer()}};
  if (c.hasAux())
    command.operands.push_back(aux);
  Step step(gpu, command);
  step.run();
  gpu.wait();
  compute(c, v);
  compare(c, offered, "the result", result, v.c);
  compare(c, offered, "the bias", bias, v.bias);
  compare(c, offered, "aux", aux, v.aux);
  if (!workspaceCount)
    return 0;
  std::vector<double> numbers = workspace.get();
  return std::count_if(numbers.begin(), numbers.end(),
                       [](double x) { return !std::isnan(x); });
}

/// Long sums of rows by own kernels, whatever cuBLASLt offers
/// (KERF_CUDA_OWN_BGRAD): split into parts of 64 rows or more, which lie in the
/// workspace first, where it has room and rows are whole 16 bytes. A real
/// cuBLASLt may write there, too.
static void testRowParts(std::mt19937 &random) {
  struct {
    int64_t n, k, workspace, written;
  } sizes[] = {{520, 200, 4096, 3 * 520},
               {40, 1000, 4096, 15 * 40},
               {40, 1000, 200, 3 * 40}, // beside what alignment may take
               {44, 1000, 4096, 0},     // of 16 bits no whole 16 bytes
               {40, 100, 4096, 0}};
  Variable own("KERF_CUDA_OWN_BGRAD", "1");
  Gpu gpu;
  bool counts =
      std::string(api().describe(gpu)).find("simulator") != std::string::npos;
  for (uint32_t dtype : {KERF_F32, KERF_BF16, KERF_F16})
    for (auto [n, k, workspace, written] : sizes) {
      Case c = {KERF_EPILOGUE_BGRAD_B, dtype, KERF_F32, 8, n, k};
      c.transposesA = true;
      c.accumulate = n == 40;
      if (n == 44 && dtype == KERF_F32)
        written = 15 * 44;
      int64_t found = runCase(gpu, random, c, "", workspace);
      if (counts && found != written)
        failed("sums of %lld rows of %lld columns of dtype %u: %lld numbers in "
               "the workspace, expected %lld",
               (long long)k, (long long)n, dtype, (long long)found,
               (long long)written);
    }
}

/// A matmul of 8-bit floats by scales of either factor, into f32 perhaps added
/// to what is there: powers of two, so that it is exact but for bf16.
static void runScaled(const Gpu &gpu, std::mt19937 &random, uint32_t b,
                      uint32_t result, bool accumulate, double scaleA,
                      double scaleB) {
  Case c = {KERF_EPILOGUE_SCALE, KERF_F8E4M3, result, 32, 48, 64, false, true,
            accumulate};
  Buffer operands[] = {
      {gpu, c.dtype, c.m * c.k}, {gpu, b, c.k * c.n}, {gpu, result, c.m * c.n}};
  Buffer scales[] = {{gpu, KERF_F32, 1}, {gpu, KERF_F32, 1}};
  Values v = {draw(random, c.m * c.k),
              draw(random, c.k * c.n),
              draw(random, c.m * c.n),
              {},
              std::vector<double>(c.m * c.n)};
  for (double &value : v.b)
    value = std::round(value * 2) / 2; // e5m2 has no more digits
  operands[0].put(v.a);
  operands[1].put(v.b);
  operands[2].put(v.c);
  scales[0].put({scaleA});
  scales[1].put({scaleB});
  Command command = {KERF_OP_MATMUL,
                     {c.dtype, b, result, 1, c.m, c.n, c.k, 0, c.k, 1, 0, 1,
                      c.k, 0, c.n, accumulate, c.epilogue, 0},
                     {operands[0], operands[1], operands[2], Buffer(), Buffer(),
                      Buffer(), scaleA == 1 ? Buffer() : scales[0]}};
  if (scaleB != 1)
    command.operands.push_back(scales[1]);
  Step step(gpu, command);
  expectText(step.message, "");
  step.run();
  gpu.wait();
  for (double &value : v.a)
    value *= scaleA * scaleB;
  compute(c, v);
  compare(c, "", "the scaled result", operands[2], v.c);
}

static void testScales(const Gpu &gpu, std::mt19937 &random) {
  if (capabilityOf(gpu) < float8Capability)
    return;
  for (uint32_t b : {KERF_F8E4M3, KERF_F8E5M2})
    for (double scale : {1.0, 0.125, 1024.0})
      for (double other : {1.0, 0.5}) {
        runScaled(gpu, random, b, KERF_F32, false, scale, other);
        runScaled(gpu, random, b, KERF_F32, true, other, scale);
        runScaled(gpu, random, b, KERF_BF16, false, scale, other);
      }
}

void cudatest::testEpilogues(std::mt19937 &random) {
  Gpu gpu;
  testScales(gpu, random);
  testRowParts(random);
  for (const char *offered : {"", "none"})
    for (bool accumulate : {false, true})
      runCase(gpu, random,
              {KERF_EPILOGUE_BIAS, KERF_F64, KERF_F64, 35, 7, 12, false, true,
               accumulate},
              offered);
  for (const char *offered : {"", "bias", "none"})
    for (int64_t epilogue = KERF_EPILOGUE_BIAS;
         epilogue <= KERF_EPILOGUE_BGRAD_B; ++epilogue)
      for (uint32_t dtype : {KERF_F32, KERF_BF16, KERF_F16})
        for (int64_t n : {40, 7}) { // whole blocks of aux, or not
          Case c = {epilogue,          dtype, dtype, 35, n, 12,
                    random() % 2 == 1, false, false};
          c.transposesB = random() % 2;
          if (c.epilogue >= KERF_EPILOGUE_BGRAD_A) { // gradients of weights
            c.result = KERF_F32;
            c.accumulate = random() % 2;
          }
          runCase(gpu, random, c, offered);
          // cuBLASLt sums no rows of the result without a workspace.
          if (c.epilogue == KERF_EPILOGUE_DGELU_BGRAD)
            runCase(gpu, random, c, offered, 1 << 16);
        }
}
