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

#include "Judge.h"
#include "ModelWriter.h"
#include "PlanWriter.h"

#include "kerf/Plan/PlanFile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

//===----------------------------------------------------------------------===//
// One pair
//===----------------------------------------------------------------------===//

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
  if (failed(loadPlan(modelIn(*programs), plan, "plan.json")) ||
      failed(runStages(*programs, Stage::Plan, Stage::Recompute)))
    return {Outcome::Refused, messages};
  // What is planned can be written: from here on nothing is refused.
  if (failed(runStages(*programs, Stage::Partition, Stage::Schedule)))
    return {Outcome::Wrong, "no programs: " + messages};
  Outcome outcome = judge(*programs, modelIn(*step));
  outcome.message += " " + messages;
  return outcome;
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
  Counter counter(count);
  std::map<std::string, int64_t> reasons;
  for (int64_t seed = first; counter.needsMore(); ++seed) {
    ModelWriter writer(seed);
    std::string text = writer.writeRich(/*forPlan=*/true);
    std::string plan = PlanWriter(writer, seed * 6007 + 5).write();
    Outcome outcome = checkPair(text, plan, context);
    counter.add(outcome);
    if (outcome.verdict == Outcome::Refused)
      ++reasons[outcome.message];
    if (outcome.verdict == Outcome::Wrong && !folder.empty()) {
      std::string path = folder + "/" + std::to_string(seed);
      writeText(path + ".mlir", text);
      writeText(path + ".json", plan);
    }
    if (outcome.verdict == Outcome::Wrong)
      llvm::outs() << "seed " << seed << ": " << plan << "\n"
                   << outcome.message << "\n";
  }
  if (!folder.empty())
    for (auto &[reason, times] : reasons)
      llvm::outs() << times << " refused: " << reason << "\n";
  return counter.report("were refused");
}
