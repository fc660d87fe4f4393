#include "kerf/Dialect/Kerf/Metrics.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfModelOps.cpp.inc"

//===----------------------------------------------------------------------===//
// model
//===----------------------------------------------------------------------===//

namespace {
/// What an input of a role must be.
struct Role {
  llvm::StringLiteral name;
  bool isScalar;
  bool isFloat;
};
} // namespace

static constexpr Role kRoles[] = {
    {"tokens", false, false},      {"targets", false, false},
    {"segments", false, false},    {"positions", false, false},
    {"seed", true, false},         {"step", true, false},
    {"learning_rate", true, true}, {"loss_scale", true, true}};

static const Role *findRole(llvm::StringRef name) {
  for (const Role &role : kRoles)
    if (role.name == name)
      return &role;
  return nullptr;
}

void ModelOp::getAsmBlockArgumentNames(Region &region,
                                       OpAsmSetValueNameFn setName) {
  for (auto [arg, role] : llvm::zip_first(
           region.getArguments(), getRoles().getAsValueRange<StringAttr>()))
    if (!role.empty())
      setName(arg, role);
}

ParseResult ModelOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(),
                             result.attributes))
    return failure();
  llvm::SmallVector<OpAsmParser::Argument> args;
  llvm::SmallVector<Attribute> roles;
  auto parseInput = [&]() -> ParseResult {
    llvm::StringRef role;
    if (failed(parser.parseOptionalKeyword(&role)))
      role = "";
    roles.push_back(parser.getBuilder().getStringAttr(role));
    return parser.parseArgument(args.emplace_back(), /*allowType=*/true);
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                     parseInput) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  result.addAttribute("roles", parser.getBuilder().getArrayAttr(roles));
  return parser.parseRegion(*result.addRegion(), args);
}

/// Attributes of a model: where they are long (a configuration is), each on a
/// line of its own, so that the model's line can be shown with an error.
static void printModelAttrs(OpAsmPrinter &p, ModelOp model) {
  constexpr size_t kLongLine = 100;
  llvm::SmallVector<NamedAttribute> shown;
  size_t length = 0;
  for (NamedAttribute named : model->getAttrs()) {
    if (named.getName() == "sym_name" || named.getName() == "roles")
      continue;
    shown.push_back(named);
    std::string text;
    llvm::raw_string_ostream(text) << named.getValue();
    length += named.getName().size() + text.size();
  }
  if (length <= kLongLine) {
    p.printOptionalAttrDictWithKeyword(shown);
    return;
  }
  p << " attributes {";
  p.increaseIndent();
  llvm::interleave(
      shown,
      [&](NamedAttribute named) {
        p.printNewline();
        p.printKeywordOrString(named.getName());
        if (!isa<UnitAttr>(named.getValue()))
          p << " = " << named.getValue();
      },
      [&] { p << ','; });
  p.decreaseIndent();
  p.printNewline();
  p << '}';
}

void ModelOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printSymbolName(getSymName());
  p << '(';
  auto roles = getRoles().getAsValueRange<StringAttr>();
  llvm::interleaveComma(llvm::zip(getBody().getArguments(), roles), p,
                        [&](auto input) {
                          auto [arg, role] = input;
                          if (!role.empty())
                            p << role << ' ';
                          p.printRegionArgument(arg);
                        });
  p << ')';
  printModelAttrs(p, *this);
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

BlockArgument ModelOp::getInput(llvm::StringRef role) {
  for (auto [index, name] :
       llvm::enumerate(getRoles().getAsValueRange<StringAttr>()))
    if (name == role)
      return getBody().getArgument(index);
  return {};
}

BlockArgument ModelOp::getOrAddInput(llvm::StringRef role, Type type) {
  if (BlockArgument input = getInput(role))
    return input;
  llvm::SmallVector<Attribute> roles(getRoles().getValue());
  Builder builder(getContext());
  roles.push_back(builder.getStringAttr(role));
  setRolesAttr(builder.getArrayAttr(roles));
  return getBody().addArgument(type, getLoc());
}

ReturnOp ModelOp::getReturn() {
  return cast<ReturnOp>(getBody().front().getTerminator());
}

