//===- main.cpp - layer problems, solved and printed ----------------------===//
//
//   kerf-layers step.mlir --cluster=FILE --tp=4 --kind=layer
//
// Reads a step after the stage `precision`, solves one kind of layer on the
// given axes, and prints what each op and parameter does, with the costs.
// `--graph` prints the factor graph of the tensor axis instead, for other
// solvers;
// `--gradients-as-weights` prices gradients as the weights rest; `--pair`
// compares with the best of two axes at once; `--points` the
// recomputation points; `--step` what the planner reads.
//
//===----------------------------------------------------------------------===//

#include "kerf/Layer/LayerProblem.h"
#include "kerf/Pipeline/Stages.h"
#include "kerf/Step/ReadStep.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cmath>
#include <fmt/format.h>

using namespace kerf;
namespace cl = llvm::cl;

static cl::opt<std::string> inputPath(cl::Positional, cl::Required);
static cl::opt<std::string> clusterPath("cluster", cl::Required);
static cl::opt<std::string> kindName("kind", cl::init("layer"));
static cl::opt<int64_t> tp("tp", cl::init(1)), cp("cp", cl::init(1)),
    ep("ep", cl::init(1)), microBatch("micro-batch", cl::init(1)),
    microBatches("micro-batches", cl::init(1)), repeat("repeat", cl::init(1));
static cl::opt<double> keptPrice("kept-price", cl::init(0)),
    statePrice("state-price", cl::init(0)),
    commWeight("comm-weight", cl::init(1));
static cl::opt<bool> freeAxis("free"), restFree("rest-free"),
    recompute("recompute"), graph("graph"), points("points"), step("step"),
    noVariants("no-variants"), pair("pair"), bounds("bounds"),
    gradientsAsWeights("gradients-as-weights");
static cl::list<std::string> cuts(
    "cut", cl::CommaSeparated,
    cl::desc("FACTOR of forward ops that are named OP or read a parameter OP: "
             "OP:FACTOR; the solution is compared with the free optimum"));

static int fail(const std::string &message) {
  llvm::errs() << "error: " << message << '\n';
  return 1;
}

/// True when a rule for the op asks for another factor.
static bool isAgainst(const LayerOp &op, const OpOption &option) {
  if (op.phase != LayerPhase::Forward)
    return false;
  for (llvm::StringRef rule : cuts) {
    auto [name, factor] = rule.split(':');
    bool matches = op.name == name || llvm::StringRef(op.weight).contains(
                                          ("." + name + ".").str());
    if (matches &&
        (option.factor < 0 || op.factors[option.factor].factor.name != factor))
      return true;
  }
  return false;
}

static void printParts(const char *name, const TimeParts &parts) {
  llvm::outs() << fmt::format(
      "{}: matmul {:.3f} attention {:.3f} rows {:.3f} ms, comm tp {:.3f} cp "
      "{:.3f} "
      "ep {:.3f} ms\n",
      name, parts.matmulSec * 1e3, parts.attentionSec * 1e3, parts.rowSec * 1e3,
      parts.commSec[0] * 1e3, parts.commSec[1] * 1e3, parts.commSec[2] * 1e3);
}

static void printPoint(const LayerPoint &point) {
  printParts("forward", point.forward);
  printParts("backward", point.backward);
  printParts("recompute", point.recompute);
  llvm::outs() << fmt::format("kept {:.3f} MB, work {:.3f} MB, boundary {:.3f} "
                              "MB, parameters {:.0f} dense "
                              "{:.0f} expert, kernels {}, recomputed: {}\n",
                              point.savedBytes / 1e6, point.workBytes / 1e6,
                              point.boundaryBytes / 1e6, point.denseElements,
                              point.expertElements, point.kernels,
                              point.recomputed);
}

