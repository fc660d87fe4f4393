//===- JoinGroups.cpp - one table for all groups of tokens ----------------===//
//
// Problem: rows of experts lie in a table per group of sequences, in which each
// expert has a few of them. Matmuls of experts work on tiles of 128 rows of
// one expert: of 16 groups of 512 rows each expert wastes half a tile 16 times.
// Idea: which sequences make a group matters where they are sharded over ranks.
// In the program of a rank all its groups may have one table, in which the rows
// of an expert lie together, those of the first group first.
// Steps, per program: follow slots and sizes from `kerf.assign_slots` to all
// that reads them, over loops and buffers; stop if anything else than dispatch,
// combination and matmuls does (experts that are sharded over ranks). Then
// make slots of the one table, and let the readers see one group. Shapes of
// values between them stay: sizes have those of the table in the first row, and
// zeros behind it, so that sums over the groups stay what they were.
// Cost: linear in the ops of the program.
//
//   2 groups, 3 experts, sizes [[3,1,2],[2,2,2]]: sizes [[5,3,4],[0,0,0]]; of
//   the second group, expert 1 begins at slot 5 + 1.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Fuse/Passes.h"

#include "Classify.h"

#include "llvm/ADT/SetVector.h"

namespace kerf {
#define GEN_PASS_DEF_JOINGROUPSPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Who reads slots and sizes
//===----------------------------------------------------------------------===//

/// Ops that know rows of experts.
static bool isReader(Operation *op) {
  return isa<DispatchOp, CombineOp, CombineWeightGradientOp>(op) ||
         isCall(op, LibraryCall::GroupedMatmul, LibraryCall::GroupedGradient);
}

/// The operands of a reader that are slots or sizes.
static llvm::SmallVector<OpOperand *> placesOf(Operation *op) {
  llvm::SmallVector<OpOperand *> all;
  for (OpOperand &operand : op->getOpOperands())
    if (typeOf(operand.get()).getElementType().isInteger(32))
      all.push_back(&operand);
  return all;
}

namespace {
/// What slots and sizes of a program become.
class Reach {
public:
  explicit Reach(spmd::ProgramOp program) : program(program) {}
  /// True if all that reads them may see one group, and nothing else does.
  bool isWhole();

private:
  bool follow(Value value);
  bool follow(OpOperand &use);

