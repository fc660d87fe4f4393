//===- TiledMatmul.cpp - matmuls by tiles ---------------------------------===//

#include "TiledMatmul.h"

#include <algorithm>
#include <bit>

using namespace kerf::cpu;

static View shifted(View view, int64_t elements) {
  int64_t bytes = elements * bytesOf(view.number);
  view.data = static_cast<const char *>(view.data) + bytes;
  return view;
}

static void *elementAt(void *data, Number number, int64_t index) {
  return static_cast<char *>(data) + index * bytesOf(number);
}

namespace {
/// A tile: rows [row, row + rows) of a part, columns [column, column +
/// columns).
struct Tile {
  const RowPart &part;
  int64_t row, rows, column, columns;

  int64_t inC(const TiledMatmul &matmul) const {
    return part.c + row * matmul.cRow + column;
  }
};

/// Where a tile's sums are collected: element (i, j) of panel p lies at
/// data + p * panel + i * row + j.
struct Sums {
  float *data;
  int64_t panel, row;
  bool accumulate; ///< they have a value
  bool elsewhere;  ///< not in c: they must be brought there
};
} // namespace

/// f32 sums are collected in c. Others, and those of a tile's only step (which
/// are cheaper to copy than to store with gaps), in a worker's own memory.
static Sums placeSums(const Engine &engine, const TiledMatmul &matmul,
                      const MatmulSpace &space, const kerf_cpu_matmul &plan,
                      int worker, const Tile &tile, bool first, bool once) {
  int64_t at = tile.inC(matmul);
  if (matmul.cNumber != Number::F32 &&
      plan.shared_sums) // as c, without gaps between rows
    return {space.sharedSums() + at / matmul.cRow * matmul.n + tile.column,
            engine.panel, matmul.n, !first, true};
  if (once && (matmul.cNumber != Number::F32 ||
               engine.bf16)) // one group after the other
    return {space.ownSums(worker), engine.panel, KERF_CPU_GROUP, false, true};
  if (matmul.cNumber != Number::F32)
    return {space.ownSums(worker), plan.rows * engine.panel, engine.panel,
            false, true};
  return {static_cast<float *>(matmul.c) + at, engine.panel, matmul.cRow,
          matmul.accumulate || !first, false};
}

/// Brings complete sums of columns [j, j + columns) of a tile to c.
static void finish(const Kernels &kernels, const TiledMatmul &matmul,
                   const Tile &tile, int64_t j, int64_t columns,
                   const float *sums, const Sums &place) {
  const char *bias = static_cast<const char *>(matmul.bias);
  if (bias)
    bias += (tile.column + j) * bytesOf(matmul.biasNumber);
  else if (!place.elsewhere)
    return;
  kernels.finishRows(elementAt(matmul.c, matmul.cNumber, tile.inC(matmul) + j),
                     matmul.cNumber, matmul.cRow, sums, place.row, bias,
                     matmul.biasNumber, place.elsewhere && matmul.accumulate,
                     tile.rows, columns);
}

/// Columns of a that are packed at once.
static int64_t stepOf(const Engine &engine, const kerf_cpu_matmul &plan) {
  return engine.elementBytes == sizeof(float) ? plan.step : plan.half_step;
}

namespace {
/// Packed rows of a for a tile, over some columns.
struct Rows {
  const Engine &engine;
  int64_t rows, count, stripRows;
  char *packed;

  int64_t stripBytes() const { return engine.stripBytes(stripRows, count); }
  /// Of the first row of a strip, from column k on, a multiple of L.
  const char *at(int64_t row, int64_t k) const {
    return packed + row / stripRows * stripBytes() +
           engine.offsetA(stripRows, k);
  }
};
} // namespace

namespace {
/// Packed columns of b for a tile: panels lie `panelBytes` apart.
struct Columns {
  const char *packed;
  int64_t count, panelBytes;
};
} // namespace

