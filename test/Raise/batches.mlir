// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// Batch and heads that were merged for the matmuls stand apart: the bias by
// head, the mask by position and both matmuls meet again.
// CHECK-LABEL: @merged
// CHECK: kerf.attention {{.*}} causal scale 5.000000e-01 : tensor<2x6x3x5xf32>, tensor<2x6x3x5xf32>, tensor<2x6x3x4xf32>
// CHECK-NOT: kerf.softmax
kerf.model @merged() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x3x6x4xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x3x6x4xf32>
  %a = kerf.reshape %q : tensor<2x3x6x4xf32> -> tensor<6x6x4xf32>
  %b = kerf.reshape %k : tensor<2x3x6x4xf32> -> tensor<6x6x4xf32>
  %t = kerf.transpose %b perm [0, 2, 1] : tensor<6x6x4xf32>
  %s = kerf.matmul %a, %t : tensor<6x6x4xf32>, tensor<6x4x6xf32>
  %half = kerf.constant dense<0.5> : tensor<6x6x6xf32>
  %scaled = kerf.mul %s, %half : tensor<6x6x6xf32>
  %slopes = kerf.constant dense<[0.5, 0.25, 0.125]> : tensor<3xf32>
  %each = kerf.broadcast %slopes dims [1] : tensor<3xf32> -> tensor<2x3x1x6xf32>
  %at = kerf.iota dim 3 : tensor<2x3x1x6xi32>
  %number = kerf.cast %at : tensor<2x3x1x6xi32> -> tensor<2x3x1x6xf32>
  %bias = kerf.mul %each, %number : tensor<2x3x1x6xf32>
  %flat = kerf.reshape %bias : tensor<2x3x1x6xf32> -> tensor<6x6xf32>
  %wide = kerf.broadcast %flat dims [0, 2] : tensor<6x6xf32> -> tensor<6x6x6xf32>
  %biased = kerf.add %scaled, %wide : tensor<6x6x6xf32>
  %scores = kerf.reshape %biased : tensor<6x6x6xf32> -> tensor<2x3x6x6xf32>
  %row = kerf.iota dim 2 : tensor<2x3x6x6xi32>
  %column = kerf.iota dim 3 : tensor<2x3x6x6xi32>
  %seen = kerf.compare le %column, %row : tensor<2x3x6x6xi32>
  %low = kerf.constant dense<-1.0e9> : tensor<2x3x6x6xf32>
  %masked = kerf.select %seen, %scores, %low : tensor<2x3x6x6xf32>
  %p = kerf.softmax %masked : tensor<2x3x6x6xf32>
  %merged = kerf.reshape %p : tensor<2x3x6x6xf32> -> tensor<6x6x6xf32>
  %y = kerf.matmul %merged, %b : tensor<6x6x6xf32>, tensor<6x6x4xf32>
  %z = kerf.mul %y, %y : tensor<6x6x4xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2] : tensor<6x6x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Dimensions that are merged otherwise stay.
// CHECK-LABEL: @others
// CHECK: kerf.matmul {{.*}} : tensor<6x6x4xf32>, tensor<6x4x6xf32>
kerf.model @others() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x3x6x4xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<3x2x6x4xf32>
  %a = kerf.reshape %q : tensor<2x3x6x4xf32> -> tensor<6x6x4xf32>
  %b = kerf.reshape %k : tensor<3x2x6x4xf32> -> tensor<6x6x4xf32>
  %t = kerf.transpose %b perm [0, 2, 1] : tensor<6x6x4xf32>
  %s = kerf.matmul %a, %t : tensor<6x6x4xf32>, tensor<6x4x6xf32>
  %z = kerf.mul %s, %s : tensor<6x6x6xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2] : tensor<6x6x6xf32>
  kerf.return %loss : tensor<f32>
}
