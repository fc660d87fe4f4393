//===- Conversions.cpp - from one layout to another -----------------------===//
//
// Sums first, scattered where their axis is the next to shard a dimension; then
// axes move from one dimension to another; then what is sharded too much is
// gathered, and what is sharded too little is sliced.
//
//===----------------------------------------------------------------------===//

#include "kerf/Sharding/Layout.h"

using namespace mlir;
using namespace kerf;

namespace {
/// Builds the steps of one conversion.
class Converting {
public:
  Converting(const Layout &from, const Layout &to, const PlanAxes &axes,
             std::string &error)
      : current(from), to(to), axes(axes), error(error) {}

  FailureOr<llvm::SmallVector<ConversionStep>> run() {
    if (current.any)
      return steps;
    if (!keepsRagged() || !reduce(current.sums, to.sums, ReduceKind::Sum) ||
        !reduce(current.maxima, to.maxima, ReduceKind::Max))
      return failure();
    exchange();
    if (!gather())
      return failure();
    for (size_t d = 0; d < to.dims.size(); ++d) {
      llvm::ArrayRef<unsigned> rest(to.dims[d]);
      rest = rest.drop_front(current.dims[d].size());
      if (!rest.empty())
        step({ConversionStep::SliceOwn, AxisList(rest), int64_t(d)});
    }
    return steps;
  }

private:
  void step(ConversionStep next) {
    bool gathers = next.kind == ConversionStep::AllGather;
    if (next.kind != ConversionStep::AllReduce)
      next.blocks = (gathers ? current : to).blocksOf(next.dim);
    if (next.kind == ConversionStep::AllToAll)
      next.concatBlocks = current.blocksOf(next.concat);
    current = applyStep(current, next);
    steps.push_back(next);
  }

  /// Rows stay with the owners that data has given them.
  bool keepsRagged() {
    if (current.ragged == to.ragged && current.exchanged == to.exchanged &&
        (current.ragged < 0 ||
         current.dims[current.ragged] == to.dims[to.ragged]))
      return true;
    error = "rows that lie with their experts are needed elsewhere, or others "
            "with experts";
    return false;
  }

  /// The dimension of `to` that `axis` shards next after the present axes, or
  /// -1.
  int64_t nextDim(unsigned axis) {
    for (auto [d, want] : llvm::enumerate(to.dims)) {
      size_t have = current.dims[d].size();
      if (have < want.size() && common(d) == have && want[have] == axis)
        return d;
    }
    return -1;
  }

  bool reduce(const AxisList &have, const AxisList &want, ReduceKind kind) {
    AxisList rest;
    for (unsigned axis : have)
      if (!llvm::is_contained(want, axis))
        rest.push_back(axis);
    for (unsigned axis : want)
      if (!llvm::is_contained(have, axis) &&
          !(current.zero && kind == ReduceKind::Sum)) {
        error = "a whole value is needed as a pending sum over '" +
                axes.nameOf(axis).str() + "'";
        return false;
      }
    if (llvm::is_contained(rest, axes.micro())) {
      error = "a sum over all micro-batches is needed within one of them";
      return false;
    }
    for (size_t i = 0; i < rest.size();) {
      int64_t dim = nextDim(rest[i]);
      if (dim < 0) {
        ++i;
        continue;
      }
      step({ConversionStep::ReduceScatter, {rest[i]}, dim, 0, kind});
      rest.erase(rest.begin() + i);
      i = 0; // Another axis may come next now.
    }
    if (!rest.empty())
      step({ConversionStep::AllReduce, rest, 0, 0, kind});
    return true;
  }

  /// Axes at the front of both lists of a dimension.
  size_t common(size_t d) {
    size_t n = 0;
    if (current.blocksOf(d) != to.blocksOf(d))
      return 0;
    while (n < current.dims[d].size() && n < to.dims[d].size() &&
           current.dims[d][n] == to.dims[d][n])
      ++n;
    return n;
  }

  /// Moves axes from dimension to dimension.
  void exchange() {
    for (size_t d = 0; d < to.dims.size(); ++d)
      while (current.dims[d].size() > common(d)) {
        unsigned axis = current.dims[d].back();
        int64_t split = axis == axes.micro() ? -1 : nextDim(axis);
        if (split < 0 || split == int64_t(d))
          break;
        step({ConversionStep::AllToAll, {axis}, split, int64_t(d)});
      }
  }

