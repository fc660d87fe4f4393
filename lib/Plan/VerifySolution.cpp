//===- VerifySolution.cpp - is what was priced what will be written? ------===//
//
// Problem: the search prices options of ops, one axis at a time
// (LayerOptions.cpp); programs are written from layouts, all axes at once
// (Layout.cpp). A sum that only one of the two knows of is a wrong step, or a
// wrong price.
//
// Idea: a layout, looked at along one axis, is a state. After a plan was
// applied and completed, each operand and result of an op must be in the state
// that its chosen option has for it.
//
// Example: tp 2 splits factor k of "linear 33"; the option says that its result
// is pending, so the layout must have `sum [tp]`.
//
// Cost: one visit per op.
//
//===----------------------------------------------------------------------===//

#include "LayerPlaces.h"
#include "kerf/Plan/SolvePlan.h"
#include "kerf/Sharding/Layout.h"

using namespace mlir;
using namespace kerf;

/// What a layout says of one axis.
static AxisState stateOn(const Layout &layout, unsigned axis) {
  if (llvm::is_contained(layout.sums, axis) ||
      llvm::is_contained(layout.maxima, axis))
    return kPending;
  for (auto [d, list] : llvm::enumerate(layout.dims)) {
    if (!llvm::is_contained(list, axis))
      continue;
    if (layout.isRagged(d))
      return splitAt(d, layout.exchanged ? kExchangedOuter : kRaggedOuter);
    return splitAt(d, layout.blocksOf(d));
  }
  return kReplicated;
}

static std::string print(AxisState state) {
  if (state == kReplicated)
    return "whole";
  if (state == kPending)
    return "a sum";
  std::string text = "split in dimension " + std::to_string(splitDim(state));
  if (isRagged(state))
    return text + (isExchanged(state) ? " (exchanged)" : " (ragged)");
  if (splitOuter(state) > 1)
    text += " in " + std::to_string(splitOuter(state)) + " blocks";
  return text;
}

namespace {
class Verifier {
public:
  Verifier(const Solution &solution, const PlannedModel &plan)
      : solution(solution), plan(plan),
        points(pointsOf(*solution.result.best)) {}

  LogicalResult verify(Operation *op, LayerPlace place);

private:
  LogicalResult verify(Operation *op, llvm::StringRef what, unsigned axis,
                       llvm::ArrayRef<Layout> layouts,
                       llvm::ArrayRef<AxisState> states);

  const Solution &solution;
  const PlannedModel &plan;
  std::map<int, LayerPoint> points;
};
} // namespace

/// Compares the operands, or the results, of an op. A bias that is added after
/// a sum is an operand less.
LogicalResult Verifier::verify(Operation *op, llvm::StringRef what,
                               unsigned axis, llvm::ArrayRef<Layout> layouts,
                               llvm::ArrayRef<AxisState> states) {
  for (auto [i, pair] : llvm::enumerate(llvm::zip(layouts, states))) {
    auto [layout, state] = pair;
    if (stateOn(layout, axis) == state)
      continue;
    auto diagnostic = op->emitOpError()
                      << what << " " << i << " is planned as "
                      << printLayout(layout, plan.axes) << ", expected "
                      << print(state) << " over '" << plan.axes.nameOf(axis)
                      << "', as the search priced it";
    return diagnostic;
  }
  return success();
}

LogicalResult Verifier::verify(Operation *op, LayerPlace place) {
  const LayerLayout *layout = solution.layoutOf(place.kind, points[place.kind]);
  auto known = plan.ops.find(op);
  if (!layout || known == plan.ops.end())
    return success();
  for (int inner = 0; inner < kInnerAxes; ++inner) {
    const AxisLayout &own = layout->axes[inner];
    auto axis = plan.axes.find(axisName(InnerAxis(inner)));
    if (own.ops.empty() || !axis)
      continue;
    const OpOption &option = own.ops[place.op];
    if (failed(verify(op, "operand", *axis, known->second.operands,
                      option.operands)) ||
        failed(
            verify(op, "result", *axis, known->second.results, option.results)))
      return failure();
  }
  return success();
}

LogicalResult kerf::verifySolution(ModelOp model, const Solution &solution) {
  if (!solution.result.best)
    return success();
  auto plan = planModel(model);
  if (failed(plan))
    return failure();
  Verifier verifier(solution, *plan);
  bool fine = true;
  for (auto [op, place] : decidedOps(model, solution.step))
    fine &= succeeded(verifier.verify(op, place));
  return success(fine);
}
