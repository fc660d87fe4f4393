//===- Features.cpp - what kernels need of a GPU --------------------------===//

#include "Features.h"

#include "../common/Checks.h"
#include "Driver.h"

#include <algorithm>
#include <cstdlib>
#include <string>

using namespace kerf::cuda;
using kerf::device::say;

namespace {
/// Of a machine; zeros where there is no GPU.
struct Abilities {
  int capability = 0; ///< 10 * major + minor of the least capable GPU
  int driver = 0;     ///< 1000 * major + 10 * minor
};
} // namespace

static Abilities findAbilities() {
  Driver driver;
  int count = 0;
  if (!driver.open(nullptr, 0) ||
      driver.deviceGetCount(&count) != CUDA_SUCCESS || count < 1)
    return {};
  int least = 0;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    int major = 0, minor = 0;
    if (driver.deviceGet(&device, ordinal) != CUDA_SUCCESS ||
        driver.deviceGetAttribute(&major,
                                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                  device) != CUDA_SUCCESS ||
        driver.deviceGetAttribute(&minor,
                                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                  device) != CUDA_SUCCESS)
      return {}; // Who opens the GPU says why.
    int found = 10 * major + minor;
    least = ordinal ? std::min(least, found) : found;
  }
  return {least, driver.version};
}

/// The driver that introduced a version of PTX (10 * major + minor), as the PTX
/// manual's release notes list them; of later ones 13.0.
static int driverOfPtx(int version) {
  static constexpr struct {
    int ptx, driver;
  } table[] = {{70, 11000}, {71, 11010}, {72, 11020}, {73, 11030}, {74, 11040},
               {75, 11050}, {76, 11060}, {77, 11070}, {78, 11080}, {80, 12000},
               {81, 12010}, {82, 12020}, {83, 12030}, {84, 12040}, {85, 12050},
               {86, 12070}, {87, 12080}, {88, 12090}, {90, 13000}};
  for (auto [ptx, driver] : table)
    if (version <= ptx)
      return driver;
  return 13010;
}

/// The number behind `prefix`, or -1. `suffix` is what follows it.
static int numberAfter(const std::string &name, const char *prefix,
                       std::string &suffix) {
  std::string start = prefix;
  if (name.compare(0, start.size(), start) != 0)
    return -1;
  size_t end = start.size();
  while (end < name.size() && name[end] >= '0' && name[end] <= '9')
    ++end;
  suffix = name.substr(end);
  // Longer numbers name nothing that exists.
  bool isNumber = end > start.size() && end <= start.size() + 4;
  return isNumber ? std::atoi(name.c_str() + start.size()) : -1;
}

static bool hasFeature(const Abilities &machine, const std::string &name) {
  std::string suffix;
  int capability = numberAfter(name, "sm_", suffix);
  if (capability > 0 && suffix == "a")
    return machine.capability == capability;
  if (capability > 0)
    return suffix.empty() && machine.capability >= capability;
  int ptx = numberAfter(name, "ptx", suffix);
  return ptx > 0 && suffix.empty() && machine.driver >= driverOfPtx(ptx);
}

int32_t kerf::cuda::checkFeatures(const char *features, char *missing,
                                  size_t missingBytes) {
  std::string list = features ? features : "", lacking;
  say(missing, missingBytes, "%s", "");
  Abilities machine = list.empty() ? Abilities() : findAbilities();
  if (!machine.capability)
    return 0;
  int32_t count = 0;
  for (size_t at = 0; at < list.size();) {
    size_t comma = std::min(list.find(',', at), list.size());
    std::string name = list.substr(at, comma - at);
    at = comma + 1;
    if (!name.empty() && name[0] == '+')
      name.erase(0, 1);
    if (name.empty() || hasFeature(machine, name))
      continue;
    lacking += (count++ ? "," : "") + name;
  }
  say(missing, missingBytes, "%s", lacking.c_str());
  return count;
}
