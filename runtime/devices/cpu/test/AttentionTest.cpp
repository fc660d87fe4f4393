//===- AttentionTest.cpp - attention against plain loops ------------------===//

#include "Support.h"

#include <cmath>
#include <cstring>

using namespace cputest;

static int64_t pick(std::mt19937 &random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

namespace {
struct Case {
  uint32_t dtype;
  int64_t b, h, g, sq, sk, d, dv, window;
  bool causal, segments;
  double scale, dropout, softcap;
  int64_t global[4], offsets[4], zigzag;
  int64_t seed, step, layer;
  std::vector<int64_t> attrs;
  Command command;

  std::vector<double> y, lse, dq, dk, dv_; ///< expected

  int64_t stride(int tensor, int which) const {
    return attrs[KERF_ATTN_Q_STRIDES + 3 * tensor + which];
  }
  int64_t at(int tensor, int64_t b, int64_t i, int64_t h) const {
    return b * stride(tensor, 0) + i * stride(tensor, 1) +
           h * stride(tensor, 2);
  }
  int64_t positionOf(int64_t row) const;
  bool visible(int64_t b, int64_t i, int64_t j) const;
  double dropFactor(int64_t b, int64_t h, int64_t i, int64_t j) const;
  /// A score, and its slope by the product of query and key.
  double scoreOf(double product) const {
    double s = product * scale;
    return softcap ? softcap * std::tanh(s / softcap) : s;
  }
  double slopeOf(double score) const {
    double part = softcap ? score / softcap : 0;
    return scale * (1 - part * part);
  }
  void computeHead(int64_t b, int64_t h);
  void compute();
};
} // namespace

/// Place r has the r-th chunk from the front, then the r-th from the back.
int64_t Case::positionOf(int64_t row) const {
  if (zigzag == 0)
    return row;
  int64_t chunk = global[2] / zigzag / 2, place = row / (2 * chunk);
  int64_t in = row - place * 2 * chunk;
  return in < chunk ? place * chunk + in
                    : global[2] - (place + 1) * chunk + in - chunk;
}

bool Case::visible(int64_t bi, int64_t i, int64_t j) const {
  int64_t gi = positionOf(i + offsets[2]), gj = positionOf(j + offsets[3]);
  if (causal && gj > gi)
    return false;
  if (window && gj <= gi - window)
    return false;
  const auto &o = command.operands;
  return !segments || o[o.size() - 2].intAt(bi * sq + i) ==
                          o[o.size() - 1].intAt(bi * sk + j);
}

double Case::dropFactor(int64_t bi, int64_t hi, int64_t i, int64_t j) const {
  if (dropout == 0)
    return 1;
  uint64_t stream = kerf_random_stream(
      seed, step, layer, static_cast<uint64_t>(attrs[KERF_ATTN_NAME_HASH]));
  uint64_t index = bi + offsets[0];
  index = index * global[1] + hi + offsets[1];
  index = index * global[2] + positionOf(i + offsets[2]);
  index = index * global[3] + positionOf(j + offsets[3]);
  double uniform = kerf_random_bits(stream, index) * 0x1.0p-24;
  return uniform >= dropout ? 1 / (1 - dropout) : 0;
}

/// Operands: q k v y lse dy dq dk dv of the backward command.
void Case::computeHead(int64_t bi, int64_t hi) {
  const auto &o = command.operands;
  int64_t gi = hi / (h / g);
  for (int64_t i = 0; i < sq; ++i) {
    std::vector<double> s(sk), p(sk), dp(sk);
    double max = -INFINITY, total = 0, delta = 0;
    for (int64_t j = 0; j < sk; ++j) {
      for (int64_t l = 0; l < d; ++l)
        s[j] += o[0].at(at(0, bi, i, hi) + l) * o[1].at(at(1, bi, j, gi) + l);
      s[j] = scoreOf(s[j]);
      if (visible(bi, i, j))
        max = std::max(max, s[j]);
    }
    for (int64_t j = 0; j < sk; ++j)
      total += visible(bi, i, j) ? std::exp(s[j] - max) : 0;
    int64_t row = (bi * h + hi) * sq + i;
    lse[row] = total > 0 ? max + std::log(total) : -1e30;
    double *yRow = &y[row * dv];
    for (int64_t j = 0; j < sk; ++j) {
      p[j] = visible(bi, i, j) ? std::exp(s[j] - lse[row]) : 0;
      for (int64_t e = 0; e < dv; ++e) {
        double value = o[2].at(at(2, bi, j, gi) + e);
        yRow[e] += p[j] * dropFactor(bi, hi, i, j) * value;
        dp[j] += o[5].at(at(4, bi, i, hi) + e) * value;
      }
    }
    for (int64_t e = 0; e < dv; ++e)
      delta += o[5].at(at(4, bi, i, hi) + e) * yRow[e];
    for (int64_t j = 0; j < sk; ++j) {
      double factor = dropFactor(bi, hi, i, j);
      double ds = p[j] * (dp[j] * factor - delta) * slopeOf(s[j]);
      int64_t key = (bi * g + gi) * sk + j;
      for (int64_t e = 0; e < dv; ++e)
        dv_[key * dv + e] += p[j] * factor * o[5].at(at(4, bi, i, hi) + e);
      for (int64_t l = 0; l < d; ++l) {
        dq[row * d + l] += ds * o[1].at(at(1, bi, j, gi) + l);
        dk[key * d + l] += ds * o[0].at(at(0, bi, i, hi) + l);
      }
    }
  }
}

void Case::compute() {
  y.assign(b * h * sq * dv, 0);
  lse.assign(b * h * sq, 0);
  dq.assign(b * h * sq * d, 0);
  dk.assign(b * g * sk * d, 0);
  dv_.assign(b * g * sk * dv, 0);
  for (int64_t bi = 0; bi < b; ++bi)
    for (int64_t hi = 0; hi < h; ++hi)
      computeHead(bi, hi);
}

static int64_t bitsOf(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

static void drawShape(std::mt19937 &random, Case &c, int64_t largest) {
  c.dtype = static_cast<uint32_t>(pick(random, KERF_F32, KERF_F16));
  c.b = pick(random, 1, 2);
  c.g = pick(random, 1, 3);
  c.h = c.g * pick(random, 1, 3);
  c.sq = pick(random, 1, largest);
  c.sk = pick(random, 0, 1) ? c.sq : pick(random, 1, largest);
  c.d = pick(random, 0, 1) ? pick(random, 1, 70) : 64;
  c.dv = pick(random, 0, 1) ? pick(random, 1, 70) : c.d;
  c.causal = pick(random, 0, 2) > 0;
  c.window = c.causal && pick(random, 0, 1) ? pick(random, 1, c.sk + 2) : 0;
  c.segments = pick(random, 0, 3) == 0;
  c.dropout = pick(random, 0, 2) ? 0 : 0.25;
  c.softcap = pick(random, 0, 3) ? 0 : pick(random, 1, 8) / 2.0;
  c.scale =
      1 / std::sqrt(static_cast<double>(c.d)) * (pick(random, 0, 9) ? 1 : -2);
  bool shard = pick(random, 0, 2) == 0;
  const int64_t local[] = {c.b, c.h, c.sq, c.sk};
  for (int i = 0; i < 4; ++i) {
    c.offsets[i] = shard ? pick(random, 0, 40) : 0;
    c.global[i] = local[i] + c.offsets[i];
  }
  c.zigzag = pick(random, 0, 2) ? 0 : pick(random, 1, 4);
  if (c.zigzag != 0) {
    int64_t least = std::max(c.global[2], c.global[3]);
    int64_t chunk = (least + 2 * c.zigzag - 1) / (2 * c.zigzag);
    c.global[2] = c.global[3] = 2 * c.zigzag * (chunk + pick(random, 0, 3));
  }
  c.seed = pick(random, 0, 1000);
  c.step = pick(random, 0, 1000);
  c.layer = pick(random, -1, 5);
}

/// Attributes and the backward command, with numbers in the inputs.
static void drawOperands(std::mt19937 &random, Case &c) {
  c.attrs = {c.dtype, c.b, c.h, c.g, c.sq, c.sk, c.d, c.dv};
  const int64_t rows[] = {c.sq, c.sk, c.sk, c.sq, c.sq, c.sq, c.sk, c.sk};
  const int64_t heads[] = {c.h, c.g, c.g, c.h, c.h, c.h, c.g, c.g};
  const int64_t width[] = {c.d, c.d, c.dv, c.dv, c.dv, c.d, c.d, c.dv};
  std::vector<Buffer> tensors;
  for (int i = 0; i < 8; ++i) {
    int64_t head = width[i] + pick(random, 0, 2), row = head * heads[i] + 3;
    bool headsFirst = pick(random, 0, 3) == 0;
    c.attrs.push_back(row * rows[i]);
    c.attrs.push_back(headsFirst ? head : row);
    c.attrs.push_back(headsFirst ? head * rows[i] : head);
    tensors.push_back(Buffer(c.dtype, row * rows[i] * c.b));
  }
  for (int64_t attr : {int64_t(c.causal), c.window, bitsOf(c.scale),
                       bitsOf(c.dropout), int64_t(kerf_hash_name("drop"))})
    c.attrs.push_back(attr);
  c.attrs.insert(c.attrs.end(), c.global, c.global + 4);
  c.attrs.push_back(c.zigzag);
  c.attrs.push_back(bitsOf(c.softcap));
  for (int i : {0, 1, 2, 4})
    tensors[i].fill(random);
  auto scalar = [](int64_t value, bool absent) {
    Buffer buffer = absent ? Buffer() : Buffer(KERF_I32, 1);
    if (!absent)
      buffer.setInt(0, static_cast<int32_t>(value));
    return buffer;
  };
  std::vector<Buffer> o = {tensors[0],
                           tensors[1],
                           tensors[2],
                           tensors[3],
                           Buffer(KERF_F32, c.b * c.h * c.sq),
                           tensors[4],
                           tensors[5],
                           tensors[6],
                           tensors[7]};
  o.push_back(scalar(c.seed, c.dropout == 0));
  o.push_back(scalar(c.step, c.dropout == 0));
  o.push_back(scalar(c.layer, c.layer < 0));
  for (int64_t offset : c.offsets)
    o.push_back(scalar(offset, offset == 0));
  o.push_back(Buffer());
  if (c.segments)
    for (int64_t count : {c.sq, c.sk}) {
      o.push_back(Buffer(KERF_I32, c.b * count));
      for (int64_t i = 0; i < c.b * count; ++i)
        o.back().setInt(i, static_cast<int32_t>(i % count * 3 / count));
    }
  c.command = {KERF_OP_ATTENTION_BACKWARD, c.attrs, o, 16};
}

/// What errors are relative to: zeros may be what is left of numbers near 1.
static double largestOf(const std::vector<double> &values, uint32_t dtype) {
  double largest = dtype == KERF_F32 ? 0.5 : 1;
  for (double value : values)
    largest = std::max(largest, std::fabs(value));
  return largest;
}

/// Compares `tensor` (number in the strides' order) with dense values.
static void compare(const Case &c, const Buffer &found, int tensor,
                    const std::vector<double> &expected, int64_t rows,
                    int64_t heads, int64_t width, const std::string &what) {
  double tolerance = c.dtype == KERF_BF16  ? 2e-2
                     : c.dtype == KERF_F16 ? 2e-3
                                           : 2e-5;
  double largest = largestOf(expected, c.dtype);
  for (int64_t b = 0, n = 0; b < c.b; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t e = 0; e < width; ++e, ++n)
          if (!near(found.at(c.at(tensor, b, i, h) + e), expected[n], largest,
                    tolerance, what))
            return;
}

static const char *typeName(uint32_t dtype) {
  return dtype == KERF_BF16 ? "bf16" : dtype == KERF_F16 ? "f16" : "f32";
}

static std::string describe(const Case &c) {
  char text[256];
  snprintf(text, sizeof text,
           "attention %s b=%lld h=%lld g=%lld sq=%lld sk=%lld d=%lld dv=%lld "
           "causal=%d window=%lld segments=%d dropout=%g softcap=%g shift=%lld "
           "zigzag=%lld",
           typeName(c.dtype), (long long)c.b, (long long)c.h, (long long)c.g,
           (long long)c.sq, (long long)c.sk, (long long)c.d, (long long)c.dv,
           c.causal, (long long)c.window, c.segments, c.dropout, c.softcap,
           (long long)(c.offsets[2] - c.offsets[3]), (long long)c.zigzag);
  return text;
}

static void testOneAttention(std::mt19937 &random, int64_t largest) {
  Case c;
  drawShape(random, c, largest);
  drawOperands(random, c);
  c.compute();
  std::string what = describe(c);
  const auto &all = c.command.operands;
  Command forward = {KERF_OP_ATTENTION, c.attrs, {}, 12};
  forward.operands = {all[0], all[1], all[2], all[3], all[4]};
  forward.operands.insert(forward.operands.end(), all.begin() + 9, all.end());
  runEverywhere(forward, what, [&](const char *isa) {
    compare(c, forward.operands[3], 3, c.y, c.sq, c.h, c.dv,
            what + ", y, " + isa);
    for (size_t i = 0; i < c.lse.size(); ++i)
      if (!near(forward.operands[4].at(i), c.lse[i],
                std::max(1.0, std::fabs(c.lse[i])), 1e-5,
                what + ", lse, " + isa))
        return;
  });
  // The exact results as inputs of the gradient.
  for (int64_t b = 0, n = 0; b < c.b; ++b)
    for (int64_t h = 0; h < c.h; ++h)
      for (int64_t i = 0; i < c.sq; ++i)
        for (int64_t e = 0; e < c.dv; ++e, ++n)
          c.command.operands[3].set(c.at(3, b, i, h) + e,
                                    static_cast<float>(c.y[n]));
  for (size_t i = 0; i < c.lse.size(); ++i)
    c.command.operands[4].set(i, static_cast<float>(c.lse[i]));
  runEverywhere(c.command, what, [&](const char *isa) {
    const auto &o = c.command.operands;
    compare(c, o[6], 5, c.dq, c.sq, c.h, c.d, what + ", dq, " + isa);
    compare(c, o[7], 6, c.dk, c.sk, c.g, c.d, what + ", dk, " + isa);
    compare(c, o[8], 7, c.dv_, c.sk, c.g, c.dv, what + ", dv, " + isa);
  });
}

void cputest::testAttention(std::mt19937 &random) {
  for (int i = 0; i < 60; ++i)
    testOneAttention(random, 50);
  for (int i = 0; i < 12; ++i)
    testOneAttention(random, 320);
}
