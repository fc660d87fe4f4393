//===- Schedule.h - the learning rate over steps ----------------*- C++ -*-===//
//
// Step t counts from 1. With peak P, minimum M, w warm-up steps, d the step at
// which decay ends, and x = (t - w) / (d - w) clamped to [0, 1]:
//
//   t <= w     P t / w
//   constant   P
//   linear     M + (P - M) (1 - x)
//   cosine     M + (P - M) (1 + cos(pi x)) / 2     (Loshchilov and Hutter 2017)
//   wsd        P until the last part f of the d steps, then linear to M
//              (warm-up, stable, decay: Hu et al. 2024)
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_SCHEDULE_H
#define KERF_TRAIN_SCHEDULE_H

#include <cstdint>
#include <string_view>

namespace kerf::runtime {

enum class Decay { Cosine, Linear, Constant, Wsd };

/// "cosine", ... to the decay; false for other names.
[[nodiscard]] bool parseDecay(std::string_view name, Decay &decay);
std::string_view decayName(Decay decay);

struct Schedule {
  Decay decay = Decay::Cosine;
  double peak = 3e-4;
  double minimum = 3e-5;
  int64_t warmupSteps = 0;
  int64_t decaySteps = 1;
  /// Part of `decaySteps` in which wsd decays, in (0, 1].
  double wsdPart = 0.2;

  /// The learning rate of step `step` >= 1.
  double at(int64_t step) const;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_SCHEDULE_H
