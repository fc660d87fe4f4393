//===- found.cpp - found plans of random clusters, on virtual ranks -------===//
//
//   kerf-found [--given] COUNT SEED [FOLDER]
//
// Each case is a tiny model of a family that Hugging Face has, the description
// of a cluster of 2 to 8 ranks (tiers, links and memory drawn), and at most one
// pin. The plan is what the search finds, by all of its space. The programs of
// all ranks are run by the reference interpreter in f64 and compared with the
// step on global tensors: loss, norm, every gradient and every parameter
// after two steps. Given back as text, without the pin, the plan takes the same
// time and the same memory; with --given that alone is checked. What fits no
// memory is counted apart; all else that the search finds must be written and
// must agree. Cases that are wrong are written to FOLDER.
//
//===----------------------------------------------------------------------===//

#include "Judge.h"

#include "kerf/Ingest/Import.h"
#include "kerf/Plan/SolvePlan.h"
#include "kerf/PlanIR/PlanFile.h"
#include "kerf/Search/Pins.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <random>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

namespace {
/// What is drawn.
struct Case {
  std::string config, cluster, pins;
  ImportOptions options;
};

class CaseWriter {
public:
  explicit CaseWriter(uint64_t seed) : random(seed) {}
  Case write();

private:
  int64_t pick(int64_t count) { return int64_t(random() % count); }
  template <size_t n> const char *choose(const char *const (&list)[n]) {
    return list[pick(n)];
  }
  std::string config();
  std::string cluster();
  std::string pins();

  std::mt19937_64 random;
  Case made;
  int64_t ranks = 2;
};
} // namespace

std::string CaseWriter::config() {
  int64_t layers = 2 + 2 * pick(2), hidden = 16 << pick(2);
  int64_t heads = 4, groups = pick(2) ? 2 : 4;
  const char *tied = pick(2) ? "true" : "false";
  if (pick(4) == 0)
    return llvm::formatv("{{\"model_type\": \"gpt2\", \"n_embd\": {0}, "
                         "\"n_head\": {1}, \"n_layer\": {2}, \"n_positions\": "
                         "64, \"vocab_size\": {3}, \"tie_word_embeddings\": "
                         "{4}}",
                         hidden, heads, layers, 96 + 32 * pick(2), tied);
  std::string common = llvm::formatv(
      "\"hidden_size\": {0}, \"intermediate_size\": {1}, "
      "\"num_attention_heads\": {2}, \"num_key_value_heads\": {3}, "
      "\"num_hidden_layers\": {4}, \"vocab_size\": 96, \"hidden_act\": "
      "\"silu\", \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, "
      "\"rope_theta\": 10000.0, \"tie_word_embeddings\": {5}",
      hidden, 2 * hidden, heads, groups, layers, tied);
  switch (pick(3)) {
  case 0:
    return "{\"model_type\": \"llama\", " + common + "}";
  case 1:
    return "{\"model_type\": \"mistral\", \"sliding_window\": 6, " + common +
           "}";
  }
  if (pick(2))
    made.options.auxLoss = "layer";
  if (pick(2))
    made.options.capacityFactor = 1.5;
  return "{\"model_type\": \"mixtral\", \"num_local_experts\": 4, "
         "\"num_experts_per_tok\": 2, \"router_aux_loss_coef\": 0.02, " +
         common + "}";
}

/// Memory from plenty to what hardly any plan fits into; links from those of
/// one machine to slow ones.
std::string CaseWriter::cluster() {
  static const char *memories[] = {"1 GB",   "1 GB",   "2 MB",  "1 MB",
                                   "600 kB", "400 kB", "250 kB"};
  static const char *rates[] = {"100 GB/s", "10 GB/s", "1 GB/s", "100 MB/s"};
  static const char *latencies[] = {"1 us", "10 us", "1 ns"};
  static const char *peaks[] = {"10 GFLOP/s", "1 TFLOP/s"};
  static const int64_t sizes[] = {2, 3, 4, 4, 6, 8, 8, 8};
  ranks = sizes[pick(8)];
  std::string tiers;
  int64_t inner = ranks % 2 == 0 && pick(2) ? 2 : ranks;
  for (int64_t size : {inner, ranks / inner})
    if (size > 1)
      tiers += llvm::formatv(
          "  - {{name: t{0}{1}, size: {0}, bandwidth: {2}, latency: {3}}\n",
          size, tiers.empty() ? "a" : "b", choose(rates), choose(latencies));
  return llvm::formatv("name: drawn\ndevice:\n  name: cpu\n  memory: {0}\n"
                       "  memory_bandwidth: 20 GB/s\n  peak: {{f32: {1}}\n"
                       "  launch: {2}\n  backend: {{target: cpu}\ntiers:\n{3}",
                       choose(memories), choose(peaks), choose(latencies),
                       tiers);
}

