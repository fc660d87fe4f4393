//===- Support.h - how the cuda device's tests run commands ---------------===//

#ifndef KERF_DEVICES_CUDA_TEST_SUPPORT_H
#define KERF_DEVICES_CUDA_TEST_SUPPORT_H

#include "kerf/Artifact/CudaWorkspace.h"
#include "kerf/Runtime/Device.h"

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace cudatest {

/// The device library's functions.
const kerf_device_api &api();

/// Prints and counts a failure.
[[gnu::format(printf, 1, 2)]] void failed(const char *format, ...);
int failures();
/// Fails unless `message` holds `expected`.
void expectText(const std::string &message, const std::string &expected);

/// Sets a variable of the environment until the end of the block.
class Variable {
public:
  Variable(const char *name, const char *value);
  ~Variable();

private:
  std::string name, before;
  bool wasSet;
};

/// A device that ends with the block. Reports when there is none.
class Gpu {
public:
  explicit Gpu(uint32_t localRank = 0);
  ~Gpu();
  operator kerf_device *() const { return device; }
  /// Waits; reports a failure.
  void wait() const;
  /// What `synchronize` says, "" when all is well.
  std::string waitMessage() const;

  kerf_device_status status; ///< of the creation
  std::string message;       ///< of a failed one

private:
  kerf_device *device = nullptr;
};

/// Numbers in device memory, with guards around them; NaN at first.
class Buffer {
public:
  Buffer() = default; ///< an absent operand
  Buffer(const Gpu &gpu, uint32_t dtype, int64_t count);

  void *data() const; ///< in device memory
  int64_t bytes() const { return count * kerf_dtype_bytes(dtype); }
  /// Host to device, and back; `get` reports broken guards.
  void put(const std::vector<double> &values);
  std::vector<double> get() const;
  /// Every number a small multiple of 1/8, as often negative as not: sums of
  /// products are exact in f32. Returns them.
  std::vector<double> fill(std::mt19937 &random);

  uint32_t dtype = KERF_F32;
  int64_t count = 0;

private:
  struct Memory;
  std::shared_ptr<Memory> memory;
};

/// A number as a dtype holds it, and back.
double rounded(double value, uint32_t dtype);

/// A command to prepare and run.
struct Command {
  uint16_t opcode;
  std::vector<int64_t> attrs;
  std::vector<Buffer> operands;
  int scalar = -1; ///< operand that is a scalar of the host
  int32_t scalarValue = 0;
  kerf_function *function = nullptr; ///< of launches, with what follows
  int64_t units = 0;
  uint32_t threads = 0;
  int shifted = -1; ///< operand that begins 64 bytes later, as in an arena
  std::vector<int64_t> fixed = {}; ///< as kerf_step_info has it; empty: unknown
};

/// A step that ends with the block.
class Step {
public:
  Step(const Gpu &gpu, const Command &command, const char *name = "test");
  ~Step();
  /// Enqueues it; reports a failure.
  void run() const;
  /// Enqueues it; what it says, "" when all is well.
  std::string runMessage() const;

  std::string message; ///< why it was refused, "" when it was not

private:
  kerf_step *step = nullptr;
  std::vector<void *> pointers;
  int32_t scalarValue;
};

/// The kernels of test/StepTest.cpp's text.
class Image {
public:
  Image(const Gpu &gpu, const std::string &cubin, const std::string &ptx);
  ~Image();
  kerf_function *find(const char *symbol) const;

  std::string message; ///< why it was refused

private:
  kerf_image *image = nullptr;
};

/// `long_add`: y[i] += x[i] of i32, one block of 64 numbers each.
extern const char *const kernelText;

void testSteps();
void testStreams();
void testMatmul(std::mt19937 &random);
void testEpilogues(std::mt19937 &random);
void testBadInput();
void testMeasuring(std::mt19937 &random);
/// What a driver may crash at: the last group.
void testAbuse();
/// 90 of "sm_90"; 0 where there is none.
int capabilityOf(const Gpu &gpu);
/// Of the first GPU with matmuls of 8-bit floats.
constexpr int float8Capability = 89;
/// Why a plain matmul of f32 is refused, "" when it is not.
std::string matmulMessage(const Gpu &gpu);
/// Breaks a device, which takes the process's use of the GPU with it: the last
/// test of a process.
void testFatal(const std::string &which);

} // namespace cudatest

#endif // KERF_DEVICES_CUDA_TEST_SUPPORT_H
