//===- Isa.h - what the processor can do ----------------------------------===//

#ifndef KERF_DEVICES_CPU_ISA_H
#define KERF_DEVICES_CPU_ISA_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace kerf::cpu {

/// Does this machine, with its operating system, have an LLVM feature
/// ("avx512f") or level ("x86-64-v3")? Unknown names: no.
bool hasFeature(const char *name);

/// As kerf_device_api.check_features.
int32_t checkFeatures(const char *features, char *missing, size_t missingBytes);

/// The processor's name as it reports it.
std::string processorName();

} // namespace kerf::cpu

#endif // KERF_DEVICES_CPU_ISA_H
