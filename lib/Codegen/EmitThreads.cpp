//===- EmitThreads.cpp - threads of a GPU's block -------------------------===//

#include "Emitter.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

namespace LLVM = mlir::LLVM;

/// Address spaces of GPUs.
static constexpr unsigned kGlobalMemory = 1, kSharedMemory = 3;
static constexpr int64_t kLineBytes = 128; ///< that memory is read by

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

Value Emitter::callIntrinsic(llvm::StringRef name, Type type,
                             ValueRange operands) {
  StringAttr attr = builder.getStringAttr(name);
  if (!type) {
    LLVM::CallIntrinsicOp::create(builder, arith.loc, attr, operands);
    return Value();
  }
  return LLVM::CallIntrinsicOp::create(builder, arith.loc, type, attr, operands)
      .getResult(0);
}

void Emitter::startGpu(llvm::StringRef symbol) {
  MLIRContext *context = builder.getContext();
  size_t inputs = kernel.getArgumentTypes().size();
  size_t count = inputs + kernel.getResultTypes().size();
  llvm::SmallVector<Type> types(
      count, LLVM::LLVMPointerType::get(context, kGlobalMemory));
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
  function = LLVM::LLVMFuncOp::create(builder, arith.loc, symbol, type);
  function.setCConv(LLVM::CConv::PTX_Kernel);
  Block *entry = function.addEntryBlock(builder);
  enter(entry);
  llvm::append_range(pointers, entry->getArguments());
  constants.insert(pointers.begin(), pointers.begin() + inputs);
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (int64_t argument = kernel.getInplaceArgument(i); argument >= 0)
      constants.erase(pointers[argument]);
  auto special = [&](llvm::StringRef name) -> Value {
    Value value = callIntrinsic(name, arith.i32(), {});
    return arith::ExtUIOp::create(builder, arith.loc, arith.i64(), value);
  };
  begin = special("llvm.nvvm.read.ptx.sreg.ctaid.x");
  Value number = special("llvm.nvvm.read.ptx.sreg.tid.x");
  thread = space.addVariable({0, threads - 1}, 0, /*differs=*/true);
  scopes.back().variables[thread.terms[0].variable] = number;
  scopes.back().team = {threads, thread};
}

//===----------------------------------------------------------------------===//
// Exchange
//===----------------------------------------------------------------------===//

/// Applies `each` to the value's 32-bit words.
static Value byWords(Arith &a, Value value,
                     llvm::function_ref<Value(Value)> each) {
  Type type = value.getType();
  unsigned width = type.getIntOrFloatBitWidth();
  Type integer = a.builder.getIntegerType(width);
  Value word = isa<IntegerType>(type)
                   ? value
                   : arith::BitcastOp::create(a.builder, a.loc, integer, value);
  if (width < 32)
    word = arith::ExtUIOp::create(a.builder, a.loc, a.i32(), word);
  if (width <= 32) {
    word = each(word);
  } else {
    Value shift = a.bits(integer, 32);
    Value high = arith::ShRUIOp::create(a.builder, a.loc, word, shift);
    auto narrow = [&](Value x) {
      Value low = arith::TruncIOp::create(a.builder, a.loc, a.i32(), x);
      return arith::ExtUIOp::create(a.builder, a.loc, integer, each(low));
    };
    Value low = narrow(word);
    high = arith::ShLIOp::create(a.builder, a.loc, narrow(high), shift);
    word = arith::OrIOp::create(a.builder, a.loc, low, high);
  }
  if (width < 32)
    word = arith::TruncIOp::create(a.builder, a.loc, integer, word);
  if (isa<IntegerType>(type))
    return word;
  return arith::BitcastOp::create(a.builder, a.loc, type, word);
}

Value Emitter::exchange(Value value, int64_t distance) {
  return byWords(arith, value, [&](Value word) {
    Value everyone = arith.bits(arith.i32(), 0xffffffff);
    Value control = arith.bits(arith.i32(), kWarp - 1);
    return callIntrinsic(
        "llvm.nvvm.shfl.sync.bfly.i32", arith.i32(),
        {everyone, word, arith.bits(arith.i32(), distance), control});
  });
}

Value Emitter::broadcast(Value value, Value lane) {
  Value everyone = arith.bits(arith.i32(), 0xffffffff);
  Value control = arith.bits(arith.i32(), kWarp - 1);
  return callIntrinsic("llvm.nvvm.shfl.sync.idx.i32", arith.i32(),
                       {everyone, value, lane, control});
}

