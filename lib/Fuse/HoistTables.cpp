//===- HoistTables.cpp - what no step changes, made once for a step -------===//
//
// Problem: rotary positions need cosines and sines of all positions, which
// follow from constants. A kernel that spreads such a table over heads stores
// it first, in a launch of its own: for queries and keys, forward and back, in
// each layer.
// Idea: the prologue, which runs once for a step, makes each table and leaves
// it in a buffer; kernels read it.
// Steps: 1. in each kernel find what is made of constants alone (and of the
// rank's place), costly, and spread along leading dimensions. 2. Equal tables
// are one buffer, those of one shape one kernel of the prologue. 3. The kernel
// gets the buffer for an operand, and what made the table goes.
// Cost: linear in the ops of kernels.
//
//   rope of [4,1024,32,64] and of [4,1024,4,64], theta 10,000: two tables of
//   [1024,32], cosines and sines; the inverse rotation reads the same.
//
//===----------------------------------------------------------------------===//

#include "Classify.h"

#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Fuse/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>

namespace kerf {
#define GEN_PASS_DEF_HOISTTABLESPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Which values are tables
//===----------------------------------------------------------------------===//

/// What a kernel's operand is outside of it: the rank's place along a
/// dimension, or null.
static spmd::OffsetOp placeOf(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto fused = argument
                   ? dyn_cast<spmd::FusedOp>(argument.getOwner()->getParentOp())
                   : spmd::FusedOp();
  return fused ? fused->getOperand(argument.getArgNumber())
                     .getDefiningOp<spmd::OffsetOp>()
               : spmd::OffsetOp();
}

namespace {
/// The ops of a kernel that make a value, operands first.
struct Cone {
  llvm::SetVector<Operation *> ops;
  bool isClosed = true; ///< it reads nothing but the rank's place
  bool isCostly = false;

  explicit Cone(Value root) { add(root); }

  void add(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op) {
      isClosed &= bool(placeOf(value));
      return;
    }
    if (ops.contains(op))
      return;
    for (Value operand : op->getOperands())
      if (isClosed)
        add(operand);
    auto scalar = dyn_cast<ScalarOpInterface>(op);
    isCostly |= scalar && scalar.isExpensive();
    ops.insert(op);
  }
};

/// Kernels of one program that read a table, and what they call it.
struct Table {
  llvm::SmallVector<Value> readers;
  std::string name; ///< of its buffer
};
} // namespace

/// True for an operand of `op` that code generation would store for it: each
/// element is read again and again along leading dimensions.
static bool isSpread(Operation *op) {
  std::optional<View> view = viewOf(op);
  if (!view || view->kind != ViewKind::Repeat)
    return false;
  auto x = typeOf(op->getOperand(0)), result = typeOf(op->getResult(0));
  return !view->dims.empty() && view->dims.back() == result.getRank() - 1 &&
         x.getNumElements() >= 64 &&
         result.getNumElements() >= 4 * x.getNumElements();
}

/// A text that is equal for equal tables.
static std::string describe(Value table) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::DenseMap<Value, size_t> numbers;
  for (Operation *op : Cone(table).ops) {
    os << op->getName() << op->getAttrDictionary() << op->getResultTypes();
    for (Value operand : op->getOperands())
      if (spmd::OffsetOp place = placeOf(operand))
        os << ' ' << place->getAttrDictionary();
      else
        os << ' ' << numbers.at(operand);
    for (Value result : op->getResults())
      numbers.try_emplace(result, numbers.size());
    os << '\n';
  }
  return text;
}

//===----------------------------------------------------------------------===//
// The prologue makes them
//===----------------------------------------------------------------------===//

namespace {
/// The tables of one program.
class Hoister {
public:
  explicit Hoister(spmd::ProgramOp program) : program(program) {}
  void run();

private:
  void find();
  void makeKernel(llvm::ArrayRef<Table *> tables);
  void declare(Table &table);
  void read(Table &table);
  Value readIn(spmd::FuncOp func, Table &table, Type type);

  spmd::ProgramOp program;
  spmd::FuncOp prologue;
  std::map<std::string, Table> tables;
  llvm::SetVector<spmd::FusedOp> changed;
};
} // namespace

void Hoister::find() {
  program.walk([&](ViewOpInterface op) {
    auto fused = dyn_cast<spmd::FusedOp>(op->getParentOp());
    if (!fused || fused->getParentOfType<spmd::FuncOp>() == prologue ||
        !isSpread(op))
      return;
    Value x = op->getOperand(0);
    Cone cone(x);
    if (!cone.isClosed || !cone.isCostly)
      return;
    Table &table = tables[describe(x)];
    if (!llvm::is_contained(table.readers, x))
      table.readers.push_back(x);
    changed.insert(fused);
  });
}

