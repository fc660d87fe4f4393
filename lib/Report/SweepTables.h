//===- SweepTables.h - a sweep in rows and words --------------------------===//

#ifndef KERF_LIB_REPORT_SWEEPTABLES_H
#define KERF_LIB_REPORT_SWEEPTABLES_H

#include "kerf/Report/Report.h"
#include "kerf/Report/Sweep.h"

namespace kerf::report {

/// The points of a sweep, those of a machine together.
std::vector<llvm::ArrayRef<SweepPoint>> byMachine(const Sweep &sweep);
/// Steps of one machine, with what is to be known of each.
Table stepsTable(llvm::ArrayRef<SweepPoint> points);
/// What runs take of one machine, with its currency in the heading; no rows
/// where nothing fits.
Table runsTable(llvm::ArrayRef<SweepPoint> points);
/// What a device-hour of a machine costs in these numbers, and who says so; ""
/// where nothing fits or has a price.
std::string pricedAt(llvm::ArrayRef<SweepPoint> points);
/// Layouts of one machine, or why there is none.
Table layoutsTable(llvm::ArrayRef<SweepPoint> points);
/// "steps of 256 sequences of 4,096 tokens (1.05 M); a run of 161 B tokens"
std::string sizeWords(const Sweep &sweep);
/// What the limits leave, or what comes nearest to them; "" without limits.
std::string decisionWords(const Sweep &sweep);
/// What the columns are.
std::string columnWords();

} // namespace kerf::report

#endif // KERF_LIB_REPORT_SWEEPTABLES_H