/// What to draw for a key of the pins: few values, so that many cases have
/// plans.
static std::vector<const char *> valuesOf(llvm::StringRef key) {
  static const std::map<std::string, std::vector<const char *>> known = {
      {"tp", {"=1", "=2", "=2", "=4", "!=1"}},
      {"cp", {"=1", "=2", "=2", "=4"}},
      {"ep", {"=1", "=2", "=2", "=4"}},
      {"pp", {"=1", "=2", "=2", "=4"}},
      {"dp", {"=1", "=2", "=2"}},
      {"mb", {"=1", "=2"}},
      {"m", {"=2", "=4"}},
      {"v", {"=2"}},
      {"defer", {"=0", "=1"}},
      {"zero", {"=1", "=2", "=3"}},
      {"shard", {"=2"}},
      {"devices", {"=2", "=4", "=8"}},
      {"schedule", {"=gpipe", "=1f1b", "=zb-h1", "=interleaved"}},
      {"recompute", {"=full", "=selective"}},
      {"order", {"=tp.cp.dp.pp", "=cp.tp.dp.pp", "=dp.tp.cp.pp"}},
      {"layers", {"=1.1", "=2.2", "=1.3"}},
      {"moe", {"=gather", "=all_to_all"}},
      {"cp_order", {"=zigzag", "=plain"}}};
  auto found = known.find(key.str());
  if (found != known.end())
    return found->second;
  llvm::errs() << "no values are drawn for the pin '" << key << "'\n";
  std::exit(1);
}

/// None, or some axes and at most one other decision, so that rare ones are
/// met, and together.
std::string CaseWriter::pins() {
  std::string text;
  auto add = [&](llvm::StringRef key) {
    auto values = valuesOf(key);
    text += (text.empty() ? "" : ",") + key.str() + values[pick(values.size())];
  };
  if (pick(4) == 0)
    return text;
  std::vector<llvm::StringRef> axes = axisNames(), others;
  for (llvm::StringRef axis : axes)
    if (pick(3) == 0)
      add(axis);
  for (llvm::StringRef key : pinKeys())
    if (!llvm::is_contained(axes, key))
      others.push_back(key);
  if (text.empty() || pick(2))
    add(others[pick(others.size())]);
  return text;
}

Case CaseWriter::write() {
  made.options.batch = 8 + 4 * pick(3);
  made.options.seq = 16;
  made.config = config();
  made.cluster = cluster();
  made.pins = pins();
  return made;
}

//===----------------------------------------------------------------------===//
// One case
//===----------------------------------------------------------------------===//

namespace {
struct Found : Outcome {
  std::string plan = {};
  std::unique_ptr<Solution> solution = {};
};
} // namespace

/// What is asked of the search, without pins; nothing where the cluster is
/// wrong.
static std::optional<SolveRequest> requestOf(const Case &drawn) {
  std::vector<MachineDiagnostic> found;
  std::optional<Machine> machine = readMachine(drawn.cluster, found);
  if (!machine)
    return std::nullopt;
  SolveRequest request;
  request.machine = *machine;
  // Else workspaces alone are larger than the memories that are drawn.
  request.workers = 1;
  return request;
}

/// Searches and writes the plan.
static Found plan(ModelOp model, const Case &drawn) {
  std::optional<SolveRequest> drawnRequest = requestOf(drawn);
  if (!drawnRequest)
    return {{Outcome::Wrong, "no cluster"}};
  SolveRequest &request = *drawnRequest;
  request.pins = parsePins(drawn.pins, request.pinErrors);
  auto solution = solvePlan(model, request);
  // A pin may ask for what no size divides by.
  if (failed(solution))
    return {{drawn.pins.empty() ? Outcome::Wrong : Outcome::Refused, "pins"}};
  if (!(*solution)->result.best)
    return {{Outcome::Refused, "no plan fits"}};
  if (failed(applySolution(model, **solution)))
    return {{Outcome::Wrong, "not applied"}};
  return {{Outcome::Same, ""}, "", std::move(*solution)};
}

/// The seconds of a step, then the bytes of each stage.
static std::vector<double> costOf(const PlanPoint &plan) {
  std::vector<double> cost = {plan.stepSec};
  for (const PlacedStage &stage : plan.stages)
    cost.push_back(stage.memory.total());
  return cost;
}

