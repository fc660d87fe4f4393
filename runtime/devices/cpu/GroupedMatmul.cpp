//===- GroupedMatmul.cpp - matmuls with the weights of experts ------------===//
//
// Rows of x lie expert after expert; how many belong to each is known at run
// time only. The rows of one expert in all groups are one matmul. Some experts
// are computed together: their tiles are shared by all workers, with one wait
// for all of them.
//
//===----------------------------------------------------------------------===//

#include "../common/MatmulAttrs.h"
#include "Step.h"
#include "TiledMatmul.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace kerf::cpu;
using namespace kerf::device::grouped;

namespace {
struct GroupedMatmul : kerf_step {
  using kerf_step::kerf_step;
  int64_t groups, rows, experts, n, k, capacity;
  bool gradient, transposed, accumulate;
  Number xNumber, wNumber, yNumber;
  kerf_cpu_matmul plan;
  const Engine *engine;
  std::vector<int64_t> starts; ///< first row of the expert, by group
  // Of the experts that are computed together.
  std::vector<RowPart> rowParts;
  std::vector<DepthPart> depthParts;
  std::vector<Job> jobs;

  bool sizesFit(const int32_t *sizes, char *error, size_t errorBytes) const;
  void addExpert(void *const *pointers, int64_t expert);
  void addGradient(void *const *pointers, int64_t expert);
  void addJob(TiledMatmul matmul, size_t firstRows, size_t firstDepth);
  bool isEnough() const;
  void multiplyJobs(void *workspace);
  int64_t startOf(int64_t group, int64_t expert) const {
    return capacity > 0 ? expert * capacity : starts[group];
  }
  void clearRows(char *y, int64_t group, int64_t begin, int64_t end) const;
  void clearRest(char *y, const int32_t *sizes) const;
  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override;
};
} // namespace

bool GroupedMatmul::sizesFit(const int32_t *sizes, char *error,
                             size_t errorBytes) const {
  for (int64_t g = 0; g < groups; ++g) {
    int64_t used = 0;
    for (int64_t e = 0; e < experts; ++e) {
      int64_t size = sizes[g * experts + e];
      used = size < 0 ? rows + 1 : used + size;
      if (used <= rows && (capacity == 0 || size <= capacity))
        continue;
      say(error, errorBytes,
          "grouped matmul: expert %lld of group %lld has %lld rows, expected "
          "the sizes of a group to sum to at most %lld, each at most %lld",
          (long long)e, (long long)g, (long long)size, (long long)rows,
          (long long)(capacity ? capacity : rows));
      return false;
    }
  }
  return true;
}

/// Its parts are the last ones; `multiplyJobs` makes pointers of the numbers of
/// the first ones, as the vectors may still grow.
void GroupedMatmul::addJob(TiledMatmul matmul, size_t firstRows,
                           size_t firstDepth) {
  matmul.rowPartCount = static_cast<int64_t>(rowParts.size() - firstRows);
  matmul.depthPartCount = static_cast<int64_t>(depthParts.size() - firstDepth);
  jobs.push_back({matmul});
}

void GroupedMatmul::multiplyJobs(void *workspace) {
  const RowPart *rowPart = rowParts.data();
  const DepthPart *depthPart = depthParts.data();
  for (Job &job : jobs) {
    job.matmul.rowParts = rowPart;
    job.matmul.depthParts = depthPart;
    rowPart += job.matmul.rowPartCount;
    depthPart += job.matmul.depthPartCount;
  }
  if (plan.together > 1)
    multiplyTogether(device.pool, device.kernels, *engine, jobs, plan,
                     workspace);
  else if (!jobs.empty())
    multiply(device.pool, device.kernels, *engine, jobs.front().matmul, plan,
             workspace);
  rowParts.clear();
  depthParts.clear();
  jobs.clear();
}

/// Packed operands of more experts would leave the workers' own caches before
/// they are read, those of fewer would leave workers without a tile.
bool GroupedMatmul::isEnough() const {
  constexpr int64_t ofWorker = 1 << 17; // elements
  int64_t elements = 0;
  for (const DepthPart &part : depthParts)
    elements += part.depth;
  if (!jobs.empty())
    elements *= jobs.front().matmul.n;
  return static_cast<int64_t>(jobs.size()) >= plan.together ||
         elements >= ofWorker * device.pool.workers();
}

/// y[rows of the expert] = x[rows] w[e].
void GroupedMatmul::addExpert(void *const *pointers, int64_t expert) {
  const int32_t *sizes = static_cast<const int32_t *>(pointers[Sizes]);
  size_t firstRows = rowParts.size(), firstDepth = depthParts.size();
  for (int64_t g = 0; g < groups; ++g) {
    int64_t size = sizes[g * experts + expert],
            row = g * rows + startOf(g, expert);
    if (size)
      rowParts.push_back({row * k, row * n, size});
    starts[g] += size;
  }
  TiledMatmul p{};
  p.a = {pointers[X], k, 1, xNumber};
  const char *w = static_cast<const char *>(pointers[W]);
  w += expert * n * k * bytesOf(wNumber);
  p.b = transposed ? View{w, n, 1, wNumber} : View{w, 1, k, wNumber};
  p.n = n;
  p.c = pointers[Y];
  p.cNumber = yNumber;
  p.cRow = n;
  if (rowParts.size() == firstRows)
    return;
  for (int64_t at = 0; at < k; at += plan.depth)
    depthParts.push_back({at, at * p.b.row, kerf_cpu_min(plan.depth, k - at)});
  addJob(p, firstRows, firstDepth);
}

