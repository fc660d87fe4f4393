//===- InspectCompare.cpp - a measured step beside the predicted one ------===//
//
// `kerf-run --trace` writes what ranks did, `kerfc --trace` what the cost model
// expected. Both have calls of forward, backward, weight gradient and update by
// stage, chunk and micro-batch. A measured call contains its messages and its
// share of the gradients' traffic, which the prediction has on links of their
// own: they are taken out of it here.
//
//===----------------------------------------------------------------------===//

#include "CompareOps.h"
#include "Fail.h"
#include "Inspect.h"

#include "kerf/Support/Input.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <map>
#include <set>
#include <tuple>

using namespace kerf;
using namespace kerf::trace;

//===----------------------------------------------------------------------===//
// Summing up
//===----------------------------------------------------------------------===//

namespace {
/// What one line of the table is about; -1 where it does not matter.
struct Row {
  Kind kind;
  int64_t stage, chunk;

  bool operator<(const Row &other) const {
    return std::tie(kind, stage, chunk) <
           std::tie(other.kind, other.stage, other.chunk);
  }
};

struct Samples {
  std::vector<double> seconds;
  int64_t perStep = 0; ///< on one rank

  double median() const {
    std::vector<double> sorted = seconds;
    llvm::sort(sorted);
    size_t half = sorted.size() / 2;
    return sorted.size() % 2 ? sorted[half]
                             : (sorted[half - 1] + sorted[half]) / 2;
  }
};

/// What one rank did in one step.
struct RankStep {
  std::vector<trace::Event> calls, exchanges; ///< in order of start
};

struct Summary {
  std::map<Row, Samples> rows;
  std::vector<int64_t> steps, partial; ///< used; left out
};
} // namespace

using RankSteps = std::map<std::pair<int64_t, int64_t>, RankStep>;

/// By step and process.
static RankSteps groupSteps(const File &file) {
  RankSteps steps;
  for (const trace::Event &event : file.events) {
    RankStep &step = steps[{event.step, event.pid}];
    (event.isCall() ? step.calls : step.exchanges).push_back(event);
  }
  auto starts = [](const trace::Event &a, const trace::Event &b) {
    return std::tie(a.start, a.end) < std::tie(b.start, b.end);
  };
  for (auto &[key, step] : steps) {
    llvm::sort(step.calls, starts);
    llvm::sort(step.exchanges, starts);
  }
  return steps;
}

/// Takes out of measured calls what the prediction has on links.
static void subtractExchanges(RankStep &step) {
  size_t next = 0;
  for (trace::Event &call : step.calls) {
    double end = call.end;
    for (; next < step.exchanges.size(); ++next) {
      const trace::Event &exchange = step.exchanges[next];
      if (exchange.start >= end)
        break;
      if (exchange.start >= call.start && exchange.isData)
        call.end -= exchange.seconds();
    }
  }
}

/// Steps that some rank has not made to their end.
static std::set<int64_t> partialSteps(const RankSteps &steps,
                                      const File &file) {
  std::map<int64_t, size_t> most; ///< calls of a step, by process
  std::set<int64_t> all, partial;
  for (const auto &[key, step] : steps) {
    most[key.second] = std::max(most[key.second], step.calls.size());
    all.insert(key.first);
  }
  for (int64_t step : all)
    for (const auto &[pid, stage] : file.stageOf) {
      auto found = steps.find({step, pid});
      size_t calls = found == steps.end() ? 0 : found->second.calls.size();
      if (calls < most[pid])
        partial.insert(step);
    }
  return partial;
}

static void addRankStep(const RankStep &step, int64_t stage, double span,
                        std::map<Row, Samples> &rows) {
  double computing = 0, communicating = 0;
  std::map<Row, int64_t> counts;
  for (const trace::Event &call : step.calls) {
    computing += call.seconds();
    if (call.kind == Kind::Other)
      continue;
    int64_t chunk = call.kind == Kind::Update ? -1 : call.chunk;
    Row row{call.kind, stage, chunk};
    rows[row].seconds.push_back(call.seconds());
    rows[row].perStep = std::max(rows[row].perStep, ++counts[row]);
  }
  for (const trace::Event &exchange : step.exchanges)
    if (exchange.kind == Kind::Communication && exchange.isData)
      communicating += exchange.seconds();
  auto add = [&](Kind kind, double seconds) {
    Samples &samples = rows[{kind, stage, -1}];
    samples.seconds.push_back(seconds);
    samples.perStep = 1;
  };
  add(Kind::Communication, communicating);
  add(Kind::Bubble, span - computing);
}

