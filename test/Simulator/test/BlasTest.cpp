//===- BlasTest.cpp - the stand-in for cuBLASLt ---------------------------===//
//
// Compared with plain loops in f64; also compiled against NVIDIA's headers.
//
//===----------------------------------------------------------------------===//

#ifdef KERF_SIM_REAL_HEADER
#include <cublasLt.h>
#include <cuda.h>
#else
#include "blas/Api.h"
#include "driver/Api.h"
#endif
#include "Check.h"

#include <cmath>
#include <cstring>
#include <vector>

using namespace kerf::sim::test;

#define OK(call) same(int(call), 0, #call)

namespace {
struct Shape {
  int type = CUDA_R_32F, result = CUDA_R_32F;
  bool transA = false, transB = false, rows = false; ///< rows: d row-major
  int m = 5, n = 7, k = 9, batch = 1, pad = 0;
  float alpha = 1, beta = 0;
  unsigned epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  size_t workspace = 0;
  bool scaled = false;      ///< a factor, by an f32 on the device
  uint32_t alignment = 256; ///< promised of a
};

uint32_t bytesOf(int type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/// A matrix of every batch in device memory; (i, j) at i + j * leading.
struct Matrix {
  int type, rows, columns, leading, batch;
  CUdeviceptr memory = 0;

  Matrix(int type, int rows, int columns, int pad, int batch, int seed)
      : type(type), rows(rows), columns(columns), leading(rows + pad),
        batch(batch) {
    OK(cuMemAlloc(&memory, bytes()));
    std::vector<uint8_t> made(bytes());
    for (size_t at = 0; at < made.size() / bytesOf(type); ++at)
      put(made, at, float(int(at * 7 + seed * 5) % 13 - 6) / 4);
    OK(cuMemcpyHtoD(memory, made.data(), made.size()));
  }
  ~Matrix() { cuMemFree(memory); }

  size_t step() const { return size_t(leading) * columns; }
  size_t bytes() const { return step() * batch * bytesOf(type); }
  void put(std::vector<uint8_t> &to, size_t at, float value) const {
    double wide = value;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (type == CUDA_R_64F)
      memcpy(&to[at * 8], &wide, 8);
    else if (type == CUDA_R_32F)
      memcpy(&to[at * 4], &value, 4);
    else if (type == CUDA_R_16BF)
      memcpy(&to[at * 2], reinterpret_cast<char *>(&bits) + 2, 2);
    else { // quarters below 2 are exact in f16
      _Float16 half = static_cast<_Float16>(value);
      memcpy(&to[at * 2], &half, 2);
    }
  }
  std::vector<double> read() const {
    std::vector<uint8_t> from(bytes());
    OK(cuMemcpyDtoH(from.data(), memory, from.size()));
    std::vector<double> values(from.size() / bytesOf(type));
    for (size_t at = 0; at < values.size(); ++at) {
      uint32_t bits = 0;
      float single;
      _Float16 half;
      if (type == CUDA_R_64F)
        memcpy(&values[at], &from[at * 8], 8);
      memcpy(reinterpret_cast<char *>(&bits) + (type == CUDA_R_16BF ? 2 : 0),
             &from[at * bytesOf(type)], std::min(4u, bytesOf(type)));
      memcpy(&single, &bits, 4);
      memcpy(&half, &bits, 2);
      if (type == CUDA_R_16F)
        values[at] = double(half);
      else if (type != CUDA_R_64F)
        values[at] = single;
    }
    return values;
  }
  cublasLtMatrixLayout_t layout(bool asRows = false) const {
    cublasLtMatrixLayout_t made = nullptr;
    // Row-major, the same memory is the transpose.
    OK(cublasLtMatrixLayoutCreate(&made, cudaDataType_t(type),
                                  asRows ? columns : rows,
                                  asRows ? rows : columns, leading));
    int32_t order = CUBLASLT_ORDER_ROW, count = batch;
    int64_t stride = step();
    if (asRows)
      OK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_ORDER,
                                          &order, sizeof order));
    OK(cublasLtMatrixLayoutSetAttribute(
        made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    OK(cublasLtMatrixLayoutSetAttribute(
        made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
        sizeof stride));
    return made;
  }
};

/// What a test has open.
struct Session {
  CUcontext context = nullptr;
  cublasLtHandle_t handle = nullptr;
  Session() {
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cublasLtCreate(&handle));
  }
  ~Session() { OK(cublasLtDestroy(handle)); }
};
} // namespace

