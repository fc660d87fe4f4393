//===- AttentionPlain.cu - attention of any numbers, without tensor cores -===//
//
// For f32, and for whatever the kernels on tensor cores do not take. A block
// has 64 channels of the result of 64 rows and computes the scores that it
// needs itself: results of more channels compute scores again. Scores in units
// of log2(e), one tile of 64 x 64 at a time (Dao et al. 2022,
// "FlashAttention"). No block adds to another's results, sums have one order.
//
//===----------------------------------------------------------------------===//

#include "AttentionHead.h"
#include "PlainTile.h"

using namespace kerf::cuda;

namespace {

/// A query head with its key head.
template <class T> struct Head {
  const AttentionArguments &a;
  int b, h, g;
  HeadMask mask;

  KERF_MEMBER Head(const AttentionArguments &a, int b, int h)
      : a(a), b(b), h(h), g(h / (a.h / a.g)), mask(a, b, h) {}

  KERF_MEMBER Rows<T> rows(const HeadTensor &tensor, int row, int count,
                           int head, int channels) const {
    // Computed anew for each tile: kept, its parts would take registers.
    return {rowOf<T>(tensor, opaque(b), row, head), tensor.position,
            count - row, channels};
  }
  KERF_MEMBER Rows<T> q(int row) const { return rows(a.q, row, a.sq, h, a.d); }
  KERF_MEMBER Rows<T> k(int row) const { return rows(a.k, row, a.sk, g, a.d); }
  KERF_MEMBER Rows<T> v(int row) const {
    return rows(a.v, row, a.sk, g, a.dvWidth);
  }
  KERF_MEMBER Rows<T> dy(int row) const {
    return rows(a.dy, row, a.sq, h, a.dvWidth);
  }
  KERF_MEMBER bool isHiddenTile(int query, int key) const {
    return mask.hides(query, tileSide, key, tileSide);
  }
  /// Bits of the scores of a tile whose rows are queries: 4 i + j.
  KERF_MEMBER ScoreBits bits(int query, int key) const {
    return mask.bits<4, 4>(
        mask.isOpenTile(query, tileSide, key, tileSide),
        [&](int i) { return query + tileRow(i); },
        [&](int j) { return key + tileColumn(j); });
  }
  /// Of one whose rows are keys: i + 4 j.
  KERF_MEMBER ScoreBits bitsByKey(int query, int key) const {
    return mask.bits<4, 4>(
        mask.isOpenTile(query, tileSide, key, tileSide),
        [&](int j) { return query + tileColumn(j); },
        [&](int i) { return key + tileRow(i); });
  }
};

/// The largest or the sum over the 16 threads of a row.
KERF_DEVICE float rowLargest(float x) {
  for (int bits = 1; bits < 16; bits *= 2)
    x = largest(x, exchange(x, bits));
  return x;
}
KERF_DEVICE float rowSum(float x) {
  for (int bits = 1; bits < 16; bits *= 2)
    x += exchange(x, bits);
  return x;
}

template <class T>
KERF_DEVICE void storeTile(const PlainSums &sums, T *to, int64_t stride,
                           int rows, int channel, int channels) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    int row = tileRow(i / 4), column = channel + tileColumn(i % 4);
    if (row < rows && column < channels)
      to[row * stride + column] = (T)sums.at[i / 4][i % 4];
  }
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

/// Scores of a tile become weights; `sums` are corrected.
KERF_DEVICE void weigh(const AttentionArguments &a, const ScoreBits &bits,
                       PlainSums &scores, SoftmaxRow (&states)[4],
                       PlainSums &sums) {
  if (a.cap > 0)
#pragma unroll
    for (int i = 0; i < 16; ++i)
      scores.at[i / 4][i % 4] = capped(a, scores.at[i / 4][i % 4]);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float top = -infinity, total = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float &s = scores.at[i][j];
      s = bits.isVisible(4 * i + j) ? s * a.unit : -infinity;
      top = largest(top, s);
    }
    float correction = states[i].raise(rowLargest(top));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float &s = scores.at[i][j];
      s = exp2Of(s - states[i].base());
      total += s;
      if (a.threshold)
        s *= bits.keep(a, 4 * i + j);
      sums.at[i][j] *= correction;
    }
    states[i].sum += rowSum(total);
  }
}

template <class T>
KERF_DEVICE void finish(const Head<T> &head, const BlockPlace &place,
                        const SoftmaxRow (&states)[4], PlainSums &sums) {
  const AttentionArguments &a = head.a;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      sums.at[i][j] = states[i].empty() ? 0 : sums.at[i][j] / states[i].sum;
    int query = place.row + tileRow(i);
    if (a.lse && place.channel == 0 && tileColumn(0) == 0 && query < a.sq)
      a.lse[statIndex(a, head.b, head.h, query)] = states[i].lse();
  }
  storeTile(sums, rowOf<T>(a.y, head.b, place.row, head.h), a.y.position,
            a.sq - place.row, place.channel, a.dvWidth);
}

