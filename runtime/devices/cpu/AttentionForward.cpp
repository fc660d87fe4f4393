//===- AttentionForward.cpp - attention -----------------------------------===//
//
// For a block of queries, over blocks of keys from the first to the last that
// any of them sees:
//
//     s = q k^T            a tile of scores
//     p = exp(scale s - m) m: the largest so far of each row
//     y = y c + p v        c: what the change of m costs
//
// (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
// A block of queries of one head is a unit of work.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"

#include <cmath>
#include <cstring>

using namespace kerf::cpu;

namespace {
enum ForwardOperand {
  Q,
  K,
  V,
  Y,
  Lse,
  Scalars,
  Workspace = 12,
  SegmentsQ,
  SegmentsK
};
constexpr int64_t queryBlock = KERF_CPU_QUERIES, keyBlock = KERF_CPU_KEYS;

/// One worker's memory.
struct Buffers {
  float *q, *k, *v, *scores, *packed, *sums;
  int32_t *segments;
  int64_t sumRow; ///< floats of a row of sums

  Buffers(const AttentionShape &s, void *workspace, int worker) {
    int64_t d = kerf_cpu_round(s.d, 32), rows = queryBlock + 16;
    sumRow = kerf_cpu_round(s.dv, 32);
    int64_t floats = rows * d + keyBlock * (d + sumRow) + 2 * rows * keyBlock +
                     rows * sumRow + keyBlock;
    Carver carver(static_cast<float *>(workspace) + worker * floats);
    q = carver.take(rows * d);
    k = carver.take(keyBlock * d);
    v = carver.take(keyBlock * sumRow);
    scores = carver.take(rows * keyBlock);
    packed = carver.take(rows * keyBlock);
    sums = carver.take(rows * sumRow);
    segments = reinterpret_cast<int32_t *>(carver.take(keyBlock));
  }
};

/// A run on given operands.
struct Run {
  const AttentionShape &s;
  const Kernels &kernels;
  const Engine &engine;
  void *const *pointers;
  AttentionScalars scalars;
  std::vector<RowRun> keys;
  Dropout dropout;

  void computeBlock(int64_t b, int64_t h, const RowRun &queries, int64_t query,
                    int worker) const;
};

/// A block of queries of one run, with the run of keys that it is at.
struct Block {
  const Run &run;
  const Buffers &buffers;
  int64_t b, h, query, rows, stripRows;
  Visibility visibility;
  RowState states[queryBlock];

  void start();
  void addKeys(int64_t key, int64_t keys, bool first);
  void computeScores(int64_t key, int64_t keys) const;
  void weigh(int64_t key, int64_t keys, bool first);
  void addValues(int64_t key, int64_t keys, bool first) const;
  void finish(bool any) const;
};

struct Attention : kerf_step {
  using kerf_step::kerf_step;
  AttentionShape shape;
  kerf_device_status execute(void *const *pointers, char *, size_t) override;
};
} // namespace

void Block::start() {
  View q = headView(run.s, run.pointers[Q], run.s.q, b, query, h);
  run.engine.packA(buffers.q, q, rows, run.s.d, stripRows);
  for (RowState &state : states)
    state = {-INFINITY, 0};
}

/// Scores of the keys, in panels; rows that see none of a panel are left out.
void Block::computeScores(int64_t key, int64_t keys) const {
  const Engine &e = run.engine;
  View k = headView(run.s, run.pointers[K], run.s.k, b, key,
                    h / (run.s.h / run.s.g));
  View transposed = {k.data, 1, k.row, k.number};
  e.packB(buffers.k, transposed, run.s.d, keys);
  int64_t stripBytes = e.stripBytes(stripRows, run.s.d);
  for (int64_t j = 0; j < keys; j += e.panel) {
    int64_t columns = kerf_cpu_min(e.panel, keys - j);
    int64_t begin = visibility.queryBegin(key + j) - query;
    int64_t end = visibility.queryEnd(key + j + columns - 1) - query;
    begin = kerf_cpu_max(begin, 0) / stripRows * stripRows;
    end = kerf_cpu_min(end, rows);
    if (begin >= end)
      continue;
    e.multiply(end - begin, columns, e.paddedDepth(run.s.d),
               reinterpret_cast<const char *>(buffers.q) +
                   begin / stripRows * stripBytes,
               stripRows, stripBytes,
               reinterpret_cast<const char *>(buffers.k) +
                   j / e.panel * e.panelBytes(run.s.d),
               buffers.scores + begin * keyBlock + j, keyBlock, false, nullptr);
  }
}

/// Scores become weights; earlier sums are corrected.
void Block::weigh(int64_t key, int64_t keys, bool first) {
  const AttentionShape &s = run.s;
  const int32_t *segmentsQ = static_cast<const int32_t *>(
      s.segments ? run.pointers[SegmentsQ] : nullptr);
  if (segmentsQ)
    std::memcpy(buffers.segments,
                static_cast<const int32_t *>(run.pointers[SegmentsK]) +
                    b * s.sk + key,
                keys * 4);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t begin = visibility.keyBegin(query + i) - key;
    int64_t end = visibility.keyEnd(query + i) - key;
    RowMask mask = {kerf_cpu_max(begin, 0), kerf_cpu_min(end, keys),
                    segmentsQ ? buffers.segments : nullptr,
                    segmentsQ ? segmentsQ[b * s.sq + query + i] : 0};
    float correction = run.kernels.softmaxRow(
        buffers.scores + i * keyBlock, keys, s.scale, s.softcap, mask,
        run.dropout,
        run.scalars.randomIndex(s, b, h, query + i + visibility.queries.shift,
                                key + visibility.keys.shift),
        states[i]);
    if (!first && correction != 1)
      run.kernels.scale(buffers.sums + i * buffers.sumRow, s.dv, correction);
  }
}

