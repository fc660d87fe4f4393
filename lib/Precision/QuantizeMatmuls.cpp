//===- QuantizeMatmuls.cpp - matmuls of layers in 8-bit floats ------------===//
//
// Problem: the matmuls of linear layers, forward and both of their gradients,
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
// block a value has one unit and one copy per order of its dimensions. What a
// backward repeat reads of its forward one has the unit that it had there, as a
// stack of scalars: finding it reads the whole tensor.
//
//   y = linear x w^T + b, x [4,16,32], w [96,32] bf16:
//     u = unit x, v = unit w, z = x8 w8^T for x8 = f8(x / u), w8 = f8(w / v),
//     y = z (u v) + b
//   dw = dy^T x: t = unit dy, dy8 = f8(dy / t), dw = (dy8^T x8) (t u), u from
//     the stack
//
// Cost: one visit per op.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Kerf/Stacks.h"
#include "kerf/Precision/Passes.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <memory>

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_QUANTIZEMATMULSPASS
#include "kerf/Precision/Passes.h.inc"
} // namespace kerf

/// Sizes that tensor cores and cuBLASLt take.
static constexpr int64_t kMultiple = 16;

namespace {
/// A matmul with a letter per dimension.
struct Matmul {
  Value lhs, rhs;
  std::string left, right, out;
  FloatType leftType, rightType;
};

/// An operand on its way to a matmul.
struct Quantized {
  Value value; ///< 8-bit floats
  Value unit;  ///< a scalar of the operand's type
};

/// A tensor, and the type of 8-bit floats whose unit is meant.
using UnitKey = std::pair<void *, void *>;
UnitKey keyOf(Value x, FloatType type) {
  return {x.getAsOpaquePointer(),
          const_cast<void *>(type.getAsOpaquePointer())};
}

/// Rewrites the matmuls of one block.
class BlockQuantizer {
public:
  explicit BlockQuantizer(Block &block) : block(block) {}
  /// Rewrites the linear ops of these numbers and their gradients.
  void run(const llvm::DenseSet<int64_t> &linears);
  /// The `kerf.unit` of a value of this block, or null.
  Value unitFound(Value x, FloatType type) const {
    return found.lookup_or(keyOf(x, type), Value());
  }
  /// Lets a value's unit be read from here, as f32.
  void setUnit(Value x, FloatType type, Value unit) {
    given[keyOf(x, type)] = unit;
  }

private:
  void rewrite(Operation *op, const Matmul &matmul, Value bias);
  Quantized quantize(PlainBuilder &p, Value x, FloatType type,
                     llvm::ArrayRef<int64_t> perm);
  Value unitOf(PlainBuilder &p, Value x, FloatType type);

  Block &block;
  llvm::DenseMap<UnitKey, Value> found, given; ///< f32
  std::map<UnitKey, Value> units, inverses;
  std::map<std::pair<UnitKey, std::vector<int64_t>>, Value> copies;
};
} // namespace

//===----------------------------------------------------------------------===//
// Choosing
//===----------------------------------------------------------------------===//

static bool fits(int64_t size) { return size % kMultiple == 0; }

/// True for a linear op of bf16 whose three matmuls all have sizes
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

/// The unit of `x`, as a scalar of its element type. One that is read from a
/// stack is rounded to a power of two, which it is: so matmuls know it.
Value BlockQuantizer::unitOf(PlainBuilder &p, Value x, FloatType type) {
  Value &unit = units[keyOf(x, type)];
  if (unit)
    return unit;
  Value whole;
  if (Value known = given.lookup(keyOf(x, type)))
    whole = PowerOfTwoOp::create(p.builder, p.loc, known);
  else
    whole = found[keyOf(x, type)] =
        UnitOp::create(p.builder, p.loc, x, TypeAttr::get(type));
  return unit = p.cast(whole, typeOf(x).getElementType());
}

