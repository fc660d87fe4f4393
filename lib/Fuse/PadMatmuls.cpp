//===- PadMatmuls.cpp - rows of whole lines of memory ---------------------===//
//
// Problem: a matmul whose rows are no multiple of 16 bytes (logits over 50,257
// words in bf16) leaves tensor cores and kernels with narrow accesses, and so
// do the matmuls of its gradient.
// Idea: widen the dimension everywhere it occurs. Every op names its dimensions
// (factors), so the ops that share one are found without knowing them: from the
// matmul to readers and to what these read beside it. What enters from outside
// is padded with zeros; what leaves is a prefix, which is a view. The new
// columns hold anything; who sums, contracts or takes maxima over them selects
// neutral values instead, inside the kernel that it becomes.
// Steps: for each matmul, collect the ops and values of its dimension; refuse
// it where one of them cannot be wider; write the ops again.
// Cost: linear in the ops of a block.
//
//   %l = linear %x, %w             %p = pad %w; %l = linear %x, %p
//   %d = cross_entropy_backward    %m = select (iota < 50257), %l, -inf
//        %l              becomes   %d = cross_entropy_backward %m
//   %dx = einsum %d, %w            %dx = einsum %d, %p
//   %dw = einsum %d, %x            %e = einsum %d, %x; %dw = slice %e
//
//===----------------------------------------------------------------------===//

#include "Classify.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Fuse/Passes.h"
#include "kerf/Support/Padding.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace kerf {
#define GEN_PASS_DEF_PADMATMULSPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Which ops can be wider
//===----------------------------------------------------------------------===//

/// The dimension that `factor` alone makes up; -1: none has it; -2: it shares
/// one with others.
static int64_t dimOf(const TensorFactors &dims, unsigned factor) {
  for (auto [d, factors] : llvm::enumerate(dims))
    if (llvm::is_contained(factors, factor))
      return factors.size() == 1 ? int64_t(d) : -2;
  return -1;
}

/// The dimensions of an op. A rank's own part keeps all but the one that is
/// split, which two factors make up.
static Factors factorsOf(Operation *op) {
  if (auto own = dyn_cast<spmd::SliceOwnOp>(op)) {
    Factors factors(Positions::Ignored);
    TensorFactors dims;
    for (int64_t size : typeOf(own.getX()).getShape())
      dims.push_back({factors.add("d", size)});
    dims[own.getDim()].push_back(factors.add("part", 1));
    factors.operands = {dims};
    factors.results = {dims};
    return factors;
  }
  return cast<FactorOpInterface>(op).getFactors();
}

/// True for a value whose first elements are the narrower value: all dimensions
/// before `dim` are of one index.
static bool isOutermost(Value value, int64_t dim) {
  return llvm::all_of(typeOf(value).getShape().take_front(dim),
                      [](int64_t size) { return size == 1; });
}

/// True for ops that are recomputed rather than padded, whoever else reads
/// them.
static bool isSource(Operation *op) {
  DenseElementsAttr value;
  bool isSplat = matchPattern(op, m_Constant(&value)) && value.isSplat();
  return isSplat || isa<IotaOp>(op) || isView(op, ViewKind::Repeat);
}

/// True for sums and maxima of floats, which have a neutral value.
static bool isNeutralReduce(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && isa<FloatType>(getElementTypeOrSelf(reduce.getType()));
}

/// A loss, or its gradient, of whole rows: a shard of a row would take targets
/// of the next one for its own new columns.
static bool isWholeLoss(Operation *op) {
  if (auto loss = dyn_cast<CrossEntropyOp>(op))
    return !loss.getOffset();
  auto backward = dyn_cast<CrossEntropyBackwardOp>(op);
  return backward && !backward.getOffset();
}

