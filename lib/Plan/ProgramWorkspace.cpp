//===- ProgramWorkspace.cpp - room that library calls need ----------------===//
//
// The functions of the runtime say how large a workspace is; the sizes that
// they are given follow from what each axis cuts.
//
//===----------------------------------------------------------------------===//

#include "ProgramSketch.h"

#include "kerf/Artifact/CpuWorkspace.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::program_sketch;

static constexpr int kContext = static_cast<int>(InnerAxis::Context);

Sizes program_sketch::shapeIn(const LayerTerms &terms, int value,
                              llvm::ArrayRef<AxisState> states) {
  const LayerValue &facts = terms.kind.values[value];
  Sizes shape(facts.shape.begin(), facts.shape.end());
  for (auto [size, index] : llvm::zip(shape, facts.classes))
    if (index == IndexClass::Batch)
      size = std::max<int64_t>(1, size / terms.batchCut());
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

/// Bytes of the product of two tensors, whose factors have these sizes.
static double productWorkspace(const LayerOp &op, llvm::ArrayRef<int64_t> sizes,
                               bool isRounded, int64_t workers) {
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
  int64_t m = own[std::max(first, 0)], n = own[1 - std::max(first, 0)];
  kerf_cpu_product product =
      kerf_cpu_plan_product(m, n, k, isRounded, batch > 1);
  return double(kerf_cpu_product_bytes(&product, workers));
}

static double groupedWorkspace(llvm::ArrayRef<int64_t> x,
                               llvm::ArrayRef<int64_t> y, bool isRounded,
                               int64_t workers) {
  int64_t attrs[11] = {};
  bool isGradient = y.size() != x.size() || y.take_front(2) != x.take_front(2);
  attrs[0] = isGradient;
  attrs[3] = isRounded ? KERF_BF16 : KERF_F32;
  attrs[4] = x[0];
  attrs[5] = x[1];
  attrs[7] = isGradient ? y[1] : y[2];
  attrs[8] = isGradient ? y[2] : x[2];
  return double(kerf_cpu_grouped_workspace(attrs, workers));
}

/// Of queries that come in the order that shares causal work evenly over
/// `contexts` ranks (1: by position), out of `whole`.
static double attentionWorkspace(llvm::ArrayRef<int64_t> q,
                                 llvm::ArrayRef<int64_t> k,
                                 llvm::ArrayRef<int64_t> v, bool isBackward,
                                 int64_t contexts, int64_t whole,
                                 int64_t workers) {
  int64_t attrs[KERF_ATTN_ATTR_COUNT] = {};
  attrs[KERF_ATTN_SQ] = q[1];
  attrs[KERF_ATTN_H] = q[2];
  attrs[KERF_ATTN_D] = q[3];
  attrs[KERF_ATTN_SK] = k[1];
  attrs[KERF_ATTN_G] = k[2];
  attrs[KERF_ATTN_DV] = v[3];
  attrs[KERF_ATTN_ZIGZAG] = contexts > 1 ? contexts : 0;
  attrs[KERF_ATTN_GLOBAL + 2] = whole;
  return double(isBackward
                    ? kerf_cpu_attention_backward_workspace(attrs, workers)
                    : kerf_cpu_attention_workspace(attrs, workers));
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
  double attention(int64_t workers) const;
};
} // namespace

double PlacedOp::attention(int64_t workers) const {
  AxisState queries = stateOf(false, 0, kContext);
  const StepModel &step = *terms.context.step;
  int64_t contexts = terms.ranks[kContext];
  bool isOrdered = isSplit(queries) && splitDim(queries) == 1 && op.causal &&
                   !step.plainOrder && step.sequence % (2 * contexts) == 0;
  return attentionWorkspace(
      shapeOf(false, 0), shapeOf(false, 1), shapeOf(false, 2),
      op.phase != LayerPhase::Forward, isOrdered ? contexts : 1,
      terms.kind.values[op.operands[0]].shape[1], workers);
}

double program_sketch::workspaceOf(const LayerTerms &terms, int index,
                                   const OpOptions &options, int64_t workers) {
  const LayerOp &op = terms.kind.ops[index];
  if (op.work.products() <= 0 || terms.device.target != BackendTarget::Cpu)
    return 0;
  PlacedOp placed{terms, op, options};
  if (op.work.attentionFlops > 0)
    return placed.attention(workers);
  bool isRounded = terms.kind.values[op.results[0]].elementBytes < 4;
  if (!op.maps.empty())
    return groupedWorkspace(placed.shapeOf(false, 0), placed.shapeOf(true, 0),
                            isRounded, workers);
  auto cuts = terms.cutsOf(index, LayerLayout(), -1);
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (options[axis] && options[axis]->factor >= 0)
      cuts[options[axis]->factor] *= terms.ranks[axis];
  llvm::SmallVector<int64_t, 8> sizes;
  for (auto [factor, cut] : llvm::zip(op.factors, cuts))
    sizes.push_back(std::max<int64_t>(1, factor.factor.size / cut));
  return productWorkspace(op, sizes, isRounded, workers);
}

double program_sketch::leastWorkspace(const LayerTerms &terms,
                                      int64_t workers) {
  // Each axis as if the others had no ranks: all that it may do beside them is
  // among that.
  static const std::vector<OpOption> kOne(1);
  std::array<std::vector<std::vector<OpOption>>, kInnerAxes> options;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (terms.has(axis))
      options[axis] = terms.options(axis, LayerLayout());
  double most = 0;
  for (size_t op = 0; op < terms.kind.ops.size(); ++op) {
    auto of = [&](int axis) -> const std::vector<OpOption> & {
      return terms.has(axis) ? options[axis][op] : kOne;
    };
    double least = HUGE_VAL;
    for (const OpOption &tensor : of(0))
      for (const OpOption &context : of(1))
        for (const OpOption &expert : of(2)) {
          OpOptions all = {&tensor, &context, &expert};
          for (int axis = 0; axis < kInnerAxes; ++axis)
            if (!terms.has(axis))
              all[axis] = nullptr;
          least = std::min(least, workspaceOf(terms, op, all, workers));
        }
    most = std::max(most, least);
  }
  return most;
}
