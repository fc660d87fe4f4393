#include "CheckTwin.h"

#include "BlameDifference.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Spmd/Pipelines.h"
#include "kerf/Interpreter/CompareTraining.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// The stages that write the programs, as the step itself goes through them.
static LogicalResult writePrograms(ModuleOp module,
                                   const StageOptions &options) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (Stage stage : {Stage::Recompute, Stage::Partition, Stage::Schedule})
    addStage(pm, stage, options);
  return pm.run(module);
}

/// Puts a copy of the step, as it is on one rank, before its programs.
static LogicalResult addPrograms(ModuleOp module, const StageOptions &options) {
  ModelOp model = *module.getOps<ModelOp>().begin();
  auto step = cast<ModelOp>(model->clone());
  step->removeAttr(kPlanAttrName);
  step.getBody().walk([](Operation *op) { op->removeAttr(kAssignAttrName); });
  step.setSymName((step.getSymName() + ".step").str()); // programs have it
  LogicalResult written = writePrograms(module, options);
  module.getBody()->push_front(step);
  if (failed(written))
    return failure();
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  pm.addPass(createInsertExpertLoadsPass());
  return pm.run(module);
}

FailureOr<OwningOpRef<ModuleOp>>
kerf::makeTwinPrograms(ModelOp planned, const StageOptions &options) {
  FailureOr<Twin> twin = makeTwin(planned);
  if (failed(twin) || failed(addPrograms(*twin->module, options)))
    return failure();
  return std::move(twin->module);
}

/// Codes times scales, in place of the numbers that codes stand for: a look-up
/// of each element takes most of the time of a twin, and no layout changes it.
/// True if there were any.
static bool simplifyCodes(ModuleOp module) {
  bool had = false;
  module.walk([&](DequantizeOp op) {
    had = true;
    OpBuilder builder(op);
    PlainBuilder p{builder, op.getLoc()};
    llvm::SmallVector<int64_t> blocks(typeOf(op.getScales()).getShape());
    int64_t rank = blocks.size();
    int64_t bytes = typeOf(op.getCodes()).getShape().back() / blocks.back();
    llvm::SmallVector<int64_t> whole = blocks, perBlock;
    for (int64_t d = 0; d < rank; ++d)
      perBlock.push_back(d);
    llvm::SmallVector<int64_t> perByte = perBlock;
    perByte.push_back(rank + 1);
    whole.append({DequantizeOp::kBlock / bytes, bytes});
    blocks.push_back(bytes);
    Type element = typeOf(op.getResult()).getElementType();
    constexpr double largest = 128; // of a code of 8 bits
    Value codes =
        p.reshape(p.mul(p.cast(op.getCodes(), element), 1 / largest), blocks);
    Value scales = p.cast(op.getScales(), element);
    Value numbers = p.mul(p.broadcast(codes, perByte, whole),
                          p.broadcast(scales, perBlock, whole));
    op.getResult().replaceAllUsesWith(
        p.reshape(numbers, typeOf(op.getResult()).getShape()));
    op.erase();
  });
  return had;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// A number as people read it: "2.9e-12".
static std::string shortNumber(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2g", number);
  return text;
}

/// The least power of ten that is not below: what is told of an error is the
/// same on machines that round otherwise.
static double boundOf(double error) {
  return error > 0 ? std::pow(10, std::ceil(std::log10(error))) : 0;
}

/// What the reader of an error can do.
static void addAdvice(InFlightDiagnostic &diagnostic, llvm::StringRef what) {
  diagnostic.attachNote() << "seen on " << what
                          << ", which --emit=twin writes "
                             "for kerf-inspect verify";
  diagnostic.attachNote() << "this is a fault of the compiler; another layout "
                             "(--pin) may not have it, --check=off writes the "
                             "file all the same";
}

/// Where the rules of partition see what is wrong, if they do.
static void addRule(ModuleOp module, InFlightDiagnostic &diagnostic) {
  OwningOpRef<ModuleOp> programs(module.clone());
  (*programs->getOps<ModelOp>().begin())->erase();
  std::optional<std::pair<Location, std::string>> seen;
  {
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &said) {
      if (!seen)
        seen = {said.getLocation(), said.str()};
      return success();
    });
    auto pm = PassManager::on<ModuleOp>(module.getContext());
    pm.addPass(createVerifyPartitionedPass({/*followRanks=*/true}));
    (void)pm.run(*programs);
  }
  if (seen)
    diagnostic.attachNote(seen->first) << "perhaps here: " << seen->second;
}

