//===- TraceFile.h - traces of runs and predicted timelines ---------------===//

#ifndef KERF_LIB_PIPELINE_TRACEFILE_H
#define KERF_LIB_PIPELINE_TRACEFILE_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kerf::trace {

/// Of an event, or of a row of the comparison.
enum class Kind {
  Forward,
  Backward,
  WeightGradient,
  Update,
  Other,         ///< a call that the prediction does not have
  Communication, ///< an event, and a row
  Receive,       ///< of a message: mostly waiting for it
  Bubble,        ///< rows only
  Step
};

/// A call of a function, or what ranks exchanged. Times are in seconds.
struct Event {
  Kind kind = Kind::Other;
  int64_t pid = 0, step = 0, chunk = 0;
  double start = 0, end = 0;
  bool isData = true; ///< of a collective: gradients or weights, not a layer's

  double seconds() const { return end - start; }
  bool isCall() const { return kind <= Kind::Other; }
};

/// What one command of a measured call took, of an op of the model.
struct OpEvent {
  int64_t pid = 0, step = 0;
  std::string call; ///< "forward", "update", ...
  std::string name; ///< "matmul", "all_gather", ...
  std::string kind; ///< "matmul", "launch", ...
  std::string op;   ///< "forward 12", or ""
  double seconds = 0;
};

/// What a comparison needs of one trace; processes are ranks or stages.
struct File {
  std::string model; ///< empty: predicted
  int64_t stages = 0;
  std::map<int64_t, int64_t> stageOf; ///< by process
  std::vector<Event> events;
  std::vector<OpEvent> ops; ///< of a run
};

/// Reads a trace of a run (`kerf-run --trace`) or a predicted one (`kerfc
/// --trace`). Otherwise prints an error that begins with the path.
std::optional<File> readFile(llvm::StringRef path, bool isMeasured);
/// The same of a text.
std::optional<File> readText(llvm::StringRef text, llvm::StringRef path,
                             bool isMeasured);

} // namespace kerf::trace

#endif // KERF_LIB_PIPELINE_TRACEFILE_H
