//===- Attention.cpp - checks of attention --------------------------------===//

#include "Attention.h"

#include <cmath>
#include <cstring>

using namespace kerf::cpu;

static int64_t scalarAt(void *pointer, int64_t otherwise) {
  return pointer ? *static_cast<const int32_t *>(pointer) : otherwise;
}

AttentionScalars::AttentionScalars(void *const *pointers)
    : seed(scalarAt(pointers[0], 0)), step(scalarAt(pointers[1], 0)),
      layer(scalarAt(pointers[2], -1)) {
  for (int i = 0; i < 4; ++i)
    offset[i] = scalarAt(pointers[3 + i], 0);
}

std::vector<RowRun> kerf::cpu::runsOf(int64_t rows, int64_t offset,
                                      int64_t zigzag, int64_t whole) {
  if (zigzag == 0)
    return {{0, rows, offset}};
  std::vector<RowRun> runs;
  int64_t chunk = whole / (2 * zigzag);
  for (int64_t row = 0; row < rows;) {
    int64_t end = kerf_cpu_min(rows, row + chunk - (row + offset) % chunk);
    int64_t shift = kerf_zigzag(zigzag, chunk, row + offset) - row;
    if (!runs.empty() && runs.back().shift == shift)
      runs.back().end = end;
    else
      runs.push_back({row, end, shift});
    row = end;
  }
  return runs;
}

std::vector<RowRun>
AttentionScalars::queryRuns(const AttentionShape &shape) const {
  return runsOf(shape.sq, offset[2], shape.zigzag, shape.global[2]);
}

std::vector<RowRun>
AttentionScalars::keyRuns(const AttentionShape &shape) const {
  return runsOf(shape.sk, offset[3], shape.zigzag, shape.global[3]);
}

Dropout AttentionScalars::dropout(const AttentionShape &shape) const {
  if (shape.dropout == 0)
    return {0, 0, 1.0f};
  // Kept is what is not below the rate; numbers have 24 bits.
  auto threshold = static_cast<uint32_t>(std::ceil(shape.dropout * 0x1.0p24));
  return {kerf_random_stream(seed, step, layer, shape.nameHash), threshold,
          static_cast<float>(1.0 / (1.0 - shape.dropout))};
}

uint64_t AttentionScalars::randomIndex(const AttentionShape &shape, int64_t b,
                                       int64_t h, int64_t q, int64_t k) const {
  const int64_t whole[] = {b + offset[0], h + offset[1], q, k};
  uint64_t index = 0;
  for (int i = 0; i < 4; ++i)
    index = index * static_cast<uint64_t>(shape.global[i]) +
            static_cast<uint64_t>(whole[i]);
  return index;
}

View kerf::cpu::headView(const AttentionShape &shape, const void *data,
                         const HeadStrides &strides, int64_t b, int64_t from,
                         int64_t h) {
  return {static_cast<const char *>(data) +
              strides.at(b, from, h) * shape.bytes(),
          strides.position, 1, shape.number};
}

