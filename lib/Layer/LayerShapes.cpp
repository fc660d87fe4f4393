//===- LayerShapes.cpp - what no layout saves of matmuls' shapes ----------===//
//
// Problem: bounds take matmuls at the best rate, since layouts are not known.
// Parts of matmuls are slower: waves and tiles that are not full, short sums.
//
// Idea: an op has few ways to be split by all axes together, one factor or none
// on each. Of each op the least that one of them takes beyond the best rate is
// beyond it in every layout. The seconds of a layout are the sum over ops of
// those at the best rate and of what is beyond, so this adds to a bound of the
// former:
//
//   layout >= least(best rate + traffic) + sum over matmuls of
//             min over their splits (seconds - seconds at the best rate)
//
// Example: on 4 ranks a matmul takes 2.2 s split in rows and 2.5 s split along
// its sum, at the best rate 2 s; whole it takes 8.1 s of 8 s. Then 0.1 s is
// beyond.
//
// Cost: tens of shapes per matmul and key, strides of groups aside.
//
//===----------------------------------------------------------------------===//

#include "LayerBounds.h"

#include <algorithm>
#include <cmath>

using namespace kerf;

/// Whether an axis may split a factor of that index, and ranks divide its size.
/// Options are fewer: the least over more of them is no larger.
static bool maySplit(InnerAxis axis, const LayerFactor &factor, int64_t size,
                     int64_t ranks) {
  if (size % ranks != 0)
    return false;
  switch (axis) {
  case InnerAxis::Tensor:
    return factor.index != IndexClass::Batch;
  case InnerAxis::Context:
    return factor.index == IndexClass::Sequence;
  case InnerAxis::Expert:
    return factor.index == IndexClass::Batch ||
           factor.index == IndexClass::Expert;
  }
  return false;
}

/// Seconds of a matmul beyond the best rate, at least, however the axes from
/// `axis` on split it besides.
static double leastBeyond(const LayerTerms &terms, int index, double rate,
                          llvm::SmallVectorImpl<int64_t> &shards, int axis) {
  const LayerOp &op = terms.kind.ops[index];
  if (axis == kInnerAxes) {
    double flops = op.work.matmulFlops;
    for (int64_t count : shards)
      flops /= double(count);
    return terms.matmulSecOf(index, shards) - kBestRate * flops / rate;
  }
  double least = leastBeyond(terms, index, rate, shards, axis + 1);
  if (!terms.has(axis))
    return least;
  for (size_t f = 0; f < op.factors.size(); ++f) {
    const LayerFactor &factor = op.factors[f];
    int64_t ranks = terms.ranks[axis], whole = shards[f];
    // Another axis may split it too, in either order.
    if (!maySplit(static_cast<InnerAxis>(axis), factor,
                  factor.factor.size / terms.shardsOf(index, {}, -1)[f],
                  ranks) ||
        whole * ranks > factor.factor.size)
      continue;
    shards[f] *= ranks;
    least = std::min(least, leastBeyond(terms, index, rate, shards, axis + 1));
    shards[f] = whole;
  }
  return least;
}

const LayerBounds::Shapes &LayerBounds::shapesOf(const TableKey &key) {
  auto [it, isNew] =
      shapes.try_emplace({key.kind, key.microBatch, key.groups[0].size,
                          key.groups[1].size, key.groups[2].size});
  Shapes &sum = it->second;
  if (!isNew)
    return sum;
  LayerQuery query;
  query.key = key;
  const LayerKind &kind = context.step->kinds[key.kind];
  LayerTerms terms(context, query, kind, facts[key.kind]);
  for (size_t i = 0; i < kind.ops.size(); ++i) {
    const LayerOp &op = kind.ops[i];
    if (op.view || op.work.attentionFlops > 0 || op.work.matmulFlops <= 0)
      continue;
    llvm::SmallVector<int64_t, 8> shards = terms.shardsOf(i, {}, -1);
    double beyond = leastBeyond(terms, i, terms.bestRate(op), shards, 0);
    sum.allSec += beyond;
    if (!op.isDeferred)
      sum.restSec += beyond;
  }
  return sum;
}
