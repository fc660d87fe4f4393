//===- Units.h - numbers with their units ---------------------------------===//

#ifndef KERF_LIB_MACHINE_UNITS_H
#define KERF_LIB_MACHINE_UNITS_H

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace kerf::cluster {

/// What a number of a description measures. `Number` has no unit.
enum class Quantity {
  Bytes,       ///< B kB MB GB TB, KiB MiB GiB TiB
  BytesPerSec, ///< B/s .. TB/s, and of bits b/s .. Tb/s
  FlopPerSec,  ///< FLOP/s GFLOP/s TFLOP/s PFLOP/s
  Seconds,     ///< s ms us ns min h
  Watts,       ///< W kW
  KgPerKwh,    ///< kg/kWh g/kWh
  Number,
};

/// "a size with its unit", for messages.
llvm::StringRef describe(Quantity quantity);

enum class QuantityError {
  None,
  NoNumber,    ///< no decimal number in front (also: nan, inf)
  NoUnit,      ///< a number, and nothing behind it
  UnknownUnit, ///< `unit` is none of the quantity
};

/// A read number; `value` in SI units without prefix when `error` is None, and
/// then the double that is nearest to what is written (infinite beyond all
/// doubles). `number` and `unit` are the two parts of the text.
struct ReadQuantity {
  QuantityError error = QuantityError::None;
  double value = 0;
  llvm::StringRef number, unit;
};
ReadQuantity readQuantity(llvm::StringRef text, Quantity quantity);

/// `value` >= 0 in a unit that suits its size, such that `readQuantity` gives
/// the same double.
std::string printQuantity(double value, Quantity quantity);

/// The units of `quantity`, those with the smallest edit distance to `near`
/// first.
std::vector<llvm::StringRef> unitsNear(Quantity quantity, llvm::StringRef near);

} // namespace kerf::cluster

#endif // KERF_LIB_MACHINE_UNITS_H
