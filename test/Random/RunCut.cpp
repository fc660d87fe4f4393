#include "RunCut.h"

#include "Units.h"

#include "kerf/Interpreter/SpmdInterpreter.h"
#include "kerf/Partition/Passes.h"
#include "kerf/PlanIR/Passes.h"
#include "kerf/Schedule/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

//===----------------------------------------------------------------------===//
// Assignments
//===----------------------------------------------------------------------===//

namespace {
/// Makes axes of two ranks each, and assignments of them.
class Assigner {
public:
  explicit Assigner(const Cut &cut) : cut(cut) {}

  /// Of the op that the cut is of; nothing where it lacks something.
  std::optional<Assignment> assign(const Factors &facts);
  /// Of another op on the same rows.
  Assignment follow(const Factors &facts);
  PlanAttr planOf(MLIRContext *context) const;

private:
  AxisList fresh(int64_t count, bool inBlocks = false) {
    AxisList list;
    for (int64_t i = 0; i < count; ++i) {
      list.push_back(unsigned(names.size()));
      bool isTensor = inBlocks && i + 1 == count;
      names.push_back(isTensor ? kTensorAxis.str()
                               : "a" + std::to_string(names.size()));
    }
    return list;
  }
  int64_t countOf(const Factor &factor) const {
    auto known = cut.factors.find(factor.name);
    return known == cut.factors.end() ? 0 : known->second;
  }
  void cutTogether(const Factors &facts, llvm::ArrayRef<unsigned> group,
                   Assignment &assignment);
  void cutRows(const Factors &facts, Assignment &assignment);
  bool addVariants(const Factors &facts, Assignment &assignment) const;

  const Cut &cut;
  std::vector<std::string> names;
  AxisList outer, owners; ///< of groups of rows, and of their experts
};
} // namespace

static int factorNamed(const Factors &facts, llvm::StringRef name) {
  for (auto [f, factor] : llvm::enumerate(facts.factors))
    if (factor.name == name)
      return int(f);
  return -1;
}

/// Factors that data relates and that only go together.
static llvm::SmallVector<unsigned> ownedFactors(const Factors &facts) {
  llvm::SmallVector<unsigned> owned;
  for (const FactorMap &map : facts.maps)
    for (const auto &list : {map.from, map.to})
      for (unsigned f : list)
        if (facts.factors[f].kind == FactorKind::Whole)
          owned.push_back(f);
  return owned;
}

void Assigner::cutTogether(const Factors &facts, llvm::ArrayRef<unsigned> group,
                           Assignment &assignment) {
  if (group.empty())
    return;
  AxisList list = fresh(countOf(facts.factors[group.front()]));
  for (unsigned f : group)
    assignment.factors[f] = list;
}

/// Groups by `outer`, rows and experts by their owners; where rows are
/// exchanged, ops on tokens are cut by both.
void Assigner::cutRows(const Factors &facts, Assignment &assignment) {
  for (unsigned f : ownedFactors(facts))
    assignment.factors[f] = owners;
  bool exchangesTokens = llvm::any_of(assignment.variants, [&](unsigned v) {
    return facts.variants[v].exchanges && !facts.variants[v].together;
  });
  if (int g = factorNamed(facts, "g"); g >= 0) {
    assignment.factors[g] = outer;
    if (exchangesTokens) {
      assignment.factors[g].append(owners);
      // A variant lists the factor of rows itself.
      for (unsigned v : assignment.variants)
        assignment.factors[facts.variants[v].factors.back()] = owners;
    }
  }
}

bool Assigner::addVariants(const Factors &facts, Assignment &assignment) const {
  for (const std::string &name : cut.variants) {
    auto *variant = llvm::find_if(
        facts.variants, [&](const FactorVariant &v) { return v.name == name; });
    if (variant == facts.variants.end())
      return false;
    assignment.variants.push_back(unsigned(variant - facts.variants.begin()));
  }
  return true;
}