/// y[e] (+)= sum over the expert's rows of x^T w, or its transpose.
void GroupedMatmul::addGradient(void *const *pointers, int64_t expert) {
  const int32_t *sizes = static_cast<const int32_t *>(pointers[Sizes]);
  View x = {pointers[X], n, 1, xNumber}, w = {pointers[W], k, 1, wNumber};
  const View &left = transposed ? w : x, &right = transposed ? x : w;
  size_t firstRows = rowParts.size(), firstDepth = depthParts.size();
  for (int64_t g = 0; g < groups; ++g) {
    int64_t size = sizes[g * experts + expert],
            row = g * rows + startOf(g, expert);
    for (int64_t at = 0; at < size; at += plan.depth)
      depthParts.push_back({(row + at) * left.row, (row + at) * right.row,
                            kerf_cpu_min(plan.depth, size - at)});
    starts[g] += size;
  }
  rowParts.push_back({0, 0, transposed ? k : n});
  TiledMatmul p{};
  p.a = {left.data, 1, left.row, left.number};
  p.b = right;
  p.n = transposed ? n : k;
  p.c = static_cast<char *>(pointers[Y]) + expert * n * k * bytesOf(yNumber);
  p.cNumber = yNumber;
  p.cRow = p.n;
  p.accumulate = accumulate;
  addJob(p, firstRows, firstDepth);
}

void GroupedMatmul::clearRows(char *y, int64_t group, int64_t begin,
                              int64_t end) const {
  int64_t rowBytes = n * bytesOf(yNumber);
  std::memset(y + (group * rows + begin) * rowBytes, 0,
              (end - begin) * rowBytes);
}

/// Rows that no expert has.
void GroupedMatmul::clearRest(char *y, const int32_t *sizes) const {
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t e = 0; e < experts && capacity > 0; ++e)
      clearRows(y, g, e * capacity + sizes[g * experts + e],
                (e + 1) * capacity);
    clearRows(y, g, capacity > 0 ? experts * capacity : starts[g], rows);
  }
}

kerf_device_status GroupedMatmul::execute(void *const *pointers, char *error,
                                          size_t errorBytes) {
  if (!sizesFit(static_cast<const int32_t *>(pointers[Sizes]), error,
                errorBytes))
    return KERF_DEVICE_INVALID;
  std::fill(starts.begin(), starts.end(), 0);
  for (int64_t expert = 0; expert < experts; ++expert) {
    gradient ? addGradient(pointers, expert) : addExpert(pointers, expert);
    if (isEnough() || expert + 1 == experts)
      multiplyJobs(pointers[Workspace]);
  }
  if (!gradient)
    clearRest(static_cast<char *>(pointers[Y]),
              static_cast<const int32_t *>(pointers[Sizes]));
  return KERF_DEVICE_OK;
}

static bool checkGrouped(Request &r) {
  if (!r.hasCounts(AttrCount, {5}) || !r.inRange(Kind, "kind", 0, 1) ||
      !r.isSize(Groups, "groups") || !r.isSize(Rows, "rows") ||
      !r.isSize(Experts, "experts") || !r.isSize(N, "n") || !r.isSize(K, "k") ||
      !r.inRange(Transposed, "transposed", 0, 1) ||
      !r.inRange(Capacity, "capacity", 0,
                 r.attr(Rows) / std::max<int64_t>(1, r.attr(Experts))) ||
      !r.inRange(Accumulate, "accumulate", 0, r.attr(Kind)))
    return false;
  for (uint32_t index : {XDtype, WDtype, YDtype})
    if (!isNumber(r.attr(index)))
      return r.fail("found dtype %lld, expected f32, bf16 or f16",
                    (long long)r.attr(index));
  int64_t rows = r.attr(Rows), n = r.attr(N), k = r.attr(K);
  int64_t groups = r.attr(Groups), experts = r.attr(Experts);
  bool gradient = r.attr(Kind);
  // [groups, rows, columns] and [experts, n, k]
  auto isTable = [&](uint32_t operand, const char *what, Attr dtype,
                     int64_t columns) {
    return r.hasBytes(operand, what,
                      static_cast<__int128>(kerf_dtype_bytes(r.attr(dtype))) *
                          groups * rows * columns);
  };
  auto isWeight = [&](uint32_t operand, const char *what, Attr dtype) {
    return r.hasBytes(operand, what,
                      static_cast<__int128>(kerf_dtype_bytes(r.attr(dtype))) *
                          experts * n * k);
  };
  return isTable(X, "x", XDtype, gradient ? n : k) &&
         (gradient ? isTable(W, "w", WDtype, k) : isWeight(W, "w", WDtype)) &&
         r.hasBytes(Sizes, "sizes",
                    static_cast<__int128>(4) * groups * experts) &&
         (gradient ? isWeight(Y, "y", YDtype) : isTable(Y, "y", YDtype, n)) &&
         r.hasWorkspace(Workspace);
}

StepPointer kerf::cpu::prepareGroupedMatmul(Request &r) {
  if (!checkGrouped(r))
    return nullptr;
  auto step = std::make_unique<GroupedMatmul>(r.device);
  step->groups = r.attr(Groups);
  step->rows = r.attr(Rows);
  step->experts = r.attr(Experts);
  step->n = r.attr(N);
  step->k = r.attr(K);
  step->capacity = r.attr(Capacity);
  step->gradient = r.attr(Kind);
  step->transposed = r.attr(Transposed);
  step->accumulate = r.attr(Accumulate);
  step->xNumber = numberOf(r.attr(XDtype));
  step->wNumber = numberOf(r.attr(WDtype));
  step->yNumber = numberOf(r.attr(YDtype));
  step->plan = kerf_cpu_plan_grouped(r.attrs());
  step->engine = &r.device.kernels.engineOf(step->xNumber, step->wNumber);
  step->starts.resize(step->groups);
  return step;
}