/// The solution on two axes beside the best of both at once.
static int judgePair(const LayerContext &layer, const LayerQuery &query) {
  std::vector<InnerAxis> axes;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (query.key.groups[axis].size > 1)
      axes.push_back(InnerAxis(axis));
  if (axes.size() != 2)
    return fail("expected two axes with ranks");
  auto start = std::chrono::steady_clock::now();
  LayerSolution found = solveLayer(layer, query);
  auto middle = std::chrono::steady_clock::now();
  PairSolution best = solvePair(layer, query, axes[0], axes[1]);
  auto end = std::chrono::steady_clock::now();
  if (!found.possible() || !best.solution.possible())
    return fail("no layout is possible on these axes");
  double sum = best.solution.picoseconds * 1e-12;
  llvm::outs() << fmt::format(
      "in turn {:.6f} ms, at once {:.6f} ms, bound {:.6f} ms{}, {:+.3f} %\n",
      found.cost.objective * 1e3, sum * 1e3, best.bound * 1e-9,
      best.proven() ? " (proven)" : "", 100 * (found.cost.objective / sum - 1));
  llvm::errs() << fmt::format(
      "{:.2f} and {:.2f} ms\n",
      std::chrono::duration<double>(middle - start).count() * 1e3,
      std::chrono::duration<double>(end - middle).count() * 1e3);
  if (std::abs(best.solution.cost.objective - sum) > 1e-6 * sum + 1e-9)
    return fail("the judge does not agree with the solver of two axes");
  if (best.bound * 1e-12 > found.cost.objective * (1 + 1e-6) + 1e-9)
    return fail("a layout is better than the bound");
  return 0;
}

/// Seconds that a layout with so many elements takes at least.
static double leastSec(const StateBound &floor, double elements) {
  const auto &curve = floor.seconds;
  elements *= 1 + 1e-9;
  if (elements < curve.front().first)
    return HUGE_VAL;
  for (size_t i = 1; i < curve.size(); ++i) {
    auto [x0, y0] = curve[i - 1];
    auto [x1, y1] = curve[i];
    if (elements <= x1)
      return y0 + (y1 - y0) * (elements - x0) / (x1 - x0);
  }
  return curve.back().second;
}

