//===- Attention.cpp - attention by the plug-in's own kernels -------------===//
//
// What cuDNN does not take (CudnnStep.h). 16-bit numbers in rows that 16 bytes
// divide go to the kernels on tensor cores, all others to the plain ones.
//
//===----------------------------------------------------------------------===//

#include "../../common/AttentionShape.h"
#include "../Step.h"
#include "../kernels/AttentionArguments.h"
#include "../kernels/Code.h"
#include "CudnnStep.h"
#include "kerf/Artifact/CudaWorkspace.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numbers>
#include <vector>

using namespace kerf::cuda;
using kerf::device::attentionScalars;
using kerf::device::AttentionShape;
using kerf::device::HeadStrides;

namespace {
/// A kernel with the blocks that it needs.
struct Work {
  CUfunction function = nullptr;
  Grid grid;
};

struct Attention : kerf_step {
  using kerf_step::kerf_step;
  AttentionArguments arguments; ///< without addresses
  bool backward, segments;
  std::vector<Work> work; ///< in order

  bool add(Request &request, const char *code, const std::string &kernel,
           Grid grid, int64_t blocks);
  bool addDelta(Request &request, const AttentionShape &shape);
  bool addPlain(Request &request, const AttentionShape &shape);
  bool addMma(Request &request, const AttentionShape &shape,
              const MmaPlan &plan);

  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override;
};
} // namespace

static HeadTensor tensorOf(const HeadStrides &strides) {
  return {nullptr, strides.batch, strides.position, strides.head};
}

static AttentionArguments argumentsOf(const AttentionShape &s) {
  AttentionArguments a{};
  a.q = tensorOf(s.q);
  a.k = tensorOf(s.k);
  a.v = tensorOf(s.v);
  a.y = tensorOf(s.y);
  a.dy = tensorOf(s.dy);
  a.dq = tensorOf(s.dq);
  a.dk = tensorOf(s.dk);
  a.dv = tensorOf(s.dvs);
  a.b = static_cast<int32_t>(s.b);
  a.h = static_cast<int32_t>(s.h);
  a.g = static_cast<int32_t>(s.g);
  a.sq = static_cast<int32_t>(s.sq);
  a.sk = static_cast<int32_t>(s.sk);
  a.d = static_cast<int32_t>(s.d);
  a.dvWidth = static_cast<int32_t>(s.dv);
  a.causal = s.causal;
  a.window = static_cast<int32_t>(s.window);
  a.zigzag = static_cast<int32_t>(s.zigzag);
  a.chunk = static_cast<int32_t>(s.zigzag ? s.global[2] / (2 * s.zigzag) : 0);
  a.scale = static_cast<float>(s.scale);
  bool isCapped = s.softcap > 0;
  a.cap = static_cast<float>(s.softcap);
  a.capInverse = isCapped ? static_cast<float>(1 / s.softcap) : 0.0f;
  a.capScale = isCapped ? static_cast<float>(s.scale / s.softcap) : 0.0f;
  a.unit = static_cast<float>((isCapped ? 1 : s.scale) * std::numbers::log2e);
  a.threshold = kerf::device::dropoutThreshold(s.dropout);
  a.keep = static_cast<float>(1.0 / (1.0 - s.dropout));
  a.nameHash = s.nameHash;
  std::memcpy(a.global, s.global, sizeof a.global);
  return a;
}

//===----------------------------------------------------------------------===//
// Prepare: plain kernels
//===----------------------------------------------------------------------===//

static int64_t parts(int64_t all, int64_t part) {
  return (all + part - 1) / part;
}

/// What the plain kernels of a dtype are called, and where they are.
static const char *plainCode(uint32_t dtype) {
  return dtype == KERF_BF16  ? kerf_ptx_attention_plain_bf16
         : dtype == KERF_F16 ? kerf_ptx_attention_plain_f16
                             : kerf_ptx_attention_plain_f32;
}
static const char *suffix(uint32_t dtype) {
  return dtype == KERF_BF16 ? "_bf16" : dtype == KERF_F16 ? "_f16" : "_f32";
}

/// Adds a kernel of `code` on `blocks` blocks.
bool Attention::add(Request &r, const char *code, const std::string &kernel,
                    Grid grid, int64_t blocks) {
  if (blocks > INT32_MAX)
    return r.fail("%lld blocks of queries or keys, expected at most %d",
                  (long long)blocks, INT32_MAX);
  grid.x = static_cast<unsigned>(blocks);
  CUfunction function =
      r.ownKernel(code, kernel.c_str(), static_cast<int>(grid.sharedBytes));
  if (function)
    work.push_back({function, grid});
  return function;
}

