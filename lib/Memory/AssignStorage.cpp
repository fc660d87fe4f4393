//===- AssignStorage.cpp - which buffer each value is in ------------------===//
//
// Problem: values cross functions, iterations and views; each crossing that is
// a copy costs time and memory.
// Idea: decide from readers to writers. A value that is written to a named
// buffer, stacked, or carried to the next iteration is computed there, if the
// op that makes it can choose; only what is left gets a buffer of its own.
// Steps: declared symbols; writes; results of repeats, then their bodies; views
// and everything else in order.
//
// The carried value of a layer loop is often stacked too (the layer's input is
// kept for the backward). Then it lives in the stack, which gets one more
// place: iteration i reads place i and writes place i + 1, and nothing is
// copied.
//
//===----------------------------------------------------------------------===//

#include "Storage.h"

#include "kerf/Dialect/Spmd/SumInPlace.h"

using namespace mlir;
using namespace kerf;

int64_t kerf::spanBytes(RankedTensorType type, const Strides &strides) {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(type.getShape(), strides))
    last += (size - 1) * stride;
  return (last + 1) * elementBytes(type);
}

/// Strides of a reshaped view, or nothing if its elements are not evenly apart.
static std::optional<Strides> reshapeStrides(llvm::ArrayRef<int64_t> from,
                                             const Strides &strides,
                                             llvm::ArrayRef<int64_t> to) {
  Strides result(to.size(), 1);
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    // One group of dimensions of equal product on both sides.
    size_t i0 = i, j0 = j;
    int64_t a = i < from.size() ? from[i++] : 1;
    int64_t b = j < to.size() ? to[j++] : 1;
    while (a != b) {
      if (a < b && i < from.size())
        a *= from[i++];
      else if (j < to.size())
        b *= to[j++];
      else
        return std::nullopt;
    }
    // Strides of dimensions of size 1 say nothing.
    std::optional<size_t> last;
    for (size_t d = i0; d < i; ++d) {
      if (from[d] == 1)
        continue;
      if (last && strides[*last] != strides[d] * from[d])
        return std::nullopt;
      last = d;
    }
    int64_t stride = last ? strides[*last] : i > i0 ? strides[i - 1] : 1;
    for (size_t d = j; d-- > j0;) {
      result[d] = stride;
      stride *= to[d];
    }
  }
  return result;
}

namespace {
struct Assigner {
  spmd::ProgramOp program;
  bool forGpu;
  StorageMap map;

  LogicalResult run();
  void assignFunction(spmd::FuncOp func);
  void assignAccumulator(spmd::AccumulateOp accumulate);
  void assignSum(Operation *sum);
  bool assignTable(spmd::AccumulateOp accumulate, const Storage &target);
  void assignRepeatResults(RepeatOp repeat);
  void assignCarry(RepeatOp repeat, unsigned index);
  void assignBody(RepeatOp repeat);
  void assignRest(Block &block);
  LogicalResult check(Block &block);

  bool sink(Value value, const Storage &storage);
  bool sumsInPlace(spmd::AllReduceOp reduce, const Storage &storage);
  bool sinkPrefix(Operation *part, const Storage &storage);
  bool sinkBase(Operation *renaming, const Storage &storage);
  Storage viewed(Operation *op, const View &view);
  Storage lengthen(Operation *pad);
  Storage fresh(Value value, kerf_buffer_class bufferClass,
                BufferScope scope = BufferScope::Function, int64_t copies = 1);
  Storage stackSlot(RepeatOp repeat, const Storage &stack, Type slice,
                    int64_t shift = 0);
  std::string nameOf(Value value);
};
} // namespace

/// Name of the op that makes a value: its location's name if it has one.
std::string Assigner::nameOf(Value value) {
  Operation *def = value.getDefiningOp();
  if (!def)
    return "argument";
  if (auto named = dyn_cast<NameLoc>(def->getLoc()))
    return named.getName().str();
  return def->getName().stripDialect().str();
}

