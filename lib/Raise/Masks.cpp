#include "Masks.h"

#include "kerf/Dialect/Kerf/Constants.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

bool kerf::hides(std::optional<double> number, double scale) {
  return number && *number * scale <= -1e4;
}

/// Ops that are looked at for one value: masks are made of a few.
static constexpr int kMostOps = 256;

static std::optional<Seen> conditionIn(Seen seen, int &left);

/// The condition that the operands of a value of two numbers depend on: the
/// first one found.
static std::optional<Seen> conditionBelow(const Seen &seen, int &left) {
  Operation *op = seen.value.getDefiningOp();
  if (--left < 0 ||
      !isa_and_nonnull<SelectOp, CastOp, CompareOp, AddOp, SubOp, MulOp, NegOp>(
          op))
    return std::nullopt;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (auto found = conditionIn(seen.operand(i), left))
      return found;
  return std::nullopt;
}

/// The same of a value, which may be the condition.
static std::optional<Seen> conditionIn(Seen seen, int &left) {
  seen = lookThrough(seen);
  return typeOf(seen.value).getElementType().isInteger(1)
             ? seen
             : conditionBelow(seen, left);
}

/// The number that a value is where `condition` has this truth.
static std::optional<double> numberGiven(Seen seen, const Seen &condition,
                                         bool truth, int &left) {
  seen = lookThrough(seen);
  if (seen.value == condition.value && seen.dims == condition.dims)
    return truth;
  if (auto splat = splatOf(seen.value))
    return splat;
  if (--left < 0)
    return std::nullopt;
  Operation *op = seen.value.getDefiningOp();
  auto operand = [&](unsigned i) {
    return numberGiven(seen.operand(i), condition, truth, left);
  };
  if (isa_and_nonnull<SelectOp>(op)) {
    auto chosen = operand(0);
    return chosen ? operand(*chosen != 0 ? 1 : 2) : std::nullopt;
  }
  if (!isa_and_nonnull<CastOp, CompareOp, AddOp, SubOp, MulOp, NegOp>(op))
    return std::nullopt;
  auto a = operand(0);
  if (a && isa<CastOp>(op) && typeOf(seen.value).getElementType().isInteger(1))
    return *a != 0;
  if (!a || isa<CastOp>(op))
    return a;
  if (isa<NegOp>(op))
    return -*a;
  auto b = operand(1);
  if (!b)
    return std::nullopt;
  if (auto compare = dyn_cast<CompareOp>(op))
    return holds(compare.getKind(), *a, *b);
  return isa<AddOp>(op) ? *a + *b : isa<SubOp>(op) ? *a - *b : *a * *b;
}

static std::optional<double> numberGiven(const Seen &seen,
                                         const Seen &condition, bool truth) {
  int left = kMostOps;
  return numberGiven(seen, condition, truth, left);
}

namespace {

/// Reads masks of scores.
struct Reader {
  ScoreDims dims;

  /// c of `row div c`, or with `dim` another dimension of that.
  std::optional<int64_t> chunkNumber(Seen seen, int64_t dim) const {
    seen = lookThrough(seen);
    auto div = seen.op<DivOp>();
    auto size = div ? splatOf(div.getRhs()) : std::nullopt;
    if (!size || *size < 1 || !typeOf(seen.value).getElementType().isInteger())
      return std::nullopt;
    auto at = affineOf(seen.operand(0), dims);
    if (!at || at->rows != (dim == dims.row) ||
        at->columns != (dim == dims.column) || at->constant != 0)
      return std::nullopt;
    return static_cast<int64_t>(*size);
  }

  /// c of `(row div c) c`.
  std::optional<int64_t> chunkStart(Seen seen) const {
    seen = lookThrough(seen);
    auto mul = seen.op<MulOp>();
    if (!mul)
      return std::nullopt;
    for (auto [number, factor] : bothOrders(mul)) {
      auto size = chunkNumber({number, seen.dims}, dims.row);
      if (size && splatOf(factor) == static_cast<double>(*size))
        return size;
    }
    return std::nullopt;
  }

