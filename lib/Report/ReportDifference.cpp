//===- ReportDifference.cpp - two plans side by side ----------------------===//

#include "kerf/Report/ExplainDetail.h"

#include "kerf/Report/Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::report;
using json::Value;

static std::string orderWords(const OuterChoice &outer) {
  std::string text;
  for (MeshAxis axis : outer.order)
    text += (text.empty() ? "" : ", ") +
            std::string(explain_detail::axisName(axis));
  return text;
}

/// All stages in one cell: "0: embedding, 4 x layer, recomputed: gelu; 1-3:
/// ...": equal stages that follow each other together.
static std::string stagesCell(const PlanPart &plan) {
  std::vector<std::string> texts;
  for (size_t first = 0; first < plan.stages.size();) {
    const StageRow &row = plan.stages[first];
    size_t last = first;
    while (last + 1 < plan.stages.size() &&
           plan.stages[last + 1].layers == row.layers &&
           plan.stages[last + 1].recompute == row.recompute)
      ++last;
    texts.push_back(std::to_string(first) +
                    (last > first ? "-" + std::to_string(last) : "") + ": " +
                    row.layers + ", recomputed: " + row.recompute);
    first = last + 1;
  }
  return llvm::join(texts, "; ");
}

static std::string layoutCell(const KindRow &kind) {
  std::string text;
  for (const LayoutWords &words : kind.layout) {
    text += (text.empty() ? "" : "; ") + words.axis + ": " + words.words;
    for (const std::string &op : words.ops)
      text += " " + op;
  }
  return text.empty() ? "-" : text;
}

static void addDecisions(PlanDifference &result, const PlanPart &a,
                         const PlanPart &b) {
  auto add = [&](std::string what, std::string left, std::string right) {
    if (left != right)
      result.decisions.push_back(
          {std::move(what), std::move(left), std::move(right)});
  };
  auto number = [&](const char *what, int64_t left, int64_t right) {
    add(what, std::to_string(left), std::to_string(right));
  };
  add("model", a.model, b.model);
  add("cluster", a.cluster, b.cluster);
  number("devices", a.devices, b.devices);
  number("sequences of a step", a.batch, b.batch);
  number("tokens of a sequence", a.sequence, b.sequence);
  add("type", a.type, b.type);
  number("tensor", a.outer.tp, b.outer.tp);
  number("context", a.outer.cp, b.outer.cp);
  number("expert", a.outer.ep, b.outer.ep);
  number("data", a.outer.dp, b.outer.dp);
  number("pipeline", a.outer.pp, b.outer.pp);
  add("order, innermost first", orderWords(a.outer), orderWords(b.outer));
  number("micro-batches", a.outer.microBatches, b.outer.microBatches);
  number("micro-batch", a.outer.microBatch, b.outer.microBatch);
  add("schedule", nameOf(a.outer.schedule).str(),
      nameOf(b.outer.schedule).str());
  number("chunks", a.outer.chunks, b.outer.chunks);
  number("micro-batches deferred", a.outer.mostDeferred(),
         b.outer.mostDeferred());
  add("state", a.state, b.state);
  add("stages", stagesCell(a), stagesCell(b));
  for (size_t i = 0; i < std::min(a.kinds.size(), b.kinds.size()); ++i)
    add(a.kinds[i].name, layoutCell(a.kinds[i]), layoutCell(b.kinds[i]));
}

static double exposedOf(const TimePart &time, llvm::StringRef axis) {
  for (const TrafficRow &row : time.traffic)
    if (row.axis == axis)
      return row.exposedSec;
  return 0;
}

static void addQuantities(PlanDifference &result, const Explanation &a,
                          const Explanation &b) {
  const TimePart &x = a.time, &y = b.time;
  result.time = {
      {"one step", x.stepSec, y.stepSec},
      {"matmul", x.matmulSec, y.matmulSec},
      {"attention", x.attentionSec, y.attentionSec},
      {"memory-bound kernels", x.rowSec, y.rowSec},
      {"launch gaps", x.launchSec, y.launchSec},
      {"recomputation", x.recomputeSec, y.recomputeSec},
      {"optimizer", x.optimizerSec, y.optimizerSec},
  };
  for (const char *axis :
       {"tensor", "context", "expert", "data", kTiedWeights.data(), "pipeline"})
    result.time.push_back({std::string(axis) + " traffic, exposed",
                           exposedOf(x, axis), exposedOf(y, axis)});
  result.time.push_back({"pipeline bubble", x.bubbleSec, y.bubbleSec});
  result.time.push_back({"stage imbalance", x.imbalanceSec, y.imbalanceSec});
  result.time.push_back({"fixed, per step", x.constantSec, y.constantSec});
  const StageMemory &m = a.memory.stages[a.memory.tightest];
  const StageMemory &n = b.memory.stages[b.memory.tightest];
  result.memory = {{"total", m.total(), n.total()},
                   {"weights", m.weights, n.weights},
                   {"masters", m.masters, n.masters},
                   {"gradients", m.gradients, n.gradients},
                   {"optimizer", m.optimizer, n.optimizer},
                   {"activations", m.activations, n.activations},
                   {"temporary", m.temporaries, n.temporaries},
                   {"buffers", m.communication, n.communication},
                   {"reserved", m.reserved, n.reserved}};
  result.rates = {
      {"MFU (%)", 100 * x.mfu, 100 * y.mfu},
      {"HFU (%)", 100 * x.hfu, 100 * y.hfu},
      {"tokens per second", a.run.tokensPerSec, b.run.tokensPerSec}};
  if (a.run.ends() && b.run.ends())
    result.rates.push_back(
        {"device-hours of the run", a.run.deviceHours, b.run.deviceHours});
}

