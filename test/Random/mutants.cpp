//===- mutants.cpp - does the comparison see mistakes? --------------------===//
//
//   kerf-mutants COUNT SEED [FOLDER]   survivors go to the folder, as files
//                                      that `kerf-inspect verify` reads
//   kerf-mutants --of COUNT SEED FILE...
//                                      breaks what `kerfc --emit=verify` or
//                                      `--emit=twin` wrote, COUNT times each
//   kerf-mutants --static COUNT SEED [FOLDER]   the contract of partition
//                                      alone judges; nothing is run
//
// The negative control of kerf-layouts and `kerf-inspect verify`: programs that
// agree with their step get one mistake each, of nine kinds, and must no longer
// agree. A third of the programs are of small models of three families in
// layouts that have tensor, sequence, data and pipeline parallelism and pieces
// of state; a third are random models in random layouts, a third random
// mixtures whose experts are cut. A mistake that changes
// nothing whatever the data is told by an argument (`whyEquivalent`), never by
// its result, and the argument is tested: such a mutant must agree.
// A mutant is seen when a value differs ([FAILED]) or when its run stops: ranks
// that should hold the same differ, stages wait for each other, a slot holds
// another micro-batch.
//
// The contract of partition (`kerf-verify-partitioned`) is asked too: how many
// it refuses without a run. It must refuse no program that is right.
//
// Exit status: 0 when at least 98 % of the others were seen, and the contract
// holds for all programs before their mistake; with --static, when it refuses
// at least 70 % of the others.
//
//===----------------------------------------------------------------------===//

#include "ExpertWriter.h"
#include "Judge.h"
#include "Mutate.h"
#include "PlanWriter.h"

#include "kerf/Ingest/Import.h"
#include "kerf/Partition/Passes.h"
#include "kerf/PlanIR/PlanFile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

//===----------------------------------------------------------------------===//
// Small models in layouts
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kConfigs[] = {
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
        "vocab_size": 16, "n_positions": 8, "n_embd": 8, "n_layer": 4,
        "n_head": 2, "activation_function": "gelu_new", "attn_pdrop": 0.1,
        "embd_pdrop": 0.1, "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-5,
        "initializer_range": 0.2, "tie_word_embeddings": true})",
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "vocab_size": 16, "hidden_size": 8, "intermediate_size": 12,
        "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "max_position_embeddings": 8, "rope_theta": 10000.0,
        "initializer_range": 0.2, "attention_bias": false, "mlp_bias": false,
        "attention_dropout": 0.1, "tie_word_embeddings": false})",
    R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"],
        "vocab_size": 16, "hidden_size": 8, "intermediate_size": 8,
        "num_hidden_layers": 4, "num_attention_heads": 2,
        "num_key_value_heads": 2, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "max_position_embeddings": 8, "rope_theta": 10000.0,
        "initializer_range": 0.2, "attention_dropout": 0.1,
        "num_local_experts": 4, "num_experts_per_tok": 2,
        "router_aux_loss_coef": 0.02, "output_router_logits": false,
        "sliding_window": null, "tie_word_embeddings": false})"};

/// How many ranks do what, and the rest of a plan. `tensor`: linear layers are
/// cut; `sequence`: between them the sequence is.
struct Layout {
  llvm::StringLiteral head;
  bool data, tensor, sequence;
};

static constexpr Layout kLayouts[] = {
    {R"("mesh": {"dp": 2, "tp": 2}, "micro_batches": 2)", true, true, true},
    {R"("mesh": {"dp": 2, "tp": 2}, "micro_batches": 2, "zero": 1)", true, true,
     false},
    {R"("mesh": {"dp": 2, "tp": 2}, "micro_batches": 4, "zero": 2)", true, true,
     true},
    {R"("mesh": {"dp": 2, "tp": 2}, "micro_batches": 2, "zero": 3,
        "schedule": "gpipe")",
     true, true, false},
    {R"("mesh": {"pp": 2, "dp": 2}, "micro_batches": 4, "zero": 1,
        "schedule": "zb-h1")",
     true, false, false},
    {R"("mesh": {"pp": 2, "dp": 2}, "micro_batches": 4, "zero": 1,
        "schedule": "zb-h1", "defer": 0)",
     true, false, false},
    {R"("mesh": {"pp": 2, "dp": 2}, "micro_batches": 4, "zero": 2,
        "schedule": "interleaved", "chunks": 2)",
     true, false, false},
    {R"("mesh": {"pp": 2, "dp": 2}, "micro_batches": 2, "zero": 3,
        "schedule": "1f1b")",
     true, false, false},
    {R"("mesh": {"pp": 2, "tp": 2}, "micro_batches": 4, "schedule": "1f1b")",
     false, true, true},
    {R"("mesh": {"pp": 2, "dp": 2, "tp": 2}, "micro_batches": 2,
        "schedule": "1f1b", "zero": 1, "recompute": "full")",
     true, true, true},
};

