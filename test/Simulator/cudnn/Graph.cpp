//===- Graph.cpp - an operation graph of cuDNN, computed in f64 -----------===//

#include "Graph.h"

#include "Lanes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

using namespace kerf::cuda;
using namespace kerf::sim;

using Shape = std::array<int64_t, 4>;

// ---- Checks -----------------------------------------------------------------

int64_t kerf::sim::bytesOf(cudnnDataType_t type) {
  switch (type) {
  case CUDNN_DATA_FLOAT:
  case CUDNN_DATA_INT32:
    return 4;
  case CUDNN_DATA_HALF:
  case CUDNN_DATA_BFLOAT16:
    return 2;
  case CUDNN_DATA_BOOLEAN:
    return 1;
  }
  return 0;
}

int64_t kerf::sim::extentOf(const GraphTensor &tensor) {
  int64_t last = 0;
  for (int i = 0; i < 4; ++i)
    last += (tensor.shape[i] - 1) * tensor.strides[i];
  return (last + 1) * bytesOf(tensor.type);
}

std::string GraphTensor::check() const {
  if (id == 0 || !bytesOf(type))
    return "a tensor without an id, or of an unknown type";
  if (alignment < 1 || (alignment & (alignment - 1)))
    return "a tensor whose alignment is no power of two";
  std::vector<std::pair<int64_t, int64_t>> order;
  for (int i = 0; i < 4; ++i) {
    if (shape[i] < 1 || strides[i] < 1)
      return "a size or a stride that is not positive";
    if (shape[i] > 1)
      order.push_back({strides[i], shape[i]});
  }
  std::sort(order.begin(), order.end());
  int64_t next = 1; // where the next number of this dimension may lie
  for (auto [stride, size] : order) {
    if (stride < next)
      return "tensor " + std::to_string(id) + " overlaps itself";
    next = stride * (size - 1) + next;
  }
  if (isValue && count() != 1)
    return "a value that is not one number";
  return "";
}

/// May `small` stand for a tensor of shape `large`? Heads may be shared.
static bool stands(const Shape &small, const Shape &large) {
  for (int i = 0; i < 4; ++i)
    if (small[i] != large[i] && small[i] != 1 &&
        (i != 1 || large[i] % small[i] != 0))
      return false;
  return true;
}

static std::string checkMatmul(const GraphOperation &o) {
  const Shape &x = o.x.shape, &b = o.b.shape, &y = o.y.shape;
  if (o.b.id == 0 || x[3] != b[2] || x[2] != y[2] || b[3] != y[3] ||
      !stands({x[0], x[1], 1, 1}, y) || !stands({b[0], b[1], 1, 1}, y))
    return "factors that do not fit the matmul";
  return "";
}

static std::string checkPointwise(const GraphOperation &o) {
  bool compares =
      o.mode >= CUDNN_POINTWISE_CMP_EQ && o.mode < CUDNN_POINTWISE_GEN_INDEX;
  bool selects = o.mode == CUDNN_POINTWISE_BINARY_SELECT;
  bool isUnary =
      o.mode == CUDNN_POINTWISE_EXP || o.mode == CUDNN_POINTWISE_LOG ||
      o.mode == CUDNN_POINTWISE_IDENTITY || o.mode == CUDNN_POINTWISE_GEN_INDEX;
  if (isUnary != (o.b.id == 0) || selects != (o.t.id != 0))
    return "a pointwise operation with other operands than its mode has";
  if ((o.mode == CUDNN_POINTWISE_GEN_INDEX) != (o.axis >= 0 && o.axis < 4))
    return "an axis of a mode without, or a mode without its axis";
  if (compares != (o.y.type == CUDNN_DATA_BOOLEAN) ||
      (selects && o.t.type != CUDNN_DATA_BOOLEAN))
    return "a comparison is boolean, and nothing else";
  for (const GraphTensor *operand : {&o.x, &o.b, &o.t})
    if (operand->id && !stands(operand->shape, o.y.shape))
      return "an operand that does not fit the result";
  return "";
}

std::string GraphOperation::check() const {
  if (x.id == 0 || y.id == 0)
    return "an operation without operand or result";
  switch (kind) {
  case GraphKind::Matmul:
    return checkMatmul(*this);
  case GraphKind::Pointwise:
    return checkPointwise(*this);
  case GraphKind::Reduction:
    return stands(y.shape, x.shape) ? "" : "a reduction to another shape";
  case GraphKind::Reshape:
    return x.count() == y.count() ? "" : "a reshape to another size";
  }
  return "";
}

static bool isSame(const GraphTensor &a, const GraphTensor &b) {
  return a.type == b.type && a.shape == b.shape && a.strides == b.strides &&
         a.isInner == b.isInner && a.isValue == b.isValue;
}

