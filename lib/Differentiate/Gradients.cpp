#include "Gradients.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "llvm/ADT/StringExtras.h"

#include <limits>
#include <map>
#include <set>

using namespace mlir;
using namespace kerf;

void ParamGradients::add(OpBuilder &builder, ParamGradient gradient) {
  for (ParamGradient &known : gradients) {
    if (known.name != gradient.name || known.start != gradient.start ||
        known.end != gradient.end)
      continue;
    known.gradient = PlainBuilder{builder, gradient.gradient.getLoc()}.add(
        known.gradient, gradient.gradient);
    setPhase(known.gradient.getDefiningOp(), PhaseKind::WeightGradient, -1);
    return;
  }
  gradients.push_back(gradient);
}

namespace {
/// The iterations in which a pattern names parameters.
struct NamedRange {
  ParamOp param;
  int64_t start = 0, end = 1;

  explicit NamedRange(ParamOp param) : param(param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    if (!repeat || !param.isPerIteration())
      return;
    start = repeat.getStart();
    end = repeat.getEnd();
  }
  bool isSame(NamedRange other) {
    return param.getNameAttr() == other.param.getNameAttr() &&
           start == other.start && end == other.end;
  }
};
} // namespace

/// The name with `#` for every number and every form: what two patterns that
/// name one parameter have in common.
static std::string skeletonOf(llvm::StringRef pattern) {
  std::string skeleton;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{')
      i = std::min(pattern.find('}', i), pattern.size() - 1);
    else if (!llvm::isDigit(pattern[i])) {
      skeleton += pattern[i];
      continue;
    }
    if (!llvm::StringRef(skeleton).ends_with("#"))
      skeleton += '#';
  }
  return skeleton;
}

/// Those of all tensors of a parameter.
static std::set<std::string> skeletonsOf(ParamOp param) {
  llvm::StringRef pattern = param.getName();
  std::set<std::string> skeletons;
  int64_t members =
      isStacked(pattern) ? typeOf(param.getResult()).getDimSize(0) : 1;
  for (int64_t n = 0; n < members; ++n)
    skeletons.insert(skeletonOf(expandName(pattern, 0, n)));
  return skeletons;
}

static LogicalResult refuseNames(NamedRange a, NamedRange b,
                                 llvm::StringRef name) {
  auto print = [](Diagnostic &os, NamedRange range) {
    os << "\"" << range.param.getName() << '"';
    if (range.param.isPerIteration())
      os << " of iterations " << range.start << " to " << range.end;
  };
  InFlightDiagnostic diagnostic = a.param.emitOpError();
  diagnostic << "reads parameter \"" << name << "\" as ";
  print(*diagnostic.getUnderlyingDiagnostic(), a);
  Diagnostic &note = diagnostic.attachNote(b.param.getLoc());
  note << "another read of it is ";
  print(note, b);
  note << "; one parameter has one gradient, so read it under one name, in the "
          "same iterations";
  return diagnostic;
}

/// Fails where two of the ranges, which have one skeleton, name one parameter.
static LogicalResult compareNames(llvm::ArrayRef<NamedRange> ranges) {
  constexpr int64_t limit = 1 << 16; // of iterations or experts looked at
  llvm::StringMap<NamedRange> readers;
  for (NamedRange range : ranges) {
    llvm::StringRef pattern = range.param.getName();
    int64_t experts =
        isStacked(pattern) ? typeOf(range.param.getResult()).getDimSize(0) : 1;
    for (int64_t n = 0; n < limit && n < (range.end - range.start) * experts;
         ++n) {
      std::string name =
          expandName(pattern, range.start + n / experts, n % experts);
      auto [known, isNew] = readers.try_emplace(name, range);
      bool isFrozen =
          range.param.getFrozen() && known->second.param.getFrozen();
      if (!isNew && !isFrozen)
        return refuseNames(range, known->second, name);
    }
  }
  return success();
}

LogicalResult kerf::checkNames(ModelOp model) {
  std::map<std::string, llvm::SmallVector<NamedRange, 1>> groups;
  model.getBody().walk([&](ParamOp param) {
    NamedRange range(param);
    for (const std::string &skeleton : skeletonsOf(param)) {
      auto &group = groups[skeleton];
      if (llvm::none_of(group, [&](NamedRange r) { return range.isSame(r); }))
        group.push_back(range);
    }
  });
  for (auto &[skeleton, ranges] : groups)
    if (ranges.size() > 1 && failed(compareNames(ranges)))
      return failure();
  return success();
}

namespace {
/// The rule of one parameter.
struct Rule {
  OptimizerRuleInterface rule;
  double rateScale = 1;
};
} // namespace

