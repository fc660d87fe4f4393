//===- Step.h - prepared commands of the cuda device ----------------------===//
//
// Every opcode has a function that checks a command and makes its step. A step
// enqueues its work on the device's stream 0 and returns; it must not wait,
// allocate or copy from host memory, so that it can be recorded into a graph.
// Modules and library plans are therefore made in `prepare`.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_STEP_H
#define KERF_DEVICES_CUDA_STEP_H

#include "../common/Checks.h"
#include "State.h"

#include <memory>
#include <string>

/// A command that can run many times.
struct kerf_step {
  kerf_step(kerf_device &device, const char *name)
      : device(device), name(name ? name : "?") {}
  /// Takes itself off the device's list of watched steps.
  virtual ~kerf_step();
  /// Enqueues the step on stream 0. One pointer per operand, to device memory.
  virtual kerf_device_status execute(void *const *pointers, char *error,
                                     size_t errorBytes) = 0;
  /// What a fault that the step's kernels reported means: a message.
  virtual std::string explain(const kerf::cuda::Fault &fault) const;

  /// What `tune` may choose from; null: nothing.
  virtual kerf::cuda::Tunable *tunable() { return nullptr; }

  /// For kernels that check what only the device knows: the id that they put
  /// into kerf_device::fault. Costs a copy in every `synchronize`.
  int32_t watch();

  kerf_device &device;
  std::string name; ///< of the command
  int32_t id = 0;   ///< in faults; 0: not watched
};

namespace kerf::cuda {

using kerf::device::say;

/// A command to check and make a step of.
class Request : public kerf::device::Checks {
public:
  Request(kerf_device &device, const kerf_step_info &info, char *error,
          size_t errorBytes)
      : Checks(info, error, errorBytes), device(device) {}

  /// The kernel `symbol` of the plug-in's own PTX text `code`, of which the
  /// device keeps one module. Null after writing a message. With
  /// `sharedBytes` > 0 the kernel may be launched with so much dynamic shared
  /// memory.
  CUfunction ownKernel(const char *code, const char *symbol,
                       int sharedBytes = 0);
  /// As in Checks, for a call of the driver: true on success.
  bool succeeded(CUresult result, const char *what);

  kerf_device &device;
  /// Why the driver does not take an own kernel's code; empty: it does.
  std::string refusal;
};

using StepPointer = std::unique_ptr<kerf_step>;

/// A grid of blocks.
struct Grid {
  unsigned x = 1, y = 1, z = 1;
  unsigned threads = 1;     ///< of a block
  unsigned sharedBytes = 0; ///< dynamic
};

/// Enqueues a kernel on stream 0. `arguments` are addresses of its parameters,
/// read before the call returns.
kerf_device_status launch(kerf_step &step, CUfunction function,
                          const Grid &grid, void **arguments, char *error,
                          size_t errorBytes);
/// Turns the result of enqueueing into a status and a message.
kerf_device_status enqueued(kerf_step &step, CUresult result, char *error,
                            size_t errorBytes);

/// Bytes that every address of an operand is a multiple of, at most 256.
uint32_t alignmentOf(const kerf_operand &operand);

/// Null when the request is refused; its message is written then.
StepPointer prepareLaunch(Request &request);
StepPointer prepareCopy(Request &request);
StepPointer prepareZero(Request &request);
StepPointer prepareTake(Request &request);
StepPointer prepareMatmul(Request &request);
StepPointer prepareAttention(Request &request);
StepPointer prepareAttentionBackward(Request &request);
StepPointer prepareGroupedMatmul(Request &request);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_STEP_H