std::string ReturnOp::getOutputName(unsigned index) {
  if (index == 0)
    return "loss";
  if (getResultLabel(getValues()[index]) == "grad norm")
    return "grad_norm";
  ArrayAttr names = getNamesAttr();
  if (names && index < names.size())
    if (auto name = cast<StringAttr>(names[index]).getValue(); !name.empty())
      return name.str();
  return "metric" + std::to_string(index);
}

/// Whether a value can be what its name says: numbers of each layer.
static bool fitsName(llvm::StringRef name, Value value) {
  std::optional<LayerMetric> metric = parseLayerMetric(name);
  return name.empty() ||
         (metric &&
          typeOf(value).getNumElements() % (metric->end - metric->start) == 0);
}

LogicalResult ReturnOp::verify() {
  llvm::StringSet<> seen;
  ArrayAttr names = getNamesAttr();
  for (unsigned index = 0; names && index < names.size(); ++index) {
    if (index >= getValues().size()) // return_c2
      return emitOpError() << "has more names than values, of which there are "
                           << getValues().size();
    llvm::StringRef name = cast<StringAttr>(names[index]).getValue();
    if (!fitsName(name, getValues()[index])) // return_c2
      return emitOpError() << "expected a name as \"expert_load "
                              "model.layers.{i}.mlp 0 to 4\" for numbers of "
                              "each layer, found \""
                           << name << "\" for " << getValues()[index].getType();
    if (!name.empty() && !seen.insert(name).second) // return_c2
      return emitOpError() << "has two values of the name \"" << name << "\"";
  }
  return success();
}

static LogicalResult verifyRole(ModelOp model, llvm::StringRef name,
                                BlockArgument input) {
  const Role *role = findRole(name);
  if (!role) { // model_c1
    auto diagnostic = mlir::emitError(input.getLoc())
                      << "unknown role '" << name << "' of a model input";
    std::string known;
    for (const Role &r : kRoles)
      known += (known.empty() ? "" : ", ") + r.name.str();
    diagnostic.attachNote() << "expected one of " << known;
    return diagnostic;
  }
  // model_c2
  auto type = dyn_cast<RankedTensorType>(input.getType());
  bool matches = type && type.hasStaticShape() &&
                 (!role->isScalar || type.getRank() == 0) &&
                 (role->isFloat ? type.getElementType().isF32()
                                : type.getElementType().isInteger(32));
  if (!matches)
    return mlir::emitError(input.getLoc())
           << "input '" << name << "' expected "
           << (role->isFloat    ? "tensor<f32>"
               : role->isScalar ? "tensor<i32>"
                                : "an i32 tensor")
           << ", found " << input.getType();
  return success();
}

static constexpr llvm::StringLiteral kModelTensor =
    "a tensor of f64, f32, bf16, f16, i32, i8 or i1 with static shape, rank <= "
    "16 "
    "and no encoding";

/// True for the tensors that models work on (`Kerf_Tensor`).
static bool isModelTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getRank() > 16 ||
      tensor.getEncoding())
    return false;
  Type e = tensor.getElementType();
  return e.isF64() || e.isF32() || e.isBF16() || e.isF16() || e.isInteger(32) ||
         e.isInteger(8) || e.isInteger(1) || isFloat8(type);
}

static LogicalResult verifyOptimizer(ModelOp model) { // model_c5
  Attribute clip = model->getAttr("clip_norm");
  auto number = dyn_cast_or_null<FloatAttr>(clip);
  if (clip && (!number || !std::isfinite(number.getValueAsDouble()) ||
               number.getValueAsDouble() < 0))
    return model.emitOpError() << "expected 'clip_norm' to be a finite number "
                                  ">= 0, found "
                               << clip;
  Attribute rule = model->getAttr("optimizer");
  if (rule && !isa<OptimizerRuleInterface>(rule))
    return model.emitOpError() << "expected 'optimizer' to be an update rule "
                                  "such as #kerf.adamw<>, found "
                               << rule;
  Attribute groups = model->getAttr("groups");
  auto array = dyn_cast_or_null<ArrayAttr>(groups);
  if (groups && (!array || !llvm::all_of(array, llvm::IsaPred<GroupAttr>)))
    return model.emitOpError()
           << "expected 'groups' to be an array of #kerf.group, found "
           << groups;
  return success();
}

