//===- Support.h - how the cpu device's tests run commands ----------------===//

#ifndef KERF_DEVICES_CPU_TEST_SUPPORT_H
#define KERF_DEVICES_CPU_TEST_SUPPORT_H

#include "kerf/Artifact/CpuWorkspace.h"
#include "kerf/Runtime/Device.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace cputest {

/// The device library's functions.
const kerf_device_api &api();

/// Prints and counts a failure.
[[gnu::format(printf, 1, 2)]] void failed(const char *format, ...);
int failures();

/// A number of `dtype` (f32, bf16 or f16) in memory.
float get(const void *data, uint32_t dtype, int64_t index);
void put(void *data, uint32_t dtype, int64_t index, float value);

/// Memory of an operand with guards around it, all NaN at first.
class Buffer {
public:
  Buffer() = default; ///< an absent operand
  Buffer(uint32_t dtype, int64_t count);
  void *data() const { return memory ? memory->data() + guard : nullptr; }
  int64_t bytes() const { return memory ? payload : 0; }
  float at(int64_t i) const { return get(data(), dtype, i); }
  void set(int64_t i, float value) { put(data(), dtype, i, value); }
  void setInt(int64_t i, int32_t value) {
    static_cast<int32_t *>(data())[i] = value;
  }
  int32_t intAt(int64_t i) const {
    return static_cast<const int32_t *>(data())[i];
  }
  /// Every number small and random, as often negative as not.
  void fill(std::mt19937 &random);
  /// Every byte 0xff: NaN in all formats.
  void poison();
  bool guardsHold() const;
  std::vector<char> content() const;
  void restore(const std::vector<char> &content);

  uint32_t dtype = KERF_F32;
  int64_t count = 0;

private:
  static constexpr int64_t guard = 256;
  std::shared_ptr<std::vector<char>> memory;
  int64_t payload = 0;
};

struct Command {
  uint16_t opcode;
  std::vector<int64_t> attrs;
  std::vector<Buffer> operands;
  int workspace = -1; ///< operand that gets it
};

/// Message of preparing with `workers`, empty when it was accepted.
std::string prepareMessage(const Command &command, int workers = 1);

/// Runs the command on every instruction set with 1, 2, 3 and 5 workers, each
/// time on poisoned workspaces and with the operands as they are now; reports
/// differences between workers and broken guards, and calls `check` on the
/// operands after the first run of each set.
void runEverywhere(Command &command, const std::string &what,
                   const std::function<void(const char *isa)> &check);

/// Compares; tolerance relative to `magnitude`. False (reported) on NaN, too.
bool near(float found, double expected, double magnitude, double tolerance,
          const std::string &what);

void testMatmul(std::mt19937 &random);
void testGroupedMatmul(std::mt19937 &random);
void testAttention(std::mt19937 &random);
void testBadInput();

} // namespace cputest

#endif // KERF_DEVICES_CPU_TEST_SUPPORT_H
