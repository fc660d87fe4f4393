#include "kerf/Dialect/Kerf/Layout.h"
#include "kerf/Dialect/Kerf/SplitBias.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Plan/PlanFile.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_LOADPLANPASS
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf

namespace {
/// One entry of "assign".
struct Rule {
  json::Position position;
  std::string op; ///< name, or phase; empty for parameters
  std::optional<llvm::GlobPattern> param, weight;
  const json::Value *factors = nullptr, *pending = nullptr;
  bool matched = false;
};

class PlanReader {
public:
  PlanReader(ModelOp model, llvm::StringRef path) : model(model), path(path) {}

  LogicalResult run(llvm::StringRef text);

private:
  InFlightDiagnostic error(json::Position position) {
    return mlir::emitError(FileLineColLoc::get(model.getContext(), path,
                                               position.line, position.column));
  }
  LogicalResult expectKind(const json::Value &value, json::Kind kind,
                           llvm::StringRef what);
  LogicalResult expectKeys(const json::Value &object,
                           llvm::ArrayRef<llvm::StringLiteral> known,
                           llvm::StringRef what);
  FailureOr<MeshAttr> readMesh(const json::Value &root);
  LogicalResult readRecompute(const json::Value &value, bool &all,
                              llvm::SmallVectorImpl<int64_t> &ops);
  LogicalResult readHead(const json::Value &root);
  LogicalResult readRule(const json::Value &value);
  LogicalResult readGlob(const json::Value &rule, llvm::StringRef key,
                         std::optional<llvm::GlobPattern> &glob);
  FailureOr<AxisList> readAxes(const json::Value &value);
  FailureOr<Assignment> readAssignment(const Rule &rule, Operation *op,
                                       const Factors &facts);
  void numberPhases();
  bool matches(const Rule &rule, Operation *op);
  Rule *findRule(Operation *op);
  void splitBiases();
  LogicalResult assign(Operation *op);

  ModelOp model;
  llvm::StringRef path;
  PlanAttr plan;
  std::vector<Rule> rules;
  llvm::DenseMap<Operation *, int64_t> place; ///< among the ops of its phase
};
} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

LogicalResult PlanReader::expectKind(const json::Value &value, json::Kind kind,
                                     llvm::StringRef what) {
  if (value.kind == kind)
    return success();
  return error(value.position)
         << "expected " << json::describeKind(kind) << " as " << what
         << ", found " << json::describeKind(value.kind);
}

LogicalResult PlanReader::expectKeys(const json::Value &object,
                                     llvm::ArrayRef<llvm::StringLiteral> known,
                                     llvm::StringRef what) {
  for (const json::Member &member : object.object)
    if (!llvm::is_contained(known, member.key)) {
      auto diagnostic = error(member.keyPosition)
                        << "unknown field " << json::quote(member.key) << " of "
                        << what;
      diagnostic.attachNote() << "known are " << llvm::join(known, ", ");
      return diagnostic;
    }
  return success();
}

FailureOr<MeshAttr> PlanReader::readMesh(const json::Value &root) {
  llvm::SmallVector<StringAttr> names;
  llvm::SmallVector<int64_t> sizes;
  json::Position position = root.position;
  if (const json::Value *mesh = root.find("mesh")) {
    position = mesh->position;
    if (failed(expectKind(*mesh, json::Kind::Object, "mesh")))
      return failure();
    for (const json::Member &axis : mesh->object) {
      if (!axis.value.isInteger)
        return error(axis.value.position)
               << "expected the number of ranks of axis "
               << json::quote(axis.key);
      names.push_back(StringAttr::get(model.getContext(), axis.key));
      sizes.push_back(axis.value.integer);
    }
  }
  auto emitError = [&] { return error(position); };
  MeshAttr mesh = MeshAttr::getChecked(
      llvm::function_ref<InFlightDiagnostic()>(emitError), model.getContext(),
      llvm::ArrayRef<StringAttr>(names), llvm::ArrayRef<int64_t>(sizes));
  if (!mesh)
    return failure();
  return mesh;
}

LogicalResult PlanReader::readRecompute(const json::Value &value, bool &all,
                                        llvm::SmallVectorImpl<int64_t> &ops) {
  if (value.kind == json::Kind::Array) {
    for (const json::Value &op : value.array) {
      if (!op.isInteger)
        return error(op.position) << "expected the number of a forward op";
      ops.push_back(op.integer);
    }
    return success();
  }
  all = value.kind == json::Kind::String && value.string == "full";
  if (all || (value.kind == json::Kind::String && value.string == "none"))
    return success();
  return error(value.position) << "expected \"none\", \"full\" or a list of "
                                  "numbers of forward ops as recompute";
}