  bool gather() {
    for (size_t d = 0; d < to.dims.size(); ++d) {
      llvm::ArrayRef<unsigned> rest(current.dims[d]);
      rest = rest.drop_front(common(d));
      if (rest.empty())
        continue;
      if (llvm::is_contained(rest, axes.micro())) {
        error = llvm::is_contained(to.dims[d], axes.micro())
                    ? "micro-batches cannot be gathered: up to 'micro' both "
                      "splits are by the same axes, others come after it"
                    : "a value that is split by micro-batches is needed whole";
        return false;
      }
      // Groups count their ranks in the order of the mesh: parts that lie in
      // another order are gathered axis by axis, the fastest first.
      AxisList axesToGather(rest);
      if (llvm::is_sorted(axesToGather))
        step({ConversionStep::AllGather, axesToGather, int64_t(d)});
      else
        for (unsigned axis : llvm::reverse(axesToGather))
          step({ConversionStep::AllGather, {axis}, int64_t(d)});
    }
    return true;
  }

  Layout current;
  const Layout &to;
  const PlanAxes &axes;
  std::string &error;
  llvm::SmallVector<ConversionStep> steps;
};
} // namespace

FailureOr<llvm::SmallVector<ConversionStep>>
kerf::planConversion(const Layout &from, const Layout &to, const PlanAxes &axes,
                     std::string &error) {
  return Converting(from, to, axes, error).run();
}

Layout kerf::applyStep(const Layout &layout, const ConversionStep &step) {
  Layout after = layout;
  AxisList &pending =
      step.reduce == ReduceKind::Sum ? after.sums : after.maxima;
  auto append = [&](AxisList &list) {
    list.append(step.axes.begin(), step.axes.end());
  };
  auto drop = [&](AxisList &list) {
    llvm::erase_if(list, [&](unsigned axis) {
      return llvm::is_contained(step.axes, axis);
    });
  };
  auto gather = [&](unsigned dim) {
    drop(after.dims[dim]);
    if (after.dims[dim].empty())
      after.forgetParts(dim);
  };
  auto shard = [&](unsigned dim) {
    append(after.dims[dim]);
    after.setBlocks(dim, step.blocks);
  };
  switch (step.kind) {
  case ConversionStep::AllReduce:
    drop(pending);
    break;
  case ConversionStep::ReduceScatter:
    drop(pending);
    shard(step.dim);
    break;
  case ConversionStep::AllGather:
    gather(step.dim);
    break;
  case ConversionStep::AllToAll:
    gather(step.concat);
    shard(step.dim);
    break;
  case ConversionStep::SliceOwn:
    shard(step.dim);
    break;
  }
  return after;
}

static double sizeBytes(Type global, const Layout &layout,
                        const PlanAxes &axes) {
  auto type = cast<RankedTensorType>(global);
  double bytes = std::max(1u, type.getElementTypeBitWidth() / 8);
  for (auto [d, dim] : llvm::enumerate(layout.dims)) {
    double size = type.getDimSize(d);
    if (!layout.isRagged(d))
      size /= axes.sizeOf(dim);
    else if (layout.exchanged)
      size = axes.roomOf(type.getDimSize(d), axes.sizeOf(dim));
    bytes *= size;
  }
  return bytes;
}

double kerf::bytesOf(llvm::ArrayRef<ConversionStep> steps, Layout from,
                     Type global, const PlanAxes &axes) {
  double bytes = 0;
  for (const ConversionStep &step : steps) {
    Layout after = applyStep(from, step);
    double n = axes.sizeOf(step.axes);
    double before = sizeBytes(global, from, axes);
    switch (step.kind) {
    case ConversionStep::AllReduce:
      bytes += 2 * (n - 1) / n * before;
      break;
    case ConversionStep::ReduceScatter:
    case ConversionStep::AllToAll:
      bytes += (n - 1) / n * before;
      break;
    case ConversionStep::AllGather:
      bytes += (n - 1) / n * sizeBytes(global, after, axes);
      break;
    case ConversionStep::SliceOwn:
      break;
    }
    from = after;
  }
  return bytes;
}