/// Rows of a times all columns of a tile, into its sums; the last ones go on to
/// c. `grouped`: sums are those of KERF_CPU_GROUP columns at a time.
static void multiplyPanels(const Kernels &kernels, const TiledMatmul &matmul,
                           const Tile &tile, const Rows &rows, const Columns &b,
                           const Sums &sums, bool grouped, bool last) {
  const Engine &engine = rows.engine;
  int64_t panel = engine.panel;
  for (int64_t j = 0; j < b.count; j += panel) {
    const char *packed = b.packed + j / panel * b.panelBytes;
    int64_t width = kerf_cpu_min(panel, b.count - j);
    int64_t at = grouped ? j % KERF_CPU_GROUP : j;
    float *to = sums.data + at / panel * sums.panel;
    bool more = j + panel < b.count;
    engine.multiply(rows.rows, width, engine.paddedDepth(rows.count),
                    rows.packed, rows.stripRows, rows.stripBytes(), packed, to,
                    sums.row, sums.accumulate,
                    more ? packed + b.panelBytes : nullptr);
    if (last && !grouped)
      finish(kernels, matmul, tile, j, width, to, sums);
    else if (last && (!more || at + panel == KERF_CPU_GROUP))
      finish(kernels, matmul, tile, j - at, at + width, sums.data, sums);
  }
}

namespace {
/// Rows of a times all columns of a tile by blocks (BlockLoops): sums of a
/// panel have a place for each block of rows, and a complete block waits there
/// until the next one is multiplied.
class Blocks {
public:
  /// `target`: where sums of the first row and column go; those of the next
  /// panel lie `panelStride` elements further. `memory`: own_blocks bytes.
  Blocks(const Kernels &kernels, const Rows &rows, const BlockSums &target,
         int64_t panelStride, float *memory)
      : kernels(kernels), rows(rows), target(target), panelStride(panelStride),
        memory(memory) {}

  void multiply(const Columns &b);

private:
  /// Part of a panel: its columns [column, column + width) and some of k.
  struct Part {
    int64_t column, width, k, depth;
    const char *packed, *next; ///< next: what is read after it, or null
    bool last;                 ///< of the panel
  };

  const Kernels &kernels;
  const Rows &rows;
  BlockSums target;
  int64_t panelStride;
  float *memory;
  /// Sums of how many blocks have a place: two by turns where each is complete
  /// at once, else those of all rows.
  int64_t places = 2;
  int64_t turn = 0; ///< the first block's place
  BlockSums waiting = {};
  bool hasWaiting = false;

  const BlockLoops &loops() const { return *rows.engine.blocks; }
  int64_t placeOf(int64_t block) const { return (turn + block) % places; }
  void multiplyPart(const Part &part);
  void multiplyWhole(const Part &part, int64_t blocks);
  void multiplyEdge(const Part &part, int64_t row, float *sums);
  BlockSums complete(const Part &part, int64_t row, const float *sums) const;
  void finish(const BlockSums &sums, int64_t count, int64_t width) const;
  void finishWaiting();
};
} // namespace

void Blocks::multiply(const Columns &b) {
  const Engine &engine = rows.engine;
  int64_t depth = engine.paddedDepth(rows.count);
  int64_t parts = kerf_cpu_max(kerf_cpu_parts(depth, loops().depth), 1);
  int64_t step = engine.paddedDepth(kerf_cpu_parts(depth, parts));
  if (parts > 1)
    places = kerf_cpu_max(kerf_cpu_parts(rows.rows, loops().rows), 2);
  for (int64_t j = 0; j < b.count; j += engine.panel) {
    const char *panel = b.packed + j / engine.panel * b.panelBytes;
    int64_t k = 0;
    do { // once even without any k: sums become zero
      bool last = k + step >= depth, more = j + engine.panel < b.count;
      const char *next =
          panel + (last ? b.panelBytes : engine.offsetB(k + step));
      multiplyPart({j, kerf_cpu_min(engine.panel, b.count - j), k,
                    kerf_cpu_min(step, depth - k), panel + engine.offsetB(k),
                    last && !more ? nullptr : next, last});
      k += step;
    } while (k < depth);
  }
  finishWaiting();
}

void Blocks::multiplyPart(const Part &part) {
  const int64_t panel = rows.engine.panel, height = loops().rows;
  int64_t whole = part.width == panel ? rows.rows / height : 0;
  if (whole > 0)
    multiplyWhole(part, whole);
  for (int64_t i = whole * height; i < rows.rows; i += height)
    multiplyEdge(part, i, memory + placeOf(i / height) * height * panel);
  if (part.last)
    turn += kerf_cpu_parts(rows.rows, height);
}

