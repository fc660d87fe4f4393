//===- State.h - a GPU and what a rank holds of it ------------------------===//

#ifndef KERF_DEVICES_CUDA_STATE_H
#define KERF_DEVICES_CUDA_STATE_H

#include "CublasLt.h"
#include "Cudnn.h"
#include "Driver.h"
#include "Tuning.h"
#include "kerf/Runtime/Device.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kerf::cuda {

/// What a kernel found wrong. Lies in device memory, zero while all is well.
/// The thread that changes `step` from 0 to the id of its step (atomicCAS)
/// fills in the rest; later faults are dropped.
struct Fault {
  int32_t step;
  int32_t values[3]; ///< as the step's `explain` reads them
};

/// Pinned memory through which large copies go, in two halves.
struct Staging {
  char *memory = nullptr;
  size_t halfBytes = 0;
  CUevent done[2] = {};
};

/// The stream of copies beside the steps, with an event before the first of
/// them and one behind the last; made when they are asked for.
struct Copies {
  CUstream stream = nullptr;
  CUevent before = nullptr, done = nullptr;
};

/// Events that take times, and one whose time of the host's clock is known.
struct Times {
  std::vector<CUevent> events;
  CUevent origin = nullptr;
  double originSec = 0; ///< of CLOCK_MONOTONIC
  /// Events whose times are known: event and seconds after `origin`, in order.
  /// Differences are floats: only those of near events are fine enough.
  std::vector<std::pair<CUevent, double>> anchors;
};

} // namespace kerf::cuda

/// A GPU as one rank uses it. Members are for the files of this folder.
struct kerf_device {
  kerf::cuda::Driver driver;
  kerf::cuda::CublasLt blas; ///< its library may be missing: `library.failure`
  kerf::cuda::Cudnn cudnn;   ///< opened for the first attention that asks
  kerf::cuda::CUdevice ordinal = 0;
  kerf::cuda::CUcontext context = nullptr;
  kerf::cuda::CUstream streams[KERF_DEVICE_STREAMS] = {};
  kerf::cuda::CUevent events[KERF_DEVICE_STREAMS] = {}; ///< for `order`
  kerf::cuda::Staging staging;
  kerf::cuda::Copies copies;
  kerf::cuda::Times times;
  kerf::cuda::Tuning tuning;
  std::string description;

  int32_t capability = 0; ///< 10 * major + minor: 90 of sm_90
  int32_t processors = 0;
  int32_t workers = 1;
  int64_t maxPitch = 0;      ///< bytes, of two-dimensional copies
  bool recording = false;    ///< between begin_graph and end_graph
  bool sync = false;         ///< KERF_CUDA_SYNC: wait after each step
  bool log = false;          ///< KERF_CUDA_LOG: tell choices on stderr
  bool tf32 = false;         ///< KERF_CUDA_TF32: f32 matmuls in TF32
  bool ownAttention = false; ///< KERF_CUDA_OWN_ATTENTION: never by cuDNN
  /// KERF_CUDA_ATTENTION_ANY_ORDER: sums of dq by cuDNN's atomic operations.
  bool anyOrder = false;
  bool ownBgrad = false; ///< KERF_CUDA_OWN_BGRAD: sums of rows by own kernels
  bool noWgmma = false;  ///< KERF_CUDA_NO_WGMMA, or refused: by mma.sync
  bool poison = false;   ///< KERF_POISON: fresh memory is NaN

  /// The driver's calls of this thread are about this GPU from now on.
  void makeCurrent();

  /// Device memory of a Fault, and the steps that may write it.
  kerf::cuda::CUdeviceptr fault = 0;
  std::map<int32_t, kerf_step *> watched;
  int32_t lastId = 0;

  /// Values of scalars in device memory, and the block that new ones go to.
  std::unordered_map<int32_t, kerf::cuda::CUdeviceptr> scalars;
  std::vector<kerf::cuda::CUdeviceptr> scalarBlocks;
  size_t scalarsInBlock = 0;

  /// Modules of the plug-in's own code, by the address of their text.
  std::map<const void *, kerf::cuda::CUmodule> ownModules;
  /// Built-in kernels that were asked for, by kerf_builtin.
  std::map<uint32_t, std::shared_ptr<kerf_function>> builtins;

  /// Steps of the graph that is recorded, and the last of them.
  int64_t recordedSteps = 0;
  const kerf_step *lastRecorded = nullptr;
  /// The last step that was enqueued, and how many since `synchronize`.
  const kerf_step *lastStep = nullptr;
  int64_t enqueuedSteps = 0;
  /// Why a copy, which cannot say so itself, failed; for `synchronize`.
  std::string copyFailure;
};

namespace kerf::cuda {

/// Takes the GPU that the options name. After a failure, and at the end,
/// `closeGpu` gives back what was taken.
kerf_device_status openGpu(kerf_device &device,
                           const kerf_device_options &options, char *error,
                           size_t errorBytes);
void closeGpu(kerf_device &device);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_STATE_H
