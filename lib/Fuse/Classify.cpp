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

/// Products of 8-bit floats; `kerf-widen-products` leaves those that libraries
/// take.
static bool isFloat8Product(Operation *op) {
  auto einsum = dyn_cast<EinsumOp>(op);
  return einsum && isFloat8(einsum.getLhs().getType()) &&
         isFloat8(einsum.getRhs().getType());
}

bool kerf::isLibraryOp(Operation *op) {
  if (isa<AttentionOp, AttentionBackwardOp, GroupedMatmulOp,
          GroupedWeightGradientOp>(op))
    return isLibraryNumber(op->getOperand(0));
  return getMatmulForm(op).has_value() &&
         (isFloat8Product(op) ||
          llvm::all_of(op->getOperands(), isLibraryNumber)) &&
         isLibraryNumber(op->getResult(0));
}

/// True when only attention reads the value, perhaps as heads.
static bool isReadByAttentionOnly(Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isa<AttentionOp, AttentionBackwardOp>(user))
      return true;
    return isa<ReshapeOp>(user) && isReadByAttentionOnly(user->getResult(0));
  });
}

/// True when attention makes the value, perhaps as heads, for one reader.
static bool isWrittenByAttention(Value value) {
  if (!value.hasOneUse())
    return false;
  Operation *def = value.getDefiningOp();
  if (auto reshape = dyn_cast_or_null<ReshapeOp>(def))
    return isWrittenByAttention(reshape.getX());
  return isa_and_nonnull<AttentionBackwardOp>(def);
}

/// True for a slice whose elements lie together in a dense operand: whole in
/// all dimensions after the first of more than one index.
static bool isAdjacent(SliceOp slice) {
  auto from = typeOf(slice.getX()).getShape();
  auto to = typeOf(slice.getResult()).getShape();
  size_t d = 0;
  while (d < to.size() && to[d] == 1)
    ++d;
  return d == to.size() || from.drop_front(d + 1) == to.drop_front(d + 1);
}

/// True where the buffer of a value is for nothing but it and its views.
static bool isAlone(Value value) {
  return llvm::none_of(value.getUsers(), [](Operation *user) {
    return isa<spmd::WriteOp, spmd::AccumulateOp, YieldOp, ConcatOp, RepeatOp>(
        user);
  });
}

bool kerf::canLengthen(Value value) {
  Operation *def = value.getDefiningOp();
  if (auto param = dyn_cast_or_null<ParamOp>(def))
    return !param.isPerIteration();
  bool isProduct =
      isa_and_nonnull<LinearOp, MatmulOp, EinsumOp, GroupedWeightGradientOp>(
          def) &&
      isLibraryOp(def);
  if (isProduct || isa_and_nonnull<spmd::AllGatherOp>(def))
    return isAlone(value);
  if (isa_and_nonnull<ReshapeOp, spmd::WaitOp>(def))
    return isAlone(value) && canLengthen(def->getOperand(0));
  // A gathered weight without the padding of its pieces, which nobody reads.
  auto slice = dyn_cast_or_null<SliceOp>(def);
  return slice && isAdjacent(slice) && isAlone(value) &&
         llvm::all_of(slice.getOffsets(), [](int64_t x) { return x == 0; }) &&
         slice.getX().hasOneUse() && !slice.getX().getDefiningOp<ParamOp>() &&
         canLengthen(slice.getX());
}

/// True for a value with a few more rows, for which its buffer has room.
static bool isLengthened(PadOp pad) {
  auto isZero = [](int64_t count) { return count == 0; };
  return llvm::all_of(pad.getLow(), isZero) && !pad.getHigh().empty() &&
         pad.getHigh()[0] * 8 <= typeOf(pad.getX()).getDimSize(0) &&
         llvm::all_of(pad.getHigh().drop_front(), isZero) &&
         canLengthen(pad.getX());
}

