#include "Units.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Kerf/Random.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

//===----------------------------------------------------------------------===//
// Models of few ops
//===----------------------------------------------------------------------===//

/// What is the same everywhere (weights of norms, biases) hides mistakes.
static HostTensor unlike(HostTensor tensor, int64_t number) {
  if (isa<FloatType>(tensor.type.getElementType()) && tensor.size() > 1 &&
      llvm::all_equal(tensor.data))
    for (auto [i, element] : llvm::enumerate(tensor.data))
      element += 0.5 * uniformAt(number, int64_t(i));
  return tensor;
}

/// Parts along a new first dimension, whose sum is the tensor, no larger than
/// its elements.
static HostTensor partsOf(const HostTensor &sum, int64_t parts) {
  double largest = 0;
  for (double element : sum.data)
    largest = std::max(largest, std::abs(element));
  llvm::SmallVector<int64_t> shape(sum.shape());
  shape.insert(shape.begin(), parts);
  HostTensor all(withShape(sum.type, shape));
  for (int64_t i = 0; i < sum.size(); ++i) {
    double rest = sum.data[i];
    for (int64_t part = 1; part < parts; ++part) {
      double share = largest * uniformAt(part, i);
      all.data[part * sum.size() + i] = share;
      rest -= share;
    }
    all.data[i] = rest;
  }
  return all;
}

static Value addInput(Unit &unit, HostTensor tensor, Location loc) {
  Value input = unit.model.getBody().front().addArgument(tensor.type, loc);
  unit.inputs.push_back(std::move(tensor));
  return input;
}

/// What others than the ops of a unit read.
static llvm::SmallVector<Value>
resultsOf(const llvm::SetVector<Operation *> &ops) {
  llvm::SmallVector<Value> results;
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      bool isInside = llvm::all_of(result.getUsers(), [&](Operation *user) {
        return ops.contains(user);
      });
      if (ops.size() == 1 || !isInside || result.use_empty())
        results.push_back(result);
    }
  return results;
}

/// An input lies as one of its readers wants; of several each gets its own.
static Value wholeCopy(OpBuilder &builder, Value input) {
  Operation *copy =
      ReshapeOp::create(builder, input.getLoc(), input.getType(), input);
  copy->setAttr(kAssignAttrName,
                AssignAttr::get(builder.getContext(),
                                builder.getDictionaryAttr({}), {}, {}, 1,
                                /*routed=*/false));
  return copy->getResult(0);
}

Unit kerf::test::makeUnit(const llvm::SetVector<Operation *> &ops,
                          const WholeRun &whole, const Sums &sums) {
  Location loc = ops.front()->getLoc();
  OpBuilder builder(ops.front()->getContext());
  Unit unit;
  unit.module = ModuleOp::create(loc);
  builder.setInsertionPointToStart(unit.module->getBody());
  unit.model = ModelOp::create(builder, loc, "op", builder.getArrayAttr({}));
  Block &body = unit.model.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(&body);
  for (Operation *op : ops)
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (unit.copies.contains(operand) ||
          ops.contains(operand.getDefiningOp()))
        continue;
      HostTensor tensor = unlike(whole.get(operand), int64_t(i));
      bool isSum = op == ops.front() && llvm::is_contained(sums.operands, i);
      Value input =
          addInput(unit, isSum ? partsOf(tensor, sums.parts) : tensor, loc);
      if (isSum)
        input = PlainBuilder{builder, loc}.sum(input, {0});
      else if (ops.size() > 1)
        input = wholeCopy(builder, input);
      unit.copies.map(operand, input);
    }
  // All depends on inputs alone, so all runs in one function.
  for (Operation *op : ops)
    builder.clone(*op, unit.copies)->removeAttr(kPhaseAttrName);
  llvm::SmallVector<Attribute> roles(unit.inputs.size(),
                                     builder.getStringAttr(""));
  unit.model.setRolesAttr(builder.getArrayAttr(roles));
  // Models have a loss.
  llvm::SmallVector<Value> returned = {PlainBuilder{builder, loc}.constant(
      RankedTensorType::get({}, builder.getF32Type()), 0.0)};
  for (Value result : resultsOf(ops))
    returned.push_back(unit.copies.lookup(result));
  ReturnOp::create(builder, loc, returned);
  return unit;
}

//===----------------------------------------------------------------------===//
// Rows that lie with their owners
//===----------------------------------------------------------------------===//

bool kerf::test::hasRaggedMap(Operation *op) {
  auto iface = dyn_cast<FactorOpInterface>(op);
  return iface && llvm::any_of(iface.getFactors().maps, [](const FactorMap &m) {
           return m.ragged >= 0;
         });
}

/// True for a tensor of the rows that an op's map is about.
static bool isTable(const Factors &facts, const TensorFactors &dims) {
  return dims.size() == 3 && dims[1].size() == 1 &&
         int(dims[1][0]) == facts.maps[0].ragged;
}

/// The tables that an op reads or makes: with a map it knows, others pass on
/// what has their shape.
static llvm::SmallVector<Value> tablesOf(Operation *op,
                                         llvm::ArrayRef<int64_t> rows) {
  llvm::SmallVector<Value> tables;
  bool knows = hasRaggedMap(op);
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  auto look = [&](const TensorFactors &dims, Value value) {
    auto shape = typeOf(value).getShape();
    if (knows ? isTable(facts, dims)
              : shape.size() == 3 && shape.take_front(2) == rows)
      tables.push_back(value);
  };
  for (auto [dims, value] : llvm::zip(facts.operands, op->getOperands()))
    look(dims, value);
  for (auto [dims, value] : llvm::zip(facts.results, op->getResults()))
    look(dims, value);
  return tables;
}

/// All ops that tables connect with `op`, in program order.
llvm::SetVector<Operation *> kerf::test::opsOfTables(Operation *op) {
  auto rows = typeOf(tablesOf(op, {}).front()).getShape().take_front(2);
  llvm::SetVector<Operation *> found;
  llvm::SmallVector<Operation *> open = {op};
  while (!open.empty()) {
    Operation *next = open.pop_back_val();
    if (!found.insert(next))
      continue;
    for (Value table : tablesOf(next, rows)) {
      llvm::SmallVector<Operation *> others(table.getUsers());
      if (Operation *maker = table.getDefiningOp())
        others.push_back(maker);
      for (Operation *other : others)
        if (llvm::is_contained(tablesOf(other, rows), table))
          open.push_back(other);
    }
  }
  auto ordered = found.takeVector();
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return {ordered.begin(), ordered.end()};
}