static std::string planOf(size_t family, const Layout &layout) {
  std::string batch = layout.data ? "\"dp\", \"micro\"" : "\"micro\"";
  std::string plan = ("{" + layout.head + ", \"assign\": [").str();
  plan += R"({"op": "embedding", "weight": ")";
  plan += family == 0 ? "*.wte.weight" : "*embed_tokens*";
  plan += "\", \"factors\": {\"b\": [" + batch + "]";
  plan += layout.sequence ? ", \"s\": [\"tp\"]}}" : "}}";
  auto cut = [&](llvm::StringRef weights, llvm::StringRef factor) {
    plan += (", {\"op\": \"linear\", \"weight\": \"" + weights +
             "\", \"factors\": {\"b\": [" + batch + "], \"" + factor +
             "\": [\"tp\"]}}")
                .str();
  };
  if (layout.tensor && family == 0) {
    cut("*.c_attn.weight", "n");
    plan += ", {\"op\": \"attention\", \"factors\": {\"b\": [" + batch +
            "], \"g\": [\"tp\"]}}";
    cut("*.attn.c_proj.weight", "k");
    cut("*.c_fc.weight", "n");
    cut("*.mlp.c_proj.weight", "k");
  }
  if (layout.tensor && family > 0) {
    for (llvm::StringRef weights :
         {"*.q_proj.weight", "*.k_proj.weight", "*.v_proj.weight"})
      cut(weights, "n");
    cut("*.o_proj.weight", "k");
  }
  if (layout.tensor && family == 1) {
    cut("*.gate_proj.weight", "n");
    cut("*.up_proj.weight", "n");
    cut("*.down_proj.weight", "k");
  }
  return plan + "]}";
}

//===----------------------------------------------------------------------===//
// Programs that agree with their step
//===----------------------------------------------------------------------===//

/// False where the contract alone judges.
static bool runsPrograms = true;
/// The last thing that was said of a program.
static std::string message;

namespace {
struct Base {
  std::string name;
  OwningOpRef<ModuleOp> step, programs;
  TrainingRun expected;
};

/// How it goes with the mutants of a kind.
struct Tally {
  int64_t made = 0, equivalent = 0, differ = 0, stop = 0, survive = 0;
  int64_t contract = 0; ///< of those not equivalent, refused without a run
};
} // namespace

/// True when the contract of partition holds for scheduled programs.
static bool keepsContract(ModuleOp programs) {
  PassManager pm(programs.getContext());
  pm.addPass(createVerifyPartitionedPass());
  return succeeded(pm.run(programs));
}

/// Fails, quietly, for a plan that is refused and, where programs are run, for
/// an ill-conditioned model.
static LogicalResult finish(Base &base, llvm::StringRef plan) {
  if (!base.step ||
      failed(runStages(*base.step, Stage::Ingest, Stage::Precision)))
    return failure();
  base.programs = base.step->clone();
  if (failed(loadPlan(modelIn(*base.programs), plan, "plan.json")) ||
      failed(runStages(*base.programs, Stage::Plan, Stage::Schedule,
                       optionsFor(plan))))
    return failure();
  if (!runsPrograms)
    return success();
  TrainingData data;
  base.expected = trainStep(modelIn(*base.step), data);
  return success(
      base.expected.ran &&
      compareTraining(trainModule(*base.programs, data), base.expected)
          .wrong.empty());
}

static LogicalResult makeSmall(Base &base, uint64_t number,
                               MLIRContext &context) {
  size_t layout = number % std::size(kLayouts);
  size_t family = (number / std::size(kLayouts)) % std::size(kConfigs);
  ImportOptions options;
  options.batch = 8;
  options.seq = 4;
  options.optimizer = number % 2 ? "sgd" : "adamw";
  base.name = "family " + std::to_string(family) + " in layout " +
              std::to_string(layout);
  base.step = importConfig(kConfigs[family], "config.json", options, &context);
  return finish(base, planOf(family, kLayouts[layout]));
}

static LogicalResult makeRandom(Base &base, uint64_t seed,
                                MLIRContext &context) {
  ModelWriter writer(seed);
  std::string text = writer.writeRich(/*forPlan=*/true);
  std::string plan = PlanWriter(writer, seed * 6007 + 5).write();
  base.name = "random " + std::to_string(seed);
  if (plan.find("\"mesh\": {}") != std::string::npos)
    return failure(); // one rank
  base.step = parseSourceString<ModuleOp>(text, &context);
  return finish(base, plan);
}

