//===- CudnnStep.cpp - commands of attention that cuDNN runs --------------===//
//
// A forward pass is one execution of a plan. A gradient is one for each part
// (kerf_cuda_attention_parts): batch rows and key heads do not need each other,
// so parts bound what cuDNN keeps of them in the workspace. All parts are
// alike and share a plan, as do all commands that are alike. Where any order of
// sums will do, parts are batch rows alone, and their sums of dq in f32 lie in
// the workspace before what cuDNN has of it; cuDNN clears them (since 9.6).
//
// Where one key head with all its query heads has no room, parts are some of
// these query heads, and own kernels add their gradients of keys and values.
//
// The workspace: delta of all rows, then from an aligned address on what the
// view skips, sums of dq, cuDNN's.
//
//===----------------------------------------------------------------------===//

#include "CudnnStep.h"

#include "../kernels/BesideArguments.h"
#include "../kernels/Code.h"
#include "CudnnAttention.h"
#include "kerf/Artifact/CudaWorkspace.h"

#include <algorithm>
#include <cstdio>

using namespace kerf::cuda;
using kerf::device::attentionScalars;
using kerf::device::AttentionShape;
using kerf::device::HeadStrides;

namespace {
/// Bytes from one part to the next along batch rows, key heads, and query heads
/// of a key head.
struct PartStrides {
  int64_t row, group, share;
};

/// Where a tensor of a graph begins.
struct Base {
  uint32_t operand;
  bool isScratch; ///< of the workspace behind delta, aligned
  int64_t offset; ///< bytes
};

/// A gradient of one key head that parts add to.
struct SharedGradient {
  Base target; ///< of the whole
  PartStrides strides;
  Base sum, part; ///< in f32; what a part adds
  SumArguments arguments;
  CUfunction function;
  Grid grid;
};

struct FusedStep : kerf_step {
  using kerf_step::kerf_step;
  FusedAttention part;
  std::shared_ptr<CudnnPlan> plan;
  /// How many parts there are along each.
  int64_t rows = 1, groups = 1, shares = 1;
  std::vector<SharedGradient> shared; ///< where there are several shares
  int64_t deltaBytes = 0;             ///< of the workspace, before all else
  Base scratch;                       ///< what cuDNN has of it
  std::vector<int64_t> ids;           ///< of what is in memory
  std::vector<Base> bases;
  std::vector<PartStrides> strides;

  kerf_device_status execute(void *const *pointers, char *error,
                             size_t errorBytes) override;

private:
  void *addressOf(const Base &base, void *const *pointers) const;
  kerf_device_status runPart(void *const *pointers, int64_t row, int64_t group,
                             int64_t share, char *error, size_t errorBytes);
  kerf_device_status addShare(const SharedGradient &gradient,
                              void *const *pointers, int64_t row, int64_t group,
                              int64_t share, char *error, size_t errorBytes);
};

/// What is known of a command before it is a step.
struct Fusing {
  const FusedRequest &fused;
  const FusedView &view;
  Request &r;
  FusedAttention part;
  std::vector<int64_t> attrs;               ///< the command's, of the view
  int64_t rows = 1, groups = 1, shares = 1; ///< parts
  int64_t deltaBytes = 0, workspaceBytes = 0;
  int64_t sumBytes = 0; ///< of workspaceBytes, before what cuDNN has

  Fusing(const FusedRequest &fused, const FusedView &view);
  std::string check();
  const Cudnn::Entry &find();
  Base baseOf(int role) const;
  Base ownBaseOf(int role) const;
  PartStrides stridesOf(int role) const;
  bool addShared(FusedStep &step, int role) const;

private:
  bool sharesSegments() const;
  void measureWorkspace();
  void split();
  void splitRows();
  int64_t alignmentOfRows() const;
};
} // namespace

