//===- AttentionCase.cpp - attention by plain loops -----------------------===//

#include "AttentionCase.h"

#include "kerf/Artifact/Format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

using namespace cudatest;

int64_t cudatest::pick(std::mt19937 &random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % (high - low + 1));
}

/// Place r has the r-th chunk from the front, then the r-th from the back.
int64_t AttentionCase::positionOf(int64_t row) const {
  if (zigzag == 0)
    return row;
  int64_t chunk = global[2] / zigzag / 2, place = row / (2 * chunk);
  int64_t in = row - place * 2 * chunk;
  return in < chunk ? place * chunk + in
                    : global[2] - (place + 1) * chunk + in - chunk;
}

bool AttentionCase::visible(int64_t bi, int64_t i, int64_t j) const {
  int64_t gi = positionOf(i + offsets[2]), gj = positionOf(j + offsets[3]);
  if ((causal && gj > gi) || (window && gj <= gi - window))
    return false;
  return !segments || segmentsQ[bi * sq + i] == segmentsK[bi * sk + j];
}

double AttentionCase::dropFactor(int64_t bi, int64_t hi, int64_t i,
                                 int64_t j) const {
  if (dropout == 0)
    return 1;
  uint64_t stream =
      kerf_random_stream(seed, step, layer, kerf_hash_name("drop"));
  uint64_t index = bi + offsets[0];
  index = index * global[1] + hi + offsets[1];
  index = index * global[2] + positionOf(i + offsets[2]);
  index = index * global[3] + positionOf(j + offsets[3]);
  double uniform = kerf_random_bits(stream, index) * 0x1.0p-24;
  return uniform >= dropout ? 1 / (1 - dropout) : 0;
}

double AttentionCase::product(int64_t bi, int64_t hi, int64_t i, int64_t j) {
  double s = 0;
  for (int64_t l = 0; l < d; ++l)
    s += q.at(bi, i, hi, l) * k.at(bi, j, hi / (h / g), l);
  return s;
}

double AttentionCase::scoreOf(double product) const {
  double s = product * scale;
  return softcap ? softcap * std::tanh(s / softcap) : s;
}

/// Of a score by its product of query and key.
double AttentionCase::slopeAt(int64_t bi, int64_t hi, int64_t i, int64_t j) {
  if (softcap == 0)
    return scale;
  double cosh = std::cosh(product(bi, hi, i, j) * scale / softcap);
  return scale / (cosh * cosh);
}

/// y and lse of a query, then its gradients.
void AttentionCase::computeRow(int64_t bi, int64_t hi, int64_t i) {
  int64_t gi = hi / (h / g);
  std::vector<double> p(sk, -INFINITY);
  double max = -INFINITY, total = 0;
  for (int64_t j = 0; j < sk; ++j) {
    double s = product(bi, hi, i, j);
    if (visible(bi, i, j))
      max = std::max(max, p[j] = scoreOf(s));
  }
  for (double &x : p)
    total += x = x == -INFINITY ? 0 : std::exp(x - max);
  lse[(bi * h + hi) * sq + i] = total > 0 ? max + std::log(total) : -1e30;
  for (int64_t j = 0; j < sk; ++j) {
    p[j] = total > 0 ? p[j] / total : 0;
    for (int64_t e = 0; e < dv; ++e)
      y.at(bi, i, hi, e) +=
          p[j] * dropFactor(bi, hi, i, j) * v.at(bi, j, gi, e);
  }
  addGradients(bi, hi, i, p);
}

void AttentionCase::addGradients(int64_t bi, int64_t hi, int64_t i,
                                 const std::vector<double> &p) {
  int64_t gi = hi / (h / g);
  double delta = 0;
  for (int64_t e = 0; e < dv; ++e)
    delta += dy.at(bi, i, hi, e) * y.at(bi, i, hi, e);
  for (int64_t j = 0; j < sk; ++j) {
    double factor = dropFactor(bi, hi, i, j), dp = 0;
    for (int64_t e = 0; e < dv; ++e) {
      dp += dy.at(bi, i, hi, e) * v.at(bi, j, gi, e);
      dvs.at(bi, j, gi, e) += p[j] * factor * dy.at(bi, i, hi, e);
    }
    double ds = p[j] * (dp * factor - delta) * slopeAt(bi, hi, i, j);
    for (int64_t l = 0; l < d; ++l) {
      dq.at(bi, i, hi, l) += ds * k.at(bi, j, gi, l);
      dk.at(bi, j, gi, l) += ds * q.at(bi, i, hi, l);
    }
  }
}