static double doubleOf(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static HeadStrides stridesAt(const Request &r, uint32_t index) {
  return {r.attr(index), r.attr(index + 1), r.attr(index + 2)};
}

static bool checkSizes(Request &r) {
  constexpr int64_t positions = INT32_MAX, channels = 4096;
  for (uint32_t index :
       {KERF_ATTN_B, KERF_ATTN_H, KERF_ATTN_G, KERF_ATTN_SQ, KERF_ATTN_SK})
    if (!r.inRange(index, "size", 1, positions))
      return false;
  if (r.attr(KERF_ATTN_H) % r.attr(KERF_ATTN_G) != 0)
    return r.fail("found %lld key heads, expected a divisor of %lld",
                  (long long)r.attr(KERF_ATTN_G),
                  (long long)r.attr(KERF_ATTN_H));
  return r.inRange(KERF_ATTN_D, "channels", 1, channels) &&
         r.inRange(KERF_ATTN_DV, "channels", 1, channels) &&
         r.inRange(KERF_ATTN_CAUSAL, "causal", 0, 1) &&
         r.inRange(KERF_ATTN_WINDOW, "window", 0,
                   r.attr(KERF_ATTN_CAUSAL) ? INT32_MAX : 0);
}

static bool checkNumbers(Request &r, const AttentionShape &shape) {
  if (!std::isfinite(doubleOf(r.attr(KERF_ATTN_SCALE))))
    return r.fail("found scale %g, expected a finite number",
                  doubleOf(r.attr(KERF_ATTN_SCALE)));
  if (!(shape.dropout >= 0 && shape.dropout < 1))
    return r.fail("found dropout %g, expected it in [0, 1)", shape.dropout);
  if (shape.zigzag < 0 || shape.zigzag > INT32_MAX ||
      (shape.zigzag != 0 &&
       (shape.global[2] != shape.global[3] || shape.global[2] < 1 ||
        shape.global[2] % (2 * shape.zigzag) != 0)))
    return r.fail("found a zigzag over %lld ranks, expected two equal chunks "
                  "of all %lld queries and %lld keys per rank",
                  (long long)shape.zigzag, (long long)shape.global[2],
                  (long long)shape.global[3]);
  return true;
}

static void readShape(const Request &r, AttentionShape &s) {
  s.number = numberOf(r.attr(KERF_ATTN_DTYPE));
  s.b = r.attr(KERF_ATTN_B);
  s.h = r.attr(KERF_ATTN_H);
  s.g = r.attr(KERF_ATTN_G);
  s.sq = r.attr(KERF_ATTN_SQ);
  s.sk = r.attr(KERF_ATTN_SK);
  s.d = r.attr(KERF_ATTN_D);
  s.dv = r.attr(KERF_ATTN_DV);
  s.q = stridesAt(r, KERF_ATTN_Q_STRIDES);
  s.k = stridesAt(r, KERF_ATTN_K_STRIDES);
  s.v = stridesAt(r, KERF_ATTN_V_STRIDES);
  s.y = stridesAt(r, KERF_ATTN_Y_STRIDES);
  s.dy = stridesAt(r, KERF_ATTN_DY_STRIDES);
  s.dq = stridesAt(r, KERF_ATTN_DQ_STRIDES);
  s.dk = stridesAt(r, KERF_ATTN_DK_STRIDES);
  s.dvs = stridesAt(r, KERF_ATTN_DV_STRIDES);
  s.causal = r.attr(KERF_ATTN_CAUSAL);
  s.window = r.attr(KERF_ATTN_WINDOW);
  s.scale = static_cast<float>(doubleOf(r.attr(KERF_ATTN_SCALE)));
  s.dropout = doubleOf(r.attr(KERF_ATTN_DROPOUT));
  s.nameHash = static_cast<uint64_t>(r.attr(KERF_ATTN_NAME_HASH));
  for (int i = 0; i < 4; ++i)
    s.global[i] = r.attr(KERF_ATTN_GLOBAL + i);
  s.zigzag = r.attr(KERF_ATTN_ZIGZAG);
}

/// Operand `index` holds heads with these sizes and strides.
static bool hasHeads(Request &r, const AttentionShape &s, uint32_t index,
                     const char *what, const HeadStrides &strides, bool keys,
                     int64_t channels) {
  return r.hasExtent(index, what, s.bytes(),
                     {s.b, keys ? s.sk : s.sq, keys ? s.g : s.h, channels},
                     {strides.batch, strides.position, strides.head, 1});
}

/// Operands from `first`: seed .. offset_k (each may be absent, seed and step
/// only without dropout), workspace, segments.
static bool checkRest(Request &r, const AttentionShape &s, uint32_t first) {
  static const char *const names[] = {
      "seed", "step", "layer", "offset b", "offset h", "offset q", "offset k"};
  for (uint32_t i = 0; i < 7; ++i) {
    bool needed = i < 2 && s.dropout > 0;
    if ((needed || !r.absent(first + i)) && !r.hasBytes(first + i, names[i], 4))
      return false;
  }
  if (!r.hasWorkspace(first + 7))
    return false;
  if (!s.segments)
    return true;
  return r.hasBytes(first + 8, "segments of queries",
                    static_cast<__int128>(4) * s.b * s.sq) &&
         r.hasBytes(first + 9, "segments of keys",
                    static_cast<__int128>(4) * s.b * s.sk);
}

bool kerf::cpu::readAttention(Request &r, bool backward, AttentionShape &s) {
  uint32_t first = backward ? 9 : 5; // the seed
  if (!r.hasCounts(KERF_ATTN_ATTR_COUNT, {first + 8, first + 10}))
    return false;
  if (!isNumber(r.attr(KERF_ATTN_DTYPE)))
    return r.fail("found dtype %lld, expected f32, bf16 or f16",
                  (long long)r.attr(KERF_ATTN_DTYPE));
  readShape(r, s);
  s.segments = !r.absent(first + 8) || !r.absent(first + 9);
  if (!checkSizes(r) || !checkNumbers(r, s))
    return false;
  __int128 rows = static_cast<__int128>(4) * s.b * s.h * s.sq;
  if (!hasHeads(r, s, 0, "q", s.q, false, s.d) ||
      !hasHeads(r, s, 1, "k", s.k, true, s.d) ||
      !hasHeads(r, s, 2, "v", s.v, true, s.dv) ||
      !hasHeads(r, s, 3, "y", s.y, false, s.dv))
    return false;
  if ((backward || !r.absent(4)) && !r.hasBytes(4, "lse", rows))
    return false;
  if (backward && (!hasHeads(r, s, 5, "dy", s.dy, false, s.dv) ||
                   !hasHeads(r, s, 6, "dq", s.dq, false, s.d) ||
                   !hasHeads(r, s, 7, "dk", s.dk, true, s.d) ||
                   !hasHeads(r, s, 8, "dv", s.dvs, true, s.dv)))
    return false;
  return checkRest(r, s, first);
}
