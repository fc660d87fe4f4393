//===- Schedules.h - pipeline schedules by name ---------------------------===//

#ifndef KERF_SUPPORT_SCHEDULES_H
#define KERF_SUPPORT_SCHEDULES_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace kerf {

/// A pipeline schedule as users name it, and what a model's plan may ask of it.
struct ScheduleFacts {
  llvm::StringLiteral name;
  /// Weight gradients are made apart from input gradients, and may be deferred.
  bool splitsWeightGradient = false;
  /// A stage may hold several chunks of layers that do not follow each other.
  bool takesChunks = false;
};

/// All of them, in the order of `ScheduleKind` (kerf/Cost/Timeline.h).
inline constexpr ScheduleFacts kSchedules[] = {
    {"gpipe"},
    {"1f1b"},
    {"interleaved", /*splitsWeightGradient=*/false, /*takesChunks=*/true},
    {"zb-h1", /*splitsWeightGradient=*/true},
};

/// The schedule of that name, or null.
const ScheduleFacts *findSchedule(llvm::StringRef name);

/// "gpipe, 1f1b, interleaved or zb-h1", for errors and help.
std::string scheduleNames();

} // namespace kerf

#endif // KERF_SUPPORT_SCHEDULES_H
