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

// -----

// A variance as mean(x^2) - mean(x)^2 is that of a layer norm, too.
// CHECK-LABEL: @fast(
// CHECK: %[[E:.*]] = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
// CHECK-NEXT: %[[EMBEDDING:.*]] = kerf.embedding %tokens, %[[E]] : tensor<2x4xi32>, tensor<8x6xf32>
// CHECK-NEXT: %[[G:.*]] = kerf.param "g" init<ones> : tensor<6xf32>
// CHECK-NEXT: %[[B:.*]] = kerf.param "b" init<zeros> : tensor<6xf32>
// CHECK-NEXT: %[[LAYER_NORM:.*]] = kerf.layer_norm %[[EMBEDDING]], %[[G]] bias %[[B]] eps 1.000000e-03 : tensor<2x4x6xf32>, tensor<6xf32>, tensor<6xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x6xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[LAYER_NORM]], %[[PLACE]] : tensor<2x4x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2] : tensor<2x4x6xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @fast(tokens %tokens: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<8x6xf32>
  %g = kerf.param "g" init<ones> : tensor<6xf32>
  %b = kerf.param "b" init<zeros> : tensor<6xf32>
  %sixth = kerf.constant dense<0.16666666666666666> : tensor<2x4xf32>
  %sq = kerf.mul %x, %x : tensor<2x4x6xf32>
  %s2 = kerf.reduce sum %sq dims [2] : tensor<2x4x6xf32>
  %m2 = kerf.mul %s2, %sixth : tensor<2x4xf32>
  %s1 = kerf.reduce sum %x dims [2] : tensor<2x4x6xf32>
  %m1 = kerf.mul %s1, %sixth : tensor<2x4xf32>
  %mm = kerf.mul %m1, %m1 : tensor<2x4xf32>
  %var = kerf.sub %m2, %mm : tensor<2x4xf32>
  %eps = kerf.constant dense<1.0e-03> : tensor<2x4xf64>
  %narrow = kerf.cast %eps : tensor<2x4xf64> -> tensor<2x4xf32>
  %spread = kerf.add %var, %narrow : tensor<2x4xf32>
  %root = kerf.rsqrt %spread : tensor<2x4xf32>
  %r = kerf.broadcast %root dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %means = kerf.broadcast %m1 dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %centre = kerf.sub %x, %means : tensor<2x4x6xf32>
  %gain = kerf.broadcast %g dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %n0 = kerf.mul %centre, %r : tensor<2x4x6xf32>
  %n = kerf.mul %n0, %gain : tensor<2x4x6xf32>
  %bias = kerf.broadcast %b dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %y = kerf.add %n, %bias : tensor<2x4x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x6xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<2x4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// With its larger one with 0, and x (r g) in place of (x r) g.
// CHECK-LABEL: @fast_max(
// CHECK: %[[E:.*]] = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
// CHECK-NEXT: %[[EMBEDDING:.*]] = kerf.embedding %tokens, %[[E]] : tensor<2x4xi32>, tensor<8x6xf32>
// CHECK-NEXT: %[[G:.*]] = kerf.param "g" init<ones> : tensor<6xf32>
// CHECK-NEXT: %[[B:.*]] = kerf.param "b" init<zeros> : tensor<6xf32>
// CHECK-NEXT: %[[LAYER_NORM:.*]] = kerf.layer_norm %[[EMBEDDING]], %[[G]] bias %[[B]] eps 1.000000e-03 : tensor<2x4x6xf32>, tensor<6xf32>, tensor<6xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x6xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[LAYER_NORM]], %[[PLACE]] : tensor<2x4x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2] : tensor<2x4x6xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @fast_max(tokens %tokens: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<8x6xf32>
  %g = kerf.param "g" init<ones> : tensor<6xf32>
  %b = kerf.param "b" init<zeros> : tensor<6xf32>
  %sixth = kerf.constant dense<0.16666666666666666> : tensor<2x4xf32>
  %sq = kerf.mul %x, %x : tensor<2x4x6xf32>
  %s2 = kerf.reduce sum %sq dims [2] : tensor<2x4x6xf32>
  %m2 = kerf.mul %s2, %sixth : tensor<2x4xf32>
  %s1 = kerf.reduce sum %x dims [2] : tensor<2x4x6xf32>
  %m1 = kerf.mul %s1, %sixth : tensor<2x4xf32>
  %mm = kerf.mul %m1, %m1 : tensor<2x4xf32>
  %var = kerf.sub %m2, %mm : tensor<2x4xf32>
  %none = kerf.constant dense<0.0> : tensor<2x4xf32>
  %v0 = kerf.max %none, %var : tensor<2x4xf32>
  %eps = kerf.constant dense<1.0e-03> : tensor<2x4xf64>
  %narrow = kerf.cast %eps : tensor<2x4xf64> -> tensor<2x4xf32>
  %spread = kerf.add %v0, %narrow : tensor<2x4xf32>
  %root = kerf.rsqrt %spread : tensor<2x4xf32>
  %r = kerf.broadcast %root dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %means = kerf.broadcast %m1 dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %centre = kerf.sub %x, %means : tensor<2x4x6xf32>
  %gain = kerf.broadcast %g dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %rg = kerf.mul %r, %gain : tensor<2x4x6xf32>
  %n = kerf.mul %centre, %rg : tensor<2x4x6xf32>
  %bias = kerf.broadcast %b dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %y = kerf.add %n, %bias : tensor<2x4x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x6xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<2x4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A mean by another number is none of both.
