//===- AttentionBackward.cpp - the gradient of attention ------------------===//
//
// With scores laid out by keys, then queries, no matmul needs a transposed
// block: for a block of keys and one of queries,
//
//     s = k q^T, dp = v dy^T          [keys, queries]
//     p = exp(scale s - lse)          again
//     ds = scale p (dp - delta)       delta[i] = sum_e dy[i,e] y[i,e]
//     dv += p dy, dk += ds q          [keys, channels]
//     dq^T += k^T ds                  [channels, queries]
//
// with dropout on p and dp as forward. A key head of one sequence is a unit of
// work: its sums are added in one order whoever does it. Queries are packed
// once per head, keys once per block.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"

#include <cstring>

using namespace kerf::cpu;

namespace {
enum BackwardOperand {
  Q,
  K,
  V,
  Y,
  Lse,
  Dy,
  Dq,
  Dk,
  Dv,
  Scalars,
  Workspace = 16,
  SegmentsQ,
  SegmentsK
};
constexpr int64_t side = KERF_CPU_SQUARE;

/// One worker's memory.
struct Buffers {
  int64_t d, dv, queries; ///< padded
  float *dqT, *q, *dy, *qByChannel, *dyByChannel, *lse, *delta;
  int32_t *segments;
  float *dk, *dvs;
  float *k, *v, *kT;
  float *s, *dp, *packedP, *packedDs, *packedDsB;

  Buffers(const AttentionShape &a, void *workspace, int worker,
          int64_t bytesOfWorker) {
    d = kerf_cpu_round(a.d, 32);
    dv = kerf_cpu_round(a.dv, 32);
    queries = kerf_cpu_backward_queries(a.sq, a.zigzag, a.global[2]);
    int64_t keys = a.h > a.g ? kerf_cpu_round(a.sk, side) : side;
    int64_t strips = side + 16;
    Carver carver(static_cast<char *>(workspace) + worker * bytesOfWorker);
    dqT = carver.take(queries * d);
    q = carver.take(queries * d);
    dy = carver.take(queries * dv);
    qByChannel = carver.take(queries * d);
    dyByChannel = carver.take(queries * dv);
    lse = carver.take(queries);
    delta = carver.take(queries);
    segments = reinterpret_cast<int32_t *>(carver.take(queries));
    dk = carver.take(keys * d);
    dvs = carver.take(keys * dv);
    k = carver.take(strips * d);
    v = carver.take(strips * dv);
    kT = carver.take((d + 16) * side);
    s = carver.take(side * side);
    dp = carver.take(side * side);
    packedP = carver.take(strips * side);
    packedDs = carver.take(strips * side);
    packedDsB = carver.take(side * side);
  }
};

/// Part of a buffer of packed blocks, `floats` of f32 per block at most.
const char *blockAt(const float *buffer, int64_t block, int64_t floats) {
  return reinterpret_cast<const char *>(buffer + block * floats);
}

/// A run on given operands.
struct Run {
  const AttentionShape &a;
  const Kernels &kernels;
  const Engine &engine;
  void *const *pointers;
  AttentionScalars scalars;
  std::vector<RowRun> queries, keys;
  Dropout dropout;
  int64_t bytesOfWorker;

  void computeKeyHead(int64_t b, int64_t g, int worker) const;
};

/// A query head with its key head.
struct Head {
  const Run &run;
  const Buffers &buffers;
  int64_t b, h, g;

  void start() const;
  void packQueries(int64_t query, int64_t count, int64_t block) const;
  void addKeys(const RowRun &run, int64_t key, bool shared) const;
  void finish() const;
};

/// A block of keys of one run, with the run of queries that it is at.
struct KeyBlock {
  const Head &head;
  int64_t key, keys, stripRows;
  float *dk, *dv; ///< sums
  Visibility visibility;
  int64_t firstBlock; ///< number of the run's first packed block

  /// Number of the packed block that starts at a query.
  int64_t blockOf(int64_t query) const {
    return firstBlock + (query - visibility.queries.begin) / side;
  }
  void pack() const;
  void addRun(bool shared, bool &any);
  void addQueries(int64_t query, int64_t queries, bool accumulate) const;
  void computeTiles(int64_t query, int64_t queries) const;
  void weigh(int64_t query, int64_t queries) const;
  void addToKeys(int64_t query, int64_t queries, const float *weights,
                 float *packed, const char *factor, int64_t channels,
                 float *sums, int64_t sumRow, bool accumulate) const;
  void addToQueries(int64_t query, int64_t queries) const;
};

struct AttentionBackward : kerf_step {
  using kerf_step::kerf_step;
  AttentionShape shape;
  int64_t bytesOfWorker;
  kerf_device_status execute(void *const *pointers, char *, size_t) override;
};
} // namespace

