// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// x rsqrt(mean(x^2) + eps) g, as transformers writes it.
// CHECK-LABEL: @rms
// CHECK: %[[X:.*]] = kerf.embedding
// CHECK: %[[G:.*]] = kerf.param "norm.weight"
// CHECK: kerf.rms_norm %[[X]], %[[G]] eps 9.9999999999999995E-7
// CHECK-NOT: kerf.rsqrt
kerf.model @rms(tokens %tokens: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<8x6xf32>
  %g = kerf.param "norm.weight" init<ones> : tensor<6xf32>
  %square = kerf.mul %x, %x : tensor<2x4x6xf32>
  %sum = kerf.reduce sum %square dims [2] : tensor<2x4x6xf32>
  %column = kerf.reshape %sum : tensor<2x4xf32> -> tensor<2x4x1xf32>
  %sixth = kerf.constant dense<0.16666666666666666> : tensor<2x4x1xf32>
  %mean = kerf.mul %column, %sixth : tensor<2x4x1xf32>
  %wide = kerf.constant dense<1.0e-6> : tensor<2x4x1xf64>
  %eps = kerf.cast %wide : tensor<2x4x1xf64> -> tensor<2x4x1xf32>
  %spread = kerf.add %mean, %eps : tensor<2x4x1xf32>
  %root = kerf.rsqrt %spread : tensor<2x4x1xf32>
  %rows = kerf.reshape %root : tensor<2x4x1xf32> -> tensor<2x4xf32>
  %factor = kerf.broadcast %rows dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %normed = kerf.mul %x, %factor : tensor<2x4x6xf32>
  %gain = kerf.broadcast %g dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %y = kerf.mul %gain, %normed : tensor<2x4x6xf32>
  %z = kerf.mul %y, %y : tensor<2x4x6xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2] : tensor<2x4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Of x - mean(x), with a division by the root and a bias: a layer norm.
// CHECK-LABEL: @layer
// CHECK: kerf.layer_norm %{{.*}}, %{{.*}} bias %{{.*}} eps 1.000000e-03
// CHECK-NOT: kerf.sqrt
kerf.model @layer(tokens %tokens: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x4xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<8x4xf32>
  %g = kerf.param "norm.weight" init<ones> : tensor<4xf32>
  %b = kerf.param "norm.bias" init<zeros> : tensor<4xf32>
  %total = kerf.reduce sum %x dims [2] : tensor<2x4x4xf32>
  %quarter = kerf.constant dense<0.25> : tensor<2x4xf32>
  %mean = kerf.mul %total, %quarter : tensor<2x4xf32>
  %means = kerf.broadcast %mean dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x4xf32>
  %centre = kerf.sub %x, %means : tensor<2x4x4xf32>
  %square = kerf.mul %centre, %centre : tensor<2x4x4xf32>
  %sum = kerf.reduce sum %square dims [2] : tensor<2x4x4xf32>
  %four = kerf.constant dense<4.0> : tensor<2x4xf32>
  %variance = kerf.div %sum, %four : tensor<2x4xf32>
  %eps = kerf.constant dense<1.0e-3> : tensor<2x4xf64>
  %narrow = kerf.cast %eps : tensor<2x4xf64> -> tensor<2x4xf32>
  %spread = kerf.add %variance, %narrow : tensor<2x4xf32>
  %root = kerf.sqrt %spread : tensor<2x4xf32>
  %roots = kerf.broadcast %root dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x4xf32>
  %normed = kerf.div %centre, %roots : tensor<2x4x4xf32>
  %gain = kerf.broadcast %g dims [2] : tensor<4xf32> -> tensor<2x4x4xf32>
  %scaled = kerf.mul %normed, %gain : tensor<2x4x4xf32>
  %bias = kerf.broadcast %b dims [2] : tensor<4xf32> -> tensor<2x4x4xf32>
  %y = kerf.add %scaled, %bias : tensor<2x4x4xf32>
  %z = kerf.mul %y, %y : tensor<2x4x4xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2] : tensor<2x4x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Rows that stand elsewhere than their factor, here by a square batch whose
// dimensions are swapped, are no norm; nor is a mean by another number.
// CHECK-LABEL: @not_norms
// CHECK-NOT: kerf.rms_norm
kerf.model @not_norms(tokens %tokens: tensor<4x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x4xf32>
  %x = kerf.embedding %tokens, %e : tensor<4x4xi32>, tensor<8x4xf32>
  %square = kerf.mul %x, %x : tensor<4x4x4xf32>
  %sum = kerf.reduce sum %square dims [2] : tensor<4x4x4xf32>
  %quarter = kerf.constant dense<0.25> : tensor<4x4xf32>
  %mean = kerf.mul %sum, %quarter : tensor<4x4xf32>
  %root = kerf.rsqrt %mean : tensor<4x4xf32>
  %turned = kerf.transpose %root perm [1, 0] : tensor<4x4xf32>
  %factor = kerf.broadcast %turned dims [0, 1] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %y = kerf.mul %x, %factor : tensor<4x4x4xf32>
  %third = kerf.constant dense<0.33333> : tensor<4x4xf32>
  %other = kerf.mul %sum, %third : tensor<4x4xf32>
  %roots = kerf.rsqrt %other : tensor<4x4xf32>
  %factors = kerf.broadcast %roots dims [0, 1] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %z = kerf.mul %x, %factors : tensor<4x4x4xf32>
  %both = kerf.mul %y, %z : tensor<4x4x4xf32>
  %loss = kerf.reduce sum %both dims [0, 1, 2] : tensor<4x4x4xf32>
  kerf.return %loss : tensor<f32>
}
