//===- Image.cpp - kernels of an artifact ---------------------------------===//

#include "Image.h"
#include "Step.h"

#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <memory>
#include <new>

using namespace kerf::cuda;

struct kerf_image {
  kerf_device &device;
  CUmodule module = nullptr; ///< null where there are no kernels
  std::map<std::string, std::unique_ptr<kerf_function>> functions;
};

/// An ELF file for NVIDIA's GPUs that its header says to be whole: the driver
/// is not told the size and takes the header's word.
static bool isCubin(const void *bytes, uint64_t size) {
  constexpr Elf64_Half machine = 190; // EM_CUDA
  Elf64_Ehdr header;
  if (size < sizeof header)
    return false;
  std::memcpy(&header, bytes, sizeof header);
  auto inside = [&](uint64_t offset, uint64_t count, uint64_t each) {
    return offset <= size && count * each <= size - offset;
  };
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_machine == machine &&
         inside(header.e_shoff, header.e_shnum, header.e_shentsize) &&
         inside(header.e_phoff, header.e_phnum, header.e_phentsize);
}

CUresult kerf::cuda::loadModule(kerf_device &device, const void *code,
                                CUmodule &module, std::string &log) {
  char buffer[4096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  // The driver takes numbers in the place of pointers.
  void *values[] = {buffer, reinterpret_cast<void *>(sizeof buffer)};
  CUresult result =
      device.driver.moduleLoadDataEx(&module, code, 2, options, values);
  buffer[sizeof buffer - 1] = 0;
  log = buffer;
  while (!log.empty() && log.back() == '\n')
    log.pop_back();
  return result;
}

/// What the user can do where a GPU does not take PTX: the driver translates it
/// for the GPU that it names and later ones, with a suffix only for that one.
static const char *adviceFor(const std::string &ptx, int capability) {
  static constexpr char directive[] = ".target sm_";
  size_t at = ptx.find(directive);
  char *suffix = nullptr;
  long target =
      at == std::string::npos
          ? 0
          : std::strtol(ptx.c_str() + at + sizeof directive - 1, &suffix, 10);
  bool isOfOneGpu = suffix && *suffix == 'a';
  if (capability < target || (isOfOneGpu && capability != target))
    return "compile with --gpu=sm_80";
  return "update the driver";
}

bool kerf::cuda::isRefusal(CUresult result) {
  switch (result) {
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
  case CUDA_ERROR_INVALID_PTX:
  case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    return true;
  default:
    return false;
  }
}

/// What loading that failed means.
static kerf_device_status refusal(CUresult result) {
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return KERF_DEVICE_NO_MEMORY;
  return isRefusal(result) ? KERF_DEVICE_UNSUPPORTED : KERF_DEVICE_FAILED;
}

/// Loads the cubin, or else the PTX.
static kerf_device_status loadEither(kerf_image &image, const void *bytes,
                                     uint64_t size, const char *ptx,
                                     uint64_t ptxBytes, char *error,
                                     size_t errorBytes) {
  kerf_device &device = image.device;
  std::string log, cubin;
  CUresult result = CUDA_ERROR_INVALID_IMAGE;
  if (size && isCubin(bytes, size))
    result = loadModule(device, bytes, image.module, log);
  if (size && result == CUDA_SUCCESS)
    return KERF_DEVICE_OK;
  if (size)
    cubin = device.driver.text(result);
  if (size && !ptxBytes) {
    say(error, errorBytes,
        "the driver refuses them: %s; the cubin in the file is not for this "
        "GPU (sm_%d), and there is no PTX: compile for it",
        cubin.c_str(), device.capability);
    return refusal(result);
  }
  std::string text(ptx, ptxBytes);
  result = loadModule(device, text.c_str(), image.module, log);
  if (result == CUDA_SUCCESS)
    return KERF_DEVICE_OK;
  if (size)
    cubin = " (their machine code: " + cubin + ")";
  say(error, errorBytes,
      "the driver refuses them on this GPU (sm_%d, driver %d.%d): %s%s; %s%s%s",
      device.capability, device.driver.version / 1000,
      device.driver.version % 100 / 10, device.driver.text(result).c_str(),
      cubin.c_str(), adviceFor(text, device.capability),
      log.empty() ? "" : ": ", log.c_str());
  return refusal(result);
}

kerf_device_status kerf::cuda::loadImage(kerf_device *device, const void *bytes,
                                         uint64_t size, const char *ptx,
                                         uint64_t ptxBytes, kerf_image **image,
                                         char *error, size_t errorBytes) {
  *image = nullptr;
  device->makeCurrent();
  try {
    auto made =
        std::unique_ptr<kerf_image>(new kerf_image{*device, nullptr, {}});
    kerf_device_status status = KERF_DEVICE_OK;
    if (size || ptxBytes)
      status = loadEither(*made, bytes, size, ptx, ptxBytes, error, errorBytes);
    if (!status)
      *image = made.release();
    return status;
  } catch (const std::bad_alloc &) {
    say(error, errorBytes, "out of memory");
    return KERF_DEVICE_NO_MEMORY;
  }
}

/// Null when the module does not have it.
static std::unique_ptr<kerf_function> findFunction(kerf_image &image,
                                                   const char *symbol) {
  Driver &driver = image.device.driver;
  CUfunction handle = nullptr;
  int maxThreads = 0;
  if (!image.module ||
      driver.moduleGetFunction(&handle, image.module, symbol) != CUDA_SUCCESS ||
      driver.functionGetAttribute(&maxThreads,
                                  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                  handle) != CUDA_SUCCESS)
    return nullptr;
  return std::unique_ptr<kerf_function>(new (std::nothrow)
                                            kerf_function{handle, maxThreads});
}

kerf_function *kerf::cuda::findKernel(kerf_image *image, const char *symbol) {
  image->device.makeCurrent();
  try {
    std::unique_ptr<kerf_function> &function = image->functions[symbol];
    if (!function)
      function = findFunction(*image, symbol);
    return function.get();
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void kerf::cuda::unloadImage(kerf_image *image) {
  if (!image)
    return;
  image->device.makeCurrent();
  if (image->module)
    image->device.driver.moduleUnload(image->module);
  delete image;
}