/// Alike to a thousandth: where memory is scarce a search may leave room that a
/// given plan has for faster layouts of the head.
static bool isSame(llvm::ArrayRef<double> a, llvm::ArrayRef<double> b) {
  return llvm::equal(a, b, [](double x, double y) {
    return std::abs(x - y) <= 1e-3 * std::abs(x);
  });
}

/// Gives a plan back to the step that it was found for; what is wrong then.
static std::string giveBack(ModuleOp step, const std::string &text,
                            const Case &drawn, const PlanPoint &found) {
  OwningOpRef<ModuleOp> copy(step.clone());
  ModelOp model = modelIn(*copy);
  if (failed(loadPlan(model, text, "plan")) ||
      failed(runStages(*copy, Stage::Plan, Stage::Plan)))
    return "the plan is not read";
  auto solution = solvePlan(model, *requestOf(drawn));
  if (failed(solution) || !(*solution)->result.best)
    return "the plan is refused when it is given";
  std::vector<double> own = costOf(*(*solution)->result.best);
  if (isSame(costOf(found), own))
    return "";
  return llvm::formatv(
      "the plan takes {0:e8} s and {1} bytes, given back {2:e8} s "
      "and {3}",
      found.stepSec, costOf(found)[1], own[0], own[1]);
}

static Found check(const Case &drawn, bool runs, MLIRContext &context) {
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      messages += diagnostic.str() + "; ";
  });
  auto step =
      importConfig(drawn.config, "config.json", drawn.options, &context);
  if (!step || failed(runStages(*step, Stage::Ingest, Stage::Precision)))
    return {{Outcome::Wrong, "no step: " + messages}};
  OwningOpRef<ModuleOp> programs(step->clone());
  Found outcome = plan(modelIn(*programs), drawn);
  outcome.message += " " + messages;
  if (outcome.verdict != Outcome::Same)
    return outcome;
  if (failed(runStages(*programs, Stage::Plan, Stage::Plan)))
    return {{Outcome::Wrong, "no layouts: " + messages}};
  if (failed(verifySolution(modelIn(*programs), *outcome.solution)))
    return {{Outcome::Wrong, "not what was priced: " + messages}};
  std::string text = savePlan(modelIn(*programs));
  std::string differs =
      giveBack(*step, text, drawn, *outcome.solution->result.best);
  if (!differs.empty() || !runs)
    return {{differs.empty() ? Outcome::Same : Outcome::Wrong,
             differs + " " + messages},
            text};
  if (failed(runStages(*programs, Stage::Recompute, Stage::Schedule)))
    return {{Outcome::Wrong, "no programs: " + messages}, text};
  outcome = {judge(*programs, modelIn(*step)), text};
  outcome.message += " " + messages;
  return outcome;
}

//===----------------------------------------------------------------------===//
// Many cases
//===----------------------------------------------------------------------===//

/// The decisions of a plan without its rules.
static std::string headOf(const std::string &plan) {
  std::string head;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(plan).split(lines, '\n');
  for (llvm::StringRef line : lines)
    for (llvm::StringRef key :
         {"\"mesh\"", "\"micro_batches\"", "\"schedule\"", "\"zero\"",
          "\"chunks\"", "\"defer\"", "\"shard_group\""})
      if (line.starts_with(key))
        head += line.str();
  return head;
}

int main(int argc, char **argv) {
  registerPasses();
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  bool runs = argc < 2 || llvm::StringRef(argv[1]) != "--given";
  argc -= !runs;
  argv += !runs;
  int64_t count = argc > 1 ? std::atoll(argv[1]) : 20;
  int64_t first = argc > 2 ? std::atoll(argv[2]) : 1;
  std::string folder = argc > 3 ? argv[3] : "";
  Counter counter(count);
  std::map<std::string, int64_t> plans;
  for (int64_t seed = first; counter.needsMore(); ++seed) {
    Case drawn = CaseWriter(seed).write();
    Found outcome = check(drawn, runs, context);
    counter.add(outcome);
    if (!outcome.plan.empty())
      ++plans[headOf(outcome.plan)];
    if (outcome.verdict == Outcome::Wrong) {
      llvm::outs() << "seed " << seed << " pins '" << drawn.pins << "' "
                   << headOf(outcome.plan) << "\n  " << outcome.message << "\n";
      llvm::outs().flush();
    }
    if (!folder.empty() && outcome.verdict == Outcome::Wrong) {
      std::string path = folder + "/" + std::to_string(seed);
      writeText(path + ".config.json", drawn.config);
      writeText(path + ".yaml", drawn.cluster);
      writeText(path + ".json", outcome.plan);
    }
  }
  if (!folder.empty())
    for (auto &[head, times] : plans)
      llvm::outs() << times << " x " << head << "\n";
  return counter.report("have no plan");
}
