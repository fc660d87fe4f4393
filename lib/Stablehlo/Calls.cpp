#include "Calls.h"

#include "Attributes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/IRMapping.h"

using namespace kerf;
using namespace mlir;

/// Calls inside calls, at most.
static constexpr int64_t kMostCalls = 1 << 20;

static bool isFunction(Operation &op) {
  return op.getName().getStringRef() == "func.func";
}

static llvm::StringRef symbolOf(Operation &op) {
  auto name = op.getAttrOfType<StringAttr>("sym_name");
  return name ? name.getValue() : "";
}

Operation *kerf::findMain(ModuleOp module) {
  // A printed module stands inside the one of the file.
  Operation *found = nullptr;
  module.walk([&](Operation *op) {
    if (isFunction(*op) && op->getNumRegions() == 1 &&
        op->getRegion(0).hasOneBlock() && (!found || symbolOf(*op) == "main"))
      found = op;
  });
  if (!found)
    module.emitError() << "expected the text of one lowered function, '@main'";
  return found;
}

static Operation *calleeOf(Operation *call, Operation *main) {
  auto callee = call->getAttrOfType<SymbolRefAttr>("callee");
  if (!callee)
    return nullptr;
  for (Operation &op : *main->getBlock())
    if (isFunction(op) &&
        symbolOf(op) == callee.getLeafReference().getValue() &&
        op.getRegion(0).hasOneBlock())
      return &op;
  return nullptr;
}

/// Puts the ops of a function in the place of a call.
static void inlineCall(Operation *call, Operation *callee) {
  Block &body = callee->getRegion(0).front();
  IRMapping map;
  for (auto [argument, operand] :
       llvm::zip_equal(body.getArguments(), call->getOperands()))
    map.map(argument, operand);
  OpBuilder builder(call);
  for (Operation &op : llvm::drop_end(body)) {
    Operation *copy = builder.clone(op, map);
    // The line that called is the user's where the called one is a library's.
    copy->setLoc(CallSiteLoc::get(op.getLoc(), call->getLoc()));
  }
  for (auto [result, operand] :
       llvm::zip_equal(call->getResults(), body.back().getOperands()))
    result.replaceAllUsesWith(map.lookupOrDefault(operand));
  call->erase();
}

LogicalResult kerf::inlineCalls(ModuleOp module, Operation *main) {
  for (int64_t count = 0; count < kMostCalls;) {
    llvm::SmallVector<Operation *> calls;
    main->walk([&](Operation *op) {
      if (op->getName().getStringRef() == "func.call")
        calls.push_back(op);
    });
    if (calls.empty())
      return success();
    for (Operation *call : calls) {
      Operation *callee = calleeOf(call, main);
      bool isCallable =
          callee && callee != main && !callee->getRegion(0).front().empty() &&
          callee->getRegion(0).getNumArguments() == call->getNumOperands() &&
          callee->getRegion(0).front().back().getNumOperands() ==
              call->getNumResults();
      if (!isCallable)
        return call->emitError() << "calls a function that the text has not";
      inlineCall(call, callee);
      ++count;
    }
  }
  return main->emitError() << "functions call each other without an end";
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

static llvm::StringRef opName(Operation *op) {
  return op ? op->getName().stripDialect() : llvm::StringRef();
}

/// The number that all elements of a constant are; none for other values.
static std::optional<int64_t> numberOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (opName(op) == "broadcast_in_dim" || opName(op) == "convert")
    return numberOf(op->getOperand(0));
  auto elements = opName(op) == "constant"
                      ? op->getAttrOfType<DenseIntElementsAttr>("value")
                      : nullptr;
  if (!elements || !elements.isSplat() || elements.getNumElements() == 0)
    return std::nullopt;
  return elements.getSplatValue<llvm::APInt>().getSExtValue();
}

static bool isNan(Value value) {
  Operation *op = value.getDefiningOp();
  if (opName(op) == "broadcast_in_dim")
    return isNan(op->getOperand(0));
  auto elements = opName(op) == "constant"
                      ? op->getAttrOfType<DenseFPElementsAttr>("value")
                      : nullptr;
  return elements && elements.isSplat() &&
         elements.getSplatValue<llvm::APFloat>().isNaN();
}

/// x of `x < 0 ? x + N : x`, which JAX makes of an index that may count from
/// the end; null else.
static Value unwrapped(Operation *select) {
  Value x = select->getOperand(2);
  Operation *less = select->getOperand(0).getDefiningOp();
  Operation *add = select->getOperand(1).getDefiningOp();
  bool isWrap = opName(less) == "compare" && opName(add) == "add" &&
                wordOf(less, "comparison_direction") == "LT" &&
                less->getOperand(0) == x &&
                numberOf(less->getOperand(1)) == 0 && add->getOperand(0) == x &&
                numberOf(add->getOperand(1));
  return isWrap ? x : Value();
}

