//===- CudnnAttention.cpp - attention as operation graphs of cuDNN --------===//
//
// cuDNN's engines for attention look for a pattern of small operations: two
// matmuls with a softmax between them, whose scores may pass through further
// operations (masks). Forward, with s = scores of a row:
//
//   s = q k^T * scale, masked;  m = max s;  e = exp(s - m);  z = sum e
//   lse = m + log z;  y = (e / z) v
//
// Backward, with p = exp(q k^T * scale - lse), masked:
//
//   delta = sum(dy y);  dv = p^T dy
//   ds = p (dy v^T - delta) scale;  dk = ds^T q;  dq = ds k
//
// Heads that share keys have dk and dv of their own first, which are added.
// That ds k goes straight into dq, and not into a sum of f32 that blocks add
// to, makes cuDNN keep ds in its workspace: no order of sums depends on the
// order of blocks then. Where any order will do, the sum is there. Names and
// order of operations follow NVIDIA's cudnn-frontend, whose patterns are what
// cuDNN is tested with.
//
//===----------------------------------------------------------------------===//

#include "CudnnAttention.h"

#include <bit>
#include <limits>

using namespace kerf::cuda;
using kerf::device::AttentionShape;
using kerf::device::HeadStrides;

//===----------------------------------------------------------------------===//
// What is in memory
//===----------------------------------------------------------------------===//

bool FusedAttention::has(int role) const {
  switch (role) {
  case Lse:
    return backward || lse;
  case Dy:
  case Dq:
  case Dk:
  case Dv:
  case Delta:
    return backward;
  case SegmentsQ:
  case SegmentsK:
    return shape.segments;
  case DqSum:
    return backward && anyOrder;
  default:
    return true;
  }
}

int64_t FusedAttention::idOf(int role) const {
  int64_t id = 1;
  for (int before = 0; before < role; ++before)
    id += has(before);
  return id;
}

std::vector<int64_t> FusedAttention::key(int64_t workspaceBytes) const {
  const AttentionShape &s = shape;
  std::vector<int64_t> key = {backward,
                              anyOrder,
                              lse,
                              s.dtype,
                              s.b,
                              s.h,
                              s.g,
                              s.sq,
                              s.sk,
                              s.d,
                              s.dv,
                              s.causal,
                              bottomRight,
                              rowCount,
                              s.window,
                              s.segments,
                              std::bit_cast<int64_t>(s.scale),
                              rowAlignment,
                              segmentAlignment,
                              workspaceBytes};
  for (const HeadStrides *strides :
       {&s.q, &s.k, &s.v, &s.y, &s.dy, &s.dq, &s.dk, &s.dvs})
    key.insert(key.end(), {strides->batch, strides->position, strides->head});
  return key;
}

/// A dimension of size 1 may have any stride; cuDNN takes positive ones.
static int64_t strideOf(int64_t stride, int64_t extent) {
  return stride > 0 ? stride : extent;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

namespace {
/// Adds the operations of one graph.
struct Builder {
  using Tensor = CudnnGraph::Tensor;

  const FusedAttention &part;
  CudnnGraph &graph;
  float hidden; ///< score of a key that is not seen
  const AttentionShape &s = part.shape;
  cudnnDataType_t type =
      s.dtype == KERF_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  CudnnShape scores = {s.b, s.h, s.sq, s.sk}, rows = {s.b, s.h, s.sq, 1};
  Tensor at[FusedAttention::roles] = {}; ///< by role

  void addGiven();
  void addForward();
  void addBackward();

private:
  Tensor queries(const HeadStrides &t, int64_t width);
  Tensor keys(const HeadStrides &t, int64_t width, bool transposed);
  Tensor rowsGiven();
  Tensor inner(const CudnnShape &shape) {
    return graph.inner(CUDNN_DATA_FLOAT, shape);
  }
  /// Computes in f32, into a tensor of f32.
  Tensor compute(cudnnPointwiseMode_t mode, const CudnnShape &shape, Tensor x,
                 Tensor b = 0) {
    return graph.pointwise(mode, CUDNN_DATA_FLOAT, inner(shape), x, b);
  }
  Tensor compare(cudnnPointwiseMode_t mode, Tensor x, Tensor b) {
    return graph.pointwise(mode, CUDNN_DATA_BOOLEAN,
                           graph.inner(CUDNN_DATA_BOOLEAN, scores), x, b);
  }
  Tensor indexOf(int64_t axis, Tensor x) {
    return graph.index(axis, graph.inner(CUDNN_DATA_INT32, scores), x);
  }
  Tensor addWhole(cudnnPointwiseMode_t mode, Tensor x, Tensor b) {
    return graph.pointwise(mode, CUDNN_DATA_INT32,
                           graph.inner(CUDNN_DATA_INT32, scores), x, b);
  }
  Tensor select(Tensor x, Tensor seen) {
    return graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT,
                           inner(scores), x, graph.real(hidden), seen);
  }
  Tensor scaled(Tensor x) {
    return compute(CUDNN_POINTWISE_MUL, scores, x,
                   graph.real(static_cast<float>(s.scale)));
  }
  Tensor mask(Tensor x);
  Tensor transpose(Tensor x);
  void addKeyGradient(Tensor weights, Tensor factor, int64_t width, Tensor y);
};
} // namespace