/// Where the user wrote what makes a value.
static Location locationOf(Value value) {
  auto result = dyn_cast<OpResult>(value);
  auto fused =
      result ? dyn_cast<spmd::FusedOp>(result.getOwner()) : spmd::FusedOp();
  return fused ? fused.getBody()
                     .front()
                     .getTerminator()
                     ->getOperand(result.getResultNumber())
                     .getLoc()
               : value.getLoc();
}

Storage Assigner::fresh(Value value, kerf_buffer_class bufferClass,
                        BufferScope scope, int64_t copies) {
  auto type = typeOf(value);
  unsigned buffer = map.add({nameOf(value), bufferClass, scope,
                             copies * denseBytes(type), 1, locationOf(value)});
  return {buffer, 0, 0, denseStrides(type.getShape())};
}

/// Element `i - start` of a stack, for iteration i.
Storage Assigner::stackSlot(RepeatOp repeat, const Storage &stack, Type slice,
                            int64_t shift) {
  int64_t bytes = denseBytes(slice);
  Storage storage = stack;
  storage.iter = bytes;
  storage.offset += (shift - static_cast<int64_t>(repeat.getStart())) * bytes;
  storage.strides = denseStrides(cast<RankedTensorType>(slice).getShape());
  return storage;
}

//===----------------------------------------------------------------------===//
// From readers to writers
//===----------------------------------------------------------------------===//

/// True where what is summed over ranks may be made in the place of the sum: of
/// a gradient that nothing else reads, in a buffer that the function does not
/// read.
bool Assigner::sumsInPlace(spmd::AllReduceOp reduce, const Storage &storage) {
  auto func = reduce->getParentOfType<spmd::FuncOp>();
  return map.buffers[storage.buffer].bufferClass == KERF_CLASS_GRADIENT &&
         llvm::all_of(reduce.getX().getUsers(),
                      [&](Operation *user) {
                        return user == reduce || isa<spmd::WaitOp>(user);
                      }) &&
         llvm::none_of(func.getBody().getOps<spmd::ReadOp>(), [&](auto read) {
           auto symbol = map.symbols.find(read.getSource());
           return symbol != map.symbols.end() &&
                  symbol->second == storage.buffer;
         });
}

/// True for a part that is the first elements.
static bool isPrefix(Operation *part) {
  auto from = typeOf(part->getOperand(0)), to = typeOf(part->getResult(0));
  int64_t widest = 0;
  for (int64_t d = 0; d < to.getRank(); ++d)
    if (from.getDimSize(d) != to.getDimSize(d))
      widest = d;
  return viewOf(part)->isAtStart() &&
         llvm::all_of(from.getShape().take_front(widest),
                      [](int64_t size) { return size == 1; });
}

/// Makes the op that computes a longer value put it into a named buffer, which
/// gets room for what nobody reads, if that is little: the last rows of a
/// padded matmul.
bool Assigner::sinkPrefix(Operation *part, const Storage &storage) {
  Value base = part->getOperand(0), result = part->getResult(0);
  auto whole = typeOf(base);
  Storage longer = storage;
  longer.strides = denseStrides(whole.getShape());
  int64_t added = denseBytes(whole) - denseBytes(result.getType());
  bool isWhole = map.buffers[storage.buffer].scope == BufferScope::Step &&
                 storage.offset == 0 && storage.iter == 0 &&
                 storage.micro == 0 && added * 8 <= denseBytes(whole) &&
                 storage.isDense(typeOf(result).getShape());
  if (!isWhole || !isPrefix(part) || !base.hasOneUse() || !sink(base, longer))
    return false;
  map.values[result] = storage;
  int64_t &bytes = map.buffers[storage.buffer].bytes;
  bytes = std::max(bytes, denseBytes(whole));
  return true;
}

/// True for a scale of a matmul: libraries want it at an address that 16
/// divides, which a scalar among others has not.
static bool isScale(Value value) {
  return typeOf(value).getRank() == 0 &&
         llvm::any_of(value.getUsers(), llvm::IsaPred<spmd::FusedMatmulOp>);
}

/// Makes the op that computes what is renamed put it into a place.
bool Assigner::sinkBase(Operation *renaming, const Storage &storage) {
  Value base = renaming->getOperand(0), result = renaming->getResult(0);
  auto strides = reshapeStrides(typeOf(result).getShape(), storage.strides,
                                typeOf(base).getShape());
  Storage inner = storage;
  if (!strides)
    return false;
  inner.strides = *strides;
  if (!sink(base, inner))
    return false;
  map.values[result] = storage;
  return true;
}

