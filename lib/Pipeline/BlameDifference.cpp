#include "BlameDifference.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;

/// True when a buffer or update is of this tensor; names of parameters may be
/// patterns.
static bool isOf(llvm::StringRef pattern, llvm::StringRef name) {
  if (pattern == name || !hasIteration(pattern))
    return pattern == name;
  constexpr int64_t mostLayers = 1 << 12;
  for (int64_t i = 0; i < mostLayers; ++i)
    if (expandName(pattern, i) == name)
      return true;
  return false;
}

/// The op that makes a value, through the results of repeats.
static Operation *makerOf(Value value) {
  while (value) {
    auto repeat = value.getDefiningOp<RepeatOp>();
    if (!repeat)
      return value.getDefiningOp();
    unsigned place = cast<OpResult>(value).getResultNumber();
    value = repeat.getYield()->getOperand(place);
  }
  return nullptr;
}

/// What writes the value in one program.
static Operation *findMaker(spmd::ProgramOp program,
                            const TrainingDifference &difference) {
  Operation *found = nullptr;
  program.getBody().walk([&](Operation *op) {
    if (found)
      return;
    if (auto update = dyn_cast<UpdateOp>(op);
        update && difference.kind == TrainingDifference::Parameter &&
        isOf(update.getName(), difference.name))
      found = op;
    auto buffer = op->getAttrOfType<FlatSymbolRefAttr>("target");
    if (!buffer || !isa<spmd::WriteOp, spmd::AccumulateOp>(op))
      return;
    llvm::StringRef name = buffer.getValue();
    bool isGradient = name.consume_front("gradient.");
    if (isGradient == (difference.kind == TrainingDifference::Gradient) &&
        difference.kind != TrainingDifference::Parameter &&
        isOf(name, difference.name))
      found = makerOf(op->getOperand(0));
  });
  return found;
}

/// The first collective on the way back from an op, breadth first.
static Operation *findCollective(Operation *maker) {
  llvm::SetVector<Operation *> seen;
  seen.insert(maker);
  for (size_t i = 0; i < seen.size(); ++i) {
    if (i > 0 && (spmd::isExchange(seen[i]) || isa<spmd::SliceOwnOp>(seen[i])))
      return seen[i];
    for (Value operand : seen[i]->getOperands())
      if (Operation *next = makerOf(operand))
        seen.insert(next);
  }
  return nullptr;
}

Blame kerf::findBlame(llvm::ArrayRef<spmd::ProgramOp> programs,
                      const TrainingDifference &difference) {
  Blame blame;
  for (spmd::ProgramOp program : programs) {
    blame.maker = findMaker(program, difference);
    blame.stage = program.getStage();
    if (!blame.maker)
      continue;
    blame.collective = findCollective(blame.maker);
    return blame;
  }
  return Blame();
}

static std::string nameOf(Operation *op) {
  std::string text = "'" + op->getName().getStringRef().str() + "'";
  llvm::raw_string_ostream os(text);
  if (auto axes = op->getAttrOfType<ArrayAttr>("axes")) {
    os << " over [";
    llvm::interleaveComma(axes.getAsValueRange<StringAttr>(), os);
    os << ']';
  }
  if (PhaseAttr phase = getPhase(op))
    os << " (" << stringifyPhaseKind(phase.getKind()) << ' ' << phase.getOp()
       << ')';
  return text;
}

std::string Blame::describe() const {
  if (!maker)
    return "";
  std::string text = nameOf(maker) + " of stage " + std::to_string(stage);
  return collective ? text + ", after " + nameOf(collective) : text;
}
