//===- CudnnAttention.h - attention as operation graphs of cuDNN ----------===//

#ifndef KERF_DEVICES_CUDA_CUDNNATTENTION_H
#define KERF_DEVICES_CUDA_CUDNNATTENTION_H

#include "../../common/AttentionShape.h"
#include "../CudnnGraph.h"

namespace kerf::cuda {

/// Attention or its gradient of a part of a command's batch rows and heads,
/// as cuDNN is asked for it.
struct FusedAttention {
  /// What a graph has in memory.
  /// DqSum: f32 [B,H,Sq,D], dense.
  enum Role {
    Q,
    K,
    V,
    Y,
    Lse,
    Dy,
    Dq,
    Dk,
    Dv,
    Delta,
    SegmentsQ,
    SegmentsK,
    DqSum
  };
  static constexpr int roles = DqSum + 1;

  device::AttentionShape shape; ///< b, h and g are those of a part
  bool backward = false;
  bool anyOrder = false; ///< dq is added up in f32 by atomic operations
  bool lse = true;       ///< it is wanted, forward
  /// A causal mask lets the last query see the last key, and a window ends
  /// there too; else the first one sees the first key.
  bool bottomRight = false;
  int64_t rowCount = 0;     ///< of lse and delta, from one head to the next
  int64_t rowAlignment = 4; ///< of parts of lse and delta, bytes, at most 16
  int64_t segmentAlignment = 4;

  /// Are this tensor's rows keys?
  static bool isOfKeys(int role) {
    return role == K || role == V || role == Dk || role == Dv;
  }
  /// Does a graph have this in memory?
  bool has(int role) const;
  /// Id of a role in graphs: roles are their first tensors, in order.
  int64_t idOf(int role) const;
  /// All that graphs and plans depend on.
  std::vector<int64_t> key(int64_t workspaceBytes) const;
  /// Adds the operations to an empty graph. `version` is cuDNN's (91900).
  void build(CudnnGraph &graph, size_t version) const;
};

/// Why cuDNN is not asked for attention like this, whatever its version; ""
/// where it is. What it refuses itself is not looked for.
std::string fusedRefusal(const FusedAttention &part);
/// The same of a version (91900) and a GPU (10 * major + minor) of which NVIDIA
/// tells wrong results, or sums whose order changes.
std::string fusedRefusal(const FusedAttention &part, size_t version,
                         int capability);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_CUDNNATTENTION_H
