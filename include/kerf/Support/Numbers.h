//===- Numbers.h - numbers for people -------------------------------------===//
//
// One way to write a number on all screens, pages and pictures. Plain C++, so
// that the runtime has it, too.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_NUMBERS_H
#define KERF_SUPPORT_NUMBERS_H

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <string>

namespace kerf::report {

/// `number` with `digits` after the point.
inline std::string fixed(double number, int digits) {
  int size = std::snprintf(nullptr, 0, "%.*f", digits, number);
  std::string text(size > 0 ? static_cast<size_t>(size) : 0, '\0');
  std::snprintf(text.data(), text.size() + 1, "%.*f", digits, number);
  return text;
}

/// 1234567 -> "1,234,567".
inline std::string grouped(double number) {
  std::string text = fixed(number, 0);
  size_t first = !text.empty() && text.front() == '-' ? 1 : 0;
  for (size_t at = text.size(); at > first + 3;)
    text.insert(at -= 3, ",");
  return text;
}

/// About three digits that count: "0.0123", "1.23", "12.3", "1,234".
inline std::string short3(double number) {
  double size = std::fabs(number);
  if (size == 0)
    return "0";
  if (size >= 99.95)
    return grouped(number);
  // The digit that is rounded decides: 9.996 has three digits as 10.0.
  int before = static_cast<int>(std::floor(std::log10(size * 1.0005))) + 1;
  return fixed(number, std::min(9, 3 - before));
}

/// The largest of `units` (a factor of 1000 apart) that leaves a number of at
/// least one.
inline std::string inUnits(double number,
                           std::initializer_list<const char *> units) {
  const auto *unit = units.begin();
  for (; std::fabs(number) >= 999.5 && unit + 1 != units.end(); ++unit)
    number /= 1000;
  std::string text = short3(number);
  return **unit ? text + " " + *unit : text;
}

/// With k, M, B (billions), T: "8.03 B".
inline std::string counted(double number) {
  if (number < 9999.5)
    return grouped(number);
  return inUnits(number, {"", "k", "M", "B", "T"});
}

/// As `counted`, but small ones with three digits that count: "0.0123", "1.23".
inline std::string amount(double number) {
  return number < 9999.5 ? short3(number) : counted(number);
}

/// A round number at an axis, as `amount` without zeros that say nothing:
/// "0.5", "10 k".
inline std::string tick(double number) {
  std::string text = amount(number), unit;
  if (size_t space = text.find(' '); space != std::string::npos) {
    unit = text.substr(space);
    text.resize(space);
  }
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.')
      text.pop_back();
  }
  return text + unit;
}

/// "912 us", "45.6 ms", "1.234 s", "2,345 s"; "0 s" below half a nanosecond.
inline std::string seconds(double sec) {
  if (sec < 0.5e-9)
    return "0 s";
  if (sec < 0.9995e-3)
    return short3(sec * 1e6) + " us";
  if (sec < 0.9995)
    return short3(sec * 1e3) + " ms";
  if (sec < 99.95)
    return fixed(sec, sec < 9.9995 ? 3 : 2) + " s";
  return grouped(sec) + " s";
}

/// For long times: "45.6 s", "12.3 min", "5.1 h", "3.2 days", "1.4 years".
inline std::string duration(double sec) {
  if (sec < 120)
    return seconds(sec);
  if (sec < 120.0 * 60)
    return short3(sec / 60) + " min";
  if (sec < 48.0 * 3600)
    return short3(sec / 3600) + " h";
  double days = sec / 86400;
  return days < 730 ? short3(days) + " days" : short3(days / 365.25) + " years";
}

/// "0.5 GiB", with one digit after the point; small ones in MiB or KiB.
inline std::string gib(double bytes) {
  double size = std::fabs(bytes);
  if (size == 0 || size >= 51.2 * (1 << 20))
    return fixed(bytes / (1 << 30), 1) + " GiB";
  if (size >= 51.2 * (1 << 10))
    return fixed(bytes / (1 << 20), 1) + " MiB";
  return fixed(bytes / (1 << 10), 1) + " KiB";
}

/// "12.3 %".
inline std::string percent(double part, int digits = 1) {
  return fixed(100 * part, digits) + " %";
}

} // namespace kerf::report

#endif // KERF_SUPPORT_NUMBERS_H