// CHECK-LABEL: @fast_other(
// CHECK-NOT: kerf.layer_norm
// CHECK-NOT: kerf.rms_norm
// CHECK: kerf.return
kerf.model @fast_other(tokens %tokens: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<8x6xf32>
  %g = kerf.param "g" init<ones> : tensor<6xf32>
  %b = kerf.param "b" init<zeros> : tensor<6xf32>
  %sixth = kerf.constant dense<0.16666666666666666> : tensor<2x4xf32>
  %sq = kerf.mul %x, %x : tensor<2x4x6xf32>
  %s2 = kerf.reduce sum %sq dims [2] : tensor<2x4x6xf32>
  %m2 = kerf.mul %s2, %sixth : tensor<2x4xf32>
  %s1 = kerf.reduce sum %x dims [2] : tensor<2x4x6xf32>
  %fifth = kerf.constant dense<0.2> : tensor<2x4xf32>
  %m1 = kerf.mul %s1, %fifth : tensor<2x4xf32>
  %mm = kerf.mul %m1, %m1 : tensor<2x4xf32>
  %var = kerf.sub %m2, %mm : tensor<2x4xf32>
  %eps = kerf.constant dense<1.0e-03> : tensor<2x4xf64>
  %narrow = kerf.cast %eps : tensor<2x4xf64> -> tensor<2x4xf32>
  %spread = kerf.add %var, %narrow : tensor<2x4xf32>
  %root = kerf.rsqrt %spread : tensor<2x4xf32>
  %r = kerf.broadcast %root dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %means = kerf.broadcast %m1 dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %centre = kerf.sub %x, %means : tensor<2x4x6xf32>
  %gain = kerf.broadcast %g dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %n0 = kerf.mul %centre, %r : tensor<2x4x6xf32>
  %n = kerf.mul %n0, %gain : tensor<2x4x6xf32>
  %bias = kerf.broadcast %b dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %y = kerf.add %n, %bias : tensor<2x4x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x6xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<2x4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Nor is a variance with its sign turned.
// CHECK-LABEL: @fast_turned(
// CHECK-NOT: kerf.layer_norm
// CHECK-NOT: kerf.rms_norm
// CHECK: kerf.return
kerf.model @fast_turned(tokens %tokens: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<8x6xf32>
  %g = kerf.param "g" init<ones> : tensor<6xf32>
  %b = kerf.param "b" init<zeros> : tensor<6xf32>
  %sixth = kerf.constant dense<0.16666666666666666> : tensor<2x4xf32>
  %sq = kerf.mul %x, %x : tensor<2x4x6xf32>
  %s2 = kerf.reduce sum %sq dims [2] : tensor<2x4x6xf32>
  %m2 = kerf.mul %s2, %sixth : tensor<2x4xf32>
  %s1 = kerf.reduce sum %x dims [2] : tensor<2x4x6xf32>
  %m1 = kerf.mul %s1, %sixth : tensor<2x4xf32>
  %mm = kerf.mul %m1, %m1 : tensor<2x4xf32>
  %var = kerf.sub %mm, %m2 : tensor<2x4xf32>
  %eps = kerf.constant dense<100.0> : tensor<2x4xf64>
  %narrow = kerf.cast %eps : tensor<2x4xf64> -> tensor<2x4xf32>
  %spread = kerf.add %var, %narrow : tensor<2x4xf32>
  %root = kerf.rsqrt %spread : tensor<2x4xf32>
  %r = kerf.broadcast %root dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %means = kerf.broadcast %m1 dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %centre = kerf.sub %x, %means : tensor<2x4x6xf32>
  %gain = kerf.broadcast %g dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %n0 = kerf.mul %centre, %r : tensor<2x4x6xf32>
  %n = kerf.mul %n0, %gain : tensor<2x4x6xf32>
  %bias = kerf.broadcast %b dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %y = kerf.add %n, %bias : tensor<2x4x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x6xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<2x4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Nor is one whose squared means are those of other rows.
// CHECK-LABEL: @fast_rows(
// CHECK-NOT: kerf.layer_norm
// CHECK-NOT: kerf.rms_norm
// CHECK: kerf.return
kerf.model @fast_rows(tokens %tokens: tensor<6x6xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
  %x = kerf.embedding %tokens, %e : tensor<6x6xi32>, tensor<8x6xf32>
  %sixth = kerf.constant dense<0.16666666666666666> : tensor<6x6xf32>
  %sq = kerf.mul %x, %x : tensor<6x6x6xf32>
  %s2 = kerf.reduce sum %sq dims [2] : tensor<6x6x6xf32>
  %m2 = kerf.mul %s2, %sixth : tensor<6x6xf32>
  %s1 = kerf.reduce sum %x dims [2] : tensor<6x6x6xf32>
  %m1 = kerf.mul %s1, %sixth : tensor<6x6xf32>
  %mm = kerf.mul %m1, %m1 : tensor<6x6xf32>
  %mt = kerf.transpose %mm perm [1, 0] : tensor<6x6xf32>
  %var = kerf.sub %m2, %mt : tensor<6x6xf32>
  %eps = kerf.constant dense<10.0> : tensor<6x6xf32>
  %sp = kerf.add %var, %eps : tensor<6x6xf32>
  %root = kerf.rsqrt %sp : tensor<6x6xf32>
  %r = kerf.broadcast %root dims [0, 1] : tensor<6x6xf32> -> tensor<6x6x6xf32>
  %me = kerf.broadcast %m1 dims [0, 1] : tensor<6x6xf32> -> tensor<6x6x6xf32>
  %c = kerf.sub %x, %me : tensor<6x6x6xf32>
  %y = kerf.mul %c, %r : tensor<6x6x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<6x6x6xf32>
  %placed = kerf.mul %y, %place : tensor<6x6x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<6x6x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// An RMS norm whose gain multiplies the inverse root.
// CHECK-LABEL: @gain_inside(
// CHECK: %[[E:.*]] = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
// CHECK-NEXT: %[[EMBEDDING:.*]] = kerf.embedding %tokens, %[[E]] : tensor<2x4xi32>, tensor<8x6xf32>
// CHECK-NEXT: %[[G:.*]] = kerf.param "g" init<ones> : tensor<6xf32>
// CHECK-NEXT: %[[RMS_NORM:.*]] = kerf.rms_norm %[[EMBEDDING]], %[[G]] eps 0.000000e+00 : tensor<2x4x6xf32>, tensor<6xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<2x4x6xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RMS_NORM]], %[[PLACE]] : tensor<2x4x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2] : tensor<2x4x6xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @gain_inside(tokens %tokens: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<8x6xf32>
  %g = kerf.param "g" init<ones> : tensor<6xf32>
  %sq = kerf.mul %x, %x : tensor<2x4x6xf32>
  %s = kerf.reduce sum %sq dims [2] : tensor<2x4x6xf32>
  %six = kerf.constant dense<6.0> : tensor<2x4xf32>
  %m = kerf.div %s, %six : tensor<2x4xf32>
  %root = kerf.rsqrt %m : tensor<2x4xf32>
  %r = kerf.broadcast %root dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %gain = kerf.broadcast %g dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %rg = kerf.mul %gain, %r : tensor<2x4x6xf32>
  %y = kerf.mul %rg, %x : tensor<2x4x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<2x4x6xf32>
  %placed = kerf.mul %y, %place : tensor<2x4x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1, 2] : tensor<2x4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Two gains of one norm, as parallel blocks have: two norms.
// CHECK-LABEL: @two_gains(
// CHECK: %[[E:.*]] = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
// CHECK-NEXT: %[[EMBEDDING:.*]] = kerf.embedding %tokens, %[[E]] : tensor<2x4xi32>, tensor<8x6xf32>
// CHECK-NEXT: %[[G:.*]] = kerf.param "g" init<ones> : tensor<6xf32>
// CHECK-NEXT: %[[H:.*]] = kerf.param "h" init<ones> : tensor<6xf32>
// CHECK-NEXT: %[[RMS_NORM:.*]] = kerf.rms_norm %[[EMBEDDING]], %[[G]] eps 0.000000e+00 : tensor<2x4x6xf32>, tensor<6xf32>
// CHECK-NEXT: %[[RMS_NORM2:.*]] = kerf.rms_norm %[[EMBEDDING]], %[[H]] eps 0.000000e+00 : tensor<2x4x6xf32>, tensor<6xf32>
// CHECK-NEXT: %[[PLACE0:.*]] = kerf.param "place0" init<normal, 1.0> : tensor<2x4x6xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[RMS_NORM]], %[[PLACE0]] : tensor<2x4x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1, 2] : tensor<2x4x6xf32>
// CHECK-NEXT: %[[PLACE1:.*]] = kerf.param "place1" init<normal, 1.0> : tensor<2x4x6xf32>
// CHECK-NEXT: %[[MUL2:.*]] = kerf.mul %[[RMS_NORM2]], %[[PLACE1]] : tensor<2x4x6xf32>
// CHECK-NEXT: %[[SUM2:.*]] = kerf.reduce sum %[[MUL2]] dims [0, 1, 2] : tensor<2x4x6xf32>
// CHECK-NEXT: kerf.return %[[SUM]], %[[SUM2]] : tensor<f32>, tensor<f32>
kerf.model @two_gains(tokens %tokens: tensor<2x4xi32>) {
  %e = kerf.param "e" init<normal, 1.0> : tensor<8x6xf32>
  %x = kerf.embedding %tokens, %e : tensor<2x4xi32>, tensor<8x6xf32>
  %g = kerf.param "g" init<ones> : tensor<6xf32>
  %h = kerf.param "h" init<ones> : tensor<6xf32>
  %sq = kerf.mul %x, %x : tensor<2x4x6xf32>
  %s = kerf.reduce sum %sq dims [2] : tensor<2x4x6xf32>
  %six = kerf.constant dense<6.0> : tensor<2x4xf32>
  %m = kerf.div %s, %six : tensor<2x4xf32>
  %root = kerf.rsqrt %m : tensor<2x4xf32>
  %r = kerf.broadcast %root dims [0, 1] : tensor<2x4xf32> -> tensor<2x4x6xf32>
  %n = kerf.mul %x, %r : tensor<2x4x6xf32>
  %gain = kerf.broadcast %g dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %y = kerf.mul %n, %gain : tensor<2x4x6xf32>
  %other = kerf.broadcast %h dims [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %z = kerf.mul %n, %other : tensor<2x4x6xf32>
  %place0 = kerf.param "place0" init<normal, 1.0> : tensor<2x4x6xf32>
  %placed0 = kerf.mul %y, %place0 : tensor<2x4x6xf32>
  %loss0 = kerf.reduce sum %placed0 dims [0, 1, 2] : tensor<2x4x6xf32>
  %place1 = kerf.param "place1" init<normal, 1.0> : tensor<2x4x6xf32>
  %placed1 = kerf.mul %z, %place1 : tensor<2x4x6xf32>
  %loss1 = kerf.reduce sum %placed1 dims [0, 1, 2] : tensor<2x4x6xf32>
  kerf.return %loss0, %loss1 : tensor<f32>, tensor<f32>
}
