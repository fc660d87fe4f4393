//===- FuseEpilogues.cpp - products that compute what follows them --------===//
//
// Problem: what a product is followed by reads its result from memory and
// writes as much again.
// Idea: libraries of GPUs have products that end in a gelu or in its gradient,
// and that add up the rows of a factor, which they read anyway.
// Steps, per block: the units of 8-bit floats with the product that they scale;
// gelu with the product that it is of; the gradient of gelu with the product
// that makes what it multiplies; then the sums of rows that are left with a
// product that reads the rows.
// Cost: linear in the ops of a block.
//
//   h = linear x, w1; g = gelu h (both kept for the backward pass)
//     becomes  g, h = product { linear, gelu }
//   p = einsum dy, w2; dh = gelu_backward h, p; db = reduce cast dh;
//   dw = einsum dh, x
//     becomes  dh = product { einsum, gelu_backward } and
//              dw, db = product { einsum, cast, reduce }
//   p = einsum x8, w8; y = p * broadcast (cast (unit x) * cast (unit w))
//     becomes  y = product { einsum, cast, mul, broadcast, mul }, which reads
//              both units
//
// Nothing is taken that would only move work out of a kernel that stays: a gelu
// that a kernel reads, a sum of rows that a kernel makes or reads as well.
//
//===----------------------------------------------------------------------===//

#include "Classify.h"

#include "kerf/Dialect/Kerf/RowSum.h"
#include "kerf/Fuse/Passes.h"
#include "kerf/Support/Epilogues.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "fuse"

namespace kerf {
#define GEN_PASS_DEF_FUSEEPILOGUESPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// What fits
//===----------------------------------------------------------------------===//

static Type elementOf(Value value) { return typeOf(value).getElementType(); }

/// The form of a product that a library computes, without a batch and with a
/// dense result; or nothing. Those of 8-bit floats have rules of their own.
static std::optional<MatmulForm> formOf(Operation *op) {
  if (!isLibraryMatmul(op) || llvm::any_of(op->getOperandTypes(), isFloat8))
    return std::nullopt;
  std::optional<MatmulForm> form = getMatmulForm(op);
  bool fits =
      form && form->batch == 1 && (form->m == 1 || form->c.row == form->n);
  return fits ? form : std::nullopt;
}

/// True for a product whose operands and result, bias included, have one type:
/// libraries apply gelu only to these.
static bool hasOneType(Operation *product) {
  Type element = elementOf(product->getResult(0));
  return llvm::all_of(product->getOperands(), [&](Value operand) {
    return elementOf(operand) == element;
  });
}

static bool isReadByKernel(Value value, llvm::ArrayRef<Operation *> except) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isKernelOp(user) && !llvm::is_contained(except, user);
  });
}

/// True for what a kernel makes, perhaps through views.
static bool isMadeByKernel(Value value) {
  Operation *def = value.getDefiningOp();
  if (def && isStridedView(def))
    return llvm::any_of(def->getOperands(), isMadeByKernel);
  return def && isKernelOp(def);
}

/// A conversion that only `reduce` reads, or null.
static Operation *conversionFor(ReduceOp reduce) {
  Operation *made = reduce.getX().getDefiningOp();
  bool isSole = isConversion(made) && made->hasOneUse() &&
                made->getBlock() == reduce->getBlock();
  return isSole ? made : nullptr;
}

/// True if all readers of `value` stand behind `op` in its block.
static bool isReadBehind(Value value, Operation *op) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    Operation *top = op->getBlock()->findAncestorOpInBlock(*user);
    return top && op->isBeforeInBlock(top);
  });
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// Replaces `members`, which stand in the order of their edges, by one
/// `spmd.product` before `at` that gives `results`.
static void build(llvm::ArrayRef<Operation *> members,
                  llvm::ArrayRef<Value> results, Operation *at) {
  llvm::SetVector<Value> reads;
  llvm::SmallVector<Location> locations;
  llvm::SmallVector<llvm::StringRef> kinds;
  for (Operation *op : members) {
    locations.push_back(op->getLoc());
    kinds.push_back(op->getName().stripDialect());
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(members, operand.getDefiningOp()))
        reads.insert(operand);
  }
  OpBuilder builder(at);
  Location loc = FusedLoc::get(at->getContext(), locations);
  auto product = spmd::ProductOp::create(
      builder, loc, ValueRange(results).getTypes(), reads.getArrayRef());
  if (PhaseAttr phase = getPhase(members.front()))
    product->setAttr(kPhaseAttrName, phase);
  product->setAttr(kKindAttrName,
                   builder.getStringAttr(llvm::join(kinds, "+")));
  Block &body = product.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value read : reads)
    mapping.map(read, body.addArgument(read.getType(), read.getLoc()));
  builder.setInsertionPointToStart(&body);
  for (Operation *op : members)
    builder.clone(*op, mapping);
  llvm::SmallVector<Value> yields;
  for (Value result : results)
    yields.push_back(mapping.lookup(result));
  spmd::YieldOp::create(builder, loc, yields);
  for (auto [old, made] : llvm::zip_equal(results, product.getResults()))
    Value(old).replaceAllUsesWith(made);
  for (Operation *op : llvm::reverse(members))
    if (op->use_empty()) // scalars may have other readers
      op->erase();
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

