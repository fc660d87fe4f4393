#include "WriteArtifact.h"

#include "Fail.h"

#include "kerf/Artifact/Assemble.h"
#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/PlanIR/PlanFile.h"
#include "kerf/Sampler/Sampler.h"
#include "kerf/Support/Counts.h"
#include "kerf/Support/Numbers.h"

#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// Identifies what was compiled: the text of the last stage.
static uint64_t hashOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os, OpPrintingFlags().assumeVerified());
  return llvm::xxh3_64bits(text);
}

/// What a compiled file is of, in few words.
static std::string wordsOf(const ArtifactData &data) {
  const kerf_meta &meta = data.meta;
  std::string axes;
  for (const kerf_axis &axis : data.axes)
    if (axis.size > 1)
      axes += (axes.empty() ? " (" : " ") + data.strings.get(axis.name).str() +
              " " + std::to_string(axis.size);
  uint64_t bytes = 0;
  for (const kerf_program &program : data.programs)
    bytes = std::max(bytes, program.arena_bytes);
  return data.strings.get(meta.model).str() + " on " +
         countOf(meta.world_size, "rank") + axes + (axes.empty() ? "" : ")") +
         " of " + data.strings.get(meta.target).str() + " " +
         data.strings.get(meta.cpu).str() + ", " + report::gib(bytes) +
         (meta.world_size > 1 ? " each" : "");
}

/// The bytes of the compiled file of the programs of a module. `words`: what it
/// is of.
static FailureOr<std::string>
fileOf(ModuleOp module, const std::string &sampler, std::string &words) {
  FailureOr<ArtifactData> data = assembleArtifact(module, hashOf(module));
  if (failed(data))
    return failure();
  words = wordsOf(*data);
  data->sampler = sampler;
  std::string bytes, error;
  llvm::raw_string_ostream os(bytes);
  if (failed(writeArtifact(*data, os, error)))
    return module.emitError() << "makes no sound file: " << error;
  return bytes;
}

FailureOr<std::string> kerf::writeArtifact(ModuleOp module,
                                           const std::string &sampler,
                                           llvm::StringRef path) {
  std::string words;
  FailureOr<std::string> bytes = fileOf(module, sampler, words);
  if (failed(bytes) || failed(writeText(path, *bytes)))
    return failure();
  return words;
}

LogicalResult kerf::writePlan(ModuleOp module, llvm::StringRef path) {
  auto models = module.getOps<ModelOp>();
  if (llvm::hasSingleElement(models))
    return writeText(path, savePlan(*models.begin(), /*reserveBytes=*/0,
                                    /*checked=*/nullptr, /*priced=*/nullptr,
                                    /*described=*/true));
  return fail("expected one kerf.model to print the plan of");
}

//===----------------------------------------------------------------------===//
// Samplers
//===----------------------------------------------------------------------===//

/// The sampler of the one model.
static FailureOr<OwningOpRef<ModuleOp>> samplerOf(ModuleOp module) {
  auto models = module.getOps<ModelOp>();
  if (llvm::hasSingleElement(models))
    return makeSampler(*models.begin());
  return module.emitError() << "expected one kerf.model to make the sampler of";
}

/// A file for GPUs is often compiled elsewhere than it is run: its sampler
/// takes any processor of the last ten years.
static StageOptions optionsFor(const StageOptions &model) {
  StageOptions options;
  options.fuse = model.fuse;
  options.workers = model.workers;
  options.cpu = model.target == "cuda" ? "x86-64-v3" : model.cpu;
  options.own = model.own;
  return options;
}

static LogicalResult runStages(ModuleOp module,
                               std::initializer_list<Stage> all,
                               const StageOptions &options) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (Stage stage : all)
    addStage(pm, stage, options);
  return pm.run(module);
}

FailureOr<std::string> kerf::compileSampler(ModuleOp module,
                                            const StageOptions &options) {
  FailureOr<OwningOpRef<ModuleOp>> sampler = samplerOf(module);
  StageOptions own = optionsFor(options);
  if (failed(sampler) ||
      failed(runStages(**sampler,
                       {Stage::Differentiate, Stage::Plan, Stage::Recompute,
                        Stage::Partition, Stage::Schedule},
                       own)))
    return failure();
  for (spmd::ProgramOp program : (*sampler)->getOps<spmd::ProgramOp>())
    keepOneCall(program);
  if (failed(runStages(**sampler, {Stage::Fuse, Stage::Memory, Stage::Codegen},
                       own)))
    return failure();
  std::string words; // those of its model are told
  return fileOf(**sampler, "", words);
}

LogicalResult kerf::writeSampler(ModuleOp module, llvm::StringRef path) {
  FailureOr<OwningOpRef<ModuleOp>> sampler = samplerOf(module);
  return failed(sampler) ? failure() : writeModule(**sampler, path);
}
