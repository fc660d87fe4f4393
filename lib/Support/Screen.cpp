//===- Screen.cpp - numbers and tables for people -------------------------===//

#include "kerf/Support/Screen.h"

#include "kerf/Support/Page.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace kerf;

std::string report::fixed(double number, int digits) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.*f", digits, number);
  return text;
}

std::string report::grouped(double number) {
  std::string text = fixed(number, 0);
  size_t first = llvm::StringRef(text).starts_with("-") ? 1 : 0;
  for (auto at = static_cast<int64_t>(text.size()) - 3;
       at > static_cast<int64_t>(first); at -= 3)
    text.insert(at, ",");
  return text;
}

std::string report::short3(double number) {
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
static std::string inUnits(double number, llvm::ArrayRef<const char *> units) {
  size_t unit = 0;
  while (std::fabs(number) >= 999.5 && unit + 1 < units.size()) {
    number /= 1000;
    ++unit;
  }
  std::string text = report::short3(number);
  return units[unit][0] ? text + " " + units[unit] : text;
}

std::string report::counted(double number) {
  if (number < 9999.5)
    return grouped(number);
  return inUnits(number, {"", "k", "M", "B", "T"});
}

std::string report::amount(double number) {
  return number < 9999.5 ? short3(number) : counted(number);
}

std::string report::scaled(double number, llvm::StringRef unit) {
  std::string text = inUnits(number, {"", "k", "M", "G", "T", "P", "E"});
  bool prefixed = text.find(' ') != std::string::npos;
  return text + (prefixed ? "" : " ") + unit.str();
}

std::string report::seconds(double sec) {
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

std::string report::duration(double sec) {
  if (sec < 120)
    return seconds(sec);
  if (sec < 120 * 60)
    return short3(sec / 60) + " min";
  if (sec < 48 * 3600)
    return short3(sec / 3600) + " h";
  double days = sec / 86400;
  return days < 730 ? short3(days) + " days" : short3(days / 365.25) + " years";
}

std::string report::gib(double bytes) {
  double size = std::fabs(bytes);
  if (size == 0 || size >= 51.2 * (1 << 20))
    return fixed(bytes / (1 << 30), 1) + " GiB";
  if (size >= 51.2 * (1 << 10))
    return fixed(bytes / (1 << 20), 1) + " MiB";
  return fixed(bytes / (1 << 10), 1) + " KiB";
}

std::string report::percent(double part, int digits) {
  return fixed(100 * part, digits) + " %";
}

std::string report::plural(double count, llvm::StringRef word) {
  return grouped(count) + " " + word.str() + (count == 1 ? "" : "s");
}

std::vector<int64_t> report::tenths(llvm::ArrayRef<double> parts) {
  double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::vector<int64_t> result;
  std::vector<double> rest;
  for (double part : parts) {
    double exact = whole > 0 ? 1000 * part / whole : 0;
    result.push_back(static_cast<int64_t>(exact));
    rest.push_back(exact - std::floor(exact));
  }
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](size_t a, size_t b) {
    return rest[a] != rest[b] ? rest[a] > rest[b] : a < b;
  });
  int64_t missing =
      1000 - std::accumulate(result.begin(), result.end(), int64_t(0));
  for (int64_t i = 0; i < missing && i < static_cast<int64_t>(order.size());
       ++i)
    ++result[order[i]];
  return result;
}

std::vector<std::string> report::wrap(llvm::StringRef text, size_t width) {
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  std::vector<std::string> lines(1);
  for (llvm::StringRef word : words) {
    bool starts = lines.back().empty();
    // A number stays with its percent sign.
    if (!starts && !word.starts_with("%") &&
        lines.back().size() + 1 + word.size() > width) {
      lines.emplace_back();
      starts = true;
    }
    lines.back() += (starts ? "" : " ") + word.str();
  }
  return lines;
}

std::string report::paragraph(llvm::StringRef text, size_t indent,
                              size_t hanging) {
  std::string result;
  size_t width = kColumns - std::max(indent, hanging);
  for (auto [i, line] : llvm::enumerate(wrap(text, width)))
    result += std::string(i ? hanging : indent, ' ') + line + "\n";
  return result;
}

std::string report::Table::print() const {
  std::vector<size_t> widths(align.size(), 0);
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto &row : rows) {
    std::string line(indent, ' ');
    std::vector<std::string> more;
    for (size_t i = 0; i < row.size(); ++i) {
      line += i ? "  " : "";
      std::string pad(widths[i] - row[i].size(), ' ');
      if (align[i] == 'r')
        line += pad + row[i];
      else if (align[i] == 'l')
        line += row[i] + pad;
      else { // the last column
        size_t at = line.size();
        more = wrap(row[i], kColumns > at + 16 ? kColumns - at : 16);
        line += more.front();
        for (std::string &rest : more)
          rest.insert(0, at, ' ');
      }
    }
    text += llvm::StringRef(line).rtrim().str() + "\n";
    for (const std::string &rest : llvm::drop_begin(more, !more.empty()))
      text += rest + "\n";
  }
  return text;
}

std::string report::heading(llvm::StringRef title, llvm::StringRef more,
                            bool color) {
  std::string text = color ? "\033[1m" + title.str() + "\033[0m" : title.str();
  if (!more.empty())
    text += "  " + more.str();
  return "\n" + text + "\n\n";
}

std::string report::clean(llvm::StringRef text) {
  std::string result;
  for (char c : text)
    result += llvm::isPrint(c) || (c & 0x80) ? c : '?';
  return result;
}

std::string report::escapeMarkup(llvm::StringRef text) {
  return page::escape(text);
}