//===----------------------------------------------------------------------===//
// A head
//===----------------------------------------------------------------------===//

void Head::packQueries(int64_t query, int64_t count, int64_t block) const {
  const AttentionShape &a = run.a;
  const Engine &e = run.engine;
  View q = headView(a, run.pointers[Q], a.q, b, query, h);
  View dy = headView(a, run.pointers[Dy], a.dy, b, query, h);
  auto at = [&](float *buffer, int64_t channels) {
    return buffer + block * side * channels;
  };
  e.packB(at(buffers.q, buffers.d), {q.data, 1, q.row, q.number}, a.d, count);
  e.packB(at(buffers.dy, buffers.dv), {dy.data, 1, dy.row, dy.number}, a.dv,
          count);
  e.packB(at(buffers.qByChannel, buffers.d), q, count, a.d);
  e.packB(at(buffers.dyByChannel, buffers.dv), dy, count, a.dv);
}

void Head::start() const {
  const AttentionShape &a = run.a;
  int64_t block = 0;
  for (const RowRun &queries : run.queries)
    for (int64_t i = queries.begin; i < queries.end; i += side)
      packQueries(i, kerf_cpu_min(side, queries.end - i), block++);
  std::memset(buffers.dqT, 0, buffers.d * buffers.queries * 4);
  std::memset(buffers.lse, 0, buffers.queries * 3 * 4); // and the next two
  std::memcpy(buffers.lse,
              static_cast<const float *>(run.pointers[Lse]) +
                  (b * a.h + h) * a.sq,
              a.sq * 4);
  for (int64_t i = 0; i < a.sq; ++i)
    buffers.delta[i] = run.kernels.dot(
        headView(a, run.pointers[Y], a.y, b, i, h).data,
        headView(a, run.pointers[Dy], a.dy, b, i, h).data, a.number, a.dv);
  if (a.segments)
    std::memcpy(buffers.segments,
                static_cast<const int32_t *>(run.pointers[SegmentsQ]) +
                    b * a.sq,
                a.sq * 4);
}

void Head::finish() const {
  const AttentionShape &a = run.a;
  char *dq =
      static_cast<char *>(run.pointers[Dq]) + a.dq.at(b, 0, h) * a.bytes();
  run.kernels.storeTransposed(dq, a.dq.position, a.number, buffers.dqT,
                              buffers.queries, a.d, a.sq);
}

/// `shared`: sums of several heads, kept for all keys.
void Head::addKeys(const RowRun &keyRun, int64_t key, bool shared) const {
  int64_t keys = kerf_cpu_min(side, keyRun.end - key);
  KeyBlock block = {*this,
                    key,
                    keys,
                    run.engine.stripRows(keys),
                    buffers.dk + (shared ? key * buffers.d : 0),
                    buffers.dvs + (shared ? key * buffers.dv : 0),
                    {run.a.causal, run.a.window, {}, keyRun},
                    0};
  bool any = false;
  for (const RowRun &queries : run.queries) {
    block.visibility.queries = queries;
    block.addRun(shared, any);
    block.firstBlock += kerf_cpu_parts(queries.end - queries.begin, side);
  }
  if (!shared && !any) {
    std::memset(block.dk, 0, side * buffers.d * 4);
    std::memset(block.dv, 0, side * buffers.dv * 4);
  }
}

//===----------------------------------------------------------------------===//
// A block
//===----------------------------------------------------------------------===//

void KeyBlock::pack() const {
  const Run &run = head.run;
  const AttentionShape &a = run.a;
  const Engine &e = run.engine;
  View k = headView(a, run.pointers[K], a.k, head.b, key, head.g);
  View v = headView(a, run.pointers[V], a.v, head.b, key, head.g);
  e.packA(head.buffers.k, k, keys, a.d, stripRows);
  e.packA(head.buffers.v, v, keys, a.dv, stripRows);
  e.packA(head.buffers.kT, {k.data, 1, k.row, k.number}, a.d, keys,
          e.stripRows(a.d));
}

/// Adds the queries of the present run that see one of the keys. `any`: some
/// were added before.
void KeyBlock::addRun(bool shared, bool &any) {
  const RowRun &run = visibility.queries;
  int64_t begin = visibility.queryBegin(key);
  int64_t end = visibility.queryEnd(key + keys - 1);
  begin = run.begin + (begin - run.begin) / side * side;
  for (int64_t query = begin; query < end; query += side, any = true) {
    if (!any)
      pack();
    addQueries(query, kerf_cpu_min(side, run.end - query), shared || any);
  }
}

