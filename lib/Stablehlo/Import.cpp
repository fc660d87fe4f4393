//===- Import.cpp - a lowered function as a model -------------------------===//

#include "Arguments.h"
#include "Calls.h"
#include "Complexes.h"
#include "Converter.h"
#include "Stacks.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace kerf;
using namespace mlir;

bool kerf::isPrettyStablehlo(llvm::StringRef text) {
  return !text.contains("\"stablehlo.") && text.contains(" stablehlo.");
}

bool kerf::isStablehlo(llvm::StringRef text) {
  return text.contains("\"stablehlo.") || isPrettyStablehlo(text);
}

llvm::StringRef kerf::howToPrintStablehlo() {
  return "jax.jit(loss).lower(params, tokens, targets)"
         ".compiler_ir('stablehlo').operation.get_asm("
         "print_generic_op_form=True, enable_debug_info=True)";
}

/// What stands in the data for a target that the loss leaves out.
static constexpr int64_t kIgnoredTarget = -100;

/// A symbol of the function's name: `gpt_loss` of `jit_gpt_loss`.
static std::string modelNameOf(Operation *main,
                               const StablehloOptions &options) {
  if (!options.modelName.empty())
    return options.modelName;
  auto name = main->getParentOp()->getAttrOfType<StringAttr>("sym_name");
  llvm::StringRef text = name ? name.getValue() : "";
  text.consume_front("jit_");
  std::string symbol;
  for (char c : text.trim("_"))
    symbol += llvm::isAlnum(c) || c == '_' ? c : '_';
  return symbol.empty() ? "model" : symbol;
}

namespace {

/// Builds one model.
class ModelImport {
public:
  ModelImport(Operation *main, std::vector<Argument> arguments)
      : main(main), arguments(std::move(arguments)),
        builder(main->getContext()), loc(main->getParentOp()->getLoc()) {}

  OwningOpRef<ModuleOp> run(llvm::StringRef name) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    builder.setInsertionPointToStart(module->getBody());
    makeModel(name);
    Converter converter(builder, loc);
    if (failed(mapArguments(converter)))
      return {};
    Converted results = converter.convert(main->getRegion(0).front());
    if (failed(results) || failed(finish(*results)))
      return {};
    eraseUnread(); // what nobody uses reads no stack
    splitStacks(model);
    drawUnknown();
    if (failed(verify(*module)))
      return {};
    return module;
  }

private:
  void makeModel(llvm::StringRef name) {
    static const llvm::StringLiteral order[] = {"tokens", "targets", "segments",
                                                "positions", ""};
    for (llvm::StringRef role : order)
      for (const Argument &argument : arguments)
        if (!argument.isParameter && !argument.value.use_empty() &&
            argument.role == role)
          inputs.push_back(&argument);
    llvm::SmallVector<llvm::StringRef> roles;
    for (const Argument *input : inputs)
      roles.push_back(input->role);
    model = ModelOp::create(builder, loc, builder.getStringAttr(name),
                            builder.getStrArrayAttr(roles));
    Block &body = model.getBody().emplaceBlock();
    builder.setInsertionPointToStart(&body);
  }

  /// Kerf's data has no numbers but those of tokens, and of targets that the
  /// loss leaves out: a function that asks for those gets an answer.
  static IntRange rangeOf(const Argument &input,
                          llvm::ArrayRef<InputBound> bounds) {
    auto type = cast<IntegerType>(
        cast<ShapedType>(input.value.getType()).getElementType());
    const InputBound &bound = bounds[input.value.getArgNumber()];
    int64_t high = bound.rows < 0 ? INT32_MAX : bound.rows - 1;
    if (unsigned bits = type.getWidth() - !type.isUnsigned(); bits < 31)
      high = std::min<int64_t>(high, (int64_t(1) << bits) - 1);
    bool mayBeIgnored =
        input.role == "targets" && bound.isAsked && !type.isUnsigned();
    return {mayBeIgnored ? kIgnoredTarget : 0, high};
  }

