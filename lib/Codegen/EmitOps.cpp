//===- EmitOps.cpp - elements of each plain op ----------------------------===//

#include "Emitter.h"
#include "Parts.h"

#include "kerf/Dialect/Kerf/Random.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

namespace LLVM = mlir::LLVM;
using Result = std::optional<Element>;

/// An element as wide as the value that was computed for it.
static Element wrap(Value value) {
  return {value, isa<VectorType>(value.getType())};
}

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

Result Emitter::pull(Value tensor, llvm::ArrayRef<Index> at) {
  std::vector<int64_t> key = {
      reinterpret_cast<int64_t>(tensor.getAsOpaquePointer()),
      hasLanes(at) ? laneContext : 0};
  for (const Index &index : at)
    index.appendKey(key);
  unsigned place = depthOf(at);
  auto known = scopes[place].known.find(key);
  if (known != scopes[place].known.end())
    return known->second;
  Result result;
  hoisted(place, [&] {
    result = emit(tensor, at);
    if (result)
      scopes[place].known[key] = *result;
  });
  return result;
}

Result Emitter::pullAt(Value tensor, const Index &position) {
  auto at = space.delinearize(position, typeOf(tensor).getShape());
  if (!at)
    return std::nullopt;
  return pull(tensor, *at);
}

Result Emitter::emit(Value tensor, llvm::ArrayRef<Index> at) {
  if (auto argument = dyn_cast<BlockArgument>(tensor))
    return emitArgument(argument.getArgNumber(), elementOf(tensor),
                        space.linearize(at, typeOf(tensor).getShape()));
  Operation *op = tensor.getDefiningOp();
  if (isConstant(op))
    return emitConstant(op, elementOf(tensor), at);
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<IotaOp>([&](auto op) { return emitIota(op, at); })
      .Case<RandomUniformOp>([&](auto op) { return emitRandom(op, at); })
      .Case<ViewOpInterface>([&](auto op) { return emitView(op, at); })
      .Case<GatherOp>([&](auto op) { return emitGather(op, at); })
      .Case<ReduceOp>([&](auto op) { return emitReduce(op, at); })
      .Case<EinsumOp>([&](auto op) { return emitEinsum(op, at); })
      .Default([&](Operation *op) { return emitPointwise(op, at); });
}

Result Emitter::emitView(ViewOpInterface op, llvm::ArrayRef<Index> at) {
  View view = op.getView();
  Value x = op->getOperand(0);
  Indices from;
  switch (view.kind) {
  case ViewKind::Rename:
    return pullAt(x, space.linearize(at, typeOf(op->getResult(0)).getShape()));
  case ViewKind::Repeat:
    for (int64_t dim : view.dims)
      from.push_back(at[dim]);
    return pull(x, from);
  case ViewKind::Turn:
    from.resize(at.size());
    for (auto [to, dim] : llvm::enumerate(view.dims))
      from[dim] = at[to];
    return pull(x, from);
  case ViewKind::Part:
    for (auto [index, offset] : llvm::zip(at, view.offsets))
      from.push_back(index + Index(offset));
    return pull(x, from);
  case ViewKind::Pad:
    return emitPad(x, view.offsets, at);
  case ViewKind::Join:
    return emitJoin(op, view.dims[0], at);
  }
  llvm_unreachable("covered switch");
}

Element Emitter::numbers(const Index &index) {
  Index base = index;
  base.lane = 0;
  Value first = materialize(base);
  if (index.lane == 0)
    return {first, false};
  return {arith.add(first, arith.steps(arith.i64(), lanes, index.lane)), true};
}

//===----------------------------------------------------------------------===//
// Element-wise
//===----------------------------------------------------------------------===//