/// Says what differs and where it is made.
static LogicalResult refuse(ModuleOp module,
                            llvm::ArrayRef<spmd::ProgramOp> programs,
                            const TrainingDifference &first,
                            llvm::StringRef what) {
  ModelOp step = *module.getOps<ModelOp>().begin();
  auto diagnostic = step.emitError()
                    << "the programs of this plan train another model: at step "
                    << first.step << " " << first.what << " differs by "
                    << shortNumber(first.error) << " from that of one rank";
  Blame blame = findBlame(programs, first);
  if (blame.maker)
    diagnostic.attachNote(blame.maker->getLoc())
        << "it is made by " << blame.describe();
  addRule(module, diagnostic);
  addAdvice(diagnostic, what);
  return diagnostic;
}

/// Fails with a diagnostic for what is too large to be trained here.
static LogicalResult checkSize(ModelOp step,
                               llvm::ArrayRef<spmd::ProgramOp> programs,
                               llvm::StringRef what) {
  constexpr int more = 1; // than kerf-inspect takes on
  if (succeeded(checkInterpretable(step)) &&
      succeeded(checkInterpretable(programs, more)))
    return success();
  auto diagnostic = step.emitError()
                    << "the programs of this plan cannot be compared with "
                       "training on one rank: "
                    << what << " is too large";
  diagnostic.attachNote() << "--check=off writes the file without the "
                             "comparison";
  return diagnostic;
}

/// Fails with a diagnostic where training on one rank gives no numbers.
static LogicalResult checkFinite(ModelOp step, const TrainingRun &expected,
                                 llvm::StringRef what) {
  for (auto [number, outputs] : llvm::enumerate(expected.outputs))
    for (const auto &[name, output] : outputs) {
      if (llvm::all_of(output.data, [](double x) { return std::isfinite(x); }))
        continue;
      auto diagnostic = step.emitError()
                        << "the programs of this plan cannot be compared with "
                           "training on one rank: on one rank, too, "
                        << name << " of step " << number + 1
                        << " is no finite number";
      diagnostic.attachNote()
          << "seen on " << what
          << "; a division by the number of targets that count does this where "
             "none does";
      diagnostic.attachNote() << "--check=off writes the file without the "
                                 "comparison";
      return diagnostic;
    }
  return success();
}

/// Compares two steps of training; `module` as `addPrograms` leaves it.
static LogicalResult compare(ModuleOp module, CheckedPlan &checked) {
  ModelOp step = *module.getOps<ModelOp>().begin();
  StagePrograms programs = getPipelines(module).front();
  if (failed(checkSize(step, programs, checked.twin)))
    return failure();
  TrainingData data;
  TrainingRun expected = trainStep(step, data);
  if (!expected.ran || failed(checkFinite(step, expected, checked.twin)))
    return failure();
  TrainingRun actual = trainPrograms(programs, data);
  if (!actual.ran) {
    auto diagnostic = step.emitError()
                      << "the programs of this plan do not run to the end of "
                         "step "
                      << actual.outputs.size() + 1;
    addRule(module, diagnostic);
    addAdvice(diagnostic, checked.twin);
    return diagnostic;
  }
  TrainingComparison comparison = compareTraining(actual, expected);
  checked.largestError = boundOf(comparison.largest.error);
  if (comparison.wrong.empty() || isNoise(comparison.largest.error, step, data))
    return success();
  return refuse(module, programs, comparison.wrong.front(), checked.twin);
}

/// The twin and its programs; null, without a word, where there is none.
static OwningOpRef<ModuleOp>
tryTwin(ModelOp planned, const StageOptions &options, CheckedPlan &checked) {
  ScopedDiagnosticHandler quiet(planned.getContext(),
                                [](Diagnostic &) { return success(); });
  FailureOr<Twin> twin = makeTwin(planned);
  if (failed(twin) || failed(addPrograms(*twin->module, options)))
    return nullptr;
  checked.twin = "a twin of " + twin->description;
  checked.differs = twin->differs;
  if (simplifyCodes(*twin->module))
    checked.differs.push_back("codes are not looked up");
  return std::move(twin->module);
}

/// The step itself and its programs. Fails with a diagnostic.
static FailureOr<OwningOpRef<ModuleOp>>
copyStep(ModelOp planned, const StageOptions &options, CheckedPlan &checked) {
  checked.twin = "the step itself";
  OwningOpRef<ModuleOp> module(ModuleOp::create(planned.getLoc()));
  module->push_back(planned->clone());
  if (failed(addPrograms(*module, options)))
    return failure();
  return module;
}

FailureOr<CheckedPlan> kerf::checkPlan(ModuleOp planned,
                                       const StageOptions &options,
                                       PlanCheck check) {
  CheckedPlan checked;
  ModelOp model = *planned.getOps<ModelOp>().begin();
  OwningOpRef<ModuleOp> module;
  if (check == PlanCheck::Twin)
    module = tryTwin(model, options, checked);
  if (!module) {
    auto copy = copyStep(model, options, checked);
    if (failed(copy))
      return failure();
    module = std::move(*copy);
  }
  if (failed(compare(*module, checked)))
    return failure();
  return checked;
}