/// sum(dy y) of each row.
bool Attention::addDelta(Request &r, const AttentionShape &s) {
  const char *code = s.dtype == KERF_BF16  ? kerf_ptx_attention_delta_bf16
                     : s.dtype == KERF_F16 ? kerf_ptx_attention_delta_f16
                                           : kerf_ptx_attention_delta_f32;
  Grid grid;
  grid.threads = plainThreads;
  return add(r, code, std::string("attention_delta") + suffix(s.dtype), grid,
             parts(s.b * s.h * s.sq, deltaRows));
}

bool Attention::addPlain(Request &r, const AttentionShape &s) {
  auto addNamed = [&](const char *kernel, int64_t heads, int64_t rows,
                      int64_t channels) {
    Grid grid;
    grid.threads = plainThreads;
    return add(r, plainCode(s.dtype),
               std::string("attention_plain") + kernel + suffix(s.dtype), grid,
               s.b * heads * parts(rows, plainTile) *
                   parts(channels, plainChannels));
  };
  if (!backward)
    return addNamed("", s.h, s.sq, s.dv);
  return addDelta(r, s) && addNamed("_dkv", s.g, s.sk, std::max(s.d, s.dv)) &&
         addNamed("_dq", s.h, s.sq, s.d);
}

//===----------------------------------------------------------------------===//
// Prepare: kernels on tensor cores
//===----------------------------------------------------------------------===//

/// Every address that an operand may have is a multiple of 16 bytes.
static bool isAligned(const kerf_operand &operand) {
  return (operand.offset | operand.iter_stride | operand.slot_stride) % 16 == 0;
}

/// Rows of a tensor, `width` numbers each, lie in whole 16 bytes.
static bool isWide(const Request &r, const AttentionShape &s, uint32_t operand,
                   const HeadStrides &strides, int64_t width) {
  return (strides.batch | strides.position | strides.head | width) * s.bytes() %
                 16 ==
             0 &&
         isAligned(r.info.operands[operand]);
}

static bool areAllWide(const Request &r, const AttentionShape &s,
                       bool backward) {
  bool forward = isWide(r, s, 0, s.q, s.d) && isWide(r, s, 1, s.k, s.d) &&
                 isWide(r, s, 2, s.v, s.dv) && isWide(r, s, 3, s.y, s.dv);
  return forward &&
         (!backward ||
          (isWide(r, s, 5, s.dy, s.dv) && isWide(r, s, 6, s.dq, s.d) &&
           isWide(r, s, 7, s.dk, s.d) && isWide(r, s, 8, s.dvs, s.dv)));
}

/// The plan for a command, or null: it is for the plain kernels.
static const MmaPlan *choosePlan(Request &r, const AttentionShape &s,
                                 bool backward, bool wide) {
  const MmaPlan *plan = mmaPlanOf(std::max(s.d, s.dv));
  if (!plan || s.dtype == KERF_F32 || !(s.scale > 0) || !wide)
    return nullptr;
  // Gradients on tensor cores have no registers left for a soft cap.
  if (backward && s.softcap > 0)
    return nullptr;
  int most = 0;
  if (r.device.driver.deviceGetAttribute(
          &most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
          r.device.ordinal))
    return nullptr;
  int needed = backward ? std::max(plan->dqBytes(), plan->dkvBytes())
                        : plan->forwardBytes();
  return needed <= most ? plan : nullptr;
}

bool Attention::addMma(Request &r, const AttentionShape &s,
                       const MmaPlan &plan) {
  bool bf16 = s.dtype == KERF_BF16;
  std::string name =
      std::string(suffix(s.dtype)) + "_" + std::to_string(plan.depth);
  auto addNamed = [&](const char *kernel, int bytes, int64_t heads,
                      int64_t tiles, int64_t channels) {
    Grid grid;
    grid.threads = mmaThreads;
    grid.sharedBytes = static_cast<unsigned>(bytes);
    const char *code = backward ? bf16 ? kerf_ptx_attention_backward_bf16
                                       : kerf_ptx_attention_backward_f16
                       : bf16   ? kerf_ptx_attention_forward_bf16
                                : kerf_ptx_attention_forward_f16;
    return add(r, code, "attention_mma" + (kernel + name), grid,
               s.b * heads * tiles * parts(channels, plan.width));
  };
  if (!backward)
    return addNamed("", plan.forwardBytes(), s.h, parts(s.sq, mmaQueries),
                    s.dv);
  return addDelta(r, s) &&
         addNamed("_dkv", plan.dkvBytes(), s.g, parts(s.sk, plan.dkvKeys),
                  std::max(s.d, s.dv)) &&
         addNamed("_dq", plan.dqBytes(), s.h, parts(s.sq, plan.dqQueries), s.d);
}

