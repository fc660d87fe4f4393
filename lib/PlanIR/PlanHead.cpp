#include "PlanHead.h"

#include "kerf/Cost/Timeline.h"
#include "kerf/Dialect/Kerf/Title.h"
#include "kerf/Step/ReadStep.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <map>
#include <set>

using namespace mlir;
using namespace kerf;

bool PlanErrors::expectKind(const json::Value &value, json::Kind kind,
                            llvm::StringRef what) {
  if (value.kind == kind)
    return true;
  at(value.position) << "expected " << json::describeKind(kind) << " as "
                     << what << ", found " << json::describeKind(value.kind);
  return false;
}

void PlanErrors::expectKeys(const json::Value &object,
                            llvm::ArrayRef<llvm::StringLiteral> known,
                            llvm::StringRef what) {
  for (const json::Member &member : object.object)
    if (!llvm::is_contained(known, member.key))
      (at(member.keyPosition)
       << "unknown field " << json::quote(member.key) << " of " << what)
              .attachNote()
          << "known are " << llvm::join(known, ", ");
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

static void printShape(llvm::raw_ostream &os, Type type) {
  os << '[';
  llvm::interleave(cast<RankedTensorType>(type).getShape(), os, ",");
  os << ']';
}

namespace {
/// Steps whose ops have the same numbers, if the model is the same: quantising
/// to 8-bit floats adds ops, and so does scaling the loss for f16.
enum class StepTypes { F32OrBF16, F16, Float8 };
} // namespace

static constexpr llvm::StringLiteral kTypesNames[] = {"f32 or bf16", "f16",
                                                      "fp8"};
/// The input that only steps of f16 have.
static constexpr llvm::StringLiteral kLossScale = "loss_scale";

static bool hasFloat8(ModelOp model) {
  return model.getBody()
      .walk([](ScalarOpInterface op) {
        bool isFound =
            op.isConversion() && isFloat8(op->getResult(0).getType());
        return isFound ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

static StepTypes typesOf(ModelOp model) {
  return model.getInput(kLossScale) ? StepTypes::F16
         : hasFloat8(model)         ? StepTypes::Float8
                                    : StepTypes::F32OrBF16;
}

/// A hash of the shapes of inputs and parameters.
static std::string hashShapes(ModelOp model, StepTypes types) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto [input, role] :
       llvm::zip(model.getBody().getArguments(),
                 model.getRoles().getAsValueRange<StringAttr>())) {
    if (role == kLossScale)
      continue;
    os << role;
    printShape(os, input.getType());
  }
  // By name: a parameter may be read in several places.
  std::map<std::string, std::pair<Type, int64_t>> params;
  model.getBody().walk([&](ParamOp param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    int64_t end = repeat && param.isPerIteration() ? repeat.getEnd() : 1;
    auto &[type, count] = params[param.getName().str()];
    type = param.getResult().getType();
    count = std::max(count, end);
  });
  for (const auto &[name, facts] : params) {
    os << name << '*' << facts.second;
    printShape(os, facts.first);
  }
  if (types != StepTypes::F32OrBF16)
    os << kTypesNames[static_cast<int>(types)];
  return llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true,
                         /*Width=*/16);
}

/// The number types with which the model would have this hash, if any.
static std::optional<StepTypes> typesOfHash(ModelOp model,
                                            llvm::StringRef hash) {
  for (StepTypes types :
       {StepTypes::F32OrBF16, StepTypes::F16, StepTypes::Float8})
    if (hash == hashShapes(model, types))
      return types;
  return std::nullopt;
}

ModelStamp kerf::stampOf(ModelOp model) {
  return {titleOf(model).str(), model.getSymName().str(),
          hashShapes(model, typesOf(model))};
}

llvm::DenseMap<Operation *, std::string> kerf::namesOfOps(ModelOp model) {
  llvm::DenseMap<Operation *, std::string> names;
  llvm::DenseMap<std::pair<Attribute, int>, int64_t> counts;
  model.getBody().walk([&](FactorOpInterface op) {
    PhaseAttr phase = getPhase(op);
    if (!phase)
      return;
    bool isCast = isConversion(op);
    names[op] = (stringifyPhaseKind(phase.getKind()) + " " +
                 llvm::Twine(phase.getOp()) + (isCast ? " cast " : " ") +
                 llvm::Twine(counts[{phase, int(isCast)}]++))
                    .str();
  });
  return names;
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

namespace {
/// A run of layers with the place where it is written.
struct PlacedRun {
  LayersAttr run;
  json::Position position;
};

class HeadReader {
public:
  HeadReader(ModelOp model, const json::Value &root, PlanErrors &errors)
      : model(model), context(model.getContext()), root(root), errors(errors) {}

  PlanAttr run();

private:
  void readVersion();
  bool isOfModel();
  MeshAttr readMesh();
  bool readOrder(llvm::SmallVectorImpl<StringAttr> &names,
                 llvm::SmallVectorImpl<int64_t> &sizes);
  int64_t readInteger(llvm::StringRef key, int64_t fallback,
                      llvm::StringRef what);
  bool check(llvm::StringRef key, const std::string &wrong);
  std::string readSchedule();
  bool readPlainOrder();
  double readMoeBuffer();
  bool isForwardOp(int64_t number);
  void readNumbers(const json::Value &value,
                   llvm::SmallVectorImpl<int64_t> &ops);
  bool readRecompute(llvm::SmallVectorImpl<int64_t> &ops);
  LayersAttr readRun(const json::Value &value);
  ArrayAttr readStages();
  void checkLayers();

  ModelOp model;
  MLIRContext *context;
  const json::Value &root;
  PlanErrors &errors;
  std::vector<PlacedRun> layers; ///< of all stages, in their order
  std::set<int64_t> forwardOps;  ///< numbers; known once one is asked for
};
} // namespace

void HeadReader::readVersion() {
  constexpr int64_t known = 1;
  const json::Value *version = root.find("version");
  if (version && (!version->isInteger || version->integer != known))
    errors.at(version->position)
        << "expected a plan of version " << known << ", found "
        << json::print(*version, {0, true});
}

/// The name, and the symbol where it is another.
static std::string wordsOf(const ModelStamp &stamp) {
  std::string text = json::quote(stamp.name);
  return stamp.symbol == stamp.name ? text : text + " (@" + stamp.symbol + ")";
}

/// A plan for another model is refused: its numbers of ops mean other ops.
/// Folders may be renamed, so symbols are compared.
bool HeadReader::isOfModel() {
  const json::Value *value = root.find("model");
  if (!value || !errors.expectKind(*value, json::Kind::Object, "model"))
    return true;
  errors.expectKeys(*value, {"name", "symbol", "shapes"}, "model");
  ModelStamp own = stampOf(model), given = own;
  auto read = [&](llvm::StringRef key, std::string &text) {
    const json::Value *field = value->find(key);
    if (field && errors.expectKind(*field, json::Kind::String, key))
      text = field->string;
  };
  read("name", given.name);
  if (given.name != own.name)
    given.symbol = given.name;
  read("symbol", given.symbol);
  read("shapes", given.shapes);
  if (given.symbol == own.symbol && given.shapes == own.shapes)
    return true;
  auto error = errors.at(value->position);
  std::optional<StepTypes> types = typesOfHash(model, given.shapes);
  if (given.symbol != own.symbol)
    error << "the plan is for the model " << wordsOf(given) << ", found "
          << wordsOf(own);
  else if (types)
    error << "the plan is for a step of "
          << kTypesNames[static_cast<int>(*types)] << ", found one of "
          << kTypesNames[static_cast<int>(typesOf(model))]
          << ", whose ops have other numbers";
  else
    error << "the plan is for a model " << json::quote(given.name)
          << " of other shapes: batch, sequence, layers or sizes differ";
  error.attachNote() << "plan again, or remove \"model\" from a plan whose "
                        "rules name ops by name";
  return false;
}

/// `order` names the axes of the mesh, the slowest first; without it they are
/// in the order of the text.
bool HeadReader::readOrder(llvm::SmallVectorImpl<StringAttr> &names,
                           llvm::SmallVectorImpl<int64_t> &sizes) {
  const json::Value *order = root.find("order");
  if (!order)
    return true;
  if (!errors.expectKind(*order, json::Kind::Array, "order"))
    return false;
  llvm::SmallVector<StringAttr> newNames;
  llvm::SmallVector<int64_t> newSizes;
  bool fine = true;
  for (const json::Value &axis : order->array) {
    fine &= errors.expectKind(axis, json::Kind::String, "an axis");
    auto *at = llvm::find_if(
        names, [&](StringAttr name) { return name.getValue() == axis.string; });
    bool twice =
        llvm::is_contained(newNames, StringAttr::get(context, axis.string));
    if (axis.kind == json::Kind::String && (at == names.end() || twice)) {
      errors.at(axis.position)
          << "axis " << json::quote(axis.string)
          << (twice ? " is in the order twice" : " is not in the mesh");
      fine = false;
    }
    if (!fine)
      continue;
    newNames.push_back(*at);
    newSizes.push_back(sizes[at - names.begin()]);
  }
  if (fine && newNames.size() != names.size()) {
    errors.at(order->position)
        << "expected all " << names.size()
        << " axes of the mesh in order, found " << newNames.size();
    return false;
  }
  if (fine) {
    names.assign(newNames.begin(), newNames.end());
    sizes.assign(newSizes.begin(), newSizes.end());
  }
  return fine;
}

MeshAttr HeadReader::readMesh() {
  llvm::SmallVector<StringAttr> names;
  llvm::SmallVector<int64_t> sizes;
  json::Position position = root.position;
  bool fine = true;
  if (const json::Value *mesh = root.find("mesh")) {
    position = mesh->position;
    if (!errors.expectKind(*mesh, json::Kind::Object, "mesh"))
      return {};
    for (const json::Member &axis : mesh->object) {
      if (!axis.value.isInteger) {
        errors.at(axis.value.position)
            << "expected the number of ranks of axis " << json::quote(axis.key);
        fine = false;
      }
      names.push_back(StringAttr::get(context, axis.key));
      sizes.push_back(axis.value.integer);
    }
  }
  if (!readOrder(names, sizes) || !fine)
    return {};
  auto emitError = [&] { return errors.at(position); };
  return MeshAttr::getChecked(
      llvm::function_ref<InFlightDiagnostic()>(emitError), context,
      llvm::ArrayRef<StringAttr>(names), llvm::ArrayRef<int64_t>(sizes));
}

int64_t HeadReader::readInteger(llvm::StringRef key, int64_t fallback,
                                llvm::StringRef what) {
  const json::Value *value = root.find(key);
  if (!value)
    return fallback;
  if (value->isInteger)
    return value->integer;
  errors.at(value->position) << "expected " << what;
  return fallback;
}

/// Reports what is wrong with a field, at the field.
bool HeadReader::check(llvm::StringRef key, const std::string &wrong) {
  const json::Value *value = root.find(key);
  if (!wrong.empty())
    errors.at(value ? value->position : root.position) << wrong;
  return wrong.empty();
}

std::string HeadReader::readSchedule() {
  const json::Value *value = root.find("schedule");
  if (!value || !errors.expectKind(*value, json::Kind::String, "schedule"))
    return "1f1b";
  bool fine = check("schedule", PlanAttr::checkSchedule(value->string));
  return fine ? value->string : "1f1b";
}

/// True for "plain".
bool HeadReader::readPlainOrder() {
  const json::Value *value = root.find("cp_order");
  if (!value || !errors.expectKind(*value, json::Kind::String, "cp_order"))
    return false;
  bool plain = value->string == "plain";
  if (!plain && value->string != "zigzag")
    errors.at(value->position)
        << "unknown cp_order " << json::quote(value->string)
        << ", expected zigzag (causal work is balanced) or plain";
  return plain;
}

double HeadReader::readMoeBuffer() {
  const json::Value *value = root.find("moe_buffer");
  if (!value || !errors.expectKind(*value, json::Kind::Number, "moe_buffer"))
    return 0;
  bool fine = check("moe_buffer", PlanAttr::checkMoeBuffer(value->number));
  return fine ? value->number : 0;
}

/// Whether the step has a forward op of this number.
bool HeadReader::isForwardOp(int64_t number) {
  if (forwardOps.empty())
    model.getBody().walk([&](Operation *op) {
      PhaseAttr phase = getPhase(op);
      if (phase && phase.getKind() == PhaseKind::Forward)
        forwardOps.insert(phase.getOp());
    });
  // A model alone, not differentiated yet, has no phases.
  return forwardOps.empty() || forwardOps.count(number) > 0;
}

void HeadReader::readNumbers(const json::Value &value,
                             llvm::SmallVectorImpl<int64_t> &ops) {
  for (const json::Value &op : value.array) {
    if (!op.isInteger)
      errors.at(op.position) << "expected the number of a forward op";
    else if (op.integer < 0)
      errors.at(op.position)
          << "expected numbers of forward ops to recompute, found "
          << op.integer;
    else if (!isForwardOp(op.integer))
      errors.at(op.position)
          << "no forward op has the number " << op.integer
          << "; those of this step are between " << *forwardOps.begin()
          << " and " << *forwardOps.rbegin();
    else
      ops.push_back(op.integer);
  }
}

/// True for "full".
bool HeadReader::readRecompute(llvm::SmallVectorImpl<int64_t> &ops) {
  const json::Value *value = root.find("recompute");
  if (!value)
    return false;
  if (value->kind == json::Kind::Array) {
    readNumbers(*value, ops);
    return false;
  }
  bool isWord = value->kind == json::Kind::String;
  if (isWord && (value->string == "full" || value->string == "none"))
    return value->string == "full";
  errors.at(value->position) << "expected \"none\", \"full\" or a list of "
                                "numbers of forward ops as recompute";
  return false;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

LayersAttr HeadReader::readRun(const json::Value &value) {
  if (!errors.expectKind(value, json::Kind::Object, "layers"))
    return {};
  errors.expectKeys(value, {"kind", "count", "recompute"}, "layers");
  const json::Value *kind = value.find("kind"), *count = value.find("count"),
                    *recompute = value.find("recompute");
  if (!kind || !count || !count->isInteger) {
    errors.at(value.position)
        << "expected \"kind\" and \"count\", a number, of layers";
    return {};
  }
  if (!errors.expectKind(*kind, json::Kind::String, "kind"))
    return {};
  DenseI64ArrayAttr list;
  llvm::SmallVector<int64_t> ops;
  if (recompute &&
      errors.expectKind(*recompute, json::Kind::Array, "recompute")) {
    readNumbers(*recompute, ops);
    list = DenseI64ArrayAttr::get(context, ops);
  }
  auto emitError = [&] { return errors.at(value.position); };
  return LayersAttr::getChecked(
      llvm::function_ref<InFlightDiagnostic()>(emitError), context,
      llvm::StringRef(kind->string), count->integer, list);
}

ArrayAttr HeadReader::readStages() {
  const json::Value *stages = root.find("stages");
  if (!stages || !errors.expectKind(*stages, json::Kind::Array, "stages"))
    return {};
  llvm::SmallVector<Attribute> entries;
  for (const json::Value &entry : stages->array) {
    if (!errors.expectKind(entry, json::Kind::Array, "layers of a stage"))
      return {};
    llvm::SmallVector<Attribute> runs;
    for (const json::Value &value : entry.array) {
      LayersAttr run = readRun(value);
      if (!run)
        return {};
      runs.push_back(run);
      layers.push_back({run, value.position});
    }
    entries.push_back(ArrayAttr::get(context, runs));
  }
  checkLayers();
  return ArrayAttr::get(context, entries);
}

/// The stages hold the layers of the model, all of them, in their order.
void HeadReader::checkLayers() {
  auto step = readStep(model);
  if (failed(step)) {
    errors.at(root.find("stages")->position)
        << "stages need a model whose layers can be told apart";
    return;
  }
  size_t next = 0;
  int64_t used = 0; // of that run of the model
  for (const PlacedRun &placed : layers) {
    LayersAttr run = placed.run;
    if (next == step->runs.size()) {
      errors.at(placed.position)
          << "the model has no layers after its last, found " << run.getCount()
          << " of " << json::quote(run.getKind());
      return;
    }
    const LayerRun &own = step->runs[next];
    const std::string &name = step->kinds[own.kind].name;
    if (run.getKind() != name || used + run.getCount() > own.count) {
      errors.at(placed.position)
          << "expected at most " << own.count - used << " of "
          << json::quote(name) << " here, found " << run.getCount() << " of "
          << json::quote(run.getKind());
      return;
    }
    used += run.getCount();
    if (used == own.count) {
      ++next;
      used = 0;
    }
  }
  if (next < step->runs.size())
    errors.at(root.find("stages")->position)
        << "stages lack " << step->runs[next].count - used << " of "
        << json::quote(step->kinds[step->runs[next].kind].name);
}

/// A field that is wrong counts as not given, so that the rest is read too.
PlanAttr HeadReader::run() {
  readVersion();
  if (!isOfModel())
    return {};
  MeshAttr mesh = readMesh();
  int64_t micro = readInteger("micro_batches", 1, "a number of micro-batches");
  if (!check("micro_batches", PlanAttr::checkMicroBatches(micro)))
    micro = 1;
  std::string schedule = readSchedule();
  llvm::SmallVector<int64_t> recompute;
  bool all = readRecompute(recompute);
  int64_t chunks = readInteger("chunks", 1, "a number of chunks per stage");
  if (!check("chunks", PlanAttr::checkChunks(chunks, schedule)))
    chunks = 1;
  int64_t defer = readInteger("defer", kDeferAll, "a number of micro-batches");
  if (const json::Value *given = root.find("defer"); given && defer < 0) {
    if (given->isInteger)
      errors.at(given->position)
          << "expected 0 or more micro-batches to defer, found " << defer;
    defer = kDeferAll;
  }
  if (!check("defer", PlanAttr::checkDefer(defer, schedule)))
    defer = kDeferAll;
  int64_t zero = readInteger("zero", 0, "a number from 0 to 3 as zero");
  if (!check("zero", PlanAttr::checkZero(zero)))
    zero = 0;
  int64_t group = readInteger("shard_group", 0, "a number of ranks");
  ArrayAttr stages = readStages();
  bool plainOrder = readPlainOrder();
  double moeBuffer = readMoeBuffer();
  if (!mesh)
    return {};
  if (!check("shard_group", PlanAttr::checkShardGroup(group, zero, mesh)))
    group = 0;
  if (!check("stages", PlanAttr::checkStages(stages, chunks, mesh)))
    stages = {};
  return PlanAttr::get(context, mesh, micro, schedule, all, recompute, chunks,
                       defer, zero, group, stages, moeBuffer, plainOrder);
}

PlanAttr kerf::readPlanHead(ModelOp model, const json::Value &root,
                            PlanErrors &errors) {
  return HeadReader(model, root, errors).run();
}
