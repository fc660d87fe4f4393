//===- Emitter.cpp - scopes, loops, memory --------------------------------===//

#include "Emitter.h"

#include "kerf/Dialect/Exec/SplitKernel.h"

#include <cmath>
#include <utility>

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

namespace LLVM = mlir::LLVM;

Emitter::Emitter(exec::KernelOp kernel, ModuleOp module, llvm::StringRef symbol,
                 const CodeOptions &options)
    : builder(module.getContext()),
      arith{builder, UnknownLoc::get(module.getContext()), options.hasBf16,
            options.threads > 0, options.hasFloat8},
      kernel(kernel), maxLanes(options.maxLanes), threads(options.threads),
      module(module) {
  builder.setInsertionPointToEnd(module.getBody());
  if (isGpu())
    startGpu(symbol);
  else
    startCpu(symbol);
}

void Emitter::startCpu(llvm::StringRef symbol) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(builder.getContext()),
      {pointer, builder.getI64Type(), builder.getI64Type()});
  function = LLVM::LLVMFuncOp::create(builder, arith.loc, symbol, type);
  Block *entry = function.addEntryBlock(builder);
  enter(entry);
  begin = entry->getArgument(1);
  end = entry->getArgument(2);
  size_t count =
      kernel.getArgumentTypes().size() + kernel.getResultTypes().size();
  for (size_t i = 0; i < count; ++i) {
    Value address = LLVM::GEPOp::create(
        builder, arith.loc, pointer, pointer, entry->getArgument(0),
        llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    pointers.push_back(LLVM::LoadOp::create(builder, arith.loc, pointer,
                                            address, 8, false, false,
                                            /*isInvariant=*/true));
  }
}

//===----------------------------------------------------------------------===//
// Scopes
//===----------------------------------------------------------------------===//

void Emitter::enter(Block *block) {
  Team team = scopes.empty() ? Team() : scopes.back().team;
  bool isRepeated = !scopes.empty() && scopes.back().isRepeated;
  scopes.push_back({block, nullptr, {}, {}, {}, {}, {}, team, isRepeated});
  setInsertionPoint(depth());
}

void Emitter::leave() {
  scopes.pop_back();
  setInsertionPoint(depth());
}

void Emitter::setInsertionPoint(unsigned depth) {
  if (depth + 1 < scopes.size()) {
    builder.setInsertionPoint(scopes[depth + 1].block->getParentOp());
    return;
  }
  if (scopes[depth].before) {
    builder.setInsertionPoint(scopes[depth].before);
    return;
  }
  Block *block = scopes[depth].block;
  if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
    builder.setInsertionPoint(&block->back());
  else
    builder.setInsertionPointToEnd(block);
}

unsigned Emitter::depthOf(llvm::ArrayRef<Index> at) const {
  unsigned depth = std::min(leastDepth, this->depth());
  for (const Index &index : at) {
    depth = std::max(depth, space.depthOf(index));
    if (index.lane != 0)
      depth = std::max(depth, laneDepth);
  }
  return depth;
}

void Emitter::hoisted(unsigned target, llvm::function_ref<void()> body) {
  if (target == depth()) {
    OpBuilder::InsertionGuard guard(builder);
    setInsertionPoint(target);
    body();
    return;
  }
  OpBuilder::InsertPoint point = builder.saveInsertionPoint();
  std::vector<Scope> inner(std::make_move_iterator(scopes.begin() + target + 1),
                           std::make_move_iterator(scopes.end()));
  scopes.resize(target + 1);
  Operation *before = scopes.back().before;
  scopes.back().before = inner.front().block->getParentOp();
  setInsertionPoint(target);
  if (target < laneDepth)
    withLanes(1, 1, body);
  else
    body();
  scopes.back().before = before;
  std::move(inner.begin(), inner.end(), std::back_inserter(scopes));
  builder.restoreInsertionPoint(point);
}

bool Emitter::tryEmit(llvm::function_ref<bool()> body) {
  Scope before = scopes.back();
  Block *block = before.block;
  size_t readCount = reads.size(), writeCount = writes.size();
  auto last = [&]() -> Operation * {
    if (before.before)
      return before.before->getPrevNode();
    if (block->empty())
      return nullptr;
    Operation *op = &block->back();
    return op->hasTrait<OpTrait::IsTerminator>() ? op->getPrevNode() : op;
  };
  Operation *marker = last();
  if (body())
    return true;
  while (last() != marker) {
    last()->dropAllDefinedValueUses();
    last()->erase();
  }
  scopes.back() = before;
  reads.resize(readCount);
  writes.resize(writeCount);
  setInsertionPoint(depth());
  return false;
}

//===----------------------------------------------------------------------===//
// Indices as numbers
//===----------------------------------------------------------------------===//

