//===- HoistUnits.cpp - units of weights, found once for a step -----------===//
//
// Problem: the unit of a weight, which 8-bit matmuls need, is found in each
// pass of each micro-batch: a read of the whole weight and two launches.
// Idea: weights change with the update alone. The prologue, which runs once for
// a step, finds their units and leaves them in a buffer, 16 bytes for each:
// libraries want scales at such addresses.
// Steps, per program: 1. find units of per-layer weights, equal ones of all
// functions together. 2. The prologue gets a loop over the layers that finds
// them. 3. Functions read slices of the buffer. What a forward loop kept of
// them for the backward pass is read from there, too, and kept no more. Cost:
// linear in the ops of a program.
//
//   forward: repeat { w = param "h.{i}.w"; u = unit w; ... stack(u) }
//   backward: repeat { ... power_of_two u }
//     become  prologue: repeat { w = param "h.{i}.w"; u = unit w } -> @units0,
//             and both read @units0[i]
//
// What is not a weight as it is stored stays: one that is gathered first, and
// the exchange of the maximum where ranks have parts.
//
//===----------------------------------------------------------------------===//

#include "Classify.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Kerf/Stacks.h"
#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Fuse/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace kerf {
#define GEN_PASS_DEF_HOISTUNITSPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Scalars of a line in the buffer, of which the first is the unit.
static constexpr int64_t kLine = 4;

static void setPhase(Operation *op, PhaseAttr phase) {
  if (phase)
    op->setAttr(kPhaseAttrName, phase);
}

namespace {
/// Layers of a loop.
using Layers = std::pair<int64_t, int64_t>;

/// The unit of a weight of these layers.
struct Unit {
  llvm::SmallVector<UnitOp> ops;
  std::string buffer;
};

/// The units of one program.
class Hoister {
public:
  explicit Hoister(spmd::ProgramOp program) : program(program) {}
  void run();

private:
  void find();
  void makeLoop(Layers layers, llvm::ArrayRef<Unit *> units);
  void declare(Unit &unit, Type type);
  Value lineIn(RepeatOp repeat, const Unit &unit);
  Value readIn(RepeatOp repeat, const Unit &unit, Operation *at);
  void replace(UnitOp op, const Unit &unit);
  void replaceKept(UnitOp op, const Unit &unit);

  spmd::ProgramOp program;
  spmd::FuncOp prologue;
  llvm::MapVector<Layers, llvm::MapVector<StringAttr, Unit>> found;
  llvm::DenseMap<std::pair<Operation *, StringAttr>, Value> lines;
};
} // namespace

static Layers layersOf(RepeatOp repeat) {
  return {repeat.getStart(), repeat.getEnd()};
}

/// The per-layer weight that `op` finds the unit of, or null.
static ParamOp weightOf(UnitOp op) {
  auto param = op.getX().getDefiningOp<ParamOp>();
  bool isOfLayer = param && param.isPerIteration() &&
                   isa<RepeatOp>(op->getParentOp()) &&
                   param->getParentOp() == op->getParentOp();
  return isOfLayer ? param : ParamOp();
}

/// Equal for units of the same weight.
static StringAttr keyOf(UnitOp op, ParamOp param) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << param.getName() << ' ' << param.getResult().getType() << ' '
     << op.getOf();
  return StringAttr::get(op.getContext(), text);
}

void Hoister::find() {
  program.walk([&](UnitOp op) {
    ParamOp param = weightOf(op);
    if (param && op->getParentOfType<spmd::FuncOp>() != prologue)
      found[layersOf(cast<RepeatOp>(op->getParentOp()))][keyOf(op, param)]
          .ops.push_back(op);
  });
}

void Hoister::declare(Unit &unit, Type type) {
  unit.buffer = newBufferName(program, "units");
  OpBuilder builder(prologue);
  auto buffer = spmd::BufferOp::create(builder, program.getLoc(), unit.buffer,
                                       spmd::BufferKind::Step, type);
  buffer->setAttr(kUnitsAttrName, builder.getUnitAttr());
}

/// A loop of the prologue that finds units of weights of the same layers.
void Hoister::makeLoop(Layers layers, llvm::ArrayRef<Unit *> units) {
  auto [start, end] = layers;
  OpBuilder builder(prologue.getBody().front().getTerminator());
  Location loc = units[0]->ops[0].getLoc();
  Type f32 = builder.getF32Type();
  auto line = RankedTensorType::get({kLine}, f32);
  Type stack = RankedTensorType::get({end - start, kLine}, f32);
  llvm::SmallVector<Type> types(units.size(), stack);
  auto repeat = RepeatOp::create(builder, loc, types, ValueRange(),
                                 ValueRange(), builder.getI64IntegerAttr(start),
                                 builder.getI64IntegerAttr(end), UnitAttr(),
                                 IntegerAttr());
  setPhase(repeat, getPhase(units[0]->ops[0]->getParentOp()));
  Block &body = repeat.getBody().emplaceBlock();
  auto from = cast<RepeatOp>(units[0]->ops[0]->getParentOp());
  body.addArgument(from.getIndex().getType(), loc);
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  llvm::SmallVector<Value> results;
  for (Unit *unit : units) {
    UnitOp op = unit->ops[0];
    PlainBuilder p{inside, op.getLoc()};
    Operation *weight = inside.clone(*weightOf(op));
    Operation *own = inside.clone(*op.getOperation());
    own->setOperand(0, weight->getResult(0));
    Value spread = p.broadcast(own->getResult(0), {}, line.getShape());
    setPhase(spread.getDefiningOp(), getPhase(op));
    results.push_back(spread);
  }
  YieldOp::create(inside, loc, ValueRange(), results);
  for (auto [unit, made] : llvm::zip(units, repeat.getStackResults())) {
    declare(*unit, stack);
    spmd::WriteOp::create(builder, loc, made, unit->buffer);
  }
}

