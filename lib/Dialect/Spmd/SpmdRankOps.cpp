#include "Axes.h"

#include "kerf/Dialect/Kerf/MatmulEnd.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::spmd;

/// `[dp * 4, micro * 2]`.
static ParseResult parseStrides(OpAsmParser &parser, ArrayAttr &axes,
                                DenseI64ArrayAttr &strides) {
  llvm::SmallVector<Attribute> names;
  llvm::SmallVector<int64_t> values;
  auto parseTerm = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseStar() ||
        parser.parseInteger(values.emplace_back()))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseTerm))
    return failure();
  axes = parser.getBuilder().getArrayAttr(names);
  strides = parser.getBuilder().getDenseI64ArrayAttr(values);
  return success();
}

static void printStrides(OpAsmPrinter &printer, Operation *, ArrayAttr axes,
                         DenseI64ArrayAttr strides) {
  printer << '[';
  llvm::interleaveComma(
      llvm::zip(axes.getAsRange<StringAttr>(), strides.asArrayRef()), printer,
      [&](auto term) {
        printer.printKeywordOrString(std::get<0>(term).getValue());
        printer << " * " << std::get<1>(term);
      });
  printer << ']';
}

#define GET_OP_CLASSES
#include "kerf/Dialect/Spmd/SpmdRankOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Inputs, buffers and outputs
//===----------------------------------------------------------------------===//

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *source = symbols.lookupNearestSymbolFrom(*this, getSourceAttr());
  Type type = getResult().getType();
  bool fits = false;
  if (auto input = dyn_cast_or_null<InputOp>(source))
    fits = type == input.getLocalType() || type == input.getStepType();
  if (auto buffer = dyn_cast_or_null<BufferOp>(source))
    fits = type == buffer.getLocalType();
  if (!fits) // read_c1
    return emitOpError() << "of @" << getSource()
                         << ", which is no input or buffer of type " << type;
  return success();
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *target = symbols.lookupNearestSymbolFrom(*this, getTargetAttr());
  Type type = getValue().getType();
  bool fits = false;
  if (auto output = dyn_cast_or_null<OutputOp>(target))
    fits = type == output.getLocalType();
  if (auto buffer = dyn_cast_or_null<BufferOp>(target))
    fits = type == buffer.getLocalType();
  if (!fits) // write_c1
    return emitOpError() << "to @" << getTarget()
                         << ", which is no buffer or output of type " << type;
  return success();
}

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *target = symbols.lookupNearestSymbolFrom(*this, getTargetAttr());
  Type type = getValue().getType();
  bool fits = false;
  if (auto output = dyn_cast_or_null<OutputOp>(target))
    fits = type == output.getLocalType() && output.getKind() == OutputKind::Sum;
  if (auto buffer = dyn_cast_or_null<BufferOp>(target))
    fits =
        type == buffer.getLocalType() && buffer.getKind() == BufferKind::Step;
  if (!fits) // accumulate_c1
    return emitOpError() << "into @" << getTarget()
                         << ", which is no step buffer or 'sum' output of type "
                         << type;
  return success();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Checks the axes of a collective in a program; returns their size.
static FailureOr<int64_t> verifyGroup(Operation *op, ArrayAttr axes,
                                      bool allowMicro = false) {
  ProgramOp program = programOf(op);
  if (!program)
    return op->emitOpError("stands outside a 'spmd.program'");
  if (axes.empty())
    return op->emitOpError("expected at least one axis");
  if (failed(verifyAxes(op, program, axes, allowMicro)))
    return failure();
  return program.getAxesSize(axes);
}

static LogicalResult verifyDim(Operation *op, Value x, int64_t dim) {
  int64_t rank = typeOf(x).getRank();
  if (dim >= 0 && dim < rank)
    return success();
  return op->emitOpError() << "expected a dimension in [0, " << rank
                           << "), found " << dim;
}

