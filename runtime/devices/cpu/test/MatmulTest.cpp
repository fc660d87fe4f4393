//===- MatmulTest.cpp - matmuls against plain loops -----------------------===//

#include "Support.h"

#include <cmath>

using namespace cputest;

static int64_t pick(std::mt19937 &random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

static uint32_t pickDtype(std::mt19937 &random) {
  return static_cast<uint32_t>(pick(random, KERF_F32, KERF_F16));
}

/// Relative to the sum of magnitudes: rounding of inputs that are exact, sums
/// in f32, one rounding of the result.
static double toleranceOf(uint32_t dtype) {
  return dtype == KERF_BF16 ? 6e-3 : dtype == KERF_F16 ? 8e-4 : 3e-6;
}

/// Gives a command of one matrix two scales, one perhaps absent, or leaves it
/// as it is; their product.
static double addScales(std::mt19937 &random, Command &command) {
  if (command.attrs[KERF_MATMUL_BATCH] != 1 || command.operands.size() != 4 ||
      pick(random, 0, 1))
    return 1;
  command.attrs[KERF_MATMUL_EPILOGUE] = KERF_EPILOGUE_SCALE;
  command.operands.resize(pick(random, 0, 2) ? 8 : 7);
  double factor = 1;
  for (size_t scale = 6; scale < command.operands.size(); ++scale) {
    double value = std::ldexp(1, static_cast<int>(pick(random, -6, 3)));
    command.operands[scale] = Buffer(KERF_F32, 1);
    command.operands[scale].set(0, static_cast<float>(value));
    factor *= value;
  }
  return factor;
}

/// `halves`: operands of bf16, which have loops of their own; else any.
static void testOneMatmul(std::mt19937 &random, int64_t batch, int64_t m,
                          int64_t n, int64_t k, bool halves = false) {
  uint32_t a = pickDtype(random), b = pickDtype(random), c = pickDtype(random);
  if (halves)
    a = b = KERF_BF16;
  uint32_t biasDtype = pickDtype(random);
  bool ta = pick(random, 0, 1), tb = pick(random, 0, 1);
  bool accumulate = pick(random, 0, 2) == 0, bias = pick(random, 0, 2) == 0;
  // Rows may have gaps.
  int64_t aLine = (ta ? m : k) + pick(random, 0, 3) * 3;
  int64_t bLine = (tb ? k : n) + pick(random, 0, 3) * 3;
  int64_t cRow = n + pick(random, 0, 3) * 3;
  int64_t aBatch = pick(random, 0, 3) ? aLine * (ta ? k : m) : 0;
  int64_t bBatch = bLine * (tb ? n : k), cBatch = cRow * m;
  Command command = {KERF_OP_MATMUL,
                     {a, b, c, batch, m, n, k, aBatch, ta ? 1 : aLine,
                      ta ? aLine : 1, bBatch, tb ? 1 : bLine, tb ? bLine : 1,
                      cBatch, cRow, accumulate, bias, biasDtype},
                     {Buffer(a, aBatch * (batch - 1) + aLine * (ta ? k : m)),
                      Buffer(b, bBatch * batch), Buffer(c, cBatch * batch),
                      Buffer()},
                     3};
  if (bias)
    command.operands.push_back(Buffer(biasDtype, n));
  for (Buffer &operand : command.operands)
    operand.fill(random);
  if (!accumulate)
    command.operands[2].poison();
  double factor = addScales(random, command);
  std::vector<char> before = command.operands[2].content();
  std::string what = "matmul " + std::to_string(batch) + "x" +
                     std::to_string(m) + "x" + std::to_string(n) + "x" +
                     std::to_string(k);
  const auto &s = command.attrs;
  runEverywhere(command, what, [&](const char *isa) {
    const auto &o = command.operands;
    int64_t step = m * n * k * batch > 4000000 ? 37 : 1; // a sample
    for (int64_t at = 0; at < batch * m * n; at += step) {
      int64_t g = at / (m * n), i = at / n % m, j = at % n;
      double sum = 0, size = 0;
      for (int64_t l = 0; l < k; ++l) {
        double x = factor * o[0].at(g * s[7] + i * s[8] + l * s[9]);
        double y = o[1].at(g * s[10] + l * s[11] + j * s[12]);
        sum += x * y;
        size += std::fabs(x * y);
      }
      int64_t where = g * cBatch + i * cRow + j;
      double more = accumulate ? get(before.data(), c, where) : 0;
      more += bias ? o[4].at(j) : 0;
      if (!near(o[2].at(where), sum + more, size + std::fabs(more) + 1e-3,
                toleranceOf(c), what + ", " + isa))
        return;
    }
  });
}

void cputest::testMatmul(std::mt19937 &random) {
  for (int i = 0; i < 60; ++i)
    testOneMatmul(random, pick(random, 0, 2) ? 1 : pick(random, 2, 9),
                  pick(random, 1, 70), pick(random, 1, 90),
                  pick(random, 1, 100));
  for (int i = 0; i < 6; ++i)
    testOneMatmul(random, 1, pick(random, 200, 500), pick(random, 700, 1700),
                  pick(random, 30, 200));
  testOneMatmul(random, 1, 3, 5, 9000);     // several parts of k
  testOneMatmul(random, 1, 40, 1030, 4200); // several parts of k and n
  testOneMatmul(random, 3, 40, 1030, 300);  // large and batched
  testOneMatmul(random, 1, 1, 1, 1);
  // bf16: blocks and edges; parts of k within a panel; steps of a tile whose
  // rows are many; parts of k.
  for (int i = 0; i < 6; ++i) {
    int64_t n = pick(random, 1, 130);
    testOneMatmul(random, 1, pick(random, 30, 300), n, pick(random, 1, 380),
                  true);
    testOneMatmul(random, 1, pick(random, 30, 300), n, pick(random, 385, 1900),
                  true);
  }
  for (int i = 0; i < 3; ++i) {
    testOneMatmul(random, 1, 3400, pick(random, 30, 40), 2100, true);
    testOneMatmul(random, 1, 70, pick(random, 60, 70), 4300, true);
  }
}

//===----------------------------------------------------------------------===//
// Grouped
//===----------------------------------------------------------------------===//

namespace {
struct Grouped {
  bool gradient, transposed, accumulate;
  int64_t groups, rows, experts, n, k, capacity;
  Command command;

  /// Expert of each row of a group, -1 beyond the last.
  std::vector<int64_t> owners(int64_t g) const {
    std::vector<int64_t> result(rows, -1);
    int64_t row = 0;
    for (int64_t e = 0; e < experts; ++e) {
      if (capacity > 0)
        row = e * capacity;
      for (int64_t i = 0; i < command.operands[2].intAt(g * experts + e); ++i)
        result[row++] = e;
    }
    return result;
  }
  int64_t weightIndex(int64_t e, int64_t i, int64_t l) const {
    return e * n * k + (transposed ? l * n + i : i * k + l);
  }
  std::vector<double> expected() const;
};
} // namespace

/// Added to what y holds where the command accumulates.
std::vector<double> Grouped::expected() const {
  const auto &o = command.operands;
  std::vector<double> y(o[3].count);
  for (size_t i = 0; accumulate && i < y.size(); ++i)
    y[i] = o[3].at(i);
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<int64_t> owner = owners(g);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; owner[r] >= 0 && i < n; ++i)
        for (int64_t l = 0; l < k; ++l) {
          int64_t row = g * rows + r, w = weightIndex(owner[r], i, l);
          if (gradient)
            y[w] += o[0].at(row * n + i) * o[1].at(row * k + l);
          else
            y[row * n + i] += o[0].at(row * k + l) * o[1].at(w);
        }
  }
  return y;
}

