#include "Classify.h"

#include "kerf/Dialect/Kerf/MatmulForm.h"
#include "kerf/Dialect/Spmd/SumInPlace.h"
#include "kerf/Interfaces/KernelInterface.h"

using namespace mlir;
using namespace kerf;

/// Number types that library calls take.
static bool isLibraryNumber(Value value) {
  Type element = typeOf(value).getElementType();
  return element.isF32() || element.isBF16() || element.isF16();
}

/// Matmuls of 8-bit floats; `kerf-widen-matmuls` leaves those that libraries
/// take.
static bool isFloat8Matmul(Operation *op) {
  return llvm::all_of(op->getOperandTypes(), isFloat8);
}

bool kerf::isLibraryMatmul(Operation *op) {
  return isCall(op, LibraryCall::Matmul) && getMatmulForm(op) &&
         (isFloat8Matmul(op) ||
          llvm::all_of(op->getOperands(), isLibraryNumber)) &&
         isLibraryNumber(op->getResult(0));
}

bool kerf::isLibraryOp(Operation *op) {
  std::optional<LibraryCall> call = libraryCallOf(op);
  if (call && *call != LibraryCall::Matmul)
    return isLibraryNumber(op->getOperand(0));
  return isLibraryMatmul(op);
}

/// Attention takes and gives its tensors with strides.
static bool isAttention(Operation *op) {
  return isa_and_nonnull<AttentionOpInterface>(op);
}

/// True when only attention reads the value, perhaps as heads.
static bool isReadByAttentionOnly(Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return isAttention(user) || (isView(user, ViewKind::Rename) &&
                                 isReadByAttentionOnly(user->getResult(0)));
  });
}

/// True when attention makes the value, perhaps as heads, for one reader.
static bool isWrittenByAttention(Value value) {
  if (!value.hasOneUse())
    return false;
  Operation *def = value.getDefiningOp();
  if (isView(def, ViewKind::Rename))
    return isWrittenByAttention(def->getOperand(0));
  return isCall(def, LibraryCall::AttentionGradient);
}

/// True for a part whose elements lie together in a dense operand: whole in
/// all dimensions after the first of more than one index.
static bool isAdjacent(Operation *part) {
  auto from = typeOf(part->getOperand(0)).getShape();
  auto to = typeOf(part->getResult(0)).getShape();
  size_t d = 0;
  while (d < to.size() && to[d] == 1)
    ++d;
  return d == to.size() || from.drop_front(d + 1) == to.drop_front(d + 1);
}

/// True where the buffer of a value is for nothing but it and its views.
static bool isAlone(Value value) {
  return llvm::none_of(value.getUsers(), [](Operation *user) {
    return isa<spmd::WriteOp, spmd::AccumulateOp, YieldOp, RepeatOp>(user) ||
           isView(user, ViewKind::Join);
  });
}

bool kerf::canLengthen(Value value) {
  Operation *def = value.getDefiningOp();
  if (auto param = dyn_cast_or_null<ParamOp>(def))
    return !param.isPerIteration();
  bool isMatmul =
      isLibraryMatmul(def) ||
      (isCall(def, LibraryCall::GroupedGradient) && isLibraryOp(def));
  if (isMatmul || isa_and_nonnull<spmd::AllGatherOp>(def))
    return isAlone(value);
  if (isView(def, ViewKind::Rename) || isa_and_nonnull<spmd::WaitOp>(def))
    return isAlone(value) && canLengthen(def->getOperand(0));
  // A gathered weight without the padding of its pieces, which nobody reads.
  if (!isView(def, ViewKind::Part))
    return false;
  Value whole = def->getOperand(0);
  return isAdjacent(def) && isAlone(value) && viewOf(def)->isAtStart() &&
         whole.hasOneUse() && !whole.getDefiningOp<ParamOp>() &&
         canLengthen(whole);
}

/// True for a value with a few more rows, for which its buffer has room.
static bool isLengthened(Operation *pad) {
  auto from = typeOf(pad->getOperand(0)).getShape();
  auto to = typeOf(pad->getResult(0)).getShape();
  return viewOf(pad)->isAtStart() && !from.empty() &&
         (to[0] - from[0]) * 8 <= from[0] &&
         to.drop_front() == from.drop_front() &&
         canLengthen(pad->getOperand(0));
}

