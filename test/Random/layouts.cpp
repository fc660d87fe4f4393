//===- layouts.cpp - random models in random layouts, on virtual ranks ----===//
//
//   kerf-layouts COUNT SEED [FOLDER]             random models by random plans
//   kerf-layouts --experts COUNT SEED [FOLDER]   random mixtures of experts
//   kerf-layouts MODEL PLAN...                   a model in MLIR by plan files
//
// Each pair is a small model, a mesh of up to 8 ranks (data, tensor, pipeline),
// micro-batches, a schedule, what of the state is cut, what is computed again.
// Half of the programs sum gradients in the last backward pass.
// The programs of all ranks are run by the reference interpreter in f64 and
// compared with the step on global tensors: loss, norm, every gradient and
// every parameter after two steps. Pairs that a stage refuses (sizes that do
// not divide) are counted apart. Where rows of experts do not fit in the room
// of a plan, the room that the stopped step names must do.
//
//===----------------------------------------------------------------------===//

#include "ExpertWriter.h"
#include "Judge.h"
#include "ModelWriter.h"
#include "PlanWriter.h"

#include "kerf/PlanIR/PlanFile.h"

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

/// Runs both for two steps. `step` may be null, after a diagnostic.
static Outcome checkPair(OwningOpRef<ModuleOp> step, const std::string &plan,
                         MLIRContext &context) {
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      messages += diagnostic.str() + "; ";
  });
  if (!step || failed(runStages(*step, Stage::Ingest, Stage::Precision)))
    return {Outcome::Refused, "no step: " + messages};
  OwningOpRef<ModuleOp> programs(step->clone());
  if (failed(loadPlan(modelIn(*programs), plan, "plan.json")) ||
      failed(runStages(*programs, Stage::Plan, Stage::Recompute)))
    return {Outcome::Refused, messages};
  // What is planned can be written: from here on nothing is refused.
  if (failed(runStages(*programs, Stage::Partition, Stage::Schedule,
                       optionsFor(plan))))
    return {Outcome::Wrong, "no programs: " + messages};
  Outcome outcome = judge(*programs, modelIn(*step));
  outcome.message += " " + messages;
  return outcome;
}

namespace {
/// A model, as text, a plan, and what became of them.
struct Pair {
  std::string model, plan;
  Outcome outcome;
};
} // namespace

static Pair checkRandom(uint64_t seed, MLIRContext &context) {
  ModelWriter writer(seed);
  std::string text = writer.writeRich(/*forPlan=*/true);
  std::string plan = PlanWriter(writer, seed * 6007 + 5).write();
  Outcome outcome =
      checkPair(parseSourceString<ModuleOp>(text, &context), plan, context);
  return {text, plan, outcome};
}

/// The room that a step asks for which stopped since rows did not fit; else 0.
static double readRoom(llvm::StringRef message) {
  double room = 0;
  llvm::StringRef number =
      message.split("is too small, this step needs ").second;
  number.take_while([](char c) { return c == '.' || std::isdigit(c); })
      .getAsDouble(room);
  return room;
}

static Pair checkExperts(uint64_t seed, MLIRContext &context) {
  ExpertWriter writer(seed);
  auto step = importConfig(writer.getConfig(), "config.json",
                           writer.getOptions(), &context);
  Pair pair;
  if (step)
    llvm::raw_string_ostream(pair.model) << *step;
  // Each step may need more than those before it.
  double room = writer.getRoom();
  for (int64_t tries = TrainingData().steps; tries >= 0; --tries) {
    pair.plan = writer.getPlan(room);
    OwningOpRef<ModuleOp> copy(step ? step->clone() : ModuleOp());
    pair.outcome = checkPair(std::move(copy), pair.plan, context);
    double needed = readRoom(pair.outcome.message);
    if (needed <= room)
      break;
    room = needed;
  }
  return pair;
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
    Outcome outcome =
        checkPair(parseSourceString<ModuleOp>(read(argv[1]), &context),
                  read(argv[i]), context);
    bool fine =
        outcome.verdict == Outcome::Same || outcome.verdict == Outcome::Noisy;
    wrong += !fine;
    llvm::outs() << argv[i] << ": " << (fine ? "same" : outcome.message)
                 << "\n";
  }
  return wrong != 0;
}

/// Runs pairs until `count` have programs. A folder is for pairs that differ;
/// then why others were refused is told, too.
static int checkMany(int64_t count, uint64_t first, const std::string &folder,
                     llvm::function_ref<Pair(uint64_t)> check) {
  Counter counter(count);
  std::map<std::string, int64_t> reasons;
  for (uint64_t seed = first; counter.needsMore(); ++seed) {
    Pair pair = check(seed);
    const Outcome &outcome = pair.outcome;
    counter.add(outcome);
    if (outcome.verdict == Outcome::Refused)
      ++reasons[outcome.message];
    if (outcome.verdict == Outcome::Wrong && !folder.empty()) {
      std::string path = folder + "/" + std::to_string(seed);
      writeText(path + ".mlir", pair.model);
      writeText(path + ".json", pair.plan);
    }
    if (outcome.verdict == Outcome::Wrong)
      llvm::outs() << "seed " << seed << ": " << pair.plan << "\n"
                   << outcome.message << "\n";
  }
  if (!folder.empty())
    for (auto &[reason, times] : reasons)
      llvm::outs() << times << " refused: " << reason << "\n";
  return counter.report("were refused");
}

int main(int argc, char **argv) {
  registerPasses();
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  bool experts = argc > 1 && llvm::StringRef(argv[1]) == "--experts";
  if (!experts && argc > 2 && !std::isdigit(argv[1][0]))
    return checkFiles(argc, argv, context);
  int at = experts ? 2 : 1;
  return checkMany(argc > at ? std::atoll(argv[at]) : 20,
                   argc > at + 1 ? std::atoll(argv[at + 1]) : 1,
                   argc > at + 2 ? argv[at + 2] : "", [&](uint64_t seed) {
                     return experts ? checkExperts(seed, context)
                                    : checkRandom(seed, context);
                   });
}
