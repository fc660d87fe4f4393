//===- Report.h - parts of the screen and of its JSON
//----------------------===//

#ifndef KERF_REPORT_REPORT_H
#define KERF_REPORT_REPORT_H

#include "kerf/Report/Explain.h"
#include "kerf/Support/Json.h"
#include "kerf/Support/Screen.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace kerf::report {

/// The part of the screen: plans that are the same share a row, at most ten
/// rows, few of one key; numbers of one degree that were not evaluated share
/// one, too.
std::string printAlternatives(llvm::ArrayRef<AlternativeRow> rows,
                              double stepSec, bool color);

/// The part of the screen: one row per figure.
std::string printSensitivity(const SensitivityPart &part, bool color);
/// One line below the alternatives; "" where it was not asked for.
std::string printRoomy(const RoomyPlan &roomy, double stepSec);

/// A number, or null where it is not finite (JSON has no other).
json::Value numberOf(double number);
json::Value stringsOf(llvm::ArrayRef<std::string> strings);

json::Value jsonOf(const SensitivityPart &part);
json::Value jsonOf(const RoomyPlan &roomy);
/// `run` as a JSON object; shared by the explanation and the sweep.
json::Value jsonOf(const RunPart &run);
/// A list of objects, as `/time/collectives` of an explanation and the field
/// `priced` of a plan file have it.
json::Value jsonOf(llvm::ArrayRef<PricedCollective> rows);

} // namespace kerf::report

#endif // KERF_REPORT_REPORT_H
