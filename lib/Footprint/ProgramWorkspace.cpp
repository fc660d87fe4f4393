//===- ProgramWorkspace.cpp - room that library calls need ----------------===//
//
// `kerf_workspace` says how large a workspace is, to the stage `memory` and
// here; the sizes that it is given follow from what each axis shards.
//
//===----------------------------------------------------------------------===//

#include "ProgramSketch.h"

#include "kerf/Artifact/Workspace.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::program_sketch;

Sizes program_sketch::shapeIn(const LayerTerms &terms, int value,
                              llvm::ArrayRef<AxisState> states) {
  const LayerValue &facts = terms.kind.values[value];
  Sizes shape(facts.shape.begin(), facts.shape.end());
  for (auto [size, index] : llvm::zip(shape, facts.classes))
    if (index == IndexClass::Batch)
      size = std::max<int64_t>(1, size / terms.batchShards());
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (isExchanged(states[axis])) {
      int64_t &size = shape[splitDim(states[axis])];
      size = std::llround(
          std::ceil(double(size) * terms.heldShare(states[axis], axis)));
    } else if (isSplit(states[axis]) && !isRagged(states[axis])) {
      shape[splitDim(states[axis])] /= terms.ranks[axis];
    }
  return shape;
}

static bool appearsIn(const TensorFactors &dims, unsigned factor) {
  return llvm::any_of(dims, [factor](const DimFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

/// Attributes of a command, at most.
static constexpr size_t kMostAttrs = 32;

namespace {
/// Whose library calls a rank's programs make.
struct Library {
  kerf_target target;
  int64_t workers;

  double bytes(kerf_opcode opcode, llvm::ArrayRef<int64_t> attrs) const {
    return double(kerf_workspace(target, opcode, attrs.data(), workers));
  }
};
} // namespace

/// Bytes of the product of two tensors, whose factors have these sizes.
static double matmulWorkspace(const Library &library, const LayerOp &op,
                              llvm::ArrayRef<int64_t> sizes, bool isRounded) {
  int64_t batch = 1, k = 1, own[2] = {1, 1};
  int first = -1; // of the operands: whose factor leads the result
  for (const DimFactors &dim : op.resultFactors[0])
    for (unsigned f : dim) {
      bool lhs = appearsIn(op.operandFactors[0], f),
           rhs = appearsIn(op.operandFactors[1], f);
      if (first < 0 && lhs != rhs)
        first = lhs ? 0 : 1;
    }
  for (unsigned f = 0; f < op.factors.size(); ++f) {
    bool lhs = appearsIn(op.operandFactors[0], f),
         rhs = appearsIn(op.operandFactors[1], f),
         out = appearsIn(op.resultFactors[0], f);
    if (lhs && rhs)
      (out ? batch : k) *= sizes[f];
    else if (out)
      own[lhs ? 0 : 1] *= sizes[f];
  }
  int64_t attrs[kMostAttrs] = {};
  attrs[KERF_MATMUL_C_DTYPE] = isRounded ? KERF_BF16 : KERF_F32;
  attrs[KERF_MATMUL_BATCH] = batch;
  attrs[KERF_MATMUL_M] = own[std::max(first, 0)];
  attrs[KERF_MATMUL_N] = own[1 - std::max(first, 0)];
  attrs[KERF_MATMUL_K] = k;
  return library.bytes(KERF_OP_MATMUL, attrs);
}

/// Of rows `x` that meet the matrices of experts, `w` or, of a gradient, `y`.
static double groupedWorkspace(const Library &library,
                               llvm::ArrayRef<int64_t> x,
                               llvm::ArrayRef<int64_t> w,
                               llvm::ArrayRef<int64_t> y, bool isRounded) {
  int64_t attrs[kMostAttrs] = {};
  bool isGradient = y.size() != x.size() || y.take_front(2) != x.take_front(2);
  attrs[KERF_GROUPED_KIND] = isGradient;
  attrs[KERF_GROUPED_Y_DTYPE] = isRounded ? KERF_BF16 : KERF_F32;
  attrs[KERF_GROUPED_GROUPS] = x[0];
  attrs[KERF_GROUPED_ROWS] = x[1];
  attrs[KERF_GROUPED_EXPERTS] = isGradient ? y[0] : w[0];
  attrs[KERF_GROUPED_N] = isGradient ? y[1] : y[2];
  attrs[KERF_GROUPED_K] = isGradient ? y[2] : x[2];
  return library.bytes(KERF_OP_GROUPED_MATMUL, attrs);
}

/// An attention as the runtime is given it.
struct AttentionAttrs {
  llvm::ArrayRef<int64_t> q, k, v; ///< shapes
  bool isBackward = false, isRounded = false;
  bool drops = false;     ///< some scores at random
  bool caps = false;      ///< scores softly
  bool documents = false; ///< packed ones
  int64_t contexts = 1; ///< ranks that share causal work evenly by their order
  int64_t whole = 0;    ///< queries of all ranks
};

static double attentionWorkspace(const Library &library,
                                 const AttentionAttrs &attention) {
  int64_t attrs[KERF_ATTN_ATTR_COUNT] = {};
  const auto &[q, k, v, isBackward, isRounded, drops, caps, documents, contexts,
               whole] = attention;
  attrs[KERF_ATTN_DTYPE] = isRounded ? KERF_BF16 : KERF_F32;
  attrs[KERF_ATTN_B] = q[0];
  attrs[KERF_ATTN_SQ] = q[1];
  attrs[KERF_ATTN_H] = q[2];
  attrs[KERF_ATTN_D] = q[3];
  attrs[KERF_ATTN_SK] = k[1];
  attrs[KERF_ATTN_G] = k[2];
  attrs[KERF_ATTN_DV] = v[3];
  attrs[KERF_ATTN_DROPOUT] = drops; // Whether there is any is what counts.
  attrs[KERF_ATTN_SOFTCAP] = caps;
  attrs[KERF_ATTN_ZIGZAG] = contexts > 1 ? contexts : 0;
  attrs[KERF_ATTN_CAUSAL] = contexts > 1; // What else is causal needs no more.
  attrs[KERF_ATTN_GLOBAL + 2] = whole;
  kerf_opcode opcode =
      isBackward ? KERF_OP_ATTENTION_BACKWARD : KERF_OP_ATTENTION;
  return documents ? double(kerf_documents_workspace(library.target, opcode,
                                                     attrs, library.workers))
                   : library.bytes(opcode, attrs);
}

namespace {
/// An op under what it does on each axis.
struct PlacedOp {
  const LayerTerms &terms;
  const LayerOp &op;
  const OpOptions &options;

  AxisState stateOf(bool isResult, int i, int axis) const {
    const OpOption *option = options[axis];
    return !option    ? kReplicated
           : isResult ? option->results[i]
                      : option->operands[i];
  }
  Sizes shapeOf(bool isResult, int i) const {
    States states;
    for (int axis = 0; axis < kInnerAxes; ++axis)
      states.push_back(stateOf(isResult, i, axis));
    return shapeIn(terms, isResult ? op.results[i] : op.operands[i], states);
  }
  double attention(const Library &library) const;
};
} // namespace

double PlacedOp::attention(const Library &library) const {
  AxisState queries = stateOf(false, 0, kInnerContext);
  const StepModel &step = *terms.context.step;
  int64_t contexts = terms.ranks[kInnerContext];
  bool isOrdered = isSplit(queries) && splitDim(queries) == 1 && op.causal &&
                   !step.plainOrder && step.sequence % (2 * contexts) == 0;
  Sizes q = shapeOf(false, 0), k = shapeOf(false, 1), v = shapeOf(false, 2);
  auto valueOf = [&](int value) -> const LayerValue & {
    return terms.kind.values[value];
  };
  AttentionAttrs attrs = {q, k, v};
  attrs.isBackward = op.phase != LayerPhase::Forward;
  attrs.isRounded = valueOf(op.operands[0]).elementBytes < 4;
  attrs.drops = op.dropsScores;
  attrs.caps = op.capsScores;
  attrs.documents = op.isPacked;
  attrs.contexts = isOrdered ? contexts : 1;
  attrs.whole = valueOf(op.operands[0]).shape[1];
  return attentionWorkspace(library, attrs);
}

double program_sketch::workspaceOf(const LayerTerms &terms, int index,
                                   const OpOptions &options, int64_t workers) {
  const LayerOp &op = terms.kind.ops[index];
  if (op.work.matmuls() <= 0)
    return 0;
  Library library = {terms.device.target == BackendTarget::Cuda
                         ? KERF_TARGET_CUDA
                         : KERF_TARGET_CPU,
                     workers};
  PlacedOp placed{terms, op, options};
  if (op.work.attentionFlops > 0)
    return placed.attention(library);
  bool isRounded = terms.kind.values[op.results[0]].elementBytes < 4;
  if (!op.maps.empty())
    return groupedWorkspace(library, placed.shapeOf(false, 0),
                            placed.shapeOf(false, 1), placed.shapeOf(true, 0),
                            isRounded);
  auto shards = terms.shardsOf(index, LayerLayout(), -1);
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (options[axis] && options[axis]->factor >= 0)
      shards[options[axis]->factor] *= terms.ranks[axis];
  llvm::SmallVector<int64_t, 8> sizes;
  for (auto [factor, count] : llvm::zip(op.factors, shards))
    sizes.push_back(std::max<int64_t>(1, factor.factor.size / count));
  return matmulWorkspace(library, op, sizes, isRounded);
}

/// The options of a layer's matmuls on an axis.
static const AxisOptions &optionsOf(const LayerTerms &terms, int axis,
                                    WorkspaceMemo &memo) {
  auto [at, isNew] = memo.try_emplace(
      {terms.query.key.kind, axis, terms.ranks[axis], terms.batchShards()});
  if (!isNew)
    return at->second;
  static const std::vector<OpOption> kOne(1);
  if (!terms.has(axis))
    at->second.assign(terms.kind.ops.size(), kOne);
  else
    at->second = terms.options(axis, LayerLayout());
  for (auto [op, options] : llvm::zip(terms.kind.ops, at->second))
    if (op.work.matmuls() <= 0)
      options.clear();
  return at->second;
}

double program_sketch::leastWorkspace(const LayerTerms &terms, int64_t workers,
                                      WorkspaceMemo &memo) {
  // Each axis as if the others had no ranks: all that it may do beside them is
  // among that.
  std::array<const AxisOptions *, kInnerAxes> options;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    options[axis] = &optionsOf(terms, axis, memo);
  double most = 0;
  for (size_t op = 0; op < terms.kind.ops.size(); ++op) {
    if (terms.kind.ops[op].work.matmuls() <= 0)
      continue;
    double least = HUGE_VAL;
    for (const OpOption &tensor : (*options[0])[op])
      for (const OpOption &context : (*options[1])[op])
        for (const OpOption &expert : (*options[2])[op]) {
          OpOptions all = {&tensor, &context, &expert};
          for (int axis = 0; axis < kInnerAxes; ++axis)
            if (!terms.has(axis))
              all[axis] = nullptr;
          // What is no larger than another op's least need not be known.
          if (least > most)
            least = std::min(least, workspaceOf(terms, op, all, workers));
        }
    most = std::max(most, least);
  }
  return most;
}
