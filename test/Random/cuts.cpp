//===- cuts.cpp - are ops that are cut in a way ever run? -----------------===//
//
//   kerf-cuts of STEP.mlir...             prints the cuts of planned steps
//   kerf-cuts run LIST MODEL.mlir...      runs each cut of a list of such lines
//   kerf-cuts draw COUNT SEED MODEL.mlir...    runs drawn cuts
//   kerf-cuts break COUNT SEED MODEL.mlir...   so, with a mistake in each
//   program
//
// What plans of large models do to single ops (Cuts.h) is run on ops of tiny
// models (RunCut.h): their steps, flat, in f32, bf16 and fp8. A cut runs on the
// first op that it fits. Exit status 1 when a result differs, or when a cut of
// the list fits no op: the list claims that it was tested. Of mistakes 98 %
// must be seen.
//
//===----------------------------------------------------------------------===//

#include "Judge.h"
#include "Mutate.h"
#include "RunCut.h"

#include "kerf/Differentiate/Passes.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <random>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> read(llvm::StringRef path, MLIRContext &context) {
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  return readModule(path, sources, context);
}

namespace {
/// The step of a model without repeats, and its values.
struct Step {
  OwningOpRef<ModuleOp> module;
  WholeRun whole;
};
} // namespace

static FailureOr<Step> readStep(llvm::StringRef path,
                                const std::string &precision,
                                MLIRContext &context) {
  Step step;
  step.module = read(path, context);
  if (!step.module)
    return failure();
  StageOptions options;
  options.precision = precision;
  auto makeStep = [&] {
    return runStages(*step.module, Stage::Differentiate, Stage::Precision,
                     options);
  };
  // Only layers have matmuls in fp8, so these are unrolled last; updates,
  // which are no cuts, would be in the way.
  bool unrollsLast = precision == "fp8";
  if (unrollsLast && failed(makeStep()))
    return failure();
  for (UpdateOp update : llvm::make_early_inc_range(
           modelIn(*step.module).getBody().getOps<UpdateOp>()))
    update.erase();
  auto pm = PassManager::on<ModuleOp>(&context);
  pm.addPass(createUnrollRepeatPass());
  if (failed(pm.run(*step.module)) || (!unrollsLast && failed(makeStep())))
    return failure();
  auto whole = WholeRun::of(modelIn(*step.module));
  if (failed(whole))
    return failure();
  step.whole = std::move(*whole);
  return step;
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

namespace {
/// The cuts of a list that have not run yet.
class List {
public:
  /// False after a message.
  bool read(llvm::StringRef path);
  bool isDone() const { return open.empty(); }
  void runOn(const Step &step);
  int report() const;

private:
  std::map<std::string, Cut> open;
  std::map<std::string, std::string> refusals;
  int64_t same = 0, wrong = 0;
};
} // namespace

bool List::read(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    llvm::errs() << "cannot read '" << path << "'\n";
    return false;
  }
  llvm::SmallVector<llvm::StringRef> lines;
  (*buffer)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    if (line.starts_with("#"))
      continue;
    std::optional<Cut> cut = Cut::parse(line);
    if (!cut || cut->print() != line.trim()) {
      llvm::errs() << path << ": no cut: '" << line << "'\n";
      return false;
    }
    open[cut->print()] = *cut;
  }
  return true;
}

void List::runOn(const Step &step) {
  for (Operation &op : step.whole.getModel().getBody().front()) {
    llvm::StringRef name = op.getName().stripDialect();
    for (auto at = open.begin(); at != open.end();) {
      auto now = at++;
      std::string why;
      if (now->second.op != name)
        continue;
      CutVerdict verdict = runCut(&op, now->second, step.whole, why);
      refusals[now->first] = why;
      if (verdict == CutVerdict::Refused)
        continue;
      same += verdict == CutVerdict::Same;
      wrong += verdict == CutVerdict::Wrong;
      if (verdict == CutVerdict::Wrong)
        llvm::outs() << "wrong: " << now->first << ": " << why << "\n";
      open.erase(now);
    }
  }
}

int List::report() const {
  for (const auto &[text, cut] : open) {
    auto why = refusals.find(text);
    llvm::outs() << "not run: " << text << ": "
                 << (why == refusals.end() ? "no model has such an op"
                                           : why->second)
                 << "\n";
  }
  llvm::outs() << same << " cuts are right, " << wrong << " wrong, "
               << open.size() << " were not run\n";
  return wrong != 0 || !open.empty() || same == 0;
}

static int runList(llvm::StringRef list, llvm::ArrayRef<char *> models,
                   MLIRContext &context) {
  List cuts;
  if (!cuts.read(list))
    return 1;
  for (const char *precision : {"f32", "bf16", "fp8"})
    for (const char *path : models) {
      if (cuts.isDone())
        break;
      auto step = readStep(path, precision, context);
      if (failed(step))
        return 1;
      cuts.runOn(*step);
    }
  return cuts.report();
}

