#include "kerf/Support/Counts.h"

#include "kerf/Support/Quantities.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

std::string kerf::groupDigits(double number) {
  std::string digits;
  llvm::raw_string_ostream(digits) << llvm::format("%.0f", std::floor(number));
  int64_t sign = digits.front() == '-';
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > sign; at -= 3)
    digits.insert(at, ",");
  return digits;
}

std::string kerf::countOf(double number, llvm::StringRef noun,
                          llvm::StringRef plural) {
  llvm::StringRef end = number == 1 ? "" : plural;
  return groupDigits(number) + " " + noun.str() + end.str();
}

static std::optional<double> onlyPositive(std::optional<double> value) {
  return value && *value > 0 ? value : std::nullopt;
}

std::optional<double> kerf::readCount(llvm::StringRef text) {
  return onlyPositive(readQuantity(text, kCountUnits, /*bare=*/1));
}

std::optional<double> kerf::readDuration(llvm::StringRef text) {
  return onlyPositive(readQuantity(text, kDurationUnits, /*bare=*/0));
}
