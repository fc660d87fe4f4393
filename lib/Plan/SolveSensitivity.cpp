//===- SolveSensitivity.cpp - plans that win with a figure moved ----------===//
//
// What a search keeps is what is fast under the figures as they are. Who is
// fast under others is searched again, with one figure at an end of its range.
// Only what beats the plan there is of interest, which prunes most of the
// space, and few tables may be solved: both are counts, so the result does not
// depend on the computer.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/ExplainDetail.h"

#include "kerf/Plan/SolvePlan.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::explain_detail;

/// Tables that each search may solve, of 100 ops.
static constexpr double kTables = 24;
/// A description with one figure moved.
static Machine moved(Machine machine, const Assumption &figure, double value) {
  Efficiency &part = machine.device.efficiency;
  HiddenTraffic &hidden = machine.device.hidden;
  double factor = value / figure.value;
  switch (figure.what) {
  case Assumed::Matmul:
    if (part.groupedMatmul == 0)
      part.groupedMatmul = part.matmul;
    part.matmul *= factor;
    break;
  case Assumed::Grouped:
    part.groupedMatmul =
        factor * (part.groupedMatmul > 0 ? part.groupedMatmul : part.matmul);
    break;
  case Assumed::AttentionForward:
    part.attention *= factor;
    part.attentionBackward /= factor;
    for (auto &[name, type] : part.types) {
      type.attention *= factor;
      type.attentionBackward /= factor;
    }
    break;
  case Assumed::AttentionBackward:
    part.attentionBackward *= factor;
    for (auto &[name, type] : part.types)
      type.attentionBackward *= factor;
    break;
  case Assumed::Memory:
    part.memory *= factor;
    break;
  case Assumed::Network:
    part.network *= factor;
    break;
  case Assumed::HiddenLayers:
    hidden.layers = value;
    break;
  case Assumed::HiddenGradients:
    hidden.gradients = value;
    break;
  case Assumed::HiddenWeights:
    hidden.weights = value;
    break;
  case Assumed::Headroom:
    machine.device.headroom = value;
    break;
  }
  return machine;
}

std::vector<Challenger> kerf::findChallengers(const SolveRequest &request,
                                              const Solution &solution,
                                              MLIRContext *context) {
  std::vector<Challenger> challengers;
  const std::optional<PlanPoint> &best = solution.result.best;
  if (!best || !solution.machine.sharedBy.empty())
    return challengers;
  ScopedDiagnosticHandler quiet(context,
                                [](Diagnostic &) { return success(); });
  ExplainInput input = solution.explainInput();
  SolveRequest other = request;
  other.budget = kTables;
  other.prove = false;
  other.roomyHeadroom = 0;
  for (const Assumption &figure : assumptionsOf(input)) {
    if (figure.what == Assumed::Headroom)
      continue;
    auto [least, most] = rangeOf(figure);
    for (double end : {least, most}) {
      if (end == figure.value)
        continue;
      other.machine = moved(request.machine, figure, end);
      other.enoughSec = movedSec(input, *best, figure, end);
      auto found = solveStep(solution.step, other, context);
      if (succeeded(found) && (*found)->result.best)
        challengers.push_back({figure, end, *(*found)->result.best});
    }
  }
  return challengers;
}
