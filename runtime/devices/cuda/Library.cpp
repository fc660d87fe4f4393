//===- Library.cpp - opening NVIDIA's libraries at run time ---------------===//

#include "Library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

using namespace kerf::cuda;

/// A variable's value, "" when it is not set.
static std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// The parts of a list with colons.
static std::vector<std::string> partsOf(const std::string &list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < list.size();) {
    size_t colon = std::min(list.find(':', at), list.size());
    if (colon > at)
      parts.push_back(list.substr(at, colon - at));
    at = colon + 1;
  }
  return parts;
}

/// Folders that match a pattern, in order of their names.
static std::vector<std::string> foldersLike(const std::string &pattern) {
  glob_t found;
  std::vector<std::string> folders;
  if (glob(pattern.c_str(), GLOB_ERR, nullptr, &found) == 0)
    folders.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return folders;
}

/// Where pip puts NVIDIA's wheels below a folder `site-packages`.
static std::vector<std::string> wheelFolders() {
  std::vector<std::string> sites = partsOf(variable("KERF_CUDA_WHEELS"));
  std::string environment = variable("VIRTUAL_ENV");
  if (sites.empty() && !environment.empty())
    sites = foldersLike(environment + "/lib/python3*/site-packages");
  std::vector<std::string> folders;
  for (const std::string &site : sites)
    for (const std::string &folder : foldersLike(site + "/nvidia/*/lib"))
      folders.push_back(folder);
  return folders;
}

namespace {
/// Tries files and remembers what did not work.
struct Search {
  Library &library;
  std::string problem; ///< of a file that is there and does not open

  bool tryFile(const std::string &file) {
    library.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library.handle) {
      const char *why = dlerror();
      if (file.find('/') != file.npos && problem.empty())
        problem = why ? why : "";
      return false;
    }
    library.path = file;
    return true;
  }
  bool tryFolders(const std::vector<std::string> &folders,
                  const std::vector<std::string> &names) {
    for (const std::string &name : names)
      for (const std::string &folder : folders)
        if (access((folder + "/" + name).c_str(), F_OK) == 0 &&
            tryFile(folder + "/" + name))
          return true;
    return false;
  }
  bool tryLoader(const std::vector<std::string> &names) {
    for (const std::string &name : names)
      if (tryFile(name))
        return true;
    return false;
  }
};
} // namespace

/// "KERF_CUDA_PATH (not set)" or "KERF_CUDA_PATH (/opt/cuda)".
static std::string placeOf(const char *name) {
  std::string value = variable(name);
  return std::string(name) + " (" + (value.empty() ? "not set" : value) + ")";
}

static std::string notFound(const std::vector<std::string> &names) {
  std::string text = names.front() + " is not found (looked in ";
  return text + placeOf("KERF_CUDA_PATH") + ", the loader's folders, " +
         placeOf("CUDA_HOME") + ", " + placeOf("KERF_CUDA_WHEELS") + ", " +
         placeOf("VIRTUAL_ENV") + ")";
}

/// The file that a function of the library came from, for people.
static void findPath(Library &library, void *function) {
  Dl_info info;
  if (dladdr(function, &info) && info.dli_fname)
    library.path = info.dli_fname;
}

bool Library::open(const std::vector<std::string> &names) {
  std::string home = variable("CUDA_HOME");
  std::vector<std::string> homeFolders;
  if (!home.empty())
    homeFolders.push_back(home + "/lib64");
  Search search{*this, {}};
  if (search.tryFolders(partsOf(variable("KERF_CUDA_PATH")), names) ||
      search.tryLoader(names) || search.tryFolders(homeFolders, names) ||
      search.tryFolders(wheelFolders(), names))
    return true;
  failure = search.problem.empty()
                ? notFound(names)
                : names.front() + " does not open: " + search.problem;
  return false;
}

bool kerf::cuda::findSymbols(Library &library,
                             const std::vector<Symbol> &symbols) {
  for (const Symbol &symbol : symbols) {
    *symbol.address = dlsym(library.handle, symbol.name);
    if (*symbol.address)
      continue;
    library.failure = "'" + library.path + "' has no function '" + symbol.name +
                      "': it is too old";
    return false;
  }
  if (!symbols.empty())
    findPath(library, *symbols.front().address);
  return true;
}

void kerf::cuda::findOptional(const Library &library, const Symbol &symbol) {
  *symbol.address = dlsym(library.handle, symbol.name);
}