Builder::Tensor Builder::queries(const HeadStrides &t, int64_t width) {
  return graph.given(type, {s.b, s.h, s.sq, width},
                     {strideOf(t.batch, s.sq * t.position),
                      strideOf(t.head, width), strideOf(t.position, width), 1},
                     16);
}

Builder::Tensor Builder::keys(const HeadStrides &t, int64_t width,
                              bool transposed) {
  CudnnShape shape = {s.b, s.g, s.sk, width};
  CudnnShape strides = {strideOf(t.batch, s.sk * t.position),
                        strideOf(t.head, width), strideOf(t.position, width),
                        1};
  if (transposed) {
    std::swap(shape[2], shape[3]);
    std::swap(strides[2], strides[3]);
  }
  return graph.given(type, shape, strides, 16);
}

Builder::Tensor Builder::rowsGiven() {
  return graph.given(CUDNN_DATA_FLOAT, rows,
                     {s.h * part.rowCount, part.rowCount, 1, 1},
                     part.rowAlignment);
}

/// What is in memory, in the order of roles.
void Builder::addGiven() {
  using F = FusedAttention;
  at[F::Q] = queries(s.q, s.d);
  at[F::K] = keys(s.k, s.d, /*transposed=*/true);
  at[F::V] = keys(s.v, s.dv, /*transposed=*/part.backward);
  at[F::Y] = queries(s.y, s.dv);
  if (part.has(F::Lse))
    at[F::Lse] = rowsGiven();
  if (part.backward) {
    at[F::Dy] = queries(s.dy, s.dv);
    at[F::Dq] = queries(s.dq, s.d);
    at[F::Dk] = keys(s.dk, s.d, false);
    at[F::Dv] = keys(s.dvs, s.dv, false);
    at[F::Delta] = rowsGiven();
  }
  int64_t alignment = part.segmentAlignment;
  if (s.segments) {
    at[F::SegmentsQ] = graph.given(CUDNN_DATA_INT32, {s.b, 1, s.sq, 1},
                                   {s.sq, s.sq, 1, 1}, alignment);
    at[F::SegmentsK] = graph.given(CUDNN_DATA_INT32, {s.b, 1, 1, s.sk},
                                   {s.sk, s.sk, s.sk, 1}, alignment);
  }
  int64_t head = s.sq * s.d;
  if (part.has(F::DqSum))
    at[F::DqSum] = graph.given(CUDNN_DATA_FLOAT, {s.b, s.h, s.sq, s.d},
                               {s.h * head, head, s.d, 1}, 16);
}

/// Scores whose key is not seen become `hidden`.
Builder::Tensor Builder::mask(Tensor x) {
  if (s.causal) {
    Tensor row = indexOf(2, x), column = indexOf(3, x);
    if (part.bottomRight) {
      row = addWhole(CUDNN_POINTWISE_ADD, row,
                     graph.whole(static_cast<int32_t>(s.sk)));
      row = addWhole(CUDNN_POINTWISE_SUB, row,
                     graph.whole(static_cast<int32_t>(s.sq)));
    }
    x = select(x, compare(CUDNN_POINTWISE_CMP_GE, row, column));
  }
  // No sum of a larger one with a column is taken: it may not fit.
  int64_t shift = part.bottomRight ? s.sk - s.sq : 0;
  if (s.window && s.window < s.sq + shift) {
    Tensor row = indexOf(2, x);
    Tensor end = addWhole(CUDNN_POINTWISE_ADD, indexOf(3, x),
                          graph.whole(static_cast<int32_t>(s.window - shift)));
    x = select(x, compare(CUDNN_POINTWISE_CMP_GT, end, row));
  }
  if (s.segments) {
    // cuDNN compares tensors that come from scores: the query's segment is
    // added to an index that was made 0.
    Tensor zero = addWhole(CUDNN_POINTWISE_MUL, indexOf(2, x), graph.whole(0));
    Tensor own =
        addWhole(CUDNN_POINTWISE_ADD, zero, at[FusedAttention::SegmentsQ]);
    x = select(
        x, compare(CUDNN_POINTWISE_CMP_EQ, own, at[FusedAttention::SegmentsK]));
  }
  return x;
}

void Builder::addForward() {
  using F = FusedAttention;
  Tensor x = mask(scaled(graph.matmul(at[F::Q], at[F::K], inner(scores))));
  Tensor top = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, inner(rows), x);
  Tensor weights = compute(CUDNN_POINTWISE_EXP, scores,
                           compute(CUDNN_POINTWISE_SUB, scores, x, top));
  Tensor sum = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, inner(rows), weights);
  // Without it cuDNN does not know the pattern.
  Tensor lse = part.lse ? at[F::Lse] : inner(rows);
  graph.pointwise(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, lse, top,
                  compute(CUDNN_POINTWISE_LOG, rows, sum));
  Tensor shares = graph.pointwise(CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT,
                                  graph.inner(type, scores), weights, sum);
  graph.matmul(shares, at[F::V], at[F::Y]);
}