bool kerf::isStridedView(Operation *op) {
  std::optional<View> view = viewOf(op);
  if (!view)
    return false;
  switch (view->kind) {
  case ViewKind::Rename:
    return true;
  case ViewKind::Pad:
    return isLengthened(op);
  case ViewKind::Part:
    return isAdjacent(op) || isReadByAttentionOnly(op->getResult(0));
  case ViewKind::Join: // channels stay adjacent: parts are side by side in them
    return view->dims[0] == typeOf(op->getResult(0)).getRank() - 1 &&
           llvm::all_of(op->getOperands(), isWrittenByAttention);
  case ViewKind::Turn:
  case ViewKind::Repeat:
    return false;
  }
  llvm_unreachable("covered switch");
}

bool kerf::keepsPowers(Operation *conversion) {
  Type to = typeOf(conversion->getResult(0)).getElementType();
  return to.isF32() || to.isBF16() || to.isF64();
}

std::string kerf::newBufferName(spmd::ProgramOp program,
                                llvm::StringRef start) {
  for (int64_t number = 0;; ++number) {
    std::string name = start.str() + std::to_string(number);
    if (!SymbolTable::lookupSymbolIn(program, name))
      return name;
  }
}

/// True for a buffer of units (`kerf-hoist-units`).
static bool holdsUnits(spmd::ReadOp read) {
  Operation *buffer =
      SymbolTable::lookupNearestSymbolFrom(read, read.getSourceAttr());
  return buffer && buffer->hasAttr(kUnitsAttrName);
}

bool kerf::isPowerOfTwo(Value value) {
  if (Value stack = spmd::stackOf(value))
    return isPowerOfTwo(stack);
  Operation *def = value.getDefiningOp();
  if (auto read = dyn_cast_or_null<spmd::ReadOp>(def))
    return holdsUnits(read);
  if (auto reduce = dyn_cast_or_null<spmd::AllReduceOp>(def))
    return reduce.getKind() == ReduceKind::Max && isPowerOfTwo(reduce.getX());
  if (isConversion(def))
    return keepsPowers(def) && isPowerOfTwo(def->getOperand(0));
  if (isa_and_nonnull<spmd::WaitOp>(def) ||
      isView(def, ViewKind::Rename, ViewKind::Part, ViewKind::Join))
    return llvm::all_of(def->getOperands(), isPowerOfTwo);
  return isa_and_nonnull<UnitOp, PowerOfTwoOp>(def);
}

/// True for scalars made of powers of two and constants: cheaper to make than
/// to launch a kernel for.
static bool isOfUnits(Operation *op) {
  return (isConversion(op) || isa<DivOp, MulOp>(op)) &&
         typeOf(op->getResult(0)).getRank() == 0 &&
         llvm::all_of(op->getOperands(), [](Value value) {
           Operation *def = value.getDefiningOp();
           return def &&
                  (isConstant(def) || isPowerOfTwo(value) || isOfUnits(def));
         });
}

bool kerf::isKernelSource(Operation *op) {
  bool isNumbers = isa<EvaluateOpInterface>(op) && op->getNumOperands() == 0;
  return isNumbers || isOfUnits(op);
}

bool kerf::isKernelOp(Operation *op) {
  if (isa<ParamOp, RepeatOp, YieldOp, UpdateOp>(op))
    return false;
  if (Operation *matmul = spmd::matmulSummedInPlace(op))
    return !isa<spmd::FusedMatmulOp>(matmul) && !isLibraryOp(matmul);
  return isa<DecomposeOpInterface, EvaluateOpInterface, KernelOpInterface>(
             op) &&
         !isLibraryOp(op) && !isStridedView(op);
}

//===----------------------------------------------------------------------===//
// Spaces
//===----------------------------------------------------------------------===//

namespace {
/// What the ops of a kernel ask of its loops.
struct SpaceBuilder {
  KernelSpace space;
  int64_t elements = -1;

  void see(Value value) {
    auto type = typeOf(value);
    int64_t count = type.getNumElements(), rank = type.getRank();
    // Of rows of one element, the elements.
    if (count < elements ||
        (count == elements && rank <= static_cast<int64_t>(space.shape.size())))
      return;
    elements = count;
    space.shape = llvm::to_vector(type.getShape());
  }
};
} // namespace

/// True for a shape that is the space, its rows, its columns, or a scalar.
static bool fits(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> space) {
  return shape.empty() || shape == space ||
         (!space.empty() &&
          (shape == space.drop_back() || shape == space.take_back()));
}

/// True if all that is made of a column sum has its shape: columns that rows
/// read again need a second pass over the rows.
static bool staysColumn(Value value, int64_t elements) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return llvm::all_of(user->getResults(), [&](Value result) {
      return typeOf(result).getNumElements() <= elements &&
             staysColumn(result, elements);
    });
  });
}

