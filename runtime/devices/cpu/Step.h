//===- Step.h - prepared commands of the cpu device -----------------------===//
//
// Every opcode has a function that checks a command and makes its step. A
// request offers the checks; the first that fails writes the message.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CPU_STEP_H
#define KERF_DEVICES_CPU_STEP_H

#include "Kernels.h"
#include "ThreadPool.h"
#include "kerf/Runtime/Device.h"

#include <initializer_list>
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

/// Writes a message as printf does; null buffers are fine.
[[gnu::format(printf, 3, 4)]] void say(char *error, size_t bytes,
                                       const char *format, ...);

/// A command to check. Checks return false after writing a message; sizes are
/// below 2^40 each, so that strides and products of two do not overflow.
class Request {
public:
  Request(kerf_device &device, const kerf_step_info &info, char *error,
          size_t errorBytes)
      : device(device), info(info), error(error), errorBytes(errorBytes) {}

  int64_t attr(uint32_t index) const { return info.attrs[index]; }
  const int64_t *attrs() const { return info.attrs; }
  bool absent(uint32_t operand) const {
    return operand >= info.command->operand_count ||
           info.operands[operand].kind == KERF_ABSENT;
  }

  /// Writes a message with the command's name in front; returns false.
  [[gnu::format(printf, 2, 3)]] bool fail(const char *format, ...);
  /// The command has so many attributes and one of the numbers of operands.
  bool hasCounts(uint32_t attrs, std::initializer_list<uint32_t> operands);
  /// Attribute `index` lies in [low, high].
  bool inRange(uint32_t index, const char *what, int64_t low, int64_t high);
  /// Attribute `index` is a size: in [1, 2^40).
  bool isSize(uint32_t index, const char *what);
  /// Operand `index` is present and has at least `bytes`.
  bool hasBytes(uint32_t index, const char *what, __int128 bytes);
  /// Operand `index` is present and holds an array whose dimensions have these
  /// sizes and strides (in elements, not negative).
  bool hasExtent(uint32_t index, const char *what, int64_t elementBytes,
                 std::initializer_list<int64_t> sizes,
                 std::initializer_list<int64_t> strides);
  /// Operand `index` has the workspace that the opcode needs with the device's
  /// workers.
  bool hasWorkspace(uint32_t index);

  kerf_device &device;
  const kerf_step_info &info;

private:
  char *error;
  size_t errorBytes;
};

using StepPointer = std::unique_ptr<kerf_step>;

/// Is a kerf_dtype one of operands of products and attention?
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
