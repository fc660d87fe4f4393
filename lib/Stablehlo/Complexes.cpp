//===- Complexes.cpp - complex numbers as pairs ---------------------------===//

#include "Complexes.h"

#include "Converter.h"

using namespace kerf;
using namespace mlir;

namespace {

/// Real and imaginary parts, of one shape.
struct Pair {
  Value real, imaginary;
};

} // namespace

static ComplexType complexOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast<ComplexType>(tensor.getElementType())
                : ComplexType();
}

static bool isComplex(Value value) { return bool(complexOf(value.getType())); }

/// The type of a part.
static RankedTensorType partOf(Type type) {
  return cast<RankedTensorType>(type).clone(complexOf(type).getElementType());
}

static bool hasComplex(Operation *op) {
  return llvm::any_of(op->getOperands(), isComplex) ||
         llvm::any_of(op->getResults(), isComplex);
}

/// Ops that do the same with both parts.
static bool isByParts(llvm::StringRef name) {
  static const llvm::StringLiteral names[] = {
      "stablehlo.add",         "stablehlo.broadcast_in_dim",
      "stablehlo.concatenate", "stablehlo.dynamic_slice",
      "stablehlo.gather",      "stablehlo.dynamic_update_slice",
      "stablehlo.negate",      "stablehlo.optimization_barrier",
      "stablehlo.pad",         "stablehlo.reshape",
      "stablehlo.reverse",     "stablehlo.select",
      "stablehlo.slice",       "stablehlo.subtract",
      "stablehlo.transpose",   "sdy.sharding_constraint"};
  return llvm::is_contained(names, name);
}

namespace {

/// Writes the ops of a function one after the other.
class Splitter {
public:
  explicit Splitter(MLIRContext *context) : b(context) {}

  LogicalResult split(Block &block) {
    splitArguments(block);
    for (Operation &op : llvm::make_early_inc_range(block))
      if (failed(split(&op)))
        return failure();
    return success();
  }

  /// What was split has no readers any more, the last op first.
  void eraseOld() {
    for (Operation *op : llvm::reverse(old))
      op->erase();
    for (auto [block, index] : llvm::reverse(oldArguments))
      block->eraseArgument(index);
  }

private:
  /// A block has two arguments in place of a complex one.
  void splitArguments(Block &block) {
    for (unsigned i = 0; i < block.getNumArguments(); ++i) {
      BlockArgument whole = block.getArgument(i);
      if (!isComplex(whole))
        continue;
      Type type = partOf(whole.getType());
      BlockArgument real = block.insertArgument(i + 1, type, whole.getLoc());
      BlockArgument rest = block.insertArgument(i + 2, type, whole.getLoc());
      pairs[whole] = {real, rest};
      oldArguments.push_back({&block, i});
      i += 2;
    }
  }

  LogicalResult split(Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (failed(split(block)))
          return failure();
    if (!hasComplex(op))
      return success();
    b.setInsertionPoint(op);
    loc = op->getLoc();
    if (op->getNumRegions() || op->hasTrait<OpTrait::IsTerminator>() ||
        op->getName().getStringRef().ends_with(".return")) {
      flatten(op);
    } else if (op->getNumResults() != 1 || failed(splitPlain(op))) {
      emitError(placeOf(op))
          << "no counterpart of complex numbers in '"
          << op->getName().getStringRef()
          << "': they are made of pairs or angles, multiplied, viewed and "
             "taken apart; write what else there is with their parts";
      return failure();
    }
    old.push_back(op);
    return success();
  }

  /// An op of this name and with these attributes, and nothing else yet.
  OperationState likeOf(Operation *op) const {
    OperationState state(loc, op->getName().getIdentifier());
    state.propertiesAttr = op->getPropertiesAsAttribute();
    state.attributes = op->getDiscardableAttrDictionary();
    return state;
  }

  /// An op with two operands and results for each complex one: loops, branches
  /// and what ends a block.
  void flatten(Operation *op) {
    OperationState state = likeOf(op);
    for (Value operand : op->getOperands()) {
      if (!isComplex(operand)) {
        state.operands.push_back(operand);
        continue;
      }
      Pair pair = pairs.lookup(operand);
      state.operands.append({pair.real, pair.imaginary});
    }
    for (Type type : op->getResultTypes()) {
      bool isPair = bool(complexOf(type));
      state.types.append(isPair ? 2 : 1, isPair ? partOf(type) : type);
    }
    for (Region &region : op->getRegions())
      state.addRegion()->takeBody(region);
    Operation *made = b.create(state);
    unsigned next = 0;
    for (Value result : op->getResults()) {
      if (isComplex(result)) {
        pairs[result] = {made->getResult(next), made->getResult(next + 1)};
        next += 2;
      } else {
        result.replaceAllUsesWith(made->getResult(next++));
      }
    }
  }

