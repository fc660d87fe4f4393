//===- ReportHtml.cpp - an explanation as a page for a browser ------------===//
//
// The decision comes first; the rest is what --explain=full prints, with bars.
//
//===----------------------------------------------------------------------===//

#include "PageTables.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace kerf;
using namespace kerf::report;
using namespace kerf::page;

//===----------------------------------------------------------------------===//
// The decision
//===----------------------------------------------------------------------===//

static std::string decisionOf(const Explanation &e) {
  std::string warning = headroomWarning(e);
  std::string text = "<div class=\"cards\">\n";
  text += card(layoutOf(e.plan), batchWords(e.plan.outer) + "; " + e.plan.state,
               "wide") +
          "</div>\n<div class=\"cards\">\n";
  text += card(seconds(e.time.stepSec) + " a step",
               spanWords(e.trust.band, e.time.stepSec, seconds) + "; " +
                   counted(e.run.tokensPerSec) + " tokens/s, MFU " +
                   percent(e.time.mfu));
  text += card(warning.empty() ? "fits" : "fits, barely", fitWords(e.memory),
               warning.empty() ? "fits" : "tight");
  text += card(e.run.ends() ? duration(e.run.seconds) : "never",
               e.run.ends() ? spanWords(e.run.band, e.run.seconds, duration) +
                                  "; " + counted(e.run.tokens) + " tokens, " +
                                  amount(e.run.deviceHours) + " device-hours"
                            : "the run " + neverWords());
  if (std::string price = priceWords(e.run); !price.empty() && e.run.ends())
    text += card(price, spanWords(e.run.band, e.run.price, moneyWords) +
                            "; the run, at " + devicePriceWords(e.run));
  const Certificate &proof = e.trust.certificate;
  std::string rank = proof.space <= 1      ? "given"
                     : proof.complete      ? "the best"
                     : proof.boundSec <= 0 ? "best found"
                                           : "not proven";
  text += card(rank, optimumWords(proof));
  return text + "</div>\n" +
         paragraph(llvm::join(warningsOf(e), " "), "warning") +
         paragraph(errorWords(e), "soft");
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
  std::string text =
      heading("Memory of each stage's most loaded rank") + "<p class=\"keys\">";
  for (const Piece &piece : piecesOf(StageMemory(), most))
    text += "<span><i style=\"background:" + piece.colour + "\"></i>" +
            llvm::StringRef(piece.name).split(',').first.str() + "</span>";
  text += "</p>\n";
  for (auto [i, stage] : llvm::enumerate(memory.stages))
    text += rowOf("stage " + std::to_string(i), barOf(piecesOf(stage, most)),
                  gib(stage.total()));
  return text +
         paragraph("The whole bar is " + gib(memory.capacity) +
                       ", a device's memory; a colour says its bytes when "
                       "pointed at.",
                   "soft") +
         "<div class=\"tight\">" +
         tableOf(withHeading(tableOfBuffers(memory.buffers),
                             {"largest buffers", "layer", "stage", "made by",
                              "at", "on a rank, of a micro-batch", ""}),
                 true) +
         "</div>\n";
}

static std::string timeOf(const TimePart &time) {
  constexpr const char *titles[] = {"compute", "communication, exposed",
                                    "coordination"};
  constexpr const char *colours[] = {"#2f6db3", "#c44e60", "#9aa5ad"};
  std::string text = heading("Time of a step, mean over stages");
  auto groups = timeLines(time);
  for (auto [title, colour, group, shares] :
       llvm::zip(titles, colours, groups, timeShares(groups))) {
    double sum = 0;
    int64_t all = 0;
    std::string rows;
    auto row = [&](llvm::StringRef name, double sec, int64_t share,
                   llvm::StringRef kind) {
      std::string bar = barOf({{name.str(), colour, sec / time.stepSec}});
      return rowOf(name, bar, seconds(sec) + "  " + tenthsWords(share), kind);
    };
    for (auto [line, share] : llvm::zip(group, shares)) {
      sum += line.sec;
      all += share;
      if (line.sec > 1e-9 * time.stepSec)
        rows += row(line.name, line.sec, share, "");
    }
    text += row(title, sum, all, "top") + rows;
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
  std::string text = heading("Traffic of a rank in a step");
  if (axes.rows.size() > 1)
    text += tableOf(axes, true);
  return kinds.rows.size() > 1 ? text + tableOf(kinds, true) : text;
}

static std::string scheduleOf(llvm::StringRef picture) {
  return heading("The schedule of a step") +
         "<p class=\"zoom\"><button id=\"out\" title=\"smaller\">-</button> "
         "<span "
         "id=\"zoom\"></span> <button id=\"in\" "
         "title=\"larger\">+</button></p>\n<div class=\"schedule\">" +
         picture.str() + "</div>\n";
}

static std::string planOf(const PlanPart &plan) {
  std::string text = heading("Plan");
  for (const std::string &line : placementWords(plan))
    text += paragraph(line);
  if (!plan.axes.empty())
    text += tableOf(tableOfAxes(plan), true);
  text += tableOf(tableOfStages(plan), true);
  text += tableOf(
      withHeading(tableOfKinds(plan), {"layer", "axis", "layout", "of"}), true);
  return text + tableOf(withHeading(tableOfPrecision(plan),
                                    {"layer", "in", "matmuls", "why not fp8"}),
                        true);
}

/// How layouts are written, for who sees one for the first time.
static constexpr const char *kNotation =
    "A layout names the ranks of tensor (tp), context (cp), expert (ep), data "
    "(dp) and pipeline (pp) parallelism; micro-batches x sequences of each "
    "(mb); the schedule, with v chunks of layers on a stage; and what is "
    "sharded "
    "over data ranks: zero 1 optimizer state, 2 gradients too, 3 weights too.";

static std::string alternativesOf(const Explanation &e) {
  if (e.alternatives.empty())
    return "";
  Table running =
      withHeading(tableOfAlternatives(e.alternatives, e.time.stepSec),
                  {"with", "step", "slower", "layout, and what takes longer"});
  return heading("Alternatives: the fastest plan found with another value of a "
                 "choice") +
         paragraph(kNotation, "soft") + tableOf(running, true) +
         tableOf(tableOfUntried(e.alternatives), false) +
         paragraph(roomyWords(e.roomy, e.time.stepSec));
}

static std::string sensitivityOf(const SensitivityPart &part) {
  if (part.rows.empty())
    return "";
  return heading("Sensitivity: the plan stays the fastest while a figure, "
                 "moved alone, is within") +
         tableOf(tableOfSensitivity(part), false) +
         paragraph(rankedWords(part), "soft");
}

std::string kerf::printHtml(const Explanation &e, llvm::StringRef schedule) {
  std::string head = printTitle(e.plan);
  auto [title, size] = llvm::StringRef(head).split('\n');
  std::string run = heading("The run") + tableOf(tableOfRun(e.run), false);
  std::string trust = heading("Trust") + tableOf(tableOfTrust(e), false);
  std::string body =
      "<h1>" + escapeMarkup(title) + "</h1>\n" +
      paragraph(size.rtrim(), "soft") + decisionOf(e) +
      pair(memoryOf(e.memory), timeOf(e.time)) + scheduleOf(schedule) +
      pair(planOf(e.plan), trafficOf(e.time)) + alternativesOf(e) +
      pair(run + sensitivityOf(e.sensitivity), trust);
  return document(title, body);
}