/// Makes the op that computes `value` put it into `storage`; false if it is
/// somewhere else already.
bool Assigner::sink(Value value, const Storage &storage) {
  if (map.values.count(value) || isScale(value))
    return false;
  Operation *def = value.getDefiningOp();
  if (!def || isa<kerf::ParamOp, spmd::ReadOp>(def) ||
      isView(def, ViewKind::Pad))
    return false;
  if (isView(def, ViewKind::Part))
    return sinkPrefix(def, storage);
  if (isView(def, ViewKind::Rename))
    return sinkBase(def, storage);
  if (auto wait = dyn_cast<spmd::WaitOp>(def)) {
    if (!sink(wait.getStarted(), storage))
      return false;
    map.values[value] = storage;
    return true;
  }
  if (auto repeat = dyn_cast<RepeatOp>(def)) {
    unsigned index = cast<OpResult>(value).getResultNumber();
    if (index < repeat.getInits().size())
      return false;
  }
  if (!storage.isDense(typeOf(value).getShape()) &&
      !isCall(def, LibraryCall::AttentionGradient))
    return false;
  if (auto reduce = dyn_cast<spmd::AllReduceOp>(def);
      reduce && sumsInPlace(reduce, storage))
    sink(reduce.getX(), storage);
  map.values[value] = storage;
  return true;
}

/// What is joined along a dimension is computed in its place.
static Storage partOf(const Storage &whole, Operation *join, int64_t dim,
                      unsigned part) {
  Storage storage = whole;
  int64_t skipped = 0;
  for (unsigned i = 0; i < part; ++i)
    skipped += typeOf(join->getOperand(i)).getDimSize(dim);
  storage.offset +=
      skipped * whole.strides[dim] * elementBytes(join->getResult(0).getType());
  return storage;
}

//===----------------------------------------------------------------------===//
// Repeats
//===----------------------------------------------------------------------===//

/// The stack result that holds the carried argument itself, or -1: only of a
/// forward loop, whose next place follows the present one.
static int64_t stackOfArgument(RepeatOp repeat, unsigned carry) {
  if (repeat.getReverse())
    return -1;
  for (auto [i, value] : llvm::enumerate(repeat.getYield().getStacked()))
    if (value == repeat.getCarryArgs()[carry])
      return i;
  return -1;
}

/// Of what a repeat stacks: gradients, activations, or, where it is added up
/// for the step alone, numbers that no later function reads.
static kerf_buffer_class classOfStack(RepeatOp repeat, Value stack) {
  if (getPhase(repeat) && getPhase(repeat).getKind() != PhaseKind::Forward)
    return KERF_CLASS_GRADIENT;
  bool isSummed = llvm::all_of(stack.getUsers(), [](Operation *user) {
    return isa<spmd::AccumulateOp>(user);
  });
  return isSummed ? KERF_CLASS_TEMPORARY : KERF_CLASS_ACTIVATION;
}

void Assigner::assignRepeatResults(RepeatOp repeat) {
  unsigned carries = repeat.getInits().size();
  for (auto [i, result] : llvm::enumerate(repeat.getStackResults())) {
    if (map.values.count(result))
      continue;
    map.values[result] = fresh(result, classOfStack(repeat, result));
  }
  map.carries[repeat].resize(carries);
  for (unsigned i = 0; i < carries; ++i)
    assignCarry(repeat, i);
}

/// True if the last read of `argument` comes before the op that makes `next`.
static bool isDeadBefore(Value argument, Value next, Block &body) {
  Operation *def = next.getDefiningOp();
  if (!def || def->getBlock() != &body)
    return false;
  // A view is made where its base is, a collective begins before its wait.
  while (isView(def, ViewKind::Rename) || isa<spmd::WaitOp>(def)) {
    def = def->getOperand(0).getDefiningOp();
    if (!def || def->getBlock() != &body)
      return false;
  }
  return llvm::all_of(argument.getUsers(), [&](Operation *user) {
    if (isView(user, ViewKind::Rename, ViewKind::Part))
      return false;
    Operation *top = body.findAncestorOpInBlock(*user);
    return top && top->isBeforeInBlock(def);
  });
}

