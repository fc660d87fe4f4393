#include "kerf/Support/Counts.h"

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
