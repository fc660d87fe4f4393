//===- ReportHtml.cpp - an explanation as a page for a browser ------------===//
//
// One file: style and script are in it, nothing is fetched. The decision comes
// first; the rest is what --explain=full prints, with bars. Without the script
// all but the zoom of the schedule works.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace kerf;
using namespace kerf::report;

static constexpr char kStyle[] = R"css(
:root { --ink: #1b2733; --soft: #5c6873; --line: #dfe3e6; --paper: #fcfcfa; --good: #2e7d4f; --bad: #b3422f; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 24px 28px 60px; background: var(--paper); color: var(--ink);
       font: 15px/1.45 Helvetica, Arial, sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 18px; margin: 34px 0 8px; border-bottom: 1px solid var(--line); }
p { margin: 6px 0; } .soft { color: var(--soft); } .warning { color: var(--bad); font-weight: bold; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 12px; margin: 18px 0; }
.card { border: 1px solid var(--line); border-radius: 6px; padding: 10px 14px; background: #fff; }
.card b { display: block; font-size: 21px; } .card i { font-style: normal; color: var(--soft); font-size: 13px; }
.card.wide { grid-column: 1 / -1; } .card.wide b { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 18px; }
.card.fits { border-left: 5px solid var(--good); } .card.tight { border-left: 5px solid var(--bad); }
.scroll { overflow-x: auto; }
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
  @page { margin: 11mm; } }
)css";

static constexpr char kScript[] = R"js(
(function () {
  var picture = document.querySelector('.schedule svg'), part = 1;
  if (!picture) return;
  function show() { picture.style.width = 100 * part + '%'; document.getElementById('zoom').textContent = Math.round(100 * part) + ' %'; }
  document.getElementById('in').onclick = function () { part = Math.min(32, part * 2); show(); };
  document.getElementById('out').onclick = function () { part = Math.max(1, part / 2); show(); };
  show();
})();
)js";

static std::string paragraphOf(llvm::StringRef text,
                               llvm::StringRef kind = "") {
  if (text.empty())
    return "";
  return "<p" + (kind.empty() ? "" : " class=\"" + kind.str() + "\"") + ">" +
         escapeMarkup(text) + "</p>\n";
}

static std::string headingOf(llvm::StringRef title) {
  return "<h2>" + escapeMarkup(title) + "</h2>\n";
}

