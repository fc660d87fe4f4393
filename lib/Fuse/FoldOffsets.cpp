//===- FoldOffsets.cpp - where a rank's part lies, as one number ----------===//
//
// Attention over a sharded sequence is told the first query and the first key
// of its part. The partition writes how to compute them from the rank's
// coordinates; all of it is a sum of multiples of coordinates, for a ring of n
// ranks modulo n parts:
//
//   p = place + step;  p = p >= n ? p - n : p;  offset = p * size
//
// which is spmd.offset [axis * size] start (step * size) modulo (n * size).
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Fuse/Passes.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>
#include <optional>

namespace kerf {
#define GEN_PASS_DEF_FOLDOFFSETSPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// start + sum of stride * coordinate, modulo `modulo` (0: no modulus).
struct Linear {
  int64_t start = 0, modulo = 0;
  std::map<std::string, int64_t> strides;

  bool operator==(const Linear &) const = default;
};

/// Offsets of one program.
struct Folder {
  spmd::ProgramOp program;

  void foldIn(Operation *attention, OperandRange offsets);

private:
  std::optional<Linear> linearOf(Value value);
  std::optional<Linear> ofSum(AddOp op);
  std::optional<Linear> ofProduct(MulOp op);
  std::optional<Linear> ofRing(SelectOp op);
  bool staysBelow(const Linear &linear, int64_t most);
};
} // namespace

static std::optional<int64_t> constantOf(Value value) {
  DenseElementsAttr attr;
  if (!matchPattern(value, m_Constant(&attr)) || !attr.isSplat() ||
      !isa<IntegerType>(attr.getElementType()))
    return std::nullopt;
  return attr.getSplatValue<llvm::APInt>().getSExtValue();
}

//===----------------------------------------------------------------------===//
// What a value is
//===----------------------------------------------------------------------===//

static std::optional<Linear> ofOffset(spmd::OffsetOp op) {
  Linear linear;
  linear.start = static_cast<int64_t>(op.getStart().value_or(0));
  linear.modulo = static_cast<int64_t>(op.getModulo().value_or(0));
  for (auto [axis, stride] :
       llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getStrides()))
    linear.strides[axis.str()] = stride;
  return linear;
}

std::optional<Linear> Folder::ofSum(AddOp op) {
  auto left = linearOf(op.getLhs()), right = linearOf(op.getRhs());
  if (!left || !right || left->modulo || right->modulo)
    return std::nullopt;
  left->start += right->start;
  for (auto &[axis, stride] : right->strides)
    left->strides[axis] += stride;
  return left;
}

std::optional<Linear> Folder::ofProduct(MulOp op) {
  auto linear = linearOf(op.getLhs());
  auto factor = constantOf(op.getRhs());
  if (!linear || !factor || *factor <= 0)
    return std::nullopt;
  linear->start *= *factor;
  linear->modulo *= *factor;
  for (auto &[axis, stride] : linear->strides)
    stride *= *factor;
  return linear;
}

/// Is it in [0, most) on every rank?
bool Folder::staysBelow(const Linear &linear, int64_t most) {
  int64_t low = linear.start, high = linear.start;
  for (auto &[axis, stride] : linear.strides) {
    int64_t size = program.getAxisSize(axis);
    (stride < 0 ? low : high) += stride * (size - 1);
  }
  return low >= 0 && high < most;
}

/// x >= n ? x - n : x, of an x below 2 n.
std::optional<Linear> Folder::ofRing(SelectOp op) {
  auto compare = op.getCondition().getDefiningOp<CompareOp>();
  if (!compare || compare.getKind() != CompareKind::GE)
    return std::nullopt;
  auto n = constantOf(compare.getRhs());
  auto x = linearOf(op.getOnFalse()), less = linearOf(op.getOnTrue());
  if (!n || *n <= 0 || !x || !less || x->modulo ||
      compare.getLhs() != op.getOnFalse() || !staysBelow(*x, 2 * *n))
    return std::nullopt;
  Linear back = *less;
  back.start += *n;
  if (!(back == *x))
    return std::nullopt;
  x->modulo = *n;
  return x;
}

std::optional<Linear> Folder::linearOf(Value value) {
  if (auto constant = constantOf(value))
    return Linear{*constant, 0, {}};
  if (auto offset = value.getDefiningOp<spmd::OffsetOp>())
    return ofOffset(offset);
  if (auto sum = value.getDefiningOp<AddOp>())
    return ofSum(sum);
  if (auto product = value.getDefiningOp<MulOp>())
    return ofProduct(product);
  if (auto select = value.getDefiningOp<SelectOp>())
    return ofRing(select);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Writing it
//===----------------------------------------------------------------------===//

static bool isSame(spmd::OffsetOp op, const Linear &linear) {
  return *ofOffset(op) == linear;
}

/// One op for each such number of a function, at its beginning.
static Value write(spmd::FuncOp func, const Linear &linear) {
  for (auto known : func.getOps<spmd::OffsetOp>())
    if (isSame(known, linear)) {
      known->moveBefore(&func.getBody().front().front());
      return known.getResult();
    }
  OpBuilder builder = OpBuilder::atBlockBegin(&func.getBody().front());
  llvm::SmallVector<Attribute> axes;
  llvm::SmallVector<int64_t> strides;
  for (auto &[axis, stride] : linear.strides) {
    axes.push_back(builder.getStringAttr(axis));
    strides.push_back(stride);
  }
  auto made = spmd::OffsetOp::create(builder, func.getLoc(),
                                     builder.getArrayAttr(axes), strides);
  if (linear.start)
    made.setStart(linear.start);
  if (linear.modulo)
    made.setModulo(linear.modulo);
  return made.getResult();
}

/// Drops what computed whole numbers that nobody reads any more.
static void dropUnused(spmd::ProgramOp program) {
  llvm::SmallVector<Operation *> ops;
  program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op->getNumResults() == 1)
      if (auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
          type && type.getRank() == 0 &&
          isa<IntegerType>(type.getElementType()))
        ops.push_back(op);
  });
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

void Folder::foldIn(Operation *attention, OperandRange offsets) {
  if (offsets.empty())
    return;
  unsigned first = offsets.getBeginOperandIndex();
  auto func = attention->getParentOfType<spmd::FuncOp>();
  for (auto [i, value] : llvm::enumerate(llvm::to_vector(offsets)))
    if (!value.getDefiningOp<spmd::OffsetOp>())
      if (auto linear = linearOf(value))
        attention->setOperand(first + i, write(func, *linear));
}

namespace {
struct FoldOffsetsPass : kerf::impl::FoldOffsetsPassBase<FoldOffsetsPass> {
  void runOnOperation() override {
    getOperation().walk([](spmd::ProgramOp program) {
      Folder folder{program};
      llvm::SmallVector<AttentionOpInterface> attentions;
      program.walk([&](AttentionOpInterface op) { attentions.push_back(op); });
      for (AttentionOpInterface op : attentions)
        folder.foldIn(op, op.getOffsets());
      dropUnused(program);
    });
  }
};
} // namespace
