//===- Units.cpp - numbers with their units -------------------------------===//
//
// A decimal prefix is added to the exponent of the number before it is turned
// into a double: 3.35 TB/s is read as 3.35e12 and is the double next to it,
// where a product 3.35 * 1e12 could be its neighbour. Printing moves the point
// back.
//
//===----------------------------------------------------------------------===//

#include "Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>

using namespace kerf::cluster;
using llvm::ArrayRef;
using llvm::StringRef;

namespace {

/// A unit is 10^exponent * factor of the SI unit.
struct Unit {
  StringRef name;
  int exponent = 0;
  double factor = 1;
};

/// Digits and exponent of a double: 0.DIGITS x 10^point.
struct Decimal {
  std::string digits;
  int point = 0;
};

} // namespace

static constexpr double kKibi = 1024;

static ArrayRef<Unit> unitsOf(Quantity quantity) {
  static const Unit bytes[] = {{"B"},
                               {"kB", 3},
                               {"MB", 6},
                               {"GB", 9},
                               {"TB", 12},
                               {"KiB", 0, kKibi},
                               {"MiB", 0, kKibi * kKibi},
                               {"GiB", 0, kKibi * kKibi * kKibi},
                               {"TiB", 0, kKibi * kKibi * kKibi * kKibi}};
  static const Unit rates[] = {{"B/s"},
                               {"kB/s", 3},
                               {"MB/s", 6},
                               {"GB/s", 9},
                               {"TB/s", 12},
                               {"b/s", 0, 0.125},
                               {"kb/s", 3, 0.125},
                               {"Mb/s", 6, 0.125},
                               {"Gb/s", 9, 0.125},
                               {"Tb/s", 12, 0.125}};
  static const Unit flops[] = {
      {"FLOP/s"}, {"GFLOP/s", 9}, {"TFLOP/s", 12}, {"PFLOP/s", 15}};
  static const Unit seconds[] = {{"s"},      {"ms", -3},     {"us", -6},
                                 {"ns", -9}, {"min", 0, 60}, {"h", 0, 3600}};
  static const Unit watts[] = {{"W"}, {"kW", 3}};
  static const Unit carbon[] = {{"kg/kWh"}, {"g/kWh", -3}};
  switch (quantity) {
  case Quantity::Bytes:
    return bytes;
  case Quantity::BytesPerSec:
    return rates;
  case Quantity::FlopPerSec:
    return flops;
  case Quantity::Seconds:
    return seconds;
  case Quantity::Watts:
    return watts;
  case Quantity::KgPerKwh:
    return carbon;
  case Quantity::Number:
    return {};
  }
  return {};
}