void Assigner::assignCarry(RepeatOp repeat, unsigned index) {
  Value argument = repeat.getCarryArgs()[index];
  Value init = repeat.getInits()[index];
  Value yielded = repeat.getYield().getCarried()[index];
  Value result = repeat.getResult(index);
  Carry carry;
  int64_t stacked = stackOfArgument(repeat, index);
  if (stacked >= 0) {
    Storage stack = map.values[repeat.getStackResults()[stacked]];
    Type slice = argument.getType();
    int64_t bytes = denseBytes(slice);
    // One more place, for the value after the last iteration.
    Buffer &buffer = map.buffers[stack.buffer];
    buffer.bytes += bytes;
    carry.now = stackSlot(repeat, stack, slice);
    carry.next = stackSlot(repeat, stack, slice, 1);
    carry.init = stack;
    carry.init.strides = carry.now.strides;
    carry.result = carry.init;
    carry.result.offset += repeat.getCount() * bytes;
  } else {
    carry.now = fresh(argument, KERF_CLASS_TEMPORARY);
    map.buffers[carry.now.buffer].name = nameOf(result);
    carry.next = carry.init = carry.result = carry.now;
  }
  map.values[argument] = carry.now;
  carry.copyInit = !(init.hasOneUse() && sink(init, carry.init));
  bool safe =
      stacked >= 0 || isDeadBefore(argument, yielded, repeat.getBody().front());
  carry.copyNext = !(safe && sink(yielded, carry.next));
  map.values[result] = carry.result;
  map.carries[repeat][index] = carry;
}

/// A matmul adds its result to the part that is there already.
void Assigner::assignSum(Operation *sum) {
  Operation *matmul = spmd::matmulSummedInPlace(sum);
  Storage storage = matmul ? map.values[sum->getOperand(0)] : Storage();
  if (!matmul || !sink(sum->getOperand(1), storage))
    return;
  map.values[sum->getResult(0)] = storage;
  map.inPlace.insert(sum);
  map.accumulating.insert(matmul);
}

void Assigner::assignBody(RepeatOp repeat) {
  for (auto [i, argument] : llvm::enumerate(repeat.getSliceArgs()))
    map.values[argument] = stackSlot(repeat, map.values[repeat.getSlices()[i]],
                                     argument.getType());
  for (Operation &op : repeat.getBody().front())
    assignSum(&op);
  for (auto [i, value] : llvm::enumerate(repeat.getYield().getStacked())) {
    Storage slot = stackSlot(repeat, map.values[repeat.getStackResults()[i]],
                             value.getType());
    bool isCarried = map.values.count(value) &&
                     map.values[value].buffer == slot.buffer &&
                     map.values[value].offset == slot.offset;
    if (!isCarried && !sink(value, slot))
      map.stackCopies[repeat].push_back({value, slot});
  }
  assignRest(repeat.getBody().front());
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Decides what is left: parts of concatenations from their wholes, views from
/// their bases, everything else its own buffer.
void Assigner::assignRest(Block &block) {
  for (Operation &op : llvm::reverse(block))
    if (auto view = viewOf(&op); view && view->kind == ViewKind::Join) {
      Value result = op.getResult(0);
      if (!map.values.count(result))
        map.values[result] = fresh(result, KERF_CLASS_TEMPORARY);
      for (auto [i, part] : llvm::enumerate(op.getOperands()))
        sink(part, partOf(map.values[result], &op, view->dims[0], i));
    }
  // Before the ops that make their initial values are given buffers.
  for (auto repeat : llvm::to_vector(block.getOps<RepeatOp>()))
    assignRepeatResults(repeat);
  for (Operation &op : block) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      assignBody(repeat);
      continue;
    }
    for (Value result : op.getResults()) {
      if (map.values.count(result))
        continue;
      if (auto param = dyn_cast<kerf::ParamOp>(op)) {
        map.values[result] = storageOf(map, param);
      } else if (auto read = dyn_cast<spmd::ReadOp>(op)) {
        map.values[result] = storageOf(map, read);
      } else if (auto view = viewOf(&op)) {
        map.values[result] = viewed(&op, *view);
      } else if (auto wait = dyn_cast<spmd::WaitOp>(op)) {
        Storage storage = map.values[wait.getStarted()];
        map.values[result] = storage;
      } else if (!isa<spmd::OffsetOp>(op)) {
        map.values[result] = fresh(result, KERF_CLASS_TEMPORARY);
      }
    }
  }
}

