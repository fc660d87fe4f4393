//===- Attention.cpp - softmax attention ----------------------------------===//
//
// A matmul of the softmax of scores with values, the scores a matmul of
// queries and keys with a factor, perhaps a soft cap, a bias by distance, and a
// mask of positions.
// The softmax may have one more score per row, a number of the head.
//
//===----------------------------------------------------------------------===//

#include "Distances.h"

#include <cmath>
#include <map>

using namespace kerf;
using namespace mlir;

namespace {

/// A matmul with a letter per dimension.
struct Matmul {
  Value lhs, rhs;
  std::string left, right, out;
};

/// What stands between the matmul of queries and keys and the softmax.
struct Scores {
  Seen matmul; ///< by the softmax's dimensions
  double scale = 1;
  std::optional<double> softcap;
  llvm::SmallVector<Hiding> maskings; ///< by the softmax's dimensions
  std::optional<Seen> bias; ///< by distance, by the softmax's dimensions
  double biasScale = 1;     ///< a factor on it
};

/// What the letters of the matmul with the values are; of matmuls inside
/// another, letters are those of the outer one. Letters of size 1 may be none.
struct Letters {
  std::string batch, heads, query, groups, key;
  char channel = 0, width = 0;
};

/// Queries, keys and values of the op, and what else it needs.
struct Parts {
  Value q, k, v; ///< [B,S,H,D]
  double scale = 1;
  std::optional<double> softcap;
  MaskForm mask;
  DropoutOp dropout;
  Value sink;          ///< by the softmax's dimensions; null: none
  int64_t sinkDim = 0; ///< that it follows
  std::optional<DistanceBias> bias;
  double biasScale = 1;
};

} // namespace