  /// Ops of one result that have no regions.
  LogicalResult splitPlain(Operation *op) {
    llvm::StringRef name = op->getName().getStringRef();
    Value result = op->getResult(0);
    auto from = [&](unsigned i) { return pairs.lookup(op->getOperand(i)); };
    if (isByParts(name)) {
      pairs[result] = {copyOf(op, &Pair::real), copyOf(op, &Pair::imaginary)};
    } else if (name == "stablehlo.complex") {
      pairs[result] = {op->getOperand(0), op->getOperand(1)};
    } else if (name == "stablehlo.real") {
      result.replaceAllUsesWith(from(0).real);
    } else if (name == "stablehlo.imag") {
      result.replaceAllUsesWith(from(0).imaginary);
    } else if (name == "stablehlo.multiply") {
      pairs[result] = product(from(0), from(1));
    } else if (name == "stablehlo.divide") {
      pairs[result] = quotient(from(0), from(1));
    } else if (name == "chlo.conj") {
      pairs[result] = conjugate(from(0));
    } else if (name == "stablehlo.abs") {
      result.replaceAllUsesWith(unary("sqrt", square(from(0))));
    } else if (name == "stablehlo.exponential") {
      Value length = unary("exponential", from(0).real);
      Value angle = from(0).imaginary;
      pairs[result] = {binary("multiply", length, unary("cosine", angle)),
                       binary("multiply", length, unary("sine", angle))};
    } else if (name == "stablehlo.convert") {
      convert(op);
    } else if (name == "stablehlo.constant") {
      return constant(op);
    } else {
      return failure();
    }
    return success();
  }

  /// The op on one part of its complex operands.
  Value copyOf(Operation *op, Value Pair::*part) {
    OperationState state = likeOf(op);
    for (Value operand : op->getOperands())
      state.operands.push_back(isComplex(operand) ? pairs.lookup(operand).*part
                                                  : operand);
    state.types.push_back(partOf(op->getResult(0).getType()));
    return b.create(state)->getResult(0);
  }

  Value make(llvm::StringRef name, ValueRange operands, Type type) {
    OperationState state(loc, ("stablehlo." + name).str());
    state.addOperands(operands);
    state.addTypes(type);
    return b.create(state)->getResult(0);
  }
  Value unary(llvm::StringRef name, Value x) {
    return make(name, x, x.getType());
  }
  Value binary(llvm::StringRef name, Value x, Value y) {
    return make(name, {x, y}, x.getType());
  }
  Value splat(RankedTensorType type, double number) {
    OperationState state(loc, "stablehlo.constant");
    Attribute value = b.getFloatAttr(type.getElementType(), number);
    state.addAttribute("value", DenseElementsAttr::get(type, value));
    state.addTypes(type);
    return b.create(state)->getResult(0);
  }

  Pair product(Pair x, Pair y) {
    Value straight = binary("subtract", binary("multiply", x.real, y.real),
                            binary("multiply", x.imaginary, y.imaginary));
    Value crossed = binary("add", binary("multiply", x.real, y.imaginary),
                           binary("multiply", x.imaginary, y.real));
    return {straight, crossed};
  }
  Pair conjugate(Pair x) { return {x.real, unary("negate", x.imaginary)}; }
  Value square(Pair x) {
    return binary("add", binary("multiply", x.real, x.real),
                  binary("multiply", x.imaginary, x.imaginary));
  }
  Pair quotient(Pair x, Pair y) {
    Pair above = product(x, conjugate(y));
    Value below = square(y);
    return {binary("divide", above.real, below),
            binary("divide", above.imaginary, below)};
  }

  /// From numbers to complex ones, to their real parts, or among types.
  void convert(Operation *op) {
    Value x = op->getOperand(0), result = op->getResult(0);
    if (!isComplex(result)) {
      result.replaceAllUsesWith(
          make("convert", pairs.lookup(x).real, result.getType()));
      return;
    }
    RankedTensorType type = partOf(result.getType());
    if (isComplex(x))
      pairs[result] = {make("convert", pairs.lookup(x).real, type),
                       make("convert", pairs.lookup(x).imaginary, type)};
    else
      pairs[result] = {make("convert", x, type), splat(type, 0)};
  }

  /// A table of complex numbers is two tables.
  LogicalResult constant(Operation *op) {
    auto elements = op->getAttrOfType<DenseElementsAttr>("value");
    if (!elements)
      return failure();
    RankedTensorType type = partOf(op->getResult(0).getType());
    llvm::SmallVector<llvm::APFloat> real, imaginary;
    if (elements.isSplat()) {
      auto number = elements.getSplatValue<std::complex<llvm::APFloat>>();
      real = {number.real()};
      imaginary = {number.imag()};
    } else {
      for (const std::complex<llvm::APFloat> &number :
           elements.getValues<std::complex<llvm::APFloat>>()) {
        real.push_back(number.real());
        imaginary.push_back(number.imag());
      }
    }
    auto table = [&](llvm::ArrayRef<llvm::APFloat> numbers) {
      OperationState state(loc, "stablehlo.constant");
      state.addAttribute("value", DenseElementsAttr::get(type, numbers));
      state.addTypes(type);
      return b.create(state)->getResult(0);
    };
    pairs[op->getResult(0)] = {table(real), table(imaginary)};
    return success();
  }

  OpBuilder b;
  Location loc = b.getUnknownLoc();
  llvm::DenseMap<Value, Pair> pairs;
  std::vector<Operation *> old;
  std::vector<std::pair<Block *, unsigned>> oldArguments;
};

} // namespace

LogicalResult kerf::splitComplexNumbers(Operation *main) {
  bool isAny = false;
  main->walk([&](Operation *op) { isAny |= hasComplex(op); });
  if (!isAny)
    return success();
  for (Value argument : main->getRegion(0).getArguments())
    if (isComplex(argument)) {
      emitError(main->getLoc())
          << "an argument of " << argument.getType()
          << ": compute complex tables in the function, or hand their real "
             "and imaginary parts on";
      return failure();
    }
  Splitter splitter(main->getContext());
  for (Block &block : main->getRegion(0))
    if (failed(splitter.split(block)))
      return failure();
  splitter.eraseOld();
  return success();
}
