#include "kerf/Ingest/Passes.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_VERIFYINGESTPASS
#define GEN_PASS_DEF_DUMPFACTORSPASS
#include "kerf/Ingest/Passes.h.inc"
} // namespace kerf

/// True for tensors of at most 2^48 elements, without overflow on the way; an
/// empty dimension hides no other.
static bool hasSaneSize(Type type) {
  constexpr int64_t limit = int64_t(1) << 48;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return true;
  int64_t elements = 1;
  for (int64_t size : tensor.getShape()) {
    if (elements > limit / std::max<int64_t>(size, 1))
      return false;
    elements *= std::max<int64_t>(size, 1);
  }
  return true;
}

/// What is wrong with the size of an input or a parameter, if anything: a step
/// has nothing to do without elements.
static std::optional<llvm::StringRef> wrongSize(Type type) {
  if (!hasSaneSize(type))
    return "at most 2^48 elements";
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && llvm::is_contained(tensor.getShape(), 0))
    return "sizes of at least 1";
  return std::nullopt;
}

/// Attributes that are not the op's own would be ignored: a misspelt `eps`.
static LogicalResult checkAttributes(Operation *op) {
  static constexpr llvm::StringLiteral modelAttributes[] = {
      "optimizer",    "groups",        "clip_norm",   kAdapterAttrName,
      kTitleAttrName, kConfigAttrName, kPlanAttrName, "plan_json"};
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    llvm::StringRef name = attribute.getName().getValue();
    bool isModels =
        isa<ModelOp>(op) && llvm::is_contained(modelAttributes, name);
    if (isModels || name.contains('.')) // A dialect's own.
      continue;
    auto diagnostic = op->emitOpError()
                      << "has unknown attribute '" << name << "'";
    if (isa<ModelOp>(op))
      diagnostic.attachNote()
          << "a model has optimizer, groups, clip_norm and title";
    return diagnostic;
  }
  return success();
}

static LogicalResult verifyOp(Operation *op) {
  if (failed(checkAttributes(op)))
    return failure();
  if (isa<CheckCloseOp>(op))
    return op->emitOpError("is for the interpreter only; remove it");
  for (Value result : op->getResults())
    if (!hasSaneSize(result.getType()))
      return op->emitOpError() << "makes " << result.getType()
                               << ", expected at most 2^48 elements";
  if (auto param = dyn_cast<ParamOp>(op))
    if (auto expected = wrongSize(param.getResult().getType()))
      return op->emitOpError() << "of " << param.getResult().getType()
                               << ", expected " << *expected;
  if (isa<RepeatOp, YieldOp, ReturnOp>(op))
    return success();
  auto factors = dyn_cast<FactorOpInterface>(op);
  if (!factors)
    return op->emitOpError("does not state its factors");
  return verifyFactors(op, factors.getFactors());
}

namespace {
/// A forward op that draws random numbers.
struct RandomDraw {
  Operation *op;
  llvm::StringRef name;
  bool hasLayer;
  int64_t start = -1, end = 0; ///< iterations; [-1, 0) outside repeats
};
} // namespace

static std::optional<RandomDraw> asDraw(Operation *op) {
  PhaseAttr phase = getPhase(op);
  if (phase && phase.getKind() != PhaseKind::Forward)
    return std::nullopt; // The gradient draws the same numbers again.
  std::optional<RandomDraw> draw;
  if (auto dropout = dyn_cast<DropoutOp>(op))
    draw = {op, dropout.getName(), bool(dropout.getLayer())};
  if (auto random = dyn_cast<RandomUniformOp>(op))
    draw = {op, random.getName(), bool(random.getLayer())};
  if (auto attention = dyn_cast<AttentionOp>(op);
      attention && attention.getName())
    draw = {op, *attention.getName(), bool(attention.getLayer())};
  auto repeat = op->getParentOfType<RepeatOp>();
  if (draw && repeat) {
    draw->start = repeat.getStart();
    draw->end = repeat.getEnd();
  }
  return draw;
}

/// Numbers are a function of (seed, step, layer, name, index): two draws must
/// differ in name or layer, or they would be the same.
static LogicalResult checkDraws(ModelOp model) {
  llvm::StringMap<llvm::SmallVector<RandomDraw>> seen;
  WalkResult walk = model.getBody().walk([&](Operation *op) {
    std::optional<RandomDraw> draw = asDraw(op);
    if (!draw)
      return WalkResult::advance();
    if (draw->start >= 0 && !draw->hasLayer) {
      op->emitOpError() << "\"" << draw->name
                        << "\" draws the same numbers in every iteration; add "
                           "'layer' with the iteration number";
      return WalkResult::interrupt();
    }
    for (const RandomDraw &other : seen[draw->name]) {
      if (other.start >= draw->end || draw->start >= other.end)
        continue;
      auto diagnostic = op->emitOpError()
                        << "\"" << draw->name
                        << "\" draws the same numbers as another op";
      diagnostic.attachNote(other.op->getLoc())
          << "that op is here; give each a name of its own";
      return WalkResult::interrupt();
    }
    seen[draw->name].push_back(*draw);
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

namespace {
struct VerifyIngestPass
    : public kerf::impl::VerifyIngestPassBase<VerifyIngestPass> {
  void runOnOperation() override {
    auto models = getOperation().getOps<ModelOp>();
    if (models.empty()) {
      mlir::emitError(getOperation().getLoc(),
                      "expected a 'kerf.model' in the module");
      return signalPassFailure();
    }
    for (ModelOp model : models) {
      if (failed(checkAttributes(model)) || failed(checkDraws(model)))
        return signalPassFailure();
      for (BlockArgument input : model.getBody().getArguments())
        if (auto expected = wrongSize(input.getType())) {
          mlir::emitError(input.getLoc())
              << "input of " << input.getType() << ", expected " << *expected;
          return signalPassFailure();
        }
      WalkResult walk = model.getBody().walk(
          [](Operation *op) { return WalkResult(verifyOp(op)); });
      if (walk.wasInterrupted())
        return signalPassFailure();
    }
  }
};

struct DumpFactorsPass
    : public kerf::impl::DumpFactorsPassBase<DumpFactorsPass> {
  void runOnOperation() override {
    getOperation().walk([](FactorOpInterface op) {
      std::string text;
      llvm::raw_string_ostream os(text);
      printFactors(os, op.getFactors());
      op->emitRemark() << text;
    });
  }
};
} // namespace