/// What a loop has of the buffer in an iteration.
Value Hoister::lineIn(RepeatOp repeat, const Unit &unit) {
  auto name = StringAttr::get(repeat.getContext(), unit.buffer);
  Value &line = lines[{repeat, name}];
  if (line)
    return line;
  auto func = repeat->getParentOfType<spmd::FuncOp>();
  OpBuilder builder = OpBuilder::atBlockBegin(&func.getBody().front());
  auto type = RankedTensorType::get(
      {repeat.getEnd() - repeat.getStart(), kLine}, builder.getF32Type());
  auto read = spmd::ReadOp::create(builder, repeat.getLoc(), type, unit.buffer);
  return line = addSlice(repeat, read);
}

/// The unit as a scalar, before `at`.
Value Hoister::readIn(RepeatOp repeat, const Unit &unit, Operation *at) {
  Value line = lineIn(repeat, unit);
  OpBuilder builder(at);
  PlainBuilder p{builder, at->getLoc()};
  Value first = p.slice(line, {0}, {1});
  Value scalar = p.reshape(first, {});
  for (Value value : {first, scalar})
    setPhase(value.getDefiningOp(), getPhase(at));
  return scalar;
}

namespace {
/// A stack of units on its way to the backward pass.
struct Kept {
  spmd::BufferOp buffer;
  llvm::SmallVector<spmd::WriteOp> writes;
  llvm::SmallVector<spmd::ReadOp> reads;
  llvm::SmallVector<PowerOfTwoOp> users;
};
} // namespace

/// The uses of a slice, all of which make it a power of two.
static bool collectUsers(BlockArgument slice, Kept &kept) {
  return llvm::all_of(slice.getUsers(), [&](Operation *user) {
    auto power = dyn_cast<PowerOfTwoOp>(user);
    if (power)
      kept.users.push_back(power);
    return bool(power);
  });
}

/// Follows `stack` over a buffer to loops over the same layers; false where it
/// goes elsewhere.
static bool follow(Value stack, Layers layers, spmd::ProgramOp program,
                   Kept &kept) {
  for (Operation *user : stack.getUsers()) {
    auto write = dyn_cast<spmd::WriteOp>(user);
    if (!write ||
        (kept.buffer && kept.buffer.getSymName() != write.getTarget()))
      return false;
    kept.buffer = dyn_cast_or_null<spmd::BufferOp>(
        SymbolTable::lookupSymbolIn(program, write.getTarget()));
    kept.writes.push_back(write);
    if (!kept.buffer)
      return false;
  }
  if (!kept.buffer)
    return false;
  bool isKnown = true;
  program.walk([&](spmd::WriteOp write) {
    isKnown &= write.getTarget() != kept.buffer.getSymName() ||
               llvm::is_contained(kept.writes, write);
  });
  program.walk([&](spmd::ReadOp read) {
    if (read.getSource() != kept.buffer.getSymName())
      return;
    kept.reads.push_back(read);
    for (OpOperand &use : read.getResult().getUses()) {
      auto repeat = dyn_cast<RepeatOp>(use.getOwner());
      unsigned number = use.getOperandNumber();
      isKnown &=
          repeat && layersOf(repeat) == layers &&
          number >= repeat.getInits().size() &&
          collectUsers(repeat.getSliceArgs()[number - repeat.getInits().size()],
                       kept);
      if (!isKnown)
        return;
    }
  });
  return isKnown;
}

/// Lets the backward pass read a unit that was kept for it from the buffer.
void Hoister::replaceKept(UnitOp op, const Unit &unit) {
  auto repeat = cast<RepeatOp>(op->getParentOp());
  OperandRange stacked = repeat.getYield().getStacked();
  auto at = llvm::find(stacked, op.getResult());
  if (at == stacked.end())
    return;
  Kept kept;
  if (!follow(repeat.getStackResults()[at - stacked.begin()], layersOf(repeat),
              program, kept))
    return;
  for (PowerOfTwoOp user : kept.users) {
    auto reader = cast<RepeatOp>(user->getParentOp());
    user.getResult().replaceAllUsesWith(readIn(reader, unit, user));
    user.erase();
  }
  for (spmd::ReadOp read : kept.reads) {
    llvm::SmallVector<Operation *> readers(read->getUsers());
    for (Operation *reader : readers)
      dropUnreadSlices(cast<RepeatOp>(reader));
    read.erase();
  }
  for (spmd::WriteOp write : kept.writes)
    write.erase();
  kept.buffer.erase();
}

void Hoister::replace(UnitOp op, const Unit &unit) {
  replaceKept(op, unit);
  Value read = readIn(cast<RepeatOp>(op->getParentOp()), unit, op);
  op.getResult().replaceAllUsesWith(read);
  op.erase();
}

void Hoister::run() {
  prologue = program.lookupSymbol<spmd::FuncOp>("prologue");
  if (!prologue)
    return;
  find();
  for (auto &[layers, units] : found) {
    llvm::SmallVector<Unit *> all;
    for (auto &[key, unit] : units)
      all.push_back(&unit);
    makeLoop(layers, all);
    llvm::SetVector<Operation *> loops;
    for (Unit *unit : all)
      for (UnitOp op : unit->ops) {
        loops.insert(op->getParentOp());
        replace(op, *unit);
      }
    for (Operation *loop : loops)
      dropUnreadStacks(cast<RepeatOp>(loop));
  }
}

namespace {
struct HoistUnits : kerf::impl::HoistUnitsPassBase<HoistUnits> {
  void runOnOperation() override {
    getOperation().walk([](spmd::ProgramOp op) { Hoister(op).run(); });
  }
};
} // namespace
