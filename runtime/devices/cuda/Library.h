//===- Library.h - opening NVIDIA's libraries at run time -----------------===//

#ifndef KERF_DEVICES_CUDA_LIBRARY_H
#define KERF_DEVICES_CUDA_LIBRARY_H

#include <string>
#include <vector>

namespace kerf::cuda {

/// A shared object that stays open until the process ends (drivers do not
/// survive being closed).
struct Library {
  void *handle = nullptr;
  std::string path;    ///< of the opened file
  std::string failure; ///< why there is none

  /// Opens the first of `names` ("libcublasLt.so.13") that is found in the
  /// folders of KERF_CUDA_PATH, by the loader, in $CUDA_HOME/lib64, and in the
  /// wheels (nvidia/*/lib) of KERF_CUDA_WHEELS or of $VIRTUAL_ENV's Python.
  /// False sets `failure`, which names all places.
  bool open(const std::vector<std::string> &names);
};

/// A function to find: its name, and where its address is put.
struct Symbol {
  const char *name;
  void **address;
};

/// Finds all functions of `library`. False after setting `library.failure`.
bool findSymbols(Library &library, const std::vector<Symbol> &symbols);

/// Finds a function that older libraries do not have: null there.
void findOptional(const Library &library, const Symbol &symbol);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_LIBRARY_H