bool kerf::isStridedView(Operation *op) {
  if (isa<ReshapeOp>(op))
    return true;
  if (auto pad = dyn_cast<PadOp>(op))
    return isLengthened(pad);
  if (auto slice = dyn_cast<SliceOp>(op))
    return isAdjacent(slice) || isReadByAttentionOnly(slice.getResult());
  // Channels must stay adjacent: parts lie side by side in the last dimension.
  if (auto concat = dyn_cast<ConcatOp>(op))
    return concat.getDim() == typeOf(concat.getResult()).getRank() - 1 &&
           llvm::all_of(concat.getInputs(), isWrittenByAttention);
  return false;
}

bool kerf::keepsPowers(CastOp cast) {
  Type to = typeOf(cast.getResult()).getElementType();
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
  if (auto cast = dyn_cast_or_null<CastOp>(def))
    return keepsPowers(cast) && isPowerOfTwo(cast.getX());
  if (isa_and_nonnull<spmd::WaitOp, ReshapeOp, SliceOp, ConcatOp>(def))
    return llvm::all_of(def->getOperands(), isPowerOfTwo);
  return isa_and_nonnull<UnitOp, PowerOfTwoOp>(def);
}

/// True for scalars made of powers of two and constants: cheaper to make than
/// to launch a kernel for.
static bool isOfUnits(Operation *op) {
  return isa<CastOp, DivOp, MulOp>(op) &&
         typeOf(op->getResult(0)).getRank() == 0 &&
         llvm::all_of(op->getOperands(), [](Value value) {
           Operation *def = value.getDefiningOp();
           return def && (isa<ConstantOp>(def) || isPowerOfTwo(value) ||
                          isOfUnits(def));
         });
}

bool kerf::isKernelSource(Operation *op) {
  return isa<ConstantOp>(op) ||
         (isa<IotaOp>(op) && op->getNumOperands() == 0) || isOfUnits(op);
}

bool kerf::isKernelOp(Operation *op) {
  if (isa<ParamOp, RepeatOp, YieldOp, UpdateOp>(op))
    return false;
  if (Operation *product = spmd::productSummedInPlace(op))
    return !isa<spmd::ProductOp>(product) && !isLibraryOp(product);
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
         llvm::all_of(argument.getUsers(), llvm::IsaPred<TransposeOp>);
}

bool kerf::isReadInParts(BlockArgument argument) {
  return !argument.use_empty() &&
         llvm::all_of(argument.getUsers(), llvm::IsaPred<SliceOp>);
}

/// True for a slice or a reshape of what lies in memory: another address.
static bool isAddress(Operation &op) {
  if (!isa<SliceOp, ReshapeOp>(op))
    return false;
  Operation *maker = op.getOperand(0).getDefiningOp();
  return !maker || isAddress(*maker);
}

/// True for an address that others are made of, and nothing else.
static bool isMovedOnly(Operation &op) {
  return isAddress(op) && !op.use_empty() &&
         llvm::all_of(op.getUsers(), llvm::IsaPred<SliceOp, ReshapeOp>);
}

static KernelKind kindOf(Operation &op, llvm::ArrayRef<int64_t> space) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return kindOf(reduce, space);
  // Only the address of what is read is another.
  if (auto transpose = dyn_cast<TransposeOp>(op);
      transpose && isa<BlockArgument>(transpose.getX()) &&
      typeOf(transpose.getResult()).getShape() == space)
    return KernelKind::Pointwise;
  if (isMovedOnly(op))
    return KernelKind::Pointwise;
  if (isAddress(op) && typeOf(op.getResult(0)).getShape() == space)
    return KernelKind::Pointwise;
  if (isa<EinsumOp, GatherOp, ScatterAddOp, CumsumOp, TopKOp, TransposeOp,
          SliceOp, PadOp, ConcatOp, ReshapeOp>(op) ||
      getOwnKernel(&op))
    return KernelKind::Other;
  for (Value result : op.getResults())
    if (!fits(typeOf(result).getShape(), space) && !isa<ConstantOp, IotaOp>(op))
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
    if (isa<spmd::FusedOp, ReshapeOp>(op) && isOpTriviallyDead(&op))
      op.erase();
}