static LogicalResult makeExperts(Base &base, uint64_t seed,
                                 MLIRContext &context) {
  ExpertWriter writer(seed);
  base.name = "experts " + std::to_string(seed);
  base.step = importConfig(writer.getConfig(), "config.json",
                           writer.getOptions(), &context);
  return finish(base, writer.getPlan(writer.getRoom()));
}

/// A step and its programs, as kerfc writes them.
static LogicalResult readBase(Base &base, llvm::StringRef path,
                              MLIRContext &context) {
  base.name = path.str();
  base.programs = parseSourceFile<ModuleOp>(path, &context);
  if (!base.programs)
    return failure();
  base.step = ModuleOp::create(base.programs->getLoc());
  ModelOp model = modelIn(*base.programs);
  model->remove();
  base.step->push_back(model);
  TrainingData data;
  base.expected = trainStep(model, data);
  return success(
      base.expected.ran &&
      compareTraining(trainModule(*base.programs, data), base.expected)
          .wrong.empty());
}

//===----------------------------------------------------------------------===//
// Mutants
//===----------------------------------------------------------------------===//

/// What the comparison says: nothing for a survivor.
static std::string findDifference(ModuleOp mutant, const TrainingRun &expected,
                                  Tally &tally) {
  for (int64_t steps : {1, 2}) {
    TrainingRun run = trainModule(mutant, {steps});
    TrainingComparison comparison = compareTraining(run, expected);
    if (comparison.wrong.empty())
      continue;
    ++(run.ran ? tally.differ : tally.stop);
    return comparison.wrong.front().what;
  }
  return "";
}

static std::string describe(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto func = op->getParentOfType<spmd::FuncOp>())
    os << '@' << func.getSymName() << ": ";
  op->print(os, OpPrintingFlags().useLocalScope());
  return text.substr(0, 160);
}

/// A place of a mistake of this kind, or -1.
static int64_t chooseSite(llvm::ArrayRef<Site> sites, Mistake mistake,
                          std::mt19937_64 &random) {
  llvm::SmallVector<int64_t> those;
  for (auto [i, site] : llvm::enumerate(sites))
    if (site.mistake == mistake)
      those.push_back(i);
  return those.empty() ? -1 : those[random() % those.size()];
}

namespace {
class Control {
public:
  Control(uint64_t seed, std::string folder)
      : random(seed), folder(std::move(folder)) {}
  int64_t made() const { return count; }
  /// Makes one mutant of each kind that has a place.
  void breakBase(const Base &base, int64_t most);
  int report() const;

private:
  void breakOnce(const Base &base, Mistake mistake);
  void save(const Base &base, ModuleOp mutant) const;

  std::mt19937_64 random;
  std::string folder;
  int64_t count = 0, wrong = 0;
  std::map<Mistake, Tally> tallies;
};
} // namespace

void Control::save(const Base &base, ModuleOp mutant) const {
  OwningOpRef<ModuleOp> step(base.step.get().clone());
  ModelOp model = modelIn(*step);
  model.setSymName("step");
  model->moveBefore(&mutant.getBody()->front());
  std::error_code code;
  llvm::raw_fd_ostream(folder + "/" + std::to_string(count) + ".mlir", code)
      << mutant << '\n';
}

void Control::breakOnce(const Base &base, Mistake mistake) {
  OwningOpRef<ModuleOp> mutant(base.programs.get().clone());
  std::vector<Site> sites = findSites(*mutant);
  int64_t at = chooseSite(sites, mistake, random);
  if (at < 0)
    return;
  const Site &site = sites[at];
  std::string why = whyEquivalent(site);
  std::string where = (base.name + ", " + describeMistake(mistake) + " " +
                       llvm::Twine(site.variant) + " in " + describe(site.op))
                          .str();
  if (site.axes)
    llvm::raw_string_ostream(where) << " for " << site.axes;
  makeMistake(site);
  Tally &tally = tallies[mistake];
  ++tally.made;
  ++count;
  if (failed(verify(*mutant))) {
    ++wrong;
    llvm::outs() << "NO IR " << where << '\n';
    return;
  }
  bool isRefused = !keepsContract(*mutant);
  tally.contract += isRefused && why.empty();
  if (!runsPrograms) {
    tally.equivalent += !why.empty();
    bool isMissed = why.empty() && !isRefused;
    tally.survive += isMissed;
    if (isMissed || (!why.empty() && isRefused))
      llvm::outs() << (isMissed ? "PASSES " : "EQUIVALENT, REFUSED ") << where
                   << '\n';
    return;
  }
  Tally judged;
  std::string seen = findDifference(*mutant, base.expected, judged);
  if (!why.empty()) {
    ++tally.equivalent;
    wrong += !seen.empty();
    if (!seen.empty())
      llvm::outs() << "NOT EQUIVALENT " << where << ": " << why << ", but "
                   << seen << " differs\n";
    return;
  }
  tally.differ += judged.differ;
  tally.stop += judged.stop;
  tally.survive += seen.empty();
  if (!seen.empty())
    return;
  llvm::outs() << "SURVIVES as " << count << " " << where << '\n';
  if (!folder.empty())
    save(base, *mutant);
}