static bool isF32Scalar(Value value) {
  return typeOf(value).getRank() == 0 && elementOf(value).isF32();
}

/// Collects the ops from f32 powers of two to the scalar `scale`, casts and
/// products of scalars, in the order of their edges, and counts those powers.
/// False where `scale` is something else.
static bool collectScale(Value scale, Block *block,
                         llvm::SetVector<Operation *> &ops, int &powers) {
  Operation *def = scale.getDefiningOp();
  if (isF32Scalar(scale) && isPowerOfTwo(scale) && !isConversion(def)) {
    ++powers;
    return true;
  }
  if ((!isConversion(def) && !isa_and_nonnull<MulOp>(def)) ||
      def->getBlock() != block || typeOf(scale).getRank() != 0 ||
      (isConversion(def) && !keepsPowers(def)))
    return false;
  for (Value operand : def->getOperands())
    if (!collectScale(operand, block, ops, powers))
      return false;
  ops.insert(def);
  return true;
}

/// A product by units joins the product that makes it. Scalars that others read
/// as well are computed for them outside, too.
static void fuseScale(MulOp mul, bool wide) {
  Operation *product = mul.getLhs().getDefiningOp();
  Operation *factor = mul.getRhs().getDefiningOp();
  if (!isLibraryMatmul(product) || product->getBlock() != mul->getBlock() ||
      !mul.getLhs().hasOneUse() || !isView(factor, ViewKind::Repeat) ||
      !viewOf(factor)->dims.empty() || product->getNumOperands() != 2 ||
      (!wide && !llvm::all_of(product->getOperandTypes(), isFloat8)))
    return;
  std::optional<MatmulForm> form = getMatmulForm(product);
  llvm::SetVector<Operation *> scalars;
  int powers = 0;
  if (!form || form->batch != 1 ||
      !collectScale(factor->getOperand(0), mul->getBlock(), scalars, powers) ||
      powers > 2)
    return;
  llvm::SmallVector<Operation *> members = {product};
  llvm::append_range(members, scalars);
  members.push_back(factor);
  members.push_back(mul);
  build(members, {mul.getResult()}, mul);
}

//===----------------------------------------------------------------------===//
// The epilogues
//===----------------------------------------------------------------------===//

/// A gelu joins the product that it is of. What the product makes is a second
/// result if others read it: the backward pass.
static void fuseGelu(GeluOp gelu) {
  Operation *product = gelu.getX().getDefiningOp();
  std::optional<MatmulForm> form = formOf(product);
  if (!form || product->getBlock() != gelu->getBlock() ||
      gelu.getKind() != GeluKind::Tanh || !hasOneType(product) ||
      isReadByKernel(gelu.getResult(), {}))
    return;
  llvm::SmallVector<Value> results = {gelu.getResult()};
  if (!gelu.getX().hasOneUse()) {
    if (!fitsSecondMatrix(form->n))
      return;
    results.push_back(gelu.getX());
  }
  build({product, gelu}, results, product);
}

/// The sum of the rows of `value`, without a cast, where it is the only kernel
/// that reads them; or null.
static ReduceOp soleRowSum(Value value) {
  ReduceOp found;
  for (Operation *user : value.getUsers())
    if (auto reduce = dyn_cast<ReduceOp>(user);
        reduce && isRowSum(reduce) &&
        reduce->getBlock() == value.getParentBlock() &&
        (!found || reduce->isBeforeInBlock(found)))
      found = reduce;
  return found;
}

