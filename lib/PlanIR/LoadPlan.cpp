#include "PlanHead.h"
#include "kerf/Dialect/Kerf/Float8.h"
#include "kerf/Dialect/Kerf/SplitBias.h"
#include "kerf/PlanIR/Passes.h"
#include "kerf/PlanIR/PlanFile.h"
#include "kerf/Sharding/Layout.h"
#include "kerf/Support/Input.h"
#include "kerf/Support/Json.h"
#include "kerf/Support/Nearest.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

#include <set>

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_LOADPLANPASS
#include "kerf/PlanIR/Passes.h.inc"
} // namespace kerf

namespace {
/// One entry of "assign".
struct Rule {
  json::Position position;
  std::string op; ///< name, or phase; empty for parameters
  std::optional<llvm::GlobPattern> param, weight;
  llvm::StringRef paramText, weightText; ///< as written
  const json::Value *factors = nullptr, *pending = nullptr, *variant = nullptr;
  int64_t blocks = 1;
  bool routed = false;
  bool matched = false;
  bool wrong = false; ///< it was reported, at the first op that it matches
};

/// A size that does not divide as rules ask for: told once, for all of them.
struct Misfit {
  int64_t size;
  AxisList axes;
  json::Position position; ///< of the first rule
  Location op;             ///< that it matches
  std::string factors, message;
  int64_t others = 0; ///< rules that ask for the same
};

class PlanReader {
public:
  PlanReader(ModelOp model, llvm::StringRef path)
      : model(model), errors(model.getContext(), path) {}

  LogicalResult run(llvm::StringRef text);

private:
  bool readRule(const json::Value &value);
  void readWays(const json::Value &value, Rule &rule);
  bool readGlob(const json::Value &rule, llvm::StringRef key,
                std::optional<llvm::GlobPattern> &glob);
  std::optional<AxisList> readAxes(const json::Value &value);
  bool readFactors(const Rule &rule, Operation *op, const Factors &facts,
                   Assignment &assignment);
  bool readVariants(const json::Value &value, const Factors &facts,
                    Assignment &assignment);
  std::optional<Assignment> readAssignment(const Rule &rule, Operation *op,
                                           const Factors &facts);
  bool isOfAbsentCast(const Rule &rule);
  void checkMatched();
  void tellUnmatched(const Rule &rule);
  void tellPhase(const Rule &rule);
  void tellName(const Rule &rule);
  bool matches(const Rule &rule, Operation *op);
  Rule *findRule(Operation *op);
  void splitBiases();
  bool assign(Rule &rule, Operation *op);
  void tellUnassigned(const Rule &rule, Operation *op, const Factors &facts,
                      const Assignment &splits, const std::string &message);
  void tellMisfits();

  ModelOp model;
  PlanErrors errors;
  PlanAttr plan;
  std::vector<Rule> rules;
  std::vector<Misfit> misfits;
  llvm::DenseMap<Operation *, std::string> names; ///< by phase
};
} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

bool PlanReader::readGlob(const json::Value &rule, llvm::StringRef key,
                          std::optional<llvm::GlobPattern> &glob) {
  const json::Value *value = rule.find(key);
  if (!value)
    return true;
  if (!errors.expectKind(*value, json::Kind::String, key))
    return false;
  // Braces belong to parameter names; only * and ? are patterns.
  std::string text;
  for (char c : value->string) {
    if (llvm::StringRef("{}[]\\").contains(c))
      text += '\\';
    text += c;
  }
  // The pattern refers to its text, which lives with the context.
  auto kept = StringAttr::get(model.getContext(), text);
  auto pattern = llvm::GlobPattern::create(kept.getValue());
  if (!pattern) {
    errors.at(value->position)
        << "bad pattern: " << llvm::toString(pattern.takeError());
    return false;
  }
  glob = std::move(*pattern);
  return true;
}

void PlanReader::readWays(const json::Value &value, Rule &rule) {
  if (const json::Value *blocks = value.find("blocks")) {
    if (!blocks->isInteger || blocks->integer < 1)
      errors.at(blocks->position) << "expected a number of blocks, at least 1";
    else
      rule.blocks = blocks->integer;
  }
  if (const json::Value *routed = value.find("routed"))
    rule.routed = errors.expectKind(*routed, json::Kind::Bool, "routed") &&
                  routed->boolean;
}