static LogicalResult verifyOrder(ModelOp model) { // model_c8
  Attribute order = model->getAttr(kZigzagAttrName);
  auto zigzag = dyn_cast_or_null<ZigzagAttr>(order);
  bool fits = zigzag && zigzag.getDims() == llvm::ArrayRef<int64_t>{1};
  for (llvm::StringRef role : {"tokens", "targets", "segments", "positions"})
    if (BlockArgument input = model.getInput(role)) {
      auto type = cast<RankedTensorType>(input.getType());
      fits &= type.getRank() > 1 && zigzag &&
              type.getDimSize(1) == zigzag.getRows();
    }
  if (order && !fits)
    return model.emitOpError() << "expected 'zigzag' to be a #kerf.zigzag "
                                  "along [1] of its tokens, found "
                               << order;
  return success();
}

LogicalResult ModelOp::verify() {
  if (getRoles().size() != getBody().getNumArguments())
    return emitOpError("expected one role per input");
  llvm::StringSet<> seen;
  for (auto [input, name] :
       llvm::zip(getBody().getArguments(),
                 getRoles().getAsValueRange<StringAttr>())) {
    if (name.empty()) {
      if (!isModelTensor(input.getType()) || isFloat8(input.getType()))
        return mlir::emitError(input.getLoc())
               << "expected " << kModelTensor << " as input, found "
               << input.getType();
      continue;
    }
    if (failed(verifyRole(*this, name, input)))
      return failure();
    if (!seen.insert(name).second) // model_c1
      return mlir::emitError(input.getLoc())
             << "role '" << name << "' is given to a second input";
  }
  Attribute plan = (*this)->getAttr(kPlanAttrName);
  if (plan && !isa<PlanAttr>(plan)) // model_c7
    return emitOpError() << "expected 'plan' to be a #kerf.plan, found "
                         << plan;
  for (llvm::StringRef name :
       {kAdapterAttrName, kConfigAttrName, kTitleAttrName}) {
    Attribute text = (*this)->getAttr(name);
    if (text && !isa<StringAttr>(text)) // model_c9
      return emitOpError() << "expected '" << name << "' to be a string, found "
                           << text;
  }
  return failure(failed(verifyOptimizer(*this)) || failed(verifyOrder(*this)));
}

static bool agree(ParamOp a, ParamOp b) {
  return a.getResult().getType() == b.getResult().getType() &&
         a.getInit() == b.getInit() && a.getFrozen() == b.getFrozen() &&
         a.getMaster() == b.getMaster();
}

/// Updates of one parameter name must not overlap and must match the reads.
static LogicalResult verifyUpdates(ModelOp model,
                                   const llvm::StringMap<ParamOp> &params);

