//===- Support.cpp - how the cuda device's tests run commands -------------===//

#include "Support.h"

#include <bit>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace cudatest;

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

const kerf_device_api &cudatest::api() { return *kerf_device_entry(); }

static int failureCount = 0;

void cudatest::failed(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  ++failureCount;
}

int cudatest::failures() { return failureCount; }

void cudatest::expectText(const std::string &message,
                          const std::string &expected) {
  if (message.find(expected) == message.npos ||
      message.empty() != expected.empty())
    failed("found message '%s', expected '%s'", message.c_str(),
           expected.c_str());
}

Variable::Variable(const char *name, const char *value) : name(name) {
  const char *old = std::getenv(name);
  wasSet = old;
  before = old ? old : "";
  setenv(name, value, 1);
}

Variable::~Variable() {
  if (wasSet)
    setenv(name.c_str(), before.c_str(), 1);
  else
    unsetenv(name.c_str());
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

int cudatest::capabilityOf(const Gpu &gpu) {
  const char *at = std::strstr(api().describe(gpu), "sm_");
  return at ? std::atoi(at + 3) : 0;
}

Gpu::Gpu(uint32_t localRank) {
  char error[1024] = "";
  kerf_device_options options = {};
  options.local_rank = localRank;
  status = api().create(&options, &device, error, sizeof error);
  if (status)
    message = error;
}

Gpu::~Gpu() { api().destroy(device); }

std::string Gpu::waitMessage() const {
  char error[1024] = "";
  kerf_device_status status = api().synchronize(device, error, sizeof error);
  if (!status && error[0])
    failed("a message without a failure: %s", error);
  return status ? error : "";
}

void Gpu::wait() const {
  std::string message = waitMessage();
  if (!message.empty())
    failed("waiting failed: %s", message.c_str());
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// Rounds to `bits` of mantissa behind the first, to even.
static double roundTo(double value, int bits) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent;
  std::frexp(value, &exponent);
  double unit = std::ldexp(1.0, exponent - 1 - bits);
  return std::nearbyint(value / unit) * unit;
}

double cudatest::rounded(double value, uint32_t dtype) {
  switch (dtype) {
  case KERF_BF16:
    return roundTo(value, 7);
  case KERF_F16:
    return roundTo(value, 10);
  case KERF_F32:
    return static_cast<float>(value);
  default:
    return value;
  }
}

template <typename T> static void store(char *at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename T> static T load(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// `value` must be one that the dtype holds, and normal in f16.
static void encode(char *at, uint32_t dtype, double value) {
  switch (dtype) {
  case KERF_F64:
    return store(at, value);
  case KERF_F32:
    return store(at, static_cast<float>(value));
  case KERF_I32:
    return store(at, static_cast<int32_t>(value));
  case KERF_F8E4M3:
  case KERF_F8E5M2: {
    int digits = dtype == KERF_F8E4M3 ? 3 : 2, bias = digits == 3 ? 7 : 15;
    uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    uint32_t exponent = (bits >> 23 & 0xff) - 127 + bias;
    uint32_t fraction = bits >> (23 - digits) & ((1u << digits) - 1);
    uint32_t byte = value == 0 ? 0 : exponent << digits | fraction;
    return store(at, static_cast<uint8_t>(byte | (bits >> 24 & 0x80)));
  }
  case KERF_BF16:
    return store(
        at, static_cast<uint16_t>(std::bit_cast<uint32_t>(float(value)) >> 16));
  default: {
    uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    uint32_t exponent = (bits >> 23 & 0xff) - 112;
    uint16_t half = value == 0 ? 0 : exponent << 10 | (bits >> 13 & 0x3ff);
    return store(at, static_cast<uint16_t>(half | (bits >> 16 & 0x8000)));
  }
  }
}

static double decode(const char *at, uint32_t dtype) {
  switch (dtype) {
  case KERF_F64:
    return load<double>(at);
  case KERF_F32:
    return load<float>(at);
  case KERF_I32:
    return load<int32_t>(at);
  case KERF_BF16:
    return std::bit_cast<float>(uint32_t(load<uint16_t>(at)) << 16);
  default: {
    uint32_t half = load<uint16_t>(at);
    int exponent = half >> 10 & 31;
    double sign = half & 0x8000 ? -1 : 1, fraction = half & 0x3ff;
    if (exponent == 31)
      return fraction != 0 ? NAN : sign * HUGE_VAL;
    return exponent ? sign * std::ldexp(1024 + fraction, exponent - 25)
                    : sign * std::ldexp(fraction, -24);
  }
  }
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static constexpr int64_t guard = 256; // bytes; keeps the alignment

struct Buffer::Memory {
  const Gpu &gpu;
  void *data;
  int64_t bytes; ///< with guards
  Memory(const Gpu &gpu, int64_t bytes) : gpu(gpu), data(), bytes(bytes) {
    char error[256];
    if (api().alloc(gpu, bytes, &data, error, sizeof error))
      failed("%s", error);
    std::vector<char> poison(bytes, '\xff');
    api().copy_in(gpu, data, poison.data(), bytes);
  }
  ~Memory() { api().free(gpu, data, bytes); }
};

Buffer::Buffer(const Gpu &gpu, uint32_t dtype, int64_t count)
    : dtype(dtype), count(count),
      memory(std::make_shared<Memory>(gpu, bytes() + 2 * guard)) {}

void *Buffer::data() const {
  return memory ? static_cast<char *>(memory->data) + guard : nullptr;
}

void Buffer::put(const std::vector<double> &values) {
  std::vector<char> host(bytes());
  for (int64_t i = 0; i < count; ++i)
    encode(&host[i * kerf_dtype_bytes(dtype)], dtype, values[i]);
  api().copy_in(memory->gpu, data(), host.data(), bytes());
}

std::vector<double> Buffer::get() const {
  std::vector<char> host(memory->bytes);
  api().copy_out(memory->gpu, host.data(), memory->data, memory->bytes);
  for (int64_t i = 0; i < guard; ++i)
    if (host[i] != '\xff' || host[memory->bytes - 1 - i] != '\xff') {
      failed("something was written outside of a buffer");
      break;
    }
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = decode(&host[guard + i * kerf_dtype_bytes(dtype)], dtype);
  return values;
}

std::vector<double> Buffer::fill(std::mt19937 &random) {
  std::vector<double> values(count);
  for (double &value : values)
    value = (static_cast<int>(random() % 33) - 16) / 8.0;
  put(values);
  return values;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static kerf_operand operandOf(const Command &command, size_t index) {
  const Buffer &buffer = command.operands[index];
  kerf_operand operand = {};
  operand.kind = buffer.data() ? KERF_ARENA : KERF_ABSENT;
  if (static_cast<int>(index) == command.scalar)
    operand.kind = KERF_SCALAR;
  operand.dtype = static_cast<uint8_t>(buffer.dtype);
  operand.bytes = buffer.bytes();
  if (static_cast<int>(index) == command.shifted) {
    operand.offset = KERF_ARENA_ALIGN;
    operand.bytes -= KERF_ARENA_ALIGN;
  }
  return operand;
}

Step::Step(const Gpu &gpu, const Command &command, const char *name)
    : scalarValue(command.scalarValue) {
  std::vector<kerf_operand> operands;
  for (size_t n = 0; n < command.operands.size(); ++n) {
    operands.push_back(operandOf(command, n));
    pointers.push_back(static_cast<int>(n) == command.scalar
                           ? static_cast<void *>(&scalarValue)
                           : command.operands[n].data());
    if (static_cast<int>(n) == command.shifted)
      pointers.back() = static_cast<char *>(pointers.back()) + KERF_ARENA_ALIGN;
  }
  kerf_command record = {};
  record.opcode = command.opcode;
  record.operand_count = static_cast<uint32_t>(operands.size());
  record.attr_count = static_cast<uint32_t>(command.attrs.size());
  kerf_step_info info = {};
  info.command = &record;
  info.operands = operands.data();
  info.attrs = command.attrs.data();
  info.fixed = command.fixed.empty() ? nullptr : command.fixed.data();
  info.name = name;
  info.function = command.function;
  info.units = command.units;
  info.grain = 1;
  info.threads = command.threads;
  info.argument_count = record.operand_count;
  char error[1024] = "";
  if (api().prepare(gpu, &info, &step, error, sizeof error))
    message = error[0] ? error : "refused without a message";
}

Step::~Step() { api().destroy_step(step); }

std::string Step::runMessage() const {
  if (!step)
    return message;
  char error[1024] = "";
  return api().execute(step, pointers.data(), error, sizeof error) ? error : "";
}

void Step::run() const {
  std::string why = runMessage();
  if (!why.empty())
    failed("a step failed: %s", why.c_str());
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

Image::Image(const Gpu &gpu, const std::string &cubin, const std::string &ptx) {
  char error[1024] = "";
  if (api().load_image(gpu, cubin.data(), cubin.size(), ptx.data(), ptx.size(),
                       &image, error, sizeof error))
    message = error;
}

Image::~Image() { api().unload_image(image); }

kerf_function *Image::find(const char *symbol) const {
  return image ? api().find_kernel(image, symbol) : nullptr;
}
