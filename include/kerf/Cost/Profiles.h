//===- Profiles.h - runtimes that publish measurements --------------------===//
//
// Profiles by name, for predictions of runs that are not ours. What a runtime
// is known to do (fused attention, buckets, bytes of state) is stated from its
// source or paper. The rates are what is expected before any run of it has been
// seen; a calibration on a few runs replaces them.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_COST_PROFILES_H
#define KERF_COST_PROFILES_H

#include "kerf/Cost/Profile.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <vector>

namespace kerf {

/// The profile of a runtime: "kerf", "megatron", "megatron-deepspeed",
/// "aleph-alpha", "nanotron", "fsdp", "torchtitan", "nemo". None for other
/// names.
std::optional<Profile> profileNamed(llvm::StringRef name);

/// All names, in the order above.
std::vector<llvm::StringRef> profileNames();

} // namespace kerf

#endif // KERF_COST_PROFILES_H
