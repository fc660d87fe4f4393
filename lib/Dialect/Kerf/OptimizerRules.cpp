//===- OptimizerRules.cpp - update rules of optimizers --------------------===//
//
// Formulas of plain ops. State in 8 bits is worked on as rows, one per block,
// so that the largest magnitude of a block is that of a row and the whole
// update is one kernel.
//
//===----------------------------------------------------------------------===//

#include "UpdateFormulas.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

namespace {
/// The numbers of AdamW, and one of its updates.
struct AdamStep {
  PlainBuilder &p;
  double beta1, beta2, eps, weightDecay;
  Value m{}, v{}; ///< of the parameter's shape

  /// New m and v from the old ones.
  void average(Value gradient) {
    m = kerf::average(p, beta1, m, gradient);
    v = kerf::average(p, beta2, v, p.mul(gradient, gradient));
  }
  /// The parameter after a step by m and v.
  Value updated(Value param, Value rate, Value step);
};
} // namespace

Value AdamStep::updated(Value param, Value rate, Value step) {
  llvm::ArrayRef<int64_t> shape = typeOf(param).getShape();
  // 1 - beta^t in f64: the first steps leave few digits of it in f32.
  Value steps = p.cast(step, p.builder.getF64Type());
  auto correction = [&](double beta) {
    Value decay = p.pow(p.constant(steps.getType(), beta), steps);
    return p.cast(p.sub(1.0, decay), typeOf(step).getElementType());
  };
  Value root = p.broadcast(p.sqrt(correction(beta2)), {}, shape);
  Value scale = p.broadcast(p.div(rate, correction(beta1)), {}, shape);
  Value denominator = p.add(p.div(p.sqrt(v), root), eps);
  Value kept = decayed(p, param, rate, weightDecay);
  return p.sub(kept, p.mul(scale, p.div(m, denominator)));
}

//===----------------------------------------------------------------------===//
// AdamW
//===----------------------------------------------------------------------===//

llvm::SmallVector<StateTensor> AdamWAttr::getStates(RankedTensorType) const {
  return {{"m"}, {"v"}};
}

llvm::SmallVector<Value>
AdamWAttr::buildUpdate(OpBuilder &builder, Location loc, Value param,
                       Value gradient, ValueRange state, Value rate, Value step,
                       UpdateSums &) const {
  PlainBuilder p{builder, loc};
  AdamStep adam{p,        getBeta1(), getBeta2(), getEps(), getWeightDecay(),
                state[0], state[1]};
  adam.average(gradient);
  return {adam.updated(param, rate, step), adam.m, adam.v};
}

Attribute AdamWAttr::withWeightDecay(double decay) const {
  return AdamWAttr::get(getContext(), getBeta1(), getBeta2(), getEps(), decay);
}

//===----------------------------------------------------------------------===//
// AdamW with state in 8 bits
//===----------------------------------------------------------------------===//

namespace {
/// The dynamic map of `#kerf.adamw_8bit` for values without or with a sign, of
/// which decade e, [10^(e-7), 10^(e-6)], has 2^(e + first) values. Level l of
/// the map's magnitudes is 0 for l = 0, the values of the decades in ascending
/// order from 1 on, and 1 for l = top.
struct DynamicMap {
  PlainBuilder &p;
  bool isSigned;

  int64_t first() const { return isSigned ? 0 : 1; }
  double top() const { return isSigned ? 128 : 255; }
  double decade(int64_t e) const { return std::pow(10.0, double(e - 7)); }
  double count(int64_t e) const { return double(int64_t(1) << (e + first())); }
  /// The least level of a decade.
  double level(int64_t e) const { return count(e) - double(first()); }

  Value magnitudeOf(Value level);
  Value levelOf(Value magnitude);
  /// Values in [-1, 1] for codes, as numbers, and back.
  Value decode(Value code);
  Value encode(Value x);
};
} // namespace

/// Middle i of the n parts of a decade from d on: d (1 + 9 (i + 1/2) / n).
Value DynamicMap::magnitudeOf(Value level) {
  auto type = typeOf(level);
  Value low = p.constant(type, 0), part = low, before = low;
  for (int64_t e = 0; e < 7; ++e) {
    Value isIn = p.compare(CompareKind::GE, level, this->level(e));
    auto choose = [&](double mine, Value other) {
      return p.select(isIn, p.constant(type, mine), other);
    };
    low = choose(decade(e), low);
    part = choose(9 * decade(e) / count(e), part);
    before = choose(this->level(e) - 0.5, before);
  }
  Value value = p.add(low, p.mul(part, p.sub(level, before)));
  Value isTop = p.compare(CompareKind::GE, level, top());
  return p.select(isTop, p.constant(type, 1), value);
}

