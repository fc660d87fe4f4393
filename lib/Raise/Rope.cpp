//===- Rope.cpp - rotary embeddings ---------------------------------------===//
//
// Two spellings of a rotation of x by tables of cosines and sines:
//
//   x cos + turn(x) sin,            turn(x) = (-second, first)
//   (first cos - second sin, second cos + first sin)
//
// first and second are the halves of the channels, or the even and the odd
// ones. The tables must be cosines and sines of position times frequency: all
// their elements are looked at, at up to kPositions positions.
//
//===----------------------------------------------------------------------===//

#include "Views.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

/// Positions of a table that are looked at.
static constexpr int64_t kPositions = 1024;

/// Attributes that keep what tables are while patterns are applied.
static constexpr llvm::StringLiteral kCosinesName = "kerf.cosines";
static constexpr llvm::StringLiteral kSinesName = "kerf.sines";

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

namespace {
/// cos or sin of an angle, times a magnitude.
struct Turn {
  double angle = 0, magnitude = 1;
};

/// How a table turns channels.
struct Rotation {
  int64_t sequence = 0;            ///< dimension of positions
  int64_t channel = 0;             ///< dimension of channels
  std::vector<double> frequencies; ///< per channel
  double magnitude = 1;
};
} // namespace

/// What an element of a table of `Function` is; none where it is no such.
template <typename Function>
static std::optional<Turn> turnAt(Element element) {
  Turn turn;
  while (true) {
    element = sourceOf(element);
    Operation *op = element.value.getDefiningOp();
    if (auto scaled = scaledOf(element.value)) {
      turn.magnitude *= scaled->factor;
      element.value = scaled->x;
      continue;
    }
    if (auto cast = dyn_cast_or_null<CastOp>(op)) {
      element.value = cast.getX();
      continue;
    }
    if (!isa_and_nonnull<Function>(op))
      return std::nullopt;
    auto angle = numberAt({op->getOperand(0), element.index});
    if (!angle)
      return std::nullopt;
    turn.angle = *angle;
    return turn;
  }
}

static bool isNear(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(1.0, std::abs(b));
}

/// Positions that are looked at of a table of so many.
static llvm::SmallVector<int64_t> positionsOf(int64_t length) {
  llvm::SmallVector<int64_t> positions;
  int64_t stride = std::max<int64_t>(1, length / kPositions);
  for (int64_t s = 0; s < length; s += stride)
    positions.push_back(s);
  positions.push_back(length - 1);
  return positions;
}

/// True where every element of the table is `position frequency`.
template <typename Function>
static bool follows(Value table, const Rotation &rotation) {
  llvm::ArrayRef<int64_t> shape = typeOf(table).getShape();
  int64_t channel = rotation.channel;
  llvm::SmallVector<int64_t> start(shape.size(), 0), end(shape);
  for (int64_t &i : end)
    --i;
  end[rotation.sequence] = end[channel] = 0;
  // The other dimensions must not matter: both ends are looked at.
  llvm::SmallVector<llvm::SmallVector<int64_t>> corners = {start};
  if (end != start)
    corners.push_back(end);
  for (llvm::SmallVector<int64_t> index : corners)
    for (int64_t s : positionsOf(shape[rotation.sequence]))
      for (int64_t c = 0; c < shape[channel]; ++c) {
        index[rotation.sequence] = s;
        index[channel] = c;
        auto turn = turnAt<Function>({table, index});
        if (!turn || !isNear(turn->magnitude, rotation.magnitude) ||
            !isNear(turn->angle, s * rotation.frequencies[c]))
          return false;
      }
  return true;
}

/// The rotation of a table of cosines or sines with this dimension of channels.
template <typename Function>
static std::optional<Rotation> readTable(Value table, int64_t channel) {
  llvm::ArrayRef<int64_t> shape = typeOf(table).getShape();
  for (int64_t sequence = 0; sequence < channel; ++sequence) {
    if (shape[sequence] < 2)
      continue;
    Rotation rotation;
    rotation.sequence = sequence;
    rotation.channel = channel;
    llvm::SmallVector<int64_t> index(shape.size(), 0);
    index[sequence] = 1;
    for (int64_t c = 0; c < shape[channel]; ++c) {
      index[channel] = c;
      auto turn = turnAt<Function>({table, index});
      if (!turn)
        return std::nullopt;
      rotation.frequencies.push_back(turn->angle);
      rotation.magnitude = turn->magnitude;
    }
    if (rotation.frequencies.front() != 0 && follows<Function>(table, rotation))
      return rotation;
  }
  return std::nullopt;
}