/// s and dp; per panel of queries, those keys that one of them sees.
void KeyBlock::computeTiles(int64_t query, int64_t queries) const {
  const Run &run = head.run;
  const Engine &e = run.engine;
  const Buffers &buffers = head.buffers;
  const char *q = blockAt(buffers.q, blockOf(query), side * buffers.d);
  const char *dy = blockAt(buffers.dy, blockOf(query), side * buffers.dv);
  for (int64_t j = 0; j < queries; j += e.panel) {
    int64_t columns = kerf_cpu_min(e.panel, queries - j);
    int64_t begin = visibility.keyBegin(query + j) - key;
    int64_t end = visibility.keyEnd(query + j + columns - 1) - key;
    begin = kerf_cpu_max(begin, 0) / stripRows * stripRows;
    end = kerf_cpu_min(end, keys);
    if (begin >= end)
      continue;
    auto tile = [&](const float *a, const char *b, int64_t depth, float *c) {
      int64_t stripBytes = e.stripBytes(stripRows, depth);
      e.multiply(end - begin, columns, e.paddedDepth(depth),
                 blockAt(a, 0, 0) + begin / stripRows * stripBytes, stripRows,
                 stripBytes, b + j / e.panel * e.panelBytes(depth),
                 c + begin * side + j, side, false, nullptr);
    };
    tile(buffers.k, q, run.a.d, buffers.s);
    tile(buffers.v, dy, run.a.dv, buffers.dp);
  }
}

/// s and dp become p and ds.
void KeyBlock::weigh(int64_t query, int64_t queries) const {
  const Run &run = head.run;
  const AttentionShape &a = run.a;
  const Buffers &buffers = head.buffers;
  const int32_t *segmentsK = static_cast<const int32_t *>(
      a.segments ? run.pointers[SegmentsK] : nullptr);
  for (int64_t i = 0; i < keys; ++i) {
    int64_t begin = visibility.queryBegin(key + i) - query;
    int64_t end = visibility.queryEnd(key + i) - query;
    RowMask mask = {kerf_cpu_max(begin, 0), kerf_cpu_min(end, queries),
                    segmentsK ? buffers.segments + query : nullptr,
                    segmentsK ? segmentsK[head.b * a.sk + key + i] : 0};
    run.kernels.gradientRow(
        buffers.s + i * side, buffers.dp + i * side, queries, a.scale,
        a.softcap, buffers.lse + query, buffers.delta + query, mask,
        run.dropout,
        run.scalars.randomIndex(a, head.b, head.h,
                                query + visibility.queries.shift,
                                key + i + visibility.keys.shift),
        static_cast<uint64_t>(a.global[3]));
  }
}

/// sums[keys, channels] (+)= weights[keys, queries] factor[queries, channels],
/// two strips of keys at a time over the queries that see them.
void KeyBlock::addToKeys(int64_t query, int64_t queries, const float *weights,
                         float *packed, const char *factor, int64_t channels,
                         float *sums, int64_t sumRow, bool accumulate) const {
  const Run &run = head.run;
  const Engine &e = run.engine;
  e.packA(packed, {weights, side, 1, Number::F32}, keys, queries, stripRows);
  int64_t stripBytes = e.stripBytes(stripRows, queries);
  int64_t group = run.a.causal ? 2 * stripRows : keys;
  for (int64_t j = 0; j < channels; j += e.panel)
    for (int64_t i = 0; i < keys; i += group) {
      int64_t count = kerf_cpu_min(group, keys - i);
      int64_t begin = visibility.queryBegin(key + i) - query;
      int64_t end = visibility.queryEnd(key + i + count - 1) - query;
      begin = kerf_cpu_max(begin, 0) / e.lanes * e.lanes;
      end = kerf_cpu_min(end, queries);
      if (begin >= end) {
        if (accumulate)
          continue;
        begin = 0; // weights are zero: so become the sums
        end = kerf_cpu_min(e.lanes, queries);
      }
      e.multiply(count, kerf_cpu_min(e.panel, channels - j),
                 e.paddedDepth(end - begin),
                 blockAt(packed, 0, 0) + i / stripRows * stripBytes +
                     e.offsetA(stripRows, begin),
                 stripRows, stripBytes,
                 factor + j / e.panel * e.panelBytes(queries) +
                     e.offsetB(begin),
                 sums + i * sumRow + j, sumRow, accumulate, nullptr);
    }
}