/// The level of the nearest value: that of the part of the decade in which the
/// magnitude lies, but near the decades' ends, where distances differ.
Value DynamicMap::levelOf(Value magnitude) {
  auto type = typeOf(magnitude);
  auto firstValue = [&](int64_t e) { return decade(e) * (1 + 4.5 / count(e)); };
  auto lastValue = [&](int64_t e) { return decade(e) * (10 - 4.5 / count(e)); };
  Value zero = p.constant(type, 0);
  Value low = zero, parts = zero, start = zero, most = zero;
  double below = 0; // The largest value below the decade.
  for (int64_t e = 0; e < 7; ++e) {
    Value isIn =
        p.compare(CompareKind::GE, magnitude, (below + firstValue(e)) / 2);
    auto choose = [&](double mine, Value other) {
      return p.select(isIn, p.constant(type, mine), other);
    };
    low = choose(decade(e), low);
    parts = choose(count(e) / (9 * decade(e)), parts);
    start = choose(level(e), start);
    most = choose(count(e) - 1, most);
    below = lastValue(e);
  }
  Value at = p.mul(p.sub(magnitude, low), parts);
  Value part = p.min(p.max(at, 0.0), most);
  Value whole =
      p.cast(p.cast(part, p.builder.getI32Type()), type.getElementType());
  Value isTop = p.compare(CompareKind::GE, magnitude, (below + 1) / 2);
  return p.select(isTop, p.constant(type, top()), p.add(start, whole));
}

Value DynamicMap::decode(Value code) {
  Value isNegative = p.compare(CompareKind::LT, code, 0.0);
  if (!isSigned)
    return magnitudeOf(p.select(isNegative, p.add(code, 256.0), code));
  Value level = p.max(code, p.neg(code)), size = magnitudeOf(level);
  Value isMinus =
      p.logicalAnd(isNegative, p.compare(CompareKind::LT, level, top()));
  return p.select(isMinus, p.neg(size), size);
}

/// Numbers above 127 become codes modulo 256 when they are cast to i8.
Value DynamicMap::encode(Value x) {
  if (!isSigned)
    return levelOf(x);
  Value level = levelOf(p.max(x, p.neg(x)));
  Value isNegative = p.compare(CompareKind::LT, x, 0.0);
  return p.select(isNegative, p.neg(p.min(level, top() - 1)), level);
}

namespace {
/// State in blocks, as rows of a block each.
struct BlockState {
  DynamicMap map;
  llvm::ArrayRef<int64_t> shape; ///< [blocks, block]
  mlir::Type element;            ///< of computed values

  Value load(Value codes, Value largest) {
    PlainBuilder &p = map.p;
    Value code = p.cast(p.reshape(codes, shape), element);
    return p.mul(map.decode(code),
                 p.rows(p.reshape(largest, shape.drop_back()), shape));
  }
  /// Codes, shaped as `codes`, and largest magnitudes, shaped as `largest`.
  std::pair<Value, Value> store(Value x, Value codes, Value largest) {
    PlainBuilder &p = map.p;
    Value most = p.rowMax(map.isSigned ? p.max(x, p.neg(x)) : x);
    Value isZero = p.compare(CompareKind::EQ, most, 0.0);
    Value unit = p.select(isZero, p.constant(most.getType(), 1), most);
    Value code = map.encode(p.div(x, p.rows(unit, shape)));
    // Through i32, of which the lowest 8 bits stay.
    code = p.cast(p.cast(code, p.builder.getI32Type()),
                  typeOf(codes).getElementType());
    return {p.reshape(code, typeOf(codes).getShape()),
            p.reshape(most, typeOf(largest).getShape())};
  }
};
} // namespace

llvm::SmallVector<StateTensor>
AdamW8bitAttr::getStates(RankedTensorType param) const {
  bool hasBlocks = param.getRank() > 0 &&
                   param.getShape().back() % getBlock() == 0 &&
                   param.getNumElements() >= getMinElements();
  if (!hasBlocks)
    return {{"m"}, {"v"}};
  auto code = IntegerType::get(getContext(), 8);
  return {{"m", code},
          {"v", code},
          {"m_max", Type(), getBlock()},
          {"v_max", Type(), getBlock()}};
}

