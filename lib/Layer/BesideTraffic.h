//===- BesideTraffic.h - collectives beside a layer's ops -----------------===//
//
// Programs start a collective when its operand is made and wait for it where it
// is read: what is computed in between hides it.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LAYER_BESIDETRAFFIC_H
#define KERF_LAYER_BESIDETRAFFIC_H

#include "kerf/Layer/LayerTables.h"
#include "kerf/Layer/LayerTerms.h"

#include <array>
#include <vector>

namespace kerf {

/// Whether matmuls may hide a collective of the backward pass that brings a
/// value over an axis from a state: sums over tensor ranks, and gathers of what
/// the forward pass made. Cores of a CPU compute or copy.
bool mayHide(const LayerTerms &terms, int axis, int value, AxisState from);

/// Collectives of a layer and micro-batch that other ops may hide.
struct BesideTraffic {
  /// Of the expert axis, in the forward and in the backward pass, seconds.
  std::array<double, 2> expertSec = {};
  /// Recomputed ops that need no routed gradient, seconds.
  double besideAgainSec = 0;
  /// Sums of the expert axis that bring gradients of rows home, seconds; and
  /// recomputed ops beside these (`LayerFacts::besideHome`).
  double homeSec = 0, homeAgainSec = 0;

  /// A collective of the backward pass.
  struct Conversion {
    int value;    ///< what is brought into another state
    int reader;   ///< op that asks for it; -1: those that read it
    AxisState to; ///< that others read, too; kNotKept: any
    bool isAgain; ///< that op is recomputed
    bool mayHide;
    double sec;
  };
  std::vector<Conversion> conversions;
};

/// Notes in `point` what is hidden in each pass, and how much of it only weight
/// gradients that can be deferred hide.
void hideTraffic(const LayerTerms &terms, const LayerLayout &layout,
                 const BesideTraffic &traffic, LayerPoint &point);

} // namespace kerf

#endif // KERF_LAYER_BESIDETRAFFIC_H
