//===- Step.cpp - checks of commands --------------------------------------===//

#include "Step.h"

#include "kerf/Artifact/CpuWorkspace.h"

using namespace kerf::cpu;

bool Request::hasWorkspace(uint32_t index) {
  int64_t bytes =
      kerf_cpu_workspace(info.command->opcode, attrs(), device.pool.workers());
  return hasBytes(index, "workspace", bytes);
}