static KernelKind kindOf(ReduceOp reduce, llvm::ArrayRef<int64_t> space) {
  auto type = typeOf(reduce.getX());
  llvm::ArrayRef<int64_t> dims = reduce.getDims();
  auto result = typeOf(reduce.getResult());
  // One value per row, summed over the rows at the end.
  if (!space.empty() && type.getShape() == space.drop_back() &&
      result.getRank() == 0 && staysColumn(reduce.getResult(), 1))
    return KernelKind::Column;
  if (type.getShape() == space) {
    if (dims.size() == 1 && dims[0] == type.getRank() - 1)
      return KernelKind::Row;
    if (static_cast<int64_t>(dims.size()) == type.getRank() - 1 &&
        dims.back() == type.getRank() - 2 &&
        staysColumn(reduce.getResult(), result.getNumElements()))
      return KernelKind::Column;
  }
  return KernelKind::Other;
}

bool kerf::isReadTurned(BlockArgument argument) {
  return !argument.use_empty() &&
         llvm::all_of(argument.getUsers(), [](Operation *user) {
           return isView(user, ViewKind::Turn);
         });
}

bool kerf::isReadInParts(BlockArgument argument) {
  return !argument.use_empty() &&
         llvm::all_of(argument.getUsers(), [](Operation *user) {
           return isView(user, ViewKind::Part);
         });
}

/// True for a part or a renaming of what lies in memory: another address.
static bool isAddress(Operation &op) {
  if (!isView(&op, ViewKind::Part, ViewKind::Rename))
    return false;
  Operation *maker = op.getOperand(0).getDefiningOp();
  return !maker || isAddress(*maker);
}

/// True for an address that others are made of, and nothing else.
static bool isMovedOnly(Operation &op) {
  return isAddress(op) && !op.use_empty() &&
         llvm::all_of(op.getUsers(), [](Operation *user) {
           return isView(user, ViewKind::Part, ViewKind::Rename);
         });
}

/// True for numbers that are counted or written down: each loop has its own.
static bool isCounted(Operation &op) {
  return isConstant(&op) || isa<IotaOp>(op);
}

bool kerf::isPulled(Operation &op) {
  bool isSource =
      isa<EvaluateOpInterface>(op) && !isCall(&op, LibraryCall::Matmul) &&
      llvm::all_of(op.getOperands(),
                   [](Value value) { return typeOf(value).getRank() == 0; });
  return isa<ScalarOpInterface>(op) || isView(&op, ViewKind::Repeat) ||
         isSource;
}

static KernelKind kindOf(Operation &op, llvm::ArrayRef<int64_t> space) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return kindOf(reduce, space);
  // Only the address of what is read is another.
  bool isTurnedRead =
      isView(&op, ViewKind::Turn) && isa<BlockArgument>(op.getOperand(0));
  if ((isTurnedRead || isAddress(op)) &&
      typeOf(op.getResult(0)).getShape() == space)
    return KernelKind::Pointwise;
  if (isMovedOnly(op))
    return KernelKind::Pointwise;
  if (!isPulled(op) || getOwnKernel(&op))
    return KernelKind::Other;
  for (Value result : op.getResults())
    if (!fits(typeOf(result).getShape(), space) && !isCounted(op))
      return KernelKind::Other;
  return KernelKind::Pointwise;
}

KernelSpace kerf::getKernelSpace(spmd::FusedOp fused) {
  SpaceBuilder builder;
  Block &body = fused.getBody().front();
  for (BlockArgument argument : body.getArguments())
    if (!isReadTurned(argument) && !isReadInParts(argument))
      builder.see(argument);
  for (Operation &op : body.without_terminator())
    if (!isMovedOnly(op))
      for (Value result : op.getResults())
        builder.see(result);
  KernelSpace space = builder.space;
  space.kind = KernelKind::Pointwise;
  for (Operation &op : body.without_terminator()) {
    KernelKind kind = kindOf(op, space.shape);
    space.kind = std::max(space.kind, kind);
  }
  return space;
}

llvm::SmallVector<Block *> kerf::kernelBlocks(Operation *root) {
  llvm::SmallVector<Block *> blocks;
  root->walk([&](Operation *op) {
    if (isa<spmd::FuncOp, RepeatOp>(op))
      blocks.push_back(&op->getRegion(0).front());
  });
  return blocks;
}

void kerf::eraseUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if ((isa<spmd::FusedOp>(op) || isView(&op, ViewKind::Rename)) &&
        isOpTriviallyDead(&op))
      op.erase();
}