/// Where the result of a view is: with its base, else in a buffer of its own.
Storage Assigner::viewed(Operation *op, const View &view) {
  Value base = op->getOperand(0), result = op->getResult(0);
  Storage storage = map.values[base];
  switch (view.kind) {
  case ViewKind::Rename:
    storage.strides = reshapeStrides(typeOf(base).getShape(), storage.strides,
                                     typeOf(result).getShape())
                          .value_or(Strides());
    return storage;
  case ViewKind::Part:
    for (auto [d, offset] : llvm::enumerate(view.offsets))
      storage.offset +=
          offset * storage.strides[d] * elementBytes(result.getType());
    return storage;
  case ViewKind::Pad:
    return lengthen(op);
  case ViewKind::Join:
  case ViewKind::Turn:
  case ViewKind::Repeat:
    return fresh(result, KERF_CLASS_TEMPORARY);
  }
  llvm_unreachable("covered switch");
}

/// A value at the start of its buffer with more rows, for which the buffer gets
/// room. `CommandBuilder::zeroPadding` makes them zero.
Storage Assigner::lengthen(Operation *pad) {
  Storage storage = map.values[pad->getOperand(0)];
  auto type = typeOf(pad->getResult(0));
  storage.strides = denseStrides(type.getShape());
  int64_t &bytes = map.buffers[storage.buffer].bytes;
  bytes = std::max(bytes, storage.offset + denseBytes(type));
  return storage;
}

/// The matmul that alone makes a value, perhaps stacked by a repeat, and that
/// nothing else reads; or null. A prefix has no room in a stack.
static Operation *soleMatmul(Value value, bool inStack = false) {
  if (!value.hasOneUse())
    return nullptr;
  if (auto repeat = value.getDefiningOp<RepeatOp>()) {
    unsigned index = cast<OpResult>(value).getResultNumber();
    unsigned carries = repeat.getInits().size();
    return index < carries
               ? nullptr
               : soleMatmul(repeat.getYield().getStacked()[index - carries],
                            /*inStack=*/true);
  }
  Operation *def = value.getDefiningOp();
  if (isView(def, ViewKind::Part))
    return !inStack && isPrefix(def) ? soleMatmul(def->getOperand(0)) : nullptr;
  return spmd::summingMatmul(value);
}

/// The kernel that makes a value which nothing else reads, if that is all that
/// it does; or null.
static spmd::FusedOp soleKernel(Value value) {
  auto fused = value.getDefiningOp<spmd::FusedOp>();
  return fused && fused->getNumResults() == 1 && value.hasOneUse()
             ? fused
             : spmd::FusedOp();
}

static Operation *rootOf(spmd::FusedOp kernel) {
  return kernel.getBody()
      .front()
      .getTerminator()
      ->getOperand(0)
      .getDefiningOp();
}

/// True for a kernel that adds rows to a table of zeros, in f32.
static bool addsRows(spmd::FusedOp kernel) {
  return kernel && isa_and_nonnull<ScatterAddOp>(rootOf(kernel)) &&
         typeOf(kernel->getResult(0)).getElementType().isF32();
}