/// What a table is, kept at the op that makes it: many read one table. An empty
/// list of frequencies says that it is none.
static ArrayAttr noteOf(MLIRContext *context,
                        const std::optional<Rotation> &rotation) {
  Builder builder(context);
  if (!rotation)
    return builder.getArrayAttr({});
  return builder.getArrayAttr(
      {builder.getI64IntegerAttr(rotation->sequence),
       builder.getI64IntegerAttr(rotation->channel),
       builder.getDenseF64ArrayAttr(rotation->frequencies),
       builder.getF64FloatAttr(rotation->magnitude)});
}

static std::optional<Rotation> rotationIn(ArrayAttr note) {
  if (note.empty())
    return std::nullopt;
  Rotation rotation;
  rotation.sequence = cast<IntegerAttr>(note[0]).getInt();
  rotation.channel = cast<IntegerAttr>(note[1]).getInt();
  rotation.frequencies = cast<DenseF64ArrayAttr>(note[2]).asArrayRef().vec();
  rotation.magnitude = cast<FloatAttr>(note[3]).getValueAsDouble();
  return rotation;
}

/// The rotation of a table as its reader sees it: channels are the reader's
/// last dimension.
template <typename Function>
static std::optional<Rotation> tableOf(Value table, llvm::StringRef name) {
  Seen seen = lookThrough(table);
  Operation *op = seen.value.getDefiningOp();
  auto channel = llvm::find(seen.dims, typeOf(table).getRank() - 1);
  if (!op || channel == seen.dims.end())
    return std::nullopt;
  auto note = op->getAttrOfType<ArrayAttr>(name);
  if (!note) {
    note = noteOf(op->getContext(),
                  readTable<Function>(seen.value, channel - seen.dims.begin()));
    op->setDiscardableAttr(name, note);
  }
  std::optional<Rotation> rotation = rotationIn(note);
  if (rotation)
    rotation->sequence = seen.dims[rotation->sequence];
  return rotation;
}

/// The rotation of tables of x's shape, or of half of its channels.
static std::optional<Rotation> rotationOf(Value cosines, Value sines) {
  if (typeOf(cosines) != typeOf(sines) || typeOf(cosines).getRank() < 3)
    return std::nullopt;
  auto a = tableOf<CosOp>(cosines, kCosinesName);
  auto b = a ? tableOf<SinOp>(sines, kSinesName) : std::nullopt;
  if (!b || a->sequence != b->sequence || a->sequence < 1 ||
      a->frequencies.size() != b->frequencies.size() ||
      !isNear(a->magnitude, b->magnitude))
    return std::nullopt;
  for (auto [f, g] : llvm::zip(a->frequencies, b->frequencies))
    if (!isNear(f, g))
      return std::nullopt;
  return a;
}

