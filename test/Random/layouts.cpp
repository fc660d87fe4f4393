//===- layouts.cpp - random models in random layouts, on virtual ranks ----===//
//
//   kerf-layouts COUNT SEED [FOLDER]   random models by random plans
//   kerf-layouts MODEL PLAN...         a model in MLIR by plan files
//
// Each pair is a small model, a mesh of up to 8 ranks (data, tensor, pipeline),
// micro-batches, a schedule, what of the state is cut, what is computed again.
// The programs of all ranks are run by the reference interpreter in f64 and
// compared with the step on global tensors: loss, norm, every gradient and
// every parameter after two steps. Pairs that a stage refuses (sizes that do
// not divide) are counted apart.
//
//===----------------------------------------------------------------------===//

#include "ModelWriter.h"
#include "PlanWriter.h"

#include "kerf/Interpreter/CompareTraining.h"
#include "kerf/Pipeline/Stages.h"
#include "kerf/Plan/PlanFile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

//===----------------------------------------------------------------------===//
// One pair
//===----------------------------------------------------------------------===//

namespace {
struct Outcome {
  enum { Same, Noisy, Refused, Differs } verdict = Differs;
  std::string message;
};
} // namespace

static LogicalResult runStages(ModuleOp module, Stage first, Stage last) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (int stage = int(first); stage <= int(last); ++stage)
    addStage(pm, Stage(stage), {});
  return pm.run(module);
}

static void writeText(const std::string &path, const std::string &text) {
  std::error_code code;
  llvm::raw_fd_ostream(path, code) << text;
}

/// Runs both for two steps.
static Outcome checkPair(const std::string &text, const std::string &plan,
                         MLIRContext &context) {
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      messages += diagnostic.str() + "; ";
  });
  auto step = parseSourceString<ModuleOp>(text, &context);
  if (!step || failed(runStages(*step, Stage::Ingest, Stage::Precision)))
    return {Outcome::Refused, "no step: " + messages};
  OwningOpRef<ModuleOp> programs(step->clone());
  if (failed(
          loadPlan(*programs->getOps<ModelOp>().begin(), plan, "plan.json")) ||
      failed(runStages(*programs, Stage::Plan, Stage::Recompute)))
    return {Outcome::Refused, messages};
  // What is planned can be written: from here on nothing is refused.
  if (failed(runStages(*programs, Stage::Partition, Stage::Schedule)))
    return {Outcome::Differs, "no programs: " + messages};
  ModelOp model = *step->getOps<ModelOp>().begin();
  TrainingData data;
  TrainingRun actual =
      trainPrograms(llvm::to_vector(programs->getOps<spmd::ProgramOp>()), data);
  TrainingComparison comparison =
      compareTraining(actual, trainStep(model, data));
  if (comparison.wrong.empty())
    return {Outcome::Same, ""};
  // Some random models are ill-conditioned: then rounding shows as much.
  if (isNoise(comparison.largest.error, model, data))
    return {Outcome::Noisy, ""};
  const TrainingDifference &first = comparison.wrong.front();
  std::string number;
  llvm::raw_string_ostream(number) << llvm::format("%.3g", first.error);
  return {Outcome::Differs, first.what + " differs by " + number + " at step " +
                                std::to_string(first.step) + " " + messages};
}

//===----------------------------------------------------------------------===//
// Many pairs
//===----------------------------------------------------------------------===//

static int checkFiles(int argc, char **argv, MLIRContext &context) {
  auto read = [](const char *path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : "";
  };
  int wrong = 0;
  for (int i = 2; i < argc; ++i) {
    Outcome outcome = checkPair(read(argv[1]), read(argv[i]), context);
    bool fine =
        outcome.verdict == Outcome::Same || outcome.verdict == Outcome::Noisy;
    wrong += !fine;
    llvm::outs() << argv[i] << ": " << (fine ? "same" : outcome.message)
                 << "\n";
  }
  return wrong != 0;
}

int main(int argc, char **argv) {
  registerPasses();
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  if (argc > 2 && !std::isdigit(argv[1][0]))
    return checkFiles(argc, argv, context);
  int64_t count = argc > 1 ? std::atoll(argv[1]) : 20;
  int64_t first = argc > 2 ? std::atoll(argv[2]) : 1;
  // A folder for pairs that differ; then why others were refused is told, too.
  std::string folder = argc > 3 ? argv[3] : "";
  int64_t same = 0, noisy = 0, refused = 0, wrong = 0;
  std::map<std::string, int64_t> reasons;
  for (int64_t seed = first; same + noisy + wrong < count; ++seed) {
    ModelWriter writer(seed);
    std::string text = writer.writeRich(/*forPlan=*/true);
    std::string plan = PlanWriter(writer, seed * 6007 + 5).write();
    Outcome outcome = checkPair(text, plan, context);
    same += outcome.verdict == Outcome::Same;
    noisy += outcome.verdict == Outcome::Noisy;
    refused += outcome.verdict == Outcome::Refused;
    wrong += outcome.verdict == Outcome::Differs;
    if (outcome.verdict == Outcome::Refused)
      ++reasons[outcome.message];
    if (outcome.verdict == Outcome::Differs && !folder.empty()) {
      std::string path = folder + "/" + std::to_string(seed);
      writeText(path + ".mlir", text);
      writeText(path + ".json", plan);
    }
    if (outcome.verdict == Outcome::Differs)
      llvm::outs() << "seed " << seed << ": " << plan << "\n"
                   << outcome.message << "\n";
    if (refused > 20 * count + 20)
      break;
  }
  if (!folder.empty())
    for (auto &[reason, times] : reasons)
      llvm::outs() << times << " refused: " << reason << "\n";
  llvm::outs() << same << " same, " << noisy
               << " within the noise of an ill-conditioned model, " << wrong
               << " differ; " << refused << " more were refused\n";
  return wrong != 0 || same + noisy < count;
}
