//===- Support.cpp - how the cpu device's tests run commands --------------===//

#include "Support.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace cputest;

static int failureCount = 0;

const kerf_device_api &cputest::api() { return *kerf_device_entry(); }

int cputest::failures() { return failureCount; }

void cputest::failed(const char *format, ...) {
  if (++failureCount > 20)
    return; // the first ones tell enough
  va_list arguments;
  va_start(arguments, format);
  fputs("failed: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

float cputest::get(const void *data, uint32_t dtype, int64_t index) {
  if (dtype == KERF_F32)
    return static_cast<const float *>(data)[index];
  if (dtype == KERF_F16)
    return static_cast<float>(static_cast<const _Float16 *>(data)[index]);
  uint32_t bits =
      static_cast<uint32_t>(static_cast<const uint16_t *>(data)[index]) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void cputest::put(void *data, uint32_t dtype, int64_t index, float value) {
  if (dtype == KERF_F32) {
    static_cast<float *>(data)[index] = value;
    return;
  }
  if (dtype == KERF_F16) {
    static_cast<_Float16 *>(data)[index] = static_cast<_Float16>(value);
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits += 0x7fff + ((bits >> 16) & 1);
  static_cast<uint16_t *>(data)[index] = static_cast<uint16_t>(bits >> 16);
}

Buffer::Buffer(uint32_t dtype, int64_t count) : dtype(dtype), count(count) {
  payload = count * kerf_dtype_bytes(dtype);
  // Packed rows may start anywhere: guards keep the alignment of 64.
  memory = std::make_shared<std::vector<char>>(payload + 2 * guard,
                                               static_cast<char>(0xff));
}

void Buffer::fill(std::mt19937 &random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < count; ++i)
    set(i, uniform(random));
}

void Buffer::poison() {
  if (memory)
    std::fill(memory->begin(), memory->end(), static_cast<char>(0xff));
}

bool Buffer::guardsHold() const {
  for (int64_t i = 0; memory && i < guard; ++i)
    if ((*memory)[i] != static_cast<char>(0xff) ||
        (*memory)[guard + payload + i] != static_cast<char>(0xff))
      return false;
  return true;
}

std::vector<char> Buffer::content() const {
  const char *begin = static_cast<const char *>(data());
  return memory ? std::vector<char>(begin, begin + payload)
                : std::vector<char>();
}

void Buffer::restore(const std::vector<char> &content) {
  if (payload)
    std::memcpy(data(), content.data(), payload);
}

namespace {
/// A device with a step for a command.
struct Prepared {
  kerf_device *device = nullptr;
  kerf_step *step = nullptr;
  char error[512] = {};

  Prepared(const Command &command, int workers) {
    kerf_device_options options = {};
    options.workers = workers;
    if (api().create(&options, &device, error, sizeof error))
      return;
    std::vector<kerf_operand> operands(command.operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      operands[i].kind = command.operands[i].data() ? KERF_ARENA : KERF_ABSENT;
      operands[i].dtype = static_cast<uint8_t>(command.operands[i].dtype);
      operands[i].bytes = command.operands[i].bytes();
    }
    kerf_command record = {};
    record.opcode = command.opcode;
    record.operand_count = static_cast<uint32_t>(operands.size());
    record.attr_count = static_cast<uint32_t>(command.attrs.size());
    kerf_step_info info = {};
    info.command = &record;
    info.operands = operands.data();
    info.attrs = command.attrs.data();
    info.name = "test";
    api().prepare(device, &info, &step, error, sizeof error);
  }
  ~Prepared() {
    api().destroy_step(step);
    api().destroy(device);
  }
};
} // namespace

std::string cputest::prepareMessage(const Command &command, int workers) {
  Prepared prepared(command, workers);
  return prepared.step ? "" : prepared.error;
}

static void runOnce(Command &command, int workers, const std::string &what) {
  if (command.workspace >= 0)
    command.operands[command.workspace] = Buffer(
        KERF_F32,
        kerf_cpu_workspace(command.opcode, command.attrs.data(), workers) / 4);
  Prepared prepared(command, workers);
  if (!prepared.step)
    return failed("%s: %s", what.c_str(), prepared.error);
  std::vector<void *> pointers;
  for (const Buffer &operand : command.operands)
    pointers.push_back(operand.data());
  char error[256] = {};
  if (api().execute(prepared.step, pointers.data(), error, sizeof error))
    failed("%s: %s", what.c_str(), error);
  for (size_t i = 0; i < command.operands.size(); ++i)
    if (!command.operands[i].guardsHold())
      failed("%s: memory around operand %zu was written", what.c_str(), i);
}

void cputest::runEverywhere(Command &command, const std::string &what,
                            const std::function<void(const char *)> &check) {
  std::vector<std::vector<char>> before;
  for (const Buffer &operand : command.operands)
    before.push_back(operand.content());
  bool any = false;
  for (const char *isa : {"generic", "avx2", "avx512", "avx512bf16", "amx"}) {
    setenv("KERF_CPU_ISA", isa, 1);
    kerf_device_options options = {};
    options.workers = 1;
    kerf_device *device = nullptr;
    if (api().create(&options, &device, nullptr, 0))
      continue; // not on this machine
    any = true;
    api().destroy(device);
    std::vector<std::vector<char>> first;
    for (int workers : {1, 2, 3, 5}) {
      std::string name =
          what + ", " + isa + ", " + std::to_string(workers) + " workers";
      for (size_t i = 0; i < before.size(); ++i)
        if (static_cast<int>(i) != command.workspace)
          command.operands[i].restore(before[i]);
      runOnce(command, workers, name);
      if (workers == 1)
        check(isa);
      for (size_t i = 0; i < before.size(); ++i) {
        if (static_cast<int>(i) == command.workspace)
          continue;
        if (workers == 1)
          first.push_back(command.operands[i].content());
        else if (command.operands[i].content() !=
                 first[i - (command.workspace >= 0 &&
                            static_cast<int>(i) > command.workspace)])
          failed("%s: operand %zu differs from one worker's", name.c_str(), i);
      }
    }
  }
  if (!any)
    failed("%s: no instruction set could be tried", what.c_str());
  unsetenv("KERF_CPU_ISA");
}

bool cputest::near(float found, double expected, double magnitude,
                   double tolerance, const std::string &what) {
  if (std::fabs(found - expected) <= tolerance * magnitude)
    return true;
  failed("%s: found %.9g, expected %.9g within %g", what.c_str(), found,
         expected, tolerance * magnitude);
  return false;
}