void Control::breakBase(const Base &base, int64_t most) {
  if (!keepsContract(*base.programs)) {
    ++wrong;
    llvm::outs() << "RIGHT, REFUSED " << base.name << ": " << message << '\n';
  }
  for (Mistake mistake : kMistakes)
    if (count < most)
      breakOnce(base, mistake);
}

int Control::report() const {
  Tally all;
  auto print = [](llvm::StringRef name, const Tally &tally) {
    llvm::outs() << llvm::format(
        "%-26s %5d %11d %8d %7d %9d %8d\n", name.str().c_str(), int(tally.made),
        int(tally.equivalent), int(tally.differ), int(tally.stop),
        int(tally.survive), int(tally.contract));
  };
  llvm::outs() << "mistake                     made  equivalent [FAILED]  "
                  "  stops survivors contract\n";
  for (const auto &[mistake, tally] : tallies) {
    print(describeMistake(mistake), tally);
    all.made += tally.made;
    all.equivalent += tally.equivalent;
    all.differ += tally.differ;
    all.stop += tally.stop;
    all.survive += tally.survive;
    all.contract += tally.contract;
  }
  print("all", all);
  int64_t others = all.made - all.equivalent;
  int64_t seen = all.differ + all.stop;
  if (runsPrograms)
    llvm::outs() << llvm::format("%.1f %% of %d seen\n",
                                 100.0 * seen / std::max<int64_t>(others, 1),
                                 int(others));
  llvm::outs() << llvm::format(
      "%.1f %% of %d refused by the contract of partition\n",
      100.0 * all.contract / std::max<int64_t>(others, 1), int(others));
  if (!runsPrograms)
    return wrong != 0 || others == 0 || all.contract < 0.7 * others;
  return wrong != 0 || others == 0 || seen < 0.98 * others;
}

/// Breaks each file `each` times. Fails for a file that is no base.
static int breakFiles(int64_t each, uint64_t seed, llvm::ArrayRef<char *> paths,
                      MLIRContext &context, const std::string &message) {
  Control control(seed, "");
  for (const char *path : paths) {
    Base base;
    if (failed(readBase(base, path, context))) {
      llvm::errs() << path << " is no base: " << message << '\n';
      return 1;
    }
    int64_t until = control.made() + each;
    for (int64_t before = -1;
         control.made() != before && control.made() < until;) {
      before = control.made();
      control.breakBase(base, until);
    }
  }
  return control.report();
}

int main(int argc, char **argv) {
  registerPasses();
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  // What a mutant's run says is no news.
  ScopedDiagnosticHandler quiet(&context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  if (argc > 4 && llvm::StringRef(argv[1]) == "--of")
    return breakFiles(std::atoll(argv[2]), std::atoll(argv[3]),
                      llvm::ArrayRef(argv + 4, argv + argc), context, message);
  if (argc > 1 && llvm::StringRef(argv[1]) == "--static") {
    runsPrograms = false;
    --argc;
    ++argv;
  }
  int64_t most = argc > 1 ? std::atoll(argv[1]) : 60;
  uint64_t seed = argc > 2 ? std::atoll(argv[2]) : 1;
  Control control(seed, argc > 3 ? argv[3] : "");
  constexpr uint64_t stride = 1000003; // seeds of runs do not overlap
  for (uint64_t number = 0; control.made() < most; ++number) {
    Base base;
    uint64_t drawn = seed * stride + number;
    bool isSmall = number % 3 == 0;
    bool made =
        succeeded(isSmall ? makeSmall(base, seed + number / 3, context)
                  : number % 3 == 1 ? makeRandom(base, drawn, context)
                                    : makeExperts(base, drawn, context));
    if (made)
      control.breakBase(base, most);
    else if (isSmall)
      llvm::outs() << base.name << " is no base: " << message << '\n';
  }
  return control.report();
}