void Blocks::multiplyWhole(const Part &part, int64_t blocks) {
  const Engine &engine = rows.engine;
  int64_t height = loops().rows;
  BlockSums target = complete(part, 0, nullptr);
  BlockRun run = {blocks,
                  part.depth,
                  rows.at(0, part.k),
                  rows.stripBytes(),
                  part.packed,
                  memory,
                  placeOf(0),
                  places,
                  part.k > 0,
                  part.next,
                  engine.offsetB(part.depth),
                  hasWaiting ? &waiting : nullptr,
                  part.last ? &target : nullptr};
  loops().multiply(run);
  hasWaiting = part.last;
  if (part.last)
    waiting = complete(part, (blocks - 1) * height,
                       run.place(blocks - 1, height * engine.panel));
}

/// Fewer rows or columns than a block has.
void Blocks::multiplyEdge(const Part &part, int64_t row, float *sums) {
  int64_t count = kerf_cpu_min(loops().rows, rows.rows - row);
  finishWaiting();
  rows.engine.multiply(count, part.width, part.depth, rows.at(row, part.k),
                       rows.stripRows, rows.stripBytes(), part.packed, sums,
                       rows.engine.panel, part.k > 0, nullptr);
  if (part.last)
    finish(complete(part, row, sums), count, part.width);
}

BlockSums Blocks::complete(const Part &part, int64_t row,
                           const float *sums) const {
  BlockSums block = target;
  int64_t at =
      row * target.yRow + part.column / rows.engine.panel * panelStride;
  block.sums = sums;
  block.y = elementAt(target.y, target.number, at);
  if (target.bias)
    block.bias = static_cast<const char *>(target.bias) +
                 part.column * bytesOf(target.biasNumber);
  return block;
}

void Blocks::finish(const BlockSums &sums, int64_t count, int64_t width) const {
  kernels.finishRows(sums.y, sums.number, sums.yRow, sums.sums,
                     rows.engine.panel, sums.bias, sums.biasNumber,
                     sums.accumulate, count, width);
}

void Blocks::finishWaiting() {
  if (hasWaiting)
    finish(waiting, loops().rows, rows.engine.panel);
  hasWaiting = false;
}

/// Where sums of a tile by blocks go: at once to c, or to their place.
static BlockSums targetOf(const TiledMatmul &matmul, const Tile &tile,
                          const Sums &sums, bool once, bool last) {
  const char *bias = static_cast<const char *>(matmul.bias);
  if (bias)
    bias += tile.column * bytesOf(matmul.biasNumber);
  if (once)
    return {nullptr,
            elementAt(matmul.c, matmul.cNumber, tile.inC(matmul)),
            matmul.cNumber,
            matmul.cRow,
            bias,
            matmul.biasNumber,
            matmul.accumulate};
  return {nullptr,
          sums.data,
          Number::F32,
          sums.row,
          last && !sums.elsewhere ? bias : nullptr,
          matmul.biasNumber,
          sums.accumulate};
}

static void multiplyBlocks(const Kernels &kernels, const TiledMatmul &matmul,
                           const Tile &tile, const Rows &rows, const Columns &b,
                           const Sums &sums, float *memory, bool once,
                           bool last) {
  int64_t panel = rows.engine.panel;
  Blocks(kernels, rows, targetOf(matmul, tile, sums, once, last),
         once ? panel : sums.panel, memory)
      .multiply(b);
  if (once || !last || !sums.elsewhere)
    return;
  for (int64_t j = 0; j < b.count; j += panel)
    finish(kernels, matmul, tile, j, kerf_cpu_min(panel, b.count - j),
           sums.data + j / panel * sums.panel, sums);
}

/// As multiplyPanels, by blocks where there are loops for it. `blocks`: a
/// worker's own memory for their sums.
static void multiplyColumns(const Kernels &kernels, const TiledMatmul &matmul,
                            const Tile &tile, const Rows &rows,
                            const Columns &b, const Sums &sums, float *blocks,
                            bool once, bool last) {
  if (rows.engine.blocks)
    return multiplyBlocks(kernels, matmul, tile, rows, b, sums, blocks, once,
                          last);
  bool grouped = once && (matmul.cNumber != Number::F32 || rows.engine.bf16);
  multiplyPanels(kernels, matmul, tile, rows, b, sums, grouped, last);
}

