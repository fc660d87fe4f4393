//===- AttentionForwardMma.cu - attention on tensor cores -----------------===//
//
// A block of four warps has 128 queries of a head, 32 of each warp, and goes
// over tiles of keys of which one is seen: s = q k^T, the weights of the online
// softmax, y += p v (Dao 2023, "FlashAttention-2"). There is room for two tiles
// of keys and values: the next ones are on their way meanwhile.
//
//===----------------------------------------------------------------------===//

#include "AttentionHead.h"
#include "Mma.h"

using namespace kerf::cuda;

namespace {

constexpr int m = mmaQueries / 64;

/// A block: `depth` channels of q and k in memory, `width` of y computed,
/// `keys` keys at a time.
template <class T, int depth, int width, int keys> struct Forward {
  using Scores = MmaSums<m, keys / 8>;
  static constexpr int columns = keys / 4; ///< scores of a row in a thread

  const AttentionArguments &a;
  BlockPlace place;
  int row; ///< the warp's first query
  HeadMask mask;
  SharedTile<depth> q;
  SoftmaxRow states[m][2];
  MmaSums<m, width / 8> y;

  KERF_MEMBER Forward(const AttentionArguments &a, uint32_t shared)
      : a(a),
        place(a.sq, mmaQueries, depth == width ? 1 : a.dvWidth, width, a.h),
        row(place.row + threadIndex() / warpThreads * 16 * m),
        mask(a, place.b, place.head), q{shared} {
    y.clear();
  }

  KERF_MEMBER SharedTile<depth> keyTile(int buffer) const {
    return {q.base + q.bytes(mmaQueries + buffer * keys)};
  }
  KERF_MEMBER SharedTile<width> valueTile(int buffer) const {
    return {keyTile(2).base + SharedTile<width>::bytes(buffer * keys)};
  }

  /// The first tile from `key` on of which a query sees a key, or past the
  /// end.
  KERF_MEMBER int nextTile(int key) const {
    while (key < a.sk && mask.hides(place.row, mmaQueries, key, keys))
      key += keys;
    return key;
  }

  KERF_MEMBER void copyKeys(int key, int buffer) const {
    int g = place.head / (a.h / a.g), count = a.sk - key;
    copyTile<keys, mmaThreads>(keyTile(buffer),
                               rowOf<const T>(a.k, place.b, key, g),
                               a.k.position, count, a.d);
    copyTile<keys, mmaThreads>(
        valueTile(buffer), rowOf<const T>(a.v, place.b, key, g) + place.channel,
        a.v.position, count, a.dvWidth - place.channel);
    endCopies();
  }

  KERF_MEMBER void look(int key, bool open, ScoreBits (&bits)[m]) const {
#pragma unroll
    for (int i = 0; i < m; ++i)
      bits[i] = mask.bits<2, columns>(
          open, [&](int half) { return row + sumRow(i, 2 * half); },
          [&](int j) { return key + sumColumn(j / 2, j % 2); });
  }

  KERF_MEMBER void capAll(Scores &scores) const {
#pragma unroll
    for (int i = 0; i < m * 2 * columns; ++i) {
      int r = i / columns, j = i % columns;
      float &s = scores.at[r / 2][j / 2][r % 2 * 2 + j % 2];
      s = capped(a, s);
    }
  }

  KERF_MEMBER void hide(Scores &scores, const ScoreBits (&bits)[m]) const {
#pragma unroll
    for (int i = 0; i < m * 2 * columns; ++i) {
      int r = i / columns, j = i % columns;
      float &s = scores.at[r / 2][j / 2][r % 2 * 2 + j % 2];
      s = bits[r / 2].isVisible(r % 2 * columns + j) ? s : -infinity;
    }
  }

  KERF_MEMBER void drop(Scores &weights, const ScoreBits (&bits)[m]) const {
#pragma unroll
    for (int i = 0; i < m * 2 * columns; ++i) {
      int r = i / columns, j = i % columns;
      weights.at[r / 2][j / 2][r % 2 * 2 + j % 2] *=
          bits[r / 2].keep(a, r % 2 * columns + j);
    }
  }

  /// What row `r` of a thread has of y is multiplied.
  KERF_MEMBER void scaleRow(int r, float factor) {
#pragma unroll
    for (int j = 0; j < width / 4; ++j)
      y.at[r / 2][j / 2][r % 2 * 2 + j % 2] *= factor;
  }

  KERF_MEMBER void weigh(Scores &scores);
  KERF_MEMBER void finish();
  KERF_MEMBER void run();
};

/// Scores become weights; sums so far are corrected.
template <class T, int depth, int width, int keys>
KERF_MEMBER void Forward<T, depth, width, keys>::weigh(Scores &scores) {
  float unit = a.unit; // above 0
#pragma unroll
  for (int r = 0; r < 2 * m; ++r) {
    SoftmaxRow &state = states[r / 2][r % 2];
    float top = -infinity;
#pragma unroll
    for (int j = 0; j < columns; ++j)
      top = largest(top, scores.at[r / 2][j / 2][r % 2 * 2 + j % 2]);
    float correction = state.raise(quadLargest(top) * unit);
    if (anyLane(correction != 1)) // seldom, after some tiles
      scaleRow(r, correction);
    float base = state.base();
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      float &s = scores.at[r / 2][j / 2][r % 2 * 2 + j % 2];
      s = exp2Of(s * unit - base);
      state.sum += s;
    }
  }
}

