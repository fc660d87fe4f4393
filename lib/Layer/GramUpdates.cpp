//===- GramUpdates.cpp - updates by matmuls, as priced --------------------===//
//
// Programs make, step by step, G = x x^T, G G, a polynomial of both and its
// matmul with x; or, where x is smaller than G, G x, a sum with x, its matmul
// with G, and one more sum: see lib/Dialect/Kerf/MuonRule.cpp.
//
//===----------------------------------------------------------------------===//

#include "kerf/Layer/LayerTerms.h"

#include "kerf/Cost/Kernels.h"

#include <algorithm>

using namespace kerf;

double GramUpdate::workBytes() const {
  if (steps == 0)
    return 0;
  double x = batch * side * other * elementBytes;
  // A sum is multiplied by G beside x.
  if (isShort())
    return 3 * x + gramBytes();
  // A matmul reads a polynomial and x and writes x; the polynomial reads two.
  return std::max(2 * x + gramBytes(), x + 3 * gramBytes());
}

GramUpdate LayerTerms::gramUpdate(int param, const LayerLayout &layout,
                                  int axis, AxisState own) const {
  const LayerParam &facts = kind.params[param];
  GramUpdate update;
  update.steps = facts.gramSteps;
  if (update.steps == 0)
    return update;
  llvm::SmallVector<double, 3> sizes(facts.shape.begin(), facts.shape.end());
  int last = int(sizes.size()) - 1, sharded = -1;
  for (int a = 0; a < kInnerAxes; ++a) {
    if (!has(a) || (a != axis && layout.axes[a].params.empty()))
      continue;
    AxisState state = a == axis ? own : layout.axes[a].params[param].weight;
    if (!isSplit(state))
      continue;
    int dim = splitDim(state);
    sizes[dim] /= double(ranks[a]);
    if (dim < last - 1)
      continue;
    sharded = dim;
    update.axis = a;
  }
  bool onRows = sharded < 0 ? sizes[last - 1] <= sizes[last] : sharded == last;
  update.side = sizes[onRows ? last - 1 : last];
  update.other = sizes[onRows ? last : last - 1];
  update.batch = last > 1 ? sizes[0] : 1;
  update.elementBytes = facts.gradientBytes;
  return update;
}

double LayerTerms::matmulSecOf(const GramUpdate &update) const {
  if (update.steps == 0)
    return 0;
  double side = update.side, other = update.other;
  auto matmul = [&](double m, double n, double k) {
    return matmulSec(device, context.profile, {update.batch, m, n, k},
                     update.elementBytes > 4 ? "f64" : "f32",
                     update.elementBytes);
  };
  auto rows = [&](double bytes) {
    return rowSec(device, context.profile, 3 * bytes, 0);
  };
  double x = update.batch * side * other * update.elementBytes;
  double applied = matmul(side, other, side);
  double rest = update.isShort()
                    ? applied + 2 * rows(x)
                    : matmul(side, side, side) + rows(update.gramBytes());
  return double(update.steps) * (matmul(side, side, other) + applied + rest);
}

double LayerTerms::sumSec(const GramUpdate &update) const {
  if (update.axis < 0)
    return 0;
  return double(update.steps) *
         secOf(update.axis, {CollectiveKind::AllReduce, update.gramBytes()});
}

double kerf::addGramUpdate(const LayerTerms &terms, const LayerLayout &layout,
                           int param, LayerPoint &point,
                           std::vector<LayerCollective> *account) {
  GramUpdate update = terms.gramUpdate(param, layout);
  double sec = terms.matmulSecOf(update);
  point.updateSec += sec;
  LayerCollective sums;
  sums.sec = terms.sumSec(update);
  point.tensorSyncSec += sums.sec;
  if (!account || sums.sec == 0)
    return sec / double(terms.query.microBatches);
  sums.axis = static_cast<InnerAxis>(update.axis);
  sums.bytes = update.gramBytes();
  sums.perStep = true;
  sums.times = update.steps;
  account->push_back(sums);
  return sec / double(terms.query.microBatches);
}