/// Ops of any dialect, but all on model tensors: passes rely on it.
static LogicalResult verifyBody(ModelOp model) { // model_c6
  WalkResult walk = model.getBody().walk([](Operation *op) {
    if (op->getNumRegions() > 0 && !isa<RepeatOp>(op)) {
      op->emitOpError("has a body, expected that of 'kerf.repeat' only inside "
                      "a 'kerf.model'");
      return WalkResult::interrupt();
    }
    for (Type type : op->getResultTypes())
      if (!isModelTensor(type)) {
        op->emitOpError() << "makes " << type << ", expected " << kModelTensor;
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult ModelOp::verifyRegions() {
  if (failed(verifyBody(*this)))
    return failure();
  auto terminator = dyn_cast<ReturnOp>(getBody().front().getTerminator());
  if (!terminator)
    return emitOpError("expected a 'kerf.return' at its end");
  ValueRange values = terminator.getValues();
  auto loss = values.empty()
                  ? RankedTensorType()
                  : dyn_cast<RankedTensorType>(values.front().getType());
  if (!loss || loss.getRank() != 0 || !isa<FloatType>(loss.getElementType()))
    return terminator.emitOpError( // model_c3
        "expected the scalar float loss as first value");
  for (Value value : values)
    if (isFloat8(value.getType()))
      return terminator.emitOpError()
             << "expected values of other types than 8-bit floats, found "
             << value.getType();
  llvm::StringMap<ParamOp> params;
  WalkResult walk = getBody().walk([&](ParamOp param) {
    auto [known, isNew] = params.try_emplace(param.getName(), param);
    if (isNew || agree(known->second, param))
      return WalkResult::advance();
    auto diagnostic = param.emitOpError() // model_c4
                      << "\"" << param.getName()
                      << "\" disagrees with another read of this parameter";
    diagnostic.attachNote(known->second.getLoc()) << "other read is here";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  return verifyUpdates(*this, params);
}

//===----------------------------------------------------------------------===//
// repeat and yield
//===----------------------------------------------------------------------===//

void RepeatOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setName) {
  if (region.getNumArguments() > 0)
    setName(region.getArgument(0), "i");
}

namespace {
/// `%arg = %operand : type` entries of a repeat.
struct Bindings {
  llvm::SmallVector<OpAsmParser::Argument> args;
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> operands;
  llvm::SmallVector<Type> types;
  llvm::SMLoc loc;
};
} // namespace

static ParseResult parseBindings(OpAsmParser &parser, Bindings &bindings) {
  bindings.loc = parser.getCurrentLocation();
  return parser.parseCommaSeparatedList(
      OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
        return failure(parser.parseArgument(bindings.args.emplace_back()) ||
                       parser.parseEqual() ||
                       parser.parseOperand(bindings.operands.emplace_back()) ||
                       parser.parseColonType(bindings.types.emplace_back()));
      });
}

/// Type of one slice of a stacked tensor; null when it has no dimension.
static Type sliceType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() == 0)
    return {};
  return withShape(type, tensor.getShape().drop_front());
}

/// The yield at the end of a body that nothing has verified yet, or null.
static YieldOp findSoundYield(Region &body) {
  if (body.empty() || body.front().empty())
    return {};
  auto yield = dyn_cast<YieldOp>(body.front().back());
  if (!yield || !llvm::all_of(yield->getOperandTypes(), isModelTensor))
    return {};
  auto [carried, stacked] = yield.getProperties().operandSegmentSizes;
  bool fits = carried >= 0 && stacked >= 0 &&
              int64_t(carried) + stacked == yield->getNumOperands();
  return fits ? yield : YieldOp();
}

ParseResult RepeatOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  OpAsmParser::Argument index;
  int64_t start, end;
  Bindings carried, slices;
  if (succeeded(parser.parseOptionalKeyword("reverse")))
    result.addAttribute("reverse", builder.getUnitAttr());
  if (parser.parseArgument(index) || parser.parseEqual() ||
      parser.parseInteger(start) || parser.parseKeyword("to") ||
      parser.parseInteger(end) || parseBindings(parser, carried))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("slices")) &&
      parseBindings(parser, slices))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("pair"))) {
    int64_t pair;
    if (parser.parseInteger(pair))
      return failure();
    result.addAttribute("pair", builder.getI64IntegerAttr(pair));
  }
  index.type = RankedTensorType::get({}, builder.getI32Type());
  llvm::SmallVector<OpAsmParser::Argument> args = {index};
  for (auto [arg, type] : llvm::zip(carried.args, carried.types)) {
    arg.type = type;
    args.push_back(arg);
  }
  for (auto [arg, type] : llvm::zip(slices.args, slices.types)) {
    arg.type = sliceType(type);
    if (!arg.type)
      return parser.emitError(slices.loc)
             << "expected a tensor of rank >= 1 to slice, found " << type;
    args.push_back(arg);
  }
  if (parser.resolveOperands(carried.operands, carried.types, carried.loc,
                             result.operands) ||
      parser.resolveOperands(slices.operands, slices.types, slices.loc,
                             result.operands))
    return failure();
  llvm::SMLoc bodyLoc = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseRegion(*result.addRegion(), args))
    return failure();
  result.addAttribute("start", builder.getI64IntegerAttr(start));
  result.addAttribute("end", builder.getI64IntegerAttr(end));
  result.addAttribute(getOperandSegmentSizeAttr(),
                      builder.getDenseI32ArrayAttr(
                          {static_cast<int32_t>(carried.operands.size()),
                           static_cast<int32_t>(slices.operands.size())}));
  // The results' types follow from the body.
  YieldOp yield = findSoundYield(*result.regions.front());
  if (!yield)
    return parser.emitError(
        bodyLoc, "expected a body that ends in a 'kerf.yield' of tensors");
  result.addTypes(yield.getCarried().getTypes());
  for (Type type : yield.getStacked().getTypes()) {
    llvm::SmallVector<int64_t> shape = {end - start};
    llvm::append_range(shape, cast<RankedTensorType>(type).getShape());
    if (end <= start)
      return parser.emitError(bodyLoc) // repeat_c1
             << "expected 0 <= start < end, found " << start << " to " << end;
    result.addTypes(withShape(type, shape));
  }
  return success();
}

