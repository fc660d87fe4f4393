//===- SharedMatrix.cpp - what a descriptor of wgmma names ----------------===//

#include "SharedMatrix.h"

#include <algorithm>
#include <cstdio>

using namespace kerf::sim;

static constexpr uint64_t fields = 0xC00E'3FFF'3FFF'3FFF;

/// 14 bits from `bit` on: a number of 16 bytes.
static uint64_t bytesAt(uint64_t descriptor, int bit) {
  return (descriptor >> bit & 0x3FFF) << 4;
}
static uint32_t baseOf(uint64_t descriptor) { return descriptor >> 49 & 7; }
static uint32_t piecesPerRow(uint64_t descriptor) {
  static constexpr uint32_t counts[] = {1, 8, 4, 2};
  return counts[descriptor >> 62];
}

SharedMatrix::SharedMatrix(uint64_t descriptor, bool isMnMajor)
    : start(bytesAt(descriptor, 0)), perRow(piecesPerRow(descriptor)),
      base(baseOf(descriptor)) {
  uint64_t leading = bytesAt(descriptor, 16), stride = bytesAt(descriptor, 32);
  bool isSwapped = isMnMajor && perRow == 1;
  between = isSwapped ? leading : stride;
  beyond = isSwapped ? stride : leading;
}

std::string kerf::sim::descriptorProblem(uint64_t descriptor, uint32_t parts) {
  char name[40];
  snprintf(name, sizeof name, "descriptor 0x%016llx: ",
           static_cast<unsigned long long>(descriptor));
  if (descriptor & ~fields)
    return name + std::string("bits 14-15, 30-31, 46-48 and 52-61 must be 0");
  uint32_t perRow = piecesPerRow(descriptor), base = baseOf(descriptor);
  if (perRow == 1)
    return base ? name + ("base offset " + std::to_string(base)) +
                      " has a meaning only with swizzling"
                : "";
  uint32_t first = descriptor & (perRow - 1);
  uint32_t used = std::min(parts, perRow);
  if (first + used > perRow)
    return name + ("the matrix begins " + std::to_string(first * 16)) +
           " bytes into a swizzled row of " + std::to_string(perRow * 16) +
           ", which has no room for " + std::to_string(used * 16);
  return "";
}
