//===- Windows.cpp - reductions of windows --------------------------------===//
//
// A window over all that is before an element, or behind it, is combined in
// steps of twice the distance; another one place by place.
//
//===----------------------------------------------------------------------===//

#include "Converter.h"
#include "Parts.h"

using namespace kerf;
using namespace mlir;

/// What jnp.logaddexp computes, as lax.cumlogsumexp combines elements by it.
static constexpr llvm::StringLiteral kLogOfSum = "logaddexp";

/// Places of a window, at most: each is ops of its own.
static constexpr int64_t kMostPlaces = 256;

namespace {
/// A reduction of windows as its attributes say it, a number per dimension.
struct Windows {
  llvm::StringRef kind;
  Sizes sizes, strides, dilations, low, high;
  double neutral = 0;

  int64_t places() const {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    return count;
  }
};
} // namespace

/// log(e^x + e^y). Equal ones share the gradient.
static Value logOfSum(FoldingBuilder &b, Value x, Value y) {
  OpBuilder &builder = b.plain.builder;
  Location loc = b.plain.loc;
  Value most = MaxOp::create(builder, loc, x, y, /*share_ties=*/true);
  Value least = MinOp::create(builder, loc, x, y, /*share_ties=*/true);
  return b.add(most, b.logOnePlus(b.plain.exp(b.sub(least, most))));
}

static Value combined(FoldingBuilder &b, llvm::StringRef kind, Value x,
                      Value y) {
  if (kind == kLogOfSum)
    return logOfSum(b, x, y);
  if (kind == "add")
    return b.add(x, y);
  if (kind == "multiply")
    return b.mul(x, y);
  return kind == "maximum" ? b.max(x, y) : b.min(x, y);
}

/// The only dimension of windows with more than one place, if each window has
/// all before its element (true) or behind it (false); none for others.
static std::optional<std::pair<int64_t, bool>> runningDim(const Windows &w,
                                                          Value x) {
  auto isOne = [](int64_t n) { return n == 1; };
  if (!llvm::all_of(w.strides, isOne) || !llvm::all_of(w.dilations, isOne))
    return std::nullopt;
  std::optional<int64_t> wide;
  for (auto [dim, size] : llvm::enumerate(w.sizes)) {
    if (size == 1)
      continue;
    if (wide || size != shapeOf(x)[dim])
      return std::nullopt;
    wide = dim;
  }
  if (!wide)
    return std::nullopt;
  int64_t size = w.sizes[*wide], low = w.low[*wide], high = w.high[*wide];
  bool isRunning = low + high == size - 1 && (low == 0 || high == 0);
  return isRunning ? std::optional(std::pair(*wide, low != 0)) : std::nullopt;
}

/// Each element with what is before it (or behind), doubled step by step.
static Value running(FoldingBuilder &b, const Windows &w, Value x, int64_t dim,
                     bool isForward) {
  int64_t size = shapeOf(x)[dim];
  if (w.kind == "add" && isForward)
    return b.add(CumsumOp::create(b.plain.builder, b.plain.loc, x, dim), x);
  for (int64_t step = 1; step < size; step *= 2) {
    Sizes shape(shapeOf(x)), offsets(shape.size(), 0);
    offsets[dim] = isForward ? 0 : step;
    shape[dim] = size - step;
    Value kept = b.slice(x, offsets, shape);
    shape[dim] = step;
    Value none = b.splat(shape, typeOf(x).getElementType(), w.neutral);
    Value moved =
        isForward ? b.concat(dim, {none, kept}) : b.concat(dim, {kept, none});
    x = combined(b, w.kind, x, moved);
  }
  return x;
}

/// All windows at once, place by place.
static Value byPlace(FoldingBuilder &b, const Windows &w, Value x,
                     llvm::ArrayRef<int64_t> result) {
  Value whole = padded(b, x, w.low, w.high, {}, w.neutral), y;
  for (const Sizes &place : placesOf(w.sizes)) {
    Value part = readAt(b, whole, 0, place, w.dilations, w.strides, result);
    y = y ? combined(b, w.kind, y, part) : part;
  }
  return y;
}

