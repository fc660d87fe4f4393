//===- RunPage.cpp - a run as a page for a browser ------------------------===//

#include "kerf/Train/RunPage.h"

#include "kerf/Support/Numbers.h"
#include "kerf/Support/Page.h"
#include "kerf/Train/Json.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace kerf::runtime;
namespace page = kerf::page;
namespace report = kerf::report;

Foretold kerf::runtime::readForetold(std::string_view plan) {
  Foretold result;
  JsonValue value;
  std::string error;
  if (!parseJson(plan, value, error))
    return result;
  const JsonValue *priced = value.find("priced");
  const JsonValue *sec = priced ? priced->find("step_sec") : nullptr;
  const JsonValue *cluster = priced ? priced->find("cluster") : nullptr;
  if (sec && sec->kind == JsonValue::Number)
    result.stepSec = sec->number;
  if (cluster && cluster->kind == JsonValue::String)
    result.cluster = cluster->string;
  return result;
}

void RunPage::noteCommands(kerf_session *session) {
  kerf_profile_entry entry;
  for (uint32_t i = 0; kerf_session_profile(session, i, &entry); ++i)
    commands.push_back(
        {entry.name, entry.seconds, static_cast<int64_t>(entry.calls)});
}

void RunPage::note(const StepRecord &record,
                   const std::vector<std::array<double, 3>> &own) {
  steps.push_back(static_cast<double>(record.step));
  stepSec.push_back(record.elapsedMs / 1e3);
  peakMemoryMb = std::max(peakMemoryMb, record.peakMemoryMb);
  if (record.experts)
    expertLoad.push_back(
        {static_cast<double>(record.step), record.experts->all.most});
  waits.resize(own.size());
  for (size_t rank = 0; rank < own.size(); ++rank)
    for (size_t kind = 0; kind < 3; ++kind)
      waits[rank][kind] += own[rank][kind];
}

double kerf::runtime::medianStepSec(const RunPage &page) {
  std::vector<double> secs = page.stepSec;
  if (secs.empty())
    return 0;
  if (secs.size() > 1)
    secs.erase(secs.begin());
  auto middle = secs.begin() + static_cast<std::ptrdiff_t>(secs.size() / 2);
  std::nth_element(secs.begin(), middle, secs.end());
  return *middle;
}

//===----------------------------------------------------------------------===//
// Cards
//===----------------------------------------------------------------------===//

static std::string lossCard(const RunPage &page) {
  const std::vector<LossPoint> &train = page.plot.train;
  const std::vector<LossPoint> &heldout = page.plot.heldout;
  std::string note = train.empty()
                         ? "no step was done"
                         : "training loss of step " +
                               report::grouped(train.back().step) +
                               format(", %.4f at step ", train.front().loss) +
                               report::grouped(train.front().step);
  if (!heldout.empty())
    note += format("; held-out %.4f", heldout.back().loss);
  return page::card(train.empty() ? "-" : format("%.4f", train.back().loss),
                    note);
}

/// How the measured step compares with the plan's.
static std::string foretoldWords(const RunPage &page, double sec) {
  const Foretold &own = page.foretold;
  if (own.stepSec <= 0)
    return "the file does not say what was planned";
  double more = 100 * (sec / own.stepSec - 1);
  std::string words = std::abs(more) < 1
                          ? "as planned"
                          : report::grouped(std::abs(more)) +
                                (more > 0 ? " % more" : " % less");
  return words + " (planned: " + report::seconds(own.stepSec) +
         (own.cluster.empty() ? "" : " on '" + own.cluster + "'") + ")";
}

static std::string cardsOf(const RunPage &page) {
  double sec = medianStepSec(page);
  std::string text = "<div class=\"cards\">\n" + lossCard(page);
  if (sec > 0) {
    text += page::card(report::seconds(sec) + " a step",
                       "median; " + foretoldWords(page, sec));
    auto ranks = static_cast<double>(page.ranks);
    text +=
        page::card(report::counted(page.tokens / sec) + " tokens/s",
                   "of " + report::grouped(ranks) +
                       (page.ranks == 1 ? " rank" : " ranks") + " together, " +
                       report::counted(page.tokens / sec / ranks) + " each");
  }
  double total = std::accumulate(page.stepSec.begin(), page.stepSec.end(), 0.0);
  auto count = static_cast<double>(page.stepSec.size());
  text += page::card(report::duration(total),
                     "in " + report::grouped(count) +
                         (count == 1 ? " step" : " steps") +
                         ", without saving and evaluations");
  text += page::card(report::gib(page.peakMemoryMb * (1 << 20)),
                     "largest memory of the first rank's process; " +
                         report::gib(static_cast<double>(page.arenaBytes)) +
                         " of it planned for the arena");
  return text + "</div>\n" +
         page::paragraph(page.isStopped ? "The run was stopped before its last "
                                          "step."
                                        : "",
                         "warning");
}

//===----------------------------------------------------------------------===//
// Waits
//===----------------------------------------------------------------------===//