/// Sizes below some bounds, anything else at random.
static Grouped drawGrouped(std::mt19937 &random) {
  Grouped t;
  t.gradient = pick(random, 0, 1);
  t.transposed = pick(random, 0, 1);
  t.accumulate = t.gradient && pick(random, 0, 1);
  t.groups = pick(random, 1, 3);
  t.rows = pick(random, 1, 90);
  t.experts = pick(random, 1, 6);
  t.capacity = pick(random, 0, 1) ? t.rows / t.experts : 0;
  t.n = pick(random, 1, 70);
  t.k = pick(random, 1, 70);
  return t;
}

static void testOneGrouped(std::mt19937 &random, Grouped t) {
  uint32_t x = pickDtype(random), w = pickDtype(random), y = pickDtype(random);
  int64_t table = t.groups * t.rows, weight = t.experts * t.n * t.k;
  t.command = {KERF_OP_GROUPED_MATMUL,
               {t.gradient, x, w, y, t.groups, t.rows, t.experts, t.n, t.k,
                t.transposed, t.capacity, t.accumulate},
               {Buffer(x, table * (t.gradient ? t.n : t.k)),
                Buffer(w, t.gradient ? table * t.k : weight),
                Buffer(KERF_I32, t.groups * t.experts),
                Buffer(y, t.gradient ? weight : table * t.n), Buffer()},
               4};
  t.command.operands[0].fill(random);
  t.command.operands[1].fill(random);
  if (t.accumulate)
    t.command.operands[3].fill(random);
  else
    t.command.operands[3].poison();
  for (int64_t g = 0; g < t.groups; ++g)
    for (int64_t e = 0, rest = t.rows; e < t.experts; ++e) {
      int64_t size = pick(random, 0, 2) ? pick(random, 0, rest) : 0;
      if (t.capacity > 0)
        size = std::min(size, t.capacity);
      t.command.operands[2].setInt(g * t.experts + e,
                                   static_cast<int32_t>(size));
      rest -= size;
    }
  std::vector<double> expected = t.expected();
  double largest = 10; // what results are rounded to
  for (double value : expected)
    largest = std::max(largest, std::abs(value));
  runEverywhere(t.command, "grouped matmul", [&](const char *isa) {
    for (size_t i = 0; i < expected.size(); ++i)
      if (!near(t.command.operands[3].at(i), expected[i], largest,
                toleranceOf(y), std::string("grouped matmul, ") + isa))
        return;
  });
}

void cputest::testGroupedMatmul(std::mt19937 &random) {
  for (int i = 0; i < 60; ++i)
    testOneGrouped(random, drawGrouped(random));
  // Three of five experts are packed at once, then two.
  testOneGrouped(random, {false, false, false, 2, 9, 5, 1300, 1030, 0, {}});
  testOneGrouped(random, {false, true, false, 1, 11, 5, 1300, 1030, 2, {}});
  // Rows of an expert in a group are more than are packed as one.
  testOneGrouped(random, {true, false, true, 2, 9000, 2, 7, 9, 0, {}});
  testOneGrouped(random, {true, true, false, 1, 9000, 1, 33, 5, 0, {}});
}