Value Emitter::ballot(Value condition) {
  Value everyone = arith.bits(arith.i32(), 0xffffffff);
  return callIntrinsic("llvm.nvvm.vote.ballot.sync", arith.i32(),
                       {everyone, condition});
}

void Emitter::synchronize() {
  setInsertionPoint(depth());
  if (team().size > kWarp)
    callIntrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", Type(),
                  arith.bits(arith.i32(), 0));
  else if (team().size > 1)
    synchronizeWarp();
}

void Emitter::synchronizeWarp() {
  callIntrinsic("llvm.nvvm.bar.warp.sync", Type(),
                arith.bits(arith.i32(), 0xffffffff));
}

//===----------------------------------------------------------------------===//
// Sums of a team
//===----------------------------------------------------------------------===//

/// Joins the values of `lanes` neighbours, a power of two: all know the result.
void Emitter::combineLanes(Carried &values, llvm::ArrayRef<bool> isMax,
                           int64_t lanes) {
  for (int64_t distance = lanes / 2; distance >= 1; distance /= 2)
    for (auto [value, takesMax] : llvm::zip(values, isMax)) {
      Value other = exchange(value, distance);
      value = takesMax ? arith.max(value, other) : arith.add(value, other);
    }
}

LLVM::GlobalOp Emitter::sharedArray(Type element, int64_t count) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(module.getBody());
  std::string name =
      (function.getSymName() + "_shared" + llvm::Twine(sharedArrays++)).str();
  auto global = LLVM::GlobalOp::create(
      builder, arith.loc, LLVM::LLVMArrayType::get(element, count),
      /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
      /*alignment=*/16, kSharedMemory);
  // Shared memory starts undefined.
  Block *block = builder.createBlock(&global.getInitializerRegion());
  builder.setInsertionPointToStart(block);
  Value poison =
      LLVM::PoisonOp::create(builder, arith.loc, global.getGlobalType());
  LLVM::ReturnOp::create(builder, arith.loc, poison);
  return global;
}

/// Each warp's value goes to shared memory, from where every warp joins them.
void Emitter::combineWarps(Carried &values, llvm::ArrayRef<bool> isMax,
                           int64_t warps) {
  Value rank = arith::TruncIOp::create(builder, arith.loc, arith.i32(),
                                       materialize(team().rank));
  setInsertionPoint(depth());
  auto make = [&](auto kind, int64_t number) -> Value {
    return decltype(kind)::create(builder, arith.loc, rank,
                                  arith.bits(arith.i32(), number));
  };
  int64_t slots = 1; // a power of two
  while (slots < warps)
    slots *= 2;
  Value warp = make(arith::ShRUIOp(), 5);
  Value slot = make(arith::AndIOp(), slots - 1);
  Value isUsed =
      arith::CmpIOp::create(builder, arith.loc, arith::CmpIPredicate::ult, slot,
                            arith.bits(arith.i32(), warps));
  slot = arith.select(isUsed, slot, arith.bits(arith.i32(), 0));
  Value isFirst = arith::CmpIOp::create(
      builder, arith.loc, arith::CmpIPredicate::eq,
      make(arith::AndIOp(), kWarp - 1), arith.bits(arith.i32(), 0));
  llvm::SmallVector<Value> arrays;
  for (Value value : values)
    arrays.push_back(LLVM::AddressOfOp::create(
        builder, arith.loc, sharedArray(value.getType(), warps)));
  auto addressOf = [&](Value array, Type element, Value index) -> Value {
    return LLVM::GEPOp::create(builder, arith.loc, array.getType(), element,
                               array, llvm::ArrayRef<LLVM::GEPArg>{index});
  };
  // In a loop, the last turn's values may not be read yet.
  if (scopes.back().isRepeated)
    synchronize();
  Carried own = values;
  when(isFirst, [&] {
    for (auto [array, value] : llvm::zip(arrays, own)) {
      Value to = addressOf(array, value.getType(), warp);
      LLVM::StoreOp::create(builder, arith.loc, value, to);
    }
  });
  synchronize();
  for (auto [array, value, takesMax] : llvm::zip(arrays, values, isMax)) {
    Type type = value.getType();
    Value from = addressOf(array, type, slot);
    value = LLVM::LoadOp::create(builder, arith.loc, type, from);
    if (slots != warps)
      value = arith.select(isUsed, value, neutral(type, takesMax));
  }
  combineLanes(values, isMax, slots);
}

