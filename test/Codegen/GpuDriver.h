//===- GpuDriver.h - a GPU that kernels are tried on ----------------------===//

#ifndef KERF_TEST_CODEGEN_GPUDRIVER_H
#define KERF_TEST_CODEGEN_GPUDRIVER_H

#include "kerf/Codegen/Codegen.h"

#include <memory>
#include <string>
#include <vector>

namespace kerf {

/// The first GPU, by the driver's library (`libcuda.so.1`), which is looked for
/// in the folders of KERF_CUDA_PATH, then by the loader.
class GpuDriver {
public:
  /// Null, and `error`, without a driver or a GPU.
  static std::unique_ptr<GpuDriver> open(std::string &error);
  ~GpuDriver();

  /// Loads the cubin, or PTX where there is none.
  bool load(const CompiledKernels &kernels, std::string &error);
  /// Runs a kernel on copies of the buffers, one per argument, and copies them
  /// back. Equal pointers are one buffer.
  bool launch(const CompiledKernel &kernel,
              const std::vector<std::vector<char> *> &buffers,
              std::string &error);

private:
  GpuDriver() = default;
  struct Api;
  std::unique_ptr<Api> api;
  void *module = nullptr;
};

} // namespace kerf

#endif // KERF_TEST_CODEGEN_GPUDRIVER_H