static std::string tableOf(const Table &table, bool hasHeading) {
  if (table.rows.empty())
    return "";
  std::string text = "<div class=\"scroll\"><table>\n";
  for (auto [i, row] : llvm::enumerate(table.rows)) {
    const char *cell = hasHeading && i == 0 ? "th" : "td";
    text += "<tr>";
    for (auto [column, value] : llvm::enumerate(row)) {
      bool right = column < table.align.size() && table.align[column] == 'r';
      text += std::string("<") + cell + (right ? " class=\"r\">" : ">") +
              escapeMarkup(value) + "</" + cell + ">";
    }
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

/// The table with a first row; none where it is empty.
static Table withHeading(Table table, std::vector<std::string> heading) {
  if (!table.rows.empty())
    table.rows.insert(table.rows.begin(), std::move(heading));
  return table;
}

//===----------------------------------------------------------------------===//
// The decision
//===----------------------------------------------------------------------===//

static std::string card(llvm::StringRef large, llvm::StringRef small,
                        llvm::StringRef kind = "") {
  return "<div class=\"card " + kind.str() + "\"><b>" + escapeMarkup(large) +
         "</b><i>" + escapeMarkup(small) + "</i></div>\n";
}

static std::string decisionOf(const Explanation &e) {
  std::string warning = headroomWarning(e);
  std::string text = "<div class=\"cards\">\n";
  text += card(layoutOf(e.plan), batchWords(e.plan.outer) + "; " + e.plan.state,
               "wide");
  text += card(seconds(e.time.stepSec) + " a step",
               spanWords(e.trust.band, e.time.stepSec, seconds) + "; " +
                   counted(e.run.tokensPerSec) + " tokens/s, MFU " +
                   percent(e.time.mfu));
  text += card(warning.empty() ? "fits" : "fits, barely", fitWords(e.memory),
               warning.empty() ? "fits" : "tight");
  text += card(duration(e.run.seconds),
               spanWords(e.run.band, e.run.seconds, duration) + "; " +
                   counted(e.run.tokens) + " tokens, " +
                   amount(e.run.deviceHours) + " device-hours");
  if (std::string price = priceWords(e.run); !price.empty())
    text += card(price, spanWords(e.run.band, e.run.price, moneyWords) +
                            "; the run, at the price of the cluster's "
                            "description");
  const Certificate &proof = e.trust.certificate;
  std::string rank = proof.space <= 1      ? "given"
                     : proof.complete      ? "the best"
                     : proof.boundSec <= 0 ? "best found"
                                           : "within " + percent(proof.gap());
  text += card(rank, optimumWords(proof));
  return text + "</div>\n" +
         paragraphOf(llvm::join(warningsOf(e), " "), "warning") +
         paragraphOf(errorWords(e.trust), "soft");
}

//===----------------------------------------------------------------------===//
// Bars
//===----------------------------------------------------------------------===//

namespace {
/// A part of a bar: its share of the bar's length.
struct Piece {
  std::string name, colour;
  double part;
};
} // namespace

static std::string barOf(llvm::ArrayRef<Piece> pieces) {
  std::string text = "<div class=\"bar\">";
  for (const Piece &piece : pieces)
    if (piece.part > 0)
      text += "<span style=\"width:" + fixed(100 * piece.part, 2) +
              "%;background:" + piece.colour + "\" title=\"" +
              escapeMarkup(piece.name) + "\"></span>";
  return text + "</div>";
}

static std::string rowOf(llvm::StringRef name, const std::string &bar,
                         llvm::StringRef value, llvm::StringRef kind = "") {
  return "<div class=\"row " + kind.str() + "\"><span>" + escapeMarkup(name) +
         "</span>" + bar + "<span class=\"r\">" + escapeMarkup(value) +
         "</span></div>\n";
}

/// Classes of a stage's memory, in the order of the table.
static std::vector<Piece> piecesOf(const StageMemory &stage, double capacity) {
  std::vector<Piece> pieces = {{"weights", "#2f6db3", stage.weights},
                               {"masters", "#7aa9dc", stage.masters},
                               {"gradients", "#c44e60", stage.gradients},
                               {"optimizer", "#58508d", stage.optimizer},
                               {"activations", "#de7e28", stage.activations},
                               {"temporary", "#f0b878", stage.temporaries},
                               {"buffers", "#9775be", stage.communication},
                               {"reserved", "#9aa5ad", stage.reserved}};
  for (Piece &piece : pieces) {
    piece.name += ", " + gib(piece.part);
    piece.part /= capacity;
  }
  return pieces;
}

static std::string memoryOf(const MemoryPart &memory) {
  double most = memory.capacity;
  std::string text = headingOf("Memory of each stage's most loaded rank") +
                     "<p class=\"keys\">";
  for (const Piece &piece : piecesOf(StageMemory(), most))
    text += "<span><i style=\"background:" + piece.colour + "\"></i>" +
            llvm::StringRef(piece.name).split(',').first.str() + "</span>";
  text += "</p>\n";
  for (auto [i, stage] : llvm::enumerate(memory.stages))
    text += rowOf("stage " + std::to_string(i), barOf(piecesOf(stage, most)),
                  gib(stage.total()));
  return text +
         paragraphOf("The whole bar is " + gib(memory.capacity) +
                         ", a device's memory; a colour says its bytes when "
                         "pointed at.",
                     "soft") +
         tableOf(withHeading(tableOfBuffers(memory.buffers),
                             {"largest buffers of a micro-batch", "layer",
                              "made by", "at", "on a rank", ""}),
                 true);
}

static std::string timeOf(const TimePart &time) {
  constexpr const char *titles[] = {"compute", "communication, exposed",
                                    "coordination"};
  constexpr const char *colours[] = {"#2f6db3", "#c44e60", "#9aa5ad"};
  std::string text = headingOf("Time of a step, mean over stages");
  for (auto [title, colour, group] :
       llvm::zip(titles, colours, timeLines(time))) {
    double sum = 0;
    std::string rows;
    auto row = [&](llvm::StringRef name, double sec, llvm::StringRef kind) {
      std::string bar = barOf({{name.str(), colour, sec / time.stepSec}});
      return rowOf(name, bar, seconds(sec) + "  " + percent(sec / time.stepSec),
                   kind);
    };
    for (const TimeLine &line : group) {
      sum += line.sec;
      if (line.sec > 1e-9 * time.stepSec)
        rows += row(line.name, line.sec, "");
    }
    text += row(title, sum, "top") + rows;
  }
  return text;
}

static std::string trafficOf(const TimePart &time) {
  Table axes{
      "llrrr", 0, {{"axis", "over", "on the links", "hidden", "exposed"}}};
  for (const TrafficRow &row : time.traffic)
    axes.rows.push_back({row.axis, clean(row.tier), seconds(row.totalSec),
                         seconds(row.totalSec - row.exposedSec),
                         seconds(row.exposedSec)});
  Table kinds{"llrrr", 0, {{"collective", "along", "calls", "bytes", "time"}}};
  for (const PricedCollective &row : time.collectives)
    kinds.rows.push_back({row.kind, row.axes, grouped(row.calls),
                          scaled(row.bytes, "B"), seconds(row.sec)});
  if (axes.rows.size() == 1 && kinds.rows.size() == 1)
    return "";
  std::string text = headingOf("Traffic of a rank in a step");
  if (axes.rows.size() > 1)
    text += tableOf(axes, true);
  return kinds.rows.size() > 1 ? text + tableOf(kinds, true) : text;
}

static std::string scheduleOf(llvm::StringRef picture) {
  return headingOf("The schedule of a step") +
         "<p class=\"zoom\"><button id=\"out\" title=\"smaller\">-</button> "
         "<span "
         "id=\"zoom\"></span> <button id=\"in\" "
         "title=\"larger\">+</button></p>\n<div class=\"schedule\">" +
         picture.str() + "</div>\n";
}

static std::string planOf(const PlanPart &plan) {
  std::string text = headingOf("Plan");
  for (const std::string &line : placementWords(plan))
    text += paragraphOf(line);
  if (!plan.axes.empty())
    text += tableOf(tableOfAxes(plan), true);
  text += tableOf(tableOfStages(plan), true);
  return text + tableOf(withHeading(tableOfKinds(plan),
                                    {"layer", "axis", "layout", "of"}),
                        true);
}

static std::string alternativesOf(const Explanation &e) {
  if (e.alternatives.empty())
    return "";
  Table running =
      withHeading(tableOfAlternatives(e.alternatives, e.time.stepSec),
                  {"with", "step", "slower", "layout, and why it loses"});
  return headingOf("Alternatives: the fastest plans with") +
         tableOf(running, true) +
         tableOf(tableOfUntried(e.alternatives), false) +
         paragraphOf(roomyWords(e.roomy, e.time.stepSec));
}

static std::string sensitivityOf(const SensitivityPart &part) {
  if (part.rows.empty())
    return "";
  return headingOf("Sensitivity: the plan stays the fastest while a figure, "
                   "moved alone, is within") +
         tableOf(tableOfSensitivity(part), false) +
         paragraphOf(rankedWords(part), "soft");
}

/// Two parts, on paper beside each other.
static std::string pairOf(const std::string &left, const std::string &right) {
  return "<div class=\"pair\">\n<div>" + left + "</div>\n<div>" + right +
         "</div>\n</div>\n";
}

static std::string pageOf(llvm::StringRef title, const std::string &body) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
         "charset=\"utf-8\">\n<meta name=\"viewport\" "
         "content=\"width=device-width\">\n<title>" +
         escapeMarkup(title) + "</title>\n<style>" + kStyle +
         "</style>\n</head>\n<body>\n" + body + "<script>" + kScript +
         "</script>\n</body>\n</html>\n";
}

std::string kerf::printHtml(const Explanation &e, llvm::StringRef schedule) {
  std::string head = printTitle(e.plan);
  auto [title, size] = llvm::StringRef(head).split('\n');
  std::string run = headingOf("The run") + tableOf(tableOfRun(e.run), false);
  std::string trust =
      headingOf("Trust") + tableOf(tableOfTrust(e.trust), false);
  std::string body =
      "<h1>" + escapeMarkup(title) + "</h1>\n" +
      paragraphOf(size.rtrim(), "soft") + decisionOf(e) +
      pairOf(memoryOf(e.memory), timeOf(e.time)) + scheduleOf(schedule) +
      pairOf(planOf(e.plan), trafficOf(e.time)) + alternativesOf(e) +
      pairOf(run + sensitivityOf(e.sensitivity), trust);
  return pageOf(title, body);
}