static cublasLtMatmulDesc_t describe(const Shape &shape, CUdeviceptr bias,
                                     CUdeviceptr aux, int64_t auxLeading) {
  cublasLtMatmulDesc_t desc = nullptr;
  bool isDouble = shape.type == CUDA_R_64F;
  OK(cublasLtMatmulDescCreate(
      &desc, isDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
      isDouble ? CUDA_R_64F : CUDA_R_32F));
  auto set = [&](auto attribute, auto value) {
    OK(cublasLtMatmulDescSetAttribute(
        desc, cublasLtMatmulDescAttributes_t(attribute), &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(shape.transA));
  set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t(shape.transB));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(shape.epilogue));
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, auxLeading);
  if (shape.scaled)
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUdeviceptr(256));
  return desc;
}

/// Returns the first algorithm that the library offers, its status in `status`.
static cublasLtMatmulHeuristicResult_t
choose(Session &session, const Shape &shape, cublasLtMatmulDesc_t desc,
       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
       cublasLtMatrixLayout_t d, int &status) {
  cublasLtMatmulPreference_t preference = nullptr;
  OK(cublasLtMatmulPreferenceCreate(&preference));
  uint64_t bytes = shape.workspace;
  OK(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
      sizeof bytes));
  OK(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &shape.alignment,
      sizeof shape.alignment));
  cublasLtMatmulHeuristicResult_t results[4] = {};
  int found = 0;
  status = cublasLtMatmulAlgoGetHeuristic(session.handle, desc, a, b, d, d,
                                          preference, 4, results, &found);
  check((found > 0) == (status == 0), "an algorithm or a status");
  OK(cublasLtMatmulPreferenceDestroy(preference));
  return results[0];
}

static double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// Computes d as the library does, but in f64.
static std::vector<double> expected(const Shape &shape, const Matrix &a,
                                    const Matrix &b, const Matrix &d,
                                    const std::vector<double> &bias) {
  std::vector<double> left = a.read(), right = b.read(), result = d.read();
  for (int batch = 0; batch < shape.batch; ++batch)
    for (int row = 0; row < shape.m; ++row)
      for (int column = 0; column < shape.n; ++column) {
        double sum = 0;
        for (int k = 0; k < shape.k; ++k)
          sum +=
              left[batch * a.step() +
                   (shape.transA ? k + row * a.leading : row + k * a.leading)] *
              right[batch * b.step() + (shape.transB ? column + k * b.leading
                                                     : k + column * b.leading)];
        double &to =
            result[batch * d.step() + (shape.rows ? column + row * d.leading
                                                  : row + column * d.leading)];
        to = shape.alpha * sum + (shape.beta ? shape.beta * to : 0);
        if (shape.epilogue & CUBLASLT_EPILOGUE_BIAS)
          to += bias[row];
        if (shape.epilogue & CUBLASLT_EPILOGUE_RELU)
          to = std::max(to, 0.0);
        if (shape.epilogue & CUBLASLT_EPILOGUE_GELU)
          to = gelu(to);
      }
  return result;
}

static void compare(const Matrix &d, const std::vector<double> &wanted,
                    const std::string &name) {
  std::vector<double> found = d.read();
  double most = 0, error = 0;
  for (size_t at = 0; at < found.size(); ++at) {
    most = std::max(most, std::fabs(wanted[at]));
    error = std::max(error, std::fabs(found[at] - wanted[at]));
    if (found[at] != found[at])
      error = INFINITY;
  }
  double bound = d.type == CUDA_R_64F   ? 1e-14
                 : d.type == CUDA_R_32F ? 2e-6
                 : d.type == CUDA_R_16F ? 1e-3
                                        : 8e-3;
  check(error <= bound * most, name + ": error " + std::to_string(error) +
                                   " of " + std::to_string(most));
}