/// The result must be x with `dim` changed by this ratio.
static LogicalResult verifyScaled(Operation *op, Value x, int64_t dim,
                                  int64_t times, int64_t parts) {
  auto type = typeOf(x);
  llvm::SmallVector<int64_t> shape(type.getShape());
  bool divides = shape[dim] * times % parts == 0;
  shape[dim] = shape[dim] * times / parts;
  auto expected = withShape(type, shape);
  if (divides && expected == op->getResult(0).getType())
    return success();
  return op->emitOpError() << "expected a result of dimension " << dim
                           << " times " << times << " over " << parts
                           << ", found " << type << " to "
                           << op->getResult(0).getType();
}

bool spmd::isExchange(Operation *op) {
  return isa_and_nonnull<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp,
                         RotateOp>(op);
}

bool spmd::isStarted(Operation *op) {
  return isExchange(op) && op->hasOneUse() &&
         isa<WaitOp>(*op->getUsers().begin());
}

LogicalResult AllReduceOp::verify() { // all_reduce_c1
  return verifyGroup(*this, getAxes());
}

LogicalResult AllGatherOp::verify() {
  auto size = verifyGroup(*this, getAxes());
  if (failed(size) || failed(verifyDim(*this, getX(), getDim())))
    return failure();
  return verifyScaled(*this, getX(), getDim(), *size, 1); // all_gather_c2
}

LogicalResult ReduceScatterOp::verify() {
  auto size = verifyGroup(*this, getAxes());
  if (failed(size) || failed(verifyDim(*this, getX(), getDim())))
    return failure();
  return verifyScaled(*this, getX(), getDim(), 1, *size); // reduce_scatter_c2
}

LogicalResult AllToAllOp::verify() {
  auto size = verifyGroup(*this, getAxes());
  if (failed(size) || failed(verifyDim(*this, getX(), getSplit())) ||
      failed(verifyDim(*this, getX(), getConcat())))
    return failure();
  if (getSplit() == getConcat())
    return emitOpError() << "expected two different dimensions, found "
                         << getSplit() << " twice";
  auto type = typeOf(getX());
  llvm::SmallVector<int64_t> shape(type.getShape());
  bool divides = shape[getSplit()] % *size == 0;
  shape[getSplit()] /= *size;
  shape[getConcat()] *= *size;
  auto expected = withShape(type, shape);
  if (!divides || expected != getResult().getType()) // all_to_all_c2
    return emitOpError() << "expected a result of type " << expected
                         << ", found " << getResult().getType();
  return success();
}

LogicalResult SliceOwnOp::verify() {
  auto size = verifyGroup(*this, getAxes(), /*allowMicro=*/true);
  if (failed(size) || failed(verifyDim(*this, getX(), getDim())))
    return failure();
  return verifyScaled(*this, getX(), getDim(), 1, *size); // slice_own_c2
}

LogicalResult RotateOp::verify() { // rotate_c1
  return verifyGroup(*this, getAxes());
}

LogicalResult WaitOp::verify() { // wait_c1
  Operation *collective = getStarted().getDefiningOp();
  if (!isExchange(collective) || collective->getBlock() != (*this)->getBlock())
    return emitOpError("expected the result of a collective of its block");
  if (!getStarted().hasOneUse())
    return emitOpError("expected a result that nothing else reads");
  if (collective->getOperand(0) != getKept())
    return emitOpError("keeps another value than its collective reads");
  for (Operation *op = collective; op != *this; op = op->getNextNode())
    if (!op || isa<RepeatOp>(op))
      return emitOpError("expected no 'kerf.repeat' since its collective");
  return success();
}

/// Another stage of the pipeline that a message goes to or comes from.
static LogicalResult verifyStage(Operation *op, int64_t stage) {
  ProgramOp program = programOf(op);
  if (!program)
    return op->emitOpError("stands outside a 'spmd.program'");
  if (stage >= 0 && stage < program.getStageCount() &&
      stage != static_cast<int64_t>(program.getStage()))
    return success();
  return op->emitOpError() << "expected another stage below "
                           << program.getStageCount() << ", found " << stage;
}

