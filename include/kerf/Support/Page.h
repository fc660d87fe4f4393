//===- Page.h - a page for a browser --------------------------------------===//
//
// One file: style and script are in it, nothing is fetched. Without the script
// all but the zoom of a picture works. Plain C++, so that the runtime has it,
// too. All text is escaped here; what is called markup is not.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_PAGE_H
#define KERF_SUPPORT_PAGE_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::page {

inline constexpr char kStyle[] = R"css(
:root { --ink: #1b2733; --soft: #5c6873; --line: #dfe3e6; --paper: #fcfcfa; --good: #2e7d4f; --bad: #b3422f; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 24px 28px 60px; background: var(--paper); color: var(--ink);
       font: 15px/1.45 Helvetica, Arial, sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 18px; margin: 34px 0 8px; border-bottom: 1px solid var(--line); }
p { margin: 6px 0; } .soft { color: var(--soft); } .warning { color: var(--bad); font-weight: bold; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(155px, 1fr)); gap: 12px; margin: 18px 0; }
.card { border: 1px solid var(--line); border-radius: 6px; padding: 10px 14px; background: #fff; }
.card b { display: block; font-size: 21px; } .card i { font-style: normal; color: var(--soft); font-size: 13px; }
.card.wide { grid-column: 1 / -1; } .card.wide b { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 18px; }
.card.fits { border-left: 5px solid var(--good); } .card.tight { border-left: 5px solid var(--bad); }
.scroll { overflow-x: auto; } .scroll > svg { display: block; max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 10px 0; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 3px 14px 3px 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: normal; } .r { text-align: right; white-space: nowrap; }
.row { display: grid; grid-template-columns: 190px 1fr 130px; gap: 10px; align-items: center; margin: 3px 0; font-size: 14px; }
.row.top { font-weight: bold; margin-top: 10px; }
.bar { display: flex; height: 16px; background: #eceff1; position: relative; } .bar span { height: 100%; }
.keys span { display: inline-block; margin-right: 16px; font-size: 13px; } .keys i { display: inline-block; width: 11px; height: 11px; margin-right: 5px; }
.schedule { overflow: auto; border: 1px solid var(--line); background: #fff; } .schedule svg { display: block; height: auto; }
button { font: inherit; padding: 2px 12px; border: 1px solid var(--line); background: #fff; border-radius: 4px; cursor: pointer; }
@media print { body { padding: 0; font-size: 10px; max-width: none; } h1 { font-size: 16px; } h2 { font-size: 12px; margin: 10px 0 3px; }
  .cards { grid-template-columns: repeat(5, 1fr); gap: 5px; margin: 6px 0; } .card { padding: 3px 6px; } .card b { font-size: 12px; }
  .card i, table, .row, .keys span { font-size: 8px; } table { margin: 2px 0; } th, td { padding: 0 7px 0 0; line-height: 1.25; }
  .row { margin: 1px 0; grid-template-columns: 120px 1fr 80px; } .bar { height: 8px; } button { display: none; }
  .bar, .keys i { print-color-adjust: exact; -webkit-print-color-adjust: exact; } .row, tr, .card { break-inside: avoid; }
  .schedule svg { width: 100% !important; max-height: 74mm; } .scroll, .schedule { overflow: visible; } .zoom { display: none; }
  h2 { break-after: avoid; } p { margin: 2px 0; } .soft { font-size: 8px; }
  .pair { display: grid; grid-template-columns: 1fr 1fr; gap: 18px; align-items: start; } .pair .row { grid-template-columns: 84px 1fr 66px; gap: 5px; }
  .tight td, .tight th { white-space: nowrap; padding-right: 4px; } @page { margin: 11mm; } }
)css";

inline constexpr char kScript[] = R"js(
(function () {
  var picture = document.querySelector('.schedule svg'), part = 1;
  if (!picture) return;
  function show() { picture.style.width = 100 * part + '%'; document.getElementById('zoom').textContent = Math.round(100 * part) + ' %'; }
  document.getElementById('in').onclick = function () { part = Math.min(32, part * 2); show(); };
  document.getElementById('out').onclick = function () { part = Math.max(1, part / 2); show(); };
  show();
})();
)js";

/// Text as markup that shows it.
inline std::string escape(std::string_view text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&apos;";
      break;
    default:
      result += c;
    }
  return result;
}

/// `kind`: "soft", "warning" or "". Nothing where the text is empty.
inline std::string paragraph(std::string_view text,
                             std::string_view kind = "") {
  if (text.empty())
    return "";
  std::string open =
      kind.empty() ? "<p>" : "<p class=\"" + std::string(kind) + "\">";
  return open + escape(text) + "</p>\n";
}

inline std::string heading(std::string_view title) {
  return "<h2>" + escape(title) + "</h2>\n";
}

/// Cells by row; columns of which `align` has 'r' are flush right. The first
/// row may be a heading. Nothing without rows.
inline std::string table(const std::vector<std::vector<std::string>> &rows,
                         std::string_view align, bool hasHeading) {
  if (rows.empty())
    return "";
  std::string text = "<div class=\"scroll\"><table>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string cell = hasHeading && i == 0 ? "th" : "td";
    text += "<tr>";
    for (size_t column = 0; column < rows[i].size(); ++column) {
      bool right = column < align.size() && align[column] == 'r';
      text += "<" + cell + (right ? " class=\"r\">" : ">") +
              escape(rows[i][column]) + "</" + cell + ">";
    }
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

/// An answer with what it means. `kind`: "wide", "fits", "tight" or "".
inline std::string card(std::string_view large, std::string_view small,
                        std::string_view kind = "") {
  return "<div class=\"card " + std::string(kind) + "\"><b>" + escape(large) +
         "</b><i>" + escape(small) + "</i></div>\n";
}

/// Two parts in markup, on paper beside each other.
inline std::string pair(const std::string &left, const std::string &right) {
  return "<div class=\"pair\">\n<div>" + left + "</div>\n<div>" + right +
         "</div>\n</div>\n";
}

/// The whole file; `body` is markup.
inline std::string document(std::string_view title, const std::string &body) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
         "charset=\"utf-8\">\n<meta name=\"viewport\" "
         "content=\"width=device-width\">\n<title>" +
         escape(title) + "</title>\n<style>" + kStyle +
         "</style>\n</head>\n<body>\n" + body + "<script>" + kScript +
         "</script>\n</body>\n</html>\n";
}

} // namespace kerf::page

#endif // KERF_SUPPORT_PAGE_H