Emitter::Carried Emitter::combine(llvm::ArrayRef<Value> values,
                                  llvm::ArrayRef<bool> isMax) {
  setInsertionPoint(depth());
  Carried totals(values);
  if (values.empty() || team().size == 1)
    return totals;
  combineLanes(totals, isMax, std::min(team().size, kWarp));
  if (team().size > kWarp)
    combineWarps(totals, isMax, team().size / kWarp);
  return totals;
}

std::pair<Value, Value> Emitter::scan(Value value) {
  setInsertionPoint(depth());
  Type type = value.getType();
  Value number = arith::TruncIOp::create(builder, arith.loc, arith.i32(),
                                         materialize(thread));
  Value lane = arith::AndIOp::create(builder, arith.loc, number,
                                     arith.bits(arith.i32(), kWarp - 1));
  Value warp = arith::ShRUIOp::create(builder, arith.loc, number,
                                      arith.bits(arith.i32(), 5));
  auto isAtLeast = [&](Value x, int64_t bound) -> Value {
    return arith::CmpIOp::create(builder, arith.loc, arith::CmpIPredicate::uge,
                                 x, arith.bits(arith.i32(), bound));
  };
  auto fromBelow = [&](Value x, int64_t distance) {
    Value other = byWords(arith, x, [&](Value word) {
      return callIntrinsic("llvm.nvvm.shfl.sync.up.i32", arith.i32(),
                           {arith.bits(arith.i32(), 0xffffffff), word,
                            arith.bits(arith.i32(), distance),
                            arith.bits(arith.i32(), 0)});
    });
    return arith.select(isAtLeast(lane, distance), other,
                        arith.number(type, 0));
  };
  Value upToHere = value;
  for (int64_t distance = 1; distance < kWarp; distance *= 2)
    upToHere = arith.add(upToHere, fromBelow(upToHere, distance));
  int64_t warps = threads / kWarp;
  Value array =
      LLVM::AddressOfOp::create(builder, arith.loc, sharedArray(type, warps));
  auto addressOf = [&](Value index) -> Value {
    return LLVM::GEPOp::create(builder, arith.loc, array.getType(), type, array,
                               llvm::ArrayRef<LLVM::GEPArg>{index});
  };
  Value isLast = isAtLeast(lane, kWarp - 1);
  Value before = fromBelow(upToHere, 1);
  if (scopes.back().isRepeated)
    synchronize();
  when(isLast, [&] {
    LLVM::StoreOp::create(builder, arith.loc, upToHere, addressOf(warp));
  });
  synchronize();
  Value all = arith.number(type, 0);
  for (int64_t i = 0; i < warps; ++i) {
    Value from = addressOf(arith.bits(arith.i32(), i));
    Value x = LLVM::LoadOp::create(builder, arith.loc, type, from);
    Value earlier =
        arith.select(isAtLeast(warp, i + 1), x, arith.number(type, 0));
    before = arith.add(before, earlier);
    all = arith.add(all, x);
  }
  return {before, all};
}

void Emitter::combineVectors(
    Value value, bool isMax,
    llvm::function_ref<void(const Index &, Value)> take) {
  Type element = getElementTypeOrSelf(value.getType());
  auto vector = dyn_cast<VectorType>(value.getType());
  int64_t width = vector ? vector.getNumElements() : 1;
  int64_t row = kWarp * width, warps = threads / kWarp;
  LLVM::GlobalOp &global =
      warpSums[{element.getAsOpaquePointer(), warps * row}];
  if (!global)
    global = sharedArray(element, warps * row);
  setInsertionPoint(depth());
  Value array = LLVM::AddressOfOp::create(builder, arith.loc, global);
  auto addressOf = [&](Value number) -> Value {
    return LLVM::GEPOp::create(builder, arith.loc, array.getType(), element,
                               array, llvm::ArrayRef<LLVM::GEPArg>{number});
  };
  synchronize(); // until what was there is read
  unsigned bytes = width * element.getIntOrFloatBitWidth() / 8;
  LLVM::StoreOp::create(builder, arith.loc, value,
                        addressOf(materialize(thread * width)),
                        std::min(bytes & -bytes, 16u));
  synchronize();
  sharedLoop(arith.bits(arith.i64(), 0), arith.bits(arith.i64(), row),
             {0, row - 1}, {}, [&](const Index &number, ValueRange) {
               Value total;
               for (int64_t warp = 0; warp < warps; ++warp) {
                 Value at = addressOf(materialize(number + Index(warp * row)));
                 setInsertionPoint(depth());
                 Value x =
                     LLVM::LoadOp::create(builder, arith.loc, element, at);
                 total = !total  ? x
                         : isMax ? arith.max(total, x)
                                 : arith.add(total, x);
               }
               take(number, total);
               return Carried();
             });
}

