#include "kerf/Support/Counts.h"

#include "llvm/ADT/StringSwitch.h"
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

/// The number before a unit, times what the unit stands for (0: it is unknown).
static std::optional<double>
readScaled(llvm::StringRef text, double (*scaleOf)(llvm::StringRef unit)) {
  text = text.trim();
  size_t digits = text.size();
  double number = 0;
  // A prefix that is a number, the longest: "2e12", "1.5".
  while (digits > 0 && text.take_front(digits).getAsDouble(number))
    --digits;
  double value = number * scaleOf(text.drop_front(digits).trim());
  return digits > 0 && std::isfinite(value) && value > 0 ? std::optional(value)
                                                         : std::nullopt;
}

std::optional<double> kerf::readCount(llvm::StringRef text) {
  return readScaled(text, [](llvm::StringRef unit) {
    return llvm::StringSwitch<double>(unit)
        .Case("", 1)
        .Cases({"k", "K"}, 1e3)
        .Case("M", 1e6)
        .Cases({"B", "G"}, 1e9)
        .Case("T", 1e12)
        .Default(0);
  });
}

std::optional<double> kerf::readDuration(llvm::StringRef text) {
  return readScaled(text, [](llvm::StringRef unit) {
    return llvm::StringSwitch<double>(unit)
        .Cases({"s", "sec"}, 1)
        .Case("min", 60)
        .Cases({"h", "hour", "hours"}, 3600)
        .Cases({"d", "day", "days"}, 86400)
        .Cases({"w", "week", "weeks"}, 7 * 86400)
        .Cases({"y", "year", "years"}, 365.25 * 86400)
        .Default(0);
  });
}
