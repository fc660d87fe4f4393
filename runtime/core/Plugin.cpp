//===- Plugin.cpp ---------------------------------------------------------===//

#include "Plugin.h"

#include <cstdlib>
#include <vector>

#include <climits>
#include <dlfcn.h>
#include <unistd.h>

using namespace kerf::runtime;

/// The folder of a path, "." when it has none.
static std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

static std::vector<std::string> foldersToSearch(const char *path) {
  std::vector<std::string> folders;
  if (!path)
    path = std::getenv("KERF_PLUGIN_PATH");
  std::string list = path ? path : "";
  for (size_t at = 0; at < list.size();) {
    size_t colon = std::min(list.find(':', at), list.size());
    if (colon > at)
      folders.push_back(list.substr(at, colon - at));
    at = colon + 1;
  }
  char exe[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (length > 0) {
    std::string bin = folderOf(std::string(exe, length));
    folders.push_back(bin + "/../lib/kerf");
    folders.push_back(bin + "/../lib");
  }
  Dl_info here;
  if (dladdr(reinterpret_cast<void *>(&kerf_session_create), &here) &&
      here.dli_fname)
    folders.push_back(folderOf(here.dli_fname));
  return folders;
}

static bool isName(const std::string &name) {
  for (char c : name)
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_')
      return false;
  return !name.empty();
}

/// The entry function of a library's file.
static Status load(const std::string &file, const char *kind,
                   const char *entryName, void *&entry) {
  // A library's threads and exit handlers may outlive its last user.
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    return failure(KERF_FAILED, "cannot load a %s: %s", kind, dlerror());
  entry = dlsym(library, entryName);
  return entry ? Status()
               : failure(KERF_INVALID, "'%s' is no %s library", file.c_str(),
                         kind);
}

/// Opens `libkerf_<kind>_<name>.so`, whose entry returns an Api.
template <typename Api>
static Status openLibrary(const char *kind, const std::string &name,
                          const char *path, const char *entryName, uint32_t abi,
                          const Api *&api) {
  if (!isName(name))
    return failure(KERF_INVALID, "'%s' is no name of a %s", name.c_str(), kind);
  std::string base = std::string("libkerf_") + kind + "_" + name + ".so";
  std::string searched;
  for (const std::string &folder : foldersToSearch(path)) {
    std::string file = folder + "/" + base;
    if (access(file.c_str(), F_OK) != 0) {
      searched += (searched.empty() ? "" : ", ") + folder;
      continue;
    }
    void *entry = nullptr;
    Status status = load(file, kind, entryName, entry);
    if (status.failed())
      return status;
    api = reinterpret_cast<const Api *(*)()>(entry)();
    if (!api)
      return failure(KERF_INVALID, "'%s' is no %s library", file.c_str(), kind);
    if (api->abi_version != abi || api->struct_bytes != sizeof(Api))
      return failure(KERF_INVALID,
                     "'%s' has interface %u, this runtime needs %u: install "
                     "matching versions",
                     file.c_str(), api->abi_version, abi);
    return {};
  }
  return failure(KERF_INVALID,
                 "no %s library '%s' in %s: set KERF_PLUGIN_PATH to its folder",
                 kind, base.c_str(), searched.c_str());
}

Status kerf::runtime::openDevice(const std::string &name, const char *path,
                                 const kerf_device_api *&api) {
  return openLibrary("device", name, path, KERF_DEVICE_ENTRY, KERF_DEVICE_ABI,
                     api);
}

Status kerf::runtime::openWire(const std::string &name, const char *path,
                               const kerf_wire_api *&api) {
  Status status =
      openLibrary("wire", name, path, KERF_WIRE_ENTRY, KERF_WIRE_ABI, api);
  if (status.failed()) {
    status.message = "transport '" + name + "': " + status.message;
    // The one that is built only where its package is.
    if (name == "mpi" && !api)
      status.message += "; it is built where Open MPI is installed (Debian: "
                        "libopenmpi-dev, openmpi-bin)";
  }
  return status;
}

Status kerf::runtime::allocateArena(const kerf_device_api &api,
                                    kerf_device *device, uint64_t bytes,
                                    char *&arena) {
  char error[512] = "";
  void *memory = nullptr;
  if (auto result = api.alloc(device, bytes, &memory, error, sizeof error))
    return failure(statusOf(result), "cannot get the arena of %llu bytes: %s",
                   (unsigned long long)bytes, error);
  arena = static_cast<char *>(memory);
  return {};
}