void kerf::cpu::multiplyTile(const Kernels &kernels, const Engine &engine,
                             const TiledMatmul &matmul,
                             const kerf_cpu_matmul &plan,
                             const MatmulSpace &space, int worker,
                             const RowPart &part, int64_t row, int64_t column,
                             int64_t columns, const char *packedB,
                             int64_t panelBytes, int64_t depthPart) {
  Tile tile = {part, row, kerf_cpu_min(plan.rows, part.rows - row), column,
               columns};
  bool any = matmul.depthPartCount > 0;
  DepthPart depth = any ? matmul.depthParts[depthPart] : DepthPart{0, 0, 0};
  int64_t step = stepOf(engine, plan);
  bool once = matmul.depthPartCount <= 1 && depth.depth <= step;
  bool lastPart = depthPart + 1 >= matmul.depthPartCount;
  Sums sums = placeSums(engine, matmul, space, plan, worker, tile,
                        depthPart == 0, once);
  int64_t k = 0;
  do { // once even without any k: c becomes zero
    int64_t count = kerf_cpu_min(step, depth.depth - k);
    bool last = lastPart && k + count >= depth.depth;
    View a = shifted(matmul.a, part.a + row * matmul.a.row + depth.a +
                                   k * matmul.a.column);
    Rows rows = {engine, tile.rows, count, engine.stripRows(tile.rows),
                 space.ownA(worker)};
    engine.packA(rows.packed, a, tile.rows, count, rows.stripRows);
    Columns b = {packedB + engine.offsetB(k), columns, panelBytes};
    multiplyColumns(kernels, matmul, tile, rows, b, sums,
                    space.ownBlocks(worker), once, last);
    sums.accumulate = true;
    k += step;
  } while (k < depth.depth);
}

namespace {
/// A slice of a matmul: columns [column, column + columns) over a depth part.
struct Slice {
  int64_t column, columns, depthPart;
};
} // namespace

