//===- MeasuredSteps.cpp - where steps of Kerf were timed -----------------===//
//
// One row for each kind of device and number type of docs/hardware.md and of
// docs/prediction-figures.md: what was run there, when, and how far the steps
// were from what is predicted. Whoever measures again changes the row and the
// page together.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/Explain.h"

#include "llvm/ADT/StringExtras.h"

using namespace kerf;

/// A chip in several number types stands in several rows.
static const MeasuredSteps kSteps[] = {
    {"h100", "one H100", "bf16", "five models", "2026-11-26", 0.06, 0.06,
     "more where 128 does not divide the width"},
    {"h100", "one H100", "fp8", "two models", "2026-11-27", 0.05, 0.05,
     "1.5 B and 3 B parameters took 2.7 and 4.4 % more"},
    {"h200", "one H200", "bf16", "five models", "2026-11-26", 0.06, 0.06,
     "more where 128 does not divide the width"},
    {"h200", "one H200", "fp8", "two models", "2026-11-26", 0.05, 0.2,
     "they took 13 and 19 % more, before casts became faster"},
};

static const MeasuredSteps kCpuSteps = {
    "",
    "2 cores of a CPU",
    "f32",
    "27 layouts of a llama",
    "2026-11-22",
    0.1,
    0.1,
    "4 % in the median, on a machine that was described by measuring it"};

std::vector<MeasuredSteps> kerf::measuredStepsOn(const Machine &machine,
                                                 const Profile &profile) {
  if (profile.name != "kerf")
    return {};
  if (machine.device.target == BackendTarget::Cpu)
    return {kCpuSteps};
  std::vector<MeasuredSteps> found;
  std::string name = llvm::StringRef(machine.device.name).lower();
  for (const MeasuredSteps &row : kSteps)
    if (llvm::StringRef(name).contains(row.chip))
      found.push_back(row);
  return found;
}
