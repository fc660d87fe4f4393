//===- Facts.cpp - what is said of a GPU and its libraries ----------------===//

#include "Facts.h"

#include "Image.h"
#include "Step.h"
#include "kernels/Code.h"

#include <cstdio>
#include <dlfcn.h>

using namespace kerf::cuda;

/// "13.0" of 13000.
static std::string driverVersion(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 100 / 10);
}

void kerf::cuda::facts(const kerf_device *device, kerf_device_facts *facts) {
  auto &own = const_cast<kerf_device &>(*device); // whose calls are members
  *facts = {};
  own.driver.deviceGetName(facts->name, sizeof facts->name, own.ordinal);
  std::snprintf(facts->arch, sizeof facts->arch, "sm_%d", own.capability);
  std::snprintf(facts->tuned_on, sizeof facts->tuned_on, "%s",
                tunedOn(own).c_str());
  std::snprintf(facts->driver, sizeof facts->driver, "%s",
                driverVersion(own.driver.version).c_str());
  int count = 1;
  own.driver.deviceGetCount(&count);
  facts->devices = static_cast<uint32_t>(count);
}

//===----------------------------------------------------------------------===//
// Examining
//===----------------------------------------------------------------------===//

static void addLine(std::string &text, const std::string &name,
                    const std::string &value) {
  text += name + "\t" + value + "\n";
}

static void addGpus(const Driver &driver, std::string &text) {
  int count = 0;
  driver.deviceGetCount(&count);
  for (int n = 0; n < count; ++n) {
    char name[128] = "", line[256];
    CUdevice gpu = 0;
    int major = 0, minor = 0;
    size_t bytes = 0;
    driver.deviceGet(&gpu, n);
    driver.deviceGetName(name, sizeof name, gpu);
    driver.deviceTotalMem(&bytes, gpu);
    driver.deviceGetAttribute(
        &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu);
    driver.deviceGetAttribute(
        &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu);
    std::snprintf(line, sizeof line, "%s, sm_%d%d, %.1f GiB%s", name, major,
                  minor, static_cast<double>(bytes) / (1 << 30),
                  major < 8 ? ": too old, 8.0 is needed" : "");
    addLine(text, "GPU " + std::to_string(n), line);
  }
}

static void addBlas(int driverVersion, std::string &text) {
  CublasLt blas;
  if (!blas.open(driverVersion))
    return addLine(text, "cuBLASLt", blas.library.failure);
  size_t version = blas.getVersion();
  addLine(text, "cuBLASLt",
          std::to_string(version / 10000) + "." +
              std::to_string(version / 100 % 100) + "." +
              std::to_string(version % 100) + " (" + blas.library.path + ")");
}

static void addCudnn(std::string &text) {
  Library library;
  if (!library.open({"libcudnn.so.9"}))
    return addLine(text, "cuDNN", library.failure);
  auto *getVersion =
      reinterpret_cast<size_t (*)()>(dlsym(library.handle, "cudnnGetVersion"));
  Dl_info info;
  bool isKnown = getVersion &&
                 dladdr(reinterpret_cast<void *>(getVersion), &info) &&
                 info.dli_fname;
  std::string path = isKnown ? info.dli_fname : library.path;
  size_t version = getVersion ? getVersion() : 0;
  addLine(text, "cuDNN",
          std::to_string(version / 10000) + "." +
              std::to_string(version / 100 % 100) + "." +
              std::to_string(version % 100) + " (" + path + ")");
}

void kerf::cuda::examine(char *buffer, size_t bytes) {
  std::string text;
  char error[512] = "";
  Driver driver;
  if (driver.open(error, sizeof error)) {
    addLine(text, "driver",
            driverVersion(driver.version) + " (" + driver.library.path + ")");
    addGpus(driver, text);
  } // else `create` says why
  // Without a driver the newest is told that there is.
  addBlas(driver.version ? driver.version : 13000, text);
  addCudnn(text);
  std::snprintf(buffer, bytes, "%s", text.c_str());
}

//===----------------------------------------------------------------------===//
// Built-in kernels
//===----------------------------------------------------------------------===//

kerf_device_status kerf::cuda::builtinKernel(kerf_device *device,
                                             uint32_t builtin,
                                             kerf_function **function,
                                             char *error, size_t errorBytes) {
  const char *names[] = {"kerf_builtin_nothing", "kerf_builtin_sum"};
  *function = nullptr;
  if (builtin >= std::size(names)) {
    say(error, errorBytes, "no built-in kernel %u", builtin);
    return KERF_DEVICE_UNSUPPORTED;
  }
  std::shared_ptr<kerf_function> &kept = device->builtins[builtin];
  if (!kept) {
    device->makeCurrent();
    kerf_command command = {};
    kerf_step_info info = {};
    info.command = &command;
    info.name = "built-in kernel";
    CUfunction handle = Request(*device, info, error, errorBytes)
                            .ownKernel(kerf_ptx_builtin, names[builtin]);
    if (!handle)
      return KERF_DEVICE_FAILED;
    kept = std::make_shared<kerf_function>(
        kerf_function{handle, KERF_BUILTIN_THREADS});
  }
  *function = kept.get();
  return KERF_DEVICE_OK;
}