/// Multiplies packed elements by a power of two, which changes no digit: so the
/// sums are those of the matmul times `factor`, where they lie and whatever
/// they are added to.
static void scalePacked(const Kernels &kernels, const Engine &engine,
                        void *packed, int64_t bytes, float factor) {
  if (engine.elementBytes == sizeof(float))
    return kernels.scale(static_cast<float *>(packed),
                         bytes / static_cast<int64_t>(sizeof(float)), factor);
  auto *values = static_cast<uint16_t *>(packed); // bf16
  for (int64_t i = 0; i < bytes / 2; ++i) {
    float value = std::bit_cast<float>(uint32_t(values[i]) << 16) * factor;
    values[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  }
}

/// Panels that are packed at a time: whole stretches of the rows of b.
static constexpr int64_t kPackedPanels = 4;

/// Panels [begin, end) of a slice of b.
static void packPanels(const Kernels &kernels, const Engine &engine,
                       const TiledMatmul &matmul, const Slice &slice,
                       char *packed, int64_t begin, int64_t end) {
  const DepthPart &depth = matmul.depthParts[slice.depthPart];
  int64_t at = begin * engine.panel;
  View b = shifted(matmul.b, depth.b + (slice.column + at) * matmul.b.column);
  int64_t panelBytes = engine.panelBytes(depth.depth);
  packed += begin * panelBytes;
  engine.packB(packed, b, depth.depth,
               kerf_cpu_min(end * engine.panel, slice.columns) - at);
  if (matmul.scale != 1)
    scalePacked(kernels, engine, packed, (end - begin) * panelBytes,
                matmul.scale);
}

static void packSlice(ThreadPool &pool, const Kernels &kernels,
                      const Engine &engine, const TiledMatmul &matmul,
                      const MatmulSpace &space, const Slice &slice) {
  int64_t panels = kerf_cpu_parts(slice.columns, engine.panel);
  pool.parallelFor(panels, kPackedPanels, [&](int64_t begin, int64_t end, int) {
    packPanels(kernels, engine, matmul, slice, space.sharedB(), begin, end);
  });
}

/// Tiles of all rows.
static int64_t tilesDown(const TiledMatmul &matmul,
                         const kerf_cpu_matmul &plan) {
  int64_t down = 0;
  for (int64_t i = 0; i < matmul.rowPartCount; ++i)
    down += kerf_cpu_parts(matmul.rowParts[i].rows, plan.rows);
  return down;
}

namespace {
/// Rows of a tile.
struct TileRows {
  const RowPart &part;
  int64_t row;
};
} // namespace

/// Those of tile `at` of all rows.
static TileRows rowsOfTile(const TiledMatmul &matmul,
                           const kerf_cpu_matmul &plan, int64_t at) {
  const RowPart *part = matmul.rowParts;
  for (int64_t tiles; at >= (tiles = kerf_cpu_parts(part->rows, plan.rows));
       ++part)
    at -= tiles;
  return {*part, at * plan.rows};
}

/// Tiles of a slice, all rows of a column of tiles after each other.
static void multiplySlice(ThreadPool &pool, const Kernels &kernels,
                          const Engine &engine, const TiledMatmul &matmul,
                          const kerf_cpu_matmul &plan, const MatmulSpace &space,
                          const Slice &slice) {
  int64_t down = tilesDown(matmul, plan);
  int64_t across = kerf_cpu_parts(slice.columns, plan.columns);
  int64_t depth =
      matmul.depthPartCount ? matmul.depthParts[slice.depthPart].depth : 0;
  auto tile = [&](int64_t index, int worker) {
    int64_t column = index / down * plan.columns;
    TileRows rows = rowsOfTile(matmul, plan, index % down);
    multiplyTile(kernels, engine, matmul, plan, space, worker, rows.part,
                 rows.row, slice.column + column,
                 kerf_cpu_min(plan.columns, slice.columns - column),
                 space.sharedB() +
                     column / engine.panel * engine.panelBytes(depth),
                 engine.panelBytes(depth), slice.depthPart);
  };
  pool.parallelFor(down * across, 1,
                   [&](int64_t begin, int64_t end, int worker) {
                     kernels.enter();
                     for (int64_t index = begin; index < end; ++index)
                       tile(index, worker);
                     kernels.leave();
                   });
}

void kerf::cpu::multiply(ThreadPool &pool, const Kernels &kernels,
                         const Engine &engine, const TiledMatmul &matmul,
                         const kerf_cpu_matmul &plan, void *workspace) {
  MatmulSpace space(plan, workspace);
  int64_t depthParts = kerf_cpu_max(matmul.depthPartCount, 1);
  for (int64_t column = 0; column < matmul.n; column += plan.span)
    for (int64_t depthPart = 0; depthPart < depthParts; ++depthPart) {
      Slice slice = {column, kerf_cpu_min(plan.span, matmul.n - column),
                     depthPart};
      if (matmul.depthPartCount)
        packSlice(pool, kernels, engine, matmul, space, slice);
      multiplySlice(pool, kernels, engine, matmul, plan, space, slice);
    }
}

//===----------------------------------------------------------------------===//
// Several matmuls together
//===----------------------------------------------------------------------===//

/// Rows of b over all depth parts of a matmul, each padded to whole lines.
static int64_t paddedDepth(const Engine &engine, const TiledMatmul &matmul) {
  int64_t depth = 0;
  for (int64_t i = 0; i < matmul.depthPartCount; ++i)
    depth += engine.paddedDepth(matmul.depthParts[i].depth);
  return depth;
}

/// Places of the packed b of all jobs, and how many tiles there are.
static int64_t placeJobs(const Engine &engine, std::vector<Job> &jobs,
                         const kerf_cpu_matmul &plan,
                         const MatmulSpace &space) {
  char *next = space.sharedB();
  int64_t tiles = 0;
  for (Job &job : jobs) {
    const TiledMatmul &p = job.matmul;
    job.depth = paddedDepth(engine, p);
    job.firstTile = tiles;
    job.panelBytes = engine.panelBytes(job.depth);
    job.packed = next;
    next += kerf_cpu_parts(p.n, engine.panel) * job.panelBytes;
    tiles += tilesDown(p, plan) * kerf_cpu_parts(p.n, plan.columns);
  }
  return tiles;
}

/// Panels [begin, end) of a job's b, in each its depth parts one after the
/// other.
static void packJob(const Kernels &kernels, const Engine &engine,
                    const Job &job, int64_t begin, int64_t end) {
  const TiledMatmul &p = job.matmul;
  if (p.depthPartCount == 1)
    return packPanels(kernels, engine, p, {0, p.n, 0}, job.packed, begin, end);
  for (int64_t panel = begin; panel < end; ++panel) {
    int64_t column = panel * engine.panel;
    char *packed = job.packed + panel * job.panelBytes;
    for (int64_t i = 0; i < p.depthPartCount; ++i) {
      Slice slice = {column, kerf_cpu_min(engine.panel, p.n - column), i};
      packPanels(kernels, engine, p, slice, packed, 0, 1);
      packed += engine.panelBytes(p.depthParts[i].depth);
    }
  }
}

/// Rows of a tile over all depth parts, strip by strip.
static void packRows(const Engine &engine, const Job &job, const Tile &tile,
                     char *packed) {
  const TiledMatmul &p = job.matmul;
  int64_t height = engine.stripRows(tile.rows);
  for (int64_t i = 0; i < tile.rows; i += height)
    for (int64_t d = 0; d < p.depthPartCount; ++d) {
      const DepthPart &depth = p.depthParts[d];
      int64_t row = tile.part.a + (tile.row + i) * p.a.row;
      engine.packA(packed, shifted(p.a, row + depth.a),
                   kerf_cpu_min(height, tile.rows - i), depth.depth, height);
      packed += engine.stripBytes(height, depth.depth);
    }
}

/// A tile over all depth parts of a job at once; they fit in a worker's memory.
static void multiplyDepths(const Kernels &kernels, const Engine &engine,
                           const Job &job, const kerf_cpu_matmul &plan,
                           const MatmulSpace &space, int worker,
                           const Tile &tile, const char *packedB) {
  const TiledMatmul &p = job.matmul;
  Sums sums = placeSums(engine, p, space, plan, worker, tile, /*first=*/true,
                        /*once=*/true);
  Rows rows = {engine, tile.rows, job.depth, engine.stripRows(tile.rows),
               space.ownA(worker)};
  packRows(engine, job, tile, rows.packed);
  Columns b = {packedB, tile.columns, job.panelBytes};
  multiplyColumns(kernels, p, tile, rows, b, sums, space.ownBlocks(worker),
                  /*once=*/true, /*last=*/true);
}

/// Tile `index` of a job.
static void multiplyTileOf(const Kernels &kernels, const Engine &engine,
                           const Job &job, const kerf_cpu_matmul &plan,
                           const MatmulSpace &space, int worker,
                           int64_t index) {
  const TiledMatmul &p = job.matmul;
  int64_t down = tilesDown(p, plan), column = index / down * plan.columns;
  TileRows rows = rowsOfTile(p, plan, index % down);
  int64_t columns = kerf_cpu_min(plan.columns, p.n - column);
  const char *b = job.packed + column / engine.panel * job.panelBytes;
  if (p.depthPartCount > 1 && job.depth <= stepOf(engine, plan)) {
    Tile tile = {rows.part, rows.row,
                 kerf_cpu_min(plan.rows, rows.part.rows - rows.row), column,
                 columns};
    return multiplyDepths(kernels, engine, job, plan, space, worker, tile, b);
  }
  for (int64_t i = 0; i < kerf_cpu_max(p.depthPartCount, 1); ++i) {
    multiplyTile(kernels, engine, p, plan, space, worker, rows.part, rows.row,
                 column, columns, b, job.panelBytes, i);
    if (p.depthPartCount > 0)
      b += engine.panelBytes(p.depthParts[i].depth);
  }
}

void kerf::cpu::multiplyTogether(ThreadPool &pool, const Kernels &kernels,
                                 const Engine &engine, std::vector<Job> &jobs,
                                 const kerf_cpu_matmul &plan, void *workspace) {
  MatmulSpace space(plan, workspace);
  int64_t tiles = placeJobs(engine, jobs, plan, space);
  if (tiles == 0)
    return;
  int64_t panels = kerf_cpu_parts(jobs.front().matmul.n, engine.panel);
  int64_t count = static_cast<int64_t>(jobs.size());
  int64_t pieces = kerf_cpu_parts(panels, kPackedPanels);
  pool.parallelFor(count * pieces, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t first = i % pieces * kPackedPanels;
      packJob(kernels, engine, jobs[i / pieces], first,
              kerf_cpu_min(first + kPackedPanels, panels));
    }
  });
  auto jobOf = [&](int64_t tile) -> const Job & {
    auto next = std::upper_bound(
        jobs.begin(), jobs.end(), tile,
        [](int64_t at, const Job &job) { return at < job.firstTile; });
    return *(next - 1);
  };
  pool.parallelFor(tiles, 1, [&](int64_t begin, int64_t end, int worker) {
    kernels.enter();
    for (int64_t index = begin; index < end; ++index) {
      const Job &job = jobOf(index);
      multiplyTileOf(kernels, engine, job, plan, space, worker,
                     index - job.firstTile);
    }
    kernels.leave();
  });
}
