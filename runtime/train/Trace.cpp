//===- Trace.cpp - what all ranks did, for Perfetto -----------------------===//

#include "kerf/Train/Trace.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace kerf::runtime;

// The first three are numbered and named as the engines of the predicted
// timeline.
static constexpr int computeThread = 0, messageThread = 1, groupThread = 2,
                     callThread = 3, stepThread = 4;
static constexpr const char *threadNames[] = {"compute", "pipeline link",
                                              "data link", "calls", "steps"};

/// How every part begins; the rest of the line is the rank and its clock.
static constexpr std::string_view partHead =
    "[{\"ph\": \"M\", \"name\": \"kerf-run part\", \"pid\": ";

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

CallKind kerf::runtime::kindOfFunction(const std::string &function) {
  // The last micro-batch of a step may have a function of its own.
  static constexpr std::string_view last = "_last";
  std::string_view name = function;
  if (name.ends_with(last))
    name.remove_suffix(last.size());
  CallKind call{function};
  size_t line = name.rfind('_');
  std::string base(name.substr(0, line));
  for (const char *known : {"forward", "backward", "weights", "evaluate"}) {
    if (base != known)
      continue;
    if (line != std::string::npos &&
        !parseInteger(name.substr(line + 1), call.chunk))
      continue;
    call.kind = base == "weights" ? "weight gradient" : base;
    call.hasMicroBatch = true;
  }
  return call;
}

/// "forward 3", as the predicted timeline has it.
static std::string nameOfCall(const CallKind &call, uint32_t microBatch) {
  return call.hasMicroBatch ? call.kind + " " + std::to_string(microBatch)
                            : call.kind;
}

static int threadOf(const kerf_trace_event &event) {
  uint32_t opcode = event.opcode;
  if (opcode == KERF_OP_COUNT)
    return callThread;
  // What the stream of steps waits for ends with the exchange in another one.
  if (event.on_device && opcode == KERF_OP_WAIT)
    return computeThread;
  if (opcode == KERF_OP_SEND || opcode == KERF_OP_RECEIVE)
    return messageThread;
  bool isOwn = opcode < KERF_OP_ALL_REDUCE || opcode == KERF_OP_TAKE ||
               opcode == KERF_OP_STOP_IF;
  return isOwn ? computeThread : groupThread;
}

std::string kerf::runtime::tracePartName(const std::string &path,
                                         uint32_t rank) {
  return path + ".rank" + std::to_string(rank) + ".part";
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

static bool isPart(const std::string &name) {
  MappedFile file;
  std::string error;
  return file.open(name, error) && file.size() >= partHead.size() &&
         std::memcmp(file.data(), partHead.data(), partHead.size()) == 0;
}

void kerf::runtime::removeTraceParts(const std::string &path, uint32_t ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (std::string name = tracePartName(path, rank); isPart(name))
      removeFile(name);
}

TracePart::~TracePart() {
  if (descriptor >= 0)
    close(descriptor);
}

static bool failWriting(const std::string &name, int code, std::string &error) {
  error = "cannot write " + quote(name) + ": " + std::strerror(code);
  return false;
}

static std::string metadata(const char *what, uint32_t rank, int thread,
                            const std::string &arguments) {
  return format("{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %u, \"tid\": %d, "
                "\"args\": {",
                what, rank, thread) +
         arguments + "}}";
}

/// Whole or as much as there is room for.
static bool writeAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    text.remove_prefix(written);
  }
  return true;
}

bool TracePart::open(const std::string &path, const kerf_artifact *opened,
                     kerf_session *made, std::string &error) {
  artifact = opened;
  session = made;
  rank = kerf_session_rank(session);
  // The clock first: all ranks take part, whatever happens to a file.
  double offset = 0, wrong = 0;
  std::vector<double> starts(kerf_artifact_meta(artifact)->world_size);
  kerf_error failure;
  bool isAgreed =
      kerf_session_clock_offset(session, &offset, &wrong, &failure) == KERF_OK;
  double start = now() + offset;
  if (!isAgreed || kerf_session_gather(session, &start, 1, starts.data(),
                                       &failure) != KERF_OK) {
    error = failure.message;
    return false;
  }
  epoch = starts[0] - offset;
  name = tracePartName(path, rank);
  if (isPart(name))
    removeFile(name);
  descriptor =
      ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return failWriting(name, errno, error);
  text =
      std::string(partHead) +
      format("%u, \"args\": {\"clock_error_us\": %.3f}},\n", rank, wrong * 1e6);
  return writeAll(descriptor, text) || failWriting(name, errno, error);
}

