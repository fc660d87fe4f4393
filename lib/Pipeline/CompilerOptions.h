//===- CompilerOptions.h - the command line of kerfc ------------*- C++ -*-===//

#ifndef KERF_LIB_PIPELINE_COMPILEROPTIONS_H
#define KERF_LIB_PIPELINE_COMPILEROPTIONS_H

#include "NewClusterTask.h"
#include "PlanTask.h"

#include "kerf/Pipeline/Stages.h"
#include "kerf/Support/Log.h"

#include "llvm/Support/CommandLine.h"

namespace kerf {

/// The command line of kerfc. Options live here, not in globals: the library
/// holds the main functions of several tools.
struct CompilerOptions {
  llvm::cl::OptionCategory category{"Compiler options"};
  llvm::cl::opt<std::string> input{
      llvm::cl::Positional, llvm::cl::init("-"),
      llvm::cl::desc("<model.mlir, a step of --emit=step, or "
                     "- for standard input>"),
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> output{
      "o", llvm::cl::desc("Write to this file (default: -)"),
      llvm::cl::value_desc("file"), llvm::cl::init("-"),
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> stopAfter{
      "stop-after",
      llvm::cl::desc("Last stage (default: precision; all with -o NAME.kerf)"),
      llvm::cl::value_desc("stage"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> startAfter{
      "start-after", llvm::cl::desc("The input is the output of this stage"),
      llvm::cl::value_desc("stage"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> precision{
      "precision",
      llvm::cl::desc(
          "f32, or bf16 or f16 with f32 masters, or fp8: bf16 with "
          "matmuls of layers in 8 bits (GPUs of sm_89 and newer; computed "
          "in bf16 on target cpu). Default: bf16 with a --cluster whose "
          "devices have it (not CPUs), else f32"),
      llvm::cl::value_desc("type"), llvm::cl::init("f32"),
      llvm::cl::cat(category)};
  llvm::cl::list<std::string> recompute{
      "recompute",
      llvm::cl::desc(
          "What the backward pass computes again: none, full, selective, "
          "or numbers of forward ops (default: as the plan says)"),
      llvm::cl::value_desc("values"), llvm::cl::CommaSeparated,
      llvm::cl::cat(category)};
  llvm::cl::opt<bool> fuse{"fuse",
                           llvm::cl::desc("Join kernels (default: true)"),
                           llvm::cl::init(true), llvm::cl::cat(category)};
  llvm::cl::opt<bool> overlap{
      "overlap",
      llvm::cl::desc("Start collectives early and wait for them late (default: "
                     "true)"),
      llvm::cl::init(true), llvm::cl::cat(category)};
  llvm::cl::opt<llvm::cl::boolOrDefault> bucketGradients{
      "bucket-gradients",
      llvm::cl::desc(
          "Sum gradients over data ranks while the last backward pass "
          "runs (default: on for clusters of devices that communicate "
          "beside computing, not for CPUs, and not where another stage "
          "waits for that pass)"),
      llvm::cl::cat(category)};
  llvm::cl::opt<int64_t> workers{
      "max-threads",
      llvm::cl::desc("Threads that workspaces are planned for (default: 8)"),
      llvm::cl::value_desc("number"), llvm::cl::init(8),
      llvm::cl::cat(category)};
  llvm::cl::opt<int64_t> survive{
      "survive",
      llvm::cl::desc(
          "Also plan and compile for up to so many computers less (units of "
          "the innermost tier; of one unit, ranks), into NAME-RANKS.kerf "
          "beside -o NAME.kerf, which kerf-run takes where so many ranks are "
          "started"),
      llvm::cl::value_desc("number"), llvm::cl::init(0),
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> target{
      "target",
      llvm::cl::desc(
          "What the ranks run on: cpu, cuda (default: as the cluster "
          "says, else cpu)"),
      llvm::cl::value_desc("name"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> gpu{
      "gpu",
      llvm::cl::desc(
          "GPU that kernels are made for on target cuda: sm_80, sm_86, "
          "sm_89, sm_90, sm_100, sm_103, sm_120 (default: as the cluster "
          "says, else sm_90)"),
      llvm::cl::value_desc("name"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> cpu{
      "cpu",
      llvm::cl::desc(
          "CPU that kernels are made for: native (default), x86-64-v2, "
          "x86-64-v3 (AVX2), x86-64-v4 (AVX-512), or a name of LLVM's"),
      llvm::cl::value_desc("name"), llvm::cl::init("native"),
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> plan{
      "plan",
      llvm::cl::desc("How the step is distributed (JSON; default: one rank)"),
      llvm::cl::value_desc("file"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> check{
      "check",
      llvm::cl::desc(
          "What is trained on virtual ranks and on one before programs are "
          "made of a plan: twin (default: a small step with the decisions of "
          "the plan), full (the step itself), off"),
      llvm::cl::value_desc("what"), llvm::cl::init("twin"),
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> emit{
      "emit",
      llvm::cl::desc(
          "ir (default); plan: the completed plan as JSON; step: what "
          "the planner knows of the model, as JSON that kerfc plans in "
          "its place; sampler: the model that --sampler compiles; verify: "
          "the "
          "step and the programs of its ranks, for kerf-inspect verify; "
          "twin: the same of the small step that stands for this one"),
      llvm::cl::value_desc("what"), llvm::cl::init("ir"),
      llvm::cl::cat(category)};
  llvm::cl::opt<bool> sampler{
      "sampler",
      llvm::cl::desc(
          "Add to the compiled file what kerf-run --sample needs: the "
          "model goes on from a text, on the CPU of one rank"),
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> dump{
      "dump-stages-to",
      llvm::cl::desc("Write the IR after each stage to this folder"),
      llvm::cl::value_desc("folder"), llvm::cl::cat(category)};
  std::string aboutLog = describeLogOption();
  llvm::cl::list<std::string> log{
      "log", llvm::cl::CommaSeparated, llvm::cl::desc(aboutLog),
      llvm::cl::value_desc("names"), llvm::cl::cat(category)};
  llvm::cl::OptionCategory planCategory{"Planner options"};
  PlanOptions planner{planCategory};
  NewClusterOptions newCluster{planCategory};
  llvm::cl::list<std::string> plugins{
      "load-dialect-plugin",
      llvm::cl::desc("Shared object with a dialect of your own"),
      llvm::cl::value_desc("file"), llvm::cl::cat(category)};
  llvm::cl::list<std::string> passPlugins{
      "load-pass-plugin",
      llvm::cl::desc("Shared object with passes of your own"),
      llvm::cl::value_desc("file"), llvm::cl::cat(category)};
  llvm::cl::list<std::string> own{
      "run-after",
      llvm::cl::desc("Run passes of your own at the end of a stage, before its "
                     "contract is checked: ingest:my-pass{option=1}"),
      llvm::cl::value_desc("stage:passes"), llvm::cl::cat(category)};
};

/// What is wrong with the options that were given: one that says nothing
/// without another one, or beside it, whatever the input is; "" if nothing.
std::string findIdleOption(const CompilerOptions &options);

/// A file that is to be read and is not there, or whose folder is not there to
/// write it in; "" if there is none.
std::string findMissingFile(const CompilerOptions &options);
/// Says that a file will have IR where its name promises something else.
void noteIr(const CompilerOptions &options);

/// The first option that was given of those that ask for a model, which a step
/// without one cannot serve: "--precision"; "" if none was.
std::string findModelOption();

/// What kerfc runs: the stages behind `done` up to `last`.
struct StageRange {
  std::optional<Stage> done;
  Stage last = Stage::Precision;
  bool plans = false;      ///< for a cluster
  bool writesTwin = false; ///< which goes through stages of its own
};

/// Warns of options that act in stages which are not run.
void warnOfStages(const StageRange &range);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_COMPILEROPTIONS_H