  /// `column >= (row div c) c`, or `row div c == column div c`.
  std::optional<MaskForm> chunksOf(CompareOp op, Seen seen) const {
    Seen a = seen.operand(0), b = seen.operand(1);
    MaskForm form;
    CompareKind kind = op.getKind();
    if (kind == CompareKind::EQ) {
      for (auto [row, column] : {std::pair(a, b), std::pair(b, a)}) {
        auto size = chunkNumber(row, dims.row);
        if (size && chunkNumber(column, dims.column) == size)
          form.chunk = size;
      }
    } else if (kind == CompareKind::GE || kind == CompareKind::LE) {
      auto [column, start] =
          kind == CompareKind::GE ? std::pair(a, b) : std::pair(b, a);
      auto at = affineOf(column, dims);
      if (at && at->rows == 0 && at->columns == 1 && at->constant == 0)
        form.chunk = chunkStart(start);
    }
    return form.chunk ? std::optional(form) : std::nullopt;
  }

  /// `column <= row`, or `column >= row - w + 1`.
  std::optional<MaskForm> comparisonOf(CompareOp op, Seen seen,
                                       bool isHidden) const {
    auto a = affineOf(seen.operand(0), dims);
    auto b = affineOf(seen.operand(1), dims);
    if (!a || !b) {
      if (isHidden)
        return std::nullopt;
      auto chunks = chunksOf(op, seen);
      return chunks ? chunks : documentsOf(op, seen);
    }
    // low + constant <= high
    Affine low = *a, high = *b;
    CompareKind kind = op.getKind();
    if (kind == CompareKind::GT || kind == CompareKind::GE)
      std::swap(low, high);
    else if (kind != CompareKind::LT && kind != CompareKind::LE)
      return std::nullopt;
    bool isStrict = kind == CompareKind::LT || kind == CompareKind::GT;
    if (isHidden) { // not low <= high: high < low
      std::swap(low, high);
      isStrict = !isStrict;
    }
    Affine difference = low - high + Affine{0, 0, isStrict};
    MaskForm form;
    if (difference.rows == -1 && difference.columns == 1 &&
        difference.constant == 0)
      form.isCausal = true;
    else if (difference.rows == 1 && difference.columns == -1 &&
             difference.constant < 1)
      form.window = 1 - difference.constant;
    else
      return std::nullopt;
    return form;
  }

  /// Equal numbers of documents of row and column.
  std::optional<MaskForm> documentsOf(CompareOp op, Seen seen) const {
    Seen a = lookThrough(seen.operand(0)), b = lookThrough(seen.operand(1));
    if (op.getKind() != CompareKind::EQ || a.value != b.value ||
        typeOf(a.value).getRank() != 2 || !isa<BlockArgument>(a.value))
      return std::nullopt;
    llvm::SmallVector<int64_t> row = {dims.batch, dims.row};
    llvm::SmallVector<int64_t> column = {dims.batch, dims.column};
    if (!(a.dims == row && b.dims == column) &&
        !(a.dims == column && b.dims == row))
      return std::nullopt;
    MaskForm form;
    form.segments = a.value;
    return form;
  }

  std::optional<MaskForm> both(Seen a, Seen b, bool isHidden) const {
    auto first = read(a, isHidden);
    auto second = first ? read(b, isHidden) : std::nullopt;
    if (!second || !join(*first, *second))
      return std::nullopt;
    return first;
  }

  /// Of truth values that say whether another condition holds, or not.
  std::optional<MaskForm> inner(const Seen &seen, bool isHidden) const {
    int left = kMostOps;
    auto condition = conditionBelow(seen, left);
    if (!condition)
      return std::nullopt;
    auto yes = numberGiven(seen, *condition, true);
    auto no = numberGiven(seen, *condition, false);
    if (!yes || !no || *yes == *no)
      return std::nullopt;
    return read(*condition, *yes != 0 ? isHidden : !isHidden);
  }