std::string GraphProgram::take(std::vector<GraphOperation> given) {
  std::set<int64_t> made;
  for (const GraphOperation &o : given) {
    for (const GraphTensor *t : {&o.x, &o.b, &o.t, &o.y}) {
      auto [at, isNew] = tensors.try_emplace(t->id, *t);
      if (t->id && !isNew && !isSame(at->second, *t))
        return "two tensors have the id " + std::to_string(t->id);
    }
    if (o.y.isValue || !made.insert(o.y.id).second)
      return "a result that is a value or has two operations";
  }
  tensors.erase(0);
  std::set<int64_t> known{0};
  for (auto &[id, tensor] : tensors)
    if (!tensor.isInner && !made.count(id))
      known.insert(id);
  while (!given.empty()) {
    auto ready =
        std::find_if(given.begin(), given.end(), [&](const GraphOperation &o) {
          return known.count(o.x.id) && known.count(o.b.id) &&
                 known.count(o.t.id);
        });
    if (ready == given.end())
      return "an operand that nothing makes";
    known.insert(ready->y.id);
    operations.push_back(*ready);
    given.erase(ready);
  }
  return "";
}

bool GraphProgram::addsInMemory() const {
  return std::any_of(operations.begin(), operations.end(),
                     [](const GraphOperation &o) {
                       return o.kind == GraphKind::Matmul && !o.y.isInner &&
                              o.y.type == CUDNN_DATA_FLOAT;
                     });
}

/// As what cuDNN 9.19 asks for: a little for attention, gradients of scores
/// (16 bits) and of shared heads for its gradient. Where a matmul is added up
/// in f32 in memory, gradients of scores are not kept.
int64_t GraphProgram::workspaceBytes() const {
  int64_t bytes = 256, matmuls = 0;
  for (const GraphOperation &o : operations) {
    if (o.kind == GraphKind::Matmul && ++matmuls == 1 && !addsInMemory())
      bytes += 2 * o.y.shape[0] * o.y.shape[1] * ((o.y.shape[2] + 63) / 64) *
               64 * ((o.y.shape[3] + 127) / 128) * 128;
    if (o.kind == GraphKind::Matmul && o.y.isInner &&
        o.y.type != CUDNN_DATA_FLOAT)
      bytes += 2 * o.y.count();
  }
  return matmuls > 2 ? bytes : 256;
}

// ---- Numbers ----------------------------------------------------------------

static double readNumber(const uint8_t *at, cudnnDataType_t type) {
  float single;
  int32_t whole;
  U16 bits;
  switch (type) {
  case CUDNN_DATA_FLOAT:
    memcpy(&single, at, sizeof single);
    return single;
  case CUDNN_DATA_INT32:
    memcpy(&whole, at, sizeof whole);
    return whole;
  case CUDNN_DATA_BOOLEAN:
    return *at != 0;
  default:
    memcpy(&bits, at, sizeof bits);
    return type == CUDNN_DATA_HALF ? float(F16{bits}) : float(BF16{bits});
  }
}

static void writeNumber(uint8_t *at, cudnnDataType_t type, double value) {
  auto single = static_cast<float>(value);
  if (type == CUDNN_DATA_FLOAT) {
    memcpy(at, &single, sizeof single);
    return;
  }
  if (type == CUDNN_DATA_INT32) {
    auto whole = static_cast<int32_t>(value);
    memcpy(at, &whole, sizeof whole);
    return;
  }
  U16 bits = type == CUDNN_DATA_HALF ? toF16(single).bits : toBf16(single).bits;
  memcpy(at, &bits, sizeof bits);
}

/// As the type of an inner tensor holds it; f32 stays f64.
static double rounded(double value, cudnnDataType_t type) {
  if (bytesOf(type) != 2)
    return value;
  uint8_t bytes[4];
  writeNumber(bytes, type, value);
  return readNumber(bytes, type);
}

namespace {
/// Numbers of a tensor, [batch, head, row, column].
struct Numbers {
  Shape shape{};
  std::vector<double> values;

  /// The one that stands for place `i` of a tensor of shape `of`.
  double &at(const Shape &i, const Shape &of) {
    int64_t index = 0;
    for (int n = 0; n < 4; ++n)
      index = index * shape[n] + i[n] * shape[n] / of[n];
    return values[index];
  }
};

/// Calls for all places of a shape.
template <class Body> void forAll(const Shape &shape, Body body) {
  Shape i;
  for (i[0] = 0; i[0] < shape[0]; ++i[0])
    for (i[1] = 0; i[1] < shape[1]; ++i[1])
      for (i[2] = 0; i[2] < shape[2]; ++i[2])
        for (i[3] = 0; i[3] < shape[3]; ++i[3])
          body(i);
}

/// One run of a program.
struct Run {
  const std::map<int64_t, uint8_t *> &memory;
  std::map<int64_t, Numbers> numbers;

