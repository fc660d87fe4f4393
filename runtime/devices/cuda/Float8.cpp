//===- Float8.cpp - matmuls of 8-bit floats -------------------------------===//
//
// NVIDIA, "cuBLASLt API", section on 8-bit floating point data types.
//
//===----------------------------------------------------------------------===//

#include "Float8.h"

#include "../common/MatmulAttrs.h"

using namespace kerf::cuda;
using namespace kerf::device::matmul;

static constexpr int kCapability = 89;   ///< 10 * major + minor
static constexpr int64_t kMultiple = 16; ///< of sizes and leading dimensions

bool kerf::cuda::isFloat8(int64_t dtype) {
  return dtype == KERF_F8E4M3 || dtype == KERF_F8E5M2;
}

cudaDataType_t kerf::cuda::float8TypeOf(int64_t dtype) {
  return dtype == KERF_F8E5M2 ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3;
}

static bool checkTypes(Request &r) {
  int64_t a = r.attr(ADtype), b = r.attr(BDtype), c = r.attr(CDtype);
  bool bothWide = a == KERF_F8E5M2 && b == KERF_F8E5M2;
  if (isFloat8(a) && isFloat8(b) && !bothWide &&
      (c == KERF_BF16 || c == KERF_F32))
    return true;
  return r.fail(
      "found a matmul of 8-bit floats of types %lld and %lld into "
      "type %lld, expected two of 8 bits, at most one of them f8e5m2, "
      "into bf16 or f32",
      (long long)a, (long long)b, (long long)c);
}

static bool checkSizes(Request &r) {
  for (uint32_t size : {M, N, K})
    if (r.attr(size) % kMultiple != 0)
      return r.fail("found sizes %lld x %lld x %lld of a matmul of 8-bit "
                    "floats, expected multiples of %lld",
                    (long long)r.attr(M), (long long)r.attr(N),
                    (long long)r.attr(K), (long long)kMultiple);
  if (r.attr(Batch) != 1 || (r.attr(Epilogue) != KERF_EPILOGUE_NONE &&
                             r.attr(Epilogue) != KERF_EPILOGUE_SCALE))
    return r.fail("found a batch of %lld and epilogue %lld of a matmul of "
                  "8-bit floats, expected one matrix and none or scales",
                  (long long)r.attr(Batch), (long long)r.attr(Epilogue));
  return true;
}

static bool checkStrides(Request &r) {
  if (r.attr(ACol) == 1 && r.attr(BRow) == 1 && r.attr(ARow) % kMultiple == 0 &&
      r.attr(BCol) % kMultiple == 0 && r.attr(CRow) % kMultiple == 0)
    return true;
  return r.fail("found strides %lld %lld of a, %lld %lld of b and %lld of c in "
                "a matmul of 8-bit floats, expected columns of a and rows of b "
                "with stride 1, the others in multiples of %lld",
                (long long)r.attr(ARow), (long long)r.attr(ACol),
                (long long)r.attr(BRow), (long long)r.attr(BCol),
                (long long)r.attr(CRow), (long long)kMultiple);
}

bool kerf::cuda::checkFloat8(Request &r) {
  if (r.device.capability < kCapability)
    return r.fail("matmuls of 8-bit floats need a GPU of sm_%d or later, found "
                  "sm_%d: compile with --precision=bf16",
                  kCapability, r.device.capability);
  return checkTypes(r) && checkSizes(r) && checkStrides(r);
}
