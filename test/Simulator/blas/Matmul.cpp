//===- Matmul.cpp - a matmul and its epilogue -----------------------------===//
//
// Factors are brought to f32 (f64), row by row; sums are taken in f32 (f64) in
// the order of k, rounded once at the end.
//
//===----------------------------------------------------------------------===//

#include "Matmul.h"
#include "../driver/Bridge.h"
#include "Lanes.h"

using namespace kerf::sim;

uint32_t kerf::sim::bytesOf(cudaDataType_t type) {
  switch (type) {
  case CUDA_R_8F_E4M3:
  case CUDA_R_8F_E5M2:
    return 1;
  case CUDA_R_16F:
  case CUDA_R_16BF:
    return 2;
  case CUDA_R_32F:
    return 4;
  case CUDA_R_64F:
    return 8;
  }
  return 0;
}

// ---- What is refused --------------------------------------------------------

using Layout = cublasLtMatrixLayoutOpaque;
using Desc = cublasLtMatmulDescOpaque;

static bool hasBias(uint32_t epilogue) {
  return epilogue & (CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA |
                     CUBLASLT_EPILOGUE_BGRADB);
}
static bool hasAux(uint32_t epilogue) { return epilogue & 128; }
static bool isGelu(uint32_t epilogue) { return epilogue & 32; }
static bool isGeluGradient(uint32_t epilogue) { return epilogue & 64; }

static bool isFloat8(cudaDataType_t type) { return bytesOf(type) == 1; }

/// As NVIDIA documents of matmuls of 8-bit floats, on Hopper.
static std::string refuseFloat8(const Desc &desc, const Layout &a,
                                const Layout &b, const Layout &d) {
  if (!isFloat8(a.type) || !isFloat8(b.type) ||
      (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2))
    return "both factors must be 8-bit floats, one at least of e4m3";
  if (d.type != CUDA_R_16BF && d.type != CUDA_R_32F)
    return "no matmul of 8-bit floats into this type";
  if (!desc.transA || desc.transB || a.order != CUBLASLT_ORDER_COL ||
      b.order != CUBLASLT_ORDER_COL || d.order != CUBLASLT_ORDER_COL)
    return "8-bit floats need a transposed a and a plain b";
  if (a.rows % 16 || a.columns % 16 || b.columns % 16 || a.leading % 16 ||
      b.leading % 16 || d.leading % 16)
    return "sizes of 8-bit floats are no multiples of 16";
  if (desc.compute != CUBLAS_COMPUTE_32F || d.batch != 1)
    return "8-bit floats need the compute type 32F and one matrix";
  return "";
}

static std::string refuseTypes(const Desc &desc, const Layout &a,
                               const Layout &b, const Layout &c,
                               const Layout &d) {
  bool isDouble = desc.compute == CUBLAS_COMPUTE_64F;
  if (!isDouble && desc.compute != CUBLAS_COMPUTE_32F &&
      desc.compute != CUBLAS_COMPUTE_32F_FAST_TF32)
    return "the compute type is not simulated";
  if (desc.scale != (isDouble ? CUDA_R_64F : CUDA_R_32F))
    return "the scale type does not fit the compute type";
  if ((isFloat8(a.type) || isFloat8(b.type)) && c.type == d.type)
    return refuseFloat8(desc, a, b, d);
  if (desc.scaleA || desc.scaleB)
    return "scales of factors are for 8-bit floats";
  if (a.type != b.type || c.type != d.type)
    return "a and b, or c and d, differ in type";
  bool isPlain = c.type == a.type;
  bool isWidening =
      (a.type == CUDA_R_16F || a.type == CUDA_R_16BF) && c.type == CUDA_R_32F;
  if (!bytesOf(a.type) || (!isPlain && !isWidening) ||
      (a.type == CUDA_R_64F) != isDouble)
    return "no matmul of these types";
  if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F)
    return "tf32 is for f32";
  if (hasBias(desc.epilogue) && desc.biasType != -1 && desc.biasType != d.type)
    return "the bias has another type than d";
  return "";
}

/// KERF_SIM_EPILOGUES: none, bias (that alone) or, without it, all.
static bool isOffered(uint32_t epilogue) {
  const char *text = getenv("KERF_SIM_EPILOGUES");
  std::string offered = text ? text : "";
  if (offered.empty() || epilogue == CUBLASLT_EPILOGUE_DEFAULT)
    return true;
  return offered == "bias" && epilogue == CUBLASLT_EPILOGUE_BIAS;
}

