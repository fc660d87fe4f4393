//===- GroupedMatmul.cpp - matmuls with the weights of experts ------------===//
//
// Two kernels: the first finds where each expert's rows lie, the second
// multiplies, with blocks for as many tiles as there can be. Nothing waits for
// the host; sizes that do not fit show in `synchronize`. The second has three
// forms: by warpgroups (wgmma) on compute capability 9.0, by warps (mma.sync),
// and without tensor cores.
//
//===----------------------------------------------------------------------===//

#include "../common/MatmulAttrs.h"
#include "Step.h"
#include "kerf/Artifact/CudaWorkspace.h"
#include "kernels/Code.h"
#include "kernels/GroupedArguments.h"

#include <algorithm>
#include <cstdio>

using namespace kerf::cuda;
using namespace kerf::device::grouped;

namespace {
struct GroupedMatmul : kerf_step {
  using kerf_step::kerf_step;
  GroupedArguments arguments; ///< without addresses of operands
  CUfunction plan, multiply;
  Grid planGrid, multiplyGrid;

  bool choose(Request &request);
  bool choosePlain(Request &request);
  bool chooseMma(Request &request);
  bool chooseWgmma(Request &request);
  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override;
  std::string explain(const Fault &fault) const override;
};
} // namespace

//===----------------------------------------------------------------------===//
// Prepare
//===----------------------------------------------------------------------===//

static bool isNumber(int64_t dtype) {
  return dtype == KERF_F32 || dtype == KERF_BF16 || dtype == KERF_F16;
}

static bool checkAttributes(Request &r) {
  if (!r.hasCounts(AttrCount, {5}) || !r.inRange(Kind, "kind", 0, 1) ||
      !r.inRange(Groups, "groups", 1, INT32_MAX) ||
      !r.inRange(Rows, "rows", 1, INT32_MAX) ||
      !r.inRange(Experts, "experts", 1, INT32_MAX) || !r.isSize(N, "n") ||
      !r.isSize(K, "k") || !r.inRange(Transposed, "transposed", 0, 1) ||
      !r.inRange(Capacity, "capacity", 0, r.attr(Rows) / r.attr(Experts)) ||
      !r.inRange(Accumulate, "accumulate", 0, r.attr(Kind)))
    return false;
  for (uint32_t index : {XDtype, WDtype, YDtype})
    if (!isNumber(r.attr(index)))
      return r.fail("found dtype %lld, expected f32, bf16 or f16",
                    (long long)r.attr(index));
  int64_t tiles = kerf_cuda_grouped_tiles(r.attrs());
  return tiles <= INT32_MAX ||
         r.fail("found %lld rows of %lld experts, which are %lld tiles, "
                "expected at most %d: use smaller groups",
                (long long)r.attr(Rows), (long long)r.attr(Experts),
                (long long)tiles, INT32_MAX);
}

/// Operand `index` has `count` elements of the dtype in an attribute.
static bool hasElements(Request &r, uint32_t index, const char *what,
                        Attr dtype, __int128 count) {
  return r.hasBytes(index, what, count * kerf_dtype_bytes(r.attr(dtype)));
}

static bool checkOperands(Request &r) {
  bool gradient = r.attr(Kind);
  __int128 rows = static_cast<__int128>(r.attr(Groups)) * r.attr(Rows);
  __int128 weight =
      static_cast<__int128>(r.attr(Experts)) * r.attr(N) * r.attr(K);
  int64_t n = r.attr(N), k = r.attr(K);
  return hasElements(r, X, "x", XDtype, rows * (gradient ? n : k)) &&
         hasElements(r, W, "w", WDtype, gradient ? rows * k : weight) &&
         r.hasBytes(Sizes, "sizes",
                    static_cast<__int128>(4) * r.attr(Groups) *
                        r.attr(Experts)) &&
         hasElements(r, Y, "y", YDtype, gradient ? weight : rows * n) &&
         r.hasBytes(Workspace, "workspace",
                    kerf_cuda_grouped_workspace(r.attrs()));
}