/// The same numbers with rows and columns exchanged, in 16 bits.
Builder::Tensor Builder::transpose(Tensor x) {
  return graph.reshape(graph.inner(type, {s.b, s.h, s.sk, s.sq},
                                   {s.h * s.sq * s.sk, s.sq * s.sk, 1, s.sk}),
                       x);
}

/// y = weights^T factor, added over the heads that share a key head.
void Builder::addKeyGradient(Tensor weights, Tensor factor, int64_t width,
                             Tensor y) {
  Tensor left = transpose(weights);
  if (s.h == s.g) {
    graph.matmul(left, factor, y);
    return;
  }
  Tensor all =
      graph.matmul(left, factor, graph.inner(type, {s.b, s.h, s.sk, width}));
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, y, all);
}

void Builder::addBackward() {
  using F = FusedAttention;
  Tensor matmuls =
      compute(CUDNN_POINTWISE_MUL, {s.b, s.h, s.sq, s.dv}, at[F::Dy], at[F::Y]);
  Tensor sums = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, inner(rows), matmuls);
  graph.pointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, at[F::Delta], sums,
                  graph.real(1));

  Tensor x = scaled(graph.matmul(at[F::Q], at[F::K], inner(scores)));
  x = mask(compute(CUDNN_POINTWISE_SUB, scores, x, at[F::Lse]));
  Tensor p = compute(CUDNN_POINTWISE_EXP, scores, x);
  addKeyGradient(p, at[F::Dy], s.dv, at[F::Dv]);

  Tensor dp = graph.matmul(at[F::Dy], at[F::V], inner(scores));
  dp = compute(CUDNN_POINTWISE_SUB, scores, dp, at[F::Delta]);
  Tensor ds = scaled(compute(CUDNN_POINTWISE_MUL, scores, dp, p));
  addKeyGradient(ds, at[F::Q], s.d, at[F::Dk]);

  Tensor k = graph.reshape(
      graph.inner(type, {s.b, s.g, s.sk, s.d},
                  {strideOf(s.k.batch, s.sk * s.k.position),
                   strideOf(s.k.head, s.d), strideOf(s.k.position, s.d), 1}),
      at[F::K]);
  if (!part.has(F::DqSum)) {
    graph.matmul(ds, k, at[F::Dq]);
    return;
  }
  Tensor sum = graph.matmul(ds, k, at[F::DqSum]);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, at[F::Dq], sum);
}

void FusedAttention::build(CudnnGraph &graph, size_t version) const {
  // NVIDIA's own graphs mask with the lowest number before 9.10.
  float hidden = version < 91000 ? std::numeric_limits<float>::lowest()
                                 : -std::numeric_limits<float>::infinity();
  Builder builder{*this, graph, hidden};
  builder.addGiven();
  if (backward)
    builder.addBackward();
  else
    builder.addForward();
}

//===----------------------------------------------------------------------===//
// What is not asked for
//===----------------------------------------------------------------------===//

std::string kerf::cuda::fusedRefusal(const FusedAttention &part) {
  const AttentionShape &s = part.shape;
  if (s.dtype != KERF_BF16 && s.dtype != KERF_F16)
    return "f32";
  if (s.dropout > 0)
    return "dropout draws Kerf's random numbers";
  if (s.softcap > 0)
    return "a soft cap of the scores";
  if (!(s.scale > 0))
    return "a scale that is not positive";
  if (s.sq == 1 && s.sk == 1)
    return "one query and one key";
  // Queries that see nothing: Kerf gives 0, cuDNN NaN.
  if ((s.window || s.segments) && s.sq > s.sk)
    return "queries that may see no key";
  return "";
}

// As NVIDIA's frontend has them.
std::string kerf::cuda::fusedRefusal(const FusedAttention &part, size_t version,
                                     int capability) {
  const AttentionShape &s = part.shape;
  if (version == 91000 || version == 91001)
    return "attention is wrong in this version";
  if (part.bottomRight && version < 90600 &&
      (s.window || s.sq % 64 != 0 || s.sk % 64 != 0))
    return "parts of a sequence before 9.6 need numbers of positions that 64 "
           "divides, and no window";
  if (part.bottomRight && s.sq == 1 && version < 91000)
    return "a part of one query before 9.10";
  if (!part.backward)
    return "";
  // Seen on an H200 with 9.14 and 9.19: 0 for queries and keys of all documents
  // but the first.
  if (s.segments)
    return "gradients of packed documents are wrong";
  if (part.anyOrder && version < 90600)
    return "sums of dq are not cleared before 9.6";
  if (version <= 91500 && s.sk % 128 != 0)
    return "gradients before 9.15.1 need a number of keys that 128 divides";
  bool isUneven = s.d > 128 && s.d < 192 && s.dv > 64 && s.dv < 128;
  if (capability / 10 == 9 && isUneven && version >= 91100 && version < 91300)
    return "gradients in 9.11 and 9.12 need 192 channels of keys here, or 128 "
           "of values";
  if (capability / 10 == 10 && version < 91800 && !part.anyOrder)
    return "gradients before 9.18 are not deterministic on this GPU";
  return "";
}
