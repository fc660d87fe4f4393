#include "kerf/Dialect/Kerf/Constants.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace kerf;

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfPointwiseOps.cpp.inc"

using Operands = llvm::ArrayRef<const HostTensor *>;
using Results = llvm::MutableArrayRef<HostTensor>;

template <typename Fn>
static void mapUnary(Operands operands, Results results, Fn fn) {
  for (int64_t i = 0, n = results[0].size(); i < n; ++i)
    results[0].data[i] = fn(operands[0]->data[i]);
}

template <typename Fn>
static void mapBinary(Operands operands, Results results, Fn fn) {
  for (int64_t i = 0, n = results[0].size(); i < n; ++i)
    results[0].data[i] = fn(operands[0]->data[i], operands[1]->data[i]);
}

//===----------------------------------------------------------------------===//
// One operand: meaning and gradient as a table
//===----------------------------------------------------------------------===//

/// EXPR is the value at x; ELEMENT the same built by s; GRADIENT the operand's
/// gradient from the builder p, the operand x, the result y and the result's
/// gradient dy.
#define KERF_UNARY(Op, EXPR, ELEMENT, EXPENSIVE, GRADIENT, ...)                \
  Factors Op::getFactors() {                                                   \
    return pointwiseFactors(*this, Positions::Ignored, {__VA_ARGS__});         \
  }                                                                            \
  void Op::evaluate(Operands operands, Results results) {                      \
    mapUnary(operands, results, [](double x) { return EXPR; });                \
  }                                                                            \
  Value Op::buildElement(ScalarBuilder &s, llvm::ArrayRef<Value> elements) {   \
    Value x = elements[0];                                                     \
    return ELEMENT;                                                            \
  }                                                                            \
  bool Op::isExpensive() { return EXPENSIVE; }                                 \
  LogicalResult Op::buildGradient(GradientBuilder &gradients) {                \
    PlainBuilder p{gradients.builder(), getLoc()};                             \
    Value x = getX(), y = getResult(), dy = gradients.of(getResult());         \
    (void)x, (void)y;                                                          \
    gradients.add(getX(), GRADIENT);                                           \
    return success();                                                          \
  }

static Value reciprocal(ScalarBuilder &s, Value x) {
  return s.div(s.number(x, 1), x);
}

KERF_UNARY(NegOp, -x, s.neg(x), false, p.neg(dy), 0)
KERF_UNARY(ExpOp, std::exp(x), s.exp(x), true, p.mul(dy, y))
KERF_UNARY(LogOp, std::log(x), s.log(x), true, p.div(dy, x))
KERF_UNARY(SqrtOp, std::sqrt(x), s.sqrt(x), false, p.div(p.mul(dy, 0.5), y))
KERF_UNARY(RsqrtOp, 1 / std::sqrt(x), reciprocal(s, s.sqrt(x)), false,
           p.mul(p.mul(dy, -0.5), p.mul(y, p.mul(y, y))))
KERF_UNARY(TanhOp, std::tanh(x), s.tanh(x), true,
           p.mul(dy, p.sub(1.0, p.mul(y, y))))
KERF_UNARY(ErfOp, std::erf(x), s.erf(x), true,
           p.mul(p.mul(dy, M_2_SQRTPI), p.exp(p.neg(p.mul(x, x)))))
KERF_UNARY(SinOp, std::sin(x), s.sin(x), true, p.mul(dy, p.cos(x)))
KERF_UNARY(CosOp, std::cos(x), s.cos(x), true, p.neg(p.mul(dy, p.sin(x))))
KERF_UNARY(LogisticOp, 1 / (1 + std::exp(-x)),
           reciprocal(s, s.add(s.exp(s.neg(x)), s.number(x, 1))), true,
           p.mul(p.mul(dy, y), p.sub(1.0, y)))
#undef KERF_UNARY