/// dq^T += k^T ds.
void KeyBlock::addToQueries(int64_t query, int64_t queries) const {
  const Run &run = head.run;
  const Engine &e = run.engine;
  const Buffers &buffers = head.buffers;
  e.packB(buffers.packedDsB, {buffers.dp, side, 1, Number::F32}, keys, queries);
  int64_t rows = e.stripRows(run.a.d), stripBytes = e.stripBytes(rows, keys);
  for (int64_t j = 0; j < queries; j += e.panel) {
    int64_t columns = kerf_cpu_min(e.panel, queries - j);
    int64_t begin = visibility.keyBegin(query + j) - key;
    int64_t end = visibility.keyEnd(query + j + columns - 1) - key;
    begin = kerf_cpu_max(begin, 0) / e.lanes * e.lanes;
    end = kerf_cpu_min(end, keys);
    if (begin >= end)
      continue;
    e.multiply(run.a.d, columns, e.paddedDepth(end - begin),
               blockAt(buffers.kT, 0, 0) + e.offsetA(rows, begin), rows,
               stripBytes,
               blockAt(buffers.packedDsB, 0, 0) +
                   j / e.panel * e.panelBytes(keys) + e.offsetB(begin),
               buffers.dqT + query + j, buffers.queries, true, nullptr);
  }
}

void KeyBlock::addQueries(int64_t query, int64_t queries,
                          bool accumulate) const {
  const Buffers &buffers = head.buffers;
  const AttentionShape &a = head.run.a;
  computeTiles(query, queries);
  weigh(query, queries);
  addToKeys(query, queries, buffers.s, buffers.packedP,
            blockAt(buffers.dyByChannel, blockOf(query), side * buffers.dv),
            a.dv, dv, buffers.dv, accumulate);
  addToKeys(query, queries, buffers.dp, buffers.packedDs,
            blockAt(buffers.qByChannel, blockOf(query), side * buffers.d), a.d,
            dk, buffers.d, accumulate);
  addToQueries(query, queries);
}

//===----------------------------------------------------------------------===//
// A key head
//===----------------------------------------------------------------------===//

/// Writes dk and dv of keys [key, key + keys).
static void storeKeys(const Run &run, const Buffers &buffers, const float *dk,
                      const float *dv, int64_t b, int64_t g, int64_t key,
                      int64_t keys) {
  const AttentionShape &a = run.a;
  auto store = [&](void *to, const HeadStrides &strides, const float *from,
                   int64_t row, int64_t channels) {
    for (int64_t i = 0; i < keys; ++i)
      run.kernels.store(static_cast<char *>(to) +
                            strides.at(b, key + i, g) * a.bytes(),
                        a.number, from + i * row, channels, 1.0f);
  };
  store(run.pointers[Dk], a.dk, dk, buffers.d, a.d);
  store(run.pointers[Dv], a.dvs, dv, buffers.dv, a.dv);
}

void Run::computeKeyHead(int64_t b, int64_t g, int worker) const {
  Buffers buffers(a, pointers[Workspace], worker, bytesOfWorker);
  int64_t heads = a.h / a.g;
  bool shared = heads > 1;
  if (shared) {
    int64_t rows = kerf_cpu_round(a.sk, side);
    std::memset(buffers.dk, 0, rows * buffers.d * 4);
    std::memset(buffers.dvs, 0, rows * buffers.dv * 4);
  }
  for (int64_t h = g * heads; h < (g + 1) * heads; ++h) {
    Head head = {*this, buffers, b, h, g};
    head.start();
    for (const RowRun &run : keys)
      for (int64_t key = run.begin; key < run.end; key += side) {
        head.addKeys(run, key, shared);
        if (!shared)
          storeKeys(*this, buffers, buffers.dk, buffers.dvs, b, g, key,
                    kerf_cpu_min(side, run.end - key));
      }
    head.finish();
  }
  if (shared)
    storeKeys(*this, buffers, buffers.dk, buffers.dvs, b, g, 0, a.sk);
}

kerf_device_status AttentionBackward::execute(void *const *pointers, char *,
                                              size_t) {
  AttentionScalars scalars(pointers + Scalars);
  const Kernels &kernels = device.kernels;
  Run run = {shape,
             kernels,
             kernels.engineOf(shape.number, shape.number),
             pointers,
             scalars,
             scalars.queryRuns(shape),
             scalars.keyRuns(shape),
             scalars.dropout(shape),
             bytesOfWorker};
  device.pool.parallelFor(
      shape.b * shape.g, 1, [&](int64_t begin, int64_t end, int worker) {
        kernels.enter();
        for (int64_t unit = begin; unit < end; ++unit)
          run.computeKeyHead(unit / shape.g, unit % shape.g, worker);
        kernels.leave();
      });
  return KERF_DEVICE_OK;
}

StepPointer kerf::cpu::prepareAttentionBackward(Request &request) {
  auto step = std::make_unique<AttentionBackward>(request.device);
  if (!readAttention(request, /*backward=*/true, step->shape))
    return nullptr;
  step->bytesOfWorker =
      kerf_cpu_attention_backward_workspace(request.attrs(), 1);
  return step;
}