llvm::SmallVector<Value>
AdamW8bitAttr::buildUpdate(OpBuilder &builder, Location loc, Value param,
                           Value gradient, ValueRange state, Value rate,
                           Value step, UpdateSums &) const {
  PlainBuilder p{builder, loc};
  AdamStep adam{p, getBeta1(), getBeta2(), getEps(), getWeightDecay()};
  if (state.size() == 2) {
    adam.m = state[0];
    adam.v = state[1];
    adam.average(gradient);
    return {adam.updated(param, rate, step), adam.m, adam.v};
  }
  auto type = typeOf(param);
  int64_t blocks[] = {type.getNumElements() / getBlock(), getBlock()};
  BlockState m{{p, true}, blocks, type.getElementType()};
  BlockState v{{p, false}, blocks, type.getElementType()};
  adam.m = m.load(state[0], state[2]);
  adam.v = v.load(state[1], state[3]);
  adam.average(p.reshape(gradient, blocks));
  Value updated = adam.updated(p.reshape(param, blocks), rate, step);
  auto [mCodes, mLargest] = m.store(adam.m, state[0], state[2]);
  auto [vCodes, vLargest] = v.store(adam.v, state[1], state[3]);
  return {p.reshape(updated, type.getShape()), mCodes, vCodes, mLargest,
          vLargest};
}

Attribute AdamW8bitAttr::withWeightDecay(double decay) const {
  return AdamW8bitAttr::get(getContext(), getBeta1(), getBeta2(), getEps(),
                            decay, getBlock(), getMinElements());
}

//===----------------------------------------------------------------------===//
// Lion
//===----------------------------------------------------------------------===//

llvm::SmallVector<StateTensor> LionAttr::getStates(RankedTensorType) const {
  return {{"m"}};
}

llvm::SmallVector<Value> LionAttr::buildUpdate(OpBuilder &builder, Location loc,
                                               Value param, Value gradient,
                                               ValueRange state, Value rate,
                                               Value, UpdateSums &) const {
  PlainBuilder p{builder, loc};
  auto type = typeOf(param);
  Value direction = average(p, getBeta1(), state[0], gradient);
  auto indicate = [&](CompareKind kind) {
    return p.indicator(p.compare(kind, direction, 0.0), type.getElementType());
  };
  // Of what is no number the sign is none either: a bad step is seen.
  Value sign =
      p.select(p.compare(CompareKind::NE, direction, direction), direction,
               p.sub(indicate(CompareKind::GT), indicate(CompareKind::LT)));
  Value kept = decayed(p, param, rate, getWeightDecay());
  Value rates = p.broadcast(rate, {}, type.getShape());
  return {p.sub(kept, p.mul(rates, sign)),
          average(p, getBeta2(), state[0], gradient)};
}

Attribute LionAttr::withWeightDecay(double decay) const {
  return LionAttr::get(getContext(), getBeta1(), getBeta2(), decay);
}

//===----------------------------------------------------------------------===//
// Adafactor
//===----------------------------------------------------------------------===//

namespace {
/// One update by Adafactor, of a parameter or a stack of them.
struct AdafactorStep {
  PlainBuilder &p;
  UpdateSums &sums;
  llvm::ArrayRef<int64_t> shape; ///< of the gradient
  int64_t stack;                 ///< its leading dimensions of no parameter

  AdafactorStep(PlainBuilder &p, UpdateSums &sums,
                llvm::ArrayRef<int64_t> shape)
      : p(p), sums(sums), shape(shape),
        stack(int64_t(shape.size()) - int64_t(sums.shape().size())) {}

  /// Mean of `x` over `dims`, which are the parameter's `of`.
  Value mean(Value x, llvm::ArrayRef<int64_t> dims,
             llvm::ArrayRef<int64_t> of) {
    double count = 1;
    for (int64_t dim : of)
      count *= double(sums.shape()[sums.shape().size() - dim]);
    Value sum = sums.sum(x, dims, of);
    return p.div(sum, p.constant(sum.getType(), count));
  }
  /// Root mean square of each parameter.
  Value rms(Value x) {
    llvm::SmallVector<int64_t> dims = dimRange(stack, int64_t(shape.size()));
    auto of = llvm::map_to_vector(
        dims, [&](int64_t dim) { return int64_t(shape.size()) - dim; });
    return p.sqrt(mean(p.mul(x, x), dims, of));
  }
  /// A number of each parameter, to all its elements.
  Value spread(Value x) { return p.broadcast(x, dimRange(0, stack), shape); }
  /// `old + part (now - old)`.
  Value moved(Value old, Value now, Value part) {
    Value parts = p.broadcast(part, {}, typeOf(old).getShape());
    return p.add(old, p.mul(parts, p.sub(now, old)));
  }
};
} // namespace

/// As rules without sums: pieces would need other ranks' elements.
bool AdafactorAttr::mixesElements() const { return true; }