/// The argument of `main` whose elements `value` has, as they are or wrapped:
/// component `component` along dimension `dim` of a vector of indices. Null
/// where they may be others.
static BlockArgument indexedBy(Value value, int64_t dim, int64_t component) {
  while (value && !isa<BlockArgument>(value)) {
    Operation *op = value.getDefiningOp();
    llvm::StringRef name = opName(op);
    if (name == "concatenate") {
      if (integerOf(op, "dimension") != dim ||
          component >= op->getNumOperands())
        return {};
      value = op->getOperand(component);
    } else if (name == "select") {
      value = unwrapped(op);
    } else if (name == "broadcast_in_dim" || name == "reshape" ||
               name == "convert" || name == "slice" || name == "transpose") {
      value = op->getOperand(0);
    } else {
      return {};
    }
  }
  return dyn_cast_or_null<BlockArgument>(value);
}

/// True for a comparison that only asks whether an index counts from the end.
static bool wrapsOnly(Operation *compare) {
  return llvm::all_of(compare->getResult(0).getUsers(), [&](Operation *user) {
    return opName(user) == "select" &&
           user->getOperand(0) == compare->getResult(0) &&
           unwrapped(user) == compare->getOperand(0);
  });
}

/// True for a comparison that only keeps a gather inside its table: it is part
/// of a condition between what was gathered and no numbers.
static bool isBoundCheck(Operation *compare) {
  llvm::SmallVector<Value> open = {compare->getResult(0)};
  while (!open.empty()) {
    Value value = open.pop_back_val();
    for (Operation *user : value.getUsers()) {
      llvm::StringRef name = opName(user);
      if (name == "and" || name == "reduce" || name == "broadcast_in_dim") {
        open.push_back(user->getResult(0));
        continue;
      }
      bool isFill = name == "select" && user->getOperand(0) == value &&
                    opName(user->getOperand(1).getDefiningOp()) == "gather";
      if (!isFill || !isNan(user->getOperand(2)))
        return false;
    }
  }
  return true;
}

/// True for a comparison with a number that a table has, as that of targets
/// with the one of padding: numbers outside are not asked for.
static bool isOfTable(Operation *compare) {
  Value number = compare->getOperand(1);
  while (opName(number.getDefiningOp()) == "broadcast_in_dim")
    number = number.getDefiningOp()->getOperand(0);
  auto known = numberOf(number);
  llvm::StringRef direction = wordOf(compare, "comparison_direction");
  return known && *known >= 0 &&
         (direction == "NE" || direction == "EQ" || direction == "GT");
}

/// True where somebody asks whether the argument is below something else than
/// 0: what is asked must not be answered by the bound.
static bool isGuarded(BlockArgument argument) {
  llvm::SmallVector<Value> open = {argument};
  llvm::DenseSet<Operation *> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    for (Operation *user : value.getUsers()) {
      llvm::StringRef name = opName(user);
      if (!seen.insert(user).second)
        continue;
      if ((name == "compare" && !wrapsOnly(user) && !isBoundCheck(user) &&
           !isOfTable(user)) ||
          name == "clamp" || name == "minimum" || name == "maximum")
        return true;
      if (name == "broadcast_in_dim" || name == "reshape" ||
          name == "convert" || name == "slice" || name == "select" ||
          name == "concatenate" || name == "transpose")
        open.push_back(user->getResult(0));
    }
  }
  return false;
}

std::vector<InputBound> kerf::findBounds(Operation *main) {
  Region &region = main->getRegion(0);
  std::vector<InputBound> bounds(region.getNumArguments());
  for (auto [argument, bound] : llvm::zip_equal(region.getArguments(), bounds))
    bound.isAsked = isGuarded(argument);
  main->walk([&](Operation *op) {
    if (op->getName().getStringRef() != "stablehlo.gather")
      return;
    auto table = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
    Sizes indexed = listIn(op, "dimension_numbers", "start_index_map");
    int64_t dim =
        numberIn(op, "dimension_numbers", "index_vector_dim").value_or(0);
    for (auto [n, of] : llvm::enumerate(indexed)) {
      BlockArgument argument = indexedBy(op->getOperand(1), dim, n);
      if (!table || !argument || of >= table.getRank() ||
          argument.getOwner()->getParentOp() != main)
        continue;
      InputBound &bound = bounds[argument.getArgNumber()];
      if (!bound.isAsked)
        bound.rows = std::max(bound.rows, table.getDimSize(of));
    }
  });
  return bounds;
}