void Hoister::declare(Table &table) {
  table.name = newBufferName(program, "table");
  OpBuilder builder(prologue);
  spmd::BufferOp::create(builder, program.getLoc(), table.name,
                         spmd::BufferKind::Step, table.readers[0].getType());
}

/// Copies what makes a table into a kernel of the prologue, whose operands are
/// the places of the rank that it reads.
static Value copyInto(spmd::FusedOp fused, Value table, IRMapping &mapping) {
  Block &body = fused.getBody().front();
  OpBuilder outside(fused), inside = OpBuilder::atBlockEnd(&body);
  for (Operation *op : Cone(table).ops) {
    for (Value operand : op->getOperands())
      if (spmd::OffsetOp place = placeOf(operand);
          place && !mapping.contains(operand)) {
        Value copy = outside.clone(*place)->getResult(0);
        fused->insertOperands(fused->getNumOperands(), copy);
        mapping.map(operand, body.addArgument(copy.getType(), copy.getLoc()));
      }
    if (!mapping.contains(op->getResult(0)))
      inside.clone(*op, mapping);
  }
  return mapping.lookup(table);
}

/// One kernel for tables of one shape, before the end of the prologue.
void Hoister::makeKernel(llvm::ArrayRef<Table *> alike) {
  OpBuilder builder(prologue.getBody().front().getTerminator());
  Operation *first = alike[0]->readers[0].getDefiningOp()->getParentOp();
  llvm::SmallVector<Type> types(alike.size(), alike[0]->readers[0].getType());
  auto fused =
      spmd::FusedOp::create(builder, first->getLoc(), types, ValueRange());
  fused->setAttr(kKindAttrName, builder.getStringAttr("tables"));
  if (PhaseAttr phase = getPhase(first))
    fused->setAttr(kPhaseAttrName, phase);
  Block &body = fused.getBody().emplaceBlock();
  IRMapping mapping;
  llvm::SmallVector<Value> results;
  for (Table *table : alike)
    results.push_back(copyInto(fused, table->readers[0], mapping));
  OpBuilder end = OpBuilder::atBlockEnd(&body);
  spmd::YieldOp::create(end, first->getLoc(), results);
  for (auto [table, made] : llvm::zip(alike, fused.getResults())) {
    declare(*table);
    spmd::WriteOp::create(builder, first->getLoc(), made, table->name);
  }
}

//===----------------------------------------------------------------------===//
// Kernels read them
//===----------------------------------------------------------------------===//

/// The table's buffer at the start of a function.
Value Hoister::readIn(spmd::FuncOp func, Table &table, Type type) {
  for (auto known : func.getOps<spmd::ReadOp>())
    if (known.getSource() == table.name)
      return known.getResult();
  OpBuilder builder = OpBuilder::atBlockBegin(&func.getBody().front());
  return spmd::ReadOp::create(builder, func.getLoc(), type, table.name);
}

void Hoister::read(Table &table) {
  for (Value made : table.readers) {
    auto fused = cast<spmd::FusedOp>(made.getDefiningOp()->getParentOp());
    Value buffer =
        readIn(fused->getParentOfType<spmd::FuncOp>(), table, made.getType());
    Block &body = fused.getBody().front();
    Value argument;
    for (auto [operand, known] :
         llvm::zip(fused->getOperands(), body.getArguments()))
      if (operand == buffer)
        argument = known;
    if (!argument) {
      fused->insertOperands(fused->getNumOperands(), buffer);
      argument = body.addArgument(made.getType(), made.getLoc());
    }
    made.replaceAllUsesWith(argument);
  }
}

/// Drops ops and operands that nobody reads any more.
static void clean(spmd::FusedOp fused) {
  Block &body = fused.getBody().front();
  llvm::SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
  for (int64_t i = body.getNumArguments() - 1; i >= 0; --i)
    if (body.getArgument(i).use_empty()) {
      auto place = fused->getOperand(i).getDefiningOp<spmd::OffsetOp>();
      body.eraseArgument(i);
      fused->eraseOperand(i);
      if (place && place->use_empty())
        place->erase();
    }
}

void Hoister::run() {
  prologue = program.lookupSymbol<spmd::FuncOp>("prologue");
  if (!prologue)
    return;
  find();
  llvm::MapVector<Type, llvm::SmallVector<Table *>> byType;
  for (auto &[text, table] : tables)
    byType[table.readers[0].getType()].push_back(&table);
  for (auto &[type, alike] : byType)
    makeKernel(alike);
  for (auto &[text, table] : tables)
    read(table);
  for (spmd::FusedOp fused : changed)
    clean(fused);
}

namespace {
struct HoistTables : kerf::impl::HoistTablesPassBase<HoistTables> {
  void runOnOperation() override {
    getOperation().walk([](spmd::ProgramOp op) { Hoister(op).run(); });
  }
};
} // namespace