static GroupedArguments argumentsOf(const Request &r) {
  auto number = [&](Attr index) { return static_cast<int32_t>(r.attr(index)); };
  GroupedArguments a{};
  a.n = r.attr(N);
  a.k = r.attr(K);
  a.xDtype = number(XDtype);
  a.wDtype = number(WDtype);
  a.yDtype = number(YDtype);
  a.groups = number(Groups);
  a.rows = number(Rows);
  a.experts = number(Experts);
  a.gradient = number(Kind);
  a.transposed = number(Transposed);
  a.capacity = number(Capacity);
  a.accumulate = number(Accumulate);
  a.tiles = static_cast<int32_t>(kerf_cuda_grouped_tiles(r.attrs()));
  return a;
}

static int64_t parts(int64_t all, int64_t part) {
  return (all + part - 1) / part;
}

/// Blocks that tiles of `height` x `width` results need; 0 after a message when
/// they are too many.
static unsigned blocksOf(Request &r, const GroupedArguments &a, int64_t height,
                         int64_t width) {
  __int128 down, across;
  if (a.gradient) {
    down = parts(a.transposed ? a.k : a.n, height) * __int128{a.experts};
    across = parts(a.transposed ? a.n : a.k, width);
  } else {
    down = parts(KERF_CUDA_GROUPED_ROWS, height) * __int128{a.groups} * a.tiles;
    across = parts(a.n, width);
  }
  if (down * across <= INT32_MAX)
    return static_cast<unsigned>(down * across);
  r.fail("tiles of %lld x %lld results, found more than %d", (long long)height,
         (long long)width, INT32_MAX);
  return 0;
}

/// Name of a kernel on tensor cores, as its source makes it.
static std::string kernelName(const char *form, const GroupedArguments &a) {
  return std::string("grouped_") + form +
         (a.gradient     ? "_weights"
          : a.transposed ? "_rows_transposed"
                         : "_rows") +
         (a.xDtype == KERF_BF16 ? "_bf16" : "_f16");
}

static void tell(const Request &r, const char *choice) {
  if (r.device.log)
    std::fprintf(stderr, "kerf: cuda: '%s': matmuls of experts %s\n", r.name(),
                 choice);
}

bool GroupedMatmul::choosePlain(Request &r) {
  multiplyGrid.threads = groupedPlainThreads;
  multiplyGrid.x = blocksOf(r, arguments, groupedPlainTile, groupedPlainTile);
  if (!multiplyGrid.x)
    return false;
  tell(r, "without tensor cores");
  multiply = r.ownKernel(kerf_ptx_grouped_plain, arguments.gradient
                                                     ? "grouped_plain_weights"
                                                     : "grouped_plain_rows");
  return multiply;
}

/// Every address that an operand may have is a multiple of 16 bytes.
static bool isAligned(const Request &r, uint32_t operand) {
  const kerf_operand &o = r.info.operands[operand];
  return (o.offset | o.iter_stride | o.slot_stride) % 16 == 0;
}

/// Bytes of shared memory that a block may have; 0 where the driver does not
/// tell.
static int sharedBytes(const Request &r) {
  int most = 0;
  CUresult result = r.device.driver.deviceGetAttribute(
      &most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
      r.device.ordinal);
  return result == CUDA_SUCCESS ? most : 0;
}

/// 16-bit factors in rows of whole 16 bytes can be multiplied on tensor cores.
static bool fitsMma(const Request &r, const GroupedArguments &a) {
  return a.xDtype == a.wDtype && a.xDtype != KERF_F32 && a.n % 8 == 0 &&
         a.k % 8 == 0 && std::max(a.n, a.k) <= INT32_MAX - groupedMmaDepth &&
         isAligned(r, X) && isAligned(r, W) && isAligned(r, Y) &&
         sharedBytes(r) >= groupedMmaBytes;
}

bool GroupedMatmul::chooseMma(Request &r) {
  multiplyGrid.threads = groupedMmaThreads;
  multiplyGrid.sharedBytes = groupedMmaBytes;
  multiplyGrid.x = blocksOf(r, arguments, groupedMmaSide, groupedMmaSide);
  if (!multiplyGrid.x)
    return false;
  tell(r, "on tensor cores by mma.sync");
  bool bf16 = arguments.xDtype == KERF_BF16;
  multiply =
      r.ownKernel(bf16 ? kerf_ptx_grouped_mma_bf16 : kerf_ptx_grouped_mma_f16,
                  kernelName("mma", arguments).c_str(), groupedMmaBytes);
  return multiply;
}

