//===- QuantizeProducts.cpp - products of layers in 8-bit floats ----------===//
//
// Problem: the products of linear layers, forward and both of their gradients,
// shall multiply 8-bit floats, which tensor cores do at twice the rate of bf16.
//
// Idea (Micikevicius et al. 2022, "FP8 Formats for Deep Learning"; scaled as
// NVIDIA Transformer Engine's current scaling): an operand is divided by a unit
// so that its largest magnitude just fits, rounded, and the result multiplied
// by the units of both. f8E4M3FN has more digits, f8E5M2 more range, which the
// gradients of activations need. Units are powers of two: dividing and
// multiplying by them is exact, in bf16 too, so a number has the same digits
// under any unit, unless it is too small for it.
//
// Steps, for each linear op of a repeat and the einsums that its number as
// their phase marks as its gradients: quantise both operands, each dimension
// that is summed last, in one order; multiply; scale; add the bias. Within a
// block a value has one unit and one copy per order of its dimensions.
//
//   y = linear x w^T + b, x [4,16,32], w [96,32] bf16:
//     u = unit x, v = unit w, z = x8 w8^T for x8 = f8(x / u), w8 = f8(w / v),
//     y = z (u v) + b
//
// Cost: one visit per op.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Precision/Passes.h"

#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_QUANTIZEPRODUCTSPASS
#include "kerf/Precision/Passes.h.inc"
} // namespace kerf

/// Sizes that tensor cores and cuBLASLt take.
static constexpr int64_t kMultiple = 16;

namespace {
/// A product of two tensors with a letter per dimension.
struct Product {
  Value lhs, rhs;
  std::string left, right, out;
  FloatType leftType, rightType;
};

/// An operand on its way to a product.
struct Quantized {
  Value value; ///< 8-bit floats
  Value unit;  ///< a scalar of the operand's type
};

/// Rewrites the products of one block.
class BlockQuantizer {
public:
  explicit BlockQuantizer(Block &block) : block(block) {}
  /// Rewrites the linear ops of these numbers and their gradients.
  void run(const llvm::DenseSet<int64_t> &linears);

private:
  void rewrite(Operation *op, const Product &product, Value bias);
  Quantized quantize(PlainBuilder &p, Value x, FloatType type,
                     llvm::ArrayRef<int64_t> perm);
  Value unitOf(PlainBuilder &p, Value x, FloatType type);

  Block &block;
  using Key = std::pair<void *, void *>; ///< value, type
  std::map<Key, Value> units, inverses;
  std::map<std::pair<Key, std::vector<int64_t>>, Value> copies;
};
} // namespace

//===----------------------------------------------------------------------===//
// Choosing
//===----------------------------------------------------------------------===//

static bool fits(int64_t size) { return size % kMultiple == 0; }

/// True for a linear op of bf16 whose three products all have sizes
/// that fit: rows, inputs and outputs.
static bool canQuantize(LinearOp linear) {
  auto x = typeOf(linear.getX()), y = typeOf(linear.getResult());
  int64_t inputs = x.getShape().back();
  if (!x.getElementType().isBF16() ||
      typeOf(linear.getWeight()).getElementType() != x.getElementType() ||
      y.getElementType() != x.getElementType())
    return false;
  return fits(inputs) && fits(y.getShape().back()) &&
         fits(x.getNumElements() / std::max<int64_t>(inputs, 1));
}

/// Numbers of the linear ops of repeated layers that are quantised.
static llvm::DenseSet<int64_t> findLinears(ModelOp model) {
  llvm::DenseSet<int64_t> numbers;
  model.getBody().walk([&](LinearOp linear) {
    PhaseAttr phase = getPhase(linear);
    if (phase && phase.getKind() == PhaseKind::Forward &&
        linear->getParentOfType<RepeatOp>() && canQuantize(linear))
      numbers.insert(phase.getOp());
  });
  return numbers;
}

//===----------------------------------------------------------------------===//
// Quantising
//===----------------------------------------------------------------------===//

/// The unit of `x`, as a scalar of its element type.
Value BlockQuantizer::unitOf(PlainBuilder &p, Value x, FloatType type) {
  Value &unit = units[{x.getAsOpaquePointer(),
                       const_cast<void *>(type.getAsOpaquePointer())}];
  if (!unit)
    unit = p.cast(UnitOp::create(p.builder, p.loc, x, TypeAttr::get(type)),
                  typeOf(x).getElementType());
  return unit;
}

/// `x` with its dimensions in the order `perm`, in its unit.
Quantized BlockQuantizer::quantize(PlainBuilder &p, Value x, FloatType type,
                                   llvm::ArrayRef<int64_t> perm) {
  Value unit = unitOf(p, x, type);
  Key key = {x.getAsOpaquePointer(),
             const_cast<void *>(type.getAsOpaquePointer())};
  Value &copy = copies[{key, perm.vec()}];
  if (copy)
    return {copy, unit};
  Value &inverse = inverses[key];
  if (!inverse)
    inverse = p.div(1.0, unit);
  Value ordered = llvm::is_sorted(perm) ? x : p.transpose(x, perm);
  Value factor = p.broadcast(inverse, {}, typeOf(ordered).getShape());
  copy = p.cast(p.mul(ordered, factor), type);
  return {copy, unit};
}

