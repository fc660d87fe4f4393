//===- Stages.h - order of the stages, reading and writing IR -------------===//

#ifndef KERF_PIPELINE_STAGES_H
#define KERF_PIPELINE_STAGES_H

#include "kerf/Step/LayerModel.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/SourceMgr.h"

#include <optional>
#include <string>

namespace kerf {

/// The stages in order. The contract of each is checked after it, always.
enum class Stage {
  Ingest,
  Differentiate,
  Precision,
  Plan,
  Recompute,
  Partition,
  Schedule,
  Fuse,
  Memory,
  Codegen,
};

inline constexpr Stage kStages[] = {
    Stage::Ingest,    Stage::Differentiate, Stage::Precision, Stage::Plan,
    Stage::Recompute, Stage::Partition,     Stage::Schedule,  Stage::Fuse,
    Stage::Memory,    Stage::Codegen};

/// `ingest`, `differentiate`, `precision`, ...
llvm::StringRef getStageName(Stage stage);
std::optional<Stage> parseStageName(llvm::StringRef name);

/// Options of the stages.
struct StageOptions {
  std::string precision = "f32"; ///< or bf16, f16 (with a scaled loss), fp8
  std::string plan;              ///< JSON file; empty for the trivial plan
  /// none, full, selective, numbers of forward ops; empty: what the plan says.
  std::vector<std::string> recompute;
  bool fuse = true;    ///< join kernels
  bool overlap = true; ///< start collectives early, wait late
  /// Sum gradients over data ranks while the last backward runs; without value:
  /// no.
  std::optional<bool> bucketGradients;
  int64_t workers = 8;        ///< threads that workspaces are planned for
  std::string target = "cpu"; ///< or cuda
  std::string cpu = "native"; ///< that kernels are made for, on target cpu
  std::string gpu = "sm_90";  ///< that kernels are made for, on target cuda
  /// Passes of the user's own, `stage:passes`, that run at the end of a stage.
  std::vector<std::string> own;
};

/// Checks entries of `StageOptions::own`: stages and passes that exist. Says
/// what is wrong in `error`.
mlir::LogicalResult checkOwnPasses(llvm::ArrayRef<std::string> own,
                                   std::string &error);

/// Warns of entries that were checked whose stage does not run: it comes behind
/// `last`, or `done` is not before it.
void warnOfUnreached(llvm::ArrayRef<std::string> own, std::optional<Stage> done,
                     Stage last);

/// Checks that a GPU ("sm_90") multiplies 8-bit floats. Says in `error` why
/// not.
mlir::LogicalResult checkFloat8(llvm::StringRef gpu, std::string &error);

/// Appends the passes of one stage and the check of its contract.
void addStage(mlir::OpPassManager &pm, Stage stage,
              const StageOptions &options);

/// Appends the check of a stage's contract alone.
void addContract(mlir::OpPassManager &pm, Stage stage);

/// Dialects and passes of the project.
void registerDialects(mlir::DialectRegistry &registry);
void registerPasses();

/// Loads shared objects with dialects of the user's own.
mlir::LogicalResult loadPlugins(llvm::ArrayRef<std::string> paths,
                                mlir::DialectRegistry &registry);

/// Loads shared objects with passes of the user's own.
mlir::LogicalResult loadPassPlugins(llvm::ArrayRef<std::string> paths);

/// Removes the command-line options that the LLVM libraries register, except
/// those of --help: ours may have the same names. Call before making options.
void dropLibraryOptions();

/// Reads the text of a file, or of standard input for "-". On failure sets
/// `error`.
std::unique_ptr<llvm::MemoryBuffer> readInput(llvm::StringRef path,
                                              std::string &error);

/// Refuses lines longer than 256 KiB, which diagnostics would print. Returns
/// "line:column: error: message".
std::optional<std::string> findLongLine(llvm::StringRef text);

/// Refuses text that would hurt the parser: long lines and all that
/// `prescanText` finds. Returns "line:column: error: message".
std::optional<std::string> findUnsafeText(llvm::StringRef text);

/// The module of a text; messages as of `readModule`.
mlir::OwningOpRef<mlir::ModuleOp>
parseModule(std::unique_ptr<llvm::MemoryBuffer> buffer,
            llvm::SourceMgr &sources, mlir::MLIRContext &context);

/// Reads and parses a module; messages go to standard error as
/// `file:line:col: error: ...`. Null on failure. `sources` must outlive the
/// module's diagnostics.
mlir::OwningOpRef<mlir::ModuleOp> readModule(llvm::StringRef path,
                                             llvm::SourceMgr &sources,
                                             mlir::MLIRContext &context);

/// A module read by a tool, with all that must live as long: dialects, those of
/// plug-ins too, sources and the printer of diagnostics.
class InputModule {
public:
  /// Reads `path`; on failure the module is null and a message was printed.
  /// With `takesSteps` the file may be a step without its model
  /// (kerf/Step/StepFile.h): the module is null then, and `step` is there.
  InputModule(llvm::StringRef path, llvm::ArrayRef<std::string> plugins,
              bool takesSteps = false);

  mlir::ModuleOp get() { return module.get(); }
  const std::optional<StepModel> &step() const { return readStep; }
  mlir::MLIRContext *getContext() { return context.get(); }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  llvm::SourceMgr sources;
  std::unique_ptr<mlir::SourceMgrDiagnosticHandler> handler;
  /// Problems of options have no place in a file.
  std::unique_ptr<mlir::ScopedDiagnosticHandler> optionHandler;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<StepModel> readStep;
};

/// Writes a module as text to a file (by rename) or to "-".
mlir::LogicalResult writeModule(mlir::ModuleOp module, llvm::StringRef path);

} // namespace kerf

#endif // KERF_PIPELINE_STAGES_H
