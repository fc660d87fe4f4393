//===- CudnnGraph.cpp - operation graphs of cuDNN and their plans ---------===//

#include "CudnnGraph.h"

#include <utility>

using namespace kerf::cuda;

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

CudnnDescriptor::CudnnDescriptor(Cudnn &cudnn,
                                 cudnnBackendDescriptorType_t type)
    : cudnn(cudnn) {
  note(cudnn.createDescriptor(type, &descriptor), "make a descriptor");
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor &&other)
    : failure(std::move(other.failure)), cudnn(other.cudnn),
      descriptor(std::exchange(other.descriptor, nullptr)) {}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor)
    cudnn.destroyDescriptor(descriptor);
}

void CudnnDescriptor::note(cudnnStatus_t status, const char *what) {
  if (status != CUDNN_STATUS_SUCCESS)
    failure = std::string("cannot ") + what + ": " + cudnn.text(status);
}

CudnnDescriptor &CudnnDescriptor::set(cudnnBackendAttributeName_t name,
                                      cudnnBackendAttributeType_t type,
                                      int64_t count, const void *values) {
  if (failure.empty())
    note(cudnn.setAttribute(descriptor, name, type, count, values),
         "set an attribute");
  return *this;
}

CudnnDescriptor &CudnnDescriptor::set(cudnnBackendAttributeName_t name,
                                      const CudnnDescriptor &value) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor);
}

CudnnDescriptor &CudnnDescriptor::set(cudnnBackendAttributeName_t name,
                                      int64_t value) {
  return set(name, CUDNN_TYPE_INT64, 1, &value);
}

CudnnDescriptor &CudnnDescriptor::finalize() {
  if (failure.empty())
    note(cudnn.finalize(descriptor), "take a descriptor");
  return *this;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Keeps the failure of a part.
bool CudnnGraph::keep(CudnnDescriptor &descriptor) {
  if (failure.empty())
    failure = descriptor.failure;
  return failure.empty();
}

/// `kind`: what the tensor is besides (virtual, by value), or its alignment's
/// name where it is neither.
CudnnGraph::Tensor CudnnGraph::add(cudnnDataType_t type,
                                   const CudnnShape &shape,
                                   const CudnnShape &strides, int64_t alignment,
                                   cudnnBackendAttributeName_t kind) {
  if (!failure.empty())
    return 0;
  Tensor id = static_cast<Tensor>(tensors.size()) + 1;
  CudnnDescriptor tensor(cudnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  bool yes = true;
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.data())
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data())
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  if (kind != CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
    tensor.set(kind, CUDNN_TYPE_BOOLEAN, 1, &yes);
  tensor.finalize();
  if (!keep(tensor))
    return 0;
  tensors.push_back(std::move(tensor));
  return id;
}

CudnnGraph::Tensor CudnnGraph::given(cudnnDataType_t type,
                                     const CudnnShape &shape,
                                     const CudnnShape &strides,
                                     int64_t alignment) {
  return add(type, shape, strides, alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
}

CudnnGraph::Tensor CudnnGraph::inner(cudnnDataType_t type,
                                     const CudnnShape &shape,
                                     const CudnnShape &strides) {
  return add(type, shape, strides, 16, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

CudnnGraph::Tensor CudnnGraph::inner(cudnnDataType_t type,
                                     const CudnnShape &shape) {
  int64_t matrix = shape[2] * shape[3];
  return inner(type, shape, {shape[1] * matrix, matrix, shape[3], 1});
}

CudnnGraph::Tensor CudnnGraph::real(float value) {
  Tensor tensor = add(CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, 4,
                      CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  constants.push_back({tensor, {.real = value}});
  return tensor;
}

CudnnGraph::Tensor CudnnGraph::whole(int32_t value) {
  Tensor tensor = add(CUDNN_DATA_INT32, {1, 1, 1, 1}, {1, 1, 1, 1}, 4,
                      CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  constants.push_back({tensor, {.whole = value}});
  return tensor;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

bool CudnnGraph::keepOperation(CudnnDescriptor &descriptor) {
  descriptor.finalize();
  if (!keep(descriptor))
    return false;
  operations.push_back(std::move(descriptor));
  return true;
}

CudnnGraph::Tensor CudnnGraph::matmul(Tensor x, Tensor b, Tensor y) {
  if (!failure.empty())
    return 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  CudnnDescriptor matmul(cudnn, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  matmul.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .finalize();
  if (!keep(matmul))
    return 0;
  CudnnDescriptor operation(cudnn, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(x))
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b))
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(y))
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul);
  return keepOperation(operation) ? y : 0;
}

CudnnGraph::Tensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode,
                                         cudnnDataType_t type, Tensor y,
                                         Tensor x, Tensor b, Tensor t,
                                         int64_t axis) {
  if (!failure.empty())
    return 0;
  CudnnDescriptor kind(cudnn, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
  if (axis >= 0)
    kind.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  kind.finalize();
  if (!keep(kind))
    return 0;
  CudnnDescriptor operation(cudnn,
                            CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  if (b)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b));
  if (t)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(t));
  return keepOperation(operation) ? y : 0;
}

CudnnGraph::Tensor CudnnGraph::index(int64_t axis, Tensor y, Tensor x) {
  // Of floats, as NVIDIA's own graphs.
  return pointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, y, x, 0, 0,
                   axis);
}

CudnnGraph::Tensor CudnnGraph::reduce(cudnnReduceTensorOp_t mode, Tensor y,
                                      Tensor x) {
  if (!failure.empty())
    return 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  CudnnDescriptor kind(cudnn, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
           &mode)
      .finalize();
  if (!keep(kind))
    return 0;
  CudnnDescriptor operation(cudnn,
                            CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x))
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y));
  return keepOperation(operation) ? y : 0;
}

CudnnGraph::Tensor CudnnGraph::reshape(Tensor y, Tensor x) {
  if (!failure.empty())
    return 0;
  CudnnDescriptor operation(cudnn, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x))
      .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(y));
  return keepOperation(operation) ? y : 0;
}
