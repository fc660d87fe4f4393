#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Dialect/Kerf/Random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace kerf;

using Operands = llvm::ArrayRef<const HostTensor *>;
using Results = llvm::MutableArrayRef<HostTensor>;
using Index = llvm::ArrayRef<int64_t>;

/// Position of an index in row-major order.
static int64_t flatten(Index index, Index strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(),
                            int64_t(0));
}

static double asDouble(llvm::APFloat element) {
  bool losesInfo;
  element.convert(llvm::APFloat::IEEEdouble(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return element.convertToDouble();
}

static double asDouble(const llvm::APInt &element) {
  bool isBool = element.getBitWidth() == 1;
  return isBool ? double(element.getZExtValue())
                : double(element.getSExtValue());
}

template <typename Element>
static void fillFrom(DenseElementsAttr value, std::vector<double> &data) {
  if (value.isSplat())
    return std::fill(data.begin(), data.end(),
                     asDouble(value.getSplatValue<Element>()));
  for (auto [i, element] : llvm::enumerate(value.getValues<Element>()))
    data[i] = asDouble(element);
}

void ConstantOp::evaluate(Operands, Results results) {
  auto value = cast<DenseElementsAttr>(getValue());
  if (isa<FloatType>(value.getElementType()))
    fillFrom<llvm::APFloat>(value, results[0].data);
  else
    fillFrom<llvm::APInt>(value, results[0].data);
}

void IotaOp::evaluate(Operands operands, Results results) {
  double offset = getOffset() ? operands[0]->data[0] : 0;
  int64_t i = 0;
  forEachIndex(results[0].shape(), [&](Index index) {
    auto row = static_cast<int64_t>(index[getDim()] + offset);
    results[0].data[i++] = getZigzag() ? getZigzag()->positionOf(row) : row;
  });
}

void RandomUniformOp::evaluate(Operands operands, Results results) {
  auto scalar = [&](unsigned operand) {
    return static_cast<int64_t>(operands[operand]->data[0]);
  };
  unsigned next = 2;
  int64_t layer = getLayer() ? scalar(next++) : -1;
  llvm::SmallVector<int64_t> offsets(results[0].shape().size(), 0);
  if (!getOffsets().empty())
    for (int64_t &offset : offsets)
      offset = scalar(next++);
  auto strides = stridesOf(getGlobal() ? *getGlobal() : results[0].shape());
  uint64_t stream = randomStream(scalar(0), scalar(1), layer, getName());
  int64_t i = 0;
  forEachIndex(results[0].shape(), [&](Index index) {
    int64_t position = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
      int64_t row = index[d] + offsets[d];
      if (getZigzag() && getZigzag()->orders(d))
        row = getZigzag()->positionOf(row);
      position += row * strides[d];
    }
    results[0].data[i++] = uniformAt(stream, position);
  });
}

void BroadcastOp::evaluate(Operands operands, Results results) {
  auto strides = stridesOf(operands[0]->shape());
  int64_t i = 0;
  forEachIndex(results[0].shape(), [&](Index index) {
    int64_t from = 0;
    for (auto [d, dim] : llvm::enumerate(getDims()))
      from += index[dim] * strides[d];
    results[0].data[i++] = operands[0]->data[from];
  });
}

void ReshapeOp::evaluate(Operands operands, Results results) {
  results[0].data = operands[0]->data;
}

void TransposeOp::evaluate(Operands operands, Results results) {
  auto strides = stridesOf(operands[0]->shape());
  llvm::SmallVector<int64_t> permuted;
  for (int64_t dim : getPerm())
    permuted.push_back(strides[dim]);
  int64_t i = 0;
  forEachIndex(results[0].shape(), [&](Index index) {
    results[0].data[i++] = operands[0]->data[flatten(index, permuted)];
  });
}

void SliceOp::evaluate(Operands operands, Results results) {
  auto strides = stridesOf(operands[0]->shape());
  int64_t start = flatten(getOffsets(), strides), i = 0;
  forEachIndex(results[0].shape(), [&](Index index) {
    results[0].data[i++] = operands[0]->data[start + flatten(index, strides)];
  });
}

void PadOp::evaluate(Operands operands, Results results) {
  auto strides = stridesOf(results[0].shape());
  int64_t start = flatten(getLow(), strides), i = 0;
  forEachIndex(operands[0]->shape(), [&](Index index) {
    results[0].data[start + flatten(index, strides)] = operands[0]->data[i++];
  });
}

void ConcatOp::evaluate(Operands operands, Results results) {
  auto strides = stridesOf(results[0].shape());
  int64_t start = 0;
  for (const HostTensor *input : operands) {
    int64_t i = 0;
    forEachIndex(input->shape(), [&](Index index) {
      results[0].data[start + flatten(index, strides)] = input->data[i++];
    });
    start += input->shape()[getDim()] * strides[getDim()];
  }
}

/// Strides of the letters of `all` in a term of an einsum, 0 where absent.
static llvm::SmallVector<int64_t>
termStrides(llvm::StringRef all, llvm::StringRef term, Index shape) {
  auto own = stridesOf(shape);
  llvm::SmallVector<int64_t> strides;
  for (char letter : all) {
    size_t at = term.find(letter);
    strides.push_back(at == llvm::StringRef::npos ? 0 : own[at]);
  }
  return strides;
}

void EinsumOp::evaluate(Operands operands, Results results) {
  auto [terms, out] = getEquation().split("->");
  auto [lhs, rhs] = terms.split(',');
  std::string summed;
  llvm::SmallVector<int64_t> sizes;
  for (auto [letter, size] : llvm::zip(lhs, operands[0]->shape()))
    if (!out.contains(letter)) {
      summed += letter;
      sizes.push_back(size);
    }
  auto outA = termStrides(out, lhs, operands[0]->shape());
  auto outB = termStrides(out, rhs, operands[1]->shape());
  auto sumA = termStrides(summed, lhs, operands[0]->shape());
  auto sumB = termStrides(summed, rhs, operands[1]->shape());
  // Offsets of the summed letters are the same for every result.
  std::vector<std::pair<int64_t, int64_t>> steps;
  forEachIndex(sizes, [&](Index index) {
    steps.emplace_back(flatten(index, sumA), flatten(index, sumB));
  });
  const double *a = operands[0]->data.data(), *b = operands[1]->data.data();
  int64_t i = 0;
  forEachIndex(results[0].shape(), [&](Index index) {
    const double *rowA = a + flatten(index, outA);
    const double *rowB = b + flatten(index, outB);
    double sum = 0;
    for (auto [stepA, stepB] : steps)
      sum += rowA[stepA] * rowB[stepB];
    results[0].data[i++] = sum;
  });
}

void ReduceOp::evaluate(Operands operands, Results results) {
  bool isMax = getKind() == ReduceKind::Max;
  auto &out = results[0].data;
  if (isMax)
    std::fill(out.begin(), out.end(), -INFINITY);
  auto own = stridesOf(results[0].shape());
  llvm::SmallVector<int64_t> strides;
  for (size_t d = 0, next = 0; d < operands[0]->shape().size(); ++d)
    strides.push_back(llvm::is_contained(getDims(), static_cast<int64_t>(d))
                          ? 0
                          : own[next++]);
  int64_t i = 0;
  forEachIndex(operands[0]->shape(), [&](Index index) {
    double &to = out[flatten(index, strides)];
    double x = operands[0]->data[i++];
    if (!isMax)
      to += x;
    else if (std::isnan(x) || x > to)
      to = x;
  });
}

void CumsumOp::evaluate(Operands operands, Results results) {
  auto strides = stridesOf(results[0].shape());
  int64_t i = 0;
  forEachIndex(results[0].shape(), [&](Index index) {
    int64_t before = i - strides[getDim()];
    results[0].data[i] = index[getDim()] == 0 ? 0
                                              : results[0].data[before] +
                                                    operands[0]->data[before];
    ++i;
  });
}

void TopKOp::evaluate(Operands operands, Results results) {
  int64_t width = operands[0]->shape().back(), k = getK();
  std::vector<int64_t> order(width);
  for (int64_t row = 0; row * width < operands[0]->size(); ++row) {
    const double *x = operands[0]->data.data() + row * width;
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      if (std::isnan(x[a]) != std::isnan(x[b]))
        return std::isnan(x[a]);
      return x[a] > x[b] || (!(x[b] > x[a]) && a < b);
    });
    for (int64_t j = 0; j < k; ++j) {
      results[0].data[row * k + j] = x[order[j]];
      results[1].data[row * k + j] = order[j];
    }
  }
}

void GatherOp::evaluate(Operands operands, Results results) {
  int64_t rows = operands[0]->shape()[0];
  int64_t width = rows == 0 ? 0 : operands[0]->size() / rows;
  for (int64_t i = 0; i < operands[1]->size(); ++i) {
    int64_t row = operands[1]->data[i];
    if (row >= 0 && row < rows)
      std::copy_n(operands[0]->data.begin() + row * width, width,
                  results[0].data.begin() + i * width);
  }
}

void ScatterAddOp::evaluate(Operands operands, Results results) {
  int64_t rows = results[0].shape()[0];
  int64_t width = rows == 0 ? 0 : results[0].size() / rows;
  for (int64_t i = 0; i < operands[1]->size(); ++i) {
    int64_t row = operands[1]->data[i];
    if (row < 0 || row >= rows)
      continue;
    for (int64_t j = 0; j < width; ++j)
      results[0].data[row * width + j] += operands[0]->data[i * width + j];
  }
}