std::pair<arith::CmpFPredicate, arith::CmpIPredicate>
kerf::codegen::predicatesOf(Relation relation) {
  switch (relation) {
  case Relation::EQ:
    return {arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq};
  case Relation::NE:
    return {arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne};
  case Relation::LT:
    return {arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt};
  case Relation::LE:
    return {arith::CmpFPredicate::OLE, arith::CmpIPredicate::sle};
  case Relation::GT:
    return {arith::CmpFPredicate::OGT, arith::CmpIPredicate::sgt};
  case Relation::GE:
    return {arith::CmpFPredicate::OGE, arith::CmpIPredicate::sge};
  }
  llvm_unreachable("covered switch");
}

namespace {
/// What element-wise ops build of themselves with.
struct Scalars : ScalarBuilder {
  Arith &a;
  Type resultType; ///< of numbers
  Scalars(Arith &a, Type resultType) : a(a), resultType(resultType) {}

  Value number(Value like, double x) override {
    return a.number(like.getType(), x);
  }
  Value add(Value x, Value y) override { return a.add(x, y); }
  Value sub(Value x, Value y) override { return a.sub(x, y); }
  Value mul(Value x, Value y) override { return a.mul(x, y); }
  Value div(Value x, Value y) override { return a.div(x, y); }
  Value max(Value x, Value y) override { return a.max(x, y); }
  Value min(Value x, Value y) override { return a.min(x, y); }
  Value pow(Value x, Value y) override { return a.pow(x, y); }
  Value neg(Value x) override { return a.neg(x); }
  Value exp(Value x) override { return a.exp(x); }
  Value log(Value x) override { return a.log(x); }
  Value sqrt(Value x) override { return a.sqrt(x); }
  Value tanh(Value x) override { return a.tanh(x); }
  Value erf(Value x) override { return a.erf(x); }
  Value sin(Value x) override { return a.sin(x); }
  Value cos(Value x) override { return a.cos(x); }
  Value powerOfTwo(Value x) override { return a.powerOfTwo(x); }
  Value compare(Relation relation, Value x, Value y) override {
    auto [floats, integers] = predicatesOf(relation);
    return a.compare(floats, integers, x, y);
  }
  Value select(Value condition, Value x, Value y) override {
    return a.select(condition, x, y);
  }
  /// 8-bit floats are converted from and to f32.
  Value cast(Value x, Type from, Type to) override {
    if (isFloat8(from))
      x = a.fromFloat8(x, from);
    return isFloat8(to) ? a.toFloat8(a.cast(x, a.f32()), to)
                        : a.cast(x, resultType);
  }
};
} // namespace

Result Emitter::emitPointwise(Operation *op, llvm::ArrayRef<Index> at) {
  auto scalar = dyn_cast<ScalarOpInterface>(op);
  if (!scalar) {
    obstacle = op;
    return std::nullopt;
  }
  auto compare = dyn_cast<CompareOp>(op);
  if (compare)
    if (Result known = emitKnownCompare(compare, at))
      return known;
  Type type = typeOfNumbers(elementOf(op->getResult(0)));
  if (isConversion(op) && !isFloat8(op->getResult(0).getType()))
    if (Operation *made = op->getOperand(0).getDefiningOp(); isConstant(made))
      return emitConstant(made, elementOf(op->getResult(0)), at);
  llvm::SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Result element = pull(operand, at);
    if (!element)
      return std::nullopt;
    Value value = element->value;
    // Registers hold more than the narrow types: values that are equal in
    // memory must be equal here, as a maximum and the element that it is.
    if (Type narrow = elementOf(operand);
        compare && (narrow.isBF16() || narrow.isF16()))
      value = fromStorage(toStorage(value, narrow), narrow, element->isVector)
                  .value;
    operands.push_back(value);
  }
  Scalars scalars(arith, type);
  return wrap(scalar.buildElement(scalars, operands));
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

/// Elements of a constant, converted.
static HostTensor valuesOf(Operation *op, Type element) {
  HostTensor tensor(typeOf(op->getResult(0)));
  cast<EvaluateOpInterface>(op).evaluate({}, tensor);
  for (double &x : tensor.data)
    x = roundToType(x, element, false);
  return tensor;
}

