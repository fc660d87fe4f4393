//===- AttentionMask.h - who sees whom, and what dropout drops ------------===//
//
// A row of a rank has a position in the whole sequence: its number plus the
// rank's offset, mapped by kerf_zigzag where rows lie in that order. Tiles that
// the mask hides are skipped, tiles that it shows whole are not looked into.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_ATTENTIONMASK_H
#define KERF_DEVICES_CUDA_KERNELS_ATTENTIONMASK_H

#include "AttentionArguments.h"
#include "Cuda.h"

#pragma clang force_cuda_host_device begin
#include "kerf/Artifact/Format.h"
#pragma clang force_cuda_host_device end

namespace kerf::cuda {

KERF_DEVICE int scalarOf(const int32_t *pointer, int otherwise) {
  return pointer ? *pointer : otherwise;
}

/// Position of a row that is `row` of the whole before the order.
KERF_DEVICE int positionOf(const AttentionArguments &a, int row) {
  if (a.zigzag == 0)
    return row;
  int part = row / a.chunk, place = part / 2;
  return (part % 2 ? 2 * a.zigzag - 1 - place : place) * a.chunk +
         row % a.chunk;
}

/// Positions of a tile lie in [low, high].
struct PositionRange {
  int low, high;
};

/// Of `count` rows from `row` of the whole: exact where they lie in one chunk.
KERF_DEVICE PositionRange positionsOf(const AttentionArguments &a, int row,
                                      int count) {
  if (a.zigzag != 0 && row / a.chunk != (row + count - 1) / a.chunk)
    return {0, 2 * a.zigzag * a.chunk - 1};
  int first = positionOf(a, row);
  return {first, first + count - 1};
}

KERF_DEVICE bool sees(const AttentionArguments &a, int query, int key) {
  return (!a.causal || key <= query) && (!a.window || key > query - a.window);
}

/// No query of the one range sees a key of the other.
KERF_DEVICE bool isHidden(const AttentionArguments &a, PositionRange queries,
                          PositionRange keys) {
  return (a.causal && keys.low > queries.high) ||
         (a.window && keys.high <= queries.low - a.window);
}

/// Every query of the one range sees every key of the other by position.
KERF_DEVICE bool isOpen(const AttentionArguments &a, PositionRange queries,
                        PositionRange keys) {
  return sees(a, queries.low, keys.high) && sees(a, queries.high, keys.low);
}

/// A row as masks see it; one that does not exist has the segment of nobody.
struct MaskRow {
  int position;
  int segment; ///< 0 without segments
  bool exists;
};

/// Rows of one side of a head's scores.
struct MaskSide {
  const int32_t *segments; ///< of the batch row; null: none
  int rows, offset;

  KERF_MEMBER MaskRow at(const AttentionArguments &a, int row) const {
    bool exists = row < rows;
    return {positionOf(a, row + offset), segments && exists ? segments[row] : 0,
            exists};
  }
};

KERF_DEVICE bool isVisible(const AttentionArguments &a, const MaskRow &query,
                           const MaskRow &key) {
  return query.exists && key.exists && query.segment == key.segment &&
         sees(a, query.position, key.position);
}

/// Random numbers of a head.
struct HeadDropout {
  uint64_t stream, head; ///< head: index of its first query

  KERF_MEMBER HeadDropout(const AttentionArguments &a, int b, int h)
      : stream(kerf_random_stream(scalarOf(a.seed, 0), scalarOf(a.step, 0),
                                  scalarOf(a.layer, -1), a.nameHash)) {
    head = (uint64_t)(b + scalarOf(a.offsetB, 0)) * (uint64_t)a.global[1] +
           (uint64_t)(h + scalarOf(a.offsetH, 0));
    head *= (uint64_t)a.global[2];
  }
  /// Is the weight of a query's key kept, by their positions?
  KERF_MEMBER bool keeps(const AttentionArguments &a, int query,
                         int key) const {
    uint64_t index =
        (head + (uint64_t)query) * (uint64_t)a.global[3] + (uint64_t)key;
    return kerf_random_bits(stream, index) >= a.threshold;
  }
};

/// The scores of a thread in a tile, up to 32, a bit for each.
struct ScoreBits {
  uint32_t visible, kept;

