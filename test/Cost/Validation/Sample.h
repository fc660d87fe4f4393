//===- Sample.h - which runs to calibrate on ------------------------------===//

#ifndef KERF_TEST_COST_VALIDATION_SAMPLE_H
#define KERF_TEST_COST_VALIDATION_SAMPLE_H

#include "Rows.h"

namespace kerf::validate {

/// What tells runs apart for calibration: logarithms of parameters, devices,
/// degrees, micro-batch, micro-batches and sequence, and flags (recomputation,
/// flash attention, sharded weights).
std::vector<double> featuresOf(const Row &row);

/// Up to `count` of the points, each the farthest from those taken before it
/// (Gonzalez 1985), features scaled to [0, 1]; the first is the farthest from
/// the middle of all. Points equal to one taken are not taken. Ascending.
std::vector<size_t>
farthestPoints(const std::vector<std::vector<double>> &points, size_t count);

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_SAMPLE_H
