//===- MuonRule.cpp - the update rule of Muon -----------------------------===//
//
// Problem: the momentum x, with its singular values replaced by numbers near 1.
// Idea: an odd polynomial of x, a x + b G x + c G G x with G = x x^T, maps each
// singular value by itself; repeated, it brings all from (0, 1] near 1.
// Steps, for the side of G whose matmuls sum over the other dimension:
//   G = x x^T (summed over ranks), P = a I + b G + c G G, x <- P x;
// or, of a part that is shorter than G,
//   x <- a x + G (b x + c G x).
// The first step divides by the norm, whose square is the trace of G:
// with s = 1 / |x| it has s^2 G in place of G, and makes s x of what it has.
// Cost: a step has 4 k^2 l + 2 k^3 flops, k being the side of G, l the other;
// or 6 k^2 l.
// Example: one step of x = [2 0] of a = 2, b = -1, c = 0 has G = [4], s = 1/2,
// P = 1/2 (2 - 4/4) = 1/2 and x = [1 0].
// Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon.
//
//===----------------------------------------------------------------------===//

#include "UpdateFormulas.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

namespace {
/// The steps of Newton and Schulz on matrices `x`, the last two dimensions.
struct Orthogonalization {
  PlainBuilder &p;
  UpdateSums &sums;
  MuonAttr rule;
  bool onRows;       ///< G has a row per row of x
  bool isShort;      ///< x has fewer numbers than G
  std::string stack; ///< letters of the leading dimensions

  Orthogonalization(PlainBuilder &p, UpdateSums &sums, MuonAttr rule,
                    llvm::ArrayRef<int64_t> part);

  Value matmul(llvm::StringRef a, llvm::StringRef b, Value x, Value y) {
    std::string equation =
        stack + a.str() + "," + stack + b.str() + "->" + stack + "mn";
    return p.einsum(equation, x, y);
  }
  /// G of all ranks.
  Value gram(Value x) {
    Value own = onRows ? matmul("mk", "nk", x, x) : matmul("km", "kn", x, x);
    return sums.total(own, {onRows ? 1 : 2});
  }
  /// A number of each matrix, to all elements.
  Value spread(Value x, llvm::ArrayRef<int64_t> shape) {
    return p.broadcast(x, dimRange(0, int64_t(stack.size())), shape);
  }
  /// The matmul of G, or of what is made of it, and x.
  Value apply(Value factor, Value x) {
    return onRows ? matmul("mk", "kn", factor, x)
                  : matmul("mk", "kn", x, factor);
  }
  Value identity(RankedTensorType type);
  Value scaleOf(Value gram);
  Value step(Value x, bool isFirst);
};
} // namespace

/// Sums over ranks are for the dimension that is sharded; else G is small.
Orthogonalization::Orthogonalization(PlainBuilder &p, UpdateSums &sums,
                                     MuonAttr rule,
                                     llvm::ArrayRef<int64_t> part)
    : p(p), sums(sums), rule(rule) {
  auto own = part.take_back(2), whole = sums.shape().take_back(2);
  bool isSharded = own != whole;
  onRows = isSharded ? own[0] == whole[0] : whole[0] <= whole[1];
  isShort = onRows ? own[1] < own[0] : own[0] < own[1];
  for (size_t i = 2; i < part.size(); ++i)
    stack += char('a' + i - 2);
}

Value Orthogonalization::identity(RankedTensorType type) {
  int64_t last = type.getRank() - 1;
  Value row = p.iota(type.getShape(), last - 1);
  Value column = p.iota(type.getShape(), last);
  return p.indicator(p.compare(CompareKind::EQ, row, column),
                     type.getElementType());
}

/// 1 / max(|x|, eps) of each matrix.
Value Orthogonalization::scaleOf(Value gram) {
  auto type = typeOf(gram);
  int64_t rank = type.getRank();
  // All ranks have all of it. Kernels that need it read it.
  Value trace = sums.sum(p.mul(gram, identity(type)), {rank - 2, rank - 1}, {});
  return p.div(1.0, p.max(p.sqrt(trace), rule.getEps()));
}

Value Orthogonalization::step(Value x, bool isFirst) {
  Value gram = this->gram(x), scale;
  auto type = typeOf(gram);
  if (isFirst) {
    scale = scaleOf(gram);
    Value all = spread(scale, type.getShape());
    gram = p.mul(p.mul(gram, all), all);
  }
  auto scaled = [&](Value value) {
    return isFirst ? p.mul(value, spread(scale, typeOf(value).getShape()))
                   : value;
  };
  if (isShort) {
    Value sum =
        p.add(p.mul(x, rule.getB()), p.mul(apply(gram, x), rule.getC()));
    return scaled(p.add(p.mul(x, rule.getA()), apply(gram, sum)));
  }
  Value square = matmul("mk", "kn", gram, gram);
  Value sum = p.add(p.mul(gram, rule.getB()), p.mul(square, rule.getC()));
  return apply(scaled(p.add(sum, p.mul(identity(type), rule.getA()))), x);
}

//===----------------------------------------------------------------------===//
// The rule
//===----------------------------------------------------------------------===//

/// Matmuls are of whole rows or columns.
bool MuonAttr::mixesElements() const { return true; }

int64_t MuonAttr::getGramSteps() const { return getSteps(); }

llvm::StringRef MuonAttr::misfit(RankedTensorType param,
                                 llvm::ArrayRef<int64_t> part) const {
  if (param.getRank() != 2 && param.getRank() != 3)
    return "matrices and stacks of them";
  auto whole = param.getShape().take_back(2), own = part.take_back(2);
  if (own[0] != whole[0] && own[1] != whole[1])
    return "matrices that are split along one dimension";
  return "";
}

llvm::SmallVector<StateTensor> MuonAttr::getStates(RankedTensorType) const {
  return {{"momentum"}};
}

/// Of a whole matrix of r rows and c columns.
static double rateFactor(MuonRate kind, double r, double c) {
  return kind == MuonRate::Original ? std::sqrt(std::max(1.0, r / c))
                                    : 0.2 * std::sqrt(std::max(r, c));
}

llvm::SmallVector<Value> MuonAttr::buildUpdate(OpBuilder &builder, Location loc,
                                               Value param, Value gradient,
                                               ValueRange state, Value rate,
                                               Value, UpdateSums &sums) const {
  PlainBuilder p{builder, loc};
  llvm::ArrayRef<int64_t> shape = typeOf(param).getShape();
  Value momentum = average(p, getMomentum(), state[0], gradient);
  Value x =
      getNesterov() ? average(p, getMomentum(), momentum, gradient) : momentum;
  Orthogonalization steps(p, sums, *this, shape);
  for (int64_t i = 0; i < getSteps(); ++i)
    x = steps.step(x, /*isFirst=*/i == 0);
  auto whole = sums.shape().take_back(2);
  double factor = rateFactor(getAdjust(), double(whole[0]), double(whole[1]));
  Value rates = p.broadcast(p.mul(rate, factor), {}, shape);
  Value kept = decayed(p, param, rate, getWeightDecay());
  return {p.sub(kept, p.mul(rates, x)), momentum};
}

Attribute MuonAttr::withWeightDecay(double decay) const {
  return MuonAttr::get(getContext(), getMomentum(), getNesterov(), getSteps(),
                       getA(), getB(), getC(), getEps(), getAdjust(), decay);
}