/// The gradient of a table whose rows are looked up is summed over
/// micro-batches where it is stored: a kernel then touches the rows of its
/// tokens alone. The gradient of a head that is the same table is there before,
/// by its matmul or, where that is summed over ranks first, by a kernel.
bool Assigner::assignTable(spmd::AccumulateOp accumulate,
                           const Storage &target) {
  spmd::FusedOp kernel = soleKernel(accumulate.getValue());
  if (!forGpu || !kernel)
    return false;
  if (addsRows(kernel)) {
    map.tables[accumulate] = kernel;
  } else {
    auto add = dyn_cast_or_null<AddOp>(rootOf(kernel));
    if (!add || kernel->getNumOperands() != 2 ||
        kernel.getBody().front().getOperations().size() != 2)
      return false;
    spmd::FusedOp rows;
    Value other;
    for (unsigned i : {0, 1})
      if (auto own = soleKernel(kernel->getOperand(i)); addsRows(own)) {
        rows = own;
        other = kernel->getOperand(1 - i);
      }
    if (!rows)
      return false;
    Operation *matmul = soleMatmul(other);
    if (matmul && sink(other, target))
      map.accumulating.insert(matmul);
    else
      map.besideTables[accumulate] = other;
    map.tables[accumulate] = rows;
    map.absorbed.insert(kernel);
    map.values[kernel->getResult(0)] = target;
  }
  spmd::FusedOp rows = map.tables[accumulate];
  map.absorbed.insert(rows);
  map.values[rows->getResult(0)] = target;
  return true;
}

/// A gradient that a matmul makes is summed over micro-batches by the matmul
/// itself: one buffer less, and nothing to add afterwards.
void Assigner::assignAccumulator(spmd::AccumulateOp accumulate) {
  if (program.getMicroBatches() < 2)
    return;
  Storage storage{map.symbols[accumulate.getTarget()], 0, 0,
                  denseStrides(typeOf(accumulate.getValue()).getShape())};
  Operation *matmul = soleMatmul(accumulate.getValue());
  if (assignTable(accumulate, storage) || !matmul)
    return;
  if (!sink(accumulate.getValue(), storage))
    return;
  map.inPlace.insert(accumulate);
  map.accumulating.insert(matmul);
}

void Assigner::assignFunction(spmd::FuncOp func) {
  Block &body = func.getBody().front();
  for (Operation &op : body) {
    if (auto accumulate = dyn_cast<spmd::AccumulateOp>(op))
      assignAccumulator(accumulate);
    if (auto write = dyn_cast<spmd::WriteOp>(op)) {
      Storage storage{map.symbols[write.getTarget()], 0, 0,
                      denseStrides(typeOf(write.getValue()).getShape())};
      if (sink(write.getValue(), storage))
        map.inPlace.insert(write);
    }
  }
  assignRest(body);
}

/// True for rows of zeros after a value that begins its buffer.
static bool canFollow(Operation *pad, const Storage &storage) {
  auto from = typeOf(pad->getOperand(0)).getShape();
  auto to = typeOf(pad->getResult(0)).getShape();
  return storage.offset == 0 && storage.iter == 0 && storage.micro == 0 &&
         storage.isDense(from) && !from.empty() && viewOf(pad)->isAtStart() &&
         from.drop_front() == to.drop_front();
}

/// Views that came out without strides, where an op needs a tensor, and padding
/// that no buffer has room for.
LogicalResult Assigner::check(Block &block) {
  for (Operation &op : block) {
    if (isView(&op, ViewKind::Pad) &&
        !canFollow(&op, map.values[op.getOperand(0)]))
      return op.emitOpError("is no view: expected rows after a value that "
                            "begins its buffer, else a kernel");
    for (Value result : op.getResults()) {
      auto found = map.values.find(result);
      if (found != map.values.end() &&
          found->second.strides.size() !=
              static_cast<size_t>(typeOf(result).getRank()))
        return op.emitOpError("is no view: its elements are not evenly apart");
    }
    if (auto repeat = dyn_cast<RepeatOp>(op))
      if (failed(check(repeat.getBody().front())))
        return failure();
  }
  return success();
}

LogicalResult Assigner::run() {
  if (failed(declareStorage(program, map)))
    return failure();
  for (auto func : program.getBody().getOps<spmd::FuncOp>()) {
    assignFunction(func);
    if (failed(check(func.getBody().front())))
      return failure();
  }
  return success();
}

FailureOr<StorageMap> kerf::assignStorage(spmd::ProgramOp program,
                                          bool forGpu) {
  Assigner assigner{program, forGpu, StorageMap()};
  if (failed(assigner.run()))
    return failure();
  return std::move(assigner.map);
}
