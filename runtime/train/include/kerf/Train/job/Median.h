//===- Median.h - the middle of some numbers --------------------*- C++ -*-===//

#ifndef KERF_TRAIN_JOB_MEDIAN_H
#define KERF_TRAIN_JOB_MEDIAN_H

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kerf::runtime {

/// The middle number, the larger of two; 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_MEDIAN_H