LogicalResult SendOp::verify() { // send_c1
  return verifyStage(*this, getTo());
}

LogicalResult RecvOp::verify() { // recv_c1
  return verifyStage(*this, getFrom());
}

LogicalResult GatherParamOp::verify() {
  ProgramOp program = programOf(*this);
  auto param = program ? program.getParam(getName(), getStart().value_or(0))
                       : spmd::ParamOp();
  if (!param || !param.getStateAxes() ||
      param.getWeightAxes()) // gather_param_c1
    return emitOpError() << "of \"" << getName()
                         << "\", which is declared as no parameter with "
                            "'state' and without 'weights'";
  return success();
}

LogicalResult OffsetOp::verify() {
  ProgramOp program = programOf(*this);
  if (!program)
    return emitOpError("stands outside a 'spmd.program'");
  if (failed(verifyAxes(*this, program, getAxes(), /*allowMicro=*/true)))
    return failure();
  if (IntegerAttr modulo = getModuloAttr();
      modulo && modulo.getInt() <= 0) // offset_c2
    return emitOpError() << "expected a positive modulus, found "
                         << modulo.getInt();
  if (getAxes().size() != getStrides().size()) // offset_c1
    return emitOpError() << "expected one stride per axis, found "
                         << getStrides().size() << " of " << getAxes().size();
  return success();
}

//===----------------------------------------------------------------------===//
// fused
//===----------------------------------------------------------------------===//

/// `(%arg = %value : type, ...) -> (types) attributes {...} { body }`
static ParseResult parseRegionOp(OpAsmParser &parser, OperationState &result) {
  llvm::SmallVector<OpAsmParser::Argument> args;
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> operands;
  llvm::SmallVector<Type> types, results;
  llvm::SMLoc loc = parser.getCurrentLocation();
  auto parseInput = [&]() -> ParseResult {
    return failure(parser.parseArgument(args.emplace_back()) ||
                   parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()) ||
                   parser.parseColonType(types.emplace_back()));
  };
  auto parseResult = [&] { return parser.parseType(results.emplace_back()); };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseInput) ||
      parser.parseArrow() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseResult))
    return failure();
  for (auto [arg, type] : llvm::zip(args, types))
    arg.type = type;
  result.addTypes(results);
  return failure(
      parser.resolveOperands(operands, types, loc, result.operands) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseRegion(*result.addRegion(), args));
}

static void printRegionOp(OpAsmPrinter &p, Operation *op) {
  Region &body = op->getRegion(0);
  p << " (";
  llvm::interleaveComma(
      llvm::zip(body.getArguments(), op->getOperands()), p, [&](auto input) {
        auto [arg, value] = input;
        p << arg << " = " << value << " : " << value.getType();
      });
  p << ") -> (" << op->getResultTypes() << ')';
  p.printOptionalAttrDictWithKeyword(op->getAttrs());
  p << ' ';
  p.printRegion(body, /*printEntryBlockArgs=*/false);
}

static LogicalResult verifyRegionOp(Operation *op) {
  Block &block = op->getRegion(0).front();
  if (!llvm::equal(block.getArgumentTypes(),
                   op->getOperandTypes())) // fused_c1 fused_matmul_c1
    return op->emitOpError("expected a body that takes the operands");
  auto yield =
      block.empty() ? spmd::YieldOp() : dyn_cast<spmd::YieldOp>(block.back());
  if (!yield || !llvm::equal(yield.getValues().getTypes(),
                             op->getResultTypes())) // fused_c2 fused_matmul_c2
    return op->emitOpError("expected a 'spmd.yield' of the results' types at "
                           "the end of its body");
  return success();
}

ParseResult FusedOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseRegionOp(parser, result);
}

void FusedOp::print(OpAsmPrinter &p) { printRegionOp(p, *this); }

LogicalResult FusedOp::verifyRegions() { return verifyRegionOp(*this); }

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