bool PlanReader::readRule(const json::Value &value) {
  Rule rule;
  rule.position = value.position;
  if (!errors.expectKind(value, json::Kind::Object, "a rule"))
    return false;
  errors.expectKeys(value,
                    {"op", "weight", "param", "factors", "pending", "variant",
                     "blocks", "routed", "at"},
                    "a rule");
  if (const json::Value *at = value.find("at"))
    errors.expectKind(*at, json::Kind::String, "at");
  if (!readGlob(value, "param", rule.param) ||
      !readGlob(value, "weight", rule.weight))
    return false;
  for (auto [key, text] : {std::make_pair("param", &rule.paramText),
                           std::make_pair("weight", &rule.weightText)})
    if (const json::Value *glob = value.find(key))
      *text = glob->string;
  if (const json::Value *op = value.find("op")) {
    if (!errors.expectKind(*op, json::Kind::String, "op"))
      return false;
    rule.op = op->string;
  }
  if (rule.op.empty() == !rule.param || (rule.param && rule.weight)) {
    errors.at(value.position)
        << "expected either \"op\", with or without \"weight\", or "
           "\"param\" in a rule";
    return false;
  }
  rule.factors = value.find("factors");
  rule.pending = value.find("pending");
  rule.variant = value.find("variant");
  readWays(value, rule);
  if (!rule.factors) {
    errors.at(value.position) << "expected \"factors\" in a rule";
    return false;
  }
  if (!errors.expectKind(*rule.factors, json::Kind::Object, "factors"))
    return false;
  rules.push_back(std::move(rule));
  return true;
}

