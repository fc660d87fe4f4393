//===- FindNan.cpp - looking for values that went bad ---------------------===//
//
// With `check_nans` all that a command wrote is read on the host after it.
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Numbers.h"

#include "kerf/Artifact/Check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

using namespace kerf::runtime;

namespace {
/// What some numbers are. Negative infinity is what masks and logarithms of
/// nothing hold: it is not bad.
struct Looked {
  double largest = 0;      ///< of the finite ones, without sign
  int64_t badAt = -1;      ///< index of the first NaN or positive infinity
  int64_t count = 0;       ///< that were looked at
  bool isInfinite = false; ///< that one

  void take(double x) {
    bool isBad = x != x || x == HUGE_VAL;
    if (isBad && badAt < 0) {
      badAt = count;
      isInfinite = x == x;
    }
    if (!isBad && x != -HUGE_VAL)
      largest = std::max(largest, std::fabs(x));
    ++count;
  }
};
} // namespace

/// 8 bits, of which `exponent` are the exponent's, as a number; those that the
/// type has for NaN and infinity as such.
static double fromBits8(uint8_t bits, uint32_t dtype) {
  bool isWide = dtype == KERF_F8E5M2;
  int fraction = isWide ? 2 : 3, bias = isWide ? 15 : 7;
  int mantissa = bits & ((1 << fraction) - 1);
  int exponent = (bits & 0x7f) >> fraction;
  double sign = bits & 0x80 ? -1 : 1;
  if (isWide && exponent == 31)
    return mantissa ? NAN : sign * HUGE_VAL;
  if (!isWide && (bits & 0x7f) == 0x7f) // has no infinity
    return NAN;
  double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - fraction)
                               : std::ldexp(mantissa + (1 << fraction),
                                            exponent - bias - fraction);
  return sign * value;
}

/// Looks at numbers of a type; at nothing where it is no floating-point type.
static void look(const void *data, uint64_t bytes, uint32_t dtype,
                 Looked &looked) {
  auto all = [&](auto *values, auto load) {
    for (uint64_t i = 0; i < bytes / sizeof *values; ++i)
      looked.take(load(values[i]));
  };
  switch (dtype) {
  case KERF_F32:
    return all(static_cast<const float *>(data), [](float x) { return x; });
  case KERF_F64:
    return all(static_cast<const double *>(data), [](double x) { return x; });
  case KERF_BF16:
    return all(static_cast<const uint16_t *>(data), fromBf16);
  case KERF_F16:
    return all(static_cast<const uint16_t *>(data), fromF16);
  case KERF_F8E4M3:
  case KERF_F8E5M2:
    return all(static_cast<const uint8_t *>(data),
               [=](uint8_t x) { return fromBits8(x, dtype); });
  }
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
  // Between the rows of a matmul may lie what others write.
  uint64_t size = kerf_dtype_bytes(operand.dtype);
  written.matrices = attrs[KERF_MATMUL_BATCH];
  written.rows = attrs[KERF_MATMUL_M];
  written.rowBytes = attrs[KERF_MATMUL_N] * size;
  written.matrixPitch = attrs[KERF_MATMUL_C_BATCH] * size;
  written.rowPitch = attrs[KERF_MATMUL_C_ROW] * size;
  return written;
}

/// The parameter that an address of the arena lies in, by name; "" if none.
std::string kerf_session::parameterAt(const void *address) const {
  int64_t offset = static_cast<const char *>(address) - arena;
  for (const kerf_param &param : view.params) { // the own program's
    int64_t bytes = kerf_dtype_bytes(param.layout.dtype);
    for (uint32_t d = 0; d < param.layout.rank; ++d)
      bytes *= param.layout.local[d];
    for (int64_t i = param.start; i < param.end; ++i) {
      int64_t begin = param.offset + (i - param.start) * param.stride;
      if (offset >= begin && offset < begin + std::max<int64_t>(bytes, 1))
        return kerf::artifact::expandName(view.string(param.name), i, -1);
    }
  }
  return "";
}

