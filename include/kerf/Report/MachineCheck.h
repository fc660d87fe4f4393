//===- MachineCheck.h - a description beside what was measured --*- C++ -*-===//
//
// Plans count on what a cluster's description says of devices and links.
// `kerf-run --calibrate` measures them: where they are slower, steps take
// longer than was foretold.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_REPORT_MACHINECHECK_H
#define KERF_REPORT_MACHINECHECK_H

#include "kerf/Machine/Machine.h"

#include <string>
#include <vector>

namespace kerf {

/// What one rank does, while its neighbours do the same.
struct MachineFigure {
  std::string name; ///< "matmuls bf16", "all_reduce 64 MiB"
  std::string unit; ///< of a rate: "FLOP/s", "B/s", or "B"; "": seconds
  double described = 0, measured = 0;
  /// What is measured / what is described, of seconds the other way round:
  /// below 1 is worse.
  double part() const;
};

/// Figures that both machines have, of as many ranks as were measured: those of
/// the innermost tier of `measured`. Of each the described one is what plans
/// count on: with the parts of peaks that kernels reach.
std::vector<MachineFigure> figuresOf(const Machine &described,
                                     const Machine &measured);

/// One line: "hgx-h100: 256 x h100-sxm-80g; nvlink 8, leaf 32".
std::string describeCluster(const Machine &machine);

/// Figures that are worse than described by more than this are told of.
constexpr double kMachineSlack = 0.1;

/// These as a table, with a verdict below. `worse`: how many are worse by more
/// than `kMachineSlack`. `file` names the measured description.
std::string printFigures(const Machine &described, const Machine &measured,
                         const std::string &file, int &worse);

} // namespace kerf

#endif // KERF_REPORT_MACHINECHECK_H
