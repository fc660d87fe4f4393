//===- Text.cpp - numbers, names and sizes for people ---------------------===//

#include "kerf/Train/Text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <ctime>

using namespace kerf::runtime;

std::string kerf::runtime::format(const char *pattern, ...) {
  va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(length > 0 ? length : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string kerf::runtime::quote(std::string_view text) {
  std::string result = "'";
  for (unsigned char c : text)
    if (c >= 0x20 && c < 0x7f)
      result += static_cast<char>(c);
    else
      result += format("\\x%02x", c);
  return result + "'";
}

/// Bytes of the UTF-8 sequence that a byte begins, 0 if it begins none.
static size_t lengthFrom(unsigned char first) {
  return first < 0x80                     ? 1
         : first >= 0xc2 && first <= 0xdf ? 2
         : first >= 0xe0 && first <= 0xef ? 3
         : first >= 0xf0 && first <= 0xf4 ? 4
                                          : 0;
}

/// May a byte follow the first one? Longer forms than needed, surrogates and
/// numbers above U+10FFFF are no UTF-8.
static bool mayFollow(unsigned char first, unsigned char second) {
  unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return least <= second && second <= most;
}

/// Do the bytes that are there of the first `length` go on as a sequence does?
static bool goesOn(std::string_view text, size_t length) {
  for (size_t i = 1; i < std::min(length, text.size()); ++i)
    if (!mayFollow(i == 1 ? text[0] : 0, text[i]))
      return false;
  return true;
}

size_t kerf::runtime::utf8Length(std::string_view text) {
  size_t length = lengthFrom(text[0]);
  return length <= text.size() && goesOn(text, length) ? length : 0;
}

bool kerf::runtime::mayBeginUtf8(std::string_view text) {
  size_t length = lengthFrom(text[0]);
  return length > text.size() && goesOn(text, length);
}

std::string kerf::runtime::jsonQuote(std::string_view text) {
  std::string result = "\"";
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    size_t length = utf8Length(text.substr(at));
    if (c == '"' || c == '\\')
      (result += '\\') += c;
    else if (length == 1 && static_cast<unsigned char>(c) < 0x20)
      result += format("\\u%04x", c);
    else if (length == 0)
      result += "\\ufffd";
    else
      result += text.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
  return result + "\"";
}

std::string kerf::runtime::withCommas(int64_t value) {
  std::string digits = std::to_string(value);
  size_t start = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > start + 3;)
    digits.insert(at -= 3, ",");
  return digits;
}

std::string kerf::runtime::formatBytes(uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  return unit == 0
             ? format("%d B", static_cast<int>(value))
             : format(value < 10 ? "%.2f %s" : "%.1f %s", value, units[unit]);
}

std::string kerf::runtime::formatDuration(double seconds) {
  auto total = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  int64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  return hours ? format("%lld:%02lld:%02lld", static_cast<long long>(hours),
                        static_cast<long long>(minutes),
                        static_cast<long long>(rest))
               : format("%02lld:%02lld", static_cast<long long>(minutes),
                        static_cast<long long>(rest));
}

std::string kerf::runtime::formatShape(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? " x " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool kerf::runtime::parseInteger(std::string_view text, int64_t &value) {
  const char *end = text.data() + text.size();
  auto [stop, code] = std::from_chars(text.data(), end, value);
  return code == std::errc() && stop == end;
}

bool kerf::runtime::parseReal(std::string_view text, double &value) {
  const char *end = text.data() + text.size();
  auto [stop, code] = std::from_chars(text.data(), end, value);
  return code == std::errc() && stop == end && std::isfinite(value);
}

bool kerf::runtime::endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

std::string kerf::runtime::listErrors(const std::vector<std::string> &errors) {
  constexpr size_t shown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(errors.size(), shown); ++i)
    text += (errors.size() == 1 ? " " : "\n  ") + errors[i];
  if (errors.size() > shown)
    text += "\n  and " + std::to_string(errors.size() - shown) + " more";
  return text;
}

size_t kerf::runtime::editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string kerf::runtime::today() {
  std::time_t now = std::time(nullptr);
  std::tm local;
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", localtime_r(&now, &local));
  return text;
}

std::string kerf::runtime::utcNow() {
  char text[32] = "";
  std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string kerf::runtime::nearest(std::string_view word,
                                   const std::vector<std::string> &candidates) {
  std::string best;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string &candidate : candidates) {
    size_t distance = editDistance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}
