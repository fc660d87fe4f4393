//===- Import.cpp - From config to model ----------------------------------===//

#include "kerf/Ingest/Import.h"

#include "Families.h"
#include "Optimizer.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

#define DEBUG_TYPE "ingest"

using namespace kerf;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static LogicalResult checkSizeOption(Location loc, llvm::StringRef name,
                                     int64_t value) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  if (value >= 1 && value <= limit)
    return success();
  return emitError(loc) << "expected '" << name << "' from 1 to " << limit
                        << ", found " << value;
}

static LogicalResult checkAdapters(Location loc, const ImportOptions &options) {
  if (!options.lora && options.quantizeBase != "none")
    return emitError(loc) << "'quantize-base' keeps frozen weights in codes: "
                             "expected 'lora-rank' with it";
  if (!options.lora)
    return success();
  const LoraOptions &lora = *options.lora;
  if (lora.targets.empty())
    return emitError(loc) << "expected 'lora-targets' to name linear layers, "
                             "or all-linear";
  if (!(lora.alpha > 0 && std::isfinite(lora.alpha)))
    return emitError(loc) << "expected a finite 'lora-alpha' above 0, found "
                          << ConfigReader::describe(lora.alpha);
  return failure(
      failed(checkSizeOption(loc, "lora-rank", lora.rank)) ||
      failed(checkRealOption(loc, "lora-dropout", lora.dropout, 1.0)));
}