LLVM::GlobalOp Emitter::tableOf(Operation *op, Type element) {
  LLVM::GlobalOp &table = tables[{op, element.getAsOpaquePointer()}];
  if (table)
    return table;
  HostTensor tensor = valuesOf(op, element);
  Type number = typeOfNumbers(element);
  if (number.isInteger(1))
    number = builder.getI8Type();
  llvm::SmallVector<Attribute> values;
  for (double x : tensor.data)
    values.push_back(isa<FloatType>(number)
                         ? Attribute(builder.getFloatAttr(number, x))
                         : builder.getIntegerAttr(number, int64_t(x)));
  auto type = RankedTensorType::get({tensor.size()}, number);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(module.getBody());
  std::string name =
      (function.getSymName() + "_table" + llvm::Twine(tables.size())).str();
  table = LLVM::GlobalOp::create(
      builder, arith.loc, LLVM::LLVMArrayType::get(number, tensor.size()),
      /*isConstant=*/true, LLVM::Linkage::Internal, name,
      DenseElementsAttr::get(type, values), /*alignment=*/64,
      /*addrSpace=*/isGpu() ? 1 : 0);
  return table;
}

Result Emitter::emitConstant(Operation *op, Type element,
                             llvm::ArrayRef<Index> at) {
  if (isFloat8(element)) {
    Result wide = emitConstant(op, builder.getF32Type(), at);
    return Element{arith.toFloat8(wide->value, element), wide->isVector};
  }
  DenseElementsAttr value;
  matchPattern(op, m_Constant(&value));
  Type number = typeOfNumbers(element);
  if (value.isSplat()) {
    HostTensor one(RankedTensorType::get({}, value.getElementType()));
    Attribute splat = value.getSplatValue<Attribute>();
    double x = 0;
    if (auto real = dyn_cast<FloatAttr>(splat))
      x = real.getValueAsDouble();
    else if (cast<IntegerAttr>(splat).getType().isInteger(1))
      x = cast<IntegerAttr>(splat).getValue().getBoolValue();
    else
      x = cast<IntegerAttr>(splat).getValue().getSExtValue();
    return Element{arith.number(number, roundToType(x, element, false)), false};
  }
  LLVM::GlobalOp table = tableOf(op, element);
  Value address = LLVM::AddressOfOp::create(builder, arith.loc, table);
  constants.insert(address);
  // Tables hold the numbers that are computed with.
  Type stored = element.isInteger(1) ? element : number;
  return loadFrom(address, stored,
                  space.linearize(at, typeOf(op->getResult(0)).getShape()));
}

/// As `ZigzagAttr::positionOf`, of i64.
Value Emitter::positionOf(ZigzagAttr zigzag, Value row) {
  auto make = [&](auto kind, Value x, int64_t number) -> Value {
    return decltype(kind)::create(builder, arith.loc, x,
                                  arith.bits(x.getType(), number));
  };
  Value chunk = make(arith::DivUIOp(), row, zigzag.getChunk());
  Value place = make(arith::ShRUIOp(), chunk, 1);
  Value mirrored = arith::SubIOp::create(
      builder, arith.loc,
      arith.bits(place.getType(), 2 * zigzag.getRanks() - 1), place);
  Value isSecond = arith::TruncIOp::create(
      builder, arith.loc, arith.shaped(builder.getI1Type(), row.getType()),
      chunk);
  Value own =
      arith::SelectOp::create(builder, arith.loc, isSecond, mirrored, place);
  return arith.add(make(arith::MulIOp(), own, zigzag.getChunk()),
                   make(arith::RemUIOp(), row, zigzag.getChunk()));
}