/// The dimensions named `letters` with those of `summed` last, as indices, and
/// the letters in that order.
static std::pair<llvm::SmallVector<int64_t>, std::string>
summedLast(llvm::StringRef letters, llvm::StringRef summed) {
  llvm::SmallVector<int64_t> perm;
  std::string ordered;
  for (char letter : letters)
    if (!summed.contains(letter))
      ordered += letter;
  ordered += summed;
  for (char letter : ordered)
    perm.push_back(letters.find(letter));
  return {perm, ordered};
}

/// Letters of both operands that the result lacks.
static std::string summedLetters(const Product &product) {
  std::string summed;
  for (char letter : product.left)
    if (llvm::StringRef(product.out).find(letter) == llvm::StringRef::npos)
      summed += letter;
  return summed;
}

void BlockQuantizer::rewrite(Operation *op, const Product &product,
                             Value bias) {
  OpBuilder builder(op);
  PlainBuilder p{builder, op->getLoc()};
  Operation *before = op->getPrevNode();
  std::string summed = summedLetters(product);
  auto [leftPerm, left] = summedLast(product.left, summed);
  auto [rightPerm, right] = summedLast(product.right, summed);
  Quantized a = quantize(p, product.lhs, product.leftType, leftPerm);
  Quantized b = quantize(p, product.rhs, product.rightType, rightPerm);
  auto type = typeOf(op->getResult(0));
  Value y = p.einsum(left + "," + right + "->" + product.out, a.value, b.value,
                     type.getElementType());
  Value unit = p.cast(p.mul(a.unit, b.unit), type.getElementType());
  y = p.mul(y, p.broadcast(unit, {}, type.getShape()));
  if (bias)
    y = p.add(y, p.columns(bias, type.getShape()));
  Operation *first = before ? before->getNextNode() : &block.front();
  for (Operation &made :
       llvm::make_range(first->getIterator(), op->getIterator()))
    made.setAttr(kPhaseAttrName, getPhase(op));
  op->getResult(0).replaceAllUsesWith(y);
  op->erase();
}

//===----------------------------------------------------------------------===//
// Walking
//===----------------------------------------------------------------------===//

static Product productOf(LinearOp linear) {
  auto type = Float8E4M3FNType::get(linear.getContext());
  std::string rows = leadingLabels(typeOf(linear.getX()).getRank() - 1);
  return {linear.getX(), linear.getWeight(),
          rows + "k",    linear.getTransposed() ? "kn" : "nk",
          rows + "n",    type,
          type};
}

/// Of a gradient, whose first operand is that of the layer's result.
static Product productOf(EinsumOp einsum) {
  auto [terms, out] = einsum.getEquation().split("->");
  auto [left, right] = terms.split(',');
  return {einsum.getLhs(),
          einsum.getRhs(),
          left.str(),
          right.str(),
          out.str(),
          Float8E5M2Type::get(einsum.getContext()),
          Float8E4M3FNType::get(einsum.getContext())};
}

void BlockQuantizer::run(const llvm::DenseSet<int64_t> &linears) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    PhaseAttr phase = getPhase(&op);
    if (!phase || !linears.contains(phase.getOp()))
      continue;
    if (auto linear = dyn_cast<LinearOp>(op))
      rewrite(linear, productOf(linear), linear.getBias());
    else if (auto einsum = dyn_cast<EinsumOp>(op))
      rewrite(einsum, productOf(einsum), {});
  }
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// The product, of the ops that a linear op became.
static bool keepsNumber(Operation *op, const llvm::DenseSet<int64_t> &linears) {
  return !linears.contains(getPhase(op).getOp()) || isa<EinsumOp>(op);
}

/// Numbers the forward ops anew, in order: each op has a number of its own, by
/// which it is computed again or planned. Gradients follow.
static void renumber(ModelOp model, const llvm::DenseSet<int64_t> &linears) {
  llvm::DenseMap<int64_t, int64_t> numbers;
  int64_t next = 0;
  auto forEach = [&](bool forward, auto fn) {
    model.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      PhaseAttr phase = getPhase(op);
      if (phase && (phase.getKind() == PhaseKind::Forward) == forward &&
          phase.getOp() >= 0)
        fn(op, phase);
    });
  };
  auto set = [&](Operation *op, PhaseAttr phase, int64_t number) {
    op->setAttr(kPhaseAttrName,
                PhaseAttr::get(op->getContext(), phase.getKind(), number));
  };
  forEach(true, [&](Operation *op, PhaseAttr phase) {
    if (keepsNumber(op, linears))
      numbers[phase.getOp()] = next;
    set(op, phase, next++);
  });
  forEach(false, [&](Operation *op, PhaseAttr phase) {
    set(op, phase, numbers.lookup_or(phase.getOp(), phase.getOp()));
  });
  for (RepeatOp repeat : model.getBody().getOps<RepeatOp>())
    if (std::optional<int64_t> pair = repeat.getPair())
      repeat.setPair(numbers.lookup_or(*pair, *pair));
}

namespace {
struct QuantizeProductsPass
    : public kerf::impl::QuantizeProductsPassBase<QuantizeProductsPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      llvm::DenseSet<int64_t> linears = findLinears(model);
      for (RepeatOp repeat : model.getBody().getOps<RepeatOp>())
        BlockQuantizer(repeat.getBody().front()).run(linears);
      if (!linears.empty())
        renumber(model, linears);
    }
  }
};
} // namespace
