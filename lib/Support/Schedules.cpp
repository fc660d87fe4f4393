#include "kerf/Support/Schedules.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;

const ScheduleFacts *kerf::findSchedule(llvm::StringRef name) {
  const auto *found = llvm::find_if(
      kSchedules, [&](const ScheduleFacts &own) { return own.name == name; });
  return found == std::end(kSchedules) ? nullptr : found;
}

std::string kerf::scheduleNames() {
  std::string text;
  size_t left = std::size(kSchedules);
  for (const ScheduleFacts &own : kSchedules) {
    text += own.name;
    --left;
    text += left > 1 ? ", " : left == 1 ? " or " : "";
  }
  return text;
}