static void printBindings(OpAsmPrinter &p, ValueRange args,
                          OperandRange operands) {
  p << '(';
  llvm::interleaveComma(llvm::zip(args, operands), p, [&](auto binding) {
    auto [arg, operand] = binding;
    p << arg << " = " << operand << " : " << operand.getType();
  });
  p << ')';
}

void RepeatOp::print(OpAsmPrinter &p) {
  if (getReverse())
    p << " reverse";
  p << ' ' << getIndex() << " = " << getStart() << " to " << getEnd() << ' ';
  printBindings(p, getCarryArgs(), getInits());
  if (!getSlices().empty()) {
    p << " slices";
    printBindings(p, getSliceArgs(), getSlices());
  }
  if (getPair())
    p << " pair " << *getPair();
  p.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {"start", "end", "reverse", "pair", getOperandSegmentSizeAttr()});
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

YieldOp RepeatOp::getYield() {
  return cast<YieldOp>(getBody().front().getTerminator());
}

llvm::SmallVector<Type> RepeatOp::inferResultTypes() {
  YieldOp yield = getYield();
  llvm::SmallVector<Type> types(yield.getCarried().getTypes());
  for (Type type : yield.getStacked().getTypes()) {
    llvm::SmallVector<int64_t> shape = {getCount()};
    llvm::append_range(shape, cast<RankedTensorType>(type).getShape());
    types.push_back(withShape(type, shape));
  }
  return types;
}

LogicalResult RepeatOp::verify() {
  constexpr int64_t limit = int64_t(1) << 31;
  if (getStart() < 0 || getEnd() <= getStart() || getEnd() > limit) // repeat_c1
    return emitOpError() << "expected 0 <= start < end, found " << getStart()
                         << " to " << getEnd();
  if ((*this)->getParentOfType<RepeatOp>()) // repeat_c4
    return emitOpError("is inside another 'kerf.repeat'; write the inner "
                       "layers out, with names such as {2*i+1}");
  for (Value slice : getSlices()) { // repeat_c2
    auto type = typeOf(slice);
    if (type.getRank() == 0 || type.getDimSize(0) != getCount())
      return emitOpError() << "expected slices with leading dimension "
                           << getCount() << ", found " << type;
  }
  return success();
}

LogicalResult RepeatOp::verifyRegions() {
  Block &block = getBody().front();
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield)
    return emitOpError("expected a 'kerf.yield' at the end of its body");
  // repeat_c5
  llvm::SmallVector<Type> expected = {
      RankedTensorType::get({}, IntegerType::get(getContext(), 32))};
  llvm::append_range(expected, getInits().getTypes());
  for (Type type : getSlices().getTypes())
    expected.push_back(sliceType(type));
  if (!llvm::equal(block.getArgumentTypes(), expected))
    return emitOpError("expected a body that takes the iteration number, the "
                       "carried values and the slices");
  if (!llvm::equal(yield.getCarried().getTypes(), getInits().getTypes())) {
    auto diagnostic = yield.emitOpError() // repeat_c3
                      << "expected carried values of types ("
                      << getInits().getTypes() << "), found ("
                      << yield.getCarried().getTypes() << ")";
    diagnostic.attachNote(getLoc()) << "values enter the repeat here";
    return diagnostic;
  }
  if (!llvm::equal(inferResultTypes(), getResultTypes()))
    return emitOpError("has results that do not follow from its yield");
  return success();
}