double TracePart::microseconds(double seconds) const {
  return (seconds - epoch) * 1e6;
}

/// The beginning of a complete event.
static std::string beginEvent(const std::string &name, const char *kind,
                              uint32_t rank, int thread, double start,
                              double length) {
  return "{\"ph\": \"X\", \"name\": " + jsonQuote(name) +
         ", \"cat\": " + jsonQuote(kind) +
         format(", \"pid\": %u, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, "
                "\"args\": {",
                rank, thread, start, length);
}

void TracePart::addSpan(const char *spanName, const char *kind, double start,
                        double end, int64_t step) {
  text += beginEvent(spanName, kind, rank, stepThread, microseconds(start),
                     (end - start) * 1e6) +
          format("\"step\": %lld}},\n", static_cast<long long>(step));
}

void TracePart::addEvent(const kerf_trace_event &event, int64_t step) {
  CallKind call = kindOfFunction(event.function);
  std::string callName = nameOfCall(call, event.micro_batch);
  bool isCall = event.opcode == KERF_OP_COUNT;
  text +=
      beginEvent(isCall ? callName : event.name,
                 isCall ? call.kind.c_str() : event.kind, rank, threadOf(event),
                 microseconds(event.start), (event.end - event.start) * 1e6);
  text += format("\"step\": %lld", static_cast<long long>(step));
  if (call.hasMicroBatch)
    text += format(", \"chunk\": %lld, \"micro_batch\": %u",
                   static_cast<long long>(call.chunk), event.micro_batch);
  if (!isCall)
    text += ", \"call\": " + jsonQuote(callName) +
            format(", \"bytes\": %llu",
                   static_cast<unsigned long long>(event.bytes));
  if (event.iteration >= 0)
    text +=
        format(", \"layer\": %lld", static_cast<long long>(event.iteration));
  if (*event.location)
    text += ", \"op\": " + jsonQuote(event.location);
  if (event.peer != KERF_NONE)
    text += ", \"channel\": " + jsonQuote(event.channel) +
            format(", \"peer\": %u", event.peer);
  uint32_t count = 0;
  const kerf_axis *axes = kerf_artifact_axes(artifact, &count);
  std::string over;
  for (uint32_t a = 0; a < count; ++a)
    if (event.axes >> a & 1)
      over += (over.empty() ? "" : " ") +
              std::string(kerf_artifact_string(artifact, axes[a].name));
  if (!over.empty())
    text += ", \"over\": " + jsonQuote(over);
  text += "}},\n";
}

void TracePart::append(const StepTimes &times) {
  if (problem)
    return;
  text.clear();
  std::string step = "step " + std::to_string(times.step);
  addSpan("data", "data", times.dataStart, times.runStart, times.step);
  addSpan(step.c_str(), "step", times.runStart, times.runEnd, times.step);
  kerf_trace_event event;
  for (uint32_t i = 0; kerf_session_trace_event(session, i, &event); ++i)
    addEvent(event, times.step);
  if (!writeAll(descriptor, text))
    problem = errno;
}

/// What a trace says of itself when it is merged.
static std::string describeTrace(const std::string &path, int64_t first,
                                 int64_t last, uint32_t found) {
  return found == 0
             ? "  note        no trace: the run ended before its first step"
             : " wrote " + quote(path) +
                   format(": steps %lld..%lld of %u ranks",
                          static_cast<long long>(first),
                          static_cast<long long>(last), found);
}

