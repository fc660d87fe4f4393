//===- Float8.h - matmuls of 8-bit floats ---------------------------------===//

#ifndef KERF_DEVICES_CUDA_FLOAT8_H
#define KERF_DEVICES_CUDA_FLOAT8_H

#include "CublasLt.h"
#include "Step.h"

namespace kerf::cuda {

/// True for KERF_F8E4M3 and KERF_F8E5M2.
bool isFloat8(int64_t dtype);
/// The type of cuBLASLt of such a dtype.
cudaDataType_t float8TypeOf(int64_t dtype);
/// Checks a KERF_OP_MATMUL whose factors are 8-bit floats, as cuBLASLt
/// documents: a GPU of sm_89 or later, at most one factor of e5m2, a result of
/// bf16 or f32 with no epilogue but scales, one matrix, sizes and leading
/// dimensions in multiples of 16, and both factors with the summed dimension
/// adjacent. False after writing a message.
bool checkFloat8(Request &request);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_FLOAT8_H
