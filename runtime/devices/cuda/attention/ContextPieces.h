//===- ContextPieces.h - causal attention of a part of a sequence ---------===//

#ifndef KERF_DEVICES_CUDA_CONTEXTPIECES_H
#define KERF_DEVICES_CUDA_CONTEXTPIECES_H

#include "../../common/AttentionShape.h"

#include <string>
#include <vector>

namespace kerf::cuda {

/// Queries that see a run of keys: all of it, or, where `causal`, the last of
/// them all, and each before it one less.
struct ContextPiece {
  int64_t query, queries; ///< rows of the command
  int64_t key, keys;      ///< rows, or positions where keys are sorted
  bool causal;
  int64_t window; ///< 0: none
};

/// All that a part's queries see. Queries of no piece see nothing.
struct ContextPieces {
  bool sorted = false; ///< pieces count keys by position, not in memory
  std::vector<ContextPiece> list;
  std::string refusal; ///< why there are no such pieces; "": there are
};

/// Pieces of causal attention whose queries and keys begin at these rows of the
/// whole, in its order.
ContextPieces contextPieces(const device::AttentionShape &shape,
                            int64_t offsetQ, int64_t offsetK);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_CONTEXTPIECES_H