Value Emitter::combineOverWarps(Value value, bool isMax) {
  Type element = value.getType();
  LLVM::GlobalOp &global = warpSums[{element.getAsOpaquePointer(), threads}];
  if (!global)
    global = sharedArray(element, threads);
  Index lane = space.divide(thread, kWarp)->remainder;
  setInsertionPoint(depth());
  Value array = LLVM::AddressOfOp::create(builder, arith.loc, global);
  auto addressOf = [&](const Index &number) -> Value {
    return LLVM::GEPOp::create(
        builder, arith.loc, array.getType(), element, array,
        llvm::ArrayRef<LLVM::GEPArg>{materialize(number)});
  };
  synchronize(); // until what was there is read
  LLVM::StoreOp::create(builder, arith.loc, value, addressOf(thread));
  synchronize();
  Value total;
  for (int64_t warp = 0; warp < threads / kWarp; ++warp) {
    Value x = LLVM::LoadOp::create(builder, arith.loc, element,
                                   addressOf(lane + Index(warp * kWarp)));
    total = !total ? x : isMax ? arith.max(total, x) : arith.add(total, x);
  }
  return total;
}

//===----------------------------------------------------------------------===//
// Bits of a warp
//===----------------------------------------------------------------------===//

Value Emitter::clearBits(int64_t count) {
  int64_t words = (count + 31) / 32, warps = threads / kWarp;
  auto split = *space.divide(thread, kWarp);
  LLVM::GlobalOp array = sharedArray(arith.i32(), warps * words);
  Value first = materialize(split.quotient * words);
  Value lane = materialize(split.remainder);
  setInsertionPoint(depth());
  Value bits = LLVM::AddressOfOp::create(builder, arith.loc, array);
  bits = LLVM::GEPOp::create(builder, arith.loc, bits.getType(), arith.i32(),
                             bits, llvm::ArrayRef<LLVM::GEPArg>{first});
  stepLoop(lane, arith.bits(arith.i64(), words), kWarp, {0, words - 1}, Team(),
           {}, [&](const Index &word, ValueRange) {
             Value to = LLVM::GEPOp::create(
                 builder, arith.loc, bits.getType(), arith.i32(), bits,
                 llvm::ArrayRef<LLVM::GEPArg>{materialize(word)});
             setInsertionPoint(depth());
             LLVM::StoreOp::create(builder, arith.loc,
                                   arith.bits(arith.i32(), 0), to);
             return Carried();
           });
  synchronizeWarp();
  return bits;
}

std::pair<Value, Value> Emitter::bitOf(Value bits, Value number) {
  setInsertionPoint(depth());
  Value narrow =
      arith::TruncIOp::create(builder, arith.loc, arith.i32(), number);
  Value word = arith::ShRUIOp::create(builder, arith.loc, narrow,
                                      arith.bits(arith.i32(), 5));
  Value place = arith::AndIOp::create(builder, arith.loc, narrow,
                                      arith.bits(arith.i32(), 31));
  Value bit = arith::ShLIOp::create(builder, arith.loc,
                                    arith.bits(arith.i32(), 1), place);
  Value at =
      LLVM::GEPOp::create(builder, arith.loc, bits.getType(), arith.i32(), bits,
                          llvm::ArrayRef<LLVM::GEPArg>{word});
  return {at, bit};
}

Value Emitter::isClear(Value bits, Value number) {
  auto [at, bit] = bitOf(bits, number);
  Value word = LLVM::LoadOp::create(builder, arith.loc, arith.i32(), at);
  Value own = arith::AndIOp::create(builder, arith.loc, word, bit);
  return arith::CmpIOp::create(builder, arith.loc, arith::CmpIPredicate::eq,
                               own, arith.bits(arith.i32(), 0));
}

