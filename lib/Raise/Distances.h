//===- Distances.h - biases of scores by distance ---------------*- C++ -*-===//
//
// A score gets a number of the head times the distance of its key (ALiBi, Press
// et al. 2022). A softmax does not see what a whole row gets, so only the key's
// position counts, and a matmul of two more channels of queries and keys says
// that.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_RAISE_DISTANCES_H
#define KERF_LIB_RAISE_DISTANCES_H

#include "Masks.h"

namespace kerf {

/// What scores get: factor slope column, and something of the row.
struct DistanceBias {
  double factor = 1;
  /// By the scores' dimensions; absent: 1.
  std::optional<Seen> slope;
  /// Holds for columns up to the row alone.
  bool isCausal = false;
};

/// The form of a bias whose rows and columns are those of `dims`; none where it
/// is another function.
std::optional<DistanceBias> distanceBiasOf(const Seen &bias,
                                           const ScoreDims &dims);

/// Whether the bias may be one for some dimension of rows.
bool mayBeDistance(const Seen &bias, int64_t column);

/// Queries [B,S,H,D] and keys [B,S,G,D] with more channels, whose matmul is
/// factor slope[h] column; `slope` is [H] or null for 1.
void addDistanceChannels(PlainBuilder &p, mlir::Value &q, mlir::Value &k,
                         mlir::Value slope, double factor);

} // namespace kerf

#endif // KERF_LIB_RAISE_DISTANCES_H
