//===- Compare.cpp - a program's exchanges beside those of its price ------===//
//
// A plan file says in `priced` which collectives its price counts
// (lib/Report/ExplainCollectives.cpp). Here they stand beside those of the
// compiled programs: kind by kind and axes by axes, what a rank sends in a
// step, as the mean of the stages.
//
//===----------------------------------------------------------------------===//

#include "kerf/ProgramTime/ProgramTime.h"
#include "kerf/Support/Json.h"

#include <map>

using namespace kerf;

namespace {
/// By kind and axes.
using Rows = std::map<std::pair<std::string, std::string>, ExchangeRow>;
} // namespace

static ExchangeRow &rowOf(Rows &rows, const std::string &kind,
                          const std::string &axes) {
  ExchangeRow &row = rows[{kind, axes}];
  row.kind = kind;
  row.axes = axes;
  return row;
}

static void addSent(const ProgramTime &time, Rows &rows) {
  double part = 1 / double(time.stages.size());
  for (const StageTime &stage : time.stages) {
    for (const CollectiveTime &own : stage.collectives) {
      ExchangeRow &row = rowOf(rows, own.kind, own.axes);
      row.calls += part * double(own.calls);
      row.bytes += part * own.bytes;
      row.sec += part * own.sec;
      row.exposedSec += part * own.exposedSec;
    }
    for (const MessageTime &own : stage.messages) {
      ExchangeRow &row = rowOf(rows, "message", own.channel);
      row.calls += part * double(own.calls);
      row.bytes += part * own.bytes;
      row.sec += part * own.sec;
      row.exposedSec += part * own.exposedSec;
    }
  }
}

static double numberIn(const json::Value &value, llvm::StringRef key) {
  const json::Value *found = value.find(key);
  return found ? found->number : 0;
}

static std::string textIn(const json::Value &value, llvm::StringRef key) {
  const json::Value *found = value.find(key);
  return found ? found->string : "";
}

static void addPlanned(const json::Value &priced, Rows &rows) {
  const json::Value *list = priced.find("collectives");
  if (!list)
    return;
  for (const json::Value &own : list->array) {
    ExchangeRow &row = rowOf(rows, textIn(own, "kind"), textIn(own, "axes"));
    row.plannedCalls += numberIn(own, "calls");
    row.plannedBytes += numberIn(own, "bytes");
    row.plannedSec += numberIn(own, "sec");
  }
}

/// The plan's price in the file, if it has one.
static std::optional<json::Value> pricedOf(const ArtifactData &data) {
  auto plan =
      json::parse(data.plan, [](json::Position, const llvm::Twine &) {});
  const json::Value *priced = failed(plan) ? nullptr : plan->find("priced");
  return priced ? std::optional(*priced) : std::nullopt;
}

Machine kerf::machineOf(const ArtifactData &data, const Machine &machine) {
  double perUnit = 0;
  std::optional<json::Value> priced = pricedOf(data);
  if (priced && textIn(*priced, "cluster") == machine.name)
    perUnit = numberIn(*priced, "per_unit");
  bool isKnown = perUnit >= 1 && !machine.tiers.empty() &&
                 perUnit <= double(machine.tiers.front().size);
  return machine.withDevicesSpread(data.meta.world_size,
                                   isKnown ? static_cast<int64_t>(perUnit) : 0);
}

Comparison kerf::compareWithPlan(const ArtifactData &data,
                                 const ProgramTime &time) {
  Comparison result;
  Rows rows;
  addSent(time, rows);
  if (std::optional<json::Value> priced = pricedOf(data)) {
    addPlanned(*priced, rows);
    result.planned = {textIn(*priced, "cluster"),
                      numberIn(*priced, "step_sec")};
  }
  for (auto &[key, row] : rows)
    result.rows.push_back(std::move(row));
  return result;
}