static std::optional<Matmul> matmulOf(Value value) {
  if (auto einsum = value.getDefiningOp<EinsumOp>()) {
    auto [terms, out] = einsum.getEquation().split("->");
    auto [left, right] = terms.split(',');
    return Matmul{einsum.getLhs(), einsum.getRhs(), left.str(), right.str(),
                  out.str()};
  }
  auto matmul = value.getDefiningOp<MatmulOp>();
  if (!matmul || matmul.getBias())
    return std::nullopt;
  std::string batch =
      std::string("abcdef").substr(0, typeOf(value).getRank() - 2);
  return Matmul{matmul.getLhs(), matmul.getRhs(), batch + "mk", batch + "kn",
                batch + "mn"};
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Takes factors off `value`, into `scale`.
static Value withoutScale(Value value, double &scale) {
  while (auto scaled = scaledOf(value)) {
    scale *= scaled->factor;
    value = scaled->x;
  }
  return value;
}

/// Takes factors off that stand before transposes, too.
static Value withoutInnerScale(OpBuilder &builder, Location loc, Value value,
                               double &scale) {
  value = withoutScale(value, scale);
  auto transpose = value.getDefiningOp<TransposeOp>();
  if (!transpose)
    return value;
  Value inner = withoutScale(transpose.getX(), scale);
  if (inner == transpose.getX())
    return value;
  return PlainBuilder{builder, loc}.transpose(inner, transpose.getPerm());
}

/// Notes the mask of `c ? x : -inf` or `c ? -inf : x` and gives x; null where
/// `select` is no such.
static Value shownBy(SelectOp select, llvm::ArrayRef<int64_t> dims,
                     Scores &scores) {
  bool isHidden = hides(splatOf(select.getOnTrue()), scores.scale);
  if (!isHidden && !hides(splatOf(select.getOnFalse()), scores.scale))
    return {};
  Seen condition = {select.getCondition(), llvm::to_vector(dims)};
  scores.maskings.push_back({condition, isHidden});
  return isHidden ? select.getOnFalse() : select.getOnTrue();
}

/// Takes a mask off the scores: `c ? x : -inf`, `x + (c ? 0 : -inf)`, or
/// `x m + (1 - m) -1e9` with m of truth values; gives x, or null.
static Value withoutMask(Seen value, Scores &scores) {
  if (auto select = value.op<SelectOp>())
    return shownBy(select, value.dims, scores);
  auto hidden = [&](Value x, Value summand, double sign) -> Value {
    auto hiding = hidingOf({summand, value.dims}, sign * scores.scale);
    if (!hiding)
      return {};
    scores.maskings.push_back(*hiding);
    if (auto mul = x.getDefiningOp<MulOp>())
      for (auto [shown, factor] : bothOrders(mul))
        if (isShown({factor, value.dims}, *hiding))
          return shown;
    return x;
  };
  if (auto sub = value.op<SubOp>())
    return hidden(sub.getLhs(), sub.getRhs(), -1);
  if (auto add = value.op<AddOp>())
    for (auto [x, summand] : bothOrders(add))
      if (Value shown = hidden(x, summand, 1))
        return shown;
  return {};
}

/// Takes a bias by distance off the scores, and notes it; gives x, or null.
static Value withoutBias(Seen value, Scores &scores) {
  auto add = value.op<AddOp>();
  if (!add || scores.bias)
    return {};
  int64_t column = -1; // the softmax's last dimension
  for (int64_t dim : value.dims)
    column = std::max(column, dim);
  for (auto [x, summand] : bothOrders(add)) {
    Seen bias = lookThrough({summand, value.dims});
    size_t before = scores.maskings.size();
    if (auto select = bias.op<SelectOp>()) // hides some, too
      if (Value shown = shownBy(select, bias.dims, scores))
        bias.value = shown;
    if (!mayBeDistance(bias, column)) {
      scores.maskings.resize(before);
      continue;
    }
    scores.bias = bias;
    scores.biasScale = scores.scale;
    return x;
  }
  return {};
}

static std::string nameOf(Value value) {
  Operation *op = value.getDefiningOp();
  return op ? "'" + op->getName().getStringRef().str() + "'" : "an input";
}

/// Takes `c tanh(x)` off, with the scale so far as c; gives x, or null.
static Value withoutSoftcap(Value value, Scores &scores) {
  auto tanh = value.getDefiningOp<TanhOp>();
  if (!tanh || scores.softcap || !(scores.scale > 0))
    return {};
  scores.softcap = scores.scale; // inside, c tanh(s / c) has the scale 1 / c
  return tanh.getX();
}

/// The matmul below a softmax's operand; else none, and in `why` what stands
/// in its way.
static std::optional<Scores> scoresOf(Value value, std::string &why) {
  Scores scores;
  scores.matmul = {value, dimRange(0, typeOf(value).getRank())};
  while (true) {
    scores.matmul = lookThrough(scores.matmul);
    Value &now = scores.matmul.value;
    if (matmulOf(now))
      return scores;
    Value inner = withoutScale(now, scores.scale);
    if (inner == now)
      inner = withoutSoftcap(now, scores);
    if (!inner && !scores.softcap) // hidden scores are no -inf under a cap
      inner = withoutMask(scores.matmul, scores);
    if (!inner && !scores.softcap)
      inner = withoutBias(scores.matmul, scores);
    if (!inner) {
      why = nameOf(now) + " stands between the scores and the softmax";
      return std::nullopt;
    }
    now = inner;
  }
}

//===----------------------------------------------------------------------===//
// Letters
//===----------------------------------------------------------------------===//

static bool has(llvm::StringRef letters, char letter) {
  return letters.contains(letter);
}

namespace {

/// The two matmuls of an attention, in letters of the outer one.
struct Match {
  Matmul outer;        ///< weights on its left, values on its right
  Matmul inner;        ///< queries on its left, keys on its right
  std::string softmax; ///< letters of the softmax's dimensions, or ' '
  std::map<char, int64_t> sizes;

  int64_t sizeOf(llvm::StringRef letters) const {
    int64_t size = 1;
    for (char letter : letters)
      size *= sizes.at(letter);
    return size;
  }
  bool isUnit(char letter) const { return sizes.at(letter) == 1; }
  int64_t dimOf(llvm::StringRef letter) const {
    size_t at = letter.empty() ? std::string::npos : softmax.find(letter[0]);
    return at == std::string::npos ? -2 : at;
  }
};

} // namespace

static void noteSizes(Match &match, llvm::StringRef term, Value value) {
  for (auto [letter, size] : llvm::zip_equal(term, typeOf(value).getShape()))
    match.sizes[letter] = size;
}

/// The inner matmul in letters of the outer one; what it sums or has with size
/// 1 alone gets capitals. False where two dimensions are one.
static bool rename(Match &match, const Seen &matmul) {
  std::map<char, char> names;
  std::string taken;
  for (auto [letter, dim] : llvm::zip_equal(match.inner.out, matmul.dims)) {
    char name = dim < 0 ? ' ' : match.softmax[dim];
    if (name == ' ')
      continue;
    if (has(taken, name))
      return false;
    taken += name;
    names[letter] = name;
  }
  char next = 'A';
  for (std::string *term :
       {&match.inner.left, &match.inner.right, &match.inner.out})
    for (char &letter : *term) {
      if (!names.count(letter))
        names[letter] = next++;
      letter = names[letter];
    }
  return next <= 'Z' + 1;
}

/// All dimensions of the weights are the softmax's, and all of those the
/// matmul's, but for some of size 1: nothing is repeated on the way.
static bool isCovered(const Match &match) {
  auto isIn = [&](llvm::StringRef letters, llvm::StringRef others) {
    return llvm::all_of(letters, [&](char letter) {
      return letter == ' ' || match.isUnit(letter) || has(others, letter);
    });
  };
  return isIn(match.outer.left, match.softmax) &&
         isIn(match.softmax, match.inner.out);
}

/// The only letter of `term` that is none of `known` and not of size 1; 0 for
/// none or several.
static char ownOf(const Match &match, llvm::StringRef term,
                  llvm::StringRef known) {
  char own = 0;
  for (char letter : term) {
    if (has(known, letter) || match.isUnit(letter))
      continue;
    if (own)
      return 0;
    own = letter;
  }
  return own;
}

/// Sorts the weights' letters into those of batch and heads, which all have,
/// and of queries and their groups, which keys and values have not.
static bool sortLetters(const Match &match, Letters &letters) {
  std::string common, rows, units;
  for (char letter : match.inner.left) { // in the queries' order
    if (!has(match.outer.left, letter) || letter == letters.key[0])
      continue;
    bool isCommon = has(match.outer.right, letter) &&
                    has(match.inner.right, letter) &&
                    has(match.outer.out, letter);
    bool isRow = !has(match.outer.right, letter) &&
                 !has(match.inner.right, letter) &&
                 has(match.outer.out, letter);
    if (isCommon)
      common += letter;
    else if (isRow && !match.isUnit(letter))
      rows += letter;
    else if (!match.isUnit(letter))
      return false;
  }
  // Those of size 1 count where others do not fill batch and heads.
  for (size_t at = common.size(); at-- > 0 && common.size() > 2;)
    if (match.isUnit(common[at]))
      common.erase(at, 1);
  if (common.size() > 2 || rows.empty())
    return false;
  letters.batch = common.substr(0, 1);
  letters.heads = common.size() > 1 ? common.substr(1, 1) : "";
  size_t query = 0;
  for (size_t at = rows.size(); at-- > 0;)
    if (match.sizes.at(rows[at]) == match.sizes.at(letters.key[0]))
      query = at;
  letters.query = rows.substr(query, 1);
  letters.groups = rows.erase(query, 1);
  return true;
}

/// Which letter is what; none where the matmuls are of another kind.
static std::optional<Letters> lettersOf(const Match &match) {
  Letters letters;
  letters.key = match.softmax.substr(match.softmax.size() - 1);
  char key = letters.key[0];
  if (key == ' ' || has(match.outer.out, key) || !has(match.outer.right, key) ||
      has(match.inner.left, key) || !has(match.inner.right, key) ||
      !sortLetters(match, letters))
    return std::nullopt;
  std::string known = letters.batch + letters.heads + letters.query +
                      letters.groups + letters.key;
  letters.channel = ownOf(match, match.inner.left, known);
  letters.width = ownOf(match, match.outer.right, known);
  if (!letters.channel || !letters.width ||
      ownOf(match, match.inner.right, known) != letters.channel ||
      ownOf(match, match.outer.out, known) != letters.width ||
      has(match.inner.out, letters.channel) ||
      has(match.outer.left, letters.width))
    return std::nullopt;
  return letters;
}

/// The matmuls of an attention whose weights are on the left of `outer`.
static std::optional<Match> matchOf(const Matmul &outer, const Seen &weights,
                                    const Seen &matmul) {
  Match match;
  match.outer = outer;
  for (int64_t dim : weights.dims)
    match.softmax += dim < 0 ? ' ' : outer.left[dim];
  match.inner = *matmulOf(matmul.value);
  if (!rename(match, matmul))
    return std::nullopt;
  noteSizes(match, outer.left, outer.lhs);
  noteSizes(match, outer.right, outer.rhs);
  noteSizes(match, match.inner.left, match.inner.lhs);
  noteSizes(match, match.inner.right, match.inner.rhs);
  if (!isCovered(match))
    return std::nullopt;
  if (!match.softmax.empty() && has(match.inner.left, match.softmax.back())) {
    std::swap(match.inner.lhs, match.inner.rhs);
    std::swap(match.inner.left, match.inner.right);
  }
  return match;
}

//===----------------------------------------------------------------------===//
// The op
//===----------------------------------------------------------------------===//

/// `value`, whose dimensions have the letters `term`, with a dimension for each
/// of `groups`: its letters together. Other letters have size 1.
static Value arranged(PlainBuilder &p, const Match &match, Value value,
                      llvm::StringRef term,
                      llvm::ArrayRef<std::string> groups) {
  llvm::SmallVector<int64_t> perm, shape;
  for (const std::string &group : groups) {
    for (char letter : group)
      perm.push_back(term.find(letter));
    shape.push_back(match.sizeOf(group));
  }
  for (int64_t d : dimRange(0, term.size()))
    if (!llvm::is_contained(perm, d))
      perm.push_back(d);
  if (!llvm::equal(perm, dimRange(0, perm.size())))
    value = p.transpose(value, perm);
  return p.reshape(value, shape);
}

/// The op's result [B,S,H,D] with the letters of the outer matmul.
static Value spread(PlainBuilder &p, const Match &match, const Letters &letters,
                    Value y) {
  std::string term = letters.batch + letters.query + letters.heads +
                     letters.groups + letters.width;
  llvm::SmallVector<int64_t> sizes, perm;
  for (char letter : term)
    sizes.push_back(match.sizes.at(letter));
  y = p.reshape(y, sizes);
  llvm::SmallVector<int64_t> shape;
  for (char letter : match.outer.out) {
    shape.push_back(match.sizes.at(letter));
    if (has(term, letter))
      perm.push_back(term.find(letter));
  }
  if (!llvm::equal(perm, dimRange(0, perm.size())))
    y = p.transpose(y, perm);
  return p.reshape(y, shape);
}

namespace {

/// An attention that was found.
struct Found {
  Match match;
  Letters letters;
  Parts parts;
};

} // namespace

/// Where `weights` are all but the last of a softmax whose last score of each
/// row is given: makes them the softmax, and gives that score and the others.
static std::optional<std::pair<Value, Value>> takeSink(Seen &weights) {
  auto slice = weights.op<SliceOp>();
  auto softmax = slice ? slice.getX().getDefiningOp<SoftmaxOp>() : nullptr;
  auto concat =
      softmax ? softmax->getOperand(0).getDefiningOp<ConcatOp>() : nullptr;
  if (!concat || concat.getInputs().size() != 2)
    return std::nullopt;
  int64_t last = typeOf(softmax->getResult(0)).getRank() - 1;
  Value scores = concat.getInputs()[0], sink = concat.getInputs()[1];
  bool isFirst =
      llvm::all_of(slice.getOffsets(), [](int64_t o) { return o == 0; });
  if (static_cast<int64_t>(concat.getDim()) != last || !isFirst ||
      typeOf(sink).getDimSize(last) != 1 ||
      typeOf(scores).getShape() != typeOf(slice.getResult()).getShape())
    return std::nullopt;
  weights.value = softmax->getResult(0);
  return std::pair(scores, sink);
}

/// The only dimension that `value` follows; none where there are more.
static std::optional<int64_t> onlyDimOf(Value value) {
  Seen seen = lookThrough(value);
  std::optional<int64_t> found;
  for (auto [dim, size] :
       llvm::zip_equal(seen.dims, typeOf(seen.value).getShape())) {
    if (size == 1)
      continue;
    if (dim < 0 || found)
      return std::nullopt;
    found = dim;
  }
  return found;
}

/// Sets the sinks where they are of whole heads.
static bool setSink(Parts &parts, Value sink, const Match &match,
                    const Letters &letters) {
  std::optional<int64_t> dim = onlyDimOf(sink);
  if (!dim || !letters.groups.empty() || match.dimOf(letters.heads) != *dim)
    return false;
  parts.sink = sink;
  parts.sinkDim = *dim;
  return true;
}

/// Sets the bias where its slopes are of whole heads and no soft cap or sink
/// sees what rows get besides.
static bool setBias(Parts &parts, const Scores &scores, const ScoreDims &dims,
                    const Match &match, const Letters &letters) {
  auto bias = distanceBiasOf(*scores.bias, dims);
  if (!bias || scores.softcap || parts.sink ||
      (bias->isCausal && !parts.mask.isCausal))
    return false;
  if (bias->slope) {
    // Heads are one dimension: that of keys, too, or where these have one head
    // that of queries alone.
    std::string heads = letters.heads + letters.groups;
    llvm::ArrayRef<int64_t> shape = typeOf(bias->slope->value).getShape();
    for (auto [dim, size] : llvm::zip_equal(bias->slope->dims, shape))
      if (size != 1 && (heads.size() != 1 || dim != match.dimOf(heads)))
        return false;
  }
  parts.bias = bias;
  parts.biasScale = scores.biasScale;
  return true;
}

/// The attention whose weights are on the left of `outer`; none where they are
/// no softmax, or, with the reason in `why`, where it is another kind.
static std::optional<Found> findAttention(const Matmul &outer,
                                          std::string &why) {
  Seen weights = lookThrough(outer.lhs);
  Parts parts;
  if (auto dropout = weights.op<DropoutOp>()) {
    parts.dropout = dropout;
    weights.value = dropout.getX();
  }
  auto split = takeSink(weights);
  auto softmax = weights.op<SoftmaxOp>();
  Value all = split ? split->first : softmax ? softmax->getOperand(0) : Value();
  auto scores = all ? scoresOf(all, why) : std::nullopt;
  if (!scores)
    return std::nullopt;
  auto match = matchOf(outer, weights, scores->matmul);
  auto letters = match ? lettersOf(*match) : std::nullopt;
  if (!letters) {
    why = "its matmuls have other dimensions than those of queries, keys and "
          "values";
    return std::nullopt;
  }
  if (split && !setSink(parts, split->second, *match, *letters)) {
    why = "the last score of its rows is no number of a head";
    return std::nullopt;
  }
  parts.scale = scores->scale;
  parts.softcap = scores->softcap;
  ScoreDims dims = {match->dimOf(letters->batch), match->dimOf(letters->query),
                    match->dimOf(letters->key)};
  for (const Hiding &masking : scores->maskings) {
    auto form = maskOf(masking.condition, masking.isHidden, dims);
    if (!form || !join(parts.mask, *form)) {
      why = "its mask is none of the causal, window, chunk and document masks";
      return std::nullopt;
    }
  }
  if ((parts.mask.window || parts.mask.chunk) && !parts.mask.isCausal) {
    why = "it has a window or chunks without a causal mask";
    return std::nullopt;
  }
  if (scores->bias && !setBias(parts, *scores, dims, *match, *letters)) {
    why = "its bias is no number of a head times the distance of a key";
    return std::nullopt;
  }
  return Found{*match, *letters, parts};
}

/// The attention that the matmul `op` ends, in either order of its operands.
static std::optional<Found> findAttention(Operation *op, std::string &why) {
  auto outer = matmulOf(op->getResult(0));
  for (bool isSwapped : {false, true}) {
    if (!outer)
      return std::nullopt;
    if (isSwapped) {
      std::swap(outer->lhs, outer->rhs);
      std::swap(outer->left, outer->right);
    }
    if (auto found = findAttention(*outer, why))
      return found;
  }
  return std::nullopt;
}

void kerf::explainAttention(Operation *root) {
  root->walk([&](Operation *op) {
    std::string why;
    Location loc =
        isa<UnknownLoc>(op->getLoc()) ? root->getLoc() : op->getLoc();
    if (isa<EinsumOp, MatmulOp>(op) && !findAttention(op, why) && !why.empty())
      emitRemark(loc) << "attention is left plain: " << why;
  });
}

namespace {

struct RaiseAttention : RewritePattern {
  RaiseAttention(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    std::string why;
    auto found =
        isa<EinsumOp, MatmulOp>(op) ? findAttention(op, why) : std::nullopt;
    if (!found)
      return failure();
    build(op, found->match, found->letters, found->parts, rewriter);
    return success();
  }

  static void build(Operation *op, const Match &match, const Letters &of,
                    Parts &parts, PatternRewriter &rewriter) {
    Location loc = op->getLoc();
    PlainBuilder p{rewriter, loc};
    const Matmul &inner = match.inner;
    Value q = withoutInnerScale(rewriter, loc, inner.lhs, parts.scale);
    Value k = withoutInnerScale(rewriter, loc, inner.rhs, parts.scale);
    std::string channel(1, of.channel), width(1, of.width);
    parts.q = arranged(p, match, q, inner.left,
                       {of.batch, of.query, of.heads + of.groups, channel});
    parts.k = arranged(p, match, k, inner.right,
                       {of.batch, of.key, of.heads, channel});
    parts.v = arranged(p, match, match.outer.rhs, match.outer.right,
                       {of.batch, of.key, of.heads, width});
    if (parts.bias)
      addBias(p, parts);
    Value y = attend(rewriter, loc, parts);
    rewriter.replaceOp(op, spread(p, match, of, y));
  }

  /// Queries and keys that have the bias in their matmul.
  static void addBias(PlainBuilder &p, Parts &parts) {
    const DistanceBias &bias = *parts.bias;
    Value slope;
    if (bias.slope) {
      slope = bias.slope->value;
      slope = p.reshape(slope, {typeOf(slope).getNumElements()});
      if (typeOf(slope).getDimSize(0) == 1) // one for all heads
        slope = p.broadcast(p.reshape(slope, {}), {},
                            {typeOf(parts.q).getDimSize(2)});
      slope = p.cast(slope, typeOf(parts.q).getElementType());
    }
    addDistanceChannels(p, parts.q, parts.k, slope,
                        bias.factor * parts.biasScale / parts.scale);
  }

  static Value attend(PatternRewriter &rewriter, Location loc,
                      const Parts &parts) {
    FloatAttr softcap;
    if (parts.softcap)
      softcap = rewriter.getF64FloatAttr(*parts.softcap);
    DropoutOp drop = parts.dropout;
    llvm::SmallVector<Value> segments;
    Value documents = parts.mask.segments;
    if (parts.mask.chunk)
      documents = PlainBuilder{rewriter, loc}.chunks(
          typeOf(parts.q).getShape().take_front(2), *parts.mask.chunk,
          documents);
    if (documents)
      segments.assign(2, documents);
    IntegerAttr window;
    if (parts.mask.window)
      window = rewriter.getI64IntegerAttr(*parts.mask.window);
    auto op = AttentionOp::create(
        rewriter, loc, parts.q, parts.k, parts.v, segments,
        /*offsets=*/ValueRange(), drop ? drop.getSeed() : Value(),
        drop ? drop.getStep() : Value(), drop ? drop.getLayer() : Value(),
        parts.mask.isCausal ? rewriter.getUnitAttr() : UnitAttr(), window,
        rewriter.getF64FloatAttr(parts.scale), softcap,
        drop ? drop.getRateAttr() : FloatAttr(),
        drop ? drop.getNameAttr() : StringAttr(),
        /*global=*/DenseI64ArrayAttr(),
        /*lse=*/parts.sink ? rewriter.getUnitAttr() : UnitAttr(),
        /*zigzag=*/ZigzagAttr());
    if (!parts.sink)
      return op.getResult();
    Value sink = vectorAlong(rewriter, loc, parts.sink, parts.sinkDim);
    return AttentionSinkOp::create(rewriter, loc, op.getResult(),
                                   op.getLogSumExp(), sink)
        .getResult();
  }
};

/// What repeats heads of keys or values.
struct Repeated {
  Value x; ///< [B,S,G,D], or [B,G,S,D] where `isTurned`
  bool isTurned = false;
  int64_t heads() const { return typeOf(x).getDimSize(isTurned ? 1 : 2); }
};

/// Of keys or values [B,S,H,D] whose heads repeat others, each H/G times in a
/// row; none else.
static std::optional<Repeated> repeatedOf(Value value) {
  auto transpose = value.getDefiningOp<TransposeOp>();
  bool isTurned =
      transpose && transpose.getPerm() == llvm::ArrayRef<int64_t>{0, 2, 1, 3};
  if (transpose && !isTurned)
    return std::nullopt;
  Value wide = isTurned ? transpose.getX() : value;
  auto merge = wide.getDefiningOp<ReshapeOp>();
  auto broadcast = merge ? merge.getX().getDefiningOp<BroadcastOp>() : nullptr;
  if (!broadcast)
    return std::nullopt;
  llvm::ArrayRef<int64_t> from = typeOf(broadcast.getX()).getShape();
  llvm::ArrayRef<int64_t> to = typeOf(broadcast.getResult()).getShape();
  int64_t heads = isTurned ? 1 : 2;
  llvm::SmallVector<int64_t> dims, merged(from);
  for (int64_t d = 0; d < 5; ++d)
    if (d != heads + 1)
      dims.push_back(d);
  if (to.size() != 5 || from.size() != 4 ||
      broadcast.getDims() != llvm::ArrayRef(dims))
    return std::nullopt;
  merged[heads] *= to[heads + 1];
  if (typeOf(wide).getShape() != llvm::ArrayRef(merged))
    return std::nullopt;
  return Repeated{broadcast.getX(), isTurned};
}

/// Repeated heads of keys and values are what groups of queries read.
struct GroupHeads : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    auto k = repeatedOf(op.getK()), v = repeatedOf(op.getV());
    if (!k || !v || k->heads() != v->heads())
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    auto built = [&](const Repeated &of) {
      return of.isTurned ? p.transpose(of.x, {0, 2, 1, 3}) : of.x;
    };
    Value keys = built(*k), values = built(*v);
    rewriter.modifyOpInPlace(op, [&] {
      op.getKMutable().assign(keys);
      op.getVMutable().assign(values);
    });
    return success();
  }
};

} // namespace

void kerf::addAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseAttention, GroupHeads>(patterns.getContext());
}