/// The gradient of a gelu joins the product that makes the gradient of its
/// result, and the sum of its rows joins both.
static void fuseGeluBackward(GeluBackwardOp backward) {
  Operation *product = backward.getDy().getDefiningOp();
  std::optional<MatmulForm> form = formOf(product);
  if (!form || product->getBlock() != backward->getBlock() ||
      backward.getKind() != GeluKind::Tanh || !hasOneType(product) ||
      product->getNumOperands() > 2 || !backward.getDy().hasOneUse() ||
      !fitsSecondMatrix(form->n))
    return;
  // The library sums columns of the matrix, which may hold several dimensions.
  bool hasRows = form->n == typeOf(backward.getResult()).getShape().back();
  ReduceOp sum = hasRows ? soleRowSum(backward.getResult()) : ReduceOp();
  llvm::SmallVector<Operation *> members = {product, backward}, sums;
  llvm::SmallVector<Value> results = {backward.getResult()};
  if (sum) {
    members.push_back(sum);
    results.push_back(sum.getResult());
    sums.push_back(sum);
  }
  for (Operation *user : backward->getUsers())
    if (isConversion(user) && user->hasOneUse() &&
        isa<ReduceOp>(*user->user_begin()))
      sums.push_back(user); // a sum of rows that another product may take
  if (!isReadByKernel(backward.getResult(), sums))
    build(members, results, backward);
}

/// The first product in `block` that adds up over the rows of `value`, and can
/// give their sum as `type`; or null.
static Operation *findProductOver(Value value, Type type, Block *block) {
  Operation *found = nullptr; // users come in any order
  for (Operation *user : value.getUsers()) {
    std::optional<MatmulForm> form = formOf(user);
    if (!form || user->getBlock() != block || user->getNumOperands() != 2 ||
        user->getOperand(0) == user->getOperand(1) ||
        elementOf(user->getOperand(0)) != elementOf(user->getOperand(1)) ||
        elementOf(user->getResult(0)) != type)
      continue;
    unsigned operand = user->getOperand(0) == value ? 0 : 1;
    if (sumsOverRows(*form, operand, typeOf(value).getShape().back()) &&
        (!found || user->isBeforeInBlock(found)))
      found = user;
  }
  return found;
}

/// A sum of rows, the gradient of a bias, joins the product that makes the
/// gradient of the weight: it reads the same rows.
static void fuseRowSum(ReduceOp reduce) {
  if (!isRowSum(reduce))
    return;
  Operation *conversion = conversionFor(reduce);
  Value rows = conversion ? conversion->getOperand(0) : reduce.getX();
  llvm::SmallVector<Operation *> sums = {reduce};
  if (conversion)
    sums = {conversion, reduce};
  Operation *product =
      findProductOver(rows, elementOf(reduce.getResult()), reduce->getBlock());
  if (!product || isMadeByKernel(rows) || isReadByKernel(rows, sums) ||
      !isReadBehind(reduce.getResult(), product))
    return;
  llvm::SmallVector<Operation *> members = {product};
  members.append(sums);
  build(members, {product->getResult(0), reduce.getResult()}, product);
}

namespace {
struct FuseEpilogues : kerf::impl::FuseEpiloguesPassBase<FuseEpilogues> {
  using FuseEpiloguesPassBase::FuseEpiloguesPassBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<spmd::SpmdDialect>();
  }

  void runOnOperation() override {
    fuseAll<MulOp>([&](MulOp mul) { fuseScale(mul, wideScales); });
    if (gelu)
      fuseAll<GeluOp>(fuseGelu);
    if (gelu)
      fuseAll<GeluBackwardOp>(fuseGeluBackward);
    if (sums)
      fuseAll<ReduceOp>(fuseRowSum);
  }

  template <typename Op> void fuseAll(llvm::function_ref<void(Op)> fuse) {
    llvm::SmallVector<Op> ops;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<spmd::FusedOp, spmd::ProductOp>(op))
        return WalkResult::skip();
      if (auto found = dyn_cast<Op>(op))
        ops.push_back(found);
      return WalkResult::advance();
    });
    LDBG() << ops.size() << " x " << Op::getOperationName()
           << " looked at as the end of a matmul";
    for (Op op : ops)
      fuse(op);
  }
};
} // namespace
