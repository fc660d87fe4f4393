//===- ReportText.cpp - the screen of --explain=full ----------------------===//

#include "kerf/Report/Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::report;

//===----------------------------------------------------------------------===//
// Head and plan
//===----------------------------------------------------------------------===//

std::string report::printTitle(const PlanPart &plan) {
  std::string text =
      clean(plan.model) + " on " + clean(plan.cluster) + ": " +
      grouped(plan.devices) + " x " + clean(plan.device) + ", " + plan.type +
      (plan.typeNote.empty() ? "" : " (" + plan.typeNote + ")") + "\n";
  double tokens = static_cast<double>(plan.batch) * plan.sequence;
  return text + counted(plan.parameters) + " parameters; a step has " +
         plural(plan.batch, "sequence") + " of " +
         plural(plan.sequence, "token") + ", " + counted(tokens) +
         " together\n";
}

static std::string printHead(const Explanation &e) {
  size_t stage = e.memory.tightest;
  std::string memory =
      gib(e.memory.stages[stage].total()) + " of " + gib(e.memory.capacity);
  return printTitle(e.plan) + "\n  step " +
         rangeWords(e.trust.band, e.time.stepSec, seconds) + "   " +
         counted(e.run.tokensPerSec) + " tokens/s   MFU " +
         percent(e.time.mfu) + "   memory " + memory +
         (e.memory.stages.size() > 1 ? " on stage " + std::to_string(stage)
                                     : "") +
         "\n";
}

std::string report::batchWords(const OuterChoice &outer) {
  std::string text = plural(outer.microBatches, "micro-batch");
  if (outer.microBatches != 1)
    text.insert(text.size() - 1, "e");
  text += " of " + plural(outer.microBatch, "sequence") + " per data rank";
  if (outer.pp > 1)
    text += ", schedule " + nameOf(outer.schedule).str();
  if (outer.pp > 1 && outer.chunks > 1)
    text += " with " + std::to_string(outer.chunks) + " chunks per stage";
  if (outer.defer >= 0)
    text +=
        " deferring weight gradients of " +
        (outer.defer == 0   ? "no micro-batch"
         : outer.defer == 1 ? "1 micro-batch"
                            : std::to_string(outer.defer) + " micro-batches");
  return text;
}

/// Rows that only differ in their first cell (a number) become one: "1-6".
static void mergeRows(std::vector<std::vector<std::string>> &rows) {
  std::vector<std::vector<std::string>> merged;
  std::vector<std::string> first;
  for (auto &row : rows) {
    bool same =
        !merged.empty() && llvm::ArrayRef(row).drop_front() ==
                               llvm::ArrayRef(merged.back()).drop_front();
    if (!same) {
      first.push_back(row[0]);
      merged.push_back(row);
    } else {
      merged.back()[0] = first.back() + "-" + row[0];
    }
  }
  rows = std::move(merged);
}

std::string report::rankWords(const StageRanks &ranks, int64_t stages) {
  int64_t together = stages * ranks.size;
  auto block = [&](int64_t first) {
    std::string text = std::to_string(first);
    return together == 1 ? text
                         : text + "-" + std::to_string(first + together - 1);
  };
  std::string text = block(ranks.first);
  if (ranks.blocks > 1)
    text += ", " + block(ranks.first + ranks.period);
  if (ranks.blocks > 2)
    text += ", ...";
  std::string each = std::to_string(ranks.size);
  if (stages > 1)
    each += " per stage";
  if (ranks.blocks > 1)
    each += " of each " + std::to_string(ranks.period);
  return stages > 1 || ranks.blocks > 1 ? text + " (" + each + ")" : text;
}

/// Stages that follow each other with equal layers and points share a row.
Table report::tableOfStages(const PlanPart &plan) {
  Table table{
      "lwww",
      2,
      {{"stage", "ranks", "layers", "recomputed in the backward pass"}}};
  for (size_t first = 0; first < plan.stages.size();) {
    const StageRow &row = plan.stages[first];
    size_t last = first;
    while (last + 1 < plan.stages.size() &&
           plan.stages[last + 1].layers == row.layers &&
           plan.stages[last + 1].recompute == row.recompute)
      ++last;
    std::string number = std::to_string(first);
    if (last > first)
      number += "-" + std::to_string(last);
    table.rows.push_back(
        {number, rankWords(row.ranks, static_cast<int64_t>(last - first + 1)),
         row.layers, row.recompute});
    first = last + 1;
  }
  return table;
}

