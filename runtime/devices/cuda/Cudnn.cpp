//===- Cudnn.cpp - opening libcudnn ---------------------------------------===//

#include "Cudnn.h"

#include "CudnnGraph.h"

using namespace kerf::cuda;

bool Cudnn::open(int driverVersion) {
  if (wasOpened)
    return library.failure.empty();
  wasOpened = true;
  // cuDNN opens the one of its own CUDA by name: it finds what is open already,
  // wherever it lies.
  std::vector<std::string> names = {"libnvrtc.so.12"};
  if (driverVersion >= 13000)
    names.insert(names.begin(), "libnvrtc.so.13");
  for (const std::string &name : names)
    Library().open({name});
  if (!library.open({"libcudnn.so.9"}))
    return false;
  return findSymbols(library, {
#define KERF_CUDA_SYMBOL(member, name, result, arguments)                      \
  {#name, reinterpret_cast<void **>(&member)},
                                  KERF_CUDA_CUDNN(KERF_CUDA_SYMBOL)
#undef KERF_CUDA_SYMBOL
                              });
}

bool Cudnn::start(int driverVersion) {
  if (wasStarted || !open(driverVersion))
    return library.failure.empty();
  wasStarted = true;
  if (cudnnStatus_t status = create(&handle)) {
    handle = nullptr;
    library.failure = "cuDNN " + version() + " cannot start: " + text(status);
  }
  return handle;
}

void Cudnn::stop() {
  plans.clear();
  if (handle)
    destroy(handle);
  handle = nullptr;
}

std::string Cudnn::text(cudnnStatus_t status) const {
  const char *name = getErrorString(status);
  std::string text = name ? name : "status " + std::to_string(status);
  char why[512] = "";
  getLastErrorString(why, sizeof why);
  return *why ? text + " (" + why + ")" : text;
}

std::string Cudnn::version() const {
  size_t version = getVersion();
  return std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}