Value Emitter::variable(unsigned number) {
  unsigned depth = space[number].depth;
  auto known = scopes[depth].variables.find(number);
  if (known != scopes[depth].variables.end())
    return known->second;
  const IndexSpace::Variable &part = space[number];
  assert(part.kind != IndexSpace::Kind::Loop && "loops have numbers");
  Value of = materialize(part.of);
  OpBuilder::InsertionGuard guard(builder);
  setInsertionPoint(depth);
  Value by = arith.bits(arith.i64(), part.by);
  Value value;
  if (part.kind == IndexSpace::Kind::Quotient)
    value = arith::DivUIOp::create(builder, arith.loc, of, by);
  else
    value = arith::RemUIOp::create(builder, arith.loc, of, by);
  scopes[depth].variables[number] = value;
  return value;
}

Value Emitter::materialize(const Index &index) {
  unsigned depth = space.depthOf(index);
  std::vector<int64_t> key;
  index.appendKey(key);
  auto known = scopes[depth].sums.find(key);
  if (known != scopes[depth].sums.end())
    return known->second;
  llvm::SmallVector<Value> parts;
  for (const Index::Term &term : index.terms)
    parts.push_back(variable(term.variable));
  OpBuilder::InsertionGuard guard(builder);
  setInsertionPoint(depth);
  Value sum;
  for (auto [term, part] : llvm::zip(index.terms, parts)) {
    Value scaled =
        term.coefficient == 1
            ? part
            : arith.mul(part, arith.bits(arith.i64(), term.coefficient));
    sum = sum ? arith.add(sum, scaled) : scaled;
  }
  if (!sum)
    sum = arith.bits(arith.i64(), index.constant);
  else if (index.constant != 0)
    sum = arith.add(sum, arith.bits(arith.i64(), index.constant));
  scopes[depth].sums[key] = sum;
  return sum;
}

Index Emitter::opaque(Value number, Range range, bool differs) {
  Index index = space.addVariable(range, depth(), differs);
  if (!index.isConstant())
    scopes.back().variables[index.terms[0].variable] = number;
  return index;
}