namespace {
struct Piece {
  const char *name;
  const char *color;
};
} // namespace
static constexpr Piece kPieces[] = {{"computing", "#2f6db3"},
                                    {"waits for other ranks", "#c44e60"},
                                    {"makes its batch", "#e0a030"},
                                    {"meetings of all ranks", "#9aa5ad"}};

/// Parts of the mean step of a rank, as `kPieces`.
static std::array<double, 4> partsOf(const RunPage &page, size_t rank) {
  double steps = std::max<double>(1, static_cast<double>(page.stepSec.size()));
  double mean =
      std::accumulate(page.stepSec.begin(), page.stepSec.end(), 0.0) / steps;
  auto [data, communication, barrier] = page.waits[rank];
  double waits = (data + communication + barrier) / steps;
  return {std::max(0.0, mean - waits), communication / steps, data / steps,
          barrier / steps};
}

static std::string rowOf(const RunPage &page, size_t rank) {
  std::array<double, 4> parts = partsOf(page, rank);
  double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::string bar;
  for (size_t i = 0; i < 4; ++i)
    bar += format("<span title=\"%s: %s\" style=\"width:%.2f%%;background:%s\">"
                  "</span>",
                  kPieces[i].name, report::seconds(parts[i]).c_str(),
                  sum > 0 ? 100 * parts[i] / sum : 0, kPieces[i].color);
  return format("<div class=\"row\"><span>rank %zu</span><div class=\"bar\">",
                rank) +
         bar + "</div><span>" + report::seconds(parts[1]) +
         " waiting</span></div>\n";
}

/// A bar for each rank; of many the one that waits least, the one that waits
/// most and some between.
static std::string waitsOf(const RunPage &page) {
  constexpr size_t kMost = 16;
  if (page.waits.empty() || page.stepSec.empty())
    return "";
  std::vector<size_t> ranks(page.waits.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  auto waiting = [&](size_t rank) { return page.waits[rank][1]; };
  std::sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) {
    return waiting(a) != waiting(b) ? waiting(a) < waiting(b) : a < b;
  });
  std::vector<size_t> shown;
  for (size_t i = 0; i < std::min(kMost, ranks.size()); ++i)
    shown.push_back(
        ranks[ranks.size() <= kMost ? i
                                    : i * (ranks.size() - 1) / (kMost - 1)]);
  std::string text =
      page::heading("Mean step of a rank") + "<p class=\"keys\">";
  for (const Piece &piece : kPieces)
    text += format("<span><i style=\"background:%s\"></i>%s</span>",
                   piece.color, piece.name);
  text += "</p>\n";
  for (size_t rank : shown)
    text += rowOf(page, rank);
  return text + page::paragraph(
                    page.waits.size() > 1
                        ? "The others wait for the rank that waits least: it "
                          "comes first."
                        : "",
                    "soft");
}

//===----------------------------------------------------------------------===//
// The page
//===----------------------------------------------------------------------===//

static std::string speedOf(const RunPage &page) {
  LossPlot speed;
  speed.title = "tokens per second, all ranks";
  speed.unit = "tokens per second";
  speed.name = "measured";
  speed.words = report::counted;
  for (size_t i = 0; i < page.stepSec.size(); ++i)
    speed.train.push_back({page.steps[i], page.tokens / page.stepSec[i]});
  if (page.foretold.stepSec > 0) {
    speed.unigramEntropy = page.tokens / page.foretold.stepSec;
    speed.entropyName = "planned";
  }
  return renderLossPlot(speed);
}

static std::string expertsOf(const RunPage &page) {
  LossPlot load;
  load.title = "load of the busiest expert over the mean";
  load.unit = "times the mean";
  load.name = "largest of all layers";
  load.train = page.expertLoad;
  load.unigramEntropy = 1;
  load.entropyName = "even";
  load.words = report::short3;
  return renderLossPlot(load);
}

static std::string commandsOf(const RunPage &page) {
  constexpr size_t kMost = 12;
  double total = 0;
  for (const CommandShare &own : page.commands)
    total += own.seconds;
  if (total <= 0)
    return "";
  std::vector<std::vector<std::string>> rows = {
      {"command", "time", "part", "calls"}};
  for (const CommandShare &own : page.commands)
    if (rows.size() <= kMost)
      rows.push_back({own.name, report::seconds(own.seconds),
                      report::percent(own.seconds / total),
                      withCommas(own.calls)});
  return page::heading("Commands that took most, of the first rank") +
         page::table(rows, "lrrr", true);
}

std::string kerf::runtime::renderRunPage(const RunPage &page) {
  std::string body = "<h1>" + page::escape(page.plot.title) + "</h1>\n" +
                     cardsOf(page) + "<div class=\"scroll\">" +
                     renderLossPlot(page.plot) + "</div>\n";
  if (!page.stepSec.empty())
    body += "<div class=\"scroll\">" + speedOf(page) + "</div>\n";
  if (!page.expertLoad.empty())
    body += "<div class=\"scroll\">" + expertsOf(page) + "</div>\n";
  return page::document(page.plot.title,
                        body + waitsOf(page) + commandsOf(page));
}
