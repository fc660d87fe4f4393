//===- ReportAlternatives.cpp - the plans that lost, on the screen --------===//

#include "kerf/Report/Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <map>

using namespace kerf;
using namespace kerf::report;

namespace {
/// The most rows of plans that were evaluated.
constexpr size_t kMostRows = 10;
/// Of them, rows in which one key stands.
constexpr int64_t kMostOfKey = 3;
/// The most values of a degree, and ranges of them, that are named.
constexpr size_t kMostValues = 8;

/// Alternatives with one outcome.
struct Merged {
  std::vector<std::string> what; ///< "tp=4"
  AlternativeRow row;
};
} // namespace

static llvm::StringRef keyOf(llvm::StringRef what) {
  return what.split('=').first;
}

/// Plans that run, those of one layout and time together.
static std::vector<Merged> mergeRunning(llvm::ArrayRef<AlternativeRow> rows) {
  std::vector<Merged> merged;
  for (const AlternativeRow &row : rows) {
    if (row.stepSec <= 0)
      continue;
    auto same = llvm::find_if(merged, [&](const Merged &known) {
      return known.row.layout == row.layout && known.row.stepSec == row.stepSec;
    });
    if (same == merged.end())
      same = merged.insert(same, {{}, row});
    same->what.push_back(row.what);
  }
  return merged;
}

/// The fastest of every key, then the fastest of the rest, few of each key; in
/// order of time.
static std::vector<Merged> selectRunning(std::vector<Merged> all) {
  std::vector<bool> taken(all.size(), false);
  std::map<std::string, int64_t> rows; // of each key
  size_t count = 0;
  auto take = [&](size_t i, int64_t most) {
    bool wanted = llvm::any_of(all[i].what, [&](const std::string &what) {
      return rows[keyOf(what).str()] < most;
    });
    if (taken[i] || !wanted)
      return;
    taken[i] = true;
    ++count;
    for (const std::string &what : all[i].what)
      ++rows[keyOf(what).str()];
  };
  for (size_t i = 0; i < all.size(); ++i)
    take(i, 1);
  for (size_t i = 0; i < all.size() && count < kMostRows; ++i)
    take(i, kMostOfKey);
  std::vector<Merged> selected;
  for (auto [i, merged] : llvm::enumerate(all))
    if (taken[i])
      selected.push_back(std::move(merged));
  return selected;
}

/// What one row may say of several values: "open", "slower", or the reason up
/// to its first number.
static std::string outcomeOf(const AlternativeRow &row) {
  llvm::StringRef why = row.why;
  if (row.boundSec > 0 && !why.starts_with("no faster by"))
    return why.starts_with("open") ? "open" : "slower";
  return why.take_until([](char c) { return c >= '0' && c <= '9'; }).str();
}

/// Numbers that were not evaluated, by key and outcome. The reason is that of
/// the least bound, else of the first.
static std::vector<Merged> mergeOthers(llvm::ArrayRef<AlternativeRow> rows) {
  std::vector<Merged> merged;
  for (const AlternativeRow &row : rows) {
    if (row.stepSec > 0)
      continue;
    auto same = llvm::find_if(merged, [&](const Merged &known) {
      return keyOf(known.row.what) == keyOf(row.what) &&
             outcomeOf(known.row) == outcomeOf(row);
    });
    if (same == merged.end())
      same = merged.insert(same, {{}, row});
    else if (row.boundSec > 0 && row.boundSec < same->row.boundSec)
      same->row = row;
    else if (row.boundSec <= 0 && same->row.why != row.why &&
             !llvm::StringRef(same->row.why).ends_with(" (the first)"))
      same->row.why += " (the first)";
    same->what.push_back(row.what);
  }
  for (Merged &own : merged)
    if (own.what.size() > 1 &&
        llvm::StringRef(own.row.why).starts_with("at least "))
      own.row.why = "each " + own.row.why;
  return merged;
}

/// Values of one key, whole numbers that follow each other as a range: "2, 4,
/// 6-9". So no range has a number that is not in the list.
static std::vector<std::string>
rangesOf(llvm::ArrayRef<llvm::StringRef> values) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < values.size();) {
    int64_t first = 0, next = 0;
    size_t end = i + 1;
    if (!values[i].getAsInteger(10, first))
      while (end < values.size() && !values[end].getAsInteger(10, next) &&
             next == first + static_cast<int64_t>(end - i))
        ++end;
    if (end - i < 3) {
      ranges.push_back(values[i++].str());
      continue;
    }
    ranges.push_back(values[i].str() + "-" + values[end - 1].str());
    i = end;
  }
  return ranges;
}

/// "tp=4,8,16 and 3 more": values of one key together.
static std::string joinWhat(const std::vector<std::string> &list) {
  std::string text;
  for (size_t i = 0; i < list.size();) {
    llvm::StringRef key = keyOf(list[i]);
    std::vector<llvm::StringRef> values;
    for (; i < list.size() && keyOf(list[i]) == key; ++i)
      values.push_back(llvm::StringRef(list[i]).split('=').second);
    std::vector<std::string> ranges = rangesOf(values);
    size_t more = ranges.size() - std::min(ranges.size(), kMostValues);
    ranges.resize(ranges.size() - more);
    text += (text.empty() ? "" : ", ") + key.str() + "=" +
            llvm::join(ranges, ",") +
            (more > 0 ? " and " + std::to_string(more) + " more" : "");
  }
  return clean(text);
}

Table report::tableOfAlternatives(llvm::ArrayRef<AlternativeRow> rows,
                                  double stepSec) {
  Table table{"lrrw", 2, {}};
  for (const Merged &merged : selectRunning(mergeRunning(rows))) {
    const AlternativeRow &row = merged.row;
    std::string more = (row.stepSec >= stepSec ? "+" : "") +
                       percent(row.stepSec / stepSec - 1);
    table.rows.push_back({joinWhat(merged.what), seconds(row.stepSec), more,
                          row.layout + ": " + clean(row.why)});
  }
  return table;
}

Table report::tableOfUntried(llvm::ArrayRef<AlternativeRow> rows) {
  Table table{"lw", 2, {}};
  for (const Merged &merged : mergeOthers(rows))
    table.rows.push_back({joinWhat(merged.what), clean(merged.row.why)});
  return table;
}

std::string report::printAlternatives(llvm::ArrayRef<AlternativeRow> rows,
                                      double stepSec, bool color) {
  if (rows.empty())
    return "";
  std::string text =
      heading("ALTERNATIVES",
              "the fastest plan found with another value of a choice", color);
  Table running = tableOfAlternatives(rows, stepSec);
  Table others = tableOfUntried(rows);
  text += running.print();
  if (!running.rows.empty() && !others.rows.empty())
    text += "\n";
  return text + others.print();
}
