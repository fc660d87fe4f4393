//===- NewCluster.h - a description of a cluster from a few figures -------===//

#ifndef KERF_MACHINE_NEWCLUSTER_H
#define KERF_MACHINE_NEWCLUSTER_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// What a person knows of a cluster.
struct ClusterFigures {
  std::string device;    ///< part of a name of `knownDevices`: "l40s"
  int64_t perNode = 0;   ///< devices of one computer, at least 1
  int64_t nodes = 0;     ///< computers, at least 1
  std::string nic;       ///< of a computer: "25GbE", "8x400Gb/s", "50 GB/s"
  std::string name;      ///< of the cluster; "": made of device and numbers
  std::string arguments; ///< that gave these figures, for the first comment
};

/// Devices of the shipped descriptions, each once: "h100-sxm-80g".
std::vector<std::string> knownDevices();

/// Bytes per second of a computer's network ports, by the figure as people
/// write it: "25GbE" and "25GE" are 25 Gb/s, "8x400Gb/s" eight ports; none
/// where it is none of these.
std::optional<double> readNic(llvm::StringRef text);

/// A commented description: the device with its links as a shipped one has
/// them, the network as given. None and `error`, in words for a person, where
/// the figures say no cluster.
std::optional<std::string> newCluster(const ClusterFigures &figures,
                                      std::string &error);

} // namespace kerf

#endif // KERF_MACHINE_NEWCLUSTER_H
