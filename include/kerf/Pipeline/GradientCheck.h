//===- GradientCheck.h - gradients against central differences ------------===//

#ifndef KERF_PIPELINE_GRADIENTCHECK_H
#define KERF_PIPELINE_GRADIENTCHECK_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include <functional>
#include <map>
#include <string>

namespace kerf {

/// Told while gradients are checked; either may be empty.
struct GradientWatch {
  /// Before the first of so many.
  std::function<void(int64_t parameters)> begin;
  /// After each parameter, in the order of the names.
  std::function<void(const std::string &name, double error)> parameter;
};

/// Error of each parameter's gradient: the largest difference between
/// (loss(w + h) - loss(w - h)) / 2h and the gradient that differentiation
/// builds, over up to `samples` elements w, divided by the parameter's largest
/// gradient (at least 1e-3). All in f64, with the best of
/// three steps h from 1e-6 to 1e-4. Fails with a diagnostic
/// when the model cannot be differentiated or run.
mlir::FailureOr<std::map<std::string, double>>
checkGradients(ModelOp model, int64_t seed, int64_t samples,
               const GradientWatch &watch = {});

} // namespace kerf

#endif // KERF_PIPELINE_GRADIENTCHECK_H