  spmd::ProgramOp program;
  llvm::DenseSet<OpOperand *> known;
};
} // namespace

/// Whether a value, or what it is cast to, is only summed over the groups.
static bool isSummed(Operation *op) {
  if (isConversion(op))
    return llvm::all_of(op->getUsers(), isSummed);
  auto sum = dyn_cast<ReduceOp>(op);
  return sum && sum.getKind() == ReduceKind::Sum &&
         llvm::is_contained(sum.getDims(), 0);
}

bool Reach::follow(Value value) {
  return llvm::all_of(value.getUses(),
                      [&](OpOperand &use) { return follow(use); });
}

bool Reach::follow(OpOperand &use) {
  Operation *op = use.getOwner();
  int64_t number = use.getOperandNumber();
  if (!known.insert(&use).second || isReader(op) || isSummed(op))
    return true;
  if (auto repeat = dyn_cast<RepeatOp>(op)) {
    number -= repeat.getInits().size();
    return number >= 0 && follow(repeat.getSliceArgs()[number]);
  }
  if (isa<YieldOp>(op)) {
    auto repeat = cast<RepeatOp>(op->getParentOp());
    number -= repeat.getInits().size();
    return number >= 0 && follow(repeat.getStackResults()[number]);
  }
  auto write = dyn_cast<spmd::WriteOp>(op);
  if (!write || !program.lookupSymbol<spmd::BufferOp>(write.getTarget()))
    return false;
  bool isWhole = true;
  program.walk([&](spmd::ReadOp read) {
    if (read.getSource() == write.getTarget())
      isWhole &= follow(read.getResult());
  });
  return isWhole;
}

bool Reach::isWhole() {
  bool isWhole = true;
  program.walk([&](AssignSlotsOp op) {
    isWhole = isWhole && !op.getCapacity() && follow(op.getSlots()) &&
              follow(op.getSizes());
  });
  program.walk([&](Operation *op) {
    if (isReader(op))
      for (OpOperand *operand : placesOf(op))
        isWhole &= known.contains(operand);
  });
  return isWhole;
}

//===----------------------------------------------------------------------===//
// One group
//===----------------------------------------------------------------------===//

/// Slots of the one table, and its sizes, of experts `[B,S,k]`.
static std::pair<Value, Value> buildSlots(PlainBuilder &p, Value experts,
                                          AssignSlotsOp op) {
  llvm::ArrayRef<int64_t> shape = typeOf(experts).getShape();
  llvm::ArrayRef<int64_t> table = typeOf(op.getSizes()).getShape();
  int64_t groups = table[0], count = table[1];
  int64_t tokens = op.getGroup() * shape[1], choices = tokens * shape[2];
  int64_t full[] = {groups, choices, count};
  Value order =
      p.transpose(p.reshape(experts, {groups, tokens, shape[2]}), {0, 2, 1});
  Value chosen = p.reshape(order, {groups, choices});
  Value isOwn =
      p.compare(CompareKind::EQ, p.rows(chosen, full), p.iota(full, 2));
  Value hot = p.indicator(isOwn, p.builder.getI32Type());
  auto running = [&](Value x, int64_t dim) -> Value {
    return CumsumOp::create(p.builder, p.loc, x, dim);
  };
  Value rank = p.rowSum(p.mul(hot, running(hot, 1)));
  Value sizes = p.sum(hot, {1});
  Value total = p.sum(sizes, {0});
  Value start = p.add(running(sizes, 0), p.columns(running(total, 0), table));
  Value slots =
      p.add(p.rowSum(p.mul(hot, p.broadcast(start, {0, 2}, full))), rank);
  slots = p.transpose(p.reshape(slots, {groups, shape[2], tokens}), {0, 2, 1});
  Value isFirst = p.compare(CompareKind::LT, p.iota(table, 0), 1.0);
  return {p.reshape(slots, shape),
          p.select(isFirst, p.columns(total, table), 0.0)};
}

/// Replaces the op by a kernel.
static void joinSlots(AssignSlotsOp op) {
  OpBuilder builder(op);
  Value experts = op.getExperts();
  auto fused = spmd::FusedOp::create(builder, op.getLoc(), op->getResultTypes(),
                                     experts);
  fused->setAttr(kKindAttrName, builder.getStringAttr("assign_slots"));
  if (PhaseAttr phase = getPhase(op))
    fused->setAttr(kPhaseAttrName, phase);
  Block &body = fused.getBody().emplaceBlock();
  Value inner = body.addArgument(experts.getType(), op.getLoc());
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  PlainBuilder p{inside, op.getLoc()};
  auto [slots, sizes] = buildSlots(p, inner, op);
  spmd::YieldOp::create(inside, op.getLoc(), ValueRange{slots, sizes});
  op->replaceAllUsesWith(fused.getResults());
  op->erase();
}

/// Lets a reader see one group: tables `[G,R,*]` as `[1,GR,*]`, sizes `[G,E]`
/// as their first row.
static void joinReader(Operation *op) {
  OpBuilder builder(op);
  PlainBuilder p{builder, op->getLoc()};
  PhaseAttr phase = getPhase(op);
  auto marked = [&](Value value) {
    if (phase)
      value.getDefiningOp()->setAttr(kPhaseAttrName, phase);
    return value;
  };
  auto joined = [&](RankedTensorType type) {
    llvm::SmallVector<int64_t> shape(type.getShape());
    shape[1] *= shape[0];
    shape[0] = 1;
    return shape;
  };
  bool isMatmul = isCall(op, LibraryCall::GroupedMatmul);
  bool isDispatch = isa<DispatchOp>(op);
  bool isGrouped = isMatmul || isCall(op, LibraryCall::GroupedGradient);
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = typeOf(operand.get());
    bool isInteger = type.getElementType().isInteger(32);
    // Of what a matmul reads weights have experts in front; of what moves
    // rows, tokens are no tables.
    bool isRows =
        isGrouped ? !isInteger && !(isMatmul && operand.getOperandNumber() == 1)
                  : !isDispatch && operand.getOperandNumber() == 0;
    if (isRows)
      operand.set(marked(p.reshape(operand.get(), joined(type))));
    else if (isInteger && type.getRank() == 2)
      operand.set(
          marked(p.slice(operand.get(), {0, 0}, {1, type.getShape().back()})));
  }
  if (!isMatmul && !isDispatch)
    return;
  Value result = op->getResult(0);
  auto type = typeOf(result);
  result.setType(RankedTensorType::get(joined(type), type.getElementType()));
  builder.setInsertionPointAfter(op);
  Value whole = marked(p.reshape(result, type.getShape()));
  result.replaceAllUsesExcept(whole, whole.getDefiningOp());
}

static void joinProgram(spmd::ProgramOp program) {
  llvm::SmallVector<Operation *> readers;
  llvm::SmallVector<AssignSlotsOp> makers;
  program.walk([&](Operation *op) {
    if (isReader(op))
      readers.push_back(op);
    if (auto slots = dyn_cast<AssignSlotsOp>(op))
      makers.push_back(slots);
  });
  bool hasGroups = llvm::any_of(makers, [](AssignSlotsOp op) {
    return typeOf(op.getSizes()).getDimSize(0) > 1;
  });
  if (!hasGroups || !Reach(program).isWhole())
    return;
  for (Operation *op : readers)
    joinReader(op);
  for (AssignSlotsOp op : makers)
    joinSlots(op);
}

namespace {
struct JoinGroups : kerf::impl::JoinGroupsPassBase<JoinGroups> {
  void runOnOperation() override { getOperation().walk(joinProgram); }
};
} // namespace
