//===- TraceFile.cpp - traces of runs and predicted timelines -------------===//

#include "TraceFile.h"

#include "kerf/Support/Input.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using namespace kerf::trace;

namespace {
/// Reads one file; fails with a message that begins with its path.
class TraceReader {
public:
  TraceReader(llvm::StringRef path, bool isMeasured)
      : path(path), isMeasured(isMeasured) {}

  std::optional<File> read(llvm::StringRef text);

private:
  bool fail(json::Position at, const llvm::Twine &message);
  bool readHead(const json::Value &root);
  bool readEvent(const json::Value &value);
  bool readOp(const json::Value &value);
  void readProcess(const json::Value &value);
  bool number(const json::Value &value, llvm::StringRef key, double &result);

  llvm::StringRef path;
  bool isMeasured;
  File trace;
};
} // namespace

static int64_t integerOr(const json::Value *value, int64_t fallback) {
  return value && value->isInteger ? value->integer : fallback;
}

static llvm::StringRef textOf(const json::Value *value) {
  return value ? llvm::StringRef(value->string) : "";
}

bool TraceReader::fail(json::Position at, const llvm::Twine &message) {
  auto &os = llvm::WithColor::error() << path << ':';
  if (at.line > 0)
    os << at.line << ':' << at.column << ':';
  os << ' ' << message << '\n';
  return false;
}

bool TraceReader::number(const json::Value &value, llvm::StringRef key,
                         double &result) {
  const json::Value *found = value.find(key);
  if (!found || found->kind != json::Kind::Number)
    return fail(value.position, "an event needs the number '" + key + "'");
  result = found->number;
  return true;
}

static std::optional<Kind> kindNamed(llvm::StringRef category,
                                     bool isMeasured) {
  auto kind = llvm::StringSwitch<std::optional<Kind>>(category)
                  .Case("forward", Kind::Forward)
                  .Case("backward", Kind::Backward)
                  .Case("weight gradient", Kind::WeightGradient)
                  .Case("update", Kind::Update)
                  .Case("send", Kind::Communication)
                  .Default(std::nullopt);
  if (kind)
    return kind;
  if (!isMeasured)
    return llvm::StringSwitch<std::optional<Kind>>(category)
        .Cases({"gather", "gradient sync", "weight gather"},
               Kind::Communication)
        .Default(std::nullopt);
  return llvm::StringSwitch<std::optional<Kind>>(category)
      .Cases({"prologue", "finish"}, Kind::Other)
      .Case("receive", Kind::Receive)
      .Cases({"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
              "rotate"},
             Kind::Communication)
      .Default(std::nullopt);
}

/// In calls of layers only what goes over data ranks is no layer's own.
static bool isDataTraffic(const json::Value &arguments) {
  llvm::StringRef call = textOf(arguments.find("call"));
  if (!call.starts_with("forward") && !call.starts_with("backward") &&
      !call.starts_with("weight gradient"))
    return true;
  llvm::SmallVector<llvm::StringRef> axes;
  textOf(arguments.find("over")).split(axes, ' ');
  return llvm::any_of(
      axes, [](llvm::StringRef axis) { return axis == "dp" || axis == "pp"; });
}

/// A command of a call; other events have no call that they are in.
bool TraceReader::readOp(const json::Value &value) {
  const json::Value *arguments = value.find("args");
  llvm::StringRef call = arguments ? textOf(arguments->find("call")) : "";
  llvm::StringRef kind = textOf(value.find("cat"));
  if (!isMeasured || call.empty() || kind == "wait")
    return true;
  double pid = 0, length = 0;
  if (!number(value, "pid", pid) || !number(value, "dur", length))
    return false;
  // "forward 3" is that of a micro-batch.
  if (arguments->find("micro_batch"))
    call = call.rsplit(' ').first;
  trace.ops.push_back({static_cast<int64_t>(pid),
                       integerOr(arguments->find("step"), 0), call.str(),
                       textOf(value.find("name")).str(), kind.str(),
                       textOf(arguments->find("op")).str(), length * 1e-6});
  return true;
}

