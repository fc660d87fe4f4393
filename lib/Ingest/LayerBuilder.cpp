#include "LayerBuilder.h"

using namespace kerf;
using namespace mlir;

Activation kerf::readActivation(ConfigReader &config, llvm::StringRef field,
                                llvm::StringRef absent) {
  static constexpr std::pair<llvm::StringLiteral, Activation> known[] = {
      {"gelu", Activation::GeluExact},
      {"gelu_new", Activation::GeluTanh},
      {"gelu_python", Activation::GeluExact},
      {"gelu_python_tanh", Activation::GeluTanh},
      {"gelu_pytorch_tanh", Activation::GeluTanh},
      {"relu", Activation::Relu},
      {"relu2", Activation::SquaredRelu},
      {"silu", Activation::Silu},
      {"squared_relu", Activation::SquaredRelu},
      {"swish", Activation::Silu},
  };
  std::string name = config.string(field, absent);
  std::string names;
  for (auto [spelling, kind] : known) {
    if (name == spelling)
      return kind;
    names += (names.empty() ? "" : ", ") + spelling.str();
  }
  InFlightDiagnostic diagnostic = config.error(field);
  diagnostic << "unsupported activation " << json::quote(name) << " in field '"
             << field << "'";
  diagnostic.attachNote() << "expected one of " << names;
  return Activation::Silu;
}

LayerBuilder::LayerBuilder(ModelOp model, const ConfigReader &config,
                           const ImportOptions &options)
    : model(model), config(config), options(options),
      builder(OpBuilder::atBlockEnd(&model.getBody().front())),
      loc(model.getLoc()) {}

