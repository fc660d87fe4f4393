//===- compiled.cpp - random models, compiled against the interpreter -----===//
//
//   kerf-random-compiled COUNT SEED [--ranks N] [--keep FOLDER] [--keep-all]
//   kerf-random-compiled --file MODEL.mlir
//
// Draws COUNT models and ways to compile them (seeds SEED, SEED+1, ...),
// compiles each in a process of its own, trains it for three steps and compares
// outputs, optimizer state and parameters with the interpreter in f64. The
// bound follows from what rounding does to the model in the interpreter. A
// model that crashes, hangs or differs is printed and, with --keep, written to
// a file that starts with how it was compiled; --file runs such a file again.
// With --ranks up to N ranks take part. What a stage refuses with a diagnostic
// is counted, not wrong; the messages are printed once each.
//
//===----------------------------------------------------------------------===//

#include "ModelWriter.h"

#include "../E2E/Training.h"

#include "kerf/Artifact/Assemble.h"
#include "kerf/Pipeline/Stages.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {
/// A way to compile and run a model.
struct Way {
  StageOptions stages; ///< `plan` is the text of the plan here
  int threads = 2;
  int64_t ignored = 0;

  std::string print() const;
  static Way parse(const std::string &text);
};

/// How the process of one model ended.
enum class Verdict { Same, Refused, Wrong };
struct Outcome {
  Verdict verdict;
  std::string message;
};
} // namespace

static constexpr int kRefused = 3;        ///< exit status
static constexpr unsigned kSeconds = 120; ///< a model that takes longer hangs

//===----------------------------------------------------------------------===//
// Ways
//===----------------------------------------------------------------------===//

std::string Way::print() const {
  std::ostringstream os;
  os << "overlap=" << stages.overlap << " fuse=" << stages.fuse << " recompute="
     << (stages.recompute.empty() ? "plan" : stages.recompute[0])
     << " precision=" << stages.precision << " cpu=" << stages.cpu
     << " threads=" << threads << " ignored=" << ignored
     << " plan=" << stages.plan;
  return os.str();
}

/// Reads what `print` wrote.
Way Way::parse(const std::string &text) {
  Way way;
  auto field = [&](const std::string &name) {
    size_t at = text.find(name + "=");
    if (at == std::string::npos)
      return std::string();
    at += name.size() + 1;
    return text.substr(at, name == "plan" ? std::string::npos
                                          : text.find(' ', at) - at);
  };
  way.stages.fuse = field("fuse") != "0";
  way.stages.overlap = field("overlap") != "0";
  if (std::string recompute = field("recompute");
      !recompute.empty() && recompute != "plan")
    way.stages.recompute = {recompute};
  if (std::string precision = field("precision"); !precision.empty())
    way.stages.precision = precision;
  if (std::string cpu = field("cpu"); !cpu.empty())
    way.stages.cpu = cpu;
  if (std::string threads = field("threads"); !threads.empty())
    way.threads = std::atoi(threads.c_str());
  way.ignored = std::atoll(field("ignored").c_str());
  if (text.find("plan={") != std::string::npos)
    way.stages.plan = text.substr(text.find("plan={") + 5);
  return way;
}

/// A plan with micro-batches and up to `ranks` ranks: a few ops are pinned, the
/// others follow by propagation. Not everything divides.
static std::string drawPlan(ModelWriter &writer, std::mt19937_64 &random,
                            int64_t ranks) {
  auto pick = [&](int64_t count) { return int64_t(random() % count); };
  int64_t batch = writer.getBatch();
  int64_t micro = batch % 4 == 0 && pick(2) ? 4 : batch % 2 == 0 ? 2 : 1;
  if (pick(16) == 0)
    micro = 3;
  int64_t data = ranks > 1 && pick(2) ? 2 : 1;
  int64_t tensor = ranks > 1 && (ranks >= 2 * data) && pick(2) ? 2 : 1;
  std::string axes = "\"micro\"", mesh;
  if (data > 1) {
    axes = "\"dp\", " + axes;
    mesh = "\"dp\": 2";
  }
  if (tensor > 1)
    mesh += std::string(mesh.empty() ? "" : ", ") + "\"tp\": 2";
  std::string rules =
      "{\"op\": \"embedding\", \"weight\": \"wte*\", \"factors\": {\"b\": [" +
      axes + "]}}";
  const std::vector<std::string> &weights = writer.getWeights();
  if (tensor > 1)
    for (int64_t n = 1 + pick(3); n > 0 && !weights.empty(); --n) {
      std::string factor = pick(2) ? "n" : "k";
      rules += ", {\"op\": \"linear\", \"weight\": \"" +
               weights[pick(weights.size())] + "\", \"factors\": {\"b\": [" +
               axes + "], \"" + factor + "\": [\"tp\"]}}";
    }
  return "{\"mesh\": {" + mesh +
         "}, \"micro_batches\": " + std::to_string(micro) + ", \"assign\": [" +
         rules + "]}";
}