/// True for matmuls of a library, but those of 8 bits, which have rules of
/// their own.
static bool isMatmul(Operation *op) {
  return isLibraryMatmul(op) &&
         llvm::all_of(op->getOperandTypes(), [](Type type) {
           return getElementTypeOrSelf(type).getIntOrFloatBitWidth() > 8;
         });
}

static bool canBeWider(Operation *op) {
  return isMatmul(op) || isSource(op) || isa<ScalarOpInterface>(op) ||
         isNeutralReduce(op) || isWholeLoss(op) || isa<spmd::SliceOwnOp>(op);
}

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

namespace {
/// The ops and values of a block that share one dimension.
struct PadRegion {
  Block *block;
  int64_t narrow, wide; ///< sizes of the dimension
  /// Values that become wider, and values that are padded: which dimension.
  llvm::MapVector<Value, int64_t> values = {}, inputs = {};
  /// Ops that are written again: their factor of that dimension.
  llvm::DenseMap<Operation *, unsigned> ops{};
  llvm::SmallVector<Value> unseen{}; ///< values whose ops are not visited yet

  /// Collects from a matmul's result on; false where an op refuses.
  bool collect(Value seed);

private:
  bool widen(Value value, int64_t dim);
  bool request(Value value, int64_t dim);
  bool visit(Operation *op, unsigned factor);
  bool visitAround(Value value, int64_t dim);
  bool isCheap(Value seed) const;
};
} // namespace

bool PadRegion::widen(Value value, int64_t dim) {
  auto [at, isNew] = values.try_emplace(value, dim);
  if (isNew)
    unseen.push_back(value);
  return at->second == dim;
}

/// An operand that must be wider: made so where its op can, else padded.
bool PadRegion::request(Value value, int64_t dim) {
  if (auto known = values.find(value); known != values.end())
    return known->second == dim;
  Operation *def = value.getDefiningOp();
  bool isMade = def && def->getBlock() == block && canBeWider(def) &&
                (isSource(def) || !isOutermost(value, dim));
  if (isMade)
    return widen(value, dim);
  return inputs.try_emplace(value, dim).first->second == dim;
}

bool PadRegion::visit(Operation *op, unsigned factor) {
  if (op->getBlock() != block || !canBeWider(op))
    return false;
  auto [at, isNew] = ops.try_emplace(op, factor);
  if (!isNew)
    return at->second == factor;
  Factors factors = factorsOf(op);
  for (auto [value, dims] : llvm::zip(op->getResults(), factors.results)) {
    int64_t dim = dimOf(dims, factor);
    if (dim == -2 || (dim >= 0 && !widen(value, dim)))
      return false;
  }
  for (auto [value, dims] : llvm::zip(op->getOperands(), factors.operands)) {
    int64_t dim = dimOf(dims, factor);
    if (dim == -2 || (dim >= 0 && !request(value, dim)))
      return false;
  }
  return true;
}

/// Visits the op that makes a value and, unless a prefix serves them, those
/// that read it.
bool PadRegion::visitAround(Value value, int64_t dim) {
  Operation *def = value.getDefiningOp();
  auto factorAt = [&](const TensorFactors &dims) -> std::optional<unsigned> {
    if (dims[dim].size() != 1)
      return std::nullopt;
    return dims[dim][0];
  };
  auto made =
      factorAt(factorsOf(def).results[cast<OpResult>(value).getResultNumber()]);
  if (!made || !visit(def, *made))
    return false;
  if (isSource(def) || isOutermost(value, dim))
    return true;
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (user->getBlock() != block || !canBeWider(user))
      return false;
    auto read = factorAt(factorsOf(user).operands[use.getOperandNumber()]);
    return read && visit(user, *read);
  });
}

/// True unless padding by a copy costs a good part of what the matmul's result
/// does.
bool PadRegion::isCheap(Value seed) const {
  return llvm::all_of(inputs, [&](const auto &input) {
    auto [value, dim] = input;
    return values.contains(value) || (dim == 0 && canLengthen(value)) ||
           typeOf(value).getNumElements() * 4 <= typeOf(seed).getNumElements();
  });
}