static std::string refuseEpilogue(const Desc &desc, const Layout &d) {
  if (!isOffered(desc.epilogue))
    return "KERF_SIM_EPILOGUES leaves the epilogue out";
  switch (desc.epilogue) {
  case CUBLASLT_EPILOGUE_DEFAULT:
  case CUBLASLT_EPILOGUE_RELU:
  case CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_GELU:
  case CUBLASLT_EPILOGUE_GELU | CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    break;
  case CUBLASLT_EPILOGUE_GELU_AUX:
  case CUBLASLT_EPILOGUE_GELU_AUX | CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_DGELU:
  case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    if (desc.auxLeading % 8 || desc.auxLeading < int64_t(d.rows))
      return "the leading size of aux is no multiple of 8 or too small";
    if (!desc.aux || reinterpret_cast<uint64_t>(desc.aux) % 16)
      return "aux is null or not aligned to 16 bytes";
    break;
  default:
    return "the epilogue is not simulated";
  }
  if (desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
      d.order != CUBLASLT_ORDER_COL)
    return "epilogues need columns of d to be contiguous";
  if (desc.compute == CUBLAS_COMPUTE_64F &&
      desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
      desc.epilogue != CUBLASLT_EPILOGUE_BIAS)
    return "no such epilogue in f64";
  return "";
}

static std::string refuseLayout(const Layout &layout, int32_t batch) {
  uint64_t contiguous =
      layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.columns;
  if (!layout.rows || !layout.columns)
    return "a matrix is empty";
  if (layout.leading < int64_t(contiguous))
    return "a leading size is less than what lies along it";
  if (layout.batch != batch)
    return "batch counts differ";
  return "";
}

std::string kerf::sim::refusal(const Desc &desc, const Layout &a,
                               const Layout &b, const Layout &c,
                               const Layout &d) {
  if (desc.pointerMode)
    return "factors alpha and beta on the device are not simulated";
  if (std::string why = refuseTypes(desc, a, b, c, d); !why.empty())
    return why;
  for (const Layout *layout : {&a, &b, &c, &d})
    if (std::string why = refuseLayout(*layout, d.batch); !why.empty())
      return why;
  uint64_t m = desc.transA ? a.columns : a.rows;
  uint64_t k = desc.transA ? a.rows : a.columns;
  uint64_t kOfB = desc.transB ? b.columns : b.rows;
  uint64_t n = desc.transB ? b.rows : b.columns;
  if (k != kOfB || d.rows != m || d.columns != n || c.rows != m ||
      c.columns != n)
    return "sizes do not fit";
  return refuseEpilogue(desc, d);
}

uint64_t kerf::sim::splitBytes(const Layout &d, uint32_t split) {
  return split < 2 ? 0 : d.rows * d.columns * d.batch * split * 4;
}

uint64_t kerf::sim::epilogueBytes(uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD ? 256 : 0;
}

bool kerf::sim::sumsColumns(const Desc &desc) {
  switch (desc.epilogue) {
  case CUBLASLT_EPILOGUE_BGRADA:
    return !desc.transA;
  case CUBLASLT_EPILOGUE_BGRADB:
    return desc.transB;
  default:
    return true;
  }
}

// ---- Elements ---------------------------------------------------------------

static double float8Of(uint8_t bits, int digits, int bias) {
  int magnitude = bits & 0x7f, exponent = magnitude >> digits;
  double mantissa = magnitude & ((1 << digits) - 1);
  if (magnitude == 0x7f || (digits == 2 && magnitude > 0x7c))
    return NAN;
  if (exponent)
    mantissa += 1 << digits;
  double value =
      std::ldexp(mantissa, (exponent ? exponent : 1) - bias - digits);
  return bits & 0x80 ? -value : value;
}

static double readElement(const uint8_t *at, cudaDataType_t type) {
  if (isFloat8(type))
    return type == CUDA_R_8F_E4M3 ? float8Of(*at, 3, 7) : float8Of(*at, 2, 15);
  if (type == CUDA_R_64F) {
    double value;
    memcpy(&value, at, sizeof value);
    return value;
  }
  if (type == CUDA_R_32F) {
    float value;
    memcpy(&value, at, sizeof value);
    return value;
  }
  U16 bits;
  memcpy(&bits, at, sizeof bits);
  return type == CUDA_R_16F ? float(F16{bits}) : float(BF16{bits});
}
static void writeElement(uint8_t *at, cudaDataType_t type, double value) {
  float single = static_cast<float>(value);
  U16 bits = type == CUDA_R_16F ? toF16(single).bits : toBf16(single).bits;
  if (type == CUDA_R_64F)
    memcpy(at, &value, sizeof value);
  else if (type == CUDA_R_32F)
    memcpy(at, &single, sizeof single);
  else
    memcpy(at, &bits, sizeof bits);
}

