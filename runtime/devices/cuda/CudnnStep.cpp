//===- CudnnStep.cpp - commands of attention that cuDNN runs --------------===//
//
// A forward pass is one execution of a plan. A gradient is one for each part
// (kerf_cuda_attention_parts): batch rows and key heads do not need each other,
// so parts bound what cuDNN keeps of them in the workspace. All parts are
// alike and share a plan, as do all commands that are alike. Where any order of
// sums will do, parts are batch rows alone, and their sums of dq in f32 lie in
// the workspace before what cuDNN has of it; cuDNN clears them (since 9.6).
//
//===----------------------------------------------------------------------===//

#include "CudnnStep.h"

#include "CudnnAttention.h"
#include "kerf/Artifact/CudaWorkspace.h"

#include <algorithm>
#include <cstdio>

using namespace kerf::cuda;
using kerf::device::attentionScalars;
using kerf::device::AttentionShape;
using kerf::device::HeadStrides;

namespace {
/// Bytes from one batch row, and from one key head, to the next.
struct PartStrides {
  int64_t row, group;
};

struct FusedStep : kerf_step {
  using kerf_step::kerf_step;
  FusedAttention part;
  std::shared_ptr<CudnnPlan> plan;
  int64_t rows = 1, groups = 1; ///< of the whole: how many parts there are
  int64_t deltaBytes = 0;       ///< of the workspace, before all else
  int64_t sumBytes = 0;         ///< sums of dq, before cuDNN's
  std::vector<int64_t> ids;     ///< of what is in memory
  std::vector<PartStrides> strides;

  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override;

private:
  std::vector<void *> addresses(void *const *pointers) const;
};

/// What is known of a command before it is a step.
struct Fusing {
  Request &r;
  FusedAttention part;
  int64_t rows, groups; ///< parts
  int64_t deltaBytes, workspaceBytes;
  int64_t sumBytes = 0; ///< of workspaceBytes, sums of dq of a part

  std::string check(const AttentionShape &shape, bool isWide);
  const Cudnn::Entry &find();

private:
  bool isAbsent(uint32_t scalar) const {
    return r.absent(attentionScalars(part.backward) + scalar);
  }
  bool sharesSegments() const;
  void measureWorkspace();
  void cut(const AttentionShape &shape);
  void cutRows(const AttentionShape &shape);
  int64_t alignmentOfRows() const;
};
} // namespace

