//===- Matmul.h - the parts of a matmul -----------------------------------===//

#ifndef KERF_DEVICES_CUDA_MATMUL_H
#define KERF_DEVICES_CUDA_MATMUL_H

#include "Step.h"
#include "kernels/EpilogueArguments.h"

namespace kerf::cuda {

/// What an epilogue of Format.h is made of.
struct EpilogueParts {
  bool readsBias = false;  ///< adds it to the matmul
  bool writesBias = false; ///< the sum of rows
  bool hasAux = false;
  bool isGelu = false, isGeluGradient = false;
  bool isScaled = false; ///< by f32 values on the device
  /// cuBLASLt's name; scales are attributes of any. Its first factor is our
  /// second one, see Matmul.cpp.
  cublasLtEpilogue_t library = CUBLASLT_EPILOGUE_DEFAULT;

  /// Nothing but the sum of a factor's rows, which does not need the matmul.
  bool isRowSum() const { return writesBias && !hasAux; }
};

/// The parts of a `kerf_epilogue`, which must be one.
EpilogueParts epilogueParts(int64_t epilogue);

/// Bytes of the workspace that does not depend on where the arena lies.
size_t workspaceOf(const Request &request);

/// "f32"; "?" for a type that no matmul has.
const char *dtypeText(int64_t dtype);

/// Attributes and operands of a KERF_OP_MATMUL. False after writing a message.
bool checkMatmul(Request &request);

/// Kernels of the plug-in that do an epilogue, or what is left of it, behind a
/// matmul. Empty: nothing is left.
class OwnEpilogue {
public:
  /// Takes the epilogue of a checked command, with the bias or without. False
  /// after writing a message.
  bool prepare(Request &request, bool isBiasDone);
  bool isEmpty() const { return !elements && !sums; }
  /// Enqueues them; `pointers` are those of the command.
  kerf_device_status run(kerf_step &step, void *const *pointers, char *error,
                         size_t errorBytes) const;

private:
  bool prepareSums(Request &request);

  CUfunction elements = nullptr, sums = nullptr;
  CUfunction partSums = nullptr; ///< before `sums`, whose rows are its results
  EpilogueArguments arguments;   ///< without addresses
  RowSumArguments sumArguments;
  RowSumArguments partArguments;
  uint32_t summed = 0; ///< operand whose rows are summed
  bool hasBias = false, hasAux = false;
};

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_MATMUL_H
