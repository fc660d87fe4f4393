//===- Checks.h - checks of commands that devices share -------------------===//
//
// Nothing in a command is trusted. Every opcode's `prepare` asks for what it
// needs of the command; the first check that fails writes the message.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_COMMON_CHECKS_H
#define KERF_DEVICES_COMMON_CHECKS_H

#include "kerf/Runtime/Device.h"

#include <initializer_list>

namespace kerf::device {

/// Writes a message as printf does, truncated to fit; null buffers are fine.
[[gnu::format(printf, 3, 4)]] void say(char *error, size_t bytes,
                                       const char *format, ...);

/// A command to check. Checks return false after writing a message; sizes are
/// below 2^40 each, so that strides and products of two do not overflow.
class Checks {
public:
  Checks(const kerf_step_info &info, char *error, size_t errorBytes)
      : info(info), error(error), errorBytes(errorBytes) {}

  int64_t attr(uint32_t index) const { return info.attrs[index]; }
  const int64_t *attrs() const { return info.attrs; }
  bool absent(uint32_t operand) const {
    return operand >= info.command->operand_count ||
           info.operands[operand].kind == KERF_ABSENT;
  }
  /// The value of a scalar that is the same in all calls, 0 for an absent one;
  /// KERF_NOT_FIXED for others.
  int64_t fixed(uint32_t operand) const {
    return absent(operand) ? 0
           : info.fixed    ? info.fixed[operand]
                           : KERF_NOT_FIXED;
  }
  /// The command's name, for people.
  const char *name() const { return info.name ? info.name : "?"; }

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

  const kerf_step_info &info;

protected:
  char *error;
  size_t errorBytes;
};

} // namespace kerf::device

#endif // KERF_DEVICES_COMMON_CHECKS_H
