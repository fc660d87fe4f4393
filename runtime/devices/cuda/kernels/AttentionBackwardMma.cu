//===- AttentionBackwardMma.cu - gradients of attention on tensor cores ---===//
//
// Two kernels, so that no two blocks add to the same sum: gradients of queries,
// by tiles of queries over keys, and of keys and values, by tiles of keys over
// the queries of all heads that share them. Both compute the weights again from
// the log-sum-exp: p = exp(s - lse), ds = p (dp - delta), where dp = dy v^T
// (Dao et al. 2022, "FlashAttention"). A warp has 16 m rows of the block's,
// where registers suffice 32, so that what it loads is used twice; what it
// streams has room for `buffers` tiles, of which one is on its way.
//
//===----------------------------------------------------------------------===//

#include "AttentionHead.h"
#include "Mma.h"

using namespace kerf::cuda;

namespace {

/// Both sides of a tile of scores in shared memory: rows of the block, and
/// `columns` streamed ones.
template <int depth, int tileRows, int columns, int buffers> struct Tiles {
  uint32_t base;

  using Tile = SharedTile<depth>;
  KERF_MEMBER Tile rows(int which) const {
    return {base + Tile::bytes(which * tileRows)};
  }
  KERF_MEMBER Tile streamed(int which, int buffer) const {
    return {base + Tile::bytes(2 * tileRows + (2 * buffer + which) * columns)};
  }
  /// Two numbers of each streamed query: lse and delta.
  KERF_MEMBER uint32_t stats(int which, int buffer) const {
    return base + Tile::bytes(2 * tileRows + 2 * buffers * columns) +
           (2 * buffer + which) * columns * 4;
  }
};

template <class T, int rows, int depth>
KERF_DEVICE void copyRows(const SharedTile<depth> &to, const HeadTensor &from,
                          int b, int row, int head, int count, int width) {
  copyTile<rows, mmaThreads>(to, rowOf<const T>(from, b, row, head),
                             from.position, count - row, width);
}

/// A score and its dp become the weight (with dropout) and the score's
/// gradient, but for the scale.
KERF_DEVICE void weighGradient(const AttentionArguments &a, bool open,
                               const ScoreBits &bits, int bit, float lse,
                               float delta, float &s, float &dp) {
  float p = exp2Of(s * (a.scale * log2e) - lse * log2e);
  if (!open)
    p = bits.isVisible(bit) ? p : 0.0f;
  s = p;
  if (a.threshold) {
    float keep = bits.keep(a, bit);
    s *= keep;
    dp *= keep;
  }
  dp = p * (dp - delta);
  if (!open) // dp may be anything where nothing is seen
    dp = bits.isVisible(bit) ? dp : 0.0f;
}

template <int m, int n>
KERF_DEVICE void scaleSums(MmaSums<m, n> &sums, float factor) {
#pragma unroll
  for (int i = 0; i < m * n * 4; ++i)
    sums.at[i / 4 / n][i / 4 % n][i % 4] *= factor;
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

template <class T, int depth, int width, int tileRows, int keys, int buffers>
struct QueryGradient {
  static constexpr int m = tileRows / 64;
  using Scores = MmaSums<m, keys / 8>;
  enum { Q, Dy };
  enum { K, V };

  const AttentionArguments &a;
  BlockPlace place;
  int row; ///< the warp's first query
  HeadMask mask;
  Tiles<depth, tileRows, keys, buffers> tiles;
  float lse[2 * m], delta[2 * m];
  MmaSums<m, width / 8> dq;

  KERF_MEMBER QueryGradient(const AttentionArguments &a, uint32_t shared)
      : a(a), place(a.sq, tileRows, depth == width ? 1 : a.d, width, a.h),
        row(place.row + threadIndex() / warpThreads * 16 * m),
        mask(a, place.b, place.head), tiles{shared} {
    dq.clear();
#pragma unroll
    for (int i = 0; i < 2 * m; ++i) {
      int64_t at = statIndex(a, place.b, place.head,
                             least(row + sumRow(i / 2, i % 2 * 2), a.sq - 1));
      lse[i] = a.lse[at];
      delta[i] = a.delta[at];
    }
  }

  KERF_MEMBER int nextTile(int key) const {
    while (key < a.sk && mask.hides(place.row, tileRows, key, keys))
      key += keys;
    return key;
  }

  KERF_MEMBER void copyKeys(int key, int buffer) const {
    int g = place.head / (a.h / a.g);
    copyRows<T, keys>(tiles.streamed(K, buffer), a.k, place.b, key, g, a.sk,
                      a.d);
    copyRows<T, keys>(tiles.streamed(V, buffer), a.v, place.b, key, g, a.sk,
                      a.dvWidth);
    endCopies();
  }

  KERF_MEMBER void addKeys(int key, int buffer) {
    bool open = mask.isOpenTile(place.row, tileRows, key, keys);
    ScoreBits bits[m];
#pragma unroll
    for (int i = 0; i < m; ++i)
      bits[i] = mask.bits<2, keys / 4>(
          open, [&](int half) { return row + sumRow(i, 2 * half); },
          [&](int j) { return key + sumColumn(j / 2, j % 2); });
    Scores scores, dp;
    multiplyTiles<T>(scores, tiles.rows(Q), row - place.row,
                     tiles.streamed(K, buffer), a.d);
    multiplyTiles<T>(dp, tiles.rows(Dy), row - place.row,
                     tiles.streamed(V, buffer), a.dvWidth);
#pragma unroll
    for (int i = 0; i < m * keys / 2; ++i) {
      int r = i / (keys / 4), j = i % (keys / 4), e = r % 2 * 2 + j % 2;
      weighGradient(a, open, bits[r / 2], i % (keys / 2), lse[r], delta[r],
                    scores.at[r / 2][j / 2][e], dp.at[r / 2][j / 2][e]);
    }
    addRows<T>(dq, dp, tiles.streamed(K, buffer),
               place.channel / chunkChannels);
  }

  KERF_MEMBER void run();
};

template <class T, int depth, int width, int tileRows, int keys, int buffers>
KERF_MEMBER void
QueryGradient<T, depth, width, tileRows, keys, buffers>::run() {
  copyRows<T, tileRows>(tiles.rows(Q), a.q, place.b, place.row, place.head,
                        a.sq, a.d);
  copyRows<T, tileRows>(tiles.rows(Dy), a.dy, place.b, place.row, place.head,
                        a.sq, a.dvWidth);
  int key = nextTile(0), buffer = 0;
  if (key < a.sk)
    copyKeys(key, buffer);
  while (key < a.sk) {
    waitForCopies<0>();
    barrier(); // copies of all are there; no warp uses the other buffer
    int next = nextTile(key + keys);
    if (buffers == 2 && next < a.sk)
      copyKeys(next, buffer ^ 1);
    addKeys(key, buffer);
    if (buffers == 1) {
      barrier(); // no warp uses the buffer any more
      if (next < a.sk)
        copyKeys(next, buffer);
    }
    key = next;
    buffer ^= buffers - 1;
  }
  waitForCopies<0>();
  scaleSums(dq, a.scale);
  storeSums(dq, rowOf<T>(a.dq, place.b, row, place.head) + place.channel,
            a.dq.position, a.sq - row, a.d - place.channel);
}

//===----------------------------------------------------------------------===//
// Keys and values
//===----------------------------------------------------------------------===//

/// A tile of queries of one head.
struct QueryTile {
  int head, query;
};

template <class T, int depth, int width, int tileRows, int queries, int buffers>
struct KeyGradient {
  static constexpr int m = tileRows / 64;
  using Scores = MmaSums<m, queries / 8>; ///< rows are keys
  enum { K, V };
  enum { Q, Dy };

  const AttentionArguments &a;
  BlockPlace place;
  int row, endHead; ///< the warp's first key; behind the last head
  HeadMask mask;
  Tiles<depth, tileRows, queries, buffers> tiles;
  MmaSums<m, width / 8> dk, dv;

  KERF_MEMBER KeyGradient(const AttentionArguments &a, uint32_t shared)
      : a(a), place(a.sk, tileRows, depth == width ? 1 : most(a.d, a.dvWidth),
                    width, a.g),
        row(place.row + threadIndex() / warpThreads * 16 * m),
        endHead((place.head + 1) * (a.h / a.g)), mask(a, place.b, 0),
        tiles{shared} {
    dk.clear();
    dv.clear();
  }

  /// The first tile from this one on that sees a key, or past the last head.
  KERF_MEMBER QueryTile nextTile(QueryTile at) const {
    for (; at.head < endHead; ++at.head, at.query = 0)
      for (; at.query < a.sq; at.query += queries)
        if (!mask.hides(at.query, queries, place.row, tileRows))
          return at;
    return at;
  }

  KERF_MEMBER void copyQueries(QueryTile at, int buffer) const {
    copyRows<T, queries>(tiles.streamed(Q, buffer), a.q, place.b, at.query,
                         at.head, a.sq, a.d);
    copyRows<T, queries>(tiles.streamed(Dy, buffer), a.dy, place.b, at.query,
                         at.head, a.sq, a.dvWidth);
    int column = threadIndex() % queries, which = threadIndex() / queries;
    // A row that does not exist is not read, but its address must be one.
    int64_t index =
        statIndex(a, place.b, at.head, least(at.query + column, a.sq - 1));
    if (which < 2)
      startSmallCopy(tiles.stats(which, buffer) + column * 4,
                     (which ? a.delta : a.lse) + index,
                     at.query + column < a.sq);
    endCopies();
  }

  KERF_MEMBER void weigh(const ScoreBits (&bits)[m], bool open, int buffer,
                         Scores &scores, Scores &dp) const;
  KERF_MEMBER void addQueries(QueryTile at, int buffer);
  KERF_MEMBER void run();
};

template <class T, int depth, int width, int tileRows, int queries, int buffers>
KERF_MEMBER void
KeyGradient<T, depth, width, tileRows, queries, buffers>::weigh(
    const ScoreBits (&bits)[m], bool open, int buffer, Scores &scores,
    Scores &dp) const {
  uint32_t lseAt = tiles.stats(0, buffer) + sumColumn(0, 0) * 4;
  uint32_t deltaAt = tiles.stats(1, buffer) + sumColumn(0, 0) * 4;
#pragma unroll
  for (int j = 0; j < queries / 8; ++j) {
    float lse[2], delta[2];
    loadPair(lse, lseAt + j * 32);
    loadPair(delta, deltaAt + j * 32);
#pragma unroll
    for (int i = 0; i < m * 4; ++i) {
      int e = i % 4;
      weighGradient(a, open, bits[i / 4], (2 * j + e % 2) * 2 + e / 2,
                    lse[e % 2], delta[e % 2], scores.at[i / 4][j][e],
                    dp.at[i / 4][j][e]);
    }
  }
}

template <class T, int depth, int width, int tileRows, int queries, int buffers>
KERF_MEMBER void
KeyGradient<T, depth, width, tileRows, queries, buffers>::addQueries(
    QueryTile at, int buffer) {
  bool open = mask.isOpenTile(at.query, queries, place.row, tileRows);
  mask.h = at.head;
  ScoreBits bits[m];
#pragma unroll
  for (int i = 0; i < m; ++i)
    bits[i] = mask.bits<queries / 4, 2>(
        open, [&](int j) { return at.query + sumColumn(j / 2, j % 2); },
        [&](int half) { return row + sumRow(i, 2 * half); });
  Scores scores, dp;
  multiplyTiles<T>(scores, tiles.rows(K), row - place.row,
                   tiles.streamed(Q, buffer), a.d);
  multiplyTiles<T>(dp, tiles.rows(V), row - place.row,
                   tiles.streamed(Dy, buffer), a.dvWidth);
  weigh(bits, open, buffer, scores, dp);
  int chunk = place.channel / chunkChannels;
  if (depth == width || place.channel < a.dvWidth)
    addRows<T>(dv, scores, tiles.streamed(Dy, buffer), chunk);
  if (depth == width || place.channel < a.d)
    addRows<T>(dk, dp, tiles.streamed(Q, buffer), chunk);
}

template <class T, int depth, int width, int tileRows, int queries, int buffers>
KERF_MEMBER void
KeyGradient<T, depth, width, tileRows, queries, buffers>::run() {
  copyRows<T, tileRows>(tiles.rows(K), a.k, place.b, place.row, place.head,
                        a.sk, a.d);
  copyRows<T, tileRows>(tiles.rows(V), a.v, place.b, place.row, place.head,
                        a.sk, a.dvWidth);
  QueryTile at = nextTile({place.head * (a.h / a.g), 0});
  int buffer = 0;
  if (at.head < endHead)
    copyQueries(at, buffer);
  while (at.head < endHead) {
    waitForCopies<0>();
    barrier(); // copies of all are there; no warp uses the other buffer
    QueryTile next = nextTile({at.head, at.query + queries});
    if (buffers == 2 && next.head < endHead)
      copyQueries(next, buffer ^ 1);
    addQueries(at, buffer);
    if (buffers == 1) {
      barrier(); // no warp uses the buffer any more
      if (next.head < endHead)
        copyQueries(next, buffer);
    }
    at = next;
    buffer ^= buffers - 1;
  }
  waitForCopies<0>();
  scaleSums(dk, a.scale);
  storeSums(dk, rowOf<T>(a.dk, place.b, row, place.head) + place.channel,
            a.dk.position, a.sk - row, a.d - place.channel);
  storeSums(dv, rowOf<T>(a.dv, place.b, row, place.head) + place.channel,
            a.dv.position, a.sk - row, a.dvWidth - place.channel);
}

} // namespace

extern __shared__ __attribute__((aligned(1024))) char dynamicShared[];

#define KERF_NAMED(KIND, NUMBER, DEPTH)                                        \
  attention_mma_##KIND##_##NUMBER##_##DEPTH
#define KERF_NAME(KIND, NUMBER, DEPTH) KERF_NAMED(KIND, NUMBER, DEPTH)
#define KERF_BACKWARD(DEPTH)                                                   \
  KERF_KERNEL(mmaThreads, 2)                                                   \
  void KERF_NAME(dq, KERF_NUMBER, DEPTH)(const AttentionArguments a) {         \
    constexpr MmaPlan plan = *mmaPlanOf(DEPTH);                                \
    QueryGradient<Number::KERF_NUMBER, plan.depth, plan.width, plan.dqQueries, \
                  plan.dqKeys, plan.dqBuffers>(a,                              \
                                               sharedAddress(dynamicShared))   \
        .run();                                                                \
  }                                                                            \
  KERF_KERNEL(mmaThreads, 2)                                                   \
  void KERF_NAME(dkv, KERF_NUMBER, DEPTH)(const AttentionArguments a) {        \
    constexpr MmaPlan plan = *mmaPlanOf(DEPTH);                                \
    KeyGradient<Number::KERF_NUMBER, plan.depth, plan.width, plan.dkvKeys,     \
                plan.dkvQueries, plan.dkvBuffers>(                             \
        a, sharedAddress(dynamicShared))                                       \
        .run();                                                                \
  }

KERF_BACKWARD(64)
KERF_BACKWARD(128)
KERF_BACKWARD(256)