StringRef kerf::cluster::describe(Quantity quantity) {
  switch (quantity) {
  case Quantity::Bytes:
    return "a size";
  case Quantity::BytesPerSec:
  case Quantity::FlopPerSec:
    return "a rate";
  case Quantity::Seconds:
    return "a time";
  case Quantity::Watts:
    return "a power";
  case Quantity::KgPerKwh:
    return "a mass per energy";
  case Quantity::Number:
    return "a number";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// The length of the decimal number that `text` begins with: sign, digits with
/// at most one point, exponent. 0 when there is none.
static size_t numberLength(StringRef text) {
  auto digitsFrom = [&](size_t at) {
    while (at < text.size() && llvm::isDigit(text[at]))
      ++at;
    return at;
  };
  size_t begin = text.starts_with("-") || text.starts_with("+") ? 1 : 0;
  size_t end = digitsFrom(begin);
  size_t digits = end - begin;
  if (end < text.size() && text[end] == '.') {
    size_t fraction = digitsFrom(end + 1) - (end + 1);
    digits += fraction;
    end += 1 + fraction;
  }
  if (digits == 0)
    return 0;
  StringRef rest = text.substr(end);
  if (!rest.consume_front("e") && !rest.consume_front("E"))
    return end;
  size_t sign = rest.starts_with("-") || rest.starts_with("+") ? 1 : 0;
  size_t exponentBegin = end + 1 + sign;
  size_t exponentEnd = digitsFrom(exponentBegin);
  return exponentEnd > exponentBegin ? exponentEnd : end;
}

/// The double nearest to `number` x 10^exponent.
static double scale(StringRef number, int exponent) {
  number.consume_front("+");
  auto [mantissa, written] =
      number.split(number.find('e') != StringRef::npos ? 'e' : 'E');
  int64_t own = 0;
  written.consume_front("+");
  // An exponent of more digits than fit is beyond all doubles either way.
  if (!written.empty() && written.getAsInteger(10, own))
    own = written.starts_with("-") ? -100000 : 100000;
  own = std::clamp<int64_t>(own, -100000, 100000) + exponent;
  std::string text = mantissa.str() + "e" + std::to_string(own);
  double value = 0;
  auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc::result_out_of_range)
    return value;
  bool isSmall =
      own < 0 || mantissa.find_first_of("123456789") == StringRef::npos;
  double magnitude = isSmall ? 0 : std::numeric_limits<double>::infinity();
  return mantissa.starts_with("-") ? -magnitude : magnitude;
}

ReadQuantity kerf::cluster::readQuantity(StringRef text, Quantity quantity) {
  ReadQuantity result;
  text = text.trim();
  size_t length = numberLength(text);
  result.number = text.take_front(length);
  result.unit = text.drop_front(length).ltrim();
  ArrayRef<Unit> units = unitsOf(quantity);
  const Unit *unit = llvm::find_if(
      units, [&](const Unit &each) { return each.name == result.unit; });
  if (length == 0)
    result.error = QuantityError::NoNumber;
  else if (quantity == Quantity::Number && result.unit.empty())
    result.value = scale(result.number, 0);
  else if (result.unit.empty())
    result.error = QuantityError::NoUnit;
  else if (unit == units.end())
    result.error = QuantityError::UnknownUnit;
  else
    result.value = scale(result.number, unit->exponent) * unit->factor;
  return result;
}

std::vector<StringRef> kerf::cluster::unitsNear(Quantity quantity,
                                                StringRef near) {
  // Of a stranger's text: long ones cost time and are near to nothing.
  near = near.take_front(16);
  std::vector<std::tuple<unsigned, size_t, StringRef>> order;
  for (const Unit &unit : unitsOf(quantity))
    order.emplace_back(near.edit_distance(unit.name), order.size(), unit.name);
  llvm::sort(order);
  std::vector<StringRef> names;
  for (const auto &[distance, index, name] : order)
    names.push_back(name);
  return names;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

/// The fewest digits that read back as `value`, which is finite and positive.
static Decimal decimalOf(double value) {
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value,
                           std::chars_format::scientific);
  auto [mantissa, exponent] = StringRef(buffer, end.ptr - buffer).split('e');
  Decimal result;
  for (char c : mantissa)
    if (c != '.')
      result.digits += c;
  exponent.consume_front("+");
  bool failed = exponent.getAsInteger(10, result.point);
  assert(!failed && "to_chars prints an exponent");
  (void)failed;
  ++result.point;
  return result;
}

/// `decimal` without exponent.
static std::string printDecimal(const Decimal &decimal) {
  int count = decimal.digits.size();
  if (decimal.point <= 0)
    return "0." + std::string(-decimal.point, '0') + decimal.digits;
  if (decimal.point >= count)
    return decimal.digits + std::string(decimal.point - count, '0');
  return decimal.digits.substr(0, decimal.point) + "." +
         decimal.digits.substr(decimal.point);
}

/// `value` as a whole number of a unit that is a multiple of the SI unit by a
/// factor, or "". Used where decimal prefixes need many digits.
static std::string printWhole(double value, ArrayRef<Unit> units) {
  constexpr double kExact = 1e15;
  for (const Unit &unit : llvm::reverse(units)) {
    double count = value / unit.factor;
    if (unit.factor >= kKibi && count >= 1 && count < kExact &&
        count == std::floor(count))
      return std::to_string(static_cast<int64_t>(count)) + " " +
             unit.name.str();
  }
  return "";
}

std::string kerf::cluster::printQuantity(double value, Quantity quantity) {
  assert(value >= 0 && std::isfinite(value) &&
         "a machine has no other numbers");
  ArrayRef<Unit> units = unitsOf(quantity);
  std::string base = units.empty() ? "" : " " + units.front().name.str();
  if (value == 0)
    return "0" + base;
  Decimal decimal = decimalOf(value);
  if (units.empty())
    return printDecimal(decimal);
  if (quantity == Quantity::Seconds || decimal.digits.size() > 4)
    if (std::string whole = printWhole(value, units); !whole.empty())
      return whole;
  // The largest decimal unit in which the number is at least one, else the
  // smallest one.
  const Unit *best = nullptr;
  for (const Unit &unit : units) {
    if (unit.factor != 1)
      continue;
    bool isWhole = decimal.point - unit.exponent >= 1;
    bool bestIsWhole = best && decimal.point - best->exponent >= 1;
    if (!best || (isWhole ? !bestIsWhole || unit.exponent > best->exponent
                          : !bestIsWhole && unit.exponent < best->exponent))
      best = &unit;
  }
  decimal.point -= best->exponent;
  return printDecimal(decimal) + " " + best->name.str();
}