Value Emitter::setBit(Value bits, Value number) {
  auto [at, bit] = bitOf(bits, number);
  Value word = LLVM::LoadOp::create(builder, arith.loc, arith.i32(), at);
  Value own = arith::AndIOp::create(builder, arith.loc, word, bit);
  Value wasClear =
      arith::CmpIOp::create(builder, arith.loc, arith::CmpIPredicate::eq, own,
                            arith.bits(arith.i32(), 0));
  Value next = arith::OrIOp::create(builder, arith.loc, word, bit);
  Value lane = materialize(space.divide(thread, kWarp)->remainder);
  setInsertionPoint(depth());
  Value isFirst =
      arith::CmpIOp::create(builder, arith.loc, arith::CmpIPredicate::eq, lane,
                            arith.bits(arith.i64(), 0));
  synchronizeWarp(); // All have read it.
  when(isFirst,
       [&, to = at] { LLVM::StoreOp::create(builder, arith.loc, next, to); });
  setInsertionPoint(depth());
  synchronizeWarp();
  return wasClear;
}

//===----------------------------------------------------------------------===//
// Words of a block
//===----------------------------------------------------------------------===//

Value Emitter::sharedWords(int64_t count) {
  LLVM::GlobalOp array = sharedArray(arith.i32(), count);
  setInsertionPoint(depth());
  return LLVM::AddressOfOp::create(builder, arith.loc, array);
}

void Emitter::storeWord(Value words, Value number, Value word) {
  setInsertionPoint(depth());
  Value at =
      LLVM::GEPOp::create(builder, arith.loc, words.getType(), arith.i32(),
                          words, llvm::ArrayRef<LLVM::GEPArg>{number});
  LLVM::StoreOp::create(builder, arith.loc, word, at);
}

Value Emitter::loadWord(Value words, Value number) {
  setInsertionPoint(depth());
  Value at =
      LLVM::GEPOp::create(builder, arith.loc, words.getType(), arith.i32(),
                          words, llvm::ArrayRef<LLVM::GEPArg>{number});
  return LLVM::LoadOp::create(builder, arith.loc, arith.i32(), at);
}

