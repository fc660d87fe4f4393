//===- Target.cpp - CPUs that kernels are made for ------------------------===//

#include "kerf/Codegen/Codegen.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace mlir;
using namespace kerf;

/// Instruction sets that can make kernels faster. No others are used, so that
/// kernels run on every CPU that has these.
static constexpr llvm::StringLiteral kUseful[] = {
    "avx",      "avx2",       "avx512bf16", "avx512bitalg", "avx512bw",
    "avx512cd", "avx512dq",   "avx512f",    "avx512vbmi",   "avx512vbmi2",
    "avx512vl", "avx512vnni", "bmi",        "bmi2",         "cx16",
    "f16c",     "fma",        "lzcnt",      "movbe",        "popcnt",
    "sahf",     "sse3",       "sse4.1",     "sse4.2",       "ssse3",
};

std::string CpuTarget::featureList() const { return llvm::join(features, ","); }

/// Where `vdpbf16ps` is slow, matmuls are computed in f32 (the cpu device's
/// isBf16Fast): on Intel's CPUs but Cooper Lake.
static bool isDotFast(llvm::StringRef name) {
  return name.starts_with("znver") || name == "cooperlake";
}

std::string CpuTarget::whyNotFaster(llvm::StringRef precision) const {
  if (precision == "f32")
    return "";
  if (precision == "f16")
    return "no CPU's instructions for f16 are used";
  bool hasDot = llvm::is_contained(features, "avx512bf16");
  if (hasTiles || (hasDot && isDotFast(name)))
    return "";
  if (hasDot)
    return "'" + name +
           "' without AMX multiplies bf16 at half the rate of f32 at best";
  return "'" + name + "' has neither AMX nor AVX-512 bf16";
}

/// What the least target has: older CPUs are not supported.
static constexpr llvm::StringLiteral kLeast = "x86-64-v2";

static llvm::StringSet<> featuresOf(llvm::StringRef cpu) {
  llvm::SmallVector<llvm::StringRef> all;
  llvm::X86::getFeaturesForCPU(cpu, all);
  llvm::StringSet<> set;
  for (llvm::StringRef feature : all)
    set.insert(feature);
  return set;
}

FailureOr<CpuTarget> kerf::resolveCpu(llvm::StringRef name,
                                      std::string &error) {
  CpuTarget target;
  llvm::StringSet<> available;
  if (name == "native") {
    target.name = llvm::sys::getHostCPUName().str();
    for (auto &feature : llvm::sys::getHostCPUFeatures())
      if (feature.second)
        available.insert(feature.first());
  } else {
    target.name = name.str();
    if (llvm::X86::parseArchX86(name, /*Only64Bit=*/true) ==
        llvm::X86::CK_None) {
      error = "unknown CPU '" + name.str() +
              "', expected 'native', 'x86-64-v2', 'x86-64-v3', 'x86-64-v4' or "
              "a 64-bit x86 CPU as LLVM names it";
      return failure();
    }
    available = featuresOf(name);
  }
  llvm::StringSet<> least = featuresOf(kLeast);
  for (llvm::StringRef feature : kUseful)
    if (least.contains(feature) && !available.contains(feature)) {
      error = "CPU '" + target.name + "' lacks '" + feature.str() +
              "', expected at least those of '" + kLeast.str() + "'";
      return failure();
    }
  for (llvm::StringRef feature : kUseful)
    if (available.contains(feature))
      target.features.push_back(feature.str());
  target.hasTiles =
      available.contains("amx-tile") && available.contains("amx-bf16");
  if (available.contains("avx2"))
    target.vectorBytes = 32;
  if (available.contains("avx512bw") && available.contains("avx512dq") &&
      available.contains("avx512vl"))
    target.vectorBytes = 64;
  return target;
}