/// Numbers of an attribute, one a dimension; ones where there are none.
static Sizes perDim(const Source &s, llvm::StringRef name) {
  Sizes sizes = sizesOf(s.op, name);
  if (sizes.empty())
    sizes.assign(s.shape().size(), 1);
  return sizes;
}

/// Whether sizes fit each other and the windows lie inside.
static bool fits(const Windows &w, Value x, llvm::ArrayRef<int64_t> result) {
  size_t rank = result.size();
  for (const Sizes *list : {&w.sizes, &w.strides, &w.dilations})
    if (list->size() != rank ||
        llvm::any_of(*list, [](int64_t n) { return n < 1; }))
      return false;
  if (shapeOf(x).size() != rank)
    return false;
  for (size_t d = 0; d < rank; ++d) {
    int64_t reach =
        (result[d] - 1) * w.strides[d] + (w.sizes[d] - 1) * w.dilations[d] + 1;
    if (w.low[d] < 0 || w.high[d] < 0 ||
        reach > shapeOf(x)[d] + w.low[d] + w.high[d])
      return false;
  }
  return true;
}

/// Whether a window's elements are combined by jnp.logaddexp, as it is lowered.
static bool isLogOfSum(Operation *op) {
  static const llvm::StringLiteral words[] = {
      "maximum",     "subtract",     "compare", "add",    "abs",   "negate",
      "exponential", "log_plus_one", "add",     "select", "return"};
  Block &body = op->getRegion(0).front();
  return body.getNumArguments() == 2 &&
         body.getOperations().size() == std::size(words) &&
         llvm::all_of(llvm::zip_equal(body, words), [](auto pair) {
           auto [inner, word] = pair;
           return inner.getName().stripDialect() == word;
         });
}

static Converted reduceWindow(const Source &s) {
  static const llvm::StringLiteral kinds[] = {"add", "multiply", "maximum",
                                              "minimum", kLogOfSum};
  Windows w;
  w.kind = isLogOfSum(s.op) ? llvm::StringRef(kLogOfSum) : combiner(s.op);
  auto initial = s.operands.size() == 2 ? FoldingBuilder::splatOf(s.operand(1))
                                        : std::nullopt;
  if (!llvm::is_contained(kinds, w.kind) || s.element().isInteger(1))
    return s.refuse("windows by other than sum, product, maximum and minimum");
  llvm::StringRef like = w.kind == kLogOfSum ? "maximum" : w.kind;
  if (!initial || !isNeutral(like, s.element(), *initial))
    return s.refuse("windows that begin with another number than the neutral "
                    "one");
  w.neutral = *initial;
  w.sizes = sizesOf(s.op, "window_dimensions");
  w.strides = perDim(s, "window_strides");
  w.dilations = perDim(s, "window_dilations");
  Sizes padding = sizesOf(s.op, "padding");
  padding.resize(2 * s.shape().size());
  for (size_t d = 0; d < s.shape().size(); ++d) {
    w.low.push_back(padding[2 * d]);
    w.high.push_back(padding[2 * d + 1]);
  }
  Value x = s.operand(0);
  auto isOne = [](int64_t n) { return n == 1; };
  if (!fits(w, x, s.shape()) ||
      !llvm::all_of(sizesOf(s.op, "base_dilations"), isOne))
    return s.refuse("windows whose sizes do not fit, or with holes in what "
                    "they read");
  if (auto dim = runningDim(w, x)) {
    Value y = running(s.b, w, x, dim->first, dim->second);
    int64_t count = w.sizes[dim->first];
    IntRange each = s.b.rangeOf(x);
    IntRange all = {std::min(each.low, each.low * count),
                    std::max(each.high, each.high * count)};
    if (w.kind == "add" && all.low >= INT32_MIN && all.high <= INT32_MAX)
      s.b.setRange(y, all); // of whole numbers
    return one(y);
  }
  if (w.places() > kMostPlaces)
    return s.refuse("a window of more than 256 places");
  return one(byPlace(s.b, w, x, s.shape()));
}

void kerf::addWindows(Conversions &table) {
  table["stablehlo.reduce_window"] = reduceWindow;
}
