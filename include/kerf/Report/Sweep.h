//===- Sweep.h - how many devices, and which ------------------------------===//
//
// One plan per machine and number of devices, side by side: what fits, what it
// costs, which are worth it.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_REPORT_SWEEP_H
#define KERF_REPORT_SWEEP_H

#include "kerf/Report/Explain.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace kerf {

/// Reads device counts: "8", "1,2,3", "8..1024x2" (8, 16, ... at most 1024),
/// "8..64+8" (steps of 8), and "8..1024", which takes every count if there are
/// at most 16 and doubles otherwise. Parts may be joined by commas; the result
/// ascends, each count once. A leading "devices=" is skipped. On failure
/// `error` says what was found and expected.
std::optional<std::vector<int64_t>> parseDeviceCounts(llvm::StringRef text,
                                                      std::string &error);

/// One machine with one number of devices.
struct SweepPoint {
  std::string machine;
  int64_t devices = 0;
  bool fits = false;
  /// No plan may have so many devices, or no run ends on them.
  bool isBarred = false;
  std::string reason; ///< why not
  std::string layout; ///< in short
  int64_t spares = 0;
  double stepSec = 0, mfu = 0;
  double ofIdeal = 0; ///< as in `TimePart`
  RunPart run;
  bool fewest = false; ///< the fewest devices of this machine that fit
  bool pareto = false; ///< no other is both sooner done and cheaper
  /// A smaller number of the same machine takes no longer; 0: none does.
  int64_t noFasterThan = 0;
  bool meets = false;    ///< the limits of the sweep, with the error band
  bool cheapest = false; ///< of those that meet them
};

/// What a run may take; 0: anything.
struct SweepLimits {
  double seconds = 0, price = 0;
  bool any() const { return seconds > 0 || price > 0; }
};

struct Sweep {
  std::string model;
  double tokens = 0; ///< of the run
  int64_t batch = 0, sequence = 0;
  SweepLimits limits;
  std::string currency;           ///< in which all that fits is priced; or ""
  std::vector<SweepPoint> points; ///< by machine as given, then by devices
};

struct SweepInput {
  const StepModel *step = nullptr;
  std::vector<Machine> machines; ///< as described; the counts replace theirs
  std::vector<int64_t> devices;  ///< ascending
  Profile profile;
  double tokens = 0; ///< 0: `kTokensPerParameter` per active one
  SweepLimits limits;
};

/// Plans one step on `devices` devices of a machine, which has just as many
/// units as hold these: the last one may be filled in part.
using PlanDevices =
    llvm::function_ref<SearchResult(const Machine &machine, int64_t devices)>;
Sweep sweep(const SweepInput &input, PlanDevices plan);

/// The table, at most 110 columns.
std::string printText(const Sweep &sweep, bool color = false);
std::string printJson(const Sweep &sweep);
/// A page for a browser: the decision, both charts, the tables.
std::string printHtml(const Sweep &sweep);
/// Two charts, logarithmic: tokens per second over devices beside the line of
/// perfect scaling; price (device-hours where prices are unknown or in several
/// currencies) over days, with the limits. One colour per machine.
std::string svgOf(const Sweep &sweep);

} // namespace kerf

#endif // KERF_REPORT_SWEEP_H