void LayerBuilder::enter(const llvm::Twine &module, llvm::StringRef field) {
  loc = NameLoc::get(builder.getStringAttr(module), config.locationOf(field));
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

Value LayerBuilder::param(const llvm::Twine &name,
                          llvm::ArrayRef<int64_t> shape, Type element,
                          InitKind kind, double value) {
  auto init = InitAttr::get(builder.getContext(), kind, value);
  UnitAttr frozen = options.lora ? builder.getUnitAttr() : UnitAttr();
  return ParamOp::create(builder, loc, RankedTensorType::get(shape, element),
                         builder.getStringAttr(name), init, frozen,
                         /*master=*/TypeAttr());
}

Value LayerBuilder::trainable(const llvm::Twine &name,
                              llvm::ArrayRef<int64_t> shape, InitKind kind,
                              double value) {
  Value read = param(name, shape, f32(), kind, value);
  read.getDefiningOp<ParamOp>().setFrozen(false);
  return read;
}

Value LayerBuilder::weight(const llvm::Twine &name,
                           llvm::ArrayRef<int64_t> shape, double std) {
  return param(name, shape, f32(), InitKind::Normal, std);
}

Value LayerBuilder::ones(const llvm::Twine &name, int64_t size) {
  return param(name, {size}, f32(), InitKind::Ones, 0.0);
}

Value LayerBuilder::zeros(const llvm::Twine &name,
                          llvm::ArrayRef<int64_t> shape) {
  return param(name, shape, f32(), InitKind::Zeros, 0.0);
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

Value LayerBuilder::linear(Value x, const llvm::Twine &module,
                           LinearForm form) {
  int64_t inputs = typeOf(x).getShape().back();
  llvm::SmallVector<int64_t> shape = {form.outputs, inputs};
  if (form.isTransposed)
    std::swap(shape[0], shape[1]);
  Value w = projection(module, shape, form.std);
  Value bias = form.hasBias ? zeros(module + ".bias", form.outputs) : Value();
  UnitAttr transposed = form.isTransposed ? builder.getUnitAttr() : UnitAttr();
  Value y = LinearOp::create(builder, loc, x, w, bias, transposed);
  return options.lora ? adapt(y, x, module.str(), form.isTransposed) : y;
}

Value LayerBuilder::layerNorm(Value x, const llvm::Twine &module, double eps) {
  int64_t size = typeOf(x).getShape().back();
  Value gain = ones(module + ".weight", size);
  Value bias = zeros(module + ".bias", size);
  return LayerNormOp::create(builder, loc, x, gain, bias,
                             builder.getF64FloatAttr(eps));
}

Value LayerBuilder::rmsNorm(Value x, const llvm::Twine &module, double eps) {
  Value gain = ones(module + ".weight", typeOf(x).getShape().back());
  return RmsNormOp::create(builder, loc, x, gain, builder.getF64FloatAttr(eps));
}

Value LayerBuilder::norm(NormForm form, Value x, const llvm::Twine &module,
                         double eps) {
  int64_t size = typeOf(x).getShape().back();
  FloatAttr small = builder.getF64FloatAttr(eps);
  switch (form) {
  case NormForm::Rms:
    return rmsNorm(x, module, eps);
  case NormForm::RmsPlusOne: {
    Value gain = plain().add(zeros(module + ".weight", size), 1.0);
    return RmsNormOp::create(builder, loc, x, gain, small);
  }
  case NormForm::Layer:
    return layerNorm(x, module, eps);
  case NormForm::LayerPlusOne: {
    // The library begins with weights of 1.
    Value gain = plain().add(ones(module + ".weight", size), 1.0);
    Value bias = zeros(module + ".bias", size);
    return LayerNormOp::create(builder, loc, x, gain, bias, small);
  }
  case NormForm::LayerWithoutBias: {
    Value gain = ones(module + ".weight", size);
    return LayerNormOp::create(builder, loc, x, gain, /*bias=*/Value(), small);
  }
  }
  llvm_unreachable("every form is built above");
}

Value LayerBuilder::seed() {
  return model.getOrAddInput("seed",
                             RankedTensorType::get({}, builder.getI32Type()));
}

Value LayerBuilder::step() {
  return model.getOrAddInput("step",
                             RankedTensorType::get({}, builder.getI32Type()));
}

Value LayerBuilder::dropout(Value x, llvm::StringRef name, double rate) {
  if (rate == 0)
    return x;
  Value seedInput = seed();
  return DropoutOp::create(builder, loc, x, builder.getF64FloatAttr(rate),
                           builder.getStringAttr(name), seedInput, step(),
                           layer, /*offsets=*/ValueRange(),
                           /*global=*/DenseI64ArrayAttr(),
                           /*zigzag=*/ZigzagAttr());
}

Value LayerBuilder::activation(Activation kind, Value x) {
  switch (kind) {
  case Activation::GeluTanh:
    return GeluOp::create(builder, loc, GeluKind::Tanh, x);
  case Activation::GeluExact:
    return GeluOp::create(builder, loc, GeluKind::Exact, x);
  case Activation::Silu:
    return SiluOp::create(builder, loc, x);
  case Activation::SquaredRelu:
    return SquaredReluOp::create(builder, loc, x);
  case Activation::Relu:
    return plain().max(plain().constant(x.getType(), 0.0), x);
  }
  llvm_unreachable("every activation is built above");
}

Value LayerBuilder::gated(Activation kind, Value gate, Value up) {
  if (kind == Activation::Silu)
    return SwigluOp::create(builder, loc, gate, up);
  return plain().mul(activation(kind, gate), up);
}

Value LayerBuilder::gatedMlp(Value x, const llvm::Twine &module,
                             Activation kind, LinearForm wide) {
  Value gate = linear(x, module + ".gate_proj", wide);
  Value up = linear(x, module + ".up_proj", wide);
  LinearForm narrow = wide;
  narrow.outputs = typeOf(x).getShape().back();
  return linear(gated(kind, gate, up), module + ".down_proj", narrow);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

Value LayerBuilder::channels(Value x, int64_t start, int64_t size) {
  llvm::SmallVector<int64_t> sizes(typeOf(x).getShape());
  llvm::SmallVector<int64_t> offsets(sizes.size(), 0);
  offsets.back() = start;
  sizes.back() = size;
  return plain().slice(x, offsets, sizes);
}

Value LayerBuilder::splitHeads(Value x, int64_t heads) {
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  return plain().reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
}

Value LayerBuilder::joinHeads(Value x) {
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  return plain().reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
}

Value LayerBuilder::attention(Value q, Value k, Value v, llvm::StringRef module,
                              AttentionForm form) {
  llvm::SmallVector<Value, 2> segments;
  Value parts = input("segments");
  if (form.chunk && *form.chunk < options.seq)
    parts = plain().chunks({options.batch, options.seq}, *form.chunk, parts);
  if (parts)
    segments.assign(2, parts);
  // A window that reaches over the whole sequence hides nothing.
  IntegerAttr window;
  if (form.window && *form.window < options.seq)
    window = builder.getI64IntegerAttr(*form.window);
  Value seedInput, stepInput, layerInput;
  StringAttr name;
  FloatAttr rate;
  if (form.dropout != 0) {
    seedInput = seed();
    stepInput = step();
    layerInput = layer;
    name = builder.getStringAttr(module + ".dropout");
    rate = builder.getF64FloatAttr(form.dropout);
  }
  auto real = [&](std::optional<double> value) {
    return value ? builder.getF64FloatAttr(*value) : FloatAttr();
  };
  auto op = AttentionOp::create(
      builder, loc, q, k, v, segments, /*offsets=*/ValueRange(), seedInput,
      stepInput, layerInput, /*causal=*/builder.getUnitAttr(), window,
      real(form.scale), real(form.softcap), rate, name,
      /*global=*/DenseI64ArrayAttr(),
      /*lse=*/form.sinks ? builder.getUnitAttr() : UnitAttr(),
      /*zigzag=*/ZigzagAttr());
  if (!form.sinks)
    return op.getResult();
  return AttentionSinkOp::create(builder, loc, op.getResult(),
                                 op.getLogSumExp(), form.sinks)
      .getResult();
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

RepeatOp LayerBuilder::repeat(
    int64_t start, int64_t end, ValueRange inits, TypeRange stackedTypes,
    llvm::function_ref<llvm::SmallVector<Value>(ValueRange)> body) {
  llvm::SmallVector<Type> results(inits.getTypes());
  for (Type type : stackedTypes) {
    llvm::SmallVector<int64_t> shape = {end - start};
    llvm::append_range(shape, cast<RankedTensorType>(type).getShape());
    results.push_back(withShape(type, shape));
  }
  Location repeatLoc = loc;
  auto op = RepeatOp::create(builder, loc, results, inits,
                             /*slices=*/ValueRange(),
                             builder.getI64IntegerAttr(start),
                             builder.getI64IntegerAttr(end),
                             /*reverse=*/UnitAttr(), /*pair=*/IntegerAttr());
  Block &block = op.getBody().emplaceBlock();
  block.addArgument(RankedTensorType::get({}, builder.getI32Type()), loc);
  for (Type type : inits.getTypes())
    block.addArgument(type, loc);

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&block);
  layer = block.getArgument(0);
  llvm::SmallVector<Value> values = body(block.getArguments().drop_front());
  layer = Value();
  loc = repeatLoc;
  YieldOp::create(builder, loc, ValueRange(values).take_front(inits.size()),
                  ValueRange(values).drop_front(inits.size()));
  return op;
}

void LayerBuilder::finish(Value logits, Value aux, double coefficient) {
  enter("loss", "vocab_size");
  PlainBuilder p = plain();
  constexpr int64_t ignored = -100;
  auto ignore =
      IntegerAttr::get(builder.getIntegerType(64, /*isSigned=*/true), ignored);
  Value targets = input("targets");
  Value count = CountValidOp::create(builder, loc, targets, ignore);
  Value crossEntropy = CrossEntropyOp::create(
      builder, loc, logits, targets, count, /*offset=*/Value(), ignore,
      builder.getF64FloatAttr(options.zLoss));
  if (!aux) {
    ReturnOp::create(builder, loc, crossEntropy);
    return;
  }
  Value loss = p.add(crossEntropy, p.mul(aux, coefficient));
  ReturnOp::create(builder, loc, ValueRange{loss, crossEntropy, aux});
}