//===----------------------------------------------------------------------===//
// Prepare
//===----------------------------------------------------------------------===//

/// Limits of the kernels' 32-bit numbers.
static bool fitsKernels(Request &r, const AttentionShape &s) {
  for (int i = 2; i < 4; ++i)
    if (s.global[i] > INT32_MAX)
      return r.fail("found %lld positions, expected at most %d",
                    (long long)s.global[i], INT32_MAX);
  if (s.b * s.h > INT32_MAX)
    return r.fail("found %lld heads in the batch, expected at most %d",
                  (long long)(s.b * s.h), INT32_MAX);
  return true;
}

static void tell(const Request &r, const MmaPlan *plan) {
  if (plan)
    std::fprintf(stderr,
                 "kerf: cuda: '%s': attention on tensor cores, %d channels in "
                 "shared memory\n",
                 r.name(), plan->depth);
  else
    std::fprintf(stderr, "kerf: cuda: '%s': attention without tensor cores\n",
                 r.name());
}

static StepPointer prepare(Request &r, bool backward) {
  AttentionShape shape;
  if (!readAttention(r, backward, shape) || !fitsKernels(r, shape))
    return nullptr;
  uint32_t workspace = attentionScalars(backward) + KERF_ATTN_WORKSPACE;
  if (backward &&
      !r.hasBytes(workspace, "workspace", kerf_cuda_attention_delta(r.attrs())))
    return nullptr;
  bool wide = areAllWide(r, shape, backward);
  if (StepPointer step = prepareFused(r, shape, backward, wide))
    return step;
  auto step = std::make_unique<Attention>(r.device, r.name());
  step->arguments = argumentsOf(shape);
  step->backward = backward;
  step->segments = shape.segments;
  step->arguments.wide = backward && isWide(r, shape, 3, shape.y, shape.dv) &&
                         isWide(r, shape, 5, shape.dy, shape.dv);
  const MmaPlan *plan = choosePlan(r, shape, backward, wide);
  if (r.device.log)
    tell(r, plan);
  if (!(plan ? step->addMma(r, shape, *plan) : step->addPlain(r, shape)))
    return nullptr;
  return step;
}

StepPointer kerf::cuda::prepareAttention(Request &request) {
  return prepare(request, /*backward=*/false);
}

StepPointer kerf::cuda::prepareAttentionBackward(Request &request) {
  return prepare(request, /*backward=*/true);
}

//===----------------------------------------------------------------------===//
// Execute
//===----------------------------------------------------------------------===//

/// Puts the addresses of a run into the arguments.
static void bind(AttentionArguments &a, bool backward, void *const *pointers) {
  a.q.data = pointers[KERF_ATTN_IN_Q];
  a.k.data = pointers[KERF_ATTN_IN_K];
  a.v.data = pointers[KERF_ATTN_IN_V];
  a.y.data = pointers[KERF_ATTN_IN_Y];
  a.lse = static_cast<float *>(pointers[KERF_ATTN_IN_LSE]);
  void *const *scalars = pointers + attentionScalars(backward);
  const int32_t **const at[] = {&a.seed,    &a.step,    &a.layer,  &a.offsetB,
                                &a.offsetH, &a.offsetQ, &a.offsetK};
  for (int i = 0; i < KERF_ATTN_WORKSPACE; ++i)
    *at[i] = static_cast<const int32_t *>(scalars[i]);
  if (!backward)
    return;
  a.dy.data = pointers[KERF_ATTN_IN_DY];
  a.dq.data = pointers[KERF_ATTN_IN_DQ];
  a.dk.data = pointers[KERF_ATTN_IN_DK];
  a.dv.data = pointers[KERF_ATTN_IN_DV];
  a.delta = static_cast<float *>(scalars[KERF_ATTN_WORKSPACE]);
}

kerf_device_status Attention::execute(void *const *pointers, char *error,
                                      size_t errorBytes) {
  AttentionArguments a = arguments;
  bind(a, backward, pointers);
  if (segments) {
    void *const *at = pointers + attentionScalars(backward) + 8;
    a.segmentsQ = static_cast<const int32_t *>(at[0]);
    a.segmentsK = static_cast<const int32_t *>(at[1]);
  }
  void *list[] = {&a};
  for (const Work &part : work)
    if (kerf_device_status status =
            launch(*this, part.function, part.grid, list, error, errorBytes))
      return status;
  return KERF_DEVICE_OK;
}
