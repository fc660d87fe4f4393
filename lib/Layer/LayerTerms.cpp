//===- LayerTerms.cpp - the terms that a layer's cost is made of ----------===//

#include "kerf/Layer/LayerTerms.h"

#include "kerf/Artifact/CudaWorkspace.h"

#include "kerf/Cost/Kernels.h"

#include <algorithm>
#include <cmath>

using namespace kerf;

llvm::StringRef kerf::axisName(InnerAxis axis) {
  switch (axis) {
  case InnerAxis::Tensor:
    return "tp";
  case InnerAxis::Context:
    return "cp";
  case InnerAxis::Expert:
    return "ep";
  }
  llvm_unreachable("covered switch");
}

int64_t kerf::toPicoseconds(double seconds) {
  double count = seconds * 1e12;
  return count < double(kInfiniteCost) ? std::llround(count) : kInfiniteCost;
}

LayerTerms::LayerTerms(const LayerContext &context, const LayerQuery &query,
                       const LayerKind &kind, const LayerFacts &facts)
    : context(context), query(query), kind(kind), facts(facts),
      traffic(facts.traffic[static_cast<size_t>(
          kernelStyleOf(context.profile, context.machine->device))]),
      isOurs(context.profile.fused), device(context.machine->perRank().device),
      packs(isOurs && !query.ideal && device.target == BackendTarget::Cuda) {
  // A message of a layer is about as large as its boundary.
  int64_t local = query.key.microBatch * query.key.groups[2].size;
  batch = std::max<int64_t>(1, context.step->batch / local);
  int boundary = kind.input >= 0 ? kind.input : kind.output;
  double typical = boundary >= 0 ? kind.values[boundary].bytes() / batch : 1e6;
  if (query.ideal)
    typical = 1e12;
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    ranks[axis] = query.key.groups[axis].size;
    if (!has(axis))
      continue;
    costs[axis] = groupCosts(*context.machine, context.profile,
                             query.key.groups[axis], typical);
    if (query.ideal)
      for (AlphaBeta *cost :
           {&costs[axis].allReduce, &costs[axis].reduceScatter,
            &costs[axis].allGather, &costs[axis].allToAll})
        cost->alpha = 0;
  }
  joinGroups(typical);
}

void LayerTerms::joinGroups(double typicalBytes) {
  for (unsigned axes = 0; axes < jointCosts.size(); ++axes)
    if (auto all = jointGroup(query.key, axes))
      jointCosts[axes] =
          groupCosts(*context.machine, context.profile, *all, typicalBytes);
}

std::optional<Group> kerf::jointGroup(const TableKey &key, unsigned axes) {
  llvm::SmallVector<Group, kInnerAxes> groups;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (axes >> axis & 1)
      groups.push_back(key.groups[axis]);
  if (groups.size() < 2 ||
      llvm::any_of(groups, [](Group group) { return group.size < 2; }))
    return std::nullopt;
  llvm::sort(groups, [](Group a, Group b) { return a.stride < b.stride; });
  Group all = groups.front();
  for (Group next : llvm::drop_begin(groups)) {
    if (next.stride != all.stride * all.size)
      return std::nullopt;
    all.size *= next.size;
  }
  return all;
}

bool LayerTerms::isExternal(int value) const {
  return kind.values[value].producer < 0 && kind.values[value].param < 0 &&
         value != kind.input && value != kind.outputGradient;
}

llvm::SmallVector<int64_t, 8>
LayerTerms::shardsOf(int index, const LayerLayout &layout, int except) const {
  const LayerOp &op = kind.ops[index];
  llvm::SmallVector<int64_t, 8> shards(op.factors.size(), 1);
  for (size_t f = 0; f < op.factors.size(); ++f)
    if (op.factors[f].index == IndexClass::Batch &&
        op.factors[f].factor.size > 1)
      shards[f] = std::min(batch, op.factors[f].factor.size);
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    if (axis == except || !has(axis) || layout.axes[axis].ops.empty())
      continue;
    int factor = layout.axes[axis].ops[index].factor;
    if (factor >= 0)
      shards[factor] *= ranks[axis];
  }
  return shards;
}