bool Emitter::differs(llvm::ArrayRef<Index> at) const {
  return llvm::any_of(at,
                      [&](const Index &index) { return space.differs(index); });
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

std::optional<Emitter::Carried>
Emitter::stepLoop(Value begin, Value end, int64_t step, Range range, Team team,
                  llvm::ArrayRef<Value> initial,
                  llvm::function_ref<Carried(const Index &, ValueRange)> body) {
  setInsertionPoint(depth());
  auto loop =
      scf::ForOp::create(builder, arith.loc, begin, end,
                         arith.bits(arith.i64(), step), ValueRange(initial));
  enter(loop.getBody());
  scopes.back().team = team;
  scopes.back().isRepeated = true;
  Index index = opaque(loop.getInductionVar(), range);
  size_t before = reads.size();
  Carried next = body(index, loop.getRegionIterArgs());
  if (isGpu() && step > 1 && team.size == 1)
    unroll(loop, llvm::ArrayRef(reads).drop_front(before));
  bool isDone = next.size() == initial.size();
  if (isDone && !initial.empty()) {
    setInsertionPoint(depth());
    scf::YieldOp::create(builder, arith.loc, next);
  }
  leave();
  if (isDone)
    return Carried(loop.getResults());
  loop->dropAllDefinedValueUses();
  loop->erase();
  setInsertionPoint(depth());
  return std::nullopt;
}

std::optional<Emitter::Carried> Emitter::reduceLoop(
    Value begin, Value end, Range range, llvm::ArrayRef<Value> initial,
    llvm::function_ref<Carried(const Index &, ValueRange)> body) {
  return stepLoop(begin, end, 1, range, team(), initial, body);
}

std::optional<Emitter::Carried> Emitter::sharedLoop(
    Value begin, Value end, Range range, llvm::ArrayRef<Value> initial,
    llvm::function_ref<Carried(const Index &, ValueRange)> body) {
  int64_t members = team().size;
  if (members == 1)
    return reduceLoop(begin, end, range, initial, body);
  Value first = arith.add(begin, materialize(team().rank));
  return stepLoop(first, end, members, range, Team(), initial, body);
}

void Emitter::loop(Value begin, Value end, Range range,
                   llvm::function_ref<void(const Index &)> body) {
  if (range.low > range.high)
    return;
  reduceLoop(begin, end, range, {}, [&](const Index &index, ValueRange) {
    body(index);
    return Carried();
  });
}

void Emitter::when(Value condition, llvm::function_ref<void()> body) {
  setInsertionPoint(depth());
  auto branch = scf::IfOp::create(builder, arith.loc, condition,
                                  /*withElseRegion=*/false);
  enter(branch.thenBlock());
  body();
  leave();
}

void Emitter::withLanes(int64_t newLanes, int64_t active,
                        llvm::function_ref<void()> body) {
  auto before =
      std::make_tuple(lanes, space.activeLanes, laneDepth, laneContext);
  lanes = newLanes;
  space.activeLanes = active;
  laneDepth = depth();
  laneContext = ++laneContexts;
  body();
  std::tie(lanes, space.activeLanes, laneDepth, laneContext) = before;
}

void Emitter::guarded(Value condition, llvm::function_ref<void()> body) {
  when(condition, [&] {
    unsigned before = std::exchange(leastDepth, depth());
    body();
    leastDepth = before;
  });
}

bool Emitter::isUnrolled(int64_t vectors) {
  constexpr int64_t mostTurns = 4;
  return vectors % team().size == 0 && vectors / team().size <= mostTurns;
}

llvm::SmallVector<int64_t> Emitter::splitsOf(llvm::ArrayRef<Value> roots,
                                             int64_t columns, int64_t width) {
  if (isGpu() && isUnrolled(columns / width))
    return {};
  return comparedColumns(roots, columns, maxLanes);
}

std::optional<Emitter::Carried> Emitter::forVectors(
    int64_t count, int64_t width, llvm::ArrayRef<int64_t> splits,
    llvm::ArrayRef<Value> initial,
    llvm::function_ref<Carried(const Index &, ValueRange)> body) {
  llvm::SmallVector<int64_t> ends(splits);
  ends.push_back(count);
  Carried carried(initial);
  int64_t begin = 0;
  auto one = [&](Index base, int64_t active) {
    base.lane = width > 1;
    Carried next;
    withLanes(width, active, [&] { next = body(base, carried); });
    bool isDone = next.size() == initial.size();
    carried = next;
    return isDone;
  };
  for (int64_t end : ends) {
    int64_t vectors = (end - begin) / width, tail = (end - begin) % width;
    if (isGpu() && tail)
      return std::nullopt;
    // Turns that all threads of the team take.
    int64_t members = team().size, turns = vectors / members;
    if (!isUnrolled(vectors)) {
      Value low = arith.bits(arith.i64(), 0);
      Value high = arith.bits(arith.i64(), vectors);
      bool isDone = true;
      auto result = sharedLoop(low, high, {0, vectors - 1}, carried,
                               [&](const Index &v, ValueRange values) {
                                 carried.assign(values.begin(), values.end());
                                 isDone = one(v * width + Index(begin), width);
                                 return carried;
                               });
      if (!result || !isDone)
        return std::nullopt;
      carried = *result;
    } else {
      for (int64_t turn = 0; turn < turns; ++turn) {
        Index v = team().rank + Index(turn * members);
        if (!one(v * width + Index(begin), width))
          return std::nullopt;
      }
    }
    if (tail && !one(Index(begin + vectors * width), tail))
      return std::nullopt;
    begin = end;
  }
  return carried;
}

//===----------------------------------------------------------------------===//
// Types and memory
//===----------------------------------------------------------------------===//

Type Emitter::translated(Type element) {
  if (element.isF64())
    return builder.getF64Type();
  if (element.isBF16())
    return builder.getBF16Type();
  if (element.isF16())
    return builder.getF16Type();
  if (element.isF32())
    return builder.getF32Type();
  return builder.getIntegerType(element.getIntOrFloatBitWidth());
}

Type Emitter::typeOfNumbers(Type element) {
  if (element.isBF16() || element.isF16())
    return builder.getF32Type();
  return translated(element);
}

Type Emitter::storageOf(Type element) {
  if (element.isInteger(1))
    return builder.getI8Type();
  if (element.isBF16())
    return builder.getI16Type();
  return translated(element);
}

Value Emitter::vectorOf(Element element) {
  if (element.isVector || lanes == 1)
    return element.value;
  return arith.splat(element.value, lanes);
}

Value Emitter::neutral(Type type, bool isMax) {
  if (!isMax)
    return arith.number(type, 0);
  if (isa<FloatType>(getElementTypeOrSelf(type)))
    return arith.number(type, -INFINITY);
  return arith.number(type, INT32_MIN);
}

Value Emitter::mask() {
  llvm::SmallVector<bool> bits;
  for (int64_t i = 0; i < lanes; ++i)
    bits.push_back(i < space.activeLanes);
  auto type = VectorType::get({lanes}, builder.getI1Type());
  return arith::ConstantOp::create(builder, arith.loc,
                                   DenseElementsAttr::get(type, bits));
}

Element Emitter::fromStorage(Value value, Type element, bool isVector) {
  if (element.isBF16())
    value = arith.fromBf16(value);
  else if (element.isF16())
    value = arith.cast(value, builder.getF32Type());
  else if (element.isInteger(1))
    value = arith::CmpIOp::create(builder, arith.loc, arith::CmpIPredicate::ne,
                                  value, arith.bits(value.getType(), 0));
  return {value, isVector};
}

Value Emitter::toStorage(Value value, Type element) {
  if (element.isBF16())
    return arith.toBf16(value);
  if (element.isF16())
    return arith.cast(value, builder.getF16Type());
  if (element.isInteger(1))
    return arith::ExtUIOp::create(
        builder, arith.loc, arith.shaped(builder.getI8Type(), value.getType()),
        value);
  return value;
}

Value Emitter::pointerTo(Value base, Type storage, const Index &position) {
  Index first = position;
  first.lane = 0;
  Value offset = materialize(first);
  return LLVM::GEPOp::create(builder, arith.loc, base.getType(), storage, base,
                             llvm::ArrayRef<LLVM::GEPArg>{offset});
}

unsigned Emitter::alignmentOf(Value pointer, Type storage,
                              const Index &position) {
  int64_t bytes = storage.getIntOrFloatBitWidth() / 8;
  if (!isGpu() || position.lane != 1)
    return bytes;
  int64_t known = kWidestAccess; // unless it is stated
  auto stated = kernel->getAttrOfType<DenseI64ArrayAttr>(kAlignedAttrName);
  size_t number = llvm::find(pointers, pointer) - pointers.begin();
  if (stated && number < static_cast<size_t>(stated.size()))
    known = stated[number];
  return bytes *
         space.alignmentOf(position, std::max<int64_t>(known / bytes, 1));
}

Value Emitter::loadOne(Value pointer, Value address, Type type,
                       unsigned align) {
  bool isInvariant = isGpu() && constants.contains(pointer);
  return LLVM::LoadOp::create(builder, arith.loc, type, address, align,
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              isInvariant);
}

std::optional<Element> Emitter::loadFrom(Value pointer, Type element,
                                         const Index &position) {
  Type storage = storageOf(element);
  unsigned align = alignmentOf(pointer, storage, position);
  Value address = pointerTo(pointer, storage, position);
  if (position.lane == 0)
    return fromStorage(loadOne(pointer, address, storage, align), element,
                       false);
  Type type = arith.vector(storage, lanes);
  Value value;
  if (position.lane == 1 && space.activeLanes == lanes) {
    value = loadOne(pointer, address, type, align);
  } else if (Value across = loadAcross(pointer, storage, position)) {
    value = across;
  } else if (isGpu()) {
    value = loadLanes(pointer, address, storage, position.lane, align);
  } else if (position.lane == 1) {
    value = LLVM::MaskedLoadOp::create(builder, arith.loc, type, address,
                                       mask(), arith.number(type, 0), align);
  } else {
    Value offsets = arith.steps(arith.i64(), lanes, position.lane);
    Value addresses = LLVM::GEPOp::create(
        builder, arith.loc, arith.vector(address.getType(), lanes), storage,
        address, llvm::ArrayRef<LLVM::GEPArg>{offsets});
    value = LLVM::masked_gather::create(builder, arith.loc, type, addresses,
                                        mask(), arith.number(type, 0), align);
  }
  return fromStorage(value, element, true);
}

std::optional<Element> Emitter::emitArgument(int64_t argument, Type element,
                                             const Index &position) {
  reads.push_back({argument, position, part, space.activeLanes, isFinal,
                   reads.size() + writes.size()});
  return loadFrom(pointers[argument], element, position);
}

Element Emitter::load(unsigned result, const Index &position) {
  setInsertionPoint(depth());
  Type element =
      cast<RankedTensorType>(kernel.getResultTypes()[result]).getElementType();
  Value pointer = pointers[kernel.getArgumentTypes().size() + result];
  return *loadFrom(pointer, element, position);
}

void Emitter::store(unsigned result, const Index &position, Element element) {
  setInsertionPoint(depth());
  if (team().size > 1 && !space.differs(position)) {
    storeOnce(result, position, element);
    return;
  }
  writes.push_back({result, position, part, space.activeLanes, true,
                    reads.size() + writes.size()});
  Type type =
      cast<RankedTensorType>(kernel.getResultTypes()[result]).getElementType();
  Value pointer = pointers[kernel.getArgumentTypes().size() + result];
  Value value = position.lane ? vectorOf(element) : element.value;
  value = toStorage(value, type);
  Type storage = storageOf(type);
  unsigned align = alignmentOf(pointer, storage, position);
  Value address = pointerTo(pointer, storage, position);
  setInsertionPoint(depth());
  if (position.lane && space.activeLanes < lanes)
    LLVM::MaskedStoreOp::create(builder, arith.loc, value, address, mask(),
                                align);
  else
    LLVM::StoreOp::create(builder, arith.loc, value, address, align);
}