/// All but the rules.
LogicalResult PlanReader::readHead(const json::Value &root) {
  auto mesh = readMesh(root);
  if (failed(mesh))
    return failure();
  int64_t microBatches = 1;
  std::string schedule = "1f1b";
  bool all = false;
  llvm::SmallVector<int64_t> recompute;
  json::Position position = root.position;
  if (const json::Value *value = root.find("micro_batches")) {
    if (!value->isInteger)
      return error(value->position) << "expected a number of micro-batches";
    microBatches = value->integer;
    position = value->position;
  }
  if (const json::Value *value = root.find("schedule")) {
    if (failed(expectKind(*value, json::Kind::String, "schedule")))
      return failure();
    schedule = value->string;
    position = value->position;
  }
  if (const json::Value *value = root.find("recompute"))
    if (failed(readRecompute(*value, all, recompute)))
      return failure();
  auto emitError = [&] { return error(position); };
  plan = PlanAttr::getChecked(
      llvm::function_ref<InFlightDiagnostic()>(emitError), model.getContext(),
      *mesh, microBatches, llvm::StringRef(schedule), all,
      llvm::ArrayRef<int64_t>(recompute));
  return success(plan != nullptr);
}

LogicalResult PlanReader::readGlob(const json::Value &rule, llvm::StringRef key,
                                   std::optional<llvm::GlobPattern> &glob) {
  const json::Value *value = rule.find(key);
  if (!value)
    return success();
  if (failed(expectKind(*value, json::Kind::String, key)))
    return failure();
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
  if (!pattern)
    return error(value->position)
           << "bad pattern: " << llvm::toString(pattern.takeError());
  glob = std::move(*pattern);
  return success();
}

LogicalResult PlanReader::readRule(const json::Value &value) {
  Rule rule;
  rule.position = value.position;
  if (failed(expectKind(value, json::Kind::Object, "a rule")) ||
      failed(expectKeys(value, {"op", "weight", "param", "factors", "pending"},
                        "a rule")) ||
      failed(readGlob(value, "param", rule.param)) ||
      failed(readGlob(value, "weight", rule.weight)))
    return failure();
  if (const json::Value *op = value.find("op")) {
    if (failed(expectKind(*op, json::Kind::String, "op")))
      return failure();
    rule.op = op->string;
  }
  if (rule.op.empty() == !rule.param || (rule.param && rule.weight))
    return error(value.position)
           << "expected either \"op\", with or without \"weight\", or "
              "\"param\" in a rule";
  rule.factors = value.find("factors");
  rule.pending = value.find("pending");
  if (!rule.factors)
    return error(value.position) << "expected \"factors\" in a rule";
  if (failed(expectKind(*rule.factors, json::Kind::Object, "factors")))
    return failure();
  rules.push_back(std::move(rule));
  return success();
}