Table report::tableOfKinds(const PlanPart &plan) {
  Table table{"wlww", 2, {}};
  for (const KindRow &kind : plan.kinds) {
    std::string name = clean(kind.name);
    if (kind.count > 1)
      name += " (x " + std::to_string(kind.count) + ")";
    std::string axis;
    for (const LayoutWords &words : kind.layout) {
      table.rows.push_back({name, words.axis == axis ? "" : words.axis,
                            words.words, llvm::join(words.ops, ", ")});
      axis = words.axis;
      name.clear();
    }
  }
  return table;
}

Table report::tableOfPrecision(const PlanPart &plan) {
  Table table{"llww", 2, {}};
  for (const KindRow &kind : plan.kinds) {
    std::string name = clean(kind.name);
    for (const PrecisionWords &words : kind.precision) {
      table.rows.push_back(
          {name, words.type, llvm::join(words.ops, ", "), words.why});
      name.clear();
    }
  }
  return table;
}

std::vector<std::string> report::placementWords(const PlanPart &plan) {
  std::vector<std::string> lines;
  if (plan.holdsAllExperts)
    lines.push_back("ep=" + std::to_string(plan.outer.ep) +
                    " is data parallelism here: each of these ranks has all "
                    "experts");
  if (plan.spares > 0)
    lines.push_back(plural(plan.spares, "device") + " of " +
                    grouped(plan.devices) + " without work (spares)");
  if (plan.perUnit > 0)
    lines.push_back("place " + plural(plan.perUnit, "rank") + " in each " +
                    clean(plan.unit) + " unit: ranks are numbered so");
  if (plan.filledSec > 0)
    lines.push_back("because the best step found on units that are filled one "
                    "after the other takes " +
                    seconds(plan.filledSec));
  return lines;
}

Table report::tableOfAxes(const PlanPart &plan) {
  Table axes{"lrrlw", 2, {{"axis", "size", "stride", "over", "carries"}}};
  for (const AxisRow &row : plan.axes)
    axes.rows.push_back({row.name, std::to_string(row.group.size),
                         std::to_string(row.group.stride), clean(row.tier),
                         row.carries});
  return axes;
}

std::string report::layoutOf(const PlanPart &plan) {
  OuterChoice named = plan.outer;
  if (plan.holdsAllExperts)
    named.ep = 1;
  return shortLayout(named);
}

