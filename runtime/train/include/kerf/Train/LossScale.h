//===- LossScale.h - the factor on the loss of f16 --------------*- C++ -*-===//
//
// f16 has no numbers below 6e-8, and gradients are often smaller: the loss is
// multiplied by a factor before it is differentiated. Too large a one makes
// gradients overflow; such a step changes nothing, on no rank, and the factor
// is halved. After a number of good steps in a row it is doubled (Micikevicius
// et al. 2018; numbers and order as torch.amp.GradScaler).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_LOSSSCALE_H
#define KERF_TRAIN_LOSSSCALE_H

#include <cstdint>
#include <string>

namespace kerf::runtime {

struct LossScale {
  double factor = 65536;
  int64_t interval = 2000;  ///< good steps before it grows; 0: it is fixed
  int64_t goodSteps = 0;    ///< in a row, since it grew
  int64_t skippedSteps = 0; ///< of the whole run
  /// Steps in a row, of this launch, whose loss was no number.
  int64_t lostSteps = 0;

  bool isDynamic() const { return interval > 0; }
  /// A dynamic factor so small that not it makes the steps overflow
  /// (`--min-loss-scale` of fairseq).
  bool isTooSmall() const { return isDynamic() && factor < 1e-4; }
  /// Whether the loss was no number so often that it is not one batch that
  /// overflows: the scale has no part in the loss. `made` steps of this launch
  /// are enough where there are no more.
  bool isLost(int64_t made) const {
    constexpr int64_t most = 5;
    return !isDynamic() || lostSteps >= (made < most ? made : most);
  }
  /// After a step with this norm of the gradients; false: it was skipped.
  bool note(double gradNorm, double loss);
  /// "dynamic, 65536 at first, doubled after 2,000 good steps".
  std::string describe() const;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_LOSSSCALE_H