ParseResult FusedMatmulOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseRegionOp(parser, result);
}

void FusedMatmulOp::print(OpAsmPrinter &p) { printRegionOp(p, *this); }

/// What a sum adds, before a cast.
static Value summedBy(ReduceOp reduce) {
  auto cast = reduce.getX().getDefiningOp<CastOp>();
  return cast ? cast.getX() : reduce.getX();
}

/// The f32 scalars from outside whose product, cast or not, `scale` is.
static void collectScales(Value scale, llvm::SmallVectorImpl<Value> &scales) {
  if (auto cast = scale.getDefiningOp<CastOp>())
    return collectScales(cast.getX(), scales);
  if (auto mul = scale.getDefiningOp<MulOp>()) {
    collectScales(mul.getLhs(), scales);
    return collectScales(mul.getRhs(), scales);
  }
  scales.push_back(scale);
}

/// Fills the parts of a matmul that is scaled; they stay empty in a body that
/// has others.
static MatmulParts scaledParts(MulOp scaled) {
  MatmulParts parts;
  auto factor = scaled.getRhs().getDefiningOp<BroadcastOp>();
  Operation *matmul = scaled.getLhs().getDefiningOp();
  if (!factor || !factor.getDims().empty() ||
      !isa_and_nonnull<LinearOp, MatmulOp, EinsumOp>(matmul))
    return parts;
  collectScales(factor.getX(), parts.scales);
  bool isAlone = llvm::all_of(
      scaled->getBlock()->without_terminator(), [&](Operation &op) {
        return &op == scaled || &op == factor || &op == matmul ||
               (isa<CastOp, MulOp>(op) &&
                typeOf(op.getResult(0)).getRank() == 0);
      });
  bool fits = isAlone && parts.scales.size() <= 2 &&
              llvm::all_of(parts.scales, [](Value scale) {
                auto type = typeOf(scale);
                return isa<BlockArgument>(scale) && type.getRank() == 0 &&
                       type.getElementType().isF32();
              });
  if (fits) {
    parts.matmul = matmul;
    parts.scaled = scaled;
  }
  return parts;
}

MatmulParts FusedMatmulOp::getParts() {
  MatmulParts parts, none;
  ValueRange yields = getBody().front().back().getOperands();
  if (yields.size() == 1)
    if (auto scaled = yields[0].getDefiningOp<MulOp>())
      return scaledParts(scaled);
  for (Operation &op : getBody().front().without_terminator()) {
    if (isa<LinearOp, MatmulOp, EinsumOp>(op) && !parts.matmul) {
      parts.matmul = &op;
    } else if (auto gelu = dyn_cast<GeluOp>(op); gelu && !parts.gelu) {
      parts.gelu = gelu;
    } else if (auto backward = dyn_cast<GeluBackwardOp>(op);
               backward && !parts.geluBackward) {
      parts.geluBackward = backward;
    } else if (auto sum = dyn_cast<ReduceOp>(op); sum && !parts.rowSum) {
      parts.rowSum = sum;
    } else if (!isa<CastOp>(op) || !op.hasOneUse() ||
               !isa<ReduceOp>(*op.user_begin())) {
      return none;
    }
  }
  if (!parts.matmul ||
      (parts.rowSum && matmulEndOf(parts.rowSum) != MatmulEnd::RowSum) ||
      (parts.gelu && (parts.geluBackward || parts.rowSum)) ||
      (!parts.gelu && !parts.geluBackward && !parts.rowSum))
    return none;
  if (parts.rowSum && !parts.geluBackward) {
    auto operands = parts.matmul->getOperands().take_front(2);
    auto at = llvm::find(operands, summedBy(parts.rowSum));
    if (at == operands.end())
      return none;
    parts.summedOperand = at - operands.begin();
  }
  return parts;
}

/// A type that libraries have epilogues for.
static bool isEpilogueNumber(Type element) {
  return element.isF32() || element.isBF16() || element.isF16();
}