/// "'matmul' of wte.weight": the current command with its first parameter.
std::string kerf_session::makerName(const kerf_command &command) const {
  std::string text = std::string("'") + view.string(command.name) + "'";
  for (uint32_t n = 0; n < command.operand_count; ++n) {
    const kerf_operand &operand = view.operands[command.first_operand + n];
    if (operand.kind != KERF_ARENA || operand.access != KERF_READ)
      continue;
    std::string parameter = parameterAt(pointers[n]);
    if (!parameter.empty())
      return text + " of " + parameter;
  }
  return text;
}

/// Notes who wrote a range of memory; who wrote into it before is forgotten.
void kerf_session::noteMaker(const void *address, uint64_t bytes,
                             const kerf_command &command) {
  auto begin = reinterpret_cast<uintptr_t>(address), end = begin + bytes;
  auto next = makers.upper_bound(begin);
  if (next != makers.begin() && std::prev(next)->second.end > begin)
    --next;
  while (next != makers.end() && next->first < end)
    next = makers.erase(next);
  makers[begin] = {end, makerName(command)};
}

/// What an operand is: a parameter by its name, else the command that wrote all
/// of it, else its number.
std::string kerf_session::operandName(uint32_t n, uint64_t bytes) const {
  std::string parameter = parameterAt(pointers[n]);
  if (!parameter.empty())
    return parameter;
  auto begin = reinterpret_cast<uintptr_t>(pointers[n]);
  auto next = makers.upper_bound(begin);
  if (next != makers.begin() && std::prev(next)->second.end >= begin + bytes)
    return "from " + std::prev(next)->second.name;
  return "operand " + std::to_string(n);
}

/// What the inputs of a command are: "inputs reach 3.1 (from 'gelu'), 2e+38
/// (wte.weight)".
Status kerf_session::describeInputs(const kerf_command &command,
                                    std::string &text) const {
  std::vector<char> host;
  for (uint32_t n = 0; n < command.operand_count; ++n) {
    const kerf_operand &operand = view.operands[command.first_operand + n];
    if (operand.kind != KERF_ARENA || operand.access != KERF_READ)
      continue;
    host.resize(operand.bytes);
    if (Status status = fetch(host.data(), pointers[n], operand.bytes);
        status.failed())
      return status;
    Looked looked;
    look(host.data(), operand.bytes, operand.dtype, looked);
    if (looked.count == 0)
      continue;
    char value[32];
    std::snprintf(value, sizeof value, "%.3g", looked.largest);
    text += std::string(text.empty() ? "" : ", ") +
            (looked.badAt < 0    ? value
             : looked.isInfinite ? "inf"
                                 : "nan") +
            " (" + operandName(n, operand.bytes) + ")";
  }
  return {};
}

Status kerf_session::findNan(uint32_t index, const Place &place) {
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
    Looked looked;
    for (uint64_t row = 0; row < written.matrices * written.rows; ++row) {
      const char *from = static_cast<const char *>(pointers[n]) +
                         row / written.rows * written.matrixPitch +
                         row % written.rows * written.rowPitch;
      if (Status status = fetch(host.data(), from, written.rowBytes);
          status.failed())
        return status;
      look(host.data(), written.rowBytes, operand.dtype, looked);
    }
    if (looked.badAt < 0) {
      noteMaker(pointers[n], operand.bytes, command);
      continue;
    }
    std::string inputs;
    if (Status status = describeInputs(command, inputs); status.failed())
      return status;
    std::string layer = place.iteration < 0
                            ? ""
                            : "layer " + std::to_string(place.iteration) + ", ";
    return failure(KERF_NOT_FINITE,
                   "%smicro-batch %u: made %s at element %lld of %lld (operand "
                   "%u)%s%s",
                   layer.c_str(), place.call.micro_batch,
                   looked.isInfinite ? "inf" : "nan", (long long)looked.badAt,
                   (long long)looked.count, n,
                   inputs.empty() ? "" : "; its inputs reach ", inputs.c_str());
  }
  return {};
}
