//===- AbsentTest.cpp - the cuda device without NVIDIA's libraries --------===//
//
// kerf-cuda-absent-test PLUGIN: what `create` says where there is no driver, or
// where what is called libcuda.so.1 is none. PLUGIN is any shared object that
// has none of the driver's functions. Says nothing of machines with a driver,
// whose loader finds it whatever the variables say.
//
//===----------------------------------------------------------------------===//

#include "kerf/Runtime/Device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace fs = std::filesystem;

static int failures = 0;

static void expect(const std::string &message, const std::string &expected) {
  if (message.find(expected) != message.npos)
    return;
  std::fprintf(stderr, "found message '%s', expected '%s'\n", message.c_str(),
               expected.c_str());
  ++failures;
}

/// What `create` says.
static std::string createMessage() {
  kerf_device_options options = {};
  kerf_device *device = nullptr;
  char error[1024] = "";
  kerf_device_status status =
      kerf_device_entry()->create(&options, &device, error, sizeof error);
  if (status != KERF_DEVICE_UNSUPPORTED || device) {
    std::fprintf(stderr, "found status %d and %sdevice, expected %d\n", status,
                 device ? "a " : "no ", KERF_DEVICE_UNSUPPORTED);
    ++failures;
    kerf_device_entry()->destroy(device);
  }
  return error;
}

static void testNothing() {
  std::string message = createMessage();
  expect(message, "no CUDA driver: libcuda.so.1 is not found (looked in "
                  "KERF_CUDA_PATH (not set), the loader's folders, CUDA_HOME "
                  "(not set), KERF_CUDA_WHEELS (not set), VIRTUAL_ENV (not "
                  "set)); install NVIDIA's driver, 525 or later");
  setenv("CUDA_HOME", "/nowhere", 1);
  expect(createMessage(), "CUDA_HOME (/nowhere)");
  unsetenv("CUDA_HOME");
  char missing[64] = "?";
  if (kerf_device_entry()->check_features("sm_90", missing, sizeof missing) ||
      *missing)
    expect(missing, "nothing to be missing where nothing is known");
}

/// A file of that name in each of the places that are searched.
static void testPlaces(const fs::path &folder, const char *plugin) {
  fs::path wheel = folder / "lib/python3.11/site-packages/nvidia/cuda/lib";
  fs::create_directories(folder / "lib64");
  fs::create_directories(wheel);
  std::ofstream(folder / "libcuda.so.1") << "no library";
  fs::create_symlink(fs::canonical(plugin), folder / "lib64/libcuda.so.1");
  fs::create_symlink(fs::canonical(plugin), wheel / "libcuda.so.1");
  setenv("KERF_CUDA_PATH", ("/nowhere:" + folder.string()).c_str(), 1);
  expect(createMessage(), "libcuda.so.1 does not open: " + folder.string());
  unsetenv("KERF_CUDA_PATH");
  setenv("CUDA_HOME", folder.c_str(), 1);
  std::string old = "' has no function 'cuInit': it is too old";
  expect(createMessage(), "'" + (folder / "lib64/libcuda.so.1").string() + old);
  unsetenv("CUDA_HOME");
  setenv("VIRTUAL_ENV", folder.c_str(), 1);
  expect(createMessage(), "'" + (wheel / "libcuda.so.1").string() + old);
  setenv("KERF_CUDA_WHEELS", "/nowhere", 1);
  expect(createMessage(), "KERF_CUDA_WHEELS (/nowhere)");
  unsetenv("VIRTUAL_ENV");
  unsetenv("KERF_CUDA_WHEELS");
}

int main(int argc, char **argv) {
  for (const char *name :
       {"KERF_CUDA_PATH", "CUDA_HOME", "KERF_CUDA_WHEELS", "VIRTUAL_ENV"})
    unsetenv(name);
  if (argc != 2)
    return 2;
  if (dlopen("libcuda.so.1", RTLD_NOW)) {
    std::puts("skipped: this machine has a CUDA driver");
    return 77;
  }
  std::string folder = (fs::temp_directory_path() / "kerf-cuda-XXXXXX");
  if (!mkdtemp(folder.data()))
    return 2;
  testNothing();
  testPlaces(folder, argv[1]);
  fs::remove_all(folder);
  std::printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