ParseResult YieldOp::parse(OpAsmParser &parser, OperationState &result) {
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> operands, stacked;
  llvm::SmallVector<Type> types;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(operands))
    return failure();
  int32_t carried = operands.size();
  if (succeeded(parser.parseOptionalKeyword("stack")) &&
      parser.parseOperandList(stacked, OpAsmParser::Delimiter::Paren))
    return failure();
  llvm::append_range(operands, stacked);
  if (parser.parseOptionalAttrDict(result.attributes) ||
      (!operands.empty() && parser.parseColonTypeList(types)) ||
      parser.resolveOperands(operands, types, loc, result.operands))
    return failure();
  for (Type type : types)
    if (!isModelTensor(type))
      return parser.emitError(loc)
             << "expected " << kModelTensor << ", found " << type;
  result.addAttribute(getOperandSegmentSizeAttr(),
                      parser.getBuilder().getDenseI32ArrayAttr(
                          {carried, static_cast<int32_t>(stacked.size())}));
  return success();
}

void YieldOp::print(OpAsmPrinter &p) {
  if (!getCarried().empty())
    p << ' ' << getCarried();
  if (!getStacked().empty())
    p << " stack(" << getStacked() << ')';
  p.printOptionalAttrDict((*this)->getAttrs(), {getOperandSegmentSizeAttr()});
  if (getNumOperands() > 0)
    p << " : " << getOperandTypes();
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

LogicalResult GlobalNormOp::verify() {
  if (getGradients().empty()) // global_norm_c1
    return emitOpError("expected at least one gradient");
  return success();
}

Factors GlobalNormOp::getFactors() {
  Factors facts(Positions::Ignored);
  FactorVariant squares{"sum_squares", {}};
  for (auto [i, gradient] : llvm::enumerate(getGradients())) {
    TensorFactors dims;
    for (auto [d, size] : llvm::enumerate(typeOf(gradient).getShape())) {
      unsigned f = facts.add("g" + std::to_string(i) + "_" + std::to_string(d),
                             size, FactorKind::Whole);
      dims.push_back({f});
      squares.factors.push_back(f);
    }
    facts.operands.push_back(dims);
  }
  facts.results.emplace_back();
  // The root of a sum is no sum of roots: parts sum squares, then take it.
  facts.variants.push_back(squares);
  return facts;
}

OpCost GlobalNormOp::getCost() {
  double elements = 0;
  for (Value gradient : getGradients())
    elements += typeOf(gradient).getNumElements();
  return costWithFlops(*this, 0, 2 * elements);
}

llvm::SmallVector<Value> GlobalNormOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value total;
  for (Value gradient : getGradients()) {
    Value g = p.widen(gradient);
    Value square = p.cast(p.sumAll(p.mul(g, g)), builder.getF32Type());
    total = total ? p.add(total, square) : square;
  }
  return {p.sqrt(total)};
}

LogicalResult ClipFactorOp::verify() {
  double max = getMax().convertToDouble();
  if (!std::isfinite(max) || max <= 0) // clip_factor_c1
    return emitOpError() << "expected a finite max > 0, found " << max;
  return success();
}

Factors ClipFactorOp::getFactors() {
  return pointwiseFactors(*this, Positions::Ignored);
}

llvm::SmallVector<Value> ClipFactorOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value ratio = p.div(getMax().convertToDouble(), p.add(getNorm(), 1e-6));
  return {p.min(ratio, 1.0)};
}

