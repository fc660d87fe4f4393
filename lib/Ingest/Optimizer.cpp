#include "Optimizer.h"

#include "ConfigReader.h"
#include "HiddenMatrices.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <set>

using namespace kerf;
using namespace mlir;

LogicalResult kerf::checkRealOption(Location loc, llvm::StringRef name,
                                    double value, double end) {
  if (value >= 0 && value < end)
    return success();
  InFlightDiagnostic diagnostic = emitError(loc);
  diagnostic << "expected '" << name << "' of at least 0";
  if (std::isfinite(end))
    diagnostic << " and below " << ConfigReader::describe(end);
  else
    diagnostic << " and finite";
  return diagnostic << ", found " << ConfigReader::describe(value);
}

LogicalResult kerf::checkNameOption(Location loc, llvm::StringRef name,
                                    llvm::StringRef value,
                                    llvm::ArrayRef<llvm::StringRef> known) {
  if (llvm::is_contained(known, value))
    return success();
  return emitError(loc) << "expected '" << name << "' to be one of "
                        << llvm::join(known, ", ") << ", found "
                        << json::quote(value);
}

/// Where no `beta2` is given.
static constexpr double kBeta2 = 0.95, kLionBeta2 = 0.99;
/// Where no `momentum` is given.
static constexpr double kMomentum = 0.9, kMuonMomentum = 0.95;
static constexpr llvm::StringRef kOptimizers[] = {
    "adafactor", "adamw", "adamw_8bit", "lion", "muon", "sgd"};

LogicalResult kerf::checkOptimizer(Location loc, const ImportOptions &options) {
  const double infinity = std::numeric_limits<double>::infinity();
  bool isGood = true;
  auto expect = [&](LogicalResult result) { isGood &= succeeded(result); };
  expect(checkNameOption(loc, "optimizer", options.optimizer, kOptimizers));
  expect(checkNameOption(loc, "muon-rate", options.muonRate,
                         {"match_rms_adamw", "original"}));
  expect(checkRealOption(loc, "weight-decay", options.weightDecay, infinity));
  expect(checkRealOption(loc, "beta1", options.beta1, 1.0));
  expect(checkRealOption(loc, "beta2", options.beta2.value_or(kBeta2), 1.0));
  expect(checkRealOption(loc, "eps", options.eps, infinity));
  expect(checkRealOption(loc, "momentum", options.momentum.value_or(kMomentum),
                         1.0));
  if (options.stateBlock < 2)
    expect(emitError(loc) << "expected 'state-block' >= 2, found "
                          << options.stateBlock);
  expect(checkRealOption(loc, "clip-norm", options.clipNorm, infinity));
  return success(isGood);
}

static Attribute makeRule(MLIRContext *context, llvm::StringRef optimizer,
                          const ImportOptions &options) {
  double decay = options.weightDecay, beta1 = options.beta1;
  double beta2 = options.beta2.value_or(kBeta2), eps = options.eps;
  if (optimizer == "adamw")
    return AdamWAttr::get(context, beta1, beta2, eps, decay);
  // As bitsandbytes: little parameters are not worth the rounding.
  if (optimizer == "adamw_8bit")
    return AdamW8bitAttr::get(context, beta1, beta2, eps, decay,
                              options.stateBlock, /*min_elements=*/4096);
  if (optimizer == "adafactor")
    return AdafactorAttr::get(context, /*beta2_decay=*/-0.8,
                              /*eps1=*/std::numeric_limits<float>::epsilon(),
                              /*eps2=*/1e-3, /*clip=*/1.0, decay);
  if (optimizer == "lion")
    return LionAttr::get(context, beta1, options.beta2.value_or(kLionBeta2),
                         decay);
  if (optimizer == "muon")
    return MuonAttr::get(context, options.momentum.value_or(kMuonMomentum),
                         /*nesterov=*/true, /*steps=*/5, /*a=*/3.4445,
                         /*b=*/-4.775, /*c=*/2.0315, /*eps=*/1e-7,
                         *symbolizeMuonRate(options.muonRate), decay);
  return SGDAttr::get(context, options.momentum.value_or(kMomentum),
                      /*nesterov=*/false, decay);
}

