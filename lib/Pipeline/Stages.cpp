#include "kerf/Pipeline/Stages.h"

#include "kerf/Artifact/Artifact.h"
#include "kerf/Codegen/Passes.h"
#include "kerf/Dialect/Exec/Exec.h"
#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Dialect/Kerf/Names.h"
#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Differentiate/Passes.h"
#include "kerf/Fuse/Passes.h"
#include "kerf/Ingest/Passes.h"
#include "kerf/Interpreter/Passes.h"
#include "kerf/Memory/Passes.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"
#include "kerf/PlanIR/Passes.h"
#include "kerf/Precision/Passes.h"
#include "kerf/Raise/Passes.h"
#include "kerf/Recompute/Passes.h"
#include "kerf/Schedule/Passes.h"
#include "kerf/Step/StepFile.h"
#include "kerf/Support/Gpus.h"
#include "kerf/Support/Input.h"
#include "kerf/Support/Output.h"
#include "kerf/Support/Prescan.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace kerf;

llvm::StringRef kerf::getStageName(Stage stage) {
  switch (stage) {
  case Stage::Ingest:
    return "ingest";
  case Stage::Differentiate:
    return "differentiate";
  case Stage::Precision:
    return "precision";
  case Stage::Plan:
    return "plan";
  case Stage::Recompute:
    return "recompute";
  case Stage::Partition:
    return "partition";
  case Stage::Schedule:
    return "schedule";
  case Stage::Fuse:
    return "fuse";
  case Stage::Memory:
    return "memory";
  case Stage::Codegen:
    return "codegen";
  }
  llvm_unreachable("covered switch");
}

std::optional<Stage> kerf::parseStageName(llvm::StringRef name) {
  for (Stage stage : kStages)
    if (getStageName(stage) == name)
      return stage;
  return std::nullopt;
}

/// True when the devices multiply 8-bit floats.
static bool multipliesFloat8(const StageOptions &options) {
  return options.target == "cuda" && hasFloat8(options.gpu);
}

/// fp8 is bf16 with matmuls of 8-bit floats; the stage fuse widens those that
/// the device has not.
static void addPrecision(OpPassManager &pm, const StageOptions &options) {
  bool isFloat8 = options.precision == "fp8";
  pm.addPass(createPrecisionPass(
      PrecisionPassOptions{isFloat8 ? "bf16" : options.precision}));
  if (isFloat8)
    pm.addPass(createQuantizeMatmulsPass());
  // What narrow readers cast; nothing is computed in f64 from here on.
  pm.addPass(createFoldConstantsPass({/*rounds=*/true}));
}

LogicalResult kerf::checkFloat8(llvm::StringRef gpu, std::string &error) {
  if (hasFloat8(gpu))
    return success();
  error = ("GPUs of " + gpu +
           " have no matmuls of 8-bit floats, which sm_89 and newer have; "
           "take --precision=bf16")
              .str();
  return failure();
}

void kerf::addStage(OpPassManager &pm, Stage stage,
                    const StageOptions &options) {
  if (stage == Stage::Differentiate) {
    pm.addPass(createFoldConstantsPass());
    pm.addPass(createDifferentiatePass(
        DifferentiatePassOptions{options.precision == "f16"}));
  }
  if (stage == Stage::Precision)
    addPrecision(pm, options);
  if (stage == Stage::Plan && !options.plan.empty())
    pm.addPass(createLoadPlanPass(LoadPlanPassOptions{options.plan}));
  if (stage == Stage::Plan)
    pm.addPass(createPropagatePlanPass());
  if (stage == Stage::Recompute) {
    pm.addPass(createOrderContextPass());
    pm.addPass(createSplitStagesPass());
    pm.addPass(createPropagatePlanPass());
    RecomputePassOptions recompute;
    recompute.values.assign(options.recompute.begin(), options.recompute.end());
    pm.addPass(createRecomputePass(recompute));
    pm.addPass(createRecomputeViewsPass());
  }
  if (stage == Stage::Partition) {
    pm.addPass(createSplitWeightGradientPass({/*planned=*/true}));
    pm.addPass(createInsertExpertLoadsPass());
    pm.addPass(createPropagatePlanPass());
    pm.addPass(createSplitShardAxisPass());
    pm.addPass(createPartitionPass());
  }
  if (stage == Stage::Schedule) {
    pm.addPass(createOrderMicroBatchesPass());
    if (options.bucketGradients.value_or(false))
      pm.addPass(createBucketGradientsPass());
  }
  if (stage == Stage::Fuse) {
    if (options.fuse && options.target == "cuda")
      pm.addPass(createJoinGroupsPass());
    pm.addPass(createFoldOffsetsPass());
    pm.addPass(createMergePadsPass());
    pm.addPass(createWidenMatmulsPass(
        WidenMatmulsPassOptions{!multipliesFloat8(options)}));
    if (options.fuse && options.target == "cuda") {
      pm.addPass(createPadMatmulsPass());
      pm.addPass(createFuseEpiloguesPass({hasGeluMatmuls(options.gpu)}));
    } else if (options.fuse) { // matmuls of CPUs have no other epilogue
      pm.addPass(createFuseEpiloguesPass(
          {/*gelu=*/false, /*sums=*/false, /*wideScales=*/true}));
    }
    if (options.fuse && options.target == "cuda")
      pm.addPass(createHoistUnitsPass());
    pm.addPass(
        createOutlineKernelsPass({/*ownKernels=*/options.target != "cuda"}));
    if (options.fuse && options.target == "cuda")
      pm.addPass(createHoistTablesPass());
    if (options.fuse) {
      bool isGpu = options.target == "cuda";
      pm.addPass(createAbsorbMovesPass());
      pm.addPass(createFuseGroupsPass({/*gathers=*/isGpu, /*turned=*/isGpu}));
    }
    // Only now it is known what is computed in one go.
    if (options.overlap)
      pm.addPass(createOverlapCollectivesPass());
  }
  if (stage == Stage::Memory) {
    pm.addPass(createBuildCommandsPass(
        BuildCommandsPassOptions{options.workers, options.target}));
    pm.addPass(createPlaceMemoryPass());
  }
  if (stage == Stage::Codegen)
    pm.addPass(createGenerateCodePass(
        GenerateCodePassOptions{options.target, options.cpu, options.gpu, 2}));
  for (const std::string &own : options.own) {
    auto [name, passes] = llvm::StringRef(own).split(':');
    if (name == getStageName(stage))
      (void)parsePassPipeline(passes, pm); // checked before
  }
  addContract(pm, stage);
}