kerf_status TracePart::finish(const std::string &path, int64_t first,
                              int64_t last, std::vector<std::string> &lines,
                              kerf_error &failure) {
  uint32_t ranks = kerf_artifact_meta(artifact)->world_size;
  std::vector<double> problems(ranks);
  if (close(descriptor) != 0 && !problem) // where NFS tells of a full disk
    problem = errno;
  descriptor = -1;
  double own = problem;
  kerf_status status = kerf_session_trace(session, false, &failure);
  if (status == KERF_OK)
    status = kerf_session_gather(session, &own, 1, problems.data(), &failure);
  if (status != KERF_OK || rank != 0)
    return status;
  for (uint32_t r = 0; r < ranks; ++r)
    if (int code = static_cast<int>(problems[r]))
      lines.push_back("  note        the trace lacks the end of rank " +
                      std::to_string(r) + ": " + std::strerror(code));
  uint32_t found = 0;
  std::string error;
  if (!mergeTrace(path, artifact, lines.empty(), found, error)) {
    lines.push_back("  note        the trace stays in parts beside " +
                    quote(path) + ": " + error);
    return status;
  }
  lines.push_back(describeTrace(path, first, last, found));
  if (found > 0 && found < ranks)
    lines.push_back("  note        the others run on machines that do not "
                    "share the folder: their parts are there");
  return status;
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

uint32_t kerf::runtime::stageOf(const kerf_artifact *artifact, uint32_t rank) {
  uint32_t count = 0, pipeline = kerf_artifact_meta(artifact)->pipeline_axis;
  const kerf_axis *axes = kerf_artifact_axes(artifact, &count);
  if (pipeline >= count)
    return 0;
  for (uint32_t a = count - 1; a > pipeline; --a)
    rank /= axes[a].size;
  return rank % axes[pipeline].size;
}

/// Names of a rank's process and threads.
static std::string namesOf(const kerf_artifact *artifact, uint32_t rank) {
  uint32_t stages = 0;
  (void)kerf_artifact_programs(artifact, &stages);
  std::string name = "rank " + std::to_string(rank);
  uint32_t stage = stageOf(artifact, rank);
  if (stages > 1)
    name += ", stage " + std::to_string(stage);
  std::string text = metadata("process_name", rank, 0,
                              "\"name\": " + jsonQuote(name) +
                                  ", \"stage\": " + std::to_string(stage)) +
                     ",\n" +
                     metadata("process_sort_index", rank, 0,
                              "\"sort_index\": " + std::to_string(rank));
  // What encloses the others stands above them.
  constexpr int places[] = {2, 3, 4, 1, 0};
  for (int thread = 0; thread < static_cast<int>(std::size(threadNames));
       ++thread)
    text += ",\n" +
            metadata("thread_name", rank, thread,
                     "\"name\": " + jsonQuote(threadNames[thread])) +
            ",\n" +
            metadata("thread_sort_index", rank, thread,
                     "\"sort_index\": " + std::to_string(places[thread]));
  return text;
}

/// The whole lines of a part behind its first one.
static std::string_view eventsOf(const MappedFile &part) {
  std::string_view text(reinterpret_cast<const char *>(part.data()),
                        part.size());
  size_t first = text.find('\n'), last = text.rfind('\n');
  return first == std::string_view::npos ? ""
                                         : text.substr(first + 1, last - first);
}

bool kerf::runtime::mergeTrace(const std::string &path,
                               const kerf_artifact *artifact, bool isComplete,
                               uint32_t &found, std::string &error) {
  const kerf_meta &meta = *kerf_artifact_meta(artifact);
  uint32_t stages = 0;
  (void)kerf_artifact_programs(artifact, &stages);
  std::vector<MappedFile> parts(meta.world_size);
  found = 0;
  std::string missing, ignored;
  bool hasEvents = false;
  for (uint32_t rank = 0; rank < parts.size(); ++rank) {
    std::string name = tracePartName(path, rank);
    bool isThere = isPart(name) && parts[rank].open(name, ignored);
    found += isThere;
    hasEvents |= isThere && eventsOf(parts[rank]).find("{\"ph\": \"X\"") !=
                                std::string_view::npos;
    if (!isThere)
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (!hasEvents) {
    removeTraceParts(path, parts.size());
    found = 0;
    return true;
  }
  OutputFile file;
  std::string head =
      "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"source\": \"kerf-run\", "
      "\"model\": " +
      jsonQuote(kerf_artifact_string(artifact, meta.model)) +
      format(", \"ranks\": %u, \"stages\": %u, \"complete\": %s",
             meta.world_size, stages,
             isComplete && missing.empty() ? "true" : "false") +
      ", \"missing_ranks\": [" + missing + "]}, \"traceEvents\": [\n";
  bool isWritten = file.open(behindLinks(path), error) &&
                   file.write(head.data(), head.size(), error);
  for (const MappedFile &part : parts) {
    std::string_view events = eventsOf(part);
    isWritten = isWritten && file.write(events.data(), events.size(), error);
  }
  for (uint32_t rank = 0; rank < parts.size(); ++rank) {
    std::string names =
        namesOf(artifact, rank) + (rank + 1 < parts.size() ? ",\n" : "\n]}\n");
    isWritten = isWritten && file.write(names.data(), names.size(), error);
  }
  if (!isWritten || !file.commit(error))
    return false;
  removeTraceParts(path, parts.size());
  return true;
}

std::string kerf::runtime::rescuedTrace(const std::string &path,
                                        const kerf_artifact *artifact) {
  uint32_t found = 0;
  std::string error;
  if (!mergeTrace(path, artifact, false, found, error))
    return "the trace until then stays in parts beside " + quote(path) + ": " +
           error;
  return found == 0 ? "" : "the trace until then is in " + quote(path);
}