bool TraceReader::readEvent(const json::Value &value) {
  if (!readOp(value))
    return false;
  auto kind = kindNamed(textOf(value.find("cat")), isMeasured);
  if (!kind)
    return true;
  Event event;
  event.kind = *kind;
  double pid = 0, start = 0, length = 0;
  if (!number(value, "pid", pid) || !number(value, "ts", start) ||
      !number(value, "dur", length))
    return false;
  event.pid = static_cast<int64_t>(pid);
  event.start = start * 1e-6;
  event.end = event.start + length * 1e-6;
  if (const json::Value *arguments = value.find("args")) {
    event.step = integerOr(arguments->find("step"), 0);
    event.chunk = integerOr(arguments->find("chunk"), 0);
    if (isMeasured && *kind == Kind::Communication &&
        textOf(value.find("cat")) != "send")
      event.isData = isDataTraffic(*arguments);
  }
  trace.events.push_back(event);
  return true;
}

/// The stage of a process: said in a measured trace, its number in a predicted
/// one.
void TraceReader::readProcess(const json::Value &value) {
  int64_t pid = integerOr(value.find("pid"), 0);
  const json::Value *arguments = value.find("args");
  int64_t stage = arguments ? integerOr(arguments->find("stage"), pid) : pid;
  trace.stageOf[pid] = stage;
  trace.stages = std::max(trace.stages, stage + 1);
}

/// Whose trace is it?
bool TraceReader::readHead(const json::Value &root) {
  const json::Value *other = root.find("otherData");
  bool isOfRun = other && textOf(other->find("source")) == "kerf-run";
  if (isOfRun != isMeasured)
    return fail({}, isMeasured
                        ? "is no trace of a run, expected what 'kerf-run "
                          "--trace' writes as the first file"
                        : "is a trace of a run, expected what 'kerfc --trace' "
                          "predicts as the second file");
  if (!isOfRun)
    return true;
  trace.model = textOf(other->find("model"));
  return true;
}

std::optional<File> TraceReader::read(llvm::StringRef text) {
  auto root =
      json::parse(text, [&](json::Position at, const llvm::Twine &message) {
        fail(at, message);
      });
  if (failed(root))
    return std::nullopt;
  const json::Value *events = root->find("traceEvents");
  if (!events || events->kind != json::Kind::Array) {
    fail(root->position, "is no trace: expected an object with 'traceEvents'");
    return std::nullopt;
  }
  if (!readHead(*root))
    return std::nullopt;
  for (const json::Value &value : events->array) {
    llvm::StringRef phase = textOf(value.find("ph"));
    if (phase == "X" && !readEvent(value))
      return std::nullopt;
    if (phase == "M" && textOf(value.find("name")) == "process_name")
      readProcess(value);
  }
  for (const Event &event : trace.events)
    if (!trace.stageOf.count(event.pid)) {
      fail({}, "has events of process " + llvm::Twine(event.pid) +
                   ", which has no name");
      return std::nullopt;
    }
  if (llvm::none_of(trace.events, [](const Event &event) {
        return event.kind == Kind::Forward;
      })) {
    fail({}, "has no step: no event 'forward'");
    return std::nullopt;
  }
  return std::move(trace);
}

std::optional<File> trace::readText(llvm::StringRef text, llvm::StringRef path,
                                    bool isMeasured) {
  return TraceReader(path, isMeasured).read(text);
}

std::optional<File> trace::readFile(llvm::StringRef path, bool isMeasured) {
  auto buffer = readFileOrStdin(path);
  if (buffer)
    return readText((*buffer)->getBuffer(), path, isMeasured);
  llvm::WithColor::error() << path
                           << ": cannot read: " << toString(buffer.takeError())
                           << '\n';
  return std::nullopt;
}