Result Emitter::emitIota(IotaOp op, llvm::ArrayRef<Index> at) {
  Element index = numbers(at[op.getDim()]);
  if (auto zigzag = op.getZigzag()) {
    Value row = index.value;
    if (op.getOffset())
      row = arith.add(row,
                      arith::ExtSIOp::create(builder, arith.loc, arith.i64(),
                                             pull(op.getOffset(), {})->value));
    Value position = positionOf(*zigzag, row);
    Type narrow = arith.shaped(arith.i32(), position.getType());
    return wrap(arith::TruncIOp::create(builder, arith.loc, narrow, position));
  }
  Type type = arith.shaped(arith.i32(), index.value.getType());
  Value value = arith::TruncIOp::create(builder, arith.loc, type, index.value);
  if (op.getOffset())
    value = arith.add(value, pull(op.getOffset(), {})->value);
  return wrap(value);
}

Result Emitter::emitRandom(RandomUniformOp op, llvm::ArrayRef<Index> at) {
  auto scalar = [&](Value tensor) -> Value {
    return arith::ExtSIOp::create(builder, arith.loc, arith.i64(),
                                  pull(tensor, {})->value);
  };
  auto mixed = [&](Value key, Value with) {
    return arith.mixBits(arith::XOrIOp::create(builder, arith.loc, key, with));
  };
  auto shape =
      op.getGlobal() ? *op.getGlobal() : typeOf(op.getResult()).getShape();
  auto strides = stridesOf(shape);
  auto ordered = [&](int64_t d) {
    return op.getZigzag() && op.getZigzag()->orders(d);
  };
  // The stream is the same for all elements: computed at the function's start.
  Value stream, offset;
  hoisted(0, [&] {
    Value key = arith.mixBits(scalar(op.getSeed()));
    key = mixed(key, scalar(op.getStep()));
    key = mixed(key, op.getLayer() ? scalar(op.getLayer())
                                   : arith.bits(arith.i64(), -1));
    stream = mixed(key, arith.bits(arith.i64(), hashName(op.getName())));
    offset = arith.bits(arith.i64(), 0);
    for (auto [d, value] : llvm::enumerate(op.getOffsets()))
      if (!ordered(d))
        offset =
            arith.add(offset, arith.mul(scalar(value),
                                        arith.bits(arith.i64(), strides[d])));
  });
  Index position;
  for (auto [d, stride] : llvm::enumerate(strides))
    if (!ordered(d))
      position = position + at[d] * stride;
  Value index = arith.add(numbers(position).value, offset);
  for (auto [d, stride] : llvm::enumerate(strides)) {
    if (!ordered(d))
      continue;
    Value row = numbers(at[d]).value;
    if (!op.getOffsets().empty())
      row = arith.add(row, scalar(op.getOffsets()[d]));
    row = positionOf(*op.getZigzag(), row);
    index = arith.add(index, arith.mul(row, arith.bits(row.getType(), stride)));
  }
  Value key = stream;
  Value hash = arith.mixBits(index);
  arith.match(key, hash);
  Value word = mixed(key, hash);
  word = arith::ShRUIOp::create(builder, arith.loc, word,
                                arith.bits(word.getType(), 40));
  word = arith::TruncIOp::create(
      builder, arith.loc, arith.shaped(arith.i32(), word.getType()), word);
  Type number = typeOfNumbers(elementOf(op.getResult()));
  return wrap(arith.mul(arith.cast(word, number), 0x1p-24));
}

//===----------------------------------------------------------------------===//
// Elements from elsewhere
//===----------------------------------------------------------------------===//

std::optional<Emitter::Clamped> Emitter::clamp(const Index &index,
                                               int64_t size) {
  Range range = space.rangeOf(index);
  if (range.low >= 0 && range.high < size)
    return Clamped{index, Value(), true};
  if (range.high < 0 || range.low >= size)
    return Clamped{Index(), Value(), false};
  auto parts = space.stepped(index, size);
  if (!parts)
    return std::nullopt;
  Value base = materialize(parts->base);
  Value zero = arith.bits(arith.i64(), 0);
  Value last = arith.bits(arith.i64(), size / parts->step - 1);
  Value inside = arith::CmpIOp::create(builder, arith.loc,
                                       arith::CmpIPredicate::ule, base, last);
  Value safe = arith.min(arith.max(base, zero), last);
  Index number =
      opaque(safe, {0, size / parts->step - 1}, space.differs(parts->base));
  return Clamped{number * parts->step + parts->rest, inside, true};
}

