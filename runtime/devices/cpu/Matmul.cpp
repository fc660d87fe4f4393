//===- Matmul.cpp - matmuls -----------------------------------------------===//

#include "../common/MatmulAttrs.h"
#include "Step.h"
#include "TiledMatmul.h"

#include <vector>

using namespace kerf::cpu;
using namespace kerf::device::matmul;

namespace {
struct Matmul : kerf_step {
  using kerf_step::kerf_step;
  TiledMatmul matmul{}; ///< of batch 0, without addresses
  int64_t batch, aBatch, bBatch, cBatch;
  kerf_cpu_matmul plan;
  const Engine *engine;
  RowPart rows;
  std::vector<DepthPart> depths;
  std::vector<uint32_t> scales; ///< operands that multiply the matmul

  TiledMatmul at(void *const *pointers, int64_t index) const;
  kerf_device_status execute(void *const *pointers, char *, size_t) override;
};
} // namespace

TiledMatmul Matmul::at(void *const *pointers, int64_t index) const {
  TiledMatmul p = matmul;
  p.a.data = static_cast<const char *>(pointers[A]) +
             index * aBatch * bytesOf(p.a.number);
  p.b.data = static_cast<const char *>(pointers[B]) +
             index * bBatch * bytesOf(p.b.number);
  p.c = static_cast<char *>(pointers[C]) + index * cBatch * bytesOf(p.cNumber);
  p.rowParts = &rows;
  p.rowPartCount = 1;
  p.depthParts = depths.data();
  p.depthPartCount = static_cast<int64_t>(depths.size());
  return p;
}

kerf_device_status Matmul::execute(void *const *pointers, char *, size_t) {
  if (matmul.bias)
    matmul.bias = pointers[Bias];
  matmul.scale = 1;
  for (uint32_t scale : scales)
    matmul.scale *= *static_cast<const float *>(pointers[scale]);
  auto part = [&](int64_t index) { return at(pointers, index); };
  if (plan.own_b)
    multiplyBatch(device.pool, device.kernels, *engine, batch, part, plan,
                  pointers[Workspace]);
  else
    for (int64_t index = 0; index < batch; ++index)
      multiply(device.pool, device.kernels, *engine, part(index), plan,
               pointers[Workspace]);
  return KERF_DEVICE_OK;
}

static bool checkDtype(Request &r, uint32_t index, const char *what) {
  if (isNumber(r.attr(index)))
    return true;
  return r.fail("found dtype %lld of %s, expected f32, bf16 or f16",
                (long long)r.attr(index), what);
}

/// None, a bias or scales.
static bool hasEpilogue(Request &r) {
  int64_t epilogue = r.attr(Epilogue);
  if (epilogue == KERF_EPILOGUE_NONE || epilogue == KERF_EPILOGUE_BIAS ||
      epilogue == KERF_EPILOGUE_SCALE)
    return hasScales(r);
  return r.fail("found epilogue %lld, expected %d, %d or %d",
                (long long)epilogue, KERF_EPILOGUE_NONE, KERF_EPILOGUE_BIAS,
                KERF_EPILOGUE_SCALE);
}

static bool checkMatmul(Request &r) {
  if (!r.hasCounts(AttrCount, {4, 5, 7, 8}) || !checkDtype(r, ADtype, "a") ||
      !checkDtype(r, BDtype, "b") || !checkDtype(r, CDtype, "c") ||
      !r.isSize(Batch, "batch") || !r.isSize(M, "m") || !r.isSize(N, "n") ||
      !r.isSize(K, "k") || !r.inRange(Accumulate, "accumulate", 0, 1) ||
      !hasEpilogue(r))
    return false;
  if (r.attr(M) > 1 && r.attr(K) > 1 && r.attr(ARow) != 1 && r.attr(ACol) != 1)
    return r.fail("found strides %lld and %lld of a, expected 1 as one of them",
                  (long long)r.attr(ARow), (long long)r.attr(ACol));
  if (r.attr(K) > 1 && r.attr(N) > 1 && r.attr(BRow) != 1 && r.attr(BCol) != 1)
    return r.fail("found strides %lld and %lld of b, expected 1 as one of them",
                  (long long)r.attr(BRow), (long long)r.attr(BCol));
  return hasMatrices(r) && r.hasWorkspace(Workspace);
}

static bool checkBias(Request &r) {
  if (r.attr(Epilogue) != KERF_EPILOGUE_BIAS)
    return true;
  return checkDtype(r, BiasDtype, "the bias") &&
         r.hasExtent(Bias, "bias", kerf_dtype_bytes(r.attr(BiasDtype)),
                     {r.attr(N)}, {1});
}

/// A matrix with one row or column has no stride there: any will do.
static View viewOf(Request &r, uint32_t dtype, uint32_t row, int64_t rows,
                   int64_t columns) {
  View view = {nullptr, r.attr(row), r.attr(row + 1), numberOf(r.attr(dtype))};
  if (columns == 1)
    view.column = 1;
  else if (rows == 1 && view.column != 1)
    view.row = 1;
  return view;
}

StepPointer kerf::cpu::prepareMatmul(Request &r) {
  if (!checkMatmul(r) || !checkBias(r))
    return nullptr;
  auto step = std::make_unique<Matmul>(r.device);
  int64_t m = r.attr(M), n = r.attr(N), k = r.attr(K);
  step->plan = kerf_cpu_plan_matmul(m, n, k, r.attr(CDtype) != KERF_F32,
                                    r.attr(Batch) > 1);
  step->batch = r.attr(Batch);
  step->aBatch = r.attr(ABatch);
  step->bBatch = r.attr(BBatch);
  step->cBatch = r.attr(CBatch);
  TiledMatmul &p = step->matmul;
  p.a = viewOf(r, ADtype, ARow, m, k);
  p.b = viewOf(r, BDtype, BRow, k, n);
  p.n = n;
  p.cNumber = numberOf(r.attr(CDtype));
  p.cRow = m > 1 ? r.attr(CRow) : n;
  p.accumulate = r.attr(Accumulate);
  p.bias = r.attr(Epilogue) == KERF_EPILOGUE_BIAS ? &p : nullptr;
  p.biasNumber = numberOf(r.attr(BiasDtype));
  for (uint32_t scale : {ScaleA, ScaleB})
    if (r.attr(Epilogue) == KERF_EPILOGUE_SCALE && !r.absent(scale))
      step->scales.push_back(scale);
  step->rows = {0, 0, m};
  for (int64_t at = 0; at < k; at += step->plan.depth)
    step->depths.push_back({at * p.a.column, at * p.b.row,
                            kerf_cpu_min(step->plan.depth, k - at)});
  step->engine = &r.device.kernels.engineOf(p.a.number, p.b.number);
  return step;
}
