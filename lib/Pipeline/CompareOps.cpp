//===- CompareOps.cpp - measured ops beside foretold ones -----------------===//
//
// A step may come out right by luck: half of its ops too fast, half too slow.
// So each op has a row of its own, all its layers, micro-batches and chunks
// together. What is common to a class (all matmuls are 30 % slower) is a
// matter of the cluster's description; what one op has beyond that is its own.
//
//===----------------------------------------------------------------------===//

#include "CompareOps.h"

#include "kerf/Support/Screen.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <cmath>
#include <map>
#include <tuple>

using namespace kerf;
using namespace kerf::report;
using namespace kerf::trace;

namespace {
enum class Class { Matmul, Attention, Memory, Update, Exchange };
constexpr size_t kClasses = 5;
constexpr const char *kClassNames[kClasses] = {
    "matmuls", "attention", "memory-bound kernels", "update", "exchanges"};
/// Where a cluster's description has what all of a class shares.
constexpr const char *kFields[kClasses] = {
    "efficiency: {matmul}", "efficiency: {attention}", "efficiency: {memory}",
    "efficiency: {memory}", "efficiency: {network}"};

/// Stage, call, command, op.
using Key = std::tuple<int64_t, std::string, std::string, std::string>;

/// Of one rank in one step; seconds.
struct OpRow {
  Class kind = Class::Memory;
  int64_t calls = 0;
  double foretold = 0, measured = 0;
  double more() const { return measured - foretold; }
};
} // namespace

static Class classOf(llvm::StringRef call, llvm::StringRef name,
                     bool isExchange) {
  if (isExchange)
    return Class::Exchange;
  if (call == "update")
    return Class::Update;
  if (name.contains("attention"))
    return Class::Attention;
  return name.contains("matmul") ? Class::Matmul : Class::Memory;
}

/// What the file is foretold to take; commands that only exist in a run have no
/// row.
static std::map<Key, OpRow> foretoldRows(const ProgramTime &time) {
  std::map<Key, OpRow> rows;
  for (auto [stage, own] : llvm::enumerate(time.stages))
    for (const OpTime &op : own.opTimes) {
      OpRow &row = rows[{int64_t(stage), op.call, op.name, op.op}];
      row.kind = classOf(op.call, op.name, op.isExchange);
      row.calls += op.calls;
      row.foretold += op.sec;
    }
  return rows;
}

/// Adds the median over ranks and steps of what an op took.
static void addMeasured(const File &file, const std::set<int64_t> &steps,
                        std::map<Key, OpRow> &rows) {
  std::map<Key, std::map<std::pair<int64_t, int64_t>, double>> sums;
  for (const OpEvent &event : file.ops)
    if (steps.count(event.step))
      sums[{file.stageOf.at(event.pid), event.call, event.name, event.op}]
          [{event.pid, event.step}] += event.seconds;
  for (const auto &[key, byRank] : sums) {
    auto row = rows.find(key);
    if (row == rows.end())
      continue;
    std::vector<double> all;
    for (const auto &[rank, sec] : byRank)
      all.push_back(sec);
    auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    row->second.measured = *middle;
  }
}

static std::string errorWords(double foretold, double measured) {
  if (foretold <= 0)
    return "-";
  double part = 100 * (measured / foretold - 1);
  return (part >= 0 ? "+" : "-") + fixed(std::abs(part), 0) + " %";
}

static std::string moreWords(double sec) {
  return (sec >= 0 ? "+" : "-") + seconds(std::abs(sec));
}

/// Why an op takes another time than foretold, as far as the numbers say.
static std::string causeOf(const OpRow &row, double ofClass) {
  constexpr double kShort = 30e-6; // a kernel so short is mostly its start
  constexpr double kAlike = 0.2;
  double ratio = row.foretold > 0 ? row.measured / row.foretold : HUGE_VAL;
  if (row.measured == 0)
    return "not in the run: the file is another one, or the op joined another";
  if (row.kind == Class::Exchange)
    return ratio > 1 ? "waits for other ranks, or slower links"
                     : "faster links than described";
  if (row.foretold / double(row.calls) < kShort && ratio > 1 + kAlike)
    return "short kernels: starting one takes longer ('launch')";
  std::string all = row.kind == Class::Update ? "as the whole " : "as all ";
  if (std::abs(ratio / ofClass - 1) < kAlike)
    return all + kClassNames[size_t(row.kind)] + " ('" +
           kFields[size_t(row.kind)] + "')";
  return std::string("this shape, beside the others of its class: ") +
         (ratio > ofClass ? "slower" : "faster");
}

static std::string opWords(const Key &key, bool hasStages) {
  const auto &[stage, call, name, op] = key;
  std::string text = clean(name) + (op.empty() ? "" : " " + clean(op));
  return hasStages ? text + ", stage " + std::to_string(stage) : text;
}

/// Classes of the mean stage.
static std::array<OpRow, kClasses> sumClasses(const std::map<Key, OpRow> &rows,
                                              double stages) {
  std::array<OpRow, kClasses> sums;
  for (const auto &[key, row] : rows) {
    OpRow &sum = sums[size_t(row.kind)];
    sum.calls += row.calls;
    sum.foretold += row.foretold / stages;
    sum.measured += row.measured / stages;
  }
  return sums;
}

void trace::printOps(const File &measured, const std::set<int64_t> &steps,
                     const ProgramTime &foretold) {
  constexpr size_t kMost = 12;
  std::map<Key, OpRow> rows = foretoldRows(foretold);
  addMeasured(measured, steps, rows);
  auto sums = sumClasses(rows, double(foretold.stages.size()));
  Table classes{"lrrrr",
                2,
                {{"a rank's step, mean of the stages", "predicted", "measured",
                  "error", "per step"}}};
  for (auto [i, sum] : llvm::enumerate(sums))
    if (sum.calls > 0)
      classes.rows.push_back(
          {kClassNames[i], seconds(sum.foretold), seconds(sum.measured),
           errorWords(sum.foretold, sum.measured), moreWords(sum.more())});
  std::vector<std::pair<Key, OpRow>> order(rows.begin(), rows.end());
  llvm::sort(order, [](const auto &a, const auto &b) {
    double more = std::abs(a.second.more()), other = std::abs(b.second.more());
    return more != other ? more > other : a.first < b.first;
  });
  Table ops{"llrrrrlw",
            2,
            {{"op", "in", "calls", "predicted", "measured", "error",
              "likely cause"}}};
  for (const auto &[key, row] : order) {
    if (ops.rows.size() > kMost)
      break;
    const OpRow &sum = sums[size_t(row.kind)];
    double ofClass = sum.foretold > 0 ? sum.measured / sum.foretold : 1;
    ops.rows.push_back(
        {opWords(key, foretold.stages.size() > 1), std::get<1>(key),
         grouped(row.calls), seconds(row.foretold), seconds(row.measured),
         errorWords(row.foretold, row.measured), causeOf(row, ofClass)});
  }
  llvm::outs()
      << '\n'
      << classes.print() << "\nops that differ most, of all "
      << "layers and micro-batches in a step of a rank\n"
      << ops.print()
      << "\nops are called as in a plan (--emit=plan says which weight "
         "and line each one is)\n";
}