/// Where a kerf_step's operands are: the workspace after the scalars.
static uint32_t workspaceOf(bool backward) {
  return attentionScalars(backward) + 7;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Queries and keys have the same segments: every query sees its own key.
bool Fusing::sharesSegments() const {
  const kerf_operand *at = r.info.operands + workspaceOf(part.backward) + 1;
  return at[0].kind == at[1].kind && at[0].offset == at[1].offset &&
         at[0].iter_stride == at[1].iter_stride &&
         at[0].slot_stride == at[1].slot_stride;
}

/// Do positions, heads or batch rows lie on each other? cuDNN is told positive
/// strides only.
static bool overlaps(const HeadStrides &t, const AttentionShape &s,
                     bool isOfKeys) {
  return (s.b > 1 && t.batch < 1) ||
         ((isOfKeys ? s.sk : s.sq) > 1 && t.position < 1) ||
         ((isOfKeys ? s.g : s.h) > 1 && t.head < 1);
}

static bool overlaps(const AttentionShape &s, bool backward) {
  return overlaps(s.q, s, false) || overlaps(s.k, s, true) ||
         overlaps(s.v, s, true) || overlaps(s.y, s, false) ||
         (backward && (overlaps(s.dy, s, false) || overlaps(s.dq, s, false) ||
                       overlaps(s.dk, s, true) || overlaps(s.dvs, s, true)));
}

/// Bytes that cuDNN may have however far its part must go to an aligned
/// address: the choice must not depend on where the arena lies.
void Fusing::measureWorkspace() {
  deltaBytes = part.backward ? kerf_cuda_attention_delta(r.attrs()) : 0;
  uint32_t index = workspaceOf(part.backward);
  workspaceBytes = 0;
  if (r.absent(index))
    return;
  auto bytes = static_cast<int64_t>(r.info.operands[index].bytes);
  workspaceBytes =
      std::max<int64_t>(0, bytes - deltaBytes - KERF_CUDA_ATTENTION_ALIGN);
}

/// Parts of whole batch rows: as many as have room for sums of dq and, where
/// heads share keys, their own gradients of these. Where none has, the order
/// stays fixed.
void Fusing::cutRows(const AttentionShape &shape) {
  constexpr int64_t align = KERF_CUDA_ATTENTION_ALIGN;
  int64_t sum = 4 * shape.h * shape.sq * shape.d, row = sum;
  if (r.device.capability < 90) // engines there keep sums of their own
    row += sum;
  if (shape.h > shape.g)
    row += 2 * shape.h * shape.sk * (shape.d + shape.dv);
  int64_t most = workspaceBytes - KERF_CUDA_ATTENTION_EXTRA - align;
  part.anyOrder = most >= row;
  if (!part.anyOrder)
    return;
  part.shape.b = kerf_cuda_divisor(shape.b, most / row);
  rows = shape.b / part.shape.b;
  sumBytes = (part.shape.b * sum + align - 1) / align * align;
}

/// Makes the shape that of a part.
void Fusing::cut(const AttentionShape &shape) {
  rows = groups = 1;
  if (!part.backward)
    return;
  if (part.anyOrder)
    cutRows(shape);
  if (part.anyOrder)
    return;
  kerf_cuda_attention_part size =
      kerf_cuda_attention_parts(r.attrs(), workspaceBytes);
  if (size.bytes == 0)
    return;
  rows = shape.b / size.rows;
  groups = shape.g / size.groups;
  part.shape.b = size.rows;
  part.shape.g = size.groups;
  part.shape.h = size.groups * (shape.h / shape.g);
}

/// Bytes that every address of a part's rows of lse and delta divides by.
int64_t Fusing::alignmentOfRows() const {
  uint64_t step = 4 * static_cast<uint64_t>(part.shape.h * part.shape.sq);
  uint64_t bits = 16 | (rows * groups > 1 ? step : 0);
  if (!r.absent(4))
    bits |= alignmentOf(r.info.operands[4]);
  if (part.backward)
    bits |= alignmentOf(r.info.operands[workspaceOf(true)]);
  return static_cast<int64_t>(bits & -bits);
}

/// Fills in what the graph is made of. Why cuDNN cannot be asked, or "".
std::string Fusing::check(const AttentionShape &shape, bool isWide) {
  part.shape = shape;
  part.lse = !r.absent(4);
  if (!isWide)
    return "rows that are not whole 16 bytes";
  if (overlaps(shape, part.backward))
    return "rows that lie on each other";
  if (shape.segments && (shape.sq != shape.sk || !sharesSegments()))
    return "segments of keys that are not those of queries";
  if (shape.causal && (!isAbsent(5) || !isAbsent(6)))
    return "a mask that depends on where a rank's queries or keys lie";
  std::string why = fusedRefusal(part);
  if (!why.empty())
    return why;
  measureWorkspace();
  cut(shape);
  if (part.backward && !part.anyOrder &&
      kerf_cuda_attention_parts(r.attrs(), workspaceBytes).bytes == 0)
    return "gradients of the scores of one key head alone are more than the "
           "workspace may have";
  part.rowAlignment = alignmentOfRows();
  if (shape.segments) {
    const kerf_operand *at = r.info.operands + workspaceOf(part.backward) + 1;
    uint64_t step = 4 * static_cast<uint64_t>(part.shape.b * shape.sq);
    uint64_t bits = 16 | alignmentOf(*at) | (rows > 1 ? step : 0);
    part.segmentAlignment = static_cast<int64_t>(bits & -bits);
  }
  return "";
}

/// The plan of commands like this one, made for the first of them.
const Cudnn::Entry &Fusing::find() {
  Cudnn &cudnn = r.device.cudnn;
  auto [at, isNew] = cudnn.plans.try_emplace(part.key(workspaceBytes));
  Cudnn::Entry &entry = at->second;
  if (!isNew)
    return entry;
  CudnnGraph graph(cudnn);
  part.build(graph, cudnn.getVersion());
  entry.plan = CudnnPlan::make(cudnn, graph, workspaceBytes - sumBytes,
                               part.anyOrder, entry.refusal);
  return entry;
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

static PartStrides stridesOf(const FusedAttention &part, int role,
                             int64_t allHeads) {
  const AttentionShape &s = part.shape;
  const HeadStrides *const heads[] = {&s.q,  &s.k,  &s.v,  &s.y,  nullptr,
                                      &s.dy, &s.dq, &s.dk, &s.dvs};
  using F = FusedAttention;
  if (role == F::SegmentsQ || role == F::SegmentsK)
    return {4 * s.sq, 0};
  if (role == F::DqSum) // all parts have the same one
    return {0, 0};
  if (role == F::Lse || role == F::Delta)
    return {4 * allHeads * s.sq, 4 * (s.h / s.g) * s.sq};
  bool isOfKeys =
      role == F::K || role == F::V || role == F::Dk || role == F::Dv;
  int64_t bytes = s.bytes();
  return {bytes * heads[role]->batch,
          bytes * heads[role]->head * (isOfKeys ? 1 : s.h / s.g)};
}

static StepPointer makeStep(const Fusing &fusing,
                            std::shared_ptr<CudnnPlan> plan, int64_t allHeads) {
  auto step = std::make_unique<FusedStep>(fusing.r.device, fusing.r.name());
  step->part = fusing.part;
  step->plan = std::move(plan);
  step->rows = fusing.rows;
  step->groups = fusing.groups;
  step->deltaBytes = fusing.deltaBytes;
  step->sumBytes = fusing.sumBytes;
  for (int role = 0; role < FusedAttention::roles; ++role)
    if (step->part.has(role)) {
      step->ids.push_back(step->part.idOf(role));
      step->strides.push_back(stridesOf(step->part, role, allHeads));
    }
  return step;
}

static void tellChoice(const Fusing &fusing, const CudnnPlan &plan) {
  std::fprintf(stderr,
               "kerf: cuda: '%s': attention by cuDNN %s, engine %lld, %lld "
               "parts, workspace %lld of %lld%s\n",
               fusing.r.name(), fusing.r.device.cudnn.version().c_str(),
               (long long)plan.engine, (long long)(fusing.rows * fusing.groups),
               (long long)plan.workspaceBytes, (long long)fusing.workspaceBytes,
               fusing.part.anyOrder ? ", sums of dq in any order" : "");
}

/// Null where cuDNN does not take it; `why` says so.
static StepPointer tryFused(Request &r, const AttentionShape &shape,
                            bool backward, bool isWide, bool anyOrder,
                            std::string &why) {
  Fusing fusing{r, {}, 1, 1, 0, 0};
  fusing.part.backward = backward;
  fusing.part.anyOrder = anyOrder;
  Cudnn &cudnn = r.device.cudnn;
  why = r.device.ownAttention ? "KERF_CUDA_OWN_ATTENTION is set"
                              : fusing.check(shape, isWide);
  // Only where it may be taken is it opened: it is large.
  if (why.empty() && !cudnn.start(r.device.driver.version))
    why = cudnn.library.failure;
  if (why.empty())
    why = fusedRefusal(fusing.part, cudnn.getVersion(), r.device.capability);
  if (why.empty()) {
    const Cudnn::Entry &entry = fusing.find();
    if (entry.plan) {
      if (r.device.log)
        tellChoice(fusing, *entry.plan);
      return makeStep(fusing, entry.plan, shape.h);
    }
    why = entry.refusal;
  }
  return nullptr;
}

StepPointer kerf::cuda::prepareFused(Request &r, const AttentionShape &shape,
                                     bool backward, bool isWide) {
  std::string why;
  if (backward && r.device.anyOrder)
    if (StepPointer step = tryFused(r, shape, backward, isWide, true, why))
      return step;
  if (StepPointer step = tryFused(r, shape, backward, isWide, false, why))
    return step;
  if (r.device.log)
    std::fprintf(stderr, "kerf: cuda: '%s': attention not by cuDNN: %s\n",
                 r.name(), why.c_str());
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// The first address of the workspace that cuDNN takes; null: it needs none.
static void *workspaceAt(void *workspace, int64_t skipped, int64_t bytes) {
  constexpr CUdeviceptr most = KERF_CUDA_ATTENTION_ALIGN - 1;
  if (bytes == 0)
    return nullptr;
  CUdeviceptr at = address(workspace) + static_cast<CUdeviceptr>(skipped);
  return reinterpret_cast<void *>((at + most) & ~most);
}

/// Addresses of what is in memory, of the first part.
std::vector<void *> FusedStep::addresses(void *const *pointers) const {
  uint32_t workspace = workspaceOf(part.backward);
  std::vector<void *> result;
  using F = FusedAttention;
  for (int role = 0; role < F::roles; ++role) {
    if (!part.has(role))
      continue;
    if (role == F::Delta)
      result.push_back(pointers[workspace]);
    else if (role == F::DqSum)
      result.push_back(workspaceAt(pointers[workspace], deltaBytes, sumBytes));
    else if (role >= F::SegmentsQ)
      result.push_back(pointers[workspace + 1 + (role - F::SegmentsQ)]);
    else
      result.push_back(pointers[role]);
  }
  return result;
}

kerf_device_status FusedStep::execute(void *const *pointers, char *error,
                                      size_t errorBytes) {
  const std::vector<void *> first = addresses(pointers);
  // The sums are whole times the alignment.
  void *workspace = workspaceAt(pointers[workspaceOf(part.backward)],
                                deltaBytes + sumBytes, plan->workspaceBytes);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t group = 0; group < groups; ++group) {
      std::vector<void *> at = first;
      for (size_t i = 0; i < at.size(); ++i)
        at[i] = static_cast<char *>(at[i]) +
                row * part.shape.b * strides[i].row +
                group * part.shape.g * strides[i].group;
      cudnnStatus_t status =
          plan->execute(device.streams[0], ids, std::move(at), workspace);
      if (status != CUDNN_STATUS_SUCCESS) {
        say(error, errorBytes, "command '%s': cuDNN: %s", name.c_str(),
            device.cudnn.text(status).c_str());
        return KERF_DEVICE_FAILED;
      }
    }
  return enqueued(*this, CUDA_SUCCESS, error, errorBytes);
}
