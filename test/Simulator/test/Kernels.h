//===- Kernels.h - runs PTX of a test -------------------------------------===//

#ifndef KERF_SIMULATOR_TEST_KERNELS_H
#define KERF_SIMULATOR_TEST_KERNELS_H

#include "Machine.h"

#include <cstdlib>
#include <cstring>

namespace kerf::sim::test {

/// A kernel `k(in, out)` of this body; %in and %out hold their addresses,
/// %t the thread, %o the place of out[global thread] (4 bytes each).
inline std::string kernel(const std::string &body,
                          const std::string &before = "",
                          const std::string &directives = "") {
  return R"(.version 8.0
.target sm_90
.address_size 64
)" + before +
         R"(
.visible .entry k(.param .u64 k_in, .param .u64 k_out) )" +
         directives + R"(
{ .reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<60>; .reg .b64 %d<20>;
  .reg .b64 %in, %out, %o; .reg .b32 %t, %b, %n, %g;
  ld.param.u64 %in, [k_in];
  ld.param.u64 %out, [k_out];
  mov.u32 %t, %tid.x;
  mov.u32 %b, %ctaid.x;
  mov.u32 %n, %ntid.x;
  mad.lo.u32 %g, %b, %n, %t;
  mad.wide.u32 %o, %g, 4, %out;
)" + body +
         "\nret;\n}\n";
}

struct Result {
  Status status = Success;
  std::string text;
  std::vector<uint32_t> out;
  Statistics statistics;
};

/// Runs k; `in` and `out` are words, out starts as 0xFFFFFFFF.
inline Result run(const std::string &ptx, const std::vector<uint32_t> &in,
                  size_t outWords, Extent grid = {},
                  Extent threads = {32, 1, 1}, uint32_t shared = 0) {
  Memory &device = memory();
  uint64_t inBytes = in.size() * 4 + 4, outBytes = outWords * 4;
  uint64_t places[] = {device.allocate(inBytes), device.allocate(outBytes)};
  if (!in.empty())
    memcpy(device.host(places[0], inBytes), in.data(), in.size() * 4);
  std::vector<uint8_t> params(sizeof places);
  memcpy(params.data(), places, sizeof places);
  Result result;
  try {
    std::unique_ptr<Program> program = loadPtx(ptx);
    result.statistics = launch(*program, *program->find("k"), grid, threads,
                               shared, params, true);
  } catch (const Trap &trap) {
    result.status = trap.status;
    result.text = trap.text;
  }
  result.out.resize(outWords);
  memcpy(result.out.data(), device.host(places[1], outBytes), outBytes);
  device.release(places[0]);
  device.release(places[1]);
  return result;
}

/// Sets a variable of the environment while it lives.
struct Setting {
  const char *name;
  Setting(const char *name, const char *value) : name(name) {
    setenv(name, value, 1);
  }
  ~Setting() { unsetenv(name); }
};

} // namespace kerf::sim::test

#endif // KERF_SIMULATOR_TEST_KERNELS_H