Factors StopGradientOp::getFactors() {
  return pointwiseFactors(*this, Positions::Ignored, {0});
}

void StopGradientOp::evaluate(Operands operands, Results results) {
  mapUnary(operands, results, [](double x) { return x; });
}

Value StopGradientOp::buildElement(ScalarBuilder &s,
                                   llvm::ArrayRef<Value> elements) {
  return elements[0];
}

LogicalResult StopGradientOp::buildGradient(GradientBuilder &gradients) {
  return success();
}

bool StopGradientOp::stopsGradient() { return true; }

// Operand and result are checked by their types. // power_of_two_c1
Factors PowerOfTwoOp::getFactors() {
  return pointwiseFactors(*this, Positions::Ignored);
}

static double powerOfTwo(double x) {
  int power = 127;
  if (std::isfinite(x) && x != 0) {
    double mantissa = std::frexp(x, &power); // magnitude in [0.5, 1)
    power -= std::abs(mantissa) == 0.5 ? 1 : 0;
  }
  return std::ldexp(1.0, x == 0 ? -126 : std::clamp(power, -126, 127));
}

void PowerOfTwoOp::evaluate(Operands operands, Results results) {
  mapUnary(operands, results, powerOfTwo);
}

Value PowerOfTwoOp::buildElement(ScalarBuilder &s,
                                 llvm::ArrayRef<Value> elements) {
  return s.powerOfTwo(elements[0]);
}

//===----------------------------------------------------------------------===//
// Two operands
//===----------------------------------------------------------------------===//

/// EXPR is the value at a and b, METHOD the scalar builder's.
#define KERF_BINARY(Op, EXPR, METHOD, EXPENSIVE, FACTORS)                      \
  Factors Op::getFactors() { return FACTORS; }                                 \
  void Op::evaluate(Operands operands, Results results) {                      \
    bool isInteger = isa<IntegerType>(results[0].type.getElementType());       \
    (void)isInteger;                                                           \
    mapBinary(operands, results,                                               \
              [&](double a, double b) -> double { return EXPR; });             \
  }                                                                            \
  Value Op::buildElement(ScalarBuilder &s, llvm::ArrayRef<Value> elements) {   \
    return s.METHOD(elements[0], elements[1]);                                 \
  }                                                                            \
  bool Op::isExpensive() { return EXPENSIVE; }

/// Integer division rounds down; by zero it gives zero.
static double divide(double a, double b, bool isInteger) {
  if (!isInteger)
    return a / b;
  return b == 0 ? 0 : std::floor(a / b);
}

/// The low 32 bits of an integer product are exact; a product of doubles would
/// round them away.
static double multiply(double a, double b, bool isInteger) {
  if (!isInteger)
    return a * b;
  auto product = static_cast<int64_t>(a) * static_cast<int64_t>(b);
  return static_cast<int32_t>(static_cast<uint32_t>(product));
}

/// NaN in either operand gives NaN, as in numerical libraries.
static double larger(double a, double b) {
  return std::isnan(a) || a >= b ? a : b;
}
static double smaller(double a, double b) {
  return std::isnan(a) || a <= b ? a : b;
}

/// Factors of an op that is linear in all of `operands` at once.
static Factors jointFactors(Operation *op, llvm::ArrayRef<unsigned> operands) {
  Factors facts = pointwiseFactors(op, Positions::Ignored, operands);
  facts.jointly = true;
  return facts;
}

static bool isInteger(Value value) {
  return isa<IntegerType>(typeOf(value).getElementType());
}

/// Factors of an op that is linear in its first operand, on floats; rounding to
/// 8 bits is too coarse to count as such.
static Factors roundedFactors(Operation *op) {
  bool rounds = isInteger(op->getOperand(0)) || isInteger(op->getResult(0)) ||
                isFloat8(op->getResult(0).getType());
  return pointwiseFactors(op, Positions::Ignored,
                          rounds ? llvm::ArrayRef<unsigned>()
                                 : llvm::ArrayRef<unsigned>{0});
}

