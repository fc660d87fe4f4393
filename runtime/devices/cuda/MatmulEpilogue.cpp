//===- MatmulEpilogue.cpp - what the plug-in does behind a matmul ---------===//

#include "../common/MatmulAttrs.h"
#include "Matmul.h"
#include "kernels/Code.h"

#include <algorithm>

using namespace kerf::cuda;
using namespace kerf::device::matmul;

EpilogueParts kerf::cuda::epilogueParts(int64_t epilogue) {
  // bias read, bias written, aux, gelu, its gradient, scales, cuBLASLt's
  switch (epilogue) {
  case KERF_EPILOGUE_BIAS:
    return {true, false, false, false, false, false, CUBLASLT_EPILOGUE_BIAS};
  case KERF_EPILOGUE_GELU:
    return {false, false, false, true, false, false, CUBLASLT_EPILOGUE_GELU};
  case KERF_EPILOGUE_GELU_BIAS:
    return {
        true, false, false, true, false, false, CUBLASLT_EPILOGUE_GELU_BIAS};
  case KERF_EPILOGUE_GELU_AUX:
    return {false, false, true, true, false, false, CUBLASLT_EPILOGUE_GELU_AUX};
  case KERF_EPILOGUE_GELU_AUX_BIAS:
    return {
        true, false, true, true, false, false, CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
  case KERF_EPILOGUE_DGELU:
    return {false, false, true, false, true, false, CUBLASLT_EPILOGUE_DGELU};
  case KERF_EPILOGUE_DGELU_BGRAD:
    return {
        false, true, true, false, true, false, CUBLASLT_EPILOGUE_DGELU_BGRAD};
  case KERF_EPILOGUE_BGRAD_A:
    return {false, true, false, false, false, false, CUBLASLT_EPILOGUE_BGRADB};
  case KERF_EPILOGUE_BGRAD_B:
    return {false, true, false, false, false, false, CUBLASLT_EPILOGUE_BGRADA};
  case KERF_EPILOGUE_SCALE:
    return {false, false, false, false, false, true, CUBLASLT_EPILOGUE_DEFAULT};
  default:
    return {};
  }
}

/// The rows whose sum the operand `bias` becomes; the summed operand.
static uint32_t setRows(const Request &r, RowSumArguments &a) {
  int64_t m = r.attr(M), n = r.attr(N), k = r.attr(K);
  a.toDtype = static_cast<int32_t>(r.attr(BiasDtype));
  auto set = [&](uint32_t operand, uint32_t dtype, int64_t rows,
                 int64_t columns, int64_t row, int64_t column) {
    a.fromDtype = static_cast<int32_t>(r.attr(dtype));
    a.rows = rows;
    a.columns = columns;
    a.row = row;
    a.column = column;
    return operand;
  };
  switch (r.attr(Epilogue)) {
  case KERF_EPILOGUE_BGRAD_A:
    return set(A, ADtype, k, m, r.attr(ACol), r.attr(ARow));
  case KERF_EPILOGUE_BGRAD_B:
    return set(B, BDtype, k, n, r.attr(BRow), r.attr(BCol));
  default:
    return set(C, CDtype, m, n, r.attr(CRow), 1);
  }
}

bool OwnEpilogue::prepare(Request &r, bool isBiasDone) {
  EpilogueParts parts = epilogueParts(r.attr(Epilogue));
  hasBias = parts.readsBias && !isBiasDone;
  hasAux = parts.hasAux;
  EpilogueArguments &a = arguments;
  a.batch = r.attr(Batch);
  a.m = r.attr(M);
  a.n = r.attr(N);
  a.batchStride = r.attr(CBatch);
  a.row = r.attr(CRow);
  a.dtype = static_cast<int32_t>(r.attr(CDtype));
  a.biasDtype = static_cast<int32_t>(r.attr(BiasDtype));
  a.kind = parts.isGelu ? Gelu : parts.isGeluGradient ? GeluGradient : Linear;
  // Enough to fill any GPU; a thread goes on with others' elements.
  __int128 count = static_cast<__int128>(a.batch) * a.m * a.n;
  __int128 blocks = (count + epilogueThreads - 1) / epilogueThreads;
  a.blocks = static_cast<int32_t>(std::min<__int128>(blocks, 4096));
  const char *name =
      a.dtype == KERF_F64 ? "epilogue_bias_wide" : "epilogue_elements";
  if (a.kind != Linear || hasBias)
    if (!(elements = r.ownKernel(kerf_ptx_epilogue, name)))
      return false;
  return !parts.writesBias || prepareSums(r);
}

/// In how many parts the rows are summed, first each and then all: as many as
/// fill any GPU, of 64 rows or more. 1: by one kernel, where rows are not whole
/// 16 bytes or the workspace has no room.
static int64_t partsOf(const Request &r, uint32_t summed,
                       const RowSumArguments &a) {
  constexpr int64_t fewestRows = 64, enoughBlocks = 528;
  int64_t bytes = kerf_dtype_bytes(a.fromDtype);
  bool isWide = (bytes == 2 || a.fromDtype == KERF_F32) && a.column == 1 &&
                a.columns * bytes % 16 == 0 && a.row * bytes % 16 == 0 &&
                alignmentOf(r.info.operands[summed]) >= 16;
  if (!isWide)
    return 1;
  int64_t width = rowSumColumns * rowSumWidth(static_cast<int>(bytes));
  int64_t blocks = (a.columns + width - 1) / width;
  auto room = static_cast<int64_t>(workspaceOf(r)) / (4 * a.columns);
  return std::max<int64_t>(1, std::min({a.rows / fewestRows, room,
                                        (enoughBlocks + blocks - 1) / blocks}));
}

bool OwnEpilogue::prepareSums(Request &r) {
  summed = setRows(r, sumArguments);
  int64_t parts = partsOf(r, summed, sumArguments);
  if (parts > 1) {
    partArguments = sumArguments;
    partArguments.parts = static_cast<int32_t>(parts);
    sumArguments.rows = parts;
    sumArguments.row = sumArguments.columns;
    sumArguments.fromDtype = KERF_F32;
    partSums = r.ownKernel(kerf_ptx_epilogue, "epilogue_row_parts");
    if (!partSums)
      return false;
  }
  sums = r.ownKernel(kerf_ptx_epilogue, "epilogue_row_sums");
  return sums;
}

/// Blocks for all columns, of so many each.
static unsigned blocksFor(const RowSumArguments &a, int64_t columns) {
  return static_cast<unsigned>((a.columns + columns - 1) / columns);
}

kerf_device_status OwnEpilogue::run(kerf_step &step, void *const *pointers,
                                    char *error, size_t errorBytes) const {
  if (elements) {
    EpilogueArguments a = arguments;
    a.c = pointers[C];
    a.bias = hasBias ? pointers[Bias] : nullptr;
    a.aux = hasAux ? pointers[Aux] : nullptr;
    void *list[] = {&a};
    Grid grid{static_cast<unsigned>(a.blocks), 1, 1, epilogueThreads};
    if (kerf_device_status status =
            launch(step, elements, grid, list, error, errorBytes))
      return status;
  }
  if (!sums)
    return KERF_DEVICE_OK;
  RowSumArguments a = sumArguments;
  a.from = partSums ? pointers[Workspace] : pointers[summed];
  a.to = pointers[Bias];
  if (partSums) {
    RowSumArguments p = partArguments;
    p.from = pointers[summed];
    p.to = pointers[Workspace];
    int64_t width = rowSumColumns * rowSumWidth(kerf_dtype_bytes(p.fromDtype));
    void *list[] = {&p};
    Grid grid{blocksFor(p, width) * static_cast<unsigned>(p.parts), 1, 1,
              epilogueThreads};
    if (kerf_device_status status =
            launch(step, partSums, grid, list, error, errorBytes))
      return status;
  }
  void *list[] = {&a};
  Grid grid{blocksFor(a, rowSumColumns), 1, 1, epilogueThreads};
  return launch(step, sums, grid, list, error, errorBytes);
}
