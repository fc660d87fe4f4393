//===- CublasLt.cpp - opening libcublasLt ---------------------------------===//

#include "CublasLt.h"

using namespace kerf::cuda;

bool CublasLt::open(int driverVersion) {
  std::vector<std::string> names = {"libcublasLt.so.12"};
  if (driverVersion >= 13000) // older drivers cannot run it
    names.insert(names.begin(), "libcublasLt.so.13");
  if (!library.open(names))
    return false;
  return findSymbols(library, {
#define KERF_CUDA_SYMBOL(member, name, result, arguments)                      \
  {#name, reinterpret_cast<void **>(&member)},
                                  KERF_CUDA_CUBLASLT(KERF_CUDA_SYMBOL)
#undef KERF_CUDA_SYMBOL
                              });
}

std::string CublasLt::text(cublasStatus_t status) const {
  const char *meaning = getStatusString(status);
  return meaning ? meaning : "status " + std::to_string(status);
}
