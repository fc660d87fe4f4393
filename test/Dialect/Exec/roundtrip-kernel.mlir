// Kernels print as they were written, also in generic form.
// RUN: kerf-opt %s | FileCheck %s
// RUN: kerf-opt %s --mlir-print-op-generic | kerf-opt | FileCheck %s

// CHECK-LABEL: exec.kernel @add_bias(%arg0: tensor<4x16xf32>, %arg1: tensor<16xf32>) -> tensor<4x16xf32> attributes {inplace = {{\[\[}}0, 0]]}
// CHECK: exec.yield %{{.*}} : tensor<4x16xf32>
exec.kernel @add_bias(%x: tensor<4x16xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32>
    attributes {inplace = [[0, 0]]} {
  %c = kerf.broadcast %b dims [1] : tensor<16xf32> -> tensor<4x16xf32>
  %y = kerf.add %x, %c : tensor<4x16xf32>
  exec.yield %y : tensor<4x16xf32>
}

// Results may be none, one or many; arguments may carry attributes.
// CHECK-LABEL: exec.kernel @nothing()
// CHECK-NEXT: exec.yield
exec.kernel @nothing() {
  exec.yield
}

// CHECK-LABEL: exec.kernel @two(%arg0: tensor<4xf32> {test.range = [0, 1]}) -> (tensor<4xf32>, tensor<2x2xf32>)
// CHECK: exec.partial_reduce sum %arg0 by 1 : tensor<4xf32> -> tensor<2x2xf32>
exec.kernel @two(%x: tensor<4xf32> {test.range = [0, 1]}) -> (tensor<4xf32>, tensor<2x2xf32>) {
  %p = exec.partial_reduce sum %x by 1 : tensor<4xf32> -> tensor<2x2xf32>
  exec.yield %x, %p : tensor<4xf32>, tensor<2x2xf32>
}