/// The model's optimizer with the weight decay of the first group whose
/// pattern matches.
static FailureOr<Rule> ruleFor(ModelOp model, llvm::StringRef name) {
  auto base = cast<OptimizerRuleInterface>(model->getAttr("optimizer"));
  FailureOr<GroupAttr> group = groupOf(model, name);
  if (failed(group))
    return failure();
  if (!*group)
    return Rule{base, 1};
  auto own = dyn_cast_or_null<OptimizerRuleInterface>(group->getRule());
  Attribute rule = (own ? own : base).withWeightDecay(group->getWeightDecay());
  return Rule{cast<OptimizerRuleInterface>(rule), group->getRateScale()};
}

/// Every trainable parameter read in the model must have a gradient for each
/// iteration it is read in.
static LogicalResult checkComplete(ModelOp model,
                                   const ParamGradients &params) {
  WalkResult walk = model.getBody().walk([&](ParamOp param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    bool complete = param.getFrozen();
    for (const ParamGradient &gradient : params.get())
      complete |=
          gradient.name == param.getNameAttr() &&
          (!gradient.start ||
           (*gradient.start <= static_cast<int64_t>(repeat.getStart()) &&
            *gradient.end >= static_cast<int64_t>(repeat.getEnd())));
    if (complete)
      return WalkResult::advance();
    auto diagnostic = param.emitOpError()
                      << "\"" << param.getName()
                      << "\" is trainable but does not reach the loss";
    diagnostic.attachNote() << "remove it, or mark it 'frozen'";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

namespace {
/// What the updates of a step have in common.
struct Common {
  Value factor;    ///< on all gradients; null: 1
  Value condition; ///< whether they take place; null: they do
};
} // namespace

/// Appends the norm of the loss's gradients to the returned values where the
/// model clips or scales.
///
/// Gradients of a scaled loss are divided by the scale S in one go with
/// clipping: the norm of g / S is that of g over S. The sum of squares is
/// finite only if every gradient is, on all ranks, so that it also tells
/// whether the step overflowed (as GradScaler of PyTorch does it per tensor).
static Common buildCommon(OpBuilder &builder, ModelOp model,
                          ValueRange gradients, Value lossScale) {
  auto attr = model->getAttrOfType<FloatAttr>("clip_norm");
  double clip = attr ? attr.getValueAsDouble() : 0;
  if ((clip == 0 && !lossScale) || gradients.empty())
    return {};
  PlainBuilder p{builder, model.getLoc()};
  Value norm = GlobalNormOp::create(builder, p.loc, gradients);
  Operation *first = norm.getDefiningOp();
  Common common;
  if (lossScale) {
    common.condition = p.compare(CompareKind::LT, norm,
                                 std::numeric_limits<double>::infinity());
    norm = p.div(norm, lossScale);
  }
  if (clip != 0)
    common.factor = ClipFactorOp::create(builder, p.loc, norm,
                                         builder.getF64FloatAttr(clip));
  if (lossScale)
    common.factor =
        common.factor ? p.div(common.factor, lossScale) : p.div(1.0, lossScale);
  model.getReturn().getValuesMutable().append(norm);
  for (Operation *op = first; op != model.getReturn(); op = op->getNextNode())
    setPhase(op, PhaseKind::Update, -1);
  return common;
}

LogicalResult kerf::appendUpdates(ModelOp model, const ParamGradients &params,
                                  Value lossScale) {
  if (failed(checkComplete(model, params)))
    return failure();
  OpBuilder builder(model.getReturn());
  auto f32 = RankedTensorType::get({}, builder.getF32Type());
  auto i32 = RankedTensorType::get({}, builder.getI32Type());
  Value rate = model.getOrAddInput("learning_rate", f32);
  Value step = model.getOrAddInput("step", i32);
  llvm::SmallVector<Rule> rules;
  llvm::SmallVector<Value> ofLoss;
  for (const ParamGradient &param : params.get()) {
    FailureOr<Rule> rule = ruleFor(model, param.name);
    if (failed(rule))
      return failure();
    rules.push_back(*rule);
    if (rule->rule.usesLossGradient())
      ofLoss.push_back(param.gradient);
  }
  Common common = buildCommon(builder, model, ofLoss, lossScale);
  for (auto [param, rule] : llvm::zip(params.get(), rules)) {
    auto index = [&](std::optional<int64_t> i) {
      return i ? builder.getI64IntegerAttr(*i) : IntegerAttr();
    };
    auto update =
        UpdateOp::create(builder, param.gradient.getLoc(), param.name,
                         index(param.start), index(param.end), param.gradient,
                         rule.rule.usesLossGradient() ? common.factor : Value(),
                         rate, step, common.condition, rule.rule,
                         builder.getF64FloatAttr(rule.rateScale), TypeAttr());
    setPhase(update, PhaseKind::Update, -1);
  }
  return success();
}