void kerf::eraseRopeNotes(Operation *root) {
  root->walk([](Operation *op) {
    op->removeDiscardableAttr(kCosinesName);
    op->removeDiscardableAttr(kSinesName);
  });
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

/// `which` (0, 1) of the pairs of x's channels that `value` is, and whether
/// they are neighbours; none else.
namespace {
struct Channels {
  Value x;                          ///< of any shape
  llvm::SmallVector<int64_t> shape; ///< as which it is turned
  int which = 0;
  bool isInterleaved = false;
  bool isOther(const Channels &other) const {
    return x == other.x && shape == other.shape &&
           isInterleaved == other.isInterleaved && which != other.which;
  }
};
} // namespace

/// First or second half of the channels.
static std::optional<Channels> halfOf(Value value) {
  if (auto slice = value.getDefiningOp<SliceOp>()) {
    llvm::ArrayRef<int64_t> whole = typeOf(slice.getX()).getShape();
    llvm::ArrayRef<int64_t> sizes = slice.getSizes();
    if (whole.drop_back() != sizes.drop_back() ||
        whole.back() != 2 * sizes.back())
      return std::nullopt;
    int64_t start = slice.getOffsets().back();
    if (start != 0 && start != sizes.back())
      return std::nullopt;
    return Channels{slice.getX(), llvm::to_vector(whole), start != 0, false};
  }
  return std::nullopt;
}

/// Halves, or with `isInterleaved` even or odd ones: of two channels both.
static std::optional<Channels> channelsOf(Value value, bool isInterleaved) {
  if (!isInterleaved)
    return halfOf(value);
  // Anything as [..., D/2, 2], one of two, [..., D/2].
  auto narrow = value.getDefiningOp<ReshapeOp>();
  auto slice = (narrow ? narrow.getX() : value).getDefiningOp<SliceOp>();
  auto pairs = slice ? slice.getX().getDefiningOp<ReshapeOp>() : nullptr;
  if (!pairs)
    return std::nullopt;
  llvm::ArrayRef<int64_t> shape = typeOf(pairs.getResult()).getShape();
  llvm::SmallVector<int64_t> one(shape);
  one.back() = 1;
  if (shape.back() != 2 || slice.getSizes() != llvm::ArrayRef(one) ||
      (narrow && typeOf(value).getShape() != shape.drop_back()))
    return std::nullopt;
  llvm::SmallVector<int64_t> whole(shape.drop_back());
  whole.back() *= 2;
  Value x = pairs.getX();
  return Channels{x, whole, slice.getOffsets().back() != 0, true};
}

/// The two values that `joined` has as its first and second channels.
static std::optional<std::pair<Value, Value>> jointOf(Value joined,
                                                      bool &isInterleaved) {
  if (auto concat = joined.getDefiningOp<ConcatOp>()) {
    isInterleaved = false;
    if (concat.getInputs().size() != 2 ||
        concat.getDim() != typeOf(joined).getRank() - 1)
      return std::nullopt;
    return std::pair(concat.getInputs()[0], concat.getInputs()[1]);
  }
  auto flat = joined.getDefiningOp<ReshapeOp>();
  auto concat = flat ? flat.getX().getDefiningOp<ConcatOp>() : nullptr;
  if (!concat || concat.getInputs().size() != 2)
    return std::nullopt;
  isInterleaved = true;
  llvm::ArrayRef<int64_t> pairs = typeOf(concat.getResult()).getShape();
  if (pairs.back() != 2 || concat.getDim() + 1 != int64_t(pairs.size()))
    return std::nullopt;
  Value halves[2];
  for (int i : {0, 1}) {
    halves[i] = concat.getInputs()[i];
    auto wide = halves[i].getDefiningOp<ReshapeOp>();
    if (wide && typeOf(wide.getX()).getShape() == pairs.drop_back())
      halves[i] = wide.getX();
  }
  return std::pair(halves[0], halves[1]);
}

//===----------------------------------------------------------------------===//
// The op
//===----------------------------------------------------------------------===//

/// What f32, and what f64 leave of a number: relative.
static constexpr double kSingle = 2e-7, kDouble = 1e-12;

/// True where f[j] = theta^(-j/count) / factor, but for `error` of it.
static bool isGeometric(llvm::ArrayRef<double> pairs, double theta,
                        double factor, double error) {
  int64_t count = pairs.size();
  for (int64_t j = 0; j < count; ++j) {
    double f = std::pow(theta, -double(j) / count) / factor;
    if (std::abs(f - pairs[j]) > error * f)
      return false;
  }
  return true;
}

/// `number` to so many digits.
static double rounded(double number, int digits) {
  double unit = std::pow(10, std::floor(std::log10(number)) + 1 - digits);
  return std::round(number / unit) * unit;
}

/// `theta` and a scaling that give these frequencies of pairs. What a library
/// computed in f32 came from a number with few digits; what it computed in f64
/// says all of them.
static std::pair<double, Attribute>
formOf(MLIRContext *context, llvm::ArrayRef<double> pairs, double magnitude) {
  auto listed = std::pair<double, Attribute>(
      1.0, RopeTableAttr::get(context, DenseF64ArrayAttr::get(context, pairs),
                              magnitude));
  int64_t count = pairs.size();
  if (count < 2 || pairs.back() <= 0 || pairs.front() <= 0 || magnitude != 1)
    return listed;
  // f[j] = theta^(-j/count) / factor.
  double factor = 1 / pairs.front();
  double theta = std::pow(pairs.back() * factor, -double(count) / (count - 1));
  if (std::abs(factor - std::round(factor)) < 1e-6 * factor)
    factor = std::round(factor);
  bool isDouble = isGeometric(pairs, theta, factor, kDouble);
  double error = isDouble ? kDouble : kSingle;
  int digits = 1, most = isDouble ? 17 : 9;
  while (digits <= most &&
         !isGeometric(pairs, rounded(theta, digits), factor, error))
    ++digits;
  if (digits > most || factor < 1)
    return listed;
  Attribute scaling;
  if (factor != 1)
    scaling = RopeLinearAttr::get(context, factor);
  return {rounded(theta, digits), scaling};
}

static int64_t headsOf(llvm::ArrayRef<int64_t> sizes) {
  int64_t heads = 1;
  for (int64_t size : sizes)
    heads *= size;
  return heads;
}

/// A rotation of `channels`, in their shape; heads may stand before positions
/// or be none.
static Value rotate(PatternRewriter &rewriter, Location loc,
                    const Channels &channels, const Rotation &rotation,
                    llvm::ArrayRef<double> pairs) {
  PlainBuilder p{rewriter, loc};
  llvm::ArrayRef<int64_t> shape = channels.shape;
  Value x = p.reshape(channels.x, shape);
  bool isTurned = rotation.sequence == 2;
  auto [theta, scaling] =
      formOf(rewriter.getContext(), pairs, rotation.magnitude);
  Value input = x;
  if (isTurned)
    input = p.transpose(x, {0, 2, 1, 3});
  else if (shape.size() != 4) // heads of groups, or none
    input =
        p.reshape(x, {shape[0], shape[1],
                      headsOf(shape.drop_front(2).drop_back()), shape.back()});
  Value y = RopeOp::create(rewriter, loc, input, /*positions=*/Value(),
                           /*offset=*/Value(), rewriter.getF64FloatAttr(theta),
                           scaling, /*inverse=*/UnitAttr(),
                           /*zigzag=*/ZigzagAttr(),
                           channels.isInterleaved ? rewriter.getUnitAttr()
                                                  : UnitAttr());
  if (isTurned)
    y = p.transpose(y, {0, 2, 1, 3});
  return p.reshape(y, shape);
}

/// Frequencies per pair of a table with one per channel; none where the two
/// channels of a pair differ.
static std::optional<std::vector<double>>
pairsOf(llvm::ArrayRef<double> channels, bool isInterleaved) {
  int64_t count = channels.size() / 2;
  std::vector<double> pairs;
  for (int64_t j = 0; j < count; ++j) {
    int64_t first = isInterleaved ? 2 * j : j;
    int64_t second = isInterleaved ? 2 * j + 1 : j + count;
    if (!isNear(channels[first], channels[second]))
      return std::nullopt;
    pairs.push_back(channels[first]);
  }
  return pairs;
}

static bool hasHeads(const Channels &channels, const Rotation &rotation) {
  int64_t rank = channels.shape.size();
  return (rank == 4 && rotation.sequence == 2) ||
         (rank >= 3 && rotation.sequence == 1);
}

namespace {

/// x cos + turn(x) sin.
struct RaiseTurned : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  /// True where `x` is what the channels are of, in the shape that is turned.
  static bool isWhole(Value x, const Channels &channels) {
    if (typeOf(x).getShape() != llvm::ArrayRef(channels.shape))
      return false;
    auto reshape = x.getDefiningOp<ReshapeOp>();
    return x == channels.x || (reshape && reshape.getX() == channels.x);
  }

  /// x of turn(x).
  static std::optional<Channels> turned(Value value) {
    bool isInterleaved = false;
    auto joint = jointOf(value, isInterleaved);
    auto neg = joint ? joint->first.getDefiningOp<NegOp>() : nullptr;
    if (!neg)
      return std::nullopt;
    auto second = channelsOf(neg->getOperand(0), isInterleaved);
    auto first = channelsOf(joint->second, isInterleaved);
    if (!first || !second || first->which != 0 || !first->isOther(*second))
      return std::nullopt;
    return first;
  }

  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [straight, across] : bothOrders(op)) {
      auto a = straight.getDefiningOp<MulOp>();
      auto b = across.getDefiningOp<MulOp>();
      if (!a || !b)
        return failure();
      for (auto [rotated, sines] : bothOrders(b)) {
        // Both may be transposed after channels were taken apart.
        llvm::SmallVector<int64_t> perm = permOf(rotated);
        auto channels = turned(beforePerm(rotated, perm));
        if (!channels)
          continue;
        for (auto [x, cosines] : bothOrders(a)) {
          Value whole = beforePerm(x, perm);
          if (whole && isWhole(whole, *channels) &&
              succeeded(rewrite(op, *channels, perm, cosines, sines, rewriter)))
            return success();
        }
      }
    }
    return failure();
  }

  /// The permutation of a transpose that leaves channels last; empty for
  /// another value.
  static llvm::SmallVector<int64_t> permOf(Value value) {
    auto transpose = value.getDefiningOp<TransposeOp>();
    if (!transpose || transpose.getPerm().back() !=
                          static_cast<int64_t>(transpose.getPerm().size()) - 1)
      return {};
    return llvm::to_vector(transpose.getPerm());
  }

  /// What `value` is the transpose of by `perm`, itself for none; null where it
  /// is no such transpose.
  static Value beforePerm(Value value, llvm::ArrayRef<int64_t> perm) {
    if (perm.empty())
      return value;
    auto transpose = value.getDefiningOp<TransposeOp>();
    return transpose && transpose.getPerm() == perm ? transpose.getX()
                                                    : Value();
  }

  static LogicalResult rewrite(AddOp op, const Channels &channels,
                               llvm::ArrayRef<int64_t> perm, Value cosines,
                               Value sines, PatternRewriter &rewriter) {
    auto rotation = rotationOf(cosines, sines);
    if (rotation && !perm.empty())
      rotation->sequence = perm[rotation->sequence];
    if (!rotation || !hasHeads(channels, *rotation))
      return failure();
    auto pairs = pairsOf(rotation->frequencies, channels.isInterleaved);
    if (!pairs)
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    Value y = rotate(rewriter, op.getLoc(), channels, *rotation, *pairs);
    if (!perm.empty())
      y = p.transpose(y, perm);
    rewriter.replaceOp(op, p.reshape(y, typeOf(op.getResult()).getShape()));
    return success();
  }
};

