//===- CudnnGraph.h - operation graphs of cuDNN and their plans -----------===//

#ifndef KERF_DEVICES_CUDA_CUDNNGRAPH_H
#define KERF_DEVICES_CUDA_CUDNNGRAPH_H

#include "Cudnn.h"

#include <array>
#include <initializer_list>

namespace kerf::cuda {

/// A descriptor of cuDNN's, destroyed with the object. Calls after a failed
/// one do nothing; `failure` is that of the first.
class CudnnDescriptor {
public:
  CudnnDescriptor(Cudnn &cudnn, cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor &&other);
  ~CudnnDescriptor();

  CudnnDescriptor &set(cudnnBackendAttributeName_t name,
                       cudnnBackendAttributeType_t type, int64_t count,
                       const void *values);
  CudnnDescriptor &set(cudnnBackendAttributeName_t name,
                       const CudnnDescriptor &value);
  CudnnDescriptor &set(cudnnBackendAttributeName_t name, int64_t value);
  /// No attributes can be set afterwards.
  CudnnDescriptor &finalize();

  cudnnBackendDescriptor_t raw() const { return descriptor; }

  std::string failure; ///< "" while all is well

private:
  void note(cudnnStatus_t status, const char *what);

  Cudnn &cudnn;
  cudnnBackendDescriptor_t descriptor = nullptr;
};

using CudnnShape = std::array<int64_t, 4>;

/// A number that a graph is given by value: f32, or i32.
struct CudnnConstant {
  int64_t id;
  union {
    float real;
    int32_t whole;
  };
};

/// Operations on tensors of four dimensions, [batch, head, row, column].
/// Operands of size 1 are repeated, and heads of which there are fewer: each
/// for as many heads in a row. Calls after a failed one do nothing.
class CudnnGraph {
public:
  explicit CudnnGraph(Cudnn &cudnn) : cudnn(cudnn) {}

  /// A tensor of a graph; 0: none.
  using Tensor = int64_t;

  /// One in memory, whose addresses are multiples of `alignment` bytes. Its
  /// id, for the addresses of an execution, is the tensor.
  Tensor given(cudnnDataType_t type, const CudnnShape &shape,
               const CudnnShape &strides, int64_t alignment);
  /// One that only the graph's operations see, dense or with these strides.
  Tensor inner(cudnnDataType_t type, const CudnnShape &shape);
  Tensor inner(cudnnDataType_t type, const CudnnShape &shape,
               const CudnnShape &strides);
  /// A number, of f32 or of i32.
  Tensor real(float value);
  Tensor whole(int32_t value);

  /// y = x b for matrices; returns y.
  Tensor matmul(Tensor x, Tensor b, Tensor y);
  /// y = mode(x, b) computed in `type`; `t` is the choice of a selection,
  /// `axis` that of modes that have one.
  Tensor pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t type, Tensor y,
                   Tensor x, Tensor b = 0, Tensor t = 0, int64_t axis = -1);
  /// y = the index of each element along `axis`; x gives the shape.
  Tensor index(int64_t axis, Tensor y, Tensor x);
  /// y = x, reduced where y is smaller.
  Tensor reduce(cudnnReduceTensorOp_t mode, Tensor y, Tensor x);
  /// y = x with another shape or other strides.
  Tensor reshape(Tensor y, Tensor x);

  /// Why the graph cannot be; "" when all is well.
  std::string failure;

private:
  friend struct CudnnChoice;
  Tensor add(cudnnDataType_t type, const CudnnShape &shape,
             const CudnnShape &strides, int64_t alignment,
             cudnnBackendAttributeName_t kind);
  const CudnnDescriptor &at(Tensor tensor) const { return tensors[tensor - 1]; }
  bool keep(CudnnDescriptor &descriptor);
  bool keepOperation(CudnnDescriptor &descriptor);

  Cudnn &cudnn;
  std::vector<CudnnDescriptor> tensors, operations;
  std::vector<CudnnConstant> constants;
};

/// A way to run a graph.
class CudnnPlan {
public:
  /// The first of cuDNN's list, in its order, that can run `graph` in
  /// `workspaceBytes`, with sums in an order that does not change or, where
  /// `anyOrder` is set, in any. Takes for the GPU the one of `cudnn.handle`,
  /// or, where that is null, the one that `gpu` describes. Null sets `refusal`.
  static std::shared_ptr<CudnnPlan> make(Cudnn &cudnn, CudnnGraph &graph,
                                         int64_t workspaceBytes, bool anyOrder,
                                         std::string &refusal,
                                         const CudnnDescriptor *gpu = nullptr);

  /// Enqueues it on `stream`. `ids` and `addresses` are those of the graph's
  /// given tensors.
  cudnnStatus_t execute(CUstream stream, std::vector<int64_t> ids,
                        std::vector<void *> addresses, void *workspace);

  int64_t engine = -1;
  int64_t workspaceBytes = 0; ///< that it uses

private:
  CudnnPlan(Cudnn &cudnn, CudnnDescriptor &&plan,
            std::vector<CudnnConstant> constants)
      : cudnn(cudnn), plan(std::move(plan)), constants(std::move(constants)) {}

  friend struct CudnnChoice;
  Cudnn &cudnn;
  CudnnDescriptor plan;
  std::vector<CudnnConstant> constants;
};

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_CUDNNGRAPH_H