FailureOr<AxisList> PlanReader::readAxes(const json::Value &value) {
  if (failed(expectKind(value, json::Kind::Array, "axes")))
    return failure();
  PlanAxes axes(plan);
  AxisList list;
  for (const json::Value &name : value.array) {
    if (failed(expectKind(name, json::Kind::String, "an axis")))
      return failure();
    auto axis = axes.find(name.string);
    if (!axis)
      return error(name.position) << "unknown axis " << json::quote(name.string)
                                  << ", expected one of the mesh or \"micro\"";
    list.push_back(*axis);
  }
  return list;
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

void PlanReader::numberPhases() {
  place.clear();
  llvm::DenseMap<Attribute, int64_t> count;
  model.getBody().walk([&](Operation *op) {
    if (isa<FactorOpInterface>(op))
      place[op] = count[op->getAttr(kPhaseAttrName)]++;
  });
}

/// `forward 12` or `input_gradient 12 0`.
static bool matchesPhase(llvm::StringRef text, PhaseAttr phase, int64_t place) {
  auto [kind, rest] = text.split(' ');
  auto [number, index] = rest.split(' ');
  int64_t value;
  return phase && kind == stringifyPhaseKind(phase.getKind()) &&
         !number.getAsInteger(10, value) && value == phase.getOp() &&
         (index.empty() || (!index.getAsInteger(10, value) && value == place));
}

bool PlanReader::matches(const Rule &rule, Operation *op) {
  if (rule.param) {
    auto param = dyn_cast<ParamOp>(op);
    return param && rule.param->match(param.getName());
  }
  if (llvm::StringRef(rule.op).contains(' ')) {
    if (!matchesPhase(rule.op, getPhase(op), place.lookup(op)))
      return false;
  } else if (op->getName().getStringRef() != rule.op &&
             op->getName().stripDialect() != rule.op) {
    return false;
  }
  return !rule.weight || llvm::any_of(op->getOperands(), [&](Value operand) {
    auto param = operand.getDefiningOp<ParamOp>();
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

FailureOr<Assignment> PlanReader::readAssignment(const Rule &rule,
                                                 Operation *op,
                                                 const Factors &facts) {
  Assignment assignment;
  assignment.factors.resize(facts.factors.size());
  for (const json::Member &entry : rule.factors->object) {
    auto *factor = llvm::find_if(
        facts.factors, [&](const Factor &f) { return f.name == entry.key; });
    if (factor == facts.factors.end()) {
      std::string known;
      llvm::raw_string_ostream os(known);
      printFactors(os, facts);
      auto diagnostic = error(entry.keyPosition)
                        << "no factor " << json::quote(entry.key)
                        << " in an op that the rule matches";
      diagnostic.attachNote(op->getLoc()) << "it has the factors " << known;
      return diagnostic;
    }
    auto list = readAxes(entry.value);
    if (failed(list))
      return failure();
    assignment.factors[factor - facts.factors.begin()] = *list;
  }
  if (!rule.pending)
    return assignment;
  auto pending = readAxes(*rule.pending);
  if (failed(pending))
    return failure();
  assignment.pending = *pending;
  return assignment;
}

/// Products whose sum a rule cuts add their bias afterwards.
void PlanReader::splitBiases() {
  llvm::SmallVector<FactorOpInterface> ops;
  model.getBody().walk([&](FactorOpInterface op) { ops.push_back(op); });
  for (FactorOpInterface op : ops) {
    Rule *rule = findRule(op);
    if (!rule)
      continue;
    Factors facts = op.getFactors();
    bool cutsSum = llvm::any_of(facts.variants, [&](const FactorVariant &v) {
      return v.name == "bias_after_sum" &&
             llvm::any_of(v.factors, [&](unsigned f) {
               return rule->factors->find(facts.factors[f].name) != nullptr;
             });
    });
    if (cutsSum)
      splitBias(op);
  }
  numberPhases();
}

LogicalResult PlanReader::assign(Operation *op) {
  Rule *rule = findRule(op);
  if (!rule)
    return success();
  PlanAxes axes(plan);
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  auto assignment = readAssignment(*rule, op, facts);
  if (failed(assignment))
    return failure();
  // Sums arrive or do not; all else can be told here, with line and column.
  Assignment cuts = *assignment;
  cuts.pending.clear();
  llvm::SmallVector<Layout> none(op->getNumOperands());
  std::string message;
  if (failed(layoutsOf(facts, cuts, none, axes, message))) {
    std::string known;
    llvm::raw_string_ostream os(known);
    printFactors(os, facts);
    auto diagnostic = error(rule->factors->position)
                      << "a rule cannot be carried out: " << message;
    diagnostic.attachNote(op->getLoc()) << "in this op, with factors " << known;
    return diagnostic;
  }
  setAssignment(op, facts, *assignment, axes);
  return success();
}

LogicalResult PlanReader::run(llvm::StringRef text) {
  auto root =
      json::parse(text, [&](json::Position at, const llvm::Twine &what) {
        error(at) << what;
      });
  if (failed(root) || failed(expectKind(*root, json::Kind::Object, "a plan")) ||
      failed(expectKeys(
          *root, {"mesh", "micro_batches", "schedule", "recompute", "assign"},
          "a plan")) ||
      failed(readHead(*root)))
    return failure();
  if (const json::Value *assign = root->find("assign")) {
    if (failed(expectKind(*assign, json::Kind::Array, "assign")))
      return failure();
    for (const json::Value &rule : assign->array)
      if (failed(readRule(rule)))
        return failure();
  }
  model->setAttr(kPlanAttrName, plan);
  numberPhases();
  splitBiases();
  llvm::SmallVector<Operation *> ops;
  model.getBody().walk([&](FactorOpInterface op) { ops.push_back(op); });
  for (Operation *op : ops)
    if (failed(assign(op)))
      return failure();
  for (const Rule &rule : rules)
    if (!rule.matched)
      return error(rule.position)
             << "a rule matches no op; ops are named as in the step's IR, "
                "without 'kerf.'";
  return success();
}

LogicalResult kerf::loadPlan(ModelOp model, llvm::StringRef text,
                             llvm::StringRef path) {
  return PlanReader(model, path).run(text);
}

namespace {
struct LoadPlanPass : public kerf::impl::LoadPlanPassBase<LoadPlanPass> {
  using LoadPlanPassBase::LoadPlanPassBase;

  void runOnOperation() override {
    auto buffer = llvm::MemoryBuffer::getFile(file, /*IsText=*/true);
    if (!buffer) {
      mlir::emitError(getOperation().getLoc())
          << "cannot read plan '" << file
          << "': " << buffer.getError().message();
      return signalPassFailure();
    }
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(loadPlan(model, (*buffer)->getBuffer(), file)))
        return signalPassFailure();
  }
};
} // namespace