KERF_BINARY(AddOp, a + b, add, false, jointFactors(*this, {0, 1}))
KERF_BINARY(SubOp, a - b, sub, false, jointFactors(*this, {0, 1}))
KERF_BINARY(MulOp, multiply(a, b, isInteger), mul, false,
            pointwiseFactors(*this, Positions::Ignored, {0, 1}))
KERF_BINARY(DivOp, divide(a, b, isInteger), div, false, roundedFactors(*this))
KERF_BINARY(MaxOp, larger(a, b), max, false,
            pointwiseFactors(*this, Positions::Ignored))
KERF_BINARY(MinOp, smaller(a, b), min, false,
            pointwiseFactors(*this, Positions::Ignored))
KERF_BINARY(PowOp, std::pow(a, b), pow, true,
            pointwiseFactors(*this, Positions::Ignored))
#undef KERF_BINARY

LogicalResult AddOp::buildGradient(GradientBuilder &gradients) {
  Value dy = gradients.of(getResult());
  gradients.add(getLhs(), dy);
  gradients.add(getRhs(), dy);
  return success();
}

LogicalResult SubOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  gradients.add(getLhs(), dy);
  if (gradients.needs(getRhs()))
    gradients.add(getRhs(), p.neg(dy));
  return success();
}

LogicalResult MulOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  if (gradients.needs(getLhs()))
    gradients.add(getLhs(), p.mul(dy, getRhs()));
  if (gradients.needs(getRhs()))
    gradients.add(getRhs(), p.mul(dy, getLhs()));
  return success();
}

LogicalResult DivOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value da = p.div(gradients.of(getResult()), getRhs());
  gradients.add(getLhs(), da);
  if (gradients.needs(getRhs()))
    gradients.add(getRhs(), p.neg(p.mul(da, getResult())));
  return success();
}

/// Gradient of max and min: to the operand that was taken. Where both are
/// equal, to the left one, or half of it to each.
static LogicalResult choiceGradient(GradientBuilder &gradients, Operation *op,
                                    CompareKind takesLeft, bool sharesTies) {
  PlainBuilder p{gradients.builder(), op->getLoc()};
  Value a = op->getOperand(0), b = op->getOperand(1);
  Value dy = gradients.of(op->getResult(0));
  Value zero = p.constant(dy.getType(), 0.0);
  Value left = p.compare(takesLeft, a, b);
  if (!sharesTies) {
    gradients.add(a, p.select(left, dy, zero));
    gradients.add(b, p.select(left, zero, dy));
    return success();
  }
  Value part = p.select(p.compare(CompareKind::EQ, a, b), p.mul(dy, 0.5), dy);
  gradients.add(a, p.select(left, part, zero));
  gradients.add(b, p.select(p.compare(takesLeft, b, a), part, zero));
  return success();
}

LogicalResult MaxOp::buildGradient(GradientBuilder &gradients) {
  return choiceGradient(gradients, *this, CompareKind::GE, getShareTies());
}

LogicalResult MinOp::buildGradient(GradientBuilder &gradients) {
  return choiceGradient(gradients, *this, CompareKind::LE, getShareTies());
}

//===----------------------------------------------------------------------===//
// Choice and types
//===----------------------------------------------------------------------===//

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          llvm::SmallVectorImpl<Type> &types) {
  types.push_back(
      withElement(adaptor.getLhs().getType(), IntegerType::get(context, 1)));
  return success();
}

Factors CompareOp::getFactors() {
  return pointwiseFactors(*this, Positions::Ignored);
}

bool kerf::holds(CompareKind kind, double a, double b) {
  switch (kind) {
  case CompareKind::EQ:
    return a == b;
  case CompareKind::NE:
    return a != b;
  case CompareKind::LT:
    return a < b;
  case CompareKind::LE:
    return a <= b;
  case CompareKind::GT:
    return a > b;
  case CompareKind::GE:
    return a >= b;
  }
  llvm_unreachable("covered switch");
}