static Summary summarize(const File &file) {
  Summary summary;
  RankSteps steps = groupSteps(file);
  std::set<int64_t> partial = partialSteps(steps, file);
  summary.partial.assign(partial.begin(), partial.end());
  std::map<int64_t, std::pair<double, double>> spans;
  for (auto &[key, step] : steps) {
    auto [at, isNew] = spans.try_emplace(key.first, INFINITY, -INFINITY);
    for (const auto *events : {&step.calls, &step.exchanges})
      for (const trace::Event &event : *events) {
        at->second.first = std::min(at->second.first, event.start);
        at->second.second = std::max(at->second.second, event.end);
      }
    if (!file.model.empty())
      subtractExchanges(step);
  }
  for (const auto &[step, span] : spans) {
    if (partial.count(step))
      continue;
    summary.steps.push_back(step);
    Samples &samples = summary.rows[{Kind::Step, -1, -1}];
    samples.seconds.push_back(span.second - span.first);
    samples.perStep = 1;
  }
  for (const auto &[key, step] : steps)
    if (!partial.count(key.first)) {
      auto [first, last] = spans[key.first];
      addRankStep(step, file.stageOf.at(key.second), last - first,
                  summary.rows);
    }
  return summary;
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

namespace {
struct Line {
  Row row;
  int64_t count;
  double predicted, measured; ///< seconds

  double perStep() const {
    return static_cast<double>(count) * (measured - predicted);
  }
};
} // namespace

/// Of `stages` stages: one alone has no bubble, it is only idle.
static llvm::StringRef nameOf(Kind kind, int64_t stages) {
  if (kind == Kind::Bubble && stages == 1)
    return "idle";
  constexpr llvm::StringLiteral names[] = {
      "forward",       "backward", "weight gradient", "update", "other",
      "communication", "receive",  "bubble",          "step"};
  return names[static_cast<int>(kind)];
}

static std::string describe(const Row &row) {
  std::string text = nameOf(row.kind, /*stages=*/2).str();
  if (row.stage >= 0)
    text += " of stage " + std::to_string(row.stage);
  if (row.chunk > 0)
    text += ", chunk " + std::to_string(row.chunk);
  return text;
}

static std::string timeText(double seconds) {
  std::string text;
  llvm::raw_string_ostream os(text);
  double size = std::abs(seconds);
  if (size >= 1)
    os << llvm::format("%.3f s ", seconds);
  else if (size >= 1e-3)
    os << llvm::format("%.3f ms", seconds * 1e3);
  else
    os << llvm::format("%.1f us", seconds * 1e6);
  return text;
}

static std::string errorText(const Line &line) {
  if (line.predicted <= 0)
    return "-";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(
      "%+.1f %%", 100 * (line.measured - line.predicted) / line.predicted);
  return text;
}

static void printLine(const Line &line, int64_t stages) {
  auto number = [](int64_t value) {
    return value < 0 ? std::string("-") : std::to_string(value);
  };
  double more = line.perStep();
  llvm::outs() << "  " << llvm::left_justify(nameOf(line.row.kind, stages), 17)
               << llvm::right_justify(number(line.row.stage), 5)
               << llvm::right_justify(number(line.row.chunk), 7)
               << llvm::right_justify(number(line.count), 7)
               << llvm::right_justify(timeText(line.predicted), 13)
               << llvm::right_justify(timeText(line.measured), 13)
               << llvm::right_justify(errorText(line), 12)
               << llvm::right_justify((more > 0 ? "+" : "") + timeText(more),
                                      14)
               << '\n';
}

/// "2..4", or the steps one by one.
static std::string stepsText(llvm::ArrayRef<int64_t> steps) {
  if (steps.size() > 1 &&
      steps.back() - steps.front() == static_cast<int64_t>(steps.size()) - 1)
    return "steps " + std::to_string(steps.front()) + ".." +
           std::to_string(steps.back());
  std::string text = steps.size() == 1 ? "step" : "steps";
  for (int64_t step : steps)
    text += " " + std::to_string(step);
  return text;
}

/// Rows that both have, the one that moves the step most first; the step itself
/// is the last. Fails where one runs something the other does not.
static bool pairRows(const Summary &measured, const Summary &predicted,
                     std::vector<Line> &lines, std::string &error) {
  std::set<Row> rows;
  for (const Summary *summary : {&measured, &predicted})
    for (const auto &[row, samples] : summary->rows)
      rows.insert(row);
  for (const Row &row : rows) {
    auto m = measured.rows.find(row), p = predicted.rows.find(row);
    int64_t runs = m == measured.rows.end() ? 0 : m->second.perStep;
    int64_t expected = p == predicted.rows.end() ? 0 : p->second.perStep;
    if (runs != expected) {
      error = describe(row) + " ran " + std::to_string(runs) +
              " times per step and is predicted " + std::to_string(expected) +
              " times: these are different plans";
      return false;
    }
    lines.push_back({row, runs, p->second.median(), m->second.median()});
  }
  llvm::sort(lines, [](const Line &a, const Line &b) {
    bool isStepA = a.row.kind == Kind::Step, isStepB = b.row.kind == Kind::Step;
    if (isStepA != isStepB)
      return isStepB;
    double errorA = std::abs(a.perStep()), errorB = std::abs(b.perStep());
    return errorA != errorB ? errorA > errorB : a.row < b.row;
  });
  return true;
}

/// What is foretold: by a trace, or by the commands of a compiled file, whose
/// times go to `program`.
static std::optional<File> readForetold(llvm::StringRef path,
                                        const InspectOptions &options,
                                        std::optional<ProgramTime> &program) {
  auto buffer = readFileOrStdin(path);
  if (!buffer || !isArtifact((*buffer)->getBuffer())) {
    llvm::consumeError(buffer.takeError());
    return trace::readFile(path, /*isMeasured=*/false);
  }
  if (options.cluster.empty()) {
    fail("'compare' with a compiled file needs --cluster=FILE, or a name that "
         "kerfc --cluster=list prints");
    return std::nullopt;
  }
  ArtifactData data;
  Machine machine;
  program = timeFile(path, options, /*keepEvents=*/true, data, machine);
  if (!program)
    return std::nullopt;
  return readText(traceOf(program->timeline), path, /*isMeasured=*/false);
}

int kerf::inspectTraces(llvm::StringRef measuredPath,
                        llvm::StringRef predictedPath,
                        const InspectOptions &options) {
  auto measured = trace::readFile(measuredPath, /*isMeasured=*/true);
  if (!measured)
    return 1;
  std::optional<ProgramTime> program;
  auto predicted = readForetold(predictedPath, options, program);
  if (!predicted)
    return 1;
  if (measured->stages != predicted->stages)
    return fail(measuredPath + " has " + llvm::Twine(measured->stages) +
                " stages and " + predictedPath + " has " +
                llvm::Twine(predicted->stages) + ": these are different plans");
  Summary runs = summarize(*measured), expected = summarize(*predicted);
  if (runs.steps.empty())
    return fail(measuredPath + ": no step that all ranks made to its end");
  std::vector<Line> lines;
  std::string error;
  if (!pairRows(runs, expected, lines, error))
    return fail(error);
  llvm::raw_ostream &os = llvm::outs();
  os << "model " << measured->model << ", " << measured->stageOf.size()
     << (measured->stageOf.size() == 1 ? " rank, " : " ranks, ")
     << measured->stages << (measured->stages == 1 ? " stage, " : " stages, ")
     << stepsText(runs.steps) << " beside the prediction\n";
  if (!runs.partial.empty())
    os << "left out, as not all ranks made them: " << stepsText(runs.partial)
       << '\n';
  os << "medians; what lengthens or shortens the step most comes first\n\n"
     << "  kind             stage  chunk  count    predicted     measured"
        "       error      per step\n";
  for (const Line &line : lines)
    printLine(line, measured->stages);
  if (program)
    printOps(*measured, {runs.steps.begin(), runs.steps.end()}, *program);
  return 0;
}
