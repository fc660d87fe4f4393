// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// What was flattened keeps batch and sequence apart: matmuls, the router, the loss.
// CHECK-LABEL: @rows
// CHECK: %[[L:.*]] = kerf.linear %{{.*}} : tensor<2x4x8xf32>, tensor<6x8xf32>
// CHECK: %[[W:.*]], %[[E:.*]] = kerf.route %[[L]] k 2 renormalize : tensor<2x4x6xf32>
// CHECK: kerf.count_valid %targets : tensor<2x4xi32>
// CHECK: kerf.cross_entropy %{{.*}}, %targets normalizer %{{.*}} : tensor<2x4x9xf32>, tensor<2x4xi32>
// CHECK-NOT: kerf.top_k
kerf.model @rows(tokens %tokens: tensor<2x4xi32>, targets %targets: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<9x8xf32>
  %gate = kerf.param "gate" init<normal, 1.0> : tensor<6x8xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<9x8xf32>
  %flat = kerf.reshape %x : tensor<2x4x8xf32> -> tensor<8x8xf32>
  %l = kerf.linear %flat, %gate : tensor<8x8xf32>, tensor<6x8xf32>
  %p = kerf.softmax %l : tensor<8x6xf32>
  %v, %i = kerf.top_k %p k 2 : tensor<8x6xf32>
  %sum = kerf.reduce sum %v dims [1] : tensor<8x2xf32>
  %sums = kerf.broadcast %sum dims [0] : tensor<8xf32> -> tensor<8x2xf32>
  %w = kerf.div %v, %sums : tensor<8x2xf32>
  %slots = kerf.reduce sum %w dims [0] : tensor<8x2xf32>
  %all = kerf.reduce sum %slots dims [0] : tensor<2xf32>
  %relu = kerf.exp %flat : tensor<8x8xf32>
  %logits = kerf.linear %relu, %e : tensor<8x8xf32>, tensor<9x8xf32>
  %back = kerf.reshape %logits : tensor<8x9xf32> -> tensor<2x4x9xf32>
  %rows = kerf.reshape %back : tensor<2x4x9xf32> -> tensor<8x9xf32>
  %t = kerf.reshape %targets : tensor<2x4xi32> -> tensor<8xi32>
  %n = kerf.count_valid %t : tensor<8xi32>
  %back3 = kerf.reshape %rows : tensor<8x9xf32> -> tensor<2x4x9xf32>
  %rows3 = kerf.reshape %back3 : tensor<2x4x9xf32> -> tensor<8x9xf32>
  %loss = kerf.cross_entropy %rows3, %t normalizer %n : tensor<8x9xf32>, tensor<8xi32>
  kerf.return %loss, %all : tensor<f32>, tensor<f32>
}

// -----

// Views that cancel.
// CHECK-LABEL: @views
// CHECK: %[[X:.*]] = kerf.param "x"
// CHECK: %[[Y:.*]] = kerf.exp %[[X]]
// CHECK: kerf.slice %[[Y]] offsets [0, 1] sizes [4, 2]
// CHECK-NOT: kerf.concat
// CHECK-NOT: kerf.transpose
kerf.model @views() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4x6xf32>
  %t = kerf.transpose %x perm [1, 0] : tensor<4x6xf32>
  %tt = kerf.transpose %t perm [1, 0] : tensor<6x4xf32>
  %y = kerf.exp %tt : tensor<4x6xf32>
  %z = kerf.log %y : tensor<4x6xf32>
  %j = kerf.concat dim 1 %z, %y : tensor<4x6xf32>, tensor<4x6xf32>
  %s = kerf.slice %j offsets [0, 7] sizes [4, 2] : tensor<4x12xf32>
  %one = kerf.constant dense<1.0> : tensor<4x2xf32>
  %same = kerf.mul %s, %one : tensor<4x2xf32>
  %loss = kerf.reduce sum %same dims [0, 1] : tensor<4x2xf32>
  kerf.return %loss : tensor<f32>
}