LogicalResult kerf::checkOwnPasses(llvm::ArrayRef<std::string> own,
                                   std::string &error) {
  for (const std::string &entry : own) {
    auto [stage, passes] = llvm::StringRef(entry).split(':');
    llvm::raw_string_ostream os(error);
    if (!parseStageName(stage) || passes.empty()) {
      os << "expected 'stage:passes', found '" << entry << "'; the stages are";
      for (Stage known : kStages)
        os << ' ' << getStageName(known);
      return failure();
    }
    OpPassManager pm(ModuleOp::getOperationName());
    if (failed(parsePassPipeline(passes, pm, os)))
      return failure();
  }
  return success();
}

void kerf::warnOfUnreached(llvm::ArrayRef<std::string> own,
                           std::optional<Stage> done, Stage last) {
  for (const std::string &entry : own) {
    Stage stage = *parseStageName(llvm::StringRef(entry).split(':').first);
    bool isDone = done && stage <= *done;
    if (stage <= last && !isDone)
      continue;
    llvm::WithColor::warning()
        << "--run-after: '" << entry << "' does not run: "
        << (isDone ? "the input is behind this stage"
                   : "the last stage is '" + getStageName(last).str() + "'")
        << '\n';
  }
}

void kerf::addContract(OpPassManager &pm, Stage stage) {
  switch (stage) {
  case Stage::Ingest:
    pm.addPass(createVerifyIngestPass());
    return;
  case Stage::Differentiate:
    pm.addPass(createVerifyDifferentiatedPass());
    return;
  case Stage::Precision:
    pm.addPass(createVerifyPrecisionPass());
    return;
  case Stage::Plan:
  case Stage::Recompute:
    pm.addPass(createVerifyPlanPass());
    return;
  case Stage::Partition:
    pm.addPass(createVerifyPartitionedPass({/*followRanks=*/false}));
    return;
  case Stage::Schedule:
    pm.addPass(createVerifyScheduledPass());
    return;
  case Stage::Fuse:
    pm.addPass(createVerifyFusedPass());
    return;
  case Stage::Memory:
    pm.addPass(createVerifyMemoryPass());
    return;
  case Stage::Codegen:
    pm.addPass(createVerifyCodePass());
    return;
  }
}

void kerf::registerDialects(DialectRegistry &registry) {
  registry.insert<KerfDialect, spmd::SpmdDialect, exec::ExecDialect>();
}

void kerf::registerPasses() {
  registerKerfIngestPasses();
  registerKerfDifferentiatePasses();
  registerKerfPrecisionPasses();
  registerKerfPlanIRPasses();
  registerKerfPlanPasses();
  registerKerfPartitionPasses();
  registerKerfSchedulePasses();
  registerKerfRaisePasses();
  registerKerfRecomputePasses();
  registerKerfFusePasses();
  registerKerfMemoryPasses();
  registerKerfCodegenPasses();
  registerKerfInterpreterPasses();
  registerTransformsPasses();
}

void kerf::dropLibraryOptions() {
  llvm::SmallVector<llvm::cl::Option *> others;
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (!entry.first.starts_with("help") && entry.first != "version" &&
        entry.first != "h")
      others.push_back(entry.second);
  for (llvm::cl::Option *option : others)
    option->removeArgument();
}

//===----------------------------------------------------------------------===//
// Reading and writing
//===----------------------------------------------------------------------===//