void CompareOp::evaluate(Operands operands, Results results) {
  mapBinary(operands, results,
            [&](double a, double b) { return holds(getKind(), a, b); });
}

Relation kerf::relationOf(CompareKind kind) {
  switch (kind) {
  case CompareKind::EQ:
    return Relation::EQ;
  case CompareKind::NE:
    return Relation::NE;
  case CompareKind::LT:
    return Relation::LT;
  case CompareKind::LE:
    return Relation::LE;
  case CompareKind::GT:
    return Relation::GT;
  case CompareKind::GE:
    return Relation::GE;
  }
  llvm_unreachable("covered switch");
}

Value CompareOp::buildElement(ScalarBuilder &s,
                              llvm::ArrayRef<Value> elements) {
  return s.compare(relationOf(getKind()), elements[0], elements[1]);
}

LogicalResult SelectOp::inferReturnTypes(MLIRContext *context,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         llvm::SmallVectorImpl<Type> &types) {
  auto condition = cast<RankedTensorType>(adaptor.getCondition().getType());
  auto choice = cast<RankedTensorType>(adaptor.getOnTrue().getType());
  if (condition.getShape() != choice.getShape()) // select_c1
    return emitOptionalError(loc,
                             "'kerf.select' expected a condition shaped "
                             "like the choices ",
                             choice, ", found ", condition);
  types.push_back(choice);
  return success();
}

/// `%c, %a, %b : tensor<4xf32>`: the choices' type tells the condition's.
ParseResult SelectOp::parse(OpAsmParser &parser, OperationState &result) {
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> operands;
  RankedTensorType type;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(operands, 3) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type))
    return failure();
  Type condition = withElement(type, parser.getBuilder().getI1Type());
  result.addTypes(type);
  return parser.resolveOperands(operands, {condition, type, type}, loc,
                                result.operands);
}

void SelectOp::print(OpAsmPrinter &p) {
  p << ' ' << getOperands();
  p.printOptionalAttrDict((*this)->getAttrs());
  p << " : " << getResult().getType();
}

Factors SelectOp::getFactors() { return jointFactors(*this, {1, 2}); }

void SelectOp::evaluate(Operands operands, Results results) {
  for (int64_t i = 0, n = results[0].size(); i < n; ++i)
    results[0].data[i] = operands[operands[0]->data[i] != 0 ? 1 : 2]->data[i];
}

Value SelectOp::buildElement(ScalarBuilder &s, llvm::ArrayRef<Value> elements) {
  return s.select(elements[0], elements[1], elements[2]);
}

LogicalResult SelectOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  Value zero = p.constant(dy.getType(), 0.0);
  if (gradients.needs(getOnTrue()))
    gradients.add(getOnTrue(), p.select(getCondition(), dy, zero));
  if (gradients.needs(getOnFalse()))
    gradients.add(getOnFalse(), p.select(getCondition(), zero, dy));
  return success();
}

Factors CastOp::getFactors() { return roundedFactors(*this); }

void CastOp::evaluate(Operands operands, Results results) {
  Type element = results[0].type.getElementType();
  bool toInteger = element.isInteger(32) || element.isInteger(8);
  mapUnary(operands, results,
           [&](double x) { return toInteger ? std::trunc(x) : x; });
}

bool CastOp::isConversion() { return true; }

Value CastOp::buildElement(ScalarBuilder &s, llvm::ArrayRef<Value> elements) {
  return s.cast(elements[0], typeOf(getX()).getElementType(),
                typeOf(getResult()).getElementType());
}

LogicalResult CastOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Type element = typeOf(getX()).getElementType();
  gradients.add(getX(), p.cast(gradients.of(getResult()), element));
  return success();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  return {};
}
