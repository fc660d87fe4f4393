//===- ReportSensitivity.cpp - when another plan would win, on the screen -===//

#include "kerf/Report/Report.h"

using namespace kerf;
using namespace kerf::report;

/// Who wins outside of the range.
static std::string winners(const SensitivityRow &row) {
  std::string text;
  if (!row.below.empty())
    text = "below: " + row.below;
  if (!row.above.empty())
    text += (text.empty() ? "" : "; ") + ("above: " + row.above);
  return text;
}

Table report::tableOfSensitivity(const SensitivityPart &part) {
  Table table{"lrrlrw", 2, {}};
  for (const SensitivityRow &row : part.rows)
    table.rows.push_back({row.name, percent(row.value), percent(row.from), "to",
                          percent(row.to), winners(row)});
  return table;
}

std::string report::rankedWords(const SensitivityPart &part) {
  std::string plans = plural(double(part.plans), "plan");
  if (part.isSearched)
    return "ranked: " + plans +
           ", which the search kept or found with a figure at an end of its "
           "range";
  return "ranked again: " + plans +
         " that the search kept; others may win sooner, --search-sensitivity "
         "looks for them";
}

std::string report::printSensitivity(const SensitivityPart &part, bool color) {
  if (part.rows.empty())
    return "";
  return heading("SENSITIVITY",
                 "the plan stays the fastest while a figure, moved alone, is "
                 "within",
                 color) +
         tableOfSensitivity(part).print() + "\n" +
         paragraph(rankedWords(part), 2, 2);
}

std::string report::roomyWords(const RoomyPlan &roomy, double stepSec) {
  if (roomy.headroom == 0)
    return "";
  std::string text =
      "with " + percent(roomy.headroom, 0) + " of the memory free: ";
  if (roomy.stepSec == 0)
    return text + "no plan found";
  if (roomy.isBest)
    return text + "this plan";
  return text + seconds(roomy.stepSec) + " (+" +
         percent(roomy.stepSec / stepSec - 1) + "), " + roomy.layout;
}

std::string report::printRoomy(const RoomyPlan &roomy, double stepSec) {
  std::string words = roomyWords(roomy, stepSec);
  return words.empty() ? "" : "\n  " + words + "\n";
}

static json::Value textOf(const std::string &text) {
  return json::Value::fromString(text);
}

json::Value report::jsonOf(const SensitivityPart &part) {
  json::Value rows = json::Value::makeArray();
  for (const SensitivityRow &row : part.rows) {
    json::Value line = json::Value::makeObject();
    line.set("name", textOf(row.name));
    line.set("value", numberOf(row.value));
    line.set("from", numberOf(row.from));
    line.set("to", numberOf(row.to));
    line.set("wins_below", textOf(row.below));
    line.set("wins_above", textOf(row.above));
    rows.array.push_back(std::move(line));
  }
  json::Value value = json::Value::makeObject();
  value.set("plans_ranked", json::Value::fromInteger(part.plans));
  value.set("searched", json::Value::fromBool(part.isSearched));
  value.set("figures", std::move(rows));
  return value;
}

json::Value report::jsonOf(const RoomyPlan &roomy) {
  json::Value value = json::Value::makeObject();
  value.set("headroom", numberOf(roomy.headroom));
  value.set("step_sec", numberOf(roomy.stepSec));
  value.set("layout", textOf(roomy.layout));
  value.set("is_best", json::Value::fromBool(roomy.isBest));
  return value;
}
