//===- Trace.cpp - a timeline for Chrome's and Perfetto's viewers ---------===//
//
// The "Trace Event Format": complete events ("X") with microseconds, and
// metadata ("M") that names processes (stages) and threads (engines).
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/Timeline.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;

static void printNames(llvm::raw_ostream &os, size_t stages) {
  for (size_t stage = 0; stage < stages; ++stage) {
    os << (stage ? ",\n" : "\n")
       << R"({"ph": "M", "name": "process_name", "pid": )" << stage
       << R"(, "args": {"name": "stage )" << stage << "\"}}";
    for (Engine engine : {Engine::Compute, Engine::PipeLink, Engine::DataLink})
      os << ",\n"
         << R"({"ph": "M", "name": "thread_name", "pid": )" << stage
         << ", \"tid\": " << int(engine) << R"(, "args": {"name": ")"
         << nameOf(engine) << "\"}}";
  }
}

static void printEvent(llvm::raw_ostream &os, const Event &event) {
  os << R"({"ph": "X", "name": ")" << nameOf(event.kind);
  if (event.microBatch >= 0)
    os << ' ' << event.microBatch;
  os << R"(", "cat": ")" << nameOf(event.kind) << R"(", "pid": )" << event.stage
     << ", \"tid\": " << int(event.engine)
     << llvm::format(", \"ts\": %.3f, \"dur\": %.3f", event.startSec * 1e6,
                     (event.endSec - event.startSec) * 1e6);
  if (event.microBatch >= 0)
    os << R"(, "args": {"chunk": )" << event.chunk
       << ", \"micro_batch\": " << event.microBatch << '}';
  os << '}';
}

std::string kerf::traceOf(const Timeline &timeline) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << R"({"displayTimeUnit": "ms", "traceEvents": [)";
  printNames(os, timeline.busySec.size());
  for (const Event &event : timeline.events) {
    os << ",\n";
    printEvent(os, event);
  }
  os << "\n]}\n";
  return text;
}
