#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Real numbers
//===----------------------------------------------------------------------===//

FailureOr<Real> kerf::parseReal(AsmParser &parser) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  double sign = succeeded(parser.parseOptionalMinus()) ? -1 : 1;
  double value;
  int64_t integer;
  OptionalParseResult asInteger = parser.parseOptionalInteger(integer);
  if (asInteger.has_value()) {
    if (failed(*asInteger))
      return failure();
    return Real(sign * static_cast<double>(integer));
  }
  if (parser.parseFloat(value))
    return failure();
  if (!std::isfinite(value))
    return parser.emitError(loc, "expected a finite number"), failure();
  return Real(sign * value);
}

void kerf::printReal(AsmPrinter &printer, double value) {
  // The shortest of the forms that reads back; MLIR's lexer wants a point
  // before an exponent.
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value)
      break;
  }
  llvm::StringRef shortest(text);
  auto [mantissa, exponent] = shortest.split('e');
  printer << mantissa;
  if (!mantissa.contains('.'))
    printer << ".0";
  if (mantissa.size() != shortest.size())
    printer << 'e' << exponent;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

static LogicalResult expectRange(EmitError emitError, llvm::StringRef name,
                                 double value, double low, double high) {
  if (value >= low && value < high)
    return success();
  return emitError() << "expected " << name << " in [" << low << ", " << high
                     << "), found " << value;
}

static LogicalResult expectNotNegative(EmitError emitError,
                                       llvm::StringRef name, double value) {
  if (std::isfinite(value) && value >= 0)
    return success();
  return emitError() << "expected " << name << " >= 0, found " << value;
}

LogicalResult InitAttr::verify(EmitError emitError, InitKind kind, Real value) {
  bool positive = kind == InitKind::Normal || kind == InitKind::Uniform;
  if (positive)
    return expectNotNegative(emitError, stringifyInitKind(kind), value);
  if (kind != InitKind::Constant && value.value != 0)
    return emitError() << "expected no number after '"
                       << stringifyInitKind(kind) << "', found " << value;
  return success();
}

LogicalResult AdamWAttr::verify(EmitError emitError, Real beta1, Real beta2,
                                Real eps, Real weightDecay) {
  return success(
      succeeded(expectRange(emitError, "beta1", beta1, 0, 1)) &&
      succeeded(expectRange(emitError, "beta2", beta2, 0, 1)) &&
      succeeded(expectNotNegative(emitError, "eps", eps)) &&
      succeeded(expectNotNegative(emitError, "weight_decay", weightDecay)));
}

LogicalResult SGDAttr::verify(EmitError emitError, Real momentum, bool nesterov,
                              Real weightDecay) {
  if (nesterov && momentum.value == 0)
    return emitError() << "expected momentum > 0 with nesterov";
  return success(
      succeeded(expectRange(emitError, "momentum", momentum, 0, 1)) &&
      succeeded(expectNotNegative(emitError, "weight_decay", weightDecay)));
}

LogicalResult GroupAttr::verify(EmitError emitError, llvm::StringRef match,
                                Real weightDecay, Real rateScale) {
  if (match.empty())
    return emitError() << "expected a pattern of parameter names";
  return success(
      succeeded(expectNotNegative(emitError, "weight_decay", weightDecay)) &&
      succeeded(expectNotNegative(emitError, "rate_scale", rateScale)));
}

LogicalResult RopeLlama3Attr::verify(EmitError emitError, Real factor, Real low,
                                     Real high, Real original) {
  if (!(factor >= 1 && low > 0 && high > low && original >= 1))
    return emitError() << "expected factor >= 1, 0 < low < high and original "
                          ">= 1";
  return success();
}

LogicalResult RopeLinearAttr::verify(EmitError emitError, Real factor) {
  if (!(factor >= 1))
    return emitError() << "expected factor >= 1, found " << factor;
  return success();
}

LogicalResult RopeYarnAttr::verify(EmitError emitError, Real factor, Real low,
                                   Real high, Real magnitude) {
  if (!(factor >= 1 && low >= 0 && high > low && magnitude > 0 &&
        std::isfinite(magnitude)))
    return emitError() << "expected factor >= 1, 0 <= low < high and finite "
                          "magnitude > 0";
  return success();
}

//===----------------------------------------------------------------------===//
// Optimizer rules
//===----------------------------------------------------------------------===//

/// `w (1 - rate decay)`.
static Value decayed(PlainBuilder &p, Value param, Value rate, double decay) {
  if (decay == 0)
    return param;
  llvm::ArrayRef<int64_t> shape = typeOf(param).getShape();
  Value keep = p.sub(1.0, p.mul(rate, decay));
  return p.mul(param, p.broadcast(keep, {}, shape));
}

/// `decay a + (1 - decay) b`.
static Value average(PlainBuilder &p, double decay, Value a, Value b) {
  return p.add(p.mul(a, decay), p.mul(b, 1.0 - decay));
}

llvm::SmallVector<llvm::StringRef> AdamWAttr::getStateNames() const {
  return {"m", "v"};
}

llvm::SmallVector<Value> AdamWAttr::buildUpdate(OpBuilder &builder,
                                                Location loc, Value param,
                                                Value gradient,
                                                ValueRange state, Value rate,
                                                Value step) const {
  PlainBuilder p{builder, loc};
  llvm::ArrayRef<int64_t> shape = typeOf(param).getShape();
  Value m = average(p, getBeta1(), state[0], gradient);
  Value v = average(p, getBeta2(), state[1], p.mul(gradient, gradient));
  // 1 - beta^t in f64: the first steps leave few digits of it in f32.
  Value steps = p.cast(step, builder.getF64Type());
  auto correction = [&](double beta) {
    Value decay = p.pow(p.constant(steps.getType(), beta), steps);
    return p.cast(p.sub(1.0, decay), typeOf(step).getElementType());
  };
  Value root = p.broadcast(p.sqrt(correction(getBeta2())), {}, shape);
  Value scale = p.broadcast(p.div(rate, correction(getBeta1())), {}, shape);
  Value denominator = p.add(p.div(p.sqrt(v), root), getEps());
  Value kept = decayed(p, param, rate, getWeightDecay());
  return {p.sub(kept, p.mul(scale, p.div(m, denominator))), m, v};
}

Attribute AdamWAttr::withWeightDecay(double decay) const {
  return AdamWAttr::get(getContext(), getBeta1(), getBeta2(), getEps(), decay);
}

llvm::SmallVector<llvm::StringRef> SGDAttr::getStateNames() const {
  if (getMomentum() == 0)
    return {};
  return {"momentum"};
}

llvm::SmallVector<Value> SGDAttr::buildUpdate(OpBuilder &builder, Location loc,
                                              Value param, Value gradient,
                                              ValueRange state, Value rate,
                                              Value step) const {
  PlainBuilder p{builder, loc};
  Value kept = decayed(p, param, rate, getWeightDecay());
  Value rates = p.broadcast(rate, {}, typeOf(param).getShape());
  if (getMomentum() == 0)
    return {p.sub(kept, p.mul(rates, gradient))};
  Value velocity = p.add(p.mul(state[0], getMomentum()), gradient);
  Value direction = getNesterov()
                        ? p.add(gradient, p.mul(velocity, getMomentum()))
                        : velocity;
  return {p.sub(kept, p.mul(rates, direction)), velocity};
}

Attribute SGDAttr::withWeightDecay(double decay) const {
  return SGDAttr::get(getContext(), getMomentum(), getNesterov(), decay);
}