/// Bytes of an operand or result on one rank; with `room`, of rows of experts
/// those that it has room for.
double LayerTerms::tensorBytes(int index, bool isResult, int i,
                               const LayerLayout &layout, int axis,
                               const OpOption *option, bool room) const {
  const LayerOp &op = kind.ops[index];
  const LayerValue &value =
      kind.values[isResult ? op.results[i] : op.operands[i]];
  double bytes = value.bytes();
  if (llvm::is_contained(value.classes, IndexClass::Batch))
    bytes /= double(batch);
  for (int a = 0; a < kInnerAxes; ++a) {
    const OpOption *own = a == axis ? option
                          : has(a) && !layout.axes[a].ops.empty()
                              ? &layout.axes[a].ops[index]
                              : nullptr;
    if (!own)
      continue;
    AxisState state = isResult ? own->results[i] : own->operands[i];
    bytes *= room ? heldShare(state, a) : splitShare(state, ranks[a]);
  }
  return bytes;
}

double LayerTerms::bestRate(const LayerOp &op) const {
  constexpr double kLarge = 1 << 17;
  MatmulShape large{1, kLarge, kLarge, kLarge, op.isGrouped()};
  return large.flops() / matmulSec(device, context.profile, large, op.type, 2);
}

static bool has(const TensorFactors &dims, unsigned factor) {
  return llvm::any_of(dims, [factor](const DimFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

/// The product of two tensors as batch x m x n x k, from who has which factor.
static MatmulShape matmulShapeOf(const LayerOp &op,
                                 llvm::ArrayRef<double> sizes) {
  MatmulShape shape;
  for (unsigned f = 0; f < op.factors.size(); ++f) {
    bool lhs = has(op.operandFactors[0], f);
    bool rhs = op.operandFactors.size() > 1 && has(op.operandFactors[1], f);
    bool out = has(op.resultFactors[0], f);
    if (lhs && rhs && out)
      shape.batch *= sizes[f];
    else if (lhs && out)
      shape.m *= sizes[f];
    else if (rhs && out)
      shape.n *= sizes[f];
    else if (lhs && rhs)
      shape.k *= sizes[f];
  }
  return shape;
}

/// A matmul for each expert, of any number of rows. Experts are what the rows'
/// owners are in the op's map.
static MatmulShape groupedShapeOf(const LayerOp &op,
                                  llvm::ArrayRef<double> sizes) {
  MatmulShape shape = matmulShapeOf(op, sizes);
  shape.isGrouped = true;
  for (unsigned owner : op.maps[0].to)
    shape.batch *= sizes[owner];
  return shape;
}

/// What the rows of an expert are in its matmul: summed over in gradients of
/// weights, of which there is one per expert, else rows of the result.
static double &groupedRows(const LayerOp &op, MatmulShape &shape) {
  bool isGradient = llvm::any_of(op.maps[0].to, [&](unsigned owner) {
    return has(op.resultFactors[0], owner);
  });
  return isGradient ? shape.k : shape.m;
}

/// True for a gather of rows: a factor of one operand alone is neither in a
/// result nor summed over.
static bool looksUp(const LayerOp &op) {
  if (op.work.matmuls() > 0 || op.work.vectorFlops > 0 || !op.maps.empty())
    return false;
  for (unsigned f = 0; f < op.factors.size(); ++f) {
    auto hasIt = [f](const TensorFactors &dims) { return has(dims, f); };
    if (llvm::count_if(op.operandFactors, hasIt) == 1 &&
        llvm::none_of(op.resultFactors, hasIt))
      return true;
  }
  return false;
}

bool kerf::isMaximumOfBatch(const LayerOp &op) {
  return llvm::any_of(op.factors, [](const LayerFactor &own) {
    return own.index == IndexClass::Batch && own.factor.kind == FactorKind::Max;
  });
}

/// Ranks that share the sequence of an attention.
static int64_t sequenceRanks(const LayerOp &op,
                             llvm::ArrayRef<int64_t> shards) {
  const auto *ring = llvm::find_if(
      op.variants, [](const FactorVariant &v) { return v.together; });
  return ring == op.variants.end()
             ? 1
             : std::max(shards[ring->factors[0]], shards[ring->factors[1]]);
}

/// Are tokens in the order in which n ranks have equal causal work?
static bool isZigzag(const StepModel &step, int64_t n) {
  return !step.plainOrder && step.sequence % (2 * n) == 0;
}

/// Causal work of the last of n ranks that share a sequence, in parts of the
/// mean: (2n - 1) / n with parts by position (of n^2 equal blocks of queries
/// and keys a rank r has r whole and one half ones), else 1.
static double causalSkew(const LayerOp &op, llvm::ArrayRef<int64_t> shards,
                         const StepModel &step) {
  int64_t n = sequenceRanks(op, shards);
  return !op.causal || isZigzag(step, n) ? 1 : double(2 * n - 1) / double(n);
}

/// A dimension of an operand on one rank.
static int64_t localSize(const LayerKind &kind, const LayerOp &op, int operand,
                         int dim, llvm::ArrayRef<int64_t> shards) {
  int64_t parts = 1;
  for (unsigned f : op.operandFactors[operand][dim])
    parts *= shards[f];
  return std::max<int64_t>(1, kind.values[op.operands[operand]].shape[dim] /
                                  parts);
}

std::vector<int64_t> LayerTerms::attentionAttrs(const LayerOp &op,
                                                llvm::ArrayRef<int64_t> shards,
                                                int64_t contexts) const {
  std::vector<int64_t> attrs(KERF_ATTN_ATTR_COUNT, 0);
  const auto &q = kind.values[op.operands[0]].shape;
  const auto &k = kind.values[op.operands[1]].shape;
  const auto &v = kind.values[op.operands[2]].shape;
  bool hasAllKeys = takesAllKeys(kind, op, contexts);
  attrs[KERF_ATTN_DTYPE] = op.type == "f32"   ? KERF_F32
                           : op.type == "f16" ? KERF_F16
                                              : KERF_BF16;
  attrs[KERF_ATTN_B] = localSize(kind, op, 0, 0, shards);
  attrs[KERF_ATTN_SQ] = std::max<int64_t>(1, q[1] / contexts);
  attrs[KERF_ATTN_H] = localSize(kind, op, 0, 2, shards);
  attrs[KERF_ATTN_G] = localSize(kind, op, 1, 2, shards);
  attrs[KERF_ATTN_SK] =
      hasAllKeys ? k[1] : std::max<int64_t>(1, k[1] / contexts);
  attrs[KERF_ATTN_D] = q[3];
  attrs[KERF_ATTN_DV] = v[3];
  attrs[KERF_ATTN_CAUSAL] = op.causal;
  attrs[KERF_ATTN_WINDOW] = op.window;
  attrs[KERF_ATTN_DROPOUT] = op.dropsScores; // Whether there is any counts.
  attrs[KERF_ATTN_SOFTCAP] = op.capsScores;
  attrs[KERF_ATTN_GLOBAL + 2] = q[1];
  attrs[KERF_ATTN_ZIGZAG] =
      op.causal && isZigzag(*context.step, contexts) ? contexts : 0;
  return attrs;
}

/// Bounds ask by its kind alone: they come of times on fewer ranks, where a
/// gradient may be too large for the library that is not so on more. All
/// context ranks are taken to share its sequence.
bool LayerTerms::isOwnAttention(const LayerOp &op,
                                llvm::ArrayRef<int64_t> shards,
                                bool byKind) const {
  int64_t contexts = std::max(ranks[kInnerContext], sequenceRanks(op, shards));
  auto isOwn =
      byKind ? kerf_cuda_attention_is_own_kind : kerf_cuda_attention_is_own;
  return device.target == BackendTarget::Cuda &&
         isOwn(attentionAttrs(op, shards, contexts).data(),
               op.phase != LayerPhase::Forward, op.isPacked, contexts > 1);
}

double LayerTerms::orderBytes(const LayerOp &op,
                              llvm::ArrayRef<int64_t> shards) const {
  if (device.target != BackendTarget::Cuda ||
      context.profile.name != Profile().name)
    return 0;
  auto attrs = attentionAttrs(op, shards, sequenceRanks(op, shards));
  if (!kerf_cuda_attention_is_sorted(attrs.data()) ||
      isOwnAttention(op, shards, query.ideal))
    return 0;
  double rows = double(attrs[KERF_ATTN_B]) * double(attrs[KERF_ATTN_SK]) *
                double(attrs[KERF_ATTN_G]);
  double bytes = rows * double(attrs[KERF_ATTN_D] + attrs[KERF_ATTN_DV]) *
                 double(kind.values[op.operands[1]].elementBytes);
  return bytes *
         (op.phase == LayerPhase::Forward ? kSortedForward : kSortedBackward);
}

double LayerTerms::matmulSecOf(int index,
                               llvm::ArrayRef<int64_t> shards) const {
  const LayerOp &op = kind.ops[index];
  double flops = op.work.matmulFlops;
  llvm::SmallVector<double, 8> sizes;
  for (size_t f = 0; f < shards.size(); ++f) {
    flops /= double(shards[f]);
    sizes.push_back(double(op.factors[f].factor.size) / double(shards[f]));
  }
  MatmulShape shape =
      op.isGrouped() ? groupedShapeOf(op, sizes) : matmulShapeOf(op, sizes);
  double &rest = op.isGrouped() ? groupedRows(op, shape) : shape.batch;
  rest *= flops / shape.flops();
  double width = kind.values[op.operands[0]].elementBytes;
  return matmulSec(device, context.profile, shape, op.type, width);
}

/// True for a sum over ranks that is still to be made on some axis.
static bool isPending(int index, const LayerLayout &layout, int axis,
                      const OpOption *option) {
  for (int a = 0; a < kInnerAxes; ++a) {
    const OpOption *own = a == axis ? option
                          : layout.axes[a].ops.empty()
                              ? nullptr
                              : &layout.axes[a].ops[index];
    if (own && own->results[0] == kPending)
      return true;
  }
  return false;
}

/// Kernels write all rows that there is room for: rows of no expert are zeros.
/// They read all of them, too, but for ops that know which rows are whose.
double LayerTerms::movedBytes(int index, const LayerLayout &layout, int axis,
                              const OpOption *option, bool again,
                              double scale) const {
  const LayerOp &op = kind.ops[index];
  bool readsRoom = op.maps.empty();
  const KernelTraffic::Op &own = traffic.ops[index];
  double bytes = 0;
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (again ? traffic.inMemory[op.operands[i]] : own.reads[i])
      bytes += tensorBytes(index, false, i, layout, axis, option, readsRoom);
  // Of a table only the rows that are handed on are read.
  if (looksUp(op))
    bytes = op.work.bytesRead / scale;
  for (size_t i = 0; i < op.results.size(); ++i)
    if (again ? traffic.inMemory[op.results[i]] : own.writes[i])
      bytes += tensorBytes(index, true, i, layout, axis, option, true);
  if (isOurs && !query.ideal)
    bytes += 2 * op.tableBytes / scale;
  // A collective stands between rows of experts that are combined and what is
  // added to them: it writes what that reads.
  if (op.name == "combine" && !again && !own.writes[0] &&
      isPending(index, layout, axis, option))
    bytes += 2 * tensorBytes(index, true, 0, layout, axis, option);
  if (own.epilogue > 0 && !again)
    bytes += own.epilogue * tensorBytes(index, true, 0, layout, axis, option);
  return bytes;
}

double LayerTerms::addingSec(int index, const LayerLayout &layout) const {
  const LayerOp &op = kind.ops[index];
  if (!context.profile.fused || query.ideal || op.work.matmulFlops <= 0 ||
      kind.values[op.results[0]].gradientOf < 0)
    return 0;
  auto shards = shardsOf(index, layout, -1);
  double scale = 1;
  for (int64_t count : shards)
    scale *= double(count);
  double moved = movedBytes(index, layout, -1, nullptr, false, scale);
  double more = tensorBytes(index, true, 0, layout, -1, nullptr);
  double rate = device.memoryBytesPerSec * device.efficiency.memory;
  double matmul = matmulSecOf(index, shards);
  return std::max(matmul, (moved + more) / rate) -
         std::max(matmul, moved / rate);
}

bool LayerTerms::sharesAgain(int op, size_t operand,
                             const AxisLayout &axis) const {
  int value = kind.ops[op].operands[operand];
  AxisState to = axis.ops[op].operands[operand];
  auto reads = [&](int reader) {
    const LayerOp &own = kind.ops[reader];
    for (auto [k, read] : llvm::enumerate(own.operands))
      if (read == value && axis.ops[reader].operands[k] == to)
        return true;
    return false;
  };
  return isOurs && (facts.shownAgain[op] || axis.sharedBackward[value] == to ||
                    llvm::any_of(facts.backwardReaders[value], reads));
}

bool LayerTerms::copies(int index) const {
  return isOurs && !query.ideal && facts.copied[index];
}

/// Rows that are exchanged are put in order on both ways: each room is read and
/// written once more.
double LayerTerms::roomBytes(int index, const LayerLayout &layout, int axis,
                             const OpOption *option) const {
  const LayerOp &op = kind.ops[index];
  double bytes = 0;
  for (int a = 0; a < kInnerAxes; ++a) {
    const OpOption *own = a == axis ? option
                          : has(a) && !layout.axes[a].ops.empty()
                              ? &layout.axes[a].ops[index]
                              : nullptr;
    if (own && own->variant >= 0 && isOurs && !query.ideal &&
        op.variants[own->variant].exchanges &&
        !op.variants[own->variant].together)
      bytes += 2 * exchangedBytes(index, *own, a, layout);
  }
  return bytes;
}

OpTime LayerTerms::timeOf(int index, const LayerLayout &layout, int axis,
                          const OpOption *option, bool again) const {
  const LayerOp &op = kind.ops[index];
  if (op.view && copies(index)) {
    // Shown again in the backward pass, whatever is recomputed.
    double times = !facts.shownAgain[index] ? 1 : again ? 0 : 2;
    double bytes = tensorBytes(index, true, 0, layout, axis, option);
    return {WorkKind::Row,
            times > 0
                ? rowSec(device, context.profile,
                         (1 + facts.copiedReads[index]) * times * bytes, 0)
                : 0};
  }
  if (op.view || (traffic.ops[index].inMatmul && !again))
    return {};
  auto shards = shardsOf(index, layout, axis);
  if (option && option->factor >= 0)
    shards[option->factor] *= ranks[axis];
  double scale = 1;
  for (int64_t count : shards)
    scale *= double(count);
  double moved = movedBytes(index, layout, axis, option, again, scale) +
                 roomBytes(index, layout, axis, option);
  const Profile &profile = context.profile;
  if (op.work.attentionFlops > 0) {
    // Queries of all heads: rows of the result.
    double rows = tensorBytes(index, true, 0, layout, axis, option) /
                  (kind.values[op.results[0]].elementBytes * op.headSize);
    AttentionWork work = {op.work.attentionFlops / scale,
                          moved,
                          op.headSize,
                          op.scores / scale,
                          op.type,
                          op.phase != LayerPhase::Forward,
                          rows > 0 ? op.scores / scale / rows : 0,
                          isOwnAttention(op, shards, query.ideal)};
    double skew = causalSkew(op, shards, *context.step);
    double sec = skew * attentionSec(device, profile, work);
    double spared = 0;
    if (work.isOwn && !isOwnAttention(op, shards, /*byKind=*/true)) {
      work.isOwn = false;
      spared = sec - skew * attentionSec(device, profile, work);
    }
    return {WorkKind::Attention,
            sec + rowSec(device, profile, orderBytes(op, shards), 0), spared};
  }
  if (op.work.matmulFlops > 0) {
    if (query.ideal)
      return {WorkKind::Matmul, op.work.matmulFlops / scale / bestRate(op)};
    return {WorkKind::Matmul, std::max(matmulSecOf(index, shards),
                                       moved / (device.memoryBytesPerSec *
                                                device.efficiency.memory))};
  }
  return {WorkKind::Row,
          rowSec(device, profile, moved, op.work.vectorFlops / scale)};
}

bool kerf::takesAllKeys(const LayerKind &kind, const LayerOp &op,
                        int64_t ranks) {
  if (op.work.attentionFlops <= 0)
    return true;
  int64_t heads = kind.values[op.operands[0]].shape[2];
  int64_t keyHeads = kind.values[op.operands[1]].shape[2];
  return ranks * keyHeads <= heads;
}

/// Whether no op before it in its pass may exchange routed tokens: ops of a
/// pass share the counts that one of them exchanges.
static bool isFirstExchange(const LayerKind &kind, int index) {
  bool isForward = kind.ops[index].phase == LayerPhase::Forward;
  return llvm::none_of(
      llvm::ArrayRef(kind.ops).take_front(index), [&](const LayerOp &op) {
        return (op.phase == LayerPhase::Forward) == isForward &&
               llvm::any_of(op.variants, [](const FactorVariant &variant) {
                 return variant.exchanges && !variant.together;
               });
      });
}

llvm::SmallVector<Exchange, 4>
LayerTerms::variantBy(int index, const OpOption &option, int axis,
                      const LayerLayout &layout, unsigned partners) const {
  const LayerOp &op = kind.ops[index];
  if (option.variant < 0)
    return {};
  const FactorVariant &variant = op.variants[option.variant];
  if (variant.leavesSum || (variant.exchanges && variant.together))
    return {};
  if (variant.exchanges) {
    llvm::SmallVector<Exchange, 4> own = {
        {CollectiveKind::AllToAll,
         exchangedBytes(index, option, axis, layout)}};
    // Counts of tokens by expert, of which the last operand has them by group.
    if (isFirstExchange(kind, index)) {
      double experts =
          double(op.factors[op.operandFactors.back()[1][0]].factor.size);
      own.push_back({CollectiveKind::AllToAll, 4.0 * experts, 0, 1,
                     /*oncePerPass=*/true});
    }
    return own;
  }
  if (!variant.together) {
    // Statistics of the rows, which are split: a maximum and a sum, f32.
    double rows = tensorBytes(index, false, 0, layout, axis, nullptr);
    const LayerValue &value = kind.values[op.operands[0]];
    rows /= value.elementBytes * op.factors[option.factor].factor.size;
    return {2, {CollectiveKind::AllReduce, 4 * rows}};
  }
  // What has the second factor alone is gathered or travels round a ring;
  // gradients of it are scattered or travel on until they are home.
  unsigned first = variant.factors[0], second = variant.factors[1];
  auto travels = [&](const TensorFactors &dims) {
    bool has = false;
    for (const DimFactors &dim : dims) {
      if (llvm::is_contained(dim, first))
        return false;
      has |= llvm::is_contained(dim, second);
    }
    return has;
  };
  int64_t all = ranksWith(axis, partners);
  bool inRing = !takesAllKeys(kind, op, all);
  auto by = [&](double bytes, CollectiveKind gather, int64_t rounds) {
    if (inRing)
      return Exchange{CollectiveKind::Rotate, bytes / double(ranks[axis]), 0,
                      rounds};
    return Exchange{gather, bytes * double(all / ranks[axis])};
  };
  llvm::SmallVector<Exchange, 4> own;
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (travels(op.operandFactors[i]))
      own.push_back(by(tensorBytes(index, false, i, layout, axis, nullptr),
                       CollectiveKind::AllGather, all - 1));
  // What was added to on the way goes home in the end.
  for (size_t i = 0; i < op.results.size(); ++i)
    if (travels(op.resultFactors[i]))
      own.push_back(by(tensorBytes(index, true, i, layout, axis, nullptr),
                       CollectiveKind::ReduceScatter, all));
  return own;
}

unsigned LayerTerms::partnersOf(int index, const OpOption &option, int axis,
                                const LayerLayout &layout) const {
  // Of other runtimes each axis is priced alone.
  if (!isOurs || option.variant < 0)
    return 0;
  const FactorVariant &variant = kind.ops[index].variants[option.variant];
  if (!variant.together || variant.exchanges)
    return 0;
  unsigned partners = 0;
  for (int other = 0; other < kInnerAxes; ++other)
    if (other != axis && has(other) && !layout.axes[other].ops.empty() &&
        layout.axes[other].ops[index].variant == option.variant)
      partners |= 1U << other;
  return partners;
}

int64_t LayerTerms::ranksWith(int axis, unsigned partners) const {
  int64_t all = ranks[axis];
  for (int other = 0; other < kInnerAxes; ++other)
    if (partners >> other & 1)
      all *= ranks[other];
  return all;
}

double LayerTerms::variantSec(int index, const OpOption &option, int axis,
                              const LayerLayout &layout) const {
  double seconds = 0;
  for (const Exchange &exchange : variantBy(index, option, axis, layout))
    seconds += secOf(axis, exchange);
  return seconds;
}

double LayerTerms::heldShare(AxisState state, int axis) const {
  auto n = static_cast<double>(ranks[axis]);
  if (isExchanged(state))
    return std::min(1.0, context.step->moeBuffer / n);
  return isRagged(state) ? 1.0 : splitShare(state, ranks[axis]);
}

/// Rows of a table out or back, in room that is as large on all ranks.
double LayerTerms::exchangedBytes(int index, const OpOption &option, int axis,
                                  const LayerLayout &layout) const {
  auto bytesOf = [&](bool isResult, llvm::ArrayRef<AxisState> states) {
    for (size_t i = 0; i < states.size(); ++i)
      if (isExchanged(states[i]))
        return heldShare(states[i], axis) *
               tensorBytes(index, isResult, i, layout, axis, nullptr);
    return 0.0;
  };
  return std::max(bytesOf(false, option.operands),
                  bytesOf(true, option.results));
}

AxisState LayerTerms::madeState(int value, const AxisLayout &axis) const {
  const LayerValue &facts = kind.values[value];
  if (value == kind.input)
    return axis.input;
  if (value == kind.outputGradient)
    return axis.outputGradient;
  if (facts.param >= 0)
    return axis.params[facts.param].weight;
  if (facts.producer < 0)
    return kReplicated;
  const LayerOp &op = kind.ops[facts.producer];
  auto at = llvm::find(op.results, value) - op.results.begin();
  return axis.ops[facts.producer].results[at];
}

template <typename ShareOf>
double LayerTerms::partOf(int value, const LayerLayout &layout, int except,
                          ShareOf shareOf) const {
  const LayerValue &facts = kind.values[value];
  double bytes = facts.bytes();
  if (llvm::is_contained(facts.classes, IndexClass::Batch))
    bytes /= double(batch);
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (axis != except && has(axis) && !layout.axes[axis].ops.empty())
      bytes *= shareOf(layout.axes[axis], axis);
  return bytes;
}

double LayerTerms::bytesOf(int value, const LayerLayout &layout,
                           int except) const {
  return partOf(value, layout, except, [&](const AxisLayout &own, int axis) {
    return splitShare(madeState(value, own), ranks[axis]);
  });
}

double LayerTerms::heldBytesOf(int value, const LayerLayout &layout, int except,
                               bool kept) const {
  return partOf(value, layout, except, [&](const AxisLayout &own, int axis) {
    return heldShare(kept ? own.kept[value] : madeState(value, own), axis);
  });
}

int LayerTerms::shardedDim(int value, const LayerLayout &layout) const {
  if (!has(kInnerTensor) || layout.axes[kInnerTensor].ops.empty())
    return -1;
  const AxisLayout &own = layout.axes[kInnerTensor];
  AxisState made = madeState(value, own);
  for (const auto &readers :
       {facts.forwardReaders[value], facts.backwardReaders[value]})
    for (int reader : readers)
      for (auto [k, operand] : llvm::enumerate(kind.ops[reader].operands))
        if (operand == value && own.ops[reader].operands[k] != made)
          return -1;
  return isSplit(made) ? int(splitDim(made)) : -1;
}

Moving LayerTerms::movingOf(int value, const LayerLayout &layout,
                            int except) const {
  // In our programs whole rooms of rows travel, filled or not.
  Moving what(isOurs ? heldBytesOf(value, layout, except, /*kept=*/false)
                     : bytesOf(value, layout, except));
  const LayerValue &facts = kind.values[value];
  if (except == kInnerContext)
    what.shardedWithin = shardedDim(value, layout);
  double outside = 1;
  for (size_t d = 0; packs && d < facts.shape.size(); ++d) {
    if (outside > 1)
      what.inside |= 1U << d;
    outside *= double(facts.shape[d]);
    if (facts.classes[d] == IndexClass::Batch)
      outside /= double(batch);
    for (int axis = 0; axis < kInnerAxes; ++axis)
      if (axis != except && has(axis) && !layout.axes[axis].ops.empty())
        if (AxisState made = madeState(value, layout.axes[axis]);
            isSplit(made) && splitDim(made) == int(d))
          outside /= double(ranks[axis]);
  }
  return what;
}

std::optional<Exchange> LayerTerms::convertBy(int axis, AxisState from,
                                              AxisState to,
                                              const Moving &what) const {
  double bytes = what.bytes;
  if (from == to || bytes <= 0 || from == kReplicated)
    return std::nullopt;
  auto copied = [&](AxisState state) {
    return packs && what.isInside(state) ? bytes : 0;
  };
  if (from == kPending && !isSplit(to))
    return Exchange{CollectiveKind::AllReduce, bytes};
  if (from == kPending)
    return Exchange{CollectiveKind::ReduceScatter, bytes, copied(to)};
  if (!isSplit(to))
    return Exchange{CollectiveKind::AllGather, bytes, copied(from)};
  double own = 1 / double(ranks[axis]);
  return Exchange{CollectiveKind::AllToAll, bytes * own,
                  own * (copied(from) + copied(to))};
}

std::optional<Exchange> LayerTerms::gatherWithin(AxisState from, AxisState to,
                                                 const Moving &what) const {
  auto isSharded = [&](AxisState state) {
    return isSplit(state) && splitDim(state) == what.shardedWithin;
  };
  if (what.shardedWithin < 0 || isSharded(from) == isSharded(to))
    return std::nullopt;
  return Exchange{CollectiveKind::AllGather,
                  what.bytes * double(ranks[kInnerTensor])};
}

double LayerTerms::secOf(int axis, const Exchange &exchange) const {
  double sec =
      double(exchange.times) * costs[axis].of(exchange.kind)(exchange.bytes);
  return exchange.copied > 0
             ? sec + rowSec(device, context.profile, 2 * exchange.copied, 0)
             : sec;
}

double LayerTerms::secOf(int axis, unsigned others,
                         const Exchange &exchange) const {
  unsigned axes = others | 1U << axis;
  if (others == 0)
    return secOf(axis, exchange);
  if (jointCosts[axes]) {
    double copies =
        secOf(axis, exchange) - secOf(axis, {exchange.kind, exchange.bytes, 0});
    return double(exchange.times) *
               jointCosts[axes]->of(exchange.kind)(exchange.bytes) +
           copies;
  }
  if (exchange.kind == CollectiveKind::Rotate) {
    // Of each round some hand on over the slowest axis.
    double slowest = 0;
    for (int other = 0; other < kInnerAxes; ++other)
      if (axes >> other & 1)
        slowest = std::max(slowest, secOf(other, exchange));
    return slowest;
  }
  // One after the other, the innermost last of a gather, of what is then
  // sharded.
  double sec = 0, bytes = exchange.bytes;
  for (int other = 0; other < kInnerAxes; ++other)
    if (axes >> other & 1) {
      sec += secOf(other, {exchange.kind, bytes, 0});
      bytes /= double(ranks[other]);
    }
  return sec;
}

double LayerTerms::convertSec(int axis, AxisState from, AxisState to,
                              const Moving &what) const {
  if (from == to)
    return 0;
  if (to == kPending || isRagged(from) || isRagged(to))
    return kImpossibleSec;
  if (what.bytes <= 0)
    return 0;
  auto exchange = convertBy(axis, from, to, what);
  double sec = exchange ? secOf(axis, *exchange) : 0;
  if (auto inner = gatherWithin(from, to, what))
    sec += secOf(kInnerTensor, *inner);
  return sec;
}

double LayerTerms::paramElements(int param, const LayerLayout &layout,
                                 int except,
                                 AxisState AxisLayout::Rest::*state) const {
  double elements = kind.params[param].elements;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (axis != except && has(axis) && !layout.axes[axis].params.empty())
      elements *=
          splitShare(layout.axes[axis].params[param].*state, ranks[axis]);
  return elements;
}
