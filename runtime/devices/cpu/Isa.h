//===- Isa.h - what the processor can do ----------------------------------===//

#ifndef KERF_DEVICES_CPU_ISA_H
#define KERF_DEVICES_CPU_ISA_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kerf::cpu {

/// Does this machine, with its operating system, have an LLVM feature
/// ("avx512f") or level ("x86-64-v3")? Unknown names: no.
bool hasFeature(const char *name);

/// As kerf_device_api.check_features.
int32_t checkFeatures(const char *features, char *missing, size_t missingBytes);

/// Does `vdpbf16ps`, where this processor has it, multiply faster than f32 is
/// multiplied? Twice as fast on AMD's (Zen 4 and later) and on Intel's Cooper
/// Lake. From Sapphire Rapids on, Intel's take two cycles for it and multiply
/// half as fast: there AMX is meant for bf16. By CPUID, not by measuring: a
/// processor gives the same bits in each run.
bool isBf16Fast();
/// The same of CPUID's vendor and leaf 1 in EAX.
constexpr bool isBf16Fast(std::string_view vendor, uint32_t signature) {
  constexpr uint32_t cooperLake = 0x50650; // family 6, model 85
  return vendor != "GenuineIntel" || (signature & 0x0fff0ff0) == cooperLake;
}

/// The processor's name as it reports it.
std::string processorName();

} // namespace kerf::cpu

#endif // KERF_DEVICES_CPU_ISA_H