/// Layouts under many prices of bytes beside what is known without solving.
static int judgeBounds(const LayerContext &layer, LayerQuery query) {
  SolvedTables tables(layer);
  StateBound floor = tables.lowerBoundState(query.key);
  double least = tables.lowerBoundSec(query.key);
  double nearest = 0, nearestRest = 0;
  int layouts = 0;
  for (double state : {0.0, 1e-13, 1e-12, 3e-12, 1e-11, 1e-10, 1e-9})
    for (double kept : {0.0, 1e-12, 1e-10}) {
      query.statePrice = state;
      query.keptPrice = kept;
      LayerSolution solution = solveLayer(layer, query);
      if (!solution.possible())
        continue;
      ++layouts;
      const LayerPoint &point = solution.cost.point;
      double sec = 0;
      for (const TimeParts *parts : {&point.forward, &point.backward})
        sec += parts->computeSec() + parts->allCommSec();
      double bound = std::max(
          least, leastSec(floor, point.denseElements + point.expertElements));
      double rest = sec - point.weightGradientSec;
      if (bound > sec * (1 + 1e-9) || floor.restSec > rest * (1 + 1e-9))
        return fail(fmt::format("a layout is better than its bound: {:.6f} ms, "
                                "bound {:.6f}; without weight gradients "
                                "{:.6f}, bound {:.6f}",
                                sec * 1e3, bound * 1e3, rest * 1e3,
                                floor.restSec * 1e3));
      nearest = std::max(nearest, bound / sec);
      nearestRest = std::max(nearestRest, floor.restSec / rest);
    }
  llvm::outs() << fmt::format(
      "{} layouts; bound up to {:.0f} % of the time, of the rest {:.0f} %\n",
      layouts, 100 * nearest, 100 * nearestRest);
  return 0;
}

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv, "solves layers\n");
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(inputPath, &context);
  if (!module)
    return 1;
  auto text = llvm::MemoryBuffer::getFile(clusterPath);
  if (!text)
    return fail("cannot read " + clusterPath);
  std::vector<MachineDiagnostic> diagnostics;
  auto machine = readMachine((*text)->getBuffer(), diagnostics);
  if (!machine)
    return fail(diagnostics.front().message);
  *machine = machine->withDevices(tp * cp * ep);
  auto model = *module->getOps<ModelOp>().begin();
  auto read = readStep(model);
  if (mlir::failed(read))
    return 1;
  if (step) {
    llvm::outs() << printStep(*read);
    return 0;
  }
  LayerQuery query;
  query.key.kind = -1;
  for (size_t k = 0; k < read->kinds.size(); ++k)
    if (read->kinds[k].name == kindName)
      query.key.kind = k;
  if (query.key.kind < 0)
    return fail("no kind '" + kindName + "'");
  query.key.microBatch = microBatch;
  query.key.groups = {Group{tp, 1}, Group{cp, tp}, Group{ep, tp * cp}};
  query.microBatches = microBatches;
  query.keptPrice = keptPrice;
  query.statePrice = statePrice;
  query.gradientsAsMade = !gradientsAsWeights;
  query.commWeight = commWeight;
  query.recompute = recompute;
  query.restFree = restFree || freeAxis;
  query.anyFactor = freeAxis;
  query.filter = [](const LayerOp &op, InnerAxis axis, const OpOption &option) {
    return !(noVariants && option.variant >= 0) &&
           !(axis == InnerAxis::Tensor && isAgainst(op, option));
  };
  LayerContext layer{&*read, &*machine, {}};
  if (graph) {
    llvm::outs() << printLayerGraph(layer, query, InnerAxis::Tensor, {});
    return 0;
  }
  if (pair)
    return judgePair(layer, query);
  if (bounds)
    return judgeBounds(layer, query);
  LayerSolution solution;
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < repeat; ++i)
    solution = solveLayer(layer, query);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (!solution.possible())
    return fail("no layout is possible on these axes");
  const LayerKind &kind = read->kinds[query.key.kind];
  if (points) {
    for (auto &[layout, cost] :
         recomputationPoints(layer, query, solution.layout))
      llvm::outs() << fmt::format("kept {:.3f} MB, {:.3f} ms more: {}\n",
                                  cost.point.savedBytes / 1e6,
                                  (cost.point.recompute.computeSec() +
                                   cost.point.recompute.allCommSec()) *
                                      1e3,
                                  cost.point.recomputed);
    return 0;
  }
  llvm::outs() << printLayout(kind, solution.layout);
  printPoint(solution.cost.point);
  llvm::outs() << fmt::format("objective {:.6f} ms, optimum {:.6f} ms\n",
                              solution.cost.objective * 1e3,
                              solution.picoseconds * 1e-9);
  if (!cuts.empty()) {
    query.filter = {};
    LayerSolution best = solveLayer(layer, query);
    llvm::outs() << fmt::format(
        "free optimum {:.6f} ms: {}\n", best.picoseconds * 1e-9,
        best.picoseconds <= solution.picoseconds ? "not above the pinned layout"
                                                 : "ABOVE THE PINNED LAYOUT");
  }
  // The judge adds up the layout without tables; on one axis that is the
  // optimum.
  bool oneAxis = (tp > 1) + (cp > 1) + (ep > 1) <= 1 && (cp * ep == 1);
  double optimum = solution.picoseconds * 1e-12;
  if (oneAxis &&
      std::abs(solution.cost.objective - optimum) > 1e-6 * optimum + 1e-9)
    return fail("the judge does not agree with the solver");
  if (repeat > 1)
    llvm::outs() << fmt::format("{} variables, {} states, width {}, largest "
                                "table {}, work {}, {:.2f} ms\n",
                                solution.variables, solution.states,
                                solution.width, solution.largestTable,
                                solution.work, took.count() * 1e3 / repeat);
  return 0;
}
