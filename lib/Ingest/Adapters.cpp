//===- Adapters.cpp - Low-rank adapters and quantized base weights --------===//
//
// Adapters are built as the peft library adds them to a model of the
// transformers library: same names, same initial values, same formula. The rest
// is frozen, and its projections may be kept in 4-bit codes (Dettmers et al.
// 2023, "QLoRA").
//
//===----------------------------------------------------------------------===//

#include "LayerBuilder.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

/// The last component of a module's name.
static llvm::StringRef lastOf(llvm::StringRef module) {
  return module.take_back(module.size() - 1 - module.rfind('.'));
}

/// All but routers and the output layer, which peft and bitsandbytes leave
/// alone too.
static bool isProjection(llvm::StringRef module) {
  llvm::StringRef last = lastOf(module);
  return last != "gate" && last != "lm_head";
}

//===----------------------------------------------------------------------===//
// Quantized weights
//===----------------------------------------------------------------------===//

Value LayerBuilder::projection(const llvm::Twine &module,
                               llvm::ArrayRef<int64_t> shape, double std) {
  constexpr int64_t block = DequantizeOp::kBlock;
  std::string name = (module + ".weight").str();
  if (options.quantizeBase == "none" || !isProjection(module.str()))
    return weight(name, shape, std);
  if (shape.back() % block != 0) {
    if (found.obstacle.empty())
      found.obstacle =
          ("cannot quantize '" + llvm::Twine(name) +
           "': expected its last dimension to be a multiple of " +
           llvm::Twine(block) + ", found " + llvm::Twine(shape.back()))
              .str();
    return weight(name, shape, std);
  }
  llvm::SmallVector<int64_t> codes(shape), scales(shape);
  codes.back() /= 2;
  scales.back() /= block;
  Value c = param(name, codes, builder.getI8Type(), InitKind::Nf4, 0.0);
  // Numbers of all codes alike, times this, have the deviation of the weight.
  Value s = param(name + ".absmax", scales, f32(), InitKind::Constant,
                  std / DequantizeOp::getSpread());
  return DequantizeOp::create(builder, loc, RankedTensorType::get(shape, f32()),
                              c, s);
}

//===----------------------------------------------------------------------===//
// Adapters
//===----------------------------------------------------------------------===//

/// Whether peft would take `target` for this module.
static bool names(llvm::StringRef target, llvm::StringRef module) {
  if (target == "all-linear")
    return isProjection(module);
  return module == target || module.ends_with(("." + target).str());
}

/// What peft finds the module by that `target` names: an end of its name with
/// whole components. It has no pattern of layers.
static llvm::StringRef nameForPeft(llvm::StringRef target,
                                   llvm::StringRef module) {
  constexpr llvm::StringLiteral iteration = "{i}.";
  if (target == "all-linear")
    return lastOf(module);
  size_t at = target.rfind(iteration);
  return at == target.npos ? target : target.substr(at + iteration.size());
}

/// `model.layers.{i}.mlp` -> `model.layers.mlp`: draws are told apart by layer.
static std::string withoutIteration(llvm::StringRef module) {
  auto [before, after] = module.split("{i}.");
  return (before + after).str();
}

Value LayerBuilder::adapt(Value y, Value x, llvm::StringRef module,
                          bool isTransposed) {
  const LoraOptions &lora = *options.lora;
  found.linears.insert(lastOf(module).str());
  bool isTarget = false;
  for (const std::string &target : lora.targets)
    if (names(target, module)) {
      isTarget = true;
      found.targets.insert(target);
      found.adapted.insert(nameForPeft(target, module).str());
    }
  if (!isTarget)
    return y;
  found.isTransposed |= isTransposed;

  int64_t inputs = typeOf(x).getShape().back();
  int64_t outputs = typeOf(y).getShape().back();
  // kaiming_uniform_ with a = sqrt(5), as torch.nn.Linear starts.
  Value a = trainable(module + ".lora_A.weight", {lora.rank, inputs},
                      InitKind::Uniform, 1 / std::sqrt(inputs));
  Value b = trainable(module + ".lora_B.weight", {outputs, lora.rank},
                      InitKind::Zeros, 0.0);
  auto multiply = [&](Value in, Value weight) -> Value {
    return LinearOp::create(builder, loc, in, weight, /*bias=*/Value(),
                            /*transposed=*/UnitAttr());
  };
  Value in =
      dropout(x, withoutIteration(module) + ".lora_dropout", lora.dropout);
  Value inner = multiply(in, a);
  if (lora.alpha != lora.rank)
    inner = plain().mul(inner, lora.alpha / lora.rank);
  return plain().add(y, multiply(inner, b));
}

//===----------------------------------------------------------------------===//
// Whole models
//===----------------------------------------------------------------------===//

/// Text of the config with which the peft library loads the adapters. Targets
/// are those of the options, but for "all-linear", by which both would not mean
/// the same.
static std::string adapterConfig(const LoraOptions &lora,
                                 const AdapterNames &found) {
  json::Value targets = json::Value::makeArray();
  for (const std::string &module : found.adapted)
    targets.array.push_back(json::Value::fromString(module));
  json::Value root = json::Value::makeObject();
  auto set = [&](llvm::StringRef key, json::Value value) {
    root.set(key, std::move(value));
  };
  auto real = [](double x) {
    return x == std::floor(x) && x < 0x1p53
               ? json::Value::fromInteger(static_cast<int64_t>(x))
               : json::Value::fromNumber(x);
  };
  set("base_model_name_or_path", {});
  set("bias", json::Value::fromString("none"));
  set("fan_in_fan_out", json::Value::fromBool(found.isTransposed));
  set("inference_mode", json::Value::fromBool(true));
  set("lora_alpha", real(lora.alpha));
  set("lora_dropout", real(lora.dropout));
  set("peft_type", json::Value::fromString("LORA"));
  set("r", json::Value::fromInteger(lora.rank));
  set("target_modules", std::move(targets));
  set("task_type", json::Value::fromString("CAUSAL_LM"));
  return json::print(root, {/*indent=*/0});
}

LogicalResult LayerBuilder::finishAdapters() {
  Location unknown = UnknownLoc::get(builder.getContext());
  if (!found.obstacle.empty())
    return emitError(unknown) << found.obstacle;
  if (!options.lora)
    return success();
  for (const std::string &target : options.lora->targets) {
    if (found.targets.count(target))
      continue;
    InFlightDiagnostic diagnostic = emitError(unknown);
    diagnostic << "no linear layer is called " << json::quote(target)
               << ", which 'lora-targets' names";
    diagnostic.attachNote() << "expected all-linear, or some of "
                            << llvm::join(found.linears, ", ");
    return diagnostic;
  }
  model->setAttr(kAdapterAttrName,
                 builder.getStringAttr(adapterConfig(*options.lora, found)));
  return success();
}