std::unique_ptr<llvm::MemoryBuffer> kerf::readInput(llvm::StringRef path,
                                                    std::string &error) {
  auto buffer = readFileOrStdin(path);
  if (buffer)
    return std::move(*buffer);
  error = "cannot read '" + path.str() + "': " + toString(buffer.takeError());
  return nullptr;
}

std::optional<std::string> kerf::findLongLine(llvm::StringRef text) {
  constexpr size_t maxLine = 256 << 10;
  int64_t line = 1;
  while (!text.empty()) {
    auto [first, rest] = text.split('\n');
    if (first.size() > maxLine)
      return std::to_string(line) + ":1: error: line of " +
             std::to_string(first.size()) + " bytes, expected at most " +
             std::to_string(maxLine);
    text = rest;
    ++line;
  }
  return std::nullopt;
}

/// What people take for a model by mistake.
static std::optional<std::string> findOtherFormat(llvm::StringRef text) {
  if (isArtifact(text))
    return "1:1: error: a compiled file, expected the text of a model: "
           "kerf-run "
           "trains it, kerf-inspect shows it";
  // Resources of MLIR begin with "{-#".
  if (text.ltrim().starts_with("{") && !text.ltrim().starts_with("{-#"))
    return "1:1: error: JSON, expected the text of a model: kerf-import makes "
           "one of a config.json";
  return std::nullopt;
}

std::optional<std::string> kerf::findUnsafeText(llvm::StringRef text) {
  if (auto other = findOtherFormat(text))
    return other;
  if (std::optional<PrescanError> found = prescanText(text))
    return std::to_string(found->line) + ":" + std::to_string(found->column) +
           ": error: " + found->message;
  return findLongLine(text);
}

static std::unique_ptr<llvm::MemoryBuffer> openInput(llvm::StringRef path) {
  std::string error;
  auto buffer = readInput(path, error);
  if (!buffer)
    llvm::WithColor::error() << error << '\n';
  return buffer;
}

OwningOpRef<ModuleOp>
kerf::parseModule(std::unique_ptr<llvm::MemoryBuffer> buffer,
                  llvm::SourceMgr &sources, MLIRContext &context) {
  if (auto unsafe = findUnsafeText(buffer->getBuffer())) {
    llvm::errs() << buffer->getBufferIdentifier() << ':' << *unsafe << '\n';
    return nullptr;
  }
  std::string name = buffer->getBufferIdentifier().str();
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  auto module = parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  // The parser gives the module around a file's ops line 0.
  auto loc =
      module ? dyn_cast<FileLineColLoc>(module->getLoc()) : FileLineColLoc();
  if (loc && loc.getLine() == 0)
    (*module)->setLoc(FileLineColLoc::get(&context, name, 1, 1));
  if (module && failed(verifyNames(*module)))
    return nullptr;
  return module;
}

OwningOpRef<ModuleOp> kerf::readModule(llvm::StringRef path,
                                       llvm::SourceMgr &sources,
                                       MLIRContext &context) {
  auto buffer = openInput(path);
  return buffer ? parseModule(std::move(buffer), sources, context) : nullptr;
}

/// Prints problems of options, which have no place in a file.
static LogicalResult printWithoutLocation(Diagnostic &diagnostic) {
  if (!isa<UnknownLoc>(diagnostic.getLocation()))
    return failure();
  bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
  (isError ? llvm::WithColor::error() : llvm::WithColor::warning())
      << diagnostic.str() << '\n';
  for (Diagnostic &note : diagnostic.getNotes())
    llvm::WithColor::note() << note.str() << '\n';
  return success();
}

InputModule::InputModule(llvm::StringRef path,
                         llvm::ArrayRef<std::string> plugins, bool takesSteps) {
  DialectRegistry registry;
  registerDialects(registry);
  if (failed(loadPlugins(plugins, registry)))
    return;
  context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->printOpOnDiagnostic(false); // The source line says enough.
  handler =
      std::make_unique<SourceMgrDiagnosticHandler>(sources, context.get());
  optionHandler = std::make_unique<ScopedDiagnosticHandler>(
      context.get(), printWithoutLocation);
  auto buffer = openInput(path);
  if (!buffer)
    return;
  if (!takesSteps || !isStepFile(buffer->getBuffer())) {
    module = parseModule(std::move(buffer), sources, *context);
    return;
  }
  llvm::StringRef name = buffer->getBufferIdentifier();
  readStep = readStepFile(
      buffer->getBuffer(), [&](json::Position at, const llvm::Twine &what) {
        emitError(FileLineColLoc::get(context.get(), name, at.line, at.column))
            << what;
      });
}

LogicalResult kerf::writeModule(ModuleOp module, llvm::StringRef path) {
  std::string error;
  if (succeeded(writeFileAtomically(
          path,
          [&](llvm::raw_ostream &os) {
            module.print(os, OpPrintingFlags().assumeVerified());
            os << '\n';
          },
          error)))
    return success();
  llvm::WithColor::error() << "cannot write '" << path << "': " << error
                           << '\n';
  return failure();
}