std::optional<AxisList> PlanReader::readAxes(const json::Value &value) {
  if (!errors.expectKind(value, json::Kind::Array, "axes"))
    return std::nullopt;
  PlanAxes axes(plan);
  AxisList list;
  bool fine = true;
  for (const json::Value &name : value.array) {
    if (!errors.expectKind(name, json::Kind::String, "an axis")) {
      fine = false;
      continue;
    }
    auto axis = axes.find(name.string);
    if (axis) {
      list.push_back(*axis);
      continue;
    }
    fine = false;
    errors.at(name.position) << "unknown axis " << json::quote(name.string)
                             << ", expected one of the mesh or \"micro\"";
  }
  return fine ? std::optional<AxisList>(list) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

/// Is the op `forward 12 0` meant by `forward 12` or its whole name?
static bool matchesPhase(llvm::StringRef text, llvm::StringRef name) {
  return name.consume_front(text) && (name.empty() || name.front() == ' ');
}

/// What rules name an op by: a linear op is one in 8-bit floats, too.
static llvm::StringRef nameOf(Operation *op) {
  PhaseAttr phase = getPhase(op);
  bool isLinear = isCall(op, LibraryCall::Matmul) && phase &&
                  phase.getKind() == PhaseKind::Forward &&
                  unquantized(op->getOperand(0)) != op->getOperand(0);
  return isLinear ? LinearOp::getOperationName() : op->getName().getStringRef();
}

bool PlanReader::matches(const Rule &rule, Operation *op) {
  if (rule.param) {
    auto param = dyn_cast<ParamOp>(op);
    return param && rule.param->match(param.getName());
  }
  if (llvm::StringRef(rule.op).contains(' ')) {
    if (!matchesPhase(rule.op, names.lookup(op)))
      return false;
  } else if (nameOf(op) != rule.op && op->getName().stripDialect() != rule.op &&
             nameOf(op) != "kerf." + rule.op) {
    return false;
  }
  return !rule.weight || llvm::any_of(op->getOperands(), [&](Value operand) {
    ParamOp param = findWeight(operand);
    return param && rule.weight->match(param.getName());
  });
}

Rule *PlanReader::findRule(Operation *op) {
  Rule *first = nullptr;
  for (Rule &rule : rules)
    if (matches(rule, op)) {
      rule.matched = true;
      first = first ? first : &rule;
    }
  return first;
}

//===----------------------------------------------------------------------===//
// Assigning
//===----------------------------------------------------------------------===//

bool PlanReader::readFactors(const Rule &rule, Operation *op,
                             const Factors &facts, Assignment &assignment) {
  bool fine = true;
  for (const json::Member &entry : rule.factors->object) {
    auto *factor = llvm::find_if(
        facts.factors, [&](const Factor &f) { return f.name == entry.key; });
    if (factor == facts.factors.end()) {
      std::string known;
      llvm::raw_string_ostream os(known);
      printFactors(os, facts);
      auto diagnostic = errors.at(entry.keyPosition)
                        << "no factor " << json::quote(entry.key)
                        << " in an op that the rule matches";
      diagnostic.attachNote(op->getLoc()) << "it has the factors " << known;
      fine = false;
      continue;
    }
    auto list = readAxes(entry.value);
    fine &= list.has_value();
    if (list)
      assignment.factors[factor - facts.factors.begin()] = *list;
  }
  return fine;
}

bool PlanReader::readVariants(const json::Value &value, const Factors &facts,
                              Assignment &assignment) {
  if (!errors.expectKind(value, json::Kind::Array, "variant"))
    return false;
  for (const json::Value &name : value.array) {
    auto *variant =
        llvm::find_if(facts.variants, [&](const FactorVariant &known) {
          return known.name == name.string;
        });
    if (variant == facts.variants.end()) {
      errors.at(name.position) << "no variant " << json::quote(name.string)
                               << " of an op that the rule matches";
      return false;
    }
    assignment.variants.push_back(variant - facts.variants.begin());
  }
  llvm::sort(assignment.variants);
  return true;
}

std::optional<Assignment> PlanReader::readAssignment(const Rule &rule,
                                                     Operation *op,
                                                     const Factors &facts) {
  Assignment assignment;
  assignment.factors.resize(facts.factors.size());
  assignment.blocks = rule.blocks;
  assignment.routed = rule.routed;
  bool fine = readFactors(rule, op, facts, assignment);
  if (rule.variant)
    fine &= readVariants(*rule.variant, facts, assignment);
  if (rule.pending) {
    auto pending = readAxes(*rule.pending);
    fine &= pending.has_value();
    if (pending)
      assignment.pending = *pending;
  }
  return fine ? std::optional<Assignment>(assignment) : std::nullopt;
}

/// Matmuls whose sum a rule splits add their bias afterwards.
void PlanReader::splitBiases() {
  llvm::SmallVector<FactorOpInterface> ops;
  model.getBody().walk([&](FactorOpInterface op) { ops.push_back(op); });
  for (FactorOpInterface op : ops) {
    Rule *rule = findRule(op);
    if (!rule)
      continue;
    Factors facts = op.getFactors();
    bool splitsSum = llvm::any_of(facts.variants, [&](const FactorVariant &v) {
      return v.leavesSum && llvm::any_of(v.factors, [&](unsigned f) {
               return rule->factors->find(facts.factors[f].name) != nullptr;
             });
    });
    if (splitsSum)
      splitBias(op);
  }
  names = namesOfOps(model);
}

static const char *const kUnassigned = "a rule cannot be carried out: ";

/// Sizes that do not divide wait for `tellMisfits`.
void PlanReader::tellUnassigned(const Rule &rule, Operation *op,
                                const Factors &facts, const Assignment &splits,
                                const std::string &message) {
  PlanAxes axes(plan);
  std::string known;
  llvm::raw_string_ostream os(known);
  printFactors(os, facts);
  for (const auto &[factor, list] : llvm::zip(facts.factors, splits.factors)) {
    if (factor.size % axes.sizeOf(list) == 0 ||
        !llvm::StringRef(message).starts_with("factor '" + factor.name +
                                              "' of size"))
      continue;
    auto same = llvm::find_if(
        misfits, [&, &factor = factor, &list = list](const Misfit &other) {
          return other.size == factor.size && other.axes == list;
        });
    if (same != misfits.end())
      ++same->others;
    else
      misfits.push_back({factor.size, list, rule.factors->position,
                         op->getLoc(), known, message});
    return;
  }
  auto diagnostic = errors.at(rule.factors->position) << kUnassigned << message;
  diagnostic.attachNote(op->getLoc()) << "in this op, with factors " << known;
}

/// "1, 2 or 4": numbers of micro-batches that a size divides into beside the
/// other axes that split it; "" where there are none.
static std::string fittingMicroBatches(const Misfit &misfit,
                                       const PlanAxes &axes) {
  AxisList others = misfit.axes;
  llvm::erase(others, axes.micro());
  int64_t ranks = axes.sizeOf(others);
  if (others.size() == misfit.axes.size() || misfit.size % ranks != 0)
    return "";
  std::vector<std::string> fitting;
  for (int64_t count = 1; count <= misfit.size / ranks; ++count)
    if (misfit.size / ranks % count == 0)
      fitting.push_back(std::to_string(count));
  std::string last = fitting.back();
  fitting.pop_back();
  return fitting.empty() ? last : llvm::join(fitting, ", ") + " or " + last;
}

void PlanReader::tellMisfits() {
  PlanAxes axes(plan);
  for (const Misfit &misfit : misfits) {
    auto diagnostic = errors.at(misfit.position)
                      << kUnassigned << misfit.message;
    diagnostic.attachNote(misfit.op)
        << "in this op, with factors " << misfit.factors;
    if (misfit.others > 0)
      diagnostic.attachNote()
          << misfit.others
          << (misfit.others == 1 ? " more rule asks" : " more rules ask")
          << " for the same";
    if (std::string fitting = fittingMicroBatches(misfit, axes);
        !fitting.empty())
      diagnostic.attachNote()
          << "what fits as micro_batches beside these ranks: " << fitting;
  }
}

/// False when the rule cannot be carried out, which is reported once.
bool PlanReader::assign(Rule &rule, Operation *op) {
  PlanAxes axes(plan);
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  auto assignment = readAssignment(rule, op, facts);
  if (!assignment)
    return false;
  // Sums arrive or do not; all else can be told here, with line and column.
  Assignment splits = *assignment;
  splits.pending.clear();
  llvm::SmallVector<Layout> none(op->getNumOperands());
  std::string message;
  if (failed(layoutsOf(facts, splits, none, axes, message))) {
    tellUnassigned(rule, op, facts, splits, message);
    return false;
  }
  setAssignment(op, facts, *assignment, axes);
  return true;
}

/// A cast that this step does not need: the plan was made for another number
/// type.
bool PlanReader::isOfAbsentCast(const Rule &rule) {
  auto [phase, cast] = llvm::StringRef(rule.op).split(" cast ");
  return !cast.empty() && llvm::any_of(names, [&, phase = phase](auto &entry) {
    return matchesPhase(phase, entry.second);
  });
}

/// Adds "did you mean 'linear'?".
static void suggest(InFlightDiagnostic &diagnostic,
                    const std::set<std::string> &known, llvm::StringRef word) {
  llvm::SmallVector<llvm::StringRef> words(known.begin(), known.end());
  if (llvm::StringRef nearest = nearestWord(words, word); !nearest.empty())
    diagnostic.attachNote() << "did you mean '" << nearest << "'?";
}

/// Beside a pattern such as "*.qproj.weight" what it could say of names:
/// "*.q_proj.weight". Of other patterns the names.
static std::set<std::string> endsLike(const std::set<std::string> &names,
                                      llvm::StringRef pattern) {
  if (!pattern.starts_with("*.") || pattern.drop_front().contains('*'))
    return names;
  std::set<std::string> ends;
  for (llvm::StringRef name : names) {
    size_t from = name.size();
    for (size_t part = pattern.count('.'); part > 0 && from != name.npos;
         --part)
      from = name.rfind('.', from);
    if (from != name.npos)
      ends.insert("*" + name.substr(from).str());
  }
  return ends;
}

/// Of `forward 110 0`: that there is no such phase, number or op.
void PlanReader::tellPhase(const Rule &rule) {
  auto [kind, rest] = llvm::StringRef(rule.op).split(' ');
  std::set<std::string> kinds;
  int64_t least = INT64_MAX, most = INT64_MIN, same = 0;
  llvm::StringRef number = rest.split(' ').first;
  for (const auto &[op, name] : names) {
    auto [ownKind, ownRest] = llvm::StringRef(name).split(' ');
    kinds.insert(ownKind.str());
    if (ownKind != kind)
      continue;
    int64_t own = getPhase(op).getOp();
    least = std::min(least, own);
    most = std::max(most, own);
    same += ownRest.split(' ').first == number;
  }
  auto diagnostic = errors.at(rule.position);
  if (!kinds.count(kind.str())) {
    diagnostic << "a rule matches no op: none is of a phase '" << kind
               << "'; the step has " << llvm::join(kinds, ", ");
    suggest(diagnostic, kinds, kind);
  } else if (same == 0) {
    diagnostic << "a rule matches no op: no op is '" << kind << " " << number
               << "'; numbers of that phase are between " << least << " and "
               << most;
  } else {
    diagnostic << "a rule matches no op: '" << kind << " " << number << "' has "
               << same << (same == 1 ? " op" : " ops")
               << ", counted from 0, casts apart; found '" << rule.op << "'";
  }
}

/// Of an op's name, or of the weight it is to read.
void PlanReader::tellName(const Rule &rule) {
  std::set<std::string> ops, weights;
  Rule byName = rule;
  byName.weight.reset();
  bool isNamed = false;
  model.getBody().walk([&](FactorOpInterface op) {
    ops.insert(op->getName().stripDialect().str());
    if (!matches(byName, op))
      return;
    isNamed = true;
    for (Value operand : op->getOperands())
      if (ParamOp param = findWeight(operand))
        weights.insert(param.getName().str());
  });
  auto diagnostic = errors.at(rule.position);
  if (isNamed) {
    diagnostic << "a rule matches no op: no '" << rule.op
               << "' reads a parameter";
    if (weights.empty())
      return;
    diagnostic << " that '" << rule.weightText << "' matches; they read "
               << llvm::join(weights, ", ");
    suggest(diagnostic, endsLike(weights, rule.weightText), rule.weightText);
    return;
  }
  diagnostic << "a rule matches no op: no op of the step is called '" << rule.op
             << "'";
  suggest(diagnostic, ops, rule.op);
}

void PlanReader::tellUnmatched(const Rule &rule) {
  if (!rule.param)
    return llvm::StringRef(rule.op).contains(' ') ? tellPhase(rule)
                                                  : tellName(rule);
  std::set<std::string> params;
  model.getBody().walk(
      [&](ParamOp param) { params.insert(param.getName().str()); });
  auto diagnostic = errors.at(rule.position)
                    << "a rule matches no parameter: none is called '"
                    << rule.paramText << "'";
  suggest(diagnostic, endsLike(params, rule.paramText), rule.paramText);
}

void PlanReader::checkMatched() {
  for (const Rule &rule : rules)
    if (!rule.matched && !isOfAbsentCast(rule))
      tellUnmatched(rule);
}

LogicalResult PlanReader::run(llvm::StringRef text) {
  auto root =
      json::parse(text, [&](json::Position at, const llvm::Twine &what) {
        errors.at(at) << what;
      });
  if (failed(root) || !errors.expectKind(*root, json::Kind::Object, "a plan"))
    return failure();
  errors.expectKeys(*root,
                    {"assign", "checked", "chunks", "cp_order", "defer", "mesh",
                     "micro_batches", "model", "moe_buffer", "order", "priced",
                     "recompute", "reserve_bytes", "schedule", "shard_group",
                     "stages", "version", "zero"},
                    "a plan");
  if (const json::Value *reserve = root->find("reserve_bytes"))
    errors.expectKind(*reserve, json::Kind::Number, "reserve_bytes");
  if (const json::Value *checked = root->find("checked"))
    errors.expectKind(*checked, json::Kind::Object, "checked");
  if (const json::Value *priced = root->find("priced"))
    errors.expectKind(*priced, json::Kind::Object, "priced");
  plan = readPlanHead(model, *root, errors);
  if (const json::Value *assign = root->find("assign"))
    if (errors.expectKind(*assign, json::Kind::Array, "assign"))
      for (const json::Value &rule : assign->array)
        readRule(rule);
  if (!plan) // Rules name its axes.
    return failure();
  model->setAttr(kPlanAttrName, plan);
  names = namesOfOps(model);
  splitBiases();
  llvm::SmallVector<Operation *> ops;
  model.getBody().walk([&](FactorOpInterface op) { ops.push_back(op); });
  for (Operation *op : ops)
    if (Rule *rule = findRule(op); rule && !rule->wrong)
      rule->wrong = !assign(*rule, op);
  tellMisfits();
  checkMatched();
  return success(!errors.found());
}

LogicalResult kerf::loadPlan(ModelOp model, llvm::StringRef text,
                             llvm::StringRef path) {
  return PlanReader(model, path).run(text);
}

namespace {
struct LoadPlanPass : public kerf::impl::LoadPlanPassBase<LoadPlanPass> {
  using LoadPlanPassBase::LoadPlanPassBase;

  void runOnOperation() override {
    auto buffer = readFile(file);
    if (!buffer) {
      mlir::emitError(getOperation().getLoc())
          << "cannot read plan '" << file
          << "': " << toString(buffer.takeError());
      return signalPassFailure();
    }
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(loadPlan(model, (*buffer)->getBuffer(), file)))
        return signalPassFailure();
  }
};
} // namespace