LogicalResult UpdateOp::verify() {
  // By name: this dialect does not know the one that programs are written in.
  Operation *parent = (*this)->getParentOp();
  if (!isa_and_nonnull<ModelOp>(parent) &&
      !(parent && parent->getName().getStringRef() == "spmd.func"))
    return emitOpError("expects parent op 'kerf.model' or 'spmd.func'");
  if (getStart().has_value() != hasIteration(getName())) // update_c2
    return emitOpError() << "\"" << getName() << "\" expected "
                         << (getStart() ? "an {i} in its name with "
                                          "[start to end]"
                                        : "[start to end] with {i} in its "
                                          "name");
  if (getStart().has_value() != getEnd().has_value())
    return emitOpError("expected 'start' and 'end' both or neither");
  auto type = typeOf(getGradient());
  if (getStart() &&
      (*getStart() < 0 || *getEnd() <= *getStart() || type.getRank() == 0 ||
       type.getDimSize(0) != *getEnd() - *getStart()))
    return emitOpError() << "[" << *getStart() << " to " << *getEnd()
                         << "] does not match gradient " << type;
  return success();
}

Factors UpdateOp::getFactors() {
  Factors facts(Positions::Ignored);
  TensorFactors dims;
  for (auto [d, size] : llvm::enumerate(typeOf(getGradient()).getShape()))
    dims.push_back({facts.add("g" + std::to_string(d), size)});
  facts.operands.push_back(dims);
  facts.operands.resize(getNumOperands());
  return facts;
}

llvm::SmallVector<StateTensor> UpdateOp::getStates() {
  Type type = getGradient().getType();
  return cast<OptimizerRuleInterface>(getRule()).getStates(
      cast<RankedTensorType>(getStart() ? sliceType(type) : type));
}

OpCost UpdateOp::getCost() {
  auto type = typeOf(getGradient());
  double elements = type.getNumElements();
  auto states = getStates();
  auto kept = double(bytesOf(states, type));
  // Gradient read; parameter (or master) and state read and written, in f32.
  return {0, 0, (4 + 4.0 * states.size()) * elements, 8 * elements + kept,
          4 * elements + kept};
}

/// The shape and type that the parameter of an update must have.
static Type updatedType(UpdateOp update) {
  Type type = update.getGradient().getType();
  if (update.getStart())
    type = sliceType(type);
  if (update.getParamType())
    type = withElement(type, *update.getParamType());
  return type;
}

static LogicalResult verifyUpdates(ModelOp model,
                                   const llvm::StringMap<ParamOp> &params) {
  llvm::StringMap<llvm::SmallVector<UpdateOp>> seen;
  for (UpdateOp update : model.getBody().getOps<UpdateOp>()) {
    ParamOp param = params.lookup(update.getName());
    if (!param || param.getFrozen()) // update_c1
      return update.emitOpError() << "of \"" << update.getName()
                                  << "\", which is no trainable parameter of "
                                     "this model";
    if (param.getResult().getType() != updatedType(update)) {
      auto diagnostic = update.emitOpError()
                        << "of \"" << update.getName() << "\" expected "
                        << param.getResult().getType() << ", found "
                        << updatedType(update);
      diagnostic.attachNote(param.getLoc()) << "parameter is read here";
      return diagnostic;
    }
    auto type = typeOf(param.getResult());
    auto rule = cast<OptimizerRuleInterface>(update.getRule());
    llvm::StringRef fit = rule.misfit(type, type.getShape());
    if (!fit.empty()) { // update_c5
      auto diagnostic = update.emitOpError()
                        << "of \"" << update.getName() << "\" expected " << fit
                        << ", which " << update.getRule() << " updates, found "
                        << type;
      diagnostic.attachNote(param.getLoc())
          << "give it another rule: a group of the model, or --group='"
          << update.getName() << ":optimizer=adamw'";
      return diagnostic;
    }
    for (UpdateOp other : seen[update.getName()]) // update_c3
      if (!update.getStart() || (*update.getStart() < *other.getEnd() &&
                                 *other.getStart() < *update.getEnd()))
        return update.emitOpError()
               << "updates \"" << update.getName() << "\" a second time";
    seen[update.getName()].push_back(update);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

LogicalResult CheckCloseOp::verify() {
  double tolerance = getTolerance().convertToDouble();
  if (!std::isfinite(tolerance) || tolerance < 0) // check_close_c2
    return emitOpError() << "expected a finite tolerance >= 0, found "
                         << tolerance;
  return success();
}