bool PadRegion::collect(Value seed) {
  if (!widen(seed, typeOf(seed).getRank() - 1))
    return false;
  while (!unseen.empty()) {
    Value value = unseen.pop_back_val();
    if (!visitAround(value, values.lookup(value)))
      return false;
  }
  return isCheap(seed);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {
struct RegionWriter {
  const PadRegion &region;
  /// The wider form of a value, and the same with zeros in the new columns.
  llvm::DenseMap<Value, Value> wider{}, zeroed{};
  llvm::SmallVector<Operation *> erased{}; ///< what was written again

  void run();

private:
  RankedTensorType widerType(Value value, int64_t dim) const;
  Value read(OpBuilder &builder, Operation *op, unsigned operand);
  Value mask(OpBuilder &builder, Operation *op, Value value, int64_t dim,
             double fill);
  Value withZeros(OpBuilder &builder, Operation *op, Value value, int64_t dim);
  Attribute paddedPart(Operation *matmul) const;
  void write(Operation *op);
  void replaceOutside(Value value, int64_t dim);
};
} // namespace

RankedTensorType RegionWriter::widerType(Value value, int64_t dim) const {
  llvm::SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[dim] = region.wide;
  return withShape(value.getType(), shape);
}

/// `value` with `fill` in its new columns. Recomputed for each reader, whose
/// kernel it becomes a part of.
Value RegionWriter::mask(OpBuilder &builder, Operation *op, Value value,
                         int64_t dim, double fill) {
  PlainBuilder p{builder, op->getLoc()};
  Value index = p.iota(typeOf(value).getShape(), dim);
  Value inside =
      p.compare(CompareKind::LT, index, static_cast<double>(region.narrow));
  Value masked = p.select(inside, value, fill);
  for (Value made : {inside, masked})
    if (PhaseAttr phase = getPhase(op))
      made.getDefiningOp()->setAttr(kPhaseAttrName, phase);
  return masked;
}

/// The wider form of `value` with zeros in the new columns.
Value RegionWriter::withZeros(OpBuilder &builder, Operation *op, Value value,
                              int64_t dim) {
  Value wide = wider.lookup(value);
  // Of logits of -inf, the gradient is 0. Matmuls of zeros are zeros.
  Operation *def = wide.getDefiningOp();
  if (isView(def, ViewKind::Pad) || isWholeLoss(def) || isMatmul(def))
    return wide;
  auto [at, isNew] = zeroed.try_emplace(value);
  if (isNew)
    at->second = mask(builder, op, wide, dim, 0);
  return at->second;
}

/// An operand as the wider op reads it.
Value RegionWriter::read(OpBuilder &builder, Operation *op, unsigned operand) {
  Value value = op->getOperand(operand);
  unsigned factor = region.ops.lookup(op);
  Factors factors = factorsOf(op);
  int64_t dim = dimOf(factors.operands[operand], factor);
  if (dim < 0)
    return value;
  if (!wider.contains(value)) {
    llvm::SmallVector<int64_t> low(typeOf(value).getRank(), 0), high = low;
    high[dim] = region.wide - region.narrow;
    auto pad = PadOp::create(builder, op->getLoc(), value, low, high);
    if (PhaseAttr phase = getPhase(op))
      pad->setAttr(kPhaseAttrName, phase);
    wider[value] = pad.getResult();
  }
  if (isWholeLoss(op))
    return mask(builder, op, wider[value], dim, -INFINITY);
  // Both matmuls of a gradient read one value, which is stored once.
  if (isMatmul(op))
    return withZeros(builder, op, value, dim);
  if (auto reduce = dyn_cast<ReduceOp>(op);
      reduce && llvm::is_contained(reduce.getDims(), dim))
    return mask(builder, op, wider[value], dim,
                reduce.getKind() == ReduceKind::Max ? -INFINITY : 0);
  return wider[value];
}

/// Readers outside the region get the first elements.
void RegionWriter::replaceOutside(Value value, int64_t dim) {
  auto isOutside = [&](OpOperand &use) {
    return !region.ops.contains(use.getOwner());
  };
  if (isSource(value.getDefiningOp()) ||
      llvm::none_of(value.getUses(), isOutside))
    return;
  Value wide = wider.lookup(value);
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(wide);
  llvm::SmallVector<int64_t> offsets(typeOf(value).getRank(), 0);
  Value prefix = SliceOp::create(builder, value.getLoc(), wide, offsets,
                                 typeOf(value).getShape());
  value.replaceUsesWithIf(prefix, isOutside);
}

/// How much of the wider matmul means something: of all its dimensions that
/// are wider.
Attribute RegionWriter::paddedPart(Operation *matmul) const {
  int64_t narrow = region.narrow, wide = region.wide;
  auto before = matmul->getAttrOfType<DenseI64ArrayAttr>(kPaddedAttrName);
  if (before && before.size() == 2) {
    narrow *= before[0];
    wide *= before[1];
  }
  return DenseI64ArrayAttr::get(matmul->getContext(), {narrow, wide});
}

void RegionWriter::write(Operation *op) {
  OpBuilder builder(op);
  llvm::SmallVector<Value> operands;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    operands.push_back(read(builder, op, i));
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  if (isMatmul(op))
    copy->setAttr(kPaddedAttrName, paddedPart(op));
  for (auto [old, made] : llvm::zip(op->getResults(), copy->getResults())) {
    auto found = region.values.find(old);
    if (found == region.values.end()) {
      old.replaceAllUsesWith(made);
      continue;
    }
    RankedTensorType type = widerType(old, found->second);
    made.setType(type);
    if (isConstant(copy)) // its text repeats the size
      cast<LocalizeOpInterface>(copy).localize(builder, {});
    wider[old] = made;
    replaceOutside(old, found->second);
  }
}

void RegionWriter::run() {
  llvm::SmallVector<Operation *> ordered;
  for (Operation &op : *region.block)
    if (region.ops.contains(&op))
      ordered.push_back(&op);
  for (Operation *op : ordered)
    write(op);
  for (Operation *op : llvm::reverse(ordered))
    if (op->use_empty()) {
      erased.push_back(op);
      op->erase();
    }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Widens the rows of a matmul's result where that can be done; the ops that
/// are no more.
static llvm::SmallVector<Operation *> padMatmul(Operation *op) {
  Value result = op->getResult(0);
  auto type = typeOf(result);
  if (type.getRank() == 0 || isOutermost(result, type.getRank() - 1))
    return {};
  int64_t narrow = type.getShape().back();
  int64_t wide = paddedColumns(narrow, type.getElementTypeBitWidth() / 8);
  PadRegion region{op->getBlock(), narrow, wide};
  if (wide == narrow || !region.collect(result))
    return {};
  RegionWriter writer{region};
  writer.run();
  return writer.erased;
}

static void padBlock(Block &block) {
  llvm::SetVector<Operation *> matmuls;
  for (Operation &op : block)
    if (isMatmul(&op))
      matmuls.insert(&op);
  while (!matmuls.empty()) {
    Operation *op = matmuls.front();
    matmuls.remove(op);
    for (Operation *erased : padMatmul(op))
      matmuls.remove(erased);
  }
}

namespace {
struct PadMatmuls : kerf::impl::PadMatmulsPassBase<PadMatmuls> {
  void runOnOperation() override {
    llvm::SmallVector<Block *> blocks;
    getOperation().walk([&](Operation *op) {
      if (isa<spmd::FuncOp, ModelOp, RepeatOp>(op))
        blocks.push_back(&op->getRegion(0).front());
    });
    for (Block *block : blocks)
      padBlock(*block);
  }
};
} // namespace