constexpr const char *kCpus[] = {"native", "x86-64-v2", "x86-64-v3",
                                 "x86-64-v4"};

/// Whether this machine runs code for a drawn processor: not all have AVX-512.
static bool runsHere(llvm::StringRef cpu) {
  __builtin_cpu_init();
  if (cpu == "x86-64-v4")
    return __builtin_cpu_supports("x86-64-v4");
  if (cpu == "x86-64-v3")
    return __builtin_cpu_supports("x86-64-v3");
  return true;
}

static Way drawWay(ModelWriter &writer, uint64_t seed, bool planned,
                   int64_t ranks) {
  std::mt19937_64 random(seed * 7919 + 1);
  auto pick = [&](int64_t count) { return int64_t(random() % count); };
  Way way;
  way.stages.fuse = pick(4) != 0;
  way.stages.overlap = pick(4) != 0;
  static const char *recompute[] = {"", "none", "full", "selective"};
  if (const char *choice = recompute[pick(4)]; *choice)
    way.stages.recompute = {choice};
  static const char *precisions[] = {"bf16", "f16", "f32", "f32", "f32"};
  way.stages.precision = precisions[pick(5)];
  way.stages.cpu = kCpus[pick(4)];
  if (!runsHere(way.stages.cpu))
    way.stages.cpu = "native";
  way.threads = ranks > 1 ? 1 : 1 + pick(3);
  way.ignored = pick(3) ? 0 : pick(2) ? 30 : 100;
  if (planned)
    way.stages.plan = drawPlan(writer, random, ranks);
  return way;
}

//===----------------------------------------------------------------------===//
// One model
//===----------------------------------------------------------------------===//

/// Stops a process whose model was refused by a stage.
[[noreturn]] static void refuse(const std::string &message) {
  llvm::errs() << message << "\n";
  llvm::errs().flush();
  std::_Exit(kRefused);
}

/// Runs all stages and writes the artifact; `messages` gets the diagnostics.
static LogicalResult compile(ModuleOp module, StageOptions options,
                             const std::string &folder) {
  if (!options.plan.empty()) {
    std::ofstream(folder + "/plan.json") << options.plan;
    options.plan = folder + "/plan.json";
  }
  for (Stage stage : kStages) {
    auto pm = PassManager::on<ModuleOp>(module.getContext());
    addStage(pm, stage, options);
    if (failed(pm.run(module)))
      return module.emitError() << "stage " << getStageName(stage);
  }
  FailureOr<ArtifactData> data = assembleArtifact(module, 1);
  if (failed(data))
    return module.emitError() << "assembling";
  std::error_code code;
  llvm::raw_fd_ostream os(folder + "/model.kerf", code);
  std::string error;
  if (code || failed(writeArtifact(*data, os, error)))
    return module.emitError() << "makes no sound file: " << error;
  return success();
}

/// What is wrong, or an empty message. `noise` is the error of the interpreter
/// that rounds at every op: what the model itself makes of rounding.
static std::string judge(const TrainingErrors &errors,
                         const TrainingErrors &noise, const Way &way) {
  bool isHalf = way.stages.precision != "f32";
  double base = isHalf ? 1e-2 : 1e-5, factor = isHalf ? 8 : 30;
  if (noise.loss > 0.01 || noise.states > 0.3) // Its numbers mean nothing.
    return "";
  auto isSmall = [&](double error, double rounding, double least) {
    return error <= std::max(least * base, factor * rounding);
  };
  if (isSmall(errors.loss, noise.loss, 1) &&
      isSmall(errors.metrics, noise.metrics, 10) &&
      isSmall(errors.states, noise.states, 10) &&
      isSmall(errors.params, noise.params, 10))
    return "";
  return errors.describe() + "\nrounding: " + noise.describe();
}

/// The model of `text` after the stages up to `last`.
static OwningOpRef<ModuleOp> stepOf(const std::string &text, Stage last,
                                    const Way &way, MLIRContext &context) {
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return nullptr;
  StageOptions options;
  options.precision = way.stages.precision;
  auto pm = PassManager::on<ModuleOp>(&context);
  for (Stage stage : kStages)
    if (stage <= last)
      addStage(pm, stage, options);
  return succeeded(pm.run(*module)) ? std::move(module) : nullptr;
}