  void compute(const GraphOperation &operation);

private:
  Numbers &read(const GraphTensor &tensor);
  void store(const GraphTensor &tensor, Numbers &&result);
  double combine(const GraphOperation &o, const Shape &i);
  Numbers multiply(const GraphOperation &o);
  Numbers reduce(const GraphOperation &o);
};
} // namespace

static int64_t placeOf(const GraphTensor &tensor, const Shape &i) {
  int64_t place = 0;
  for (int n = 0; n < 4; ++n)
    place += i[n] * tensor.strides[n];
  return place * bytesOf(tensor.type);
}

Numbers &Run::read(const GraphTensor &tensor) {
  auto [at, isNew] = numbers.try_emplace(tensor.id);
  Numbers &result = at->second;
  if (!isNew)
    return result;
  result = {tensor.shape, {}};
  const uint8_t *data = memory.at(tensor.id);
  forAll(tensor.shape, [&](const Shape &i) {
    result.values.push_back(readNumber(data + placeOf(tensor, i), tensor.type));
  });
  return result;
}

void Run::store(const GraphTensor &tensor, Numbers &&result) {
  for (double &value : result.values)
    value = rounded(value, tensor.type);
  Numbers &kept = numbers[tensor.id] = std::move(result);
  if (tensor.isInner)
    return;
  uint8_t *data = memory.at(tensor.id);
  forAll(tensor.shape, [&](const Shape &i) {
    writeNumber(data + placeOf(tensor, i), tensor.type,
                kept.at(i, tensor.shape));
  });
}

// ---- Operations -------------------------------------------------------------

double Run::combine(const GraphOperation &o, const Shape &i) {
  const Shape &of = o.y.shape;
  if (o.mode == CUDNN_POINTWISE_GEN_INDEX)
    return static_cast<double>(i[o.axis]);
  double x = read(o.x).at(i, of), b = o.b.id ? read(o.b).at(i, of) : 0;
  switch (o.mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_IDENTITY:
    return x;
  case CUDNN_POINTWISE_CMP_EQ:
    return x == b;
  case CUDNN_POINTWISE_CMP_GT:
    return x > b;
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return read(o.t).at(i, of) != 0 ? x : b;
  }
  return NAN;
}

Numbers Run::multiply(const GraphOperation &o) {
  Numbers &x = read(o.x), &b = read(o.b), result{o.y.shape, {}};
  int64_t depth = o.x.shape[3];
  Shape xOf = o.y.shape, bOf = o.y.shape;
  xOf[3] = bOf[2] = depth;
  forAll(o.y.shape, [&](const Shape &i) {
    double sum = 0;
    for (int64_t n = 0; n < depth; ++n)
      sum +=
          x.at({i[0], i[1], i[2], n}, xOf) * b.at({i[0], i[1], n, i[3]}, bOf);
    result.values.push_back(sum);
  });
  return result;
}

Numbers Run::reduce(const GraphOperation &o) {
  bool isMax = o.mode == CUDNN_REDUCE_TENSOR_MAX;
  double none = isMax ? -std::numeric_limits<double>::infinity() : 0;
  Numbers result{o.y.shape, std::vector<double>(o.y.count(), none)};
  Numbers &x = read(o.x);
  forAll(o.x.shape, [&](const Shape &i) {
    double value = x.at(i, o.x.shape), &into = result.at(i, o.x.shape);
    into = isMax ? std::max(into, value) : into + value;
  });
  return result;
}

void Run::compute(const GraphOperation &o) {
  switch (o.kind) {
  case GraphKind::Matmul:
    return store(o.y, multiply(o));
  case GraphKind::Reduction:
    return store(o.y, reduce(o));
  case GraphKind::Pointwise: {
    Numbers result{o.y.shape, {}};
    forAll(o.y.shape,
           [&](const Shape &i) { result.values.push_back(combine(o, i)); });
    return store(o.y, std::move(result));
  }
  case GraphKind::Reshape: {
    // The numbers where they would lie, seen with other strides.
    std::map<int64_t, double> places;
    Numbers &x = read(o.x), result{o.y.shape, {}};
    auto at = [](const GraphTensor &t, const Shape &i) {
      return placeOf(t, i) / bytesOf(t.type);
    };
    forAll(o.x.shape,
           [&](const Shape &i) { places[at(o.x, i)] = x.at(i, o.x.shape); });
    forAll(o.y.shape, [&](const Shape &i) {
      auto found = places.find(at(o.y, i));
      result.values.push_back(found == places.end() ? NAN : found->second);
    });
    return store(o.y, std::move(result));
  }
  }
}

void GraphProgram::run(const std::map<int64_t, uint8_t *> &memory) const {
  Run state{memory, {}};
  for (const GraphOperation &operation : operations)
    state.compute(operation);
}
