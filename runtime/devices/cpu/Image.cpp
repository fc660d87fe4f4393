//===- Image.cpp - kernels of an artifact ---------------------------------===//

#include "Image.h"
#include "Step.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

using namespace kerf::cpu;

/// The file stays open: the loader tells libraries apart by their paths, and
/// another image would get its number, and be taken for this one.
struct kerf_image {
  void *handle;
  int file;
};

/// An x86-64 shared object, as far as its header tells.
static bool isSharedObject(const void *bytes, uint64_t size) {
  Elf64_Ehdr header;
  if (size < sizeof header)
    return false;
  std::memcpy(&header, bytes, sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_machine == EM_X86_64 && header.e_type == ET_DYN;
}

static bool writeAll(int file, const char *bytes, uint64_t size) {
  while (size > 0) {
    ssize_t written = write(file, bytes, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes += written;
    size -= written;
  }
  return true;
}

/// Opens a file that exists in memory only. Null on failure.
static void *openBytes(const void *bytes, uint64_t size, int &file, char *error,
                       size_t errorBytes) {
  file = memfd_create("kerf-kernels", MFD_CLOEXEC);
  if (file < 0 || !writeAll(file, static_cast<const char *>(bytes), size)) {
    say(error, errorBytes, "cannot place the kernels in memory: %s",
        strerror(errno));
    if (file >= 0)
      close(file);
    return nullptr;
  }
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    say(error, errorBytes, "cannot load the kernels: %s", dlerror());
    close(file);
  }
  return handle;
}

kerf_device_status kerf::cpu::loadImage(kerf_device *, const void *bytes,
                                        uint64_t size, const char *, uint64_t,
                                        kerf_image **image, char *error,
                                        size_t errorBytes) {
  *image = nullptr;
  if (!isSharedObject(bytes, size)) {
    say(error, errorBytes,
        "the kernels are no x86-64 shared object; compile the model again");
    return KERF_DEVICE_INVALID;
  }
  int file = -1;
  void *handle = openBytes(bytes, size, file, error, errorBytes);
  if (!handle)
    return KERF_DEVICE_FAILED;
  *image = new (std::nothrow) kerf_image{handle, file};
  if (*image)
    return KERF_DEVICE_OK;
  dlclose(handle);
  close(file);
  say(error, errorBytes, "out of memory");
  return KERF_DEVICE_NO_MEMORY;
}

kerf_function *kerf::cpu::findKernel(kerf_image *image, const char *symbol) {
  return static_cast<kerf_function *>(dlsym(image->handle, symbol));
}

void kerf::cpu::unloadImage(kerf_image *image) {
  if (!image)
    return;
  dlclose(image->handle);
  close(image->file);
  delete image;
}
