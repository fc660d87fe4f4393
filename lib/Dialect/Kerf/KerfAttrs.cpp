#include "kerf/Dialect/Kerf/Kerf.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/GlobPattern.h"

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

LogicalResult AdamW8bitAttr::verify(EmitError emitError, Real beta1, Real beta2,
                                    Real eps, Real weightDecay, int64_t block,
                                    int64_t minElements) {
  if (block < 2 || block > kLargestBlock)
    return emitError() << "expected block from 2 to " << kLargestBlock
                       << ", found " << block;
  if (minElements < 0)
    return emitError() << "expected min_elements >= 0, found " << minElements;
  return AdamWAttr::verify(emitError, beta1, beta2, eps, weightDecay);
}

LogicalResult AdafactorAttr::verify(EmitError emitError, Real beta2Decay,
                                    Real eps1, Real eps2, Real clip,
                                    Real weightDecay) {
  if (!(beta2Decay <= 0 && std::isfinite(beta2Decay)))
    return emitError() << "expected beta2_decay <= 0, found " << beta2Decay;
  if (!(clip > 0 && std::isfinite(clip)))
    return emitError() << "expected clip > 0, found " << clip;
  return success(
      succeeded(expectNotNegative(emitError, "eps1", eps1)) &&
      succeeded(expectNotNegative(emitError, "eps2", eps2)) &&
      succeeded(expectNotNegative(emitError, "weight_decay", weightDecay)));
}

LogicalResult LionAttr::verify(EmitError emitError, Real beta1, Real beta2,
                               Real weightDecay) {
  return success(
      succeeded(expectRange(emitError, "beta1", beta1, 0, 1)) &&
      succeeded(expectRange(emitError, "beta2", beta2, 0, 1)) &&
      succeeded(expectNotNegative(emitError, "weight_decay", weightDecay)));
}

LogicalResult MuonAttr::verify(EmitError emitError, Real momentum, bool,
                               int64_t steps, Real, Real, Real, Real eps,
                               MuonRate, Real weightDecay) {
  if (steps < 1 || steps > 99)
    return emitError() << "expected steps from 1 to 99, found " << steps;
  if (!(eps > 0 && std::isfinite(eps)))
    return emitError() << "expected eps > 0, found " << eps;
  return success(
      succeeded(expectRange(emitError, "momentum", momentum, 0, 1)) &&
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

LogicalResult BalanceAttr::verify(EmitError emitError, Real rate, Real target) {
  return success(succeeded(expectNotNegative(emitError, "rate", rate)) &&
                 succeeded(expectNotNegative(emitError, "target", target)));
}

/// Only `*` and `?` are patterns.
static std::string escapedPattern(llvm::StringRef match) {
  std::string pattern;
  for (char c : match) {
    if (llvm::StringRef("{}[]\\").contains(c))
      pattern += '\\';
    pattern += c;
  }
  return pattern;
}

FailureOr<GroupAttr> kerf::groupOf(ModelOp model, llvm::StringRef name) {
  auto groups = model->getAttrOfType<ArrayAttr>("groups");
  if (!groups)
    return GroupAttr();
  for (GroupAttr group : groups.getAsRange<GroupAttr>()) {
    std::string pattern = escapedPattern(group.getMatch()); // glob refers to it
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return model.emitOpError() << "group pattern \"" << group.getMatch()
                                 << "\": " << toString(glob.takeError());
    if (glob->match(name))
      return group;
  }
  return GroupAttr();
}

LogicalResult GroupAttr::verify(EmitError emitError, llvm::StringRef match,
                                Real weightDecay, Real rateScale,
                                Attribute rule) {
  if (match.empty())
    return emitError() << "expected a pattern of parameter names";
  if (rule && !isa<OptimizerRuleInterface>(rule))
    return emitError() << "expected an optimizer rule, found " << rule;
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

LogicalResult RopeTableAttr::verify(EmitError emitError,
                                    DenseF64ArrayAttr frequencies,
                                    Real magnitude) {
  if (!(magnitude > 0 && std::isfinite(magnitude)) ||
      !llvm::all_of(frequencies.asArrayRef(),
                    [](double f) { return std::isfinite(f); }))
    return emitError() << "expected finite frequencies and magnitude > 0";
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
