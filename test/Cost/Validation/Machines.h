//===- Machines.h - the cluster that a row ran on -------------------------===//

#ifndef KERF_TEST_COST_VALIDATION_MACHINES_H
#define KERF_TEST_COST_VALIDATION_MACHINES_H

#include "Rows.h"

#include "kerf/Machine/Machine.h"

namespace kerf::validate {

/// Described clusters by file name, read once.
class MachineReader {
public:
  /// `folder` holds the shipped descriptions, `examples/clusters`.
  explicit MachineReader(std::string folder) : folder(std::move(folder)) {}

  /// The cluster of a row with its number of devices: the shipped description
  /// of its device (or of a near relative, with the device's own figures put
  /// in), and node size and bandwidths as the row states them. None when the
  /// device is unknown; `why` then says so.
  std::optional<Machine> machineOf(const Row &row, std::string &why);

private:
  std::string folder;
  std::map<std::string, Machine> known;

  const Machine *read(llvm::StringRef name, std::string &why);
};

/// What tells machines apart for calibration: device, node size, bandwidths.
std::string machineName(const Row &row);

/// The device by one name for all its spellings, "" when it is unknown.
std::string deviceName(const Row &row);

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_MACHINES_H
