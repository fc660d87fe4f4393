//===- PlanTask.h - what kerfc does with a described cluster --------------===//

#ifndef KERF_LIB_PIPELINE_PLANTASK_H
#define KERF_LIB_PIPELINE_PLANTASK_H

#include "kerf/Plan/SolvePlan.h"
#include "kerf/Report/Sweep.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/CommandLine.h"

namespace kerf {

/// How much --explain prints.
enum class ExplainSize { None, Short, Full, Json };

/// The options of kerfc that plan for a cluster.
struct PlanOptions {
  explicit PlanOptions(llvm::cl::OptionCategory &category);

  llvm::cl::list<std::string> clusters;
  llvm::cl::opt<std::string> devices;
  llvm::cl::list<std::string> pins;
  llvm::cl::opt<double> moeBuffer;
  llvm::cl::opt<bool> prove;
  llvm::cl::opt<std::string> explain;
  llvm::cl::opt<std::string> explainJson;
  llvm::cl::opt<std::string> html;
  llvm::cl::opt<bool> searchSensitivity;
  llvm::cl::opt<std::string> tokens;
  llvm::cl::opt<std::string> price;
  llvm::cl::opt<std::string> within, budget;
  llvm::cl::opt<std::string> versus;
  llvm::cl::opt<std::string> trace;
  llvm::cl::opt<std::string> svg;
  llvm::cl::opt<std::string> sweep;
};

/// What these options ask for, checked; independent of the command line, which
/// the linker resets.
struct PlanTask {
  std::vector<std::string> clusters; ///< files or names; empty: no planning
  std::vector<Machine> machines;     ///< what `readClusters` read of them
  std::string typeNote; ///< of the explanation: why it has its number type
  std::optional<int64_t> devices;
  std::string pins;
  double moeBuffer = 0; ///< 0: not given
  bool prove = false;
  bool searchSensitivity = false;
  int64_t workers = 8;           ///< threads of a rank
  std::optional<bool> sumsEarly; ///< as --bucket-gradients
  ExplainSize explain = ExplainSize::None;
  std::string explainJson, html, versus, trace, svg; ///< files, and pins
  std::string sweep;
  double tokens = 0;
  std::optional<double> price; ///< of a device-hour; else the cluster's
  SweepLimits limits;          ///< of the sweep

  bool compiles = false; ///< a compiled file is written, too

  bool plans() const { return !clusters.empty(); }
  /// True when something is shown instead of IR.
  bool shows() const {
    return explains() || !versus.empty() || !trace.empty() || !svg.empty() ||
           !sweep.empty();
  }
  /// True when something of it is all that standard output has.
  bool fillsOutput() const {
    return explain == ExplainSize::Json || explainJson == "-" || html == "-" ||
           trace == "-" || svg == "-";
  }
  /// True when somebody will read an explanation.
  bool explains() const {
    return explain != ExplainSize::None || !explainJson.empty() ||
           !html.empty();
  }
};

/// Reads the options. Fails, with a message on standard error, for options that
/// need a cluster without one, and for values out of range.
mlir::FailureOr<PlanTask> planTaskOf(const PlanOptions &options);

/// Reads the clusters of a task. Fails with a diagnostic.
mlir::LogicalResult readClusters(mlir::MLIRContext *context, PlanTask &task);

/// True when all of the task's devices compute in bf16: GPUs from Ampere on,
/// and those that nothing is compiled for by their description. CPUs take f32.
bool computesInBf16(const PlanTask &task);

/// Prints the names of the shipped descriptions, and what each is of.
void listClusters(llvm::raw_ostream &os);

/// What is planned: the one model of a module, or a step without its model.
struct PlanInput {
  PlanInput(mlir::ModuleOp module)
      : module(module), context(module.getContext()) {}
  PlanInput(const StepModel &step, mlir::MLIRContext *context)
      : step(&step), context(context) {}

  mlir::ModuleOp module;           ///< or null
  const StepModel *step = nullptr; ///< or null
  mlir::MLIRContext *context;
};

/// A plan for the input on the task's cluster; a model that has a plan keeps
/// it. Fails with a diagnostic.
mlir::FailureOr<std::unique_ptr<Solution>> solveTask(const PlanInput &input,
                                                     const PlanTask &task);

/// Prints and writes what the task asks to see; returns what it explained.
/// Fails when a file cannot be written, or with a diagnostic when nothing fits.
mlir::FailureOr<Explanation> showTask(const PlanInput &input,
                                      const PlanTask &task,
                                      const Solution &solution);

/// Warns where the room for routed tokens that --moe-buffer gives is of no use:
/// there are no experts, or one rank holds them all.
void warnOfMoeBuffer(bool hasExperts, int64_t expertRanks);

/// Without a number of devices, those of the plan that a model has.
void takeDevices(mlir::ModuleOp module, PlanTask &task);
/// Plans the input on each cluster with each number of devices, and
/// prints the table.
mlir::LogicalResult runSweep(const PlanInput &input, const PlanTask &task);

/// Writes what the planner knows of the module's model, after the stage
/// `precision`, to a file or to "-".
mlir::LogicalResult writeStep(mlir::ModuleOp module, llvm::StringRef path);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_PLANTASK_H
