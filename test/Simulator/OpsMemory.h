//===- OpsMemory.h - checked addresses of a warp's access -----------------===//

#ifndef KERF_SIMULATOR_OPSMEMORY_H
#define KERF_SIMULATOR_OPSMEMORY_H

#include "Machine.h"

namespace kerf::sim {

/// Where each lane's access is. Lanes that do not execute get the place of one
/// that does, so that loops over all lanes are safe.
struct Places {
  uint8_t *host[lanes];
  uint64_t address[lanes];
};

/// The address that `lane` computes, in the instruction's space.
uint64_t addressOf(const Warp &warp, const Inst &inst, int lane);

/// Checks the addresses of all lanes that execute. Throws Trap.
void resolve(Warp &warp, const Inst &inst, bool isWrite, Places &places);

/// Tells the race check, which must be on, what `lane` does. Throws Trap.
void checkRaces(Warp &warp, const Inst &inst, const Places &places, int lane,
                bool isWrite, bool isSame);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_OPSMEMORY_H