  LogicalResult mapArguments(Converter &converter) {
    std::vector<InputBound> bounds = findBounds(main);
    for (const Argument *input : inputs) {
      Value value = model.getBody().front().addArgument(
          modelType(input->value.getType()), loc);
      converter.map(input->value, value);
      converter.b.setRange(value, rangeOf(*input, bounds));
    }
    for (const Argument &argument : arguments)
      if (argument.isParameter && !argument.value.use_empty()) {
        auto init = initOf(argument);
        if (failed(init))
          return failure();
        Value value = ParamOp::create(
            builder, loc, modelType(argument.value.getType()),
            builder.getStringAttr(argument.path), *init,
            argument.isFrozen ? builder.getUnitAttr() : UnitAttr(),
            /*master=*/TypeAttr());
        converter.map(argument.value, value);
      }
    return success();
  }

  FailureOr<InitAttr> initOf(const Argument &argument) {
    if (argument.init.empty()) {
      unknown.insert(argument.path);
      return cast<InitAttr>(parse("normal, 0.02"));
    }
    auto init = dyn_cast_or_null<InitAttr>(parse(argument.init));
    if (!init)
      return emitError(loc)
             << "'" << argument.init << "' is no initial value of '"
             << argument.path << "'";
    return init;
  }

  Attribute parse(llvm::StringRef init) {
    return parseAttribute(("#kerf.init<" + init + ">").str(),
                          builder.getContext());
  }

  LogicalResult finish(llvm::ArrayRef<Value> results) {
    for (Value result : results)
      if (typeOf(result).getRank() != 0 ||
          !typeOf(result).getElementType().isF32()) {
        InFlightDiagnostic error = emitError(loc);
        error << "the function returns " << result.getType()
              << ", expected the loss, a scalar, and scalars to report";
        error.attachNote() << "lower the loss function itself: Kerf "
                              "differentiates it and updates parameters";
        return failure();
      }
    ReturnOp::create(builder, loc, results);
    return success();
  }

  void eraseUnread() {
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(model.getBody().front())))
      if (isPure(&op) && op.use_empty() &&
          !op.hasTrait<OpTrait::IsTerminator>())
        op.erase();
  }

  /// The text has no values of parameters. Vectors that multiply begin as
  /// ones, others as zeros.
  void drawUnknown() {
    int64_t count = 0;
    for (ParamOp param : model.getBody().getOps<ParamOp>()) {
      if (!isUnknown(param.getName()))
        continue;
      ++count;
      if (typeOf(param.getResult()).getRank() < 2)
        param.setInitAttr(cast<InitAttr>(
            parse(multiplies(param.getResult()) ? "ones" : "zeros")));
    }
    if (count)
      model.emitRemark() << "initial values of " << count
                         << " parameters are not in the text: normal, 0.02; "
                            "vectors ones where they multiply, else zeros";
  }

  /// Parts of stacks have a number more.
  bool isUnknown(llvm::StringRef name) const {
    if (unknown.contains(name.str()))
      return true;
    auto parts = partsOf(name);
    for (size_t at = 0; at < parts.size(); ++at) {
      auto fewer = parts;
      fewer.erase(fewer.begin() + at);
      if (unknown.contains(llvm::join(fewer, ".")))
        return true;
    }
    return false;
  }

  static bool multiplies(Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (isa<ReshapeOp, BroadcastOp, TransposeOp>(user))
        return multiplies(user->getResult(0));
      return isa<MulOp>(user);
    });
  }

  Operation *main;
  std::vector<Argument> arguments;
  OpBuilder builder;
  Location loc;
  ModelOp model;
  llvm::SmallVector<const Argument *> inputs;
  std::set<std::string> unknown; ///< parameters whose values nobody told
};

} // namespace

OwningOpRef<ModuleOp> kerf::importStablehlo(ModuleOp source,
                                            const StablehloOptions &options) {
  Operation *main = findMain(source);
  if (!main || failed(inlineCalls(source, main)) ||
      failed(splitComplexNumbers(main)))
    return {};
  auto arguments = findArguments(main, options);
  if (failed(arguments))
    return {};
  return ModelImport(main, std::move(*arguments))
      .run(modelNameOf(main, options));
}
