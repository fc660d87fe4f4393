//===- SweepHtml.cpp - a sweep as a page for a browser --------------------===//

#include "PageTables.h"
#include "SweepTables.h"

using namespace kerf;
using namespace kerf::report;
using namespace kerf::page;

static std::string cardOf(const SweepPoint &point, const char *what) {
  std::string price = priceWords(point.run);
  return card(grouped(point.devices) + " of " + clean(point.machine),
              std::string(what) + ": " +
                  rangeWords(point.run.band, point.run.seconds, duration) +
                  (price.empty() ? "" : ", " + priceRange(point.run)) + "; " +
                  point.layout,
              point.cheapest ? "fits" : "");
}

/// The row that the limits leave, the soonest and the cheapest; each once.
static std::string cardsOf(const Sweep &sweep) {
  const SweepPoint *chosen = nullptr, *soonest = nullptr, *cheapest = nullptr;
  bool isPriced = !sweep.currency.empty();
  auto costOf = [&](const SweepPoint &point) {
    return isPriced ? point.run.price : point.run.deviceHours;
  };
  for (const SweepPoint &point : sweep.points) {
    if (!point.fits)
      continue;
    if (point.cheapest)
      chosen = &point;
    if (!soonest || point.run.seconds < soonest->run.seconds)
      soonest = &point;
    if (!cheapest || costOf(point) < costOf(*cheapest))
      cheapest = &point;
  }
  if (!soonest)
    return card("nothing fits", "not with any of these devices", "tight");
  std::string text;
  if (chosen)
    text += cardOf(*chosen, "the cheapest within the limits");
  if (soonest != chosen)
    text += cardOf(*soonest, "the soonest of all");
  if (cheapest != chosen && cheapest != soonest)
    text += cardOf(*cheapest, isPriced ? "the cheapest of all"
                                       : "the fewest device-hours of all");
  return text;
}

std::string kerf::printHtml(const Sweep &sweep) {
  std::string title = clean(sweep.model) + ": how many devices, and which";
  std::string body = "<h1>" + escape(title) + "</h1>\n" +
                     paragraph(sizeWords(sweep), "soft") +
                     "<div class=\"cards\">\n" + cardsOf(sweep) + "</div>\n" +
                     paragraph(decisionWords(sweep)) +
                     "<div class=\"scroll\">" + svgOf(sweep) + "</div>\n";
  for (llvm::ArrayRef<SweepPoint> points : byMachine(sweep))
    body += heading(clean(points.front().machine)) +
            paragraph(pricedAt(points), "soft") +
            tableOf(stepsTable(points), true) +
            tableOf(runsTable(points), true) +
            tableOf(layoutsTable(points), true);
  return document(title, body + paragraph(columnWords(), "soft"));
}