  std::optional<MaskForm> read(Seen seen, bool isHidden) const {
    seen = lookThrough(seen);
    if (splatOf(seen.value) == (isHidden ? 0.0 : 1.0))
      return MaskForm();
    if (seen.op<CastOp>())
      return inner(seen, isHidden);
    if (auto compare = seen.op<CompareOp>()) {
      auto form = comparisonOf(compare, seen, isHidden);
      return form ? form : inner(seen, isHidden);
    }
    auto select = seen.op<SelectOp>();
    if (!select)
      return std::nullopt;
    auto onTrue = splatOf(select.getOnTrue());
    auto onFalse = splatOf(select.getOnFalse());
    if (onTrue == 0.0 && onFalse == 1.0) // not
      return read(seen.operand(0), !isHidden);
    if (onFalse == 0.0 && !isHidden) // a and b
      return both(seen.operand(0), seen.operand(1), false);
    if (onTrue == 1.0 && isHidden) // not (a or b)
      return both(seen.operand(0), seen.operand(2), true);
    return std::nullopt;
  }
};

} // namespace

std::optional<Affine> kerf::affineOf(Seen seen, const ScoreDims &dims) {
  seen = lookThrough(seen);
  Operation *op = seen.value.getDefiningOp();
  if (auto iota = dyn_cast_or_null<IotaOp>(op)) {
    int64_t along = seen.dims[iota.getDim()];
    bool isOther = along >= 0 && along != dims.row && along != dims.column;
    if (iota.getOffset() || iota.getZigzag() || isOther)
      return std::nullopt;
    return Affine{along == dims.row, along == dims.column, 0};
  }
  if (auto splat = splatOf(seen.value)) {
    if (*splat != std::round(*splat) || std::abs(*splat) > 1e9)
      return std::nullopt;
    return Affine{0, 0, static_cast<int64_t>(*splat)};
  }
  if (isa_and_nonnull<CastOp>(op))
    return affineOf(seen.operand(0), dims);
  if (!isa_and_nonnull<AddOp, SubOp, NegOp>(op))
    return std::nullopt;
  auto a = affineOf(seen.operand(0), dims);
  if (a && isa<NegOp>(op))
    return Affine{} - *a;
  auto b = a ? affineOf(seen.operand(1), dims) : std::nullopt;
  if (!b)
    return std::nullopt;
  return isa<AddOp>(op) ? *a + *b : *a - *b;
}

std::optional<Hiding> kerf::hidingOf(const Seen &summand, double scale) {
  int left = kMostOps;
  auto condition = conditionIn(summand, left);
  if (!condition)
    return std::nullopt;
  for (bool isHidden : {false, true})
    if (numberGiven(summand, *condition, !isHidden) == 0.0 &&
        hides(numberGiven(summand, *condition, isHidden), scale))
      return Hiding{*condition, isHidden};
  return std::nullopt;
}

bool kerf::isShown(const Seen &factor, const Hiding &hiding) {
  bool shown = !hiding.isHidden;
  return numberGiven(factor, hiding.condition, shown) == 1.0 &&
         numberGiven(factor, hiding.condition, !shown) == 0.0;
}

bool kerf::join(MaskForm &form, const MaskForm &more) {
  if ((form.window && more.window) || (form.segments && more.segments) ||
      (form.chunk && more.chunk))
    return false;
  form.isCausal |= more.isCausal;
  if (more.window)
    form.window = more.window;
  if (more.segments)
    form.segments = more.segments;
  if (more.chunk)
    form.chunk = more.chunk;
  return true;
}

std::optional<MaskForm> kerf::maskOf(const Seen &mask, bool isHidden,
                                     const ScoreDims &dims) {
  return Reader{dims}.read(mask, isHidden);
}