static void multiply(Session &session, const Shape &shape, uint32_t splits,
                     const std::string &name) {
  Matrix a(shape.type, shape.transA ? shape.k : shape.m,
           shape.transA ? shape.m : shape.k, shape.pad, shape.batch, 1);
  Matrix b(shape.type, shape.transB ? shape.n : shape.k,
           shape.transB ? shape.k : shape.n, shape.pad, shape.batch, 2);
  Matrix d(shape.result, shape.rows ? shape.n : shape.m,
           shape.rows ? shape.m : shape.n, shape.pad, shape.batch, 3);
  Matrix bias(shape.result, shape.m, 1, 0, 1, 4);
  CUdeviceptr workspace = 0;
  if (shape.workspace)
    OK(cuMemAlloc(&workspace, shape.workspace));
  std::vector<double> wanted = expected(shape, a, b, d, bias.read());
  cublasLtMatmulDesc_t desc = describe(shape, bias.memory, 0, 0);
  cublasLtMatrixLayout_t aLayout = a.layout(), bLayout = b.layout(),
                         dLayout = d.layout(shape.rows);
  int status = 0;
  auto algorithm =
      choose(session, shape, desc, aLayout, bLayout, dLayout, status);
  same(status, 0, name);
  int32_t split = 0;
  size_t written = 0;
  OK(cublasLtMatmulAlgoConfigGetAttribute(&algorithm.algo,
                                          CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                          &split, sizeof split, &written));
  same(uint32_t(split), splits, name + ": parts of the sum");
  double wide[] = {shape.alpha, shape.beta};
  float narrow[] = {shape.alpha, shape.beta};
  bool isDouble = shape.type == CUDA_R_64F;
  auto pointer = [](CUdeviceptr at) { return reinterpret_cast<void *>(at); };
  OK(cublasLtMatmul(session.handle, desc,
                    isDouble ? static_cast<void *>(&wide[0]) : &narrow[0],
                    pointer(a.memory), aLayout, pointer(b.memory), bLayout,
                    isDouble ? static_cast<void *>(&wide[1]) : &narrow[1],
                    pointer(d.memory), dLayout, pointer(d.memory), dLayout,
                    &algorithm.algo, pointer(workspace),
                    algorithm.workspaceSize, nullptr));
  OK(cuCtxSynchronize());
  compare(d, wanted, name);
  for (auto layout : {aLayout, bLayout, dLayout})
    OK(cublasLtMatrixLayoutDestroy(layout));
  OK(cublasLtMatmulDescDestroy(desc));
  cuMemFree(workspace);
}

static void testMatmuls(Session &session) {
  for (int trans = 0; trans < 4; ++trans)
    for (int type : {CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_16BF}) {
      Shape shape;
      shape.type = shape.result = type;
      shape.transA = trans & 1;
      shape.transB = trans & 2;
      shape.pad = 3;
      multiply(session, shape, 1,
               "type " + std::to_string(type) + " transposed " +
                   std::to_string(trans));
      if (type == CUDA_R_64F)
        continue;
      shape.result = CUDA_R_32F;
      shape.batch = 3;
      shape.alpha = 0.5;
      shape.beta = 2;
      multiply(session, shape, 1, "batch into f32, beta");
    }
  Shape shape;
  shape.rows = true;
  multiply(session, shape, 1, "rows of d");
  shape = {};
  shape.epilogue = CUBLASLT_EPILOGUE_BIAS;
  multiply(session, shape, 1, "bias");
  shape.epilogue = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_RELU;
  multiply(session, shape, 1, "bias, relu");
  shape.epilogue = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU;
  multiply(session, shape, 1, "bias, gelu");
  shape = {};
  shape.k = 600;
  multiply(session, shape, 1, "a long sum without workspace");
  shape.workspace = 1 << 20;
  multiply(session, shape, 2, "a long sum in two parts");
}

