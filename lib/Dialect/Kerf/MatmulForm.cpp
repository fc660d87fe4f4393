//===- MatmulForm.cpp - contractions as strided matmuls -------------------===//
//
// The dimensions of a contraction fall into four classes by where their factor
// occurs: batch (a, b, c), m (a, c), n (b, c), k (a, b). It is one matmul when
// the dimensions of each class merge into one, with one stride, in each tensor.
//
//   bsk,nk->bsn: m = {b, s}, n = {n}, k = {k}; dense x merges b and s.
//   bsn,bsk->nk: the columns of the result are k; a is the first operand
//   transposed: m = {n}, n = {k}, k = {b, s}.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/MatmulEnd.h"

using namespace mlir;
using namespace kerf;

Strides kerf::denseStrides(llvm::ArrayRef<int64_t> shape) {
  Strides strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

namespace {
/// One tensor of a contraction: a factor and a stride per dimension.
struct Term {
  llvm::SmallVector<unsigned, 4> factors;
  Strides strides;

  bool has(unsigned factor) const {
    return llvm::is_contained(factors, factor);
  }
  int64_t strideOf(unsigned factor) const {
    return strides[llvm::find(factors, factor) - factors.begin()];
  }
};

/// Dimensions of one class, major to minor.
struct DimClass {
  llvm::SmallVector<unsigned, 4> factors;
  int64_t size = 1;
};
} // namespace

/// One factor per dimension, or nothing.
static std::optional<Term> makeTerm(const TensorFactors &factors,
                                    const Strides &strides) {
  Term term{{}, strides};
  for (const DimFactors &dim : factors) {
    if (dim.size() != 1)
      return std::nullopt;
    term.factors.push_back(dim[0]);
  }
  return term;
}

/// The factors of `in` for which `belongs` holds, in order.
static DimClass makeClass(const Term &in, const Factors &all,
                          llvm::function_ref<bool(unsigned)> belongs) {
  DimClass dims;
  for (unsigned factor : in.factors)
    if (belongs(factor)) {
      dims.factors.push_back(factor);
      dims.size *= all.factors[factor].size;
    }
  return dims;
}

/// The stride of the merged dimension of a class in a tensor, or nothing if it
/// does not merge. Dimensions of size 1 have no stride.
static std::optional<int64_t>
mergedStride(const DimClass &dims, const Factors &all, const Term &term) {
  int64_t stride = 0, expected = 0;
  for (unsigned factor : llvm::reverse(dims.factors)) {
    int64_t size = all.factors[factor].size;
    if (size == 1)
      continue;
    int64_t found = term.strideOf(factor);
    if (expected == 0)
      stride = found;
    else if (found != expected)
      return std::nullopt;
    expected = found * size;
  }
  return expected == 0 ? 1 : stride;
}

/// The form in which the columns of the result are dimensions of `b`.
static std::optional<MatmulForm> formOf(const Factors &all, const Term &a,
                                        const Term &b, const Term &c) {
  DimClass batch =
      makeClass(c, all, [&](unsigned f) { return a.has(f) && b.has(f); });
  DimClass m =
      makeClass(c, all, [&](unsigned f) { return a.has(f) && !b.has(f); });
  DimClass n =
      makeClass(c, all, [&](unsigned f) { return !a.has(f) && b.has(f); });
  DimClass k =
      makeClass(a, all, [&](unsigned f) { return b.has(f) && !c.has(f); });
  if (a.factors.size() !=
          batch.factors.size() + m.factors.size() + k.factors.size() ||
      b.factors.size() !=
          batch.factors.size() + n.factors.size() + k.factors.size())
    return std::nullopt;
  auto matrix =
      [&](const Term &term, const DimClass &rows,
          const DimClass &columns) -> std::optional<MatmulForm::Matrix> {
    auto batchStride = mergedStride(batch, all, term);
    auto row = mergedStride(rows, all, term);
    auto column = mergedStride(columns, all, term);
    if (!batchStride || !row || !column)
      return std::nullopt;
    MatmulForm::Matrix matrix;
    matrix.batch = batch.size == 1 ? 0 : *batchStride;
    // A single row or column has no stride of its own.
    matrix.column = columns.size == 1 ? 1 : *column;
    matrix.row = *row;
    if (rows.size == 1)
      matrix.row = matrix.column == 1 ? columns.size : 1;
    return matrix;
  };
  auto left = matrix(a, m, k), right = matrix(b, k, n), out = matrix(c, m, n);
  if (!left || !right || !out || out->column != 1)
    return std::nullopt;
  auto unitStride = [](const MatmulForm::Matrix &x) {
    return x.row == 1 || x.column == 1;
  };
  if (!unitStride(*left) || !unitStride(*right))
    return std::nullopt;
  return MatmulForm{batch.size, m.size, n.size, k.size,
                    *left,      *right, *out,   std::nullopt};
}

std::optional<MatmulForm> kerf::getMatmulForm(Operation *op,
                                              llvm::ArrayRef<Strides> operands,
                                              const Strides &result) {
  if (!isa<LinearOp, MatmulOp, EinsumOp>(op))
    return std::nullopt;
  Factors factors = cast<FactorOpInterface>(op).getFactors();
  auto lhs = makeTerm(factors.operands[0], operands[0]);
  auto rhs = makeTerm(factors.operands[1], operands[1]);
  auto out = makeTerm(factors.results[0], result);
  if (!lhs || !rhs || !out)
    return std::nullopt;
  std::optional<MatmulForm> form = formOf(factors, *lhs, *rhs, *out);
  unsigned first = 0;
  // The transposed matmul, where the columns come from the first operand.
  if (!form) {
    form = formOf(factors, *rhs, *lhs, *out);
    first = 1;
  }
  if (!form)
    return std::nullopt;
  form->a.operand = first;
  form->b.operand = 1 - first;
  if (op->getNumOperands() > 2) {
    if (first != 0)
      return std::nullopt;
    form->bias = 2;
  }
  return form;
}

std::optional<MatmulForm> kerf::getMatmulForm(Operation *op) {
  llvm::SmallVector<Strides> operands;
  for (Value operand : op->getOperands())
    operands.push_back(denseStrides(typeOf(operand).getShape()));
  return getMatmulForm(op, operands,
                       denseStrides(typeOf(op->getResult(0)).getShape()));
}

static bool isRowSum(ReduceOp reduce) {
  int64_t rank = typeOf(reduce.getX()).getRank();
  return reduce.getKind() == ReduceKind::Sum && rank > 1 &&
         llvm::equal(reduce.getDims(), llvm::seq<int64_t>(0, rank - 1));
}

MatmulEnd kerf::matmulEndOf(Operation *op) {
  auto gelu = dyn_cast<GeluOp>(op);
  if (gelu && gelu.getKind() == GeluKind::Tanh)
    return MatmulEnd::Gelu;
  auto backward = dyn_cast<GeluBackwardOp>(op);
  if (backward && backward.getKind() == GeluKind::Tanh)
    return MatmulEnd::GeluBackward;
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && isRowSum(reduce) ? MatmulEnd::RowSum : MatmulEnd::None;
}

bool kerf::sumsOverRows(const MatmulForm &form, unsigned operand,
                        int64_t columns) {
  if (form.a.operand == operand)
    return form.m == columns && (form.m == 1 || form.a.row == 1) &&
           (form.k == 1 || form.a.column == columns);
  return form.n == columns && (form.n == 1 || form.b.column == 1) &&
         (form.k == 1 || form.b.row == columns);
}