/// `x` with its dimensions in the order `perm`, in its unit.
Quantized BlockQuantizer::quantize(PlainBuilder &p, Value x, FloatType type,
                                   llvm::ArrayRef<int64_t> perm) {
  Value unit = unitOf(p, x, type);
  UnitKey key = keyOf(x, type);
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
static std::string summedLetters(const Matmul &matmul) {
  std::string summed;
  for (char letter : matmul.left)
    if (llvm::StringRef(matmul.out).find(letter) == llvm::StringRef::npos)
      summed += letter;
  return summed;
}

void BlockQuantizer::rewrite(Operation *op, const Matmul &matmul, Value bias) {
  OpBuilder builder(op);
  PlainBuilder p{builder, op->getLoc()};
  Operation *before = op->getPrevNode();
  std::string summed = summedLetters(matmul);
  auto [leftPerm, left] = summedLast(matmul.left, summed);
  auto [rightPerm, right] = summedLast(matmul.right, summed);
  Quantized a = quantize(p, matmul.lhs, matmul.leftType, leftPerm);
  Quantized b = quantize(p, matmul.rhs, matmul.rightType, rightPerm);
  auto type = typeOf(op->getResult(0));
  Value y = p.einsum(left + "," + right + "->" + matmul.out, a.value, b.value,
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

static Matmul matmulOf(LinearOp linear) {
  auto type = Float8E4M3FNType::get(linear.getContext());
  std::string rows = leadingLabels(typeOf(linear.getX()).getRank() - 1);
  return {linear.getX(), linear.getWeight(),
          rows + "k",    linear.getTransposed() ? "kn" : "nk",
          rows + "n",    type,
          type};
}

/// Of a gradient, whose first operand is that of the layer's result.
static Matmul matmulOf(EinsumOp einsum) {
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
      rewrite(linear, matmulOf(linear), linear.getBias());
    else if (auto einsum = dyn_cast<EinsumOp>(op))
      rewrite(einsum, matmulOf(einsum), {});
  }
}

//===----------------------------------------------------------------------===//
// Units that are kept
//===----------------------------------------------------------------------===//

/// What a backward repeat has of its forward one: values that are stacked for
/// it, and weights; as the backward one names them and as the forward one does.
static llvm::SmallVector<std::pair<Value, Value>> sharedBy(RepeatOp forward,
                                                           RepeatOp backward) {
  llvm::SmallVector<std::pair<Value, Value>> shared;
  auto stacks = forward.getStackResults();
  for (auto [arg, stack] :
       llvm::zip(backward.getSliceArgs(), backward.getSlices()))
    if (auto at = llvm::find(stacks, stack); at != stacks.end())
      shared.push_back(
          {arg, forward.getYield().getStacked()[at - stacks.begin()]});
  llvm::DenseMap<llvm::StringRef, Value> weights;
  for (auto param : forward.getBody().getOps<ParamOp>())
    weights[param.getName()] = param;
  for (auto param : backward.getBody().getOps<ParamOp>())
    if (Value own = weights.lookup(param.getName()))
      shared.push_back({param, own});
  return shared;
}

/// Gives a backward repeat the units that the forward one found.
static void keepUnits(RepeatOp &forward, const BlockQuantizer &found,
                      RepeatOp backward, BlockQuantizer &to) {
  auto type = Float8E4M3FNType::get(forward.getContext());
  llvm::SmallVector<Value> units, readers;
  for (auto [x, own] : sharedBy(forward, backward))
    if (Value unit = found.unitFound(own, type)) {
      units.push_back(unit);
      readers.push_back(x);
    }
  if (units.empty())
    return;
  forward = addStacks(forward, units);
  auto added = forward.getStackResults().take_back(units.size());
  for (auto [x, stack] : llvm::zip(readers, added))
    to.setUnit(x, type, addSlice(backward, stack));
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// The matmul, of the ops that a linear op became.
static bool keepsNumber(Operation *op, const llvm::DenseSet<int64_t> &linears) {
  return !linears.contains(getPhase(op).getOp()) ||
         isCall(op, LibraryCall::Matmul);
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

/// Rewrites forward repeats before those that are paired with them.
static void rewriteRepeats(ModelOp model,
                           const llvm::DenseSet<int64_t> &linears) {
  llvm::DenseMap<int64_t, std::pair<RepeatOp, std::unique_ptr<BlockQuantizer>>>
      forward; // by number
  for (RepeatOp repeat :
       llvm::make_early_inc_range(model.getBody().getOps<RepeatOp>())) {
    auto own = std::make_unique<BlockQuantizer>(repeat.getBody().front());
    PhaseAttr phase = getPhase(repeat);
    auto pair = forward.find(phase ? phase.getOp() : -1);
    bool isForward = phase && phase.getKind() == PhaseKind::Forward;
    if (!isForward && pair != forward.end())
      keepUnits(pair->second.first, *pair->second.second, repeat, *own);
    own->run(linears);
    if (isForward)
      forward[phase.getOp()] = {repeat, std::move(own)};
  }
}

namespace {
struct QuantizeMatmulsPass
    : public kerf::impl::QuantizeMatmulsPassBase<QuantizeMatmulsPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      llvm::DenseSet<int64_t> linears = findLinears(model);
      rewriteRepeats(model, linears);
      if (!linears.empty())
        renumber(model, linears);
    }
  }
};
} // namespace
