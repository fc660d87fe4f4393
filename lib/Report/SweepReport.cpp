//===- SweepReport.cpp - a sweep as a table and as JSON -------------------===//

#include "SweepTables.h"

#include "llvm/ADT/StringExtras.h"

using namespace kerf;
using namespace kerf::report;
using json::Value;

/// What is to be known of a point: "fewest, front".
static std::string remarkOf(const SweepPoint &point) {
  std::vector<std::string> remarks;
  if (point.fewest)
    remarks.push_back("fewest");
  if (point.pareto)
    remarks.push_back("front");
  if (point.cheapest)
    remarks.push_back("cheapest");
  else if (point.meets)
    remarks.push_back("in limits");
  if (point.noFasterThan > 0)
    remarks.push_back("no faster than " + grouped(point.noFasterThan));
  return llvm::join(remarks, ", ");
}

Table report::stepsTable(llvm::ArrayRef<SweepPoint> points) {
  Table table{
      "rlrrrw", 2, {{"devices", "step", "tokens/s", "MFU", "of ideal", ""}}};
  for (const SweepPoint &point : points) {
    std::string devices = grouped(point.devices);
    if (!point.fits) {
      table.rows.push_back({devices, "-", "-", "-", "-",
                            point.isBarred ? "not possible" : "does not fit"});
      continue;
    }
    table.rows.push_back({devices,
                          rangeWords(point.run.band, point.stepSec, seconds),
                          counted(point.run.tokensPerSec), percent(point.mfu),
                          percent(point.ofIdeal), remarkOf(point)});
  }
  return table;
}

std::string report::pricedAt(llvm::ArrayRef<SweepPoint> points) {
  const auto *found = llvm::find_if(points, [](const SweepPoint &point) {
    return point.fits && !point.run.currency.empty();
  });
  return found == points.end()
             ? ""
             : clean(found->run.currency) + " " + devicePriceWords(found->run);
}

Table report::runsTable(llvm::ArrayRef<SweepPoint> points) {
  std::string price = "price";
  for (const SweepPoint &point : points)
    if (!point.run.currency.empty())
      price = clean(point.run.currency);
  Table table{"rlrlr", 2, {}};
  for (const SweepPoint &point : points) {
    const RunPart &run = point.run;
    if (!point.fits)
      continue;
    table.rows.push_back(
        {grouped(point.devices), rangeWords(run.band, run.seconds, duration),
         amount(run.deviceHours),
         run.currency.empty() ? "-"
                              : rangeWords(run.band, run.price, moneyWords),
         run.joules > 0 ? scaled(run.joules / 3600, "Wh") : "-"});
  }
  if (!table.rows.empty())
    table.rows.insert(table.rows.begin(), {"devices", "time of the run",
                                           "dev-hours", price, "energy"});
  return table;
}

Table report::layoutsTable(llvm::ArrayRef<SweepPoint> points) {
  Table table{"rw", 2, {{"devices", "layout"}}};
  for (const SweepPoint &point : points) {
    std::string layout =
        point.fits ? point.layout : "none: " + clean(point.reason);
    if (point.spares > 0)
      layout += ", " + plural(point.spares, "spare");
    table.rows.push_back({grouped(point.devices), layout});
  }
  return table;
}

static std::string limitWords(const Sweep &sweep) {
  std::vector<std::string> words;
  if (sweep.limits.seconds > 0)
    words.push_back("within " + duration(sweep.limits.seconds));
  if (sweep.limits.price > 0)
    words.push_back(
        "for at most " + grouped(sweep.limits.price) +
        (sweep.currency.empty() ? "" : " " + clean(sweep.currency)));
  return llvm::join(words, " and ");
}

static std::string choiceWords(const SweepPoint &point) {
  std::string price = priceRange(point.run);
  return grouped(point.devices) + " of " + clean(point.machine) + ", " +
         rangeWords(point.run.band, point.run.seconds, duration) +
         (price.empty() ? "" : ", " + price);
}

