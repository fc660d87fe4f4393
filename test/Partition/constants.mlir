// RUN: kerfc %s --cluster=%source_root/examples/clusters/this-machine.yaml --devices=2 --pin dp=2,m=1 --emit=verify -o %t.mlir
// RUN: kerf-inspect verify %t.mlir | FileCheck %s --check-prefix=SAME
// RUN: FileCheck %s --implicit-check-not=spmd.buffer < %t.mlir

// SAME: [SUCCESS]

// What constants make is made in the function that reads it, in the part that
// is read; nothing is kept of it.

// CHECK-LABEL: spmd.program @constants
// CHECK: spmd.buffer @{{.*}} step : tensor<f32>
// CHECK: spmd.buffer @{{.*}} slot : tensor<2x4x16xf32>
// CHECK: spmd.buffer @{{.*}} slot : tensor<2x4x8xf32>
// CHECK: spmd.buffer @gradient.embed.weight
// CHECK: spmd.buffer @gradient.head.weight
// CHECK-LABEL: spmd.func @prologue
// CHECK: kerf.broadcast {{.*}} : tensor<4xi32> -> tensor<2x4xi32>
// CHECK: kerf.count_valid
// CHECK-LABEL: spmd.func @forward
// CHECK: kerf.broadcast {{.*}} : tensor<16xf32> -> tensor<2x4x16xf32>
// CHECK: kerf.cross_entropy
// CHECK-LABEL: spmd.func @backward
// CHECK: kerf.broadcast {{.*}} : tensor<16xf32> -> tensor<2x4x16xf32>
// CHECK: kerf.cross_entropy_backward
// CHECK-LABEL: spmd.func @update
kerf.model @constants(tokens %tokens: tensor<4x4xi32>, targets %targets: tensor<4x4xi32>)
    attributes {optimizer = #kerf.sgd<>} {
  %embed = kerf.param "embed.weight" init<normal, 0.02> : tensor<16x8xf32>
  %x = kerf.embedding %tokens, %embed : tensor<4x4xi32>, tensor<16x8xf32>
  %head = kerf.param "head.weight" init<normal, 0.02> : tensor<16x8xf32>
  %l = kerf.linear %x, %head : tensor<4x4x8xf32>, tensor<16x8xf32>
  %word = kerf.iota dim 0 : tensor<16xi32>
  %phase = kerf.cast %word : tensor<16xi32> -> tensor<16xf32>
  %turn = kerf.cos %phase : tensor<16xf32>
  %turns = kerf.broadcast %turn dims [2] : tensor<16xf32> -> tensor<4x4x16xf32>
  %logits = kerf.mul %l, %turns : tensor<4x4x16xf32>
  %spot = kerf.iota dim 0 : tensor<4xi32>
  %square = kerf.mul %spot, %spot : tensor<4xi32>
  %squares = kerf.broadcast %square dims [1] : tensor<4xi32> -> tensor<4x4xi32>
  %is_seen = kerf.compare ge %targets, %squares : tensor<4x4xi32>
  %none = kerf.constant dense<-100> : tensor<4x4xi32>
  %seen = kerf.select %is_seen, %targets, %none : tensor<4x4xi32>
  %count = kerf.count_valid %seen : tensor<4x4xi32>
  %loss = kerf.cross_entropy %logits, %targets normalizer %count
      : tensor<4x4x16xf32>, tensor<4x4xi32>
  kerf.return %loss : tensor<f32>
}
