//===- GpuDriver.cpp - a GPU that kernels are tried on --------------------===//

#include "GpuDriver.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdlib>
#include <dlfcn.h>
#include <map>

using namespace kerf;

/// The functions of the driver that are used, as cuda.h declares them.
struct GpuDriver::Api {
  int (*init)(unsigned);
  int (*deviceGet)(int *, int);
  int (*contextRetain)(void **, int);
  int (*contextSet)(void *);
  int (*moduleLoad)(void **, const void *);
  int (*moduleUnload)(void *);
  int (*getFunction)(void **, void *, const char *);
  int (*alloc)(uint64_t *, size_t);
  int (*free)(uint64_t);
  int (*copyIn)(uint64_t, const void *, size_t);
  int (*copyOut)(void *, uint64_t, size_t);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, void *, void **, void **);
  int (*synchronize)();
  int (*errorString)(int, const char **);

  bool failed(int status, const char *what, std::string &error) const {
    const char *text = nullptr;
    if (status && errorString)
      errorString(status, &text);
    if (status)
      error = std::string(what) + ": " +
              (text ? text : "error " + std::to_string(status));
    return status != 0;
  }
};

static void *openLibrary() {
  constexpr const char *name = "libcuda.so.1";
  llvm::SmallVector<llvm::StringRef> folders;
  if (const char *path = std::getenv("KERF_CUDA_PATH"))
    llvm::StringRef(path).split(folders, ':', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef folder : folders)
    if (void *library = dlopen((folder + "/" + name).str().c_str(), RTLD_NOW))
      return library;
  return dlopen(name, RTLD_NOW);
}

std::unique_ptr<GpuDriver> GpuDriver::open(std::string &error) {
  void *library = openLibrary();
  if (!library) {
    error = dlerror();
    return nullptr;
  }
  std::unique_ptr<GpuDriver> driver(new GpuDriver);
  driver->api = std::make_unique<Api>();
  Api &api = *driver->api;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(
        dlsym(library, name));
    if (!function)
      error = std::string("the driver lacks ") + name;
  };
  find(api.init, "cuInit");
  find(api.deviceGet, "cuDeviceGet");
  find(api.contextRetain, "cuDevicePrimaryCtxRetain");
  find(api.contextSet, "cuCtxSetCurrent");
  find(api.moduleLoad, "cuModuleLoadData");
  find(api.moduleUnload, "cuModuleUnload");
  find(api.getFunction, "cuModuleGetFunction");
  find(api.alloc, "cuMemAlloc_v2");
  find(api.free, "cuMemFree_v2");
  find(api.copyIn, "cuMemcpyHtoD_v2");
  find(api.copyOut, "cuMemcpyDtoH_v2");
  find(api.launch, "cuLaunchKernel");
  find(api.synchronize, "cuCtxSynchronize");
  find(api.errorString, "cuGetErrorString");
  if (!error.empty())
    return nullptr;
  int device;
  void *context;
  if (api.failed(api.init(0), "cuInit", error) ||
      api.failed(api.deviceGet(&device, 0), "cuDeviceGet", error) ||
      api.failed(api.contextRetain(&context, device), "context", error) ||
      api.failed(api.contextSet(context), "context", error))
    return nullptr;
  return driver;
}

GpuDriver::~GpuDriver() {
  if (module)
    api->moduleUnload(module);
}

bool GpuDriver::load(const CompiledKernels &kernels, std::string &error) {
  const std::string &code = kernels.image.empty() ? kernels.ptx : kernels.image;
  return !api->failed(api->moduleLoad(&module, code.c_str()), "loading kernels",
                      error);
}

bool GpuDriver::launch(const CompiledKernel &kernel,
                       const std::vector<std::vector<char> *> &buffers,
                       std::string &error) {
  void *function = nullptr;
  if (api->failed(api->getFunction(&function, module, kernel.symbol.c_str()),
                  kernel.symbol.c_str(), error))
    return false;
  std::map<std::vector<char> *, uint64_t> memory;
  std::vector<uint64_t> addresses;
  std::vector<void *> arguments;
  bool isDone = true;
  auto must = [&](int status, const char *what) {
    isDone = isDone && !api->failed(status, what, error);
  };
  for (std::vector<char> *buffer : buffers) {
    auto [at, isNew] = memory.try_emplace(buffer, 0);
    if (isNew && !buffer->empty()) {
      must(api->alloc(&at->second, buffer->size()), "allocating memory");
      must(api->copyIn(at->second, buffer->data(), buffer->size()), "copy in");
    }
    addresses.push_back(at->second);
  }
  for (uint64_t &address : addresses)
    arguments.push_back(&address);
  if (isDone && kernel.units > 0)
    must(api->launch(function, kernel.units, 1, 1, kernel.threads, 1, 1, 0,
                     nullptr, arguments.data(), nullptr),
         "launch");
  must(api->synchronize(), "kernel");
  for (auto [buffer, address] : memory) {
    if (!address)
      continue;
    if (isDone)
      must(api->copyOut(buffer->data(), address, buffer->size()), "copy out");
    api->free(address);
  }
  return isDone;
}