namespace {
/// A batch's matrix in memory.
struct View {
  uint8_t *data;
  cudaDataType_t type;
  uint64_t rows, columns, rowStride, columnStride;

  uint8_t *at(uint64_t row, uint64_t column) const {
    return data + (row * rowStride + column * columnStride) * bytesOf(type);
  }
  double read(uint64_t row, uint64_t column) const {
    return readElement(at(row, column), type);
  }
};
} // namespace

static View viewOf(const Layout &layout, uint64_t address, int32_t batch,
                   const char *what) {
  bool isColumns = layout.order == CUBLASLT_ORDER_COL;
  View view{nullptr,
            layout.type,
            layout.rows,
            layout.columns,
            isColumns ? 1 : uint64_t(layout.leading),
            isColumns ? uint64_t(layout.leading) : 1};
  uint64_t last = (view.rows - 1) * view.rowStride +
                  (view.columns - 1) * view.columnStride + 1;
  address += batch * layout.batchStride * bytesOf(layout.type);
  view.data = bridgeHost(address, last * bytesOf(layout.type));
  if (!view.data)
    throw Trap{IllegalAddress, std::string("cublasLtMatmul: operand ") + what +
                                   " is not inside one allocation"};
  return view;
}

static View transposed(View view, bool isTransposed) {
  if (!isTransposed)
    return view;
  std::swap(view.rows, view.columns);
  std::swap(view.rowStride, view.columnStride);
  return view;
}

template <class T> static std::vector<T> gather(const View &view, bool asTf32) {
  std::vector<T> values(view.rows * view.columns);
  for (uint64_t row = 0; row < view.rows; ++row)
    for (uint64_t column = 0; column < view.columns; ++column) {
      T value = static_cast<T>(view.read(row, column));
      if constexpr (sizeof(T) == 4)
        if (asTf32)
          value = cast<float>((cast<U32>(value) + 0x1000) & 0xFFFFE000);
      values[row * view.columns + column] = value;
    }
  return values;
}

template <class T>
static void addMatmul(std::vector<T> &sums, const std::vector<T> &a,
                      const std::vector<T> &b, uint64_t m, uint64_t n,
                      uint64_t k, uint64_t first, uint64_t last) {
  for (uint64_t row = 0; row < m; ++row)
    for (uint64_t at = first; at < last; ++at) {
      T factor = a[row * k + at];
      T *to = sums.data() + row * n;
      const T *from = b.data() + at * n;
      for (uint64_t column = 0; column < n; ++column)
        to[column] += factor * from[column];
    }
}

/// op(A) op(B), [m, n]; split sums are added in their order.
template <class T>
static std::vector<T> multiply(const Matmul &matmul, const View &a,
                               const View &b) {
  bool asTf32 = matmul.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  uint64_t m = a.rows, n = b.columns, k = a.columns;
  std::vector<T> left = gather<T>(a, asTf32), right = gather<T>(b, asTf32);
  std::vector<T> sums(m * n);
  uint64_t parts = matmul.algorithm.split;
  for (uint64_t part = 0; part < parts; ++part) {
    std::vector<T> partial(m * n);
    addMatmul(partial, left, right, m, n, k, k * part / parts,
              k * (part + 1) / parts);
    for (uint64_t at = 0; at < m * n; ++at)
      sums[at] = part ? sums[at] + partial[at] : partial[at];
  }
  return sums;
}

// ---- Epilogues --------------------------------------------------------------

