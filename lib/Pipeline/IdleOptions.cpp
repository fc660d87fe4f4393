//===- IdleOptions.cpp - options of kerfc that would do nothing -----------===//
//
// An option that says nothing beside the other ones, whatever the input is, is
// a mistake and refused. One that says nothing of this model, these devices or
// these stages is warned of: the same command serves other ones.
//
//===----------------------------------------------------------------------===//

#include "CompilerOptions.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/WithColor.h"

using namespace kerf;
using llvm::StringLiteral;
using llvm::StringRef;
namespace cl = llvm::cl;

/// Whether the command line has an option. Names of no option are a mistake of
/// the tables below.
static bool isGiven(StringRef name) {
  const auto &known = cl::getRegisteredOptions();
  auto found = known.find(name);
  assert(found != known.end() && "a table names an option that is none");
  return found->second->getNumOccurrences() > 0;
}

static std::string dashed(StringRef name) {
  return (name.size() > 1 ? "--" : "-") + name.str();
}

//===----------------------------------------------------------------------===//
// Beside other options
//===----------------------------------------------------------------------===//

/// An option, and those of which one must be there for it to say something.
static constexpr struct {
  StringLiteral option, others;
} kNeeds[] = {
    {"tokens", "explain explain-json html versus sweep"},
    {"price", "explain explain-json html versus sweep"},
    {"search-sensitivity", "explain explain-json html"},
};

/// An option that says nothing beside another one.
static constexpr struct {
  StringLiteral option, beside, why;
} kClashes[] = {
    {"prove", "plan", "--plan gives the plan, so no other is looked for"},
    {"plan", "sweep", "--sweep looks for a plan for each number of devices"},
    {"search-sensitivity", "sweep", "--sweep tells of many plans, in brief"},
};

/// What --new-cluster takes.
static constexpr StringLiteral kNewCluster[] = {
    "new-cluster", "device",       "per-node", "nodes",
    "nic",         "cluster-name", "o",        "log"};

/// "--a, --b or --c".
static std::string listOf(StringRef names) {
  llvm::SmallVector<StringRef> all;
  names.split(all, ' ');
  std::string text;
  for (size_t i = 0; i < all.size(); ++i)
    text += (i == 0                ? ""
             : i + 1 == all.size() ? " or "
                                   : ", ") +
            dashed(all[i]);
  return text;
}

static bool hasAny(StringRef names) {
  llvm::SmallVector<StringRef> all;
  names.split(all, ' ');
  return llvm::any_of(all, isGiven);
}

/// What is asked for beside a new description; "" if nothing is.
static std::string besideNewCluster(const CompilerOptions &options) {
  std::vector<StringRef> found;
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (option->getNumOccurrences() && !llvm::is_contained(kNewCluster, name) &&
        (llvm::is_contained(option->Categories, &options.category) ||
         llvm::is_contained(option->Categories, &options.planCategory)))
      found.push_back(name);
  if (found.empty())
    return options.input.getNumOccurrences()
               ? "the model '" + options.input.getValue() + "'"
               : "";
  return dashed(*llvm::min_element(found));
}

std::string kerf::findIdleOption(const CompilerOptions &options) {
  if (options.newCluster.wanted) {
    std::string other = besideNewCluster(options);
    return other.empty() ? ""
                         : "--new-cluster writes a description and plans "
                           "nothing, found " +
                               other + "; plan with --cluster in a second call";
  }
  for (const auto &[option, others] : kNeeds)
    if (isGiven(option) && !hasAny(others))
      return dashed(option) + " needs " + listOf(others);
  for (const auto &[option, beside, why] : kClashes)
    if (isGiven(option) && isGiven(beside))
      return "'" + dashed(option) + "' has no effect: " + why.str() +
             "; leave one of them out";
  bool emitsIR = options.emit == "ir";
  if (isGiven("stop-after") && !emitsIR)
    return "'--stop-after' has no effect: --emit=" + options.emit +
           " stops by itself; leave one of them out";
  if (isGiven("check") && options.emit == "verify")
    return "'--check' has no effect: --emit=verify writes what kerf-inspect "
           "verify checks; leave it out";
  return "";
}

std::string kerf::findModelOption() {
  static constexpr StringLiteral ofModels =
      "o emit stop-after start-after dump-stages-to plan precision run-after "
      "recompute check fuse overlap target gpu cpu sampler survive";
  llvm::SmallVector<StringRef> all;
  ofModels.split(all, ' ');
  auto *found = llvm::find_if(all, isGiven);
  return found == all.end() ? "" : dashed(*found);
}

//===----------------------------------------------------------------------===//
// In stages
//===----------------------------------------------------------------------===//

/// Stages in which options act; some say something to the planner, too.
static constexpr struct {
  StringLiteral option;
  Stage stage;
  bool isPlanned;
} kStagesOf[] = {
    {"precision", Stage::Precision, false},
    {"plan", Stage::Plan, false},
    {"moe-buffer", Stage::Plan, true},
    {"check", Stage::Recompute, false},
    {"recompute", Stage::Recompute, false},
    {"overlap", Stage::Schedule, false},
    {"bucket-gradients", Stage::Schedule, true},
    {"fuse", Stage::Fuse, false},
    {"target", Stage::Fuse, false},
    {"gpu", Stage::Fuse, false},
    {"max-threads", Stage::Memory, true},
    {"cpu", Stage::Codegen, false},
};

static void warn(StringRef option, const llvm::Twine &why) {
  llvm::WithColor::warning()
      << "'" << dashed(option) << "' has no effect: " << why << '\n';
}

void kerf::warnOfStages(const StageRange &range) {
  // The programs of a twin go through the stages up to the schedule.
  Stage last = range.writesTwin ? Stage::Schedule : range.last;
  for (const auto &[option, stage, isPlanned] : kStagesOf) {
    if (!isGiven(option) || (isPlanned && range.plans))
      continue;
    StringRef name = getStageName(stage);
    if (range.done && stage <= *range.done)
      warn(option, "--start-after=" + getStageName(*range.done) +
                       " leaves the stage '" + name +
                       "' behind; start before it");
    else if (stage > last)
      warn(option, "the stages end with '" + getStageName(last) +
                       "', before '" + name + "'; with -o NAME.kerf all run");
  }
}

void kerf::warnOfMoeBuffer(bool hasExperts, int64_t expertRanks) {
  if (!hasExperts)
    warn("moe-buffer", "the model has no experts; leave it out");
  else if (expertRanks == 1)
    warn("moe-buffer", "no experts are split over ranks (ep is 1); split them, "
                       "or leave it out");
}
