//===- Graph.h - an operation graph of cuDNN, computed in f64 -------------===//

#ifndef KERF_SIMULATOR_CUDNN_GRAPH_H
#define KERF_SIMULATOR_CUDNN_GRAPH_H

#include "../../../runtime/devices/cuda/Cudnn.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kerf::sim {

struct GraphTensor {
  int64_t id = 0, alignment = 0;
  cuda::cudnnDataType_t type = cuda::CUDNN_DATA_FLOAT;
  std::array<int64_t, 4> shape{}, strides{};
  bool isInner = false, isValue = false; ///< virtual; by value

  int64_t count() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  bool isGiven() const { return !isInner && !isValue; }
  /// "" or why it cannot be.
  std::string check() const;
};

enum class GraphKind { Pointwise, Matmul, Reduction, Reshape };

struct GraphOperation {
  GraphKind kind = GraphKind::Pointwise;
  int mode = 0; ///< cudnnPointwiseMode_t or cudnnReduceTensorOp_t
  int64_t axis = -1;
  GraphTensor x, b, t, y; ///< id 0: none

  /// "" or why it cannot be.
  std::string check() const;
};

/// Operations, each after those whose results it reads.
struct GraphProgram {
  std::vector<GraphOperation> operations;
  std::map<int64_t, GraphTensor> tensors; ///< by id

  /// Takes operations in any order. "" or why they are no graph.
  std::string take(std::vector<GraphOperation> given);
  /// Is a matmul added up in f32 in memory?
  bool addsInMemory() const;
  /// Bytes of workspace that its engine takes.
  int64_t workspaceBytes() const;
  /// Computes it; `memory` has the host's address of each tensor that is not
  /// inner.
  void run(const std::map<int64_t, uint8_t *> &memory) const;
};

int64_t bytesOf(cuda::cudnnDataType_t type);
/// Bytes from a tensor's first number to the end of its last.
int64_t extentOf(const GraphTensor &tensor);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_CUDNN_GRAPH_H