/// first cos - second sin joined with second cos + first sin. Pairs may be read
/// as neighbours and joined as halves (DeepSeek), or the other way round.
template <typename Joined> struct RaiseJoined : OpRewritePattern<Joined> {
  using OpRewritePattern<Joined>::OpRewritePattern;

  struct Term {
    Channels channels;
    Value table;
  };
  static std::optional<Term> termOf(Value value, bool isInterleaved) {
    if (auto mul = value.getDefiningOp<MulOp>())
      for (auto [x, table] : bothOrders(mul))
        if (auto channels = channelsOf(x, isInterleaved))
          return Term{*channels, table};
    return std::nullopt;
  }

  /// The terms of first cos and second sin.
  static std::optional<std::pair<Term, Term>> termsOf(SubOp sub, AddOp add,
                                                      bool isInterleaved) {
    auto firstCos = termOf(sub.getLhs(), isInterleaved);
    auto secondSin = termOf(sub.getRhs(), isInterleaved);
    if (!firstCos || !secondSin || firstCos->channels.which != 0 ||
        !firstCos->channels.isOther(secondSin->channels))
      return std::nullopt;
    for (auto [a, b] : bothOrders(add)) {
      auto secondCos = termOf(a, isInterleaved);
      auto firstSin = termOf(b, isInterleaved);
      if (secondCos && firstSin && secondCos->channels.which == 1 &&
          firstCos->channels.isOther(secondCos->channels) &&
          secondSin->channels.isOther(firstSin->channels) &&
          secondCos->table == firstCos->table &&
          firstSin->table == secondSin->table)
        return std::pair(*firstCos, *secondSin);
    }
    return std::nullopt;
  }

  /// Neighbours as halves, or halves as neighbours.
  static Value rearranged(PlainBuilder p, Value x, bool toHalves) {
    llvm::SmallVector<int64_t> shape(typeOf(x).getShape()), parts(shape);
    int64_t rank = shape.size();
    parts.back() = toHalves ? shape.back() / 2 : 2;
    parts.push_back(toHalves ? 2 : shape.back() / 2);
    llvm::SmallVector<int64_t> perm = llvm::to_vector(dimRange(0, rank - 1));
    perm.append({rank, rank - 1});
    return p.reshape(p.transpose(p.reshape(x, parts), perm), shape);
  }

  LogicalResult matchAndRewrite(Joined op,
                                PatternRewriter &rewriter) const override {
    bool isInterleaved = false;
    auto joint = jointOf(op.getResult(), isInterleaved);
    auto sub = joint ? joint->first.template getDefiningOp<SubOp>() : nullptr;
    auto add = joint ? joint->second.template getDefiningOp<AddOp>() : nullptr;
    if (!sub || !add)
      return failure();
    auto terms = termsOf(sub, add, isInterleaved);
    if (!terms)
      terms = termsOf(sub, add, !isInterleaved);
    auto rotation = terms ? rotationOf(terms->first.table, terms->second.table)
                          : std::nullopt;
    if (!rotation || !hasHeads(terms->first.channels, *rotation))
      return failure();
    const Channels &channels = terms->first.channels;
    PlainBuilder p{rewriter, op.getLoc()};
    Value y = rotate(rewriter, op.getLoc(), channels, *rotation,
                     rotation->frequencies);
    if (channels.isInterleaved != isInterleaved)
      y = rearranged(p, y, channels.isInterleaved);
    rewriter.replaceOp(op, p.reshape(y, typeOf(op.getResult()).getShape()));
    return success();
  }
};

} // namespace

void kerf::addRopePatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseTurned, RaiseJoined<ConcatOp>, RaiseJoined<ReshapeOp>>(
      patterns.getContext());
}