static double geluOf(double x) {
  return 0.5 * x *
         (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
static double geluSlope(double x) {
  double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
  double slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
  double tangent = std::tanh(inner);
  return 0.5 * (1 + tangent) + 0.5 * x * (1 - tangent * tangent) * slope;
}

namespace {
/// What an epilogue reads and writes besides d.
struct Extras {
  View aux = {}, bias = {};
};
} // namespace

static Extras extrasOf(const Matmul &matmul, int32_t batch) {
  const Desc &desc = matmul.desc;
  Extras extras;
  if (hasBias(desc.epilogue)) {
    Layout layout;
    layout.type = matmul.d.type;
    layout.rows = desc.epilogue == CUBLASLT_EPILOGUE_BGRADB ? matmul.d.columns
                                                            : matmul.d.rows;
    layout.columns = 1;
    layout.leading = layout.rows;
    layout.batchStride = desc.biasBatchStride;
    extras.bias =
        viewOf(layout, reinterpret_cast<uint64_t>(desc.bias), batch, "bias");
  }
  if (hasAux(desc.epilogue)) {
    Layout layout = matmul.d;
    layout.leading = desc.auxLeading;
    layout.batchStride = desc.auxBatchStride;
    extras.aux =
        viewOf(layout, reinterpret_cast<uint64_t>(desc.aux), batch, "aux");
  }
  return extras;
}

/// What becomes of a sum at (row, column).
static double finishElement(const Desc &desc, const Extras &extras, double sum,
                            uint64_t row, uint64_t column) {
  if (desc.epilogue & CUBLASLT_EPILOGUE_BIAS)
    sum += extras.bias.read(row, 0);
  if (isGeluGradient(desc.epilogue))
    return sum * geluSlope(extras.aux.read(row, column));
  if (isGelu(desc.epilogue)) {
    if (hasAux(desc.epilogue))
      writeElement(extras.aux.at(row, column), extras.aux.type, sum);
    return geluOf(sum);
  }
  if (desc.epilogue & CUBLASLT_EPILOGUE_RELU)
    return sum > 0 ? sum : 0;
  return sum;
}

/// Sums over the rows of `values` to the bias's place.
template <class F>
static void sumInto(const View &bias, uint64_t count, F valueAt) {
  for (uint64_t row = 0; row < bias.rows; ++row) {
    float sum = 0;
    for (uint64_t at = 0; at < count; ++at)
      sum += static_cast<float>(valueAt(row, at));
    writeElement(bias.at(row, 0), bias.type, sum);
  }
}

/// What a factor is multiplied by: an f32 on the device, or 1.
static double scaleOf(const void *scale, const char *what) {
  if (!scale)
    return 1;
  uint64_t at = reinterpret_cast<uint64_t>(scale);
  const uint8_t *host = bridgeHost(at, sizeof(float));
  if (!host || at % sizeof(float))
    throw Trap{IllegalAddress, std::string("cublasLtMatmul: the scale of ") +
                                   what +
                                   " is not an aligned f32 inside one "
                                   "allocation"};
  return readElement(host, CUDA_R_32F);
}

template <class T> static void runBatch(const Matmul &matmul, int32_t batch) {
  const Desc &desc = matmul.desc;
  T alpha = static_cast<T>(matmul.alpha * scaleOf(desc.scaleA, "a") *
                           scaleOf(desc.scaleB, "b"));
  View a = transposed(viewOf(matmul.a, matmul.aAt, batch, "a"), desc.transA);
  View b = transposed(viewOf(matmul.b, matmul.bAt, batch, "b"), desc.transB);
  View d = viewOf(matmul.d, matmul.dAt, batch, "d");
  Extras extras = extrasOf(matmul, batch);
  std::vector<T> sums = multiply<T>(matmul, a, b);
  View c = d;
  if (matmul.beta != 0)
    c = viewOf(matmul.c, matmul.cAt, batch, "c");
  std::vector<double> results(sums.size());
  for (uint64_t row = 0; row < d.rows; ++row)
    for (uint64_t column = 0; column < d.columns; ++column) {
      T sum = alpha * sums[row * d.columns + column];
      if (matmul.beta != 0)
        sum +=
            static_cast<T>(matmul.beta) * static_cast<T>(c.read(row, column));
      double result = finishElement(desc, extras, sum, row, column);
      results[row * d.columns + column] = result;
      writeElement(d.at(row, column), d.type, result);
    }
  if (desc.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
    sumInto(extras.bias, d.columns, [&](uint64_t row, uint64_t at) {
      return results[row * d.columns + at];
    });
  else if (desc.epilogue == CUBLASLT_EPILOGUE_BGRADA)
    sumInto(extras.bias, a.columns,
            [&](uint64_t row, uint64_t at) { return a.read(row, at); });
  else if (desc.epilogue == CUBLASLT_EPILOGUE_BGRADB)
    sumInto(extras.bias, b.rows,
            [&](uint64_t row, uint64_t at) { return b.read(at, row); });
}

void kerf::sim::run(const Matmul &matmul) {
  if (uint8_t *scratch = bridgeHost(matmul.workspace, matmul.workspaceBytes);
      scratch && matmul.workspaceBytes) // nobody may rely on what was there
    memset(scratch, 0xFF, matmul.workspaceBytes);
  for (int32_t batch = 0; batch < matmul.d.batch; ++batch)
    if (matmul.desc.compute == CUBLAS_COMPUTE_64F)
      runBatch<double>(matmul, batch);
    else
      runBatch<float>(matmul, batch);
}
