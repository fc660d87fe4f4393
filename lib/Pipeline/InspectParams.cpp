//===- InspectParams.cpp - counts of parameters and flops -----------------===//

#include "Inspect.h"

#include "kerf/Dialect/Kerf/Title.h"
#include "kerf/Support/Counts.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

namespace {
/// One parameter pattern.
struct ParamCount {
  llvm::StringRef name;
  RankedTensorType type;
  int64_t copies = 1;        ///< iterations that have their own
  double activeFraction = 1; ///< of its elements, per token
  double weights = 1;        ///< that an element stands for
  bool trainable = true;

  double total() const {
    double elements = static_cast<double>(copies) * weights;
    for (int64_t size : type.getShape())
      elements *= size;
    return elements;
  }
};

/// Flops of one token's forward pass in matmuls, by kind.
struct ModelFlops {
  double linear = 0;    ///< weights times activations
  double frozen = 0;    ///< part of it whose weights have no gradient
  double attention = 0; ///< scores and values over all pairs
  double visible = 0;   ///< the same over the visible pairs only
};
} // namespace

/// Share of the experts that a token uses, from the op that assigns slots.
static double expertFraction(Operation *weight) {
  for (Operation *user : weight->getUsers()) {
    if (user->getNumResults() == 1 && isMadeOfFrozen(user->getResult(0)))
      return expertFraction(user);
    if (!isCall(user, LibraryCall::GroupedMatmul))
      continue;
    if (auto slots = user->getOperand(2).getDefiningOp<AssignSlotsOp>())
      return static_cast<double>(typeOf(slots.getExperts()).getDimSize(2)) /
             slots.getCount();
  }
  return 1;
}

static llvm::SmallVector<ParamCount> countParams(ModelOp model) {
  llvm::MapVector<llvm::StringRef, ParamCount> counts;
  llvm::DenseSet<std::pair<llvm::StringRef, int64_t>> seen;
  model.getBody().walk([&](ParamOp param) {
    ParamCount &count = counts[param.getName()];
    count.activeFraction =
        std::min(count.activeFraction, expertFraction(param));
    auto repeat = param->getParentOfType<RepeatOp>();
    bool own = repeat && param.isPerIteration();
    if (!seen.insert({param.getName(), own ? repeat.getStart() : -1}).second)
      return;
    count.copies = count.type ? count.copies : 0;
    count.copies += own ? repeat.getCount() : 1;
    count.name = param.getName();
    count.type = typeOf(param.getResult());
    count.weights = countWeights(param);
    count.trainable = !param.getFrozen();
  });
  llvm::SmallVector<ParamCount> list;
  for (auto &[name, count] : counts)
    list.push_back(count);
  return list;
}

static ModelFlops countFlops(ModelOp model) {
  ModelFlops flops;
  model.getBody().walk([&](CostOpInterface op) {
    PhaseAttr phase = getPhase(op);
    if (isRecomputed(op) || (phase && phase.getKind() != PhaseKind::Forward))
      return;
    auto repeat = op->getParentOfType<RepeatOp>();
    double times = repeat ? repeat.getCount() : 1;
    double own = times * op.getCost().matmuls();
    if (!isCall(op, LibraryCall::Attention)) {
      flops.linear += own;
      bool isFrozen = llvm::any_of(op->getOperands(), [](Value operand) {
        ParamOp weight = findWeight(operand);
        return weight && weight.getFrozen();
      });
      flops.frozen += isFrozen ? own : 0;
      return;
    }
    llvm::ArrayRef<int64_t> q = typeOf(op->getOperand(0)).getShape();
    llvm::ArrayRef<int64_t> v = typeOf(op->getOperand(2)).getShape();
    flops.visible += own;
    flops.attention += times * 2.0 * q[0] * q[1] * v[1] * q[2] * (q[3] + v[3]);
  });
  BlockArgument tokens = model.getInput("tokens");
  double count = tokens ? typeOf(tokens).getNumElements() : 1;
  return {flops.linear / count, flops.frozen / count, flops.attention / count,
          flops.visible / count};
}

static std::string shapeText(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleave(type.getShape(), os, " x ");
  os << "] " << type.getElementType();
  return text;
}

static void printTable(ModelOp model, llvm::ArrayRef<ParamCount> params) {
  llvm::raw_ostream &os = llvm::outs();
  os << "model " << titleOf(model) << "\n\n";
  size_t width = 4, shapeWidth = 5;
  for (const ParamCount &param : params) {
    width = std::max(width, param.name.size());
    shapeWidth = std::max(shapeWidth, shapeText(param.type).size());
  }
  os << "  " << llvm::left_justify("name", width) << "  copies  "
     << llvm::left_justify("shape", shapeWidth) << "             elements\n";
  for (const ParamCount &param : params)
    os << "  " << llvm::left_justify(param.name, width)
       << llvm::format("  %6lld  ", static_cast<long long>(param.copies))
       << llvm::left_justify(shapeText(param.type), shapeWidth)
       << llvm::right_justify(groupDigits(param.total()), 21)
       << (param.trainable ? "" : "  frozen") << '\n';
}

static LogicalResult inspectModel(ModelOp model,
                                  const InspectOptions &options) {
  auto params = countParams(model);
  double total = 0, active = 0, trainable = 0;
  for (const ParamCount &param : params) {
    total += param.total();
    active += param.activeFraction * param.total();
    trainable += param.trainable ? param.total() : 0;
  }
  ModelFlops flops = countFlops(model);
  double perToken = 3 * (flops.linear + flops.attention) - flops.frozen;
  double visible = 3 * (flops.linear + flops.visible) - flops.frozen;
  if (options.json) {
    json::Value object = json::Value::makeObject();
    object.set("model", json::Value::fromString(titleOf(model)));
    auto set = [&](llvm::StringRef key, double value) {
      object.set(key, json::Value::fromNumber(value));
    };
    set("parameters", total);
    set("active_parameters", active);
    set("trainable_parameters", trainable);
    set("model_flops_per_token", perToken);
    set("model_flops_per_token_visible", visible);
    llvm::outs() << json::print(object) << '\n';
    return success();
  }
  printTable(model, params);
  llvm::raw_ostream &os = llvm::outs();
  os << "\n  parameters        " << llvm::right_justify(groupDigits(total), 20)
     << "\n  active per token  " << llvm::right_justify(groupDigits(active), 20)
     << "\n  trainable         "
     << llvm::right_justify(groupDigits(trainable), 20)
     << "\n\n  model flops per token = 3 x (matmuls + attention) of a forward "
        "pass, attention over all pairs\n"
     << "    = 3 x (" << groupDigits(flops.linear) << " + "
     << groupDigits(flops.attention) << ")";
  if (flops.frozen > 0)
    os << " - " << groupDigits(flops.frozen) << " (frozen weights)";
  os << " = " << groupDigits(perToken)
     << "\n    over visible pairs only: " << groupDigits(visible) << '\n';
  return success();
}

LogicalResult kerf::inspectParams(ModuleOp module,
                                  const InspectOptions &options) {
  for (ModelOp model : module.getOps<ModelOp>())
    if (failed(inspectModel(model, options)))
      return failure();
  return success();
}
