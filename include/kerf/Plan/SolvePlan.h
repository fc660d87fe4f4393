//===- SolvePlan.h - find a plan for a described cluster, and write it ----===//

#ifndef KERF_PLAN_SOLVEPLAN_H
#define KERF_PLAN_SOLVEPLAN_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Footprint/ProgramMemory.h"
#include "kerf/Report/Explain.h"
#include "kerf/Support/Json.h"

#include <memory>
#include <string>

namespace kerf {

/// Writes a plan on the step that it was found for: the attribute `plan` and a
/// `kerf.assign` on the ops that its layouts name. The mesh has the axes pp,
/// cp, dp, ep and tp as far as they have several ranks; `ep` is the inner part
/// of the data ranks. The batch is split by dp, ep and the micro-batches. Ops
/// that depend on inputs alone, ops without a batch and splits that this IR
/// cannot say are left to the propagation, which must follow. Where layers of
/// one kind have several recomputation points, `stages` says so, and
/// `recompute` is the point that keeps the fewest bytes. Fails with a
/// diagnostic when the plan is not one of this step.
mlir::LogicalResult applyPlan(ModelOp model, const StepModel &step,
                              const PlanPoint &plan, LayoutOfPoint layoutOf);

/// What is to be planned.
struct SolveRequest {
  Machine machine; ///< as described
  /// Of them, or more of the outermost tier; as many as described by default.
  std::optional<int64_t> devices;
  Pins pins;
  /// Room for rows that ranks of experts exchange, in even shares; 0: they are
  /// exchanged only where the pins or the model's plan say so, with room for
  /// all.
  double moeBuffer = 0;
  /// What is wrong with the text of the pins (`parsePins`): told together with
  /// what is wrong with those that could be read.
  std::vector<std::string> pinErrors;
  Profile profile;
  bool prove = false;
  double budget = 600;  ///< layer tables of 100 ops that may be solved
  bool isQuick = false; ///< as `SearchProblem::isQuick`
  /// As `SearchProblem::hopeless`.
  int64_t hopeless = std::numeric_limits<int64_t>::max();
  /// As `SearchProblem::enoughSec`.
  double enoughSec = HUGE_VAL;
  /// As `SearchProblem::roomyHeadroom`.
  double roomyHeadroom = 0;
  int64_t workers = 8; ///< threads of a rank that workspaces are made for
  /// Programs sum gradients in the last backward pass; by default where
  /// devices communicate beside computing and no other stage waits for it.
  std::optional<bool> sumsEarly;
};

/// A search that was made: all that an explanation needs, and that lives as
/// long as its layouts are asked for.
struct Solution {
  Machine machine;     ///< of the devices that are used (`placementsOf`)
  int64_t devices = 0; ///< that were asked for
  int64_t perUnit = 0; ///< used of each innermost unit; 0: units are filled
  /// Best step with the devices as they fill the units; 0: that is this one, or
  /// nothing fits.
  double filledSec = 0;
  Profile profile;
  Pins asked;
  Pins pins; ///< as asked for, and what the target excludes
  StepModel step;
  bool sumsEarly = false; ///< what the memory of its programs was found for
  std::unique_ptr<SolvedTables> tables;
  std::unique_ptr<LayerTables> given; ///< of a plan that lists ops; or null
  SearchResult result;

  /// The layout behind a point of the best plan.
  const LayerLayout *layoutOf(int kind, const LayerPoint &point) const;
  /// How embedding and head have the table that both read, at points of a plan.
  TiedShards tiedShardsOf(const OuterChoice &outer, const LayerPoint &embedding,
                          const LayerPoint &head) const;
  /// What `explain` takes; borrows from this.
  ExplainInput explainInput(double tokens = 0) const;
};

/// Searches a plan for a step after the stage `precision`. A model that has a
/// plan keeps it: the plan's decisions and assignments are pins, and what it
/// leaves open is searched.
/// Fails with a diagnostic at the model for each pin that cannot be met; a
/// search that finds nothing succeeds, with `result.infeasible`.
mlir::FailureOr<std::unique_ptr<Solution>>
solvePlan(ModelOp model, const SolveRequest &request);

/// What the planner knows of a model after the stage `precision`, whatever the
/// devices. Fails with a diagnostic where `readStep` does.
mlir::FailureOr<StepModel> plannedStep(ModelOp model);

/// Searches a plan for a step without its model, as `solvePlan` does. Pins that
/// cannot be met are diagnostics without a place.
mlir::FailureOr<std::unique_ptr<Solution>>
solveStep(const StepModel &step, const SolveRequest &request,
          mlir::MLIRContext *context);

/// What the best plan's step was said to take, for `savePlan`; it must be
/// there.
json::Value pricedStep(const Solution &solution);

/// Plans that are faster than the best one of `solution`, each under one figure
/// that is moved to an end of its range (`SensitivityRow`). Each is searched
/// with few tables. None where figures depend on ranks. `solution` is no plan
/// that was given.
std::vector<Challenger> findChallengers(const SolveRequest &request,
                                        const Solution &solution,
                                        mlir::MLIRContext *context);

/// Tells, in a diagnostic that was begun, what clashes when nothing fits.
mlir::LogicalResult refuseSolution(mlir::InFlightDiagnostic diagnostic,
                                   const Solution &solution);

/// Writes the best plan on the model that it was searched for. Fails as
/// `refuseSolution` when nothing fits.
mlir::LogicalResult applySolution(ModelOp model, const Solution &solution);

/// Checks a completed plan against the search that it comes from: each operand
/// and result of an op lies on each axis as in the option that was priced.
/// Fails with a diagnostic at each op that lies otherwise.
mlir::LogicalResult verifySolution(ModelOp model, const Solution &solution);

/// Where the model's plan leaves the batch of an op whole, every data rank has
/// all of it: of the step, which knows split batches alone, such a batch
/// becomes an index like any other. Each reader makes its own part of a
/// constant.
void keepWhole(ModelOp model, StepModel &step);

/// Makes pins of the model's plan: its decisions are added to `pins`, and the
/// filter allows what its ops are assigned. Ops without an assignment are free.
/// What the pins ask for otherwise is appended to `errors`.
OptionFilter pinPlan(ModelOp model, const StepModel &step, Pins &pins,
                     std::vector<std::string> &errors);

/// Tables that hold the points of each layer that compute again what the plan
/// lists, made where there is none; null for a plan without such a list.
/// Borrows from its arguments.
std::unique_ptr<LayerTables>
pinRecomputation(PlanAttr plan, const StepModel &step, SolvedTables &tables);

/// Reads a cluster's description from a file, or, where there is no file of
/// that name, the shipped one that has it ("hgx-h100"). Errors and warnings are
/// diagnostics at `path:line:column`.
mlir::FailureOr<Machine> readCluster(mlir::MLIRContext *context,
                                     llvm::StringRef path);

} // namespace kerf

#endif // KERF_PLAN_SOLVEPLAN_H
