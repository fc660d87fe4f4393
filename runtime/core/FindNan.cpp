//===- FindNan.cpp - looking for values that went bad ---------------------===//
//
// With `check_nans` all that a command wrote is read on the host after it.
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace kerf::runtime;

/// Is a value no number, or positive infinity? Negative infinity is what masks
/// and logarithms of nothing hold.
static bool isBad(double x) { return x != x || x == HUGE_VAL; }

static bool hasBad(const void *data, uint64_t bytes, uint32_t dtype) {
  auto any = [&](auto *values, auto load) {
    uint64_t count = bytes / sizeof *values;
    return std::any_of(values, values + count,
                       [&](auto x) { return isBad(load(x)); });
  };
  switch (dtype) {
  case KERF_F32:
    return any(static_cast<const float *>(data), [](float x) { return x; });
  case KERF_F64:
    return any(static_cast<const double *>(data), [](double x) { return x; });
  case KERF_BF16:
    return any(static_cast<const uint16_t *>(data), fromBf16);
  case KERF_F16:
    return any(static_cast<const uint16_t *>(data), fromF16);
  case KERF_F8E4M3: // has no infinity
    return any(static_cast<const uint8_t *>(data),
               [](uint8_t x) { return (x & 0x7f) == 0x7f ? NAN : 0; });
  case KERF_F8E5M2: // 0xfc: negative infinity
    return any(static_cast<const uint8_t *>(data), [](uint8_t x) {
      return (x & 0x7f) >= 0x7c && x != 0xfc ? NAN : 0;
    });
  }
  return false;
}

/// Workspaces hold anything.
static bool isWorkspace(uint32_t opcode, uint32_t operand) {
  switch (opcode) {
  case KERF_OP_MATMUL:
    return operand == 3;
  case KERF_OP_ATTENTION:
    return operand == 12;
  case KERF_OP_ATTENTION_BACKWARD:
    return operand == 16;
  case KERF_OP_GROUPED_MATMUL:
    return operand == 4;
  }
  return false;
}

namespace {
/// What an operand writes: rows of some bytes in matrices.
struct Written {
  uint64_t matrices = 1, rows = 1, rowBytes;
  uint64_t matrixPitch = 0, rowPitch = 0; ///< bytes
};
} // namespace

static Written writtenBy(const kerf_operand &operand, uint32_t n,
                         uint32_t opcode, const int64_t *attrs) {
  Written written;
  written.rowBytes = operand.bytes;
  if (opcode != KERF_OP_MATMUL || n != 2)
    return written;
  // Between the rows of a product may lie what others write.
  uint64_t size = kerf_dtype_bytes(operand.dtype);
  written.matrices = attrs[KERF_MATMUL_BATCH];
  written.rows = attrs[KERF_MATMUL_M];
  written.rowBytes = attrs[KERF_MATMUL_N] * size;
  written.matrixPitch = attrs[KERF_MATMUL_C_BATCH] * size;
  written.rowPitch = attrs[KERF_MATMUL_C_ROW] * size;
  return written;
}

Status kerf_session::findNan(uint32_t index) {
  if (Status status = synchronize(); status.failed())
    return status;
  const kerf_command &command = view.commands[index];
  std::vector<char> host;
  for (uint32_t n = 0; n < command.operand_count; ++n) {
    const kerf_operand &operand = view.operands[command.first_operand + n];
    if (operand.kind != KERF_ARENA || !(operand.access & KERF_WRITE) ||
        isWorkspace(command.opcode, n))
      continue;
    Written written = writtenBy(operand, n, command.opcode,
                                view.attrs.data + command.first_attr);
    host.resize(written.rowBytes);
    for (uint64_t row = 0; row < written.matrices * written.rows; ++row) {
      const char *from = static_cast<const char *>(pointers[n]) +
                         row / written.rows * written.matrixPitch +
                         row % written.rows * written.rowPitch;
      Status status = fetch(host.data(), from, written.rowBytes);
      if (status.failed())
        return status;
      if (hasBad(host.data(), written.rowBytes, operand.dtype))
        return failure(KERF_NOT_FINITE,
                       "made a value that is not finite (operand %u)", n);
    }
  }
  return {};
}