std::optional<Assignment> Assigner::assign(const Factors &facts) {
  Assignment assignment;
  assignment.factors.resize(facts.factors.size());
  assignment.routed = cut.routed;
  for (const auto &[name, count] : cut.factors)
    if (factorNamed(facts, name) < 0)
      return std::nullopt;
  if (!addVariants(facts, assignment))
    return std::nullopt;
  bool exchanges = exchangesRows(facts, assignment);
  llvm::SmallVector<unsigned> owned = ownedFactors(facts);
  if (cut.routed || exchanges) {
    int64_t rows = owned.empty() ? 0 : countOf(facts.factors[owned.front()]);
    if (rows == 0)
      return std::nullopt;
    auto groups = cut.factors.find("g");
    int64_t all = groups == cut.factors.end() ? 0 : groups->second;
    bool inTokens =
        exchanges && !facts.variants[assignment.variants.front()].together;
    outer = fresh(inTokens ? all - rows : all);
    owners = fresh(rows);
    cutRows(facts, assignment);
  }
  for (unsigned v : assignment.variants)
    if (facts.variants[v].together && !exchanges)
      cutTogether(facts, facts.variants[v].factors, assignment);
  for (auto [f, factor] : llvm::enumerate(facts.factors))
    if (assignment.factors[f].empty())
      assignment.factors[f] =
          fresh(countOf(factor), factor.name == cut.inBlocks);
  assignment.blocks = cut.blocks;
  assignment.pending = fresh(cut.pending);
  return assignment;
}

Assignment Assigner::follow(const Factors &facts) {
  Assignment assignment;
  assignment.factors.resize(facts.factors.size());
  assignment.routed = cut.routed;
  addVariants(facts, assignment);
  cutRows(facts, assignment);
  return assignment;
}