static LogicalResult checkOptions(Location loc, const ImportOptions &options) {
  const double infinity = std::numeric_limits<double>::infinity();
  bool isGood = true;
  auto expect = [&](LogicalResult result) { isGood &= succeeded(result); };
  expect(checkSizeOption(loc, "batch", options.batch));
  expect(checkSizeOption(loc, "seq", options.seq));
  expect(checkOptimizer(loc, options));
  expect(checkNameOption(loc, "aux-loss", options.auxLoss,
                         {"config", "none", "layer", "global"}));
  expect(checkNameOption(loc, "quantize-base", options.quantizeBase,
                         {"none", "nf4"}));
  expect(checkAdapters(loc, options));
  expect(checkRealOption(loc, "z-loss", options.zLoss, infinity));
  expect(checkRealOption(loc, "router-bias-rate", options.routerBiasRate,
                         infinity));
  if (options.capacityFactor &&
      !(*options.capacityFactor > 0 && std::isfinite(*options.capacityFactor)))
    expect(emitError(loc) << "expected a finite 'capacity-factor' above 0, "
                             "found "
                          << ConfigReader::describe(*options.capacityFactor));
  return success(isGood);
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

static void checkSize(ConfigReader &config, llvm::StringRef field,
                      llvm::StringRef what, llvm::ArrayRef<int64_t> shape,
                      int64_t limit) {
  uint64_t elements = 1;
  int64_t largest = 0;
  for (int64_t size : shape) {
    elements = llvm::SaturatingMultiply<uint64_t>(elements, size);
    largest = std::max(largest, size);
  }
  constexpr int64_t sizeLimit = std::numeric_limits<int32_t>::max();
  bool isTooLong = largest > sizeLimit;
  if (config.failed() ||
      (!isTooLong && elements <= static_cast<uint64_t>(limit)))
    return;
  InFlightDiagnostic diagnostic = config.error(field);
  diagnostic << what << " of ";
  llvm::interleave(shape, diagnostic, "x");
  if (isTooLong)
    diagnostic << " would have a dimension of more than " << sizeLimit;
  else
    diagnostic << " would have more than " << limit << " elements";
}

void kerf::checkParameterSize(ConfigReader &config, llvm::StringRef field,
                              llvm::StringRef what,
                              llvm::ArrayRef<int64_t> shape) {
  checkSize(config, field, what, shape, int64_t(1) << 40);
}

void kerf::checkActivationSize(ConfigReader &config, llvm::StringRef field,
                               llvm::StringRef what,
                               llvm::ArrayRef<int64_t> shape) {
  checkSize(config, field, what, shape, int64_t(1) << 44);
}

//===----------------------------------------------------------------------===//
// Family
//===----------------------------------------------------------------------===//

/// The family that `model_type` names.
static const Family *
readFamily(const json::Value &root, Location rootLoc,
           llvm::function_ref<Location(json::Position)> locationOf) {
  const json::Value *type = root.find("model_type");
  const Family *family = nullptr;
  if (!type) {
    InFlightDiagnostic diagnostic = emitError(rootLoc);
    diagnostic << "missing field 'model_type'";
    diagnostic.attachNote() << "expected one of " << listFamilies();
    return nullptr;
  }
  if (type->kind == json::Kind::String)
    family = findFamily(type->string);
  if (!family) {
    InFlightDiagnostic diagnostic = emitError(locationOf(type->position));
    diagnostic << "unsupported value " << ConfigReader::describe(*type)
               << " of field 'model_type'";
    diagnostic.attachNote() << "expected one of " << listFamilies();
  }
  return family;
}

/// The config may name several classes of the family; ours must be one.
static void checkArchitectures(ConfigReader &config, const Family &family) {
  const json::Value *classes = config.findNonNull("architectures");
  if (!classes)
    return;
  if (classes->kind == json::Kind::Array) {
    if (classes->array.empty())
      return;
    for (const json::Value &name : classes->array)
      if (name.kind == json::Kind::String && name.string == family.modelClass)
        return;
  }
  InFlightDiagnostic diagnostic = config.error("architectures");
  diagnostic << "unsupported value of field 'architectures': expected [\""
             << family.modelClass << "\"]";
  if (classes->kind == json::Kind::Array &&
      classes->array.front().kind == json::Kind::String)
    diagnostic << ", found " << json::quote(classes->array.front().string);
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

static ModelOp createModel(OpBuilder &builder, Location loc,
                           llvm::StringRef name, const ImportOptions &options) {
  llvm::SmallVector<llvm::StringRef> roles = {"tokens", "targets"};
  if (options.packed)
    roles.append({"segments", "positions"});
  auto model = ModelOp::create(builder, loc, builder.getStringAttr(name),
                               builder.getStrArrayAttr(roles));
  auto type =
      RankedTensorType::get({options.batch, options.seq}, builder.getI32Type());
  Block &body = model.getBody().emplaceBlock();
  for (size_t i = 0; i < roles.size(); ++i)
    body.addArgument(type, loc);
  return model;
}

static OwningOpRef<ModuleOp> importFamily(const Family &family,
                                          const json::Value &root,
                                          llvm::StringRef fileName,
                                          const ImportOptions &options,
                                          MLIRContext *context) {
  llvm::SmallVector<Field> fields = allFields(family);
  std::string title = (family.name + " config").str();
  ConfigReader config(root, fileName, context, fields, title);
  config.checkFields();
  checkArchitectures(config, family);
  std::unique_ptr<Importer> importer = family.name == "gpt2"
                                           ? makeGpt2Importer()
                                           : makeDecoderImporter(family.name);
  importer->read(config, options);
  if (config.failed())
    return {};
  Location loc = config.locationOf(root.position);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  llvm::StringRef name = family.name;
  if (!options.modelName.empty())
    name = options.modelName;
  ModelOp model = createModel(builder, loc, name, options);
  setOptimizer(model, options, importer->vectorNames(),
               importer->ruleGroups(context));
  LayerBuilder layers(model, config, options);
  importer->build(layers);
  if (failed(layers.finishAdapters()) ||
      failed(addGroups(UnknownLoc::get(context), model, options)) ||
      failed(verify(*module)))
    return {};
  return module;
}

OwningOpRef<ModuleOp> kerf::importConfig(llvm::StringRef json,
                                         llvm::StringRef fileName,
                                         const ImportOptions &options,
                                         MLIRContext *context) {
  context->getOrLoadDialect<KerfDialect>();
  if (failed(checkOptions(UnknownLoc::get(context), options)))
    return {};
  auto locationOf = [&](json::Position position) -> Location {
    return FileLineColLoc::get(context, fileName, position.line,
                               position.column);
  };
  auto root = json::parse(
      json, [&](json::Position position, const llvm::Twine &message) {
        emitError(locationOf(position)) << message;
      });
  if (failed(root))
    return {};
  Location loc = locationOf(root->position);
  if (root->kind != json::Kind::Object) {
    emitError(loc) << "expected a config, which is a JSON object, found "
                   << json::describeKind(root->kind);
    return {};
  }
  const Family *family = readFamily(*root, loc, locationOf);
  if (!family)
    return {};
  LDBG() << "family " << family->name << ", as " << family->modelClass;
  return importFamily(*family, *root, fileName, options, context);
}
