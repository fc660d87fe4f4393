//===- AttentionShape.cpp - checks of attention ---------------------------===//

#include "AttentionShape.h"

#include <cmath>
#include <cstring>

using namespace kerf::device;

static double doubleOf(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static HeadStrides stridesAt(const Checks &c, uint32_t index) {
  return {c.attr(index), c.attr(index + 1), c.attr(index + 2)};
}

static void readStrides(const Checks &c, AttentionShape &s) {
  HeadStrides *const all[] = {&s.q,  &s.k,  &s.v,  &s.y,
                              &s.dy, &s.dq, &s.dk, &s.dvs};
  for (uint32_t i = 0; i < 8; ++i)
    *all[i] = stridesAt(c, KERF_ATTN_Q_STRIDES + 3 * i);
}

static void readShape(const Checks &c, AttentionShape &s) {
  s.dtype = static_cast<uint32_t>(c.attr(KERF_ATTN_DTYPE));
  s.b = c.attr(KERF_ATTN_B);
  s.h = c.attr(KERF_ATTN_H);
  s.g = c.attr(KERF_ATTN_G);
  s.sq = c.attr(KERF_ATTN_SQ);
  s.sk = c.attr(KERF_ATTN_SK);
  s.d = c.attr(KERF_ATTN_D);
  s.dv = c.attr(KERF_ATTN_DV);
  readStrides(c, s);
  s.causal = c.attr(KERF_ATTN_CAUSAL);
  s.window = c.attr(KERF_ATTN_WINDOW);
  s.scale = doubleOf(c.attr(KERF_ATTN_SCALE));
  s.dropout = doubleOf(c.attr(KERF_ATTN_DROPOUT));
  s.nameHash = static_cast<uint64_t>(c.attr(KERF_ATTN_NAME_HASH));
  for (uint32_t i = 0; i < 4; ++i)
    s.global[i] = c.attr(KERF_ATTN_GLOBAL + i);
  s.zigzag = c.attr(KERF_ATTN_ZIGZAG);
  s.softcap = doubleOf(c.attr(KERF_ATTN_SOFTCAP));
}

static bool checkSizes(Checks &c) {
  constexpr int64_t positions = INT32_MAX, channels = 4096;
  for (uint32_t index :
       {KERF_ATTN_B, KERF_ATTN_H, KERF_ATTN_G, KERF_ATTN_SQ, KERF_ATTN_SK})
    if (!c.inRange(index, "size", 1, positions))
      return false;
  if (c.attr(KERF_ATTN_H) % c.attr(KERF_ATTN_G) != 0)
    return c.fail("found %lld key heads, expected a divisor of %lld",
                  (long long)c.attr(KERF_ATTN_G),
                  (long long)c.attr(KERF_ATTN_H));
  return c.inRange(KERF_ATTN_D, "channels", 1, channels) &&
         c.inRange(KERF_ATTN_DV, "channels", 1, channels) &&
         c.inRange(KERF_ATTN_CAUSAL, "causal", 0, 1) &&
         c.inRange(KERF_ATTN_WINDOW, "window", 0,
                   c.attr(KERF_ATTN_CAUSAL) ? INT32_MAX : 0);
}

static bool checkNumbers(Checks &c, const AttentionShape &s) {
  if (s.dtype != KERF_F32 && s.dtype != KERF_BF16 && s.dtype != KERF_F16)
    return c.fail("found dtype %lld, expected f32, bf16 or f16",
                  (long long)c.attr(KERF_ATTN_DTYPE));
  if (!std::isfinite(s.scale))
    return c.fail("found scale %g, expected a finite number", s.scale);
  if (!(s.softcap >= 0) || std::isinf(s.softcap))
    return c.fail("found softcap %g, expected 0 or a finite number above it",
                  s.softcap);
  if (!(s.dropout >= 0 && s.dropout < 1))
    return c.fail("found dropout %g, expected it in [0, 1)", s.dropout);
  if (s.zigzag < 0 || s.zigzag > INT32_MAX ||
      (s.zigzag != 0 && (s.global[2] != s.global[3] || s.global[2] < 1 ||
                         s.global[2] % (2 * s.zigzag) != 0)))
    return c.fail("found a zigzag over %lld ranks, expected two equal chunks "
                  "of all %lld queries and %lld keys per rank",
                  (long long)s.zigzag, (long long)s.global[2],
                  (long long)s.global[3]);
  return true;
}

/// Operand `index` holds heads with these sizes and strides.
static bool hasHeads(Checks &c, const AttentionShape &s, uint32_t index,
                     const char *what, const HeadStrides &strides, bool keys,
                     int64_t channels) {
  return c.hasExtent(index, what, s.bytes(),
                     {s.b, keys ? s.sk : s.sq, keys ? s.g : s.h, channels},
                     {strides.batch, strides.position, strides.head, 1});
}

static bool hasTensors(Checks &c, bool backward, const AttentionShape &s) {
  __int128 rows = static_cast<__int128>(4) * s.b * s.h * s.sq;
  if (!hasHeads(c, s, 0, "q", s.q, false, s.d) ||
      !hasHeads(c, s, 1, "k", s.k, true, s.d) ||
      !hasHeads(c, s, 2, "v", s.v, true, s.dv) ||
      !hasHeads(c, s, 3, "y", s.y, false, s.dv))
    return false;
  if ((backward || !c.absent(KERF_ATTN_IN_LSE)) &&
      !c.hasBytes(KERF_ATTN_IN_LSE, "lse", rows))
    return false;
  return !backward || (hasHeads(c, s, 5, "dy", s.dy, false, s.dv) &&
                       hasHeads(c, s, 6, "dq", s.dq, false, s.d) &&
                       hasHeads(c, s, 7, "dk", s.dk, true, s.d) &&
                       hasHeads(c, s, 8, "dv", s.dvs, true, s.dv));
}

/// Scalars may be absent, seed and step only without dropout.
static bool hasScalars(Checks &c, const AttentionShape &s, uint32_t first) {
  static const char *const names[] = {
      "seed", "step", "layer", "offset b", "offset h", "offset q", "offset k"};
  for (uint32_t i = 0; i < 7; ++i) {
    bool needed = i < 2 && s.dropout > 0;
    if ((needed || !c.absent(first + i)) && !c.hasBytes(first + i, names[i], 4))
      return false;
  }
  return true;
}

static bool hasSegments(Checks &c, const AttentionShape &s, uint32_t first) {
  return c.hasBytes(first, "segments of queries",
                    static_cast<__int128>(4) * s.b * s.sq) &&
         c.hasBytes(first + 1, "segments of keys",
                    static_cast<__int128>(4) * s.b * s.sk);
}

bool kerf::device::readAttention(Checks &c, bool backward, AttentionShape &s) {
  uint32_t first = attentionScalars(backward);
  if (!c.hasCounts(KERF_ATTN_ATTR_COUNT, {first + 8, first + 10}))
    return false;
  readShape(c, s);
  s.segments = !c.absent(first + 8) || !c.absent(first + 9);
  return checkSizes(c) && checkNumbers(c, s) && hasTensors(c, backward, s) &&
         hasScalars(c, s, first) &&
         (!s.segments || hasSegments(c, s, first + 8));
}

uint32_t kerf::device::dropoutThreshold(double rate) {
  return static_cast<uint32_t>(std::ceil(rate * 0x1.0p24));
}