std::string report::decisionWords(const Sweep &sweep) {
  if (!sweep.limits.any())
    return "";
  const SweepPoint *chosen = nullptr, *soonest = nullptr, *cheapest = nullptr;
  for (const SweepPoint &point : sweep.points) {
    if (point.cheapest)
      chosen = &point;
    if (point.fits && (!soonest || point.run.seconds < soonest->run.seconds))
      soonest = &point;
    if (point.fits && (!cheapest || point.run.price < cheapest->run.price))
      cheapest = &point;
  }
  std::string text = limitWords(sweep) + ": ";
  if (chosen)
    return text + choiceWords(*chosen);
  if (!soonest)
    return text + "none, for nothing fits";
  if (sweep.limits.price > 0 && sweep.currency.empty())
    return text + "none, for what fits has no price in one currency ('price' "
                  "in the cluster's description)";
  text += "none of this table at the upper end of its range";
  if (sweep.limits.seconds > 0)
    text += "; the soonest is " + choiceWords(*soonest);
  if (sweep.limits.price > 0)
    text += "; the cheapest is " + choiceWords(*cheapest);
  return text;
}

std::vector<llvm::ArrayRef<SweepPoint>> report::byMachine(const Sweep &sweep) {
  std::vector<llvm::ArrayRef<SweepPoint>> parts;
  llvm::ArrayRef<SweepPoint> rest = sweep.points;
  while (!rest.empty()) {
    const std::string &machine = rest.front().machine;
    parts.push_back(rest.take_while(
        [&](const SweepPoint &point) { return point.machine == machine; }));
    rest = rest.drop_front(parts.back().size());
  }
  return parts;
}

std::string report::sizeWords(const Sweep &sweep) {
  double tokens = static_cast<double>(sweep.batch) * sweep.sequence;
  return "steps of " + plural(sweep.batch, "sequence") + " of " +
         plural(sweep.sequence, "token") + " (" + counted(tokens) +
         "); a run of " + counted(sweep.tokens) + " tokens";
}

std::string report::columnWords() {
  return "in brackets: where a figure is expected; limits must hold at the "
         "upper end. fewest: the smallest number that fits. front: no other of "
         "this table ends sooner for less. of ideal: the part of a step that "
         "devices would need which run all matmuls at their best rate and "
         "never wait. dev-hours, price and energy are of the run.";
}

/// The table with an empty line behind it; nothing where nothing fits.
static std::string runText(llvm::ArrayRef<SweepPoint> points) {
  Table table = runsTable(points);
  return table.rows.empty() ? "" : table.print() + "\n";
}

std::string kerf::printText(const Sweep &sweep, bool color) {
  std::string text = clean(sweep.model) + ": " + sizeWords(sweep) + "\n";
  for (llvm::ArrayRef<SweepPoint> points : byMachine(sweep))
    text += heading(clean(points.front().machine), pricedAt(points), color) +
            stepsTable(points).print() + "\n" + runText(points) +
            layoutsTable(points).print();
  std::string decision = decisionWords(sweep);
  if (!decision.empty())
    text += paragraph("\n" + decision, 0, 0);
  return text + "\n" + paragraph(columnWords(), 0, 0);
}

std::string kerf::printJson(const Sweep &sweep) {
  Value value = Value::makeObject();
  value.set("version", Value::fromInteger(2));
  value.set("model", Value::fromString(sweep.model));
  value.set("tokens", numberOf(sweep.tokens));
  value.set("batch", Value::fromInteger(sweep.batch));
  value.set("sequence", Value::fromInteger(sweep.sequence));
  Value points = Value::makeArray();
  for (const SweepPoint &point : sweep.points) {
    Value row = Value::makeObject();
    row.set("machine", Value::fromString(point.machine));
    row.set("devices", Value::fromInteger(point.devices));
    row.set("fits", Value::fromBool(point.fits));
    if (point.fits) {
      row.set("layout", Value::fromString(point.layout));
      row.set("spares", Value::fromInteger(point.spares));
      row.set("step_sec", numberOf(point.stepSec));
      row.set("mfu", numberOf(point.mfu));
      row.set("of_ideal", numberOf(point.ofIdeal));
      row.set("run", jsonOf(point.run));
      row.set("fewest", Value::fromBool(point.fewest));
      row.set("pareto", Value::fromBool(point.pareto));
      row.set("error_band", numberOf(point.run.band.more));
      row.set("error_band_less", numberOf(point.run.band.less));
      row.set("meets_limits", Value::fromBool(point.meets));
      row.set("cheapest", Value::fromBool(point.cheapest));
      if (point.noFasterThan > 0)
        row.set("no_faster_than", Value::fromInteger(point.noFasterThan));
    } else {
      row.set("reason", Value::fromString(point.reason));
    }
    points.array.push_back(std::move(row));
  }
  value.set("points", std::move(points));
  return json::print(value) + "\n";
}
