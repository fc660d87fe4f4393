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

std::string report::scaled(double number, llvm::StringRef unit) {
  std::string text = inUnits(number, {"", "k", "M", "G", "T", "P", "E"});
  bool prefixed = text.find(' ') != std::string::npos;
  return text + (prefixed ? "" : " ") + unit.str();
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
  for (size_t i = 0; i < words.size(); ++i) {
    // A number stays with its percent sign.
    std::string word = words[i].str();
    if (i + 1 < words.size() && words[i + 1].starts_with("%"))
      word += " " + words[++i].str();
    bool starts = lines.back().empty();
    if (!starts && lines.back().size() + 1 + word.size() > width) {
      lines.emplace_back();
      starts = true;
    }
    lines.back() += (starts ? "" : " ") + word;
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

/// The longest word of a cell, which no line can be narrower than.
static size_t longestWord(llvm::StringRef text) {
  size_t most = 0;
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words)
    most = std::max(most, word.size());
  return most;
}

/// Widths of the columns. Those that wrap share what the others leave; one that
/// needs less than its part leaves the rest to those behind it.
static std::vector<size_t> widthsOf(const report::Table &table) {
  constexpr size_t least = 16;
  size_t columns = table.align.size();
  std::vector<size_t> widths(columns, 0), words(columns, 0);
  for (const auto &row : table.rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
      words[i] = std::max(words[i], longestWord(row[i]));
    }
  size_t used = static_cast<size_t>(table.indent) + 2 * (columns - 1);
  size_t wrapped = 0;
  for (size_t i = 0; i < columns; ++i)
    table.align[i] == 'w' ? ++wrapped : used += widths[i];
  size_t room = report::kColumns - std::min(report::kColumns, used);
  for (size_t i = 0; i < columns; ++i) {
    if (table.align[i] != 'w')
      continue;
    size_t part = std::max(room / wrapped--, least);
    bool isLast = wrapped == 0;
    widths[i] = std::min(widths[i], isLast ? part : std::max(part, words[i]));
    room -= std::min(room, widths[i]);
  }
  return widths;
}

std::string report::Table::print() const {
  std::vector<size_t> widths = widthsOf(*this);
  std::string text;
  for (const auto &row : rows) {
    std::vector<std::vector<std::string>> cells;
    size_t lines = 1;
    for (size_t i = 0; i < row.size(); ++i) {
      cells.push_back(align[i] == 'w' ? wrap(row[i], widths[i])
                                      : std::vector<std::string>{row[i]});
      lines = std::max(lines, cells.back().size());
    }
    for (size_t n = 0; n < lines; ++n) {
      std::string line(indent, ' ');
      for (size_t i = 0; i < row.size(); ++i) {
        std::string cell = n < cells[i].size() ? cells[i][n] : "";
        std::string pad(widths[i] - std::min(widths[i], cell.size()), ' ');
        line += (i ? "  " : "") + (align[i] == 'r' ? pad + cell : cell + pad);
      }
      text += llvm::StringRef(line).rtrim().str() + "\n";
    }
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
