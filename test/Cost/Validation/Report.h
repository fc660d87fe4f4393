//===- Report.h - figures as text and as JSON -----------------------------===//

#ifndef KERF_TEST_COST_VALIDATION_REPORT_H
#define KERF_TEST_COST_VALIDATION_REPORT_H

#include "Study.h"

namespace kerf::validate {

/// Tables for people: per source what was used and left out, a line per
/// setting, memory and out-of-memory figures.
std::string printFigures(const std::vector<SourceFigures> &figures);

/// What calibrations found, one line each.
std::string printCalibrations(const std::vector<Calibration> &calibrations);

/// The same numbers as JSON, errors in parts of one:
///   {"sources": [{"source", "rows", "used", "left_out": {REASON: ROWS},
///     "settings": {"untuned": {"rows", "mean", "median", "p90", "max", "bias",
///       "rank", "rank_inside", "contests", "regret_mean", "regret_max"}, ...},
///     "memory": {...}, "out_of_memory": {...}}],
///    "calibrations": [{"runtime", "machine", "setting", "runs", "offsets":
///    {}}]}
std::string printJson(const std::vector<SourceFigures> &figures,
                      const std::vector<Calibration> &calibrations,
                      const std::vector<JudgedJob> *rows);

/// One line per row: place, model, layout, measured and predicted.
std::string printRows(const std::vector<JudgedJob> &jobs);

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_REPORT_H
