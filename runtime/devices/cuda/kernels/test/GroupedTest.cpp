//===- GroupedTest.cpp - grouped matmuls against plain loops --------------===//

#include "AttentionCase.h"
#include "KernelsTest.h"

#include <algorithm>
#include <cmath>

using namespace cudatest;

namespace {
struct Grouped {
  bool gradient, transposed, accumulate;
  uint32_t x, w, y; ///< dtypes
  int64_t groups, rows, experts, n, k, capacity;
  std::vector<double> xs, ws, ys, sizes; ///< contents

  int64_t table() const { return groups * rows; }
  int64_t weight() const { return experts * n * k; }
  std::vector<int64_t> attributes() const {
    return {gradient, x, w, y,          groups,   rows,
            experts,  n, k, transposed, capacity, accumulate};
  }
  std::string describe() const;
  /// Expert of each row of a group, -1: none.
  std::vector<int64_t> owners(int64_t group) const;
  int64_t weightIndex(int64_t e, int64_t i, int64_t l) const {
    return e * n * k + (transposed ? l * n + i : i * k + l);
  }
  std::vector<double> expected() const;
  void drawSizes(std::mt19937 &random);
  void run(const Gpu &gpu, std::mt19937 &random);
};
} // namespace

std::string Grouped::describe() const {
  std::string text = "grouped matmul";
  for (int64_t attr : attributes())
    text += " " + std::to_string(attr);
  return text;
}

std::vector<int64_t> Grouped::owners(int64_t group) const {
  std::vector<int64_t> result(rows, -1);
  int64_t row = 0;
  for (int64_t e = 0; e < experts; ++e) {
    if (capacity > 0)
      row = e * capacity;
    for (int64_t i = 0; i < sizes[group * experts + e]; ++i)
      result[row++] = e;
  }
  return result;
}

std::vector<double> Grouped::expected() const {
  std::vector<double> result(gradient ? weight() : table() * n);
  if (accumulate)
    result = ys;
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<int64_t> owner = owners(g);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; owner[r] >= 0 && i < n; ++i)
        for (int64_t l = 0; l < k; ++l) {
          int64_t row = g * rows + r, at = weightIndex(owner[r], i, l);
          if (gradient)
            result[at] += xs[row * n + i] * ws[row * k + l];
          else
            result[row * n + i] += xs[row * k + l] * ws[at];
        }
  }
  return result;
}

/// Many experts have no row.
void Grouped::drawSizes(std::mt19937 &random) {
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t e = 0, rest = rows; e < experts; ++e) {
      int64_t size = pick(random, 0, 2) ? pick(random, 0, rest) : 0;
      if (capacity > 0)
        size = std::min(size, capacity);
      sizes.push_back(static_cast<double>(size));
      rest -= size;
    }
}

static Buffer filled(const Gpu &gpu, uint32_t dtype,
                     const std::vector<double> &values) {
  Buffer buffer(gpu, dtype, static_cast<int64_t>(values.size()));
  buffer.put(values);
  return buffer;
}

/// Numbers in [-1, 1] that every dtype holds.
static std::vector<double> draw(std::mt19937 &random, int64_t count) {
  std::vector<double> values(count);
  for (double &value : values)
    value = pick(random, -64, 64) / 64.0;
  return values;
}

static double toleranceOf(uint32_t dtype) {
  return dtype == KERF_BF16 ? 6e-3 : dtype == KERF_F16 ? 8e-4 : 3e-6;
}

void Grouped::run(const Gpu &gpu, std::mt19937 &random) {
  xs = draw(random, table() * (gradient ? n : k));
  ws = draw(random, gradient ? table() * k : weight());
  ys = draw(random, gradient ? weight() : table() * n);
  if (sizes.empty())
    drawSizes(random);
  Command command;
  command.opcode = KERF_OP_GROUPED_MATMUL;
  command.attrs = attributes();
  int64_t bytes = kerf_cuda_grouped_workspace(command.attrs.data());
  Buffer result(gpu, y, static_cast<int64_t>(ys.size()));
  if (accumulate)
    result.put(ys);
  command.operands = {filled(gpu, x, xs), filled(gpu, w, ws),
                      filled(gpu, KERF_I32, sizes), result,
                      Buffer(gpu, KERF_F32, bytes / 4)};
  Step step(gpu, command, "grouped");
  if (!step.message.empty())
    return failed("%s: %s", describe().c_str(), step.message.c_str());
  step.run();
  gpu.wait();
  std::vector<double> found = result.get(), wanted = expected();
  for (size_t i = 0; i < found.size(); ++i)
    if (!(std::fabs(found[i] - wanted[i]) <=
          toleranceOf(y) * std::max(10.0, std::fabs(wanted[i]))))
      return failed("%s: y[%zu] is %.9g, expected %.9g", describe().c_str(), i,
                    found[i], wanted[i]);
}

static uint32_t pickDtype(std::mt19937 &random) {
  return static_cast<uint32_t>(pick(random, KERF_F32, KERF_F16));
}

static Grouped drawGrouped(std::mt19937 &random, int64_t rows) {
  Grouped t;
  t.gradient = pick(random, 0, 1);
  t.transposed = pick(random, 0, 1);
  t.accumulate = t.gradient && pick(random, 0, 1);
  t.groups = pick(random, 1, 3);
  t.rows = pick(random, 1, rows);
  t.experts = pick(random, 1, 6);
  t.capacity = pick(random, 0, 1) ? t.rows / t.experts : 0;
  t.n = pick(random, 1, 90);
  t.k = pick(random, 1, 90);
  t.x = pickDtype(random);
  t.w = pickDtype(random);
  t.y = pickDtype(random);
  return t;
}