void AttentionCase::compute() {
  lse.assign(b * h * sq, 0);
  for (int64_t bi = 0; bi < b; ++bi)
    for (int64_t hi = 0; hi < h; ++hi)
      for (int64_t i = 0; i < sq; ++i)
        computeRow(bi, hi, i);
}

/// A tensor with gaps between rows, heads by position or the other way round.
static HeadArray layOut(std::mt19937 &random, int64_t b, int64_t rows,
                        int64_t heads, int64_t channels, bool wide) {
  int64_t unit = wide ? 8 : 1;
  int64_t head = channels + unit * pick(random, 0, 2);
  int64_t row = head * heads + 3 * unit;
  HeadArray t = {b, rows, heads, channels, {row * rows, row, head}, {}};
  if (pick(random, 0, 3) == 0) {
    t.strides[1] = head;
    t.strides[2] = head * rows;
  }
  t.values.resize(b * rows * heads * channels);
  return t;
}

void AttentionCase::draw(std::mt19937 &random, bool wide) {
  q = layOut(random, b, sq, h, d, wide);
  k = layOut(random, b, sk, g, d, wide);
  v = layOut(random, b, sk, g, dv, wide);
  y = layOut(random, b, sq, h, dv, wide);
  dy = layOut(random, b, sq, h, dv, wide);
  dq = layOut(random, b, sq, h, d, wide);
  dk = layOut(random, b, sk, g, d, wide);
  dvs = layOut(random, b, sk, g, dv, wide);
  for (HeadArray *t : {&q, &k, &v, &dy})
    for (double &value : t->values) // 64ths: exact in every dtype
      value = pick(random, -64, 64) / 64.0;
  for (int64_t i = 0; segments && i < b * sq; ++i)
    segmentsQ.push_back(i % sq * 3 / sq);
  for (int64_t i = 0; segments && i < b * sk; ++i)
    segmentsK.push_back(i % sk * 3 / sk);
}

std::vector<int64_t> AttentionCase::attributes() const {
  std::vector<int64_t> attrs = {dtype, b, h, g, sq, sk, d, dv};
  for (const HeadArray *t : {&q, &k, &v, &y, &dy, &dq, &dk, &dvs})
    attrs.insert(attrs.end(), t->strides, t->strides + 3);
  attrs.push_back(causal);
  attrs.push_back(window);
  attrs.push_back(std::bit_cast<int64_t>(scale));
  attrs.push_back(std::bit_cast<int64_t>(dropout));
  attrs.push_back(static_cast<int64_t>(kerf_hash_name("drop")));
  attrs.insert(attrs.end(), global, global + 4);
  attrs.push_back(zigzag);
  attrs.push_back(std::bit_cast<int64_t>(softcap));
  return attrs;
}

std::string AttentionCase::describe() const {
  char text[256];
  snprintf(text, sizeof text,
           "attention %s b=%lld h=%lld g=%lld sq=%lld sk=%lld d=%lld dv=%lld "
           "causal=%d window=%lld segments=%d dropout=%g scale=%.3g "
           "softcap=%g offsets=%lld,%lld zigzag=%lld",
           dtype == KERF_BF16  ? "bf16"
           : dtype == KERF_F16 ? "f16"
                               : "f32",
           (long long)b, (long long)h, (long long)g, (long long)sq,
           (long long)sk, (long long)d, (long long)dv, causal,
           (long long)window, segments, dropout, scale, softcap,
           (long long)offsets[2], (long long)offsets[3], (long long)zigzag);
  return text;
}