PlanDifference kerf::difference(const Explanation &a, const Explanation &b) {
  PlanDifference result;
  addDecisions(result, a.plan, b.plan);
  addQuantities(result, a, b);
  return result;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static std::string printDecisions(const PlanDifference &difference) {
  if (difference.decisions.empty())
    return "  the same decisions\n";
  Table table{"llw", 2, {{"", "A", "B"}}};
  std::string text;
  for (const DecisionRow &row : difference.decisions) {
    if (row.a.size() + row.b.size() <= 70) {
      table.rows.push_back({clean(row.what), clean(row.a), clean(row.b)});
      continue;
    }
    // Long cells stand below each other.
    text += "\n  " + clean(row.what) + "\n" +
            paragraph("A  " + clean(row.a), 4, 7) +
            paragraph("B  " + clean(row.b), 4, 7);
  }
  return (table.rows.size() > 1 ? table.print() : "") + text;
}

/// Rows that are zero in both plans are left out.
template <typename Fn>
static std::string printQuantities(llvm::ArrayRef<QuantityRow> rows, Fn text) {
  Table table{"lrrrr", 2, {{"", "A", "B", "B - A", ""}}};
  double least = 1e-9 * std::max(rows.front().a, rows.front().b); // rounding
  for (const QuantityRow &row : rows) {
    if (row.a <= least && row.b <= least)
      continue;
    double delta = row.b - row.a;
    if (std::fabs(delta) < 1e-9 * std::max(row.a, row.b))
      delta = 0; // rounding
    std::string sign = delta > 0 ? "+" : delta < 0 ? "-" : "";
    std::string part =
        row.a > least ? sign + percent(std::fabs(delta) / row.a) : "";
    table.rows.push_back({row.what, text(row.a), text(row.b),
                          delta == 0 ? "=" : sign + text(std::fabs(delta)),
                          delta == 0 ? "" : part});
  }
  return table.print();
}

std::string kerf::printText(const PlanDifference &difference,
                            llvm::StringRef nameA, llvm::StringRef nameB,
                            bool color) {
  std::string text = "A  " + clean(nameA) + "\nB  " + clean(nameB) + "\n";
  text +=
      heading("DECISIONS", "that differ", color) + printDecisions(difference);
  text += heading("TIME", "predicted, one step", color) +
          printQuantities(difference.time, seconds);
  text += heading("MEMORY", "of the tightest stage", color) +
          printQuantities(difference.memory, gib);
  text +=
      heading("RATES", "", color) + printQuantities(difference.rates, amount);
  return text;
}

static Value jsonRows(llvm::ArrayRef<QuantityRow> rows) {
  Value list = Value::makeArray();
  for (const QuantityRow &row : rows) {
    Value value = Value::makeObject();
    value.set("what", Value::fromString(row.what));
    value.set("a", numberOf(row.a));
    value.set("b", numberOf(row.b));
    value.set("delta", numberOf(row.b - row.a));
    list.array.push_back(std::move(value));
  }
  return list;
}

std::string kerf::printJson(const PlanDifference &difference) {
  Value value = Value::makeObject();
  value.set("version", Value::fromInteger(1));
  Value decisions = Value::makeArray();
  for (const DecisionRow &row : difference.decisions) {
    Value line = Value::makeObject();
    line.set("what", Value::fromString(row.what));
    line.set("a", Value::fromString(row.a));
    line.set("b", Value::fromString(row.b));
    decisions.array.push_back(std::move(line));
  }
  value.set("decisions", std::move(decisions));
  value.set("time_sec", jsonRows(difference.time));
  value.set("memory_bytes", jsonRows(difference.memory));
  value.set("rates", jsonRows(difference.rates));
  return json::print(value) + "\n";
}