/// Adds the weighted values, two strips of rows at a time over the keys that
/// these rows see.
void Block::addValues(int64_t key, int64_t keys, bool first) const {
  const Engine &e = run.engine;
  e.packA(buffers.packed, {buffers.scores, keyBlock, 1, Number::F32}, rows,
          keys, stripRows);
  e.packB(buffers.v,
          headView(run.s, run.pointers[V], run.s.v, b, key,
                   h / (run.s.h / run.s.g)),
          keys, run.s.dv);
  int64_t stripBytes = e.stripBytes(stripRows, keys);
  int64_t group = run.s.causal ? 2 * stripRows : rows;
  for (int64_t j = 0; j < run.s.dv; j += e.panel)
    for (int64_t i = 0; i < rows; i += group) {
      int64_t count = kerf_cpu_min(group, rows - i);
      int64_t begin = visibility.keyBegin(query + i) - key;
      int64_t end = visibility.keyEnd(query + i + count - 1) - key;
      begin = kerf_cpu_max(begin, 0) / e.lanes * e.lanes;
      end = kerf_cpu_min(end, keys);
      if (begin >= end) {
        if (!first)
          continue;
        begin = 0; // weights are zero: so become the sums
        end = kerf_cpu_min(e.lanes, keys);
      }
      e.multiply(count, kerf_cpu_min(e.panel, run.s.dv - j),
                 e.paddedDepth(end - begin),
                 reinterpret_cast<const char *>(buffers.packed) +
                     i / stripRows * stripBytes + e.offsetA(stripRows, begin),
                 stripRows, stripBytes,
                 reinterpret_cast<const char *>(buffers.v) +
                     j / e.panel * e.panelBytes(keys) + e.offsetB(begin),
                 buffers.sums + i * buffers.sumRow + j, buffers.sumRow, !first,
                 nullptr);
    }
}

void Block::addKeys(int64_t key, int64_t keys, bool first) {
  computeScores(key, keys);
  weigh(key, keys, first);
  addValues(key, keys, first);
}

/// Rows without a visible key give zeros, and the log-sum-exp that the op's
/// decomposition has for them.
void Block::finish(bool any) const {
  constexpr float hidden = -1e30f;
  const AttentionShape &s = run.s;
  float *lse = static_cast<float *>(run.pointers[Lse]);
  for (int64_t i = 0; i < rows; ++i) {
    bool empty = !any || states[i].sum == 0;
    float *sums = buffers.sums + i * buffers.sumRow;
    if (empty)
      std::memset(sums, 0, s.dv * 4);
    char *y = static_cast<char *>(run.pointers[Y]) +
              s.y.at(b, query + i, h) * s.bytes();
    run.kernels.store(y, s.number, sums, s.dv, empty ? 0 : 1 / states[i].sum);
    if (lse)
      lse[(b * s.h + h) * s.sq + query + i] =
          empty ? hidden : states[i].max + std::log(states[i].sum);
  }
}

void Run::computeBlock(int64_t b, int64_t h, const RowRun &queries,
                       int64_t query, int worker) const {
  Buffers buffers(s, pointers[Workspace], worker);
  int64_t rows = kerf_cpu_min(queryBlock, queries.end - query);
  Block block = {*this,
                 buffers,
                 b,
                 h,
                 query,
                 rows,
                 engine.stripRows(rows),
                 {s.causal, s.window, queries, {}},
                 {}};
  block.start();
  bool any = false;
  for (const RowRun &run : keys) {
    block.visibility.keys = run;
    int64_t begin = block.visibility.keyBegin(query);
    int64_t end = block.visibility.keyEnd(query + rows - 1);
    for (int64_t key = begin; key < end; key += keyBlock, any = true)
      block.addKeys(key, kerf_cpu_min(keyBlock, end - key), !any);
  }
  block.finish(any);
}

kerf_device_status Attention::execute(void *const *pointers, char *, size_t) {
  AttentionScalars scalars(pointers + Scalars);
  const Kernels &kernels = device.kernels;
  Run run = {shape,
             kernels,
             kernels.engineOf(shape.number, shape.number),
             pointers,
             scalars,
             scalars.keyRuns(shape),
             scalars.dropout(shape)};
  std::vector<std::pair<RowRun, int64_t>> blocks; // with the first query
  for (const RowRun &queries : scalars.queryRuns(shape))
    for (int64_t i = queries.begin; i < queries.end; i += queryBlock)
      blocks.push_back({queries, i});
  int64_t count = static_cast<int64_t>(blocks.size());
  device.pool.parallelFor(shape.b * shape.h * count, 1,
                          [&](int64_t begin, int64_t end, int worker) {
                            kernels.enter();
                            for (int64_t unit = begin; unit < end; ++unit) {
                              int64_t head = unit / count;
                              // Late queries see more keys: long units first.
                              auto [queries, query] =
                                  blocks[count - 1 - unit % count];
                              run.computeBlock(head / shape.h, head % shape.h,
                                               queries, query, worker);
                            }
                            kernels.leave();
                          });
  return KERF_DEVICE_OK;
}

StepPointer kerf::cpu::prepareAttention(Request &request) {
  auto step = std::make_unique<Attention>(request.device);
  if (!readAttention(request, /*backward=*/false, step->shape))
    return nullptr;
  return step;
}
