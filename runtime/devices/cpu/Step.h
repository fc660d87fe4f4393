//===- Step.h - prepared commands of the cpu device -----------------------===//
//
// Every opcode has a function that checks a command and makes its step. A
// request offers the checks; the first that fails writes the message.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CPU_STEP_H
#define KERF_DEVICES_CPU_STEP_H

#include "../common/Checks.h"
#include "Kernels.h"
#include "ThreadPool.h"
#include "kerf/Runtime/Device.h"

#include <memory>
#include <string>

/// A pool of workers and the loops for this machine.
struct kerf_device {
  kerf_device(int workers, const kerf::cpu::Kernels &kernels)
      : pool(workers), kernels(kernels) {}
  kerf::cpu::ThreadPool pool;
  const kerf::cpu::Kernels &kernels;
  std::string description;
};

/// A command that can run many times.
struct kerf_step {
  explicit kerf_step(kerf_device &device) : device(device) {}
  virtual ~kerf_step() = default;
  /// One pointer per operand.
  virtual kerf_device_status execute(void *const *pointers, char *error,
                                     size_t errorBytes) = 0;
  kerf_device &device;
};

namespace kerf::cpu {

using kerf::device::say;

/// A command to check and make a step of.
class Request : public kerf::device::Checks {
public:
  Request(kerf_device &device, const kerf_step_info &info, char *error,
          size_t errorBytes)
      : Checks(info, error, errorBytes), device(device) {}

  /// Operand `index` has the workspace that the opcode needs with the device's
  /// workers.
  bool hasWorkspace(uint32_t index);

  kerf_device &device;
};

using StepPointer = std::unique_ptr<kerf_step>;

/// Is a kerf_dtype one of operands of matmuls and attention?
inline bool isNumber(int64_t dtype) {
  return dtype == KERF_F32 || dtype == KERF_BF16 || dtype == KERF_F16;
}
/// f32 for any other.
inline Number numberOf(int64_t dtype) {
  return dtype == KERF_BF16  ? Number::BF16
         : dtype == KERF_F16 ? Number::F16
                             : Number::F32;
}

/// Null when the request is refused; its message is written then.
StepPointer prepareMatmul(Request &request);
StepPointer prepareGroupedMatmul(Request &request);
StepPointer prepareAttention(Request &request);
StepPointer prepareAttentionBackward(Request &request);
StepPointer prepareLaunch(Request &request);
StepPointer prepareCopy(Request &request);
StepPointer prepareZero(Request &request);

} // namespace kerf::cpu

#endif // KERF_DEVICES_CPU_STEP_H