llvm::SmallVector<StateTensor>
AdafactorAttr::getStates(RankedTensorType param) const {
  if (param.getRank() < 2)
    return {{"variance"}};
  return {{"row_var", Type(), 1, /*without=*/1},
          {"col_var", Type(), 1, /*without=*/2}};
}

llvm::SmallVector<Value>
AdafactorAttr::buildUpdate(OpBuilder &builder, Location loc, Value param,
                           Value gradient, ValueRange state, Value rate,
                           Value step, UpdateSums &sums) const {
  PlainBuilder p{builder, loc};
  llvm::ArrayRef<int64_t> shape = typeOf(param).getShape();
  AdafactorStep a(p, sums, shape);
  Value steps = p.cast(step, builder.getF64Type());
  Type element = typeOf(step).getElementType();
  Value part = p.cast(
      p.pow(steps, p.constant(steps.getType(), getBeta2Decay())), element);
  Value length = p.min(rate, p.cast(p.rsqrt(steps), element));
  Value squares = p.mul(gradient, gradient), variance;
  llvm::SmallVector<Value> after;
  int64_t last = int64_t(shape.size()) - 1;
  if (state.size() == 1) {
    variance = a.moved(state[0], squares, part);
    after = {variance};
  } else {
    Value rows = a.moved(state[0], a.mean(squares, {last}, {1}), part);
    Value columns = a.moved(state[1], a.mean(squares, {last - 1}, {2}), part);
    Value most = p.max(a.mean(rows, {last - 1}, {2}), getEps1());
    Value shares = p.div(rows, p.rows(most, typeOf(rows).getShape()));
    llvm::SmallVector<int64_t> kept = dimRange(0, last - 1);
    kept.push_back(last);
    variance = p.mul(p.rows(shares, shape), p.broadcast(columns, kept, shape));
    after = {rows, columns};
  }
  Value update =
      p.mul(gradient, p.rsqrt(p.max(variance, getEps1() * getEps1())));
  Value size = p.max(a.rms(param), getEps2());
  Value clipped = p.max(p.mul(a.rms(update), 1 / getClip()), 1.0);
  Value scale = p.mul(p.broadcast(length, {}, typeOf(size).getShape()),
                      p.div(size, clipped));
  Value kept = decayed(p, param, rate, getWeightDecay());
  after.insert(after.begin(), p.sub(kept, p.mul(a.spread(scale), update)));
  return after;
}

Attribute AdafactorAttr::withWeightDecay(double decay) const {
  return AdafactorAttr::get(getContext(), getBeta2Decay(), getEps1(), getEps2(),
                            getClip(), decay);
}

//===----------------------------------------------------------------------===//
// SGD
//===----------------------------------------------------------------------===//

llvm::SmallVector<StateTensor> SGDAttr::getStates(RankedTensorType) const {
  if (getMomentum() == 0)
    return {};
  return {{"momentum"}};
}

llvm::SmallVector<Value> SGDAttr::buildUpdate(OpBuilder &builder, Location loc,
                                              Value param, Value gradient,
                                              ValueRange state, Value rate,
                                              Value step, UpdateSums &) const {
  PlainBuilder p{builder, loc};
  Value kept = decayed(p, param, rate, getWeightDecay());
  Value rates = p.broadcast(rate, {}, typeOf(param).getShape());
  if (getMomentum() == 0)
    return {p.sub(kept, p.mul(rates, gradient))};
  Value velocity = p.add(p.mul(state[0], getMomentum()), gradient);
  Value direction = getNesterov()
                        ? p.add(gradient, p.mul(velocity, getMomentum()))
                        : velocity;
  return {p.sub(kept, p.mul(rates, direction)), velocity};
}

Attribute SGDAttr::withWeightDecay(double decay) const {
  return SGDAttr::get(getContext(), getMomentum(), getNesterov(), decay);
}

//===----------------------------------------------------------------------===//
// Balance of experts
//===----------------------------------------------------------------------===//

llvm::SmallVector<StateTensor> BalanceAttr::getStates(RankedTensorType) const {
  return {};
}

llvm::SmallVector<Value> BalanceAttr::buildUpdate(OpBuilder &builder,
                                                  Location loc, Value param,
                                                  Value gradient, ValueRange,
                                                  Value, Value,
                                                  UpdateSums &) const {
  PlainBuilder p{builder, loc};
  auto step = [&](CompareKind kind) {
    Value isSo = p.compare(kind, gradient, getTarget());
    return p.mul(p.indicator(isSo, typeOf(param).getElementType()), getRate());
  };
  return {p.sub(p.add(param, step(CompareKind::LT)), step(CompareKind::GT))};
}

Attribute BalanceAttr::withWeightDecay(double) const { return *this; }

bool BalanceAttr::usesLossGradient() const { return false; }