/// Has some turns of a loop stand side by side. A thread waits for memory most
/// of the time: 64 bytes under way per thread keep a GPU's memory at work.
void Emitter::unroll(scf::ForOp loop, llvm::ArrayRef<Access> all) {
  constexpr int64_t wordsUnderWay = 16, mostTurns = 8;
  int64_t words = 0;
  for (const Access &read : all)
    if (space.depthOf(read.position) >= depth())
      words += read.position.lane != 0 ? 4 : 1;
  int64_t turns =
      std::min(wordsUnderWay / std::max<int64_t>(words, 1), mostTurns);
  if (words == 0 || turns < 2)
    return;
  MLIRContext *context = loop.getContext();
  auto count = IntegerAttr::get(IntegerType::get(context, 32), turns);
  auto how = LLVM::LoopUnrollAttr::get(context, {}, count, {}, {}, {}, {}, {});
  // The name that the branch has for it, to which it is passed on.
  loop->setAttr("loop_annotation", LLVM::LoopAnnotationAttr::get(
                                       context, {}, {}, {}, how, {}, {}, {}, {},
                                       {}, {}, {}, {}, {}, {}, {}));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Arguments of which a turn reads the row with its number.
static llvm::SmallSetVector<int64_t, 8>
rowsReadBy(llvm::ArrayRef<Emitter::Access> reads, const Index &row,
           int64_t columns) {
  llvm::SmallSetVector<int64_t, 8> arguments;
  for (const Emitter::Access &read : reads)
    for (const Index::Term &term : read.position.terms)
      if (term.variable == row.terms[0].variable && term.coefficient == columns)
        arguments.insert(read.number);
  return arguments;
}

void Emitter::prefetchLine(int64_t argument, Value row, int64_t columns,
                           const Index &line) {
  Type storage =
      storageOf(cast<RankedTensorType>(kernel.getArgumentTypes()[argument])
                    .getElementType());
  int64_t perLine = kLineBytes * 8 / storage.getIntOrFloatBitWidth();
  for (int64_t first = 0; first < columns; first += perLine * team().size) {
    Value column = materialize(line * perLine + Index(first));
    Value count = arith.bits(arith.i64(), columns);
    Value isInside = arith::CmpIOp::create(
        builder, arith.loc, arith::CmpIPredicate::slt, column, count);
    auto branch = scf::IfOp::create(builder, arith.loc, isInside,
                                    /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value position = arith.add(arith.mul(row, count), column);
    Value address = LLVM::GEPOp::create(
        builder, arith.loc, pointers[argument].getType(), storage,
        pointers[argument], llvm::ArrayRef<LLVM::GEPArg>{position});
    // LLVM 22 has an intrinsic for it, but not on GPUs before sm_90.
    LLVM::InlineAsmOp::create(builder, arith.loc, TypeRange(), address,
                              "prefetch.global.L2 [$0];", "l",
                              /*has_side_effects=*/true,
                              /*is_align_stack=*/false,
                              LLVM::TailCallKind::None, LLVM::AsmDialectAttr(),
                              ArrayAttr());
  }
}

void Emitter::prefetchRows(const Index &row, int64_t step, Value end,
                           int64_t columns, size_t before) {
  if (row.isConstant())
    return; // There is one row.
  auto arguments =
      rowsReadBy(llvm::ArrayRef(reads).drop_front(before), row, columns);
  auto number = cast<BlockArgument>(materialize(row));
  materialize(team().rank);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(number.getOwner());
  Value next = arith.add(number, arith.bits(arith.i64(), step));
  Value isThere = arith::CmpIOp::create(builder, arith.loc,
                                        arith::CmpIPredicate::slt, next, end);
  auto branch = scf::IfOp::create(builder, arith.loc, isThere,
                                  /*withElseRegion=*/false);
  builder.setInsertionPointToStart(branch.thenBlock());
  for (int64_t argument : arguments)
    prefetchLine(argument, next, columns, team().rank);
}

Value Emitter::loadLanes(Value pointer, Value address, Type storage,
                         int64_t step, unsigned align) {
  Value all = arith.number(arith.vector(storage, lanes), 0);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value from = LLVM::GEPOp::create(
        builder, arith.loc, address.getType(), storage, address,
        llvm::ArrayRef<LLVM::GEPArg>{arith.bits(arith.i64(), lane * step)});
    all = vector::InsertOp::create(builder, arith.loc,
                                   loadOne(pointer, from, storage, align), all,
                                   llvm::ArrayRef<int64_t>{lane});
  }
  return all;
}

llvm::ArrayRef<Value> Emitter::loadPieces(Value pointer, Type storage,
                                          const Index &first) {
  std::vector<int64_t> key = {
      reinterpret_cast<int64_t>(pointer.getAsOpaquePointer()), lanes};
  first.appendKey(key);
  llvm::SmallVector<Value> &pieces = scopes.back().pieces[key];
  if (!pieces.empty())
    return pieces;
  Type type = arith.vector(storage, tileSide);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Index piece = first + Index(lane * first.lane);
    piece.lane = 1;
    unsigned align = alignmentOf(pointer, storage, piece);
    Value address = pointerTo(pointer, storage, piece);
    pieces.push_back(loadOne(pointer, address, type, align));
  }
  return pieces;
}

Value Emitter::loadAcross(Value pointer, Type storage, const Index &position) {
  if (tileSide == 1 || position.lane <= 1 || position.lane % tileSide != 0 ||
      !constants.contains(pointer))
    return Value();
  size_t argument = llvm::find(pointers, pointer) - pointers.begin();
  auto tensor = cast<RankedTensorType>(kernel.getArgumentTypes()[argument]);
  Index first = position;
  int64_t column = position.constant & (tileSide - 1);
  first.constant -= column;
  // Then a piece with an element of the tensor lies in it.
  if (space.alignmentOf(first, tileSide) != tileSide ||
      tensor.getNumElements() % tileSide != 0)
    return Value();
  llvm::ArrayRef<Value> pieces = loadPieces(pointer, storage, first);
  Value all = arith.number(arith.vector(storage, lanes), 0);
  for (auto [lane, piece] : llvm::enumerate(pieces)) {
    Value element = vector::ExtractOp::create(builder, arith.loc, piece,
                                              llvm::ArrayRef<int64_t>{column});
    all = vector::InsertOp::create(
        builder, arith.loc, element, all,
        llvm::ArrayRef<int64_t>{static_cast<int64_t>(lane)});
  }
  return all;
}

void Emitter::storeOnce(unsigned result, const Index &position,
                        Element element) {
  Value isFirst = arith::CmpIOp::create(
      builder, arith.loc, arith::CmpIPredicate::eq, materialize(team().rank),
      arith.bits(arith.i64(), 0));
  when(isFirst, [&] {
    team() = Team();
    store(result, position, element);
  });
}