/// The body of the process of one model; returns its exit status.
static int runModel(const std::string &text, const Way &way,
                    const std::string &folder) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      messages += diagnostic.str() + "; ";
  });
  auto step = stepOf(text, Stage::Differentiate, way, context);
  auto rounded = stepOf(text, Stage::Precision, way, context);
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!step || !rounded || !module)
    refuse("no step: " + messages);
  if (failed(compile(*module, way.stages, folder)))
    refuse(messages);
  ModelOp model = *step->getOps<ModelOp>().begin();
  TrainingOptions options;
  options.threads = way.threads;
  options.ignored = way.ignored;
  options.rate = 0.01;
  TrainingResult found = execute(folder + "/model.kerf", model, options);
  TrainingResult near = interpret(*rounded->getOps<ModelOp>().begin(), options);
  options.f64 = true;
  TrainingResult exact = interpret(model, options);
  std::string wrong = judge(compare(found, exact), compare(near, exact), way);
  if (wrong.empty())
    return 0;
  llvm::errs() << "differs: " << wrong << "\n";
  return 1;
}

/// Runs a model in a process of its own.
static Outcome check(const std::string &text, const Way &way) {
  llvm::SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("kerf-random", folder))
    return {Verdict::Wrong, "cannot make a temporary folder"};
  std::string path = folder.str().str();
  pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0); // With its ranks it can be ended at once.
    alarm(kSeconds);
    if (!freopen((path + "/messages").c_str(), "w", stderr))
      std::_Exit(1);
    int status = runModel(text, way, path);
    llvm::errs().flush();
    std::_Exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  kill(-child, SIGKILL);
  auto buffer = llvm::MemoryBuffer::getFile(path + "/messages");
  std::string message = buffer ? (*buffer)->getBuffer().str() : "";
  llvm::sys::fs::remove_directories(path);
  if (WIFSIGNALED(status))
    return {Verdict::Wrong, WTERMSIG(status) == SIGALRM
                                ? "hangs\n" + message
                                : "ends by signal " +
                                      std::to_string(WTERMSIG(status)) + "\n" +
                                      message};
  if (WEXITSTATUS(status) == kRefused)
    return {Verdict::Refused, message};
  return {WEXITSTATUS(status) == 0 ? Verdict::Same : Verdict::Wrong, message};
}

//===----------------------------------------------------------------------===//
// Many models
//===----------------------------------------------------------------------===//

static int runFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    llvm::errs() << "cannot read '" << path << "'\n";
    return 1;
  }
  std::string text = (*buffer)->getBuffer().str();
  Way way;
  if (llvm::StringRef(text).starts_with("// "))
    way = Way::parse(text.substr(3, text.find('\n') - 3));
  Outcome outcome = check(text, way);
  llvm::outs() << (outcome.verdict == Verdict::Same      ? "same"
                   : outcome.verdict == Verdict::Refused ? "refused: "
                                                         : "wrong: ")
               << outcome.message << "\n";
  return outcome.verdict != Verdict::Same;
}

int main(int argc, char **argv) {
  int64_t numbers[2] = {20, 1}, given = 0, ranks = 1;
  std::string keep;
  bool keepsAll = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--file" && i + 1 < argc)
      return runFile(argv[i + 1]);
    if (argument == "--keep" && i + 1 < argc)
      keep = argv[++i];
    else if (argument == "--keep-all")
      keepsAll = true;
    else if (argument == "--ranks" && i + 1 < argc)
      ranks = std::atoll(argv[++i]);
    else if (given < 2)
      numbers[given++] = std::atoll(argv[i]);
  }
  int64_t count[3] = {};
  std::map<std::string, int64_t> refusals;
  for (int64_t seed = numbers[1]; seed < numbers[1] + numbers[0]; ++seed) {
    ModelWriter writer(seed);
    bool planned = ranks > 1 || seed % 3 == 0;
    std::string text = writer.writeRich(planned);
    Way way = drawWay(writer, seed, planned, ranks);
    Outcome outcome = check(text, way);
    ++count[static_cast<int>(outcome.verdict)];
    if (outcome.verdict == Verdict::Refused)
      ++refusals[outcome.message];
    if (!keep.empty() && (keepsAll || outcome.verdict == Verdict::Wrong))
      std::ofstream(keep + "/" + std::to_string(seed) + ".mlir")
          << "// " << way.print() << "\n"
          << text;
    if (outcome.verdict != Verdict::Wrong)
      continue;
    llvm::outs() << "seed " << seed << ": " << way.print() << "\n"
                 << outcome.message << "\n";
    llvm::outs().flush();
    if (keep.empty())
      llvm::outs() << text;
  }
  for (auto &[message, times] : refusals)
    llvm::outs() << "refused " << times << " times: " << message;
  llvm::outs() << count[0] << " same, " << count[1] << " refused, " << count[2]
               << " wrong\n";
  return count[2] != 0;
}