static void testRefusals(Session &session) {
  auto refused = [&](const Shape &shape, int bType, int bColumns, int dRows,
                     const char *name) {
    Matrix a(shape.type, shape.m, shape.k, 0, 1, 1);
    Matrix b(bType, shape.k, bColumns, 0, 1, 2);
    Matrix d(shape.result, dRows, shape.n, 0, 1, 3);
    cublasLtMatmulDesc_t desc = describe(shape, 0, 0, 4);
    int status = 0;
    choose(session, shape, desc, a.layout(), b.layout(), d.layout(), status);
    same(status, int(CUBLAS_STATUS_NOT_SUPPORTED), name);
    cublasLtMatmulDescDestroy(desc);
  };
  Shape shape;
  refused(shape, CUDA_R_16BF, 7, 5, "two types of factors");
  refused(shape, CUDA_R_32F, 6, 5, "sizes");
  refused(shape, CUDA_R_32F, 7, 6, "rows of d");
  shape.result = CUDA_R_16BF;
  refused(shape, CUDA_R_32F, 7, 5, "f32 into bf16");
  shape = {};
  shape.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
  refused(shape, CUDA_R_32F, 7, 5, "leading size of aux");
  shape.epilogue = 1024;
  refused(shape, CUDA_R_32F, 7, 5, "unknown epilogue");
  shape = {};
  shape.scaled = true;
  refused(shape, CUDA_R_32F, 7, 5, "scales of f32");
  cublasLtMatmulDesc_t desc = describe({}, 0, 0, 0);
  int64_t value = 0;
  same(int(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA,
                                          &value, sizeof value)),
       int(CUBLAS_STATUS_INVALID_VALUE), "an attribute of another size");
  OK(cublasLtMatmulDescDestroy(desc));
}

/// 8-bit floats whose addresses are not whole 16 bytes are refused.
static void testFloat8(Session &session) {
  Shape shape;
  shape.transA = true;
  cublasLtMatmulDesc_t desc = describe(shape, 0, 0, 0);
  cublasLtMatrixLayout_t layouts[3];
  const int types[] = {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2, CUDA_R_16BF};
  for (int n = 0; n < 3; ++n)
    OK(cublasLtMatrixLayoutCreate(&layouts[n], cudaDataType_t(types[n]), 16, 16,
                                  16));
  for (uint32_t alignment : {16u, 8u}) {
    shape.alignment = alignment;
    int status = 0;
    choose(session, shape, desc, layouts[0], layouts[1], layouts[2], status);
    same(status, int(alignment == 16 ? 0 : CUBLAS_STATUS_NOT_SUPPORTED),
         "8-bit floats and how they are aligned");
  }
  for (cublasLtMatrixLayout_t layout : layouts)
    OK(cublasLtMatrixLayoutDestroy(layout));
  OK(cublasLtMatmulDescDestroy(desc));
}

/// Pointers that break the promised 256 bytes are refused.
static void testAlignment(Session &session) {
  Shape shape;
  Matrix a(shape.type, shape.m, shape.k, 0, 2, 1);
  Matrix b(shape.type, shape.k, shape.n, 0, 1, 2);
  Matrix d(shape.type, shape.m, shape.n, 0, 1, 3);
  a.batch = 1;
  cublasLtMatmulDesc_t desc = describe(shape, 0, 0, 0);
  cublasLtMatrixLayout_t layouts[] = {a.layout(), b.layout(), d.layout()};
  int status = 0;
  auto algorithm =
      choose(session, shape, desc, layouts[0], layouts[1], layouts[2], status);
  float one = 1, zero = 0;
  for (int shift : {0, 16}) {
    status = cublasLtMatmul(
        session.handle, desc, &one, reinterpret_cast<void *>(a.memory + shift),
        layouts[0], reinterpret_cast<void *>(b.memory), layouts[1], &zero,
        reinterpret_cast<void *>(d.memory), layouts[2],
        reinterpret_cast<void *>(d.memory), layouts[2], &algorithm.algo,
        nullptr, 0, nullptr);
    same(status, shift ? int(CUBLAS_STATUS_INVALID_VALUE) : 0, "alignment");
  }
  for (auto layout : layouts)
    OK(cublasLtMatrixLayoutDestroy(layout));
  OK(cublasLtMatmulDescDestroy(desc));
}

int main() {
  Session session;
  testMatmuls(session);
  testRefusals(session);
  testFloat8(session);
  testAlignment(session);
  return finish("cuBLASLt");
}