template <class T, int depth, int width, int keys>
KERF_MEMBER void Forward<T, depth, width, keys>::finish() {
#pragma unroll
  for (int r = 0; r < 2 * m; ++r) {
    SoftmaxRow &state = states[r / 2][r % 2];
    state.sum = quadSum(state.sum);
    scaleRow(r, state.empty() ? 0.0f : 1 / state.sum);
    int query = row + sumRow(r / 2, r % 2 * 2);
    if (a.lse && place.channel == 0 && laneIndex() % 4 == 0 && query < a.sq)
      a.lse[statIndex(a, place.b, place.head, query)] = state.lse();
  }
  storeSums(y, rowOf<T>(a.y, place.b, row, place.head) + place.channel,
            a.y.position, a.sq - row, a.dvWidth - place.channel);
}

template <class T, int depth, int width, int keys>
KERF_MEMBER void Forward<T, depth, width, keys>::run() {
  copyTile<mmaQueries, mmaThreads>(
      q, rowOf<const T>(a.q, place.b, place.row, place.head), a.q.position,
      a.sq - place.row, a.d);
  int key = nextTile(0), buffer = 0;
  if (key < a.sk)
    copyKeys(key, buffer);
  for (; key < a.sk; buffer ^= 1) {
    waitForCopies<0>();
    barrier(); // copies of all are there; no warp uses the other buffer
    int next = nextTile(key + keys);
    if (next < a.sk)
      copyKeys(next, buffer ^ 1);
    ScoreBits bits[m];
    bool open = mask.isOpenTile(place.row, mmaQueries, key, keys);
    look(key, open, bits);
    Scores scores;
    multiplyTiles<T>(scores, q, row - place.row, keyTile(buffer), a.d);
    if (a.cap)
      capAll(scores);
    if (!open)
      hide(scores, bits);
    weigh(scores);
    if (a.threshold)
      drop(scores, bits);
    addRows<T>(y, scores, valueTile(buffer), 0);
    key = next;
  }
  waitForCopies<0>();
  finish();
}

} // namespace

extern __shared__ __attribute__((aligned(1024))) char dynamicShared[];

#define KERF_NAMED(NUMBER, DEPTH) attention_mma_##NUMBER##_##DEPTH
#define KERF_NAME(NUMBER, DEPTH) KERF_NAMED(NUMBER, DEPTH)
#define KERF_FORWARD(DEPTH)                                                    \
  KERF_KERNEL(mmaThreads, 2)                                                   \
  void KERF_NAME(KERF_NUMBER, DEPTH)(const AttentionArguments a) {             \
    constexpr MmaPlan plan = *mmaPlanOf(DEPTH);                                \
    Forward<Number::KERF_NUMBER, plan.depth, plan.width, plan.keys>(           \
        a, sharedAddress(dynamicShared))                                       \
        .run();                                                                \
  }

KERF_FORWARD(64)
KERF_FORWARD(128)
KERF_FORWARD(256)
