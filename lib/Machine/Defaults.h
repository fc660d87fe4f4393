//===- Defaults.h - what is known of devices by their name ----------------===//

#ifndef KERF_LIB_MACHINE_DEFAULTS_H
#define KERF_LIB_MACHINE_DEFAULTS_H

#include "YamlTree.h"

namespace kerf::cluster {

/// Efficiency of a device whose description states none: of its family, found
/// by name or else by peak, else of its target. The other fields must be read.
Efficiency defaultEfficiency(const Device &device);

/// The efficiency of grouped matmuls where it is not stated and more is known
/// of the family than that it is at most that of matmuls, which must be read.
void setDefaultMatmuls(Device &device);

/// What a device whose description states no reserve keeps from arenas: nothing
/// but of target cuda. The target must be read.
void setDefaultReserve(Device &device);

/// Warns where a stated figure of `machine` is a well-known one that counts
/// both directions of a link, or structured sparsity. `root` has the positions.
void warnAboutDatasheets(const Machine &machine, const YamlValue &root,
                         Problems &problems);

} // namespace kerf::cluster

#endif // KERF_LIB_MACHINE_DEFAULTS_H
