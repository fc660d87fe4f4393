// What needs several launches is cut into kernels of one each.
// RUN: kerf-kernels %s --print | FileCheck %s

// A sum over all elements: one partial sum per block, then their sum. Values:
// argument 0, result 1, temporary 2.
// CHECK: launch 0 2
// CHECK-NEXT: exec.kernel @sum_all.0(%{{.*}}: tensor<300x300xf32>) -> tensor<6x1xf32>
// CHECK-NEXT: exec.partial_reduce sum %{{.*}} by 16384
// CHECK: launch 2 1
// CHECK-NEXT: exec.kernel @sum_all.1(%{{.*}}: tensor<6x1xf32>) -> tensor<f32>
// CHECK-NEXT: kerf.reduce sum
exec.kernel @sum_all(%x: tensor<300x300xf32>) -> tensor<f32> {
  %s = kerf.reduce sum %x dims [0, 1] : tensor<300x300xf32>
  exec.yield %s : tensor<f32>
}

// Partial sums of bf16 are stored as f32.
// CHECK: exec.kernel @sum_bf16.0(%{{.*}}: tensor<300x300xbf16>) -> tensor<6x1xf32>
// CHECK: exec.kernel @sum_bf16.1(%{{.*}}: tensor<6x1xf32>) -> tensor<bf16>
exec.kernel @sum_bf16(%x: tensor<300x300xbf16>) -> tensor<bf16> {
  %s = kerf.reduce sum %x dims [0, 1] : tensor<300x300xbf16>
  exec.yield %s : tensor<bf16>
}

// A small sum, and a sum of each row, are done by one launch: nothing changes.
// CHECK: launch 0 1
// CHECK-NEXT: exec.kernel @small(
// CHECK: launch 0 1
// CHECK-NEXT: exec.kernel @rows(
exec.kernel @small(%x: tensor<30x30xf32>) -> tensor<f32> {
  %s = kerf.reduce sum %x dims [0, 1] : tensor<30x30xf32>
  exec.yield %s : tensor<f32>
}
exec.kernel @rows(%x: tensor<300x300xf32>) -> tensor<300x300xf32> {
  %y = kerf.softmax %x : tensor<300x300xf32>
  exec.yield %y : tensor<300x300xf32>
}

// The gradients of a norm share a launch: rows of the input's gradient, and
// partial sums of the gain's in chunks of the same rows.
// CHECK: launch 0 1 2 3 5
// CHECK-NEXT: exec.kernel @norm_backward.0({{.*}}) -> (tensor<64x48xf32>, tensor<4x48xf32>)
// CHECK: launch 5 4
// CHECK-NEXT: exec.kernel @norm_backward.1(%{{.*}}: tensor<4x48xf32>) -> tensor<48xf32>
exec.kernel @norm_backward(%x: tensor<64x48xf32>, %g: tensor<48xf32>, %dy: tensor<64x48xf32>)
    -> (tensor<64x48xf32>, tensor<48xf32>) {
  %dx = kerf.rms_norm_backward %x, %g, %dy eps 1.0e-5 : tensor<64x48xf32>, tensor<48xf32>
  %dg = kerf.rms_norm_weight_gradient %x, %dy eps 1.0e-5 : tensor<64x48xf32> -> tensor<48xf32>
  exec.yield %dx, %dg : tensor<64x48xf32>, tensor<48xf32>
}

// Sines and cosines that all heads read are stored as tables.
// CHECK: launch 2 3
// CHECK-NEXT: exec.kernel @rope.0() -> (tensor<{{.*}}x32xf32>, tensor<{{.*}}x32xf32>)
// CHECK: launch 0 2 3 1
// CHECK-NEXT: exec.kernel @rope.1(
exec.kernel @rope(%x: tensor<2x32x8x64xf32>) -> tensor<2x32x8x64xf32> {
  %y = kerf.rope %x theta 10000.0 : tensor<2x32x8x64xf32>
  exec.yield %y : tensor<2x32x8x64xf32>
}

// A pair of inplace stays with its launch; it goes where the argument is read
// by a later one.
// CHECK: exec.kernel @keeps.2({{.*}}attributes {inplace = {{\[\[}}0, 0]]}
exec.kernel @keeps(%x: tensor<300x300xf32>, %y: tensor<300x300xf32>) -> tensor<300x300xf32> attributes {inplace = [[0, 1]]} {
  %s = kerf.reduce sum %x dims [0, 1] : tensor<300x300xf32>
  %b = kerf.broadcast %s dims [] : tensor<f32> -> tensor<300x300xf32>
  %z = kerf.add %y, %b : tensor<300x300xf32>
  exec.yield %z : tensor<300x300xf32>
}
// CHECK: exec.kernel @drops.0
// CHECK-NOT: inplace
exec.kernel @drops(%x: tensor<300x300xf32>) -> (tensor<300x300xf32>, tensor<f32>) attributes {inplace = [[0, 0]]} {
  %y = kerf.exp %x : tensor<300x300xf32>
  %p = kerf.reduce sum %x dims [0, 1] : tensor<300x300xf32>
  %b = kerf.broadcast %p dims [] : tensor<f32> -> tensor<300x300xf32>
  %d = kerf.sub %x, %b : tensor<300x300xf32>
  %q = kerf.reduce max %d dims [0, 1] : tensor<300x300xf32>
  exec.yield %y, %q : tensor<300x300xf32>, tensor<f32>
}