/// Blocks to launch, each of which goes on to other results until it multiplied
/// about 64 pieces of the summed index: then the time to fill the pipeline does
/// not count, and processors that other kernels keep busy for a while are not
/// waited for. Whole waves of them on the processors.
static unsigned launchedBlocks(const GroupedArguments &a, unsigned results,
                               int64_t processors) {
  constexpr int64_t wanted = 64;
  processors = std::max<int64_t>(processors, 1);
  int64_t summed =
      a.gradient ? parts(int64_t{a.groups} * a.rows, a.experts) : a.k;
  int64_t each = parts(wanted, parts(summed, groupedMmaDepth));
  int64_t room = processors * each;
  int64_t waves = std::max<int64_t>((results + room / 2) / room, 1);
  // One more result for each block of a few waves may take longer than a wave.
  auto roundsOf = [&](int64_t count) {
    return count * parts(results, count * processors);
  };
  int64_t least = waves;
  for (int64_t count = waves + 1; count <= waves + 2; ++count)
    if (roundsOf(count) < roundsOf(least))
      least = count;
  return static_cast<unsigned>(
      parts(results, parts(results, least * processors)));
}

bool GroupedMatmul::chooseWgmma(Request &r) {
  multiplyGrid.threads = groupedWgmmaThreads;
  multiplyGrid.sharedBytes = groupedWgmmaBytes;
  unsigned results =
      blocksOf(r, arguments, groupedMmaSide, groupedWgmmaColumns);
  if (!results)
    return false;
  multiplyGrid.x = launchedBlocks(arguments, results, r.device.processors);
  bool bf16 = arguments.xDtype == KERF_BF16;
  multiply = r.ownKernel(
      bf16 ? kerf_ptx_grouped_wgmma_bf16 : kerf_ptx_grouped_wgmma_f16,
      kernelName("wgmma", arguments).c_str(), groupedWgmmaBytes);
  if (multiply)
    tell(r, "on tensor cores by wgmma");
  return multiply;
}

static bool mayWgmma(const Request &r) {
  return r.device.capability == 90 && !r.device.noWgmma &&
         sharedBytes(r) >= groupedWgmmaBytes;
}

bool GroupedMatmul::choose(Request &r) {
  if (!fitsMma(r, arguments))
    return choosePlain(r);
  if (mayWgmma(r)) {
    // A driver that takes all else may refuse code for one kind of GPU. It is
    // not asked again.
    if (chooseWgmma(r) || r.refusal.empty())
      return multiply;
    tell(r, ("not by wgmma: " + r.refusal).c_str());
    r.device.noWgmma = true;
  }
  return chooseMma(r);
}

StepPointer kerf::cuda::prepareGroupedMatmul(Request &r) {
  if (!checkAttributes(r) || !checkOperands(r))
    return nullptr;
  auto step = std::make_unique<GroupedMatmul>(r.device, r.name());
  GroupedArguments &a = step->arguments;
  a = argumentsOf(r);
  a.step = step->watch();
  a.fault = reinterpret_cast<int32_t *>(r.device.fault);
  step->planGrid.x = static_cast<unsigned>(a.groups);
  step->planGrid.threads = groupedPlanThreads;
  step->plan =
      r.ownKernel(kerf_ptx_grouped_plan,
                  a.gradient ? "grouped_plan_starts" : "grouped_plan_tiles");
  if (!step->plan || !step->choose(r))
    return nullptr;
  return step;
}

//===----------------------------------------------------------------------===//
// Execute
//===----------------------------------------------------------------------===//

kerf_device_status GroupedMatmul::execute(void *const *pointers, char *error,
                                          size_t errorBytes) {
  GroupedArguments a = arguments;
  a.x = pointers[X];
  a.w = pointers[W];
  a.sizes = static_cast<const int32_t *>(pointers[Sizes]);
  a.y = pointers[Y];
  a.plan = pointers[Workspace];
  void *list[] = {&a};
  if (kerf_device_status status =
          launch(*this, plan, planGrid, list, error, errorBytes))
    return status;
  return launch(*this, multiply, multiplyGrid, list, error, errorBytes);
}

std::string GroupedMatmul::explain(const Fault &fault) const {
  char text[256];
  say(text, sizeof text,
      "grouped matmul: expert %d of group %d has %d rows, expected the sizes "
      "of a group to sum to at most %d, each at most %d",
      fault.values[0], fault.values[1], fault.values[2], arguments.rows,
      arguments.capacity ? arguments.capacity : arguments.rows);
  return text;
}
