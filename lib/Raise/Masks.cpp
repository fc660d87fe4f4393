#include "Masks.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

namespace {

/// row rows + column columns + constant.
struct Affine {
  int64_t rows = 0, columns = 0, constant = 0;

  Affine operator-(const Affine &other) const {
    return {rows - other.rows, columns - other.columns,
            constant - other.constant};
  }
  Affine operator+(const Affine &other) const {
    return {rows + other.rows, columns + other.columns,
            constant + other.constant};
  }
  bool isConstant() const { return rows == 0 && columns == 0; }
};

/// Reads masks of scores.
struct Reader {
  ScoreDims dims;

  std::optional<Affine> affineOf(Seen seen) const {
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
      return affineOf(seen.operand(0));
    if (!isa_and_nonnull<AddOp, SubOp, NegOp>(op))
      return std::nullopt;
    auto a = affineOf(seen.operand(0));
    if (a && isa<NegOp>(op))
      return Affine{} - *a;
    auto b = a ? affineOf(seen.operand(1)) : std::nullopt;
    if (!b)
      return std::nullopt;
    return isa<AddOp>(op) ? *a + *b : *a - *b;
  }

  /// `column <= row`, or `column >= row - w + 1`.
  std::optional<MaskForm> comparisonOf(CompareOp op, Seen seen,
                                       bool isHidden) const {
    auto a = affineOf(seen.operand(0)), b = affineOf(seen.operand(1));
    if (!a || !b)
      return isHidden ? std::nullopt : documentsOf(op, seen);
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

  std::optional<MaskForm> read(Seen seen, bool isHidden) const {
    seen = lookThrough(seen);
    if (splatOf(seen.value) == (isHidden ? 0.0 : 1.0))
      return MaskForm();
    if (auto compare = seen.op<CompareOp>())
      return comparisonOf(compare, seen, isHidden);
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

bool kerf::join(MaskForm &form, const MaskForm &more) {
  if ((form.window && more.window) || (form.segments && more.segments))
    return false;
  form.isCausal |= more.isCausal;
  if (more.window)
    form.window = more.window;
  if (more.segments)
    form.segments = more.segments;
  return true;
}

std::optional<MaskForm> kerf::maskOf(const Seen &mask, bool isHidden,
                                     const ScoreDims &dims) {
  return Reader{dims}.read(mask, isHidden);
}