static std::string printPlan(const PlanPart &plan, bool color) {
  std::string text = heading("PLAN", layoutOf(plan), color);
  text += "  " + batchWords(plan.outer) + "\n  " + plan.state + "\n";
  for (const std::string &line : placementWords(plan))
    text += "  " + line + "\n";
  if (!plan.axes.empty())
    text += "\n" + tableOfAxes(plan).print();
  text += "\n" + tableOfStages(plan).print();
  Table kinds = tableOfKinds(plan), precision = tableOfPrecision(plan);
  if (!kinds.rows.empty())
    text += "\n" + kinds.print();
  if (!precision.rows.empty())
    text += "\n  number types of matmuls, forward pass and gradients\n" +
            precision.print();
  for (const std::string &warning : {idleWarning(plan), idlePinsWarning(plan)})
    if (!warning.empty())
      text += "\n" + paragraph(warning, 2, 4);
  return text;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// What the reserve is for, where that is stated.
static std::string printReserve(const Reserve &reserve, bool small) {
  if (reserve.context + reserve.libraries + reserve.connection == 0)
    return "";
  auto cell = [&](double bytes) {
    return fixed(bytes / (small ? 1 << 20 : 1 << 30), 1);
  };
  std::string text = "\n  reserved: context and code " + cell(reserve.context) +
                     ", libraries " + cell(reserve.libraries);
  double others = reserve.fixed - reserve.context - reserve.libraries;
  if (others > 0)
    text += ", others " + cell(others);
  if (reserve.connections > 0)
    text += ", " + plural(reserve.connections, "connection") + " to others " +
            cell(double(reserve.connections) * reserve.connection);
  return text + "\n";
}

/// What of the gradients is not in their column.
static std::string printTransit(const MemoryPart &memory, bool small) {
  const StageMemory &stage = memory.stages[memory.tightest];
  if (stage.transit < 1e-3 * stage.total())
    return "";
  std::string where = memory.stages.size() > 1
                          ? " on stage " + std::to_string(memory.tightest)
                          : "";
  return "\n" +
         paragraph("of temporary, " +
                       fixed(stage.transit / (small ? 1 << 20 : 1 << 30), 1) +
                       where +
                       " are gradients on their way between ranks, or stored "
                       "otherwise than their weights",
                   2, 2);
}

/// "[1, 4096, 32064] x 2 B".
static std::string shapeWords(const BufferRow &buffer) {
  std::vector<std::string> sizes;
  for (int64_t size : buffer.shape)
    sizes.push_back(std::to_string(size));
  return "[" + llvm::join(sizes, ", ") + "] x " +
         std::to_string(static_cast<int64_t>(buffer.elementBytes)) + " B";
}

static std::string sizeWords(double bytes) {
  if (bytes < (1 << 20))
    return fixed(bytes / (1 << 10), 1) + " KiB";
  return bytes < (1 << 30) ? fixed(bytes / (1 << 20), 1) + " MiB" : gib(bytes);
}

static std::string wholeWords(const BufferRow &buffer) {
  return buffer.wholeOver.empty()
             ? ""
             : "not split by " + llvm::join(buffer.wholeOver, ", ");
}

/// "smaller with --pin=cp=2 or --pin=tp=8; a rule for 'forward 6 0' in a plan
/// by hand may split it by tensor"; "" where nothing is known.
static std::string reliefWords(const BufferRow &buffer) {
  std::string pins, text;
  for (const std::string &pin : buffer.pins)
    pins += (pins.empty() ? "" : " or ") + ("--pin=" + pin);
  if (!pins.empty())
    text = "smaller with " + pins;
  if (!buffer.rule.empty())
    text += (text.empty() ? "" : "; ") +
            ("a rule for '" + buffer.rule +
             "' in a plan by hand may split it by ") +
            llvm::join(buffer.wholeOver, ", ");
  return text;
}

std::string report::bufferWords(const BufferRow &buffer) {
  std::string text = "'" + clean(buffer.op) + "' of " + clean(buffer.layer);
  if (!buffer.place.empty())
    text += " at " + clean(buffer.place);
  text += ", " + shapeWords(buffer) + ", " + sizeWords(buffer.bytes) +
          " of a micro-batch on a rank";
  for (const std::string &more : {wholeWords(buffer), reliefWords(buffer)})
    text += more.empty() ? "" : "; " + more;
  return text;
}

/// "3", "0-15": the stages that a buffer is on.
static std::string stageRanges(llvm::ArrayRef<int64_t> stages) {
  std::string text;
  for (size_t i = 0; i < stages.size();) {
    size_t end = i + 1;
    while (end < stages.size() && stages[end] == stages[end - 1] + 1)
      ++end;
    text += (text.empty() ? "" : ",") + std::to_string(stages[i]) +
            (end > i + 1 ? "-" + std::to_string(stages[end - 1]) : "");
    i = end;
  }
  return text;
}

Table report::tableOfBuffers(llvm::ArrayRef<BufferRow> rows) {
  Table table{"rllwllw", 2, {}};
  for (const BufferRow &row : rows)
    table.rows.push_back({sizeWords(row.bytes), clean(row.layer),
                          stageRanges(row.stages), clean(row.op),
                          clean(row.place), shapeWords(row), wholeWords(row)});
  return table;
}

static std::string printBuffers(llvm::ArrayRef<BufferRow> rows) {
  if (rows.empty())
    return "";
  std::string relief = reliefWords(rows.front());
  Table table = tableOfBuffers(rows);
  table.rows.insert(table.rows.begin(),
                    {"size", "layer", "stage", "made by", "at", "shape", ""});
  return "\n  largest buffers of one micro-batch on a rank\n" + table.print() +
         (relief.empty() ? "" : "  the first: " + relief + "\n");
}

static std::string printMemory(const MemoryPart &memory, bool color) {
  double largest = 0;
  for (const StageMemory &stage : memory.stages)
    largest = std::max(largest, stage.total() - stage.reserved);
  bool small = largest < (1 << 30);
  auto cell = [&](double bytes) {
    return fixed(bytes / (small ? 1 << 20 : 1 << 30), 1);
  };
  Table table{"lrrrrrrrrrr", 2, {}};
  for (auto [i, stage] : llvm::enumerate(memory.stages))
    table.rows.push_back(
        {std::to_string(i), cell(stage.weights), cell(stage.masters),
         cell(stage.gradients), cell(stage.optimizer), cell(stage.activations),
         cell(stage.temporaries), cell(stage.communication),
         cell(stage.reserved), cell(stage.total()), cell(memory.headroom(i))});
  mergeRows(table.rows);
  table.rows.insert(table.rows.begin(),
                    {"stage", "weights", "masters", "gradients", "optimizer",
                     "activations", "temporary", "buffers", "reserved", "total",
                     "headroom"});
  return heading("MEMORY",
                 std::string(small ? "MiB" : "GiB") +
                     " on each stage's most loaded rank, of " +
                     gib(memory.capacity),
                 color) +
         table.print() + printTransit(memory, small) +
         printReserve(memory.reserve, small) + printBuffers(memory.buffers);
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

std::array<std::vector<TimeLine>, 3> report::timeLines(const TimePart &time) {
  std::array<std::vector<TimeLine>, 3> groups;
  groups[0] = {{"matmul", time.matmulSec, ""},
               {"attention", time.attentionSec, ""},
               {"memory-bound kernels", time.rowSec, ""},
               {"launch gaps", time.launchSec, ""},
               {"recomputation", time.recomputeSec, ""},
               {"optimizer", time.optimizerSec, ""}};
  for (const TrafficRow &row : time.traffic) {
    double hidden = row.totalSec - row.exposedSec;
    groups[1].push_back({row.axis + ", " + row.tier, row.exposedSec,
                         seconds(row.totalSec) + " on the links, " +
                             (hidden > 1e-9 ? seconds(hidden) : "none") +
                             " hidden"});
  }
  groups[2] = {{"pipeline bubble", time.bubbleSec, ""},
               {"stage imbalance", time.imbalanceSec, ""}};
  if (time.constantSec > 0)
    groups[2].push_back({"fixed, per step", time.constantSec, ""});
  return groups;
}

static std::string bar(int64_t tenths) {
  return std::string((tenths + 12) / 25, '#'); // one per 2.5 %
}

std::array<std::vector<int64_t>, 3>
report::timeShares(const std::array<std::vector<TimeLine>, 3> &groups) {
  std::vector<double> parts;
  for (const auto &group : groups)
    for (const TimeLine &line : group)
      parts.push_back(line.sec);
  std::vector<int64_t> all = tenths(parts);
  std::array<std::vector<int64_t>, 3> shares;
  size_t next = 0;
  for (auto [group, own] : llvm::zip(groups, shares))
    for (size_t i = 0; i < group.size(); ++i)
      own.push_back(all[next++]);
  return shares;
}

std::string report::tenthsWords(int64_t tenths) {
  return fixed(static_cast<double>(tenths) / 10, 1) + " %";
}

static std::string printShares(const TimePart &time) {
  constexpr const char *titles[] = {"compute", "communication, exposed",
                                    "coordination"};
  auto groups = timeLines(time);
  Table table{"lrrlw", 2, {}};
  for (auto [title, group, shares] :
       llvm::zip(titles, groups, timeShares(groups))) {
    double sum = 0;
    int64_t all = 0;
    std::vector<std::vector<std::string>> rows;
    for (auto [line, share] : llvm::zip(group, shares)) {
      sum += line.sec;
      all += share;
      if (line.sec > 1e-9 * time.stepSec)
        rows.push_back({"  " + line.name, seconds(line.sec), tenthsWords(share),
                        bar(share), line.remark});
    }
    table.rows.push_back({title, seconds(sum), tenthsWords(all), "", ""});
    llvm::append_range(table.rows, rows);
  }
  table.rows.push_back({"one step", seconds(time.stepSec), "100.0 %", "", ""});
  return table.print();
}

/// What a roof is, as the subject of a sentence.
static std::string roofWords(llvm::StringRef name) {
  if (name == "compute")
    return "compute (matmuls and attention)";
  if (name == "memory")
    return "memory bandwidth";
  if (name == "network")
    return "the network";
  if (name == "launches")
    return "kernel launches";
  return "the pipeline (bubble and imbalance)";
}

/// What the closed form leaves out, and whether that is much.
static std::string closedWords(const TimePart &time) {
  constexpr double kMuch = 0.02;
  double apart = 1 - time.closedFormSec / time.stepSec;
  std::string text =
      std::abs(apart) < 5e-4
          ? "as long as the step"
          : percent(std::abs(apart)) +
                (apart < 0 ? " above the step" : " below the step");
  if (apart <= kMuch)
    return text;
  return "warning: " + text +
         "; the rest are waits that stages pass on to each other";
}

static std::string printRatios(const Explanation &e) {
  const TimePart &time = e.time;
  auto line = [](const std::string &name, const std::string &text) {
    size_t at = 30;
    std::string result = "  " + name;
    result.resize(at, ' ');
    return result + paragraph(text, 0, at);
  };
  std::string text = "\n";
  text += line(
      "MFU " + percent(time.mfu),
      scaled(time.modelFlops, "FLOP") + " / (" + seconds(time.stepSec) + " x " +
          scaled(time.peak, "FLOP/s") + "), the peak of all ranks in " +
          (e.plan.ratedAs.empty()
               ? e.plan.type
               : e.plan.ratedAs + ", for none is stated in " + e.plan.type));
  text += line("HFU " + percent(time.hfu),
               time.recomputedFlops > 0
                   ? "with " + scaled(time.recomputedFlops, "FLOP") +
                         " of matmuls recomputed"
                   : "no matmuls are recomputed");
  text += line("of an ideal step " + percent(time.ofIdeal),
               "against ranks that reach the device's best rate of matmuls "
               "and never wait");
  text += line("computing " + percent(time.computeSec() / time.stepSec),
               "of the time; at most " + short3(1000 * time.bytesPerFlop) +
                   " bytes sent per 1,000 flops");
  std::string first = roofWords(time.roofs.front().name);
  text += line("binding", first + "; were it free, a step would take " +
                              seconds(time.roofs.front().stepSec));
  text += line("next", roofWords(time.next.name) + "; without both, " +
                           seconds(time.next.stepSec));
  text += line("closed form " + seconds(time.closedFormSec), closedWords(time));
  return text;
}

//===----------------------------------------------------------------------===//
// Alternatives and run
//===----------------------------------------------------------------------===//

static std::string printFailures(const RunPart &run) {
  std::string often = run.failuresPerDay < 1
                          ? "one in " + duration(86400 / run.failuresPerDay)
                          : short3(run.failuresPerDay) + " a day";
  return often + "; " + scaled(run.checkpointBytes, "B") + " written in " +
         seconds(run.checkpointSec) + " (bound by " + run.checkpointBound +
         ") every " + duration(run.checkpointIntervalSec) + ", goodput " +
         percent(run.goodput, 2);
}

/// What copies in memory gain, where that can be seen; else nothing.
static std::string printCopies(const RunPart &run) {
  constexpr double visible = 1e-4;
  if (run.copyGoodput < run.goodput + visible)
    return "";
  return "with --peer-copies=1 every " + duration(run.copyIntervalSec) +
         ", each " + seconds(run.copyStallSec) + " of training: goodput " +
         percent(run.copyGoodput, 2);
}

/// A price without its currency. Its range has no more than two digits that
/// mean something.
std::string report::moneyWords(double price) {
  if (price < 99.5)
    return short3(price);
  return price < 9999.5 ? grouped(price) : counted(price);
}

std::string report::priceWords(const RunPart &run) {
  if (run.currency.empty())
    return "";
  return moneyWords(run.price) + " " + clean(run.currency);
}

std::string report::spanWords(const ErrorBand &band, double value,
                              llvm::function_ref<std::string(double)> words) {
  return words(value * (1 - band.less)) + " to " +
         words(value * (1 + band.more));
}

std::string report::rangeWords(const ErrorBand &band, double value,
                               llvm::function_ref<std::string(double)> words) {
  return words(value) + " (" + spanWords(band, value, words) + ")";
}

std::string report::devicePriceWords(const RunPart &run) {
  if (run.currency.empty())
    return "";
  std::string source = run.isPriceGiven ? "--price" : "the cluster's price";
  if (run.sharing > 1)
    source += ", " +
              moneyWords(run.devicePrice * static_cast<double>(run.sharing)) +
              ", shared by " + plural(static_cast<double>(run.sharing), "rank");
  return moneyWords(run.devicePrice) + " a device-hour (" + source + ")";
}

std::string report::priceRange(const RunPart &run) {
  return run.currency.empty() || !run.ends()
             ? ""
             : rangeWords(run.band, run.price, moneyWords) + " " +
                   clean(run.currency);
}

std::string report::neverWords() {
  return "never ends: failures come sooner than steps are saved";
}

Table report::tableOfRun(const RunPart &run) {
  Table table{"lw", 2, {}};
  table.rows.push_back(
      {"tokens",
       counted(run.tokens) + ", " + short3(run.tokensPerParameter) +
           (run.hasExperts ? " per active parameter" : " per parameter") +
           " (compute-optimal: about " + fixed(kTokensPerParameter, 0) + "), " +
           plural(run.steps, "step")});
  table.rows.push_back(
      {"time", run.ends()
                   ? rangeWords(run.band, run.seconds, duration) + " at " +
                         counted(run.tokensPerSec) + " tokens/s; " +
                         amount(run.deviceHours) + " device-hours"
                   : neverWords()});
  std::string carbon =
      run.carbonKg > 0 ? "; " + amount(run.carbonKg) + " kg CO2" : "";
  if (run.joules > 0 && run.ends())
    table.rows.push_back({"energy", scaled(run.joules / 3600, "Wh") + " at " +
                                        scaled(run.flopsPerJoule, "FLOP/J") +
                                        carbon});
  if (std::string price = priceRange(run); !price.empty())
    table.rows.push_back({"price", price + ", at " + devicePriceWords(run)});
  if (run.failuresPerDay > 0)
    table.rows.push_back({"failures", printFailures(run)});
  if (std::string copies = printCopies(run); !copies.empty())
    table.rows.push_back({"copies", copies});
  return table;
}

//===----------------------------------------------------------------------===//
// Trust
//===----------------------------------------------------------------------===//

static std::string certificateWords(const Certificate &c) {
  std::string takes = "on the timeline this plan takes " + seconds(c.bestSec);
  if (c.complete)
    return "proven: " + takes + ", and no other of the space takes less";
  if (c.boundSec <= 0)
    return takes + "; how fast others could be is not known";
  std::string unless =
      c.isMixed ? " if parameters of a layer took the mean of their bytes,"
      : !c.allLayouts ? " of the layouts of layers that were looked at,"
                      : "";
  return takes + ";" + unless + " none of the space takes less than " +
         seconds(c.boundSec) + ": at most " +
         percent(1 - c.boundSec / c.bestSec) + " could be won";
}

static std::string spaceWords(const Certificate &c) {
  std::string left = c.leftOut > 0 ? grouped(c.leftOut) + " left out, " : "";
  return counted(c.space) + " outer choices in " + grouped(c.nodes) +
         " candidates; " + grouped(c.prunedByMemory) + " pruned by memory, " +
         grouped(c.prunedByBound) + " by bound, " + grouped(c.illegal) +
         " not legal; " + left + plural(c.evaluated, "layout") +
         " evaluated, " + plural(c.tablesSolved, "layer table") + " solved, " +
         grouped(c.tablesBounded) + " only bounded";
}

/// Where Kerf itself was measured, for a plan that it was not measured for:
/// "measured on one H100 in bf16 and fp8, not in f32".
static std::string measuredWords(const TrustPart &trust, llvm::StringRef type) {
  if (trust.measured.empty())
    return "not measured on such devices";
  std::vector<std::string> types;
  bool hasType = false;
  for (const MeasuredSteps &row : trust.measured) {
    types.push_back(row.type.str());
    hasType |= row.type == type;
  }
  std::string where = "measured on " + trust.measured.front().where.str();
  return hasType ? where + " in " + type.str() + ", not on several"
                 : where + " in " + llvm::join(types, " and ") + ", not in " +
                       type.str();
}

std::string report::errorWords(const Explanation &e) {
  const TrustPart &trust = e.trust;
  const ErrorBand &own = trust.band;
  std::string within = "about " + percent(own.more, 0);
  std::string band = own.less == own.more
                         ? "the step may be off by " + within
                         : "the step may take " + percent(own.less, 0) +
                               " less to " + percent(own.more, 0) + " more";
  std::string when =
      own.when.empty()
          ? ""
          : (trust.isMeasured ? "; measured " : "; compared ") + own.when;
  std::string source = " (" + own.source + when + ")";
  if (trust.isMeasured)
    return band + source;
  return "projection: Kerf was " + measuredWords(trust, e.plan.type) +
         (own.isOfOthers ? "; published steps of others are met within " +
                               within + " in the median"
                         : "; " + band) +
         source;
}

/// "five models in bf16 on one H100, 2026-11-26: steps within 6 % of what is
/// predicted, more where 128 does not divide the width".
static std::string stepsWords(const MeasuredSteps &row) {
  std::string within =
      row.less == row.more
          ? "steps within " + percent(row.more, 0) + " of what is predicted, "
          : "steps took " + percent(row.less, 0) + " less to " +
                percent(row.more, 0) + " more than is predicted, ";
  return row.what.str() + " in " + row.type.str() + " on " + row.where.str() +
         ", " + row.when.str() + ": " + within + row.remark.str();
}

Table report::tableOfTrust(const Explanation &e) {
  const TrustPart &trust = e.trust;
  Table table{"lw", 2, {}};
  table.rows.push_back({"error", errorWords(e)});
  std::string title = "measured";
  for (const MeasuredSteps &row : trust.measured) {
    table.rows.push_back({title, stepsWords(row)});
    title.clear();
  }
  title = "assumed";
  for (const Assumption &figure : trust.figures) {
    table.rows.push_back({title, figure.name + ": " + percent(figure.value, 0) +
                                     " (" + clean(figure.source) + ")"});
    title.clear();
  }
  for (const std::string &line : trust.assumptions) {
    table.rows.push_back({title, line});
    title.clear();
  }
  table.rows.push_back({"not modelled", llvm::join(trust.notModelled, ", ")});
  table.rows.push_back({"search", spaceWords(trust.certificate)});
  table.rows.push_back({"", certificateWords(trust.certificate)});
  if (!trust.certificate.model.empty())
    table.rows.push_back({"", "the model: " + trust.certificate.model});
  title = "not searched";
  for (const auto &[feature, reason] : trust.excluded) {
    table.rows.push_back({title, feature + ": " + reason});
    title.clear();
  }
  if (!trust.notCompiled.empty())
    table.rows.push_back({"programs", clean(trust.notCompiled)});
  return table;
}

static std::string printRefusal(const Explanation &explanation) {
  Refusal refusal = refusalOf(explanation);
  std::string text = "error: " + refusal.message + "\n";
  for (const std::string &note : refusal.notes)
    text += "note: " + note + "\n";
  return text;
}

std::string kerf::printText(const Explanation &explanation, bool color) {
  if (!explanation.feasible)
    return printRefusal(explanation);
  return printHead(explanation) + printPlan(explanation.plan, color) +
         printMemory(explanation.memory, color) +
         heading("TIME", "one step, mean over stages", color) +
         printShares(explanation.time) + printRatios(explanation) +
         printAlternatives(explanation.alternatives, explanation.time.stepSec,
                           color) +
         printRoomy(explanation.roomy, explanation.time.stepSec) +
         heading("RUN", "", color) + tableOfRun(explanation.run).print() +
         printSensitivity(explanation.sensitivity, color) +
         heading("TRUST", "", color) + tableOfTrust(explanation).print();
}
