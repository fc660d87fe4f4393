//===- MatmulChecks.cpp - what a matmul must be ---------------------------===//

#include "../common/MatmulAttrs.h"
#include "Float8.h"
#include "Matmul.h"

#include <climits>

using namespace kerf::cuda;
using namespace kerf::device::matmul;

const char *kerf::cuda::dtypeText(int64_t dtype) {
  switch (dtype) {
  case KERF_F32:
    return "f32";
  case KERF_BF16:
    return "bf16";
  case KERF_F16:
    return "f16";
  case KERF_F64:
    return "f64";
  case KERF_F8E4M3:
    return "f8e4m3";
  case KERF_F8E5M2:
    return "f8e5m2";
  default:
    return "?";
  }
}

static bool checkDtype(Request &r, uint32_t index, const char *what) {
  int64_t dtype = r.attr(index);
  if (dtype == KERF_F32 || dtype == KERF_BF16 || dtype == KERF_F16 ||
      dtype == KERF_F64)
    return true;
  return r.fail("found dtype %lld of %s, expected f32, bf16, f16 or f64",
                (long long)dtype, what);
}

/// Dtypes that cuBLASLt multiplies.
static bool checkDtypes(Request &r) {
  if (isFloat8(r.attr(ADtype)) || isFloat8(r.attr(BDtype)))
    return checkFloat8(r);
  if (!checkDtype(r, ADtype, "a") || !checkDtype(r, BDtype, "b") ||
      !checkDtype(r, CDtype, "c"))
    return false;
  int64_t a = r.attr(ADtype), b = r.attr(BDtype), c = r.attr(CDtype);
  if (a == b && (c == a || (c == KERF_F32 && a != KERF_F64)))
    return true;
  return r.fail("found a matmul of %s and %s into %s, expected factors of "
                "one dtype and a result of the same, or of f32: compute in "
                "one dtype",
                dtypeText(a), dtypeText(b), dtypeText(c));
}

static bool checkFactors(Request &r) {
  if (!r.hasCounts(AttrCount, {4, 5, 6, 7, 8}) || !checkDtypes(r) ||
      !r.inRange(Batch, "batch", 1, INT_MAX) || !r.isSize(M, "m") ||
      !r.isSize(N, "n") || !r.isSize(K, "k") ||
      !r.inRange(Accumulate, "accumulate", 0, 1) ||
      !r.inRange(Epilogue, "epilogue", KERF_EPILOGUE_NONE,
                 KERF_EPILOGUE_COUNT - 1))
    return false;
  return hasMatrices(r);
}

/// Epilogues beside a bias: of one matrix and of numbers that the plug-in's own
/// kernels know; gelu is no part of a sum over matmuls.
static bool checkEpilogueKind(Request &r, const EpilogueParts &parts) {
  bool isGelu = parts.isGelu || parts.isGeluGradient;
  if (!isGelu && !parts.writesBias)
    return true;
  if (r.attr(Batch) != 1)
    return r.fail("found batch %lld with epilogue %lld, expected 1",
                  (long long)r.attr(Batch), (long long)r.attr(Epilogue));
  if (isGelu && r.attr(Accumulate))
    return r.fail("found accumulate 1 with epilogue %lld, expected 0: gelu of "
                  "a part of a sum is not part of the gelu",
                  (long long)r.attr(Epilogue));
  if (r.attr(ADtype) == KERF_F64)
    return r.fail("found epilogue %lld of f64, expected none or a bias",
                  (long long)r.attr(Epilogue));
  return true;
}

/// cuBLASLt multiplies by scales only where the factors have 8 bits.
static bool checkScales(Request &r, const EpilogueParts &parts) {
  if (!parts.isScaled)
    return true;
  if (!isFloat8(r.attr(ADtype)))
    return r.fail("found scales of a matmul of %s, expected them with 8-bit "
                  "floats alone",
                  dtypeText(r.attr(ADtype)));
  return hasScales(r);
}

static bool checkEpilogue(Request &r) {
  EpilogueParts parts = epilogueParts(r.attr(Epilogue));
  if (!checkScales(r, parts))
    return false;
  int64_t columns =
      r.attr(Epilogue) == KERF_EPILOGUE_BGRAD_A ? r.attr(M) : r.attr(N);
  bool hasBias = parts.readsBias || parts.writesBias;
  if (hasBias &&
      (!checkDtype(r, BiasDtype, "the bias") ||
       !r.hasExtent(Bias, "bias", kerf_dtype_bytes(r.attr(BiasDtype)),
                    {columns}, {1})))
    return false;
  if (hasBias &&
      (r.attr(BiasDtype) == KERF_F64) != (r.attr(ADtype) == KERF_F64))
    return r.fail("found a bias of %s in a matmul of %s, expected both of "
                  "f64 or neither",
                  dtypeText(r.attr(BiasDtype)), dtypeText(r.attr(ADtype)));
  return checkEpilogueKind(r, parts) &&
         (!parts.hasAux ||
          r.hasExtent(Aux, "aux", kerf_dtype_bytes(r.attr(CDtype)),
                      {r.attr(M), r.attr(N)}, {r.attr(N), 1}));
}

bool kerf::cuda::checkMatmul(Request &r) {
  return checkFactors(r) && checkEpilogue(r);
}
