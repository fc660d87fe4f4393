//===- Tuning.h - algorithms that are chosen by measuring -----------------===//

#ifndef KERF_DEVICES_CUDA_TUNING_H
#define KERF_DEVICES_CUDA_TUNING_H

#include "CublasLt.h"
#include "kerf/Runtime/Device.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct kerf_device;
struct kerf_step;

namespace kerf::cuda {

class Request;

/// What a device was given to choose by, and whether it measures itself.
struct Tuning {
  std::map<std::string, kerf_tuned> entries; ///< by matmul
  bool tunes = false;

  /// Algorithms to ask cuBLASLt for. More are asked for only where somebody
  /// looks beyond the first: an entry is found again in the list it is of.
  int candidates() const {
    return tunes || !entries.empty() ? mostCandidates : 8;
  }
  static constexpr int mostCandidates = 32;
};

/// The algorithms that a matmul may be computed by. Empty unless the device
/// tunes.
struct Tunable {
  std::string matmul; ///< as in kerf_tuned
  int epilogue = 0;   ///< that cuBLASLt is asked for; may change until it fits
  std::string lost;   ///< why a tuned algorithm cannot be taken, if so
  std::vector<cublasLtMatmulHeuristicResult_t> candidates;
  /// Of candidates from here on own kernels do the epilogue; `leaves` says so.
  size_t leavingFrom = SIZE_MAX;
  bool *leaves = nullptr;
  /// The file's entry that leaves the epilogue of this matmul, if it does.
  const kerf_tuned *left = nullptr;
  std::vector<uint64_t> operandBytes;
  cublasLtMatmulAlgo_t *algorithm = nullptr; ///< what the step takes
  size_t *workspaceBytes = nullptr;          ///< that it uses
};

/// Takes what the options give. False after writing why it does not fit.
bool takeTuning(kerf_device &device, const kerf_device_options &options,
                char *error, size_t errorBytes);

/// What algorithms of this device and library are known by:
/// "NVIDIA H100 80GB HBM3, cuBLASLt 13.1.0".
std::string tunedOn(kerf_device &device);

/// An algorithm in words: "algorithm 66, tile 20, stages 8, ...".
std::string choiceOf(const CublasLt &blas,
                     const cublasLtMatmulHeuristicResult_t &result);

/// The entry of the device's file that leaves `epilogue` of this matmul to own
/// kernels; null: none does.
const kerf_tuned *findLeaving(const Request &request, int epilogue,
                              size_t workspaceBytes);
/// How such an entry's `choice` begins.
constexpr char leavingWords[] = "epilogue left, ";

/// Puts the algorithm that the device was given for this matmul in front of
/// `count` results of cuBLASLt, and keeps them in `tunable` if it tunes.
/// `workspaceBytes`: what they may use. False after refusing an algorithm that
/// cuBLASLt does not offer.
bool chooseTuned(Request &request, size_t workspaceBytes,
                 cublasLtMatmulHeuristicResult_t *results, int count,
                 Tunable &tunable);

/// As in kerf_device_api.
kerf_device_status tune(kerf_step *step, void *const *pointers,
                        double budgetSec, kerf_tuned *tuned, char *error,
                        size_t errorBytes);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_TUNING_H