PlanAttr Assigner::planOf(MLIRContext *context) const {
  auto attrs = llvm::map_to_vector(names, [&](const std::string &name) {
    return StringAttr::get(context, name);
  });
  llvm::SmallVector<int64_t> sizes(names.size(), 2);
  return PlanAttr::get(context, MeshAttr::get(context, attrs, sizes),
                       /*microBatches=*/1, "1f1b", /*recomputeAll=*/false, {});
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

FailureOr<WholeRun> WholeRun::of(ModelOp model) {
  WholeRun whole;
  whole.model = model;
  constexpr int64_t seed = 3;
  auto inputs = makeInputs(model, seed, 1, 0.01);
  for (auto [arg, input] : llvm::zip(model.getBody().getArguments(), inputs))
    whole.values[arg] = input;
  for (Operation &op : model.getBody().front().without_terminator()) {
    if (auto param = dyn_cast<ParamOp>(op)) {
      whole.values[param.getResult()] =
          initialValue(param.getInit(), typeOf(param.getResult()),
                       param.getName(), seed, /*f64=*/true);
      continue;
    }
    if (isa<UpdateOp>(op))
      continue;
    llvm::SetVector<Operation *> one;
    one.insert(&op);
    Unit unit = makeUnit(one, whole, {});
    TrainingState state;
    auto results =
        Interpreter(unit.model, {/*f64=*/true, 0}).run(unit.inputs, state);
    if (failed(results))
      return failure();
    for (auto [result, tensor] :
         llvm::zip(op.getResults(), llvm::drop_begin(*results)))
      whole.values[result] = tensor;
  }
  return whole;
}

/// The largest difference, as a part of the largest element; infinite where
/// only one is no number.
static double errorOf(const HostTensor &actual, const HostTensor &expected) {
  double error = 0, largest = 0;
  for (auto [a, b] : llvm::zip_equal(actual.data, expected.data)) {
    if (a == b || (std::isnan(a) && std::isnan(b)))
      continue;
    if (!std::isfinite(a) || !std::isfinite(b))
      return INFINITY;
    error = std::max(error, std::abs(a - b));
    largest = std::max(largest, std::abs(b));
  }
  return error == 0 ? 0 : error / std::max(largest, 1e-30);
}

/// Plans, partitions and runs a unit whose ops are assigned.
static CutVerdict runUnit(Unit &unit, PlanAttr plan, Spoil spoil,
                          std::string &why) {
  TrainingState state;
  auto expected =
      Interpreter(unit.model, {/*f64=*/true, 0}).run(unit.inputs, state);
  if (failed(expected))
    return CutVerdict::Wrong;
  unit.model->setAttr(kPlanAttrName, plan);
  auto pm = PassManager::on<ModuleOp>(plan.getContext());
  pm.addPass(createPropagatePlanPass());
  pm.addPass(createPartitionPass());
  pm.addPass(createOrderMicroBatchesPass());
  if (failed(pm.run(*unit.module)))
    return CutVerdict::Wrong;
  why = "there is no such mistake to make";
  if (spoil && !spoil(*unit.module))
    return CutVerdict::Refused;
  why.clear();
  auto programs = llvm::to_vector(unit.module->getOps<spmd::ProgramOp>());
  auto results = SpmdInterpreter(programs, {/*f64=*/true, 0})
                     .run(unit.inputs, state, "train");
  if (failed(results))
    return CutVerdict::Wrong;
  constexpr double tolerance = 1e-9;
  for (auto [i, pair] : llvm::enumerate(llvm::zip_equal(*results, *expected)))
    if (double error = errorOf(std::get<0>(pair), std::get<1>(pair));
        error > tolerance) {
      why = llvm::formatv("result {0} differs by {1:e}", i - 1, error);
      return CutVerdict::Wrong;
    }
  return CutVerdict::Same;
}

/// Assigns the op, all others of its name alike, and what has the same rows.
static void assignUnit(Operation *op, const llvm::SetVector<Operation *> &ops,
                       const Assignment &own, Assigner &assigner,
                       const PlanAxes &axes, Unit &unit) {
  for (Operation *other : ops) {
    if (ops.size() > 1 && !hasRaggedMap(other))
      continue; // It follows.
    Factors facts = cast<FactorOpInterface>(other).getFactors();
    setAssignment(
        unit.copies.lookup(other), facts,
        other->getName() == op->getName() ? own : assigner.follow(facts), axes);
  }
}

/// Cuts the sums before the op as it needs their results.
static void assignSums(Operation *copy, const Sums &sums,
                       const OpLayouts &layouts, const AxisList &pending,
                       const PlanAxes &axes) {
  for (unsigned i : sums.operands) {
    Operation *sum = copy->getOperand(i).getDefiningOp();
    Factors facts = cast<FactorOpInterface>(sum).getFactors();
    Assignment assignment;
    assignment.factors.resize(facts.factors.size());
    const TensorFactors &dims = facts.operands[0];
    assignment.factors[dims[0][0]] = pending;
    for (auto [d, list] : llvm::enumerate(layouts.operands[i].dims)) {
      assignment.factors[dims[d + 1][0]] = list;
      assignment.blocks =
          std::max(assignment.blocks, layouts.operands[i].blocksOf(d));
    }
    setAssignment(sum, facts, assignment, axes);
  }
}

CutVerdict kerf::test::runCut(Operation *op, const Cut &cut,
                              const WholeRun &whole, std::string &why,
                              Spoil spoil) {
  ScopedDiagnosticHandler handler(op->getContext(), [&](Diagnostic &found) {
    if (why.empty())
      why = found.str();
    return success();
  });
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  Assigner assigner(cut);
  auto assignment = assigner.assign(facts);
  why = "it has no such factor or variant";
  if (!assignment)
    return CutVerdict::Refused;
  PlanAttr plan = assigner.planOf(op->getContext());
  PlanAxes axes(plan);
  Sums sums;
  if (!assignment->pending.empty()) {
    sums.parts = axes.sizeOf(assignment->pending);
    sums.operands.append(facts.linearOperands.begin(),
                         facts.linearOperands.end());
    if (!facts.jointly && !sums.operands.empty())
      sums.operands.truncate(1);
  }
  llvm::SmallVector<Layout> arriving;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    why = "it reads one value twice";
    if (!sums.operands.empty() && llvm::count(op->getOperands(), operand) > 1)
      return CutVerdict::Refused;
    arriving.push_back(Layout::whole(typeOf(operand).getRank()));
    if (llvm::is_contained(sums.operands, i))
      arriving.back().sums = assignment->pending;
  }
  auto layouts = layoutsOf(facts, *assignment, arriving, axes, why);
  if (failed(layouts))
    return CutVerdict::Refused;
  llvm::SetVector<Operation *> ops;
  ops.insert(op);
  if (hasRaggedMap(op) && (cut.routed || exchangesRows(facts, *assignment)))
    ops = opsOfTables(op);
  why = "rows that are sums are not made";
  if (ops.size() > 1 && !sums.operands.empty())
    return CutVerdict::Refused;
  why.clear();
  Unit unit = makeUnit(ops, whole, sums);
  assignUnit(op, ops, *assignment, assigner, axes, unit);
  assignSums(unit.copies.lookup(op), sums, *layouts, assignment->pending, axes);
  return runUnit(unit, plan, spoil, why);
}
