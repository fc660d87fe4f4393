//===- Report.h - parts of the screen and of its JSON ---------------------===//

#ifndef KERF_REPORT_REPORT_H
#define KERF_REPORT_REPORT_H

#include "kerf/Report/Explain.h"
#include "kerf/Support/Json.h"
#include "kerf/Support/Screen.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <string>
#include <vector>

namespace kerf::report {

/// What is planned, in two lines: model, devices, number type; the step's size.
std::string printTitle(const PlanPart &plan);
/// "72.1 GiB of 74.5 GiB on stage 6, 2.4 GiB (3.2 %) to spare".
std::string fitWords(const MemoryPart &memory);
/// That less than 3 % is left, and what leaving more costs; "": enough is left.
std::string headroomWarning(const Explanation &explanation);
/// That ranks of an axis do the same work, since no op is split over it; "":
/// none do.
std::string idleWarning(const PlanPart &plan);
/// That pins say nothing of the plan (`PlanPart::idlePins`); "": none do.
std::string idlePinsWarning(const PlanPart &plan);
/// All that a person should know before the plan is used.
std::vector<std::string> warningsOf(const Explanation &explanation);
/// "linear lm_head of head, [1, 4096, 32064] x 2 B, 250.5 MiB of a micro-batch
/// on a rank; not split by tensor".
std::string bufferWords(const BufferRow &buffer);
/// "1,490,464 USD"; "" without a price.
std::string priceWords(const RunPart &run);
/// A price without its currency.
std::string moneyWords(double price);
/// "31.96 s to 36.78 s": where a time or a price is expected, in such words.
std::string spanWords(const ErrorBand &band, double value,
                      llvm::function_ref<std::string(double)> words);
/// "34.37 s (31.96 s to 36.78 s)"
std::string rangeWords(const ErrorBand &band, double value,
                       llvm::function_ref<std::string(double)> words);
/// "2.50 a device-hour (the cluster's price)", "3.00 a device-hour (--price)";
/// "" without a price. Of a device that ranks share each has a part: "0.0500 a
/// device-hour (the cluster's price, 0.100, shared by 2 ranks)".
std::string devicePriceWords(const RunPart &run);
/// Of a run that does not end (`RunPart::ends`).
std::string neverWords();
/// "1,490,464 (1,386,131 to 1,594,796) USD"; "" without a price.
std::string priceRange(const RunPart &run);
/// How far the best layout may be from this one.
std::string optimumWords(const Certificate &certificate);
/// How wrong the times may be, and how that is known.
std::string errorWords(const Explanation &explanation);

/// "tp 8 dp 4 pp 2 | 16 x 2 | 1f1b | zero 1"; ranks that hold all experts are
/// data ranks.
std::string layoutOf(const PlanPart &plan);
/// "16 micro-batches of 2 sequences per data rank, 1f1b".
std::string batchWords(const OuterChoice &outer);
/// Which devices are used, where that is not all in turn, and why.
std::vector<std::string> placementWords(const PlanPart &plan);

//===----------------------------------------------------------------------===//
// Tables that the screen and the page share; the first row of those of axes and
// stages is a heading
//===----------------------------------------------------------------------===//

/// "0-7, 64-71, ... (8 of each 64)": ranks of a stage, or of `stages` that
/// follow each other, of which `ranks` is the first: "4-11 (4 per stage)".
std::string rankWords(const StageRanks &ranks, int64_t stages = 1);
Table tableOfAxes(const PlanPart &plan);
Table tableOfStages(const PlanPart &plan);
Table tableOfKinds(const PlanPart &plan);
/// Which matmuls are in 8 bits, where the step is; else empty.
Table tableOfPrecision(const PlanPart &plan);
Table tableOfBuffers(llvm::ArrayRef<BufferRow> rows);
Table tableOfAlternatives(llvm::ArrayRef<AlternativeRow> rows, double stepSec);
/// Values of degrees that were not evaluated, and why not.
Table tableOfUntried(llvm::ArrayRef<AlternativeRow> rows);
Table tableOfRun(const RunPart &run);
Table tableOfSensitivity(const SensitivityPart &part);
Table tableOfTrust(const Explanation &explanation);

/// A part of a step: its seconds, and what else is known of it.
struct TimeLine {
  std::string name;
  double sec;
  std::string remark;
};
/// The lines of compute, communication and coordination.
std::array<std::vector<TimeLine>, 3> timeLines(const TimePart &time);
/// Their shares in tenths of a percent, which add to 1000.
std::array<std::vector<int64_t>, 3>
timeShares(const std::array<std::vector<TimeLine>, 3> &groups);
/// "12.3 %" of 123.
std::string tenthsWords(int64_t tenths);

/// How many plans the sensitivity rests on.
std::string rankedWords(const SensitivityPart &part);
/// "with 5 % of the memory free: 17.34 s (+0.1 %), ..."; "": not asked for.
std::string roomyWords(const RoomyPlan &roomy, double stepSec);

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