/// 16-bit numbers in whole 16 bytes: those on tensor cores.
static Grouped drawWide(std::mt19937 &random, int64_t rows) {
  Grouped t = drawGrouped(random, rows);
  t.x = t.w = pick(random, 0, 1) ? KERF_BF16 : KERF_F16;
  t.n = 8 * pick(random, 1, 30);
  t.k = 8 * pick(random, 1, 12);
  return t;
}

/// Several blocks of rows and of columns, the last ones ragged, and more pieces
/// of the summed index than lie in shared memory.
static Grouped drawLarge(std::mt19937 &random, bool gradient, bool transposed) {
  Grouped t = drawWide(random, 90);
  t.gradient = gradient;
  t.transposed = transposed;
  t.accumulate = gradient && pick(random, 0, 1);
  t.groups = 2;
  t.rows = pick(random, 260, 330);
  t.experts = 3;
  t.capacity = 0;
  t.n = 8 * pick(random, 33, 40);
  t.k = 8 * pick(random, 33, 40);
  return t;
}

/// Experts whose rows end around the edges of tiles and of pieces, and pieces
/// of the other index that are not whole. `n` and `k` tell apart wide blocks of
/// columns from narrow ones.
static Grouped drawEdges(std::mt19937 &random, bool gradient, bool transposed,
                         int64_t n, int64_t k) {
  Grouped t = drawWide(random, 90);
  t.gradient = gradient;
  t.transposed = transposed;
  t.accumulate = gradient && pick(random, 0, 1);
  t.sizes = {0, 1, 63, 65, 0, 128, 129, 400, 0};
  t.experts = static_cast<int64_t>(t.sizes.size());
  t.rows = 790; // four belong to nobody
  t.groups = 1;
  if (gradient) { // parts of the summed index, some of them empty
    t.sizes.insert(t.sizes.end(), t.sizes.rbegin(), t.sizes.rend());
    t.groups = 2;
  }
  t.capacity = 0;
  t.n = n;
  t.k = k;
  return t;
}

void cudatest::testGroupedMatmul(const Gpu &gpu, std::mt19937 &random,
                                 int64_t cases) {
  for (int64_t i = 0; i < cases; ++i)
    drawGrouped(random, i % 4 ? 90 : 300).run(gpu, random);
  Grouped many = drawGrouped(random, 60); // more experts than threads
  many.experts = 600;
  many.n = many.k = 3;
  many.capacity = 0;
  many.run(gpu, random);
}

void cudatest::testGroupedWide(const Gpu &gpu, std::mt19937 &random,
                               int64_t cases) {
  for (int64_t i = 0; i < cases; ++i)
    drawWide(random, i % 4 ? 90 : 300).run(gpu, random);
  for (bool gradient : {false, true}) {
    for (bool transposed : {false, true}) {
      drawLarge(random, gradient, transposed).run(gpu, random);
      drawEdges(random, gradient, transposed, 264, 72).run(gpu, random);
      drawEdges(random, gradient, transposed, 40, 200).run(gpu, random);
    }
    // Nothing but zeros: no block has a piece.
    Grouped empty = drawEdges(random, gradient, false, 264, 72);
    empty.sizes.assign(empty.sizes.size(), 0);
    empty.run(gpu, random);
    Grouped many = drawWide(random, 60); // more blocks than processors
    many.gradient = gradient;
    many.accumulate = false;
    many.groups = 2;
    many.experts = 140;
    many.n = gradient ? 16 : 264; // two blocks of columns
    many.k = 16;
    many.capacity = 0;
    many.run(gpu, random);
  }
}

//===----------------------------------------------------------------------===//
// Sizes that do not fit
//===----------------------------------------------------------------------===//

static void expectSizes(const std::vector<double> &sizes, int64_t capacity,
                        bool gradient, const std::string &message) {
  Gpu gpu; // a fault is for good
  constexpr int64_t groups = 2, rows = 12, experts = 3, n = 8, k = 8;
  Command command;
  command.opcode = KERF_OP_GROUPED_MATMUL;
  command.attrs = {gradient, KERF_F32, KERF_F32, KERF_F32, groups,   rows,
                   experts,  n,        k,        0,        capacity, 0};
  int64_t bytes = kerf_cuda_grouped_workspace(command.attrs.data());
  Buffer x(gpu, KERF_F32, groups * rows * n), w = x;
  if (!gradient)
    w = Buffer(gpu, KERF_F32, experts * n * k);
  Buffer y(gpu, KERF_F32, gradient ? experts * n * k : groups * rows * n);
  command.operands = {x, w, filled(gpu, KERF_I32, sizes), y,
                      Buffer(gpu, KERF_F32, bytes / 4)};
  Step step(gpu, command, "experts");
  step.run();
  expectText(gpu.waitMessage(), message);
  y.get(); // guards hold
}

void cudatest::testGroupedSizes() {
  for (bool gradient : {false, true}) {
    expectSizes({4, 4, 4, 12, 0, 1}, 0, gradient,
                "expert 2 of group 1 has 1 rows, expected the sizes of a group "
                "to sum to at most 12, each at most 12");
    expectSizes({-1, 4, 4, 4, 4, 4}, 0, gradient,
                "expert 0 of group 0 has -1 rows");
    expectSizes({4, 4, 4, 1, 5, 0}, 4, gradient,
                "expert 1 of group 1 has 5 rows, expected the sizes of a group "
                "to sum to at most 12, each at most 4");
    expectSizes({4, 2000000000, 2000000000, 0, 0, 0}, 0, gradient,
                "expert 1 of group 0 has 2000000000 rows");
  }
}