/// True where one library call can multiply a matmul of what comes from
/// outside by scalars: 8-bit floats of both types, or one type; one matrix.
static bool isOneScaledCall(MatmulParts &parts) {
  std::optional<MatmulForm> form = getMatmulForm(parts.matmul);
  ValueRange operands = parts.matmul->getOperands();
  auto elementOf = [](Value value) { return typeOf(value).getElementType(); };
  if (!form || form->batch != 1 || operands.size() != 2 ||
      !llvm::all_of(operands, llvm::IsaPred<BlockArgument>))
    return false;
  bool isNarrow = llvm::all_of(
      operands, [](Value operand) { return isFloat8(operand.getType()); });
  return isNarrow || (elementOf(operands[0]) == elementOf(operands[1]) &&
                      isEpilogueNumber(elementOf(operands[0])));
}

/// True where one library call can compute the parts: a matmul of what comes
/// from outside, in one type, without a batch, over the rows that are summed.
static bool isOneCall(MatmulParts &parts) {
  auto isOutside = [](Value value) { return isa<BlockArgument>(value); };
  auto elementOf = [](Value value) { return typeOf(value).getElementType(); };
  Operation *matmul = parts.matmul;
  Value result = matmul->getResult(0);
  Type element = elementOf(matmul->getOperand(0));
  std::optional<MatmulForm> form = getMatmulForm(matmul);
  bool hasGelu = parts.gelu || parts.geluBackward;
  auto isOfType = [&](Value value) { return elementOf(value) == element; };
  if (!form || form->batch != 1 || !isEpilogueNumber(element) ||
      !llvm::all_of(matmul->getOperands(), isOutside) ||
      !llvm::all_of(matmul->getOperands(), isOfType) ||
      (hasGelu && elementOf(result) != element) ||
      (parts.geluBackward && !isOutside(parts.geluBackward.getX())))
    return false;
  if (!parts.rowSum)
    return true;
  int64_t columns = typeOf(parts.rowSum.getX()).getShape().back();
  return parts.summedOperand
             ? sumsOverRows(*form, *parts.summedOperand, columns)
             : form->n == columns;
}

/// The results that a matmul with these parts may have, in order.
static bool hasResultsOf(MatmulParts &parts, ValueRange yields) {
  if (parts.scaled) // found by the result
    return true;
  Value matmul = parts.matmul->getResult(0);
  if (GeluOp gelu = parts.gelu)
    return gelu.getX() == matmul && matmulEndOf(gelu) == MatmulEnd::Gelu &&
           !yields.empty() && yields[0] == gelu.getResult() &&
           (yields.size() == 1 || (yields.size() == 2 && yields[1] == matmul));
  if (parts.matmul->getNumOperands() > 2) // a bias
    return false;
  Value first = matmul;
  if (GeluBackwardOp backward = parts.geluBackward) {
    first = backward.getResult();
    if (backward.getDy() != matmul || backward.getX() == matmul ||
        matmulEndOf(backward) != MatmulEnd::GeluBackward ||
        (parts.rowSum && summedBy(parts.rowSum) != first))
      return false;
  }
  if (parts.rowSum)
    return yields.size() == 2 && yields[0] == first &&
           yields[1] == parts.rowSum.getResult();
  return yields.size() == 1 && yields[0] == first;
}

LogicalResult FusedMatmulOp::verifyRegions() {
  if (failed(verifyRegionOp(*this)))
    return failure();
  MatmulParts parts = getParts();
  auto isCall = [&] {
    return parts.scaled ? isOneScaledCall(parts) : isOneCall(parts);
  };
  if (!parts.matmul || !isCall() ||
      !hasResultsOf(parts, getBody().front().back().getOperands()))
    return emitOpError( // fused_matmul_c3
        "expected a body of one matmul and its epilogue: a tanh gelu, a tanh "
        "gelu_backward with or without the sum of its rows, the sum of the "
        "rows of one factor, or a matmul by f32 scalars; as results the "
        "matrix, then what else is read");
  return success();
}