  KERF_MEMBER bool isVisible(int bit) const { return visible >> bit & 1; }
  /// What dropout multiplies a weight by.
  KERF_MEMBER float keep(const AttentionArguments &a, int bit) const {
    return kept >> bit & 1 ? a.keep : 0.0f;
  }
};

/// Who sees whom in a head.
struct HeadMask {
  const AttentionArguments &a;
  int b, h;
  int queryOffset, keyOffset;

  KERF_MEMBER HeadMask(const AttentionArguments &a, int b, int h)
      : a(a), b(b), h(h), queryOffset(scalarOf(a.offsetQ, 0)),
        keyOffset(scalarOf(a.offsetK, 0)) {}

  KERF_MEMBER MaskSide queries() const {
    return {a.segmentsQ ? a.segmentsQ + (int64_t)opaque(b) * a.sq : nullptr,
            a.sq, queryOffset};
  }
  KERF_MEMBER MaskSide keys() const {
    return {a.segmentsK ? a.segmentsK + (int64_t)opaque(b) * a.sk : nullptr,
            a.sk, keyOffset};
  }
  /// Of tiles of `queryCount` and `keyCount` rows: no query sees a key.
  KERF_MEMBER bool hides(int query, int queryCount, int key,
                         int keyCount) const {
    return isHidden(a, queryRange(query, queryCount), keyRange(key, keyCount));
  }
  /// All rows exist and every query sees every key.
  KERF_MEMBER bool isOpenTile(int query, int queryCount, int key,
                              int keyCount) const {
    return !a.segmentsQ && query + queryCount <= a.sq &&
           key + keyCount <= a.sk &&
           isOpen(a, queryRange(query, queryCount), keyRange(key, keyCount));
  }
  /// Bits of scores, [queries, keys] of a thread, those of a query side by
  /// side: `queryAt` and `keyAt` tell their rows. A loop, before the scores
  /// are computed, since it wants registers.
  template <int queryCount, int keyCount, class QueryAt, class KeyAt>
  KERF_MEMBER ScoreBits bits(bool open, QueryAt queryAt, KeyAt keyAt) const {
    ScoreBits bits = {open ? ~0u : 0u, ~0u};
    if (!open)
      bits.visible = collect<queryCount, keyCount>(
          queryAt, keyAt, [&](const MaskRow &query, const MaskRow &key) {
            return isVisible(a, query, key);
          });
    if (a.threshold) {
      HeadDropout dropout(a, b, h);
      bits.kept = collect<queryCount, keyCount>(
          queryAt, keyAt, [&](const MaskRow &query, const MaskRow &key) {
            return dropout.keeps(a, query.position, key.position);
          });
    }
    joinLanes();
    return bits;
  }

private:
  KERF_MEMBER PositionRange queryRange(int row, int count) const {
    return positionsOf(a, row + queryOffset, least(count, a.sq - row));
  }
  KERF_MEMBER PositionRange keyRange(int row, int count) const {
    return positionsOf(a, row + keyOffset, least(count, a.sk - row));
  }
  template <int queryCount, int keyCount, class QueryAt, class KeyAt,
            class Test>
  KERF_MEMBER uint32_t collect(QueryAt queryAt, KeyAt keyAt, Test test) const {
    MaskSide querySide = queries(), keySide = keys();
    uint32_t bits = 0;
#pragma unroll 1
    for (int i = 0; i < queryCount; ++i) {
      MaskRow query = querySide.at(a, queryAt(i));
#pragma unroll 1
      for (int j = 0; j < keyCount; ++j)
        bits |= (uint32_t)test(query, keySide.at(a, keyAt(j)))
                << (i * keyCount + j);
    }
    return bits;
  }
};

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_ATTENTIONMASK_H
