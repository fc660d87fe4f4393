//===- Slots.h - copies of slot buffers -----------------------------------===//

#ifndef KERF_LIB_SCHEDULE_SLOTS_H
#define KERF_LIB_SCHEDULE_SLOTS_H

#include "kerf/Dialect/Spmd/Spmd.h"

namespace kerf {

/// Gives the slot buffers of a program with a schedule "train" as many copies
/// as it holds micro-batches in at once: `slots` of the program, and an
/// attribute `slots` on buffers that need fewer. Functions that share a buffer
/// have one number for all of theirs, since a call takes one copy of each.
void setSlots(spmd::ProgramOp program);

} // namespace kerf

#endif // KERF_LIB_SCHEDULE_SLOTS_H