Fusing::Fusing(const FusedRequest &fused, const FusedView &view)
    : fused(fused), view(view), r(fused.request),
      attrs(r.attrs(), r.attrs() + KERF_ATTN_ATTR_COUNT) {
  part.shape = view.shape;
  part.backward = fused.backward;
  part.anyOrder = fused.anyOrder;
  part.bottomRight = view.bottomRight;
  part.lse = !r.absent(KERF_ATTN_IN_LSE);
  part.rowCount = attrs[KERF_ATTN_SQ];
  attrs[KERF_ATTN_SQ] = view.shape.sq;
  attrs[KERF_ATTN_SK] = view.shape.sk;
  attrs[KERF_ATTN_ZIGZAG] = 0;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Queries and keys have the same segments: every query sees its own key.
bool Fusing::sharesSegments() const {
  const kerf_operand *at =
      r.info.operands + attentionWorkspace(part.backward) + 1;
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
  uint32_t index = attentionWorkspace(part.backward);
  workspaceBytes = 0;
  if (r.absent(index))
    return;
  auto bytes = static_cast<int64_t>(r.info.operands[index].bytes);
  workspaceBytes = std::max<int64_t>(
      0, bytes - deltaBytes - KERF_CUDA_ATTENTION_ALIGN - view.skipped);
}

/// Parts of whole batch rows: as many as have room for sums of dq and, where
/// heads share keys, their own gradients of these. Where none has, the order
/// stays fixed.
void Fusing::splitRows() {
  constexpr int64_t align = KERF_CUDA_ATTENTION_ALIGN;
  const AttentionShape &shape = view.shape;
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
void Fusing::split() {
  const AttentionShape &shape = view.shape;
  if (!part.backward)
    return;
  if (part.anyOrder)
    splitRows();
  if (part.anyOrder)
    return;
  kerf_cuda_attention_part size =
      kerf_cuda_attention_parts(attrs.data(), workspaceBytes);
  if (size.bytes == 0)
    return;
  rows = shape.b / size.rows;
  groups = shape.g / size.groups;
  shares = shape.h / shape.g / size.heads;
  sumBytes = size.sums;
  part.shape.b = size.rows;
  part.shape.g = size.groups;
  part.shape.h = size.groups * size.heads;
  if (shares > 1) {
    part.shape.dk = {shape.sk * shape.d, shape.d, shape.d};
    part.shape.dvs = {shape.sk * shape.dv, shape.dv, shape.dv};
  }
}

/// Bytes that every address of a part's rows of lse and delta divides by.
int64_t Fusing::alignmentOfRows() const {
  uint64_t step = 4 * static_cast<uint64_t>(part.shape.h * part.rowCount);
  uint64_t bits = 16 | (rows * groups * shares > 1 ? step : 0) |
                  4 * static_cast<uint64_t>(view.query);
  if (!r.absent(KERF_ATTN_IN_LSE))
    bits |= alignmentOf(r.info.operands[KERF_ATTN_IN_LSE]);
  if (part.backward)
    bits |= alignmentOf(r.info.operands[attentionWorkspace(true)]);
  return static_cast<int64_t>(bits & -bits);
}

/// Fills in what the graph is made of. Why cuDNN cannot be asked, or "".
std::string Fusing::check() {
  const AttentionShape &shape = view.shape;
  if (!fused.isWide)
    return "rows that are not whole 16 bytes";
  if (overlaps(shape, part.backward))
    return "rows that lie on each other";
  if (shape.segments && (shape.sq != shape.sk || !sharesSegments()))
    return "segments of keys that are not those of queries";
  std::string why = fusedRefusal(part);
  if (!why.empty())
    return why;
  measureWorkspace();
  split();
  if (part.backward && !part.anyOrder &&
      kerf_cuda_attention_parts(attrs.data(), workspaceBytes).bytes == 0)
    return "gradients of the scores of one key head alone are more than the "
           "workspace may have";
  part.rowAlignment = alignmentOfRows();
  if (shape.segments) {
    const kerf_operand *at =
        r.info.operands + attentionWorkspace(part.backward) + 1;
    uint64_t step = 4 * static_cast<uint64_t>(part.shape.b * shape.sq);
    uint64_t bits = 16 | alignmentOf(*at) | (rows > 1 ? step : 0);
    part.segmentAlignment = static_cast<int64_t>(bits & -bits);
  }
  return "";
}

/// The plan of commands like this one, made for the first of them.
const Cudnn::Entry &Fusing::find() {
  Cudnn &cudnn = r.device.cudnn;
  auto [at, isNew] =
      cudnn.plans.try_emplace(part.key(workspaceBytes - sumBytes));
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

/// Of the command's tensors.
PartStrides Fusing::stridesOf(int role) const {
  const AttentionShape &s = view.shape, &p = part.shape;
  const HeadStrides *const heads[] = {&s.q,  &s.k,  &s.v,  &s.y,  nullptr,
                                      &s.dy, &s.dq, &s.dk, &s.dvs};
  using F = FusedAttention;
  if (role == F::SegmentsQ || role == F::SegmentsK)
    return {4 * p.b * s.sq, 0, 0};
  if (role == F::DqSum) // all parts have the same one
    return {0, 0, 0};
  int64_t perKey = s.h / s.g, perPart = p.h / p.g, bytes = s.bytes();
  if (role == F::Lse || role == F::Delta)
    return {4 * p.b * s.h * part.rowCount, 4 * p.g * perKey * part.rowCount,
            4 * perPart * part.rowCount};
  const HeadStrides &t = *heads[role];
  if (F::isOfKeys(role))
    return {bytes * p.b * t.batch, bytes * p.g * t.head, 0};
  return {bytes * p.b * t.batch, bytes * p.g * perKey * t.head,
          bytes * perPart * t.head};
}

/// Where a role's tensor of the command begins.
Base Fusing::baseOf(int role) const {
  using F = FusedAttention;
  const AttentionShape &s = view.shape;
  uint32_t workspace = attentionWorkspace(part.backward);
  int64_t bytes = s.bytes();
  const FusedCopies &at = view.copies;
  auto ofKeys = [&](const HeadStrides &t, int64_t copy) -> Base {
    if (view.isCopied)
      return {workspace, true, copy};
    return {static_cast<uint32_t>(role), false, view.key * t.position * bytes};
  };
  auto ofQueries = [&](const HeadStrides &t) -> Base {
    return {static_cast<uint32_t>(role), false,
            view.query * t.position * bytes};
  };
  switch (role) {
  case F::K:
    return ofKeys(s.k, at.k);
  case F::V:
    return ofKeys(s.v, at.v);
  case F::Dk:
    return ofKeys(s.dk, at.dk);
  case F::Dv:
    return ofKeys(s.dvs, at.dv);
  case F::Q:
    return ofQueries(s.q);
  case F::Y:
    return ofQueries(s.y);
  case F::Dy:
    return ofQueries(s.dy);
  case F::Dq:
    return ofQueries(s.dq);
  case F::Lse:
    return {4, false, 4 * view.query};
  case F::Delta:
    return {workspace, false, 4 * view.query};
  case F::DqSum:
    return {workspace, true, view.skipped};
  default:
    return {workspace + 1 + (role - F::SegmentsQ), false, 0};
  }
}

/// Where a part's tensor begins: gradients that shares add up are its own.
Base Fusing::ownBaseOf(int role) const {
  using F = FusedAttention;
  if (shares == 1 || (role != F::Dk && role != F::Dv))
    return baseOf(role);
  kerf_cuda_attention_shared at = kerf_cuda_attention_sums(attrs.data());
  return {attentionWorkspace(true), true,
          view.skipped + (role == F::Dk ? at.part_keys : at.part_values)};
}

/// Adds what adds a part's gradient of keys or values to those of the others.
/// False after writing a message.
bool Fusing::addShared(FusedStep &step, int role) const {
  const AttentionShape &s = view.shape;
  bool isOfKeys = role == FusedAttention::Dk;
  int64_t width = isOfKeys ? s.d : s.dv;
  const HeadStrides &strides = isOfKeys ? s.dk : s.dvs;
  kerf_cuda_attention_shared at = kerf_cuda_attention_sums(attrs.data());
  SharedGradient shared;
  shared.target = baseOf(role);
  shared.strides = stridesOf(role);
  shared.part = ownBaseOf(role);
  shared.sum = shared.part;
  shared.sum.offset = view.skipped + (isOfKeys ? at.keys : at.values);
  shared.arguments = {nullptr,
                      nullptr,
                      nullptr,
                      strides.position * s.bytes() / besideWord,
                      static_cast<int32_t>(s.sk),
                      static_cast<int32_t>(width * s.bytes() / besideWord),
                      0,
                      0};
  int64_t words = s.sk * shared.arguments.words;
  shared.grid.threads = besideThreads;
  shared.grid.x =
      static_cast<unsigned>((words + besideThreads - 1) / besideThreads);
  shared.function =
      r.ownKernel(kerf_ptx_beside,
                  s.dtype == KERF_BF16 ? "beside_sum_bf16" : "beside_sum_f16");
  step.shared.push_back(shared);
  return shared.function;
}

static StepPointer makeStep(const Fusing &fusing,
                            std::shared_ptr<CudnnPlan> plan) {
  auto step = std::make_unique<FusedStep>(fusing.r.device, fusing.r.name());
  step->part = fusing.part;
  step->plan = std::move(plan);
  step->rows = fusing.rows;
  step->groups = fusing.groups;
  step->shares = fusing.shares;
  step->deltaBytes = fusing.deltaBytes;
  step->scratch = {attentionWorkspace(fusing.part.backward), true,
                   fusing.view.skipped + fusing.sumBytes};
  for (int role = 0; role < FusedAttention::roles; ++role)
    if (step->part.has(role)) {
      Base base = fusing.ownBaseOf(role);
      bool isShared = fusing.shares > 1 && (role == FusedAttention::Dk ||
                                            role == FusedAttention::Dv);
      step->ids.push_back(step->part.idOf(role));
      step->bases.push_back(base);
      step->strides.push_back(isShared ? PartStrides{0, 0, 0}
                                       : fusing.stridesOf(role));
      if (isShared && !fusing.addShared(*step, role))
        return nullptr;
    }
  return step;
}

static void tellChoice(const Fusing &fusing, const CudnnPlan &plan) {
  std::fprintf(stderr,
               "kerf: cuda: '%s': attention by cuDNN %s, engine %lld, %lld "
               "parts, workspace %lld of %lld%s\n",
               fusing.r.name(), fusing.r.device.cudnn.version().c_str(),
               (long long)plan.engine,
               (long long)(fusing.rows * fusing.groups * fusing.shares),
               (long long)plan.workspaceBytes, (long long)fusing.workspaceBytes,
               fusing.part.anyOrder ? ", sums of dq in any order" : "");
}

StepPointer kerf::cuda::fuseView(const FusedRequest &fused,
                                 const FusedView &view, std::string &why) {
  Request &r = fused.request;
  Fusing fusing(fused, view);
  Cudnn &cudnn = r.device.cudnn;
  why = fusing.check();
  // Only where it may be taken is it opened: it is large.
  if (why.empty() && !cudnn.start(r.device.driver.version))
    why = cudnn.library.failure;
  if (why.empty())
    why = fusedRefusal(fusing.part, cudnn.getVersion(), r.device.capability);
  if (why.empty()) {
    const Cudnn::Entry &entry = fusing.find();
    if (entry.plan) {
      StepPointer step = makeStep(fusing, entry.plan);
      if (step && r.device.log)
        tellChoice(fusing, *entry.plan);
      if (!step)
        why = r.refusal.empty() ? "its own kernels do not load" : r.refusal;
      return step;
    }
    why = entry.refusal;
  }
  return nullptr;
}

/// Null where cuDNN does not take it; `why` says so.
static StepPointer tryFused(const FusedRequest &fused,
                            const AttentionShape &shape, std::string &why) {
  Request &r = fused.request;
  if (r.device.ownAttention) {
    why = "KERF_CUDA_OWN_ATTENTION is set";
    return nullptr;
  }
  uint32_t scalars = attentionScalars(fused.backward);
  bool isPart = !r.absent(scalars + KERF_ATTN_OFFSET_Q) ||
                !r.absent(scalars + KERF_ATTN_OFFSET_K);
  if (shape.causal && (isPart || shape.zigzag))
    return fuseContext(fused, shape, why);
  FusedView whole;
  whole.shape = shape;
  return fuseView(fused, whole, why);
}

StepPointer kerf::cuda::prepareFused(Request &r, const AttentionShape &shape,
                                     bool backward, bool isWide) {
  std::string why;
  if (backward && r.device.anyOrder)
    if (StepPointer step = tryFused({r, backward, isWide, true}, shape, why))
      return step;
  if (StepPointer step = tryFused({r, backward, isWide, false}, shape, why))
    return step;
  if (r.device.log)
    std::fprintf(stderr, "kerf: cuda: '%s': attention not by cuDNN: %s\n",
                 r.name(), why.c_str());
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

void *kerf::cuda::workspaceAt(void *workspace, int64_t skipped) {
  constexpr CUdeviceptr most = KERF_CUDA_ATTENTION_ALIGN - 1;
  CUdeviceptr at = address(workspace) + static_cast<CUdeviceptr>(skipped);
  return reinterpret_cast<void *>((at + most) & ~most);
}

void *FusedStep::addressOf(const Base &base, void *const *pointers) const {
  void *at = pointers[base.operand];
  if (base.isScratch)
    at = workspaceAt(at, deltaBytes);
  return static_cast<char *>(at) + base.offset;
}

kerf_device_status FusedStep::runPart(void *const *pointers, int64_t row,
                                      int64_t group, int64_t share, char *error,
                                      size_t errorBytes) {
  // Null: it needs none.
  void *workspace =
      plan->workspaceBytes ? addressOf(scratch, pointers) : nullptr;
  std::vector<void *> at;
  for (size_t i = 0; i < bases.size(); ++i)
    at.push_back(static_cast<char *>(addressOf(bases[i], pointers)) +
                 row * strides[i].row + group * strides[i].group +
                 share * strides[i].share);
  cudnnStatus_t status =
      plan->execute(device.streams[0], ids, std::move(at), workspace);
  if (status == CUDNN_STATUS_SUCCESS)
    return KERF_DEVICE_OK;
  say(error, errorBytes, "command '%s': cuDNN: %s", name.c_str(),
      device.cudnn.text(status).c_str());
  return KERF_DEVICE_FAILED;
}

kerf_device_status FusedStep::addShare(const SharedGradient &gradient,
                                       void *const *pointers, int64_t row,
                                       int64_t group, int64_t share,
                                       char *error, size_t errorBytes) {
  SumArguments arguments = gradient.arguments;
  arguments.part = addressOf(gradient.part, pointers);
  arguments.sum = static_cast<float *>(addressOf(gradient.sum, pointers));
  arguments.target = static_cast<char *>(addressOf(gradient.target, pointers)) +
                     row * gradient.strides.row +
                     group * gradient.strides.group;
  arguments.isFirst = share == 0;
  arguments.isLast = share == shares - 1;
  void *list[] = {&arguments};
  return launch(*this, gradient.function, gradient.grid, list, error,
                errorBytes);
}

kerf_device_status FusedStep::execute(void *const *pointers, char *error,
                                      size_t errorBytes) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t share = 0; share < shares; ++share) {
        if (auto status =
                runPart(pointers, row, group, share, error, errorBytes))
          return status;
        for (const SharedGradient &gradient : shared)
          if (auto status = addShare(gradient, pointers, row, group, share,
                                     error, errorBytes))
            return status;
      }
  return enqueued(*this, CUDA_SUCCESS, error, errorBytes);
}
