//===- Quantities.h - numbers with units on command lines -----------------===//
//
// What people type: 300B tokens, 8Ki tokens of a sequence, 30d, 512MiB. Of all
// programs, the runtime's too, so without LLVM. Descriptions of clusters have
// stricter ones (lib/Machine/Units.h).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_QUANTITIES_H
#define KERF_SUPPORT_QUANTITIES_H

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kerf {

struct QuantityUnit {
  std::string_view name;
  double factor;
};

inline constexpr double kKibi = 1024, kMebi = kKibi * kKibi,
                        kGibi = kMebi * kKibi, kTebi = kGibi * kKibi;

/// Of counts: k is 1000, Ki is 1024.
inline constexpr QuantityUnit kCountUnits[] = {
    {"k", 1e3},  {"K", 1e3},    {"M", 1e6},    {"B", 1e9},   {"G", 1e9},
    {"T", 1e12}, {"Ki", kKibi}, {"Mi", kMebi}, {"Gi", kGibi}};

/// In seconds. Of runs, which may take months: m is none.
inline constexpr QuantityUnit kDurationUnits[] = {{"s", 1},
                                                  {"sec", 1},
                                                  {"min", 60},
                                                  {"h", 3600},
                                                  {"hour", 3600},
                                                  {"hours", 3600},
                                                  {"d", 86400},
                                                  {"day", 86400},
                                                  {"days", 86400},
                                                  {"w", 7 * 86400},
                                                  {"week", 7 * 86400},
                                                  {"weeks", 7 * 86400},
                                                  {"y", 365.25 * 86400},
                                                  {"year", 365.25 * 86400},
                                                  {"years", 365.25 * 86400}};

/// In seconds. Of what somebody waits for: m is a minute.
inline constexpr QuantityUnit kTimeoutUnits[] = {
    {"ms", 1e-3}, {"s", 1}, {"sec", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};

inline constexpr QuantityUnit kByteUnits[] = {
    {"B", 1},       {"kB", 1e3},   {"KB", 1e3},    {"MB", 1e6},
    {"GB", 1e9},    {"TB", 1e12},  {"KiB", kKibi}, {"MiB", kMebi},
    {"GiB", kGibi}, {"TiB", kTebi}};

/// The number before a unit, times the unit; of a number alone times `bare`
/// (0: a number alone is none). None where it is no finite number, or of an
/// unknown unit. Spaces may surround both.
inline std::optional<double> readQuantity(std::string_view text,
                                          std::span<const QuantityUnit> units,
                                          double bare) {
  auto trim = [](std::string_view part) {
    size_t first = part.find_first_not_of(" \t\n\v\f\r");
    if (first == std::string_view::npos)
      return std::string_view();
    return part.substr(first, part.find_last_not_of(" \t\n\v\f\r") + 1 - first);
  };
  text = trim(text);
  double number = 0;
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc())
    return std::nullopt;
  std::string_view unit = trim(text.substr(end - text.data()));
  double factor = unit.empty() ? bare : 0;
  for (const QuantityUnit &row : units)
    if (unit == row.name)
      factor = row.factor;
  if (factor == 0 || !std::isfinite(number * factor))
    return std::nullopt;
  return number * factor;
}

/// A whole number: "8192", "8Ki", "1.5k". None where it is none, or above 2^53
/// with a unit and 2^63 - 1 without.
inline std::optional<int64_t> readWhole(std::string_view text) {
  int64_t whole = 0;
  const char *last = text.data() + text.size();
  auto [end, code] = std::from_chars(text.data(), last, whole);
  if (code == std::errc() && end == last)
    return whole;
  std::optional<double> value = readQuantity(text, kCountUnits, /*bare=*/0);
  if (!value || std::abs(*value) > 0x1p53 || *value != std::floor(*value))
    return std::nullopt;
  return static_cast<int64_t>(*value);
}

} // namespace kerf

#endif // KERF_SUPPORT_QUANTITIES_H
