// On a GPU a thread has rows of few elements: short sums are taken again where they
// are needed, and cost no launch. Longer ones, and CPUs, are as in split.mlir.
// RUN: kerf-kernels %s --gpu sm_90 --print | FileCheck %s
// RUN: kerf-kernels %s --print | FileCheck %s --check-prefix=CPU

// The gradient of routing among 8 experts is one launch.
// CHECK: launch 0 1 2 3
// CHECK-NEXT: exec.kernel @few(
// CPU: exec.kernel @few.4(
exec.kernel @few(%l: tensor<2x24x8xf32>, %e: tensor<2x24x2xi32>, %d: tensor<2x24x2xf32>) -> tensor<2x24x8xf32> {
  %y = kerf.route_backward %l, %e, %d renormalize : tensor<2x24x8xf32>, tensor<2x24x2xi32>, tensor<2x24x2xf32>
  exec.yield %y : tensor<2x24x8xf32>
}

// Among 64, the chosen logits are stored.
// CHECK: exec.kernel @many.0(
// CHECK: exec.kernel @many.1(
exec.kernel @many(%l: tensor<2x24x64xf32>, %e: tensor<2x24x2xi32>, %d: tensor<2x24x2xf32>) -> tensor<2x24x64xf32> {
  %y = kerf.route_backward %l, %e, %d renormalize : tensor<2x24x64xf32>, tensor<2x24x2xi32>, tensor<2x24x2xf32>
  exec.yield %y : tensor<2x24x64xf32>
}

// A running sum of a few numbers is made by its reader; one that is a result is not.
// CHECK: exec.kernel @starts.0(
// CHECK-NOT: kerf.cumsum
// CHECK: exec.kernel @running(
// CHECK: kerf.cumsum
// CPU: exec.kernel @starts.1(
exec.kernel @starts(%n: tensor<4x8xi32>) -> tensor<4x8xi32> {
  %s = kerf.cumsum %n dim 1 : tensor<4x8xi32>
  %y = kerf.add %s, %n : tensor<4x8xi32>
  exec.yield %y : tensor<4x8xi32>
}
exec.kernel @running(%n: tensor<4x8xi32>) -> tensor<4x8xi32> {
  %s = kerf.cumsum %n dim 1 : tensor<4x8xi32>
  exec.yield %s : tensor<4x8xi32>
}

// Rows that are looked up once are made then; those of a table that is read more
// often are stored.
// CHECK: launch 0 1 2 3
// CHECK-NEXT: exec.kernel @once(
// CHECK: exec.kernel @often.0(
// CHECK: exec.kernel @often.1(
// CPU: exec.kernel @once.1(
exec.kernel @once(%a: tensor<32x64xf32>, %b: tensor<32x64xf32>, %i: tensor<32xi32>) -> tensor<32x64xf32> {
  %r = kerf.add %a, %b : tensor<32x64xf32>
  %y = kerf.gather %r, %i : tensor<32x64xf32>, tensor<32xi32>
  exec.yield %y : tensor<32x64xf32>
}
exec.kernel @often(%a: tensor<8x64xf32>, %b: tensor<8x64xf32>, %i: tensor<32xi32>) -> tensor<32x64xf32> {
  %r = kerf.add %a, %b : tensor<8x64xf32>
  %y = kerf.gather %r, %i : tensor<8x64xf32>, tensor<32xi32>
  exec.yield %y : tensor<32x64xf32>
}