//===----------------------------------------------------------------------===//
// Drawn cuts
//===----------------------------------------------------------------------===//

/// Up to three axes, each on a factor, or a sum that passes through.
static Cut draw(FactorOpInterface op, std::mt19937_64 &random) {
  auto pick = [&](size_t count) { return size_t(random() % count); };
  Factors facts = op.getFactors();
  Cut cut;
  cut.op = op->getName().stripDialect().str();
  if (facts.factors.empty())
    return cut;
  for (size_t axes = 1 + pick(3); axes > 0; --axes) {
    if (!facts.linearOperands.empty() && pick(6) == 0)
      ++cut.pending;
    else
      ++cut.factors[facts.factors[pick(facts.factors.size())].name];
  }
  for (const FactorVariant &variant : facts.variants) {
    bool isUsed = llvm::any_of(variant.factors, [&](unsigned f) {
      return cut.factors.count(facts.factors[f].name);
    });
    if (!isUsed || pick(2) == 0 || variant.leavesSum)
      continue;
    cut.variants.push_back(variant.name);
    if (variant.together || variant.exchanges)
      for (unsigned f : variant.factors)
        cut.factors[facts.factors[f].name] =
            std::max<int64_t>(1, cut.factors[facts.factors[f].name]);
  }
  cut.routed = cut.variants.empty() && !facts.maps.empty() && pick(2);
  return cut;
}

/// Makes one mistake that matters, of those that a program has places for.
static bool spoilOne(ModuleOp programs, std::mt19937_64 &random) {
  std::vector<Site> sites = findSites(programs);
  llvm::erase_if(sites,
                 [](const Site &site) { return !whyEquivalent(site).empty(); });
  if (sites.empty())
    return false;
  makeMistake(sites[random() % sites.size()]);
  return succeeded(verify(programs));
}

/// Runs drawn cuts: right ones, or, with mistakes, ones that must be wrong.
static int drawCuts(int64_t count, uint64_t seed, bool breaks,
                    llvm::ArrayRef<char *> models, MLIRContext &context) {
  std::mt19937_64 random(seed);
  std::vector<Step> steps;
  for (const char *path : models) {
    auto step = readStep(path, "f32", context);
    if (failed(step))
      return 1;
    steps.push_back(std::move(*step));
  }
  int64_t same = 0, wrong = 0;
  for (int64_t tries = 50 * count; same + wrong < count && tries > 0; --tries) {
    const Step &step = steps[random() % steps.size()];
    llvm::SmallVector<FactorOpInterface> ops;
    for (auto op : step.whole.getModel().getBody().getOps<FactorOpInterface>())
      if (!isSource(op) && !isa<UpdateOp>(op.getOperation()) &&
          !sumsSquares(op.getFactors()))
        ops.push_back(op);
    FactorOpInterface op = ops[random() % ops.size()];
    Cut cut = draw(op, random);
    std::string why;
    auto spoil = [&](ModuleOp programs) { return spoilOne(programs, random); };
    CutVerdict verdict = breaks ? runCut(op, cut, step.whole, why, spoil)
                                : runCut(op, cut, step.whole, why);
    same += verdict == CutVerdict::Same;
    wrong += verdict == CutVerdict::Wrong;
    if (verdict == (breaks ? CutVerdict::Same : CutVerdict::Wrong))
      llvm::outs() << (breaks ? "not seen: " : "wrong: ") << cut.print() << ": "
                   << why << "\n";
  }
  llvm::outs() << same << " cuts are right, " << wrong << " wrong\n";
  constexpr double seen = 0.98;
  return same + wrong < count ||
         (breaks ? double(wrong) < seen * double(count) : wrong != 0);
}

static int printCuts(llvm::ArrayRef<char *> paths, MLIRContext &context) {
  std::set<std::string> cuts;
  for (const char *path : paths) {
    OwningOpRef<ModuleOp> step = read(path, context);
    if (!step)
      return 1;
    cuts.merge(cutsIn(*step));
  }
  for (const std::string &cut : cuts)
    llvm::outs() << cut << "\n";
  return 0;
}

int main(int argc, char **argv) {
  registerPasses();
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::ArrayRef<char *> args(argv + 1, argv + argc);
  if (args.size() >= 2 && llvm::StringRef(args[0]) == "of")
    return printCuts(args.drop_front(), context);
  if (args.size() >= 3 && llvm::StringRef(args[0]) == "run")
    return runList(args[1], args.drop_front(2), context);
  bool breaks = !args.empty() && llvm::StringRef(args[0]) == "break";
  if (args.size() >= 4 && (breaks || llvm::StringRef(args[0]) == "draw"))
    return drawCuts(std::atoll(args[1]), std::atoll(args[2]), breaks,
                    args.drop_front(3), context);
  llvm::errs()
      << "expected 'of STEP...', 'run LIST MODEL...', 'draw COUNT SEED "
         "MODEL...' or 'break COUNT SEED MODEL...'\n";
  return 1;
}
