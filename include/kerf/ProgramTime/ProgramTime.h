//===- ProgramTime.h - how long a compiled step runs ----------------------===//
//
// The commands of a compiled file, simulated on a described machine: what is
// timed is what the runtime executes. Kernels and collectives take what the
// cost model says (kerf/Cost), in the order and on the streams that
// `runtime/core/Execute.cpp` gives them.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_PROGRAMTIME_PROGRAMTIME_H
#define KERF_PROGRAMTIME_PROGRAMTIME_H

#include "kerf/Artifact/Artifact.h"
#include "kerf/Cost/Profile.h"
#include "kerf/Cost/Timeline.h"
#include "kerf/Machine/Machine.h"

#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// What a command keeps busy. `Memory`: generated kernels, copies, zeros.
/// `Update`: all kernels of the function "update".
enum class WorkPart { Matmul, Attention, Memory, Update };
constexpr size_t kWorkParts = 4;
llvm::StringRef nameOf(WorkPart part); ///< "matmul" "attention" ...

/// One kind of collective over one group, by one rank in a step.
struct CollectiveTime {
  std::string kind; ///< "all_reduce", ...
  std::string axes; ///< "tp", "pp dp"
  int64_t calls = 0;
  double bytes = 0; ///< of the whole tensors, as in kerf/Cost/Collectives.h
  double sec = 0;
  double exposedSec = 0; ///< of it: the rank's kernels wait
};

/// One channel's messages that a rank receives in a step.
struct MessageTime {
  std::string channel; ///< "forward", ...
  int64_t calls = 0;
  double bytes = 0;
  double sec = 0;        ///< under way
  double exposedSec = 0; ///< kernels of the receiver wait so long
};

/// Kernels, library calls and copies of one name in one function, by one rank
/// in a step.
struct KernelTime {
  std::string func; ///< "forward", "backward", ...
  std::string name; ///< of the file's command: "matmul", "rms_norm", ...
  WorkPart part = WorkPart::Memory;
  int64_t calls = 0;
  double sec = 0;
};

/// What one op of the model is in calls of one kind: a kernel, a library call,
/// a copy or an exchange, by one rank in a step, of all layers together.
struct OpTime {
  std::string call; ///< "forward", "weight gradient", ..., or the function
  std::string name; ///< of the file's command: "matmul", "all_gather", ...
  std::string op;   ///< "forward 12", as plans name ops; or ""
  bool isExchange = false;
  int64_t calls = 0;
  double sec = 0;
};

/// What a rank of a stage spends its step on. The parts of `workSec`,
/// `launchSec`, the exposed collectives, the messages, `sendSec` and `idleSec`
/// add up to the step.
struct StageTime {
  std::array<double, kWorkParts> workSec = {};
  int64_t kernels = 0;
  double launchSec = 0; ///< kernels that the host has not launched yet
  double sendSec = 0;   ///< copies of messages into their channel's buffers
  double idleSec = 0;   ///< waits for other stages
  std::vector<CollectiveTime> collectives; ///< by kind and axes
  std::vector<MessageTime> messages;       ///< by channel
  std::vector<KernelTime> kernelTimes;     ///< those that take most first
  std::vector<OpTime> opTimes;             ///< by call, name and op

  double computeSec() const;
  double exposedSec() const; ///< collectives that kernels wait for
  double messageSec() const;
};

struct ProgramTime {
  double stepSec = 0;
  std::vector<StageTime> stages;
  size_t critical = 0; ///< the stage that is idle least
  /// In order of start; empty unless asked for. Calls of forward, backward and
  /// weight gradients, updates, messages, and collectives of data ranks, under
  /// the names of `simulate`.
  Timeline timeline;
};

/// Why a file's program cannot run on a cluster of this description, with what
/// to do about it, or "".
std::string checkCluster(const ArtifactData &data, const Machine &machine);

/// The devices of `machine` that the file's ranks are on. Where its plan was
/// made for a machine of this name and leaves spares in each innermost unit, so
/// do these.
Machine machineOf(const ArtifactData &data, const Machine &machine);

/// Simulates one training step, on `machineOf`. `checkCluster` must be empty;
/// `machine` is as described, whatever its number of devices. None, and the
/// reason in `error`, where stages wait for each other for ever.
std::optional<ProgramTime> timeProgram(const ArtifactData &data,
                                       const Machine &machine,
                                       const Profile &profile, bool keepEvents,
                                       std::string &error);

/// Collectives of one kind and axes, or messages: what was priced beside what
/// is sent. Of a rank in a step, mean of the stages.
struct ExchangeRow {
  std::string kind; ///< "all_reduce", ..., "message"
  std::string axes; ///< "tp", "pp dp"; of messages their channel
  double plannedCalls = 0, plannedBytes = 0, plannedSec = 0;
  double calls = 0, bytes = 0, sec = 0, exposedSec = 0;
};

/// What the file says of the plan's price (`pricedStep`).
struct PlannedTime {
  std::string cluster;
  double stepSec = 0;
};

/// A program beside its plan. Without `planned`, of which a plan that was not
/// searched or costed has none, nothing is planned in the rows.
struct Comparison {
  std::optional<PlannedTime> planned;
  std::vector<ExchangeRow> rows; ///< by kind and axes
};
Comparison compareWithPlan(const ArtifactData &data, const ProgramTime &time);

/// A screen of text, and the same as JSON.
std::string printText(const ArtifactData &data, const Machine &machine,
                      const ProgramTime &time);
std::string printJson(const ArtifactData &data, const ProgramTime &time);

} // namespace kerf

#endif // KERF_PROGRAMTIME_PROGRAMTIME_H