/// Muon is of matrices; null: vectors have the optimizer of the model.
static Attribute ruleOfVectors(MLIRContext *context,
                               const ImportOptions &options) {
  return options.optimizer == "muon" ? makeRule(context, "adamw", options)
                                     : Attribute();
}

void kerf::setOptimizer(ModelOp model, const ImportOptions &options,
                        llvm::ArrayRef<llvm::StringRef> vectors,
                        llvm::ArrayRef<GroupAttr> groups) {
  MLIRContext *context = model.getContext();
  Builder builder(context);
  model->setAttr("optimizer", makeRule(context, options.optimizer, options));
  if (options.clipNorm > 0)
    model->setAttr("clip_norm", builder.getF64FloatAttr(options.clipNorm));
  llvm::SmallVector<Attribute> all(groups.begin(), groups.end());
  Attribute rule = ruleOfVectors(context, options);
  if (options.weightDecay != 0 || rule)
    for (llvm::StringRef names : vectors)
      all.push_back(GroupAttr::get(context, names, /*weight_decay=*/0.0,
                                   /*rate_scale=*/1.0, rule));
  if (!all.empty())
    model->setAttr("groups", builder.getArrayAttr(all));
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

namespace {
/// What `PATTERN:lr=0.1,weight-decay=0,optimizer=adamw` says.
struct GroupText {
  llvm::StringRef optimizer; ///< empty: as without the group
  double decay, rate = 1;

  /// True for `key=value` of a group.
  bool read(llvm::StringRef part) {
    auto [key, text] = part.split('=');
    if (key == "optimizer") {
      optimizer = text;
      return llvm::is_contained(kOptimizers, text);
    }
    double *value = key == "lr"             ? &rate
                    : key == "weight-decay" ? &decay
                                            : nullptr;
    return value && !text.getAsDouble(*value) && *value >= 0 &&
           std::isfinite(*value);
  }
};
} // namespace

/// A text as a group; null after an error.
static GroupAttr parseGroup(Location loc, llvm::StringRef text,
                            const ImportOptions &options) {
  auto [pattern, rest] = text.rsplit(':');
  GroupText group{"", options.weightDecay};
  llvm::SmallVector<llvm::StringRef> parts;
  rest.split(parts, ',');
  if (pattern.empty() || !llvm::all_of(parts, [&](llvm::StringRef part) {
        return group.read(part);
      })) {
    emitError(loc) << "expected 'group' as PATTERN:lr=FACTOR,weight-decay="
                      "NUMBER,optimizer=NAME, such as *.bias:lr=0.1, found "
                   << json::quote(text);
    return {};
  }
  Attribute rule;
  if (!group.optimizer.empty())
    rule = makeRule(loc.getContext(), group.optimizer, options);
  return GroupAttr::get(loc.getContext(), pattern, group.decay, group.rate,
                        rule);
}

/// The groups that parameters belong to.
static FailureOr<llvm::DenseSet<GroupAttr>> groupsInUse(ModelOp model) {
  llvm::DenseSet<GroupAttr> used;
  WalkResult walk = model.getBody().walk([&](ParamOp param) {
    FailureOr<GroupAttr> group = groupOf(model, param.getName());
    if (failed(group))
      return WalkResult::interrupt();
    used.insert(*group);
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  return used;
}

/// Groups of single parameters that keep the rule that `before` gives them, and
/// have the numbers of a group of `own` that is before it.
static llvm::SmallVector<Attribute>
keptRules(ModelOp model, llvm::ArrayRef<Attribute> own, ArrayAttr before) {
  llvm::SmallVector<Attribute> kept;
  llvm::DenseSet<llvm::StringRef> seen;
  ArrayAttr after = model->getAttrOfType<ArrayAttr>("groups");
  model.getBody().walk([&](ParamOp param) {
    auto group = groupOf(model, param.getName());
    if (failed(group) || !llvm::is_contained(own, *group) ||
        (*group).getRule() || !seen.insert(param.getName()).second)
      return;
    model->setAttr("groups", before);
    auto old = groupOf(model, param.getName());
    model->setAttr("groups", after);
    if (succeeded(old) && *old && (*old).getRule())
      kept.push_back(GroupAttr::get(model.getContext(), param.getName(),
                                    (*group).getWeightDecay(),
                                    (*group).getRateScale(), (*old).getRule()));
  });
  return kept;
}

/// Puts the groups of the options before the model's.
static LogicalResult addOwnGroups(Location loc, ModelOp model,
                                  const ImportOptions &options) {
  llvm::SmallVector<Attribute> groups;
  for (const std::string &text : options.groups)
    if (GroupAttr group = parseGroup(loc, text, options))
      groups.push_back(group);
    else
      return failure();
  if (groups.empty())
    return success();
  llvm::SmallVector<Attribute> own = groups;
  auto before = model->getAttrOfType<ArrayAttr>("groups");
  if (before)
    llvm::append_range(groups, before);
  model->setAttr("groups", ArrayAttr::get(loc.getContext(), groups));
  auto used = groupsInUse(model);
  if (failed(used))
    return failure();
  for (Attribute group : own)
    if (!used->contains(cast<GroupAttr>(group)))
      return emitError(loc) << "no parameter belongs to 'group' "
                            << json::quote(cast<GroupAttr>(group).getMatch())
                            << "; layers are named as in a loop, "
                               "'layers.{i}.weight'";
  if (!before)
    return success();
  llvm::SmallVector<Attribute> all = keptRules(model, own, before);
  llvm::append_range(all, groups);
  model->setAttr("groups", ArrayAttr::get(loc.getContext(), all));
  return success();
}

/// Gives what is no matrix inside the model another rule, unless its group has
/// one.
static void addMuonGroups(ModelOp model, double decay, Attribute rule) {
  MLIRContext *context = model.getContext();
  llvm::SmallVector<Attribute> first, groups;
  if (auto known = model->getAttrOfType<ArrayAttr>("groups"))
    llvm::append_range(groups, known);
  for (llvm::StringRef name : notHidden(model)) {
    auto group = groupOf(model, name);
    if (failed(group) || (*group && (*group).getRule()))
      continue;
    if (*group)
      first.push_back(GroupAttr::get(context, name, (*group).getWeightDecay(),
                                     (*group).getRateScale(), rule));
    else
      groups.push_back(
          GroupAttr::get(context, name, decay, /*rate_scale=*/1.0, rule));
  }
  llvm::append_range(first, groups);
  if (!first.empty())
    model->setAttr("groups", ArrayAttr::get(context, first));
}

void kerf::completeMuon(ModelOp model) {
  auto muon = dyn_cast_or_null<MuonAttr>(model->getAttr("optimizer"));
  if (!muon)
    return;
  ImportOptions options;
  options.optimizer = "muon";
  options.weightDecay = muon.getWeightDecay();
  addMuonGroups(model, options.weightDecay,
                ruleOfVectors(model.getContext(), options));
}

LogicalResult kerf::addGroups(Location loc, ModelOp model,
                              const ImportOptions &options) {
  if (options.optimizer == "muon")
    addMuonGroups(model, options.weightDecay,
                  ruleOfVectors(loc.getContext(), options));
  return addOwnGroups(loc, model, options);
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

/// The shortest end of a name, from a dot on, that none of `others` has:
/// `*.bias`. The name itself where there is none.
static std::string patternOf(llvm::StringRef name,
                             const std::set<std::string> &others) {
  for (size_t dot = name.rfind('.'); dot != llvm::StringRef::npos;
       dot = name.take_front(dot).rfind('.')) {
    llvm::StringRef end = name.drop_front(dot);
    bool isOwn = llvm::none_of(others, [&](const std::string &other) {
      return llvm::StringRef(other).ends_with(end) || other == end.drop_front();
    });
    if (isOwn)
      return "*" + end.str();
  }
  return name.str();
}

LogicalResult kerf::setGraphOptimizer(ModelOp model,
                                      const ImportOptions &options) {
  if (failed(checkOptimizer(UnknownLoc::get(model.getContext()), options)))
    return failure();
  std::set<std::string> matrices, vectors;
  llvm::SetVector<llvm::StringRef> patterns;
  model.getBody().walk([&](ParamOp param) {
    bool isVector = typeOf(param.getResult()).getRank() < 2;
    (isVector ? vectors : matrices).insert(param.getName().str());
  });
  std::set<std::string> kept;
  for (const std::string &name : vectors)
    patterns.insert(*kept.insert(patternOf(name, matrices)).first);
  setOptimizer(model, options, patterns.getArrayRef(), {});
  return addGroups(UnknownLoc::get(model.getContext()), model, options);
}