template <class T> KERF_DEVICE void forward(const AttentionArguments &a) {
  __shared__ PlainShared shared;
  BlockPlace place(a.sq, tileSide, a.dvWidth, tileSide, a.h);
  Head<T> head(a, place.b, place.head);
  SoftmaxRow states[4];
  PlainSums sums, scores;
  sums.clear();
  for (int key = 0; key < a.sk; key += tileSide) {
    if (head.isHiddenTile(place.row, key))
      continue;
    ScoreBits bits = head.bits(place.row, key);
    multiplyRows(shared, head.q(place.row), head.k(key), scores);
    weigh(a, bits, scores, states, sums);
    addWeighted(shared, scores, head.v(key), place.channel, sums);
  }
  finish(head, place, states, sums);
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// What the backward pass knows of a query.
struct QueryStat {
  float lse, delta; ///< lse in units of log2(e)
};

template <class T>
KERF_DEVICE QueryStat statOf(const Head<T> &head, int query) {
  const AttentionArguments &a = head.a;
  if (query >= a.sq)
    return {0, 0};
  int64_t at = statIndex(a, head.b, head.h, query);
  return {a.lse[at] * log2e, a.delta[at]};
}

/// A score and its dp become the weight (with dropout) and the score's
/// gradient.
KERF_DEVICE void weighGradient(const AttentionArguments &a,
                               const QueryStat &query, const ScoreBits &bits,
                               int bit, float &s, float &dp) {
  bool visible = bits.isVisible(bit);
  float score = capped(a, s);
  float p = visible ? exp2Of(score * a.unit - query.lse) : 0.0f;
  float keep = a.threshold ? bits.keep(a, bit) : 1.0f;
  s = p * keep;
  dp = visible ? p * (dp * keep - query.delta) * a.scale * capSlope(a, score)
               : 0.0f;
}

template <class T> KERF_DEVICE void queryGradient(const AttentionArguments &a) {
  __shared__ PlainShared shared;
  BlockPlace place(a.sq, tileSide, a.d, tileSide, a.h);
  Head<T> head(a, place.b, place.head);
  PlainSums sums, scores, dp;
  sums.clear();
  for (int key = 0; key < a.sk; key += tileSide) {
    if (head.isHiddenTile(place.row, key))
      continue;
    ScoreBits bits = head.bits(place.row, key);
    multiplyRows(shared, head.q(place.row), head.k(key), scores);
    multiplyRows(shared, head.dy(place.row), head.v(key), dp);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      QueryStat query = statOf(head, place.row + tileRow(i));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        weighGradient(a, query, bits, 4 * i + j, scores.at[i][j], dp.at[i][j]);
    }
    addWeighted(shared, dp, head.k(key), place.channel, sums);
  }
  storeTile(sums, rowOf<T>(a.dq, place.b, place.row, place.head), a.dq.position,
            a.sq - place.row, place.channel, a.d);
}

/// Adds what one tile of queries gives to the gradients of keys and values.
template <class T>
KERF_DEVICE void addQueries(PlainShared &shared, const Head<T> &head,
                            const BlockPlace &place, int query, PlainSums &dk,
                            PlainSums &dv) {
  const AttentionArguments &a = head.a;
  PlainSums scores, dp; // rows are keys
  ScoreBits bits = head.bitsByKey(query, place.row);
  multiplyRows(shared, head.k(place.row), head.q(query), scores);
  multiplyRows(shared, head.v(place.row), head.dy(query), dp);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    QueryStat stat = statOf(head, query + tileColumn(j));
#pragma unroll
    for (int i = 0; i < 4; ++i)
      weighGradient(a, stat, bits, i + 4 * j, scores.at[i][j], dp.at[i][j]);
  }
  if (place.channel < a.dvWidth)
    addWeighted(shared, scores, head.dy(query), place.channel, dv);
  if (place.channel < a.d)
    addWeighted(shared, dp, head.q(query), place.channel, dk);
}

template <class T> KERF_DEVICE void keyGradient(const AttentionArguments &a) {
  __shared__ PlainShared shared;
  BlockPlace place(a.sk, tileSide, most(a.d, a.dvWidth), tileSide, a.g);
  PlainSums dk, dv;
  dk.clear();
  dv.clear();
  int heads = a.h / a.g;
  for (int h = place.head * heads; h < (place.head + 1) * heads; ++h) {
    Head<T> head(a, place.b, h);
    for (int query = 0; query < a.sq; query += tileSide)
      if (!head.isHiddenTile(query, place.row))
        addQueries(shared, head, place, query, dk, dv);
  }
  storeTile(dk, rowOf<T>(a.dk, place.b, place.row, place.head), a.dk.position,
            a.sk - place.row, place.channel, a.d);
  storeTile(dv, rowOf<T>(a.dv, place.b, place.row, place.head), a.dv.position,
            a.sk - place.row, place.channel, a.dvWidth);
}

} // namespace

#define KERF_NAMED(NAME, NUMBER) NAME##_##NUMBER
#define KERF_NAME(NAME, NUMBER) KERF_NAMED(NAME, NUMBER)
#define KERF_PLAIN(NAME, FUNCTION)                                             \
  KERF_KERNEL(plainThreads, 2)                                                 \
  void KERF_NAME(NAME, KERF_NUMBER)(const AttentionArguments a) {              \
    FUNCTION<Number::KERF_NUMBER>(a);                                          \
  }

KERF_PLAIN(attention_plain, forward)
KERF_PLAIN(attention_plain_dq, queryGradient)
KERF_PLAIN(attention_plain_dkv, keyGradient)
