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

static Status load(const std::string &file, const kerf_device_api *&api) {
  // A library's threads and exit handlers may outlive its last user.
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    return failure(KERF_FAILED, "cannot load a device: %s", dlerror());
  auto entry =
      reinterpret_cast<kerf_device_entry_fn>(dlsym(library, KERF_DEVICE_ENTRY));
  api = entry ? entry() : nullptr;
  if (!api)
    return failure(KERF_INVALID, "'%s' is no device library", file.c_str());
  if (api->abi_version != KERF_DEVICE_ABI ||
      api->struct_bytes != sizeof(kerf_device_api))
    return failure(KERF_INVALID,
                   "'%s' has interface %u, this runtime needs %u: install "
                   "matching versions",
                   file.c_str(), api->abi_version, KERF_DEVICE_ABI);
  return {};
}

Status kerf::runtime::openDevice(const std::string &name, const char *path,
                                 const kerf_device_api *&api) {
  if (!isName(name))
    return failure(KERF_INVALID, "'%s' is no name of a device", name.c_str());
  std::string searched;
  for (const std::string &folder : foldersToSearch(path)) {
    std::string file = folder + "/libkerf_device_" + name + ".so";
    if (access(file.c_str(), F_OK) == 0)
      return load(file, api);
    searched += (searched.empty() ? "" : ", ") + folder;
  }
  return failure(KERF_INVALID,
                 "no device library 'libkerf_device_%s.so' in %s: set "
                 "KERF_PLUGIN_PATH to its folder",
                 name.c_str(), searched.c_str());
}