Result Emitter::emitPad(Value x, llvm::ArrayRef<int64_t> lows,
                        llvm::ArrayRef<Index> at) {
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  Type number = typeOfNumbers(elementOf(x));
  Indices from;
  Value inside;
  for (auto [index, low, size] : llvm::zip(at, lows, shape)) {
    auto clamped = clamp(index + Index(-low), size);
    if (!clamped)
      return std::nullopt;
    if (!clamped->isInside)
      return Element{arith.number(number, 0), false};
    from.push_back(clamped->index);
    if (clamped->inside)
      inside = inside ? arith::AndIOp::create(builder, arith.loc, inside,
                                              clamped->inside)
                      : clamped->inside;
  }
  Result element = pull(x, from);
  if (!element || !inside)
    return element;
  Value zero = arith.number(element->value.getType(), 0);
  return wrap(arith.select(inside, element->value, zero));
}

Result Emitter::emitJoin(Operation *op, int64_t dim, llvm::ArrayRef<Index> at) {
  int64_t begin = 0;
  Value value;
  for (Value input : op->getOperands()) {
    int64_t size = typeOf(input).getDimSize(dim);
    Indices from(at);
    auto clamped = size == 0 ? Clamped{Index(), Value(), false}
                             : clamp(at[dim] + Index(-begin), size);
    begin += size;
    if (!clamped)
      return std::nullopt;
    if (!clamped->isInside)
      continue;
    from[dim] = clamped->index;
    Result element = pull(input, from);
    if (!element)
      return std::nullopt;
    value = value && clamped->inside
                ? arith.select(clamped->inside, element->value, value)
                : element->value;
  }
  return wrap(value);
}

std::optional<std::pair<Index, Value>>
Emitter::rowOf(GatherOp op, llvm::ArrayRef<Index> at) {
  std::vector<int64_t> key = {reinterpret_cast<int64_t>(op.getOperation())};
  for (const Index &index : at)
    index.appendKey(key);
  unsigned place = depthOf(at);
  auto known = scopes[place].rows.find(key);
  if (known != scopes[place].rows.end())
    return known->second;
  std::optional<std::pair<Index, Value>> result;
  hoisted(place, [&] {
    Result id = pull(op.getIndex(), at);
    if (!id || id->isVector)
      return;
    int64_t rows = typeOf(op.getTable()).getDimSize(0);
    Value wide =
        arith::ExtSIOp::create(builder, arith.loc, arith.i64(), id->value);
    Value count = arith.bits(arith.i64(), rows);
    Value inside = arith::CmpIOp::create(
        builder, arith.loc, arith::CmpIPredicate::ult, wide, count);
    Value safe = arith.select(inside, wide, arith.bits(arith.i64(), 0));
    result = {opaque(safe, {0, rows - 1}, differs(at)), inside};
    scopes[place].rows[key] = *result;
  });
  return result;
}

Result Emitter::emitGather(GatherOp op, llvm::ArrayRef<Index> at) {
  size_t rank = typeOf(op.getIndex()).getRank();
  auto row = rowOf(op, at.take_front(rank));
  if (!row)
    return std::nullopt;
  Type number = typeOfNumbers(elementOf(op.getTable()));
  if (typeOf(op.getTable()).getDimSize(0) == 0)
    return Element{arith.number(number, 0), false};
  Indices from = {row->first};
  llvm::append_range(from, at.drop_front(rank));
  Result element = pull(op.getTable(), from);
  if (!element)
    return std::nullopt;
  Value zero = arith.number(element->value.getType(), 0);
  return wrap(arith.select(row->second, element->value, zero));
}
